"""Files of markers: TRC, CSV, and places of a static trial, into world axes and SI units.

World axes of kinesym: x forwards, y to the left, z up. Which axes of the file those are, and in
which unit it is, every reader finds from the data unless it is told, and says in `Markers.note`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kinesym.checks import Named, naming
from kinesym.gait.axes import (
    AHEAD,
    NOTHING,
    UNITS,
    Evidence,
    Laboratory,
    chosen,
    seen_in_markers,
    sides_agree,
    unit_of,
)
from kinesym.gait.checks import warn
from kinesym.gait.markers import Markers, check_size, uniform
from kinesym.gait.motion_files import read_table
from kinesym.gait.tables import (
    File,
    cells_of,
    check_count,
    check_seconds,
    csv_cells,
    distinct,
    number,
    numbers_of,
    text_of,
)
from kinesym.runtime.arrays import Array

#: All markers nearer than this to the origin of the laboratory were scaled twice [m].
NEAREST = 0.05
#: Markers on a person, arms up on a step, are less apart upwards [m].
HIGHEST = 4.0

#: How line 4 of a TRC file begins, as programs spell it.
_HEAD = re.compile(r"#?frame#? times?", re.IGNORECASE)
_MARKER = re.compile(r"(?P<name>.+)_(?P<axis>[xyzXYZ])(?:_(?P<unit>m|cm|mm))?")


def read_trc(
    path: File,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
) -> Markers:
    """Markers of a TRC file (Motion Analysis, OpenSim, Pose2Sim, OpenCap), which may be compressed
    (.gz); empty cells are missing samples.

    unit : "m", "cm" or "mm"; default what the file says, unless coordinates of people cannot be.
    up, forward, left : axes of the file, one of x, y, z, -x, -y, -z each; default what the data
        say: names of markers, the longest extent, the way walked, heels and toes. `Markers.note`
        says what was found. If nothing tells, y is up and x forwards; left makes axes right-handed
        unless it is given.

    Warns of markers whose name comes twice or is empty, which are left out, of data that contradict
    what was told, and if another axis than x is found to be forwards: other files of the trial have
    to be read alike. Raises `FileNotFoundError`, and `ValueError` naming line and column of the
    error.
    """
    text = text_of(path)
    lines = text.splitlines()
    if len(lines) < 6 or not lines[0].startswith("PathFileType"):
        raise ValueError(
            f"{path} is no TRC file: its first line must begin with 'PathFileType'; "
            "read_csv, read_mot and read_c3d read others"
        )
    facts = _facts(lines[1], lines[2])
    labels = [label.strip() for label in lines[3].split("\t")]
    if not _HEAD.fullmatch(" ".join(labels[:2])):
        raise ValueError(
            f"{path}, line 4 must begin with 'Frame#' and 'Time' between tabulators, "
            f"got {lines[3][:40]!r}"
        )
    names = _names(labels[2:], lines[4])
    columns = ["Frame#", "Time", *(f"{name} {axis}" for name in names for axis in "XYZ")]
    numbers = numbers_of(path, cells_of(path, text, 6, "\t", columns))
    check_count(path, "NumFrames", facts.get("NumFrames", ""), numbers.shape[1], text)
    positions = distinct(path, names, numbers[2:].reshape(len(names), 3, -1), "marker")
    with naming(path):  # short records need the rate to tell what was rounded
        rate = number(facts.get("DataRate", ""))
        time = uniform(numbers[1], rate)
    check_seconds(path, time, rate)
    said = facts.get("Units", "").lower()
    return markers_of(path, time, positions, said, unit, (up, forward, left), "y")[0]


def _facts(names: str, values: str) -> dict[str, str]:
    """What lines 2 and 3 say; some programs write two tabulators between cells."""
    cells = [[cell.strip() for cell in line.split("\t")] for line in (names, values)]
    filled = [[cell for cell in row if cell] for row in cells]
    return dict(zip(*(filled if len(filled[0]) == len(filled[1]) else cells), strict=False))


def _names(labels: Sequence[str], axes: str) -> list[str]:
    """Names of markers: in every third cell, or one after the other between other tabulators, as
    many as there are axes X1, Y1, Z1, ... in line 5."""
    filled = [label for label in labels if label]
    usual = list(labels[: len(labels) - labels[::-1].index(filled[-1])] if filled else [])[::3]
    named = usual == filled or 3 * len(filled) != len(axes.split())
    return usual if named else filled


def read_csv(
    path: File,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
) -> Markers:
    """Markers of a CSV file, which may be compressed (.gz); empty cells are missing samples.

    Columns are `time` or `time_s` [s], and `Heel_x`, `Heel_x_m` or `Heel_x_mm`, ... Others, such
    as forces and centres of pressure, are passed over. Where no marker has the axis to the side,
    the record is of one plane and it is zero.

    unit : "m", "cm" or "mm"; default what the columns say, or else the data. up, forward, left : as
    in `read_trc`.

    Raises `FileNotFoundError`, and `ValueError` naming line and column of what is wrong.
    """
    table = read_table(path)
    parts: dict[str, dict[str, Array]] = {}
    said = ""
    for column, row in table.columns.items():
        found = _MARKER.fullmatch(column)
        if found and not found["name"].endswith("cop"):
            said = said or found["unit"] or ""
            scale = UNITS[found["unit"] or "m"] / UNITS[said or "m"]
            parts.setdefault(found["name"], {})[found["axis"].lower()] = scale * row
    if not parts:
        raise ValueError(
            f"{path} has no columns of markers, such as Heel_x_m, Heel_y_m, Heel_z_m; "
            f"there are {', '.join(table.names[:6])}"
        )
    plane = absent(up, forward, parts.values())
    positions = {name: vector(path, f"{name}_", axes, plane) for name, axes in parts.items()}
    check_seconds(path, table.time)
    told = (up, forward, left)
    default = "z" if plane == "y" else "y"
    return markers_of(path, table.time, positions, said, unit, told, default)[0]


def read_places(
    path: File,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
) -> dict[str, Array]:
    """One position (3,) for each marker [m], such as its mean over a static trial; see
    `Markers.mean` for a trial that was recorded.

    A CSV file with columns `marker` and `x`, `y`, `z`, with `_m`, `_cm` or `_mm` if the unit is
    known. Arguments and errors as in `read_csv`.
    """
    cells = csv_cells(path)
    heads = {column.partition("_")[0]: column for column in reversed(cells.names)}
    for head in ("marker", "x", "y", "z"):
        if head not in heads:
            known = ", ".join(cells.names)
            raise ValueError(f"{path}, line 1 lacks the column {head}; there are {known}")
    numbers = numbers_of(path, cells.part([heads[axis] for axis in "xyz"]))
    names = [name for (name,) in cells.part([heads["marker"]]).rows.values()]
    positions = distinct(path, names, numbers.T, "marker")
    for name, position in positions.items():
        if np.isnan(position).any():
            raise ValueError(f"{path}: the position of {name!r} is missing; remove its line")
    said = heads["x"].partition("_")[2]
    rows = {name: position[:, None] for name, position in positions.items()}
    turned, _ = turned_rows(path, rows, said, unit, (up, forward, left), "y")
    return Named("marker", {name: row[:, 0] for name, row in turned.items()})


# -- into the world -----------------------------------------------------------------------------


def markers_of(
    path: File,
    time: Array,
    positions: Mapping[str, Array],
    said: str,
    unit: str | None,
    told: tuple[str | None, str | None, str | None],
    default: str,
    pressed: Evidence = NOTHING,
) -> tuple[Markers, Laboratory]:
    """Markers (3, N) of a file, and its axes and units.

    said : the unit of the file. unit, told : what the user says, see `read_trc`. default : what is
    up if nothing tells. pressed : what forces of the same file say, if markers do not.
    """
    short, prefix = _short(positions)
    seen = {name: _without_zeros(row) for name, row in short.items()}
    turned, laboratory = turned_rows(path, seen, said, unit, told, default, pressed)
    if prefix:
        laboratory = laboratory.noting(f"names without {prefix!r}")
    with naming(path):
        return Markers(time, turned, laboratory), laboratory


def _short(positions: Mapping[str, Array]) -> tuple[Mapping[str, Array], str]:
    """Names without what all of them have before a colon, such as that of the subject."""
    before = {"".join(name.rpartition(":")[:2]) for name in positions}
    prefix = before.pop() if len(before) == 1 else ""
    if not prefix:
        return positions, ""
    return {name.removeprefix(prefix): row for name, row in positions.items()}, prefix


def _without_zeros(position: Array) -> Array:
    """Zero in all three coordinates marks a missing sample, if the marker is elsewhere at times."""
    zero = (position == 0.0).all(axis=0)
    return position if zero.all() or not zero.any() else np.where(zero, np.nan, position)


def turned_rows(
    path: File,
    positions: Mapping[str, Array],
    said: str,
    unit: str | None,
    told: tuple[str | None, str | None, str | None],
    default: str,
    pressed: Evidence = NOTHING,
) -> tuple[dict[str, Array], Laboratory]:
    """Positions (3, N) of a file in world axes [m], and what was found of them."""
    rows = list(positions.values())
    name = unit_of(path, said, unit, rows)
    metres = {marker: UNITS[name] * row for marker, row in positions.items()}
    with naming(path):
        check_size(metres.values(), NEAREST)
    seen = seen_in_markers(metres)
    laboratory = chosen(path, told, seen if seen.up else pressed, name, default)
    turned = {marker: laboratory.turn @ row for marker, row in metres.items()}
    _check_height(path, turned, name)
    if told[2] and not sides_agree(turned):
        other = told[2][1:] if told[2].startswith("-") else f"-{told[2]}"
        warn(
            f"{path}: left={told[2]!r} was given, but markers called right are then to the left: "
            f"left={other!r}, or names of both sides are exchanged"
        )
    return turned, laboratory


def _check_height(path: File, positions: Mapping[str, Array], unit: str) -> None:
    """Warn of markers that are farther apart upwards than on anybody, at most instants."""
    heights = np.array([row[2] for row in positions.values()])
    heights = heights[:, np.isfinite(heights).any(axis=0)]
    apart = np.nanmax(heights, axis=0, initial=-np.inf) - np.nanmin(heights, axis=0, initial=np.inf)
    high = float(np.median(apart)) if apart.size else 0.0
    if high > HIGHEST:
        warn(
            f"{path}: lengths are taken to be in {unit}, so that markers are {high:.1f} m apart "
            "upwards: is the unit another, or were numbers multiplied, such as to tenths of it?"
        )


def absent(up: str | None, forward: str | None, found: Iterable[Mapping[str, Array]]) -> str:
    """The axis to the side if no column of these vectors has it, or else nothing."""
    seen = {axis for axes in found for axis in axes}
    lacking = [axis for axis in "xyz" if axis not in seen]
    above = (up or ("z" if lacking == ["y"] else "y"))[-1]
    ahead = (forward or AHEAD.get(above, ""))[-1:]
    return lacking[0] if len(lacking) == 1 and lacking[0] not in (above, ahead) else ""


def vector(path: File, label: str, axes: Mapping[str, Array], optional: str) -> Array:
    """Rows x, y, z; those that are optional are zero if they are missing."""
    for axis in "xyz":
        if axis not in axes and axis not in optional:
            known = ", ".join(label + each for each in axes)
            raise ValueError(f"{path}: the column {label}{axis} is missing; there is {known}")
    zero = np.zeros_like(next(iter(axes.values())))
    return np.array([axes.get(axis, zero) for axis in "xyz"])
