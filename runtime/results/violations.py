"""Violations of the conditions of a problem, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import chosen_trial, plain, subplots

#: Violation below which it is rounding, and not drawn, in the unit of the condition.
_ROUNDING = 1e-14


class Course(NamedTuple):
    """Violation of one condition over a trial: times (N,) [s] and values, 0 where it is met; for
    conditions at the ends one value, at the last time."""

    condition: str
    trial: int
    time: Array
    values: Array

    @property
    def largest(self) -> float:
        """Largest violation."""
        return float(np.max(self.values, initial=0.0))


@dataclass(frozen=True, repr=False)
class Violations(Displayed):
    """Violations of the equations, conditions and bounds of a problem, in their own units.

    courses : one for each condition of each trial.
    """

    courses: Sequence[Course]

    @property
    def largest(self) -> float:
        """Largest violation of all conditions."""
        return max((course.largest for course in self.courses), default=0.0)

    def worst(self, count: int = 10, trial: int | None = None) -> list[Course]:
        """Conditions with the largest violations, of all trials or of one."""
        some = (course for course in self.courses if trial in (None, course.trial))
        found = sorted(some, key=lambda course: -course.largest)
        return [course for course in found if course.largest > 0.0][:count]

    def plot(self, trial: int = 0, count: int = 20) -> Any:
        """Figure with a row for each of the worst conditions of a trial, and a dot wherever it is
        violated, coloured by the size. Raises `ValueError` for another trial."""
        trials = 1 + max((course.trial for course in self.courses), default=0)
        rows = self.worst(count, chosen_trial(trial, trials))
        figure, axis = subplots(grid="x", figsize=(9.0, 2.2 + 0.3 * max(len(rows), 1)))
        top = np.log10(max((row.largest for row in rows), default=1.0))
        for number, row in enumerate(rows):
            some = row.values > _ROUNDING
            dots = axis.scatter(
                row.time[some],
                np.full(int(some.sum()), number),
                c=np.log10(row.values[some]),
                s=14.0,
                marker="s",
                vmin=top - 8.0,
                vmax=top,
                cmap="viridis_r",
            )
        if rows:
            figure.colorbar(dots, ax=axis, label="log10 of the violation")
        labels = [plain(f"{row.condition}: {row.largest:.1e}") for row in rows]
        axis.set_yticks(range(len(rows)), labels)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlabel("time [s]")
        axis.set_title("what is violated, and where" if rows else "nothing is violated")
        return figure

    def __str__(self) -> str:
        rows = self.worst()
        if not rows:
            return "nothing is violated"
        return "\n".join(
            f"{row.largest:9.2e}  {row.condition}, trial {row.trial}, "
            f"t = {row.time[int(np.argmax(row.values))]:.6g} s"
            for row in rows
        )

    __repr__ = __str__
