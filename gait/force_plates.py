"""Force plates as C3D files describe them: from channels to force and moment.

Types 1 to 5 of the C3D manual (c3d.org, FORCE_PLATFORM). Axes of a plate: x from corner 2 to 1,
y from corner 4 to 1, z = x cross y, usually downwards.
"""

from __future__ import annotations

import numpy as np

from kinesym.runtime.arrays import Array

#: Number of channels of plates, by type.
CHANNELS = {1: 6, 2: 6, 3: 8, 4: 6, 5: 8}


def plate_wrench(
    kind: int, channels: Array, corners: Array, origin: Array, matrix: Array, moments: float = 1.0
) -> tuple[Array, Array]:
    """Force (3, F) and moment (3, F) about the origin of the laboratory, in its axes.

    kind : 1, force, centre of pressure and free moment; 2, force and moment about the origin of the
    sensors; 3, sums of forces of four sensors (Kistler); 4, as 2 after a calibration; 5, as 2 after
    one of eight channels. channels :
    (C, F). corners : (3, 4) in the laboratory. origin : (3,), of type 3 the half distances of the
    sensors in x and y, of all the surface above the sensors, which is negative since z points down.
    matrix : (6, 6) of type 4; if it is empty, channels are calibrated; (6, 8) of type 5, or
    transposed. moments : factor of a
    channel of moments that has another unit of length than the corners.

    Raises `ValueError` for other types, and for channels, corners, origins and matrices that are
    missing.
    """
    _check(kind, channels, corners, origin, matrix)
    rows = np.array(channels[: CHANNELS[kind]])
    if kind in (4, 5) and matrix.size:
        rows = (matrix.T if matrix.shape == (8, 6) else matrix) @ rows
    if kind != 3:
        rows[-1 if kind == 1 else slice(3, 6)] *= moments
    depth = np.array([origin[0], origin[1], -abs(origin[2])])  # some write it upwards
    force = rows[:3]
    if kind == 1:
        centre = np.array([rows[3], rows[4], np.zeros_like(rows[3])])
        moment = np.cross(centre, force, axis=0) + np.array([0.0, 0.0, 1.0])[:, None] * rows[5]
    elif kind == 3:
        force, moment = _sensors(rows, *depth[:2])
        moment += np.cross(force, [[0.0], [0.0], depth[2:]], axis=0)
    else:
        moment = rows[3:] + np.cross(force, depth[:, None], axis=0)
    turn, middle = _axes(corners), corners.mean(axis=1, keepdims=True)
    force = turn @ force
    return force, turn @ moment + np.cross(middle, force, axis=0)


def on_plate(force: Array, moment: Array, corners: Array) -> bool:
    """Whether most of the load acts within twice the size of the plate; arguments as
    `plate_wrench` has and gives them."""
    turn, middle = _axes(corners), corners.mean(axis=1, keepdims=True)
    pressed = turn.T @ force
    about = turn.T @ (moment - np.cross(middle, force, axis=0))
    loaded = np.abs(pressed[2]) > 0.3 * np.abs(pressed[2]).max()
    centre = np.array([-about[1], about[0]])[:, loaded] / pressed[2, loaded]
    size = np.linalg.norm(corners[:, 0] - corners[:, 2])
    return bool(np.median(np.linalg.norm(centre, axis=0)) < size)


def _sensors(rows: Array, a: float, b: float) -> tuple[Array, Array]:
    """Force and moment about the middle of four sensors at (a, b), (-a, b), (-a, -b), (a, -b)."""
    x12, x34, y14, y23, z1, z2, z3, z4 = rows
    force = np.array([x12 + x34, y14 + y23, z1 + z2 + z3 + z4])
    about = [b * (z1 + z2 - z3 - z4), a * (z2 + z3 - z1 - z4), b * (x34 - x12) + a * (y14 - y23)]
    return force, np.array(about)


def _axes(corners: Array) -> Array:
    """Axes of a plate as columns (3, 3)."""
    x, y = corners[:, 0] - corners[:, 1], corners[:, 0] - corners[:, 3]
    z = np.cross(x, y)
    axes = np.array([x, np.cross(z, x), z])
    return np.asarray((axes / np.linalg.norm(axes, axis=1, keepdims=True)).T)


def _check(kind: int, channels: Array, corners: Array, origin: Array, matrix: Array) -> None:
    if kind not in CHANNELS:
        raise ValueError(f"it is of type {kind}; types 1 to 5 are read")
    if len(channels) < CHANNELS[kind]:
        raise ValueError(f"it has {len(channels)} channels, not {CHANNELS[kind]}")
    if corners.shape != (3, 4) or not np.isfinite(corners).all():
        raise ValueError("its corners are missing")
    x, y = corners[:, 0] - corners[:, 1], corners[:, 0] - corners[:, 3]
    if not np.linalg.norm(np.cross(x, y)) > 1e-6 * np.linalg.norm(x) * np.linalg.norm(y):
        raise ValueError("its corners are no rectangle")
    if origin.shape != (3,):
        raise ValueError("its origin is missing")
    if kind == 4 and matrix.size and matrix.shape != (6, 6):
        raise ValueError(f"its calibration is {matrix.shape}, not (6, 6)")
    if kind == 5 and matrix.shape not in ((6, 8), (8, 6)):
        raise ValueError(f"its calibration is {matrix.shape}, not (6, 8)")


def zeroed(channels: Array, zero: list[int], first: int, per_frame: int) -> Array:
    """Channels (C, F) less their offset in the frames that FORCE_PLATFORM:ZERO names.

    zero : first and last frame, 0 if there are none. first : frame of the record. per_frame :
    samples in one. Frames in which the channels show a third of their largest change are left as
    they are: somebody stands on the plate.
    """
    if len(zero) < 2 or not 1 <= zero[0] <= zero[1]:
        return channels
    begin = zero[0] - first if zero[0] >= first else zero[0] - 1
    here = slice(begin * per_frame, (begin + zero[1] - zero[0] + 1) * per_frame)
    part = channels[:, here]
    if not part.size:
        return channels
    rest = part.mean(axis=1, keepdims=True)
    change = np.abs(channels - rest).max()
    return channels if np.abs(rest).max() > change / 3.0 else channels - rest
