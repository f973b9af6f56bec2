"""Mates: markers that stay at constant distances, and the motion of others against them.

Nothing is declared: the mates of a marker are those whose distances from it change least over the
trial. M markers, N instants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_propagation

from kinesym.gait.relations import rigid_motion
from kinesym.runtime.arrays import Array, mean_of_known

Mask: TypeAlias = NDArray[np.bool_]

#: Number of mates of a marker, at most.
MATES = 6
#: Largest median change of the distance to a mate [m].
RIGID = 0.01
#: Largest median change of that distance from one sample to the next [m].
QUIET = 0.006
#: Number of samples, at most, by which mates are chosen.
ENOUGH = 400
#: Limit for noisy markers, in multiples of their lower quartile [-]: six standard deviations of a
#: distance.
OUTLYING = 19.0
#: Least sum of the deviations of two markers from their mates if they are exchanged [m].
EXCHANGED = 0.03
#: Largest share of it that may remain if they are put back [-].
OTHERWISE = 0.35
#: Number of exchanges that are put back, at most.
MOST = 40
#: Largest distance of the mates that make a marker's frame [m].
NEAR = 0.5
#: Largest factor by which the errors of mates may grow at the marker's place [-].
CARRIED = 1.6
#: Least distance of mates from a line at which they show turns, as a share of that in their shape.
STEADY = 0.3
#: Share of the record at either end that shows a slide [-].
SPAN = 0.4
#: Largest motion of mates within a rigid body [m].
BODY = 0.03


@dataclass(frozen=True, eq=False)
class Mates:
    """Mates of each marker, as rows, and their distances [m]."""

    rows: tuple[NDArray[np.intp], ...]
    lengths: tuple[Array, ...]

    def off(self, positions: Array, k: int, of: Array | None = None) -> Array:
        """Change of the distances between marker k, or other positions (3, N) in its place, and its
        mates, (mates, N) [m]."""
        here = positions[k] if of is None else of
        apart = np.linalg.norm(positions[self.rows[k]] - here, axis=1)
        return np.asarray(apart - self.lengths[k][:, None])

    def without(self, k: int, other: int) -> Mates:
        """Mates of which marker k does not have marker `other`."""
        keep = self.rows[k] != other
        rows, lengths = list(self.rows), list(self.lengths)
        rows[k], lengths[k] = rows[k][keep], lengths[k][keep]
        return Mates(tuple(rows), tuple(lengths))

    def without_any(self, other: int) -> Mates:
        """Mates without marker `other`, for every marker."""
        return reduce(lambda mates, k: mates.without(k, other), range(len(self.rows)), self)


@dataclass(frozen=True, eq=False)
class Exchange:
    """Two markers (rows) that have each other's places in some samples (N,). off : [m], (N,)."""

    pair: tuple[int, int]
    where: Mask
    off: Array


def rigid_mates(positions: Array) -> Mates:
    """Mates from the trial (M, 3, N) itself: the markers at the most constant distance, by the
    median.

    A marker that has fewer than two over the whole trial may have come off during it: its mates are
    those of the half in which it has more.
    """
    some = positions[:, :, :: max(positions.shape[2] // ENOUGH, 1)]
    half = some.shape[2] // 2
    best = []
    for k in range(len(some)):
        found = [_mates_of(some, k)]
        if len(found[0][0]) < 2:
            found += [_mates_of(part, k) for part in (some[:, :, :half], some[:, :, half:])]
        best.append(max(found, key=lambda pair: len(pair[0])))
    return Mates(*zip(*best, strict=True))


def _mates_of(positions: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    """Rows of the mates of marker k, the most rigid first, and their distances."""
    apart = np.linalg.norm(positions - positions[k], axis=1)
    middle = median(apart.T)
    spread = median(np.abs(apart - middle[:, None]).T)
    spread[k] = np.nan
    known = np.where(np.isfinite(spread), spread, np.inf)
    order = np.argsort(known)[:MATES]
    steps = median(np.abs(np.diff(apart[order], axis=1)).T)
    chosen = order[(known[order] < RIGID) & (np.nan_to_num(steps, nan=np.inf) < QUIET)]
    return chosen, middle[chosen]


def deviations(positions: Array, mates: Mates) -> Array:
    """Deviation of every marker from the distances to its mates, (M, N) [m]; NaN where too few are
    seen.

    Median of the changes of distance, the lower one of an even number: a mate that is off itself
    does not count.
    """
    return np.array([median(np.abs(mates.off(positions, k))) for k in range(len(positions))])


def jumps(positions: Array, mates: Mates) -> Array:
    """Jump of every marker against its mates from one sample to the next, (M, N) [m]."""
    found = np.full((len(positions), positions.shape[2]), np.nan)
    for k in range(len(positions)):
        found[k, 1:] = median(np.abs(np.diff(mates.off(positions, k), axis=1)))
    return found


def exchanges(
    positions: Array, mates: Mates, outlying: float = 0.2 * OUTLYING
) -> tuple[list[Exchange], Array]:
    """Exchanged markers that distances prove, and positions with all of them put back.

    outlying : a deviation of that many times the median over the trial is no noise.
    """
    mended, found = positions.copy(), []
    for _ in range(MOST):
        off = np.array([mean(mates.off(mended, k)) for k in range(len(mended))])
        seen = np.flatnonzero(off.max(axis=1) > 0.25 * EXCHANGED)
        best = _best_exchange(mended, mates, seen, outlying)
        if best is None:
            break
        a, b = best.pair
        mended[a][:, best.where], mended[b][:, best.where] = (
            mended[b][:, best.where],
            mended[a][:, best.where],
        )
        found.append(best)
    return found, mended


def _best_exchange(
    positions: Array, mates: Mates, seen: NDArray[np.intp], outlying: float
) -> Exchange | None:
    """The two markers whose distances are put right most by an exchange."""
    best, most = None, 0.0
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            one = _exchange(positions, mates, int(a), int(b), outlying)
            if one is not None and one.off[one.where].sum() > most:
                best, most = one, float(one.off[one.where].sum())
    return best


def _exchange(positions: Array, mates: Mates, a: int, b: int, outlying: float) -> Exchange | None:
    """Exchange of two markers, as far as their other mates show it."""
    rest = mates.without(a, b).without(b, a)
    if not len(rest.rows[a]) or not len(rest.rows[b]):
        return None
    as_is = mean(rest.off(positions, a)) + mean(rest.off(positions, b))
    other = mean(rest.off(positions, a, positions[b])) + mean(rest.off(positions, b, positions[a]))
    usual = outlying * float(np.median(as_is))
    sure = (as_is > max(EXCHANGED, usual)) & (other < OTHERWISE * as_is)
    maybe = other < as_is
    if not sure.any():
        return None
    where = np.asarray(binary_propagation(sure, mask=maybe | sure))
    return Exchange((a, b), where, np.where(where, as_is, 0.0))


def leaps(positions: Array, mates: Mates, k: int) -> tuple[Array, bool]:
    """Leap of marker k in the frame of its mates, (N,) [m]: its step from the sample before, less
    the mean of the steps before and after it, so that a smooth motion gives nearly zero. NaN where
    mates, three or more around it, are not seen. Also whether these are a rigid body."""
    place, bent = _in_frame(positions, mates, k)
    found, steps = np.full(positions.shape[2], np.nan), np.diff(place, axis=1)
    found[2:-1] = np.linalg.norm(steps[:, 1:-1] - 0.5 * (steps[:, :-2] + steps[:, 2:]), axis=0)
    return found, bent < BODY


def mates_at_ends(positions: Array) -> tuple[Mates, Mates]:
    """Mates from the first and from the last samples alone, as a marker that slides away has none
    over the whole trial."""
    count = int(SPAN * positions.shape[2])
    return _all_mates(positions[:, :, :count]), _all_mates(positions[:, :, -count:])


def _all_mates(positions: Array) -> Mates:
    found = [_mates_of(positions, k) for k in range(len(positions))]
    return Mates(*zip(*found, strict=True))


def slide(positions: Array, mates: Mates, k: int) -> tuple[float, Array]:
    """Slide of marker k in the frame of its mates between the means of the first and last samples
    [m], and the share of it at every instant (N,); zero if the mates, three or more around it, are
    no rigid body themselves."""
    place, bent = _in_frame(positions, mates, k)
    count = int(SPAN * place.shape[1])
    parts = place[:, :count], place[:, -count:]
    if not bent < BODY or any(np.isfinite(part[0]).mean() < 0.5 for part in parts):
        return 0.0, np.zeros(place.shape[1])
    first, last = (np.nanmean(part, axis=1) for part in parts)
    way = last - first
    return float(np.linalg.norm(way)), way @ (place - first[:, None]) / max(way @ way, 1e-12)


def _in_frame(positions: Array, mates: Mates, k: int) -> tuple[Array, float]:
    """Marker k in the frame of its near mates (3, N) [m], NaN where these are not seen or do not
    carry it; and by how much distances between these change in nine of ten samples [m]."""
    place = np.full_like(positions[k], np.nan)
    group = positions[mates.rows[k][mates.lengths[k] < NEAR]]
    seen = np.isfinite(group[:, 0]).all(axis=0)
    if len(group) < 3 or not seen.any():
        return place, np.inf
    apart = np.linalg.norm(group[:, None] - group[None], axis=2)[..., seen]
    off = np.abs(apart - np.median(apart, axis=2)[..., None])
    best = int(np.flatnonzero(seen)[off.sum(axis=(0, 1)).argmin()])
    shape = group[:, :, best]
    if _error_at(shape, positions[k][:, best]) < CARRIED:
        turn, centre = rigid_motion(shape, group[:, :, seen])
        place[:, seen] = np.einsum("jin,jn->in", turn, positions[k][:, seen] - centre)
        place[:, np.flatnonzero(seen)[~_tell_turns(shape, group[:, :, seen])]] = np.nan
    return place, float(np.quantile(off.max(axis=(0, 1)), 0.9))


def _tell_turns(shape: Array, group: Array) -> NDArray[np.bool_]:
    """Whether points (K, 3, N) determine the rotation of a shape (K, 3), (N,): mates that are no
    rigid body may come to lie in a line, and turn over from one sample to the next."""
    arms, here = shape - shape.mean(axis=0), group - group.mean(axis=0)
    covariance = np.einsum("ki,kjn->nij", arms, here)
    sizes = np.linalg.svd(covariance, compute_uv=False)
    least = sizes[:, 1] + np.sign(np.linalg.det(covariance)) * sizes[:, 2]
    known = np.linalg.svd(arms, compute_uv=False) ** 2
    return np.asarray(least > STEADY * known[1])


def _error_at(shape: Array, point: Array) -> float:
    """The error of a point (3,) that is carried by others (K, 3), over that of each of these: of
    their centre, and of turns about three axes at its arms."""
    arms = shape - shape.mean(axis=0)
    _, sizes, axes = np.linalg.svd(arms)
    squares = np.zeros(3)
    squares[: len(sizes)] = sizes**2
    away = (axes @ (point - shape.mean(axis=0))) ** 2
    pairs = ((0, 1), (0, 2), (1, 2))
    if squares[1] < 1e-3 * squares[0]:
        return np.inf
    turns = sum((away[i] + away[j]) / (squares[i] + squares[j]) for i, j in pairs)
    return float(np.sqrt(1.0 / len(shape) + turns))


def mean(off: Array) -> Array:
    """Mean size of rows (K, N) at every instant, (N,), of those that are known; 0 if none is."""
    return np.nan_to_num(mean_of_known(np.abs(off), 0))


def median(rows: Array) -> Array:
    """Median of rows (K, N) at every instant, the lower one of an even number, without NaN."""
    if not len(rows):
        return np.full(rows.shape[1:], np.nan)
    order = np.sort(rows, axis=0)  # NaN last
    k = np.maximum(np.isfinite(rows).sum(axis=0) - 1, 0) // 2
    return np.asarray(np.take_along_axis(order, k[None], axis=0)[0])
