"""Designs: experiments whose records tell most, and how much more than those given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinesym.base.notebook import Displayed, with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.forecast import Forecast
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import aligned, listed


@dataclass(frozen=True, eq=False, repr=False)
class Design(Displayed):
    """Design of experiments; see `design`.

    before, after : forecasts of the experiments as they were and as designed. trials : the designed
    experiments, whose measurements have the values of the given ones. starts : of states that were
    free, by name, one for each trial. goal, durations : where the shortest experiment was looked
    for, what the criterion was to come to, and the criterion by duration, of those that were tried.
    sensors : channels that are kept, where these were chosen, with the criterion without each;
    further : those that are not, with the criterion if each was there, too. times : of samples, by
    channel, one array for each trial, where these were chosen. criterion : its name. values : of
    the criterion before and after, a relative standard error but for that of a parameter or
    combination, infinite where it could not be known. inputs : names of those that were free.
    notes : on limits that were passed.
    """

    before: Forecast
    after: Forecast
    trials: Sequence[Experiment]
    given: Sequence[Experiment]
    criterion: str
    values: tuple[float, float]
    inputs: Sequence[str] = ()
    starts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    goal: float | None = None
    durations: Mapping[float, float] = field(default_factory=dict)
    sensors: Mapping[str, float] = field(default_factory=dict)
    further: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, Sequence[Array]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def gain(self) -> float:
        """Factor by which the criterion, a standard error, has become smaller."""
        return self.values[0] / self.values[1]

    def __repr__(self) -> str:
        return f"<design: {self.criterion} {_told(self.values[0])} -> {self.values[1]:.3g}>"

    def __str__(self) -> str:
        before, after = self.before.parameters, self.after.parameters
        rows = [("", "before", "designed", "factor")]
        for name in after:
            was, now = before.table[name].standard_error, after.table[name].standard_error
            label = with_unit(name, after.units)
            factor = f"{was / now:.3g}" if np.isfinite(was) and now > 0.0 else ""
            rows.append((label, _error(was), _error(now), factor))
        words = {"duration": self.durations, "sensors": self.sensors}
        chosen = [name for name, own in words.items() if own]
        free = [*self.inputs, *self.starts, *chosen, *self.times]
        head = (
            f"design of {listed(free)}: {self.criterion} "
            f"{_told(self.values[0])} before, {self.values[1]:.3g} designed"
        )
        more = [
            f"{x} at the start: {listed(f'{v:.4g}' for v in row)}" for x, row in self.starts.items()
        ]
        if self.goal is not None:
            more.append(self._of_duration(self.goal))
        more += [f"keep {x}: {_told(value)} without it" for x, value in self.sensors.items()]
        more += [f"leave {x}: {_told(value)} with it" for x, value in self.further.items()]
        more += [
            f"samples of {name} at {listed(f'{v:.4g}' for v in row)} s"
            for name, rows_ in self.times.items()
            for row in rows_
        ]
        more += self.notes
        return "\n".join([head, *(f"  {line}" for line in [*aligned(rows, (0,)), *more])])

    def _of_duration(self, goal: float) -> str:
        *_, (longest, error) = self.durations.items()
        end = f"{longest:.4g} s come to {_told(error)}"
        if self.values[1] > goal:
            return f"no duration comes to {goal:g}: {end}"
        if len(self.durations) == 1:
            return f"{self.seconds:.4g} s, the shortest that may be, come to {_told(error)}"
        return f"{self.seconds:.4g} s come to {goal:g}; {end}"

    @property
    def seconds(self) -> float:
        """Duration of the first of the designed experiments [s]."""
        grid = self.trials[0].grid
        return float(grid[-1] - grid[0])

    def plot(self, trial: int = 0) -> Any:
        """Figure of the inputs before and after, of the relative standard errors, and of the
        criterion by duration, and with one channel less or more."""
        count = len(self.inputs)
        rows = count + 1 + bool(self.durations) + bool(self.sensors)
        figure, axes = subplots(rows, 1, squeeze=False, figsize=(7.0, 2.2 * rows))
        for axis, name in zip(axes[:, 0], self.inputs, strict=False):
            for words, own in (("before", self.given[trial]), ("designed", self.trials[trial])):
                axis.plot(own.grid, own.inputs[name], label=words, lw=1.2)
            axis.set_ylabel(plain(name))
            axis.set_xlabel("time [s]")
            axis.legend(loc="upper right", fontsize="small")
        self._draw_errors(axes[count, 0])
        if self.durations:
            self._draw_durations(axes[count + 1, 0])
        if self.sensors:
            self._draw_sensors(axes[-1, 0])
        return figure

    def _draw_errors(self, axis: Any) -> None:
        names = list(self.after.parameters)
        places = np.arange(len(names))
        for words, told in (("before", self.before), ("designed", self.after)):
            table = told.parameters.table
            sizes = [table[n].standard_error / (abs(table[n].value) or 1.0) for n in names]
            axis.semilogy(places, 100.0 * np.array(sizes), "o", label=words)
        axis.set_xticks(places, [plain(name) for name in names], rotation=45 * (len(names) > 6))
        axis.set_ylabel("standard error [%]")
        axis.legend(loc="upper right", fontsize="small")

    def _draw_durations(self, axis: Any) -> None:
        """The criterion of each duration that was tried, and the goal."""
        axis.semilogy([*self.durations], [*self.durations.values()], "o-", ms=4.0, lw=1.2)
        axis.axhline(self.goal, color="0.5", lw=0.8, label="goal")
        axis.axvline(self.seconds, color="C1", lw=1.2, label="designed")
        axis.set_xlabel("duration [s]")
        axis.set_ylabel(self.criterion)
        axis.legend(loc="upper right", fontsize="small")

    def _draw_sensors(self, axis: Any) -> None:
        """The criterion without each channel that is kept, and with each other one; crosses above
        the frame where it is not known."""
        names, begin = [*self.sensors, *self.further], 0
        for words, mark, told in (
            ("without one", "v", self.sensors),
            ("with one more", "^", self.further),
        ):
            values = np.array([*told.values()])
            places, lost = begin + np.arange(len(values)), ~np.isfinite(values)
            [line] = axis.plot(places[~lost], values[~lost], mark, label=words)
            about = {"transform": axis.get_xaxis_transform(), "clip_on": False, "in_layout": False}
            axis.plot(
                places[lost], np.full(int(lost.sum()), 1.04), "x", color=line.get_color(), **about
            )
            begin += len(values)
        if not (self.times or self.durations):
            axis.axhline(self.values[1], color="0.5", lw=0.8, label="kept")
        axis.set_xlim(-0.5, len(names) - 0.5)
        axis.margins(y=0.15)
        axis.set_ylim(bottom=0.0)
        axis.set_xticks(
            range(len(names)), [plain(name) for name in names], rotation=45 * (len(names) > 6)
        )
        axis.set_ylabel(self.criterion)
        axis.legend(loc="best", fontsize="small")


def _told(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "not known"


def _error(error: float) -> str:
    return f"+- {error:.3g}" if np.isfinite(error) else "cannot be known"
