"""The law of a stimulated muscle, fitted to the soleus of a cat that is held and stretched.

Force and length of muscle and tendon were measured at 100 Hz under constant stimulation: held at 0
and 9 mm, and stretched to 9 mm at 3 and 9 mm/s (Herzog, Leonard 2002). The contractile element and
the calcium clock of Wieber, Billet 2006 are fitted by shooting to four trials and predict the other
six: first the law as it is, then with a largest force and stiffness that depend on length, by a
parabola.

What is chosen. The length is a line, a ramp and a line, with corners found by least squares: what
is left over, 0.04 mm, is noise, and a spline would round the corners. The force of the passive
muscle at the same length is subtracted. The clock is Um; Up from the begin of stimulation to its
end; then it falls to Um: both times and the duration of the fall are unknown. Stretched trials are
fitted up to the end of the stretch, for the law has no state that keeps what a stretch leaves
behind; that is measured instead. The length of the contractile element is 43 mm, as 27 mm/s are
0.63 of it per second (Herzog, Leonard 2002); it cannot be found from these records, in which a
quarter of it or four times as much fit as well.

Data: see ../data/README.md. Lengths are changes of the whole muscle [m].
"""

import gzip
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp
from scipy.optimize import least_squares

import kinesym as ks

FILES = {"3": "soleus_3mm_per_s.csv.gz", "9": "soleus_9mm_per_s.csv.gz"}
#: Trials of either file by their number, as published: held ones, stretched ones, a passive one.
HELD = {43: "3", 44: "3", 51: "9", 52: "9"}
STRETCHED = {45: "3", 47: "3", 50: "3", 53: "9", 55: "9", 57: "9"}
PASSIVE = {49: "3", 58: "9"}
#: What is fitted: held at 0 and at 9 mm, stretched by 6 mm slowly and by 9 mm fast.
FITTED = (43, 47, 52, 57)

ELEMENT_LENGTH = 27.0 / 0.63 * 1e-3  # of the contractile element [m]

length, rate = ks.dynamicsymbols("length rate")
F0, k0, tendon, Up, Um, fall = sp.symbols("F0 k0 ks Up Um fall")
#: When the force would be largest [m], and how far from there it would be none [m].
best, width = sp.symbols("best width")
BEGIN = {"3": sp.Symbol("begin3"), "9": sp.Symbol("begin9")}
END = {"3": sp.Symbol("end3"), "9": sp.Symbol("end9")}

BOUNDS: dict = {
    F0: (5.0, 60.0),
    k0: (1e3, 1e5),
    tendon: (1e3, 1e5),
    Up: (0.5, 50.0),
    Um: (-50.0, -0.5),
    fall: (0.01, 1.0),
    BEGIN["3"]: (0.8, 1.1),
    BEGIN["9"]: (0.8, 1.1),
    END["3"]: (9.5, 10.3),
    END["9"]: (8.0, 8.7),
    best: (-0.005, 0.008),
    width: (0.010, 0.060),
}
GUESS: dict = {
    F0: 20.0,
    k0: 5e3,
    tendon: 2e4,
    Up: 5.0,
    Um: -8.0,
    fall: 0.2,
    BEGIN["3"]: 0.95,
    BEGIN["9"]: 0.98,
    END["3"]: 9.95,
    END["9"]: 8.3,
    best: 0.0,
    width: 0.025,
}
UNITS = {"F0": "N", "k0": "N/m", "ks": "N/m", "Up": "1/s", "Um": "1/s", "best": "m", "width": "m"}


# -- the records ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ramp:
    """A length over time: it changes at `rate` [m/s] from `begin` to `end` [s]."""

    start: float
    begin: float
    end: float
    rate: float

    def length(self, time):
        """Lengths (N,) [m]."""
        return self.start + self.rate * (np.clip(time, self.begin, self.end) - self.begin)

    def signal(self):
        """The rate as an input that jumps."""
        if self.rate == 0.0:
            return ks.Signal.pieces([0.0], [0.0])
        return ks.Signal.pieces([0.0, self.begin, self.end], [0.0, self.rate, 0.0])


@dataclass(frozen=True)
class Record:
    """A trial: time [s], force and length, as measured [N], [m], and the ramp of the length."""

    number: int
    file: str
    time: np.ndarray
    force: np.ndarray
    measured_length: np.ndarray
    ramp: Ramp

    @property
    def name(self):
        """What was done."""
        start, end = (1e3 * self.ramp.length(t) for t in (self.time[0], self.time[-1]))
        if self.ramp.rate == 0.0:
            return f"held at {abs(start):.0f} mm"
        return f"{abs(start):.0f} to {end:.0f} mm, {1e3 * self.ramp.rate:.0f} mm/s"

    @property
    def until(self):
        """When the part ends that the law is meant for [s]."""
        return self.time[-1] if self.ramp.rate == 0.0 else self.ramp.end


def three_lines(time, values):
    """The ramp that fits lengths (N,) best."""
    start, end = values[:50].mean(), values[-100:].mean()
    if end - start < 1e-3:
        return Ramp(float(values.mean()), 0.0, 0.0, 0.0)
    rough = [float(time[np.argmax(values > start + share * (end - start))]) for share in (0.1, 0.9)]
    span = (rough[1] - rough[0]) / 0.8
    guess = [start, rough[0] - 0.1 * span, rough[1] + 0.1 * span, (end - start) / span]
    found = least_squares(lambda q: 1e5 * (Ramp(*q).length(time) - values), guess)
    return Ramp(*map(float, found.x))


def read():
    """All records by their number. The length of trial 51 is missing: its passive force is that at
    0 mm."""
    found: dict = {}
    for file, name in FILES.items():
        path = resources.files("kinesym.examples") / "data" / name
        with path.open("rb") as raw, gzip.open(raw, "rt") as text:
            table = np.genfromtxt(text, delimiter=",", names=True)
        for number, of in {**HELD, **STRETCHED, **PASSIVE}.items():
            if of != file:
                continue
            column = f"trial{number}_length_m"
            time = table["time_s"]
            lengths = table[column] if column in (table.dtype.names or ()) else np.zeros_like(time)
            found[number] = Record(
                number,
                file,
                time,
                table[f"trial{number}_force_N"],
                lengths,
                three_lines(time, lengths),
            )
    return found


def passive_force(records):
    """The force of the passive muscle [N] as a function of length (N,) [m], from its stretches."""
    lengths = np.concatenate([records[k].ramp.length(records[k].time) for k in PASSIVE])
    forces = np.concatenate([records[k].force for k in PASSIVE])

    def force(q, x):
        return q[0] + q[1] * np.expm1(x / q[2])

    found = least_squares(lambda q: force(q, lengths) - forces, [0.5, 0.5, 4e-3])
    return lambda x: force(found.x, x)


# -- the model and the fit ------------------------------------------------------------------------


def soleus(shaped):
    """The muscle whose ends move at a given rate; `shaped` if its force depends on length."""
    factor = 1 - ((length - best) / width) ** 2 if shaped else 1
    muscle = ks.hybrid.FESMuscle(
        "soleus",
        rate=rate,
        F0=F0,
        k0=k0,
        ks=tendon,
        Lc0=ELEMENT_LENGTH,
        force_factor=factor,
        stiffness_factor=factor,
    )
    model = ks.Model("soleus", [length], [rate], [], [length.diff(ks.t) - rate])
    return ks.hybrid.Hybrid(model, muscles=[muscle])


def clock(file):
    """The calcium clock. It is a piece of its own from its zero on, where |u| has a kink."""
    begin, end, slope = BEGIN[file], END[file], (Um - Up) / fall
    return ks.Signal.pieces(
        [-1, begin, end, end + fall * Up / (Up - Um), end + fall],
        [Um, Up, Up, 0, Um],
        [0, 0, slope, slope, 0],
    )


def experiment(record, passive, nodes=None, whole=False):
    """A record without its passive force, as it is fitted, or the whole of it; at all samples or at
    this many."""
    count = len(record.time)
    keep = np.unique(np.linspace(0, count - 1, min(nodes or count, count)).astype(int))
    time = record.time[keep]
    active = record.force[keep] - passive(record.ramp.length(time))
    if not whole:
        active = np.where(time <= record.until, active, np.nan)
    inputs = {"rate": record.ramp.signal(), "soleus_u": clock(record.file)}
    return ks.Experiment(time, inputs, {"soleus_F": active})


def problem(hybrid, records, passive, nodes=None, whole=False):
    """Shooting over some records; unknown is every parameter that the model or a clock has."""
    files = {r.file for r in records}
    times = {time[file] for file in FILES for time in (BEGIN, END) if file in files}
    names = {*hybrid.model.parameters, Up, Um, fall, *times}
    return ks.Shooting(
        hybrid,
        [experiment(r, passive, nodes, whole) for r in records],
        unknown={p: bounds for p, bounds in BOUNDS.items() if p in names},
        initial={length: [r.ramp.start for r in records], "soleus_kc": 0.0, "soleus_F": 0.0},
        rtol=1e-7,
        atol=1e-9,
    )


@dataclass(frozen=True)
class Study:
    """A fitted law: the fit, its estimates with intervals for residuals that are correlated in
    time, as those of a law that is not quite true are, and runs of all trials by number."""

    fit: ks.Fit
    estimates: Any
    runs: dict

    def residual(self, record, whole=False):
        """Modelled less measured active force (N,) [N], of the part that the law is meant for."""
        run = self.runs[record.number]
        left = run["soleus_F"] - run.measurements["soleus_F"]
        return left if whole else left[run.time <= record.until]

    def rms(self, record):
        """Of the residual [N]."""
        return self.total([record])

    def total(self, records):
        """Root mean square of the residuals of all these records [N]."""
        every = np.concatenate([self.residual(record) for record in records])
        return float(np.sqrt(np.mean(every**2)))


def study(records, passive, shaped, nodes=None):
    """Fit the law to four trials and simulate all."""
    hybrid = soleus(shaped)
    shooting = problem(hybrid, [records[k] for k in FITTED], passive, nodes)
    guess = {p: GUESS[p] for p in GUESS if p.name in shooting.names}
    fit = shooting.solve(guess, optimizer="least-squares")
    numbers = sorted({**HELD, **STRETCHED})
    whole = problem(hybrid, [records[k] for k in numbers], passive, nodes, whole=True)
    runs = dict(zip(numbers, whole.trajectories(fit), strict=True))
    return Study(fit, fit.intervals(method="sandwich"), runs)


def solve(nodes=None):
    """Records, passive force, and both studies: the law as it is, and with the parabola."""
    records = read()
    passive = passive_force(records)
    return records, passive, [study(records, passive, shaped, nodes) for shaped in (False, True)]


# -- what is printed ------------------------------------------------------------------------------


def parameters(plain, shaped):
    """Estimates of both studies as text."""
    units = ", ".join(f"{name} {unit}" for name, unit in UNITS.items())
    return (
        f"\nthe law as it is: {plain.estimates}\n\nwith force-length: {shaped.estimates}\n\n"
        f"in SI units: {units}, the others s\n"
    )


def table(records, plain, shaped):
    """Root mean squares of both studies by trial, as text."""
    rows = ["rms of the force: N, and % of the largest; of stretches up to their end"]
    for number in shaped.runs:
        record = records[number]
        peak = record.force.max()
        cells = [
            f"{s.rms(record):5.2f} N {100 * s.rms(record) / peak:5.1f} %" for s in (plain, shaped)
        ]
        kind = "fitted" if number in FITTED else "predicted"
        rows.append(f"  {number} {record.name:20} {kind:9} {'   '.join(cells)}")
    for kind, numbers in (("fitted", FITTED), ("predicted", set(shaped.runs) - set(FITTED))):
        chosen = [records[k] for k in sorted(numbers)]
        cells = [f"{s.total(chosen):5.2f} N" for s in (plain, shaped)]
        rows.append(f"  all that are {kind:9}" + " " * 15 + f"{cells[0]} {'':10} {cells[1]}")
    return "\n".join(rows)


def last_second(record, fit, run):
    """Which nodes of a run are in the last second of stimulation."""
    end = fit.parameters[END[record.file]]
    return (run.time > end - 1.0) & (run.time < end)


def left_behind(records, passive, shaped):
    """By stretched trial, in the last second of stimulation and of the record [N]: the measured
    force beyond that of the muscle held at 9 mm, and that of the law; after stimulation, beyond the
    passive force."""
    found: dict = {}
    for number, file in STRETCHED.items():
        record, run = records[number], shaped.runs[number]
        held = shaped.runs[
            next(k for k, of in HELD.items() if of == file and records[k].ramp.start > 5e-3)
        ]
        here = last_second(record, shaped.fit, run)
        late = run.time > run.time[-1] - 1.0
        force = run.measurements["soleus_F"]
        found[number] = tuple(
            float(x)
            for x in (
                (force - held.measurements["soleus_F"])[here].mean(),
                (run["soleus_F"] - held["soleus_F"])[here].mean(),
                force[late].mean(),
            )
        )
    return found


def enhancement(records, left):
    """What a stretch leaves behind, as text."""
    rows = [
        "force beyond that at the same length without stretch: measured, of the law; after "
        "stimulation"
    ]
    for number, (measured, law, after) in left.items():
        rows.append(
            f"  {number} {records[number].name:20} {measured:5.2f} N {law:5.2f} N   {after:5.2f} N"
        )
    return "\n".join(rows)


# -- pictures -------------------------------------------------------------------------------------

MEASURED, PLAIN, SHAPED = "0.25", "C0", "C3"


def panels(shaped):
    """A figure with two rows of five trials, by file."""
    fig, axes = plt.subplots(
        2, 5, figsize=(17, 7.6), sharey=True, sharex="row", layout="constrained"
    )
    return fig, dict(zip(shaped.runs, axes.ravel(), strict=True))


def entitle(axis, record):
    """The name of a trial; what is fitted has a green frame, and what is not fitted is grey."""
    fitted = record.number in FITTED
    axis.set_title(
        f"{record.number}: {record.name}\n{'fitted' if fitted else 'predicted'}",
        color="C2" if fitted else "k",
        fontsize="medium",
    )
    if fitted:
        for spine in axis.spines.values():
            spine.set(color="C2", lw=2)
    axis.axvspan(record.until, record.time[-1], color="0.93", lw=0, zorder=0)
    axis.set_xlim(0, record.time[-1])


def trials_figure(records, passive, plain, shaped):
    """Measured and modelled force, and length, of every trial."""
    fig, axes = panels(shaped)
    for number, axis in axes.items():
        record = records[number]
        entitle(axis, record)
        time, lengths = record.time, record.ramp.length(record.time)
        axis.plot(time, record.force, MEASURED, lw=2.2, label="measured")
        axis.plot(time, passive(lengths), "C4:", lw=1.4, label="passive, at this length")
        for study_, color, label in (
            (plain, PLAIN, "the law"),
            (shaped, SHAPED, "with force-length relation"),
        ):
            run = study_.runs[number]
            force = run["soleus_F"] + passive(record.ramp.length(run.time))
            axis.plot(run.time, force, color, lw=1.3, label=label)
        axis.text(
            0.97,
            0.95,
            f"{plain.rms(record):.2f} N",
            color=PLAIN,
            ha="right",
            va="top",
            transform=axis.transAxes,
        )
        axis.text(
            0.97,
            0.87,
            f"{shaped.rms(record):.2f} N",
            color=SHAPED,
            ha="right",
            va="top",
            transform=axis.transAxes,
        )
        axis.set_ylim(-11, 42)
        strip = axis.inset_axes((0.0, 0.0, 1.0, 0.16), sharex=axis)
        strip.plot(time, 1e3 * record.measured_length, "0.6", lw=2)
        strip.plot(time, 1e3 * lengths, "k", lw=0.9)
        strip.set(ylim=(-3, 14), yticks=[0, 9], facecolor="none")
        strip.yaxis.tick_right()
        strip.tick_params(labelsize="small", labelbottom=False, bottom=False)
        axis.set_yticks([0, 10, 20, 30, 40])
    for axis in list(axes.values())[::5]:
        axis.set_ylabel("force [N]; below: length [mm]")
    for axis in list(axes.values())[5:]:
        axis.set_xlabel("time [s]")
    handles, labels = axis.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4)
    fig.suptitle(
        "Soleus of a cat, measured and modelled. Numbers: rms of the difference in the "
        "white part; grey: after the stretch, not fitted"
    )
    return fig


def residual_figure(records, plain, shaped):
    """Modelled less measured force of every trial."""
    fig, axes = panels(shaped)
    for number, axis in axes.items():
        record = records[number]
        entitle(axis, record)
        axis.axhline(0.0, color="0.4", lw=0.8)
        for study_, color, label in (
            (plain, PLAIN, "the law"),
            (shaped, SHAPED, "with force-length relation"),
        ):
            axis.plot(
                study_.runs[number].time,
                study_.residual(record, whole=True),
                color,
                lw=1.2,
                label=label,
            )
        axis.set_ylim(-12, 5)
    for axis in list(axes.values())[::5]:
        axis.set_ylabel("modelled less measured force [N]")
    for axis in list(axes.values())[5:]:
        axis.set_xlabel("time [s]")
    handles, labels = axis.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2)
    fig.suptitle("Residuals; grey: after the stretch, not fitted")
    return fig


def limits_figure(records, shaped, left):
    """What the law cannot show: force-length, dependence on speed, what a stretch leaves."""
    fig, (static, speed, after) = plt.subplots(1, 3, figsize=(16, 5), layout="constrained")
    draw_force_length(static, records, shaped)
    draw_stretches(speed, records, shaped)
    numbers = list(left)
    place = np.arange(len(numbers))
    bars = (("measured, still stimulated", 0, MEASURED), ("measured, after stimulation", 2, "C4"))
    for k, (label, column, color) in enumerate(bars):
        after.bar(
            place + 0.36 * (k - 0.5),
            [left[n][column] for n in numbers],
            0.34,
            color=color,
            label=label,
        )
    after.axhline(0.0, color=SHAPED, lw=3, label="the law, both")
    names = [records[n].name.replace(", ", "\n") for n in numbers]
    after.set(
        xticks=place,
        title="What a stretch leaves behind",
        ylim=(-0.25, 5.6),
        ylabel="force beyond that without stretch [N]",
    )
    after.set_xticklabels(names, fontsize="small")
    after.legend(loc="upper left", fontsize="small", ncols=2)
    return fig


def draw_force_length(axis, records, shaped):
    """Steady active forces over length, before and after stretches, and the parabola."""
    p = shaped.fit.parameters
    x = np.linspace(-1e-3, 10e-3, 100)
    axis.plot(
        1e3 * x,
        p[F0] * (1.0 - ((x - p[best]) / p[width]) ** 2),
        SHAPED,
        lw=2,
        label="fitted parabola",
    )
    kinds: dict = {
        "held": ("o", MEASURED),
        "before the stretch": ("s", "0.6"),
        "after the stretch": ("^", "C1"),
    }
    points: dict = {kind: [] for kind in kinds}
    for number, run in shaped.runs.items():
        record, force = records[number], run.measurements["soleus_F"]
        late = last_second(record, shaped.fit, run)
        last = float(record.ramp.length(record.time[-1]))
        if number in HELD:
            points["held"].append((last, force[late].mean()))
            continue
        here = (run.time > record.ramp.begin - 0.3) & (run.time < record.ramp.begin)
        points["before the stretch"].append((record.ramp.start, force[here].mean()))
        points["after the stretch"].append((last, force[late].mean()))
    for kind, (marker, color) in kinds.items():
        lengths, forces = np.array(points[kind]).T
        axis.plot(1e3 * lengths, forces, marker, color=color, ms=8, mec="k", mew=0.5, label=kind)
    axis.set(xlabel="length [mm]", ylabel="active force [N]", title="Steady force over length")
    axis.legend(fontsize="small")


def draw_stretches(axis, records, shaped):
    """Active force over length in stretches by 9 mm at both speeds."""
    for number, color in ((50, "C0"), (57, "C1")):
        record, run = records[number], shaped.runs[number]
        here = (run.time >= record.ramp.begin) & (run.time <= record.ramp.end)
        x = 1e3 * record.ramp.length(run.time[here])
        speed = f"{1e3 * record.ramp.rate:.0f} mm/s"
        measured = run.measurements["soleus_F"][here]
        axis.plot(x, measured, color, lw=2.4, label=f"measured, {speed}")
        axis.plot(x, run["soleus_F"][here], color, ls="--", label=f"the law, {speed}")
    axis.set(xlabel="length [mm]", ylabel="active force [N]", title="Stretches by 9 mm")
    axis.legend(fontsize="small", loc="lower center")


# -- the study ------------------------------------------------------------------------------------


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Fit the law, predict the other trials, say and draw what it can and cannot show."""
    records, passive, (plain, shaped) = solve(nodes)
    left = left_behind(records, passive, shaped)
    for text in (
        plain.fit,
        shaped.fit,
        parameters(plain, shaped),
        table(records, plain, shaped),
        enhancement(records, left),
    ):
        print(text)
    figures = {
        "trials": trials_figure(records, passive, plain, shaped),
        "residuals": residual_figure(records, plain, shaped),
        "limits": limits_figure(records, shaped, left),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(out / f"muscle_fit_{name}.png")
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths
