"""Jumps of the equations that a motion passes, which error estimates and derivatives cannot see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from kinesym.internal.problems.simulation_arguments import SimulationArguments
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.ensemble import Ensemble
from kinesym.runtime.results.step_error import Lost
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.jumps import OfMotion, Switch, Switched, Unevaluated
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.switching import switched

#: Remedy, in words.
REMEDY = "make it an Event (of friction a Contact), or smooth it, as with ks.smooth_step"


class Passed(NamedTuple):
    """A jump of an equation that a trajectory passes for the first time, between two nodes [s]."""

    switch: Switch
    begin: float
    end: float


def passed_jumps(
    system: Model | Hybrid, given: SimulationArguments, run: Trajectory | Ensemble
) -> tuple[tuple[Lost, ...], str]:
    """Jumps that fixed steps pass without resolving them.

    Returns from where on the error estimate of a run says nothing, as a jump moves with its states;
    of a method that chooses its steps, in words, that it does so.
    """
    found = moving(system)
    if not found.switches or len(run.time) < 2:
        return (), ""
    lost, words = list[Lost](), ""
    for k in range(given.members or 1):
        try:
            every = [*passed(found, _points(found, run, k), given.steps.substeps)]
        except Unevaluated:
            return (), f"{found.switches[0].said}, and whether the motion passes that is not known"
        first = min(every, key=lambda one: one.begin, default=None)
        if first is None:
            continue
        sentence = (
            f"{first.switch.said}, which the motion passes between t = {first.begin:g} and "
            f"{first.end:g} s"
        )
        if given.steps.adaptive:
            words = words or f"{sentence}: steps that choose their length may not see it all"
        else:
            words = f"{sentence}: from there on the error of the steps is not known; {REMEDY}"
            lost.append(Lost(first.begin, words, k))
    return tuple(lost), words


def moving(system: Model | Hybrid) -> Switched:
    """The jumps of a system that move with its states and inputs."""
    if isinstance(system, Model):
        return switched(system, OfMotion(), False)
    return switched(system.model, OfMotion(modes_of(system)), False)


def modes_of(hybrid: Hybrid) -> frozenset[sp.Basic]:
    """The modes of a hybrid model, constant between events."""
    return frozenset(u for u in hybrid.model.inputs if name_of(u) in hybrid.modes)


def passed(found: Switched, points: Mapping[sp.Basic, Array], parts: int = 1) -> Iterator[Passed]:
    """The switches at which an equation jumps on the way from point to point (N,), or from a point
    along its rate for a step, each where that is first the case. parts : steps from point to point.
    """
    model, time = found.model, points[t]
    begin, end = (
        {key: row[part] for key, row in points.items()} for part in (slice(-1), slice(1, None))
    )
    step = np.diff(time) / parts
    along = {**begin, t: begin[t] + step}
    for x, rate in zip(model.states, model.derivatives, strict=True):
        along[x] = begin[x] + step * begin[rate]
    for switch in found.switches:
        jumps = [found.jumps(switch, begin, way)[1] for way in (end, along)]
        first = np.flatnonzero(jumps[0] | jumps[1])
        if len(first):
            yield Passed(switch, float(time[first[0]]), float(time[first[0] + 1]))


def _points(found: Switched, run: Any, member: int) -> dict[sp.Basic, Array]:
    """Values of the symbols of the equations at the nodes of a trajectory, up to where it is
    known."""
    states = {name: _row(row, member) for name, row in run.states.items()}
    known = np.isfinite([*states.values()]).all(axis=0)
    end = int(known.sum()) if states else len(run.time)
    values = {**states, **{name: _row(row, member) for name, row in run.inputs.items()}}
    values |= {name: _row(row, member) for name, row in run.outputs.items() if name not in values}
    return points_of(found, run.time[:end], values, run.parameters, member)


def points_of(
    found: Switched,
    time: Array,
    values: Mapping[str, Any],
    parameters: Mapping[str, Any],
    member: int = 0,
) -> dict[sp.Basic, Array]:
    """Values of the symbols of the equations, (N,) each, from rows by name."""
    model, N = found.model, len(time)
    own = {switch.symbol for switch in found.switches}
    points: dict[sp.Basic, Array] = {t: time}
    for symbol in (*model.states, *(u for u in model.inputs if u not in own)):
        if name_of(symbol) in values:
            points[symbol] = np.asarray(values[name_of(symbol)], dtype=float)[:N]
    for x, rate in zip(model.states, model.derivatives, strict=True):
        points[rate] = np.gradient(points[x], time) if N > 1 else np.zeros(N)
    for p in model.parameters:
        value = np.asarray(parameters[name_of(p)], dtype=float)
        points[p] = np.full(N, value[member] if value.ndim else value)
    return points | dict(zip(model.derivatives, found.rates(points), strict=True))


def _row(row: Any, member: int) -> Array:
    """Row of one member of an ensemble, or of a trajectory."""
    return np.asarray(row[member] if np.ndim(row) == 2 else row)
