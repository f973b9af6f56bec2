"""What the residuals of a fit are like: correlated in time or with inputs, with outliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

from kinesym.runtime.arrays import Array

#: Fewer samples than these say nothing about lags or distributions.
FEW = 20
#: Lags that are looked at, at most, and as a share of the samples.
_LAGS, _SHARE = 40, 5


def usual_lags(samples: int) -> int:
    """How many lags so many samples tell something about."""
    return min(_LAGS, samples // _SHARE) if samples >= FEW else 0


def autocorrelation(e: Array, lags: int) -> Array:
    """Of residuals e (K,) about their mean, at lags 1 ... lags, (lags,)."""
    centred = e - e.mean()
    whole = float(centred @ centred)
    if not whole > 0.0:
        return np.zeros(lags)
    return np.array([centred[k:] @ centred[:-k] for k in range(1, lags + 1)]) / whole


def ljung_box(rho: Array, samples: int) -> float:
    """The probability that so many white residuals have autocorrelations rho (lags,) as large.

    Q = K (K + 2) sum_k rho_k^2 / (K - k) is chi-square with as many degrees of freedom as lags
    (Ljung and Box 1978, Biometrika 65, 297).
    """
    K, lags = samples, len(rho)
    Q = K * (K + 2.0) * float(np.sum(rho**2 / (K - np.arange(1, lags + 1))))
    return float(chdtrc(lags, Q))


def jarque_bera(e: Array) -> float:
    """The probability that normal residuals have a skewness S and an excess kurtosis C as large:
    K/6 (S^2 + C^2/4) is chi-square with two degrees of freedom (Jarque and Bera 1980, Economics
    Letters 6, 255)."""
    z = (e - e.mean()) / e.std()
    statistic = len(e) / 6.0 * (np.mean(z**3) ** 2 + (np.mean(z**4) - 3.0) ** 2 / 4.0)
    return float(chdtrc(2.0, statistic))


def cross_correlation(e: Array, u: Array, lags: int) -> tuple[int, float, float]:
    """The lag [samples], and the correlation, of residuals e (K,) with an input u (K,) before them
    where that is largest, lags 0 ... lags; and the probability of one as large by chance."""
    a, b = e - e.mean(), u - u.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    if not size > 0.0:
        return 0, 0.0, 1.0
    rho = np.array([a[k:] @ b[: len(b) - k] for k in range(lags + 1)]) / size
    k = int(np.argmax(np.abs(rho)))
    # a coloured input is correlated with itself: the variance of rho is sum_j r_e(j) r_u(j) / K
    spread = 1.0 + 2.0 * float(autocorrelation(e, lags) @ autocorrelation(u, lags))
    z = abs(float(rho[k])) * np.sqrt(len(e) / max(spread, 1.0))
    return k, float(rho[k]), float(min(1.0, 2.0 * (lags + 1) * ndtr(-z)))


def outliers(e: Array) -> NDArray[np.intp]:
    """Which residuals are too far from the median for their number: a normal sample has one as far
    in one of a hundred records. The scale is that of the median distance, which outliers do not
    change."""
    if len(e) < FEW:
        return np.zeros(0, dtype=np.intp)
    far = np.abs(e - np.median(e))
    scale = float(np.median(far)) / float(ndtri(0.75))
    limit = -float(ndtri(0.005 / len(e)))
    return np.flatnonzero(far > limit * scale) if scale > 0.0 else np.zeros(0, dtype=np.intp)
