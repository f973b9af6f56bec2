"""Stiffness and damping of the ankles of a person on a ship, from a noisy record, found twice.

The pendulum of Bourgeois and Langlois 2015 (roll and pitch free, everything else locked) sways on a
supply vessel in waves, all six motions of which are known. From a minute of angles with noise the
four gains of the ankles and the unknown start are identified by direct collocation and by shooting.
Both minimise the same sum of squares under the same trapezoidal rule, so they must agree.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.examples.ship import vessel

RATE = 100.0  # samples per second
TRUE = {"Kp_shank_x": 1900.0, "Kp_shank_y": 1500.0, "Kd_shank_x": 110.0, "Kd_shank_y": 70.0}
GUESS = {"Kp_shank_x": 3500.0, "Kp_shank_y": 3500.0, "Kd_shank_x": 30.0, "Kd_shank_y": 200.0}
BOUNDS = {
    "Kp_shank_x": (800.0, 1e4),
    "Kp_shank_y": (800.0, 1e4),
    "Kd_shank_x": (1.0, 1e3),
    "Kd_shank_y": (1.0, 1e3),
}
ANGLES = ("shank_x", "shank_y")
NOISE = np.radians(0.1)


def record(nodes, seed=3):
    """A person with the true gains at rest at first, sampled with noise; the truth itself."""
    time = np.arange(nodes) / RATE
    model, motion = ks.models.psm3d(), vessel("bow")
    inputs = motion.inputs("ship", time, model.input_names)
    start = {**dict.fromkeys(model.state_names, 0.0), "shank_x": 0.02, "shank_y": -0.01}
    run = ks.simulate(model, time, start, TRUE, inputs)
    rng = np.random.default_rng(seed)
    noisy = {name: run[name] + NOISE * rng.standard_normal(nodes) for name in ANGLES}
    trial = ks.Experiment(time, inputs, noisy, std=dict.fromkeys(ANGLES, NOISE))
    return model, trial, run


def collocate(model, trial):
    """The gains by direct collocation."""
    return ks.Collocation(model, trial, unknown=BOUNDS, scheme="trapezoid").solve(guess=GUESS)


def shoot(model, trial):
    """The gains by shooting: steps from an unknown start."""
    start = dict.fromkeys(model.state_names)
    shooting = ks.Shooting(model, trial, unknown=BOUNDS, initial=start, method="trapezoid")
    return shooting.solve(GUESS, optimizer="least-squares")


def comparison(solution, fit):
    """Gains: true, by how many standard errors they are off, difference of the two methods.

    A short record may leave a gain at its bound, where it has no standard error."""
    rows = [f"{'gain':12}{'true':>8}{'off by':>20}{'difference':>13}"]
    for name, row in solution.parameters.table.items():
        off = abs(row.value - TRUE[name]) / row.standard_error if row.standard_error else np.nan
        apart = abs(row.value / fit.parameters[name] - 1.0)
        rows.append(
            f"{name:12}{TRUE[name]:8.0f}{off:9.1f} std. errors{apart:13.1e} {row.remark}".rstrip()
        )
    return "\n".join(rows)


def figure(trial, run, solution, first):
    """Angles measured and modelled, at the first guess and in the end."""
    fig, axes = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
    here = run.time <= 30.0
    for axis, name, label in zip(axes, ANGLES, ("roll", "pitch"), strict=True):
        axis.plot(
            run.time[here],
            np.degrees(trial.measurements[name][here]),
            ".",
            ms=2,
            color="0.7",
            label="measured",
        )
        axis.plot(run.time[here], np.degrees(first[name][here]), "C1", lw=1, label="first guess")
        axis.plot(run.time[here], np.degrees(run[name][here]), "k--", lw=1.2, label="true")
        axis.plot(run.time[here], np.degrees(solution[name][here]), "C0", lw=1, label="identified")
        axis.set_ylabel(f"{label} of the ankle [deg]")
        axis.grid(alpha=0.3)
    axes[0].legend(loc="upper right", ncols=4)
    axes[-1].set_xlabel("time [s]")
    fig.suptitle("Ankle gains of a person on a ship", x=0.02, ha="left")
    return fig


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Simulate, identify twice, compare, draw."""
    model, trial, run = record(nodes or 6001)
    solution, fit = collocate(model, trial), shoot(model, trial)
    print(f"by collocation: {solution}\n\nby shooting: {fit}\n")
    print(comparison(solution, fit))
    start = {name: run[name][0] for name in model.state_names}
    first = ks.simulate(model, trial.time, start, GUESS, trial.inputs)
    path = out / "ship_gains.png"
    fig = figure(trial, run, solution, first)
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
