"""Local minima of a pendulum's parameter: 62 trap shooting, and homotopy leads to the best.

Vyasarayani et al. 2011, Multibody System Dynamics 26:411; Moore, van den Bogert 2015.
theta'' = -p sin(theta) swings for 50 s; a small error of p makes simulation and record drift out of
phase, so that the cost of a simulation has dozens of local minima over p, and a gradient leads to
one nearby. `solve(ladder=True)` ties the simulation to the record first, and lets go gradually.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize_scalar

import kinesym as ks

START = {"theta": np.pi / 6, "omega": 0.0}
TRUE = 10.0
GUESSES = (1.0, 5.0, 25.0, 50.0, 100.0)


def record(nodes=5000, seed=2011):
    """Time and noisy measurements of angle [rad] and rate [rad/s]."""
    time = np.linspace(0.0, 50.0, nodes)
    run = ks.simulate(ks.models.pendulum(), time, START, {"p": TRUE}, substeps=4)
    noise = np.random.default_rng(seed).standard_normal((nodes, 2)) * [0.05, 0.1]
    return time, {"theta": run["theta"] + noise[:, 0], "omega": run["omega"] + noise[:, 1]}


def shooting(time, theta, segments=1):
    """J(p) [rad^2 s], the squared error of the angle times the step, the start known."""
    return ks.Shooting(
        ks.models.pendulum(),
        ks.Experiment(time, measurements={"theta": theta}),
        unknown={"p": (0.0, 150.0)},
        initial=START,
        objective=(time[1] - time[0]) * ks.LeastSquares(),
        segments=segments,
    )


def profile(time, theta, count=1001, highest=50.0):
    """p from 0, evenly spaced in frequency as its minima are, by about 1/50 Hz, and their J, by one
    ensemble of simulations."""
    p = np.linspace(0.0, np.sqrt(highest), count) ** 2
    runs = ks.simulate(ks.models.pendulum(), time, START, {"p": p})
    return p, (time[1] - time[0]) * ((runs["theta"] - theta) ** 2).sum(axis=1)


def local_minima(p, J, cost):
    """Local minima (p, J) of a profile, refined between their neighbours on the grid."""
    found = []
    for k in 1 + np.flatnonzero((J[1:-1] < J[:-2]) & (J[1:-1] < J[2:])):
        around = {"bounds": (p[k - 1], p[k + 1]), "method": "bounded", "options": {"xatol": 1e-9}}
        best = minimize_scalar(lambda x: cost([x]), **around)
        found.append((best.x, best.fun))
    return np.array(found)


def draw_profile(axis, p, J, minima, plain):
    """The cost of a simulation, its minima, and where plain shooting ends."""
    axis.plot(p, J, "0.55", lw=0.9, label="cost J of a simulation")
    axis.plot(*minima.T, ".", color="0.2", ms=4, label=f"its {len(minima)} local minima")
    ends = [(fit.parameters["p"], fit.objective) for fit in plain]
    axis.plot(*np.transpose(ends), "C3v", ms=7, label="shooting ends")
    axis.plot(*minima[np.argmin(minima[:, 1])], "C0o", ms=9, label="the ladder ends, from all")
    axis.set_xscale("function", functions=(lambda p: np.sqrt(np.abs(p)), np.square))
    axis.set(
        xlim=(0, 50),
        xticks=[0, 1, 2, 5, 10, 15, 20, 25, 30, 40, 50],
        xlabel="p [1/s²]",
        ylim=(-0.8, 22),
        ylabel="J [rad² s]",
    )
    axis.legend(loc="lower right")


def draw_ends(axis, guesses, plain, ladder):
    """The estimates, from all guesses."""
    for fits, style, words in ((plain, "C3v", "shooting"), (ladder, "C0o", "the ladder")):
        axis.plot(guesses, [fit.parameters["p"] for fit in fits], style, ms=6, label=words)
    for set_scale in (axis.set_xscale, axis.set_yscale):
        set_scale("function", functions=(lambda p: np.sqrt(np.abs(p)), np.square))
    axis.set(
        xticks=GUESSES,
        yticks=[1, TRUE, *GUESSES[2:]],
        xlabel="guess of p [1/s²]",
        ylabel="p at the end",
    )
    axis.legend(loc="upper left")


def draw_record(axis, time, theta, minima):
    """The last seconds of the record, simulated with the best p and with the next minimum."""
    here = time >= max(time[-1] - 12.0, time[0])
    axis.plot(time[here], theta[here], ".", color="0.75", ms=2, label="record")
    for (p, J), color in zip(minima[np.argsort(minima[:, 1])[:2]], ("C0", "C3"), strict=True):
        run = ks.simulate(ks.models.pendulum(), time, START, {"p": p})
        axis.plot(time[here], run["theta"][here], color, lw=1.2, label=f"p = {p:.2f}, J = {J:.2f}")
    axis.set(ylim=(-0.75, 1.0), xlabel="time [s]", ylabel="angle [rad]")
    axis.legend(loc="upper center", ncols=3, fontsize="small", handlelength=1.2)


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """The cost profile, and where shooting ends from many guesses, plainly and by the ladder."""
    time, measured = record(nodes or 5000)
    theta, guesses = measured["theta"], np.unique([*GUESSES, *np.geomspace(0.5, 100.0, 16)])
    problem, (p, J) = shooting(time, theta), profile(time, theta)
    minima = local_minima(p, J, problem.cost)
    plain, ladder = ([problem.solve([g], ladder=way) for g in guesses] for way in (False, True))
    print(f"{len(minima)} local minima of the cost for p from 0 to 50; true p = {TRUE}\n")
    print("guess   shooting: p (J)      the ladder: p (J)")
    for guess, *fits in zip(guesses, plain, ladder, strict=True):
        if guess in GUESSES:
            cells = (f"{fit.parameters['p']:.6f} ({fit.objective:.4f})" for fit in fits)
            print(f"{guess:5.0f}" + "".join(f"{cell:>22}" for cell in cells))
    print("\n" + "\n".join(["the ladder, from the last guess:", *ladder[-1].ladder]))
    print(f"\n{ladder[-1]}")
    fig = plt.figure(figsize=(10, 7.5), layout="constrained")
    axes = fig.subplot_mosaic("AA;BC", height_ratios=(1.25, 1))
    draw_profile(axes["A"], p, J, minima, plain)
    draw_ends(axes["B"], guesses, plain, ladder)
    draw_record(axes["C"], time, theta, minima)
    path = out / "pendulum_local_minima.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
