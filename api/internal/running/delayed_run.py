"""Simulation of models with delays: histories before the start, and breaks of smoothness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kinesym.base.quiet import warn
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import evaluate_nodes
from kinesym.codegen.stepping import differentiated
from kinesym.internal.problems.delay_sources import source_of
from kinesym.internal.problems.pipeline import realise
from kinesym.internal.problems.simulation_arguments import SimulationArguments
from kinesym.runtime.arrays import Array
from kinesym.runtime.delays.past import Before, slack
from kinesym.runtime.delays.problem import Break, Delayed, DelayProblem, images
from kinesym.runtime.delays.sensitivity import DelayedSensitivities
from kinesym.runtime.delays.simulation import simulate_delayed, with_substeps
from kinesym.runtime.delays.trial import DelayedTrial, Source
from kinesym.runtime.native import LINEAR, PARABOLA
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.signal import Signal, with_jumps
from kinesym.runtime.simulation.stepper import IVP, RawTrajectories, Stepper
from kinesym.symbolic.delayed import Delay
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem, algebraic_states
from kinesym.symbolic.schemes import RK4, SCHEMES

#: Relative difference of two values that is a jump.
_JUMP = 1e-12
#: Most breaks whose images through delays are ends of steps; with more, those of jumps alone.
_FEW = 200

_Members = NDArray[np.intp]


def delayed_march(
    model: Model, given: SimulationArguments, stepper: Stepper, ivp: IVP
) -> RawTrajectories:
    """Simulate a model with delays; members with the same delays together.

    ivp : with the inputs that are no delays. Raises `ValueError` for delays that are negative or
    beyond their range, for a history that is too short, and for delayed algebraic states.
    """
    taus = delays_at_start(model, given)
    groups = _groups(model, taus)
    problems = [_problem(model, given, stepper, ivp, taus, members) for members in groups]
    found = [simulate_delayed(stepper, p, given.progress) for p in problems]
    return found[0] if len(groups) == 1 else _joined(stepper, ivp, groups, found)


def delayed_sensitivities(model: Model, given: SimulationArguments) -> DelayedSensitivities:
    """Simulate a model with delays by fixed steps, with derivatives by all parameters and initial
    values. Raises `ValueError` as `delayed_march`, and where the end is not reached."""
    if given.members is not None:
        raise ValueError("sensitivities are those of one run; give numbers, not one per member")
    if algebraic := algebraic_states(model):
        raise ValueError(
            f"model {model.name} has delays and the algebraic state {name_of(algebraic[0])}, by "
            "which there are no sensitivities; ks.Shooting has gradients of objectives"
        )
    delays_at_start(model, given)  # says what cannot be
    stepper = _differentiated(model, given.steps.method)
    signals = {name: _signals(given, name)[0] for name in given.inputs}
    grid, nodes = with_jumps(given.time, list(signals.values()))
    time, nodes = with_substeps(grid, given.steps.substeps), nodes * given.steps.substeps
    inputs = [signal.sampled(time) for signal in signals.values()]
    rows = [(np.ascontiguousarray(samples)[None], kind) for samples, kind in inputs]
    about, start = stepper.about, np.array([float(given.initial[x]) for x in model.state_names])
    values = np.array([[float(given.parameters[p]) for p in about.parameters]])
    sources = [
        source_of(model, delay, float(time[0]), given.history, signals) for delay in model.delays
    ]
    _warn_of_leaps(model, sources, start)
    ivp = IVP(time, start[:, None], stepper.with_tables(values), rows)
    trial = DelayedTrial(stepper, ivp, sources, len(model.parameters))
    states, late = trial.march(start)
    outputs = dict(zip(about.outputs, trial.changes.raw.values[:, 0, nodes], strict=False))
    run = Trajectory(
        time=time[nodes],
        states=dict(zip(about.states, states[:, nodes], strict=True)),
        inputs={name: signal.at_nodes(time[nodes]) for name, signal in signals.items()},
        outputs=outputs | {s.name: row[nodes] for s, row in zip(sources, late, strict=True)},
        parameters=dict(zip(about.parameters, map(float, values[0]), strict=True)),
        model=model.name,
        drawing=model.drawing,
        units=model.units,
    )
    return DelayedSensitivities(run, nodes.tolist(), trial.changes)


def _warn_of_leaps(model: Model, sources: Sequence[Source], start: Array) -> None:
    """Warn of a delayed value that leaps, where parameters or the motion move the leap."""
    for delay, source in zip(model.delays, sources, strict=True):
        first = source.own.sided(source.start, 1.0) if source.own else start[source.number]
        before = first if source.history is None else source.history.sided(source.start, -1.0)
        leap = abs(first - before) > _JUMP * max(abs(first), abs(before))
        jumps = [] if source.own is None else source.own.jumps(-np.inf, np.inf).tolist()
        if not delay.tau.is_number and (leap or jumps):
            where = "at the start" if leap else f"at t = {jumps[0]:g} s"
            warn(
                f"{source.signal} leaps {where}, and derivatives by the delay of {delay.name} lack "
                "what moves with the leap; give a signal of straight lines that leads there",
                stacklevel=3,
            )
            return


@lru_cache(maxsize=32)
def _differentiated(model: Model, method: str) -> Stepper:
    """The steps of a method with derivatives, kept for the next run of the same model."""
    late = [delay.symbol for delay in model.delays]
    given = [u for u in model.inputs if u not in late]
    problem = Problem(model, RK4, Objective(), model.parameters, late, given)
    scheme = SCHEMES.get(method)
    return Stepper.of(
        realise(differentiated(problem, scheme), narrow=True), scheme.name if scheme else method
    )


def delays_at_start(model: Model, given: SimulationArguments) -> Array:
    """Delays at the start, (D, M); raises `ValueError` for those of algebraic states, and for
    values that no delay has."""
    algebraic = set(algebraic_states(model))
    for delay in model.delays:
        if delay.signal in algebraic:
            raise ValueError(
                f"{delay.name} is of the algebraic state {name_of(delay.signal)}, which may jump; "
                "delay what it follows from"
            )
    s, members = model_symbols(model), given.members or 1
    start = float(given.time[0])
    values = {"t.time": np.full(members, start), "data": model.tables.values}
    for kind, group in (("x", given.initial), ("p", given.parameters)):
        values |= {f"{kind}.{name}": np.asarray(row, float) for name, row in group.items()}
    for name in given.inputs:
        values[f"u.{name}"] = np.array([u.sided(start, 1.0) for u in _signals(given, name)])
    nodes = [s.lower(delay.tau) for delay in model.delays]
    found = evaluate_nodes(s.graph, s.graph.ancestors(nodes), values)
    taus = np.array([np.broadcast_to(found[node], members) for node in nodes])
    _check(model, taus, given.members is not None)
    return taus


def start_signals(model: Model, given: SimulationArguments) -> dict[str, Sequence[Signal]]:
    """Delayed inputs as they are at the start, of each member."""
    start, taus, members = float(given.time[0]), delays_at_start(model, given), given.members or 1
    every, found = np.arange(members), dict[str, Sequence[Signal]]()
    for delay, tau in zip(model.delays, taus, strict=True):
        before = _before(given, delay, every, float(tau.max()))
        row = before((start - tau)[:, None], np.ones(1))
        found[delay.name] = [Signal.pieces([start], [value]) for value in row[:, 0]]
    return found


def _check(model: Model, taus: Array, several: bool) -> None:
    """Raise `ValueError` for delays that cannot be."""
    for delay, row in zip(model.delays, taus, strict=True):
        low, high = delay.range or (0.0, np.inf)
        for k, tau in enumerate(row.tolist()):
            of = f" of member {k}" if several else ""
            what = f"the delay {delay.tau} of {delay.name}{of}"
            if not np.isfinite(tau) or tau < 0.0:
                raise ValueError(f"{what} is {tau:g} s at the start; delays are not negative")
            if not low <= tau <= high:
                raise ValueError(
                    f"{what} is {tau:g} s at the start, outside its range ({low:g}, {high:g})"
                )


def _groups(model: Model, taus: Array) -> list[_Members]:
    """Members with the same delays; each by itself where delays change along motions."""
    if any(delay.changes(model.parameters) for delay in model.delays):
        return [np.array([k]) for k in range(taus.shape[1])]
    _, group = np.unique(taus, axis=1, return_inverse=True)
    group = group.ravel()
    return [np.flatnonzero(group == k) for k in range(int(group.max()) + 1)]


# -- what goes in ---------------------------------------------------------------------------


def _problem(
    model: Model,
    given: SimulationArguments,
    stepper: Stepper,
    ivp: IVP,
    taus: Array,
    members: _Members,
) -> DelayProblem:
    """Delay problem of some members, which have the same delays."""
    delays = []
    states, inputs = model.state_names, model.given_names
    for k, delay in enumerate(model.delays):
        name, moving = name_of(delay.signal), delay.changes(model.parameters)
        low = high = float(taus[k, members[0]])
        if moving:
            low, high = delay.range or (0.0, np.inf)
        of_input = name in inputs
        source = (inputs if of_input else states).index(name)
        before = _before(given, delay, members, high)
        delays.append(Delayed(delay.name, source, of_input, moving, low, high, before))
    rows = [(row[members] if len(row) > 1 else row, kind) for row, kind in ivp.inputs]
    several = len(ivp.parameters) > 1
    part = replace(
        ivp,
        initial=np.ascontiguousarray(ivp.initial[:, members]),
        parameters=ivp.parameters[members] if several else ivp.parameters,
        inputs=rows,
    )
    order = stepper.tableau.order
    breaks = _breaks(model, given, delays, members, order)
    kinked = any(np.ptp(row, axis=1).any() for row, _ in rows)
    return DelayProblem(part, delays, breaks, kinked)


def _before(given: SimulationArguments, delay: Delay, members: _Members, reach: float) -> Before:
    """Function for a state before the start, or for an input at all times; reach : the longest
    delay, for which that must be known."""
    name, start, count = name_of(delay.signal), float(given.time[0]), len(members)
    history = given.history.get(name)
    if history is not None:
        check_reach(f"the history of {name}", history, start - reach, delay)

    def constant(values: Array) -> Before:
        return lambda time, sides: np.broadcast_to(values[:, None], (count, time.shape[1]))

    def course(signal: Signal) -> Before:
        return lambda time, sides: np.broadcast_to(
            signal.sided(time, sides), (count, time.shape[1])
        )

    if name not in given.inputs:
        values = np.broadcast_to(given.initial[name], given.members or 1)[members]
        return course(history) if history is not None else constant(values)
    signals = [_signals(given, name)[k if given.members else 0] for k in members]
    for signal in signals:
        if history is None and signal.span[0] < start - slack(start):
            check_reach(f"input {name}", signal, start - reach, delay)
    levels = np.array([signal.sided(start, 1.0) for signal in signals])

    def known(time: Array, sides: Array) -> Array:
        times = np.broadcast_to(time, (count, time.shape[1]))
        own = np.array([s.sided(row, sides) for s, row in zip(signals, times, strict=True)])
        early = times + sides * slack(times) < start
        if history is not None:
            return np.where(early, history.sided(times, sides), own)
        first = np.array([[s.span[0]] for s in signals])
        return np.where(early & (first >= start - slack(start)), levels[:, None], own)

    return known


def check_reach(what: str, signal: Signal, begin: float, delay: Delay) -> None:
    """Raise `ValueError` for a signal that is not known from a time on."""
    if signal.span[0] > begin + slack(begin):
        raise ValueError(
            f"{what} is known from {signal.span[0]:g} s on, and {delay.name} looks back to "
            f"{begin:g} s; give it from there on"
        )


def _signals(given: SimulationArguments, name: str) -> list[Signal]:
    """An input of each member, or the one that all share."""
    value = given.inputs[name]
    if isinstance(value, Signal):
        return [value] * (given.members or 1)
    return [row if isinstance(row, Signal) else Signal(given.time, row) for row in value]


# -- where motions are not smooth -----------------------------------------------------------


def _breaks(
    model: Model,
    given: SimulationArguments,
    delays: Sequence[Delayed],
    members: _Members,
    order: int,
) -> list[Break]:
    """Times at which derivatives of states jump up to the order of a method: the start, jumps of
    inputs, and what follows from them by constant delays (Bellen, Zennaro, Numerical Methods for
    Delay Differential Equations, section 2.2)."""
    start, end = float(given.time[0]), float(given.time[-1])
    constant = [d.low for d in delays if not d.moving and not d.of_input]
    found = [Break(start, 0 if _leaps(given, delays, members) else 1)]
    for delay in delays:
        name = (model.given_names if delay.of_input else model.state_names)[delay.source]
        signals = [given.history[name]] if name in given.history else []
        for one in signals:
            for at, level in _kinks(one, -np.inf, start):
                later = Break(at + delay.low, level + 1)
                found += [Break(at, level)] if delay.moving else [later]
        if delay.of_input and not delay.moving:
            found += [Break(start + delay.low, 1 if signals else 2)]
            for k in members if given.members else (0,):
                own = _kinks(_signals(given, name)[k], start - delay.high, end)
                found += [Break(at + delay.low, level + 1) for at, level in own]
    for name in given.inputs:
        for signal in {id(s): s for s in _signals(given, name)}.values():
            found += [Break(float(at), 1) for at in signal.jumps(start, end)]
    few = found if len(found) <= _FEW else [one for one in found if one.order < 2]
    made = images(few, constant, end, max(order, 2))  # also where the start is seen
    kinks = [] if few is found else [one for one in found if one.order >= 2]
    return made + [one for one in kinks if start < one.time < end]


def _leaps(given: SimulationArguments, delays: Sequence[Delayed], members: _Members) -> bool:
    """Whether a delayed state jumps from its history to its initial value."""
    start, names = np.full((1, 1), float(given.time[0])), list(given.initial)
    for delay in delays:
        if delay.of_input:
            continue
        value = np.broadcast_to(given.initial[names[delay.source]], given.members or 1)[members]
        before = delay.signal(start, -np.ones(1))[:, 0]
        if (np.abs(value - before) > _JUMP * np.maximum(np.abs(value), np.abs(before))).any():
            return True
    return False


def _kinks(signal: Signal, begin: float, end: float) -> list[tuple[float, int]]:
    """Times at which a signal of few straight pieces jumps (0) or has a kink (1)."""
    if signal.between == "cubic" or len(signal.begin) < 2:
        return []
    inside = signal.begin[1:][(signal.begin[1:] > begin) & (signal.begin[1:] < end)]
    jumps = set(signal.jumps(max(begin, signal.begin[0] - 1.0), end).tolist())
    return [(float(at), 0 if at in jumps else 1) for at in inside]


# -- what comes out -------------------------------------------------------------------------


def _joined(
    stepper: Stepper, ivp: IVP, groups: Sequence[_Members], found: Sequence[RawTrajectories]
) -> RawTrajectories:
    """The members of all groups at the nodes that they share."""
    members, nodes = ivp.members, ivp.time
    first = found[0]
    states = np.empty((len(first.states), members, len(nodes)))
    values = np.empty((len(first.values), members, len(nodes)))
    rows = [np.empty((members, len(nodes))) for _ in first.ivp.inputs]
    reached, trouble = np.empty(members, dtype=np.intp), np.empty(members)
    interrupted, broken = np.zeros(members, dtype=bool), dict[int, str]()
    for own, raw in zip(groups, found, strict=True):
        place = np.searchsorted(raw.ivp.time, nodes - slack(nodes))
        states[:, own], values[:, own] = raw.states[:, :, place], raw.values[:, :, place]
        for row, (samples, kind) in zip(rows, raw.ivp.inputs, strict=True):
            row[own] = samples[:, place * (3 if kind == PARABOLA else 1)]
        reached[own] = [int((place < end).sum()) for end in raw.reached]
        trouble[own], interrupted[own] = raw.trouble, raw.interrupted
        broken |= {int(own[k]): words for k, words in raw.broken.items()}
    whole = replace(ivp, inputs=[(row, LINEAR) for row in rows], substeps=1)
    about = (states, values, reached, trouble, interrupted, broken)
    return RawTrajectories(stepper, whole, *about)
