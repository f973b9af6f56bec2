"""How likely a record is with all trajectories that explain it counted in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from kinesym.runtime.arrays import Array
from kinesym.runtime.statistics.kkt import Kkt


def log_volume(kkt: Kkt, fixed: NDArray[np.intp], dependents: list[NDArray[np.intp]]) -> float:
    """log of the integral of exp(-(J - J*) / 2) over all that the constraints leave free, by the
    curvature at a solution (Laplace's method; exact where J is quadratic and the constraints
    linear).

    The constraints tell the `dependents`, the first of these lists that has as many variables as
    there are constraints; the integral is over all other variables but the `fixed` ones. With the
    matrix K of Karush, Kuhn and Tucker and the derivatives C of the constraints with respect to the
    dependents, |det K| = det(C)^2 det(R), where R is the Hessian of J in the others.

    Raises `ValueError` if a bound or an inequality holds, where J is no parabola, if the
    constraints do not tell the dependents, and if the curvature is not positive.
    """
    stiffness = kkt.stiffness.copy()
    if not np.isinf(stiffness[fixed]).all():  # else its factors serve
        stiffness[fixed] = np.inf
        kkt = replace(kkt, stiffness=stiffness)
    if (np.isfinite(stiffness) & (stiffness > 0.0)).any() or (
        np.isfinite(kkt.softness) & (kkt.softness > 0.0)
    ).any():
        raise ValueError(
            "a bound or an inequality holds at the solution: what it cuts off cannot be integrated "
            "by the curvature there; leave it out"
        )
    free, active = ~kkt.gone[: len(stiffness)], kkt.softness == 0.0
    of_constraints = _log_determinant(kkt, active, [d[free[d]] for d in dependents])
    factors = kkt.factorised()
    if not factors.positive:
        raise ValueError("the curvature at the solution is not positive: this is no minimum")
    count = int(free.sum() - active.sum())
    curvature = factors.log_determinant - 2.0 * of_constraints
    return float(0.5 * (count * np.log(4.0 * np.pi) - curvature))


def _log_determinant(
    kkt: Kkt, active: NDArray[np.bool_], dependents: list[NDArray[np.intp]]
) -> float:
    """log |det C|."""
    rows, columns, values = kkt.jacobian
    shape = len(kkt.softness), len(kkt.stiffness)
    whole = coo_array((values, (rows, columns)), shape=shape).tocsc()
    for chosen in dependents:
        if len(chosen) == active.sum():
            matrix = whole[:, chosen].tocsr()[np.flatnonzero(active)].tocsc()
            try:
                diagonal: Array = splu(matrix).U.diagonal()
            except RuntimeError:
                break  # singular
            return float(np.log(np.abs(diagonal)).sum())
    raise ValueError(
        "the conditions do not tell the states from the start and the unknown inputs, or from "
        "these inputs alone: the trajectories have no volume"
    )
