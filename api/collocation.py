"""`ks.Collocation`: identification and trajectory optimisation by direct collocation."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from kinesym import checks
from kinesym.internal.attempts import Attempts
from kinesym.internal.ladder import BUDGET
from kinesym.internal.redundant import ROOMS, apart, bound_together
from kinesym.internal.refine import (
    many_nodes,
    no_longer_falls,
    refined_trials,
    too_many_nodes,
)
from kinesym.internal.solvable import Solvable
from kinesym.internal.starts import (
    checked_search,
    collocated,
    natural_parameters,
    ranges_of,
    rows_of,
    searched,
    starting_points,
)
from kinesym.internal.unseen import judged, moved_by
from kinesym.internal.why import why
from kinesym.runtime.ipopt.driver import check_driver
from kinesym.runtime.ipopt.linear_solver import AUTO, TIME_STRUCTURED
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.nlp.memory import check_free
from kinesym.runtime.progress import say
from kinesym.runtime.results.multistart import MultiStart
from kinesym.runtime.results.multistart import multistart as gathered
from kinesym.runtime.results.solution import Solution, resolved
from kinesym.runtime.results.verification import Verification
from kinesym.runtime.results.why import Why
from kinesym.verification import verified

HESSIANS = ("exact", "gauss-newton", "limited-memory")

#: Refinements of the grid for one `tolerance_grid`, at most, and after how many in turn that do not
#: help it ends.
_ROUNDS, _STALLED = 20, 2


class Collocation(Solvable):
    """A nonlinear program made from a model, trials and unknowns.

    Parameters
    ----------
    system : a `Model`, a list of models for `Phases`, or a `Hybrid` whose phases are named in
        `trials`.
    trials : an `Experiment`, several that share the unknown parameters, or `Phases` of one motion.
    unknown : parameters to be found, with bounds (low, high); None for free; a value per subject or
        trial, a prior, or a logarithmic scale by `per`, `per_trial`, `normal`, `lognormal`,
        `log_scale`; with `per` and an unknown mean or spread of `normal` a random effect.
    known : values of the other parameters; the model's values where not given; what differs between
        trials stands in `Experiment(parameters=...)`.
    scheme : Radau IIA "radau-1" ("backward-euler"), "radau-3", "radau-5"; Gauss "gauss-2"
        ("midpoint"), "gauss-4", "gauss-6"; Lobatto IIIA "lobatto-2" ("trapezoid"), "lobatto-4"
        ("hermite-simpson"), "lobatto-6", which need explicit x'; numbers are orders.
    objective : `Integral`, `Terminal`, `LeastSquares`, `l1`, `total_variation` and sums of them;
        None means `LeastSquares`, for phases of a `Hybrid` nothing.
    bounds : (low, high) of states and unknown inputs at all nodes and stages; each side a number,
        None, (N,) with straight lines between the nodes, a `Signal` or a function of times (n,);
        those of one trial stand in `Experiment(bounds=...)`.
    boundary : conditions on `at_start(...)` and `at_end(...)` of every trial; path : conditions at
        every node and stage, or `at` a time. Each is an expression that is to be zero, (expression,
        low, high), or one equation or inequality: sp.Eq(at_end(x), 1), v <= 2.
    unknown_inputs : inputs to be found, with bounds (low, high) or None; they have a value at each
        stage, unless they are `held` or `linear` between nodes, as those are that are measured, or
        `continuous`.
    noise : inputs that are process noise, white and held between nodes, and their intensities sigma
        [unit of the input times sqrt(s)]: a number, bounds (low, high), None, or as in `unknown`.
        A noise Td is sigma_Td white_Td: the parameter `sigma_Td`, the input `white_Td` of unit
        intensity. `solve` then finds the parameters, sigma_Td and each `std` that is not given by
        the likelihood of the measurements with all trajectories counted in (marginal likelihood),
        and the best trajectories with these; see `log_likelihood`.
    threads : for evaluation and linear algebra, as far as they save time; rounding of the latter
        depends on them. Default: OMP_NUM_THREADS or the number of processors.
    sensors : channels by name, expressions of states, inputs and parameters, {"imu": g * theta +
        b}; symbols in them that the model does not have become parameters. See `sensor`.
    homotopy : "data" declares a homotopy that begins with trajectories tied to what was measured:
        the model is an observer of the record, which lets go gradually (Vyasarayani et al. 2011,
        Multibody System Dynamics 26:411; see docs/how-to/starts.md). `solve(ladder=True)` leads
        it, also where a fit has converged that leaves more than noise, and returns the better one.
        The problem itself, and a solve without the ladder, are the same without it.

    A jump of the equations at a known time, as of `Heaviside(t - 2)`, gets a node where there are
    no path conditions, bounds and unknown inputs; else a note names one that has none. A fit whose
    unknowns move a jump is no success, and says so: the derivatives do not see it.

    Raises `ValueError` for whatever does not fit, before anything is derived or compiled, and
    `MemoryError` if the matrices would not fit into memory.
    """

    def solve(
        self,
        guess: Any = None,
        *,
        max_iterations: int | None = None,
        tolerance: float | None = None,
        hessian: str = "exact",
        options: Mapping[str, Any] | None = None,
        progress: bool | None = None,
        log: bool = False,
        linear_solver: str = "auto",
        driver: str = "auto",
        tolerance_grid: float | None = None,
        max_nodes: int = 20_000,
        ladder: bool | None = None,
        budget: int | None = None,
        seconds: float | None = None,
        **others: Any,
    ) -> Solution:
        """Solve with IPOPT.

        guess : see `pack`; a `Solution` of this problem also gives its multipliers.
        tolerance_grid : solves again on refined grids until the error of the grid is at most this
            (see `refined`). It ends with the best solution when that no longer falls, or before a
            grid of more than `max_nodes` in all trials; a note says why, and where it resists.
        max_iterations, tolerance : IPOPT's `max_iter` (3000) and `tol` (1e-8, of the problem as
            it is scaled: the same in all units; see docs/how-to/convergence.md).
        hessian : "exact"; "gauss-newton", of measurements linearised, constraints as if linear;
            "limited-memory". options : further options of IPOPT, by name.
        progress : show the latest iteration; None only on a terminal or in a notebook. log : print
            IPOPT's own log.
        linear_solver : "time-structured", ours for systems that are banded in time; "mumps" or
            another one of IPOPT's; "auto": ours, and MUMPS where it does not work or gives up;
            `solution.linear_solver` says which and why.
        driver : "direct" calls IPOPT's C interface, without Python in between; "cyipopt" goes
            through that package, slower, with the same iterates; "auto" is the first that works.

        ladder : whether a solve that is lost goes on: without the trajectories of the guess, from
            where all conditions are met, if such a place is found, then with easier problems that
            lead to this one: coarse grids, and the homotopies that the problem declares
            (`homotopy`). None does so unless a limit of iterations was given, with the easier
            problems where it seems infeasible or diverges.
            Unless False, what is not solved within 500 iterations is tried with an adaptive barrier
            and as IPOPT scales by itself before all that, if no limit was given.
            What solves at once takes no longer. A note and `solution.ladder`, a line per rung, say
            so; what is known of a failure, `solution.why()` says. budget : iterations of all rungs
            together after the first solve, 3000 if None.
        seconds : of all solves together; the result is then the best that there is, and IPOPT ends
            after the iteration in which they are over. None for no limit.

        What has converged by the solver is not called so where the fit follows the measurements
        less well than the guess, or where the grid shows nothing of the motion, as where steps jump
        over a pole: `solution.status` says which.
        Ctrl-C returns the current iterate, marked unconverged. Raises `ValueError` if a function is
        not finite at the guess, naming expression, equation, node and time; `TypeError` for other
        arguments; `IpoptMissing` if IPOPT cannot be loaded; `MemoryError`, before any is taken, if
        there is not enough.
        """
        checks.none_left(others, Collocation.solve, "IPOPT")
        checks.check_choice(hessian, HESSIANS, "hessian")
        check_driver(driver)
        settings = checks.options(options)
        if max_iterations is not None:
            settings["max_iter"] = checks.count(max_iterations, "max_iterations", least=0)
        if tolerance is not None:
            settings["tol"] = checks.positive(tolerance, "tolerance")
        if tolerance_grid is not None:
            tolerance_grid = checks.positive(tolerance_grid, "tolerance_grid")
            self._check_refinable()
        most_nodes = checks.count(max_nodes, "max_nodes")
        spent = BUDGET if budget is None else checks.count(budget, "budget")
        needed = self._sizes.solve(own_solver=linear_solver in (AUTO, TIME_STRUCTURED))
        check_free(needed, self._sizes, "use fewer nodes, or free memory")
        end = math.inf if seconds is None else checks.positive(seconds, "seconds")
        chosen = SolverOptions(
            settings, hessian, linear_solver, driver, log, deadline=time.monotonic() + end
        )
        guess = self._start if guess is None else guess
        goes_on = None if ladder is None else checks.flag(ladder, "ladder")
        solution = Attempts(self, self.pack(guess), guess, chosen, progress, goes_on, spent).best()
        if tolerance_grid is not None:
            solution = self._until(solution, tolerance_grid, most_nodes, chosen, progress)
        return resolved(self._trusted(solution))

    def _trusted(self, solution: Solution) -> Solution:
        """The solution, or what is left of it where a jump that unknowns move is not in its
        derivatives."""
        measured = {name for trial in self.trials for name in trial.measurements}
        fit = bool(self.symbolic.objective.least_squares)
        free = (*self._unknown, *self.layout.inputs)
        moved = moved_by(self._written, free, measured if fit else (), starts=True)
        return judged(solution, moved, fit)

    def multistart(
        self,
        starts: int = 100,
        *,
        seed: int = 0,
        keep: int = 10,
        guess: Any = None,
        ranges: Mapping[Any, Any] | None = None,
        detour: float = 0.5,
        max_iterations: int = 300,
        executor: Any = None,
        progress: bool | None = None,
    ) -> MultiStart:
        """Solve from many starts and tell which optima they found.

        The first start is the guess. Of the others, parameters are a Latin hypercube in `ranges`
        {name: (low, high)}, else between their bounds, else within a factor of 10 of the guess, on
        a logarithmic scale where that is positive and wide; trajectories that are not measured are
        simulated by these, where starts are known (see `pack`), else those of the guess plus noise,
        correlated over a quarter of the trial, whose standard deviation is `detour` times what they
        range over (1 where they are zero).

        keep : solutions that are kept whole, one of each optimum first. max_iterations : of each
        start; those that need more count as lost. executor : of `concurrent.futures`, whose threads
        or processes solve; None for one thread per core. The result does not depend on it. Ctrl-C
        keeps what is there, when the solves that run have ended. Raises `ValueError` for a
        parameter without a range, and as `pack`.
        """
        given = (starts, seed, keep, detour, max_iterations, executor, progress)
        search, z = checked_search(*given), self.pack(guess)
        names, values = list(self.layout.parameters), natural_parameters(self, z)
        low, high = (natural_parameters(self, side) for side in self.variable_bounds)
        rows = rows_of(search, values, ranges_of(names, values, (low, high), ranges))
        about = (rows[1:], names, search.detour, search.seed)
        points = chain([z], starting_points(self, guess, *about))
        solver = partial(_trusted_as, chosen=SolverOptions({"max_iter": search.limit}))
        problem = self._serial()
        problem = apart(problem, bound_together(problem, z), z, ROOMS[0])
        found = searched(points, search, partial(collocated, problem, solver))
        return gathered(names, rows, found, search.keep)

    def _serial(self) -> Collocation:
        """The same problem, and library, with one thread per solve."""
        made = copy(self)
        made._threads = 1
        return made._on(self.trials)

    def why(self, guess: Any = None) -> Why:
        """What keeps this problem from a solution, seen from a guess or a solution, see `pack` and
        `Solution.why`: also before a solve, to see whether all conditions can be met."""
        ended = isinstance(guess, Solution)
        head = self.model.name + (f": {guess.message}" if ended else ", not solved yet")
        solved = ended and guess.success
        return why(self, self.pack(guess), head, (), ended, solved, Solvable._unexplained)

    def _until(
        self,
        solution: Solution,
        most: float,
        most_nodes: int,
        chosen: SolverOptions,
        progress: bool | None,
    ) -> Solution:
        """Solutions on refined grids until the error is at most `most`, or falls no longer."""
        problem, latest, best, stalled, why = self, solution, solution, 0, ""
        for round_ in range(_ROUNDS):
            if not (latest.success and latest.grid) or best.grid_error().largest <= most:
                break
            if stalled == _STALLED:
                why = no_longer_falls(best, problem.on_grid_of(best).variable_bounds, chosen)
                break
            say(progress, f"grid {round_}: {latest.grid_error().summary}")
            problem = problem.refined(latest, most)
            if sum(problem.layout.nodes) > most_nodes:
                why = too_many_nodes(sum(problem.layout.nodes), most_nodes, self._scheme.order)
                break
            latest = problem._fitted(problem.pack(problem._start), latest, chosen, progress)
            if latest.success and latest.grid:
                helps = latest.grid_error().largest < 0.7 * best.grid_error().largest
                stalled = 0 if helps else stalled + 1
                best = min(
                    best, latest, key=lambda s: np.nan_to_num(s.grid_error().largest, nan=np.inf)
                )
        if not best.grid:
            return best
        resists = best.grid_error().resists(most)
        notes = [] if latest.success else [f"on a finer grid: {latest.message}"]
        notes += [f"{resists}; {why}" if why else resists] if resists else []
        if not notes:
            nodes = sum(problem.on_grid_of(best).layout.nodes)
            notes = many_nodes(nodes, sum(self.layout.nodes), self._scheme.order)
        return replace(best, notes=[*best.notes, *notes])

    def refined(self, solution: Solution, tolerance: float = 1e-6) -> Collocation:
        """The same problem, and library, on grids adapted to the error of a solution of it.

        On them the error should be `tolerance`, as `grid_error().largest` says it. Nodes with a
        measurement stay, inputs follow their signals. Its
        `solve()` starts from the solution. Raises `ValueError` for a solution that has not
        converged or belongs to another problem, and for fits with unknown inputs that are held or
        linear between nodes: between samples they would have values that nothing has measured.
        """
        checks.check_kind(solution, Solution, "kinesym")
        most = checks.positive(tolerance, "tolerance")
        self._check_refinable()
        error, problem = solution.grid_error(), self.on_grid_of(solution)
        trials = refined_trials(problem.trials, error, self._scheme.order, most, self._instants)
        made = problem._on(trials)
        made._start = solution
        return made

    def _check_refinable(self) -> None:
        between = {*self.layout.held, *self._about.linear} - self._asked.followed
        tied = [u for u in self.layout.inputs if u in between]
        if self.symbolic.objective.least_squares and tied:
            raise ValueError(
                f"on a finer grid the unknown input {tied[0]} would have values between its nodes "
                "that no measurement tells; use scheme='radau-5' on this grid"
            )

    def verify(self, solution: Solution, segments: int = 1) -> Verification:
        """How far a simulation leaves a solution of this problem: its inputs, as the scheme sees
        them, and its parameters, integrated by an adaptive method from its own start.

        segments : parts of each trial that start from the solution each, for unstable systems, in
        which a simulation leaves any solution sooner or later; without delays only. Raises
        `ValueError` for a solution of another problem.
        """
        checks.check_kind(solution, Solution, "kinesym")
        most = max(len(run.time) - 1 for run in solution.trials)
        what = "segments, one per interval of the longest trial,"
        parts = checks.count(segments, what, most=most)
        if self.model.delays and parts > 1:
            raise ValueError(
                f"a motion with delays ({self.model.delays[0].name}) is simulated as a whole, as a "
                "part would begin with what was before it; leave segments out"
            )
        problem, z = self.on_grid_of(solution), solution.free_vector
        free = [u for u in problem.layout.inputs if u not in problem.layout.delayed]
        found = []
        for k, run in enumerate(solution.trials):
            signals = problem.layout.signals(z, k, run.time)
            found.append({u: signals[u] for u in free})
        every = replace(solution, trials=problem._trajectories(z, np.zeros(len(z), dtype=bool)))
        runs = list(zip(problem.trials, every.trials, strict=True))
        histories = [self._before.found(e, k, r) for k, (e, r) in enumerate(runs)]
        return verified(self.model, problem.trials, every, found, histories, parts)


def _trusted_as(problem: Any, z: Any, guess: Any, chosen: SolverOptions) -> Solution:
    """What a problem finds from a free vector, without a line per iteration."""
    found: Solution = problem._trusted(Solvable._fitted_as(problem, z, guess, chosen))
    return found
