"""Solving a discretisation by IPOPT, and loops around it that estimate noise and distributions.

`Solver.fitted`              the way that a problem needs:
  `_solved`                  one solve, repeated while unknown sensor delays move samples
  `_reweighed`               unknown standard deviations: solves until residuals confirm them
  `_of_largest_likelihood`   random effects, process noise: maximum of the marginal likelihood
-> `certificate.told`        standard errors, discretisation error and remarks

Other guesses and easier problems after a lost solve are in `attempts.py` and `ladder.py`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from kinesym.internal.fitting.absolute_values import solved_as, squared
from kinesym.internal.fitting.certificate import told
from kinesym.internal.fitting.curvature import Curvature, Multipliers, multipliers_of
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.marginal_fit import marginal, of_samples, standard_errors
from kinesym.internal.fitting.scaling import if_met, scaling
from kinesym.internal.fitting.solution_grid import fits, on_grid_of
from kinesym.internal.fitting.solution_record import solution_of
from kinesym.internal.fitting.why import why
from kinesym.internal.problems.diagnose import explain
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import check_std, first_std, samples_of
from kinesym.runtime.ipopt.driver import Solved, Start
from kinesym.runtime.ipopt.memory import heap
from kinesym.runtime.ipopt.scaling import TOLERANCE, Bounds, Scaling, pushed
from kinesym.runtime.ipopt.solve import SolverOptions, continued
from kinesym.runtime.library.tiers import look
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.sensor_delays import NEVER, SOLVES
from kinesym.runtime.nlp.sensor_delays import settled as settled_delays
from kinesym.runtime.progress import Iteration, iteration_line
from kinesym.runtime.results.estimates import Noise
from kinesym.runtime.results.fit import as_noisy
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.solution import Solution, after
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.status import Solve

#: Message if a maximum of the likelihood is found.
_MAXIMUM = "the likelihood is largest, after {} steps"
#: Ratio of scaling factors of the objective, at solution and guess, from which on to solve again.
_SMALLER = 1e4
#: Growth of a parameter, in its size at the guess, from which on to solve again.
_GROWN = 1e6
#: Iterations of a fit that tells whether the data follow the model.
_QUICK = 40


@dataclass(frozen=True)
class Solver:
    """Solver of one problem: the discretisation and the options of IPOPT. progress : whether to
    show the latest iteration."""

    problem: Discretisation
    chosen: SolverOptions
    progress: bool | None = False

    def fitted(self, z: Array, guess: Any = None) -> Solution:
        """Solve from the free vector of a guess; returns the solution with estimates of unknown
        standard deviations and with the discretisation error. Memory of the factorisation is kept
        meanwhile."""
        with heap().kept(self.problem.n_variables + self.problem.n_constraints):
            return self._found(z, guess)

    def _of(self, problem: Discretisation) -> Solver:
        """Solver of another problem with the same options."""
        return replace(self, problem=problem)

    def _found(self, z: Array, guess: Any) -> Solution:
        """Choose the loop: marginal likelihood, unknown standard deviations, or one solve."""
        about = self.problem.estimation
        if about.integrated:
            return self._of_largest_likelihood(z, guess)
        if about.kinked and not isinstance(guess, Solution):
            first = self._of(squared(self.problem))._solved(z, None)[1]
            if first.success:
                return after(first, self._found(first.free_vector, first))
        if not about.reweighs:
            problem, solution, workspace = self._solved(z, self._multipliers(guess))
            return told(problem, solution, problem, workspace)
        return self._reweighed(z, guess)

    # -- one solve ---------------------------------------------------------------------------

    def _solved(
        self, z: Array, multipliers: Multipliers | None
    ) -> tuple[Discretisation, Solution, Workspace | None]:
        """Solve once from a free vector, or again while unknown sensor delays move samples to other
        intervals. Returns the problem with samples and conditions at their final places, its
        solution, and the workspace of the solver, whose matrix is used again."""
        whole, chosen = self.problem, self.chosen
        check_finite(whole.placed_at(z), z)

        def solved(
            trials: Sequence[Experiment], start: Start, bounds: Bounds
        ) -> tuple[tuple[Discretisation, float], Solved]:
            begin = time.perf_counter()
            problem = whole if trials is whole.trials else whole.on(trials)
            nlp = problem.gauss_newton if chosen.hessian == "gauss-newton" else problem.nlp
            asked = replace(problem.ipopt(nlp), bounds=bounds)
            if "nlp_scaling_method" not in chosen.options:
                asked = replace(asked, scaling=scaling(problem, start.z))

            def between(iteration: Iteration) -> None:
                look(nlp.library)
                report(iteration)

            found = solved_as(problem, asked, start, chosen, between)
            scale = asked.scaling and _scale_there(problem, asked.scaling, found)
            if scale:
                asked, again = replace(asked, scaling=scale), Start(found.z, found.multipliers)
                nearer = solved_as(problem, asked, again, chosen, between)
                found = continued(found, nearer) if nearer.status.success else found
            return (problem, time.perf_counter() - begin), found

        given = (whole.trials, Start(z, multipliers), whole.variable_bounds)
        with iteration_line(self.progress) as report:
            made = settled_delays(whole.about, whole.layout, *given, solved)
        solutions = [_solution(problem, found, seconds) for (problem, seconds), found in made]
        (problem, _), last = made[-1]
        solution = reduce(after, solutions)
        if len(made) == SOLVES and not last.status.success:
            solution = replace(solution, message=NEVER)
        return problem, if_met(problem, z, solution), last.workspace

    def _multipliers(self, guess: Any) -> Multipliers | None:
        """Multipliers of a guess that is a solution of a problem with the same free vector; else
        None."""
        same = isinstance(guess, Solution) and fits(self.problem, guess)
        return multipliers_of(guess) if same else None

    # -- standard deviations that are not known ----------------------------------------------

    def _reweighed(self, z: Array, guess: Any) -> Solution:
        """Solve with unknown standard deviations: those of the residuals of the last solution are
        used in the next one, until they stay."""
        whole, known = self.problem, dict[str, float]()
        multipliers, failed = self._multipliers(guess), list[str]()
        if isinstance(guess, Solution):
            known = {group: s for group, s in guess.estimated_std.items() if s > 0.0}

        def lost(words: list[str]) -> Sequence[Noise]:
            failed.extend(words)
            return []

        def fit(
            std: Mapping[str, float], last: tuple[Solution, Mapping[str, float]] | None
        ) -> tuple[tuple[Solution, Mapping[str, float]], Sequence[Noise] | None]:
            with_std = self._of(whole.with_std(std))
            if last is None:
                problem, found, left = with_std._solved(z, multipliers if known else None)
            else:
                before, used = last
                ratio = float(np.exp(np.mean([2.0 * np.log(used[g] / std[g]) for g in std])))
                y, low, high = (ratio * each for each in multipliers_of(before))
                problem, later, left = with_std._solved(before.free_vector, (y, low, high))
                found = after(before, later)
            if not found.success:
                return (found, std), None if found.status is Solve.INTERRUPTED else []

            def noise() -> Sequence[Noise]:
                return whole.estimation.noise(Curvature.at(problem, found, left).residuals(), std)

            return (found, std), kept("standard deviations", noise, lost)

        (solution, _), noise, notes = whole.estimation.reweighted(fit, known)
        solution = replace(solution, noise=noise, notes=[*solution.notes, *notes, *failed])
        if not noise:
            return solution
        std = {**first_std(whole.trials), **{n.group: n.std for n in noise if n.std > 0.0}}
        return told(whole, solution, on_grid_of(whole.with_std(std), solution))

    # -- the largest marginal likelihood -----------------------------------------------------

    def _of_largest_likelihood(self, z: Array, guess: Any) -> Solution:
        """Maximise the marginal likelihood over parameters, distributions of random effects,
        intensities of process noise and standard deviations."""
        start, whole = time.perf_counter(), self.problem
        check_finite(whole, z)
        std, some = first_std(whole.trials), whole.population
        known = guess if isinstance(guess, Solution) else None
        if some and (known is None or list(known.parameters) != whole.estimated):
            known = self._of_each_owner(z, guess)
            z = z if known is None else known.free_vector
        if known is not None:
            std |= {g: s for g, s in known.estimated_std.items() if s > 0.0 and g in std}
        errors = standard_errors(whole, z, known)
        h, limits = some.start(whole.layout.parameter_values(z), errors)
        if known is not None and set(some.names) <= set(known.parameters):
            h = np.clip(some.from_natural(known.parameters), *limits)
        with iteration_line(self.progress) as report:
            made = marginal(whole, std, limits, self.chosen, report)
            found = made.estimated(z, h, list(std.values()))
        problem = whole.with_priors(found.priors)
        problem = problem.on(found.trials) if found.std else problem
        solution = _solution(problem, found.solved, time.perf_counter() - start)
        counts = {group: len(y) for group, y in samples_of(whole.trials).items()}
        noise = [Noise(group, s, counts[group], np.inf) for group, s in found.std.items()]
        status = solution.status
        if status.success != found.converged:
            status = Solve.CONVERGED if found.converged else Solve.NO_MAXIMUM
        solution = replace(
            solution,
            status=status,
            message=_MAXIMUM.format(found.steps) if found.converged else Solve.NO_MAXIMUM.sentence,
            noise=noise,
            notes=[*solution.notes, *found.uncertainty.notes],
            uncertainty=[found.uncertainty],
            likelihood=[of_samples(whole, found.likelihood, solution.free_vector)],
        )
        return told(whole, solution, problem)

    def _of_each_owner(self, z: Array, guess: Any) -> Solution | None:
        """Fit without random effects, each owner for itself, as a start; None with process noise,
        or if it does not converge."""
        if self.problem.formulation.noisy:
            return None
        found = self._of(self.problem.without_distributions()).fitted(z, guess)
        return found if found.success else None


def _solution(problem: Discretisation, found: Solved, seconds: float) -> Solution:
    """Solution from the result of IPOPT, with reasons to ask for if it did not converge."""
    solved = found.status.success
    about = (problem, found.z, "", () if solved else found.iterations)
    reasons = partial(why, *about, ended=True, solved=solved, unexplained=unexplained)
    return solution_of(problem, found, seconds, reasons)


def fitted_as(problem: Discretisation, z: Array, guess: Any, chosen: SolverOptions) -> Solution:
    """Solve as `Solver.fitted`, without a line per iteration."""
    return Solver(problem, chosen).fitted(z, guess)


def check_finite(problem: Discretisation, z: Array) -> None:
    """Raise `ValueError` for a function that is not finite where a solve from z begins."""
    if explain(problem.libraries.program, problem.nlp, z) is None:
        return
    start = pushed(z, problem.variable_bounds, 1.0 / scaling(problem, z).variables)
    reason = explain(problem.libraries.program, problem.nlp, start)
    if reason is not None:
        check_std(problem.trajectories(start), problem.trials)
        raise ValueError(f"at the guess, {reason}; change the guess or the bounds")


def _scale_there(problem: Discretisation, used: Scaling, found: Solved) -> Scaling | None:
    """Scaling at a solution, to solve again, if the one at the guess was far off: the objective was
    so much larger there that its remaining slope passed for zero, or a parameter so much smaller.
    Else None."""
    if problem.symbolic.aimless or not found.status.success:
        return None
    begin = problem.layout.parameter_offset
    mine = slice(begin, begin + len(problem.layout.parameters))
    grown = bool((np.abs(found.z[mine]) > _GROWN * used.sizes[mine]).any())
    if not grown and used.objective * abs(found.objective) > TOLERANCE:
        return None
    there = scaling(problem, found.z)
    return there if grown or there.objective > _SMALLER * used.objective else None


def unexplained(problem: Discretisation, z: Array) -> float:
    """Share of the variance of the measurements that a short fit from a free vector leaves, 0
    within the noise that was given; 1 without a solution."""
    try:
        weighed = problem.with_std(first_std(problem.trials))
        _, found, _ = Solver(weighed, SolverOptions({"max_iter": _QUICK}))._solved(z, None)
    except ValueError:  # not finite where it begins
        return 1.0
    if not found.success:
        return 1.0
    shares = [
        0.0 if as_noisy(trial, given, name) else 1.0 - vaf / 100.0
        for trial, given in zip(found.trials, problem.trials, strict=True)
        for name, vaf in trial.vaf().items()
    ]
    return float(np.mean(shares)) if shares else 1.0
