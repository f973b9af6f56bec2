"""Deletion of samples: what estimates are without each of them, from pulls and the hat matrix.

Without a block b of residuals with slopes psi and their derivatives W, estimates change by
P_b' (I - W_b H_bb)^-1 psi_b, with the pulls P and the hat matrix H of all residuals, each of
weight 1 (Sherman, Morrison, Woodbury; Cook and Weisberg 1982, Residuals and Influence in
Regression, section 3.6). This is exact for least squares of a linear model, and otherwise one
Newton step without the second derivatives of the residuals that are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.statistics.bends import Bends

#: Determinant of I - W H below which a block decides something alone.
_ALONE = 1e-9
#: Degrees of freedom, and squares that are left, at least.
_LEAST = 1e-9
#: Nodes of Gauss-Hermite quadrature over a prediction.
_NODES = 40


class Rows(NamedTuple):
    """Residuals that leave with each sample, or lose weight: number of the sample, of the residual,
    the share of its weight that the sample has, and by how much the residual moves as the sample is
    interpolated instead; (m,) each, for n `samples`."""

    sample: NDArray[np.intp]
    row: NDArray[np.intp]
    share: Array
    moved: Array
    samples: int


class Deleted(NamedTuple):
    """Changes (n, r) of estimates if each of n samples is left out, NaN where it decides alone;
    their leverages (n,), and what the others predict of each: the residual there, and the variance
    of the prediction in units of that of samples, NaN for samples that are compared as means."""

    change: Array
    leverage: Array
    residual: Array
    spread: Array


def deleted(
    rows: Rows,
    residual: Array,
    bends: Bends,
    pull: Array,
    root: Array,
    hat: Callable[[NDArray[np.intp], NDArray[np.intp]], Array],
) -> Deleted:
    """Deletion of each of the samples, one by one. residual, bends, pull, hat : see `Pulls`.
    root : of the share that residuals have in the weight of a sample, (k,), zero of scores of log
    std."""
    order = np.argsort(rows.sample, kind="stable")
    counts = np.bincount(rows.sample, minlength=rows.samples)
    begins = np.cumsum(counts) - counts
    change = np.full((rows.samples, pull.shape[1]), np.nan)
    leverage, left, spread = np.full((3, rows.samples), np.nan)
    for size in np.unique(counts[counts > 0]):
        mine = np.flatnonzero(counts == size)
        places = order[begins[mine][:, None] + np.arange(size)]
        b, share, moved = rows.row[places], rows.share[places], rows.moved[places]
        pairs = np.broadcast_to(b[:, :, None], (len(mine), size, size))
        H = hat(pairs.ravel(), pairs.transpose(0, 2, 1).ravel()).reshape(pairs.shape)
        weight = bends.blocks(b) * share[:, :, None]
        without = np.eye(size) - weight @ H
        alone = ~(np.abs(np.linalg.det(without)) > _ALONE)
        without[alone] = np.eye(size)
        pushes = share * bends.slope[b] - (1.0 - share) * bends.bend[b] * moved
        forces = np.linalg.solve(without, pushes[:, :, None])
        found = np.einsum("gsr,gs->gr", pull[b], forces[:, :, 0])
        leverage[mine] = np.einsum("gst,gts->g", weight, H)
        r = root[b]
        total = (r**2).sum(axis=1)
        off = residual[b] + (H @ forces)[:, :, 0]
        widths = H @ np.linalg.inv(without)
        lost = alone | (share < 1.0).any(axis=1)
        change[mine] = np.where(alone[:, None], np.nan, found)
        left[mine] = np.where(lost, np.nan, (r * off).sum(axis=1) / total)
        wide = np.einsum("gs,gst,gt->g", r, widths, r) / total**2
        spread[mine] = np.where(lost, np.nan, wide)
    return Deleted(change, leverage, left, spread)


def cook_distances(change: Array, covariance: Array) -> Array:
    """Cook's distances (n,) of changes (n, r): change' C^-1 change/r, over the r estimates with a
    variance (Cook 1977, Technometrics 19, 15; of some of the estimates: Cook and Weisberg 1982,
    section 3.5)."""
    deviation = np.sqrt(np.diag(covariance))
    known = np.isfinite(deviation) & (deviation > 0.0)
    if not known.any():
        return np.full(len(change), np.nan)
    unit = deviation[known]
    shape = covariance[np.ix_(known, known)] / np.outer(unit, unit)
    steps = change[:, known] / unit
    inverse = np.linalg.pinv(shape, 1e-12, hermitian=True)
    return np.asarray(np.einsum("ij,jk,ik->i", steps, inverse, steps) / known.sum())


def log_densities(
    residual: Array, spread: Array, variance: float, freedom: float, loss: RobustLoss | None
) -> Array:
    """Log-densities (n,) of samples over their standard deviations as the others predict them: the
    density of noise, averaged over the prediction. NaN for a loss that is no likelihood.

    residual, spread : see `Deleted`. variance : of residuals; freedom : its degrees of freedom if
    it is the one of all and estimated, so that the others have another one, else infinite.
    """
    if loss is None:
        squares = residual**2 / variance / (1.0 + spread)
        if np.isinf(freedom):
            return np.asarray(-0.5 * (squares + np.log(2.0 * np.pi * (1.0 + spread))))
        left = max(freedom - 1.0, _LEAST)
        other = np.maximum(freedom - squares, _LEAST) / left
        student = RobustLoss("student", left)
        rho = student.root(np.sqrt(squares / other)) ** 2
        return np.asarray(student.log_height - 0.5 * (rho + np.log(other * (1.0 + spread))))
    if not loss.likelihood:
        return np.full(len(residual), np.nan)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    e = residual[:, None] + np.sqrt(np.maximum(variance * spread, 0.0))[:, None] * nodes
    density = np.exp(loss.log_height - 0.5 * loss.root(e) ** 2)
    return np.asarray(np.log(density @ (weights / weights.sum())))
