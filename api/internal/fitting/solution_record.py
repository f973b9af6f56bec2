"""Solution of a collocation problem, from the result of IPOPT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.redundant import notes_on_apart
from kinesym.internal.fitting.report_setting import setting_of
from kinesym.internal.fitting.trajectories import idle
from kinesym.internal.problems.diagnose import explain
from kinesym.internal.problems.interior_conditions import bends
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Solved
from kinesym.runtime.library.tiers import interpreted
from kinesym.runtime.nlp.owned import shared_values
from kinesym.runtime.results.estimates import Estimates
from kinesym.runtime.results.fit import poor_fits
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.why import Why
from kinesym.runtime.status import Solve
from kinesym.symbolic.hybrid import holds_of
from kinesym.symbolic.names import name_of

#: Ways to end for a derivative that is not finite: to most linear solvers that is a failure.
_STUCK = (Solve.STEP_FAILED, Solve.RESTORATION_FAILED, Solve.NOT_FINITE)

#: Advice for fits that do not follow their data.
_ASK_WHY = "solution.why() tries other signs, units and names of channels"


def solution_of(
    problem: Discretisation, found: Solved, seconds: float, reasons: Callable[[], Why]
) -> Solution:
    """The solution of a problem that was found in so many seconds. reasons : see `Solution`."""
    found, message = _ended(problem, found)
    multipliers, lower, upper = found.multipliers
    keeps = [u for c in problem.symbolic.contacts for u in holds_of(c) if u is not None]
    shown = idle(problem.layout, problem.ends, [name_of(u) for u in keeps])
    trials = problem.trajectories(found.z, shown.hidden | problem.absent)
    fit, given = problem.symbolic.objective.least_squares, problem.formulation
    poor = poor_fits(trials, problem.trials) if fit else []
    about = (problem.model, problem.trials, problem.layout.owned, problem.parameter_bounds)
    return Solution(
        status=found.status,
        message=message,
        objective=found.objective,
        parameters=Estimates(problem.estimates(found.z)),
        known=shared_values(problem.known),
        trials=trials,
        notes=[
            *poor,
            *([_ASK_WHY] if poor else ()),
            *given.notes,
            *notes_on_apart(problem, found.z),
            *bends(given.moments, problem.layout, multipliers, found.objective, trials),
            *shown.notes,
        ],
        free_vector=found.z,
        multipliers=multipliers,
        lower_multipliers=lower,
        upper_multipliers=upper,
        history=found.iterations,
        linear_solver=found.linear_solver,
        factorisations=found.factorisations,
        timings=_timings(problem, found, seconds),
        model=problem.model.name,
        problem=_sizes(problem, found.z, bool(keeps)),
        log=found.log,
        setting=setting_of(*about),
        reasons=reasons,
    )


def _ended(problem: Discretisation, found: Solved) -> tuple[Solved, str]:
    """Status and message of a solve; where a function is not finite, the message names it."""
    reason = None
    if found.status in _STUCK:
        reason = explain(problem.libraries.program, problem.nlp, found.z)
        found = replace(found, status=Solve.NOT_FINITE) if reason else found
    if found.status is Solve.NOT_FINITE:
        return found, f"{found.message}: {reason or 'between iterates'}"
    return found, found.message


def _timings(problem: Discretisation, found: Solved, seconds: float) -> dict[str, float]:
    """Seconds by what they were spent on."""
    before = problem.libraries.timings
    timings = {**before, "evaluate": found.evaluation}
    if found.linear_seconds is not None:
        timings["linear solver"] = found.linear_seconds
    if slow := interpreted(problem.nlp.library):
        timings["interpreted"] = min(found.evaluation, slow)
    timings["total"] = before["derive"] + before["compile"] + seconds
    return timings


def _sizes(problem: Discretisation, z: Array, contacts: bool) -> dict[str, Any]:
    """Sizes and names of the problem, and numbers that z has beside parameters."""
    layout, symbolic = problem.layout, problem.symbolic
    more = {
        "histories": _histories(problem),
        "durations": list(map(float, layout.durations(z))),
        "delays": problem.delays,
        "apart": [list(row) for row in problem.per_trial.loosened],
    }
    return {
        "scheme": symbolic.scheme.name,
        "variables": problem.n_variables,
        "constraints": problem.n_constraints,
        "nodes": layout.nodes,
        "arrays": layout.arrays,
        "held": sorted(layout.held),
        "log_scale": sorted(symbolic.log_scale),
        **{name: rows for name, rows in more.items() if rows},
        **({"contact drift": _contact_drift(problem, z)} if contacts else {}),
    }


def _histories(problem: Discretisation) -> list[str]:
    """Names of parameters that stand for signals before the start."""
    owned, known = problem.layout.owned, problem.formulation.histories
    pairs = zip(owned.names, owned.members, strict=True)
    return [name for name, parameter in pairs if parameter in known]


def _contact_drift(problem: Discretisation, z: Array) -> float:
    """Largest distance of closed contacts from their places at a node [m]."""
    values, rows = problem.constraints(z), problem.layout.constraint_rows()
    held = [np.abs(values[here]) for _, _, label, here in rows if label.kind == "hold"]
    return max((float(off.max(initial=0.0)) for off in held), default=0.0)
