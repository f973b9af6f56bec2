"""Which smoothing of markers gives the forces that plates measure, and which cutoff?

The whole force that a reconstructed motion needs, minus the sum of the plates as measured, not
filtered: root mean square forwards, sideways, upwards. Two walks of two people, and a run that is
computed, whose force is known, come along; records of your own are in a folder, see
`walks.files`. A rule for the cutoff is chosen without the record that it is judged by: the one
with the least mean excess over the best cutoff of the others.

    python benchmarks/smoothing.py [--records NAME ...] [--more FOLDER] [--write]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, parsed
from walks.files import names_in, read_record
from walks.judged import RECORDS, Record

import kinesym as ks
from kinesym.gait import Markers
from kinesym.gait.cutoffs import HARMONICS, LEAST, low_pass_of
from kinesym.gait.reconstruction import Smoother

Array = NDArray[np.float64]
#: Cutoffs of the low-pass [Hz], and those of the short tables.
CUTOFFS = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 9.0, 10.0, 12.0, 15.0)
SHOWN = (4.0, 5.0, 6.0, 8.0, 10.0)
#: Rules max(a, b times the rate of steps), as (a, b): 0 is a fixed cutoff.
TIMES = (2.0, 2.25, 2.5, 2.75, 3.0, 3.5)
RULES = [(a, 0.0) for a in CUTOFFS] + [(a, b) for a in (4.0, 5.0, 6.0) for b in TIMES]
#: White noise that is added to see what it changes [m], so often.
NOISE, SEEDS = (5e-4, 1e-3), (1, 2, 3)


# -- contenders -----------------------------------------------------------------------------------


def advised(markers: Markers) -> float:
    """The median cutoff of residual analysis."""
    return float(np.median(ks.gait.residual_analysis(markers).advised))


def contenders(record: Record) -> dict[str, tuple[Smoother | None, Smoother | None]]:
    """Laws by name, of markers and of coordinates."""
    low, SSA = ks.gait.Butterworth, ks.gait.SSA
    cutoff = advised(record.markers)
    return {
        "default": (None, None),
        "order 4, 6 Hz": (low(6.0, order=4), None),
        f"residual analysis, {cutoff:.1f} Hz": (low(cutoff), None),
        "GCV spline, quintic": (ks.gait.GCVSpline(), None),
        "GCV spline, cubic": (ks.gait.GCVSpline(3), None),
        "SSA, 1 mm": (SSA(noise=1e-3), None),
        "SSA, 1 mm, twice": (SSA(noise=1e-3), SSA(noise=5e-4)),
    }


def total(off: Array) -> float:
    """All axes together."""
    return float(np.linalg.norm(off))


def curve(record: Record, cutoffs: Sequence[float] = CUTOFFS) -> Array:
    """What the low-passes leave, (F, 3) [N]."""
    rows = []
    for f in cutoffs:
        rows.append(record.off(ks.gait.Butterworth(f)))
        print(f"{record.words:32} {f:4.1f} Hz", *(f"{x:6.1f}" for x in rows[-1]), flush=True)
    return np.array(rows)


def cutoff_of(rule: tuple[float, float], steps: float) -> float:
    """What a rule says."""
    return max(rule[0], rule[1] * steps)


def excess(rule: tuple[float, float], steps: float, course: Array) -> float:
    """How much a rule is above the best cutoff, relative."""
    f = min(cutoff_of(rule, steps), CUTOFFS[-1])
    return float(np.interp(f, CUTOFFS, course) / course.min() - 1.0)


def left_out(steps: Mapping[str, float], curves: Mapping[str, Array]) -> list[list[str]]:
    """By record: the rule that the others choose, its cutoff, its excess here, the default's."""
    lines = []
    for name in [*curves, ""]:
        others = [key for key in curves if key != name]
        means = [np.mean([excess(r, steps[k], curves[k]) for k in others]) for r in RULES]
        rule = RULES[int(np.argmin(means))]
        words = f"{rule[0]:g} Hz" if not rule[1] else f"max({rule[0]:g} Hz, {rule[1]:g} steps)"
        here = excess(rule, steps[name], curves[name]) if name else float(np.min(means))
        f = f"{cutoff_of(rule, steps[name]):.1f}" if name else ""
        ours = [
            excess((LEAST, HARMONICS), steps[k], curves[k]) for k in ([name] if name else others)
        ]
        lines.append(
            [name or "none", words, f, f"{100 * here:.0f} %", f"{100 * np.mean(ours):.0f} %"]
        )
    return lines


# -- tables ---------------------------------------------------------------------------------------


def judged(records: Mapping[str, Record], curves: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Every contender on every record, of low-passes a part."""
    rows = []
    for name, record in records.items():
        for f, off in zip(CUTOFFS, curves[name], strict=True):
            if f in SHOWN:
                law = f"low-pass, {f:g} Hz"
                rows.append({"record": name, "law": law, "used": "", "off": [*map(float, off)]})
        for law, (smooth, again) in contenders(record).items():
            label = law.split(",")[0] if law.startswith("residual") else law
            used = law.removeprefix("residual analysis, ") if label != law else ""
            off = [float(x) for x in record.off(smooth, again)]
            rows.append({"record": name, "law": label, "used": used, "off": off})
            print(f"{name:12} {law:30}", *(f"{x:6.1f}" for x in off), flush=True)
    return rows


def forces(rows: Sequence[Mapping[str, Any]], records: Mapping[str, Record]) -> Table:
    """x / y / z [N], then all together in per cent of body weight."""
    laws = list(dict.fromkeys(row["law"] for row in rows))
    lines = []
    for law in laws:
        cells = [law]
        for name, record in records.items():
            row = next(r for r in rows if r["record"] == name and r["law"] == law)
            axes = " / ".join(f"{x:.0f}" for x in row["off"])
            share = 100.0 * total(np.array(row["off"])) / record.weight
            cells.append(f"{axes}, {share:.1f} %" + (f" ({row['used']})" if row["used"] else ""))
        lines.append(cells)
    return table(["smoothing", *(f"{n}: {r.words}" for n, r in records.items())], lines)


def varied(records: Mapping[str, Record]) -> Table:
    """Laws under more noise and fewer samples."""
    low = {f"{f:g} Hz": lambda m, f=f: ks.gait.Butterworth(f) for f in SHOWN}
    laws: dict[str, Callable[[Markers], Smoother]] = {
        "default": low_pass_of,
        **low,
        "GCV, quintic": lambda m: ks.gait.GCVSpline(),
        "SSA, 1 mm": lambda m: ks.gait.SSA(noise=1e-3),
    }
    lines = []
    for name, one in records.items():
        others = {
            f"{1e3 * noise:g} mm": [one.other(noise, 1, seed) for seed in SEEDS] for noise in NOISE
        }
        for words, made in {**others, "every second sample": [one.other(0.0, 2)]}.items():
            shares = [
                np.mean([100.0 * total(o.off(law(o.markers))) / o.weight for o in made])
                for law in laws.values()
            ]
            lines.append([name, words, *(f"{share:.1f}" for share in shares)])
            print(*lines[-1], flush=True)
    return table(["all axes [% of weight]", "", *laws], lines)


def main() -> None:
    """Judge, choose, vary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", nargs="+", choices=[*RECORDS], default=[*RECORDS])
    parser.add_argument("--more", type=Path, metavar="FOLDER", help="of records of your own")
    given = parsed(parser)
    chosen = given.records[:1] if given.quick else given.records
    records = {name: RECORDS[name]() for name in chosen}
    for name in [] if given.more is None else names_in(given.more):
        records[name] = read_record(given.more / name)
    curves = {name: curve(record) for name, record in records.items()}
    rows = judged(records, curves)
    parts = [forces(rows, records)]
    if not given.quick:
        norms = {name: np.linalg.norm(course, axis=1) for name, course in curves.items()}
        steps = {name: ks.gait.step_rate(record.markers) for name, record in records.items()}
        lines = [
            [name, f"{steps[name]:.2f}", *(f"{x:.0f}" for x in course)]
            for name, course in norms.items()
        ]
        parts.append(table(["all axes [N]", "steps/s", *(f"{f:g} Hz" for f in CUTOFFS)], lines))
        plated = {name: course for name, course in norms.items() if records[name].plates}
        for words, known in (("", norms), (" measured", plated)):
            rule = f"rule of least mean excess of the other{words} ones"
            head = ["left out", rule, "here [Hz]", "excess here", "of the default"]
            if len(known) > 2 and (not words or len(known) < len(norms)):
                parts.append(table(head, left_out(steps, known)))
        parts.append(varied(records))
    leave(given, "smoothing", machine(), parts, rows)


if __name__ == "__main__":
    main()
