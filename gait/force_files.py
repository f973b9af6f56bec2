"""Files of force plates: MOT and STO of OpenSim, its external loads, Cortex, and CSV.

World axes of kinesym: x forwards, y to the left, z up; see `marker_files`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.interpolate import interp1d

from kinesym.base import checks
from kinesym.base.checks import Named, check_kind, naming, suggest
from kinesym.base.files import replacing
from kinesym.gait.axes import (
    NO_AXES,
    PLAUSIBLE,
    SURE,
    UNITS,
    Laboratory,
    Own,
    absent,
    chosen,
    of_plane,
    own_axes,
    rotation,
    seen_in_forces,
    unit_of,
)
from kinesym.gait.checks import warn
from kinesym.gait.external_loads import external_forces, loads_element
from kinesym.gait.marker_files import laboratory_of, vector
from kinesym.gait.markers import Markers
from kinesym.gait.motion_files import Table, read_mot, read_table
from kinesym.gait.tables import (
    File,
    cells_of,
    check_count,
    check_seconds,
    end_of_header,
    named,
    number,
    numbers_of,
    text_of,
    write_storage,
)
from kinesym.gait.wrench import THRESHOLD, Wrench, check_reaction, same_grid
from kinesym.runtime.arrays import AXES, Array

#: Under a person the centre of pressure wanders further than this [m].
RESTING = 2e-3

#: Columns of a plate: kind ("force", "cop", "torque", "free_moment", "moment"), axis ("" for the
#: vertical), values.
Parts = dict[str, dict[str, Array]]

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
#: `FX1`, `X1`, `MZ1` of Cortex, in N, mm and N mm.
_CORTEX = re.compile(r"(?P<kind>F|M|)(?P<axis>[XYZ])(?P<plate>\d+)")


def read_forces(
    path: File,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
    left: str | None = None,
    threshold: float = THRESHOLD,
    rename: Mapping[str, str] | None = None,
    like: Markers | None = None,
) -> dict[str, Wrench]:
    """Ground reaction by plate or foot, from a CSV, MOT, STO, XML or .forces file.

    Columns are those of OpenSim, `ground_force_vx`, `ground_force_px`, `ground_torque_x`, ... with
    something before or within, such as `1_` or `l_`, which is the name here (without: "ground"); or
    `right_force_x_N`, `right_cop_x_m`, `right_torque_x_Nm`, ... (without a name: "plate").
    Torques are about the centre of pressure; instead of three `right_free_moment_Nm` is about the
    vertical, and `right_moment_z_Nm`, ... without a centre is about the origin. Where no column
    has the axis to the side, the record is of one plane; a height that the centre lacks is zero.

    An XML file is OpenSim's ExternalLoads: it names the columns, whatever they are called, and a
    file beside it; names here are those of the bodies. A .forces file is Cortex's: names here are
    "1", "2", ...

    unit : of lengths without one in the name of the column, "m", "cm" or "mm"; default metres.
    up, forward, left : axes of the file as in `read_trc`; default as it declares, as `write_forces`
        does, or else by the data: the vertical by weight, forwards by braking and pushing in whole
        stances. like : markers of the same trial; their axes are taken, unless the file says its
        own.
    threshold : see `Wrench.at_cop`. rename : new names by old ones; `assign_plates` finds feet.

    Warns as `read_trc`. Raises `FileNotFoundError`, `KeyError` for an unknown name, and
    `ValueError` naming line, column or plate of the fault.
    """
    wrenches, _ = forces_of(path, unit, (up, forward, left), threshold, laboratory_of(like))
    return renamed(wrenches, rename or {})


def forces_of(
    path: File,
    unit: str | None = None,
    told: tuple[str | None, str | None, str | None] = (None, None, None),
    threshold: float = THRESHOLD,
    like: Laboratory | None = None,
) -> tuple[dict[str, Wrench], Laboratory]:
    """Wrenches of a file, and its axes; arguments and errors as of `read_forces`."""
    text, own = text_of(path), NO_AXES
    if text.lstrip().startswith("<"):
        time, plates, own = _external_loads(path, text, unit)
    elif text.startswith("[Force Data]"):
        time, plates = _cortex(path, text)
    else:
        is_mot = end_of_header(text.splitlines()) is not None
        table = read_mot(path) if is_mot else read_table(path)
        if not is_mot:
            check_seconds(path, table.time)
        time, plates = table.time, _plates(path, table, unit)
        own = own_axes(table.header.get("axes", ""))
    plates = _in_metres(path, plates, unit)
    up, forward, _ = told if like is None else (like.up, like.forward, like.left)
    up, forward = (up, forward) if own == NO_AXES else own
    vectors = [parts.get(kind, {}) for parts in plates.values() for kind in ("force", "cop")]
    plane = absent(up, forward, vectors)
    forces = {
        plate: vector(f"{path}, {plate}", "force ", parts["force"], plane)
        for plate, parts in plates.items()
        if "force" in parts
    }
    evidence = seen_in_forces([(time, force) for force in forces.values()], threshold)
    if evidence.up == (up or "")[-1:]:  # which way it points is not seen
        evidence = replace(evidence, up=up or "")
    if plane and not evidence.up:
        evidence = of_plane(plane)
    laboratory = chosen(path, told, evidence, "m", "y", like, own)
    wrenches = {
        plate: _wrench(
            f"{path}, {plate}", time, parts, forces.get(plate), laboratory, plane, threshold
        )
        for plate, parts in plates.items()
    }
    return wrenches, laboratory


def renamed(wrenches: Mapping[str, Wrench], rename: Mapping[str, str]) -> dict[str, Wrench]:
    """Wrenches with new names, given by the old ones; raises `KeyError` for an unknown name,
    `ValueError` if two get the same one."""
    found = Named[Wrench]("plate")
    for old in checks.mapping(rename, "rename"):
        if old not in wrenches:
            raise KeyError(f"there is no plate {old!r}; {suggest(old, wrenches)}")
    for name, wrench in wrenches.items():
        new = rename.get(name, name)
        if new in found:
            raise ValueError(f"two plates would be called {new!r}; rename one of them otherwise")
        found[new] = wrench
    return found


# -- columns by plate -----------------------------------------------------------------------------


def _plates(path: File, table: Table, unit: str | None) -> dict[str, Parts]:
    """Columns of a table, sorted by plate and quantity from their names."""
    plates: dict[str, Parts] = {}
    for column, row in table.columns.items():
        found = _force_column(path, column, unit)
        if found:
            plate, kind, axis, scale = found
            plates.setdefault(plate, {}).setdefault(kind, {})[axis] = scale * row
    if not any("force" in parts for parts in plates.values()):
        raise ValueError(
            f"{path} has no columns of forces, such as ground_force_vx or "
            f"right_force_x_N; there are {', '.join(table.names[:6])}; rename them in the file, or "
            "hand the rows of each plate to ks.gait.Wrench.at_cop"
        )
    return plates


def _in_metres(path: File, plates: dict[str, Parts], unit: str | None) -> dict[str, Parts]:
    """Columns whose lengths are millimetres, turned to metres with a warning: where the load acts,
    in its mean, is beyond any laboratory. Warns of a unit that was given and cannot be."""
    farthest, widest = _reach(plates)
    if unit is not None and farthest > PLAUSIBLE[1]:
        warn(f"{path}: unit={unit!r} was given, but the load acts {farthest:.4g} m away")
    if unit in ("mm", "cm") and 0.0 < farthest < PLAUSIBLE[0] and widest < RESTING:
        warn(
            f"{path}: unit={unit!r} was given, but the load acts at one point, within "
            f"{1e3 * widest:.2g} mm: are lengths in m?"
        )
    if unit is not None or farthest < SURE[1]:
        return plates
    warn(f"{path}: the load acts {farthest:.4g} m away: taken as mm; unit='m' insists")
    lengths = ("cop", "torque", "free_moment", "moment")
    return {
        plate: {
            kind: {a: row * (UNITS["mm"] if kind in lengths else 1.0) for a, row in axes.items()}
            for kind, axes in parts.items()
        }
        for plate, parts in plates.items()
    }


def _reach(plates: Mapping[str, Parts]) -> tuple[float, float]:
    """Largest distance from the origin at which a load acts along an axis, as a mean weighted by
    the load; largest range of a centre of pressure along an axis, while the plate is loaded."""
    farthest, widest = [0.0], [0.0]
    for parts in plates.values():
        load = np.nan_to_num(sum(np.abs(row) for row in parts.get("force", {}).values()))
        for row in parts.get("cop", {}).values() if np.any(load) else ():
            farthest.append(float(np.nan_to_num(np.abs(row)) @ load / load.sum()))
            seen = row[(load > 0.5 * np.max(load)) & np.isfinite(row)]
            widest.append(float(np.ptp(seen)) if seen.size else 0.0)
    return max(farthest), max(widest)


def _force_column(path: File, column: str, unit: str | None) -> tuple[str, str, str, float] | None:
    """Plate, kind, axis ("" for the vertical) and scale of a column of forces."""
    found = _OPENSIM.fullmatch(column)
    if found:
        plate = "_".join(part for part in (found["before"], found["after"]) if part) or "ground"
        kind = {"v": "force", "p": "cop"}.get(found["what"], "torque")
        scale = 1.0 if kind == "force" else UNITS[unit_of(path, "m", unit, [])]
        return plate, kind, found["axis"], scale
    found = _FORCE.fullmatch(column)
    if not found:
        return None
    scale = 1.0 if found["kind"] == "force" else UNITS["mm" if "mm" in found["unit"] else "m"]
    return found["plate"] or "plate", found["kind"], found["axis"] or "", scale


def _cortex(path: File, text: str) -> tuple[Array, dict[str, Parts]]:
    """A .forces file of Cortex: samples at a rate, force, centre [mm] and free moment [N mm]."""
    lines = text.splitlines()
    begin = next((k for k, line in enumerate(lines) if line.startswith("#Sample")), None)
    if begin is None:
        raise ValueError(f"{path} is no .forces file: a line with '#Sample FX1 FY1 ...' is missing")
    facts = dict(line.split("=", 1) for line in lines[1:begin] if "=" in line)
    rate = number(facts.get("SampleRate", ""))
    if rate is None or not rate > 0.0:
        raise ValueError(f"{path} must say SampleRate=..., a positive number [Hz]")
    names = lines[begin].split()
    columns = named(path, names, numbers_of(path, cells_of(path, text, begin + 2, None, names)))
    samples = columns.pop("#Sample")
    check_count(path, "NumberOfSamples", facts.get("NumberOfSamples", ""), len(samples), text)
    plates: dict[str, Parts] = {}
    for name, row in columns.items():
        found = _CORTEX.fullmatch(name)
        if found:
            kind = {"F": "force", "M": "torque", "": "cop"}[found["kind"]]
            scale = 1.0 if kind == "force" else UNITS["mm"]
            axes = plates.setdefault(found["plate"], {}).setdefault(kind, {})
            axes[found["axis"].lower()] = scale * row
    if not plates:
        raise ValueError(f"{path} has no columns FX1, FY1, FZ1, X1, ...; there are {names[1:6]}")
    return (samples - samples[0]) / rate, plates


def _external_loads(path: File, text: str, unit: str | None) -> tuple[Array, dict[str, Parts], Own]:
    """Columns declared by an ExternalLoads file of OpenSim, read from the table beside it."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is no XML file: {error}") from error
    table, forces = external_forces(path, root)
    lengths = UNITS[unit_of(path, "m", unit, [])]
    plates: dict[str, Parts] = {}
    for one in forces:
        name = one.body or one.name
        given = {"force": one.force, "cop": one.point, "torque": one.torque}
        parts = {
            kind: dict(zip(AXES, (1.0 if kind == "force" else lengths) * rows, strict=True))
            for kind, rows in given.items()
            if rows is not None
        }
        plates[f"{name}_{len(plates) + 1}" if name in plates else name] = parts
    return table.time, plates, own_axes(table.header.get("axes", ""))


# -- a wrench -------------------------------------------------------------------------------------


def _wrench(
    what: str,
    time: Array,
    parts: Parts,
    force: Array | None,
    laboratory: Laboratory,
    plane: str,
    threshold: float,
) -> Wrench:
    """Wrench of one plate from its columns, still in the axes of the file; moments are
    pseudovectors, and mirrored otherwise than vectors."""
    if force is None or not parts.keys() & {"cop", "moment"}:
        raise ValueError(
            f"{what}: force and centre of pressure are needed, or force and moment about the "
            f"origin; there is {', '.join(parts)}"
        )
    turn = laboratory.turn
    mirrored = turn * np.linalg.det(turn)
    force, free = turn @ force, np.zeros_like(force)
    if "torque" in parts:
        free = mirrored @ vector(what, "torque ", parts["torque"], "xyz")
    for axis, row in parts.get("free_moment", {}).items():
        along = mirrored["xyz".index(axis)] if axis else np.array([0.0, 0.0, 1.0])
        free += np.outer(along, row)
    if "cop" in parts:
        cop = turn @ vector(what, "cop ", parts["cop"], plane + laboratory.up[-1])
        with naming(what):
            return Wrench.at_cop(time, force, cop, free, threshold)
    moment = mirrored @ vector(what, "moment ", parts["moment"], "xyz" if plane else "")
    with naming(what):
        found = Wrench(time, force, moment)
        check_reaction(found)
    return found


# -- writing --------------------------------------------------------------------------------------


def write_forces(
    path: str | Path,
    wrenches: Mapping[str, Wrench],
    up: str = "y",
    forward: str = "x",
    height: float = 0.0,
    threshold: float = THRESHOLD,
    bodies: Mapping[str, str] | None = None,
) -> None:
    """Write wrenches by plate or foot as a MOT or STO file, as OpenSim's ExternalLoads expects:
    `right_ground_force_vx`, `right_ground_force_px`, `right_ground_torque_x`, ...

    Forces [N] act at the centre of pressure on the floor at `height` [m], with a torque [N m].
    Where the vertical force is below `threshold` [N], the point is the nearest centre in time and
    the torque has three components, so that nothing is lost: `read_forces` reads the same wrenches.
    up, forward : axes of the file. bodies : by name here, the body of a model; then `path` with the
    ending .xml is written too, ExternalLoads that OpenSim reads.

    Raises `ValueError` for no wrenches, other times, names with blanks, and bodies of unknown ones.
    """
    if not checks.mapping(wrenches, "wrenches"):
        raise ValueError("there are no wrenches; give at least one as name: Wrench")
    back, columns = rotation(up, forward).T, dict[str, Array]()
    time = next(iter(wrenches.values())).time
    for name, wrench in wrenches.items():
        check_kind(wrench, Wrench, "kinesym.gait")
        if not same_grid(wrench.time, time):
            raise ValueError(f"{name!r} has other times than the first; resample with at()")
        point = held(wrench.cop(height, threshold), height)
        parts = {"force_v": wrench.force, "force_p": point, "torque_": wrench.about(point)}
        for part, rows in parts.items():
            for axis, row in zip(AXES, back @ rows, strict=True):
                columns[f"{name}_ground_{part}{axis}"] = row
    loads = None if bodies is None else loads_element(Path(path).name, wrenches, bodies)
    write_storage(path, time, columns, False, (up, forward))
    if loads is not None:
        ElementTree.indent(loads)
        with replacing(Path(path).with_suffix(".xml")) as beside:
            ElementTree.ElementTree(loads).write(beside, "utf-8", xml_declaration=True)


def held(centre: Array, height: float) -> Array:
    """Centres (3, N) with missing samples taken from the nearest one; the origin if there is
    none."""
    known = np.flatnonzero(~np.isnan(centre[0]))
    if not known.size:
        return np.outer([0.0, 0.0, height], np.ones(centre.shape[1]))
    nearest = interp1d(
        known, centre[:, known], "nearest-up", bounds_error=False, fill_value="extrapolate"
    )
    return np.asarray(nearest(np.arange(centre.shape[1])))
