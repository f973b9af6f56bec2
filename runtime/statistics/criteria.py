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
    """Number of a covariance (r, r), of estimates with these values (r,)."""

    def __call__(self, covariance: Array, values: Array) -> float:
        """The logarithm of a standard error."""


def _relative(covariance: Array, values: Array) -> Array:
    size = np.where(values != 0.0, np.abs(values), 1.0)
    return covariance / np.outer(size, size)


def worst(covariance: Array, values: Array) -> float:
    """The largest relative standard error."""
    return float(0.5 * np.log(np.diag(_relative(covariance, values)).max()))


def nearly_worst(covariance: Array, values: Array) -> float:
    """The largest relative standard error by a mean of high power, which a search can follow."""
    logs = 0.5 * np.log(np.diag(_relative(covariance, values)))
    top = float(logs.max())
    return top + float(np.log(np.mean(np.exp(_POWER * (logs - top))))) / _POWER


def determinant(covariance: Array, values: Array) -> float:
    """D-optimality: the geometric mean of the half axes of the ellipsoid of confidence."""
    return float(0.5 * np.linalg.slogdet(_relative(covariance, values))[1] / len(values))


def average(covariance: Array, values: Array) -> float:
    """A-optimality: the root mean square of the relative standard errors."""
    return float(0.5 * np.log(np.trace(_relative(covariance, values)) / len(values)))


def longest(covariance: Array, values: Array) -> float:
    """E-optimality: the longest half axis."""
    return float(0.5 * np.log(np.linalg.eigvalsh(_relative(covariance, values))[-1]))


def along(slopes: Array) -> Criterion:
    """Criterion of a combination with these derivatives (r,): its standard error, not relative,
    whether or not other estimates are known."""
    used = np.flatnonzero(slopes)

    def of_combination(covariance: Array, values: Array) -> float:
        return float(0.5 * np.log(slopes[used] @ covariance[np.ix_(used, used)] @ slopes[used]))

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
            found = criterion(covariance, values)
        except np.linalg.LinAlgError:  # of eigenvalues of what is not known
            return UNKNOWN
    return min(found, UNKNOWN) if np.isfinite(found) else UNKNOWN
