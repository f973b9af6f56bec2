"""Parameter covariance of problems that are block-arrow in the trials, few parameters in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.undetermined import Spreads, clear_signs, spreads


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
    that grow linearly with the trials.

    If parameters change by e, a trial follows by Y e of its own ones: its matrix without them is
    factorised, and Y (n, q) found for all trials at once. So the matrix (n, r) of directions in
    which one parameter grows and all else follows is never formed.
    """
    if of is None or kkt.singular:
        return spreads(kkt, wanted, blur)
    fixed = kkt.stiffness.copy()
    fixed[wanted] = np.inf
    inner = replace(kkt, stiffness=fixed, fitted=False, workspace=None)
    if inner.singular:
        return spreads(kkt, wanted, blur)
    gone = kkt.gone[wanted]
    inverse = kkt.factorised().inverse(wanted)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = inverse / np.diag(inverse)
    change[:, gone] = 0.0
    curvature, terms, doubt = _sums(kkt, inner, wanted, blur, of, change)
    signs = clear_signs(curvature, terms, doubt)
    return Spreads(0.5 * (inverse + inverse.T), np.where(gone, 1.0, signs))


def _sums(
    kkt: Kkt, inner: Kkt, wanted: NDArray[np.intp], blur: Array, of: BlockArrow, change: Array
) -> tuple[Array, Array, Array]:
    """Curvatures along the directions in which parameters `change` (r, r), the sizes of their
    terms, and the contributions of `blur`, (r,) each."""
    full = kkt.scaled.plain
    pulls = full @ _ones(kkt.order, wanted[of.places])
    pulls[wanted] = pulls[kkt.gone] = 0.0
    follow = np.ascontiguousarray(inner.factorised().factors.solve(-pulls))  # for products
    far = np.abs(follow)
    own = full[wanted][:, wanted].toarray()
    curvature = (change * (own @ change)).sum(axis=0)
    terms = (np.abs(change) * (np.abs(own) @ np.abs(change))).sum(axis=0)
    doubt = blur[wanted] @ change**2
    for parts, mine in zip(of.parts, of.places, strict=True):
        found = [_forms(full, pulls, (follow, far), blur, part) for part in parts]
        form, sizes, blurred = (np.sum(each, axis=0) for each in zip(*found, strict=True))
        d = change[mine]
        curvature += (d * (form @ d)).sum(axis=0)
        terms += (np.abs(d) * (sizes @ np.abs(d))).sum(axis=0)
        doubt += (d * (blurred @ d)).sum(axis=0)
    return curvature, terms, doubt


def _ones(size: int, places: NDArray[np.intp]) -> Array:
    """Selection matrix (size, q) with ones at places (trials, q) of each column."""
    made = np.zeros((size, places.shape[1]))
    for column, mine in zip(made.T, places.T, strict=True):
        column[mine] = 1.0
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
