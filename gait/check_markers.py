"""Markers that cannot be where they are said to be: exchanged, jumping, off their rigid segment, or
at other places in their clusters than in a standing trial.

Each marker is judged by the distances to its mates, see `mates`. M markers, N instants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kinesym.gait.axes import UP, facing
from kinesym.gait.checks import Finding, Panel, judged
from kinesym.gait.gaps import runs
from kinesym.gait.markers import Markers
from kinesym.gait.mates import (
    ENOUGH,
    EXCHANGED,
    OUTLYING,
    Exchange,
    Mates,
    deviations,
    exchanges,
    jumps,
    leaps,
    mates_at_ends,
    rigid_mates,
    slide,
)
from kinesym.gait.names import pairs_of_sides
from kinesym.runtime.arrays import Array

#: Largest change of the distance of a marker to its mates [m]: the skin of runners moves by 44 mm
#: where others hardly do, by 65 mm where all do.
DEFORMED = 0.05
#: Largest change of that distance from one sample to the next [m].
JUMP = 0.03
#: Allowance for skin motion beyond the noise of a marker [m].
SKIN = 0.006
#: Largest leap of a marker in the frame of its mates, per second [m/s]: heels that strike.
SUDDEN = 1.4
#: Largest leap of noisy markers, in multiples of the lower quartile of their leaps [-].
NOISY = 7.5
#: Longest time between samples for which leaps count if mates are no rigid body [s].
CLOSE = 0.021
#: Largest slide of a marker in the frame of its mates, from the first to the last two fifths of a
#: record [m].
SLID = 0.055
#: Samples that a record must have for a slide to be judged.
LONG_ENOUGH = 30
#: Distance below which markers of both sides may be on either side [m].
SIDE = 0.05
#: Least change of the distance to the others of a cluster that shows a marker at another place [m].
OTHER = 0.04
#: Number of markers near a cluster that decide which of two markers is nearer to them.
AROUND = 10
#: Least difference (rms) of both markers in these distances, in the standing trial [m].
APART = 0.02
#: Largest ratio of that difference in the trial to the standing one; negative if exchanged [-].
TURNED = -0.25


def check_markers(
    markers: Markers,
    clusters: Sequence[Sequence[str]] = (),
    still: Mapping[str, Array] | None = None,
    repaired: bool = False,
) -> tuple[list[Finding], list[Panel], Markers]:
    """Whether markers are where they are said to be: findings, the series behind them, and the
    markers with proven exchanges put back.

    clusters : that are declared to be rigid; still : places of a standing trial (3,), to which
    they are compared. repaired : whether the markers that are put back are those that count.
    """
    names, time = markers.names, markers.time
    positions = np.array([markers.positions[name] for name in names])
    mates = rigid_mates(positions)
    found, mended = exchanges(positions, mates)
    findings = [_exchanged(one, names, time, repaired) for one in found]
    spoilt = {", ".join(names[k] for k in one.pair): one.off for one in found}
    back = Markers(time, dict(zip(names, mended, strict=True))) if found else markers
    if not findings:
        ends = float(time[0]), float(time[-1]), float(time[0])
        findings = [Finding("exchanged markers", (), *ends, 0.0, EXCHANGED, "m")]
    off = dict(zip(names, deviations(mended, mates), strict=True))
    findings += _jumping(mended, mates, names, time, off)
    jumped = {name for one in findings for name in one.names if one.says}
    rows = dict(zip(names, deviations(positions, mates), strict=True)) | spoilt
    kinds = ("exchanged markers", "jump of a marker", "marker off its segment")
    panels = [Panel("off its neighbours [m]", time, rows, DEFORMED, kinds)]
    steady = {name: row for name, row in off.items() if name not in jumped}
    findings += judged(
        "marker off its segment", time, steady, _limits(steady, DEFORMED, SKIN), "m", _deformed
    )
    off_now = {name for one in findings for name in one.names if one.says}
    findings += _sliding(mended, names, time, off_now)
    if still:
        findings += against_standing(mended, names, time, clusters, still)
    return [*findings, *check_sides(back)], panels, back


def _limits(rows: Mapping[str, Array], least: float, more: float = 0.0) -> dict[str, float]:
    """Upper limit of each marker's row: `more` plus a multiple of its lower quartile, at least
    `least`."""
    seen = {name: row[np.isfinite(row)] for name, row in rows.items()}
    return {
        name: max(least, more + OUTLYING * float(np.quantile(row, 0.25))) if len(row) else least
        for name, row in seen.items()
    }


def _exchanged(one: Exchange, names: Sequence[str], time: Array, repaired: bool) -> Finding:
    here = np.flatnonzero(one.where)
    worst = int(one.off.argmax())
    first, second = (names[k] for k in one.pair)
    times = len(runs(one.where))
    when = (
        f"{len(here)} of {len(time)} samples between {time[here[0]]:.3f} and {time[here[-1]]:.3f} s"
    )
    says = (
        f"markers {first!r} and {second!r} "
        f"{'were exchanged and are put back' if repaired else 'are exchanged'} in {when}"
        + (f" ({times} times)" if times > 1 else "")
        + f", off their segments by {one.off[worst]:.3f} m together at {time[worst]:.3f} s"
        + "; repair='swaps' puts them back" * (not repaired)
    )
    ends = float(time[here[0]]), float(time[here[-1]]), float(time[worst])
    size = float(one.off[worst])
    kind, pair = "exchanged markers", (first, second)
    return Finding(kind, pair, *ends, size, EXCHANGED, "m", says, repaired)


def _jumping(
    positions: Array, mates: Mates, names: Sequence[str], time: Array, off: Mapping[str, Array]
) -> list[Finding]:
    """Markers that jump: their distances from their mates, or they in the frame of these."""
    rows = dict(zip(names, jumps(positions, mates), strict=True))
    limits = _limits(rows, JUMP)
    over = {name for name, row in rows.items() if np.nan_to_num(row).max() > limits[name]}
    for name, row, limit in _leaping(positions, mates, names, time, over):
        rows[name], limits[name] = row, limit

    def say(one: Finding) -> str:
        name = one.names[0]
        begin, end = _astray(rows[name] > limits[name], rows[name], off[name])
        half = 0.5 * (time[1] - time[0])
        return (
            f"marker {name!r} jumps by {one.size:.3f} m against its neighbours from one sample to "
            f"the next at {one.worst:.3f} s; markers.cut({name!r}, {time[begin] - half:.4f}, "
            f"{time[end] + half:.4f}) takes out where it is off"
        )

    return judged("jump of a marker", time, rows, limits, "m", say)


def _leaping(
    positions: Array, mates: Mates, names: Sequence[str], time: Array, known: set[str]
) -> list[tuple[str, Array, float]]:
    """Names, leaps and limits of markers that leap, but those that are known to jump."""
    step = float(time[1] - time[0])

    def leap(mates: tuple[Mates, ...], k: int) -> tuple[Array, float]:
        row, rigid = leaps(positions, mates[0], k)
        usual = float(np.nanquantile(row, 0.25)) if np.isfinite(row).any() else 0.0
        limit = max(JUMP, SUDDEN * step, NOISY * usual)
        return row, limit if rigid or step < CLOSE else np.inf

    def size(mates: tuple[Mates, ...], k: int) -> float:
        row, limit = leap(mates, k)
        return float(np.nan_to_num(row).max()) / limit

    found = _worst_first(size, (mates,), names, known)
    return [(names[k], *leap(left, k)) for k, left in found]


def _sliding(positions: Array, names: Sequence[str], time: Array, known: set[str]) -> list[Finding]:
    """Markers that slide away in the frame of their mates, but those that are known to be off."""
    if len(time) < LONG_ENOUGH or time[-1] - time[0] < 1.0:
        return []
    some, until = slice(None, None, max(len(time) // ENOUGH, 1)), float(time[-1])
    positions, time = positions[:, :, some], time[some]

    def size(mates: tuple[Mates, ...], k: int) -> float:
        sizes = [found for each in mates if (found := slide(positions, each, k)[0]) > 0.0]
        return min(sizes, default=0.0) / SLID

    def finding(mates: tuple[Mates, ...], k: int) -> Finding:
        found = [slide(positions, each, k) for each in mates]
        name, (way, share) = names[k], max(found, key=lambda pair: pair[0])
        begin = int(np.flatnonzero(np.nan_to_num(share, nan=1.0) < 0.3)[-1])
        ends = float(time[begin]), until
        says = (
            f"marker {name!r} slides by {way:.3f} m against its neighbours from {ends[0]:.3f} s "
            f"on: come off? markers.cut({name!r}, {ends[0]:.3f}, {ends[1]:.3f}) takes that out"
        )
        return Finding("marker off its segment", (name,), *ends, ends[1], way, SLID, "m", says)

    found = _worst_first(size, mates_at_ends(positions), names, known)
    return [finding(left, k) for k, left in found]


def _worst_first(
    size: Callable[[tuple[Mates, ...], int], float],
    mates: tuple[Mates, ...],
    names: Sequence[str],
    known: set[str],
) -> list[tuple[int, tuple[Mates, ...]]]:
    """Rows of markers whose size is beyond 1, the largest first, and the mates that were left then:
    one that is off, or known to be, takes a frame along and is no mate of the others."""
    found, gone = list[tuple[int, tuple[Mates, ...]]](), [names.index(name) for name in known]
    for k in gone:
        mates = tuple(each.without_any(k) for each in mates)
    sizes = {k: size(mates, k) for k in range(len(names)) if k not in gone}
    while sizes:
        worst = max(sizes, key=lambda k: sizes[k])
        if sizes.pop(worst) <= 1.0:
            break
        found.append((worst, mates))
        before, mates = mates, tuple(each.without_any(worst) for each in mates)
        again = {k for k in sizes if any(worst in each.rows[k] for each in before)}
        sizes |= {k: size(mates, k) for k in again}
    return found


def _astray(over: NDArray[np.bool_], row: Array, off: Array) -> tuple[int, int]:
    """First and last sample in which a marker that jumps is off: between jumps, or from the only
    one to the end at whose side it is further off its mates."""
    high = [run.start + np.flatnonzero(row[run] > 0.75 * row[run].max()) for run in runs(over)]
    peaks = np.concatenate(high)  # both of one sample that is off are in one run
    if len(peaks) > 1:
        return int(peaks[0]), int(peaks[-1]) - 1
    before, after = (float(np.nan_to_num(part).mean()) for part in np.split(off, [peaks[0]]))
    return (int(peaks[0]), len(off) - 1) if after > before else (0, int(peaks[0]) - 1)


def _deformed(one: Finding) -> str:
    return (
        f"marker {one.names[0]!r} is off the others of its segment by {one.size:.3f} m at "
        f"{one.worst:.3f} s, beyond {one.limit:g} m from {one.begin:.3f} to {one.end:.3f} s: named "
        f"wrongly, or come off? markers.cut({one.names[0]!r}, {one.begin:.3f}, {one.end:.3f}) "
        "takes that out"
    )


def check_sides(markers: Markers) -> list[Finding]:
    """Whether names of right and left are exchanged throughout, seen along the feet or the way."""
    ahead, why = facing(markers.positions, UP)
    pairs = pairs_of_sides(markers.names)
    if not why or len(pairs) < 2:
        return []
    left = np.array([-ahead[1], ahead[0]]) / np.linalg.norm(ahead)
    at = markers.positions
    apart = {pair: float(np.nanmean(left @ (at[pair[1]] - at[pair[0]])[:2])) for pair in pairs}
    wrong = {pair: gap for pair, gap in apart.items() if gap < -SIDE}
    right = [pair for pair, gap in apart.items() if gap > SIDE]
    kind, begin, end = "right and left", float(markers.time[0]), float(markers.time[-1])

    def finding(pair: tuple[str, str], says: str) -> Finding:
        return Finding(kind, pair, begin, end, begin, max(-apart[pair], 0.0), SIDE, "m", says)

    pair = min(apart, key=lambda each: apart[each])
    if len(wrong) > len(right):
        says = (
            f"names of right and left are exchanged throughout: {pair[0]!r} is "
            f"{-apart[pair]:.2f} m to the left of {pair[1]!r}, and {len(wrong)} of "
            f"{len(pairs)} pairs are so; use markers.exchanged()"
        )
        return [finding(pair, says)]
    says = (
        "markers {!r} and {!r} are exchanged throughout: the first is {:.2f} m to the left of the "
        "second; use markers.renamed()"
    )
    found = [finding(each, says.format(*each, -gap)) for each, gap in wrong.items()]
    return found or [finding(pair, "")]


# -- against a standing trial -----------------------------------------------------------------


def clusters_of(
    clusters: Sequence[Sequence[str]], names: Sequence[str], still: Mapping[str, Array]
) -> Mates:
    """Mates of markers that are declared to be rigid clusters, with distances of the standing
    trial."""
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


def against_standing(
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
            pair, worst = tuple(names[k] for k in one.pair), int(one.off.argmax())
            findings.append(_other_places(pair, time, worst, float(one.off.max())))
    known = {frozenset(one.names) for one in findings}
    for first, second, size in _seen_from_outside(positions, names, clusters, still):
        if frozenset((first, second)) not in known:
            findings.append(_other_places((first, second), time, 0, size))
            known.add(frozenset((first, second)))
    rows = dict(zip(names, deviations(mended, mates), strict=True))
    rows = {name: row for name, row in rows.items() if np.isfinite(row).any()}
    middle = {name: np.full_like(time, np.nanmedian(row)) for name, row in rows.items()}
    return findings or judged("cluster of standing", time, middle, OTHER, "m", _other)


def _other(one: Finding) -> str:
    return (
        f"marker {one.names[0]!r} is {one.size:.3f} m nearer to or further from those of its "
        "cluster than in the standing trial: another place, name or unit there?"
    )


def _other_places(pair: tuple[str, ...], time: Array, worst: int, size: float) -> Finding:
    ends = float(time[0]), float(time[-1]), float(time[worst])
    says = (
        f"markers {pair[0]!r} and {pair[1]!r} are exchanged between this trial and the "
        "standing one: look which of the two is right, and use renamed()"
    )
    return Finding("cluster of standing", pair, *ends, size, EXCHANGED, "m", says)


def _seen_from_outside(
    positions: Array,
    names: Sequence[str],
    clusters: Sequence[Sequence[str]],
    still: Mapping[str, Array],
) -> Iterator[tuple[str, str, float]]:
    """Two of a cluster that have changed places, and how far they are apart [m], also where all
    sides of it are equal: by which is nearer to the markers around, in the median."""
    known = [name for name in names if name in still]
    place = np.array([still[name] for name in known])
    moving = positions[[names.index(name) for name in known]]
    for cluster in dict.fromkeys(tuple(each) for each in clusters):
        inside = [known.index(name) for name in cluster if name in known]
        outside = np.array([k for k in range(len(known)) if k not in inside], dtype=np.intp)
        for a, b in combinations(inside, 2) if len(outside) else ():
            far = np.linalg.norm(place[outside] - 0.5 * (place[a] + place[b]), axis=1)
            near = outside[np.argsort(far)[:AROUND]]
            before = [np.linalg.norm(place[near] - place[k], axis=1) for k in (a, b)]
            after = [np.linalg.norm(moving[near] - moving[k], axis=1) for k in (a, b)]
            nearer, now = before[0] - before[1], after[0] - after[1]
            seen = np.isfinite(now).any(axis=1)
            nearer, now = nearer[seen], np.nanmedian(now[seen], axis=1)
            size = float(np.sqrt(np.mean(nearer**2))) if seen.any() else 0.0
            if size > APART and nearer @ now < TURNED * (nearer @ nearer):
                yield known[a], known[b], float(np.linalg.norm(place[a] - place[b]))
