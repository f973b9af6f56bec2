"""Muscles of OpenSim: their elements as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from kinesym.models.files.description import (
    Constant,
    Frame,
    Function,
    Motion,
    MuscleRow,
    PathPoint,
    Wrap,
)
from kinesym.models.files.frames import DIRECTIONS, place
from kinesym.models.files.osim_frames import socket
from kinesym.models.files.xml import flag, members, named, number, numbers, text, triple

#: Tags of sets of points and of wrapping in a path, now and in files before version 2.
POINTS, _WRAPS = ("PathPointSet", "MusclePointSet"), ("PathWrapSet", "MuscleWrapSet")


#: Tags of the numbers of a muscle in files.
TAGS = {
    "max_force": ("max_isometric_force",),
    "optimal_length": ("optimal_fiber_length",),
    "slack_length": ("tendon_slack_length",),
    "pennation": ("pennation_angle_at_optimal", "pennation_angle"),
    "max_velocity": ("max_contraction_velocity", "Vmax"),
    "activation_time": ("activation_time_constant",),
    "deactivation_time": ("deactivation_time_constant",),
    "tendon_strain": ("tendon_strain_at_one_norm_force", "FmaxTendonStrain"),
    "passive_strain": ("passive_fiber_strain_at_one_norm_force", "FmaxMuscleStrain"),
    "damping": ("fiber_damping",),
    "width": ("active_force_width_scale",),
}


@dataclass(frozen=True)
class MuscleReader:
    """Reads muscles. on : what frame an element is fixed in. function_in : the function in an
    element. surfaces : by name."""

    model: Element
    on: Callable[..., Frame]
    function_in: Callable[[Element | None, str], Function]
    surfaces: dict[str, Wrap]

    def rows(self, forces: Iterable[Element]) -> Iterator[MuscleRow]:
        """The muscles among forces that act."""
        for e in forces:
            acts = flag(e, "appliesForce", True) and not flag(e, "isDisabled", False)
            if acts and e.find("max_isometric_force") is not None:
                yield self.row(e)

    def row(self, e: Element) -> MuscleRow:
        """A muscle."""
        path = e.find("GeometryPath")
        path = e if path is None else path
        points = tuple(self.point(p) for tag in POINTS for p in members(path, tag))
        if len(points) < 2:
            raise ValueError(f"{named(e)} has a path of {len(points)} points, not 2 or more")
        wraps = tuple(
            found for tag in _WRAPS for w in members(path, tag) for found in self.wrap(w, named(e))
        )
        return MuscleRow(e.get("name", ""), e.tag, self.numbers(e), points, wraps)

    def numbers(self, e: Element) -> dict[str, float]:
        """Numbers of a muscle; those that it does not say are of the defaults of the model."""
        default = self.model.find(f"defaults/{e.tag}")
        found: dict[str, float] = {}
        for name, tags in TAGS.items():
            for owner in (e, default):
                said = [tag for tag in tags if owner is not None and text(owner, tag)]
                if owner is not None and said and name not in found:
                    found[name] = number(owner, said[0])
        return found

    def point(self, e: Element) -> PathPoint:
        """A point of any kind."""
        frame = self.on(e, "parent_frame")
        when = None
        if text(e, "range"):
            when = (coordinate_of(e, ""), *pair(e))
        if e.find("x_location") is None:
            return PathPoint(frame, triple(e, "location"), when=when)
        moves = (self.move(e, axis) for axis in DIRECTIONS)
        return PathPoint(frame, moves=tuple(moves), when=when)

    def move(self, e: Element, axis: str) -> Motion:
        """Motion of a point along an axis."""
        function = self.function_in(e.find(f"{axis}_location"), named(e))
        coordinate = coordinate_of(e, f"{axis}_")
        constant = isinstance(function, Constant)
        return Motion(DIRECTIONS[axis], function, () if constant else (coordinate,))

    def wrap(self, e: Element, muscle: str) -> Iterator[Wrap]:
        """The surface that a path goes around, if there is one that acts and is known."""
        name = text(e, "wrap_object").rpartition("/")[2]
        if name not in {s.get("name") for s in self.model.iterfind(".//WrapObjectSet/objects/*")}:
            raise ValueError(f"{muscle} goes around {name}, which no body has")
        found = self.surfaces.get(name)
        if found is None:
            return
        first, last = map(int, pair(e, (-1.0, -1.0)))
        span = (first - 1 if first > 0 else 0, last - 1 if last > 0 else 10**6)
        yield Wrap(found.name, found.kind, found.sizes, found.frame, found.side, span)


def pair(e: Element, default: tuple[float, float] | None = None) -> tuple[float, float]:
    """The two numbers of a range."""
    values = numbers(e, "range", default)
    if len(values) != 2:
        raise ValueError(f"{named(e)}: its range is two numbers, got {len(values)}")
    return values[0], values[1]


def coordinate_of(e: Element, axis: str) -> str:
    """The coordinate of a moving or conditional point, without a path."""
    tags = (f"{axis}coordinate", f"{axis}coordinate_name")
    said = socket(e, f"{axis}coordinate")
    said = said or next((found for tag in tags if (found := text(e, tag))), "")
    return said.rpartition("/")[2]


def surfaces_of(owner: Element, frame: Frame) -> Iterator[tuple[str, Wrap | None]]:
    """The surfaces on a body by name; None for a kind that is not known."""
    for e in members(owner, "WrapObjectSet"):
        name = e.get("name", "")
        if not flag(e, "active", True):
            continue
        angles = triple(e, "xyz_body_rotation")
        where = place(frame, triple(e, "translation"), angles)
        side = text(e, "quadrant", "all")
        chosen = None
        if side != "all":
            chosen = ("xyz".index(side[-1]), -1 if side[0] == "-" else 1)
        if e.tag == "WrapCylinder":
            sizes = (number(e, "radius"), number(e, "length"))
            yield name, Wrap(name, "cylinder", sizes, where, chosen)
        elif e.tag == "WrapSphere":
            yield name, Wrap(name, "sphere", (number(e, "radius"),), where, chosen)
        elif e.tag == "WrapEllipsoid":
            yield name, Wrap(name, "ellipsoid", triple(e, "dimensions", None), where, chosen)
        else:
            yield name, None
