"""Models of MuJoCo, `.xml`, as tables and as trees: bodies with inertia, and their joints.

The format: https://mujoco.readthedocs.io/en/stable/XMLreference.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.etree.ElementTree import Element

from kinesym.base.checks import naming
from kinesym.models.files.description import (
    UPRIGHT,
    BodyRow,
    CoordinateRow,
    Description,
    Frame,
    JointRow,
    Linear,
    MarkerRow,
    Motion,
    Triple,
)
from kinesym.models.files.frames import DIRECTIONS, STRAIGHT, along, components, six
from kinesym.models.files.mjcf_bodies import SEVERAL, Joint, on, skeleton_of, unused
from kinesym.models.files.mjcf_geoms import Solid
from kinesym.models.files.mjcf_inertia import solids_of
from kinesym.models.files.mjcf_left_out import left_out_of
from kinesym.models.files.mjcf_passive import passive_of
from kinesym.models.files.mjcf_plain import plain_root, settings_of, word
from kinesym.models.files.mjcf_ties import couplers_of, loops_of
from kinesym.models.files.trees import FileTree, tree_of
from kinesym.models.files.xml import attribute, attributes, listed_numbers

#: Gravity where a file says nothing [m/s^2].
G: Triple = (0.0, 0.0, -9.81)


def read(
    path: str | Path, locked: Iterable[str] | None = None, without: Iterable[str] = ()
) -> FileTree:
    """Bodies and joints of a model of MuJoCo as a tree.

    Coordinates have the names of the joints, `ref` as their default value, and `range` among
    `tree.ranges`; no force keeps them there. Balls and free joints have `_rx`, `_ry`, `_rz` [rad]
    behind, angles about axes of the body in turn, free ones before that `_tx`, `_ty`, `_tz` [m]
    along axes that the body has in the file: all are 0 in the pose of the file, where MuJoCo has
    a quaternion and a place in the world. Joints without a name are `elbow_joint1`, ... of the body
    `elbow`, bodies without one `body_3`, as the third of the file. Speeds are rates of coordinates,
    `elbow_speed`, generalised forces `elbow_moment` [N m] or `rail_force` [N]. Bodies with several
    joints that are not about one point get massless ones between. Sites with a name are
    `tree.markers`.

    Understood: included files, classes of defaults, frames, all ways to say an orientation; inertia
    that is given or of boxes, spheres, capsules, cylinders, ellipsoids, with all that the compiler
    may do to it; stiffness, damping, armature of joints, which become `tree.passive`, also by
    `springdamper`; `gravcomp` of bodies; equalities of joints, of which the first becomes a
    polynomial of the second, and `connect` and `weld`, which close loops; none of them gives way,
    where those of MuJoCo do a little.

    locked : names of coordinates that stay at their default value. without : names of equalities
    that are left out: inverse dynamics is of open trees.

    Raises `FileNotFoundError`, and `ValueError` that names the element for what is no model or is
    not understood: meshes without inertial, `replicate`, `attach`, `composite`, `flexcomp`. Warns
    once of what would change the motion and is left out: actuators, contact, tendons, dry friction,
    fluids, plugins. Sensors, keyframes and all that is only seen are passed over.
    """
    description = parse(path)
    with naming(path):
        return tree_of(description, locked, without)


def parse(path: str | Path) -> Description:
    """The tables of a model of MuJoCo; raises as `read`."""
    with naming(path):
        return _Reader(plain_root(path)).description


class _Reader:
    """A model of MuJoCo, its elements spelled out."""

    def __init__(self, root: Element) -> None:
        self.root, self.settings = root, settings_of(root)
        self.skeleton = skeleton_of(root.findall("worldbody"), self.settings)

    @property
    def description(self) -> Description:
        """Description of the model: all tables."""
        off, option = self.settings.is_off, self.settings.option
        solids = solids_of(self.skeleton)
        made = [*self.links(solids)]
        ties = [] if off("equality", "constraint") else self.root.findall("equality/*")
        ties = [e for e in ties if e.get("active", "true") == "true"]
        return Description(
            self.root.get("model") or "mujoco",
            STRAIGHT if off("gravity") else attributes(option, "gravity", G),
            tuple(body for body, _ in made),
            tuple(joint for _, joint in made),
            tuple(couplers_of(ties, self.skeleton)),
            tuple(self.markers()),
            left_out=tuple(left_out_of(self.root, ties, self.skeleton)),
            element=self.root,
            loops=tuple(loops_of(ties, self.skeleton)),
            passive=tuple(passive_of(self.skeleton, solids)),
        )

    # -- bodies -----------------------------------------------------------------------------------

    def links(self, solids: Mapping[str, Solid]) -> Iterator[tuple[BodyRow, JointRow]]:
        """Bodies, each with its joint; massless ones between joints of one body."""
        taken = {node.name for node in self.skeleton.bodies}
        for node in self.skeleton.bodies:
            start, solid = node.start, solids[node.name]
            groups = [*grouped(part for joint in node.joints for part in self.parts(joint))]
            *before, last = groups or [[]]
            for k, parts in enumerate(before, 1):
                own = unused(f"{node.name}_{k}", taken)
                yield BodyRow(own, 0.0, STRAIGHT, (0.0,) * 6), joined(own, start, parts)
                start = Frame(own)
            carried = attribute(node.element, "gravcomp", 0.0)
            com, inertia = components(solid.com), six(solid.inertia)
            row = BodyRow(node.name, solid.mass, com, inertia, carried)
            yield row, joined(node.name, start, last)

    def markers(self) -> Iterator[MarkerRow]:
        """The sites that have a name."""
        for node in self.skeleton.nodes:
            for e, frame in node.having("site"):
                if name := e.get("name"):
                    yield MarkerRow(name, node.body, self.skeleton.placed(e, frame).at)

    # -- joints -----------------------------------------------------------------------------------

    def parts(self, joint: Joint) -> Iterator[_Part]:
        """The motions of a joint one after the other."""
        if joint.kind in SEVERAL:
            for name in joint.coordinates:
                slides, motion = name[-2] == "t", along(DIRECTIONS[name[-1]], name)
                yield _Part(slides, joint.at, CoordinateRow(name), motion)
            return
        ref, limits = self.skeleton.value(joint, "ref"), self.range_of(joint)
        row = CoordinateRow(joint.name, ref, limits)
        motion = Motion(joint.axis, Linear((1.0, -ref)), (joint.name,))
        yield _Part(joint.kind == "slide", joint.at, row, motion)

    def range_of(self, joint: Joint) -> tuple[float, float] | None:
        """The range of a coordinate, if there is one."""
        e, limited = joint.element, word(joint.element, "limited", ("auto", "true", "false"))
        own = self.settings.choice("autolimits", ("true", "false")) == "true"
        if limited == "false" or (limited == "auto" and not own):
            return None
        low, high = self.skeleton.in_units(joint, listed_numbers(e, "range", 2, (0.0, 0.0)))
        if low < high:
            return low, high
        if limited == "auto":
            return None
        raise ValueError(f"joint {joint.name} is limited to no range, {low:g} to {high:g}")


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
    at = next((part.at for part in parts if not part.slides), STRAIGHT)
    return JointRow(
        name,
        on(start, Frame(None, at)),
        Frame(name, at, UPRIGHT),
        tuple(part.coordinate for part in parts),
        tuple(part.motion for part in parts if not part.slides),
        tuple(part.motion for part in parts if part.slides),
    )
