"""Random points modulo a prime at which the equations of a model hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.series import Expansion
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.identifiability.values import Draws, Relations, drawn
from kinesym.symbolic.prime_field import Residues, echelon

#: Points that are drawn at once, to have some at which every root exists.
_DRAWN = 64
#: Draws after which there seems to be no such point.
_TRIES = 60
#: Newton steps to a point of the equations: those linear in some unknown, one after the other.
_STEPS = 6


class NoPoint(ValueError):
    """There is no point of a model modulo this prime, or it was not found."""


@dataclass(frozen=True, eq=False)
class Points:
    """P points of a model: values by step of variables at order 0, (P,); draws; relations of
    arguments of functions; inverses of the Jacobian of the equations by x', (P, n, n)."""

    values: dict[int, Residues]
    draws: Draws
    relations: Relations
    inverses: Residues

    def taken(self, which: np.ndarray | slice) -> Points:
        """Some of the points."""
        values = {place: v[which] for place, v in self.values.items()}
        return Points(values, self.draws.taken(which), self.relations, self.inverses[which])


def points_of(system: System, field: Field, count: int, generator: np.random.Generator) -> Points:
    """Random points of a system. Raises `NoPoint`."""
    relations = _relations(system, field, generator)
    found, n = list[Points](), 0
    for _ in range(_TRIES):
        some = _some_points(system, relations, drawn_of(system, field, _DRAWN, generator))
        if some is not None:
            found.append(some)
            n += some.draws.count
        if n >= count:
            return _joined(found).taken(slice(0, count))
    raise NoPoint(
        f"{system.what}: no point was found at which its equations hold and its roots exist; put in "
        "numbers for some parameters, or another expression for roots, by model.substitute({...})"
    )


def drawn_of(system: System, field: Field, count: int, generator: np.random.Generator) -> Draws:
    """Draws for a system."""
    return drawn(field, len(system.steps), count, generator)


def _joined(parts: Sequence[Points]) -> Points:
    first = parts[0]
    rows = zip(
        *((q.draws.numbers, q.draws.squares, q.draws.parameters) for q in parts), strict=True
    )
    return Points(
        {place: np.concatenate([q.values[place] for q in parts]) for place in first.values},
        Draws(first.draws.field, *(np.concatenate(row, axis=1) for row in rows)),
        first.relations,
        np.concatenate([q.inverses for q in parts]),
    )


def _relations(system: System, field: Field, generator: np.random.Generator) -> Relations:
    """The relations of arguments of functions, at points without regard to the equations."""
    functions = sum(step.kind == "chain" for step in system.steps)
    draws = drawn_of(system, field, 2 * functions + 16 if functions else 1, generator)
    roots = sum(step.data == "power" for step in system.steps)
    if roots:
        draws = drawn_of(system, field, 4096, generator)
    expansion = Expansion(system.steps, draws, None, 1, 0, system.what)
    values = {place: draws.numbers[place] for place in _variables(system)}
    _put(system, expansion, values, {})
    expansion.start(system.solving)
    expansion.start(system.after)
    return expansion.relations


def _variables(system: System) -> list[int]:
    groups = (system.parameters, system.states, system.rates, system.inputs, [system.time])
    return [place for group in groups for place in group]


def _put(
    system: System, expansion: Expansion, values: dict[int, Residues], columns: dict[int, int]
) -> None:
    """Variables at order 0, with unit tangents in some columns, and the steps that need no x'."""
    for place, value in values.items():
        expansion.values[place][0][:, 0] = value
        if place in columns:
            expansion.values[place][0][:, columns[place]] = 1
    bound = {system.states[j]: start for j, start in system.starts.items()}
    for place in system.before:
        if place in bound:
            expansion.values[place][0] = expansion.values[bound[place]][0]
        expansion.start([place])


def _some_points(system: System, relations: Relations, draws: Draws) -> Points | None:
    """The points of these draws that Newton's method leads to the equations."""
    values = {place: draws.numbers[place].copy() for place in _variables(system)}
    free = [place for place in system.rates if place not in system.inner]
    fixed = {system.states[j] for j in system.starts}
    if system.conditions or len(free) < len(system.rates):
        others = [k for k in _variables(system) if k not in (*system.rates, *fixed)]
        free += [k for k in others if k not in system.inner]
    p = draws.field.p
    every = list(dict.fromkeys((*free, *system.rates)))
    columns = {place: k for k, place in enumerate(every, 1)}
    width = len(every) + 1
    good = np.zeros(draws.count, dtype=bool)
    for _ in range(_STEPS):
        expansion = Expansion(system.steps, draws, relations, width, 0, system.what)
        _put(system, expansion, values, columns)
        expansion.start(system.solving)
        places = [*system.equations, *system.conditions]
        rows = [expansion.values[k][0] for k in places]
        left = np.stack(rows, axis=1) if rows else np.zeros((draws.count, 0, width), dtype=np.int64)
        good = expansion.valid & ~left[:, :, 0].any(axis=1)
        todo = np.flatnonzero(expansion.valid & left[:, :, 0].any(axis=1))
        if not len(todo):
            break
        for k in todo:
            for j, change in _step(left[k][:, : len(free) + 1], p).items():
                values[free[j]][k] = (values[free[j]][k] + change) % p
    for place, start in system.starts.items():
        values[system.states[place]] = expansion.values[start][0][:, 0]
    n = len(system.equations)
    by_rates = [columns[place] for place in system.rates]
    inverses = np.zeros((draws.count, n, n), dtype=np.int64)
    for k in np.flatnonzero(good):
        inverse = _inverse(left[k][:n, by_rates], p) if n else inverses[k]
        good[k] = inverse is not None
        if inverse is not None:
            inverses[k] = inverse
    found = Points(values, draws, relations, inverses)
    return found.taken(np.flatnonzero(good)) if good.any() else None


def _step(rows: Residues, p: int) -> dict[int, int]:
    """Newton step: changes by number of the unknown, those on the left first; rows : values, then
    derivatives."""
    matrix = np.hstack([rows[:, 1:], -rows[:, :1] % p])
    reduced, pivots = echelon(matrix, p)
    n = matrix.shape[1] - 1
    return {j: int(row[n]) for j, row in zip(pivots, reduced, strict=True) if j < n}


def _inverse(matrix: Residues, p: int) -> Residues | None:
    n = len(matrix)
    reduced, pivots = echelon(np.hstack([matrix, np.eye(n, dtype=np.int64)]), p)
    return reduced[:, n:] if pivots == tuple(range(n)) else None


def put(system: System, expansion: Expansion, points: Points, columns: dict[int, int]) -> None:
    """Variables of points at order 0, with unit tangents in some columns."""
    _put(system, expansion, points.values, columns)


__all__: Iterable[str] = ("NoPoint", "Points", "points_of", "put")
