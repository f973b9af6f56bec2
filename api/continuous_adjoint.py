"""Gradients by the continuous adjoint: conjugate variables integrated backwards from the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from kinesym.base import checks
from kinesym.base.checks import check_kind
from kinesym.base.notebook import Displayed
from kinesym.internal.problems.compiled import compile
from kinesym.runtime.arrays import Array
from kinesym.runtime.functions import Functions
from kinesym.runtime.nlp.collocation import filled
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal
from kinesym.simulation import simulate
from kinesym.symbolic.adjoint import adjoint
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, dynamicsymbols, name_of, suggest
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem


@dataclass(frozen=True, eq=False)
class ContinuousGradient:
    """Derivatives of J = phi(x_T) + integral of psi dt at a forward run over N nodes.

    cost : J, by the trapezoidal rule.
    parameters : dJ/dp by name of the unknown parameters, with fixed initial states.
    initial : dJ/dx(0) by name of the state.
    inputs : {f: dJ/df(t)} (N,), the density: the change of J is the integral of density times the
        change of f. Where it jumps at a node, it is the value just after the node.
    duration : dJ/dT, with inputs and signals as given functions of absolute time.
    conjugates : trajectories (N,) in forward time. First-order form: `costate_x` = dJ/dx(t) for
        every state x. Second-order form: also `lambda_q`, `mu_q`, `eta_q`, their time derivatives
        `lambda_dot_q` ..., `lambda_s`, `mu_s`, `eta_s` for states s beside coordinates and speeds,
        and `Lambda_q`, the multiplier lambda + mu' + eta'' of the equation of motion.
    """

    cost: float
    parameters: Mapping[str, float]
    initial: Mapping[str, float]
    inputs: Mapping[str, Array]
    duration: float
    conjugates: Mapping[str, Array]


class ContinuousAdjoint(Displayed):
    """The continuous adjoint of a model and an objective, derived and compiled once for many runs.

    Parameters
    ----------
    model : any model whose x' can be solved for; nothing in it may have a kink.
    objective : `Integral` and `Terminal`; functions of time that the model does not know are
        signals. The integrand may contain x'.
    unknown : parameters p of which dJ/dp is wanted.
    form : "first-order", for every model, or "second-order", the conjugate variables lambda, mu,
        eta for equations of motion.
    held : inputs and signals that are constant between nodes; others are linear.

    The gradient is that of the continuous J, exact as the steps go to zero, with errors of order 2;
    it is not the gradient of a discretised J. Kinks and jumps of the data belong on nodes.
    Barauskas, Krusinskiene 2005, equations (2.3) to (2.8), with corrections (see
    `kinesym.symbolic.adjoint`). Raises `ValueError` naming what the form does not know.
    """

    def __init__(
        self,
        model: Model,
        objective: Objective,
        unknown: Iterable[sp.Symbol | str] = (),
        form: str = "first-order",
        held: Iterable[Any] = (),
    ) -> None:
        check_kind(model, Model, "kinesym")
        if model.delays:
            raise ValueError(
                f"model {model.name} has delays ({model.delays[0].name}), whose adjoint looks "
                "ahead; use Shooting or Collocation"
            )
        self._held = frozenset(map(name_of, checks.listed(held, "held")))
        self._adjoint = adjoint(model, objective, unknown, form, self._held)
        _check_held(self._held, [*model.input_names, *self._adjoint.signals])
        self._functions = compile(self._adjoint.model)
        self._forward = model

    def __repr__(self) -> str:
        return f"<continuous adjoint of {repr(self._forward)[1:-1]}>"

    @property
    def model(self) -> Model:
        """The adjoint model, in reversed time T - t."""
        return self._adjoint.model

    def gradient(
        self, run: Trajectory, signals: Mapping[Any, ArrayLike] | None = None
    ) -> ContinuousGradient:
        """Gradient of the objective at `run`, a simulation of the model with the parameters to be
        varied.

        signals : those of the objective that the model does not know, each (N,) or a number. Raises
        `ValueError` for what is missing, and if the end conditions have no solution.
        """
        trial = self._reversed(run, {} if signals is None else signals)
        values = self._values(run)
        back = simulate(
            self.model,
            trial.grid,
            self._end(trial, values),
            values,
            trial.signals,
            method="trapezoid",
        )
        if back.interrupted:
            raise KeyboardInterrupt
        if len(back.time) < len(trial.grid):
            raise FloatingPointError(
                f"the adjoint of {self._forward.name} cannot be integrated "
                f"backwards over this run: {back.message}"
            )
        return self._collect(trial, back, values)

    # -- the forward run, seen from its end -----------------------------------------------------

    def _reversed(self, run: Trajectory, signals: Mapping[Any, ArrayLike]) -> Experiment:
        """Inputs of the adjoint model over T - t; held ones shifted to the left ends there."""
        _check_run(self._forward, run)
        extra = [name for name in self._adjoint.signals if name not in run.inputs]
        given = by_name(signals, extra, "signals")
        for name in extra:
            if name not in given:
                raise ValueError(
                    f"signal {name} of the objective has no data; give signals={{{name!r}: ...}}"
                )
        forward = Experiment(run.time, inputs={**run.inputs, **given})
        known = {**run.states, **forward.inputs}
        back, inputs = (forward.grid[-1] - forward.grid)[::-1], dict[str, Any]()
        for name in self.model.input_names:
            if name in self._adjoint.slopes:
                slope = np.diff(known[self._adjoint.slopes[name]]) / np.diff(forward.grid)
                inputs[name] = Signal(back, np.append(slope[::-1], slope[0]), "held")
            elif name in self._held:
                shifted = np.append(known[name][-2::-1], known[name][0])
                inputs[name] = Signal(back, shifted, "held")
            else:
                inputs[name] = known[name][::-1]
        return Experiment(back, inputs=inputs)

    def _values(self, run: Trajectory) -> dict[str, float]:
        """Parameters of the adjoint model."""
        end = self._adjoint.end_time
        known = {**run.parameters, **({end: float(run.time[-1])} if end else {})}
        return {name: known[name] for name in self.model.parameter_names}

    def _end(self, trial: Experiment, values: Mapping[str, float]) -> dict[str, float]:
        """The conjugate variables at T, from dJ/dx(T) = dphi/dx."""
        about, f = self._adjoint, self._functions
        states = dict.fromkeys(f.states, 0.0)
        if not any(x in about.ends for x in about.costates):
            return states
        unit = np.zeros((len(f.states), 1 + len(about.terminal)))
        for k, name in enumerate(about.terminal):
            unit[f.states.index(name), 1 + k] = 1.0
        u = np.array([trial.inputs[name][:1] for name in f.inputs]).reshape(-1, 1)
        table = _evaluate(f, unit, u, np.array(list(values.values())), np.zeros(unit.shape[1]))
        phi_x = [float(table[about.ends[x]][0]) if x in about.ends else 0.0 for x in about.costates]
        matrix = np.array([table[name][1:] for name in about.costates.values()])
        solution = _solve_end(matrix, np.array(phi_x))
        return {**states, **dict(zip(about.terminal, map(float, solution), strict=True))}

    # -- integrals --------------------------------------------------------------------------------

    def _collect(
        self, trial: Experiment, back: Trajectory, values: Mapping[str, float]
    ) -> ContinuousGradient:
        """Integrals by the trapezoidal rule, each interval with its own held values."""
        about, f = self._adjoint, self._functions
        time, p = trial.grid, np.array(list(values.values()))
        y = np.array([back.states[name] for name in f.states])
        u = np.array([trial.inputs[name] for name in f.inputs]).reshape(len(f.inputs), len(time))
        held = np.array([name in trial.held for name in f.inputs], dtype=bool)[:, None]
        late = _evaluate(f, y[:, :-1], u[:, :-1], p, time[:-1])  # as t goes, the right ends
        early = _evaluate(f, y[:, 1:], np.where(held, u[:, :-1], u[:, 1:]), p, time[1:])

        def integral(name: str) -> float:
            return float(0.5 * np.diff(time) @ (late[name] + early[name]))

        def history(name: str) -> Array:
            return np.append(early[name][::-1], late[name][0])

        def at_end(name: str | None) -> float:
            return 0.0 if name is None else float(late[name][0])

        densities = about.densities
        unknown = [name for name in densities if name in self._forward.parameter_names]
        shown = [*f.states, *about.costates.values(), *about.multipliers]
        conjugates = {name: history(name) for name in dict.fromkeys(shown)}
        conjugates |= {name: np.zeros(len(time)) for name in about.zero}
        return ContinuousGradient(
            cost=integral(about.psi) + at_end(about.phi),
            parameters={p: integral(densities[p]) + at_end(about.ends.get(p)) for p in unknown},
            initial={x: float(history(name)[0]) for x, name in about.costates.items()},
            inputs={u: history(densities[u]) for u in self._forward.input_names},
            duration=at_end(about.duration),
            conjugates=conjugates,
        )


def sampled_gradient(
    problem: Problem, runs: Sequence[Trajectory], owned: Owned, names: Sequence[str]
) -> Array:
    """dJ/dq of single shooting in the order of the names of q, by the first-order form on the nodes
    of its trials. owned : the parameters.

    A sum over samples counts as an integral whose weight makes the trapezoidal rule give that sum.
    """
    unknown = tuple(name_of(p) for p in problem.unknown_parameters)
    held = tuple(sorted(problem.held))
    about = _derived(problem.model, _as_integral(problem), unknown, held)
    slopes = dict.fromkeys(owned.names, 0.0)
    for number, run in enumerate(runs):
        of = f" of trial {number}" if len(runs) > 1 else ""
        found = about.gradient(
            run, _samples(run, problem) if problem.objective.least_squares else {}
        )
        for p, place in zip(owned.parameters, owned.places(number), strict=True):
            slopes[owned.names[place]] += found.parameters[p]
        slopes |= {f"{x}(0){of}": value for x, value in found.initial.items()}
        for u, density in found.inputs.items():
            effects = _sample_effects(run.time, density, u in problem.held)
            slopes |= {f"{u} at node {i}{of}": effect for i, effect in enumerate(effects)}
    return np.array([slopes[name] for name in names])


@lru_cache(maxsize=64)
def _derived(
    model: Model, objective: Objective, unknown: tuple[str, ...], held: tuple[str, ...]
) -> ContinuousAdjoint:
    return ContinuousAdjoint(model, objective, unknown, held=held)


def _as_integral(problem: Problem) -> Objective:
    """The objective with least squares as an integral."""
    objective, squares = problem.objective, []
    if not objective.least_squares:
        return objective
    for name, modelled in problem.measurements.items():
        words = f"sample_{name} scale_{name} weight_{name}"
        measured, scale, weight = dynamicsymbols(words)
        if (std := problem.spreads.get(name)) is not None:  # scale is 1, or 0 without a sample
            e = (modelled - measured) / std
            rho = e**2 if objective.loss is None else objective.loss.cost(e)
            squares.append(weight * scale * (rho + 2 * sp.log(std)))
            continue
        e = scale * (modelled - measured)
        squares.append(weight * (e**2 if objective.loss is None else objective.loss.cost(e)))
    integrand = objective.integrand + objective.least_squares * sp.Add(*squares)
    return replace(objective, integrand=integrand, least_squares=0.0)


def _samples(run: Trajectory, problem: Problem) -> dict[str, Array]:
    """Measurements and their weights over time, so that the trapezoidal rule gives their sum."""
    step, signals = np.diff(run.time), dict[str, Array]()
    quadrature = 0.5 * (np.append(step, 0.0) + np.append(0.0, step))
    for name, measured in run.measurements.items():
        known = name in run.std and name not in problem.spreads
        scale = 1.0 / run.std[name] if known else np.ones(len(run.time))
        signals[f"sample_{name}"] = filled(measured, run.time)
        signals[f"scale_{name}"] = np.where(np.isnan(measured), 0.0, scale)
        signals[f"weight_{name}"] = 1.0 / quadrature
    return signals


def _sample_effects(time: Array, density: Array, held: bool) -> Array:
    """dJ/df_i (N,) of samples that are joined by lines or held, from the density dJ/df(t)."""
    step = np.diff(time)
    if held:
        return np.append(0.5 * step * (density[:-1] + density[1:]), 0.0)
    return density * 0.5 * (np.append(step, 0.0) + np.append(0.0, step))


def _check_held(held: Iterable[str], names: Sequence[str]) -> None:
    for name in held:
        if name not in names:
            raise ValueError(f"held: {name} is no input and no signal; {suggest(name, names)}")


def _check_run(model: Model, run: Trajectory) -> None:
    """Whether the run is a complete one of the model."""
    check_kind(run, Trajectory, "kinesym")
    if run.message:
        raise ValueError(f"the run of {run.model} is not complete: {run.message}")
    known = {*run.states, *run.inputs, *run.parameters}
    for name in (*model.state_names, *model.input_names, *model.parameter_names):
        if name not in known:
            raise ValueError(
                f"the run, of model {run.model}, has no {name}; simulate model {model.name}"
            )


def _evaluate(f: Functions, y: Array, u: Array, p: Array, time: Array) -> dict[str, Array]:
    """States and outputs of the adjoint model by name, at n points."""
    values = f.outputs(f.rhs(y, u, p, time), y, u, p, time)
    return {**dict(zip(f.states, y, strict=True)), **dict(zip(f.output_names, values, strict=True))}


def _solve_end(matrix: Array, right: Array) -> Array:
    """x with matrix x = right, also for a singular matrix if there is one.

    Rows and columns have different units, and are scaled before singularity is judged.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise FloatingPointError("the derivatives of the terminal cost are not finite")
    rows = np.abs(matrix).max(axis=1)
    rows[rows == 0.0] = 1.0
    scaled = matrix / rows[:, None]
    columns = np.abs(scaled).max(axis=0)
    columns[columns == 0.0] = 1.0
    scaled, right = scaled / columns, right / rows
    x, *_ = np.linalg.lstsq(scaled, right, rcond=1e-10)
    if not np.abs(scaled @ x - right).max() <= 1e-8 * np.abs(right).max():
        raise ValueError(
            "the terminal condition of mu and eta needs an invertible k~; use form='first-order'"
        )
    return np.asarray(x / columns)
