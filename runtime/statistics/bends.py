"""Bends of -2 log L by residuals: slopes and second derivatives of the terms of a likelihood.

A sample whose standard deviation s follows from the unknowns has two rows, the scores of its mean
and of log s (see `kinesym.runtime.shooting.scores`), and its second derivatives by these are a
block: with psi, the slope of the loss, in terms of d mean/s and d log s they are psi',
-(psi + e psi') and e (psi + e psi').
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss, roots_of_information
from kinesym.runtime.nlp.samples import Samples


@dataclass(frozen=True, eq=False)
class Bends:
    """Slopes (k,) of half of -2 log L by residuals, and its second derivatives W: those of each by
    itself (k,), and between the two rows of a sample; partner : the other row, -1 if there is none;
    twist : between both, (k,)."""

    slope: Array
    bend: Array
    partner: NDArray[np.intp]
    twist: Array

    @staticmethod
    def of(samples: Samples, residual: Array, loss: RobustLoss | None) -> Bends:
        """Bends of residuals, of which scores are slopes themselves; loss : None for squares."""
        root, (off, log) = np.sqrt(samples.share), samples.pairs
        slope, bend, twist = residual.copy(), np.ones_like(residual), np.zeros_like(residual)
        if loss is not None:
            slope, bend = loss.slope(residual / root) * root, loss.bend(residual / root)
        partner = np.full(len(residual), -1, dtype=np.intp)
        partner[off], partner[log] = log, off
        a, b = roots_of_information(loss)
        slope[off], slope[log] = residual[off], residual[log]
        psi = a * residual[off]
        e = np.divide(1.0 - b * residual[log], psi, out=np.zeros_like(psi), where=psi != 0.0)
        pace = np.ones_like(e) if loss is None else loss.bend(e)
        turn = psi + e * pace
        bend[off], bend[log] = pace / a**2, e * turn / b**2
        twist[off] = twist[log] = -turn / (a * b)
        if loss is not None and loss.kinked:  # what is expected
            bend[:], twist[:] = 1.0, 0.0
        return Bends(slope, bend, partner, twist)

    def times(self, x: Array) -> Array:
        """W x of columns (k, n)."""
        paired = np.where(self.partner[:, None] >= 0, x[self.partner], 0.0)
        return np.asarray(self.bend[:, None] * x + self.twist[:, None] * paired)

    def blocks(self, rows: NDArray[np.intp]) -> Array:
        """W of some rows (g, s), (g, s, s)."""
        own = np.eye(rows.shape[1]) * self.bend[rows][:, :, None]
        paired = self.partner[rows][:, :, None] == rows[:, None, :]
        return np.asarray(own + paired * self.twist[rows][:, :, None])
