"""Trees whose bodies are longer or shorter, as of another person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from kinesym.base.checks import check_identifier, listed, mapping, shown
from kinesym.symbolic.multibody.bodies import Body, inertia_matrix, mass_of, planar_axis
from kinesym.symbolic.multibody.joints import Custom
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES, Vector, matrix, vector
from kinesym.symbolic.names import check_known

#: Factors of bodies along their axes.
Factors = Mapping[str, Vector]

ONE = Vector((sp.S.One,) * 3)


def factors_of(tree: Tree, groups: Mapping[str, Sequence[str]]) -> Factors:
    """The factors of all bodies along their axes, 1 where none is named.

    groups : bodies by the name of their factor, such as {"thigh": ("femur_r", "femur_l")};
    "femur_r.y" is a body along one axis, "femur_r.xz" along two.

    Raises `ValueError` for names of no body, axes that are none, and a body that has two factors
    along an axis.
    """
    found = {body.name: [sp.S.One] * 3 for body in tree.bodies}
    for name, parts in mapping(groups, "factors", "{name: bodies}").items():
        check_identifier(name, "the name of a factor")
        for part in [parts] if isinstance(parts, str) else listed(parts, f"bodies of {name}"):
            body, _, axes = str(part).partition(".")
            check_known(body, found, f"factor {name}: {body!r} is no body of {tree.name}")
            if set(axes) - set(AXES):
                raise ValueError(f"factor {name}: axes are some of x, y, z, got {shown(axes)}")
            for axis in axes or AXES:
                k = AXES.index(axis)
                if found[body][k] != 1:
                    raise ValueError(f"body {body} has two factors along {axis}")
                found[body][k] = sp.Symbol(name)
    return {body: Vector(row) for body, row in found.items()}


def scaled(tree: Tree, factors: Factors, mass: Any = None) -> Tree:
    """The tree with bodies stretched along their axes: joints, centres of mass, inertias of the
    same mass spread likewise. mass : of all bodies together, shares stay as they are [kg].

    Translations of joints that are functions of coordinates go with the body before; a coordinate
    that is a length stays one.
    """
    total = sp.Add(*(mass_of(body) for body in tree.bodies))
    ratio = sp.S.One if mass is None else mass / total
    return replace(tree, bodies=[stretched(body, factors, ratio) for body in tree.bodies])


def stretched(body: Body, factors: Factors, ratio: sp.Expr) -> Body:
    """One body, and where its joint is on the one before it."""
    own, inner = factors[body.name], factors[body.parent] if body.parent else ONE
    joint = body.joint
    if isinstance(joint, Custom):
        shift = [along(e, k, joint) for e, k in zip(vector(joint.translation), inner, strict=True)]
        joint = replace(joint, translation=shift, center=times(own, joint.center))
    return replace(
        body,
        mass=ratio * mass_of(body),
        com=times(own, body.com),
        inertia=stretched_inertia(body, own, ratio),
        joint=joint,
        at=times(inner, body.at),
        end=None if body.end is None else times(own, body.end),
    )


def times(factors: Vector, values: Any) -> Vector:
    """Component by component."""
    return Vector(f * e for f, e in zip(factors, vector(values), strict=True))


def along(e: sp.Expr, factor: sp.Expr, joint: Custom) -> sp.Expr:
    """A component of a translation, scaled but for coordinates that are lengths."""
    stays = sp.S.Zero
    for q in joint.coordinates:
        slope = e.diff(q)
        if not any(slope.has(other) for other in joint.coordinates):
            stays += slope * q
    return factor * (e - stays) + stays


def stretched_inertia(body: Body, factors: Vector, ratio: sp.Expr) -> Any:
    """The inertia of the same mass, each part of which is where its place is stretched to."""
    rows, axis = inertia_matrix(body), planar_axis(inertia_matrix(body))
    if len(set(factors)) == 1:
        return (ratio * factors[0] ** 2) * rows
    if axis is not None:  # as if it were spread in its plane alike
        wide = [factors[k] ** 2 for k in range(3) if k != axis]
        return (ratio * (wide[0] + wide[1]) / 2) * rows
    half = (rows[0][0] + rows[1][1] + rows[2][2]) / 2
    spread = [
        [factors[i] * factors[j] * (half * int(i == j) - rows[i][j]) for j in range(3)]
        for i in range(3)
    ]
    trace = spread[0][0] + spread[1][1] + spread[2][2]
    return matrix(
        [ratio * (trace * int(i == j) - spread[i][j]) for j in range(3)] for i in range(3)
    )
