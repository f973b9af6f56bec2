"""Warnings of the package, and a block in which its own are left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Whether a caller in this thread, or task of asyncio, says in another way what would be warned of.
_QUIET: ContextVar[bool] = ContextVar("kinesym_quiet", default=False)


def warn(words: str, stacklevel: int = 1) -> None:
    """Warn as `warnings.warn` does, unless this is called within `quietly`."""
    if not _QUIET.get():
        warnings.warn(words, stacklevel=stacklevel + 1)


@contextmanager
def quietly() -> Iterator[None]:
    """A block in which `warn` says nothing.

    `warnings.catch_warnings` would mute the whole process while the block runs: other threads, and
    code of the user that is called in it.
    """
    before = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(before)
