"""`ks.Collocation`: identification and trajectory optimisation by direct collocation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from sympy.core.function import AppliedUndef

from kinesym.codegen.c import emit
from kinesym.codegen.transcribe import transcribe
from kinesym.diagnose import explain
from kinesym.runtime.build import build
from kinesym.runtime.collocation import (
    bound_pair,
    constraint_bounds,
    first_guess,
    make_layout,
    trial_data,
    variable_bounds,
)
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.ipopt import Result, WarmStart, load_cyipopt, solve
from kinesym.runtime.nlp import NLP
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.solution import Solution, TrialResult
from kinesym.runtime.statistics import parameter_covariance
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, suggest
from kinesym.symbolic.objective import LeastSquares, Objective, at_end, at_start
from kinesym.symbolic.problem import Problem, measured_expressions
from kinesym.symbolic.schemes import scheme_named

Array = NDArray[np.float64]
HESSIANS = ("exact", "limited-memory")


class Collocation:
    """A nonlinear program made from a model, trials and unknowns.

    Parameters
    ----------
    model : the symbolic model.
    trials : an experiment, or several that share the unknown parameters.
    unknown : parameters to be found, with bounds (low, high); None for free.
    known : values of the other parameters; the model's values where not given.
    scheme : "midpoint" or "backward-euler".
    objective : `Integral`, `Terminal`, `LeastSquares` and sums of them; None means `LeastSquares`.
    bounds : (low, high) of states and unknown inputs at all nodes.
    boundary : conditions on `at_start(...)` and `at_end(...)`; path : conditions at every node.
        Each is an expression that is to be zero, or (expression, low, high).
    unknown_inputs : inputs to be found, with bounds (low, high) or None.
    threads : for the evaluation; default: OMP_NUM_THREADS or the number of processors.

    Raises `ValueError` for whatever does not fit, before anything is derived or compiled.
    """

    def __init__(
        self,
        model: Model,
        trials: Experiment | Sequence[Experiment],
        unknown: Mapping[Any, Any] | None = None,
        known: Mapping[Any, float] | None = None,
        scheme: str = "midpoint",
        objective: Objective | None = None,
        bounds: Mapping[Any, Any] | None = None,
        boundary: Sequence[Any] = (),
        path: Sequence[Any] = (),
        unknown_inputs: Mapping[Any, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.model = model
        self.trials = [trials] if isinstance(trials, Experiment) else list(trials)
        unknown = by_name(dict(unknown or {}), model.parameter_names, "unknown")
        free = by_name(dict(unknown_inputs or {}), model.input_names, "unknown_inputs")
        paths, path_bounds = _conditions(path, "path condition")
        ends, end_bounds = _conditions(boundary, "boundary condition")
        self.symbolic = _symbolic_problem(
            model, self.trials, list(unknown), list(free), scheme, objective, paths, ends
        )
        self._known = _known_values(model, unknown, known or {})
        self._bounds = _named_bounds(model, unknown, free, bounds or {})

        start = time.perf_counter()
        self.program = transcribe(self.symbolic)
        source = emit(self.program)
        derive = time.perf_counter() - start
        library, compile_seconds = build(source.files)
        self.timings = {"derive": derive, "compile": compile_seconds}
        manifest = json.loads(source.manifest)
        description = manifest["collocation"]
        self.layout = make_layout(description, self.trials)
        data = [trial_data(description, trial, self._known) for trial in self.trials]
        self.nlp = NLP(library, manifest, self.layout, data, threads or _default_threads())
        self.variable_bounds = variable_bounds(self.layout, self.trials, self._bounds)
        self.constraint_bounds = constraint_bounds(self.layout, path_bounds, end_bounds)

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
        """The free vector of a guess: None (from the data), values by symbol, a `Solution`, or z.

        What is not given comes from the measurements, the model's values, or zero. Raises
        `ValueError` naming what has a wrong size or lies outside its bounds.
        """
        if isinstance(guess, Solution):
            guess = self._from_solution(guess)
        if isinstance(guess, np.ndarray):
            if guess.shape != (self.n_variables,):
                raise ValueError(
                    f"the free vector has {self.n_variables} entries, got {guess.shape}"
                )
            return np.array(guess, dtype=np.float64)
        layout = self.layout
        known = [*layout.states, *layout.inputs, *layout.parameters]
        known += ["duration"] if layout.free_duration else []
        return first_guess(
            layout, self.trials, by_name(dict(guess or {}), known, "guess"),
            dict(self.model.values), _kinematic_pairs(self.model), self.variable_bounds,
        )  # fmt: skip

    def unpack(self, z: Array) -> dict[str, Any]:
        """Values by name: (N,) for trajectories (a list of these for several trials), numbers."""
        layout, result = self.layout, {}
        for k, name in enumerate((*layout.states, *layout.inputs)):
            rows = [layout.trajectories(z, trial)[k].copy() for trial in range(len(self.trials))]
            result[name] = rows if len(rows) > 1 else rows[0]
        result.update(self._parameters(z))
        if layout.free_duration:
            result["duration"] = layout.durations(z).copy()
        return result

    def cost(self, z: Array) -> float:
        """The objective at z."""
        return self.nlp.cost(_vector(z))

    def cost_gradient(self, z: Array) -> Array:
        """Its gradient, (n_variables,)."""
        return self.nlp.gradient(_vector(z))

    def constraints(self, z: Array) -> Array:
        """The constraints at z, (n_constraints,): equations, path conditions, boundary conditions
        of each trial; see `constraint_name`."""
        return self.nlp.constraints(_vector(z))

    def constraint_jacobian(self, z: Array) -> csr_array:
        """Their Jacobian, (n_constraints, n_variables), with its exact structure."""
        entries = (self.nlp.jacobian(_vector(z)), self.nlp.jacobian_structure)
        return coo_array(entries, shape=(self.n_constraints, self.n_variables)).tocsr()

    def lagrangian_hessian(
        self, z: Array, multipliers: ArrayLike, cost_factor: float = 1.0
    ) -> csr_array:
        """Second derivatives of cost_factor * cost + multipliers . constraints, symmetric."""
        rows, columns = self.nlp.hessian_structure
        values = self.nlp.hessian(_vector(z), _vector(multipliers), cost_factor)
        off = rows != columns
        entries = (
            np.concatenate([values, values[off]]),
            (np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])),
        )
        return coo_array(entries, shape=(self.n_variables, self.n_variables)).tocsr()

    def variable_name(self, j: int) -> str:
        """What z[j] is, in words."""
        return self.layout.variable_name(j)

    def constraint_name(self, i: int) -> str:
        """What constraint i is, in words."""
        return self.layout.constraint_name(i)

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
    ) -> Solution:
        """Solve with IPOPT.

        guess : see `pack`; a `Solution` of this problem also gives its multipliers.
        max_iterations, tolerance : IPOPT's `max_iter` (3000) and `tol` (1e-8).
        hessian : "exact" or "limited-memory". options : further options of IPOPT, by name.
        progress : show a line per iteration; None only on a terminal. log : print IPOPT's own log.

        Ctrl-C returns the current iterate, marked unconverged. Raises `ValueError` if a function is
        not finite at the guess, naming expression, equation, node and time; `IpoptMissing` if IPOPT
        cannot be loaded.
        """
        if hessian not in HESSIANS:
            raise ValueError(f"unknown hessian {hessian!r}; choose one of {', '.join(HESSIANS)}")
        load_cyipopt()
        start = time.perf_counter()
        z = self.pack(guess)
        self._check_finite(z)
        settings = dict(options or {})
        if max_iterations is not None:
            settings["max_iter"] = int(max_iterations)
        if tolerance is not None:
            settings["tol"] = float(tolerance)
        with iteration_line(progress) as report:
            result = solve(
                self.nlp, z, self.variable_bounds, self.constraint_bounds, settings, report,
                hessian, self._warm_start(guess), log,
            )  # fmt: skip
        return self._solution(result, time.perf_counter() - start)

    def covariance(self, solution: Solution) -> Array:
        """Covariance of the identified parameters, (r, r), from the curvature at a solution.

        Meaningful if the objective is -2 log(likelihood), as the least squares of measurements with
        their true `std` is; see `kinesym.runtime.statistics.parameter_covariance`.
        """
        return parameter_covariance(self.nlp, solution.free_vector, solution.multipliers)

    def _check_finite(self, z: Array) -> None:
        reason = explain(self.program, self.nlp, z)
        if reason is not None:
            raise ValueError(f"at the guess, {reason}; change the guess or the bounds")

    def _solution(self, result: Result, seconds: float) -> Solution:
        message = result.message
        if result.status == -13:
            reason = explain(self.program, self.nlp, result.z) or "between iterates"
            message = f"{message}: {reason}"
        trials = [self._trial_result(result.z, k) for k in range(len(self.trials))]
        message += _poor_fit(trials) if result.success else ""
        timings = {**self.timings, **result.timings}
        timings.pop("solver")
        timings["total"] = self.timings["derive"] + self.timings["compile"] + seconds
        return Solution(
            success=result.success,
            message=message,
            status=result.status,
            objective=result.objective,
            parameters=self._parameters(result.z),
            known=dict(self._known),
            trials=trials,
            free_vector=result.z,
            multipliers=result.multipliers,
            lower_multipliers=result.lower_multipliers,
            upper_multipliers=result.upper_multipliers,
            history=result.iterations,
            timings=timings,
            problem={
                "model": self.model.name,
                "scheme": self.symbolic.scheme.name,
                "variables": self.n_variables,
                "constraints": self.n_constraints,
            },
            log=result.log,
        )

    def _trial_result(self, z: Array, number: int) -> TrialResult:
        layout, trial = self.layout, self.trials[number]
        rows = layout.trajectories(z, number).copy()
        n = len(layout.states)
        unknown = dict(zip(layout.inputs, rows[n:], strict=True))
        return TrialResult(
            time=layout.time(z, number).copy(),
            states=dict(zip(layout.states, rows[:n], strict=True)),
            inputs={**trial.inputs, **unknown},
            outputs=self.nlp.outputs(z, number),
            measurements=dict(trial.measurements),
            std=dict(trial.std),
        )

    def _parameters(self, z: Array) -> dict[str, float]:
        values = self.layout.parameter_values(z)
        return dict(zip(self.layout.parameters, map(float, values), strict=True))

    def _warm_start(self, guess: Any) -> WarmStart | None:
        if isinstance(guess, Solution) and self._fits(guess):
            return WarmStart(guess.multipliers, guess.lower_multipliers, guess.upper_multipliers)
        return None

    def _fits(self, solution: Solution) -> bool:
        """Whether `solution` has the free vector and the constraints of this problem."""
        same = list(solution.parameters) == list(self.layout.parameters)
        return (
            same
            and solution.free_vector.shape == (self.n_variables,)
            and solution.multipliers.shape == (self.n_constraints,)
        )

    def _from_solution(self, solution: Solution) -> Any:
        """z if the problem is the same, else values by name, interpolated in relative time."""
        if self._fits(solution):
            return np.array(solution.free_vector)
        layout = self.layout
        guess: dict[str, Any] = {}
        if len(solution.trials) != len(self.trials):
            raise ValueError(
                f"the solution has {len(solution.trials)} trials, this problem {len(self.trials)}"
            )
        for name in (*layout.states, *layout.inputs):
            rows = []
            for old, trial in zip(solution.trials, self.trials, strict=True):
                if name in old.states or name in old.inputs:
                    rows.append(np.interp(_relative(trial.grid), _relative(old.time), old[name]))
            if len(rows) == len(self.trials):
                guess[name] = rows
        values = {**solution.known, **solution.parameters}
        guess.update({name: values[name] for name in layout.parameters if name in values})
        if layout.free_duration:
            guess["duration"] = [float(old.time[-1] - old.time[0]) for old in solution.trials]
        low, high = self.variable_bounds
        z = first_guess(layout, self.trials, guess, dict(self.model.values), {},
                        (np.full_like(low, -np.inf), np.full_like(high, np.inf)))  # fmt: skip
        return np.clip(z, low, high)


# -- from user input to a symbolic problem --------------------------------------------------


def _symbolic_problem(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Sequence[str],
    unknown_inputs: Sequence[str],
    scheme: str,
    objective: Objective | None,
    path: Sequence[sp.Expr],
    boundary: Sequence[sp.Expr],
) -> Problem:
    """Check the trials against the model and collect what the transcription needs to know."""
    if not trials:
        raise ValueError("at least one experiment is needed")
    chosen = LeastSquares() if objective is None else objective
    if not isinstance(chosen, Objective):
        raise ValueError(
            f"the objective {chosen} is not made of Integral, Terminal or LeastSquares; "
            "wrap it in one of them"
        )
    signals = _signals(model, trials, unknown_inputs, [chosen.integrand, chosen.terminal,
                                                       *path, *boundary])  # fmt: skip
    measured = list(dict.fromkeys(name for trial in trials for name in trial.measurements))
    if len({trial.free_duration for trial in trials}) > 1:
        raise ValueError("either all trials have an unknown duration or none")
    return Problem(
        model=model,
        scheme=scheme_named(scheme),
        objective=chosen,
        unknown_parameters=[p for p in model.parameters if name_of(p) in unknown],
        unknown_inputs=[u for u in model.inputs if name_of(u) in unknown_inputs],
        signals=signals,
        measurements=measured_expressions(model, measured),
        path=path,
        boundary=boundary,
        hold=_holds(model, trials, signals),
        free_duration=trials[0].free_duration,
    )


def _signals(
    model: Model,
    trials: Sequence[Experiment],
    unknown_inputs: Sequence[str],
    conditions: Iterable[sp.Expr],
) -> list[AppliedUndef]:
    """Known trajectories: known inputs, and functions of time in objective and conditions only."""
    known = [u for u in model.inputs if name_of(u) not in unknown_inputs]
    declared = {*model.states, *model.inputs}
    found = set().union(*(sp.sympify(c).atoms(AppliedUndef) for c in conditions))
    extra = sorted((f for f in found if f not in declared
                    and not isinstance(f, (at_start, at_end))), key=name_of)  # fmt: skip
    names = [name_of(s) for s in (*known, *extra)]
    for number, trial in enumerate(trials):
        for name in names:
            if name not in trial.inputs:
                raise ValueError(
                    f"input {name} has no data in trial {number}; give inputs={{{name}: ...}} in "
                    "the experiment, or make it unknown with unknown_inputs"
                )
        for name in trial.inputs:
            if name not in names:
                also = " because it is unknown" if name in unknown_inputs else ""
                raise ValueError(
                    f"trial {number} has data for input {name}, which is not used{also}; "
                    f"{suggest(name, names)}"
                )
    return [*known, *extra]


def _holds(
    model: Model, trials: Sequence[Experiment], signals: Sequence[AppliedUndef]
) -> frozenset[str]:
    names = {*model.input_names, *map(name_of, signals)}
    for trial in trials:
        for name in trial.hold:
            if name not in names:
                raise ValueError(f"hold of {name}, which is no input; {suggest(name, names)}")
        if trial.hold != trials[0].hold:
            raise ValueError("all trials must hold their inputs in the same way")
    return frozenset(name for name, how in trials[0].hold.items() if how == "zero-order")


def _conditions(
    conditions: Sequence[Any], what: str
) -> tuple[list[sp.Expr], list[tuple[float, float]]]:
    """Expressions and their bounds."""
    expressions, bounds = [], []
    for number, condition in enumerate(conditions):
        expression, pair = condition, (0.0, 0.0)
        if isinstance(condition, (tuple, list)):
            if len(condition) != 3:
                raise ValueError(f"{what} {number} must be (expression, low, high)")
            expression, pair = condition[0], bound_pair(f"{what} {number}", condition[1:])
        expressions.append(sp.sympify(expression))
        bounds.append(pair)
    return expressions, bounds


def _known_values(
    model: Model, unknown: Mapping[str, Any], known: Mapping[Any, float]
) -> dict[str, float]:
    """Values of the known parameters; raises `ValueError` naming one without value."""
    given = by_name(dict(known), model.parameter_names, "known")
    for name in given:
        if name in unknown:
            raise ValueError(f"parameter {name} is both known and unknown")
    values = {**model.values, **given}
    result: dict[str, float] = {}
    for name in model.parameter_names:
        if name in unknown:
            continue
        if name not in values:
            raise ValueError(
                f"parameter {name} has no value; give known={{{name!r}: ...}} or make it unknown"
            )
        if np.ndim(values[name]) or not np.isfinite(values[name]):
            raise ValueError(f"the value of parameter {name} must be a number, got {values[name]}")
        result[name] = float(values[name])
    return result


def _named_bounds(
    model: Model,
    unknown: Mapping[str, Any],
    unknown_inputs: Mapping[str, Any],
    bounds: Mapping[Any, Any],
) -> dict[str, tuple[float, float]]:
    allowed = [*model.state_names, *unknown_inputs]
    given = {**by_name(dict(bounds), allowed, "bounds")}
    for name in given:
        if unknown_inputs.get(name) is not None:
            raise ValueError(f"bounds of {name} are given in bounds and in unknown_inputs")
    every = {**unknown, **{k: v for k, v in unknown_inputs.items() if k not in given}, **given}
    return {name: bound_pair(name, bound) for name, bound in every.items()}


def _kinematic_pairs(model: Model) -> dict[str, str]:
    """{omega: theta} for every equation theta' - omega = 0."""
    pairs: dict[str, str] = {}
    for x, rate in zip(model.states, model.derivatives, strict=True):
        for v in model.states:
            if any(e in (rate - v, v - rate) for e in model.equations):
                pairs[name_of(v)] = name_of(x)
    return pairs


def _poor_fit(trials: Sequence[TrialResult]) -> str:
    """A warning for the message if the model does not follow a measurement."""
    for number, trial in enumerate(trials):
        for name, percent in trial.vaf().items():
            if percent < 50.0:
                return (
                    f", but {name} of trial {number} does not follow its samples "
                    f"(VAF {percent:.0f} %): probably a local minimum, try another guess"
                )
    return ""


def _relative(time: Array) -> Array:
    return (time - time[0]) / (time[-1] - time[0])


def _vector(values: ArrayLike) -> Array:
    return np.ascontiguousarray(values, dtype=np.float64)


def _default_threads() -> int:
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else os.cpu_count() or 1
