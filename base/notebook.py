"""Display of results and problems as the value of a notebook's cell, with units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape


class Displayed:
    """Shown in a notebook as what `str` says: a title, and below it a table of what is in columns,
    or lines as they are."""

    def _repr_html_(self) -> str:
        title, *lines = _unwrapped(str(self)).splitlines() or [""]
        rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
        width = max(map(len, rows), default=0)
        if all(len(row) > 1 for row in rows):
            return html_table(title, ([*row, *[""] * (width - len(row))] for row in rows))
        return f"<div>{escape(title)}</div><pre>{escape(chr(10).join(lines))}</pre>"


def html_table(title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table below its title, the first cell of each row in bold; text is escaped."""

    def row(cells: Sequence[str], headed: int) -> str:
        kinds = ["th" if k < headed else "td" for k in range(len(cells))]
        return "".join(
            f'<{kind} style="text-align: left">{escape(cell)}</{kind}>'
            for kind, cell in zip(kinds, cells, strict=True)
        )

    body = [row(head, len(head)), *(row(cells, 1) for cells in rows)]
    lines = "".join(f"<tr>{cells}</tr>" for cells in body if cells)
    table = f"<table>{lines}</table>" if lines else ""
    return f"<div>{escape(title)}</div>{table}"


def with_unit(name: str, units: Mapping[str, str]) -> str:
    """A name with its unit if that is known."""
    return f"{name} [{units[name]}]" if units.get(name) else name


def _unwrapped(text: str) -> str:
    """Text without the angle brackets of a `repr`."""
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text
