"""Parameter covariance of problems that are block-arrow in the trials, few parameters in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

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


def spreads_of_trials(
    kkt: Kkt, wanted: NDArray[np.intp], blur: Array, of: BlockArrow | None
) -> Spreads:
    """Parameter covariance by block elimination: `spreads` of all parameters, in time and memory
    that grow linearly with the trials."""
    made = None if of is None or kkt.singular else reduced(kkt, wanted, blur, of)
    if made is None:
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
    full = kkt.scaled.plain
    pulls = (full @ _ones(kkt.order, wanted[of.places])).toarray()
    pulls[wanted] = pulls[kkt.gone] = 0.0
    follow = np.ascontiguousarray(inner.factorised().factors.solve(-pulls))  # for products
    far = np.abs(follow)
    curvature = full[wanted][:, wanted].toarray()
    terms, doubt = np.abs(curvature), np.diag(blur[wanted])
    for parts, mine in zip(of.parts, of.places, strict=True):
        found = [_forms(full, pulls, (follow, far), blur, part) for part in parts]
        for whole, each in zip((curvature, terms, doubt), zip(*found, strict=True), strict=True):
            whole[np.ix_(mine, mine)] += np.sum(each, axis=0)
    return Reduced(curvature, terms, doubt, gone)


def _ones(size: int, places: NDArray[np.intp]) -> csr_array:
    """Selection matrix (size, q) with ones at places (trials, q) of each column."""
    columns = np.broadcast_to(np.arange(places.shape[1]), places.shape)
    entries = np.ones(places.size), (places.ravel(), columns.ravel())
    made = csr_array(entries, shape=(size, places.shape[1]))
    made.data[:] = 1.0  # also where trials have a parameter in common
    return made


def _forms(
    full: Any, pulls: Array, follow: tuple[Array, Array], blur: Array, part: slice
) -> tuple[Array, Array, Array]:
    """Quadratic forms of a part of a trial in its parameters, (q, q): the curvature, the sizes of
    its terms, and the contribution of `blur`; follow : values and sizes of all parts."""
    (y, size), b, rows = (a[part] for a in follow), pulls[part], full[part]
    cross, across = b.T @ y, np.abs(b).T @ size
    form = cross + cross.T + y.T @ (rows @ follow[0])
    sizes = across + across.T + size.T @ (abs(rows) @ follow[1])
    blurred = y[: len(blur[part])].T @ (blur[part][:, None] * y[: len(blur[part])])
    return form, sizes, blurred
