"""Phases of one motion: contacts at the nodes, and the links from trial to trial."""

from __future__ import annotations

from kinesym.codegen.contacts import ContactDynamics, contact_dynamics, switched_impulses
from kinesym.codegen.evaluate import condition_label
from kinesym.codegen.family import At, Ends, Family, Points
from kinesym.symbolic.hybrid.contacts import Contact, forces_of, with_friction
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


def contact_rows(s: Points, at: At) -> dict[str, int]:
    """No acceleration where a contact is closed, no force where it is open."""
    g = s.graph
    found, forces = contacts_at(s, at)
    rows: dict[str, int] = {}
    names = [f"contact {c.name}" for c in s.problem.contacts]
    names += [f"contact {c.name} along the ground" for c in with_friction(s.problem.contacts)]
    push = found.push(g, forces)
    for name, flag, b, w, force in zip(
        names, _flags(s, "closed", at), found.b, push, forces, strict=True
    ):
        kept = g.mul(flag, g.add(b, w))
        rows[name] = g.add(kept, g.mul(g.sub(g.one, flag), force))
    return rows


def link_family(problem: Problem, name: str) -> Family:
    """From the end of a trial (0) to the start of the next (1): the states continue, through
    impacts where there are contacts; further conditions. Every trial has a time t of its own."""
    s = Ends(problem, last=0)
    g = s.graph
    rows: dict[str, int] = {}
    if problem.contacts and name == "link":
        found, _ = contacts_at(s, s.end(0))
        bounces = [g.const(1.0 + c.restitution) for c in problem.contacts]
        bounces += [g.one] * len(with_friction(problem.contacts))
        hits = _flags(s, "hit", s.end(1))
        impulses = switched_impulses(g, found, hits, bounces)
        jumps = found.jump(g, impulses, len(problem.model.states))
        states = (s.end(k).of(problem.model.states) for k in (0, 1))
        for x, a, b, jump in zip(problem.model.state_names, *states, jumps, strict=True):
            rows[f"jump of {x}"] = g.sub(g.sub(b, a), jump)
    conditions = problem.links if name == "link" else problem.cycle
    if conditions:
        before, after = (s.lowering(s.end(k)) for k in (0, 1))
        for number, condition in enumerate(conditions):
            label = condition_label(f"{name} condition", number, condition, problem.model)
            rows[label] = s.boundary(condition, after, before)
    return s.family(name, g.zero, rows)
