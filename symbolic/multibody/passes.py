"""Kane's method run recursively: outwards for motion, inwards for forces.

The partial velocities of all points beyond a joint with respect to its speeds are those of one
rigid body. So Kane's equations are the components, along each joint, of the wrench that all bodies
beyond it need: with one symbol per intermediate result the number of operations is linear in the
number of bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import sympy as sp

from kinesym.symbolic.multibody.bodies import Body, Load, inertia_matrix, mass_of
from kinesym.symbolic.multibody.joints import bryant_rates
from kinesym.symbolic.multibody.links import Aim, Ball, Link
from kinesym.symbolic.multibody.relative import Placed, Relative, placed, relative, sine_cosine
from kinesym.symbolic.multibody.vectors import (
    AXES,
    ZERO,
    Matrix,
    Steps,
    Vector,
    matrix,
    vector,
)
from kinesym.symbolic.names import t

#: Force and moment.
Wrench = tuple[Vector, Vector]


@dataclass(frozen=True)
class Pose:
    """Pose of a link. attitude : rotation to world axes. place : position of its origin, in world
    axes. joint : relative to the link before it."""

    attitude: Matrix
    place: Vector
    joint: Placed


@dataclass(frozen=True)
class Frame:
    """The motion of a link, vectors in its own axes.

    rotation : to the axes of the link before it. angular : w. spinning : the matrix of
    w x (w x r) = spinning r. change : that of a(r) - a(0) = change r for points r fixed in the
    link. acceleration : of the origin, gravity subtracted. velocity : of the origin. attitude :
    rotation to world axes. place : of the origin, in world axes. joint : the motion relative to the
    link before it.
    """

    rotation: Matrix
    angular: Vector
    angular_rate: Vector
    spinning: Matrix
    change: Matrix
    acceleration: Vector
    velocity: Vector
    attitude: Matrix
    place: Vector
    joint: Relative


@dataclass(frozen=True)
class Poses:
    """Poses of all links, and of the base as number -1, in terms of the symbols of `steps`. counts
    : numbers of these symbols before the base, after it, and after each link."""

    steps: Steps
    poses: Mapping[int, Pose]
    counts: tuple[int, ...]

    def part(self, number: int) -> dict[sp.Symbol, sp.Expr]:
        """The definitions that came with a link."""
        begin, end = self.counts[number + 1 : number + 3]
        return dict(islice(self.steps.definitions.items(), begin, end))


@dataclass(frozen=True)
class Moving:
    """Motion of all links, and of the base as number -1, in terms of the symbols of `steps`."""

    steps: Steps
    frames: Mapping[int, Frame]


@dataclass(frozen=True)
class Recursion:
    """Motion and forces of all links (see `inwards`), in terms of the symbols of `steps`; those of
    the base have number -1."""

    steps: Steps
    frames: Mapping[int, Frame]
    wrenches: Mapping[int, Wrench]
    kane: Mapping[int, Wrench]


def pose(steps: Steps, inner: Pose, link: Link) -> Pose:
    """Pose of a link, from that of the one before it."""
    joint = placed(steps, link)
    attitude = joint.rotation
    if not isinstance(link.primitive, Aim):
        attitude = steps.matrix(f"A.{link.name}", inner.attitude @ joint.rotation)
    place = inner.place + inner.attitude @ joint.offset
    return Pose(attitude, steps.vector(f"p.{link.name}", place), joint)


def outwards(steps: Steps, inner: Frame, link: Link, at: Pose) -> Frame:
    """The motion of a link from that of the one before it."""
    name = link.name
    rates = tuple(u.diff(t) for u in link.u)
    joint = relative(steps, link, at.joint)
    R = joint.rotation
    if isinstance(link.primitive, Aim):
        R = steps.matrix(f"R.{name}", inner.attitude.T @ at.attitude)
    w, dw = R.T @ inner.angular, R.T @ inner.angular_rate
    turning, sliding = joint.along(link.u)
    turning_rate, sliding_rate = joint.along(rates)
    turning_rate, sliding_rate = turning_rate + joint.bias[0], sliding_rate + joint.bias[1]
    a = inner.acceleration + inner.change @ joint.offset
    a += sliding_rate + 2 * inner.angular.cross(sliding)
    v = inner.velocity + inner.angular.cross(joint.offset) + sliding
    w = steps.vector(f"w.{name}.carried", w)
    dw += turning_rate + w.cross(turning)
    w += turning
    if isinstance(link.primitive, Aim):
        w, dw = turning, turning_rate
    w, dw = steps.vector(f"w.{name}", w), steps.vector(f"dw.{name}", dw)
    return Frame(
        R,
        w,
        dw,
        *change_matrices(steps, name, w, dw),
        steps.vector(f"a.{name}", R.T @ steps.vector(f"a.{name}.inner", a)),
        steps.vector(f"v.{name}", R.T @ steps.vector(f"v.{name}.inner", v)),
        at.attitude,
        at.place,
        joint,
    )


def change_matrices(steps: Steps, name: str, w: Vector, dw: Vector) -> tuple[Matrix, Matrix]:
    """The matrices of w x (w x r) and of dw x r + w x (w x r)."""
    x, y, z = w
    xx, yy, zz = (steps.scalar(f"ww.{name}.{axis}", e * e) for axis, e in zip(AXES, w, strict=True))
    xy = steps.scalar(f"ww.{name}.xy", x * y)
    xz = steps.scalar(f"ww.{name}.xz", x * z)
    yz = steps.scalar(f"ww.{name}.yz", y * z)
    spinning = matrix([(-yy - zz, xy, xz), (xy, -xx - zz, yz), (xz, yz, -xx - yy)])
    return spinning, steps.matrix(f"S.{name}", spinning + dw.skew)


def needed_wrench(steps: Steps, frame: Frame, body: Body) -> Wrench:
    """Force and moment about its origin that a body needs to move as it does, in its axes."""
    com, inertia = vector(body.com), inertia_matrix(body)
    force = mass_of(body) * (frame.acceleration + frame.change @ com)
    force = steps.vector(f"F.{body.name}", force)
    momentum = steps.vector(f"L.{body.name}", inertia @ frame.angular)
    rate = inertia @ frame.angular_rate + frame.angular.cross(momentum)
    return force, rate + com.cross(force)


def inwards(
    steps: Steps, links: Sequence[Link], frames: Mapping[int, Frame], own: Mapping[int, Wrench]
) -> tuple[dict[int, Wrench], dict[int, Wrench]]:
    """Inward pass: for each link, and the base as number -1, in its axes and about its origin,
    force and moment that reach it through its joint; and Kane's, which follow speeds. own : wrench
    that a link needs.

    They differ in the moment of links that are `Aim`ed: their parents do not turn them.
    """
    aimed = any(isinstance(link.primitive, Aim) for link in links)
    parts = {k: [(ZERO, ZERO, ZERO)] for k in range(-1, len(links))}
    for k, (force, moment) in own.items():
        parts[k].append((force, moment, moment))
    reaching, following = dict[int, Wrench](), dict[int, Wrench]()
    for k in reversed(parts):
        name = links[k].name if k >= 0 else "(base)"
        f, n, m = (sum(terms, ZERO) for terms in zip(*parts[k], strict=True))
        f, n = steps.vector(f"f.{name}", f), steps.vector(f"n.{name}", n)
        m = steps.vector(f"m.{name}", m) if aimed else n
        reaching[k], following[k] = (f, n), (f, m)
        if k < 0:
            break
        link, R = links[k], frames[k].rotation
        f = steps.vector(f"f.{name}.inner", R @ f)
        arm = frames[k].joint.offset.cross(f)
        n = steps.vector(f"n.{name}.inner", R @ n + arm)
        if aimed:
            turned = ZERO if isinstance(link.primitive, Aim) else R @ m
            m = steps.vector(f"m.{name}.inner", turned + arm)
        parts[link.parent].append((f, n, m))
    return reaching, following


def load_wrench(frame: Frame, load: Load) -> Wrench:
    """Force and moment about the joint, in the axes of the body."""
    force, torque = vector(load.force), vector(load.torque)
    if load.axes == "world":
        force, torque = frame.attitude.T @ force, frame.attitude.T @ torque
    return force, torque + vector(load.at).cross(force)


def subtract(needed: Wrench, applied: Iterable[Wrench]) -> Wrench:
    """Wrench that is left to the joint: the needed one without the applied ones."""
    force, moment = needed
    for f, n in applied:
        force, moment = force - f, moment - n
    return force, moment


def along_joint(frame: Frame, wrench: Wrench) -> list[sp.Expr]:
    """Kane's generalised forces of a wrench (in the axes of the link), one for each speed."""
    force, moment = wrench
    return [turn @ moment + shift @ force for turn, shift in frame.joint.directions]


def kinematics(steps: Steps, link: Link) -> list[sp.Expr]:
    """Rates of the coordinates of a link."""
    if not isinstance(link.primitive, (Ball, Aim)) or len(link.q) == 1:
        return list(link.u)
    pairs = [sine_cosine(steps, q.name, q) for q in link.q]
    sines, cosines = map(Vector, zip(*pairs, strict=True))
    return list(bryant_rates(link.primitive.sequence, sines, cosines, Vector(link.u)))
