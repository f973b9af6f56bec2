"""Identifiable combinations (k/m, a + b) of parameters that a fit by collocation cannot identify
singly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start
from kinesym.runtime.ipopt.solve import SolverOptions, solve
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.results.series import squares_of_samples
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.statistics.exchange import Exchange, KnownAs, known_as

#: Iterations after which a problem with parameters held counts as not solved.
_ITERATIONS = 200


def known_of_solution(
    layout: Layout,
    problem: IpoptProblem,
    best: Solved,
    runs: Sequence[Trajectory],
    directions: Array | None,
    variance: float,
) -> Sequence[KnownAs]:
    """Identifiable combinations, from solutions with the parameters held elsewhere.

    directions : null directions of the parameters, (r, m). runs : trajectories, with standard
    deviations. variance : of the samples in units of the objective.
    """
    if directions is None or not directions.shape[1]:
        return []
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    low, high = (layout.owned.natural(bound[mine]) for bound in problem.bounds)
    values = layout.owned.natural(best.z[mine])

    def rise(which: NDArray[np.intp], moved: Array) -> float:
        held = values.copy()
        held[which] = moved
        entries = layout.owned.entries(held)[which]
        found = _held_at(problem, best, mine[which], entries, variance)
        return found.objective - best.objective if found.status.success else np.inf

    every = Exchange(layout.parameters, values, directions, (low, high))
    return known_as(every, rise, variance, squares_of_samples(runs))


def _held_at(
    problem: IpoptProblem, best: Solved, places: NDArray[np.intp], values: Array, variance: float
) -> Solved:
    """The minimum near a solution with entries of z held."""
    bounds = low, high = problem.bounds[0].copy(), problem.bounds[1].copy()
    low[places] = high[places] = values
    start = Start(np.clip(best.z, *bounds), best.multipliers)
    scale = 1.0 / max(variance, np.finfo(float).tiny)
    chosen = SolverOptions({"max_iter": _ITERATIONS, "obj_scaling_factor": scale})
    return solve(replace(problem, bounds=bounds), start, chosen, lambda step: None)
