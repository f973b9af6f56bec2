"""Swing-up of a pendulum with a weak motor: least effort in given time, and least time.

The torque limit of 2 N m is a fifth of what would hold the pendulum horizontally, so it must be
pumped. States: angle from hanging theta [rad], rate omega [rad/s]; input: torque T [N m].
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks

theta, omega, torque = ks.dynamicsymbols("theta omega T")
m, length, g = sp.symbols("m l g")


def pendulum() -> ks.Model:
    """A point mass on a massless rod with a motor at the pivot."""
    return ks.Model(
        name="swing_up",
        states=[theta, omega],
        inputs=[torque],
        parameters=[m, length, g],
        equations=[
            theta.diff(ks.t) - omega,
            m * length**2 * omega.diff(ks.t) + m * g * length * sp.sin(theta) - torque,
        ],
        values={m: 1.0, length: 1.0, g: 9.81},
    )


REST_TO_REST = [
    ks.at_start(theta),
    ks.at_start(omega),
    ks.at_end(theta) - sp.pi,
    ks.at_end(omega),
]


def least_effort(nodes=501, duration=10.0):
    """min integral T^2 dt in a given time."""
    trial = ks.Experiment(np.linspace(0.0, duration, nodes))
    return _solve(trial, ks.Integral(torque**2))


def least_time(nodes=501):
    """min duration."""
    trial = ks.Experiment(nodes=nodes, duration=(0.5, 20.0))
    return _solve(trial, ks.Terminal(ks.t), {"duration": 8.0})


def _solve(trial, objective, more=None):
    problem = ks.Collocation(
        pendulum(),
        trial,
        objective=objective,
        boundary=REST_TO_REST,
        unknown_inputs={torque: (-2.0, 2.0)},
    )
    s = np.linspace(0.0, 1.0, trial.n_nodes)
    swings = np.pi * s**2 * np.cos(10.0 * np.pi * s)  # a guess: five growing swings
    return problem.solve(guess={theta: swings, **(more or {})})


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Solve both problems and draw angle and torque."""
    solutions = {
        "least effort in 10 s": least_effort(nodes or 501),
        "least time": least_time(nodes or 501),
    }
    fig, axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
    for title, solution in solutions.items():
        print(
            f"{title}: {solution.message}\n  objective {solution.objective:.6g}, "
            f"duration {solution.duration:.6g} s\n  grid: {solution.grid_error()}"
        )
        axes[0].plot(solution.time, solution["theta"], label=title)
        axes[1].plot(solution.time, solution["T"], label=title)
    axes[0].axhline(np.pi, color="0.6", lw=0.8)
    axes[0].set_ylabel("theta [rad]")
    axes[0].legend()
    axes[1].set_ylabel("T [N m]")
    axes[1].set_xlabel("time [s]")
    path = out / "swing_up.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
