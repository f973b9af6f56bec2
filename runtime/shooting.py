"""Shooting: trajectories follow from few unknowns by simulation, and J(q) is minimised.

The unknowns are a vector

    q = [parameters, unknown initial states of each trial, states at the inner segment boundaries of
         each trial (multiple shooting), samples of unknown inputs of each trial].

How trials follow from q, and their derivatives, is told by one of the kinds of `Simulated`:
`smooth_shooting`, sweeps over steps, and `hybrid_shooting`, runs from event to event.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.fit import Fit, poor_fits, typical_sizes
from kinesym.runtime.layout import Layout
from kinesym.runtime.minimise import Minimum, Task, minimise
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.statistics import (
    Confidence,
    Estimate,
    confidence_of_segments,
    confidence_of_squares,
)
from kinesym.runtime.trajectory import Drawing, Trajectory

Array = NDArray[np.float64]
Bounds = tuple[float, float]

#: Growth of a small error over a trial, as a power of e, from which a model counts as unstable.
_GROWTH = 20.0


class Diverged(ValueError):
    """A simulation did not reach its end; the message says when and why."""


@dataclass(frozen=True)
class Unknowns:
    """Names and places in q.

    initial : states whose initial value is unknown. segments : per trial the nodes at which a
    segment begins, the first one 0. nodes : N of each trial.
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    initial: tuple[str, ...]
    inputs: tuple[str, ...]
    segments: tuple[tuple[int, ...], ...]
    nodes: tuple[int, ...]

    @cached_property
    def offsets(self) -> dict[tuple[str, int], int]:
        """Where each group begins in q: ("initial" | "segments" | "inputs", trial)."""
        begin, places = len(self.parameters), {}
        for group, sizes in (
            ("initial", [len(self.initial)] * len(self.nodes)),
            ("segments", [(len(s) - 1) * len(self.states) for s in self.segments]),
            ("inputs", [len(self.inputs) * N for N in self.nodes]),
        ):
            for trial, size in enumerate(sizes):
                places[group, trial] = begin
                begin += size
        places["end", 0] = begin
        return places

    @property
    def size(self) -> int:
        """Length of q."""
        return self.offsets["end", 0]

    @property
    def several(self) -> bool:
        """Whether there are several segments."""
        return any(len(begins) > 1 for begins in self.segments)

    def starts(self, trial: int) -> slice:
        """Unknown initial states of a trial."""
        begin = self.offsets["initial", trial]
        return slice(begin, begin + len(self.initial))

    def boundaries(self, trial: int) -> slice:
        """States at the inner segment boundaries of a trial, (boundaries, n)."""
        begin = self.offsets["segments", trial]
        return slice(begin, begin + (len(self.segments[trial]) - 1) * len(self.states))

    def samples(self, trial: int) -> slice:
        """Samples of the unknown inputs of a trial, (inputs, N)."""
        begin = self.offsets["inputs", trial]
        return slice(begin, begin + len(self.inputs) * self.nodes[trial])

    def initial_values(self, q: Array) -> dict[str, Any]:
        """Unknown initial states by name: a number, or a list with one per trial."""
        rows = np.array([q[self.starts(k)] for k in range(len(self.nodes))])
        return {
            x: row.tolist() if len(row) > 1 else float(row[0])
            for x, row in zip(self.initial, rows.T, strict=True)
        }

    @cached_property
    def _entries(self) -> list[tuple[str, str]]:
        """What each entry of q belongs to, and what it is."""
        many = len(self.nodes) > 1
        ofs = [f" of trial {k}" if many else "" for k in range(len(self.nodes))]
        entries = [(p, p) for p in self.parameters]
        entries += [(x, f"{x}(0){of}") for of in ofs for x in self.initial]
        for of, begins in zip(ofs, self.segments, strict=True):
            entries += [(x, f"{x} at node {i}{of}") for i in begins[1:] for x in self.states]
        for of, N in zip(ofs, self.nodes, strict=True):
            entries += [(u, f"{u} at node {i}{of}") for u in self.inputs for i in range(N)]
        return entries

    @cached_property
    def names(self) -> list[str]:
        """What each entry of q is."""
        return [name for _, name in self._entries]

    @cached_property
    def owners(self) -> list[str]:
        """The parameter, state or input that each entry of q belongs to."""
        return [owner for owner, _ in self._entries]

    def gathered(self, layout: Layout, z: Array) -> Array:
        """q from all trajectories and the parameters."""
        q = np.zeros(self.size)
        q[: len(self.parameters)] = layout.parameter_values(z)
        rows, n = [self.states.index(x) for x in self.initial], len(self.states)
        for k, begins in enumerate(self.segments):
            trajectories = layout.trajectories(z, k)
            q[self.starts(k)] = trajectories[rows, 0]
            q[self.boundaries(k)] = trajectories[:n, begins[1:]].T.ravel()
            q[self.samples(k)] = trajectories[n:].ravel()
        return q

    def bounds(
        self, named: Mapping[str, Bounds], starts: Mapping[str, Sequence[Bounds]]
    ) -> tuple[Array, Array]:
        """Lower and upper bounds of q from those of parameters and inputs, and of initial states in
        each trial; states at inner boundaries are free."""
        sides = []
        for side, free in ((0, -np.inf), (1, np.inf)):
            q = np.full(self.size, free)
            q[: len(self.parameters)] = [named[p][side] for p in self.parameters]
            for k, N in enumerate(self.nodes):
                q[self.starts(k)] = [starts[x][k][side] for x in self.initial]
                q[self.samples(k)] = np.repeat([named[u][side] for u in self.inputs], N)
            sides.append(q)
        return sides[0], sides[1]


@dataclass(frozen=True)
class System:
    """What results say of a model: its name, its parameters in their order, values of those that
    are known, also of others, and its drawing."""

    name: str
    parameters: Sequence[str]
    known: Mapping[str, float]
    drawing: Drawing = ()


class Simulated(Protocol):
    """Trials as functions of q. Where one does not reach its end, the cost is infinite and all
    others raise `Diverged`.

    measured : whether least squares of measurements are in J. weighted : whether J has nothing
    else, so that residuals are in units of their standard deviations. substeps : per interval of
    the grids.
    """

    unknowns: Unknowns
    system: System
    measured: bool
    weighted: bool
    substeps: int

    def cost(self, q: Array) -> float:
        """J."""

    def gradient(self, q: Array) -> Array:
        """d J/d q, backwards in time."""

    def forward_gradient(self, q: Array) -> Array:
        """The same forwards in time, for few unknowns."""

    def check_squares(self) -> None:
        """Raise `ValueError` if J is no sum of squares."""

    def residuals(self, q: Array) -> Array:
        """r with J = sum r^2."""

    def jacobian(self, q: Array) -> csr_array:
        """d r/d q; zeros that may be something elsewhere are kept."""

    def gaps(self, q: Array) -> Array:
        """End of each segment minus start of the next, all trials; zero for a solution."""

    def gap_jacobian(self, q: Array) -> csr_array:
        """d gaps/d q."""

    def trajectories(self, q: Array) -> list[Any]:
        """The trials with their measurements."""

    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        """Of each trial the largest absolute values of states and of unknown inputs."""

    def instability(self, q: Array) -> str:
        """A sentence if the model is stiff or unstable at a start, else nothing."""


def unstable(trial: int, modes: NDArray[Any], longest: float, remedy: str) -> str:
    """A sentence if the fastest growing one of `modes` [1/s] leaves nothing of a start after the
    `longest` time [s], else nothing."""
    worst = modes[np.argmax(modes.real)]
    if not worst.real * longest > _GROWTH:
        return ""
    return (
        f"the model is unstable at the start of trial {trial}: eigenvalue {worst:.4g} 1/s grows "
        f"by e^{worst.real * longest:.0f} in {longest:g} s; use bounds that exclude this, {remedy}"
    )


@dataclass(frozen=True)
class How:
    """How to minimise: see `ks.Shooting.solve`. limit : of iterations."""

    optimizer: str
    scale: bool
    limit: int
    tolerance: float
    options: Mapping[str, Any]
    progress: bool | None


@dataclass(frozen=True)
class Identification:
    """Unknowns of simulated trials: the minimum of J within bounds, and how far it is known."""

    trials: Simulated
    bounds: tuple[Array, Array]
    timings: Mapping[str, float] = field(default_factory=dict)

    def fit(self, q: Array, how: How) -> Fit:
        """From q, where J is finite; raises `ValueError` for a J that does not suit the
        optimiser."""
        begin = time.perf_counter()
        squares = self._squares(how.optimizer)
        if how.optimizer == "least-squares":
            self._check_room()
        J, size = self.trials.cost(q), self._sizes(q)
        with iteration_line(how.progress) as report:
            task = Task(
                self.trials.cost,
                self.trials.gradient,
                size if how.scale else np.ones_like(q),
                J if J > 0.0 else 1.0,
                self.bounds,
                report,
            )
            if squares:
                task.residuals = self._residuals
                task.jacobian = None if self.trials.unknowns.inputs else self.trials.jacobian
            if self.trials.unknowns.several:
                task.gaps, task.gap_jacobian = self._gaps, self.trials.gap_jacobian
            found = minimise(how.optimizer, task, q, how.tolerance, how.limit, how.options)
        return self._fit(found, task, how.optimizer, size, time.perf_counter() - begin)

    def _squares(self, optimizer: str) -> bool:
        """Whether J is a sum of squares; least squares need that."""
        others = "; use bfgs, ipopt or steepest-descent"
        if optimizer == "least-squares" and self.trials.unknowns.inputs:
            raise ValueError(
                "least-squares needs the derivatives of all residuals, which there are"
                f" not for samples of unknown inputs{others}"
            )
        try:
            self.trials.check_squares()
        except ValueError as error:
            if optimizer == "least-squares":
                words = f"least-squares needs a sum of squares: {error}{others}"
                raise ValueError(words) from error
            return False
        return True

    def _check_room(self) -> None:
        low, high = self.bounds
        for name in np.array(self.trials.unknowns.names)[low == high]:
            raise ValueError(
                f"the bounds of {name} are equal; give it as known, or use another optimiser than "
                "least-squares"
            )

    # -- callbacks, where trials may not reach their ends -----------------------------------

    def _residuals(self, q: Array) -> Array:
        try:
            return self.trials.residuals(q)
        except Diverged:
            return np.array([np.inf])

    def _gaps(self, q: Array) -> Array:
        try:
            return self.trials.gaps(q)
        except Diverged:
            unknowns = self.trials.unknowns
            count = sum(len(begins) - 1 for begins in unknowns.segments)
            return np.full(count * len(unknowns.states), np.nan)

    # -- sizes ------------------------------------------------------------------------------

    def _sizes(self, q: Array) -> Array:
        """A typical size of each unknown: of trajectories their largest value; of samples of inputs
        at least what lowers the objective most."""
        size, unknowns = typical_sizes(q, self.bounds), self.trials.unknowns
        for k in range(len(unknowns.nodes)):
            for where in (unknowns.samples(k), unknowns.boundaries(k)):
                part = q[where]
                if len(part) and part.any():
                    size[where] = np.abs(part).max()
        for name in unknowns.inputs:
            which = np.array([owner == name for owner in unknowns.owners])
            largest, effect = np.abs(q[which]).max(), self._size_by_effect(q, which, size)
            size[which] = max(largest, effect) or size[which]
        return size

    def _size_by_effect(self, q: Array, which: NDArray[np.bool_], size: Array) -> float:
        """How far some unknowns go down the gradient to where the objective is lowest, with the
        curvature there by a difference; zero if that is nowhere."""
        slope = np.where(which, self.trials.gradient(q), 0.0)
        largest = float(np.abs(slope).max())
        if not 0.0 < largest < np.inf:
            return 0.0
        step = 1e-4 * float(np.median(size[which])) / largest
        if not np.isfinite(self.trials.cost(q - step * slope)):
            return 0.0
        change = slope - np.where(which, self.trials.gradient(q - step * slope), 0.0)
        bend = float(slope @ change) / step
        found = largest * float(slope @ slope) / bend if bend > 0.0 else 0.0
        return found if np.isfinite(found) else 0.0

    def _natural_sizes(self, q: Array) -> Array:
        """The largest value of the trajectory that an unknown belongs to; NaN for parameters."""
        unknowns, size = self.trials.unknowns, np.full(q.size, np.nan)
        rows = [unknowns.states.index(x) for x in unknowns.initial]
        for k, (states, inputs) in enumerate(self.trials.largest(q)):
            size[unknowns.starts(k)] = states[rows]
            size[unknowns.boundaries(k)] = np.tile(states, len(unknowns.segments[k]) - 1)
            size[unknowns.samples(k)] = np.repeat(inputs, unknowns.nodes[k])
        return size

    # -- results ----------------------------------------------------------------------------

    def _fit(self, found: Minimum, task: Task, optimizer: str, size: Array, seconds: float) -> Fit:
        q, unknowns, system = found.q, self.trials.unknowns, self.trials.system
        J = self.trials.cost(q)
        ended = np.isfinite(J)
        gradient = self.trials.gradient(q) if ended else np.full_like(q, np.nan)
        sure = self._confidence(q, task, J, gradient, size)
        runs = self.trials.trajectories(q) if ended else []
        trials: list[Trajectory] = [getattr(run, "run", run) for run in runs]
        notes = [*sure.notes, *(poor_fits(trials) if self.trials.measured else ())]
        return Fit(
            success=found.success,
            message=found.message,
            objective=J,
            parameters=dict(zip(unknowns.parameters, map(float, q), strict=False)),
            known=dict(system.known),
            initial=unknowns.initial_values(q),
            trials=trials,
            names=list(unknowns.names),
            values=q,
            gradient=gradient,
            history=list(task.history),
            condition=sure.condition,
            covariance=sure.covariance,
            active=[name for name, at in zip(unknowns.names, sure.held, strict=True) if at],
            notes=notes,
            timings={**self.timings, "total": sum(self.timings.values()) + seconds},
            optimizer=optimizer,
            model=system.name,
        )

    def _confidence(
        self, q: Array, task: Task, J: float, gradient: Array, size: Array
    ) -> Confidence:
        """From residuals, else from differences of gradients."""
        nothing = Confidence(np.zeros(q.size, dtype=bool), np.full((q.size, q.size), np.nan))
        if not np.isfinite(J):
            return nothing
        unknowns = self.trials.unknowns
        found = Estimate(q, unknowns.names, self.bounds, J, gradient, self._natural_sizes(q))
        if task.jacobian is not None:
            slopes = task.jacobian(q)
            slopes.eliminate_zeros()
            telling = int((np.diff(slopes.indptr) > 0).sum())
            samples = None if self.trials.weighted else telling // self.trials.substeps
            if not unknowns.several:
                return confidence_of_squares(found, slopes.toarray(), samples)
            inner = slice(*(unknowns.offsets[group, 0] for group in ("segments", "inputs")))
            gaps = self.trials.gap_jacobian(q)
            return confidence_of_segments(found, slopes, gaps, inner, samples)
        held = found.held(np.abs(gradient) / (1e-5 * size))  # where it is not known better
        if unknowns.several or q.size > 60:
            return replace(nothing, held=held)
        free = np.flatnonzero(~held)
        rows = [self._slope_of_gradient(q, int(k), 1e-5 * size[k]) for k in free]
        if not np.isfinite(rows).all():
            return replace(nothing, held=held)
        curvature = 0.5 * np.reshape(rows, (len(free), q.size))[:, free]
        return replace(found.judged(free, curvature, 0.0), held=held)

    def _slope_of_gradient(self, q: Array, k: int, step: float) -> Array:
        """d gradient/d q_k by central differences; NaN where a simulation fails."""
        sides = []
        for sign in (1.0, -1.0):
            at = q.copy()
            at[k] += sign * step
            if not np.isfinite(self.trials.cost(at)):
                return np.full_like(q, np.nan)
            sides.append(self.trials.gradient(at))
        return np.asarray((sides[0] - sides[1]) / (2.0 * step))
