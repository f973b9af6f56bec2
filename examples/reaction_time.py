"""Reaction time of a person who keeps a cursor on a moving target.

McRuer, Jex 1967, IEEE Transactions on Human Factors in Electronics 8:231 (crossover model): around
the frequency where the loop has the gain 1, person and cursor together are an integrator of what
the eye saw tau seconds before, y' = w_c (target - y)(t - tau), whatever the cursor itself is. Both
numbers follow from one minute of tracking a sum of sines. Without the delay the same model does not
fit: what it leaves is three times the noise.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks

#: Of the person: crossover frequency [rad/s] and reaction time [s], usual for this task.
TRUE = {"w_c": 4.2, "tau": 0.18}
#: Of the target: frequencies [rad/s] of sines that do not repeat within a minute.
SINES = np.array([0.31, 0.52, 0.94, 1.57, 2.51, 4.19, 6.28])
SEEN_BEFORE, NOISE = 1.0, 0.02  # s, and standard deviation of the cursor in widths of the screen


def person(late=True):
    """The crossover model, with or without a reaction time."""
    target, y = ks.dynamicsymbols("target y")
    w_c, tau = sp.symbols("w_c tau")
    seen = target - y
    return ks.Model(
        "person",
        states=[y],
        inputs=[target],
        parameters=[w_c, tau] if late else [w_c],
        equations=[y.diff(ks.t) - w_c * (ks.delayed(seen, tau) if late else seen)],
    )


def tracked(time, w_c, tau):
    """Target and cursor, by the frequency response of the model."""
    phases = np.random.default_rng(7).uniform(0.0, 2.0 * np.pi, len(SINES))
    target = 0.2 * np.exp(1j * (np.outer(time, SINES) + phases)) / (1.0 + SINES / 2.0)
    loop = w_c * np.exp(-1j * SINES * tau) / (1j * SINES)
    return target.imag.sum(axis=1), (target * loop / (1.0 + loop)).imag.sum(axis=1)


def record(nodes=3001, seed=3):
    """A minute of tracking, and a second before it: `ks.Experiment`."""
    step = 60.0 / (nodes - 1)
    time = step * np.arange(nodes)
    early = step * np.arange(-np.ceil(SEEN_BEFORE / step), nodes)
    target, cursor = tracked(early, **TRUE)
    noise = NOISE * np.random.default_rng(seed).standard_normal(nodes)
    return ks.Experiment(
        time,
        inputs={"target": ks.Signal(early, target, between="cubic")},
        measurements={"y": tracked(time, **TRUE)[1] + noise},
        std={"y": NOISE},
        history={"y": ks.Signal(early, cursor, between="cubic")},
    )


def identify(trial):
    """Gain and reaction time from a record."""
    unknown = {"w_c": (0.5, 20.0), "tau": (0.05, 0.5)}
    return ks.Collocation(person(), trial, unknown).solve(guess={"w_c": 2.0, "tau": 0.3})


def at_once(trial):
    """The same without a reaction time."""
    trial = ks.Experiment(trial.grid, trial.signals, trial.measurements, trial.std)
    return ks.Collocation(person(late=False), trial, {"w_c": (0.5, 20.0)}).solve({"w_c": 2.0})


def with_known(trial, tau):
    """Squares of residuals per sample if the reaction time is known to be this."""
    found = ks.Collocation(person(), trial, {"w_c": (0.5, 20.0)}, {"tau": tau}).solve({"w_c": 2.0})
    return found.objective / len(trial.grid)


def draw(trial, found, slow):
    """Ten seconds of tracking with both models, and how the fit depends on the reaction time."""
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=(2, 1)
    )
    here = trial.grid <= 10.0
    left.plot(trial.grid[here], trial.inputs["target"][here], "0.6", label="target")
    left.plot(trial.grid[here], trial.measurements["y"][here], "k.", ms=2, label="cursor")
    for each, color, name in ((found, "C0", "with a reaction time"), (slow, "C3", "without")):
        left.plot(trial.grid[here], each["y"][here], color, lw=1.2, label=name)
    left.set(xlabel="time [s]", ylabel="position [screen widths]")
    left.legend(loc="upper right", fontsize="small", ncols=2)
    times = np.linspace(0.1, 0.26, 9)
    right.plot(times, [with_known(trial, tau) for tau in times], "k.-")
    right.axvline(found.parameters["tau"], color="C0")
    right.set(xlabel="reaction time [s]", ylabel="squares per sample", ylim=(0.0, None))
    return fig


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """The fit with and without a reaction time; one figure."""
    trial = record(nodes or 3001)
    fit, slow = identify(trial), at_once(trial)
    print(f"with a reaction time: {fit}\n")
    print(f"true: {', '.join(f'{name} = {value}' for name, value in TRUE.items())}\n")
    print(f"without: {slow}")
    fig = draw(trial, fit, slow)
    path = out / "reaction_time.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
