"""The body in the sagittal plane: 7 or 11 segments that turn about the axis sideways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import listed_of, shown
from kinesym.models.whole_body import ROOT, segments_of_body
from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import Prismatic, Revolute
from kinesym.symbolic.multibody.segments import PlanarPosition, PlanarSegment, Segment, owners
from kinesym.symbolic.multibody.tree import Tree

Array: TypeAlias = NDArray[np.float64]

#: The point between the hips, whose place tells where the body is.
HIP = "hip"
#: Points that fall together in the sagittal plane; in between if they do not quite.
TOGETHER = {"RH": HIP, "LH": HIP, "RS": "shoulder", "LS": "shoulder"}


@dataclass(frozen=True)
class Group:
    """Segments of the whole body that move as one; it turns about `proximal` of the plane, where
    `about` are, and has these points; its centre of mass by the name of the group if none."""

    name: str
    members: tuple[str, ...]
    about: tuple[str, ...]
    points: tuple[str, ...]

    @property
    def proximal(self) -> str:
        """Name of the proximal joint in the plane."""
        return TOGETHER.get(self.about[0], self.about[0])


def _leg(side: str, split: bool) -> list[Group]:
    feet = [
        Group(f"{side}foot", (f"{side}hindfoot", f"{side}forefoot"), (f"{side}A",), (f"{side}M",))
    ]
    if split:
        feet = [
            Group(f"{side}hindfoot", (f"{side}hindfoot",), (f"{side}A",), (f"{side}M",)),
            Group(f"{side}forefoot", (f"{side}forefoot",), (f"{side}M",), (f"{side}FG",)),
        ]
    return [
        Group(f"{side}thigh", (f"{side}thigh",), (f"{side}H",), (f"{side}K",)),
        Group(f"{side}shank", (f"{side}shank",), (f"{side}K",), (f"{side}A",)),
        *feet,
    ]


def _arm(side: str) -> Group:
    members = tuple(f"{side}{part}" for part in ("arm", "forearm", "hand"))
    return Group(f"{side}arm", members, (f"{side}S",), (f"{side}W",))


_TRUNK = ("pelvis", "torso", "neck", "head")
_ARMS = tuple(member for side in "RL" for member in _arm(side).members)

#: Head, arms and trunk in one, two thighs, shanks and feet; or with arms and feet in two parts.
GROUPS: Mapping[int, tuple[Group, ...]] = {
    7: (Group("HAT", (*_TRUNK, *_ARMS), ("RH", "LH"), ()), *_leg("R", False), *_leg("L", False)),
    11: (
        Group("trunk", _TRUNK, ("RH", "LH"), ("RS", "LS")),
        _arm("R"),
        _arm("L"),
        *_leg("R", True),
        *_leg("L", True),
    ),
}


def planar_segments(
    mass: float = 85.0,
    stature: float = 1.82,
    count: int = 7,
    segments: Sequence[Segment] | None = None,
) -> tuple[PlanarSegment, ...]:
    """The segments of a man of `mass` [kg] and `stature` [m] in the sagittal plane.

    count : 7 (head, arms and trunk `HAT`, thighs, shanks, feet) or 11 (`trunk`, arms, thighs,
    shanks, hind- and forefeet). segments : the 18 that are merged, such as measured ones; those of
    `segments_of_body` by default. Merged ones move as one in the upright posture: centres of mass
    are averaged, moments of inertia about y taken there by the parallel-axis theorem. `HAT` has no
    joint above the hip; its second point `HAT` is its centre of mass.

    Raises `ValueError` for another count and for a segment or point that is missing.
    """
    if count not in list(GROUPS):
        raise ValueError(
            f"there are bodies of {' and '.join(map(str, GROUPS))} segments in the "
            f"plane, not of {shown(count)}"
        )
    rows = (
        segments_of_body(mass, stature)
        if segments is None
        else listed_of(segments, Segment, "segments")
    )
    owners(rows, ROOT)
    upright: dict[str, Array] = {ROOT: np.zeros(2)}
    for row in rows:
        for point, (x, _, z) in row.points.items():
            upright[point] = upright[row.proximal] + (x, z)
    by_name = {row.name: row for row in rows}
    return tuple(_merged(group, by_name, upright) for group in GROUPS[count])


def _merged(
    group: Group, rows: Mapping[str, Segment], upright: Mapping[str, Array]
) -> PlanarSegment:
    """A group as one segment; points (2,) where they are when standing upright."""
    missing = [f"segment {name!r}" for name in group.members if name not in rows]
    missing += [f"point {name!r}" for name in (*group.about, *group.points) if name not in upright]
    if missing:
        raise ValueError(f"segment {group.name!r}: {missing[0]} is not in the table")
    members = [rows[name] for name in group.members]
    weights = np.array([row.mass for row in members])
    origin = np.mean([upright[name] for name in group.about], axis=0)
    centres = np.array([upright[row.proximal] + row.com[::2] for row in members]) - origin
    com = weights @ centres / weights.sum()
    inertia = sum(row.inertia[1] for row in members)
    inertia += weights @ ((centres - com) ** 2).sum(axis=1)
    points = {group.name: com}
    if group.points:
        place = np.mean([upright[name] for name in group.points], axis=0) - origin
        points = {TOGETHER.get(group.points[0], group.points[0]): place}
    pairs = {name: _pair(place) for name, place in points.items()}
    mass = float(weights.sum())
    return PlanarSegment(group.name, group.proximal, mass, _pair(com), float(inertia), pairs)


def _pair(place: Array) -> PlanarPosition:
    x, z = map(float, place)
    return x, z


def planar_body(segments: Sequence[PlanarSegment] | None = None) -> Tree:
    """A tree of segments that turn about y, on a hip that moves freely in the plane.

    Coordinates are the place of the hip `hip_px`, `hip_pz` [m] and the angle of each segment
    against its parent, `Rshank_y` [rad], positive from z towards x; against the world
    for those that hang on the hip. Speeds are `hip_vx`, `hip_vz` [m/s] and `Rshank_wy` [rad/s],
    forces the total one and torques of joints. `joint_angles` leads to angles in the world. With 7
    segments 9 degrees of freedom, with 11 it is 13.

    Raises `ValueError` for a proximal point that no earlier segment has, or that two have.
    """
    rows = planar_segments() if segments is None else listed_of(segments, PlanarSegment, "segments")
    carrier = owners(rows, HIP)
    at = {HIP: (0.0, 0.0)} | {p: place for row in rows for p, place in row.points.items()}
    bodies = [Body(HIP, 0, joint=Prismatic("xz"))]
    for row in rows:
        (cx, cz), (x, z), parent = row.com, at[row.proximal], carrier[row.proximal]
        inertia = 3 * (row.inertia,)  # about x and z any that a body can have: it turns about y
        com = (cx, 0, cz)
        bodies.append(Body(row.name, row.mass, com, inertia, Revolute("y"), (x, 0, z), parent))
    return Tree("planar_body", bodies, gravity=(0, 0, -9.81))


def joint_angles(segments: Sequence[PlanarSegment]) -> Array:
    """The matrix J (segments, segments) from angles in the world to those of joints: relative
    angles, rates and accelerations are J times absolute ones.

    Torques of joints tau and torques from the world M on segments are the same forces if
    M = J' tau.
    """
    numbers = {row.name: k for k, row in enumerate(segments)}
    result = np.eye(len(segments))
    carrier = owners(segments, HIP)
    for k, row in enumerate(segments):
        parent = carrier[row.proximal]
        if parent in numbers:
            result[k, numbers[parent]] = -1.0
    return result
