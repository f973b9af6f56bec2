"""Points of a tree of bodies that touch the ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from kinesym.base.checks import check_kind, check_name, check_text, listed, listed_of
from kinesym.symbolic.expression import real_number
from kinesym.symbolic.hybrid.contacts import Contact, check_law
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.model import Hybrid
from kinesym.symbolic.hybrid.muscle import FESMuscle
from kinesym.symbolic.multibody.bodies import Load
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import Vector, vector
from kinesym.symbolic.names import check_known, t


@dataclass(frozen=True)
class GroundPoint:
    """A point of a body that cannot go below the ground.

    at : its place in the axes of the body, from its joint [m]. law, friction_coefficient,
    restitution : see `Contact`.

    Raises `ValueError` for what does not fit.
    """

    name: str
    body: str
    at: Sequence[Any] = (0, 0, 0)
    law: str = "slip"
    friction_coefficient: float = 0.0
    restitution: float = 0.0

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a point")
        where = f"point {self.name!r}: "
        check_text(self.body, f"{where}the name of its body")
        vector(self.at, f"{where}at")
        check_law(where, self.law, self.friction_coefficient, self.restitution)

    @property
    def normal(self) -> sp.Expr:
        """The force along `up` [N]."""
        return sp.Function(f"{self.name}_normal")(t)

    @property
    def friction(self) -> sp.Expr:
        """The force along the ground [N]; without friction there is none."""
        return sp.Function(f"{self.name}_friction")(t) if self.law != "slip" else sp.S.Zero

    def contact(self, height: sp.Expr, place: sp.Expr) -> Contact:
        """The contact of the point."""
        place, friction = (None, None) if self.law == "slip" else (place, self.friction)
        return Contact(
            self.name,
            height,
            self.normal,
            self.law,
            place,
            friction,
            self.friction_coefficient,
            self.restitution,
        )


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
    check_kind(tree, Tree, "kinesym.multibody")
    points = listed_of(points, GroundPoint, f"points of {tree.name} on the ground")
    for point in points:
        what = f"point {point.name!r}: {point.body} is no body of {tree.name}"
        check_known(point.body, [body.name for body in tree.bodies], what)
    n, s = _directions(up, along)
    loads = [
        Load(point.body, point.normal * n + point.friction * s, at=point.at) for point in points
    ]
    given = tree.loads
    touched = replace(
        tree, loads=(lambda bare: [*given(bare), *loads]) if callable(given) else (*given, *loads)
    )
    places = {p.name: touched.place(p.body, p.at) for p in points}
    lines = {f"{name}_height": n @ place for name, place in places.items()}
    lines |= {f"{name}_place": s @ place for name, place in places.items()}
    single = isinstance(outputs, (str, Mapping))
    wanted = [outputs] if single else listed(outputs, f"outputs of {tree.name}")
    model = touched.model(torques, [*wanted, lines], values)
    contacts = [p.contact(lines[f"{p.name}_height"], lines[f"{p.name}_place"]) for p in points]
    return Hybrid(model, {} if modes is None else modes, events, contacts, muscles)


def _directions(up: Sequence[Any], along: Sequence[Any]) -> tuple[Vector, Vector]:
    """Vectors `up` and `along`; raises `ValueError` unless they are orthogonal unit vectors."""
    n, s = vector(up, "up"), vector(along, "along")
    for what, direction in (("up", n), ("along", s)):
        for component in direction:
            real_number(component, f"a component of {what}")
    for fault, value in {
        "up is no unit vector": n @ n - 1,
        "along is no unit vector": s @ s - 1,
        "up and along are not orthogonal": n @ s,
    }.items():
        if abs(float(value)) > 1e-12:
            raise ValueError(fault)
    return n, s
