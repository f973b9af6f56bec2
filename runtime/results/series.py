"""Residuals of a fit: samples of a channel over time and how the model explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.trajectory import Trajectory

#: Residual up to which samples are met exactly, as a share of their size: rounding.
MET = 1e-8


@dataclass(frozen=True, eq=False)
class Series:
    """Samples of a channel in a trial with their model values: (K,) each, at `index` among its
    `nodes`, or among all of them if they have times of their own, in order of time.

    std : standard deviations of the samples, in their unit, NaN where unknown. at_nodes : whether
    the samples are at nodes.
    """

    channel: str
    trial: int
    index: NDArray[np.intp]
    time: Array
    measured: Array
    modelled: Array
    std: Array
    nodes: int
    at_nodes: bool = True

    @property
    def name(self) -> str:
        """Name of the channel, and the trial if it is not the first."""
        return self.channel + (f" of trial {self.trial}" if self.trial else "")

    @property
    def residuals(self) -> Array:
        """Residuals, measured - modelled, in the unit of the channel, (K,)."""
        return self.measured - self.modelled

    @property
    def standardised(self) -> Array:
        """Residuals over standard deviations, (K,)."""
        return self.residuals / self.std

    @property
    def size(self) -> float:
        """Root mean square of the samples."""
        return float(np.sqrt(np.mean(self.measured**2)))

    @property
    def rms(self) -> float:
        """Root mean square of the residuals."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def variance_accounted_for(self) -> float:
        """Variance accounted for, 100 (1 - var(residuals)/var(measured)) [%], NaN for constant
        samples."""
        whole = float(np.var(self.measured))
        return 100.0 * (1.0 - float(np.var(self.residuals)) / whole) if whole > 0.0 else np.nan

    def inputs(self, run: Trajectory) -> dict[str, Array]:
        """Inputs of a trajectory at the samples, (K,) each; linear between nodes."""
        if self.at_nodes:
            return {name: u[self.index] for name, u in run.inputs.items()}
        return {name: np.interp(self.time, run.time, u) for name, u in run.inputs.items()}


def series_of(trials: Sequence[Trajectory]) -> list[Series]:
    """Samples of all measured channels of trials, without missing samples and model values, and
    without censored ones."""
    return [s for s in all_series(trials) if s.channel not in trials[s.trial].limits]


def censored_series(trials: Sequence[Trajectory]) -> list[Series]:
    """Censored samples of all channels of trials: `measured` are limits."""
    return [s for s in all_series(trials) if s.channel in trials[s.trial].limits]


def all_series(trials: Sequence[Trajectory]) -> list[Series]:
    """Samples of all channels; of censored ones `measured` are limits."""
    found = []
    for number, run in enumerate(trials):
        for channel, measured in run.measurements.items():
            here = np.flatnonzero(~np.isnan(measured) & ~np.isnan(run[channel]))
            if len(here):
                unknown = np.full(len(measured), np.nan)
                rows = (run.time, measured, run[channel], run.std.get(channel, unknown))
                t, y, model, std = (row[here] for row in rows)
                found.append(Series(channel, number, here, t, y, model, std, len(measured)))
        for channel, own in run.timed.items():
            here = np.flatnonzero(~np.isnan(own.modelled))
            if len(here):
                t, y, model, std = (column[here] for column in own)
                found.append(
                    Series(channel, number, here, t, y, model, std, len(own.time), at_nodes=False)
                )
    return found


def squares_of_samples(trials: Sequence[Trajectory]) -> float:
    """Sum of squares of all samples over their variances, without those that have no std."""
    pairs = [
        (y, run.std.get(name, np.nan)) for run in trials for name, y in run.measurements.items()
    ]
    pairs += [(own.measured, own.std) for run in trials for own in run.timed.values()]
    return sum(float(np.nansum((y / std) ** 2)) for y, std in pairs)


def sampling(trials: Sequence[Trajectory]) -> str:
    """Number of samples of each channel and sampling rate, in words."""
    words = []
    series = series_of(trials)
    for channel in dict.fromkeys(s.channel for s in series):
        mine = [s for s in series if s.channel == channel]
        steps = np.concatenate([np.diff(s.time) for s in mine])
        every = f" at {1.0 / np.median(steps):.4g} Hz" if len(steps) and np.all(steps > 0.0) else ""
        words.append(f"{sum(len(s.time) for s in mine)} of {channel}{every}")
    return ", ".join(words)
