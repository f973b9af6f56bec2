"""Unknown delays of measurements, and the intervals to which they assign samples.

A kernel takes a sample to be within one interval; where the delay moves it out of that, it is on
the polynomial of that interval still, continued. So problems are solved again with samples placed
at the delays that were found, until they lie where they were placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Solved, Start
from kinesym.runtime.ipopt.scaling import Bounds
from kinesym.runtime.library.manifest import CollocationManifest
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.runtime.status import Solve

#: Distance by which a sample may lie outside its interval in a solution, in lengths of it [-].
#: Polynomials meet at nodes.
SLACK = 0.05

#: Distance by which delays may move in a first solve, in mean steps of the grid; it is doubled as
#: long as it is too short.
_REACH = 3.0
#: Solves in turn, at most.
SOLVES = 12

#: Message if they still do not suffice.
NEVER = (
    "samples still leave the intervals in which they are placed, as an unknown delay moves on; "
    "give a guess of it, or narrower bounds"
)

_Made = TypeVar("_Made")

#: Delays of each trial by channel, in the unit of its times.
Delays = Sequence[Mapping[str, float]]


def delays_at(about: CollocationManifest, layout: Layout, z: Array) -> Delays:
    """The unknown delays at z; nothing if there are none."""
    channels = {c.name: layout.owned.parameters.index(c.delay) for c in about.timed if c.delay}
    found = []
    for k in range(len(layout.nodes) if channels else 0):
        values = layout.parameters_of(z, k)
        length = layout.durations(z)[k] if layout.free_duration else 1.0
        found.append({name: float(values[j] / length) for name, j in channels.items()})
    return found


def placed(trials: Sequence[Experiment], delays: Delays) -> list[Experiment]:
    """The trials with samples where they are with these delays."""
    return [
        trial.with_samples(
            {n: replace(own, delay=mine[n]) for n, own in trial.timed.items() if n in mine}
        )
        for trial, mine in zip(trials, delays, strict=True)
    ]


def fit(trials: Sequence[Experiment], delays: Delays, slack: float = SLACK) -> bool:
    """Whether with these delays all samples lie in the intervals in which they are placed, or
    outside by `slack` as a share of them."""
    return all(
        _within(own, trial.grid, mine[name], slack)
        for trial, mine in zip(trials, delays, strict=bool(delays))
        for name, own in trial.timed.items()
        if name in mine
    )


def settled(
    about: CollocationManifest,
    layout: Layout,
    trials: Sequence[Experiment],
    start: Start,
    bounds: Bounds,
    solve: Callable[[Sequence[Experiment], Start, Bounds], tuple[_Made, Solved]],
) -> list[tuple[_Made, Solved]]:
    """Solve repeatedly until the samples lie where unknown delays of sensors place them: results of
    `solve` in turn. It gets trials, a start, and bounds of z. The repetition ends if a solve fails
    without having been stopped by these bounds; problems without unknown delays are solved once. In
    between delays stay near their start, as polynomials are unreliable farther out."""
    made = list[tuple[_Made, Solved]]()
    mine = _entries(about, layout)
    for k in range(SOLVES):
        delays = delays_at(about, layout, start.z)
        trials = trials if fit(trials, delays) else placed(trials, delays)
        near = _near(layout, start.z, bounds, mine, _REACH * 2.0**k)
        made.append(solve(trials, start, near))
        found = made[-1][1]
        fits = fit(trials, delays_at(about, layout, found.z))
        if fits or not (found.status.success or _stopped(found, near, mine)):
            return made
        y, low, high = found.multipliers
        start = Start(found.z, (y, np.where(mine, 0.0, low), np.where(mine, 0.0, high)))
    last = replace(made[-1][1], status=Solve.ITERATION_LIMIT)
    return [*made[:-1], (made[-1][0], last)]


def _stopped(found: Solved, near: Bounds, mine: NDArray[np.bool_]) -> bool:
    """Whether a solve failed where delays are as far as they may go: polynomials that say little
    there can be so steep that rounding hides the minimum."""
    failed = found.status in (Solve.SMALL_STEP, Solve.STEP_FAILED, Solve.RESTORATION_FAILED)
    low, high = near
    width = np.where(mine, high - low, 1.0)
    ends = np.minimum(found.z - low, high - found.z) < 1e-3 * width
    return failed and bool(np.any(ends & mine))


def _within(own: TimedSamples, grid: Array, delay: float, slack: float) -> bool:
    interval, share = own.places(grid)
    moved = share + (own.delay - delay) / np.diff(grid)[interval]
    return bool(np.all((moved >= -slack) & (moved <= 1.0 + slack)))


def _entries(about: CollocationManifest, layout: Layout) -> NDArray[np.bool_]:
    """Entries of z that are unknown delays."""
    found = np.zeros(layout.n_variables, dtype=bool)
    names = {channel.delay for channel in about.timed}
    layout.parameter_values(found)[:] = [p in names for p in layout.owned.members]
    return found


def _near(
    layout: Layout, z: Array, bounds: Bounds, mine: NDArray[np.bool_], reach: float
) -> Bounds:
    """Bounds of z within which delays, entries `mine`, are at most so many mean steps from z."""
    if not mine.any():
        return bounds
    grids = [layout.time(z, k) for k in range(len(layout.nodes))]
    far = reach * max((grid[-1] - grid[0]) / (len(grid) - 1) for grid in grids)
    sides = []
    for side, bound, sign in zip((np.maximum, np.minimum), bounds, (-1.0, 1.0), strict=True):
        moved = layout.natural(z) + sign * far
        with np.errstate(invalid="ignore"):
            layout.parameter_values(moved)[:] = layout.owned.entries(layout.parameter_values(moved))
        inside = np.where(np.isfinite(moved), side(bound, moved), bound)
        sides.append(np.where(mine & (bounds[0] < bounds[1]), inside, bound))
    return sides[0], sides[1]
