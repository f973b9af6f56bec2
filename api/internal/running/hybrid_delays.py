"""Simulation of systems with events and delays: from window to window no longer than the shortest
delay, in which delayed inputs are signals made of the motion before."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy

from kinesym.internal.problems.simulation_arguments import SimulationArguments
from kinesym.internal.running.delayed_run import check_reach, delays_at_start
from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.past import slack
from kinesym.runtime.delays.problem import Break, images, inserted
from kinesym.runtime.hybrid.failures import integrated
from kinesym.runtime.hybrid.simulation import HybridIVP, RawTrajectory
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.status import Switching
from kinesym.symbolic.delayed import Delay
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.names import name_of

#: Least number of pieces of a delayed state between two breaks of a window.
_LEAST = 8
#: Largest number of pieces of a delayed state between two breaks of a window.
_MOST = 2048
#: Derivatives of states up to this order jump at breaks.
_ORDER = 4
#: Most runs of a window, for pieces between events and for more of them.
_AGAIN = 16


class _Section(NamedTuple):
    """Times (K,) between two breaks, and all states (n, K) there."""

    times: Array
    states: Array


@dataclass
class _Course:
    """A signal as pieces: begins (B,) and coefficients (4, B) of 1, s, s^2, s^3."""

    begin: Array
    coefficients: Array

    @classmethod
    def of(cls, signal: Signal, begin: float, end: float = 1e300) -> _Course:
        """A signal between two times."""
        here = _between(signal.begin, begin, end)
        begins, rows = signal.begin[here].copy(), signal.coefficients[:, here].copy()
        a, b, c, d = rows[:, 0]
        s, begins[0] = begin - begins[0], begin
        rows[:, 0] = a + s * (b + s * (c + s * d)), b + s * (2 * c + 3 * s * d), c + 3 * s * d, d
        return cls(begins, rows)

    def add(self, other: _Course) -> None:
        """Append pieces that follow."""
        self.begin = np.append(self.begin, other.begin)
        self.coefficients = np.hstack([self.coefficients, other.coefficients])

    def late(self, tau: float, begin: float, end: float) -> Signal:
        """Signal delayed by tau, from one time to another."""
        own = self.begin + tau
        here = _between(own, begin, end)
        return Signal.polynomials(np.append(own[here], end), self.coefficients[:, here])


def _between(begins: Array, begin: float, end: float) -> slice:
    """Pieces with these begins that lie between two times."""
    first = max(int(np.searchsorted(begins, begin + slack(begin), side="right")) - 1, 0)
    return slice(first, max(int(np.searchsorted(begins, end - slack(end))), first + 1))


class _Delays:
    """Delayed inputs of one run. given : signals of inputs, also of those that are delayed inputs.
    courses : of delayed states so far."""

    def __init__(self, hybrid: Hybrid, arguments: SimulationArguments) -> None:
        model, time = hybrid.model, arguments.time
        start, end = float(time[0]), float(time[-1])
        taus = delays_at_start(model, arguments)[:, 0].tolist()
        self.given = {name: s for name, s in arguments.inputs.items() if isinstance(s, Signal)}
        self.courses: dict[str, _Course] = {}
        self._states: dict[str, tuple[str, float]] = {}
        reach = {name_of(delay.signal): 0.0 for delay in model.delays}
        pairs = list(zip(model.delays, taus, strict=True))
        for delay, tau in pairs:
            reach[name_of(delay.signal)] = max(reach[name_of(delay.signal)], tau)
        for delay, tau in pairs:
            name = name_of(delay.signal)
            course = _Course.of(_before(arguments, delay, tau), start - reach[name], start)
            if name in self.given:
                course.add(_Course.of(self.given[name], start))
                self.given[delay.name] = course.late(tau, start, end)
            else:
                if not tau > 0.0:
                    raise ValueError(
                        f"{delay.name} is delayed by {tau:g} s; in a system with events delays are "
                        "positive: leave out those that are none"
                    )
                self.courses[name] = course
                self._states[delay.name] = name, tau
        self._order, self.pieces = hybrid.signals, _LEAST
        jumps = [at for signal in self.given.values() for at in signal.jumps(start, end)]
        self._breaks = [Break(start, 0), *(Break(float(at), 1) for at in jumps)]

    @property
    def shortest(self) -> float:
        """The shortest delay of a state [s]."""
        return min((tau for _, tau in self._states.values()), default=np.inf)

    def inputs(self, begin: float, end: float) -> dict[str, Signal]:
        """Inputs in a window, delayed states among them."""
        late = {
            name: self.courses[of].late(tau, begin, end) for name, (of, tau) in self._states.items()
        }
        every = {**self.given, **late}
        return {name: every[name] for name in self._order}

    def happened(self, times: Iterable[float]) -> None:
        """Note events, at which states may jump."""
        self._breaks += [Break(time, 0) for time in times]

    def breaks(self, begin: float, end: float) -> Array:
        """The ends of a window and where derivatives of states jump in it."""
        late = sorted({tau for _, tau in self._states.values()})
        since = begin - (_ORDER + 1) * max(late, default=0.0)
        recent = [one for one in self._breaks if one.time >= since]
        found = np.array([one.time for one in images(recent, late, end, _ORDER)])
        return inserted(np.array([begin, end]), found)


def delayed_hybrid(
    hybrid: Hybrid,
    given: SimulationArguments,
    ivp: HybridIVP,
    stop: threading.Event | None = None,
) -> RawTrajectory:
    """Simulate to the end of the grid, as far as possible; ivp : with any delayed inputs.

    Raises `ValueError` for delays and histories that cannot be.
    """
    delays, state, last = _Delays(hybrid, given), ivp.start, float(ivp.time[-1])
    names, parts, begin = hybrid.model.state_names, list[RawTrajectory](), float(ivp.time[0])
    while True:
        end = begin + delays.shortest
        end = last if end >= last - slack(last) else end
        part, sections = _window(delays, replace(ivp, start=state), end, stop)
        parts.append(part)
        if part.status is not Switching.DONE or end == last:
            return _joined(ivp, parts, given)
        for section in sections:
            for name, course in delays.courses.items():
                row = section.states[names.index(name)]
                spline = scipy.interpolate.CubicSpline(section.times, row)
                course.add(_Course(section.times[:-1], spline.c[::-1]))
        state, begin = part.final, end


def _before(given: SimulationArguments, delay: Delay, tau: float) -> Signal:
    """Signal of a state or an input before the start."""
    name, start = name_of(delay.signal), float(given.time[0])
    history, own = given.history.get(name), given.inputs.get(name)
    if history is not None:
        check_reach(f"the history of {name}", history, start - tau, delay)
        return history
    if not isinstance(own, Signal):
        return Signal.pieces([start], [float(given.initial[name])])
    if own.span[0] < start - slack(start):
        check_reach(f"input {name}", own, start - tau, delay)
        return own
    return Signal.pieces([start], [float(own.sided(start, 1.0))])


# -- one window -----------------------------------------------------------------------------


def _window(
    delays: _Delays, ivp: HybridIVP, end: float, stop: threading.Event | None
) -> tuple[RawTrajectory, Sequence[_Section]]:
    """A run up to a time, and its states between breaks at so many times that cubics through them
    are within the tolerances."""
    begin = ivp.start.time
    inputs = delays.inputs(begin, end)
    breaks = delays.breaks(begin, end)
    for turn in range(_AGAIN):
        spans = [np.linspace(a, b, delays.pieces + 1)[1:-1] for a, b in pairwise(breaks)]
        nodes = inserted(inserted(breaks, ivp.time), np.concatenate(spans))
        part = integrated(replace(ivp, time=nodes, inputs=inputs, progress=False), stop)
        if part.status is not Switching.DONE:
            return part, ()
        events = np.array([e.time for e in part.happened if e.kind != "clock"])
        known = breaks[np.clip(np.searchsorted(breaks, events - slack(events)), 0, len(breaks) - 1)]
        new = events[np.abs(known - events) > slack(events)]
        breaks = inserted(breaks, new)
        sections = _sections(part, breaks)
        error = max((_error(ivp, section) for section in sections), default=0.0)
        if not len(new) and error <= 1.0:
            break
        if not len(new) and turn + 1 < _AGAIN:
            delays.pieces = min(2 * delays.pieces, _MOST)
    delays.happened(events.tolist())
    if error < 1e-2:
        delays.pieces = max(delays.pieces // 2, _LEAST)
    return part, sections


def _sections(part: RawTrajectory, breaks: Array) -> list[_Section]:
    """The states between breaks: those just after one, at nodes, just before the next."""
    time, found = part.ivp.time, []
    for a, b in pairwise(breaks):
        inside = np.flatnonzero((time > a + slack(a)) & (time < b - slack(b)))
        if b - a <= 2.0 * slack(b):
            continue
        ends = _beside(part, a)[1], _beside(part, b)[0]
        states = np.column_stack([ends[0], part.states[:, inside], ends[1]])
        found.append(_Section(np.concatenate([[a], time[inside], [b]]), states))
    return found


def _beside(part: RawTrajectory, time: float) -> tuple[Array, Array]:
    """States just before and just after a break."""
    here = [e for e in part.happened if e.kind != "clock" and abs(e.time - time) <= slack(time)]
    if here:
        return here[0].rows[0], here[-1].rows[1]
    node = int(np.argmin(np.abs(part.ivp.time - time)))
    return part.states[:, node], part.states[:, node]


def _error(ivp: HybridIVP, section: _Section) -> float:
    """Error of cubics through the states, in units of the tolerances: a sixteenth of the error of
    those through every other state."""
    times, states = section
    if len(times) < 5:
        return 0.0
    some = np.append(np.arange(0, len(times) - 1, 2), len(times) - 1)
    rough = scipy.interpolate.CubicSpline(times[some], states[:, some], axis=1)(times)
    scale = ivp.atol + ivp.rtol * np.abs(states).max(axis=1, keepdims=True)
    return float((np.abs(rough - states) / scale).max()) / 16.0


# -- the whole ------------------------------------------------------------------------------


def _joined(
    ivp: HybridIVP, parts: Sequence[RawTrajectory], given: SimulationArguments
) -> RawTrajectory:
    """Run of all windows joined, at the nodes of the grid."""
    rows: list[tuple[Array, Array]] = []
    for k, part in enumerate(parts):
        time, filled = part.ivp.time, part.states.shape[1]
        own, near = ivp.time, slack(ivp.time)
        node = np.searchsorted(time, own - near)
        there = (own >= time[0] - near) & (own <= time[-1] + near) & (node < filled)
        if k + 1 < len(parts):  # what is at its end is at the begin of the next
            there &= own < time[-1] - near
        rows.append((part.states[:, node[there]], part.inputs[:, node[there]]))
    states, inputs = (np.hstack([pair[k] for pair in rows]) for k in (0, 1))
    begins = [s.begin for s in given.inputs.values() if isinstance(s, Signal)]
    clocks = np.unique(np.concatenate([*begins, [np.inf]]))
    happened = []
    for entry in (entry for part in parts for entry in part.happened):
        near = clocks[np.searchsorted(clocks, entry.time - slack(entry.time))]
        if entry.kind != "clock" or near - entry.time <= slack(entry.time):
            happened.append(entry)
    steps, rejected, calls = (sum(column) for column in zip(*(p.work for p in parts), strict=True))
    last = parts[-1]
    return replace(
        last,
        ivp=replace(last.ivp, time=ivp.time, start=ivp.start),
        states=states,
        inputs=inputs,
        happened=happened,
        work=(steps, rejected, calls),
    )
