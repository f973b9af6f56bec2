"""Exchanges of states and parameters under which the equations of a model stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kinesym.symbolic.identifiability.system import System


def exchanges(system: System) -> Iterator[dict[int, int]]:
    """Variables that are exchanged with two states so that each equation becomes another one, by
    place; of equations in which sums and products have the same order, as those of parts of one
    kind mostly do."""
    for a, b in combinations(system.states, 2):
        if found := _exchanged(system, a, b):
            yield found


def _exchanged(system: System, a: int, b: int) -> dict[int, int]:
    """Variables that must be exchanged with two states; none where their equations differ."""
    equations = system.explicit or system.equations
    of_state = dict(zip(system.states, equations, strict=True))
    found, seen, left = dict[int, int](), set[tuple[int, int]](), [(a, b)]
    while left:
        pair = one, other = left.pop()
        if one == other or pair in seen:
            continue
        seen |= {pair, (other, one)}
        first, second = system.steps[one], system.steps[other]
        if first.kind == second.kind == "variable":
            if one in found or other in found or (one in of_state) != (other in of_state):
                return {}
            found |= {one: other, other: one}
            left += [(of_state[one], of_state[other])] if one in of_state else []
        elif (first.kind, first.data, first.factor) == (second.kind, second.data, second.factor):
            if len(first.args) != len(second.args):
                return {}
            left += zip(first.args, second.args, strict=True)
        else:
            return {}
    return found
