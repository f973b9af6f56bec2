"""Functions with corners, rounded off over a width: they have all derivatives."""

from __future__ import annotations

from typing import Any

import sympy as sp

from kinesym.symbolic.expression import real_expression


def smooth_abs(x: Any, width: Any) -> sp.Expr:
    """|x| as sqrt(x^2 + width^2): `width` at 0, never below |x|, far out width^2 / (2 |x|) above.

    width : positive, in the unit of x; a number or an expression. Raises `ValueError` for a number
    that is not positive.
    """
    found, w = real_expression(x, "x of smooth_abs"), _width(width, "smooth_abs")
    return sp.sqrt(found**2 + w**2)


def smooth_max(a: Any, b: Any, width: Any) -> sp.Expr:
    """The larger of a and b, (a + b + smooth_abs(a - b, width)) / 2: width / 2 above it where they
    are equal. Raises as `smooth_abs`."""
    first, second = (real_expression(e, "an argument of smooth_max") for e in (a, b))
    return (first + second + smooth_abs(first - second, width)) / 2


def smooth_min(a: Any, b: Any, width: Any) -> sp.Expr:
    """The smaller of a and b, see `smooth_max`."""
    first, second = (real_expression(e, "an argument of smooth_min") for e in (a, b))
    return (first + second - smooth_abs(first - second, width)) / 2


def smooth_step(x: Any, width: Any) -> sp.Expr:
    """Smooth step from 0 for x < 0 to 1 for x > 0, (1 + tanh(x / width)) / 2: 12 % at -width, 88 %
    at width. Raises as `smooth_abs`."""
    found, w = real_expression(x, "x of smooth_step"), _width(width, "smooth_step")
    return (1 + sp.tanh(found / w)) / 2


def _width(given: Any, where: str) -> sp.Expr:
    width = real_expression(given, f"the width of {where}")
    if width.is_number and not width > 0:
        raise ValueError(f"the width of {where} must be positive, got {given}")
    return width
