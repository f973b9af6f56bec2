"""Is what `fit.influence()` says of each sample what a new solve without it finds?

Six unlike problems are fitted. Of each, samples drawn at random and the most influential ones are
left out, one by one, and the rest is solved again; the same for trials, subjects, channels and
windows of time. Errors are in standard errors of the estimates, the largest of all parameters. Then
the CPU time of all influences of records of a standing person, and whether ten samples of each that
are spoiled are the first ten.

    python benchmarks/influence.py [--samples N] [--nodes N] [--write]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, number, parsed

import kinesym as ks

#: Spoiled samples of the record of standing, and their errors over the standard deviation.
SPOILED, OFF = 10, 15.0
#: Such records.
RECORDS = 6


def linear() -> Any:
    """A straight line and a sine through 200 noisy points: the model is linear in all unknowns."""
    x, a, b = ks.dynamicsymbols("x"), *sp.symbols("a b")
    model = ks.Model("line", [x], [], [a, b], [x.diff(ks.t) - a - b * sp.sin(ks.t)])
    grid, rng = np.linspace(0.0, 10.0, 201), np.random.default_rng(1)
    y = 0.3 * grid - 0.8 * np.cos(grid) + 0.1 * rng.standard_normal(201)
    trial = ks.Experiment(grid, measurements={x: y})
    return ks.Collocation(model, trial, unknown={a: None, b: None}, scheme="gauss-4").solve()


def standing(nodes: int = 601, spoiled: int = 0, seed: int = 2) -> Any:
    """Eight gains that hold an unstable plant upright, its angles and rates at 50 Hz; of a record
    with spoiled samples the angle of the ankle alone."""
    model, rng = ks.models.standing(), np.random.default_rng(seed)
    grid = np.linspace(0.0, 0.02 * (nodes - 1), nodes)
    waves = zip((0.5, 0.5, 0.6, 0.7, 0.8, 1.0), (0.9, 2.0, 3.7, 5.3, 8.1, 13.0), strict=True)
    push = np.sum([size * np.sin(rate * grid + rate) for size, rate in waves], axis=0)
    names = [f"k_{i}{j}" for i in range(2) for j in range(4)]
    run = ks.simulate(model, grid, dict.fromkeys(model.state_names, 0.0), inputs={"a": push})
    std = dict(zip(model.state_names, np.radians([0.3, 0.3, 4.0, 4.0]), strict=True))
    y = {name: run[name] + std[name] * rng.standard_normal(nodes) for name in std}
    y = dict(list(y.items())[:1]) if spoiled else y
    for k in rng.choice(nodes, spoiled, replace=False):
        y["theta_a"][k] += OFF * std["theta_a"] * rng.choice([-1.0, 1.0])
    trial = ks.Experiment(grid, inputs={"a": push}, measurements=y, std={n: std[n] for n in y})
    guess = {name: model.values[name] for name in names}
    return ks.Collocation(model, trial, unknown=dict.fromkeys(names)).solve(guess)


def unknown_input() -> Any:
    """A mass on a spring under an unknown force, whose square counts; place and acceleration."""
    x, v, f = ks.dynamicsymbols("x v f")
    k, c = sp.symbols("k c")
    equations = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v - f]
    outputs = {"acceleration": f - k * x - c * v}
    model = ks.Model("mass", [x, v], [f], [k, c], equations, outputs=outputs)
    grid, rng = np.linspace(0.0, 10.0, 401), np.random.default_rng(3)
    force = 0.4 * np.sin(1.3 * grid) + 0.3 * np.sin(7.1 * grid)
    run = ks.simulate(model, grid, {x: 1.0, v: 0.0}, {k: 40.0, c: 0.5}, {f: force})
    std = {"x": 0.02, "acceleration": 0.5}
    y = {name: run[name] + std[name] * rng.standard_normal(401) for name in std}
    trial = ks.Experiment(grid, measurements=y, std=std)
    objective = ks.LeastSquares() + ks.Integral(100.0 * f**2)
    return ks.Collocation(
        model,
        trial,
        unknown={k: (1.0, 200.0), c: (0.0, 5.0)},
        unknown_inputs={f: None},
        objective=objective,
    ).solve({k: 35.0, c: 0.4})


def pendulum() -> tuple[Any, ...]:
    """A damped pendulum, its states and parameters."""
    theta, omega = ks.dynamicsymbols("theta omega")
    p, c = sp.symbols("p c")
    equations = [theta.diff(ks.t) - omega, omega.diff(ks.t) + p * sp.sin(theta) + c * omega]
    return ks.Model("pendulum", [theta, omega], [], [p, c], equations), theta, omega, p, c


def swings(count: int, seed: int, outliers: float = 0.0) -> list[Any]:
    """Recorded swings of two pendula with different damping, in turn."""
    model, theta, omega, p, c = pendulum()
    grid, rng, trials = np.linspace(0.0, 5.0, 151), np.random.default_rng(seed), []
    for k in range(count):
        values = {p: 10.0, c: (0.3, 0.5)[k % 2]}
        run = ks.simulate(model, grid, {theta: 1.0 + 0.2 * k, omega: 0.0}, values)
        error = 0.02 * rng.standard_normal(151)
        error[rng.random(151) < outliers] *= 10.0
        y, labels = {theta: run["theta"] + error}, {"subject": f"s{k % 2}"}
        trials.append(ks.Experiment(grid, measurements=y, labels=labels))
    return trials


def two_subjects() -> Any:
    """Four swings of two pendula, which share gravity and have their own damping."""
    model, *_, p, c = pendulum()
    unknown = {p: (1.0, 50.0), c: ks.per("subject", (0.0, 5.0))}
    return ks.Collocation(model, swings(4, 4), unknown=unknown).solve({p: 9.0, c: 0.4})


def shooting() -> Any:
    """Two swings of one pendulum by simulation, starts unknown."""
    model, theta, omega, p, c = pendulum()
    trials = swings(3, 5)[::2]
    unknown, starts = {p: (1.0, 50.0), c: (0.0, 5.0)}, {theta: None, omega: None}
    fit = ks.Shooting(model, trials, unknown=unknown, initial=starts)
    return fit.solve({p: 9.0, c: 0.4, theta: 1.0, omega: 0.0}, optimizer="least-squares")


def robust() -> Any:
    """Two swings with one outlier in twenty samples, with the loss of Student's t."""
    model, *_, p, c = pendulum()
    trials = swings(3, 6, outliers=0.05)[::2]
    unknown, loss = {p: (1.0, 50.0), c: (0.0, 5.0)}, ks.LeastSquares(loss="student")
    return ks.Collocation(model, trials, unknown=unknown, objective=loss).solve({p: 9.0, c: 0.4})


PROBLEMS: dict[str, Callable[[], Any]] = {
    "linear": linear,
    "unstable plant": standing,
    "unknown input": unknown_input,
    "two subjects": two_subjects,
    "shooting": shooting,
    "robust loss": robust,
}


def of_samples(name: str, fit: Any, wanted: int) -> dict[str, Any]:
    """Errors of what is said of samples drawn at random and of the most influential ones."""
    told = fit.influence()
    drawn = np.random.default_rng(0).choice(len(told.cook), wanted, replace=False)
    errors, changes = [], []
    for k in [*told.order[: wanted // 4], *drawn]:
        sample = told._sample(int(k))
        truth = fit.without(samples=sample, solve=True).in_errors
        errors.append(max(abs(truth[p] - sample.in_errors[p]) for p in truth))
        changes.append(max(abs(v) for v in truth.values()))
    return {
        "problem": name,
        "samples": len(told.cook),
        "parameters": len(told.names),
        "solved": len(errors),
        "within 0.01 [%]": 100.0 * float(np.mean(np.array(errors) <= 0.01)),
        "error, 95 %": float(np.quantile(errors, 0.95)),
        "error, largest": max(errors),
        "change, largest": max(changes),
    }


def of_groups(name: str, fit: Any) -> list[dict[str, Any]]:
    """Errors of what is said of trials, subjects, channels, and the third quarter of the time."""
    told = fit.influence()
    given = [(g.what, _of_group(g)) for g in told.groups]
    T = fit.duration
    given.append((f"{0.5 * T:g} to {0.75 * T:g} s", {"window": (0.5 * T, 0.75 * T)}))
    rows = []
    for what, left in given:
        first, truth = fit.without(**left), fit.without(**left, solve=True)
        known = [p for p, v in truth.in_errors.items() if np.isfinite(v)]
        off = max(abs(first.in_errors[p] - truth.in_errors[p]) for p in known)
        change = max(abs(truth.in_errors[p]) for p in known)
        rows.append({"problem": name, "left out": what, "change": change, "error": off})
    return rows


def _of_group(group: Any) -> dict[str, Any]:
    """Arguments of `without` for a group."""
    if group.kind == "trial":
        return {"trials": int(group.what.removeprefix("trial "))}
    return {f"{group.kind}s": group.what.removeprefix("subject ")}


def of_spoiled(nodes: int, seed: int) -> dict[str, Any]:
    """Whether spoiled samples of a record come first."""
    fit = standing(nodes, SPOILED, seed)
    told = fit.influence()
    worst = np.argsort(-np.abs(told.residual))[:SPOILED]
    right = int(np.isin(told.order[:SPOILED], worst).sum())
    return {"record": seed, f"first {SPOILED}": right, "CPU [s]": seconds(fit)}


def seconds(fit: Any) -> float:
    """CPU time of all influences, the least of three."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        fit.influence()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="of each problem, at random")
    parser.add_argument("--nodes", type=int, default=6000, help="of the record of standing")
    given = parsed(parser)
    words = machine("scipy")
    wanted, nodes = (4, 601) if given.quick else (given.samples, given.nodes)
    rows, groups = [], []
    for name, fitted in PROBLEMS.items():
        fit = fitted()
        rows.append(of_samples(name, fit, wanted))
        groups += of_groups(name, fit)
        print(rows[-1], flush=True)
    spoiled = [of_spoiled(nodes, seed) for seed in range(2 if given.quick else RECORDS)]
    whole = standing(nodes)
    lines = [[v if isinstance(v, str) else number(v) for v in row.values()] for row in rows]
    more = [[v if isinstance(v, str) else number(v) for v in row.values()] for row in groups]
    parts = [
        "Samples, one by one; errors and changes in standard errors.",
        table(list(rows[0]), lines),
        "Many samples at once: change of the estimate that changes most, and error of one step.",
        table(list(groups[0]), more),
        f"Standing, 8 parameters, records of {nodes} samples of one angle, of which {SPOILED} are "
        f"spoiled: how many of these are among the first {SPOILED}, and CPU time of influences.",
        table(list(spoiled[0]), [[number(v) for v in row.values()] for row in spoiled]),
        f"With all {4 * nodes} samples of angles and rates, and without each of the four channels: "
        f"{number(seconds(whole))} s.",
    ]
    leave(given, "influence", words, parts, [*rows, *groups, *spoiled])


if __name__ == "__main__":
    main()
