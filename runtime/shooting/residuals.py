"""Residuals of the measurements of simulated trials, and what they tell of noise and unknowns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.estimates import Noise
from kinesym.runtime.results.noise import estimated, estimated_together
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.leverage import leverages_of_columns


class Measured(NamedTuple):
    """Residuals (modelled - measured)/std (k,) of the samples with their derivatives (k, n) with
    respect to `unknowns`, numbers in q, and their samples; others : derivatives (m, n) of the other
    squares in the objective."""

    residuals: Array
    slopes: Array
    unknowns: NDArray[np.intp]
    samples: Samples
    others: Array


def measured(trials: Simulated, q: Array) -> Measured:
    """Residuals of the samples, of trials whose objective has least squares."""
    samples, loss, factor = trials.samples(), trials.loss, np.sqrt(trials.factor)
    every, slopes = trials.residuals(q) / factor, trials.jacobian(q) / factor
    here = np.zeros(len(every), dtype=bool)
    here[: len(samples.channel)] = (samples.channel >= 0) & (samples.weight > 0.0)
    first, [dense] = through_segments(trials, q, [slopes])
    e, x = every[here], dense[here]
    if loss is not None:
        e = loss.unrooted(e)
        x = x / loss.root_slope(e)[:, None]
    kept = samples.taken(here[: len(samples.channel)])
    return Measured(e, x, first, kept, dense[len(samples.channel) :])


def through_segments(
    trials: Simulated, q: Array, slopes: Iterable[Any]
) -> tuple[NDArray[np.intp], list[Array]]:
    """Derivatives (k, n) by the unknowns with inner boundaries of segments eliminated, which follow
    from the others; and numbers of these in q. slopes : by all, sparse."""
    first = np.arange(q.size)
    if not trials.unknowns.several:
        return first, [rows.toarray() for rows in slopes]
    inner = first[trials.unknowns.inner]
    first, gaps = np.setdiff1d(first, inner), csc_array(trials.gap_jacobian(q))
    follow = splu(gaps[:, inner]).solve(gaps[:, first].toarray())
    columns = (csc_array(rows) for rows in slopes)
    return first, [rows[:, first].toarray() - rows[:, inner] @ follow for rows in columns]


def noise_of(
    trials: Simulated,
    q: Array,
    free: NDArray[np.bool_],
    used: Mapping[str, float],
    experiments: Sequence[Experiment],
) -> list[Noise]:
    """What the residuals at q show of standard deviations that `experiments` leave open, found with
    those `used`. free : which unknowns (n,) no bound holds."""
    found = measured(trials, q)
    taken = _leverages(found, free)
    return estimated(found.residuals, found.samples, taken, experiments, used, trials.loss)


def taken_of(trials: Simulated, q: Array, free: NDArray[np.bool_]) -> dict[str, float]:
    """Degrees of freedom that the unknowns that are free take of each channel."""
    if trials.unknowns.inputs:
        return {}  # there are no derivatives of all residuals
    found = measured(trials, q)
    return found.samples.sums(_leverages(found, free))


def _leverages(found: Measured, free: NDArray[np.bool_]) -> Array:
    """Of the residuals, (k,)."""
    moved = np.vstack([found.slopes, found.others])[:, free[found.unknowns]]
    return leverages_of_columns(moved)[: len(found.residuals)]


def noise_together(
    trials: Simulated, J: float, free: int, experiments: Sequence[Experiment]
) -> Noise:
    """Of the one group of all measurements at a cost J, with so many unknowns that are free."""
    samples = trials.samples()
    n = np.count_nonzero((samples.channel >= 0) & (samples.weight > 0.0))
    return estimated_together(J / trials.factor, float(n), float(free), experiments)


def robust_covariance(
    trials: Simulated, q: Array, free: NDArray[np.bool_], loss: RobustLoss
) -> tuple[NDArray[np.intp], Array]:
    """Numbers of free unknowns in q, and their covariance with a loss.

    With x the derivatives of residuals, A = sum psi' x x' and B = sum psi^2 x x' it is A^-1 B A^-1
    k/(k - n) (Huber, Ronchetti 2009, Robust Statistics, section 7.6), of a likelihood A^-1. NaN if
    A is not positive: no minimum, or not identifiable.
    """
    found = measured(trials, q)
    which = free[found.unknowns]
    x, e, others = found.slopes[:, which], found.residuals, found.others[:, which]
    size = np.linalg.norm(np.vstack([x, others]), axis=0)
    size[size == 0.0] = 1.0
    x, others = x / size, others / size
    known = others.T @ others  # what is squared counts as observed with variance 1
    A = x.T @ (loss.bend(e)[:, None] * x) + known
    covariance = np.full(A.shape, np.nan)
    if len(A) and np.linalg.eigvalsh(A)[0] > 1e-14:
        covariance = np.linalg.inv(A)
        if not loss.likelihood:
            B = x.T @ (loss.slope(e)[:, None] ** 2 * x) + known
            left = len(e) - len(A)
            covariance = covariance @ B @ covariance * (len(e) / left if left > 0 else np.nan)
        covariance = covariance / np.outer(size, size)
    return found.unknowns[which], covariance
