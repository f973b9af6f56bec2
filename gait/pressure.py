"""Sharing the ground reaction without force plates: by where its centre of pressure lies between
the feet, and by vertical forces at points of the feet over a whole record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solveh_banded

from kinesym.base.checks import check_known, finite, positive
from kinesym.gait.events import Contact, Feet, during, heels_and_toes, in_order
from kinesym.gait.sharing_methods import DoubleSupport
from kinesym.gait.support import center_of_pressure
from kinesym.gait.wrench import Wrench, between
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
#: Points of contact, from the marker on the heel (0) to that on the toe (1).
POINTS = (0.1, 0.9)
#: Standard deviation of the total vertical force, over the weight [-].
FORCE = 0.005
#: Standard deviation of the total's centre of pressure along feet [m].
ALONG = 0.01
#: Standard deviation of it across feet [m], where it is off for whole steps. In walks that matters
#: little; with feet side by side it determines the share of each.
ACROSS = 0.1
#: A double support is a step, from the toes of one foot to the heel of the other, if it is shorter
#: [s]; otherwise people stand on both feet.
STANDING = 0.5
#: Standard deviation of the rate of a force, over the weight [1/s].
RATE = 10.0
#: Period in which all rates together count once [s], whatever the rate of the record.
PERIOD = 1.0 / 120.0
#: Ridge on forces that are otherwise undetermined [-].
LITTLE = 1e-6
#: Exchanges between active and inactive forces, at most.
EXCHANGES = 1000
#: Exchanges of several forces at once without progress, before single ones.
PATIENCE = 5


@dataclass(frozen=True, eq=False, init=False)
class PressureTransfer:
    """Feet share the vertical force as supports of a lever do, without force plates.

    The centre of pressure of the total wanders from the toes of the trailing foot to the heel of
    the leading one; where it is between them says which share each foot bears. The share is
    shifted to be 0 when the leading foot strikes and 1 when the trailing one leaves. Force lines of
    both feet meet above the ground on that of the total, so that the leading foot brakes while the
    trailing one pushes; what is then left of force and moment is shared like the vertical force.

    time : (N,) [s]. feet : by name, the places of heel and toe, each (3, N) [m]. height : of the
    floor [m]. pivot : how far above the feet force lines meet [m]. contacts : their heights say on
    what feet stand, as on stairs; by default on the floor. Raises `ValueError` for shapes, and for
    feet that are not named.
    """

    time: Array
    places: Mapping[str, tuple[Array, Array]]
    surfaces: Mapping[str, Array]
    height: float
    pivot: float

    def __init__(
        self,
        time: ArrayLike,
        feet: Feet,
        height: float = 0.0,
        pivot: float = PIVOT,
        contacts: Iterable[Contact] = (),
    ) -> None:
        grid = time_grid(time)
        found = heels_and_toes(feet, grid)
        floor, rows = finite(height, "height"), [c for c in in_order(contacts) if not c.seat]
        for contact in rows:
            check_known(contact.foot, found, f"there is no foot {contact.foot!r}")
        object.__setattr__(self, "time", grid)
        object.__setattr__(self, "places", found)
        surfaces = {
            foot: floor + _heights(grid, [c for c in rows if c.foot == foot]) for foot in found
        }
        object.__setattr__(self, "surfaces", surfaces)
        object.__setattr__(self, "height", floor)
        object.__setattr__(self, "pivot", positive(pivot, "pivot"))

    def leading(self, double: DoubleSupport) -> Array:
        """See `Method`."""
        return self.shared(double, None)

    def shared(self, double: DoubleSupport, share: Array | None, step: bool = True) -> Array:
        """The wrench on the leading foot (6, n), which bears this share of the vertical force at
        `instants`, but for the ends; by default that of the lever. step : from the toes of one foot
        to the heel of the other; else both are pressed equally far between their heel and toe."""
        s, when = np.append(0.0, double.phase), instants(double)
        origin = upwards(self.middle(double.feet, when))
        (_, behind), (heel, toe) = self._standing(double.feet, when)
        ahead = heel + (HEEL + (ROLLED - HEEL) * s) * (toe - heel)
        total = np.column_stack([double.at_strike, double.total])
        force = total[:3]
        moment = total[3:] - np.cross(origin, force, axis=0)
        centre = np.vstack([np.nan_to_num(center_of_pressure(force, moment)), np.zeros_like(s)])
        slopes = force[:2] / np.where(force[2] == 0.0, np.inf, force[2])
        meet = centre + self.pivot * np.vstack([slopes, np.ones_like(s)])  # on the total's line
        raw = _lever(centre, seen(behind, meet), seen(ahead, meet)) if share is None else share
        part = _between_ends(raw, s, double.ends)
        if not step:
            behind, ahead = self._alike(double.feet, when, part, meet, centre)
        lines = [(meet - at) / (meet - at)[2] for at in (behind, ahead)]
        pushes = [(1.0 - part) * force[2] * lines[0], part * force[2] * lines[1]]
        mine = pushes[1] + part * (force - pushes[0] - pushes[1])
        arms = np.cross(behind, force - mine, axis=0) + np.cross(ahead, mine, axis=0)
        turn = np.cross(ahead, mine, axis=0) + part * (moment - arms)
        rows = np.vstack([mine, turn + np.cross(origin, mine, axis=0)])
        return np.asarray(rows[:, 1:])

    def surface(self, foot: str, when: Array) -> Array:
        """Heights (n,) of what a foot stands on [m]; raises `ValueError` for an unknown foot."""
        check_known(foot, self.places, f"there is no foot {foot!r}")
        return np.interp(when, self.time, self.surfaces[foot])

    def middle(self, feet: Iterable[str], when: Array) -> Array:
        """Mean height (n,) of what these feet stand on [m]."""
        return np.asarray(np.mean([self.surface(foot, when) for foot in feet], axis=0))

    def _alike(
        self, feet: tuple[str, str], when: Array, part: Array, meet: Array, centre: Array
    ) -> tuple[Array, Array]:
        """Points of support of both feet, equally far along each, by the measured centre of
        pressure."""
        (back, front), (other_back, other_front) = self._standing(feet, when)
        heel, toe = (
            (1 - part) * seen(one, meet) + part * seen(other, meet)
            for one, other in ((back, other_back), (front, other_front))
        )
        along = np.clip(_lever(centre, heel, toe), 0.0, 1.0)
        return back + along * (front - back), other_back + along * (other_front - other_back)

    def _standing(self, feet: tuple[str, str], when: Array) -> list[tuple[Array, Array]]:
        """Heel and toe (3, n) of both feet on what they stand on, about its middle height."""
        middle, flat, found = self.middle(feet, when), np.array([[1.0], [1.0], [0.0]]), []
        for foot in feet:
            above = upwards(self.surface(foot, when) - middle)
            heel, toe = (between(when, self.time, at) * flat + above for at in self.places[foot])
            found.append((heel, toe))
        return found


def upwards(heights: Array) -> Array:
    """Points (3, n) at heights (n,) [m] above the origin."""
    return np.array([0.0 * heights, 0.0 * heights, heights])


def seen(points: Array, meet: Array) -> Array:
    """Points at which lines from `meet` through others, all (3, n), reach the plane z = 0: forces
    on these lines have the same moments about it at both."""
    return np.asarray(meet + (points - meet) * meet[2] / (meet[2] - points[2]))


def _heights(time: Array, contacts: list[Contact]) -> Array:
    """Heights (N,) of what a foot stands on, or next stood on, above the floor [m]."""
    if not contacts:
        return np.zeros_like(time)
    apart = [np.maximum(np.maximum(c.begin - time, time - c.end), 0.0) for c in contacts]
    return np.array([c.height for c in contacts])[np.argmin(apart, axis=0)]


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


# -- forces at points of the feet -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PointForces:
    """Feet share the vertical force as points under them do that only push, and only in contact.

    All forces over all of the record at once are those of least squares: they add up to the total,
    have its centre of pressure, and change no faster than they need. So the share at an instant
    fits to where both feet are pressed before and after. This is a convex problem, without a start.
    The rest is as in `PressureTransfer`; who stands on both feet for longer than a step is pressed
    equally far along each.

    feet : their places. time : (N,) [s]. borne : by foot and seat, over the weight, (N,).
    """

    feet: PressureTransfer
    time: Array
    borne: Mapping[str, Array]

    def leading(self, double: DoubleSupport) -> Array:
        """See `Method`."""
        when, none = instants(double), np.zeros_like(self.time)
        behind, ahead = (
            np.interp(when, self.time, self.borne.get(foot, none)) for foot in double.feet
        )
        share = ahead / np.maximum(behind + ahead, LITTLE)
        begin, end = double.interval
        step = end - begin < STANDING and double.ends not in ((None, None), (0.0, 0.0))
        return self.feet.shared(double, share, step)


def point_forces(
    total: Wrench,
    contacts: Iterable[Contact],
    feet: PressureTransfer,
    weight: float,
    seats: Mapping[str, Array] = {},
) -> PointForces:
    """Forces at points of the feet that add up to the total wrench (N,), N >= 2, with contacts of
    these feet; weight [N]. seats : places (3, N) by name that are pressed straight down, as those
    on chairs; points of feet push towards where force lines meet."""
    time, spans = total.time, list(contacts)
    middle = feet.middle(feet.places, time)
    pressed = total.cop(middle, LITTLE * weight) - upwards(middle)
    meet = pressed + feet.pivot * total.force / np.maximum(total.force[2], LITTLE * weight)
    places, pushing = [], []
    for name in [*feet.places, *seats]:
        if name in seats:
            places += [seats[name][:2]] * len(POINTS)
        else:
            above = feet.surface(name, time) - middle
            heel, toe = (between(time, feet.time, place)[:2] for place in feet.places[name])
            for part in POINTS:
                point = np.vstack([heel + part * (toe - heel), above])
                places.append(np.where(above == 0.0, point, np.nan_to_num(seen(point, meet)))[:2])
        down = [during(contact, time) for contact in spans if contact.foot == name]
        pushing += [np.any([np.zeros(len(time), dtype=bool), *down], axis=0)] * len(POINTS)
    bands, side = _normal(total, np.array(places), upwards(middle), weight)
    found = nonnegative(bands, side, np.transpose(pushing).ravel()).reshape(len(time), -1)
    borne = found.reshape(len(time), -1, len(POINTS)).sum(axis=2)
    return PointForces(feet, time, dict(zip([*feet.places, *seats], borne.T, strict=True)))


def _normal(total: Wrench, places: Array, origin: Array, weight: float) -> tuple[Array, Array]:
    """Normal equations of the forces of points at `places` (m, 2, N) in a plane through `origin`
    (3, N), instant by instant: the bands (m + 1, N m) of their matrix, from the diagonal down, and
    the right side."""
    time, (m, _, N) = total.time, places.shape
    force = total.force / weight
    moment = total.moment / weight - np.cross(origin, force, axis=0)
    ends = places[len(POINTS) - 1 :: len(POINTS)] - places[:: len(POINTS)]  # of each foot
    along = ends.mean(axis=0) / np.maximum(np.linalg.norm(ends.mean(axis=0), axis=0), LITTLE)
    axes = np.array([along / ALONG, np.array([-along[1], along[0]]) / ACROSS])
    middle = places.mean(axis=0)
    pressed = np.array([-moment[1], moment[0]]) - middle * force[2]  # centre of it times force
    arms = np.einsum("ain,kin->akn", axes, places - middle)
    rows = np.concatenate([np.full((1, m, N), 1.0 / FORCE), arms])
    given = np.vstack([force[2] / FORCE, np.einsum("ain,in->an", axes, pressed)])
    lasting = np.gradient(time) / PERIOD
    blocks = np.einsum("akn,aln,n->nkl", rows, rows, lasting)
    change = 1.0 / (np.diff(time) * PERIOD * RATE**2)
    diagonal = LITTLE + np.append(change, 0.0) + np.append(0.0, change)
    blocks += diagonal[:, None, None] * np.eye(m)
    bands = np.zeros((m + 1, N, m))
    for k in range(m):
        bands[k, :, : m - k] = blocks[:, np.arange(k, m), np.arange(m - k)]
    bands[m, :-1] = -change[:, None]
    side = np.einsum("akn,an,n->nk", rows, given, lasting)
    return bands.reshape(m + 1, N * m), side.ravel()


def nonnegative(bands: Array, side: Array, free: NDArray[np.bool_]) -> Array:
    """The x (n,) of least x' A x / 2 - side' x that is nowhere negative, and 0 where not `free`.

    bands : of a positive definite A, (b + 1, n), from the diagonal down. By exchanges of all places
    that are wrong at once, of one where that does not help (Portugal, Judice, Vicente 1994,
    Mathematics of Computation 63:625, algorithm 3).
    """
    n, width, tiny = len(side), len(bands), 1e-10 * np.abs(side).max(initial=0.0)
    inside, fewest, patience = free.copy(), n + 1, PATIENCE
    for _ in range(EXCHANGES):
        part = bands * inside
        for k in range(1, width):
            part[k, : n - k] *= inside[k:]
        part[0] += ~inside
        x = solveh_banded(part, np.where(inside, side, 0.0), lower=True)
        slope = _times(bands, x) - side
        wrong = free & np.where(inside, x < -1e-10, slope < -tiny)
        count = int(wrong.sum())
        if not count:
            break
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        inside ^= wrong
    return np.asarray(np.maximum(x, 0.0))


def _times(bands: Array, x: Array) -> Array:
    """A x."""
    found = bands[0] * x
    for k in range(1, len(bands)):
        found[k:] += bands[k, :-k] * x[:-k]
        found[:-k] += bands[k, :-k] * x[k:]
    return np.asarray(found)
