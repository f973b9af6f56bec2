"""`ks.Collocation`: identification and trajectory optimisation by direct collocation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from kinesym import checks
from kinesym.codegen.kernel import Program
from kinesym.codegen.point import with_point
from kinesym.codegen.transcribe import transcribe
from kinesym.internal.diagnose import explain
from kinesym.internal.grid import grid_error
from kinesym.internal.phases import Phases, posed
from kinesym.internal.pipeline import make_nlp, realise
from kinesym.internal.problem import (
    check_index,
    highest_index,
    kinematic_pairs,
    known_values,
    named_bounds,
    symbolic_problem,
    warn_of_degrees,
)
from kinesym.internal.refine import refined_trials
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start, check_driver
from kinesym.runtime.ipopt.library import warn_if_missing
from kinesym.runtime.ipopt.linear_solver import AUTO, TIME_STRUCTURED
from kinesym.runtime.ipopt.solve import SolverOptions, linear_solver_seconds, solve
from kinesym.runtime.library.build import check_compiler
from kinesym.runtime.library.manifest import Built, CollocationManifest
from kinesym.runtime.nlp.collocation import (
    constraint_bounds,
    first_guess,
    values_of_results,
    variable_bounds,
    within,
)
from kinesym.runtime.nlp.memory import check_free, check_sizes, forecast
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.progress import iteration_line, say
from kinesym.runtime.results.fit import poor_fits
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.statistics import Kkt, kkt_at, parameter_covariance
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.verification import Verification
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import scheme_named
from kinesym.verification import verified

HESSIANS = ("exact", "gauss-newton", "limited-memory")

#: Refinements of the grid for one `tolerance_grid`, at most.
_ROUNDS = 12
#: After so many in turn that do not help it ends, and on grids of more nodes than this.
_STALLED, _MOST_NODES = 3, 50_000


class Collocation:
    """A nonlinear program made from a model, trials and unknowns.

    Parameters
    ----------
    system : a `Model`, or a `Hybrid` whose phases are named in `trials`.
    trials : an `Experiment`, several that share the unknown parameters, or `Phases` of one motion.
    unknown : parameters to be found, with bounds (low, high); None for free.
    known : values of the other parameters; the model's values where not given.
    scheme : Radau IIA "radau-1" ("backward-euler"), "radau-3", "radau-5"; Gauss "gauss-2"
        ("midpoint"), "gauss-4", "gauss-6"; Lobatto IIIA "lobatto-2" ("trapezoid"), "lobatto-4"
        ("hermite-simpson"), "lobatto-6", which need explicit x'; numbers are orders.
    objective : `Integral`, `Terminal`, `LeastSquares` and sums of them; None means `LeastSquares`,
        for phases of a `Hybrid` nothing.
    bounds : (low, high) of states and unknown inputs at all nodes and stages.
    boundary : conditions on `at_start(...)` and `at_end(...)` of every trial; path : conditions at
        every node and stage. Each is an expression that is to be zero, or (expression, low, high).
    unknown_inputs : inputs to be found, with bounds (low, high) or None; they have a value at each
        stage, unless they are `held` or `linear` between nodes, as those are that are measured.
    threads : for the evaluation; default: OMP_NUM_THREADS or the number of processors.

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
    ) -> None:
        given = posed(system, trials, unknown_inputs, path, boundary)
        self.model = model = given.model
        self._threads = checks.threads(threads)
        unknown = by_name({} if unknown is None else unknown, model.parameter_names, "unknown")
        free = by_name(given.unknown_inputs, model.input_names, "unknown_inputs")
        self._scheme = scheme_named(scheme)
        if model.index.value is not None:  # else unknown inputs may determine what is left
            most = highest_index(self._scheme.name)
            check_index(model, most, f"the scheme {self._scheme.title}")
        self.symbolic = symbolic_problem(
            model,
            given.trials,
            list(unknown),
            free,
            self._scheme,
            given.objective if objective is None else objective,
            given.contacts,
            **given.conditions,
        )
        self._known = known_values(model, unknown, {} if known is None else known)
        self._bounds = named_bounds(model, unknown, free, {} if bounds is None else bounds)
        warn_of_degrees(model, given.trials)

        check_compiler()  # before any long work
        warn_if_missing()
        self.timings = {"derive": 0.0, "compile": 0.0}
        self.program, self._built = self._transcribed("exact", with_point)
        self._condition_bounds = given.bounds(self.symbolic)
        self._place(given.trials)

    def _place(self, trials: Sequence[Experiment]) -> None:
        """The nonlinear program of these trials, with its bounds; raises `MemoryError`."""
        self.trials = trials
        self._start: Solution | None = None
        self.nlp = make_nlp(self._built, trials, self._known, self._threads)
        self.layout = self.nlp.layout
        self._sizes = forecast(self.nlp)
        check_sizes(self._sizes)
        check_free(self._sizes.evaluation, self._sizes, "use fewer nodes")
        self.variable_bounds = variable_bounds(self.layout, trials, self._bounds)
        self.constraint_bounds = constraint_bounds(self.layout, self._condition_bounds)

    def _on(self, trials: Sequence[Experiment]) -> Collocation:
        """The same problem, and library, with the trials on other grids."""
        made = copy(self)
        vars(made).pop("_gauss_newton", None)
        made._place(trials)
        return made

    def __repr__(self) -> str:
        count, nodes = len(self.trials), sum(self.layout.nodes)
        return (
            f"<collocation of {self.model.name}: {count} trial{'s' * (count > 1)} of {nodes} "
            f"nodes, unknown {listed(self.layout.parameters) or 'no parameters'}, "
            f"{self.n_variables} variables, {self.n_constraints} constraints>"
        )

    def _transcribed(
        self, hessian: str, more: Callable[[Program, Problem], Program] | None = None
    ) -> tuple[Program, Built]:
        """The program with this Hessian and `more` kernels, built."""
        start = time.perf_counter()
        program = transcribe(self.symbolic, hessian)
        program = more(program, self.symbolic) if more else program
        derive, built = time.perf_counter() - start, realise(program)
        self.timings["derive"] += derive + built.derive
        self.timings["compile"] += built.compile
        return program, built

    @cached_property
    def _gauss_newton(self) -> NLP:
        """The same nonlinear program with the Hessian of its linearised residuals."""
        if not self.symbolic.objective.least_squares:
            raise ValueError(
                "hessian='gauss-newton' needs an objective with LeastSquares; use 'exact'"
            )
        built = self._transcribed("gauss-newton")[1]
        return make_nlp(built, self.trials, self._known, self._threads)

    # -- the nonlinear program, open to inspection ------------------------------------------

    @property
    def n_variables(self) -> int:
        """Length of the free vector z."""
        return self.nlp.n_variables

    @property
    def n_constraints(self) -> int:
        """Number of constraints."""
        return self.nlp.n_constraints

    def pack(self, guess: Any = None) -> Array:
        """The free vector of a guess: None (from the data), values by symbol, a `Solution`, a
        `Fit`, a `Trajectory` or a list with one per trial, or z.

        Values are numbers, trajectories (N,), or a list with one of these per trial. What is not
        given comes from the measurements, the model's values, or zero. All is moved into the
        bounds: results and what is made up silently, what is given with a warning. Raises
        `ValueError` naming what is given and has a wrong size or is not finite.
        """
        layout, bounds = self.layout, self.variable_bounds
        if isinstance(guess, Solution) and self._fits(guess):
            return np.clip(guess.free_vector, *bounds)
        if isinstance(guess, np.ndarray):
            if guess.shape != (self.n_variables,):
                raise ValueError(
                    f"the free vector has {self.n_variables} entries, got {guess.shape}"
                )
            z = real_array(guess, "the free vector")
            return within(z, bounds, np.ones(len(z), dtype=bool), self.variable_name)
        values, rates = values_of_results(guess, layout, self.trials), dict[str, str]()
        by_hand = values is None
        if values is None:
            if not isinstance(guess, Mapping | None):
                raise ValueError(
                    "a guess is a mapping of names to values, a Solution, a Fit, a "
                    f"Trajectory, or an array, not {guess!r}"
                )
            known = [*layout.states, *layout.inputs, *layout.parameters]
            known += ["duration"] if layout.free_duration else []
            values, rates = by_name(guess or {}, known, "guess"), kinematic_pairs(self.model)
        z, given = first_guess(layout, self.trials, values, dict(self.model.values), rates)
        return within(z, bounds, given & by_hand, self.variable_name)

    def unpack(self, z: Array) -> dict[str, Any]:
        """Values by name: (N,) for trajectories (a list of these for several trials), numbers."""
        layout, z = self.layout, self._free(z)
        result: dict[str, Any] = {}
        courses = [self._courses(z, trial) for trial in range(len(self.trials))]
        for name in courses[0]:
            rows = [course[name] for course in courses]
            result[name] = rows if len(rows) > 1 else rows[0]
        result.update(self._parameters(z))
        if layout.free_duration:
            result["duration"] = layout.durations(z).copy()
        return result

    def _free(self, z: ArrayLike) -> Array:
        return _vector(z, "the entries of the free vector", self.n_variables)

    def cost(self, z: Array) -> float:
        """The objective at z."""
        return self.nlp.cost(self._free(z))

    def cost_gradient(self, z: Array) -> Array:
        """Its gradient, (n_variables,)."""
        return self.nlp.gradient(self._free(z))

    def constraints(self, z: Array) -> Array:
        """The constraints at z, (n_constraints,): equations, path conditions, boundary conditions
        of each trial; see `constraint_name`."""
        return self.nlp.constraints(self._free(z))

    def constraint_jacobian(self, z: Array) -> csr_array:
        """Their Jacobian, (n_constraints, n_variables), with its exact structure."""
        entries = (self.nlp.jacobian(self._free(z)), self.nlp.jacobian_structure.arrays())
        return coo_array(entries, shape=(self.n_constraints, self.n_variables)).tocsr()

    def lagrangian_hessian(
        self, z: Array, multipliers: ArrayLike, cost_factor: float = 1.0
    ) -> csr_array:
        """Second derivatives of cost_factor * cost + multipliers . constraints, symmetric."""
        rows, columns = self.nlp.hessian_structure.arrays()
        given = _vector(multipliers, "the multipliers", self.n_constraints)
        values = self.nlp.hessian(self._free(z), given, cost_factor)
        off = rows != columns
        entries = (
            np.concatenate([values, values[off]]),
            (np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])),
        )
        return coo_array(entries, shape=(self.n_variables, self.n_variables)).tocsr()

    def variable_name(self, j: int) -> str:
        """What z[j] is, in words."""
        return self.layout.variable_name(checks.count(j, "the number of a variable", least=0))

    def constraint_name(self, i: int) -> str:
        """What constraint i is, in words."""
        return self.layout.constraint_name(checks.count(i, "the number of a constraint", least=0))

    # -- solution ---------------------------------------------------------------------------

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
    ) -> Solution:
        """Solve with IPOPT.

        guess : see `pack`; a `Solution` of this problem also gives its multipliers.
        tolerance_grid : solves again on refined grids until the error of the grid is at most this
            (see `refined`). If that is not reached, a note of the solution names where it resists.
        max_iterations, tolerance : IPOPT's `max_iter` (3000) and `tol` (1e-8).
        hessian : "exact"; "gauss-newton", of measurements linearised, constraints as if linear;
            "limited-memory". options : further options of IPOPT, by name.
        progress : show a line per iteration; None only on a terminal. log : print IPOPT's own log.
        linear_solver : "time-structured", ours for systems that are banded in time; "mumps" or
            another one of IPOPT's; "auto": ours, and MUMPS where it does not work or gives up;
            `solution.linear_solver` says which and why.
        driver : "direct" calls IPOPT's C interface, without Python in between; "cyipopt" goes
            through that package, slower, with the same iterates; "auto" is the first that works.

        Ctrl-C returns the current iterate, marked unconverged. Raises `ValueError` if a function is
        not finite at the guess, naming expression, equation, node and time; `IpoptMissing` if IPOPT
        cannot be loaded; `MemoryError`, before any is taken, if there is not enough.
        """
        checks.check_choice(hessian, HESSIANS, "hessian")
        check_driver(driver)
        settings = checks.options(options)
        if max_iterations is not None:
            settings["max_iter"] = checks.count(max_iterations, "max_iterations", least=0)
        if tolerance is not None:
            settings["tol"] = checks.positive(tolerance, "tolerance")
        needed = self._sizes.solve(own_solver=linear_solver in (AUTO, TIME_STRUCTURED))
        check_free(needed, self._sizes, "use fewer nodes, or free memory")
        chosen = SolverOptions(settings, hessian, linear_solver, driver, log)
        guess = self._start if guess is None else guess
        z = self.pack(guess)
        solution = self._solved(z, self._multipliers(guess), chosen, progress)
        if tolerance_grid is None:
            return solution
        most = checks.positive(tolerance_grid, "tolerance_grid")
        return self._until(solution, most, chosen, progress)

    def _solved(
        self,
        z: Array,
        multipliers: tuple[Array, Array, Array] | None,
        chosen: SolverOptions,
        progress: bool | None,
    ) -> Solution:
        """One solution from a free vector, with the error of its grid."""
        start = time.perf_counter()
        self._check_finite(z)
        nlp = self._gauss_newton if chosen.hessian == "gauss-newton" else self.nlp
        problem = IpoptProblem(
            nlp.plans,
            (nlp.jacobian_structure, nlp.hessian_structure),
            self.variable_bounds,
            self.constraint_bounds,
            self.layout.stages(),
        )
        with iteration_line(progress) as report:
            result = solve(problem, Start(z, multipliers), chosen, report)
        return self._certified(self._solution(result, time.perf_counter() - start))

    def _until(
        self, solution: Solution, most: float, chosen: SolverOptions, progress: bool | None
    ) -> Solution:
        """Solutions on refined grids until the error is at most `most`, or falls no longer."""
        problem, latest, best, stalled = self, solution, solution, 0
        for round_ in range(_ROUNDS):
            done = not latest.success or best.grid_error().largest <= most
            if done or stalled == _STALLED or sum(problem.layout.nodes) > _MOST_NODES:
                break
            say(progress, f"grid {round_}: {latest.grid_error().summary}")
            problem = problem.refined(latest, most)
            latest = problem._solved(problem.pack(problem._start), None, chosen, progress)
            if latest.success:
                helps = latest.grid_error().largest < 0.7 * best.grid_error().largest
                stalled = 0 if helps else stalled + 1
                best = min(
                    best, latest, key=lambda s: np.nan_to_num(s.grid_error().largest, nan=np.inf)
                )
        if not best.success:
            return best
        notes = [] if latest.success else [f"on a finer grid: {latest.message}"]
        notes += [best.grid_error().resists(most)] if best.grid_error().resists(most) else []
        return replace(best, notes=[*best.notes, *notes])

    def refined(self, solution: Solution, tolerance: float = 1e-6) -> Collocation:
        """The same problem, and library, on grids adapted to the error of a solution of it.

        On them the error should be `tolerance`: the largest shift of a parameter, a duration or the
        objective as a share of its value, or the sum of all local errors of a trial as shares of
        the ranges of its states. Nodes with a measurement stay, inputs follow their signals. Its
        `solve()` starts from the solution. Raises `ValueError` for a solution that has not
        converged or belongs to another problem.
        """
        checks.check_kind(solution, Solution, "kinesym")
        most = checks.positive(tolerance, "tolerance")
        error, problem = solution.grid_error(), self.on_grid_of(solution)
        trials = refined_trials(problem.trials, error, self._scheme.order, most)
        made = problem._on(trials)
        made._start = solution
        return made

    def verify(self, solution: Solution, segments: int = 1) -> Verification:
        """How far a simulation leaves a solution of this problem: its inputs, as the scheme sees
        them, and its parameters, integrated by an adaptive method from its own start.

        segments : parts of each trial that start from the solution each, for unstable systems, in
        which a simulation leaves any solution sooner or later. Raises `ValueError` for a solution
        of another problem.
        """
        checks.check_kind(solution, Solution, "kinesym")
        parts = checks.count(segments, "segments")
        problem, z = self.on_grid_of(solution), solution.free_vector
        found = []
        for k, run in enumerate(solution.trials):
            signals = problem.layout.signals(z, k, run.time)
            found.append({u: signals[u] for u in problem.layout.inputs})
        return verified(self.model, problem.trials, solution, found, parts)

    def on_grid_of(self, solution: Solution) -> Collocation:
        """This problem on the grid of a solution, such as one of `tolerance_grid`; itself if it is
        the same. Raises `ValueError` for a solution of another problem."""
        if self._fits(solution):
            return self
        grids = [run.time for run in solution.trials]
        if self.layout.free_duration:
            grids = [(t - t[0]) / (t[-1] - t[0]) for t in grids]
        if len(grids) == len(self.trials):
            pairs = zip(self.trials, grids, strict=True)
            made = self._on([trial.on_grid(grid) for trial, grid in pairs])
            if made._fits(solution):
                return made
        raise ValueError("this is a solution of another problem, or by another scheme")

    def _certified(self, solution: Solution) -> Solution:
        """The solution with the error of its grid, if it has converged; Ctrl-C leaves that out."""
        if not solution.success:
            return solution
        start = time.perf_counter()
        made = (self.symbolic, self._scheme, self._built, self.nlp, self.trials, self._known)
        try:
            error = grid_error(*made, solution, self._kkt(solution), self.variable_bounds)
        except KeyboardInterrupt:
            return solution
        seconds = time.perf_counter() - start
        timings = {**solution.timings, "grid": seconds}
        timings["total"] += seconds
        return replace(solution, grid=[error], timings=timings)

    def covariance(self, solution: Solution) -> Array:
        """Covariance of the identified parameters, (r, r), from the curvature at a solution.

        Meaningful if the objective is -2 log(likelihood), as the least squares of measurements with
        their true `std` is; see `kinesym.runtime.results.statistics.parameter_covariance`. Raises
        `ValueError` if the solution has not converged or does not determine the parameters.
        """
        checks.check_kind(solution, Solution, "kinesym")
        if not solution.success:
            raise ValueError(f"no covariance without convergence: {solution.message}")
        problem = self.on_grid_of(solution)
        return parameter_covariance(problem.nlp, problem._kkt(solution))

    def _kkt(self, solution: Solution) -> Kkt:
        """The KKT matrix at a solution."""
        return kkt_at(
            self.nlp,
            solution.free_vector,
            (solution.multipliers, solution.lower_multipliers, solution.upper_multipliers),
            self.variable_bounds,
            self.constraint_bounds,
        )

    def _check_finite(self, z: Array) -> None:
        reason = explain(self.program, self.nlp, z)
        if reason is not None:
            raise ValueError(f"at the guess, {reason}; change the guess or the bounds")

    def _solution(self, found: Solved, seconds: float) -> Solution:
        if found.status in (Solve.STEP_FAILED, Solve.NOT_FINITE):
            # to most linear solvers an infinite derivative is a failure
            reason = explain(self.program, self.nlp, found.z)
            found = replace(found, status=Solve.NOT_FINITE) if reason else found
        message = found.message
        if found.status is Solve.NOT_FINITE:
            message = f"{message}: {reason or 'between iterates'}"
        timings = {**self.timings, "evaluate": found.evaluation, **linear_solver_seconds(found.log)}
        timings["total"] = self.timings["derive"] + self.timings["compile"] + seconds
        multipliers, lower, upper = found.multipliers
        trials = [self._trial_result(found.z, k) for k in range(len(self.trials))]
        return Solution(
            success=found.status.success,
            message=message,
            status=found.status,
            objective=found.objective,
            parameters=self._parameters(found.z),
            known=dict(self._known),
            trials=trials,
            notes=poor_fits(trials) if self.symbolic.objective.least_squares else (),
            free_vector=found.z,
            multipliers=multipliers,
            lower_multipliers=lower,
            upper_multipliers=upper,
            history=found.iterations,
            linear_solver=found.linear_solver,
            timings=timings,
            model=self.model.name,
            problem={
                "scheme": self.symbolic.scheme.name,
                "variables": self.n_variables,
                "constraints": self.n_constraints,
                "nodes": self.layout.nodes,
                "arrays": self.layout.arrays,
                "held": sorted(self.layout.held),
            },
            log=found.log,
        )

    def _trial_result(self, z: Array, number: int) -> Trajectory:
        layout, trial = self.layout, self.trials[number]
        courses = self._courses(z, number)
        for name in layout.held & set(layout.inputs):
            courses[name][-1] = courses[name][-2]  # acts on nothing; else it would look like a jump
        return Trajectory(
            time=layout.time(z, number).copy(),
            states={name: courses[name] for name in layout.states},
            inputs={**trial.inputs, **{name: courses[name] for name in layout.inputs}},
            outputs=self.nlp.outputs(z, number),
            parameters={**self._known, **self._parameters(z)},
            model=self.model.name,
            measurements=dict(trial.measurements),
            std=dict(trial.std),
            drawing=self.model.drawing,
        )

    def _courses(self, z: Array, number: int) -> dict[str, Array]:
        """All states and unknown inputs at the nodes of a trial, copies."""
        found = self.layout.courses(z, number, self._about.stages, self._about.to_ends)
        return {name: row.copy() for name, row in found.items()}

    @property
    def _about(self) -> CollocationManifest:
        return self.nlp.about

    def _parameters(self, z: Array) -> dict[str, float]:
        values = self.layout.parameter_values(z)
        return dict(zip(self.layout.parameters, map(float, values), strict=True))

    def _multipliers(self, guess: Any) -> tuple[Array, Array, Array] | None:
        """Those of constraints, lower and upper bounds, if the guess is a solution with them."""
        if isinstance(guess, Solution) and self._fits(guess):
            return guess.multipliers, guess.lower_multipliers, guess.upper_multipliers
        return None

    def _fits(self, solution: Solution) -> bool:
        """Whether `solution` has the free vector and the constraints of this problem."""
        layout, other = self.layout, solution.problem
        return (
            list(solution.parameters) == list(layout.parameters)
            and other.get("nodes") == layout.nodes
            and other.get("arrays") == layout.arrays
            and other.get("scheme") == self.symbolic.scheme.name
            and solution.free_vector.shape == (self.n_variables,)
            and solution.multipliers.shape == (self.n_constraints,)
        )


def _vector(values: ArrayLike, what: str, size: int) -> Array:
    row = real_array(values, what)
    if row.shape != (size,):
        raise ValueError(f"{what} are {size} numbers, got {row.shape}")
    return row
