"""How much more does a designed experiment tell, and do its errors come true?

Standing on a platform (Moore, van den Bogert 2015; 8 gains) whose motion has the rms and the band
of the sum of sines of the paper; the same with no angle farther than with that; a robot of two
links whose torque is free within rms and amplitude; times of samples of Box and Lucas (1959). The
criterion is the largest relative standard error: before, the median of random courses within the
same limits (of rms, amplitude, band), and designed. *Scatter* is that of fits of noisy records of
the designed experiment over its standard errors, in the geometric mean of the parameters: 1 where
these came true. *Farthest* is the largest value of a measured state.

    python benchmarks/design.py [--fits 200] [--tries 3] [--write]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, parsed

import kinesym as ks
from kinesym.examples.standing import GAINS, platform_acceleration

HEAD = (
    *("experiment", "free", "before", "random", "designed", "factor", "scatter"),
    *("farthest before", "designed", "seconds"),
)


class Case(NamedTuple):
    """An experiment to design, with the arguments of `ks.design`."""

    problem: Any
    guess: Mapping[Any, Any]
    over: Any
    samples: Any = None
    criterion: str = "worst"


def standing(bounded: bool = False) -> Case:
    """The 8 gains from two angles, 30 s of platform motion; bounded : to angles as before."""
    model, grid = ks.models.standing(), np.linspace(0.0, 30.0, 601)
    a = platform_acceleration(grid)
    rest = dict.fromkeys(model.state_names, 0.0)
    run = ks.simulate(model, grid, rest, inputs={"a": a})
    angles = ("theta_a", "theta_h")
    bounds = {x: (float(run[x].min()), float(run[x].max())) for x in angles}
    trial = ks.Experiment(
        grid, {"a": a}, dict.fromkeys(angles, np.zeros(601)), dict.fromkeys(angles, 0.005)
    )
    limits = bounds if bounded else None
    problem = ks.Collocation(model, trial, unknown=dict.fromkeys(GAINS), bounds=limits)
    return Case(problem, {**{p: model.values[p] for p in GAINS}, **rest}, ["a"])


def robot() -> Case:
    """The base parameters of two links in a vertical plane, from angles, under a torque at the
    shoulder that was a sine."""
    q1, q2, w1, w2, u = ks.dynamicsymbols("q1 q2 w1 w2 u")
    a, d, e, f, h = sp.symbols("a d e f h")
    t = ks.t
    rows = [
        q1.diff(t) - w1,
        q2.diff(t) - w2,
        (a + 2 * d * sp.cos(q2)) * w1.diff(t)
        + (e + d * sp.cos(q2)) * w2.diff(t)
        - d * sp.sin(q2) * (2 * w1 * w2 + w2**2)
        + f * sp.sin(q1)
        + h * sp.sin(q1 + q2)
        + 0.5 * w1
        - u,
        (e + d * sp.cos(q2)) * w1.diff(t)
        + e * w2.diff(t)
        + d * sp.sin(q2) * w1**2
        + h * sp.sin(q1 + q2)
        + 0.5 * w2,
    ]
    truth = {a: 3.0, d: 0.5, e: 0.6, f: 25.0, h: 5.0}
    model = ks.Model("two links", [q1, q2, w1, w2], [u], list(truth), rows)
    grid = np.linspace(0.0, 10.0, 401)
    zeros = np.zeros(401)
    trial = ks.Experiment(
        grid, {u: 8.0 * np.sin(3.0 * grid)}, {q1: zeros, q2: zeros}, {q1: 0.01, q2: 0.01}
    )
    problem = ks.Collocation(model, trial, unknown={p: (0.0, 100.0) for p in truth})
    rest = dict.fromkeys(model.state_names, 0.0)
    return Case(problem, {**truth, **rest}, {u: ks.sines(band=(0.1, 2.0), rms=5.7, amplitude=12.0)})


def box_lucas() -> Case:
    """Two samples of B in A -> B -> C, of 241."""
    x, y = ks.dynamicsymbols("x y")
    a, b = sp.symbols("a b")
    rates = [x.diff(ks.t) + a * x, y.diff(ks.t) - a * x + b * y]
    model, grid = ks.Model("reaction", [x, y], [], [a, b], rates), np.linspace(0.0, 12.0, 241)
    trial = ks.Experiment(grid, measurements={y: np.zeros(241)}, std={y: 0.01})
    problem = ks.Shooting(model, trial, {a: (0, 5), b: (0, 5)}, initial={x: 1.0, y: 0.0})
    return Case(problem, {a: 0.7, b: 0.2}, (), 2, "D")


CASES = {
    "standing": standing,
    "standing, no farther": partial(standing, bounded=True),
    "two links": robot,
    "Box and Lucas": box_lucas,
}


def scatter(case: Case, found: ks.Design, fits: int) -> float:
    """Geometric mean over the parameters of the scatter of fits over standard errors."""
    errors = found.after.standard_errors()
    names = [name for name in found.after.parameters if errors[name] > 0.0]
    rng, rows = np.random.default_rng(7), []
    for _ in range(fits):
        trials = []
        for trial, run in zip(found.trials, found.after.trials, strict=True):
            y = {n: run[n] + rng.standard_normal(len(run[n])) * s for n, s in noise(trial).items()}
            trials.append(ks.Experiment(trial.grid, trial.signals, y, dict(trial.std)))
        question = case.problem.problem.formulation.question
        problem = ks.Collocation(question.system, trials, unknown=question.unknown)
        fit = problem.solve(case.guess)
        if fit.success:
            rows.append([fit.parameters[name] for name in names])
    spread = np.std(rows, axis=0) / [errors[name] for name in names]
    return float(np.exp(np.mean(np.log(spread))))


def noise(trial: ks.Experiment) -> dict[str, np.ndarray]:
    """Standard deviations of samples, NaN where none is taken."""
    taken = {name: np.isfinite(row) for name, row in trial.measurements.items()}
    return {name: np.where(taken[name], row, np.nan) for name, row in trial.std.items()}


def random(case: Case, count: int = 21) -> float:
    """Median over random courses within the limits of the largest relative standard error; NaN
    where no input is free."""
    if not case.over:
        return float("nan")
    limits = case.over if isinstance(case.over, Mapping) else dict.fromkeys(case.over, ks.sines())
    [(key, own)], trial = limits.items(), case.problem.trials[0]
    name = key if isinstance(key, str) else str(key.func)
    own = own.like(trial.grid, trial.inputs[name])
    question, found = case.problem.problem.formulation.question, []
    for seed in range(count):
        drawn = np.random.default_rng(seed).standard_normal(2 * own.waves)
        courses = {**trial.signals, name: own.course(drawn, trial.grid)}
        other = ks.Experiment(trial.grid, courses, trial.measurements, trial.std)
        again = ks.Collocation(question.system, other, unknown=question.unknown)
        table = ks.forecast(again, case.guess).parameters.table
        found.append(max(row.standard_error / abs(row.value) for row in table.values()))
    return float(np.median(found))


def farthest(told: ks.Forecast) -> float:
    """The largest absolute value of a measured state."""
    return max(float(abs(run[n]).max()) for run in told.trials for n in run.measurements)


def main() -> None:
    """Design all experiments, fit records of the designs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--tries", type=int, default=3)
    asked = parsed(parser)
    tries, iterations, fits = (1, 2, 10) if asked.quick else (asked.tries, 30, asked.fits)
    lines, rows = [], []
    warnings.simplefilter("ignore")
    for name in asked.cases:
        case, begin = CASES[name](), time.process_time()
        found = ks.design(
            case.problem,
            case.guess,
            case.over,
            criterion=case.criterion,
            samples=case.samples,
            tries=tries,
            iterations=iterations,
        )
        seconds = time.process_time() - begin
        print(found, flush=True)
        true = scatter(case, found, fits) if isinstance(case.problem, ks.Collocation) else np.nan
        free = ", ".join([*found.inputs, *(f"times of {c}" for c in found.times)])
        before, after = found.values
        shown = "-" if np.isnan(true) else f"{true:.2f}"
        far = [f"{farthest(each):.2g}" for each in (found.before, found.after)]
        drawn = random(case)
        some = "-" if np.isnan(drawn) else f"{drawn:.2g}"
        cells = (f"{before:.2g}", some, f"{after:.2g}", f"{found.gain:.2g}", shown)
        lines.append((name, free, *cells, *far, f"{seconds:.2g}"))
        rows.append(dict(enumerate(lines[-1])))
    words = f"{fits} fits each. Before, Box and Lucas has all 241 samples."
    leave(asked, "design", machine(), [words, table(HEAD, lines)], rows)


if __name__ == "__main__":
    main()
