"""Motion of a body that fits measured points and axes at every instant, with rigid segments.

What is measured at an instant, points and unit vectors q*, does not belong to rigid segments. The
nearest q that does minimises (q - q*)' W (q - q*) / 2 under Phi(q) = 0. Here it is found in two
ways: by Gauss-Newton in the coordinates z that move freely, where the constraints hold by
themselves (`fit`, fast), and by sequential quadratic programming in q (`project`, as Pamies-Vila
and Font-Llagunes 2013 have it); both find the same point. Markers themselves can be fitted too,
see `marker_targets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csc_array, diags_array
from scipy.sparse.linalg import splu

from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.relations import Landmarks
from kinesym.symbolic.multibody.segments import Position, Segment

Array = NDArray[np.float64]

#: Angles alpha beyond which a segment is too near to the singular posture [rad].
SINGULAR = np.radians(85.0)
#: Gauss-Newton ends when no angle or place changes by more [rad, m].
STEP = 1e-11
ITERATIONS = 150
#: After as many steps one that hardly changes the sum of squares is the last.
PATIENCE = 40
#: A step that goes up is rounding if it is no larger [rad, m].
ROUNDED = 1e-8
#: Smallest eigenvalue of the normal equations over the largest of what holds all segments.
HELD = 1e-10
#: The projection ends when neither a step nor a constraint is larger [m, -].
CONSISTENT = 1e-10
#: Frames that are fitted at once: enough for the linear algebra, little memory.
BLOCK = 256


@dataclass(frozen=True)
class Target:
    """A measured place of a point of a segment, or a direction fixed in it.

    local : in the axes of the segment [m]. measured : (3, N). weight : of its squared distance.
    direction : not a place, so that only the attitude matters.
    """

    name: str
    segment: str
    local: tuple[float, float, float]
    measured: Array
    weight: float = 1.0
    direction: bool = False


@dataclass(frozen=True, eq=False)
class Fitted:
    """Coordinates z (g, N) and what is left: distances of all targets (T, N) [m], their names."""

    z: Array
    distances: Array
    targets: tuple[str, ...]
    places: Array

    @property
    def rms(self) -> Array:
        """Root mean square distance of the measured places of each instant [m], (N,)."""
        return np.asarray(np.sqrt(np.mean(self.distances[self.places] ** 2, axis=0)))


def angles_of(A: Array) -> Array:
    """alpha, beta, gamma (3, N) of A = Ry(beta) Rx(alpha) Rz(gamma), (3, 3, N), unwrapped."""
    angles = np.array(
        [
            np.arcsin(np.clip(-A[1, 2], -1.0, 1.0)),
            np.arctan2(A[0, 2], A[2, 2]),
            np.arctan2(A[1, 0], A[1, 1]),
        ]
    )
    return np.unwrap(angles, axis=1)


def check_angles(segments: Sequence[Segment], z: Array, time: Array) -> None:
    """Raises `ValueError` for a segment that comes near to its singular posture."""
    for k, row in enumerate(segments):
        alpha = np.abs(z[3 + 3 * k])
        if alpha.max() > SINGULAR:
            at = int(alpha.argmax())
            raise ValueError(
                f"segment {row.name!r}: alpha reaches {np.degrees(alpha[at]):.0f} deg "
                f"at t = {time[at]:.2f} s, where its angles are lost; choose axes "
                "that turn it otherwise"
            )


def segments_from_landmarks(
    segments: Sequence[Segment], found: Landmarks, root: str = "J1"
) -> tuple[Segment, ...]:
    """The segments with points where landmarks have them on average over the trial.

    Masses are kept; centres of mass and inertias are scaled with the distance between proximal and
    basis point. A point that is not measured keeps its place, scaled likewise. Raises `ValueError`
    for a segment without measured axes.
    """
    places, made = dict(found.places), []
    if root not in places:
        raise ValueError(f"the relations do not say where point {root!r} is")
    for row in segments:
        if row.name not in found.axes:
            raise ValueError(f"the relations do not say which axes segment {row.name!r} has")
        A = found.axes[row.name]
        points = {}
        for point in row.points:
            if point in places:
                arm = places[point] - places[row.proximal]
                points[point] = tuple(np.einsum("ijn,in->jn", A, arm).mean(axis=1).tolist())
        old = np.linalg.norm(row.points[row.basis_point])
        new = np.linalg.norm(points.get(row.basis_point, row.points[row.basis_point]))
        scale = float(new / old)
        for point, place in row.points.items():
            if point not in points:
                points[point] = _scaled(scale, place)
                places[point] = places[row.proximal] + np.einsum("ijn,j->in", A, points[point])
        made.append(
            replace(
                row,
                points=points,
                com=_scaled(scale, row.com),
                inertia=_scaled(scale**2, row.inertia),
            )
        )
    return tuple(made)


def _scaled(by: float, numbers: Position) -> Position:
    x, y, z = (by * c for c in numbers)
    return x, y, z


def landmark_targets(
    segments: Sequence[Segment], found: Landmarks, root: str = "J1", arm: float = 0.1
) -> list[Target]:
    """Measured points, and two unit vectors of each segment with the weight of points at the
    distance `arm` [m]: the coordinates q* of the body as far as they are measured."""
    targets = [Target(root, "", (0.0, 0.0, 0.0), found.places[root])]
    for row in segments:
        for point, local in row.points.items():
            if point in found.places:
                targets.append(Target(point, row.name, local, found.places[point]))
        for letter in row.basis_vectors:
            k = "uvw".index(letter)
            axis = tuple(np.eye(3)[k].tolist())
            targets.append(
                Target(
                    f"{row.name} {letter}",
                    row.name,
                    axis,
                    found.axes[row.name][:, k],
                    arm**2,
                    direction=True,
                )
            )
    return targets


def marker_targets(
    body: NaturalBody,
    z: Array,
    markers: Mapping[str, Array],
    carriers: Mapping[str, str],
    weights: Mapping[str, float] | None = None,
) -> list[Target]:
    """Markers at fixed places of segments: the mean places that they have there in a motion z.

    carriers : marker -> segment. weights : of squared distances, 1 by default. Raises `ValueError`
    for an unknown marker or segment.
    """
    still = np.zeros_like(z)
    names = [row.name for row in body.segments]
    origins = body.course(z, still, still).q
    poses = body.poses(z, still, still)
    targets = []
    for name, segment in carriers.items():
        if segment not in names or name not in markers:
            raise ValueError(
                f"marker {name!r} on segment {segment!r}: there is no such "
                f"{'segment' if name in markers else 'marker'}"
            )
        k = names.index(segment)
        at = 3 * body.points[body.segments[k].proximal]
        local = np.einsum("nij,in->jn", poses[k].A, markers[name] - origins[at : at + 3])
        weight = (weights or {}).get(name, 1.0)
        place = tuple(local.mean(axis=1).tolist())
        targets.append(Target(name, segment, place, markers[name], weight))
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
    return np.vstack([found.places[root], *(angles_of(found.axes[row.name]) for row in segments)])


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
            f"{free} is not held by what was measured; three markers that are not in "
            "line, or two axes, hold a segment"
        )


def _distances(
    body: NaturalBody, targets: Sequence[Target], z: Array, measured: Array
) -> tuple[Array, Array]:
    """Modelled minus measured places (T, 3, N) and their derivatives (N, 3 T, g)."""
    N, g = z.shape[1], z.shape[0]
    still = np.zeros_like(z)
    poses = body.poses(z, still, still)
    number = {row.name: k for k, row in enumerate(body.segments)}
    places: dict[str, Array] = {body.root: z[:3]}
    columns: dict[str, Array] = {body.root: np.zeros((N, 3, g))}
    columns[body.root][:, :, :3] = np.eye(3)
    for k, row in enumerate(body.segments):
        for point, local in row.points.items():
            arm = poses[k].A @ np.array(local)
            places[point] = places[row.proximal] + arm.T
            columns[point] = columns[row.proximal].copy()
            columns[point][:, :, 3 + 3 * k : 6 + 3 * k] = _turned(poses[k].H, arm)
    gap, J = measured * -1.0, np.zeros((N, 3 * len(targets), g))
    for i, target in enumerate(targets):
        rows = slice(3 * i, 3 * i + 3)
        if not target.segment:
            gap[i] += z[:3]
            J[:, rows, :3] = np.eye(3)
            continue
        k = number[target.segment]
        arm = poses[k].A @ np.array(target.local)
        gap[i] += arm.T
        if not target.direction:
            gap[i] += places[body.segments[k].proximal]
            J[:, rows] = columns[body.segments[k].proximal]
        J[:, rows, 3 + 3 * k : 6 + 3 * k] = _turned(poses[k].H, arm)
    return gap, J


def _turned(H: Array, arm: Array) -> Array:
    """Derivatives of a carried vector (N, 3) with respect to the angles, (N, 3, 3)."""
    return np.cross(H.transpose(0, 2, 1), arm[:, None, :]).transpose(0, 2, 1)


# -- in natural coordinates -----------------------------------------------------------------------


def natural_targets(body: NaturalBody, targets: Sequence[Target]) -> tuple[Array, Array]:
    """Measured natural coordinates q* (n, N) and their weights (n,); 0 where nothing is measured.

    The targets are those of `landmark_targets`.
    """
    N = targets[0].measured.shape[1]
    q, weights = np.zeros((body.size, N)), np.zeros(body.size)
    places = {name: 3 * k for name, k in body.points.items()}
    for k, row in enumerate(body.segments):
        for i, letter in enumerate(row.basis_vectors):
            places[f"{row.name} {letter}"] = 3 * len(body.points) + 6 * k + 3 * i
    for target in targets:
        here = slice(places[target.name], places[target.name] + 3)
        q[here], weights[here] = target.measured, target.weight
    return q, weights


def project(
    body: NaturalBody, q: Array, weights: Array, angles: Array, time: Array | None = None
) -> Array:
    """The nearest natural coordinates of rigid segments, (n, N), at every instant.

    Minimises (q - q*)' W (q - q*) / 2 under the constraints of the natural coordinates alone, by
    sequential quadratic programming; each instant begins where the one before ended.

    body : in the orthonormal variant. q : measured, (n, N). weights : diagonal of W, (n,).
    angles : (g - 3, N), near enough to begin with. time : (N,), for messages.

    Raises `ValueError` if one does not converge: instant, residual and worst constraint by name.
    """
    if body.variant != "orthonormal":
        raise ValueError("the projection needs a body in the orthonormal variant")
    kept = np.array([".A" not in name for name in body.constraint_names])
    names = [name for name, keep in zip(body.constraint_names, kept, strict=True) if keep]
    W = csc_array(diags_array(weights))
    start = np.vstack([q[:3], angles])
    result = body.course(start, 0.0 * start, 0.0 * start).q
    for k in range(q.shape[1]):
        x = result[:, k]
        for _ in range(ITERATIONS):
            Phi = body.constraints(x, angles[:, k])[kept]
            J = csc_array(body.constraint_jacobian(x, angles[:, k])[kept, : body.size])
            matrix = csc_array(block_array([[W, J.T], [J, None]]))
            step = splu(matrix).solve(np.concatenate([-weights * (x - q[:, k]), -Phi]))
            x = x + step[: body.size]
            if max(np.abs(step[: body.size]).max(), np.abs(Phi).max()) < CONSISTENT:
                break
        else:
            worst = int(np.abs(Phi).argmax())
            at = f"frame {k}" if time is None else f"frame {k} (t = {time[k]:.3f} s)"
            raise ValueError(
                f"{at} cannot be made consistent: residual {np.abs(Phi).max():.2g}, "
                f"the worst constraint is {names[worst]}"
            )
        result[:, k] = x
    return result
