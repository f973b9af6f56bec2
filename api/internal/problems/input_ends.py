"""Inputs at the ends of trials: the last value of those that are held, and what costs and limits of
changes say of those from phase to phase."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.controls import Held, Step
from kinesym.internal.problems.end_of_motion import at_the_end
from kinesym.internal.problems.phases import Phases, Posed, Row
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.bounds import RateLimits, pieces
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.derivation import all_atoms
from kinesym.symbolic.names import by_name, name_of, t
from kinesym.symbolic.objective import Objective, at_end, at_start


def with_ends(
    made: Posed, objective: Any, given: Any, trials: Any, sums: Collection[str]
) -> tuple[Posed, Any]:
    """The problem and its objective, with terminal costs at the end of a motion in phases, held
    inputs to the ends of trials, and limits and costs of changes from phase to phase. given : the
    objective as it was asked for. sums : see `held_to_the_end`."""
    meant = made.objective if objective is None else objective
    links = links_of_changes(made.steps, trials)
    whole, paid = at_the_end(made, given, meant, trials)
    whole = replace(whole, links=[*whole.links, *links])
    steps = held_to_the_end(whole, paid, sums)
    return replace(whole, steps=steps), with_jumps(paid, made.steps, links)


def held_to_the_end(made: Posed, objective: Any, sums: Collection[str]) -> list[Step]:
    """The steps of a problem, with those that give held inputs their last value at the last node,
    too, where conditions or a terminal cost are about it there; no interval has that node. sums :
    names of inputs that have values of their own there."""
    rows = [*made.boundary, *made.links, *made.cycle]
    ends = [e.args[0] for row in rows if row.expression for e in row.expression.atoms(at_end)]
    if isinstance(objective, Objective):
        terminal = objective.terminal
        ends.append(terminal.xreplace({e: sp.S.Zero for e in terminal.atoms(at_start)}))
    there = all_atoms(made.model.intermediates, sp.Tuple(*ends))
    free = by_name(made.unknown_inputs, None, "unknown_inputs")
    held = {name for name, kind in free.items() if isinstance(kind, Held)}
    limits = {step.u: step.limits for step in made.steps if not step.limits.split}
    last = {
        u: limits.get(u, RateLimits())._replace(last=True)
        for u in made.model.inputs
        if name_of(u) in held and u in there and name_of(u) not in sums
    }
    others = [step for step in made.steps if step.limits.split or step.u not in last]
    return [*others, *(Step(u, sp.S.Zero, limit) for u, limit in last.items())]


def links_of_changes(steps: Sequence[Step], trials: Any) -> list[Row]:
    """Conditions on the changes of inputs from the end of each phase to the start of the next: at
    most as fast as within phases, and with the parts that a total variation counts."""
    if not isinstance(trials, Phases) or len(trials.sequence) == 1:
        return []
    given, rows = {condition.expression for condition in trials.links}, list[Row]()
    phases = [trial for trial in trials.sequence if isinstance(trial, Experiment)]  # of a Model
    for u, parts, limits in steps:
        change = at_start(u) - at_end(u)
        if limits.split:
            jump = change - parts.xreplace({part: at_end(part) for part in _parts(parts)})
            rows.append(Row(jump, [(0.0, 0.0)] * len(trials.sequence)))
        elif np.isfinite(limits.rate) and not {change, -change} & given:
            most = [limits.rate * _last_span(trial.grid, limits) for trial in phases]
            free = any(trial.duration for trial in phases)
            rows.append(Row(change / at_end(t) if free else change, [(-m, m) for m in most]))
    return rows


def with_jumps(objective: Any, steps: Sequence[Step], links: Sequence[Row]) -> Any:
    """The objective with the total variation of inputs from phase to phase, as much as within."""
    for _, parts, limits in steps if links else ():
        if not (limits.split and isinstance(objective, Objective)):
            continue
        above, below = _parts(parts)
        size = sp.Dummy("size")
        factor = sp.diff(objective.integrand.xreplace({above: size}), size)
        objective = replace(objective, terminal=objective.terminal + factor * (above + below))
    return objective


def _parts(e: sp.Expr) -> list[AppliedUndef]:
    """Inputs that are parts of the change of another."""
    return sorted(e.atoms(AppliedUndef), key=name_of)


def _last_span(grid: Array, limits: RateLimits) -> float:
    """Time for which an input has its last value, on a grid (N,); 0 if it is linear."""
    if not limits.held:
        return 0.0
    begins = grid[:-1] if limits.every is None else pieces(grid, limits.every)
    return float(grid[-1] - begins[-1])
