"""Profile likelihoods of parameters and of quantities that depend on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy

from kinesym.base.notebook import with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.statistics.profile import (
    FOLLOWS,
    STIFF,
    ProfilePoint,
    Rises,
    Spring,
    rises,
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Profile(Rises, Saved):
    """The profile likelihood of a quantity.

    name : of the quantity. estimate, standard_error : at the minimum. rise : J - J(estimate) at
    `values`, in order, in units of the variance of samples. level, target : of the interval, and
    the rise at its ends. low, high : ends of the interval; infinite, or the bound, where a side
    is open; `remarks` say so, and as sentences `notes`. units : by name, as far as they are known.
    """

    name: str
    estimate: float
    standard_error: float
    level: float
    target: float
    notes: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        words = "".join(f"; {note}" for note in self.notes)
        return (
            f"<profile of {self.name}: {self.estimate:.6g}, {100.0 * self.level:g} % "
            f"{self.low:.6g} ... {self.high:.6g}{words}>"
        )

    def plot(self) -> Any:
        """Figure of the rise of J over the values, beside that of the quadratic approximation."""
        figure, axis = subplots(figsize=(6.0, 3.6))
        draw(axis, self)
        axis.legend()
        return figure


def draw(axis: Any, profile: Profile) -> None:
    """Draw the profile on an axis."""
    over = np.linspace(profile.values.min(), profile.values.max(), 200)
    quadratic = ((over - profile.estimate) / profile.standard_error) ** 2
    axis.plot(over, quadratic, color="0.7", lw=1.2, label="quadratic")
    if len(profile.values) > 2:  # the root of the rise is nearly straight
        sides = np.sign(profile.values - profile.estimate) * np.sqrt(profile.rise)
        rise = scipy.interpolate.PchipInterpolator(profile.values, sides)(over) ** 2
        axis.plot(over, rise, lw=1.2, color="C0", label="profile")
    axis.plot(profile.values, profile.rise, "o", ms=4.0, color="C0")
    axis.axhline(profile.target, color="C3", lw=0.8, ls="--", label=f"{100 * profile.level:g} %")
    for end in (profile.low, profile.high):
        if np.isfinite(end):
            axis.axvline(end, color="C3", lw=0.8)
    axis.set_ylim(0.0, 1.6 * max(profile.target, 1e-300))
    axis.set_xlabel(plain(with_unit(profile.name, profile.units)))
    axis.set_ylabel("rise of -2 log L")


class HeldQuantity(NamedTuple):
    """Quantity g of the vector (n,) of all unknowns, to be held elsewhere by a spring.

    best : the minimum of J, with that vector. error : standard error of g. limits : of g. bounds :
    of the vector. ahead : d vector / d g, all else following. at : g of a vector, NaN where it has
    none. solved : from a guess, a neighbour and a spring the vector where J with that spring is
    least, J there without it, and multipliers; None if it is not found. log : whether g is the
    logarithm of what is shown; the error is that of the latter. scaled : whether standard
    deviations are among the unknowns, so that J has their logarithms.
    """

    best: ProfilePoint
    error: float
    limits: tuple[float, float]
    bounds: tuple[Array, Array]
    ahead: Array
    at: Callable[[Array], float]
    solved: Callable[[Array, ProfilePoint, Spring], tuple[Array, float, Any] | None]
    log: bool = False
    scaled: bool = False

    @property
    def own_error(self) -> float:
        """Standard error of g itself, which may be a logarithm."""
        return self.error / float(np.exp(self.best.value)) if self.log else self.error

    def shown(self, value: float) -> float:
        """Value of g as it is shown."""
        return float(np.exp(value) if self.log else value)

    def held(self, value: float, near: ProfilePoint, variance: float) -> ProfilePoint:
        """The minimum with the quantity held at a value, from a neighbour, by stiffer and stiffer
        springs until it follows; variance : of the samples."""
        guess = np.clip(near.state + (value - near.value) * self.ahead, *self.bounds)
        if not abs(self.at(guess) - value) < abs(near.value - value):
            guess = near.state  # the prediction leads away
        point = ProfilePoint(value, np.inf, np.nan)
        for times in STIFF:
            spring = Spring.to(value, self.best.value, self.own_error, variance, times)
            found = self.solved(guess, near, spring)
            if found is None:
                break
            guess, J, multipliers = found
            g = self.at(guess)
            point = ProfilePoint(g, J, spring.pull(g), guess, multipliers)
            if (g - near.value) * np.sign(value - near.value) >= FOLLOWS * abs(value - near.value):
                break
        return point

    def bend(self, errors: float, variance: float) -> float:
        """Root of the rise of J so many standard errors from the minimum, over that of the
        quadratic approximation there, 1 where J is quadratic; 0 where bounds are nearer."""
        value = self.best.value + errors * self.own_error
        if not self.limits[0] < value < self.limits[1]:
            return 0.0
        point = self.held(value, self.best, variance)
        reached = abs(point.value - self.best.value) / self.own_error
        rise = max(point.objective - self.best.objective, 0.0) / variance
        return float(np.sqrt(rise) / reached) if reached > 0.0 else np.inf


def profiled(name: str, of: HeldQuantity, about: Uncertainty, level: float) -> Profile:
    """Profile of a quantity, see `kinesym.runtime.statistics.profile.rises`. The target is the
    square of the quantile of Student's t, of chi-square with one degree of freedom where the
    variance of samples is given. Where J has the logarithm of a standard deviation that follows,
    so much of it that the squares rise by the target times their variance: of linear models whose
    samples share it, profiles are intervals by Student's t then."""
    natural = np.exp if of.log else np.asarray
    estimate, target = of.shown(of.best.value), about.quantile(level) ** 2
    if of.scaled:
        target = about.freedom * float(np.log1p(target / about.freedom))
    held = partial(of.held, variance=about.variance)
    found = rises(of.best, of.own_error, of.limits, held, target, about.variance, of.shown)
    return Profile(
        name=name,
        estimate=estimate,
        standard_error=of.error,
        level=level,
        target=target,
        values=natural(found.values),
        rise=found.rise,
        low=of.shown(found.low),
        high=of.shown(found.high),
        remarks=found.remarks,
        notes=[f"{name} {remark}" for remark in found.remarks],
    )
