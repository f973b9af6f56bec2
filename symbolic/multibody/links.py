"""Links of joints: one primitive motion each, massless ones where a joint has more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import (
    Custom,
    Fixed,
    Free,
    Oriented,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
    unit,
)
from kinesym.symbolic.multibody.vectors import AXES, ZERO, Matrix, Vector, vector
from kinesym.symbolic.names import name_of, t


@dataclass(frozen=True)
class Hinge:
    """Rotation by q about a direction, u = q'."""

    direction: Vector


@dataclass(frozen=True)
class Ball:
    """Rotation by Bryant angles q; u: relative angular velocity in outer axes."""

    sequence: str


@dataclass(frozen=True)
class Aim:
    """Rotation by Bryant angles q from world axes; u: angular velocity in outer axes. By one angle
    about one axis: u = q'."""

    sequence: str


@dataclass(frozen=True)
class Slide:
    """Translation by q along some of the inner axes, u = q'."""

    axes: str = AXES


@dataclass(frozen=True)
class Weld:
    """No motion."""


@dataclass(frozen=True)
class Functional:
    """A translation in inner axes, then rotations about directions one after the other, which are
    functions of q, then a constant rotation; u = q'."""

    rotations: tuple[tuple[Vector, sp.Expr], ...]
    shift: Vector
    attitude: Matrix


Primitive = Hinge | Ball | Aim | Slide | Weld | Functional


@dataclass(frozen=True)
class Link:
    """One primitive motion relative to the parent link, and the body that moves with it, if any.

    parent : number of the link before it, -1 for the base. at : its origin in the axes of that.
    q, u : coordinates and speeds, functions of time. inputs : names of what drives the speeds.
    """

    name: str
    parent: int
    at: Vector
    primitive: Primitive
    q: tuple[AppliedUndef, ...] = ()
    u: tuple[AppliedUndef, ...] = ()
    inputs: tuple[str, ...] = ()
    body: Body | None = None


def links_of(body: Body, parent: int, number: int) -> list[Link]:
    """The links of a body, which moves with the last one; the first gets this number."""
    name, joint, at = body.name, body.joint, vector(body.at)
    if isinstance(joint, Custom):
        return _custom(body, joint, parent, number)
    parts: list[tuple[Primitive, list[str], list[str]]]
    match joint:
        case Fixed():
            parts = [(Weld(), [], [])]
        case Revolute():
            axis = joint.axis if isinstance(joint.axis, str) else "angle"
            parts = [(Hinge(joint.direction), [axis], [f"w{axis}" if axis in AXES else "rate"])]
        case Universal():
            parts = [(Hinge(unit(axis)), [axis], [f"w{axis}"]) for axis in joint.axes]
        case Spherical():
            parts = [_ball(joint.sequence)]
        case Oriented():
            axes = joint.sequence if len(joint.sequence) == 1 else AXES
            parts = [(Aim(joint.sequence), list(joint.sequence), [f"w{axis}" for axis in axes])]
        case Prismatic():
            parts = [_slide(joint.axes)]
        case Planar():
            (axis,) = set(AXES) - set(joint.plane)
            parts = [_slide(joint.plane), (Hinge(unit(axis)), [axis], [f"w{axis}"])]
        case Free():
            parts = [_slide(AXES), _ball(joint.sequence)]
    links = []
    for k, (primitive, coordinates, speeds) in enumerate(parts):
        last = k == len(parts) - 1
        links.append(
            Link(
                name if last else f"{name}.{k + 1}",
                number + k - 1 if k else parent,
                ZERO if k else at,
                primitive,
                tuple(_function(f"{name}_{c}") for c in coordinates),
                tuple(_function(f"{name}_{s}") for s in speeds),
                tuple(actuator_name(f"{name}_{s}") for s in speeds),
                body if last else None,
            )
        )
    return links


def _custom(body: Body, joint: Custom, parent: int, number: int) -> list[Link]:
    """A link that moves by functions, and one for the body if its origin is elsewhere."""
    q = tuple(joint.coordinates)
    speeds = tuple(joint.speeds) or tuple(_function(f"{name_of(c)}_speed") for c in q)
    turning = [c for c in q if any(angle.has(c) for _, angle in joint.turns)]
    inputs = tuple(f"{name_of(c)}_{'moment' if c in turning else 'force'}" for c in q)
    attitude = Matrix(map(vector, joint.attitude))
    motion = Functional(joint.turns, vector(joint.translation), attitude)
    center = vector(joint.center)
    if center == ZERO:
        return [Link(body.name, parent, vector(body.at), motion, q, speeds, inputs, body)]
    first = Link(f"{body.name}.1", parent, vector(body.at), motion, q, speeds, inputs)
    return [first, Link(body.name, number, -center, Weld(), body=body)]


def _ball(sequence: str) -> tuple[Primitive, list[str], list[str]]:
    return Ball(sequence), list(sequence), [f"w{axis}" for axis in AXES]


def _slide(axes: str) -> tuple[Primitive, list[str], list[str]]:
    return Slide(axes), [f"p{axis}" for axis in axes], [f"v{axis}" for axis in axes]


def _function(name: str) -> AppliedUndef:
    return sp.Function(name)(t)


def actuator_name(speed: str) -> str:
    """The name of the input that drives a speed: `_t...` for `_w...`, `_f...` for `_v...`."""
    body, _, kind = speed.rpartition("_")
    letters = {"w": "t", "v": "f"}
    return f"{body}_{letters[kind[0]]}{kind[1]}" if kind != "rate" else f"{body}_torque"


def turning(links: Iterable[Link]) -> set[str]:
    """Names of the coordinates that turn something [rad]; others are lengths [m]."""
    found = set[str]()
    for link in links:
        if isinstance(link.primitive, Functional):
            turns = [angle for _, angle in link.primitive.rotations]
            found |= {name_of(q) for q in link.q if any(angle.has(q) for angle in turns)}
        elif not isinstance(link.primitive, Slide):
            found |= set(map(name_of, link.q))
    return found
