"""Cross-validation, `ks.cross_validate`: fits without a part of the trials, and their predictions
of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinesym.base import checks
from kinesym.collocation import Collocation
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.leaving_out import arguments_of, drawn_from, part_of, taught
from kinesym.internal.fitting.marginal_fit import marginal
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.likelihood import likelihood_of
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.results.cross_validation import CrossValidation, Foretold, Score
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.series import series_of
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.optimizers import OPTIMIZERS
from kinesym.runtime.signals.experiment import TRIAL, Experiment
from kinesym.shooting import Shooting


class _Answer(NamedTuple):
    """Trajectories of what was left out, the log of the density of its samples, and parameters
    that were fitted to these, or put at means."""

    runs: Sequence[Trajectory]
    log_density: float
    refitted: Sequence[str]
    predicted: Sequence[str]


def cross_validate(
    problem: Collocation | Shooting, fit: Solution | Fit, by: str = TRIAL
) -> CrossValidation:
    """Cross-validation: leave out each trial, or all trials with the same name for a label, in
    turn, and predict it from a fit of the others.

    The others are fitted by the same library; the parameters, distributions and standard deviations
    of that fit are held for the part that was left out. fit : a solution of the problem, from which
    all fits begin. by : "trial", or a label.

    Parameters that only the left-out part has, such as the damping of a subject, are set to the
    mean of their distribution if they have one, known or estimated, and are else fitted to the
    samples that were left out, as unknown initial values are. With process noise trajectories
    follow the samples. The score of a part is the log density of its samples; with random effects
    or process noise it is the marginal one, these integrated out.

    Raises `ValueError` for a fit that has not converged or is of another problem, for trials that
    are linked, for a label that a trial does not have, and if nothing is left to fit.
    """
    if not isinstance(problem, Collocation | Shooting):
        raise ValueError(f"cross_validate takes a Collocation or a Shooting, got {problem!r}")
    checks.check_kind(fit, Solution if isinstance(problem, Collocation) else Fit, "kinesym")
    if not fit.success:
        raise ValueError(f"no cross-validation without convergence: {fit.message}")
    _check_same(problem, fit)
    inside = _rms(fit.trials)
    errors, scores, notes = list[Foretold](), list[Score](), list[str]()
    refitted, predicted = list[str](), list[str]()
    for name, out in _parts(problem.trials, by).items():
        found = _without(problem, fit, out)
        if isinstance(found, str):
            notes.append(f"without {by} {name}: {found}")
            continue
        rms, total = _rms(found.runs), 0.0
        for channel in dict.fromkeys(channel for _, channel in rms):
            rows = [(j, k) for j, k in enumerate(out) if (j, channel) in rms]
            count = sum(rms[j, channel][1] for j, _ in rows)
            own = sum(rms[j, channel][0] for j, _ in rows)
            theirs = sum(inside[k, channel][0] for _, k in rows)
            errors.append(
                Foretold(name, channel, count, (own / count) ** 0.5, (theirs / count) ** 0.5)
            )
            total += count
        scores.append(Score(name, total, found.log_density))
        refitted += [p for p in found.refitted if p not in refitted]
        predicted += [p for p in found.predicted if p not in predicted]
    if not scores:
        raise ValueError(f"nothing could be foretold: {notes[0]}")
    if refitted:
        notes.append(f"{', '.join(refitted)} of what was left out: fitted to its samples")
    if predicted:
        notes.append(
            f"{', '.join(predicted)} of what was left out: at the mean of the distribution"
        )
    return CrossValidation(
        by=by, errors=errors, scores=scores, refitted=refitted, predicted=predicted, notes=notes
    )


def _check_same(problem: Collocation | Shooting, fit: Solution | Fit) -> None:
    """Raise `ValueError` for a fit of another problem."""
    if isinstance(problem, Collocation):
        assert isinstance(fit, Solution)
        on_grid_of(problem.problem, fit)
        return
    assert isinstance(fit, Fit)
    if list(fit.names) != problem.names or len(fit.trials) != len(problem.trials):
        raise ValueError("this is a fit of another problem")


def _parts(trials: Sequence[Experiment], by: str) -> dict[str, list[int]]:
    """Numbers of the trials that are left out together, by name."""
    found = dict[str, list[int]]()
    for k, trial in enumerate(trials):
        if by != TRIAL and by not in trial.labels:
            raise ValueError(
                f"trial {k} has no label {by!r}; {checks.suggest(by, [TRIAL, *trial.labels])}"
            )
        found.setdefault(str(k) if by == TRIAL else str(trial.labels[by]), []).append(k)
    if len(found) < 2:
        raise ValueError(f"there is one {by} only: without it nothing is left to fit")
    return found


def _rms(runs: Sequence[Trajectory]) -> dict[tuple[int, str], tuple[float, int]]:
    """The sum of squares of the residuals and their number, by trial and channel."""
    return {
        (s.trial, s.channel): (float(s.residuals @ s.residuals), len(s.time))
        for s in series_of(runs)
    }


def _without(
    problem: Collocation | Shooting, fit: Solution | Fit, out: Sequence[int]
) -> _Answer | str:
    """Prediction of the left-out trials from a fit of the others, or the reason why there is
    none."""
    kept = [k for k in range(len(problem.trials)) if k not in out]
    begin, end = ([fit.trials[k] for k in numbers] for numbers in (kept, out))
    if isinstance(problem, Collocation):
        learnt = _solved(part_of(problem.problem, kept), begin)
        whole = problem.problem
        return _by_collocation(whole, learnt, out, end) if learnt.success else learnt.message
    assert isinstance(fit, Fit)
    left = _part_of(problem, arguments_of(problem.problem.given, kept))
    found = left.solve(begin, fit.optimizer, progress=False)
    return _by_shooting(problem, found, out, end) if found.success else found.message


def _by_collocation(
    problem: Discretisation, learnt: Solution, out: Sequence[int], begin: Sequence[Trajectory]
) -> _Answer | str:
    part, some = part_of(problem, out, learnt), problem.population
    known = taught(part.layout.owned, part.unknown, learnt.parameters)
    entries = part.layout.owned.entries(known.values)
    found = _solved(part.holding(entries), begin)
    if not found.success:
        return found.message
    score = (
        found.log_likelihood
        if problem.formulation.noisy
        else _density(found.trials, part.trials, problem.estimation.loss)
    )
    if some:  # the distribution in place of its mean
        population = drawn_from(some, part.unknown, part.layout.owned)
        drawn = part.holding(np.where(population.random, np.nan, entries))
        drawn = replace(drawn, effects=population)
        nothing = np.zeros(0)
        chosen, limits = SolverOptions({}), (nothing, nothing)
        likelihood = marginal(drawn, {}, limits, chosen, lambda step: None)
        best = likelihood.estimated(found.free_vector, nothing, [])
        score = best.likelihood.log_likelihood
    return _Answer(found.trials, score, known.refitted, known.predicted)


def _solved(problem: Discretisation, begin: Sequence[Trajectory]) -> Solution:
    """The solution of a part of the trials, from trajectories of these."""
    return Collocation.of(problem).solve(begin, progress=False)


def _by_shooting(
    problem: Shooting, learnt: Fit, out: Sequence[int], begin: Sequence[Trajectory]
) -> _Answer | str:
    given = arguments_of(problem.problem.given, out, learnt)
    known = taught(given.unknowns.owned, given.unknown, learnt.parameters)
    whole = np.full(given.unknowns.size, np.nan)
    whole[: len(known.values)] = known.values
    part = _part_of(problem, replace(given, bounds=_holding(given.bounds, whole)))
    optimizer = "bfgs" if OPTIMIZERS[learnt.optimizer].squares else learnt.optimizer
    found = part.solve(begin, optimizer, progress=False)
    if not found.success:
        return found.message
    score = _density(found.trials, part.trials, problem.problem.trials.loss)
    return _Answer(found.trials, score, known.refitted, known.predicted)


def _part_of(problem: Shooting, given: ShootingArguments) -> Shooting:
    """The same problem of other trials."""
    return Shooting.of(problem.problem.with_arguments(given))


def _holding(bounds: tuple[Array, Array], values: Array) -> tuple[Array, Array]:
    """Bounds that hold the variables that have a value."""
    low, high = (np.where(np.isnan(values), bound, values) for bound in bounds)
    return low, high


def _density(
    runs: Sequence[Trajectory], trials: Sequence[Experiment], loss: RobustLoss | None
) -> float:
    """log of the density of samples, NaN if the loss is no likelihood."""
    found = likelihood_of(runs, trials, 0.0, loss)
    return found[0].log_likelihood if found else np.nan
