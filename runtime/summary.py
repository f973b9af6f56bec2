"""Results as text and as tables of a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from kinesym.runtime.arrays import Array


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names with commas, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def samples(time: Array) -> str:
    """How many instants (N,) [s] there are, and from when to when."""
    return f"{len(time)} samples, t = {time[0]:g} ... {time[-1]:g} s"


def html_table(title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table below its title, the first cell of each row in bold; text is escaped."""

    def row(cells: Sequence[str], headed: int) -> str:
        kinds = ["th" if k < headed else "td" for k in range(len(cells))]
        return "".join(
            f'<{kind} style="text-align: left">{html.escape(cell)}</{kind}>'
            for kind, cell in zip(kinds, cells, strict=True)
        )

    body = [row(head, len(head)), *(row(cells, 1) for cells in rows)]
    lines = "".join(f"<tr>{cells}</tr>" for cells in body if cells)
    return f"<div>{html.escape(title)}</div><table>{lines}</table>"


def in_errors(ratio: str) -> str:
    """So many standard errors, in words."""
    return f"{ratio} standard error{'s' * (ratio != '1')}"
