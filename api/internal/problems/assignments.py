"""Parameters that experiments set, to numbers or to expressions of unknowns, for themselves alone.

In an experiment a symbol means its value there: what the experiment sets it to, else the unknown,
else what is known. The symbol of the parameter itself means its value outside of the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import suggest
from kinesym.internal.problems.parameters import Unknown
from kinesym.runtime.nlp.owned import Owned, owned_parameters
from kinesym.runtime.shooting.assigned import Assigned, Assignment
from kinesym.runtime.signals.experiment import TRIAL, Experiment
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.table import NumericFunction

#: What is added to the name of a parameter for its value before a record.
_BEFORE = "_before"


@dataclass(frozen=True, eq=False)
class Assignments:
    """Parameters that trials are simulated with, where they are not the unknown ones.

    unknown : all that differ between points q, as records without priors. rules : by trial, what
    experiments set. numbers : by trial, what follows from no unknown. before : by trial, values
    before the record that differ from those in it: numbers, or names of parameters in `unknown`,
    which are `hidden`.
    """

    unknown: Mapping[str, Unknown]
    rules: Sequence[Mapping[str, Assignment]]
    numbers: Sequence[Mapping[str, float]]
    before: Sequence[Mapping[str, float | str]]

    @property
    def follow(self) -> set[str]:
        """Parameters that have no values that are known for all trials."""
        return {name for rows in (self.rules, self.numbers) for row in rows for name in row}

    @property
    def hidden(self) -> list[str]:
        """Parameters that stand for values before the record."""
        rows = (value for row in self.before for value in row.values())
        return list(dict.fromkeys(value for value in rows if isinstance(value, str)))

    def owned(self, trials: Sequence[Experiment]) -> Owned:
        """The parameters that trials are simulated with."""
        labels = {name: p.label for name, p in self.unknown.items() if p.label}
        return owned_parameters(list(self.unknown), labels, trials)

    def assigned(self, outer: Owned, trials: Sequence[Experiment]) -> Assigned:
        """Parameters that trials are simulated with, as functions of unknown ones."""
        return Assigned.of(outer, self.owned(trials), self.rules)

    def some(self, numbers: Sequence[int]) -> Assignments:
        """Assignments of some of the trials."""
        return replace(
            self,
            rules=[self.rules[k] for k in numbers],
            numbers=[self.numbers[k] for k in numbers],
            before=[self.before[k] for k in numbers],
        )


def settings_of(trial: Experiment) -> list[Mapping[str, Any]]:
    """Settings of a trial, in the record and, if it begins in a steady state, before it."""
    own = trial.set_parameters
    return [own] if trial.before is None else [own, {**own, **trial.before.parameters}]


def set_to_expressions(trials: Any) -> list[str]:
    """Parameters that trials, as they were given, set to expressions."""
    listed = trials if isinstance(trials, Iterable) else [trials]
    return [p for each in listed for p in getattr(each, "parameter_expressions", ())]


def symbols_of(trials: Sequence[Experiment]) -> set[str]:
    """Names of the symbols in expressions that trials set parameters to."""
    every = (e for trial in trials for row in settings_of(trial) for e in row.values())
    return {name_of(s) for e in every for s in getattr(e, "free_symbols", ()) if s != t}


def assignments_of(
    trials: Sequence[Experiment],
    asked: Mapping[str, Unknown],
    known: Mapping[str, float],
    simulated: Sequence[str],
) -> Assignments | None:
    """Assignments of experiments that set parameters which are unknown, or to expressions; None if
    there are none, and all unknowns are parameters of the model. known : values for all trials.
    simulated : names of the parameters that trials are simulated with. Raises `ValueError` for what
    they do not have, and for what is no expression of parameters."""
    symbols = symbols_of(trials)
    for k, trial in enumerate(trials):
        for name in {name: None for row in settings_of(trial) for name in row}:
            if name not in simulated and name not in symbols:
                words = suggest(name, simulated)
                raise ValueError(f"trial {k} sets {name}, which is no parameter; {words}")
    set_ = {p for trial in trials for p in trial.parameter_expressions}
    set_ |= {p for trial in trials for p in trial.parameters if p in asked}
    steady = any(trial.before for trial in trials)
    if not (set_ or steady or any(name not in simulated for name in asked)):
        return None
    values = [
        [_Values(k, row, asked, known) for row in settings_of(trial)]
        for k, trial in enumerate(trials)
    ]
    early = [_before(*row) if len(row) > 1 else {} for row in values]
    late = {name for row in early for name, value in row.items() if value.names}
    every = [p for p in simulated if p in set_ | late]
    rules = [{p: here.of(p) for p in every} for here, *_ in values]
    moved = {*late, *asked, *(p for row in rules for p, value in row.items() if value.names)}
    numbers = [{p: _number(row.pop(p)) for p in every if p not in moved} for row in rules]
    told = [
        {p: f"{p}{_BEFORE}" if p in late else _number(value) for p, value in row.items()}
        for row in early
    ]
    for p in [name for name in simulated if name in late]:
        first = next(row[p] for row in early if p in row)
        for row, own in zip(rules, early, strict=True):
            row[f"{p}{_BEFORE}"] = own.get(p, first)
    names = [p for p in simulated if p in asked or p in moved]
    names += [p for p in rules[0] if p not in names]
    return Assignments({p: _record(p, asked, rules) for p in names}, rules, numbers, told)


def _record(name: str, asked: Mapping[str, Unknown], rules: Sequence[Any]) -> Unknown:
    """Record of a parameter that trials are simulated with: one that follows by the same rule in
    all of them has one value."""
    if name not in rules[0]:
        return asked[name].in_natural_scale
    first = rules[0][name]
    shared = all(row[name] == first for row in rules)
    shared = shared and not any(asked[p].label for p in first.names)
    return Unknown(label="" if shared else TRIAL)


def _number(value: Assignment) -> float:
    """Value of an assignment that follows from numbers."""
    [number] = value.arguments
    return float(number)


def _before(here: _Values, then: _Values) -> dict[str, Assignment]:
    """Values that are set before a record, where they differ from those in it."""
    found = {name: then.of(name) for name in then.settings}
    others = {name for name in found if name not in here.settings and not here.has(name)}
    return {n: value for n, value in found.items() if n in others or value != here.of(n)}


@dataclass(frozen=True)
class _Values:
    """Values of parameters in a trial, of this number, by its `settings`. asked : unknowns. known :
    values for all trials."""

    trial: int
    settings: Mapping[str, Any]
    asked: Mapping[str, Unknown]
    known: Mapping[str, float]

    def has(self, name: str) -> bool:
        """Whether a parameter has a value outside of the trial."""
        return name in self.asked or name in self.known

    def of(self, name: str) -> Assignment:
        """Value of a parameter, as a function of unknowns."""
        numbers: dict[str, float] = {}
        e = self._resolved(name, (), numbers)
        names = sorted(map(name_of, e.free_symbols))
        arguments = tuple(numbers.get(n, n) for n in names)
        if any(isinstance(argument, str) for argument in arguments):
            return Assignment(None if e.is_Symbol else _function(e), arguments)
        with np.errstate(all="ignore"):
            value = complex(_function(e)(*arguments)[0])
        if value.imag or not isfinite(value.real):
            words = f"{value:g}" if value.imag else f"{value.real:g}"
            raise ValueError(f"parameter {name} is {words} in trial {self.trial}")
        return Assignment(None, (value.real,))

    def _resolved(self, name: str, within: tuple[str, ...], numbers: dict[str, float]) -> sp.Expr:
        """A parameter in symbols of unknowns and of numbers, which are added to `numbers`."""
        value = self.settings.get(name)
        if value is None:
            return self._outside(name, numbers)
        if not getattr(value, "free_symbols", None):
            numbers[name] = float(value)
            return sp.Symbol(name)
        what = f"parameter {name} of trial {self.trial}"
        e = real_expression(value, what)
        for part in (*sorted(e.atoms(AppliedUndef), key=str), *(e.free_symbols & {t})):
            raise ValueError(f"{what} is {e}; it must follow from parameters, and {part} is none")
        table = {}
        for symbol in e.free_symbols:
            other = name_of(symbol)
            if other in within:
                raise ValueError(f"{what} depends on {other}, which depends on {name}")
            inner = (*within, name)
            same = other == name
            table[symbol] = (
                self._outside(name, numbers) if same else self._resolved(other, inner, numbers)
            )
        return e.xreplace(table)

    def _outside(self, name: str, numbers: dict[str, float]) -> sp.Expr:
        """Value of a parameter where a trial does not set it."""
        if name not in self.asked:
            if name not in self.known:
                raise ValueError(
                    f"parameter {name} has no value in trial {self.trial}; give "
                    f"known={{{name!r}: ...}}, make it unknown, or set it in the experiment"
                )
            numbers[name] = float(self.known[name])
        return sp.Symbol(name)


@lru_cache(maxsize=4096)
def _function(e: sp.Expr) -> Callable[..., Any]:
    """Value and derivatives of an expression by its symbols, in the order of their names."""
    symbols = sorted(e.free_symbols, key=name_of)
    return NumericFunction(symbols, [e, [e.diff(s) for s in symbols]])


@lru_cache(maxsize=16)
def with_hidden(model: Model, names: tuple[str, ...]) -> Model:
    """Model with parameters that stand for values before the record, cached, so that its
    derivatives are found again."""
    return model.extended(parameters=[sp.Symbol(name) for name in names]) if names else model
