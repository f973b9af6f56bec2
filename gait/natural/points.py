"""Bodies in natural coordinates, in space or in a plane: the common part of their formulations.

Segments hang on points of others; unit vectors of a segment may be coordinates too. Constraints tie
them to the angles of the segments (Pamies-Vila, Font-Llagunes 2013).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from kinesym.base.checks import listed_of, shown
from kinesym.gait.natural.constrained import Partition
from kinesym.runtime.arrays import Array, real_array
from kinesym.symbolic.multibody.segments import owners


@dataclass(frozen=True)
class NaturalKinematics:
    """Natural coordinates and their rates, (174, N) for 18 segments in space."""

    q: Array
    qd: Array
    qdd: Array


@dataclass(frozen=True)
class Rigidity:
    """Constraints of a segment: c of its v unit vectors' coordinates, then those of its points.

    values : (c, N), of the points without r_p - r_i. by_vectors : derivatives with respect to
    its unit vectors, (N, c, v). by_angles : the same with respect to its angles, (N, c, angles).
    """

    values: Array
    by_vectors: Array
    by_angles: Array


class PointBody(ABC):
    """Segments whose points hang on the points of others. Rows of q: the points, the root first,
    then unit vectors of each segment if there are any."""

    segments: Sequence[Any]
    root: str
    gravity: Sequence[float]
    #: Axes of the world, angles of a segment, and unit vectors of it that are coordinates.
    axes: ClassVar[str]
    angles: ClassVar[int]
    vectors: ClassVar[int]

    def _check(self, kind: type) -> None:
        """Raise `ValueError` for segments that are none or make no tree, and for gravity."""
        owners(listed_of(self.segments, kind, "segments"), self.root)
        if real_array(self.gravity, "gravity").shape != (self.dimension,):
            count = {2: "two", 3: "three"}[self.dimension]
            raise ValueError(f"gravity has {count} components, got {shown(self.gravity)}")

    # -- of each kind ---------------------------------------------------------------------------

    @abstractmethod
    def poses(self, *motion: Array) -> list[Any]:
        """Poses of the segments, from z (g, N) and its rates if given."""

    @abstractmethod
    def _carried(self, pose: Any, local: Any) -> Array:
        """A vector fixed in a segment with two derivatives, (3, dimension, N)."""

    @abstractmethod
    def _turned(self, pose: Any, local: Any) -> Array:
        """Derivatives of a rotated position with respect to the angles, (N, dimension, angles)."""

    @abstractmethod
    def _inertia(self, k: int) -> tuple[NDArray[np.intp], Array, Array]:
        """Rows of q that span a segment, its block of M, and the weight on these."""

    def _axes(self, k: int) -> list[Any]:
        """The unit vectors of a segment that are coordinates, in its axes, by their letters."""
        return []

    # -- sizes and names ------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of components of a position."""
        return len(self.axes)

    @cached_property
    def points(self) -> dict[str, int]:
        """The number of each point."""
        return {point: k for k, point in enumerate(owners(self.segments, self.root))}

    @property
    def size(self) -> int:
        """Number of natural coordinates, which have mass."""
        return self.dimension * (len(self.points) + self.vectors * len(self.segments))

    @property
    def n(self) -> int:
        """Number of mixed coordinates: natural ones and angles."""
        return self.size + self.angles * len(self.segments)

    @property
    def g(self) -> int:
        """Number of degrees of freedom."""
        return self.dimension + self.angles * len(self.segments)

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.n - self.g

    @property
    def partition(self) -> Partition:
        """Independent among the mixed coordinates: the position of the root and the angles."""
        free = [*range(self.dimension), *range(self.size, self.n)]
        return Partition(np.arange(self.dimension, self.size), np.array(free))

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        """Names of constraints and their multipliers, such as "Rthigh: point RK x"."""
        return tuple(
            f"{row.name}: {each}"
            for k, row in enumerate(self.segments)
            for each in (
                *self._vector_names(k),
                *(f"point {point} {axis}" for point in row.points for axis in self.axes),
            )
        )

    def _vector_names(self, k: int) -> list[str]:
        """Names of the constraints of the unit vectors of a segment."""
        return []

    def rows_of(self, point: str) -> slice:
        """Rows of a point in q."""
        first = self.dimension * self.points[point]
        return slice(first, first + self.dimension)

    def vector_rows(self, segment: int) -> slice:
        """Rows of the unit vectors of a segment, by its number, in q."""
        width = self.dimension * self.vectors
        first = self.dimension * len(self.points) + width * segment
        return slice(first, first + width)

    def angle_rows(self, segment: int) -> slice:
        """Rows of the angles of a segment, by its number, in z."""
        first = self.dimension + self.angles * segment
        return slice(first, first + self.angles)

    def _parts(self, k: int) -> Iterator[tuple[slice, Any, slice | None]]:
        """Rows of q that a segment carries, unit vectors before points; their coordinates in its
        axes; the rows of the point to which they are attached."""
        first, row = self.vector_rows(k).start, self.segments[k]
        for i, axis in enumerate(self._axes(k)):
            begin = first + self.dimension * i
            yield slice(begin, begin + self.dimension), axis, None
        for point, local in row.points.items():
            yield self.rows_of(point), local, self.rows_of(row.proximal)

    # -- mass and weight ------------------------------------------------------------------------

    @cached_property
    def mass_matrix(self) -> csr_array:
        """M, constant, (size, size): 174 for 18 segments in space; angles have no mass."""
        M = np.zeros((self.size, self.size))
        for k in range(len(self.segments)):
            rows, block, _ = self._inertia(k)
            M[np.ix_(rows, rows)] += block
        return csr_array(M)

    @cached_property
    def weight(self) -> Array:
        """Generalised forces of gravity on q, constant, (size,)."""
        result = np.zeros(self.size)
        for k in range(len(self.segments)):
            rows, _, force = self._inertia(k)
            result[rows] += force
        return result

    # -- motion -----------------------------------------------------------------------------------

    def _motion(self, z: ArrayLike, *rates: ArrayLike | None) -> Array:
        """z and its rates, zero where they are None, (number, g, N); raises `ValueError` for other
        shapes."""
        first = real_array(z, "z and its rates")
        arrays = [first] + [
            np.zeros_like(first) if each is None else real_array(each, "z and its rates")
            for each in rates
        ]
        shapes = {each.shape for each in arrays}
        if len(shapes) > 1 or first.ndim != 2 or len(first) != self.g:
            raise ValueError(
                f"z and its rates have shape ({self.g}, instants), got "
                f"{', '.join(str(each.shape) for each in arrays)}"
            )
        return np.array(arrays)

    def kinematics(
        self, z: ArrayLike, zd: ArrayLike | None = None, zdd: ArrayLike | None = None
    ) -> NaturalKinematics:
        """q and its rates: R zd and R zdd + S c (equations 8 and 13)."""
        motion = self._motion(z, zd, zdd)
        return self._kinematics(motion, self.poses(*motion))

    def _kinematics(self, motion: Array, poses: Sequence[Any]) -> NaturalKinematics:
        result = np.empty((3, self.size, motion.shape[2]))
        result[:, : self.dimension] = motion[:, : self.dimension]
        for k, pose in enumerate(poses):
            for rows, local, base in self._parts(k):
                arm = self._carried(pose, local)
                result[:, rows] = arm if base is None else result[:, base] + arm
        return NaturalKinematics(*result)

    def projection(self, z: ArrayLike) -> Array:
        """R of qd = R zd in closed form (equation 10) at one instant z (g,), (size, g)."""
        (motion,) = self._motion(np.asarray(z, dtype=np.float64).reshape(-1, 1))
        R = np.eye(self.size, self.g)
        for k, pose in enumerate(self.poses(motion)):
            for rows, local, base in self._parts(k):
                R[rows] = 0.0 if base is None else R[base]
                R[rows, self.angle_rows(k)] = self._turned(pose, local)[0]
        return R

    # -- constraints ----------------------------------------------------------------------------

    def _rigidity(self, k: int, pose: Any, vectors: Array) -> Rigidity:
        """Unit vectors (v, N) and points where the angles put them: u - A e_u, r_p - r_i - A l."""
        local = [each for _, each, _ in self._parts(k)]
        values = -np.concatenate([self._carried(pose, each)[0] for each in local])
        values[: len(vectors)] += vectors
        by_vectors = np.zeros((values.shape[1], len(values), len(vectors)))
        by_vectors[:, : len(vectors)] = np.eye(len(vectors))
        by_angles = -np.concatenate([self._turned(pose, each) for each in local], axis=1)
        return Rigidity(values, by_vectors, by_angles)

    def _rigidities(self, q: Array, angles: ArrayLike) -> list[tuple[slice, Rigidity]]:
        """Rows of the constraints of each segment, and these; q (size, N), angles (g - d, N)."""
        given = np.asarray(angles, dtype=np.float64).reshape(self.g - self.dimension, -1)
        poses = self.poses(np.vstack([np.zeros((self.dimension, given.shape[1])), given]))
        found, first = [], 0
        for k, pose in enumerate(poses):
            rigidity = self._rigidity(k, pose, q[self.vector_rows(k)])
            found.append((slice(first, first + len(rigidity.values)), rigidity))
            first = found[-1][0].stop
        return found

    def constraints(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi of the mixed coordinates at one instant, q (size,) and angles: (m,)."""
        given = np.asarray(q, dtype=np.float64)[:, None]
        result = np.empty(self.m)
        for k, (here, rigidity) in enumerate(self._rigidities(given, angles)):
            arms = [given[rows] - given[base] for rows, _, base in self._parts(k) if base]
            result[here] = rigidity.values[:, 0]
            result[here.stop - self.dimension * len(arms) : here.stop] += np.ravel(arms)
        return result

    def constraint_jacobian(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi_q with respect to q, then the angles, at one instant, (m, n)."""
        given = np.asarray(q, dtype=np.float64)[:, None]
        result = np.zeros((self.m, self.n))
        for k, (here, rigidity) in enumerate(self._rigidities(given, angles)):
            result[here, self.vector_rows(k)] = rigidity.by_vectors[0]
            first = self.size + self.angles * k
            result[here, first : first + self.angles] = rigidity.by_angles[0]
            at = here.start + self.dimension * self.vectors
            for rows, _, base in self._parts(k):
                if base is not None:
                    result[at : at + self.dimension, rows] = np.eye(self.dimension)
                    result[at : at + self.dimension, base] = -np.eye(self.dimension)
                    at += self.dimension
        return result

    def acceleration_terms(self, z: ArrayLike, zd: ArrayLike) -> Array:
        """c of Phi_q qdd = c on a motion (equation 11), (m, N); b is 0 as nothing here depends
        on time."""
        poses = self.poses(*self._motion(z, zd, None))
        return np.concatenate([self._terms(k, pose) for k, pose in enumerate(poses)])

    def _terms(self, k: int, pose: Any) -> Array:
        """Acceleration terms of segment k."""
        return np.concatenate([self._carried(pose, local)[2] for _, local, _ in self._parts(k)])

    def multipliers(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """lambda of M qdd + Phi_q' lambda = Q, in the order of `constraint_names`, (m, N).

        Q is `weight` on q and `forces` on z. The multipliers are unique, as Phi_q with respect to
        all of q but the position of the root is square and regular (equations 4 and 9); it is block
        triangular, from the outermost segments inwards.
        """
        found = self.kinematics(z, zd, zdd)
        f = self._carried_forces(self.weight[:, None] - self.mass_matrix @ found.qdd)
        result = np.empty((self.m, f.shape[1]))
        angles = np.asarray(z, dtype=np.float64)[self.dimension :]
        for k, (here, rigidity) in enumerate(self._rigidities(found.q, angles)):
            of_points = np.concatenate([f[rows] for rows, _, base in self._parts(k) if base])
            own = f[self.vector_rows(k)]
            by_vectors = rigidity.by_vectors.transpose(0, 2, 1)
            v = len(own)
            rest = own - np.einsum("nij,jn->in", by_vectors[:, :, v:], of_points)
            of_vectors = np.linalg.solve(by_vectors[:, :, :v], rest.T[:, :, None])[:, :, 0].T
            result[here] = np.concatenate([of_vectors, of_points])
        return result

    # -- dynamics ---------------------------------------------------------------------------------

    def _carried_forces(self, f: Array) -> Array:
        """Forces on points (size, N) with those on all points that hang on them."""
        for row in reversed(self.segments):
            for point in row.points:
                f[self.rows_of(row.proximal)] += f[self.rows_of(point)]
        return f

    def forces(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """Generalised forces on z that a motion needs, R' (M qdd - Q) (equation 16), (g, N): the
        total force [N] and for each segment its torque from the world along its angles [N m].

        R' is applied from the outermost segments inwards, without R.
        """
        motion = self._motion(z, zd, zdd)
        poses = self.poses(*motion)
        qdd = self._kinematics(motion, poses).qdd
        f = self._carried_forces(self.mass_matrix @ qdd - self.weight[:, None])
        result = np.zeros((self.g, f.shape[1]))
        result[: self.dimension] = f[: self.dimension]
        for k, pose in enumerate(poses):
            for rows, local, _ in self._parts(k):
                along = np.einsum("nia,in->an", self._turned(pose, local), f[rows])
                result[self.angle_rows(k)] += along
        return result

    def reduced_mass_matrix(self, z: ArrayLike) -> Array:
        """R' M R at one instant z (g,) (equation 17), (g, g)."""
        R = self.projection(z)
        return np.asarray(R.T @ (self.mass_matrix @ R))

    def accelerations(self, z: ArrayLike, zd: ArrayLike, forces: ArrayLike) -> Array:
        """zdd under generalised forces on z (g, N), gravity apart (equation 16), (g, N).

        Raises `numpy.linalg.LinAlgError` in space where alpha of a segment is 90 degrees.
        """
        position, rate, given = self._motion(z, zd, forces)
        rest = given - self.forces(position, rate, np.zeros_like(position))
        columns = [
            np.linalg.solve(self.reduced_mass_matrix(now), f)
            for now, f in zip(position.T, rest.T, strict=True)
        ]
        return np.array(columns).reshape(-1, self.g).T
