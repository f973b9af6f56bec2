"""Which faults of gait data are found, how often mended, and what is said of records without one?

Faults are put at random into two recorded walks, whole or with every second or third sample and
with noise: into markers before anything is made of them, into plates beside the motion that was
reconstructed.

    python benchmarks/faults.py [--trials N] [--write]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from record import table
from report import leave, machine, parsed

import kinesym as ks
from kinesym.examples import gait_plates
from kinesym.examples.studies import gait
from kinesym.gait.check_markers import check_markers
from kinesym.gait.markers import Markers
from kinesym.gait.plates import check_feet
from kinesym.gait.reconstruction import Reconstruction
from kinesym.gait.wrench import Wrench

#: Every so manyth sample, and noise [m].
THINNED, NOISE = (1, 2, 3), (0.0, 0.001, 0.003)
Positions = dict[str, np.ndarray]


@dataclass(frozen=True)
class Row:
    """One kind of fault: how many were tried, found, mended to the last digit; and how many trials
    had a warning of something else."""

    fault: str
    record: str
    tried: int
    found: int
    mended: int
    other: int


# -- faults of markers: positions, and names of those that are wrong ----------------------------


def span(rng: np.random.Generator, count: int, share: float = 0.4) -> slice:
    """A stretch of up to a share of the record."""
    length = int(rng.integers(1, max(int(share * count), 2)))
    begin = int(rng.integers(0, count - length))
    return slice(begin, begin + length)


def swapped(rng: np.random.Generator, given: Positions, names: list[str]) -> tuple[Positions, Any]:
    """These markers, each with the place of the next, in a stretch."""
    new = {name: rows.copy() for name, rows in given.items()}
    here = span(rng, next(iter(given.values())).shape[1])
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        new[name][:, here] = given[other][:, here]
    return new, set(names)


def any_two(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """Two exchanged, anywhere."""
    return swapped(rng, given, list(rng.choice(list(given), 2, replace=False)))


def near_two(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """Two exchanged that are among the five nearest to each other, as labelling confuses them."""
    name = str(rng.choice(list(given)))
    apart = {
        other: float(np.median(np.linalg.norm(rows - given[name], axis=0)))
        for other, rows in given.items()
        if other != name
    }
    return swapped(rng, given, [name, sorted(apart, key=lambda o: apart[o])[rng.integers(5)]])


def any_three(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """Three exchanged in turn."""
    return swapped(rng, given, list(rng.choice(list(given), 3, replace=False)))


def jump(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """One 5 to 20 cm away, in a stretch of up to a tenth of the record."""
    new = {name: rows.copy() for name, rows in given.items()}
    name = str(rng.choice(list(given)))
    way = rng.normal(size=3)
    way *= rng.uniform(0.05, 0.2) / np.linalg.norm(way)
    new[name][:, span(rng, new[name].shape[1], 0.1)] += way[:, None]
    return new, {name}


def slip(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """One that slides away, 8 to 20 cm until the end."""
    new = {name: rows.copy() for name, rows in given.items()}
    name = str(rng.choice(list(given)))
    count = new[name].shape[1]
    way = rng.normal(size=3)
    way *= rng.uniform(0.08, 0.2) / np.linalg.norm(way)
    begin = rng.uniform(0.3, 0.6)
    new[name] += way[:, None] * np.clip((np.arange(count) / count - begin) / 0.3, 0.0, 1.0)
    return new, {name}


def sides(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """All names of right and left exchanged."""
    swap = {"R": "L", "L": "R"}
    return {swap.get(n[0], n[0]) + n[1:] if n[1] == "." else n: r for n, r in given.items()}, set()


def nothing(rng: np.random.Generator, given: Positions) -> tuple[Positions, Any]:
    """As recorded."""
    return given, set()


MARKERS: Mapping[str, tuple[Callable[..., tuple[Positions, Any]], tuple[str, ...]]] = {
    "no fault": (nothing, ()),
    "two markers exchanged": (any_two, ("exchanged markers",)),
    "two near ones exchanged": (near_two, ("exchanged markers",)),
    "three exchanged in turn": (any_three, ("exchanged markers",)),
    "one jumps by 5-20 cm": (jump, ("jump of a marker", "marker off its segment")),
    "one slips by 8-20 cm": (slip, ("marker off its segment", "jump of a marker")),
    "right and left, throughout": (sides, ("right and left",)),
}


def of_markers(fault: str, record: str, markers: Markers, trials: int) -> Row:
    """Trials of one fault."""
    change, kinds = MARKERS[fault]
    rng = np.random.default_rng([list(MARKERS).index(fault), len(markers)])
    found = mended = other = 0
    for _ in range(trials):
        thin, noise = int(rng.choice(THINNED)), float(rng.choice(NOISE))
        clean = {
            name: rows[:, ::thin] + noise * rng.normal(size=rows[:, ::thin].shape)
            for name, rows in markers.positions.items()
        }
        spoilt, names = change(rng, clean)
        seen, _, back = check_markers(Markers(markers.time[::thin], spoilt))
        wrong = [one for one in seen if one.says]
        mine = [one for one in wrong if one.kind in kinds and (names & {*one.names} or not names)]
        found += bool(mine)
        mended += all(np.array_equal(back[name], clean[name]) for name in names) and bool(names)
        other += any(one not in mine and not names & {*one.names} for one in wrong)
    return Row(fault, record, trials, found, mended, other)


# -- faults of plates ---------------------------------------------------------------------------


def changed(plate: Wrench, force: np.ndarray) -> Wrench:
    """With a force added in the middle of where it is pressed."""
    centre = np.nanmean(plate.cop(), axis=1)
    return Wrench(plate.time, plate.force + force, plate.moment + np.cross(centre, force.T).T)


def offset(rng: np.random.Generator, walk: Reconstruction, plates: dict[str, Wrench]) -> Any:
    foot = str(rng.choice(list(plates)))
    force = rng.normal(size=3)
    force *= rng.uniform(15.0, 40.0) / np.linalg.norm(force)
    count = len(plates[foot].time)
    return walk, plates | {foot: changed(plates[foot], force[:, None] * np.ones(count))}


def drift(rng: np.random.Generator, walk: Reconstruction, plates: dict[str, Wrench]) -> Any:
    foot = str(rng.choice(list(plates)))
    size = rng.choice([-1.0, 1.0]) * rng.uniform(20.0, 60.0)
    ramp = np.linspace(0.0, 1.0, len(plates[foot].time))
    return walk, plates | {foot: changed(plates[foot], size * np.outer([0.0, 0.0, 1.0], ramp))}


def late(rng: np.random.Generator, walk: Reconstruction, plates: dict[str, Wrench]) -> Any:
    by = rng.choice([-1.0, 1.0]) * rng.uniform(0.05, 0.15)
    return walk, {f: Wrench(p.time + by, p.force, p.moment) for f, p in plates.items()}


def crossed(rng: np.random.Generator, walk: Reconstruction, plates: dict[str, Wrench]) -> Any:
    return walk, {"right": plates["left"], "left": plates["right"]}


def mass(rng: np.random.Generator, walk: Reconstruction, plates: dict[str, Wrench]) -> Any:
    factor = 1.0 + rng.choice([-1.0, 1.0]) * rng.uniform(0.08, 0.2)
    rows = tuple(replace(row, mass=factor * row.mass) for row in walk.segments)
    return replace(walk, segments=rows), plates


def as_recorded(rng: np.random.Generator, walk: Reconstruction, plates: dict[str, Wrench]) -> Any:
    return walk, plates


PLATES: Mapping[str, tuple[Callable[..., Any], str]] = {
    "no fault of plates": (as_recorded, ""),
    "offset of 15-40 N": (offset, "force on an empty plate"),
    "drift of 20-60 N": (drift, "force on an empty plate"),
    "50-150 ms late or early": (late, "plates late"),
    "plates exchanged": (crossed, "foot on its plate"),
    "mass wrong by 8-20 %": (mass, "weight"),
}


def of_plates(
    fault: str, record: str, walk: Reconstruction, plates: dict[str, Wrench], trials: int
) -> Row:
    """Trials of one fault, with white noise of up to 5 N."""
    change, kind = PLATES[fault]
    rng = np.random.default_rng([100 + list(PLATES).index(fault), len(walk.markers)])
    found = other = 0
    for _ in range(trials):
        noisy = {
            f: changed(p, rng.uniform(0.0, 5.0) * rng.normal(size=p.force.shape))
            for f, p in plates.items()
        }
        moved, spoilt = change(rng, walk, noisy)
        seen = check_feet(moved.segments, moved.kinematics, spoilt, {})
        found += any(one.kind == kind for one in seen.wrong)
        other += any(one.kind != kind for one in seen.wrong)
    return Row(fault, record, trials, found, 0, other)


# -- all ----------------------------------------------------------------------------------------


def records() -> dict[str, tuple[Reconstruction, dict[str, Wrench]]]:
    """Two walks with their plates by foot."""
    walk, plates = gait.walk()
    markers, others = gait_plates.record()
    under, _ = ks.gait.assign_plates(others, markers.time, gait_plates.feet_of(markers))
    segments = ks.gait.segments_of_body(75.0, gait_plates.STATURE)
    second = ks.gait.reconstruct(segments, gait_plates.relations(), markers)
    return {"subject01": (walk, plates), "BMC": (second, under)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200, help="of each fault and record")
    given = parsed(parser)
    trials, rows = 5 if given.quick else given.trials, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plates that give loads, in noise
        for record, (walk, plates) in records().items():
            rows += [of_markers(fault, record, walk.markers, trials) for fault in MARKERS]
            rows += [of_plates(fault, record, walk, plates, trials) for fault in PLATES]
    header = ["fault", "record", "trials", "found [%]", "mended [%]", "something else said [%]"]
    lines = [
        [row.fault, row.record, str(row.tried)]
        + [f"{100.0 * count / row.tried:.1f}" for count in (row.found, row.mended, row.other)]
        for row in rows
    ]
    leave(given, "faults", machine("scipy"), [table(header, lines)], [vars(row) for row in rows])


if __name__ == "__main__":
    main()
