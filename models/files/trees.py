"""Tree of bodies from the tables of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray
from sympy.core.function import AppliedUndef

from kinesym.base.checks import Named, listed
from kinesym.base.quiet import quietly, warn
from kinesym.models.files.description import (
    UPRIGHT,
    BodyRow,
    Description,
    JointRow,
    Loop,
    Points,
    Scaled,
    Triple,
)
from kinesym.models.files.expressions import (
    coordinate_values,
    exact,
    expression_of,
    identifier,
)
from kinesym.models.files.frames import between, turned
from kinesym.models.files.passive import number, passive_forces
from kinesym.models.files.paths import MusclePath, paths_of
from kinesym.symbolic.multibody.bodies import Body, Load, check_moments, planar_axis
from kinesym.symbolic.multibody.joints import Custom
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import ZERO, Vector, vector
from kinesym.symbolic.names import check_known, names_of


@dataclass(frozen=True, repr=False, eq=False)
class FileTree(Tree):
    """Tree that was read from a file, with further contents of the file.

    description : all tables of the file, see `kinesym.models.files.description`. fixed : values of
    coordinates that are no states, as they are locked [rad, m].
    """

    description: Description = field(kw_only=True)
    fixed: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @property
    def defaults(self) -> dict[str, float]:
        """Values of the coordinates to begin with, by name [rad, m]."""
        rows = {identifier(name): row for name, row in self.description.coordinates.items()}
        found = {name: rows[name].default for name in self.coordinates}
        return Named("coordinate", found)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Ranges of coordinates, by name [rad, m]: bounds for an optimal control problem."""
        rows = self.description.coordinates.values()
        found = {identifier(row.name): row.range for row in rows}
        known = {name: ends for name in self.coordinates if (ends := found[name]) is not None}
        return Named("coordinate with a range", known)

    @cached_property
    def muscles(self) -> dict[str, MusclePath]:
        """The paths of the muscles by name, for lengths and moment arms in any poses."""
        return Named("muscle", paths_of(self.description, self.fixed, self.ranges))

    @property
    def placed(self) -> dict[str, tuple[str, Triple]]:
        """Bodies of the markers and their places in the axes of these, by name [m]."""
        rows = self.description.markers
        found = {row.name: (identifier(row.body), row.at) for row in rows if row.body}
        return Named("marker on a body", found)

    @property
    def markers(self) -> dict[str, Vector]:
        """Places of the markers in world axes as expressions of the coordinates [m]."""
        found = {
            row.name: self.place(row.body and identifier(row.body), exact(row.at))
            for row in self.description.markers
        }
        return Named("marker", found)


def tree_of(
    description: Description,
    locked: Iterable[str] | None = None,
    without: Iterable[str] = (),
) -> FileTree:
    """Tree of a file; warns of contents of the file that the tree does not have.

    locked : names of coordinates that stay at their default values; by default those that the file
    locks. without : names of couplers and loops that are left out.

    Raises `ValueError` for joints that make no tree, for couplers in a circle, and what `Body`
    refuses.
    """
    description = without_constraints(description, without)
    rows = description.coordinates
    if locked is None:
        names = [name for name, row in rows.items() if row.locked]
    else:
        names = names_of(listed(locked, "locked"), "locked")
    for name in names:
        check_known(name, rows, f"locked: {name} is no coordinate of {description.name}")
    check_names(rows)
    fixed = {name: rows[name].default for name in names}
    values = coordinate_values(description, fixed)
    bodies, order = {row.name: row for row in description.bodies}, outwards(description)
    for joint in order:
        for frame in (joint.parent, joint.child):
            check_sizes(f"joint {joint.name}", {"place": frame.at})
    for one in description.passive:
        numbers = {"stiffness": one.stiffness, "damping": one.damping, "armature": [one.armature]}
        check_sizes(f"coordinate {one.coordinates[0]}", numbers)
    about = turned_about(order)
    faults = {name: fault_of(row, about.get(name, UPRIGHT)) for name, row in bodies.items()}
    made = [body_of(bodies[j.child.body or ""], j, values, faults) for j in order]
    sentences = (*omitted(description), *kept_moments(faults.values()), *rough(description))
    for sentence in sentences:
        warn(f"{description.name}: {sentence}", stacklevel=3)
    tree = FileTree(
        description.name,
        made,
        gravity=exact(description.gravity),
        loads=[carrying(row, description.gravity) for row in description.bodies if row.carried],
        passive=passive_forces(description.passive, values),
        description=description,
        fixed={identifier(name): value for name, value in fixed.items()},
    )
    for row in description.loops:
        tree = closed(tree, row)
    return tree


#: Masses, places and moments are less [kg, m, kg m^2]; products of larger ones overflow.
LARGEST = 1e30
#: Faults of the smoothness of functions by points.
ROUGH = {"linear": "has corners, at which speeds jump", "step": "jumps, at which bodies jump"}


def kept_moments(faults: Iterable[str]) -> Iterator[str]:
    """Note on faulty moments of inertia, which are kept; no note without faults."""
    told = [fault for fault in faults if fault]
    if told:
        more = f"; {len(told) - 3} more of the kind" if len(told) > 3 else ""
        yield (
            f"{'; '.join(told[:3])}{more}; they are taken as they are, as by OpenSim, Pinocchio "
            "and Bullet"
        )


def omitted(description: Description) -> Iterator[str]:
    """Note on what the tables of the file do not have."""
    parts = description.left_out
    if parts:
        yield f"{', '.join(parts)} {'is' if len(parts) == 1 else 'are'} left out"


def turned_about(joints: Iterable[JointRow]) -> dict[str | None, NDArray[np.float64]]:
    """The directions (k, 3) about which bodies turn, in their axes, of joints outwards; all of them
    are parallel always if they are at rest."""
    found: dict[str | None, NDArray[np.float64]] = {None: np.zeros((0, 3))}
    for joint in joints:
        own = [turned(joint.parent.turn, motion.direction) for motion in joint.rotations]
        rows = np.vstack([found[joint.parent.body], np.reshape(own, (-1, 3))])
        found[joint.child.body] = rows @ np.array(between(joint.parent.turn, joint.child.turn))
    return found


def rough(description: Description) -> Iterator[str]:
    """Joints and couplers that move by functions without the derivatives that dynamics takes."""
    moved = [
        (f"joint {joint.name}", motion.function)
        for joint in description.joints
        for motion in (*joint.rotations, *joint.translations)
    ]
    moved += [(f"constraint {row.name}", row.function) for row in description.couplers]
    for what, function in moved:
        while isinstance(function, Scaled):
            function = function.function
        if isinstance(function, Points) and function.kind in ROUGH and len(function.x) > 2:
            yield (
                f"{what} moves by a function that {ROUGH[function.kind]}, without a force for that "
                "in the equations; a spline through the points is smooth"
            )


def without_constraints(description: Description, names: Iterable[str]) -> Description:
    """The tables without the couplers and loops of these names."""
    names = names_of(listed(names, "without"), "without")
    every = [row.name for row in description.couplers]
    every += [row.name for row in description.loops]
    for name in names:
        check_known(name, every, f"without: {name} is no constraint of {description.name}")
    couplers = tuple(row for row in description.couplers if row.name not in names)
    loops = tuple(row for row in description.loops if row.name not in names)
    return replace(description, couplers=couplers, loops=loops)


def closed(tree: FileTree, row: Loop) -> FileTree:
    """The tree with a loop."""
    first, second = row.first, row.second
    if first.body is None:
        first, second = second, first
    if first.body == second.body or first.body is None:
        raise ValueError(f"constraint {row.name} holds {first.body or 'the ground'} by itself")
    weld = row.kind == "weld"
    turn = between(second.turn, first.turn) if weld else UPRIGHT
    made = tree.close(
        identifier(first.body),
        second.body and identifier(second.body),
        row.kind,
        at=exact(first.at),
        to=exact(second.at),
        attitude=[exact(line) for line in turn],
        name=identifier(row.name),
    )
    return cast(FileTree, made)


def plain(tree: FileTree) -> FileTree:
    """The tree that the description of this one makes, quietly."""
    names = [name for name in tree.description.coordinates if identifier(name) in tree.fixed]
    with quietly():
        return tree_of(tree.description, names)


def outwards(description: Description) -> list[JointRow]:
    """The joints, each after that of its parent."""
    inward = dict[str, JointRow]()
    names = [row.name for row in description.bodies]
    for joint in description.joints:
        child = joint.child.body
        if child is None:
            raise ValueError(f"joint {joint.name} moves the ground; exchange its bodies")
        if child in inward:
            raise ValueError(
                f"body {child} has two joints, {inward[child].name} and {joint.name}: a loop; "
                "leave one out and close the tree with Tree.close"
            )
        inward[child] = joint
    for name in names:
        if name not in inward:
            raise ValueError(f"body {name} has no joint")
    order = list[JointRow]()
    done: set[str | None] = {None}
    while len(order) < len(names):
        ready = [n for n in names if n not in done and inward[n].parent.body in done]
        if not ready:
            left = next(name for name in names if name not in done)
            raise ValueError(f"joint {inward[left].name} is in a circle of joints")
        order += [inward[name] for name in ready]
        done.update(ready)
    return order


def body_of(
    row: BodyRow, joint: JointRow, values: Mapping[str, sp.Expr], faults: Mapping[str, str]
) -> Body:
    """A body with its joint, in the axes that both bodies have in the file."""
    rotations = [
        (exact(turned(joint.parent.turn, motion.direction)), expression_of(motion, values))
        for motion in joint.rotations
    ]
    shifts = (
        expression_of(motion, values) * vector(exact(turned(joint.parent.turn, motion.direction)))
        for motion in joint.translations
    )
    translation = sum(shifts, ZERO)
    rotations = [(axis, angle) for axis, angle in rotations if angle != 0]
    used = {
        q for e in (*translation, *(angle for _, angle in rotations)) for q in e.atoms(AppliedUndef)
    }
    attitude = [exact(line) for line in between(joint.parent.turn, joint.child.turn)]
    order = [q for q in dict.fromkeys(values.values()) if q in used]
    made = Custom(order, rotations, translation, attitude, exact(joint.child.at))
    parent = joint.parent.body
    return Body(
        identifier(row.name),
        number(row.mass),
        exact(row.com),
        inertia_of(row).tolist(),
        made,
        exact(joint.parent.at),
        parent and identifier(parent),
        reflected=bool(faults[row.name]),
    )


def check_sizes(where: str, numbers: Mapping[str, Iterable[float]]) -> None:
    """Raise `ValueError` for numbers, by their meaning, that are implausibly large."""
    for what, values in numbers.items():
        largest = max(values, key=abs, default=0.0)
        if abs(largest) > LARGEST:
            raise ValueError(f"{where}: its {what}, {largest:g}, is beyond that of anything")


def carrying(row: BodyRow, gravity: Triple) -> Load:
    """The force that takes weight off a body."""
    force = exact(-row.carried * row.mass * g for g in gravity)
    return Load(identifier(row.name), force, at=exact(row.com))


def fault_of(row: BodyRow, about: ArrayLike) -> str:
    """Fault of the inertia of a body that turns about these directions (k, 3), in words; empty if
    there is none. Raises `ValueError` as `check_sizes`."""
    numbers = {"mass": [row.mass], "centre of mass": row.com, "inertia": row.inertia}
    check_sizes(f"body {row.name}", numbers)
    where = f"body {row.name}"
    if row.mass == 0.0 and any(row.inertia):
        return f"{where} has no mass, but moments of inertia"
    try:
        check_moments(inertia_of(row))
    except ValueError as error:
        return f"{where}: {error}"
    axis = planar_axis(inertia_of(row))
    if axis is not None and np.delete(np.abs(about), axis, axis=1).max(initial=0.0) > 1e-9:
        return (
            f"{where} has a moment of inertia about its axis {'xyz'[axis]} only, and turns about "
            "others, too"
        )
    return ""


def inertia_of(row: BodyRow) -> sp.Matrix:
    """The matrix of inertia."""
    xx, yy, zz, xy, xz, yz = map(number, row.inertia)
    return sp.Matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def check_names(names: Iterable[str]) -> None:
    """Raise `ValueError` for names that are one as identifiers."""
    known = dict[str, str]()
    for name in names:
        other = known.setdefault(identifier(name), name)
        if other != name:
            raise ValueError(
                f"the coordinates {other} and {name} are both {identifier(name)} with letters, "
                "digits and underscores only; rename one"
            )
