"""A question and its trials as an objective of few unknowns: trajectories follow by simulation.

It is a value: a problem of other trials, or with other numbers, has the same library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

from kinesym.base import checks
from kinesym.codegen.kernel import Program
from kinesym.codegen.switching import hybrid_program
from kinesym.internal.fitting.combination import combination
from kinesym.internal.fitting.hybrid_shooting import hybrid_trials
from kinesym.internal.fitting.report_setting import setting_of
from kinesym.internal.fitting.shooting_starts import in_groups, together
from kinesym.internal.problems.assignments import set_to_expressions
from kinesym.internal.problems.content import UNCOUNTED
from kinesym.internal.problems.delay_sources import undelayed_objective
from kinesym.internal.problems.homotopy import with_homotopy
from kinesym.internal.problems.hybrid_signals import hybrid_signals
from kinesym.internal.problems.known_events_shooting import between_events
from kinesym.internal.problems.method_index import lowered_for_method
from kinesym.internal.problems.observer import observer
from kinesym.internal.problems.question import ShootingQuestion
from kinesym.internal.problems.sensors import with_noise, with_sensors
from kinesym.internal.problems.shooting_arguments import ShootingArguments, shooting_arguments
from kinesym.internal.problems.shooting_program import (
    SmoothProgram,
    shooting_program,
    smooth_program,
)
from kinesym.internal.problems.step_options import methods_of
from kinesym.internal.problems.trial_starts import with_symbols_of_starts
from kinesym.internal.running.finer_steps import finer_shooting
from kinesym.internal.running.jump_events import with_events
from kinesym.internal.running.jumps_moved_by_unknowns import Moved, judged, moved_by
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.bootstrap import Record, remeasured
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.shooting.batched_squares import Squares
from kinesym.runtime.shooting.estimate_shifts import FinerTrials
from kinesym.runtime.shooting.identification import Identification
from kinesym.runtime.shooting.task import Task
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.schemes import SCHEMES


@dataclass(frozen=True, eq=False)
class ShootingProblem:
    """The objective of trials as a function of the unknowns q.

    question : all that was asked. system : as it is simulated. given : its arguments, checked, and
    all that each trial has. program : kernels of a model, None for a hybrid one. eventful : whether
    jumps of the equations of a model have become events.
    """

    question: ShootingQuestion
    system: Model | Hybrid
    given: ShootingArguments
    program: SmoothProgram | None = field(metadata=UNCOUNTED)
    eventful: bool = False

    @staticmethod
    def of(question: ShootingQuestion, by_events: bool = True) -> ShootingProblem:
        """Problem that a question means. by_events : whether jumps of the equations become events,
        where that can be. Raises `ValueError` for whatever does not fit, before anything is
        compiled."""
        asked = _stated(question)
        system, objective, method = asked.system, asked.objective, asked.method
        threads, smooth = asked.threads, asked.system
        if isinstance(system, Model) and by_events:
            plain = asked.segments == 1 and not asked.unknown_inputs
            moving = dict(asked.unknown) if isinstance(asked.unknown, Mapping) else {}
            moving |= dict.fromkeys(set_to_expressions(asked.trials))
            system = with_events(system, moving, objective, method, plain)
        between = None
        if isinstance(system, Hybrid) and method in SCHEMES:
            between = between_events(system, method)
            system = between.model
        eventful = isinstance(system, Hybrid) and system is not smooth
        if eventful:  # these have other defaults
            method, threads = (
                "rk4" if method is None and asked.substeps is not None else method,
                None,
            )
        given = shooting_arguments(
            system,
            asked.trials,
            unknown=asked.unknown,
            known=asked.known,
            initial=between.initial(asked.initial) if between else asked.initial,
            events=between.events if between else (),
            objective=objective,
            method=method,
            unknown_inputs=asked.unknown_inputs,
            segments=asked.segments,
            threads=threads,
            options=(asked.substeps, asked.rtol, asked.atol),
        )
        program = None if isinstance(system, Hybrid) else smooth_program(given)
        made = ShootingProblem(question, system, given, program, eventful)
        made.trials  # noqa: B018  (raises for what a hybrid model does not take)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """The fields; all else follows from them."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    def with_arguments(self, given: ShootingArguments) -> ShootingProblem:
        """The same problem, and library, of other trials."""
        return replace(self, given=given)

    def on(
        self, trials: Sequence[Experiment], starts: Mapping[str, Sequence[float]] | None = None
    ) -> ShootingProblem:
        """The same problem, and library, of other trials on the same grids. starts : other numbers
        for starts that are known, by state one for each trial."""
        given, system, more = self.given, self.system, (starts or {}).items()
        rows = [{**row, **{x: own[k] for x, own in more}} for k, row in enumerate(given.starts)]
        if isinstance(system, Hybrid):
            signals = [hybrid_signals(system, trial, k) for k, trial in enumerate(trials)]
            made = replace(given.on(trials, 1), signals=signals)
        else:
            made = given.on(trials, given.steps.substeps)
        return self.with_arguments(replace(made, starts=rows))

    @property
    def kernels(self) -> Program:
        """The kernels of the simulated trials, and their description."""
        if self.program is not None:
            steps = self.given.steps
            return shooting_program(self.program.problem, steps.method, steps.adaptive)
        assert isinstance(self.system, Hybrid)
        return hybrid_program(self.system)

    # -- the simulated trials -----------------------------------------------------------------

    @cached_property
    def trials(self) -> Simulated:
        """The trials, which keep the trajectories of the last q: they are for one thread."""
        return self.simulated(self.given)

    def simulated(self, given: ShootingArguments) -> Simulated:
        """Trials of the same library, with trajectories of their own."""
        if self.program is not None:
            return self.program.trials(given)
        assert isinstance(self.system, Hybrid)
        return hybrid_trials(self.system, given)

    @cached_property
    def finer(self) -> FinerTrials:
        """The trials with finer steps. Raises `ValueError` where there are none."""
        return self._finer(self.given)

    def _finer(self, given: ShootingArguments) -> FinerTrials:
        steps, hybrid = given.steps, isinstance(self.system, Hybrid)
        made, finer, higher = finer_shooting(given, hybrid)
        about = (steps.method, finer.words, finer.order, steps.substeps, higher)
        return FinerTrials(self.simulated(made), finer.factor, *about)

    # -- other problems -----------------------------------------------------------------------

    @cached_property
    def as_written(self) -> ShootingProblem:
        """The same problem without events of its jumps: where these chatter, as of dry friction
        that comes to rest."""
        return ShootingProblem.of(self.question, by_events=False)

    def eased(self) -> ShootingProblem | None:
        """The problem whose homotopies lead to this one, None if there is none."""
        if HOMOTOPY in self.given.model.parameters:
            return self
        asked = self.question
        system = _with_outputs(asked)
        try:
            about = observer(system, asked.trials)
        except ValueError:  # nothing that is measured can be tied
            return None
        tied = replace(asked, system=about.model, trials=about.driven(asked.trials), sensors=None)
        return ShootingProblem.of(tied)

    def at_homotopy(self, place: float) -> ShootingProblem:
        """The same problem, and library, with its homotopies at a place between 0 and 1."""
        known = [{**row, HOMOTOPY.name: place} for row in self.given.known]
        return self.with_arguments(replace(self.given, known=known))

    # -- estimation ---------------------------------------------------------------------------

    def identification(self, given: ShootingArguments | None = None) -> Identification:
        """Identification of its unknowns; of trials with trajectories of their own if others are
        given."""
        mine = given is None
        given = self.given if given is None else given

        def weighed(std: Mapping[str, float]) -> Task:
            made = given.with_std(std)
            return self._task(made, self.simulated(made))

        task = self._task(given, self.trials if mine else self.simulated(given))
        return Identification(task, weighed, partial(self._judged, given))

    def _task(self, given: ShootingArguments, trials: Simulated) -> Task:
        """Task of identification for these trials."""

        @cache
        def finer() -> FinerTrials:
            return self.finer if given is self.given else self._finer(given)

        def again(record: Record) -> Simulated:
            parts = 1 if isinstance(self.system, Hybrid) else given.steps.substeps
            return self.simulated(given.on(remeasured(given.trials, record), parts))

        def many() -> Callable[[Array], Squares] | None:
            symbolic = None if self.program is None else self.program.problem
            found = together(given, symbolic, self.identification(given))
            return None if found is None else in_groups(found)

        about = (self.given.trials, finer, again, combination, many, given.gaps, self.timings)
        return Task(trials, given.bounds, *about)

    def _judged(self, given: ShootingArguments, fit: Fit) -> Fit:
        """A fit, or what is left of it where its derivatives lack a jump that unknowns move."""
        return judged(fit, self.moved(given))

    def moved(self, given: ShootingArguments) -> Moved:
        """The jumps that unknowns move and derivatives lack."""
        unknown = (*given.inner.unknowns.owned.parameters, *given.unknowns.inputs)
        measured = {name for trial in given.trials for name in trial.measurements}
        about = (unknown, measured, bool(given.unknowns.initial))
        return moved_by(self.system, *about, equations=isinstance(self.system, Model))

    @property
    def timings(self) -> dict[str, float]:
        """Seconds to derive and to compile."""
        return {} if self.program is None else dict(self.program.timings)

    def setting(self) -> dict[str, Any]:
        """Description of the problem for the report: model, trials, bounds and method."""
        given, owned = self.given, self.given.unknowns.owned
        low, high = (side[: len(owned.names)] for side in given.bounds)
        steps = given.steps
        words = f"{steps.method}, " + (
            f"rtol {steps.tolerances[0]:g}, atol {steps.tolerances[1]:g}"
            if steps.adaptive
            else f"{steps.substeps} step{'s' * (steps.substeps > 1)} per interval"
        )
        return {**setting_of(given.model, given.trials, owned, (low, high)), "method": words}


def _with_outputs(asked: ShootingQuestion) -> Model | Hybrid:
    """The system with sensors as outputs, and with the parameters of starts, and of homotopies if
    it is used."""
    system = with_noise(with_sensors(asked.system, asked.sensors), asked.trials)
    system = with_symbols_of_starts(system, asked.initial, asked.trials)
    return with_homotopy(system, asked.objective)


def _stated(asked: ShootingQuestion) -> ShootingQuestion:
    """The question with sensors as outputs, of a model that the method can step."""
    system, objective = _with_outputs(asked), asked.objective
    if asked.method is not None:
        checks.check_text(asked.method, "method")
    if isinstance(system, Model):
        usual = methods_of(system, derivatives=True)[0]
        model = lowered_for_method(system, asked.method or usual)
        system, objective = undelayed_objective(model, objective)
    return replace(asked, system=system, objective=objective, sensors=None)
