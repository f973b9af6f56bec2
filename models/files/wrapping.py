"""Taut strings around cylinders, spheres and ellipsoids, for many pairs of ends at once.

On cylinders and spheres strings are geodesics in closed form. Around an ellipsoid a string stays in
a plane through its ends, in which it is shortest; geodesics are shorter by less than 0.1 % there.
When a string touches, and on which side, follows OpenSim (`WrapCylinder`, `WrapSphere`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.models.files.description import Wrap

Array = NDArray[np.float64]
Truths = NDArray[np.bool_]

#: Number of planes through the ends that are tried around an ellipsoid.
_PLANES = 24
#: Number of parabolas after that, whose minimum is the next plane.
_PARABOLAS = 4
#: Factor by which the planes of a parabola are closer than those of the one before.
_CLOSER = 8.0
#: Gauss quadrature of the length of an arc: nodes and weights.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


@dataclass(frozen=True)
class Touch:
    """Contact of strings (n,) with a surface. touches : if they do. needed : if the straight line
    goes through the surface. first, last : where they begin and end to touch (n, 3) [m]. arc :
    length between these on the surface [m]."""

    touches: Truths
    needed: Truths
    first: Array
    last: Array
    arc: Array


def around(wrap: Wrap, p: Array, q: Array) -> Touch:
    """Strings from points p to points q (n, 3), in the axes of the surface [m]."""
    with np.errstate(all="ignore"):  # ends inside have no tangents
        if wrap.kind == "cylinder":
            return _cylinder(wrap, p, q)
        if wrap.kind == "sphere":
            return _sphere(wrap, p, q)
        return _ellipsoid(wrap, p, q)


@dataclass(frozen=True)
class _Circle:
    """Strings around a circle about the origin of a plane: angles at which they touch and leave it,
    and the angle between."""

    touches: Truths
    needed: Truths
    first: Array
    last: Array
    angle: Array


def _circle(p: Array, q: Array, radius: Array, turn: Array | None = None) -> _Circle:
    """Strings around a circle from p to q (n, 2), by the shorter way unless `turn` says which."""
    spread = sum(np.arccos(radius / np.hypot(*end.T)) for end in (p, q))
    begin, end = (np.arctan2(x[:, 1], x[:, 0]) for x in (p, q))
    ahead = np.mod(end - begin, 2.0 * np.pi)
    either = np.minimum(ahead, 2.0 * np.pi - ahead) - spread
    if turn is None:
        turn = np.where(ahead <= np.pi, 1.0, -1.0)
    angle = np.where(turn > 0, ahead, 2.0 * np.pi - ahead) - spread
    first = begin + turn * np.arccos(radius / np.hypot(*p.T))
    outside = np.isfinite(spread)
    touches, needed = outside & (angle > 0.0), outside & (either > 0.0)
    return _Circle(touches, needed, first, first + turn * angle, angle)


def _sided(p: Array, q: Array, radius: Array, side: Array) -> _Circle:
    """Strings around a circle by the way whose middle is on the half of the circle in a direction
    (n, 2)."""
    begin, end = (np.arctan2(x[:, 1], x[:, 0]) for x in (p, q))
    middle = begin + 0.5 * np.mod(end - begin, 2.0 * np.pi)
    ahead = np.cos(middle) * side[:, 0] + np.sin(middle) * side[:, 1] > 0.0
    found = _circle(p, q, radius, np.where(ahead, 1.0, -1.0))
    # A line that passes the circle on its side, or ends there, is free
    on = [_dot(x, side) > 0.0 for x in (p, q)]
    along = q - p
    foot = p - (_dot(p, along) / _dot(along, along))[:, None] * along
    passes = (on[0] != on[1]) & ~(_dot(foot, side) > 0.0)
    free = (on[0] | on[1]) & ~found.needed & ~passes
    return replace(found, touches=found.touches & ~free)


def _cylinder(wrap: Wrap, p: Array, q: Array) -> Touch:
    """A helix between straight lines: unrolled, a straight line."""
    radius, length = np.full(len(p), wrap.sizes[0]), wrap.sizes[1]
    if wrap.side is None:
        flat = _circle(p[:, :2], q[:, :2], radius)
    else:
        axis, sign = wrap.side
        side = np.tile(sign * np.eye(3)[axis, :2], (len(p), 1))
        flat = _sided(p[:, :2], q[:, :2], radius, side)
    begin, end = (np.sqrt(np.sum(x[:, :2] ** 2, axis=1) - radius**2) for x in (p, q))
    arc = radius * flat.angle
    slope = (q[:, 2] - p[:, 2]) / (begin + arc + end)
    z = p[:, 2] + slope * begin, q[:, 2] - slope * end
    first, last = (
        np.stack([radius * np.cos(at), radius * np.sin(at), up], axis=1)
        for at, up in zip((flat.first, flat.last), z, strict=True)
    )
    beyond = (np.abs(z[0]) > length / 2.0) & (np.abs(z[1]) > length / 2.0)
    return Touch(
        flat.touches & ~beyond, flat.needed & ~beyond, first, last, arc * np.hypot(1.0, slope)
    )


def _sphere(wrap: Wrap, p: Array, q: Array) -> Touch:
    """A great circle in the plane of both ends and the centre."""
    radius = np.full(len(p), wrap.sizes[0])
    x = _unit(p)
    y = _unit(q - np.sum(q * x, axis=1)[:, None] * x)
    flat_p, flat_q = (np.stack([_dot(v, x), _dot(v, y)], axis=1) for v in (p, q))
    if wrap.side is None:
        flat = _circle(flat_p, flat_q, radius)
    else:
        axis, sign = wrap.side
        flat = _sided(flat_p, flat_q, radius, sign * np.stack([x[:, axis], y[:, axis]], axis=1))
    first, last = (
        radius[:, None] * (np.cos(at)[:, None] * x + np.sin(at)[:, None] * y)
        for at in (flat.first, flat.last)
    )
    return Touch(flat.touches, flat.needed, first, last, radius * flat.angle)


# -- ellipsoids -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sections:
    """Planes through pairs of ends, in axes in which the ellipsoid is the unit sphere. half :
    the half axes of the ellipsoid (3,). along, across, up : unit vectors (n, 3) along the ends
    and two across."""

    half: Array
    p: Array
    q: Array
    along: Array
    across: Array
    up: Array

    def touch(self, angle: Array) -> tuple[Touch, Array, Array]:
        """Strings in the planes at these angles about the lines; lengths of the whole strings [m],
        and the outermost points of the sections."""
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        w, n = c * self.across + s * self.up, c * self.up - s * self.across
        height = _dot(self.p, n)
        center, radius = height[:, None] * n, np.sqrt(1.0 - height**2)
        flat_p, flat_q = (
            np.stack([_dot(x - center, self.along), _dot(x - center, w)], axis=1)
            for x in (self.p, self.q)
        )
        flat = _circle(flat_p, flat_q, radius, np.full(len(angle), -1.0))
        half = 0.5 * flat.angle
        at = (flat.first[:, None] - half[:, None] * (1.0 + _NODES))[:, :, None]
        step = self.half * (np.cos(at) * w[:, None] - np.sin(at) * self.along[:, None])
        arc, ends = half * radius * (np.linalg.norm(step, axis=2) @ _WEIGHTS), []
        for at in (flat.first[:, None], flat.last[:, None]):
            ends.append(
                self.half * (center + radius[:, None] * (np.cos(at) * self.along + np.sin(at) * w))
            )
        straight = [
            np.linalg.norm(self.half * x - end, axis=1)
            for x, end in zip((self.p, self.q), ends, strict=True)
        ]
        found = Touch(flat.touches, flat.needed, ends[0], ends[1], arc)
        return found, straight[0] + arc + straight[1], center + radius[:, None] * w


def _ellipsoid(wrap: Wrap, p: Array, q: Array) -> Touch:
    """Strings around an ellipsoid, in the plane through both ends in which the string is shortest,
    if the line crosses."""
    half = np.array(wrap.sizes)
    u, v = p / half, q / half
    along = _unit(v - u)
    nearest = u - _dot(u, along)[:, None] * along
    outside = (_dot(u, u) >= 1.0) & (_dot(v, v) >= 1.0)
    between = (_dot(u, along) < 0.0) & (_dot(v, along) > 0.0)
    crosses = outside & between & (_dot(nearest, nearest) < 1.0)
    first, last, arc = p.copy(), q.copy(), np.zeros(len(p))
    if crosses.any():
        u, v, along = u[crosses], v[crosses], along[crosses]
        least = np.eye(3)[np.argmin(np.abs(along), axis=1)]
        across = _unit(np.cross(along, least))
        found = _shortest(_Sections(half, u, v, along, across, np.cross(along, across)), wrap.side)
        first[crosses], last[crosses], arc[crosses] = found.first, found.last, found.arc
    return Touch(crosses, crosses, first, last, arc)


def _shortest(sections: _Sections, side: tuple[int, int] | None) -> Touch:
    """The strings in the best planes, whose outermost points are on a side if there is one."""
    count = len(sections.p)
    best, least = np.zeros(count), np.full(count, np.inf)
    for angle in np.linspace(0.0, 2.0 * np.pi, _PLANES, endpoint=False):
        _, length, top = sections.touch(np.full(count, angle))
        if side is not None:
            axis, sign = side
            length = np.where(sign * top[:, axis] > 0.0, length, np.inf)
        better = length < least
        best, least = np.where(better, angle, best), np.where(better, length, least)
    step = 2.0 * np.pi / _PLANES
    for _ in range(_PARABOLAS):
        low, middle, high = (sections.touch(best + k * step)[1] for k in (-1.0, 0.0, 1.0))
        curve = low - 2.0 * middle + high
        shift = np.where(curve > 0.0, 0.5 * (low - high) / curve, np.sign(low - high))
        best = best + step * np.clip(shift, -1.0, 1.0)
        step /= _CLOSER
    return sections.touch(best)[0]


def _dot(a: Array, b: Array) -> Array:
    found: Array = np.sum(a * b, axis=1)
    return found


def _unit(a: Array) -> Array:
    found: Array = a / np.linalg.norm(a, axis=1)[:, None]
    return found
