"""One thread for the BLAS that IPOPT calls, where vectors are all that it is called for.

OpenBLAS splits vectors of more than some ten thousand numbers among all processors, and its threads
wait for the next one by spinning: that takes longer than one thread does, and takes processors from
the evaluation.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


class Blas:
    """The OpenBLAS to which a library is linked; another BLAS is left as it is.

    Its number of threads is one for the whole process: the first of several solves at once sets it
    to 1, the last restores it.
    """

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._get = getattr(library, "openblas_get_num_threads", None)
        self._set = getattr(library, "openblas_set_num_threads", None)
        self._lock, self._users, self._before = threading.Lock(), 0, 0

    @property
    def threads(self) -> int:
        """Their number; 0 if this is no OpenBLAS."""
        return int(self._get()) if self._get else 0

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Calls within have one thread."""
        if self._get is None or self._set is None:
            yield
            return
        with self._lock:
            if self._users == 0:
                self._before = self._get()
                self._set(1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._set(self._before)


@cache
def blas_of(path: str) -> Blas:
    """The BLAS of the library at a path."""
    return Blas(path)
