"""Autoregressions of residuals, corrected for the degrees of freedom that the fit takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.linalg import solve_banded, toeplitz

from kinesym.runtime.arrays import Array

#: Largest sum of the coefficients of an autoregression that prewhitens residuals (Andrews and
#: Monahan 1992).
_MOST_GROWTH = 0.97
#: Largest partial correlation; corrected products need not belong to a stationary process.
_MOST = 0.999
#: Iterations of the correction for the fit, at most.
_ROUNDS = 20
#: Change of the correction at which the iteration has converged, as a share of the variance of
#: residuals.
_SETTLED = 1e-4
#: Terms of the impulse response [samples].
_RESPONSE = 2000


@dataclass(frozen=True, eq=False)
class Autoregression:
    """e_k = sum_i c_i e_(k-i) + w_k with w white: coefficients (p,) and the variance of w."""

    coefficients: Array
    variance: float

    @property
    def filter(self) -> Array:
        """Whitening filter, (p + 1,), which turns e into w."""
        return np.concatenate([[1.0], -self.coefficients])

    def innovations(self, e: Array) -> Array:
        """Innovations w of samples e, along the first axis."""
        w = e.copy()
        for k, c in enumerate(self.coefficients[: len(e) - 1], 1):
            w[k:] -= c * e[:-k]
        return w

    def gathered(self, x: Array) -> Array:
        """Weights of innovations in a sum of samples with weights x, along the first axis."""
        return self._answers(x[::-1])[::-1]

    def covaried(self, x: Array) -> Array:
        """Product of the samples' covariance with x, along the first axis."""
        return self.variance * self._answers(self.gathered(x))

    def _answers(self, w: Array) -> Array:
        """Samples from innovations."""
        filtering = self.filter[: len(w)]
        below = len(filtering) - 1
        if not below:
            return w
        bands = np.repeat(filtering[:, None], len(w), axis=1)
        return np.asarray(solve_banded((below, 0), bands, w))

    def spread(self, count: int) -> Array:
        """The covariance (p, p) of the coefficients if they are estimated from so many samples
        (Brockwell and Davis 1991, Time Series: Theory and Methods, section 8.8)."""
        p = len(self.coefficients)
        response = self._answers(np.eye(1, _RESPONSE)[0])
        power = [response[lag:] @ response[: _RESPONSE - lag] for lag in range(p)]
        return np.linalg.inv(toeplitz(power)) / count if p else np.zeros((0, 0))


def autoregressions(
    channels: Mapping[int, Sequence[Array]], bases: Mapping[int, Sequence[Array]]
) -> dict[int, Autoregression]:
    """Autoregression of the residuals of each channel, (n,) in each trial.

    Their order minimises AIC: noise is seldom an autoregression itself, and the orders of
    consistent criteria, which find the true one if there is one, leave more of a slow part of it
    (Shibata 1980, Annals of Statistics 8, 147).

    bases : rows (n, m) that belong to these of Q, the hat matrix being Q Q': the fit leaves e^ = (1
    - Q Q') e. Sums of products of e^ are smaller than those of e by an amount that follows from Q
    and the covariance of e. This is added, with the covariance of the last autoregression, until
    both agree (Worsley et al. 2002, NeuroImage 15, appendix A.3, where the covariance ends after a
    few lags). The fit follows most where slow swings are most of the noise: without correction,
    coefficients would be too small.
    """
    products = {c: _products(rows) for c, rows in channels.items()}
    counts = {c: sum(map(len, rows)) for c, rows in channels.items()}
    found = {c: _fitted(products[c], counts[c]) for c in channels}
    if not any(basis.any() for rows in bases.values() for basis in rows):
        return found
    inner = {c: [_inner(bases[c], lag) for lag in range(len(products[c]))] for c in channels}
    before = {c: np.zeros(len(each)) for c, each in products.items()}
    for _ in range(_ROUNDS):
        moved = {c: [found[c].covaried(q) for q in rows] for c, rows in bases.items()}
        pairs = [(q, v) for c in bases for q, v in zip(bases[c], moved[c], strict=True)]
        whole = np.sum([q.T @ v for q, v in pairs], axis=0)
        lost = {c: _lost(bases[c], moved[c], inner[c], whole) for c in channels}
        found = {c: _fitted(products[c] + lost[c], counts[c]) for c in channels}
        if all(np.abs(lost[c] - before[c]).max() <= _SETTLED * products[c][0] for c in channels):
            break
        before = lost
    return found


def _products(rows: Sequence[Array]) -> Array:
    """Sums of products of residuals at lags 0, 1, ..., (lags + 1,)."""
    most = int(6.0 * (max(map(len, rows)) / 100.0) ** 0.25)
    return np.array([sum(_apart(e, e, lag) for e in rows) for lag in range(most + 1)])


def _apart(a: Array, b: Array, lag: int) -> float:
    """Sum of products of samples a and b at a lag [samples]."""
    return float(np.vdot(a[lag:], b[: len(b) - lag])) if lag < len(a) else 0.0


def _inner(basis: Sequence[Array], lag: int) -> Array:
    """Products Q' D Q, (m, m), with D the shift matrix of a lag."""
    return np.asarray(np.sum([q[lag:].T @ q[: max(len(q) - lag, 0)] for q in basis], axis=0))


def _lost(
    basis: Sequence[Array], moved: Sequence[Array], inner: Sequence[Array], whole: Array
) -> Array:
    """Decrease of sums of products at lags 0, 1, ... by the fit, (lags + 1,).

    tr D V - tr D R V R with R = 1 - Q Q' and D as in `inner`, which is Q' D Q; moved : V Q, whole :
    Q' V Q."""
    pairs = list(zip(basis, moved, strict=True))
    return np.array(
        [
            sum(_apart(v, q, lag) + _apart(q, v, lag) for q, v in pairs) - np.vdot(each, whole)
            for lag, each in enumerate(inner)
        ]
    )


def _fitted(products: Array, count: int) -> Autoregression:
    """Autoregression by Levinson's recursion from sums of products over `count` samples at lags
    0, 1, ..., of the order with the least AIC; the sum of its coefficients is limited."""
    found, variance = np.zeros(0), float(products[0])
    best, left, least = found, variance, 0.0
    for lag in range(1, len(products)):
        if not variance > 1e-12 * products[0]:
            break
        last = (products[lag] - found @ products[1:lag][::-1]) / variance
        last = float(np.clip(last, -_MOST, _MOST))
        found = np.append(found - last * found[::-1], last)
        variance *= 1.0 - last**2
        score = count * np.log(variance / products[0]) + 2.0 * lag
        if score < least:
            best, left, least = found, variance, score
    if float(np.sum(best)) > _MOST_GROWTH:  # all roots move towards 0, so that it stays stable
        powers = np.arange(1, len(best) + 1)
        shrink = scipy.optimize.brentq(
            lambda root: float(np.sum(best * root**powers)) - _MOST_GROWTH, 0.0, 1.0
        )
        best = best * shrink**powers
    return Autoregression(best, left / count)
