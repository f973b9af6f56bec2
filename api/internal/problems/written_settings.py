"""Expressions that all experiments set a parameter to, written into the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import sympy as sp

from kinesym.base.checks import suggest
from kinesym.internal.problems.homotopy import expressions_in
from kinesym.internal.problems.sensors import check_symbols
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t


def with_settings(system: Any, trials: Any, *conditions: Any) -> tuple[Any, Any]:
    """A model with the expressions that trials set parameters to in place of these, and the trials
    without them; anything else as it is. conditions : objective, and conditions on the motion.

    Raises `ValueError` for expressions that differ between trials, that depend on the parameter
    itself, or on what the model does not have, and for conditions with such a parameter.
    """
    listed = [trials] if isinstance(trials, Experiment) else trials
    if not isinstance(system, Model) or not isinstance(listed, Iterable):
        return system, trials
    given = [trial for trial in listed if isinstance(trial, Experiment)]
    rules = {p: e for trial in given for p, e in trial.parameter_expressions.items()}
    if not rules:
        return system, trials
    own = {name_of(p): p for p in system.parameters}
    for p, e in rules.items():
        if p not in own:
            raise ValueError(f"a trial sets {p}, which is no parameter; {suggest(p, own)}")
        for k, trial in enumerate(given):
            if trial.parameter_expressions.get(p) != e:
                raise ValueError(
                    f"parameter {p} is {e} in a trial, and not in trial {k}; for collocation give "
                    "all trials the same expression, with parameters that have other values in "
                    "Experiment(parameters=...), or use ks.Shooting"
                )
    for e in expressions_in(conditions):
        for p in sorted(map(name_of, atoms_of(e) & {own[p] for p in rules})):
            raise ValueError(f"{e} contains {p}, which trials set to {rules[p]}; write it out")
    table = _resolved({own[p]: real_expression(e, f"parameter {p}") for p, e in rules.items()})
    for p, e in table.items():
        check_symbols(system, f"parameter {p}", e)
    made = _written(system, tuple(table.items()))
    return made, [trial.without_expressions() for trial in given]


def _resolved(table: dict[sp.Symbol, sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
    """Expressions of one another, without one another."""
    found = dict(table)
    for _ in table:
        found = {p: e.xreplace(table) for p, e in found.items()}
    for p, e in found.items():
        for other in sorted(e.free_symbols & table.keys(), key=name_of):
            raise ValueError(
                f"trials set {p} to {table[p]}, which depends on {other}, which they set, too; for "
                "collocation give what it follows from another name"
            )
    return found


@lru_cache(maxsize=16)
def _written(model: Model, rules: tuple[tuple[sp.Symbol, sp.Expr], ...]) -> Model:
    """The model, cached, so that its derivatives are found again."""
    table = dict(rules)
    atoms = atoms_of(*table.values()) - model.symbols - {t}
    more: Sequence[Any] = sorted((a for a in atoms if isinstance(a, sp.Symbol)), key=name_of)
    gone = {name_of(p) for p in table}
    return model.substitute(
        table,
        parameters=[*(p for p in model.parameters if p not in table), *more],
        values={name: v for name, v in model.values.items() if name not in gone},
        units={name: unit for name, unit in model.units.items() if name not in gone},
    )
