"""Tables of text with tabs between columns, and rows that know where they are."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf, isnan, nan
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """A row of a table: its cells by column, and where it is."""

    file: str
    line: int
    cells: dict[str, str]

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}, line {self.line}"

    def text(self, column: str, default: str | None = None) -> str:
        """A cell; `default` where it is empty or missing. Raises `ValueError` without one."""
        said = self.cells.get(column, "").strip()
        if said or default is not None:
            return said or str(default)
        raise ValueError(f"{self.place}: column {column} is empty")

    def number(self, column: str, default: float | None = None) -> float:
        """A number, which may be infinite; raises `ValueError` for what is none."""
        said = self.cells.get(column, "").strip()
        if not said or said.lower() == "nan":
            if default is None:
                raise ValueError(f"{self.place}: column {column} is empty; give a number")
            return default
        value = number_or_nan(said)
        if isnan(value) or (isinf(value) and "inf" not in said.lower()):
            raise ValueError(f"{self.place}: column {column} is a number, got {said!r}")
        return value

    def words(self, column: str) -> tuple[str, ...]:
        """Parts of a cell between semicolons."""
        said = self.cells.get(column, "").strip()
        return tuple(part.strip() for part in said.split(";")) if said else ()

    def flag(self, column: str) -> bool:
        """True for 1 and true, False for 0 and false."""
        said = self.text(column).lower()
        if said not in ("1", "0", "true", "false", "1.0", "0.0"):
            raise ValueError(f"{self.place}: column {column} is true or false, got {said!r}")
        return said in ("1", "true", "1.0")


def number_or_nan(said: str) -> float:
    """The number that a text is, else NaN."""
    try:
        return nan if "_" in said else float(said)  # Python's 1_000 is none
    except ValueError:
        return nan


def rows_of(paths: Iterable[Path], needed: Sequence[str]) -> list[Row]:
    """The rows of tables, one after another. Raises `FileNotFoundError`, and `ValueError` for a
    column that is missing or there twice, and for rows that are longer than the heading."""
    return [row for path in paths for row in _rows(path, needed)]


def _rows(path: Path, needed: Sequence[str]) -> list[Row]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return _read(path, needed)
    except csv.Error as error:
        raise ValueError(f"{path.name} is no table: {error}") from error


def _read(path: Path, needed: Sequence[str]) -> list[Row]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter="\t")
        heading = [name.strip() for name in next(reader, [])]
        for name in needed:
            if name not in heading:
                raise ValueError(f"{path.name} has no column {name}; it has {', '.join(heading)}")
        twice = {name for name in heading if name and heading.count(name) > 1}
        if twice:
            raise ValueError(f"{path.name} has the column {min(twice)} twice")
        found = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if any(cell.strip() for cell in cells[len(heading) :]):
                raise ValueError(
                    f"{path.name}, line {reader.line_num}: {len(cells)} cells for "
                    f"{len(heading)} columns"
                )
            named = dict(zip(heading, cells, strict=False))
            found.append(Row(path.name, reader.line_num, named))
    return found
