"""Values that conditions fix, and straight lines between them as a first guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.phases import Posed, Row
from kinesym.runtime.arrays import Array
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import at_end, at_start

#: Values by time, -inf for the start and inf for the end of a trial, by name.
Fixed = Mapping[str, Mapping[float, float]]


def fixed_values(given: Posed, known: Sequence[Mapping[str, float]]) -> list[Fixed]:
    """Values that conditions fix, by trial: of equations with one trajectory at one time, in which
    it is linear, and otherwise known parameters only."""
    found: list[Fixed] = []
    for number, values in enumerate(known):
        fixed: dict[str, dict[float, float]] = {}
        for row in (*given.boundary, *given.path):
            for name, time, value in _of_condition(row, number, values):
                fixed.setdefault(name, {})[time] = value
        found.append(fixed)
    return found


def _of_condition(
    row: Row, number: int, known: Mapping[str, float]
) -> Iterable[tuple[str, float, float]]:
    """Name, time and value of the trajectory that a condition fixes, if it does."""
    low, high = row.bounds[number]
    if row.expression is None or low != high:
        return
    ends = row.expression.atoms(at_start, at_end)
    atoms = ends or row.expression.atoms(AppliedUndef)
    if len(atoms) != 1 or (not ends and row.span[0] != row.span[1]):
        return
    (atom,) = atoms
    x = atom.args[0] if ends else atom
    if not isinstance(x, AppliedUndef):
        return
    at = sp.Dummy()
    table = {s: known[name_of(s)] for s in row.expression.free_symbols if name_of(s) in known}
    expression = row.expression.xreplace({atom: at}).xreplace(table)
    slope, rest = expression.diff(at), expression.xreplace({at: sp.S.Zero})
    if slope.is_number and slope.is_finite and not slope.is_zero and rest.is_number:
        times = {at_start: -np.inf, at_end: np.inf}
        value = float((low - rest) / slope)
        if np.isfinite(value):
            yield name_of(x), times.get(atom.func, row.span[0]), value


def straight_lines(fixed: Fixed, grid: Array) -> dict[str, Array]:
    """Trajectories over a grid, by name: lines from value to value, constant beyond them."""
    rows = {}
    for name, values in fixed.items():
        times = sorted(values)
        places = np.clip(times, grid[0], grid[-1])
        rows[name] = np.interp(grid, places, [values[time] for time in times])
    return rows
