"""Text tables with names of columns: what is wrong in a file is said with its line and column."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from kinesym.gait.markers import uniform
from kinesym.runtime.arrays import Array


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


def cells_of(
    path: File, text: str, begin: int = 1, sep: str = ",", names: Sequence[str] | None = None
) -> pd.DataFrame:
    """The cells of the lines from number `begin` on as text, with the number of the line as index.

    sep : between cells, as in `pandas.read_csv`. names : of the columns; by default the first of
    these lines holds them. Raises `ValueError` naming a line whose cells do not fit.
    """
    lines = text.splitlines()[begin - 1 :]
    kept = {k: line for k, line in enumerate(lines, begin) if line.strip()}
    for k, line in kept.items():
        if sep == "," and line.count('"') % 2:
            raise ValueError(f"{path}, line {k}: a quotation mark has no end; remove it")
    width = max((len(re.split(sep, line)) for line in kept.values()), default=0)
    try:
        cells = pd.read_csv(
            StringIO("\n".join(kept.values())),
            sep=sep,
            header=None,
            names=range(width),
            dtype=str,
            na_filter=False,
            engine="python",  # the one that tells empty cells from those that are not there
            quoting=csv.QUOTE_MINIMAL if sep == "," else csv.QUOTE_NONE,
        ).set_axis(list(kept))
    except (pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        raise ValueError(f"{path}: {error}; repair or remove what is wrong") from error
    if names is None:
        names, cells = [name.strip() for name in cells.iloc[0].dropna()], cells.iloc[1:]
    beyond = cells.iloc[:, len(names) :].fillna("")  # such as a tabulator at the end
    fits = cells.iloc[:, : len(names)].notna().sum(axis=1) == len(names)
    fits &= (beyond.apply(lambda column: column.str.strip()) == "").all(axis=1)
    if not fits.all():
        line = fits.idxmin()
        raise ValueError(
            f"{path}, line {line} has {cells.loc[line].count()} cells, not {len(names)} as there "
            "are columns; repair or remove it"
        )
    if not len(cells):
        raise ValueError(f"{path} holds no data below its header")
    return cells.iloc[:, : len(names)].set_axis(list(names), axis=1)


def csv_cells(path: File) -> pd.DataFrame:
    """The cells of a CSV file, with names of columns in its first line."""
    text = text_of(path)
    if "," not in text.partition("\n")[0]:
        raise ValueError(f"{path} is no CSV file: line 1 must hold names of columns between commas")
    return cells_of(path, text)


def records(path: File) -> list[dict[str, str]]:
    """Rows of a CSV file, cells by the names of columns."""
    cells = csv_cells(path)
    if not cells.columns.is_unique:
        raise ValueError(f"{path}: a column occurs twice in {', '.join(cells)}; rename it")
    return cells.to_dict("records")


def over_time(path: File, cells: pd.DataFrame) -> tuple[Array, dict[str, Array]]:
    """Time and the other columns."""
    names = list(cells)
    clocks = [name for name in names if name.lower() in ("time", "time_s")]
    if not clocks:
        raise ValueError(f"{path} has no column time or time_s; there are {', '.join(names[:6])}")
    columns = dict(unique(path, names, numbers_of(path, cells)))
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


def numbers_of(path: File, cells: pd.DataFrame) -> Array:
    """Cells as numbers, one row of the result per column; what is empty is NaN."""
    texts = cells.to_numpy(dtype=object)
    values = pd.to_numeric(texts.ravel(), errors="coerce").reshape(texts.shape).astype(np.float64)
    for row, column in np.argwhere(~np.isfinite(values)):
        text = texts[row, column]
        if text.strip().lower() not in ("", "nan"):
            raise ValueError(
                f"{path}, line {cells.index[row]}, column {cells.columns[column]}: {text!r} is no "
                "number; leave the cell empty if it is missing"
            )
    return np.ascontiguousarray(values.T)


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
