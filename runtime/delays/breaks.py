"""Breaks of a motion with delays between the nodes of a grid: a delay after the start, or after a
kink of the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.delay_rows import Lag
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.history import derivatives
from kinesym.runtime.signals.signal import Signal

#: A break is at a node, if it is nearer than this share of the duration.
_NEAR = 1e-9
#: A change of a rate that is a smaller share of what the state ranges over in the trial is none.
_LITTLE = 1e-3


def breaks_between_nodes(
    lags: Sequence[Lag],
    states: Sequence[str],
    trials: Sequence[Experiment],
    runs: Sequence[Trajectory],
    order: int,
) -> str:
    """A sentence on the first break that is between two nodes and matters to a scheme of this
    order; "" if there is none."""
    own = [lag for lag in lags if lag.signal in states]
    for k, (trial, run) in enumerate(zip(trials, runs, strict=True)):
        grid = run.time
        near = _NEAR * (grid[-1] - grid[0])
        for time, name in sorted(_breaks(own, k, trial, run, order)):
            if grid[0] < time < grid[-1] and np.abs(grid - time).min() > near:
                of = f" of trial {k}" if len(runs) > 1 else ""
                return (
                    f"{name} carries a break of the start or history to t = {time:.5g} s{of}, "
                    "between two nodes: the step over it is of order 2 by every scheme, which this "
                    "estimate does not see; put nodes at multiples of the delay after each break"
                )
    return ""


def _breaks(
    lags: Sequence[Lag], trial: int, given: Experiment, run: Trajectory, order: int
) -> Iterator[tuple[float, str]]:
    """Times [s] at which a derivative of a state jumps that is no higher than an order, and the
    delay that brings it there."""
    rest = [(at, level) for lag in lags for at, level in _sources(lag, trial, given, run)]
    seen = set[float]()
    while rest:
        at, level = rest.pop()
        for lag in lags if level < order else ():
            for time in _seen(lag, run, at):
                if round(time, 10) not in seen:
                    seen.add(round(time, 10))
                    rest.append((time, level + 1))
                    yield time, lag.input


def _sources(
    lag: Lag, trial: int, given: Experiment, run: Trajectory
) -> Iterator[tuple[float, int]]:
    """Times up to the start at which the value (0) or the rate (1) of a signal jumps."""
    start, x = float(run.time[0]), run[lag.signal]
    before, history = lag.trials[trial].before, given.history.get(lag.signal)
    scale = _LITTLE * float(np.ptp(x))
    length = float(run.time[-1] - start)
    value, rate = float(x[0]), 0.0
    if before:
        yield from ((float(at), 1) for at in before.times[1:])
        return
    if isinstance(history, Signal):
        ends = derivatives(history, np.array([start]), -1.0)
        value, rate = float(ends[0, 0]), float(ends[1, 0])
        inside = history.begin[1:][history.begin[1:] < start] if history.between != "cubic" else ()
        jumps = set(history.jumps(float(history.begin[0]) - 1.0, start).tolist())
        yield from ((float(at), 0 if at in jumps else 1) for at in inside)
    if abs(value - x[0]) > scale:
        yield start, 0
    else:
        after, blur = _first_rate(run.time, x)
        if (abs(after - rate) - blur) * length > scale:
            yield start, 1


def _first_rate(time: Array, x: Array) -> tuple[float, float]:
    """The rate at the first node, of a cubic through four, and how far that of a parabola is from
    it."""
    s = (time[:4] - time[0]) / (time[min(3, len(time) - 1)] - time[0])
    unit = time[min(3, len(time) - 1)] - time[0]
    cubic, parabola = (
        np.linalg.solve(np.vander(s[:count], increasing=True), x[:count])[1] / unit
        for count in (len(s), min(3, len(s)))
    )
    return float(cubic), float(abs(cubic - parabola))


def _seen(lag: Lag, run: Trajectory, at: float) -> list[float]:
    """Times at which a delay looks back to a time [s]."""
    if not lag.course:
        values = np.array([run.parameters[p] for p in lag.parameters])
        return [at + lag.delay(values)[0]]
    late: Array = {**run.outputs, **run.inputs}[lag.course]
    off = run.time - late - at
    k = np.flatnonzero(off[:-1] * off[1:] < 0.0)
    share = off[k] / (off[k] - off[k + 1])
    return (run.time[k] + share * (run.time[k + 1] - run.time[k])).tolist()
