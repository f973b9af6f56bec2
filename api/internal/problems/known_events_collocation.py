"""Events at known times in problems of collocation, such as doses and switches: inputs that are
held between them.

A state that jumps is written as x + J; what is left of it has no jumps. Where events add known
amounts J = D_1 s_1 + D_2 s_2 + ...: s_k is 0 before event k and 1 after it, D_k is by how much the
state jumps there. Else J is an unknown input that is held, and rises at each event by what that
makes of the states before it, see `Resets`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown
from kinesym.internal.problems.checked_trials import checked_trials
from kinesym.internal.problems.conditions import At, During
from kinesym.internal.problems.controls import held
from kinesym.internal.problems.phases import Phases
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.summary import listed
from kinesym.symbolic.derivation import fresh_name
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid import Event, Hybrid, line_in_time
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, t
from kinesym.symbolic.objective import Objective, at_start
from kinesym.symbolic.problem import NO_RESETS, Problem, ResetMap, Resets, algebraic_states

#: What to do about an event that a fit by collocation does not take.
_REMEDY = "use ks.Shooting, or make a phase of what is before and after it, ks.Phases"


@dataclass(frozen=True)
class KnownEvents:
    """Jumps of states at events: jumps, J by name of the state; names : of the inputs s_k. resets :
    of states whose J are unknown inputs."""

    jumps: Mapping[str, sp.Expr] = field(default_factory=dict)
    names: Sequence[str] = ()
    resets: Resets = NO_RESETS

    @property
    def sums(self) -> frozenset[str]:
        """Names of unknown inputs that are jumps."""
        return frozenset(name_of(u) for u, _ in self.resets.inputs)

    @property
    def hidden(self) -> list[str]:
        """Names of all inputs that stand for jumps."""
        return [*self.names, *sorted(self.sums)]

    def measured(self, problem: Problem, bounds: Iterable[str]) -> Problem:
        """The problem with jumps of states that are measured. Raises `ValueError` for bounds of a
        state that jumps."""
        for name in (name for name in bounds if name in self.jumps):
            raise ValueError(
                f"{name} jumps at events and has bounds; write them as a path condition, "
                f"path=[({name}, low, high)]"
            )
        rows = problem.measurements.items()
        return replace(problem, measurements={k: e + self.jumps.get(k, 0) for k, e in rows})

    def passed(
        self,
        fired: Sequence[str],
        states: Mapping[str, float],
        rows: Mapping[str, float],
        jumps: Mapping[str, float],
    ) -> dict[str, float]:
        """Jumps that unknown inputs sum up after events, from those before.

        fired : names of inputs of these events. states : without jumps. rows : parameters, and all
        inputs as they are before."""
        before = {x: states[x] + float(_values(e, rows)) for x, e in self.jumps.items()}
        now = {**states, **before}
        for reset in self.resets.maps:
            if name_of(reset.after) in fired:
                known = {**rows, **now}
                now |= {name_of(x): float(_values(e, known)) for x, e in reset.states}
        sums = {name_of(u): name_of(x) for u, x in self.resets.inputs}
        return {u: jumps[u] + now[x] - before[x] for u, x in sums.items()}

    def added(self, run: Trajectory) -> Trajectory:
        """A trajectory with the jumps of its states, which at an event have their values after
        it."""
        rows = {**run.inputs, **run.parameters}
        states = {x: run.states[x] + _values(e, rows) for x, e in self.jumps.items()}
        return replace(run, states={**run.states, **states}) if states else run


def _values(e: sp.Expr, rows: Mapping[str, Any]) -> Any:
    symbols = sorted(atoms_of(e) - {t}, key=str)
    return sp.lambdify(symbols, e, "numpy")(*(rows[name_of(s)] for s in symbols))


@dataclass(frozen=True)
class Eventless:
    """Arguments of a problem in which events at known times are inputs."""

    system: Any
    trials: Any
    objective: Objective | None
    boundary: Sequence[Any]
    path: Sequence[Any]
    unknown_inputs: Mapping[Any, Any] | None
    events: KnownEvents = field(default_factory=KnownEvents)


def without_events(
    given: Eventless, unknown: Mapping[Any, Any] | None, known: Mapping[Any, Any] | None
) -> Eventless:
    """The arguments with a model without events in place of a hybrid one whose events are at known
    times, and trials with its inputs; the same for another system, contacts, and phases.

    Raises `ValueError` for an event at a time that depends on the motion or an unknown parameter,
    and for resets by inputs and algebraic states.
    """
    hybrid = given.system
    if not isinstance(hybrid, Hybrid) or isinstance(given.trials, Phases) or hybrid.contacts:
        return given
    model, found = hybrid.model, [_timed(hybrid, event) for event in hybrid.events]
    free = by_name(unknown or {}, None, "unknown")
    told = {**model.values, **by_name(known or {}, None, "known")}
    trials = []
    for trial in checked_trials(model, given.trials):
        values = {**told, **trial.parameters}
        numbers = {
            p: sp.Float(values[name])
            for p, name in zip(model.parameters, model.parameter_names, strict=True)
            if name in values and name not in free
        }
        trials.append(trial.driven(_signals(hybrid, found, numbers, trial.grid[[0, -1]])))
    resets, more = _resets(model, found)
    jumps = {x: e for x, e in resets.jumps if e != 0}
    lifted, objective = _lifting(jumps), given.objective
    if objective is not None:
        terms = {name: lifted(getattr(objective, name)) for name in ("integrand", "terminal")}
        objective = replace(objective, **terms)
    made = _lifted(model, (*(each.after for each in found), *more), tuple(jumps.items()))
    names = {name_of(x): e for x, e in jumps.items()}
    return Eventless(
        made,
        trials,
        objective,
        [*(_in_condition(c, lifted) for c in given.boundary), *map(at_start, more)],
        [_in_condition(c, lifted) for c in given.path],
        {**(given.unknown_inputs or {}), **dict.fromkeys(more, held())},
        KnownEvents(names, [each.name for each in found], resets if more else NO_RESETS),
    )


def _resets(model: Model, found: Sequence[_Timed]) -> tuple[Resets, Sequence[AppliedUndef]]:
    """Resets of events, and the unknown inputs that are jumps of states which they do not merely
    add to."""
    every = [each for each in found if each.rules]
    taken = [*model.states, *model.inputs, *model.parameters, *model.outputs]
    inputs, jumps = dict[AppliedUndef, AppliedUndef](), dict[AppliedUndef, sp.Expr]()
    for x in model.states:
        own = [each for each in every if x in each.rules]
        if all(x in each.adds for each in own):
            jumps[x] = sp.Add(*(each.adds[x] * each.after for each in own))
        else:
            jumps[x] = u = sp.Function(fresh_name(f"jumps_of_{name_of(x)}", taken))(t)
            inputs[u] = x
    there = {x: e for x, e in jumps.items() if e != 0}
    maps = [
        ResetMap(each.after, tuple((x, e) for x, e in each.rules.items() if x in there))
        for each in every
    ]
    return Resets(tuple(maps), tuple(there.items()), tuple(inputs.items())), list(inputs)


@dataclass(frozen=True)
class _Timed:
    """An event at a known time. time : an expression of parameters. rises : whether its guard rises
    there. after : the input that is 1 after it. rules : states after it. adds : by how much states
    jump to which it adds known amounts."""

    event: Event
    time: sp.Expr
    rises: sp.Expr
    after: AppliedUndef
    rules: Mapping[AppliedUndef, sp.Expr]
    adds: Mapping[AppliedUndef, sp.Expr]

    @property
    def name(self) -> str:
        """Name of the input."""
        return name_of(self.after)


def _timed(hybrid: Hybrid, event: Event) -> _Timed:
    """An event with the time at which its guard is zero. Raises `ValueError` if that is not known,
    and for resets by inputs and algebraic states."""
    model, what = hybrid.model, f"event {event.name!r}"
    guard = model.written_out(event.guard)
    line = line_in_time(guard)
    if line is None:
        moving = sorted(guard.atoms(AppliedUndef), key=str)
        why = f"depends on {name_of(moving[0])}" if moving else "is no straight line of time"
        raise ValueError(
            f"{what} happens where {shown(event.guard)} is zero, which {why}, and a fit by "
            f"collocation takes events at known times alone; {_REMEDY}"
        )
    if event.stop or event.failure or (event.level and event.when != 1):
        raise ValueError(
            f"{what} ends the motion, or is a level, which collocation lacks; {_REMEDY}"
        )
    level, slope = line
    time = sp.simplify(-level / slope)
    rules = {x: _at(time, model.written_out(e)) for x, e in event.resets.items()}
    modes = [u for u in model.inputs if name_of(u) in hybrid.modes]
    rated = {*model.states} - {*algebraic_states(model)}
    for x, e in rules.items():
        others = sorted(map(name_of, atoms_of(e) - {*rated, *modes, *model.parameters, t}))
        if others or x not in rated:
            raise ValueError(
                f"{what} resets {name_of(x)} to {shown(event.resets[x])}: collocation takes states "
                f"with a rate, modes, parameters and the time, not {[*others, name_of(x)][0]}; "
                f"{_REMEDY}"
            )
    changes = {x: sp.expand(e - x) for x, e in rules.items()}
    adds = {x: e for x, e in changes.items() if not e.atoms(AppliedUndef)}
    place = [e.name for e in hybrid.events].index(event.name)
    taken = [*model.states, *model.inputs, *model.parameters, *model.outputs]
    after = sp.Function(fresh_name(f"after_{place}", taken))(t)
    return _Timed(event, time, slope, after, rules, adds)


def _at(time: sp.Expr, e: sp.Expr) -> sp.Expr:
    """An expression in which the time is that of an event."""
    marks = {f: sp.Dummy() for f in e.atoms(AppliedUndef)}
    back = {mark: f for f, mark in marks.items()}
    return e.xreplace(marks).xreplace({t: time}).xreplace(back)


def _signals(
    hybrid: Hybrid, found: Sequence[_Timed], numbers: Mapping[sp.Basic, sp.Expr], ends: Array
) -> dict[str, Signal]:
    """Inputs of a trial from its first to its last node: modes, and what is 1 after an event."""
    begin, end = map(float, ends)
    names = {u: name_of(u) for u in hybrid.model.inputs if name_of(u) in hybrid.modes}
    modes = dict(hybrid.modes)
    courses = {name: ([begin], [value]) for name, value in modes.items()}
    courses |= {each.name: ([begin], [0.0]) for each in found}
    times, last = [_number(each, each.time, numbers) for each in found], dict[str, float]()
    for k in np.argsort(times, kind="stable"):
        each, at = found[k], times[k]
        here = {**numbers, **{u: sp.Float(modes[name]) for u, name in names.items()}}
        rises = _number(each, each.rises, numbers) > 0.0
        armed = _number(each, each.event.when, here) > 0.0
        if not begin < at < end or each.event.direction == (-1 if rises else 1) or not armed:
            continue
        _check_modes(each, [name for name, when in last.items() if when == at])
        sets = {name_of(u): _number(each, e, here) for u, e in each.event.sets.items()}
        last |= dict.fromkeys(sets, at)
        modes |= sets
        for name, value in {**sets, each.name: 1.0}.items():
            rows = courses[name]
            if rows[0][-1] == at:
                rows[1][-1] = value
            else:
                rows[0].append(at)
                rows[1].append(value)
    return {
        name: Signal([*rows[0], end], [*rows[1], rows[1][-1]], between="held")
        for name, rows in courses.items()
    }


def _check_modes(each: _Timed, now: Sequence[str]) -> None:
    """Raise `ValueError` for a reset by a mode that another event sets at the same time."""
    for name in sorted({name_of(a) for e in each.rules.values() for a in atoms_of(e)} & {*now}):
        raise ValueError(
            f"event {each.event.name!r} resets states by the mode {name}, which another event sets "
            f"at the same time; let one event do both, or {_REMEDY}"
        )


def _number(each: _Timed, e: sp.Expr, numbers: Mapping[sp.Basic, sp.Expr]) -> float:
    """Value of an expression of parameters, and modes; raises `ValueError` if one is not known."""
    value = e.xreplace(numbers)
    if not value.is_number:
        unknown = listed(sorted(map(str, value.free_symbols)))
        raise ValueError(
            f"event {each.event.name!r} depends on {unknown}, which is not known before a fit by "
            f"collocation; give it in known or Experiment(parameters=...), or {_REMEDY}"
        )
    return float(value)


def _lifting(jumps: Mapping[AppliedUndef, sp.Expr]) -> Callable[[sp.Expr], sp.Expr]:
    """A function that writes x + J for x in an expression, but not in x', and not at the start,
    where nothing has happened."""

    def lifted(e: sp.Expr) -> sp.Expr:
        kept = {a: sp.Dummy() for a in e.atoms(sp.Derivative, at_start)}
        back = {dummy: a for a, dummy in kept.items()}
        return e.xreplace(kept).xreplace({x: x + J for x, J in jumps.items()}).xreplace(back)

    return lifted


def _in_condition(condition: Any, lifted: Callable[[sp.Expr], sp.Expr]) -> Any:
    """A condition with jumps of states: an expression, a relation, a row, one at some time."""
    if isinstance(condition, During | At):
        return condition._replace(condition=_in_condition(condition.condition, lifted))
    if isinstance(condition, tuple | list) and condition:
        return (_in_condition(condition[0], lifted), *condition[1:])
    return lifted(condition) if isinstance(condition, sp.Basic) else condition


@lru_cache(maxsize=16)
def _lifted(
    model: Model,
    inputs: tuple[AppliedUndef, ...],
    jumps: tuple[tuple[AppliedUndef, sp.Expr], ...],
) -> Model:
    """Model of what is left of its states without their jumps; kept, as programs are for equal
    models."""
    lifted = _lifting(dict(jumps))
    return replace(
        model,
        inputs=[*model.inputs, *inputs],
        equations=[lifted(e) for e in model.equations],
        intermediates=[(s, lifted(e)) for s, e in model.intermediates],
        outputs={name: lifted(e) for name, e in model.outputs.items()},
        limits={name: lifted(e) for name, e in model.limits.items()},
    )
