"""Expressions as text that `grammar` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.logic.boolalg import BooleanFunction

from kinesym.base.checks import shown
from kinesym.symbolic.function import applied
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.table import tabulated
from kinesym.symbolic.text.grammar import PLAIN, WORDS
from kinesym.symbolic.text.scalars import CONSTANTS, NAMES

#: Longest text of an expression; more has shared parts that are no intermediates.
_LONGEST = 4_000_000
#: Precedence of what needs no brackets; the others as in the grammar.
_ATOM = 9
#: Precedence of a power.
_POWER = 8
#: Precedence of what has a sign before it.
_SIGNED = 7
#: Precedence of a product.
_PRODUCT = 6
#: Precedence of a sum.
_SUM = 5
#: Precedence of a comparison.
_COMPARED = 4
#: Precedence of a negation.
_NOT = 3
#: Precedence of conditions that hold together.
_AND = 2
#: Precedence of conditions one of which holds.
_OR = 1
#: Signs of comparisons.
_SIGNS = {sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">=", sp.Eq: "==", sp.Ne: "!="}
_WORDS: dict[sp.Basic, str] = {e: name for name, e in CONSTANTS.items()}


class _Written(NamedTuple):
    text: str
    binds: int = _ATOM

    def within(self, binds: int) -> str:
        """The text where what stands binds at least so tightly, in brackets if it does not."""
        return self.text if self.binds >= binds else f"({self.text})"


def quoted(name: str) -> str:
    """A name as it stands in expressions."""
    plain = PLAIN.fullmatch(name) and name not in WORDS
    return name if plain else f"`{name.replace('`', '``')}`"


class Writer:
    """Writer of expressions. lookups : what tables and functions of users are called, by their
    records and definitions. delays : what stands for inputs that are delays. marks : names of
    further functions, by their classes."""

    def __init__(
        self,
        lookups: Mapping[sp.Basic, str],
        delays: Mapping[sp.Basic, str] | None = None,
        marks: Mapping[type, str] | None = None,
    ) -> None:
        self._lookups = lookups
        self._names = {**NAMES, **(marks or {})}
        self._known = {symbol: _Written(text) for symbol, text in (delays or {}).items()}

    def __call__(self, e: sp.Basic) -> str:
        """The text of an expression. Raises `ValueError` for what the text form does not have."""
        stack = [e]
        while stack:  # no recursion: expressions may be deep
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            missing = [part for part in self._parts(top) if part not in self._known]
            if missing:
                stack.extend(missing)
                continue
            written = self._written(stack.pop())
            if len(written.text) > _LONGEST:
                raise ValueError(
                    f"an expression takes more than {_LONGEST} letters: parts of it occur many "
                    "times; make them intermediates"
                )
            self._known[top] = written
        return self._known[e].text

    def _written(self, e: sp.Basic) -> _Written:
        if isinstance(e, sp.Derivative):
            return _Written(f"{quoted(name_of(e.expr))}'")
        if isinstance(e, sp.Symbol | AppliedUndef):
            if e == t:
                return _Written("t")
            if isinstance(e, AppliedUndef) and e.args != (t,):  # of itself, in a derivative
                return self._call(e.func.__name__, e.args)
            return _Written(quoted(name_of(e)))
        if e in _WORDS:
            return _Written(_WORDS[e])
        if isinstance(e, sp.Number | sp.core.numbers.Exp1):
            return _of_number(e)
        if isinstance(e, sp.Add):
            return self._sum(e.args)
        if isinstance(e, sp.Mul | sp.Pow):
            return self._product(e)
        return self._other(e)

    def _other(self, e: sp.Basic) -> _Written:
        """Text of what is called, compared or joined."""
        if isinstance(e, tabulated):
            orders = f"[{','.join(map(str, e.orders))}]" if any(e.orders) else ""
            return self._call(f"{self._lookups[e.record]}{orders}", e.variables)
        if isinstance(e, applied):
            return self._call(self._lookups[e.definition], e.variables)
        if isinstance(e, sp.Piecewise):
            every = [part for pair in e.args for part in (pair.cond, pair.expr)]
            if every[-2] == sp.true:
                del every[-2]
            return self._call("if", every)
        if isinstance(e, sp.ITE):
            return self._call("if", e.args)
        if type(e) in _SIGNS:
            left, right = (self._known[part].within(_SUM) for part in e.args)
            return _Written(f"{left} {_SIGNS[type(e)]} {right}", _COMPARED)
        if isinstance(e, sp.Not):
            return _Written(f"not {self._known[e.args[0]].within(_NOT)}", _NOT)
        if isinstance(e, sp.And | sp.Or):
            word, binds = ("and", _AND) if isinstance(e, sp.And) else ("or", _OR)
            texts = (self._known[part].within(binds + 1) for part in e.args)
            return _Written(f" {word} ".join(texts), binds)
        if type(e) in self._names:
            return self._call(self._names[type(e)], e.args)
        return self._known[self._parts(e)[0]]

    def _call(self, name: str, arguments: Sequence[sp.Basic]) -> _Written:
        texts = (self._known[part].text for part in arguments)
        return _Written(f"{name}({', '.join(texts)})")

    def _sum(self, terms: Sequence[sp.Basic]) -> _Written:
        """Terms, one without a minus first if there is one."""
        texts = [self._known[term].within(_PRODUCT) for term in terms]
        first = next((k for k, text in enumerate(texts) if not text.startswith("-")), 0)
        rest = texts[:first] + texts[first + 1 :]
        signed = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in rest)
        return _Written(texts[first] + "".join(signed), _SUM)

    def _product(self, e: sp.Expr) -> _Written:
        """A product or power as a fraction."""
        above: list[str] = []
        below: list[str] = []
        factors = e.args if isinstance(e, sp.Mul) else (e,)
        coefficient = sp.S.One
        if isinstance(factors[0], sp.Number):
            coefficient, *factors = factors
        size = abs(coefficient)
        top, bottom = size.as_numer_denom() if size.is_Rational else (size, 1)
        above += [] if top == 1 and size.is_Rational else [_of_number(top).text]
        below += [] if bottom == 1 else [str(bottom)]
        for factor in factors:
            base, exponent = factor.args if isinstance(factor, sp.Pow) else (factor, sp.S.One)
            falls = exponent.is_Rational and exponent.is_negative
            side = below if falls else above
            side.append(self._power(base, -exponent if falls else exponent))
        if isinstance(e, sp.Pow) and not below:
            return _Written(above[0], _ATOM if e.exp == sp.S.Half else _POWER)
        divided = "*".join(below) if len(below) < 2 else f"({'*'.join(below)})"
        whole = "*".join(above or ["1"]) + (f"/{divided}" if below else "")
        return _Written(f"-{whole}" if coefficient.is_negative else whole, _PRODUCT)

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> str:
        """A power as a factor."""
        if exponent == 1:
            return self._known[base].within(_SIGNED)
        if exponent == sp.S.Half:
            return f"sqrt({self._known[base].text})"
        known = self._known.get(exponent) or _of_number(exponent)
        return f"{self._known[base].within(_ATOM)}**{known.within(_SIGNED)}"

    def _parts(self, e: sp.Basic) -> tuple[sp.Basic, ...]:
        """The parts whose texts that of an expression is made of."""
        if isinstance(e, sp.Symbol | sp.Derivative | sp.Number) or e in _WORDS or e is sp.E:
            return ()
        if isinstance(e, AppliedUndef):
            return () if e.args == (t,) else e.args
        if isinstance(e, tabulated | applied):
            return e.variables
        if isinstance(e, sp.Piecewise):
            return tuple(part for pair in e.args for part in (pair.cond, pair.expr))
        if isinstance(e, sp.Add | sp.Mul | sp.Pow | sp.And | sp.Or | sp.Not | sp.ITE):
            return tuple(e.args)
        if isinstance(e, sp.UnevaluatedExpr):
            return tuple(e.args)
        if type(e) in self._names or type(e) in _SIGNS:
            return tuple(e.args)
        return (_formula(e),)


def _formula(e: sp.Basic) -> sp.Basic:
    """Meaning of a function that the text form does not have, as curves of muscles of SymPy."""
    found = e.doit(deep=False) if isinstance(e, sp.Function | BooleanFunction) else e
    if found == e and isinstance(e, BooleanFunction):
        found = e.to_nnf(simplify=False)
    if found == e:
        raise ValueError(
            f"{shown(e)} ({type(e).__name__}) has no text form; write it with elementary "
            "functions, or as ks.table or ks.function"
        )
    return found


def _of_number(e: sp.Expr) -> _Written:
    """A number; floats as Python writes them, which is exact."""
    if e is sp.E:
        return _Written("exp(1)")
    if isinstance(e, sp.Float):
        return _Written(repr(float(e)), _ATOM if not e < 0 else _SIGNED)
    if not isinstance(e, sp.Rational):
        raise ValueError(f"{e} has no text form")
    return _Written(str(e), _PRODUCT if e.q != 1 else _ATOM if e.p >= 0 else _SIGNED)
