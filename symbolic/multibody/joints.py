"""Joints: motions of the axes of a body in those of the body before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import listed, shown
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, Matrix, Vector, matrix, vector
from kinesym.symbolic.names import name_of, t

#: +1 for the sequences in the order xyzxy, -1 for the others.
_PARITY = {"xyz": 1, "yzx": 1, "zxy": 1, "xzy": -1, "zyx": -1, "yxz": -1}


@dataclass(frozen=True)
class Fixed:
    """No motion: a body welded to another."""


@dataclass(frozen=True)
class Revolute:
    """A rotation about an axis that both bodies share.

    axis : "x", "y", "z", or three numbers (any length), in the axes of either body.
    """

    axis: str | Sequence[float] = "z"

    @property
    def direction(self) -> Vector:
        """The axis as a unit vector."""
        if isinstance(self.axis, str):
            return unit(self.axis)
        return normalised(vector(self.axis, "the axis of a joint"))


@dataclass(frozen=True)
class Prismatic:
    """Translations along one, two or three axes of the inner body, such as "z" or "xyz"."""

    axes: str = "z"


@dataclass(frozen=True)
class Planar:
    """Two translations along axes of the inner body, such as "xz", then a rotation about the third:
    any motion in a plane."""

    plane: str = "xz"


@dataclass(frozen=True)
class Universal:
    """Two rotations one after the other about axes of the moving body, such as "xz"."""

    axes: str = "xy"


@dataclass(frozen=True)
class Spherical:
    """Any rotation, in Bryant angles: about three different axes of the moving body in turn.

    Generalised speeds are the components of the relative angular velocity in the axes of the outer
    body. The rates of the angles are singular where the second one is +-pi/2.
    """

    sequence: str = "xyz"


@dataclass(frozen=True)
class Oriented:
    """Any rotation, as `Spherical`, but relative to the world, not to the parent: by Bryant angles
    of the body, with its angular velocity in its own axes as speeds. `Oriented("y")`,
    in a plane: by its angle from the world about one axis, and the rate of that.

    Generalised forces are torques between world and body.
    """

    sequence: str = "xyz"


@dataclass(frozen=True)
class Free:
    """Any motion: a translation in the axes of the inner body, then as `Spherical`."""

    sequence: str = "xyz"


@dataclass(frozen=True)
class Custom:
    """A motion that functions of coordinates give: knees that roll and glide, linkages, cams.

    coordinates : functions of time, such as `dynamicsymbols("knee")`; another joint may have them,
        too, and follows. Speeds are their rates, `knee_speed`; forces `knee_moment` [N m], or
        `knee_force` [N] of one that turns nothing.
    speeds : other functions of time for the rates, one for each coordinate.
    rotations : (axis, angle) of rotations about axes of the moving body in turn: "x", "y", "z" or
        three numbers, and an expression of the coordinates [rad].
    translation : of the joint in the axes of the parent, before the rotations, from `at` of the
        body: three expressions of the coordinates [m].
    attitude : the rotation from the axes of the body to those of the parent where all angles are
        zero, a 3x3 matrix.
    center : the joint from the origin of the body, in the axes of the body [m]; other places of the
        body are from its origin.

    Functions should have two continuous derivatives, as those of `ks.table`.
    """

    coordinates: Sequence[Any] = ()
    rotations: Sequence[tuple[str | Sequence[float], Any]] = ()
    translation: Sequence[Any] = (0, 0, 0)
    attitude: Sequence[Sequence[Any]] = IDENTITY
    center: Sequence[Any] = (0, 0, 0)
    speeds: Sequence[Any] = ()

    @property
    def turns(self) -> tuple[tuple[Vector, sp.Expr], ...]:
        """Axes as unit vectors, and angles as expressions."""
        return tuple(
            (Revolute(axis).direction, real_expression(angle, "an angle of a joint"))
            for axis, angle in self.rotations
        )


Joint: TypeAlias = (
    Fixed | Revolute | Prismatic | Planar | Universal | Spherical | Oriented | Free | Custom
)


@lru_cache(maxsize=256)
def normalised(direction: Vector) -> Vector:
    """The unit vector of this direction."""
    return Vector(sp.Matrix(direction).normalized())


def unit(axis: str) -> Vector:
    """The unit vector along "x", "y" or "z"."""
    return Vector(sp.Integer(axis == other) for other in AXES)


#: The field with axes, how many they may be, and what is expected, by the kind of joint.
_RULES: dict[type, tuple[str, Sequence[int], str]] = {
    Prismatic: ("axes", (1, 2, 3), "the axes of a prismatic joint are some of x, y, z"),
    Planar: ("plane", (2,), "the plane of a planar joint has two axes such as 'xz'"),
    Universal: ("axes", (2,), "a universal joint has two different axes such as 'xy'"),
    **dict.fromkeys(
        (Spherical, Free),
        ("sequence", (3,), "Bryant angles turn about three different axes such as 'xyz'"),
    ),
    Oriented: (
        "sequence",
        (1, 3),
        "Bryant angles turn about three different axes such as 'xyz', in a plane about one",
    ),
}


def check_joint(joint: Joint) -> None:
    """Raise `ValueError` for what is no joint, and for axes that make none."""
    if isinstance(joint, Revolute):
        axis = joint.axis
        if isinstance(axis, str) and axis not in list(AXES):
            raise ValueError(f"the axis of a revolute joint is x, y, z or a vector, got {axis!r}")
        if not isinstance(axis, str) and (np.shape(axis) != (3,) or not any(axis)):
            raise ValueError(
                f"the axis of a revolute joint has three components, not all 0, got {shown(axis)}"
            )
    elif isinstance(joint, Custom):
        check_custom(joint)
    elif type(joint) in _RULES:
        name, counts, expected = _RULES[type(joint)]
        axes = getattr(joint, name)
        different = isinstance(axes, str) and len(axes) == len(set(axes) & set(AXES))
        if not different or len(axes) not in counts:
            raise ValueError(f"{expected}, got {shown(axes)}")
    elif not isinstance(joint, Fixed):
        raise ValueError(
            "a joint is Fixed(), Revolute('x'), Prismatic('x'), Planar('xz'), Universal('xy'), "
            f"Spherical('xyz'), Oriented('xyz'), Free('xyz') or Custom([q], [('z', q)]), got "
            f"{shown(joint)}"
        )


def check_custom(joint: Custom) -> None:
    """Raise `ValueError` for coordinates that are none or move nothing, for functions of others,
    and for what is no rotation."""
    what = "a custom joint"
    coordinates = listed(joint.coordinates, f"the coordinates of {what}")
    speeds = listed(joint.speeds, f"the speeds of {what}")
    for name, given in (("coordinates", coordinates), ("speeds", speeds)):
        for q in given:
            if not isinstance(q, AppliedUndef) or q.args != (t,):
                raise ValueError(f"the {name} of {what} are functions of time, got {shown(q)}")
    if speeds and len(speeds) != len(coordinates):
        raise ValueError(f"{what} has {len(coordinates)} coordinates and {len(speeds)} speeds")
    for q in coordinates:
        if coordinates.count(q) > 1:
            raise ValueError(f"{what} has the coordinate {name_of(q)} twice")
    for pair in listed(joint.rotations, f"the rotations of {what}"):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"the rotations of {what} are pairs (axis, angle), got {shown(pair)}")
        check_joint(Revolute(pair[0]))
    rotation_matrix(joint.attitude, f"the attitude of {what}")
    vector(joint.center, f"the center of {what}")
    functions = [*(angle for _, angle in joint.turns), *vector(joint.translation, "a translation")]
    used = set[AppliedUndef]().union(*(f.atoms(AppliedUndef, sp.Derivative) for f in functions))
    if foreign := used - set(coordinates):
        raise ValueError(f"{what} holds {min(map(str, foreign))}, which is none of its coordinates")
    if still := [q for q in coordinates if q not in used]:
        raise ValueError(
            f"the coordinate {name_of(still[0])} of {what} moves nothing; leave it out"
        )


def rotation_matrix(rows: Sequence[Sequence[Any]], what: str) -> Matrix:
    """A rotation from its rows; raises `ValueError` for what is none."""
    found = matrix(vector(row, f"a row of {what}") for row in rows)
    turn = sp.Matrix(found)
    if turn.shape != (3, 3) or (
        not turn.free_symbols and max(map(abs, turn * turn.T - sp.eye(3))) > 1e-9
    ):
        raise ValueError(f"{what} is a rotation matrix, got {shown(rows)}")
    return found


def turn(direction: Vector, sine: sp.Expr, cosine: sp.Expr) -> Matrix:
    """The rotation about a unit vector; it takes components in outer axes to inner ones."""
    x, y, z = direction
    rest = 1 - cosine
    rows = (
        (cosine + x * x * rest, x * y * rest - z * sine, x * z * rest + y * sine),
        (y * x * rest + z * sine, cosine + y * y * rest, y * z * rest - x * sine),
        (z * x * rest - y * sine, z * y * rest + x * sine, cosine + z * z * rest),
    )
    return matrix(rows)


def bryant_rates(sequence: str, sines: Vector, cosines: Vector, w: Vector) -> Vector:
    """Rates of Bryant angles from the relative angular velocity w in outer axes.

    For "xyz": a' = (w_x cos c - w_y sin c)/cos b, b' = w_x sin c + w_y cos c, c' = w_z - a' sin b.
    """
    sign = _PARITY[sequence]
    i, j, k = (w[AXES.index(axis)] for axis in sequence)
    first = (i * cosines[2] - sign * j * sines[2]) / cosines[1]
    second = sign * i * sines[2] + j * cosines[2]
    return Vector((first, second, k - sign * sines[1] * first))
