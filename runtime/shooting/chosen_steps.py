"""Steps that an adaptive method has chosen, and sweeps of derivatives over them, as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array, located
from kinesym.runtime.native import HELD, PARABOLA, Chain, Run
from kinesym.runtime.simulation.interval import within
from kinesym.runtime.simulation.stepper import (
    IVP,
    Diverged,
    RawTrajectories,
    Stepper,
    bind,
    mapped,
)

#: Numbers that are recorded of the steps of a trial, at most: 160 MB.
_MOST_NUMBERS = 2e7

#: Numbers of tangents at ends of steps that are kept at once, more where an interval has more.
_AT_ONCE = 4e6

#: Makes the chain of implicit steps from their initial value problem, and x' and x at their stages.
Chained = Callable[[IVP, tuple[Array, Array]], Chain]


@dataclass(frozen=True)
class ChosenSteps:
    """Steps through a trial, which end at each node of its grid. A sweep over them takes and gives
    what belongs to the nodes of the grid, as one of `Run` and `Chain`.

    sweep : over the steps. ends : numbers (N,) of the nodes of the grid among the F ends of steps.
    interval : (F,), that of the grid in which each end of a step is. varied : numbers (m,) of the
    inputs whose samples are unknown. shares : (m, F), of the next sample in these at each end.
    """

    sweep: Run | Chain
    ends: NDArray[np.intp]
    interval: NDArray[np.intp]
    shares: Array
    varied: NDArray[np.intp]

    @staticmethod
    def of(
        run: Run, raw: RawTrajectories, varied: NDArray[np.intp], chained: Chained
    ) -> ChosenSteps:
        """The steps that a run has recorded. chained : makes the sweep over implicit ones."""
        after, begins, rates, points = run.steps
        ivp, end = raw.ivp, raw.states[:, 0, -1]
        time = np.concatenate([ivp.time[:1], after])
        interval, share = located(ivp.time, time)
        courses = [
            (_parabolas(row, ivp.time, time), kind)
            if kind == PARABOLA
            else (_at_ends(row, kind, interval, share), kind)
            for row, kind in ivp.inputs
        ]
        states = np.ascontiguousarray(np.vstack([begins, end]).T)[:, None]
        fine = replace(ivp, time=time, initial=states[:, :, 0], inputs=courses)
        sweep: Run | Chain
        if raw.stepper.explicit:
            sweep, _ = bind(raw.stepper, fine, states)
        else:
            stages = (np.ascontiguousarray(rows.transpose(2, 1, 0)) for rows in (rates, points))
            sweep = chained(fine, (next(stages), next(stages)))
        held = np.array([ivp.inputs[k][1] == HELD for k in varied], dtype=bool)
        shares = np.where(held[:, None], 0.0, share)
        return ChosenSteps(sweep, np.searchsorted(time, ivp.time), interval, shares, varied)

    def adjoint(
        self, begin: int, end: int, carry: Array, node: Array, inputs: Array, parameters: Array
    ) -> None:
        """See `Run.adjoint`; nodes are those of the grid."""
        fine, ends = np.zeros((len(node), len(self.interval))), self.ends
        fine[:, ends] = node
        moved = np.zeros((len(inputs), len(self.interval)))
        given = (int(ends[begin]), int(ends[end]), carry, fine, moved, parameters)
        more = () if isinstance(self.sweep, Chain) else (self.varied,)
        with _solvable():
            self.sweep.adjoint(*given, *more)
        for row, slopes, share in zip(inputs, moved, self.shares, strict=True):
            row += np.bincount(self.interval, (1.0 - share) * slopes, len(row))
            row += np.bincount(self.interval + 1, share * slopes, len(row))

    def tangent(self, begin: int, end: int, carry: Array, along: Array, n_varied: int) -> None:
        """See `Run.tangent`; nodes are those of the grid."""
        most, first = max(1, int(_AT_ONCE / max(1, carry.size))), begin
        while first < end:
            there = int(np.searchsorted(self.ends, self.ends[first] + most, side="right")) - 1
            last = min(end, max(first + 1, there))
            ends = self.ends[first : last + 1] - self.ends[first]
            fine = np.empty((ends[-1] + 1, *carry.shape))
            with _solvable():
                about = (int(self.ends[first]), int(self.ends[last]), carry, fine, n_varied)
                self.sweep.tangent(*about)
            along[first - begin + 1 : last - begin + 1] = fine[ends[1:]]
            first = last


@contextmanager
def _solvable() -> Iterator[None]:
    """Raise `Diverged` for steps without derivatives, whose equations are singular."""
    try:
        yield
    except ValueError as error:
        raise Diverged(str(error)) from error


def _at_ends(row: Array, kind: int, interval: NDArray[np.intp], share: Array) -> Array:
    """Samples (1, F) of an input at ends of steps, from those at the nodes."""
    if kind == HELD:
        return np.asarray(row[:, interval + (share == 1.0)])
    return np.asarray(row[:, interval] * (1.0 - share) + row[:, interval + 1] * share)


def _parabolas(row: Array, grid: Array, time: Array) -> Array:
    """Samples (1, 3 F - 2) of an input, parabolas between the nodes of a grid, between ends (F,) of
    steps, each of which is in one of its intervals."""
    middle = 0.5 * (time[:-1] + time[1:])
    interval, _ = located(grid, middle)
    begin, length = grid[interval], np.diff(grid)[interval]
    thirds = [(at - begin) / length for at in (time[:-1], middle, time[1:])]
    values = [within(row[0], PARABOLA, interval, share) for share in thirds]
    return np.append(np.transpose(values), values[2][-1])[None]


def chain_of(
    stepper: Stepper, ivp: IVP, stages: tuple[Array, Array], held: Sequence[bool]
) -> Chain:
    """Equations of all implicit steps of a trial, differentiated at their stages, x' and x. held :
    which unknown inputs are constant between nodes."""
    library, about = stepper.library, stepper.about
    a, b, c = stepper.method
    time = ivp.time[:-1] + c[:, None] * np.diff(ivp.time)
    nodes = np.arange(len(ivp.time) - 1)
    inputs = [within(row[0], kind, nodes, c[:, None]) for row, kind in ivp.inputs]
    rates, states = (part.reshape(len(part), -1) for part in stages)
    given = np.reshape(inputs, (len(inputs), time.size))
    points = [rates, states, given, ivp.parameters.T, time.reshape(1, -1)]
    rows, columns = about.partials
    values = mapped(library, "partials", points, len(rows)).reshape(len(rows), *time.shape)
    return Chain(library, len(states), ivp.time, a, b, c, rows, columns, values, held)


def most_steps(stepper: Stepper) -> int:
    """Steps of a trial that are recorded, at most; 0 of a method that does not choose them."""
    if not stepper.adaptive:
        return 0
    numbers = len(stepper.about.states) * (1 + 2 * stepper.tableau.implicit) + 1
    return int(_MOST_NUMBERS / numbers)
