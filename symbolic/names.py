"""Names of symbols, and the one place where a symbol may be given by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_known as check_known
from kinesym.base.checks import check_name, check_text, listed, mapping, shown
from kinesym.base.checks import suggest as suggest

#: Time, the symbol that `sympy.physics.mechanics` uses, too.
t: sp.Symbol = sp.Symbol("t")

Value = TypeVar("Value")


def name_of(key: object) -> str:
    """The name of a symbol or function of time; a string is its own name.

    Raises `TypeError` for anything else.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, (sp.Symbol, AppliedUndef)):
        return str(key.name)
    raise TypeError(f"{shown(key)} is neither a name nor a symbol")


def written(expression: sp.Expr, most: int) -> str:
    """An expression in a message, functions of time by their names; the number of its operations
    where they are more than `most`."""
    operations = sp.count_ops(expression)
    if operations > most:
        return f"... {operations} operations"
    text = str(expression)
    for function in expression.atoms(AppliedUndef):
        name = name_of(function).replace("\\", r"\\")  # no template
        text = re.sub(rf"(?<!\w){re.escape(str(function))}", name, text)
    return text


def dynamicsymbols(names: str | Iterable[str], level: int = 0, **assumptions: Any) -> Any:
    """Functions of time, equal to those of `sympy.physics.mechanics.dynamicsymbols`: one for a
    name, a list for several as in "x v" or "q_:3". level : of derivatives.

    Raises `ValueError` for what is no name.
    """
    given = [names] if isinstance(names, str) else listed(names, "the names of functions of time")
    if not given:
        raise ValueError("the names of functions of time must be text such as 'x v', got none")
    for text in given:
        check_text(text, "the names of functions of time")
    try:
        found = sp.symbols(names if isinstance(names, str) else given, cls=sp.Symbol)
    except ValueError as error:
        raise ValueError(f"the names of functions of time, {shown(names)}: {error}") from error
    for symbol in found if isinstance(found, (tuple, list)) else (found,):
        check_name(str(symbol), "the name of a function of time")
    made = sp.symbols(names, cls=sp.Function, **assumptions)
    several = isinstance(made, (tuple, list))
    functions = [f(t).diff(t, level) for f in (made if several else [made])]
    return functions if several else functions[0]


def names_of(given: Any, what: str) -> list[str]:
    """Names of a list of symbols or names; raises `ValueError` naming `what` for what is none, and
    for one that is given twice."""
    found: list[str] = []
    for key in listed(given, what):
        name = named(key, what)
        if name in found:
            raise ValueError(f"{what}: {name} is given twice")
        found.append(name)
    return found


def by_name(given: Mapping[Any, Value], known: Iterable[str] | None, what: str) -> dict[str, Value]:
    """`given` keyed by name; every key must be among `known`, unless that is None.

    Raises `ValueError` naming the key that is unknown or given twice.
    """
    names = None if known is None else list(known)
    result: dict[str, Value] = {}
    for key, value in mapping(given, what).items():
        name = named(key, what)
        if names is not None:
            check_known(name, names, f"{what}: {name} is unknown")
        if name in result:
            raise ValueError(f"{what}: {name} is given twice")
        result[name] = value
    return result


def named(key: Any, what: str) -> str:
    """`name_of`; raises `ValueError` naming `what` for anything else."""
    try:
        return name_of(key)
    except TypeError as error:
        raise ValueError(f"{what}: {error}") from error
