"""Tables over time: CSV, and MOT and STO of OpenSim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinesym.base.checks import check_kind, listed, suggest
from kinesym.base.notebook import Displayed
from kinesym.gait.frames import DataFrame, by_time
from kinesym.gait.tables import (
    Cells,
    File,
    cells_of,
    check_count,
    check_seconds,
    csv_cells,
    end_of_header,
    over_time,
    text_of,
    write_storage,
)
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.files import write_columns
from kinesym.runtime.results.trajectory import ByName, Trajectory

#: Names of translations in models of OpenSim, also as paths of what OpenSim 4 writes.
_TRANSLATION = re.compile(r"(.*[_/])?t[xyz](/\w+|_u|_speed)?$")
#: A line of a header: `nRows=3`, in files of SIMM `datarows 3`.
_FACT = re.compile(r"(\S+?)[\s=]+(.*)")


@dataclass(frozen=True, eq=False, repr=False)
class Table(Displayed, ByName):
    """Columns over time (N,) [s], each (N,), in the units of the file.

    degrees : whether angles are in degrees; `radians` takes that out.
    header : further declarations of a file.

    Raises `ValueError` for columns of other lengths.
    """

    time: Array
    columns: Mapping[str, Array]
    degrees: bool = False
    header: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, row in self.columns.items():
            if np.shape(row) != np.shape(self.time):
                raise ValueError(
                    f"column {name!r} must be {np.shape(self.time)} as time, got {np.shape(row)}"
                )

    @classmethod
    def of(cls, result: Trajectory) -> Table:
        """Table of all channels of a trajectory; angles are in radians."""
        check_kind(result, Trajectory, "kinesym")
        return cls(result.time, dict(result))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns)

    def __getitem__(self, name: object) -> Array:
        """A column (N,); `KeyError` suggests a name for an unknown one."""
        if name not in self.columns:
            raise KeyError(f"there is no column {name!r}; {suggest(name, self.columns)}")
        return self.columns[str(name)]

    def keys(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def __repr__(self) -> str:
        span = f"t = {self.time[0]:g} ... {self.time[-1]:g} s"
        return f"<table of {len(self.columns)} columns, {len(self.time)} rows, {span}>"

    def radians(self, name: str) -> Array:
        """An angle or its derivative in radians, whatever the file has.

        Raises `KeyError` for an unknown name, `ValueError` for a translation, such as `pelvis_ty`.
        """
        self._check_angle(name)
        return np.deg2rad(self[name]) if self.degrees else self[name]

    def _check_angle(self, name: str) -> None:
        if name in self.columns and _TRANSLATION.fullmatch(name):
            raise ValueError(f"{name} is a translation [m], no angle; take table[{name!r}]")

    def in_degrees(self, angles: Iterable[str]) -> Table:
        """Convert these columns, angles in radians and their derivatives, to degrees, as OpenSim's
        motions have them; raises `KeyError` for an unknown one, `ValueError` if they already are,
        and for a translation."""
        if self.degrees:
            raise ValueError("the angles of this table are in degrees already")
        chosen = listed(angles, "angles")
        for name in chosen:
            self._check_angle(name)
        turned = {name: np.rad2deg(self[name]) for name in chosen}
        return Table(self.time, {**self.columns, **turned}, True, self.header)

    def to_mot(self, path: str | Path) -> None:
        """Write a MOT or STO file of OpenSim, in all digits; `read_mot` reads it again.

        Raises `ValueError` for names with blanks, which would be two columns.
        """
        write_storage(path, self.time, self.columns, self.degrees)

    def to_csv(self, path: str | Path) -> None:
        """Write the columns with a line of names, in all digits and their units, `time_s` first;
        `read_table` reads it again."""
        write_columns(path, {"time_s": self.time, **self.columns})

    def to_pandas(self) -> DataFrame:
        """The columns, by time [s]."""
        return by_time(self.time, self.columns)


def read_mot(path: File) -> Table:
    """A MOT or STO table of OpenSim or SIMM; raises as `read_table`.

    Columns keep their units; of vectors and quaternions there is one for each part: `torso_x`,
    `torso_y`, `torso_z`, and `torso_w` before these. Angles are in degrees where the header says
    `inDegrees=yes` or, if it has no version, `Angles are in degrees.`, and in motions of SIMM; see
    `Table.radians`.
    """
    text = text_of(path)
    lines = text.splitlines()
    end = end_of_header(lines)
    if end is None or len(lines) < end + 2:
        raise ValueError(
            f"{path} is no MOT or STO file: a line 'endheader' with labels below it is missing; "
            "read_table reads CSV"
        )
    header = {}
    for line in lines[:end]:
        fact = _FACT.fullmatch(line.strip())
        if fact:
            header[fact[1].lower()] = fact[2]
    cells = cells_of(path, text, end + 2, None)
    time, columns = over_time(path, _parted(path, cells))
    check_seconds(path, time)
    rows = next((key for key in ("nRows", "datarows", "nr") if key.lower() in header), "nRows")
    check_count(path, rows, header.get(rows.lower(), ""), len(cells.rows), text)
    return Table(time, columns, _in_degrees(path, header), header)


#: Names of the components of vectors and quaternions, by their number.
_PARTS = {3: "xyz", 4: "wxyz"}


def _parted(path: File, cells: Cells) -> Cells:
    """Cells of several numbers between commas, a column for each of them."""
    first = next(iter(cells.rows.values()))
    counts = [cell.count(",") + 1 for cell in first]
    if max(counts) == 1:
        return cells
    names = [
        name if count == 1 else f"{name}_{part}"
        for name, count in zip(cells.names, counts, strict=True)
        for part in (_PARTS.get(count) or [str(k) for k in range(1, count + 1)])
    ]
    rows = {}
    for line, row in cells.rows.items():
        if [cell.count(",") + 1 for cell in row] != counts:
            raise ValueError(
                f"{path}, line {line}: its cells do not have as many numbers between commas as "
                "those of the first line; repair or remove it"
            )
        rows[line] = [part for cell in row for part in cell.split(",")]
    return Cells(names, rows)


def _in_degrees(path: File, header: Mapping[str, str]) -> bool:
    said = header.get("indegrees")
    if said is not None:
        if said.lower() not in ("yes", "no", "y", "n"):
            raise ValueError(f"{path} says inDegrees={said}; it must be yes or no")
        return said.lower().startswith("y")
    if "version" not in header and "angles" in header:
        return header["angles"].startswith("are in degrees")
    return "datacolumns" in header  # SIMM has nothing else


def read_table(path: File) -> Table:
    """A CSV table with a column `time` or `time_s`, which may be compressed (.gz).

    Empty cells are NaN. Columns keep their names and units; those whose name comes twice are left
    out with a warning. Raises `FileNotFoundError`, and `ValueError` naming line and column of the
    fault.
    """
    time, columns = over_time(path, csv_cells(path))
    return Table(time, columns)
