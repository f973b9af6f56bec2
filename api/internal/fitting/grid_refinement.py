"""Grid refinement: solutions on finer and finer grids, until the discretisation error is small
enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.refined_grids import (
    many_nodes,
    no_longer_falls,
    refined_trials,
    stepped_trials,
    too_many_nodes,
)
from kinesym.internal.fitting.scaling import NEAR
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.fitting.solving import Solver
from kinesym.runtime.progress import say
from kinesym.runtime.results.solution import Solution

#: Refinements of the grid for one `tolerance_grid`, at most.
_ROUNDS = 20
#: After so many refinements in turn that do not help there are no more.
_STALLED = 2
#: Share of the best error so far above which a refinement does not help.
_HELPS = 0.7


def on_finer_grids(problem: Discretisation, solution: Solution, most: float) -> Discretisation:
    """The problem on grids adapted to the error of a solution of it, which is then `most`; solves
    begin with that solution."""
    error, here = solution.grid_error(), on_grid_of(problem, solution)
    trials = refined_trials(here.trials, error, here.scheme.order, most, here.instants)
    return replace(here.on(trials), start=solution)


def on_steps(problem: Discretisation, guess: Any, most_nodes: int) -> Discretisation:
    """The problem on grids as dense as the steps of a simulation by a guess; itself where there is
    none, or one of too many steps, and of a guess that has trajectories (N,)."""
    if isinstance(guess, Mapping) and any(np.ndim(value) for value in guess.values()):
        return problem
    ends = FirstGuess(problem).steps(guess)
    if ends is None or sum(map(len, ends)) > most_nodes:
        return problem
    return problem.on(stepped_trials(problem.trials, ends))


def until(solver: Solver, solution: Solution, most: float, most_nodes: int) -> Solution:
    """Solutions on refined grids until the error is at most `most`, or falls no longer, or a grid
    would have more than `most_nodes`: the best one, with a note where that is not reached."""
    problem, latest, best, stalled, why = solver.problem, solution, solution, 0, ""
    order = problem.scheme.order
    for round_ in range(_ROUNDS):
        if not (latest.success and latest.grid) or best.grid_error().largest <= most:
            break
        if stalled == _STALLED:
            bounds = on_grid_of(problem, best).variable_bounds
            why = no_longer_falls(best, bounds, solver.chosen)
            break
        say(solver.progress, f"grid {round_}: {latest.grid_error().summary}")
        problem = on_finer_grids(problem, latest, most)
        if sum(problem.layout.nodes) > most_nodes:
            why = too_many_nodes(sum(problem.layout.nodes), most_nodes, order)
            break
        begin = FirstGuess(problem).pack(latest)
        latest = _near(solver, problem).fitted(begin, latest)
        if latest.success and latest.grid:
            helps = latest.grid_error().largest < _HELPS * best.grid_error().largest
            stalled = 0 if helps else stalled + 1
            best = min(best, latest, key=_error)
    if not best.grid:
        return best
    resists = best.grid_error().resists(most)
    notes = [] if latest.success else [f"on a finer grid: {latest.message}"]
    notes += [f"{resists}; {why}" if why else resists] if resists else []
    if not notes:
        nodes = sum(on_grid_of(problem, best).layout.nodes)
        notes = many_nodes(nodes, sum(solver.problem.layout.nodes), order)
    return replace(best, notes=[*best.notes, *notes])


def _near(solver: Solver, problem: Discretisation) -> Solver:
    """The solver for a problem that begins near its solution, of fits with a small barrier."""
    fit, own = problem.symbolic.objective.least_squares, solver.chosen.options
    options = {"mu_init": NEAR, **own} if fit and "mu_strategy" not in own else own
    return replace(solver, problem=problem, chosen=replace(solver.chosen, options=options))


def _error(solution: Solution) -> float:
    """The error of its grid; infinite where that is not known."""
    return float(np.nan_to_num(solution.grid_error().largest, nan=np.inf))
