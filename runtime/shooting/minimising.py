"""The minimum of J of simulated trials from a guess: what suits the optimiser, sizes of unknowns,
iterates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Iteration
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.results.fit import Step, typical_sizes
from kinesym.runtime.shooting.optimizers import OPTIMIZERS, minimise
from kinesym.runtime.shooting.scaled import Chosen, Endpoint, Minimisation
from kinesym.runtime.shooting.sides import at_kinks, side_of
from kinesym.runtime.shooting.trials import Simulated


class Minimised(NamedTuple):
    """A minimum, how it was found, typical sizes of the unknowns, seconds, and all iterates."""

    found: Endpoint
    problem: Minimisation
    size: Array
    seconds: float
    history: Sequence[Step]

    @property
    def free_vector(self) -> Array:
        """The unknowns q."""
        return self.found.q

    @property
    def success(self) -> bool:
        """Whether it has converged."""
        return self.found.status.success

    @property
    def iterations(self) -> int:
        """Number of iterations of the optimiser."""
        return len(self.history) - 1

    def after(self, before: Minimised | None) -> Minimised:
        """The same with iterates and seconds of one before."""
        if before is None:
            return self
        history = [*before.history, *self.history]
        return self._replace(history=history, seconds=before.seconds + self.seconds)


def minimised(trials: Simulated, bounds: tuple[Array, Array], q: Array, how: Chosen) -> Minimised:
    """The minimum of J from q, from side to side of the kinks of priors. Raises `ValueError` for a
    J that does not suit the optimiser."""
    if trials.kinked and not OPTIMIZERS[how.optimizer].kinks:
        raise ValueError(
            "absolute values, loss='laplace', have a kink at each sample, over which "
            f"{how.optimizer} does not step; use optimizer='least-squares'"
        )
    begin = time.perf_counter()
    squares = is_squares(trials, how.optimizer)
    size, side, history = sizes(trials, bounds, q), side_of(trials, bounds, q), list[Step]()
    with iteration_line(how.progress) as report:
        while True:
            left = how._replace(limit=max(1, how.limit - len(history)))
            problem = minimisation(side.trials, side.bounds, q, size, squares, left, report)
            found = minimise(problem, q)
            history += problem.history
            found = replace(found, q=at_kinks(trials, found.q))
            last, q, side = side, found.q, side_of(trials, bounds, found.q, side)
            if side.same(last) or not found.status.success:
                return Minimised(found, problem, size, time.perf_counter() - begin, history)


def minimisation(
    trials: Simulated,
    bounds: tuple[Array, Array],
    q: Array,
    size: Array,
    squares: bool,
    how: Chosen,
    report: Callable[[Iteration], None],
) -> Minimisation:
    """Minimisation of J from q, not begun."""
    J = trials.cost(q)
    scale, unit = size if how.scale else np.ones_like(q), J if J > 0.0 else 1.0
    squares = squares and not trials.unknowns.inputs
    return Minimisation(trials, scale, unit, bounds, squares, report, how)


def best_optimizer(trials: Simulated, bounds: tuple[Array, Array]) -> str:
    """The optimiser that finds most minima: where J is a sum of squares, or has scores,
    "least-squares"."""
    if trials.unknowns.several:
        return "ipopt"
    low, high = bounds
    squares = is_squares(trials, "bfgs") and not trials.unknowns.inputs
    return "least-squares" if trials.kinked or (squares and (low < high).all()) else "bfgs"


def is_squares(trials: Simulated, optimizer: str) -> bool:
    """Whether J is a sum of squares; raises `ValueError` if not for an optimiser that needs
    that."""
    needed = OPTIMIZERS[optimizer].squares
    others = ", ".join(name for name, each in OPTIMIZERS.items() if not each.squares)
    remedy = f"use one of {others}"
    if needed and trials.unknowns.inputs:
        raise ValueError(
            f"{optimizer} needs the derivatives of all residuals, which there are not for samples "
            f"of unknown inputs; {remedy}"
        )
    try:
        trials.check_squares()
    except ValueError as error:
        if needed:
            words = f"{optimizer} needs a sum of squares: {error}; {remedy}"
            raise ValueError(words) from error
        return False
    return True


# -- sizes of unknowns ---------------------------------------------------------------------------


def sizes(trials: Simulated, bounds: tuple[Array, Array], q: Array) -> Array:
    """A typical size of each unknown: of trajectories their largest value; of samples of inputs at
    least what lowers the objective most."""
    size, unknowns = typical_sizes(q, bounds), trials.unknowns
    for k in range(len(unknowns.nodes)):
        for where in (unknowns.samples(k), unknowns.boundaries(k)):
            part = q[where]
            if len(part) and part.any():
                size[where] = np.abs(part).max()
    for name in unknowns.inputs:
        which = np.array([origin == name for origin in unknowns.origins])
        largest, effect = np.abs(q[which]).max(), _size_by_effect(trials, q, which, size)
        size[which] = max(largest, effect) or size[which]
    return size


def _size_by_effect(trials: Simulated, q: Array, which: NDArray[np.bool_], size: Array) -> float:
    """Distance that some unknowns go down the gradient to where the objective is lowest, with the
    curvature there by a difference; zero if that is nowhere."""
    slope = np.where(which, trials.gradient(q), 0.0)
    largest = float(np.abs(slope).max())
    if not 0.0 < largest < np.inf:
        return 0.0
    step = 1e-4 * float(np.median(size[which])) / largest
    if not np.isfinite(trials.cost(q - step * slope)):
        return 0.0
    change = slope - np.where(which, trials.gradient(q - step * slope), 0.0)
    bend = float(slope @ change) / step
    found = largest * float(slope @ slope) / bend if bend > 0.0 else 0.0
    return found if np.isfinite(found) else 0.0


def natural_sizes(trials: Simulated, q: Array) -> Array:
    """The largest value of the trajectory that an unknown belongs to; NaN for parameters."""
    unknowns, size = trials.unknowns, np.full(q.size, np.nan)
    rows = [unknowns.states.index(x) for x in unknowns.initial]
    for k, (states, inputs) in enumerate(trials.largest(q)):
        size[unknowns.starts(k)] = states[rows]
        size[unknowns.boundaries(k)] = np.tile(states, len(unknowns.segments[k]) - 1)
        size[unknowns.samples(k)] = np.repeat(inputs, unknowns.nodes[k])
    return size
