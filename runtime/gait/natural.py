"""A body in natural coordinates: points and unit vectors, with a constant mass matrix.

Each segment is spanned by its proximal point, a second point and two of its unit vectors: all of
its material points are linear in these twelve coordinates, so that M is constant (Pamies-Vila,
Font-Llagunes 2013, equations 1 to 3). What moves freely, z, is the place of the root and three
angles of each segment in the world, A = Ry(beta) Rx(alpha) Rz(gamma).

Shapes: z, its rates and whatever follows from them are (rows, N) over N instants. Rows of z: place
x, y, z of the root [m], then alpha, beta, gamma of each segment [rad]. Rows of q: points (three
each, the root first, then in the order of the table), then two unit vectors of each segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]

#: |det X| over the length between the two points of a segment below which it is not spanned.
COPLANAR = 0.1


class Row(Protocol):
    """A segment as `models.whole_body.Segment` has it."""

    name: str
    proximal: str
    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float]
    points: Mapping[str, tuple[float, float, float]]
    basis_point: str
    basis_vectors: str


@dataclass(frozen=True)
class Course:
    """Natural coordinates and their rates, (174, N) for 18 segments."""

    q: Array
    qd: Array
    qdd: Array


@dataclass(frozen=True)
class Pose:
    """A segment over time: attitude A (N, 3, 3), H with w = H angles' (N, 3, 3), angular velocity
    and acceleration in world axes (3, N)."""

    A: Array
    H: Array
    w: Array
    dw: Array


@dataclass(frozen=True)
class NaturalBody:
    """Segments in natural coordinates; raises `ValueError` for one that its basis does not span."""

    segments: Sequence[Row]
    root: str = "J1"
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)

    def __post_init__(self) -> None:
        for row in self.segments:
            X, second = spanned(row), np.linalg.norm(row.points[row.basis_point])
            if abs(np.linalg.det(X)) < COPLANAR * second:
                raise ValueError(
                    f"segment {row.name!r}: point {row.basis_point!r} and vectors "
                    f"{', '.join(row.basis_vectors)} are nearly coplanar (det "
                    f"{np.linalg.det(X) / second:.2g}); choose other vectors or another point"
                )

    @cached_property
    def points(self) -> dict[str, int]:
        """The number of each point."""
        names = [self.root, *(point for row in self.segments for point in row.points)]
        return {name: k for k, name in enumerate(names)}

    @property
    def size(self) -> int:
        """Number of natural coordinates."""
        return 3 * len(self.points) + 6 * len(self.segments)

    def _vectors(self, k: int) -> list[int]:
        """First rows of the two unit vectors of a segment."""
        first = 3 * len(self.points) + 6 * k
        return [first, first + 3]

    @cached_property
    def mass_matrix(self) -> csr_array:
        """M, constant, (n, n)."""
        return csr_array(sum(self._blocks()[0]))

    @cached_property
    def weight(self) -> Array:
        """Generalised forces of gravity on q, constant, (n,)."""
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
            P = np.block([[row.mass * np.ones((1, 1)), row.mass * a[None]],
                          [row.mass * a[:, None], X @ J @ X.T]])  # fmt: skip
            points = [3 * self.points[p] for p in (row.proximal, row.basis_point)]
            place = [*points, *self._vectors(k)]
            rows = np.add.outer(place, np.arange(3)).ravel()
            M, weight = np.zeros((self.size, self.size)), np.zeros(self.size)
            M[np.ix_(rows, rows)] = np.kron(T @ P @ T.T, np.eye(3))
            weight[rows] = np.kron((T @ P)[:, 0], self.gravity)
            matrices.append(M)
            weights.append(weight)
        return matrices, weights

    # -- motion -----------------------------------------------------------------------------------

    def course(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Course:
        """q and its rates: R zd and R zdd + S c (equations 8 and 13)."""
        motion = np.array([z, zd, zdd], dtype=np.float64)
        result = np.empty((3, self.size, motion.shape[2]))
        result[:, :3] = motion[:, :3]
        for k, (row, pose) in enumerate(zip(self.segments, self.poses(*motion), strict=True)):
            at = 3 * self.points[row.proximal]
            for point, place in row.points.items():
                to = 3 * self.points[point]
                result[:, to : to + 3] = result[:, at : at + 3] + carried(pose, place)
            for to, letter in zip(self._vectors(k), row.basis_vectors, strict=True):
                result[:, to : to + 3] = carried(pose, np.eye(3)["uvw".index(letter)])
        return Course(*result)

    def poses(self, z: Array, zd: Array, zdd: Array) -> list[Pose]:
        """Attitudes and their rates."""
        return [pose(z[r : r + 3], zd[r : r + 3], zdd[r : r + 3])
                for r in range(3, 3 + 3 * len(self.segments), 3)]  # fmt: skip

    def projection(self, z: ArrayLike) -> Array:
        """R of qd = R zd at one instant (equation 10), (n, g)."""
        values = np.asarray(z, dtype=np.float64).reshape(-1, 1)
        R = np.zeros((self.size, len(values)))
        R[:3, :3] = np.eye(3)
        still = np.zeros_like(values)
        for k, (row, pose) in enumerate(zip(self.segments, self.poses(values, still, still),
                                            strict=True)):  # fmt: skip
            own, at = slice(3 + 3 * k, 6 + 3 * k), 3 * self.points[row.proximal]
            for point, place in row.points.items():
                to = 3 * self.points[point]
                R[to : to + 3] = R[at : at + 3]
                R[to : to + 3, own] = turned(pose, place)
            for to, letter in zip(self._vectors(k), row.basis_vectors, strict=True):
                R[to : to + 3, own] = turned(pose, np.eye(3)["uvw".index(letter)])
        return R

    # -- constraints ----------------------------------------------------------------------------

    def constraints(self, q: ArrayLike, angles: ArrayLike) -> Array:
        """Phi of the mixed coordinates at one instant, (171,) for 18 segments: for each segment its
        two unit vectors and its points minus where its angles (54,) put them."""
        given = np.asarray(q, dtype=np.float64)
        return np.concatenate([
            given[to] - (given[at] if at is not None else 0.0) - pose.A[0] @ place
            for _, to, at, place, pose in self._rows(angles)
        ])  # fmt: skip

    def constraint_jacobian(self, angles: ArrayLike) -> Array:
        """Phi_q with respect to q, then the angles, (171, 228) for 18 segments."""
        n = self.size
        result = np.zeros((n - 3, n + 3 * len(self.segments)))
        for row, (k, to, at, place, pose) in enumerate(self._rows(angles)):
            here = slice(3 * row, 3 * row + 3)
            result[here, to] = np.eye(3)
            if at is not None:
                result[here, at] = -np.eye(3)
            result[here, n + 3 * k : n + 3 * k + 3] = -turned(pose, place)
        return result

    def multipliers(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """lambda of M qdd + Phi_q' lambda = Q, in the order of the constraints, (171, N).

        They are unique, as Phi_q with respect to all of q but the place of the root is square and
        regular (equations 4 and 9).
        """
        course, instants = self.course(z, zd, zdd), np.asarray(z, dtype=np.float64).T
        rest = self.weight[:, None] - self.mass_matrix @ course.qdd
        return np.column_stack([
            np.linalg.solve(self.constraint_jacobian(now[3:])[:, 3 : self.size].T, f[3:])
            for now, f in zip(instants, rest.T, strict=True)
        ])  # fmt: skip

    def _rows(
        self, angles: ArrayLike
    ) -> Iterator[tuple[int, slice, slice | None, Array, Pose]]:
        """Triples of constraints: segment, rows of q, those of the proximal point (None for unit
        vectors), place in the segment, pose."""
        values = np.concatenate([np.zeros(3), np.asarray(angles, dtype=np.float64)])[:, None]
        poses = self.poses(values, np.zeros_like(values), np.zeros_like(values))
        for k, (row, pose) in enumerate(zip(self.segments, poses, strict=True)):
            for to, letter in zip(self._vectors(k), row.basis_vectors, strict=True):
                yield k, slice(to, to + 3), None, np.eye(3)["uvw".index(letter)], pose
            at = 3 * self.points[row.proximal]
            for point, place in row.points.items():
                to = 3 * self.points[point]
                yield k, slice(to, to + 3), slice(at, at + 3), np.array(place), pose

    # -- inverse dynamics -------------------------------------------------------------------------

    def forces(self, z: ArrayLike, zd: ArrayLike, zdd: ArrayLike) -> Array:
        """Generalised forces on z that a motion needs, R' (M qdd - Q) (equation 16), (g, N)."""
        course = self.course(z, zd, zdd)
        needed = self.mass_matrix @ course.qdd - self.weight[:, None]
        instants = np.asarray(z, dtype=np.float64).T
        columns = [self.projection(now).T @ f for now, f in zip(instants, needed.T, strict=True)]
        return np.array(columns).T


def spanned(row: Row) -> Array:
    """X: the basis of a segment in its own axes, (3, 3)."""
    vectors = [np.eye(3)["uvw".index(letter)] for letter in row.basis_vectors]
    return np.column_stack([row.points[row.basis_point], *vectors])


def pose(angles: Array, rates: Array, accelerations: Array) -> Pose:
    """Of A = Ry(beta) Rx(alpha) Rz(gamma), from alpha, beta, gamma (3, N) and their rates."""
    (sa, sb, sc), (ca, cb, cc), zero = np.sin(angles), np.cos(angles), np.zeros_like(angles[0])
    y, x = np.array([zero, zero + 1.0, zero]), np.array([cb, zero, -sb])
    z = np.array([ca * sb, -sa, ca * cb])
    across = np.cross(z, x, axis=0)
    A = np.array([x * cc + across * sc, across * cc - x * sc, z])  # columns
    H = np.array([x, y, z])
    before = rates[1] * y  # of what turns x and, with alpha, z
    change = np.array([np.cross(before, x, axis=0), np.zeros_like(x),
                       np.cross(before + rates[0] * x, z, axis=0)])  # fmt: skip
    w = np.einsum("kin,kn->in", H, rates)
    dw = np.einsum("kin,kn->in", H, accelerations) + np.einsum("kin,kn->in", change, rates)
    return Pose(A.transpose(2, 1, 0), H.transpose(2, 1, 0), w, dw)


def carried(pose: Pose, place: ArrayLike) -> Array:
    """A vector that is fixed in a segment, with two derivatives, (3, 3, N)."""
    x = (pose.A @ np.asarray(place, dtype=np.float64)).T
    xd = np.cross(pose.w, x, axis=0)
    return np.array([x, xd, np.cross(pose.dw, x, axis=0) + np.cross(pose.w, xd, axis=0)])


def turned(pose: Pose, place: ArrayLike) -> Array:
    """Its derivatives with respect to the angles at one instant, (3, 3)."""
    x = pose.A[0] @ np.asarray(place, dtype=np.float64)
    return np.cross(pose.H[0].T, x).T
