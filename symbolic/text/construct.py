"""Expressions of SymPy from their parts, as people write them: numbers are put together, products
stay products; what would not end, or is no finite number, is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

import sympy as sp
from sympy.logic.boolalg import Boolean

from kinesym.base.checks import shown
from kinesym.symbolic.text.scalars import COUNTING, SCALARS

#: Powers beyond are 0, 1 or infinite in double precision.
_LARGEST_EXPONENT = 10**6
#: Binary digits of a numerator or denominator; double precision ends at 1024.
_DIGITS = 2200
#: The gamma function of larger numbers is beyond double precision.
_LARGEST_GAMMA = 171
#: Functions whose first argument is an order.
_OF_ORDER = ("polygamma", "besselj", "bessely")
#: Largest order, beyond what the code generator takes.
_LARGEST_ORDER = 100


class Value(NamedTuple):
    """An expression, and whether it consists of numbers alone."""

    e: sp.Basic
    constant: bool = False


def number(text: str) -> Value:
    """The number of a literal: whole, or a float. Raises `ValueError` for one beyond double
    precision."""
    if len(text) > 400:
        raise ValueError(f"a number of {len(text)} digits; double precision has 17")
    plain = float(text)
    zero = not any(digit in "123456789" for digit in text.lower().partition("e")[0])
    if math.isinf(plain) or (plain == 0.0 and not zero):
        raise ValueError(f"{shown(text)} is a number beyond double precision")
    return Value(sp.Integer(int(text)) if text.isdigit() else sp.Float(plain), True)


def total(terms: Sequence[Value]) -> Value:
    """The sum of terms."""
    return _made(terms, sp.Add, *map(as_number, terms))


def product(factors: Sequence[Value]) -> Value:
    """The product of factors; a number times a sum stays one."""
    given = [as_number(factor) for factor in factors]
    plain = [e for e in given if isinstance(e, sp.Number)]
    others = [e for e in given if not isinstance(e, sp.Number)]
    if len(others) != 1 or not plain:
        return _made(factors, sp.Mul, *given)
    more, rest = others[0].as_coeff_Mul()
    scale = reduce(mul, plain, more)
    if rest.is_Add and scale not in (0, 1):
        return Value(sp.Mul(scale, rest, evaluate=False), all(f.constant for f in factors))
    return _made(factors, sp.Mul, scale, rest)


def negative(value: Value) -> Value:
    """Minus a value."""
    return product((Value(sp.S.NegativeOne, True), value))


def inverse(value: Value) -> Value:
    """One over a value."""
    return power(value, Value(sp.S.NegativeOne, True))


def power(base: Value, exponent: Value) -> Value:
    """A power. Raises `ValueError` for numbers that take all memory."""
    b, e = as_number(base), as_number(exponent)
    if isinstance(e, sp.Number):
        if abs(e) > _LARGEST_EXPONENT:
            raise ValueError(
                f"the exponent {shown(e)}; in double precision powers beyond 10^6 are 0, 1 or "
                "infinite"
            )
        factor = b.as_coeff_Mul()[0]
        if isinstance(factor, sp.Rational):
            digits = max(abs(factor.p), factor.q).bit_length() - 1
            if digits * abs(e) > _DIGITS:
                raise ValueError(f"({shown(b)})**{e} is a number beyond double precision")
    return _made((base, exponent), sp.Pow, b, e)


def called(name: str, arguments: Sequence[Value]) -> Value:
    """A function of `SCALARS` at arguments."""
    if name == "if" and len(arguments) == 3 and _is_condition(arguments[1].e):
        given: list[Any] = [_condition(value) for value in arguments]
    elif name == "if":
        pick: tuple[Callable[[Value], Any], ...] = (_condition, as_number)
        last = len(arguments) - 1
        given = [
            (as_number if k == last and k % 2 == 0 else pick[k % 2])(value)
            for k, value in enumerate(arguments)
        ]
    else:
        given = [as_number(value) for value in arguments]
    if name in COUNTING and all(value.constant for value in arguments):
        given = [
            sp.Float(e) if isinstance(e, sp.Integer) and abs(e) > _LARGEST_GAMMA else e
            for e in given
        ]
    if name in _OF_ORDER and isinstance(given[0], sp.Number) and abs(given[0]) > _LARGEST_ORDER:
        raise ValueError(
            f"{name} of order {shown(given[0])}; orders up to {_LARGEST_ORDER} are taken"
        )
    return _made(arguments, SCALARS[name].make, *given)


def compared(sign: str, left: Value, right: Value) -> Value:
    """A comparison of two values."""
    kinds = {"<": sp.Lt, "<=": sp.Le, ">": sp.Gt, ">=": sp.Ge, "==": sp.Eq, "!=": sp.Ne}
    return Value(kinds[sign](as_number(left), as_number(right)))


def joined(word: str, conditions: Sequence[Value]) -> Value:
    """Conditions joined by "and" or "or", or one that is negated by "not"."""
    kinds = {"and": sp.And, "or": sp.Or, "not": sp.Not}
    return Value(kinds[word](*map(_condition, conditions)))


def _made(parts: Sequence[Value], make: Callable[..., Any], *given: Any) -> Value:
    """Expression that SymPy makes, a finite number if the parts are numbers."""
    found = make(*given)
    constant = isinstance(found, sp.Number) or all(part.constant for part in parts)
    if constant and not _finite(found):
        raise ValueError(f"{shown(found)} is no real number in double precision")
    return Value(found, constant)


def _finite(e: sp.Basic) -> bool:
    try:
        return math.isfinite(float(e))
    except (ArithmeticError, TypeError):
        return False


def as_number(value: Value) -> sp.Expr:
    """The expression of a value; raises `ValueError` for a condition."""
    if not isinstance(value.e, sp.Expr):
        raise ValueError(f"{shown(value.e)} is a condition, where a number is expected")
    return value.e


def _is_condition(e: sp.Basic) -> bool:
    return isinstance(e, Boolean) and not isinstance(e, sp.Symbol)  # which is one to SymPy


def _condition(value: Value) -> Boolean:
    if not _is_condition(value.e):
        raise ValueError(
            f"{shown(value.e)} is a number, where a condition such as x < 1 is expected"
        )
    return value.e
