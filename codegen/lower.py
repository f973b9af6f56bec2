"""SymPy expressions become graph nodes; nothing after this stage touches SymPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import sympy as sp

from kinesym.codegen.graph import UNARY, Graph

_FUNCTIONS: dict[type, str] = {
    sp.Abs: "abs",
    **{getattr(sp, name): name for name in UNARY - {"abs", "log", "sqrt"}},
}

_RELATIONS: dict[type, tuple[str, bool]] = {  # operation, operands exchanged
    sp.StrictLessThan: ("lt", False),
    sp.LessThan: ("le", False),
    sp.StrictGreaterThan: ("lt", True),
    sp.GreaterThan: ("le", True),
    sp.Equality: ("eq", False),
}


class UnsupportedExpression(ValueError):
    """A SymPy object has no counterpart in the expression graph."""


class Lowering:
    """Translates SymPy expressions into `graph`, given the nodes of the symbols.

    `symbols` maps SymPy symbols, functions of time and their derivatives to nodes; intermediates
    are added with `define`. Every distinct subexpression is visited once.
    """

    def __init__(self, graph: Graph, symbols: Mapping[sp.Basic, int]) -> None:
        self.graph = graph
        self._known: dict[sp.Basic, int] = dict(symbols)

    def define(self, intermediates: Iterable[tuple[sp.Basic, sp.Expr]]) -> None:
        """Make `symbol = expression` pairs known, in order."""
        for symbol, expression in intermediates:
            self._known[symbol] = self(expression)

    def __call__(self, expression: sp.Basic) -> int:
        """The node of `expression`.

        Raises `UnsupportedExpression`, naming the part that has no counterpart.
        """
        stack = [expression]
        while stack:  # an explicit stack: deep expressions must not hit Python's recursion limit
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            missing = [a for a in _operands(top) if a not in self._known]
            if missing:
                stack.extend(missing)
            else:
                self._known[top] = self._convert(stack.pop())
        return self._known[expression]

    def _convert(self, e: sp.Basic) -> int:
        g, known = self.graph, self._known
        if isinstance(e, (sp.Number, sp.NumberSymbol)):
            return g.const(float(e))
        if e in (sp.true, sp.false):
            return g.one if e is sp.true else g.zero
        convert = _CONVERTERS.get(type(e))
        if convert is not None:
            return convert(g, e, known)
        if type(e) in _FUNCTIONS:
            return g.function(_FUNCTIONS[type(e)], known[e.args[0]])
        if type(e) in _RELATIONS:
            name, swap = _RELATIONS[type(e)]
            a, b = (known[a] for a in e.args)
            return g.binary(name, b, a) if swap else g.binary(name, a, b)
        kind = "symbol" if isinstance(e, (sp.Symbol, sp.core.function.AppliedUndef)) else "term"
        raise UnsupportedExpression(
            f"{kind} {e} ({type(e).__name__}) cannot be turned into C; "
            "declare it, or write it with elementary functions"
        )


def _operands(e: sp.Basic) -> tuple[sp.Basic, ...]:
    if isinstance(e, (sp.Derivative, sp.core.function.AppliedUndef)) or not e.args:
        return ()
    if isinstance(e, sp.Piecewise):
        return tuple(part for pair in e.args for part in (pair.expr, pair.cond))
    if isinstance(e, sp.Pow) and isinstance(e.exp, sp.Number):
        return (e.base,)
    if isinstance(e, sp.log) and (terms := _exponentials(e.args[0])):
        return tuple(exponent for _, exponent in terms)
    return tuple(e.args)


def _exponentials(e: sp.Expr) -> list[tuple[float, sp.Expr]]:
    """(log c, x) of every term of a sum of c exp(x) with positive numbers c; empty if there are
    other terms."""
    if not isinstance(e, sp.Add) or not e.has(sp.exp):
        return []
    found: list[tuple[float, sp.Expr]] = []
    for term in e.args:
        factor, rest = term.as_coeff_Mul()
        if not factor.is_positive or not (rest == 1 or isinstance(rest, sp.exp)):
            return []
        found.append((float(sp.log(factor)), sp.S.Zero if rest == 1 else rest.args[0]))
    return found


def _log(g: Graph, e: sp.log, known: Mapping[sp.Basic, int]) -> int:
    """log(sum of c exp(x)) is m + log(sum of exp(log c + (x - m))) with m, the largest log c + x,
    which neither over- nor underflows; other logarithms are what they are."""
    terms = _exponentials(e.args[0])
    if not terms:
        return g.function("log", known[e.args[0]])
    pairs = [(g.const(shift), known[x]) for shift, x in terms]
    largest = g.add(*pairs[0])
    for shift, x in pairs[1:]:
        largest = g.binary("max", largest, g.add(shift, x))
    parts = [g.function("exp", g.add(shift, g.sub(x, largest))) for shift, x in pairs]
    return g.add(largest, g.function("log", g.sum(parts)))


def _add(g: Graph, e: sp.Add, known: Mapping[sp.Basic, int]) -> int:
    return g.sum([known[a] for a in e.args])


def _mul(g: Graph, e: sp.Mul, known: Mapping[sp.Basic, int]) -> int:
    nodes = sorted((known[a] for a in e.args), key=lambda n: (n not in g.value, n))
    product = nodes[0]
    for node in nodes[1:]:
        product = g.mul(product, node)
    return product


def _pow(g: Graph, e: sp.Pow, known: Mapping[sp.Basic, int]) -> int:
    if isinstance(e.exp, sp.Number):
        return g.power(known[e.base], float(e.exp))
    return g.binary("pow", known[e.base], known[e.exp])


def _piecewise(g: Graph, e: sp.Piecewise, known: Mapping[sp.Basic, int]) -> int:
    result = g.const(float("nan"))  # SymPy: undefined where no condition holds
    for pair in reversed(e.args):
        result = g.select(known[pair.cond], known[pair.expr], result)
    return result


def _heaviside(g: Graph, e: sp.Heaviside, known: Mapping[sp.Basic, int]) -> int:
    x = known[e.args[0]]
    at_zero = known[e.args[1]]
    return g.select(
        g.binary("lt", g.zero, x),
        g.one,
        g.select(
            g.binary("lt", x, g.zero),
            g.zero,
            g.select(g.binary("eq", x, g.zero), at_zero, g.const(math.nan)),
        ),
    )


def _reciprocal(g: Graph, x: int, name: str) -> int:
    """1/cosh or 1/sinh; far out 2 q/(1 + q^2) or 2 q/(1 - q^2) with q = exp(-|x|), whose
    derivatives do not overflow."""
    size = g.function("abs", x)
    q = g.function("exp", g.neg(size))
    square, sign = g.mul(q, q), g.one if name == "cosh" else g.function("sign", x)
    below = g.add(g.one, square) if name == "cosh" else g.sub(g.one, square)
    far = g.mul(sign, g.div(g.mul(g.const(2.0), q), below))
    near = g.div(g.one, g.function(name, x))
    return g.select(g.binary("lt", size, g.one), near, far)


#: Of the series of sin(x)/x for |x| < 1, where it and its first derivatives lose no digit.
_SINC_TERMS = 12


def _sinc(g: Graph, e: sp.sinc, known: Mapping[sp.Basic, int]) -> int:
    x = known[e.args[0]]
    square, series = g.mul(x, x), g.zero
    for k in range(_SINC_TERMS, -1, -1):
        term = g.const((-1.0) ** k / math.factorial(2 * k + 1))
        series = g.add(term, g.mul(square, series))
    near = g.binary("lt", square, g.one)
    return g.select(near, series, g.div(g.function("sin", x), x))


def _mod(g: Graph, e: sp.Mod, known: Mapping[sp.Basic, int]) -> int:
    x, y = (known[a] for a in e.args)
    rest = g.sub(x, g.mul(y, g.function("floor", g.quotient(x, y))))
    return g.select(g.binary("eq", y, g.zero), g.const(math.nan), rest)


def _fold(name: str) -> Callable[[Graph, sp.Basic, Mapping[sp.Basic, int]], int]:
    def convert(g: Graph, e: sp.Basic, known: Mapping[sp.Basic, int]) -> int:
        nodes = [known[a] for a in e.args]
        result = nodes[0]
        for node in nodes[1:]:
            result = g.mul(result, node) if name == "and" else g.binary(name, result, node)
        return result

    return convert


_CONVERTERS: dict[type, Callable[[Graph, sp.Basic, Mapping[sp.Basic, int]], int]] = {
    sp.Add: _add,
    sp.Mul: _mul,
    sp.Pow: _pow,
    sp.Piecewise: _piecewise,
    sp.Heaviside: _heaviside,
    sp.Min: _fold("min"),
    sp.Max: _fold("max"),
    sp.And: _fold("and"),
    sp.Or: _fold("max"),
    sp.Not: lambda g, e, known: g.no(known[e.args[0]]),
    sp.Ne: lambda g, e, known: g.no(g.binary("eq", *(known[a] for a in e.args))),
    sp.logic.boolalg.ITE: lambda g, e, known: g.select(*(known[a] for a in e.args)),
    sp.sec: lambda g, e, known: g.div(g.one, g.function("cos", known[e.args[0]])),
    sp.csc: lambda g, e, known: g.div(g.one, g.function("sin", known[e.args[0]])),
    sp.cot: lambda g, e, known: g.div(
        g.function("cos", known[e.args[0]]), g.function("sin", known[e.args[0]])
    ),
    sp.ceiling: lambda g, e, known: g.neg(g.function("floor", g.neg(known[e.args[0]]))),
    sp.Mod: _mod,
    sp.coth: lambda g, e, known: g.div(g.one, g.function("tanh", known[e.args[0]])),
    sp.sinc: _sinc,
    sp.sech: lambda g, e, known: _reciprocal(g, known[e.args[0]], "cosh"),
    sp.csch: lambda g, e, known: _reciprocal(g, known[e.args[0]], "sinh"),
    sp.frac: lambda g, e, known: g.sub(known[e.args[0]], g.function("floor", known[e.args[0]])),
    sp.log: _log,
    sp.UnevaluatedExpr: lambda g, e, known: known[e.args[0]],
    sp.atan2: lambda g, e, known: g.binary("atan2", known[e.args[0]], known[e.args[1]]),
}
