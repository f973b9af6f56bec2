"""Memory of Python while large graphs are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause of the search for cycles of references, which expression graphs do not have: it looks
    at all their nodes again and again, a fifth of the time of a model of 40 links."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
