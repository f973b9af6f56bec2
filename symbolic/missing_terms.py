"""Terms that equations of motion may lack: where they can act, a library of them, the model with
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown, suggest
from kinesym.symbolic.derivation import fresh_name, jacobian_at
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t

#: Width of the step of Coulomb friction, as a share of the root mean square of the speed.
_STEP = 0.05


@dataclass(frozen=True)
class Row:
    """An equation in which something may be missing. state : the one whose rate it gives. sign :
    of that rate in the residual. is_speed : whether that state is itself the rate of a state."""

    equation: int
    state: AppliedUndef
    sign: int
    is_speed: bool


@dataclass(frozen=True)
class Term:
    """An expression that is added to the side of the forces of a row, times a parameter."""

    name: str
    row: Row
    expression: sp.Expr

    @property
    def where(self) -> str:
        """The rate or, of an equation with masses, the force to which it is added."""
        return f"{name_of(self.row.state)}'"


def rows_of(model: Model, point: Mapping[sp.Basic, float], speeds: Mapping[str, str]) -> list[Row]:
    """Equations that give rates, but for kinematic ones, whose rates are states and numbers alone;
    all of them if all are kinematic. point : values of all that the model has, at which signs of
    rates are taken. speeds : names of the states whose rates they are, by name."""
    from scipy.optimize import linear_sum_assignment  # here: slow to import

    program = model.intermediates
    slopes = jacobian_at(model.equations, program, model.derivatives, point)
    with np.errstate(invalid="ignore"):
        sizes = np.where(np.isfinite(slopes), np.abs(slopes), 0.0)
    own = zip(*linear_sum_assignment(-sizes), strict=True)
    known = dict[sp.Basic, set[sp.Basic]]()
    for symbol, e in program:
        known[symbol] = _atoms(e, known)
    every = {i: (j, _atoms(model.equations[i], known)) for i, j in own if sizes[i, j] > 0.0}
    given = {*model.parameters, *model.inputs}
    chosen = {i: j for i, (j, atoms) in every.items() if atoms & given} or {
        i: j for i, (j, _) in every.items()
    }
    return [
        Row(i, model.states[j], 1 if slopes[i, j] > 0.0 else -1, model.state_names[j] in speeds)
        for i, j in sorted(chosen.items())
    ]


def force_in(model: Model, row: Row) -> str:
    """Name of the input that is added to a row as an unknown force."""
    return fresh_name(f"force_{name_of(row.state)}", model.symbols)


def with_forces(model: Model, rows: Sequence[Row]) -> Model:
    """The model with an input more in each row, see `force_in`."""
    inputs = [sp.Function(force_in(model, row))(t) for row in rows]
    equations = _added(model, zip(rows, inputs, strict=True))
    return replace(model, equations=equations, inputs=[*model.given, *inputs])


def with_terms(model: Model, terms: Sequence[Term]) -> Model:
    """The model with these terms, each times a parameter of its name whose value is 0."""
    symbols = [sp.Symbol(term.name) for term in terms]
    more = ((term.row, p * term.expression) for term, p in zip(terms, symbols, strict=True))
    return replace(
        model,
        equations=_added(model, more),
        parameters=[*model.parameters, *symbols],
        values={**model.values, **{term.name: 0.0 for term in terms}},
    )


def _added(model: Model, more: Iterable[tuple[Row, sp.Expr]]) -> list[sp.Expr]:
    """The equations with expressions on the side of the forces."""
    equations = list(model.equations)
    for row, e in more:
        equations[row.equation] = equations[row.equation] - row.sign * e
    return equations


def terms_of(
    model: Model, rows: Sequence[Row], library: Sequence[object], size: Mapping[str, float]
) -> list[Term]:
    """Terms of a library, each in every row: names of `KINDS`, or expressions. size : root mean
    squares of states. Raises `ValueError` for names that are none, and what the model lacks."""
    found, seen = list[Term](), set[tuple[int, sp.Expr]]()
    taken: set[sp.Basic | str] = {*model.symbols}
    for row in rows:
        for entry in library:
            for name, e in _entries(model, row, entry, size):
                if (row.equation, e) in seen:
                    continue
                seen.add((row.equation, e))
                name = fresh_name(f"{name}_in_{name_of(row.state)}", taken)
                taken.add(name)
                found.append(Term(name, row, e))
    return found


def _entries(
    model: Model, row: Row, entry: object, size: Mapping[str, float]
) -> Iterator[tuple[str, sp.Expr]]:
    if isinstance(entry, str):
        if entry not in KINDS:
            raise ValueError(
                f"library has no terms {entry!r}; {suggest(entry, KINDS)}; other terms are "
                "expressions of states, inputs and parameters"
            )
        yield from KINDS[entry](model, row, size)
        return
    e = real_expression(entry, "a term of library")
    strange = sorted(map(str, atoms_of(e) - {*model.states, *model.inputs, *model.parameters, t}))
    if strange:
        raise ValueError(f"the term {shown(e)} of library has {strange[0]}, which the model lacks")
    if e == 0:
        raise ValueError("a term of library is zero")
    yield "term", e


def _bias(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    yield "bias", sp.Integer(1)


def _linear(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    for x in model.states:
        yield f"linear_{name_of(x)}", x


def _inputs(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    for u in model.inputs:
        yield f"input_{name_of(u)}", u


def _coulomb(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    for v in _speeds(row):
        yield f"coulomb_{name_of(v)}", sp.tanh(v / sp.Float(_STEP * size[name_of(v)], 4))


def _drag(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    for v in _speeds(row):
        yield f"drag_{name_of(v)}", v * sp.Abs(v)


def _cubic(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    for x in model.states:
        yield f"cubic_{name_of(x)}", x**3


def _products(model: Model, row: Row, size: Mapping[str, float]) -> Iterator[tuple[str, sp.Expr]]:
    for x, y in combinations_with_replacement(model.states, 2):
        yield f"product_{name_of(x)}_{name_of(y)}", x * y


Kind = Callable[[Model, Row, Mapping[str, float]], Iterator[tuple[str, sp.Expr]]]

#: Terms by name: a constant; each state and each input; Coulomb friction and drag, of speeds; the
#: cube of each state; products of two states.
KINDS: Mapping[str, Kind] = {
    "bias": _bias,
    "linear": _linear,
    "inputs": _inputs,
    "coulomb": _coulomb,
    "drag": _drag,
    "cubic": _cubic,
    "products": _products,
}


def _speeds(row: Row) -> list[AppliedUndef]:
    """The state of a row that is a speed."""
    return [row.state] if row.is_speed else []


def _atoms(e: sp.Expr, known: Mapping[sp.Basic, set[sp.Basic]]) -> set[sp.Basic]:
    """Atoms of an expression, those of its intermediates too."""
    found = set[sp.Basic]()
    for atom in atoms_of(e):
        found |= known.get(atom, {atom})
    return found
