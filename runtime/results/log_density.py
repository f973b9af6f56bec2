"""Log-density of the unknowns of a fit, for samplers: value, gradient, and coordinates without
bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.leave_one_out import LeaveOneOut
from kinesym.runtime.summary import listed

#: Log-density (M,), and gradient (M, n) if asked for, at points (M, n) of the support; -inf and NaN
#: where the trajectories do not reach their end.
Densities = Callable[[Array, bool], tuple[Array, Array]]


@dataclass(frozen=True, eq=False, repr=False)
class LogDensity(Displayed):
    """Log of a density of unknowns theta (n,), up to a constant where bounds cut it off.

    names : of the unknowns. best : those of the fit, a place to begin. support : lower and upper
    bounds, (n,) each. logarithmic : unknowns whose prior is of the logarithm. each : the samples,
    and the log-density (k,) of each, at one theta, NaN where trajectories do not reach their end.
    Functions take one
    theta, or many (M, n), for which they are faster than one by one; one thread at a time has them.
    """

    names: Sequence[str]
    best: Array
    support: tuple[Array, Array]
    logarithmic: NDArray[np.bool_]
    at: Densities
    each: Callable[[Array], tuple[Samples, Array]]
    _one_at_a_time: Lock = field(default_factory=Lock)

    @property
    def size(self) -> int:
        """Number n of unknowns."""
        return len(self.names)

    def value(self, theta: ArrayLike) -> float | Array:
        """Log-density; -inf outside of the support, and where trajectories do not reach their end.
        Raises `ValueError` for another number of unknowns."""
        found = self._found(theta, False)[0]
        return found if found.ndim else float(found)

    def gradient(self, theta: ArrayLike) -> Array:
        """Gradient of the log-density, (n,) or (M, n); NaN where the value is -inf."""
        return self._found(theta, True)[1]

    def value_and_gradient(self, theta: ArrayLike) -> tuple[float | Array, Array]:
        """Value and gradient, of one simulation."""
        found, slopes = self._found(theta, True)
        return (found if found.ndim else float(found)), slopes

    @property
    def unconstrained(self) -> Unconstrained:
        """The density of y (n,), which has no bounds: of theta between two bounds the logit of the
        share between them, of theta above or below one the logarithm of the distance, else theta;
        of what is `logarithmic` the same of log theta. log |d theta / d y| is added."""
        return Unconstrained.of(self)

    def leave_one_out(self, draws: ArrayLike) -> LeaveOneOut:
        """Leave-one-out predictions of all samples from draws (M, n) of this density, as samplers
        give them, by Pareto smoothed importance sampling.

        For a fit that is close to linear `fit.influence()` has them without draws. Raises
        `ValueError` for another number of unknowns, and for draws outside of the support.
        """
        rows = np.atleast_2d(real_array(draws, "draws"))
        if not np.isfinite(self.value(rows)).all():
            raise ValueError("draws must be of this density, which is zero at some of them")
        with self._one_at_a_time:
            found = [self.each(row) for row in rows]
        return LeaveOneOut.of(found[0][0], np.array([values for _, values in found]))

    def _found(self, theta: ArrayLike, sloped: bool) -> tuple[Array, Array]:
        given = real_array(theta, "theta")
        if given.ndim not in (1, 2) or given.shape[-1] != self.size:
            raise ValueError(
                f"theta has shape {given.shape}; there are {self.size} unknowns "
                f"({listed(self.names)})"
            )
        rows = np.atleast_2d(given)
        low, high = self.support
        positive = np.where(self.logarithmic, rows > 0.0, True)
        inside = (np.isfinite(rows) & (rows >= low) & (rows <= high) & positive).all(axis=1)
        values, slopes = np.full(len(rows), -np.inf), np.full(rows.shape, np.nan)
        if inside.any():
            with self._one_at_a_time:
                values[inside], slopes[inside] = self.at(rows[inside], sloped)
        return values.reshape(given.shape[:-1]), slopes.reshape(given.shape)

    def __str__(self) -> str:
        rows = zip(self.names, self.best, *self.support, strict=True)
        lines = (f"  {name}  {x:.6g}  in ({low:.6g}, {high:.6g})" for name, x, low, high in rows)
        return "\n".join([f"log-density of {self.size} unknowns", *lines])

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Unconstrained(LogDensity):
    """Log-density of coordinates y without bounds, see `LogDensity.unconstrained`."""

    constrained: LogDensity = field(kw_only=True)
    line: Line = field(kw_only=True)

    @staticmethod
    def of(density: LogDensity) -> Unconstrained:
        """The density in these coordinates. Raises `ValueError` for an unknown that its bounds
        hold."""
        low, high = density.support
        held = [name for name, a, b in zip(density.names, low, high, strict=True) if a >= b]
        if held:
            raise ValueError(f"{listed(held)} cannot move between its bounds: give it as known")
        line, free = Line.of(density), np.full(density.size, np.inf)

        def at(y: Array, sloped: bool) -> tuple[Array, Array]:
            theta, slope, height, rise = line.natural(y)
            values, slopes = density._found(theta, sloped)
            return values + height.sum(axis=-1), slopes * slope + rise

        def each(y: Array) -> tuple[Samples, Array]:
            return density.each(line.natural(y)[0])

        begin, none = line.coordinates(density.best), np.zeros(density.size, bool)
        about = (begin, (-free, free), none, at, each)
        return Unconstrained(density.names, *about, constrained=density, line=line)

    def theta(self, y: ArrayLike) -> Array:
        """Unknowns of coordinates, (n,) or (M, n)."""
        return self.line.natural(real_array(y, "y"))[0]

    def coordinates(self, theta: ArrayLike) -> Array:
        """Coordinates of unknowns, (n,) or (M, n); infinite at bounds."""
        return self.line.coordinates(real_array(theta, "theta"))


@dataclass(frozen=True, eq=False)
class Line:
    """The lines on which unknowns lie: logarithms, or unknowns themselves, between two bounds,
    above or below one, which are numbers of unknowns, as `log` is."""

    low: Array
    high: Array
    between: NDArray[np.intp]
    above: NDArray[np.intp]
    below: NDArray[np.intp]
    log: NDArray[np.intp]

    @staticmethod
    def of(density: LogDensity) -> Line:
        """Lines of the unknowns of a density."""
        log = density.logarithmic
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (np.where(log, np.log(np.maximum(s, 0.0)), s) for s in density.support)
        ends, tops = np.isfinite(low), np.isfinite(high)
        kinds = (ends & tops, ends & ~tops, ~ends & tops, log)
        return Line(low, high, *map(np.flatnonzero, kinds))

    def natural(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """theta of y, d theta / d y, log |d theta / d y|, and the derivative of that; (..., n)."""
        theta, slope, height, rise = y.copy(), np.ones_like(y), np.zeros_like(y), np.zeros_like(y)
        with np.errstate(all="ignore"):
            if (k := self.between).size:
                share, rest, width = expit(y[..., k]), expit(-y[..., k]), (self.high - self.low)[k]
                theta[..., k] = self.low[k] + width * share
                slope[..., k] = width * share * rest
                height[..., k] = np.log(width) + log_expit(y[..., k]) + log_expit(-y[..., k])
                rise[..., k] = rest - share
            for k, end, sign in ((self.above, self.low, 1.0), (self.below, self.high, -1.0)):
                if k.size:
                    slope[..., k] = sign * np.exp(y[..., k])
                    theta[..., k] = end[k] + slope[..., k]
                    height[..., k], rise[..., k] = y[..., k], 1.0
            if (k := self.log).size:
                height[..., k] += theta[..., k]
                rise[..., k] += slope[..., k]
                theta[..., k] = np.exp(theta[..., k])
                slope[..., k] *= theta[..., k]
        return theta, slope, height, rise

    def coordinates(self, theta: Array) -> Array:
        """y of theta, (..., n)."""
        y = theta.copy()
        with np.errstate(all="ignore"):
            y[..., self.log] = np.log(y[..., self.log])
            k = self.between
            y[..., k] = np.log(y[..., k] - self.low[k]) - np.log(self.high[k] - y[..., k])
            y[..., self.above] = np.log(y[..., self.above] - self.low[self.above])
            y[..., self.below] = np.log(self.high[self.below] - y[..., self.below])
        return y
