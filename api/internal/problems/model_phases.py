"""Phases of one motion: several models as one that is each of them in turn, and maps between them.

The joint model has the states of all; where a phase lacks some, they are zero throughout. A
parameter that counts the phases, known in each trial, chooses the equations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import listed, mapping, shown
from kinesym.internal.problems.controls import Continuous
from kinesym.internal.problems.method_index import lowered
from kinesym.internal.problems.phases import Phases, Posed, Row
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.derivation import fresh_name
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, t
from kinesym.symbolic.objective import (
    LeastSquares,
    Objective,
    at_end,
    at_start,
    magnitude,
    variation,
)
from kinesym.symbolic.problem import algebraic_states

#: Bounds of an equation.
_ZERO = (0.0, 0.0)
#: Bounds of a condition that does not hold in a phase.
_FREE = (-np.inf, np.inf)


@dataclass(frozen=True)
class SmoothPhases:
    """Arguments of a problem of one model, and what makes a motion of its phases.

    lacking : of each phase, names of states and inputs that only others have. starts, links :
    conditions at the start of phases that lack states, and maps.
    """

    system: Any
    trials: Any
    objective: Any
    lacking: Sequence[frozenset[str]] = ()
    starts: Sequence[Row] = ()
    links: Sequence[Row] = ()

    def joined(self, made: Posed) -> Posed:
        """Trials with conditions in the phases only that have all that they are about."""
        if not self.lacking:
            return made
        for moment in made.moments:
            for k, names in enumerate(self.lacking):
                for name in sorted(_names(moment.expression) & names):
                    raise ValueError(
                        f"the condition at {moment.time} contains {name}, which phase {k} does not "
                        "have; a condition at a time holds in each phase"
                    )
        return replace(
            made,
            path=[self._there(row, 0) for row in made.path],
            boundary=[*(self._there(row, 0) for row in made.boundary), *self.starts],
            links=[self._there(row, 1) for row in made.links],
        )

    def _there(self, row: Row, start: int) -> Row:
        """A condition without bounds in phases that lack something; start : how many phases later
        what it says of a start is."""
        if row.expression is None:
            return row
        e, count = row.expression, len(self.lacking)
        later = _names(*e.atoms(at_start))
        here = _names(e.xreplace({a: sp.S.Zero for a in e.atoms(at_start)}))
        lost = (
            here & lacking or later & self.lacking[(k + start) % count]
            for k, lacking in enumerate(self.lacking)
        )
        pairs = zip(row.bounds, lost, strict=True)
        return row._replace(bounds=[_FREE if gone else pair for pair, gone in pairs])


def smooth_phases(
    system: Any,
    trials: Any,
    objective: Any,
    given: Sequence[Any],
    unknown_inputs: Any,
    most: int,
) -> SmoothPhases:
    """Join the models of phases, one for each phase or one for all, and turn maps into links.

    given : mappings that are given for all phases by name of a parameter. most : the highest index
    that the scheme can discretise, see `lowered`. Raises `ValueError` for what does not fit.
    """
    phases = isinstance(trials, Phases) and isinstance(trials.sequence[0], Experiment)
    several = isinstance(system, (list, tuple))
    if not phases or isinstance(system, Hybrid):
        if several:
            raise ValueError("a list of models goes with ks.Phases([ks.Experiment(...), ...])")
        return SmoothPhases(system, trials, objective)
    count = len(trials.sequence)
    models = listed(system, "the models") if several else (system,) * count
    if len(models) != count or not all(isinstance(model, Model) for model in models):
        raise ValueError(
            f"{count} phases need one Model, or a list of as many, got {shown(system)}"
        )
    maps = _maps(trials, count)
    linked = not several and maps is None and bool(trials.links)  # which say all that continues
    if count == 1 or (linked and not isinstance(objective, (list, tuple))):
        return SmoothPhases(models[0], trials, objective)
    low = {model: lowered(model, most, most) for model in models}
    models = tuple(low[model] for model in models)
    _check_ends(trials, models)
    shared = {name for row in given for name in by_name(row or {}, None, "parameters")}
    free = by_name(unknown_inputs or {}, None, "unknown_inputs")
    for name, asked in free.items():
        if isinstance(asked, Continuous) and not linked:
            raise ValueError(
                f"nothing says how input {name} goes on from phase to phase if it is continuous; "
                "make it a state of the models: model.with_rates"
            )
    whole = _one_model(models, isinstance(objective, (list, tuple)))
    signals = [u for u in whole.model.input_names if u not in free]
    steps = [
        _trial(whole, models, k, trial, shared, signals) for k, trial in enumerate(trials.sequence)
    ]
    every = _names(*whole.model.states, *whole.model.inputs)
    return SmoothPhases(
        whole.model,
        replace(trials, sequence=steps, maps=None),
        whole.objective(objective),
        lacking=[every - _names(*model.states, *model.inputs) for model in models],
        starts=_absent(models),
        links=[] if linked else _links(models, maps or [{}] * (count - 1)),
    )


def _names(*expressions: sp.Expr) -> frozenset[str]:
    """Names of the functions of time in expressions."""
    return frozenset(name_of(f) for e in expressions for f in e.atoms(AppliedUndef))


# -- the model ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Whole:
    """The model of all phases, and the parameter that counts these, if something depends on it."""

    model: Model
    phase: sp.Symbol
    count: int

    @property
    def counted(self) -> bool:
        return self.phase in self.model.parameters

    def objective(self, given: Any) -> Any:
        """Objective of all phases: that of each phase, or one for all."""
        if not isinstance(given, (list, tuple)):
            return given
        if len(given) != self.count:
            raise ValueError(
                f"there are {len(given)} objectives for {self.count} phases; give one for each, "
                "ks.Integral(0) for none, or one for all"
            )
        rows = [LeastSquares() if each is None else each for each in given]
        for each in rows:
            if not isinstance(each, Objective):
                raise ValueError(f"the objective of a phase is none: {shown(each)}")
        if len({frozenset(row.integrand.atoms(magnitude, variation)) for row in rows}) > 1:
            raise ValueError(
                "ks.l1 and ks.total_variation of an expression stand in the objectives of all "
                "phases or of none; give one objective, or add them to each"
            )
        if len({(row.least_squares, row.loss) for row in rows}) > 1:
            raise ValueError("all phases have LeastSquares, or none; give them in each objective")
        integrand, terminal = (
            _select(self.phase, [getattr(row, term) for row in rows])
            for term in ("integrand", "terminal")
        )
        return Objective(integrand, terminal, rows[0].least_squares, rows[0].loss)


def _one_model(models: Sequence[Model], several_objectives: bool) -> _Whole:
    """The union of models, each in its phases."""
    first, taken = models[0], {s for model in models for s in (*model.symbols, *model.outputs)}
    phase = sp.Symbol(fresh_name("phase", taken), real=True)
    count = len(models)
    if all(model is first for model in models):
        more = [phase] if several_objectives else []
        return _Whole(first.extended(parameters=more) if more else first, phase, count)
    states, inputs, parameters = (
        list(dict.fromkeys(s for model in models for s in getattr(model, kind)))
        for kind in ("states", "inputs", "parameters")
    )
    _check_names(states, inputs, parameters)
    programs = [_own_program(k, models) for k in range(count)]
    rated = {x for model in models for x in model.states if x not in algebraic_states(model)}

    def row_of(k: int, x: AppliedUndef) -> sp.Expr:
        model = models[k]
        if x not in model.states:
            return x.diff(t) if x in rated else x
        return model.equations[model.states.index(x)].xreplace(programs[k])

    nothing = dict.fromkeys(first.invariants, sp.S.Zero)  # which conditions are about
    outputs = dict.fromkeys(name for model in models for name in model.outputs)
    limits = dict.fromkeys(name for model in models for name in model.limits)
    made = Model(
        name="_".join(dict.fromkeys(model.name for model in models)),
        states=states,
        inputs=inputs,
        parameters=[*parameters, phase],
        equations=[_select(phase, [row_of(k, x) for k in range(count)]) for x in states],
        outputs={
            name: _where_there(phase, _parts("outputs", name, models, programs, nothing.get(name)))
            for name in outputs
        },
        intermediates=list(_intermediates(models, programs)),
        invariants=first.invariants,
        vanishing=tuple(dict.fromkeys(x for model in models for x in model.vanishing)),
        integrals={x: y for model in models for x, y in model.integrals.items()},
        drawing=list(dict.fromkeys(tuple(line) for model in models for line in model.drawing)),
        values={p: v for model in reversed(models) for p, v in model.values.items()},
        units={name: unit for model in reversed(models) for name, unit in model.units.items()},
        positive=list(dict.fromkeys(p for model in models for p in model.positive)),
        limits={
            name: _select(phase, _parts("limits", name, models, programs, sp.S.One))
            for name in limits
        },
    )
    return _Whole(made, phase, count)


def _check_names(*groups: Sequence[sp.Basic]) -> None:
    """Raise `ValueError` for a name that stands for different things in different models."""
    found: dict[str, sp.Basic] = {}
    for group in groups:
        for symbol in group:
            name = name_of(symbol)
            if name in found:
                raise ValueError(
                    f"{name} is a state, an input or a parameter of one phase, and another of "
                    "these, or made with other assumptions, in another one; choose one name each"
                )
            found[name] = symbol


def _own_program(k: int, models: Sequence[Model]) -> dict[sp.Basic, sp.Expr]:
    """Rename symbols of intermediates of a model that earlier models have, too."""
    earlier = [model for model in dict.fromkeys(models[:k]) if model is not models[k]]
    used = {s for model in earlier for s, _ in model.intermediates} if earlier else set()
    taken = {name_of(s) for m in models for s, _ in m.intermediates}
    first = models.index(models[k])
    return {
        symbol: sp.Symbol(fresh_name(f"{name_of(symbol)}_{first}", taken), real=True)
        for symbol, _ in models[k].intermediates
        if symbol in used and first
    }


def _intermediates(
    models: Sequence[Model], programs: Sequence[Mapping[sp.Basic, sp.Expr]]
) -> list[tuple[sp.Basic, sp.Expr]]:
    found: dict[sp.Basic, sp.Expr] = {}
    for model, table in zip(models, programs, strict=True):
        for symbol, e in model.intermediates:
            found.setdefault(table.get(symbol, symbol), e.xreplace(table))
    return list(found.items())


def _parts(
    kind: str,
    name: str,
    models: Sequence[Model],
    programs: Sequence[Mapping[sp.Basic, sp.Expr]],
    absent: sp.Expr | None = None,
) -> list[sp.Expr]:
    rows = zip(models, programs, strict=True)
    return [
        getattr(m, kind)[name].xreplace(p) if name in getattr(m, kind) else absent for m, p in rows
    ]


def _select(phase: sp.Symbol, parts: Sequence[sp.Expr]) -> sp.Expr:
    """Expression that is in each phase its part."""
    pairs = [
        (e, phase < k + 0.5)
        for k, e in enumerate(parts)
        if k + 1 == len(parts) or parts[k + 1] != e
    ]
    if len(pairs) == 1:
        return parts[0]
    return sp.Piecewise(*pairs[:-1], (pairs[-1][0], True), evaluate=False)


def _where_there(phase: sp.Symbol, parts: Sequence[sp.Expr | None]) -> sp.Expr:
    """Expression that is in each phase its part, if it has one."""
    if None not in parts:
        return _select(phase, [e for e in parts if e is not None])
    there = [(e, abs(phase - k) < 0.5) for k, e in enumerate(parts) if e is not None]
    return sp.Piecewise(*there, evaluate=False)


def _trial(
    whole: _Whole,
    models: Sequence[Model],
    k: int,
    trial: Experiment,
    shared: set[str],
    signals: Sequence[str],
) -> Experiment:
    """A phase with its number, the values of its own model, and known inputs that it lacks."""
    values = {name_of(whole.phase): float(k)} if whole.counted else {}
    own = [model.values for model in models]
    for name in dict.fromkeys(name for row in own for name in row):
        numbers = [row[name] for row in own if name in row]
        if len(set(numbers)) > 1 and name not in shared | set(trial.parameters):
            values[name] = own[k].get(name, numbers[0])
    idle = [u for u in signals if u not in (*models[k].input_names, *trial.signals)]
    return trial.with_more(values, dict.fromkeys(idle, 0.0)) if values or idle else trial


# -- from phase to phase --------------------------------------------------------------------


def _maps(trials: Phases, count: int) -> list[dict[str, Any]] | None:
    """Maps by name, one for each joint; None if none are given."""
    if trials.maps is None:
        return None
    found = [by_name(mapping(row, "a map"), None, "a map") for row in trials.maps]
    if len(found) != count - 1:
        raise ValueError(
            f"there are {len(found)} maps for {count} phases; give one for each joint, {{}} where "
            "all states continue"
        )
    return found


def _absent(models: Sequence[Model]) -> list[Row]:
    """States with a rate that phases lack are zero at their starts."""
    states = dict.fromkeys(x for m in models for x in m.states if x not in algebraic_states(m))
    rows = []
    for x in states:
        lacks = [x not in model.states for model in models]
        if any(lacks):
            rows.append(Row(at_start(x), [_ZERO if gone else _FREE for gone in lacks]))
    return rows


def _links(models: Sequence[Model], maps: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Conditions from the end of each phase to the start of the next, without repeats."""
    found: dict[sp.Expr, list[tuple[float, float]]] = {}
    for k, (before, after, given) in enumerate(zip(models, models[1:], maps, strict=False)):
        names = {name_of(x): x for x in after.states}
        for name in by_name(given, list(names), f"the map from phase {k} to {k + 1}"):
            _check_map(before, k, name, given[name])
        follow = algebraic_states(after)
        for name, x in names.items():
            if name not in given and x in follow:
                continue
            if name not in given and x not in before.states:
                raise ValueError(
                    f"state {name} begins in phase {k + 1}; give its start in maps[{k}], an "
                    "expression of the end of the phase before, or None if it is free"
                )
            if given.get(name, x) is None:
                continue
            e = real_expression(given.get(name, x), f"the map of {name} in maps[{k}]")
            end = at_end(e) if e.atoms(AppliedUndef) or e.has(t) else e
            found.setdefault(at_start(x) - end, [_FREE] * len(models))[k] = _ZERO
    return [Row(e, bounds) for e, bounds in found.items()]


def _check_map(before: Model, k: int, name: str, given: Any) -> None:
    """Raise `ValueError` for a map of what the phase before does not have."""
    if given is None:
        return
    e = real_expression(given, f"the map of {name} in maps[{k}]")
    if e.atoms(at_end, at_start):
        raise ValueError(
            f"the map of {name} in maps[{k}] is taken at the end of phase {k} as it is; leave out "
            "at_end and at_start"
        )
    _check_there(e, before, f"the map of {name} in maps[{k}]", k)


def _check_ends(trials: Phases, models: Sequence[Model]) -> None:
    """Raise `ValueError` for conditions at the ends of the motion on what is not there."""
    ends: Any = ((trials.start, 0, "start"), (trials.end, -1, "end"))
    for conditions, k, what in ends:
        for number, condition in enumerate(conditions):
            where = f"{what} condition {number}"
            _check_there(condition.expression, models[k], where, k % len(models))


def _check_there(e: sp.Expr, model: Model, what: str, k: int) -> None:
    for f in sorted(e.atoms(AppliedUndef), key=name_of):
        if f.args == (t,) and f not in (*model.states, *model.inputs):
            raise ValueError(f"{what} contains {name_of(f)}, which phase {k} does not have")
