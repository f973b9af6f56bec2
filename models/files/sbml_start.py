"""Starts of a model in SBML whose events happen as time begins.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp

from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t


def after_events(
    system: Model | Hybrid,
    at_start: Mapping[str, sp.Expr],
    starts: Mapping[str, Any],
    known: Mapping[str, float],
) -> dict[str, Any]:
    """Values of states by name after the events that happen at the start, section 4.12.2, all with
    the values before any of them.

    at_start : by names of events, expressions that are not negative where these happen. starts :
    values before them, numbers or expressions of parameters. known : parameters that have these
    values whatever happens. Raises `ValueError` where an event happens by the values of the model,
    but others might prevent it, where a second event would follow, and where two set one state.
    """
    if not isinstance(system, Hybrid) or not at_start:
        return dict(starts)
    model, events = system.model, {e.name: e for e in system.events}
    numbers = {sp.Symbol(name): value for name, value in known.items()}

    def now(e: Any, values: Mapping[str, Any]) -> sp.Expr:
        place = {x: values[name_of(x)] for x in model.states if name_of(x) in values}
        place = {x: real_expression(value, f"the start of {x}") for x, value in place.items()}
        rows = {**dict(model.intermediates), **place, t: sp.S.Zero}
        return unrolled(real_expression(e, "a start"), rows).subs(numbers)

    found = dict[str, Any]()
    for name, e in at_start.items():
        value, guard = now(e, starts), events[name].guard
        if not value.is_number:
            if value.subs(model.values) >= 0:
                raise ValueError(
                    f"event {name} happens at the start by the values of parameters, which is not "
                    "read"
                )
        elif value >= 0 and e != guard:
            raise ValueError(
                f"event {name} may happen as soon as time goes on, as its trigger begins at "
                "equality, which is not read"
            )
        elif value >= 0:
            for x, row in events[name].resets.items():
                if name_of(x) in found:
                    raise ValueError(f"two events at the start set {name_of(x)}, which is not read")
                found[name_of(x)] = now(row, starts)
    if found:
        _check_no_other(system, lambda e: now(e, starts), lambda e: now(e, {**starts, **found}))
    return {**starts, **found}


def _check_no_other(system: Hybrid, before: Any, after: Any) -> None:
    """Raise `ValueError` for an event that the first ones trigger; before, after : values of an
    expression."""
    for event in system.events:
        sides = [at(event.guard).subs(system.model.values) for at in (before, after)]
        if all(side.is_number for side in sides) and sides[0] < 0 <= sides[1]:
            raise ValueError(f"event {event.name} follows from one at the start, which is not read")


def unrolled(e: sp.Expr, rows: Mapping[Any, Any]) -> sp.Expr:
    """An expression with what is determined in it written out."""
    while atoms_of(e) & rows.keys():
        e = e.xreplace(dict(rows))
    return e
