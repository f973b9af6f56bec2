"""Slots of intervals for samples at times of their own: their contents, and signals that they
need."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme


def signal_places(scheme: CollocationScheme) -> Sequence[float]:
    """Places in an interval where signals are needed, besides nodes that are stages."""
    return scheme.inner if scheme.explicit_start else scheme.nodes


def slot_arguments(problem: Problem) -> list[list[tuple[str, list[str]]]]:
    """Arguments of the slots of each channel, with their names and contents: shares, samples,
    weights, signals, each of which has a number per slot, and by how much shares fall with a delay
    that is unknown."""
    found = []
    for c, name in enumerate(problem.timed):
        slots = [str(k) for k in range(problem.slots[name])]
        known = [f"{s}.{k}" for s in signals_of_slots(problem, name) for k in slots]
        row = [(f"at{c}", slots), (f"ya{c}", slots), (f"wa{c}", slots), (f"sa{c}", known)]
        found.append([*row, (f"da{c}", slots if name in problem.delays else [])])
    return found


def signals_of_slots(problem: Problem, name: str) -> list[str]:
    """Known signals that a channel needs at the times of its samples; none if these are unknown."""
    used = needed_atoms(problem, problem.behind(name))
    known = () if name in problem.delays else problem.signals
    return [name_of(s) for s in known if used is None or s in used]


def moved_signals(problem: Problem) -> bool:
    """Whether signals are needed at times that a parameter moves."""
    moved = [problem.behind(name) for name in problem.delays]
    used = [needed_atoms(problem, row) for row in (*moved, *([e] for _, e, _ in problem.moments))]
    return bool(problem.signals) and any(u is None or u & {*problem.signals} for u in used)


def needed_atoms(problem: Problem, expressions: Sequence[sp.Expr]) -> set[sp.Basic] | None:
    """Atoms that expressions depend on; None for everything, as x' may."""
    if any(map(problem.moves, expressions)):
        return None
    return atoms_of(*problem.model.through(expressions))
