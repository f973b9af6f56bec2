"""Random effects: parameters whose values of several owners have an unknown distribution."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.problems.parameters import Prior, Unknown, is_random
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.statistics.densities import Density, normal_density

#: Owners that tell a standard deviation, at least.
_FEWEST = 3
#: Share of the standard error of an owner's value below which a standard deviation is like zero.
_LIKE_ZERO = 1e-2

#: Share of values that is the first standard deviation between owners if all values are alike.
_FIRST = 0.1

#: Mean and standard deviation of parameters, or of their logarithms, by name.
Numbers = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Effect:
    """Random effect: a parameter with a value per owner, drawn from a normal distribution, of log p
    if `log`. places : of the values among those of all parameters, (k,)."""

    name: str
    log: bool
    prior: Prior
    places: NDArray[np.intp]

    @property
    def names(self) -> list[str]:
        """Names of the unknown moments of the distribution."""
        said = {"mean": "median", "sd": "factor"} if self.log else {}
        return [f"{said.get(what, what)}({self.name})" for what in self.prior.unknown]


@dataclass(frozen=True, eq=False)
class Population:
    """Random effects of a problem; empty if all distributions are known. Effects with a known
    distribution belong to it, too, if one distribution is unknown.

    The unknowns of the distributions are a vector h: of each effect the mean (of log p, if that is
    normal) and the logarithm of the standard deviation, as far as they are unknown.
    """

    effects: tuple[Effect, ...]
    size: int

    def __bool__(self) -> bool:
        return len(self.effects) > 0

    @property
    def names(self) -> list[str]:
        """Names of the entries of h."""
        return [name for effect in self.effects for name in effect.names]

    @property
    def random(self) -> NDArray[np.bool_]:
        """Mask of the parameter values that are random effects, (r,)."""
        found = np.zeros(self.size, dtype=bool)
        for effect in self.effects:
            found[effect.places] = True
        return found

    @property
    def _entries(self) -> list[tuple[Effect, str]]:
        return [(effect, what) for effect in self.effects for what in effect.prior.unknown]

    @property
    def spreads(self) -> NDArray[np.bool_]:
        """Mask of the entries of h that are logarithms of standard deviations."""
        return np.array([what == "sd" for _, what in self._entries], dtype=bool)

    @property
    def _logs(self) -> NDArray[np.bool_]:
        """Mask of the entries of h that belong to a logarithm of a parameter."""
        return np.array([effect.log for effect, _ in self._entries], dtype=bool)

    @property
    def edges(self) -> list[str]:
        """Names of standard deviations, which have an edge at zero."""
        return [name for name, spread in zip(self.names, self.spreads, strict=True) if spread]

    @property
    def freedoms(self) -> dict[str, float]:
        """Degrees of freedom of means: of so many owners less one, if their spread is unknown."""
        return {
            effect.names[0]: len(effect.places) - 1.0
            for effect, what in self._entries
            if what == "mean" and "sd" in effect.prior.unknown
        }

    @property
    def logarithmic(self) -> list[str]:
        """Names of estimates whose interval is on a logarithmic scale."""
        pairs = zip(self.names, self._entries, strict=True)
        return [name for name, (effect, what) in pairs if effect.log != (what == "sd")]

    @property
    def factors(self) -> list[str]:
        """Names of factors, whose interval is on the scale of log log."""
        pairs = zip(self.names, self._entries, strict=True)
        return [name for name, (effect, what) in pairs if effect.log and what == "sd"]

    # -- values ---------------------------------------------------------------------------------

    def entries(self, numbers: Numbers) -> Array:
        """Entries of h from means and standard deviations."""
        found = [numbers[effect.name][what == "sd"] for effect, what in self._entries]
        return np.where(self.spreads, np.log(np.where(self.spreads, found, 1.0)), found)

    def numbers(self, h: Array) -> dict[str, tuple[float, float]]:
        """Means and standard deviations from h."""
        left, found = iter(h.tolist()), dict[str, tuple[float, float]]()
        for effect in self.effects:
            open_ = effect.prior.unknown
            mean = next(left) if "mean" in open_ else effect.prior.mean[0]
            sd = float(np.exp(next(left))) if "sd" in open_ else effect.prior.sd[0]
            found[effect.name] = mean, sd
        return found

    def natural(self, h: Array) -> Array:
        """Moments in natural units: means or medians, standard deviations or factors."""
        found = _exp(h, self.spreads)
        return _exp(found, self._logs)

    def from_natural(self, values: Mapping[str, float]) -> Array:
        """Entries of h from moments in natural units, by name."""
        found = np.array([values[name] for name in self.names])
        found[self._logs] = np.log(found[self._logs])
        found[self.spreads] = np.log(found[self.spreads])
        return found

    def slopes(self, h: Array) -> Array:
        """Derivatives of `natural` by h."""
        inner = np.where(self.spreads, _exp(h, self.spreads), 1.0)
        return np.where(self._logs, inner * self.natural(h), inner)

    def start(self, values: Array, errors: Array) -> tuple[Array, tuple[Array, Array]]:
        """h and its bounds from values of all parameters, as z has them, (r,), that were found
        without knowing a distribution, and their standard errors, NaN where not known. A spread
        that such errors hide is like zero."""
        h, low, high = list[float](), list[float](), list[float]()
        for effect, what in self._entries:
            own, error = values[effect.places], errors[effect.places]
            spread, most = float(np.std(own, ddof=1)) if len(own) > 1 else 0.0, np.abs(own).max()
            size = spread or 1e-3 * float(most) or 1.0
            below, above = getattr(effect.prior, what)
            if what == "sd":
                known = error[np.isfinite(error) & (error > 0.0)]
                least = _LIKE_ZERO * (float(np.median(known)) if len(known) else size)
                below, above = float(np.log(max(below, min(least, above)))), float(np.log(above))
            first = spread or _FIRST * float(most) or 1.0
            begin = float(np.log(first) if what == "sd" else own.mean())
            h.append(min(max(begin, below), above))
            low.append(below)
            high.append(above)
        return np.array(h), (np.array(low), np.array(high))

    def reach(self, h: Array) -> Array:
        """The longest steps in h: of means two standard deviations, of logarithms of these 1."""
        numbers = self.numbers(h)
        spread = np.array([2.0 * numbers[effect.name][1] for effect, _ in self._entries])
        return np.where(self.spreads, 1.0, spread)

    def alike(self, h: Array, low: Array) -> list[str]:
        """Sentences on standard deviations between owners that are nearly zero; low : bounds of
        h."""
        return [
            f"{effect.name} differs between its owners by no more than its errors: {name} is like "
            "zero, all values are alike"
            for name, (effect, what), value, least in zip(
                self.names, self._entries, h, low, strict=True
            )
            if what == "sd" and value <= least and np.exp(least) > 1.000001 * effect.prior.sd[0]
        ]

    # -- the density of the values --------------------------------------------------------------

    def heights(self, h: Array) -> float:
        """-2 log of the heights of the densities of all values."""
        numbers = self.numbers(h)
        return sum(
            len(effect.places) * float(np.log(2.0 * np.pi * numbers[effect.name][1] ** 2))
            for effect in self.effects
        )

    def density_slopes(self, h: Array, values: Array) -> list[float]:
        """Derivatives by each entry of h: of -2 log of the densities of all values (r,), as z has
        them."""
        numbers, found = self.numbers(h), list[float]()
        for effect, what in self._entries:
            mean, sd = numbers[effect.name]
            e = (values[effect.places] - mean) / sd
            found.append(
                float(-2.0 * e.sum() / sd if what == "mean" else 2.0 * len(e) - 2.0 * e @ e)
            )
        return found

    def pulls(self, h: Array, values: Array) -> list[tuple[Array, float]]:
        """Derivatives by each entry of h: of the gradient of the squares ((p - mean)/sd)^2 in all
        values (r,), as z has them, and the second derivative of the squares."""
        numbers, found = self.numbers(h), list[tuple[Array, float]]()
        for effect, what in self._entries:
            mean, sd = numbers[effect.name]
            e, row = (values[effect.places] - mean) / sd, np.zeros(self.size)
            row[effect.places] = -2.0 / sd**2 if what == "mean" else -4.0 * e / sd
            bent = 2.0 * len(e) / sd**2 if what == "mean" else 4.0 * float(e @ e)
            found.append((row, bent))
        return found


def _exp(values: Array, which: NDArray[np.bool_]) -> Array:
    """Values, (n,), exponentials of some of them."""
    found = values.copy()
    found[which] = np.exp(values[which])
    return found


def numbered(priors: Mapping[str, Density], numbers: Numbers) -> dict[str, Density]:
    """Priors with these means and standard deviations."""
    own = {n: normal_density(*pair, priors[n].of_log) for n, pair in numbers.items()}
    return {**priors, **own}


def numbers_of(priors: Mapping[str, Density]) -> Numbers:
    """Means and standard deviations of distributions."""
    return {name: (p.location, p.scale) for name, p in priors.items()}


def population(
    unknown: Mapping[str, Unknown], owned: Owned, intensities: Collection[str] = ()
) -> Population:
    """The random effects of a problem, of which intensities of noise are none: the best ones of
    these with the best noise mean nothing. Raises `ValueError` where too few owners tell a spread.
    """
    if not any(is_random(p) for p in unknown.values()):
        return Population((), len(owned.names))
    effects = []
    for name, p in unknown.items():
        if isinstance(p.prior, Density) and p.label:
            raise ValueError(
                f"{name} has values per {p.label} with a prior that is not normal, but beside a "
                "distribution that is to be found these are integrated out; use ks.normal or "
                "ks.lognormal"
            )
        if not isinstance(p.prior, Prior) or not p.label or name in intensities:
            continue
        places = np.flatnonzero(np.array(owned.members) == name)
        if "sd" in p.prior.unknown and len(places) < _FEWEST:
            raise ValueError(
                f"the sd of {name} over {len(places)} values cannot be told: give trials of at "
                f"least {_FEWEST} with different labels {p.label!r}, or a number for the sd"
            )
        effects.append(Effect(name, p.log, p.prior, places))
    return Population(tuple(effects), len(owned.names))
