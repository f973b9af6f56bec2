"""Events of a model in SBML.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from kinesym.models.files.sbml_document import flag, listed, math_of
from kinesym.models.files.sbml_math import own_name
from kinesym.models.files.sbml_queue import Queue, Told, queued
from kinesym.models.files.sbml_roles import Roles
from kinesym.models.files.sbml_start import unrolled
from kinesym.symbolic.hybrid.events import Event, line_in_time
from kinesym.symbolic.names import check_known, name_of, t

#: Share of a time or level by which what is after, or beyond it, is so.
_JUST_AFTER = 1e-11
#: Functions that may jump.
_JUMPS = (sp.floor, sp.ceiling, sp.sign, sp.Piecewise)


def events_of(roles: Roles, rows: Mapping[Any, sp.Expr]) -> Queue:
    """Events, in the order of the file; section 4.12. Those with the same trigger are one, as all
    use the values that were before any of them, unless they wait for one another. rows : what
    formulas determine."""
    elements, changing = roles.document.each("Events"), _changing(roles, rows)
    every = [_told(roles, rows, changing, e, k) for k, e in enumerate(elements)]
    for one, other in combinations(every, 2):
        _check_order(one, other)
    kept = partial(_with_diluted, roles)
    if _wait(every, rows):
        constants, taken = {*roles.parameters.values()}, map(own_name, roles.document.by_id)
        return queued(every, kept, constants, [*taken])
    found, at_start = dict[Any, Event](), dict[str, sp.Expr]()
    for told in every:
        key, event = (told.guard, told.at_start), Event(told.name, told.guard, 1)
        resets = kept(told.resets)
        if key in found:
            event = replace(found[key], name=f"{found[key].name}, {told.name}")
            resets = {**event.resets, **resets}
        found[key] = replace(event, resets=resets)
    at_start = {event.name: e for (_, e), event in found.items() if e is not None}
    return Queue([*found.values()], {}, at_start)


def _check_order(one: Told, other: Told) -> None:
    """Raise `ValueError` for events that set the same at once, in no order."""
    if one.guard != other.guard or one.delay != other.delay or one.priority != other.priority:
        return
    for what in one.resets.keys() & other.resets.keys():
        raise ValueError(
            f"the events {one.name}, {other.name} set {name_of(what)} at once, in an order that "
            "nothing tells, which is not read; give them priorities"
        )


def _wait(every: Sequence[Told], rows: Mapping[Any, sp.Expr]) -> bool:
    """Whether events wait: for delays, or for one another where they may happen at one time and one
    changes what the other one needs."""
    if any(told.delay != 0 or told.priority is not None for told in every):
        return True
    return any(
        _may_meet(one, other) and (_changes(one, other, rows) or _changes(other, one, rows))
        for one, other in combinations(every, 2)
    )


def _may_meet(one: Told, other: Told) -> bool:
    """Whether triggers may become true at one time, other than as one event. Known times are taken
    to differ where their formulas do."""
    if one.guard == other.guard and one.at_start == other.at_start:
        return not (one.persistent and other.persistent and one.at_trigger == other.at_trigger)
    if one.time is not None and other.time is not None:
        return bool((one.time - other.time).is_zero)
    return True


def _changes(one: Told, other: Told, rows: Mapping[Any, sp.Expr]) -> bool:
    """Whether an event sets what another one sets or, with it, looks at."""
    needed = [*(() if other.persistent else (other.guard,)), *other.resets.values()]
    atoms = set[Any]().union(*(_within(e, rows) for e in needed))
    return bool(one.resets.keys() & (atoms | other.resets.keys()))


def _told(
    roles: Roles, rows: Mapping[Any, sp.Expr], changing: _Changing, e: Element, number: int
) -> Told:
    """An event, as an element of the file tells it."""
    name = e.get("id") or e.get("name") or f"event {number}"
    trigger = e.find("trigger")
    condition = roles.condition(math_of(trigger), f"the trigger of event {name}")
    guard = guard_of(condition, name, changing)
    initially, persistent = (
        trigger is None or flag(trigger, key, True) for key in ("initialValue", "persistent")
    )
    at_start = None if initially else guard
    strict = condition.atoms(sp.StrictGreaterThan, sp.StrictLessThan)
    if initially and strict and guard.atoms(AppliedUndef) and _moves(condition, changing.moving):
        at_start = -sp.Abs(guard)
    more = {
        what: roles.formula(math, f"the {what} of event {name}")
        for what in ("delay", "priority")
        if (math := math_of(e.find(what))) is not None
    }
    resets = dict[Any, sp.Expr]()
    for a in listed(e, "EventAssignments"):
        what = a.get("variable", "")
        check_known(what, roles.states, f"event {name} sets {what}, which follows from a formula")
        if roles.states[what] in resets:
            raise ValueError(f"event {name} sets {what} twice")
        resets[roles.states[what]] = roles.formula(math_of(a), f"event {name}, {what}")
    alone = not _within(guard, rows) & {*roles.states.values()}
    line = line_in_time(unrolled(guard, rows)) if alone else None
    return Told(
        name,
        guard,
        resets,
        at_start,
        -line[0] / line[1] if line else None,
        persistent,
        flag(e, "useValuesFromTriggerTime", True),
        **more,
    )


def _with_diluted(roles: Roles, resets: Mapping[Any, sp.Expr]) -> dict[Any, sp.Expr]:
    """Resets with those of concentrations whose compartments get other sizes."""
    return {**resets, **_diluted(roles, resets)}


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


class _Changing(NamedTuple):
    """Symbols of what changes by more than events, and of what comes to its values by jumps."""

    moving: Set[Any]
    jumping: Set[Any]


def _changing(roles: Roles, rows: Mapping[Any, sp.Expr]) -> _Changing:
    """Symbols of what changes; rows : what formulas determine."""
    held = roles.set_by_events - roles.rates.keys() - roles.changes.keys() - roles.diluted
    moving = {t, *(x for name, x in roles.states.items() if name not in held)}
    jumping = {x for name, x in roles.states.items() if name in roles.set_by_events}
    jumping |= {s for s, e in rows.items() if e.has(*_JUMPS)}
    for symbol in roles.determined.values():
        within = _within(symbol, rows)
        moving |= {symbol} if within & moving else set()
        jumping |= {symbol} if within & jumping else set()
    return _Changing(moving, jumping)


def _moves(e: Any, moving: Set[Any]) -> bool:
    """Whether an expression holds what moves."""
    return bool(_symbols(e) & moving)


def _symbols(e: Any) -> set[Any]:
    """Symbols and functions of time in an expression, without the time of these."""
    functions = e.atoms(AppliedUndef)
    places = {x: sp.Dummy() for x in functions}
    return {*functions, *(e.xreplace(places).atoms(sp.Symbol) - {*places.values()})}


def _within(e: Any, rows: Mapping[Any, sp.Expr]) -> set[Any]:
    """Symbols and functions in an expression, and in what determines them."""
    found, new = set[Any](), _symbols(e)
    while new:
        found |= new
        new = set[Any]().union(*(_symbols(rows[s]) for s in new & rows.keys())) - found
    return found


def guard_of(condition: Any, name: str, changing: _Changing) -> sp.Expr:
    """Expression that rises through zero where a condition becomes true."""
    match condition:
        case sp.And():
            return sp.Min(*(guard_of(part, name, changing) for part in condition.args))
        case sp.Or():
            return sp.Max(*(guard_of(part, name, changing) for part in condition.args))
        case Relational() if not _moves(condition, changing.moving):
            return sp.Piecewise((1, condition), (-1, True))  # which has a side where both are equal
        case sp.GreaterThan() | sp.LessThan():
            return condition.gts - condition.lts + _beside(condition, changing)
        case sp.StrictGreaterThan() | sp.StrictLessThan():
            return condition.gts - condition.lts - _beside(condition, changing)
        case sp.Xor() | sp.Implies() | sp.Not():
            return guard_of(sp.to_nnf(condition, simplify=False), name, changing)
    raise ValueError(f"the trigger of event {name} is {condition}, which is not read")


def _beside(condition: Any, changing: _Changing) -> sp.Expr:
    """Share of a guard by which both sides of a condition are told apart where they are equal: of a
    strict one at the start, of others after a jump to that very level. A strict one on time is met
    just after, so that a sample at that time shows the state before."""
    guard, moving = condition.gts - condition.lts, changing.moving
    strict = isinstance(condition, sp.StrictGreaterThan | sp.StrictLessThan)
    if not _moves(guard, moving - {t}) and (by_time := guard.diff(t)).is_number:
        return _JUST_AFTER * (1 + t) if strict and by_time > 0 else sp.S.Zero
    if not (strict or guard.has(*_JUMPS) or _moves(guard, changing.jumping)):
        return sp.S.Zero
    fixed = [e for e in condition.args if not _moves(e, moving) and not e.atoms(AppliedUndef)]
    return _JUST_AFTER * sp.Abs(fixed[0]) if fixed else sp.S.Zero
