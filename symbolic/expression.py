"""The one place where expressions come in: text is never evaluated, and everything is real."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown

_NO_NUMBER = frozenset((sp.nan, sp.oo, -sp.oo, sp.zoo, sp.I))

#: Powers beyond are 0, 1 or infinite in double precision; exact ones would take all memory.
_LARGEST_EXPONENT = 10**6

#: Expressions without a value at one time, and what to write instead.
_UNEVALUATED = {
    sp.Integral: "make it a state whose rate is the integrand",
    sp.Sum: "write its terms, or use .doit()",
    sp.Product: "write its factors, or use .doit()",
    sp.Limit: "use .doit()",
}


def _ramp(x: sp.Expr, begin: sp.Expr, power: sp.Expr) -> sp.Expr:
    """Macaulay's bracket as cases, whose jump is seen; impulses stay as they are."""
    if not (power.is_Integer and power >= 0):
        return sp.SingularityFunction(x, begin, power)
    return sp.Piecewise(((x - begin) ** power, x >= begin), (0, True))


#: Functions of complex numbers, as they are for real arguments.
_OF_REAL: dict[type, Any] = {
    sp.re: lambda x: x,
    sp.im: lambda x: sp.S.Zero,
    sp.conjugate: lambda x: x,
    sp.arg: lambda x: sp.Piecewise((sp.pi, x < 0), (0, True)),
    sp.factorial: lambda x: sp.gamma(x + 1),
    sp.SingularityFunction: _ramp,
}


def real_expression(value: Any, what: str, hint: str = "") -> sp.Expr:
    """`value` as a real scalar expression: a SymPy expression or a number.

    what : its place in the words of the user, for messages. hint : what to write instead of what
    is no expression. Text is a name or an error, never code: SymPy would evaluate it as Python.

    Raises `ValueError` for text, relations, matrices, and what contains NaN, infinity, the
    imaginary unit or a number beyond double precision.
    """
    if isinstance(value, (str, bytes)):
        raise ValueError(
            f"{what} is text, {shown(value)}; text is not evaluated: write an "
            "expression of SymPy symbols"
        )
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    try:
        found = sp.sympify(value, strict=True)  # noqa: TID251
    except (sp.SympifyError, AttributeError, TypeError) as error:
        if hasattr(value, "_sympy_"):  # it raises its own message
            raise ValueError(f"{what}: {getattr(error, 'expr', error)}") from error
        raise ValueError(f"{what} is no expression: {shown(value)}{_also(hint)}") from error
    if isinstance(found, sp.MatrixBase) or getattr(found, "is_Matrix", False):
        raise ValueError(f"{what} is a matrix, {shown(found)}; give its entries one by one")
    if not isinstance(found, sp.Expr):
        raise ValueError(f"{what} is no expression: {shown(found)}{_also(hint)}")
    found = _real(found)
    for part in parts(found):
        _check(part, what)
    return found


def real_expressions(values: Mapping[Any, Any], what: str, hint: str = "") -> dict[Any, sp.Expr]:
    """The values of a mapping as expressions; `what` is followed by the key in messages."""
    return {key: real_expression(value, f"{what} {key}", hint) for key, value in values.items()}


def real_number(value: Any, what: str) -> float:
    """`value` as a finite number: of Python, NumPy or SymPy. Raises `ValueError` naming `what`."""
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    try:
        found = sp.nan if isinstance(value, (bool, np.bool_)) else real_expression(value, what)
    except ValueError:
        found = sp.nan
    if not found.is_number or found is sp.nan:
        raise ValueError(f"{what} must be a finite number, got {shown(value)}")
    return float(found)


def parts(e: sp.Basic, seen: set[sp.Basic] | None = None) -> Iterator[sp.Basic]:
    """Subexpressions with `e` itself, each once, without those that are `seen`; numbers as often as
    they occur, as SymPy takes long to find the hash of one."""
    seen = set() if seen is None else seen
    stack = [e]
    while stack:
        part = stack.pop()
        if part.is_Number:
            yield part
        elif part not in seen:
            seen.add(part)
            yield part
            stack.extend(part.args)


def parts_of(kinds: type | tuple[type, ...], *expressions: sp.Basic) -> set[Any]:
    """The parts of some expressions that are of these classes: `atoms` of SymPy, which goes through
    a part as often as it occurs, and in derived expressions that is often."""
    seen: set[sp.Basic] = set()
    return {part for e in expressions for part in parts(e, seen) if isinstance(part, kinds)}


def atoms_of(*expressions: sp.Expr) -> set[sp.Basic]:
    """Symbols, functions of time and derivatives of expressions."""
    return parts_of((sp.Symbol, AppliedUndef, sp.Derivative), *expressions)


class Evaluated(sp.Expr):
    """Expression that no formula says: a Python function of numbers, at some variables."""

    is_commutative = True
    is_extended_real = True

    @property
    def variables(self) -> tuple[sp.Expr, ...]:
        """Arguments that its value is taken at."""
        raise NotImplementedError

    @property
    def evaluated(self) -> Callable[..., Any]:
        """The function of numbers or arrays, real or complex, in place of the variables."""
        raise NotImplementedError


def _also(hint: str) -> str:
    return f"; {hint}" if hint else ""


def _real(e: sp.Expr) -> sp.Expr:
    """`e` with real and imaginary parts taken of what is real, which SymPy writes where a symbol
    was not declared real, and with functions written by others that numbers are known of."""
    if not any(type(part) in _OF_REAL for part in parts(e)):
        return e
    return e.replace(
        lambda part: type(part) in _OF_REAL, lambda part: _OF_REAL[type(part)](*part.args)
    )


def _check(part: sp.Basic, what: str) -> None:
    for kind, remedy in _UNEVALUATED.items():
        if isinstance(part, kind):
            raise ValueError(f"{what} contains {shown(part)}, which is not evaluated; {remedy}")
    if part in _NO_NUMBER:
        raise ValueError(f"{what} contains NaN, infinity or the imaginary unit")
    if isinstance(part, sp.Number) and not part.is_infinite and not _fits(part):
        raise ValueError(f"{what} contains {shown(part)}, a number beyond double precision")
    constant = isinstance(part, sp.Pow) and part.exp.is_number and part.exp.is_comparable
    if constant and abs(part.exp) > _LARGEST_EXPONENT:
        raise ValueError(
            f"{what} contains the exponent {shown(part.exp)}; in double precision "
            "powers beyond 10^6 are 0, 1 or infinite"
        )
    if isinstance(part, (sp.Function, sp.Pow)) and part.is_number:
        _check_constant(part, what)


def _check_constant(part: sp.Expr, what: str) -> None:
    """A function or power of numbers alone."""
    if part.is_extended_real is False:
        raise ValueError(f"{what} contains {shown(part)}, which is no real number")
    try:
        finite = math.isfinite(float(part))
    except OverflowError:
        finite = False
    except TypeError:  # a function without a value of its own, such as at_start
        return
    if not finite:
        raise ValueError(f"{what} contains {shown(part)}, a number beyond double precision")


def _fits(number: sp.Number) -> bool:
    try:
        value = float(number)
    except OverflowError:
        return False
    return math.isfinite(value) and (value != 0.0 or bool(number.is_zero))
