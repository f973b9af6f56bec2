"""Sources of delayed inputs (state or input, delay, history) for simulation and shooting, and
checks of what cannot be delayed."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from kinesym.internal.problems.parameters import Unknown
from kinesym.runtime.delays.trial import Source
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.history import known_history
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.delayed import Delay, DelayedValue
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import check_known, name_of
from kinesym.symbolic.objective import Objective


def undelayed_objective(
    model: Model, objective: Objective | None
) -> tuple[Model, Objective | None]:
    """Model with inputs in place of the delays of an objective, and the objective with these
    inputs."""
    if not isinstance(objective, Objective):
        return model, objective
    check_ends([objective.terminal], "the terminal cost")
    model, (integrand,) = model.undelayed([objective.integrand])
    return model, replace(objective, integrand=integrand)


def check_ends(expressions: Sequence[sp.Expr], what: str) -> None:
    """Raise `ValueError` for a delay in a condition or cost at an end of a trial."""
    for e in expressions:
        if e.has(DelayedValue):
            raise ValueError(
                f"{what} contains a delay, {next(iter(e.atoms(DelayedValue)))}; make it a path "
                "condition at that time, path=[ks.at(time, condition)]"
            )


def check_late(model: Model, trials: Sequence[Experiment]) -> None:
    """Raise `ValueError` for a history of what has no delay, and for delayed inputs that are
    measured."""
    late = [name_of(delay.signal) for delay in model.delays]
    for k, trial in enumerate(trials):
        for name in trial.history:
            check_known(name, late, f"trial {k} has a history of {name}, which has no delay")
        for name in (delay.name for delay in model.delays if delay.name in trial.measured):
            raise ValueError(
                f"trial {k} measures {name}, which is an input inside the model; make it an output "
                "with a name of its own"
            )


def check_jumps(model: Model, trials: Sequence[Experiment], unknown: Collection[str]) -> None:
    """Raise `ValueError` for inputs that jump and have a delay that is not fixed: where it carries
    a jump past a stage of a step, the objective jumps, and its gradient does not see that."""
    for delay in model.delays:
        free = {name_of(p) for p in delay.tau.free_symbols}.intersection(unknown)
        name = name_of(delay.signal)
        if not free and not delay.changes(model.parameters):
            continue
        for k, trial in enumerate(trials):
            for signal in (trial.signals.get(name), trial.history.get(name)):
                if isinstance(signal, Signal) and _jumps(signal, trial, name):
                    raise ValueError(
                        f"{name} of trial {k} jumps, and {delay.name} has a delay that is not "
                        "fixed: the steps would show a jump of the objective, and no derivative, "
                        "where that moves; give a signal of straight lines, or a known delay"
                    )


def _jumps(signal: Signal, trial: Experiment, name: str) -> bool:
    """Whether an input or a history jumps, by itself or at the start."""
    if len(signal.jumps(-np.inf, np.inf)) or (name in trial.held and len(signal.begin) > 1):
        return True
    pair = [s for s in (trial.history.get(name), trial.signals.get(name)) if isinstance(s, Signal)]
    values = [float(s.sided(trial.grid[0], side)) for s, side in zip(pair, (-1, 1), strict=False)]
    return len(values) > 1 and not np.isclose(values[0], values[1], rtol=1e-9, atol=0.0)


def span_of(
    delay: Delay, unknown: Mapping[str, Unknown], values: Mapping[str, float]
) -> tuple[float, float]:
    """Bounds of a delay in a trial [s]; values : of the known parameters there."""
    moving = {s for s in delay.tau.free_symbols if name_of(s) not in {*unknown, *values}}
    names = [] if moving else sorted(map(name_of, delay.tau.free_symbols))
    free = [name for name in names if name in unknown]
    if delay.tau.is_number or (names and not free):
        seconds = float(delay.tau.subs({p: values[name_of(p)] for p in delay.tau.free_symbols}))
        low = high = seconds
    elif isinstance(delay.tau, sp.Symbol):
        low, high = bounds_of_parameter(delay, unknown[free[0]])
    elif delay.range is not None:
        low, high = delay.range
    else:
        low, high = _of_bounds(delay, names, unknown, values)
    if not 0.0 <= low <= high < np.inf:
        what = f"is {low:g} s" if low == high else f"has the bounds ({low:g}, {high:g})"
        remedy = f"unknown={{{free[0]}: (0.05, 0.2)}}" if free else "0 or more seconds"
        raise ValueError(
            f"the delay of {delay.name} {what}; a delay is not negative, and one that is unknown "
            f"needs finite bounds: {remedy}"
        )
    if delay.range is not None and low == high and not delay.range[0] <= low <= delay.range[1]:
        raise ValueError(f"the delay of {delay.name} is {low:g} s, outside its range {delay.range}")
    return low, high


def bounds_of_parameter(delay: Delay, unknown: Unknown) -> tuple[float, float]:
    """Bounds of an unknown parameter that is a delay: its own, within the range of the delay."""
    low, high = unknown.low, unknown.high
    if delay.range is not None:
        low, high = max(low, delay.range[0]), min(high, delay.range[1])
    if low > high:
        raise ValueError(
            f"the bounds ({unknown.low:g}, {unknown.high:g}) of {delay.tau} and the range "
            f"{delay.range} of {delay.name} have nothing in common"
        )
    return low, high


def _of_bounds(
    delay: Delay,
    names: Sequence[str],
    unknown: Mapping[str, Unknown],
    values: Mapping[str, float],
) -> tuple[float, float]:
    """Bounds of a delay from those of its parameters, by intervals at their corners if it is
    linear in each of them."""
    symbols = {name_of(p): p for p in delay.tau.free_symbols}
    free = [name for name in names if name in unknown]
    if any(delay.tau.diff(symbols[name], 2) != 0 for name in free):
        raise ValueError(
            f"the delay {delay.tau} of {name_of(delay.signal)} is not linear in what is unknown; "
            f"give its bounds: ks.delayed({delay.signal}, {delay.tau}, range=(low, high))"
        )
    fixed = {symbols[name]: values[name] for name in names if name not in free}
    corners = [delay.tau.subs(fixed)]
    for name in free:
        ends = unknown[name].low, unknown[name].high
        corners = [e.subs(symbols[name], end) for e in corners for end in ends]
    numbers = [float(e) for e in corners]
    return min(numbers), max(numbers)


def warn_of_leaps(
    model: Model,
    trials: Sequence[Experiment],
    starts: Sequence[Mapping[str, float]],
    unknown: Collection[str],
) -> None:
    """Warn of states with a delay that is not fixed that leap from their history to the start."""
    for delay in model.delays:
        name = name_of(delay.signal)
        free = {name_of(p) for p in delay.tau.free_symbols}.intersection(unknown)
        for k, (trial, start) in enumerate(zip(trials, starts, strict=True)):
            history, value = trial.history.get(name), start.get(name, np.nan)
            if not isinstance(history, Signal) or not (free or delay.changes(model.parameters)):
                continue
            before = float(history.sided(trial.grid[0], -1.0))
            if abs(value - before) > 1e-9 * max(abs(value), abs(before)):  # not if unknown
                warnings.warn(
                    f"{name} of trial {k} leaps from {before:g} to {value:g} at the start, and "
                    f"{delay.name} has a delay that is not fixed: derivatives by the delay lack "
                    "what moves with the leap; leave the history out, or let it end at the start",
                    stacklevel=4,
                )
                return


def sources_of(model: Model, trials: Sequence[Experiment]) -> list[list[Source]]:
    """Sources of the delayed inputs of a model, by trial of shooting."""
    return [
        [
            source_of(
                model,
                delay,
                float(trial.grid[0]),
                known_history(trial.history, "shooting"),
                trial.signals,
            )
            for delay in model.delays
        ]
        for trial in trials
    ]


def source_of(
    model: Model,
    delay: Delay,
    start: float,
    history: Mapping[str, Signal],
    inputs: Mapping[str, Signal],
) -> Source:
    """Source of a delayed input. start : of the run [s]."""
    name = name_of(delay.signal)
    of_input = name in model.given_names
    names = model.given_names if of_input else model.state_names
    return Source(
        name=delay.name,
        signal=name,
        number=names.index(name),
        of_input=of_input,
        moving=delay.changes(model.parameters),
        ends=delay.range or (0.0, np.inf),
        start=start,
        history=history.get(name),
        own=inputs[name] if of_input else None,
    )
