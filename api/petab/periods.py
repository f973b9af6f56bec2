"""Later periods of experiments in PEtab, as events of the model at known times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.models.files.petab import Period, Tables
from kinesym.models.files.sbml import FileModel
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t

#: Begin of a period that an experiment does not have.
_NEVER = 1e300


@dataclass(frozen=True)
class Periods:
    """The system of a file in which an event begins each period after the first.

    now : states without a rate in place of parameters that these events change, by their names;
    each starts with the parameter's value. settings : by experiment, parameters of the events.
    """

    system: Model | Hybrid
    now: Mapping[str, AppliedUndef]
    settings: Mapping[str, Mapping[str, Any]]

    @property
    def starts(self) -> dict[str, sp.Symbol]:
        """Values of these states at the start."""
        return {name_of(x): sp.Symbol(name) for name, x in self.now.items()}


def later_periods(tables: Tables, experiment: str) -> list[Period]:
    """Periods after the first one that begin before the last measurement, or with it."""
    times = [row.time for row in tables.measurements if row.experiment == experiment]
    last = max((time for time in times if time < inf), default=-inf)
    finite = [p for p in tables.experiments[experiment] if p.time > -inf]
    return [period for period in finite[1:] if period.time <= last]


def in_periods(tables: Tables, file: FileModel) -> Periods:
    """The system of a file in the periods of all experiments."""
    rows = {name: later_periods(tables, name) for name in tables.experiments}
    count, model = max(map(len, rows.values())), file.model
    if not count:
        return Periods(file.system, {}, {name: {} for name in rows})
    changed = {n: None for row in rows.values() for p in row for n in p.changes}
    taken = {*model.state_names, *model.parameter_names, *model.outputs, *tables.parameters}
    now = {n: _state(n, taken) for n in changed if n not in model.state_names}
    signals = {name_of(x): x for x in model.states} | now
    moved = {p: now[name_of(p)] for p in model.parameters if name_of(p) in now}

    def written(e: sp.Expr) -> sp.Expr:
        return model.written_out(e).xreplace({sp.Symbol(name): x for name, x in signals.items()})

    events, settings = list[Event](), {name: dict[str, Any]() for name in rows}
    for k in range(count):
        periods = {name: row[k] if k < len(row) else None for name, row in rows.items()}
        events.append(_event(k + 1, periods, settings, signals, written))
    changing = model.extended(rates=dict.fromkeys(now.values(), sp.S.Zero)).substitute(moved)
    if isinstance(file.system, Hybrid):
        events += [_exchanged(event, moved) for event in file.system.events]
    return Periods(Hybrid(changing, events=events), now, settings)


def _state(name: str, taken: set[str]) -> AppliedUndef:
    """State that holds what a parameter is now, by a name that is not taken."""
    found = f"{name}_now"
    while found in taken:
        found += "_"
    return sp.Function(found)(t)


def _exchanged(event: Event, table: Mapping[sp.Basic, sp.Expr]) -> Event:
    """The event of a file with parameters as states."""
    resets = {x: e.xreplace(table) for x, e in event.resets.items()}
    return replace(event, guard=event.guard.xreplace(table), resets=resets)


def _event(
    number: int,
    periods: Mapping[str, Period | None],
    settings: Mapping[str, dict[str, Any]],
    signals: Mapping[str, AppliedUndef],
    written: Callable[[sp.Expr], sp.Expr],
) -> Event:
    """Event that begins the period of this number; its parameters are added to `settings`, by
    experiment. written : makes an expression one of the system."""
    begin, there = f"period_{number}_begin", {n: p for n, p in periods.items() if p is not None}
    for name, own in settings.items():
        own[begin] = there[name].time if name in there else _NEVER
    resets = dict[Any, sp.Expr]()
    for target in {n: None for p in there.values() for n in p.changes}:
        x, what = signals[target], f"period_{number}_{target}"
        given = {
            n: written(p.changes[target]) if target in p.changes else x for n, p in there.items()
        }
        if len({*given.values()}) > 1:  # what differs between experiments is theirs
            for name, e in given.items():
                if not e.atoms(AppliedUndef):
                    settings[name][what], given[name] = e, sp.Symbol(what)
        kinds = list(dict.fromkeys(given.values()))
        resets[x] = sp.Add(*(sp.Symbol(f"{what}_{k}") * e for k, e in enumerate(kinds)))
        if len(kinds) == 1:
            resets[x] = kinds[0]
        for name, own in settings.items():
            if sp.Symbol(what) in kinds:
                own.setdefault(what, 0.0)
            if len(kinds) > 1:
                own |= {f"{what}_{k}": float(given.get(name) == e) for k, e in enumerate(kinds)}
    return Event(f"period {number}", t - sp.Symbol(begin), 1, resets=resets)
