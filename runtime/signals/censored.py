"""Censored samples: of which a limit is known, and on which side of it they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import shown
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.signals.signal import Signal, size_words
from kinesym.runtime.signals.timed import TimedSamples

#: Words for the side on which samples are, and its sign in the modelled value less the limit.
SIDES = {"below": -1, "above": 1}


class Range(NamedTuple):
    """Range of a device over time: limits (K,) below and above which samples are censored, NaN
    where there is none."""

    time: Array
    below: Array
    above: Array

    def at(self, times: Array) -> tuple[Array, Array]:
        """Limits at other times, those of the nearest sample."""
        after = np.clip(np.searchsorted(self.time, times), 1, max(len(self.time) - 1, 1))
        before = after - 1
        after = np.minimum(after, len(self.time) - 1)
        earlier = times - self.time[before] < self.time[after] - times
        nearest = np.where(earlier, before, after)
        return self.below[nearest], self.above[nearest]


@dataclass(frozen=True, eq=False)
class Censored:
    """Measurement with limits of its device: samples and limits, NaN where there is none.

    values : (N,), or a `Signal` with K samples. below, above : (N,) or (K,)."""

    values: Any
    below: Array
    above: Array

    def rows(self, what: str) -> dict[str, Any]:
        """Samples that are values, "", and the limits of the others by side; none without any
        sample. Raises `ValueError`, naming `what`, for sizes that differ."""
        own, timed = self.values, None
        if isinstance(own, Signal):
            timed = TimedSamples.of(own, what)
            own = timed.values
        y = real_array(own, what, missing=True)
        limits = {"below": self.below, "above": self.above}
        for side, limit in limits.items():
            if limit.shape not in ((), y.shape):
                raise ValueError(
                    f"the limit {side} of {what} has {size_words(limit)}, expected 1 or {len(y)}"
                )
        hidden = {"below": y <= self.below, "above": y >= self.above}
        rows = {"": np.where(hidden["below"] | hidden["above"], np.nan, y)}
        rows |= {side: np.where(here, limits[side], np.nan) for side, here in hidden.items()}
        kept = {side: row for side, row in rows.items() if not np.isnan(row).all()}
        if timed is None:
            return kept
        return {side: TimedSamples(timed.times, row) for side, row in kept.items()}

    def range(self, grid: Array, what: str) -> Range:
        """Limits of all samples, at the nodes of a grid or at times of their own."""
        own = self.values
        times = TimedSamples.of(own, what).times if isinstance(own, Signal) else grid
        return Range(
            times, *(np.broadcast_to(limit, times.shape) for limit in (self.below, self.above))
        )


def censored(values: Any, below: ArrayLike | None = None, above: ArrayLike | None = None) -> Any:
    """Measurement with limits: of samples at or below the limit `below` it is known only that the
    true one with its noise is below, and of those at or above `above` that it is above, as at the
    limit of detection of an assay or at the end of the range of a sensor.

    values : (N,), or a `Signal`; NaN marks a missing sample. below, above : numbers, or one for
    each sample, NaN where there is no limit. In results such samples are channels `NAME_below` and
    `NAME_above`, whose samples are the limits. Raises `ValueError` without any limit, and for one
    below that is not lower than the one above.
    """
    if below is None and above is None:
        raise ValueError("ks.censored needs a limit: below=..., above=..., or both")
    low, high = (
        np.array(np.nan) if limit is None else real_array(limit, f"the limit {side}", missing=True)
        for side, limit in (("below", below), ("above", above))
    )
    if low.shape in ((), high.shape) or high.shape == ():
        crossed = np.atleast_1d(low >= high)
        if crossed.any():
            raise ValueError(
                f"the limit below, {shown(below)}, is not lower than the one above, {shown(above)}"
            )
    return Censored(values, low, high)


def apart(measurements: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[str, int]]]:
    """Measurements with censored samples as channels of their own, and of these the measurement
    and the sign of the side."""
    found, limits = dict[str, Any](), dict[str, tuple[str, int]]()
    for name, given in measurements.items():
        if not isinstance(given, Censored):
            found[name] = given
            continue
        for side, row in given.rows(f"measurement {name}").items():
            channel = f"{name}_{side}" if side else name
            if channel in measurements and channel != name:
                raise ValueError(
                    f"measurement {name} has censored samples, which are the channel {channel}, "
                    "but that is measured, too; choose another name for that"
                )
            found[channel] = row
            if side:
                limits[channel] = (name, SIDES[side])
    return found, limits
