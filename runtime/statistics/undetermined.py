"""Undetermined directions of a solution: null space of a KKT matrix, by the proximal point method.

Along such a direction the matrix is singular up to rounding. Two things help. Scaled so that the
largest entry of each row is 1, the matrix does not depend on units, and small means small. With d
on the diagonal of the variables and -d on that of the constraints it has factors. Solutions by
them, refined with the matrix itself, converge if the sides are consistent, to a limit that does not
depend on d; otherwise the remaining residual is the part of the sides along the undetermined
directions (proximal point algorithm; Rockafellar 1976, Monotone operators and the proximal point
algorithm, SIAM Journal on Control and Optimization 14).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import ADDED, Kkt, KktFactors

#: Residual of a linear system up to which it counts as solved, as a share of its sides.
_LEFT = 1e-8
#: Error of a diagonal entry of the inverse that is tolerated, as a share of the entry.
_MISSING = 1e-6
#: Rounding of a sum of products, as a share of its terms.
_ROUNDING = 1e-13
#: Factor by which a curvature must exceed its uncertainty for its sign to be clear.
_CLEAR = 10.0
#: Columns of an inverse that are kept at once, at least.
_FEW = 8
#: Numbers in columns of an inverse that are kept at once, which bounds memory (8 MB each).
_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class Projected:
    """Solutions with a singular KKT matrix, if they exist: those without a part along undetermined
    directions."""

    kkt: Kkt

    def solve(self, variables: Array, constraints: Array) -> Array:
        """Solutions for sides (n, k) and (m, k): their first n entries, zero for fixed variables.
        Raises `ValueError` if there is none."""
        sides, scaled = np.vstack([variables, constraints]), self.kkt.scaled
        sides[self.kkt.gone] = 0.0
        for added in ADDED:
            b = scaled.scale[:, None] * sides
            x, left = scaled.solve(b, added)
            if (np.linalg.norm(left, axis=0) <= _LEFT * np.linalg.norm(b, axis=0)).all():
                return np.asarray((scaled.scale[:, None] * x)[: len(variables)])
        raise ValueError("the curvature at the solution is singular")

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """Entries of variables `wanted` in the inverse, (k, k), NaN for undetermined ones."""
        inverse, signs = spreads(self.kkt, wanted, np.zeros(len(self.kkt.stiffness)))
        unknown = ~(signs > 0.0)
        inverse[unknown] = inverse[:, unknown] = np.nan
        return inverse


def solver(kkt: Kkt) -> KktFactors | Projected:
    """Factors of a KKT matrix, or `Projected` if it is singular."""
    return Projected(kkt) if kkt.singular else kkt.factorised()


class Spreads(NamedTuple):
    """Entries of some variables in the inverse of a KKT matrix, (r, r), zero for fixed ones, and
    the signs of the curvature along them, (r,): 0 if a variable is undetermined (its entries mean
    nothing then), NaN if the sign is lost in rounding."""

    inverse: Array
    signs: Array


def spreads(kkt: Kkt, wanted: NDArray[np.intp], blur: Array) -> Spreads:
    """Spreads of the variables `wanted`, (r,): half their covariances, and signs of the curvature.

    With d, the direction in which one of them grows by 1 and all others follow freely, the
    curvature along it is the inverse of its entry. It counts as zero if it is no more than the
    rounding of its terms, or than the gradient, which an optimiser leaves near zero only, adds to
    it in other coordinates. blur : (n,), of the variables, that gradient over their sizes: with z =
    s exp(y) the curvature in y has the gradient times z, too.
    """
    count, fixed = len(wanted), kkt.gone[wanted]
    inverse, signs = np.zeros((count, count)), np.ones(count)
    free, width = np.flatnonzero(~fixed), max(_FEW, _AT_ONCE // kkt.order)
    for added in ADDED if kkt.singular else (0.0,):
        for begin in range(0, len(free), width):
            some = free[begin : begin + width]
            columns, signs[some] = _columns(kkt, wanted[some], blur, added)
            inverse[:, some] = columns[wanted]
        if not np.isnan(signs).any():
            break
    inverse[fixed] = inverse[:, fixed] = 0.0
    return Spreads(0.5 * (inverse + inverse.T), signs)


def _columns(kkt: Kkt, wanted: NDArray[np.intp], blur: Array, added: float) -> tuple[Array, Array]:
    """Columns of the inverse (n + m, k), and signs of the curvature along them (k,); added : number
    on the diagonal of a singular matrix."""
    scaled, own = kkt.scaled, (wanted, np.arange(len(wanted)))
    unit = np.zeros((kkt.order, len(wanted)))
    unit[own] = 1.0
    if not kkt.singular:
        columns = kkt.factorised().factors.solve(unit)
        return columns, _signs(kkt, columns, own, blur)
    d = scaled.scale[:, None]
    columns, left = scaled.solve(d * unit, added)
    missing = np.abs((columns * left).sum(axis=0)) > _MISSING * np.abs(columns[own])
    columns = d * columns
    signs = _signs(kkt, columns, own, blur)
    signs[missing & (signs != 0.0)] = np.nan
    return columns, signs


def _signs(kkt: Kkt, columns: Array, own: tuple[Any, Any], blur: Array) -> Array:
    """Signs of the curvature along columns (n, k) of an inverse, 0 if not clear; own : places of
    the diagonal entries in them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        d = columns / columns[own]
        return clear_signs(*kkt.forms(d), blur @ d[: len(blur)] ** 2)


def clear_signs(curvature: Array, sizes: Array, blur: Array) -> Array:
    """Signs of curvatures, 0 if not clear; sizes : of the terms of which they are sums.
    blur : upper limit of the gradient's contribution to them."""
    doubt = _ROUNDING * sizes + blur
    return np.where(np.abs(curvature) > _CLEAR * doubt, np.sign(curvature), 0.0)
