"""Process-wide settings that differ while solves run, shared by concurrent solves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Shared:
    """Calls `begin` before the first of several solves at once, and `end` after the last."""

    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._begin, self._end = begin, end
        self._lock, self._users = threading.Lock(), 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Context in which a solve runs."""
        with self._lock:
            if self._users == 0:
                self._begin()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._end()
