"""Parameter covariance of problems that are block-arrow in the trials, few parameters in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.undetermined import Spreads, clear_signs, spreads

#: Numbers in the trajectories that follow parameters, which bounds their memory (160 MB each).
_NUMBERS = 20_000_000


@dataclass(frozen=True, eq=False)
class BlockArrow:
    """Block-arrow structure of a KKT matrix: rows and parameters of each trial, if trials have only
    parameters in common.

    parts : slices of the unknowns and constraints of each trial. places : numbers of each trial's
    parameters among all, (trials, q).
    """

    parts: Sequence[Sequence[slice]]
    places: NDArray[np.intp]


def block_arrow(layout: Layout) -> BlockArrow | None:
    """Block-arrow structure of a problem; None if trials are linked, or have all parameters in
    common."""
    count, owned, n = len(layout.nodes), layout.owned, layout.n_variables
    joined = layout.linked or (count > 1 and layout.labels["cycle"])
    if joined or len(owned.parameters) == len(owned.names):
        return None
    begins = [layout.constraint_offsets[k, "interval"] for k in range(count)]
    parts = []
    for k, (begin, end) in enumerate(zip(begins, [*begins[1:], layout.n_constraints], strict=True)):
        mine = [slice(*layout.offsets[k : k + 2]), slice(n + begin, n + end)]
        T = layout.duration_offset + k
        parts.append([*mine, slice(T, T + 1)] if layout.free_duration else mine)
    return BlockArrow(parts, np.array([owned.places(k) for k in range(count)]))


def spreads_of(kkt: Kkt, wanted: NDArray[np.intp], blur: Array, made: Reduced | None) -> Spreads:
    """Parameter covariance by block elimination: `spreads` of all parameters by their reduced
    Hessian, in time and memory that grow linearly with the trials; without it by solutions."""
    if made is None or kkt.singular:
        return spreads(kkt, wanted, blur)
    inverse = kkt.factorised().inverse(wanted)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = inverse / np.diag(inverse)
    change[:, made.gone] = 0.0
    signs = np.where(made.gone, 1.0, made.signs_along(change))
    return Spreads(0.5 * (inverse + inverse.T), signs)


@dataclass(frozen=True, eq=False)
class Reduced:
    """Curvature of J along r parameters while all else follows, as a quadratic form (r, r) in their
    changes (the reduced Hessian), with forms for the sizes of its terms, in absolute changes, and
    for what `blur` adds. gone : parameters that are fixed, (r,)."""

    curvature: Array
    terms: Array
    doubt: Array
    gone: NDArray[np.bool_]

    def signs_along(self, change: Array) -> Array:
        """Signs of the curvature along changes (r, k), 0 if not clear, (k,)."""
        curvature = (change * (self.curvature @ change)).sum(axis=0)
        terms = (np.abs(change) * (self.terms @ np.abs(change))).sum(axis=0)
        return clear_signs(curvature, terms, (change * (self.doubt @ change)).sum(axis=0))

    def signs(self, fixed: NDArray[np.bool_]) -> Array:
        """Signs of the curvature along each parameter, (r,), as of `Spreads`, if those of `fixed`
        are fixed, too."""
        free = np.flatnonzero(~(self.gone | fixed))
        sizes = np.diag(self.terms)[free]
        scale = 1.0 / np.sqrt(np.where(sizes > 0.0, sizes, 1.0))
        modes, vectors = np.linalg.eigh(self.curvature[np.ix_(free, free)] * np.outer(scale, scale))
        least = np.finfo(float).eps * np.abs(modes).max(initial=0.0) or 1.0
        vectors *= scale[:, None]
        inverse = vectors / np.where(np.abs(modes) > least, modes, least) @ vectors.T
        change, signs = np.zeros((len(fixed), len(free))), np.ones(len(fixed))
        change[free] = inverse / np.diag(inverse)
        signs[free] = self.signs_along(change)
        return signs


def reduced(
    kkt: Kkt, wanted: NDArray[np.intp], blur: Array, of: BlockArrow | None
) -> Reduced | None:
    """Reduced Hessian of all parameters, with the sizes of its terms. None if all else is not
    determined by them, or the trajectories that follow are too many numbers.

    If parameters change by e, a trial follows by Y e of its own ones: its matrix without them is
    factorised, and Y (n, q) found for all trials at once. So the matrix (n, r) of directions in
    which one parameter grows and all else follows is never formed. blur : see `spreads`.
    """
    gone = kkt.gone[wanted]
    if of is None:
        of = BlockArrow([[slice(0, kkt.order)]], np.flatnonzero(~gone)[None])
    fixed = kkt.stiffness.copy()
    fixed[wanted] = np.inf
    inner = replace(kkt, stiffness=fixed, fitted=False)
    if kkt.order * of.places.shape[1] > _NUMBERS or inner.singular:
        return None
    own, pulls, curvature = _parted(kkt, wanted, of.places)
    follow = np.ascontiguousarray(inner.factorised().factors.solve(-pulls))  # for products
    far = np.abs(follow)
    made = 2.0 * pulls + own @ follow, np.abs(pulls) + 0.5 * (abs(own) @ far)
    terms, doubt = np.abs(curvature), np.diag(blur[wanted])
    for parts, mine in zip(of.parts, of.places, strict=True):
        here = np.ix_(mine, mine)
        for part in parts:
            y, size = follow[part], far[part]
            form, sizes = y.T @ made[0][part], size.T @ made[1][part]
            curvature[here] += 0.5 * (form + form.T)
            terms[here] += sizes + sizes.T
            among = blur[part]  # of the variables among the unknowns
            doubt[here] += y[: len(among)].T @ (among[:, None] * y[: len(among)])
    return Reduced(curvature, terms, doubt, gone)


def _parted(
    kkt: Kkt, wanted: NDArray[np.intp], places: NDArray[np.intp]
) -> tuple[csr_array, Array, Array]:
    """A matrix without its parameters, the columns of these, (n, q), as each trial sees its own at
    places (trials, q), and what is between parameters, (r, r)."""
    (rows, columns, values), n = kkt.lower, kkt.order
    number, column = np.full(n, -1), np.full(n, -1)
    number[wanted] = np.arange(len(wanted))
    column[wanted[places]] = np.arange(places.shape[1])
    late, early = number[rows] >= 0, number[columns] >= 0
    apart = ~(late | early)
    i, j, entries = rows[apart], columns[apart], values[apart]
    off = i != j
    every = np.append(i, j[off]), np.append(j, i[off])
    own = csr_array((np.append(entries, entries[off]), every), shape=(n, n))
    of, other = np.where(late, (rows, columns), (columns, rows))
    across = (late != early) & (column[of] >= 0)
    at = other[across], column[of[across]]
    pulls = coo_array((values[across], at), shape=(n, places.shape[1])).toarray()
    both = late & early
    at = number[rows[both]], number[columns[both]]
    between = coo_array((values[both], at), shape=(len(wanted), len(wanted))).toarray()
    return own, pulls, between + np.tril(between, -1).T
