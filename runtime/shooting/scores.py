"""Scores of samples whose likelihood is no sum of squares, in place of residuals: score times slope
is half the gradient of -2 log L, slope times slope half its curvature that is expected (Fisher's
information).

Where the standard deviation s follows from the unknowns, a sample has the two terms rho(e) + 2 log
s, e = (modelled - measured)/s, with rho = e^2 of normal errors. With psi = rho'/2 the derivatives
of the mean and of log s have the scores psi/a and (1 - e psi)/b, of variance 1, which do not
covary; a^2 and b^2 are the information on both, 1 and 2 of normal errors. A censored sample has
-2 log Phi(u), u = e or -e, and with the hazard h = phi(u)/Phi(u) the score -h/sqrt(h (u + h)),
whose slope is that of u times the root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_ndtr

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss, roots_of_information

#: Added to the root of a curvature, so that a score over it is zero where both are.
_LEAST = 1e-150


@dataclass(frozen=True, eq=False)
class Scores:
    """Rows of residuals, times the root of a factor, as `residual_problem` has them.

    off, log : numbers of the rows e and sqrt(2) log s, in pairs (k,); limits : of the rows u.
    there : which rows of samples (m,) are not missing.
    loss : of residuals, None for squares."""

    off: NDArray[np.intp]
    log: NDArray[np.intp]
    limits: NDArray[np.intp]
    there: NDArray[np.bool_]
    root: float
    loss: RobustLoss | None = None

    def values(self, rows: Array) -> Array:
        """Rows (n,) with scores in place of logarithms, and of limits."""
        found = rows.copy()
        hazard, root = self._hazard(rows)
        found[self.limits] = -self.root * hazard / (root + _LEAST)
        a, b = roots_of_information(self.loss)
        e = rows[self.off] / self.root
        psi = e if self.loss is None else self.loss.slope(e)
        found[self.off] = self.root * psi / a
        found[self.log] = self.root * (1.0 - e * psi) / b
        for which in (self.limits, self.log):
            found[which[~self.there[which]]] = 0.0
        return found

    def slopes(self, rows: Array, slopes: csr_array) -> csr_array:
        """Their slopes, from the derivatives (n, m) of the rows: those of e without those of s."""
        n = len(rows)
        return csr_array(csr_array((self.shares(rows), self.pairs(n)), shape=(n, n)) @ slopes)

    def pairs(self, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Numbers of scores, of n rows, and of rows whose slopes are in theirs."""
        every = np.arange(n)
        return np.append(every, self.off), np.append(every, self.log)

    def shares(self, rows: Array) -> Array:
        """Shares of the slopes of rows in those of the scores, of these pairs."""
        e, a = rows[self.off] / self.root, roots_of_information(self.loss)[0]
        return np.append(self._paces(rows), a * np.sqrt(0.5) * e)

    def change(self, before: Array, now: Array) -> Array:
        """Change of the rows, to first order by these slopes: of e with the s of before."""
        found = now - before
        grown = np.exp(found[self.log] / (np.sqrt(2.0) * self.root))
        found[self.off] = now[self.off] * grown - before[self.off]
        return self._paces(before) * found

    def _paces(self, rows: Array) -> Array:
        """Slopes of scores by rows, with e of constant s."""
        paces, (a, b) = np.ones(len(rows)), roots_of_information(self.loss)
        paces[self.limits] = self._hazard(rows)[1]
        paces[self.off], paces[self.log] = a, b / np.sqrt(2.0)
        return paces

    def _hazard(self, rows: Array) -> tuple[Array, Array]:
        """h of censored samples, and sqrt(h (u + h))."""
        u = rows[self.limits] / self.root
        hazard = np.exp(-0.5 * u**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(u))
        return hazard, np.sqrt(hazard * np.maximum(u + hazard, 0.0))
