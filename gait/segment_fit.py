"""The motion of rigid segments that comes nearest to measured points and axes at every instant.

The coordinates z of least weighted squared distances, by Gauss-Newton: in them the segments are
rigid by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinesym.gait.kinematics import angles_of, turned
from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.relations import Landmarks
from kinesym.runtime.arrays import Array
from kinesym.symbolic.multibody.segments import Position, Segment

#: Gauss-Newton ends when no angle or position changes by more [rad, m].
STEP = 1e-11
ITERATIONS = 150
#: After as many steps one that hardly changes the sum of squares is the last.
PATIENCE = 40
#: A step that goes up is rounding if it is no larger [rad, m].
ROUNDED = 1e-8
#: Smallest eigenvalue of the normal equations over the largest of what holds all segments.
HELD = 1e-10
#: Frames that are fitted at once: enough for the linear algebra, little memory.
BLOCK = 256


@dataclass(frozen=True)
class Target:
    """A measured position of a point of a segment, or a direction fixed in it.

    local : in the axes of the segment [m]. measured : (3, N). weight : of its squared distance.
    direction : not a position, so that only the attitude matters.
    """

    name: str
    segment: str
    local: tuple[float, float, float]
    measured: Array
    weight: float = 1.0
    direction: bool = False


@dataclass(frozen=True, eq=False)
class Fitted:
    """Coordinates z (g, N), residual distances of all targets (T, N) [m], names of the targets."""

    z: Array
    distances: Array
    targets: tuple[str, ...]
    is_point: Array

    @property
    def rms(self) -> Array:
        """Root mean square distance of the measured positions of each instant [m], (N,)."""
        return np.asarray(np.sqrt(np.mean(self.distances[self.is_point] ** 2, axis=0)))


def segments_from_landmarks(
    segments: Sequence[Segment], found: Landmarks, root: str = "J1"
) -> tuple[Segment, ...]:
    """The segments with points where landmarks have them on average over the trial.

    Masses are kept; centres of mass and inertias are scaled with the distance between proximal and
    basis point. A point that is not measured keeps its position in the scaled segment. Raises
    `ValueError` for a segment without measured axes.
    """
    positions, made = dict(found.points), []
    if root not in positions:
        raise ValueError(f"the relations do not say where point {root!r} is")
    lacking = [row.name for row in segments if row.name not in found.axes]
    if lacking:
        raise ValueError(f"the relations lack axes of segments: {', '.join(map(repr, lacking))}")
    for row in segments:
        A = found.axes[row.name]
        points = {}
        for point in row.points:
            if point in positions:
                arm = positions[point] - positions[row.proximal]
                points[point] = tuple(np.einsum("ijn,in->jn", A, arm).mean(axis=1).tolist())
        old = np.linalg.norm(row.points[row.basis_point])
        new = np.linalg.norm(points.get(row.basis_point, row.points[row.basis_point]))
        scale = float(new / old)
        for point, position in row.points.items():
            if point not in points:
                points[point] = _scaled(scale, position)
                arm = np.einsum("ijn,j->in", A, points[point])
                positions[point] = positions[row.proximal] + arm
        com, inertia = _scaled(scale, row.com), _scaled(scale**2, row.inertia)
        made.append(replace(row, points=points, com=com, inertia=inertia))
    return tuple(made)


def _scaled(by: float, numbers: Position) -> Position:
    x, y, z = (by * c for c in numbers)
    return x, y, z


def landmark_targets(
    segments: Sequence[Segment], found: Landmarks, root: str = "J1", arm: float = 0.1
) -> list[Target]:
    """Measured points, and two unit vectors of each segment with the weight of points at the
    distance `arm` [m]: the coordinates q* of the body as far as they are measured."""
    targets = [Target(root, "", (0.0, 0.0, 0.0), found.points[root])]
    for row in segments:
        for point, local in row.points.items():
            if point in found.points:
                targets.append(Target(point, row.name, local, found.points[point]))
        for letter in row.basis_vectors:
            k = "uvw".index(letter)
            axis, measured = tuple(np.eye(3)[k].tolist()), found.axes[row.name][:, k]
            name = f"{row.name} {letter}"
            targets.append(Target(name, row.name, axis, measured, arm**2, direction=True))
    return targets


def fit(body: NaturalBody, targets: Sequence[Target], start: Array) -> Fitted:
    """The z (g, N) of least weighted squared distances to all targets at every instant.

    start : z to begin with, (g, N).

    Raises `ValueError` for a segment that the targets leave free, and for an instant at which it
    does not converge, naming the worst target.
    """
    parts = [
        _fit_block(body, targets, start, slice(k, k + BLOCK))
        for k in range(0, start.shape[1], BLOCK)
    ]
    z = np.hstack([z for z, _ in parts])
    distances = np.hstack([distances for _, distances in parts])
    return Fitted(
        z, distances, tuple(t.name for t in targets), np.array([not t.direction for t in targets])
    )


def start_of(segments: Sequence[Segment], found: Landmarks, root: str = "J1") -> Array:
    """z (g, N) of the measured root and axes as they are."""
    return np.vstack([found.points[root], *(angles_of(found.axes[row.name]) for row in segments)])


def _fit_block(
    body: NaturalBody, targets: Sequence[Target], start: Array, here: slice
) -> tuple[Array, Array]:
    """Levenberg's method over the instants of a block; a step that goes up is not taken."""
    z, N = start[:, here].copy(), start[:, here].shape[1]
    measured = np.array([t.measured[:, here] for t in targets])
    root = np.repeat(np.sqrt([t.weight for t in targets]), 3)

    def system(z: Array) -> tuple[Array, Array, Array]:
        gap, J = _distances(body, targets, z, measured)
        side = root[:, None] * gap.transpose(2, 0, 1).reshape(N, -1, 1)
        return side, root[:, None] * J, np.sum(side**2, axis=(1, 2))

    side, J, cost = system(z)
    _check_held(body, J[0])
    damping, done = np.zeros(N), np.zeros(N, dtype=bool)
    for k in range(ITERATIONS):
        matrix = J.transpose(0, 2, 1) @ J
        scale = np.trace(matrix, axis1=1, axis2=2) / len(z)
        matrix += (damping * scale)[:, None, None] * np.eye(len(z))
        step = np.linalg.solve(matrix, -J.transpose(0, 2, 1) @ side)[..., 0].T
        step[:, done] = 0.0
        new_side, new_J, new = system(z + step)
        size = np.abs(step).max(axis=0)
        taken = new <= cost * (1.0 + 1e-12) + 1e-30
        done |= (k >= PATIENCE) & (np.abs(cost - new) <= 1e-7 * cost)  # very large residuals
        z = np.where(taken, z + step, z)
        side, J, cost = (
            np.where(taken.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
            for a, b in ((new_side, side), (new_J, J), (new, cost))
        )
        damping = np.where(taken, 0.3 * damping * (damping > 1e-9), 4.0 * damping + 1e-6)
        done |= (size < STEP) | (~taken & (size < ROUNDED))
        if done.all():
            return z, np.linalg.norm(_distances(body, targets, z, measured)[0], axis=1)
    worst = int(np.argmin(done))
    sizes = np.linalg.norm((side[worst, :, 0] / root).reshape(-1, 3), axis=1)
    raise ValueError(
        f"frame {worst + (here.start or 0)} cannot be fitted: steps of {size[worst]:.1g} remain; "
        f"the worst is {targets[int(sizes.argmax())].name}, {sizes.max():.3g} m off"
    )


def _check_held(body: NaturalBody, J: Array) -> None:
    """Raise `ValueError` if targets with these derivatives (3 T, g) leave a segment free."""
    values, vectors = np.linalg.eigh(J.T @ J)
    if values[0] < HELD * values[-1]:
        k = int(np.abs(vectors[:, 0]).argmax())
        free = "the root" if k < 3 else f"segment {body.segments[(k - 3) // 3].name!r}"
        raise ValueError(
            f"{free} is not determined by the measurements; a segment needs three markers that "
            "are not collinear, or two axes"
        )


def _distances(
    body: NaturalBody, targets: Sequence[Target], z: Array, measured: Array
) -> tuple[Array, Array]:
    """Modelled minus measured positions (T, 3, N) and their derivatives (N, 3 T, g)."""
    poses, N = body.poses(z), z.shape[1]
    place, slope = {body.root: z[:3]}, {body.root: np.zeros((N, 3, len(z)))}  # of points
    slope[body.root][:, :, :3] = np.eye(3)
    for k, (row, pose) in enumerate(zip(body.segments, poses, strict=True)):
        for point, local in row.points.items():
            place[point] = place[row.proximal] + (pose.A @ np.array(local)).T
            slope[point] = slope[row.proximal].copy()
            slope[point][:, :, body.angle_rows(k)] = turned(pose, local)
    number = {row.name: k for k, row in enumerate(body.segments)}
    gap, J = measured * -1.0, np.zeros((N, 3 * len(targets), len(z)))
    for i, target in enumerate(targets):
        rows = slice(3 * i, 3 * i + 3)
        k = number.get(target.segment, -1)  # none for the root
        if k >= 0:
            gap[i] += (poses[k].A @ np.array(target.local)).T
        if not target.direction:
            base = body.root if k < 0 else body.segments[k].proximal
            gap[i] += place[base]
            J[:, rows] = slope[base]
        if k >= 0:
            J[:, rows, body.angle_rows(k)] = turned(poses[k], target.local)
    return gap, J
