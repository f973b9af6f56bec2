"""Planned records: an experiment that lasts longer or shorter, is sampled at another rate, has
other noise, or fewer channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.signals.timed import TimedSamples

#: Times this close, as a share of a step, are one.
_TOGETHER = 1e-6


def assumed_noise(trial: Experiment, std: Mapping[str, float]) -> Experiment:
    """Copy with these standard deviations of channels, in place of those that it has; infinite for
    a channel that tells nothing."""
    made, measured = copy(trial), trial.measured
    own = {n: np.full(len(measured[n]), float(s)) for n, s in std.items() if n in measured}
    unknown = {n: group for n, group in trial.unknown_std.items() if n not in own}
    object.__setattr__(
        made, "std", {n: r for n, r in {**trial.std, **own}.items() if n in measured}
    )
    object.__setattr__(made, "unknown_std", unknown)
    return made


def with_deviations(trial: Experiment, std: Mapping[str, Array]) -> Experiment:
    """Copy with these standard deviations of channels, (N,) or (K,)."""
    made = copy(trial)
    object.__setattr__(made, "std", {**trial.std, **std})
    return made


def unlimited(trial: Experiment) -> Experiment:
    """Copy in which censored samples are measured as the others: which these will be is not known
    before. `ranges` tell the limits."""
    made, rows, timed = copy(trial), dict(trial.measurements), dict(trial.timed)
    given = {what: dict(getattr(trial, what)) for what in ("std", "std_expressions")}
    for channel, (name, _) in trial.limits.items():
        for own in given.values():
            if channel in own:
                own.setdefault(name, own[channel])
                del own[channel]
        if channel in rows:
            row = rows.pop(channel)
            rows[name] = np.where(np.isnan(row), rows.get(name, np.nan), row)
        else:
            late = timed.pop(channel)
            before = timed[name].values if name in timed else np.nan
            values = np.where(np.isnan(late.values), before, late.values)
            timed[name] = replace(late, values=values)
    for what, own in {"measurements": rows, "timed": timed, "limits": {}, **given}.items():
        object.__setattr__(made, what, own)
    return made


def only_at(trial: Experiment, number: int, times: Mapping[str, Sequence[Array]]) -> Experiment:
    """Copy in which channels have samples at these times only, by channel and number of the trial;
    the others are missing."""
    found = dict[str, Array]()
    for name, rows in times.items():
        own = trial.timed_samples(name)
        if own is not None:
            kept = np.isclose(own.times[:, None], rows[number], rtol=0.0, atol=1e-9).any(axis=1)
            found[name] = np.where(kept, own.values, np.nan)
    return trial.remeasured(found)


def measuring(trial: Experiment, channels: Collection[str]) -> Experiment:
    """Copy that measures these channels only."""
    made = copy(trial)
    for what in ("measurements", "timed", "std", "unknown_std", "std_expressions"):
        own = {name: row for name, row in getattr(trial, what).items() if name in channels}
        object.__setattr__(made, what, own)
    return made


def unbounded(trial: Experiment, states: Collection[str]) -> Experiment:
    """Copy without bounds of these states."""
    made = copy(trial)
    bounds = {name: own for name, own in trial.bounds.items() if name not in states}
    object.__setattr__(made, "bounds", bounds)
    return made


def driven(trial: Experiment, courses: Mapping[str, Array]) -> Experiment:
    """Copy with other courses (N,) of these inputs, with straight lines between the nodes; before
    the first node they are as they were, for delays."""
    made, grid = copy(trial), trial.grid
    signals = {
        name: Signal(*_after(trial.signals[name], grid, row)) for name, row in courses.items()
    }
    object.__setattr__(made, "signals", {**trial.signals, **signals})
    object.__setattr__(made, "inputs", {**trial.inputs, **courses})
    object.__setattr__(made, "held", trial.held.difference(courses))
    return made


def undriven(trial: Experiment, inputs: Collection[str]) -> Experiment:
    """Copy without these inputs."""
    made = copy(trial)
    for what in ("signals", "inputs"):
        own = {name: row for name, row in getattr(trial, what).items() if name not in inputs}
        object.__setattr__(made, what, own)
    object.__setattr__(made, "held", trial.held.difference(inputs))
    return made


def _after(past: Signal, grid: Array, row: Array) -> tuple[Array, Array]:
    """Times and values of a course on a grid, after those of a signal before it."""
    begin, step = past.span[0], float(np.median(np.diff(grid)))
    if past.expressions or not begin < grid[0] - _TOGETHER * step:
        return grid, row
    times = np.linspace(begin, grid[0], int(np.ceil((grid[0] - begin) / step)) + 1)[:-1]
    return np.concatenate([times, grid]), np.concatenate([past(times), row])


def replanned(
    trial: Experiment, seconds: float | None = None, rate: float | None = None
) -> Experiment:
    """Copy that lasts so long from its start [s], with samples at this rate [1/s]; None leaves what
    it has. Values of samples are those before, or the last one.

    Nodes are no farther apart than before: at a lower rate samples are missing between those that
    are taken. Raises `ValueError` for an unknown duration, and for an input that is not known for
    so long.
    """
    if trial.free_duration:
        raise ValueError("seconds and rate are of experiments whose duration is known")
    old, begin = trial.grid, float(trial.grid[0])
    end = float(old[-1]) if seconds is None else begin + seconds
    step = float(np.median(np.diff(old)))
    if rate is None or not trial.measurements:
        grid, parts = _continued(old, end, step), 0
    else:
        parts = max(1, int(np.ceil(1.0 / (rate * step) - _TOGETHER)))
        count = int((end - begin) * rate + _TOGETHER)
        if not count:
            raise ValueError(
                f"at {rate:g} samples per second none follows the first in {end - begin:g} s"
            )
        grid = begin + np.arange(count * parts + 1) / (rate * parts)
    for name, signal in trial.signals.items():
        if not signal.expressions and signal.span[1] < grid[-1] - _TOGETHER * step:
            raise ValueError(
                f"input {name} is known for {signal.span[1] - begin:g} s, and the experiment is to "
                f"last {grid[-1] - begin:g} s; give it as a ks.Signal(times, values) that is as "
                "long, periods repeated if that is what is meant"
            )
    rows, std = dict[str, Any](), trial.named_std
    for name in trial.measured:
        own = trial.timed_samples(name)
        assert own is not None
        times = _times(own, grid, parts, rate)
        at_nodes = name in trial.measurements
        values = np.interp(times, own.times[own.present], own.values[own.present])
        rows[name] = (
            _at(grid, times, values) if at_nodes else TimedSamples(times, values, own.delay)
        )
        if name in trial.std:
            noise = np.interp(times, own.times, trial.std[name])
            nodes = np.interp(grid, times, noise)
            std[name] = nodes if at_nodes else noise
    made = Experiment(grid, trial.signals, rows, std, **trial.beside)
    return made.with_limits(trial.limits, trial.ranges)


def _continued(old: Array, end: float, step: float) -> Array:
    """A grid up to its new end, with steps of this length where there were none."""
    kept = old[old < end - _TOGETHER * step]
    if end <= old[-1] + _TOGETHER * step:
        return np.append(kept, end)
    more = old[-1] + step * np.arange(1, int((end - old[-1]) / step + _TOGETHER) + 1)
    return np.concatenate([old, more])


def _times(own: TimedSamples, grid: Array, parts: int, rate: float | None) -> Array:
    """Times of the samples of a channel until the end of a grid, each `parts`-th node of which is
    one; 0 for as many per second as there were, unless a rate is given."""
    if parts:
        return grid[::parts]
    there = own.times[own.present]
    if rate is not None:
        return there[0] + np.arange(int((grid[-1] - there[0]) * rate + _TOGETHER) + 1) / rate
    step = float(np.median(np.diff(there))) if len(there) > 1 else np.inf
    slack = _TOGETHER * step if np.isfinite(step) else 0.0
    more = there[-1] + step * np.arange(1, int((grid[-1] - there[-1]) / step + _TOGETHER) + 1)
    every = np.concatenate([there, more])
    return np.minimum(every[every <= grid[-1] + slack], grid[-1])


def _at(grid: Array, times: Array, values: Array) -> Array:
    """Samples at the nodes next to their times, NaN elsewhere."""
    row = np.full(len(grid), np.nan)
    k = np.clip(np.searchsorted(grid, times), 1, len(grid) - 1)
    k -= times - grid[k - 1] < grid[k] - times
    row[k] = values
    return row
