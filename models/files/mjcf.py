"""Models of MuJoCo, `.xml`, as tables and as trees: bodies with inertia, and their joints.

The format: https://mujoco.readthedocs.io/en/stable/XMLreference.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from kinesym.checks import naming
from kinesym.models.files.description import (
    UPRIGHT,
    BodyRow,
    CoordinateRow,
    Coupler,
    Description,
    Frame,
    JointRow,
    Linear,
    Motion,
    Polynomial,
    Triple,
)
from kinesym.models.files.frames import (
    DIRECTIONS,
    along,
    components,
    rotation,
    rotations,
    rows,
    six,
)
from kinesym.models.files.trees import FileTree, tree_of
from kinesym.models.files.xml import attribute, attributes, listed_numbers, named, root_of

NOWHERE: Triple = (0.0, 0.0, 0.0)
#: Attributes of joints that stand for forces or inertia, which no table has.
FORCES = ("stiffness", "damping", "armature", "frictionloss")


def read(path: str | Path, locked: Iterable[str] | None = None) -> FileTree:
    """Bodies and joints of a model of MuJoCo as a tree.

    Coordinates have the names of the joints, those of balls and free joints with `_tx`, `_ty`,
    `_tz` [m], `_rx`, `_ry`, `_rz` [rad] behind; speeds are their rates, `elbow_speed`, generalised
    forces `elbow_moment` [N m] or `rail_force` [N]. Equalities of two joints replace the first
    by its polynomial of the second. Bodies with several joints that are not about one point get
    massless ones between. Understood: `compiler angle, eulerseq`, `option gravity`, `body` with
    `inertial` and `joint` or `freejoint`, orientations by `quat`, `axisangle`, `euler`; not inertia
    from geoms, default classes and included files.

    locked : names of coordinates that stay at 0.

    Raises `FileNotFoundError`, and `ValueError` that names the element for what is no model or is
    not understood; warns of springs, dampers and armatures of joints, which are left out.
    """
    description = parse(path)
    with naming(path):
        return tree_of(description, locked)


def parse(path: str | Path) -> Description:
    """The tables of a model of MuJoCo; raises as `read`."""
    with naming(path):
        root = root_of(path)
        world = root.find("worldbody")
        if root.tag != "mujoco" or world is None:
            raise ValueError(f"it is no model of MuJoCo: its root is {root.tag}")
        for tag in ("default", "include"):
            if next(root.iter(tag), None) is not None:
                raise ValueError(f"elements {tag} are not understood; save the model by MuJoCo")
        reader = _Reader(root)
        option = root.find("option")
        gravity = attributes(Element("option") if option is None else option, "gravity", G)
        found = [part for e in world.findall("body") for part in reader.body(e, None)]
        bodies = tuple(body for body, _ in found)
        joints = tuple(joint for _, joint in found)
        name = root.get("model") or "mujoco"
        couplers = tuple(map(coupler, root.findall("equality/joint")))
        left_out = tuple(left_out_of(world))
        return Description(name, gravity, bodies, joints, couplers, left_out=left_out, element=root)


#: Where a file says nothing.
G: Triple = (0.0, 0.0, -9.81)


@dataclass(frozen=True)
class _Reader:
    """What holds for all elements of a model."""

    root: Element

    @property
    def degrees(self) -> bool:
        """Whether angles are in degrees."""
        compiler = self.root.find("compiler")
        return compiler is None or compiler.get("angle", "degree") == "degree"

    def radians(self, values: Iterable[float]) -> list[float]:
        """Angles of the file."""
        return [float(np.deg2rad(v)) if self.degrees else v for v in values]

    def turn(self, e: Element) -> NDArray[np.float64]:
        """The orientation of an element."""
        if e.get("quat"):
            w, *v = listed_numbers(e, "quat", 4)
            return turned_by(2.0 * np.arctan2(np.linalg.norm(v), w), v)
        if e.get("axisangle"):
            *axis, angle = listed_numbers(e, "axisangle", 4)
            return turned_by(self.radians([angle])[0], axis)
        compiler = self.root.find("compiler")
        sequence = "xyz" if compiler is None else compiler.get("eulerseq", "xyz")
        result = np.eye(3)
        for letter, angle in zip(
            sequence, self.radians(attributes(e, "euler", NOWHERE)), strict=True
        ):
            step = rotation([angle if letter.lower() == a else 0.0 for a in "xyz"])
            result = result @ step if letter.islower() else step @ result
        return result

    def body(self, e: Element, parent: str | None) -> Iterator[tuple[BodyRow, JointRow]]:
        """A body with those in it, each with its joint; massless ones between its joints."""
        name = e.get("name") or ""
        if not name:
            raise ValueError("a body has no name; give it one")
        start = Frame(parent, attributes(e, "pos", NOWHERE), rows(self.turn(e)))
        groups = [*grouped(self.joints(e, name))] or [[]]
        for k, parts in enumerate(groups):
            last = k == len(groups) - 1
            own = name if last else f"{name}_{k + 1}"
            row = self.row(e, name) if last else BodyRow(own, 0.0, NOWHERE, (0.0,) * 6)
            yield row, joined(own, start, parts)
            start = Frame(own)
        for inner in e.findall("body"):
            yield from self.body(inner, name)

    def row(self, e: Element, name: str) -> BodyRow:
        """The body alone."""
        inertial = e.find("inertial")
        if inertial is None:
            if e.find("geom") is not None:
                raise ValueError(
                    f"body {name}: inertia from geoms is not understood; give inertial"
                )
            return BodyRow(name, 0.0, NOWHERE, (0.0,) * 6)
        if inertial.get("fullinertia"):
            xx, yy, zz, xy, xz, yz = listed_numbers(inertial, "fullinertia", 6)
            given = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            given = np.diag(attributes(inertial, "diaginertia", NOWHERE))
        R = self.turn(inertial)
        com = attributes(inertial, "pos", NOWHERE)
        return BodyRow(name, attribute(inertial, "mass"), com, six(R @ given @ R.T))

    def joints(self, e: Element, body: str) -> Iterator[_Part]:
        """The motions of a body one after the other."""
        for k, joint in enumerate(f for f in e if f.tag in ("joint", "freejoint")):
            kind = "free" if joint.tag == "freejoint" else joint.get("type", "hinge")
            name = joint.get("name") or f"{body}_joint{k + 1}"
            at = attributes(joint, "pos", NOWHERE) if kind != "free" else NOWHERE
            axis = attributes(joint, "axis", DIRECTIONS["z"])
            if kind in ("hinge", "slide"):
                limits = listed_numbers(joint, "range", 2) if joint.get("range") else None
                ends = self.radians(limits) if limits and kind == "hinge" else limits
                row = CoordinateRow(name, 0.0, None if ends is None else (ends[0], ends[1]))
                offset = attribute(joint, "ref", 0.0)
                offset = self.radians([offset])[0] if kind == "hinge" else offset
                motion = Motion(unit_of(axis), Linear((1.0, -offset)), (name,))
                yield _Part(kind == "slide", at, row, motion)
            elif kind in ("ball", "free"):
                for letter in ("t", "r") if kind == "free" else ("r",):
                    for a in "xyz":
                        row = CoordinateRow(f"{name}_{letter}{a}")
                        yield _Part(letter == "t", at, row, along(DIRECTIONS[a], row.name))
            else:
                raise ValueError(f"{named(joint)}: joints of the type {kind!r} are not known")


@dataclass(frozen=True)
class _Part:
    """One motion of a body, a slide or a turn about a point of it."""

    slides: bool
    at: Triple
    coordinate: CoordinateRow
    motion: Motion


def grouped(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Parts that one joint can do: slides, then turns about one point."""
    waiting = list[_Part]()
    for _, found in groupby(parts, lambda part: (part.slides, None if part.slides else part.at)):
        group = list(found)
        if waiting and (group[0].slides or not waiting[-1].slides):
            yield waiting
            waiting = []
        waiting += group
    if waiting:
        yield waiting


def joined(name: str, start: Frame, parts: list[_Part]) -> JointRow:
    """The joint of a body; its frames are about the point of its turns."""
    at = next((part.at for part in parts if not part.slides), NOWHERE)
    here = components(np.add(start.at, np.array(start.turn) @ at))
    return JointRow(
        name,
        Frame(start.body, here, start.turn),
        Frame(name, at, UPRIGHT),
        tuple(part.coordinate for part in parts),
        tuple(part.motion for part in parts if not part.slides),
        tuple(part.motion for part in parts if part.slides),
    )


def turned_by(angle: float, axis: Sequence[float]) -> NDArray[np.float64]:
    """The rotation (3, 3) about an axis by an angle [rad]; none about one without length."""
    return np.asarray(rotations(axis, [angle])[0] if any(axis) else np.eye(3))


def unit_of(axis: Triple) -> Triple:
    """An axis of length 1."""
    return components(np.array(axis) / (np.linalg.norm(axis) or 1.0))


def coupler(e: Element) -> Coupler:
    """An equality of two joints."""
    given = listed_numbers(e, "polycoef", 5) if e.get("polycoef") else [0.0, 1.0, 0.0, 0.0, 0.0]
    first, second = e.get("joint1", ""), e.get("joint2", "")
    return Coupler(e.get("name") or first, first, Polynomial(tuple(given[::-1])), (second,))


def left_out_of(world: Element) -> Iterator[str]:
    """Forces and inertia of joints."""
    for joint in world.iter("joint"):
        for name in FORCES:
            if attribute(joint, name, 0.0):
                yield f"{name} of {named(joint)}"
