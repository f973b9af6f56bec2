"""Text tables with names of columns, read and written; errors name line and column."""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import check_choice, check_path, naming, shown, unpacked
from kinesym.base.files import replacing
from kinesym.gait.axes import UNITS, rotation, said_axes
from kinesym.gait.checks import warn
from kinesym.runtime.arrays import Array, one_number, time_grid

T = TypeVar("T")
#: Longest mean time between samples of a recorded motion [s].
SLOWEST = 0.5
#: Least number of samples of a table that is judged by it; shorter ones may be made by hand.
MANY = 10
#: Separators of cells with quotation marks.
QUOTED = (",", ";")
#: NaN as programs of Windows write it: `-1.#IND`, `1.#QNAN`, `nan(ind)`.
_NOT_A_NUMBER = re.compile(r"-?(1\.#(IND|QNAN|SNAN)\w*|nan\(.*\))", re.IGNORECASE)
#: Rows of one instant that differ by less are the same, written twice [of the range of a column].
ALIKE = 1e-3


class Readable(Protocol):
    """A file inside a package, as `importlib.resources.files` finds it."""

    def is_file(self) -> bool:
        """Whether it is there."""

    def read_bytes(self) -> bytes:
        """Read the whole file."""


File: TypeAlias = str | Path | Readable


@dataclass(frozen=True)
class Cells:
    """Cells as text: names of the columns, rows by the number of their line."""

    names: list[str]
    rows: dict[int, list[str]]

    def part(self, names: Sequence[str]) -> Cells:
        """Cells of these columns."""
        index = [self.names.index(name) for name in names]
        rows = {line: [row[k] for k in index] for line, row in self.rows.items()}
        return Cells(list(names), rows)


def text_of(path: File) -> str:
    """A text file, which may be compressed."""
    check_path(path)
    file = Path(path) if isinstance(path, str) else path
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with naming(path):
        raw = unpacked(file.read_bytes())
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return raw.decode("utf-16", errors="replace")
    zero = raw.find(b"\0")
    if 0 <= zero < 4096:
        raise ValueError(f"{path} is no text; read_c3d reads C3D files")
    if zero >= 0:
        line = raw.count(b"\n", 0, zero) + 1
        raise ValueError(f"{path} is damaged: line {line} holds zero bytes; take another copy")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # names of older systems
        return raw.decode("latin-1")


def check_count(path: File, fact: str, said: str, found: int, text: str) -> None:
    """Compare the number of rows with the header: warn of a file that is cut short, and raise
    `ValueError` if that may be within a number."""
    count = number(said)
    if count is None or not found < count:
        return
    short = f"{path} is cut short: its header says {fact} = {count:g}, there are {found} rows"
    if not text.endswith(("\n", "\r")):
        raise ValueError(
            f"{short}, and the last line has no end; remove it, or add a line break if it is whole"
        )
    warn(short)


def cells_of(
    path: File, text: str, begin: int = 1, sep: str | None = ",", names: list[str] | None = None
) -> Cells:
    """The cells of the lines from number `begin` on, empty ones left out.

    sep : between cells; None for blanks. names : of the columns; by default the first of these
    lines holds them. Raises `ValueError` naming a line whose cells do not fit.
    """
    rows = {}
    for k, line in enumerate(text.splitlines()[begin - 1 :], begin):
        if line.strip():
            try:
                quoted = csv.reader([line], delimiter=sep, strict=True) if sep in QUOTED else None
                row = line.split(sep) if quoted is None else next(quoted)
                rows[k] = [cell.strip() for cell in row]
            except csv.Error as error:
                raise ValueError(
                    f"{path}, line {k}: a quotation mark has no end; remove it ({error})"
                ) from error
    if names is None and rows:
        names = rows.pop(min(rows))
    if not rows or names is None:
        raise ValueError(f"{path} holds no data below its header")
    width = len(names)
    for k, row in rows.items():
        if len(row) < width or any(row[width:]):  # a tabulator at the end
            raise ValueError(
                f"{path}, line {k} has {len(row)} cells, not {width} as there are columns; "
                "repair or remove it"
            )
        del row[width:]
    return Cells(names, rows)


def csv_cells(path: File) -> Cells:
    """The cells of a CSV file, with names of columns in its first line; those between semicolons
    have commas in their numbers."""
    text = text_of(path)
    head = text.partition("\n")[0]
    if ";" in head and "," not in head:
        found = cells_of(path, text, sep=";")
        rows = {k: [cell.replace(",", ".") for cell in row] for k, row in found.rows.items()}
        return Cells(found.names, rows)
    if "," not in head:
        wrong = f"{path} is no CSV file: line 1 must hold names of columns between commas"
        reader = _reader_of(text)
        raise ValueError(f"{wrong}; {reader} reads it" if reader else wrong)
    return cells_of(path, text)


def check_columns(path: File, cells: Cells, names: Iterable[str]) -> None:
    """Raise `ValueError` for a column that a table lacks."""
    for name in names:
        if name not in cells.names:
            known = ", ".join(cells.names)
            raise ValueError(f"{path}, line 1 lacks the column {name}; there are {known}")


def end_of_header(lines: Sequence[str]) -> int | None:
    """Line that ends the header of a MOT or STO file, None for other files."""
    return next((k for k, line in enumerate(lines) if line.strip().lower() == "endheader"), None)


def _reader_of(text: str) -> str:
    """The reader of a text file by how it begins, if that is known."""
    if text.startswith("PathFileType"):
        return "read_trc"
    if text.startswith("[Force Data]") or text.lstrip().startswith("<"):
        return "read_forces"
    return "" if end_of_header(text.splitlines()) is None else "read_mot"


def records(path: File) -> list[dict[str, str]]:
    """Rows of a CSV file, cells by the names of columns."""
    cells = csv_cells(path)
    return [named(path, cells.names, row) for row in cells.rows.values()]


def over_time(path: File, cells: Cells) -> tuple[Array, dict[str, Array]]:
    """Time and the other columns."""
    clocks = [name for name in cells.names if name.lower() in ("time", "time_s")]
    if not clocks:
        known = ", ".join(cells.names[:6])
        raise ValueError(f"{path} has no column time or time_s; there are {known}")
    if len(clocks) > 1:
        raise ValueError(f"{path} has columns {' and '.join(clocks)}; leave one")
    columns = distinct(path, cells.names, numbers_of(path, cells), "column")
    columns = _without_repeated_end(path, clocks[0], columns)
    time = columns.pop(clocks[0])
    bad = ~np.isfinite(time)
    bad[1:] |= ~(np.diff(time) > 0.0)
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"{path}, row {k + 1}: time must increase, got {time[k]:g} s; remove what is repeated "
            "or out of order"
        )
    try:
        return uniform(time), columns  # without the rounding of the file
    except ValueError:
        return time, columns  # markers refuse it, a table may have it


def _without_repeated_end(path: File, clock: str, columns: dict[str, Array]) -> dict[str, Array]:
    """Columns without the last row if it is the one before again, as tools of OpenSim end."""
    time = columns[clock]
    if len(time) < 3 or time[-1] != time[-2]:
        return columns
    for row in columns.values():
        size = float(np.ptp(row[np.isfinite(row)])) if np.isfinite(row).any() else 0.0
        if not np.isclose(row[-1], row[-2], rtol=0.0, atol=ALIKE * size, equal_nan=True):
            return columns
    warn(f"{path}: the last instant, {time[-1]:g} s, is there twice; the second is left out")
    return {name: row[:-1] for name, row in columns.items()}


def numbers_of(path: File, cells: Cells) -> Array:
    """Cells as numbers, one row of the result per column; empty cells are NaN."""
    rows = cells.rows.values()
    try:
        values = np.array([[float(cell or "nan") for cell in row] for row in rows])
        sound = not np.isinf(values).any() and not any("_" in "".join(row) for row in rows)
    except ValueError:
        sound = False
        said = [[_NOT_A_NUMBER.sub("nan", cell) for cell in row] for row in rows]
        if said != list(rows):
            return numbers_of(path, Cells(cells.names, dict(zip(cells.rows, said, strict=True))))
    if not sound:
        line, name, cell = next(
            (line, name, cell)
            for line, row in cells.rows.items()
            for name, cell in zip(cells.names, row, strict=True)
            if number(cell or "nan") is None
        )
        comma = re.fullmatch(r"-?\d+,\d+([eE][-+]?\d+)?", cell)
        remedy = "write a point for the comma" if comma else "leave the cell empty if it is missing"
        raise ValueError(f"{path}, line {line}, column {name}: {cell!r} is no number; {remedy}")
    return np.ascontiguousarray(values.T)


def uniform(time: ArrayLike, rate: float | None = None) -> Array:
    """Uniform instants (N,) without the rounding of a file, which splines take for acceleration.

    rate : as the file declares it [Hz]. Where rounding allows it, this is taken, or else one that
        is a whole number. A single instant is taken as it is.

    Raises `ValueError` if instants are off by more than the last decimal that all of them need, or
    the last of so many digits, and names the step that is.
    """
    if np.shape(time) == (1,):
        return np.array([one_number(np.ravel(time)[0], "time")])
    grid = time_grid(time)
    steps, count = np.diff(grid), np.arange(len(grid))
    middle = float(np.median(steps))
    slack = np.minimum(1.1 * _rounding(grid), 0.25 * middle) + 1e-6 * middle
    step = float(np.polyfit(count, grid, 1)[0])
    said = [1.0 / rate] if rate else []
    for candidate in (*said, 1.0 / max(round(1.0 / step), 1), step):
        begin = grid - candidate * count
        least, most = (begin - 0.5 * slack).max(), (begin + 0.5 * slack).min()
        if least <= most:
            return np.asarray(np.clip(grid[0], least, most) + candidate * count)
    k = int(np.argmax(np.abs(steps - middle)))
    raise ValueError(
        f"time is not uniform: the step after {grid[k]:.6g} s is {steps[k]:.6g} s, most are "
        f"{middle:.6g} s; resample, or read the part before or after it"
    )


def _rounding(values: Array) -> Array:
    """The unit of the last decimal that these numbers (N,) need, or of the last of the digits that
    all of them have, if that is coarser; 0 beyond the eighth decimal, and the ninth digit."""
    unit = next((10.0**-k for k in range(9) if _whole(values * 10.0**k)), 0.0)
    sizes = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    sizes = np.where(values == 0.0, 0.0, sizes)
    for digits in range(3, 10):
        last = 10.0 ** (sizes - digits + 1)
        if _whole(values / last):
            return np.asarray(np.maximum(unit, last))
    return np.full(len(values), unit)


def _whole(values: Array) -> bool:
    """Whether these are whole numbers, but for the rounding of their products."""
    return bool(np.abs(values - np.round(values)).max() < 1e-5)


def check_seconds(what: File, time: Array, rate: float | None = None) -> None:
    """Warn of times (N,) of a recorded motion that look like milliseconds.

    what : a file or what else has them. rate : that the file says [Hz].
    """
    step = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
    if (step >= SLOWEST and len(time) >= MANY) or (rate and abs(1e-3 * step * rate - 1.0) < 0.1):
        warn(
            f"{what}: a sample every {step:g} s"
            + (f", but the file says {rate:g} Hz" if rate else "")
            + ": is time in milliseconds? Divide it by 1000"
        )


def number(text: str) -> float | None:
    """A number that is not infinite (NaN is one here), or nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isinf(value) or "_" in text else value


def distinct(path: File, names: Sequence[str], rows: Iterable[T], what: str) -> dict[str, T]:
    """Rows by name; those whose name comes twice or is empty are left out with a warning."""
    counts = Counter(names)
    twice = [name for name, times in counts.items() if name and times > 1]
    told = [f"{shown(twice)} occur more than once"] if twice else []
    told += [f"{counts['']} without a name"] if "" in counts else []
    if told:
        warn(
            f"{path}: {what}s are left out: {', '.join(told)}; rename them in the file to use them"
        )
    return {name: row for name, row in zip(names, rows, strict=True) if counts[name] == 1 and name}


def named(path: File, names: Sequence[str], rows: Iterable[T]) -> dict[str, T]:
    """Rows by name; raises `ValueError` for a name that comes twice or is empty."""
    for name, times in Counter(names).items():
        if not name or times > 1:
            raise ValueError(
                f"{path}: the name {name!r} {'occurs twice' if name else 'is empty'}; "
                "rename the column or marker in the file"
            )
    return dict(zip(names, rows, strict=True))


# -- writing --------------------------------------------------------------------------------------


def write_trc(
    path: str | Path,
    time: Array,
    positions: Mapping[str, Array],
    rate: float,
    unit: str,
    up: str,
    forward: str,
) -> None:
    """Markers (3, N) in world axes [m] as a TRC file; missing samples are empty cells."""
    check_choice(unit, UNITS, "unit")
    names, size = list(positions), len(time)
    back = rotation(up, forward).T / UNITS[unit]
    rows = np.vstack([np.arange(1.0, size + 1), time, *(back @ positions[name] for name in names)])
    facts = {
        "DataRate": f"{rate:.17g}",
        "CameraRate": f"{rate:.17g}",
        "NumFrames": size,
        "NumMarkers": len(names),
        "Units": unit,
        "OrigDataRate": f"{rate:.17g}",
        "OrigDataStartFrame": 1,
        "OrigNumFrames": size,
    }
    axes = [f"{axis}{k}" for k in range(1, len(names) + 1) for axis in "XYZ"]
    head = [
        f"PathFileType\t4\t(X/Y/Z)\t{Path(path).name}\t{said_axes(up, forward)}",
        "\t".join(facts),
        "\t".join(map(str, facts.values())),
        "\t".join(["Frame#", "Time", *(f"{name}\t\t" for name in names)]),
        "\t".join(["", "", *axes]),
        "",
    ]
    _write(path, head, rows, "")


def write_storage(
    path: str | Path,
    time: Array,
    columns: Mapping[str, Array],
    degrees: bool,
    axes: tuple[str, str] | None = None,
) -> None:
    """Columns (N,) over time as a MOT or STO file. axes : up and forwards, of those of vectors."""
    for name in columns:
        if len(name.split()) != 1:
            raise ValueError(f"the file cannot hold the name {name!r}; rename it without blanks")
    head = [
        Path(path).stem,
        "version=1",
        f"nRows={len(time)}",
        f"nColumns={len(columns) + 1}",
        f"inDegrees={'yes' if degrees else 'no'}",
        *([f"axes={said_axes(*axes)}"] if axes else []),
        "endheader",
        "\t".join(["time", *columns]),
    ]
    _write(path, head, np.vstack([time, *columns.values()]), "nan")


def _write(path: str | Path, head: list[str], rows: Array, missing: str) -> None:
    """Lines, then the columns of rows (k, N); frames and other whole numbers stay whole."""
    cells = [[f"{x:.17g}" if x == x else missing for x in row] for row in rows.T.tolist()]
    with replacing(path) as beside:
        lines = [*head, *("\t".join(row) for row in cells)]
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
