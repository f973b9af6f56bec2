"""Models of OpenSim, `.osim`: the file as tables.

Files of versions 1.9 to 3 have joints inside bodies, those of version 4 joints of their own between
frames that are offset from bodies. Meaning of elements: A. Seth et al. (2018), OpenSim: simulating
musculoskeletal dynamics and neuromuscular control, PLoS Comput Biol 14(7):e1006223, and the
reference of its classes.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from xml.etree.ElementTree import Element, indent, tostring

from kinesym.base.checks import check_kind, naming
from kinesym.models.files.description import (
    BodyRow,
    Coupler,
    Description,
    Frame,
    HalfSpace,
    JointRow,
    Loop,
    MarkerRow,
    Sphere,
    Triple,
    Wrap,
)
from kinesym.models.files.frames import offset, place, turned
from kinesym.models.files.muscles import MuscleReader, surfaces_of
from kinesym.models.files.osim_frames import Frames, body_name, socket
from kinesym.models.files.osim_functions import function_in, scaled
from kinesym.models.files.osim_joints import joint_rows, outward
from kinesym.models.files.trees import FileTree, plain, tree_of
from kinesym.models.files.xml import (
    flag,
    members,
    named,
    number,
    numbers,
    root_of,
    text,
    triple,
    words,
)

#: Constraints that close loops, and what these hold together.
LOOPS = {"WeldConstraint": "weld", "PointConstraint": "point"}
#: Gravity that OpenSim takes where a file says nothing [m/s^2].
GRAVITY: Triple = (0.0, -9.80665, 0.0)
HERE: Triple = (0.0, 0.0, 0.0)
#: Endings of the names of forces that move bodies without a control.
PASSIVE = ("Force", "Spring", "Ligament", "Damper", "Stop")


def parse(path: str | Path) -> Description:
    """The tables of an `.osim` file, which may be compressed by gzip.

    Raises `FileNotFoundError`, and `ValueError` that names the element for what is no model, is not
    understood, or has numbers that are none.
    """
    with naming(path):
        document = root_of(path)
        model = document if document.tag == "Model" else document.find("Model")
        if model is None:
            raise ValueError(f"it has no Model of OpenSim, its root is {document.tag}")
        return Reader(model).description(document.get("Version", ""))


def markers_in(root: Element) -> list[MarkerRow]:
    """The markers of a model, or of a file with a `MarkerSet` alone, whose bodies are taken as it
    names them.

    Raises `ValueError` for a marker on a frame of a body that the file does not have.
    """
    model = root if root.tag == "Model" else root.find("Model")
    if model is not None:
        return list(Reader(model).markers())
    found = []
    for e in root.iter("Marker"):
        path = text(e, "body") or socket(e, "parent_frame")
        body = path.rpartition("bodyset/")[2].lstrip("/")
        if "/" in body:
            raise ValueError(
                f"{named(e)} is on {path}, a frame that only the file of the model has; read that"
            )
        found.append(MarkerRow(e.get("name", ""), body, triple(e, "location")))
    return found


#: Components of a model that are no forces.
NO_FORCES = (
    "Body",
    "Station",
    "Marker",
    "PhysicalOffsetFrame",
    "StationDefinedFrame",
    "Coordinate",
)


@dataclass(frozen=True)
class Reader:
    """Reads a model."""

    model: Element

    @cached_property
    def frames(self) -> Frames:
        """Frames that elements name by paths."""
        return Frames(self.model, frozenset(e.get("name", "") for e in self.bodies()))

    def description(self, version: str = "") -> Description:
        """Description of the model: all tables. version : of the format, as the document says."""
        joints = tuple(outward(self.joints()))
        bodies = [body_row(e) for e in self.bodies()]
        empty = [row.name for row in bodies if row.mass == 0.0 and any(row.inertia)]
        bodies = [replace(row, inertia=(0.0,) * 6) if row.name in empty else row for row in bodies]
        known = {row.name for row in bodies}
        between = (j.child.body for j in joints if j.child.body and j.child.body not in known)
        bodies += [BodyRow(name, 0.0, (0.0,) * 3, (0.0,) * 6) for name in between]
        forces = [*members(self.model, "ForceSet")]
        forces += [
            e
            for e in components(self.model)
            if e.tag not in NO_FORCES and not e.tag.endswith("Joint")
        ]
        spheres, half_spaces, unread = self.contacts()
        couplers, loops, unkept = self.constraints()
        surfaces, unknown = self.surfaces()
        muscles = MuscleReader(self.model, self.on, function_in, surfaces).rows(forces)
        return Description(
            self.model.get("name") or "model",
            triple(self.model, "gravity", GRAVITY),
            tuple(bodies),
            joints,
            couplers,
            tuple(self.markers()),
            spheres,
            half_spaces,
            (*unkept, *unread, *unknown, *unmoved(forces), *map(massless, empty)),
            self.model,
            tuple(forces),
            tuple(muscles),
            loops,
            version,
        )

    def surfaces(self) -> tuple[dict[str, Wrap], list[str]]:
        """Wrap surfaces of muscle paths, by name, and notes on those that are not understood."""
        grounds = [e for e in members(self.model, "BodySet") if e.get("name") == "ground"]
        grounds += self.model.findall("Ground")
        owners = [(e, Frame(None)) for e in grounds]
        owners += [(e, Frame(e.get("name"))) for e in self.bodies()]
        every = dict(pair for e, frame in owners for pair in surfaces_of(e, frame))
        unknown = [f"the surface {name} of muscles" for name, wrap in every.items() if not wrap]
        return {name: wrap for name, wrap in every.items() if wrap is not None}, unknown

    def bodies(self) -> Iterator[Element]:
        """Bodies without the ground."""
        every = [*members(self.model, "BodySet"), *self.among("Body")]
        return (e for e in every if e.get("name") != "ground")

    def among(self, tag: str) -> Iterator[Element]:
        """Components of any element whose tags end so."""
        held = chain(
            self.model.iter("components"),
            (e for owner in self.model.iter("ComponentSet") for e in owner.findall("objects")),
        )
        yield from (e for owner in held for e in owner if e.tag.endswith(tag))

    def joints(self) -> Iterator[JointRow]:
        """Joints of both kinds of files, in the direction that they have there."""
        for body in self.bodies():
            joint = body.find("Joint")
            for e in [] if joint is None else joint:
                yield from self.old_joint(e, body.get("name", ""))
        for e in (*members(self.model, "JointSet"), *self.among("Joint")):
            yield from self.joint(e)

    def old_joint(self, joint: Element, child: str) -> list[JointRow]:
        """Joint of a file before version 4."""
        parent = body_name(text(joint, "parent_body"))
        before, after = (
            offset(body, triple(joint, f"location{end}"), triple(joint, f"orientation{end}"))
            for body, end in ((parent, "_in_parent"), (child, ""))
        )
        return self.between(joint, before, after)

    def joint(self, joint: Element) -> list[JointRow]:
        """Joint of a file of version 4, or of those shortly before it, with distances from the
        frames."""
        ends = []
        for end, more in (("parent", "_in_parent"), ("child", "_in_child")):
            path = socket(joint, f"{end}_frame", f"{end}_body")
            frame = self.frame(path, joint.get("name", ""))
            at, angles = (
                triple(joint, f"{what}{more}", triple(joint, what) if end == "child" else HERE)
                for what in ("location", "orientation")
            )
            ends.append(place(frame, at, angles))
        return self.between(joint, *ends)

    def between(self, joint: Element, parent: Frame, child: Frame) -> list[JointRow]:
        """A joint between frames, which `reverse` exchanges, as OpenSim 4 does."""
        listed = joint.find("coordinates")
        rows = [*(members(joint, "CoordinateSet") if listed is None else listed)]
        if flag(joint, "reverse", False):
            parent, child = child, parent
        return joint_rows(joint, parent, child, [e for e in rows if e.tag == "Coordinate"])

    def frame(self, path: str, owner: str = "") -> Frame:
        """Frame that a path leads to, as `Frames.frame`."""
        return self.frames.frame(path, owner)

    def on(self, element: Element, *sockets: str) -> Frame:
        """The frame that an element is fixed in."""
        path = socket(element, *sockets) or text(element, "body") or text(element, "body_name")
        return self.frame(path)

    def markers(self) -> Iterator[MarkerRow]:
        for e in (*members(self.model, "MarkerSet"), *self.among("Marker")):
            frame = self.on(e, "parent_frame", "reference_frame")
            at = place(frame, triple(e, "location")).at
            yield MarkerRow(e.get("name", ""), frame.body, at)

    def contacts(self) -> tuple[tuple[Sphere, ...], tuple[HalfSpace, ...], list[str]]:
        """Contact geometry: spheres, half-spaces, and elements that are neither."""
        spheres, half_spaces, unread = list[Sphere](), list[HalfSpace](), list[str]()
        for e in members(self.model, "ContactGeometrySet"):
            name, frame = e.get("name", ""), self.on(e, "frame")
            found = place(frame, triple(e, "location"), triple(e, "orientation"))
            if e.tag == "ContactSphere":
                spheres.append(Sphere(name, found.body, found.at, number(e, "radius")))
            elif e.tag == "ContactHalfSpace":  # it is where x > 0
                normal = turned(found.turn, (-1.0, 0.0, 0.0))
                half_spaces.append(HalfSpace(name, found.body, found.at, normal))
            else:
                unread.append(f"contact geometry {named(e)}")
        return tuple(spheres), tuple(half_spaces), unread

    def constraints(self) -> tuple[tuple[Coupler, ...], tuple[Loop, ...], list[str]]:
        """Constraints: couplers, welds and points, and elements of other kinds."""
        couplers, loops, unread = list[Coupler](), list[Loop](), list[str]()
        for e in members(self.model, "ConstraintSet"):
            if not flag(e, "isEnforced", True) or flag(e, "isDisabled", False):
                continue
            if e.tag in LOOPS:
                loops.append(Loop(e.get("name", ""), LOOPS[e.tag], self.end(e, 1), self.end(e, 2)))
                continue
            if e.tag != "CoordinateCouplerConstraint":
                unread.append(f"constraint {named(e)}")
                continue
            function = function_in(e.find("coupled_coordinates_function"), named(e))
            couplers.append(
                Coupler(
                    e.get("name", ""),
                    text(e, "dependent_coordinate_name"),
                    scaled(function, number(e, "scale_factor", 1.0)),
                    words(e, "independent_coordinate_names"),
                )
            )
        return tuple(couplers), tuple(loops), unread

    def end(self, e: Element, number: int) -> Frame:
        """One of the two frames of a weld or a point; files before version 4 have its place and
        angles in the body, and so have points of later ones."""
        path = socket(e, f"frame{number}", f"body_{number}") or text(e, f"body_{number}")
        frame = self.frame(path, e.get("name", ""))
        angles = triple(e, f"orientation_body_{number}")
        return place(frame, triple(e, f"location_body_{number}"), angles)


# -- elements -------------------------------------------------------------------------------------


def components(owner: Element) -> Iterator[Element]:
    """Elements that an element owns outside its sets."""
    for found in owner.findall("components"):
        yield from found
    yield from members(owner, "ComponentSet")


def unmoved(forces: Iterable[Element]) -> Iterator[str]:
    """Kinds of forces that act by themselves, without a control, and how often they do."""
    found = Counter(
        e.tag
        for e in forces
        if e.tag.endswith(PASSIVE)
        and flag(e, "appliesForce", True)
        and not flag(e, "isDisabled", False)
    )
    return (tag if count == 1 else f"{tag} ({count} times)" for tag, count in found.items())


def massless(body: str) -> str:
    """Phrase for moments of inertia of a body without mass, for a note."""
    return f"the inertia of body {body}, which has no mass, as by OpenSim,"


def body_row(e: Element) -> BodyRow:
    """A body; moments are six elements, in version 4 one with six numbers."""
    if e.find("inertia") is not None:
        xx, yy, zz, xy, xz, yz = padded(numbers(e, "inertia"), 6, named(e))
    else:
        parts = ("xx", "yy", "zz", "xy", "xz", "yz")
        xx, yy, zz, xy, xz, yz = (number(e, f"inertia_{part}", 0.0) for part in parts)
    com = triple(e, "mass_center")
    return BodyRow(e.get("name", ""), number(e, "mass"), com, (xx, yy, zz, xy, xz, yz))


def padded(values: list[float], count: int, what: str) -> list[float]:
    """List of `count` numbers, zeros where the last ones are missing; raises `ValueError` for
    more."""
    if len(values) > count:
        raise ValueError(f"{what}: {count} numbers are expected, got {len(values)}")
    return values + [0.0] * (count - len(values))


def read(
    path: str | Path, locked: Iterable[str] | None = None, without: Iterable[str] = ()
) -> FileTree:
    """A model of OpenSim as a tree of bodies; the file may be compressed by gzip.

    Coordinates have the names of the file, `knee_angle_r`; speeds are their rates
    `knee_angle_r_speed`, generalised forces `knee_angle_r_moment` [N m], or `pelvis_tx_force` [N]
    of a coordinate that turns nothing, as in files of OpenSim's inverse dynamics. Also of ball and
    free joints, where OpenSim has angular velocities as speeds. Places of bodies are from their
    origin in the file, in its axes. A coordinate that a `CoordinateCouplerConstraint` makes a
    function of others is replaced by that function; a `WeldConstraint` or `PointConstraint` closes
    a loop, as `Tree.close` does, whose forces begin with its name.

    locked : names of coordinates that stay at their default values; by default those that the file
    locks. without : names of constraints that are left out: inverse dynamics and kinematics are of
    open trees. Other constraints and contact geometry than spheres and half-spaces are left out
    with a warning. Paths of muscles are in `muscles`; the file itself is in `description`.

    Raises `FileNotFoundError`, and `ValueError` that names the element for what is no model or is
    not understood, and for bodies that make no tree.
    """
    description = parse(path)
    with naming(path):
        return tree_of(description, locked, without)


def write(path: str | Path, tree: FileTree) -> None:
    """Write a model of OpenSim, as it was read, or scaled by `ks.gait.scale`: what the file had,
    with masses, places, joints, markers and paths of muscles as they are now. `read` makes the same
    tree of it again; OpenSim reads it, too. Comments are lost; ".gz" compresses.

    Raises `ValueError` for a tree of another file, and for one whose bodies were changed otherwise.
    """
    check_kind(tree, FileTree, "kinesym.osim")
    described = tree.description
    if described.element is None or described.element.tag != "Model":
        raise ValueError(f"{tree.name} was not read from a file of OpenSim")
    if tree.bodies != plain(tree).bodies:
        raise ValueError(
            f"the bodies of {tree.name} were changed after it was read; what can be written is a "
            "tree as `ks.osim.read` or `Scaling.applied` give it"
        )
    document = Element("OpenSimDocument", {"Version": described.version or "20302"})
    document.append(deepcopy(described.element))
    for e in document.iter():
        e.tag = e.tag.replace(".", "::")  # as in Contact::Parameters
    indent(document, "\t")
    data = tostring(document, encoding="UTF-8", xml_declaration=True) + b"\n"
    compressed = str(path).endswith(".gz")
    Path(path).write_bytes(gzip.compress(data, mtime=0) if compressed else data)
