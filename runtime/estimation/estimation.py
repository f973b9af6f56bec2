"""Maximum-likelihood estimation of unknowns from noisy samples: the standard deviations of these,
the likelihood, the uncertainty of the unknowns, and what is said of all that.

Collocation and shooting bring residuals, leverages and a curvature, each its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.likelihood import likelihood_of, merit_of
from kinesym.runtime.estimation.noise import (
    GIVE_STD,
    SOME,
    contradictions,
    estimated,
    first_std,
    groups_of,
    not_estimated,
    not_told,
    samples_of,
    with_noise,
)
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.estimates import Noise, Uncertainty
from kinesym.runtime.results.likelihood import Likelihood
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.covariance import Confidence
from kinesym.runtime.statistics.exchange import KnownAs
from kinesym.runtime.summary import listed

R = TypeVar("R")
#: The pooled standard deviation is at least this share of the rms of what is measured.
_LEAST = 1e-9
#: Fits with other standard deviations, at most.
_ROUNDS = 50
#: Relative change of standard deviations that ends them.
_SETTLED = 1e-6
#: Relative change that ends fits whose standard deviations fall slowly.
_SLOW = 1e-4
#: Factor from fit to fit below which standard deviations fall slowly.
_FACTOR = 10.0
#: A sentence on those that are expressions, where the unknowns may follow all samples.
NOTHING_LEFT = (
    "the unknowns take as many degrees of freedom as there are samples, so that these do not tell "
    "the parameters of an std; give it as numbers"
)
#: A note on these where one does not converge.
_NOT_CONVERGED = (
    "with the standard deviations that the residuals show the fit did not converge; they are of "
    "the fit before"
)
F = TypeVar("F", bound=Trials)


class Residuals(NamedTuple):
    """Residuals (modelled - measured)/std (k,) of `samples`, and their leverages, how much of each
    the unknowns take."""

    values: Array
    samples: Samples
    leverage: Array

    def taken(self) -> Mapping[str, float]:
        """Degrees of freedom that the unknowns take of each channel; none where it is not known."""
        return {} if np.isnan(self.leverage).any() else self.samples.sums(self.leverage)


@dataclass(frozen=True)
class Estimation:
    """Estimation of unknowns from samples with noise: the samples, and what the objective J makes
    of their residuals.

    trials : as they were given; standard deviations may not be known. factor : of the squares of
    residuals in the objective J, zero without any. loss : of residuals, None for squares. priors :
    whether J has those of parameters. mixed : whether it has other terms. integrated : whether
    trajectories or random effects are integrated out, so that J is no likelihood of parameters.
    taken : degrees of freedom that the unknowns take, if standard deviations are expressions of
    some of them, else 0: variances by maximum likelihood are too small by their share.
    """

    trials: Sequence[Experiment]
    factor: float
    loss: RobustLoss | None = None
    priors: bool = False
    mixed: bool = False
    integrated: bool = False
    taken: float = 0.0

    # -- standard deviations ----------------------------------------------------------------

    @cached_property
    def unknown(self) -> Sequence[str]:
        """Groups of measurements whose standard deviation is to be estimated."""
        return list(dict.fromkeys(groups_of(self.trials).values())) if self.factor else []

    @cached_property
    def pooled(self) -> bool:
        """Whether all measurements share one unknown standard deviation, and J has nothing else
        than their squares: then estimates do not depend on it."""
        known = any(t.std or t.std_expressions for t in self.trials)
        plain = not (self.loss or self.mixed or self.priors or known)
        return len(self.unknown) == 1 and plain

    @property
    def kinked(self) -> bool:
        """Whether J has absolute values of residuals."""
        return self.loss is not None and self.loss.kinked

    def check_slopes(self) -> None:
        """Raise `ValueError` where a loss has kinks at samples that are met."""
        if self.kinked:
            raise ValueError(
                "absolute values have no slopes at samples that are met, of which the loss laplace "
                "makes some: take method='t' or 'profile', and fit.without(..., solve=True)"
            )

    def check_steps(self) -> None:
        """Raise `ValueError` where one step from a minimum does not tell another one."""
        if self.kinked:
            raise ValueError(
                "with the loss laplace estimates leave samples that they meet by jumps, of which "
                "one step tells nothing; give solve=True"
            )

    @property
    def untold(self) -> bool:
        """Whether there are unknown standard deviations that nothing tells, as J is no
        likelihood."""
        return bool(self.unknown) and self.mixed and not self.integrated

    @property
    def reweighs(self) -> bool:
        """Whether estimates depend on unknown standard deviations: these are to be found along
        with them."""
        return bool(self.unknown) and not self.pooled and not self.untold

    def noise(self, found: Residuals, used: Mapping[str, float]) -> list[Noise]:
        """The standard deviation of each group from residuals over those `used`, 1 where not
        named; see `estimated`."""
        return estimated(*found, self.trials, used, self.loss)

    def pooled_noise(self, J: float, samples: float, taken: float) -> list[Noise]:
        """The one standard deviation of all measurements from the objective at the minimum, of
        whose samples the unknowns take so many; nothing if that is not what is unknown."""
        if not self.pooled:
            return []
        [(group, y)] = samples_of(self.trials).items()
        least = _LEAST * (float(np.sqrt(np.mean(y**2))) or 1.0)
        left = samples - taken
        std = max(np.sqrt(J / self.factor / left), least) if left > SOME else np.nan
        return [Noise(group, float(std), float(samples), float(left))]

    def reweighted(
        self,
        fit: Callable[[Mapping[str, float], R | None], tuple[R, Sequence[Noise] | None]],
        known: Mapping[str, float] | None = None,
    ) -> tuple[R, list[Noise], list[str]]:
        """Iteratively reweighted fit: repeated with other standard deviations by group until these
        are those of its residuals, from `known` ones on; the last one, what was estimated, and
        sentences on what went wrong.

        fit : from standard deviations and the fit before to another one and what its residuals
        show, nothing if it failed, None if it was interrupted.
        """
        used = {**first_std(self.trials), **(known or {})}
        best, noise, last = None, list[Noise](), np.inf
        for _ in range(_ROUNDS):
            result, shown = fit(used, best)
            if not shown:
                if best is None or shown is None:
                    return result, [], []
                return best, noise, [_NOT_CONVERGED]
            best, noise = result, list(shown)
            found = {n.group: used[n.group] if np.isnan(n.std) else n.std for n in noise}
            change = max(abs(float(np.log(found[group] / used[group]))) for group in found)
            if change <= _SETTLED or last / _FACTOR <= change <= _SLOW:
                return best, noise, []
            last = change
            used = {**used, **found}
        assert best is not None
        return best, noise, [f"the standard deviations did not settle in {_ROUNDS} fits"]

    def variance(self, noise: Sequence[Noise]) -> float:
        """Variance of the residuals in units of J, NaN if it is not known. Where standard
        deviations are given, and J has other terms, it is taken as it is, twice the negative
        log-likelihood; without such terms a factor of J changes nothing."""
        if self.untold or np.isnan([each.std for each in noise]).any():
            return np.nan
        if self.pooled:
            return float(self.factor * noise[0].std ** 2) if noise else np.nan
        alone = bool(self.factor) and not self.mixed
        whole = self.factor if noise or alone else 1.0
        if not self.taken:
            return whole
        return whole * (1.0 + self.taken / self._left) if self._left > SOME else np.nan

    def scaled(self, sure: Confidence, variance: float) -> Confidence:
        """Confidence with covariances of unknowns from those in units of a variance; with a loss
        it is that of the likelihood, whatever the factor of the objective."""
        if self.taken or (self.loss is None and not self.pooled):
            return replace(sure, covariance=variance * sure.covariance)
        return sure

    @property
    def _left(self) -> float:
        """Degrees of freedom of standard deviations that are expressions of unknowns."""
        if not self.taken:
            return np.inf
        every = (y for t in self.trials for y in t.measured.values())
        return float(sum(np.count_nonzero(~np.isnan(y)) for y in every)) - self.taken

    def lost(self, noise: Sequence[Noise]) -> list[str]:
        """Sentences on standard deviations that nothing tells, so that there are no standard
        errors."""
        words = [not_estimated(each) for each in noise if np.isnan(each.std)]
        if self._left <= SOME:
            words.append(NOTHING_LEFT)
        return [*words, GIVE_STD.format(listed(self.unknown))] if self.untold else words

    @property
    def size(self) -> float:
        """The squares of all samples over their standard deviations, 1 where these are unknown."""
        pairs = ((y, t.divisor(name)) for t in self.trials for name, y in t.measured.items())
        return float(sum(np.nansum((y / std) ** 2) for y, std in pairs))

    # -- likelihood -------------------------------------------------------------------------

    def likelihood(
        self, runs: Sequence[Trajectory], directions: float | None
    ) -> Sequence[Likelihood]:
        """Likelihood of the samples, if J has nothing else than these and priors. runs : with
        standard deviations. directions : in which unknowns can move, None if it is not known."""
        if directions is None or self.mixed or not self.factor:
            return []
        return likelihood_of(runs, self.trials, directions, self.loss, self.priors)

    def merit(self, runs: Sequence[Trajectory], J: float, priors: float) -> float:
        """Number by which fits are ranked, see `Trials`; priors : the sum of their squares, -2 log
        of their density."""
        if not self.reweighs:
            return J
        return merit_of(runs, self.trials, J / self.factor, self.loss, priors)

    def merit_before(
        self, runs: Callable[[], Sequence[Trajectory]], J: float, priors: float
    ) -> float:
        """Merit of trajectories before a fit, which have no standard deviations for what is not
        known; infinite with a loss that is no likelihood."""
        ones = [Noise(group, 1.0, 0.0, 0.0) for group in self.unknown]
        shown = with_noise(runs(), self.trials, ones) if self.reweighs else ()
        return self.merit(shown, np.inf if self.reweighs else J, priors)

    # -- what is known of the unknowns ------------------------------------------------------

    def uncertainty(
        self,
        names: Sequence[str],
        logarithmic: Sequence[str],
        sure: Confidence,
        noise: Sequence[Noise],
        known: Sequence[KnownAs] = (),
    ) -> Uncertainty:
        """Uncertainty of the unknowns from their covariance; known : combinations of those that the
        record does not tell apart."""
        return Uncertainty(
            names=list(names),
            covariance=sure.covariance,
            held=[name for name, held in zip(names, sure.held, strict=True) if held],
            logarithmic=list(logarithmic),
            freedom=min((self._left, *(each.freedom for each in noise))),
            variance=self.variance(noise),
            notes=[each.sentence for each in known] or list(sure.notes),
            instead={name: words for each in known for name, words in each.remarks.items()},
        )

    def judged(
        self,
        fit: F,
        residuals: Callable[[], Residuals | None],
        most: float,
        directions: float | None,
        priors: float,
    ) -> F:
        """Fit with its likelihood, the number by which it is ranked, and notes on standard
        deviations.

        Its trials have the standard deviations that were found. residuals : at the minimum, None
        where they have no derivatives; asked for where needed. most : how many degrees of freedom
        unknowns take of them at most, and directions : how many it is, None if that is not known.
        priors : the sum of their squares.
        """

        def taken() -> Mapping[str, float]:
            found = residuals()
            return {} if found is None else found.taken()

        notes = not_told(fit.noise, self.trials) if self.factor else []
        notes += [GIVE_STD.format(listed(self.unknown))] if self.untold else []
        if self.factor and self.loss is None and not self.mixed:
            rows = [run.residuals() for run in fit.trials]
            notes += contradictions(self.trials, rows, most, taken)
        if self.integrated:
            likelihood, merit = fit.likelihood, priors - 2.0 * fit.log_likelihood
        else:
            likelihood = self.likelihood(fit.trials, directions)
            merit = self.merit(fit.trials, fit.objective, priors)
        return replace(
            fit,
            notes=[*fit.notes, *notes],
            likelihood=likelihood,
            merit=merit,
            no_errors=fit.no_errors or "".join(self.lost(fit.noise)[:1]),
        )
