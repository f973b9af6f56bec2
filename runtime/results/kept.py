"""Protection of solutions from errors in computations about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def kept(what: str, ask: Callable[[], _T], otherwise: Callable[[list[str]], _T]) -> _T:
    """Result of a computation about a solution; if it fails, a substitute made from a message with
    the reason. what : subject of the message, in the plural. Ctrl-C is no failure."""
    try:
        return ask()
    except Exception as error:
        why = f"{type(error).__name__}: {error}".removesuffix(": ")
        return otherwise([f"{what} could not be computed ({why}); the solution stands without"])
