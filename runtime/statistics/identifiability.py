"""Identifiability: parameters that a record cannot distinguish, with messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.summary import listed

#: Scaled condition number from which parameters count as not identifiable together.
ILL_CONDITIONED = 1e3
#: Share of the largest eigenvalue of a covariance up to which a direction is identifiable.
_OTHERS = 1e-6
#: Relative standard error up to which a direction is identified, whatever the condition number.
_KNOWN = 0.1
#: Share of the largest curvature up to which a curvature is rounding.
_ROUNDING = 1e-13


def identifiability(
    curvature: Array,
    names: Sequence[str],
    near_zero: Sequence[str] = (),
    variance: float = np.nan,
) -> tuple[float, list[str], Array]:
    """Condition number of the scaled problem; sentences on what is not identifiable if it is large,
    and the directions (n, m) that they are about.

    curvature : J^T J of scaled residuals, or a scaled Hessian, (n, n). The condition number is that
    of the scaled Jacobian, the square root of that of the curvature. The sentence names the pair of
    unknowns that can be exchanged most easily, or the one that the record does not depend on.
    near_zero : unknowns that may be zero. variance : of the residuals, NaN if it is not known: a
    direction with a small relative standard error is identified, even if others have a smaller one.
    """
    none = np.zeros((len(names), 0))
    if not len(names):
        return 1.0, [], none
    modes, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if not modes[-1] > 0.0:
        return np.inf, ["the objective does not depend on the unknowns"], none
    if modes[0] <= 0.0 and modes[0] < -1e-8 * modes[-1]:
        return np.inf, ["the curvature is not positive: this is no minimum"], none
    condition = float(np.sqrt(modes[-1] / modes[0])) if modes[0] > 0.0 else np.inf
    notes = []
    for mode, vector in zip(modes, vectors.T, strict=True):
        known = variance < _KNOWN**2 * mode and mode > _ROUNDING * modes[-1]
        if known or mode * ILL_CONDITIONED**2 > modes[-1]:
            break
        of = float(np.sqrt(modes[-1] / mode)) if mode > 0.0 else np.inf
        notes.append(_exchangeable(vector, names, of, near_zero))
    return condition, notes, vectors[:, : len(notes)]


def exchanges(spread: Array, names: Sequence[str], values: Array) -> tuple[list[str], Array]:
    """Directions (n, m) in which unknowns can be exchanged without effect, and sentences on them.

    spread : (n, n), stands for their covariance, far larger along these directions than along
    others.
    """
    if not len(names):
        return [], np.zeros((0, 0))
    size = np.where(values != 0.0, np.abs(values), 1.0)
    modes, vectors = np.linalg.eigh(spread / np.outer(size, size))
    free = np.abs(modes) > _OTHERS * np.abs(modes).max()
    clear = np.argsort(-np.abs(modes[free]))
    directions = size[:, None] * vectors[:, free][:, clear]
    if free.all() and len(names) > 1:
        every = listed(names)
        words = f"{every} are not identifiable from this record, each by itself; fix them"
        return [words], directions
    return [_exchangeable(vector, names, np.inf, ()) for vector in vectors.T[free]], directions


def _exchangeable(
    vector: Array, names: Sequence[str], condition: float, near_zero: Sequence[str]
) -> str:
    """A sentence on the unknowns that can change along a direction without effect."""
    order = np.argsort(-np.abs(vector))
    first = names[order[0]]
    if len(names) == 1 or abs(vector[order[1]]) < 0.1 * abs(vector[order[0]]):
        what = "cannot be told from zero by" if first in near_zero else "is not identifiable from"
        return f"{first} {what} this record (condition {condition:.1e}); fix it"
    return (
        f"{first} and {names[order[1]]} are not identifiable together from this record "
        f"(condition {condition:.1e}); fix one"
    )
