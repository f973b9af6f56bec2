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
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, parsed
from rows import kept, line_of, remarks

import kinesym as ks
from kinesym.runtime.arrays import Array
from kinesym.symbolic.missing_terms import KINDS, Fitted, Row, terms_of

#: Kinds of terms that are linear in what is unknown.
LINEAR = [kind for kind in KINDS if kind not in ("delays", "dead zones", "stops")]
HEAD = ("plant", "left out", "first", "first, or alike", "false", "SINDy", "seconds")

t = ks.t
x, v, y, w, z = ks.dynamicsymbols("x v y w z")
u = ks.dynamicsymbols("u")
c = sp.Symbol("c")  # of the term that is left out
k, b, m, g, a, d, e, f = sp.symbols("k b m g a d e f")


@dataclass(frozen=True)
class Plant:
    """A plant. rates : of its states, or equations that are zero. term : the one that is left out,
    times c, and the state, or states, to whose rate it belongs. unknown : with bounds. seen :
    measured, with standard deviations. bounds : of c. sindy : whether SINDy has such terms."""

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
    bounds: tuple[float, float] | None = None
    sindy: bool = True

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


def _dead_zone(z: Any, half: Any) -> Any:
    return z - sp.Max(sp.Min(z, half), -half)


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
    P(
        "late input",
        **_two(x, v, -k * x - b * v + ks.delayed(u, c)),
        term="delayed(u)",
        where=v,
        values={k: 4.0, b: 0.3, c: 0.15},
        unknown={k: (0, 50), b: (0, 10)},
        bounds=(0.0, 1.0),
        sindy=False,
        **SEE_X,
        **OSC,
    ),
    P(
        "stick balanced late",
        **_two(x, v, g * x - ks.delayed(k * x + b * v, c) + u),
        term="delayed(b*v + k*x)",
        where=v,
        values={g: 9.81, k: 14.0, b: 4.0, c: 0.12},
        unknown={k: (5, 50), b: (0, 20)},
        bounds=(0.0, 0.5),
        sindy=False,
        seen={x: 0.005},
        start={x: 0.05, v: 0.0},
        length=15.0,
        input_size=1.5,
    ),
    P(
        "crowding of last season",
        states=(x,),
        rates=(a * x - ks.delayed(b * x**2, c) + u,),
        term="delayed(b*x**2)",
        where=x,
        values={a: 1.0, b: 0.5, c: 0.6},
        unknown={a: (0, 5), b: (0, 5)},
        bounds=(0.0, 2.0),
        sindy=False,
        seen={x: 0.02},
        start={x: 1.0},
        length=25.0,
        input_size=0.3,
    ),
    P(
        "valve with a dead zone",
        states=(x,),
        rates=(-a * x + b * _dead_zone(u, c),),
        term="dead_zone(u)",
        where=x,
        values={a: 0.6, b: 1.5, c: 0.4},
        unknown={a: (0, 5), b: (0, 5)},
        bounds=(0.0, 2.0),
        sindy=False,
        seen={x: 0.02},
        start={x: 0.0},
        length=25.0,
        input_size=1.5,
    ),
    P(
        "two masses with backlash",
        states=(x, y, v, w),
        rates=(
            v,
            w,
            -k * x - a * _dead_zone(x - y, c) - b * v + u,
            a * _dead_zone(x - y, c) - d * w,
        ),
        term="dead_zone(a*(x - y))",
        where=(v, w),
        values={k: 3.0, a: 12.0, b: 0.2, d: 0.4, c: 0.15},
        unknown={k: (0, 50), a: (0, 90), b: (0, 5), d: (0, 5)},
        bounds=(0.0, 1.0),
        sindy=False,
        seen={x: 0.005, y: 0.005},
        start={x: 0.5, y: 0.5, v: 0.0, w: 0.0},
        length=20.0,
        input_size=2.0,
    ),
    P(
        "spring with end stops",
        **_two(x, v, -k * x - b * v + c * _dead_zone(x, 0.5) + u),
        term="dead_zone(x, width)",
        where=v,
        values={k: 4.0, b: 0.3, c: -15.0},
        unknown={k: (0, 50), b: (0, 10)},
        sindy=False,
        **SEE_X,
        **OSC,
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
        unknown[c] = plant.bounds
    guess = {p: 1.3 * plant.values[p] for p in plant.unknown}
    return ks.Collocation(model, trial, unknown=unknown).solve(guess)


def is_right(plant: Plant, row: Any) -> bool:
    """Whether a term that was tried is the one that was left out."""
    wheres = plant.where if isinstance(plant.where, tuple) else (plant.where,)
    if row.where not in {f"{x.func.__name__}'" for x in wheres}:
        return False
    if plant.term is sp.tanh:
        name = plant.where.func.__name__
        return row.term.startswith("tanh") and bool(re.search(rf"\b{name}\b", row.term))
    return row.term == str(plant.term).replace("(t)", "")


def sindy(plant: Plant, trial: ks.Experiment) -> str:
    """The term of SINDy: least squares of smoothed rates, by thresholds (STLSQ), with the slopes of
    the plant by its unknown parameters beside the terms of the library. Of thresholds that of the
    least BIC. "nothing" without a term, "" where the rates are implicit or it has no such terms."""
    import pysindy

    if plant.implicit or not plant.sindy:
        return ""
    smooth = pysindy.SmoothedFiniteDifference()
    time = trial.grid
    courses: dict[Any, Array] = {s: trial.measurements[str(s.func)] for s in plant.seen}
    for state, rate in zip(plant.states, plant.rates, strict=True):
        if rate in plant.states and rate not in courses:
            courses[rate] = smooth._differentiate(courses[state][:, None], time)[:, 0]
    if len(courses) < len(plant.states):
        return ""
    row = list(plant.states).index(plant.where)
    rate = smooth._differentiate(courses[plant.where][:, None], time)[:, 0]
    given = dict(courses) | {u: trial.signals["u"](time) if trial.signals else 0.0 * time}
    names = list(given)

    def course(e: Any) -> Array:
        factor = {p: 1.3 if p in plant.unknown else 1.0 for p in plant.values}
        e = sp.S(e).subs({p: factor[p] * number for p, number in plant.values.items()})
        return np.broadcast_to(sp.lambdify(names, e)(*given.values()), time.shape)

    own = plant.rates[row].subs(c, 0)
    left = rate - course(own)
    columns = [course(own.diff(p)) for p in plant.unknown if own.has(p)]
    model = plant.model(whole=False)
    pairs = dict(zip(plant.rates, plant.states, strict=True))
    rows = [Row(row, plant.where, 1, pairs.get(plant.where))]
    basis = np.linalg.qr(np.column_stack([*columns, np.zeros(len(time))]))[0][:, : len(columns)]
    terms = []
    seen = Fitted(lambda e: float(np.sqrt(np.mean(course(e) ** 2))), lambda e: 0.0)
    for term in terms_of(model, rows, plant.library or LINEAR, seen):
        y = course(next(iter(term.courses.values())))
        if np.linalg.norm(y - basis @ (basis.T @ y)) > 1e-6 * np.linalg.norm(y):
            terms.append(term)
            columns.append(y)
    X = np.column_stack(columns)
    scale = np.linalg.norm(X, axis=0)
    best = (np.inf, np.zeros(X.shape[1]))
    for threshold in np.geomspace(0.003, 1.0, 12) * np.linalg.norm(left):
        fit = pysindy.STLSQ(threshold=threshold, alpha=1e-9).fit(X / scale, left[:, None])
        found = np.ravel(fit.coef_)
        rest = left - X / scale @ found
        bic = len(left) * np.log(rest @ rest) + np.log(len(left)) * np.count_nonzero(found)
        best = min(best, (bic, found), key=lambda pair: pair[0])
    mine = np.abs(best[1][len(columns) - len(terms) :])
    return (
        str(terms[int(np.argmax(mine))].expression).replace("(t)", "") if mine.any() else "nothing"
    )


def searched(plant: Plant, seed: int) -> tuple[str, bool, bool, bool, float]:
    """What is found in a plant without the term, whether that is right, and alike to what is right;
    whether something is found in the whole one; seconds."""
    trial, kinds = record_of(plant, seed), plant.library
    begin = time.process_time()
    fit = fitted(plant, trial, whole=False)
    if not fit.success:
        return "no fit", False, False, False, time.process_time() - begin
    found = fit.missing(plant.library)
    seconds = time.process_time() - begin
    best = found.tried[0] if found.found else None
    alike = {best.name, *found.alike[best.name]} if best else set()
    near = any(is_right(plant, row) for row in found.tried if row.step == 0 and row.name in alike)
    if kinds is not None:
        kinds = [kind for kind in kinds if isinstance(kind, str)]
    complete = fitted(plant, trial, whole=True)
    false = complete.success and bool(complete.missing(kinds).found)
    words = f"{best.where} {best.term}" if best else "nothing"
    return words, bool(best and is_right(plant, best)), near, false, seconds


def counted(name: str, seeds: int) -> list[Any]:
    """A plant's line of the table, and its counts: right, alike, false, right by SINDy."""
    [plant] = (each for each in PLANTS if each.name == name)
    mine, theirs = [], []
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine.append(searched(plant, seed))
            theirs.append(sindy(plant, record_of(plant, seed)))
    numbers = np.array([row[1:4] for row in mine]).sum(axis=0).tolist()
    wanted = "tanh" if plant.term is sp.tanh else str(plant.term).replace("(t)", "")
    hits = sum(term.startswith(wanted) for term in theirs)
    seconds = float(np.median([row[-1] for row in mine]))
    shown = f"{hits}" if any(theirs) else "-"
    return [[name, wanted, *map(str, numbers), shown, f"{seconds:.2g}"], [*numbers, hits]]


def main() -> None:
    """Search all plants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", nargs="+", choices=[p.name for p in PLANTS])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parsed(parser)
    seeds = 1 if asked.quick else asked.seeds
    found, lines = [], []
    names = asked.plants or [plant.name for plant in PLANTS]
    for each in kept(asked, "missing_terms", counted, [(name, seeds) for name in names]):
        found.append(each)
        lines.append(line_of(each, HEAD, lambda value: value[0]))
        print(*lines[-1], flush=True)
    rows = [dict(zip(HEAD, line, strict=True)) for line in lines]
    counts = np.sum([[0] * 4, *(each.value[1] for each in found if not each.failure)], axis=0)
    lines.append(["all", "", *map(str, counts), ""])
    parts = [f"{seeds} records of each of {len(names)} plants.", *remarks(found)]
    leave(asked, "missing_terms", machine("pysindy"), [*parts, table(HEAD, lines)], rows)


if __name__ == "__main__":
    main()
