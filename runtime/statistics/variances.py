"""Variances of quantities at a solution, from entries of the inverse of its KKT matrix."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import ADDED, Kkt, KktFactors
from kinesym.runtime.statistics.quadratic import terms_of_squares

#: Relative change of a variance with the number on the diagonal up to which it is determined.
_SAME = 0.1
#: Share of the largest variance of a trajectory that counts as zero by rounding.
_ZERO = 1e-13
#: Share of the largest variance of a trajectory that counts as zero by the number added.
_NEARLY_ZERO = 1e-6
#: Share of its terms up to which a sum is rounding.
_CANCELLED = 1e-11
#: Numbers added to the diagonal (regularisation); the first pair with positive curvature is used.
#: Variances are taken with the first number, the second one shows which variances depend on it.
#: Smaller numbers have more rounding.
_PAIRS = ((0.0, ADDED[2]), (ADDED[0], ADDED[1]), (ADDED[1], ADDED[2]))


def variances(kkt: Kkt, slopes: Sequence[Any]) -> list[Array]:
    """Variances of quantities g(z) at a solution, whose derivatives are the rows of each of
    `slopes`, (k, n) sparse: the diagonal of 2 g_z Z g_z', where Z is the block of the variables in
    the inverse of the Karush-Kuhn-Tucker matrix, as for parameters; see
    `kinesym.runtime.statistics.covariance.parameter_confidence`.

    Each row may have variables of the same or of neighbouring nodes, and parameters. NaN for
    undetermined quantities: where the matrix is singular up to rounding, a small number on its
    diagonal changes the variance. Raises `ValueError` if the curvature is not positive.
    """
    width, wanted = len(kkt.stiffness), np.zeros(0, dtype=np.intp)
    for matrix in slopes:  # one after the other: outputs share most of their pairs
        wanted = np.union1d(wanted, terms_of_squares(matrix)[1])
    places = np.divmod(wanted, width)
    entries = [factors.entries(*places) for factors in _levels(kkt)]
    return [_settled(*_sums(matrix, wanted, entries)) for matrix in slopes]


class _Sum(NamedTuple):
    """The diagonal of 2 S Z S', (k,), and the sizes of its terms."""

    value: Array
    size: Array


def _sums(matrix: Any, wanted: NDArray[np.intp], entries: Sequence[Array]) -> list[_Sum]:
    """Diagonals of 2 S Z S' for several Z, given their entries at the places `wanted`."""
    rows, keys, weights = terms_of_squares(matrix)
    which, count = np.searchsorted(wanted, keys), matrix.shape[0]
    terms = [2.0 * weights * found[which] for found in entries]
    return [
        _Sum(
            np.bincount(rows, term, count).astype(np.float64),
            np.bincount(rows, np.abs(term), count).astype(np.float64),
        )
        for term in terms
    ]


@dataclass(frozen=True)
class _Scaled:
    """Factors of a scaled KKT matrix, D K D; scale : the diagonal of D."""

    factors: KktFactors
    scale: Array

    def entries(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """Entries (k,) of K^-1, in the units of the problem."""
        found = self.factors.inverse_entries(rows, columns)
        return found * self.scale[rows] * self.scale[columns]


def _levels(kkt: Kkt) -> tuple[_Scaled, _Scaled]:
    """Factors with two small numbers on the diagonal, the first of them zero if the matrix is
    regular. Raises `ValueError` if the curvature is not positive."""
    for pair in _PAIRS:
        first = _relaxed(kkt, pair[0])
        second = _relaxed(kkt, pair[1]) if first else None
        if first and second:
            return first, second
    raise ValueError("the curvature at the solution is not positive: this is no minimum")


def _relaxed(kkt: Kkt, added: float) -> _Scaled | None:
    """Factors of the scaled matrix with `added` on its diagonal, None if it is singular or not
    positive. Scaling gives more digits in the entries of the inverse."""
    if added == 0.0 and kkt.singular:
        return None
    n = len(kkt.stiffness)
    with suppress(ValueError):
        factors = KktFactors(n, kkt.gone, kkt.scaled.relaxed(added))
        return _Scaled(factors, kkt.scaled.scale[:n]) if factors.positive else None
    return None


def _settled(first: _Sum, second: _Sum) -> Array:
    """Variances of a trajectory where both agree, NaN elsewhere."""
    value, size = first.value, first.size
    larger = np.maximum(np.abs(value), np.abs(second.value))
    same = np.abs(value - second.value) <= _SAME * np.abs(value)
    most = np.max(value, where=same, initial=0.0)
    zero = (~same | (np.abs(value) <= _ZERO * most)) & (larger <= _NEARLY_ZERO * most)
    # determined terms may cancel, as in a force that is zero by the equations
    known = np.abs(size - second.size) <= _SAME * size
    zero |= known & (np.abs(value) <= _CANCELLED * size) & (larger <= _NEARLY_ZERO * size)
    return np.where(zero, 0.0, np.where(same & (value > 0.0), value, np.nan))
