"""Discretisation error of a solution of collocation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.fitting.curvature import Curvature
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.finer_scheme import finer
from kinesym.internal.fitting.scaling import objective_size
from kinesym.internal.problems.controls import Continuous
from kinesym.runtime.arrays import Array
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.grid_error import Ended, Freed, GridDefects, freed_inputs, grid_defects
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.results.grid_error import GridError
from kinesym.runtime.statistics.factors import Entries
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.undetermined import solver
from kinesym.symbolic.names import by_name, t
from kinesym.symbolic.problem import Problem

#: Up to this share of the range of a state a step of Newton's method is taken as it is.
_FLAT = 1e-2
#: Ratio of standard errors from which on it matters that inputs are not free in intervals.
_WIDER = 1.15
#: Share of the way of an input that it goes back at once, from which on it oscillates: 0.6 to 0.95
#: along singular arcs of published problems, less than 0.45 elsewhere.
_BACK = 0.5
#: Range of an input, as a share of its size, below which it is constant.
_CONSTANT = 1e-6
#: The key of the objective among values.
_J = "objective"


def grid_error(here: Curvature) -> GridError:
    """Discretisation error of a solution: the shift from this grid and scheme to a finer scheme.

    One solution with the KKT matrix there turns the defects of the intervals (see
    `kinesym.runtime.nlp.defects`) into shifts, as a step of Newton's method from this scheme to the
    finer one would. A problem without objective has no one solution: the shift is the smallest one.

    Where the matrix is singular or the equations cannot be solved, the shifts are NaN, and the note
    says why.
    """
    whole, solution, scheme = here.problem, here.solution, here.problem.scheme
    problem, nlp, trials = whole.symbolic, whole.nlp, whole.trials
    variance = here.estimation.variance(solution.noise)
    functions, numbers = whole.point_functions, finer(scheme)
    layout, z, note = nlp.layout, solution.free_vector, ""
    slopes = layout.parameter_slopes(z)
    shift, deviations = np.full(nlp.n_variables, np.nan), dict[str, float]()
    unknown = [np.full((len(layout.states), N - 1), np.nan) for N in layout.nodes]
    found, freer = GridDefects(unknown, gains=[ends[0] for ends in unknown]), dict[str, float]()
    try:
        ended = Ended(z, solution.multipliers, whole.variable_bounds, problem.limited_inputs)
        found = grid_defects(nlp, functions, numbers, trials, ended)
        if problem.aimless:
            here = replace(here, kkt=replace(here.kkt, hessian=_metric(nlp, z)))
        matrix, deviations = _identified(here, variance)
        shift = _shifts(nlp, z, found, matrix)
        told = {name: sd for name, sd in deviations.items() if sd > 0.0}
        more = freed_inputs(nlp, functions, numbers, trials, ended) if told else None
        if more is not None and not np.isnan(variance):
            wider, moved = _freer(problem, nlp, z, found, matrix, more, variance)
            freer = {name: wider[name] for name in told if not wider[name] <= _WIDER * told[name]}
            shift = moved if freer else shift
    except np.linalg.LinAlgError:
        note = "the equations cannot be solved for the states along the solution"
    except MemoryError:
        note = "there is not enough memory for the matrices of the intervals"
    except ValueError as error:
        note = str(error)
    runs, local = solution.trials, np.concatenate(found.ends, axis=1)
    moving = [x for x in layout.states if x not in problem.model.vanishing]
    courses = [
        layout.courses(shift, k, nlp.about.stages, nlp.about.to_ends) for k in range(len(runs))
    ]
    sized = not (problem.aimless or problem.objective.least_squares)
    values = dict(solution.parameters) | ({} if problem.aimless else {_J: solution.objective})
    values |= {f"duration {k}": float(T) for k, T in enumerate(layout.durations(z))}
    return GridError(
        scheme=scheme.title,
        order=scheme.order,
        begin=np.concatenate([run.time[:-1] for run in runs]),
        trial=np.repeat(np.arange(len(runs)), [N - 1 for N in layout.nodes]),
        time=np.concatenate([run.time for run in runs]),
        defects={x: local[layout.states.index(x)] for x in moving},
        gains=np.concatenate(found.gains),
        states={x: np.concatenate([c[x] for c in courses]) for x in moving},
        inputs={u: np.concatenate([c[u] for c in courses]) for u in layout.inputs},
        parameters=_named(layout.parameters, slopes * layout.parameter_values(shift)),
        deviations=deviations,
        freer=freer,
        durations=_durations(problem, layout.durations(shift), found.gains),
        objective=float(found.objective),
        values=values,
        ranges={x: _range(np.concatenate([r[x] for r in runs])) for x in moving},
        fitted=bool(problem.objective.least_squares),
        timed=problem.asks_for_time,
        objective_size=objective_size(whole, z) if sized else 0.0,
        oscillating=_oscillating(layout, z, _continuous(whole)) if sized else [],
        note=note,
        units=problem.model.units,
    )


def _durations(problem: Problem, shifts: Array, gains: Sequence[Array]) -> list[float]:
    """Shifts of durations; of a least one that is all of the objective with what it would gain if
    inputs jumped within intervals, which is no shift of what they are at the nodes."""
    aim = problem.objective
    least = aim.terminal == t and aim.integrand == 0 and not aim.least_squares
    more = [float(own.sum()) if least else 0.0 for own in gains]
    return [float(shift) + own for shift, own in zip(shifts, more, strict=False)]


def _continuous(problem: Discretisation) -> list[str]:
    """Names of unknown inputs that are continuous: states by now."""
    free = by_name(problem.formulation.question.unknown_inputs or {}, None, "unknown_inputs")
    return [name for name, kind in free.items() if isinstance(kind, Continuous)]


def _oscillating(layout: Layout, z: Array, continuous: Sequence[str]) -> list[str]:
    """Unknown inputs that go back after most steps, in any trial: those with values at several
    stages of intervals from one stage to the next, and continuous ones, whose rates may do so."""
    rates, found = {f"{name}_rate" for name in continuous}, list[str]()
    for trial, N in enumerate(layout.nodes):
        courses = {
            name: values.T.ravel()  # in the order of time
            for name, values in layout.staged(z, trial).items()
            if name in layout.inputs and len(values) > 1 and name not in rates
        }
        for x in continuous:
            rows = [(p or 0.0, row) for name, p, row in layout.named_rows(z, trial) if name == x]
            order = np.argsort(np.concatenate([p + np.arange(N)[: len(row)] for p, row in rows]))
            courses[x] = np.concatenate([row for _, row in rows])[order]
        found += [name for name, course in courses.items() if _turns_back(course)]
    return list(dict.fromkeys(found))


def _turns_back(course: Array) -> bool:
    """Whether a course goes back after most steps."""
    steps = np.diff(course)
    turns = steps[:-1] * steps[1:] < 0.0
    back = np.minimum(np.abs(steps[:-1]), np.abs(steps[1:]))[turns].sum()
    moves = np.ptp(course) > _CONSTANT * np.abs(course).max()
    return bool(moves and back > _BACK * np.abs(steps).sum())


def _range(values: Array) -> float:
    """Range of a state over all trials, but for those that lack it."""
    known = values[~np.isnan(values)]
    return float(np.ptp(known)) if len(known) else np.nan


def _metric(nlp: NLP, z: Array) -> Entries:
    """A Hessian for problems without objective: of all changes the smallest, relative to the size
    of each trajectory."""
    size = np.ones(nlp.n_variables)
    for trial in range(len(nlp.layout.nodes)):
        values = zip(nlp.layout.rows(size, trial), nlp.layout.rows(z, trial), strict=True)
        for (_, sizes), (_, rows) in values:
            largest = np.abs(rows).max(axis=1, keepdims=True)
            sizes[:] = np.where(largest > 0.0, largest, 1.0)
    every = np.arange(nlp.n_variables)
    return every, every, size**-2.0


def _identified(here: Curvature, variance: float) -> tuple[Kkt, dict[str, float]]:
    """The matrix with as many parameters fixed as the others need to be determined, and standard
    errors, NaN for those that nothing determines."""
    problem, layout, z = here.problem.symbolic, here.problem.layout, here.z
    names, mine = layout.parameters, layout.parameter_offset + np.arange(len(layout.parameters))
    spread = np.diag(here.inverse()) * layout.parameter_slopes(z) ** 2
    known = _deviations(problem, names, spread, variance)
    sizes = zip(names, np.abs(layout.natural(z)[mine]), strict=True)
    if problem.aimless or all(known.get(name, 0.0) <= size for name, size in sizes):
        return here.kkt, known
    signs = here.spreads.signs
    known |= {name: np.nan for name, sign in zip(names, signs, strict=True) if not sign > 0.0}
    return here.kkt if (signs > 0.0).all() else here.holding(_to_fix(here, signs)).kkt, known


def _to_fix(here: Curvature, signs: Array) -> NDArray[np.bool_]:
    """Parameters (r,) that are fixed, one after the other, until the curvature along all others is
    positive; signs : of the curvature, (r,)."""
    reduced, fixed = here.reduced, np.zeros(len(signs), dtype=bool)
    while not (signs > 0.0).all():
        fixed[np.argmin(signs > 0.0)] = True
        signs = reduced.signs(fixed) if reduced else here.holding(fixed).spreads.signs
    return fixed


def _freer(
    problem: Problem,
    nlp: NLP,
    z: Array,
    found: GridDefects,
    kkt: Kkt,
    more: Freed,
    variance: float,
) -> tuple[dict[str, float], Array]:
    """Standard errors of parameters, and shifts of all variables, if inputs could do besides what
    the scheme does not allow within intervals; NaN for what nothing would determine then."""
    n, w, names = len(kkt.stiffness), len(more.gradient), nlp.layout.parameters
    mine = nlp.layout.parameter_offset + np.arange(len(names))
    assert kkt.stages is not None and kkt.sizes is not None
    wider = replace(
        kkt,
        hessian=_joined(kkt.hessian, more.hessian),
        jacobian=_joined(kkt.jacobian, more.jacobian),
        stiffness=np.append(kkt.stiffness, np.zeros(w)),
        stages=np.append(kkt.stages, more.stages),
        sizes=np.append(kkt.sizes, np.zeros(w)),
        workspace=Workspace(),
    )
    side, spread = -np.append(found.gradient, more.gradient)[:, None], np.full(len(names), np.nan)
    shift = np.full(n, np.nan)
    with suppress(ValueError):
        spread = np.diag(solver(wider).inverse(mine)) * nlp.layout.parameter_slopes(z) ** 2
        shift = solver(wider).solve(side, found.rows[:, None])[:n, 0]
    return _deviations(problem, names, spread, variance), shift


def _joined(one: Entries, other: Entries) -> Entries:
    i, j, values = (np.concatenate(each) for each in zip(one, other, strict=True))
    return i, j, values


def _shifts(nlp: NLP, z: Array, found: GridDefects, kkt: Kkt) -> Array:
    """Shifts of all variables.

    Along singular arcs the objective is so flat that a small gradient asks for a large step, which
    means nothing: beyond `_FLAT` only what the constraints ask for counts.
    """
    layout = nlp.layout
    factors, rows = solver(kkt), found.rows[:, None]
    shift = factors.solve(-found.gradient[:, None], rows)[:, 0]
    largest = 0.0
    for trial in range(len(layout.nodes)):
        steps = layout.trajectories(shift, trial)
        ranges = np.ptp(layout.trajectories(z, trial), axis=1)
        rated = [k for k, name in enumerate(layout.at_nodes) if name in layout.states]
        shares = np.abs(steps[rated]).max(axis=1) / np.where(ranges > 0.0, ranges, np.inf)[rated]
        largest = max(largest, float(shares.max(initial=0.0)))
    if not largest <= _FLAT:
        shift = factors.solve(np.zeros((nlp.n_variables, 1)), rows)[:, 0]
    return np.asarray(shift)


def _named(names: Sequence[str], values: Array) -> dict[str, float]:
    return dict(zip(names, map(float, values), strict=True))


def _deviations(
    problem: Problem, names: Sequence[str], spreads: Array, variance: float
) -> dict[str, float]:
    """Standard errors of parameters of a fit, those of the covariance; NaN for those that nothing
    determines, also if it is no fit."""
    pairs = list(zip(names, spreads.tolist(), strict=True))
    if not problem.objective.least_squares or np.isnan(variance):
        return {name: np.nan for name, spread in pairs if not spread >= 0.0}
    return {
        name: float(np.sqrt(2.0 * variance * spread)) if spread >= 0.0 else np.nan
        for name, spread in pairs
    }
