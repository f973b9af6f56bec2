"""Step of a walking machine as a program of phases, by direct collocation.

The machine of `walker` goes down a slope by itself. Between two instants at which a leg is upright
its step has four phases, each with its own contacts and a duration of its own:

    single support    right heel and toe
    heel contact      right toe, left heel     begins with the impact of the left heel
    double support    right toe, left foot     begins with the impact of the left toe
    single support    left heel and toe        begins when the right toe has no force

States continue from phase to phase through the same jumps as in a simulation, and the end of the
step is its beginning with the legs exchanged. That determines the gait; the guess is one simulated
step from a start beside it. On this slope there are two gaits, a slow one, which is that of
`walker`, and a fast one. Then the slope is unknown, too, and the length of the step is given: both
gaits are followed over all slopes on which they exist.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.studies.walker import GAIT, upright
from kinesym.models.planar_walker import MACHINE, passive_walker

RIGHT, LEFT = ("Rheel", "Rtoe"), ("Lheel", "Ltoe")
NAMES = ("single support", "heel contact", "double support", "single support")
COLOURS = ("0.96", "#fbd5c0", "#d3ecd0", "0.96")
#: What the end of a step has in common with its beginning, legs exchanged; the foot that stands has
#: no freedom of its own.
REPEATED = ("Lleg_y", "Lfoot_y", "Rleg_wy", "Lleg_wy", "Lfoot_wy")
#: Between lengths of steps for which a slope is sought [m].
LONGER = 0.02

#: Far beyond what a step needs; they keep the first iterates sensible [rad, rad/s, m, m/s].
BOUNDS = {
    **{f"{side}{part}_y": (-1.0, 1.0) for side in "RL" for part in ("leg", "foot")},
    **{f"{side}{part}_wy": (-15.0, 15.0) for side in "RL" for part in ("leg", "foot")},
    "hip_px": (-0.5, 1.5),
    "hip_pz": (0.8, 1.1),
    "hip_vx": (-2.0, 4.0),
    "hip_vz": (-2.0, 2.0),
}

#: Starts beside two gaits: none of them is periodic [rad, rad/s].
ROUGH = {
    "slow": {"Rleg_wy": 0.4, "Lleg_y": 0.0, "Lleg_wy": -2.8, "Lfoot_y": 0.0, "Lfoot_wy": 0.0},
    "fast": {"Rleg_wy": 0.5, "Lleg_y": 0.0, "Lleg_wy": -2.5, "Lfoot_y": 0.0, "Lfoot_wy": 0.0},
}

WALKER = passive_walker()
STATES = {str(x.func): x for x in WALKER.model.states}
MODES = {"R_phase": 0, "L_phase": 0}  # a leg that swings is as long as it is; it may scuff


def sequence(nodes):
    """The four phases. One point of a flat foot holds it along the ground, and is enough."""
    return [
        ks.Phase(RIGHT, (0.1, 0.6), nodes, MODES, loose=("Rheel",), ignored=LEFT),
        ks.Phase(
            ("Rtoe", "Lheel"),
            (0.005, 0.2),
            nodes,
            MODES,
            hits=("Rtoe", "Lheel"),
            ignored=("Rheel",),
        ),
        ks.Phase(("Rtoe", *LEFT), (0.02, 0.5), nodes, MODES, loose=("Lheel",)),
        ks.Phase(LEFT, (0.05, 0.5), nodes, MODES, loose=("Lheel",), ignored=RIGHT),
    ]


def step_problem(nodes, length=None):
    """The program of a step; with a length [m] the slope is unknown. Both differ in bounds only,
    so that the program of the first is that of all."""
    first, last = ks.at_start, ks.at_end
    other = {"R": "L", "L": "R"}
    cycle = [first(STATES[name]) - last(STATES[other[name[0]] + name[1:]]) for name in REPEATED]
    start = [first(STATES[name]) for name in ("hip_px", "Rleg_y", "damper_work")]
    lengths = (0.0, 2.0) if length is None else (length, length)
    slopes = (MACHINE["slope"], MACHINE["slope"]) if length is None else (0.01, 0.2)
    end = [last(STATES["Lleg_y"]), (last(STATES["hip_px"]), *lengths)]
    phases = ks.Phases(sequence(nodes), start=start, end=end, cycle=cycle)
    return ks.Collocation(WALKER, phases, {"slope": slopes}, bounds=BOUNDS)


# -- simulation: a reference, and a guess ---------------------------------------------------------


@dataclass(frozen=True)
class Simulated:
    """A step from event to event: the run, and when phases begin and the last one ends (5,) [s]."""

    run: ks.Trajectory
    edges: np.ndarray


def simulated(gait):
    """From the right leg upright to the left leg upright, whether or not that is periodic."""
    run = ks.simulate(
        WALKER,
        np.linspace(0.0, 0.76, 761),
        {**upright(gait), **dict.fromkeys(RIGHT, True)},
        rtol=1e-12,
        atol=1e-13,
    )
    edges = [
        0.0,
        run.happened("impact", "Lheel")[0].time,
        run.happened("impact", "Ltoe")[0].time,
        run.happened("release", "Rtoe")[0].time,
        run.happened("event", "L upright")[0].time,
    ]
    return Simulated(run, np.array(edges))


def guess_of(step, nodes):
    """A simulated step as a guess: its phases on grids of their own."""
    run, guess = step.run, {"duration": np.diff(step.edges)}
    forces = [
        str(force.func)
        for contact in WALKER.contacts
        for force in (contact.force, contact.friction)
    ]
    inside = 1e-3  # s: nodes next to an impact lie between what was before and after
    for name in (*STATES, *forces):
        rows = [
            np.interp(np.linspace(a + inside, b - inside, nodes), run.time, run[name])
            for a, b in zip(step.edges[:-1], step.edges[1:], strict=True)
        ]
        guess[name] = [np.maximum(row, 0.0) for row in rows] if "normal" in name else rows
    return guess


def gait(nodes, rough):
    """The gait that is found from a simulated step."""
    solution = step_problem(nodes).solve(guess=guess_of(simulated(rough), nodes))
    if not solution.success:
        raise ValueError(f"no gait: {solution.message}")
    return solution


def durations(solution):
    """Of the phases (4,) [s]."""
    return np.array([trial.time[-1] for trial in solution.trials])


# -- the study ------------------------------------------------------------------------------------


def family(nodes, first):
    """Length [m], slope [rad] and speed [m/s] of gaits like a first one, each from its neighbour,
    as far as there are any (3, K)."""
    middle = length_of(first)
    found: list = [(middle, MACHINE["slope"], middle / durations(first).sum())]
    for way in (LONGER, -LONGER):
        guess, length = first, middle
        while True:
            length += way
            guess = step_problem(nodes, length).solve(guess=guess, max_iterations=50)
            if not guess.success:
                break
            speed = length / durations(guess).sum()
            found.append((length, guess.parameters["slope"], speed))
    return np.array(sorted(found)).T


def length_of(solution):
    """Of a step [m]."""
    return float(solution.trials[-1]["hip_px"][-1])


def figure(solution, reference, gaits):
    """Angles and forces with the phases, and the family of gaits."""
    picture, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    whole, edges = solution.joined(), np.cumsum([0.0, *durations(solution)])
    for axis in axes[:2]:
        for a, b, colour in zip(edges[:-1], edges[1:], COLOURS, strict=True):
            axis.axvspan(a, b, color=colour, zorder=0)
        axis.set_xlabel("time [s]")
        axis.set_xlim(0.0, edges[-1])
    run = reference.run
    here = run.time < edges[-1]
    for name, colour in (("Rleg_y", "C3"), ("Lleg_y", "C0"), ("Rfoot_y", "C1"), ("Lfoot_y", "C9")):
        axes[0].plot(whole.time, whole[name], ".", ms=3, color=colour, label=name)
        axes[0].plot(run.time[here], run[name][here], color=colour, lw=0.8)
    for name, colour in (("Rheel", "C1"), ("Rtoe", "C3"), ("Lheel", "C9"), ("Ltoe", "C0")):
        axes[1].plot(whole.time, whole[f"{name}_normal"], ".", ms=3, color=colour, label=name)
        axes[1].plot(run.time[here], run[f"{name}_normal"][here], color=colour, lw=0.8)
    axes[0].set_ylabel("angle [rad]; dots: collocation, lines: simulation")
    axes[1].set_ylabel("normal force [N]")
    for axis in axes[:2]:
        axis.legend(fontsize=8)
    for (label, (_, slopes, speeds)), colour in zip(gaits.items(), ("C2", "C4"), strict=True):
        axes[2].plot(np.degrees(slopes), speeds, "o-", ms=4, color=colour, label=f"{label} gaits")
    axes[2].plot(
        np.degrees(MACHINE["slope"]),
        whole["hip_px"][-1] / edges[-1],
        "*",
        ms=14,
        color="C3",
        label="the machine of walker",
    )
    axes[2].set_xlabel("slope [deg]")
    axes[2].set_ylabel("speed [m/s]")
    axes[2].legend()
    return picture


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Solve, compare with the simulation, follow the gaits over the slope."""
    count = nodes or 41
    reference = simulated(GAIT)
    expected = np.diff(reference.edges)
    print(f"slow gait, phases [s]: {', '.join(f'{d:.6f}' for d in expected)}, simulated")
    errors, solutions = [], []
    for n in (count, 2 * count - 1):
        solutions.append(gait(n, ROUGH["slow"]))
        found = durations(solutions[-1])
        errors.append(np.abs(found - expected).max())
        print(
            f"{n:7d} nodes a phase:  {', '.join(f'{d:.6f}' for d in found)}, error "
            f"{errors[-1]:.1e}; {solutions[-1].message}\n"
            f"{'':7s} grid: {solutions[-1].grid_error()}"
        )
    print(f"  order {np.log2(errors[0] / errors[1]):.2f}")
    fast = gait(count, ROUGH["fast"])
    print(
        f"on the same slope a fast gait: a step of {length_of(fast):.4f} m in "
        f"{durations(fast).sum():.4f} s"
    )
    gaits = {"slow": family(21, solutions[0]), "fast": family(21, fast)}
    for name, rows in gaits.items():
        (short, *_, long), slopes, speeds = rows
        print(
            f"{name} gaits: steps of {short:.2f} to {long:.2f} m, slopes "
            f"{np.degrees(slopes[0]):.2f} to {np.degrees(slopes[-1]):.2f} deg, "
            f"{speeds[0]:.3f} to {speeds[-1]:.3f} m/s"
        )
    path = out / "walker_step.png"
    figure(solutions[1], reference, gaits).savefig(path, dpi=120)
    return [path]
