"""Springs, dampers and rotors of MuJoCo's joints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from kinesym.models.files.description import Frame, Passive
from kinesym.models.files.mjcf_bodies import SEVERAL, Joint, Node, Skeleton, on
from kinesym.models.files.mjcf_geoms import Solid, carried, numbers_of
from kinesym.models.files.xml import attribute, listed_numbers


def passive_of(skeleton: Skeleton, solids: Mapping[str, Solid]) -> Iterator[Passive]:
    """Those of all joints. solids : mass and inertia of the bodies by name, in their axes."""
    for node in skeleton.bodies:
        for joint in node.joints:
            if joint.element.tag == "freejoint":
                continue
            found = several(joint) if joint.kind in SEVERAL else one(joint, node, skeleton, solids)
            yield from (switched(row, skeleton) for row in found)


def one(
    joint: Joint, node: Node, skeleton: Skeleton, solids: Mapping[str, Solid]
) -> Iterator[Passive]:
    """Those of a hinge or slide. `springdamper`, time constant and damping ratio, stands for the
    stiffness and the damping that give it these while all other joints are held at their
    reference."""
    e = joint.element
    stiffness, damping = tuple(numbers_of(e, "stiffness")), tuple(numbers_of(e, "damping"))
    rest, armature = skeleton.value(joint, "springref"), attribute(e, "armature", 0.0)
    time, ratio = listed_numbers(e, "springdamper", 2, (0.0, 0.0))
    if time > 0.0 and ratio > 0.0:
        inertia = armature + inertia_along(joint, node, skeleton, solids)
        stiffness = (inertia / (time * ratio) ** 2,)
        damping = (2.0 * inertia / time,)
    if any((*stiffness, *damping, armature)):
        yield Passive((joint.name,), stiffness, rest, damping, armature)


def several(joint: Joint) -> Iterator[Passive]:
    """Those of a ball or free joint; its stiffness is left out."""
    e, names = joint.element, joint.coordinates
    damping, armature = tuple(numbers_of(e, "damping")[:1]), attribute(e, "armature", 0.0)
    if any((*damping, armature)):
        for some in (*((name,) for name in names[:-3]), names[-3:]):
            yield Passive(some, damping=damping, armature=armature)


def switched(row: Passive, skeleton: Skeleton) -> Passive:
    """What the flags of the model leave of it."""
    off = skeleton.settings.is_off
    row = replace(row, stiffness=()) if off("spring", "passive") else row
    return replace(row, damping=()) if off("damper", "passive") else row


def inertia_along(
    joint: Joint, node: Node, skeleton: Skeleton, solids: Mapping[str, Solid]
) -> float:
    """What a hinge or slide moves alone, while all joints are at their reference."""
    places = skeleton.references
    begin = on(places[node.body], Frame(None, joint.at)).at
    axis = np.array(places[node.body].turn) @ joint.axis
    moved, total = {node.body}, 0.0
    for other in skeleton.bodies:
        if other.start.body not in moved and other is not node:
            continue
        moved.add(other.body)
        solid, here = solids[other.name], places[other.body]
        if joint.kind == "slide":
            total += solid.mass
            continue
        turn = np.array(here.turn)
        arm = np.array(here.at) + turn @ solid.com - begin
        inertia = turn @ solid.inertia @ turn.T + carried(solid.mass, arm)
        total += float(axis @ inertia @ axis)
    return total
