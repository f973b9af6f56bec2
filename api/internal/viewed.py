"""What a problem shows of a free vector: what is violated, and trajectories within their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kinesym.internal.guessed import Guessed
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.results.plot import chosen, chosen_trial, panels
from kinesym.runtime.results.violations import Course, Violations

Pair = tuple[Array, Array]


class Viewed(Guessed):
    """A problem that can be looked at."""

    def violations(self, guess: Any = None) -> Violations:
        """How much a guess or a solution, see `pack`, violates equations, conditions and bounds:
        `print(task.violations(solution))`, `task.violations(solution).plot()`."""
        z = self.pack(guess)
        given = self.constraints(z), self.constraint_bounds, self.variable_bounds
        return Violations(list(violated(self.layout, z, *given)))

    def plot(
        self,
        guess: Any = None,
        beside: Any = None,
        trial: int = 0,
        names: Sequence[Any] | None = None,
    ) -> Any:
        """A figure of the states and unknown inputs of a guess or a solution, see `pack`, within
        their bounds (dashed), and of another one `beside` it (dotted), such as its guess. Raises
        `ValueError` for a trial or a name that there is not."""
        number = chosen_trial(trial, len(self.trials))
        z, others = self.pack(guess), {}
        if beside is not None:
            other = self.pack(beside)
            time = self.layout.time(other, number)
            others = {name: (time, row) for name, row in self._courses(other, number).items()}
        rows = self._courses(z, number)
        given = (self.layout, z, number, rows, self.variable_bounds, others, names)
        return within_bounds(*given, self.model.name)


def beyond(values: Array, bounds: Pair) -> Array:
    """How far values are outside (low, high), 0 inside."""
    return np.maximum(0.0, np.maximum(bounds[0] - values, values - bounds[1]))


def violated(
    layout: Layout, z: Array, constraints: Array, limits: Pair, bounds: Pair
) -> Iterator[Course]:
    """How much each constraint and each bound is violated in each trial, at z."""
    outside = beyond(constraints, limits)
    for (trial, family), begin in layout.constraint_offsets.items():
        time, n = layout.time(z, trial), layout.points(trial, family)
        times = time[-n:] if n < len(time) else time
        for k, label in enumerate(layout.labels[family]):
            first = begin + k * n
            yield Course(label, trial, times, outside[first : first + n])
    for trial in range(len(layout.nodes)):
        time = layout.time(z, trial)
        for block, rows in layout.rows(beyond(z, bounds), trial):
            for name, row in zip(block.members, rows, strict=True):
                yield Course(f"bounds of {name}", trial, time[-len(row) :], row)


def within_bounds(
    layout: Layout,
    z: Array,
    trial: int,
    rows: Mapping[str, Array],
    bounds: Pair,
    others: Mapping[str, tuple[Array, Array]],
    names: Sequence[Any] | None,
    title: str,
) -> Any:
    """A figure of trajectories of a trial, with their bounds, and with `others` [s, values] beside
    them, dotted."""
    wanted, time = chosen(names, rows), layout.time(z, trial)
    figure, axes = panels(wanted, title)
    sides = [_sides(layout, side, trial) for side in bounds]
    for axis, name in zip(axes, wanted, strict=True):
        axis.plot(time, rows[name], lw=1.2, color="C0")
        if name in others:
            axis.plot(*others[name], ":", lw=1.2, color="C1")
        axis.set_ylim(axis.get_ylim())  # distant bounds do not flatten the rest
        for side in sides:
            row = side[name]
            axis.plot(time[-len(row) :], row, "--", lw=0.9, color="0.5")
    return figure


def _sides(layout: Layout, side: Array, trial: int) -> dict[str, Array]:
    """One side of the bounds of each trajectory, (N,), or (N - 1,) at a stage; NaN where free."""
    found: dict[str, Array] = {}
    for block, rows in layout.rows(side, trial):
        for name, row in zip(block.members, rows, strict=True):
            found.setdefault(name, np.where(np.isfinite(row), row, np.nan))
    return found
