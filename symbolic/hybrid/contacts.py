"""Unilateral contacts with the ground, and their forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kinesym.base.checks import check_choice, check_text
from kinesym.symbolic.expression import real_expression, real_number
from kinesym.symbolic.names import named, t

#: Laws of friction along the ground.
LAWS = ("slip", "stick", "coulomb")

#: Contacts of one model at most, as many as runtime/native/c/hybrid/contact.h has room for.
MOST_CONTACTS = 8


@dataclass(frozen=True)
class Contact:
    """A unilateral contact: a point that cannot go below the ground.

    height : the gap, an expression of coordinates, and modes, that is not negative [m]. force :
    input of the model, the normal force along the height [N]. law : "slip", no friction; "stick",
    the point does not move along the ground while it presses; "coulomb". For the last two: place :
    expression along the ground [m]; or, where only the velocity has one direction, as across a
    skate or a wheel that turns, speed : expression of states [m/s]; friction : input, the force
    along it [N]; friction_coefficient : of "coulomb". restitution : Newton's coefficient of
    restitution e of impacts, 0 to 1: the rate of the height is -e times that before; with friction
    it can add energy, as is known.

    Raises `ValueError` for what does not fit.
    """

    name: str
    height: Any
    force: Any
    law: str = "slip"
    place: Any = None
    friction: Any = None
    friction_coefficient: float = 0.0
    restitution: float = 0.0
    speed: Any = None

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a contact")
        where = f"contact {self.name!r}: "
        for what in ("height", "place", "speed"):
            given = getattr(self, what)
            if what == "height" or given is not None:
                object.__setattr__(self, what, real_expression(given, where + what))
        check_law(where, self.law, self.friction_coefficient, self.restitution)
        if self.place is not None and self.speed is not None:
            raise ValueError(f"{where}its speed is that of its place; give one of them")
        given = self.place if self.speed is None else self.speed
        if self.law != "slip" and (given is None or self.friction is None):
            raise ValueError(
                f"{where}law {self.law!r} needs place= and friction=, or speed= and friction="
            )
        named(self.force, f"{where}force")
        if self.law != "slip":
            named(self.friction, f"{where}friction")


def check_law(where: str, law: Any, friction_coefficient: Any, restitution: Any) -> None:
    """Raise `ValueError` for an unknown law of friction, and for coefficients out of range."""
    check_choice(law, LAWS, f"{where}law")
    if not 0.0 <= real_number(restitution, f"{where}restitution") <= 1.0:
        raise ValueError(f"{where}restitution must be within 0 ... 1, got {restitution}")
    if not real_number(friction_coefficient, f"{where}the friction coefficient") >= 0.0:
        raise ValueError(
            f"{where}the friction coefficient must not be negative, got {friction_coefficient}"
        )


def with_friction(contacts: Sequence[Contact]) -> tuple[Contact, ...]:
    """Contacts with a force along the ground."""
    return tuple(contact for contact in contacts if contact.law != "slip")


def forces_of(contacts: Sequence[Contact]) -> list[Any]:
    """Their forces: along the heights, then along the ground."""
    return [*(c.force for c in contacts), *(c.friction for c in with_friction(contacts))]


def flags_of(contact: Contact) -> dict[str, str]:
    """Signals of a contact in a program of phases, by kind: whether it presses, is hit, does not
    slide."""
    kinds = ["closed", "hit"] if contact.law == "slip" else ["closed", "hit", "stuck"]
    return {kind: f"{kind}_{contact.name}" for kind in kinds}


def holds_of(contact: Contact) -> list[Any]:
    """Inputs that keep a contact where it is in a program of phases: what its height and its rate
    are changed by, and likewise along the ground; None for a place that it does not have."""
    names = ["hold", "hold_rate"]
    if contact.law != "slip":
        names += ["hold_along" if contact.place is not None else "", "hold_along_rate"]
    return [sp.Function(f"{contact.name}_{name}")(t) if name else None for name in names]
