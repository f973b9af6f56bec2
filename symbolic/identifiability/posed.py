"""Question what can be known of a model, posed to a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kinesym.symbolic.identifiability.expanded import Unknowns
from kinesym.symbolic.identifiability.null import Asked
from kinesym.symbolic.identifiability.system import Run, system_of
from kinesym.symbolic.names import name_of


@dataclass(frozen=True, eq=False)
class Question:
    """Arguments of `Model.identifiability`, checked: a model, what is measured, and who is unknown,
    by name. runs : of which all this is measured. most : steps of their equations, at most, if not
    0."""

    model: Any
    measured: Mapping[str, sp.Expr]
    unknown: tuple[str, ...]
    unknown_inputs: tuple[str, ...]
    runs: tuple[Run, ...]
    most: int = 0


def names_asked(question: Question) -> list[str]:
    """Names of the parameters in question, those of runs that have their own for each."""
    names = (run.own.get(p, p) for p in question.unknown for run in question.runs)
    return list(dict.fromkeys(names))


def posed(question: Question) -> tuple[Asked, list[sp.Expr]]:
    """The question in places of a system; symbols of what is asked for, then of known parameters;
    starts are states at 0. Raises `TooLong` for more steps than `most`."""
    model, measured = _of_index_0(question)
    system = system_of(model, measured, question.runs, question.most)
    names, unknown = names_asked(question), list[tuple[sp.Expr, int, bool]]()
    integrals, n, several = {*model.integrals, *model.vanishing}, len(model.states), question.runs
    for k, run in enumerate(several):
        for x, place in zip(model.states, system.states[k * n :], strict=False):
            name = name_of(x)
            of_run = sp.Function(f"{name}[{k}]") if len(several) > 1 else x.func
            if run.starts.get(name) is None and name not in integrals:
                unknown.append((of_run(0), place, name not in run.starts))
    constants = [*(system.parameters[p] for p in names), *(place for _, place, _ in unknown)]
    which = [*range(len(names)), *(k for k, row in enumerate(unknown, len(names)) if row[2])]
    free = [j for j, u in enumerate(model.input_names) if u in question.unknown_inputs]
    m = len(model.inputs)
    inputs = [system.inputs[k * m + j] for k in range(len(several)) for j in free]
    known = [p for p in system.parameters if p not in names]
    others = [system.parameters[p] for p in known]
    asked = Asked(system, Unknowns(constants, inputs), which, others, bool(system.starts))
    symbol = {name_of(p): p for p in model.parameters}
    before, after = ([symbol.get(p, sp.Symbol(p)) for p in some] for some in (names, known))
    return asked, [*before, *(x for x, _, asks in unknown if asks), *after]


def _of_index_0(question: Question) -> tuple[Any, list[sp.Expr]]:
    """The model with index 0, and what is measured in its states."""
    model = question.model
    reduced = model if model.index.value == 0 else model.reduced_index(index=0)
    rates = {name_of(x): x for x in model.states if x not in reduced.states}
    table = {x: reduced.outputs[name] for name, x in rates.items()}
    return reduced, [e.xreplace(table) for e in question.measured.values()]
