"""Events of SBML that wait: with delays and priorities, and several at one time.

An event is triggered at one time and executed at another, or after others at the same time (SBML
Level 3 Version 2 Core, sections 4.12.5 and 4.12.6). States without a rate remember what waits: per
event whether it does, since when its delay is over, and values from the time of its trigger. Events
that set these stand before those that execute, so that all triggers of one time are seen first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.names import name_of, t

#: Executions of one event that wait at a time, at most: its trigger is true again before its delay
#: is over.
_MOST = 4
_HALF = sp.Rational(1, 2)
#: Resets of states with those that follow from them.
Kept: TypeAlias = Callable[[Mapping[Any, sp.Expr]], Mapping[Any, sp.Expr]]


@dataclass(frozen=True)
class Told:
    """An event as the file tells it.

    guard : rises through zero where the trigger becomes true. at_start : not negative where it is
    triggered at the start, or as soon as time goes on; None if it is not. time : at which it is
    triggered alone, if that is known. persistent : whether it is executed though its trigger is
    false again. at_trigger : whether values are those at the trigger.
    """

    name: str
    guard: sp.Expr
    resets: Mapping[AppliedUndef, sp.Expr]
    at_start: sp.Expr | None = None
    time: sp.Expr | None = None
    persistent: bool = True
    at_trigger: bool = True
    delay: sp.Expr = sp.S.Zero
    priority: sp.Expr | None = None


class Queue(NamedTuple):
    """Events; values at the start of the states that remember what waits; by names of events,
    expressions that are not negative where these happen at the start."""

    events: Sequence[Event]
    memory: Mapping[AppliedUndef, sp.Expr]
    at_start: Mapping[str, sp.Expr]


@dataclass(frozen=True)
class _Place:
    """A place where one execution of an event waits. state : 0 if none does, 1 during the delay, 2
    after it. end : time at which it ends. values : states that keep values of the time of the
    trigger, by what they are for."""

    name: str
    told: Told
    state: AppliedUndef
    end: AppliedUndef
    values: Mapping[AppliedUndef, AppliedUndef]

    @property
    def ready(self) -> Any:
        """Whether it waits for others alone."""
        return self.state > 1 + _HALF

    @property
    def free(self) -> Any:
        return self.state < _HALF

    @property
    def memory(self) -> list[AppliedUndef]:
        """The states of this place."""
        return [self.state, *([self.end] if self.told.delay != 0 else ()), *self.values.values()]

    def trigger(self, others: Sequence[_Place]) -> Event:
        """Event that takes the place, if it is free and the others are not."""
        told, delay = self.told, self.told.delay
        resets: dict[Any, sp.Expr] = {self.state: sp.Piecewise((1, delay > 0), (2, True))}
        if delay != 0:
            resets[self.end] = t + delay
        resets |= {value: told.resets[x] for x, value in self.values.items()}
        when = _sign(sp.And(self.free, *(sp.Not(other.free) for other in others)))
        return Event(_trigger(self.name), told.guard, 1, when=when, resets=resets)

    @property
    def over(self) -> Event:
        """The end of the delay."""
        waits = _HALF - sp.Abs(self.state - 1)
        return Event(f"delay of {self.name}", t - self.end, 1, when=waits, resets={self.state: 2})

    def execution(self, every: Sequence[_Place], kept: Kept) -> Event:
        """Event of the resets, after those of higher priority that are ready too."""
        first = sp.And(self.ready, *(self._precedes(other) for other in every))
        resets = {x: self.values.get(x, e) for x, e in self.told.resets.items()}
        return Event(self.name, _sign(first), 1, resets={**kept(resets), self.state: sp.S.Zero})

    def _precedes(self, other: _Place) -> Any:
        mine, its = self.told.priority, other.told.priority
        if other.told is self.told or its is None:
            return sp.true
        return sp.Not(other.ready) if mine is None else sp.Or(sp.Not(other.ready), its <= mine)


def queued(
    every: Sequence[Told], kept: Kept, constants: Set[sp.Basic], taken: Collection[str]
) -> Queue:
    """Events that wait for one another, in the order of the file where neither times nor priorities
    tell another one. kept : resets of states with those that follow from them. taken : names."""
    names = {*taken}
    rows = [_places(told, constants, names) for told in every]
    places = [place for row in rows for place in row]
    return Queue(
        [
            *(_full(row) for row in rows if _may_be_full(row[0].told)),
            *(row[k].trigger(row[:k]) for row in rows for k in reversed(range(len(row)))),
            *(_false_again(row) for row in rows if not row[0].told.persistent),
            *(place.over for place in places if place.told.delay != 0),
            *(place.execution(places, kept) for place in places),
        ],
        {x: sp.S.Zero for place in places for x in place.memory},
        {_trigger(told.name): told.at_start for told in every if told.at_start is not None},
    )


def _trigger(name: str) -> str:
    return f"trigger of {name}"


def _may_be_full(told: Told) -> bool:
    """Whether it may be triggered while executions wait."""
    return told.persistent and told.time is None


def _places(told: Told, constants: Set[sp.Basic], names: set[str]) -> list[_Place]:
    """Places of an event; names : what is taken, and theirs."""
    found, own = list[_Place](), re.sub(r"\W", "_", told.name, flags=re.ASCII)
    moving = [x for x, e in told.resets.items() if told.at_trigger and e.free_symbols - constants]
    for k in range(_MOST if _may_be_full(told) and told.delay != 0 else 1):
        name = f"{told.name} ({k + 1})" if k else told.name
        state, end = _state(f"{own}_waits", names), _state(f"{own}_end", names)
        values = {x: _state(f"{own}_{name_of(x)}", names) for x in moving}
        found.append(_Place(name, told, state, end, values))
    return found


def _state(name: str, names: set[str]) -> AppliedUndef:
    """A state by a name that is not taken, which then is."""
    while name in names:
        name += "_"
    names.add(name)
    return sp.Function(name)(t)


def _full(row: Sequence[_Place]) -> Event:
    """Failure of a run that triggers an event once more than it has places."""
    told = row[0].told
    when = _sign(sp.And(*(sp.Not(place.free) for place in row)))
    count = f"{len(row)} of its executions wait" if len(row) > 1 else "it waits"
    name = f"trigger of {told.name} while {count}, which is not read"
    return Event(name, told.guard, 1, when=when, failure=True)


def _false_again(row: Sequence[_Place]) -> Event:
    """Event that clears the places where the trigger is false again."""
    resets = {place.state: sp.S.Zero for place in row}
    told = row[0].told
    return Event(f"end of the trigger of {told.name}", told.guard, -1, resets=resets)


def _sign(condition: Any) -> sp.Expr:
    """1 where a condition of what waits holds, else -1."""
    return sp.Piecewise((1, condition), (-1, True))
