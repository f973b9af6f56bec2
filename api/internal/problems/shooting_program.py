"""Compiled program of `ks.Shooting` for trials of a model, with its data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial

from kinesym.codegen.kernel import Program
from kinesym.codegen.stepping import shooting_kernels
from kinesym.codegen.transcribe import residual_program, transcribe
from kinesym.internal.problems.delay_sources import sources_of
from kinesym.internal.problems.method_index import check_method
from kinesym.internal.problems.pipeline import make_nlp, realise, slopes_library
from kinesym.internal.problems.residual_problem import residual_problem, with_weights
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.internal.problems.symbolic_problem import symbolic_problem
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.shooting.smooth_trials import Evaluated, SmoothTrials
from kinesym.runtime.shooting.squares import Residuals
from kinesym.runtime.shooting.steady_start import Settled, SteadyStart, SteadyStates
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import Stepper
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import EXPLICIT, RK4, SCHEMES

#: The method by which steady states are found.
_STEADY = "radau-5"


def shooting_program(problem: Problem, method: str, adaptive: bool = False) -> Program:
    """Objective of the problem, at the nodes, and kernels for time stepping by a method. adaptive :
    an implicit one chooses its steps."""
    made, about = shooting_kernels(problem, SCHEMES.get(method), adaptive)
    program = without_hessians(transcribe(problem))
    return replace(
        program,
        name=program.name + "_shooting",
        kernels=(*program.kernels, *made),
        description={**program.description, "stepping": about},
    )


def without_hessians(program: Program) -> Program:
    """The program without second derivatives, which shooting does not use."""
    kernels = tuple(k for k in program.kernels if not k.name.endswith("_hessian"))
    return replace(program, kernels=kernels)


@dataclass(frozen=True, eq=False)
class SmoothProgram:
    """Compiled program for trials of a model: symbolic problem, library, and seconds for deriving
    and compiling."""

    problem: Problem
    built: Built
    timings: Mapping[str, float]

    def trials(self, given: ShootingArguments) -> Simulated:
        """Trials on the grids of the steps."""
        factor = self.problem.objective.least_squares or 1.0
        return given.outer(self._trials(given.inner), factor)

    def _trials(self, given: ShootingArguments) -> SmoothTrials:
        problem, built, method = self.problem, self.built, given.steps.method
        objective, loss = problem.objective, RobustLoss.of(problem.objective.loss)
        channels = list(problem.sampled(between=False)) if objective.least_squares else []
        factor, shared = objective.least_squares or 1.0, (given.known, given.threads)
        between = bool(problem.slots and objective.least_squares)
        priors, kinked = given.priors(factor), loss is not None and loss.kinked
        spreads = [n for n in channels if n in problem.spreads and n not in problem.sides]
        limits = [name for name in channels if name in problem.sides]

        def on(fine: Sequence[Experiment]) -> Evaluated:
            @cache
            def squares() -> Residuals:
                symbolic, library = self._residuals
                trials = [with_weights(problem, symbolic, trial) for trial in fine]
                nlp = make_nlp(library, trials, *shared)
                late = make_nlp(_late(problem), fine, *shared) if between else None
                return Residuals(nlp, fine, channels, late, factor, loss, spreads, limits)

            return Evaluated(make_nlp(built, fine, *shared), squares)

        return SmoothTrials(
            given.unknowns,
            given.system,
            given.trials,
            priors,
            on=on,
            stepper=Stepper.of(built, SCHEMES[method].name if method in SCHEMES else method),
            fine=given.fine,
            initial=given.starts,
            substeps=given.steps.substeps,
            tolerances=given.steps.tolerances,
            measured=bool(objective.least_squares),
            weighted=objective.integrand == 0 and objective.terminal == 0,
            factor=factor,
            loss=loss,
            scored=bool(problem.spreads or problem.sides or kinked or not priors.squares),
            outputs=partial(slopes_library, problem),
            sources=sources_of(given.model, given.fine),
            following=self._following(given),
            resets=given.resets,
        )

    @cached_property
    def _residuals(self) -> tuple[Problem, Built]:
        """The problem of the residuals, and its library. Raises `ValueError` if the objective is no
        sum of squares."""
        return _residuals(self.problem, tuple(self.problem.measurements))

    def _following(self, given: ShootingArguments) -> list[Following | Settled | None]:
        """Starts that follow from parameters, those in steady states with what finds these."""
        rules = given.following
        if not any(isinstance(rule, SteadyStart) for rule in rules):
            return [rule for rule in rules if not isinstance(rule, SteadyStart)]
        problem, built = self.problem, self.built
        if not (given.steps.method == _STEADY and given.steps.adaptive):
            check_method(given.model, _STEADY)
            problem = replace(problem, scheme=replace(RK4, name=_STEADY))
            built = _shooting(problem, tuple(problem.measurements), _STEADY, adaptive=True)
        free = given.unknowns.owned.parameters
        about = (free, given.steps.tolerances, len(rules))
        steady = SteadyStates(Stepper.of(built, _STEADY), *about)
        return [Settled(rule, steady) if isinstance(rule, SteadyStart) else rule for rule in rules]


def smooth_program(given: ShootingArguments) -> SmoothProgram:
    """Derive and compile for trials of a model; raises `ValueError` for what does not fit."""
    given, method = given.inner, given.steps.method
    check_method(given.model, method)
    problem = symbolic_problem(
        given.model,
        given.fine,
        {name: p.in_natural_scale for name, p in given.unknown.items()},
        {**given.free, **dict.fromkeys(delay.name for delay in given.model.delays)},
        EXPLICIT.get(method) or replace(RK4, name=method),
        given.objective,
        delays=given.delays,
    )
    begin = time.perf_counter()
    built = _shooting(problem, tuple(problem.measurements), method, given.steps.adaptive)
    seconds = time.perf_counter() - begin
    compiling = built.compile if built.compile < seconds else 0.0  # it was kept
    return SmoothProgram(problem, built, {"derive": seconds - compiling, "compile": compiling})


@lru_cache(maxsize=8)
def _shooting(
    problem: Problem, measurements: tuple[str, ...], method: str, adaptive: bool
) -> Built:
    """The library for trials, kept for the next problem that differs in numbers only; measurements
    : in their order, which equal problems need not share."""
    return realise(shooting_program(problem, method, adaptive), narrow=True)


@lru_cache(maxsize=8)
def _residuals(problem: Problem, measurements: tuple[str, ...]) -> tuple[Problem, Built]:
    """The problem of the residuals, and its library, kept as that of `_shooting`."""
    symbolic = residual_problem(problem)
    return symbolic, realise(without_hessians(transcribe(symbolic)))


@lru_cache(maxsize=8)
def _late(problem: Problem) -> Built:
    """The library of the residuals of measurements that are between nodes."""
    return realise(residual_program(replace(problem, measurements=problem.timed)))
