"""Confidence intervals by methods that need the problem of a fit, not only its result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Influence, Samples
from kinesym.runtime.results.bands import Bands
from kinesym.runtime.results.bootstrap import Bootstrap, Record, block_of, new_record
from kinesym.runtime.results.estimates import Estimates, Uncertainty, estimates_of
from kinesym.runtime.results.log_density import LogDensity
from kinesym.runtime.results.profile import HeldQuantity, Profile
from kinesym.runtime.results.series import Series
from kinesym.runtime.statistics.bends import Bends
from kinesym.runtime.statistics.sandwich import correlated, sandwich

#: Methods of confidence intervals.
METHODS = ("t", "sandwich", "profile", "bootstrap")

#: Reason of missing sandwich errors.
_FOLLOWED = "the fit follows the samples that tell it, so that residuals show no error"


class Pulls(NamedTuple):
    """Pulls of k residuals on r estimates, those of parameters first, from which influences and
    what follows without samples are made.

    samples : behind the residuals. residual, bends : each residual, and the terms of the likelihood
    there. pull : d estimate/d slope, (k, r). hat : gives entries of the hat matrix by
    rows and columns, that of residuals of weight 1. basis : makes that of `Samples.influences`.
    taken : degrees of freedom that unknowns take. priors : pulls (m, r) of priors. variance : of
    residuals, 1 where they are in standard deviations; freedom : its degrees of freedom if all
    samples share one that is estimated, else infinite. loss : of residuals, None for squares.
    limits : channels of censored samples.
    """

    samples: Samples
    residual: Array
    bends: Bends
    pull: Array
    hat: Callable[[NDArray[np.intp], NDArray[np.intp]], Array]
    basis: Callable[[], Array | None]
    taken: float
    priors: Array
    variance: float
    freedom: float
    loss: RobustLoss | None
    limits: Collection[str] = ()

    def of_first(self, count: int) -> Pulls:
        """Pulls on so many estimates, the first ones."""
        return self._replace(pull=self.pull[:, :count], priors=self.priors[:, :count])

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Mask (k,) of residuals that are scores, of samples whose likelihood is no square."""
        names = self.samples.channels
        limits = [names.index(name) for name in self.limits if name in names]
        return (self.bends.partner >= 0) | np.isin(self.samples.channel, limits)


class Influences(NamedTuple):
    """Influences of samples on the estimates, by channel and trial; the number of samples, and the
    degrees of freedom that unknowns take; the covariance (r, r) from the uncertainty of priors;
    names of the channels."""

    series: Sequence[Influence]
    samples: float
    taken: float
    of_priors: Array
    channels: Sequence[str]

    @staticmethod
    def of(found: Pulls) -> Influences:
        """Influences from the pulls of residuals."""
        samples, priors = found.samples, found.priors
        series = samples.influences(found.bends.slope, found.pull, found.basis())
        count = float(samples.counts.sum())
        return Influences(series, count, found.taken, priors.T @ priors, samples.channels)


class Left(NamedTuple):
    """Estimates (r,) and their covariance (r, r) without some samples, NaN for those that are not
    determined then. more : by how much another step, or bounds, would change them (r,), infinite
    where there is none; zero if they are solved for."""

    values: Array
    covariance: Array
    more: Array


class Inference(Protocol):
    """Inference on the estimates of a fit, by its problem."""

    def pulls(self) -> Pulls:
        """Pulls of the residuals on the estimates."""

    def without(self, record: Record, solve: bool) -> Left:
        """Estimates from measurements of which some are missing (NaN): by one Gauss-Newton step
        from the estimates, or solved again from there. Standard deviations that are estimated are
        those of all samples, unless all share one. Raises `ValueError` where nothing can be
        told."""

    def bands(self, names: Collection[str] | None = None) -> Bands:
        """Confidence bands of trajectories of all trials, those of these names or all."""

    def profile(self, wanted: Any, level: float, trial: int = 0) -> Profile:
        """Profile likelihood of a parameter by name, or of an expression as in `combination`."""

    def held(self, wanted: Any, trial: int = 0) -> HeldQuantity:
        """A parameter by name, or an expression, that can be held elsewhere."""

    def combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """The value of an expression in parameters and states at the ends of a trial, and its
        standard error."""

    def refit(self, record: Record) -> Array | None:
        """Estimates (r,) from other measurements, None if it does not converge."""

    def log_density(self, std: Mapping[str, float]) -> LogDensity:
        """Log-density of the unknowns; std : what was estimated of standard deviations."""


def by_sandwich(
    values: Mapping[str, float], about: Uncertainty, of: Inference, level: float
) -> Estimates:
    """Sandwich intervals, for residuals of unequal variance that are correlated in time; see
    `kinesym.runtime.statistics.sandwich`."""
    told = Influences.of(of.pulls().of_first(len(values)))
    found = sandwich(told.series, told.samples, told.taken)
    covariance, n = about.covariance.copy(), len(values)
    free = np.ix_(np.diag(covariance)[:n] > 0.0, np.diag(covariance)[:n] > 0.0)
    whole = found.covariance + told.of_priors
    covariance[:n, :n][free] = whole[free]
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 without samples
        freedoms = found.freedom * np.diag(whole) ** 2 / np.diag(found.covariance) ** 2
    table = {}
    for (name, value), freedom in zip(values.items(), freedoms.tolist(), strict=True):
        robust = replace(about, covariance=covariance, freedom=freedom)
        row = estimates_of({name: value}, robust, level).table[name]
        followed = np.isnan(freedom) and about.deviations()[about.names.index(name)] > 0.0
        table[name] = replace(row, remark=_FOLLOWED) if followed else row
    words = f"sandwich, autoregression of order {found.order}, bandwidth {found.bandwidth:.2g}"
    if np.isfinite(freedoms).any():
        words += f", at least {np.nanmin(freedoms):.0f} degrees of freedom"
    return Estimates(values, table, level, words)


def with_correlated_noise(
    about: Uncertainty, of: Inference, seconds: Mapping[str, float]
) -> Uncertainty:
    """Uncertainty with noise whose correlation falls as exp(-lag/seconds), by channel, of a fit
    that takes it as white: the sandwich of a known correlation."""
    told = Influences.of(of.pulls())
    lasting = {told.channels.index(n): s for n, s in seconds.items() if n in told.channels}
    whole = told.of_priors + correlated(told.series, lasting)
    covariance, n = about.covariance.copy(), len(whole)
    free = np.ix_(np.diag(covariance)[:n] > 0.0, np.diag(covariance)[:n] > 0.0)
    covariance[:n, :n][free] = whole[free]
    return replace(about, covariance=covariance)


def by_profile(
    values: Mapping[str, float], about: Uncertainty, of: Inference, level: float
) -> Estimates:
    """Profile likelihood intervals, at whose ends -2 log L has risen by the quantile of `level`,
    other unknowns following."""
    plain = estimates_of(values, about, level)
    table = dict(plain.table)
    for name, row in plain.table.items():
        if row.standard_error > 0.0:
            found = of.profile(name, level)
            remark = "; ".join(found.remarks)
            table[name] = replace(row, low=found.low, high=found.high, remark=remark)
    return Estimates(values, table, level, "profile likelihood")


def by_bootstrap(
    values: Mapping[str, float], about: Uncertainty, found: Bootstrap, level: float
) -> Estimates:
    """Percentile intervals between quantiles of the estimates of resampled records."""
    errors, ends = found.standard_errors(), found.intervals(level)
    table = {
        name: replace(row, standard_error=errors[name], low=ends[name][0], high=ends[name][1])
        for name, row in estimates_of(values, about).table.items()
    }
    words = f"bootstrap of {len(found.estimates)} records, blocks of {found.block}"
    return Estimates(values, table, level, words)


def bootstrapped(
    values: Mapping[str, float],
    about: Uncertainty,
    of: Inference,
    series: Sequence[Series],
    records: int,
    rng: np.random.Generator,
    each: Callable[[Callable[[Record], Any], Iterable[Record]], Iterable[Any]],
) -> Bootstrap:
    """Bootstrap estimates of so many resampled records, NaN for parameters that are not
    identifiable.

    each : `map`, or that of an executor. Raises `ValueError` if less than half of the fits
    converge, and with priors, which no record shows.
    """
    told, block = Influences.of(of.pulls().of_first(len(values))), block_of(series)
    if told.of_priors.any():
        raise ValueError(
            "a bootstrap draws measurements, but not what priors say, and so takes that as exact; "
            "use method='t' or 'profile'"
        )
    inflate = float(np.sqrt(told.samples / max(told.samples - told.taken, 1.0)))
    drawn = [new_record(series, block, inflate, rng) for _ in range(records)]
    found = [row for row in each(of.refit, drawn) if row is not None]
    if 2 * len(found) < records:
        raise ValueError(
            f"only {len(found)} of {records} resampled records have a fit that converges"
        )
    lost = [np.isnan(row.standard_error) for row in estimates_of(values, about).table.values()]
    estimates = np.where(lost, np.nan, np.array(found))
    return Bootstrap(
        names=list(values), estimates=estimates, failed=records - len(found), block=block
    )
