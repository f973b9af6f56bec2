"""Batched trials of a smooth model at many unknowns q: one start per lane, lanes over threads.

States are stepped together with their derivatives by q, by the loops of simulations; see
`codegen.tangents`. The objective must consist of measurements, and priors.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.priors import Priors
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.native import Run
from kinesym.runtime.shooting.batched_squares import Squares
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.stepper import IVP, RawTrajectories, Stepper, bind

#: Operations of an evaluation of a group of starts that are worth what Python does beside them.
_WORTHWHILE = 3e7
#: Numbers that an evaluation of a group of starts may leave in memory.
_NUMBERS = 2**21


class SideBySide:
    """Batched objective J of trials at many q, for one thread.

    stepper : of x with X. fine : the trials on the grids of the steps. known, initial : per trial
    the values of known parameters, and of initial states, NaN where unknown. channels : measured
    signals. factor, loss : of the squares. priors : of parameters, further squares. stop : an event
    at which a call raises `KeyboardInterrupt`.
    """

    def __init__(
        self,
        stepper: Stepper,
        unknowns: Unknowns,
        fine: Sequence[Experiment],
        known: Sequence[Mapping[str, float]],
        initial: Sequence[Mapping[str, float]],
        channels: Sequence[str],
        factor: float,
        loss: RobustLoss | None,
        priors: Priors,
        stop: threading.Event,
    ) -> None:
        self._factor, self._loss, self._priors = factor, loss, priors
        self._trials = [
            _Trial(stepper, unknowns, k, *given, channels, stop)
            for k, given in enumerate(zip(fine, known, initial, strict=True))
        ]

    @property
    def size(self) -> float:
        """Value of J for a model whose values are zero."""
        return self._factor * sum(trial.size for trial in self._trials)

    def __call__(self, q: Array) -> Squares:
        """Evaluate J at points q (M, n), with its derivatives."""
        made = Squares(np.zeros(len(q)), np.zeros(q.shape), np.zeros((*q.shape, q.shape[1])))
        with np.errstate(all="ignore"):
            for trial in self._trials:
                trial.add(q, self._loss, made)
            J, g, bend = (self._factor * part for part in made)
            if self._priors:
                J, g, bend = self._with_priors(q, J, g, bend)
            fine = np.isfinite(J) & np.isfinite(g).all(axis=1) & np.isfinite(bend).all(axis=(1, 2))
        return Squares(
            np.where(fine, J, np.inf),
            np.where(fine[:, None], g, 0.0),
            np.where(fine[:, None, None], bend, 0.0),
        )

    def _with_priors(self, q: Array, J: Array, g: Array, bend: Array) -> tuple[Array, ...]:
        e, slopes, places = self._priors.residuals(q), self._priors.slopes(q), self._priors.places
        g[:, places] += 2.0 * e * slopes
        bend[:, places, places] += 2.0 * slopes**2
        return J + (e**2).sum(axis=1), g, bend


def members_of_group(stepper: Stepper, nodes: Sequence[int]) -> int:
    """Number of starts in a batch, in whole lanes, whatever the number of threads."""
    lanes, rows = stepper.library.lanes, len(stepper.about.states) + len(stepper.about.outputs)
    enough = min(_WORTHWHILE / (stepper.work * sum(nodes)), _NUMBERS / (rows * max(nodes)))
    return max(1, int(enough / lanes)) * lanes


@dataclass
class _Trial:
    """Trial with the loops that are bound to its arrays, by numbers of members."""

    stepper: Stepper
    unknowns: Unknowns
    number: int
    trial: Experiment
    known: Mapping[str, float]
    initial: Mapping[str, float]
    channels: Sequence[str]
    stop: threading.Event
    bound: dict[int, tuple[Run, RawTrajectories]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        about, trial, unknowns = self.stepper.about, self.trial, self.unknowns
        self.inputs = []
        for name in about.inputs:
            samples, kind = trial.signals[name].sampled(trial.grid)
            self.inputs.append((np.ascontiguousarray(samples)[None], kind))
        self.parameters = np.array([self.known.get(name, 0.0) for name in about.parameters])
        self.free = [about.parameters.index(name) for name in unknowns.owned.parameters]
        self.starts = [unknowns.states.index(x) for x in unknowns.initial]
        begins = np.arange(unknowns.size)[unknowns.starts(self.number)]
        self.columns = np.array([*unknowns.owned.places(self.number), *begins], dtype=np.intp)
        rows = [self._weighed(name) for name in self.channels]
        measured, weight = (np.array(part) for part in zip(*rows, strict=True))
        kept = np.flatnonzero(weight.any(axis=0))
        self.nodes: slice | NDArray[np.intp] = (
            kept if 2 * len(kept) < len(trial.grid) else slice(None)
        )
        self.measured, self.weight = measured[:, self.nodes], weight[:, self.nodes]

    def _weighed(self, name: str) -> tuple[Array, Array]:
        """Samples of a channel and their weights, zero where there are none."""
        if name not in self.trial.measurements:
            return np.zeros(self.trial.n_nodes), np.zeros(self.trial.n_nodes)
        samples = self.trial.measurements[name]
        there = ~np.isnan(samples)
        weight = np.where(there, 1.0 / self.trial.divisor(name), 0.0)
        return np.where(there, samples, 0.0), weight

    @property
    def size(self) -> float:
        """Sum of squares for a model whose values are zero."""
        return float(((self.measured * self.weight) ** 2).sum())

    def add(self, q: Array, loss: RobustLoss | None, made: Squares) -> None:
        """Add the squares at q (M, n), and their derivatives; infinite where a run fails."""
        values, alive = self._marched(q)
        e = (values[:, 0] - self.measured[:, None]) * self.weight[:, None]
        weight = self.weight[:, None, None]
        if loss is not None:
            weight = weight * loss.root_slope(e)[:, None]
            e = loss.root(e)
        values *= weight
        values[:, 0] = e
        rows = values.swapaxes(1, 2)  # channel, member, (e, d e / d q), node
        sums = (rows @ rows.swapaxes(2, 3)).sum(axis=0)
        made.cost[:] += np.where(alive, sums[:, 0, 0], np.inf)
        made.gradient[:, self.columns] += 2.0 * sums[:, 0, 1:]
        made.bend[:, self.columns[:, None], self.columns] += 2.0 * sums[:, 1:, 1:]

    def _marched(self, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Simulate: measured signals and their derivatives, (channels, 1 + columns, M, nodes),
        which may be overwritten, and which members reach the end."""
        count, last = len(q), len(self.trial.grid) - 1
        run, raw = self._loop(count)
        members = np.minimum(np.arange(raw.ivp.members), count - 1)
        raw.ivp.parameters[:, self.free] = q[
            members[:, None], self.unknowns.owned.places(self.number)
        ]
        begins = q[:, self.unknowns.starts(self.number)]
        raw.states[self.starts, :, 0] = begins[members].T
        raw.reached[:] = 1
        if not run.march(self.stepper.loop, 0, last, self.stop):
            raise KeyboardInterrupt
        run.outputs(0, last)
        shape = (len(self.channels), 1 + len(self.columns), *raw.values.shape[1:])
        values = raw.values.reshape(shape)[:, :, :count, self.nodes]
        return values, raw.reached[:count] == last + 1

    def _loop(self, count: int) -> tuple[Run, RawTrajectories]:
        """Loop for at least as many members, bound to its arrays."""
        size = self.stepper.library.lanes
        while size < count:
            size *= 2
        if size not in self.bound:
            n, width = len(self.unknowns.states), len(self.columns)
            start = np.zeros((n * (1 + width), size))
            start[:n] = np.array([self.initial[x] for x in self.unknowns.states])[:, None]
            first = width - len(self.starts)
            for k, row in enumerate(self.starts):
                start[n + row * width + first + k] = 1.0
            parameters = np.tile(self.parameters, (size, 1))
            ivp = IVP(self.trial.grid, start, parameters, self.inputs)
            self.bound[size] = bind(self.stepper, ivp)
        return self.bound[size]
