"""Piecewise polynomials through points: slopes, and coefficients of every cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import factorial

import numpy as np
import scipy
import sympy as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Ways from point to point, with the least number of points.
KINDS = {
    "cubic": 4,
    "simm": 3,
    "natural": 3,
    "quintic": 6,
    "pchip": 3,
    "akima": 3,
    "linear": 2,
    "step": 2,
}
#: Kinds of interpolation whose coefficients are linear in the values.
SUMS = ("cubic", "simm", "natural", "quintic", "linear", "step")

#: Rules below the first point and above the last.
OUTSIDE = ("linear", "constant", "quadratic", "continue", "nan")
#: Number of coefficients that are kept outside the points.
_KEPT = {"constant": 1, "linear": 2, "quadratic": 3}


def slopes(kind: str, points: Array, values: Array) -> Array:
    """Slopes at the points along the first axis; of straight lines, those of the intervals, the
    last one twice."""
    if kind == "linear":
        rises = np.diff(values, axis=0) / _steps(points, values)
        return np.concatenate([rises, rises[-1:]])
    if kind == "step":
        return np.zeros_like(values)
    if kind == "simm":
        return _simm(points, values)
    made = {
        "cubic": scipy.interpolate.CubicSpline,
        "natural": partial(scipy.interpolate.CubicSpline, bc_type="natural"),
        "quintic": _quintic,
        "pchip": scipy.interpolate.PchipInterpolator,
        "akima": scipy.interpolate.Akima1DInterpolator,
    }[kind]
    return np.asarray(made(points, values, axis=0)(points, 1), dtype=np.float64)


def _simm(points: Array, values: Array) -> Array:
    """Slopes of the cubic spline whose first and last third derivatives are those of the cubics
    through the four outermost points (Forsythe, Malcolm, Moler 1977, Computer Methods for
    Mathematical Computations, chapter 4); of a parabola for three points."""
    h, steps = np.diff(points), _steps(points, values)
    rises = np.diff(values, axis=0) / steps
    thirds = [_third(points[:4], values[:4]), _third(points[-4:], values[-4:])]
    right = np.concatenate(
        [[h[0] ** 2 * thirds[0]], np.diff(rises, axis=0), [-(h[-1] ** 2) * thirds[1]]]
    )
    diagonals = np.zeros((3, len(points)))
    diagonals[0, 1:] = diagonals[2, :-1] = h
    diagonals[1] = [-h[0], *2.0 * (h[1:] + h[:-1]), -h[-1]]
    halves = scipy.linalg.solve_banded((1, 1), diagonals, right)  # a sixth of second derivatives
    left = rises - steps * (halves[1:] + 2.0 * halves[:-1])
    last = rises[-1] + h[-1] * (halves[-2] + 2.0 * halves[-1])
    return np.concatenate([left, last[None]])


def _third(points: Array, values: Array) -> Array:
    """The divided difference of four points, 0 of three."""
    if len(points) < 4:
        return 0.0 * values[0]
    for order in (1, 2, 3):
        values = (np.diff(values, axis=0).T / (points[order:] - points[:-order])).T
    return np.asarray(values[0])


def coefficients(kind: str, points: Array, values: Array, tangents: Array, outside: str) -> Array:
    """(n + 1 cells, powers, ...) along the first axis of values (n, ...) and slopes at the points;
    powers are of the distance from the point before a cell, see `table.before_cells`."""
    if kind == "linear":
        powers = [values, tangents]
    elif kind == "step":
        powers = [values]
    elif kind == "quintic":
        spline = _quintic(points, values)
        powers = [spline(points, k) / factorial(k) for k in range(6)]
    else:
        return hermite(points, values, tangents, outside)
    inner = np.stack([row[:-1] for row in powers], axis=1)
    return _with_ends(inner, np.stack([row[-1] for row in powers]), outside)


def _quintic(points: Array, values: Array, axis: int = 0) -> scipy.interpolate.BSpline:
    """The natural spline of degree 5: third and fourth derivatives are 0 at the ends."""
    ends = [(order, np.zeros(values.shape[1:])) for order in (3, 4)]
    return scipy.interpolate.make_interp_spline(points, values, 5, bc_type=(ends, ends))


def hermite(points: Array, values: Array, tangents: Array, outside: str) -> Array:
    """Coefficients (n + 1, 4, ...) of the cubic Hermite interpolant with these slopes at the
    points, with the cells before and after."""
    h = _steps(points, values)
    rises = np.diff(values, axis=0) / h
    begin, end = tangents[:-1], tangents[1:]
    second = (3.0 * rises - 2.0 * begin - end) / h
    third = (begin + end - 2.0 * rises) / h**2
    inner = np.stack([values[:-1], begin, second, third], axis=1)
    last = np.stack([values[-1], tangents[-1], second[-1] + 3.0 * third[-1] * h[-1], third[-1]])
    return _with_ends(inner, last, outside)


def _with_ends(inner: Array, last: Array, outside: str) -> Array:
    """Coefficients of all cells, with those before and after the points; last : coefficients of the
    last polynomial about the last point."""
    ends = np.array([inner[0], last])
    if outside == "nan":
        ends[:] = np.nan
    elif outside != "continue":
        ends[:, _KEPT[outside] :] = 0.0
    return np.concatenate([ends[:1], inner, ends[1:]])


def _steps(points: Array, values: Array) -> Array:
    return np.diff(points).reshape(-1, *[1] * (values.ndim - 1))


# -- slopes of values that are expressions -------------------------------------------------------


def symbolic_slopes(kind: str, points: Array, values: Sequence[sp.Expr]) -> list[sp.Expr]:
    """Slopes "pchip" or "akima" at the points."""
    h = np.diff(points).tolist()
    rises = [(b - a) / step for a, b, step in zip(values, values[1:], h, strict=False)]
    return _pchip(h, rises) if kind == "pchip" else _akima(rises)


def _pchip(h: Sequence[float], rises: Sequence[sp.Expr]) -> list[sp.Expr]:
    """Weighted harmonic means of neighbouring rises, 0 at an extremum (Fritsch and Butland 1984);
    at the ends by three points, kept monotone."""
    inner = []
    for a, b, left, right in zip(h, h[1:], rises, rises[1:], strict=False):
        w, v = 2.0 * b + a, b + 2.0 * a
        mean = (w + v) * left * right / (w * right + v * left)
        inner.append(sp.Piecewise((0, left * right <= 0), (mean, True)))
    ends = (_pchip_end(*h[:2], *rises[:2]), _pchip_end(*h[:-3:-1], *rises[:-3:-1]))
    return [ends[0], *inner, ends[1]]


def _pchip_end(a: float, b: float, near: sp.Expr, far: sp.Expr) -> sp.Expr:
    slope = ((2.0 * a + b) * near - a * far) / (a + b)
    steep = sp.And(near * far <= 0, sp.Abs(slope) > 3 * sp.Abs(near))
    return sp.Piecewise((0, slope * near <= 0), (3 * near, steep), (slope, True))


def _akima(rises: Sequence[sp.Expr]) -> list[sp.Expr]:
    """Means of neighbouring rises, with more weight where the next but one changes less (Akima
    1970); two rises are continued beyond each end by a parabola."""
    m = list(rises)
    m = [2 * m[0] - m[1], *m, 2 * m[-1] - m[-2]]
    m = [2 * m[0] - m[1], *m, 2 * m[-1] - m[-2]]
    found = []
    for k in range(len(m) - 3):
        left, right = sp.Abs(m[k + 3] - m[k + 2]), sp.Abs(m[k + 1] - m[k])
        mean = (left * m[k + 1] + right * m[k + 2]) / (left + right)
        found.append(sp.Piecewise((mean, left + right > 0), ((m[k + 1] + m[k + 2]) / 2, True)))
    return found
