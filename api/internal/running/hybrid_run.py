"""Simulation of systems with events and contacts, with derivatives if wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base.checks import naming
from kinesym.base.quiet import warn
from kinesym.codegen.switching import hybrid_program, slopes_program
from kinesym.internal.problems.pipeline import realise
from kinesym.internal.problems.simulation_arguments import SimulationArguments
from kinesym.internal.running.delayed_run import start_signals
from kinesym.internal.running.hybrid_delays import delayed_hybrid
from kinesym.internal.running.model_run import warn_of_members
from kinesym.runtime.arrays import Array
from kinesym.runtime.hybrid.failures import check_start, explain, integrated
from kinesym.runtime.hybrid.sensitivity import Sensitivities, sensitivities_of
from kinesym.runtime.hybrid.simulation import HybridIVP, RawTrajectory, outputs
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.library.manifest import Built, HybridManifest
from kinesym.runtime.progress import node_bar
from kinesym.runtime.results.ensemble import Ensemble, Failure
from kinesym.runtime.results.event_log import EventLog, HybridState
from kinesym.runtime.results.trajectory import KINDS, Trajectory
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.status import Switching
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.names import name_of
from kinesym.symbolic.schemes import ADAPTIVE


def hybrid_trajectory(hybrid: Hybrid, given: SimulationArguments) -> Trajectory:
    """Simulate; warns if the run ended early."""
    found = _run(hybrid, given, hybrid_ivp(hybrid, given))
    return _warned(_trajectory(hybrid, found), found)


def _run(
    hybrid: Hybrid,
    given: SimulationArguments,
    ivp: HybridIVP,
    stop: threading.Event | None = None,
) -> RawTrajectory:
    """Integrate from event to event, with delays from window to window."""
    if hybrid.model.delays:
        return delayed_hybrid(hybrid, given, ivp, stop)
    return integrated(ivp, stop)


def hybrid_sensitivities(
    hybrid: Hybrid,
    given: SimulationArguments,
    explained: Callable[[RawTrajectory], str] = explain,
) -> Sensitivities:
    """Simulate with sensitivities; warns if the run ended early, `explained` says why."""
    if given.members is not None:
        raise ValueError("sensitivities are those of one run; give numbers, not one per member")
    _check_sets(hybrid)
    ivp = replace(hybrid_ivp(hybrid, given), tape=True)
    slopes = _slopes(hybrid)
    found = integrated(ivp)
    run = replace(_trajectory(hybrid, found), message=explained(found))
    return sensitivities_of(found, _warned(run, found), slopes)


def _check_sets(hybrid: Hybrid) -> None:
    """Raise `ValueError` for a mode that is set to what has derivatives, which modes have not."""
    modes = {u: sp.S.One for u in hybrid.model.inputs if name_of(u) in hybrid.modes}
    for event in hybrid.events:
        for mode, e in event.sets.items():
            if others := sorted(map(str, atoms_of(e.xreplace(modes)))):
                raise ValueError(
                    f"event {event.name!r} sets mode {name_of(mode)} to {e}, which depends on "
                    f"{others[0]}: modes have no derivatives; make it a state without a rate, "
                    "which the event resets"
                )


def hybrid_ensemble(hybrid: Hybrid, given: SimulationArguments) -> Ensemble:
    """Members on several threads, each with its own sequence of events; Ctrl-C ends all that are
    left. Raises `ValueError` naming a member that cannot begin."""
    members = given.members or 0
    ivps: list[HybridIVP] = []
    for k in range(members):
        with naming(f"member {k}"):
            ivps.append(hybrid_ivp(hybrid, given.of_member(k)))
    stop = threading.Event()

    def run(k: int) -> tuple[Trajectory, bool]:
        with naming(f"member {k}"):
            found = _run(hybrid, given.of_member(k), ivps[k], stop)
            return _trajectory(hybrid, found), _meant(found)

    with (
        interruptible(stop),
        ThreadPoolExecutor(given.threads) as pool,
        node_bar(members, given.progress) as advance,
    ):
        found = []
        for pair in pool.map(run, range(members)):
            found.append(pair)
            advance(1)
    failures = [
        Failure(k, one.final.time, one.message) for k, (one, _) in enumerate(found) if one.message
    ]
    told = [failure for failure in failures if not found[failure.member][1]]
    warn_of_members(hybrid.model.name, members, told, "ended early", stacklevel=4)
    return _ensemble(given, [one for one, _ in found], failures)


# -- what goes in ---------------------------------------------------------------------------


def hybrid_ivp(hybrid: Hybrid, given: SimulationArguments) -> HybridIVP:
    """The initial value problem; raises `ValueError` for a start that cannot be."""
    if not hybrid.model.states:
        raise ValueError(
            f"model {hybrid.model.name} has no states, without which there are no events and no "
            "sensitivities; ks.simulate of the model alone has its outputs"
        )
    parameters = {name: float(value) for name, value in given.parameters.items()}
    inputs = {name: s for name, s in given.inputs.items() if isinstance(s, Signal)}
    if hybrid.model.delays:
        inputs |= {name: one[0] for name, one in start_signals(hybrid.model, given).items()}
    if hybrid.release == "height" and given.steps.method in ADAPTIVE:
        raise ValueError(
            f"{given.steps.method} is for release='force' only: the forces of contacts that end by "
            "their height jump within steps; use method='dormand-prince'"
        )
    _check_muscles(hybrid, parameters, inputs, given.time)
    built = _compiled(hybrid)
    ivp = HybridIVP(
        built.library,
        _scaled(built.manifest.of(HybridManifest), given.scales),
        given.time,
        _start(hybrid, given) if given.start is None else given.start,
        np.append(list(parameters.values()), built.tables),
        inputs,
        *given.steps.tolerances,
        hybrid.v_stop,
        hybrid.release,
        hybrid.per_second,
        given.steps.method,
        float(np.diff(given.time).max()) / given.steps.substeps,
        progress=given.progress,
    )
    check_start(ivp)
    return ivp


def _scaled(about: HybridManifest, scales: Mapping[str, float]) -> HybridManifest:
    """A hybrid model whose events have these scales of their guards."""
    if not scales:
        return about
    events = (replace(e, scale=scales.get(e.name, e.scale)) for e in about.events)
    return replace(about, events=tuple(events))


def _start(hybrid: Hybrid, given: SimulationArguments) -> HybridState:
    pressing = given.pressing or {}
    names = [contact.name for contact in hybrid.contacts]
    return HybridState(
        float(given.time[0]),
        np.array([float(value) for value in given.initial.values()]),
        np.array(list({**hybrid.modes, **given.modes}.values()), dtype=np.float64),
        np.array([bool(pressing.get(name, False)) for name in names], dtype=np.intc),
        np.ones(len(names), dtype=np.intc),
        np.zeros(len(hybrid.events), dtype=np.intc),
    )


def _check_muscles(
    hybrid: Hybrid, values: Mapping[str, float], inputs: Mapping[str, Signal], grid: Array
) -> None:
    """Check parameters of muscles, and recruitment within 0 ... 1 where it is an input."""
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


def _meant(found: RawTrajectory) -> bool:
    """Whether the run was ended by an event that is no failure."""
    failures = {e.name for e in found.ivp.about.events if e.failure}
    return found.status is Switching.STOPPED and found.happened[-1].name not in failures


def _warned(run: Trajectory, found: RawTrajectory) -> Trajectory:
    """The trajectory, with a warning if it ended early."""
    if run.message and not _meant(found):
        warn(f"the simulation of {run.model}: {run.message}", stacklevel=4)
    return run


def _trajectory(hybrid: Hybrid, found: RawTrajectory) -> Trajectory:
    """The trajectory by name, with outputs."""
    model, ivp, states = hybrid.model, found.ivp, found.states
    about = ivp.about
    N = states.shape[1]
    names = [*about.inputs, *about.modes, *hybrid.forces]
    inputs = dict(zip(names, found.inputs, strict=True))
    late = {delay.name: inputs.pop(delay.name) for delay in model.delays}
    values = outputs(ivp, states, found.inputs)
    contacts = tuple(contact.name for contact in hybrid.contacts)
    pressed = [name for name, state in zip(contacts, ivp.start.contacts, strict=True) if state == 1]
    return Trajectory(
        ivp.time[:N],
        dict(zip(model.state_names, states, strict=True)),
        inputs,
        dict(zip(model.outputs, values, strict=True)) | late,
        dict(zip(model.parameter_names, ivp.parameters.tolist(), strict=False)),
        model.name,
        message=explain(found),
        interrupted=found.status is Switching.INTERRUPTED,
        drawing=model.drawing,
        units=model.units,
        event_log=EventLog(
            tuple(found.happened),
            found.final,
            contacts,
            tuple(pressed),
            tuple(e.name for e in about.events),
            found.work,
            tuple(about.modes),
        ),
    )


def _ensemble(
    given: SimulationArguments, runs: list[Trajectory], failures: list[Failure]
) -> Ensemble:
    """The trajectories of all members as arrays, NaN after the end of those that ended early."""
    first, N = runs[0], len(given.time)

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
        given.time,
        **groups,
        parameters={
            name: np.array([run.parameters[name] for run in runs]) for name in first.parameters
        },
        model=first.model,
        failures=failures,
        drawing=first.drawing,
        units=first.units,
        event_logs=[run.event_log for run in runs if run.event_log],
    )
