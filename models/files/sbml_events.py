"""Events of a model in SBML.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from kinesym.models.files.sbml_document import flag, listed, math_of
from kinesym.models.files.sbml_roles import Roles
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.names import name_of, t

#: Relative time by which what happens after a time happens after it.
_JUST_AFTER = 1e-11


def events_of(roles: Roles) -> list[Event]:
    """Events, in the order of the file; section 4.12. Those with the same trigger are one, as all
    use the values that were before any of them."""
    found = dict[sp.Expr, Event]()
    for k, e in enumerate(roles.document.each("Events")):
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
    moving = moving_in(roles)
    names, found = {e.guard: e.name for e in events}, dict[str, sp.Expr]()
    before = dict[str, bool]()
    for k, e in enumerate(roles.document.each("Events")):
        name = _name(e, k)
        trigger = e.find("trigger")
        condition = roles.condition(math_of(trigger), f"the trigger of event {name}")
        guard = guard_of(condition, name, moving)
        told = trigger is None or flag(trigger, "initialValue", True)
        if before.setdefault(names[guard], told) != told:
            raise ValueError(
                f"the events {names[guard]} have one trigger, but differ in whether it was true "
                "before the start, which is not read"
            )
        if not told:
            found[names[guard]] = guard
            continue
        strict = condition.atoms(sp.StrictGreaterThan, sp.StrictLessThan)
        if strict and guard.atoms(AppliedUndef) and _moves(condition, moving):
            found.setdefault(names[guard], -sp.Abs(guard))
    return found


def _name(e: Element, number: int) -> str:
    return e.get("id") or e.get("name") or f"event {number}"


def _event(roles: Roles, e: Element, number: int) -> Event:
    name = _name(e, number)
    if e.find("priority") is not None:
        raise ValueError(f"event {name} has a priority, which is not read")
    delay = math_of(e.find("delay"))
    if delay is not None and roles.formula(delay, f"the delay of event {name}") != 0:
        raise ValueError(f"event {name} is delayed, which is not read")
    condition = roles.condition(math_of(e.find("trigger")), f"the trigger of event {name}")
    resets = dict[Any, sp.Expr]()
    for a in listed(e, "EventAssignments"):
        what = a.get("variable", "")
        resets[roles.states[what]] = roles.formula(math_of(a), f"event {name}, {what}")
    resets |= _diluted(roles, resets)
    return Event(name, guard_of(condition, name, moving_in(roles)), 1, resets=resets)


def _diluted(roles: Roles, resets: Mapping[Any, sp.Expr]) -> dict[Any, sp.Expr]:
    """Concentrations after compartments have got other sizes, which keep the amounts, also those
    that the same event sets: an assignment is made with the state before the event (section 4.12,
    cases 01779 and 01780 of the test suite of the format)."""
    found = dict[Any, sp.Expr]()
    for species in sorted(roles.diluted & roles.states.keys()):
        size = roles.symbols[roles.home(species)]
        if size in resets:
            x = roles.states[species]
            found[x] = resets.get(x, x) * size / resets[size]
    return found


def moving_in(roles: Roles) -> set[Any]:
    """Symbols of what changes by more than events."""
    names = {*roles.states, *roles.determined}
    held = roles.set_by_events - roles.rates.keys() - roles.changes.keys() - roles.diluted
    return {t, *(roles.symbols[name] for name in names - held)}


def _moves(condition: Any, moving: Set[Any]) -> bool:
    held = (
        condition.atoms(AppliedUndef) - moving
    )  # functions of time, which is no atom of them here
    return bool(atoms_of(condition.xreplace({x: sp.Dummy() for x in held})) & moving)


def guard_of(condition: Any, name: str, moving: Set[Any]) -> sp.Expr:
    """Expression that rises through zero where a condition becomes true; moving : what changes by
    more than events."""
    match condition:
        case sp.And():
            return sp.Min(*(guard_of(part, name, moving) for part in condition.args))
        case sp.Or():
            return sp.Max(*(guard_of(part, name, moving) for part in condition.args))
        case Relational() if not _moves(condition, moving):
            return sp.Piecewise((1, condition), (-1, True))  # which has a side where both are equal
        case sp.GreaterThan():
            return condition.lhs - condition.rhs
        case sp.LessThan():
            return condition.rhs - condition.lhs
        case sp.StrictGreaterThan() | sp.StrictLessThan():
            return _strictly(condition.gts - condition.lts)
    raise ValueError(f"the trigger of event {name} is {condition}, which is not read")


def _strictly(guard: sp.Expr) -> sp.Expr:
    """Guard of a strict condition: one on time is met just after, so that a sample at that time
    shows the state before."""
    by_time = guard.diff(t)
    known = by_time.is_number and not guard.atoms(AppliedUndef)
    return guard - _JUST_AFTER * (1 + t) if known and by_time > 0 else guard
