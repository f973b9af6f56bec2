"""What is asked of a fit's problem again, however it is solved: profiles, influences of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.inference import Influences
from kinesym.runtime.results.profile import Profile, profiled
from kinesym.runtime.statistics.profile import ProfilePoint, Spring


class HeldQuantity(NamedTuple):
    """A quantity g of the vector (n,) of all unknowns, to be held elsewhere.

    best : the minimum of J, with that vector. error : standard error of g. limits : of g. bounds :
    of the vector. ahead : d vector / d g, all else following. at : g of a vector, NaN where it has
    none. quantity : what springs pull. log : whether g is the logarithm of what is shown.
    """

    best: ProfilePoint
    error: float
    limits: tuple[float, float]
    bounds: tuple[Array, Array]
    ahead: Array
    at: Callable[[Array], float]
    quantity: Any
    log: bool = False


class FitInference(ABC):
    """The problem of a fit, solved again near its minimum; see `Inference`."""

    about: Uncertainty

    @abstractmethod
    def _to_hold(self, wanted: Any, trial: int) -> HeldQuantity:
        """A parameter by name, or an expression."""

    @abstractmethod
    def _with_spring_near(
        self, guess: Array, near: ProfilePoint, pull: tuple[Any, Spring]
    ) -> tuple[Array, float, Any] | None:
        """The minimum with a spring on a quantity, near a guess: the vector there, J without the
        spring, and multipliers; None if it is not found. near : a neighbour."""

    def profile(self, wanted: Any, level: float, trial: int = 0) -> Profile:
        """See `Inference`. A spring holds the quantity, see `Spring`."""
        of = self._to_hold(wanted, trial)
        own = of.error / np.exp(of.best.value) if of.log else of.error

        def held(value: float, near: ProfilePoint) -> ProfilePoint:
            spring = Spring.to(value, of.best.value, own, self.about.variance)
            guess = np.clip(near.state + (value - near.value) * of.ahead, *of.bounds)
            if not abs(of.at(guess) - value) < abs(near.value - value):
                guess = near.state  # the prediction leads away
            found = self._with_spring_near(guess, near, (of.quantity, spring))
            if found is None:
                return ProfilePoint(value, np.inf, np.nan)
            vector, J, multipliers = found
            g = of.at(vector)
            return ProfilePoint(g, J, spring.pull(g), vector, multipliers)

        given = (of.error, self.about, of.limits, held, level, of.log)
        return profiled(str(wanted), of.best, *given)


def influences_of(
    samples: Samples, slope: Array, pulls: Array, basis: Array | None, taken: float, priors: Array
) -> Influences:
    """What samples do to estimates, from the slopes psi of the loss at their residuals (k,), the
    derivatives of estimates by these, (k, r), and by those of priors, (m, r). basis : see
    `Samples.influences`. taken : degrees of freedom that unknowns take."""
    series = samples.influences(slope, pulls, basis)
    return Influences(series, float(samples.counts.sum()), taken, priors.T @ priors)
