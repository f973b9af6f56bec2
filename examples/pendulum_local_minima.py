"""One parameter of a pendulum: shooting is caught in local minima, collocation is not.

Vyasarayani et al. 2011, Multibody System Dynamics 26:411; Moore, van den Bogert 2015 (document
002). theta'' = -p sin(theta) swings for 50 s; a small error of p makes simulation and record drift
out of phase, so that the cost of a simulation has dozens of local minima over p. Collocation lets
the trajectory follow the record first, and then corrects p.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import kinesym as ks

START = {"theta": np.pi / 6, "omega": 0.0}
TRUE = 10.0


def record(nodes=5000, seed=2011):
    """Time and noisy measurements of angle [rad] and rate [rad/s]."""
    time = np.linspace(0.0, 50.0, nodes)
    run = ks.simulate(ks.models.pendulum(), time, START, {"p": TRUE}, substeps=4)
    rng = np.random.default_rng(seed)
    return time, {
        "theta": run["theta"] + 0.05 * rng.standard_normal(nodes),
        "omega": run["omega"] + 0.1 * rng.standard_normal(nodes),
    }


def shooting_cost(time, theta):
    """J(p): integral of the squared error of a simulation with p [rad^2 s]."""
    model = ks.models.pendulum()

    def cost(p):
        run = ks.simulate(model, time, START, {"p": float(np.ravel(p)[0])})
        return (time[1] - time[0]) * float(np.sum((run["theta"] - theta) ** 2))

    return cost


def collocate(time, measured, guess):
    """The solution from p = guess, trajectories from the record."""
    trial = ks.Experiment(time, measurements={"theta": measured["theta"]})
    problem = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": None})
    return problem.solve(guess={"p": guess, **measured})


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Both methods from several guesses; the cost profile with where they end."""
    time, measured = record(nodes or 5000)
    cost = shooting_cost(time, measured["theta"])
    profile = np.linspace(0.05, 50.0, 1000)
    values = np.array([cost(p) for p in profile])
    minima = np.sum((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]))
    print(f"{minima} local minima of the shooting cost between p = 0.05 and 50; true p = {TRUE}\n")
    print("guess   shooting ends at   J        collocation ends at   J")
    ends = []
    for guess in (1.0, 5.0, 25.0, 50.0):
        shot = minimize(cost, guess, method="Nelder-Mead", options={"initial_simplex": [
            [guess], [1.02 * guess]]})  # fmt: skip
        fit = collocate(time, measured, guess)
        p, step = fit.parameters["p"], time[1] - time[0]
        ends.append((guess, float(shot.x[0]), float(shot.fun)))
        print(f"{guess:5.1f}   {shot.x[0]:12.4f}   {shot.fun:9.4f}   {p:14.4f}   "
              f"{step * fit.objective:14.4f}   ({fit.iterations} iterations)")  # fmt: skip
    fig, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
    axis.plot(profile, values, "0.6", lw=1, label="cost of shooting")
    for k, (guess, x, y) in enumerate(ends):
        axis.plot(x, y, "C3v", ms=7, label="shooting ends" if k == 0 else None)
        axis.annotate(f"from {guess:g}", (x, y), xytext=(4, 6), textcoords="offset points")
    axis.plot(p, step * fit.objective, "C0o", ms=8, label="collocation ends, from all guesses")
    axis.set_xlim(-2.0, 56.0)
    axis.set_xlabel("p [1/s²]")
    axis.set_ylabel("J [rad² s]")
    axis.legend(loc="center right")
    path = out / "pendulum_local_minima.png"
    fig.savefig(path, dpi=120)
    plt.close(fig)
    return [path]
