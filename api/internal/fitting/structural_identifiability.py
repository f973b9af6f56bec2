"""Structurally non-identifiable parameters of a fit: perfect measurements do not tell them.

Whatever may tell something beside the measurements counts as if it told all: parameters with a
prior are known, and so are unknown inputs, but for those that may be anything. Where that does not
cover a problem, as with conditions beyond fixed starts, nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from kinesym.base.quiet import warn
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.internal.problems.parameters import Unknown
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.statistics.exchange import KnownAs, known_only_as
from kinesym.runtime.summary import listed
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import at_end, at_start
from kinesym.symbolic.problem import Problem

if TYPE_CHECKING:
    from kinesym.symbolic.identifiability.verdict import Lacking

#: Operations that may be spent before each fit, 50 ms, and on request.
BEFORE_FITS = 1_500_000
ON_REQUEST = 100 * BEFORE_FITS
#: Groups of parameters that are named in a warning, at most.
_SHOWN = 3
#: Operations that a step of a series takes at least.
_STEP = 2000

Pairs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _Record:
    """Knowledge beside the measurements: numbers of parameters and starts, by trial. free : unknown
    inputs that may be anything."""

    symbolic: Problem
    unknown: Mapping[str, Unknown]
    owned: Owned
    known: Sequence[Mapping[str, float]]
    starts: Sequence[Mapping[str, sp.Expr]]
    free: Sequence[str] = ()


def untold(problem: Discretisation | ShootingProblem, operations: int) -> Sequence[Lacking]:
    """Parameters that perfect measurements could not tell; none where they could, or where it takes
    more operations than these, about, to find out."""
    if isinstance(problem, ShootingProblem):
        record = _of_shooting(problem)
    else:
        record = _of_collocation(problem)
    if record is None:
        return ()
    model, unknown = record.symbolic.model, record.unknown
    fixed = {name: p.low for name, p in unknown.items() if p.low == p.high}
    asked = [name for name, p in unknown.items() if p.prior is None and name not in fixed]
    long = len(model.intermediates) + len(model.equations) > operations // _STEP
    if long or not asked or (operations < ON_REQUEST and not _is_plain(model)):
        return ()
    runs = []
    for k, (values, starts) in enumerate(zip(record.known, record.starts, strict=True)):
        groups = [group for group in record.owned.groups if group.label]
        own = [(p, f"{p}[{g.owners[g.of_trial[k]]}]") for g in groups for p in g.members]
        runs.append((tuple(starts.items()), tuple({**values, **fixed}.items()), tuple(own)))
    shown = record.symbolic.measurements.items()
    measured = tuple((y, e) for y, e in shown if y not in record.symbolic.sides)
    about = (tuple(asked), tuple(record.free), tuple(runs), operations)
    return _lacking(model, measured, *about)


def warn_of_untold(problem: Discretisation | ShootingProblem) -> None:
    """Warn before a fit of parameters that perfect measurements could not tell."""
    if found := untold(problem, BEFORE_FITS):
        words, more = [each.sentence for each in found[:_SHOWN]], len(found) - _SHOWN
        words += [f"{more} more such groups"] if more > 0 else []
        warn("; ".join(words), stacklevel=3)


def known_exactly(problem: Discretisation, found: Sequence[KnownAs]) -> Sequence[KnownAs]:
    """Combinations that a record tells, found from its numbers, or from the structure of the
    problem where these tell directions only."""
    if all(each.exact for each in found):
        return found
    known = {frozenset(each.names): each for each in untold(problem, BEFORE_FITS) if each.known}
    pairs = ((each, known.get(frozenset(each.remarks))) for each in found)
    return [
        each if each.exact or exact is None else known_only_as(exact.names, exact.known)
        for each, exact in pairs
    ]


def _is_plain(model: Model) -> bool:
    """Whether a verdict needs neither another form of the equations nor roots of constraints."""
    return model.index.value == 0 and not model.invariants


def _only_measured(problem: Problem) -> bool:
    """Whether nothing but measurements, starts and inputs tells anything of the parameters."""
    objective, model = problem.objective, problem.model
    conditions = problem.path or problem.links or problem.cycle or problem.contacts
    rates = problem.steps or problem.moments or problem.resets.inputs
    late = problem.delays or model.delays or problem.free_duration
    if conditions or rates or late or objective.terminal != 0:
        return False
    if problem.spreads:  # the scatter of the samples tells something, too
        return False
    if not (objective.least_squares and problem.measurements):
        return False
    paid = objective.integrand
    return paid == 0 or atoms_of(*model.through([paid])) <= {*model.inputs, *problem.signals, t}


def _of_collocation(problem: Discretisation) -> _Record | None:
    """Record of a problem by collocation; None where bounds or conditions may tell parameters."""
    given, symbolic, rows = problem.formulation, problem.symbolic, problem.per_trial.rows
    if not _only_measured(symbolic):
        return None
    corridors = [bound for name, bound in given.bounds.items() if name not in problem.unknown]
    fixed = any(low == high for low, high in corridors) or any(row.trial.bounds for row in rows)
    if fixed or given.histories or problem.held is not None:
        return None
    starts = [_starts(symbolic, row.limits["ends"]) for row in rows]
    if None in starts:
        return None
    pulled = given.noisy or symbolic.slots or symbolic.objective.integrand != 0
    between = symbolic.held | symbolic.linear
    free = [] if pulled else [name_of(u) for u in symbolic.unknown_inputs]
    return _Record(
        symbolic,
        problem.unknown,
        problem.layout.owned,
        problem.known,
        [start for start in starts if start is not None],
        [name for name in free if name not in between],
    )


def _starts(problem: Problem, limits: Sequence[Any]) -> dict[str, sp.Expr] | None:
    """Starts that the conditions of a trial fix, by state; None for other conditions."""
    found = dict[str, sp.Expr]()
    for e, limit in zip(problem.boundary, limits, strict=True):
        ends = [*e.atoms(at_start, at_end)]
        if limit.low != limit.high or len(ends) != 1 or ends[0].args[0] not in problem.model.states:
            return None
        (end,), value, name = ends, sp.Dummy(), name_of(ends[0].args[0])
        given = e.xreplace({end: value})
        slope, rest = given.diff(value), given.xreplace({value: sp.S.Zero})
        if isinstance(end, at_end) or slope.has(value) or slope.is_zero or name in found:
            return None
        found[name] = (sp.Float(limit.low) - rest) / slope
    return found


def _of_shooting(problem: ShootingProblem) -> _Record | None:
    """Record of a problem by simulation; None of a hybrid model or with resets, and for starts that
    follow from parameters."""
    given, program = problem.given, problem.program
    if program is None or given.assignments or any(given.following) or any(given.resets):
        return None
    if not _only_measured(program.problem) or not _is_plain(given.model):
        return None
    starts = [
        {x: sp.Float(row[x]) for x in given.model.state_names if not np.isnan(row[x])}
        for row in given.starts
    ]
    return _Record(program.problem, given.unknown, given.unknowns.owned, given.known, starts)


@lru_cache(maxsize=16)
def _lacking(
    model: Model,
    measured: Pairs,
    unknown: tuple[str, ...],
    free: tuple[str, ...],
    runs: tuple[tuple[Pairs, Pairs, Pairs], ...],
    operations: int,
) -> tuple[Lacking, ...]:
    """Groups of what cannot be known; equal questions are asked once."""
    from kinesym.symbolic.identifiability.posed import Question  # where there is a fit
    from kinesym.symbolic.identifiability.runs import untold
    from kinesym.symbolic.identifiability.system import Run

    several = tuple(Run(*map(dict, run)) for run in runs)
    most = operations // _STEP
    try:
        found = untold(Question(model, dict(measured), unknown, free, several, most), operations)
    except (ValueError, ArithmeticError):  # it has no power series, or none at these numbers
        return ()
    return tuple(found.lacking(listed(name for name, _ in measured))) if found else ()
