"""Models in the Unified Robot Description Format, `.urdf`, as tables and as trees.

The format: https://wiki.ros.org/urdf/XML.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from kinesym.checks import check_choice, naming
from kinesym.models.files.description import (
    BodyRow,
    CoordinateRow,
    Coupler,
    Description,
    Frame,
    JointRow,
    Linear,
    Motion,
    Triple,
)
from kinesym.models.files.frames import free_joint, rotation, rows, six
from kinesym.models.files.trees import FileTree, tree_of
from kinesym.models.files.xml import attribute, attributes, named, root_of

#: How the root of a model is held.
BASES = ("fixed", "free")


def read(path: str | Path, base: str = "fixed", locked: Iterable[str] | None = None) -> FileTree:
    """A URDF file as a tree of bodies, with gravity -9.81 m/s^2 along z.

    Coordinates have the names of the joints, those of planar and floating ones with `_tx`, `_ty`,
    `_tz` [m], `_rx`, `_ry`, `_rz` [rad] behind; speeds are their rates, `elbow_speed`, generalised
    forces `elbow_moment` [N m] or `rail_force` [N]. Joints that mimic others are replaced by
    functions of these. Places of bodies are from the origin of the link, in its axes.

    base : "fixed": the root link is welded to the world. "free": it moves freely.
    locked : names of coordinates that stay at 0.

    Raises `FileNotFoundError`, and `ValueError` that names the element for what is no model or is
    not understood.
    """
    check_choice(base, BASES, "the base")
    description = parse(path, base)
    with naming(path):
        return tree_of(description, locked)


def parse(path: str | Path, base: str = "fixed") -> Description:
    """The tables of a URDF file; raises as `read`."""
    with naming(path):
        robot = root_of(path)
        if robot.tag != "robot":
            raise ValueError(f"it is no URDF: its root is {robot.tag}, not robot")
        joints = [joint_row(e) for e in robot.findall("joint")]
        bodies = tuple(body_row(e) for e in robot.findall("link"))
        children = {joint.child.body for joint in joints}
        roots = [row.name for row in bodies if row.name not in children]
        if len(roots) != 1:
            raise ValueError(f"a robot has one root link, this one {', '.join(roots) or 'none'}")
        first = JointRow("root", Frame(None), Frame(roots[0]))
        if base == "free":
            first = free_joint("root", Frame(None), Frame(roots[0]))
        couplers = tuple(c for e in robot.findall("joint") for c in couplers_of(e))
        name, gravity = robot.get("name") or "robot", (0.0, 0.0, -9.81)
        return Description(name, gravity, bodies, (first, *joints), couplers, element=robot)


def origin(e: Element) -> tuple[Triple, NDArray[np.float64]]:
    """Place and rotation; angles are about fixed axes x, y, z in turn."""
    found = e.find("origin")
    if found is None:
        return (0.0, 0.0, 0.0), np.eye(3)
    roll, pitch, yaw = attributes(found, "rpy", (0.0, 0.0, 0.0))
    turn = rotation((0, 0, yaw)) @ rotation((0, pitch, 0)) @ rotation((roll, 0, 0))
    return attributes(found, "xyz", (0.0, 0.0, 0.0)), turn


def body_row(link: Element) -> BodyRow:
    """A link."""
    name, e = link.get("name", ""), link.find("inertial")
    if e is None:
        return BodyRow(name, 0.0, (0.0, 0.0, 0.0), (0.0,) * 6)
    (at, turn), mass, inertia = origin(e), e.find("mass"), e.find("inertia")
    if mass is None or inertia is None:
        raise ValueError(f"{named(link)}: its inertial has no mass or no inertia")
    xx, yy, zz, xy, xz, yz = (
        attribute(inertia, f"i{k}", 0.0) for k in ("xx", "yy", "zz", "xy", "xz", "yz")
    )
    given = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return BodyRow(name, attribute(mass, "value"), at, six(turn @ given @ turn.T))


def joint_row(e: Element) -> JointRow:
    """A joint."""
    name, kind = e.get("name", ""), e.get("type", "")
    links = [
        found.get("link", "") for tag in ("parent", "child") if (found := e.find(tag)) is not None
    ]
    if len(links) != 2:
        raise ValueError(f"{named(e)} has no parent or no child")
    at, turn = origin(e)
    parent, child = Frame(links[0], at, rows(turn)), Frame(links[1])
    axis = e.find("axis")
    direction = (1.0, 0.0, 0.0) if axis is None else attributes(axis, "xyz", (1.0, 0.0, 0.0))
    motion = (Motion(direction, Linear((1.0, 0.0)), (name,)),)
    if kind == "fixed":
        return JointRow(name, parent, child)
    if kind == "floating":
        return free_joint(name, parent, child)
    if kind in ("revolute", "continuous"):
        return JointRow(name, parent, child, (coordinate_row(e, kind),), rotations=motion)
    if kind == "prismatic":
        return JointRow(name, parent, child, (coordinate_row(e, kind),), translations=motion)
    raise ValueError(f"{named(e)}: joints of the type {kind!r} are not known")


def coordinate_row(e: Element, kind: str) -> CoordinateRow:
    """The coordinate of a joint that has one."""
    limit, name = e.find("limit"), e.get("name", "")
    if limit is None or kind == "continuous":
        return CoordinateRow(name)
    ends = (attribute(limit, "lower", 0.0), attribute(limit, "upper", 0.0))
    return CoordinateRow(name, range=ends, clamped=True)


def couplers_of(e: Element) -> Iterable[Coupler]:
    """That of a joint that mimics another one."""
    mimic, name = e.find("mimic"), e.get("name", "")
    if mimic is not None:
        slope = (attribute(mimic, "multiplier", 1.0), attribute(mimic, "offset", 0.0))
        yield Coupler(name, name, Linear(slope), (mimic.get("joint", ""),))
