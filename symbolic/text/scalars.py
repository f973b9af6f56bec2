"""Scalar functions and constants of the text form, by name; those that C computes have the name
that they have in `codegen/operations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sympy as sp
from sympy.codegen import cfunctions

from kinesym.symbolic.delayed import DelayedValue, shown_late

#: Any number of arguments.
_ANY = 1_000_000


class Scalar(NamedTuple):
    """A function: what makes it, and the least and the largest number of its arguments."""

    make: Callable[..., Any]
    least: int = 1
    most: int = 1


def cases(*arguments: Any) -> sp.Basic:
    """Cases: condition, value, condition, value, ..., and what holds otherwise; without that it is
    undefined there. Of three conditions it is one, the second or the third."""
    if len(arguments) == 3 and not isinstance(arguments[1], sp.Expr):
        return sp.ITE(*arguments)
    pairs = list(zip(arguments[1::2], arguments[::2], strict=False))
    if len(arguments) % 2:
        pairs.append((arguments[-1], sp.true))
    return sp.Piecewise(*pairs)


#: Functions of one number.
_OF_ONE = {
    **{
        f.__name__: f
        for f in (
            *(sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan),
            *(sp.sinh, sp.cosh, sp.tanh, sp.asinh, sp.acosh, sp.atanh),
            *(sp.sec, sp.csc, sp.cot, sp.sech, sp.csch, sp.coth, sp.sinc),
            *(sp.exp, sp.log, sp.erf, sp.erfc, sp.gamma, sp.loggamma),
            *(sp.sign, sp.floor, sp.ceiling, sp.frac),
            *(cfunctions.expm1, cfunctions.log1p),
            *(cfunctions.exp2, cfunctions.log2, cfunctions.log10),
        )
    },
    "abs": sp.Abs,
    "cbrt": cfunctions.Cbrt,
}


def remainder(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """a modulo b, as it stands: SymPy would take factors out, and numbers modulo others."""
    return sp.Mod(a, b, evaluate=b.is_zero or (a.is_number and b.is_number))


#: Functions of two numbers.
_OF_TWO = {
    "atan2": sp.atan2,
    "mod": remainder,
    "hypot": cfunctions.hypot,
    "polygamma": sp.polygamma,
    "besselj": sp.besselj,
    "bessely": sp.bessely,
    "beta": sp.beta,
    "shown_late": shown_late,
}

#: Names of functions by their classes.
NAMES: dict[type, str] = {
    **{made: name for name, made in (_OF_ONE | _OF_TWO).items() if isinstance(made, type)},
    sp.Mod: "mod",
    cfunctions.Sqrt: "sqrt",
    sp.Min: "min",
    sp.Max: "max",
    sp.Heaviside: "heaviside",
    DelayedValue: "delayed",
}

#: All functions, by name.
SCALARS: dict[str, Scalar] = {
    **{name: Scalar(made) for name, made in _OF_ONE.items()},
    **{name: Scalar(made, 2, 2) for name, made in _OF_TWO.items()},
    "sqrt": Scalar(sp.sqrt),
    "min": Scalar(sp.Min, 1, _ANY),
    "max": Scalar(sp.Max, 1, _ANY),
    "heaviside": Scalar(sp.Heaviside, 1, 2),
    "delayed": Scalar(DelayedValue, 2, 4),
    "if": Scalar(cases, 2, _ANY),
}

#: Constants by name. The base of natural logarithms is exp(1).
CONSTANTS: dict[str, sp.Basic] = {
    "pi": sp.pi,
    "EulerGamma": sp.EulerGamma,
    "GoldenRatio": sp.GoldenRatio,
    "Catalan": sp.Catalan,
    "true": sp.true,
    "false": sp.false,
}

#: Functions that SymPy works out for whole numbers, by as many operations as these are large.
COUNTING = frozenset(("gamma", "loggamma", "polygamma", "beta"))
