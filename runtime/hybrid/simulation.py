"""Simulation of hybrid models: arrays for the loop in C, and its result."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.library.manifest import HybridManifest, TableauManifest
from kinesym.runtime.native import CONTACT_LAWS, HybridRun, Library
from kinesym.runtime.progress import time_bar
from kinesym.runtime.results.event_log import KINDS, EventRecord, HybridState
from kinesym.runtime.signals.signal import Signal, segments
from kinesym.runtime.simulation.stages import loop_numbers
from kinesym.runtime.simulation.stepper import mapped
from kinesym.runtime.status import Switching

Arrays = dict[str, NDArray[Any]]

#: Tableau of the trapezoidal rule, which has no explicit stages.
TRAPEZOID = TableauManifest(2, (1.0,), ((),), (), ())
#: Steps after which the progress bar moves.
STEPS_AT_ONCE = 20_000
#: Initial capacity of the tape [steps]; it doubles when full.
TAPE = 1024
#: Numbers that are kept of the steps of a run, at most: 160 MB.
_MOST_NUMBERS = 2e7
#: Initial capacity of the log [entries] for a model without contacts and events.
LOG = 256


@dataclass(frozen=True, eq=False)
class HybridIVP:
    """Initial value problem with events.

    about : the manifest of the model, see `codegen.switching`. parameters : followed by the numbers
    of tables. method : "trapezoid", or a name in `about.methods`. step : of methods with fixed
    steps [s]. release : "force" or "height". tape : whether every step is kept.
    """

    library: Library
    about: HybridManifest
    time: Array
    start: HybridState
    parameters: Array
    inputs: Mapping[str, Signal]
    rtol: float
    atol: float
    v_stop: float
    release: str
    per_second: int
    method: str = "dormand-prince"
    step: float = 1.0
    tape: bool = False
    progress: bool | None = None

    @property
    def rows(self) -> int:
        """Number of contact forces R."""
        contacts = self.about.contacts
        return len(contacts) + sum(c.row >= 0 for c in contacts)


@dataclass(frozen=True, eq=False)
class RawTrajectory:
    """Raw result of a hybrid run: states (n, N) and inputs (m + d + R, N) at the nodes reached,
    records of events, the final state, and the status at the end."""

    ivp: HybridIVP
    states: Array
    inputs: Array
    happened: list[EventRecord]
    final: HybridState
    status: Switching
    work: tuple[int, int, int]
    run: HybridRun


def simulate(ivp: HybridIVP, stop: threading.Event | None = None) -> RawTrajectory:
    """Simulate to the end of the grid, as far as possible, or until `stop` or Ctrl-C."""
    arrays, start, end = _arrays(ivp), ivp.start, float(ivp.time[-1])
    numbers = {
        "t": start.time,
        "rtol": ivp.rtol,
        "atol": ivp.atol,
        "v_stop": ivp.v_stop,
        "by_height": ivp.release == "height",
        "per_second": ivp.per_second,
        "order": _tableau(ivp).order,
        "implicit": _tableau(ivp).implicit,
        "fixed": ivp.step,
        "tables": len(ivp.parameters) - len(ivp.about.parameters),
        "pause": STEPS_AT_ONCE,
        "turning": ivp.about.sizes.get("turning", 0),
    }
    counted = map(len, (start.x, ivp.inputs, start.modes, ivp.about.contacts))
    sizes = (*counted, ivp.rows, len(ivp.about.events))
    run = HybridRun(ivp.library, sizes, numbers, arrays)
    with interruptible(stop) as flag, time_bar(start.time, end, ivp.progress) as show:
        go_on = (Switching.LOG_FULL, Switching.PAUSED)
        while (status := Switching.of(run.march(end, flag))) in go_on:
            show(run.at[0])
            if status is Switching.LOG_FULL:
                if run.at[3] * (len(start.x) + len(start.modes)) > _MOST_NUMBERS:
                    status = Switching.STIFF
                    break
                arrays |= _grown(arrays, run)
                run.room(arrays)
        now, filled, logged, _ = run.at
        final = HybridState(
            now, *(arrays[key] for key in ("x", "mode", "state", "friction", "armed"))
        )
        log = {k[4:]: row[:logged] for k, row in arrays.items() if k.startswith("log_")}
        return RawTrajectory(
            ivp,
            arrays["states"][:, :filled],
            arrays["inputs"][:, :filled],
            _event_records(ivp.about, log),
            final,
            status,
            run.work,
            run,
        )


def _tableau(ivp: HybridIVP) -> TableauManifest:
    """Coefficients of the method."""
    return ivp.about.methods.get(ivp.method, TRAPEZOID)


def _arrays(ivp: HybridIVP) -> Arrays:
    """Arrays by the names of the fields of `hybrid_run`."""
    about, start, time = ivp.about, ivp.start, ivp.time
    contacts, events = about.contacts, about.events
    method = loop_numbers(_tableau(ivp)).items()
    n, d, count = len(start.x), len(start.modes), len(contacts)
    common = segments(ivp.inputs, float(start.time), float(time[-1]))
    arrays: Arrays = {
        "begin": common.begin,
        "coefficients": common.coefficients,
        **{name: row for name, row in method if isinstance(row, np.ndarray)},
        "parameters": ivp.parameters,
        "law": np.array([CONTACT_LAWS[c.law] for c in contacts], dtype=np.intc),
        "tangent": np.array([c.row for c in contacts], dtype=np.intc),
        "mu": np.array([c.friction_coefficient for c in contacts], dtype=np.float64),
        "restitution": np.array([c.restitution for c in contacts], dtype=np.float64),
        **{
            key: np.array([getattr(e, key) for e in events], dtype=np.intc)
            for key in ("direction", "level", "stop")
        },
        "scale": np.array([e.scale for e in events], dtype=np.float64),
        "first_target": np.array(about.first_target, dtype=np.intp),
        "target": np.array(about.targets, dtype=np.intp),
        "x": start.x.copy(),
        "mode": start.modes.copy(),
        "state": start.contacts.copy(),
        "friction": start.friction.copy(),
        "armed": start.armed.copy(),
        "time": time,
        "states": np.full((n, len(time)), np.nan),
        "inputs": np.full((len(ivp.inputs) + d + ivp.rows, len(time)), np.nan),
    }
    room = LOG + 80 * (2 * count + len(events))
    return arrays | _log(room, n, count) | _tape(TAPE if ivp.tape else 0, n, d, count)


def _log(size: int, n: int, count: int) -> Arrays:
    return {
        "log_time": np.zeros(size),
        "log_kind": np.zeros(size, dtype=np.intc),
        "log_index": np.zeros(size, dtype=np.intc),
        "log_before": np.zeros((size, n)),
        "log_after": np.zeros((size, n)),
        "log_step": np.zeros(size, dtype=np.intp),
        "log_contact": np.zeros((size, count), dtype=np.intc),
        "log_restitution": np.zeros(size),
    }


def _tape(size: int, n: int, d: int, count: int) -> Arrays:
    return {
        "tape_time": np.zeros(size),
        "tape_length": np.zeros(size),
        "tape_state": np.zeros((size, n)),
        "tape_mode": np.zeros((size, d)),
        "tape_contact": np.zeros((size, count), dtype=np.intc),
        "tape_segment": np.zeros(size, dtype=np.intc),
        "tape_cause": np.zeros(size, dtype=np.intc),
    }


def _grown(arrays: Arrays, run: HybridRun) -> Arrays:
    """Larger arrays of the log and the tape, with the entries so far; only those that are nearly
    full."""
    n, d, count = len(arrays["x"]), len(arrays["mode"]), len(arrays["law"])
    _, _, logged, taped = run.at
    larger: Arrays = {}
    if logged + run.margin > len(arrays["log_time"]):
        larger |= _log(2 * (logged + run.margin), n, count)
    if 0 < taped == len(arrays["tape_time"]):
        larger |= _tape(2 * taped, n, d, count)
    for key, new in larger.items():
        new[: len(arrays[key])] = arrays[key]
    return larger


def outputs(ivp: HybridIVP, states: Array, inputs: Array) -> Array:
    """Outputs (n_out, N) at the nodes, from states and all inputs there."""
    N, count = states.shape[1], len(ivp.about.outputs)
    if not count or not N:
        return np.empty((count, N))
    point = points(ivp, states, inputs, ivp.time[:N])
    if ivp.about.outputs_move:
        point = [mapped(ivp.library, "smooth", point, len(states)), *point]
    return mapped(ivp.library, "outputs", point, count)


def points(ivp: HybridIVP, states: Array, inputs: Array, time: Array) -> list[Array]:
    """Arguments (rows, N) of kernels: x, u, p, t."""
    return [states, inputs, ivp.parameters[:, None], time[None]]


def _event_records(about: HybridManifest, log: Mapping[str, NDArray[Any]]) -> list[EventRecord]:
    pairs = np.stack([log["before"], log["after"]], axis=1)
    named = {"event": [e.name for e in about.events], "clock": None}
    contacts = [c.name for c in about.contacts]
    found = []
    for time, kind, index, row in zip(
        log["time"].tolist(), log["kind"].tolist(), log["index"].tolist(), pairs, strict=True
    ):
        names = named.get(KINDS[kind], contacts)
        found.append(
            EventRecord(time, KINDS[kind], names[index] if names else "", about.states, row)
        )
    return found
