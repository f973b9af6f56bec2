"""Solutions are kept, whatever goes wrong with what is computed about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def kept(what: str, ask: Callable[[], _T], otherwise: Callable[[list[str]], _T]) -> _T:
    """What is asked about a solution; where that fails, what stands for it, from a sentence with
    the reason. what : that it is about, in the plural. Ctrl-C is no failure."""
    try:
        return ask()
    except Exception as error:
        why = f"{type(error).__name__}: {error}".removesuffix(": ")
        return otherwise([f"{what} could not be computed ({why}); the solution stands without"])
