"""Delays of sensors: samples show the motion at an earlier time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sympy as sp

from kinesym.internal.problems.parameters import Unknown
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.symbolic.names import name_of


class Delayed(NamedTuple):
    """Trials in which samples of sensors with delays have times of their own. unknown : delays that
    are to be found, by sensor. gaps : sentences on samples that are left out."""

    trials: list[Experiment]
    unknown: dict[str, sp.Symbol]
    gaps: list[str]


def delayed(
    trials: Sequence[Experiment],
    delays: Mapping[str, sp.Expr],
    unknown: Mapping[str, Unknown],
    known: Sequence[Mapping[str, float]],
    beside: str = "",
) -> Delayed:
    """The trials with delays of sensors, by name.

    known : of each trial, values of parameters. beside : what else is unknown that makes the
    objective a marginal likelihood, if something is. Samples that could show, with any delay within
    its bounds, what was before the trial or is after it are missing: so the same ones are compared
    whatever the delay. Raises `ValueError` for an unknown delay without bounds or beside such
    things, and if no sample is left.
    """
    measured = {name for trial in trials for name in trial.measured}
    free = {
        name: delay
        for name, delay in delays.items()
        if name in measured and isinstance(delay, sp.Symbol) and name_of(delay) in unknown
    }
    if free and beside:
        raise ValueError(
            f"the delay of sensor {next(iter(free))} is unknown, beside {beside}: a marginal "
            "likelihood is of samples that stay in their intervals; find the delay without that, "
            "then give it as known"
        )
    made = []
    for k, (trial, values) in enumerate(zip(trials, known, strict=True)):
        samples = {
            name: _of_trial(trial, k, name, *_seconds(name, delay, unknown, values))
            for name, delay in delays.items()
            if name in trial.measured
        }
        made.append(trial.with_samples(samples) if samples else trial)
    return Delayed(made, free, _gaps(trials, made))


def _gaps(before: Sequence[Experiment], after: Sequence[Experiment]) -> list[str]:
    """A sentence for each sensor that has lost samples."""
    lost: dict[str, int] = {}
    for old, new in zip(before, after, strict=True):
        for name, own in new.timed.items():
            gone = np.count_nonzero(~np.isnan(old.measured[name])) - np.count_nonzero(own.present)
            lost[name] = lost.get(name, 0) + int(gone)
    return [
        f"{count} sample{'s' * (count > 1)} of {name} count{'s' * (count == 1)} as missing: with "
        "its delay they could show what was before the first node or is after the last one"
        for name, count in lost.items()
        if count
    ]


def _seconds(
    name: str, delay: sp.Expr, unknown: Mapping[str, Unknown], values: Mapping[str, float]
) -> tuple[float, float]:
    """The range of a delay [s]."""
    if delay.is_number:
        return float(delay), float(delay)
    parameter = name_of(delay)
    if parameter not in unknown:
        return values[parameter], values[parameter]
    found = unknown[parameter]
    if not np.isfinite([found.low, found.high]).all():
        raise ValueError(
            f"the delay {parameter} of sensor {name} is unknown and needs bounds, as samples that "
            f"could show what was before the trial are left out: unknown={{{parameter}: (0, 0.1)}}"
        )
    return found.low, found.high


def _of_trial(trial: Experiment, number: int, name: str, low: float, high: float) -> TimedSamples:
    own = trial.timed_samples(name)
    assert own is not None
    if trial.duration is not None:  # times are shares of that
        ends = [delay / length for delay in (low, high) for length in trial.duration]
        low, high = min(ends), max(ends)
    made = own.shown_within(trial.grid, low, high)
    if not made.present.any():
        raise ValueError(
            f"no sample of {name} in trial {number} shows the time of the experiment, "
            f"{_span(trial.grid)}, with its delay of {_span(np.array([low, high]))}; give the "
            "delay in seconds, within narrower bounds"
        )
    return made


def _span(ends: Array) -> str:
    low, high = ends[0], ends[-1]
    return f"{low:g} s" if low == high else f"{low:g} ... {high:g} s"
