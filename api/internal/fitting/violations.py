"""Violations of constraints and bounds by a free vector, and trajectories within their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.results.plot import chosen, chosen_trial, panels
from kinesym.runtime.results.violations import Course, Violations

Pair = tuple[Array, Array]


def violations(problem: Discretisation, z: Array) -> Violations:
    """Violations of equations, conditions and bounds at z."""
    given = problem.constraints(z), problem.constraint_bounds, problem.variable_bounds
    return Violations(list(violated(problem.layout, z, *given)))


def figure_within_bounds(
    problem: Discretisation,
    z: Array,
    beside: Array | None,
    trial: int,
    names: Sequence[Any] | None,
) -> Any:
    """A figure of the states and unknown inputs of z in a trial within their bounds, and of another
    z beside it. Raises `ValueError` for a trial or a name that there is not."""
    number, others = chosen_trial(trial, len(problem.trials)), {}
    if beside is not None:
        time = problem.layout.time(beside, number)
        others = {name: (time, row) for name, row in problem.courses(beside, number).items()}
    rows = problem.courses(z, number)
    given = (problem.layout, z, number, rows, problem.variable_bounds, others, names)
    return within_bounds(*given, problem.model.name)


def beyond(values: Array, bounds: Pair) -> Array:
    """Distance of values outside (low, high), 0 inside."""
    return np.maximum(0.0, np.maximum(bounds[0] - values, values - bounds[1]))


def violated(
    layout: Layout, z: Array, constraints: Array, limits: Pair, bounds: Pair
) -> Iterator[Course]:
    """Violation of each constraint and each bound in each trial, at z."""
    outside = beyond(constraints, limits)
    for trial, family, label, here in layout.constraint_rows():
        time, n = layout.time(z, trial), layout.points(trial, family)
        yield Course(str(label), trial, time[-n:] if n < len(time) else time, outside[here])
    for trial in range(len(layout.nodes)):
        time = layout.time(z, trial)
        for name, _, row in layout.named_rows(beyond(z, bounds), trial):
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
    """Bounds of each trajectory on one side, (N,), or (N - 1,) at a stage; NaN where free."""
    found: dict[str, Array] = {}
    for name, _, row in layout.named_rows(side, trial):
        found.setdefault(name, np.where(np.isfinite(row), row, np.nan))
    return found
