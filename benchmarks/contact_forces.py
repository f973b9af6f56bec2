"""How far are ground forces from motion alone off plates that were held back?

Two walks of two people: contacts from heels and toes, the force that the motion needs, shared
between the feet; plates only judge. One of them once more as a video might show it, with errors of
17 mm; and a run that is computed, of which the whole force is known. Records of your own are in a
folder, see `walks.files`. At last all by the lever alone, and both walks tracked by collocation,
see the example `gait_without_plates`.

    python benchmarks/contact_forces.py [--records NAME ...] [--more FOLDER] [--write]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, parsed
from walks import judged as known
from walks.files import names_in, read_record

import kinesym as ks
from kinesym.examples import gait_without_plates
from kinesym.examples.studies import gait, video_to_torques
from kinesym.gait import ContactForces, Markers, Wrench

Array = NDArray[np.float64]
#: A foot counts as on the ground above this force [N].
ON = 20.0


@dataclass(frozen=True)
class Judged:
    """What was found and what judges it. span : instants at which every foot is on its own plate,
    or in the air [s]. lever : found by `PressureTransfer`."""

    words: str
    found: ContactForces
    plates: Mapping[str, Wrench]
    span: tuple[float, float]
    lever: ContactForces | None = None


def from_markers(record: known.Record) -> Judged:
    """By the default smoothing, contacts and sharing."""
    place = record.markers
    feet = {foot: (place[heel], place[toe]) for foot, (heel, toe) in record.feet.items()}
    needed = record.motion().needed(record.time())
    found, lever = (
        ks.gait.contact_forces(needed, place.time, feet, method=method, weight=record.weight)
        for method in (None, ks.gait.PressureTransfer(place.time, feet))
    )
    return Judged(record.words, found, record.plates, record.alone or record.span, lever)


def video(points: Markers, words: str, seed: int) -> Judged:
    """Subject 01 with errors as of video, 17 mm, by another model."""
    plates = ks.gait.read_forces(gait.data("gait_subject01_forces.csv.gz"))
    spoiled = video_to_torques.spoiled(points, seed)
    found = video_to_torques.kinetics(spoiled, video_to_torques.MASS)
    return Judged(f"subject01, {words}, errors {seed}", found.forces, plates, (0.2, 2.3))


def augmented(seed: int) -> Judged:
    """Markers of an augmenter."""
    return video(video_to_torques.augmented(), "augmented markers of a video", seed)


def keypoints(seed: int) -> Judged:
    """Keypoints alone."""
    return video(video_to_torques.keypoints(), "keypoints of a video", seed)


RECORDS: dict[str, Callable[[], Judged]] = {
    "subject01": lambda: from_markers(known.subject01()),
    "overground": lambda: from_markers(known.overground()),
    "augmented 1": lambda: augmented(1),
    "augmented 2": lambda: augmented(2),
    "keypoints 1": lambda: keypoints(1),
    "keypoints 2": lambda: keypoints(2),
}


def rms(rows: Array) -> Array:
    """Over time."""
    return np.asarray(np.sqrt(np.mean(rows**2, axis=-1)))


def rows_of(name: str, judged: Judged) -> list[dict[str, Any]]:
    """Total and feet: rms [% of body weight], and how much of the plate is in the band [%]."""
    found, time = judged.found, judged.found.time
    here = (time >= judged.span[0]) & (time <= judged.span[1])
    plates = {foot: judged.plates[foot].at(time) for foot in found.wrenches}
    weight = found.sharing.weight
    total = found.sharing.total.force - sum(plate.force for plate in plates.values())
    rows = [
        {"record": name, "what": "total", "off": (100.0 * rms(total[:, here]) / weight).tolist()}
    ]
    for foot, plate in plates.items():
        off = found[foot].force - plate.force
        on = here & (np.maximum(found[foot].force[2], plate.force[2]) > ON)
        share = np.mean(np.abs(off[:, on]) <= 2.0 * found.std[foot][:, on], axis=1)
        rows.append(
            {
                "record": name,
                "what": foot,
                "off": (100.0 * rms(off[:, here]) / weight).tolist(),
                "within": (100.0 * share).tolist(),
                "band": float(200.0 * rms(found.std[foot][2, on]) / weight),
            }
        )
    return rows


def events(judged: Judged) -> list[float]:
    """How late strikes and toe-offs are against the plates within the span [s]."""
    late = []
    for foot, plate in judged.plates.items():
        theirs = ks.gait.contacts_from_wrench(foot, plate)
        for kind, whole in (("begin", "struck"), ("end", "lifted")):
            known = [getattr(c, kind) for c in theirs if getattr(c, whole)]
            for contact in judged.found.contacts:
                when = getattr(contact, kind)
                seen = getattr(contact, whole) and judged.span[0] < when < judged.span[1]
                if contact.foot == foot and seen and known:
                    late.append(when - min(known, key=lambda t: abs(t - when)))
    return [x for x in late if abs(x) < 0.15]


def shown(judged: Mapping[str, Judged], rows: list[dict[str, Any]]) -> Table:
    """As a table."""
    lines = []
    for row in rows:
        one = judged[row["record"]]
        first = row["what"] == "total"
        late = [1e3 * x for x in events(one)]
        lines.append(
            [
                f"{row['record']}: {one.words}" if first else "",
                row["what"],
                " / ".join(f"{x:.1f}" for x in row["off"]),
                "" if first else " / ".join(f"{x:.0f}" for x in row["within"]),
                "" if first else f"{row['band']:.0f}",
                f"{min(late):.0f} ... {max(late):.0f}" if first and late else "",
                f"{1e3 * one.found.astray:.0f}" if first else "",
            ]
        )
    header = [
        "record", "", "x / y / z, rms [% of weight]", "in the band [%]", "band of z [% of weight]",
        "events late [ms]", "astray [mm]",
    ]  # fmt: skip
    return table(header, lines)


def run() -> str:
    """The whole force of the computed run."""
    record = known.computed()
    off = 100.0 * record.off() / record.weight
    return (
        "The computed run, whole force: "
        f"{' / '.join(f'{x:.1f}' for x in off)} % of the weight forwards, sideways, upwards."
    )


def by_lever(judged: Mapping[str, Judged]) -> str:
    """Both walks by `PressureTransfer`, upwards."""
    parts = []
    for name, one in judged.items():
        if one.lever is not None:
            off = [f"{row['off'][2]:.1f}" for row in rows_of(name, replace(one, found=one.lever))]
            parts.append(f"{name} {' / '.join(off[1:])}")
    return f"By the lever, upwards, left / right: {', '.join(parts)} % of the weight."


def tracked() -> str:
    """Both walks by collocation, without smoothing."""
    tables = []
    for name, made in (
        ("subject01, tracked", gait_without_plates.treadmill),
        ("overground, tracked", gait_without_plates.overground),
    ):
        record = made()
        tables.append(gait_without_plates.table(name, record, gait_without_plates.track(record)))
    return "\n".join(f"    {line}" for line in "\n".join(tables).splitlines())


def main() -> None:
    """Judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", nargs="+", choices=[*RECORDS], default=[*RECORDS])
    parser.add_argument("--more", type=Path, metavar="FOLDER", help="of records of your own")
    given = parsed(parser)
    chosen = given.records[:1] if given.quick else given.records
    made = {name: RECORDS[name] for name in chosen}
    for name in [] if given.more is None else names_in(given.more):
        made[name] = lambda name=name: from_markers(read_record(given.more / name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of markers and plates, which are no matter here
        judged = {name: make() for name, make in made.items()}
        rows = [row for name, one in judged.items() for row in rows_of(name, one)]
        parts = [
            shown(judged, rows),
            *([] if given.quick else [by_lever(judged), run(), tracked()]),
        ]
    leave(given, "contact_forces", machine(), parts, rows)


if __name__ == "__main__":
    main()
