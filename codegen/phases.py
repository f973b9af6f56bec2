"""Phases of one motion: contacts at the nodes, and the links from trial to trial."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from kinesym.codegen.contacts import ContactDynamics, contact_dynamics, switched_impulses
from kinesym.codegen.family import At, Ends, Family, Label, Points, condition_label
from kinesym.symbolic.hybrid.contacts import Contact, forces_of, holds_of, with_friction
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem


def contacts_at(s: Points, at: At) -> tuple[ContactDynamics, list[int]]:
    """Contacts at a point, and the nodes of their forces."""
    problem, states = s.problem, at.of(s.problem.model.states)
    named = {name_of(u): at.values[u] for u in problem.unknown_inputs}
    forces = [named[name_of(force)] for force in forces_of(problem.contacts)]
    found = contact_dynamics(s.lowering(at), problem.contacts, states, s.explicit(at), forces)
    return found, forces


def _flags(s: Points, what: str, at: At) -> list[int]:
    """The signal of each row of the contacts; along the ground of those that are stuck, too."""
    named = {name_of(signal): at.values[signal] for signal in s.problem.signals}

    def of(kind: str, contact: Contact) -> int:
        return named[f"{kind}_{contact.name}"]

    contacts = s.problem.contacts
    return [
        *(of(what, c) for c in contacts),
        *(s.graph.mul(of(what, c), of("stuck", c)) for c in with_friction(contacts)),
    ]


def contact_rows(s: Points, at: At) -> dict[Label, int]:
    """No acceleration where a contact is closed, no force where it is open."""
    g = s.graph
    found, forces = contacts_at(s, at)
    rows: dict[Label, int] = {}
    names = [Label(f"contact {c.name}", of=c.name) for c in s.problem.contacts]
    along = with_friction(s.problem.contacts)
    names += [Label(f"contact {c.name} along the ground", of=c.name) for c in along]
    push = found.push(g, forces)
    for name, flag, b, w, force in zip(
        names, _flags(s, "closed", at), found.b, push, forces, strict=True
    ):
        kept = g.mul(flag, g.add(b, w))
        rows[name] = g.add(kept, g.mul(g.sub(g.one, flag), force))
    return rows


def held_contacts(problem: Problem) -> list[tuple[int, sp.Basic, bool]]:
    """Holds of contacts by inputs: the row of the contact, the input, and whether it acts on the
    rate of that row's quantity; see `kinesym.symbolic.hybrid.contacts.holds_of`."""
    count, along = len(problem.contacts), with_friction(problem.contacts)
    found = list[tuple[int, sp.Basic, bool]]()
    for number, contact in enumerate(problem.contacts):
        rows = [number, number]
        rows += [count + along.index(contact)] * 2 if contact in along else []
        for row, u, rate in zip(rows, holds_of(contact), (False, True) * 2, strict=False):
            if u in problem.unknown_inputs:
                found.append((row, u, rate))
    return found


def pushed_rates(s: Points, at: At, rates: Sequence[int], sign: float) -> list[int]:
    """x' and sign times what keeps closed contacts where they are: along the gradients of heights,
    places and their rates (Gear, Gupta, Leimkuhler 1985, J. Comput. Appl. Math. 12, 77-90)."""
    g, held = s.graph, held_contacts(s.problem)
    if not held:
        return list(rates)
    found, flags = contacts_at(s, at)[0], _flags(s, "closed", at)
    made = []
    for j, rate in enumerate(rates):
        terms = [rate]
        for row, u, of_rate in held:
            slope = (found.turn if of_rate else found.slopes).get((row, j))
            if slope is not None:
                push = g.mul(g.const(sign), g.mul(flags[row], at.values[u]))
                terms.append(g.mul(push, slope))
        made.append(g.sum(terms))
    return made


def holding_rows(s: Points, begin: At, end: At) -> dict[Label, int]:
    """Residuals that hold closed contacts from begin to end of an interval, at rest; those of open
    contacts demand zero holding inputs."""
    g, held = s.graph, held_contacts(s.problem)
    if not held:
        return {}
    (before, _), (after, _) = (contacts_at(s, at) for at in (begin, end))
    flags, count = _flags(s, "closed", end), len(s.problem.contacts)
    rows = dict[Label, int]()
    for row, u, of_rate in held:
        value = after.speeds[row] if of_rate else after.lines[row]
        if row >= count and not of_rate:
            value = g.sub(value, before.lines[row])
        rest = g.mul(g.sub(g.one, flags[row]), end.values[u])
        label = Label(f"hold by {name_of(u)}", "" if of_rate else "hold", of=name_of(u))
        rows[label] = g.add(g.mul(flags[row], value), rest)
    return rows


def link_family(problem: Problem, name: str) -> Family:
    """Family of links from the end of a trial (0) to the start of the next (1): the states
    continue, through impacts where there are contacts; further conditions. A trial has a time t of
    its own."""
    s = Ends(problem, last=0)
    g = s.graph
    rows: dict[Label, int] = {}
    if problem.contacts and name == "link":
        found, _ = contacts_at(s, s.end(0))
        bounces = [g.const(1.0 + c.restitution) for c in problem.contacts]
        bounces += [g.one] * len(with_friction(problem.contacts))
        hits = _flags(s, "hit", s.end(1))
        impulses = switched_impulses(g, found, hits, bounces)
        jumps = found.jump(g, impulses, len(problem.model.states))
        states = (s.end(k).of(problem.model.states) for k in (0, 1))
        for x, a, b, jump in zip(problem.model.state_names, *states, jumps, strict=True):
            rows[Label(f"jump of {x}")] = g.sub(g.sub(b, a), jump)
    conditions = problem.links if name == "link" else problem.cycle
    if conditions:
        before, after = (s.lowering(s.end(k)) for k in (0, 1))
        for number, condition in enumerate(conditions):
            row = condition_label(name, number, condition, problem.model)
            rows[row] = s.boundary(condition, after, before)
    return s.family(name, g.zero, rows)
