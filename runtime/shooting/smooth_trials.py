"""Smooth trials as functions of few unknowns, with derivatives by sweeps over the steps.

The objective is that of collocation, a function of the free vector z with all trajectories. Here z
follows from the unknowns q by time stepping, and d J/d q from d J/d z by a sweep over the steps:
backwards for the adjoint, forwards for tangents.

Of a method that chooses its steps, z has the nodes of the trials alone, at each of which a step
ends. The steps follow from q, and derivatives are those of these steps as they are: how their
lengths change with q is left out, which makes a difference of the size of the tolerances. Fits take
as many iterations as with the steps of their start kept, which may suit another q worse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.trial import Changes, DelayedTrial, Source
from kinesym.runtime.estimation.priors import Priors
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.native import HELD, LINEAR, Chain, Run
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.nlp.sensor_delays import delays_at, fit, placed
from kinesym.runtime.nlp.slopes import course_slopes, slopes_of_outputs
from kinesym.runtime.nlp.timed import compared
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.blocks import Block, Places
from kinesym.runtime.shooting.chosen_steps import ChosenSteps, chain_of, most_steps
from kinesym.runtime.shooting.resets import Crossed, Interrupted, Reset, by_nodes, crossed
from kinesym.runtime.shooting.scores import Scores
from kinesym.runtime.shooting.squares import Residuals
from kinesym.runtime.shooting.steady_start import Settled
from kinesym.runtime.shooting.trials import Simulated, System, unstable
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import (
    IVP,
    Diverged,
    RawTrajectories,
    Stepper,
    bind,
    failure,
    longest_step,
    modes_at,
    rounded_down,
)

Found = TypeVar("Found")

#: States times steps of all trials, for each thread, from which these are simulated side by side.
_PER_THREAD = 1500
#: Steps of a trial that a method chooses, about, if its grid has fewer.
_STEPS = 50

#: By how much samples may leave their steps, as a share of these, before they are placed anew.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class _TrialLoop:
    """Time stepping of a trial, bound to its part of z; late : that of a trial with delays. step :
    (1,), the length of the next step, 0 for one to be chosen."""

    run: Run
    raw: RawTrajectories
    states: Array  # (n, N), a view of z
    inputs: Array  # (m unknown, N), a view of z
    initial: Array  # (n,), fixed values; unknown ones are overwritten
    stages: tuple[Array, Array] | None  # x' and x at the stages of fixed implicit steps
    step: Array
    late: DelayedTrial | None = None


class _Pulled(NamedTuple):
    """Derivatives of J by the starts of the segments of a trial, n each, by its unknown inputs (m,
    N), and by its unknown parameters (r,)."""

    starts: Sequence[Array]
    inputs: Array
    parameters: Array


class Evaluated(NamedTuple):
    """Objective as a function of z, and a function that makes its residuals, which raises
    `ValueError` if there are none."""

    nlp: NLP
    squares: Callable[[], Residuals]


class SmoothTrials(Simulated):
    """Trials of a smooth model, see `Simulated`.

    Parameters
    ----------
    on : makes the objective as a function of z, of trials on the grids of the steps. stepper : the
    loops, of the same library. outputs : makes the library of derivatives of outputs, if these have
    any. trials : as they are given; fine : on the grids of the steps. initial : per trial the
    initial values by state, NaN where unknown. sources : per trial what delayed inputs are of; z
    has these inputs after the unknown ones. resets : per trial those at known times, over which
    implicit methods step.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        system: System,
        trials: Sequence[Experiment],
        priors: Priors,
        *,
        on: Callable[[Sequence[Experiment]], Evaluated],
        stepper: Stepper,
        fine: Sequence[Experiment],
        initial: Sequence[Mapping[str, float]],
        substeps: int,
        tolerances: tuple[float, float],
        measured: bool,
        weighted: bool,
        factor: float,
        loss: RobustLoss | None,
        scored: bool,
        outputs: Callable[[], Built | None],
        sources: Sequence[Sequence[Source]],
        following: Sequence[Following | Settled | None],
        resets: Sequence[Sequence[Reset]],
    ) -> None:
        super().__init__(unknowns, system, trials, priors, following)
        self.measured, self.weighted, self.substeps = measured, weighted, substeps
        self.factor, self.loss = factor, loss
        self.scored = scored
        self._on, self._stepper, self._fine = on, stepper, fine
        self._tolerances = tolerances
        self.nlp, self._squares = on(fine)
        self._outputs, self._z = outputs, np.zeros(self.nlp.n_variables)
        self._places: Places | None = None  # of tangents, when they are asked for
        self._most: Sequence[int] = ()  # steps of each trial, where they are fewer
        about = stepper.about
        self._values = [
            stepper.with_tables(np.array([[known.get(name, 0.0) for name in about.parameters]]))
            for known in system.known
        ]
        self._free = [about.parameters.index(name) for name in unknowns.owned.parameters]
        self._varied = np.array([about.inputs.index(u) for u in unknowns.inputs], dtype=np.intp)
        self._starts = [unknowns.states.index(x) for x in unknowns.initial]
        self._sources, self._pools = sources, dict[int, ThreadPoolExecutor]()
        self._trials = [self._bound(k, trial, initial[k]) for k, trial in enumerate(fine)]
        pairs = zip(resets, fine, strict=True)
        self._resets = [by_nodes(own, trial.grid) for own, trial in pairs]
        self._crossed = [list[Crossed]() for _ in fine]
        self._ends = [np.zeros((len(s), len(unknowns.states))) for s in unknowns.segments]

    def _bound(self, number: int, trial: Experiment, initial: Mapping[str, float]) -> _TrialLoop:
        n, N = len(self.unknowns.states), trial.n_nodes
        rows = self.nlp.layout.trajectories(self._z, number)
        free = dict(zip(self.nlp.layout.inputs, rows[n:], strict=True))
        signals = [
            self._samples(trial, u) if u not in free else (free[u][None], self._kind(u))
            for u in self._stepper.about.inputs
        ]
        start = np.array([initial[x] for x in self.unknowns.states])
        ivp = IVP(
            trial.grid, start[:, None], self._values[number], signals, tolerances=self._tolerances
        )
        stages, stepper = None, self._stepper
        if not (stepper.explicit or stepper.adaptive):
            shape = (n, len(stepper.method[1]), N - 1)
            stages = (np.zeros(shape), np.zeros(shape))
        states, step = rows[:n].reshape(n, 1, N), np.zeros(1)
        run, raw = bind(stepper, ivp, states, stages, step, most_steps(stepper))
        late, sources = None, self._sources[number]
        if sources:
            given = replace(ivp, inputs=signals[: len(signals) - len(sources)])
            late = DelayedTrial(stepper, given, sources, len(self._free))
        return _TrialLoop(run, raw, rows[:n], rows[n:], start, stages, step, late)

    def _kind(self, name: str) -> int:
        return HELD if name in self.nlp.layout.held else LINEAR

    def _samples(self, trial: Experiment, name: str) -> tuple[Array, int]:
        """Samples of a known input and their kind."""
        samples, kind = trial.signals[name].sampled(trial.grid)
        return np.ascontiguousarray(samples)[None], kind

    # -- values -----------------------------------------------------------------------------

    def _simulated(self, q: Array) -> Array:
        """Simulate: z(q), a view."""
        self.nlp.layout.parameter_values(self._z)[:] = q[: len(self.unknowns.parameters)]
        self._each(partial(self._run_of, q))
        delays = delays_at(self.nlp.about, self.nlp.layout, self._z)
        if not fit(self._fine, delays, _ROUNDING):  # whatever was before, J(q) is the same
            self._fine, self._places = placed(self._fine, delays), None
            self.nlp, self._squares = self._on(self._fine)
        return self._z

    def _each(self, of: Callable[[int], Found]) -> list[Found]:
        """Values of a function of each trial, in their order, over threads if the steps are many.
        Raises `Diverged` of the first trial where it does."""

        def titled(trial: int) -> Found:
            try:
                return of(trial)
            except Diverged as error:
                raise Diverged(f"{self._title(trial)}{error}") from error

        pool, numbers = self._pool(), range(len(self._trials))
        return list((pool.map if pool else map)(titled, numbers))

    def _pool(self) -> ThreadPoolExecutor | None:
        """Threads for trials, of this process: a fork has none of them. None for one."""
        here = os.getpid()
        if self._threads > 1 and here not in self._pools:
            self._pools = {here: ThreadPoolExecutor(self._threads, "trials")}
        return self._pools.get(here)

    @cached_property
    def _threads(self) -> int:
        """Number of threads for trials: one for so few steps that more cost more than they save."""
        least = _STEPS if self._stepper.adaptive else 1
        steps = sum(max(trial.n_nodes, least) for trial in self._fine)
        most = steps * len(self.unknowns.states) // _PER_THREAD
        return min(self.nlp.threads, len(self._trials), most)

    def _run_of(self, q: Array, number: int) -> None:
        """Simulate a trial."""
        trial, unknowns = self._trials[number], self.unknowns
        self._values[number][0, self._free] = q[unknowns.owned.places(number)]
        free = trial.inputs[: len(unknowns.inputs)]
        free[:] = q[unknowns.samples(number)].reshape(free.shape)
        start = trial.initial.copy()
        start[self._starts] = q[unknowns.starts(number)]
        for x, value in self.followed(q, number).items():
            start[unknowns.states.index(x)] = value
        bounds = q[unknowns.boundaries(number)].reshape(-1, len(start))
        self._march(number, np.vstack([start, bounds]))

    def _march(self, number: int, starts: Array) -> None:
        """Simulate all segments of a trial; the states at their ends are stored separately."""
        trial, about = self._trials[number], self._stepper.about
        values, free = self._values[number][0], self.unknowns.owned.parameters
        if trial.late is not None:
            states, late = trial.late.march(starts[0])
            trial.states[:], trial.inputs[:] = states, late
            self._ends[number][0] = states[:, -1]
            return
        trial.raw.trouble[:] = 0.0
        trial.run.forget(self._most[number] if self._most else None)
        for j, (begin, end) in enumerate(self.pieces(number)):
            trial.states[:, begin] = starts[j]
            stops = list[Crossed]()
            for node, resets in self._resets[number]:
                self._step(trial, begin, node)
                begin, known = node, dict(zip(about.parameters, values, strict=False))
                x = trial.states[:, node]
                stops.append(crossed(node, resets, about.states, x, known, free))
                trial.states[:, node] = stops[-1].after
            self._step(trial, begin, end)
            self._ends[number][j], self._crossed[number] = trial.states[:, end], stops

    def _step(self, trial: _TrialLoop, begin: int, end: int) -> None:
        """Simulate from one node to another. Raises `Diverged`."""
        if begin == end:
            return
        trial.raw.reached[:], trial.step[:] = begin + 1, 0.0
        trial.run.march(self._stepper.loop, begin, end)
        if trial.raw.reached[0] != end + 1:
            raise Diverged(f"the simulation of {self.system.name}: {failure(trial.raw, 0)}")

    @property
    def steps(self) -> Sequence[int]:
        return [trial.run.count for trial in self._trials] if self._stepper.adaptive else ()

    @contextmanager
    def at_most(self, steps: Sequence[int]) -> Iterator[None]:
        self._most = steps
        try:
            with super().at_most(steps):
                yield
        finally:
            self._most = ()

    def pieces(self, trial: int) -> list[tuple[int, int]]:
        """First and last node of each segment."""
        begins = self.unknowns.segments[trial]
        return list(zip(begins, (*begins[1:], self.unknowns.nodes[trial] - 1), strict=True))

    def _cost(self, q: Array) -> float:
        z = self.simulate(q)  # first: samples may move to other steps
        return self.nlp.cost(z)

    def gaps(self, q: Array) -> Array:
        self.simulate(q)
        parts = [
            ends[:-1].ravel() - q[self.unknowns.boundaries(k)] for k, ends in enumerate(self._ends)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def instability(self, q: Array) -> str:
        """Message if the model is stiff or unstable at its start, else empty."""
        if self._stepper.library.kernel_names().count("rhs") == 0:
            return ""
        self.simulate(q)
        for k, trial in enumerate(self._trials):
            grid = trial.raw.ivp.time
            modes = modes_at(trial.raw, 0)
            fastest = modes[np.argmax(np.abs(modes))]
            step, longest = float(np.max(np.diff(grid))), (grid[-1] - grid[0]) / len(self.pieces(k))
            allowed = longest_step(self._stepper, fastest)
            if self._stepper.fixed and step > allowed:
                return (
                    f"steps of {step:g} s are too long for the mode {fastest:.4g} 1/s at the start "
                    f"of trial {k}; use steps of at most {rounded_down(allowed)} s (substeps) or "
                    "method='trapezoid'"
                )
            words = unstable(k, modes, longest, "more segments, or ks.Collocation")
            if words and trial.late is None:  # which may be what keeps the motion stable
                return words
        return ""

    def trajectories(self, q: Array) -> list[Trajectory]:
        z = self.simulate(q)
        return [self._trajectory(q, z, k) for k in range(len(self.trials))]

    def _trajectory(self, q: Array, z: Array, number: int) -> Trajectory:
        layout, trial, fine = self.nlp.layout, self.trials[number], self._fine[number]
        part, n, system = self.substeps, len(layout.states), self.system
        values, loop = self.values(q, number), self._trials[number]
        before = loop.states.copy()
        loop.run.outputs(0, fine.n_nodes - 1)  # what is algebraic follows jumps of inputs
        rows = layout.trajectories(z, number)[:, ::part].copy()
        outputs = self.nlp.outputs(z, number)
        loop.states[:] = before
        free = dict(zip(layout.inputs, rows[n:], strict=True))
        own = {name: outputs[std][::part] for name, std in trial.std_outputs.items()}
        late = {source.name: free.pop(source.name) for source in self._sources[number]}
        return Trajectory(
            time=trial.grid,
            states=dict(zip(layout.states, rows[:n], strict=True)),
            inputs={
                **{u: row[::part] for u, row in fine.inputs.items() if u not in system.hidden},
                **free,
            },
            outputs={name: row[::part] for name, row in outputs.items()} | late,
            parameters={name: values[name] for name in system.parameters},
            model=system.name,
            measurements=dict(trial.measurements),
            std={n: row for n, row in {**trial.std, **own}.items() if n in trial.measurements},
            drawing=system.drawing,
            units=system.units,
            limits={name: side for name, (_, side) in trial.limits.items()},
            samples=compared(self.nlp, fine, number, z),
        )

    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        z, layout = self.simulate(q), self.nlp.layout
        rows = [np.abs(layout.trajectories(z, k)).max(axis=1) for k in range(len(self.trials))]
        n = len(layout.states)
        last = n + len(self.unknowns.inputs)
        return [(row[:n], row[n:last]) for row in rows]

    # -- residuals --------------------------------------------------------------------------

    def check_squares(self) -> None:
        self._squares()

    @property
    def squares(self) -> Residuals:
        """Residuals as functions of z. Raises `ValueError` if J is no sum of squares."""
        return self._squares()

    @property
    def on_steps(self) -> Sequence[Experiment]:
        """The trials on the grids of the steps."""
        return self._fine

    def _rows(self, q: Array) -> tuple[Array, Scores | None]:
        z = self.simulate(q)  # first: samples may move to other steps
        squares = self._squares()
        return squares.rows(z), squares.scores

    def samples(self) -> Samples:
        return self._squares().samples

    def _jacobian(self, q: Array) -> csr_array:
        z = self.simulate(q)
        return self._squares().jacobian(z) @ self.tangent(q)

    # -- derivatives ------------------------------------------------------------------------

    def course_slopes(self, q: Array, trial: int, names: Collection[str]) -> dict[str, csr_array]:
        tangent, part = self.tangent(q), self.substeps
        rows = course_slopes(self.nlp, trial)
        library = None if rows.keys() >= set(names) else self._outputs()
        if library is not None:
            rows |= slopes_of_outputs(self.nlp, library, self.simulate(q), trial)
        return {name: rows[name][::part] @ tangent for name in names if name in rows}

    def _forward_gradient(self, q: Array) -> Array:
        z = self.simulate(q)  # first: samples may move to other steps
        direct = self.nlp.gradient(z)
        return np.asarray(self.tangent(q).T @ direct)

    def gap_jacobian(self, q: Array) -> csr_array:
        n, gaps = len(self.unknowns.states), list[Block]()
        for _, of_gaps in self._each_blocks(q):
            for block in of_gaps:
                gaps.append(block._replace(rows=block.rows + n * len(gaps)))
        return Places.of(gaps, (n * len(gaps), q.size)).filled(gaps)

    def _gradient(self, q: Array) -> Array:
        z = self.simulate(q)  # first: samples may move to other steps
        direct = self.nlp.gradient(z)
        result = np.zeros(self.unknowns.size)
        parameters = self.nlp.layout.parameter_values(direct).copy()
        for k, found in enumerate(self._each(partial(self._pulled, q, direct))):
            result[self.unknowns.starts(k)] = found.starts[0][self._starts]
            inner = [np.zeros(0), *found.starts[1:]]
            result[self.unknowns.boundaries(k)] = np.concatenate(inner)
            result[self.unknowns.samples(k)] = found.inputs.ravel()
            parameters[self.unknowns.owned.places(k)] += found.parameters
        result[: len(parameters)] = parameters
        return result

    def _pulled(self, q: Array, direct: Array, trial: int) -> _Pulled:
        """Derivatives of J by what a trial begins with and has, from those by z."""
        n, sweeper = len(self.unknowns.states), self._sweeper(trial)
        mine = np.zeros(len(self.unknowns.owned.places(trial)))
        rows = self.nlp.layout.trajectories(direct, trial)
        node, inputs = rows[:n], rows[n:].copy()
        starts: list[Array] = []
        pieces = self.pieces(trial)
        for begin, end in reversed(pieces):
            carry = node[:, end].copy() if (begin, end) == pieces[-1] else np.zeros(n)
            if isinstance(sweeper, Changes):
                node[:, end] = carry
                carry, mine = sweeper.adjoint(node, inputs)
            elif isinstance(sweeper, Run):
                sweeper.adjoint(begin, end, carry, node, inputs, mine, self._varied)
            else:
                sweeper.adjoint(begin, end, carry, node, inputs, mine)
            starts.insert(0, carry)
        mine += self.start_pull(q, trial, starts[0])
        return _Pulled(starts, inputs[: len(self.unknowns.inputs)], mine)

    def _sweeper(self, number: int) -> Run | Chain | ChosenSteps | Interrupted | Changes:
        """Sweeps that differentiate the steps of a trial."""
        trial, stops = self._trials[number], self._crossed[number]
        if trial.late is not None:
            return trial.late.changes
        sweep: Run | Chain | ChosenSteps = trial.run
        if self._stepper.adaptive:
            sweep = ChosenSteps.of(trial.run, trial.raw, self._varied, self._chain)
        elif trial.stages is not None:
            sweep = self._chain(trial.raw.ivp, trial.stages)
        return Interrupted(sweep, stops) if stops and not isinstance(sweep, Run) else sweep

    def _chain(self, ivp: IVP, stages: tuple[Array, Array]) -> Chain:
        """Equations of all implicit steps of a trial, differentiated at their stages."""
        held = [self._kind(u) == HELD for u in self.unknowns.inputs]
        return chain_of(self._stepper, ivp, stages, held)

    def tangent(self, q: Array) -> csr_array:
        """Tangents d z/d q (n_z, n_q), sparse; raises `Diverged`.

        Raises `ValueError` if there are unknown inputs: the adjoint is made for these.
        """
        r, layout = len(self.unknowns.parameters), self.nlp.layout
        found, number = self._each_blocks(q), np.arange(r)
        places = layout.parameter_offset + number[:, None]
        own = Block(np.ones((r, 1, 1)), places, number[:, None, None])
        states = [own, *(block for of_states, _ in found for block in of_states)]
        if self._places is None:
            self._places = Places.of(states, (layout.n_variables, q.size))
        return self._places.filled(states)

    def _each_blocks(self, q: Array) -> list[tuple[list[Block], list[Block]]]:
        """Tangents of each trial, and of its gaps."""
        if self.unknowns.inputs:
            raise ValueError("samples of inputs are differentiated by mode='adjoint' only")
        self.simulate(q)
        return self._each(partial(self._blocks, q))

    def _blocks(self, q: Array, trial: int) -> tuple[list[Block], list[Block]]:
        """Tangents of a trial, and of its gaps, in rows from 0 each."""
        n, N, offset = (
            len(self.unknowns.states),
            self.unknowns.nodes[trial],
            self.nlp.layout.offsets[trial],
        )
        sweeper, pieces = self._sweeper(trial), self.pieces(trial)
        states, gaps = list[Block](), list[Block]()
        for j, (begin, end) in enumerate(pieces):
            columns, along = self._along(q, sweeper, trial, j, begin, end)
            if isinstance(sweeper, Changes):
                along, late = along[:, :n], along[:, n:]
                rows = offset + np.arange(n, n + late.shape[1]) * N
                states.append(Block(late, rows + np.arange(N)[:, None], columns))
            last = end + 1 if j == len(pieces) - 1 else end
            rows = offset + np.arange(n) * N + np.arange(begin, last)[:, None]
            states.append(Block(along[: last - begin], rows, columns))
            if j < len(pieces) - 1:
                after = self._start_columns(trial, j + 1)[0]
                jump = np.concatenate([along[-1:], -np.eye(n)[None]], axis=2)
                both = np.concatenate([columns, after])
                gaps.append(Block(jump, np.arange(n)[None], both))
        return states, gaps

    def _along(
        self,
        q: Array,
        sweeper: Run | Chain | ChosenSteps | Interrupted | Changes,
        trial: int,
        piece: int,
        begin: int,
        end: int,
    ) -> tuple[NDArray[np.intp], Array]:
        """Columns of q that a segment depends on, and d x/d q at its nodes, (nodes, n, columns);
        with delays those of delayed inputs, too, (nodes, n + D, columns)."""
        n, places = len(self.unknowns.states), self.unknowns.owned.places(trial)
        r = len(places)
        starts, rows = self._start_columns(trial, piece)
        carry = np.zeros((n, r + len(starts)))
        carry[rows, r + np.arange(len(starts))] = 1.0
        if piece == 0:
            carry[:, :r] = self.start_slopes(q, trial)
        columns = np.array([*places, *starts], dtype=np.intp)
        if isinstance(sweeper, Changes):
            moved = carry if self.following[trial] else carry[:, r:]
            found = np.concatenate(
                sweeper.tangent(moved), axis=1
            )  # by parameters, then along these
            if self.following[trial]:
                found[:, :, r : 2 * r] += found[:, :, :r]
                found = found[:, :, r:]
            return columns, found
        along = np.empty((end - begin + 1, *carry.shape))
        along[0] = carry
        sweeper.tangent(begin, end, carry, along, 0)
        return columns, along

    def _start_columns(self, trial: int, piece: int) -> tuple[list[int], list[int]]:
        """Places in q of the start of a segment, and the states that they are."""
        n = len(self.unknowns.states)
        if piece == 0:
            places = range(self.unknowns.size)[self.unknowns.starts(trial)]
            return list(places), self._starts
        begin = self.unknowns.offsets["segments", trial] + (piece - 1) * n
        return list(range(begin, begin + n)), list(range(n))
