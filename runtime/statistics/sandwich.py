"""Covariances that do not assume white residuals of equal variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinesym.runtime.arrays import Array

#: The largest growth from sample to sample that is taken out before the spectrum is estimated
#: (Andrews and Monahan 1992).
_MOST_GROWTH = 0.97
#: Fewer instants than this say nothing about correlation in time.
_FEW = 20


@dataclass(frozen=True, eq=False)
class Robust:
    """A covariance (r, r), over how many samples residuals were taken as correlated, and as how
    many independent ones, less the unknowns, they count."""

    covariance: Array
    bandwidth: float
    freedom: float


def sandwich(
    scores: Sequence[Array], samples: int, taken: float, correlated: bool = True
) -> Robust:
    """The covariance of estimates from what each instant contributes to their errors.

    scores : per trial (K, r), in order of time: the sum over channels of (d estimate / d sample)
    times the residual, zero where a sample is missing. samples, taken : the number of samples, and
    of degrees of freedom that unknowns take, by which residuals are too small. correlated : whether
    residuals may be correlated in time, else only of unequal variance (White 1980, Econometrica 48,
    817).

    With correlation it is the long-run variance of the scores by the quadratic spectral kernel,
    after a vector autoregression of order 1 was taken out, with the bandwidth that what is left
    asks for (Andrews 1991, Econometrica 59, 817; Andrews and Monahan 1992,
    Econometrica 60, 953).
    """
    r = scores[0].shape[1]
    correlated = correlated and max(map(len, scores)) >= _FEW
    size = np.sqrt(np.sum([np.sum(s**2, axis=0) for s in scores], axis=0))
    size[size == 0.0] = 1.0
    unit = [s / size for s in scores]
    if not correlated:
        spread = np.sum([s.T @ s for s in unit], axis=0)
        return _corrected(spread, size, 0.0, samples, taken)
    step = _autoregression(unit, r)
    left = [s[1:] - s[:-1] @ step for s in unit]
    bandwidth = _bandwidth(left)
    spread = _long_run(left, bandwidth)
    coloured = np.linalg.inv(np.eye(r) - step)
    lost = sum(map(len, unit)) / max(sum(map(len, left)), 1)
    spread = lost * coloured.T @ spread @ coloured
    counts = samples / max(float(np.median(np.diag(spread))), 1.0)
    return _corrected(spread, size, bandwidth, counts, taken)


def _corrected(spread: Array, size: Array, bandwidth: float, counts: float, taken: float) -> Robust:
    """The covariance in units again, larger for the degrees of freedom that unknowns took.

    counts : as how many independent samples they count: of unit scores the long-run variance is how
    many of them tell as much as one.
    """
    freedom = max(counts - taken, 1.0)
    whole = counts / freedom * 0.5 * (spread + spread.T) * np.outer(size, size)
    return Robust(whole, bandwidth, freedom)


def _autoregression(scores: Sequence[Array], r: int) -> Array:
    """A (r, r) with s_t = s_{t-1} A, with singular values that are not too large."""
    before = np.vstack([s[:-1] for s in scores])
    after = np.vstack([s[1:] for s in scores])
    step = np.linalg.lstsq(before, after, rcond=None)[0]
    u, growth, v = np.linalg.svd(step)
    return np.asarray(u * np.minimum(growth, _MOST_GROWTH) @ v)


def _bandwidth(scores: Sequence[Array]) -> float:
    """Of the quadratic spectral kernel [samples], by first-order autoregressions of each column
    (Andrews 1991, eqs. 6.2 and 6.4, with weights one over variances)."""
    before = np.vstack([s[:-1] for s in scores])
    after = np.vstack([s[1:] for s in scores])
    power = np.sum(before**2, axis=0)
    power[power == 0.0] = 1.0
    rho = np.clip(np.sum(before * after, axis=0) / power, -_MOST_GROWTH, _MOST_GROWTH)
    above = np.sum(4.0 * rho**2 / (1.0 - rho) ** 8)
    below = np.sum(1.0 / (1.0 - rho) ** 4)
    return float(1.3221 * (above / below * len(after)) ** 0.2)


def _long_run(scores: Sequence[Array], bandwidth: float) -> Array:
    """Sum over all lags of their products, weighted by the quadratic spectral kernel, (r, r)."""
    total = np.sum([s.T @ s for s in scores], axis=0)
    longest = max(map(len, scores))
    for lag in range(1, longest):
        weight = _quadratic_spectral(lag / bandwidth) if bandwidth > 0.0 else 0.0
        if lag > 8.0 * max(bandwidth, 1.0):
            break
        part = np.sum([s[lag:].T @ s[:-lag] for s in scores if len(s) > lag], axis=0)
        total = total + weight * (part + part.T)
    return np.asarray(total)


def _quadratic_spectral(x: float) -> float:
    """k(x) = 25/(12 pi^2 x^2) (sin(6 pi x/5)/(6 pi x/5) - cos(6 pi x/5)) (Andrews 1991)."""
    a = 1.2 * np.pi * x
    return float(3.0 / a**2 * (np.sin(a) / a - np.cos(a)))
