"""Measurements at times of their own, off a grid and at any rate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array, located
from kinesym.runtime.signals.signal import BETWEEN, Signal

#: Times this close, as a share of the time that a grid covers, are one.
_TOGETHER = 1e-12


@dataclass(frozen=True, eq=False)
class TimedSamples:
    """Samples (K,) of a channel at increasing times (K,) [s], relative ones with an unknown
    duration; NaN marks a missing sample. delay : how long before a sample was what it shows, in the
    unit of the times; if that is unknown, where samples are placed."""

    times: Array
    values: Array
    delay: float = 0.0

    @classmethod
    def of(cls, signal: Signal, what: str) -> TimedSamples:
        """The samples of a signal; raises `ValueError`, naming `what`, for one that is not made of
        samples."""
        if signal.expressions or signal.between not in BETWEEN:
            raise ValueError(
                f"{what} is a signal of pieces; measured are samples: ks.Signal(times, values)"
            )
        times = np.concatenate([signal.begin, signal.gaps])
        order = np.argsort(times)
        values = np.append(signal.value, np.full(len(signal.gaps), np.nan))[order]
        return cls(times[order], values)

    def shown_within(self, grid: Array, low: float, high: float) -> TimedSamples:
        """Samples with an unknown delay between two bounds, placed at the middle; samples that
        could show times outside a grid (N,) are missing."""
        slack = _TOGETHER * (grid[-1] - grid[0])
        inside = (self.times - high >= grid[0] - slack) & (self.times - low <= grid[-1] + slack)
        values = np.where(inside, self.values, np.nan)
        return replace(self, values=values, delay=0.5 * (low + high))

    def most_within(self, length: float) -> int:
        """Largest number of samples in a time window of this length."""
        times = self.times[self.present]
        ends = np.searchsorted(times, times + length * (1.0 + 1e-9), side="right")
        return int((ends - np.arange(len(times))).max(initial=0))

    def check_within(self, grid: Array, what: str) -> None:
        """Raise `ValueError`, naming `what`, for a sample outside a grid (N,)."""
        times, slack = self.times, _TOGETHER * (grid[-1] - grid[0])
        outside = self.present & ((times < grid[0] - slack) | (times > grid[-1] + slack))
        if outside.any():
            k = int(np.argmax(outside))
            raise ValueError(
                f"{what} has a sample at t = {times[k]:g} s, but the time of the experiment is "
                f"{grid[0]:g} ... {grid[-1]:g}; extend that, or cut the samples"
            )

    @property
    def present(self) -> NDArray[np.bool_]:
        """Samples that are not missing, (K,)."""
        return ~np.isnan(self.values)

    @property
    def shown(self) -> Array:
        """Times that the samples show: when they were taken, less the delay."""
        return np.asarray(self.times[self.present] - self.delay)

    def places(self, grid: Array) -> tuple[NDArray[np.intp], Array]:
        """Interval of a grid (N,) and share of it that each present sample shows; at a node it
        belongs to the interval that begins there."""
        return located(grid, np.clip(self.shown, grid[0], grid[-1]))

    def on(self, grid: Array) -> Array:
        """Straight lines through the samples at the nodes (N,) of a grid."""
        return np.interp(grid, self.shown, self.values[self.present])


def slots(interval: NDArray[np.intp]) -> NDArray[np.intp]:
    """Slot of each sample: number of equal entries before it in a nondecreasing sequence."""
    first = np.searchsorted(interval, interval, side="left")
    return np.asarray(np.arange(len(interval)) - first)


def with_times(grid: Array, times: Array) -> Array:
    """A grid (N,) with further nodes at times that are none yet but for rounding."""
    slack = _TOGETHER * (grid[-1] - grid[0])
    found = np.unique(np.clip(times, grid[0], grid[-1]))
    after = np.clip(np.searchsorted(grid, found), 1, len(grid) - 1)
    near = np.minimum(np.abs(found - grid[after - 1]), np.abs(grid[after] - found))
    found = found[near > slack]
    found = found[np.append(True, np.diff(found) > slack)[: len(found)]]
    return np.union1d(grid, found)
