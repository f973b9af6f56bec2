"""ExternalLoads of OpenSim: forces on bodies, whose columns are in a table beside the file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from kinesym.base import checks
from kinesym.base.checks import suggest
from kinesym.gait.motion_files import Table, read_mot
from kinesym.gait.tables import File
from kinesym.runtime.arrays import AXES, Array


@dataclass(frozen=True, eq=False)
class ExternalForce:
    """A force on a body over time. force, point, torque : (3, N) in axes of the ground and in units
    of the table; None where the file names no columns."""

    name: str
    body: str
    force: Array | None
    point: Array | None
    torque: Array | None


def external_forces(
    path: File, root: Element, data: File | None = None
) -> tuple[Table, list[ExternalForce]]:
    """The table of an ExternalLoads file, and the forces that this applies.

    root : of the file. data : the table with their columns; by default the one that the file names,
    beside it, compressed or not.

    Raises `ValueError` for other files, for missing columns, and for forces that are not given in
    axes of the ground.
    """
    loads = next(root.iter("ExternalLoads"), None)
    forces = [] if loads is None else [e for e in loads.iter("ExternalForce") if _applies(e)]
    name = "" if loads is None else _text(loads, "datafile")
    if not forces or not (name or data):
        raise ValueError(f"{path} is no ExternalLoads file: it lacks ExternalForce or datafile")
    table = read_mot(_beside(path, name) if data is None else data)
    return table, [_force(path, e, table) for e in forces]


def _applies(e: Element) -> bool:
    """Whether a force is applied; files before version 4 declare which are not."""
    off = _text(e, "appliesForce").lower() in ("false", "0")
    return not off and _text(e, "isDisabled").lower() not in ("true", "1")


def _force(path: File, e: Element, table: Table) -> ExternalForce:
    name, body = e.get("name", ""), _text(e, "applied_to_body")
    for frame in ("force_expressed_in_body", "point_expressed_in_body"):
        if _text(e, frame) not in ("", "ground", "/ground"):
            raise ValueError(
                f"{path}: {name or body} is given in axes of a body; only ground is read"
            )
    kinds = ("force", "point", "torque")
    force, point, torque = (_columns(path, table, _text(e, f"{kind}_identifier")) for kind in kinds)
    return ExternalForce(name, body, force, point, torque)


def _columns(path: File, table: Table, beginning: str) -> Array | None:
    """Three columns (3, N): those with x, y, z behind this beginning, or else all that begin so."""
    if not beginning:
        return None
    names = [f"{beginning}{axis}" for axis in AXES]
    if not set(names) <= set(table.names):
        names = [name for name in table.names if name.startswith(beginning)]
    if len(names) != len(AXES):
        raise ValueError(
            f"{path} names the columns {beginning!r}, but {len(names)} of its data begin so, not "
            f"three; {suggest(beginning + 'x', table.columns)}"
        )
    return np.array([table[name] for name in names])


def _beside(path: File, name: str) -> Path:
    """The file of that name in the folder of another one, compressed or not."""
    folder = Path(str(path)).parent
    places = [folder / f"{name}{ending}" for ending in ("", ".gz")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ValueError(f"{path} names the file {name!r}, which is not beside it; put it there")
    return found


def _text(element: Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def loads_element(data: str, plates: Collection[str], bodies: Mapping[str, str]) -> Element:
    """The ExternalLoads of plates in the file `data`, as `write_forces` calls their columns.

    bodies : by the name of the plate, for each; raises `ValueError` for others.
    """
    root = Element("OpenSimDocument", Version="40000")
    loads = SubElement(root, "ExternalLoads", name="loads")
    objects = SubElement(loads, "objects")
    given = checks.mapping(bodies, "bodies")
    for name in given:
        checks.check_known(name, plates, f"bodies names {name!r}")
    for name in plates:
        if name not in given:
            raise ValueError(f"bodies does not say on which body {name!r} acts; {name}=...")
    for name, body in given.items():
        force = SubElement(objects, "ExternalForce", name=name)
        for key, value in (
            ("applied_to_body", body),
            ("force_expressed_in_body", "ground"),
            ("point_expressed_in_body", "ground"),
            ("force_identifier", f"{name}_ground_force_v"),
            ("point_identifier", f"{name}_ground_force_p"),
            ("torque_identifier", f"{name}_ground_torque_"),
        ):
            SubElement(force, key).text = value
    SubElement(loads, "datafile").text = data
    return root
