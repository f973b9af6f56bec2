"""Scores of samples whose likelihood is no sum of squares, in place of residuals: score times slope
is half the gradient of -2 log L, slope times slope half its curvature that is expected (Fisher's
information).

Where the standard deviation s follows from the unknowns, a sample has the two terms e^2 + 2 log s,
e = (modelled - measured)/s. The derivatives of the mean and of log s have the independent scores e
and (1 - e^2)/sqrt(2), of variance 1. A censored sample has -2 log Phi(u), u = e or -e, and with the
hazard h = phi(u)/Phi(u) the score -h/sqrt(h (u + h)), whose slope is that of u times the root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.special import log_ndtr

from kinesym.runtime.arrays import Array

#: Added to the root of a curvature, so that a score over it is zero where both are.
_LEAST = 1e-150


@dataclass(frozen=True, eq=False)
class Scores:
    """Rows of residuals, times the root of a factor, as `residual_problem` has them.

    off, log : numbers of the rows e and sqrt(2) log s, in pairs (k,); limits : of the rows u.
    there : which rows of samples (m,) are not missing."""

    off: NDArray[np.intp]
    log: NDArray[np.intp]
    limits: NDArray[np.intp]
    there: NDArray[np.bool_]
    root: float

    def values(self, rows: Array) -> Array:
        """Rows (n,) with scores in place of logarithms, and of limits."""
        found = rows.copy()
        hazard, root = self._hazard(rows)
        found[self.limits] = -self.root * hazard / (root + _LEAST)
        found[self.log] = self.root * np.sqrt(0.5) * (1.0 - (rows[self.off] / self.root) ** 2)
        for which in (self.limits, self.log):
            found[which[~self.there[which]]] = 0.0
        return found

    def slopes(self, rows: Array, slopes: csr_array) -> csr_array:
        """Their slopes, from the derivatives (n, m) of the rows: those of e without those of s."""
        n, e, paces = len(rows), rows[self.off] / self.root, np.ones(len(rows))
        paces[self.limits] = self._hazard(rows)[1]
        without = coo_array((np.sqrt(0.5) * e, (self.off, self.log)), shape=(n, n))
        return csr_array((diags_array(paces) + without) @ slopes)

    def _hazard(self, rows: Array) -> tuple[Array, Array]:
        """h of censored samples, and sqrt(h (u + h))."""
        u = rows[self.limits] / self.root
        hazard = np.exp(-0.5 * u**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(u))
        return hazard, np.sqrt(hazard * np.maximum(u + hazard, 0.0))
