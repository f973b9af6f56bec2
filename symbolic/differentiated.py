"""The equations of a model with the derivatives that determine all its rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

from kinesym.symbolic.declared import Declared
from kinesym.symbolic.derivation import Derivation, Program, fresh_name
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.structure import Matrix, Structure, random_jacobian, rank, structure_of

_ORDINALS = ("", "first ", "second ", "third ", "fourth ", "fifth ")


@dataclass(frozen=True)
class Constraint:
    """The derivative of a given order of an equation, by its number and as it is written."""

    equation: int
    order: int
    expression: sp.Expr

    def __str__(self) -> str:
        if self.order == 0:
            return f"equation {self.equation}, {written(self.expression, 45)}"
        nth = _ORDINALS[self.order] if self.order < len(_ORDINALS) else f"{self.order}th "
        return f"the {nth}derivative of equation {self.equation}, {written(self.expression, 45)}"


@dataclass(frozen=True)
class Invariant:
    """An output that must be zero at the start, and is zero from there on."""

    name: str
    expression: sp.Expr

    def __str__(self) -> str:
        return f"{self.name}, {written(self.expression, 45)}"


@dataclass(frozen=True)
class Differentiated:
    """A model and the derivatives of its equations that it takes to determine all derivatives.

    kept : as many equations as there are unknowns: x', algebraic states, and what is in `higher`.
    constraints : the others, which bind the differential states. program : intermediates of both.
    higher : further derivatives of states. dependent : states that the constraints determine.
    """

    kept: tuple[Constraint, ...]
    constraints: tuple[Constraint, ...]
    program: Program
    higher: tuple[sp.Derivative, ...]
    dependent: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def differentiated(model: Declared) -> Differentiated:
    """The equations of a model of regular structure with the derivatives that are needed."""
    structure = structure_of(model)
    c = structure.equations
    solved = _solved(model, structure)
    single = {i for i, _ in solved.values()}
    shift = _shifts(structure, single)
    d_dt = time_derivation(model, {model.derivatives[j]: e for j, (_, e) in solved.items()})
    kept: list[Constraint] = []
    constraints: list[Constraint] = []
    for i, e in enumerate(model.equations):
        for k in range(1 + (0 if i in single else c[i])):
            e = d_dt(e) if k else e
            (kept if k >= shift[i] else constraints).append(Constraint(i, k, e))
    every = [*(row.expression for row in (*kept, *constraints)), *(e for _, e in d_dt.program)]
    found = parts_of(sp.Derivative, *every)
    higher = [a for a in found if a.derivative_count > 1 and a.expr in model.states]
    form = Differentiated(
        tuple(kept),
        tuple(constraints),
        tuple(d_dt.program),
        tuple(sorted(higher, key=lambda a: (a.derivative_count, str(a)))),
    )
    return replace(form, dependent=_dependent(model, form)) if constraints else form


def _solved(model: Declared, structure: Structure) -> dict[int, tuple[int, sp.Expr]]:
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
    """Number of derivatives of each equation, from the lowest, that only bind differential states.

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
    """Jacobian by the highest derivatives; random numbers where it could not be evaluated."""
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


def unknowns(model: Declared, form: Differentiated) -> list[sp.Basic]:
    """Unknowns of the kept equations: x' and higher derivatives, and algebraic states."""
    moving = structure_of(model).states
    pairs = list(zip(model.states, moving, strict=True))
    return [
        *(sp.Derivative(x, t) for x, d in pairs if d),
        *form.higher,
        *(x for x, d in pairs if not d),
    ]


def _dependent(model: Declared, form: Differentiated) -> tuple[str, ...]:
    """Differential states that the constraints determine, one for each: of those that its
    derivatives bring in, if any."""
    inner = unknowns(model, form)
    outer = [x for x in model.states if x not in inner]
    rows = [row.expression for row in (*form.kept, *form.constraints)]
    slopes = random_jacobian(rows, form.program, [*inner, *outer])
    if slopes is None:
        return ()
    n = len(inner)
    eliminated = np.linalg.lstsq(slopes[:n, :n], slopes[:n, n:])[0]
    bound = slopes[n:, n:] - slopes[n:, :n] @ eliminated
    bound[np.abs(bound) < 1e-9 * np.abs(bound).max()] = 0.0
    order = [row.order for row in form.constraints]
    first = [min((k for k, b in zip(order, col, strict=True) if b), default=-1) for col in bound.T]
    columns = sorted((j for j in range(len(outer)) if first[j] >= 0), key=lambda j: (-first[j], j))
    return tuple(name_of(outer[columns[k]]) for k in independent(bound[:, columns].T))


def time_derivation(model: Declared, known: Mapping[sp.Basic, sp.Expr]) -> Derivation:
    """d/dt of expressions of a model, with derivatives of states and inputs of any order.

    known : what replaces the derivatives of some states; these equations are never differentiated.
    """
    moving = {*model.states, *model.inputs}

    def rate(atom: sp.Basic) -> sp.Expr:
        if atom == t:
            return sp.S.One
        if atom in known:
            return derivation(known[atom])
        if atom in moving or isinstance(atom, sp.Derivative):
            further = sp.Derivative(atom, t)
            return known.get(further, further)
        return sp.S.Zero

    taken = {*model.symbols, *model.outputs}

    def name(atom: sp.Basic) -> str:
        chosen = fresh_name(f"{name_of(atom)}_dot", taken)
        taken.add(chosen)
        return chosen

    derivation = Derivation(model.intermediates, rate, name)
    return derivation
