"""Starts of a model in SBML whose events happen as time begins.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import sympy as sp

from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t

#: Events at the start beyond which they are taken to go on for ever, per event of the system.
_MOST = 10


def after_events(
    system: Model | Hybrid,
    at_start: Mapping[str, sp.Expr],
    starts: Mapping[str, Any],
    known: Mapping[str, float],
    time: float = 0.0,
) -> dict[str, Any]:
    """Values of states by name after the events that happen at the start, section 4.12.2, with the
    values before any of them, and then those that follow from these.

    at_start : by names of events, expressions that are not negative where these happen. starts :
    values before them, numbers or expressions of parameters. known : parameters that have these
    values whatever happens. time : of the start. Raises `ValueError` where an event happens by
    the values of the model, but others might prevent it, where two at once set one state, and
    where no end is seen.
    """
    if not isinstance(system, Hybrid) or not at_start:
        return dict(starts)
    start = _Start(system, {sp.Symbol(name): value for name, value in known.items()}, time)
    due, found = start.due(at_start, starts), dict[str, Any]()
    for event in due:
        for name, value in start.after(event, starts).items():
            if name in found:
                raise ValueError(f"two events at the start set {name}, which is not read")
            found[name] = value
    if not due:
        return dict(starts)
    sides, values = start.guards(starts), {**starts, **found}
    for _ in range(_MOST * len(system.events)):
        following = start.next(sides, values)
        if following is None:
            return values
        values |= start.after(following, values)
    raise ValueError("events at the start follow from one another without an end")


@dataclass(frozen=True)
class _Start:
    """Events at the start, a time. known : parameters that have these values whatever happens."""

    system: Hybrid
    known: Mapping[sp.Symbol, float]
    time: float

    def now(self, e: Any, values: Mapping[str, Any]) -> sp.Expr:
        """An expression where states have these values."""
        model = self.system.model
        place = {x: values[name_of(x)] for x in model.states if name_of(x) in values}
        place = {x: real_expression(value, f"the start of {x}") for x, value in place.items()}
        rows = {**dict(model.intermediates), **place, t: sp.Float(self.time)}
        return unrolled(real_expression(e, "a start"), rows).subs(self.known)

    def due(self, at_start: Mapping[str, sp.Expr], values: Mapping[str, Any]) -> list[Event]:
        """Events that happen at the start."""
        found = list[Event]()
        for event in self.system.events:
            if (e := at_start.get(event.name)) is None:
                continue
            value = self.now(e, values)
            if not self._number(value) >= 0:
                continue
            self._check(event, value)
            if e != event.guard:
                raise ValueError(
                    f"event {event.name} may happen as soon as time goes on, as its trigger begins "
                    "at equality, which is not read"
                )
            found.append(event)
        return found

    def after(self, event: Event, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values that an event sets."""
        return {name_of(x): self.now(e, values) for x, e in event.resets.items()}

    def guards(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of guards, as far as they are known."""
        return {e.name: self.now(e.guard, values) for e in self.system.events}

    def next(self, sides: dict[str, Any], values: Mapping[str, Any]) -> Event | None:
        """The first event whose guard has come to its other side, which is noted in `sides`."""
        here = self.guards(values)
        for event in self.system.events:
            old, new = sides[event.name], here[event.name]
            signs = [self._number(value) >= 0 for value in (old, new)]
            if signs[0] == signs[1]:
                continue
            sides[event.name] = new
            armed = self._number(self.now(event.when, values)) > 0
            if armed and event.direction in (0, 1 if signs[1] else -1):
                self._check(event, old, new)
                return event
        return None

    def _number(self, value: sp.Expr) -> float:
        """A value by the parameters of the model; NaN if there is none."""
        number = value.subs(self.system.model.values)
        return float(number) if number.is_number else nan

    def _check(self, event: Event, *values: sp.Expr) -> None:
        """Raise `ValueError` where an event depends on what others may say."""
        if not all(value.is_number for value in values):
            raise ValueError(
                f"event {event.name} happens at the start by the values of parameters, which is "
                "not read"
            )


def unrolled(e: sp.Expr, rows: Mapping[Any, Any]) -> sp.Expr:
    """An expression with what is determined in it written out."""
    while atoms_of(e) & rows.keys():
        e = e.xreplace(dict(rows))
    return e
