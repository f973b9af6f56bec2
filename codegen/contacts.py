"""Contacts with the ground, as nodes: heights, rates, accelerations, effects of forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinesym.codegen.derive import Sparse, jacobian
from kinesym.codegen.graph import Graph
from kinesym.codegen.lower import Lowering
from kinesym.symbolic.hybrid.contacts import Contact, with_friction

#: Regularisation: the share by which points give way to impulses, so that dependent rows share
#: them.
SOFT = 1e-12


@dataclass(frozen=True)
class ContactDynamics:
    """Nodes of all contacts: heights and places, their gradients, rates, accelerations without
    forces b (rows), and how forces act: W (rows x forces) on accelerations, B (states x forces) on
    x'. Rows are heights of all contacts, then places, or speeds alone, of those with friction.
    lines : heights and places, zero where there is a speed alone. turn : gradients of rates."""

    heights: list[int]
    lines: list[int]
    slopes: Sparse
    speeds: list[int]
    turn: Sparse
    b: list[int]
    W: Sparse
    B: Sparse

    def push(self, g: Graph, forces: Sequence[int]) -> list[int]:
        """W forces."""
        return products(g, self.W, dict(enumerate(forces)), len(self.speeds))

    def jump(self, g: Graph, impulses: Sequence[int], n: int) -> list[int]:
        """B impulses, (n,)."""
        return products(g, self.B, dict(enumerate(impulses)), n)


def contact_dynamics(
    lower: Lowering,
    contacts: Sequence[Contact],
    states: Sequence[int],
    rates: Sequence[int],
    forces: Sequence[int],
) -> ContactDynamics:
    """Dynamics of contacts where x' = rates, which depend on forces."""
    g, R = lower.graph, len(forces)
    along = with_friction(contacts)
    lines = [lower(c.height) for c in contacts]
    lines += [g.zero if c.place is None else lower(c.place) for c in along]
    free = dict(enumerate(g.substitute(rates, dict.fromkeys(forces, g.zero))))
    slopes = jacobian(g, lines, states)
    speeds = products(g, slopes, free, R)
    speeds[len(contacts) :] = [
        speed if c.speed is None else lower(c.speed)
        for c, speed in zip(along, speeds[len(contacts) :], strict=True)
    ]
    turn = jacobian(g, speeds, states)
    B = jacobian(g, rates, forces)
    columns = [
        products(g, turn, {j: B[j, k] for j in range(len(states)) if (j, k) in B}, R)
        for k in range(R)
    ]
    W = {(i, k): column[i] for k, column in enumerate(columns) for i in range(R)}
    b = products(g, turn, free, R)
    return ContactDynamics(lines[: len(contacts)], lines, slopes, speeds, turn, b, W, B)


def products(g: Graph, matrix: Sparse, vector: Mapping[int, int], rows: int) -> list[int]:
    """matrix times vector"""
    terms: list[list[int]] = [[] for _ in range(rows)]
    for (i, j), node in matrix.items():
        if j in vector:
            terms[i].append(g.mul(node, vector[j]))
    return [g.sum(row) for row in terms]


def switched_impulses(
    g: Graph, found: ContactDynamics, flags: Sequence[int], bounces: Sequence[int]
) -> list[int]:
    """Impulses f with W f + bounce speed = 0 in the rows whose flag is 1, and f = 0 in the others.

    By elimination along the diagonal, which is that of W, softened, or 1.
    """
    R = range(len(flags))
    rest = [g.sub(g.one, flag) for flag in flags]
    soft = g.const(1.0 + SOFT)
    a = [[g.mul(flags[i], found.W[i, k]) for k in R] for i in R]
    for i in R:
        a[i][i] = g.add(g.mul(soft, a[i][i]), rest[i])
    side = [g.neg(g.mul(flags[i], g.mul(bounces[i], found.speeds[i]))) for i in R]
    for k in R:
        for i in range(k + 1, len(flags)):
            factor = g.mul(a[i][k], g.inv(a[k][k]))
            a[i] = [g.sub(x, g.mul(factor, y)) for x, y in zip(a[i], a[k], strict=True)]
            side[i] = g.sub(side[i], g.mul(factor, side[k]))
    for k in reversed(R):
        known = [g.mul(a[k][j], side[j]) for j in range(k + 1, len(flags))]
        side[k] = g.mul(g.sub(side[k], g.sum(known)), g.inv(a[k][k]))
    return side
