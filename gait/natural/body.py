"""A body in natural coordinates: points and unit vectors, with a constant mass matrix.

Each segment is spanned by its proximal point, a second point and two of its unit vectors: all of
its material points are linear in these twelve coordinates, so that M is constant (Pamies-Vila,
Font-Llagunes 2013, equations 1 to 3). What moves freely, z, is the position of the root and three
angles of each segment in the world, A = Ry(beta) Rx(alpha) Rz(gamma).

Shapes: z, its rates and whatever follows from them are (rows, N) over N instants. Rows of z: x, y,
z of the root [m], then alpha, beta, gamma of each segment [rad]. Rows of q: points (three each, the
root first, then in the order of the table), then two unit vectors of each segment; these have mass.
The mixed coordinates are q, then the angles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from kinesym.checks import shown
from kinesym.gait.angles import Pose, carried, pose, turned
from kinesym.gait.natural.constrained import Reduction, reduction
from kinesym.gait.natural.points import NaturalKinematics, PointBody
from kinesym.gait.natural.segment import (
    Rigidity,
    axis,
    check_basis,
    explicit,
    explicit_terms,
    letters,
    orthonormal,
    orthonormal_terms,
    spanned,
)
from kinesym.symbolic.multibody.segments import Segment

Array = NDArray[np.float64]

#: Sets of constraints that describe the same motion; see `NaturalBody`.
VARIANTS = ("explicit", "orthonormal")


@dataclass(frozen=True)
class NaturalBody(PointBody):
    """Segments in natural coordinates, with the constraints that make them rigid.

    root : the point that moves freely. gravity : [m/s^2]. variant : of the constraints, with e_u,
    e_v the axes of a segment that its vectors are, l its points:

    "explicit" (default): u - A e_u, v - A e_v, r_p - r_i - A l. The multipliers of a point are the
    joint force [N] of the segments that hang on it and, if the point spans its segment, its share
    of the inertial and gravitational forces of the segment.

    "orthonormal": u.u - 1, v.v - 1, u.v; u.A e_v, u.A e_w, v.A e_w, which tie the angles;
    r_p - r_i - (l_u u + l_v v + l_w u x v).

    Both have 171 rows for 18 segments, the same R and the same motion. Raises `ValueError`, with
    the segment, for segments that make no tree and for a basis that does not span its segment.
    """

    segments: Sequence[Segment]
    root: str = "J1"
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    variant: str = "explicit"

    dimension, angles = 3, 3

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant is one of {', '.join(VARIANTS)}, got {shown(self.variant)}")
        self._check(Segment)
        for row in self.segments:
            check_basis(row)

    # -- sizes and names ------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of natural coordinates, which have mass."""
        return 3 * len(self.points) + 6 * len(self.segments)

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        """What each constraint and multiplier belongs to, such as "Rthigh: u.v", "Rthigh: u.Av" (a
        relation to the angles), "Rthigh: u x" or "Rthigh: point RK x"."""
        names = []
        for row in self.segments:
            a, b, c = letters(row)
            own = [f"{a}.{a}", f"{b}.{b}", f"{a}.{b}", f"{a}.A{b}", f"{a}.A{c}", f"{b}.A{c}"]
            if self.variant == "explicit":
                own = [f"{letter} {axis}" for letter in (a, b) for axis in "xyz"]
            own += [f"point {point} {axis}" for point in row.points for axis in "xyz"]
            names += [f"{row.name}: {each}" for each in own]
        return tuple(names)

    def _vectors(self, k: int) -> slice:
        """Rows of the two unit vectors of a segment."""
        first = 3 * len(self.points) + 6 * k
        return slice(first, first + 6)

    # -- mass and weight ------------------------------------------------------------------------

    @cached_property
    def mass_matrix(self) -> csr_array:
        """M, constant, (174, 174) for 18 segments; angles have no mass."""
        return csr_array(sum(self._blocks()[0]))

    @cached_property
    def weight(self) -> Array:
        """Generalised forces of gravity on q, constant, (174,) for 18 segments."""
        return np.asarray(sum(self._blocks()[1]))

    def _blocks(self) -> tuple[list[Array], list[Array]]:
        """M and weight of each segment."""
        matrices, weights = [], []
        T = np.array([[1.0, -1.0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])
        for k, row in enumerate(self.segments):
            X, G = np.linalg.inv(spanned(row)), np.array(row.com)
            J = np.diag(np.sum(row.inertia) / 2.0 - np.array(row.inertia))
            J += row.mass * np.outer(G, G)  # second moments about the proximal point
            a = X @ G
            P = np.block(
                [
                    [row.mass * np.ones((1, 1)), row.mass * a[None]],
                    [row.mass * a[:, None], X @ J @ X.T],
                ]
            )
            position = np.r_[
                self.rows_of(row.proximal), self.rows_of(row.basis_point), self._vectors(k)
            ]
            M, weight = np.zeros((self.size, self.size)), np.zeros(self.size)
            M[np.ix_(position, position)] = np.kron(T @ P @ T.T, np.eye(3))
            weight[position] = np.kron((T @ P)[:, 0], self.gravity)
            matrices.append(M)
            weights.append(weight)
        return matrices, weights

    # -- motion -----------------------------------------------------------------------------------

    def kinematics(
        self, z: ArrayLike, zd: ArrayLike | None = None, zdd: ArrayLike | None = None
    ) -> NaturalKinematics:
        """q and its rates: R zd and R zdd + S c (equations 8 and 13)."""
        motion = self._motion(z, zd, zdd)
        return self._kinematics(motion, self.poses(*motion))

    def _kinematics(self, motion: Array, poses: Sequence[Pose]) -> NaturalKinematics:
        result = self._points(motion, lambda k, local: carried(poses[k], local))
        for k, (row, one) in enumerate(zip(self.segments, poses, strict=True)):
            vectors = [carried(one, axis(letter)) for letter in row.basis_vectors]
            result[:, self._vectors(k)] = np.concatenate(vectors, axis=1)
        return NaturalKinematics(*result)

    def poses(self, *motion: Array) -> list[Pose]:
        """Attitudes of the segments and their rates, from z and its rates if there are some."""
        rows = map(self.angle_rows, range(len(self.segments)))
        return [pose(*(part[here] for part in motion)) for here in rows]

    def point_positions(self, z: Array, poses: Sequence[Pose]) -> Array:
        """Rows of points in q, (174, N), those of unit vectors left empty."""
        return self._points(z[None], lambda k, local: (poses[k].A @ np.array(local)).T[None])[0]

    def point_projections(self, poses: Sequence[Pose]) -> Array:
        """The same rows of R of qd = R zd, (N, 174, 57), those of unit vectors zero."""
        return self._projections(len(poses[0].A), lambda k, local: turned(poses[k], local))

    def projection(self, z: ArrayLike) -> Array:
        """R of qd = R zd in closed form (equation 10) at one instant z (57,), (174, 57)."""
        (motion,) = self._motion(np.asarray(z, dtype=np.float64).reshape(-1, 1))
        poses = self.poses(motion)
        R = self.point_projections(poses)[0]
        for k, (row, one) in enumerate(zip(self.segments, poses, strict=True)):
            vectors = [turned(one, axis(letter))[0] for letter in row.basis_vectors]
            R[self._vectors(k), self.angle_rows(k)] = np.concatenate(vectors)
        return R

    # -- constraints ----------------------------------------------------------------------------

    def constraints(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi of the mixed coordinates at one instant, q (174,) and angles (54,): (171,)."""
        given = np.asarray(q, dtype=np.float64)[:, None]
        result = []
        for row, rigidity in zip(self.segments, self._rigidities(given, angles), strict=True):
            values = rigidity.values[:, 0].copy()
            arms = [given[self.rows_of(p)] - given[self.rows_of(row.proximal)] for p in row.points]
            values[6:] += np.ravel(arms)
            result.append(values)
        return np.concatenate(result)

    def constraint_jacobian(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi_q with respect to q, then the angles, at one instant, (171, 228) for 18 segments."""
        given = np.asarray(q, dtype=np.float64)[:, None]
        result = np.zeros((self.m, self.n))
        for k, rigidity in enumerate(self._rigidities(given, angles)):
            row, rows = self.segments[k], self._constraints_of(k)
            result[rows, self._vectors(k)] = rigidity.by_vectors[0]
            own = slice(self.size + 3 * k, self.size + 3 * k + 3)
            result[rows, own] = rigidity.by_angles[0]
            for number, point in enumerate(row.points):
                here = slice(rows.start + 6 + 3 * number, rows.start + 9 + 3 * number)
                result[here, self.rows_of(point)] = np.eye(3)
                result[here, self.rows_of(row.proximal)] = -np.eye(3)
        return result

    def acceleration_terms(self, z: ArrayLike, zd: ArrayLike) -> Array:
        """c of Phi_q qdd = c on a motion (equation 11), (171, N); b is 0 as nothing here depends
        on time."""
        motion = self._motion(z, zd, None)
        terms = explicit_terms if self.variant == "explicit" else orthonormal_terms
        poses = self.poses(*motion)
        return np.concatenate([terms(row, p) for row, p in zip(self.segments, poses, strict=True)])

    def reduction(self, z: ArrayLike) -> Reduction:
        """S (228, 171) and R (228, 57) of the mixed coordinates at one instant z (57,), by solving
        with the constraints of the variant (equations 9 and 10)."""
        values = np.asarray(z, dtype=np.float64).reshape(-1, 1)
        q = self.kinematics(values).q[:, 0]
        return reduction(self.constraint_jacobian(q, values[3:, 0]), self.partition)

    def multipliers(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """lambda of M qdd + Phi_q' lambda = Q, in the order of `constraint_names`, (171, N).

        Q is `weight` on q and `forces` on z. The multipliers are unique, as Phi_q with respect to
        all of q but the position of the root is square and regular (equations 4 and 9); it is block
        triangular, from the outermost segments inwards.
        """
        found = self.kinematics(z, zd, zdd)
        f = self._carried_forces(self.weight[:, None] - self.mass_matrix @ found.qdd)
        result = np.empty((self.m, f.shape[1]))
        angles = np.asarray(z, dtype=np.float64)[3:]
        for k, rigidity in enumerate(self._rigidities(found.q, angles)):
            row, rows = self.segments[k], self._constraints_of(k)
            of_points = np.concatenate([f[self.rows_of(p)] for p in row.points])
            by_vectors = rigidity.by_vectors.transpose(0, 2, 1)
            rest = f[self._vectors(k)] - np.einsum("nij,jn->in", by_vectors[:, :, 6:], of_points)
            of_vectors = np.linalg.solve(by_vectors[:, :, :6], rest.T[:, :, None])[:, :, 0].T
            result[rows] = np.concatenate([of_vectors, of_points])
        return result

    def _constraints_of(self, k: int) -> slice:
        """Rows of the constraints of a segment."""
        before = sum(6 + 3 * len(row.points) for row in self.segments[:k])
        return slice(before, before + 6 + 3 * len(self.segments[k].points))

    def _rigidities(self, q: Array, angles: ArrayLike) -> Iterator[Rigidity]:
        """Those of each segment, q (174, N), angles (54, N) or (54,)."""
        given = np.asarray(angles, dtype=np.float64).reshape(self.g - 3, -1)
        values = np.concatenate([np.zeros((3, given.shape[1])), given])
        poses = self.poses(values)
        relate = explicit if self.variant == "explicit" else orthonormal
        for k, (row, one) in enumerate(zip(self.segments, poses, strict=True)):
            yield relate(row, one, *np.split(q[self._vectors(k)], 2))

    # -- dynamics ---------------------------------------------------------------------------------

    def forces(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """Generalised forces on z that a motion needs, R' (M qdd - Q) (equation 16), (57, N):
        the total force [N] and for each segment its torque from the world along its angles [N m].

        R' is applied from the outermost segments inwards, without R.
        """
        motion = self._motion(z, zd, zdd)
        poses = self.poses(*motion)
        found = self._kinematics(motion, poses)
        f = self._carried_forces(self.mass_matrix @ found.qdd - self.weight[:, None])
        result = np.empty((self.g, f.shape[1]))
        result[:3] = f[:3]
        for k, row in enumerate(self.segments):
            vectors, at = self._vectors(k), found.q[self.rows_of(row.proximal)]
            pairs = [*zip(np.split(found.q[vectors], 2), np.split(f[vectors], 2), strict=True)]
            pairs += [(found.q[to] - at, f[to]) for to in map(self.rows_of, row.points)]
            torque = sum(np.cross(arm, force, axis=0) for arm, force in pairs)
            result[self.angle_rows(k)] = np.einsum("nij,in->jn", poses[k].H, torque)
        return result
