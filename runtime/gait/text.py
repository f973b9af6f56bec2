"""Text tables with names of columns: what is wrong in a file is said with its line and column."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.gait.markers import uniform

Array = NDArray[np.float64]


class Readable(Protocol):
    """A file inside a package, as `importlib.resources.files` finds it."""

    def is_file(self) -> bool:
        """Whether it is there."""

    def read_bytes(self) -> bytes:
        """All of it."""


File: TypeAlias = str | Path | Readable


def lines_of(path: File) -> list[str]:
    """Lines of a text file, which may be compressed."""
    file = Path(path) if isinstance(path, str) else path
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    raw = file.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if b"\0" in raw[:4096]:
        raise ValueError(f"{path} is no text; read_c3d reads C3D files")
    try:
        return raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:  # names of older systems
        return raw.decode("latin-1").splitlines()


def csv_rows(path: File) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Names of columns, and number and cells of each further line."""
    lines = lines_of(path)
    if not lines or "," not in lines[0]:
        raise ValueError(f"{path} is no CSV file: line 1 must hold names of columns between commas")
    names, *rows = csv.reader(lines)
    return [name.strip() for name in names], ((k, row) for k, row in enumerate(rows, 2) if row)


def over_time(
    path: File, names: Sequence[str], rows: Iterator[tuple[int, list[str]]]
) -> tuple[Array, dict[str, Array]]:  # fmt: skip
    """Time and the other columns."""
    clocks = [name for name in names if name.lower() in ("time", "time_s")]
    if not clocks:
        raise ValueError(f"{path} has no column time or time_s; there are {', '.join(names[:6])}")
    columns = dict(unique(path, names, numbers_of(path, names, rows)))
    time = columns.pop(clocks[0])
    bad = ~np.isfinite(time)
    bad[1:] |= ~(np.diff(time) > 0.0)
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(f"{path}, row {k + 1}: time must increase, got {time[k]:g} s; remove what "
                         "is repeated or out of order")  # fmt: skip
    try:
        return uniform(time), columns  # without the rounding of the file
    except ValueError:
        return time, columns  # markers refuse it, a table may have it


def numbers_of(path: File, names: Sequence[str], rows: Iterator[tuple[int, list[str]]]) -> Array:
    """Cells as numbers, one row of the result per column; what is empty is NaN."""
    table = []
    for line, cells in rows:
        while len(cells) > len(names) and not cells[-1].strip():  # a tabulator at the end
            cells = cells[:-1]
        if len(cells) != len(names):
            raise ValueError(f"{path}, line {line} has {len(cells)} cells, not {len(names)} as "
                             "there are columns; repair or remove it")  # fmt: skip
        try:
            row = [float(cell) if cell.strip() else np.nan for cell in cells]
            if np.isinf(row).any():
                raise ValueError
            table.append(row)
        except ValueError:
            k = next(k for k, cell in enumerate(cells) if cell.strip() and number(cell) is None)
            raise ValueError(f"{path}, line {line}, column {names[k]}: {cells[k]!r} is no number; "
                             "leave the cell empty if it is missing") from None  # fmt: skip
    if not table:
        raise ValueError(f"{path} holds no data below its header")
    return np.array(table).T


def number(text: str) -> float | None:
    """A number that is not infinite (NaN is one here), or nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if np.isinf(value) else value


def unique(path: File, names: Sequence[str], rows: Array) -> Iterator[tuple[str, Array]]:
    """Names with rows; raises `ValueError` for a name that comes twice or is empty."""
    seen: set[str] = set()
    for name, row in zip(names, rows, strict=True):
        if not name or name in seen:
            raise ValueError(f"{path}: the name {name!r} {'occurs twice' if name else 'is empty'}; "
                             "rename the column or marker in the file")  # fmt: skip
        seen.add(name)
        yield name, row
