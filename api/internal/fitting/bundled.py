"""Collocation problems and their data as members of a bundle: JSON and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinesym.base.checks import shown
from kinesym.internal.problems.question import Question
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import BETWEEN, Signal
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.text.document import Entries, layout
from kinesym.symbolic.text.grammar import Scope
from kinesym.symbolic.text.lookups import expression
from kinesym.symbolic.text.model import writer_of

#: Arguments of `Collocation` that a bundle does not hold.
_LEFT_OUT = ("boundary", "path", "sensors", "noise", "homotopy")


def refused(what: str) -> ValueError:
    """Error that names what a bundle cannot hold."""
    return ValueError(
        f"a bundle cannot hold {what} yet: it holds fits by collocation of a model, whose unknowns "
        "have bounds, or none; keep the script that makes the problem beside solution.save(...)"
    )


def problem_members(question: Question) -> dict[str, bytes | Mapping[str, Array]]:
    """Members problem.json and data.npz of a problem. Raises `ValueError` for what they cannot
    hold, by name."""
    model = question.system
    if not isinstance(model, Model):
        raise refused(f"{shown(type(model).__name__)}")
    for name in _LEFT_OUT:
        if getattr(question, name):
            raise refused(f"the argument {name}")
    given = [question.trials] if isinstance(question.trials, Experiment) else question.trials
    if not isinstance(given, list | tuple):
        raise refused("phases")
    arrays: dict[str, Array] = {}
    data = {
        "scheme": question.scheme,
        "unknown": _bounds(question.unknown, "the unknown"),
        "known": {name_of(p): float(v) for p, v in (question.known or {}).items()},
        "unknown_inputs": _bounds(question.unknown_inputs, "the unknown input"),
        "bounds": _bounds(question.bounds, "the bound of"),
        "objective": _objective(question.objective, model),
        "trials": [_trial(trial, f"{k}", arrays) for k, trial in enumerate(given)],
    }
    return {"problem.json": (layout(data) + "\n").encode(), "data.npz": arrays}


def question_of(text: bytes, arrays: Mapping[str, Array], model: Model, scope: Scope) -> Question:
    """The problem of these members. Raises `ValueError` for what does not fit."""
    entries = Entries(json.loads(text), "problem.json")
    trials = entries.take("trials", list, "a list")
    objective = entries.inner("objective")
    made = None
    if objective is not None:
        integrand, terminal = (
            expression(objective.text(key), objective.at(key), scope)
            for key in ("integrand", "terminal")
        )
        made = Objective(integrand, terminal, objective.number("least_squares"))
    bounds: dict[str, Any] = {
        key: {name: pair and tuple(pair) for name, pair in entries.take(key, dict, "{}").items()}
        for key in ("unknown", "unknown_inputs", "bounds")
    }
    return Question(
        model,
        [_experiment(row, f"{k}", arrays) for k, row in enumerate(trials)],
        known=entries.take("known", dict, "{}"),
        scheme=entries.text("scheme"),
        objective=made,
        **bounds,
    )


def _bounds(given: Mapping[Any, Any] | None, what: str) -> dict[str, list[float | None] | None]:
    """Bounds by name, each a pair of numbers or None."""
    found: dict[str, list[float | None] | None] = {}
    for key, pair in (given or {}).items():
        plain = isinstance(pair, tuple | list) and len(pair) == 2
        sides = [*pair] if plain else []
        numbers = all(side is None or isinstance(side, int | float) for side in sides)
        if pair is not None and not (plain and numbers):
            raise refused(f"{what} {name_of(key)}, which is {shown(pair)}")
        found[name_of(key)] = [None if side is None else float(side) for side in sides] or None
    return found


def _objective(objective: Objective | None, model: Model) -> dict[str, Any]:
    if objective is None:
        return {}
    if objective.loss is not None:
        raise refused("a loss")
    write, lookups = writer_of(model, (objective.integrand, objective.terminal))
    if {*lookups} - {*writer_of(model)[1]}:
        raise refused("an objective with tables that the model does not have")
    return {
        "integrand": write(objective.integrand),
        "terminal": write(objective.terminal),
        "least_squares": objective.least_squares,
    }


def _trial(trial: Experiment, place: str, arrays: dict[str, Array]) -> dict[str, Any]:
    """The arrays of a trial are put under names that begin with its place."""
    if trial.bounds or trial.history:
        raise refused("bounds or a history of a single trial")
    arrays[f"{place}/time"] = trial.grid
    inputs = {}
    for name, signal in trial.signals.items():
        if signal.expressions or signal.between not in BETWEEN:
            raise refused(f"the input {name}, which is a signal of pieces")
        inputs[name] = signal.between
        arrays[f"{place}/inputs/{name}/times"] = signal.begin
        arrays[f"{place}/inputs/{name}/values"] = signal.coefficients[0]
    for name, row in trial.measurements.items():
        arrays[f"{place}/measurements/{name}"] = row
    delays = {}
    for name, own in trial.timed.items():
        arrays[f"{place}/timed/{name}/times"] = own.times
        arrays[f"{place}/timed/{name}/values"] = own.values
        delays[name] = own.delay
    for name, row in trial.std.items():
        arrays[f"{place}/std/{name}"] = row
    return {
        "inputs": inputs,
        "measurements": list(trial.measurements),
        "timed": delays,
        "std": list(trial.std),
        "unknown_std": dict(trial.unknown_std),
        "duration": None if trial.duration is None else list(map(float, trial.duration)),
        "parameters": dict(trial.parameters),
        "labels": dict(trial.labels),
    }


def _experiment(row: Mapping[str, Any], place: str, arrays: Mapping[str, Array]) -> Experiment:
    def array(*path: str) -> Array:
        return arrays["/".join((place, *path))]

    inputs = {
        name: Signal(array("inputs", name, "times"), array("inputs", name, "values"), between)
        for name, between in row["inputs"].items()
    }
    measured: dict[str, Any] = {name: array("measurements", name) for name in row["measurements"]}
    for name, delay in row["timed"].items():
        times, values = array("timed", name, "times"), array("timed", name, "values")
        measured[name] = TimedSamples(times, values, float(delay))
    std = {**row["unknown_std"], **{name: array("std", name) for name in row["std"]}}
    more: dict[str, Any] = {"parameters": row["parameters"], "labels": row["labels"]}
    if row["duration"] is not None:
        more["duration"] = tuple(row["duration"])
    return Experiment(np.array(array("time")), inputs, measured, std, **more)
