"""Information of censored samples: how much of it a limit takes away, on average.

A sample with normal noise is lost below a limit, a standard deviations from its mean, with
probability Phi(a), and then tells that. The expected information on the mean and on the log of the
standard deviation, in standard deviations, is 1, 0 and 2 without a limit; with it the tail has the
mean square of the score of log Phi(a) in place of that of the scores of a normal density.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from kinesym.runtime.arrays import Array

#: Least share of the information that a sample keeps: of none there is no standard deviation.
_LEAST = 1e-12


def information_lost(a: Array) -> tuple[Array, Array, Array]:
    """Expected information (n,) that a sample loses by a limit below, a standard deviations from
    its mean, or none where that is NaN: on the mean, on both, on the log of the standard deviation.
    Of a limit above take -a, and the second one with its sign turned."""
    there = ~np.isnan(a)
    a = np.where(there, a, -40.0)
    density = np.exp(-0.5 * a**2 - 0.5 * np.log(2.0 * np.pi))
    hazard = np.exp(-0.5 * a**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(a))
    tail, both = ndtr(a), density * (a + hazard)
    found = (tail - both, -density - a * both, 2.0 * tail - a * density - a**2 * both)
    return found[0] * there, found[1] * there, found[2] * there


def deviations_within(std: Array, modelled: Array, low: Array, high: Array) -> Array:
    """Standard deviations (n,) of samples without limits that would tell as much of their mean as
    samples with these, of deviation `std`, do on average; low, high : NaN for no limit."""
    lost = (
        information_lost((low - modelled) / std)[0] + information_lost((modelled - high) / std)[0]
    )
    return np.asarray(std / np.sqrt(np.maximum(1.0 - lost, _LEAST)))
