"""Joints of models of OpenSim: elements as tables."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

import numpy as np

from kinesym.models.files.description import (
    Constant,
    CoordinateRow,
    Frame,
    JointRow,
    Linear,
    Motion,
    OnArc,
    OnEllipsoid,
    Triple,
)
from kinesym.models.files.frames import DIRECTIONS, along, components, offset, place
from kinesym.models.files.osim_functions import function_of_axis, scaled
from kinesym.models.files.xml import flag, named, number, numbers, text, triple, words

#: Axes of rotations about axes of the moving body in turn, and of translations, by the kind of
#: joint; its coordinates are in this order.
AXES_OF = {
    "WeldJoint": ("", ""),
    "PinJoint": ("z", ""),
    "SliderJoint": ("", "x"),
    "UniversalJoint": ("xy", ""),
    "BallJoint": ("xyz", ""),
    "GimbalJoint": ("xyz", ""),
    "FreeJoint": ("xyz", "xyz"),
    "PlanarJoint": ("z", "xy"),
}
#: Numbers of coordinates of others.
COUNTS = {"EllipsoidJoint": 3, "ScapulothoracicJoint": 4, "ConstantCurvatureJoint": 3}


def coordinate_row(e: Element) -> CoordinateRow:
    """A coordinate; a range without ends is none."""
    endless = "inf" in text(e, "range").lower()
    limits = numbers(e, "range") if text(e, "range") and not endless else None
    return CoordinateRow(
        e.get("name", ""),
        number(e, "default_value", number(e, "initial_value", 0.0)),
        None if limits is None else (limits[0], limits[-1]),
        flag(e, "locked", False),
    )


def unlisted(joint: Element) -> list[Element]:
    """The coordinates of a joint that lists none, as OpenSim names them."""
    if joint.tag == "CustomJoint":
        axes = joint.find("SpatialTransform")
        every = [words(axis, "coordinates") for axis in ([] if axes is None else axes)]
        names = dict.fromkeys(name for row in every for name in row)
    else:
        count = COUNTS.get(joint.tag, len("".join(AXES_OF.get(joint.tag, ()))))
        names = dict.fromkeys(f"{joint.get('name')}_coord_{k}" for k in range(count))
    return [Element("Coordinate", name=name) for name in names]


def joint_rows(joint: Element, parent: Frame, child: Frame, rows: list[Element]) -> list[JointRow]:
    """A joint between these frames; two, with a body between that has no mass, for a scapula."""
    rows = rows or unlisted(joint)
    if joint.tag == "ScapulothoracicJoint":
        return scapulothoracic(joint, parent, child, rows)
    return [joint_row(joint, parent, child, rows)]


def joint_row(joint: Element, parent: Frame, child: Frame, rows: list[Element]) -> JointRow:
    """One joint between these frames."""
    name = joint.get("name", "")
    coordinates = tuple(coordinate_row(e) for e in rows)
    if joint.tag == "CustomJoint":
        found = joint.find("SpatialTransform")
        axes = [] if found is None else list(found)
        if len(axes) != 6:
            raise ValueError(f"{named(joint)} has {len(axes)} axes in its SpatialTransform, not 6")
        motions = [transform(axis, f"{named(joint)}: {axis.get('name')}") for axis in axes]
        return JointRow(name, parent, child, coordinates, *map(moving, (motions[:3], motions[3:])))
    if joint.tag == "EllipsoidJoint":
        check_count(joint, rows, 3)
        radii = triple(joint, "radii_x_y_z", None)
        return on_ellipsoid(name, parent, child, coordinates, radii)
    if joint.tag == "ConstantCurvatureJoint":
        check_count(joint, rows, 3)
        return constant_curvature(joint, parent, child, coordinates)
    if joint.tag not in AXES_OF:
        raise ValueError(f"joints of the kind {joint.tag} ({name}) are not known")
    turns, slides = AXES_OF[joint.tag]
    check_count(joint, rows, len(turns + slides))
    motions = [
        along(DIRECTIONS[axis], row.name)
        for axis, row in zip(turns + slides, coordinates, strict=True)
    ]
    split = len(turns)
    return JointRow(
        name, parent, child, coordinates, tuple(motions[:split]), tuple(motions[split:])
    )


def check_count(joint: Element, rows: list[Element], count: int) -> None:
    """Raise `ValueError` for another number of coordinates."""
    if len(rows) != count:
        raise ValueError(f"{named(joint)} has {len(rows)} coordinates in place of {count}")


def on_ellipsoid(
    name: str, parent: Frame, child: Frame, coordinates: tuple[CoordinateRow, ...], radii: Triple
) -> JointRow:
    """Three rotations about axes that turn along, of a frame whose origin moves on an ellipsoid
    with these radii [m] (A. Seth et al. (2010), Minimal formulation of joint motion for
    biomechanisms, Nonlinear Dyn 62, 291-303)."""
    if min(radii) <= 0.0:
        raise ValueError(f"joint {name}: radii must be positive, got {radii}")
    names = [row.name for row in coordinates]
    turns = (along(DIRECTIONS[axis], one) for axis, one in zip("xyz", names, strict=True))
    moves = (
        Motion(DIRECTIONS[axis], OnEllipsoid(k, radius), (names[0], names[1]))
        for k, (axis, radius) in enumerate(zip("xyz", radii, strict=True))
    )
    return JointRow(name, parent, child, coordinates, tuple(turns), tuple(moves))


def scapulothoracic(
    joint: Element, parent: Frame, child: Frame, rows: list[Element]
) -> list[JointRow]:
    """A scapula that glides on the thorax, an ellipsoid, by abduction, elevation and upward
    rotation, and wings about an axis in its own plane (A. Seth et al. (2016), A biomechanical model
    of the scapulothoracic joint to accurately capture scapular kinematics during shoulder
    movements, PLoS ONE 11(1):e0141028). Axes of abduction and elevation are a quarter turn about z
    from those of the frames."""
    name, upright = joint.get("name", ""), (0.0, 0.0, np.pi / 2.0)
    check_count(joint, rows, 4)
    coordinates = tuple(map(coordinate_row, rows))
    x, y, z = triple(joint, "thoracic_ellipsoid_radii_x_y_z", None)
    between = f"{name}_between"
    glide = on_ellipsoid(
        name,
        place(parent, (0.0, 0.0, 0.0), upright),
        offset(between, (0.0, 0.0, 0.0), upright),
        coordinates[:3],
        (y, x, z),
    )
    angle = number(joint, "scapula_winging_axis_direction", 0.0)
    origin = numbers(joint, "scapula_winging_axis_origin", (0.0, 0.0))
    if len(origin) != 2:
        raise ValueError(f"{named(joint)}: the origin of the winging axis is two numbers")
    at, axis = (origin[0], origin[1], 0.0), (-float(np.sin(angle)), float(np.cos(angle)), 0.0)
    wing = JointRow(
        f"{name}_winging",
        offset(between, at, (0.0, 0.0, 0.0)),
        place(child, at),
        coordinates[3:],
        (along(axis, coordinates[3].name),),
    )
    return [glide, wing]


def moving(motions: Iterable[Motion]) -> tuple[Motion, ...]:
    """Motions without those that are always zero."""
    return tuple(m for m in motions if m.function != Constant(0.0))


def transform(axis: Element, where: str) -> Motion:
    """One of the six functions of a custom joint; its direction has the length 1, as in OpenSim."""
    function = function_of_axis(axis, where)
    direction = np.array(triple(axis, "axis", None))
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        raise ValueError(f"{where}: its axis is zero")
    return Motion(components(direction / length), function, words(axis, "coordinates"))


def constant_curvature(
    joint: Element, parent: Frame, child: Frame, coordinates: tuple[CoordinateRow, ...]
) -> JointRow:
    """A beam of constant length that bends along a circle: its end turns about x, then z, then y,
    from a neutral pose, and is at the end of the arc, as OpenSim's class has it."""
    length, neutral = number(joint, "length", 1.0), triple(joint, "neutral_angle_x_z_y")
    names = [row.name for row in coordinates]
    turns = (
        Motion(DIRECTIONS[axis], Linear((1.0, angle)), (one,))
        for axis, angle, one in zip("xzy", neutral, names, strict=True)
    )
    moves = (
        Motion(DIRECTIONS[axis], OnArc(k, length, neutral[:2]), (names[0], names[1]))
        for k, axis in enumerate("xyz")
    )
    return JointRow(joint.get("name", ""), parent, child, coordinates, tuple(turns), tuple(moves))


# -- directions -----------------------------------------------------------------------------------


def outward(joints: Iterable[JointRow]) -> list[JointRow]:
    """Joints, those turned round whose child is nearer to the ground than their parent; where
    joints make no tree they stay, for `trees.outwards` to say so."""
    every = list(joints)
    known: set[str | None] = {None}
    ways: dict[int, bool] = {}
    while True:
        here = [
            k
            for k, row in enumerate(every)
            if k not in ways and (row.parent.body in known) != (row.child.body in known)
        ]
        if not here:
            break
        ways[here[0]] = every[here[0]].parent.body in known
        known |= {every[here[0]].parent.body, every[here[0]].child.body}
    return [
        row for k, one in enumerate(every) for row in ([one] if ways.get(k, True) else flipped(one))
    ]


def flipped(joint: JointRow) -> list[JointRow]:
    """Reversed joint, as seen from the child: rotations back in the other order, then translations
    back, along axes that have turned: of a body between without mass, if there are both."""
    name, parent, child = joint.name, joint.child, joint.parent
    rotations = tuple(back(motion) for motion in joint.rotations[::-1])
    translations = tuple(back(motion) for motion in joint.translations)
    if not (rotations and translations):
        return [JointRow(name, parent, child, joint.coordinates, rotations, translations)]
    middle = Frame(f"{name}_between")
    return [
        JointRow(name, parent, middle, joint.coordinates, rotations),
        JointRow(f"{name}_back", middle, child, (), (), translations),
    ]


def back(motion: Motion) -> Motion:
    """The other way."""
    return Motion(motion.direction, scaled(motion.function, -1.0), motion.coordinates)
