"""`ks.simulate`: trajectories from initial values, stepped in C."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.codegen.c import emit
from kinesym.codegen.stepping import stepper as stepper_program
from kinesym.diagnose import explain_step
from kinesym.runtime import checks
from kinesym.runtime.arrays import real_array, seconds
from kinesym.runtime.build import build
from kinesym.runtime.ensemble import Ensemble, Failure
from kinesym.runtime.experiment import HOLDS, Experiment
from kinesym.runtime.native import HALVES, HOLD
from kinesym.runtime.simulation import (
    STIFF,
    Outcome,
    Stepper,
    Task,
    cause_of_growth,
    failure,
    growth,
    hold_kind,
    implausible,
    said,
    too_long,
)
from kinesym.runtime.simulation import simulate as march
from kinesym.runtime.trajectory import Trajectory
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name, name_of
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES

Array = NDArray[np.float64]

#: Implicit methods are the schemes of collocation.
METHODS = (*EXPLICIT, *SCHEMES)

#: With more, rounding is most of what a step does.
MOST_SUBSTEPS = 10**10

#: Members of an ensemble of which it is found out which expression was not finite.
_EXPLAINED = 8


def simulate(
    model: Model,
    time: ArrayLike,
    initial: Mapping[Any, ArrayLike],
    parameters: Mapping[Any, ArrayLike] | None = None,
    inputs: Mapping[Any, ArrayLike] | None = None,
    method: str = "rk4",
    substeps: int = 1,
    hold: Mapping[Any, str] | None = None,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    threads: int | None = None,
    progress: bool | None = None,
) -> Any:
    """Simulate `model` on the grid `time` (N,) [s]: a `Trajectory`, or an `Ensemble` of M of them.

    Parameters
    ----------
    time : all nodes, not just the first and the last; time spans are converted to seconds, dates
        count from the first of them.
    initial : value of every state at time[0]; (M,) for an ensemble.
    parameters : values, those of the model where not given; (M,) for an ensemble.
    inputs : each a number, (N,) or, with samples at the midpoints too, (2 N - 1,), a parabola on
        each interval; for an ensemble also (M, N) or (M, 2 N - 1).
    hold : "linear" (default) or "zero-order" between samples; held inputs also have N - 1 samples.
    method : "rk4", the classical method of order 4; "dormand-prince", adaptive, order 5 with dense
        output, for reference solutions; or implicit: "trapezoid", "midpoint", "backward-euler",
        the schemes of collocation, whose defects are solved to rounding.
    substeps : steps per interval of the grid. rtol, atol : tolerances of the adaptive method.
    threads : for ensembles; default: OMP_NUM_THREADS or the number of processors.
    progress : show a bar; None only on a terminal.

    What ends early (divergence, an expression that is not finite, Newton's method, Ctrl-C) is
    returned up to there with a warning that names time, cause and remedy, and so is what grows
    beyond any plausible size; see `Trajectory.message` and `Ensemble.failures`. Raises `ValueError`
    for what is missing or does not fit, before anything is compiled.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if not isinstance(model, Model):
        raise ValueError(f"expected a kinesym.Model, got {type(model).__name__}")
    substeps = checks.count(substeps, "substeps", most=MOST_SUBSTEPS)
    tolerances = checks.tolerances(rtol, atol)
    grid = Experiment(seconds(time, "time")).grid
    start = _numbers(initial, model.state_names, {}, "initial", "initial value of state")
    values = _numbers(parameters, model.parameter_names, model.values, "parameters", "parameter")
    check_values(model, values)
    courses = _courses(model, grid, inputs, hold)
    members = _members(start, values, inputs or {})
    count = 1 if members is None else members
    task = Task(
        time=grid,
        initial=np.array([np.broadcast_to(v, count) for v in start.values()]).reshape(-1, count),
        parameters=_parameter_rows(values, count),
        inputs=list(courses.values()),
        substeps=substeps,
        tolerances=tolerances,
        threads=checks.threads(threads),
    )
    stepper = compiled_stepper(model, method, len(task.parameters) > 1, members is None)
    outcome = march(stepper, task, progress)
    single = len(grid) == 2 and substeps == 1 and not stepper.adaptive
    if single and outcome.reached.min() == 2:
        words = too_long(stepper, task, outcome)
        if words:
            warnings.warn(f"{model.name}: {words}", stacklevel=2)
    if members is None:
        return _trajectory(stepper, task, outcome, model, method)
    return _ensemble(stepper, task, outcome, model, method)


@lru_cache(maxsize=64)
def compiled_stepper(model: Model, method: str, varying: bool, narrow: bool) -> Stepper:
    """The built loops of a method; deriving them again for the same model would only take time.

    varying : parameters differ between members. narrow : made for one trajectory.
    """
    source = emit(stepper_program(model, SCHEMES.get(method), varying))
    library, _ = build(source.files, narrow=narrow)
    return Stepper.of(
        library, json.loads(source.manifest), method if method in EXPLICIT else "implicit"
    )


# -- what is given --------------------------------------------------------------------------


def _numbers(
    given: Mapping[Any, ArrayLike] | None,
    names: tuple[str, ...],
    defaults: Mapping[str, float],
    where: str,
    what: str,
) -> dict[str, Array]:
    """A number or (M,) for every name; raises `ValueError` naming what is missing or not finite."""
    values = {**defaults, **by_name({} if given is None else given, names, where)}
    result: dict[str, Any] = {}
    for name in names:
        if name not in values:
            raise ValueError(f"the {what} {name} is missing; add it to {where}={{...}}")
        value = values[name]
        if isinstance(value, float) and isfinite(value):
            result[name] = np.float64(value)
            continue
        array = real_array(value, f"the {what} {name}")
        if array.ndim > 1 or array.size == 0:
            raise ValueError(
                f"the {what} {name} must be one number or (members,), got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            k = int(np.flatnonzero(~np.isfinite(array.ravel()))[0])
            of = f" of member {k}" if array.ndim else ""
            raise ValueError(f"the {what} {name}{of} is {array.ravel()[k]}, not a finite number")
        result[name] = array
    return result


def _courses(
    model: Model,
    grid: Array,
    inputs: Mapping[Any, ArrayLike] | None,
    hold: Mapping[Any, str] | None,
) -> dict[str, tuple[Array, int]]:
    """Samples (1 or M, N or 2 N - 1) and kind of every input."""
    given = by_name({} if inputs is None else inputs, model.input_names, "inputs")
    holds = by_name({} if hold is None else hold, model.input_names, "hold")
    N, courses = len(grid), {}
    for name, how in holds.items():
        if how not in HOLDS:
            raise ValueError(f"hold of {name}: {how!r} is unknown; choose {' or '.join(HOLDS)}")
    for name in model.input_names:
        if name not in given:
            raise ValueError(
                f"the course of input {name} is missing; add it to inputs={{{name!r}: ...}}"
            )
        array = real_array(given[name], f"input {name}")
        array = np.full((1, N), float(array)) if array.ndim == 0 else np.atleast_2d(array)
        kind = hold_kind(holds.get(name, "linear"))
        if kind == HOLD and array.shape[1] == N - 1:  # one sample per interval
            array = np.hstack([array, array[:, -1:]])
        if array.ndim != 2 or array.shape[1] not in (N, 2 * N - 1):
            raise ValueError(
                f"input {name} has shape {np.shape(given[name])}, expected {N} values, one per "
                f"node, or {2 * N - 1} with midpoints"
            )
        if array.shape[1] != N:
            if name in holds:
                raise ValueError(f"input {name} has samples at midpoints; it cannot be held too")
            kind = HALVES
        if not np.isfinite(array).all():
            member, k = np.argwhere(~np.isfinite(array))[0]
            node = k if array.shape[1] == N else k / 2
            raise ValueError(
                f"input {name} contains {int((~np.isfinite(array)).sum())} values that are not "
                f"finite, the first at node {node:g}"
                + (f" of member {member}" if len(array) > 1 else "")
            )
        courses[name] = (np.ascontiguousarray(array), kind)
    return courses


def _members(
    start: Mapping[str, Array],
    values: Mapping[str, Array],
    inputs: Mapping[Any, ArrayLike],
) -> int | None:
    """Number of members of an ensemble, None for a single trajectory."""
    found: dict[int, str] = {}
    for name, array in (*start.items(), *values.items()):
        if array.ndim == 1:
            found.setdefault(len(array), name)
    for key, samples in inputs.items():
        if np.ndim(samples) == 2:
            found.setdefault(np.shape(samples)[0], name_of(key))
    if len(found) > 1:
        words = ", ".join(f"{count} for {name}" for count, name in found.items())
        raise ValueError(f"the number of members is not clear: {words}")
    return next(iter(found), None)


def _parameter_rows(values: Mapping[str, Array], members: int) -> Array:
    """(1, r) if all members share them, else (M, r)."""
    count = members if any(v.ndim for v in values.values()) else 1
    rows = [np.broadcast_to(v, count) for v in values.values()]
    return np.ascontiguousarray(np.array(rows).reshape(len(rows), count).T)


# -- what comes out -------------------------------------------------------------------------


def _node_samples(courses: list[tuple[Array, int]]) -> list[Array]:
    return [array[:, ::2] if kind == HALVES else array for array, kind in courses]


def _trajectory(
    stepper: Stepper, task: Task, outcome: Outcome, model: Model, method: str
) -> Trajectory:
    """The one trajectory, up to where it is valid; warns if that is not the end."""
    end = int(outcome.reached[0])
    _, message = _ended(stepper, task, outcome, 0, model, method)
    if message:
        warnings.warn(said(message, stepper.model), stacklevel=3)
    inputs = [row[0, :end] for row in _node_samples(list(task.inputs))]
    return Trajectory(
        time=task.time[:end],
        states=dict(zip(stepper.states, outcome.states[:, 0, :end], strict=True)),
        inputs=dict(zip(stepper.inputs, inputs, strict=True)),
        outputs=dict(zip(stepper.outputs, outcome.values[:, 0, :end], strict=True)),
        parameters=dict(zip(stepper.parameters, map(float, task.parameters[0]), strict=True)),
        model=stepper.model,
        message=message,
        drawing=model.drawing,
    )


def _ensemble(
    stepper: Stepper, task: Task, outcome: Outcome, model: Model, method: str
) -> Ensemble:
    members, N = outcome.states.shape[1:]
    grown = implausible(outcome.states[:, :, 0], outcome.states[:, :, -1]).any(axis=0)
    failures: list[Failure] = []
    for k in np.flatnonzero((outcome.reached < N) | grown).tolist():
        explained = len(failures) < _EXPLAINED
        node, message = _ended(stepper, task, outcome, k, model if explained else None, method)
        failures.append(Failure(k, float(task.time[node]), message))
    if failures:
        first = failures[0]
        how = "ended early or grew beyond any plausible size" if grown.any() else "ended early"
        warnings.warn(
            f"{len(failures)} of {members} members of {stepper.model} {how}, the first is "
            f"member {first.member}: {first.message}",
            stacklevel=3,
        )
    inputs = [np.broadcast_to(row, (members, N)) for row in _node_samples(list(task.inputs))]
    columns = np.broadcast_to(task.parameters, (members, len(stepper.parameters))).T
    return Ensemble(
        time=task.time,
        states=dict(zip(stepper.states, outcome.states, strict=True)),
        inputs=dict(zip(stepper.inputs, inputs, strict=True)),
        outputs=dict(zip(stepper.outputs, outcome.values, strict=True)),
        parameters=dict(zip(stepper.parameters, columns, strict=True)),
        model=stepper.model,
        failures=tuple(failures),
        drawing=model.drawing,
    )


def _ended(
    stepper: Stepper, task: Task, outcome: Outcome, member: int, model: Model | None, method: str
) -> tuple[int, str]:
    """The node at which a member ended early or grew beyond any plausible size, and why; nothing of
    others. An expression that is not finite is looked for in the model, if that is given."""
    node = int(outcome.reached[member])
    if node == len(task.time):
        node, words = growth(stepper.states, outcome.states[:, member], task.time)
        if words:
            words += f"; {cause_of_growth(stepper, task, outcome, member, node)}"
        return node, words
    known = outcome.interrupted[member] or member in outcome.broken
    if model is None or known or outcome.trouble[member] == STIFF:
        return node, failure(stepper, task, outcome, member)
    program = stepper_program(model, SCHEMES.get(method), stepper.varying)
    undefined = explain_step(program, stepper, task, outcome, member)
    return node, failure(stepper, task, outcome, member, undefined)
