"""Densities of parameters by name, as priors tell them: normal, Laplace's, gamma, ...

All are p^power exp(-rate p) exp(-rho(e)/2) up to a constant, e = (x - location)/scale, of x = p or
log p, with rho the square or a loss, so that one formula has values, slopes and bends of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaln, ndtr, xlogy

from kinesym.base.checks import check_choice, finite, positive

#: Kinds of rho: the square, Laplace's 2 |e|, and Cauchy's 2 log(1 + e^2).
SQUARE, LAPLACE, CAUCHY = range(3)
#: Their names.
KINDS = ("square", "laplace", "cauchy")
#: log of sqrt(2 pi).
_ROOT = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Density:
    """Density of a parameter p.

    rho : one of the kinds. location, scale : of p or, `of_log`, of log p; infinite if rho is not in
    it. power, rate : of the other factors. height : log of the constant. low, high : where it is
    not zero."""

    rho: int = SQUARE
    location: float = 0.0
    scale: float = np.inf
    of_log: bool = False
    power: float = 0.0
    rate: float = 0.0
    height: float = 0.0
    low: float = -np.inf
    high: float = np.inf

    def log(self, p: float) -> float:
        """Log density, without what lies outside of bounds."""
        if not self.low <= p <= self.high:
            return -np.inf
        e = (np.log(p) if self.of_log else p) / self.scale - self.location / self.scale
        rho = (e * e, 2.0 * abs(e), 2.0 * np.log1p(e * e))[self.rho]
        return float(self.height + xlogy(self.power, p) - self.rate * p - 0.5 * rho)

    def share(self, low: float, high: float) -> float:
        """Probability of values between two bounds."""
        below, above = max(low, self.low), min(high, self.high)
        return self._until(above) - self._until(below) if below < above else 0.0

    def _until(self, p: float) -> float:
        """Probability of values up to p."""
        if not np.isfinite(p):
            return float(p > 0.0)
        if np.isfinite(self.scale):
            with np.errstate(divide="ignore"):
                e = ((np.log(p) if self.of_log else p) - self.location) / self.scale
            if self.power > 0.0:  # Rayleigh's
                return float(-np.expm1(-0.5 * e * e))
            tail = 0.5 * np.exp(-abs(e))
            of_rho = (ndtr(e), tail if e < 0.0 else 1.0 - tail, 0.5 + np.arctan(e) / np.pi)
            return float(of_rho[self.rho])
        if self.rate:
            return float(gammainc(self.power + 1.0, self.rate * p))
        low, at, high = np.log([self.low, p, self.high]) if self.power else (self.low, p, self.high)
        return float((at - low) / (high - low))


def normal_density(mean: float, sd: float, of_log: bool = False) -> Density:
    """Normal density of p or, `of_log`, of log p, of which it then is the density."""
    return Density(SQUARE, mean, sd, of_log, height=-_ROOT - float(np.log(sd)))


def _normal(mean: Any, sd: Any) -> Density:
    return normal_density(finite(mean, "its mean"), positive(sd, "its standard deviation"))


def _laplace(location: Any, scale: Any) -> Density:
    m, s = finite(location, "its location"), positive(scale, "its scale")
    return Density(LAPLACE, m, s, height=-float(np.log(2.0 * s)))


def _cauchy(location: Any, scale: Any) -> Density:
    m, s = finite(location, "its location"), positive(scale, "its scale")
    return Density(CAUCHY, m, s, height=-float(np.log(np.pi * s)))


def _gamma(shape: Any, scale: Any) -> Density:
    k, s = positive(shape, "its shape"), positive(scale, "its scale")
    height = -float(gammaln(k) + k * np.log(s))
    return Density(power=k - 1.0, rate=1.0 / s, height=height, low=0.0)


def _rayleigh(scale: Any) -> Density:
    s = positive(scale, "its scale")
    return Density(SQUARE, 0.0, s, power=1.0, height=-2.0 * float(np.log(s)), low=0.0)


def _uniform(low: Any, high: Any) -> Density:
    below, above = finite(low, "its low end"), finite(high, "its high end")
    if not below < above:
        raise ValueError(f"its low end {below:g} is not below its high end {above:g}")
    return Density(height=-float(np.log(above - below)), low=below, high=above)


def _log_uniform(low: Any, high: Any) -> Density:
    below, above = positive(low, "its low end"), positive(high, "its high end")
    made = _uniform(np.log(below), np.log(above))
    return replace(made, power=-1.0, low=below, high=above)


def _of_log(made: Density) -> Density:
    """Density of p whose logarithm has a density without other factors."""
    return replace(made, of_log=True, power=-1.0, low=0.0)


#: Densities by name: names of their numbers, and what makes them.
DENSITIES: dict[str, tuple[tuple[str, ...], Callable[..., Density]]] = {
    "normal": (("mean", "sd"), _normal),
    "laplace": (("location", "scale"), _laplace),
    "cauchy": (("location", "scale"), _cauchy),
    "uniform": (("low", "high"), _uniform),
    "gamma": (("shape", "scale"), _gamma),
    "exponential": (("scale",), lambda scale: _gamma(1.0, scale)),
    "chisquare": (("freedom",), lambda n: _gamma(0.5 * positive(n, "its freedom"), 2.0)),
    "rayleigh": (("scale",), _rayleigh),
    "log-normal": (("mean", "sd"), lambda mean, sd: _of_log(_normal(mean, sd))),
    "log-laplace": (("location", "scale"), lambda m, s: _of_log(_laplace(m, s))),
    "log-uniform": (("low", "high"), _log_uniform),
}


def density(name: str, *numbers: Any) -> Density:
    """Density by name and numbers. Raises `ValueError` for other names, other counts of numbers,
    and numbers that it cannot have."""
    check_choice(name, tuple(DENSITIES), "distribution")
    names, made = DENSITIES[name]
    if len(numbers) != len(names):
        raise ValueError(f"{name} has the numbers {', '.join(names)}, got {len(numbers)}")
    try:
        return made(*numbers)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
