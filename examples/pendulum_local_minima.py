"""One parameter of a pendulum: 62 minima trap shooting; homotopy and collocation find the one.

Vyasarayani et al. 2011, Multibody System Dynamics 26:411; Moore, van den Bogert 2015.
theta'' = -p sin(theta) swings for 50 s; a small error of p makes simulation and record drift out of
phase, so that the cost of a simulation has dozens of local minima over p, and a gradient leads to
one nearby. Three remedies: homotopy ties the simulation to the record and lets go gradually;
collocation and multiple shooting let the trajectory follow the record first, and then correct p.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp
from scipy.optimize import minimize_scalar

import kinesym as ks

START = {"theta": np.pi / 6, "omega": 0.0}
TRUE = 10.0
GUESSES = (1.0, 5.0, 25.0, 50.0, 100.0)
LAMBDAS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.0)
SEGMENTS = 1000


def record(nodes=5000, seed=2011):
    """Time and noisy measurements of angle [rad] and rate [rad/s]."""
    time = np.linspace(0.0, 50.0, nodes)
    run = ks.simulate(ks.models.pendulum(), time, START, {"p": TRUE}, substeps=4)
    noise = np.random.default_rng(seed).standard_normal((nodes, 2)) * [0.05, 0.1]
    return time, {"theta": run["theta"] + noise[:, 0], "omega": run["omega"] + noise[:, 1]}


# -- the cost of a simulation, J(p) = sum of the squared error of the angle times the step ---------


def shooting(time, theta, segments=1):
    """J(p) [rad^2 s] and its gradient, the start of the pendulum known."""
    trial = ks.Experiment(time, measurements={"theta": theta})
    return ks.Shooting(
        ks.models.pendulum(),
        trial,
        unknown={"p": (0.0, 150.0)},
        initial=START,
        objective=(time[1] - time[0]) * ks.LeastSquares(),
        segments=segments,
    )


def grid(count, highest=50.0):
    """Values of p from 0, evenly spaced in frequency: so are the minima, by about 1/50 Hz."""
    return np.linspace(0.0, np.sqrt(highest), count) ** 2


def profile(model, time, theta, parameters, inputs=None):
    """J of many values of the parameters by one ensemble simulation."""
    runs = ks.simulate(model, time, START, parameters, inputs)
    return (time[1] - time[0]) * ((runs["theta"] - theta) ** 2).sum(axis=1)


def local_minima(p, J, cost):
    """Local minima (p, J) of a profile, refined between their neighbours on the grid."""
    found = []
    for k in 1 + np.flatnonzero((J[1:-1] < J[:-2]) & (J[1:-1] < J[2:])):
        best = minimize_scalar(
            lambda x: cost([x]),
            bounds=(p[k - 1], p[k + 1]),
            method="bounded",
            options={"xatol": 1e-9},
        )
        found.append((best.x, best.fun))
    return np.array(found)


# -- three remedies --------------------------------------------------------------------------------


def tied_pendulum():
    """The pendulum as an observer of the measured angle, with gains lam K1 and lam K2.

    At lam = 1 the cost has one minimum; at lam = 0 this is the pendulum.
    """
    plain = ks.models.pendulum()
    (theta, omega), (p,) = plain.states, plain.parameters
    measured = ks.dynamicsymbols("theta_m")
    lam, K1, K2 = sp.symbols("lam K1 K2")
    return ks.Model(
        name="tied_pendulum",
        states=plain.states,
        inputs=[measured],
        parameters=[p, lam, K1, K2],
        equations=[
            theta.diff(ks.t) - omega - lam * K1 * (measured - theta),
            omega.diff(ks.t) + p * sp.sin(theta) - lam * K2 * (measured - theta),
        ],
        values={lam: 0.0, K1: 20.0, K2: 100.0},
    )


def homotopy(time, theta, guess, model=None):
    """p after every lambda: least squares of the tied pendulum, each from the last answer."""
    model = model or tied_pendulum()
    trial = ks.Experiment(time, inputs={"theta_m": theta}, measurements={"theta": theta})
    path, p = [], guess
    for lam in LAMBDAS:
        problem = ks.Shooting(model, trial, unknown={"p": None}, known={"lam": lam}, initial=START)
        p = problem.solve({"p": p}, optimizer="least-squares").parameters["p"]
        path.append(p)
    return path


def collocate(time, measured, guess):
    """The solution from p = guess, trajectories from the record."""
    trial = ks.Experiment(time, measurements={"theta": measured["theta"]})
    problem = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": None})
    return problem.solve(guess={"p": guess, **measured})


def multiple_shooting(problem, measured, guess):
    """The fit from p = guess, every segment started on the record."""
    return problem.solve({"p": guess, **measured}, optimizer="ipopt", max_iterations=20)


# -- the study -------------------------------------------------------------------------------------


def compare(time, measured, cost):
    """Where every method ends from every guess: {method: [(p, J), ...]}, and a table as text."""
    model, step = tied_pendulum(), time[1] - time[0]
    pieces = shooting(time, measured["theta"], min(SEGMENTS, len(time) // 4))
    ends: dict[str, list[tuple[float, float]]] = {
        k: [] for k in ("shooting", "homotopy", "collocation", "multiple shooting")
    }
    for guess in GUESSES:
        fit = cost.solve([guess])
        ends["shooting"].append((fit.parameters["p"], fit.objective))
        p = homotopy(time, measured["theta"], guess, model)[-1]
        ends["homotopy"].append((p, cost.cost([p])))
        fit = collocate(time, measured, guess)
        ends["collocation"].append((fit.parameters["p"], step * fit.objective))
        fit = multiple_shooting(pieces, measured, guess)
        ends["multiple shooting"].append((fit.parameters["p"], fit.objective))
    rows = ["guess " + "".join(f"{name:>23}" for name in ends)]
    for k, guess in enumerate(GUESSES):
        cells = (f"{p:.6f} ({J:.4f})" for p, J in (ends[name][k] for name in ends))
        rows.append(f"{guess:5.0f} " + "".join(f"{cell:>23}" for cell in cells))
    return ends, "\n".join(rows)


def verdict(ends, lowest):
    """How often every method reached the global minimum, and why, as text."""
    counts = ", ".join(
        f"{name} {sum(value < 2.0 * lowest for _, value in found)}" for name, found in ends.items()
    )
    return (
        f"the global minimum was reached, from {len(GUESSES)} guesses: {counts}\n"
        "Shooting stops in some local minimum near the guess. Multiple shooting gets through if\n"
        "the guess leaves little phase error within one segment. Collocation ends at a slightly\n"
        "different p: it estimates the start, too."
    )


def draw_profile(axis, p, J, minima, ends):
    """The cost of shooting, its minima, and where the methods end."""
    axis.plot(p, J, "0.55", lw=0.9, label="cost J of a simulation")
    axis.plot(*minima.T, ".", color="0.2", ms=4, label=f"its {len(minima)} local minima")
    shown = [(g, x, y) for g, (x, y) in zip(GUESSES, ends["shooting"], strict=True) if x < 50]
    axis.plot(*np.array(shown)[:, 1:].T, "C3v", ms=8, label="shooting ends")
    for guess, x, y in shown:
        axis.annotate(
            f"from {guess:g}",
            (x, y),
            (0 if x < 45 else -24, -18),
            color="C3",
            textcoords="offset points",
            ha="center",
        )
    axis.plot(*ends["homotopy"][0], "C0o", ms=9, label="homotopy ends, from all guesses")
    frequency_scale(axis)
    axis.set(ylim=(-0.8, 22.0), ylabel="J [rad² s]")
    axis.legend(loc="lower right")


def draw_homotopy(axis, time, theta):
    """Profiles of the pendulum tied to the record by lambda."""
    model, p = tied_pendulum(), grid(500)
    for k, lam in enumerate((1.0, 0.1, 0.02, 0.005, 0.0)):
        J = profile(model, time, theta, {"p": p, "lam": lam}, {"theta_m": theta})
        style = {"color": plt.cm.viridis(0.85 - 0.28 * k)} if lam else {"color": "0.7", "lw": 0.8}
        axis.plot(p, J, label=f"λ = {lam:g}", zorder=5 - k, **style)
    frequency_scale(axis)
    axis.set(ylim=(0.08, 40), yscale="log", ylabel="J [rad² s]")
    axis.set_title("homotopy: the pendulum tied to the record by λ", fontsize="medium")
    axis.legend(loc="center left", fontsize="small")


def frequency_scale(axis):
    """An axis of p on which frequencies, and so the minima, are evenly spaced."""
    axis.set_xscale("function", functions=(lambda p: np.sqrt(np.abs(p)), np.square))
    axis.set(xlim=(0, 50), xticks=[0, 1, 2, 5, 10, 15, 20, 25, 30, 40, 50], xlabel="p [1/s²]")


def draw_record(axis, time, theta, minima):
    """The last seconds of the record, simulated with the best p and with the next minimum."""
    begin = max(time[-1] - 12.0, time[0])
    here = time >= begin
    axis.plot(time[here], theta[here], ".", color="0.75", ms=2, label="record")
    for (p, J), color in zip(minima[np.argsort(minima[:, 1])[:2]], ("C0", "C3"), strict=True):
        run = ks.simulate(ks.models.pendulum(), time, START, {"p": p})
        axis.plot(time[here], run["theta"][here], color, lw=1.2, label=f"p = {p:.2f}, J = {J:.2f}")
    axis.set(xlim=(begin, time[-1]), ylim=(-0.75, 1.0), xlabel="time [s]", ylabel="angle [rad]")
    axis.set_title("simulated with the best minimum and with the next", fontsize="medium")
    axis.legend(loc="upper center", ncols=3, fontsize="small", handlelength=1.2)


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """The cost profile, and where four methods end from five guesses; one figure."""
    time, measured = record(nodes or 5000)
    theta, p = measured["theta"], grid(1001)
    problem = shooting(time, theta)
    J = profile(ks.models.pendulum(), time, theta, {"p": p})
    minima = local_minima(p, J, problem.cost)
    best = int(np.argmin(minima[:, 1]))
    print(f"{len(minima)} local minima of the shooting cost for p from 0 to 50; true p = {TRUE}")
    print(
        "the global one and its neighbours: "
        + ", ".join(f"p = {x:.6f} (J = {y:.4f})" for x, y in minima[best - 1 : best + 2])
    )
    ends, table = compare(time, measured, problem)
    print(f"\nwhere p (and J) end, from five guesses\n{table}\n")
    print(verdict(ends, minima[best, 1]))
    print(f"\nby collocation: {collocate(time, measured, GUESSES[0])}")
    fig = plt.figure(figsize=(10, 7.5), layout="constrained")
    axes = fig.subplot_mosaic("AA;BC", height_ratios=(1.25, 1))
    draw_profile(axes["A"], p, J, minima, ends)
    draw_homotopy(axes["B"], time, theta)
    draw_record(axes["C"], time, theta, minima)
    path = out / "pendulum_local_minima.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
