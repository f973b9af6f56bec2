"""Models of lower index: derivatives of constraints in their place, stabilised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from kinesym.symbolic.derivation import Derivation, Program, exchanged, fresh_name
from kinesym.symbolic.index import (
    Constraint,
    Matrix,
    Structure,
    index_of,
    random_jacobian,
    rank,
    structure_of,
    time_derivation,
)
from kinesym.symbolic.names import name_of, t

if TYPE_CHECKING:
    from kinesym.symbolic.model import Model

#: How constraints are kept.
STABILISATIONS = ("baumgarte", "gear-gupta-leimkuhler")

#: Rate at which constraints are approached [1/s], by default.
RATE = 10.0


@dataclass(frozen=True)
class Differentiated:
    """A model and the derivatives of its equations that it takes to determine all derivatives.

    kept : as many equations as there are unknowns: x', algebraic states, and what is in `higher`.
    constraints : the others, which bind the differential states. program : intermediates of both.
    higher : further derivatives of states. solved : x' that follow from single equations, without
    other derivatives; these are never differentiated.
    """

    kept: tuple[Constraint, ...]
    constraints: tuple[Constraint, ...]
    program: Program
    higher: tuple[sp.Derivative, ...]
    solved: Mapping[sp.Basic, sp.Expr]
    dependent: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def differentiated(model: Model) -> Differentiated:
    """The equations of a model of regular structure with the derivatives that are needed."""
    structure = structure_of(model)
    c = structure.equations
    solved = _solved(model, structure)
    shift = _shifts(structure, {i for i, _ in solved.values()})
    known = {model.derivatives[j]: rate for j, (_, rate) in solved.items()}
    d_dt = time_derivation(model, known)
    kept: list[Constraint] = []
    constraints: list[Constraint] = []
    single = {i for i, _ in solved.values()}
    for i, e in enumerate(model.equations):
        for k in range(1 + (0 if i in single else c[i])):
            e = d_dt(e) if k else e
            (kept if k >= shift[i] else constraints).append(Constraint(i, k, e))
    every = [*(row.expression for row in (*kept, *constraints)), *(e for _, e in d_dt.program)]
    found = set().union(*(e.atoms(sp.Derivative) for e in every))
    states = set(model.states)
    higher = [a for a in found if a.derivative_count > 1 and a.expr in states]
    form = Differentiated(
        tuple(kept),
        tuple(constraints),
        tuple(d_dt.program),
        tuple(sorted(higher, key=lambda a: (a.derivative_count, str(a)))),
        known,
    )
    return replace(form, dependent=_dependent(model, structure, form)) if constraints else form


def _solved(model: Model, structure: Structure) -> dict[int, tuple[int, sp.Expr]]:
    """States whose x' is needed in derivatives and stands in an equation of its own, with constant
    factor: the equation, and x'."""
    found: dict[int, tuple[int, sp.Expr]] = {}
    for i, row in enumerate(structure.orders):
        rates = [j for j, order in row.items() if order == 1]
        if len(rates) != 1 or rates[0] in found or not structure.equations[i]:
            continue
        j = rates[0]
        rate = sp.Dummy("rate")
        e = model.equations[i].xreplace({model.derivatives[j]: rate})
        factor = e.diff(rate)
        constant = factor.free_symbols <= set(model.parameters) and not factor.is_zero
        if constant and structure.states[j] == structure.equations[i] + 1:
            found[j] = i, -e.xreplace({rate: sp.S.Zero}) / factor
    return found


def _shifts(structure: Structure, single: set[int]) -> list[int]:
    """By equation, how many of its derivatives, from the lowest, only bind differential states.

    On each level, rows are taken while they are independent, differential equations first: these
    determine the derivatives there, and what is left is a constraint.
    """
    c, d, n = structure.equations, structure.states, len(structure.states)
    matrix = _numbers(structure)
    order = sorted(
        range(n), key=lambda i: (i not in single, 1 not in structure.orders[i].values(), i)
    )
    shift = [0] * n
    for level in range(1, max(c, default=0) + 1):
        columns = [j for j in range(n) if d[j] > level]
        rows = [i for i in order if c[i] >= level]
        basis = independent(matrix[np.ix_(rows, columns)])
        for place, i in enumerate(rows):
            shift[i] += place not in basis
    return shift


def _numbers(structure: Structure) -> Matrix:
    """The Jacobian of what is highest; random numbers where it could not be evaluated."""
    if structure.jacobian is not None:
        return structure.jacobian
    c, d = structure.equations, structure.states
    numbers = np.random.default_rng(21).uniform(0.5, 1.5, (len(c), len(c)))
    return np.array(
        [
            [
                numbers[i, j] if row.get(j, -9) + c[i] == d[j] else 0.0
                for j in range(len(structure.states))
            ]
            for i, row in enumerate(structure.orders)
        ]
    )


def independent(matrix: Matrix) -> list[int]:
    """The first rows of a matrix that are linearly independent."""
    basis: list[int] = []
    for i in range(len(matrix)):
        if rank(matrix[[*basis, i]]) > len(basis):
            basis.append(i)
    return basis


def unknowns(model: Model, form: Differentiated) -> list[sp.Basic]:
    """What the kept equations determine: x' and higher derivatives, and algebraic states."""
    moving = structure_of(model).states
    pairs = list(zip(model.states, moving, strict=True))
    return [
        *(sp.Derivative(x, t) for x, d in pairs if d),
        *form.higher,
        *(x for x, d in pairs if not d),
    ]


def _dependent(model: Model, structure: Structure, form: Differentiated) -> tuple[str, ...]:
    """Differential states that the constraints determine, one for each: of those that its
    derivatives bring in, if any."""
    inner = unknowns(model, form)
    outer = [x for x in model.states if x not in inner]
    rows = [row.expression for row in (*form.kept, *form.constraints)]
    slopes = random_jacobian(rows, form.program, [*inner, *outer])
    if slopes is None:
        return ()
    n = len(inner)
    eliminated = np.linalg.solve(slopes[:n, :n], slopes[:n, n:])
    bound = slopes[n:, n:] - slopes[n:, :n] @ eliminated
    bound[np.abs(bound) < 1e-9 * np.abs(bound).max()] = 0.0
    order = [row.order for row in form.constraints]
    first = [min((k for k, b in zip(order, col, strict=True) if b), default=-1) for col in bound.T]
    columns = sorted((j for j in range(len(outer)) if first[j] >= 0), key=lambda j: (-first[j], j))
    return tuple(name_of(outer[columns[k]]) for k in independent(bound[:, columns].T))


# -- models --------------------------------------------------------------------------------------


def reduced(model: Model, stabilisation: str, index: int, rate: float) -> Model:
    """See `Model.reduced_index`."""
    found = model.index
    if found.value is not None and found.value <= index:
        return model
    if found.value is None or found.reason:
        raise ValueError(
            f"model {model.name}: its index cannot be reduced, because {found.reason}; "
            "combine them by hand so that the derivatives in them cancel"
        )
    form = differentiated(model)
    new = model
    if stabilisation == "gear-gupta-leimkuhler":
        new = _with_multipliers(model, form)
    elif form.constraints:
        new = _with_decay(model, form, rate)
    if index == 0:
        new = _integrated(new)
    value = index_of(new).value
    if value is None or value > index:
        raise ValueError(
            f"model {model.name}: the index is {found.value}, and with the stabilisation "
            f"{stabilisation} still {value}, not {index}"
        )
    return new


def _with_decay(model: Model, form: Differentiated, rate: float) -> Model:
    """(d/dt + a)^s of each constraint in its place (Baumgarte 1972, Comput. Methods Appl. Mech.
    Eng. 1, 1-16): after a disturbance they decay as t^(s-1) exp(-a t)."""
    a = sp.Symbol(fresh_name("baumgarte_rate", {*model.symbols, *model.outputs}))
    below: dict[int, list[sp.Expr]] = {}
    for row in form.constraints:
        below.setdefault(row.equation, []).append(row.expression)
    equations = []
    for row in form.kept:
        lower = below.get(row.equation, [])
        s = len(lower)
        terms = [sp.binomial(s, k) * a ** (s - k) * e for k, e in enumerate(lower)]
        equations.append(row.expression + sp.Add(*terms) if row.order == s else row.expression)
    return _assembled(
        model,
        form,
        equations,
        parameters=(*model.parameters, a),
        values={**model.values, name_of(a): rate},
    )


def _with_multipliers(model: Model, form: Differentiated) -> Model:
    """Constraints and their derivatives but the highest, as they are; x' may leave what the
    equations say in the directions of their gradients (Gear, Gupta and Leimkuhler 1985, J. Comput.
    Appl. Math. 12, 77-90)."""
    last = [max(c - 1, 0) for c in structure_of(model).equations]
    highest = {row.equation: row.order for row in form.constraints}
    extra = [row for row in form.constraints if row.order < highest[row.equation]]
    kept = [row for row in form.kept if row.order <= last[row.equation]]
    names = {*model.symbols, *model.outputs}
    multipliers = [
        sp.Function(fresh_name(f"mu_{row.equation}" + f"_{row.order}" * bool(row.order), names))(t)
        for row in extra
    ]
    program = form.program
    moved: dict[sp.Basic, sp.Expr] = {}
    for x in model.states:
        along = _along(program, x, names)
        slopes = [along(row.expression) for row in extra]
        program = along.program
        push = sp.Add(*(g * mu for g, mu in zip(slopes, multipliers, strict=True)))
        if push != 0:
            moved[sp.Derivative(x, t)] = sp.Derivative(x, t) - push
    rows = [row.expression.xreplace(moved) for row in (*kept, *form.constraints)]
    program = exchanged(program, moved)
    higher = {a for e in (*rows, *(e for _, e in program)) for a in e.atoms(sp.Derivative)}
    return _assembled(
        model,
        replace(form, program=program, higher=tuple(a for a in form.higher if a in higher)),
        rows,
        states=(*model.states, *multipliers),
        outputs={name: e.xreplace(moved) for name, e in model.outputs.items()},
        limits={sentence: e.xreplace(moved) for sentence, e in model.limits.items()},
    )


def _along(program: Program, x: sp.Basic, names: set[sp.Basic | str]) -> Derivation:
    """Partial derivatives with respect to one state."""

    def name(atom: sp.Basic) -> str:
        return fresh_name(f"{name_of(atom)}_by_{name_of(x)}", names)

    return Derivation(program, lambda atom: sp.S(int(atom == x)), name)


def _assembled(
    model: Model, form: Differentiated, equations: Sequence[sp.Expr], **changes: Any
) -> Model:
    """The model with these equations; further derivatives become algebraic states, those of inputs
    become inputs; constraints are outputs, too. changes : of other fields."""
    every = [*equations, *(e for _, e in form.program)]
    found = set().union(*(e.atoms(sp.Derivative) for e in every))
    rates = [a for a in found if a.expr in set(model.inputs)]
    rates.sort(key=lambda a: (a.derivative_count, str(a)))
    names = {*model.symbols, *model.outputs, *changes.get("parameters", ())}
    table = {a: sp.Function(fresh_name(_of_rate(a), names))(t) for a in (*form.higher, *rates)}
    drift = {
        fresh_name(_of_constraint(row), names): row.expression.xreplace(table)
        for row in form.constraints
    }
    new: dict[str, Any] = {
        **changes,
        "states": (*changes.get("states", model.states), *(table[a] for a in form.higher)),
        "inputs": (*model.inputs, *(table[a] for a in rates)),
        "equations": tuple(e.xreplace(table) for e in equations),
        "intermediates": exchanged(form.program, table),
        "outputs": {**changes.get("outputs", model.outputs), **drift},
        "explicit": None,
    }
    return replace(model, **new)


def _of_rate(rate: sp.Derivative) -> str:
    return name_of(rate.expr) + "_rate" * int(rate.derivative_count)


def _of_constraint(row: Constraint) -> str:
    return f"constraint_{row.equation}" + "_rate" * row.order


def _integrated(model: Model) -> Model:
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
        explicit=None,
    )
