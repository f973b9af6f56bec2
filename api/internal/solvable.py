"""One solve of a nonlinear program by IPOPT, and what is known of its solution."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from kinesym.codegen.phases import HOLD
from kinesym.internal.delay_breaks import breaks_between_nodes
from kinesym.internal.diagnose import explain
from kinesym.internal.fitted import multipliers_of
from kinesym.internal.grid import grid_error
from kinesym.internal.integrated import Integrated
from kinesym.internal.moments import bends
from kinesym.internal.redundant import notes_on_apart
from kinesym.internal.setting import setting_of
from kinesym.internal.sizes import scaling
from kinesym.internal.trajectories import Open, idle, undetermined
from kinesym.internal.why import why
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Iteration, Solved, Start
from kinesym.runtime.ipopt.memory import heap
from kinesym.runtime.ipopt.scaling import TOLERANCE, Bounds, Scaling, pushed
from kinesym.runtime.ipopt.solve import SolverOptions, continued, linear_solver_seconds, solve
from kinesym.runtime.library.tiers import interpreted, look
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.owned import shared_values
from kinesym.runtime.nlp.sensor_delays import NEVER, SOLVES
from kinesym.runtime.nlp.sensor_delays import settled as settled_delays
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.results.estimates import Estimates, Noise, Uncertainty
from kinesym.runtime.results.fit import as_noisy, poor_fits
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.noise import first_std, samples_of, settled
from kinesym.runtime.results.solution import Solution, after
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.leverage import free_directions
from kinesym.runtime.status import Solve
from kinesym.symbolic.hybrid import holds_of
from kinesym.symbolic.names import name_of

#: What is said if a maximum of the likelihood is found, and if not.
_MAXIMUM = "the likelihood is largest, after {} steps"
_NO_MAXIMUM = "the search for the largest likelihood ended without one; change the guess or bounds"

#: Ways to end for a derivative that is not finite: to most linear solvers that is a failure.
_STUCK = (Solve.STEP_FAILED, Solve.RESTORATION_FAILED, Solve.NOT_FINITE)

#: What is said of fits that do not follow their data.
_ASK_WHY = "solution.why() tries other signs, units and names of channels"

#: From so many times the factor of the objective a solution is not one by the factor there.
_SMALLER = 1e4
#: A parameter is so many times what was 1 for the solver, where it had been far too small.
_GROWN = 1e6

#: Iterations of a fit that tells whether the data follow the model.
_QUICK = 40


class Solvable(Integrated):
    """A problem that can be solved once, from a free vector."""

    @staticmethod
    def _fitted_as(problem: Any, z: Array, guess: Any, chosen: SolverOptions) -> Solution:
        """What `_fitted` finds of a problem, without a line per iteration."""
        return Solvable._fitted(problem, z, guess, chosen, False)

    def _solved(
        self,
        z: Array,
        multipliers: tuple[Array, Array, Array] | None,
        chosen: SolverOptions,
        progress: bool | None,
    ) -> tuple[Solvable, Solution, Workspace | None]:
        """One solution from a free vector, and what its solver has left; and this problem, with
        samples and conditions placed where they lie with delays and times that were found."""
        self._placed_at(z)._check_finite(z)

        def solved(
            trials: Sequence[Experiment], start: Start, bounds: Bounds
        ) -> tuple[tuple[Solvable, float], Solved]:
            begin = time.perf_counter()
            problem = self if trials is self.trials else self._on(trials)
            nlp = problem._gauss_newton if chosen.hessian == "gauss-newton" else problem.nlp
            asked = replace(problem._ipopt(nlp), bounds=bounds)
            if "nlp_scaling_method" not in chosen.options:
                asked = replace(asked, scaling=scaling(problem, start.z))

            def between(iteration: Iteration) -> None:
                look(nlp.library)
                report(iteration)

            found = solve(asked, start, chosen, between)
            scale = asked.scaling and problem._scale_there(asked.scaling, found)
            if scale:
                again = Start(found.z, found.multipliers)
                nearer = solve(replace(asked, scaling=scale), again, chosen, between)
                found = continued(found, nearer) if nearer.status.success else found
            return (problem, time.perf_counter() - begin), found

        given = (self.trials, Start(z, multipliers), self.variable_bounds)
        with iteration_line(progress) as report:
            made = settled_delays(self._about, self.layout, *given, solved)
        solutions = [problem._solution(found, seconds) for (problem, seconds), found in made]
        (problem, _), last = made[-1]
        solution = reduce(after, solutions)
        if len(made) == SOLVES and not last.status.success:
            solution = replace(solution, message=NEVER)
        return problem, solution, last.workspace

    def _scale_there(self, used: Scaling, found: Solved) -> Scaling | None:
        """That of a solution, where the objective was so much larger at the guess that its rest
        counted as nothing, or a parameter so much smaller that its slope did; else None."""
        if self.symbolic.aimless or not found.status.success:
            return None
        begin = self.layout.parameter_offset
        mine = slice(begin, begin + len(self.layout.parameters))
        grown = bool((np.abs(found.z[mine]) > _GROWN * used.sizes[mine]).any())
        if not grown and used.objective * abs(found.objective) > TOLERANCE:
            return None
        there = scaling(self, found.z)
        return there if grown or there.objective > _SMALLER * used.objective else None

    def _fitted(
        self, z: Array, guess: Any, chosen: SolverOptions, progress: bool | None
    ) -> Solution:
        """The solution from the free vector of a guess, with standard deviations that are not known
        and the error of its grid."""
        with heap().kept(self.n_variables + self.n_constraints):
            return self._found(z, guess, chosen, progress)

    def _found(
        self, z: Array, guess: Any, chosen: SolverOptions, progress: bool | None
    ) -> Solution:
        """`_fitted`, wherever its memory is."""
        multipliers, known = self._multipliers(guess), dict[str, float]()
        if self._integrated:
            return self._of_largest_likelihood(z, guess, chosen, progress)
        if not self._reweighs:
            problem, solution, workspace = self._solved(z, multipliers, chosen, progress)
            return problem._told(solution, problem, workspace)
        if isinstance(guess, Solution):
            known = {group: s for group, s in guess.estimated_std.items() if s > 0.0}
        failed = list[str]()

        def lost(words: list[str]) -> Sequence[Noise]:
            failed.extend(words)
            return []

        def fit(
            std: Mapping[str, float], last: tuple[Solution, Mapping[str, float]] | None
        ) -> tuple[tuple[Solution, Mapping[str, float]], Sequence[Noise] | None]:
            problem = self._on([trial.with_std(std) for trial in self.trials])
            if last is None:
                begin = (z, multipliers if known else None)
                problem, found, workspace = problem._solved(*begin, chosen, progress)
            else:
                before, used = last
                ratio = float(np.exp(np.mean([2.0 * np.log(used[g] / std[g]) for g in std])))
                y, low, high = (ratio * each for each in multipliers_of(before))
                begin = (before.free_vector, (y, low, high))
                problem, later, workspace = problem._solved(*begin, chosen, progress)
                found = after(before, later)
            if not found.success:
                return (found, std), None if found.status is Solve.INTERRUPTED else []

            def noise() -> Sequence[Noise]:
                return problem._noise(found, problem._kkt(found, workspace), std, self.trials)

            return (found, std), kept("standard deviations", noise, lost)

        (solution, _), noise, notes = settled(fit, {**first_std(self.trials), **known})
        solution = replace(solution, noise=noise, notes=[*solution.notes, *notes, *failed])
        if not noise:
            return solution
        std = {**first_std(self.trials), **{n.group: n.std for n in noise if n.std > 0.0}}
        problem = self._on([trial.with_std(std) for trial in self.trials]).on_grid_of(solution)
        return self._told(solution, problem)

    def _of_largest_likelihood(
        self, z: Array, guess: Any, chosen: SolverOptions, progress: bool | None
    ) -> Solution:
        """The solution with the parameters, distributions of random effects, intensities of noise
        and standard deviations of the largest marginal likelihood."""
        start = time.perf_counter()
        self._check_finite(z)
        std, some = first_std(self.trials), self._population
        known = guess if isinstance(guess, Solution) else None
        if some and (known is None or list(known.parameters) != self._rows):
            known = self._of_each_owner(z, guess, chosen, progress)
            z = z if known is None else known.free_vector
        if known is not None:
            std |= {g: s for g, s in known.estimated_std.items() if s > 0.0 and g in std}
        h, limits = some.start(self.layout.parameter_values(z), self._errors(z, known))
        if known is not None and set(some.names) <= set(known.parameters):
            h = np.clip(some.from_natural(known.parameters), *limits)
        with iteration_line(progress) as report:
            made = self._marginal(std, limits, chosen, report)
            found = made.estimated(z, h, list(std.values()))
        problem = self._with_priors(found.priors)
        problem = problem._on(found.best.trials) if found.std else problem
        solution = problem._solution(found.best.found, time.perf_counter() - start)
        counts = {group: len(y) for group, y in samples_of(self.trials).items()}
        noise = [Noise(group, s, counts[group], np.inf) for group, s in found.std.items()]
        solution = replace(
            solution,
            success=found.converged,
            message=_MAXIMUM.format(found.steps) if found.converged else _NO_MAXIMUM,
            noise=noise,
            notes=[*solution.notes, *found.uncertainty.notes],
            uncertainty=[found.uncertainty],
            likelihood=[found.likelihood],
        )
        return self._told(solution, problem)

    def _of_each_owner(
        self, z: Array, guess: Any, chosen: SolverOptions, progress: bool | None
    ) -> Solution | None:
        """A fit in which each owner of a random effect is for itself, where that can be."""
        if self._noisy:
            return None
        found = self._without_population()._fitted(z, guess, chosen, progress)
        return found if found.success else None

    def _told(
        self, solution: Solution, problem: Solvable, workspace: Workspace | None = None
    ) -> Solution:
        """The solution with all that is computed about it. problem : this one with the standard
        deviations that were found."""

        def without(found: Solution, notes: list[str]) -> Solution:
            return replace(found, notes=[*found.notes, *notes])

        certified = partial(problem._certified, solution, workspace)
        found = kept("errors of estimates and of the grid", certified, partial(without, solution))
        judged = partial(self._judged, found)
        return kept("remarks on standard deviations", judged, partial(without, found))

    def _certified(self, solution: Solution, workspace: Workspace | None = None) -> Solution:
        """The solution with the error of its grid, if it has converged; Ctrl-C leaves that out."""
        if not solution.success:
            return solution
        start = time.perf_counter()
        made = (self.symbolic, self._scheme, self._built, self.nlp, self.trials, self._known)
        try:
            kkt = self._kkt(solution, workspace)
            solution = self._with_noise(solution, kkt)
            free = free_directions(kkt) if self.symbolic.objective.least_squares else None
            told = {} if free is None else {"directions": free}
            about = self._uncertainty(solution, kkt)
            variance = self._variance(solution)
            error = grid_error(*made, solution, kkt, self.variable_bounds, variance)
            if isinstance(about, Uncertainty) and error.deviations:
                own = zip(about.names, map(float, about.deviations()), strict=True)
                known = {name: sd for name, sd in own if not np.isnan(sd)}
                error = replace(error, deviations={**error.deviations, **known})
            about_lags = (self._lags, self.layout.states, self.trials, solution.trials)
            unseen = [breaks_between_nodes(*about_lags, self._scheme.order)]
            unseen += ["the jump between two nodes is not counted"] * bool(self._switches.notes)
            error = replace(error, unseen="; ".join(filter(None, unseen)))
            if self._integrated:  # the shifts are those with the parameters held
                error = replace(error, parameters={}, deviations={})
            solution = self._asked_again(solution, about)
            with suppress(MemoryError):  # as the error of the grid, nothing that a solution needs
                if not self.symbolic.aimless and kkt.singular:
                    more = undetermined(self.symbolic, self.layout, kkt)
                    solution = self._without(more, solution)
        except KeyboardInterrupt:
            return solution
        seconds = time.perf_counter() - start
        timings = {**solution.timings, "grid": seconds}
        timings["total"] += seconds
        problem = {**solution.problem, **told}
        return replace(solution, grid=[error], timings=timings, problem=problem)

    def _without(self, more: Open, solution: Solution) -> Solution:
        """The solution without what else nothing determines."""
        hidden = more.hidden | idle(self.layout, self._ends).hidden | self._absent
        trials = self._trajectories(solution.free_vector, hidden)
        return replace(solution, trials=trials, notes=[*solution.notes, *more.notes])

    def _check_finite(self, z: Array) -> None:
        if explain(self.program, self.nlp, z) is None:
            return
        start = pushed(z, self.variable_bounds, 1.0 / scaling(self, z).variables)
        reason = explain(self.program, self.nlp, start)
        if reason is not None:
            raise ValueError(f"at the guess, {reason}; change the guess or the bounds")

    def _solution(self, found: Solved, seconds: float) -> Solution:
        if found.status in _STUCK:
            reason = explain(self.program, self.nlp, found.z)
            found = replace(found, status=Solve.NOT_FINITE) if reason else found
        message = found.message
        if found.status is Solve.NOT_FINITE:
            message = f"{message}: {reason or 'between iterates'}"
        timings = {**self.timings, "evaluate": found.evaluation, **linear_solver_seconds(found.log)}
        if slow := interpreted(self.nlp.library):
            timings["interpreted"] = min(found.evaluation, slow)
        timings["total"] = self.timings["derive"] + self.timings["compile"] + seconds
        multipliers, lower, upper = found.multipliers
        durations = self.layout.durations(found.z)
        keeps = [u for c in self.symbolic.contacts for u in holds_of(c) if u is not None]
        shown = idle(self.layout, self._ends, [name_of(u) for u in keeps])
        trials = self._trajectories(found.z, shown.hidden | self._absent)
        poor = poor_fits(trials, self.trials) if self.symbolic.objective.least_squares else []
        return Solution(
            success=found.status.success,
            message=message,
            status=found.status,
            objective=found.objective,
            parameters=Estimates(self._estimates(found.z)),
            known=shared_values(self._known),
            trials=trials,
            notes=[
                *poor,
                *([_ASK_WHY] if poor else ()),
                *self._gaps,
                *notes_on_apart(self, found.z),
                *bends(self._asked.moments, self.layout, multipliers, found.objective, trials),
                *shown.notes,
            ],
            free_vector=found.z,
            multipliers=multipliers,
            lower_multipliers=lower,
            upper_multipliers=upper,
            history=found.iterations,
            linear_solver=found.linear_solver,
            timings=timings,
            model=self.model.name,
            problem={
                "scheme": self.symbolic.scheme.name,
                "variables": self.n_variables,
                "constraints": self.n_constraints,
                "nodes": self.layout.nodes,
                "arrays": self.layout.arrays,
                "held": sorted(self.layout.held),
                "log_scale": sorted(self.symbolic.log_scale),
                **({"histories": self._histories} if self._histories else {}),
                **({"durations": list(map(float, durations))} if len(durations) else {}),
                **({"delays": self._delays} if self._delays else {}),
                **({"apart": [list(row) for row in self._apart]} if self._apart else {}),
                **({"contact drift": self._contact_drift(found.z)} if keeps else {}),
            },
            log=found.log,
            setting=setting_of(self.model, self.trials, self.layout.parameters, self._sides),
            reasons=partial(
                why,
                self,
                found.z,
                f"{self.model.name}: {message}",
                () if found.status.success else found.iterations,
                ended=True,
                solved=found.status.success,
                unexplained=Solvable._unexplained,
            ),
        )

    def _contact_drift(self, z: Array) -> float:
        """How far closed contacts are from where they are to be at a node, at most [m]."""
        values, layout, most = self.constraints(z), self.layout, 0.0
        for (trial, family), begin in layout.constraint_offsets.items():
            n = layout.points(trial, family)
            for k, label in enumerate(layout.labels[family]):
                if label.startswith(HOLD) and not label.endswith("_rate"):
                    rows = values[begin + k * n : begin + (k + 1) * n]
                    most = max(most, float(np.abs(rows).max(initial=0.0)))
        return most

    @property
    def _sides(self) -> tuple[Array, Array]:
        """Bounds of the parameters, (r,) each."""
        layout, (low, high) = self.layout, self.variable_bounds
        natural = layout.owned.natural
        return natural(layout.parameter_values(low)), natural(layout.parameter_values(high))

    def _unexplained(self, z: Array) -> float:
        """The share of the variance of what is measured that a fit from a free vector leaves, 0 if
        that is no more than the noise that was given; 1 without a solution."""
        try:
            weighed = self._on([trial.with_std(first_std(self.trials)) for trial in self.trials])
            chosen = SolverOptions({"max_iter": _QUICK})
            _, found, _ = weighed._solved(z, None, chosen, False)
        except ValueError:  # not finite where it begins
            return 1.0
        if not found.success:
            return 1.0
        shares = [
            0.0 if as_noisy(trial, given, name) else 1.0 - vaf / 100.0
            for trial, given in zip(found.trials, self.trials, strict=True)
            for name, vaf in trial.vaf().items()
        ]
        return float(np.mean(shares)) if shares else 1.0

    def _multipliers(self, guess: Any) -> tuple[Array, Array, Array] | None:
        """Those of constraints, lower and upper bounds, if the guess is a solution with them."""
        if isinstance(guess, Solution) and self._fits(guess):
            return multipliers_of(guess)
        return None
