"""Attempts after a lost solve: other solver options from its guess, other starts, easier
problems."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinesym.internal.fitting.curvature import merit_at
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess
from kinesym.internal.fitting.ladder import SolverClimb, climbable, climbed
from kinesym.internal.fitting.redundant import (
    ROOMS,
    Bound,
    Doubt,
    apart,
    bound_together,
    is_strained,
)
from kinesym.internal.fitting.scaling import NEAR, first_barrier
from kinesym.internal.fitting.solving import Solver, fitted_as
from kinesym.internal.fitting.why import meeting_points
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.likelihood import ALIKE
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.progress import say
from kinesym.runtime.results.fit import poor_fits
from kinesym.runtime.results.solution import Solution, after, resolved
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import only_noise_is_left
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem

#: Ends at which another guess may help.
_LOST = (
    Solve.INFEASIBLE,
    Solve.DIVERGED,
    Solve.ITERATION_LIMIT,
    Solve.RESTORATION_FAILED,
    Solve.STEP_FAILED,
)
#: Ends after which another start, or easier problems, are tried unasked.
_ASTRAY = (Solve.INFEASIBLE, Solve.DIVERGED)
_CLIMBED = (*_ASTRAY, Solve.RESTORATION_FAILED)

#: Iterations of a fit after which other ways are tried, and with the other strategy of the barrier.
_SOON = 500
#: The same where nothing is fitted: 98 of 100 solves that end take fewer, by those of
#: `benchmarks/collection.py`, other schemes and random starts.
_SOON_AIMED = 250
#: Iterations as IPOPT scales by itself where nothing is fitted.
_OTHER_AIMED = 300
#: Options of IPOPT with which no other ways are tried.
_SCALING = "nlp_scaling_method"
_ALONE = {_SCALING, "mu_strategy", "option_file_name"}
#: Difference of merits that are the same, over the objective.
_SAME = 1e-5
#: Difference of merits that are the same, over the squares of samples.
_ROUNDING = 1e-9
#: Share of an objective by which conditions that are left out do not change it.
_UNBENT = 1e-6
#: Most variables of a lost problem for which other starts are tried: more would take minutes.
_MOST_VARIABLES = 20_000

#: Noise that is held until a fit follows its measurements, as a share of their range: as large
#: beside it in all channels, so that none is left out for others.
_SHARE = 0.03

_OTHERS = ": there may be better solutions"
_FROM_MOTION = (
    "the first solution followed the measurements less well than the guess; this one began with "
    f"the motion of the guess{_OTHERS}"
)
_FROM_HELD = (
    "the first solution took for noise what it did not follow; this one began with that of noise "
    f"of {_SHARE:.0%} of the range of each channel{_OTHERS}"
)
_FROM_LINES = (
    "no solution was found from a simulation by the guess, or from what outputs show, but one from "
    f"straight lines between the conditions{_OTHERS}"
)
_FROM_ZERO = "no solution was found from straight lines between the conditions, but one from zero"
_FROM_DATA = (
    "no solution was found from {} of the guess, but one from what is measured and "
    f"straight lines between the conditions{_OTHERS}"
)
_FROM_NEAREST = (
    f"no solution was found from the guess, but one from where all conditions are met{_OTHERS}"
)


@dataclass(frozen=True)
class Attempts:
    """Attempts to solve one problem, from the free vector z of a guess, with these options.

    ladder : whether to go on after a failure; None if that was left open. budget : iterations of
    the ladder.
    """

    problem: Discretisation
    z: Array
    guess: Any
    chosen: SolverOptions
    progress: bool | None
    ladder: bool | None
    budget: int

    @property
    def _begin(self) -> FirstGuess:
        return FirstGuess(self.problem)

    @property
    def _solver(self) -> Solver:
        return Solver(self.problem, self.chosen, self.progress)

    def best(self) -> Solution:
        """The first solution that is found, or else how the plain solve ended. Conditions that
        follow from others along every motion are left out where no solution meets them, or only one
        that is bent by the error of the grid."""
        doubt = Doubt(self.problem, self.z)
        if self.ladder is False or len(doubt.rows) < 2 or self.problem.estimation.integrated:
            return self._best(self._first())
        first = replace(self, chosen=replace(self.chosen, ends=doubt))._first()
        bound = Bound() if self.chosen.late else self._bound(first, doubt)
        if bound.left_out:
            found = self._leaving_out(bound, first)
            if found is not None:
                return found
        first = self._first() if doubt.stopped else first
        found = self._best(first)
        disproved = found.success and not first.success  # what contradicts itself is not met
        return found if bound.left_out or disproved else _noted(found, *bound.words)

    def _leaving_out(self, bound: Bound, first: Solution) -> Solution | None:
        """A solution without conditions that follow from others, if these are met with it; the
        first one, if it has the same objective."""
        for room in ROOMS:
            other = replace(self, problem=apart(self.problem, bound, self.z, room), guess=None)
            found = other._best(other._first())
            if found.success and bound_together(self.problem, found.free_vector, True).left_out:
                change = abs(found.objective - first.objective)
                if first.success and change <= _UNBENT * abs(first.objective):
                    return first
                return after(first, found)
        return None

    def _bound(self, first: Solution, doubt: Doubt) -> Bound:
        """Dependent conditions, where these may keep the problem from a solution."""
        if first.success:
            strained = is_strained(self.problem, doubt.rows, first)
            return bound_together(self.problem, first.free_vector, True) if strained else Bound()
        if doubt.bound is not None and doubt.bound.words:
            return doubt.bound
        if first.status not in (*_LOST, Solve.FEW_FREEDOMS):
            return Bound()
        bound = doubt.bound or bound_together(self.problem, self.z)
        return bound if bound.words else bound_together(self.problem, first.free_vector, True)

    def _best(self, first: Solution) -> Solution:
        """Solution of `best`, after the plain solve."""
        small, unlimited = self._small, self._unlimited
        goes_on = unlimited if self.ladder is None else self.ladder
        found = self._in_ways(first) if self._soon and not first.success else first
        found = self._as_no_noise(found) if self._soon and found.success else found
        if found.status in _ASTRAY:
            found = self._from_simpler(found)
        if goes_on and small and found.status in _LOST:
            found = self._from_data(found)
        if goes_on and small and found.status in _LOST:
            found = self._from_nearest(found)
        if goes_on and small and resolved(found) is not found:
            other = self._from_data(found)
            found = other if resolved(other) is other else found
        easier = found.status in _CLIMBED if self.ladder is None else self._is_poor(found)
        if goes_on and easier and found.status is not Solve.INTERRUPTED and climbable(self.problem):
            limits = (self.budget, self.progress)
            climb = SolverClimb(*limits, solver=fitted_as, chosen=self.chosen)
            found = climbed(self.problem, self.z, found, climb)
        if goes_on and small and found.status in _LOST and self.problem.layout.free_duration:
            found = self._from_parameters(found)
        return self._advised(found) if found.status in _LOST else self._no_worse(found)

    @property
    def _small(self) -> bool:
        return (
            self.problem.n_variables <= _MOST_VARIABLES and not self.problem.estimation.integrated
        )

    @property
    def _unlimited(self) -> bool:
        return self._small and "max_iter" not in self.chosen.options

    @property
    def _soon(self) -> bool:
        """Whether other ways are tried after some iterations of the first."""
        alone = self.ladder is False or _ALONE & self.chosen.options.keys()
        return self._unlimited and not alone

    @property
    def _ways(self) -> Mapping[str, Mapping[str, Any]]:
        """Ways to solve from the same start after the first one. Fits: the other strategy of the
        barrier, and the scaling of IPOPT. Others: that scaling first, with both strategies, since
        another strategy alone often gets stuck where the first one did."""
        adapts, words = first_barrier(self.problem) is None, "as IPOPT scales by itself"
        strategy, article = ("monotone", "a") if adapts else ("adaptive", "an")
        other = {f"with {article} {strategy} barrier": {"mu_strategy": strategy, "max_iter": _SOON}}
        scaled = {_SCALING: "gradient-based"}
        if self._fits:
            return {**other, words: scaled}
        limited = {**scaled, "max_iter": _OTHER_AIMED}
        adaptive = {**limited, "mu_strategy": "adaptive"}
        return {words: limited, f"{words}, with an adaptive barrier": adaptive, **other}

    @property
    def _fits(self) -> bool:
        return bool(self.problem.symbolic.objective.least_squares)

    def _first(self) -> Solution:
        """The plain solve, or its begin."""
        soon = _SOON if self._fits else _SOON_AIMED
        options: dict[str, Any] = {"max_iter": soon} if self._soon else {}
        if not {"mu_init", "mu_strategy"} & self.chosen.options.keys():
            options |= {"mu_init": NEAR} if self._begin.is_drawn(self.guess) else {}
        return self._solved(self.z, options)

    def _is_poor(self, found: Solution) -> bool:
        """Whether easier problems may lead to a better solution: where the homotopy of the data is
        declared, also than a fit that leaves more than noise."""
        tied = self.problem.formulation.observer is not None
        return not found.success or (tied and not only_noise_is_left(found))

    def _solved(self, z: Array, options: Mapping[str, Any] | None = None) -> Solution:
        """Solve from z, with these options of IPOPT besides those that were chosen."""
        chosen = replace(self.chosen, options={**self.chosen.options, **(options or {})})
        guess = self.guess if z is self.z else None  # multipliers belong to its own start
        return Solver(self.problem, chosen, self.progress).fitted(z, guess)

    def _again(self, lost: Solution, z: Array) -> Solution:
        """Solve after a lost solve; the lost solution where no function is finite at z."""
        return self._known_again(lost, z, None)

    def _known_again(self, lost: Solution, z: Array, known: Solution | None) -> Solution:
        """Solve after a lost solve, with the multipliers and standard deviations of a known
        solution; the lost solution where no function is finite at z."""
        try:
            return after(lost, self._solver.fitted(z, known))
        except ValueError:  # not finite where it begins
            return lost

    def _in_ways(self, first: Solution) -> Solution:
        """The solution from z; one that is not there soon is looked for in other ways, too, before
        there is more time for the first."""
        found = first
        ways = self._ways
        for words, options in ways.items():
            if found.status not in _LOST or self.chosen.late:
                return found
            say(self.progress, f"no solution soon: trying {words}")
            found = after(found, self._solved(self.z, options))
            if found.success:
                return _noted(found, f"solved {words}, as the plain solve took long{_OTHERS}")
        if first.status is Solve.ITERATION_LIMIT and not self.chosen.late:
            return after(found, self._solved(self.z))
        vain = found.iterations - first.iterations
        return _noted(first, f"{vain} iterations {' and '.join(ways)} were in vain")

    def _as_no_noise(self, found: Solution) -> Solution:
        """A fit, or a better one where it takes what does not follow the measurements for noise:
        parameters that say nothing but how large the noise is are held until the others fit."""
        names = _of_noise(self.problem.symbolic) if self.problem.held is None else ()
        if not names or not poor_fits(found.trials, self.problem.trials) or self.chosen.late:
            return found
        say(self.progress, "it follows the measurements poorly: trying with the noise held")
        entries = noise_of_ranges(self.problem, found, names)
        z = self.z.copy()
        own = self.problem.layout.parameter_values(z)
        own[:] = np.where(np.isnan(entries), own, entries)
        other = replace(self, problem=self.problem.holding(entries), z=z)
        try:
            first = other._first()
            held = first if first.success else other._in_ways(first)
        except ValueError:  # a function is not finite there
            return found
        both = after(found, held)
        again = self._known_again(both, held.free_vector, held) if held.success else both
        better = again is not both and again.success and again.merit < found.merit
        return _noted(again, _FROM_HELD) if better else found

    def _from_simpler(self, lost: Solution) -> Solution:
        """Solve from lines in place of simulated trajectories, or from zero in place of these,
        where the first guess led to no solution."""
        last = self.z
        for drawn, note in ((self._begin.lines, _FROM_LINES), ((), _FROM_ZERO)):
            begin = self._begin.packed(self.guess, drawn)
            if np.array_equal(begin, last) or lost.success or self.chosen.late:
                continue
            last, found = begin, self._again(lost, begin)
            lost = _noted(found, note) if found.success else lost
        return lost

    def _from_data(self, lost: Solution) -> Solution:
        """Solve from the parameters and durations of the guess alone, without its trajectories."""
        values: dict[str, Any] = dict(self.problem.parameters(self.z))
        if self.problem.layout.free_duration:
            values["duration"] = self.problem.layout.durations(self.z)
        return self._from_values(lost, values, "the trajectories")

    def _from_parameters(self, lost: Solution) -> Solution:
        """Solve from the parameters of the guess alone, without its trajectories and durations."""
        values = dict(self.problem.parameters(self.z))
        return self._from_values(lost, values, "the trajectories and durations")

    def _from_values(self, lost: Solution, values: Mapping[str, Any], without: str) -> Solution:
        """Solve from values of a guess alone; the lost solution if that finds none."""
        begin = self._begin.pack(values)
        if np.array_equal(begin, self.z) or self.chosen.late:
            return lost
        say(self.progress, f"no solution yet: trying without {without} of the guess")
        found = self._again(lost, begin)
        return _noted(found, _FROM_DATA.format(without)) if found.success else lost

    def _from_nearest(self, lost: Solution) -> Solution:
        """Solve from feasible points, where all conditions are met; see `meeting_points`."""
        say(self.progress, "no solution yet: looking for where all conditions are met")
        points = meeting_points(self.problem, lost.free_vector, self.z, self.chosen.deadline)
        for near in points:
            found = self._again(lost, near)
            if found.success:
                return _noted(found, _FROM_NEAREST)
            if found.status is Solve.INTERRUPTED or self.chosen.late:
                break
        return lost

    def _no_worse(self, found: Solution) -> Solution:
        """A fit, or a better one from the motion that the guess means, if that follows the
        measurements better; where nothing does so, the fit has not converged."""
        problem, begin = self.problem, self._meant() if self._may_be_worse(found) else None
        if begin is None:
            return found
        margin = _SAME * abs(found.objective) + _ROUNDING * problem.estimation.size
        margin = ALIKE if problem.estimation.reweighs else margin
        if merit_at(problem, begin) >= found.merit - margin:
            return found
        say(self.progress, "the guess follows the measurements better: trying from its own motion")
        entries = problem.layout.parameter_values(begin)
        try:
            held = replace(self._solver, problem=problem.holding(entries.copy())).fitted(begin)
        except ValueError:  # a function is not finite there
            return found
        if not held.success or held.merit >= found.merit - margin:
            return found  # the grid does not show the motion as well
        for known in (held, None):  # with its multipliers and standard deviations, and without
            again = self._known_again(found, held.free_vector, known)
            if again.success and again.merit <= held.merit + margin:
                return _noted(again, _FROM_MOTION)
        words = f"{Solve.WORSE.sentence} ({found.merit:.6g}, the guess {held.merit:.6g})"
        return replace(found, status=Solve.WORSE, message=words)

    def _may_be_worse(self, found: Solution) -> bool:
        """Whether a fit leaves more than noise, so that a guess may be better."""
        about = self.problem.estimation  # of mixed ones residuals have no size
        fit = about.factor and not (about.mixed and about.unknown) and not about.integrated
        asked = fit and found.success and not self.chosen.late
        return bool(asked and not only_noise_is_left(found))

    def _meant(self) -> Array | None:
        """The free vector of the motion that the guess means, if it means one."""
        if isinstance(self.guess, Mapping | None):
            return self._begin.moved_by(self.guess)
        return None if isinstance(self.guess, np.ndarray) else self.z

    def _advised(self, lost: Solution) -> Solution:
        """A lost solution whose message says of what there was no guess."""
        names = self._begin.without_guess(self.guess)
        if not names:
            return lost
        words = (
            f"no guess was given of {listed(names)}, which began at zero or on lines between "
            f"conditions: solve(guess={{{names[0]!r}: np.linspace(from, to, nodes), ...}})"
        )
        return replace(lost, message=f"{lost.message}; {words}")


def noise_of_ranges(problem: Discretisation, found: Solution, names: Collection[str]) -> Array:
    """Entries (r,) of parameters of these names, which are in standard deviations alone, with which
    these are the same share of the range of each channel; NaN for others."""
    owned, factors = problem.layout.owned, [list[float]() for _ in problem.layout.parameters]
    for k, run in enumerate(found.trials):
        places = dict(zip(owned.parameters, owned.places(k), strict=True))
        for channel, e in problem.symbolic.spreads.items():
            behind = {name_of(a) for a in atoms_of(*problem.model.through([e]))}
            measured, std = _samples_of(run, channel)
            there = np.isfinite(measured) & np.isfinite(std)
            extent, size = (np.ptp(measured[there]), np.mean(std[there])) if there.any() else (0, 0)
            for name in behind & {*names} if extent > 0.0 and size > 0.0 else ():
                factors[places[name]].append(float(np.log(_SHARE * extent / size)))
    values = owned.natural(problem.layout.parameter_values(found.free_vector))
    values *= np.exp(np.array([float(np.mean(each)) if each else 0.0 for each in factors]))
    entries = owned.entries(np.clip(values, *problem.parameter_bounds))
    return np.where([name in names for name in owned.members], entries, np.nan)


def _samples_of(run: Trajectory, channel: str) -> tuple[Array, Array]:
    """Samples of a channel and their standard deviations."""
    if channel in run.measurements:
        return run.measurements[channel], run.std[channel]
    here = run.samples["channel"] == channel
    return run.samples["measured"][here], run.samples["std"][here]


def _of_noise(problem: Problem) -> frozenset[str]:
    """Unknown parameters that are in standard deviations alone."""
    spreads = [*problem.spreads.values()]
    others = [*problem.model.equations, *problem.measurements.values(), *problem.path]
    others += [*problem.boundary, *problem.links, *problem.cycle, problem.objective.integrand]
    others += [problem.objective.terminal, *(e for _, e in problem.steps)]
    others += [e for _, *row in problem.moments for e in row]
    others += [e for reset in problem.resets.maps for _, e in reset.states]
    elsewhere = atoms_of(*problem.model.through(others))
    mine = atoms_of(*problem.model.through(spreads)) - elsewhere
    return frozenset(p.name for p in problem.unknown_parameters if p in mine)


def _noted(found: Solution, *notes: str) -> Solution:
    return replace(found, notes=[*found.notes, *notes])
