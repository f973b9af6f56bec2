"""The fit of a minimum of simulated trials: estimates, how sure they are, what is said of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation
from kinesym.runtime.nlp.owned import shared_values
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.estimates import Estimates, Noise, Uncertainty
from kinesym.runtime.results.fit import Fit, poor_fits
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.likelihood import Likelihood
from kinesym.runtime.results.noise import with_noise
from kinesym.runtime.results.series import squares_of_samples
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.covariance import Confidence
from kinesym.runtime.statistics.exchange import Exchange, KnownAs, known_as
from kinesym.runtime.stepping.confidence import confidence, nothing_told
from kinesym.runtime.stepping.estimate_shifts import FinerTrials, Minimiser, estimate_error
from kinesym.runtime.stepping.inference import ShootingInference
from kinesym.runtime.stepping.measured import number_of_samples, taken_of
from kinesym.runtime.stepping.minimising import Minimised, natural_sizes
from kinesym.runtime.stepping.neighbour import near_minimum
from kinesym.runtime.stepping.simulated import Simulated


@dataclass(frozen=True)
class Task:
    """Trials with standard deviations, their minimum to be found within bounds, and what is asked
    of it.

    given : the trials as they were given. finer : makes the trials with finer steps; raises
    `ValueError` where it cannot. remeasured : the trials with other samples. combine : see
    `ShootingInference`. gaps : sentences on samples that are left out.
    """

    trials: Simulated
    bounds: tuple[Array, Array]
    given: Sequence[Experiment]
    finer: Callable[[], FinerTrials]
    remeasured: Callable[[Record], Simulated]
    combine: Callable[[Any, Trajectory], Any]
    gaps: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def estimation(self) -> Estimation:
        """What is estimated, whatever standard deviations `trials` have."""
        made = self.trials
        factor = made.factor if made.measured else 0.0
        return Estimation(self.given, factor, made.loss, bool(made.priors), not made.weighted)

    def gradient(self, q: Array, J: float) -> Array:
        """d J/d q, NaN where there is none."""
        return self.trials.gradient(q) if np.isfinite(J) else np.full_like(q, np.nan)

    def prior_squares(self, q: Array) -> float:
        """The squares of priors, -2 log of their density but for a constant."""
        priors = self.trials.priors
        return float((priors.residuals(q) ** 2).sum()) / self.trials.factor if priors else 0.0


class _Told(NamedTuple):
    """What is computed about a minimum: how sure it is, sentences, the error of the steps, standard
    deviations of measurements, the likelihood, errors of estimates, and seconds."""

    sure: Confidence
    notes: Sequence[str]
    grid: Sequence[EstimateError] = ()
    noise: Sequence[Noise] = ()
    likelihood: Sequence[Likelihood] = ()
    about: Sequence[Uncertainty] = ()
    spent: Mapping[str, float] = MappingProxyType({})


def fit_of(
    task: Task, made: Minimised, noise: Sequence[Noise] = (), more: Sequence[str] = ()
) -> Fit:
    """The fit that a minimum is. noise : standard deviations that are known already. more : further
    sentences."""
    trials, found, q = task.trials, made.found, made.found.q
    unknowns, system, J = trials.unknowns, trials.system, trials.cost(q)
    gradient = task.gradient(q, J)
    runs = trials.trajectories(q) if np.isfinite(J) else []
    told = kept(
        "errors of estimates",
        lambda: _told(task, made, J, gradient, runs, noise),
        lambda words: _Told(nothing_told(q), notes=words, noise=noise),
    )
    about = told.about or [_uncertainty(task, told.sure, told.noise)]
    timings = {**task.timings, **told.spent}
    shown = with_noise(runs, trials.trials, told.noise) if runs else []
    known = told.noise and found.success
    return Fit(
        success=found.success,
        status=found.status,
        message=found.message,
        objective=J,
        parameters=Estimates(dict(zip(unknowns.parameters, map(float, q), strict=False))),
        known=shared_values(system.known),
        initial=unknowns.initial_values(q),
        trials=shown,
        names=list(unknowns.names),
        free_vector=q,
        gradient=gradient,
        history=list(made.history),
        condition=told.sure.condition,
        notes=[*told.notes, *more, *task.gaps],
        timings={**timings, "total": sum(timings.values()) + made.seconds},
        optimizer=made.optimizer,
        model=system.name,
        grid=told.grid,
        noise=list(told.noise),
        likelihood=told.likelihood,
        merit=task.estimation.merit(shown, J, task.prior_squares(q)) if known else J,
        uncertainty=about,
        inference=lambda: ShootingInference(
            trials, task.bounds, q, about[0], task.remeasured, task.combine
        ),
    )


def _told(
    task: Task,
    made: Minimised,
    J: float,
    gradient: Array,
    runs: Sequence[Trajectory],
    noise: Sequence[Noise],
) -> _Told:
    """All that is computed about a minimum. runs : its trajectories. noise : what is known of it
    already."""
    found, q, trials, estimation = made.found, made.found.q, task.trials, task.estimation
    sure, curvature = confidence(estimation, made, J, gradient)
    if noise and estimation.loss is None:  # whatever that of the objective
        sure = replace(sure, covariance=estimation.factor * sure.covariance)
    if not noise and found.success and estimation.pooled:
        noise = estimation.pooled_noise(J, number_of_samples(trials), sure.taken)
    if not found.success or any(np.isnan(each.std) for each in noise):
        sure = replace(sure, covariance=np.full_like(sure.covariance, np.nan))
    begin = time.perf_counter()
    grid: list[EstimateError] = []
    if found.success and curvature is not None:
        grid = estimate_error(_minimiser(task, made, gradient, curvature, sure), task.finer)
    spent = {"grid": time.perf_counter() - begin} if grid else {}
    runs = with_noise(runs, trials.trials, noise) if runs else []
    notes = poor_fits(runs, trials.trials) if runs and trials.measured else []
    if found.success:
        taken = partial(taken_of, trials, q, ~sure.held)
        notes += estimation.notes(noise, runs, sure.taken, taken)
    variance = estimation.variance(noise)
    about = _uncertainty(task, sure, noise, _known_as(task, made, sure, variance, runs))
    told = found.success and not np.isnan(sure.covariance).all()
    likelihood = estimation.likelihood(runs, sure.taken) if told else []
    return _Told(sure, [*about.notes, *notes], grid, noise, likelihood, [about], spent)


def _uncertainty(
    task: Task, sure: Confidence, noise: Sequence[Noise], known: Sequence[KnownAs] = ()
) -> Uncertainty:
    """What is known of the errors of all unknowns."""
    names, owned = task.trials.unknowns.names, task.trials.unknowns.owned
    logarithmic = list(np.array(owned.names)[owned.log])
    return task.estimation.uncertainty(names, logarithmic, sure, noise, known)


def _known_as(
    task: Task, made: Minimised, sure: Confidence, variance: float, runs: Sequence[Trajectory]
) -> Sequence[KnownAs]:
    """What is known of unknowns that the record does not tell apart, from minima with these held
    elsewhere."""
    q, trials, ways = made.found.q, task.trials, sure.directions
    asked = made.found.success and made.problem.squares and not trials.unknowns.several
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
