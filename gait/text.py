"""Text tables with names of columns: what is wrong in a file is said with its line and column."""

from __future__ import annotations

import csv
import gzip
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.gait.markers import uniform

Array = NDArray[np.float64]


class Readable(Protocol):
    """A file inside a package, as `importlib.resources.files` finds it."""

    def is_file(self) -> bool:
        """Whether it is there."""

    def read_bytes(self) -> bytes:
        """All of it."""


File: TypeAlias = str | Path | Readable


def text_of(path: File) -> str:
    """A text file, which may be compressed."""
    file = Path(path) if isinstance(path, str) else path
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    raw = file.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path} is damaged: it cannot be decompressed ({error}); take another copy"
            ) from error
    zero = raw.find(b"\0")
    if 0 <= zero < 4096:
        raise ValueError(f"{path} is no text; read_c3d reads C3D files")
    if zero >= 0:
        line = raw.count(b"\n", 0, zero) + 1
        raise ValueError(
            f"{path} is damaged: line {line} holds bytes that are zero; take another copy"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # names of older systems
        return raw.decode("latin-1")


def lines_of(path: File) -> list[str]:
    """Its lines."""
    return text_of(path).splitlines()


def check_count(path: File, fact: str, said: str, found: int, text: str) -> None:
    """Compare the number of rows with what the header says: warn of a file that is cut short, and
    raise `ValueError` if that may be within a number."""
    count = number(said)
    if count is None or not found < count:
        return
    short = f"{path} is cut short: its header says {fact} = {count:g}, there are {found} rows"
    if not text.endswith(("\n", "\r")):
        raise ValueError(
            f"{short}, and the last line has no end; remove it, or end it with a line "
            "break if it is whole"
        )
    warnings.warn(short, stacklevel=3)


def csv_rows(path: File) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Names of columns, and number and cells of each further line."""
    lines = lines_of(path)
    if not lines or "," not in lines[0]:
        raise ValueError(f"{path} is no CSV file: line 1 must hold names of columns between commas")
    reader, rows = csv.reader(lines), []
    try:
        for row in reader:
            rows.append((reader.line_num, row))
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}; repair or remove it") from error
    return [name.strip() for name in rows[0][1]], (row for row in rows[1:] if row[1])


def records(path: File) -> list[dict[str, str]]:
    """Rows of a CSV file, cells by the names of columns."""
    names, rows = csv_rows(path)
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: a column occurs twice in {', '.join(names)}; rename it")
    return [
        dict(zip(names, _fitting(path, names, line, cells), strict=True)) for line, cells in rows
    ]


def over_time(
    path: File, names: Sequence[str], rows: Iterator[tuple[int, list[str]]]
) -> tuple[Array, dict[str, Array]]:
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
        raise ValueError(
            f"{path}, row {k + 1}: time must increase, got {time[k]:g} s; remove what "
            "is repeated or out of order"
        )
    try:
        return uniform(time), columns  # without the rounding of the file
    except ValueError:
        return time, columns  # markers refuse it, a table may have it


def numbers_of(path: File, names: Sequence[str], rows: Iterator[tuple[int, list[str]]]) -> Array:
    """Cells as numbers, one row of the result per column; what is empty is NaN."""
    table = []
    for line, given in rows:
        cells = _fitting(path, names, line, given)
        try:
            row = [float(cell) if cell.strip() else np.nan for cell in cells]
            if np.isinf(row).any() or "_" in "".join(cells):  # Python reads 1_000 as 1000
                raise ValueError
            table.append(row)
        except ValueError:
            k = next(k for k, cell in enumerate(cells) if cell.strip() and number(cell) is None)
            raise ValueError(
                f"{path}, line {line}, column {names[k]}: {cells[k]!r} is no number; "
                "leave the cell empty if it is missing"
            ) from None
    if not table:
        raise ValueError(f"{path} holds no data below its header")
    return np.array(table).T


def _fitting(path: File, names: Sequence[str], line: int, cells: list[str]) -> list[str]:
    """One cell for each column."""
    while len(cells) > len(names) and not cells[-1].strip():  # a tabulator at the end
        cells = cells[:-1]
    if len(cells) != len(names):
        raise ValueError(
            f"{path}, line {line} has {len(cells)} cells, not {len(names)} as there "
            "are columns; repair or remove it"
        )
    return cells


def number(text: str) -> float | None:
    """A number that is not infinite (NaN is one here), or nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if np.isinf(value) or "_" in text else value


def unique(path: File, names: Sequence[str], rows: Array) -> Iterator[tuple[str, Array]]:
    """Names with rows; raises `ValueError` for a name that comes twice or is empty."""
    seen: set[str] = set()
    for name, row in zip(names, rows, strict=True):
        if not name or name in seen:
            raise ValueError(
                f"{path}: the name {name!r} {'occurs twice' if name else 'is empty'}; "
                "rename the column or marker in the file"
            )
        seen.add(name)
        yield name, row
