"""Initial values of the trials of shooting: numbers, expressions of parameters, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base import checks
from kinesym.internal.problems.dependent_starts import following
from kinesym.internal.problems.sensors import with_parameters
from kinesym.internal.problems.simulation_arguments import check_complete
from kinesym.runtime.arrays import one_number
from kinesym.runtime.shooting.steady_start import SteadyStart
from kinesym.runtime.signals.corridor import bound_pair
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.following import Following
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, t


def initial_values(
    system: Model | Hybrid, initial: Any, trials: int, parameters: Sequence[str]
) -> tuple[
    list[dict[str, float]], dict[str, list[tuple[float, float]]], Sequence[Following | None]
]:
    """Fixed initial values of each trial, NaN where unknown, with whether contacts press; by state
    the bounds of unknown ones in each trial; and of each trial those that follow from parameters,
    of these names."""
    model = system.model if isinstance(system, Hybrid) else system
    contacts = [c.name for c in system.contacts] if isinstance(system, Hybrid) else []
    rows = _rows_of_trials(model, contacts, initial, trials)
    follows = [following({x: row[x] for x in model.state_names}, parameters) for row in rows]
    for row, rule in zip(rows, follows, strict=True):
        row |= dict.fromkeys(rule.states, np.nan) if rule else {}
    values: list[dict[str, float]] = [{} for _ in range(trials)]
    bounds: dict[str, list[tuple[float, float]]] = {}
    for name in model.state_names:
        given = [row[name] for row in rows]
        unknown = [value is None or isinstance(value, tuple) for value in given]
        if any(unknown) and not all(unknown):
            k = unknown.index(False)
            raise ValueError(
                f"initial {name} is known in trial {k} and unknown in trial "
                f"{unknown.index(True)}; give None or (low, high) in all"
            )
        if all(unknown):
            bounds[name] = [bound_pair(f"initial {name}", value) for value in given]
        for k, value in enumerate(given):
            rule, open_ = follows[k], unknown[k]
            open_ |= rule is not None and name in rule.states
            values[k][name] = np.nan if open_ else one_number(value, f"the initial value of {name}")
    for mine, row in zip(values, rows, strict=True):
        mine |= {name: checks.flag(row.get(name, False), f"initial {name}") for name in contacts}
    return values, bounds, follows


def _rows_of_trials(
    model: Model, contacts: Sequence[str], initial: Any, trials: int
) -> list[dict[str, Any]]:
    """Initial states and contacts by trial; raises `ValueError` for one that is missing."""
    each = isinstance(initial, (list, tuple)) and all(isinstance(r, Mapping) for r in initial)
    if each and len(initial) != trials:
        raise ValueError(
            f"initial has {len(initial)} mappings, expected one or one per trial ({trials})"
        )
    given = initial if each else [{} if initial is None else initial] * trials
    rows, integrals = [], model.integrals
    for k, mapping in enumerate(given):
        known = [*model.state_names, *integrals.values(), *contacts]
        row = by_name(mapping, known, f"initial of trial {k}" if each else "initial")
        row = dict.fromkeys(integrals, 0.0) | row
        where = "initial={...}, None or (low, high) if unknown"
        check_complete(model.state_names, row, "initial value of state", where)
        for name, value in row.items():
            if isinstance(value, (list, np.ndarray)) and np.ndim(np.asarray(value, object)):
                if len(value) != trials or each:
                    raise ValueError(
                        f"initial {name} has {len(value)} values, expected one"
                        + ("" if each else f", or one per trial ({trials})")
                        + "; bounds are a tuple (low, high)"
                    )
                row[name] = value[k]
        rows.append(row)
    return rows


def check_steady(
    system: Model | Hybrid,
    model: Model,
    free: Mapping[str, Any],
    starts: Mapping[str, Any],
    trials: Sequence[Experiment],
) -> None:
    """Raise `ValueError` for what a steady state before the record does not go with."""
    number = next((k for k, trial in enumerate(trials) if trial.before), None)
    if number is None:
        return
    about = f"trial {number} begins in a steady state, which there is not"
    if isinstance(system, Hybrid):
        raise ValueError(f"{about} of a model with events; simulate to it, and give the start")
    if model.delays:
        raise ValueError(f"{about} with delays ({model.delays[0].name}); give the start")
    if free:
        raise ValueError(f"{about} beside unknown inputs ({', '.join(free)}); give the start")
    if starts:
        raise ValueError(
            f"{about} with an unknown start of {', '.join(starts)}; let that follow from a "
            f"parameter, initial={{{next(iter(starts))}: sympy.Symbol('x_0')}}, and make it unknown"
        )


def with_steady_starts(
    model: Model,
    trials: Sequence[Experiment],
    starts: Sequence[Mapping[str, float]],
    follows: Sequence[Following | None],
    before: Sequence[Mapping[str, float | str]],
) -> tuple[Sequence[Mapping[str, float]], Sequence[Following | SteadyStart | None]]:
    """Initial values and what follows from parameters, as of `initial_values`, of trials some of
    which begin in steady states. before : of each trial, see `SteadyStart`."""
    rows, rules = list[Mapping[str, float]](), list[Following | SteadyStart | None]()
    for k, (trial, start, follow) in enumerate(zip(trials, starts, follows, strict=True)):
        if trial.before is None:
            rows.append(start)
            rules.append(follow)
        else:
            rows.append(dict.fromkeys(start, np.nan))
            rules.append(_steady_start(model, trial, k, start, follow, before[k]))
    return rows, rules


def _steady_start(
    model: Model,
    trial: Experiment,
    number: int,
    start: Mapping[str, float],
    follows: Following | None,
    before: Mapping[str, float | str],
) -> SteadyStart:
    """Start of a trial in a steady state. start : where the simulation to it begins; follows : of
    this what follows from parameters. before : see `SteadyStart`. Raises `ValueError` for names
    that the model does not have, and for values that are no numbers or expressions."""
    asked, what = trial.before, f"of ks.steady of trial {number}"
    assert asked is not None
    by_name(asked.inputs, model.input_names, f"inputs {what}")
    first = [(u, trial.inputs[u][0]) for u in model.input_names if u in trial.inputs]
    levels = {**dict(first), **asked.inputs}
    given = by_name(asked.reset, model.state_names, f"reset {what}")
    resets = following(given, model.parameter_names)
    moved = resets.states if resets else ()
    numbers = {
        x: one_number(value, f"reset of {x} {what}") for x, value in given.items() if x not in moved
    }
    return SteadyStart(
        states=model.state_names,
        parameters=model.parameter_names,
        initial=np.array([start[x] for x in model.state_names]),
        follows=follows,
        before=before,
        inputs=np.array([levels[u] for u in model.input_names]),
        reset=numbers,
        resets=resets,
        begin=float(trial.grid[0]),
        span=float(trial.grid[-1] - trial.grid[0]),
    )


def with_symbols_of_starts(system: Any, initial: Any, trials: Any) -> Any:
    """A model or hybrid model with the symbols of initial values, and of states that are reset
    after a steady state, as further parameters; anything else as it is."""
    if not isinstance(system, Model | Hybrid):
        return system
    rows = initial if isinstance(initial, list | tuple) else [initial]
    steps = trials if isinstance(trials, Iterable) else [trials]
    rows = [*rows, *(each.before.reset for each in steps if getattr(each, "before", None))]
    every = [e for row in rows if isinstance(row, Mapping) for e in row.values()]
    every += [e for each in every if isinstance(each, list) for e in each]
    found = atoms_of(*(e for e in every if isinstance(e, sp.Expr)))
    model = system.model if isinstance(system, Hybrid) else system
    taken = {*model.state_names, *model.given_names, *model.parameter_names, *model.outputs}
    plain = [s for s in found if isinstance(s, sp.Symbol) and s != t and name_of(s) not in taken]
    return with_parameters(system, tuple(sorted(plain, key=name_of)))
