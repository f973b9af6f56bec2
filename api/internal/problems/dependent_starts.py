"""Initial values that are given as expressions of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import suggest
from kinesym.runtime.simulation.following import Following
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.names import name_of
from kinesym.symbolic.table import NumericFunction


def following(given: Mapping[str, Any], parameters: Sequence[str]) -> Following | None:
    """Initial values, by state, that are expressions of parameters of these names; None if all are
    numbers. Raises `ValueError` for other symbols in them."""
    rules = {x: e for x, e in given.items() if isinstance(e, sp.Expr) and not e.is_number}
    if not rules:
        return None
    for x, e in rules.items():
        what = f"the initial value of state {x}"
        rules[x] = real_expression(e, what)
        for part in (*sorted(e.atoms(AppliedUndef), key=str), *sorted(e.free_symbols, key=str)):
            if isinstance(part, AppliedUndef) or name_of(part) not in parameters:
                raise ValueError(
                    f"{what} is {e}, but {part} is no parameter of the model; "
                    f"{suggest(name_of(part), parameters)}"
                )
    return functions_of(rules)


def functions_of(rules: Mapping[str, sp.Expr]) -> Following:
    """Values of states that are expressions, of parameters, states and time by their names."""
    signals = set[Any]().union(*(e.atoms(AppliedUndef) for e in rules.values()))
    plain = {x: sp.Symbol(name_of(x)) for x in signals}
    written = [e.xreplace(plain) for e in rules.values()]
    symbols = sorted(set[Any]().union(*(e.free_symbols for e in written)), key=name_of)
    slopes = [[e.diff(p) for p in symbols] for e in written]
    function = NumericFunction(symbols, [written, slopes])
    return Following(list(rules), [name_of(p) for p in symbols], function)
