"""Simulation of hybrid models from event to event, with derivatives if wanted."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.codegen.c import emit
from kinesym.codegen.hybrid import hybrid_program, slopes_program
from kinesym.runtime import checks
from kinesym.runtime.arrays import real_array, seconds
from kinesym.runtime.build import build
from kinesym.runtime.checks import count, positive
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.hybrid_sensitivity import Sensitivities, sensitivities_of
from kinesym.runtime.hybrid_simulation import STOPPED, HybridTask, Marched, outputs
from kinesym.runtime.hybrid_trajectory import HybridTrajectory, State
from kinesym.runtime.hybrid_troubles import check_start, explain, marched
from kinesym.runtime.native import Library
from kinesym.runtime.piecewise import Piecewise
from kinesym.runtime.trajectory import Trajectory
from kinesym.symbolic.expression import real_number
from kinesym.symbolic.given import check_kind, listed, shown
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name, suggest
from kinesym.symbolic.schemes import EXPLICIT, TRAPEZOID

Array = NDArray[np.float64]

#: How a contact ends: when its force does, or when its height has grown by the hysteresis.
RELEASES = ("force", "height")
METHODS = (*EXPLICIT, TRAPEZOID.name)


def simulate(
    hybrid: Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, float] | State,
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    active: Sequence[str] = (),
    method: str = "dormand-prince",
    step: float | None = None,
    rtol: float = 1e-9,
    atol: float = 1e-11,
    release: str = "force",
    v_stop: float = 1e-3,
    per_second: int = 1000,
    progress: bool | None = None,
) -> HybridTrajectory:
    """Simulate on the grid `time` (N,) [s], from event to event.

    initial : value of every state, or the final state of an earlier run, from which it goes on as
        if it had not ended. inputs : each a number, a `Piecewise`, or samples (N,) with straight
        lines between. active : contacts that press at the start.
    method : "dormand-prince", steps by rtol and atol; or "rk4" or "trapezoid" with steps of at most
        `step` [s], by default the shortest of the grid. All end steps exactly at events.
    release : a contact ends when its "force" does, or when its "height" has grown.
    v_stop : if all points would leave the ground more slowly than this after an impact, they stay
        [m/s].
    per_second : events allowed, beyond which it is chattering.
    progress : a bar; by default on a terminal.

    What ends early is returned up to there with a warning; so is what Ctrl-C interrupts. Raises
    `ValueError` for what does not fit.
    """
    task = task_of(
        hybrid,
        time,
        initial,
        parameters,
        inputs,
        active,
        method=method,
        step=step,
        rtol=rtol,
        atol=atol,
        release=release,
        v_stop=v_stop,
        per_second=per_second,
        progress=progress,
    )
    return _run(hybrid, task)


def sensitivities(
    hybrid: Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, float] | State,
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    active: Sequence[str] = (),
    **options: Any,
) -> Sensitivities:
    """A simulation with derivatives of its states and events; arguments as of `simulate`.

    They are those of each step, with the motion of the events: forward in a few directions, or by
    the adjoint with respect to all parameters, initial values and pieces of inputs. The sequence of
    events is that of the run. Restitution and friction coefficients are numbers, not parameters.

    Raises `ValueError` as `simulate`, for the trapezoidal rule and for release="height".
    """
    task = task_of(hybrid, time, initial, parameters, inputs, active, **options)
    library, structure = _slopes(_ById(hybrid))
    found = marched(replace(task, tape=True))
    run = trajectory_of(hybrid, task, found)
    _warn(task, found, run, stacklevel=3)
    return sensitivities_of(task, found, run, library, structure)


def _run(hybrid: Hybrid, task: HybridTask) -> HybridTrajectory:
    found = marched(task)
    run = trajectory_of(hybrid, task, found)
    _warn(task, found, run, stacklevel=4)
    return run


def _warn(task: HybridTask, found: Marched, run: HybridTrajectory, stacklevel: int) -> None:
    """Of runs that ended early, unless an event was to end them."""
    failures = {e["name"] for e in task.about["events"] if e["failure"]}
    meant = found.status == STOPPED and found.happened[-1].name not in failures
    if run.message and not meant:
        warnings.warn(f"{run.run.model}: {run.message}", stacklevel=stacklevel)


def trajectory_of(hybrid: Hybrid, task: HybridTask, found: Marched) -> HybridTrajectory:
    """What came out, by name, with outputs."""
    model, about, states = hybrid.model, task.about, found.states
    N = states.shape[1]
    names = [*about["inputs"], *about["modes"], *hybrid.forces]
    message = explain(task, found)
    run = Trajectory(
        task.time[:N],
        dict(zip(model.state_names, states, strict=True)),
        dict(zip(names, found.inputs, strict=True)),
        dict(zip(model.outputs, outputs(task, states, found.inputs), strict=True)),
        dict(zip(model.parameter_names, task.parameters.tolist(), strict=True)),
        model.name,
        message=message,
        drawing=model.drawing,
    )
    contacts = tuple(contact.name for contact in hybrid.contacts)
    pressed = tuple(
        name for name, state in zip(contacts, task.start.contacts, strict=True) if state == 1
    )
    return HybridTrajectory(
        run,
        tuple(found.happened),
        found.final,
        message,
        contacts,
        pressed,
        found.work,
        tuple(e["name"] for e in about["events"]),
    )


@dataclass(frozen=True)
class Options:
    """How to simulate; see `simulate`."""

    method: str = "dormand-prince"
    step: float | None = None
    rtol: float = 1e-9
    atol: float = 1e-11
    release: str = "force"
    v_stop: float = 1e-3
    per_second: int = 1000
    progress: bool | None = None

    def __post_init__(self) -> None:
        for what, known in (("release", RELEASES), ("method", METHODS)):
            if getattr(self, what) not in known:
                raise ValueError(
                    f"{what} is one of {', '.join(known)}, got {shown(getattr(self, what))}"
                )
        scheme = EXPLICIT.get(self.method)
        if self.step is not None and scheme is not None and scheme.error:
            raise ValueError(
                f"{self.method} chooses its steps by rtol and atol; step= is for the others"
            )
        checks.tolerances(self.rtol, self.atol)
        positive(self.v_stop, "v_stop")
        if self.step is not None:
            positive(self.step, "step")
        object.__setattr__(self, "per_second", count(self.per_second, "per_second"))


def task_of(
    hybrid: Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, float] | State,
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    active: Sequence[str] = (),
    **options: Any,
) -> HybridTask:
    """What `simulate` is asked for, checked."""
    check_kind(hybrid, Hybrid, "kinesym.hybrid")
    for name in options:
        if name not in Options.__dataclass_fields__:
            raise ValueError(
                f"there is no option {name}; {suggest(name, Options.__dataclass_fields__)}"
            )
    how = Options(**options)
    grid, active = Experiment(seconds(time, "time")).grid, listed(active, "active")
    values = _values(hybrid.model, {} if parameters is None else parameters)
    courses = _courses(hybrid, grid, {} if inputs is None else inputs)
    _check_muscles(hybrid, values, courses, grid)
    library, about = _compiled(hybrid)
    start = (
        _state(hybrid, initial, active)
        if isinstance(initial, State)
        else _start(hybrid, about, grid, initial, active)
    )
    if start.time != grid[0]:
        raise ValueError(
            f"the grid begins at {grid[0]:g} s, the state to go on from is at {start.time:g} s"
        )
    length = float(np.diff(grid).min()) if how.step is None else float(how.step)
    task = HybridTask(
        library,
        about,
        grid,
        start,
        np.array(list(values.values())),
        courses,
        how.rtol,
        how.atol,
        how.v_stop,
        how.release,
        how.per_second,
        how.method,
        length,
        progress=how.progress,
    )
    check_start(task)
    return task


def _values(model: Model, given: Mapping[Any, float]) -> dict[str, float]:
    """Of all parameters, in their order."""
    known = {**model.values, **by_name(given, model.parameter_names, "parameters")}
    values = {}
    for name in model.parameter_names:
        if name not in known:
            raise ValueError(f"the parameter {name} is missing; add it to parameters={{...}}")
        values[name] = real_number(known[name], f"the parameter {name}")
    check_values(model, values)
    return values


@lru_cache(maxsize=32)
def _built(hybrid: _ById) -> tuple[Library, Mapping[str, Any]]:
    source = emit(hybrid_program(hybrid.hybrid))
    library, _ = build(source.files, lanes=1)
    return library, json.loads(source.manifest)["hybrid"]


@lru_cache(maxsize=32)
def _slopes(hybrid: _ById) -> tuple[Library, Mapping[str, Any]]:
    source = emit(slopes_program(hybrid.hybrid))
    library, _ = build(source.files, lanes=1)
    return library, json.loads(source.manifest)["slopes"]


class _ById:
    """A hybrid model as a key: the same object is the same model."""

    def __init__(self, hybrid: Hybrid) -> None:
        self.hybrid = hybrid

    def __hash__(self) -> int:
        return id(self.hybrid)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.hybrid is self.hybrid


def _compiled(hybrid: Hybrid) -> tuple[Library, Mapping[str, Any]]:
    return _built(_ById(hybrid))


def _start(
    hybrid: Hybrid,
    about: Mapping[str, Any],
    grid: Array,
    initial: Mapping[Any, float],
    active: Sequence[str],
) -> State:
    given = by_name(initial, hybrid.model.state_names, "initial")
    for name in hybrid.model.state_names:
        if name not in given:
            raise ValueError(
                f"the initial value of state {name} is missing; add it to initial={{...}}"
            )
    names = [contact.name for contact in hybrid.contacts]
    for name in active:
        if name not in names:
            raise ValueError(f"active: there is no contact {name!r}; there are {', '.join(names)}")
    numbers = [
        real_number(given[name], f"the initial value of state {name}")
        for name in hybrid.model.state_names
    ]
    return State(
        float(grid[0]),
        np.array(numbers, dtype=np.float64),
        np.array(list(about["modes"].values()), dtype=np.float64),
        np.array([int(name in active) for name in names], dtype=np.intc),
        np.ones(len(names), dtype=np.intc),
        np.zeros(len(hybrid.events), dtype=np.intc),
    )


def _number(value: Any, what: str) -> float:
    """One finite number; raises `ValueError` naming `what`."""
    number = real_array(value, what)
    if number.ndim:
        raise ValueError(f"{what} must be one number, got shape {number.shape}")
    if not np.isfinite(number):
        raise ValueError(f"{what} must be finite, got {number}")
    return float(number)


def _check_muscles(
    hybrid: Hybrid, values: Mapping[str, float], courses: Mapping[str, Piecewise], grid: Array
) -> None:
    """Their parameters, and that recruitment stays within 0 ... 1 where it is an input."""
    for muscle in hybrid.muscles:
        muscle.check(values)
        course = courses.get(f"{muscle.name}_recruitment")
        if course is None:
            continue
        begin, slope = np.asarray(course.begin), np.asarray(course.slope)
        first, last = np.append(grid[0], begin[1:]), np.append(begin[1:], grid[-1])
        here = (last > grid[0]) & (first < grid[-1])
        ends = [
            np.asarray(course.value) + slope * (np.clip(at, grid[0], grid[-1]) - begin)
            for at in (first, last)
        ]
        wrong = [v for row in ends for v in row[here] if not -1e-9 <= v <= 1.0 + 1e-9]
        if wrong:
            raise ValueError(
                f"muscle {muscle.name!r}: recruitment must be within 0 ... 1, got {wrong[0]:g}"
            )


def _state(hybrid: Hybrid, state: State, active: Sequence[str]) -> State:
    """A state to go on from, if it is one of this model."""
    if active:
        raise ValueError("a state to go on from says which contacts press; leave out active=")
    for what, row, names in (
        ("states", state.x, hybrid.model.state_names),
        ("modes", state.modes, hybrid.modes),
        ("contacts", state.contacts, hybrid.contacts),
        ("events", state.armed, hybrid.events),
    ):
        if len(row) != len(names):
            raise ValueError(
                f"the state to go on from has {len(row)} {what}, {hybrid.model.name} "
                f"has {len(names)}; it belongs to another model"
            )
    return state


def _courses(hybrid: Hybrid, grid: Array, given: Mapping[Any, Any]) -> dict[str, Piecewise]:
    courses = by_name(given, hybrid.given, "inputs")
    found = {}
    for name in hybrid.given:
        if name not in courses:
            raise ValueError(f"the course of input {name} is missing; add it to inputs={{...}}")
        course = courses[name]
        found[name] = course if isinstance(course, Piecewise) else _course(name, grid, course)
    return found


def _course(name: str, grid: Array, given: Any) -> Piecewise:
    """A number, or samples at the nodes."""
    expected = f"expected {grid.shape}, a number or ks.hybrid.Piecewise(...)"
    if callable(given):
        raise ValueError(f"input {name} is {shown(given)}, {expected}")
    row = real_array(given, f"input {name}")
    if row.shape not in ((), grid.shape):
        raise ValueError(f"input {name} has shape {row.shape}, {expected}")
    if not np.isfinite(row).all():
        raise ValueError(f"input {name} must be finite, got {shown(given)}")
    return Piecewise.samples(grid, row) if row.ndim else Piecewise([grid[0]], [float(row)])
