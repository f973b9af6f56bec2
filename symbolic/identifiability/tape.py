"""Straight-line program of expressions in few operations, which series modulo a prime have too.

Sums, products, reciprocals; and functions y of an argument a with dy = g da, where g is another
step: y = exp a has g = y, y = log a has g = 1/a, sin and cos have each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.codegen import cfunctions
from sympy.core.function import AppliedUndef

from kinesym.symbolic.expression import Evaluated
from kinesym.symbolic.function import applied
from kinesym.symbolic.names import written

#: Operations of an expression that is shown in a message, at most.
_SHOWN = 20
#: Largest whole exponent that becomes products.
_PRODUCTS = 8

_PIECES = (
    sp.Abs,
    sp.Max,
    sp.Min,
    sp.Piecewise,
    sp.sign,
    sp.Heaviside,
    sp.floor,
    sp.ceiling,
    sp.frac,
    sp.Mod,
    sp.DiracDelta,
)


@dataclass(frozen=True)
class Step:
    """One operation on earlier steps.

    kind : "number" (data: a fraction), "constant" (a random one, as pi), "variable" (data: its
    symbol), "add", "multiply", "invert", "chain": y_0 of the kind `data`, and dy = factor g da for
    args (a, g). moving : whether it changes with time.
    """

    kind: str
    args: tuple[int, ...] = ()
    data: Any = None
    factor: Fraction = Fraction(1)
    moving: bool = False


class TooLong(ValueError):
    """A program has more steps than it may have."""


@dataclass
class Tape:
    """Steps of a program, to which expressions are added; equal ones are added once.

    variables : symbols that are no intermediates: whether they change with time. what : what is
    said of the expressions in messages. most : steps, at most, if not 0; more raise `TooLong`.
    """

    variables: dict[sp.Basic, bool]
    what: str
    most: int = 0
    steps: list[Step] = field(default_factory=list)
    places: dict[sp.Basic, int] = field(default_factory=dict)

    def add(self, expression: sp.Expr) -> int:
        """The step of an expression."""
        stack = [expression]
        while stack:
            e = stack[-1]
            if e in self.places:
                stack.pop()
                continue
            e = self._rewritten(e)
            missing = [part for part in _parts(e) if part not in self.places]
            if missing:
                stack.extend(missing)
                continue
            if e not in self.places:
                self.places[e] = self._made(e)
            self.places[stack.pop()] = self.places[e]
        return self.places[expression]

    def _append(self, kind: str, *args: int, data: Any = None, **more: Any) -> int:
        moving = more.pop("moving", any(self.steps[a].moving for a in args if a < len(self.steps)))
        self.steps.append(Step(kind, args, data, more.pop("factor", Fraction(1)), moving))
        if len(self.steps) == self.most:
            raise TooLong(f"{self.what} has more than {self.most} operations")
        return len(self.steps) - 1

    def _rewritten(self, e: sp.Expr) -> sp.Expr:
        """An expression in functions that steps exist for; raises `ValueError` if it has none."""
        while type(e) in _REWRITTEN:
            e = _REWRITTEN[type(e)](*e.args)
        while isinstance(e, applied) and e.args[0].formula is not None:
            definition = e.args[0]
            e = definition.formula.xreplace(
                dict(zip(definition.arguments, e.args[1:], strict=True))
            )
        if isinstance(e, _PIECES):
            raise ValueError(
                f"{self.what} holds {written(e, _SHOWN)}, which has pieces: no power series says "
                "what can be known across them; put in the piece that holds, by "
                "model.substitute({...})"
            )
        if isinstance(e, Evaluated) or not (e.is_Atom or _known(e)):
            raise ValueError(
                f"{self.what} holds {written(e, _SHOWN)}, a function without an equation that "
                "integers modulo a prime obey; write it by exp, log, roots, sin and cos, or put "
                "a polynomial in its place, by model.substitute({...})"
            )
        return e

    def _made(self, e: sp.Expr) -> int:
        args = [self.places[part] for part in _parts(e)]
        if e in self.variables:
            return self._append("variable", data=e, moving=self.variables[e])
        if e.is_Float:
            return self._append("number", data=Fraction(repr(float(e))))
        if e.is_Rational:
            return self._append("number", data=Fraction(int(e.p), int(e.q)))
        if isinstance(e, sp.NumberSymbol):
            return self._append("constant", data=e)
        if e.is_Add:
            return self._append("add", *args)
        if e.is_Mul:
            return self._product(args)
        if e.is_Pow:
            return self._power(e, args)
        return self._function(e, *args)

    def _product(self, args: Sequence[int]) -> int:
        """Product, the constant factors first: one step for each factor but the first."""
        found, *rest = sorted(args, key=lambda a: self.steps[a].moving)
        for a in rest:
            found = self._append("multiply", found, a)
        return found

    def _power(self, e: sp.Pow, args: Sequence[int]) -> int:
        base, exponent = args[0], e.exp
        if exponent.is_Float:
            exponent = sp.Rational(str(Fraction(repr(float(exponent)))))
        if exponent.is_Integer and abs(exponent) <= _PRODUCTS:
            found = base
            for _ in range(abs(int(exponent)) - 1):
                found = self._append("multiply", found, base)
            return found if exponent > 0 else self._append("invert", found)
        if exponent.is_Rational:
            factor = Fraction(int(exponent.p), int(exponent.q))
            place, log = len(self.steps) + 2, self._log(base)
            assert log == place - 1
            return self._append("chain", log, place, base, data="power", factor=factor)
        key = sp.log(e.base)
        if key not in self.places:
            self.places[key] = self._log(base)
        return self._exponential(self._append("multiply", *sorted((args[1], self.places[key]))))

    def _log(self, a: int) -> int:
        return self._append("chain", a, self._append("invert", a), data="log")

    def _exponential(self, a: int) -> int:
        return self._append("chain", a, len(self.steps), data="exp")

    def _function(self, e: sp.Expr, a: int) -> int:
        if isinstance(e, sp.exp):
            return self._exponential(a)
        if isinstance(e, sp.log):
            return self._log(a)
        if isinstance(e, (sp.sin, sp.cos)):
            (inner,) = e.args
            place = len(self.steps)
            self._append("chain", a, place + 1, data="sin")
            self._append("chain", a, place, data="cos", factor=Fraction(-1))
            self.places[sp.sin(inner)], self.places[sp.cos(inner)] = place, place + 1
            return place + isinstance(e, sp.cos)
        square = self._append("multiply", a, a)
        one = self._append("number", data=Fraction(1))
        if isinstance(e, sp.atan):
            slope = self._append("invert", self._append("add", one, square))
            return self._append("chain", a, slope, data="atan")
        minus = self._append("multiply", self._append("number", data=Fraction(-1)), square)
        if isinstance(e, sp.erf):  # dy = 2 / sqrt(pi) exp(-a^2) da
            factor = self.add(2 / sp.sqrt(sp.pi))
            slope = self._append("multiply", factor, self._exponential(minus))
            return self._append("chain", a, slope, data="erf")
        below = self._append("add", one, minus)  # asin: dy = (1 - a^2)^(-1/2) da
        log = self._log(below)
        args = log, len(self.steps), below
        slope = self._append("chain", *args, data="power", factor=Fraction(-1, 2))
        return self._append("chain", a, slope, data="asin")


def _parts(e: sp.Expr) -> tuple[sp.Expr, ...]:
    """Parts of an expression that are steps: all but a constant exponent."""
    if isinstance(e, (AppliedUndef, sp.Derivative)):
        return ()
    if e.is_Pow and e.exp.is_Number:
        return (e.base,)
    return tuple(e.args)


def _known(e: sp.Expr) -> bool:
    """Whether there are steps for an expression of parts."""
    kinds = (sp.exp, sp.log, sp.sin, sp.cos, sp.atan, sp.asin, sp.erf)
    one = isinstance(e, kinds) and len(e.args) == 1
    return one or e.is_Add or e.is_Mul or e.is_Pow or isinstance(e, (AppliedUndef, sp.Derivative))


_E: Callable[..., sp.Expr] = sp.exp

#: Functions in terms of others.
_REWRITTEN: dict[type, Callable[..., sp.Expr]] = {
    sp.tan: lambda a: sp.sin(a) / sp.cos(a),
    sp.cot: lambda a: sp.cos(a) / sp.sin(a),
    sp.sec: lambda a: 1 / sp.cos(a),
    sp.csc: lambda a: 1 / sp.sin(a),
    sp.sinh: lambda a: (_E(a) - _E(-a)) / 2,
    sp.cosh: lambda a: (_E(a) + _E(-a)) / 2,
    sp.tanh: lambda a: (_E(2 * a) - 1) / (_E(2 * a) + 1),
    sp.coth: lambda a: (_E(2 * a) + 1) / (_E(2 * a) - 1),
    sp.sech: lambda a: 2 / (_E(a) + _E(-a)),
    sp.csch: lambda a: 2 / (_E(a) - _E(-a)),
    sp.acos: lambda a: sp.pi / 2 - sp.asin(a),
    sp.acot: lambda a: sp.atan(1 / a),
    sp.atan2: lambda y, x: sp.atan(y / x),  # but for a constant
    sp.asinh: lambda a: sp.log(a + sp.sqrt(a**2 + 1)),
    sp.acosh: lambda a: sp.log(a + sp.sqrt(a**2 - 1)),
    sp.atanh: lambda a: sp.log((1 + a) / (1 - a)) / 2,
    sp.sinc: lambda a: sp.sin(a) / a,
    sp.erfc: lambda a: 1 - sp.erf(a),
    sp.core.numbers.Exp1: lambda: _E(sp.Integer(1), evaluate=False),
    sp.core.numbers.GoldenRatio: lambda: (1 + sp.sqrt(5)) / 2,
    cfunctions.log1p: lambda a: sp.log(1 + a),
    cfunctions.expm1: lambda a: _E(a) - 1,
    cfunctions.log2: lambda a: sp.log(a) / sp.log(2),
    cfunctions.log10: lambda a: sp.log(a) / sp.log(10),
    cfunctions.exp2: lambda a: sp.Integer(2) ** a,
    cfunctions.Sqrt: sp.sqrt,
    cfunctions.Cbrt: sp.cbrt,
    cfunctions.hypot: lambda a, b: sp.sqrt(a**2 + b**2),
    cfunctions.fma: lambda a, b, c: a * b + c,
}
