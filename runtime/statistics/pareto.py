"""Pareto smoothing of importance weights, whose largest ones are too few to be averaged.

The tail of the weights is replaced by quantiles of the generalised Pareto distribution that fits
it, whose index k says whether the average can be relied on: up to 0.7 (PSIS: Vehtari, Simpson,
Gelman, Yao, Gabry 2024, Journal of Machine Learning Research 25, 72).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from kinesym.runtime.arrays import Array

#: Share of the weights that may be their tail.
_TAIL = 0.2
#: Weights of a tail that tell its index, at least.
_FEW = 5
#: Weight of the prior of k, in weights.
_PRIOR = 10.0
#: Its mean.
_MEAN = 0.5


def smoothed(log_weights: Array) -> tuple[Array, float]:
    """Logarithms of smoothed weights (n,) whose sum is 1, and k; infinite for too few weights,
    which stay."""
    shifted = log_weights - log_weights.max()
    n = len(shifted)
    tail = int(min(_TAIL * n, 3.0 * np.sqrt(n)))
    order = np.argsort(shifted)
    last, k = order[n - tail :], np.inf
    if tail >= _FEW and shifted[last[-1]] > shifted[last[0]]:
        cut = np.exp(shifted[order[n - tail - 1]])
        over = np.exp(shifted[last]) - cut
        k, scale = generalised_pareto(over[over > 0.0])
        shares = (np.arange(tail) + 0.5) / tail
        raised = scale * np.expm1(-k * np.log1p(-shares)) / k
        shifted = shifted.copy()
        shifted[last] = np.minimum(np.log(cut + raised), 0.0)
    return shifted - logsumexp(shifted), k


def generalised_pareto(x: Array) -> tuple[float, float]:
    """Index k and scale of the generalised Pareto distribution of x (n,), sorted (Zhang and
    Stephens 2009, Technometrics 51, 316), with a weak prior of k."""
    n = len(x)
    m = 30 + int(np.sqrt(n))
    some = 1.0 - np.sqrt(m / (np.arange(m) + 0.5))
    rates = 1.0 / x[-1] + some / (3.0 * x[int(n / 4.0 + 0.5) - 1])
    indices = np.log1p(-rates[:, None] * x).mean(axis=1)
    likelihood = n * (np.log(-rates / indices) - indices - 1.0)
    rate = rates @ np.exp(likelihood - logsumexp(likelihood))
    index = float(np.log1p(-rate * x).mean())
    scale = -index / rate
    return (n * index + _PRIOR * _MEAN) / (n + _PRIOR), float(scale)
