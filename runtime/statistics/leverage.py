"""Leverages of residuals: the diagonal of the hat matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.quadratic import terms_of_squares
from kinesym.runtime.statistics.undetermined import solver

#: Free directions up to which a basis of the hat matrix is computed; else its diagonal alone.
_FEW = 150
#: Random combinations in excess of the free directions, so that they span the range of H.
_MORE = 8
#: Right-hand sides that are solved for at once.
_BLOCK = 256
#: Numbers in a batch of right-hand sides, which bounds its memory (160 MB).
_NUMBERS = 20_000_000
#: Numbers in a basis that is returned; in longer records the fit follows little of the residuals.
_SMALL = 2_000_000
#: Eigenvalue of the hat matrix below which a direction is held by a bound; see `at_bounds`.
_HELD = 1.0 / 11.0


def leverages(kkt: Kkt, slopes: csr_array, factor: float, directions: int) -> Array:
    """Leverages (k,) of residuals r of a solution with J = factor sum r^2: the diagonal of
    d r^/d y.

    slopes : d r/d z (k, n). directions : number of free directions of z, at most. With
    H = 2 factor r_z K^-1 r_z' these are the diagonal of H (St. Laurent, Cook 1992, Journal of the
    American Statistical Association 87). H is nearly a projection on few directions, which random
    combinations of its columns span; this holds exactly for Gauss-Newton. Raises `ValueError` for a
    matrix that has no solutions.
    """
    if directions <= _FEW:
        return np.asarray((_hat_basis(kkt, slopes, factor, directions)[0] ** 2).sum(axis=1))
    return np.clip(2.0 * factor * _forms(kkt, slopes), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Hat:
    """Hat matrix H = 2 factor r_z K^-1 r_z' of residuals, see `leverages`. directions : number of
    free directions of z, None if it is not known."""

    kkt: Kkt
    slopes: csr_array
    factor: float
    directions: int | None

    def followed(self) -> Array | None:
        """Factor B (k, m) of H = B B', None if it is too large."""
        count = self.directions
        if count is None or count > _FEW or count * self.slopes.shape[0] > _SMALL:
            return None
        basis, values = _hat_basis(self.kkt, self.slopes, self.factor, count)
        return basis * np.sqrt(np.minimum(values, 1.0))

    def entries(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """Entries (n,) of H, of residuals that are near in time."""
        x, off = self.slopes, rows != columns
        every, place = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        own = _forms(self.kkt, x[every])[place]
        found = own[: len(rows)]
        if off.any():  # of a sum, less those of its terms
            of_sums = _forms(self.kkt, csr_array(x[rows[off]] + x[columns[off]]))
            found[off] = 0.5 * (of_sums - found[off] - own[len(rows) :][off])
        return 2.0 * self.factor * found


def _hat_basis(kkt: Kkt, slopes: csr_array, factor: float, directions: int) -> tuple[Array, Array]:
    """Eigenvectors (k, m) of H and their eigenvalues, which are 1 unless the objective has further
    terms."""
    k = slopes.shape[0]
    count = min(directions + _MORE, k)
    some = np.random.default_rng(0).standard_normal((k, count))
    if count == k:
        some = np.eye(k)
    made = _hat(kkt, slopes, factor, some)  # H some
    basis, triangle = np.linalg.qr(made)
    sizes = np.linalg.svd(triangle)
    left = basis @ sizes.U[:, 1e-9 * sizes.S.max(initial=0.0) < sizes.S]
    inner = left.T @ _hat(kkt, slopes, factor, left)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    free = values > _HELD
    return np.asarray(left @ vectors[:, free]), np.asarray(values[free])


def _forms(kkt: Kkt, slopes: csr_array) -> Array:
    """Quadratic forms x' K^-1 x of the rows x of `slopes`, (k,), from the entries of the inverse
    that belong to each, or from solutions, in blocks."""
    entries = getattr(solver(kkt), "inverse_entries", None)
    if entries is not None:
        return _by_entries(entries, slopes)
    found = np.empty(slopes.shape[0])
    for begin in range(0, len(found), _BLOCK):
        part = slopes[begin : begin + _BLOCK]
        sides = part.T.toarray()
        solved = _solved(kkt, sides)
        found[begin : begin + _BLOCK] = (sides * solved).sum(axis=0)
    return found


def _by_entries(entries: Callable[..., Array], slopes: csr_array) -> Array:
    """Quadratic forms x' C x of the rows x of `slopes`, (k,); each entry of C is computed once."""
    rows, keys, weights = terms_of_squares(slopes)
    wanted, which = np.unique(keys, return_inverse=True)
    found = entries(*np.divmod(wanted, slopes.shape[1]))
    return np.bincount(rows, weights * found[which], slopes.shape[0]).astype(np.float64)


def _hat(kkt: Kkt, slopes: csr_array, factor: float, some: Array) -> Array:
    """Product of H with columns (k, c); few of them at once if there are many unknowns."""
    made, width = np.empty((slopes.shape[0], some.shape[1])), max(1, _NUMBERS // kkt.order)
    for begin in range(0, some.shape[1], width):
        part = slice(begin, begin + width)
        made[:, part] = slopes @ _solved(kkt, slopes.T @ some[:, part])
    return 2.0 * factor * made


def _solved(kkt: Kkt, sides: Array) -> Array:
    nothing = np.zeros((len(kkt.softness), sides.shape[1]))
    return solver(kkt).solve(np.ascontiguousarray(sides), nothing)


def free_directions(kkt: Kkt) -> int | None:
    """Number of free directions of a solution: variables less constraints, which is the sum of all
    leverages if the objective has measurements only. None if it is not known, as for a singular
    matrix."""
    if kkt.singular:
        return None
    n = len(kkt.stiffness)
    found = int(n - kkt.gone[:n].sum() - (~kkt.gone[n:]).sum())
    return found if found >= 0 else None


def leverages_of_columns(slopes: Array) -> Array:
    """Leverages (k,) of residuals from their total derivatives (k, n), constraints eliminated."""
    return np.asarray((basis_of_columns(slopes) ** 2).sum(axis=1))


def basis_of_columns(slopes: Array) -> Array:
    """An orthonormal basis (k, m) of columns (k, n)."""
    size = np.linalg.norm(slopes, axis=0)
    left, values, _ = np.linalg.svd(slopes[:, size > 0.0] / size[size > 0.0], full_matrices=False)
    return np.asarray(left[:, values > 1e-10 * values.max(initial=0.0)])
