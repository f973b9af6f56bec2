"""Likelihood of a record at the estimates of a fit, and the merit by which fits are ranked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import groups_of
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.results.likelihood import LARGEST, POSTERIOR, Likelihood
from kinesym.runtime.results.series import Series, censored_series, series_of
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment

#: The lowest merit: of samples that are met exactly.
_LOWEST = -1e300
#: By how much -2 log L of estimates may be above the least, where standard deviations are estimated
#: too: these count degrees of freedom, which the likelihood does not. (An error of one standard
#: error is 1.)
ALIKE = 0.5


def likelihood_of(
    runs: Sequence[Trajectory],
    trials: Sequence[Experiment],
    directions: float,
    loss: RobustLoss | None = None,
    posterior: bool = False,
) -> Sequence[Likelihood]:
    """Likelihood of a fit whose objective is the misfit of the samples; none where residuals have
    no density.

    runs : with standard deviations, trials : as they were given, without those that are not known:
    of these the likelihood is the largest one, whatever `runs` have. directions : in which the
    unknowns can move. posterior : whether there are priors, too.
    """
    groups, alone = groups_of(trials), dict[str, list[Series]]()
    if loss is not None and not loss.likelihood:
        return []
    known = list[Series]()
    for series in series_of(runs):
        group = groups.get((series.trial, series.channel))
        (known if group is None else alone.setdefault(group, [])).append(series)
    density = _normal if loss is None else _robust(loss)
    total = sum(density(s.standardised, s.std) for s in known)
    limits = censored_series(runs)
    for s in limits:
        total += float(
            scipy.special.log_ndtr(-runs[s.trial].limits[s.channel] * s.standardised).sum()
        )
    for rows in alone.values():
        total += _largest(np.concatenate([s.residuals for s in rows]), density, loss is None)
    every = (*known, *limits, *(s for rows in alone.values() for s in rows))
    count = sum(len(s.time) for s in every)
    kind = POSTERIOR if posterior else LARGEST
    return [Likelihood(float(total), float(directions + len(alone)), float(count), kind)]


def merit_of(
    runs: Sequence[Trajectory],
    trials: Sequence[Experiment],
    objective: float,
    loss: RobustLoss | None = None,
    priors: float = 0.0,
) -> float:
    """Merit by which fits of the same samples are ranked where standard deviations are estimated:
    -2 log L, the lower the better. Objectives are then about the degrees of freedom, however good
    a fit is.

    runs, trials : see `likelihood_of`. priors : the squares of what was known before, -2 log of its
    density. objective : in place of -2 log of the density of residuals that have none.
    """
    found = likelihood_of(runs, trials, 0.0, loss)
    if found:
        return max(priors - 2.0 * found[0].log_likelihood, _LOWEST)
    groups = groups_of(trials)
    own = [s.std for s in series_of(runs) if (s.trial, s.channel) in groups]
    return objective + 2.0 * float(sum(np.log(std).sum() for std in own))


def log_height(trials: Sequence[Experiment], loss: RobustLoss | None) -> float:
    """log of the density of the samples at residuals of zero, with standard deviations of 1 where
    these are not known; of censored samples all of it is in the objective."""
    density, found = _normal if loss is None else _robust(loss), 0.0
    for trial in trials:
        for name, row in trial.measured.items():
            if name in trial.limits:
                continue
            std = trial.divisor(name)[~np.isnan(row)]
            found += density(np.zeros(len(std)), std)
    return found


def _normal(e: Array, std: Array) -> float:
    """log of the density of residuals e std of normal errors, (n,)."""
    return float(-0.5 * (e @ e + np.log(2.0 * np.pi * std**2).sum()))


def _robust(loss: RobustLoss) -> Callable[[Array, Array], float]:
    """Log likelihood of errors with the density of a loss that is a likelihood."""

    def density(e: Array, std: Array) -> float:
        return float((loss.log_height - 0.5 * loss.root(e) ** 2 - np.log(std)).sum())

    return density


def _largest(residuals: Array, density: Callable[[Array, Array], float], normal: bool) -> float:
    """The largest one over the standard deviation that all have."""
    rms = float(np.sqrt(np.mean(residuals**2)))
    if rms == 0.0:
        return np.inf
    one = np.ones(len(residuals))

    def at(log_std: float) -> float:
        std = np.exp(log_std)
        return density(residuals / std, std * one)

    if normal:
        return at(np.log(rms))
    found = scipy.optimize.minimize_scalar(
        lambda s: -at(s), (np.log(rms) - 2.0, np.log(rms)), tol=1e-10
    )
    return at(float(found.x))
