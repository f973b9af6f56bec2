"""From how many starts does an identification find the best fit, plainly and by the ladder?

Parameters of the starts are log-uniform within a factor of `FACTOR` of those of the record, that is
simulated with noise; a start counts if its fit is the best of all, to 1e-6. Beside the ladder stand
its two ways alone: over an observer of the record, and over collocation; then the same of
`Collocation(homotopy="data")`, which does not know the start. Cost is the CPU time of
`solve(ladder=True)` over that of `solve()`, of all starts from which this one works.

    python benchmarks/caught.py [--problems NAME ...] [--starts 24]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from published import explicit
from record import table
from report import leave, machine, parsed

import kinesym as ks
from kinesym.internal.fitting.ladder import BUDGET, Climb
from kinesym.internal.fitting.shooting_ladder import by_homotopy
from kinesym.runtime.shooting.scaled import Chosen

#: How far the parameters of a start are off, at most; relative difference from the best objective.
FACTOR, NEAR = 4.0, 1e-6


@dataclass(frozen=True)
class Record:
    """What is simulated: a model, its parameters and start, duration [s], samples, and the standard
    deviation of the noise of each channel. free : whether the start is unknown."""

    model: ks.Model
    values: Mapping[str, float]
    start: Mapping[str, float]
    duration: float
    samples: int
    noise: Mapping[str, float]
    inputs: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    free: bool = False

    @property
    def given(self) -> tuple[ks.Model, ks.Experiment, dict[str, tuple[float, float]]]:
        """Model, record and unknown parameters of the identification."""
        t, rng = np.linspace(0.0, self.duration, self.samples), np.random.default_rng(1)
        inputs = {u: f(t) for u, f in self.inputs.items()}
        run = ks.simulate(self.model, t, self.start, self.values, inputs, substeps=4)
        noisy = {y: run[y] + s * rng.standard_normal(len(t)) for y, s in self.noise.items()}
        unknown = {p: (1e-3 * value, 1e3 * value) for p, value in self.values.items()}
        return self.model, ks.Experiment(t, inputs, noisy, std=self.noise), unknown

    def shot(self) -> ks.Shooting:
        """By shooting."""
        start = dict.fromkeys(self.start) if self.free else self.start
        return ks.Shooting(*self.given, initial=start, substeps=4)


x, y, z, u = ks.dynamicsymbols("x y z u")
a, b, c, d = sp.symbols("a b c d")
SWING = {"theta": np.pi / 6, "omega": 0.0}
CHAOS = explicit(
    "lorenz", {x: a * (y - x), y: x * (b - z) - y, z: x * y - c * z}, parameters=[a, b, c]
)
PREY = explicit("prey", {x: a * x - b * x * y, y: c * x * y - d * y}, parameters=[a, b, c, d])
NERVE = explicit(
    "nerve", {x: c * (x - x**3 / 3 + y), y: -(x - a + b * y) / c}, parameters=[a, b, c]
)
VAN_DER_POL = explicit("van_der_pol", {x: y, y: a * (1 - x**2) * y - b**2 * x}, parameters=[a, b])
SPRING = explicit("spring", {x: y, y: (u - b * y - c * x) / a}, [u], parameters=[a, b, c])
DECAYS = explicit("decays", {x: -a * x, y: -b * y}, parameters=[a, b, c], outputs={"s": c * x + y})
ROBERTS = {"a": 1.1, "b": 0.4, "c": 0.1, "d": 0.4}

PROBLEMS: Mapping[str, Record] = {
    "pendulum": Record(ks.models.pendulum(), {"p": 10.0}, SWING, 50, 2000, {"theta": 0.05}),
    "pendulum_noisy": Record(ks.models.pendulum(), {"p": 10.0}, SWING, 50, 1000, {"theta": 0.2}),
    "pendulum_sparse": Record(
        ks.models.pendulum(), {"p": 10.0}, SWING, 50, 150, {"theta": 0.05, "omega": 0.1}
    ),
    "van_der_pol": Record(
        VAN_DER_POL, {"a": 1.5, "b": 3.0}, {"x": 1.0, "y": 0.0}, 30, 601, {"x": 0.1}
    ),
    "prey_both": Record(PREY, ROBERTS, {"x": 10.0, "y": 5.0}, 40, 201, {"x": 0.3, "y": 0.3}),
    "prey_alone": Record(PREY, ROBERTS, {"x": 10.0, "y": 5.0}, 40, 201, {"x": 0.3}),
    "nerve": Record(
        NERVE, {"a": 0.2, "b": 0.2, "c": 3.0}, {"x": -1.0, "y": 1.0}, 40, 401, {"x": 0.1}
    ),
    "lorenz": Record(
        CHAOS,
        {"a": 10.0, "b": 28.0, "c": 8 / 3},
        {"x": -5.0, "y": -8.0, "z": 20.0},
        10,
        1001,
        {"x": 0.5, "y": 0.5, "z": 0.5},
    ),
    "spring": Record(
        SPRING,
        {"a": 2.0, "b": 0.4, "c": 30.0},
        {"x": 0.5, "y": 0.0},
        20,
        401,
        {"x": 0.02},
        {"u": lambda t: np.sin(1.3 * t) + np.sin(3.1 * t)},
        free=True,
    ),
    "decays": Record(
        DECAYS, {"a": 1.0, "b": 5.0, "c": 2.0}, {"x": 1.0, "y": 1.0}, 3, 61, {"s": 0.02}
    ),
}


class Row(NamedTuple):
    """A problem: shares of starts from which shooting finds the best fit, plainly, from where an
    observer of the record or collocation leads, and by the ladder; mean seconds of plain; cost of
    the ladder; the same shares of collocation, plainly and by the ladder over the observer."""

    name: str
    plain: float
    observer: float
    collocation: float
    ladder: float
    seconds: float
    cost: float
    follows: float
    follows_led: float


def fitted(problem: ks.Shooting, guess: Mapping[str, float], way: str) -> float:
    """Objective, NaN without a fit."""
    try:
        if way in ("plain", "ladder"):
            return problem.solve(guess, ladder=way == "ladder").objective
        how = Chosen("bfgs", True, False, 1e-10, 500, {})
        observed = partial(by_homotopy, problem.problem)
        lead = observed if way == "observer" else problem._by_collocation
        begin = lead(problem.pack(guess), how, Climb(BUDGET, False))
        return np.nan if begin is None else problem.solve(begin).objective
    except ValueError:  # no simulation from there reaches its end
        return np.nan


def row(name: str, starts: int) -> Row:
    """One problem."""
    record, rng, runs = PROBLEMS[name], np.random.default_rng(3), {}
    guesses = [
        {p: v * FACTOR ** rng.uniform(-1, 1) for p, v in record.values.items()}
        for _ in range(starts)
    ]
    problem = record.shot()
    for way in ("observer", "collocation", "plain", "ladder"):
        times, found = [], []
        for guess in guesses:
            begin = time.process_time()
            found.append(fitted(problem, guess, way))
            times.append(time.process_time() - begin)
        runs[way] = np.array([found, times])
    best = np.nanmin([run[0] for run in runs.values()])
    good = {way: run[0] <= best * (1.0 + NEAR) for way, run in runs.items()}
    works = good["plain"]
    cost = runs["ladder"][1][works].sum() / max(runs["plain"][1][works].sum(), 1e-9)
    shares = (float(good[way].mean()) for way in ("plain", "observer", "collocation", "ladder"))
    about = (float(runs["plain"][1].mean()), cost if works.any() else np.nan)
    return Row(name, *shares, *about, *followed(record, guesses))


def followed(record: Record, guesses: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """Shares of starts from which collocation, with an unknown start, finds the best fit: plainly,
    and by the ladder over the observer; NaN where there is none."""
    try:
        problem = ks.Collocation(*record.given, homotopy="data")
    except ValueError:
        return np.nan, np.nan
    runs = np.array(
        [[problem.solve(g, ladder=way).objective for g in guesses] for way in (False, True)]
    )
    plain, led = (runs <= runs.min() * (1.0 + NEAR)).mean(axis=1)
    return float(plain), float(led)


HEADER = [
    "problem",
    *("plain", "observer", "collocation", "ladder", "plain: s", "cost"),
    *("Collocation: plain", "ladder"),
]


def cells(row: Row) -> list[str]:
    """One line of the table."""
    kinds = (".0%", ".0%", ".0%", ".0%", ".3f", ".2f", ".0%", ".0%")
    pairs = zip(row[1:], kinds, strict=True)
    return [row.name, *("–" if np.isnan(value) else format(value, kind) for value, kind in pairs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--starts", type=int, default=24)
    given = parsed(parser)
    warnings.simplefilter("ignore")
    starts, rows = 4 if given.quick else given.starts, []
    for name in given.problems:
        rows.append(row(name, starts))
        print(*cells(rows[-1]), flush=True)
    rows.append(Row("mean", *np.nanmean([r[1:] for r in rows], axis=0)))
    print(*cells(rows[-1]))
    parts = [f"{starts} starts of each problem.", table(HEADER, map(cells, rows))]
    leave(given, "caught", machine(), parts, [r._asdict() for r in rows])


if __name__ == "__main__":
    main()
