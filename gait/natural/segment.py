"""Segment in natural coordinates: its basis, and orthonormal constraints that make it rigid."""

from __future__ import annotations

import numpy as np

from kinesym.gait.angles import Pose, carried, turned
from kinesym.gait.natural.points import Rigidity
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Segment

#: |det X| over the length between the two points of a segment below which it is not spanned.
COPLANAR = 0.1


# -- checks ---------------------------------------------------------------------------------------


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


# -- one segment ----------------------------------------------------------------------------------


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
