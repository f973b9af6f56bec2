"""Arguments of `ks.Shooting`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import sympy as sp

from kinesym.base import checks
from kinesym.internal.problems.assignments import (
    Assignments,
    assignments_of,
    symbols_of,
    with_hidden,
)
from kinesym.internal.problems.checked_trials import checked_trials
from kinesym.internal.problems.content import UNCOUNTED
from kinesym.internal.problems.delay_sources import (
    check_jumps,
    span_of,
    warn_of_leaps,
)
from kinesym.internal.problems.hybrid_signals import hybrid_signals, new_names
from kinesym.internal.problems.known_events_shooting import (
    KnownEvent,
    check_between,
    resets_of,
    with_nodes,
)
from kinesym.internal.problems.known_jump_inputs import HeldSwitches, held_switches, with_bends
from kinesym.internal.problems.named_bounds import bounds_by_name, named_bounds
from kinesym.internal.problems.parameters import (
    Unknown,
    checked_unknowns,
    densities_of,
    known_values,
    labels_of,
    logs_of,
)
from kinesym.internal.problems.sensor_delays import Delayed, delayed
from kinesym.internal.problems.shooting_checks import (
    at_nodes,
    check_beside_delays,
    check_distributions,
    check_invariants,
    check_loss,
    check_steps,
    check_threads,
    check_unknowns,
)
from kinesym.internal.problems.step_options import Steps, checked_steps, methods_of
from kinesym.internal.problems.trial_starts import check_steady, initial_values, with_steady_starts
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.priors import Priors, priors_by_name
from kinesym.runtime.nlp.layout import FAMILIES, Block, Layout
from kinesym.runtime.nlp.owned import owned_parameters
from kinesym.runtime.shooting.assigned import AssignedTrials
from kinesym.runtime.shooting.resets import Reset
from kinesym.runtime.shooting.steady_start import SteadyStart
from kinesym.runtime.shooting.trials import Simulated, System
from kinesym.runtime.shooting.unknowns import Unknowns, segment_starts
from kinesym.runtime.signals.experiment import MOST_NODES, Experiment
from kinesym.runtime.signals.signal import ParametricSignal, Signal
from kinesym.runtime.simulation.following import Following
from kinesym.symbolic.delayed import delays_of_sensors
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.schemes import SCHEMES


@dataclass(frozen=True)
class ShootingArguments:
    """Arguments of `ks.Shooting`, checked. fine : the trials on the grids of the steps. known,
    starts, signals : of each trial known parameters, initial values, NaN where unknown, with
    whether contacts press, inputs of a hybrid model. free : bounds of the unknown inputs. delays :
    of sensors, that are unknown; gaps : sentences on samples that are left out for delays.
    following : of each trial, starts that follow from parameters, NaN in `starts`; resets :
    those at known times. switches : inputs that stand for jumps at known times. assignments : what
    trials set of their parameters; None if they are simulated with the unknown ones."""

    model: Model
    trials: Sequence[Experiment]
    fine: Sequence[Experiment]
    unknown: Mapping[str, Unknown]
    unknowns: Unknowns
    bounds: tuple[Array, Array]
    known: Sequence[Mapping[str, float]]
    starts: Sequence[Mapping[str, float]]
    signals: Sequence[Mapping[str, Signal | ParametricSignal]]
    free: Mapping[str, Any]
    objective: Objective | None
    steps: Steps
    segments: int
    threads: int | None = field(metadata=UNCOUNTED)
    delays: Mapping[str, sp.Symbol]
    gaps: Sequence[str]
    switches: Sequence[str]
    following: Sequence[Following | SteadyStart | None]
    resets: Sequence[Sequence[Reset]]
    assignments: Assignments | None = None

    @cached_property
    def inner(self) -> ShootingArguments:
        """The arguments with the parameters that trials are simulated with as the unknown ones."""
        made = self.assignments
        if made is None:
            return self
        unknowns = replace(self.unknowns, owned=made.owned(self.trials))
        return replace(self, unknown=made.unknown, unknowns=unknowns, assignments=None)

    def outer(self, trials: Simulated, factor: float) -> Simulated:
        """Trials as functions of the unknowns, from those as functions of their own parameters."""
        made = self.assignments
        if made is None:
            return trials
        at = made.assigned(self.unknowns.owned, self.trials)
        return AssignedTrials(trials, self.unknowns, self.priors(factor), at, made.rules)

    @cached_property
    def layout(self) -> Layout:
        """Layout of all trajectories on the grids of the steps."""
        states, inputs = tuple(self.unknowns.states), tuple(self.unknowns.inputs)
        return Layout(
            blocks=(Block("x", states, None), Block("u", inputs, None)),
            states=self.unknowns.states,
            inputs=self.unknowns.inputs,
            owned=replace(self.unknowns.owned, log_scale=frozenset()),
            held=frozenset(),
            labels=dict.fromkeys(FAMILIES, ()),
            grids=tuple(trial.grid for trial in self.fine),
            free_duration=False,
        )

    def with_std(self, std: Mapping[str, float]) -> ShootingArguments:
        """The same with standard deviations, by group, where they were not known."""
        trials, fine = ([t.with_std(std) for t in every] for every in (self.trials, self.fine))
        return replace(self, trials=trials, fine=fine)

    def on(self, trials: Sequence[Experiment], parts: int) -> ShootingArguments:
        """Arguments with other trials, with so many steps per interval of their grids."""
        return replace(self, trials=trials, fine=[trial.refined(parts) for trial in trials])

    def priors(self, factor: float) -> Priors:
        """Priors of the parameters; factor : that of the measurements in J."""
        return priors_by_name(self.unknowns.owned.members, densities_of(self.unknown), factor)

    @property
    def system(self) -> System:
        """Names and known values for results."""
        model, hidden = self.model, self.assignments.hidden if self.assignments else ()
        names = [name for name in model.parameter_names if name not in hidden]
        about = (model.drawing, model.units)
        return System(model.name, names, self.known, *about, hidden=self.switches)


def shooting_arguments(
    system: Model | Hybrid,
    trials: Any,
    *,
    unknown: Any,
    known: Any,
    initial: Any,
    events: Sequence[KnownEvent],
    objective: Objective | None,
    method: str | None,
    unknown_inputs: Any,
    segments: int,
    threads: int | None,
    options: tuple[int | None, float, float],
) -> ShootingArguments:
    """Check the arguments of `ks.Shooting`, events : at known times, options : substeps, rtol,
    atol; raises `ValueError` for what does not fit. Implicit steps are fixed if their number per
    interval is given, or with delays."""
    check_loss(objective, segments, unknown_inputs)
    listed, hybrid = checked_trials(system, trials, Model, Hybrid), isinstance(system, Hybrid)
    model = system.model if isinstance(system, Hybrid) else system
    segments = checks.count(segments, "segments")
    if model.delays:
        check_beside_delays(system, model, listed, segments, unknown_inputs)
    free = {} if unknown_inputs is None else unknown_inputs
    free = by_name(free, model.given_names, "unknown_inputs")
    signals = [
        hybrid_signals(system, trial, k) if isinstance(system, Hybrid) else {}
        for k, trial in enumerate(listed)
    ]
    told = _parameters(model, signals, listed, unknown, known)
    if events:
        check_between(segments, free, told.delays.unknown)
    records = _records(told, free, events, hybrid)
    steps = _steps(system, records, method, options)
    check_unknowns(hybrid, records.trials, steps, segments, free)
    check_steps(steps, told.delays.unknown)
    check_jumps(records.model, records.trials, told.moving)
    for delay in model.delays:
        if delay.tau.is_Symbol:  # expressions of what is unknown may have no bounds
            span_of(delay, told.moving, told.values[0])
    check_threads(threads, hybrid)
    starts = _starts(system, initial, told, records, free)
    if not (told.asked or free or starts.bounds):
        raise ValueError(
            "nothing is unknown; name parameters in unknown={...}, inputs in unknown_inputs, or an "
            "unknown start"
        )
    fine = records.trials if hybrid else [t.refined(steps.substeps) for t in records.trials]
    unknowns = _unknowns(told, records, fine, starts, free, segments)
    bounds = named_bounds(records.model, told.asked, bounds_by_name(records.model, free, {}))
    return ShootingArguments(
        model=records.model,
        trials=records.trials,
        fine=fine,
        unknown=told.asked,
        unknowns=unknowns,
        bounds=unknowns.bounds(bounds, starts.bounds),
        known=told.values,
        starts=starts.values,
        signals=signals,
        free=free,
        objective=objective,
        steps=steps,
        segments=segments,
        threads=threads,
        delays=told.delays.unknown,
        gaps=[*told.delays.gaps, *records.held.notes],
        switches=records.held.names,
        following=starts.following,
        resets=records.resets,
        assignments=told.assignments,
    )


@dataclass(frozen=True)
class _Parameters:
    """Parameters of trials. model : with those that are hidden. names : of all that the model, as
    it was given, and its inputs have. asked : the unknown ones; moving : all that differ between
    points q. values : of the others, by trial. delays : of sensors, with the trials."""

    model: Model
    names: Sequence[str]
    asked: Mapping[str, Unknown]
    assignments: Assignments | None
    moving: Mapping[str, Unknown]
    values: Sequence[Mapping[str, float]]
    delays: Delayed


def _parameters(
    model: Model, signals: Sequence[Any], trials: Sequence[Experiment], unknown: Any, known: Any
) -> _Parameters:
    """Parameters as they are given, for all trials and by them."""
    more, known = new_names(model, signals), {} if known is None else known
    names = [*model.parameter_names, *more]
    others = sorted(symbols_of(trials) - {*names})
    asked = checked_unknowns(unknown, [*names, *others])
    check_distributions(asked)
    told = {**model.values, **by_name(known, [*names, *others], "known")}
    made = assignments_of(trials, asked, told, names)
    moving, follow = (made.unknown, {*made.follow, *others}) if made else (asked, ())
    values = known_values(model, asked, known, trials, [*more, *others], follow)
    if made:
        values = [{**row, **own} for row, own in zip(values, made.numbers, strict=True)]
        model = with_hidden(model, tuple(made.hidden))
    late = delayed(trials, delays_of_sensors(model.outputs), moving, values)
    return _Parameters(model, names, asked, made, moving, values, late)


@dataclass(frozen=True)
class _Records:
    """Trials with a node wherever a step must end: at samples, `resets` of events, by trial, and
    jumps at known times. held : what stands for these."""

    model: Model
    trials: Sequence[Experiment]
    resets: Sequence[Sequence[Reset]]
    held: HeldSwitches


def _records(
    told: _Parameters, free: Mapping[str, Any], events: Sequence[KnownEvent], hybrid: bool
) -> _Records:
    """Trials with all the nodes that they need."""
    late, model, values = told.delays, told.model, told.values
    trials = [at_nodes(trial, free, late.unknown, hybrid) for trial in late.trials]
    pairs = zip(trials, values, strict=True)
    resets = [resets_of(events, trial, told.moving, own) for trial, own in pairs]
    trials = [with_nodes(trial, own) for trial, own in zip(trials, resets, strict=True)]
    if not (hybrid or model.delays or free):
        trials = [with_bends(trial) for trial in trials]
    held = HeldSwitches(model, trials)
    if not (hybrid or model.delays):
        held = held_switches(model, trials, told.moving, values, insert=not free)
    return _Records(held.model, [*held.trials], resets, held)


def _steps(
    system: Model | Hybrid,
    records: _Records,
    method: str | None,
    options: tuple[int | None, float, float],
) -> Steps:
    """The method and its steps; options : as of `shooting_arguments`."""
    longest = max(trial.n_nodes for trial in records.trials)
    methods, most = methods_of(system, derivatives=True), max(1, MOST_NODES // longest)
    parts, rtol, atol = options
    fixed = [*SCHEMES] if records.model.delays or parts is not None else []
    return checked_steps(methods, method, 1 if parts is None else parts, rtol, atol, most, fixed)


@dataclass(frozen=True)
class _Starts:
    """Initial values by trial, NaN where unknown or `following` from parameters; bounds of the
    unknown ones by state."""

    values: Sequence[Mapping[str, float]]
    bounds: Mapping[str, Sequence[tuple[float, float]]]
    following: Sequence[Following | SteadyStart | None]


def _starts(
    system: Model | Hybrid,
    initial: Any,
    told: _Parameters,
    records: _Records,
    free: Mapping[str, Any],
) -> _Starts:
    """Starts of the trials."""
    model, made, trials = records.model, told.assignments, records.trials
    begins, bounds, plain = initial_values(system, initial, len(trials), told.names)
    check_steady(system, model, free, bounds, trials)
    before = made.before if made else [{}] * len(trials)
    starts, follows = with_steady_starts(model, trials, begins, plain, before)
    warn_of_leaps(model, trials, starts, told.moving)
    return _Starts(starts, bounds, follows)


def _unknowns(
    told: _Parameters,
    records: _Records,
    fine: Sequence[Experiment],
    starts: _Starts,
    free: Mapping[str, Any],
    segments: int,
) -> Unknowns:
    """The vector of unknowns; fine : the trials on the grids of the steps."""
    model, asked, made = records.model, told.asked, told.assignments
    owned = owned_parameters(list(asked), labels_of(asked), records.trials, logs_of(asked))
    unknowns = Unknowns(
        states=model.state_names,
        owned=owned,
        initial=tuple(starts.bounds),
        inputs=tuple(u for u in model.input_names if u in free),
        segments=tuple(segment_starts(trial.n_nodes, segments) for trial in fine),
        nodes=tuple(trial.n_nodes for trial in fine),
    )
    rules, moving = [rule for rule in starts.following if rule], {*told.moving}
    moved = [x for rule in rules if {*rule.parameters} & moving for x in rule.states]
    free_ones = [*told.moving] if made else unknowns.parameters
    check_invariants(model, [*unknowns.initial, *free_ones, *moved])
    if made:
        made.assigned(owned, records.trials).check_used()
    return unknowns
