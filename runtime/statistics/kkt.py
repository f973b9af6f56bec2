"""Karush-Kuhn-Tucker matrix at a solution: its factors, its inverse, and its scaled form."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import (
    BORDER,
    UNKNOWN,
    Workspace,
    equilibrated,
    forms,
    largest_in_rows,
)
from kinesym.runtime.statistics.factors import (
    FULL,
    PLAIN,
    WIDE,
    Border,
    Bordered,
    Borders,
    Entries,
    General,
    InTime,
    border_of,
    factors,
)

#: Regularisation: numbers added to the diagonal of the scaled matrix, the largest first; see
#: `kinesym.runtime.statistics.undetermined`.
ADDED = (1e-9, 1e-11, 1e-13)
#: Factors of the regularisation for parameters; the first that leaves a regular matrix is used.
_MORE = (1.0, 1e3, 1e6)
#: Sweeps of scaling; few more change little.
_SWEEPS = 8
#: Refinements of a solution at most.
_REFINEMENTS = 12
#: Share of a direction that the scaled matrix may make of it for it to be null.
_NULL = 1e-9
#: Share of the largest entry of a null direction from which an entry belongs to it.
_PART = 1e-6
#: Growth of a random side to its solution up to which the matrix is regular.
_GROWTH = 1e12
#: Share of a direction that the scaled matrix makes of it by rounding alone, at most.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Kkt:
    """Karush-Kuhn-Tucker matrix [[H + S, A'], [A, -D]] of n variables and m constraints.

    hessian : rows, columns and values of H, lower triangle. jacobian : rows, columns and values of
    A. stiffness, softness : the diagonals of S (n,) and D (m,); infinity fixes a variable, or
    leaves a constraint out. stages : of the variables, see `kkt.h`. sizes : of the variables, (n,),
    in their units, 0 if they are not known.

    fitted : whether it is the matrix of a fit, which counts as singular if its factors exist by
    rounding alone; that of an optimal motion with inputs at their bounds may come as near.
    workspace, borders : that matrices with other bounds share, which all have one pattern. like :
    one with other bounds, in whose sizes of unknowns null directions are measured; None for its
    own. quality : of the pivots of the first factors.
    """

    hessian: Entries
    jacobian: Entries
    stiffness: Array
    softness: Array
    stages: NDArray[np.int32] | None = None
    sizes: Array | None = None
    fitted: bool = False
    workspace: Workspace = field(default_factory=Workspace)
    borders: Borders = field(default_factory=Borders)
    like: Kkt | None = None
    quality: tuple[float, float] = PLAIN

    @property
    def order(self) -> int:
        """Order of the matrix, n + m."""
        return len(self.stiffness) + len(self.softness)

    @cached_property
    def gone(self) -> NDArray[np.bool_]:
        """Variables and constraints, (n + m,) booleans, that are fixed or left out."""
        return np.isinf(np.concatenate([self.stiffness, self.softness]))

    @cached_property
    def lower(self) -> Entries:
        """Entries of the lower triangle, in IPOPT's order: those of H, the diagonal in S, those of
        A, the diagonal in D. Rows of fixed variables and left-out constraints have only 1 on the
        diagonal."""
        n, gone = len(self.stiffness), self.gone
        every = np.arange(self.order, dtype=np.int32)
        diagonal = np.concatenate([self.stiffness, -self.softness])
        (i, j, h), (row, column, a) = self.hessian, self.jacobian
        if gone.any():
            diagonal[gone] = 1.0
            h, a = (
                np.where(gone[i] | gone[j], 0.0, h),
                np.where(gone[row + n] | gone[column], 0.0, a),
            )
        rows = np.concatenate(
            [i, every[:n], row + n, every[n:]], dtype=np.int32, casting="same_kind"
        )
        columns = np.concatenate(
            [j, every[:n], column, every[n:]], dtype=np.int32, casting="same_kind"
        )
        return rows, columns, np.concatenate([h, diagonal[:n], a, diagonal[n:]])

    def once(self) -> Entries:
        """Entries of `lower` with those of the diagonal of H added to that of S."""
        rows, columns, values = self.lower
        values = values.copy()
        count, n = len(self.hessian[2]), len(self.stiffness)
        on = np.flatnonzero(rows[:count] == columns[:count])
        values[count : count + n] += np.bincount(rows[on], values[on], n)
        values[on] = 0.0
        return rows, columns, values

    def forms(self, x: Array) -> tuple[Array, Array]:
        """Quadratic forms x' K x of the columns of x (n + m, k), and |x|' |K| |x|, the sizes of
        their terms, (k,) each."""
        return forms(*self.once(), x)

    def columns(self, places: NDArray[np.intp]) -> Array:
        """Columns (n + m, k) of the matrix without the stiffness of bounds."""
        sizes = len(self.stiffness), len(self.softness)
        found = columns(places, self.hessian[:2], self.jacobian[:2], sizes)
        return found.of(self.hessian[2], self.jacobian[2])

    def factorised(self) -> KktFactors:
        """Factors by the time-structured solver or by SuperLU; raises `ValueError` if it is
        singular."""
        if isinstance(self._found, RuntimeError):
            raise ValueError("the curvature at the solution is singular") from self._found
        return self._factorised

    @property
    def singular(self) -> bool:
        """Whether it has no factors, or only by rounding."""
        return isinstance(self._found, RuntimeError)

    @cached_property
    def _factorised(self) -> KktFactors:
        assert not isinstance(self._found, RuntimeError)
        return KktFactors(len(self.stiffness), self.gone, self._found)

    @cached_property
    def _found(self) -> InTime | Bordered | General | RuntimeError:
        try:
            found: InTime | Bordered | General | None = self._bordered()
            if found is None:
                made = (self.lower, self._every_stage, self.order, self.workspace, self.quality)
                found = factors(*made)
        except RuntimeError as error:
            return error
        if self.fitted and self._null_by(found):
            return RuntimeError("singular up to rounding")
        return found

    def _bordered(self) -> Bordered | None:
        """Factors with the border apart, if it is wide; see `border_of`."""
        stages = self._every_stage
        if stages is None:
            return None
        of_border = stages[: len(self.stiffness)] == BORDER
        if of_border.sum() < WIDE:
            return None
        bare = replace(self, stiffness=np.where(of_border, 0.0, self.stiffness))

        def made() -> Border | None:
            (i, j, _), (_, column, _) = self.hessian, self.jacobian
            met = np.count_nonzero(of_border[i] != of_border[j])
            met += np.count_nonzero(of_border[column])
            full = met >= FULL * (self.order - of_border.sum()) * of_border.sum()
            return border_of(bare.lower, stages, self.quality) if full else None

        key = (self.hessian[2], self.jacobian[2], bare.stiffness, self.softness)
        border = self.borders.of(key, made)
        if border is None:
            return None
        stiffness = self.stiffness[of_border]
        return Bordered(border, np.isinf(stiffness), stiffness)

    def _null_by(self, factors: InTime | Bordered | General) -> bool:
        """Whether these factors exist by rounding alone: their solution for a random side is a null
        direction of the matrix."""
        scaled = (self.like or self).scaled
        size, side = scaled.sizes, np.random.default_rng(0).standard_normal(self.order)
        side[self.gone] = 0.0
        x = factors.roughly((side / size)[:, None])[:, 0]
        if np.linalg.norm(x / size) <= _GROWTH * np.linalg.norm(side):
            return False
        scale = scaled.scale
        for solve in (factors.roughly, factors.solve):
            x /= np.abs(x / scale).max()
            x = solve((x / scale**2)[:, None])[:, 0]
        left = np.abs(scale * factors.product(x)).max()
        return bool(left <= _ROUNDING * np.abs(x / scale).max())

    @cached_property
    def scaled(self) -> Scaled:
        """Matrix in scaled form, without units."""
        return Scaled(self)

    def relaxed(self, scale: Array, added: float, more: float) -> InTime | General:
        """Factors of D K D with `added` on its diagonal for variables, `more` times that for
        parameters, -added for constraints; scale : D. Raises `ValueError` if that is singular,
        too."""
        (rows, columns, values), n = self.lower, len(self.stiffness)
        values = values * (scale[rows] * scale[columns])
        begin = len(self.hessian[2])
        values[begin : begin + n] += (
            added if self.stages is None else np.where(self.stages < 0, more, 1.0) * added
        )
        values[len(values) - len(self.softness) :] -= added
        try:
            return factors((rows, columns, values), self._every_stage, self.order, self.workspace)
        except RuntimeError as error:
            raise ValueError("the curvature at the solution is singular") from error

    @property
    def _every_stage(self) -> NDArray[np.int32] | None:
        """The stages of variables and constraints."""
        if self.stages is None:
            return None
        return np.append(self.stages, np.full(len(self.softness), UNKNOWN, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns (order, count) of a KKT matrix, as places of entries of Hessian and Jacobian: rows,
    columns, and numbers among both."""

    order: int
    count: int
    places: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]

    def of(self, hessian: Array, jacobian: Array) -> Array:
        """The columns of the matrix with these entries."""
        rows, which, entries = self.places
        found, begin = np.zeros((self.order, self.count)), len(hessian)
        values, late = np.empty(len(entries)), entries >= begin
        values[~late], values[late] = hessian[entries[~late]], jacobian[entries[late] - begin]
        np.add.at(found, (rows, which), values)
        return found


def columns(
    wanted: NDArray[np.intp],
    hessian: tuple[NDArray[Any], NDArray[Any]],
    jacobian: tuple[NDArray[Any], NDArray[Any]],
    sizes: tuple[int, int],
) -> Columns:
    """Columns of variables in a matrix; hessian, jacobian : rows and columns of the entries. sizes
    : numbers of variables and of constraints."""
    (i, j), (row, column), (n, m) = hessian, jacobian, sizes
    mirrored, begin = np.flatnonzero(i != j), len(i)
    rows = np.concatenate([i, j[mirrored], row + n])
    which = np.full(n, -1)
    which[wanted] = np.arange(len(wanted))
    which = which[np.concatenate([j, i[mirrored], column])]
    entries = np.concatenate([np.arange(begin), mirrored, begin + np.arange(len(row))])
    mine = which >= 0
    return Columns(n + m, len(wanted), (rows[mine], which[mine], entries[mine]))


@dataclass(frozen=True, eq=False)
class KktFactors:
    """Factors of a `Kkt` of n variables; gone : fixed variables, left-out constraints, (n + m,)."""

    n: int
    gone: NDArray[np.bool_]
    factors: InTime | Bordered | General

    def solve(self, variables: Array, constraints: Array) -> Array:
        """Solutions for sides (n, k) and (m, k), first n entries, zero for fixed variables."""
        return self.solve_all(variables, constraints)[: self.n]

    def solve_all(self, variables: Array, constraints: Array) -> Array:
        """Solutions for sides (n, k) and (m, k), with those of constraints, (n + m, k)."""
        sides = np.vstack([variables, constraints])
        sides[self.gone] = 0.0
        return self.factors.solve(sides)

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """Entries of variables `wanted` in the inverse, (k, k), zero for fixed ones; cached."""
        key = wanted.tobytes()
        if key not in self._inverses:
            inverse, free = np.zeros((len(wanted), len(wanted))), ~self.gone[wanted]
            inverse[np.ix_(free, free)] = self.factors.inverse(wanted[free])
            self._inverses[key] = inverse
        return self._inverses[key].copy()

    @cached_property
    def _inverses(self) -> dict[bytes, Array]:
        return {}

    def roughly(self, wanted: NDArray[np.intp]) -> Array:
        """The diagonal of `inverse`, (k,), without refinement."""
        found, free = np.zeros(len(wanted)), ~self.gone[wanted]
        found[free] = np.diag(self.factors.inverse_roughly(wanted[free]))
        return found

    def inverse_entries(self, rows: NDArray[Any], columns: NDArray[Any]) -> Array:
        """Entries (k,) of variables in the inverse, zero for fixed ones: in linear time, if the
        matrix has stages, for pairs of the same or neighbouring nodes."""
        found = self.factors.inverse_entries(rows, columns)
        if self.gone.any():
            found[self.gone[rows] | self.gone[columns]] = 0.0
        return found

    @property
    def log_determinant(self) -> float:
        """log |det| of the matrix without fixed variables and left-out constraints."""
        return self.factors.log_determinant

    @property
    def positive(self) -> bool:
        """Whether the curvature is positive in the null space of the constraints, by the inertia:
        as many negative eigenvalues as constraints. True if the inertia is not known (SuperLU)."""
        return self.factors.negative in (None, int((~self.gone[self.n :]).sum()))


@dataclass(frozen=True, eq=False)
class Scaled:
    """Scaled KKT matrix D K D, in which the largest entry of each row is 1."""

    kkt: Kkt

    @cached_property
    def plain(self) -> Any:
        """Unscaled matrix K, both triangles, sparse."""
        rows, columns, values = self.kkt.lower
        n, off = self.kkt.order, rows != columns
        entries = np.concatenate([values, values[off]])
        places = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        return coo_array((entries, places), shape=(n, n)).tocsr()

    @cached_property
    def scale(self) -> Array:
        """Diagonal of D, by sweeps started from the sizes of the variables, not from their units,
        on which the result would depend."""
        return equilibrated(*self.kkt.once(), self.sizes, _SWEEPS)

    @cached_property
    def sizes(self) -> Array:
        """Sizes of variables and constraints, (n + m,), with which first derivatives of constraints
        and second derivatives are 1 at most."""
        kkt = self.kkt
        n, size = len(kkt.stiffness), np.ones(kkt.order)
        if kkt.sizes is None:
            return size
        (i, j, h), (row, column, a) = kkt.hessian, kkt.jacobian
        variables, m = kkt.sizes.copy(), kkt.order - n
        slopes = largest_in_rows(row, column, a, variables, m)
        for _ in range(2):  # sizes that are not known make the derivatives of constraints 1, too
            if variables.all():
                break
            effect = largest_in_rows(column, row, a, _inverse(slopes), n)
            new = (variables == 0.0) & (effect > 0.0)
            variables[new] = 1.0 / effect[new]
            slopes = largest_in_rows(row, column, a, variables, m)
        variables[variables == 0.0] = 1.0
        bends = variables * largest_in_rows(i, j, h, variables, n)
        bend = float(bends.max(initial=0.0)) or 1.0
        size[:n] = variables / np.sqrt(bend)
        size[n:] = np.sqrt(bend) / np.where(slopes > 0.0, slopes, 1.0)
        return size

    def product(self, x: Array) -> Array:
        """D K D x, (n,) or (n, k)."""
        d = self.scale if x.ndim == 1 else self.scale[:, None]
        return np.asarray(d * (self.plain @ (d * x)))

    def solve(self, b: Array, added: float) -> tuple[Array, Array]:
        """Solutions x of D K D x = b for sides b (n, k), refined while that helps, and the
        residuals; see `kinesym.runtime.statistics.undetermined`."""
        factors = self._first if added == ADDED[0] else self.relaxed(added)
        x, left = np.zeros_like(b), b
        for _ in range(_REFINEMENTS):
            x = x + factors.solve(left)
            before, left = np.linalg.norm(left, axis=0), b - self.product(x)
            if not (np.linalg.norm(left, axis=0) < 0.5 * before).any():
                break
        return x, left

    def null(self) -> NDArray[np.bool_]:
        """Unknowns and constraints, (n + m,) booleans, that belong to a null direction of the
        matrix.

        Inverse iteration from a random start, which has a part of every such direction.
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
        return np.abs(v) > _PART * np.abs(v).max() if self.is_null(v, _NULL) else nothing

    def is_null(self, v: Array, share: float) -> bool:
        """Whether v (n + m,) is a null direction: |D K D v| is at most this share of |v|."""
        return bool(np.abs(self.product(v)).max() <= share * np.abs(v).max())

    @cached_property
    def _first(self) -> Any:
        return self.relaxed(ADDED[0])

    def relaxed(self, added: float) -> Any:
        """Factors of D K D with regularisation `added` on the diagonal, more for parameters, which
        the stages determine so well that it is lost in rounding otherwise. Raises `ValueError` if
        it still is."""
        for more in _MORE[:-1]:
            with suppress(ValueError):
                return self.kkt.relaxed(self.scale, added, more)
        return self.kkt.relaxed(self.scale, added, _MORE[-1])


def _inverse(sizes: Array) -> Array:
    """The inverse of sizes, 0 for those that are not known (0)."""
    return np.divide(1.0, sizes, out=np.zeros(len(sizes)), where=sizes > 0.0)
