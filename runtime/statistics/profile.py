"""Profile likelihood: the minimum of J with one quantity held at other values, all else free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array

Points: TypeAlias = Annotated[Array, "point"]

#: Relative error of the root of the rise of J at which the end of an interval counts as found.
_NEAR = 2e-3
#: Solves per side at most.
_MOST = 20
#: Largest growth of the distance from the minimum in one step.
_FARTHEST = 4.0
#: Distance [standard errors of the quadratic approximation] from which a side is open.
_OPEN = 1e3
#: Curvatures of springs over that of J: the first leaves a thousandth of the distance to its goal.
STIFF = (1e3, 1e6, 1e9)
#: Share of a step that the quantity must follow, else the next spring is tried: J may rise by more
#: than its curvature tells.
FOLLOWS = 0.5
#: Share of a step below which bounds hold the quantity.
_STAYS = 0.1


@dataclass(frozen=True, eq=False)
class Quantity:
    """Quantity g(y) of few unknowns y, at `places` (k,) among all.

    at(y) : g, its gradient (k,) and its Hessian (k, k).
    """

    places: NDArray[np.intp]
    at: Callable[[Array], tuple[float, Array, Array]]


@dataclass(frozen=True)
class Spring:
    """Quadratic penalty on a quantity g: stiffness (g - goal)^2, added to J.

    At the minimum of J and the spring together, J is least for the value of g reached there, for
    any spring: its pull is the multiplier of the condition on g. So no equation is needed, and a
    quantity that cannot reach the goal stops before it. times : its curvature over that of J.
    """

    goal: float
    stiffness: float
    times: float

    @staticmethod
    def to(
        value: float, best: float, standard_error: float, variance: float, times: float
    ) -> Spring:
        """Spring towards a value of g, at rest there if J is quadratic with its minimum at `best`;
        so many times as stiff as J, whose curvature follows from the standard error."""
        return Spring(value + (value - best) / times, times * variance / standard_error**2, times)

    def energy(self, g: float) -> float:
        """Part of J that it adds."""
        return self.stiffness * (g - self.goal) ** 2

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
    """Rise of J: at `values`, in order, by `rise` in units of the variance of samples; the ends
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
    """Profile of J over a quantity, with an interval at whose ends the rise of J is `target`.

    best : the minimum. bounds : of the quantity. solve(value, nearest) : the minimum with the
    quantity held near a value, from a neighbour. variance : of the samples, by which rises are
    divided. shown : converts a value of the quantity for messages.

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
    """Rise of J from a minimum, over the variance of samples; goal : square root of the rise at the
    ends of the interval. shown : see `rises`."""

    best: ProfilePoint
    variance: float
    goal: float
    shown: Callable[[float], float]

    def root(self, point: ProfilePoint) -> float:
        """The root of the rise."""
        return float(np.sqrt(max(point.objective - self.best.objective, 0.0) / self.variance))

    def step(self, point: ProfilePoint, sign: int) -> float:
        """Distance from a point to the goal along the root, whose slope is known there."""
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
    """End of the interval on one side (sign -1 or 1), with all points that were computed."""
    best, goal, bound = rising.best, rising.goal, bounds[(sign + 1) // 2]
    points = list[ProfilePoint]()
    near, far = 0.0, np.inf  # distances with a rise below and above the target
    distance, least = goal * error, goal
    reach = abs(bound - best.value)
    which = "above" if sign > 0 else "below"
    open_ = f"is not limited {which}"
    for _ in range(_MOST):
        distance = min(distance, reach)
        within = [point for point in points if rising.root(point) < goal]
        found = solve(best.value + sign * distance, _nearest(within, best, distance))
        if not np.isfinite(found.objective):
            far = min(far, distance)
            distance = 0.5 * (near + distance)
            if distance - near < 1e-3 * far:
                break
            continue
        points.append(found)
        root, step = rising.root(found), rising.step(found, sign)
        went = sign * (found.value - best.value)
        if abs(root - goal) <= _NEAR * goal:
            last = sign * step if np.isfinite(step) else 0.0
            return _Side(found.value + last, points)
        if root < goal:
            if went - near < _STAYS * (distance - near):
                words = f"{open_}: bounds keep it at {rising.shown(found.value):.6g}"
                return _Side(found.value, points[:-1], words)
            if distance >= reach:
                words = f"{open_}: the interval reaches the bound {rising.shown(bound):.6g}"
                return _Side(float(bound), points, words)
            if distance > _OPEN * goal * error:
                return _Side(sign * np.inf, points, f"{open_}: the interval is open")
            near = went
        else:
            far = min(far, went if went > near else distance)  # else it is another minimum
        slow = abs(root - goal) > 0.5 * least
        least = min(least, abs(root - goal))
        distance = _next(went, near, far, step, reach, slow)
    last = rising.shown(best.value + sign * near)
    words = f"has no end of its interval {which}: no minimum is found beyond {last:.6g}"
    return _Side(np.nan, points, words)


def _next(distance: float, near: float, far: float, step: float, reach: float, slow: bool) -> float:
    """Next distance: by Newton's method if that is inside the bracket and the last step was not
    slow, else by bisection."""
    wanted = min(distance + step, _FARTHEST * distance, reach)
    if far == np.inf:
        return wanted if wanted > near else min(2.0 * distance, reach)
    return wanted if near < wanted < far and not slow else 0.5 * (near + far)


def _nearest(points: Sequence[ProfilePoint], best: ProfilePoint, distance: float) -> ProfilePoint:
    """The minimum nearest to a distance. points : those within the interval, as others may lead to
    another minimum."""
    every = [best, *points]
    return min(every, key=lambda point: abs(abs(point.value - best.value) - distance))
