"""Criteria of optimal design: numbers of a covariance that an experiment is to make small.

Atkinson, Donev, Tobias, Optimum Experimental Designs, with SAS (2007), chapter 10. All are
logarithms of standard errors, relative to the values of the parameters: 0.1 is 10 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from kinesym.runtime.arrays import Array

#: Criterion of what cannot be known.
UNKNOWN = 50.0
#: Power of the mean in place of the largest error, which has corners.
_POWER = 12.0


class Criterion(Protocol):
    """Number of a covariance (r, r), of estimates with these values (r,), and its derivatives by
    the entries of the covariance (r, r)."""

    def __call__(self, covariance: Array, values: Array) -> tuple[float, Array]:
        """The logarithm of a standard error, and its derivatives."""


def _sizes(values: Array) -> Array:
    return np.where(values != 0.0, np.abs(values), 1.0)


def worst(covariance: Array, values: Array) -> tuple[float, Array]:
    """The largest relative standard error."""
    return _of_errors(covariance, values, np.inf)


def nearly_worst(covariance: Array, values: Array) -> tuple[float, Array]:
    """The largest relative standard error by a mean of high power, which a search can follow."""
    return _of_errors(covariance, values, _POWER)


def _of_errors(covariance: Array, values: Array, power: float) -> tuple[float, Array]:
    variances = np.diag(covariance)
    logs = 0.5 * np.log(variances) - np.log(_sizes(values))
    top = float(logs.max())
    if np.isinf(power):
        weights = (logs == top).astype(float)
        value = top
    else:
        weights = np.exp(power * (logs - top))
        value = top + float(np.log(np.mean(weights))) / power
    return value, np.diag(weights / weights.sum() / (2.0 * variances))


def determinant(covariance: Array, values: Array) -> tuple[float, Array]:
    """D-optimality: the geometric mean of the half axes of the ellipsoid of confidence."""
    size, r = _sizes(values), len(values)
    value = 0.5 * np.linalg.slogdet(covariance / np.outer(size, size))[1] / r
    return float(value), np.asarray(np.linalg.inv(covariance) / (2.0 * r), dtype=np.float64)


def average(covariance: Array, values: Array) -> tuple[float, Array]:
    """A-optimality: the root mean square of the relative standard errors."""
    shares = np.diag(covariance) / _sizes(values) ** 2
    slopes = np.diag(_sizes(values) ** -2 / (2.0 * shares.sum()))
    return float(0.5 * np.log(shares.mean())), slopes


def longest(covariance: Array, values: Array) -> tuple[float, Array]:
    """E-optimality: the longest half axis."""
    size = _sizes(values)
    squares, axes = np.linalg.eigh(covariance / np.outer(size, size))
    axis = axes[:, -1] / size
    return float(0.5 * np.log(squares[-1])), np.outer(axis, axis) / (2.0 * squares[-1])


def along(slopes: Array) -> Criterion:
    """Criterion of a combination with these derivatives (r,): its standard error, not relative,
    whether or not other estimates are known."""
    used = np.flatnonzero(slopes)
    outer = np.outer(slopes, slopes)

    def of_combination(covariance: Array, values: Array) -> tuple[float, Array]:
        variance = slopes[used] @ covariance[np.ix_(used, used)] @ slopes[used]
        return float(0.5 * np.log(variance)), outer / (2.0 * variance)

    return of_combination


#: Criteria by name.
CRITERIA: Mapping[str, Criterion] = {
    "worst": worst,
    "D": determinant,
    "A": average,
    "E": longest,
}


def judged(criterion: Criterion, covariance: Array, values: Array) -> float:
    """Criterion of a covariance, NaN for estimates that are not known; `UNKNOWN` where it is of
    these, or the covariance not positive."""
    if (np.diag(covariance) <= 0.0).any():
        return UNKNOWN
    with np.errstate(all="ignore"):
        try:
            found = criterion(covariance, values)[0]
        except np.linalg.LinAlgError:  # of eigenvalues of what is not known
            return UNKNOWN
    return min(found, UNKNOWN) if np.isfinite(found) else UNKNOWN
