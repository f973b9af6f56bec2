"""Factors of symmetric matrices: those with stages, whose border is narrow or wide, and others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import coo_array, tril
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import BORDER, QUALITY, Factorisation, Workspace
from kinesym.runtime.status import Factors

#: Rows, columns and values of a sparse matrix.
Entries: TypeAlias = tuple[NDArray[Any], NDArray[Any], Array]

#: Share of the sides up to which the residual of a linear system needs no refinement.
_REFINED = 1e-8
#: Qualities of pivots, see `kkt.h`, that suffice for solutions.
PLAIN = (QUALITY, QUALITY)
#: Qualities of pivots with which entries of the inverse have about as many digits as solutions.
STRICT = (0.1, 0.01)
#: Numbers in a batch of right-hand sides, which bounds its memory (160 MB).
_BATCH = 20_000_000
#: Unknowns of a border from which on it is eliminated apart from the stages: with 64 to 100 its
#: columns, which one matrix alone does not need, cost more than they save, with 200 less.
WIDE = 128
#: Share of the entries of a border that are there, from which on it counts as full.
FULL = 0.25


class InTime:
    """Factors of a symmetric matrix whose unknowns have stages; values : of its entries. quality :
    of the pivots, those that suffice for solutions if the matrix has too few better ones. Raises
    `ValueError` if it has too few good ones, `RuntimeError` if the matrix is singular."""

    def __init__(
        self, factors: Factorisation, values: Array, quality: tuple[float, float] = PLAIN
    ) -> None:
        self._factors, self._values, self._quality = factors, values, quality
        self._n = factors.order
        ended = factors.factorise(values, *quality)
        if ended == Factors.DELAYED and quality != PLAIN:
            ended = factors.factorise(values)
        if ended == Factors.DELAYED:
            raise ValueError(ended)
        if ended != Factors.OK:
            raise RuntimeError(ended)

    def roughly(self, b: Array) -> Array:
        """Solutions x for sides b (n, k), not refined."""
        return self._factors.solve(b)

    def inverse_roughly(self, wanted: NDArray[np.intp]) -> Array:
        """Entries of the inverse for unknowns, (k, k), not refined."""
        return self._factors.inverse(wanted)

    def solve(self, b: Array) -> Array:
        """Solutions x for sides b (n, k), refined once, all of them, if the first one needs it."""
        x = self.roughly(b)
        left = self._left(x[:, 0], b[:, 0])
        if np.abs(left).max() <= _REFINED * np.abs(b[:, 0]).max():
            return x
        return x + self.roughly(self.left(x, b))

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """Entries of the inverse for unknowns, (k, k); refined if the first one needs it."""
        if len(wanted):
            first = _units(self._n, wanted[:1])[:, 0]
            x = self._factors.solve(first)
            change = abs(x @ self._left(x, first))  # what refinement would add to the first
            if not change <= _REFINED * abs(x[wanted[0]]):
                return self.solve(_units(self._n, wanted))[wanted]
        return self._factors.inverse(wanted)

    def inverse_entries(self, rows: NDArray[Any], columns: NDArray[Any]) -> Array:
        """Entries (k,) of the inverse; those of unknowns far apart in time by solutions."""
        found = self._strict.inverse_entries(rows, columns)
        far = np.isnan(found)
        if far.any():
            found[far] = _entries_by_solutions(self.solve, self._n, rows[far], columns[far])
        return found

    @property
    def log_determinant(self) -> float:
        """log |det| by better pivots, which save three digits of its differences between
        parameters."""
        return self._strict.log_determinant

    @property
    def negative(self) -> int | None:
        """Number of negative eigenvalues (inertia), if it is known."""
        return int(self._factors.about["negative"])

    @cached_property
    def _strict(self) -> Factorisation:
        """Factors by better pivots, if the matrix has enough of them."""
        if self._quality == STRICT:
            return self._factors
        if self._factors.factorise(self._values, *STRICT) != Factors.OK:
            self._factors.factorise(self._values)
        return self._factors

    def product(self, x: Array) -> Array:
        """The matrix times x (n,)."""
        return -self._left(x, np.zeros(self._n))

    def left(self, x: Array, b: Array) -> Array:
        """Residuals b - A x of all columns, (n, k)."""
        return self._factors.residuals(self._values, x, b)

    def _left(self, x: Array, b: Array) -> Array:
        return self._factors.residual(self._values, x, b)[0]


class General:
    """Factors of a symmetric matrix by SuperLU, without stages."""

    def __init__(self, lower: Entries, n: int) -> None:
        rows, columns, values = lower
        half = coo_array((values, (rows, columns)), shape=(n, n)).tocsr()
        self._n, self._whole = n, (half + tril(half, -1).T).tocsc()
        self._factors = splu(self._whole)

    def product(self, x: Array) -> Array:
        return np.asarray(self._whole @ x)

    def solve(self, b: Array) -> Array:
        return np.asarray(self._factors.solve(b))

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        return self.solve(_units(self._n, wanted))[wanted]

    roughly, inverse_roughly = solve, inverse

    def inverse_entries(self, rows: NDArray[Any], columns: NDArray[Any]) -> Array:
        return _entries_by_solutions(self.solve, self._n, rows, columns)

    @property
    def log_determinant(self) -> float:
        return float(np.log(np.abs(self._factors.U.diagonal())).sum())

    @property
    def negative(self) -> int | None:
        return None


@dataclass(frozen=True, eq=False)
class Border:
    """Wide border of a matrix [[T, B], [B', C]], eliminated after all else: in the fronts of the
    stages T its rows would be most of the work.

    places : of its r unknowns. inner : of all n others. within : factors of T. columns : B, (n, r).
    corner : C, (r, r).
    """

    places: NDArray[np.intp]
    inner: NDArray[np.intp]
    within: InTime
    columns: Array
    corner: Array

    @cached_property
    def follow(self) -> Array:
        """Directions in which all others follow the unknowns of the border, -T^-1 B, (n, r)."""
        return self.within.solve(-self.columns)

    @cached_property
    def curvature(self) -> Array:
        """Schur complement of T, as a quadratic form of the directions [-T^-1 B, 1], (r, r): errors
        of these count by their squares only."""
        left = self.within.left(self.follow, -self.columns)
        made = self.corner + (self.columns - left).T @ self.follow
        return np.asarray(0.5 * (made + made.T))


class Borders:
    """Border that matrices share which differ in the limits of its unknowns: the last one that was
    asked for."""

    def __init__(self) -> None:
        self._key: tuple[Array, ...] = ()
        self._border: Border | None = None

    def of(self, key: tuple[Array, ...], made: Callable[[], Border | None]) -> Border | None:
        """The border for a key, the arrays on which it depends; `made` if it is another one."""
        pairs = zip(self._key, key, strict=False)
        if not self._key or not all(a is b or np.array_equal(a, b) for a, b in pairs):
            self._key, self._border = key, made()
        return self._border


class Bordered:
    """Factors of a matrix with a wide border, of whose unknowns some are fixed, (r,) booleans, and
    others have `stiffness`, (r,), on the diagonal. Raises `RuntimeError` if it is singular."""

    def __init__(self, border: Border, fixed: NDArray[np.bool_], stiffness: Array) -> None:
        self._border, self._within, self._free = border, border.within, ~fixed
        self._added = np.where(fixed, 0.0, stiffness)
        self._of_border, self._negative, self._log = np.zeros((len(fixed),) * 2), 0, 0.0
        if self._free.any():
            free = np.ix_(self._free, self._free)
            made = border.curvature[free] + np.diag(self._added[self._free])
            self._of_border[free], self._negative, self._log = _inverted(made)

    def roughly(self, b: Array) -> Array:
        """Solutions x for sides b (n + r, k), not refined."""
        border, x = self._border, np.zeros_like(b)
        sides, own = b[border.inner], b[border.places]
        x[border.places] = np.where(self._free[:, None], 0.0, own)
        alone = not sides.any()  # as for columns of the inverse that belong to the border
        inner = sides if alone else self._within.roughly(sides)
        if self._free.any():
            moved = self._of_border @ (own if alone else own + border.follow.T @ sides)
            x[border.places] += moved
            inner += border.follow @ moved
        x[border.inner] = inner
        return x

    def solve(self, b: Array) -> Array:
        """Solutions x for sides b (n + r, k), refined once, all of them, if the first one needs
        it."""
        x = self.roughly(b)
        left = self._left(x[:, :1], b[:, :1])
        if np.abs(left).max() <= _REFINED * np.abs(b[:, 0]).max():
            return x
        return x + self.roughly(self._left(x, b))

    def inverse(self, wanted: NDArray[np.intp]) -> Array:
        """Entries of the inverse for unknowns, (k, k)."""
        number, on = self._numbers
        inner, found = ~on[wanted], np.zeros((len(wanted), len(wanted)))
        if inner.any():
            found[np.ix_(inner, inner)] = self._within.inverse(number[wanted[inner]])
        ways = self._ways(wanted)
        return np.asarray(found + ways @ self._of_border @ ways.T)

    inverse_roughly = inverse

    def inverse_entries(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """Entries (k,) of the inverse."""
        number, on = self._numbers
        rows, columns = np.where(on[rows], (columns, rows), (rows, columns))  # border among columns
        one, which = np.unique(rows, return_inverse=True)
        of_border, found = self._ways(one) @ self._of_border, np.empty(len(rows))
        late = on[columns]
        found[late] = of_border[which[late], number[columns[late]]]
        inner = np.flatnonzero(~late)
        found[inner] = self._within.inverse_entries(number[rows[inner]], number[columns[inner]])
        width = max(1, _BATCH // len(self._free))
        for begin in range(0, len(inner), width):
            some = inner[begin : begin + width]
            found[some] += (of_border[which[some]] * self._ways(columns[some])).sum(axis=1)
        return found

    @property
    def log_determinant(self) -> float:
        """log |det|."""
        return self._within.log_determinant + self._log

    @property
    def negative(self) -> int | None:
        """Number of negative eigenvalues (inertia)."""
        return (self._within.negative or 0) + self._negative

    def product(self, x: Array) -> Array:
        """The matrix times x (n + r,)."""
        return np.asarray(-self._left(x[:, None], np.zeros((len(x), 1)))[:, 0])

    def _left(self, x: Array, b: Array) -> Array:
        """Residuals b - K x, (n + r, k)."""
        border, left = self._border, np.empty_like(b)
        inner, own = x[border.inner], x[border.places]
        moved = np.where(self._free[:, None], own, 0.0)
        bent = border.columns.T @ inner + border.corner @ moved + self._added[:, None] * moved
        left[border.inner] = self._within.left(inner, b[border.inner] - border.columns @ moved)
        left[border.places] = b[border.places] - np.where(self._free[:, None], bent, own)
        return left

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Numbers of all unknowns in the border or among the others; which are in the border."""
        border = self._border
        on = np.zeros(len(border.places) + len(border.inner), dtype=bool)
        on[border.places] = True
        return np.where(on, np.cumsum(on), np.cumsum(~on)) - 1, on

    def _ways(self, wanted: NDArray[np.intp]) -> Array:
        """Changes of unknowns with those of the border, which change by themselves, (k, r)."""
        number, on = self._numbers
        made, mine = np.zeros((len(wanted), len(self._free))), on[wanted]
        made[mine, number[wanted[mine]]] = 1.0
        if self._free.any() and not mine.all():
            made[~mine] = self._border.follow[number[wanted[~mine]]]
        return made


def _inverted(matrix: Array) -> tuple[Array, int, float]:
    """Inverse of a symmetric matrix, the number of its negative eigenvalues, and log |det|.
    Raises `RuntimeError` if a column is zero."""
    diagonal = np.abs(np.diag(matrix))
    if not np.abs(matrix).max(axis=0).all():
        raise RuntimeError(Factors.SINGULAR)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    unit, negative = matrix * np.outer(scale, scale), 0
    triangle, failed = dpotrf(unit, lower=1)
    if not failed:
        modes = np.diag(triangle) ** 2
        lower = np.tril(dpotri(triangle, lower=1)[0])
        inverse = lower + np.tril(lower, -1).T
    else:  # as far as rounding tells
        modes, vectors = np.linalg.eigh(unit)
        least = np.finfo(float).eps * np.abs(modes).max()
        modes = np.where(np.abs(modes) > least, modes, least)
        negative = int((modes < 0.0).sum())
        inverse = vectors / modes @ vectors.T
    log = float(np.log(np.abs(modes)).sum() - 2.0 * np.log(scale).sum())
    return inverse * np.outer(scale, scale), negative, log


def _entries_by_solutions(
    solve: Callable[[Array], Array], n: int, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Array:
    """Entries (k,) of the symmetric inverse of a matrix of order n, from its columns."""
    if len(np.unique(rows)) < len(np.unique(columns)):
        rows, columns = columns, rows
    wanted, which = np.unique(columns, return_inverse=True)
    found, batch = np.empty(len(rows)), max(1, _BATCH // n)
    for begin in range(0, len(wanted), batch):
        here = (which >= begin) & (which < begin + batch)
        columns_here = solve(_units(n, wanted[begin : begin + batch]))
        found[here] = columns_here[rows[here], which[here] - begin]
    return found


def _units(n: int, wanted: NDArray[np.intp]) -> Array:
    """Unit vectors, (n, k)."""
    units = np.zeros((n, len(wanted)))
    units[wanted, np.arange(len(wanted))] = 1.0
    return units


def factors(
    lower: Entries,
    stages: NDArray[np.int32] | None,
    n: int,
    workspace: Workspace,
    quality: tuple[float, float] = PLAIN,
) -> InTime | General:
    """Factors by stages if possible, in one direction of time or the other, else by SuperLU. Raises
    `RuntimeError` if the matrix is singular."""
    rows, columns, values = lower
    if stages is not None:
        with suppress(ValueError):  # no narrow stages
            found = Factorisation(n, rows, columns, stages, workspace=workspace)
            with suppress(ValueError):  # no good pivots in them
                return InTime(found, values, quality)
            return InTime(Factorisation(n, rows, columns, stages, reverse=True), values, quality)
    return General(lower, n)


def border_of(
    lower: Entries, stages: NDArray[np.int32], quality: tuple[float, float] = PLAIN
) -> Border | None:
    """Border of a matrix; None if it is too large, or all else is singular without it."""
    (rows, columns, values), on = lower, stages == BORDER
    r, n = int(on.sum()), int((~on).sum())
    if n * r > _BATCH:
        return None
    one, other = on[rows], on[columns]
    across, outside, inside = one != other, ~(one | other), one & other
    number = np.where(on, np.cumsum(on), np.cumsum(~on)) - 1
    i, j = number[rows], number[columns]
    try:
        inner = i[outside], j[outside], values[outside]
        within = factors(inner, stages[~on], n, Workspace(), quality)
    except RuntimeError:
        return None
    if not isinstance(within, InTime):
        return None
    places = np.where(one, j, i)[across], np.where(one, i, j)[across]
    made = coo_array((values[across], places), shape=(n, r)).toarray()
    corner = coo_array((values[inside], (i[inside], j[inside])), shape=(r, r)).toarray()
    corner += np.tril(corner, -1).T
    return Border(np.flatnonzero(on), np.flatnonzero(~on), within, made, corner)
