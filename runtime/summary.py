"""Results as text."""

from __future__ import annotations

from collections.abc import Iterable

from kinesym.runtime.arrays import Array


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names with commas, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def samples(time: Array) -> str:
    """Summary of the samples of a grid (N,) [s]: their number, first and last time."""
    return f"{len(time)} samples, t = {time[0]:g} ... {time[-1]:g} s"


def in_errors(ratio: str) -> str:
    """Number of standard errors, in words."""
    return f"{ratio} standard error{'s' * (ratio != '1')}"
