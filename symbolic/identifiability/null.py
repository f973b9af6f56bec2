"""Directions in which unknowns change without effect on the outputs, exactly at random points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinesym.symbolic.identifiability.expanded import Unknowns, rows_of
from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.points import NoPoint, Points, points_of
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.prime_field import Residues, echelon, null_space, rank

#: Numbers that the series of a chunk of points have at most.
_MEMORY = 3e7
#: Operations that take as long as the call of a function for a step.
_CALL = 500
#: Orders that are waited for from special starts at least: from rest, x**8 is seen at order 8.
_FROM_REST = 24
#: Primes that are tried for one that has points of the model.
_PRIMES = 4


@dataclass(frozen=True, eq=False)
class Asked:
    """Question about a system: unknowns, by place. constants : parameters and starts whose
    derivatives are formed; which : the numbers of those that are asked for. others : places of
    parameters that are known. special : whether starts have values of their own, so that they are
    not like almost all others."""

    system: System
    unknowns: Unknowns
    which: Sequence[int]
    others: Sequence[int]
    special: bool

    @property
    def places(self) -> list[int]:
        """Places of what is asked for, then of known parameters."""
        return [*(self.unknowns.constants[k] for k in self.which), *self.others]

    @property
    def _slow(self) -> bool:
        """Whether a rank may stand still and grow later."""
        return self.special or bool(self.unknowns.inputs)

    @property
    def orders(self) -> int:
        """Orders of the series that are enough for most models."""
        return len(self.unknowns.constants) // len(self.system.outputs) + self.patience + 2

    def affordable(self, most: int) -> int:
        """Orders of the series at one point that so many operations allow, about."""
        width = 1 + len(self.unknowns.constants) + 2 * len(self.unknowns.inputs)
        each = len(self.system.steps) * (_CALL + width)
        return min(self.orders, most // each - 1)

    @property
    def patience(self) -> int:
        """Number of orders without further rank after which there is no more. One where
        derivatives by all starts are there: rows of order k + 1 that are combinations of those
        before stay so when they are differentiated (Hermann and Krener 1977, IEEE Trans. Autom.
        Control 22, 728-740). From special starts there is no bound: twice as many as unknowns, or
        more if these are few."""
        n = len(self.unknowns.constants) + len(self.system.starts)
        special = max(2 * n + 2, _FROM_REST)
        return special if self.special else n if self.unknowns.inputs else 1


@dataclass(frozen=True, eq=False)
class Silent:
    """Values of the n unknowns asked for, and of others, at a point modulo p, and a basis (m, n) of
    directions without effect, in reduced echelon form; order : of the series that was needed."""

    p: int
    values: Residues
    basis: Residues
    order: int

    @property
    def pattern(self) -> tuple[int, ...]:
        """Numbers of unknowns that change along some direction."""
        return tuple(np.flatnonzero(self.basis.any(axis=0)).tolist())


def some_points(asked: Asked, count: int, generator: np.random.Generator) -> Points:
    """Points of the system modulo a prime that has some."""
    for left in range(_PRIMES, -1, -1):
        try:
            return points_of(asked.system, Field.random(generator), count, generator)
        except NoPoint:
            if not left:
                raise
    raise AssertionError


def silent_at(asked: Asked, points: Points, order: int | None = None) -> list[Silent]:
    """Silent directions at points. order : how far series go, found if None."""
    found = list[Silent]()
    if order is None:
        most = asked.orders
        while not found:
            found = first_look(asked, points.taken(slice(0, 1)), most)
            most *= 2
        order, points = found[0].order, points.taken(slice(1, None))
    parts = _chunks(asked, points, order)
    return [*found, *(one for part in parts for one in _bases(asked, part, order))]


def _chunks(asked: Asked, points: Points, order: int) -> list[Points]:
    width = 1 + len(asked.unknowns.constants) + (order + 1) * len(asked.unknowns.inputs)
    size = len(asked.system.steps) * (order + 1) * width
    most = max(int(_MEMORY / size), 1)
    count = points.draws.count
    return [points.taken(slice(k, k + most)) for k in range(0, count, most)]


def first_look(asked: Asked, point: Points, most: int) -> list[Silent]:
    """Silent directions at one point, from the order at which there is nothing more to know; none
    if that is beyond `most`."""
    p, n = point.draws.field.p, len(asked.unknowns.constants)
    rows, still, last = list[Residues](), 0, -1
    for k, more in enumerate(rows_of(asked.system, point, asked.unknowns, most)):
        rows.append(more[0])
        matrix = np.concatenate(rows)
        known = n - len(_projected(asked, matrix, p)) if asked._slow else rank(matrix, p)
        still, last = (still + 1 if known == last else 0), known
        if known == n or still >= asked.patience:
            return _silent(asked, point, matrix[None], k - still)
    return []


def _bases(asked: Asked, points: Points, order: int) -> list[Silent]:
    parts = list(rows_of(asked.system, points, asked.unknowns, order))
    return _silent(asked, points, np.concatenate(parts, axis=1), order)


def _silent(asked: Asked, points: Points, matrices: Residues, order: int) -> list[Silent]:
    """Silent directions at points, from rows (P, rows, unknowns) of each."""
    p = points.draws.field.p
    return [
        Silent(
            p,
            np.array([points.values[place][k] for place in asked.places], dtype=np.int64),
            _projected(asked, matrix, p),
            order,
        )
        for k, matrix in enumerate(matrices)
    ]


def _projected(asked: Asked, rows: Residues, p: int) -> Residues:
    """Basis of directions of the unknowns asked for in which all rows are zero, if unknown inputs
    may follow."""
    n, asks = len(asked.unknowns.constants), list(asked.which)
    columns = [*asks, *range(n, rows.shape[1])]
    basis = null_space(rows[:, columns], p)[:, : len(asks)]
    return echelon(basis, p)[0]
