"""From what the user gives to a symbolic problem, known values and bounds, all checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from kinesym.runtime.collocation import bound_pair
from kinesym.runtime.experiment import Experiment
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.given import check_kind, shown
from kinesym.symbolic.hybrid import Contact, flags_of
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name, name_of, suggest, t
from kinesym.symbolic.objective import LeastSquares, Objective
from kinesym.symbolic.problem import Problem, measured_expressions
from kinesym.symbolic.schemes import Scheme


def checked_trials(model: Any, trials: Any) -> list[Experiment]:
    """The trials as a list; raises `ValueError` if they or the model are something else."""
    check_kind(model, Model, "kinesym")
    single = isinstance(trials, Experiment) or not isinstance(trials, Iterable)
    rows = [trials] if single else list(trials)
    if not all(isinstance(trial, Experiment) for trial in rows):
        raise ValueError(f"trials must be an Experiment or a list of them, got {shown(trials)}")
    return rows


def symbolic_problem(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Sequence[str],
    unknown_inputs: Sequence[str],
    scheme: Scheme,
    objective: Objective | None,
    path: Sequence[sp.Expr] = (),
    boundary: Sequence[sp.Expr] = (),
    links: Sequence[sp.Expr] = (),
    cycle: Sequence[sp.Expr] = (),
    contacts: Sequence[Contact] = (),
) -> Problem:
    """Check the trials against the model and collect what the transcription needs to know."""
    if not trials:
        raise ValueError("at least one experiment is needed")
    chosen = LeastSquares() if objective is None else objective
    if not isinstance(chosen, Objective):
        raise ValueError(
            f"the objective {shown(chosen)} is not made of Integral, Terminal or LeastSquares; "
            "wrap it in one of them"
        )
    flags = [sp.Function(flag)(t) for contact in contacts for flag in flags_of(contact)]
    used = [chosen.integrand, chosen.terminal, *path, *boundary, *links, *cycle, *flags]
    signals = _signals(model, trials, unknown_inputs, used)
    measured = list(dict.fromkeys(name for trial in trials for name in trial.measurements))
    if len({trial.free_duration for trial in trials}) > 1:
        raise ValueError("either all trials have an unknown duration or none")
    return Problem(
        model=model,
        scheme=scheme,
        objective=chosen,
        unknown_parameters=[p for p in model.parameters if name_of(p) in unknown],
        unknown_inputs=[u for u in model.inputs if name_of(u) in unknown_inputs],
        signals=signals,
        measurements=measured_expressions(model, measured),
        path=path,
        boundary=boundary,
        hold=_holds(model, trials, signals),
        free_duration=trials[0].free_duration,
        links=links,
        cycle=cycle,
        contacts=contacts,
    )


def _signals(
    model: Model,
    trials: Sequence[Experiment],
    unknown_inputs: Sequence[str],
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
                    "the experiment, or make it unknown with unknown_inputs"
                )
        for name in trial.inputs:
            if name not in names:
                also = " because it is unknown" if name in unknown_inputs else ""
                raise ValueError(
                    f"trial {number} has data for input {name}, which is not used{also}; "
                    f"{suggest(name, names)}"
                )
    return [*known, *extra]


def _holds(
    model: Model, trials: Sequence[Experiment], signals: Sequence[AppliedUndef]
) -> frozenset[str]:
    names = {*model.input_names, *map(name_of, signals)}
    for trial in trials:
        for name in trial.hold:
            if name not in names:
                raise ValueError(f"hold of {name}, which is no input; {suggest(name, names)}")
    held = [
        frozenset(name for name, how in trial.hold.items() if how == "zero-order")
        for trial in trials
    ]
    if len(set(held)) > 1:
        raise ValueError("all trials must hold their inputs in the same way")
    return held[0]


def conditions(
    conditions: Sequence[Any], what: str
) -> tuple[list[sp.Expr], list[tuple[float, float]]]:
    """Expressions and their bounds; an equation or inequality of SymPy is taken as such."""
    if not isinstance(conditions, (list, tuple)):
        raise ValueError(f"{what}s must be a list, got {shown(conditions)}")
    expressions, bounds = [], []
    for number, condition in enumerate(conditions):
        name = f"{what} {number}"
        expression, pair = condition, (0.0, 0.0)
        if isinstance(condition, (tuple, list)):
            if len(condition) != 3:
                raise ValueError(f"{name} must be (expression, low, high)")
            expression, pair = condition[0], bound_pair(name, condition[1:])
        elif isinstance(condition, Relational):
            expression, pair = _relation(name, condition)
        hint = "a single one goes into a list, with bounds as (expression, low, high)"
        expression = real_expression(expression, name, hint)
        if not expression.free_symbols:
            raise ValueError(
                f"{name}, {expression}, must be an expression that depends on something, or "
                "(expression, low, high); a single one goes into a list"
            )
        expressions.append(expression)
        bounds.append(pair)
    return expressions, bounds


def _relation(name: str, relation: Relational) -> tuple[sp.Expr, tuple[float, float]]:
    """lhs - rhs with its bounds."""
    if isinstance(relation, sp.Eq):
        pair = (0.0, 0.0)
    elif isinstance(relation, (sp.Le, sp.Lt)):
        pair = (-np.inf, 0.0)
    elif isinstance(relation, (sp.Ge, sp.Gt)):
        pair = (0.0, np.inf)
    else:
        raise ValueError(f"{name}, {relation}, is neither an equation nor an inequality")
    return relation.lhs - relation.rhs, pair


def known_values(
    model: Model, unknown: Mapping[str, Any], known: Mapping[Any, float]
) -> dict[str, float]:
    """Values of the known parameters; raises `ValueError` naming one without value."""
    given = by_name(known, model.parameter_names, "known")
    for name in given:
        if name in unknown:
            raise ValueError(f"parameter {name} is both known and unknown")
    values = {**model.values, **given}
    result: dict[str, float] = {}
    for name in model.parameter_names:
        if name in unknown:
            continue
        if name not in values:
            raise ValueError(
                f"parameter {name} has no value; give known={{{name!r}: ...}} or make it unknown"
            )
        if np.ndim(values[name]) or not np.isfinite(values[name]):
            raise ValueError(f"the value of parameter {name} must be a number, got {values[name]}")
        result[name] = float(values[name])
    check_values(model, result)
    return result


def named_bounds(
    model: Model,
    unknown: Mapping[str, Any],
    unknown_inputs: Mapping[str, Any],
    bounds: Mapping[Any, Any],
) -> dict[str, tuple[float, float]]:
    """(low, high) of parameters, inputs and states by name; infinite where free."""
    allowed = [*model.state_names, *unknown_inputs]
    given = by_name(bounds, allowed, "bounds")
    for name in given:
        if unknown_inputs.get(name) is not None:
            raise ValueError(f"bounds of {name} are given in bounds and in unknown_inputs")
    every = {**unknown, **{k: v for k, v in unknown_inputs.items() if k not in given}, **given}
    pairs = {name: bound_pair(name, bound) for name, bound in every.items()}
    for name in set(model.positive) & set(pairs):
        pairs[name] = (max(pairs[name][0], 0.0), pairs[name][1])
    return pairs


def kinematic_pairs(model: Model) -> dict[str, str]:
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
