"""Whether the end of an optimiser is a minimum: the decrease that derivatives predict of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.shooting import absolute
from kinesym.runtime.shooting.scaled import Endpoint, Minimisation
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.leverage import basis_of_columns
from kinesym.runtime.status import Solve

#: Share of the cost by which a step may still lower it at a minimum.
_REST = 1e-7
#: Share of the first cost by which a step may still lower it at a minimum.
ROUNDING = 1e-14
#: Rounding of a residual, as a share of what the unknowns make of it.
ROUNDED_RESIDUAL = 1e-13
#: Share of the largest information, below which that says nothing of the curvature.
_FLAT = 1e-8
#: A small step in scaled unknowns.
_NEAR = 1e-4


def checked(problem: Minimisation, found: Endpoint) -> Endpoint:
    """The same minimum, if derivatives do not say that a step lowers the cost."""
    left, J = _left(problem, found.q), problem.trials.cost(found.q)
    size = max(abs(J), least_share(problem.trials, found.q) if problem.squares else 0.0)
    if left <= _REST * size + ROUNDING * problem.unit:
        return found
    words = f"derivatives say that a step lowers the objective by {left:.1e}"
    words = f"{Solve.NO_MINIMUM.sentence}: {words} ({found.message})"
    return Endpoint(found.q, Solve.NO_MINIMUM, words)


def least_share(trials: Simulated, q: Array) -> float:
    """Least size of J of which shares are taken: of a likelihood, which may be of any sign, the
    number of its terms."""
    return trials.factor * len(trials.residuals(q)) if trials.scored else 0.0


def _left(problem: Minimisation, q: Array) -> float:
    """Decrease of the cost that derivatives predict; unknowns that are pushed against a near bound
    are fixed."""
    y, (low, high) = problem.scaled(q), problem.scaled_bounds
    g = problem.trials.gradient(q) * problem.slopes(q)
    if problem.trials.kinked:
        here = absolute.kinked_at(problem.trials, q).scaled(problem.slopes(q))
        box = (np.maximum(low - y, -_NEAR), np.minimum(high - y, _NEAR))
        return absolute.resting_gradient(here, box)[1]
    free = ~(((g > 0.0) & (y - low <= _NEAR)) | ((g < 0.0) & (high - y <= _NEAR)))
    if not g[free].any():
        return 0.0
    if problem.squares and problem.trials.scored:
        return _left_of_scores(problem, q, free)
    if problem.squares:
        return _left_of_squares(problem.trials, q, free)
    return _left_along(problem, y, np.where(free, g, 0.0), g)


def _left_of_squares(trials: Simulated, q: Array, free: NDArray[np.bool_]) -> float:
    """Decrease of a sum of squares that Gauss-Newton predicts, with residuals r linear in the
    unknowns: |Q' r|^2 with Q an orthonormal basis of their derivatives (Bates and Watts 1981,
    Technometrics 23, 179, who compare it with the rest of the sum). Unlike differences of costs it
    does not suffer from rounding of the cost; less than rounding of the residuals is none."""
    slopes = trials.jacobian(q).toarray()[:, free]
    left = float(np.sum((basis_of_columns(slopes).T @ trials.residuals(q)) ** 2))
    return left if left > ROUNDED_RESIDUAL**2 * made_by_unknowns(slopes, q[free]) else 0.0


def made_by_unknowns(slopes: Any, q: Array) -> float:
    """Sum of squares of what the unknowns make of residuals with these slopes."""
    return float(np.linalg.norm(np.abs(slopes) @ np.abs(q)) ** 2)


def _left_of_scores(problem: Minimisation, q: Array, free: NDArray[np.bool_]) -> float:
    """Decrease of a likelihood that scoring predicts; where it expects next to no information the
    curvature is another one, which is at least a share of the largest."""
    slopes = (problem.trials.jacobian(q).toarray() * problem.slopes(q))[:, free]
    _, size, along = np.linalg.svd(slopes, full_matrices=False)
    pull = along @ (slopes.T @ problem.trials.residuals(q))
    return float(np.sum(pull**2 / np.maximum(size**2, _FLAT * size.max(initial=0.0) ** 2)))


def _left_along(problem: Minimisation, y: Array, g: Array, here: Array) -> float:
    """Decrease of the cost by a step along g whose length follows from the curvature there, by a
    difference of gradients from the one `here`; zero if no step lowers it."""
    (low, high), J = problem.scaled_bounds, problem.cost(y)
    size = float(np.linalg.norm(g))
    d = -g / size
    at = np.clip(y + _NEAR * d, low, high)
    if not np.isfinite(problem.cost(at)):
        return 0.0
    bend = float((problem.gradient(at) - here) @ d) / _NEAR
    if not bend > 0.0:
        return 0.0
    return max(0.0, J - problem.cost(np.clip(y + size / bend * d, low, high)))
