"""Profile likelihood: how J grows when one quantity is held elsewhere and all else follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array

#: The end of an interval counts as found where the root of the rise of J is so near its target.
_NEAR = 2e-3
#: Solves per side, at most; how many times the distance so far a step may be.
_MOST, _FARTHEST = 12, 4.0
#: Distances in standard errors, of the quadratic approximation, from which a side is open.
_OPEN = 1e3


@dataclass(frozen=True)
class Held:
    """The minimum of J with a quantity held at a value, or that there is none.

    objective : J there, infinite if no minimum was found. slope : d J / d value, by the multiplier.
    state : from where neighbours start.
    """

    value: float
    objective: float
    slope: float
    state: Any = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Rises:
    """How J rises: at `values`, in order, by `rise` in units of the variance of samples; the ends
    `low` and `high` of an interval, and sentences on sides without one."""

    values: Array
    rise: Array
    low: float
    high: float
    notes: Sequence[str]


def rises(
    name: str,
    best: Held,
    standard_error: float,
    bounds: tuple[float, float],
    solve: Callable[[float, Held], Held],
    target: float,
    variance: float = 1.0,
) -> Rises:
    """The rise of J over a quantity, and where its rise reaches `target` on either side.

    best : the minimum. bounds : of the quantity. solve(value, nearest) : the minimum with the
    quantity held, from a neighbour. variance : of the samples, by which rises are divided.

    The root of the rise is nearly straight, and its slope is known from the multiplier: Newton's
    method for it needs two or three solves per side.
    """
    rising = _Rise(best, variance, float(np.sqrt(target)))
    sides = [_side(rising, sign, standard_error, bounds, solve) for sign in (-1, 1)]
    points = sorted(
        (point for side in sides for point in side.points), key=lambda point: point.value
    )
    every = [*(p for p in points if p.value < best.value), best]
    every += [p for p in points if p.value > best.value]
    words = [f"{name} {side.words}" for side in sides if side.words]
    return Rises(
        values=np.array([point.value for point in every]),
        rise=np.array([rising.root(point) ** 2 for point in every]),
        low=sides[0].end,
        high=sides[1].end,
        notes=words,
    )


@dataclass(frozen=True)
class _Side:
    end: float
    points: Sequence[Held]
    words: str = ""


@dataclass(frozen=True)
class _Rise:
    """The rise of J from a minimum, over the variance of samples; goal : the root of what it is at
    the ends of the interval."""

    best: Held
    variance: float
    goal: float

    def root(self, point: Held) -> float:
        """The root of the rise."""
        return float(np.sqrt(max(point.objective - self.best.objective, 0.0) / self.variance))

    def step(self, point: Held, sign: int) -> float:
        """How far it is from a point to the goal along the root, whose slope is known there."""
        root = self.root(point)
        slope = sign * point.slope / (2.0 * root * self.variance) if root > 0.0 else 0.0
        return (self.goal - root) / slope if slope > 0.0 else np.inf * (self.goal - root)


def _side(
    rising: _Rise,
    sign: int,
    error: float,
    bounds: tuple[float, float],
    solve: Callable[[float, Held], Held],
) -> _Side:
    """Where the rise reaches its goal on one side."""
    best, goal, bound = rising.best, rising.goal, bounds[(sign + 1) // 2]
    points, near, far = list[Held](), 0.0, np.inf  # distances with a rise below, above the target
    distance = goal * error
    reach = abs(bound - best.value)
    which = "above" if sign > 0 else "below"
    for _ in range(_MOST):
        distance = min(distance, reach)
        found = solve(best.value + sign * distance, _nearest(points, best, distance))
        if not np.isfinite(found.objective):
            far = min(far, distance)
            distance = 0.5 * (near + distance)
            if distance - near < 1e-3 * far:
                break
            continue
        points.append(found)
        root, step = rising.root(found), rising.step(found, sign)
        if abs(root - goal) <= _NEAR * goal:
            last = sign * step if np.isfinite(step) else 0.0
            return _Side(found.value + last, points)
        if root < goal:
            if distance >= reach:
                words = f"is not limited {which}: the interval reaches the bound {bound:.6g}"
                return _Side(float(bound), points, words)
            if distance > _OPEN * goal * error:
                return _Side(sign * np.inf, points, f"is not limited {which}: the interval is open")
            near = distance
        else:
            far = min(far, distance)
        distance = _next(distance, near, far, step, reach)
    return _Side(np.nan, points, f"has no end of its interval {which}: the solves there fail")


def _next(distance: float, near: float, far: float, step: float, reach: float) -> float:
    """The next distance: Newton's, if it is between what is too near and too far."""
    wanted = min(distance + step, _FARTHEST * distance, reach)
    if far == np.inf:
        return wanted if wanted > near else min(2.0 * distance, reach)
    return wanted if near < wanted < far else 0.5 * (near + far)


def _nearest(points: Sequence[Held], best: Held, distance: float) -> Held:
    """The minimum that was found nearest to a distance."""
    every = [best, *points]
    return min(every, key=lambda point: abs(abs(point.value - best.value) - distance))
