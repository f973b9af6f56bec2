"""Shooting: trajectories follow from few unknowns q by simulation, and J(q) is minimised.

How trials follow from q, and their derivatives, is told by one of the kinds of `Simulated`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.owned import shared_values
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.fit import Fit, poor_fits, typical_sizes
from kinesym.runtime.results.statistics import (
    Confidence,
    Estimate,
    confidence_of_segments,
    confidence_of_squares,
)
from kinesym.runtime.stepping.estimate_shifts import FinerTrials, Minimiser, estimate_error
from kinesym.runtime.stepping.minimise import Minimisation, Minimum, minimise
from kinesym.runtime.stepping.simulated import Simulated


@dataclass(frozen=True)
class Identification:
    """Identification of the unknowns: the minimum of J within bounds, its confidence, and the error
    of the steps. finer : makes the trials with finer steps; raises `ValueError` where it cannot."""

    trials: Simulated
    bounds: tuple[Array, Array]
    finer: Callable[[], FinerTrials]
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
            which = np.array([origin == name for origin in unknowns.origins])
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
        sure, curvature = self._confidence(q, problem, J, gradient, size)
        begin = time.perf_counter()
        grid: list[EstimateError] = []
        if found.success and curvature is not None:
            here = self._minimiser(q, gradient, curvature, sure, size)
            grid = estimate_error(here, self.finer)
        spent = {"grid": time.perf_counter() - begin} if grid else {}
        timings = {**self.timings, **spent}
        trials = self.trials.trajectories(q) if ended else []
        notes = [*sure.notes, *(poor_fits(trials) if self.trials.measured else ())]
        return Fit(
            success=found.success,
            message=found.message,
            objective=J,
            parameters=dict(zip(unknowns.parameters, map(float, q), strict=False)),
            known=shared_values(system.known),
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
            timings={**timings, "total": sum(timings.values()) + seconds},
            optimizer=optimizer,
            model=system.name,
            grid=grid,
        )

    def _minimiser(
        self, q: Array, gradient: Array, curvature: Any, sure: Confidence, size: Array
    ) -> Minimiser:
        """The minimum with all that tells how far another one is."""
        natural = self._natural_sizes(q)
        values = np.where(natural > 0.0, natural, np.abs(q))
        with np.errstate(invalid="ignore"):
            deviations = np.sqrt(np.diag(sure.covariance))
        sizes = np.where(values > 0.0, values, size)
        free, names = ~sure.held, self.trials.unknowns.names
        return Minimiser(
            q, names, gradient, curvature, free, values, sizes, deviations, self.bounds
        )

    def _confidence(
        self, q: Array, problem: Minimisation, J: float, gradient: Array, size: Array
    ) -> tuple[Confidence, Any]:
        """From residuals, else from differences of gradients; and d2 J/d q2 (n, n) by which it is
        told, None if there is none."""
        nothing = Confidence(np.zeros(q.size, dtype=bool), np.full((q.size, q.size), np.nan))
        if not np.isfinite(J):
            return nothing, None
        unknowns = self.trials.unknowns
        found = Estimate(q, unknowns.names, self.bounds, J, gradient, self._natural_sizes(q))
        if problem.squares:
            slopes = self.trials.jacobian(q)
            slopes.eliminate_zeros()
            telling = int((np.diff(slopes.indptr) > 0).sum())
            samples = None if self.trials.weighted else telling // self.trials.substeps
            curvature = 2.0 * (slopes.T @ slopes)
            if not unknowns.several:
                return confidence_of_squares(found, slopes.toarray(), samples), curvature
            inner = slice(*(unknowns.offsets[group, 0] for group in ("segments", "inputs")))
            gaps = self.trials.gap_jacobian(q)
            return confidence_of_segments(found, slopes, gaps, inner, samples), curvature
        held = found.held(np.abs(gradient) / (1e-5 * size))  # where it is not known better
        if unknowns.several or q.size > 60:
            return replace(nothing, held=held), None
        free = np.flatnonzero(~held)
        rows = [self._slope_of_gradient(q, int(k), 1e-5 * size[k]) for k in free]
        if not np.isfinite(rows).all():
            return replace(nothing, held=held), None
        curvature = np.zeros((q.size, q.size))
        curvature[free] = np.reshape(rows, (len(free), q.size))
        judged = found.judged(free, 0.5 * curvature[np.ix_(free, free)], 0.0)
        return Confidence(held, nothing.covariance, *judged), curvature

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
