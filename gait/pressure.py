"""Sharing the ground reaction by where its centre of pressure lies between the feet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import finite, mapping, positive, suggest
from kinesym.gait.sharing_methods import DoubleSupport
from kinesym.gait.support import center_of_pressure
from kinesym.gait.wrench import between, vectors
from kinesym.runtime.arrays import Array, time_grid

#: Point of support of the leading foot when it strikes, from the marker on the heel (0) to that on
#: the toe (1).
HEEL = 0.15
#: Point of support of the leading foot when the other one leaves, on the same scale.
ROLLED = 0.4
#: Share of a double support in the record above which its end counts as recorded [-].
WHOLE = 0.8
#: Force lines of both feet meet so far above the ground [m].
PIVOT = 1.2


@dataclass(frozen=True, eq=False, init=False)
class PressureTransfer:
    """Feet share the vertical force as supports of a lever do, without force plates.

    The centre of pressure of the total wanders from the toes of the trailing foot to the heel of
    the leading one; where it is between them says which share each foot bears. The share is
    shifted to be 0 when the leading foot strikes and 1 when the trailing one leaves. Force lines of
    both feet meet above the ground on that of the total, so that the leading foot brakes while the
    trailing one pushes; what is then left of force and moment is shared like the vertical force.

    time : (N,) [s]. feet : by name, the places of heel and toe, each (3, N) [m]. height : of the
    floor [m]. pivot : how far above it force lines meet [m]. Raises `ValueError` for shapes, and
    for feet that are not named.
    """

    time: Array
    places: Mapping[str, tuple[Array, Array]]
    height: float
    pivot: float

    def __init__(
        self,
        time: ArrayLike,
        feet: Mapping[str, tuple[ArrayLike, ArrayLike]],
        height: float = 0.0,
        pivot: float = PIVOT,
    ) -> None:
        grid = time_grid(time)
        found = {
            foot: (vectors(f"heel of {foot!r}", heel, grid), vectors(f"toe of {foot!r}", toe, grid))
            for foot, (heel, toe) in mapping(feet, "feet").items()
        }
        object.__setattr__(self, "time", grid)
        object.__setattr__(self, "places", found)
        object.__setattr__(self, "height", finite(height, "height"))
        object.__setattr__(self, "pivot", positive(pivot, "pivot"))

    def leading(self, double: DoubleSupport) -> Array:
        """See `Method`."""
        return self.shared(double, None)

    def shared(self, double: DoubleSupport, share: Array | None, step: bool = True) -> Array:
        """The wrench on the leading foot (6, n), which bears this share of the vertical force at
        `instants`, but for the ends; by default that of the lever. step : from the toes of one foot
        to the heel of the other; else both are pressed equally far between their heel and toe."""
        s = np.append(0.0, double.phase)
        behind, ahead = self._supports(double.feet, instants(double), s)
        total = np.column_stack([double.at_strike, double.total])
        force = total[:3]
        moment = total[3:] - np.cross([0.0, 0.0, self.height], force.T).T
        centre = np.vstack([center_of_pressure(force, moment), np.zeros_like(s)])
        raw = _lever(centre, behind, ahead) if share is None else share
        part = _between_ends(raw, s, double.ends)
        if not step:
            behind, ahead = self._alike(double.feet, instants(double), part, centre)
        meet = centre + self.pivot * force / force[2]  # on the line of the total
        lines = [(meet - at) / (meet - at)[2] for at in (behind, ahead)]
        pushes = [(1.0 - part) * force[2] * lines[0], part * force[2] * lines[1]]
        mine = pushes[1] + part * (force - pushes[0] - pushes[1])
        arms = np.cross(behind, force - mine, axis=0) + np.cross(ahead, mine, axis=0)
        turn = np.cross(ahead, mine, axis=0) + part * (moment - arms)
        rows = np.vstack([mine, turn + np.cross([0.0, 0.0, self.height], mine.T).T])
        return np.asarray(rows[:, 1:])

    def _supports(self, feet: tuple[str, str], when: Array, phase: Array) -> tuple[Array, Array]:
        """Points of support of the trailing and the leading foot, (3, n) on the floor."""
        trailing, leading = (self._on_floor(foot, when) for foot in feet)
        rolled = HEEL + (ROLLED - HEEL) * phase
        return trailing[1], leading[0] + rolled * (leading[1] - leading[0])

    def _alike(
        self, feet: tuple[str, str], when: Array, part: Array, centre: Array
    ) -> tuple[Array, Array]:
        """Points of support of both feet, equally far along each, by the measured centre of
        pressure."""
        (back, front), (other_back, other_front) = (self._on_floor(foot, when) for foot in feet)
        heel, toe = (1 - part) * back + part * other_back, (1 - part) * front + part * other_front
        along = np.clip(_lever(centre, heel, toe), 0.0, 1.0)
        return back + along * (front - back), other_back + along * (other_front - other_back)

    def _on_floor(self, foot: str, when: Array) -> tuple[Array, Array]:
        """Heel and toe (3, n), above the floor nothing."""
        if foot not in self.places:
            raise ValueError(f"there is no foot {foot!r}; {suggest(foot, self.places)}")
        flat = np.array([[1.0], [1.0], [0.0]])
        heel, toe = (between(when, self.time, place) * flat for place in self.places[foot])
        return heel, toe


def instants(double: DoubleSupport) -> Array:
    """Instants (n + 1,) [s]: the strike, and the samples."""
    begin, end = double.interval
    return np.asarray(begin + np.append(0.0, double.phase) * (end - begin))


def _lever(centre: Array, behind: Array, ahead: Array) -> Array:
    """Share of the vertical force that the leading foot bears (n,), by the lever rule between the
    two points."""
    way = ahead - behind
    return np.asarray(
        np.sum((centre - behind) * way, axis=0) / np.maximum(np.sum(way**2, axis=0), 1e-4)
    )


def _between_ends(raw: Array, phase: Array, ends: tuple[float | None, float | None]) -> Array:
    """Shares of the leading foot, shifted to their values at the ends that the record has."""
    first = 0.0 if ends[0] is None else raw[0] - ends[0]
    last = 0.0 if ends[1] is None or phase[-1] <= WHOLE else raw[-1] - ends[1]
    return np.clip(raw - (1.0 - phase) * first - phase * last, 0.0, 1.0)
