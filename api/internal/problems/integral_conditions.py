"""Conditions on integrals over a trial: the integrals become states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from kinesym.symbolic.derivation import fresh_name
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols
from kinesym.symbolic.objective import at_end, at_start, integral


def with_integrals(system: Any, boundary: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The model with a state `integral_1`, ... for each integral in boundary conditions, which is
    zero at the start, and the conditions with its value at the end.

    Raises `ValueError` for integrals in conditions of a hybrid model.
    """
    found = _integrals(boundary)
    if not found:
        return system, boundary
    if not isinstance(system, Model):
        raise ValueError(
            f"{found[0]} is a condition on an integral, which models with contacts do not take; "
            "make it a state of the model"
        )
    names: set[Any] = {*system.symbols, *system.outputs}
    table: dict[sp.Basic, sp.Expr] = {}
    states = []
    for number, part in enumerate(found, 1):
        states.append(dynamicsymbols(fresh_name(f"integral_{number}", names)))
        table[part] = at_end(states[-1])
    larger = system.extended({y: part.args[0] for y, part in zip(states, found, strict=True)})
    return larger, [*_exchanged(boundary, table), *(at_start(y) for y in states)]


def _integrals(given: Any) -> list[sp.Basic]:
    """Integrals in conditions, without repeats, in order."""
    found: dict[sp.Basic, None] = {}
    for row in _flat(given):
        found.update(dict.fromkeys(sorted(row.atoms(integral), key=sp.default_sort_key)))
    return list(found)


def _flat(given: Any) -> Iterable[sp.Basic]:
    if isinstance(given, sp.Basic):
        yield given
    elif isinstance(given, (list, tuple)):
        for row in given:
            yield from _flat(row)


def _exchanged(given: Any, table: dict[sp.Basic, sp.Expr]) -> Any:
    """Conditions with symbols exchanged, whatever they are given as."""
    if isinstance(given, sp.Basic):
        return given.xreplace(table)
    if isinstance(given, (list, tuple)):
        return type(given)(_exchanged(row, table) for row in given)
    return given
