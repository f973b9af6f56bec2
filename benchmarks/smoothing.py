"""Which smoothing of markers gives the forces that plates measure, and which cutoff?

The whole force that a reconstructed motion needs, minus the sum of the plates as measured, not
filtered: root mean square forwards, sideways, upwards. Two walks of two people, and a run that is
computed, whose force is known. A rule for the cutoff is chosen without the record that
it is judged by: the one with the least mean excess over the best cutoff of the others.

    python benchmarks/smoothing.py [--records NAME ...] [--write]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
from numpy.typing import NDArray
from report import machine, parsed, save, table, write

import kinesym as ks
from kinesym.examples import gait, gait_plates
from kinesym.gait import Markers, Relations, Wrench
from kinesym.gait.filters import low_pass_of
from kinesym.gait.reconstruction import Smoother

Array = NDArray[np.float64]
G = 9.81
#: Cutoffs of the low-pass [Hz], and those of the short tables.
CUTOFFS = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0)
SHOWN = (4.0, 5.0, 6.0, 8.0, 10.0)
#: Rules max(a, b times the rate of steps), as (a, b): 0 is a fixed cutoff.
RULES = [(a, 0.0) for a in CUTOFFS] + [(a, b) for a in (4.0, 5.0, 6.0) for b in (2.5, 3.0, 3.5)]
#: Noise that is added to see what it changes [m].
NOISE = 1e-3


@dataclass(frozen=True)
class Record:
    """A trial and what judges it. span : instants that are judged [s]."""

    words: str
    markers: Markers
    segments: Sequence[ks.gait.Segment]
    relations: Relations
    force: Callable[[Array], Array]
    span: tuple[float, float]
    weight: float
    standing: Mapping[str, Array] | None = None

    def off(self, smooth: Smoother | None, again: Smoother | None = None) -> Array:
        """Needed minus measured force, rms of x, y, z [N]."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise that a weak filter leaves
            walk = ks.gait.reconstruct(
                self.segments, self.relations, self.markers, self.standing, smooth, again
            )
        t = walk.markers.time[6:-6]
        t = t[(t >= self.span[0]) & (t <= self.span[1])]
        body = ks.gait.Body(walk.segments, self.weight / G)
        needed = body.inverse(walk.kinematics.sample(t)).total.force
        return np.asarray(np.sqrt(np.mean((needed - self.force(t)) ** 2, axis=1)))

    def other(self, noise: float = 0.0, every: int = 1) -> Record:
        """With noise added [m], and fewer samples."""
        rng, m = np.random.default_rng(1), self.markers
        positions = {
            name: (p + noise * rng.normal(size=p.shape))[:, ::every]
            for name, p in m.positions.items()
        }
        return replace(self, markers=Markers(m.time[::every], positions))


def measured(plates: Sequence[Wrench]) -> Callable[[Array], Array]:
    """The sum of plates at instants."""
    return lambda t: np.asarray(sum(plate.at(t).force for plate in plates))


# -- records --------------------------------------------------------------------------------------


def subject01() -> Record:
    """The whole body at 60 Hz, in place as on a treadmill."""
    plates = ks.gait.read_forces(gait.data("gait_subject01_forces.csv.gz"))
    return Record(
        "walk, 60 Hz, whole body",
        ks.gait.read_csv(gait.data("gait_subject01_markers.csv.gz")),
        gait.subject(),
        gait.relations(),
        measured([*plates.values()]),
        (0.2, 2.3),
        gait.MASS * G,
        ks.gait.read_places(gait.data("gait_subject01_static.csv")),
    )


def overground() -> Record:
    """Pelvis and legs at 150 Hz, over four plates."""
    markers, plates = gait_plates.record()
    under, _ = ks.gait.assign_plates(plates, markers.time, gait_plates.feet_of(markers))
    contacts = [c for f in gait_plates.FEET for c in ks.gait.contacts_from_wrench(f, under[f])]
    cycle = ks.gait.gait_cycle(contacts, "left")
    fine = under["right"].time
    whole = (fine >= cycle.begin) & (fine <= cycle.stride)
    weight = float(sum(under[f].force[2, whole] for f in gait_plates.FEET).mean())
    return Record(
        "walk, 150 Hz, pelvis and legs",
        markers,
        ks.gait.segments_of_body(weight / G, gait_plates.STATURE),
        gait_plates.relations(),
        measured([*under.values()]),
        (cycle.begin - 0.02, cycle.end + 0.02),
        weight,
    )


def run() -> Record:
    """Computed: a rigid person on the course of a run of 2.8 steps a second, 100 Hz, noise of
    0.5 mm. Stance takes 0.7 of a step; the force upwards is half a sine with an impact of one body
    weight and 30 ms, the one forwards brakes and drives. No skin moves: an upper bound of cutoffs.
    """
    base, rate, steps = subject01(), 100.0, 2.8
    phase = np.arange(4096) / 4096.0
    stance = np.where(phase < 0.7, np.sin(np.pi * phase / 0.7), 0.0)
    impact = np.exp(-0.5 * ((phase / steps - 0.025) / 0.012) ** 2)
    drive = np.where(phase < 0.7, -np.sin(2.0 * np.pi * phase / 0.7), 0.0)
    up = stance * (1.0 - impact.mean()) / stance.mean() + impact
    spectra = {0: np.fft.rfft(0.25 * drive), 2: np.fft.rfft(up)}

    def series(axis: int, t: Array, order: int) -> Array:
        """Force over weight minus its mean, or twice its integral over G."""
        k = np.arange(1, 41)
        w = 2.0 * np.pi * steps * k
        c = 2.0 * spectra[axis][1:41] / 4096.0 * (1j * w) ** -order
        return np.asarray(np.real(np.exp(1j * np.outer(t, w)) @ c))

    t = np.arange(250) / rate
    course = np.array([G * series(0, t, 2), np.zeros_like(t), G * series(2, t, 2)])
    still = {n: base.markers[n][:, :1] + course for n in base.markers.names}
    weight = base.weight

    def force(t: Array) -> Array:
        return weight * np.array([series(0, t, 0), np.zeros_like(t), 1.0 + series(2, t, 0)])

    found = replace(base, words="run, computed, 100 Hz", markers=Markers(t, still), force=force)
    return found.other(5e-4)


RECORDS: dict[str, Callable[[], Record]] = {
    "subject01": subject01,
    "overground": overground,
    "run": run,
}


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
    """By record: the rule that the others choose, its cutoff and excess here."""
    lines = []
    for name in [*curves, ""]:
        others = [key for key in curves if key != name]
        means = [np.mean([excess(r, steps[k], curves[k]) for k in others]) for r in RULES]
        rule = RULES[int(np.argmin(means))]
        words = f"{rule[0]:g} Hz" if not rule[1] else f"max({rule[0]:g} Hz, {rule[1]:g} steps)"
        here = excess(rule, steps[name], curves[name]) if name else float(np.min(means))
        f = f"{cutoff_of(rule, steps[name]):.1f}" if name else ""
        lines.append([name or "none", words, f, f"{100.0 * here:.0f} %"])
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


def forces(rows: Sequence[Mapping[str, Any]], records: Mapping[str, Record]) -> str:
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


def varied(records: Mapping[str, Record]) -> str:
    """The default and the best cutoff under more noise and fewer samples."""
    lines = []
    for name, record in records.items():
        for words, other in (
            ("1 mm of noise added", record.other(NOISE)),
            ("every second sample", record.other(0.0, 2)),
        ):
            course = np.linalg.norm(curve(other, SHOWN), axis=1)
            default = low_pass_of(other.markers)
            cells = [f"{x:.0f}" for x in (*course, total(other.off(default)))]
            lines.append([name, words, *cells, f"{default.cutoff:.1f} Hz"])
            print(*lines[-1], flush=True)
    head = [f"{f:g} Hz" for f in SHOWN]
    return table(["all axes [N]", "", *head, "default", "which is"], lines)


def main() -> None:
    """Judge, choose, vary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", nargs="+", choices=[*RECORDS], default=[*RECORDS])
    given = parsed(parser)
    chosen = given.records[:1] if given.quick else given.records
    records = {name: RECORDS[name]() for name in chosen}
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
        header = ["left out", "rule of least mean excess of the others", "here [Hz]", "excess here"]
        parts += [table(header, left_out(steps, norms)), varied(records)]
    text = "\n\n".join([f"Machine: {machine()}.", *parts])
    print(text)
    if given.report:
        save(given.report, "smoothing", text, rows)
    if given.write:
        write(text, "smoothing")


if __name__ == "__main__":
    main()
