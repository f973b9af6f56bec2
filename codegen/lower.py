"""SymPy expressions become graph nodes; nothing after this stage touches SymPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce

import sympy as sp
from sympy.codegen import cfunctions
from sympy.functions.combinatorial.factorials import CombinatorialFunction
from sympy.logic.boolalg import BooleanFunction

from kinesym.codegen.graph import Graph
from kinesym.codegen.operations import OPERATIONS, Operation
from kinesym.codegen.own import own_node
from kinesym.codegen.tables import lowered_table
from kinesym.symbolic.delayed import shown_late
from kinesym.symbolic.expression import Evaluated
from kinesym.symbolic.function import applied
from kinesym.symbolic.table import Tables, tables_of, tabulated


class UnsupportedExpression(ValueError):
    """A SymPy object has no counterpart in the expression graph."""


class Lowering:
    """Translates SymPy expressions into `graph`, given the nodes of the symbols.

    `symbols` maps SymPy symbols, functions of time and their derivatives to nodes; intermediates
    are added with `define`. `tables` has the places of the numbers of tables. Every distinct
    subexpression is visited once.
    """

    def __init__(
        self, graph: Graph, symbols: Mapping[sp.Basic, int], tables: Tables | None = None
    ) -> None:
        self.graph = graph
        self._tables = tables_of(()) if tables is None else tables
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
            operands = _operands(top)
            missing = [a for a in operands if a not in self._known]
            if missing:
                stack.extend(missing)
            else:
                nodes = [self._known[a] for a in operands]
                self._known[stack.pop()] = self._convert(top, nodes)
        return self._known[expression]

    def _convert(self, e: sp.Basic, operands: Sequence[int]) -> int:
        g = self.graph
        if isinstance(e, (sp.Number, sp.NumberSymbol)):
            return g.const(float(e))
        if e in (sp.true, sp.false):
            return g.one if e is sp.true else g.zero
        if isinstance(e, tabulated):
            return lowered_table(g, self._tables, e, operands)
        if isinstance(e, applied):
            return own_node(g, e.definition, operands, Lowering)
        convert = _CONVERTERS.get(type(e))
        if convert is not None:
            return convert(g, e, *operands)
        return operands[0] if operands else g.const(float(e))


def _operands(e: sp.Basic) -> tuple[sp.Basic, ...]:
    """The subexpressions whose nodes the converter of `e` takes."""
    if isinstance(e, (sp.Number, sp.NumberSymbol)) or e in (sp.true, sp.false):
        return ()
    if isinstance(e, (sp.Derivative, sp.core.function.AppliedUndef)) or not e.args:
        raise _unsupported(e)
    if isinstance(e, sp.Piecewise):
        return tuple(part for pair in e.args for part in (pair.expr, pair.cond))
    if isinstance(e, sp.Pow) and isinstance(e.exp, sp.Number):
        return (e.base,)
    if isinstance(e, Evaluated):
        return e.variables
    if isinstance(e, sp.log) and (terms := _exponentials(e.args[0])):
        return tuple(exponent for _, exponent in terms)
    if type(e) in _CONVERTERS:
        return tuple(e.args)
    formula = _formula(e)
    if formula is None and not _is_value(e):
        raise _unsupported(e)
    return () if formula is None else (formula,)


def _is_value(e: sp.Basic) -> bool:
    """Whether it is a number that SymPy knows, such as zeta(3)."""
    return isinstance(e, sp.Expr) and e.is_number and sp.N(e).is_Float


def _unsupported(e: sp.Basic) -> UnsupportedExpression:
    named = isinstance(e, (sp.Symbol, sp.core.function.AppliedUndef, sp.Derivative))
    remedy = (
        "declare it"
        if named
        else "write it with elementary functions, or as ks.table or ks.function"
    )
    what = f"{'symbol' if named else 'term'} {e} ({type(e).__name__})"
    return UnsupportedExpression(f"{what} cannot be turned into C; {remedy}")


def _formula(e: sp.Basic) -> sp.Basic | None:
    """Definition of a function without a converter by others, as of the curves of muscles in
    `sympy.physics.biomechanics`, binomials, functions of cases and of logic; None for others, and
    for impulses."""
    if type(e) in _CONVERTERS or not isinstance(e, (sp.Function, BooleanFunction)):
        return None
    ways: list[Callable[[], sp.Basic]] = [lambda: e.doit(deep=False)]
    if isinstance(e, BooleanFunction):
        ways.append(lambda: e.to_nnf(simplify=False))
    if isinstance(e, (cfunctions.log2, cfunctions.log10, cfunctions.exp2, cfunctions.fma)):
        ways.append(lambda: sp.expand_func(e))
    if isinstance(e, CombinatorialFunction):
        ways += [lambda: sp.expand_func(e), lambda: e.rewrite(sp.gamma)]
    if isinstance(e, (sp.KroneckerDelta, sp.SingularityFunction)):
        ways.append(lambda: e.rewrite(sp.Piecewise))
    for way in ways:
        formula = way()
        if formula != e and not formula.has(type(e), sp.oo, sp.zoo, sp.nan):
            return formula
    return None


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


# -- converters: each (graph, expression, nodes of its operands) -> node --------------------------


def _log(g: Graph, e: sp.log, *nodes: int) -> int:
    """log(sum of c exp(x)) is m + log(sum of exp(log c + (x - m))) with m, the largest log c + x,
    which neither over- nor underflows; other logarithms are what they are."""
    terms = _exponentials(e.args[0])
    if not terms:
        return g.function("log", *nodes)
    pairs = [(g.const(shift), x) for (shift, _), x in zip(terms, nodes, strict=True)]
    largest = g.add(*pairs[0])
    for shift, x in pairs[1:]:
        largest = g.binary("max", largest, g.add(shift, x))
    parts = [g.function("exp", g.add(shift, g.sub(x, largest))) for shift, x in pairs]
    return g.add(largest, g.function("log", g.sum(parts)))


def _mul(g: Graph, e: sp.Mul, *factors: int) -> int:
    return reduce(g.mul, sorted(factors, key=lambda n: (n not in g.value, n)))


def _pow(g: Graph, e: sp.Pow, base: int, *exponent: int) -> int:
    return g.binary("pow", base, *exponent) if exponent else g.power(base, float(e.exp))


def _piecewise(g: Graph, e: sp.Piecewise, *nodes: int) -> int:
    result = g.const(math.nan)  # SymPy: undefined where no condition holds
    for value, condition in zip(nodes[-2::-2], nodes[::-2], strict=True):
        result = g.select(condition, value, result)
    return result


def _heaviside(g: Graph, e: sp.Heaviside, x: int, at_zero: int) -> int:
    above, below = g.binary("lt", g.zero, x), g.binary("lt", x, g.zero)
    at_zero = g.select(g.binary("eq", x, g.zero), at_zero, g.const(math.nan))
    return g.select(above, g.one, g.select(below, g.zero, at_zero))


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


#: Number of terms of the series of sin(x)/x for |x| < 1, with which it and its first derivatives
#: lose no digit.
_SINC_TERMS = 12


def _sinc(g: Graph, e: sp.sinc, x: int) -> int:
    square, series = g.mul(x, x), g.zero
    for k in range(_SINC_TERMS, -1, -1):
        term = g.const((-1.0) ** k / math.factorial(2 * k + 1))
        series = g.add(term, g.mul(square, series))
    near = g.binary("lt", square, g.one)
    return g.select(near, series, g.div(g.function("sin", x), x))


def _beta(g: Graph, e: sp.beta, x: int, y: int) -> int:
    """gamma(x) gamma(y)/gamma(x + y); of positive numbers by logarithms, which do not overflow."""
    both = g.add(x, y)
    logs = [g.function("loggamma", node) for node in (x, y, both)]
    gammas = [g.function("gamma", node) for node in (x, y, both)]
    positive = g.binary("lt", g.zero, g.binary("min", x, y))
    by_logs = g.function("exp", g.sub(g.add(*logs[:2]), logs[2]))
    return g.select(positive, by_logs, g.div(g.mul(*gammas[:2]), gammas[2]))


def _of_row(row: Operation) -> Callable[..., int]:
    def convert(g: Graph, e: sp.Basic, *nodes: int) -> int:
        if row.orders and not (e.args[0].is_Integer and int(e.args[0]) in row.orders):
            raise _unsupported(e)
        return g.apply(row.name, nodes)

    return convert


def _fold(name: str) -> Callable[..., int]:
    return lambda g, e, *nodes: reduce(partial(g.binary, name), nodes)


_CONVERTERS: dict[type, Callable[..., int]] = {
    **{row.of: _of_row(row) for row in OPERATIONS.values() if row.of is not None},
    sp.StrictGreaterThan: lambda g, e, a, b: g.binary("lt", b, a),
    sp.GreaterThan: lambda g, e, a, b: g.binary("le", b, a),
    sp.Ne: lambda g, e, a, b: g.no(g.binary("eq", a, b)),
    sp.Add: lambda g, e, *terms: g.sum(terms),
    sp.Mul: _mul,
    sp.Pow: _pow,
    sp.Piecewise: _piecewise,
    sp.Heaviside: _heaviside,
    sp.Min: _fold("min"),
    sp.Max: _fold("max"),
    sp.And: lambda g, e, *nodes: reduce(g.mul, nodes),
    sp.Or: _fold("max"),
    sp.Not: lambda g, e, x: g.no(x),
    sp.logic.boolalg.ITE: lambda g, e, c, a, b: g.select(c, a, b),
    sp.sec: lambda g, e, x: g.div(g.one, g.function("cos", x)),
    sp.csc: lambda g, e, x: g.div(g.one, g.function("sin", x)),
    sp.cot: lambda g, e, x: g.div(g.function("cos", x), g.function("sin", x)),
    sp.ceiling: lambda g, e, x: g.neg(g.function("floor", g.neg(x))),
    sp.coth: lambda g, e, x: g.div(g.one, g.function("tanh", x)),
    sp.sinc: _sinc,
    sp.sech: lambda g, e, x: _reciprocal(g, x, "cosh"),
    sp.csch: lambda g, e, x: _reciprocal(g, x, "sinh"),
    sp.frac: lambda g, e, x: g.sub(x, g.function("floor", x)),
    sp.log: _log,
    sp.factorial: lambda g, e, x: g.function("gamma", g.add(x, g.one)),
    sp.beta: _beta,
    sp.UnevaluatedExpr: lambda g, e, x: x,
    shown_late: lambda g, e, x, delay: x,
}
