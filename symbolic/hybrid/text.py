"""A system with events as entries of a document, and its arguments from these."""

from __future__ import annotations

from typing import Any

import sympy as sp

from kinesym.base.checks import naming
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.hybrid.contacts import Contact
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.hybrid.muscle import FESMuscle
from kinesym.symbolic.names import name_of
from kinesym.symbolic.text.document import Entries
from kinesym.symbolic.text.grammar import Scope
from kinesym.symbolic.text.lookups import expression
from kinesym.symbolic.text.writer import Writer

#: Expressions of a muscle; a recruitment may be "input" instead.
_OF_MUSCLE = ("rate", "F0", "k0", "ks", "Lc0", "recruitment", "force_factor", "stiffness_factor")


def parts_of_muscle(muscle: FESMuscle) -> dict[str, sp.Expr]:
    """Expressions of a muscle by name."""
    given = {key: getattr(muscle, key) for key in _OF_MUSCLE}
    return {key: real_expression(e, key) for key, e in given.items() if not isinstance(e, str)}


def event_entry(event: Event, write: Writer) -> dict[str, Any]:
    """An event; what it has by default is left out."""
    flags = {key: True for key in ("level", "stop", "failure") if getattr(event, key)}
    return {
        "name": event.name,
        "guard": write(event.guard),
        "direction": event.direction,
        **({"scale": event.scale} if event.scale != 1.0 else {}),
        **({"when": write(event.when)} if event.when != 1 else {}),
        **{
            key: {name_of(x): write(e) for x, e in getattr(event, key).items()}
            for key in ("resets", "sets")
            if getattr(event, key)
        },
        **flags,
    }


def event_in(row: Entries, scope: Scope) -> Event:
    """The event of an entry."""
    guard, when = _expression(row, "guard", scope), _expression(row, "when", scope, "1")
    given: dict[str, Any] = {key: row.flag(key) for key in ("level", "stop", "failure")}
    for key in ("resets", "sets"):
        texts = row.mapping(key, str, "text")
        given[key] = {
            scope.symbols.get(name, name): expression(text, f"{row.at(key)}.{name}", scope)
            for name, text in texts.items()
        }
    direction = row.take("direction", int, "-1, 0 or 1", -1)
    name, scale = row.text("name"), row.number("scale", 1.0)
    row.done()
    with naming(row.place):
        return Event(name, guard, direction, scale, when=when, **given)


def contact_entry(contact: Contact, write: Writer) -> dict[str, Any]:
    """A contact; what it has by default is left out."""
    given = {key: getattr(contact, key) for key in ("height", "place", "speed")}
    forces = {key: getattr(contact, key) for key in ("force", "friction")}
    numbers = {key: float(getattr(contact, key)) for key in ("friction_coefficient", "restitution")}
    return {
        "name": contact.name,
        **{key: name_of(force) for key, force in forces.items() if force is not None},
        **{key: write(e) for key, e in given.items() if e is not None},
        "law": contact.law,
        **{key: value for key, value in numbers.items() if value != 0.0},
    }


def contact_in(row: Entries, scope: Scope) -> Contact:
    """The contact of an entry."""
    places = {key: _expression(row, key, scope, "") for key in ("place", "speed")}
    height = _expression(row, "height", scope)
    forces = {key: row.text(key, "") for key in ("force", "friction")}
    numbers = {key: row.number(key, 0.0) for key in ("friction_coefficient", "restitution")}
    name, law = row.text("name"), row.text("law", "slip")
    row.done()
    given: dict[str, Any] = {k: scope.symbols.get(v, v) if v else None for k, v in forces.items()}
    with naming(row.place):
        return Contact(name, height, law=law, **places, **given, **numbers)


def muscle_entry(muscle: FESMuscle, write: Writer) -> dict[str, Any]:
    """A muscle."""
    texts = {key: write(e) for key, e in parts_of_muscle(muscle).items()}
    given = {} if "recruitment" in texts else {"recruitment": "input"}
    return {"name": muscle.name, **texts, **given, "slack": muscle.slack}


def muscle_in(row: Entries, scope: Scope) -> FESMuscle:
    """The muscle of an entry."""
    name, slack = row.text("name"), row.text("slack", "error")
    ones = {"recruitment": "1", "force_factor": "1", "stiffness_factor": "1"}
    given: dict[str, Any] = {}
    for key in _OF_MUSCLE:
        text = row.text(key, ones.get(key))
        if key == "recruitment" and text == "input":
            given[key] = text
            continue
        e = expression(text, row.at(key), scope)
        given[key] = float(e) if e.is_number and key not in ("rate", *ones) else e
    row.done()
    with naming(row.place):
        return FESMuscle(name, slack=slack, **given)


def _expression(row: Entries, key: str, scope: Scope, default: str | None = None) -> Any:
    """The expression of an entry; None where it is left out and the default is no text."""
    text = row.text(key, default)
    return expression(text, row.at(key), scope) if text else None
