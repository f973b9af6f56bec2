"""Bodies and joints of MuJoCo as elements, each with the place that frames around it give it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import shown
from kinesym.models.files.description import Frame, Triple
from kinesym.models.files.frames import (
    DIRECTIONS,
    STRAIGHT,
    components,
    rotation,
    rotations,
    rows,
)
from kinesym.models.files.mjcf_geoms import LONG, ends_of
from kinesym.models.files.mjcf_plain import ORIENTATIONS, Settings
from kinesym.models.files.xml import attribute, attributes, listed_numbers, named

Array = NDArray[np.float64]

#: Tags that bodies and frames may hold.
KNOWN = (
    *("body", "frame", "inertial", "joint", "freejoint", "geom", "site"),
    *("camera", "light", "plugin"),
)
#: Tags that make bodies in a way that is not understood.
MAKERS = ("replicate", "attach", "composite", "flexcomp")
#: Coordinates of joints that have several, by what is behind their names.
SEVERAL = {"ball": ("rx", "ry", "rz"), "free": ("tx", "ty", "tz", "rx", "ry", "rz")}
#: Coordinates that a body can have at most.
_FREEDOM = 6


@dataclass(frozen=True)
class Joint:
    """A joint: its element, name and type, a point of it and its axis in the axes of its body."""

    element: Element
    name: str
    kind: str
    at: Triple
    axis: Triple

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Their names."""
        found = tuple(f"{self.name}_{kind}" for kind in SEVERAL.get(self.kind, ()))
        return found or (self.name,)


@dataclass(frozen=True)
class Node:
    """A body of the file, or the world, whose `body` is None.

    start : where the body is in its parent while all joints are at their reference. parts : the
    elements in it but bodies, each with the frame that it is in, on the body.
    """

    element: Element
    body: str | None
    start: Frame
    parts: tuple[tuple[Element, Frame], ...]
    joints: tuple[Joint, ...]

    @property
    def name(self) -> str:
        """Name of the body."""
        return self.body or "world"

    def having(self, *tags: str) -> Iterator[tuple[Element, Frame]]:
        """The parts with one of these tags."""
        return ((e, frame) for e, frame in self.parts if e.tag in tags)


@dataclass(frozen=True)
class Skeleton:
    """The world and all bodies, each after its parent."""

    settings: Settings
    nodes: tuple[Node, ...]

    @property
    def bodies(self) -> tuple[Node, ...]:
        """Bodies without the world."""
        return tuple(node for node in self.nodes if node.body is not None)

    @cached_property
    def references(self) -> dict[str | None, Frame]:
        """Places of all bodies in the world, by name, while joints are at their reference."""
        found: dict[str | None, Frame] = {None: Frame(None)}
        for node in self.bodies:
            found[node.body] = on(found[node.start.body], node.start)
        return found

    @cached_property
    def joints(self) -> dict[str, Joint]:
        """Joints of all bodies by name."""
        found = [joint for node in self.nodes for joint in node.joints]
        names = Counter(name for joint in found for name in joint.coordinates)
        for name, times in names.items():
            if times > 1:
                raise ValueError(f"{times} joints have a coordinate {name}; rename one of them")
        return {joint.name: joint for joint in found}

    @cached_property
    def still(self) -> frozenset[str]:
        """Names of bodies that no joint moves."""
        found = set[str | None]({None})
        for node in self.bodies:
            if node.start.body in found and not node.joints:
                found.add(node.body)
        return frozenset(name for name in found if name)

    def placed(self, e: Element, frame: Frame) -> Frame:
        """Frame of a part of a body."""
        return on(frame, pose(e, self.settings))

    def value(self, joint: Joint, name: str) -> float:
        """A value of the coordinate of a hinge or slide [rad, m]; 0 by default."""
        return self.in_units(joint, [attribute(joint.element, name, 0.0)])[0]

    def in_units(self, joint: Joint, values: Iterable[float]) -> list[float]:
        """Values of its coordinate as radians or metres."""
        turns = self.settings.degrees and joint.kind != "slide"
        return [float(np.deg2rad(value)) if turns else value for value in values]


def skeleton_of(worlds: Iterable[Element], settings: Settings) -> Skeleton:
    """Skeleton: the bodies of a model, of all its worlds.

    Raises `ValueError` for elements of bodies that are not known or not understood.
    """
    worlds = tuple(worlds)
    names = Counter(e.get("name", "") for world in worlds for e in world.iter("body"))
    for name, times in names.items():
        if name and times > 1:
            raise ValueError(f"{times} bodies have the name {name}")
    taken = {*names}
    found, count = list[Node](), 0
    waiting = [(e, Frame(None)) for e in worlds[::-1]]
    while waiting:
        e, frame = waiting.pop()
        body = None
        if e.tag == "body":
            count += 1
            body = e.get("name") or unused(f"body_{count}", taken)
        parts = tuple(parts_of(e, Frame(body), settings))
        joints = tuple(joints_of(body, parts))
        check_freedom(body, joints, top=frame.body is None)
        start = on(frame, pose(e, settings))
        found.append(Node(e, body, start, parts, joints))
        waiting += [pair for pair in parts[::-1] if pair[0].tag == "body"]
    return Skeleton(settings, tuple(found))


def unused(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken; it is afterwards."""
    found, k = name, 1
    while found in taken:
        k += 1
        found = f"{name}_{k}"
    taken.add(found)
    return found


def parts_of(e: Element, frame: Frame, settings: Settings) -> Iterator[tuple[Element, Frame]]:
    """Parts of a body, in it or in frames."""
    for part in e:
        if part.tag == "frame":
            yield from parts_of(part, on(frame, pose(part, settings)), settings)
            continue
        where = f"{named(part)} of {named(e)}"
        if part.tag in MAKERS:
            raise ValueError(
                f"{where} is not understood; mujoco.mj_saveLastXML writes the bodies that it makes"
            )
        if part.tag not in KNOWN:
            raise ValueError(f"{where} is not known")
        yield part, frame


def joints_of(body: str | None, parts: Iterable[tuple[Element, Frame]]) -> Iterator[Joint]:
    """The joints of a body."""
    found = [(e, frame) for e, frame in parts if e.tag in ("joint", "freejoint")]
    if found and body is None:
        raise ValueError(f"{named(found[0][0])}: the world has no joints")
    for k, (e, frame) in enumerate(found, 1):
        kind = "free" if e.tag == "freejoint" else e.get("type", "hinge")
        name = e.get("name") or f"{body}_joint{k}"
        if kind not in ("hinge", "slide", *SEVERAL):
            raise ValueError(f"joint {name}: joints of the type {shown(kind)} are not known")
        at, axis = STRAIGHT, DIRECTIONS["z"]
        if kind != "free":
            at = on(frame, Frame(None, attributes(e, "pos", STRAIGHT))).at
        if kind in ("hinge", "slide"):
            given = np.array(attributes(e, "axis", DIRECTIONS["z"]))
            if not given.any():
                raise ValueError(f"joint {name}: its axis is 0")
            axis = components(np.array(frame.turn) @ given / np.linalg.norm(given))
        yield Joint(e, name, kind, at, axis)


def check_freedom(body: str | None, joints: Sequence[Joint], top: bool) -> None:
    """Raise `ValueError` for more joints than a body can have, as MuJoCo does. top : whether it is
    in the world."""
    for joint in joints:
        if joint.kind == "free" and not top:
            raise ValueError(f"joint {joint.name}: free joints are of bodies in the world only")
    count = sum(len(joint.coordinates) for joint in joints)
    if count > _FREEDOM:
        raise ValueError(f"body {body} has {count} coordinates, more than {_FREEDOM}")


# -- places ---------------------------------------------------------------------------------------


def on(outer: Frame, inner: Frame) -> Frame:
    """A frame that is given in another one."""
    turn = np.array(outer.turn)
    at = components(np.add(outer.at, turn @ inner.at))
    return Frame(outer.body, at, rows(turn @ np.array(inner.turn)))


def pose(e: Element, settings: Settings) -> Frame:
    """Place and orientation of an element in what it is in."""
    if e.get("fromto") and (e.tag != "geom" or e.get("type", "sphere") in LONG):
        begin, end = ends_of(e)
        return Frame(None, components((begin + end) / 2.0), rows(from_z(end - begin)))
    return Frame(None, attributes(e, "pos", STRAIGHT), rows(turn_of(e, settings)))


def turn_of(e: Element, settings: Settings) -> Array:
    """The orientation (3, 3) of an element, in any of the five ways to say it."""
    said = [name for name in ORIENTATIONS if e.get(name)]
    if len(said) > 1:
        raise ValueError(f"{named(e)} has an orientation by {said[0]} and one by {said[1]}")
    unit = np.deg2rad(1.0) if settings.degrees else 1.0
    match said:
        case ["quat"]:
            return by_quaternion(e, listed_numbers(e, "quat", 4))
        case ["axisangle"]:
            *axis, angle = listed_numbers(e, "axisangle", 4)
            return about(direction(e, np.array(axis)), unit * angle)
        case ["xyaxes"]:
            x, y = np.reshape(listed_numbers(e, "xyaxes", 6), (2, 3))
            x = direction(e, x)
            y = direction(e, y - (x @ y) * x)
            return np.transpose([x, y, np.cross(x, y)])
        case ["zaxis"]:
            return from_z(direction(e, np.array(listed_numbers(e, "zaxis", 3))))
        case ["euler"]:
            return by_angles(settings.sequence, unit * np.array(listed_numbers(e, "euler", 3)))
    return np.eye(3)


def direction(e: Element, v: Array) -> Array:
    """A vector with the length 1."""
    length = float(np.linalg.norm(v))
    if length < 1e-14:
        raise ValueError(f"{named(e)}: its axes have no direction")
    return v / length


def about(axis: ArrayLike, angle: float) -> Array:
    """The rotation (3, 3) about an axis by an angle [rad]."""
    return np.asarray(rotations(axis, [angle])[0])


def by_quaternion(e: Element, quaternion: Sequence[float]) -> Array:
    """The rotation (3, 3) by a quaternion of any length, its real part first."""
    w, *v = quaternion
    if not any(quaternion):
        raise ValueError(f"{named(e)}: its quaternion is 0")
    return about(v, 2.0 * np.arctan2(np.linalg.norm(v), w)) if any(v) else np.eye(3)


def from_z(v: Array) -> Array:
    """The smallest rotation (3, 3) that takes z to the direction of a vector."""
    x, y, z = v
    across = float(np.hypot(x, y))
    return about((-y, x, 0.0) if across else (1.0, 0.0, 0.0), float(np.arctan2(across, z)))


def by_angles(sequence: str, angles: Iterable[float]) -> Array:
    """Rotations in turn, about axes that turn along for small letters and that stand still for
    capitals."""
    result = np.eye(3)
    for letter, angle in zip(sequence, angles, strict=True):
        step = rotation([angle if letter.lower() == axis else 0.0 for axis in "xyz"])
        result = result @ step if letter.islower() else step @ result
    return result
