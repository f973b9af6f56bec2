"""`ks.Shooting`: identification by simulation, with exact gradients."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.codegen.c import emit
from kinesym.codegen.transcribe import transcribe
from kinesym.continuous_adjoint import shooting_gradient
from kinesym.runtime.build import build, check_compiler
from kinesym.runtime.collocation import first_guess
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.fit import Fit, at_bounds, check_guess, poor_fits, typical_sizes
from kinesym.runtime.minimise import OPTIMIZERS, Minimum, Task, minimise
from kinesym.runtime.nlp import default_threads
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.shooting import Diverged, Residuals, ShootingProblem, Unknowns
from kinesym.runtime.simulation import Stepper
from kinesym.runtime.statistics import identifiability, least_squares_covariance
from kinesym.runtime.trajectory import Trajectory
from kinesym.shooting_task import (
    check_steps,
    initial_values,
    make_nlp,
    segment_starts,
    shooting_program,
    warn_of_kinks,
    without_hessians,
)
from kinesym.squares import residual_problem
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.schemes import RK4, SCHEMES
from kinesym.task import (
    checked_trials,
    kinematic_pairs,
    known_values,
    named_bounds,
    symbolic_problem,
)

Array = NDArray[np.float64]

MODES = ("adjoint", "forward", "continuous-adjoint")


class Shooting:
    """An objective as a function of few unknowns: trajectories follow by simulation.

    Parameters
    ----------
    model : the symbolic model.
    trials : an experiment, or several that share the unknown parameters. The objective is taken at
        their nodes; an integral also at those of the substeps.
    unknown : parameters to be found, with bounds (low, high); None for free.
    known : values of the other parameters; the model's values where not given.
    initial : value of every state at the start; a list with one per trial if they differ; None or
        bounds (low, high) if unknown.
    objective : `Integral`, `Terminal`, `LeastSquares` and sums of them; None means `LeastSquares`.
    method : "rk4", or implicit: "trapezoid", "midpoint", "backward-euler". substeps : steps per
        interval of the grids.
    unknown_inputs : inputs whose samples are to be found, with bounds (low, high) or None.
    segments : more than one for multiple shooting: the states at the inner boundaries are unknowns
        too, and continuity is an equation (optimiser "ipopt").

    The vector q of unknowns holds parameters, unknown initial states, states at inner boundaries,
    and samples of inputs; see `names`. The object keeps the trajectories of the last q, so that
    cost and gradient share a simulation: it is not for several threads at once. Raises `ValueError`
    for whatever does not fit, before anything is derived or compiled.
    """

    def __init__(
        self,
        model: Model,
        trials: Experiment | Sequence[Experiment],
        unknown: Mapping[Any, Any] | None = None,
        known: Mapping[Any, float] | None = None,
        initial: Mapping[Any, Any] | None = None,
        objective: Objective | None = None,
        method: str = "rk4",
        substeps: int = 1,
        unknown_inputs: Mapping[Any, Any] | None = None,
        segments: int = 1,
        threads: int | None = None,
    ) -> None:
        self.model, self.trials = model, checked_trials(model, trials)
        self.method, self.segments = method, segments
        unknown = by_name({} if unknown is None else unknown, model.parameter_names, "unknown")
        inputs = {} if unknown_inputs is None else unknown_inputs
        inputs = by_name(inputs, model.input_names, "unknown_inputs")
        check_steps(method, substeps, segments, inputs, self.trials)
        self._substeps = int(substeps)
        self._fine = [trial.refined(self._substeps) for trial in self.trials]
        self.symbolic = symbolic_problem(
            model, self._fine, list(unknown), list(inputs),
            RK4 if method == "rk4" else SCHEMES[method], objective, (), (),
        )  # fmt: skip
        self._known = known_values(model, unknown, {} if known is None else known)
        starts, start_bounds = initial_values(model, initial, len(self.trials))
        if not (unknown or inputs or start_bounds):
            raise ValueError("nothing is unknown; name parameters in unknown={...}, inputs in "
                             "unknown_inputs, or an unknown start")  # fmt: skip
        bounds = named_bounds(model, unknown, inputs, {})

        warn_of_kinks(model)
        check_compiler()  # before any long work
        begin = time.perf_counter()
        program = shooting_program(self.symbolic)
        source = emit(program)
        derive = time.perf_counter() - begin
        library, compile_seconds = build(source.files, narrow=True)
        self.timings = {"derive": derive, "compile": compile_seconds}
        manifest = json.loads(source.manifest)
        self._threads = threads or default_threads()
        nlp = make_nlp(library, manifest, self._fine, self._known, self._threads)
        self._unknowns = Unknowns(
            states=model.state_names, parameters=nlp.layout.parameters,
            initial=tuple(start_bounds), inputs=nlp.layout.inputs,
            segments=tuple(segment_starts(trial.n_nodes, segments) for trial in self._fine),
            nodes=tuple(trial.n_nodes for trial in self._fine),
        )  # fmt: skip
        self._problem = ShootingProblem(
            nlp, Stepper.of(library, manifest, "rk4" if method == "rk4" else "implicit"),
            manifest["collocation"]["families"]["interval"], self._fine, self._known, starts,
            self._unknowns,
        )  # fmt: skip
        self.bounds = self._q_bounds(bounds, start_bounds)
        self._squares: Residuals | None = None

    # -- the unknowns -----------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """What each entry of q is."""
        return list(self._unknowns.names)

    def pack(self, guess: Any = None) -> Array:
        """q from values by name (a state stands for its initial value), an array, a `Fit`, or None.

        What is not given comes from the measurements, the model's values, or zero. Raises
        `ValueError` naming what has a wrong size or lies outside its bounds.
        """
        size = self._unknowns.size
        if isinstance(guess, Fit):
            guess = guess.values
        if not isinstance(guess, Mapping | None):
            q = np.atleast_1d(np.array(guess, dtype=np.float64))
            if q.shape != (size,):
                raise ValueError(f"there are {size} unknowns ({', '.join(self.names[:8])}...), "
                                 f"got {q.shape}")  # fmt: skip
        else:
            q = self._gather(guess or {})
        check_guess(q, self.names, self.bounds)
        return q

    def unpack(self, q: ArrayLike) -> dict[str, float]:
        """Values by name, for q or a gradient."""
        return dict(zip(self.names, map(float, np.asarray(q)), strict=True))

    def _gather(self, guess: Mapping[Any, Any]) -> Array:
        layout, unknowns = self._problem.nlp.layout, self._unknowns
        known = [*layout.states, *layout.inputs, *layout.parameters]
        free = np.full(layout.n_variables, np.inf)
        z = first_guess(layout, self._fine, by_name(guess, known, "guess"), dict(self.model.values),
                        kinematic_pairs(self.model), (-free, free))  # fmt: skip
        q = np.zeros(unknowns.size)
        q[: len(unknowns.parameters)] = layout.parameter_values(z)
        rows = [layout.states.index(x) for x in unknowns.initial]
        n = len(layout.states)
        for k, begins in enumerate(unknowns.segments):
            trajectories = layout.trajectories(z, k)
            q[unknowns.starts(k)] = trajectories[rows, 0]
            q[unknowns.boundaries(k)] = trajectories[:n, begins[1:]].T.ravel()
            q[unknowns.samples(k)] = trajectories[n:].ravel()
        low, high = self.bounds
        given = {name_of(key) for key in guess}  # "x(0)" and "x at node 3" are about x
        owner = [name.split("(")[0].split(" at ")[0] for name in self.names]
        return np.where([name in given for name in owner], q, np.clip(q, low, high))

    def _q_bounds(
        self,
        bounds: Mapping[str, tuple[float, float]],
        starts: Mapping[str, tuple[float, float]],
    ) -> tuple[Array, Array]:
        unknowns = self._unknowns
        sides = []
        for side, free in ((0, -np.inf), (1, np.inf)):
            q = np.full(unknowns.size, free)
            q[: len(unknowns.parameters)] = [bounds[p][side] for p in unknowns.parameters]
            for k, N in enumerate(unknowns.nodes):
                q[unknowns.starts(k)] = [starts[x][side] for x in unknowns.initial]
                q[unknowns.samples(k)] = np.repeat([bounds[u][side] for u in unknowns.inputs], N)
            sides.append(q)
        return sides[0], sides[1]

    # -- values and derivatives -------------------------------------------------------------

    def cost(self, guess: Any = None) -> float:
        """J(q); infinite if the simulation diverges. Arguments as in `pack`."""
        return self._problem.cost(self.pack(guess))

    def gradient(self, guess: Any = None, mode: str = "adjoint") -> Array:
        """d J/d q, in the order of `names`.

        mode : "adjoint", exact for the discretised objective, about as expensive as one simulation
        for any number of unknowns; "forward", the same from tangents; "continuous-adjoint", the
        gradient of the continuous problem, which differs by the error of the discretisation.
        Raises `ValueError` if the simulation diverges, with time and state.
        """
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; choose one of {', '.join(MODES)}")
        q = self.pack(guess)
        if mode == "adjoint":
            return self._problem.gradient(q)
        if mode == "forward":
            direct = self._problem.nlp.gradient(self._problem.simulate(q))
            return np.asarray(self._problem.tangent(q)[0].T @ direct)
        return shooting_gradient(self, q)

    def trajectories(self, guess: Any = None) -> list[Trajectory]:
        """The simulated trials at q, with their measurements; raises `ValueError` on divergence."""
        q = self.pack(guess)
        z = self._problem.simulate(q)
        return [self._trajectory(q, z, k) for k in range(len(self.trials))]

    def residuals(self, guess: Any = None) -> Array:
        """r with J = sum r^2. Raises `ValueError` if the objective is no sum of squares."""
        return self._residuals().values(self._problem.simulate(self.pack(guess)))

    def residual_jacobian(self, guess: Any = None) -> Array:
        """d r/d q by tangents of all unknowns at once, (n_residuals, n_unknowns)."""
        q = self.pack(guess)
        z = self._problem.simulate(q)
        return np.asarray((self._residuals().jacobian(z) @ self._problem.tangent(q)[0]).toarray())

    def _residuals(self) -> Residuals:
        if self._squares is None:
            symbolic, trials = residual_problem(self.symbolic, self._fine)
            source = emit(without_hessians(transcribe(symbolic)))
            library, _ = build(source.files)
            nlp = make_nlp(library, json.loads(source.manifest), trials, self._known, self._threads)
            self._squares = Residuals(nlp, trials)
        return self._squares

    def _trajectory(self, q: Array, z: Array, number: int) -> Trajectory:
        layout, trial, fine = self._problem.nlp.layout, self.trials[number], self._fine[number]
        part, n = self._substeps, len(layout.states)
        rows = layout.trajectories(z, number)[:, ::part].copy()
        values = {**self._known, **dict(zip(layout.parameters, map(float, q), strict=False))}
        outputs = self._problem.nlp.outputs(z, number)
        return Trajectory(
            time=trial.grid,
            states=dict(zip(layout.states, rows[:n], strict=True)),
            inputs={**{name: fine.inputs[name][::part] for name in fine.inputs},
                    **dict(zip(layout.inputs, rows[n:], strict=True))},
            outputs={name: row[::part] for name, row in outputs.items()},
            parameters={name: values[name] for name in self.model.parameter_names},
            model=self.model.name,
            measurements=dict(trial.measurements),
            std=dict(trial.std),
            drawing=self.model.drawing,
        )  # fmt: skip

    # -- solution ---------------------------------------------------------------------------

    def solve(
        self,
        guess: Any = None,
        optimizer: str = "bfgs",
        *,
        scale: bool = True,
        max_iterations: int | None = None,
        tolerance: float = 1e-10,
        options: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> Fit:
        """Minimise the objective.

        guess : see `pack`. optimizer : "bfgs" (SciPy's L-BFGS-B), "steepest-descent" (with a line
        search), "least-squares" (SciPy's trust region with exact Jacobian; for sums of squares) or
        "ipopt" (Gauss-Newton Hessian for sums of squares). scale : work in q divided by the size of
        the guess; without it, parameters of different magnitude stall gradient methods.
        max_iterations : default 500; simulations with derivatives for "least-squares".
        tolerance : of the gradient in scaled unknowns, relative to the objective at the guess.
        options : further options of the optimiser. progress : None shows it only on a terminal.

        Ctrl-C returns the best iterate, marked unconverged. Raises `ValueError` if the simulation
        diverges at the guess or the objective does not suit the optimiser.
        """
        if optimizer not in OPTIMIZERS:
            raise ValueError(
                f"unknown optimizer {optimizer!r}; choose one of {', '.join(OPTIMIZERS)}"
            )
        if self.segments > 1 and optimizer != "ipopt":
            raise ValueError("multiple shooting has equations: use optimizer='ipopt'")
        begin = time.perf_counter()
        q = self.pack(guess)
        J = self._problem.cost(q)
        if not np.isfinite(J):
            self.trajectories(q)  # says why
            raise ValueError(f"the objective is {J} at the guess")
        self._warn_unstable(q)
        squares = self._least_squares(optimizer)
        if optimizer == "least-squares":
            self._check_room()
        size = self._sizes(q)
        with iteration_line(progress) as report:
            task = Task(
                self._problem.cost, self._problem.gradient, size if scale else np.ones_like(q),
                J if J > 0.0 else 1.0, self.bounds, report,
            )  # fmt: skip
            if squares is not None:
                task.residuals, task.jacobian = self._callbacks(squares)
            if self.segments > 1:
                task.gaps, task.gap_jacobian = self._gaps()
            limit = 500 if max_iterations is None else int(max_iterations)
            found = minimise(optimizer, task, q, tolerance, limit, options or {})
        return self._fit(found, task, optimizer, size, time.perf_counter() - begin)

    def _check_room(self) -> None:
        low, high = self.bounds
        for name in np.array(self.names)[low == high]:
            raise ValueError(
                f"the bounds of {name} are equal, which least-squares cannot use; give it as known"
            )

    def _sizes(self, q: Array) -> Array:
        """A typical size of each unknown; of trajectories their largest value."""
        size = typical_sizes(q, self.bounds)
        for k in range(len(self.trials)):
            for where in (self._unknowns.samples(k), self._unknowns.boundaries(k)):
                part = q[where]
                if len(part):
                    size[where] = max(float(np.abs(part).max()), 1e-3)
        return size

    def _least_squares(self, optimizer: str) -> Residuals | None:
        """The residuals if the objective has them; needed by least squares only."""
        try:
            return self._residuals()
        except ValueError as error:  # the objective is no sum of squares
            if optimizer == "least-squares":
                raise ValueError(f"least-squares needs a sum of squares: {error}") from error
            return None

    def _callbacks(self, squares: Residuals) -> Any:
        problem = self._problem

        def values(q: Array) -> Array:
            try:
                return squares.values(problem.simulate(q))
            except Diverged:
                return np.array([np.inf])

        if self._unknowns.inputs:
            return values, None
        return values, lambda q: squares.jacobian(problem.simulate(q)) @ problem.tangent(q)[0]

    def _gaps(self) -> Any:
        problem, count = self._problem, sum(len(s) - 1 for s in self._unknowns.segments)

        def values(q: Array) -> Array:
            try:
                return problem.gaps(q)
            except Diverged:
                return np.full(count * len(self.model.states), np.nan)

        return values, lambda q: problem.tangent(q)[1]

    def _warn_unstable(self, q: Array) -> None:
        words = self._problem.instability(q)
        if words:
            warnings.warn(words, stacklevel=3)

    def _fit(
        self, found: Minimum, task: Task, optimizer: str, size: Array, seconds: float
    ) -> Fit:
        q, problem = found.q, self._problem
        J = problem.cost(q)
        gradient = problem.gradient(q) if np.isfinite(J) else np.full_like(q, np.nan)
        bound = at_bounds(q, self.bounds, size)
        free = np.flatnonzero(~bound)
        covariance, curvature = self._curvature(q, task, size, J, free)
        condition, notes = np.nan, list[str]()
        if curvature is not None:
            condition, notes = identifiability(curvature, [self.names[k] for k in free])
        z = problem.simulate(q) if np.isfinite(J) else None
        trials = [] if z is None else [self._trajectory(q, z, k) for k in range(len(self.trials))]
        if self.symbolic.objective.least_squares:
            notes += poor_fits(trials)
        unknowns = self._unknowns
        timings = {**self.timings, "total": sum(self.timings.values()) + seconds}
        first = unknowns.starts(0).start
        return Fit(
            success=found.success, message=found.message, objective=J,
            parameters=dict(zip(unknowns.parameters, map(float, q), strict=False)),
            known=dict(self._known),
            initial={name: float(value) for name, value in
                     zip(unknowns.initial, q[first:], strict=False)},
            trials=trials, names=self.names, values=q, gradient=gradient,
            history=list(task.history), condition=condition, covariance=covariance,
            active=[name for name, at in zip(self.names, bound, strict=True) if at], notes=notes,
            timings=timings, optimizer=optimizer, model=self.model.name,
        )  # fmt: skip

    def _curvature(
        self, q: Array, task: Task, size: Array, J: float, free: NDArray[np.intp]
    ) -> tuple[Array, Array | None]:
        """Covariance of q, zero where it is not free, and the scaled curvature of J/2 of the free
        unknowns: from residuals, else by differences."""
        n = len(q)
        covariance = np.full((n, n), np.nan)
        if not np.isfinite(J) or self.segments > 1:
            return covariance, None
        if task.jacobian is not None:
            every, objective = task.jacobian(q).toarray(), self.symbolic.objective
            given = objective.integrand == 0 and objective.terminal == 0
            telling = int((every != 0.0).any(axis=1).sum())
            samples = None if given else telling // self._substeps
            slopes = every[:, free]
            covariance[:] = 0.0
            part = least_squares_covariance(slopes, J, samples)
            covariance[np.ix_(free, free)] = part
            return covariance, (slopes * size[free]).T @ (slopes * size[free])
        if n > 60:
            return covariance, None
        rows = [self._slope_of_gradient(q, k, 1e-5 * size[k]) for k in free]
        if not np.isfinite(rows).all():
            return covariance, None
        return covariance, 0.5 * np.array(rows)[:, free] * np.outer(size[free], size[free])

    def _slope_of_gradient(self, q: Array, k: int, step: float) -> Array:
        """d gradient/d q_k by central differences; NaN where a simulation fails."""
        sides = []
        for sign in (1.0, -1.0):
            at = q.copy()
            at[k] += sign * step
            if not np.isfinite(self._problem.cost(at)):
                return np.full_like(q, np.nan)
            sides.append(self._problem.gradient(at))
        return np.asarray((sides[0] - sides[1]) / (2.0 * step))
