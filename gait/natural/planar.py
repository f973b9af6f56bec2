"""A body in the sagittal plane in natural coordinates: points alone, with a constant mass matrix.

In a plane two points carry a whole segment: a quarter turn of the vector between them is the second
axis. What moves freely, z, is the position of the root and the angle of each segment in the world.

Axes: x forwards, z up; angles about y, to the left, positive from z towards x. Shapes: z, its rates
and whatever follows from them are (rows, N) over N instants. Rows of z: x, z of the root [m],
then angles [rad]. Rows of q: points (two each, the root first, then in the order of the table). The
mixed coordinates are q, then the angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from kinesym.gait.natural.points import NaturalKinematics, PointBody
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

    dimension, angles = 2, 1

    def __post_init__(self) -> None:
        self._check(PlanarSegment)
        for row in self.segments:
            if not row.points or not any(next(iter(row.points.values()))):
                raise ValueError(
                    f"segment {row.name!r}: its first point must lie apart from its "
                    f"proximal point {row.proximal!r}"
                )

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        """What each constraint and multiplier belongs to, such as "Rthigh: point RK x"."""
        return tuple(
            f"{row.name}: point {point} {axis}"
            for row in self.segments
            for point in row.points
            for axis in "xz"
        )

    # -- mass and weight ------------------------------------------------------------------------

    @cached_property
    def mass_matrix(self) -> csr_array:
        """M, constant, (16, 16) for 7 segments; angles have no mass."""
        M = np.zeros((self.size, self.size))
        for row in self.segments:
            rows = self._rows(row)
            M[np.ix_(rows, rows)] += mass_block(row)
        return csr_array(M)

    @cached_property
    def weight(self) -> Array:
        """Generalised forces of gravity on q, constant, (16,) for 7 segments."""
        result = np.zeros(self.size)
        for row in self.segments:
            (along, across), force = spanning(row), row.mass * np.array(self.gravity)
            second = (along * np.eye(2) + across * QUARTER).T @ force
            result[self._rows(row)] += np.concatenate([force - second, second])
        return result

    def _rows(self, row: PlanarSegment) -> NDArray[np.intp]:
        """Rows of the two points that span a segment."""
        return np.r_[self.rows_of(row.proximal), self.rows_of(next(iter(row.points)))]

    # -- motion -----------------------------------------------------------------------------------

    def kinematics(
        self, z: ArrayLike, zd: ArrayLike | None = None, zdd: ArrayLike | None = None
    ) -> NaturalKinematics:
        """q and its rates: R zd and R zdd + S c (equations 8 and 13)."""
        motion = self._motion(z, zd, zdd)

        def arm(k: int, local: PlanarPosition) -> Array:
            angle, w, dw = motion[:, 2 + k]
            here = turned(angle, local)
            quarter = QUARTER @ here
            return np.array([here, w * quarter, dw * quarter - w**2 * here])

        return NaturalKinematics(*self._points(motion, arm))

    def projection(self, z: ArrayLike) -> Array:
        """R of qd = R zd at one instant z (9,) (equation 10), (16, 9) for 7 segments."""
        angles = np.asarray(z, dtype=np.float64)[2:]
        return self._projections(1, lambda k, local: (QUARTER @ turned(angles[k], local))[:, None])[
            0
        ]

    # -- constraints ----------------------------------------------------------------------------

    def constraints(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi at one instant, q (16,) and angles (7,): (14,)."""
        given = np.asarray(q, dtype=np.float64)
        parts = [
            given[self.rows_of(point)] - given[self.rows_of(row.proximal)] - turned(angle, position)
            for row, angle in zip(self.segments, np.asarray(angles), strict=True)
            for point, position in row.points.items()
        ]
        return np.concatenate(parts)

    def constraint_jacobian(self, angles: ArrayLike) -> Array:
        """Phi_q with respect to q, then the angles, at one instant, (14, 23) for 7 segments."""
        result = np.zeros((self.m, self.n))
        here = slice(0, 2)
        for k, (row, angle) in enumerate(zip(self.segments, np.asarray(angles), strict=True)):
            for point, position in row.points.items():
                result[here, self.rows_of(point)] = np.eye(2)
                result[here, self.rows_of(row.proximal)] = -np.eye(2)
                result[here, self.size + k] = -QUARTER @ turned(angle, position)
                here = slice(here.stop, here.stop + 2)
        return result

    def acceleration_terms(self, z: ArrayLike, zd: ArrayLike) -> Array:
        """c of Phi_q qdd = c on a motion (equation 11), (14, N); b is 0."""
        angles, rates = self._motion(z, zd)[:, 2:]
        return np.concatenate(
            [
                -(rate**2) * turned(angle, position)
                for row, angle, rate in zip(self.segments, angles, rates, strict=True)
                for position in row.points.values()
            ]
        )

    def multipliers(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """lambda of M qdd + Phi_q' lambda = Q, in the order of `constraint_names`, (14, N).

        Q is `weight` on q and `forces` on z (equation 4): forces add up from the outermost
        segments inwards.
        """
        qdd = self.kinematics(z, zd, zdd).qdd
        return -self._carried_forces(self.mass_matrix @ qdd - self.weight[:, None])[2:]

    # -- dynamics ---------------------------------------------------------------------------------

    def forces(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """Generalised forces on z that a motion needs, R' (M qdd - Q) (equation 16), (9, N): the
        total force [N] and the torque from the world on each segment [N m]."""
        found = self.kinematics(z, zd, zdd)
        f = self._carried_forces(self.mass_matrix @ found.qdd - self.weight[:, None])
        torques = []
        for row in self.segments:
            at = found.q[self.rows_of(row.proximal)]
            arms = [
                (QUARTER @ (found.q[self.rows_of(p)] - at), f[self.rows_of(p)]) for p in row.points
            ]
            torques.append(sum((arm * force).sum(axis=0) for arm, force in arms))
        return np.array([*f[:2], *torques])


def turned(angle: ArrayLike, local: PlanarPosition) -> Array:
    """A vector in a segment in world axes, (2,) or (2, N)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * local[0] + s * local[1], c * local[1] - s * local[0]])


def spanning(row: PlanarSegment) -> tuple[float, float]:
    """The centre of mass along the vector between the points that span a segment and along its
    quarter turn, as shares of it."""
    d, (x, z) = np.array(next(iter(row.points.values()))), row.com
    along, across = np.array([d, QUARTER @ d]) @ np.array([x, z]) / (d @ d)
    return float(along), float(across)


def mass_block(row: PlanarSegment) -> Array:
    """M of a segment, of its proximal point and the second one, (4, 4): with I about the proximal
    point, s = I / L^2 and a = (along, across) of the centre of mass,

    M_ii = (m - 2 m a_1 + s) 1, M_ij = (m a_1 - s) 1 + m a_2 P, M_jj = s 1, P a quarter turn.
    """
    along, across = spanning(row)
    length = np.hypot(*next(iter(row.points.values())))
    s = (row.inertia + row.mass * np.hypot(*row.com) ** 2) / length**2
    one = np.eye(2)
    between = (row.mass * along - s) * one + row.mass * across * QUARTER
    return np.block([[(row.mass * (1.0 - 2.0 * along) + s) * one, between], [between.T, s * one]])
