"""Data per trial: everything that a trial of a problem has of its own, in one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kinesym.internal.problems.fixed_values import Fixed
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.bounds import Limits, RateLimits
from kinesym.runtime.nlp.delay_rows import Lag, LagOfTrial, UnknownCourse
from kinesym.runtime.signals.experiment import Experiment


@dataclass(frozen=True, eq=False)
class OneTrial:
    """Trial with its numbers.

    trial : measured data on the grid of its nodes. known : values of known parameters. fixed :
    initial and final values that conditions fix, see `fixed_values`. limits : bounds of its
    conditions, by family of constraints. spans : bounds of each delay of the model [s]. before :
    unknown signals before the start, by name. lacking : names of states and inputs that only other
    phases have. given_grid : grid (N,) on which the user gives trajectories; None if it is that of
    the trial. loosened : slack of redundant conditions, by family and number.
    """

    trial: Experiment
    known: Mapping[str, float]
    fixed: Fixed
    limits: Mapping[str, Sequence[Limits | RateLimits]]
    spans: Sequence[tuple[float, float]] = ()
    before: Mapping[str, UnknownCourse] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()
    given_grid: Array | None = None
    loosened: Mapping[tuple[str, int], float] = field(default_factory=dict)


#: Trial, family and number of a condition that follows from others, and how far off it may be.
Loosened = tuple[int, str, int, float]


@dataclass(frozen=True, eq=False)
class PerTrial:
    """Rows of all trials of a problem.

    Nothing that differs between trials is stored elsewhere, so that a subset of the trials, or the
    same trials on other grids, can forget nothing.
    """

    rows: tuple[OneTrial, ...]

    @cached_property
    def trials(self) -> Sequence[Experiment]:
        """Data of all trials."""
        return [row.trial for row in self.rows]

    @cached_property
    def known(self) -> Sequence[Mapping[str, float]]:
        """Values of known parameters of each trial."""
        return [row.known for row in self.rows]

    @property
    def limits(self) -> dict[str, list[Sequence[Limits | RateLimits]]]:
        """Bounds of conditions by family: one entry per trial."""
        families = self.rows[0].limits
        return {family: [row.limits[family] for row in self.rows] for family in families}

    @property
    def loosened(self) -> list[Loosened]:
        """Redundant conditions with their slack, of all trials."""
        return [
            (k, family, number, room)
            for k, row in enumerate(self.rows)
            for (family, number), room in row.loosened.items()
        ]

    def lags(self, delays: Sequence[Lag]) -> list[Lag]:
        """Delays of a model, joined with their bounds and histories in each trial."""
        return [
            replace(
                lag,
                trials=[LagOfTrial(row.spans[i], row.before.get(lag.signal)) for row in self.rows],
            )
            for i, lag in enumerate(delays)
        ]

    def some(self, numbers: Sequence[int]) -> PerTrial:
        """Subset of the trials, by number."""
        return PerTrial(tuple(self.rows[k] for k in numbers))

    def on(self, trials: Sequence[Experiment]) -> PerTrial:
        """Replace the data of each trial, as by those on other grids."""
        pairs = zip(self.rows, trials, strict=True)
        return PerTrial(tuple(replace(row, trial=trial) for row, trial in pairs))

    def with_known(self, known: Sequence[Mapping[str, float]]) -> PerTrial:
        """Replace the values of known parameters of each trial."""
        pairs = zip(self.rows, known, strict=True)
        return PerTrial(tuple(replace(row, known=values) for row, values in pairs))

    def with_std(self, std: Mapping[str, float]) -> PerTrial:
        """Set standard deviations, by group of channels, that were not known."""
        return self.on([trial.with_std(std) for trial in self.trials])

    def loosen(self, conditions: Sequence[Loosened]) -> PerTrial:
        """Give slack to these conditions, and to no others."""
        mine: list[dict[tuple[str, int], float]] = [{} for _ in self.rows]
        for k, family, number, room in conditions:
            mine[k][family, number] = room
        pairs = zip(self.rows, mine, strict=True)
        return PerTrial(tuple(replace(row, loosened=each) for row, each in pairs))
