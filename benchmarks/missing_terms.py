"""Is the term that a model lacks found, and does a complete model stay as it is?

Plants of which one term is left out; records by simulation of the whole plant, with noise; one
record per seed. *first*: the missing term is the one with the least p at the first step and
significant; *false*: significant terms of models that lack nothing. SINDy (pysindy) gets the same
record, with derivatives by its own smoothed differences, states that are not measured by
differences of those that are, and the same library, less what the model has; its term is the one of
the largest coefficient times the rms of its course, in what the model leaves of the derivatives.

    python benchmarks/missing_terms.py [--plants NAME ...] [--seeds 5] [--write]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, parsed

import kinesym as ks

t = ks.t
x, v, y, w, z = ks.dynamicsymbols("x v y w z")
u = ks.dynamicsymbols("u")
c = sp.Symbol("c")  # of the term that is left out
k, b, m, g, a, d, e, f = sp.symbols("k b m g a d e f")


@dataclass(frozen=True)
class Plant:
    """A plant. rates : of its states, or equations that are zero. term : the one that is left out,
    times c, and the state to whose rate it belongs. unknown : with bounds. seen : measured, with
    standard deviations."""

    name: str
    states: Sequence[Any]
    rates: Sequence[Any]
    term: Any
    where: Any
    values: Mapping[Any, float]
    unknown: Mapping[Any, tuple[float, float]]
    start: Mapping[Any, float]
    seen: Mapping[Any, float]
    length: float
    samples: int = 401
    input_size: float = 0.0
    library: Sequence[Any] | None = None
    implicit: Sequence[Any] = field(default=())

    def model(self, whole: bool) -> ks.Model:
        """The plant, or what is left of it."""
        if self.implicit:
            equations = list(self.implicit)
        else:
            equations = [q.diff(t) - r for q, r in zip(self.states, self.rates, strict=True)]
        if not whole:
            equations = [eq.subs(c, 0) for eq in equations]
        every = set().union(*(eq.free_symbols for eq in equations)) - {t}
        used = {p for p in self.values if p in every}
        has_u = any(eq.has(u) for eq in equations)
        return ks.Model(
            name=self.name,
            states=list(self.states),
            inputs=[u] if has_u else [],
            parameters=sorted(used, key=str),
            equations=equations,
            values={p: self.values[p] for p in used},
        )


def _two(x: Any, v: Any, force: Any) -> dict[str, Any]:
    return {"states": (x, v), "rates": (v, force)}


P = Plant
OSC = {"start": {x: 0.6, v: 0.0}, "length": 20.0, "input_size": 2.0}
SEE_X = {"seen": {x: 0.01}}
PLANTS = [
    P(
        "duffing",
        **_two(x, v, -k * x - b * v + c * x**3 + u),
        term=x**3,
        where=v,
        values={k: 4.0, b: 0.3, c: -1.5},
        unknown={k: (0, 50), b: (0, 10)},
        **SEE_X,
        **OSC,
    ),
    P(
        "undamped pendulum",
        **_two(x, v, -k * sp.sin(x) + c * v),
        term=v,
        where=v,
        values={k: 9.8, c: -0.15},
        unknown={k: (1, 50)},
        seen={x: 0.02},
        start={x: 1.0, v: 0.0},
        length=12.0,
    ),
    P(
        "pendulum with Coulomb friction",
        **_two(x, v, -k * sp.sin(x) - b * v + c * sp.tanh(20 * v)),
        term=sp.tanh,
        where=v,
        values={k: 9.8, b: 0.05, c: -0.15},
        unknown={k: (1, 50), b: (0, 2)},
        seen={x: 0.01},
        start={x: 1.0, v: 0.0},
        length=12.0,
        samples=801,
    ),
    P(
        "pendulum with drag",
        **_two(x, v, -k * sp.sin(x) - b * v + c * v * sp.Abs(v)),
        term=v * sp.Abs(v),
        where=v,
        values={k: 9.8, b: 0.02, c: -0.1},
        unknown={k: (1, 50), b: (0, 2)},
        seen={x: 0.01},
        start={x: 1.4, v: 0.0},
        length=12.0,
    ),
    P(
        "biased oscillator",
        **_two(x, v, -k * x - b * v + c + u),
        term=sp.Integer(1),
        where=v,
        values={k: 4.0, b: 0.3, c: 0.4},
        unknown={k: (0, 50), b: (0, 10)},
        **SEE_X,
        **OSC,
    ),
    P(
        "quadratic spring",
        **_two(x, v, -k * x - b * v + c * x**2 + u),
        term=x**2,
        where=v,
        values={k: 4.0, b: 0.3, c: -0.8},
        unknown={k: (0, 50), b: (0, 10)},
        **SEE_X,
        **OSC,
    ),
    P(
        "cart with friction",
        states=(x, v),
        rates=(v, (u + c * v) / m),
        term=v,
        where=v,
        values={m: 2.0, c: -0.5},
        unknown={m: (0.1, 20)},
        seen={x: 0.01},
        start={x: 0.0, v: 0.0},
        length=15.0,
        input_size=3.0,
    ),
    P(
        "two masses, cubic coupling",
        states=(x, y, v, w),
        rates=(v, w, -k * x - a * (x - y) - b * v + u, -a * (y - x) - b * w + c * (y - x) ** 3),
        term=(y - x) ** 3,
        where=w,
        values={k: 3.0, a: 2.0, b: 0.2, c: -2.0},
        unknown={k: (0, 50), a: (0, 50), b: (0, 5)},
        seen={x: 0.01, y: 0.01},
        start={x: 0.5, y: -0.5, v: 0.0, w: 0.0},
        length=20.0,
        input_size=2.0,
        library=["bias", "coulomb", "drag", "cubic", "products", (y - x) ** 3, (y - x) ** 2],
    ),
    P(
        "two masses, Coulomb friction",
        states=(x, y, v, w),
        rates=(v, w, -k * x - a * (x - y) - b * v + u, -a * (y - x) - b * w + c * sp.tanh(20 * w)),
        term=sp.tanh,
        where=w,
        values={k: 3.0, a: 2.0, b: 0.1, c: -0.3},
        unknown={k: (0, 50), a: (0, 50), b: (0, 5)},
        seen={x: 0.005, y: 0.005},
        start={x: 0.5, y: -0.5, v: 0.0, w: 0.0},
        length=20.0,
        input_size=2.0,
    ),
    P(
        "hares that crowd",
        states=(x, y),
        rates=(a * x - b * x * y + c * x**2, d * x * y - e * y),
        term=x**2,
        where=x,
        values={a: 1.0, b: 0.5, d: 0.3, e: 0.8, c: -0.06},
        unknown={a: (0, 5), b: (0, 5), d: (0, 5), e: (0, 5)},
        seen={x: 0.05, y: 0.05},
        start={x: 3.0, y: 1.5},
        length=25.0,
    ),
    P(
        "epidemic with deaths",
        states=(x, y),
        rates=(-a * x * y, a * x * y + c * y),
        term=y,
        where=y,
        values={a: 1.2, c: -0.3},
        unknown={a: (0, 10)},
        seen={x: 0.01, y: 0.01},
        start={x: 0.95, y: 0.05},
        length=15.0,
    ),
    P(
        "motor with Coulomb friction",
        states=(y, v),
        rates=(-3.0 * y - 0.5 * v + u, a * y - b * v + c * sp.tanh(20 * v)),
        term=sp.tanh,
        where=v,
        values={a: 2.0, b: 0.2, c: -0.25},
        unknown={a: (0, 20), b: (0, 5)},
        seen={y: 0.005, v: 0.005},
        start={y: 0.0, v: 0.0},
        length=20.0,
        input_size=3.0,
        library=["bias", "cubic", "products", "drag", sp.tanh(20 * v), sp.tanh(20 * y)],
    ),
    P(
        "second-order reaction",
        states=(x, y),
        rates=(-a * x + c * x**2, a * x - b * y),
        term=x**2,
        where=x,
        values={a: 0.3, b: 0.2, c: -0.5},
        unknown={a: (0, 5), b: (0, 5)},
        seen={x: 0.005, y: 0.005},
        start={x: 1.5, y: 0.0},
        length=15.0,
    ),
    P(
        "falling body",
        **_two(x, v, u + c * v * sp.Abs(v) - g),
        term=v * sp.Abs(v),
        where=v,
        values={g: 9.81, c: -0.05},
        unknown={g: (5, 15)},
        seen={x: 0.05},
        start={x: 0.0, v: 8.0},
        length=6.0,
        input_size=6.0,
    ),
    P(
        "balanced stick",
        **_two(x, v, g * x - k * x - b * v + c * x**3 + u),
        term=x**3,
        where=v,
        values={g: 9.81, k: 14.0, b: 2.0, c: -30.0},
        unknown={k: (5, 50), b: (0, 10)},
        seen={x: 0.002},
        start={x: 0.2, v: 0.0},
        length=15.0,
        input_size=1.5,
    ),
    P(
        "furnace that radiates",
        states=(x,),
        rates=(-a * x + u + c * x**3,),
        term=x**3,
        where=x,
        values={a: 0.5, c: -0.3},
        unknown={a: (0, 5)},
        seen={x: 0.01},
        start={x: 0.5},
        length=20.0,
        input_size=1.0,
    ),
    P(
        "Lorenz without a product",
        states=(x, y, z),
        rates=(a * (y - x), x * (d - z) - y, c * x * y - b * z),
        term=x * y,
        where=z,
        values={a: 10.0, d: 28.0, b: 8 / 3, c: 1.0},
        unknown={a: (5, 20), d: (10, 50), b: (1, 5)},
        seen={x: 0.1, y: 0.1, z: 0.1},
        start={x: 1.0, y: 1.0, z: 20.0},
        length=2.0,
    ),
    P(
        "FitzHugh-Nagumo",
        states=(x, y),
        rates=(x - y + u + c * x**3, a * (x + 0.7 - b * y)),
        term=x**3,
        where=x,
        values={a: 0.08, b: 0.8, c: -1 / 3},
        unknown={a: (0, 1), b: (0, 5)},
        seen={x: 0.02, y: 0.02},
        start={x: 0.5, y: 0.2},
        length=60.0,
        input_size=0.4,
        samples=601,
    ),
    P(
        "activation",
        states=(x,),
        rates=(a * (u - x) + c * u * x,),
        term=u * x,
        where=x,
        values={a: 2.0, c: 0.8},
        unknown={a: (0, 20)},
        seen={x: 0.01},
        start={x: 0.2},
        length=15.0,
        input_size=0.8,
        library=["bias", "cubic", "products", u * x, u**2],
    ),
    P(
        "two links",
        states=(x, y, v, w),
        rates=(),
        implicit=(
            x.diff(t) - v,
            y.diff(t) - w,
            (a + 2 * d * sp.cos(y)) * v.diff(t)
            + (e + d * sp.cos(y)) * w.diff(t)
            - d * sp.sin(y) * (2 * v * w + w**2)
            + f * sp.sin(x)
            + b * v
            - u,
            (e + d * sp.cos(y)) * v.diff(t)
            + e * w.diff(t)
            + d * sp.sin(y) * v**2
            + b * w
            - c * w * sp.Abs(w),
        ),
        term=w * sp.Abs(w),
        where=w,
        values={a: 3.0, d: 0.5, e: 0.6, f: 12.0, b: 0.1, c: -0.2},
        unknown={a: (0.5, 10), f: (1, 50), b: (0, 5)},
        seen={x: 0.005, y: 0.005},
        start={x: 0.5, y: 1.0, v: 0.0, w: 0.0},
        length=15.0,
        input_size=4.0,
        samples=601,
    ),
]


def record_of(plant: Plant, seed: int) -> ks.Experiment:
    """A record of the whole plant, with noise and an input of random sines."""
    rng = np.random.default_rng([seed, *map(ord, plant.name)])
    time = np.linspace(0.0, plant.length, plant.samples)
    model = plant.model(whole=True)
    course = np.zeros_like(time)
    for _ in range(4):
        rate, phase = 2 * np.pi * rng.uniform(1, 12) / plant.length, rng.uniform(0, 2 * np.pi)
        course += plant.input_size / 2 * np.sin(rate * time + phase)
    if plant.name == "activation":
        course = 0.5 + 0.4 * np.tanh(course)
    if plant.name == "falling body":
        course = course + 6.0
    inputs = {u: course} if model.inputs else {}
    run = ks.simulate(
        model, time, plant.start, {p: plant.values[p] for p in model.parameters}, inputs, substeps=4
    )
    measured = {
        s: run[s.func.__name__] + sd * rng.standard_normal(len(time))
        for s, sd in plant.seen.items()
    }
    return ks.Experiment(time, inputs=inputs, measurements=measured, std=dict(plant.seen))


def fitted(plant: Plant, trial: ks.Experiment, whole: bool) -> ks.Solution:
    """Fit of the plant, or of what is left of it; `whole` with the coefficient unknown."""
    model = plant.model(whole)
    unknown = {p: pair for p, pair in plant.unknown.items()}
    if whole:
        unknown[c] = None
    guess = {p: 1.3 * plant.values[p] for p in plant.unknown}
    trial = trial if model.inputs else trial
    return ks.Collocation(model, trial, unknown=unknown).solve(guess)


def is_right(plant: Plant, row: Any) -> bool:
    """Whether a term that was tried is the one that was left out."""
    if row.where != f"{plant.where.func.__name__}'":
        return False
    if plant.term is sp.tanh:
        return row.term.startswith("tanh") and f"*{plant.where.func.__name__})" in row.term
    return row.term == str(plant.term).replace("(t)", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", nargs="+", choices=[p.name for p in PLANTS])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parsed(parser)
    chosen = [p for p in PLANTS if not asked.plants or p.name in asked.plants]
    lines, right, false, total = [], 0, 0, 0
    for plant in chosen:
        first, wrong, seconds, named = 0, 0, [], []
        for seed in range(asked.seeds):
            trial = record_of(plant, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = time.process_time()
                try:
                    found = fitted(plant, trial, whole=False).missing(plant.library)
                    best = found.tried[0] if found.tried else None
                    first += bool(found.found and is_right(plant, best))
                    named += [f"{best.where} {best.term}" if best and found.found else "nothing"]
                except Exception as error:  # noqa: BLE001
                    named += [f"{type(error).__name__}: {error}"[:200]]
                seconds.append(time.process_time() - begin)
                try:
                    kinds = plant.library and [x for x in plant.library if isinstance(x, str)]
                    wrong += bool(fitted(plant, trial, whole=True).missing(kinds).found)
                except Exception as error:  # noqa: BLE001
                    named += [f"whole {type(error).__name__}: {error}"[:200]]
        others = sorted({n for n in named})
        print(
            f"{plant.name}: first {first}/{asked.seeds}, false {wrong}/{asked.seeds}, {np.median(seconds):.2g} s; {others}",
            flush=True,
        )
        right, false, total = right + first, false + wrong, total + asked.seeds
        lines.append(
            (
                plant.name,
                f"{first}/{asked.seeds}",
                f"{wrong}/{asked.seeds}",
                f"{np.median(seconds):.2g}",
            )
        )
    print(right, false, total)


if __name__ == "__main__":
    main()
