"""What a solution leaves open: directions along which nothing changes, in a KKT matrix.

Along such a direction the matrix is singular up to rounding. Two things help. Scaled so that the
largest entry of each row is 1, the matrix does not depend on units, and small means small. And with
d on the diagonal of the variables and -d on that of the constraints it has factors; solutions by
them, refined with the matrix as it is, converge wherever the sides are consistent, to what does not
depend on d, and what is left of the sides otherwise is their part along the directions that nothing
determines (proximal point algorithm; Rockafellar 1976, Monotone operators and the proximal point
algorithm, SIAM Journal on Control and Optimization 14).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import ADDED, Kkt, KktFactors, Scaled

#: Shares of sides that may be left, and of what is asked for that may be missing.
_LEFT, _MISSING = 1e-8, 1e-6
#: Share of rounding in a sum of products, and how many times more than doubt a curvature must be.
_ROUNDING, _CLEAR = 1e-13, 10.0
#: Columns of an inverse that are kept at once.
_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class Projected:
    """Solutions with a singular KKT matrix, where there are any: none of their parts is along a
    direction that nothing determines."""

    kkt: Kkt

    def solve(self, variables: Array, constraints: Array) -> Array:
        """The first n entries of solutions for sides (n, k) and (m, k), zero for what is fixed.
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
        """The entries of variables `wanted` in the inverse, NaN for what nothing determines."""
        inverse, signs = spreads(self.kkt, wanted, np.zeros(len(self.kkt.stiffness)))
        unknown = ~(signs > 0.0)
        inverse[unknown] = inverse[:, unknown] = np.nan
        return inverse


def solver(kkt: Kkt) -> KktFactors | Projected:
    """Factors of a matrix, or what stands for these if it is singular."""
    return Projected(kkt) if kkt.singular else kkt.factorised()


class Spreads(NamedTuple):
    """The entries of some variables in the inverse of a KKT matrix, (r, r), zero for what is fixed;
    and the signs of the curvature along them, (r,): 0 if nothing determines one, whose entries mean
    nothing then, NaN if it is lost in rounding."""

    inverse: Array
    signs: Array


def spreads(kkt: Kkt, wanted: NDArray[np.intp], blur: Array) -> Spreads:
    """Of variables `wanted`.

    With d, the direction in which one of them grows by 1 and all others follow as they like, the
    curvature along it is the inverse of its entry. If that is no more than what rounding makes of
    its terms, or than what the gradient, which an optimiser leaves near zero only, adds to it in
    other coordinates, it counts as zero. blur : (n,), of the variables, that gradient over their
    sizes: with z = s exp(y) the curvature in y has the gradient times z, too.
    """
    count, fixed = len(wanted), kkt.gone[wanted]
    inverse, signs = np.zeros((count, count)), np.zeros(count)
    for added in ADDED if kkt.singular else (0.0,):
        for begin in range(0, count, _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            columns, signs[some] = _columns(kkt, wanted[some], blur, added)
            inverse[:, some] = columns[wanted]
        if not np.isnan(signs).any():
            break
    inverse[fixed] = inverse[:, fixed] = 0.0
    return Spreads(0.5 * (inverse + inverse.T), np.where(fixed, 1.0, signs))


def _columns(kkt: Kkt, wanted: NDArray[np.intp], blur: Array, added: float) -> tuple[Array, Array]:
    """Columns of the inverse (n + m, k), and signs of the curvature along them (k,), before those
    of what is fixed; added : to the diagonal of a matrix that is singular."""
    scaled, own = kkt.scaled, (wanted, np.arange(len(wanted)))
    unit = np.zeros((kkt.order, len(wanted)))
    unit[own] = 1.0
    if not kkt.singular:
        columns = kkt.factorised().factors.solve(unit)
        return columns, _signs(scaled, columns, own, blur)
    d = scaled.scale[:, None]
    columns, left = scaled.solve(d * unit, added)
    missing = np.abs((columns * left).sum(axis=0)) > _MISSING * np.abs(columns[own])
    columns = d * columns
    signs = _signs(scaled, columns, own, blur)
    signs[missing & (signs != 0.0)] = np.nan
    return columns, signs


def _signs(scaled: Scaled, columns: Array, own: tuple[Any, Any], blur: Array) -> Array:
    """Of the curvature along columns (n, k) of an inverse, 0 where it is not clear; own : where
    they are on its diagonal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        d = columns / columns[own]
        curvature = np.sum(d * (scaled.plain @ d), axis=0)
        return clear_signs(curvature, scaled.absolute(d), blur @ d[: len(blur)] ** 2)


def clear_signs(curvature: Array, sizes: Array, blur: Array) -> Array:
    """Signs of curvatures, 0 where they are not clear; sizes : of the terms of which they are sums.
    blur : what the gradient may add to them."""
    doubt = _ROUNDING * sizes + blur
    return np.where(np.abs(curvature) > _CLEAR * doubt, np.sign(curvature), 0.0)
