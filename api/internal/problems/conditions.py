"""Conditions on a motion: expressions and their bounds, at the ends, on the way, at some times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from kinesym.base.checks import finite, listed, shown
from kinesym.runtime.nlp.bounds import ALWAYS
from kinesym.runtime.signals.corridor import bound_pair
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.names import t


class During(NamedTuple):
    """Path condition that holds between two times; see `during`."""

    span: tuple[float, float]
    condition: Any


def during(span: Sequence[float], condition: Any) -> During:
    """A path condition that holds from a time to another one only [s], as shares of a duration that
    is unknown: `path=[ks.during((0.2, 0.4), theta <= 0.1)]`. It holds at the nodes and stages that
    are between, which there must be in every trial. Raises `ValueError` for what is no span."""
    rows = listed(span, "the span of ks.during")
    if len(rows) != 2:
        raise ValueError(f"the span of ks.during is (begin, end), got {shown(span)}")
    begin, end = (finite(value, "a time of ks.during") for value in rows)
    if not begin <= end:
        raise ValueError(f"the span of ks.during ends before it begins: {begin:g} > {end:g}")
    return During((begin, end), condition)


class At(NamedTuple):
    """Path condition that holds at a time that is a parameter; see `at`."""

    time: sp.Symbol
    condition: Any


def at(time: Any, condition: Any) -> During | At:
    """A path condition that holds at one time [s], which must be that of a node, or at a share of a
    duration that is unknown: `path=[ks.at(0.3, x - 0.5)]`; see `during`.

    time : also a symbol, a parameter of the problem [s], known or unknown: `path=[ks.at(tau, x -
    0.5)]` with `unknown={tau: (0.1, 0.6)}`. The condition then holds wherever that is, on the
    polynomials of the scheme, and may contain states, inputs, x' and expressions of these. An input
    that may jump meets one at a single time at no cost, so that this determines no time.
    """
    if isinstance(time, sp.Symbol):
        return At(time, condition)
    return During((finite(time, "the time of ks.at"),) * 2, condition)


class Condition(NamedTuple):
    """Expression and its bounds; span : of the times at which it holds."""

    expression: sp.Expr
    low: float = 0.0
    high: float = 0.0
    span: tuple[float, float] = ALWAYS


def check_times(expression: sp.Expr, what: str) -> None:
    """Raise `ValueError` for a function at another time than t, such as x(0.5)."""
    for atom in sorted(expression.atoms(AppliedUndef, sp.Subs), key=str):
        of_state = isinstance(atom, AppliedUndef) and atom.args[0].atoms(AppliedUndef)  # f(x)
        if isinstance(atom, sp.Subs) or (atom.args != (t,) and not of_state):
            raise ValueError(
                f"{what} contains {atom}, a value at another time. Conditions are on at_start(...) "
                "and at_end(...), or hold at every node (path), at some of them by path=[ks.at("
                "time, condition)] or path=[ks.during((begin, end), condition)]"
            )


def conditions(given: Sequence[Any], what: str) -> tuple[Condition, ...]:
    """Conditions of a list: expressions, (expression, low, high), relations of SymPy."""
    if not isinstance(given, (list, tuple)):
        raise ValueError(f"{what}s must be a list, got {shown(given)}; a single one: [...]")
    found = []
    for number, condition in enumerate(given):
        if isinstance(condition, Condition):
            found.append(condition)
            continue
        name, span = f"{what} {number}", ALWAYS
        if isinstance(condition, During | At):
            if what != "path condition":
                raise ValueError(f"{name} is one at a time inside a trial; it belongs in path")
            span, condition = condition
        expression, pair = condition, (0.0, 0.0)
        if isinstance(condition, (tuple, list)):
            if len(condition) != 3:
                raise ValueError(f"{name} must be (expression, low, high)")
            expression, pair = condition[0], bound_pair(name, condition[1:])
        elif isinstance(condition, Relational):
            expression, pair = _relation(name, condition)
        hint = "write (expression, low, high), or one equation or inequality each, in a list"
        expression = real_expression(expression, name, hint)
        check_times(expression, name)
        if not expression.free_symbols:
            raise ValueError(
                f"{name}, {expression}, must be an expression that depends on something, or "
                "(expression, low, high); a single one goes into a list"
            )
        found.append(Condition(expression, *pair, span))
    return tuple(found)


def _relation(name: str, relation: Relational) -> tuple[sp.Expr, tuple[float, float]]:
    """Left side minus right side of a relation, with bounds."""
    for kinds, low, high in (
        (sp.Eq, 0.0, 0.0),
        ((sp.Le, sp.Lt), -np.inf, 0.0),
        ((sp.Ge, sp.Gt), 0.0, np.inf),
    ):
        if isinstance(relation, kinds):
            return relation.lhs - relation.rhs, (low, high)
    raise ValueError(f"{name}, {relation}, is neither an equation nor an inequality")
