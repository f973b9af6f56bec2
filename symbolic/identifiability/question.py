"""Question what can be known of a model, checked, and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import listed, mapping, shown
from kinesym.symbolic.declared import check_atoms
from kinesym.symbolic.delayed import DelayedValue, as_it_is, shown_late
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.identifiability.combinations import groups_of, known_of
from kinesym.symbolic.identifiability.degrees import bound
from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.null import Asked, Silent, silent_at, some_points
from kinesym.symbolic.identifiability.points import points_of, varied
from kinesym.symbolic.identifiability.posed import Question, names_asked, posed
from kinesym.symbolic.identifiability.system import Run
from kinesym.symbolic.identifiability.verdict import Identifiability
from kinesym.symbolic.names import by_name, check_known, name_of, names_of, suggest

#: Chance of a false verdict that is accepted.
_CHANCE = 1e-6
#: Points that must agree.
_AGREE = 2
#: Points that are tried at most.
_MOST = 6
#: Names in a title at most.
_SHOWN = 8


def asked_of(
    model: Any, measured: Any, known_inputs: Any, unknown_inputs: Any, starts: Any, unknown: Any
) -> Question:
    """The question of these arguments; raises `ValueError` in words."""
    where = f"identifiability of model {model.name}"
    _check_delays(model, where)
    found = {
        _name(e): measured_expression(model, e, f"{where}: measured")
        for e in listed(measured, f"{where}: measured")
    }
    if not found:
        raise ValueError(f"{where}: nothing is measured; name an output or a state")
    free = names_of(unknown_inputs, f"{where}: unknown_inputs")
    given = None if known_inputs is None else names_of(known_inputs, f"{where}: known_inputs")
    for name in (*free, *(given or ())):
        check_known(name, model.input_names, f"{where}: the model has no input {name}")
    for name in model.given_names if given is not None else ():
        if given is not None and (name in free) == (name in given):
            both = "both in" if name in free else "in neither of"
            raise ValueError(f"{where}: input {name} is {both} known_inputs and unknown_inputs")
    every = [name for name in model.parameter_names if name != HOMOTOPY.name]
    chosen = every if unknown is None else names_of(list(unknown), f"{where}: unknown")
    for name in chosen:
        check_known(name, every, f"{where}: the model has no parameter {name}")
    run = Run(_starts(model, starts, where))
    return Question(model, found, tuple(chosen), tuple(free), (run,))


def _name(e: Any) -> str:
    return e if isinstance(e, str) else name_of(e) if isinstance(e, AppliedUndef) else str(e)


def _check_delays(model: Any, where: str) -> None:
    for delay in model.delays:
        raise ValueError(
            f"{where}: it holds the delay {delay.name}, and power series say nothing of another "
            "time; put an input in its place to ask without the delay"
        )


def measured_expression(model: Any, given: Any, what: str) -> sp.Expr:
    """Expression of a model that is measured."""
    if isinstance(given, str):
        named = {name_of(x): x for x in (*model.states, *model.inputs, *model.parameters)}
        named |= model.outputs
        check_known(given, named, f"{what}: {given} is no output or state of the model")
        given = named[given]
    e = as_it_is(real_expression(given, what))
    if e.has(DelayedValue, shown_late):
        raise ValueError(f"{what}: {shown(given)} is delayed; measure it as it is")
    check_atoms(atoms_of(e), model.symbols, set(model.derivatives), what)
    return e


def _starts(model: Any, given: Any, where: str) -> dict[str, sp.Expr | None]:
    """Known starts by state: an expression of parameters, None without a value."""
    what = f"{where}: starts"
    if isinstance(given, str) and given == "known":
        return dict.fromkeys(model.state_names)
    named = by_name({} if given is None else mapping(given, what), model.state_names, what)
    found: dict[str, sp.Expr | None] = {}
    for name, value in named.items():
        if isinstance(value, str):
            if value != "known":
                raise ValueError(
                    f"{what}: {name} must be a number, an expression of parameters or 'known', got "
                    f"{shown(value)}"
                )
            found[name] = None
            continue
        e = real_expression(value, f"{what}: that of {name}")
        for atom in sorted(atoms_of(e) - set(model.parameters), key=str):
            raise ValueError(
                f"{what}: that of {name} holds {atom}, which is no parameter; "
                f"{suggest(str(atom), model.parameter_names)}"
            )
        found[name] = e
    return found


def answered(question: Question) -> Identifiability:
    """The verdict."""
    return verdict_on(question, *posed(question))


def verdict_on(
    question: Question, asked: Asked, symbols: Sequence[sp.Expr], libraries: int | None = None
) -> Identifiability:
    """The verdict on a question that was posed to a system. libraries : see `known_of`."""
    generator = np.random.default_rng(0)  # equal questions, equal answers
    trials, chance = _trials(question, asked, generator)
    asking = _Asking(asked, Field(trials[0].p), trials[0].order, generator)
    about = (symbols, asking, trials, libraries)
    groups = tuple(known_of(group, *about) for group in groups_of(trials[0]))
    silent = {k for group in groups for k in group.unknowns}
    known = {name_of(x): k not in silent for k, x in enumerate(symbols[: len(asked.which)])}
    names = names_asked(question)
    parameters = {name: known[name] for name in names}
    starts = {name: is_known for name, is_known in known.items() if name not in parameters}
    title = _title(question)
    positive = [
        name_of(x)
        for x in symbols[: len(asked.which)]
        if x.is_positive or name_of(x) in question.model.positive
    ]
    order = trials[0].order
    return Identifiability(
        title, parameters, starts, groups, symbols, positive, chance, order, trials[0], asked
    )


@dataclass(eq=False)
class _Asking:
    """More points modulo a prime; see `combinations.Asking`."""

    asked: Asked
    prime: Field
    order: int
    generator: np.random.Generator
    found: list[Silent] = field(default_factory=list)

    def points(self, count: int) -> list[Silent]:
        """Silent directions at so many points, those from before first."""
        more = count - len(self.found)
        if more > 0:
            some = points_of(self.asked.system, self.prime, more, self.generator)
            self.found += silent_at(self.asked, some, self.order)
        return self.found[:count]

    def varied(self, numbers: Sequence[int]) -> list[Silent]:
        """One point, and others with one of these changed."""
        some = points_of(self.asked.system, self.prime, 1, self.generator)
        places = [self.asked.places[k] for k in numbers]
        several = varied(self.asked.system, some, places, self.generator)
        return silent_at(self.asked, several, self.order)


def _trials(
    question: Question, asked: Asked, generator: np.random.Generator
) -> tuple[list[Silent], float]:
    """Silent directions at random points modulo different primes that agree, and the chance that
    they are not those of almost all points."""
    bound_of = bound(question.model, list(question.measured.values()))
    trials = list[Silent]()
    for _ in range(_MOST):
        order = trials[0].order if trials else None
        trials += silent_at(asked, some_points(asked, 1, generator), order)
        fewest = min(len(one.basis) for one in trials)  # at a special point there are more
        agreeing = [one for one in trials if len(one.basis) == fewest]
        degree = bound_of(len(asked.unknowns.constants), agreeing[0].order)
        chance = min(degree / agreeing[0].p, 1.0) ** len(agreeing)
        if len(agreeing) >= _AGREE + (chance == 1.0) and (chance <= _CHANCE or chance == 1.0):
            break
    return agreeing, chance


def _title(question: Question) -> str:
    known = [u for u in question.model.given_names if u not in question.unknown_inputs]
    parts = [f"measured {_few(question.measured)}"]
    parts += [f"inputs {_few(known)} known"] if known else []
    parts += [f"inputs {_few(question.unknown_inputs)} unknown"] if question.unknown_inputs else []
    starts = question.runs[0].starts
    parts += [f"starts {_few(starts)} known"] if starts else []
    return f"identifiability of {question.model.name}: {', '.join(parts)}"


def _few(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _SHOWN
    return ", ".join([*every[:_SHOWN], *([f"{more} more"] if more > 0 else [])])
