"""Names of what is given by symbol or by name."""

from __future__ import annotations

from typing import Any

from kinesym.base.checks import mapping, shown


def key_name(key: object) -> str:
    """The name of a symbol (anything with a `name`) or of a string."""
    name = key if isinstance(key, str) else getattr(key, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"{shown(key)} is neither a name nor a symbol")
    return name


def by_name(what: str, given: Any) -> dict[str, Any]:
    """`given` by name; raises `ValueError` if it is no mapping or names something twice."""
    found: dict[str, Any] = {}
    for key, value in mapping(given, what).items():
        try:
            name = key_name(key)
        except TypeError as error:
            raise ValueError(f"{what}: {error}") from error
        if name in found:
            raise ValueError(f"{what}: {name} is given twice, by symbol and by name")
        found[name] = value
    return found
