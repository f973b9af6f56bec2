"""Both passes over the links of a tree of bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from kinesym.symbolic.multibody.base import FixedBase, PrescribedBase
from kinesym.symbolic.multibody.bodies import Body, Load, inertia_matrix, mass_of
from kinesym.symbolic.multibody.links import Link
from kinesym.symbolic.multibody.passes import Frame, Wrench, inwards, needed_wrench, outwards
from kinesym.symbolic.multibody.vectors import (
    Steps,
    Vector,
    add,
    cross,
    scale,
    times,
    transposed,
    vector,
)


@dataclass(frozen=True)
class Recursion:
    """Motion and forces of all links (see `inwards`), in terms of the symbols of `steps`."""

    steps: Steps
    base: Frame
    frames: tuple[Frame, ...]
    wrenches: tuple[Wrench, ...]
    kane: tuple[Wrench, ...]


def recursion(
    base: FixedBase | PrescribedBase,
    gravity: Vector,
    links: Sequence[Link],
    bodies: Mapping[str, Body],
    loads: Sequence[Load],
) -> Recursion:
    """Outwards for motion, inwards for forces, of links with the speeds that they have."""
    steps = Steps()
    start = base.frame(steps, gravity)
    frames: list[Frame] = []
    for link in links:
        frames.append(outwards(steps, start if link.parent < 0 else frames[link.parent], link))
    own = {}
    for k, (link, frame) in enumerate(zip(links, frames, strict=True)):
        if link.body is not None:
            body = bodies[link.body]
            com, mass = vector(body.com), mass_of(body)
            needed = needed_wrench(steps, frame, link.name, mass, com, inertia_matrix(body))
            applied = [load_wrench(frame, load) for load in loads if load.body == body.name]
            own[k] = subtract(needed, applied)
    wrenches, kane = inwards(steps, links, frames, own)
    return Recursion(steps, start, tuple(frames), tuple(wrenches), tuple(kane))


def load_wrench(frame: Frame, load: Load) -> Wrench:
    """Force and moment about the joint, in the axes of the body."""
    force, torque = vector(load.force), vector(load.torque)
    if load.axes == "world":
        back = transposed(frame.attitude)
        force, torque = times(back, force), times(back, torque)
    return force, add(torque, cross(vector(load.at), force))


def subtract(needed: Wrench, applied: Iterable[Wrench]) -> Wrench:
    """What is left to the joint."""
    force, moment = needed
    for f, n in applied:
        force = add(force, scale(sp.S.NegativeOne, f))
        moment = add(moment, scale(sp.S.NegativeOne, n))
    return force, moment
