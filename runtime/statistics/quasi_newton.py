"""Quasi-Newton minimisation (BFGS) within bounds, of an expensive function of few unknowns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array

#: Steps at most.
_STEPS = 100
#: Reductions of a step by the line search at most.
_HALVINGS = 12
#: Share of the predicted decrease that a step must reach (Armijo condition).
_ENOUGH = 1e-4
#: Predicted decrease that may remain if rounding of values ends the search [tolerances].
_ROUNDING = 1e3


@dataclass(frozen=True, eq=False)
class Value:
    """Value of a function at x (n,); state : anything else known there."""

    x: Array
    value: float
    state: Any = None


@dataclass(frozen=True, eq=False)
class Minimum:
    """Result of a minimisation; curvature : approximate Hessian of BFGS, (n, n).
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
    reach: Callable[[Array], Array],
    curvature: Array,
    tolerance: float,
) -> Minimum:
    """BFGS minimisation with backtracking; a variable stays at its bound while the gradient points
    there (Nocedal, Wright 2006, Numerical Optimization, sections 3.1, 6.1, 16.7).

    evaluate : the value at x, from another one near it; None if there is none. slope : the
    gradient. reach : the longest step of each variable, (n,), from x. curvature : a first guess,
    (n, n). tolerance : of the value.
    """
    here, g, B = start, slope(start), curvature
    for steps in range(_STEPS):
        step = _step(here.x, g, B, bounds, reach(here.x))
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
    """Active bounds: which variables, (n,), are at a bound towards which the function decreases."""
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
    """Backtracking line search: a value along a step that is low enough, None if there is none.
    Decreases below the tolerance are lost in rounding."""
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
    """BFGS update of the curvature for a step s with gradient change y, damped so that it stays
    positive (Nocedal, Wright 2006, procedure 18.2)."""
    Bs = B @ s
    curved, seen = float(s @ Bs), float(s @ y)
    if seen < 0.2 * curved:
        share = 0.8 * curved / (curved - seen)
        y = share * y + (1.0 - share) * Bs
        seen = float(s @ y)
    if not seen > 0.0:
        return B
    return np.asarray(B - np.outer(Bs, Bs) / curved + np.outer(y, y) / seen)
