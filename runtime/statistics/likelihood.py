"""Marginal likelihood of a record, with all trajectories integrated out (Laplace approximation)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import Workspace
from kinesym.runtime.statistics.factors import STRICT
from kinesym.runtime.statistics.kkt import Kkt, KktFactors

_UNTOLD = (
    "the samples do not tell the states at the start, or an unknown input without a prior, "
    "even without noise: hold these by boundary=[ks.at_start(x), ...], or measure them"
)


@dataclass(frozen=True, eq=False)
class Part:
    """Principal submatrix of a KKT matrix, without fixed variables and left-out constraints.

    matrix : of what is left. kept : numbers of its variables and constraints among all, (k,).
    entries : numbers of its entries among those of the Hessian, and of the Jacobian. places : their
    rows and columns, and how often they stand in the matrix. sizes : order of the whole matrix, and
    how many entries Hessian and Jacobian have.
    """

    matrix: Kkt
    kept: NDArray[np.intp]
    entries: tuple[NDArray[np.intp], NDArray[np.intp]]
    places: tuple[NDArray[Any], NDArray[Any], Array]
    sizes: tuple[int, int, int]

    @staticmethod
    def of(kkt: Kkt) -> Part:
        """The part of a matrix."""
        n, gone = len(kkt.stiffness), kkt.gone
        (i, j, h), (row, column, a) = kkt.hessian, kkt.jacobian
        kept, number = np.flatnonzero(~gone), np.cumsum(~gone, dtype=np.int32) - 1
        variables = kept[kept < n]
        of_h = np.flatnonzero(~(gone[i] | gone[j]))
        of_a = np.flatnonzero(~(gone[row + n] | gone[column]))
        i, j, row, column = (
            number[i[of_h]],
            number[j[of_h]],
            number[row[of_a] + n],
            number[column[of_a]],
        )
        rows, columns = np.append(i, row), np.append(j, column)
        matrix = replace(
            kkt,
            hessian=(i, j, h[of_h]),
            jacobian=(row - len(variables), column, a[of_a]),
            stiffness=kkt.stiffness[variables],
            softness=kkt.softness[kept[len(variables) :] - n],
            stages=None if kkt.stages is None else kkt.stages[variables],
            sizes=None if kkt.sizes is None else kkt.sizes[variables],
            workspace=Workspace(),
            quality=STRICT,
        )
        places = rows, columns, np.where(rows == columns, 1.0, 2.0)
        return Part(matrix, kept, (of_h, of_a), places, (kkt.order, len(h), len(a)))

    def at(self, hessian: Array, jacobian: Array) -> Part:
        """The same part of a matrix with other entries, which is analysed no more; itself, with its
        factors, if its entries are the same."""
        kkt = self.matrix
        (i, j, before), (row, column, slopes) = kkt.hessian, kkt.jacobian
        h, a = hessian[self.entries[0]], jacobian[self.entries[1]]
        if np.array_equal(h, before) and np.array_equal(a, slopes):
            return self
        matrix = replace(kkt, hessian=(i, j, h), jacobian=(row, column, a))
        return replace(self, matrix=matrix)

    def is_of(self, stiffness: Array, softness: Array) -> bool:
        """Whether this is the part of the matrix with these diagonals, see `Kkt`, and no bound and
        no inequality is near."""
        kept = np.zeros(self.sizes[0], dtype=bool)
        kept[self.kept] = True
        n = len(stiffness)
        near = stiffness[kept[:n]] > 0.0, np.isfinite(softness[~kept[n:]])
        return not any(each.any() for each in near)

    @property
    def freedoms(self) -> int:
        """Number of variables less that of constraints."""
        return len(self.matrix.stiffness) - len(self.matrix.softness)

    def solve(self, sides: Array) -> Array:
        """Solutions for sides (n + m, k), zero for what is gone."""
        found = np.zeros_like(sides)
        if sides.shape[1]:
            found[self.kept] = self.matrix.factorised().factors.solve(sides[self.kept])
        return found

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """Entries of the inverse for variables that are left, (k, k)."""
        return self.matrix.factorised().inverse(np.searchsorted(self.kept, wanted))

    def log_determinant_slopes(self) -> tuple[Array, Array]:
        """Derivatives of log |det| by the entries of the Hessian and of the Jacobian, from those of
        the inverse; zero for entries that are gone."""
        rows, columns, times = self.places
        slopes = times * self.matrix.factorised().inverse_entries(rows, columns)
        (of_h, of_a), (_, *sizes) = self.entries, self.sizes
        found = tuple(map(np.zeros, sizes))
        found[0][of_h], found[1][of_a] = slopes[: len(of_h)], slopes[len(of_h) :]
        return found[0], found[1]


@dataclass(frozen=True, eq=False)
class LogVolume:
    """Laplace approximation: log of the integral of exp(-(J - J*) / 2) over all free directions,
    from the curvature at a solution (exact if J is quadratic and the constraints are linear).

    whole : of the KKT matrix, without what is not integrated over. alone : of that of some samples
    alone, in which the noise is fixed; see `log_volume`.
    """

    whole: Part
    alone: Part

    def at(self, hessian: Array, jacobian: Array, seen: Array) -> LogVolume:
        """The volume with other entries of the matrices."""
        return LogVolume(self.whole.at(hessian, jacobian), self.alone.at(seen, jacobian))

    @cached_property
    def value(self) -> float:
        """The logarithm. Raises `ValueError` if the samples do not determine the variables with a
        diffuse prior, and if the curvature is not positive."""
        part, whole = self._of_samples, self.whole.matrix.factorised()
        if not whole.positive:
            raise ValueError("the curvature at the solution is not positive: this is no minimum")
        constants = self.whole.freedoms * np.log(4.0 * np.pi) - self.alone.freedoms * np.log(2.0)
        return float(0.5 * (constants - whole.log_determinant + part.log_determinant))

    def slopes(self) -> tuple[Array, Array, Array]:
        """Derivatives of the value by the entries of the Hessian, of the Jacobian, and of the
        Hessian of the samples alone."""
        (of_h, of_a), (of_seen, again) = (
            part.log_determinant_slopes() for part in (self.whole, self.alone)
        )
        return -0.5 * of_h, 0.5 * (again - of_a), 0.5 * of_seen

    @property
    def _of_samples(self) -> KktFactors:
        try:
            found = self.alone.matrix.factorised()
        except ValueError as error:
            raise ValueError(_UNTOLD) from error
        if not found.positive:
            raise ValueError(_UNTOLD)
        return found


def log_volume(
    kkt: Kkt, fixed: NDArray[np.intp], drawn: NDArray[np.intp], seen: Array
) -> LogVolume:
    """Laplace approximation at a solution.

    fixed : variables that are not integrated over, parameters. drawn : variables with a prior in J,
    the noise. seen : entries of the Hessian of J from the samples alone, which determine all else.

    All other variables, such as states at the start, have a diffuse prior, whose unit of volume
    moves the samples by one standard deviation (Francke, Koopman, de Vos 2010, J. Time Series
    Analysis 31, 407-414: marginal likelihood). In units of the variables the volume would depend on
    the parameters and on the coordinates of the model, without limit if samples do not determine
    some combination of states.

    With constraints C, the KKT matrix K, and derivatives C_d with respect to as many variables as
    there are constraints, |det K| = det(C_d)^2 det(R), where R is the Hessian of J in the others:
    det(C_d) cancels between K and the matrix of the samples alone.

    Raises `ValueError` if a bound or an inequality is active, where J is no parabola.
    """
    kkt = _without(kkt, fixed)
    if _holds(kkt.stiffness) or _holds(kkt.softness):
        raise ValueError(
            "a bound or an inequality holds at the solution: what it cuts off cannot be integrated "
            "by the curvature there; leave it out"
        )
    rows, columns, _ = kkt.hessian
    alone = _without(replace(kkt, hessian=(rows, columns, seen)), drawn)
    return LogVolume(Part.of(kkt), Part.of(alone))


def _without(kkt: Kkt, gone: NDArray[np.intp]) -> Kkt:
    """KKT matrix with these variables fixed, too."""
    stiffness = kkt.stiffness.copy()
    stiffness[gone] = np.inf
    return replace(kkt, stiffness=stiffness)


def _holds(diagonal: Array) -> bool:
    return bool((np.isfinite(diagonal) & (diagonal > 0.0)).any())
