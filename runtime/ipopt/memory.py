"""Memory that one large solve frees, for the same solve again.

IPOPT makes new matrices and vectors in each iteration. Blocks of megabytes glibc returns to the
system when they are freed, and the next ones have to be cleared by it: at a million nodes a third
of the time.
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from kinesym.runtime.ipopt.shared import Shared

_LARGE = 1_000_000  # variables and constraints
#: Parameters of mallopt, numbers of malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_MMAP_MAX = -4

#: During a large solve; after it: as glibc sets them itself once large blocks were freed.
_KEEP = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1}
_AFTER = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}


class Heap:
    """Heap of glibc, of this process; another one is left as it is."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._set: Any = getattr(library, "mallopt", None)
        self._trim: Any = getattr(library, "malloc_trim", None)
        self._solves = Shared(self._begin, self._end)

    def kept(self, order: int) -> AbstractContextManager[None]:
        """Keep freed blocks for reuse while solves run, if there are so many unknowns that this
        saves time; the last of several solves at once returns them to the system."""
        able = self._set is not None and self._trim is not None
        return self._solves.used() if able and order >= _LARGE else nullcontext()

    def _begin(self) -> None:
        self._choose(_KEEP)

    def _end(self) -> None:
        self._choose(_AFTER)
        self._trim(0)

    def _choose(self, options: dict[int, int]) -> None:
        for option, value in options.items():
            self._set(option, value)


@cache
def heap() -> Heap:
    """The one of this process."""
    return Heap()
