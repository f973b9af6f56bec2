"""Points of a tree of bodies that touch the ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from kinesym.symbolic.hybrid import Contact, Event, Hybrid
from kinesym.symbolic.multibody.bodies import Load
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import Vector, add, dot, scale, vector
from kinesym.symbolic.muscle import FESMuscle
from kinesym.symbolic.names import dynamicsymbols


@dataclass(frozen=True)
class GroundPoint:
    """A point of a body that cannot go below the ground.

    at : its place in the axes of the body, from its joint [m]. law, friction_coefficient,
    restitution : see `Contact`.
    """

    name: str
    body: str
    at: Sequence[Any] = (0, 0, 0)
    law: str = "slip"
    friction_coefficient: float = 0.0
    restitution: float = 0.0

    @property
    def normal(self) -> sp.Expr:
        """The force along `up` [N]."""
        return dynamicsymbols(f"{self.name}_normal")

    @property
    def friction(self) -> sp.Expr:
        """The force along the ground [N]; without friction there is none."""
        return dynamicsymbols(f"{self.name}_friction") if self.law != "slip" else sp.S.Zero


def on_ground(
    tree: Tree,
    points: Sequence[GroundPoint],
    torques: Mapping[Any, Any] | None = None,
    outputs: Iterable[str | Mapping[str, sp.Expr]] = (),
    values: Mapping[Any, float] | None = None,
    modes: Mapping[Any, float] | None = None,
    events: Sequence[Event] = (),
    muscles: Sequence[FESMuscle] = (),
    up: Sequence[Any] = (0, 0, 1),
    along: Sequence[Any] = (1, 0, 0),
) -> Hybrid:
    """A tree whose points touch the ground through the origin of the world.

    torques, outputs, values : see `Tree.model`. modes, events, muscles : see `Hybrid`. up, along :
    the normal of the ground, and the direction in which there is friction; unit vectors.
    Forces are inputs `heel_normal` and `heel_friction` [N] of a point `heel`, outputs
    `heel_height` and `heel_place` [m].

    Raises `ValueError` as `Tree` and `Hybrid`, and for directions that are not orthogonal units.
    """
    n, s = vector(up), vector(along)
    for what, value in {"up is no unit vector": dot(n, n) - 1,
                        "along is no unit vector": dot(s, s) - 1,
                        "up and along are not orthogonal": dot(n, s)}.items():  # fmt: skip
        if abs(float(value)) > 1e-12:
            raise ValueError(what)
    loads = [Load(point.body, add(scale(point.normal, n), scale(point.friction, s)), at=point.at)
             for point in points]  # fmt: skip
    given = tree.loads
    touched = replace(tree, loads=(lambda bare: [*given(bare), *loads]) if callable(given)
                      else (*given, *loads))  # fmt: skip
    places: dict[str, Vector] = {p.name: touched.place(p.body, p.at) for p in points}
    lines = {f"{name}_height": dot(n, place) for name, place in places.items()}
    lines |= {f"{name}_place": dot(s, place) for name, place in places.items()}
    asked = [outputs] if isinstance(outputs, (str, Mapping)) else list(outputs)
    model = touched.model(torques, [*asked, lines], values)
    contacts = [Contact(p.name, lines[f"{p.name}_height"], p.normal, p.law,
                        None if p.law == "slip" else lines[f"{p.name}_place"],
                        None if p.law == "slip" else p.friction,
                        p.friction_coefficient, p.restitution) for p in points]  # fmt: skip
    return Hybrid(model, modes or {}, events, contacts, muscles)
