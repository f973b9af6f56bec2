"""Sizes of variables, and of an objective in them: what is small whatever the units."""

from __future__ import annotations

import numpy as np

from kinesym.internal.fitted import Fitted
from kinesym.runtime.arrays import Array

#: An objective that changes by less with its variables is scaled up: tolerances of a solver, 1e-8,
#: would not see it. (Those of published problems change by 0.03 to 16,000.)
_FAINT = 1e-2
#: Bounds as wide tell no size.
_FAR = 1e10


def given_sizes(problem: Fitted, z: Array) -> Array:
    """Of each variable, (n_variables,), one for all times of a trajectory: the largest value in z,
    or what its bounds leave; 0 where nothing tells."""
    layout, (low, high) = problem.layout, problem.variable_bounds
    with np.errstate(invalid="ignore"):
        room = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (high - low), 0.0)
    found = np.maximum(np.abs(z), np.where(room < _FAR, room, 0.0))
    for trial in range(len(layout.nodes)):
        for _, rows in layout.rows(found, trial):
            rows[:] = rows.max(axis=1, keepdims=True, initial=0.0)
    return found


def sizes(problem: Fitted, z: Array) -> Array:
    """Of each variable, (n_variables,): as `given_sizes`, and where nothing tells as large as makes
    its terms in the constraints like the others; 1 where these do not tell either."""
    found, layout = given_sizes(problem, z), problem.layout
    alike = np.arange(len(z))  # the first variable of the same trajectory
    for trial in range(len(layout.nodes)):
        for _, rows in layout.rows(alike, trial):
            rows[:] = rows[:, :1]
    jacobian = abs(problem.constraint_jacobian(z)).tocoo()
    i, j, slope = jacobian.row, jacobian.col, jacobian.data
    while not (found > 0.0).all():
        known = (found[j] > 0.0) & (slope > 0.0)
        terms = np.zeros(jacobian.shape[0])
        np.maximum.at(terms, i[known], slope[known] * found[j[known]])
        new = (found[j] == 0.0) & (slope > 0.0) & (terms[i] > 0.0)
        if not new.any():
            break
        like = np.full(len(z), np.inf)
        np.minimum.at(like, alike[j[new]], terms[i[new]] / slope[new])
        found = np.where((found == 0.0) & np.isfinite(like[alike]), like[alike], found)
    return np.where(found > 0.0, found, 1.0)


def objective_factor(problem: Fitted, z: Array) -> float:
    """By which a faint objective is multiplied, so that it changes by about 1 with variables of
    their sizes; 1 for any other."""
    if problem.symbolic.aimless:
        return 1.0
    with np.errstate(all="ignore"):  # what is not finite is told before the first iteration
        slope = np.abs(problem.cost_gradient(z))
        if not (slope * given_sizes(problem, z)).max(initial=0.0) < _FAINT:
            return 1.0
        size = sizes(problem, z)
        curved = problem.lagrangian_hessian(z, np.zeros(problem.n_constraints), 1.0).diagonal()
        change = max((slope * size).max(), (np.abs(curved) * size**2).max())
    return float(1.0 / change) if 0.0 < change < _FAINT else 1.0
