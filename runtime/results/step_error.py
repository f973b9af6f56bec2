"""Discretisation error of a simulation, estimated with finer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.event_log import EventLog
from kinesym.runtime.results.event_shifts import event_shifts
from kinesym.runtime.results.plot import chosen, panels
from kinesym.runtime.results.saved import Saved

PerNode: TypeAlias = Annotated[Array, "node"]
PerEvent: TypeAlias = Annotated[Array, "event"]
Rows: TypeAlias = Annotated[Array, "member", "node"]
RowsOfEvents: TypeAlias = Annotated[Array, "member", "event"]

#: Least range of a state, as a share of its size: else rounding would be an error of 100 %.
_LEAST_RANGE = 1e-8
#: Least range of a state, as a share of the largest state of all.
_NOTHING = 1e-12
#: Members that are drawn at most.
_SHOWN = 30


class Lost(NamedTuple):
    """Time [s] from which on a repeated run is not valid, with the reason, and the member of an
    ensemble."""

    time: float
    words: str
    member: int = 0


class Finer(NamedTuple):
    """Run repeated with finer steps: description, Richardson factor (error of the first run over
    the difference to this one), and where the estimate is invalid; said : limits of the estimate.
    """

    run: Any
    method: str
    steps: str
    factor: float
    lost: tuple[Lost, ...] = ()
    said: str = ""


class Worst(NamedTuple):
    """Largest shift as a share of the range of its state, that state, the time [s], and the member
    of an ensemble."""

    share: float
    state: str
    time: float
    member: int = 0


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StepError(Saved):
    """Discretisation error of a simulation, estimated by Richardson extrapolation.

    A shift is what has to be added to the run for the exact motion, as in `GridError`: the
    difference to a run with finer steps, times a factor from the order of the method.

    method, steps : of the run, and how the finer one was made. time : of the nodes [s]. states :
    shifts by name in the unit of the state, (N,), NaN where they are not known: between an event
    and the same event in the finer run, where events are not the same any more, and where algebraic
    states are on another solution of their equations. events : shifts of the times of `run.events`
    [s]. ranges : of the states. message : why the shifts are not known everywhere.
    """

    method: str
    steps: str
    time: PerNode
    states: Mapping[str, PerNode]
    events: PerEvent
    ranges: Mapping[str, float]
    message: str = ""

    @property
    def largest(self) -> float:
        """Largest shift as a share of the range of its state."""
        return self.worst.share

    @property
    def worst(self) -> Worst:
        """Location of the largest shift, relative to the ranges of states."""
        found = Worst(0.0, "", np.nan)
        for name, row in self.states.items():
            shares = np.abs(np.atleast_2d(row)) / (self.ranges[name] or 1.0)
            if np.isfinite(shares).any():
                member, node = divmod(int(np.nanargmax(shares)), shares.shape[1])
                share = float(shares[member, node])
                found = max(found, Worst(share, name, float(self.time[node]), member))
        return found

    def __str__(self) -> str:
        """Verdict in one line."""
        share, name, at, member = self.worst
        words = "not known" if self.message else "none that could be seen"
        if share:
            words = f"{share:.2g} of the range of {name} at most, at t = {at:.6g} s"
            words += self._whose(member)
        late = np.abs(self.events[np.isfinite(self.events)]).max(initial=0.0)
        words += f", events by {late:.2g} s" if late else ""
        return f"{words} ({self.steps})" + (f"; {self.message}" if self.message else "")

    def _whose(self, member: int) -> str:
        return ""

    def __repr__(self) -> str:
        return f"<error of the steps, {self.method}: {self}>"

    def plot(self, names: Sequence[Any] | None = None) -> Any:
        """Figure, one panel per state: the shift of the run over time."""
        wanted = chosen(names, self.states)
        figure, axes = panels(wanted, f"Error of the steps, {self.method} ({self.steps})")
        for axis, name in zip(axes, wanted, strict=True):
            rows = np.abs(np.atleast_2d(self.states[name]))
            rows = np.where(rows > 0.0, rows, np.nan)  # zero has no place on a logarithmic axis
            for row in rows[np.unique(np.linspace(0, len(rows) - 1, _SHOWN).astype(int))]:
                axis.plot(self.time, row, lw=1.2 if len(rows) == 1 else 0.5, color="C0")
            if np.isfinite(rows).any():
                axis.set_yscale("log")
            else:
                axis.set_ylim(0.0, 1.0)
        return figure


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EnsembleError(StepError):
    """Discretisation errors of the members of an ensemble; see `StepError`.

    states : (M, N). events : (M, E), NaN beyond the events of a member. ranges : of all members.
    """

    states: Mapping[str, Rows]
    events: RowsOfEvents

    def _whose(self, member: int) -> str:
        return f" of member {member}"


def error_of_run(run: Any, finer: Finer) -> StepError:
    """Discretisation error of a trajectory, from its repetition with finer steps."""
    rows = {name: row[None] for name, row in run.states.items()}
    others = {name: row[None] for name, row in finer.run.states.items()}
    shifts, events, apart = _shifts(
        run, finer, rows, others, [run.event_log], [finer.run.event_log]
    )
    message = apart or _lost(finer) or _ended(shifts, finer.run.message) or finer.said
    return StepError(
        method=finer.method,
        steps=finer.steps,
        time=run.time,
        states={name: row[0] for name, row in shifts.items()},
        events=events[0],
        ranges=_ranges(rows),
        message=message,
    )


def error_of_ensemble(runs: Any, finer: Finer) -> EnsembleError:
    """Discretisation error of an ensemble, from its repetition with finer steps."""
    rows, others = dict(runs.states), dict(finer.run.states)
    logs = (runs.event_logs or [None] * len(runs), finer.run.event_logs or [None] * len(runs))
    shifts, events, apart = _shifts(runs, finer, rows, others, *logs)
    known = {failure.member for failure in runs.failures}
    more = [f for f in finer.run.failures if f.member not in known]
    words = f"member {more[0].member}: {more[0].message}" if more else ""
    return EnsembleError(
        method=finer.method,
        steps=finer.steps,
        time=runs.time,
        states=shifts,
        events=events,
        ranges=_ranges(rows),
        message=apart or _lost(finer, "member {}: ") or _ended(shifts, words) or finer.said,
    )


def _lost(finer: Finer, whose: str = "") -> str:
    """Message on the first member whose finer run is not valid, empty if there is none."""
    return "".join(whose.format(lost.member) + lost.words for lost in finer.lost[:1])


def _ended(shifts: Mapping[str, Array], words: str) -> str:
    """Message that the finer run ended early, if shifts are unknown for that."""
    lost = any(np.isnan(row).any() for row in shifts.values())
    return f"the run with finer steps ended early: {words}" if words and lost else ""


def _ranges(rows: Mapping[str, Array]) -> dict[str, float]:
    """Range of each state over all members and times, at least its possible rounding."""
    some = {name: row[np.isfinite(row)] for name, row in rows.items()}
    sizes = {name: float(np.abs(row).max(initial=0.0)) for name, row in some.items()}
    largest = _NOTHING * max(sizes.values(), default=0.0)
    return {
        name: max(float(np.ptp(row)) if row.size else 0.0, _LEAST_RANGE * sizes[name], largest)
        for name, row in some.items()
    }


def _shifts(
    run: Any,
    finer: Finer,
    rows: Mapping[str, Array],
    others: Mapping[str, Array],
    logs: Sequence[EventLog | None],
    finer_logs: Sequence[EventLog | None],
) -> tuple[dict[str, Array], Array, str]:
    """Shifts of states (M, N) and of events (M, E), and a sentence if events are not the same."""
    place = np.searchsorted(finer.run.time, run.time)
    there = place < len(finer.run.time)  # it may have ended earlier
    shifts = {name: np.full(row.shape, np.nan) for name, row in rows.items()}
    for name, row in shifts.items():
        row[:, there] = finer.factor * (others[name][:, place[there]] - rows[name][:, there])
        for lost in finer.lost:
            row[lost.member, run.time > lost.time] = np.nan
    pairs = zip(logs, finer_logs, strict=True)
    found = [event_shifts(*pair, run.time, finer.factor) for pair in pairs]
    table = np.full((len(found), max((len(f.times) for f in found), default=0)), np.nan)
    words = ""
    for k, (events, apart, different) in enumerate(found):
        table[k, : len(events)] = events
        for row in shifts.values():
            row[k, apart] = np.nan
        if different and not words:
            of = f" of member {k}" if len(found) > 1 else ""
            words = f"the run with finer steps goes through other events{of}: {different}"
    return shifts, table, words
