"""A body in the sagittal plane in natural coordinates: points alone, with a constant mass matrix.

In a plane two points carry a whole segment: a quarter turn of the vector between them is the second
axis. What moves freely, z, is the place of the root and the angle of each segment in the world.

Axes: x forwards, z up; angles about y, to the left, positive from z towards x. Shapes: z, its rates
and whatever follows from them are (rows, N) over N instants. Rows of z: place x, z of the root [m],
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

from kinesym.gait.natural.body import Course
from kinesym.gait.natural.constrained import Partition
from kinesym.runtime.arrays import real_array, shown
from kinesym.runtime.checks import listed_of
from kinesym.symbolic.multibody.segments import PlanarSegment, owners

Array = NDArray[np.float64]

#: A quarter turn about y, from z towards x.
QUARTER = np.array([[0.0, 1.0], [-1.0, 0.0]])


@dataclass(frozen=True)
class PlanarBody:
    """Segments in a plane, each spanned by its proximal point and the first of its points.

    root : the point whose place is free. gravity : along x and z [m/s^2].

    Constraints are r_p - r_i - A l of each point. Their multipliers are the force [N] with which
    what hangs on it pulls, and, if the point spans its segment, the share that falls on it of what
    the segment needs.

    Raises `ValueError`, with the segment, for a tree that does not hang together, for a negative
    inertia and for a segment that has no second point.
    """

    segments: Sequence[PlanarSegment]
    root: str = "hip"
    gravity: tuple[float, float] = (0.0, -9.81)

    def __post_init__(self) -> None:
        owners(listed_of(self.segments, PlanarSegment, "segments"), self.root)
        if real_array(self.gravity, "gravity").shape != (2,):
            raise ValueError(f"gravity has two components, got {shown(self.gravity)}")
        for row in self.segments:
            if not row.points or not any(next(iter(row.points.values()))):
                raise ValueError(
                    f"segment {row.name!r}: its first point must lie apart from its "
                    f"proximal point {row.proximal!r}"
                )

    # -- sizes and names ------------------------------------------------------------------------

    @cached_property
    def points(self) -> dict[str, int]:
        """The number of each point."""
        return {point: k for k, point in enumerate(owners(self.segments, self.root))}

    @property
    def size(self) -> int:
        """Number of natural coordinates, which have mass."""
        return 2 * len(self.points)

    @property
    def n(self) -> int:
        """Number of mixed coordinates: natural ones and angles."""
        return self.size + len(self.segments)

    @property
    def g(self) -> int:
        """Number of degrees of freedom."""
        return 2 + len(self.segments)

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.n - self.g

    @property
    def partition(self) -> Partition:
        """Independent among the mixed coordinates: the place of the root and the angles."""
        return Partition(np.arange(2, self.size), np.array([0, 1, *range(self.size, self.n)]))

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        """What each constraint and multiplier belongs to, such as "Rthigh: point RK x"."""
        return tuple(
            f"{row.name}: point {point} {axis}"
            for row in self.segments
            for point in row.points
            for axis in "xz"
        )

    def _point(self, name: str) -> slice:
        """Rows of a point."""
        return slice(2 * self.points[name], 2 * self.points[name] + 2)

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
        return np.r_[self._point(row.proximal), self._point(next(iter(row.points)))]

    # -- motion -----------------------------------------------------------------------------------

    def course(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Course:
        """q and its rates: R zd and R zdd + S c (equations 8 and 13)."""
        motion = self._motion(z, zd, zdd)
        result = np.empty((3, self.size, motion.shape[2]))
        result[:, :2] = motion[:, :2]
        for row, angle, w, dw in zip(self.segments, *motion[:, 2:], strict=True):
            for point, place in row.points.items():
                arm = turned(angle, place)
                quarter = QUARTER @ arm
                moved = np.array([arm, w * quarter, dw * quarter - w**2 * arm])
                result[:, self._point(point)] = result[:, self._point(row.proximal)] + moved
        return Course(*result)

    def _motion(self, *given: ArrayLike) -> Array:
        """(number, g, N); raises `ValueError` for other shapes."""
        arrays = [real_array(each, "z and its rates") for each in given]
        shapes = {each.shape for each in arrays}
        if len(shapes) > 1 or arrays[0].ndim != 2 or len(arrays[0]) != self.g:
            raise ValueError(
                f"z and its rates have shape ({self.g}, instants), got "
                f"{', '.join(str(each.shape) for each in arrays)}"
            )
        return np.array(arrays)

    def projection(self, z: ArrayLike) -> Array:
        """R of qd = R zd at one instant z (9,) (equation 10), (16, 9) for 7 segments."""
        angles = np.asarray(z, dtype=np.float64)[2:]
        R = np.zeros((self.size, self.g))
        R[:2, :2] = np.eye(2)
        for k, (row, angle) in enumerate(zip(self.segments, angles, strict=True)):
            for point, place in row.points.items():
                R[self._point(point)] = R[self._point(row.proximal)]
                R[self._point(point), 2 + k] = QUARTER @ turned(angle, place)
        return R

    # -- constraints ----------------------------------------------------------------------------

    def constraints(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi at one instant, q (16,) and angles (7,): (14,)."""
        given = np.asarray(q, dtype=np.float64)
        parts = [
            given[self._point(point)] - given[self._point(row.proximal)] - turned(angle, place)
            for row, angle in zip(self.segments, np.asarray(angles), strict=True)
            for point, place in row.points.items()
        ]
        return np.concatenate(parts)

    def constraint_jacobian(self, angles: ArrayLike) -> Array:
        """Phi_q with respect to q, then the angles, at one instant, (14, 23) for 7 segments."""
        result = np.zeros((self.m, self.n))
        here = slice(0, 2)
        for k, (row, angle) in enumerate(zip(self.segments, np.asarray(angles), strict=True)):
            for point, place in row.points.items():
                result[here, self._point(point)] = np.eye(2)
                result[here, self._point(row.proximal)] = -np.eye(2)
                result[here, self.size + k] = -QUARTER @ turned(angle, place)
                here = slice(here.stop, here.stop + 2)
        return result

    def acceleration_terms(self, z: ArrayLike, zd: ArrayLike) -> Array:
        """c of Phi_q qdd = c on a motion (equation 11), (14, N); b is 0."""
        angles, rates = self._motion(z, zd)[:, 2:]
        return np.concatenate(
            [
                -(rate**2) * turned(angle, place)
                for row, angle, rate in zip(self.segments, angles, rates, strict=True)
                for place in row.points.values()
            ]
        )

    def multipliers(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """lambda of M qdd + Phi_q' lambda = Q, in the order of `constraint_names`, (14, N).

        Q is `weight` on q and `forces` on z (equation 4): forces are handed on from the outermost
        segments inwards.
        """
        course = self.course(z, zd, zdd)
        return -self._handed_on(self.mass_matrix @ course.qdd - self.weight[:, None])[2:]

    # -- dynamics ---------------------------------------------------------------------------------

    def forces(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """Generalised forces on z that a motion needs, R' (M qdd - Q) (equation 16), (9, N): the
        total force [N] and the torque from the world on each segment [N m]."""
        course = self.course(z, zd, zdd)
        f = self._handed_on(self.mass_matrix @ course.qdd - self.weight[:, None])
        torques = []
        for row in self.segments:
            at = course.q[self._point(row.proximal)]
            arms = [
                (QUARTER @ (course.q[self._point(p)] - at), f[self._point(p)]) for p in row.points
            ]
            torques.append(sum((arm * force).sum(axis=0) for arm, force in arms))
        return np.array([*f[:2], *torques])

    def _handed_on(self, f: Array) -> Array:
        """Forces on points (16, N) with those of all that hangs on them."""
        for row in reversed(self.segments):
            for point in row.points:
                f[self._point(row.proximal)] += f[self._point(point)]
        return f

    def reduced_mass_matrix(self, z: ArrayLike) -> Array:
        """R' M R at one instant z (9,) (equation 17), (9, 9) for 7 segments."""
        R = self.projection(z)
        return np.asarray(R.T @ (self.mass_matrix @ R))

    def accelerations(self, z: ArrayLike, zd: ArrayLike, forces: ArrayLike) -> Array:
        """zdd under generalised forces on z (9, N), gravity apart (equation 16), (9, N)."""
        place, rate, given = self._motion(z, zd, forces)
        rest = given - self.forces(place, rate, np.zeros_like(place))
        columns = [
            np.linalg.solve(self.reduced_mass_matrix(now), f)
            for now, f in zip(place.T, rest.T, strict=True)
        ]
        return np.array(columns).reshape(-1, self.g).T


def turned(angle: ArrayLike, place: tuple[float, float]) -> Array:
    """A place of a segment in world axes, (2,) or (2, N)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * place[0] + s * place[1], c * place[1] - s * place[0]])


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
