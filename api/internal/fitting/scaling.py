"""Scaling: sizes of variables, and factors for them, constraints and objective, the same in all
units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.scaling import Scaling
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.status import Solve

#: Change of the scaled objective with a trajectory of size 1, per node, at most: the barriers of
#: bounds are sums over nodes.
_CHANGE = 2.0
#: Change of the scaled misfit of measurements with a single value, at most: bounds are rarely met
#: there.
_MISFIT = 1000.0
#: First barrier parameter of IPOPT for a misfit of measurements.
_SOFT = 1e-3
#: The first barrier parameter of a misfit from a motion that meets its equations already, or the
#: record: a larger one keeps small values, as of which logarithms are measured, off bounds that do
#: not bind, and so off both.
NEAR = 1e-5
#: First barrier parameter where there are no bounds, that of IPOPT: it acts in restoration only.
_UNBOUNDED = 0.1
#: First multiple of the identity that IPOPT adds to a Hessian without positive curvature: for a
#: slope of 1, a step is a hundred sizes. Its own 1e-4 allows ten thousand, from which an objective
#: that is linear hardly comes back.
_CONVEX = 1e-2
#: The same for a misfit, whose parameters are held back already: that of IPOPT.
_CONVEX_MISFIT = 1e-4
#: Value of a parameter for the solver, in its size: where curvature is negative it changes
#: less than trajectories, which come near the data first (iterations from random starts: a half).
_CAREFULLY = 1000.0
#: Remainder of the terms of one trajectory that cancel, relative to their sum.
_ROUNDING = 1e-9
#: Slope that is rounding, as that of a cosine at a right angle, relative to the largest slope of a
#: constraint.
_NOISE = 1e-14
#: Remainder of an equation from which it is not met, relative to its largest term.
_LEFT = 1e-3
#: Width of bounds that tell no size.
_FAR = 1e10
#: Value that counts as zero, relative to the width of its bounds.
_NOTHING = 1e-6
#: Points of all trials at which an equation is evaluated.
_POINTS = 400
#: Least number of points of each trial.
_FEW = 5


def scaling(problem: Discretisation, z: Array) -> Scaling:
    """Factors that make states and inputs 1, parameters 1000, one for all times and trials, the
    largest term of each equation 1 (x' over the duration, see `sizes`), and let the objective
    change as `_CHANGE` and `_MISFIT` say."""
    layout = problem.layout
    with np.errstate(all="ignore"):  # what is not finite is told before the first iteration
        terms = _terms(problem, z)
        size = _sizes(problem, z, terms)
        largest = np.zeros(terms.equations)
        np.maximum.at(largest, terms.equation, terms.slopes * size[terms.example])
        of_constraints = np.empty(problem.n_constraints)
        begin = 0
        for key, offset in layout.constraint_offsets.items():
            count, points = len(layout.labels[key[1]]), layout.points(*key)
            rows = of_constraints[offset : offset + count * points]
            rows.reshape(count, points)[:] = inverse(largest[begin : begin + count, None])
            begin += count
        of_constraints[layout.delay_offset :] = inverse(size[layout.delayed_entries])
        factor, of_variables = _objective_factor(problem, z, size), inverse(size)
        layout.parameter_values(of_variables)[:] *= _CAREFULLY
        convex = _CONVEX_MISFIT if problem.symbolic.objective.least_squares else _CONVEX
        return Scaling(factor, of_variables, of_constraints, first_barrier(problem), convex)


def if_met(problem: Discretisation, start: Array, solution: Solution) -> Solution:
    """A solution from the guess `start`, no success if it is the guess as it was and an equation is
    not met; see `unmet`. A step meets equations, in whatever size."""
    stayed = solution.success and solution.iterations == 0
    equation = unmet(problem, start, solution.free_vector) if stayed else ""
    if not equation:
        return solution
    status = Solve.UNMET
    return replace(solution, status=status, message=status.said(equation=equation))


def unmet(problem: Discretisation, start: Array, z: Array) -> str:
    """Name of an equation of which z leaves as much as its largest term is, where that is of what
    the guess `start` tells; empty if there is none.

    The solver takes it for met where another slope is above all that is known by more than
    rounding, and nothing tells the size of what that is of.
    """
    layout, told = problem.layout, given_sizes(problem, start)
    if (told > 0.0).all():
        return ""
    with np.errstate(all="ignore"):
        terms, (own, _) = _terms(problem, z, noise=0.0), _courses(layout)
        mine, steepest = own[terms.example], np.zeros(own.max(initial=-1) + 1)
        np.maximum.at(steepest, mine, terms.slopes)  # beside which others of the same are rounding
        felt = np.where(terms.slopes > _NOISE * steepest[mine], terms.slopes, 0.0)
        known, largest = np.zeros((2, terms.equations))
        for found, size in ((known, told), (largest, np.maximum(told, given_sizes(problem, z)))):
            np.maximum.at(found, terms.equation, felt * size[terms.example])
    values, (low, high) = problem.constraints(z), problem.constraint_bounds
    left, begin = np.maximum(0.0, np.maximum(low - values, values - high)), 0
    for key, offset in layout.constraint_offsets.items():
        labels, points = layout.labels[key[1]], layout.points(*key)
        rows = left[offset : offset + len(labels) * points].reshape(len(labels), points)
        for number, row in enumerate(rows.max(axis=1, initial=0.0), start=begin):
            if _LEFT * largest[number] < row < known[number] / _LEFT:
                return str(labels[number - begin])
        begin += len(labels)
    return ""


def first_barrier(problem: Discretisation) -> float | None:
    """First barrier parameter; None for one that adapts to the iterates, which is for bounds of
    problems that are no misfits, or have absolute values."""
    if _kinked(problem):
        return None
    if problem.symbolic.objective.least_squares:
        return _SOFT
    pairs = (problem.variable_bounds, problem.constraint_bounds)
    bounded = [(low < high) & (np.isfinite(low) | np.isfinite(high)) for low, high in pairs]
    return None if any(each.any() for each in bounded) else _UNBOUNDED


def given_sizes(problem: Discretisation, z: Array) -> Array:
    """Sizes of the variables, (n_variables,), from values and bounds; one for all times and trials.

    The size is the largest absolute value in z. Of a trajectory whose bounds leave more room than
    that, it is the geometric mean of the value and half of that room, or the one of the two that is
    not zero. The bounds alone count where z is negligible beside them, as on a bound of zero. It is
    0 where neither tells.
    """
    low, high = problem.variable_bounds
    with np.errstate(invalid="ignore"):
        room = np.where(np.isfinite(high), np.abs(high), 0.0)
        room = np.where(np.isfinite(low), np.maximum(room, np.abs(low)), room)
        room = np.where(np.isfinite(high - low), 0.5 * (high - low), room)
    own, _ = _courses(problem.layout)
    value, room = (_largest(each, own) for each in (np.abs(z), np.where(room < _FAR, room, 0.0)))
    value[value < _NOTHING * room] = 0.0
    begin = problem.layout.parameter_offset
    room[begin:] *= value[begin:] == 0.0
    return np.where(value == 0.0, room, np.sqrt(value * np.maximum(value, room)))


def _largest(values: Array, own: NDArray[np.intp]) -> Array:
    """Largest value of the trajectory `own` of each variable; NaN counts as nothing."""
    found = np.zeros(own.max(initial=-1) + 1)
    np.fmax.at(found, own, values)
    return found[own]


def sizes(problem: Discretisation, z: Array) -> Array:
    """Sizes of the variables, (n_variables,), to scale them: `given_sizes`; where these are 0, the
    size that makes the variable's terms in the constraints like the others; 1 where these do not
    tell either.

    The terms of a trajectory are those of a constant and of a ramp over its trial, so that x' is as
    large as x over the duration, not over a step.
    """
    with np.errstate(all="ignore"):
        return _sizes(problem, z, _terms(problem, z))


def _sizes(problem: Discretisation, z: Array, terms: _Terms) -> Array:
    """Sizes from the terms of the constraints; see `sizes`."""
    own, _ = _courses(problem.layout)
    size = np.zeros(own.max(initial=-1) + 1)
    size[own] = given_sizes(problem, z)
    i, j, slope = terms.rows, own[terms.example], terms.slopes
    while not (size > 0.0).all():
        known = size[j] > 0.0
        largest = np.zeros(i.max(initial=-1) + 1)
        np.maximum.at(largest, i[known], slope[known] * size[j[known]])
        new = ~known & (largest[i] > 0.0)
        if not new.any():
            break
        like = np.full(len(size), np.inf)
        np.minimum.at(like, j[new], largest[i[new]] / slope[new])
        size = np.where((size == 0.0) & np.isfinite(like), like, size)
    return np.where(size > 0.0, size, 1.0)[own]


@dataclass(frozen=True)
class _Terms:
    """Slopes of constraints, at some points of each equation, by a constant or a ramp in place of
    one state, input or parameter, the larger one: rows of the constraints, an example of the
    variables, the slopes, and the number of the equation, counted through trials; the equation of
    delayed inputs is the last one of `equations`."""

    rows: NDArray[np.intp]
    example: NDArray[np.intp]
    slopes: Array
    equation: NDArray[np.intp]
    equations: int


def _terms(problem: Discretisation, z: Array, noise: float = _NOISE) -> _Terms:
    """Slopes of the constraints, without those that remain of terms that cancel, and without those
    below a share of the largest of their constraint; see `_Terms`."""
    layout = problem.layout
    taken, equations = _points(layout, problem.n_constraints)
    entries, rows, columns = problem.nlp.jacobian_structure.in_rows(taken >= 0)
    values = problem.nlp.jacobian(z)[entries]
    own, ramp = _courses(layout)
    shape = (problem.n_constraints, own.max(initial=-1) + 1)
    answers = [
        abs(coo_array((values * weight, (rows, own[columns])), shape).tocsr())
        for weight in (1.0, ramp[columns])
    ]
    parts = coo_array((np.abs(values), (rows, own[columns])), shape).tocsr()
    terms = answers[0].maximum(answers[1])
    terms = terms.multiply(terms > _ROUNDING * parts).tocoo()  # what does not cancel
    steepest = np.zeros(problem.n_constraints)
    np.maximum.at(steepest, rows, np.abs(values))
    felt = terms.data > noise * steepest[terms.row]
    example = np.zeros(shape[1], dtype=np.intp)
    example[own] = np.arange(len(own))
    i, j = terms.row[felt], terms.col[felt]
    return _Terms(i, example[j], terms.data[felt], taken[i], equations)


def _points(layout: Layout, n_constraints: int) -> tuple[NDArray[np.intp], int]:
    """Numbers of equations, for some constraints of each, -1 for all others; and how many there
    are."""
    most, equations = max(_FEW, _POINTS // len(layout.nodes)), 0
    taken = np.full(n_constraints, -1, dtype=np.intp)
    for key, offset in layout.constraint_offsets.items():
        count, points = len(layout.labels[key[1]]), layout.points(*key)
        if count and points:
            mine = taken[offset : offset + count * points].reshape(count, points)
            mine[:, :: -(-points // most)] = np.arange(equations, equations + count)[:, None]
        equations += count
    delayed = taken[layout.delay_offset :]
    delayed[:: -(-len(delayed) // _POINTS) or 1] = equations
    return taken, equations + 1


def _courses(layout: Layout) -> tuple[NDArray[np.intp], Array]:
    """Number of the trajectory, parameter or duration to which each variable belongs, and a ramp
    from 0 to 1 over each trial, 1 for parameters and durations. Values at nodes and in between, in
    all trials, belong to one state or input."""
    own = np.arange(layout.n_variables, dtype=np.intp)
    ramp, names = np.ones(layout.n_variables), dict[str, int]()
    for trial, N in enumerate(layout.nodes):
        blocks = zip(layout.rows(own, trial), layout.rows(ramp, trial), strict=True)
        for (block, numbers), (_, share) in blocks:
            mine = [names.setdefault(name, len(names)) for name in block.members]
            numbers[:] = np.array(mine, dtype=np.intp)[:, None]
            share[:] = (np.arange(share.shape[1]) + (block.place or 0.0)) / (N - 1)
    own[layout.parameter_offset :] += len(names) - layout.parameter_offset
    return own, ramp


def _kinked(problem: Discretisation) -> bool:
    """Whether the objective has absolute values of residuals."""
    loss = problem.symbolic.objective.loss
    return loss is not None and loss.kinked


def _objective_factor(problem: Discretisation, z: Array, size: Array) -> float:
    """Scaling factor of the objective; 1 without one, and with absolute values, each about 1."""
    if problem.symbolic.aimless or _kinked(problem):
        return 1.0
    least_squares = problem.symbolic.objective.least_squares
    most = _MISFIT if least_squares else _CHANGE * sum(problem.layout.nodes)
    change = _change(problem, z, size, together=not least_squares)
    return float(inverse(np.array(change / most)))


def objective_size(problem: Discretisation, z: Array) -> float:
    """Size of an objective whose value may vanish at its optimum, or by terms that cancel: its
    largest change, to first or second order, with a trajectory or parameter as large as it is."""
    with np.errstate(all="ignore"):
        return _change(problem, z, sizes(problem, z), together=True)


def _change(problem: Discretisation, z: Array, size: Array, together: bool) -> float:
    """Largest change of the objective, to first or second order, with values by their sizes: each
    for itself, or those of a trajectory together."""
    on, rows, _ = problem.nlp.hessian_structure.on_diagonal()
    low, high = problem.variable_bounds
    size = np.where(low < high, size, 0.0)
    slope = problem.nlp.gradient(z) * size
    bend = problem.nlp.hessian(z, np.zeros(problem.n_constraints), 1.0)[on] * size[rows] ** 2
    if together:
        own, _ = _courses(problem.layout)
        slope = np.asarray(np.bincount(own, slope), dtype=float)
        bend = np.asarray(np.bincount(own[rows], bend), dtype=float)
    return float(max(np.abs(slope).max(initial=0.0), np.abs(bend).max(initial=0.0)))


def inverse(values: Array) -> Array:
    """Reciprocals of values; 1 where that is not finite or not positive."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = 1.0 / values
    return np.where(np.isfinite(found) & (found > 0.0), found, 1.0)
