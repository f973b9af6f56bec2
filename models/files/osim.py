"""Models of OpenSim, `.osim`: the file as tables.

Files of versions 1.9 to 3 have joints inside bodies, those of version 4 joints of their own between
frames that are offset from bodies. Meaning of elements: A. Seth et al. (2018), OpenSim: simulating
musculoskeletal dynamics and neuromuscular control, PLoS Comput Biol 14(7):e1006223, and the
reference of its classes.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from xml.etree.ElementTree import Element, indent, tostring

import numpy as np

from kinesym.checks import check_kind, naming
from kinesym.models.files.description import (
    BodyRow,
    Constant,
    CoordinateRow,
    Coupler,
    Description,
    Frame,
    Function,
    HalfSpace,
    JointRow,
    Linear,
    Loop,
    MarkerRow,
    Motion,
    Multivariate,
    OnEllipsoid,
    Points,
    Polynomial,
    Scaled,
    Sine,
    Sphere,
    Triple,
    Wrap,
)
from kinesym.models.files.frames import DIRECTIONS, along, components, offset, place, turned
from kinesym.models.files.muscles import MuscleReader, surfaces_of
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
#: Splines by their name in the file and in `ks.table`. Up to version 2.3 a `NaturalCubicSpline` was
#: what is now a `SimmSpline`.
SPLINES = {
    "SimmSpline": "simm",
    "natCubicSpline": "simm",
    "NaturalCubicSpline": "simm",
    "PiecewiseLinearFunction": "linear",
    "PiecewiseConstantFunction": "step",
}
#: Natural splines by half of their order, and what they are beyond their ends.
NATURAL = {1: ("linear", "constant"), 2: ("natural", "linear"), 3: ("quintic", "quadratic")}
#: Constraints that close loops, and what these hold together.
LOOPS = {"WeldConstraint": "weld", "PointConstraint": "point"}
#: What OpenSim takes where a file says nothing.
GRAVITY: Triple = (0.0, -9.80665, 0.0)


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
        reader = Reader(model)
        for owner in (*reader.bodies(), *members(model, "JointSet")):
            reader.collect(owner)
        return list(reader.markers())
    found = []
    for e in root.iter("Marker"):
        path = text(e, "body") or text(e, "socket_parent_frame")
        body = path.rpartition("bodyset/")[2].lstrip("/")
        if "/" in body:
            raise ValueError(
                f"{named(e)} is on {path}, a frame that only the file of the model has; read that"
            )
        found.append(MarkerRow(e.get("name", ""), body, triple(e, "location")))
    return found


@dataclass(frozen=True)
class Reader:
    """A model, and the frames in it that were met so far, by joint and name."""

    model: Element
    frames: dict[str, Frame] = field(default_factory=dict)

    def description(self, version: str = "") -> Description:
        """All tables. version : of the format, as the document says."""
        joints = tuple(self.joints())
        bodies = [body_row(e) for e in self.bodies()]
        known = {row.name for row in bodies}
        between = (j.child.body for j in joints if j.child.body and j.child.body not in known)
        bodies += [BodyRow(name, 0.0, (0.0,) * 3, (0.0,) * 6) for name in between]
        forces = [*members(self.model, "ForceSet")]
        forces += [e for e in self.components() if e.tag != "PhysicalOffsetFrame"]
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
            (*unkept, *unread, *unknown),
            self.model,
            tuple(forces),
            tuple(muscles),
            loops,
            version,
        )

    def surfaces(self) -> tuple[dict[str, Wrap], list[str]]:
        """What paths of muscles go around, by name, and what of that is not known."""
        grounds = [e for e in members(self.model, "BodySet") if e.get("name") == "ground"]
        grounds += self.model.findall("Ground")
        owners = [(e, Frame(None)) for e in grounds]
        owners += [(e, Frame(e.get("name"))) for e in self.bodies()]
        every = dict(pair for e, frame in owners for pair in surfaces_of(e, frame))
        unknown = [f"the surface {name} of muscles" for name, wrap in every.items() if not wrap]
        return {name: wrap for name, wrap in every.items() if wrap is not None}, unknown

    def bodies(self) -> Iterator[Element]:
        """Without the ground."""
        return (e for e in members(self.model, "BodySet") if e.get("name") != "ground")

    def components(self) -> Iterator[Element]:
        """What the model owns outside its sets."""
        found = self.model.find("components")
        yield from () if found is None else found
        yield from members(self.model, "ComponentSet")

    def joints(self) -> Iterator[JointRow]:
        """Of both kinds of files."""
        for body in self.bodies():
            for joint in body.find("Joint") or ():
                yield from self.old_joint(joint, body.get("name", ""))
        elements = [*members(self.model, "JointSet")]
        for owner in [*self.bodies(), *elements, *members(self.model, "ConstraintSet")]:
            self.collect(owner)
        for joint in elements:
            yield from self.joint(joint)

    def old_joint(self, joint: Element, child: str) -> list[JointRow]:
        """Of a file before version 4."""
        parent = body_name(text(joint, "parent_body"))
        before, after = (
            offset(body, triple(joint, f"location{end}"), triple(joint, f"orientation{end}"))
            for body, end in ((parent, "_in_parent"), (child, ""))
        )
        if flag(joint, "reverse", False):
            raise ValueError(f"{named(joint)} goes from child to parent; exchange its bodies")
        return joint_rows(joint, before, after, [*members(joint, "CoordinateSet")])

    def joint(self, joint: Element) -> list[JointRow]:
        """Of a file of version 4."""
        ends = [
            self.frame(text(joint, f"socket_{end}_frame"), f"{joint.get('name')}/")
            for end in ("parent", "child")
        ]
        return joint_rows(joint, ends[0], ends[1], [*(joint.find("coordinates") or ())])

    def collect(self, owner: Element) -> None:
        """The frames that a body or a joint has, also those on frames of its own."""
        prefix = f"{owner.get('name')}/"
        for e in owner.iterfind("*/PhysicalOffsetFrame"):
            path = text(e, "socket_parent")
            base = self.frame(owner.get("name", "") if path == ".." else path, prefix)
            where = (triple(e, "translation"), triple(e, "orientation"))
            self.frames[prefix + e.get("name", "")] = place(base, *where)

    def frame(self, path: str, prefix: str = "") -> Frame:
        """What a path such as `/bodyset/pelvis` or `pelvis_offset` leads to; names without a path
        are first those of the joint with this prefix."""
        parts = [part for part in path.split("/") if part not in ("", "..", ".")]
        if not parts:
            raise ValueError(f"{prefix or 'the model'}: a frame is missing")
        if prefix + parts[-1] in self.frames and len(parts) == 1:
            return self.frames[prefix + parts[-1]]
        if "/".join(parts[-2:]) in self.frames:
            return self.frames["/".join(parts[-2:])]
        name = body_name(parts[-1])
        if name is not None and name not in {e.get("name") for e in self.bodies()}:
            raise ValueError(f"{prefix}{path} is no body and no frame of a joint")
        return Frame(name)

    def on(self, element: Element, *sockets: str) -> Frame:
        """The frame that an element is fixed in."""
        tags = [*(f"socket_{name}" for name in sockets), "body", "body_name"]
        return self.frame(next((found for tag in tags if (found := text(element, tag))), ""))

    def markers(self) -> Iterator[MarkerRow]:
        for e in members(self.model, "MarkerSet"):
            frame = self.on(e, "parent_frame")
            at = place(frame, triple(e, "location")).at
            yield MarkerRow(e.get("name", ""), frame.body, at)

    def contacts(self) -> tuple[tuple[Sphere, ...], tuple[HalfSpace, ...], list[str]]:
        """Spheres, half-spaces, and what is neither."""
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
        """Couplers, welds and points, and what else there is."""
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
        prefix = f"{e.get('name')}/"
        tags = (f"socket_frame{number}", f"socket_body_{number}", f"body_{number}")
        frame = self.frame(next((found for tag in tags if (found := text(e, tag))), ""), prefix)
        angles = triple(e, f"orientation_body_{number}")
        return place(frame, triple(e, f"location_body_{number}"), angles)


# -- elements -------------------------------------------------------------------------------------


def body_name(name: str) -> str | None:
    """None for the ground."""
    return None if name == "ground" else name


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
    """So many numbers, zeros where the last ones are missing."""
    if len(values) > count:
        raise ValueError(f"{what}: {count} numbers are expected, got {len(values)}")
    return values + [0.0] * (count - len(values))


def coordinate_row(e: Element) -> CoordinateRow:
    """A coordinate."""
    limits = numbers(e, "range", (-np.inf, np.inf)) if text(e, "range") else None
    return CoordinateRow(
        e.get("name", ""),
        number(e, "default_value", number(e, "initial_value", 0.0)),
        None if limits is None else (limits[0], limits[-1]),
        flag(e, "clamped", False),
        flag(e, "locked", False),
    )


def joint_rows(joint: Element, parent: Frame, child: Frame, rows: list[Element]) -> list[JointRow]:
    """A joint between these frames; two, with a body between that has no mass, for a scapula."""
    if joint.tag == "ScapulothoracicJoint":
        return scapulothoracic(joint, parent, child, rows)
    return [joint_row(joint, parent, child, rows)]


def joint_row(joint: Element, parent: Frame, child: Frame, rows: list[Element]) -> JointRow:
    """One joint between these frames."""
    name = joint.get("name", "")
    coordinates = tuple(coordinate_row(e) for e in rows)
    if joint.tag == "CustomJoint":
        axes = [*(joint.find("SpatialTransform") or ())]
        if len(axes) != 6:
            raise ValueError(f"{named(joint)} has {len(axes)} axes in its SpatialTransform, not 6")
        motions = [transform(axis, f"{named(joint)}: {axis.get('name')}") for axis in axes]
        return JointRow(name, parent, child, coordinates, *map(moving, (motions[:3], motions[3:])))
    if joint.tag == "EllipsoidJoint":
        check_count(joint, rows, 3)
        radii = triple(joint, "radii_x_y_z", None)
        return on_ellipsoid(name, parent, child, coordinates, radii)
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
    """Without those that are always zero."""
    return tuple(m for m in motions if m.function != Constant(0.0))


def transform(axis: Element, where: str) -> Motion:
    """One of the six functions of a custom joint; its direction has the length 1, as in OpenSim."""
    holder = axis.find("function")
    function = function_in(axis if holder is None else holder, where)
    direction = np.array(triple(axis, "axis", None))
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        raise ValueError(f"{where}: its axis is zero")
    return Motion(components(direction / length), function, words(axis, "coordinates"))


def function_in(holder: Element | None, where: str) -> Function:
    """The function in an element; raises `ValueError` if there is none that is known."""
    for e in () if holder is None else holder:
        if e.tag == "function" or e.tag in ("axis", "coordinates"):
            continue
        with naming(where):
            return function_of(e)
    raise ValueError(f"{where} has no function")


def function_of(e: Element) -> Function:
    """An element of a function."""
    if e.tag == "Constant":
        return Constant(number(e, "value", 0.0))
    if e.tag == "LinearFunction":
        return Linear(tuple(numbers(e, "coefficients")))
    if e.tag == "PolynomialFunction":
        return Polynomial(tuple(numbers(e, "coefficients")))
    if e.tag == "Sine":
        amplitude, omega, phase = (number(e, tag) for tag in ("amplitude", "omega", "phase"))
        return Sine(amplitude, omega, phase, number(e, "offset", 0.0))
    if e.tag == "MultiplierFunction":
        return scaled(function_in(e.find("function"), named(e)), number(e, "scale", 1.0))
    if e.tag == "MultivariatePolynomialFunction":
        return multivariate(e)
    if e.tag in SPLINES:
        return through_points(e, SPLINES[e.tag])
    if e.tag == "GCVSpline":
        return natural(e)
    raise ValueError(f"functions of the kind {e.tag} are not known")


def through_points(e: Element, kind: str, outside: str = "linear") -> Points:
    """A function through points."""
    x, y = numbers(e, "x"), numbers(e, "y")
    if len(x) != len(y):
        raise ValueError(f"{named(e)} has {len(x)} points and {len(y)} values")
    return Points(kind, tuple(x), tuple(y), outside)


def natural(e: Element) -> Points:
    """A natural spline. Raises `ValueError` for one that smooths, for degree 7, and for fewer
    points than OpenSim takes."""
    half, variance = number(e, "half_order"), number(e, "error_variance", 0.0)
    if variance != 0.0:
        raise ValueError(
            f"{named(e)} smooths its points, as its error_variance is {variance:g}; known are "
            "splines through points, those of error_variance 0"
        )
    if half not in NATURAL:
        raise ValueError(f"{named(e)}: its half_order is one of 1, 2, 3, got {half:g}")
    found = through_points(e, *NATURAL[int(half)])
    if len(found.x) < 2 * half:
        raise ValueError(f"{named(e)} has {len(found.x)} points, not {2 * half:g} or more")
    return found


def multivariate(e: Element) -> Multivariate:
    """A polynomial of several coordinates."""
    coefficients = numbers(e, "coefficients")
    dimension, order = (number(e, tag) for tag in ("dimension", "order"))
    whole = dimension == int(dimension) > 0 and order == int(order) >= 0
    count = comb(int(dimension + order), int(order)) if whole else 0
    if count != len(coefficients):
        raise ValueError(
            f"{named(e)} has {len(coefficients)} coefficients, which is not the number of terms of "
            f"{dimension:g} coordinates to order {order:g}"
        )
    return Multivariate(int(order), tuple(coefficients))


def scaled(function: Function, scale: float) -> Function:
    """A function times a number, constants at once."""
    if isinstance(function, Constant):
        return Constant(scale * function.value)
    return function if scale == 1.0 else Scaled(function, scale)


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
