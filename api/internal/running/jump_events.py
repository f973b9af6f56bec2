"""Jumps that parameters or states move, as events of a hybrid model: derivatives across them have
the term of the jump (saltation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import sympy as sp

from kinesym.codegen.switching import observed_program
from kinesym.internal.problems.measured_terms import chosen_objective
from kinesym.internal.problems.pipeline import realise
from kinesym.internal.problems.simulation_arguments import SimulationArguments
from kinesym.internal.running.hybrid_run import hybrid_sensitivities
from kinesym.internal.running.jump_steps import timed, without_inputs
from kinesym.internal.running.jumps_along_runs import modes_of
from kinesym.internal.running.jumps_moved_by_unknowns import moved_by
from kinesym.runtime.arrays import Array
from kinesym.runtime.hybrid.failures import explain
from kinesym.runtime.hybrid.sensitivity import Sensitivities
from kinesym.runtime.hybrid.simulation import RawTrajectory
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.status import Switching
from kinesym.symbolic.delayed import delays_of_sensors
from kinesym.symbolic.hybrid import Event, Hybrid
from kinesym.symbolic.jumps import OfMotion, Switch, Switched, jumping
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import measured_expressions
from kinesym.symbolic.schemes import EXPLICIT
from kinesym.symbolic.switching import switched

#: Half of the distance between two signs.
_HALF = sp.Rational(1, 2)
#: A share of a step after which it is seen where a motion goes on to.
_SOON = 1e-6
#: Operations of a guard in the name of its event.
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Eventful:
    """Hybrid model with an event for each jump that moves: further modes, the last ones, which are
    `found` switches."""

    hybrid: Hybrid
    found: Switched


@lru_cache(maxsize=32)
def eventful(hybrid: Hybrid, held: frozenset[str]) -> Eventful:
    """Replace expressions that jump by modes and events of a hybrid model; one whose expressions
    only bend stays as it is. held : inputs that stand for jumps at known times."""
    still = modes_of(hybrid) | {u for u in hybrid.model.inputs if name_of(u) in held}
    found = switched(hybrid.model, OfMotion(still, timed=True))
    if not jumping(found):
        return Eventful(hybrid, Switched(hybrid.model, ()))
    modes = {**hybrid.modes, **dict.fromkeys(found.names, 0.0)}
    events = [*hybrid.events, *(e for k, s in enumerate(found.switches) for e in _events(s, k))]
    made = replace(hybrid, model=found.model, modes=modes, events=events)
    return Eventful(made, found)


def with_events(
    model: Model,
    unknown: Any,
    objective: Objective | None,
    method: str | None,
    plain: bool,
) -> Model | Hybrid:
    """Hybrid model for shooting, in place of a model whose jumps unknowns move; the model itself
    where that cannot be. plain : one segment, and no unknown inputs."""
    objective = chosen_objective(objective)
    squares = objective.integrand == 0 and objective.terminal == 0
    late = model.delays or delays_of_sensors(model.outputs)
    if not (plain and squares) or late or method not in (None, *EXPLICIT):
        return model
    keys = unknown if isinstance(unknown, Mapping) else ()  # others are refused later
    names = [name_of(key) for key in keys if isinstance(key, (str, sp.Symbol))]
    moved = moved_by(model, names, (), starts=True)
    if not (moved.direct or moved.motion) or model.index.value != 0:
        return model
    return _plain(model)


@lru_cache(maxsize=32)
def _plain(model: Model) -> Hybrid:
    """Hybrid model without events, cached per model: compiled code is kept by identity."""
    return Hybrid(model)


def _events(switch: Switch, number: int) -> list[Event]:
    """Events of a switch, up and down, where its guard passes a point, and where it is found beyond
    one, as a guard that leaves the point again on the side from which it came."""
    s, m = switch.guard, switch.symbol
    kind = f"jump {number}, where {written(switch.plain, _SHOWN)}"
    if switch.of_sign:
        return [
            Event(f"{kind} rises", s, 1, sets={m: 1}),
            Event(f"{kind} falls", s, -1, sets={m: -1}),
            Event(f"{kind} is positive", s, 1, sets={m: 1}, when=_HALF - m, level=True),
            Event(f"{kind} is negative", s, -1, sets={m: -1}, when=m + _HALF, level=True),
        ]
    above, below = switch.edges()
    return [
        Event(f"{kind} rises", s - above, 1, sets={m: m + 1}),
        Event(f"{kind} falls", s - below, -1, sets={m: m - 1}),
        Event(f"{kind} is above", s - above, 1, sets={m: m + 1}, level=True),
        Event(f"{kind} is below", s - below, -1, sets={m: m - 1}, level=True),
    ]


def jump_sensitivities(
    hybrid: Hybrid, given: SimulationArguments, observed: Sequence[str] = ()
) -> Sensitivities:
    """A simulation with sensitivities, across the jumps of its equations, too; observed : outputs
    that have these as well."""
    whole, every = timed(hybrid, given, alone=True)
    assert isinstance(whole, Hybrid)
    held = frozenset(every.inputs.keys() - given.inputs.keys())
    made = eventful(whole, held)
    every = _with_modes(made, every)
    found = hybrid_sensitivities(made.hybrid, every, partial(_explained, made))
    if observed:
        names = tuple(observed)
        found = replace(found, observed=(names, _slopes_of(made.hybrid, names)))
    hidden = {*made.found.names, *held}
    return replace(found, run=_shown(found.run, hidden, hybrid)) if hidden else found


@lru_cache(maxsize=32)
def _slopes_of(hybrid: Hybrid, names: Sequence[str]) -> Built:
    """Derivatives of outputs of a hybrid model, compiled."""
    observed = measured_expressions(hybrid.model, names)
    return realise(observed_program(hybrid, [*observed.values()]), lanes=1)


def _explained(made: Eventful, raw: RawTrajectory) -> str:
    """Reason why a run ended early; of one that goes back and forth across a jump, which."""
    last = raw.happened[-1].name if raw.happened else ""
    switches = [s for k, s in enumerate(made.found.switches) if last in _names(s, k)]
    if raw.status not in (Switching.CHATTER, Switching.SLIDES) or not switches:
        return explain(raw)
    return (
        f"{switches[0].said}, and from t = {raw.final.time:.6g} s on the motion goes back and "
        "forth across this jump: it slides along it, or rests on it, which no steps show; make it "
        "a Contact with law 'coulomb', if it is friction, or smooth it, as with ks.smooth_step"
    )


def _names(switch: Switch, number: int) -> list[str]:
    return [event.name for event in _events(switch, number)]


def _with_modes(made: Eventful, given: SimulationArguments) -> SimulationArguments:
    """Arguments with what switches are at the start, and how large their guards."""
    found = made.found
    if not found.switches:
        return given
    start, hybrid = given.start, made.hybrid
    time = float(given.time[0])
    point: dict[sp.Basic, Any] = {t: np.array([time])}
    for x in hybrid.model.states:
        point[x] = np.array([float(given.initial[name_of(x)])])
    for p in hybrid.model.parameters:
        point[p] = np.array([float(given.parameters[name_of(p)])])
    own = [name for name in hybrid.modes if name not in found.names]
    modes = [hybrid.modes[name] for name in own] if start is None else start.modes
    values = dict(zip(own, modes, strict=True))
    for u in hybrid.model.inputs:
        name = name_of(u)
        if name in given.inputs:
            point[u] = given.inputs[name].sided(np.array([time]), 1.0)  # type: ignore[union-attr]
        elif name in values:
            point[u] = np.array([values[name]])
        elif name not in found.names:
            point[u] = np.zeros(1)  # forces of contacts
    more, sizes = _at_start(found, point, float(np.diff(given.time).min()))
    every = zip(found.switches, sizes, strict=True)
    scales = {name: size for k, (s, size) in enumerate(every) for name in _names(s, k)}
    if start is not None:
        room = len(hybrid.events) - len(start.armed)
        longer = np.append(start.armed, np.zeros(room, dtype=start.armed.dtype))
        start = replace(start, modes=np.append(start.modes, [*more.values()]), armed=longer)
    return replace(given, modes=more, start=start, scales=scales)


def _at_start(
    found: Switched, point: Mapping[sp.Basic, Array], step: float
) -> tuple[dict[str, float], list[float]]:
    """Values of switches at a point (1,), by name; of one whose guard is there where it changes,
    those soon after. And sizes of their guards: where they pass zero, what they are there or move
    in a step, else the distance of the places where they change."""
    model, symbols = found.model, [s.symbol for s in found.switches]
    here = found.at(point, symbols)
    rates = {rate: np.zeros(1) for rate in model.derivatives}
    pairs = zip(model.states, found.rates({**point, **rates}), strict=True)
    soon = {x: point[x] + _SOON * step * rate for x, rate in pairs}
    soon = {**point, **soon, t: point[t] + _SOON * step}
    later = found.at(soon, symbols)
    values, sizes = dict[str, float](), list[float]()
    for switch in found.switches:
        guard = found.guard(switch, point)
        known = later if switch.changes_at(guard) else here
        values[name_of(switch.symbol)] = float(np.ravel(known[switch.symbol])[0])
        moved = (found.guard(switch, soon) - guard) / _SOON
        sizes.append(switch.size(float(np.fmax(np.abs(guard), np.abs(moved)).max())))
    return values, sizes


def _shown(run: Trajectory, hidden: set[str], hybrid: Hybrid) -> Trajectory:
    """A run without the inputs and modes that stand for jumps."""
    log = run.event_log
    if log is not None:
        final = log.final
        modes, armed = final.modes[: len(hybrid.modes)], final.armed[: len(hybrid.events)]
        final = replace(final, modes=modes, armed=armed)
        log = replace(log, final=final, modes=tuple(hybrid.modes))
    return replace(without_inputs(run, hidden), event_log=log)
