"""Symbolic problem, known values and bounds, from checked arguments."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown
from kinesym.internal.problems.conditions import check_times
from kinesym.internal.problems.controls import Held, Linear, pair_of
from kinesym.internal.problems.parameters import (
    Unknown,
    check_prior,
    densities_of,
    labels_of,
    logs_of,
    terms_of,
)
from kinesym.internal.problems.table_checks import check_known_variables
from kinesym.runtime.nlp.owned import owned_parameters
from kinesym.runtime.signals.corridor import bound_pair, changes
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid import Contact, Hybrid, flags_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, suggest, t
from kinesym.symbolic.objective import (
    LeastSquares,
    Objective,
    at_end,
    at_start,
    magnitude,
    variation,
)
from kinesym.symbolic.problem import NO_RESETS, Problem, Resets, measured_expressions
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES, CollocationScheme, ExplicitScheme

#: Samples of a measurement at times of its own that an interval may hold: each is code.
MOST_SLOTS = 32


def check_system(system: Any, kinds: tuple[type, ...] = (Model, Hybrid), hint: str = "") -> None:
    """Raise `ValueError` for what is not of one of these kinds."""
    if not isinstance(system, kinds):
        names = {Model: "kinesym.Model", Hybrid: "kinesym.hybrid.Hybrid"}
        name = " or ".join(names[kind] for kind in kinds)
        raise ValueError(f"expected a {name}, got {shown(system)}{hint}")


def highest_index(method: str) -> int:
    """The index of differential-algebraic models up to which an implicit method, of time stepping
    or collocation, converges: 2 for Radau IIA (Hairer, Wanner, Solving Ordinary Differential
    Equations II, VII.4), 1 for others."""
    scheme = SCHEMES.get(method)
    return 2 if scheme and scheme.ends_at_stage and not scheme.explicit_start else 1


def check_index(model: Model, most: int, what: str) -> None:
    """Raise `ValueError` for a model of an index higher than `most`, naming the hidden constraint.

    what : "the method midpoint", "the scheme trapezoid", ...: what treats models up to there.
    """
    index = model.index
    if index.value is None:
        raise ValueError(
            f"model {model.name}: the equations do not determine the states: {index.reason}"
        )
    if index.value <= most:
        return
    words = index.reason
    if index.constraints:
        words = f"{index.constraints[0]}, is a hidden constraint"
    elif not words:
        one = len(index.dependent) == 1
        words = f"{', '.join(index.dependent)} follow{'s' * one} from the other states"
    needed = "model.reduced_index()" if most else "model.reduced_index(index=0)"
    radau = "; or take a radau method" if index.value == 2 else ""
    raise ValueError(
        f"model {model.name} has index {index.value}, {what} is for models of index {most}"
        f"{' or less' * bool(most)}: {words}; use {needed}{radau}"
    )


@lru_cache(maxsize=32)
def lowered(model: Model, most: int, index: int) -> Model:
    """The model if a method for models of indices up to `most` treats it, else one of this index
    with the same motion, see `Model.reduced_index`. Multipliers stay unknowns: the equations are as
    sparse as they were, and regular wherever the constraints are independent. At index 2 these and
    their derivatives hold at every node. As it is, too, if rates of inputs would have to be given.

    Raises `ValueError` if the index cannot be reduced."""
    value = model.index.value
    if value is None or value <= most:
        return model
    found = None
    if index == 2:
        with suppress(ValueError):  # there may be no multipliers of Gear, Gupta and Leimkuhler
            found = model.reduced_index("gear-gupta-leimkuhler")
    found = found or model.reduced_index(index=min(index, 1))
    return found if found.inputs == model.inputs else model


def lowered_for_method(system: Any, method: str) -> Any:
    """The system, or if it is a model of an index of 2 or 3 that a method of time stepping does not
    treat, one of index 0 or 1: constraints are then approached, as exactly as the method is."""
    if not isinstance(system, Model) or system.index.value == 1:
        return system
    most = 0 if method in EXPLICIT else highest_index(method)
    return lowered(system, most, min(most, 1))


def check_method(model: Model, method: str) -> bool:
    """`check_index` for a method of time stepping; returns whether that solves for x' beforehand,
    as explicit methods do. At index 1 these say themselves which state has none."""
    needs_rates = method in EXPLICIT
    if not needs_rates or model.index.value not in (None, 1):
        most = 0 if needs_rates else highest_index(method)
        check_index(model, most, f"the method {method}")
    return needs_rates


def keep_trials(question: Any) -> None:
    """Keep trials that come from a generator, as they are looked at more than once."""
    if isinstance(question.trials, Iterator):
        object.__setattr__(question, "trials", list(question.trials))


def checked_trials(system: Any, trials: Any, *kinds: type) -> list[Experiment]:
    """The trials as a list; raises `ValueError` if they are something else, or the system is not of
    one of these kinds, a `Model` by default."""
    kinds = kinds or (Model,)
    turned = isinstance(trials, kinds)
    check_system(system, kinds, "; the model comes first, the trials after it" * turned)
    several = isinstance(trials, Iterable) and not isinstance(trials, str | Mapping)
    listed = list(trials) if several else [trials]
    if not listed or not all(isinstance(trial, Experiment) for trial in listed):
        wrong = next((type(x).__name__ for x in listed if not isinstance(x, Experiment)), "none")
        raise ValueError(
            f"trials must be an Experiment or a list of them, at least one experiment, got {wrong}"
        )
    return listed


def check_signals(trials: Sequence[Experiment]) -> None:
    """Raise `ValueError` for inputs that jump between nodes, which a scheme cannot show."""
    for number, trial in enumerate(trials):
        for name, signal in trial.signals.items():
            signal.check_span(trial.grid, f"input {name} of trial {number}")
            if name in trial.held:
                continue
            signal.warn_of_coarse(trial.grid, f"input {name} of trial {number}", stacklevel=5)
            jumps = signal.jumps(trial.grid[0], trial.grid[-1])
            if len(jumps):
                remedy = (
                    "add that time to the grid"
                    if signal.held
                    else "make it a held signal, with a node at each jump"
                )
                raise ValueError(
                    f"input {name} of trial {number} jumps at t = {jumps[0]:g} s, which a grid of "
                    f"samples cannot show; {remedy}"
                )


def symbolic_problem(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Mapping[str, Unknown],
    unknown_inputs: Mapping[str, Any],
    scheme: CollocationScheme | ExplicitScheme,
    objective: Objective | None,
    contacts: Sequence[Contact] = (),
    delays: Mapping[str, sp.Symbol] | None = None,
    steps: Sequence[tuple[AppliedUndef, sp.Expr]] = (),
    moments: Sequence[tuple[AppliedUndef, sp.Expr, sp.Symbol]] = (),
    resets: Resets = NO_RESETS,
    **asked: Sequence[sp.Expr],
) -> Problem:
    """Check the trials against the model and collect what the transcription needs to know.

    contacts, delays, steps, moments, resets, asked : path, boundary, links and cycle, see
    `kinesym.symbolic.problem.Problem`.
    """
    check_signals(trials)
    if asked.get("links") and len(trials) == 1:
        raise ValueError(
            "links join each trial to the next one, but there is only one; there use "
            "boundary=[at_start(x) - at_end(x)], or cycle=[...]"
        )
    chosen = chosen_objective(objective)
    for what, cost in (("integrand", chosen.integrand), ("terminal cost", chosen.terminal)):
        check_times(cost, what)
    flags = [sp.Function(flag)(t) for c in contacts for flag in flags_of(c).values()]
    used = [e for each in asked.values() for e in each]
    used += [chosen.integrand, chosen.terminal, *flags, *(e for _, e, _ in moments)]
    owners = labels_of(unknown)
    _check_links(model, asked, contacts, [*owners, *trials[0].parameters])
    owned_parameters(list(unknown), owners, trials)  # says where a label is missing
    signals = _signals(model, trials, unknown_inputs, used)
    measured = list(dict.fromkeys(name for trial in trials for name in trial.measured))
    if len({trial.free_duration for trial in trials}) > 1:
        raise ValueError("either all trials have an unknown duration or none")
    problem = Problem(
        model=model,
        scheme=scheme,
        objective=chosen,
        unknown_parameters=[p for p in model.parameters if name_of(p) in unknown],
        unknown_inputs=[u for u in model.inputs if name_of(u) in unknown_inputs],
        signals=signals,
        measurements=measured_expressions(model, measured),
        spreads=_spreads(model, trials, chosen),
        sides=_sides(trials, chosen),
        held=_held(trials, unknown_inputs),
        linear=_linear(scheme, unknown_inputs, measured),
        free_duration=trials[0].free_duration,
        contacts=contacts,
        owners=owners,
        log_scale=frozenset(logs_of(unknown)),
        priors=terms_of(densities_of(unknown)),
        slots=_slots(trials, delays or {}),
        delays=delays or {},
        steps=steps,
        moments=moments,
        resets=resets,
        **asked,
    )
    for number, trial in enumerate(trials if problem.tables.functions else ()):
        if not trial.free_duration:
            where = f" of trial {number}"
            check_known_variables(problem.tables, trial.signals, trial.grid, where)
    return problem


def _spreads(
    model: Model, trials: Sequence[Experiment], objective: Objective
) -> dict[str, sp.Expr]:
    """Standard deviations that are expressions, of which the model has outputs, by measurement;
    none if the objective has no measurements. Raises `ValueError` beside a loss that is no
    likelihood."""
    names = {name: output for trial in trials for name, output in trial.std_outputs.items()}
    if names and objective.loss is not None and not objective.loss.likelihood:
        raise ValueError(
            f"std of {next(iter(names))} is an expression, and the loss {objective.loss.name} is "
            "no density, so that nothing tells it; take loss='student', or give std as a number"
        )
    return {n: model.outputs[output] for n, output in names.items() if objective.least_squares}


def _sides(trials: Sequence[Experiment], objective: Objective) -> dict[str, int]:
    """Sides of censored measurements; raises `ValueError` beside a loss."""
    found = {name: side for trial in trials for name, (_, side) in trial.limits.items()}
    if found and objective.loss is not None:
        raise ValueError(
            f"{next(iter(found))} are censored samples, for which the noise is normal, and the "
            f"objective has the loss {objective.loss.name}; leave one of them out"
        )
    return found


def _slots(trials: Sequence[Experiment], delays: Mapping[str, Any]) -> dict[str, int]:
    """Largest number of samples in an interval, for each measurement at times of its own; with
    unknown delays, wherever these place them."""
    found: dict[str, int] = {}
    for name in dict.fromkeys(name for trial in trials for name in trial.timed):
        for number, trial in enumerate(trials):
            own = trial.timed_samples(name)
            if own is None:
                continue
            counts = np.bincount(own.places(trial.grid)[0], minlength=1)
            k, most = int(np.argmax(counts)), int(counts.max())
            if name in delays:
                steps = np.diff(trial.grid)
                k, most = int(np.argmax(steps)), own.most_within(float(steps.max()))
            if most > MOST_SLOTS:
                raise ValueError(
                    f"measurement {name} of trial {number} has {most} samples between the "
                    f"nodes at {trial.grid[k]:g} and {trial.grid[k + 1]:g}, more than "
                    f"{MOST_SLOTS}; give a finer grid, or means of neighbouring samples"
                )
            found[name] = max(found.get(name, 1), most)
    return found


def _check_links(
    model: Model,
    asked: Mapping[str, Sequence[sp.Expr]],
    contacts: Sequence[Contact],
    own: Sequence[str],
) -> None:
    """Raise `ValueError` for links with parameters that differ between trials."""
    if contacts and own:
        raise ValueError(
            f"parameter {own[0]} has a value per owner, but the phases of a hybrid model share all "
            "parameters: impacts join them; give one value"
        )
    links = [*asked.get("links", ()), *asked.get("cycle", ())]
    for symbol in sorted(atoms_of(*model.through(links)), key=str):
        if isinstance(symbol, sp.Symbol) and name_of(symbol) in own:
            raise ValueError(
                f"a link or cycle condition depends on parameter {symbol}, which has a value of "
                "its own on each side; write it with parameters that the trials share"
            )


def chosen_objective(objective: Any) -> Objective:
    """The objective, `LeastSquares` for None; raises `ValueError` for anything else."""
    chosen = LeastSquares() if objective is None else objective
    if not isinstance(chosen, Objective):
        raise ValueError(
            f"the objective {shown(chosen)} is not made of Integral, Terminal or LeastSquares; "
            "wrap it in one of them"
        )
    if chosen.integrand.atoms(magnitude, variation):
        raise ValueError("ks.l1 and ks.total_variation need unknown inputs; use ks.Collocation")
    return chosen


def _signals(
    model: Model,
    trials: Sequence[Experiment],
    unknown_inputs: Mapping[str, Any],
    conditions: Iterable[sp.Expr],
) -> list[AppliedUndef]:
    """Known trajectories: known inputs, and functions of time in objective and conditions only."""
    known = [u for u in model.inputs if name_of(u) not in unknown_inputs]
    declared = {*model.states, *model.inputs}
    found = set().union(*(c.atoms(AppliedUndef) for c in conditions))
    extra = sorted(found - declared, key=name_of)
    names = [name_of(s) for s in (*known, *extra)]
    for number, trial in enumerate(trials):
        for name in names:
            if name not in trial.inputs:
                raise ValueError(
                    f"input {name} has no data in trial {number}; give inputs={{{name}: ...}} in "
                    f"the experiment, or make it unknown with unknown_inputs"
                    f"{_only_outputs(model, name)}"
                )
        for name in trial.inputs:
            if name not in names:
                also = " because it is unknown" if name in unknown_inputs else ""
                raise ValueError(
                    f"trial {number} has data for input {name}, which is not used{also}; "
                    f"{suggest(name, names)}"
                )
    return [*known, *extra]


def _only_outputs(model: Model, name: str) -> str:
    """Part of a sentence: outputs that need an input which no equation needs."""
    needing: set[sp.Basic] = {u for u in model.inputs if name_of(u) == name}
    for symbol, expression in model.intermediates:
        if expression.atoms(sp.Symbol, AppliedUndef) & needing:
            needing.add(symbol)
    if any(e.atoms(sp.Symbol, AppliedUndef) & needing for e in model.equations):
        return ""
    outputs = [k for k, e in model.outputs.items() if e.atoms(sp.Symbol, AppliedUndef) & needing]
    more = ", ..." if len(outputs) > 4 else ""
    return f"; only outputs need it: {', '.join(outputs[:4])}{more}" if outputs else ""


def _held(trials: Sequence[Experiment], unknown_inputs: Mapping[str, Any]) -> frozenset[str]:
    """Inputs that are constant between nodes, in all trials."""
    for number, trial in enumerate(trials):
        for name in sorted(trials[0].held ^ trial.held):
            ways = ["held" if name in some.held else "linear" for some in (trials[0], trial)]
            raise ValueError(
                f"all trials must have the same between the samples of an input: {name} is "
                f"{ways[0]} in trial 0 and {ways[1]} in trial {number}; give held signals in all"
            )
    free = {name for name, bounds in unknown_inputs.items() if isinstance(bounds, Held)}
    return trials[0].held | free


def _linear(
    scheme: CollocationScheme | ExplicitScheme,
    unknown_inputs: Mapping[str, Any],
    measured: Sequence[str],
) -> frozenset[str]:
    """Unknown inputs that are linear between nodes."""
    if not isinstance(scheme, CollocationScheme):
        return frozenset(n for n, bounds in unknown_inputs.items() if not isinstance(bounds, Held))
    asked = {name for name, bounds in unknown_inputs.items() if isinstance(bounds, Linear)}
    for name in sorted(asked.difference(measured)):
        if scheme.order <= 2:
            raise ValueError(
                f"nothing determines an alternating part of input {name} if it is linear between "
                f"nodes and the scheme is {scheme.title}; use ks.held, or a scheme of higher order"
            )
    free = {name for name, bounds in unknown_inputs.items() if not isinstance(bounds, Held)}
    return frozenset(asked | free.intersection(measured))


def bounds_by_name(
    model: Model, unknown_inputs: Mapping[str, Any], bounds: Mapping[Any, Any]
) -> dict[str, Any]:
    """Bounds of states and unknown inputs as given. Raises `ValueError` for those given twice."""
    given = by_name(bounds, [*model.state_names, *unknown_inputs], "bounds")
    own = {name: pair_of(asked) for name, asked in unknown_inputs.items()}
    for name in given:
        if own.get(name) is not None:
            raise ValueError(f"bounds of {name} are given in bounds and in unknown_inputs")
    return {**own, **given}


def bounded(
    model: Model,
    trials: Sequence[Experiment],
    unknown_inputs: Mapping[str, Any],
    given: Mapping[str, Any],
) -> list[Experiment]:
    """The trials with those bounds that change over time, beside their own. Raises `ValueError`
    where these are not of states or unknown inputs."""
    moving = {name: bound for name, bound in given.items() if changes(bound)}
    for k, trial in enumerate(trials):
        by_name(trial.bounds, [*model.state_names, *unknown_inputs], f"bounds of trial {k}")
    return [trial.bounded(moving) if moving else trial for trial in trials]


def named_bounds(
    model: Model, unknown: Mapping[str, Unknown], given: Mapping[str, Any]
) -> dict[str, tuple[float, float]]:
    """(low, high) of parameters, and of inputs and states as `given`, by name; infinite where
    free."""
    pairs = {name: (p.low, p.high) for name, p in unknown.items()}
    pairs |= {name: bound_pair(name, bound) for name, bound in given.items()}
    for name in (name for name in model.positive if name in pairs):
        low, high = pairs[name]
        if high <= 0.0:
            raise ValueError(f"bounds of {name} are ({low:g}, {high:g}), but it must be positive")
        pairs[name] = (max(low, 0.0), high)
    for name, p in unknown.items():
        check_prior(name, p, pairs[name])
    return pairs


@lru_cache(maxsize=32)
def kinematic_pairs(model: Model) -> Mapping[str, str]:
    """{omega: theta} for every equation theta' - omega = 0."""
    pairs: dict[str, str] = {}
    states = {rate: x for x, rate in zip(model.states, model.derivatives, strict=True)}
    for equation in model.equations:
        for sign in (1, -1):
            terms = [sign * term for term in sp.Add.make_args(equation)]
            rates = [term for term in terms if term in states]
            others = [-term for term in terms if -term in model.states]
            if len(terms) == 2 and len(rates) == len(others) == 1:
                pairs[name_of(others[0])] = name_of(states[rates[0]])
    return pairs


def warn_of_rates_at_ends(model: Model, conditions: Sequence[sp.Expr]) -> None:
    """Warn of a condition that ties a state at one end to its own rate at the other, as
    `ks.periodic(theta, omega)` does where two conditions are meant."""
    pairs = kinematic_pairs(model)
    for condition in conditions:
        ends = condition.atoms(at_start, at_end)
        names = {type(end): name_of(end.args[0]) for end in ends if end.args[0] in model.states}
        if len(ends) == len(names) == len(sp.Add.make_args(condition)) == 2:
            first, last = names[at_start], names[at_end]
            if first == pairs.get(last) or last == pairs.get(first):
                warnings.warn(
                    f"the condition {condition} ties {first} at the start to {last} at the end, a "
                    f"state to its rate; if both are to be periodic: ks.periodic({first}), "
                    f"ks.periodic({last})",
                    stacklevel=3,
                )


#: Parts of names that only angles have.
_ANGLES = re.compile(r"(^|_)(theta|phi|psi|angle|angles|roll|pitch|yaw|heading|flexion)(_|\d|$)")


def warn_of_degrees(model: Model, trials: Sequence[Experiment]) -> None:
    """Warn once if a measured angle swings over more than two turns to and fro, as degrees do.

    Angles are states in a sine, cosine or tangent, and those with a rate as a state and a name of
    angles. A rotation that goes on, or comes back once, may have any size.
    """
    for number, trial in enumerate(trials):
        for x in model.states:
            y = trial.measured.get(name_of(x))
            if y is not None and _swings_widely(y[~np.isnan(y)]) and is_angle(model, x):
                warnings.warn(
                    f"trial {number} measures {name_of(x)} from {np.nanmin(y):.4g} to "
                    f"{np.nanmax(y):.4g}, to and fro, which looks like degrees; angles are in "
                    "radians: np.deg2rad",
                    stacklevel=3,
                )
                return


def _swings_widely(y: NDArray[np.float64]) -> bool:
    """Whether samples go over more than two turns, and not farther than degrees do, and go back at
    least twice by half a turn: as degrees do, whatever part of a record they are of."""
    low, high = float(y.min()), float(y.max())
    if high - low < 4.0 * np.pi or max(-low, high) > 1000.0:
        return False
    backs, way, last = 0, 0, float(y[0])  # the farthest sample of the way that it goes
    for value in y.tolist():
        if way == 0 and abs(value - last) >= np.pi:
            way, last = (1 if value > last else -1), value
        elif way * (value - last) > 0.0:
            last = value
        elif way * (last - value) >= np.pi:
            backs, way, last = backs + 1, -way, value
    return backs >= 2


def is_angle(model: Model, x: AppliedUndef) -> bool:
    """Whether a state is in a sine, cosine or tangent, or has a rate as a state and a name of
    angles."""
    if name_of(x) in kinematic_pairs(model).values() and _ANGLES.search(name_of(x)):
        return True
    expressions = (*model.equations, *(e for _, e in model.intermediates))
    return any(f.has(x) for e in expressions for f in e.atoms(sp.sin, sp.cos, sp.tan))
