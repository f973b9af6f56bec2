"""The minimum of a function of few unknowns within bounds, each value of which is dear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array

#: Steps at most, halvings of one at most, and the share of the predicted decrease that is enough.
_STEPS, _HALVINGS, _ENOUGH = 100, 12, 1e-4
#: Times the tolerance that may be left where rounding of values ends the search.
_ROUNDING = 1e3


@dataclass(frozen=True, eq=False)
class Value:
    """A function's value at x (n,), and whatever else is known there."""

    x: Array
    value: float
    state: Any = None


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a search has ended; curvature : what it has learnt of the second derivatives, (n, n).
    converged : whether the predicted decrease is below the tolerance, after so many steps."""

    at: Value
    gradient: Array
    curvature: Array
    converged: bool
    steps: int


def minimise(
    evaluate: Callable[[Array, Value], Value | None],
    slope: Callable[[Value], Array],
    start: Value,
    bounds: tuple[Array, Array],
    reach: Array,
    curvature: Array,
    tolerance: float,
) -> Minimum:
    """BFGS with steps back along the line, variables at a bound being held while the gradient
    points there (Nocedal, Wright 2006, Numerical Optimization, sections 3.1, 6.1, 16.7).

    evaluate : the value at x, from another one near it; None if there is none. slope : the
    gradient. reach : the longest step of each variable, (n,). curvature : a first guess, (n, n).
    tolerance : of the value.
    """
    here, g, B = start, slope(start), curvature
    for steps in range(_STEPS):
        step = _step(here.x, g, B, bounds, reach)
        if -(g @ step) <= tolerance:
            return Minimum(here, g, B, True, steps)
        found = _along(evaluate, here, g, step, bounds, tolerance)
        if found is None:
            left = -float(g @ step)
            return Minimum(here, g, B, left <= _ROUNDING * tolerance, steps)
        ahead = slope(found)
        B = _updated(B, found.x - here.x, ahead - g)
        here, g = found, ahead
    return Minimum(here, g, B, False, _STEPS)


def held_by(x: Array, gradient: Array, bounds: tuple[Array, Array]) -> NDArray[np.bool_]:
    """Which variables are at a bound to which the function falls."""
    low, high = bounds
    return np.asarray(((x <= low) & (gradient > 0.0)) | ((x >= high) & (gradient < 0.0)))


def _step(x: Array, g: Array, B: Array, bounds: tuple[Array, Array], reach: Array) -> Array:
    free, step = ~held_by(x, g, bounds), np.zeros(len(x))
    step[free] = -np.linalg.solve(B[np.ix_(free, free)], g[free])
    step /= max(1.0, float(np.max(np.abs(step) / reach, initial=0.0)))
    cut = np.clip(x + step, *bounds) - x
    return cut if g @ cut < 0.0 or not free.any() else -g * 0.0


def _along(
    evaluate: Callable[[Array, Value], Value | None],
    here: Value,
    g: Array,
    step: Array,
    bounds: tuple[Array, Array],
    tolerance: float,
) -> Value | None:
    """A value along a step that is low enough; falls that are less than the tolerance are lost in
    rounding."""
    share = 1.0
    for _ in range(_HALVINGS):
        falls = share * float(g @ step)
        if -falls <= tolerance:
            break
        found = evaluate(np.clip(here.x + share * step, *bounds), here)
        if found is not None and found.value <= here.value + _ENOUGH * falls:
            return found
        if found is None:
            share *= 0.25
            continue
        best = -0.5 * falls * share / (found.value - here.value - falls)  # of the parabola
        share = min(max(best, 0.1 * share), 0.5 * share)
    return None


def _updated(B: Array, s: Array, y: Array) -> Array:
    """The curvature with that of a step s along which the gradient changes by y, damped so that it
    stays positive (procedure 18.2 of the book)."""
    Bs = B @ s
    curved, seen = float(s @ Bs), float(s @ y)
    if seen < 0.2 * curved:
        share = 0.8 * curved / (curved - seen)
        y = share * y + (1.0 - share) * Bs
        seen = float(s @ y)
    if not seen > 0.0:
        return B
    return np.asarray(B - np.outer(Bs, Bs) / curved + np.outer(y, y) / seen)
