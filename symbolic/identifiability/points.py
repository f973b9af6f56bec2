"""Random points modulo a prime at which the equations of a model hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.polys.galoistools import gf_factor

from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.series import Expansion, Series
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.identifiability.values import Draws, Relations, drawn
from kinesym.symbolic.prime_field import Residues, echelon, product

#: Points that are drawn at first, if few are asked for: mostly they do.
_FIRST = 4
#: Points that are drawn at once, to have some at which every root exists.
_DRAWN = 64
#: Draws after which there seems to be no such point.
_TRIES = 60
#: The same for models with constraints.
_TRIES_OF_CONDITIONS = 3
#: Values that a polynomial in one variable is known by, so that its degree is less by two.
_NODES = 7
#: Newton steps to a point of the equations: those linear in some unknown, one after the other.
_STEPS = 6


_NO_POINT = (
    "{what}: no point modulo a prime was found at which its equations hold and its roots exist; "
    "write constraints so that a parameter or a coordinate follows from each, and fewer roots"
)


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

    def taken(self, which: Residues | slice) -> Points:
        """Some of the points."""
        values = {place: v[which] for place, v in self.values.items()}
        return Points(values, self.draws.taken(which), self.relations, self.inverses[which])


def points_of(
    system: System, field: Field, count: int, generator: np.random.Generator, most: int = _TRIES
) -> Points:
    """Random points of a system, of so many draws at most. Raises `NoPoint`, a `ValueError` where
    no prime can help."""
    relations = _relations(system, field, generator)
    found, n = list[Points](), 0
    for tries in range(most):
        if not found and tries >= _TRIES_OF_CONDITIONS and system.conditions:
            break
        many = _DRAWN // 4 if system.conditions else _DRAWN
        many = many if tries or count > _FIRST else _FIRST
        some = _some_points(system, relations, drawn_of(system, field, many, generator))
        if some is not None:
            found.append(some)
            n += some.draws.count
        if n >= count:
            return _joined(found).taken(slice(0, count))
    raise NoPoint(_NO_POINT.format(what=system.what))


def varied(
    system: System, one: Points, places: Sequence[int], generator: np.random.Generator
) -> Points:
    """A point, and for each of these places the point with another value there; other points where
    that leads to none."""
    count, field = len(places) + 1, one.draws.field
    same = one.taken(np.zeros(count, dtype=np.int64))
    for k, place in enumerate(places, 1):
        same.values[place][k : k + 1] = field.drawn(generator, 1)
    rates = [place for place in system.rates if place not in system.inner]
    found = _moved(system, same.relations, same.draws, same.values, rates)
    if found is None or found.draws.count < count:
        return points_of(system, field, count, generator)
    return found


def changed(system: System, points: Points, values: Mapping[int, Residues]) -> Points | None:
    """Points with other values at some places, and x' that follows; None where some have none."""
    rates = [place for place in system.rates if place not in system.inner]
    moved = {place: v.copy() for place, v in {**points.values, **values}.items()}
    found = _moved(system, points.relations, points.draws, moved, rates)
    return None if found is None or found.draws.count < points.draws.count else found


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
    expansion = Expansion(system.steps, draws, None, 2, 0, system.what)
    values = {place: draws.numbers[place] for place in _variables(system)}
    for place in values:  # along a random direction
        expansion.values[place][0][:, 1] = draws.parameters[place]
    put(system, expansion, values, {})
    expansion.start(system.solving)
    expansion.start(system.after)
    return expansion.relations


def _variables(system: System) -> list[int]:
    parameters = system.parameters.values()
    groups = (parameters, system.states, system.rates, system.inputs, system.times)
    return [place for group in groups for place in group]


def put(
    system: System, expansion: Series, values: Mapping[int, Any], columns: Mapping[int, int]
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
    """Points of these draws, moved to where the equations hold: x' by Newton's method if they are
    linear in it; else others with it, or one after the other as roots of polynomials."""
    values = {place: draws.numbers[place].copy() for place in _variables(system)}
    rates = [place for place in system.rates if place not in system.inner]
    if not system.conditions and len(rates) == len(system.rates):
        found = _moved(system, relations, draws, values, rates)
        if found is not None:
            return found
    fixed = {system.states[j] for j in system.starts} | system.inner
    free = [k for k in _variables(system) if k not in fixed and k not in rates]
    found = _moved(system, relations, draws, {k: v.copy() for k, v in values.items()}, rates + free)
    if found is None:
        solved = rooted(system, relations, draws, values, [*free, *rates])
        found = _moved(system, relations, draws, solved, rates)
    return found


def _moved(
    system: System,
    relations: Relations,
    draws: Draws,
    values: dict[int, Residues],
    free: Sequence[int],
) -> Points | None:
    """Points after Newton steps of the free variables, those on the left first."""
    p, columns = draws.field.p, {k: j for j, k in enumerate(dict.fromkeys((*free, *system.rates)))}
    for _ in range(_STEPS):
        expansion, left = residuals(system, relations, draws, values, list(columns))
        good = expansion.valid & ~left[:, :, 0].any(axis=1)
        todo = np.flatnonzero(expansion.valid & left[:, :, 0].any(axis=1))
        if not len(todo):
            break
        for k in todo:
            for j, change in _step(left[k][:, : len(free) + 1], p).items():
                values[free[j]][k] = (values[free[j]][k] + change) % p
    for j, start in system.starts.items():
        values[system.states[j]] = expansion.values[start][0][:, 0]
    n = len(system.equations)
    by_rates = [columns[place] + 1 for place in system.rates]
    inverses = np.zeros((draws.count, n, n), dtype=np.int64)
    for k in np.flatnonzero(good) if n else ():
        inverse = _inverse(left[k][:n, by_rates], p)
        good[k] = inverse is not None
        if inverse is not None:
            inverses[k] = inverse
    found = Points(values, draws, relations, inverses)
    return found.taken(np.flatnonzero(good)) if good.any() else None


def residuals(
    system: System,
    relations: Relations,
    draws: Draws,
    values: dict[int, Residues],
    by: Sequence[int],
) -> tuple[Expansion, Residues]:
    """Equations, then conditions, with derivatives by some variables, (P, rows, 1 + variables)."""
    width = len(by) + 1
    expansion = Expansion(system.steps, draws, relations, width, 0, system.what)
    put(system, expansion, values, {place: k for k, place in enumerate(by, 1)})
    expansion.start(system.solving)
    rows = [expansion.values[k][0] for k in (*system.equations, *system.conditions)]
    none = np.zeros((draws.count, 0, width), dtype=np.int64)
    return expansion, np.stack(rows, axis=1) if rows else none


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


# -- roots of polynomials ------------------------------------------------------------------------


def rooted(
    system: System,
    relations: Relations,
    draws: Draws,
    values: dict[int, Residues],
    free: Sequence[int],
) -> dict[int, Residues]:
    """Values at which conditions and equations that are not linear in x' hold, each by a variable
    that those before do not contain. Raises `ValueError` where there is no such variable."""
    values = {place: v.copy() for place, v in values.items()}
    degrees = _degrees(system, relations, draws, values, free)
    n, rates = len(system.equations), [k for k, place in enumerate(free) if place in system.rates]
    contains = [set(np.flatnonzero(row).tolist()) for row in degrees]
    rows = sorted(range(n, len(degrees)), key=lambda i: len(contains[i]))
    rows += [i for i in range(n) if (degrees[i, rates] > 1).any()]
    used = set[int]()
    for row in rows:
        tried = [j for j in contains[row] - used if degrees[row, j] < _NODES - 1]
        if not tried:
            raise ValueError(_NO_POINT.format(what=system.what))
        place = free[min(tried, key=lambda j: (degrees[row, j], j))]
        used |= contains[row]
        at = _along(system, relations, draws, values, row, place)
        for k, polynomial in enumerate(_coefficients(at, draws.field.p).T.tolist()):
            root = _root(polynomial, draws.field.p)
            values[place][k] = values[place][k] if root is None else root
    return values


def _degrees(
    system: System,
    relations: Relations,
    draws: Draws,
    values: dict[int, Residues],
    free: Sequence[int],
) -> Residues:
    """Degrees of equations, then conditions, in free variables at the first point, (rows, free)."""
    count = _NODES * len(free)
    moved = {place: np.repeat(v[:1], count) for place, v in values.items()}
    for j, place in enumerate(free):
        moved[place][j * _NODES : (j + 1) * _NODES] = np.arange(_NODES)
    same = draws.taken(np.zeros(count, dtype=np.int64))
    left = residuals(system, relations, same, moved, [])[1][:, :, 0]
    several = left.reshape(len(free), _NODES, -1)
    found = _coefficients(several, draws.field.p) != 0
    highest = np.where(found.any(axis=1), _NODES - 1 - found.argmax(axis=1), 0)
    return np.asarray(highest.T, dtype=np.int64)


def _along(
    system: System,
    relations: Relations,
    draws: Draws,
    values: dict[int, Residues],
    row: int,
    place: int,
) -> Residues:
    """Values of a row where a variable is 0, 1, ..., (nodes, P)."""
    found = []
    for node in range(_NODES):
        moved = {**values, place: np.full(draws.count, node, dtype=np.int64)}
        found.append(residuals(system, relations, draws, moved, [])[1][:, row, 0])
    return np.array(found)


def _coefficients(values: Residues, p: int) -> Residues:
    """Coefficients, the highest first, of polynomials with values (..., nodes, n) at 0, 1, ..."""
    powers = [[pow(x, _NODES - 1 - k, p) for k in range(_NODES)] for x in range(_NODES)]
    inverse = _inverse(np.array(powers, dtype=np.int64), p)
    assert inverse is not None
    return product(inverse, values, p)


def _root(polynomial: Sequence[int], p: int) -> int | None:
    """A root of a polynomial, its coefficients the highest first."""
    first = next((k for k, c in enumerate(polynomial) if c), None)
    _, factors = gf_factor(list(polynomial[first:]), p, sp.ZZ) if first is not None else (0, [])
    roots = [-int(f[1]) % p for f, _ in factors if len(f) == 2]
    return roots[0] if roots else None
