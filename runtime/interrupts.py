"""Interrupts: Ctrl-C as a flag, so that results so far are returned instead of lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible(flag: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event, `flag` or a new one, that the first Ctrl-C sets; the second one raises. Nothing
    sets it outside the main thread, or where Ctrl-C is ignored, as in background jobs."""
    flag = flag or threading.Event()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        yield flag
        return

    def first(number: int, frame: FrameType | None) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, first)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, previous)
