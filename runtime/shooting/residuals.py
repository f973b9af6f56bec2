"""Residuals of the measurements of simulated trials, and what they tell of noise and unknowns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Residuals
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.bends import Bends
from kinesym.runtime.statistics.leverage import leverages_of_columns
from kinesym.runtime.statistics.robust import spread_by_loss


class Measured(NamedTuple):
    """Residuals (modelled - measured)/std (k,) of the samples with their derivatives (k, n) with
    respect to `unknowns`, numbers in q, and their samples; rest, others : roots (m,) of the other
    squares in the objective and their derivatives (m, n), of which priors are the last; concave :
    half the second derivatives (n,) that priors have besides, see `Priors.concave`."""

    residuals: Array
    slopes: Array
    unknowns: NDArray[np.intp]
    samples: Samples
    rest: Array
    others: Array
    priors: int
    concave: Array


def measured(trials: Simulated, q: Array) -> Measured:
    """Residuals of the samples, of trials whose objective has least squares."""
    samples, loss, factor = trials.samples(), trials.loss, np.sqrt(trials.factor)
    every, slopes = trials.residuals(q) / factor, trials.jacobian(q) / factor
    here = np.zeros(len(every), dtype=bool)
    here[: len(samples.channel)] = (samples.channel >= 0) & (samples.weight > 0.0)
    first, [dense] = through_segments(trials, q, [slopes])
    e, x = every[here], dense[here]
    kept = samples.taken(here[: len(samples.channel)])
    if loss is not None and not loss.kinked:
        plain = ~kept.scored
        e[plain] = loss.unrooted(e[plain])
        x[plain] /= loss.root_slope(e[plain])[:, None]
    other = ~here
    other[: len(samples.channel)] &= samples.channel < 0
    priors = len(every) - len(samples.channel)
    concave = trials.priors.concave(q)[first] / trials.factor
    return Measured(e, x, first, kept, every[other], dense[other], priors, concave)


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


def residuals_of(trials: Simulated, q: Array, free: NDArray[np.bool_]) -> Residuals | None:
    """The residuals at q with their leverages; free : which unknowns (n,) no bound holds. None
    where there are no derivatives of all residuals."""
    if trials.unknowns.inputs:
        return None
    found = measured(trials, q)
    moved = np.vstack([found.slopes, found.others])[:, free[found.unknowns]]
    leverage = leverages_of_columns(moved)[: len(found.residuals)]
    return Residuals(found.residuals, found.samples, leverage)


def number_of_samples(trials: Simulated) -> int:
    """Number of samples that are not missing."""
    samples = trials.samples()
    return int(np.count_nonzero((samples.channel >= 0) & (samples.weight > 0.0)))


def robust_covariance(
    trials: Simulated, q: Array, free: NDArray[np.bool_], loss: RobustLoss
) -> tuple[NDArray[np.intp], Array]:
    """Numbers of free unknowns in q, and their covariance with a loss.

    With x the derivatives of residuals and A = x' W x, see `Bends`, it is A^-1 of a likelihood,
    else as `spread_by_loss` says. NaN if A is not positive, no minimum or not identifiable, and if
    nothing is left of the residuals.
    """
    found = measured(trials, q)
    which = free[found.unknowns]
    x, e, others = found.slopes[:, which], found.residuals, found.others[:, which]
    size = np.linalg.norm(np.vstack([x, others]), axis=0)
    size[size == 0.0] = 1.0
    x, others = x / size, others / size
    bends = Bends.of(found.samples, e, loss)
    A = x.T @ bends.times(x) + others.T @ others + np.diag(found.concave[which] / size**2)
    covariance = np.full(A.shape, np.nan)
    if len(A) and np.linalg.eigvalsh(A)[0] > 1e-14:
        covariance = np.linalg.inv(A)
        if not loss.likelihood:
            priors = others[len(others) - found.priors :]
            pulls = np.vstack([bends.slope[:, None] * x, priors]) @ covariance
            some = len(pulls) > len(A)
            covariance = spread_by_loss(pulls, len(A)) if some else np.full(A.shape, np.nan)
        covariance = covariance / np.outer(size, size)
    return found.unknowns[which], covariance
