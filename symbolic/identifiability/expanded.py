"""Derivatives of the series of outputs by parameters, starts and unknown inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kinesym.symbolic.identifiability.points import Points, put
from kinesym.symbolic.identifiability.series import Expansion
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.prime_field import Residues, product


@dataclass(frozen=True)
class Unknowns:
    """Places of what is unknown: parameters and starts of states; and inputs, of which every
    coefficient is unknown."""

    constants: Sequence[int]
    inputs: Sequence[int]


def rows_of(system: System, points: Points, unknowns: Unknowns, order: int) -> Iterator[Residues]:
    """Derivatives of the coefficients 0, 1, ... of the outputs, (P, rows, unknowns) each: constants
    first, then coefficients of inputs by order; at order 0 those of conditions, too."""
    n = len(unknowns.constants)
    columns = {place: k for k, place in enumerate(unknowns.constants, 1)}
    place_of = {u: n + 1 + k for k, u in enumerate(unknowns.inputs)}
    width = 1 + n + (order + 1) * len(unknowns.inputs)
    steps, draws = system.steps, points.draws
    expansion = Expansion(steps, draws, points.relations, width, order, system.what)
    values, p = expansion.values, draws.field.p
    for u in system.inputs:
        for k, seed in enumerate(draws.numbers[u].tolist()):  # equal draws, equal inputs
            values[u][1:, k, 0] = draws.field.drawn(np.random.default_rng(seed), order)
        if u in place_of:
            for k in range(order + 1):
                values[u][k, :, place_of[u] + k * len(unknowns.inputs)] = 1
    for place in system.times if order else ():
        values[place][1, :, 0] = 1
    _first_order(system, expansion, points, columns)
    yield _tangents(expansion, (*system.outputs, *system.conditions), 0)
    for k in range(1, order + 1):
        factor = pow(k, -1, p)
        for x, rate in zip(system.states, system.rates, strict=True):
            values[x][k] = values[rate][k - 1] * factor % p
        expansion.go(system.before, k)
        _solve(system, expansion, points.inverses, k)
        expansion.go(system.after, k)
        yield _tangents(expansion, system.outputs, k)


def _first_order(
    system: System, expansion: Expansion, points: Points, columns: dict[int, int]
) -> None:
    put(system, expansion, points.values, columns)
    values = expansion.values
    for x, explicit in zip(system.rates, system.explicit, strict=False):
        values[x][0] = values[explicit][0]
    if system.equations:
        expansion.start(system.solving)
        _corrected(system, expansion, points.inverses, 0)
    expansion.start(system.solving)
    expansion.start(system.after)


def _solve(system: System, expansion: Expansion, inverses: Residues, k: int) -> None:
    """x' at order k: at first its value, then its tangents, then all steps of the equations."""
    values = expansion.values
    for x, explicit in zip(system.rates, system.explicit, strict=False):
        values[x][k] = values[explicit][k]
    for _ in range(2 * bool(system.equations)):
        expansion.go(system.solving, k)
        _corrected(system, expansion, inverses, k)
    expansion.go(system.solving, k)


def _corrected(system: System, expansion: Expansion, inverses: Residues, k: int) -> None:
    p = expansion.field.p
    left = np.stack([expansion.at(e, k) for e in system.equations], axis=1)
    change = product(inverses, left, p)
    for j, rate in enumerate(system.rates):
        series = expansion.values[rate]
        series[k] = (series[k] - change[:, j]) % p


def _tangents(expansion: Expansion, places: Sequence[int], k: int) -> Residues:
    return np.stack([expansion.at(place, k)[:, 1:] for place in places], axis=1)
