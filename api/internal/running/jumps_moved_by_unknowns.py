"""Jumps that unknowns move, of which the derivatives of a fit lack the term."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

import sympy as sp

from kinesym.internal.running.jumps_along_runs import Passed, modes_of, passed, points_of
from kinesym.runtime.results.estimates import nothing_known
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.jumps import OfMotion, Switch, Switched, Unevaluated, jumping
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, written
from kinesym.symbolic.switching import switched

_Result = TypeVar("_Result", Fit, Solution)

#: Operations of a guard in a message.
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Moved:
    """Jumps whose places unknowns move. direct : of these those whose times unknown parameters
    determine, with their names; motion : those of states and unknown inputs, of which trajectories
    tell whether they pass them; shown : those of measured outputs that move so. steps : what is
    measured, if all of it is constant between jumps."""

    found: Switched
    direct: Sequence[tuple[Switch, Sequence[str]]]
    motion: Sequence[Switch]
    shown: Sequence[Switch] = ()
    steps: Sequence[str] = ()

    def sentence(self, runs: Sequence[Trajectory], fit: bool = True) -> str:
        """Sentence on jumps that derivatives miss along trajectories, "" if they miss none. fit :
        whether jumps that move with the states alone count, too."""
        for switch, names in self.direct:
            return (
                f"{switch.said}, where {switch.zero}, which the unknown {listed(names)} "
                f"move{'s' * (len(names) == 1)}; the derivatives of this solve lack that jump, so "
                "that its result and errors are not to be trusted: make the jump an Event and use "
                f"ks.Shooting, or smooth it, {_smooth(switch)}"
            )
        if self.steps:
            return (
                f"what is measured, {listed(self.steps)}, is constant between jumps, so that no "
                "sample has a derivative, and nothing can be fitted by them: measure what is "
                "rounded, and count the rounding as noise"
            )
        for number, run in enumerate(runs if fit else ()):
            first = self._first(run, self.motion)
            if first is not None:
                return (
                    f"{first.switch.said}, which the motion of trial {number} passes between t = "
                    f"{first.begin:g} and {first.end:g} s, at a time that the unknowns move; the "
                    "derivatives of this solve lack that jump, so that its result and errors are "
                    "not to be trusted: make the jump an Event (of friction a Contact) and use "
                    "ks.Shooting, or smooth it, as with ks.smooth_step"
                )
        return ""

    def remark(self, runs: Sequence[Trajectory]) -> str:
        """Remark on measured outputs that jump, so that derivatives hold only between the jumps; ""
        if there are none along trajectories."""
        for number, run in enumerate(runs):
            first = self._first(run, self.shown)
            if first is not None:
                return (
                    f"{first.switch.said}, as in trial {number} between t = {first.begin:g} and "
                    f"{first.end:g} s: the objective jumps with the unknowns, so that values "
                    "nearby may fit better, which neither the fit nor its errors know"
                )
        return ""

    def _first(self, run: Trajectory, switches: Sequence[Switch]) -> Passed | None:
        if not switches or len(run.time) < 2:
            return None
        values = {**run.states, **run.outputs, **run.inputs}
        try:
            points = points_of(self.found, run.time, values, run.parameters)
            every = [p for p in passed(self.found, points) if p.switch in switches]
        except Unevaluated:
            return None
        return min(every, key=lambda p: p.begin, default=None)


def moved_by(
    system: Model | Hybrid,
    unknown: Collection[str],
    outputs: Collection[str],
    starts: bool,
    equations: bool = True,
) -> Moved:
    """Jumps of equations and of the outputs that are measured, which unknowns move. unknown : names
    of parameters and inputs. starts : initial states are, too. equations : whether the derivatives
    lack jumps of the equations; outputs that jump where a motion takes them, not at times that
    parameters determine, have derivatives at all samples but one."""
    model = system if isinstance(system, Model) else system.model
    modes = frozenset[sp.Basic]() if isinstance(system, Model) else modes_of(system)
    seen = tuple(sorted({*outputs} & {*model.outputs}))
    found = switched(model, OfMotion(modes, timed=True), outputs=seen)
    if not found.switches:
        return Moved(found, (), ())
    free = {symbol for symbol in (*model.parameters, *model.inputs) if name_of(symbol) in unknown}
    motion = {*model.states, *model.derivatives, *(free & {*model.inputs})}
    moves = starts or not free.isdisjoint(atoms_of(*model.through(model.equations)))
    every = jumping(found)
    timed = [s for s in every if s.depends & free and not s.depends & motion]
    timed = [s for s in timed if equations or s.shown]
    moving = [s for s in every if s.depends & motion and (moves or s.depends & free)]
    shown = [s for s in moving if s.shown]
    moving = [s for s in moving if equations and not s.shown]
    direct = [(s, sorted(map(name_of, s.depends & free))) for s in timed]
    return Moved(found, direct, moving, shown, _steps(found, seen, {*free, *motion}, {*outputs}))


def _steps(
    found: Switched, seen: Sequence[str], moves: set[sp.Basic], measured: set[str]
) -> Sequence[str]:
    """Measured outputs, if unknowns move them by jumps only; `seen` are outputs. moves : unknowns
    and the motion."""
    symbols = {switch.symbol for switch in found.switches}
    atoms = [atoms_of(*found.model.through([e])) for e in found.outputs]
    flat = [moves.isdisjoint(each) and not symbols.isdisjoint(each) for each in atoms]
    return seen if all(flat) and {*seen} == measured else ()


def _smooth(switch: Switch) -> str:
    """Smooth expression to use in place of a jump, in words."""
    if not switch.of_sign:
        return "by sums of ks.smooth_step"
    return f"as ks.smooth_step({written(switch.plain, _SHOWN)}, width)"


def judged(result: _Result, moved: Moved, fit: bool = True) -> _Result:
    """A result, or what is left of it where its derivatives lack a jump. fit : see `sentence`."""
    if words := moved.sentence(result.trials, fit):
        return _distrusted(result, words)
    remark = moved.remark(result.trials) if result.success else ""
    return replace(result, notes=[*result.notes, remark]) if remark else result


def _distrusted(result: _Result, words: str) -> _Result:
    """No success, and nothing is known of its errors."""
    message = words if result.success else f"{result.message}; {words}"

    def none() -> NoReturn:
        raise ValueError(f"there are no standard errors: {words}")

    return replace(
        result,
        status=Solve.UNSEEN if result.success else result.status,
        message=message,
        notes=[],
        uncertainty=[nothing_known(known.names) for known in result.uncertainty],
        likelihood=[],
        grid=[],
        inference=none,
    )
