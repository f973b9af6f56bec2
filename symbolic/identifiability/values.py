"""Values of exponentials, roots, sines and cosines modulo a prime that fit together.

Values at linearly independent arguments are independent numbers (Ax 1971, Ann. of Math. 93,
252-268; for constants as log 2 this is Schanuel's conjecture), so they are drawn at random; where
an argument is a rational combination of others, the value follows from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.tape import Step
from kinesym.symbolic.prime_field import Residues, echelon, rational

#: Points more than bases at which a linear relation among arguments holds.
_MORE = 8
#: Largest numerator and denominator of a relation.
_LARGEST = 10_000

#: Functions whose values are angles.
ANGLES = ("atan", "asin")

#: Base that is no step: the number 1.
ONE = -1
#: The number pi, another.
PI = -2

Relation = dict[int, Fraction]


@dataclass
class Relations:
    """Relations of arguments, by function (a step): bases whose arguments, each times a factor,
    its argument is the sum of; itself, if it depends on no others."""

    of: dict[int, Relation] = field(default_factory=dict)


@dataclass(frozen=True)
class Draws:
    """Random draws at each of P points: for each step and for bases that are none, see `drawn`."""

    field: Field
    numbers: Residues
    squares: Residues
    parameters: Residues

    @property
    def count(self) -> int:
        """Number of points."""
        return int(self.numbers.shape[1])

    def taken(self, which: Residues | slice) -> Draws:
        """Some of the points."""
        rows = (self.numbers, self.squares, self.parameters)
        return Draws(self.field, *(row[:, which] for row in rows))


def drawn(field: Field, steps: int, points: int, generator: np.random.Generator) -> Draws:
    """Random numbers, squares, and parameters of points of the circle, (steps + 2, points)."""
    shape = steps + 2, points
    roots = field.drawn(generator, *shape)
    return Draws(
        field,
        field.drawn(generator, *shape),
        roots * roots % field.p,
        field.drawn(generator, *shape),
    )


class Arguments:
    """Arguments of functions of one kind at the same points, and which of them are independent.

    bases : what is there from the start, with values (P,).
    """

    def __init__(self, field: Field, bases: dict[int, Residues]) -> None:
        self._p = field.p
        self._bases, self._columns = list(bases), list(bases.values())

    def relation(self, place: int, values: Residues, valid: np.ndarray) -> Relation:
        """The relation of a further argument (P,) to those before; it is a base if it has none."""
        if not values[valid].any():
            return {}
        rows = np.flatnonzero(valid)[: len(self._bases) + _MORE]
        matrix = np.stack([*self._columns, values], axis=1)[rows]
        reduced, pivots = echelon(matrix, self._p)
        n = len(self._bases)
        if n not in pivots:
            found = [rational(int(v), self._p) for v in reduced[:, n]]
            fits = [f for f in found if f is not None and abs(f.numerator) <= _LARGEST]
            if len(fits) == len(found) and all(f.denominator <= _LARGEST for f in fits):
                pairs = zip(pivots, fits, strict=True)
                return {self._bases[j]: factor for j, factor in pairs if factor}
        self.add(place, values)
        return {place: Fraction(1)}

    def add(self, place: int, values: Residues) -> None:
        """One more base."""
        self._bases.append(place)
        self._columns.append(values)


def constants(draws: Draws) -> dict[int, Residues]:
    """Numbers that arguments may be multiples of."""
    return {ONE: np.ones(draws.count, dtype=np.int64), PI: draws.numbers[PI]}


def exponentials(
    draws: Draws, relation: Relation, of_logs: dict[int, Residues]
) -> tuple[Residues, np.ndarray]:
    """exp of an argument (P,) by its relation, and where it is right; of_logs : values whose
    logarithms are bases."""
    p = draws.field.p
    found = np.ones(draws.count, dtype=np.int64)
    valid = np.ones(draws.count, dtype=bool)
    for base, factor in relation.items():
        value = of_logs.get(base, draws.squares[base])
        if base in of_logs and factor.denominator != 1:
            valid &= draws.field.positive(value)
        found = found * draws.field.powers(value, factor) % p
    return found, valid


def circle(draws: Draws, relation: Relation, steps: Sequence[Step], what: str) -> Residues:
    """cos and sin of an argument by its relation, (2, P)."""
    field = draws.field
    found = [(1, 0)] * draws.count
    for base, factor in relation.items():
        if base >= 0 and steps[base].data in ANGLES:
            raise ValueError(
                f"{what} holds sin or cos of an angle that is itself an inverse sine or tangent; "
                "write it by roots, as x / sqrt(1 + x^2) for sin(atan(x))"
            )
        fixed = field.part_of_pi(factor) if base == PI else None
        for k, parameter in enumerate(draws.parameters[base].tolist()):
            point = fixed or field.multiple(field.on_circle(parameter), factor)
            found[k] = field.turned(found[k], point)
    return np.array(found, dtype=np.int64).T
