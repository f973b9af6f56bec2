"""Matching of the events of two runs of the same system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.event_log import EventLog, EventRecord


class EventShifts(NamedTuple):
    """Shifts of the events of a run, from a more accurate run.

    times : correction of the time of each event, estimated [s], NaN where the runs have parted.
    apart : nodes at which the runs, or the exact motion, differ in the events so far. words :
    events whose numbers differ, if any.
    """

    times: Array
    apart: NDArray[np.bool_]
    words: str


def event_shifts(
    run: EventLog | None, finer: EventLog | None, time: Array, factor: float
) -> EventShifts:
    """Compare the events of a run on nodes (N,) with those of a run with finer steps: the first
    impact of a contact with the first one, the second with the second. factor : of the difference,
    for the error of the run."""
    here, there = _times(run), _times(finer)
    apart, none = np.zeros(len(time), dtype=bool), np.zeros(0)
    shifts: dict[str, Array] = {}
    different: list[str] = []
    for label in dict.fromkeys([*here, *there]):
        mine, others = here.get(label, none), there.get(label, none)
        count = min(len(mine), len(others))
        shifts[label] = np.full(len(mine), np.nan)
        shifts[label][:count] = factor * (others[:count] - mine[:count])
        exact = np.sort(np.append(mine[:count] + shifts[label][:count], others[count:]))
        counts = [np.searchsorted(times, time, "right") for times in (mine, others, exact)]
        apart |= (counts[0] != counts[1]) | (counts[0] != counts[2])
        if len(mine) != len(others):
            different.append(f"{label} {len(others)} times, not {len(mine)}")
    # at the last node alone, an event may just have happened, or be just about to
    words = different[0] if different and apart[-2:].all() else ""
    together = np.append(-np.inf, time[~apart])[-1] if words else np.inf
    return EventShifts(_in_order(run, shifts, together), apart, words)


def _label(event: EventRecord) -> str:
    return f"{event.kind} {event.name}".rstrip()


def _times(log: EventLog | None) -> dict[str, Array]:
    """Times of events by kind and name."""
    found: dict[str, list[float]] = {}
    for event in log.events if log else ():
        found.setdefault(_label(event), []).append(event.time)
    return {label: np.array(times) for label, times in found.items()}


def _in_order(log: EventLog | None, shifts: Mapping[str, Array], together: float) -> Array:
    """Shifts of all events in order of time; NaN after the runs were `together`."""
    left = {label: iter(row.tolist()) for label, row in shifts.items()}
    events = log.events if log else ()
    found = [(event.time, next(left[_label(event)])) for event in events]
    return np.array([shift if time <= together else np.nan for time, shift in found])
