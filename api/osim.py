"""Models and external loads of OpenSim, without OpenSim."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from kinesym.checks import Named, check_kind, naming, positive
from kinesym.gait.external_loads import external_forces
from kinesym.gait.motion_files import Table
from kinesym.gait.wrench import Wrench
from kinesym.inverse import coordinates_of
from kinesym.models.files.description import Triple
from kinesym.models.files.fits import PathFit
from kinesym.models.files.osim import markers_in, parse, read
from kinesym.models.files.paths import FittedMuscle, MusclePath, fit_muscles
from kinesym.models.files.trees import FileTree, identifier
from kinesym.models.files.xml import root_of
from kinesym.symbolic.multibody.tree import Tree

__all__ = [
    "FileTree",
    "FittedMuscle",
    "MusclePath",
    "PathFit",
    "fit_muscles",
    "parse",
    "ranges_of",
    "read",
    "read_loads",
    "read_markers",
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
    time, forces = external_forces(path, root, data)
    found = Named[Wrench]("wrench on a body")
    for one in forces:
        force, point, torque = (
            np.zeros((3, len(time))) if rows is None else rows
            for rows in (one.force, one.point, one.torque)
        )
        wrench = Wrench(time, force, torque + np.cross(point, force, axis=0))
        found[one.body] = found[one.body] + wrench if one.body in found else wrench
    return found
