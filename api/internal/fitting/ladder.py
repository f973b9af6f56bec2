"""Ladder of easier problems (coarse grids, homotopy), each started from the last, up to the one
asked for.

Rungs: the problem as it is; its coarse grids; the homotopies that it declares (`ks.homotopy`, or
`homotopy="data"`, an observer of the record).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.libraries import Libraries
from kinesym.internal.fitting.refined_grids import kept_nodes
from kinesym.internal.problems.formulation import formulate
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.progress import say
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trials import better
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.homotopy import HOMOTOPY

#: Solves a problem from a free vector, with multipliers of a guess, and these options.
Solver = Callable[[Any, Array, Any, SolverOptions], Solution]

#: Iterations of all rungs together, unless the user says how many.
BUDGET = 3000
#: Intervals that are joined into one on the coarse grids. These have no limit of iterations of
#: their own: one of 200 loses solutions of benchmarks/starts.py, and one of 400 saves next to
#: nothing.
_COARSE = (8, 4, 2)
#: Least number of intervals of a coarse grid.
_FEWEST = 6
#: First step of a homotopy.
_FIRST = 0.25
#: Smallest step of a homotopy.
_SMALLEST = 1e-3
#: Iterations of a step, at most, after which the next one is longer.
_FEW = 12
#: Iterations of a step beyond which the next one is shorter.
_MANY = 40


@dataclass
class Climb:
    """Climb of a ladder of easier problems: iterations left in the budget, and a line per rung."""

    left: int
    progress: bool | None
    lines: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be tried."""
        return self.interrupted or self.left <= 0

    def told(self, line: str) -> None:
        """Keep a line, and show it on a terminal."""
        self.lines.append(line)
        say(self.progress, line)


@dataclass(kw_only=True)
class SolverClimb(Climb):
    """A climb of solves by IPOPT with these options."""

    solver: Solver
    chosen: SolverOptions

    @property
    def ended(self) -> bool:
        return super().ended or self.chosen.late

    def solved(self, problem: Discretisation, z: Array, guess: Any, what: str) -> Solution | None:
        """Solve a rung within the budget, with its line; None if a function is not finite at z."""
        most = min(self.left, int(self.chosen.options.get("max_iter", self.left)))
        options = {**self.chosen.options, "max_iter": most}
        try:
            found = self.solver(problem, z, guess, replace(self.chosen, options=options))
        except ValueError as error:  # not finite where this rung begins
            self.told(f"{what}: {error}")
            return None
        self.left -= found.iterations
        self.interrupted |= found.interrupted
        self.told(f"{what}: {_ended(found)}")
        return found


def climbable(problem: Discretisation) -> bool:
    """Whether there is a rung below the problem."""
    return declared(problem) or any(True for _ in coarse_grids(problem))


def declared(problem: Discretisation) -> bool:
    """Whether the problem has a homotopy that may be led."""
    return HOMOTOPY.name in problem.known[0] or problem.formulation.observer is not None


def climbed(problem: Discretisation, z: Array, plain: Solution, climb: SolverClimb) -> Solution:
    """The best solution found: of the first rung from which the problem is solved, `plain` if there
    is none. z : the free vector from which the plain solve began."""
    climb.told(f"as it is: {_ended(plain)}")
    best = plain
    for rung in (_by_homotopy,) if plain.success else (_from_coarse, _by_homotopy):
        if climb.ended or best is not plain:
            break
        found = rung(problem, z, climb)
        if found is not None and (not plain.success or better(found, plain)):
            best = found
    if best is plain and climb.chosen.late:
        climb.told("the budget of seconds is spent")
    elif best is plain and climb.left <= 0:
        climb.told("the budget of iterations is spent")
    notes = best.notes
    if best is not plain:
        before = f"objective {plain.objective:.6g}" if plain.success else plain.status
        words = f"the plain solve ended {before}; solved by the ladder: {climb.lines[-1]}"
        notes = [*notes, words]
    return replace(best, notes=notes, ladder=climb.lines)


def _from_coarse(problem: Discretisation, z: Array, climb: SolverClimb) -> Solution | None:
    """The problem, from its solutions on coarse grids; None if there are none."""
    last: Solution | None = None
    guessed = problem.trajectories(z)
    for trials in coarse_grids(problem):
        if climb.ended:
            return None
        coarse = problem.on(trials)
        begin = FirstGuess(coarse).pack(guessed if last is None else last)
        what = f"grid of {sum(coarse.layout.nodes)} nodes"
        found = climb.solved(coarse, begin, None, what)
        last = found if found is not None and found.success else last
    if last is None or climb.ended:
        return None
    return _full(climb.solved(problem, FirstGuess(problem).pack(last), None, "full grid"))


def coarse_grids(problem: Discretisation) -> Iterator[list[Experiment]]:
    """The trials on coarse grids, the coarsest first; nodes with a measurement stay."""
    before = sum(problem.layout.nodes)
    made = []
    for parts in reversed(_COARSE):
        trials = [_coarser(trial, parts, problem.instants) for trial in problem.trials]
        count = sum(trial.n_nodes for trial in trials)
        if count > 0.7 * before:
            break
        made.append(trials)
        before = count
    yield from reversed(made)


def _coarser(trial: Experiment, parts: int, instants: Sequence[float]) -> Experiment:
    """A trial with every so many intervals as one."""
    parts = max(1, min(parts, (trial.n_nodes - 1) // _FEWEST))
    keep = kept_nodes(trial, instants)
    keep[::parts] = True
    return trial if keep.all() else trial.on_grid(trial.grid[keep])


def _by_homotopy(problem: Discretisation, z: Array, climb: SolverClimb) -> Solution | None:
    """The problem, led from the easy end of its homotopies; None if it has none or it fails."""
    if not declared(problem):
        return None
    easy = eased(problem)

    def solved(place: float, z: Array, last: Solution | None) -> Solution | None:
        here = problem if place == 1.0 else at_homotopy(easy, place)
        return climb.solved(here, np.clip(z, *here.variable_bounds), last, f"homotopy {place:.4g}")

    place, last = led(climb, solved, z)
    if last is None or place == 1.0 or climb.ended:
        return last if place == 1.0 else None
    return _full(climb.solved(problem, last.free_vector, None, "from there at once"))


class Found(Protocol):
    """Result of a solve at one place of a homotopy."""

    @property
    def success(self) -> bool: ...

    @property
    def iterations(self) -> int: ...

    @property
    def free_vector(self) -> Array: ...


_Found = TypeVar("_Found", bound=Found)


def led(
    climb: Climb, solved: Callable[[float, Array, _Found | None], _Found | None], z: Array
) -> tuple[float, _Found | None]:
    """Continuation of a homotopy from its easy end: how far it got, and the solution there, None if
    there is none at the easy end. solved : solution at a place, from a vector, after the last one.

    Each step begins on the line through the last two solutions (a secant predictor: Allgower, Georg
    1990, Numerical Continuation Methods, chapter 2), and the next is longer if it took few
    iterations, shorter if many.
    """
    last = solved(0.0, z, None)
    if last is None or not last.success:
        climb.told("the homotopy cannot leave its start: make its easy end easier, or guess better")
        return 0.0, None
    place, step, slope = 0.0, _FIRST, np.zeros_like(z)
    while place < 1.0 and not climb.ended:
        ahead = min(step, 1.0 - place)
        next_place = place + ahead if ahead == step else 1.0
        found = solved(next_place, last.free_vector + ahead * slope, last)
        if found is None or not found.success:
            step = ahead / 4.0
            if step < _SMALLEST:
                climb.told(f"the homotopy ends at {place:.4g}: no step leads on from there")
                break
            continue
        slope = (found.free_vector - last.free_vector) / ahead
        place, last = next_place, found
        step *= 2.0 if found.iterations <= _FEW else 0.5 if found.iterations > _MANY else 1.0
    return place, last


def eased(problem: Discretisation) -> Discretisation:
    """Problem whose homotopies lead to this one: itself, or, where it is to follow the record, that
    of its observer, with the same free vector and a library of its own."""
    question, about = problem.formulation.eased(), problem.formulation.observer
    if question is None or about is None:
        return problem
    made, rows = formulate(question)
    mine = rows.known[0]
    known = [{name: row.get(name, mine[name]) for name in mine} for row in problem.known]
    tied = problem.per_trial.with_known(known).on(about.driven(problem.trials))
    libraries = Libraries(made.symbolic)
    return replace(problem, formulation=made, libraries=libraries, per_trial=tied, start=None)


def at_homotopy(problem: Discretisation, place: float) -> Discretisation:
    """Problem with its homotopy parameter at a value between 0 and 1, with the same library."""
    return problem.with_known([{**row, HOMOTOPY.name: place} for row in problem.known])


def _ended(found: Solution) -> str:
    """Status, iterations and objective of a rung, in short."""
    end = f", objective {found.objective:.6g}" if found.success else ""
    return f"{found.status} after {found.iterations} iterations{end}"


def _full(found: Solution | None) -> Solution | None:
    """A solution of the problem itself, if it is one."""
    return found if found is not None and found.success else None
