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
from kinesym.gait.angles import Pose, carried, pose, turned
from kinesym.gait.natural.points import PointBody, Rigidity
from kinesym.gait.natural.segment import (
    axis,
    check_basis,
    letters,
    orthonormal,
    orthonormal_terms,
    spanned,
)
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Position, Segment

#: Sets of constraints that describe the same motion; see `NaturalBody`.
VARIANTS = ("explicit", "orthonormal")

#: Acceleration of gravity [m/s^2].
G = 9.81


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
