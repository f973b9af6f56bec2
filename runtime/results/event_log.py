"""Event log of a simulation: its events in order, and its final state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import shown
from kinesym.runtime.arrays import Array
from kinesym.runtime.native import LOG_KINDS

Integers = NDArray[np.intc]

#: Kinds of entries of the log, in the order of their numbers in C.
KINDS = tuple(sorted(LOG_KINDS, key=LOG_KINDS.__getitem__))


def _none() -> Integers:
    return np.zeros(0, dtype=np.intc)


@dataclass(frozen=True, eq=False)
class EventRecord:
    """Entry of the event log: "clock" (an input breaks), "impact", "close" (a contact begins to
    press), "release", "slide" (it begins or ends to slide), or "event".

    name : of the contact or event; "" for a clock. states : their names. rows : their values before
    and after, (2, n).
    """

    time: float
    kind: str
    name: str
    states: Sequence[str]
    rows: Array

    @property
    def before(self) -> dict[str, float]:
        """States just before, by name."""
        return dict(zip(self.states, self.rows[0].tolist(), strict=True))

    @property
    def after(self) -> dict[str, float]:
        """States just after, by name."""
        return dict(zip(self.states, self.rows[1].tolist(), strict=True))

    def __str__(self) -> str:
        return f"{self.time:.9g} s: {self.kind} {self.name}".rstrip()

    __repr__ = __str__


#: States of a contact, by number.
_CONTACTS = ("open", "active", "leaving")


@dataclass(frozen=True, eq=False, repr=False)
class HybridState:
    """State of a hybrid simulation: all that continues it, as `initial` of another one.

    x : states (n,). modes : (d,). contacts : of each, 0 open, 1 active, 2 leaving. friction : of
    active ones, 1 sticks, 2 slides forwards, 3 backwards. armed : for each event, the side of
    zero on which its guard is, 1 or -1, 0 if it is not known.
    """

    time: float
    x: Array
    modes: Array = field(default_factory=lambda: np.zeros(0))
    contacts: Integers = field(default_factory=_none)
    friction: Integers = field(default_factory=_none)
    armed: Integers = field(default_factory=_none)

    def __repr__(self) -> str:
        groups = [("x", self.x), ("modes", self.modes)]
        words = [
            f"{name} = {', '.join(f'{value:.6g}' for value in values[:12])}"
            + ", ..." * (len(values) > 12)
            for name, values in groups
            if len(values)
        ]
        if len(self.contacts):
            words.append(f"contacts {', '.join(_CONTACTS[k] for k in self.contacts)}")
        return f"<state at t = {self.time:.6g} s: {'; '.join(words)}>"


@dataclass(frozen=True, eq=False)
class EventLog:
    """Event log of a run: its events in order, breaks of inputs included, and its final state.

    contacts : names of all, and of those that `pressed` at the start. named, modes : names of the
    events and modes of the system. work : steps taken, steps rejected, evaluations of x'.
    """

    entries: tuple[EventRecord, ...]
    final: HybridState
    contacts: tuple[str, ...] = ()
    pressed: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    work: tuple[int, int, int] = (0, 0, 0)
    modes: tuple[str, ...] = ()

    @cached_property
    def events(self) -> tuple[EventRecord, ...]:
        """Entries without breaks of inputs; those are `happened("clock")`."""
        return tuple(e for e in self.entries if e.kind != "clock")

    def pressing(self, contact: str, start: float) -> list[tuple[float, float]]:
        """Time spans (begin, end) in which a contact presses [s], of a run from `start` on."""
        begin = start if contact in self.pressed else None
        spans = []
        for event in (e for e in self.events if e.name == contact):
            if event.kind == "close" and begin is None:
                begin = event.time
            elif event.kind == "release" and begin is not None:
                spans.append((begin, event.time))
                begin = None
        return spans if begin is None else [*spans, (begin, self.final.time)]

    def between(self, begin: float, end: float, start: float, last: HybridState) -> EventLog:
        """Part of the log of a run from `start` on. last : states and modes at its last node, where
        it ends if the run goes on after `end`."""

        def pressed(time: float) -> list[bool]:
            spans = [self.pressing(contact, start) for contact in self.contacts]
            return [any(a <= time < b for a, b in mine) for mine in spans]

        final = self.final
        if end < final.time:
            pressing = np.array(pressed(last.time), dtype=np.intc)
            unknown = np.zeros_like(self.final.armed)
            final = replace(last, contacts=pressing, friction=np.ones_like(pressing), armed=unknown)
        at_begin = zip(self.contacts, pressed(max(begin, start)), strict=True)
        return replace(
            self,
            entries=tuple(e for e in self.entries if begin <= e.time <= end),
            final=final,
            pressed=tuple(name for name, presses in at_begin if presses),
        )


def check_known(name: str, known: Sequence[str], what: str) -> None:
    """Raise `ValueError` for an unknown kind of event, contact or event."""
    if not isinstance(name, str) or name not in known:
        every = ", ".join(known) or "none"
        raise ValueError(f"there is no {what} {shown(name)}; there are {every}")


@dataclass(frozen=True)
class EventTable:
    """Table of the logs of one run, or of the members of an ensemble, for files: a row for each
    entry, its states before and after; `ends` has the other fields of each log."""

    event_member: Annotated[Integers, "event"]
    event_time: Annotated[Array, "event"]
    event_kind: Annotated[NDArray[np.str_], "event"]
    event_name: Annotated[NDArray[np.str_], "event"]
    event_states: Annotated[Array, "event", "side", "state"]
    states: Sequence[str]
    ends: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, logs: Sequence[EventLog]) -> EventTable:
        """Table of logs."""
        entries = [(k, e) for k, log in enumerate(logs) for e in log.entries]
        return cls(
            np.array([k for k, _ in entries], dtype=np.intc),
            np.array([e.time for _, e in entries], dtype=np.float64),
            np.array([e.kind for _, e in entries], dtype=np.str_),
            np.array([e.name for _, e in entries], dtype=np.str_),
            np.array([e.rows for _, e in entries]).reshape(len(entries), 2, len(logs[0].final.x)),
            entries[0][1].states if entries else (),
            [
                {name: getattr(log, name) for name in _LISTS} | {"final": vars(log.final)}
                for log in logs
            ],
        )

    def logs(self) -> list[EventLog]:
        """Logs from which the table was made."""
        entries: list[list[EventRecord]] = [[] for _ in self.ends]
        columns = (self.event_member, self.event_time, self.event_kind, self.event_name)
        for (k, time, kind, name), rows in zip(
            zip(*(column.tolist() for column in columns), strict=True),
            self.event_states,
            strict=True,
        ):
            entries[k].append(EventRecord(time, kind, name, self.states, rows))
        return [
            EventLog(
                tuple(mine), _state(**end["final"]), *(tuple(end.get(name, ())) for name in _LISTS)
            )
            for mine, end in zip(entries, self.ends, strict=True)
        ]


_LISTS = ("contacts", "pressed", "named", "work", "modes")


def _state(time: float, **rows: Any) -> HybridState:
    """Final state of a run, from lists of numbers."""
    kinds: dict[str, Any] = {"x": np.float64, "modes": np.float64}
    arrays = {name: np.array(row, kinds.get(name, np.intc)) for name, row in rows.items()}
    return HybridState(time, **arrays)
