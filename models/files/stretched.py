"""Models of OpenSim for bodies that are longer or shorter: the elements of the file, changed.

What OpenSim's ScaleTool changes (classes `Model`, `PathPoint`, `WrapObject`, `Muscle` of version
4): masses and mass centres, frames of joints and how joints glide, points and surfaces of paths,
markers, contact spheres. Moments of inertia are those of `kinesym.models.scaling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.quiet import quietly
from kinesym.models.files.description import UPRIGHT, Constant, Description, Frame
from kinesym.models.files.expressions import identifier
from kinesym.models.files.frames import DIRECTIONS, rotation
from kinesym.models.files.muscles import POINTS, TAGS
from kinesym.models.files.osim import NO_FORCES, Reader, components, padded
from kinesym.models.files.osim_frames import socket
from kinesym.models.files.osim_functions import function_element, function_in
from kinesym.models.files.trees import FileTree, plain, tree_of
from kinesym.models.files.xml import flag, members, named, number, numbers, text, triple, words
from kinesym.symbolic.multibody.bodies import Body, inertia_matrix

Array = NDArray[np.float64]


def stretched_description(
    tree: FileTree,
    factors: Mapping[str, Sequence[float]],
    bodies: Sequence[Body],
    places: Mapping[str, Sequence[float]],
) -> Description:
    """The tables of a model whose bodies are stretched along their axes.

    factors : by the name of the body in the tree. bodies : with mass, mass centre and inertia as
    they are after that, numbers. places : of some markers in the axes of their bodies, after that
    [m]; others are stretched with their bodies. Optimal lengths of fibres and slack lengths of
    tendons keep their share in the lengths of paths in the default pose.

    Raises `ValueError` for what cannot be stretched along axes that differ, by name.
    """
    element = deepcopy(tree.description.element)
    if element is None:
        raise ValueError(f"{tree.name} is of no file of OpenSim")
    _check_stretchable(tree, element)
    change = _Stretch(element, tree, factors)
    change.frames()
    change.joints()
    change.points()
    change.surfaces()
    change.inertias({body.name: body for body in bodies})
    made = Reader(element).description(tree.description.version)
    change.fibres(made)
    change.markers(places)
    made = Reader(element).description(tree.description.version)
    kept = {row.name for row in tree.description.couplers}  # others were left out by `without`
    couplers = tuple(row for row in made.couplers if row.name in kept)
    return replace(made, couplers=couplers, loops=())


def _check_stretchable(tree: FileTree, element: Element) -> None:
    """Raise `ValueError` for parts that have sizes which nothing here changes."""
    if tree.description.loops:
        row = tree.description.loops[0]
        raise ValueError(
            f"constraint {row.name} of {tree.name} closes a loop, which may not close once bodies "
            f"are stretched; read the model with without=[{row.name!r}]"
        )
    for tag in ("EllipsoidJoint", "ScapulothoracicJoint", "ConstantCurvatureJoint"):
        for joint in element.iter(tag):
            raise ValueError(f"{named(joint)} of {tree.name} moves along what has its own size")
    for e in _not_stretched(element):
        raise ValueError(
            f"{named(e)} of {tree.name} is of a kind that is not stretched; open the model in a "
            "later OpenSim, put it into a set of the model, and save it"
        )


def _not_stretched(element: Element) -> Iterator[Element]:
    """Elements with places or directions that scaling does not change."""
    yield from (e for e in components(element) if e.tag in NO_FORCES or e.tag.endswith("Joint"))
    yield from element.iter("StationDefinedFrame")
    for e in element.iter():
        if e.find("connectors") is not None or flag(e, "reverse", False):
            yield e


@dataclass(frozen=True)
class _Stretch:
    """Changes of the elements of a model."""

    element: Element
    tree: FileTree
    factors: Mapping[str, Sequence[float]]

    @cached_property
    def reader(self) -> Reader:
        """Reader of the model before scaling."""
        return Reader(deepcopy(self.element))

    def scale(self, body: str | None) -> Array:
        """The factors of a body along its axes."""
        row = None if body is None else self.factors.get(identifier(body))
        return np.ones(3) if row is None else np.array(row, dtype=np.float64)

    def along(self, frame: Frame) -> Array:
        """The matrix that stretches vectors along the axes of a frame (3, 3)."""
        turn = np.array(frame.turn)
        return np.asarray(turn.T @ (self.scale(frame.body)[:, None] * turn))

    def single(self, frame: Frame, direction: ArrayLike) -> tuple[float, Array | None]:
        """The factor of a motion along a direction in a frame, and its direction then, None if it
        stays."""
        v = np.asarray(direction, dtype=np.float64)
        w = self.along(frame) @ v
        factor = float(w @ v / (v @ v))
        if np.abs(w - factor * v).max() <= 1e-14 * np.abs(w).max():
            return factor, None
        size = float(np.linalg.norm(w) / np.linalg.norm(v))
        return size, w / size

    def frames(self) -> None:
        """Places of frames on bodies."""
        bodies = list(members(self.element, "BodySet"))
        for body in bodies:
            for joint in body.find("Joint") or ():
                ends = (text(joint, "parent_body"), "_in_parent"), (body.get("name", ""), "")
                for name, end in ends:
                    _multiply(joint, f"location{end}", self.scale(name))
        owners = [*bodies, *members(self.element, "JointSet")]
        for owner in owners:
            name = owner.get("name", "")
            for e in owner.iterfind("*/PhysicalOffsetFrame"):
                path = socket(e, "parent")
                base = self.reader.frame(name if path == ".." else path, name)
                self.turn_along(e, "translation", base)

    def turn_along(self, e: Element, tag: str, frame: Frame) -> None:
        """A vector in the axes of a frame."""
        scale = self.scale(frame.body)
        if frame.turn == UPRIGHT or len(set(scale)) == 1:
            _multiply(e, tag, scale)
        elif e.find(tag) is not None:
            _write(e, tag, self.along(frame) @ triple(e, tag))

    def joints(self) -> None:
        """Translations that are functions of coordinates; coordinates that are lengths stay."""
        rows = {joint.name: joint for joint in self.reader.joints()}
        still = {row.coordinate for row in self.tree.description.couplers}
        still |= {n for n in self.tree.description.coordinates if identifier(n) in self.tree.fixed}
        for joint in self.element.iter("CustomJoint"):
            frame = rows[joint.get("name", "")].parent
            for axis in [*(joint.find("SpatialTransform") or ())][3:]:
                what = f"{named(joint)}: {axis.get('name')}"
                factor, turned = self.single(frame, triple(axis, "axis", None))
                holder = axis.find("function")
                holder = axis if holder is None else holder
                if function_element(holder) is None or function_in(holder, what) == Constant(0.0):
                    continue
                line = _line(holder)
                if line is None or set(words(axis, "coordinates")) & still:
                    _multiplied(holder, factor)
                    if turned is not None:
                        _write(axis, "axis", turned)
                    continue
                *slopes, last = numbers(line, "coefficients")
                if last and turned is not None:
                    raise ValueError(
                        f"{what} is a coordinate and a distance, along an axis that is none of "
                        f"{frame.body}; give this body one factor"
                    )
                _write(line, "coefficients", [*slopes, last * factor])

    def points(self) -> None:
        """Points of paths, markers, places of what touches."""
        sets = (path for tag in POINTS for path in self.element.iter(tag))
        for e in (e for path in sets for e in path.iterfind("objects/*")):
            if e.find("x_location") is None:
                self.place(e, "parent_frame")
            else:
                self.course(e)
        for e in members(self.element, "MarkerSet"):
            self.place(e, "parent_frame")
        for e in members(self.element, "ContactGeometrySet"):
            self.place(e, "frame")
            if e.tag == "ContactSphere":
                scale = self.scale(self.reader.on(e, "frame").body)
                _multiply(e, "radius", np.array([scale.mean()]))

    def place(self, e: Element, socket: str) -> None:
        """A point of a body."""
        if e.find("location") is not None:
            self.turn_along(e, "location", self.reader.on(e, socket))

    def course(self, e: Element) -> None:
        """A point that moves along axes of a body."""
        frame = self.reader.on(e, "parent_frame")
        for axis, direction in DIRECTIONS.items():
            factor, turned = self.single(frame, direction)
            if turned is not None:
                raise ValueError(
                    f"{named(e)} moves along axes that are none of {frame.body}; give this body "
                    "one factor"
                )
            _multiplied(e.find(f"{axis}_location"), factor)

    def surfaces(self) -> None:
        """Surfaces of paths, stretched along their own axes; of a cylinder and a sphere the mean
        counts."""
        for body in members(self.element, "BodySet"):
            scale = self.scale(body.get("name", ""))
            for e in members(body, "WrapObjectSet"):
                wide = np.linalg.norm(
                    scale[:, None] * rotation(triple(e, "xyz_body_rotation")), axis=0
                )
                _multiply(e, "translation", scale)
                _multiply(e, "length", wide[2:])
                around = wide[:2] if e.tag == "WrapCylinder" else wide
                _multiply(e, "radius", np.array([around.mean()]))
                _multiply(e, "dimensions", wide)
            for path in ("attached_geometry/*", "VisibleObject", "VisibleObject/*/*"):
                for e in body.iterfind(path):
                    _multiply(e, "scale_factors", scale)

    def inertias(self, bodies: Mapping[str, Body]) -> None:
        """Masses, mass centres, moments of inertia."""
        for e in members(self.element, "BodySet"):
            body = bodies.get(identifier(e.get("name", "")))
            if body is None or not body.mass:
                continue
            J = np.array(inertia_matrix(body), dtype=np.float64)
            six = (*np.diag(J), J[0, 1], J[0, 2], J[1, 2])
            _write(e, "mass", [float(body.mass)])
            _write(e, "mass_center", [float(c) for c in body.com])
            if e.find("inertia") is not None:
                padded(numbers(e, "inertia"), 6, named(e))
                _write(e, "inertia", six)
                continue
            for part, value in zip(("xx", "yy", "zz", "xy", "xz", "yz"), six, strict=True):
                _write(e, f"inertia_{part}", [value])

    def markers(self, places: Mapping[str, Sequence[float]]) -> None:
        """Markers at these places of their bodies."""
        reader = Reader(self.element)
        for e in members(self.element, "MarkerSet"):
            if (at := places.get(e.get("name", ""))) is not None:
                frame = reader.on(e, "parent_frame")
                _write(e, "location", np.array(frame.turn).T @ np.subtract(at, frame.at))

    def fibres(self, made: Description) -> None:
        """Lengths of fibres and tendons, by those of paths in the default pose."""
        if not made.muscles:
            return
        names = [row for row in made.coordinates if identifier(row) in self.tree.fixed]
        with quietly():
            trees = plain(self.tree), tree_of(made, names)
        rows = {row.name: row for row in made.muscles}
        forces = {e.get("name", ""): e for e in made.forces}
        for name, before in trees[0].muscles.items():
            pose = {q: [trees[0].defaults[q]] for q in before.coordinates}
            lengths = [tree.muscles[name].lengths(pose)[0] for tree in trees]
            for key in ("optimal_length", "slack_length"):
                if key in rows[name].numbers:
                    value = rows[name].numbers[key] * lengths[1] / lengths[0]
                    _write(forces[name], _tag(forces[name], key), [value])


def _tag(muscle: Element, key: str) -> str:
    """Tag of a number in the element of a muscle."""
    return next((tag for tag in TAGS[key] if text(muscle, tag)), TAGS[key][0])


def _said(values: ArrayLike) -> str:
    """Numbers in all digits."""
    return " ".join(repr(float(value) + 0.0) for value in np.asarray(values).reshape(-1))


def _write(e: Element, tag: str, values: ArrayLike) -> None:
    """Numbers in a child."""
    child = e.find(tag)
    (SubElement(e, tag) if child is None else child).text = _said(values)


def _multiply(e: Element, tag: str, factors: Array) -> None:
    """Numbers in a child, if there is one, each by its factor."""
    if text(e, tag) and any(factors != 1.0):
        _write(e, tag, np.array(numbers(e, tag)) * factors)


def _line(holder: Element) -> Element | None:
    """The element of a straight line in an element with a function, None if it has another one."""
    for e in holder:
        if e.tag == "MultiplierFunction":
            inner = e.find("function")
            return None if inner is None else _line(inner)
        if e.tag in ("LinearFunction", "PolynomialFunction"):
            straight = e.tag == "LinearFunction" or len(numbers(e, "coefficients")) == 2
            return e if straight else None
    return None


def _multiplied(holder: Element | None, factor: float) -> None:
    """The function in an element, by a factor."""
    if holder is None:
        return
    for k, e in enumerate(holder):
        if factor == 1.0 or e.tag in ("function", "axis", "coordinates"):
            continue
        if e.tag == "Constant":
            _write(e, "value", [number(e, "value", 0.0) * factor])
        elif e.tag == "MultiplierFunction":
            _write(e, "scale", [number(e, "scale", 1.0) * factor])
        else:
            made = Element("MultiplierFunction")
            SubElement(made, "scale").text = _said([factor])
            SubElement(made, "function").append(e)
            holder[k] = made
        return
