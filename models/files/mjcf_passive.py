"""Springs, dampers and rotors of MuJoCo's joints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinesym.models.files.description import Frame, Passive
from kinesym.models.files.mjcf_bodies import SEVERAL, Joint, Skeleton, on
from kinesym.models.files.mjcf_geoms import Solid, numbers_of
from kinesym.models.files.xml import attribute, listed_numbers, named

Array = NDArray[np.float64]


def passive_of(skeleton: Skeleton, solids: Mapping[str, Solid]) -> Iterator[Passive]:
    """Passive forces of all joints. solids : mass and inertia of the bodies by name, in their
    axes."""
    for joint in skeleton.joints.values():
        if joint.element.tag == "joint":
            found = several(joint) if joint.kind in SEVERAL else one(joint, skeleton, solids)
            yield from (switched(row, skeleton) for row in found)


def one(joint: Joint, skeleton: Skeleton, solids: Mapping[str, Solid]) -> Iterator[Passive]:
    """Passive forces of a hinge or slide. `springdamper`, time constant and damping ratio, stands
    for the stiffness and the damping that give it these, at the reference and while other joints
    give way."""
    e = joint.element
    stiffness, damping = numbers_of(e, "stiffness"), numbers_of(e, "damping")
    rest, armature = skeleton.value(joint, "springref"), attribute(e, "armature", 0.0)
    time, ratio = listed_numbers(e, "springdamper", 2, (0.0, 0.0))
    if time > 0.0 and ratio > 0.0:
        inertia = felt_inertia(joint, skeleton, solids)
        stiffness[:1] = [inertia / (time * ratio) ** 2]
        damping[:1] = [2.0 * inertia / time]
    if any((*stiffness, *damping, armature)):
        yield Passive((joint.name,), tuple(stiffness), rest, tuple(damping), armature)


def several(joint: Joint) -> Iterator[Passive]:
    """Passive forces of a ball or free joint; its stiffness is left out."""
    e, names = joint.element, joint.coordinates
    damping, armature = tuple(numbers_of(e, "damping")[:1]), attribute(e, "armature", 0.0)
    if any((*damping, armature)):
        for some in (*((name,) for name in names[:-3]), names[-3:]):
            yield Passive(some, damping=damping, armature=armature)


def switched(row: Passive, skeleton: Skeleton) -> Passive:
    """Passive forces that the flags of the model leave switched on."""
    off = skeleton.settings.is_off
    row = replace(row, stiffness=()) if off("spring", "passive") else row
    return replace(row, damping=()) if off("damper", "passive") else row


# -- inertia that a joint feels -------------------------------------------------------------------


def felt_inertia(joint: Joint, skeleton: Skeleton, solids: Mapping[str, Solid]) -> float:
    """Effective inertia of a hinge or slide, at the reference and while other joints give way."""
    names, motions = list[str](), list[tuple[Array, Array]]()
    for node in skeleton.bodies:
        for own in node.joints:
            found = unit_motions(own, skeleton.references[node.body])
            names, motions = names + [own.name] * len(found), motions + found
    rotors = [attribute(skeleton.joints[name].element, "armature", 0.0) for name in names]
    mass, (turning, shift) = np.diag(rotors), np.transpose(motions, (1, 0, 2))
    inner: dict[str | None, set[str]] = {None: set()}
    for node in skeleton.bodies:
        inner[node.body] = inner[node.start.body] | {own.name for own in node.joints}
        moves = np.array([[name in inner[node.body]] for name in names], dtype=float)
        solid, here = solids[node.name], skeleton.references[node.body]
        turn = np.array(here.turn)
        w = moves * turning
        v = moves * (shift + np.cross(turning, here.at + turn @ solid.com))
        mass = mass + solid.mass * v @ v.T + w @ turn @ solid.inertia @ turn.T @ w.T
    k = names.index(joint.name)
    try:
        return 1.0 / float(np.linalg.inv(mass)[k, k])
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"{named(joint.element)}: springdamper needs the inertia that the joint moves, "
            "and some joints move no mass; give stiffness and damping"
        ) from error


def unit_motions(joint: Joint, body: Frame) -> list[tuple[Array, Array]]:
    """Angular velocity, and velocity of the point of the body that is in the origin of the world,
    for each of its speeds. body : in the world."""
    turn, none = np.array(body.turn), np.zeros(3)
    about = np.array(on(body, Frame(None, joint.at)).at)
    axes = [turn @ joint.axis] if joint.kind in ("hinge", "slide") else [*turn.T]
    slides = [(none, axis) for axis in axes] if joint.kind in ("slide", "free") else []
    return slides + [(axis, np.cross(about, axis)) for axis in axes if joint.kind != "slide"]
