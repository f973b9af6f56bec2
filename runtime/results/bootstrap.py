"""Bootstrap: estimates of resampled records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import between
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.series import Series, series_of
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.bootstrap import block_length, drawn


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bootstrap(Saved):
    """Bootstrap estimates.

    names : of the parameters. estimates : (records, n), of the records whose fit converged, NaN for
    parameters that are not identifiable. failed : number of the other records. block : length of
    the blocks of residuals [samples].
    """

    names: Sequence[str]
    estimates: Annotated[Array, "record", "parameter"]
    failed: int
    block: int

    def __repr__(self) -> str:
        lost = f", {self.failed} more failed" if self.failed else ""
        return f"<bootstrap: {len(self.estimates)} records, blocks of {self.block}{lost}>"

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Percentile intervals of the estimates, (low, high) by name (Efron and Tibshirani 1993, An
        Introduction to the Bootstrap, section 13.3)."""
        level = between(level, 0.0, 1.0, "level")
        shares = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        ends = np.quantile(self.estimates, shares, axis=0)
        return {
            name: (float(low), float(high))
            for name, low, high in zip(self.names, *ends, strict=True)
        }

    def standard_errors(self) -> dict[str, float]:
        """Standard deviation of the estimates, by name."""
        deviations = np.std(self.estimates, axis=0, ddof=1)
        return dict(zip(self.names, map(float, deviations), strict=True))

    def plot(self) -> Any:
        """Figure with a histogram per parameter."""
        count = len(self.names)
        figure, axes = subplots(1, count, grid="", figsize=(3.2 * count, 2.6), squeeze=False)
        for axis, name, values in zip(axes[0], self.names, self.estimates.T, strict=True):
            axis.hist(values[~np.isnan(values)], bins="auto", color="C0", alpha=0.7)
            for end in self.intervals()[name]:
                axis.axvline(end, color="C3", lw=0.8)
            axis.set_xlabel(plain(name))
            axis.set_yticks([])
        return figure


#: Measurements of a record, by trial and channel, at all nodes: NaN where there was none.
Record = Mapping[tuple[int, str], Array]


def block_of(series: Sequence[Series]) -> int:
    """Block length for residuals, by `kinesym.runtime.statistics.bootstrap`."""
    return block_length([s.standardised for s in series])


def remeasured(trials: Sequence[Experiment], record: Record) -> list[Experiment]:
    """Trials with the measurements of a record."""
    return [
        trial.remeasured({name: y for (j, name), y in record.items() if j == k})
        for k, trial in enumerate(trials)
    ]


def noiseless(runs: Sequence[Trajectory]) -> Record:
    """The record that trajectories would leave without noise, at the samples that they have."""
    found = dict[tuple[int, str], Array]()
    for s in series_of(runs):
        row = found[s.trial, s.channel] = np.full(s.nodes, np.nan)
        row[s.index] = s.modelled
    return found


def new_record(
    series: Sequence[Series], block: int, inflate: float, rng: np.random.Generator
) -> Record:
    """Resampled record: the model and residuals of blocks drawn with replacement, at the same
    places for all channels of a trial, since they may be correlated.

    inflate : factor of residuals, which are too small since the unknowns follow them.
    """
    places: dict[tuple[int, int], NDArray[np.intp]] = {}
    found = dict[tuple[int, str], Array]()
    for s in series:
        key = (s.trial, len(s.time))
        if key not in places:
            places[key] = drawn(len(s.time), block, rng)
        e = s.standardised - s.standardised.mean()
        row = found[s.trial, s.channel] = np.full(s.nodes, np.nan)
        row[s.index] = s.modelled + s.std * inflate * e[places[key]]
    return found
