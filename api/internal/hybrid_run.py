"""Simulation of systems with events and contacts, with derivatives if wanted."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from kinesym.codegen.switching import hybrid_program, slopes_program
from kinesym.internal.model_run import warn_of_members
from kinesym.internal.pipeline import realise
from kinesym.internal.simulation_task import Request
from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.library.manifest import Built, HybridManifest
from kinesym.runtime.progress import node_bar
from kinesym.runtime.results.ensemble import Ensemble, Failure
from kinesym.runtime.results.event_log import EventLog, State
from kinesym.runtime.results.trajectory import KINDS, Trajectory
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.status import Switching
from kinesym.runtime.stepping.hybrid_sensitivity import Sensitivities, sensitivities_of
from kinesym.runtime.stepping.hybrid_simulation import HybridTask, Marched, outputs
from kinesym.runtime.stepping.hybrid_troubles import check_start, explain, marched
from kinesym.runtime.stepping.simulation import said
from kinesym.symbolic.hybrid import Hybrid


def hybrid_trajectory(hybrid: Hybrid, request: Request) -> Trajectory:
    """The run that is asked for; warns if it ended early."""
    run, meant = _run(hybrid, hybrid_task(hybrid, request))
    _warn(run, meant)
    return run


def hybrid_sensitivities(hybrid: Hybrid, request: Request) -> Sensitivities:
    """The run that is asked for, with its derivatives; warns if it ended early."""
    if request.members is not None:
        raise ValueError("sensitivities are those of one run; give numbers, not one per member")
    task = replace(hybrid_task(hybrid, request), tape=True)
    slopes = _slopes(hybrid)
    found = marched(task)
    run = _trajectory(hybrid, task, found)
    _warn(run, _meant(task, found))
    return sensitivities_of(task, found, run, slopes)


def hybrid_ensemble(hybrid: Hybrid, request: Request) -> Ensemble:
    """Members on several threads, each with its own sequence of events; Ctrl-C ends all that are
    left. Raises `ValueError` naming a member that cannot begin."""
    members = request.members or 0
    tasks: list[HybridTask] = []
    for k in range(members):
        try:
            tasks.append(hybrid_task(hybrid, request.of_member(k)))
        except ValueError as error:
            raise ValueError(f"member {k}: {error}") from error
    stop = threading.Event()

    def run(k: int) -> tuple[Trajectory, bool]:
        try:
            return _run(hybrid, tasks[k], stop)
        except ValueError as error:
            raise ValueError(f"member {k}: {error}") from error

    with (
        interruptible(stop),
        ThreadPoolExecutor(request.threads) as pool,
        node_bar(members, request.progress) as advance,
    ):
        found = []
        for pair in pool.map(run, range(members)):
            found.append(pair)
            advance(1)
    failures = [
        Failure(k, one.final.time, one.message) for k, (one, _) in enumerate(found) if one.message
    ]
    told = [failure for failure in failures if not found[failure.member][1]]
    warn_of_members(hybrid.model.name, members, told, False, stacklevel=4)
    return _ensemble(request, [one for one, _ in found], failures)


# -- what goes in ---------------------------------------------------------------------------


def hybrid_task(hybrid: Hybrid, request: Request) -> HybridTask:
    """What the loop in C is to do; raises `ValueError` for what cannot be at the start."""
    parameters = {name: float(value) for name, value in request.parameters.items()}
    inputs = {name: s for name, s in request.inputs.items() if isinstance(s, Signal)}
    _check_muscles(hybrid, parameters, inputs, request.time)
    built = _compiled(hybrid)
    task = HybridTask(
        built.library,
        built.manifest.of(HybridManifest),
        request.time,
        _start(hybrid, request) if request.start is None else request.start,
        np.array(list(parameters.values())),
        inputs,
        *request.tolerances,
        hybrid.v_stop,
        hybrid.release,
        hybrid.per_second,
        request.method,
        float(np.diff(request.time).max()) / request.substeps,
        progress=request.progress,
    )
    check_start(task)
    return task


def _start(hybrid: Hybrid, request: Request) -> State:
    pressing = request.pressing or {}
    names = [contact.name for contact in hybrid.contacts]
    return State(
        float(request.time[0]),
        np.array([float(value) for value in request.initial.values()]),
        np.array(list(hybrid.modes.values()), dtype=np.float64),
        np.array([bool(pressing.get(name, False)) for name in names], dtype=np.intc),
        np.ones(len(names), dtype=np.intc),
        np.zeros(len(hybrid.events), dtype=np.intc),
    )


def _check_muscles(
    hybrid: Hybrid, values: Mapping[str, float], inputs: Mapping[str, Signal], grid: Array
) -> None:
    """Their parameters, and that recruitment stays within 0 ... 1 where it is an input."""
    for muscle in hybrid.muscles:
        muscle.check(values)
        signal = inputs.get(f"{muscle.name}_recruitment")
        if signal is None:
            continue
        low, high = signal.range(grid[0], grid[-1])
        if low < -1e-9 or high > 1.0 + 1e-9:
            raise ValueError(
                f"muscle {muscle.name!r}: recruitment must be within 0 ... 1, got "
                f"{low if low < -1e-9 else high:g}"
            )


@lru_cache(maxsize=32)
def _compiled(hybrid: Hybrid) -> Built:
    return realise(hybrid_program(hybrid), lanes=1)


@lru_cache(maxsize=32)
def _slopes(hybrid: Hybrid) -> Built:
    return realise(slopes_program(hybrid), lanes=1)


# -- what comes out -------------------------------------------------------------------------


def _run(
    hybrid: Hybrid, task: HybridTask, stop: threading.Event | None = None
) -> tuple[Trajectory, bool]:
    """What came out, and whether an event was meant to end it."""
    found = marched(task, stop)
    return _trajectory(hybrid, task, found), _meant(task, found)


def _meant(task: HybridTask, found: Marched) -> bool:
    failures = {e.name for e in task.about.events if e.failure}
    return found.status is Switching.STOPPED and found.happened[-1].name not in failures


def _warn(run: Trajectory, meant: bool) -> None:
    if run.message and not meant:
        warnings.warn(said(run.message, run.model), stacklevel=4)


def _trajectory(hybrid: Hybrid, task: HybridTask, found: Marched) -> Trajectory:
    """What came out, by name, with outputs."""
    model, about, states = hybrid.model, task.about, found.states
    N = states.shape[1]
    names = [*about.inputs, *about.modes, *hybrid.forces]
    contacts = tuple(contact.name for contact in hybrid.contacts)
    pressed = [
        name for name, state in zip(contacts, task.start.contacts, strict=True) if state == 1
    ]
    return Trajectory(
        task.time[:N],
        dict(zip(model.state_names, states, strict=True)),
        dict(zip(names, found.inputs, strict=True)),
        dict(zip(model.outputs, outputs(task, states, found.inputs), strict=True)),
        dict(zip(model.parameter_names, task.parameters.tolist(), strict=True)),
        model.name,
        message=explain(task, found),
        drawing=model.drawing,
        event_log=EventLog(
            tuple(found.happened),
            found.final,
            contacts,
            tuple(pressed),
            tuple(e.name for e in about.events),
            found.work,
        ),
    )


def _ensemble(request: Request, runs: list[Trajectory], failures: list[Failure]) -> Ensemble:
    """Members beside each other, NaN after the end of those that ended early."""
    first, N = runs[0], len(request.time)

    def table(kind: str, name: str) -> Array:
        rows = np.full((len(runs), N), np.nan)
        for row, run in zip(rows, runs, strict=True):
            values = getattr(run, kind)[name]
            row[: len(values)] = values
        return rows

    groups: dict[str, Any] = {
        kind: {name: table(kind, name) for name in getattr(first, kind)} for kind in KINDS
    }
    return Ensemble(
        request.time,
        **groups,
        parameters={
            name: np.array([run.parameters[name] for run in runs]) for name in first.parameters
        },
        model=first.model,
        failures=failures,
        drawing=first.drawing,
        event_logs=[run.event_log for run in runs if run.event_log],
    )
