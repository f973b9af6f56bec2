"""`ks.Collocation`: identification and trajectory optimisation by direct collocation."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from kinesym.base import checks
from kinesym.base.notebook import Displayed
from kinesym.codegen.kernel import Program
from kinesym.internal.fitting.attempts import Attempts
from kinesym.internal.fitting.curvature import covariance
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.grid_refinement import on_finer_grids, on_steps, until
from kinesym.internal.fitting.ladder import BUDGET
from kinesym.internal.fitting.marginal_fit import log_likelihood
from kinesym.internal.fitting.missing_terms import missing
from kinesym.internal.fitting.redundant import ROOMS, apart, bound_together
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.fitting.solving import Solver, unexplained
from kinesym.internal.fitting.starts import (
    checked_search,
    collocated,
    natural_parameters,
    ranges_of,
    rows_of,
    searched,
    starting_points,
)
from kinesym.internal.fitting.structural_identifiability import warn_of_untold
from kinesym.internal.fitting.violations import figure_within_bounds, violations
from kinesym.internal.fitting.why import why
from kinesym.internal.problems.formulation import formulate
from kinesym.internal.problems.free_history import histories_of
from kinesym.internal.problems.phases import Phases
from kinesym.internal.problems.plausible_units import warn_of_degrees, warn_of_rates_at_ends
from kinesym.internal.problems.question import Question
from kinesym.internal.running.jumps_moved_by_unknowns import judged, moved_by
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.ipopt.driver import check_driver
from kinesym.runtime.ipopt.library import warn_if_missing
from kinesym.runtime.ipopt.linear_solver import AUTO, TIME_STRUCTURED
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.memory import check_free
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.results.multistart import MultiStart
from kinesym.runtime.results.multistart import multistart as gathered
from kinesym.runtime.results.solution import Solution, after, resolved
from kinesym.runtime.results.verification import Verification
from kinesym.runtime.results.violations import Violations
from kinesym.runtime.results.why import Why
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import listed
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem
from kinesym.verification import verified

HESSIANS = ("exact", "gauss-newton", "limited-memory")


class Collocation(Displayed):
    """A nonlinear program made from a model, trials and unknowns.

    Parameters
    ----------
    system : a `Model`, a list of models for `Phases`, a `Hybrid` whose phases are named in
        `trials`, or one without contacts whose events are at known times: guards are straight lines
        of time, such as t - 6; modes get known values.
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

    Events get nodes; a jump of the equations at a known time, as of `Heaviside(t - 2)`, and of a
    given input that is held, gets one where there are no path conditions, bounds and unknown
    inputs; else a note names one that has none, or an error. A fit whose unknowns move a jump is no
    success, and says so: the derivatives do not see it.

    Raises `ValueError` for whatever does not fit, before anything is derived or compiled, and
    `MemoryError` if the matrices would not fit into memory.
    """

    def __init__(
        self,
        system: Model | Hybrid,
        trials: Experiment | Sequence[Experiment] | Phases,
        unknown: Mapping[Any, Any] | None = None,
        known: Mapping[Any, float] | None = None,
        scheme: str = "radau-3",
        objective: Objective | None = None,
        bounds: Mapping[Any, Any] | None = None,
        boundary: Sequence[Any] = (),
        path: Sequence[Any] = (),
        unknown_inputs: Mapping[Any, Any] | None = None,
        threads: int | None = None,
        sensors: Mapping[str, Any] | None = None,
        noise: Mapping[Any, Any] | None = None,
        homotopy: str | None = None,
    ) -> None:
        checks.threads(threads)  # whether it is a number of them; None stays: each process decides
        question = Question(
            *(system, trials, unknown, known, scheme, objective, bounds, boundary, path),
            *(unknown_inputs, threads, sensors, noise, homotopy),
        )
        meant, per_trial = formulate(question)
        warn_of_degrees(meant.model, per_trial.trials)
        warn_of_rates_at_ends(meant.model, [*meant.symbolic.boundary, *meant.symbolic.cycle])
        warn_if_missing()
        self._problem = Discretisation.of(meant, per_trial, threads)

    @classmethod
    def of(cls, problem: Discretisation) -> Collocation:
        """Wrap a discretisation that exists already."""
        made = cls.__new__(cls)
        made._problem = problem
        return made

    def __repr__(self) -> str:
        count, nodes = len(self.trials), sum(self.layout.nodes)
        return (
            f"<collocation of {self.model.name}: {count} trial{'s' * (count > 1)} of {nodes} "
            f"nodes, unknown {listed(self.layout.parameters) or 'no parameters'}, "
            f"{self.n_variables} variables, {self.n_constraints} constraints>"
        )

    # -- what it is of ------------------------------------------------------------------------

    @property
    def problem(self) -> Discretisation:
        """Discretisation: the nonlinear program as a value, with all that it is made of."""
        return self._problem

    @property
    def model(self) -> Model:
        """The model, with all that was asked of it."""
        return self._problem.model

    @property
    def trials(self) -> Sequence[Experiment]:
        """The trials on their grids."""
        return self._problem.trials

    @property
    def symbolic(self) -> Problem:
        """The problem in symbols, of which the kernels are generated."""
        return self._problem.symbolic

    @property
    def program(self) -> Program:
        """The kernels as graphs, and their description; its `str` counts their operations, before
        anything is compiled."""
        return self._problem.libraries.program

    @property
    def timings(self) -> Mapping[str, float]:
        """Times to derive and to compile the problem [s]."""
        return self._problem.libraries.timings

    @property
    def nlp(self) -> NLP:
        """The nonlinear program with the data of the trials."""
        return self._problem.nlp

    @property
    def layout(self) -> Layout:
        """Places of states, inputs and parameters in the free vector, and of families of
        constraints."""
        return self._problem.layout

    @property
    def variable_bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the free vector, (n_variables,) each."""
        return self._problem.variable_bounds

    @property
    def constraint_bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the constraints, (n_constraints,) each."""
        return self._problem.constraint_bounds

    @property
    def n_variables(self) -> int:
        """Length of the free vector z."""
        return self._problem.n_variables

    @property
    def n_constraints(self) -> int:
        """Number of constraints."""
        return self._problem.n_constraints

    # -- the free vector ----------------------------------------------------------------------

    def pack(self, guess: Any = None) -> Array:
        """The free vector of a guess: None (from the data), values by symbol, a `Solution`, a
        `Fit`, a `Trajectory` or a list with one per trial, or z.

        Values are numbers, trajectories (N,), or a list with one of these per trial; of a parameter
        per owner a number for all of them, or a mapping from owners to numbers. What is not given
        comes from the measurements, of states or of outputs that show one state each; of fits whose
        starts and parameters are known or guessed, from a simulation; from the model's values,
        straight lines between values that conditions fix at the ends or at some times, or is zero;
        a duration is the geometric mean of its bounds. All is moved into the bounds: results and
        what is made up silently, what is given with a warning. Raises `ValueError` naming what is
        given and has a wrong size or is not finite.
        """
        return FirstGuess(self._problem).pack(guess)

    def unpack(self, z: Array) -> dict[str, Any]:
        """Values by name: (N,) for trajectories (a list of these for several trials), numbers."""
        problem, layout, z = self._problem, self.layout, self._free(z)
        result: dict[str, Any] = {}
        courses = [problem.courses(z, trial) for trial in range(len(self.trials))]
        for name in courses[0]:
            rows = [course[name] for course in courses]
            result[name] = rows if len(rows) > 1 else rows[0]
        result.update(problem.parameters(z))
        if layout.free_duration:
            result["duration"] = layout.durations(z).copy()
        return result

    def _free(self, z: ArrayLike) -> Array:
        return _vector(z, "the entries of the free vector", self.n_variables)

    def variable_name(self, j: int) -> str:
        """Name of z[j], in words."""
        return self.layout.variable_name(checks.count(j, "the number of a variable", least=0))

    def constraint_name(self, i: int) -> str:
        """Name of constraint i, in words."""
        return self.layout.constraint_name(checks.count(i, "the number of a constraint", least=0))

    # -- values and derivatives ---------------------------------------------------------------

    def cost(self, z: Array) -> float:
        """The objective at z."""
        return self._problem.cost(self._free(z))

    def cost_gradient(self, z: Array) -> Array:
        """Gradient of the objective at z, (n_variables,)."""
        return self._problem.cost_gradient(self._free(z))

    def residuals(self, z: Array) -> Array:
        """(modelled - measured)/std of the samples that are not missing, (n_samples,), with std = 1
        where it is not known: by trial, then what is measured between nodes, at nodes, and at the
        ends; there by channel; there in time. Of a std that is an expression e is followed by (1 -
        e^2)/sqrt(2), and censored samples have scores: these times the rows of the Jacobian, twice,
        are the gradient of the objective. Raises `ValueError` without `LeastSquares`."""
        return self._problem.residuals(self._free(z))

    def residual_jacobian(self, z: Array) -> csr_array:
        """Jacobian of the residuals, (n_samples, n_variables); of scores their slopes: that of
        modelled/std, std held, and of sqrt(2) log std."""
        return self._problem.residual_jacobian(self._free(z))

    def constraints(self, z: Array) -> Array:
        """The constraints at z, (n_constraints,): equations, path conditions, boundary conditions
        of each trial; see `constraint_name`."""
        return self._problem.constraints(self._free(z))

    def constraint_jacobian(self, z: Array) -> csr_array:
        """Jacobian of the constraints, (n_constraints, n_variables), with its exact structure."""
        return self._problem.constraint_jacobian(self._free(z))

    def lagrangian_hessian(
        self, z: Array, multipliers: ArrayLike, cost_factor: float = 1.0
    ) -> csr_array:
        """Second derivatives of cost_factor * cost + multipliers . constraints, symmetric."""
        given = _vector(multipliers, "the multipliers", self.n_constraints)
        return self._problem.lagrangian_hessian(self._free(z), given, cost_factor)

    # -- solution -----------------------------------------------------------------------------

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
            grid of more than `max_nodes` in all trials; a note says why, and where it resists. A
            fit begins on the given grid with nodes between as dense as the steps of a simulation by
            the guess, if its inputs are given and the guess has no trajectories.
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
            Unless False, what is not solved within 250 iterations, a fit within 500, is tried as
            IPOPT scales by itself and with the other strategy of the barrier (see
            docs/how-to/convergence.md) before all that, if no limit was given.
            What solves at once takes no longer. A note and `solution.ladder`, a line per rung, say
            so; what is known of a failure, `solution.why()` says. budget : iterations of all rungs
            together after the first solve, 3000 if None.
        seconds : of all solves together; the result is then the best that there is, and IPOPT ends
            after the iteration in which they are over. None for no limit.

        What has converged by the solver is not called so where the fit follows the measurements
        less well than the guess, or where the grid shows nothing of the motion, as where steps jump
        over a pole: `solution.status` says which. Warns of parameters that perfect measurements
        could not tell, where that is soon found out (see docs/how-to/identifiability.md).
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
        needed = self._problem.sizes.solve(own_solver=linear_solver in (AUTO, TIME_STRUCTURED))
        check_free(needed, self._problem.sizes, "use fewer nodes, or free memory")
        end = math.inf if seconds is None else checks.positive(seconds, "seconds")
        chosen = SolverOptions(
            settings, hessian, linear_solver, driver, log, deadline=time.monotonic() + end
        )
        guess = self._problem.start if guess is None else guess
        goes_on = None if ladder is None else checks.flag(ladder, "ladder")
        warn_of_untold(self._problem)
        about = (guess, chosen, progress, goes_on, spent)
        problem = self._problem
        if tolerance_grid is not None:
            problem = on_steps(problem, guess, most_nodes)
        solution = Attempts(problem, Collocation.of(problem).pack(guess), *about).best()
        if problem is not self._problem and not resolved(solution).success:
            again = Attempts(self._problem, self.pack(guess), *about).best()
            problem, solution = self._problem, after(solution, again)
        if tolerance_grid is not None:
            solver = Solver(problem, chosen, progress)
            solution = until(solver, solution, tolerance_grid, most_nodes)
        return resolved(_trusted(self._problem, self._searchable(solution)))

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
        warn_of_untold(self._problem)
        problem = replace(self._problem, threads=1)
        names, values = list(self.layout.parameters), natural_parameters(problem, z)
        low, high = (natural_parameters(problem, side) for side in self.variable_bounds)
        rows = rows_of(search, values, ranges_of(names, values, (low, high), ranges))
        about = (rows[1:], names, search.detour, search.seed)
        points = chain([z], starting_points(problem, guess, *about))
        solver = partial(_trusted_from, chosen=SolverOptions({"max_iter": search.limit}))
        problem = apart(problem, bound_together(problem, z), z, ROOMS[0])
        found = searched(points, search, partial(collocated, problem, solver))
        made = gathered(names, rows, found, search.keep)
        return replace(made, solutions=[self._searchable(each) for each in made.solutions])

    def _searchable(self, solution: Any) -> Any:
        """A solution that can be asked for what its model lacks."""
        return replace(solution, lacking=partial(missing, self._problem))

    def refined(self, solution: Solution, tolerance: float = 1e-6) -> Collocation:
        """Refine the grids by the discretisation error of a solution; the library stays the same.

        On the new grids the error should be `tolerance`, as `grid_error().largest` says it. Nodes
        with a measurement stay, inputs follow their signals. Its `solve()` starts from the
        solution. Raises `ValueError` for a solution that has not converged or belongs to another
        problem, and for fits with unknown inputs that are held or linear between nodes: between
        samples they would have values that nothing has measured.
        """
        checks.check_kind(solution, Solution, "kinesym")
        most = checks.positive(tolerance, "tolerance")
        self._check_refinable()
        return Collocation.of(on_finer_grids(self._problem, solution, most))

    def _check_refinable(self) -> None:
        about = self._problem.formulation
        between = {*self.layout.held, *self._problem.about.linear} - about.followed
        tied = [u for u in self.layout.inputs if u in between]
        if self.symbolic.objective.least_squares and tied:
            raise ValueError(
                f"on a finer grid the unknown input {tied[0]} would have values between its nodes "
                "that no measurement tells; use scheme='radau-5' on this grid"
            )

    # -- solutions of it ----------------------------------------------------------------------

    def on_grid_of(self, solution: Solution) -> Collocation:
        """Problem on the grid of a solution, such as one of `tolerance_grid`, without what was
        left out for it; itself if it is the same. Raises `ValueError` for a solution of another
        problem, and what is none."""
        checks.check_kind(solution, Solution, "kinesym")
        made = on_grid_of(self._problem, solution)
        return self if made is self._problem else Collocation.of(made)

    def covariance(self, solution: Solution) -> Array:
        """Covariance of the identified parameters, (r, r), from the curvature at a solution.

        Meaningful if the objective is -2 log(likelihood), as the least squares of measurements with
        their `std`, given or estimated, is; see
        `kinesym.runtime.statistics.covariance.parameter_confidence`. With a loss that is no
        likelihood it is A^-1 B A^-1. Rows of parameters that the record does not determine are NaN,
        and a warning says which can be exchanged for which. Raises `ValueError` if the solution has
        not converged, determines none of them, or nothing tells a `std` that is not given.
        """
        return covariance(self._problem, solution)

    def log_likelihood(self, solution: Solution) -> float:
        """log of the likelihood of the parameters of a solution, all trajectories counted in.

        Unknown inputs with a prior, `Integral(u**2/sigma**2)`, are process noise: white, of the
        intensity sigma^2, held between the nodes. The objective alone tells how likely the best
        trajectories are, together with the samples, and prefers parameters with which these are
        likely, such as a noise that is zero; the likelihood tells how likely the samples are, and
        is what parameters and sigma are to be chosen by (marginal likelihood). It is that of the
        Kalman filter where the model is linear, else by Laplace's method: of the curvature at the
        solution. States at the start that no condition tells, and unknown inputs without a prior,
        may be anywhere: it is that of a Kalman filter with a diffuse start (Durbin, Koopman 2012,
        Time Series Analysis by State Space Methods, chapter 5), times sqrt(det X'X), where X is how
        the first 5 % of the samples, in units of their std, depends on the start. Without it the
        likelihood would depend on the coordinates of the model, and have peaks where parameters
        hide a part of the start (Francke, Koopman, de Vos 2010, J. Time Series Analysis 31, 407).

        Raises `ValueError` for other objectives, for process noise that is not held, if the
        solution has not converged, if a bound or an inequality holds there, and if the samples do
        not tell the start.
        """
        return log_likelihood(self._problem, solution)

    def violations(self, guess: Any = None) -> Violations:
        """Violations of equations, conditions and bounds by a guess or a solution, see `pack`:
        `print(task.violations(solution))`, `task.violations(solution).plot()`."""
        return violations(self._problem, self.pack(guess))

    def plot(
        self,
        guess: Any = None,
        beside: Any = None,
        trial: int = 0,
        names: Sequence[Any] | None = None,
    ) -> Any:
        """A figure of the states and unknown inputs of a guess or a solution, see `pack`, within
        their bounds (dashed), and of another one `beside` it (dotted), such as its guess. Raises
        `ValueError` for a trial or a name that there is not."""
        other = None if beside is None else self.pack(beside)
        return figure_within_bounds(self._problem, self.pack(guess), other, trial, names)

    def why(self, guess: Any = None) -> Why:
        """Reasons why this problem has no solution, seen from a guess or a solution, see `pack` and
        `Solution.why`: also before a solve, to see whether all conditions can be met."""
        ended = isinstance(guess, Solution)
        head = self.model.name + (f": {guess.message}" if ended else ", not solved yet")
        solved = ended and guess.success
        return why(self._problem, self.pack(guess), head, (), ended, solved, unexplained)

    def verify(self, solution: Solution, segments: int = 1) -> Verification:
        """Verify a solution by simulation: its inputs, as the scheme sees them, and its parameters
        are integrated by an adaptive method from its own start, and compared with it.

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
        problem, z = on_grid_of(self._problem, solution), solution.free_vector
        free = [u for u in problem.layout.inputs if u not in problem.layout.delayed]
        found = []
        for k, run in enumerate(solution.trials):
            signals = problem.layout.signals(z, k, run.time)
            found.append({u: signals[u] for u in free})
        every = replace(solution, trials=problem.bare_trajectories(z))
        rows = zip(problem.per_trial.rows, every.trials, strict=True)
        histories = [histories_of(row.trial, row.before, run) for row, run in rows]
        return verified(self.model, problem.trials, every, found, histories, parts)


def _trusted(problem: Discretisation, solution: Solution) -> Solution:
    """The solution, or what is left of it where a jump that unknowns move is not in its
    derivatives."""
    measured = {name for trial in problem.trials for name in trial.measurements}
    fit = bool(problem.symbolic.objective.least_squares)
    free = (*problem.unknown, *problem.layout.inputs)
    moved = moved_by(problem.formulation.written, free, measured if fit else (), starts=True)
    return judged(solution, moved, fit)


def _trusted_from(problem: Discretisation, z: Array, guess: Any, chosen: SolverOptions) -> Solution:
    """Solve a problem from a free vector, without a line per iteration, and check the solution."""
    return _trusted(problem, Solver(problem, chosen).fitted(z, guess))


def _vector(values: ArrayLike, what: str, size: int) -> Array:
    row = real_array(values, what)
    if row.shape != (size,):
        raise ValueError(f"{what} are {size} numbers, got {row.shape}")
    return row
