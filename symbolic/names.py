"""Names of symbols, and the one place where a symbol may be given by its name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.physics.mechanics import dynamicsymbols

#: Time, the one that `sympy.physics.mechanics` uses.
t: sp.Symbol = dynamicsymbols._t

Value = TypeVar("Value")


def name_of(key: object) -> str:
    """The name of a symbol or function of time; a string is its own name.

    Raises `TypeError` for anything else.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, (sp.Symbol, AppliedUndef)):
        return str(key.name)
    raise TypeError(f"{key!r} is neither a name nor a symbol")


def suggest(name: str, known: Iterable[str]) -> str:
    """A sentence fragment that helps after a misspelt name: near matches or all known names."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are: {', '.join(names)}" if names else "none are declared"


def by_name(given: Mapping[object, Value], known: Iterable[str], what: str) -> dict[str, Value]:
    """`given` keyed by name; every key must be among `known`.

    Raises `ValueError` naming the key that is unknown or given twice.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be a mapping {{name: value}}, got {given!r}")
    names = list(known)
    result: dict[str, Value] = {}
    for key, value in given.items():
        name = name_of(key)
        if name not in names:
            raise ValueError(f"{what}: {name} is unknown; {suggest(name, names)}")
        if name in result:
            raise ValueError(f"{what}: {name} is given twice")
        result[name] = value
    return result
