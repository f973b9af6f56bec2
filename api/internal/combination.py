"""Combinations of estimates and of states at the ends of a trial, with their derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.checks import suggest
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.names import name_of
from kinesym.symbolic.objective import at_end, at_start


class Combination(NamedTuple):
    """A value, and its derivatives by parameters, and by states at the start and at the end, by
    name."""

    value: float
    parameters: Mapping[str, float]
    starts: Mapping[str, float]
    ends: Mapping[str, float]


def combination(expression: Any, run: Trajectory) -> Combination:
    """Of an expression in parameters, `at_start(...)` and `at_end(...)` of states, at a trajectory.

    Raises `ValueError` for what is none, and for anything else in it.
    """
    given = real_expression(expression, "the combination", "such as b/(2*sqrt(k))")
    sides: dict[str, dict[str, sp.Symbol]] = {"start": {}, "end": {}}
    for end in sorted(given.atoms(at_start, at_end), key=str):
        symbols = sides["start" if isinstance(end, at_start) else "end"]
        moved = {x: _symbol(symbols, x, run) for x in end.args[0].atoms(AppliedUndef)}
        given = given.xreplace({end: end.args[0].xreplace(moved)})
    loose = sorted(given.atoms(AppliedUndef, sp.Derivative), key=str)
    if loose:
        raise ValueError(f"the combination contains {loose[0]}; write ks.at_end({loose[0]})")
    own = {s for symbols in sides.values() for s in symbols.values()}
    parameters = {name_of(p): p for p in given.free_symbols - own}
    for name in parameters:
        if name not in run.parameters:
            words = suggest(name, run.parameters)
            raise ValueError(f"the combination contains {name}, which is no parameter; {words}")
    numbers = {p: run.parameters[name] for name, p in parameters.items()}
    numbers |= {s: float(run.states[x][0]) for x, s in sides["start"].items()}
    numbers |= {s: float(run.states[x][-1]) for x, s in sides["end"].items()}

    def slopes(symbols: Mapping[str, sp.Symbol]) -> dict[str, float]:
        return {name: float(given.diff(s).xreplace(numbers)) for name, s in symbols.items()}

    value = float(given.xreplace(numbers))
    return Combination(value, *map(slopes, (parameters, sides["start"], sides["end"])))


def _symbol(symbols: dict[str, sp.Symbol], x: AppliedUndef, run: Trajectory) -> sp.Symbol:
    name = name_of(x)
    if name not in run.states:
        raise ValueError(f"the combination contains {name}, which is no state of {run.model}")
    return symbols.setdefault(name, sp.Dummy(name, real=True))
