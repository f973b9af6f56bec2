"""Models and external loads of OpenSim, without OpenSim."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import Named, check_kind, naming, positive
from kinesym.gait.external_loads import external_forces
from kinesym.gait.marker_inputs import Placed, checked_places
from kinesym.gait.marker_scale import Measurements
from kinesym.gait.motion_files import Table
from kinesym.gait.wrench import Wrench
from kinesym.inverse import coordinates_of
from kinesym.models.files.description import Triple
from kinesym.models.files.expressions import identifier
from kinesym.models.files.fits import PathFit
from kinesym.models.files.muscle_fits import fit_muscles
from kinesym.models.files.osim import markers_in, parse, read, write
from kinesym.models.files.paths import FittedMuscle, MusclePath
from kinesym.models.files.setups import scale_rows, task_rows
from kinesym.models.files.trees import FileTree
from kinesym.models.files.xml import root_of
from kinesym.runtime.summary import listed
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES
from kinesym.symbolic.names import check_known

__all__ = [
    "FileTree",
    "FittedMuscle",
    "Measurements",
    "MusclePath",
    "PathFit",
    "Tasks",
    "fit_muscles",
    "parse",
    "ranges_of",
    "read",
    "read_loads",
    "read_markers",
    "read_measurements",
    "read_tasks",
    "write",
]


def ranges_of(
    tree: Tree, motion: Table | Mapping[str, ArrayLike], margin: float = 0.1
) -> dict[str, tuple[float, float]]:
    """Ranges of the coordinates in a motion, and a margin on either side [rad, m], for
    `fit_muscles`: those of files are often much wider than what anybody does.

    motion : as of `ks.inverse_dynamics`; coordinates that it does not have are left out.

    Raises `ValueError` for motions without any coordinate of the tree, and a margin that is not
    positive: a coordinate that rests has no other range.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    positive(margin, "the margin")
    _, columns = coordinates_of(tree, motion)
    return {
        name: (float(row.min()) - margin, float(row.max()) + margin)
        for name, row in columns.items()
    }


@dataclass(frozen=True)
class Tasks:
    """Weights of inverse kinematics, for `ks.gait.fit_markers`. weights : of markers by name.
    targets : of coordinates, (value, weight) by name [rad, m]."""

    weights: dict[str, float]
    targets: dict[str, tuple[float, float]]


def read_markers(path: str | Path) -> dict[str, tuple[str, Triple]]:
    """Bodies of markers and their places in the axes of these [m], by name, from a file with a
    `MarkerSet` of OpenSim, for `ks.gait.fit_markers`; those of a model on frames of a body are
    taken to its axes, those on the ground left out.

    Raises `FileNotFoundError`, and `ValueError` for a file without markers, and for a marker on a
    frame that only another file has.
    """
    with naming(path):
        rows = markers_in(root_of(path))
        if not rows:
            raise ValueError("it has no markers")
        return Named(
            "marker", {row.name: (identifier(row.body), row.at) for row in rows if row.body}
        )


def read_tasks(path: str | Path, tree: FileTree, placed: Placed | None = None) -> Tasks:
    """Weights of markers and coordinates from a file with an `IKTaskSet` of OpenSim, alone or in
    the setup of a tool (inverse kinematics, scaling: the first one in the file).

    tree, placed : as of `ks.gait.fit_markers`. As in OpenSim markers without a task have weight 0,
    coordinates by default are drawn to their default values, and their weights count against the
    mean square of marker errors: here, where it is the sum, times the sum of the weights of
    markers. Locked coordinates need no task. Warns of tasks of markers that no body has.

    Raises `FileNotFoundError`, and `ValueError` for a file without tasks, of coordinates that do
    not exist, and of values that are taken from another file.
    """
    check_kind(tree, FileTree, "kinesym.osim")
    places, rows = checked_places(tree, placed), task_rows(path)
    if gone := [name for name in rows.markers if name not in places]:
        warnings.warn(f"{path}: no body has the marker {listed(gone)}", stacklevel=2)
    weights = {name: rows.markers.get(name, 0.0) for name in places}
    targets, defaults, total = {}, tree.defaults, sum(weights.values())
    for said, (value, weight) in rows.coordinates.items():
        name = identifier(said)
        with naming(path):
            check_known(name, {**defaults, **tree.fixed}, f"{said} is no coordinate")
        if name in defaults:
            targets[name] = (defaults[name] if value is None else value, weight * total)
    return Tasks(weights, targets)


def read_measurements(path: str | Path, tree: Tree) -> Measurements:
    """Read measurements for scaling: bodies and the pairs of markers that tell their sizes, from a
    file with a `MeasurementSet` of OpenSim, alone or in the setup of its `ScaleTool`, for
    `ks.gait.scale`.

    tree : whose bodies they are; others are left out, as by OpenSim. Factors of a `ScaleSet` are
    `given`, each with a name after its body: they count more than measurements if the file says
    "measurements manualScale". Files, times, and masses that follow volumes are not taken from it.

    Raises `FileNotFoundError`, and `ValueError` for a file without measurements or factors of these
    bodies, and for pairs and axes that are none.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    rows, known = scale_rows(path), {body.name for body in tree.bodies}
    groups = {
        row.name: [part for part in row.bodies if part.partition(".")[0] in known]
        for row in rows.measurements
    }
    pairs = {row.name: row.pairs for row in rows.measurements if row.pairs}
    given = {}
    taken = {part.partition(".")[0] for bodies in groups.values() for part in bodies}
    for body, numbers in rows.given.items():
        if body not in known or (body in taken and not rows.given_last):
            continue
        groups = {name: without(parts, body) for name, parts in groups.items()}
        alike = len(set(numbers)) == 1
        for axes, value in [("", numbers[0])] if alike else zip(AXES, numbers, strict=True):
            name = f"{body}_{axes}_factor" if axes else f"{body}_factor"
            groups[name], given[name] = [f"{body}.{axes}" if axes else body], value
    groups = {name: parts for name, parts in groups.items() if parts}
    if not groups:
        raise ValueError(f"{path}: none of the bodies is one of {tree.name}")
    pairs = {name: row for name, row in pairs.items() if name in groups}
    return Measurements(groups, pairs, given, rows.mass)


def without(parts: Iterable[str], body: str) -> list[str]:
    """Bodies, or bodies and axes, but for this body."""
    return [part for part in parts if part.partition(".")[0] != body]


def read_loads(path: str | Path, data: str | Path | None = None) -> dict[str, Wrench]:
    """Wrenches on bodies, by the name of the body, from an `ExternalLoads` file of OpenSim, for
    `ks.inverse_dynamics`: in axes of the ground, about its origin.

    data : the MOT or STO file with forces [N], points [m] and torques [N m]; by default the one
    that the first names, beside it. Several forces on one body are added. Points where no force
    acts may be anything. `ks.gait.read_forces` reads the same file as plates under feet, in the
    axes of `kinesym.gait`.

    Raises `FileNotFoundError`, and `ValueError` for columns that are missing, and for what is not
    given in axes of the ground.
    """
    with naming(path):
        root = root_of(path)
    table, forces = external_forces(path, root, data)
    time = table.time
    found = Named[Wrench]("wrench on a body")
    for one in forces:
        force, point, torque = (
            np.zeros((3, len(time))) if rows is None else rows
            for rows in (one.force, one.point, one.torque)
        )
        wrench = Wrench(time, force, torque + np.cross(point, force, axis=0))
        found[one.body] = found[one.body] + wrench if one.body in found else wrench
    return found
