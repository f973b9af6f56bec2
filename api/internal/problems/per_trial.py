"""What each trial of a problem has of its own, and nothing else has."""

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
    """A trial and all that goes with it.

    trial : its data, on its grid. known : values of known parameters. fixed : values that
    conditions fix, see `fixed_values`. limits : of its conditions, by family of constraints.
    spans : bounds of each delay of the model [s]. before : unknown courses before the start, by
    signal. lacking : names of states and inputs that only other phases have. given_grid : the grid
    (N,) on which the user gives trajectories, None for the one of the trial. loosened : how far
    conditions may be off, by family and number, that follow from others.
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
    """The trials of a problem. Whatever a problem has per trial stands in these rows, so that a
    part of the trials, or the same ones on other grids, can forget nothing."""

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
        """Limits of conditions by family, of each trial."""
        families = self.rows[0].limits
        return {family: [row.limits[family] for row in self.rows] for family in families}

    @property
    def loosened(self) -> list[Loosened]:
        """Conditions that may be off, of all trials."""
        return [
            (k, family, number, room)
            for k, row in enumerate(self.rows)
            for (family, number), room in row.loosened.items()
        ]

    def lags(self, delays: Sequence[Lag]) -> list[Lag]:
        """The delays of a model with what they have in each trial."""
        return [
            replace(
                lag,
                trials=[LagOfTrial(row.spans[i], row.before.get(lag.signal)) for row in self.rows],
            )
            for i, lag in enumerate(delays)
        ]

    def some(self, numbers: Sequence[int]) -> PerTrial:
        """The trials of these numbers."""
        return PerTrial(tuple(self.rows[k] for k in numbers))

    def on(self, trials: Sequence[Experiment]) -> PerTrial:
        """The same with other data, such as on other grids, of each trial."""
        pairs = zip(self.rows, trials, strict=True)
        return PerTrial(tuple(replace(row, trial=trial) for row, trial in pairs))

    def with_known(self, known: Sequence[Mapping[str, float]]) -> PerTrial:
        """The same with other values of known parameters, of each trial."""
        pairs = zip(self.rows, known, strict=True)
        return PerTrial(tuple(replace(row, known=values) for row, values in pairs))

    def with_std(self, std: Mapping[str, float]) -> PerTrial:
        """The same with standard deviations, by group, where they were not known."""
        return self.on([trial.with_std(std) for trial in self.trials])

    def loosen(self, conditions: Sequence[Loosened]) -> PerTrial:
        """The same where these conditions, and no others, may be off."""
        mine: list[dict[tuple[str, int], float]] = [{} for _ in self.rows]
        for k, family, number, room in conditions:
            mine[k][family, number] = room
        pairs = zip(self.rows, mine, strict=True)
        return PerTrial(tuple(replace(row, loosened=each) for row, each in pairs))
