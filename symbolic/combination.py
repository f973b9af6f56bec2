"""Equations of which only a combination determines something, written as that combination."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import sympy as sp

from kinesym.symbolic.declared import Declared
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.structure import Structure, rank, signature, structure_of, unmatched

M = TypeVar("M", bound=Declared)

#: Number of equations that are combined at most; the exact solution for the factors takes long
#: with more.
_MOST = 8


def combined(model: M) -> M | None:
    """The model with equations exchanged for combinations in which the highest derivatives cancel,
    until its structure is regular (the linear combination method of Tan, Nedialkov and Pryce 2017,
    Appl. Math. Comput. 311, 183-203); None where it takes factors that are not constant.
    """
    for _ in range(len(model.states) ** 2):
        structure = structure_of(model)
        if structure.regular:
            return model
        exchanged = _exchanged(model, structure)
        if exchanged is None:
            return None
        model = exchanged
    return None


def _exchanged(model: M, structure: Structure) -> M | None:
    """The model with one equation exchanged."""
    rows = _dependent(structure)
    c, d = structure.equations, structure.states
    if len(rows) > _MOST or len({c[i] for i in rows}) > 1:
        return None
    matrix = sp.zeros(len(rows), len(d))
    for k, i in enumerate(rows):
        for j, order in structure.orders[i].items():
            if d[j] == c[i] + order:
                atom = model.derivatives[j] if order else model.states[j]
                if atom in atoms_of(*model.through([model.equations[i]])[1:]):
                    return None  # it is within an intermediate
                matrix[k, j] = model.equations[i].diff(atom)
    factors = next(iter(matrix.T.nullspace()), None)
    if factors is None or not factors.free_symbols <= set(model.parameters):
        return None
    place = rows[next(k for k, factor in enumerate(factors) if factor != 0)]
    terms = [factor * model.equations[i] for factor, i in zip(factors, rows, strict=True)]
    equations = list(model.equations)
    equations[place] = sp.expand(sp.Add(*terms))
    labels = {i: label for i, label in model.labels.items() if i != place}
    new = replace(model, equations=equations, explicit=None, labels=labels)
    if unmatched(new, signature(new)) or structure_of(new).freedom >= structure.freedom:
        return None
    return new


def _dependent(structure: Structure) -> list[int]:
    """Equations with linearly dependent rows in the Jacobian by the highest derivatives, none of
    which can be left out."""
    assert structure.jacobian is not None
    rows = list(range(len(structure.states)))
    for i in list(rows):
        without = [k for k in rows if k != i]
        if rank(structure.jacobian[without]) < len(without):
            rows = without
    return rows
