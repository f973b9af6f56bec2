"""Confidence bands of trajectories over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinesym.base.notebook import html_table, with_unit
from kinesym.runtime.arrays import Array, one_number
from kinesym.runtime.results.estimates import quantile
from kinesym.runtime.results.plot import chosen, chosen_trial, panels
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.trajectory import ByName, OverTime, SampleTable, Trajectory
from kinesym.runtime.signals.experiment import key_name


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Band(ByName, Saved):
    """Confidence bands of a trial: trajectories over time (N,), `mean`, with their standard
    deviations, `deviation`, by name, and the measurements, at nodes or at times of their own (see
    `Trajectory`). NaN marks undetermined values.

    `band["theta"]` is a deviation. freedom : degrees of freedom of the variance of the samples,
    infinite if that is given.
    """

    time: OverTime
    mean: Mapping[str, OverTime]
    deviation: Mapping[str, OverTime]
    measurements: Mapping[str, OverTime]
    samples: SampleTable = field(default_factory=dict)
    freedom: float = np.inf

    def __getitem__(self, key: object) -> Array:
        return self.deviation[chosen([key_name(key)], self.deviation)[0]]

    def keys(self) -> list[str]:
        """Names of the trajectories."""
        return list(self.deviation)

    def samples_of(self, name: str) -> tuple[Array, Array]:
        """Times and samples of a trajectory, empty if it is not measured."""
        if name in self.measurements:
            return self.time, self.measurements[name]
        if not self.samples:
            return np.zeros(0), np.zeros(0)
        mine = self.samples["channel"] == name
        return self.samples["time"][mine], self.samples["measured"][mine]

    def limits(self, key: object, level: float = 0.95) -> tuple[Array, Array]:
        """Pointwise confidence limits, lower and upper, (N,) each, which contain the trajectory at
        any one time with the probability `level`, by Student's t. Raises `ValueError` if that is
        not between 0 and 1."""
        reach = _reach(level, self.freedom) * self[key]
        mean = self.mean[key_name(key)]
        return mean - reach, mean + reach

    def __repr__(self) -> str:
        return f"<bands of {len(self)} trajectories at {len(self.time)} nodes>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bands(ByName, Saved):
    """Confidence bands of all trials: the result of `bands` of a fit.

    `bands["theta"]` is the standard deviation of theta over time (N,) in the first trial,
    `bands.trials[k]["theta"]` that in trial k. model : its name. units : by name, if known.
    """

    trials: Sequence[Band]
    model: str = ""
    units: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, key: object) -> Array:
        return self.trials[0][key]

    def keys(self) -> list[str]:
        """Names of the trajectories."""
        return self.trials[0].keys()

    def __repr__(self) -> str:
        return f"<bands of {self.model}: {len(self)} trajectories, {len(self.trials)} trials>"

    def _repr_html_(self) -> str:
        """Table for a notebook: the range of each standard deviation in the first trial."""
        head = ("name", "smallest standard deviation", "largest")
        rows = []
        for name, row in self.items():
            known = row[~np.isnan(row)]
            ends = (known.min(), known.max()) if len(known) else (np.nan, np.nan)
            rows.append((with_unit(name, self.units), *(f"{end:.3g}" for end in ends)))
        return html_table(repr(self)[1:-1], rows, head)

    def plot(self, trial: int = 0, names: Sequence[Any] | None = None, level: float = 0.95) -> Any:
        """Figure of a trial with one panel per trajectory, or those of these names, with pointwise
        bands of probability `level`; measurements as dots."""
        band = self.trials[chosen_trial(trial, len(self.trials))]
        wanted = chosen(names, band.keys())
        title = f"{self.model}: {100 * level:g} % at any one time"
        figure, axes = panels(wanted, title, self.units)
        for axis, name in zip(axes, wanted, strict=True):
            time, samples = band.samples_of(name)
            size = 2.0 if np.isfinite(samples).sum() > 300 else 5.0
            axis.plot(time, samples, ".", ms=size, color="0.55")
            axis.fill_between(band.time, *band.limits(name, level), alpha=0.3, lw=0.0)
            axis.plot(band.time, band.mean[name], lw=1.2)
        return figure


def band_of(run: Trajectory, spread: Mapping[str, Array], freedom: float) -> Band:
    """Bands of a trial, from standard deviations by name; see `Band`."""
    names = [name for name in run if name in spread]
    return Band(
        time=run.time,
        mean={name: run[name] for name in names},
        deviation={name: np.where(np.isnan(run[name]), np.nan, spread[name]) for name in names},
        measurements={n: run.measurements[n] for n in names if n in run.measurements},
        samples=run.samples,
        freedom=freedom,
    )


def _reach(level: float, freedom: float) -> float:
    """Half width of an interval of probability `level` [standard deviations], by Student's t."""
    share = one_number(level, "level")
    if not 0.0 < share < 1.0:
        raise ValueError(f"level must be between 0 and 1, as 0.95, got {level!r}")
    return quantile(share, freedom)
