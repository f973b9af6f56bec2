"""`ks.simulate`: a trajectory from initial values, stepped in C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.evaluate import compile
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.functions import Functions
from kinesym.runtime.simulation import run_rk4
from kinesym.runtime.trajectory import Trajectory
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name

METHODS = ("rk4",)


def simulate(
    model: Model | Functions,
    time: ArrayLike,
    initial: Mapping[Any, float],
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, ArrayLike] | None = None,
    method: str = "rk4",
    substeps: int = 1,
    hold: Mapping[Any, str] | None = None,
) -> Trajectory:
    """Simulate `model` on the grid `time` (N,) [s].

    Parameters
    ----------
    model : a model, or the functions that `ks.compile` made of it (for many runs).
    initial : value of every state at time[0].
    parameters : values; those of the model where not given.
    inputs : each (N,) or a number. hold : "linear" (default) or "zero-order" between samples.
    method : "rk4", the classical method of order 4, with `substeps` steps per interval of the grid.

    Returns the trajectory with the outputs of the model. Raises `ValueError` for what is missing
    or does not fit, `FloatingPointError` naming the time if the states become infinite.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if substeps < 1 or substeps != int(substeps):
        raise ValueError(f"substeps must be at least 1 and whole, got {substeps}")
    if not isinstance(model, (Model, Functions)):
        raise ValueError(f"expected a kinesym.Model, got {type(model).__name__}")
    f = compile(model) if isinstance(model, Model) else model
    trial = Experiment(time, inputs=by_name({} if inputs is None else inputs, f.inputs, "inputs"),
                       hold=by_name({} if hold is None else hold, f.inputs, "hold"))  # fmt: skip
    start = by_name(initial, f.states, "initial")
    _complete(start, f.states, "initial value of state", "initial")
    _complete(trial.inputs, f.inputs, "course of input", "inputs")
    for name, value in start.items():
        if np.ndim(value) or not np.isfinite(value):
            raise ValueError(f"the initial value of {name} must be one finite number, got {value}")
    values = _parameter_values(f, parameters or {})
    f.require_explicit()
    return run_rk4(f, trial, start, values, int(substeps))


def _parameter_values(f: Functions, given: Mapping[Any, float]) -> dict[str, float]:
    """Values of all parameters by name: the given ones, else the model's.

    Raises `ValueError` naming a parameter without a finite value.
    """
    values = {**f.values, **by_name(given, f.parameters, "parameters")}
    result: dict[str, float] = {}
    for name in f.parameters:
        if name not in values:
            raise ValueError(f"parameter {name} has no value; give parameters={{{name!r}: ...}}")
        if np.ndim(values[name]) != 0:
            raise ValueError(f"parameter {name} must be one number, got {np.shape(values[name])}")
        if not np.isfinite(values[name]):
            raise ValueError(f"parameter {name} is {values[name]}")
        result[name] = float(values[name])
    return result


def _complete(given: Mapping[str, Any], names: tuple[str, ...], what: str, where: str) -> None:
    for name in names:
        if name not in given:
            raise ValueError(f"the {what} {name} is missing; add it to {where}={{...}}")
