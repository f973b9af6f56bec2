"""Uncertainty of identified parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, coo_array
from scipy.sparse.linalg import splu

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
    rows, columns = nlp.hessian_structure
    values, off = nlp.hessian(z, multipliers, 1.0), rows != columns
    lower = coo_array((values, (rows, columns)), shape=(n, n))
    upper = coo_array((values[off], (columns[off], rows[off])), shape=(n, n))
    jacobian = coo_array((nlp.jacobian(z), nlp.jacobian_structure), shape=(m, n))
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
    try:
        inverse[is_free] = splu(kkt).solve(unit)[place[is_free]]
    except RuntimeError as error:
        raise ValueError("singular curvature: the parameters are not identifiable") from error
    if not (np.diag(inverse)[is_free] > 0.0).all():
        raise ValueError("the curvature is not positive: the parameters are not identifiable")
    return 2.0 * inverse


def _at_bound(values: Array, low: Array, high: Array, tolerance: float = 1e-6) -> NDArray[np.bool_]:
    """Where a value lies at one of its bounds (equal bounds always count)."""
    scale = tolerance * np.maximum(1.0, np.abs(values))
    with np.errstate(invalid="ignore"):
        return (values - low <= scale) | (high - values <= scale) | (low == high)
