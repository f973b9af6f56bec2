"""Combinations of estimates and of states at the ends of a trial, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown, suggest
from kinesym.codegen.operations import OPERATIONS
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import at_end, at_start
from kinesym.symbolic.table import printable

#: Functions that SymPy would look for in the module math, which has not got them.
_NOT_OF_MATH = {row.of.__name__: row.value for row in OPERATIONS.values() if row.of and row.orders}

#: Origin of an argument of a combination (parameter, start, end), and its name.
Argument = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Combination:
    """A function of `arguments`: a "parameter", a state at the "start", one at the "end", by name.

    values : of the arguments at a trajectory, (k,). at : from them the value, its derivatives (k,)
    and second ones (k, k).
    """

    arguments: Sequence[Argument]
    values: Array
    at: Callable[[Array], tuple[float, Array, Array]]

    def partly(self, moving: Sequence[bool]) -> Callable[[Array], tuple[float, Array, Array]]:
        """Combination as a function of some of the arguments, the others fixed."""
        which = np.flatnonzero(moving)

        def at(some: Array) -> tuple[float, Array, Array]:
            every = self.values.copy()
            every[which] = some
            value, slopes, bends = self.at(every)
            return value, slopes[which], bends[np.ix_(which, which)]

        return at


def combination(expression: Any, run: Trajectory, values: Mapping[str, float]) -> Combination:
    """Combination of parameters, `at_start(...)` and `at_end(...)` of states, at a trajectory.
    values : estimates by their names, such as `k[s01]`, which symbols may have, too.

    Raises `ValueError` for what is no expression, and for other symbols in it.
    """
    given = real_expression(expression, "the combination", "such as b/(2*sqrt(k))")
    ends: dict[Argument, sp.Symbol] = {}
    for end in sorted(given.atoms(at_start, at_end), key=str):
        side = "start" if isinstance(end, at_start) else "end"
        moved = {x: _symbol(ends, side, x, run) for x in end.args[0].atoms(AppliedUndef)}
        given = given.xreplace({end: end.args[0].xreplace(moved)})
    loose = sorted(given.atoms(AppliedUndef, sp.Derivative), key=str)
    if loose:
        raise ValueError(f"the combination contains {loose[0]}; write ks.at_end({loose[0]})")
    parameters = sorted(given.free_symbols - set(ends.values()), key=name_of)
    for p in parameters:
        if name_of(p) not in {**values, **run.parameters}:
            words = suggest(name_of(p), {**run.parameters, **values})
            raise ValueError(
                f"the combination contains {name_of(p)}, which is no parameter; {words}"
            )
    symbols = {("parameter", name_of(p)): p for p in parameters} | ends
    rows = [_value(argument, run, values) for argument in symbols]
    return Combination(list(symbols), np.array(rows), _function(given, list(symbols.values())))


def _symbol(
    symbols: dict[Argument, sp.Symbol], side: str, x: AppliedUndef, run: Trajectory
) -> sp.Symbol:
    name = name_of(x)
    if name not in run.states:
        raise ValueError(f"the combination contains {name}, which is no state of {run.model}")
    return symbols.setdefault((side, name), sp.Dummy(name, real=True))


def _value(argument: Argument, run: Trajectory, values: Mapping[str, float]) -> float:
    where, name = argument
    if where == "parameter":
        return float({**values, **run.parameters}[name])
    return float(run.states[name][0 if where == "start" else -1])


def _function(
    expression: sp.Expr, symbols: Sequence[sp.Symbol]
) -> Callable[[Array], tuple[float, Array, Array]]:
    """Function of the symbols in turn: value, first and second derivatives."""
    slopes = [expression.diff(s) for s in symbols]
    bends = [[slope.diff(s) for s in symbols] for slope in slopes]
    every, known = printable([expression, slopes, bends])
    made = sp.lambdify(symbols, every, [known | _NOT_OF_MATH, "math"])
    k = len(symbols)

    def at(values: Array) -> tuple[float, Array, Array]:
        try:
            value, first, second = made(*map(float, values))
            slopes, bends = np.array(first, dtype=float), np.array(second, dtype=float)
            return float(value), slopes, bends.reshape(k, k)
        except (ValueError, TypeError, ArithmeticError) as error:  # complex numbers are a TypeError
            places = zip(symbols, values, strict=True)
            where = ", ".join(f"{symbol.name} = {value:g}" for symbol, value in places)
            words = f"the combination {shown(expression)} has no value or no slope at {where}"
            raise ValueError(words) from error

    return at
