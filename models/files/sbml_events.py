"""Events of a model in SBML.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from kinesym.models.files.sbml_roles import Roles
from kinesym.symbolic.hybrid.events import Event


def events_of(roles: Roles) -> list[Event]:
    """Events, in the order of the file; section 4.12."""
    return [_event(roles, e, k) for k, e in enumerate(roles.each("Events"))]


def happening_at_start(roles: Roles) -> list[str]:
    """Names of events that happen at the start if their trigger is true there."""
    every = [(e, e.getTrigger()) for e in roles.each("Events")]
    return [e.getId() for e, trigger in every if not trigger.getInitialValue()]


def _event(roles: Roles, e: Any, number: int) -> Event:
    name = e.getId() or e.getName() or f"event {number}"
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
