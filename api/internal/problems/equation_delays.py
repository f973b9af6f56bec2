"""Delays in the equations of a model, for collocation: delayed signals become inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import sympy as sp

from kinesym.internal.problems.delay_sources import (
    bounds_of_parameter,
    check_ends,
    check_late,
    span_of,
)
from kinesym.internal.problems.parameters import Unknown
from kinesym.internal.problems.phases import Posed, Row
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.delay_rows import Lag, LagOfTrial, UnknownCourse
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.table import NumericFunction


def with_delays(given: Posed, objective: Objective | None) -> tuple[Posed, Objective | None]:
    """A problem in which path conditions and objective have inputs in place of delays; delays that
    change along the motion are unknown inputs that path conditions determine.

    Raises `ValueError` for delays at the ends of trials, and for trials that are phases of one
    motion.
    """
    integrand = sp.S.Zero
    if isinstance(objective, Objective):
        integrand = objective.integrand
        check_ends([objective.terminal], "the terminal cost")
    ends = [row.expression for row in (*given.boundary, *given.links, *given.cycle)]
    check_ends([e for e in ends if e is not None], "a condition at the ends of a trial")
    rows = [row.expression if row.expression is not None else sp.S.Zero for row in given.path]
    model, (integrand, *found) = given.model.undelayed([integrand, *rows])
    if not model.delays:
        return given, objective
    if given.links or given.cycle or given.contacts:
        raise ValueError(
            f"model {model.name} has delays ({model.delays[0].name}), which would reach back into "
            "the phase before; phases have none: give one trial, with ks.during for conditions"
        )
    if isinstance(objective, Objective):
        objective = replace(objective, integrand=integrand)
    pairs = zip(given.path, found, strict=True)
    path = [row if row.expression is None else row._replace(expression=e) for row, e in pairs]
    moving = [delay for delay in model.delays if delay.changes(model.parameters)]
    path += [Row(d.course - d.tau, [(0.0, 0.0)] * len(given.trials)) for d in moving]
    return (
        replace(
            given,
            model=model.extended(inputs=[d.course for d in moving]) if moving else model,
            path=path,
            unknown_inputs={**given.unknown_inputs, **{d.course: d.range for d in moving}},
        ),
        objective,
    )


def following(model: Model) -> set[str]:
    """Inputs that follow from the motion: delayed signals, and delays that change along it."""
    return {name_of(u) for delay in model.delays for u in (delay.symbol, delay.course)}


def lags_of(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Mapping[str, Unknown],
    known: Sequence[Mapping[str, float]],
    held: Collection[str],
    before: Sequence[Mapping[str, UnknownCourse]],
) -> list[Lag]:
    """The delays of a model in trials.

    known : of each trial, values of the known parameters. held : inputs that are constant between
    nodes. before : of each trial, what signals were before its start, where that is unknown. Raises
    `ValueError` for delays that are negative, longer than a trial, or without bounds, or unknown
    and of what is held, and for a history that is too short or of something without a delay.
    """
    check_late(model, trials)
    found = []
    for delay in model.delays:
        moving = delay.changes(model.parameters)
        tau = sp.S.Zero if moving else delay.tau
        symbols = sorted(tau.free_symbols, key=name_of)
        slopes = [tau.diff(p) for p in symbols]
        every = [tau, slopes, [[slope.diff(p) for p in symbols] for slope in slopes]]
        lag = Lag(
            input=delay.name,
            signal=name_of(delay.signal),
            parameters=tuple(map(name_of, symbols)),
            delay=partial(_evaluated, NumericFunction(symbols, every)),
            course=name_of(delay.course) if moving else "",
            trials=[
                LagOfTrial(span_of(delay, unknown, values), courses.get(name_of(delay.signal)))
                for values, courses in zip(known, before, strict=True)
            ],
        )
        for k, trial in enumerate(trials):
            _check_reach(lag, k, trial, lag.signal in model.state_names)
            low, high = lag.trials[k].span
            if lag.signal in held and low < high:
                raise ValueError(
                    f"input {lag.signal} is held between nodes, so that nothing changes as an "
                    f"unknown delay in {lag.input} does; give it straight lines between nodes, or "
                    "a delay that is known"
                )
        found.append(lag)
    return found


def _evaluated(function: NumericFunction, values: Array) -> tuple[float, Array, Array]:
    """A delay, its gradient and its Hessian for values of its parameters."""
    value, gradient, hessian = function(*values)
    square = (len(values), len(values))
    return float(value), np.array(gradient, float), np.array(hessian, float).reshape(square)


def bounds_of_delays(
    model: Model, unknown: Mapping[str, Unknown]
) -> dict[str, tuple[float, float]]:
    """Bounds of unknown parameters that are delays, by name."""
    found = dict[str, tuple[float, float]]()
    for delay in model.delays:
        name = str(delay.tau)
        if isinstance(delay.tau, sp.Symbol) and name in unknown:
            low, high = bounds_of_parameter(delay, unknown[name])
            others = found.get(name, (low, high))
            found[name] = max(low, others[0]), min(high, others[1])
    return found


def _check_reach(lag: Lag, k: int, trial: Experiment, of_state: bool) -> None:
    """Raise `ValueError` for a delay that is longer than a trial, and a history that is too
    short."""
    low, high = lag.trials[k].span
    length = trial.duration[1] if trial.duration else trial.grid[-1] - trial.grid[0]
    if of_state and low >= length and not lag.trials[k].before:
        raise ValueError(
            f"the delay of {lag.input} is {low:g} s or more, and trial {k} lasts {length:g} s: "
            "nothing of it would come back; give delays in seconds, or longer trials"
        )
    history = trial.history.get(lag.signal)
    begin = float(trial.grid[0]) - high
    if isinstance(history, Signal) and history.span[0] > begin + 1e-9 * max(1.0, abs(begin)):
        raise ValueError(
            f"the history of {lag.signal} in trial {k} begins at t = {history.span[0]:g} s, and "
            f"{lag.input} reaches back to {begin:g} s; give more of it, or a shorter delay"
        )
