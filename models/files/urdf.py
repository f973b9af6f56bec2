"""Models in the Unified Robot Description Format, `.urdf`, as tables and as trees.

The format: https://wiki.ros.org/urdf/XML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import check_choice, naming
from kinesym.models.files.description import (
    BodyRow,
    CoordinateRow,
    Coupler,
    Description,
    Frame,
    JointRow,
    Linear,
    Motion,
    Passive,
    Triple,
)
from kinesym.models.files.frames import (
    DIRECTIONS,
    along,
    components,
    free_joint,
    rotation,
    rotations,
    rows,
    six,
)
from kinesym.models.files.trees import FileTree, tree_of
from kinesym.models.files.xml import attribute, attributes, named, root_of

#: Kinds of bases of a model.
BASES = ("fixed", "free")
#: Elements by those that they are in, that are read or only looked at: shapes move nothing.
KNOWN = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual", "collision"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic"},
}


def read(path: str | Path, base: str = "fixed", locked: Iterable[str] | None = None) -> FileTree:
    """A URDF file as a tree of bodies, with gravity -9.81 m/s^2 along z.

    Coordinates have the names of the joints, those of floating ones with `_tx`, `_ty`, `_tz` [m],
    `_rx`, `_ry`, `_rz` [rad] behind, of planar ones `_tx`, `_ty` along their plane and `_rz` about
    the axis, its normal: x and y of the joint, turned with z the shortest way to the axis. Speeds
    are their rates, `elbow_speed`, generalised forces `elbow_moment` [N m] or `rail_force` [N].
    Joints that mimic others are replaced by functions of these. Places of bodies are from the
    origin of the link, in its axes. `damping` of a joint is a force -damping q' in the equations,
    `tree.passive`: what drives the joint, also by `ks.inverse_dynamics`, is besides it.

    base : "fixed": the root link is welded to the world. "free": it moves freely.
    locked : names of coordinates that stay at 0.

    Warns, once for a file, of Coulomb friction, which is left out, and of all elements that are not
    known; shapes, materials and limits of force and speed are passed over. Moments of inertia that
    no body has, and those of links without mass, are taken as they are, as by Pinocchio and
    Bullet, with a warning. Raises `FileNotFoundError`, and `ValueError` that names the element for
    what is no model or is not understood.
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
        return Description(
            robot.get("name") or "robot",
            (0.0, 0.0, -9.81),
            bodies,
            (first, *joints),
            couplers,
            left_out=tuple(left_out_of(robot)),
            element=robot,
            passive=tuple(dampers_of(robot)),
        )


def dampers_of(robot: Element) -> Iterator[Passive]:
    """Dampers of joints with one coordinate."""
    for e in robot.findall("joint"):
        if e.get("type") in ("revolute", "continuous", "prismatic") and dynamics(e, "damping"):
            yield Passive((e.get("name", ""),), damping=(dynamics(e, "damping"),))


def left_out_of(robot: Element) -> Iterator[str]:
    """Elements of a file that are in no table, by kinds and how often."""
    moving = [e for e in robot.findall("joint") if e.get("type") != "fixed"]
    for what in ("friction", "damping"):
        found = [e for e in moving if dynamics(e, what)]
        if what == "damping":
            found = [e for e in found if e.get("type") in ("planar", "floating")]
        if found:
            names = ", ".join(e.get("name", "") for e in found[:3])
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            yield f"{what} of the joint{'s' * (len(found) > 1)} {names}{more}"
    owners = [("robot", [robot]), ("link", robot.findall("link")), ("joint", [*moving])]
    for owner, elements in owners:
        others = Counter(e.tag for one in elements for e in one if e.tag not in KNOWN[owner])
        for tag, count in others.items():
            yield tag if count == 1 else f"{tag} ({count} times)"


def dynamics(joint: Element, name: str) -> float:
    """Damping or friction of a joint; 0 where it says none."""
    found = joint.find("dynamics")
    value = 0.0 if found is None else attribute(found, name, 0.0)
    if value < 0.0:
        raise ValueError(f"{named(joint)}: its {name}, {value:g}, must not be negative")
    return value


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
    if kind == "fixed":
        return JointRow(name, parent, child)
    if kind == "floating":
        return free_joint(name, parent, child)
    size = float(np.linalg.norm(direction))
    if size == 0.0:
        raise ValueError(f"{named(e)}: its axis is zero")
    unit = np.divide(direction, size)
    if kind == "planar":
        return planar_joint(name, parent, child, unit)
    motion = (Motion(components(unit), Linear((1.0, 0.0)), (name,)),)
    if kind in ("revolute", "continuous"):
        return JointRow(name, parent, child, (coordinate_row(e, kind),), rotations=motion)
    if kind == "prismatic":
        return JointRow(name, parent, child, (coordinate_row(e, kind),), translations=motion)
    raise ValueError(f"{named(e)}: joints of the type {kind!r} are not known")


def planar_joint(name: str, parent: Frame, child: Frame, normal: NDArray[np.float64]) -> JointRow:
    """Motion in the plane across a normal (3,): along x and y of the joint, turned with z to the
    normal, then about that."""
    z = np.array(DIRECTIONS["z"])
    across, angle = np.cross(z, normal), float(np.arccos(np.clip(normal @ z, -1.0, 1.0)))
    axis = across if np.any(np.abs(across) > 1e-12) else np.array(DIRECTIONS["x"])
    turn = rotations(axis, [angle])[0]
    kinds = ("tx", "ty", "rz")
    motions = [along(DIRECTIONS[kind[1]], f"{name}_{kind}") for kind in kinds]
    return JointRow(
        name,
        Frame(parent.body, parent.at, rows(np.array(parent.turn) @ turn)),
        Frame(child.body, child.at, rows(turn)),
        tuple(CoordinateRow(f"{name}_{kind}") for kind in kinds),
        (motions[2],),
        (motions[0], motions[1]),
    )


def coordinate_row(e: Element, kind: str) -> CoordinateRow:
    """The coordinate of a joint that has one."""
    limit, name = e.find("limit"), e.get("name", "")
    if limit is None or kind == "continuous":
        return CoordinateRow(name)
    ends = (attribute(limit, "lower", 0.0), attribute(limit, "upper", 0.0))
    return CoordinateRow(name, range=ends)


def couplers_of(e: Element) -> Iterable[Coupler]:
    """Coupler of a joint that mimics another one."""
    mimic, name = e.find("mimic"), e.get("name", "")
    if mimic is not None:
        slope = (attribute(mimic, "multiplier", 1.0), attribute(mimic, "offset", 0.0))
        yield Coupler(name, name, Linear(slope), (mimic.get("joint", ""),))
