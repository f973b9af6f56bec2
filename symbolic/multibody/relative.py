"""Relative kinematics: the motion of a link relative to the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from kinesym.symbolic.multibody.joints import turn, unit
from kinesym.symbolic.multibody.links import Aim, Ball, Functional, Hinge, Link, Primitive, Slide
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, ZERO, Matrix, Steps, Vector

#: Angular velocity in axes of the link and velocity in those of the one before it.
Twist = tuple[Vector, Vector]


@dataclass(frozen=True)
class Placed:
    """Pose of a link relative to the one before it.

    rotation : to the axes of that; to those of the world for `Aim`. offset : of its origin from
    that of the one before it, in the axes of that. parts : rotations by functions, one by one.
    """

    rotation: Matrix = IDENTITY
    offset: Vector = ZERO
    parts: tuple[Matrix, ...] = ()


@dataclass(frozen=True)
class Relative:
    """The motion of a link relative to the one before it.

    rotation, offset : see `Placed`. ways : the motion for each speed of 1 alone. bias : rates of
    both velocities where those of the speeds are 0.
    """

    rotation: Matrix = IDENTITY
    offset: Vector = ZERO
    ways: tuple[Twist, ...] = ()
    bias: Twist = (ZERO, ZERO)

    def along(self, speeds: Sequence[sp.Expr]) -> Twist:
        """The motion with these speeds."""
        turning, moving = ZERO, ZERO
        for speed, (turned, moved) in zip(speeds, self.ways, strict=True):
            turning, moving = turning + speed * turned, moving + speed * moved
        return turning, moving

    @property
    def directions(self) -> list[tuple[Vector, Vector]]:
        """Angular velocity and velocity for each speed of 1 alone, both in the axes of the link;
        generalised forces are the components of a wrench along them."""
        return [(turned, self.rotation.T @ moved) for turned, moved in self.ways]


def placed(steps: Steps, link: Link) -> Placed:
    """Relative pose of a link, in terms of the symbols of `steps`."""
    if isinstance(link.primitive, Functional):
        return placed_by_functions(steps, link, link.primitive)
    shift = ZERO
    if isinstance(link.primitive, Slide):
        ways = ways_of(link.primitive)
        shift = sum((q * move for q, (_, move) in zip(link.q, ways, strict=True)), ZERO)
    return Placed(rotation_of(steps, link), link.at + shift)


def relative(steps: Steps, link: Link, at: Placed) -> Relative:
    """The motion of a link that is placed so."""
    if isinstance(link.primitive, Functional):
        return moved_by_functions(steps, link, link.primitive, at)
    return Relative(at.rotation, at.offset, ways_of(link.primitive))


def ways_of(primitive: Primitive) -> tuple[Twist, ...]:
    """The motion for each speed of 1 alone, where it is always the same."""
    match primitive:
        case Hinge(direction=direction):
            return ((direction, ZERO),)
        case Aim(sequence=axis) if len(axis) == 1:
            return ((unit(axis), ZERO),)
        case Ball() | Aim():
            return tuple((unit(axis), ZERO) for axis in AXES)
        case Slide(axes=axes):
            return tuple((ZERO, unit(axis)) for axis in axes)
        case _:
            return ()


def rotation_of(steps: Steps, link: Link) -> Matrix:
    """Rotation matrix from the axes of a link to those of the one before it; to those of the world
    for `Aim`."""
    if isinstance(link.primitive, Hinge):
        q = link.q[0]
        return steps.matrix(f"R.{link.name}", about(steps, link.primitive.direction, q.name, q))
    if isinstance(link.primitive, (Ball, Aim)):
        kind = "R" if isinstance(link.primitive, Ball) else "A"
        return bryant_matrix(steps, f"{kind}.{link.name}", link.primitive.sequence, link.q)
    return IDENTITY


def bryant_matrix(steps: Steps, name: str, sequence: str, angles: Sequence[sp.Expr]) -> Matrix:
    """The rotation by Bryant angles about axes of the moving body in turn."""
    result = IDENTITY
    for axis, q in zip(sequence, angles, strict=True):
        result @= about(steps, unit(axis), q.name, q)
    return steps.matrix(name, result)


def about(steps: Steps, direction: Vector, name: str, angle: sp.Expr) -> Matrix:
    """The rotation about a unit vector by an angle of that name."""
    return turn(direction, *sine_cosine(steps, name, angle))


def sine_cosine(steps: Steps, name: str, angle: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Sine and cosine of an angle, known by that name."""
    return _known(steps, f"sin.{name}", sp.sin(angle)), _known(steps, f"cos.{name}", sp.cos(angle))


def _known(steps: Steps, name: str, expression: sp.Expr) -> sp.Expr:
    """The symbol of that name if it is defined, else `expression` under it."""
    symbol = sp.Symbol(name)
    return symbol if symbol in steps.definitions else steps.scalar(name, expression)


# -- motions that are functions of coordinates ----------------------------------------------------


def placed_by_functions(steps: Steps, link: Link, motion: Functional) -> Placed:
    """Rotations by f(q) about axes in turn."""
    rotation, parts = IDENTITY, []
    for k, (axis, angle) in enumerate(motion.rotations):
        part = f"{link.name}.{k + 1}"
        parts.append(steps.matrix(f"step.{part}", about(steps, axis, part, angle)))
        rotation = steps.matrix(f"R.{part}", rotation @ parts[-1])
    return Placed(
        steps.matrix(f"R.{link.name}", rotation @ motion.attitude),
        steps.vector(f"offset.{link.name}", link.at + motion.shift),
        tuple(parts),
    )


def moved_by_functions(steps: Steps, link: Link, motion: Functional, at: Placed) -> Relative:
    """Relative motion of a joint of functions. A rotation adds f' q' along its axis to the angular
    velocity, and f'' q'^2 to its rate, besides what the axes before it turn by."""
    name, turns, w, bias = link.name, [ZERO for _ in link.q], ZERO, ZERO
    for k, ((axis, angle), step) in enumerate(zip(motion.rotations, at.parts, strict=True)):
        part = f"{name}.{k + 1}"
        slopes, curve = changes(steps, part, angle, link)
        carried = steps.vector(f"carried.{part}", step.T @ w)
        rate = sum((s * u for s, u in zip(slopes, link.u, strict=True)), sp.S.Zero)
        w = carried + rate * axis
        bias = step.T @ bias + curve * axis + carried.cross(rate * axis)
        bias = steps.vector(f"bias.{part}", bias)
        turns = [step.T @ v + s * axis for v, s in zip(turns, slopes, strict=True)]
        turns = [steps.vector(f"turn.{part}.{i}", v) for i, v in enumerate(turns)]
    back = motion.attitude.T
    parts = [
        changes(steps, f"{name}.{axis}", e, link)
        for axis, e in zip(AXES, motion.shift, strict=True)
    ]
    moves = [Vector(slopes[i] for slopes, _ in parts) for i in range(len(link.q))]
    return Relative(
        at.rotation,
        at.offset,
        tuple((back @ turned, moved) for turned, moved in zip(turns, moves, strict=True)),
        (back @ bias, Vector(curve for _, curve in parts)),
    )


def changes(
    steps: Steps, name: str, function: sp.Expr, link: Link
) -> tuple[list[sp.Expr], sp.Expr]:
    """Slopes of a function for each coordinate, and its second derivative in time for constant
    speeds."""
    slopes = [function.diff(q) for q in link.q]
    curve = sum(
        (
            slope.diff(q) * u * v
            for slope, u in zip(slopes, link.u, strict=True)
            if not slope.is_number
            for q, v in zip(link.q, link.u, strict=True)
        ),
        sp.S.Zero,
    )
    slopes = [steps.scalar(f"slope.{name}.{i}", slope) for i, slope in enumerate(slopes)]
    return slopes, steps.scalar(f"curve.{name}", curve)
