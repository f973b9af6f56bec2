"""Certificate of a solution: standard errors of estimates, discretisation error, remarks."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from kinesym.internal.fitting.delay_breaks import breaks_between_nodes
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.estimation import Estimation
from kinesym.internal.fitting.grid import grid_error
from kinesym.internal.fitting.trajectories import Open, idle, undetermined
from kinesym.runtime.native import Workspace
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.grid_error import GridError
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.leverage import free_directions


def told(
    asked: Discretisation,
    solution: Solution,
    problem: Discretisation,
    workspace: Workspace | None = None,
) -> Solution:
    """Certify a solution: add everything that is computed about it. problem : the one that was
    asked, with the standard deviations that were found; workspace : factors that its solver has
    left."""

    def without(found: Solution, notes: list[str]) -> Solution:
        return replace(found, notes=[*found.notes, *notes])

    made = partial(certified, problem, solution, workspace)
    found = kept("errors of estimates and of the grid", made, partial(without, solution))
    judged = partial(Estimation(asked).judged, found)
    return kept("remarks on standard deviations", judged, partial(without, found))


def certified(
    problem: Discretisation, solution: Solution, workspace: Workspace | None = None
) -> Solution:
    """Add the discretisation error to a solution that has converged; Ctrl-C leaves that out."""
    if not solution.success:
        return solution
    start, about = time.perf_counter(), Estimation(problem)
    try:
        kkt = about.kkt(solution, workspace)
        solution = about.with_noise(solution, kkt)
        free = free_directions(kkt) if problem.symbolic.objective.least_squares else None
        directions = {} if free is None else {"directions": free}
        errors = about.uncertainty(solution, kkt)
        error = _grid_error(problem, solution, kkt, errors)
        solution = about.asked_again(solution, errors)
        with suppress(MemoryError):  # as the error of the grid, nothing that a solution needs
            if not problem.symbolic.aimless and kkt.singular:
                more = undetermined(problem.symbolic, problem.layout, kkt)
                solution = _without(problem, more, solution)
    except KeyboardInterrupt:
        return solution
    seconds = time.perf_counter() - start
    timings = {**solution.timings, "grid": seconds}
    timings["total"] += seconds
    sizes = {**solution.problem, **directions}
    return replace(solution, grid=[error], timings=timings, problem=sizes)


def _grid_error(
    problem: Discretisation, solution: Solution, kkt: Kkt, errors: Uncertainty | str
) -> GridError:
    """Discretisation error, with standard errors as they are known. errors : of the estimates."""
    about = Estimation(problem)
    variance = about.variance(solution)
    error = grid_error(
        problem.symbolic,
        problem.scheme,
        problem.libraries.exact,
        problem.nlp,
        problem.trials,
        problem.known,
        solution,
        kkt,
        problem.variable_bounds,
        variance,
    )
    if isinstance(errors, Uncertainty) and error.deviations:
        own = zip(errors.names, map(float, errors.deviations()), strict=True)
        known = {name: sd for name, sd in own if not np.isnan(sd)}
        error = replace(error, deviations={**error.deviations, **known})
    lags = problem.per_trial.lags(problem.formulation.lags)
    given = (lags, problem.layout.states, problem.trials, solution.trials)
    unseen = [breaks_between_nodes(*given, problem.scheme.order)]
    unseen += ["the jump between two nodes is not counted"] * problem.formulation.between
    error = replace(error, unseen="; ".join(filter(None, unseen)))
    if about.integrated:  # the shifts are those with the parameters held
        error = replace(error, parameters={}, deviations={})
    return error


def _without(problem: Discretisation, more: Open, solution: Solution) -> Solution:
    """Hide entries of the solution that nothing determines."""
    hidden = more.hidden | idle(problem.layout, problem.ends).hidden | problem.absent
    trials = problem.trajectories(solution.free_vector, hidden)
    return replace(solution, trials=trials, notes=[*solution.notes, *more.notes])
