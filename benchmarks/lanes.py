"""How many starts a second fit a short record, side by side, against a solve from each and SciPy?

Identifications by simulation with noise of known seed, each with the same starts for all: a Latin
hypercube between the bounds. *Side by side* is `Shooting.multistart`; *solve* a loop of solves from
the same starts, by either optimiser; *SciPy, ours* `scipy.optimize.least_squares` with residuals
and exact derivatives of `Shooting`; *pyPESTO, ours* its `ls_trf` with these; *SciPy, solve_ivp*
with simulations by `solve_ivp` (LSODA, 1e-6, no step longer than the grid's) and differences of
these, as one writes it. SciPy and pyPESTO have SciPy's tolerances, ours go on to rounding; 300
iterations at most, 100 with `solve_ivp`. All but the first have one thread, BLAS always, which is
faster for short records. Times are CPU milliseconds, the least of four runs. Best: the share of
starts that end at the lowest objective that any has found, to 1e-5.

    python benchmarks/lanes.py [--starts 1000]
"""

from __future__ import annotations

import argparse
import logging
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from record import table
from report import leave, machine, number, parsed
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.examples import pendulum_local_minima as study

Array = NDArray[np.float64]

#: Repetitions, of which the fastest counts.
REPEATS = 4


class Case(NamedTuple):
    """An identification, and the same for SciPy: rates x'(t, x, q), and what of x is measured."""

    problem: ks.Shooting
    rates: Callable[[float, Array, Array], Any]
    measured: Callable[[Array, Array], Array]


class Row(NamedTuple):
    """A way to fit from many starts: how many, CPU milliseconds each, share at the best."""

    case: str
    way: str
    starts: int
    milliseconds: float
    best: float


def noisy(samples: Array, std: float) -> Array:
    return samples + std * np.random.default_rng(0).standard_normal(len(samples))


def pendulum(nodes: int) -> Case:
    """p of theta'' = -p sin(theta) over 50 s, with dozens of local minima."""
    grid, measured = study.record(nodes)
    problem = study.shooting(grid, measured["theta"])
    return Case(problem, lambda t, x, q: (x[1], -q[0] * np.sin(x[0])), lambda x, q: x[0])


def muscle(nodes: int) -> Case:
    """Rate of activation, gain and lag of a force that saturates with activation."""
    tau, gain, lag = sp.symbols("tau gain lag")
    act, force, u = ks.dynamicsymbols("act force u")
    rates = [
        act.diff(ks.t) - (u - act) / tau,
        force.diff(ks.t) - (gain * act**2 / (act**2 + sp.Rational(1, 4)) - force) / lag,
    ]
    model = ks.Model("muscle", [act, force], [u], [tau, gain, lag], rates)
    grid = np.linspace(0.0, 1.0, nodes)
    pulses = ks.Signal(grid, (np.sin(12.0 * grid) > 0.0).astype(float), "held")
    start = {act: 0.0, force: 0.0}
    run = ks.simulate(model, grid, start, {tau: 0.05, gain: 1500.0, lag: 0.12}, {u: pulses})
    trial = ks.Experiment(grid, {u: pulses}, {"force": noisy(run["force"], 10.0)})
    bounds = {tau: (0.01, 0.5), gain: (100.0, 1e4), lag: (0.02, 0.5)}
    problem = ks.Shooting(model, trial, bounds, initial=start)

    def own(t: float, x: Array, q: Array) -> tuple[float, float]:
        on = float(np.sin(12.0 * grid[np.searchsorted(grid, t, "right") - 1]) > 0.0)
        return (on - x[0]) / q[0], (q[1] * x[0] ** 2 / (x[0] ** 2 + 0.25) - x[1]) / q[2]

    return Case(problem, own, lambda x, q: x[1])


def decays(nodes: int) -> Case:
    """Two rates and an amplitude of 2 exp(-t) + exp(-5 t)."""
    a, b, c = sp.symbols("a b c")
    x, y = ks.dynamicsymbols("x y")
    rates = [x.diff(ks.t) + a * x, y.diff(ks.t) + b * y]
    model = ks.Model("decays", [x, y], [], [a, b, c], rates, outputs={"s": c * x + y})
    grid = np.linspace(0.0, 3.0, nodes)
    samples = noisy(2.0 * np.exp(-grid) + np.exp(-5.0 * grid), 0.02)
    trial = ks.Experiment(grid, measurements={"s": samples})
    bounds = {a: (0.05, 50.0), b: (0.05, 50.0), c: (0.1, 10.0)}
    problem = ks.Shooting(model, trial, bounds, initial={x: 1.0, y: 1.0}, substeps=2)
    return Case(
        problem, lambda t, z, q: (-q[0] * z[0], -q[1] * z[1]), lambda z, q: q[2] * z[0] + z[1]
    )


CASES: dict[str, Callable[[], Case]] = {
    "pendulum, 1001 samples": partial(pendulum, 1001),
    "pendulum, 201 samples": partial(pendulum, 201),
    "muscle, 101 samples": partial(muscle, 101),
    "decays, 61 samples": partial(decays, 61),
}


# -- ways to fit, each gives the objectives at the ends of these starts --------------------------


def solved(case: Case, starts: Array, optimizer: str) -> list[float]:
    given = {"optimizer": optimizer, "max_iterations": 300, "progress": False}
    return [case.problem.solve(q, **given).objective for q in starts]


def by_scipy(case: Case, starts: Array) -> list[float]:
    task = case.problem
    given = {"bounds": task.bounds, "x_scale": "jac", "max_nfev": 300}
    fit = partial(least_squares, task.residuals, jac=task.residual_jacobian, **given)
    return [2.0 * fit(q).cost for q in starts]


def by_solve_ivp(case: Case, starts: Array) -> list[float]:
    [trial] = case.problem.trials
    [samples] = trial.measurements.values()
    x0 = np.array(
        [*case.problem.problem.given.starts[0].values()][: len(case.problem.model.states)]
    )
    factor = case.problem._trials.factor

    def residuals(q: Array) -> Array:
        span, longest = trial.grid[[0, -1]], np.diff(trial.grid).max()
        given = {
            "t_eval": trial.grid,
            "rtol": 1e-6,
            "atol": 1e-9,
            "method": "LSODA",
            "max_step": longest,
        }
        run = solve_ivp(lambda t, x: case.rates(t, x, q), span, x0, **given)
        return np.sqrt(factor) * (case.measured(run.y, q) - samples)

    given = {"bounds": case.problem.bounds, "x_scale": "jac", "max_nfev": 100}
    return [2.0 * least_squares(residuals, q, **given).cost for q in starts]


def by_pypesto(case: Case, starts: Array) -> list[float]:
    import pypesto
    import pypesto.optimize

    logging.getLogger("pypesto").setLevel(logging.ERROR)
    problem = case.problem
    low, high = problem.bounds
    root = np.sqrt(2.0)  # pyPESTO has half the sum of the squares
    objective = pypesto.Objective(
        fun=lambda q: problem.cost(q),
        grad=lambda q: problem.gradient(q),
        res=lambda q: root * problem.residuals(q),
        sres=lambda q: root * problem.residual_jacobian(q),
    )
    found = pypesto.optimize.minimize(
        pypesto.Problem(objective, low, high, x_guesses=starts),
        optimizer=pypesto.optimize.ScipyOptimizer("ls_trf", options={"max_nfev": 300}),
        n_starts=len(starts),
        progress_bar=False,
    )
    return [each.fval for each in found.optimize_result.list]


#: With how many starts, as what is slow has fewer, and how many at once.
WAYS: dict[str, tuple[Callable[[Case, Array], list[float]], int, int]] = {
    "solve, least-squares": (partial(solved, optimizer="least-squares"), 20, 1),
    "solve, bfgs (default)": (partial(solved, optimizer="bfgs"), 60, 1),
    "SciPy, ours": (by_scipy, 20, 1),
    "pyPESTO, ours": (by_pypesto, 20, 20),
    "SciPy, solve_ivp": (by_solve_ivp, 2, 1),
}


def fastest(work: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU seconds of some repetitions, and the result: others may use the machine."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        found = work()
        seconds.append(time.process_time() - begin)
    return min(seconds), found


def rows_of(name: str, count: int, quick: bool) -> list[Row]:
    """All ways of one case, each after a first fit that compiles and imports."""
    case = CASES[name]()
    problem, (low, high) = case.problem, case.problem.bounds
    middle = np.sqrt(np.maximum(low, 1e-2 * high) * high)
    problem.multistart(8, guess=middle)
    runs = {}
    for starts, keep in ((count // 10, 10), (count, 1), (count, 10)):
        work = partial(problem.multistart, starts, seed=1, guess=middle, keep=keep)
        seconds, found = fastest(work)
        runs[f"side by side, keep={keep}", starts] = (seconds, found.objective)
        begins = found.starts[np.argsort(found.order)]
    given = problem.problem.with_arguments(replace(problem.problem.given, threads=1))
    case = case._replace(problem=ks.Shooting.of(given))
    for way, (fit, most, size) in WAYS.items():
        few = begins[: 3 if quick else most]
        try:
            fit(case, few[:1])
        except ImportError as error:
            print(f"left out: {way} ({error})")
            continue
        parts = [few[k : k + size] for k in range(0, len(few), size)]
        every = [fastest(partial(fit, case, part)) for part in parts]
        J = np.concatenate([found for _, found in every])
        runs[way, len(few)] = (sum(seconds for seconds, _ in every), J)
    others = {key: run for key, run in runs.items() if "solve_ivp" not in key[0]}
    best = min(np.nanmin(J) for _, J in others.values())
    made = []
    for (way, starts), (seconds, J) in runs.items():
        near = np.count_nonzero(J - best <= 1e-5 * best) / starts
        other = (way, starts) not in others  # another integrator has other objectives
        made.append(Row(name, way, starts, 1e3 * seconds / starts, np.nan if other else near))
    return made


HEADER = ["problem", "way", "starts", "CPU ms each", "starts/CPU s", "times", "best"]


def cells(row: Row, first: Row) -> list[str]:
    """A line of the table."""
    return [
        row.case,
        row.way,
        str(row.starts),
        number(row.milliseconds),
        number(1e3 / row.milliseconds),
        number(row.milliseconds / first.milliseconds),
        "-" if np.isnan(row.best) else f"{row.best:.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=1000)
    given = parsed(parser)
    warnings.simplefilter("ignore")
    lines, every = [], []
    for name in [*CASES][-1:] if given.quick else CASES:
        rows = rows_of(name, 50 if given.quick else given.starts, given.quick)
        every += rows
        lines += [cells(row, rows[2]) for row in rows]
        for line in lines[-len(rows) :]:
            print(*line, sep="  ", flush=True)
    raw = [row._asdict() for row in every]
    leave(given, "lanes", machine("scipy", "pypesto"), [table(HEADER, lines)], raw)


if __name__ == "__main__":
    main()
