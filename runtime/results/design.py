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
    free, by name, one for each trial. times : of samples, by channel, one array for each trial,
    where these were chosen. criterion : its name. values : of the criterion before and after, a
    relative standard error but for that of a parameter or combination, infinite where it could not
    be known. inputs : names of those that were free. notes : on limits that were passed.
    """

    before: Forecast
    after: Forecast
    trials: Sequence[Experiment]
    given: Sequence[Experiment]
    criterion: str
    values: tuple[float, float]
    inputs: Sequence[str] = ()
    starts: Mapping[str, Sequence[float]] = field(default_factory=dict)
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
        head = (
            f"design of {listed([*self.inputs, *self.starts, *self.times])}: {self.criterion} "
            f"{_told(self.values[0])} before, {self.values[1]:.3g} designed"
        )
        more = [
            f"{x} at the start: {listed(f'{v:.4g}' for v in row)}" for x, row in self.starts.items()
        ]
        more += [
            f"samples of {name} at {listed(f'{v:.4g}' for v in row)} s"
            for name, rows_ in self.times.items()
            for row in rows_
        ]
        more += self.notes
        return "\n".join([head, *(f"  {line}" for line in [*aligned(rows, (0,)), *more])])

    def plot(self, trial: int = 0) -> Any:
        """Figure of the inputs before and after, and of the relative standard errors."""
        count = len(self.inputs)
        figure, axes = subplots(count + 1, 1, squeeze=False, figsize=(7.0, 2.2 * (count + 1)))
        for axis, name in zip(axes[:, 0], self.inputs, strict=False):
            for words, own in (("before", self.given[trial]), ("designed", self.trials[trial])):
                axis.plot(own.grid, own.inputs[name], label=words, lw=1.2)
            axis.set_ylabel(plain(name))
            axis.set_xlabel("time [s]")
            axis.legend(loc="upper right", fontsize="small")
        last, names = axes[-1, 0], list(self.after.parameters)
        places = np.arange(len(names))
        for words, told in (("before", self.before), ("designed", self.after)):
            table = told.parameters.table
            sizes = [table[n].standard_error / (abs(table[n].value) or 1.0) for n in names]
            last.semilogy(places, 100.0 * np.array(sizes), "o", label=words)
        last.set_xticks(places, [plain(name) for name in names], rotation=45 * (len(names) > 6))
        last.set_ylabel("standard error [%]")
        last.legend(loc="upper right", fontsize="small")
        return figure


def _told(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "not known"


def _error(error: float) -> str:
    return f"+- {error:.3g}" if np.isfinite(error) else "cannot be known"
