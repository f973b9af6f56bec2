"""Markers that cannot be where they are said to be: exchanged, jumping, off their rigid segment.

Nothing is declared: the mates of a marker are those whose distances from it change least over the
trial. M markers, N instants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_propagation

from kinesym.gait.axes import UP, facing
from kinesym.gait.checks import Finding, Panel, judged
from kinesym.gait.gaps import runs
from kinesym.gait.markers import Markers
from kinesym.gait.names import pairs_of_sides
from kinesym.runtime.arrays import Array

Mask: TypeAlias = NDArray[np.bool_]

#: So many mates has a marker at most; the median change of their distance is below this, from one
#: sample to the next below that [m].
MATES, RIGID, QUIET = 6, 0.01, 0.006
#: Samples by which mates are chosen.
ENOUGH = 400
#: Change of the distance to its mates that no marker on a body shows [m]: at all, and from one
#: sample to the next.
DEFORMED, JUMP = 0.04, 0.03
#: Where markers are noisy, so many times what they show in a quarter of the samples at most: six
#: standard deviations.
OUTLYING = 19.0
#: By so much two markers together are off their mates where they are exchanged [m]; the other way
#: round they are off by no more than this share of it.
EXCHANGED, OTHERWISE = 0.03, 0.35
#: Nearer than this markers of both sides may be on either side [m].
SIDE = 0.05
#: More exchanges than these are no exchanges.
MOST = 40


@dataclass(frozen=True, eq=False)
class Mates:
    """Of each marker the rows of its mates, and their distances [m]."""

    rows: tuple[NDArray[np.intp], ...]
    lengths: tuple[Array, ...]

    def off(self, positions: Array, k: int, of: Array | None = None) -> Array:
        """By how much the distances of marker k, or of something else (3, N) in its place, from its
        mates are off, (mates, N) [m]."""
        here = positions[k] if of is None else of
        return _apart(positions[self.rows[k]], here) - self.lengths[k][:, None]

    def without(self, k: int, other: int) -> Mates:
        """Where another marker is no mate of marker k."""
        keep = self.rows[k] != other
        rows, lengths = list(self.rows), list(self.lengths)
        rows[k], lengths[k] = rows[k][keep], lengths[k][keep]
        return Mates(tuple(rows), tuple(lengths))


@dataclass(frozen=True, eq=False)
class Exchange:
    """Two markers (rows) that have each other's places in some samples (N,). off : [m], (N,)."""

    pair: tuple[int, int]
    where: Mask
    off: Array


def rigid_mates(positions: Array) -> Mates:
    """From the trial (M, 3, N) itself: the markers at the most constant distance, by the median.

    A marker that has fewer than two over the whole trial may have come off during it: its mates are
    those of the half in which it has more.
    """
    some = positions[:, :, :: max(positions.shape[2] // ENOUGH, 1)]
    half = some.shape[2] // 2
    rows, lengths = [], []
    for k in range(len(some)):
        found = [_mates_of(some, k)]
        if len(found[0][0]) < 2:
            found += [_mates_of(part, k) for part in (some[:, :, :half], some[:, :, half:])]
        chosen, apart = max(found, key=lambda pair: len(pair[0]))
        rows.append(chosen)
        lengths.append(apart)
    return Mates(tuple(rows), tuple(lengths))


def _mates_of(positions: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    """Rows of the mates of marker k, the most rigid first, and their distances."""
    apart = _apart(positions, positions[k])
    middle = _median(apart.T)
    spread = _median(np.abs(apart - middle[:, None]).T)
    spread[k] = np.nan
    known = np.where(np.isfinite(spread), spread, np.inf)
    order = np.argsort(known)[:MATES]
    steps = _median(np.abs(np.diff(apart[order], axis=1)).T)
    chosen = order[(known[order] < RIGID) & (np.nan_to_num(steps, nan=np.inf) < QUIET)]
    return chosen, middle[chosen]


def clusters_of(
    clusters: Sequence[Sequence[str]], names: Sequence[str], still: Mapping[str, Array]
) -> Mates:
    """Of markers that are declared to be rigid clusters, distances as in the standing trial."""
    mates: dict[str, list[str]] = {name: [] for name in names}
    for cluster in clusters:
        known = [name for name in cluster if name in mates and name in still]
        for name in known:
            mates[name] += [n for n in known if n != name and n not in mates[name]]
    rows = tuple(np.array([names.index(n) for n in mates[name]], dtype=np.intp) for name in names)
    lengths = tuple(
        np.array([float(np.linalg.norm(still[n] - still[name])) for n in mates[name]])
        for name in names
    )
    return Mates(rows, lengths)


def deviations(positions: Array, mates: Mates) -> Array:
    """By how much every marker is off its mates, (M, N) [m]; NaN where too few are seen.

    Of the changes of distance the median, of an even number the lower one: a mate that is off
    itself does not count.
    """
    return np.array([_median(np.abs(mates.off(positions, k))) for k in range(len(positions))])


def jumps(positions: Array, mates: Mates) -> Array:
    """By how much every marker moves against its mates from one sample to the next, (M, N) [m]."""
    found = np.full((len(positions), positions.shape[2]), np.nan)
    for k in range(len(positions)):
        found[k, 1:] = _median(np.abs(np.diff(mates.off(positions, k), axis=1)))
    return found


def exchanges(
    positions: Array, mates: Mates, outlying: float = 0.2 * OUTLYING
) -> tuple[list[Exchange], Array]:
    """What distances prove to be exchanged, and positions with all of it put back.

    outlying : what is that many times the median over the trial is no noise.
    """
    mended, found = positions.copy(), []
    for _ in range(MOST):
        off = np.array([_mean(mates.off(mended, k)) for k in range(len(mended))])
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
    """Where two markers are exchanged, as far as their other mates can tell."""
    rest = mates.without(a, b).without(b, a)
    if not len(rest.rows[a]) or not len(rest.rows[b]):
        return None
    as_is = _mean(rest.off(positions, a)) + _mean(rest.off(positions, b))
    other = _mean(rest.off(positions, a, positions[b])) + _mean(
        rest.off(positions, b, positions[a])
    )
    usual = outlying * float(np.median(as_is))
    sure = (as_is > max(EXCHANGED, usual)) & (other < OTHERWISE * as_is)
    maybe = other < as_is
    if not sure.any():
        return None
    where = np.asarray(binary_propagation(sure, mask=maybe | sure))
    return Exchange((a, b), where, np.where(where, as_is, 0.0))


# -- findings -----------------------------------------------------------------------------------


def check_markers(
    markers: Markers,
    clusters: Sequence[Sequence[str]] = (),
    still: Mapping[str, Array] | None = None,
) -> tuple[list[Finding], list[Panel], Markers]:
    """Whether markers are where they are said to be: findings, the series behind them, and the
    markers with proven exchanges put back.

    clusters : that are declared to be rigid; still : places of a standing trial (3,), to which
    they are compared.
    """
    names, time = markers.names, markers.time
    positions = np.array([markers.positions[name] for name in names])
    mates = rigid_mates(positions)
    found, mended = exchanges(positions, mates)
    findings = [_exchanged(one, names, time) for one in found]
    spoilt = {", ".join(names[k] for k in one.pair): one.off for one in found}
    back = Markers(time, dict(zip(names, mended, strict=True))) if found else markers
    if not findings:
        ends = float(time[0]), float(time[-1]), float(time[0])
        findings = [Finding("exchanged markers", (), *ends, 0.0, EXCHANGED, "m")]
    off, steps = deviations(mended, mates), jumps(mended, mates)
    jumping = dict(zip(names, steps, strict=True))
    findings += judged("jump of a marker", time, jumping, _limits(jumping, JUMP), "m", _jumped)
    jumped = {name for one in findings for name in one.names if one.says}
    rows = dict(zip(names, deviations(positions, mates), strict=True)) | spoilt
    kinds = ("exchanged markers", "jump of a marker", "marker off its segment")
    panels = [Panel("off its neighbours [m]", time, rows, DEFORMED, kinds)]
    steady = {name: row for name, row in zip(names, off, strict=True) if name not in jumped}
    findings += judged(
        "marker off its segment", time, steady, _limits(steady, DEFORMED), "m", _deformed
    )
    if still:
        findings += _against_standing(mended, names, time, clusters, still)
    return [*findings, *check_sides(back)], panels, back


def _limits(rows: Mapping[str, Array], least: float) -> dict[str, float]:
    """What is too much for each marker."""
    seen = {name: row[np.isfinite(row)] for name, row in rows.items()}
    return {
        name: max(least, OUTLYING * float(np.quantile(row, 0.25))) if len(row) else least
        for name, row in seen.items()
    }


def _exchanged(one: Exchange, names: Sequence[str], time: Array) -> Finding:
    here = np.flatnonzero(one.where)
    worst = int(one.off.argmax())
    first, second = (names[k] for k in one.pair)
    times = len(runs(one.where))
    when = (
        f"{len(here)} of {len(time)} samples between {time[here[0]]:.3f} and {time[here[-1]]:.3f} s"
    )
    says = (
        f"markers {first!r} and {second!r} are exchanged in {when}"
        + (f" ({times} times)" if times > 1 else "")
        + f", off their segments by {one.off[worst]:.3f} m together at {time[worst]:.3f} s; "
        "repair='swaps' puts them back"
    )
    return Finding(
        "exchanged markers",
        (first, second),
        float(time[here[0]]),
        float(time[here[-1]]),
        float(time[worst]),
        float(one.off[worst]),
        EXCHANGED,
        "m",
        says,
    )


def put_back(findings: Sequence[Finding]) -> list[Finding]:
    """The same, where exchanges that distances prove were mended."""
    return [
        replace(
            one,
            mended=True,
            says=one.says.replace("are exchanged", "were exchanged and are put back").replace(
                "; repair='swaps' puts them back", ""
            ),
        )
        if one.kind == "exchanged markers" and one.says
        else one
        for one in findings
    ]


def _jumped(one: Finding) -> str:
    return (
        f"marker {one.names[0]!r} jumps by {one.size:.3f} m against its neighbours from one sample "
        f"to the next at {one.worst:.3f} s; cut that out and fill it, or exclude the marker with "
        f"without({one.names[0]!r})"
    )


def _deformed(one: Finding) -> str:
    return (
        f"marker {one.names[0]!r} is off the others of its segment by {one.size:.3f} m at "
        f"{one.worst:.3f} s, beyond {one.limit:g} m from {one.begin:.3f} to {one.end:.3f} s: named "
        f"wrongly, or come off? Exclude it there, or altogether with without({one.names[0]!r})"
    )


def _against_standing(
    positions: Array,
    names: Sequence[str],
    time: Array,
    clusters: Sequence[Sequence[str]],
    still: Mapping[str, Array],
) -> list[Finding]:
    """Markers at other distances in their clusters than in the standing trial, all along."""
    mates = clusters_of(clusters, names, still)
    found, mended = exchanges(positions, mates, outlying=0.0)
    findings = []
    for one in found:
        if one.where.mean() > 0.5:
            first, second = (names[k] for k in one.pair)
            findings.append(
                Finding(
                    "cluster of standing",
                    (first, second),
                    float(time[0]),
                    float(time[-1]),
                    float(time[one.off.argmax()]),
                    float(one.off.max()),
                    EXCHANGED,
                    "m",
                    f"markers {first!r} and {second!r} are exchanged between this trial and the "
                    "standing one: look which of the two is right, and use renamed()",
                )
            )
    rows = dict(zip(names, deviations(mended, mates), strict=True))
    rows = {name: row for name, row in rows.items() if np.isfinite(row).any()}
    middle = {name: np.full_like(time, np.nanmedian(row)) for name, row in rows.items()}
    return findings or judged("cluster of standing", time, middle, DEFORMED, "m", _other)


def _other(one: Finding) -> str:
    return (
        f"marker {one.names[0]!r} is {one.size:.3f} m nearer to or further from those of its "
        "cluster than in the standing trial: another place, name or unit there?"
    )


def check_sides(markers: Markers) -> list[Finding]:
    """Whether names of right and left are exchanged throughout, seen along the feet or the way."""
    ahead, why = facing(markers.positions, UP)
    pairs = pairs_of_sides(markers.names)
    if not why or len(pairs) < 2:
        return []
    left = np.array([-ahead[1], ahead[0]]) / np.linalg.norm(ahead)
    apart = {
        pair: float(
            np.nanmean(left @ (markers.positions[pair[1]] - markers.positions[pair[0]])[:2])
        )
        for pair in pairs
    }
    wrong = {pair: gap for pair, gap in apart.items() if gap < -SIDE}
    right = [pair for pair, gap in apart.items() if gap > SIDE]
    kind, begin, end = "right and left", float(markers.time[0]), float(markers.time[-1])

    def finding(pair: tuple[str, str], gap: float, says: str) -> Finding:
        return Finding(kind, pair, begin, end, begin, max(-gap, 0.0), SIDE, "m", says)

    pair = min(apart, key=lambda each: apart[each])
    if len(wrong) > len(right):
        return [
            finding(
                pair,
                apart[pair],
                (
                    f"names of right and left are exchanged throughout: {pair[0]!r} is "
                    f"{-apart[pair]:.2f} m to the left of {pair[1]!r}, and {len(wrong)} of "
                    f"{len(pairs)} pairs are so; use markers.exchanged()"
                ),
            )
        ]
    return [
        finding(
            pair,
            gap,
            (
                f"markers {pair[0]!r} and {pair[1]!r} are exchanged throughout: the first is "
                f"{-gap:.2f} m to the left of the second; use markers.renamed()"
            ),
        )
        for pair, gap in wrong.items()
    ] or [finding(pair, apart[pair], "")]


def _apart(points: Array, point: Array) -> Array:
    return np.asarray(np.linalg.norm(points - point, axis=1))


def _mean(off: Array) -> Array:
    """Mean size of rows (K, N) at every instant, (N,), of those that are known; 0 if none is."""
    known = np.isfinite(off)
    return np.asarray(np.nansum(np.abs(off), axis=0) / np.maximum(known.sum(axis=0), 1))


def _median(rows: Array) -> Array:
    """Of rows (K, N) at every instant the median, of an even number the lower one, without NaN."""
    if not len(rows):
        return np.full(rows.shape[1:], np.nan)
    order = np.sort(rows, axis=0)  # NaN last
    k = np.maximum(np.isfinite(rows).sum(axis=0) - 1, 0) // 2
    return np.asarray(np.take_along_axis(order, k[None], axis=0)[0])
