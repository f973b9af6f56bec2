"""Sizes of variables, and factors for them, constraints and objective: the same in all units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from kinesym.internal.fitted import Fitted
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Scaling

#: By how much the scaled objective changes at most with a variable, near the start.
_CHANGE = 30.0
#: Of the largest slope of a constraint: what is left of terms that cancel.
_ROUNDING = 1e-9
#: Bounds as wide tell no size.
_FAR = 1e10


def given_sizes(problem: Fitted, z: Array) -> Array:
    """Of each variable, (n_variables,), one for all times of a trajectory: the largest value in z;
    if bounds leave more than that, the geometric mean with half of what they leave, or with the
    one that is there; what bounds say where z is 0; 0 where nothing tells."""
    low, high = problem.variable_bounds
    with np.errstate(invalid="ignore"):
        room = np.where(np.isfinite(high), np.abs(high), 0.0)
        room = np.where(np.isfinite(low), np.maximum(room, np.abs(low)), room)
        room = np.where(np.isfinite(high - low), 0.5 * (high - low), room)
    value, room = (_largest(problem, each) for each in (np.abs(z), np.where(room < _FAR, room, 0)))
    return np.where(value == 0.0, room, np.sqrt(value * np.maximum(value, room)))


def _largest(problem: Fitted, z: Array) -> Array:
    """Of each variable, the largest value of its trajectory."""
    found = np.array(z)
    for trial in range(len(problem.layout.nodes)):
        for _, rows in problem.layout.rows(found, trial):
            rows[:] = rows.max(axis=1, keepdims=True, initial=0.0)
    return found


def sizes(problem: Fitted, z: Array) -> Array:
    """Of each variable, (n_variables,): as `given_sizes`, and where nothing tells as large as makes
    its terms in the constraints like the others; 1 where these do not tell either.

    The terms of a trajectory are those of a constant and of a ramp over its trial, so that x' is as
    large as x over the duration, not over a step.
    """
    found = given_sizes(problem, z)
    if (found > 0.0).all():
        return found
    constant, ramp = _courses(problem)
    first, own = np.unique(constant, return_inverse=True)
    size, every = found[first], np.arange(len(z))
    jacobian = problem.constraint_jacobian(z)
    shape = (len(z), len(first))
    answers = [abs(jacobian @ csr_array((w, (every, own)), shape)) for w in (ramp, ramp * 0 + 1.0)]
    terms = answers[0].maximum(answers[1]).tocoo()
    steepest = abs(jacobian).max(axis=1).toarray().ravel()
    i, j, slope = terms.row, terms.col, terms.data
    some = slope > _ROUNDING * steepest[i]
    i, j, slope = i[some], j[some], slope[some]
    while not (size > 0.0).all():
        known = size[j] > 0.0
        largest = np.zeros(len(steepest))
        np.maximum.at(largest, i[known], slope[known] * size[j[known]])
        new = ~known & (largest[i] > 0.0)
        if not new.any():
            break
        like = np.full(len(size), np.inf)
        np.minimum.at(like, j[new], largest[i[new]] / slope[new])
        size = np.where((size == 0.0) & np.isfinite(like), like, size)
    return np.where(size > 0.0, size, 1.0)[own]


def _courses(problem: Fitted) -> tuple[NDArray[np.intp], Array]:
    """Of each variable, its trajectory, as the first variable of that, and a ramp from 0 to 1 over
    it; 1 for parameters and durations."""
    first = np.arange(problem.n_variables, dtype=np.intp)
    ramp = np.ones(problem.n_variables)
    for trial in range(len(problem.layout.nodes)):
        for _, rows in problem.layout.rows(first, trial):
            rows[:] = rows[:, :1]
        for _, rows in problem.layout.rows(ramp, trial):
            rows[:] = np.linspace(0.0, 1.0, rows.shape[1])
    return first, ramp


def scaling(problem: Fitted, z: Array) -> Scaling:
    """Factors that make variables about 1, one for all times of a trajectory, the steepest slope of
    each equation 1, and the objective change by 30 where it does most."""
    with np.errstate(all="ignore"):  # what is not finite is told before the first iteration
        size = sizes(problem, z)
        slope = (abs(problem.constraint_jacobian(z)) @ diags_array(size)).max(axis=1)
        steepest = slope.toarray().ravel()
        for (trial, family), begin in problem.layout.constraint_offsets.items():
            shape = (len(problem.layout.labels[family]), problem.layout.points(trial, family))
            rows = steepest[begin : begin + shape[0] * shape[1]].reshape(shape)
            rows[:] = rows.max(axis=1, keepdims=True, initial=0.0)
        of_constraints = _inverse(steepest)
        return Scaling(_objective_factor(problem, z, size), 1.0 / size, of_constraints)


def _objective_factor(problem: Fitted, z: Array, size: Array) -> float:
    """By which the objective is multiplied; 1 without one."""
    if problem.symbolic.aimless:
        return 1.0
    slope = np.abs(problem.cost_gradient(z)) * size
    curved = problem.lagrangian_hessian(z, np.zeros(problem.n_constraints), 1.0).diagonal()
    change = max(slope.max(initial=0.0), (np.abs(curved) * size**2).max(initial=0.0))
    return float(_CHANGE * _inverse(np.array(change)) if change > 0.0 else 1.0)


def _inverse(values: Array) -> Array:
    """1 / values; 1 where that cannot be."""
    found = 1.0 / values
    return np.where(np.isfinite(found) & (found > 0.0), found, 1.0)
