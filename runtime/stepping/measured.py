"""Residuals of the measurements of simulated trials, and what they tell of noise and unknowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.estimates import Noise
from kinesym.runtime.results.leverage import leverages_of_columns
from kinesym.runtime.results.noise import estimated, estimated_together
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.stepping.simulated import Simulated


class Measured(NamedTuple):
    """Residuals (modelled - measured)/std (k,) with their derivatives (k, n) with respect to
    `unknowns`, numbers in q, and what they are about."""

    residuals: Array
    slopes: Array
    unknowns: NDArray[np.intp]
    samples: Samples


def measured(trials: Simulated, q: Array) -> Measured:
    """Of trials whose objective has least squares. Inner boundaries of segments follow from the
    other unknowns."""
    samples, loss, factor = trials.samples(), trials.loss, np.sqrt(trials.factor)
    here = (samples.channel >= 0) & (samples.weight > 0.0)
    count = len(here)  # priors come after the measurements
    r, slopes = (of[:count][here] / factor for of in (trials.residuals(q), trials.jacobian(q)))
    e = r if loss is None else loss.unrooted(r)
    if loss is not None:
        slopes = slopes.multiply(1.0 / loss.root_slope(e)[:, None])
    first = np.arange(q.size)
    if trials.unknowns.several:
        offsets = trials.unknowns.offsets
        inner = np.arange(offsets["segments", 0], offsets["inputs", 0])
        first = np.setdiff1d(first, inner)
        gaps, slopes = csc_array(trials.gap_jacobian(q)), csc_array(slopes)
        follow = splu(gaps[:, inner]).solve(gaps[:, first].toarray())
        return Measured(
            e, slopes[:, first].toarray() - slopes[:, inner] @ follow, first, samples.taken(here)
        )
    return Measured(e, slopes.toarray(), first, samples.taken(here))


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
    moved = found.slopes[:, free[found.unknowns]]
    taken = leverages_of_columns(moved)
    return estimated(found.residuals, found.samples, taken, experiments, used, trials.loss)


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
    x, e = found.slopes[:, which], found.residuals
    size = np.linalg.norm(x, axis=0)
    x = x / np.where(size > 0.0, size, 1.0)
    prior = trials.priors.jacobian(q)[:, found.unknowns[which]] / np.where(size > 0.0, size, 1.0)
    A = x.T @ (loss.bend(e)[:, None] * x) + (prior.T @ prior) / trials.factor
    covariance = np.full(A.shape, np.nan)
    if len(A) and np.linalg.eigvalsh(A)[0] > 1e-14:
        covariance = np.linalg.inv(A)
        if not loss.likelihood:
            B = x.T @ (loss.slope(e)[:, None] ** 2 * x)
            left = len(e) - len(A)
            covariance = covariance @ B @ covariance * (len(e) / left if left > 0 else np.nan)
        covariance = covariance / np.outer(size, size)
    return found.unknowns[which], covariance
