"""A line per solve and a bar per simulation on a terminal; silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from kinesym.runtime.ipopt.driver import Iteration


def _shown(show: bool | None) -> bool:
    """`None` shows on a terminal only."""
    return sys.stderr.isatty() if show is None else show


def _bar(show: bool | None, **options: Any) -> Any:
    """A bar that is removed at the end; `None` shows it only if stderr is a terminal."""
    return tqdm(disable=not _shown(show), leave=False, **options)


def say(show: bool | None, line: str) -> None:
    """A line that stays; `None` shows it only on a terminal."""
    if _shown(show):
        print(line, file=sys.stderr)


@contextmanager
def iteration_line(show: bool | None) -> Iterator[Callable[[Iteration], None]]:
    """A function that shows an iteration; `None` shows it only on a terminal."""
    with _bar(show, unit="", bar_format="{desc} [{elapsed}]") as line:

        def report(step: Iteration) -> None:
            line.set_description_str(
                f"iteration {step.number}: objective {step.objective:.6g}, "
                f"infeasibility {step.infeasibility:.1e}, optimality {step.optimality:.1e}"
            )

        yield report


@contextmanager
def node_bar(total: int, show: bool | None) -> Iterator[Callable[[int], object]]:
    """A function that counts nodes; shown after half a second, `None` only on a terminal."""
    if not _shown(show):  # a bar takes as long as a short simulation
        yield lambda count: None
        return
    with _bar(show, total=total, unit=" nodes", unit_scale=True, delay=0.5) as bar:
        yield bar.update


@contextmanager
def time_bar(begin: float, end: float, show: bool | None) -> Iterator[Callable[[float], object]]:
    """A function that is told the time reached [s]; shown as `node_bar`."""
    if not _shown(show):
        yield lambda now: None
        return
    form = "{l_bar}{bar}| {n:.3g}/{total:.3g} s [{elapsed}<{remaining}]"
    with _bar(show, total=end - begin, bar_format=form, delay=0.5) as bar:
        yield lambda now: bar.update(now - begin - bar.n)


@contextmanager
def task_bar(total: int, show: bool | None) -> Iterator[Callable[[int, int], object]]:
    """A function that counts tasks, and is told how many of all have failed; shown as
    `node_bar`."""
    with _bar(show, total=total, unit=" tasks") as bar:

        def report(count: int, failures: int) -> None:
            bar.update(count)
            if failures:
                bar.set_postfix_str(f"{failures} failed")

        yield report
