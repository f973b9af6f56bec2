"""A person standing on a ship in waves: reactions, interruptions, a picture that moves.

The spatial model of Bourgeois and Langlois 2015, four links with three degrees of freedom at each
joint, on simulated motion of a supply vessel and on the measured motion of a ship's section, scaled
to a ship of 14 m beam. Whenever the reaction of the deck leaves what feet side by side can bear the
person would slide or tip: a motion-induced interruption. Data: see data/README.md.
"""

import gzip
import time as clock
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks

RATE = 100.0  # nodes per second
START = 20.0  # s, after which the start is forgotten
PLACE = (20.0, 4.0, 8.0)  # m, where the person stands: ahead of the ship's centre, left, above
SCALE = 36.0  # length of the ship over that of the model of its section
CUTOFF = 2.0  # Hz, of the measured motion at the scale of the model

#: Feet of 0.26 m, their middle under the upright body, 0.38 m across, on a wet painted deck.
FEET = ks.Support(front=0.13, back=0.13, left=0.19, right=0.19, friction=0.35)


@dataclass(frozen=True)
class Case:
    """A motion of the deck under the person, and for how long [s]."""

    name: str
    motion: ks.Motion
    duration: float


def data(name):
    """Rows of a table by column."""
    path = resources.files("kinesym.examples") / "data" / name
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    return np.genfromtxt(text.splitlines(), delimiter=",", names=True)


def vessel(name):
    """The supply vessel from its harmonics: z up, at the place of the person."""
    table = data(f"ship_{name}_components.csv")
    rows = ("roll", "pitch", "yaw", "surge", "sway", "heave")
    amplitude = [table[f"{row}_amp_{unit(row)}"] for row in rows]
    phase = [table[f"{row}_phase_rad"] + np.pi / 2 for row in rows]  # the table holds cosines
    motion = ks.Motion.harmonics(table["omega_encounter_rad_s"], amplitude, phase)
    return motion.flipped().at(PLACE)


def unit(row):
    """The unit of a column."""
    return "rad" if row in ("roll", "pitch", "yaw") else "m"


def sampled():
    """The vessel in bow-quartering seas again, from samples at 10 Hz, smoothed."""
    record = data("ship_bow.csv.gz")
    angles = [record[f"{row}_rad"] for row in ("roll", "pitch", "yaw")]
    place = [record[f"{row}_m"] for row in ("surge", "sway", "heave")]
    motion = ks.Motion.samples(record["time_s"], angles, place, cutoff=1.0)
    return motion.flipped().at(PLACE)


def section():
    """The measured section at full scale: sway, heave and roll, smoothed."""
    record = data("ship_section_3102_2.csv.gz")
    still = np.zeros(len(record))
    angles = [record["roll_rad"], still, still]
    place = [still, record["sway_m"], record["heave_m"]]
    return ks.Motion.samples(record["time_s"], angles, place, cutoff=CUTOFF).scaled(SCALE)


def cases():
    """Six minutes in two seas and measured; forty minutes; the first once more from samples."""
    return [
        Case("bow-quartering sea, 3.5 m", vessel("bow"), 360.0),
        Case("beam sea, 2.5 m", vessel("beam"), 360.0),
        Case("measured section", section(), 360.0),
        Case("bow-quartering, 40 min", vessel("bow"), 2400.0),
        Case("bow-quartering, samples", sampled(), 360.0),
    ]


def stand(model, case, nodes=None):
    """The run, and the seconds that it took."""
    count = min(nodes or np.inf, int(case.duration * RATE) + 1)
    time = np.arange(count) / RATE
    inputs = case.motion.inputs("ship", time, model.input_names)
    begin = clock.perf_counter()
    run = ks.simulate(model, time, dict.fromkeys(model.state_names, 0.0), inputs=inputs)
    return run, clock.perf_counter() - begin


def wrench(run):
    """Force [N] and moment [N m] of the deck on the person, (3, N) each."""
    return [run.vector("base_force"), run.vector("base_moment")]


def settled(run):
    """Nodes after the start, half of them in a short run."""
    return slice(min(int(START * RATE), len(run.time) // 2), None)


def events(run):
    """Interruptions after the start; those within a second count as one."""
    here = settled(run)
    force, moment = (rows[:, here] for rows in wrench(run))
    return ks.interruptions(run.time[here], force, moment, FEET, gap=1.0)


def table(results):
    """One line per run, as text."""
    head = f"{'':27}{'ship roll':>10}{'sway acc':>10}{'ankle':>7}{'neck':>6}{'per minute':>20}"
    rows = [
        head,
        f"{'':27}{'max deg':>10}{'rms m/s²':>10}{'max deg':>13}{'slides':>11}{'tips':>9}"
        f"{'computed':>12}",
    ]
    for case, run, seconds in results:
        here, span = settled(run), run.time[-1] - run.time[settled(run)][0]
        roll, ankle, neck = (
            np.degrees(np.abs(run[name][here]).max()) for name in ("ship_x", "shank_x", "head_x")
        )
        sway = np.sqrt(np.mean(run["ship_ay"][here] ** 2))
        counts = [
            sum(e.kind == kind for e in events(run)) * 60.0 / span
            for kind in ("sliding", "tipping")
        ]
        rows.append(
            f"{case.name:27}{roll:10.1f}{sway:10.2f}{ankle:7.1f}{neck:6.1f}{counts[0]:11.2f}"
            f"{counts[1]:9.2f}{seconds:10.2f} s"
        )
    return "\n".join(rows)


def overview(case, run):
    """A minute: the ship, the joints, the load of the support with its interruptions."""
    begin = settled(run).start
    here = slice(begin, begin + int(60.0 * RATE))
    time = run.time[here]
    fig, axes = plt.subplots(4, 1, figsize=(9, 9), sharex=True, layout="constrained")
    for name, label in (("ship_x", "roll"), ("ship_y", "pitch"), ("ship_z", "yaw")):
        axes[0].plot(time, np.degrees(run[name][here]), lw=1, label=label)
    for joint, label in (("shank", "ankle"), ("thigh", "knee"), ("trunk", "hip"), ("head", "neck")):
        axes[1].plot(time, np.degrees(run[f"{joint}_x"][here]), lw=1, label=label)
    force, moment = (rows[:, here] for rows in wrench(run))
    for k, label in enumerate(("forwards", "sideways", "upwards")):
        axes[2].plot(time, force[k], lw=1, label=label)
    for kind, load in ks.support_loads(force, moment, FEET).items():
        axes[3].plot(time, load, lw=1, label=kind)
    for event in events(run):
        if event.begin < time[-1]:
            axes[3].axvspan(event.begin, event.end, color="C3", alpha=0.2, lw=0)
    axes[3].axhline(1.0, color="k", lw=0.8)
    labels = (
        "angles of the ship [deg]",
        "roll of joints [deg]",
        "reaction of the deck [N]",
        "load / capacity of the support [-]",
    )
    for axis, label in zip(axes, labels, strict=True):
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        axis.legend(loc="upper right", ncols=4, fontsize="small")
    axes[3].set_xlabel("time [s]")
    axes[3].set_xlim(time[0], time[-1])
    fig.suptitle(f"Standing on a ship: {case.name}", x=0.02, ha="left")
    return fig


def pressure(results):
    """Centres of pressure in the support, one panel for each run of six minutes."""
    fig, axes = plt.subplots(
        1, len(results), figsize=(4.0 * len(results), 4.4), sharey=True, layout="constrained"
    )
    edges = np.array(
        [
            [FEET.right, FEET.front],
            [FEET.right, -FEET.back],
            [-FEET.left, -FEET.back],
            [-FEET.left, FEET.front],
            [FEET.right, FEET.front],
        ]
    )
    for axis, (case, run, _) in zip(np.atleast_1d(axes), results, strict=True):
        x, y = ks.center_of_pressure(*wrench(run))[:, settled(run)]
        axis.plot(-y[::5], x[::5], ".", ms=1.5, alpha=0.5)
        axis.plot(*edges.T, "k", lw=1.2)
        axis.set_title(case.name, fontsize="medium")
        axis.set_xlabel("to the right [m]")
        axis.set(aspect="equal", xlim=(-0.45, 0.45), ylim=(-0.45, 0.45))
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("forwards [m]")
    fig.suptitle("Centre of pressure; outside the line the person tips", x=0.02, ha="left")
    return fig


def film(out, run):
    """Ten seconds as a .gif, all of the first minute as a page."""
    begin = run.time[settled(run)][0]
    minute, seconds = (run.between(begin, begin + span) for span in (60.0, 10.0))
    return [minute.animate(out / "ship.html"), seconds.animate(out / "ship.gif", fps=12.5)]


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Simulate, count, draw."""
    model, results = ks.models.sim3d(), []
    for case in cases():
        run, seconds = stand(model, case, nodes)
        results.append((case, run, seconds))
    print(table(results))
    paths = [out / "ship.png", out / "ship_pressure.png"]
    for path, fig in zip(paths, [overview(*results[0][:2]), pressure(results[:3])], strict=True):
        fig.savefig(path, dpi=120)
        plt.close(fig)
    return [*paths, *film(out, results[0][1])]
