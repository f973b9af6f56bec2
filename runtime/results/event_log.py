"""What happened in a simulation, in order, and where it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native import LOG_KINDS

Array = NDArray[np.float64]
Integers = NDArray[np.intc]

#: Kinds of entries of the log, in the order of their numbers in C.
KINDS = tuple(sorted(LOG_KINDS, key=LOG_KINDS.__getitem__))


def _none() -> Integers:
    return np.zeros(0, dtype=np.intc)


@dataclass(frozen=True, eq=False)
class EventRecord:
    """An entry of the log: "clock" (an input breaks), "impact", "close" (a contact begins to
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


@dataclass(frozen=True, eq=False)
class HybridState:
    """Where a simulation is: all that it takes to go on, as `initial` of another one.

    x : states (n,). modes : (d,). contacts : of each, 0 open, 1 active, 2 leaving. friction : of
    active ones, 1 sticks, 2 slides forwards, 3 backwards. armed : of each event.
    """

    time: float
    x: Array
    modes: Array = field(default_factory=lambda: np.zeros(0))
    contacts: Integers = field(default_factory=_none)
    friction: Integers = field(default_factory=_none)
    armed: Integers = field(default_factory=_none)


@dataclass(frozen=True, eq=False)
class EventLog:
    """What happened in a run, in order, and where it ended.

    entries : with the breaks of inputs. final : where it ended. contacts : their names, and which
    of them `pressed` at the start. named : names of the events of the system. work : steps taken,
    steps rejected, evaluations of x'.
    """

    entries: tuple[EventRecord, ...]
    final: HybridState
    contacts: tuple[str, ...] = ()
    pressed: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    work: tuple[int, int, int] = (0, 0, 0)

    @cached_property
    def events(self) -> tuple[EventRecord, ...]:
        """Without breaks of inputs; those are `happened("clock")`."""
        return tuple(e for e in self.entries if e.kind != "clock")

    def happened(self, kind: str, name: str | None = None) -> list[EventRecord]:
        """Those of a kind, and of a contact or event.

        Raises `ValueError` for an unknown kind, contact or event.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
        known = (*self.contacts, *self.named)
        if name is not None and name not in known:
            raise ValueError(
                f"there is no contact or event {name!r}; there are {', '.join(known) or 'none'}"
            )
        return [e for e in self.entries if e.kind == kind and name in (None, e.name)]

    def pressing(self, contact: str, first: float) -> list[tuple[float, float]]:
        """From when to when a contact presses, in a run from `first` on [s].

        Raises `ValueError` for an unknown contact.
        """
        if contact not in self.contacts:
            raise ValueError(
                f"there is no contact {contact!r}; there are {', '.join(self.contacts) or 'none'}"
            )
        begin = first if contact in self.pressed else None
        spans = []
        for event in self.events:
            if event.name != contact:
                continue
            if event.kind == "close" and begin is None:
                begin = event.time
            elif event.kind == "release" and begin is not None:
                spans.append((begin, event.time))
                begin = None
        return spans if begin is None else [*spans, (begin, self.final.time)]


# -- files ----------------------------------------------------------------------------------------

_ROWS = ("x", "modes", "contacts", "friction", "armed")


def logs_as_variables(
    logs: Sequence[EventLog], states: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Logs of one run or of the members of an ensemble, as variables over `event` and attributes of
    a dataset; nothing if there are none."""
    if not logs:
        return {}, {}
    entries = [(k, e) for k, log in enumerate(logs) for e in log.entries]
    rows = np.array([e.rows for _, e in entries]).reshape(-1, 2, len(states))
    about = {"kind": "events"}
    variables: dict[str, Any] = {
        "event_member": ("event", np.array([k for k, _ in entries], dtype=np.int64), about),
        "event_time": ("event", np.array([e.time for _, e in entries]), about),
        "event_kind": ("event", np.array([KINDS.index(e.kind) for _, e in entries], int), about),
        "event_states": (("event", "side", "state"), rows, about),
    }
    ends = [
        {"pressed": log.pressed, "work": log.work, "time": log.final.time}
        | {name: getattr(log.final, name).tolist() for name in _ROWS}
        for log in logs
    ]
    told = {
        "states": list(states),
        "names": [e.name for _, e in entries],
        "contacts": logs[0].contacts,
        "named": logs[0].named,
        "ends": ends,
    }
    return variables, {"events": json.dumps(told)}


def logs_of(data: Any) -> list[EventLog]:
    """What `logs_as_variables` made, from a dataset that has it; else nothing."""
    if "events" not in data.attrs:
        return []
    told = json.loads(data.attrs["events"])
    columns = (data[f"event_{name}"].to_numpy() for name in ("member", "time", "kind", "states"))
    entries: list[list[EventRecord]] = [[] for _ in told["ends"]]
    for member, time, kind, rows, name in zip(*columns, told["names"], strict=True):
        event = EventRecord(float(time), KINDS[int(kind)], name, told["states"], rows)
        entries[int(member)].append(event)
    names = (tuple(told["contacts"]), tuple(told["named"]))
    return [
        EventLog(
            tuple(mine), _state(end), names[0], tuple(end["pressed"]), names[1], tuple(end["work"])
        )
        for mine, end in zip(entries, told["ends"], strict=True)
    ]


def _state(end: Mapping[str, Any]) -> HybridState:
    """Where a run ended, from its file."""
    integers = {name: np.array(end[name], dtype=np.intc) for name in _ROWS[2:]}
    return HybridState(
        end["time"], np.array(end["x"], float), np.array(end["modes"], float), **integers
    )
