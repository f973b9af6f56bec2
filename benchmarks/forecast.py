"""Do the standard errors of a forecast come true?

Seven experiments are forecast from records of zeros, and many noisy records of each, simulated
apart, are fitted: the scatter of the estimates over the forecast standard error is 1 where it came
true. And the time of a forecast of standing with 6,000 nodes.

    python benchmarks/forecast.py [--fits N] [--write]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, parsed

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
theta, omega = ks.dynamicsymbols("theta omega")
#: Runs of a forecast that is timed, of which the least counts.
RUNS = 5


@dataclass(frozen=True, eq=False)
class Case:
    """An experiment: posed : makes its problem of rows of measurements, one per trial. guess :
    what is assumed. rows : true measurements, one mapping per trial; drawn : those of each record,
    where it has process noise. std : of the noise of samples. options : of the forecast. solve : of
    the fits."""

    posed: Callable[[Sequence[Mapping[str, np.ndarray]]], Any]
    guess: Mapping[Any, Any]
    rows: Sequence[Mapping[str, np.ndarray]]
    std: Mapping[str, float]
    options: Mapping[str, Any] = field(default_factory=dict)
    solve: Mapping[str, Any] = field(default_factory=dict)
    drawn: Callable[[np.random.Generator], Sequence[Mapping[str, np.ndarray]]] | None = None


def sines(time: np.ndarray, *terms: tuple[float, float]) -> np.ndarray:
    return np.sum([a * np.sin(w * time + k) for k, (a, w) in enumerate(terms)], axis=0)


def upright() -> Case:
    """A pendulum that stands on its head: its torque is known from a feedback loop, and any motion
    by it from another start is lost after a second."""
    a, c = sp.symbols("a c")
    rates = [theta.diff(t) - omega, omega.diff(t) - a * sp.sin(theta) + c * omega - u]
    plant = ks.Model("upright", [theta, omega], [u], [a, c], rates)
    grid = np.linspace(0.0, 10.0, 1001)
    push = ks.dynamicsymbols("push")
    loop = plant.substitute({u: push - 30.0 * theta - 6.0 * omega}, inputs=[push])
    truth, start = {a: 9.0, c: 0.5}, {theta: 0.1, omega: 0.0}
    pushes = sines(grid, (1.5, 2.0), (1.5, 4.1), (2.0, 7.3))
    run = ks.simulate(loop, grid, start, truth, {push: pushes})
    torque = pushes - 30.0 * run["theta"] - 6.0 * run["omega"]

    def posed(rows: Any) -> Any:
        trial = ks.Experiment(grid, {u: torque}, rows[0], {theta: 0.02})
        return ks.Collocation(plant, trial, unknown=dict.fromkeys(truth))

    guess = {**truth, theta: run["theta"], omega: run["omega"]}
    return Case(posed, guess, [{"theta": run["theta"]}], {"theta": 0.02})


def pushed() -> Case:
    """A mass on a spring, pushed by a force that is an unknown, and measured with noise as the
    position is."""
    k, c = sp.symbols("k c")
    model = ks.Model("pushed", [x, v], [u], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - u])
    grid = np.linspace(0.0, 10.0, 401)
    force = sines(grid, (2.0, 2.0), (2.0, 5.0), (2.0, 9.0))
    truth, start = {k: 40.0, c: 0.5}, {x: 0.3, v: 0.0}
    run = ks.simulate(model, grid, start, truth, {u: force})
    std = {"x": 0.02, "u": 0.5}

    def posed(rows: Any) -> Any:
        trial = ks.Experiment(grid, measurements=rows[0], std=std)
        about = {"unknown": dict.fromkeys(truth), "unknown_inputs": {u: None}}
        return ks.Collocation(model, trial, **about, scheme="radau-3")

    return Case(posed, {**truth, **start, u: force}, [{"x": run["x"], "u": force}], std)


def subjects() -> Case:
    """Two people on one chair: stiffnesses of their own, one damping, unknown starts."""
    k, c = sp.symbols("k c")
    rates = [theta.diff(t) - omega, omega.diff(t) + k * sp.sin(theta) + c * omega - u]
    model = ks.Model("subjects", [theta, omega], [u], [k, c], rates)
    grid = np.linspace(0.0, 6.0, 301)
    forces = [sines(grid, (3.0, 3.0), (3.0, 7.0)), sines(grid, (2.0, 4.0), (4.0, 6.0))]
    stiff, starts = {"A": 20.0, "B": 35.0}, [(0.5, 0.0), (-0.3, 0.4)]
    rows = [
        {"theta": ks.simulate(model, grid, {theta: a, omega: b}, {k: s, c: 0.8}, {u: f})["theta"]}
        for (a, b), s, f in zip(starts, stiff.values(), forces, strict=True)
    ]

    def posed(rows: Any) -> Any:
        trials = [
            ks.Experiment(grid, {u: force}, row, {theta: 0.03}, labels={"subject": name})
            for name, force, row in zip(stiff, forces, rows, strict=True)
        ]
        return ks.Collocation(model, trials, unknown={k: ks.per("subject", (1.0, 99.0)), c: None})

    guess = {k: stiff, c: 0.8, theta: [a for a, _ in starts], omega: [b for _, b in starts]}
    return Case(posed, guess, rows, {"theta": 0.03})


def delayed() -> Case:
    """A feedback that comes late, by how much is not known; by shooting."""
    a, b, tau = sp.symbols("a b tau")
    force = -a * ks.delayed(x, tau) - b * v + u
    model = ks.Model("late", [x, v], [u], [a, b, tau], [x.diff(t) - v, v.diff(t) - force])
    grid = np.linspace(0.0, 8.0, 401)
    pushes = sines(grid, (1.0, 1.3), (1.0, 3.1), (1.0, 6.0))
    truth, start = {a: 8.0, b: 2.0, tau: 0.1}, {x: 0.2, v: 0.0}
    run = ks.simulate(model, grid, start, truth, {u: pushes})

    def posed(rows: Any) -> Any:
        trial = ks.Experiment(grid, {u: pushes}, rows[0], {x: 0.01})
        unknown = {a: (1.0, 20.0), b: (0.1, 10.0), tau: (0.02, 0.3)}
        return ks.Shooting(model, trial, unknown=unknown, initial={x: None, v: 0.0})

    solve = {"optimizer": "least-squares"}
    return Case(posed, {**truth, x: 0.2}, [{"x": run["x"]}], {"x": 0.01}, solve=solve)


def ball() -> Case:
    """A ball that bounces several times: gravity, drag and the height it falls from."""
    y, rate, force = ks.dynamicsymbols("y rate force")
    g, d = sp.symbols("g d")
    rates = [y.diff(t) - rate, rate.diff(t) + g + d * rate - force]
    flight = ks.Model("ball", [y, rate], [force], [g, d], rates)
    floor = kh.Contact("floor", y, force, restitution=0.8)
    model, grid = kh.Hybrid(flight, contacts=[floor]), np.linspace(0.0, 2.0, 201)
    truth = {g: 9.6, d: 0.1}
    run = ks.simulate(model, grid, {y: 1.0, rate: 0.0}, truth)

    def posed(rows: Any) -> Any:
        trial = ks.Experiment(grid, measurements=rows[0], std={y: 0.005})
        unknown = {g: (8.0, 11.0), d: (-1.0, 1.0)}
        return ks.Shooting(model, trial, unknown=unknown, initial={y: (0.3, 1.5), rate: 0.0})

    solve = {"optimizer": "least-squares"}
    return Case(posed, {**truth, y: 1.0}, [{"y": run["y"]}], {"y": 0.005}, solve=solve)


def correlated() -> Case:
    """A mass on a spring, its position with noise that is correlated over 0.1 s, fitted as if it
    were white."""
    case, grid = pushed(), np.linspace(0.0, 10.0, 401)
    k, c = sp.symbols("k c")
    model = ks.Model(
        "correlated", [x, v], [u], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - u]
    )
    force = case.rows[0]["u"]

    def posed(rows: Any) -> Any:
        trial = ks.Experiment(grid, {u: force}, rows[0], {x: 0.02})
        return ks.Collocation(model, trial, unknown={k: None, c: None})

    guess = {name: value for name, value in case.guess.items() if name is not u}
    return Case(posed, guess, [{"x": case.rows[0]["x"]}], {"x": 0.02}, {"correlation": 0.1})


def swaying() -> Case:
    """A mass on a spring that white noise alone drives, of unknown intensity: process noise."""
    k, c = sp.symbols("k c")
    model = ks.Model("swaying", [x, v], [u], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - u])
    grid = np.linspace(0.0, 30.0, 301)
    truth, start = {k: 9.0, c: 1.0}, {x: 0.0, v: 0.0}

    def posed(rows: Any) -> Any:
        trial = ks.Experiment(grid, measurements=rows[0], std={x: 0.05})
        unknown, noise = {k: (1.0, 40.0), c: (0.05, 10.0)}, {u: (0.05, 20.0)}
        return ks.Collocation(model, trial, unknown=unknown, noise=noise, scheme="radau-3")

    def drawn(rng: np.random.Generator) -> Any:
        white = rng.standard_normal(len(grid)) / np.sqrt(grid[1])
        run = ks.simulate(model, grid, start, truth, {u: ks.Signal(grid, white, "held")})
        return [{"x": run["x"]}]

    rows = [{"x": np.zeros(len(grid))}]
    return Case(posed, {**truth, "sigma_u": 1.0, **start}, rows, {"x": 0.05}, drawn=drawn)


CASES = {
    "upright": upright,
    "pushed": pushed,
    "subjects": subjects,
    "late": delayed,
    "ball": ball,
    "correlated": correlated,
    "swaying": swaying,
}


def noise(rng: np.random.Generator, count: int, step: float, lasting: float) -> np.ndarray:
    """White noise of variance 1, or with the correlation exp(-lag/lasting)."""
    white = rng.standard_normal(count)
    if not lasting:
        return white
    share = np.exp(-step / lasting)
    for k in range(1, count):
        white[k] = share * white[k - 1] + np.sqrt(1.0 - share**2) * white[k]
    return white


def scattered(case: Case, fits: int, seed: int = 0) -> np.ndarray:
    """Estimates (fits, r) of noisy records, NaN where a fit has not converged."""
    rng, found = np.random.default_rng(seed), []
    lasting = case.options.get("correlation", 0.0)
    for _ in range(fits):
        rows = [
            {n: y + case.std[n] * noise(rng, len(y), 0.025, lasting) for n, y in row.items()}
            for row in (case.drawn(rng) if case.drawn else case.rows)
        ]
        fit = case.posed(rows).solve(case.guess, progress=False, **case.solve)
        values = np.array(list(fit.parameters.values()))
        found.append(values if fit.success else np.full_like(values, np.nan))
    return np.array(found)


def measured(name: str, fits: int) -> list[dict[str, Any]]:
    """A row per parameter: forecast standard error, and scatter of estimates."""
    case = CASES[name]()
    planned = case.posed([{n: np.zeros_like(y) for n, y in row.items()} for row in case.rows])
    told = ks.forecast(planned, case.guess, **case.options)
    assert not told.doubts, told.doubts
    found = scattered(case, fits)
    good = np.isfinite(found).all(axis=1)
    spread = np.std(found[good], axis=0, ddof=1)
    rows = []
    for (parameter, row), s in zip(told.parameters.table.items(), spread, strict=True):
        ratio = s / row.standard_error
        rows.append(
            {
                "experiment": name,
                "parameter": parameter,
                "value": row.value,
                "forecast": row.standard_error,
                "scatter": s,
                "ratio": ratio,
                "fits": int(good.sum()),
                "failed": int((~good).sum()),
            }
        )
        print(rows[-1], flush=True)
    return rows


def seconds(nodes: int) -> float:
    """CPU seconds of a forecast of standing: 8 gains, all states measured, a moving platform."""
    model, grid = ks.models.standing(), np.arange(nodes) / 100.0
    terms = [(0.5, 0.9), (0.5, 2.0), (0.6, 3.7), (0.7, 5.3), (0.8, 8.1), (1.0, 13.0)]
    std = {"theta_a": 0.005, "theta_h": 0.005, "omega_a": 0.07, "omega_h": 0.07}
    gains = {f"k_{i}{j}": None for i in range(2) for j in range(4)}
    rows = {name: np.zeros(nodes) for name in std}
    trial = ks.Experiment(grid, {"a": sines(grid, *terms)}, rows, std)
    problem = ks.Collocation(model, trial, unknown=gains, scheme="midpoint", threads=1)
    taken = []
    for _ in range(RUNS):
        begin = time.process_time()
        ks.forecast(problem, dict.fromkeys(std, 0.0))
        taken.append(time.process_time() - begin)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--fits", type=int, default=500, help="of each experiment")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    given = parsed(parser)
    fits = 10 if given.quick else given.fits
    words, rows = machine("scipy"), [row for name in given.cases for row in measured(name, fits)]
    took = seconds(600 if given.quick else 6000)
    head = ("experiment", "parameter", "value", "forecast", "scatter", "scatter/forecast", "fits")
    lines = [
        (
            *(row["experiment"], row["parameter"], f"{row['value']:.4g}"),
            *(f"{row['forecast']:.3g}", f"{row['scatter']:.3g}", f"{row['ratio']:.3f}"),
            f"{row['fits']}" + f" ({row['failed']} failed)" * bool(row["failed"]),
        )
        for row in rows
    ]
    least = f"A forecast of standing with 6,000 nodes takes {took:.3g} s of CPU time."
    leave(given, "forecast", words, [table(head, lines), least], rows)


if __name__ == "__main__":
    main()
