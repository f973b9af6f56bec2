"""Formulation of a collocation problem: rewrites from the user's arguments to one model with
conditions.

The engine begins here, and has these stages:

Question                     all arguments, as given
-> Draft                     each function of `REWRITES` in turn writes one kind of argument into
                             the model, its conditions and its trials
-> Formulation, PerTrial     `formulate`: what all trials share, and what each has of its own
-> Discretisation            the nonlinear program, in `kinesym.internal.fitting.discretisation`
-> Solution                  IPOPT's, with standard errors, by `kinesym.internal.fitting.solving`

A rewrite is a pure function from `Draft` to `Draft`. After the last one there are no phases,
sensors, events, homotopies, process noise, continuous inputs, integrals, jumps or delays left: only
states, inputs, parameters, equations, and conditions with bounds. The stages from the symbolic
problem to the compiled library are in `kinesym.internal.problems.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from kinesym.internal.problems.controls import Step, controls, instants_of
from kinesym.internal.problems.equation_delays import bounds_of_delays, lags_of, with_delays
from kinesym.internal.problems.fixed_values import fixed_values
from kinesym.internal.problems.free_history import FreeHistory, free_history
from kinesym.internal.problems.homotopy import with_homotopy
from kinesym.internal.problems.input_ends import with_ends
from kinesym.internal.problems.integral_conditions import with_integrals
from kinesym.internal.problems.interior_conditions import Moment, check_within, with_moments
from kinesym.internal.problems.known_events_collocation import (
    Eventless,
    KnownEvents,
    without_events,
)
from kinesym.internal.problems.known_jump_inputs import HeldSwitches, held_in_cost, held_switches
from kinesym.internal.problems.method_index import check_index, highest_index, lowered
from kinesym.internal.problems.model_phases import SmoothPhases, smooth_phases
from kinesym.internal.problems.named_bounds import bounded, bounds_by_name, named_bounds
from kinesym.internal.problems.observer import Observer, asked_observer
from kinesym.internal.problems.parameters import Unknown, checked_unknowns, is_random, trial_values
from kinesym.internal.problems.per_trial import OneTrial, PerTrial
from kinesym.internal.problems.phases import Posed, check_starts, posed
from kinesym.internal.problems.process_noise import driven
from kinesym.internal.problems.question import Question
from kinesym.internal.problems.sensor_delays import delayed
from kinesym.internal.problems.sensors import with_noise, with_sensors
from kinesym.internal.problems.symbolic_problem import symbolic_problem
from kinesym.internal.problems.written_settings import with_settings
from kinesym.runtime.nlp.delay_rows import Lag
from kinesym.runtime.signals.corridor import changes
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.delayed import delays_of_sensors
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import LeastSquares, Objective
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme, scheme_named


@dataclass(frozen=True, eq=False)
class Draft:
    """State of a question between two rewrites.

    The fields from `system` to `unknown_inputs` start as the arguments of `Collocation` and hold
    them as far as they are rewritten. events : jumps of states at known times. phases : links and
    parts of a motion in phases. observer : model that tracks the record. noises : names of process
    noise by those of the inputs behind it. steps : limits on rates of inputs, see `Step`. moments :
    conditions at unknown times, see `Moment`. followed : inputs that follow from others, on any
    grid. posed : checked model, trials and conditions, which replace the first fields from
    `_conditions` on. records : unknown parameters, with bounds, owners and priors. values : values
    of the known parameters, by trial. inputs : unknown inputs, by name. written : model before its
    jumps were rewritten. jumps : inputs that stand for jumps at known times. histories : parameters
    that stand for signals before the start. delays : unknown delays of sensors. notes : warnings
    for the user.
    """

    question: Question
    scheme: CollocationScheme
    system: Any
    trials: Any
    unknown: Mapping[Any, Any] | None
    known: Mapping[Any, Any] | None
    objective: Any
    bounds: Mapping[Any, Any] | None
    boundary: Any
    path: Any
    unknown_inputs: Mapping[Any, Any] | None
    events: KnownEvents = field(default_factory=KnownEvents)
    phases: SmoothPhases = field(default_factory=lambda: SmoothPhases(None, None, None))
    observer: Observer | None = None
    noises: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[Step] = ()
    moments: Sequence[Moment] = ()
    followed: frozenset[str] = frozenset()
    posed: Posed = field(default_factory=lambda: Posed(None, ()))  # type: ignore[arg-type]
    records: Mapping[str, Unknown] = field(default_factory=dict)
    values: Sequence[Mapping[str, float]] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    written: Model | None = None
    jumps: HeldSwitches = field(default_factory=lambda: HeldSwitches(None, ()))  # type: ignore[arg-type]
    histories: FreeHistory = field(default_factory=lambda: FreeHistory((), {}, {}))
    delays: Mapping[str, sp.Symbol] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def index(self) -> int:
        """Highest differentiation index of a model that the scheme can discretise."""
        return highest_index(self.scheme.name)


def _phases(draft: Draft) -> Draft:
    """Merge the models of several phases into one that is each of them in turn, and maps into
    links."""
    given, asked = (draft.known, draft.unknown), draft.unknown_inputs
    whole = smooth_phases(draft.system, draft.trials, draft.objective, given, asked, draft.index)
    return replace(
        draft, system=whole.system, trials=whole.trials, objective=whole.objective, phases=whole
    )


def _sensors(draft: Draft) -> Draft:
    """Add sensors and expressions of noise to the model; write expressions of parameters in it."""
    system = with_noise(with_sensors(draft.system, draft.question.sensors), draft.trials)
    conditions = (draft.objective, draft.boundary, draft.path)
    system, trials = with_settings(system, draft.trials, *conditions)
    return replace(draft, system=system, trials=trials)


def _events(draft: Draft) -> Draft:
    """Replace a hybrid model with events at known times by a model with inputs that switch there,
    and states that jump by these without their jumps."""
    given = (draft.system, draft.trials, draft.objective, draft.boundary, draft.path)
    made = without_events(Eventless(*given, draft.unknown_inputs), draft.unknown, draft.known)
    return replace(draft, **vars(made), followed=draft.followed | made.events.sums)


def _homotopy(draft: Draft) -> Draft:
    """Add the parameter of homotopies, and derive the observer that tracks the record."""
    system = with_homotopy(draft.system, draft.objective, draft.boundary, draft.path)
    noisy = bool(draft.question.noise)
    made = asked_observer(system, draft.trials, draft.question.homotopy, noisy)
    return replace(draft, system=system, observer=made)


def _process_noise(draft: Draft) -> Draft:
    """Replace inputs that are process noise by an intensity times an unknown input of unit
    intensity."""
    noise = draft.question.noise
    if not noise:
        return draft
    given = (draft.unknown, draft.known, draft.unknown_inputs, draft.objective)
    made = driven(draft.system, noise, *given)
    return replace(draft, **made._asdict())


def _controls(draft: Draft) -> Draft:
    """Replace continuous inputs by states, and costs of absolute values by differences of two
    inputs that are not negative."""
    given = (draft.system, draft.unknown_inputs, draft.bounds, draft.objective, draft.path)
    made = controls(*given)._asdict()
    steps, followed = [*draft.steps, *made.pop("steps")], draft.followed | made.pop("parts")
    return replace(draft, **made, steps=steps, followed=followed)


def _index(draft: Draft) -> Draft:
    """Reduce the differentiation index of the model to one that the scheme can discretise."""
    if not isinstance(draft.system, Model):
        return draft
    return replace(draft, system=lowered(draft.system, draft.index, draft.index))


def _moments(draft: Draft) -> Draft:
    """Replace conditions at times that are parameters by inputs that sum them up from node to
    node."""
    given = (draft.system, draft.unknown_inputs or {}, draft.path, draft.boundary)
    made = with_moments(*given)._asdict()
    steps, followed = [*draft.steps, *made.pop("steps")], draft.followed | made.pop("sums")
    return replace(draft, **made, steps=steps, followed=followed)


def _integrals(draft: Draft) -> Draft:
    """Replace integrals in conditions by states that start at zero."""
    system, boundary = with_integrals(draft.system, draft.boundary)
    return replace(draft, system=system, boundary=boundary)


def _conditions(draft: Draft) -> Draft:
    """Check trials; make of conditions expressions with bounds per trial, of contacts forces."""
    asked = (draft.path, draft.boundary, draft.steps, draft.moments, draft.phases.links)
    made = posed(draft.system, draft.trials, draft.unknown_inputs, *asked)
    about = (draft.objective, draft.question.objective, draft.trials, draft.followed)
    made, objective = with_ends(made, *about)
    return replace(draft, posed=draft.phases.joined(made), steps=made.steps, objective=objective)


def _delays(draft: Draft) -> Draft:
    """Replace delayed signals by inputs, and delays that change along the motion by unknown
    inputs."""
    made, objective = with_delays(draft.posed, draft.objective)
    return replace(draft, posed=made, objective=objective)


def _parameters(draft: Draft) -> Draft:
    """Make a record with bounds, owners and prior of each unknown parameter; look up values of the
    others in every trial."""
    model = draft.posed.model
    records = checked_unknowns(draft.unknown, model.parameter_names)
    inputs = by_name(draft.posed.unknown_inputs, model.given_names, "unknown_inputs")
    inputs |= {delay.name: None for delay in model.delays}
    if model.index.value is not None:  # else unknown inputs may determine what is left
        check_index(model, draft.index, f"the scheme {draft.scheme.title}")
    known = {} if draft.known is None else draft.known
    values = trial_values(model, records, known, draft.posed.trials)
    return replace(draft, records=records, values=values, inputs=inputs)


def _jumps(draft: Draft) -> Draft:
    """Replace jumps at known times by inputs that are held between nodes. Each jump gets a node of
    its own if no bound, unknown input or path condition depends on the grid; so does an event."""
    given = draft.posed
    plain = not (draft.question.bounds or given.unknown_inputs or given.path)
    plain = (plain and not (given.links or given.moments)) or bool(draft.events.names)
    about = (draft.records, draft.values, plain)
    held = held_switches(given.model, given.trials, *about)
    held, objective = held_in_cost(held, draft.objective, *about)
    notes = [*draft.notes, *held.notes]
    changed = replace(draft, written=given.model, jumps=held, objective=objective, notes=notes)
    return replace(changed, posed=replace(given, model=held.model, trials=held.trials))


def _histories(draft: Draft) -> Draft:
    """Replace unknown signals before the start by parameters of each trial."""
    model, trials = draft.posed.model, draft.posed.trials
    made = free_history(model, trials, draft.records, draft.values)
    given = replace(draft.posed, model=made.extended(model))
    return replace(draft, posed=given, histories=made, records={**draft.records, **made.unknown})


def _sensor_delays(draft: Draft) -> Draft:
    """Give the samples of delayed sensors times of their own, between the nodes."""
    random = "a distribution to be found" if any(map(is_random, draft.records.values())) else ""
    noisy = bool(draft.question.noise)
    if random and not noisy:
        _check_likelihood(draft.objective)
    beside = "process noise" if noisy else random
    shown, trials = delays_of_sensors(draft.posed.model.outputs), draft.posed.trials
    for trial in trials if beside else ():
        for name in (*trial.std_expressions, *trial.limits):
            raise ValueError(
                f"measurement {name} has a std that is an expression, or censored samples, but "
                f"with {beside} that noise does not follow the motion; give a number, or leave std "
                "out to have it estimated, and make censored samples NaN"
            )
    late = delayed(trials, shown, draft.records, draft.values, beside)
    given = replace(draft.posed, trials=late.trials)
    return replace(draft, posed=given, delays=late.unknown, notes=[*late.gaps, *draft.notes])


#: Rewrites in their order: each relies on what the ones before it have removed or added.
REWRITES: Sequence[Callable[[Draft], Draft]] = (
    _phases,
    _sensors,
    _events,
    _homotopy,
    _process_noise,
    _controls,
    _index,
    _moments,
    _integrals,
    _conditions,
    _delays,
    _parameters,
    _jumps,
    _histories,
    _sensor_delays,
)


@dataclass(frozen=True, eq=False)
class Formulation:
    """Symbolic problem that all trials share, and what the numerics need to know beside it.

    symbolic : the problem of which kernels are generated. unknown : records of unknown parameters.
    bounds : (low, high) of parameters, and of states and inputs whose bounds do not change over
    time. lags : delays of the model. noises, events : see `Draft`. observer : model that tracks the
    record, for the homotopy. written : model before its jumps became inputs; hidden : names of
    these inputs; between : whether a jump lies between nodes. histories : parameters that stand for
    signals before the start. boundary : expressions of conditions at start and end. steps, moments
    : see `Step`, `Moment`. spans : (from, to) [s] of the path conditions. followed : inputs that
    may be on any grid, as they follow from others or are constant over several intervals. notes :
    warnings for the user about results that cannot be relied on.
    """

    question: Question
    scheme: CollocationScheme
    symbolic: Problem
    unknown: Mapping[str, Unknown]
    bounds: Mapping[str, tuple[float, float]]
    lags: Sequence[Lag]
    noises: Mapping[str, str]
    observer: Observer | None
    written: Model
    hidden: Sequence[str]
    events: KnownEvents
    between: bool
    histories: frozenset[str]
    boundary: Sequence[sp.Expr | None]
    steps: Sequence[Step]
    moments: Sequence[Moment]
    spans: Sequence[tuple[float, float]]
    followed: frozenset[str]
    notes: Sequence[str]

    @property
    def model(self) -> Model:
        """The model of all trials."""
        return self.symbolic.model

    @property
    def noisy(self) -> bool:
        """Whether there is process noise."""
        return bool(self.noises)

    @property
    def intensities(self) -> list[str]:
        """Parameters that are intensities of process noise, known and unknown ones."""
        return [f"sigma_{noise}" for noise in self.noises.values()]

    @property
    def every(self) -> dict[str, float]:
        """Hold times [s], by name, of inputs that are constant over several intervals."""
        pairs = ((step.name, step.limits.every) for step in self.steps)
        return {name: every for name, every in pairs if every is not None}

    def instants(self, trials: Sequence[Experiment]) -> list[float]:
        """Times [s] at which a condition begins or ends to hold, in order."""
        times = {time for span in self.spans for time in span if np.isfinite(time)}
        return sorted({*times, *instants_of(self.steps, trials)})

    def eased(self) -> Question | None:
        """Question whose model is the observer of the record, the easy end of the homotopy; None if
        there is no observer."""
        if self.observer is None:
            return None
        asked, driven = self.question, self.observer.driven(self.question.trials)
        trials = [trial.without_expressions() for trial in driven]  # the model has them
        model = self.observer.model
        return replace(asked, system=model, trials=trials, sensors=None, homotopy=None)


def formulate(question: Question) -> tuple[Formulation, PerTrial]:
    """Formulate a problem: apply all rewrites, then check what is left against the scheme and the
    trials.

    Returns what all trials share and what each has of its own. Nothing is differentiated or
    compiled. Raises `ValueError` for each argument that does not fit.
    """
    draft = _begun(question)
    for rewrite in REWRITES:
        draft = rewrite(draft)
    given, free = draft.posed, draft.inputs
    problem = symbolic_problem(
        given.model,
        given.trials,
        draft.records,
        free,
        draft.scheme,
        draft.objective,
        given.contacts,
        draft.delays,
        resets=draft.events.resets,
        **given.conditions,
    )
    sides = bounds_by_name(given.model, free, draft.bounds or {})
    problem = draft.events.measured(problem, [*sides, *(x for e in given.trials for x in e.bounds)])
    fixed = {name: bound for name, bound in sides.items() if not changes(bound)}
    bounds = named_bounds(given.model, draft.records, fixed)
    bounds |= bounds_of_delays(given.model, draft.records)
    check_within(given.trials, draft.moments, draft.records, draft.values)
    before = draft.histories.courses
    about = (given.model, given.trials, draft.records, draft.values)
    lags = lags_of(*about, problem.held, before)
    trials = bounded(given.model, given.trials, free, sides)
    given.check_spans(problem)
    starts = fixed_values(given, draft.values)
    check_starts(given.model, starts, draft.values)
    limits, lacking = given.bounds(problem), draft.phases.lacking
    every = {*(s.name for s in draft.steps if s.limits.every is not None), *draft.followed}
    whole = Formulation(
        question=question,
        scheme=draft.scheme,
        symbolic=problem,
        unknown=draft.records,
        bounds=bounds,
        lags=[replace(lag, trials=()) for lag in lags],
        noises=draft.noises,
        observer=draft.observer,
        written=draft.written or given.model,
        hidden=[*draft.jumps.names, *draft.events.hidden],
        events=draft.events,
        between=bool(draft.jumps.notes),
        histories=frozenset(draft.histories.unknown),
        boundary=[row.expression for row in given.boundary],
        steps=draft.steps,
        moments=draft.moments,
        spans=[row.span for row in given.path],
        followed=frozenset(every),
        notes=draft.notes,
    )
    rows = [
        OneTrial(
            trial=trial,
            known=draft.values[k],
            fixed=starts[k],
            limits={family: each[k] for family, each in limits.items()},
            spans=[lag.trials[k].span for lag in lags],
            before=before[k],
            lacking=lacking[k] if lacking else frozenset(),
            given_grid=draft.jumps.before[k] if draft.jumps.before else None,
        )
        for k, trial in enumerate(trials)
    ]
    return whole, PerTrial(tuple(rows))


def _begun(asked: Question) -> Draft:
    """Draft of a question before the first rewrite."""
    return Draft(
        question=asked,
        scheme=scheme_named(asked.scheme),
        system=asked.system,
        trials=asked.trials,
        unknown=asked.unknown,
        known=asked.known,
        objective=asked.objective,
        bounds=asked.bounds,
        boundary=asked.boundary,
        path=asked.path,
        unknown_inputs=asked.unknown_inputs,
    )


def _check_likelihood(objective: Objective | None) -> None:
    """Raise `ValueError` for an objective beside a distribution that is to be found."""
    if objective not in (None, LeastSquares()):
        raise ValueError(
            "with an unknown mean or sd the objective is the likelihood of the measurements; "
            "leave objective out"
        )
