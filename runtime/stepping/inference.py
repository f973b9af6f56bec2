"""What more can be asked of a fit by shooting: profiles, estimates from other measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.inference import Influences
from kinesym.runtime.results.profile import Profile, profiled
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.statistics.leverage import basis_of_columns
from kinesym.runtime.statistics.profile import Held
from kinesym.runtime.stepping.measured import measured
from kinesym.runtime.stepping.simulated import Simulated


@dataclass(frozen=True, eq=False)
class ShootingInference:
    """Trials at the minimum q of a sum of squares, asked again.

    on : makes the trials with other measurements. combine : the value and the derivatives of an
    expression at a trajectory.
    """

    trials: Simulated
    bounds: tuple[Array, Array]
    q: Array
    about: Uncertainty
    on: Callable[[Record], Simulated]
    combine: Callable[[Any, Trajectory], Any]

    def influences(self) -> Influences:
        """See `Inference`."""
        found = measured(self.trials, self.q)
        which = np.isin(found.unknowns, self._free)
        x, e, loss = found.slopes[:, which], found.residuals, self.trials.loss
        bend, slope = (np.ones_like(e), e) if loss is None else (loss.bend(e), loss.slope(e))
        size = np.linalg.norm(x, axis=0)
        size[size == 0.0] = 1.0
        unit, others = x / size, found.others[:, which] / size
        curvature = unit.T @ (bend[:, None] * unit) + others.T @ others
        pulls = np.vstack([unit, others]) @ np.linalg.pinv(curvature, 1e-14, hermitian=True) / size
        rows = np.zeros((len(pulls), len(self.trials.unknowns.parameters)))
        numbers = found.unknowns[which]
        known = ~np.isnan(np.diag(self.about.covariance))
        mine = (numbers < rows.shape[1]) & known[numbers]
        rows[:, numbers[mine]] = pulls[:, mine]
        basis = basis_of_columns(np.sqrt(np.maximum(bend, 0.0))[:, None] * unit)
        series, priors = found.samples.influences(slope, rows[: len(e)], basis), rows[len(e) :]
        return Influences(series, float(len(e)), float(which.sum()), priors.T @ priors)

    def profile(self, name: str, level: float) -> Profile:
        """The profile likelihood of an unknown."""
        place, free = self.trials.unknowns.names.index(name), self._free
        others = free[free != place]
        covariance = self.about.covariance
        ahead = covariance[:, place] / covariance[place, place]

        def held(value: float, near: Held) -> Held:
            guess = near.state + (value - near.value) * ahead
            guess[place] = value
            q, good = self._solved(self.trials, guess, others)
            if not good:
                return Held(value, np.inf, np.nan)
            return Held(value, self.trials.cost(q), float(self.trials.gradient(q)[place]), q)

        best = Held(float(self.q[place]), self.trials.cost(self.q), 0.0, self.q)
        low, high = self.bounds
        return profiled(name, best, self.about, (low[place], high[place]), held, level)

    def combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """See `Inference`."""
        unknowns, n = self.trials.unknowns, self.q.size
        found = self.combine(expression, self.trials.trajectories(self.q)[trial])
        slopes, owned = np.zeros(n), unknowns.owned
        for name, slope in found.parameters.items():
            if name in owned.parameters:
                slopes[owned.places(trial)[owned.parameters.index(name)]] += slope
        starts = range(n)[unknowns.starts(trial)]
        for name, slope in found.starts.items():
            if name in unknowns.initial:
                slopes[starts[list(unknowns.initial).index(name)]] += slope
        for name, slope in found.ends.items():
            slopes += slope * self.trials.end_slopes(self.q, trial, name)
        variance = float(slopes @ self.about.covariance @ slopes)
        return found.value, float(np.sqrt(variance)) if variance >= 0.0 else np.nan

    def refit(self, record: Record) -> Array | None:
        """Estimates from other measurements, from the minimum; None without convergence."""
        q, good = self._solved(self.on(record), self.q, self._free)
        return q[: len(self.trials.unknowns.parameters)].copy() if good else None

    @property
    def _free(self) -> NDArray[np.intp]:
        """What no bound holds."""
        return np.flatnonzero(~np.isin(self.about.names, list(self.about.held)))

    def _solved(
        self, trials: Simulated, guess: Array, free: NDArray[np.intp]
    ) -> tuple[Array, bool]:
        """The minimum in the `free` unknowns, and whether it was found."""
        low, high = (bound[free] for bound in self.bounds)
        known, typical = self.about.deviations()[free], np.abs(self.q[free])
        size = np.where(known > 0.0, known, np.where(typical > 0.0, typical, 1.0))

        def at(y: Array) -> Array:
            q = guess.copy()
            q[free] = y
            return q

        def values(y: Array) -> Array:
            r = trials.tried_residuals(at(y))
            return r if np.isfinite(r).all() else np.full(count, 1e10)

        def slopes(y: Array) -> Array:
            return np.asarray(trials.jacobian(at(y)).toarray()[:, free])

        if not len(free):
            return guess, bool(np.isfinite(trials.cost(guess)))
        if not np.isfinite(trials.cost(guess)):
            return guess, False
        count = len(trials.residuals(guess))
        start = np.clip(guess[free], low, high)
        options = {"xtol": 1e-10, "ftol": 1e-12, "gtol": 1e-10, "max_nfev": 100}
        found = least_squares(values, start, slopes, (low, high), x_scale=size, **options)
        return at(found.x), found.status > 0
