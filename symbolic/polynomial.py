"""Polynomials that fit data, as ordinary expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from kinesym.base.checks import count, shown
from kinesym.base.notebook import Displayed
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.table import finite_numbers

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PolynomialFit(Displayed):
    """A polynomial that fits data best in the sense of least squares; wherever an expression is
    wanted, it is its `expression`.

    degree : in each variable. rms, largest : root mean square and largest size of what it misses
    the values by [unit of the values].
    """

    expression: sp.Expr
    degree: int
    rms: float
    largest: float

    def _sympy_(self) -> sp.Expr:
        return self.expression

    def __str__(self) -> str:
        return (
            f"polynomial of degree {self.degree}: misses the values by {self.largest:.3g} at most, "
            f"{self.rms:.3g} in the root mean square"
        )


def polynomial_fit(x: Any, points: Any, values: Any, degree: int) -> PolynomialFit:
    """The polynomial in x that fits values best: `ks.polynomial_fit(q, angles, arms, 4)`.

    Parameters
    ----------
    x : an expression; of two variables a pair (x, y).
    points : (n,), in any order [unit of x]; of two variables a pair of them, (n,) and (m,).
    values : (n,), or (n, m).
    degree : of the polynomial, of two variables in each of them.

    It is found in Chebyshev polynomials and written in powers of x from the middle of the points,
    in units of half their range, by Horner's rule: that loses few digits up to a degree of some 20.
    Its numbers are compiled in. Outside of the points it grows like any polynomial; `table` says
    what holds there. Raises `ValueError` for numbers that are not finite, shapes that do not fit,
    and fewer different points than degree + 1.
    """
    degree = count(degree, "the degree of a polynomial", least=0)
    pair = isinstance(x, (tuple, list))
    variables = [real_expression(one, "x of a polynomial") for one in (x if pair else [x])]
    given = points if pair else [points]
    if len(variables) > 2 or len(given) != len(variables):
        raise ValueError(
            f"a polynomial is one of x and points, or of a pair (x, y) and a pair of points, got "
            f"{shown(x)}"
        )
    axes = [_axis(axis, degree) for axis in given]
    z = finite_numbers(values, "the values of a polynomial")
    shape = tuple(map(len, axes))
    if z.shape != shape:
        raise ValueError(
            f"the values of a polynomial have the shape {z.shape}, the points {shape}; give one "
            "value for each point"
        )
    middles = [(float(a.min() + a.max()) / 2.0, float(np.ptp(a)) / 2.0 or 1.0) for a in axes]
    fitted, numbers = z, z
    for axis, (middle, half) in zip(axes, middles, strict=True):
        basis = chebyshev.chebvander((axis - middle) / half, degree)
        weights = np.linalg.lstsq(basis, numbers, rcond=None)[0]
        fitted = np.moveaxis(np.tensordot(basis @ np.linalg.pinv(basis), fitted, 1), 0, -1)
        numbers = np.moveaxis(_powers(weights), 0, -1)
    missed = np.abs(fitted - z)
    units = [(v - m) / h for v, (m, h) in zip(variables, middles, strict=True)]
    rms = float(np.sqrt(np.mean(missed**2)))
    return PolynomialFit(_horner(numbers, units), degree, rms, float(missed.max()))


def _axis(given: Any, degree: int) -> Array:
    points = finite_numbers(given, "the points of a polynomial")
    different = len(np.unique(points))
    if points.ndim != 1 or different <= degree:
        raise ValueError(
            f"a polynomial of degree {degree} needs {degree + 1} different points or more in a "
            f"row, got {shown(given) if points.ndim != 1 else different}; lower the degree"
        )
    return points


def _powers(weights: NDArray[Any]) -> Array:
    """Coefficients of powers from those of Chebyshev polynomials, along the first axis."""
    to_powers = np.zeros((len(weights),) * 2)
    for k in range(len(weights)):
        to_powers[: k + 1, k] = chebyshev.cheb2poly(np.eye(len(weights))[k, : k + 1])
    return np.asarray(np.tensordot(to_powers, weights, 1))


def _horner(numbers: Array, units: Sequence[sp.Expr]) -> sp.Expr:
    """The polynomial with these coefficients of powers of units."""
    if not units:
        return sp.Float(float(numbers))
    rows = [_horner(row, units[1:]) for row in numbers]
    return reduce(lambda rest, c: c + units[0] * rest, reversed(rows))
