"""A body in the sagittal plane in natural coordinates: points alone, with a constant mass matrix.

In a plane two points carry a whole segment: a quarter turn of the vector between them is the second
axis. The independent coordinates z are the position of the root and the angle of each segment in
the world.

Axes: x forwards, z up; angles about y, to the left, positive from z towards x. Shapes: z, its rates
and whatever follows from them are (rows, N) over N instants. Rows of z: x, z of the root [m],
then angles [rad]. Rows of q: points (two each, the root first, then in the order of the table). The
mixed coordinates are q, then the angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.gait.natural.points import PointBody
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import PlanarPosition, PlanarSegment

#: A quarter turn about y, from z towards x.
QUARTER = np.array([[0.0, 1.0], [-1.0, 0.0]])


@dataclass(frozen=True)
class PlanarBody(PointBody):
    """Segments in a plane, each spanned by its proximal point and the first of its points.

    root : the point whose position is free. gravity : along x and z [m/s^2].

    Constraints are r_p - r_i - A l of each point. Their multipliers are the joint force [N] of the
    segments that hang on it and, if the point spans its segment, its share of the inertial and
    gravitational forces of the segment.

    Raises `ValueError`, with the segment, for segments that make no tree and for one that has no
    second point.
    """

    segments: Sequence[PlanarSegment]
    root: str = "hip"
    gravity: tuple[float, float] = (0.0, -9.81)

    axes, angles, vectors = "xz", 1, 0

    def __post_init__(self) -> None:
        self._check(PlanarSegment)
        for row in self.segments:
            if not row.points or not any(next(iter(row.points.values()))):
                raise ValueError(
                    f"segment {row.name!r}: its first point must lie apart from its "
                    f"proximal point {row.proximal!r}"
                )

    def poses(self, *motion: Array) -> list[Array]:
        """Angle, rate and acceleration of each segment, (3, N), zero where not given."""
        missing = [np.zeros_like(motion[0])] * (3 - len(motion))
        return list(np.array([*motion, *missing])[:, 2:].swapaxes(0, 1))

    def _carried(self, pose: Array, local: PlanarPosition) -> Array:
        w, dw, here = pose[1], pose[2], _turned(pose[0], local)
        quarter = QUARTER @ here
        return np.array([here, w * quarter, dw * quarter - w**2 * here])

    def _turned(self, pose: Array, local: PlanarPosition) -> Array:
        return (QUARTER @ _turned(pose[0], local)).T[:, :, None]

    def _inertia(self, k: int) -> tuple[NDArray[np.intp], Array, Array]:
        """Mass matrix and gravity force of segment k. With I about the proximal point, s = I / L^2
        and a = (a_1, a_2) the centre of mass along the vector of length L between both points and
        along its quarter turn P, as shares of it:

        M_ii = (m - 2 m a_1 + s) 1, M_ij = (m a_1 - s) 1 + m a_2 P, M_jj = s 1.
        """
        row, one = self.segments[k], np.eye(2)
        second = next(iter(row.points))
        d, com = np.array(row.points[second]), np.array(row.com)
        along, across = np.array([d, QUARTER @ d]) @ com / (d @ d)
        s = (row.inertia + row.mass * (com @ com)) / (d @ d)
        between = (row.mass * along - s) * one + row.mass * across * QUARTER
        first = (row.mass * (1.0 - 2.0 * along) + s) * one
        force = row.mass * np.array(self.gravity)
        beyond = (along * one + across * QUARTER).T @ force
        rows = np.r_[self.rows_of(row.proximal), self.rows_of(second)]
        M = np.block([[first, between], [between.T, s * one]])
        return rows, M, np.concatenate([force - beyond, beyond])


def _turned(angle: Array, local: PlanarPosition) -> Array:
    """A vector in a segment in world axes, (2, N)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * local[0] + s * local[1], c * local[1] - s * local[0]])
