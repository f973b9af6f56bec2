"""From the arguments of `Collocation` to one model with conditions: the list of rewrites.

Question                     all that was given
-> Draft                     each of `REWRITES` in turn puts one kind of argument into the model,
                             its conditions and its trials
-> Formulation, PerTrial     `formulate`: what is the same for all trials, and what is not

`kinesym.internal.problems.pipeline` shows the stages from there to the library.
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
from kinesym.internal.problems.integral_conditions import with_integrals
from kinesym.internal.problems.interior_conditions import Moment, check_within, with_moments
from kinesym.internal.problems.jump_times import Held, held_switches
from kinesym.internal.problems.model_phases import SmoothPhases, smooth_phases
from kinesym.internal.problems.observer import Observer, asked_observer
from kinesym.internal.problems.parameters import Unknown, checked_unknowns, is_random, known_values
from kinesym.internal.problems.per_trial import OneTrial, PerTrial
from kinesym.internal.problems.phases import Posed, check_starts, posed
from kinesym.internal.problems.problem import (
    bounded,
    bounds_by_name,
    check_index,
    highest_index,
    lowered,
    named_bounds,
    symbolic_problem,
)
from kinesym.internal.problems.process_noise import driven
from kinesym.internal.problems.question import Question
from kinesym.internal.problems.sensor_delays import delayed
from kinesym.internal.problems.sensors import with_sensors
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
    """A question on its way to one model with conditions.

    The first fields are arguments as far as they are rewritten. phases : what makes one motion of
    several. observer : of the record, if `homotopy="data"` asks for one. steps, moments, every,
    followed : of inputs that stand for something: see `Step`, `Moment`, `Formulation`. posed : the
    model with trials and conditions, in place of the first fields, once they are checked. records,
    values, inputs : of unknown parameters, values of the known ones of each trial, and unknown
    inputs by name. written : the model before its jumps were rewritten. jumps, histories : what
    these have become. delays : unknown ones of sensors. notes : on what cannot be relied on.
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
    phases: SmoothPhases = field(default_factory=lambda: SmoothPhases(None, None, None))
    observer: Observer | None = None
    steps: Sequence[Step] = ()
    moments: Sequence[Moment] = ()
    followed: frozenset[str] = frozenset()
    posed: Posed = field(default_factory=lambda: Posed(None, ()))  # type: ignore[arg-type]
    records: Mapping[str, Unknown] = field(default_factory=dict)
    values: Sequence[Mapping[str, float]] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    written: Model | None = None
    jumps: Held = field(default_factory=lambda: Held(None, ()))  # type: ignore[arg-type]
    histories: FreeHistory = field(default_factory=lambda: FreeHistory((), {}, {}))
    delays: Mapping[str, sp.Symbol] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def index(self) -> int:
        """The highest differentiation index of models that the scheme treats."""
        return highest_index(self.scheme.name)


def _phases(draft: Draft) -> Draft:
    """Models of several phases become one model that is each of them in turn, and maps links."""
    given, asked = (draft.known, draft.unknown), draft.unknown_inputs
    whole = smooth_phases(draft.system, draft.trials, draft.objective, given, asked, draft.index)
    return replace(
        draft, system=whole.system, trials=whole.trials, objective=whole.objective, phases=whole
    )


def _sensors(draft: Draft) -> Draft:
    """Channels of sensors become outputs of the model."""
    return replace(draft, system=with_sensors(draft.system, draft.question.sensors))


def _homotopy(draft: Draft) -> Draft:
    """The parameter of homotopies becomes one of the model, and the observer is derived."""
    system = with_homotopy(draft.system, draft.objective, draft.boundary, draft.path)
    noisy = bool(draft.question.noise)
    made = asked_observer(system, draft.trials, draft.question.homotopy, noisy)
    return replace(draft, system=system, observer=made)


def _process_noise(draft: Draft) -> Draft:
    """Inputs that are process noise become parameters times unknown inputs of unit intensity."""
    noise = draft.question.noise
    if not noise:
        return draft
    given = (draft.unknown, draft.known, draft.unknown_inputs, draft.objective)
    system, unknown, known, inputs, objective = driven(draft.system, noise, *given)
    return replace(
        draft,
        system=system,
        unknown=unknown,
        known=known,
        unknown_inputs=inputs,
        objective=objective,
    )


def _controls(draft: Draft) -> Draft:
    """Continuous inputs become states, costs of absolute values differences of positive inputs."""
    made = controls(draft.system, draft.unknown_inputs, draft.bounds, draft.objective, draft.path)
    return replace(
        draft,
        system=made.system,
        unknown_inputs=made.unknown_inputs,
        bounds=made.bounds,
        objective=made.objective,
        path=made.path,
        steps=[*draft.steps, *made.steps],
        followed=draft.followed | made.parts,
    )


def _index(draft: Draft) -> Draft:
    """A model of an index that the scheme does not treat becomes one of an index that it does."""
    if not isinstance(draft.system, Model):
        return draft
    return replace(draft, system=lowered(draft.system, draft.index, draft.index))


def _moments(draft: Draft) -> Draft:
    """Conditions at times that are parameters become sums over an input that is on there."""
    made = with_moments(draft.system, draft.unknown_inputs or {}, draft.path, draft.boundary)
    return replace(
        draft,
        system=made.system,
        unknown_inputs=made.unknown_inputs,
        path=made.path,
        boundary=made.boundary,
        steps=[*draft.steps, *made.steps],
        moments=made.moments,
        followed=draft.followed | made.sums,
    )


def _integrals(draft: Draft) -> Draft:
    """Integrals in conditions become states."""
    system, boundary = with_integrals(draft.system, draft.boundary)
    return replace(draft, system=system, boundary=boundary)


def _conditions(draft: Draft) -> Draft:
    """Conditions become expressions with bounds per trial, contacts of phases forces and more."""
    asked = (draft.path, draft.boundary, draft.steps, draft.moments, draft.phases.links)
    made = posed(draft.system, draft.trials, draft.unknown_inputs, *asked)
    made = draft.phases.joined(made)
    objective = made.objective if draft.objective is None else draft.objective
    return replace(draft, posed=made, objective=objective)


def _delays(draft: Draft) -> Draft:
    """Delayed signals become inputs, delays that change along the motion unknown inputs."""
    made, objective = with_delays(draft.posed, draft.objective)
    return replace(draft, posed=made, objective=objective)


def _parameters(draft: Draft) -> Draft:
    """Unknown parameters become records with bounds, owners and priors; others get values."""
    model = draft.posed.model
    records = checked_unknowns(draft.unknown, model.parameter_names)
    inputs = by_name(draft.posed.unknown_inputs, model.given_names, "unknown_inputs")
    inputs |= {delay.name: None for delay in model.delays}
    if model.index.value is not None:  # else unknown inputs may determine what is left
        check_index(model, draft.index, f"the scheme {draft.scheme.title}")
    known = {} if draft.known is None else draft.known
    values = known_values(model, records, known, draft.posed.trials)
    return replace(draft, records=records, values=values, inputs=inputs)


def _jumps(draft: Draft) -> Draft:
    """Jumps at known times become inputs that are held between nodes, of which each jump gets one
    where nothing else depends on the nodes."""
    given = draft.posed
    plain = not (draft.question.bounds or given.unknown_inputs or given.path)
    plain = plain and not (given.links or given.moments)
    held = held_switches(given.model, given.trials, draft.records, draft.values, plain)
    given = replace(given, model=held.model, trials=held.trials)
    written, notes = draft.posed.model, [*draft.notes, *held.notes]
    return replace(draft, posed=given, written=written, jumps=held, notes=notes)


def _histories(draft: Draft) -> Draft:
    """Unknown signals before the start become parameters of each trial."""
    model, trials = draft.posed.model, draft.posed.trials
    made = free_history(model, trials, draft.records, draft.values)
    given = replace(draft.posed, model=made.extended(model))
    return replace(draft, posed=given, histories=made, records={**draft.records, **made.unknown})


def _sensor_delays(draft: Draft) -> Draft:
    """Samples of sensors with a delay get times of their own, between the nodes."""
    random = "a distribution to be found" if any(map(is_random, draft.records.values())) else ""
    noisy = bool(draft.question.noise)
    if random and not noisy:
        _check_likelihood(draft.objective)
    beside = "process noise" if noisy else random
    shown, trials = delays_of_sensors(draft.posed.model.outputs), draft.posed.trials
    late = delayed(trials, shown, draft.records, draft.values, beside)
    given = replace(draft.posed, trials=late.trials)
    return replace(draft, posed=given, delays=late.unknown, notes=[*late.gaps, *draft.notes])


#: All that happens to a question, in order: each finds what the ones before have left.
REWRITES: Sequence[Callable[[Draft], Draft]] = (
    _phases,
    _sensors,
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
    """What a question means for any trials.

    symbolic : the problem of which kernels are generated. unknown, bounds : records of unknown
    parameters; (low, high) of parameters, and of states and inputs where they do not change over
    time. lags : delays of the model. observer : of the record, for the ladder. written : the model
    as it was before its jumps became inputs; hidden : names of these inputs; between : whether a
    jump is between nodes. histories : parameters that are what was before the start. boundary :
    expressions of conditions at the ends. steps, moments : see `Step`, `Moment`. spans : of the
    times at which path conditions hold. followed : inputs that may be on any grid, as they follow
    from others or are constant over several intervals. notes : on what cannot be relied on.
    """

    question: Question
    scheme: CollocationScheme
    symbolic: Problem
    unknown: Mapping[str, Unknown]
    bounds: Mapping[str, tuple[float, float]]
    lags: Sequence[Lag]
    observer: Observer | None
    written: Model
    hidden: Sequence[str]
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
        return bool(self.question.noise)

    @property
    def every(self) -> dict[str, float]:
        """Of inputs that are constant over several intervals, for how long [s]."""
        pairs = ((step.name, step.limits.every) for step in self.steps)
        return {name: every for name, every in pairs if every is not None}

    def instants(self, trials: Sequence[Experiment]) -> list[float]:
        """The times at which a condition begins or ends to hold [s]."""
        times = {time for span in self.spans for time in span if np.isfinite(time)}
        return sorted({*times, *instants_of(self.steps, trials)})

    def eased(self) -> Question | None:
        """The question of which the model is the observer of the record; None if there is none."""
        if self.observer is None:
            return None
        asked, trials = self.question, self.observer.driven(self.question.trials)
        model = self.observer.model
        return replace(asked, system=model, trials=trials, sensors=None, homotopy=None)


def formulate(question: Question) -> tuple[Formulation, PerTrial]:
    """What a question means: what is the same for all trials, and what each of them has. Raises
    `ValueError` for whatever does not fit; nothing is derived or compiled."""
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
        **given.conditions,
    )
    sides = bounds_by_name(given.model, free, draft.bounds or {})
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
        observer=draft.observer,
        written=draft.written or given.model,
        hidden=draft.jumps.names,
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
    """The draft that no rewrite has seen."""
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
