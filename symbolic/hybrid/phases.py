"""Phases of a system with events as models: each with its modes and closed contacts, all in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from kinesym.base.checks import flag, listed
from kinesym.symbolic.expression import atoms_of, real_number
from kinesym.symbolic.hybrid.contacts import Contact
from kinesym.symbolic.identifiability.posed import Question
from kinesym.symbolic.identifiability.question import asked_of, measured_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, check_known, name_of, names_of, t


def asked_in_phases(
    system: Any, measured: Any, phases: Any, unknown_inputs: Any, unknown: Any
) -> Question:
    """Question of phases of a system with events; raises `ValueError` in words."""
    where = f"identifiability of model {system.model.name}"
    given = listed(measured, f"{where}: measured")
    shown_there = [measured_expression(system.model, e, f"{where}: measured") for e in given]
    model, rows = in_phases(system, phases, shown_there)
    free = names_of(unknown_inputs, f"{where}: unknown_inputs")
    for name in free:
        check_known(name, system.given, f"{where}: {name} is no input that is given")
    several = [u for u in model.input_names if u in free or u.rsplit("_", 1)[0] in free]
    if unknown is None:
        there = atoms_of(*model.through((*model.equations, *rows)))
        unknown = [p for p in model.parameters if p in there]
    return asked_of(model, rows, None, several, None, unknown)


def in_phases(system: Any, phases: Any, measured: Sequence[sp.Expr]) -> tuple[Model, list[sp.Expr]]:
    """Model whose states are those of all phases, and what is measured in each.

    phases : values of modes, and whether contacts are closed, by name; what is not named is as at
    the start, contacts open. Several phases have states with names such as x_2, and the same
    parameters. Raises `ValueError` for what the system does not have.
    """
    where = f"phases of model {system.model.name}"
    known = [*system.modes, *(contact.name for contact in system.contacts)]
    rows = [by_name(row, known, where) for row in listed(phases, where)]
    if not rows:
        raise ValueError(f"{where}: none is given; [{{}}] is the one at the start")
    models = [_phase(system, row, measured, where) for row in rows]
    named = [_renamed(m, k) for k, m in enumerate(models, 1)] if len(models) > 1 else models
    shown = [m.outputs[name] for m in named for name in m.outputs if name.startswith(_SHOWN)]
    together = Model(
        system.model.name,
        [x for m in named for x in m.states],
        [u for m in named for u in m.inputs],
        system.model.parameters,
        [e for m in named for e in m.equations],
        intermediates=[row for m in named for row in m.intermediates],
        positive=system.model.positive,
    )
    return together, shown


#: Beginning of names of outputs that are measured.
_SHOWN = "shown_in_phase_"


def _phase(system: Any, row: Mapping[str, Any], measured: Sequence[sp.Expr], where: str) -> Model:
    """Model of one phase; forces of closed contacts are algebraic states."""
    model: Model = system.model
    closed = [c for c in system.contacts if flag(row.get(c.name, False), f"{where}: {c.name}")]
    modes = {
        mode: real_number(row.get(mode, v), f"{where}: {mode}") for mode, v in system.modes.items()
    }
    value: dict[Any, Any] = {u: modes[name_of(u)] for u in model.inputs if name_of(u) in modes}
    forces = {u: name_of(u) for u in model.inputs if name_of(u) in system.forces}
    bound = {name_of(f): e for c in closed for f, e in _conditions(c, model)}
    value |= {u: 0 for u, name in forces.items() if name not in bound}
    states = [u for u, name in forces.items() if name in bound]
    held = replace(
        model,
        states=(*model.states, *states),
        inputs=[u for u in model.inputs if u not in states],
        equations=(*model.equations, *(bound[forces[u]] for u in states)),
        outputs={**model.outputs, **{f"{_SHOWN}{k}": e for k, e in enumerate(measured)}},
        explicit=None,
    )
    return held.substitute(value, inputs=[u for u in held.inputs if u not in value])


def _conditions(contact: Contact, model: Model) -> list[tuple[Any, sp.Expr]]:
    """Forces of a closed contact, each with what it keeps zero: the height, the speed along the
    ground."""
    found = [(contact.force, contact.height)]
    if contact.law != "slip":
        place = contact.place
        moving = [x for x in model.states if x in atoms_of(place)] if place is not None else []
        along = sum((place.diff(x) * x.diff(t) for x in moving), sp.S.Zero)
        found.append((contact.friction, along if contact.speed is None else contact.speed))
    return found


def _renamed(model: Model, k: int) -> Model:
    """The model with states, inputs, intermediates and outputs of one phase."""
    moving = {x: sp.Function(f"{name_of(x)}_{k}")(t) for x in (*model.states, *model.inputs)}
    inner = {s: sp.Symbol(f"{name_of(s)}_{k}") for s, _ in model.intermediates}
    table = {**moving, **inner}
    table |= {x.diff(t): moving[x].diff(t) for x in model.states}
    return Model(
        model.name,
        [moving[x] for x in model.states],
        [moving[u] for u in model.inputs],
        model.parameters,
        [e.xreplace(table) for e in model.equations],
        {f"{name}_{k}": e.xreplace(table) for name, e in model.outputs.items()},
        [(inner[s], e.xreplace(table)) for s, e in model.intermediates],
    )
