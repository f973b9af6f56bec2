"""Terminal cost of phases of one motion: at the end of the last phase, and what is of the start
alone, `at_start(...)`, at that of the first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.phases import Phases, Posed
from kinesym.symbolic.derivation import fresh_name
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.names import t, written
from kinesym.symbolic.objective import Objective, at_end, at_start


def at_the_end(made: Posed, given: Any, objective: Any, trials: Any) -> tuple[Posed, Any]:
    """The problem and its objective, with a terminal cost that is of the whole motion. given : the
    objective as it was asked for; a list has the terminal cost of each phase.

    A parameter that counts the phases, known in each, chooses the terms. Raises `ValueError` for
    terms of both ends, and for those of a time that counts from the start of each phase.
    """
    count, several = len(made.trials), isinstance(given, (list, tuple))
    if several or count == 1 or not isinstance(trials, Phases):
        return made, objective
    terminal = objective.terminal if isinstance(objective, Objective) else sp.S.Zero
    first, every, last = _terms(terminal, bool(made.trials[0].duration))
    if first == last == 0:
        return made, objective
    taken = {*made.model.symbols, *made.model.outputs, *atoms_of(terminal)}
    phase = sp.Symbol(fresh_name("phase", taken), real=True)
    paid = every + sp.Piecewise((first, phase < 0.5), (last, phase > count - 1.5), (0, True))
    steps = [trial.with_more({phase.name: float(k)}, {}) for k, trial in enumerate(made.trials)]
    whole = replace(made, model=made.model.extended(parameters=[phase]), trials=steps)
    return whole, replace(objective, terminal=paid)


def _terms(terminal: sp.Expr, free: bool) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Terms of a terminal cost that count at the start of a motion, at the end of each phase (its
    duration, which is unknown) and at the end of the last; free : whether durations are unknown."""
    parts = {"first": sp.S.Zero, "every": sp.S.Zero, "last": sp.S.Zero}
    for term in sp.Add.make_args(sp.expand_mul(terminal)):
        there = term.xreplace({end: sp.Dummy() for end in term.atoms(at_start, at_end)})
        here = there.xreplace({f: sp.Dummy() for f in there.atoms(AppliedUndef)})
        moving = bool(there.atoms(AppliedUndef) or term.atoms(at_end)) or here.has(t)
        if term.atoms(at_start) and moving:
            raise ValueError(
                f"the term {written(term, 40)} of the terminal cost is of the start and of the end "
                "at once, which are of different phases; give a list of objectives, one for each "
                "phase, with a state of rate 0 for the value at the start"
            )
        if free and here.has(t):
            if not there.atoms(AppliedUndef) and not sp.diff(here, t).has(t):
                parts["every"] += term
                continue
            raise ValueError(
                f"the term {written(term, 40)} of the terminal cost contains the time t, which "
                "counts from the start of each phase where durations are unknown; for that of the "
                "motion make it a state, x.diff(t) - 1, or give a list of objectives, one for each "
                "phase"
            )
        parts["first" if term.atoms(at_start) else "last"] += term
    return parts["first"], parts["every"], parts["last"]
