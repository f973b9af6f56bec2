"""C3D files: markers and force plates, into world axes and SI units; see `marker_files`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kinesym.checks import naming
from kinesym.gait.axes import UNITS, Laboratory, warn
from kinesym.gait.c3d import content
from kinesym.gait.marker_files import markers_of
from kinesym.gait.markers import Markers
from kinesym.gait.tables import distinct
from kinesym.gait.wrench import Wrench, check_reaction


def read_c3d(
    path: str | Path,
    unit: str | None = None,
    up: str | None = None,
    forward: str | None = None,
) -> tuple[Markers, tuple[Wrench, ...]]:
    """Markers and the wrenches of the force plates of a C3D file, at their own rates.

    Points with a negative residual are missing samples; those whose name comes twice or is empty
    are left out with a warning. Plates are those that ezc3d evaluates, types 1 to 4. By custom they
    hold the force of the ground on the foot.

    unit : of the points, "m", "cm" or "mm"; default what the file says. up, forward : as in
    `read_trc`; z is up if nothing tells.

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
        warn(f"{path} is cut short: its header says {said} frames, there are {frames}")
    positions = found["points"].swapaxes(0, 1)[:, :, :frames]
    begin = found["first"] / rate
    time = begin + np.arange(frames) / rate
    points = distinct(path, names, positions, "marker")
    told = (up, forward, None)
    markers, laboratory = markers_of(path, time, points, found["unit"], unit, told, "z")
    end = time[-1] + 1.0 / rate
    wrenches = [
        _plate_wrench(f"{path}, plate {k + 1}", found, k, laboratory, begin, end)
        for k in range(len(found["unit_force"]))
    ]
    return markers, tuple(wrenches)


def _plate_wrench(
    what: str,
    found: Mapping[str, Any],
    k: int,
    laboratory: Laboratory,
    begin: float,
    end: float,
) -> Wrench:
    """Plate k of a C3D file as ezc3d evaluates it, in the axes and units of the file."""
    turn, scale = laboratory.turn, UNITS[laboratory.unit]
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
