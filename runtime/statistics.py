"""Uncertainty of identified parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, coo_array
from scipy.sparse.linalg import splu

from kinesym.runtime.nlp import NLP

Array = NDArray[np.float64]


def parameter_covariance(nlp: NLP, z: Array, multipliers: Array) -> Array:
    """Covariance of the unknown parameters, (r, r), from the curvature at a solution.

    For an objective J = -2 log(likelihood) + const, such as the least squares of measurements with
    their true standard deviations, the covariance is 2 R^-1, where R is the Hessian of J in the
    parameters after the trajectories have followed (the reduced Hessian). R^-1 is the parameter
    block of the inverse of the Karush-Kuhn-Tucker matrix. Bounds are taken as inactive. Raises
    `ValueError` if that matrix is singular: the parameters are not identifiable.
    """
    n, m, layout = nlp.n_variables, nlp.n_constraints, nlp.layout
    rows, columns = nlp.hessian_structure
    values, off = nlp.hessian(z, multipliers, 1.0), rows != columns
    lower = coo_array((values, (rows, columns)), shape=(n, n))
    upper = coo_array((values[off], (columns[off], rows[off])), shape=(n, n))
    jacobian = coo_array((nlp.jacobian(z), nlp.jacobian_structure), shape=(m, n))
    kkt = block_array([[lower + upper, jacobian.T], [jacobian, None]], format="csc")
    begin, r = layout.parameter_offset, len(layout.parameters)
    unit = np.zeros((n + m, r))
    unit[begin : begin + r] = np.eye(r)
    try:
        inverse = splu(kkt).solve(unit)[begin : begin + r]
    except RuntimeError as error:
        raise ValueError("singular curvature: the parameters are not identifiable") from error
    return 2.0 * inverse
