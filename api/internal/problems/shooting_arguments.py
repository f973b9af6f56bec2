"""Arguments of `ks.Shooting`, checked; and of a model the compiled program with its data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base import checks
from kinesym.codegen.kernel import Program
from kinesym.codegen.stepping import shooting_kernels
from kinesym.codegen.transcribe import residual_program, transcribe
from kinesym.internal.problems.assignments import (
    Assignments,
    assignments_of,
    symbols_of,
    with_hidden,
)
from kinesym.internal.problems.content import UNCOUNTED
from kinesym.internal.problems.controls import is_limited
from kinesym.internal.problems.delay_sources import (
    check_jumps,
    check_late,
    sources_of,
    span_of,
    warn_of_leaps,
)
from kinesym.internal.problems.hybrid_signals import hybrid_signals, new_names
from kinesym.internal.problems.jump_times import HeldSwitches, held_switches
from kinesym.internal.problems.parameters import (
    Unknown,
    checked_unknowns,
    densities_of,
    is_random,
    known_values,
    labels_of,
    logs_of,
)
from kinesym.internal.problems.pipeline import make_nlp, realise, slopes_library
from kinesym.internal.problems.problem import (
    bounds_by_name,
    check_method,
    checked_trials,
    named_bounds,
    symbolic_problem,
)
from kinesym.internal.problems.residual_problem import residual_problem
from kinesym.internal.problems.sensor_delays import delayed
from kinesym.internal.problems.step_options import Steps, checked_steps, methods_of
from kinesym.internal.problems.trial_starts import check_steady, initial_values, with_steady_starts
from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.layout import FAMILIES, Block, Layout
from kinesym.runtime.nlp.owned import owned_parameters
from kinesym.runtime.shooting.assigned import AssignedTrials
from kinesym.runtime.shooting.priors import Priors, priors_by_name
from kinesym.runtime.shooting.smooth_trials import Evaluated, Residuals, SmoothTrials
from kinesym.runtime.shooting.steady_start import Settled, SteadyStart, SteadyStates
from kinesym.runtime.shooting.trials import Simulated, System
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.signals.experiment import MOST_NODES, Experiment
from kinesym.runtime.signals.history import known_history
from kinesym.runtime.signals.signal import ParametricSignal, Signal
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import Stepper
from kinesym.runtime.summary import listed as words_of
from kinesym.symbolic.delayed import delays_of_sensors
from kinesym.symbolic.derivation import all_atoms
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model, kinks_of
from kinesym.symbolic.names import by_name, name_of, t
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem, algebraic_states
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


@dataclass(frozen=True)
class ShootingArguments:
    """Arguments of `ks.Shooting`, checked. fine : the trials on the grids of the steps. known,
    starts, signals : of each trial known parameters, initial values, NaN where unknown, with
    whether contacts press, inputs of a hybrid model. free : bounds of the unknown inputs. delays :
    of sensors, that are unknown; gaps : sentences on samples that are left out for delays.
    following : of each trial, starts that follow from parameters, NaN in `starts`. switches :
    inputs that stand for jumps at known times. assignments : what trials set of their parameters;
    None if they are simulated with the unknown ones."""

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
        return priors_by_name(self.unknowns.owned, densities_of(self.unknown), factor)

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
    objective: Objective | None,
    method: str | None,
    unknown_inputs: Any,
    segments: int,
    threads: int | None,
    options: tuple[int | None, float, float],
) -> ShootingArguments:
    """Check the arguments of `ks.Shooting`, options : substeps, rtol, atol; raises `ValueError` for
    what does not fit. Implicit steps are fixed if their number per interval is given, or with
    delays."""
    loss = objective.loss if isinstance(objective, Objective) else None
    if loss is not None and loss.kinked and (segments != 1 or unknown_inputs):
        raise ValueError(
            "absolute values, loss='laplace', have a kink at each sample, over which ks.Shooting "
            "steps in one segment and without unknown inputs; use ks.Collocation"
        )
    listed, hybrid = checked_trials(system, trials, Model, Hybrid), isinstance(system, Hybrid)
    model, count = system.model if isinstance(system, Hybrid) else system, len(listed)
    segments = checks.count(segments, "segments")
    if model.delays:
        _check_delays(system, model, listed, segments, unknown_inputs)
    free = {} if unknown_inputs is None else unknown_inputs
    free = by_name(free, model.given_names, "unknown_inputs")
    signals = [
        hybrid_signals(system, trial, k) if isinstance(system, Hybrid) else {}
        for k, trial in enumerate(listed)
    ]
    more, known = new_names(model, signals), {} if known is None else known
    every = [*model.parameter_names, *more]
    others = sorted(symbols_of(listed) - {*every})
    asked = checked_unknowns(unknown, [*every, *others])
    _check_distributions(asked)
    told = {**model.values, **by_name(known, [*every, *others], "known")}
    made = assignments_of(listed, asked, told, every)
    moving, follow = (made.unknown, {*made.follow, *others}) if made else (asked, ())
    values = known_values(model, asked, known, listed, [*more, *others], follow)
    if made:
        values = [{**row, **own} for row, own in zip(values, made.numbers, strict=True)]
        model = with_hidden(model, tuple(made.hidden))
    late = delayed(listed, delays_of_sensors(model.outputs), moving, values)
    listed = [_at_nodes(trial, free, late.unknown, hybrid) for trial in late.trials]
    held = HeldSwitches(model, listed)
    if not (hybrid or model.delays):
        held = held_switches(model, listed, moving, values, insert=not free)
        model, listed = held.model, [*held.trials]
    longest = max(trial.n_nodes for trial in listed)
    methods, most = methods_of(system, derivatives=True), max(1, MOST_NODES // longest)
    parts, rtol, atol = options
    fixed = [*SCHEMES] if model.delays or parts is not None else []
    parts = 1 if parts is None else parts
    steps = checked_steps(methods, method, parts, rtol, atol, most, fixed)
    _check_unknowns(hybrid, listed, steps, segments, free)
    if late.unknown and steps.adaptive:
        raise ValueError(
            f"the delay of sensor {next(iter(late.unknown))} is unknown, and its samples move "
            f"between steps, which {steps.method} makes as long as its tolerances allow; use fixed "
            "steps, of rk4, or of an implicit method with substeps"
        )
    check_jumps(model, listed, moving)
    for delay in model.delays:
        if delay.tau.is_Symbol:  # expressions of what is unknown may have no bounds
            span_of(delay, moving, values[0])
    checks.threads(threads)  # whether it is a number of them; None stays: each process decides
    if hybrid and threads is not None:
        raise ValueError("threads are for trials of a model; those of a hybrid model take turns")
    begins, start_bounds, plain = initial_values(system, initial, count, every)
    check_steady(system, model, free, start_bounds, listed)
    before = made.before if made else [{}] * count
    starts, follows = with_steady_starts(model, listed, begins, plain, before)
    warn_of_leaps(model, listed, starts, moving)
    if not (asked or free or start_bounds):
        raise ValueError(
            "nothing is unknown; name parameters in unknown={...}, inputs in unknown_inputs, or an "
            "unknown start"
        )
    fine = listed if hybrid else [trial.refined(steps.substeps) for trial in listed]
    unknowns = Unknowns(
        states=model.state_names,
        owned=owned_parameters(list(asked), labels_of(asked), listed, logs_of(asked)),
        initial=tuple(start_bounds),
        inputs=tuple(u for u in model.input_names if u in free),
        segments=tuple(segment_starts(trial.n_nodes, segments) for trial in fine),
        nodes=tuple(trial.n_nodes for trial in fine),
    )
    moved = [x for rule in follows if rule and {*rule.parameters} & {*moving} for x in rule.states]
    free_ones = [*moving] if made else unknowns.parameters
    _check_invariants(model, [*unknowns.initial, *free_ones, *moved])
    if made:
        made.assigned(unknowns.owned, listed).check_used()
    sides = bounds_by_name(model, free, {})
    return ShootingArguments(
        model=model,
        trials=listed,
        fine=fine,
        unknown=asked,
        unknowns=unknowns,
        bounds=unknowns.bounds(named_bounds(model, asked, sides), start_bounds),
        known=values,
        starts=starts,
        signals=signals,
        free=free,
        objective=objective,
        steps=steps,
        segments=segments,
        threads=threads,
        delays=late.unknown,
        gaps=[*late.gaps, *held.notes],
        switches=held.names,
        following=follows,
        assignments=made,
    )


def _check_delays(
    system: Model | Hybrid,
    model: Model,
    trials: Sequence[Experiment],
    segments: int,
    unknown_inputs: Any,
) -> None:
    """Raise `ValueError` for what shooting does not support beside delays."""
    where = f"model {model.name} has delays ({model.delays[0].name})"
    algebraic = ", ".join(map(name_of, algebraic_states(model)))
    for what, there in (
        ("over events of a hybrid model", isinstance(system, Hybrid)),
        ("with several segments, as a delay would reach back into the one before", segments > 1),
        ("beside unknown inputs", bool(unknown_inputs)),
        (f"beside algebraic states, {algebraic}, which have no rate", bool(algebraic)),
    ):
        if there:
            raise ValueError(f"{where}; Shooting has none {what}: use ks.Collocation")
    check_late(model, trials)
    for trial in trials:
        known_history(trial.history, "shooting")


def _check_distributions(unknown: Mapping[str, Unknown]) -> None:
    """Raise `ValueError` for a parameter whose distribution is unknown."""
    for name, given in unknown.items():
        if is_random(given):
            raise ValueError(
                f"the distribution of {name} is unknown, which Shooting does not estimate: give "
                "numbers for its mean and sd, or use ks.Collocation"
            )


def _at_nodes(
    trial: Experiment, free: Mapping[str, Any], late: Mapping[str, sp.Symbol], hybrid: bool
) -> Experiment:
    """The trial with a node at each sample, at which the simulation then is, but those that are
    `late` by an unknown delay."""
    if late and hybrid:
        sensor, delay = next(iter(late.items()))
        raise ValueError(
            f"the delay {delay} of sensor {sensor} is unknown, and states of a hybrid model jump "
            "at events, which its samples would pass; give a value, or use the model without events"
        )
    if trial.timed and free:
        raise ValueError(
            f"{words_of(trial.timed)} is measured at times of its own, which become nodes in "
            f"shooting, and input {words_of(free)} is unknown at each node; use ks.Collocation, or "
            "measure at the nodes"
        )
    return trial.with_nodes_at_samples(but=late)


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
                symbolic, trials = residual_problem(problem, fine)
                nlp = make_nlp(_residuals(symbolic), trials, *shared)
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
        )

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
def _residuals(problem: Problem) -> Built:
    """The library of a problem without measurements whose path conditions are residuals."""
    return realise(without_hessians(transcribe(problem)))


@lru_cache(maxsize=8)
def _late(problem: Problem) -> Built:
    """The library of the residuals of measurements that are between nodes."""
    return realise(residual_program(replace(problem, measurements=problem.timed)))


def warn_of_kinks(system: Model | Hybrid, given: ShootingArguments) -> None:
    """Warn if an equation has a kink, naming it; in a hybrid model, where inputs break and muscles
    know it, if a state may pass it. Those at known times are ends of steps."""
    model, switches = given.model, set(given.switches)
    expressions = {f"equation {i}": e for i, e in enumerate(model.equations)}
    expressions |= {f"intermediate {name_of(s)}": e for s, e in model.intermediates}
    moving = {*model.states, *(s for s, _ in model.intermediates)}
    for where, expression in expressions.items():
        kinks = [kink for kink in kinks_of(expression) if not _is_held(kink, switches)]
        if isinstance(system, Hybrid):
            kinks = [kink for kink in kinks if kink.atoms(AppliedUndef, sp.Symbol) & moving]
        if kinks:
            remedy = "make it an event" if isinstance(system, Hybrid) else "smooth it"
            warnings.warn(
                f"{where} of {model.name} contains {kinks[0]}: where a trajectory passes its kink, "
                f"gradients are one-sided; {remedy} if the optimiser stalls",
                stacklevel=3,
            )
            return


def _is_held(kink: sp.Expr, switches: Collection[str]) -> bool:
    """Whether all cases of a kink are told apart by inputs that are held."""
    conditions = [case.cond for case in kink.args] if isinstance(kink, sp.Piecewise) else [kink]
    return all(
        {name_of(u) for u in c.atoms(AppliedUndef)} <= {*switches} and c.atoms(sp.Symbol) <= {t}
        for c in conditions
    )


def segment_starts(nodes: int, count: int) -> tuple[int, ...]:
    """The nodes at which segments begin."""
    if count >= nodes:
        raise ValueError(f"{count} segments need more than {nodes} nodes")
    return tuple(int(k) for k in np.linspace(0, nodes - 1, count + 1)[:-1])


def _check_invariants(model: Model, unknown: Sequence[str]) -> None:
    """Raise `ValueError` where unknown starts or parameters would leave what is zero along every
    motion of the model: shooting has no conditions."""
    own = {*model.states, *model.parameters}
    bound = {
        name: {name_of(x) for x in all_atoms(model.intermediates, model.outputs[name]) & own}
        for name in model.invariants
    }
    free = [name for name in unknown if any(name in names for names in bound.values())]
    if free:
        which = next(name for name, names in bound.items() if free[0] in names)
        every = set().union(*bound.values())
        may = [name for name in model.state_names if name not in every]
        words = f"the start of {', '.join(may)} may be unknown; " if may else ""
        raise ValueError(
            f"{' and '.join(free[:5])} cannot be unknown: a motion of {model.name} must start with "
            f"{which} = {model.outputs[which]} = 0, and shooting has no conditions at the start; "
            f"{words}give numbers that agree (ks.consistent finds them), or use ks.Collocation, "
            "which has these conditions"
        )


def _check_unknowns(
    hybrid: bool,
    trials: Sequence[Experiment],
    steps: Steps,
    segments: int,
    inputs: Mapping[str, Any],
) -> None:
    """Raise `ValueError` for unknowns or steps that shooting does not support."""
    if steps.substeps > 1 and inputs:
        raise ValueError("unknown inputs need substeps=1; refine the grid of the experiment")
    if hybrid and inputs:
        raise ValueError(
            "samples of inputs of a hybrid model cannot be unknown; give pieces of the input as "
            "expressions of parameters, and make these unknown"
        )
    if hybrid and segments > 1:
        raise ValueError(
            "segments would begin without knowing which contacts press there; shoot over shorter "
            "trials, or use ks.Collocation with ks.Phases"
        )
    for name, given in inputs.items():
        if is_limited(given):
            raise ValueError(
                f"shooting bounds no rates, but input {name} has every, max_rate or is continuous; "
                "use ks.Collocation"
            )
    if any(trial.free_duration for trial in trials):
        raise ValueError("shooting needs a known duration; use ks.Collocation for a free one")
    for number, trial in enumerate(trials):
        for name in trial.bounds:
            raise ValueError(
                f"trial {number} has bounds of {name}, but what is simulated goes where it goes; "
                "use ks.Collocation, or bounds of parameters and of the start"
            )
