"""`ks.Shooting`: identification by simulation, with exact gradients."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.codegen.transcribe import transcribe
from kinesym.continuous_adjoint import shooting_gradient
from kinesym.pipeline import realise
from kinesym.runtime import checks
from kinesym.runtime.build import check_compiler
from kinesym.runtime.collocation import first_guess, results_of, values_of_results, within
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.fit import Fit, check_guess, poor_fits, typical_sizes, vector_of_guess
from kinesym.runtime.manifest import CollocationManifest
from kinesym.runtime.minimise import OPTIMIZERS, Minimisation, Minimum, minimise
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.shooting import Diverged, Residuals, ShootingProblem, Unknowns
from kinesym.runtime.simulation import Stepper
from kinesym.runtime.statistics import (
    Confidence,
    Estimate,
    confidence_of_segments,
    confidence_of_squares,
)
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
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES
from kinesym.task import (
    checked_trials,
    kinematic_pairs,
    known_values,
    named_bounds,
    symbolic_problem,
    warn_of_degrees,
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
    initial : value of every state at the start by name, or a list of such mappings, one per trial.
        A value is a number, or None or bounds (low, high) if it is unknown; a list of values has
        one per trial. A state is unknown in all trials or in none.
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
        self._threads = checks.threads(threads)
        unknown = by_name({} if unknown is None else unknown, model.parameter_names, "unknown")
        inputs = {} if unknown_inputs is None else unknown_inputs
        inputs = by_name(inputs, model.input_names, "unknown_inputs")
        self.method, self.segments = method, checks.count(segments, "segments")
        self._substeps = checks.count(substeps, "substeps")
        check_steps(method, self._substeps, inputs, self.trials)
        self._fine = [trial.refined(self._substeps) for trial in self.trials]
        self.symbolic = symbolic_problem(
            model,
            self._fine,
            list(unknown),
            inputs,
            EXPLICIT.get(method) or SCHEMES[method],
            objective,
        )
        self._known = known_values(model, unknown, {} if known is None else known)
        starts, start_bounds = initial_values(model, initial, len(self.trials))
        if not (unknown or inputs or start_bounds):
            raise ValueError(
                "nothing is unknown; name parameters in unknown={...}, inputs in "
                "unknown_inputs, or an unknown start"
            )
        bounds = named_bounds(model, unknown, inputs, {})

        warn_of_kinks(model)
        check_compiler()  # before any long work
        warn_of_degrees(model, self.trials)
        begin = time.perf_counter()
        program = shooting_program(self.symbolic)
        derive = time.perf_counter() - begin
        built = realise(program, narrow=True)
        self.timings = {"derive": derive + built.derive, "compile": built.compile}
        nlp = make_nlp(built, self._fine, self._known, self._threads)
        self._unknowns = Unknowns(
            states=model.state_names,
            parameters=nlp.layout.parameters,
            initial=tuple(start_bounds),
            inputs=nlp.layout.inputs,
            segments=tuple(segment_starts(trial.n_nodes, self.segments) for trial in self._fine),
            nodes=tuple(trial.n_nodes for trial in self._fine),
        )
        self._problem = ShootingProblem(
            nlp,
            Stepper.of(built, method if method in EXPLICIT else "implicit"),
            built.manifest.of(CollocationManifest).families["interval"],
            self._fine,
            self._known,
            starts,
            self._unknowns,
        )
        self.bounds = self._q_bounds(bounds, start_bounds)
        self._squares: Residuals | None = None

    # -- the unknowns -----------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """What each entry of q is."""
        return list(self._unknowns.names)

    def pack(self, guess: Any = None) -> Array:
        """q from values by name, an array, None, or a result: a `Fit` of this or another problem,
        a `Solution`, a `Trajectory` or a list with one per trial.

        A state stands for its initial value: a number, a trajectory (N,), or a list with one of
        these per trial. What is not given comes from the measurements, the model's values, or zero;
        this and results are moved into the bounds. Raises `ValueError` naming what has a wrong size
        or lies outside its bounds.
        """
        if isinstance(guess, Fit) and list(guess.names) == self.names:
            return np.clip(guess.values, *self.bounds)
        layout, result = self._problem.nlp.layout, results_of(guess)
        if result is not None:
            values = values_of_results(*result, layout, self._fine)
            return np.clip(self._gather(values), *self.bounds)
        if isinstance(guess, Mapping | None):
            known = [*layout.states, *layout.inputs, *layout.parameters]
            q = self._gather(by_name(guess or {}, known, "guess"))
        else:
            q = vector_of_guess(guess, self.names)
        check_guess(q, self.names, self.bounds)
        return q

    def unpack(self, q: ArrayLike) -> dict[str, float]:
        """Values by name, for q or a gradient."""
        return dict(zip(self.names, map(float, vector_of_guess(q, self.names)), strict=True))

    def _gather(self, guess: Mapping[str, Any]) -> Array:
        layout, unknowns = self._problem.nlp.layout, self._unknowns
        z, _ = first_guess(
            layout, self._fine, guess, dict(self.model.values), kinematic_pairs(self.model)
        )
        q = np.zeros(unknowns.size)
        q[: len(unknowns.parameters)] = layout.parameter_values(z)
        rows = [layout.states.index(x) for x in unknowns.initial]
        n = len(layout.states)
        for k, begins in enumerate(unknowns.segments):
            trajectories = layout.trajectories(z, k)
            q[unknowns.starts(k)] = trajectories[rows, 0]
            q[unknowns.boundaries(k)] = trajectories[:n, begins[1:]].T.ravel()
            q[unknowns.samples(k)] = trajectories[n:].ravel()
        owner = [name.split("(")[0].split(" at ")[0] for name in self.names]
        given = np.array([name in guess for name in owner])  # "x(0)" and "x at node 3": x
        made_up = within(q, self.bounds, np.zeros(q.size, dtype=bool), str)
        return np.where(given, q, made_up)

    def _q_bounds(
        self,
        bounds: Mapping[str, tuple[float, float]],
        starts: Mapping[str, Sequence[tuple[float, float]]],
    ) -> tuple[Array, Array]:
        unknowns = self._unknowns
        sides = []
        for side, free in ((0, -np.inf), (1, np.inf)):
            q = np.full(unknowns.size, free)
            q[: len(unknowns.parameters)] = [bounds[p][side] for p in unknowns.parameters]
            for k, N in enumerate(unknowns.nodes):
                q[unknowns.starts(k)] = [starts[x][k][side] for x in unknowns.initial]
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
            built = realise(without_hessians(transcribe(symbolic)))
            nlp = make_nlp(built, trials, self._known, self._threads)
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
            inputs={
                **{name: fine.inputs[name][::part] for name in fine.inputs},
                **dict(zip(layout.inputs, rows[n:], strict=True)),
            },
            outputs={name: row[::part] for name, row in outputs.items()},
            parameters={name: values[name] for name in self.model.parameter_names},
            model=self.model.name,
            measurements=dict(trial.measurements),
            std=dict(trial.std),
            drawing=self.model.drawing,
        )

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
        the guess, samples of inputs that are zero by what lowers the objective most; without it,
        parameters of different magnitude stall gradient methods.
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
        settings, tolerance = checks.options(options), checks.positive(tolerance, "tolerance")
        limit = 500 if max_iterations is None else max_iterations
        limit = checks.count(limit, "max_iterations", least=0)
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
        size, scaled = self._sizes(q), checks.flag(scale, "scale")
        with iteration_line(progress) as report:
            task = Minimisation(
                self._problem.cost,
                self._problem.gradient,
                size if scaled else np.ones_like(q),
                J if J > 0.0 else 1.0,
                self.bounds,
                report,
            )
            if squares is not None:
                task.residuals, task.jacobian = self._callbacks(squares)
            if self.segments > 1:
                task.gaps, task.gap_jacobian = self._gaps()
            found = minimise(optimizer, task, q, tolerance, limit, settings)
        return self._fit(found, task, optimizer, size, time.perf_counter() - begin)

    def _check_room(self) -> None:
        low, high = self.bounds
        for name in np.array(self.names)[low == high]:
            raise ValueError(
                f"the bounds of {name} are equal, which least-squares cannot use; give it as known"
            )

    def _sizes(self, q: Array) -> Array:
        """A typical size of each unknown: of trajectories their largest value; of samples of inputs
        at least what lowers the objective most."""
        size, unknowns = typical_sizes(q, self.bounds), self._unknowns
        for k in range(len(self.trials)):
            for where in (unknowns.samples(k), unknowns.boundaries(k)):
                part = q[where]
                if len(part) and part.any():
                    size[where] = np.abs(part).max()
        for name in unknowns.inputs:
            which = np.array([owner.startswith(f"{name} at node ") for owner in self.names])
            which &= np.arange(q.size) >= unknowns.offsets["inputs", 0]
            largest, effect = np.abs(q[which]).max(), self._size_by_effect(q, which, size)
            size[which] = max(largest, effect) or size[which]
        return size

    def _size_by_effect(self, q: Array, which: NDArray[np.bool_], size: Array) -> float:
        """How far some unknowns go down the gradient to where the objective is lowest, with the
        curvature there by a difference; zero if that is nowhere."""
        slope = np.where(which, self._problem.gradient(q), 0.0)
        largest = float(np.abs(slope).max())
        if not 0.0 < largest < np.inf:
            return 0.0
        step = 1e-4 * float(np.median(size[which])) / largest
        if not np.isfinite(self._problem.cost(q - step * slope)):
            return 0.0
        change = slope - np.where(which, self._problem.gradient(q - step * slope), 0.0)
        bend = float(slope @ change) / step
        found = largest * float(slope @ slope) / bend if bend > 0.0 else 0.0
        return found if np.isfinite(found) else 0.0

    def _least_squares(self, optimizer: str) -> Residuals | None:
        """The residuals if the objective has them; needed by least squares only."""
        others = "; use bfgs, ipopt or steepest-descent"
        if optimizer == "least-squares" and self._unknowns.inputs:
            raise ValueError(
                "least-squares needs the derivatives of all residuals, which there are"
                f" not for samples of unknown inputs{others}"
            )
        try:
            return self._residuals()
        except ValueError as error:  # the objective is no sum of squares
            if optimizer == "least-squares":
                words = f"least-squares needs a sum of squares: {error}{others}"
                raise ValueError(words) from error
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
        self, found: Minimum, task: Minimisation, optimizer: str, size: Array, seconds: float
    ) -> Fit:
        q, problem = found.q, self._problem
        J = problem.cost(q)
        gradient = problem.gradient(q) if np.isfinite(J) else np.full_like(q, np.nan)
        sure = self._confidence(q, task, J, gradient, size)
        z = problem.simulate(q) if np.isfinite(J) else None  # a view, so nothing is simulated after
        trials = [] if z is None else [self._trajectory(q, z, k) for k in range(len(self.trials))]
        notes = list(sure.notes)
        if self.symbolic.objective.least_squares:
            notes += poor_fits(trials)
        unknowns = self._unknowns
        timings = {**self.timings, "total": sum(self.timings.values()) + seconds}
        return Fit(
            success=found.success,
            message=found.message,
            objective=J,
            parameters=dict(zip(unknowns.parameters, map(float, q), strict=False)),
            known=dict(self._known),
            initial=unknowns.initial_values(q),
            trials=trials,
            names=self.names,
            values=q,
            gradient=gradient,
            history=list(task.history),
            condition=sure.condition,
            covariance=sure.covariance,
            active=[name for name, at in zip(self.names, sure.held, strict=True) if at],
            notes=notes,
            timings=timings,
            optimizer=optimizer,
            model=self.model.name,
        )

    def _confidence(
        self, q: Array, task: Minimisation, J: float, gradient: Array, size: Array
    ) -> Confidence:
        """From residuals, else from differences of gradients."""
        nothing = Confidence(np.zeros(q.size, dtype=bool), np.full((q.size, q.size), np.nan))
        if not np.isfinite(J):
            return nothing
        found = Estimate(q, self.names, self.bounds, J, gradient, self._natural_sizes(q))
        if task.jacobian is not None:
            slopes, objective = task.jacobian(q), self.symbolic.objective
            slopes.eliminate_zeros()
            given = objective.integrand == 0 and objective.terminal == 0
            telling = int((np.diff(slopes.indptr) > 0).sum())
            samples = None if given else telling // self._substeps
            if self.segments == 1:
                return confidence_of_squares(found, slopes.toarray(), samples)
            inner = slice(*(self._unknowns.offsets[group, 0] for group in ("segments", "inputs")))
            gaps = self._problem.tangent(q)[1]
            return confidence_of_segments(found, slopes, gaps, inner, samples)
        held = found.held(np.abs(gradient) / (1e-5 * size))  # where it is not known better
        if self.segments > 1 or q.size > 60:
            return replace(nothing, held=held)
        free = np.flatnonzero(~held)
        rows = [self._slope_of_gradient(q, int(k), 1e-5 * size[k]) for k in free]
        if not np.isfinite(rows).all():
            return replace(nothing, held=held)
        curvature = 0.5 * np.reshape(rows, (len(free), q.size))[:, free]
        return replace(found.judged(free, curvature, 0.0), held=held)

    def _natural_sizes(self, q: Array) -> Array:
        """The largest value of the trajectory that an unknown belongs to; NaN for parameters."""
        unknowns, layout = self._unknowns, self._problem.nlp.layout
        z, size = self._problem.simulate(q), np.full(q.size, np.nan)
        rows = [layout.states.index(x) for x in unknowns.initial]
        for k, begins in enumerate(unknowns.segments):
            largest = np.abs(layout.trajectories(z, k)).max(axis=1)
            states, inputs = np.split(largest, [len(layout.states)])
            size[unknowns.starts(k)] = states[rows]
            size[unknowns.boundaries(k)] = np.tile(states, len(begins) - 1)
            size[unknowns.samples(k)] = np.repeat(inputs, unknowns.nodes[k])
        return size

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
