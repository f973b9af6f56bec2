"""Claims of a solution, checked without solving: that it is one, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kinesym.internal.fitting.certificate import told
from kinesym.internal.fitting.curvature import converged
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.marginal_fit import log_likelihood, marginal, standard_errors
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.problems.formulation import formulate
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.shooting.scaled import Minimisation
from kinesym.runtime.summary import listed

#: Largest violation of the conditions of optimality that still counts as a solution [-]; of the
#: constraints as of the gradient, relative to its largest terms.
_MET = 1e-6
#: The same of gradient and objective where standard deviations of measurements are estimated in
#: turn with the fit, which ends as they change by 1e-4.
_REWEIGHED = 1e-3
#: Relative difference of numbers that are computed again on another machine.
_SAME = 1e-6
#: The same of errors of discretisation, which are differences.
_SMALL = 1e-9
#: The same of shifts of estimates, in their size, where standard deviations are estimated in turn
#: with the fit: the minimum lies as far from where the last of them would have it.
_SETTLED = 1e-6
#: Distance of an unknown from its bound, in its size, at which it is there [-].
_AT = 1e-6


class Told(NamedTuple):
    """Number that is said of a solution: its name, as recorded, and as computed again. small :
    difference that is none."""

    name: str
    recorded: float
    again: float
    small: float = _SMALL

    @property
    def same(self) -> bool:
        """Whether both are the same but for rounding."""
        one, other = self.recorded, self.again
        if np.isnan(one) or np.isnan(other):
            return bool(np.isnan(one) and np.isnan(other))
        return apart(one, other) <= _SAME or abs(one - other) <= self.small


class Claims(NamedTuple):
    """Claims that were checked: a sentence on optimality, whether it is met, and what else is
    said."""

    optimality: str
    met: bool
    told: Sequence[Told]


def of_solution(problem: Discretisation, solution: Solution) -> Claims:
    """Claims of a solution of a collocation problem.

    Sums of the conditions of optimality are taken in extended precision (`numpy.longdouble`),
    functions and derivatives in double. With process noise or random effects, trajectories are the
    best ones with the parameters, and these have the largest likelihood. Raises `ValueError` for a
    solution of another problem.
    """
    grids = on_grid_of(problem, solution)
    integrated = grids.estimation.integrated
    found = (
        converged(grids, solution, "claim")[0] if integrated else _of_its_objective(grids, solution)
    )
    mine = grids.layout.parameter_offset + np.flatnonzero(~grids.population.random)
    held = mine if integrated else mine[:0]
    slope, gap, idle = optimality(found, solution, held)
    words = (
        f"gradient of the Lagrangian {slope:.1e}, constraints {gap:.1e}, complementarity {idle:.1e}"
    )
    likely = _marginal_slope(grids, solution) if integrated else 0.0
    words += f", of log L {likely:.1e} per standard error" if integrated else ""
    cost = apart(found.cost(solution.free_vector), solution.objective)
    most = _MET if found is grids else _REWEIGHED
    met = max(slope, cost) <= most and max(gap, idle) <= _MET and likely <= _REWEIGHED
    bare = replace(solution, grid=[], likelihood=[], uncertainty=[], notes=[])
    judged = told(grids, bare, found)
    again = log_likelihood(grids, solution) if integrated else judged.log_likelihood
    rows = [Told("log L", solution.log_likelihood, again)]
    if solution.grid or judged.grid:
        errors = [each.grid[0].largest if each.grid else np.nan for each in (solution, judged)]
        rows.append(Told("largest error of the grid", *errors))
    return Claims(f"{words}, {_objective(solution, cost)}", met, rows)


def of_fit(problem: ShootingProblem, fit: Fit) -> Claims:
    """Claims of a fit by shooting: no derivative within the bounds is left, or derivatives say that
    no step lowers the objective, and segments meet. Raises `ValueError` for a fit of another
    problem, and if a simulation does not reach its end."""
    check_fit(problem, fit)
    identification = problem.identification()
    made, again = identification.again(fit)
    task, q = made.problem, fit.values
    trials, slopes, unit = task.trials, task.slopes(q), task.unit
    low, high = task.bounds
    outside = max(float((low - q).max(initial=0.0)), float((q - high).max(initial=0.0)))
    gaps = np.abs(trials.gaps(q)) if trials.unknowns.several else np.zeros(0)
    gap = max(outside, float(gaps.max(initial=0.0)))
    gradient = trials.gradient(q)
    slope = _projected(task, q, gradient * slopes / unit)
    moved = float(np.abs((gradient - fit.gradient) * slopes).max(initial=0.0)) / unit
    cost = apart(trials.cost(q), fit.objective)
    least = slope <= _MET or (made.success and not trials.unknowns.several)
    most = _REWEIGHED if fit.noise else _MET
    met = least and gap <= _MET and max(cost, moved) <= most
    words = f"gradient within the bounds {slope:.1e}, gaps {gap:.1e}, {_objective(fit, cost)}"
    rows = [Told("log L", fit.log_likelihood, again.log_likelihood)]
    if fit.grid or again.grid:
        small = _SETTLED if identification.reweighs else _SMALL
        rows.append(Told("largest shift by the steps", _shift(fit), _shift(again), small))
    return Claims(words, met, rows)


def check_solution(problem: Discretisation, solution: Solution) -> None:
    """Raise `ValueError` for a solution of another problem, and for a problem on other grids than
    its arguments say."""
    on_grid_of(problem, solution)
    asked = formulate(problem.formulation.question)[1].trials
    if [trial.n_nodes for trial in asked] != [trial.n_nodes for trial in problem.trials]:
        raise ValueError(
            "the problem is on finer grids than its arguments say, as `refined` makes them; bundle "
            "the one that was refined, with a solution of its solve(tolerance_grid=...)"
        )


def check_fit(problem: ShootingProblem, fit: Fit) -> None:
    """Raise `ValueError` for a fit of other unknowns, or of another model."""
    model, names = problem.given.model.name, problem.given.unknowns.names
    if fit.model != model or list(fit.names) != list(names):
        raise ValueError(
            f"the fit is of {fit.model} and {listed(fit.names)}, the problem of {model} and "
            f"{listed(names)}"
        )


def _projected(task: Minimisation, q: Array, gradient: Array) -> float:
    """Largest derivative of a scaled objective that is left within the bounds, with multipliers of
    the gaps between segments, which follow from it by least squares."""
    y, (low, high) = task.scaled(q), task.scaled_bounds
    at_low, at_high = y - low <= _AT, high - y <= _AT
    total, inside = gradient, ~(at_low | at_high)
    if task.trials.unknowns.several:
        gaps = task.trials.gap_jacobian(q).toarray() * task.slopes(q)
        total = gradient - gaps.T @ np.linalg.lstsq(gaps[:, inside].T, gradient[inside])[0]
    left = np.where((at_low & (total > 0.0)) | (at_high & (total < 0.0)), 0.0, total)
    return float(np.abs(left).max(initial=0.0))


def _shift(fit: Fit) -> float:
    """Largest shift of an estimate by the steps, relative to its size; NaN if not known."""
    if not fit.grid:
        return np.nan
    error = fit.grid[0]
    return max(
        (abs(s) / (error.sizes[name] or 1.0) for name, s in error.shifts.items()), default=0.0
    )


def _marginal_slope(problem: Discretisation, solution: Solution) -> float:
    """Largest derivative of -2 log L of process noise or random effects, per standard error."""
    z, some = solution.free_vector, problem.population
    std = {each.group: each.std for each in solution.noise}
    errors = standard_errors(problem, z, solution)
    _, limits = some.start(problem.layout.parameter_values(z), errors)
    made = marginal(problem, std, limits, SolverOptions({}), lambda step: None)
    slopes = made.slopes_at(z, some.from_natural(solution.parameters), list(std.values()))
    return float(np.abs(slopes).max(initial=0.0))


def optimality(
    problem: Discretisation, solution: Solution, held: Any = ()
) -> tuple[float, float, float]:
    """Violations of the conditions of optimality (Karush, Kuhn, Tucker) by a solution: gradient of
    the Lagrangian relative to its largest term, constraints and bounds, complementarity. held :
    entries of the free vector that are given."""
    z = solution.free_vector
    low, high = problem.variable_bounds
    floor, ceiling = problem.constraint_bounds
    values = problem.constraints(z)
    terms = problem.constraint_jacobian(z).tocoo()
    gradient = problem.cost_gradient(z)
    products = terms.data.astype(np.longdouble) * solution.multipliers[terms.row]
    lower, upper = solution.lower_multipliers, solution.upper_multipliers
    total = gradient.astype(np.longdouble) - lower + upper
    np.add.at(total, terms.col, products)
    given = np.isin(np.arange(len(z)), held)
    total[given] = 0.0
    scale = max(1.0, *(float(np.abs(row).max(initial=0.0)) for row in (gradient, products)))
    sizes = np.ones(len(values))
    np.maximum.at(sizes, terms.row, np.abs(terms.data * z[terms.col]))
    outside = [(floor - values) / sizes, (values - ceiling) / sizes, low - z, z - high]
    gap = max(float(side.max(initial=0.0)) for side in outside)
    idle = 0.0
    for multipliers, side in ((lower, low), (upper, high)):
        push = np.where(given, 0.0, multipliers)
        room = np.where(np.isfinite(side), z - side, 1.0)  # no bound has no multiplier
        wrong = max(np.abs(push * room).max(initial=0.0), -push.min(initial=0.0))
        idle = max(idle, float(wrong) / scale)
    return float(np.abs(total).max(initial=0.0)) / scale, gap, idle


def apart(one: float, other: float) -> float:
    """Relative difference of two numbers."""
    return abs(one - other) / max(abs(one), abs(other), 1e-300)


def _objective(solution: Solution | Fit, cost: float) -> str:
    return f"objective {solution.objective:.10g} to {cost:.1e}"


def _of_its_objective(problem: Discretisation, solution: Solution) -> Discretisation:
    """The problem whose objective the solution has: as it is, or with the standard deviations that
    were estimated."""
    std = {each.group: each.std for each in solution.noise}
    plain = apart(problem.cost(solution.free_vector), solution.objective) <= _SAME
    return problem if plain or not std else problem.with_std(std)
