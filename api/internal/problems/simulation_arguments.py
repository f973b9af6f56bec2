"""Arguments of `ks.simulate`, checked; for models and hybrid models alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base import checks
from kinesym.base.checks import shown
from kinesym.internal.problems.dependent_starts import following
from kinesym.internal.problems.step_options import Steps
from kinesym.internal.problems.table_checks import check_known_variables
from kinesym.runtime.arrays import Array, check_finite, real_array, time_grid
from kinesym.runtime.results.event_log import HybridState
from kinesym.runtime.signals.history import history_of, known_history
from kinesym.runtime.signals.signal import Signal, signal_of, with_breaks
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.summary import listed
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name, name_of
from kinesym.symbolic.problem import algebraic_states

#: An input: the same for all members, or for each its own; (M, N) are joined by straight lines.
Input = Signal | Sequence[Signal] | Array


@dataclass(frozen=True, eq=False)
class SimulationArguments:
    """Arguments of a simulation on the grid `time` (N,) [s]: numbers, or (M,) for the M `members`
    of an ensemble; None for a single trajectory.

    start : the state from which an earlier run goes on, if that is given. pressing : whether each
    contact presses at the start. history : what states and inputs with a delay were before. modes,
    scales : at the start, and of guards by event, where they are not those of the system. stops :
    whether adaptive steps of a model end at each node. following : initial values that are
    expressions of parameters.
    """

    time: Array
    initial: Mapping[str, Array]
    parameters: Mapping[str, Array]
    inputs: Mapping[str, Input]
    members: int | None
    steps: Steps
    threads: int
    progress: bool | None
    start: HybridState | None = None
    pressing: Mapping[str, Array] | None = None
    history: Mapping[str, Signal] = field(default_factory=dict)
    modes: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    stops: bool = False
    following: Following | None = None

    @property
    def grid(self) -> tuple[Array, NDArray[np.intp]]:
        """Grid with a node at each jump and bend of an input, and the places of its own nodes."""
        each = [s for u in self.inputs.values() for s in ([u] if isinstance(u, Signal) else u)]
        return with_breaks(self.time, [s for s in each if isinstance(s, Signal)])

    def of_member(self, k: int) -> SimulationArguments:
        """Arguments of one member of an ensemble."""
        return replace(
            self,
            initial=_of_member(self.initial, k),
            parameters=_of_member(self.parameters, k),
            pressing=_of_member(self.pressing or {}, k),
            inputs={name: self._signal(value, k) for name, value in self.inputs.items()},
            members=None,
            progress=False,
        )

    def _signal(self, value: Input, k: int) -> Signal:
        if isinstance(value, Signal):
            return value
        row = value[k]
        return row if isinstance(row, Signal) else Signal(self.time, row)


def _of_member(rows: Mapping[str, Array], k: int) -> dict[str, Array]:
    return {name: row[k] if row.ndim else row for name, row in rows.items()}


def simulation_arguments(
    system: Any,
    time: ArrayLike,
    initial: Any,
    parameters: Any,
    inputs: Any,
    steps: Steps,
    threads: int | None,
    progress: bool | None,
    history: Any = None,
) -> SimulationArguments:
    """Check arguments of `simulate`; raises `ValueError` for what is missing or does not fit."""
    grid = time_grid(time)
    model = system if isinstance(system, Model) else system.model
    start: HybridState | None = None
    pressing: dict[str, Array] = {}
    follows: Following | None = None
    known = _numbers(parameters, model.parameter_names, model.values, "parameters", "parameter")
    check_values(model, known)
    if isinstance(initial, HybridState):
        start, values = initial, _numbers_of_state(system, initial, grid)
    else:
        values, pressing, follows = _initial(system, model, initial, known)
    names = model.given_names if isinstance(system, Model) else tuple(system.given)
    signals = _inputs(grid, names, inputs)
    of_all = {name: s for name, s in signals.items() if isinstance(s, Signal)}
    check_known_variables(system.tables, of_all, grid)
    before = _history(model, history, float(grid[0]))
    if start is not None:
        _check_past(model, start.time, {**of_all, **before})
    return SimulationArguments(
        time=grid,
        initial=values,
        parameters=known,
        inputs=signals,
        members=_members({**values, **known, **pressing}, signals),
        steps=steps,
        threads=checks.threads(threads),
        progress=progress,
        start=start,
        pressing=pressing,
        history=before,
        following=follows,
    )


def _initial(
    system: Model | Hybrid, model: Model, given: Any, known: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array], Following | None]:
    """Values of states, whether contacts press, and which values follow from parameters, of which
    these are known; what integrals are of needs no guess."""
    contacts = () if isinstance(system, Model) else tuple(c.name for c in system.contacts)
    integrals = model.integrals
    found = by_name(given, (*model.state_names, *integrals.values(), *contacts), "initial")
    states: dict[str, Any] = dict.fromkeys(integrals, 0.0)
    states |= {name: value for name, value in found.items() if name in model.state_names}
    if len(states) < len(model.state_names):
        guessed = [name_of(x) for x in algebraic_states(model) if name_of(x) not in states]
        hint = f"; a guess will do for the algebraic {listed(guessed, 6)}" if guessed else ""
        check_complete(
            model.state_names, states, "initial value of state", f"initial={{...}}{hint}"
        )
    follows = following(states, model.parameter_names)
    states |= follows.values(known) if follows else {}
    values = _numbers(states, model.state_names, {}, "initial", "initial value of state")
    pressing = {name: np.asarray(found[name]) for name in contacts if name in found}
    for name, row in pressing.items():
        if row.dtype != np.bool_ or row.ndim > 1:
            raise ValueError(
                f"initial {name} says whether the contact presses at the start, True or False, got "
                f"{shown(found[name])}"
            )
    return values, pressing, follows


def _numbers_of_state(system: Model | Hybrid, state: HybridState, grid: Array) -> dict[str, Array]:
    """Values of the states to go on from, if that belongs to the system."""
    model = system if isinstance(system, Model) else system.model
    rows: list[tuple[str, Any, Sequence[Any]]] = [("states", state.x, model.state_names)]
    if isinstance(system, Hybrid):
        rows += [
            ("modes", state.modes, tuple(system.modes)),
            ("contacts", state.contacts, system.contacts),
            ("events", state.armed, system.events),
        ]
    for what, row, names in rows:
        if len(row) != len(names):
            raise ValueError(
                f"the state to go on from has {len(row)} {what}, {model.name} has {len(names)}; "
                "it belongs to another model"
            )
    if state.time != grid[0]:
        raise ValueError(
            f"the grid begins at {grid[0]:g} s, the state to go on from is at {state.time:g} s"
        )
    return {name: np.asarray(x) for name, x in zip(model.state_names, state.x, strict=True)}


def _numbers(
    given: Any,
    names: Sequence[str],
    defaults: Mapping[str, float],
    where: str,
    what: str,
) -> dict[str, Array]:
    """A number or (M,) for every name; raises `ValueError` naming what is missing or not finite."""
    values = {**defaults, **by_name({} if given is None else given, names, where)}
    result: dict[str, Any] = {}
    check_complete(names, values, what, f"{where}={{...}}")
    for name in names:
        value = values[name]
        if isinstance(value, float) and isfinite(value):
            result[name] = np.float64(value)
            continue
        array = real_array(value, f"the {what} {name}")
        if array.ndim > 1 or array.size == 0:
            raise ValueError(
                f"the {what} {name} must be one number or (members,), got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            k = int(np.flatnonzero(~np.isfinite(array.ravel()))[0])
            of = f" of member {k}" if array.ndim else ""
            raise ValueError(f"the {what} {name}{of} is {array.ravel()[k]}, not a finite number")
        result[name] = array
    return result


def check_complete(names: Sequence[str], given: Mapping[str, Any], what: str, where: str) -> None:
    """Raise `ValueError` naming all that have no value. what : in the singular, "input"."""
    missing = [name for name in names if name not in given]
    if len(missing) == 1:
        raise ValueError(f"the {what} {missing[0]} is missing; add it to {where}")
    if missing:
        several = f"{what.replace('value', 'values')}s"
        raise ValueError(f"the {several} {listed(missing, 12)} are missing; add them to {where}")


def _inputs(grid: Array, names: Sequence[str], inputs: Any) -> dict[str, Input]:
    """Signals of every input, known on the whole grid."""
    given = by_name({} if inputs is None else inputs, names, "inputs")
    check_complete(names, given, "input", "inputs={...}")
    found: dict[str, Input] = {}
    for name in names:
        value, what = given[name], f"input {name}"
        if isinstance(value, (list, tuple)) and any(isinstance(row, Signal) for row in value):
            found[name] = [
                _known(row, grid, f"{what} of member {k}") for k, row in enumerate(value)
            ]
        elif np.ndim(value) == 2:
            found[name] = _rows(value, grid, what)
        else:
            found[name] = _known(value, grid, what)
    return found


def _history(model: Model, given: Any, start: float) -> dict[str, Signal]:
    """History of delayed states and inputs before the start."""
    late = tuple(dict.fromkeys(name_of(delay.signal) for delay in model.delays))
    if given and not late:
        raise ValueError(f"model {model.name} has no delays, for which a history is")
    found = history_of(by_name({} if given is None else given, late, "history"), start)
    return known_history(found, "a simulation")


def _check_past(model: Model, start: float, known: Mapping[str, Signal]) -> None:
    """Raise `ValueError` for a delayed signal of which a state to go on from leaves the past
    unknown."""
    for name in dict.fromkeys(name_of(delay.signal) for delay in model.delays):
        if name not in known or not known[name].span[0] < start:
            raise ValueError(
                f"{name} has a delay, and the state to go on from does not hold its past: give "
                f"history={{{name}: ks.Signal(run.time, run[{name!r}], 'cubic')}} of the run "
                "before, or simulate all of it as one run"
            )


def _known(value: Any, grid: Array, what: str) -> Signal:
    """A signal that is known on the grid."""
    signal = signal_of(value, grid, what)
    signal.check_span(grid, what)
    return signal


def _rows(value: Any, grid: Array, what: str) -> Array:
    """Samples (M, N) of all members."""
    rows = real_array(value, what)
    if rows.shape[1] != len(grid):
        raise ValueError(
            f"{what} has shape {rows.shape}, expected {len(grid)} values, one per node"
        )
    check_finite(rows, what, grid, lambda member: f"member {member}")
    return rows


def _members(numbers: Mapping[str, Array], inputs: Mapping[str, Input]) -> int | None:
    """Number of members of an ensemble, None for a single trajectory."""
    found: dict[int, str] = {}
    for name, array in numbers.items():
        if array.ndim == 1:
            found.setdefault(len(array), name)
    for name, value in inputs.items():
        if not isinstance(value, Signal):
            found.setdefault(len(value), name)
    if len(found) > 1:
        words = ", ".join(f"{count} for {name}" for count, name in found.items())
        raise ValueError(f"the number of members is not clear: {words}")
    return next(iter(found), None)
