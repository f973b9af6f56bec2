"""Results as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kinesym.runtime.arrays import Array


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names with commas, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def aligned(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """Lines of a table in columns; left : numbers of those that are flush left."""
    columns = []
    for k, cells in enumerate(zip(*rows, strict=True)):
        width = max(map(len, cells))
        columns.append([c.ljust(width) if k in left else c.rjust(width) for c in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def samples(time: Array) -> str:
    """Summary of the samples of a grid (N,) [s]: their number, first and last time."""
    return f"{len(time)} samples, t = {time[0]:g} ... {time[-1]:g} s"


def in_errors(ratio: str) -> str:
    """Number of standard errors, in words."""
    return f"{ratio} standard error{'s' * (ratio != '1')}"
