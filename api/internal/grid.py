"""The error of the grid at a solution of collocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kinesym.codegen.point import point_program
from kinesym.internal.finer import finer
from kinesym.internal.pipeline import realise
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.grid import GridDefects, grid_defects
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.results.grid_error import GridError
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.statistics import Kkt, without_held
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme


def grid_error(
    problem: Problem,
    nlp: NLP,
    trials: Sequence[Experiment],
    known: Mapping[str, float],
    solution: Solution,
    kkt: tuple[Kkt, NDArray[np.intp]],
) -> GridError:
    """What the grid does to a solution.

    One solution with the KKT matrix there turns the defects of the intervals (see
    `kinesym.runtime.nlp.defects`) into shifts, as a step of Newton's method from this scheme to the
    finer one would. known : values of the known parameters. kkt : of `kkt_at`.

    Where the matrix is singular or the equations cannot be solved, the shifts are NaN, and the note
    says why.
    """
    scheme, layout = problem.scheme, nlp.layout
    assert isinstance(scheme, CollocationScheme)
    functions = PointFunctions(realise(point_program(problem)), known)
    shift, inverse, note = np.full(nlp.n_variables, np.nan), np.zeros((0, 0)), ""
    ends = [np.full((len(layout.states), N - 1), np.nan) for N in layout.nodes]
    objective = np.nan
    try:
        found = grid_defects(
            nlp, functions, finer(scheme), trials, solution.free_vector, solution.multipliers
        )
        ends, objective = list(found.ends), found.objective
        shift, inverse = _shifts(nlp, found, *kkt)
    except np.linalg.LinAlgError:
        note = "the equations cannot be solved for the states along the solution"
    except ValueError as error:
        note = str(error)
    courses = [
        layout.courses(shift, k, nlp.about.stages, nlp.about.to_ends) for k in range(len(trials))
    ]
    whole = {name: np.concatenate([c[name] for c in courses]) for name in courses[0]}
    states = {x: np.concatenate([run[x] for run in solution.trials]) for x in layout.states}
    durations = layout.durations(shift).tolist()
    values = {**solution.parameters, "objective": solution.objective}
    for k, T in enumerate(layout.durations(solution.free_vector)):
        values[f"duration {k}"] = float(T)
    return GridError(
        scheme=scheme.title,
        order=scheme.order,
        begin=np.concatenate([run.time[:-1] for run in solution.trials]),
        trial=np.repeat(np.arange(len(trials)), [N - 1 for N in layout.nodes]),
        time=np.concatenate([run.time for run in solution.trials]),
        defects=dict(zip(layout.states, np.concatenate(ends, axis=1), strict=True)),
        states={x: whole[x] for x in layout.states},
        inputs={u: whole[u] for u in layout.inputs},
        parameters=_named(layout.parameters, layout.parameter_values(shift)),
        deviations=_deviations(problem, layout.parameters, inverse, trials, solution.objective),
        durations=durations,
        objective=float(objective),
        values=values,
        ranges={x: float(np.ptp(row)) for x, row in states.items()},
        fitted=bool(problem.objective.least_squares),
        note=note,
    )


def _shifts(
    nlp: NLP, found: GridDefects, kkt: Kkt, active: NDArray[np.intp]
) -> tuple[Array, Array]:
    """Shifts of all variables, and the block of the parameters in the inverse of the matrix."""
    layout = nlp.layout
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    variables = np.zeros((nlp.n_variables, 1 + len(mine)))
    variables[:, 0] = -found.gradient
    variables[mine, 1 + np.arange(len(mine))] = 1.0
    constraints = np.zeros((len(active), 1 + len(mine)))
    constraints[:, 0] = found.rows[active]
    solved = kkt.solve(variables, constraints)
    return solved[:, 0], without_held(solved[mine, 1:], kkt.stiffness[mine])[0]


def _named(names: Sequence[str], values: Array) -> dict[str, float]:
    return dict(zip(names, map(float, values), strict=True))


def _deviations(
    problem: Problem,
    names: Sequence[str],
    inverse: Array,
    trials: Sequence[Experiment],
    objective: float,
) -> dict[str, float]:
    """Standard errors of parameters of a fit, whose residuals have the variance that they show."""
    samples = sum(
        int(np.isfinite(y).sum()) for trial in trials for y in trial.measurements.values()
    )
    spare = samples - len(names)
    if not (problem.objective.least_squares and inverse.size and spare > 0):
        return {}
    return _named(names, np.sqrt(2.0 * np.diag(inverse) * abs(objective) / spare))
