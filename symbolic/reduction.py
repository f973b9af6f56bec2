"""Models of lower index: derivatives of constraints in their place, stabilised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import sympy as sp

from kinesym.symbolic.combination import combined
from kinesym.symbolic.declared import Declared
from kinesym.symbolic.derivation import Derivation, Program, exchanged, fresh_name
from kinesym.symbolic.differentiated import Constraint, Differentiated, differentiated
from kinesym.symbolic.expression import atoms_of, parts_of
from kinesym.symbolic.index import Index
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.structure import structure_of

#: Methods of stabilising constraints.
STABILISATIONS = ("baumgarte", "gear-gupta-leimkuhler")

_NO_MULTIPLIERS = (
    "its constraints bind rates that no single equations give, for which there are no multipliers "
    "of Gear, Gupta and Leimkuhler; use the stabilisation baumgarte"
)

#: Rate at which constraints are approached [1/s], by default.
RATE = 10.0


M = TypeVar("M", bound=Declared)


def reduced(model: M, found: Index, stabilisation: str, index: int, rate: float) -> M:
    """A model of lower index, see `Model.reduced_index`; `found` : its index."""
    if found.value is not None and found.value <= index:
        return model
    regular = None if found.value is None else combined(model)
    if regular is None:
        raise ValueError(
            f"model {model.name}: its index cannot be reduced, because {found.reason}"
            + "; combine them by hand so that rates in them cancel" * (found.value is not None)
        )
    new = model = regular
    form = differentiated(model)
    if stabilisation == "gear-gupta-leimkuhler":
        new = _with_multipliers(model, form)
    elif form.constraints:
        new = _with_decay(model, form, rate)
    if index == 0:
        new = _integrated(new)
    return new


def _with_decay(model: M, form: Differentiated, rate: float) -> M:
    """(d/dt + a)^s of each constraint in its place (Baumgarte 1972, Comput. Methods Appl. Mech.
    Eng. 1, 1-16): after a disturbance they decay as t^(s-1) exp(-a t)."""
    a = sp.Symbol(fresh_name("baumgarte_rate", {*model.symbols, *model.outputs}))
    below: dict[int, list[sp.Expr]] = {}
    for row in form.constraints:
        below.setdefault(row.equation, []).append(row.expression)
    equations, labels = list[sp.Expr](), dict[int, str]()
    for number, row in enumerate(form.kept):
        lower = below.get(row.equation, [])
        s = len(lower)
        if row.equation in model.labels and row.order == s:
            labels[number] = model.labels[row.equation]
        terms = [sp.binomial(s, k) * a ** (s - k) * e for k, e in enumerate(lower)]
        equations.append(row.expression + sp.Add(*terms) if row.order == s else row.expression)
    return _assembled(
        model,
        form,
        equations,
        labels=labels,
        parameters=(*model.parameters, a),
        values={**model.values, name_of(a): rate},
    )


def _with_multipliers(model: M, form: Differentiated) -> M:
    """Constraints and their derivatives but the highest, as they are; x' may leave what the
    equations say in the directions of their gradients (Gear, Gupta and Leimkuhler 1985, J. Comput.
    Appl. Math. 12, 77-90)."""
    last = [max(c - 1, 0) for c in structure_of(model).equations]
    highest = {row.equation: row.order for row in form.constraints}
    extra = [row for row in form.constraints if row.order < highest[row.equation]]
    kept = [row for row in form.kept if row.order <= last[row.equation]]
    names = {*model.symbols, *model.outputs}
    wanted = (_name("mu", model, row, f"_{row.order}" * bool(row.order)) for row in extra)
    multipliers = [sp.Function(fresh_name(name, names))(t) for name in wanted]
    if any(e.has(sp.Derivative) for row in extra for e in _whole(form.program, row.expression)):
        raise ValueError(f"model {model.name}: {_NO_MULTIPLIERS}")
    program = form.program
    moved: dict[sp.Basic, sp.Expr] = {}
    for x in model.states:
        along = _along(program, x, names)
        slopes = [along(row.expression) for row in extra]
        program = along.program
        push = sp.Add(*(g * mu for g, mu in zip(slopes, multipliers, strict=True)))
        if push != 0:
            moved[sp.Derivative(x, t)] = sp.Derivative(x, t) - push
    bound = tuple(replace(c, expression=c.expression.xreplace(moved)) for c in form.constraints)
    rows = [*(row.expression.xreplace(moved) for row in kept), *(c.expression for c in bound)]
    outputs = {name: e.xreplace(moved) for name, e in model.outputs.items()}
    limits = {sentence: e.xreplace(moved) for sentence, e in model.limits.items()}
    program = _needed(exchanged(program, moved), [*rows, *outputs.values(), *limits.values()])
    found = parts_of(sp.Derivative, *rows, *(e for _, e in program))
    higher = tuple(a for a in form.higher if a in found)
    if len(rows) != len(model.states) + len(multipliers) + len(higher):
        raise ValueError(f"model {model.name}: {_NO_MULTIPLIERS}")
    return _assembled(
        model,
        replace(form, constraints=bound, program=program, higher=higher),
        rows,
        labels={
            len(kept) + k: model.labels[row.equation] + "_rate" * row.order
            for k, row in enumerate(bound)
            if row.equation in model.labels
        },
        states=(*model.states, *multipliers),
        vanishing=(*model.vanishing, *map(name_of, multipliers)),
        outputs=outputs,
        limits=limits,
    )


def _whole(program: Program, expression: sp.Expr) -> list[sp.Expr]:
    """An expression and what its intermediates stand for."""
    return [expression, *(e for _, e in _needed(program, [expression]))]


def _needed(program: Program, expressions: Sequence[sp.Expr]) -> Program:
    """The intermediates that some expressions use, each after what it uses itself."""
    meaning, found = dict(program), dict[sp.Basic, sp.Expr]()
    stack = sorted(atoms_of(*expressions) & meaning.keys(), key=str)
    while stack:
        e = meaning[stack[-1]]
        missing = sorted((atoms_of(e) & meaning.keys()) - found.keys(), key=str)
        if missing:
            stack.extend(missing)
        else:
            found[stack.pop()] = e
    return tuple(found.items())


def _along(program: Program, x: sp.Basic, names: set[sp.Basic | str]) -> Derivation:
    """Partial derivatives with respect to one state."""

    def name(atom: sp.Basic) -> str:
        return fresh_name(f"{name_of(atom)}_by_{name_of(x)}", names)

    return Derivation(program, lambda atom: sp.S(int(atom == x)), name)


def _assembled(model: M, form: Differentiated, equations: Sequence[sp.Expr], **changes: Any) -> M:
    """The model with these equations; further derivatives become algebraic states, those of inputs
    become inputs; constraints are outputs, too. changes : of other fields."""
    every = [*equations, *(e for _, e in form.program)]
    found = parts_of(sp.Derivative, *every)
    rates = [a for a in found if a.expr in set(model.inputs)]
    rates.sort(key=lambda a: (a.derivative_count, str(a)))
    late = {delay.symbol: delay for delay in model.delays}
    for delay in (late[a.expr] for a in rates if a.expr in late):
        raise ValueError(
            f"model {model.name}: a constraint holds {delay.name}, and its derivative would hold "
            "the delayed rate; write constraints without delays"
        )
    names = {*model.symbols, *model.outputs, *changes.get("parameters", ())}
    table = {a: sp.Function(fresh_name(_of_rate(a), names))(t) for a in (*form.higher, *rates)}
    drift = {
        fresh_name(_name("constraint", model, row, "_rate" * row.order), names): row
        for row in form.constraints
    }
    checked = {name: row.expression.xreplace(table) for name, row in drift.items()}
    new: dict[str, Any] = {
        **changes,
        "states": (*changes.get("states", model.states), *(table[a] for a in form.higher)),
        "inputs": (*model.inputs, *(table[a] for a in rates)),
        "equations": tuple(e.xreplace(table) for e in equations),
        "intermediates": exchanged(form.program, table),
        "outputs": {**changes.get("outputs", model.outputs), **checked},
        "explicit": None,
        "invariants": {name: row.order for name, row in drift.items()},
        "labels": changes.get("labels", {}),
    }
    return replace(model, **new)


def _of_rate(rate: sp.Derivative) -> str:
    return name_of(rate.expr) + "_rate" * int(rate.derivative_count)


def _name(kind: str, model: Declared, row: Constraint, suffix: str) -> str:
    """Name for a symbol of an equation, by the equation's label or its number."""
    return f"{kind}_{model.labels.get(row.equation, row.equation)}{suffix}"


def _integrated(model: M) -> M:
    """The model with integrals of its algebraic states as states, which stay as outputs: with them
    its x' are determined."""
    d = structure_of(model).states
    names = {*model.symbols, *model.outputs}
    algebraic = [x for x, order in zip(model.states, d, strict=True) if order == 0]
    integrals = {x: sp.Function(fresh_name(f"{name_of(x)}_integral", names))(t) for x in algebraic}
    table = {x: sp.Derivative(integral, t) for x, integral in integrals.items()}
    return replace(
        model,
        states=tuple(integrals.get(x, x) for x in model.states),
        equations=tuple(e.xreplace(table) for e in model.equations),
        intermediates=exchanged(model.intermediates, table),
        outputs={
            **{name: e.xreplace(table) for name, e in model.outputs.items()},
            **{name_of(x): rate for x, rate in table.items()},
        },
        limits={sentence: e.xreplace(table) for sentence, e in model.limits.items()},
        integrals={name_of(integral): name_of(x) for x, integral in integrals.items()},
        explicit=None,
    )
