"""Events of a model in SBML.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from kinesym.models.files.sbml_math import names_in
from kinesym.models.files.sbml_roles import Roles
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.names import name_of, t


def events_of(roles: Roles) -> list[Event]:
    """Events, in the order of the file; section 4.12. Those with the same trigger are one, as all
    use the values that were before any of them."""
    found = dict[sp.Expr, Event]()
    for k, e in enumerate(roles.each("Events")):
        event = _event(roles, e, k)
        if other := found.get(event.guard):
            name = f"{other.name}, {event.name}"
            for what in other.resets.keys() & event.resets.keys():
                raise ValueError(
                    f"the events {name} set {name_of(what)} at once, which is not read"
                )
            event = replace(other, name=name, resets={**other.resets, **event.resets})
        found[event.guard] = event
    return [*found.values()]


def happening_at_start(roles: Roles, events: Sequence[Event]) -> dict[str, sp.Expr]:
    """Expressions by names of events, which happen at the start, or as soon as time goes on, where
    these are not negative."""
    moving = roles.rates.keys() | roles.changes.keys() | roles.assignments.keys()
    names, found = {e.guard: e.name for e in events}, dict[str, sp.Expr]()
    for k, e in enumerate(roles.each("Events")):
        math, name = e.getTrigger().getMath(), _name(e, k)
        condition = roles.formula(math, f"the trigger of event {name}")
        guard = guard_of(condition, name)
        if not e.getTrigger().getInitialValue():
            found[names[guard]] = guard
            continue
        strict = condition.atoms(sp.StrictGreaterThan, sp.StrictLessThan)
        if strict and (names_in(math) & moving or t in atoms_of(condition)):
            found.setdefault(names[guard], -sp.Abs(guard))
    return found


def _name(e: Any, number: int) -> str:
    return str(e.getId() or e.getName() or f"event {number}")


def _event(roles: Roles, e: Any, number: int) -> Event:
    name = _name(e, number)
    if e.isSetPriority():
        raise ValueError(f"event {name} has a priority, which is not read")
    if e.isSetDelay():
        delay = roles.formula(e.getDelay().getMath(), f"the delay of event {name}")
        if delay != 0:
            raise ValueError(f"event {name} is delayed, which is not read")
    trigger = e.getTrigger()
    condition = roles.formula(trigger.getMath(), f"the trigger of event {name}")
    resets = dict[Any, sp.Expr]()
    for a in map(e.getEventAssignment, range(e.getNumEventAssignments())):
        what = a.getVariable()
        if roles.elements[what].getElementName() == "compartment":
            raise ValueError(f"event {name} sets the size of compartment {what}, which is not read")
        resets[roles.states[what]] = roles.formula(a.getMath(), f"event {name}, {what}")
    return Event(name, guard_of(condition, name), 1, resets=resets)


def guard_of(condition: Any, name: str) -> sp.Expr:
    """Expression that rises through zero where a condition becomes true."""
    match condition:
        case sp.And():
            return sp.Min(*(guard_of(part, name) for part in condition.args))
        case sp.Or():
            return sp.Max(*(guard_of(part, name) for part in condition.args))
        case sp.StrictGreaterThan() | sp.GreaterThan():
            return condition.lhs - condition.rhs
        case sp.StrictLessThan() | sp.LessThan():
            return condition.rhs - condition.lhs
    raise ValueError(f"the trigger of event {name} is {condition}, which is not read")
