"""Uncertainty of identified parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, coo_array, tril
from scipy.sparse.linalg import splu

from kinesym.runtime.native import UNKNOWN, Factorisation
from kinesym.runtime.nlp import NLP

Array = NDArray[np.float64]


def parameter_covariance(
    nlp: NLP,
    z: Array,
    multipliers: Array,
    bounds: tuple[Array, Array],
    constraint_bounds: tuple[Array, Array],
) -> Array:
    """Covariance of the unknown parameters, (r, r), from the curvature at a solution.

    For an objective J = -2 log(likelihood) + const, such as the least squares of measurements with
    their true standard deviations, the covariance is 2 R^-1, where R is the Hessian of J in the
    parameters after the trajectories have followed (the reduced Hessian). R^-1 is the parameter
    block of the inverse of the Karush-Kuhn-Tucker matrix. Inequalities count if they are active at
    z; a variable at a bound is fixed there, with variance zero. Raises `ValueError` if the matrix
    is singular: the parameters are not identifiable.
    """
    n, m, layout = nlp.n_variables, nlp.n_constraints, nlp.layout
    rows, columns = nlp.hessian_structure.arrays()
    values, off = nlp.hessian(z, multipliers, 1.0), rows != columns
    lower = coo_array((values, (rows, columns)), shape=(n, n))
    upper = coo_array((values[off], (columns[off], rows[off])), shape=(n, n))
    jacobian = coo_array((nlp.jacobian(z), nlp.jacobian_structure.arrays()), shape=(m, n))
    active = np.flatnonzero(_at_bound(nlp.constraints(z), *constraint_bounds))
    free = np.flatnonzero(~_at_bound(z, *bounds))
    hessian = (lower + upper).tocsr()[free][:, free]
    rows_of = jacobian.tocsr()[active][:, free]
    kkt = block_array([[hessian, rows_of.T], [rows_of, None]], format="csc")
    begin, r = layout.parameter_offset, len(layout.parameters)
    place = np.searchsorted(free, np.arange(begin, begin + r))
    is_free = np.isin(np.arange(begin, begin + r), free)
    unit = np.zeros((kkt.shape[0], r))
    unit[place[is_free], np.flatnonzero(is_free)] = 1.0
    inverse = np.zeros((r, r))
    stages = np.full(kkt.shape[0], UNKNOWN, dtype=np.int32)
    stages[: len(free)] = layout.stages()[free]
    try:
        inverse[is_free] = _solve(kkt, stages, unit)[place[is_free]]
    except RuntimeError as error:
        raise ValueError("singular curvature: the parameters are not identifiable") from error
    if not (np.diag(inverse)[is_free] > 0.0).all():
        raise ValueError("the curvature is not positive: the parameters are not identifiable")
    return 2.0 * inverse


def _solve(kkt: Any, stages: NDArray[np.int32], b: Array) -> Array:
    """x of kkt x = b (n, r) by the solver that knows time, refined once, or by SuperLU.

    stages : of the unknowns, see `kkt.h`. Raises `RuntimeError` if the matrix is singular.
    """
    lower = tril(kkt, format="coo")
    try:
        factors = Factorisation(len(b), lower.row, lower.col, stages)
    except ValueError:  # no narrow stages
        return np.asarray(splu(kkt).solve(b))
    if factors.factorise(lower.data) != "ok":
        raise RuntimeError("singular")
    x = factors.solve(b)
    return np.asarray(x + factors.solve(b - kkt @ x))


#: Scaled condition number from which parameters count as not identifiable together.
ILL_CONDITIONED = 1e3


def least_squares_covariance(jacobian: Array, objective: float, samples: int | None) -> Array:
    """Covariance (n, n) of the unknowns of J = sum r^2 from d r/d q (k, n): (J^T J)^-1.

    samples : None if the residuals are divided by their standard deviations; else their number, and
    their variance is estimated as J / (samples - n). Infinite for what the record says nothing of.
    """
    n = jacobian.shape[1]
    if n == 0:
        return np.zeros((0, 0))
    size = np.linalg.norm(jacobian, axis=0)
    unit = np.where(size > 0.0, size, 1.0)
    _, s, v = np.linalg.svd(jacobian / unit, full_matrices=False)
    known = s > 1e-14 * s[0]
    inverse = (v[known].T / s[known] ** 2) @ v[known]
    silent = (np.abs(v[~known]) > 1e-8).any(axis=0)  # part of a direction without effect
    inverse[silent, silent] = np.inf
    variance = 1.0 if samples is None else objective / max(samples - n, 1)
    with np.errstate(invalid="ignore"):
        return np.asarray(variance * inverse / np.outer(unit, unit))


def identifiability(curvature: Array, names: Sequence[str]) -> tuple[float, list[str]]:
    """The condition number of the scaled problem, and a sentence if it is large.

    curvature : J^T J of scaled residuals, or a scaled Hessian, (n, n). The condition number is that
    of the scaled Jacobian, the square root of that of the curvature. The sentence names the pair of
    unknowns that can be exchanged most easily, or the one that the record says nothing about.
    """
    if not len(names):
        return 1.0, []
    modes, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if not modes[-1] > 0.0:
        return np.inf, ["the objective does not depend on the unknowns"]
    if modes[0] <= 0.0 and modes[0] < -1e-8 * modes[-1]:
        return np.inf, ["the curvature is not positive: this is no minimum"]
    condition = float(np.sqrt(modes[-1] / modes[0])) if modes[0] > 0.0 else np.inf
    notes = []
    for mode, vector in zip(modes, vectors.T, strict=True):
        if mode * ILL_CONDITIONED**2 > modes[-1]:
            break
        of = float(np.sqrt(modes[-1] / mode)) if mode > 0.0 else np.inf
        notes.append(_exchangeable(vector, names, of))
    return condition, notes


def _exchangeable(vector: Array, names: Sequence[str], condition: float) -> str:
    """A sentence on the unknowns that can change along a direction without effect."""
    order = np.argsort(-np.abs(vector))
    first = names[order[0]]
    if len(names) == 1 or abs(vector[order[1]]) < 0.1 * abs(vector[order[0]]):
        return f"{first} is not identifiable from this record (condition {condition:.1e}); fix it"
    return (
        f"{first} and {names[order[1]]} are not identifiable together from this record "
        f"(condition {condition:.1e}); fix one"
    )


def _at_bound(values: Array, low: Array, high: Array, tolerance: float = 1e-6) -> NDArray[np.bool_]:
    """Where a value lies at one of its bounds (equal bounds always count)."""
    scale = tolerance * np.maximum(1.0, np.abs(values))
    with np.errstate(invalid="ignore"):
        return (values - low <= scale) | (high - values <= scale) | (low == high)
