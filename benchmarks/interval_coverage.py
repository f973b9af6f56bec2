"""Do 95 % intervals hold?

Synthetic records of models, with noise of several kinds, are fitted, and it is counted how often
an interval contains the true value: by Student's t, sandwich, profile likelihood, with robust
losses, with noise that follows the motion, samples below a limit, errors of Student and of Laplace,
with an input as an unknown of its own, with process noise integrated out. Each record leaves a line
in a folder, and what is there is not fitted again, so that a run can be stopped and goes on where
it was.

    python benchmarks/interval_coverage.py [--models NAME ...] [--records N] [--workers N] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from record import table
from report import leave, machine, parsed

import kinesym as ks
from kinesym.examples.quiet_standing import NOISE_STEP, SIGMA, body, problem

LEVEL = 0.95
#: Coefficient of the autoregression; share of outliers and how many times larger they are.
RHO, SHARE, LARGER = 0.8, 0.02, 10.0
#: Errors of scale 1, by name.
ERRORS = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "student": lambda rng, size: rng.standard_t(4.0, size),
    "laplace": lambda rng, size: rng.laplace(size=size),
}
#: So many records of one kind after each other: their libraries are kept.
BLOCK = 20
#: Guesses are off by at most this share of the true values.
OFF = 0.1


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and its true record.

    time : (N,). initial : states at the start. inputs : with straight lines between nodes, (N,)
    each, or signals. std : of the noise of what is measured. truth : of what is to be found.
    posed : makes the problem of an experiment. input_std : of inputs that can be measured with
    noise. white : inputs that are white noise, drawn anew for each record, and their intensities;
    run_in : for how long they act before it [s].
    """

    model: Any
    time: np.ndarray
    initial: Mapping[Any, float]
    inputs: Mapping[str, Any]
    std: Mapping[str, float]
    truth: Mapping[str, float]
    posed: Callable[..., Any]
    input_std: Mapping[str, float] = field(default_factory=dict)
    white: Mapping[str, float] = field(default_factory=dict)
    run_in: float = 0.0
    collocated: bool = True


@dataclass(frozen=True)
class Fit:
    """How records are made and fitted. given : whether standard deviations are told. free : whether
    the input that is measured with noise is an unknown, else it is taken as exact. errors : of
    noise that follows the motion, with a scale a + b |y| whose a and b are unknown. limit :
    quantile of what is measured below which samples are censored."""

    name: str
    noise: str
    methods: Sequence[str]
    given: bool = False
    loss: str | None = None
    free: bool = False
    errors: str = "normal"
    limit: float = 0.0


FITS = {
    fit.name: fit
    for fit in (
        Fit("white, sigma known", "white", ("t", "sandwich", "profile"), given=True),
        Fit("white, sigma unknown", "white", ("t", "sandwich", "profile")),
        Fit("AR(1) 0.8", "autoregressive", ("t", "sandwich")),
        Fit("outliers 2 %", "outliers", ("t", "sandwich")),
        Fit("outliers 2 %, Huber", "outliers", ("t", "sandwich"), loss="huber"),
        Fit("outliers 2 %, Student", "outliers", ("t", "sandwich", "profile"), loss="student"),
        Fit("noisy input taken as exact", "input", ("t", "sandwich"), given=True),
        Fit("noisy input as unknown", "input", ("t", "profile"), given=True, free=True),
        Fit("process noise", "process", ("t",), given=True),
        Fit("std follows", "following", ("t", "profile")),
        Fit("std follows, 20 % below a limit", "following", ("t", "profile"), limit=0.2),
        Fit("std follows, Student", "following", ("t",), loss="student", errors="student"),
        Fit("std follows, Laplace", "following", ("t",), loss="laplace", errors="laplace"),
    )
}


# -- the models -----------------------------------------------------------------------------------


def sines(time: np.ndarray, terms: Sequence[tuple[float, float]]) -> np.ndarray:
    """The sum of sines of (amplitude, circular frequency)."""
    return np.sum([a * np.sin(w * time + k) for k, (a, w) in enumerate(terms)], axis=0)


def collocated(model: Any, bounds: Mapping[str, Any], boundary: Sequence[Any] = ()) -> Any:
    """Makes the problem of collocation from an experiment, a loss, and unknown inputs."""

    def posed(trial: Any, loss: str | None, free: Sequence[str], **more: Any) -> Any:
        scales = {p for e in trial.std_expressions.values() for p in e.atoms(sp.Symbol)}
        noise = {p: ks.log_scale(1e-6, 1e3) for p in scales if p.name.startswith("scale_")}
        return ks.Collocation(
            model,
            trial,
            unknown={**bounds, **noise},
            objective=ks.LeastSquares(loss=loss) if loss else None,
            boundary=boundary,
            unknown_inputs=dict.fromkeys(free),
            **more,
        )

    return posed


def oscillator() -> Subject:
    """Mass, spring, damper of 1 Hz, driven by a known force; its position for 10 s at 50 Hz."""
    x, v, f = ks.dynamicsymbols("x v f")
    k, c = sp.symbols("k c")
    equations = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v - f]
    truth = {"k": 40.0, "c": 0.5}
    model = ks.Model("oscillator", [x, v], [f], [k, c], equations, values=truth)
    time = np.linspace(0.0, 10.0, 501)
    return Subject(
        model,
        time,
        {"x": 1.0, "v": 0.0},
        {"f": sines(time, [(2.0, 2.0), (2.0, 5.0), (2.0, 9.0)])},
        {"x": 0.1},
        truth,
        collocated(model, {"k": (1.0, 1e3), "c": (0.0, 20.0)}),
        {"f": 1.0},
    )


def cip() -> Subject:
    """Quiet standing under a known disturbance; the sway angle for 60 s at 20 Hz."""
    model = ks.models.cip()
    time = np.linspace(0.0, 60.0, 1201)
    drive = sines(time, [(1.0, 0.3), (1.0, 0.7), (1.0, 1.7), (2.0, 4.0), (4.0, 7.0)])
    names = ("KP", "KD", "A")
    z = next(state for state in model.states if state.name == "z")
    return Subject(
        model,
        time,
        {"u": 0.005, "v": 0.0, "z": 0.0, "Td": 2.0},
        {"x": drive},
        {"u": 0.005},
        {name: model.values[name] for name in names},
        collocated(model, dict.fromkeys(names, (1.0, 1e5)), [ks.at_start(z)]),
        {"x": 1.0},
    )


def standing() -> Subject:
    """Eight gains of a man on a moving platform; all states for 20 s at 50 Hz."""
    model = ks.models.standing()
    time = np.linspace(0.0, 20.0, 1001)
    gains = [f"k_{i}{j}" for i in range(2) for j in range(4)]
    push = sines(time, [(0.5, 0.9), (0.5, 2.0), (0.6, 3.7), (0.7, 5.3), (0.8, 8.1), (1.0, 13.0)])
    degrees = dict(theta_a=0.3, theta_h=0.3, omega_a=4.0, omega_h=4.0)
    return Subject(
        model,
        time,
        dict.fromkeys(degrees, 0.0),
        {"a": push},
        {name: float(np.radians(value)) for name, value in degrees.items()},
        {name: model.values[name] for name in gains},
        collocated(model, dict.fromkeys(gains)),
        {"a": 0.42},
    )


def predator_prey() -> Subject:
    """Lotka's and Volterra's animals under a known catch; both counted 401 times in 40 years."""
    x, y, f = ks.dynamicsymbols("x y f")
    a, b, c, d = sp.symbols("a b c d")
    equations = [x.diff(ks.t) - (a - f - b * y) * x, y.diff(ks.t) - (d * x - c) * y]
    truth = {"a": 1.1, "b": 0.4, "c": 0.4, "d": 0.1}
    model = ks.Model("predator_prey", [x, y], [f], [a, b, c, d], equations, values=truth)
    time = np.linspace(0.0, 40.0, 401)
    return Subject(
        model,
        time,
        {"x": 8.0, "y": 3.0},
        {"f": 0.1 + sines(time, [(0.1, 0.4), (0.1, 1.5)])},
        {"x": 0.4, "y": 0.2},
        truth,
        collocated(model, dict.fromkeys(truth, (0.01, 10.0))),
        {"f": 0.05},
    )


def knee() -> Subject:
    """A shank moved by a stimulated muscle that switches between modes; angle and rate for 1.5 s at
    200 Hz, by shooting across some hundred events."""
    theta, omega = ks.dynamicsymbols("theta omega")
    d, strength = sp.symbols("d F0")
    numbers = {"k0": 3e4, "ks": 2e4, "Lc0": 0.1, "recruitment": 0.3}
    muscle = ks.hybrid.FESMuscle("quad", rate=-0.045 * omega, F0=strength, **numbers)
    torque = 0.045 * muscle.force - d * omega - 4.85 * 9.81 * 0.26 * sp.sin(theta)
    equations = [theta.diff(ks.t) - omega, 0.44 * omega.diff(ks.t) - torque]
    truth = {"d": 0.4, "F0": 1200.0}
    shank = ks.Model("knee", [theta, omega], [muscle.force], [d], equations)
    hybrid = ks.hybrid.Hybrid(shank, muscles=[muscle])
    clock = ks.hybrid.Calcium(0.02, 0.015, 0.01, 20.0, -15.0, "to_Um")
    signal = clock.signal(ks.hybrid.train(0.1, 0.05, 16))
    time = np.linspace(0.0, 1.5, 301)
    start = {"theta": 0.0, "omega": 0.0, **{k.name: v for k, v in muscle.rest.items()}}

    def posed(trial: Any, loss: str | None, free: Sequence[str]) -> Any:
        objective = ks.LeastSquares(loss=loss) if loss else None
        bounds = {"d": (0.01, 5.0), "F0": (100.0, 5e3)}
        given = {"unknown": bounds, "initial": start, "objective": objective}
        return ks.Shooting(hybrid, trial, **given)

    inputs = {muscle.clock.name: signal}
    std = {"theta": 0.02, "omega": 0.2}
    return Subject(hybrid, time, start, inputs, std, truth, posed, collocated=False)


def quiet_standing(
    stiffness: float = 1.5, damping: float = 100.0, strength: float = 200.0, duration: float = 60.0
) -> Subject:
    """The example of that name, pushed by an unknown disturbance: centre of pressure at 10 Hz,
    after 300 s of standing. stiffness : over m g h."""
    values = body(70.0, 1.75)
    tipping = values["m"] * values["g"] * values["h"]
    time = np.linspace(0.0, duration, round(duration / NOISE_STEP) + 1)

    def posed(trial: Any, loss: str | None, free: Sequence[str]) -> Any:
        return problem(trial.grid, trial.measurements["u_COP"], values)

    return Subject(
        ks.models.cip(**values),
        time,
        dict.fromkeys(("u", "v", "z", "Td"), 0.0),
        {},
        {"u_COP": SIGMA},
        {"KP": stiffness * tipping, "KD": damping, "A": strength},
        posed,
        white={"x": np.sqrt(NOISE_STEP)},
        run_in=300.0,
    )


MODELS: Mapping[str, Callable[[], Subject]] = {
    "oscillator": oscillator,
    "predator_prey": predator_prey,
    "cip": cip,
    "standing": standing,
    "knee": knee,
    "quiet_standing": quiet_standing,
    "quiet_standing_20s": lambda: quiet_standing(duration=20.0),
    "quiet_standing_stiff": lambda: quiet_standing(2.5, 250.0, 400.0),
}


# -- records and their fits -----------------------------------------------------------------------


@cache
def subject(name: str) -> tuple[Subject, Mapping[str, np.ndarray]]:
    """A model with what it measures without noise, simulated with ten steps per interval; nothing
    of one with process noise."""
    made = MODELS[name]()
    if made.white:
        return made, {}
    fine = np.interp(
        np.arange(10 * (len(made.time) - 1) + 1) / 10, range(len(made.time)), made.time
    )
    inputs = {
        key: u if isinstance(u, ks.Signal) else ks.Signal(made.time, u)
        for key, u in made.inputs.items()
    }
    run = ks.simulate(made.model, fine, made.initial, made.truth, inputs=inputs)
    return made, {channel: run[channel][::10] for channel in made.std}


def driven(made: Subject, rng: np.random.Generator) -> Mapping[str, np.ndarray]:
    """What is measured under process noise that is drawn, without the noise of measurements."""
    step = made.time[1] - made.time[0]
    before = round(made.run_in / step)
    time = step * np.arange(before + len(made.time))
    drawn = {
        key: ks.Signal(time, sigma / np.sqrt(step) * rng.standard_normal(len(time)), "held")
        for key, sigma in made.white.items()
    }
    run = ks.simulate(made.model, time, made.initial, made.truth, inputs=drawn, substeps=4)
    return {channel: run[channel][before:] for channel in made.std}


def noise(kind: str, rng: np.random.Generator, size: int) -> np.ndarray:
    """Samples (size,) of unit variance, but for outliers."""
    drawn = rng.standard_normal(size)
    if kind == "outliers":
        return np.where(rng.random(size) < SHARE, LARGER, 1.0) * drawn
    if kind != "autoregressive":
        return drawn
    for k in range(1, size):
        drawn[k] = RHO * drawn[k - 1] + np.sqrt(1.0 - RHO**2) * drawn[k]
    return drawn


def experiment(name: str, fit: Fit, rng: np.random.Generator) -> ks.Experiment:
    """A record."""
    made, clean = subject(name)
    clean, size = clean or driven(made, rng), len(made.time)
    if fit.noise == "following":
        return following(made, clean, fit, rng)
    measured = {key: clean[key] + s * noise(fit.noise, rng, size) for key, s in made.std.items()}
    inputs, std = dict(made.inputs), dict(made.std)
    if fit.noise == "input":
        for key, s in made.input_std.items():
            inputs[key] = inputs[key] + s * noise(fit.noise, rng, size)
            if fit.free:
                measured[key], std[key] = inputs.pop(key), s
    return ks.Experiment(made.time, inputs, measured, std if fit.given else {})


def scales_of(made: Subject, clean: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """a and b of scales a + b |y| that are half of `std` where y is zero and, with the rms of y,
    `std`; by channel."""
    return {y: (s / 2.0, s / 2.0 / np.sqrt(np.mean(clean[y] ** 2))) for y, s in made.std.items()}


def following(
    made: Subject, clean: Mapping[str, np.ndarray], fit: Fit, rng: np.random.Generator
) -> ks.Experiment:
    """A record with noise that follows what is measured."""
    states = {x.name: x for x in made.model.states}
    measured, std = dict[str, Any](), dict[str, Any]()
    for y, (a, b) in scales_of(made, clean).items():
        size = np.sqrt(clean[y] ** 2 + (0.1 * a / b) ** 2)  # smooth where it is zero
        rows = clean[y] + (a + b * size) * ERRORS[fit.errors](rng, len(size))
        low = np.quantile(clean[y], fit.limit)
        measured[y] = ks.censored(rows, below=low) if fit.limit else rows
        first, second = sp.symbols(f"scale_a_{y} scale_b_{y}")
        smooth = sp.sqrt(states.get(y, sp.Symbol(y)) ** 2 + (0.1 * a / b) ** 2)
        std[y] = first + second * smooth
    return ks.Experiment(made.time, dict(made.inputs), measured, std)


def fitted(name: str, fit: Fit, number: int) -> dict[str, Any]:
    """Estimates, standard errors, and ends of intervals by method, of the record of that number; a
    sentence if it cannot be fitted."""
    made, clean = subject(name)
    seed = [number, list(MODELS).index(name), list(FITS).index(fit.name)]
    rng = np.random.default_rng(seed)
    problem = made.posed(experiment(name, fit, rng), fit.loss, made.input_std if fit.free else ())
    guess = {key: value * rng.uniform(1.0 - OFF, 1.0 + OFF) for key, value in made.truth.items()}
    if fit.noise == "following":
        guess |= clean
        for y, pair in scales_of(made, clean).items():
            guess |= {f"scale_{p}_{y}": s for p, s in zip("ab", pair, strict=True)}
    solution = problem.solve(guess)
    if not solution.success:
        return {"record": number, "failed": solution.message}
    try:
        found = {way: solution.intervals(LEVEL, way) for way in fit.methods}
    except ValueError as error:
        return {"record": number, "failed": str(error)}
    ends = {way: {p: found[way].table[p].interval for p in made.truth} for way in fit.methods}
    errors = {p: solution.parameters.table[p].standard_error for p in made.truth}
    values = {p: solution.parameters[p] for p in made.truth}
    return {"record": number, "estimates": values, "standard_errors": errors, "intervals": ends}


def quietly(name: str, which: str, number: int) -> tuple[str, str, dict[str, Any]]:
    """A fit in a process of its own."""
    warnings.simplefilter("ignore")
    return name, which, fitted(name, FITS[which], number)


def file_of(folder: Path, name: str, which: str) -> Path:
    """Where the records of a model with one kind of fit are."""
    return folder / f"{name}-{re.sub('[^A-Za-z0-9]+', '_', which).strip('_')}.jsonl"


def kept(folder: Path, name: str, which: str) -> list[dict[str, Any]]:
    """The records that are there; a line that was cut off is not."""
    path, found = file_of(folder, name, which), []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def cases(models: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All pairs of a model and a kind of fit."""
    for name in models:
        made = MODELS[name]()
        kinds = {"process"} if made.white else {fit.noise for fit in FITS.values()} - {"process"}
        kinds -= set() if made.input_std else {"input"}
        kinds -= set() if made.collocated else {"following"}
        yield from ((name, which) for which, fit in FITS.items() if fit.noise in kinds)


def collect(
    folder: Path, wanted: Sequence[tuple[str, str]], records: int, executor: Executor
) -> None:
    """Fit the records that are not there yet, the first ones of all first; each is written when it
    is known."""
    folder.mkdir(parents=True, exist_ok=True)
    there = {}
    for pair in wanted:
        there[pair], path = {row["record"] for row in kept(folder, *pair)}, file_of(folder, *pair)
        if path.exists() and not path.read_text(encoding="utf-8").endswith("\n"):
            with open(path, "a", encoding="utf-8") as file:
                file.write("\n")
    waiting = [
        executor.submit(quietly, *pair, k)
        for first in range(0, records, BLOCK)
        for pair in wanted
        for k in range(first, min(first + BLOCK, records))
        if k not in there[pair]
    ]
    for done in as_completed(waiting):
        name, which, row = done.result()
        with open(file_of(folder, name, which), "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


# -- what they say --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """How many of the intervals of a method contain the truth [%].

    share : of all parameters, with its standard error, records counted as independent. least : of
    the parameter that is missed most often, with its binomial standard error. wide : half of an
    interval, in actual standard deviations of the estimates (1.96 if all is well), the median.
    """

    model: str
    fit: str
    method: str
    records: int
    failed: int
    share: float
    error: float
    least: float
    least_error: float
    parameter: str
    wide: float


def coverages(name: str, which: str, rows: Sequence[Mapping[str, Any]]) -> list[Coverage]:
    """The shares of each method."""
    truth, good = subject(name)[0].truth, [row for row in rows if "failed" not in row]
    found, n = [], len(good)
    if not n:
        return []
    values = np.array([[row["estimates"][p] for p in truth] for row in good])
    spread = np.std(values, axis=0, ddof=1) if n > 1 else np.full(len(truth), np.nan)
    at = np.array([*truth.values()])
    for method in FITS[which].methods:
        ends = np.array([[row["intervals"][method][p] for p in truth] for row in good])
        inside = (ends[:, :, 0] <= at) & (at <= ends[:, :, 1])
        each, own = inside.mean(axis=0), inside.mean(axis=1)
        worst = int(np.argmin(each))
        found.append(
            Coverage(
                name,
                which,
                method,
                n,
                len(rows) - n,
                100.0 * float(own.mean()),
                100.0 * float(np.std(own) / np.sqrt(n)),
                100.0 * float(each[worst]),
                100.0 * float(np.sqrt(each[worst] * (1.0 - each[worst]) / n)),
                list(truth)[worst],
                float(np.nanmedian(0.5 * (ends[:, :, 1] - ends[:, :, 0]) / spread)),
            )
        )
    return found


HEADER = ["model", "noise", "method", "records", "failed", "inside [%]", "least [%]", "half width"]


def cells(row: Coverage) -> list[str]:
    """One line of the table."""
    share = f"{row.share:.1f} ± {row.error:.1f}"
    least = f"{row.least:.1f} ± {row.least_error:.1f} ({row.parameter})"
    counts = [str(row.records), str(row.failed)]
    return [row.model, row.fit, row.method, *counts, share, least, f"{row.wide:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument(
        "--records", type=int, default=200, help="of each model and noise; 0: count what is there"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build/interval_coverage"),
        help="where the records are kept",
    )
    given = parsed(parser)
    records = 2 if given.quick else given.records
    models = given.models[:1] if given.quick else given.models
    wanted = [pair for pair in cases(models) if pair[1] in given.fits]
    with ProcessPoolExecutor(given.workers) as executor:
        collect(given.folder, wanted, records, executor)
    rows = [
        row
        for name, which in wanted
        for row in coverages(name, which, kept(given.folder, name, which)[: records or None])
    ]
    lines = [cells(row) for row in rows]
    leave(
        given,
        "interval_coverage",
        machine("scipy"),
        [table(HEADER, lines)],
        [vars(row) for row in rows],
    )


if __name__ == "__main__":
    main()
