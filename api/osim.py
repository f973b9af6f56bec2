"""Models and external loads of OpenSim, without OpenSim."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kinesym.checks import naming, shown
from kinesym.gait.motion_files import Table, read_mot
from kinesym.gait.wrench import Wrench
from kinesym.models.files.description import Triple
from kinesym.models.files.fits import PathFit
from kinesym.models.files.osim import parse, read
from kinesym.models.files.paths import FittedMuscle, MusclePath, fit_muscles
from kinesym.models.files.trees import FileTree, identifier
from kinesym.models.files.xml import flag, named, root_of, text, triple
from kinesym.runtime.arrays import AXES, Array

__all__ = [
    "FileTree",
    "FittedMuscle",
    "MusclePath",
    "PathFit",
    "fit_muscles",
    "parse",
    "read",
    "read_loads",
    "read_markers",
]


def read_markers(path: str | Path) -> dict[str, tuple[str, Triple]]:
    """Bodies of markers and their places in the axes of these [m], by name, from a file with a
    `MarkerSet` of OpenSim, for `ks.gait.fit_markers`.

    Raises `FileNotFoundError`, and `ValueError` for a file without markers.
    """
    with naming(path):
        found = {}
        for e in root_of(path).iter("Marker"):
            body = text(e, "body") or text(e, "socket_parent_frame").rpartition("/")[2]
            found[e.get("name", "")] = (identifier(body), triple(e, "location"))
        if not found:
            raise ValueError("it has no markers")
        return found


def read_loads(path: str | Path, data: str | Path | None = None) -> dict[str, Wrench]:
    """Wrenches on bodies, by the name of the body, from an `ExternalLoads` file of OpenSim, for
    `ks.inverse_dynamics`: in axes of the ground, about its origin.

    data : the MOT or STO file with forces [N], points [m] and torques [N m]; by default the one
    that the first names, beside it. Several forces on one body are added. Points where no force
    acts may be anything.

    Raises `FileNotFoundError`, and `ValueError` that names the force for columns that are missing,
    and for what is not given in axes of the ground.
    """
    with naming(path):
        root = root_of(path)
        loads = root if root.tag == "ExternalLoads" else root.find("ExternalLoads")
        if loads is None:
            raise ValueError(f"it has no ExternalLoads, its root is {root.tag}")
        if data is None:
            data = Path(path).parent / text(loads, "datafile")
        table = read_mot(data)
        found: dict[str, Wrench] = {}
        objects = loads.find("objects")
        for e in objects if objects is not None else ():
            if not flag(e, "appliesForce", True) or flag(e, "isDisabled", False):
                continue
            for frame in ("force_expressed_in_body", "point_expressed_in_body"):
                if text(e, frame, "ground") != "ground":
                    raise ValueError(f"{named(e)}: {frame} is not ground; express it there")
            columns = [vector_of(table, text(e, f"{k}_identifier"), named(e)) for k in KINDS]
            force, point, torque = columns
            body = text(e, "applied_to_body")
            wrench = Wrench(table.time, force, torque + np.cross(point, force, axis=0))
            found[body] = found[body] + wrench if body in found else wrench
        return found


#: What an external force has, by the beginnings of its columns.
KINDS = ("force", "point", "torque")


def vector_of(table: Table, beginning: str, where: str) -> Array:
    """Three columns with this beginning, (3, N); zeros for none."""
    if not beginning:
        return np.zeros((3, len(table.time)))
    names = [name for name in table.names if name.startswith(beginning)]
    if len(names) != len(AXES):
        raise ValueError(
            f"{where}: three columns of its data begin with {beginning!r}, found {shown(names)}"
        )
    return np.array([table[name] for name in names])
