"""Stimulation pattern tuned by gradients across events, so that a knee peaks at a given time.

The knee of `fes_knee` is to be at its peak of 0.7 rad at 0.9 s, with as little stimulation as
possible: the unknowns are the share of fibres that each of 16 impulses recruits, and the time of
each impulse. The peak is an event, so that its angle and its time have derivatives with respect to
all of these: two adjoint passes over one simulation with some hundred events.

The optimiser is SciPy's SLSQP: sum of recruited^2 + regularity of the impulses, subject to the two
conditions on the peak.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import kinesym as ks
from kinesym.examples.studies.fes_knee import (
    FIRST,
    IMPULSES,
    PERIOD,
    calcium,
    knee,
    omega,
    quadriceps,
    theta,
)

ANGLE, TIME = 0.7, 0.9  # of the peak [rad], [s]
END = 1.5  # s
#: How far impulses may move [s]: less than what separates them from each other's pulses.
MOVE = 0.002
#: What moving an impulse by `MOVE` costs, against recruiting all fibres once.
REGULAR = 2e-3

MUSCLE = quadriceps(recruited="input")


def model():
    """The knee, and the event of its first peak."""
    bare = knee(MUSCLE)
    peak = ks.hybrid.Event("peak", omega, direction=-1)
    return ks.hybrid.Hybrid(bare.model, bare.modes, [*bare.events, peak], muscles=[MUSCLE])


HYBRID = model()


def pattern(q):
    """Times of the impulses [s] and what they recruit, (16,) each, from the unknowns (32,)."""
    regular = ks.hybrid.train(FIRST, PERIOD, IMPULSES)
    return regular + MOVE * q[IMPULSES:], q[:IMPULSES]


def task(q, nodes):
    """What is simulated."""
    impulses, recruited = pattern(q)
    signal = ks.Signal.pieces(impulses, recruited)
    return {
        "time": np.linspace(0.0, END, nodes),
        "initial": {theta: 0.0, omega: 0.0, **MUSCLE.rest},
        "inputs": {MUSCLE.clock: calcium().signal(impulses), "quad_recruitment": signal},
    }


@dataclass(frozen=True)
class Peak:
    """The first peak: its time [s] and angle [rad], and their derivatives by the unknowns (32,)."""

    time: float
    angle: float
    time_slope: np.ndarray
    angle_slope: np.ndarray


def peak(q, nodes=151):
    """Simulates, and goes back twice."""
    exact = ks.sensitivities(HYBRID, **task(q, nodes))
    here = exact.run.happened("event", "peak")[0]
    slopes = [by_unknowns(q, exact.gradient(of, at=here)) for of in ("time", "theta")]
    return Peak(here.time, here.after["theta"], *slopes)


def by_unknowns(q, gradient):
    """Derivatives (32,) from those by the pieces of the inputs."""
    impulses, _ = pattern(q)
    clock, recruited = (gradient.inputs[name] for name in ("quad_u", "quad_recruitment"))
    moved = calcium().by_impulse(impulses, clock) + recruited.begin
    return np.concatenate([recruited.value, MOVE * moved])


def effort(q):
    """The sum of squares, and its gradient."""
    weights = np.repeat([1.0, REGULAR], IMPULSES)
    return weights @ q**2, 2.0 * weights * q


def tune():
    """The unknowns (32,) of the best pattern, and how many simulations that took."""
    kept = {}

    def at(q):
        key = q.tobytes()
        if key not in kept:
            kept[key] = peak(q)
        return kept[key]

    conditions = [
        {
            "type": "eq",
            "fun": lambda q: 10.0 * (at(q).angle - ANGLE),
            "jac": lambda q: 10.0 * at(q).angle_slope,
        },
        {
            "type": "eq",
            "fun": lambda q: 10.0 * (at(q).time - TIME),
            "jac": lambda q: 10.0 * at(q).time_slope,
        },
    ]
    start = np.concatenate([np.full(IMPULSES, 0.3), np.zeros(IMPULSES)])
    bounds = [(0.0, 1.0)] * IMPULSES + [(-1.0, 1.0)] * IMPULSES
    found = minimize(
        effort,
        start,
        jac=True,
        bounds=bounds,
        constraints=conditions,
        method="SLSQP",
        options={"maxiter": 60, "ftol": 1e-8},
    )
    if not found.success:
        raise ValueError(f"the pattern was not found: {found.message}")
    return start, found.x, len(kept)


def figure(before, after, nodes):
    """Angle, force and what the impulses recruit, before and after."""
    picture, axes = plt.subplots(3, 1, figsize=(8, 7.5), sharex=True, layout="constrained")
    for q, colour, label in ((before, "0.6", "equal impulses"), (after, "C0", "tuned")):
        run = ks.simulate(HYBRID, **task(q, nodes))
        axes[0].plot(run.time, run["theta"], color=colour, label=label)
        axes[1].plot(run.time, run["quad_F"], color=colour)
        impulses, recruited = pattern(q)
        axes[2].vlines(8e-3 * (q is after) + impulses, 0.0, recruited, color=colour, lw=3.0)
    axes[0].plot(TIME, ANGLE, "o", mfc="none", color="C3", ms=9, label="wanted peak")
    axes[0].legend()
    for axis, label in zip(axes, ("knee angle [rad]", "force [N]", "recruited share"), strict=True):
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[2].set_xlabel("time [s]")
    return picture


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Tune, and draw."""
    before, after, count = tune()
    first, last = peak(before), peak(after)
    print(f"equal impulses: peak {first.angle:.4f} rad at {first.time:.4f} s")
    print(
        f"tuned:          peak {last.angle:.6f} rad at {last.time:.6f} s, "
        f"after {count} simulations with two adjoint passes each"
    )
    impulses, recruited = pattern(after)
    regular = ks.hybrid.train(FIRST, PERIOD, IMPULSES)
    print(
        f"recruited {recruited.min():.3f} ... {recruited.max():.3f}, impulses moved by "
        f"{1e3 * (impulses - regular).min():.2f} ... {1e3 * (impulses - regular).max():.2f} ms"
    )
    path = out / "fes_tuning.png"
    figure(before, after, nodes or 601).savefig(path, dpi=120)
    return [path]
