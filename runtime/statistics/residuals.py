"""Tests of residuals: autocorrelation, correlation with inputs, normality, outliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

from kinesym.runtime.arrays import Array

#: Samples below which lags and distributions are not tested.
FEW = 20
#: Lags of the autocorrelation that are tested at most.
_LAGS = 40
#: Samples per lag that is tested, at least.
_SHARE = 5


def usual_lags(samples: int) -> int:
    """Number of lags to test for so many samples: a fifth, 40 at most; none below `FEW` samples."""
    return min(_LAGS, samples // _SHARE) if samples >= FEW else 0


def autocorrelation(e: Array, lags: int) -> Array:
    """Autocorrelation of residuals e (K,) about their mean, at lags 1 ... lags, (lags,)."""
    centred = e - e.mean()
    whole = float(centred @ centred)
    if not whole > 0.0:
        return np.zeros(lags)
    return np.array([centred[k:] @ centred[:-k] for k in range(1, lags + 1)]) / whole


def ljung_box(rho: Array, samples: int) -> float:
    """Ljung-Box test: the probability that so many white residuals have autocorrelations as large
    as rho (lags,).

    Q = K (K + 2) sum_k rho_k^2 / (K - k) is chi-square with as many degrees of freedom as lags
    (Ljung and Box 1978, Biometrika 65, 297).
    """
    K, lags = samples, len(rho)
    Q = K * (K + 2.0) * float(np.sum(rho**2 / (K - np.arange(1, lags + 1))))
    return float(chdtrc(lags, Q))


def jarque_bera(e: Array) -> float:
    """Jarque-Bera test: the probability that normal residuals have a skewness S and an excess
    kurtosis C as large. K/6 (S^2 + C^2/4) is chi-square with two degrees of freedom (Jarque and
    Bera 1980, Economics Letters 6, 255)."""
    z = (e - e.mean()) / e.std()
    statistic = len(e) / 6.0 * (np.mean(z**3) ** 2 + (np.mean(z**4) - 3.0) ** 2 / 4.0)
    return float(chdtrc(2.0, statistic))


def cross_correlation(e: Array, u: Array, lags: int) -> tuple[int, float, float]:
    """Largest cross-correlation of residuals e (K,) with an earlier input u (K,), over lags 0 ...
    lags: its lag [samples], its value, and the probability of one as large by chance."""
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
    """Indices of outliers: residuals too far from the median for their number. A normal sample has
    one in one of a hundred records. The scale is the median absolute deviation, which is robust
    against outliers."""
    if len(e) < FEW:
        return np.zeros(0, dtype=np.intp)
    far = np.abs(e - np.median(e))
    scale = float(np.median(far)) / float(ndtri(0.75))
    limit = -float(ndtri(0.005 / len(e)))
    return np.flatnonzero(far > limit * scale) if scale > 0.0 else np.zeros(0, dtype=np.intp)
