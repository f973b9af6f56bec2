"""Single-threaded BLAS for IPOPT, which calls it for vectors only.

OpenBLAS splits vectors of more than some ten thousand numbers among all processors, and its threads
wait for the next one by spinning: that takes longer than one thread does, and takes processors from
the evaluation.
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from kinesym.runtime.ipopt.shared import Shared


class Blas:
    """The OpenBLAS to which a library is linked; another BLAS is left as it is.

    Its number of threads is one for the whole process: the first of several solves at once sets it
    to 1, the last restores it.
    """

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._get: Any = getattr(library, "openblas_get_num_threads", None)
        self._set: Any = getattr(library, "openblas_set_num_threads", None)
        self._before, self._solves = 0, Shared(self._begin, self._end)

    @property
    def threads(self) -> int:
        """Number of BLAS threads; 0 if this is no OpenBLAS."""
        return int(self._get()) if self._get else 0

    def one_thread(self) -> AbstractContextManager[None]:
        """Calls within have one thread."""
        return nullcontext() if self._get is None or self._set is None else self._solves.used()

    def _begin(self) -> None:
        self._before = self.threads
        self._set(1)

    def _end(self) -> None:
        self._set(self._before)


@cache
def blas_of(path: str) -> Blas:
    """The BLAS of the library at a path."""
    return Blas(path)
