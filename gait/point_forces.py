"""Vertical forces at points of the feet, over a whole record: sharing of the reaction in double
support."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded

from kinesym.gait.events import Contact
from kinesym.gait.pressure import PressureTransfer, instants, seen, upwards
from kinesym.gait.sharing import DoubleSupport
from kinesym.gait.wrench import Wrench, between
from kinesym.runtime.arrays import Array

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
        here = np.zeros(len(time), dtype=bool)
        for contact in spans:
            if contact.foot == name:
                here |= (time >= contact.begin) & (time <= contact.end)
        pushing += [here] * len(POINTS)
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
