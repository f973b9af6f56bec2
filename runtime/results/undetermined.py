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

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from kinesym.runtime.arrays import Array

if TYPE_CHECKING:
    from kinesym.runtime.results.statistics import Kkt, KktFactors

#: What is added to the diagonal of the scaled matrix, the largest first.
_ADDED = (1e-9, 1e-11, 1e-13)
#: How many times more of it parameters get, the first that works.
_MORE = (1.0, 1e3, 1e6)
#: Sweeps of scaling, refinements at most; shares of sides that may be left, and of what is asked
#: for that may be missing.
_SWEEPS, _REFINEMENTS, _LEFT, _MISSING = 8, 12, 1e-8, 1e-6
#: Share of rounding in a sum of products, and how many times more than doubt a curvature must be.
_ROUNDING, _CLEAR = 1e-13, 10.0
#: A direction is null if the scaled matrix makes less of it; entries that are larger belong to it.
_NULL, _PART = 1e-9, 1e-6


@dataclass(frozen=True, eq=False)
class Scaled:
    """A KKT matrix in which the largest entries of all rows are 1: D K D."""

    kkt: Kkt

    @cached_property
    def _full(self) -> Any:
        rows, columns, values = self.kkt.lower()
        n, off = self.kkt.order, rows != columns
        entries = np.concatenate([values, values[off]])
        places = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        return coo_array((entries, places), shape=(n, n)).tocsr()

    @cached_property
    def scale(self) -> Array:
        """The diagonal of D, by sweeps over the rows (Ruiz 2001, RAL-TR-2001-034)."""
        full, scale = self._full, np.ones(self.kkt.order)
        sizes, columns, begins = np.abs(full.data), full.indices, full.indptr[:-1]
        for _ in range(_SWEEPS):  # no row is empty: the diagonal is stored
            most = np.maximum.reduceat(sizes * scale[columns], begins) * scale
            scale /= np.sqrt(np.where(most > 0.0, most, 1.0))
        return scale

    def product(self, x: Array) -> Array:
        """D K D x, (n,) or (n, k)."""
        d = self.scale if x.ndim == 1 else self.scale[:, None]
        return np.asarray(d * (self._full @ (d * x)))

    def plain_product(self, x: Array) -> Array:
        """K x."""
        return np.asarray(self._full @ x)

    def sizes(self, x: Array) -> Array:
        """|x|' |K| |x| of each column of x (n, k)."""
        return np.asarray((np.abs(x) * (abs(self._full) @ np.abs(x))).sum(axis=0))

    def solve(self, b: Array, added: float) -> tuple[Array, Array]:
        """x for sides b (n, k) of D K D x = b, refined for as long as that helps, and what is left
        of b; see above."""
        factors = self._first if added == _ADDED[0] else self._relaxed(added)
        x, left = np.zeros_like(b), b
        for _ in range(_REFINEMENTS):
            x = x + factors.solve(left)
            before, left = np.linalg.norm(left, axis=0), b - self.product(x)
            if not (np.linalg.norm(left, axis=0) < 0.5 * before).any():
                break
        return x, left

    def null(self) -> NDArray[np.bool_]:
        """Which unknowns and constraints (n,) a direction moves along which nothing changes.

        By inverse iteration from a random start, which has a part of every such direction.
        """
        nothing = np.zeros(self.kkt.order, dtype=bool)
        try:
            factors = self._first
        except ValueError:
            return nothing
        v = np.random.default_rng(0).standard_normal(self.kkt.order)
        v[self.kkt.gone] = 0.0
        for _ in range(3):
            v = factors.solve((v / np.linalg.norm(v))[:, None])[:, 0]
        v /= np.abs(v).max()
        return nothing if np.abs(self.product(v)).max() > _NULL else np.abs(v) > _PART

    @cached_property
    def _first(self) -> Any:
        return self._relaxed(_ADDED[0])

    def _relaxed(self, added: float) -> Any:
        """Factors with this on the diagonal, more for parameters, about which the stages tell so
        much that it is lost in rounding otherwise. Raises `ValueError` if it still is."""
        for more in _MORE[:-1]:
            with suppress(ValueError):
                return self.kkt.relaxed(self.scale, added, more)
        return self.kkt.relaxed(self.scale, added, _MORE[-1])


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
        for added in _ADDED:
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
    scaled, own = kkt.scaled, (wanted, np.arange(len(wanted)))
    unit, fixed = np.zeros((kkt.order, len(wanted))), kkt.gone[wanted]
    unit[own] = 1.0
    columns, signs = np.zeros_like(unit), np.zeros(len(wanted))
    if len(wanted) and not kkt.singular:
        columns = kkt.factorised().factors.solve(unit)
        signs = _signs(scaled, columns, own, blur)
    for added in _ADDED if len(wanted) and kkt.singular else ():
        d = scaled.scale[:, None]
        columns, left = scaled.solve(d * unit, added)
        missing = np.abs((columns * left).sum(axis=0)) > _MISSING * np.abs(columns[own])
        columns = d * columns
        signs = _signs(scaled, columns, own, blur)
        signs[missing & (signs != 0.0)] = np.nan
        if not np.isnan(signs).any():
            break
    inverse = columns[wanted]
    inverse[fixed] = inverse[:, fixed] = 0.0
    return Spreads(0.5 * (inverse + inverse.T), np.where(fixed, 1.0, signs))


def _signs(scaled: Scaled, columns: Array, own: tuple[Any, Any], blur: Array) -> Array:
    """Of the curvature along columns (n, k) of an inverse, 0 where it is not clear; own : where
    they are on its diagonal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        d = columns / columns[own]
        curvature = np.sum(d * scaled.plain_product(d), axis=0)
        doubt = _ROUNDING * scaled.sizes(d) + blur @ d[: len(blur)] ** 2
        return np.where(np.abs(curvature) > _CLEAR * doubt, np.sign(curvature), 0.0)
