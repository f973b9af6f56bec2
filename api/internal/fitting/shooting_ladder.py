"""The ladder of shooting: easier problems that lead to the one asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kinesym.internal.fitting.ladder import BUDGET, Climb, led
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trials import better, only_noise_is_left
from kinesym.runtime.shooting.minimising import Minimised
from kinesym.runtime.shooting.scaled import Chosen
from kinesym.runtime.status import Solve

#: Difference of merits, over the objective, up to which two fits are the same.
_SAME = 1e-6
_NO_END = "from {}: a simulation does not reach its end"

#: Unknowns where an easier problem leads; None if it leads nowhere.
Way = Callable[[Array, Chosen, Climb], Array | None]


def check_ladder(problem: ShootingProblem) -> None:
    """Raise `ValueError` where there is none."""
    given, program = problem.given, problem.program
    measured = program is not None and program.problem.objective.least_squares
    if not measured or given.segments > 1 or given.model.delays or given.delays:
        raise ValueError(
            "ladder=True is for measurements of a smooth model without delays, in one segment; "
            "leave it out"
        )
    if given.assignments is not None:
        raise ValueError(
            "ladder=True is for experiments that set no parameters to functions of the unknowns, "
            "and do not begin in steady states; leave it out, or use multistart"
        )


def climbed(
    problem: ShootingProblem,
    first: Fit | None,
    q: Array,
    how: Chosen,
    fit: Callable[[Array, Chosen], Fit],
    by_collocation: Way,
) -> Fit:
    """The best of a first fit from q, None if there is none, and of fits from where easier problems
    lead, until one leaves nothing but noise, or two are the same. fit : solves from unknowns."""
    climb, best, same = Climb(BUDGET, how.progress), first, False
    climb.told(_NO_END.format("the guess") if first is None else _ended("the guess", first))
    climb.interrupted = first is not None and first.interrupted
    ways: tuple[Way, ...] = (lambda *begin: by_homotopy(problem, *begin), by_collocation)
    for way in ways:
        if climb.ended or same or only_noise_is_left(best):
            break
        begin = way(q, how, climb)
        if begin is None or climb.interrupted:
            continue
        if not np.isfinite(problem.trials.cost(begin)):
            climb.told(_NO_END.format("there"))
            continue
        other = fit(begin, how)
        climb.told(_ended("there", other))
        climb.interrupted = other.interrupted
        same = best is not None and _same(best, other)
        best = other if better(other, best) else best
    if best is None:
        return fit(q, how)  # says why there is none
    return replace(best, ladder=climb.lines, notes=[*best.notes, *_noted(first, best)])


def by_homotopy(problem: ShootingProblem, q: Array, how: Chosen, climb: Climb) -> Array | None:
    """Unknowns where the homotopies of the model lead from q, or else its observer of the record;
    None if there are none, or they cannot leave their start."""
    eased = problem.eased()
    if eased is None:
        return None

    def solved(place: float, q: Array, last: Minimised | None) -> Minimised | None:
        here = problem if place == 1.0 else eased.at_homotopy(place)
        begin = np.clip(q, *problem.given.bounds)
        found = here.identification().minimum(begin, how, last is None)
        if found is None:
            climb.told(f"homotopy {place:.4g}: a simulation does not reach its end")
            return None
        climb.left -= found.iterations
        climb.interrupted |= found.found.status is Solve.INTERRUPTED
        words = f"{found.found.message} after {found.iterations} iterations"
        climb.told(f"homotopy {place:.4g}: {words}")
        return found

    last = led(climb, solved, q)[1]
    return None if last is None else last.free_vector


def told_of(solution: Solution, climb: Climb) -> None:
    """Keep how a collocation on the way has ended."""
    climb.interrupted |= solution.interrupted
    climb.told(f"collocation: {solution.status} after {solution.iterations} iterations")


def _ended(where: str, fit: Fit) -> str:
    return f"from {where}: objective {fit.objective:.6g}, {fit.message}"


def _same(one: Fit, other: Fit) -> bool:
    """Whether two fits are the same."""
    return abs(one.merit - other.merit) <= _SAME * abs(one.objective)


def _noted(first: Fit | None, best: Fit) -> list[str]:
    """A note on what the ladder was good for."""
    if best is first:
        return []
    before = "there was none" if first is None else f"it was {first.objective:.6g}"
    return [f"found by the ladder: from the guess {before}"]
