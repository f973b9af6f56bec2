"""Frames that are offset from bodies, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.models.files.description import (
    UPRIGHT,
    CoordinateRow,
    Frame,
    JointRow,
    Linear,
    Motion,
    Triple,
    Turn,
)

#: Axes by their letters.
DIRECTIONS: dict[str, Triple] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
STRAIGHT: Triple = (0.0, 0.0, 0.0)


def rotation(angles: Sequence[float]) -> NDArray[np.float64]:
    """The matrix (3, 3) about x, y, z in turn, axes turning along [rad]."""
    result = np.eye(3)
    for k, angle in enumerate(angles):
        i, j = (k + 1) % 3, (k + 2) % 3
        R = np.eye(3)
        R[i, i] = R[j, j] = np.cos(angle)
        R[j, i] = np.sin(angle)
        R[i, j] = -R[j, i]
        result = result @ R
    return result


def rotations(axis: ArrayLike, angles: ArrayLike) -> NDArray[np.float64]:
    """Matrices (N, 3, 3) of rotations about an axis (3,) by angles (N,) [rad]."""
    x, y, z = np.divide(axis, np.linalg.norm(axis))
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    s, c = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    return np.asarray(np.eye(3) + s * K + (1.0 - c) * (K @ K))


def offset(body: str | None, at: Triple, angles: Triple) -> Frame:
    """A frame on a body."""
    return place(Frame(body), at, angles)


def place(frame: Frame, at: Triple, angles: Triple = STRAIGHT) -> Frame:
    """A frame that is offset from another one, on the same body."""
    here = np.add(frame.at, np.array(frame.turn) @ at)
    turn = frame.turn if angles == STRAIGHT else rows(np.array(frame.turn) @ rotation(angles))
    return Frame(frame.body, components(here), turn)


def between(parent: Turn, child: Turn) -> Turn:
    """The rotation from axes of the child body to those of the parent when both frames agree."""
    return UPRIGHT if parent == child else rows(np.array(parent) @ np.array(child).T)


def turned(turn: Turn, direction: Triple) -> Triple:
    """A direction in the axes of the body."""
    return direction if turn == UPRIGHT else components(np.array(turn) @ direction)


def components(v: NDArray[np.float64]) -> Triple:
    """Components of a vector as plain numbers, without minus zero."""
    x, y, z = (v + 0.0).tolist()
    return (x, y, z)


def rows(m: NDArray[np.float64]) -> Turn:
    """The rows of a matrix."""
    x, y, z = map(components, m)
    return (x, y, z)


def six(m: NDArray[np.float64]) -> tuple[float, float, float, float, float, float]:
    """xx, yy, zz, xy, xz, yz of a symmetric matrix."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = rows(m)
    return xx, yy, zz, xy, xz, yz


def along(direction: Triple, coordinate: str) -> Motion:
    """A motion by the coordinate itself."""
    return Motion(direction, Linear((1.0, 0.0)), (coordinate,))


def free_joint(name: str, parent: Frame, child: Frame) -> JointRow:
    """Any motion: three translations, and three rotations about axes of the child in turn."""
    kinds = (*(f"t{axis}" for axis in "xyz"), *(f"r{axis}" for axis in "xyz"))
    motions = [along(DIRECTIONS[kind[1]], f"{name}_{kind}") for kind in kinds]
    coordinates = tuple(CoordinateRow(f"{name}_{kind}") for kind in kinds)
    return JointRow(name, parent, child, coordinates, tuple(motions[3:]), tuple(motions[:3]))
