"""Forces that unit inertial parameters need, at random states of a tree.

Generalised forces are linear in mass, first moments and moments of inertia of each body. Modulo a
prime their coefficients at random states have the rank that they have along almost all motions; see
`kinesym.symbolic.prime_field`. Motions go outwards and forces inwards as in
`kinesym.symbolic.multibody.passes`, in numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.multibody.base import FixedBase
from kinesym.symbolic.multibody.fields import Array, rational_direction
from kinesym.symbolic.multibody.generic import State
from kinesym.symbolic.multibody.joints import unit
from kinesym.symbolic.multibody.links import Aim, Ball, Functional, Hinge, Link, Slide
from kinesym.symbolic.multibody.vectors import AXES, vector
from kinesym.symbolic.names import name_of

#: Names of the inertial parameters of a body: moments of inertia about its origin [kg m^2], first
#: moments [kg m], mass [kg].
INERTIAL = ("Jxx", "Jxy", "Jxz", "Jyy", "Jyz", "Jzz", "mcx", "mcy", "mcz", "m")


@dataclass(frozen=True)
class Moved:
    """A link relative to the one before it, as `kinesym.symbolic.multibody.relative.Relative`, in
    numbers: to world axes if it is `Aim`ed."""

    rotation: Array
    offset: Array
    ways: list[tuple[Array, Array]]
    bias: tuple[Array, Array]


def moved(s: State, link: Link) -> Moved:
    """The motion of a link relative to the one before it."""
    zero = s.zero
    same = s.identity
    axes = [same[:, k] for k in range(3)]
    at, ways = s.points(link.at), list[tuple[Array, Array]]()
    match link.primitive:
        case Hinge(direction=direction):
            axis = s.direction(direction)
            rotation, ways = s.about(axis, s.circle(link.q[0])), [(axis, zero)]
        case Ball(sequence=sequence):
            rotation, ways = s.bryant(sequence, link.q), [(axis, zero) for axis in axes]
        case Aim(sequence=sequence):
            rotation = s.bryant(sequence, link.q)
            turned = sequence if len(sequence) == 1 else AXES
            ways = [(axes[AXES.index(axis)], zero) for axis in turned]
        case Slide(axes=names):
            rotation, ways = same, [(zero, axes[AXES.index(axis)]) for axis in names]
            for q, (_, way) in zip(link.q, ways, strict=True):
                at = s.numbers.reduce(at + s.times(s.coordinate(q)[:, None], way))
        case Functional():
            return moved_by_functions(s, link, link.primitive)
        case _:
            rotation = same
    return Moved(rotation, at, ways, (zero, zero))


def moved_by_functions(s: State, link: Link, motion: Functional) -> Moved:
    """Relative motion of a joint of functions, see `relative.moved_by_functions`."""
    zero = s.zero
    constant = s.rotation(motion.attitude)
    rotation = s.identity
    w, bias, turns = zero, zero, [zero for _ in link.q]
    rates = [speed(s, u) for u in link.u]
    axes = directions_of(s, motion, constant)
    for (_, angle), axis in zip(motion.rotations, axes, strict=True):
        slopes, curve = changes(s, angle, link)
        step = s.about(axis, s.circle(angle))
        rotation, carried = s.apply(rotation, step), s.back(step, w)
        rate = sum((s.times(a, u) for a, u in zip(slopes, rates, strict=True)), zero[:, 0])
        rate = s.numbers.reduce(rate)
        spin = s.times(rate[:, None], axis)
        w = s.numbers.reduce(carried + spin)
        bias = s.back(step, bias) + s.times(curve[:, None], axis) + s.cross(carried, spin)
        bias = s.numbers.reduce(bias)
        turns = [
            s.numbers.reduce(s.back(step, v) + s.times(slope[:, None], axis))
            for v, slope in zip(turns, slopes, strict=True)
        ]
    parts = [changes(s, e, link) for e in motion.shift]
    moves = [np.stack(np.broadcast_arrays(*(a[k] for a, _ in parts)), 1) for k in range(len(turns))]
    curves = np.stack(np.broadcast_arrays(*(c for _, c in parts)), axis=1)
    return Moved(
        s.apply(rotation, constant),
        s.points([a + b for a, b in zip(link.at, motion.shift, strict=True)]),
        [(s.back(constant, a), b) for a, b in zip(turns, moves, strict=True)],
        (s.back(constant, bias), curves),
    )


def directions_of(s: State, motion: Functional, constant: Array) -> list[Array]:
    """Axes of rotations; the last one is exactly a simple one of the body if it is near one."""
    found = [s.direction(axis) for axis, _ in motion.rotations]
    if s.exact and found:
        floats = np.array(sp.Matrix(motion.attitude).T * sp.Matrix(motion.rotations[-1][0]))
        own, simple = rational_direction([s.constant(e, "an axis") for e in floats.ravel()])
        if simple:
            found[-1] = s.apply(constant, s.array(own))
    return found


def changes(s: State, function: sp.Expr, link: Link) -> tuple[list[Array], Array]:
    """Slopes of a function for each coordinate, and its second derivative in time for constant
    speeds."""
    slopes = [function.diff(q) for q in link.q]
    curve = s.zero[:, 0]
    for slope, u in zip(slopes, link.u, strict=True):
        for q, v in zip(link.q, link.u, strict=True):
            if (second := slope.diff(q)) != 0:
                both = s.times(speed(s, u), speed(s, v))
                curve = s.numbers.reduce(curve + s.times(s.at(second), both))
    return [s.at(slope) for slope in slopes], curve


def speed(s: State, u: AppliedUndef, order: int = 0) -> Array:
    """Values of a speed, or of its rate (n,): zero if it is locked."""
    if name_of(u) in s.tree.locked:
        return s.zero[:, 0]
    return s.once((name_of(u), order))


# -- what unit parameters need --------------------------------------------------------------------


def unit_forces(s: State) -> tuple[dict[str, Array], Array]:
    """Coefficients of generalised forces by the name of their speed, (n, 10 N), and of the wrench
    of the base, force and moment (n, 6, 10 N); of the parameters `INERTIAL` of each of N bodies."""
    links, frames = s.tree.links, {-1: base_frame(s)}
    moves = [moved(s, link) for link in links]
    for k, link in enumerate(links):
        frames[k] = frame(s, frames[link.parent], link, moves[k])
    width, dtype = 10 * len(s.tree.bodies), np.int64 if s.exact else float
    numbers = {body.name: k for k, body in enumerate(s.tree.bodies)}
    total = {k: np.zeros((3, s.n, 3, width), dtype) for k in frames}
    rows = {name: np.zeros((s.n, width), dtype) for name in s.tree.speeds}
    for k in reversed(range(len(links))):
        link, move, (f, n, m) = links[k], moves[k], total.pop(k)
        if link.body is not None:
            begin = 10 * numbers[link.body.name]
            force, moment = unit_wrenches(s, frames[k])
            for whole, part in ((f, force), (n, moment), (m, moment)):
                whole[:, :, begin : begin + 10] += part
        f, n, m = (s.numbers.reduce(e) for e in (f, n, m))
        rotation = frames[k].rotation
        for u, (turned, slid) in zip(link.u, move.ways, strict=True):
            slid = s.back(rotation, slid)
            row = s.times(turned[:, :, None], m) + s.times(slid[:, :, None], f)
            name = name_of(u)
            rows[name] = s.numbers.reduce(rows[name] + row.sum(axis=1))
        f, n = s.apply(rotation, f), s.apply(rotation, n)
        m = 0 * n if isinstance(link.primitive, Aim) else s.apply(rotation, m)
        arm, outer = s.cross(move.offset, f), total[link.parent]
        for whole, part in zip(outer, (f, n + arm, m + arm), strict=True):
            whole += s.numbers.reduce(part)
    return rows, np.concatenate([s.numbers.reduce(e) for e in total[-1][:2]], axis=1)


@dataclass(frozen=True)
class Motion:
    """The motion of a link in its own axes, as `kinesym.symbolic.multibody.passes.Frame`."""

    rotation: Array
    w: Array
    dw: Array
    change: Array
    acceleration: Array
    attitude: Array


def base_frame(s: State) -> Motion:
    """The motion of the base: any, or none."""
    same = s.identity
    zero = s.zero
    if isinstance(s.tree.base, FixedBase):
        gravity = s.points(vector(s.tree.gravity))
        return Motion(same, zero, zero, 0 * same, s.numbers.reduce(-gravity), same)
    w, dw, a = (np.stack([s.once((kind, k)) for k in range(3)], 1) for kind in ("w", "dw", "a"))
    axes = [s.about(s.direction(unit(axis)), s.on_circle(axis)) for axis in AXES]
    attitude = s.apply(s.apply(axes[0], axes[1]), axes[2])
    return Motion(same, w, dw, change_of(s, w, dw), a, attitude)


def change_of(s: State, w: Array, dw: Array) -> Array:
    """The matrix of dw x r + w x (w x r)."""
    eye = np.eye(3, dtype=w.dtype)
    columns = [
        s.cross(w, s.cross(w, np.broadcast_to(e, w.shape)))
        + s.cross(dw, np.broadcast_to(e, w.shape))
        for e in eye
    ]
    return s.numbers.reduce(np.stack(columns, axis=2))


def frame(s: State, inner: Motion, link: Link, move: Moved) -> Motion:
    """The motion of a link from that of the one before it, see `passes.outwards`."""
    aimed = isinstance(link.primitive, Aim)
    rotation = s.back(inner.attitude, move.rotation) if aimed else move.rotation
    attitude = move.rotation if aimed else s.apply(inner.attitude, rotation)
    turning, sliding = along(s, link, move, 0)
    turning_rate, sliding_rate = along(s, link, move, 1)
    turning_rate = s.numbers.reduce(turning_rate + move.bias[0])
    sliding_rate = s.numbers.reduce(sliding_rate + move.bias[1])
    a = inner.acceleration + s.apply(inner.change, move.offset)
    a = a + sliding_rate + 2 * s.cross(inner.w, sliding)
    w, dw = s.back(rotation, inner.w), s.back(rotation, inner.dw)
    dw = s.numbers.reduce(dw + turning_rate + s.cross(w, turning))
    w = s.numbers.reduce(w + turning)
    if aimed:
        w, dw = turning, turning_rate
    a = s.back(rotation, s.numbers.reduce(a))
    w, dw, a, rotation = (np.broadcast_to(e, (s.n, *e.shape[1:])) for e in (w, dw, a, rotation))
    return Motion(rotation, w, dw, change_of(s, w, dw), a, attitude)


def along(s: State, link: Link, move: Moved, order: int) -> tuple[Array, Array]:
    """The motion along a joint with its speeds, or their rates."""
    turning = sliding = s.zero
    for u, (turned, slid) in zip(link.u, move.ways, strict=True):
        value = speed(s, u, order)[:, None]
        turning = s.numbers.reduce(turning + s.times(value, turned))
        sliding = s.numbers.reduce(sliding + s.times(value, slid))
    return turning, sliding


def unit_wrenches(s: State, motion: Motion) -> tuple[Array, Array]:
    """Forces and moments (n, 3, 10) about its origin that a body with one of the parameters
    `INERTIAL` alone needs, in its axes."""
    zero, eye = 0 * motion.w, np.eye(3, dtype=motion.w.dtype)
    forces, moments = [], []
    for i in range(3):
        for j in range(i, 3):
            spun, rate = zero.copy(), zero.copy()  # E w, E dw
            spun[:, i], spun[:, j] = motion.w[:, j], motion.w[:, i]
            rate[:, i], rate[:, j] = motion.dw[:, j], motion.dw[:, i]
            forces.append(zero)
            moments.append(s.numbers.reduce(rate + s.cross(motion.w, spun)))
    for k in range(3):
        forces.append(motion.change[:, :, k])
        moments.append(s.cross(np.broadcast_to(eye[k], zero.shape), motion.acceleration))
    forces.append(motion.acceleration)
    moments.append(zero)
    return np.stack(forces, axis=2), np.stack(moments, axis=2)
