"""What users hand over: lists, mappings and names, and how a message shows what is none."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np


def shown(value: Any) -> str:
    """`value` in a message: on one line, not too long, functions and the like by their names."""
    if getattr(value, "__name__", "") == "<lambda>":
        return "a function"
    if callable(value) and hasattr(value, "__name__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return f"an object of type {type(value).__name__}"
    try:
        if isinstance(value, Integral) and abs(int(value)) >= 10**20:
            return f"{Decimal(int(value)):.3e}"
        text = " ".join(repr(value).split())
    except ValueError:  # it holds an integer of thousands of digits
        return f"something of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def suggest(name: object, known: Iterable[str]) -> str:
    """A sentence fragment that helps after a misspelt name: near matches or all known names."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are: {', '.join(names)}" if names else "none are declared"


def mapping(value: Any, what: str, of: str = "{name: value}") -> Mapping[Any, Any]:
    """`value` if it is a mapping; raises `ValueError` naming `what` for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a mapping {of}, got {shown(value)}")
    return value


def listed(value: Any, what: str) -> tuple[Any, ...]:
    """The entries of a list; raises `ValueError` naming `what` for a single thing, and for what has
    no order."""
    if (
        not isinstance(value, Iterable)
        or isinstance(value, (str, bytes, Mapping, Set))
        or (isinstance(value, np.ndarray) and value.ndim == 0)
    ):
        raise ValueError(f"{what} must be a list, got {shown(value)}")
    return tuple(value)


def listed_of(value: Any, kind: type, what: str) -> tuple[Any, ...]:
    """The entries of a list of one kind; raises `ValueError` naming `what` for anything else."""
    single = isinstance(value, (str, Mapping)) or not isinstance(value, Iterable)
    rows = () if single else tuple(value)
    if single or not all(isinstance(row, kind) for row in rows):
        raise ValueError(f"{what} must be a list of {kind.__name__}(...), got {shown(value)}")
    return rows


def check_kind(value: Any, kind: type, where: str) -> None:
    """Raise `ValueError` for what is not of a kind, such as `Model` of `kinesym`."""
    if not isinstance(value, kind):
        raise ValueError(f"expected a {where}.{kind.__name__}, got {shown(value)}")


def check_flag(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` for anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{what} is True or False, got {shown(value)}")


def check_text(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` for anything but text that can be read."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be text that is not empty, got {shown(value)}")
    for letter in value:
        if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp"):
            raise ValueError(f"{what}, {value!r}, contains the control character {letter!r}")


def check_identifier(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` for a name that others are made of, if it is none."""
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"{what} must be letters, digits and underscores, got {shown(value)}")


def check_name(value: Any, what: str) -> None:
    """The same for the name of a symbol, which does not begin with a digit either."""
    check_text(value, what)
    if value[0].isdigit():
        raise ValueError(f"{what} must not begin with a digit, got {value!r}")
