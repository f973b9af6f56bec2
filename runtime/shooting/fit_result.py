"""The fit of a minimum of simulated trials: estimates, how sure they are, what is said of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import with_noise
from kinesym.runtime.nlp.owned import shared_values
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.estimates import Estimates, Noise, Uncertainty
from kinesym.runtime.results.fit import Fit, poor_fits
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.series import squares_of_samples
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.confidence import confidence, nothing_told
from kinesym.runtime.shooting.estimate_shifts import Minimiser, estimate_error
from kinesym.runtime.shooting.inference import ShootingInference
from kinesym.runtime.shooting.minimising import Minimised, natural_sizes
from kinesym.runtime.shooting.neighbour import near_minimum
from kinesym.runtime.shooting.residuals import number_of_samples, residuals_of
from kinesym.runtime.shooting.task import Task
from kinesym.runtime.statistics.covariance import Confidence
from kinesym.runtime.statistics.exchange import Exchange, KnownAs, known_as


def fit_of(
    task: Task, made: Minimised, noise: Sequence[Noise] = (), more: Sequence[str] = ()
) -> Fit:
    """The fit that a minimum is. noise : standard deviations that are known already. more : further
    sentences."""
    plain, estimation = bare(task, made, noise), task.estimation
    certified = partial(_certified, task, made, plain)
    fit, sure = kept("errors of estimates", certified, lambda words: (_noted(plain, words), None))
    if sure is not None and fit.success:
        residuals = partial(residuals_of, task.trials, fit.values, ~sure.held)
        told = None if np.isnan(sure.covariance).all() else sure.taken
        about = (residuals, sure.taken, told, task.prior_squares(fit.values))
        judged = partial(estimation.judged, fit, *about)
        fit = kept("remarks on standard deviations", judged, partial(_noted, fit))
    return _noted(fit, [*more, *task.gaps])


def _noted(fit: Fit, notes: Sequence[str]) -> Fit:
    return replace(fit, notes=[*fit.notes, *notes])


def bare(task: Task, made: Minimised, noise: Sequence[Noise] = ()) -> Fit:
    """A minimum without all that is computed about it."""
    trials, found, q = task.trials, made.found, made.found.q
    unknowns, J = trials.unknowns, trials.cost(q)
    runs = trials.trajectories(q) if np.isfinite(J) else []
    timings, about = task.timings, _uncertainty(task, nothing_told(q), noise)
    return Fit(
        status=found.status,
        message=found.message,
        objective=J,
        parameters=Estimates(dict(zip(unknowns.parameters, map(float, q), strict=False))),
        known=shared_values(trials.system.known),
        initial=unknowns.initial_values(q),
        trials=with_noise(runs, trials.trials, noise) if runs else [],
        names=list(unknowns.names),
        free_vector=q,
        gradient=task.gradient(q, J),
        history=list(made.history),
        condition=np.nan,
        timings={**timings, "total": sum(timings.values()) + made.seconds},
        optimizer=made.problem.how.optimizer,
        model=trials.system.name,
        noise=list(noise),
        uncertainty=[about],
        inference=partial(ShootingInference, task, q, about),
    )


def _certified(task: Task, made: Minimised, fit: Fit) -> tuple[Fit, Confidence]:
    """A fit with standard deviations, errors of estimates and the error of the steps; and how far
    it tells its unknowns."""
    estimation, noise = task.estimation, fit.noise
    sure, curvature = confidence(estimation, made, fit.objective, fit.gradient)
    sure = estimation.scaled(sure, estimation.variance(noise))
    if not noise and fit.success and estimation.pooled:
        samples = number_of_samples(task.trials)
        noise = estimation.pooled_noise(fit.objective, samples, sure.taken)
    if not fit.success or any(np.isnan(each.std) for each in noise):
        sure = replace(sure, covariance=np.full_like(sure.covariance, np.nan))
    begin, grid, timings = time.perf_counter(), list[EstimateError](), dict(fit.timings)
    if fit.success and curvature is not None:
        here = _minimiser(task, made, fit.gradient, curvature, sure)
        grid = estimate_error(here, task.finer)
    if grid:
        timings["grid"] = time.perf_counter() - begin
        timings["total"] = timings.pop("total") + timings["grid"]
    runs = with_noise(fit.trials, task.trials.trials, noise) if fit.trials else []
    known = _known_as(task, made, sure, estimation.variance(noise), runs)
    about = _uncertainty(task, sure, noise, known)
    poor = poor_fits(runs, task.trials.trials) if task.trials.measured and runs else []
    found = replace(
        fit,
        trials=runs,
        condition=sure.condition,
        notes=[*about.notes, *poor],
        timings=timings,
        grid=grid,
        noise=noise,
        uncertainty=[about],
        inference=partial(ShootingInference, task, fit.values, about),
    )
    return found, sure


def _uncertainty(
    task: Task, sure: Confidence, noise: Sequence[Noise], known: Sequence[KnownAs] = ()
) -> Uncertainty:
    """Uncertainty of all unknowns."""
    names, owned = task.trials.unknowns.names, task.trials.unknowns.owned
    logarithmic = list(np.array(owned.names)[owned.log])
    return task.estimation.uncertainty(names, logarithmic, sure, noise, known)


def _known_as(
    task: Task, made: Minimised, sure: Confidence, variance: float, runs: Sequence[Trajectory]
) -> Sequence[KnownAs]:
    """Combinations that are known of unknowns that the record does not tell apart, from minima with
    these held elsewhere."""
    q, trials, ways = made.found.q, task.trials, sure.directions
    asked = made.success and made.problem.squares and not trials.unknowns.several
    if not asked or ways is None or not ways.shape[1]:
        return []
    every = Exchange(trials.unknowns.names, q, ways, task.bounds)
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(sure.covariance))

    def rise(which: NDArray[np.intp], moved: Array) -> float:
        guess, free = q.copy(), np.setdiff1d(np.flatnonzero(~sure.held), which)
        guess[which] = moved
        best, good = near_minimum(trials, guess, free, task.bounds, errors)
        return trials.cost(best) - trials.cost(q) if good else np.inf

    found = known_as(every, rise, variance, squares_of_samples(runs))
    lost = not np.isfinite(np.diag(sure.covariance)[every.moving]).all()
    return found if lost or all(each.exact for each in found) else []


def _minimiser(
    task: Task, made: Minimised, gradient: Array, curvature: Any, sure: Confidence
) -> Minimiser:
    """The minimum with all that tells how far another one is."""
    q, names = made.found.q, task.trials.unknowns.names
    natural = natural_sizes(task.trials, q)
    values = np.where(natural > 0.0, natural, np.abs(q))
    with np.errstate(invalid="ignore"):
        deviations = np.sqrt(np.diag(sure.covariance))
    sizes = np.where(values > 0.0, values, made.size)
    free = ~sure.held
    return Minimiser(q, names, gradient, curvature, free, values, sizes, deviations, task.bounds)
