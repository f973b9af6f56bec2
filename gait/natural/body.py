"""A body in natural coordinates: points and unit vectors, with a constant mass matrix.

Each segment is spanned by its proximal point, a second point and two of its unit vectors: all of
its material points are linear in these twelve coordinates, so that M is constant (Pamies-Vila,
Font-Llagunes 2013, equations 1 to 3). The independent coordinates z are the position of the root
and three angles of each segment in the world, A = Ry(beta) Rx(alpha) Rz(gamma).

Shapes: z, its rates and whatever follows from them are (rows, N) over N instants. Rows of z: x, y,
z of the root [m], then alpha, beta, gamma of each segment [rad]. Rows of q: points (three each, the
root first, then in the order of the table), then two unit vectors of each segment; these have mass.
The mixed coordinates are q, then the angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import check_choice
from kinesym.gait.kinematics import Pose, carried, pose, turned
from kinesym.gait.natural.points import PointBody, Rigidity
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Position, Segment

#: Sets of constraints that describe the same motion; see `NaturalBody`.
VARIANTS = ("explicit", "orthonormal")

#: Acceleration of gravity [m/s^2].
G = 9.81
#: |det X| over the length between the two points of a segment below which it is not spanned.
COPLANAR = 0.1


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
    gravity: tuple[float, float, float] = (0.0, 0.0, -G)
    variant: str = "explicit"

    axes, angles, vectors = "xyz", 3, 2

    def __post_init__(self) -> None:
        check_choice(self.variant, VARIANTS, "variant")
        self._check(Segment)
        for row in self.segments:
            check_basis(row)

    def poses(self, *motion: Array) -> list[Pose]:
        """Attitudes of the segments and their rates, from z and its rates if there are some."""
        rows = map(self.angle_rows, range(len(self.segments)))
        return [pose(*(part[here] for part in motion)) for here in rows]

    def _carried(self, pose: Pose, local: Position) -> Array:
        return carried(pose, local)

    def _turned(self, pose: Pose, local: Position) -> Array:
        return turned(pose, local)

    def _axes(self, k: int) -> list[Array]:
        return [axis(letter) for letter in self.segments[k].basis_vectors]

    def _inertia(self, k: int) -> tuple[NDArray[np.intp], Array, Array]:
        row, T = self.segments[k], np.eye(4)
        T[0, 1] = -1.0
        X, G = np.linalg.inv(spanned(row)), np.array(row.com)
        J = np.diag(np.sum(row.inertia) / 2.0 - np.array(row.inertia))
        J += row.mass * np.outer(G, G)  # second moments about the proximal point
        a = row.mass * (X @ G)[None]
        P = T @ np.block([[np.full((1, 1), row.mass), a], [a.T, X @ J @ X.T]])
        points = [self.rows_of(row.proximal), self.rows_of(row.basis_point)]
        rows = np.r_[(*points, self.vector_rows(k))]
        return rows, np.kron(P @ T.T, np.eye(3)), np.kron(P[:, 0], self.gravity)

    # -- constraints of the variant ---------------------------------------------------------------

    def _vector_names(self, k: int) -> list[str]:
        """Names of vector constraints, such as "u x" (explicit), "u.v" or "u.Av" (orthonormal, a
        relation to the angles)."""
        a, b, c = letters(self.segments[k])
        if self.variant == "explicit":
            return [f"{letter} {axis}" for letter in (a, b) for axis in "xyz"]
        return [f"{a}.{a}", f"{b}.{b}", f"{a}.{b}", f"{a}.A{b}", f"{a}.A{c}", f"{b}.A{c}"]

    def _rigidity(self, k: int, pose: Pose, vectors: Array) -> Rigidity:
        if self.variant == "explicit":
            return super()._rigidity(k, pose, vectors)
        return orthonormal(self.segments[k], pose, *np.split(vectors, 2))

    def _terms(self, k: int, pose: Pose) -> Array:
        if self.variant == "explicit":
            return super()._terms(k, pose)
        return orthonormal_terms(self.segments[k], pose)


# -- one segment ----------------------------------------------------------------------------------


def check_basis(row: Segment) -> None:
    """Raise `ValueError` if the basis of a segment does not span it."""
    if row.basis_point not in row.points:
        raise ValueError(
            f"segment {row.name!r}: basis point {row.basis_point!r} is none of its "
            f"points {', '.join(row.points) or '(it has none)'}"
        )
    if row.basis_vectors not in ("uv", "vw", "uw"):
        raise ValueError(
            f"segment {row.name!r}: basis vectors are uv, vw or uw, got {row.basis_vectors!r}"
        )
    determinant = np.linalg.det(spanned(row))
    second = np.linalg.norm(row.points[row.basis_point])
    if abs(determinant) <= COPLANAR * second:
        share = determinant / second if second else 0.0
        raise ValueError(
            f"segment {row.name!r}: point {row.basis_point!r} and vectors "
            f"{', '.join(row.basis_vectors)} are nearly coplanar (det {share:.2g}); "
            "choose other basis vectors or another point"
        )


def axis(letter: str) -> Array:
    """The unit vector u, v or w in the axes of its segment, (3,)."""
    return np.eye(3)["uvw".index(letter)]


def letters(row: Segment) -> tuple[str, str, str]:
    """The two unit vectors of the basis of a segment and the one that is their product."""
    a, b = row.basis_vectors[0], row.basis_vectors[1]
    (c,) = {"u", "v", "w"} - {a, b}
    return a, b, c


def spanned(row: Segment) -> Array:
    """X: the basis of a segment in its own axes, (3, 3)."""
    vectors = [axis(letter) for letter in row.basis_vectors]
    return np.column_stack([row.points[row.basis_point], *vectors])


def orthonormal(row: Segment, pose: Pose, a: Array, b: Array) -> Rigidity:
    """Orthonormal unit vectors, square to axes of the angles; points through these vectors."""
    p, q, r = letters(row)
    eq, er = ((pose.A @ axis(letter)).T for letter in (q, r))
    pairs = ((a, eq, q), (a, er, r), (b, er, r))
    values = [_dot(a, a) - 1.0, _dot(b, b) - 1.0, _dot(a, b), *(_dot(x, e) for x, e, _ in pairs)]
    o = np.zeros_like(a)
    own = [(2.0 * a, o), (o, 2.0 * b), (b, a), (eq, o), (er, o), (o, er)]
    by_vectors = [np.array([np.concatenate(each).T for each in own]).transpose(1, 0, 2)]
    by_angles = [np.zeros((a.shape[1], 3, 3))]
    by_angles += [np.einsum("in,nij->nj", x, turned(pose, axis(e)))[:, None] for x, _, e in pairs]
    sign = float(np.dot(np.cross(axis(p), axis(q)), axis(r)))
    for position in row.points.values():
        la, lb, lc = (float(np.dot(axis(letter), position)) for letter in (p, q, r))
        lc *= sign
        values += [*-(la * a + lb * b + lc * np.cross(a, b, axis=0))]
        blocks = [-la * np.eye(3) + lc * _skew(b), -lb * np.eye(3) - lc * _skew(a)]
        by_vectors.append(np.concatenate(blocks, axis=2))
        by_angles.append(np.zeros((a.shape[1], 3, 3)))
    return Rigidity(
        np.array(values), np.concatenate(by_vectors, axis=1), np.concatenate(by_angles, axis=1)
    )


def orthonormal_terms(row: Segment, pose: Pose) -> Array:
    """c of these constraints; the pose is that of a motion without accelerations of the angles."""
    p, q, r = letters(row)
    a, b, er = (carried(pose, axis(letter)) for letter in (p, q, r))
    terms = [_dot(x[1], y[1]) for x, y in ((a, a), (b, b), (a, b))]
    terms += [_dot(x[1], e[1]) + _dot(x[0], e[2]) / 2.0 for x, e in ((a, b), (a, er), (b, er))]
    sign = _dot(np.cross(axis(p), axis(q)), axis(r))
    across = sign * np.cross(a[1], b[1], axis=0)
    points = [-np.dot(axis(r), position) * across for position in row.points.values()]
    return -2.0 * np.concatenate([np.array(terms), *points])


def _dot(a: Array, b: Array) -> Array:
    """Dot product over the first axis."""
    return np.asarray((a * b).sum(axis=0))


def _skew(a: Array) -> Array:
    """The matrices of a x, (N, 3, 3), of vectors (3, N)."""
    x, y, z = a
    o = np.zeros_like(x)
    return np.array([[o, -z, y], [z, o, -x], [-y, x, o]]).transpose(2, 0, 1)
