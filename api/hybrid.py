"""`ks.hybrid`: models with contacts, modes and events, simulated from event to event."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.codegen.c import emit
from kinesym.codegen.hybrid import hybrid_program
from kinesym.runtime.build import build
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.hybrid_simulation import (
    CHATTER,
    DONE,
    STEP,
    STOPPED,
    STUCK,
    Happening,
    HybridTask,
    HybridTrajectory,
    State,
    outputs,
)
from kinesym.runtime.hybrid_simulation import simulate as march
from kinesym.runtime.native import Library
from kinesym.runtime.piecewise import Piecewise
from kinesym.runtime.stimulation import Calcium, train
from kinesym.runtime.trajectory import Trajectory
from kinesym.symbolic.ground import GroundPoint, on_ground
from kinesym.symbolic.hybrid import Contact, Event, Hybrid
from kinesym.symbolic.model import check_values
from kinesym.symbolic.muscle import FESMuscle
from kinesym.symbolic.names import by_name

__all__ = ["Calcium", "Contact", "Event", "FESMuscle", "GroundPoint", "Happening", "Hybrid",
           "HybridTrajectory", "Piecewise", "on_ground", "simulate", "train"]  # fmt: skip

Array = NDArray[np.float64]

#: How a contact ends: when its force does, or when its height has grown by the hysteresis.
RELEASES = ("force", "height")


def simulate(
    hybrid: Hybrid,
    time: ArrayLike,
    initial: Mapping[Any, float] | State,
    parameters: Mapping[Any, float] | None = None,
    inputs: Mapping[Any, Any] | None = None,
    active: tuple[str, ...] = (),
    rtol: float = 1e-9,
    atol: float = 1e-11,
    release: str = "force",
    v_stop: float = 1e-3,
    per_second: int = 1000,
) -> HybridTrajectory:
    """Simulate on the grid `time` (N,) [s], by Dormand and Prince between events.

    initial : value of every state, or the final state of an earlier run, from which it goes on as
        if it had not ended. inputs : each a number, a `Piecewise`, or samples (N,) with straight
        lines between. active : contacts that press at the start.
    release : a contact ends when its "force" does, or when its "height" has grown.
    v_stop : impacts that would leave points moving away more slowly than this are plastic [m/s].
    per_second : events allowed, beyond which it is chattering.

    What ends early is returned up to there with a warning. Raises `ValueError` for what does not
    fit.
    """
    grid, model = Experiment(time).grid, hybrid.model
    if release not in RELEASES:
        raise ValueError(f"release is one of {', '.join(RELEASES)}, got {release!r}")
    library, about = _compiled(hybrid)
    values = {**model.values, **by_name(parameters or {}, model.parameter_names, "parameters")}
    missing = [name for name in model.parameter_names if name not in values]
    if missing:
        raise ValueError(f"the parameter {missing[0]} is missing; add it to parameters={{...}}")
    check_values(model, values)
    start = initial if isinstance(initial, State) else _start(hybrid, about, grid, initial, active)
    task = HybridTask(
        library, about, grid, start,
        np.array([float(values[name]) for name in model.parameter_names]),
        _courses(hybrid, grid, inputs or {}), rtol, atol, v_stop, release, per_second,
    )  # fmt: skip
    states, rows, happened, final, status = march(task)
    N = states.shape[1]
    names = [*about["inputs"], *about["modes"], *hybrid.forces]
    run = Trajectory(
        grid[:N], dict(zip(model.state_names, states, strict=True)),
        dict(zip(names, rows, strict=True)),
        dict(zip(model.outputs, outputs(task, states, rows), strict=True)),
        {k: float(values[k]) for k in values}, model.name, drawing=model.drawing,
    )  # fmt: skip
    message = _message(status, final, happened)
    if message and status != STOPPED:
        warnings.warn(f"{model.name}: {message}", stacklevel=2)
    return HybridTrajectory(run, tuple(happened), final, message)


@lru_cache(maxsize=32)
def _built(hybrid: _ById) -> tuple[Library, Mapping[str, Any]]:
    source = emit(hybrid_program(hybrid.hybrid))
    library, _ = build(source.files, lanes=1)
    return library, json.loads(source.manifest)["hybrid"]


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
    hybrid: Hybrid, about: Mapping[str, Any], grid: Array, initial: Mapping[Any, float],
    active: tuple[str, ...],
) -> State:  # fmt: skip
    given = by_name(initial, hybrid.model.state_names, "initial")
    for name in hybrid.model.state_names:
        if name not in given:
            raise ValueError(f"the initial value of state {name} is missing; add it to "
                             "initial={...}")  # fmt: skip
    names = [contact.name for contact in hybrid.contacts]
    for name in active:
        if name not in names:
            raise ValueError(f"active: there is no contact {name!r}; there are {', '.join(names)}")
    count = len(names)
    return State(
        float(grid[0]), np.array([float(given[name]) for name in hybrid.model.state_names]),
        np.array(list(about["modes"].values()), dtype=np.float64),
        np.array([int(name in active) for name in names], dtype=np.intc),
        np.ones(count, dtype=np.intc), np.zeros(len(hybrid.events), dtype=np.intc),
    )  # fmt: skip


def _courses(hybrid: Hybrid, grid: Array, given: Mapping[Any, Any]) -> dict[str, Piecewise]:
    courses = by_name(given, hybrid.given, "inputs")
    found = {}
    for name in hybrid.given:
        if name not in courses:
            raise ValueError(f"the course of input {name} is missing; add it to inputs={{...}}")
        course = courses[name]
        if isinstance(course, Piecewise):
            found[name] = course
        elif np.ndim(course) == 0:
            found[name] = Piecewise([grid[0]], [float(course)])
        elif np.shape(course) == grid.shape:
            found[name] = Piecewise.samples(grid, course)
        else:
            raise ValueError(f"input {name} has shape {np.shape(course)}, expected {grid.shape}, "
                             "a number or ks.hybrid.Piecewise(...)")  # fmt: skip
    return found


def _message(status: int, final: State, happened: list[Happening]) -> str:
    if status == DONE:
        return ""
    at = f"at t = {final.time:.9g} s"
    last = "; ".join(str(e) for e in happened[-20:])
    return {
        STOPPED: f"stopped {at} by {happened[-1].name if happened else 'an event'}",
        STEP: f"the step became too small {at}",
        STUCK: f"no state of the contacts is consistent {at}; with law 'stick' there may be none, "
               "use 'coulomb'",
        CHATTER: f"too many events {at}; raise v_stop, or set restitution 0. The last: {last}",
    }.get(status, "no memory is left")  # fmt: skip


