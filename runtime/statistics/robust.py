"""The covariance of estimates by a loss that is no likelihood."""

from __future__ import annotations

import numpy as np

from kinesym.runtime.arrays import Array


def spread_by_loss(pulls: Array, taken: float) -> Array:
    """A^-1 B A^-1 k/(k - n), (r, r), with A = sum psi' x x' the curvature, B = sum psi^2 x x' and x
    the derivatives of k residuals (Huber, Ronchetti 2009, Robust Statistics, section 7.6).

    pulls : psi x' A^-1 of each residual, (k, r); of what is known beforehand, which counts as
    observed with variance 1, x' A^-1. taken : n, how many of their degrees of freedom unknowns
    take; without that factor if these are all.
    """
    k = len(pulls)
    more = k / (k - taken) if k > taken else 1.0
    return np.asarray(more * (pulls.T @ pulls))
