"""Multistart of shooting: many starts side by side in one batch, else one solve each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.base import checks
from kinesym.codegen.tangents import tangent_program
from kinesym.internal.fitting.starts import Search, correlated, searched, size_of
from kinesym.internal.problems.pipeline import realise
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.progress import task_bar
from kinesym.runtime.results.fit import Fit, Step, typical_sizes
from kinesym.runtime.results.multistart import Found
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.batched_squares import Iterates, Problem, Rows, Squares, minimised
from kinesym.runtime.shooting.batched_trials import SideBySide, members_of_group
from kinesym.runtime.shooting.identification import Ended, Identification
from kinesym.runtime.shooting.scaled import Chosen, Scale, log_of
from kinesym.runtime.shooting.smooth_trials import SmoothTrials
from kinesym.runtime.simulation.stepper import Diverged, Stepper
from kinesym.runtime.status import Solve
from kinesym.symbolic import problem as symbolic
from kinesym.symbolic.schemes import EXPLICIT

#: Most states and derivatives that are stepped as one: a limit of code.
_MOST_ROWS = 200
#: Most of these at all nodes: a limit of memory.
_MOST_NUMBERS = 2_000_000

#: Share of J of a model that says zero, by which a step may still lower J at the end.
_ROUNDING = 1e-20

#: Makes a fit of iterates that end at a minimum.
Whole = Callable[[Sequence[Step]], Any]


def shooting_points(
    given: ShootingArguments,
    q: Array,
    rows: Array,
    runs: Callable[[], Sequence[Trajectory]],
    search: Search,
) -> Array:
    """The unknowns of each start, (S, n): q, with the parameters in `rows`, (S, r). Of what nothing
    measures, starts, states between segments and inputs are q plus noise of a correlation time, of
    `detour` times what the guess ranges over; runs : the guess, simulated. Starts are those of q
    where that simulation does not reach its end."""
    unknowns, generator = given.unknowns, np.random.default_rng([search.seed, 1])
    made = np.tile(q, (len(rows), 1))
    made[:, : rows.shape[1]] = rows
    states = unknowns.states if unknowns.several else unknowns.initial
    seen = {name for trial in given.trials for name in trial.measured}
    moved = [name for name in (*states, *unknowns.inputs) if name not in seen]
    try:
        about = runs() if moved else ()
    except Diverged:  # the guess is a bad point, as others may be
        if unknowns.several or unknowns.inputs:
            raise
        about = ()
    for point in made[1:]:
        for name in moved:
            for k, run in enumerate(about):
                noise = correlated(given.fine[k].grid, generator)
                _add(given, point, k, name, search.detour * size_of(run[name]) * noise)
    return np.clip(made, *given.bounds)


def _add(given: ShootingArguments, q: Array, trial: int, name: str, course: Array) -> None:
    """Add a course at the nodes of a trial to what q has of it, a view."""
    unknowns, N = given.unknowns, given.unknowns.nodes[trial]
    if name in unknowns.inputs:
        row = unknowns.inputs.index(name)
        q[unknowns.samples(trial)].reshape(-1, N)[row] += course
        return
    if name in unknowns.initial:
        q[unknowns.starts(trial)][unknowns.initial.index(name)] += course[0]
    begins = unknowns.segments[trial][1:]
    inner = q[unknowns.boundaries(trial)].reshape(len(begins), len(unknowns.states))
    inner[:, unknowns.states.index(name)] += course[list(begins)]


# -- side by side ------------------------------------------------------------------------------


class Together(NamedTuple):
    """Makes J of many starts at once, for a thread, and how many that are."""

    squares: Callable[[threading.Event], SideBySide]
    members: int


def together(
    given: ShootingArguments, problem: symbolic.Problem | None, task: Identification
) -> Together | None:
    """Squares of many starts to be minimised side by side. None where they are solved one by one:
    hybrid models, delays, initial values that follow from parameters, segments, unknown inputs,
    other objectives than measurements, standard deviations on which estimates depend, implicit
    methods, those that choose their steps, and problems that are too large."""
    trials, unknowns, method = task.trials, given.unknowns, EXPLICIT.get(given.steps.method)
    if problem is None or method is None or given.steps.adaptive:
        return None
    if not isinstance(trials, SmoothTrials):
        return None
    measured = trials.measured and trials.weighted and trials.factor > 0.0
    measured = measured and not (task.reweighs or trials.scored)
    at_nodes = [*problem.sampled(between=False)]
    late = bool(given.delays or given.model.delays or any(given.following)) or len(at_nodes) < len(
        problem.measurements
    )
    if not measured or late or unknowns.inputs or unknowns.several:
        return None
    width = len(unknowns.owned.parameters) + len(unknowns.initial)
    rows = len(unknowns.states) * (1 + width)
    if rows > _MOST_ROWS or rows * max(unknowns.nodes) > _MOST_NUMBERS:
        return None
    built = _tangents(problem, tuple(at_nodes), len(unknowns.initial))
    stepper = Stepper.of(built, method.name)
    about = (given.fine, given.known, given.starts, at_nodes)
    counted = (trials.factor, trials.loss, trials.priors)
    squares = partial(SideBySide, stepper, unknowns, *about, *counted)
    return Together(squares, members_of_group(stepper, unknowns.nodes))


def in_groups(chosen: Together) -> Callable[[Array], Squares]:
    """J at many points (M, n) with its derivatives, for one thread."""
    squares = chosen.squares(threading.Event())

    def at(q: Array) -> Squares:
        groups = np.split(q, range(chosen.members, len(q), chosen.members))
        return Squares(*map(np.concatenate, zip(*map(squares, groups), strict=True)))

    return at


@lru_cache(maxsize=8)
def _tangents(problem: symbolic.Problem, measurements: tuple[str, ...], starts: int) -> Built:
    """The library of states with their derivatives, kept for the next problem that differs in
    numbers only; measurements : in their order, which equal problems need not share."""
    return realise(tangent_program(problem, starts))


def side_by_side(
    chosen: Together, given: ShootingArguments, points: Array, search: Search, whole: Whole
) -> dict[int, Found]:
    """Solve from many starts (S, n) side by side; returns results of those that have ended, by
    number.

    Groups of starts take turns on the threads: those of an executor, or own ones, as processes
    would start more slowly than all are solved.
    """
    ended = list[str]()

    def solved(numbers: NDArray[np.intp]) -> dict[int, Found]:
        group = _Group(given, points[numbers], chosen.squares(stop))

        def tell(rows: Sequence[int], now: Iterates) -> None:
            ended.extend(now.status[k] for k in rows)
            report(len(rows), sum(status != Solve.CONVERGED for status in ended))

        try:
            now = minimised(group.problem, group.first, search.limit, tell)
        except KeyboardInterrupt:
            return {}
        rows = [k for k, status in enumerate(now.status) if status]
        return {int(numbers[k]): group.found(now, k, whole) for k in rows}

    own = not isinstance(search.executor, ThreadPoolExecutor)
    pool = ThreadPoolExecutor(checks.threads(given.threads)) if own else search.executor
    parts = np.split(np.arange(len(points)), range(chosen.members, len(points), chosen.members))
    shown = task_bar(len(points), search.progress, "starts")
    with interruptible() as stop, shown as report:
        try:
            every = [future.result() for future in [pool.submit(solved, rows) for rows in parts]]
        finally:
            if own:
                pool.shutdown()
    return {k: found for part in every for k, found in part.items()}


class _Group:
    """Starts that are solved side by side, with unknowns scaled by their sizes."""

    def __init__(self, given: ShootingArguments, points: Array, squares: SideBySide) -> None:
        self._given, self._squares = given, squares
        self._sizes, self._log = typical_sizes(points, given.bounds), log_of(given.unknowns)
        every = Scale(self._sizes, self._log)
        self.first = every.scaled(points)
        low, high = (every.scaled(np.broadcast_to(s, points.shape)) for s in given.bounds)
        self.problem = Problem(self._scaled, (low, high), _ROUNDING * squares.size)

    def _natural(self, rows: Rows, y: Array) -> Array:
        """q (M, n), within the bounds in spite of rounding."""
        return np.clip(Scale(self._sizes[rows], self._log).at(y), *self._given.bounds)

    def _scaled(self, rows: Rows, y: Array) -> Squares:
        """J with derivatives by y."""
        q = self._natural(rows, y)
        slopes = Scale(self._sizes[rows], self._log).slopes(q)
        J, g, bend = self._squares(q)
        return Squares(J, g * slopes, bend * slopes[:, :, None] * slopes[:, None, :])

    def found(self, now: Iterates, k: int, whole: Whole) -> Found:
        """Result of start k."""
        q = self._natural(np.array([k]), now.y[[k]])[0]
        values = dict(zip(self._given.unknowns.parameters, map(float, q), strict=False))
        about = (values, now.status[k], int(now.iterations[k]))
        J = float(now.cost[k]) if np.isfinite(now.cost[k]) else np.nan
        if now.status[k] != Solve.CONVERGED:
            return Found(*about, J)
        return Found(*about, J, lambda: whole(self._steps(now, k)))

    def _steps(self, now: Iterates, k: int) -> list[Step]:
        history = now.history(k)
        y = np.array([step.values for step in history])
        q = self._natural(np.full(len(history), k), y)
        return [Step(step.objective, row) for step, row in zip(history, q, strict=True)]


# -- one by one --------------------------------------------------------------------------------


def one_by_one(
    task: Identification,
    make: Callable[[], Identification],
    points: Array,
    search: Search,
    how: Chosen,
) -> dict[int, Found]:
    """Solve from each start by itself, on threads or processes; task : makes fits of what they
    send. make : the task with trajectories of its own, which a thread may change."""
    found = searched(points, search, partial(_solved, _OfThread(make), how))
    return {k: each._replace(solution=_at_home(each.solution, task)) for k, each in found.items()}


class _OfThread:
    """The task of the thread that calls this, made by its first call."""

    def __init__(self, make: Callable[[], Identification]) -> None:
        self._make, self._local = make, threading.local()

    def __call__(self) -> Identification:
        if not hasattr(self._local, "task"):
            self._local.task = self._make()
        task: Identification = self._local.task
        return task

    def __reduce__(self) -> tuple[type[_OfThread], tuple[Callable[[], Identification]]]:
        return _OfThread, (self._make,)


def _solved(own: Callable[[], Identification], how: Chosen, q: Array) -> Found:
    """Result from a start, whose solution is a function of the task at home: of another process the
    problem would come along with each."""
    task = own()
    names = task.trials.unknowns.parameters
    begin = dict(zip(names, map(float, q), strict=False))
    try:
        if not np.isfinite(task.trials.cost(q)):
            return Found(begin, str(Solve.NOT_FINITE))
        if task.reweighs:  # what ranks fits are standard deviations, which are of the whole
            fit = task.fit(q, how)
            whole: Callable[..., Fit] = partial(_known, fit)
        else:
            fit, ended = task.end(q, how)
            whole = partial(_whole, ended, how)
    except Diverged:  # after a step that its neighbours do not show
        return Found(begin, str(Solve.NOT_FINITE))
    about = (fit.parameters, str(fit.status), fit.iterations)
    return Found(*about, fit.objective, whole if fit.success else None, fit.merit)


def _known(fit: Fit, task: Identification) -> Fit:
    return fit


def _whole(ended: Ended, how: Chosen, task: Identification) -> Fit:
    return task.whole(ended, how)


def _at_home(solution: Any, task: Identification) -> Any:
    return solution and partial(solution, task)
