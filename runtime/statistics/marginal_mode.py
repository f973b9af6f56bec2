"""Newton's method for the most probable trajectories with given parameters, near known ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.statistics.likelihood import LogVolume

#: Steps of Newton's method at most.
_STEPS = 8
#: Change of the objective that a step predicts where the method ends.
_MET = 1e-18
#: Change of the objective that a step may predict where rounding ends it.
ROUNDED = 1e-9
#: Share of the change before that a step predicts, at most.
_FASTER = 0.1


@dataclass(frozen=True, eq=False)
class Point:
    """A free vector with multipliers of constraints, lower and upper bounds, and what the nonlinear
    program is there; places : rows and columns of the Jacobian."""

    nlp: NLP
    places: tuple[NDArray[Any], NDArray[Any]]
    z: Array
    multipliers: tuple[Array, Array, Array]

    @cached_property
    def hessian(self) -> Array:
        """Entries of the Hessian of the Lagrange function."""
        return self.nlp.hessian(self.z, self.multipliers[0], 1.0)

    @cached_property
    def jacobian(self) -> Array:
        """Entries of the Jacobian of the constraints."""
        return self.nlp.jacobian(self.z)

    @cached_property
    def gradient(self) -> Array:
        """Gradient (n,) of the Lagrange function, without bounds."""
        rows, columns = self.places
        pulls = np.bincount(columns, self.jacobian * self.multipliers[0][rows], len(self.z))
        return np.asarray(self.nlp.gradient(self.z) + pulls)

    def off(self, limits: tuple[Array, Array]) -> Array:
        """Errors of equality constraints, (m,), zero for inequalities."""
        low, high = limits
        return np.where(low == high, self.nlp.constraints(self.z) - np.clip(0.0, low, high), 0.0)

    def moved(self, change: Array) -> Point:
        """A point beside it; change : of z and of the multipliers of constraints, (n + m,)."""
        (of_rows, lower, upper), n = self.multipliers, len(self.z)
        return replace(
            self, z=self.z + change[:n], multipliers=(of_rows + change[n:], lower, upper)
        )


def decrement(point: Point, volume: LogVolume, limits: tuple[Array, Array]) -> tuple[Array, float]:
    """The step (n + m,) of Newton's method with the matrix of a volume, and the change of the
    objective that it predicts, in which nothing cancels."""
    side = np.append(point.gradient, point.off(limits))
    step = -volume.whole.solve(side[:, None])[:, 0]
    return step, float(np.abs(side) @ np.abs(step))


def followed(
    point: Point,
    volume: LogVolume,
    seen: Callable[[Array], Array],
    limits: tuple[Array, Array],
) -> tuple[Point, LogVolume] | None:
    """The stationary point near another, by Newton's method with all parameters held, no bound
    being active, and the volume there; None if the method does not converge.

    volume : near the point. seen : see `log_volume`, at any z. limits : of the constraints. Raises
    `ValueError` for a singular matrix.
    """
    before = np.inf
    for _ in range(_STEPS):
        last, volume = volume, volume.at(point.hessian, point.jacobian, seen(point.z))
        if np.isfinite(before) and volume.whole is last.whole:  # quadratic: the step was exact
            return point, volume
        step, falls = decrement(point, volume, limits)
        if falls <= _MET or not falls <= _FASTER * before:
            return (point, volume) if falls <= ROUNDED else None
        point, before = point.moved(step), falls
    return None
