"""Derivatives of the series of outputs by parameters, starts and unknown inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kinesym.symbolic.identifiability.points import Points, put
from kinesym.symbolic.identifiability.series import Expansion, Series
from kinesym.symbolic.identifiability.system import System
from kinesym.symbolic.prime_field import Residues


@dataclass(frozen=True)
class Unknowns:
    """Places of what is unknown: parameters and starts of states; and inputs, of which every
    coefficient is unknown."""

    constants: Sequence[int]
    inputs: Sequence[int]


def rows_of(system: System, points: Points, unknowns: Unknowns, order: int) -> Iterator[Residues]:
    """Derivatives of the coefficients 0, 1, ... of the outputs, (P, rows, unknowns) each: constants
    first, then coefficients of inputs by order; at order 0 those of conditions, too."""
    for rows in _expanded(system, points, unknowns, order):
        yield rows[:, :, 1:]


def outputs_at(system: System, points: Points, order: int) -> Residues:
    """Coefficients 0, 1, ... of the outputs, after conditions, (P, rows)."""
    parts = _expanded(system, points, Unknowns((), ()), order)
    return np.concatenate([rows[:, :, 0] for rows in parts], axis=1)


def _expanded(system: System, points: Points, unknowns: Unknowns, order: int) -> Iterator[Residues]:
    n = len(unknowns.constants)
    columns = {place: k for k, place in enumerate(unknowns.constants, 1)}
    place_of = {u: n + 1 + k for k, u in enumerate(unknowns.inputs)}
    width = 1 + n + (order + 1) * len(unknowns.inputs)
    steps, draws = system.steps, points.draws
    expansion = Expansion(steps, draws, points.relations, width, order, system.what)
    values = expansion.values
    for u in system.inputs:
        for k, seed in enumerate(draws.numbers[u].tolist()):  # equal draws, equal inputs
            values[u][1:, k, 0] = draws.field.drawn(np.random.default_rng(seed), order)
        if u in place_of:
            for k in range(order + 1):
                values[u][k, :, place_of[u] + k * len(unknowns.inputs)] = 1
    for place in system.times if order else ():
        values[place][1, :, 0] = 1
    put(system, expansion, points.values, columns)
    for k in orders(system, expansion, points.inverses, order):
        places = system.outputs if k else (*system.outputs, *system.conditions)
        yield np.stack([expansion.at(place, k) for place in places], axis=1)


def orders(system: System, expansion: Series, inverses: Any, order: int) -> Iterator[int]:
    """Orders 0, 1, ... to which all steps of a system are expanded in turn; variables at order 0
    and the steps that need no x' are there. inverses : of the Jacobian by x', (P, n, n)."""
    _first_order(system, expansion, inverses)
    yield 0
    for k in range(1, order + 1):
        arithmetic = expansion.arithmetic
        factor, values = arithmetic.number(Fraction(1, k)), expansion.values
        for x, rate in zip(system.states, system.rates, strict=True):
            values[x][k] = arithmetic.reduced(values[rate][k - 1] * factor)
        expansion.go(system.before, k)
        _solve(system, expansion, inverses, k)
        expansion.go(system.after, k)
        yield k


def _first_order(system: System, expansion: Series, inverses: Any) -> None:
    values = expansion.values
    for x, explicit in zip(system.rates, system.explicit, strict=False):
        values[x][0] = values[explicit][0]
    if system.equations:
        expansion.start(system.solving)
        _corrected(system, expansion, inverses, 0)
    expansion.start(system.solving)
    expansion.start(system.after)


def _solve(system: System, expansion: Series, inverses: Any, k: int) -> None:
    """x' at order k: at first its value, then its tangents, then all steps of the equations."""
    values = expansion.values
    for x, explicit in zip(system.rates, system.explicit, strict=False):
        values[x][k] = values[explicit][k]
    for _ in range(2 * bool(system.equations)):
        expansion.go(system.solving, k)
        _corrected(system, expansion, inverses, k)
    expansion.go(system.solving, k)


def _corrected(system: System, expansion: Series, inverses: Any, k: int) -> None:
    arithmetic = expansion.arithmetic
    left = np.stack([expansion.at(e, k) for e in system.equations], axis=1)
    change = arithmetic.product(inverses, left)
    for j, rate in enumerate(system.rates):
        series = expansion.values[rate]
        series[k] = arithmetic.reduced(series[k] - change[:, j])
