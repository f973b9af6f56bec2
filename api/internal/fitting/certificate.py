"""Certificate of a solution: standard errors of estimates, discretisation error, remarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import numpy as np

from kinesym.internal.fitting.curvature import Curvature, prior_squares
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.grid_error import grid_error
from kinesym.internal.fitting.inference import inference
from kinesym.internal.fitting.passed_bounds import passed_between_nodes
from kinesym.internal.fitting.trajectories import Open, idle, undetermined
from kinesym.runtime.delays.breaks import breaks_between_nodes
from kinesym.runtime.estimation.estimation import Residuals
from kinesym.runtime.estimation.noise import with_noise
from kinesym.runtime.native import Workspace
from kinesym.runtime.results.estimates import NO_ERRORS
from kinesym.runtime.results.grid_error import GridError
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.solution import Solution


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

    @cache
    def here() -> Curvature:
        return Curvature.at(problem, solution, workspace)

    made = partial(certified, here, solution)
    found = kept("errors of estimates and of the grid", made, partial(without, solution))
    judged = partial(_judged, asked, here, found)
    return kept("remarks on standard deviations", judged, partial(without, found))


def _judged(asked: Discretisation, here: Callable[[], Curvature], solution: Solution) -> Solution:
    """The solution of a fit with its likelihood and what is said of standard deviations."""
    estimation, directions = asked.estimation, solution.problem.get("directions")
    if not (solution.success and estimation.factor):
        return solution
    runs = with_noise(solution.trials, asked.trials, solution.noise)
    squares = prior_squares(asked, solution.free_vector)
    about = (asked.free_directions, directions, squares)

    def residuals() -> Residuals:
        return here().residuals()

    found = estimation.judged(replace(solution, trials=runs), residuals, *about)
    if not estimation.integrated:
        return found
    if directions is None or (estimation.mixed and not asked.formulation.noisy):
        return replace(found, likelihood=[])
    # what the matrix leaves free is integrated out: what is drawn, and what nothing was known of
    drawn = int(asked.population.random.sum())
    drawn += len(asked.formulation.noises) * sum(nodes - 1 for nodes in asked.layout.nodes)
    likelihood = [replace(each, integrated=directions - drawn) for each in found.likelihood]
    return replace(found, likelihood=likelihood)


def certified(made: Callable[[], Curvature], solution: Solution) -> Solution:
    """Add the discretisation error to a solution that has converged; Ctrl-C leaves that out.
    made : the curvature there."""
    if not solution.success:
        return solution
    start = time.perf_counter()
    try:
        here = made()
        problem, free = here.problem, here.directions
        here = replace(here, solution=replace(here.solution, noise=here.noise()))
        solution = _with_errors(here)
        error = _grid_error(here, solution)
        if any(name in error.states for name in error.oscillating):
            note = f"{error.scheme} lets an input oscillate: use {error.remedy}"
            solution = replace(solution, notes=[*solution.notes, note])
        with suppress(MemoryError):  # as the error of the grid, nothing that a solution needs
            if not problem.symbolic.aimless and here.kkt.singular:
                more = undetermined(problem.symbolic, problem.layout, here.kkt)
                solution = _without(problem, more, solution)
    except KeyboardInterrupt:
        return solution
    seconds = time.perf_counter() - start
    timings = {**solution.timings, "grid": seconds}
    timings["total"] += seconds
    directions = {} if free is None else {"directions": free}
    sizes = {**solution.problem, **directions}
    return replace(solution, grid=[error], timings=timings, problem=sizes)


def _with_errors(here: Curvature) -> Solution:
    """The solution of a fit with the errors of its parameters, or why they are not known."""
    solution, estimation, lost = here.solution, here.estimation, list[str]()
    if estimation.factor and here.problem.layout.parameters and not estimation.integrated:
        try:
            if np.isnan(estimation.variance(solution.noise)):
                lost = ["; ".join(here.undetermined())]
            else:
                solution = replace(solution, uncertainty=[here.uncertainty()])
        except ValueError as error:
            lost = [f"{NO_ERRORS}: {error}"]
            solution = replace(solution, no_errors=str(error))
    solution = replace(solution, notes=[*solution.notes, *filter(None, lost)])
    return replace(solution, inference=partial(inference, here.problem, solution))


def _grid_error(here: Curvature, solution: Solution) -> GridError:
    """The error of the grid, with standard errors as they are known."""
    problem, estimation = here.problem, here.estimation
    error = grid_error(here)
    lags = problem.per_trial.lags(problem.formulation.lags)
    given = (lags, problem.layout.states, problem.trials, solution.trials)
    unseen = [breaks_between_nodes(*given, problem.scheme.order)]
    unseen += [passed_between_nodes(problem, solution.free_vector)]
    unseen += ["the jump between two nodes is not counted"] * problem.formulation.between
    error = replace(error, unseen="; ".join(filter(None, unseen)))
    if estimation.integrated:  # the shifts are those with the parameters held
        return replace(error, parameters={}, deviations={})
    for about in solution.uncertainty if error.deviations else ():
        own = zip(about.names, map(float, about.deviations()), strict=True)
        known = {name: sd for name, sd in own if not np.isnan(sd)}
        error = replace(error, deviations={**error.deviations, **known})
    return error


def _without(problem: Discretisation, more: Open, solution: Solution) -> Solution:
    """Hide entries of the solution that nothing determines."""
    hidden = more.hidden | idle(problem.layout, problem.ends).hidden | problem.absent
    trials = problem.trajectories(solution.free_vector, hidden)
    return replace(solution, trials=trials, notes=[*solution.notes, *more.notes])
