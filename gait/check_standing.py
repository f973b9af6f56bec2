"""Markers at other places in their clusters than in a standing trial, all along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from kinesym.gait.checks import Finding, judged
from kinesym.gait.mates import EXCHANGED, Mates, deviations, exchanges
from kinesym.runtime.arrays import Array

#: Least change of the distance to the others of a cluster that shows a marker at another place [m].
OTHER = 0.04
#: Number of markers near a cluster that decide which of two markers is nearer to them.
AROUND = 10
#: Least difference (rms) of both markers in these distances, in the standing trial [m].
APART = 0.02
#: Largest ratio of that difference in the trial to the standing one; negative if exchanged [-].
TURNED = -0.25


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
            findings.append(_exchanged(pair, time, worst, float(one.off.max())))
    known = {frozenset(one.names) for one in findings}
    for first, second, size in _seen_from_outside(positions, names, clusters, still):
        if frozenset((first, second)) not in known:
            findings.append(_exchanged((first, second), time, 0, size))
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


def _exchanged(pair: tuple[str, ...], time: Array, worst: int, size: float) -> Finding:
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
