"""Problems on the grids of their solutions."""

from __future__ import annotations

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.nlp.sensor_delays import placed
from kinesym.runtime.results.solution import Solution


def fits(problem: Discretisation, solution: Solution) -> bool:
    """Whether `solution` has the free vector and the constraints of this problem."""
    layout, other = problem.layout, solution.problem
    return (
        list(solution.parameters) == problem.estimated
        and other.get("nodes") == layout.nodes
        and other.get("arrays") == layout.arrays
        and other.get("scheme") == problem.symbolic.scheme.name
        and other.get("log_scale", []) == sorted(problem.symbolic.log_scale)
        and solution.free_vector.shape == (problem.n_variables,)
        and solution.multipliers.shape == (problem.n_constraints,)
    )


def on_grid_of(problem: Discretisation, solution: Solution) -> Discretisation:
    """Problem on the grid of a solution, with the same redundant conditions loosened; itself if
    it is that problem already. Raises `ValueError` for a solution of another problem."""
    apart = [(i, family, k, room) for i, family, k, room in solution.problem.get("apart", ())]
    if {*apart} != {*problem.per_trial.loosened}:
        return on_grid_of(problem.loosen(apart), solution)
    if fits(problem, solution):
        delays = solution.problem.get("delays", [])
        same = not delays or delays == problem.delays
        return problem if same else problem.on(placed(problem.trials, delays))
    grids = [run.time for run in solution.trials]
    if problem.layout.free_duration:
        grids = [(t - t[0]) / (t[-1] - t[0]) for t in grids]
    if len(grids) == len(problem.trials):
        pairs = zip(problem.trials, grids, strict=True)
        made = problem.on([trial.on_grid(grid) for trial, grid in pairs])
        if fits(made, solution):
            return on_grid_of(made, solution)
    raise ValueError("this is a solution of another problem, or by another scheme")
