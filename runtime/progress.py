"""Bars and lines of long work on a terminal and in a notebook; silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from tqdm import tqdm

_TICK = 0.5  # s


@dataclass(frozen=True)
class Iteration:
    """State of a solver after one iteration."""

    number: int
    objective: float
    infeasibility: float
    optimality: float


def counted(iterations: int) -> str:
    """Words on how many there were, as in "converged after 7 iterations"."""
    return f"after {iterations} iteration{'' if iterations == 1 else 's'}"


def _shown(show: bool | None) -> bool:
    """`None` shows on a terminal and in a notebook only; nothing shows where there is no standard
    error, as in a daemon."""
    error = sys.stderr
    if error is None or error.closed:
        return False
    return error.isatty() or _in_notebook() if show is None else show


def _in_notebook() -> bool:
    """Whether this is a kernel of Jupyter, whose page has lines that are written over, too."""
    python = sys.modules.get("IPython")  # a kernel has imported it
    return getattr(python and python.get_ipython(), "kernel", None) is not None


def _bar(show: bool | None, **options: Any) -> Any:
    """Progress bar: a line that is overwritten, ten times a second at most, and removed at the end;
    work that ends within half a second shows none."""
    return tqdm(disable=not _shown(show), leave=False, delay=0.5, **options)


def say(show: bool | None, line: str) -> None:
    """A line that stays, above a bar."""
    if _shown(show):
        tqdm.write(line, file=sys.stderr)


@contextmanager
def iteration_line(show: bool | None) -> Iterator[Callable[[Iteration], None]]:
    """A function that shows an iteration."""
    with _bar(show, miniters=1, bar_format="{desc} [{elapsed}]") as line:

        def report(step: Iteration) -> None:
            line.set_description_str(
                f"iteration {step.number}: objective {step.objective:.6g}, "
                f"infeasibility {step.infeasibility:.1e}, optimality {step.optimality:.1e}",
                refresh=False,
            )
            line.update()

        yield report


@contextmanager
def waiting_line(what: str, show: bool | None = None) -> Iterator[None]:
    """Waiting line: the seconds that pass in work whose progress is unknown."""
    if not _shown(show):
        yield
        return
    ended = Event()
    with _bar(show, miniters=1, desc=what, bar_format="{desc} [{elapsed}]") as line:

        def tick() -> None:
            while not ended.wait(_TICK):
                line.update()

        clock = Thread(target=tick, daemon=True)
        clock.start()
        try:
            yield
        finally:
            ended.set()
            clock.join()


@contextmanager
def node_bar(total: int, show: bool | None) -> Iterator[Callable[[int], object]]:
    """A function that counts nodes."""
    if not _shown(show):  # a bar takes as long as a short simulation
        yield lambda count: None
        return
    with _bar(show, total=total, unit=" nodes", unit_scale=True) as bar:
        yield bar.update


@contextmanager
def time_bar(begin: float, end: float, show: bool | None) -> Iterator[Callable[[float], object]]:
    """Progress bar over time: a function that receives the time reached [s]."""
    if not _shown(show):
        yield lambda now: None
        return
    form = "{l_bar}{bar}| {n:.3g}/{total:.3g} s [{elapsed}<{remaining}]"
    with _bar(show, total=end - begin, bar_format=form) as bar:
        yield lambda now: bar.update(now - begin - bar.n)


@contextmanager
def task_bar(
    total: int, show: bool | None, what: str = "tasks"
) -> Iterator[Callable[[int, int], object]]:
    """Progress bar over tasks: a function that counts them, and receives the number that failed."""
    with _bar(show, total=total, unit=f" {what}") as bar:

        def report(count: int, failures: int) -> None:
            if failures:
                bar.set_postfix_str(f"{failures} failed", refresh=False)
            bar.update(count)

        yield report
