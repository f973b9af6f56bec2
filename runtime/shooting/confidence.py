"""The covariance of the unknowns of simulated trials, from the curvature of J at its minimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import diags_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation
from kinesym.runtime.shooting.absolute import kinked_at, resting_gradient
from kinesym.runtime.shooting.minimising import Minimised, natural_sizes
from kinesym.runtime.shooting.residuals import number_of_samples, robust_covariance
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.covariance import (
    Confidence,
    Estimate,
    confidence_of_segments,
    confidence_of_squares,
)

#: Share of the size of an unknown that is a small step.
_STEP = 1e-5
#: Share of the curvature of scaled unknowns that is rounding.
_ROUNDING = 1e-12
#: A note where priors leave no minimum to first order.
_CONCAVE = (
    "priors bend down at these estimates by more than the samples bend up: their errors are no "
    "normal ones; use method='profile'"
)
#: Unknowns up to which the curvature is found by differences of gradients.
_FEW = 60


def nothing_told(q: Array) -> Confidence:
    """Confidence of unknowns (n,) of whose errors nothing is known."""
    return Confidence(np.zeros(q.size, dtype=bool), np.full((q.size, q.size), np.nan))


def confidence(
    estimation: Estimation, made: Minimised, J: float, gradient: Array
) -> tuple[Confidence, Any]:
    """Confidence of the unknowns from the derivatives of residuals, else from differences of
    gradients; and the curvature d2 J/d q2 (n, n), None if there is none."""
    problem, q, nothing = made.problem, made.found.q, nothing_told(made.found.q)
    if not np.isfinite(J):
        return nothing, None
    trials, unknowns = problem.trials, problem.trials.unknowns
    if trials.kinked or (trials.priors and trials.priors.sides.any()):  # which hold unknowns
        gradient = resting(trials, q, problem.bounds, made.size)
    about = (q, unknowns.names, problem.bounds, J, gradient, natural_sizes(trials, q))
    found = Estimate(*about)
    if problem.squares:
        return confidence_of_trials(estimation, trials, found)
    steps = _STEP * made.size
    held = found.held(np.abs(gradient) / steps)  # where it is not known better
    if unknowns.several or q.size > _FEW:
        return replace(nothing, held=held), None
    free = np.flatnonzero(~held)
    rows = [_slope_of_gradient(trials, q, int(k), steps[k]) for k in free]
    if not np.isfinite(rows).all():
        return replace(nothing, held=held), None
    curvature = np.zeros((q.size, q.size))
    curvature[free] = np.reshape(rows, (len(free), q.size))
    judged = found.judged(free, 0.5 * curvature[np.ix_(free, free)], 0.0)
    return Confidence(held, nothing.covariance, *judged), curvature


def resting(trials: Simulated, q: Array, bounds: tuple[Array, Array], size: Array) -> Array:
    """Gradient (n,) at a minimum, where kinks take up what they can; size : of unknowns."""
    if not trials.kinked:
        return trials.gradient(q)
    low, high = bounds
    box = (np.maximum(low - q, -_STEP * size), np.minimum(high - q, _STEP * size))
    return np.asarray(resting_gradient(kinked_at(trials, q), box)[0])


def confidence_of_trials(
    estimation: Estimation, trials: Simulated, found: Estimate
) -> tuple[Confidence, Any]:
    """Confidence and curvature of a sum of squares."""
    q = found.values
    slopes = trials.jacobian(q)
    slopes.eliminate_zeros()
    samples, concave = _samples(estimation, trials, slopes), trials.priors.concave(q)
    curvature = 2.0 * (slopes.T @ slopes + diags_array(concave))
    if trials.unknowns.several:
        gaps = trials.gap_jacobian(q)
        sure = confidence_of_segments(found, curvature, gaps, trials.unknowns.inner, samples)
    else:
        rows = _bent(slopes.toarray(), concave)
        if rows is None:
            return replace(nothing_told(q), notes=[_CONCAVE]), None
        sure = confidence_of_squares(found, rows, samples)
    covariance = np.full_like(sure.covariance, np.nan)
    if estimation.untold:
        return replace(sure, covariance=covariance), curvature
    if estimation.kinked:  # what is expected, as there is no curvature
        return sure, None
    if estimation.loss is None or np.isnan(sure.covariance).all():
        return sure, curvature
    which, robust = robust_covariance(trials, q, ~sure.held, estimation.loss)
    covariance[sure.held] = covariance[:, sure.held] = 0.0
    covariance[np.ix_(which, which)] = robust
    return replace(sure, covariance=covariance), curvature


def _bent(slopes: Array, concave: Array) -> Array | None:
    """Rows (n, n) with the squares of the slopes (k, n) and a diagonal (n,) that is not positive;
    None where no rows have them."""
    if not concave.any():
        return slopes
    size = np.linalg.norm(slopes, axis=0)
    size[size == 0.0] = 1.0
    unit = slopes / size
    modes, vectors = np.linalg.eigh(unit.T @ unit + np.diag(concave / size**2))
    if modes[0] < -_ROUNDING * modes[-1]:
        return None
    return np.asarray(np.sqrt(np.maximum(modes, 0.0))[:, None] * vectors.T * size)


def _samples(estimation: Estimation, trials: Simulated, slopes: Any) -> int | None:
    """The number of residuals by which their variance is estimated; None if they are divided by
    their standard deviations."""
    if estimation.factor:
        return number_of_samples(trials) if estimation.pooled else None
    return int((np.diff(slopes.indptr) > 0).sum()) // trials.substeps


def _slope_of_gradient(trials: Simulated, q: Array, k: int, step: float) -> Array:
    """d gradient/d q_k by central differences; NaN where a simulation fails."""
    sides = []
    for sign in (1.0, -1.0):
        at = q.copy()
        at[k] += sign * step
        if not np.isfinite(trials.cost(at)):
            return np.full_like(q, np.nan)
        sides.append(trials.gradient(at))
    return np.asarray((sides[0] - sides[1]) / (2.0 * step))
