"""Simulation of smooth models: compiled loops of a method, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.quiet import warn
from kinesym.codegen.stepping import stepper as stepper_program
from kinesym.internal.problems.diagnose import explain_step
from kinesym.internal.problems.pipeline import realise
from kinesym.internal.problems.simulation_arguments import Input, SimulationArguments
from kinesym.internal.running.delayed_run import delayed_march
from kinesym.runtime.arrays import Array
from kinesym.runtime.native import LINEAR, PARABOLA
from kinesym.runtime.results.ensemble import Ensemble, Failure
from kinesym.runtime.results.step_error import Lost
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.simulation.roots import (
    change_of_root,
    dependent_constraints,
    said_of_roots,
)
from kinesym.runtime.simulation.stepper import (
    IVP,
    STIFF,
    RawTrajectories,
    Stepper,
    bind,
    cause_of_growth,
    failure,
    growth,
    implausible,
    too_long,
    unstable_steps,
)
from kinesym.runtime.simulation.stepper import simulate as march
from kinesym.runtime.summary import listed
from kinesym.symbolic.model import Model
from kinesym.symbolic.schemes import SCHEMES

#: Members of an ensemble of which it is found out which expression was not finite.
_EXPLAINED = 8

#: Steps whose ends are of use, at most.
_MOST_STEPS = 100_000

#: Failure of a member that reaches the end with values that are too large.
_GROWN = "grew beyond any plausible size"
#: Failure of a member that reaches the end through a singular mass matrix.
_SINGULAR = "went through a singular configuration"


@dataclass(frozen=True, eq=False)
class _Done:
    """A finished simulation. nodes : places of the user's nodes on its grid, which has one more at
    each jump of an input."""

    model: Model
    method: str
    raw: RawTrajectories
    nodes: NDArray[np.intp]

    def ended(self, member: int, explained: bool) -> tuple[int, str]:
        """The node at which a member ended early or grew beyond any plausible size, and why;
        nothing of others. explained : an expression that is not finite is looked for."""
        raw, about, node = self.raw, self.raw.stepper.about, int(self.raw.reached[member])
        if node == len(raw.ivp.time):
            node, words = growth(about.states, raw.states[:, member], raw.ivp.time)
            if words:
                return node, f"{words}; {cause_of_growth(raw, member, node)}"
            return _without_constraints(self, member)
        known = raw.interrupted[member] or member in raw.broken
        if not explained or known or raw.trouble[member] == STIFF:
            return node, failure(raw, member)
        program = stepper_program(self.model, SCHEMES.get(self.method), about.varying)
        return node, failure(raw, member, explain_step(program, raw, member))

    @property
    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Names of inputs that are given, and of those that are delays."""
        return self.model.given_names, [delay.name for delay in self.model.delays]

    def samples(self, k: int) -> Array:
        """Input k at the nodes, (1 or M, N)."""
        rows, kind = self.raw.ivp.inputs[k]
        return rows[:, self.nodes * (3 if kind == PARABOLA else 1)]


def model_results(model: Model, given: SimulationArguments) -> Trajectory | Ensemble:
    """Simulate one trajectory or an ensemble; warns of what ended early."""
    grid, nodes = given.grid
    for name, value in given.inputs.items():
        if isinstance(value, Signal):
            value.warn_of_coarse(grid, f"input {name}", stacklevel=3)
    _warn_of_jumps(model, given)
    stepper, ivp = _posed(model, given, grid, narrow=given.members is None)
    if model.delays:
        raw = delayed_march(model, given, stepper, ivp)
        nodes = np.searchsorted(raw.ivp.time, given.time)
    else:
        raw = march(stepper, ivp, given.progress)
    done = _Done(model, given.steps.method, raw, nodes)
    found = _trajectory(done) if given.members is None else _ensemble(done)
    if not (found.message if isinstance(found, Trajectory) else found.failures):
        words = _wrong(raw)
        if words:
            warn(f"{model.name}: {words}", stacklevel=3)
    return found


def _warn_of_jumps(model: Model, given: SimulationArguments) -> None:
    """Warn of algebraic states that do not follow jumps of inputs: at index 2 only derivatives of
    the equations tell what they are after them."""
    if not model.index.algebraic or (model.index.value or 0) < 2:
        return
    rows = (v if isinstance(v, (list, tuple)) else [v] for v in given.inputs.values())
    signals = [row for each in rows for row in each if isinstance(row, Signal)]
    times = [at for s in signals for at in s.jumps(given.time[0], given.time[-1])]
    if times:
        warn(
            f"model {model.name} has index 2: where inputs jump, as at t = {min(times):g} s, "
            f"{listed(list(model.index.algebraic))} are still those before the jump at that node; "
            "simulate model.reduced_index() to have those after it",
            stacklevel=4,
        )


def _wrong(raw: RawTrajectories) -> str:
    """Message for a simulation that reached its end by steps which are too long, else empty."""
    stepper = raw.stepper
    if not stepper.about.states:
        return ""
    if len(raw.ivp.time) == 2 and raw.ivp.substeps == 1 and not stepper.adaptive:
        return too_long(raw)
    for member in dict.fromkeys((0, raw.ivp.members - 1)):
        if words := unstable_steps(raw, member):
            return f"unstable steps: {words}"
    return ""


def _posed(
    model: Model, given: SimulationArguments, grid: Array, narrow: bool
) -> tuple[Stepper, IVP]:
    """Stepper and initial value problem on a grid that has the jumps of inputs. narrow : compiled
    at once for one trajectory."""
    count = given.members or 1
    parameters = _parameter_rows(given, count)
    stepper = compiled_stepper(model, given.steps.method, len(parameters) > 1, narrow)
    return stepper, IVP(
        time=grid,
        initial=_columns(given.initial, count),
        parameters=stepper.with_tables(parameters),
        inputs=[_sampled(value, given.time, grid) for value in given.inputs.values()],
        substeps=given.steps.substeps,
        tolerances=given.steps.tolerances,
        threads=given.threads,
        stops=given.stops,
    )


def unwatched_states(model: Model, given: SimulationArguments) -> dict[str, Array] | None:
    """States (N,) of one trajectory of a model without delays, by kernels that are interpreted
    where nothing was compiled yet; None if it does not reach its end, or grows beyond any plausible
    size. Nobody is warned."""
    grid, nodes = given.grid
    raw = march(*_posed(model, given, grid, narrow=False), False)
    done = _Done(model, given.steps.method, raw, nodes)
    states = raw.states[:, 0, nodes]
    if done.ended(0, False)[1] or not np.isfinite(states).all():
        return None
    return _named(raw.stepper.about.states, states)


def chosen_steps(model: Model, given: SimulationArguments) -> Array | None:
    """Ends (S,) of the steps that a method chooses for one trajectory of a model without delays;
    None if it does not reach its end, or needs very many."""
    run, raw = bind(*_posed(model, given, given.grid[0], narrow=False), recorded=_MOST_STEPS)
    run.march(raw.stepper.loop, 0, len(raw.ivp.time) - 1)
    return run.steps[0] if raw.reached[0] == len(raw.ivp.time) else None


def _without_constraints(done: _Done, member: int) -> tuple[int, str]:
    """The node from which on the constraints of a model no longer say how its motion goes on, and
    why; nothing of others."""
    raw, names = done.raw, [name for name, order in done.model.invariants.items() if not order]
    about, time = raw.stepper.about, raw.ivp.time
    inputs = np.empty((len(about.inputs), len(time)))
    for k, row in enumerate(inputs):
        samples, kind = raw.ivp.inputs[k]
        row[:] = samples[member % len(samples), :: 3 if kind == PARABOLA else 1]
    parameters = raw.ivp.parameters[member % len(raw.ivp.parameters), : len(about.parameters)]
    rows = [about.outputs.index(name) for name in names]
    states = raw.states[:, member]
    node = dependent_constraints(raw.stepper, time, states, inputs, parameters, rows)
    if node == len(time):
        return node, ""
    return node, (
        f"not to be trusted from t = {time[node - 1]:g} s on: before t = {time[node]:g} s the "
        f"motion goes through a configuration where {listed(names)} depend on each other "
        "(a singularity of the mechanism), and which way it leaves that is not determined"
    )


def lost_roots(
    model: Model, given: SimulationArguments, run: Trajectory | Ensemble
) -> tuple[Lost, ...]:
    """The members of a run that leave the solution of the algebraic equations on which they are."""
    varying = any(v.ndim for v in given.parameters.values())
    stepper = compiled_stepper(model, given.steps.method, varying, given.members is None)
    found = list[Lost]()
    late = {delay.name: run.outputs[delay.name] for delay in model.delays}
    every = {**run.inputs, **late}
    for k in range(given.members or 1):
        states, inputs = (_member(group, k, len(run.time)) for group in (run.states, every))
        parameters = _member(run.parameters, k, 1)[:, 0]
        end = int(np.isfinite(states).all(axis=0).sum())
        known = (run.time[:end], states[:, :end], inputs[:, :end], parameters)
        node = change_of_root(stepper, *known)
        if node < end:
            words = said_of_roots(stepper, run.time, node)
            found.append(Lost(float(run.time[node - 1]), words, k))
    return tuple(found)


@lru_cache(maxsize=64)
def compiled_stepper(model: Model, method: str, varying: bool, narrow: bool) -> Stepper:
    """The compiled loops of a method, kept for the next simulation of the same model.

    varying : parameters differ between members. narrow : made for one trajectory.
    """
    built = realise(stepper_program(model, SCHEMES.get(method), varying), narrow=narrow)
    return Stepper.of(built, SCHEMES[method].name if method in SCHEMES else method)


def _member(group: Mapping[str, Any], k: int, N: int) -> Array:
    """Rows of member k, (names, N), of values of one trajectory or of all members."""
    rows = np.empty((len(group), N))
    for row, value in zip(rows, group.values(), strict=True):
        values = np.asarray(value)
        row[:] = values[k] if values.ndim == (1 if N == 1 else 2) else values
    return rows


# -- what goes in ---------------------------------------------------------------------------


def _sampled(value: Input, time: Array, grid: Array) -> tuple[Array, int]:
    """Samples (1 or M, ...) of an input on the grid, and their kind."""
    if isinstance(value, Signal):
        samples, kind = value.sampled(grid)
        return np.ascontiguousarray(samples)[None], kind
    if isinstance(value, np.ndarray) and len(grid) == len(time):
        return np.ascontiguousarray(value), LINEAR
    signals = [row if isinstance(row, Signal) else Signal(time, row) for row in value]
    made = [signal.sampled(grid) for signal in signals]
    kinds = {kind for _, kind in made}
    if len(kinds) == 1:
        return np.array([samples for samples, _ in made]), kinds.pop()
    return np.array([signal.parabolas_on(grid) for signal in signals]), PARABOLA


def _parameter_rows(given: SimulationArguments, members: int) -> Array:
    """(1, r) if all members share them, else (M, r)."""
    varying = any(v.ndim for v in given.parameters.values())
    return np.ascontiguousarray(_columns(given.parameters, members if varying else 1).T)


def _columns(values: Mapping[str, Array], count: int) -> Array:
    """Numbers or (count,) as (names, count)."""
    columns = np.empty((len(values), count))
    for row, value in zip(columns, values.values(), strict=True):
        row[:] = value
    return columns


# -- what comes out -------------------------------------------------------------------------


def _named(names: Sequence[str], rows: Sequence[Array] | Array) -> dict[str, Array]:
    return dict(zip(names, rows, strict=True))


def _trajectory(done: _Done) -> Trajectory:
    """The trajectory up to where it is valid; warns if that is not the end."""
    about, ivp, raw = done.raw.stepper.about, done.raw.ivp, done.raw
    _, message = done.ended(0, True)
    if message:
        warn(f"the simulation of {about.model}: {message}", stacklevel=4)
    end = int(np.searchsorted(done.nodes, raw.reached[0]))
    whole = len(done.nodes) == len(ivp.time)
    nodes = slice(end) if whole else done.nodes[:end]
    given, late = done.names
    rows = [done.samples(k)[0, :end] for k in range(len(about.inputs))]
    return Trajectory(
        time=ivp.time[nodes],
        states=_named(about.states, raw.states[:, 0, nodes]),
        inputs=_named(given, rows[: len(given)]),
        outputs=_named((*about.outputs, *late), [*raw.values[:, 0, nodes], *rows[len(given) :]]),
        parameters=dict(zip(about.parameters, map(float, ivp.parameters[0]), strict=False)),
        model=about.model,
        message=message,
        interrupted=bool(raw.interrupted[0]),
        drawing=done.model.drawing,
        units=done.model.units,
    )


def _ensemble(done: _Done) -> Ensemble:
    raw, nodes = done.raw, done.nodes
    about, ivp = raw.stepper.about, raw.ivp
    members, N = raw.states.shape[1:]
    grown = np.atleast_1d(implausible(raw.states[:, :, 0], raw.states[:, :, -1]).any(axis=0))
    failures: list[Failure] = []
    suspects = (raw.reached < N) | grown | bool(done.model.invariants)
    for k in np.flatnonzero(suspects).tolist():
        node, message = done.ended(k, len(failures) < _EXPLAINED)
        if message:
            failures.append(Failure(k, float(ivp.time[node]), message))
    left = [f for f in failures if raw.reached[f.member] == N and not grown[f.member]]
    how = ["ended early", *[_GROWN] * bool(grown.any()), *[_SINGULAR] * bool(left)]
    warn_of_members(about.model, members, failures, " or ".join(how), stacklevel=5)
    given, late = done.names
    rows = [np.broadcast_to(done.samples(k), (members, len(nodes))) for k in range(len(ivp.inputs))]
    values = raw.values if len(nodes) == N else raw.values[:, :, nodes]
    numbers = ivp.parameters[:, : len(about.parameters)]
    columns = np.broadcast_to(numbers, (members, len(about.parameters))).T
    whole = len(nodes) == N
    return Ensemble(
        time=ivp.time[nodes],
        states=_named(about.states, raw.states if whole else raw.states[:, :, nodes]),
        inputs=_named(given, rows[: len(given)]),
        outputs=_named(about.outputs, values) | _named(late, rows[len(given) :]),
        parameters=_named(about.parameters, columns),
        model=about.model,
        failures=tuple(failures),
        drawing=done.model.drawing,
        units=done.model.units,
    )


def warn_of_members(
    model: str, members: int, failures: Sequence[Failure], how: str, stacklevel: int
) -> None:
    """Warn of members that ended early, or how else they failed, with the reason of the first."""
    if not failures:
        return
    first = failures[0]
    warn(
        f"{len(failures)} of {members} members of {model} {how}, the first is "
        f"member {first.member}: {first.message}",
        stacklevel=stacklevel,
    )
