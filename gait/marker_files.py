"""Files of markers: TRC, CSV, and places of a static trial, into world axes and SI units.

World axes of kinesym: x forwards, y to the left, z up. Which axes of the file those are, and in
which unit it is, every reader finds from the data unless it is told, and says in `Markers.note`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kinesym.base.checks import Named, check_choice, check_kind, naming, shown
from kinesym.gait.axes import (
    DIRECTIONS,
    NO_AXES,
    NOTHING,
    UNITS,
    Evidence,
    Laboratory,
    Own,
    absent,
    chosen,
    of_plane,
    own_axes,
    seen_in_markers,
    sides_agree,
    unit_of,
)
from kinesym.gait.checks import warn
from kinesym.gait.markers import Markers, check_size
from kinesym.gait.motion_files import read_table
from kinesym.gait.tables import (
    Cells,
    File,
    cells_of,
    check_columns,
    check_count,
    check_seconds,
    csv_cells,
    distinct,
    number,
    numbers_of,
    text_of,
    uniform,
)
from kinesym.runtime.arrays import Array

#: Distance from the laboratory's origin within which all markers lie if scaled twice [m].
NEAREST = 0.05
#: Markers on a person, arms up on a step, are less apart upwards [m].
HIGHEST = 4.0

#: Beginnings of line 4 of a TRC file, as programs spell it.
_HEAD = re.compile(r"#?frame#? times?", re.IGNORECASE)
_MARKER = re.compile(r"(?P<name>.+)_(?P<axis>[xyzXYZ])(?:_(?P<unit>m|cm|mm))?")


def read_trc(
    path: File,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
    like: Markers | None = None,
) -> Markers:
    """Markers of a TRC file (Motion Analysis, OpenSim, Pose2Sim, OpenCap), which may be compressed
    (.gz); empty cells are missing samples.

    unit : "m", "cm" or "mm"; default as the file declares, unless coordinates of people contradict
        it.
    up, forward, left : axes of the file, one of x, y, z, -x, -y, -z each; default as it declares,
        as `Markers.to_trc` writes it, or else by the data: names of markers, the way walked, heels
        and toes. `Markers.note` has the findings. Without evidence the longest extent is up, or y,
        and x forwards, with a warning; left makes axes right-handed unless it is given.
        `find_files(folder).up` combines the evidence of all files of a session.
    like : markers of the same laboratory, whose axes these are too.

    Warns of markers whose name comes twice or is empty, which are left out, and those that are 0 in
    all samples, as missing ones; of an axis that is up by a guess, of data that contradict the
    given axes, and if another axis than x is found to be forwards: other files of the trial have to
    be read alike. Raises `FileNotFoundError`, and `ValueError` naming line and column of the error.
    """
    text = text_of(path)
    lines = text.splitlines()
    if len(lines) < 6 or not lines[0].startswith("PathFileType"):
        raise ValueError(
            f"{path} is no TRC file: its first line must begin with 'PathFileType'; "
            "read_csv, read_mot and read_c3d read others"
        )
    facts = _facts(lines[1], lines[2])
    labels = [label.strip() for label in lines[3].split("\t" if "\t" in lines[3] else None)]
    if not _HEAD.fullmatch(" ".join(labels[:2])):
        raise ValueError(
            f"{path}, line 4 must begin with 'Frame#' and 'Time' between tabulators, "
            f"got {lines[3][:40]!r}"
        )
    names = _names(labels[2:], lines[4])
    columns = ["Frame#", "Time", *(f"{name} {axis}" for name in names for axis in "XYZ")]
    sep = "\t" if any("\t" in line.strip() for line in lines[5:]) else None  # some write blanks
    numbers = numbers_of(path, cells_of(path, text, 6, sep, columns))
    check_count(path, "NumFrames", facts.get("NumFrames", ""), numbers.shape[1], text)
    positions = distinct(path, names, numbers[2:].reshape(len(names), 3, -1), "marker")
    with naming(path):  # short records need the rate to tell what was rounded
        rate = number(facts.get("DataRate", ""))
        time = uniform(numbers[1], rate)
    check_seconds(path, time, rate)
    said = facts.get("Units", "").lower()
    told, own = (up, forward, left), own_axes(lines[0])
    return markers_of(path, time, positions, said, unit, told, "y", own=own, like=like)[0]


def _facts(names: str, values: str) -> dict[str, str]:
    """Header of a TRC file: names of line 2 and values of line 3; some programs write two tabs
    between cells."""
    lines = ((line, "\t" if "\t" in line else None) for line in (names, values))
    cells = [[cell.strip() for cell in line.split(sep)] for line, sep in lines]
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
    like: Markers | None = None,
) -> Markers:
    """Markers of a CSV file, which may be compressed (.gz); empty cells are missing samples.

    Columns are `time` or `time_s` [s], and `Heel_x`, `Heel_x_m` or `Heel_x_mm`, ... Others, such
    as forces and centres of pressure, are passed over. Where no marker has the axis to the side,
    the record is of one plane and it is zero.

    unit : "m", "cm" or "mm"; default as the columns declare, or else by the data. up, forward,
    left, like : as in `read_trc`. Trajectories that Vicon Nexus exports are read, too.

    Raises `FileNotFoundError`, and `ValueError` naming line and column of the fault.
    """
    if (nexus := nexus_trajectories(path)) is not None:
        time, positions, said = nexus
        return markers_of(path, time, positions, said, unit, (up, forward, left), "z", like=like)[0]
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
    flat = of_plane(plane)
    return markers_of(path, table.time, positions, said, unit, told, "y", flat, like=like)[0]


def nexus_trajectories(path: File) -> tuple[Array, dict[str, Array], str] | None:
    """Times [s], positions (3, N) and unit of the trajectories that Vicon Nexus exports as CSV;
    None for another file. Frame 1 is at 0 s, as in C3D files.

    Such a section has a line with its name, the rate, names of markers above the first of their
    axes, names of columns, units, and rows until an empty line.
    """
    text = text_of(path)
    lines = text.splitlines() if "Trajectories" in text else []
    begin = next((k for k, row in enumerate(lines) if row.strip(',; "') == "Trajectories"), None)
    if begin is None or len(lines) < begin + 6:
        return None
    end = next((k for k in range(begin + 5, len(lines)) if not lines[k].strip(",; ")), len(lines))
    sep = ";" if ";" in lines[begin + 3] else ","
    labels, axes, units = (
        [cell.strip() for cell in next(csv.reader([lines[begin + k]], delimiter=sep))]
        for k in (2, 3, 4)
    )
    rate = number(lines[begin + 1].strip(f'{sep} "').replace(",", "."))
    if rate is None or not rate > 0.0 or axes[:2] != ["Frame", "Sub Frame"]:
        raise ValueError(
            f"{path}, line {begin + 2}: below 'Trajectories' Nexus writes the rate [Hz], names of "
            "markers, and 'Frame', 'Sub Frame', 'X', ...; export it again"
        )
    places = [k for k, label in enumerate(labels) if label and axes[k : k + 3] == ["X", "Y", "Z"]]
    names = [*axes[:2], *(f"{labels[k]} {axis}" for k in places for axis in "XYZ")]
    rows = "\n".join(lines[:end]).replace(",", "." if sep == ";" else ",")
    cells = cells_of(path, rows, begin + 6, sep, [str(k) for k in range(len(axes))])
    chosen_rows = cells.part([str(k) for k in (0, 1, *(p + i for p in places for i in range(3)))])
    numbers = numbers_of(path, Cells(names, chosen_rows.rows))
    positions = distinct(
        path, [labels[k] for k in places], numbers[2:].reshape(len(places), 3, -1), "marker"
    )
    with naming(path):
        time = uniform((numbers[0] - 1.0) / rate, rate)
    return time, positions, next((unit for unit in units if unit), "").lower()


def read_places(
    path: File,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
    like: Markers | None = None,
) -> dict[str, Array]:
    """Read one position (3,) for each marker [m], such as its mean over a static trial; see
    `Markers.mean` for a trial that was recorded.

    A CSV file with columns `marker` and `x`, `y`, `z`, with `_m`, `_cm` or `_mm` if the unit is
    known. Arguments and errors as in `read_csv`.
    """
    cells = csv_cells(path)
    heads = {column.partition("_")[0]: column for column in reversed(cells.names)}
    check_columns(path, Cells([*heads], {}), ("marker", "x", "y", "z"))
    numbers = numbers_of(path, cells.part([heads[axis] for axis in "xyz"]))
    names = [name for (name,) in cells.part([heads["marker"]]).rows.values()]
    positions = distinct(path, names, numbers.T, "marker")
    for name, position in positions.items():
        if np.isnan(position).any():
            raise ValueError(f"{path}: the position of {name!r} is missing; remove its line")
    said = heads["x"].partition("_")[2]
    rows = {name: position[:, None] for name, position in positions.items()}
    turned, _ = turned_rows(path, rows, said, unit, (up, forward, left), "y", like=like)
    turned = {name: row for name, row in turned.items() if not np.isnan(row).any()}
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
    own: Own = NO_AXES,
    like: Markers | None = None,
) -> tuple[Markers, Laboratory]:
    """Markers (3, N) of a file, and its axes and units.

    said : the unit of the file. unit, told : as given by the user, see `read_trc`. default : the
    upward axis without evidence. pressed : evidence from forces of the same file, used if names of
    markers give none.
    own : up and forwards, as the file says. like : markers with the same axes.
    """
    short, prefix = _short(positions)
    turned, laboratory = turned_rows(path, short, said, unit, told, default, pressed, own, like)
    if prefix:
        laboratory = replace(laboratory, note=f"{laboratory.note}; names without {prefix!r}")
    with naming(path):
        return Markers(time, turned, laboratory), laboratory


def _short(positions: Mapping[str, Array]) -> tuple[Mapping[str, Array], str]:
    """Names without a common prefix before a colon, such as that of the subject."""
    before = {"".join(name.rpartition(":")[:2]) for name in positions}
    prefix = before.pop() if len(before) == 1 else ""
    if not prefix:
        return positions, ""
    return {name.removeprefix(prefix): row for name, row in positions.items()}, prefix


def _seen(path: File, positions: Mapping[str, Array]) -> dict[str, Array]:
    """Positions with NaN where all three coordinates are zero, which marks a missing sample; also
    of markers that are zero throughout among others that are not."""
    zero = {name: (row == 0.0).all(axis=0) for name, row in positions.items()}
    never = [name for name, here in zero.items() if here.all()]
    if len(never) == len(zero):
        return dict(positions)
    if never:
        warn(
            f"{path}: {shown(never)} {'is' if len(never) == 1 else 'are'} at 0, 0, 0 in all "
            "samples, as markers are that were never seen: taken as missing; where it is a place, "
            "put the origin of the file elsewhere"
        )
    return {
        name: np.where(zero[name], np.nan, row) if zero[name].any() else row
        for name, row in positions.items()
    }


def turned_rows(
    path: File,
    positions: Mapping[str, Array],
    said: str,
    unit: str | None,
    told: tuple[str | None, str | None, str | None],
    default: str,
    pressed: Evidence = NOTHING,
    own: Own = NO_AXES,
    like: Markers | None = None,
) -> tuple[dict[str, Array], Laboratory]:
    """Positions (3, N) of a file in world axes [m], and the evidence for these axes; arguments as
    of `markers_of`."""
    alike, seen_rows = laboratory_of(like), _seen(path, positions)
    name = unit_of(path, said, unit, seen_rows.values())
    metres = {marker: UNITS[name] * row for marker, row in seen_rows.items()}
    with naming(path):
        check_size(metres.values(), NEAREST)
    above = told[0] or (alike.up if alike else "")
    check_choice(above or "x", DIRECTIONS, "up")
    seen = seen_in_markers(metres, pressed, above)
    laboratory = chosen(path, told, seen, name, default, alike, own)
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


def laboratory_of(like: Markers | None) -> Laboratory | None:
    """Axes of markers, if they are from a file; raises `ValueError` for other types."""
    if like is None:
        return None
    check_kind(like, Markers, "kinesym.gait")
    return like.laboratory


def vector(path: File, label: str, axes: Mapping[str, Array], optional: str) -> Array:
    """Rows x, y, z; those that are optional are zero if they are missing."""
    for axis in "xyz":
        if axis not in axes and axis not in optional:
            known = ", ".join(label + each for each in axes)
            raise ValueError(f"{path}: the column {label}{axis} is missing; there is {known}")
    zero = np.zeros_like(next(iter(axes.values())))
    return np.array([axes.get(axis, zero) for axis in "xyz"])
