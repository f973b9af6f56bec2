"""Scores of samples whose standard deviation follows from the unknowns, too: what stands for
residuals in a likelihood that is no sum of squares.

A sample has the two terms e^2 + 2 log s, e = (modelled - measured)/s. The derivatives of the mean
and of log s have the independent scores e and (1 - e^2)/sqrt(2), of variance 1: score times slope
is half the gradient, slope times slope half the curvature that is expected (Fisher's information).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, eye_array

from kinesym.runtime.arrays import Array


@dataclass(frozen=True, eq=False)
class Scores:
    """Pairs of rows, e and sqrt(2) log s of each sample, times the root of a factor.

    off, log : numbers of the rows, (k,) each; there : which samples are not missing."""

    off: NDArray[np.intp]
    log: NDArray[np.intp]
    there: NDArray[np.bool_]
    root: float

    def values(self, rows: Array) -> Array:
        """Rows (n,) with scores in place of logarithms."""
        found = rows.copy()
        score = self.root * np.sqrt(0.5) * (1.0 - (rows[self.off] / self.root) ** 2)
        found[self.log] = np.where(self.there, score, 0.0)
        return found

    def slopes(self, rows: Array, slopes: csr_array) -> csr_array:
        """Their slopes, from the derivatives (n, m) of the rows: those of e without those of s."""
        n, e = len(rows), rows[self.off] / self.root
        without = coo_array((np.sqrt(0.5) * e, (self.off, self.log)), shape=(n, n))
        return csr_array((eye_array(n) + without) @ slopes)
