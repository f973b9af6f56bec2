"""Signals of a trial as polynomials through places of z, on each interval of its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.layout import Layout

Index = NDArray[np.intp]

#: Share of the duration by which a kink may miss a node by rounding.
_ROUNDING = 1e-9

#: Number of delays in turn that propagate a kink, each time into a higher derivative.
_LEVELS = 3


@dataclass(frozen=True, eq=False)
class Pieces:
    """A signal of a trial on each of its intervals: a polynomial through places of z.

    index : of these in z, (M, m). terms : (M, m, m), or (1, m, m), of each of them the coefficients
    of 1, s, s^2, ... with s the share of the interval. intervals, shares : where they are, (M, m).
    """

    index: Index
    terms: Array
    intervals: Index
    shares: Array

    def weights(self, k: Index, s: Array) -> tuple[Array, Array, Array]:
        """Weights of the values in the signal at the shares s of intervals k, (n, m), and their
        first two derivatives by the share."""
        return weights(self.terms[k] if len(self.terms) > 1 else self.terms, s)


def weights(terms: Array, s: Array) -> tuple[Array, Array, Array]:
    """Polynomials with coefficients (n, m, p), or (1, m, p), of 1, s, s^2, ... at s (n,), (n, m),
    and their first two derivatives."""
    p = np.arange(terms.shape[-1])
    found = []
    for order, factors in enumerate((np.ones(len(p)), p, p * (p - 1))):
        powers = factors * s[:, None] ** np.maximum(p - order, 0)
        same = len(terms) == 1
        found.append(powers @ terms[0].T if same else np.einsum("njp,np->nj", terms, powers))
    return found[0], found[1], found[2]


def terms_of(places: Array) -> Array:
    """Coefficients of the Lagrange polynomials through places (.., m)."""
    powers = places[..., None] ** np.arange(places.shape[-1])
    return np.asarray(np.linalg.inv(powers).swapaxes(-1, -2))


def pieces_of(
    layout: Layout, trial: int, name: str, kinks: NDArray[np.bool_] | None
) -> Pieces | None:
    """Pieces of a state or unknown input on the intervals of a trial; None for a known signal.

    kinks : for Lobatto IIIA, which has states at as many places as stages, one degree less than its
    polynomials: they have one place more, of a neighbour without a kink between.
    """
    knots: dict[float, Index] = {}
    held = name in layout.held
    for own, place, row in layout.named_rows(np.arange(layout.n_variables), trial):
        if own == name and place is not None:
            knots[place] = row
        elif own == name:
            knots |= {0.0: row[:-1]} | ({} if held else {1.0: row[1:]})
    if not knots:
        return None
    order = sorted(knots)
    places = np.array(order)[None]
    index = np.array([knots[c] for c in order], dtype=np.intp).T
    shares = np.broadcast_to(places, index.shape)
    intervals = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
    if kinks is not None and name in layout.states and len(order) > 2 and len(index) > 1:
        other, column, beyond = _beside(layout.grids[trial], np.array(order), kinks)
        index = np.column_stack([index, index[other, column]])
        places = np.column_stack([shares, beyond])
        intervals = np.column_stack([intervals, other])
        shares = np.column_stack([shares, np.array(order)[column]])
    return Pieces(index, terms_of(places), intervals, shares)


def _beside(grid: Array, places: Array, kinks: NDArray[np.bool_]) -> tuple[Index, Index, Array]:
    """Additional place of each interval: the inner one next to it in a neighbour. Returns the
    neighbour, the index of the place there, and its share of this interval."""
    M, h = len(grid) - 1, np.diff(grid)
    every = np.arange(M)
    left = (every > 0) & (~kinks[:-1] | kinks[1:] | (every == M - 1))
    other = np.where(left, every - 1, every + 1)
    column, ratio = np.where(left, len(places) - 2, 1), h[other] / h
    return other, column, np.where(left, -(1.0 - places[-2]) * ratio, 1.0 + places[1] * ratio)


def kinks_of(grid: Array, spans: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Kinks: nodes at which derivatives may jump, (N,): the start, propagated by the known
    delays."""
    fixed = [low for low, high in spans if low == high]
    times = {float(grid[0])}
    for _ in range(_LEVELS):
        times |= {time + tau for time in times for tau in fixed}
    near = _ROUNDING * (grid[-1] - grid[0])
    at = np.array(sorted(times))
    k = np.clip(np.searchsorted(at, grid), 1, len(at) - 1) if len(at) > 1 else np.zeros(1, np.intp)
    nearest = np.minimum(np.abs(at[k] - grid), np.abs(at[k - 1] - grid))
    return np.asarray(nearest <= near)
