"""The elastic curve of a knee, found from a leg that is dropped.

A shank hangs from a relaxed knee, is lifted and let go, as in the pendulum test of Wartenberg. The
moment of tendons and ligaments over the angle is not known: it is a spline through eleven points
whose values are estimated, with the damping, from angles with noise. Here they come from a
simulation with two exponentials, so that the true curve is known. The angle is that from hanging,
to the front [rad].
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp

import kinesym as ks

theta, omega = ks.dynamicsymbols("theta omega")
inertia, weight, damping = sp.symbols("I mgl c")
VALUES = {inertia: 0.4, weight: 9.0, damping: 0.15}  # kg m^2, N m, N m s
POINTS = np.linspace(-0.9, 1.4, 11)
MOMENTS = sp.symbols("M:11")  # at these angles [N m]
STARTS = (1.35, 1.0, 0.6)
NOISE = 0.005  # rad


def true_moment(angle):
    """Stiff where the knee is extended, softer where it is bent."""
    return 0.5 * sp.exp(-3.0 * angle - 0.5) - 0.4 * sp.exp(3.2 * angle - 1.2)


def shank(moment, more=()):
    """A pendulum with an elastic moment."""
    return ks.Model(
        "shank",
        states=[theta, omega],
        inputs=[],
        parameters=[inertia, weight, damping, *more],
        equations=[
            theta.diff(ks.t) - omega,
            inertia * omega.diff(ks.t) + weight * sp.sin(theta) + damping * omega - moment,
        ],
        values=VALUES,
        outputs={"moment": moment},
    )


def records(nodes, seed=1):
    """Angles of three drops, with noise."""
    time, rng = np.linspace(0.0, 4.0, nodes), np.random.default_rng(seed)
    drops = (
        ks.simulate(shank(true_moment(theta)), time, {theta: start, omega: 0.0})["theta"]
        for start in STARTS
    )
    return [
        ks.Experiment(
            time,
            measurements={theta: drop + NOISE * rng.standard_normal(nodes)},
            std={theta: NOISE},
        )
        for drop in drops
    ]


def identified(nodes, seed=1):
    """Moments at all points, and the damping."""
    curve = ks.table(theta, POINTS, MOMENTS, name="moment")
    problem = ks.Collocation(
        shank(curve, MOMENTS),
        records(nodes, seed),
        unknown={**dict.fromkeys(MOMENTS), damping: (0.0, 2.0)},
        scheme="radau-5",
    )
    return problem.solve({damping: 0.1})


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Find the curve and draw it."""
    solution = identified(nodes or 401)
    print(solution)
    names = list(map(str, MOMENTS))
    found = np.array([solution.parameters[name] for name in names])
    intervals = solution.parameters.intervals()
    low, high = np.array([intervals[name] for name in names]).T
    angles = np.linspace(POINTS[0], POINTS[-1], 300)
    spline = ks.table(theta, POINTS, found)
    fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for trial in solution.trials:
        axes[0].plot(trial.time, trial.measurements["theta"], ".", color="0.7", ms=2)
        axes[0].plot(trial.time, trial["theta"], lw=1.2)
    axes[0].set(xlabel="time [s]", ylabel="angle [rad]")
    true = sp.lambdify(theta, true_moment(theta))(angles)
    axes[1].plot(angles, true, color="0.6", lw=3, label="true")
    axes[1].plot(angles, [float(spline.subs(theta, a)) for a in angles], label="found")
    axes[1].errorbar(POINTS, found, [found - low, high - found], fmt="o", ms=3, label="95 %")
    axes[1].set(xlabel="angle [rad]", ylabel="moment [N m]", ylim=(-13.0, 7.0))
    axes[1].legend()
    path = out / "knee_curve.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
