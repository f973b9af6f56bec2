"""Shooting: trajectories follow from few unknowns q by simulation, and J(q) is minimised.

How trials follow from q, and their derivatives, is told by one of the kinds of `Simulated`:
`smooth_shooting`, sweeps over steps, and `hybrid_shooting`, runs from event to event.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.results.fit import Fit, poor_fits, typical_sizes
from kinesym.runtime.results.statistics import (
    Confidence,
    Estimate,
    confidence_of_segments,
    confidence_of_squares,
)
from kinesym.runtime.results.trajectory import Drawing, Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.stepping.minimise import Minimisation, Minimum, minimise
from kinesym.runtime.stepping.unknowns import Unknowns

#: Growth of a small error over a trial, as a power of e, from which a model counts as unstable.
_GROWTH = 20.0


class Diverged(ValueError):
    """A simulation did not reach its end; the message says when and why."""


@dataclass(frozen=True)
class System:
    """A model as results name it: its name, its parameters in order, known values (also of other
    parameters), and its drawing."""

    name: str
    parameters: Sequence[str]
    known: Mapping[str, float]
    drawing: Drawing = ()


class Simulated(ABC):
    """Trials as functions of q, simulated anew where q has changed. Where one does not reach its
    end, the cost is infinite and all else raises `Diverged`.

    measured : whether least squares of measurements are in J. weighted : whether J has nothing
    else, so that residuals are in units of their standard deviations. substeps : per interval of
    the grids, where the objective is taken too.
    """

    measured = weighted = True
    substeps = 1

    def __init__(self, unknowns: Unknowns, system: System, trials: Sequence[Experiment]) -> None:
        self.unknowns, self.system, self.trials = unknowns, system, trials
        self._q: Array | None = None
        self._found: Any = None

    def simulate(self, q: Array) -> Any:
        """The trials at q, which the next q overwrites; raises `Diverged`."""
        if self._q is None or not np.array_equal(q, self._q):
            self._q = None  # known again when all is done: Ctrl-C may come between
            try:
                if not np.isfinite(q).all():
                    raise Diverged("the unknowns are not finite")
                self._found = self._simulated(q)
            except Diverged as error:
                self._found = error
            self._q = np.array(q, dtype=np.float64)
        if isinstance(self._found, Diverged):
            raise Diverged(str(self._found))
        return self._found

    def values(self, q: Array) -> dict[str, float]:
        """All parameters by name."""
        found = zip(self.unknowns.parameters, map(float, q), strict=False)
        return {**self.system.known, **dict(found)}

    def cost(self, q: Array) -> float:
        """J(q), infinite if a simulation does not reach its end."""
        try:
            value = self._cost(q)
        except Diverged:
            return np.inf
        return value if np.isfinite(value) else np.inf

    @abstractmethod
    def _simulated(self, q: Array) -> Any:
        """The trials at q; raises `Diverged`."""

    @abstractmethod
    def _cost(self, q: Array) -> float:
        """J(q); raises `Diverged`."""

    @abstractmethod
    def gradient(self, q: Array) -> Array:
        """d J/d q, backwards in time."""

    @abstractmethod
    def forward_gradient(self, q: Array) -> Array:
        """The same forwards in time, for few unknowns."""

    def check_squares(self) -> None:  # noqa: B027 (nothing to check is the rule)
        """Raise `ValueError` if J is no sum of squares."""

    @abstractmethod
    def residuals(self, q: Array) -> Array:
        """r with J = sum r^2."""

    @abstractmethod
    def jacobian(self, q: Array) -> csr_array:
        """d r/d q; zeros that may be something elsewhere are kept."""

    def tried_residuals(self, q: Array) -> Array:
        """The same, infinite if a simulation does not reach its end."""
        try:
            return self.residuals(q)
        except Diverged:
            return np.array([np.inf])

    def gaps(self, q: Array) -> Array:
        """End of each segment minus start of the next, all trials; zero for a solution."""
        return np.zeros(0)

    def tried_gaps(self, q: Array) -> Array:
        """The same, NaN if a simulation does not reach its end."""
        try:
            return self.gaps(q)
        except Diverged:
            count = sum(len(begins) - 1 for begins in self.unknowns.segments)
            return np.full(count * len(self.unknowns.states), np.nan)

    def gap_jacobian(self, q: Array) -> csr_array:
        """d gaps/d q."""
        return csr_array((0, q.size))

    @abstractmethod
    def trajectories(self, q: Array) -> list[Trajectory]:
        """The trials with their measurements."""

    @abstractmethod
    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        """Of each trial the largest absolute values of states and of unknown inputs."""

    @abstractmethod
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
class Identification:
    """Identification of the unknowns: the minimum of J within bounds, and its confidence."""

    trials: Simulated
    bounds: tuple[Array, Array]
    timings: Mapping[str, float] = field(default_factory=dict)

    def fit(
        self,
        q: Array,
        optimizer: str,
        scale: bool,
        progress: bool | None,
        tolerance: float,
        limit: int,
        options: Mapping[str, Any],
    ) -> Fit:
        """From q, where J is finite; see `ks.Shooting.solve`. Raises `ValueError` for a J that does
        not suit the optimiser."""
        begin = time.perf_counter()
        squares = self._squares(optimizer)
        if optimizer == "least-squares":
            self._check_room()
        J, size = self.trials.cost(q), self._sizes(q)
        with iteration_line(progress) as report:
            problem = Minimisation(
                self.trials,
                size if scale else np.ones_like(q),
                J if J > 0.0 else 1.0,
                self.bounds,
                squares and not self.trials.unknowns.inputs,
                report,
                tolerance,
                limit,
                options,
            )
            found = minimise(optimizer, problem, q)
        return self._fit(found, problem, optimizer, size, time.perf_counter() - begin)

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

    def _fit(
        self, found: Minimum, problem: Minimisation, optimizer: str, size: Array, seconds: float
    ) -> Fit:
        q, unknowns, system = found.q, self.trials.unknowns, self.trials.system
        J = self.trials.cost(q)
        ended = np.isfinite(J)
        gradient = self.trials.gradient(q) if ended else np.full_like(q, np.nan)
        sure = self._confidence(q, problem, J, gradient, size)
        trials = self.trials.trajectories(q) if ended else []
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
            history=list(problem.history),
            condition=sure.condition,
            covariance=sure.covariance,
            active=[name for name, at in zip(unknowns.names, sure.held, strict=True) if at],
            notes=notes,
            timings={**self.timings, "total": sum(self.timings.values()) + seconds},
            optimizer=optimizer,
            model=system.name,
        )

    def _confidence(
        self, q: Array, problem: Minimisation, J: float, gradient: Array, size: Array
    ) -> Confidence:
        """From residuals, else from differences of gradients."""
        nothing = Confidence(np.zeros(q.size, dtype=bool), np.full((q.size, q.size), np.nan))
        if not np.isfinite(J):
            return nothing
        unknowns = self.trials.unknowns
        found = Estimate(q, unknowns.names, self.bounds, J, gradient, self._natural_sizes(q))
        if problem.squares:
            slopes = self.trials.jacobian(q)
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
        return Confidence(held, nothing.covariance, *found.judged(free, curvature, 0.0))

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
