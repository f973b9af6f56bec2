"""Profile likelihood: how J grows when one quantity is held elsewhere and all else follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array

Points: TypeAlias = Annotated[Array, "point"]

#: The end of an interval counts as found where the root of the rise of J is so near its target.
_NEAR = 2e-3
#: Solves per side, at most; how many times the distance so far a step may be.
_MOST, _FARTHEST = 20, 4.0
#: Distances in standard errors, of the quadratic approximation, from which a side is open.
_OPEN = 1e3
#: Curvature of a spring over that of J: so much nearer to its goal does it bring a quantity; and
#: the share of a step less than which the quantity does not follow.
STIFF, _STAYS = 1e3, 0.1


@dataclass(frozen=True, eq=False)
class Quantity:
    """A quantity g of few unknowns, at `places` (k,) among all.

    at(y) : from these unknowns g, its derivatives (k,) and second ones (k, k).
    """

    places: NDArray[np.intp]
    at: Callable[[Array], tuple[float, Array, Array]]


@dataclass(frozen=True)
class Spring:
    """What pulls a quantity g to a goal: stiffness (g - goal)^2, added to J.

    Where J and the spring together are least, J is least with g held where it is, whatever the
    spring: its pull is the multiplier of that condition. So no equation is needed, and what cannot
    reach the goal stops before it.
    """

    goal: float
    stiffness: float

    @staticmethod
    def to(value: float, best: float, standard_error: float, variance: float) -> Spring:
        """Much stiffer than J, of which the standard error tells the curvature; at rest where J is
        quadratic with g at a value, away from the best one."""
        return Spring(value + (value - best) / STIFF, STIFF * variance / standard_error**2)

    def pull(self, g: float) -> float:
        """d J / d g at rest."""
        return 2.0 * self.stiffness * (self.goal - g)


@dataclass(frozen=True)
class ProfilePoint:
    """The minimum of J with a quantity held at a value, or that there is none.

    objective : J there, infinite if no minimum was found. slope : d J / d value, by the multiplier.
    state, multipliers : from where neighbours start.
    """

    value: float
    objective: float
    slope: float
    state: Any = field(default=None, repr=False)
    multipliers: Any = field(default=None, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rises:
    """How J rises: at `values`, in order, by `rise` in units of the variance of samples; the ends
    `low` and `high` of an interval, infinite, or the bound, where a side is open, and remarks on
    these, without the name of the quantity."""

    values: Points
    rise: Points
    low: float
    high: float
    remarks: Sequence[str] = ()


def rises(
    best: ProfilePoint,
    standard_error: float,
    bounds: tuple[float, float],
    solve: Callable[[float, ProfilePoint], ProfilePoint],
    target: float,
    variance: float = 1.0,
    shown: Callable[[float], float] = float,
) -> Rises:
    """The rise of J over a quantity, and where its rise reaches `target` on either side.

    best : the minimum. bounds : of the quantity. solve(value, nearest) : the minimum with the
    quantity held near a value, from a neighbour. variance : of the samples, by which rises are
    divided. shown : a value of the quantity as words have it.

    The root of the rise is nearly straight, and its slope is known from the multiplier: Newton's
    method for it needs two or three solves per side.
    """
    rising = _Rise(best, variance, float(np.sqrt(target)), shown)
    sides = [_side(rising, sign, standard_error, bounds, solve) for sign in (-1, 1)]
    points = sorted(
        (point for side in sides for point in side.points), key=lambda point: point.value
    )
    every = [*(p for p in points if p.value < best.value), best]
    every += [p for p in points if p.value > best.value]
    return Rises(
        values=np.array([point.value for point in every]),
        rise=np.array([rising.root(point) ** 2 for point in every]),
        low=sides[0].end,
        high=sides[1].end,
        remarks=[side.words for side in sides if side.words],
    )


@dataclass(frozen=True)
class _Side:
    end: float
    points: Sequence[ProfilePoint]
    words: str = ""


@dataclass(frozen=True)
class _Rise:
    """The rise of J from a minimum, over the variance of samples; goal : the root of what it is at
    the ends of the interval. shown : see `rises`."""

    best: ProfilePoint
    variance: float
    goal: float
    shown: Callable[[float], float]

    def root(self, point: ProfilePoint) -> float:
        """The root of the rise."""
        return float(np.sqrt(max(point.objective - self.best.objective, 0.0) / self.variance))

    def step(self, point: ProfilePoint, sign: int) -> float:
        """How far it is from a point to the goal along the root, whose slope is known there."""
        root = self.root(point)
        slope = sign * point.slope / (2.0 * root * self.variance) if root > 0.0 else 0.0
        return (self.goal - root) / slope if slope > 0.0 else np.inf * (self.goal - root)


def _side(
    rising: _Rise,
    sign: int,
    error: float,
    bounds: tuple[float, float],
    solve: Callable[[float, ProfilePoint], ProfilePoint],
) -> _Side:
    """Where the rise reaches its goal on one side."""
    best, goal, bound = rising.best, rising.goal, bounds[(sign + 1) // 2]
    points = list[ProfilePoint]()
    near, far = 0.0, np.inf  # distances with a rise below and above the target
    distance, least, reached = goal * error, goal, 0.0
    reach = abs(bound - best.value)
    which = "above" if sign > 0 else "below"
    open_ = f"is not limited {which}"
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
                words = f"{open_}: the interval reaches the bound {rising.shown(bound):.6g}"
                return _Side(float(bound), points, words)
            went = sign * (found.value - best.value)
            if went - reached < _STAYS * (distance - near):
                words = f"{open_}: bounds keep it at {rising.shown(found.value):.6g}"
                return _Side(found.value, points[:-1], words)
            if distance > _OPEN * goal * error:
                return _Side(sign * np.inf, points, f"{open_}: the interval is open")
            near, reached = distance, went
        else:
            far = min(far, distance)
        slow = abs(root - goal) > 0.5 * least
        least = min(least, abs(root - goal))
        distance = _next(distance, near, far, step, reach, slow)
    last = rising.shown(best.value + sign * near)
    words = f"has no end of its interval {which}: no minimum is found beyond {last:.6g}"
    return _Side(np.nan, points, words)


def _next(distance: float, near: float, far: float, step: float, reach: float, slow: bool) -> float:
    """The next distance: Newton's, if it is between what is too near and too far and the last one
    was not slow."""
    wanted = min(distance + step, _FARTHEST * distance, reach)
    if far == np.inf:
        return wanted if wanted > near else min(2.0 * distance, reach)
    return wanted if near < wanted < far and not slow else 0.5 * (near + far)


def _nearest(points: Sequence[ProfilePoint], best: ProfilePoint, distance: float) -> ProfilePoint:
    """The minimum that was found nearest to a distance."""
    every = [best, *points]
    return min(every, key=lambda point: abs(abs(point.value - best.value) - distance))
