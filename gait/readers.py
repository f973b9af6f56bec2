"""Files of a gait laboratory: TRC, CSV, C3D, MOT and STO, into world axes and SI units.

World axes of kinesym: x forwards, y to the left, z up. Every reader is told by `up` and `forward`
which axes of the file those are, such as up="y", forward="x" of a laboratory whose z is to the
right: one of x, y, z, -x, -y, -z each.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinesym.checks import check_choice, naming, suggest
from kinesym.gait.c3d import content
from kinesym.gait.markers import Markers, check_size, uniform
from kinesym.gait.tables import (
    File,
    cells_of,
    check_count,
    csv_cells,
    named,
    number,
    numbers_of,
    over_time,
    text_of,
)
from kinesym.gait.wrench import THRESHOLD, Wrench, check_reaction
from kinesym.notebook import Displayed
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.trajectory import ByName

#: Lengths in metres.
UNITS = {"m": 1.0, "mm": 1e-3}
DIRECTIONS = ("x", "y", "z", "-x", "-y", "-z")
#: All markers nearer than this to the origin of the laboratory were scaled twice [m].
NEAREST = 0.05

_MARKER = re.compile(r"(?P<name>.+)_(?P<axis>[xyzXYZ])(?:_(?P<unit>m|mm))?")
#: `1_ground_force_vx`, `ground_force_r_px`, `l_ground_torque_z` of OpenSim.
_OPENSIM = re.compile(
    r"(?P<before>.*?)_?ground_(?P<kind>force|torque|moment)_?(?P<after>.*?)_?"
    r"(?P<what>[vpm]?)(?P<axis>[xyz])"
)
#: `right_force_x_N`, `plate6_free_moment_Nm`, `moment_z_Nm`.
_FORCE = re.compile(
    r"(?:(?P<plate>.+?)_)?(?P<kind>force|cop|torque|free_moment|(?<!free_)moment)"
    r"(?:_(?P<axis>[xyz]))?_(?P<unit>N|m|mm|Nm|Nmm)"
)


@dataclass(frozen=True, eq=False, repr=False)
class Table(Displayed, ByName):
    """Columns over time (N,) [s], each (N,), in the units of the file.

    degrees : whether the file says that angles are in degrees; `radians` takes that out.
    header : what else it says about itself.
    """

    time: Array
    columns: Mapping[str, Array]
    degrees: bool
    header: Mapping[str, str]

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
        """An angle or its derivative in radians, whatever the file has."""
        return np.deg2rad(self[name]) if self.degrees else self[name]


# -- markers ------------------------------------------------------------------------------------


def read_trc(path: File, unit: str | None = None, up: str = "y", forward: str = "x") -> Markers:
    """Markers of a TRC file (Motion Analysis, OpenSim); empty cells are missing samples.

    unit : "m" or "mm"; default what the file says. up, forward : see above.

    Raises `FileNotFoundError`, and `ValueError` naming line and column of the error.
    """
    text = text_of(path)
    lines = text.splitlines()
    if len(lines) < 6 or not lines[0].startswith("PathFileType"):
        raise ValueError(
            f"{path} is no TRC file: its first line must begin with 'PathFileType'; "
            "read_csv, read_mot and read_c3d read others"
        )
    facts = dict(zip(lines[1].split("\t"), (x.strip() for x in lines[2].split("\t")), strict=False))
    labels = lines[3].rstrip().split("\t")
    if [label.strip() for label in labels[:2]] != ["Frame#", "Time"]:
        raise ValueError(
            f"{path}, line 4 must begin with 'Frame#' and 'Time' between tabulators, "
            f"got {lines[3][:40]!r}"
        )
    names = [label.strip() for label in labels[2::3]]
    columns = ["Frame#", "Time", *(f"{name} {axis}" for name in names for axis in "XYZ")]
    numbers = numbers_of(path, cells_of(path, text, 6, "\t", columns))
    check_count(path, "NumFrames", facts.get("NumFrames", ""), numbers.shape[1], text)
    positions = numbers[2:].reshape(len(names), 3, -1)
    scale = _scale(path, facts.get("Units", "m").lower(), unit)
    with naming(path):  # short records need the rate to tell what was rounded
        time = uniform(numbers[1], number(facts.get("DataRate", "")))
    return _markers(path, time, named(path, names, positions), scale, up, forward)


def read_csv(path: File, unit: str | None = None, up: str = "y", forward: str = "x") -> Markers:
    """Markers of a CSV file, which may be compressed (.gz); empty cells are missing samples.

    Columns are `time` or `time_s` [s], and `Heel_x`, `Heel_x_m` or `Heel_x_mm`, ... Others, such
    as forces and centres of pressure, are passed over. Where no marker has the axis to the side,
    the record is of one plane and it is zero.

    unit : "m" or "mm"; default what the columns say, or else metres. up, forward : see above.

    Raises `FileNotFoundError`, and `ValueError` naming line and column of what is wrong.
    """
    table = read_table(path)
    parts: dict[str, dict[str, Array]] = {}
    for column, row in table.columns.items():
        found = _MARKER.fullmatch(column)
        if found and not found["name"].endswith("cop"):
            scale = _scale(path, found["unit"] or "m", unit)
            axes = parts.setdefault(found["name"], {})
            axes[found["axis"].lower()] = scale * row
    if not parts:
        raise ValueError(
            f"{path} has no columns of markers, such as Heel_x_m, Heel_y_m, Heel_z_m; "
            f"there are {', '.join(table.names[:6])}"
        )
    turn = rotation(up, forward)
    plane = _absent(turn, parts.values())
    positions = {name: _vector(path, f"{name}_", axes, plane) for name, axes in parts.items()}
    return _markers(path, table.time, positions, 1.0, up, forward)


def read_places(
    path: File, unit: str | None = None, up: str = "y", forward: str = "x"
) -> dict[str, Array]:
    """One position (3,) for each marker [m], such as its mean over a static trial.

    A CSV file with columns `marker` and `x`, `y`, `z`, with `_m` or `_mm` if the unit is known.
    Arguments and errors as in `read_csv`.
    """
    cells = csv_cells(path)
    heads = {column.partition("_")[0]: column for column in reversed(cells.names)}
    for head in ("marker", "x", "y", "z"):
        if head not in heads:
            known = ", ".join(cells.names)
            raise ValueError(f"{path}, line 1 lacks the column {head}; there are {known}")
    scale = _scale(path, heads["x"].partition("_")[2] or "m", unit)
    numbers = numbers_of(path, cells.part([heads[axis] for axis in "xyz"]))
    with naming(path):
        check_size([scale * numbers], NEAREST)
    names = [name for (name,) in cells.part([heads["marker"]]).rows.values()]
    positions = named(path, names, (scale * rotation(up, forward) @ numbers).T)
    for name, position in positions.items():
        if np.isnan(position).any():
            raise ValueError(f"{path}: the position of {name!r} is missing; remove its line")
    return positions


def read_c3d(
    path: str | Path, unit: str | None = None, up: str = "z", forward: str = "x"
) -> tuple[Markers, tuple[Wrench, ...]]:
    """Markers and the wrenches of the force plates of a C3D file, at their own rates.

    Points with a negative residual are missing samples. Plates are those that ezc3d evaluates,
    types 1 to 4. By custom they hold the force of the ground on the foot.

    unit : of the points, "m" or "mm"; default what the file says. up, forward : see above.

    A file that is shorter than its header says is warned of, and read as far as it goes. Raises
    `FileNotFoundError`, and `ValueError` for what is no C3D file, holds no points, or plates that
    cannot be evaluated or give the load instead of the reaction.
    """
    found = content(path)
    names, frames, said, rate = (found[key] for key in ("names", "frames", "said", "rate"))
    if not names:
        raise ValueError(f"{path} holds no points; read_forces reads forces alone from CSV and MOT")
    if not (0.0 < rate < np.inf and frames):
        raise ValueError(f"{path} holds {frames} frames at {rate:g} Hz; it seems to be damaged")
    if frames < said:
        warnings.warn(
            f"{path} is cut short: its header says {said} frames, there are {frames}", stacklevel=2
        )
    positions = found["points"].swapaxes(0, 1)[:, :, :frames]
    scale = _scale(path, found["unit"], unit)
    begin = found["first"] / rate
    time = begin + np.arange(frames) / rate
    markers = _markers(path, time, named(path, names, positions), scale, up, forward)
    turn, end = rotation(up, forward), time[-1] + 1.0 / rate
    wrenches = [
        _plate_wrench(f"{path}, plate {k + 1}", found, k, scale, turn, begin, end)
        for k in range(len(found["unit_force"]))
    ]
    return markers, tuple(wrenches)


# -- tables and forces --------------------------------------------------------------------------


def read_mot(path: File) -> Table:
    """A MOT or STO table of OpenSim; raises as `read_table`.

    Columns keep their units: with `degrees` angles are in degrees, see `Table.radians`.
    """
    text = text_of(path)
    lines = text.splitlines()
    end = _end_of_header(lines)
    if end is None or len(lines) < end + 2:
        raise ValueError(
            f"{path} is no MOT or STO file: a line 'endheader' with labels below it is missing; "
            "read_table reads CSV"
        )
    header = {}
    for line in lines[1:end]:  # name=value, in files of SIMM with a blank between
        key, _, value = line.strip().replace("=", " ", 1).partition(" ")
        header[key.lower()] = value.strip()
    time, columns = over_time(path, cells_of(path, text, end + 2, None))
    check_count(path, "nRows", header.get("nrows", ""), len(time), text)
    degrees = header.get("indegrees", "no").lower()
    if degrees not in ("yes", "no"):
        raise ValueError(f"{path} says inDegrees={header['indegrees']}; it must be yes or no")
    return Table(time, columns, degrees == "yes", header)


def _end_of_header(lines: Sequence[str]) -> int | None:
    """Where the header of a MOT or STO file ends, if it is one."""
    return next((k for k, line in enumerate(lines) if line.strip().lower() == "endheader"), None)


def read_table(path: File) -> Table:
    """A CSV table with a column `time` or `time_s`, which may be compressed (.gz).

    Empty cells are NaN. Columns keep their names and units. Raises `FileNotFoundError`, and
    `ValueError` naming line and column of what is wrong.
    """
    time, columns = over_time(path, csv_cells(path))
    return Table(time, columns, False, {})


def read_forces(
    path: File,
    unit: str | None = None,
    up: str = "y",
    forward: str = "x",
    threshold: float = THRESHOLD,
) -> dict[str, Wrench]:
    """Ground reaction by plate or foot, from a CSV, MOT or STO file.

    Columns are those of OpenSim, `ground_force_vx`, `ground_force_px`, `ground_torque_x`, ... with
    something before, such as `1_` or `l_`, which is the name here (without: "ground"); or
    `right_force_x_N`, `right_cop_x_m`, `right_torque_x_Nm`, ... (without a name: "plate").
    Torques are about the centre of pressure; instead of three `right_free_moment_Nm` is about the
    vertical, and `right_moment_z_Nm`, ... without a centre is about the origin. Where no column
    has the axis to the side, the record is of one plane; a height that the centre lacks is zero.

    unit : of lengths without one in the name of the column, "m" or "mm"; default metres.
    up, forward : see above. threshold : see `Wrench.at_cop`.

    Raises `FileNotFoundError`, and `ValueError` naming line, column or plate of what is wrong.
    """
    is_mot = _end_of_header(text_of(path).splitlines()) is not None
    table = read_mot(path) if is_mot else read_table(path)
    plates: dict[str, dict[str, dict[str, Array]]] = {}
    for column, row in table.columns.items():
        found = _force_column(path, column, unit)
        if found:
            plate, kind, axis, scale = found
            plates.setdefault(plate, {}).setdefault(kind, {})[axis] = scale * row
    if not any("force" in parts for parts in plates.values()):
        raise ValueError(
            f"{path} has no columns of forces, such as ground_force_vx or "
            f"right_force_x_N; there are {', '.join(table.names[:6])}"
        )
    turn = rotation(up, forward)
    vectors = [parts.get(kind, {}) for parts in plates.values() for kind in ("force", "cop")]
    plane = _absent(turn, vectors)
    return {
        plate: _wrench(f"{path}, {plate}", table.time, parts, turn, plane, threshold)
        for plate, parts in plates.items()
    }


# -- axes and units -----------------------------------------------------------------------------


def rotation(up: str, forward: str) -> Array:
    """The matrix (3, 3) from axes of a file to those of the world; raises `ValueError`."""
    for what, axis in (("up", up), ("forward", forward)):
        check_choice(axis, DIRECTIONS, what)
    ahead, above = (_unit_vector(axis) for axis in (forward, up))
    if ahead @ above:
        raise ValueError(f"up={up!r} and forward={forward!r} are the same axis; choose two")
    return np.array([ahead, np.cross(above, ahead), above])


def _unit_vector(axis: str) -> Array:
    return (-1.0 if axis[0] == "-" else 1.0) * np.eye(3)["xyz".index(axis[-1])]


def _scale(path: File, said: str, unit: str | None) -> float:
    """Metres of a length; what the user says counts more than what the file does."""
    if unit is not None:
        check_choice(unit, UNITS, "unit")
    elif said not in UNITS:
        raise ValueError(f"{path} says that lengths are in {said!r}; set unit='m' or unit='mm'")
    return UNITS[unit or said]


def _markers(
    path: File, time: Array, positions: Mapping[str, Array], scale: float, up: str, forward: str
) -> Markers:
    turn = scale * rotation(up, forward)
    with naming(path):
        markers = Markers(time, {name: turn @ position for name, position in positions.items()})
        check_size(markers.positions.values(), NEAREST)
    return markers


def _absent(turn: Array, found: Iterable[Mapping[str, Array]]) -> str:
    """The axis to the side if no column of these vectors has it, or else nothing."""
    side = "xyz"[int(np.argmax(np.abs(turn[1])))]
    return "" if any(side in axes for axes in found) else side


def _vector(path: File | str, label: str, axes: Mapping[str, Array], optional: str) -> Array:
    """Rows x, y, z; those that are optional are zero if they are missing."""
    for axis in "xyz":
        if axis not in axes and axis not in optional:
            known = ", ".join(label + each for each in axes)
            raise ValueError(f"{path}: the column {label}{axis} is missing; there is {known}")
    zero = np.zeros_like(next(iter(axes.values())))
    return np.array([axes.get(axis, zero) for axis in "xyz"])


# -- forces -------------------------------------------------------------------------------------


def _force_column(path: File, column: str, unit: str | None) -> tuple[str, str, str, float] | None:
    """Plate, kind, axis ("" for the vertical) and scale of a column of forces."""
    found = _OPENSIM.fullmatch(column)
    if found:
        plate = "_".join(part for part in (found["before"], found["after"]) if part) or "ground"
        kind = {"v": "force", "p": "cop"}.get(found["what"], "torque")
        return plate, kind, found["axis"], 1.0 if kind == "force" else _scale(path, "m", unit)
    found = _FORCE.fullmatch(column)
    if not found:
        return None
    scale = 1.0 if found["kind"] == "force" else UNITS["mm" if "mm" in found["unit"] else "m"]
    return found["plate"] or "plate", found["kind"], found["axis"] or "", scale


def _wrench(
    what: str,
    time: Array,
    parts: Mapping[str, Mapping[str, Array]],
    turn: Array,
    plane: str,
    threshold: float,
) -> Wrench:
    """One plate from its columns, still in the axes of the file."""
    if "force" not in parts or not parts.keys() & {"cop", "moment"}:
        raise ValueError(
            f"{what}: force and centre of pressure are needed, or force and moment about the "
            f"origin; there is {', '.join(parts)}"
        )
    force = turn @ _vector(what, "force ", parts["force"], plane)
    free = np.zeros_like(force)
    if "torque" in parts:
        free = turn @ _vector(what, "torque ", parts["torque"], "xyz")
    for axis, row in parts.get("free_moment", {}).items():
        along = turn @ _unit_vector(axis) if axis else np.array([0.0, 0.0, 1.0])
        free += np.outer(along, row)
    if "cop" in parts:
        height = "xyz"[int(np.argmax(np.abs(turn[2])))]
        cop = turn @ _vector(what, "cop ", parts["cop"], plane + height)
        with naming(what):
            return Wrench.at_cop(time, force, cop, free, threshold)
    moment = turn @ _vector(what, "moment ", parts["moment"], "xyz" if plane else "")
    with naming(what):
        found = Wrench(time, force, moment)
        check_reaction(found)
    return found


def _plate_wrench(
    what: str, found: Mapping[str, Any], k: int, scale: float, turn: Array, begin: float, end: float
) -> Wrench:
    """Plate k of a C3D file as ezc3d evaluates it, in the axes and units of the file."""
    if found["unit_force"][k] not in ("", "N"):
        raise ValueError(f"{what} gives forces in {found['unit_force'][k]!r}, not 'N'; convert it")
    force, centre = found[f"force_{k}"], found[f"corners_{k}"].mean(axis=1, keepdims=True)
    if found["kinds"][k] == 1:  # holds its centre of pressure; the moment of ezc3d is of the load
        cop = np.where(np.abs(force) > 0.0, found[f"cop_{k}"], 0.0)
        moment = np.cross(cop, force, axis=0) + found[f"free_{k}"]
    else:  # about the middle of the surface
        moment = found[f"moment_{k}"] + np.cross(centre, force, axis=0)
    rate = found["analog_rate"]
    if not 0.0 < rate < np.inf:
        raise ValueError(f"{what} has samples at {rate:g} Hz; the file seems to be damaged")
    time = begin + np.arange(force.shape[1]) / rate
    here = time < end - 0.5 / rate
    with naming(what):
        wrench = Wrench(time[here], turn @ force[:, here], scale * turn @ moment[:, here])
        check_reaction(wrench)
    return wrench
