"""Inference on a fit by shooting: bands, profiles, estimates from other measurements."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.density import log_density
from kinesym.runtime.results.bands import Bands, band_of
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.inference import Left, Pulls
from kinesym.runtime.results.log_density import LogDensity
from kinesym.runtime.results.profile import HeldQuantity, Profile, profiled
from kinesym.runtime.shooting.confidence import confidence_of_trials, resting
from kinesym.runtime.shooting.density import misfit
from kinesym.runtime.shooting.minimising import natural_sizes
from kinesym.runtime.shooting.neighbour import Follows, near_minimum
from kinesym.runtime.shooting.residuals import Measured, measured, through_segments
from kinesym.runtime.shooting.scaled import Scale, log_of
from kinesym.runtime.shooting.sides import side_of
from kinesym.runtime.shooting.task import Task
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.bends import Bends
from kinesym.runtime.statistics.covariance import Confidence, Estimate
from kinesym.runtime.statistics.leverage import basis_of_columns
from kinesym.runtime.statistics.profile import ProfilePoint, Spring
from kinesym.runtime.statistics.robust import spread_by_loss

#: Share of the largest singular value that counts as none.
_NULL = 1e-7
#: Share of the largest curvature, in scaled unknowns, from which a direction is determined.
_TOLD = 1e-12
#: Part of an undetermined direction from which an unknown belongs to it.
_PART = 1e-4
#: Share of derivatives that may be outside.
_OUTSIDE = 1e-5


class _Spread(NamedTuple):
    """Step (n,) of the `free` unknowns, numbers in q, their covariance (n, n), and which are
    determined."""

    free: NDArray[np.intp]
    step: Array
    covariance: Array
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ShootingInference:
    """Trials of a task at the minimum q of a sum of squares, asked again. about : the errors of all
    unknowns."""

    task: Task
    q: Array
    about: Uncertainty

    @property
    def trials(self) -> Simulated:
        """The trials, which another q overwrites."""
        return self.task.trials

    def pulls(self) -> Pulls:
        """See `Inference`; raises `ValueError` for a loss with a kink."""
        self.task.estimation.check_slopes()
        found = measured(self.trials, self.q)
        which = np.isin(found.unknowns, self._free)
        x, e, loss = found.slopes[:, which], found.residuals, self.trials.loss
        bends = Bends.of(found.samples, e, loss)
        size = np.linalg.norm(x, axis=0)
        size[size == 0.0] = 1.0
        unit, others = x / size, found.others[:, which] / size
        curvature = unit.T @ bends.times(unit) + others.T @ others
        curvature += np.diag(found.concave[which] / size**2)
        spread = np.vstack([unit, others]) @ np.linalg.pinv(curvature, 1e-14, hermitian=True)
        pulls = spread / size
        rows, numbers = np.zeros((len(pulls), self.q.size)), found.unknowns[which]
        mine = ~np.isnan(np.diag(self.about.covariance))[numbers]
        rows[:, numbers[mine]] = pulls[:, mine]

        def basis() -> Array:
            own = np.where(bends.partner < 0, bends.bend, 1.0)  # what scores tell on average
            root = np.sqrt(np.maximum(own, 0.0))[:, None]
            return basis_of_columns(np.vstack([root * unit, others]))[: len(e)]

        own, priors, taken = rows[: len(e)], rows[len(rows) - found.priors :], float(which.sum())

        def hat(i: NDArray[np.intp], j: NDArray[np.intp]) -> Array:
            return np.asarray((spread[i] * unit[j]).sum(axis=1))

        variance = self.about.variance / self.task.estimation.factor
        freedom = self.about.freedom if self.task.estimation.pooled else np.inf
        limits = {name for trial in self.task.given for name in trial.limits}
        about = (own, hat, basis, taken, priors, variance, freedom, loss, limits)
        return Pulls(found.samples, e, bends, *about)

    def without(self, record: Record, solve: bool) -> Left:
        """See `Inference`."""
        if not solve:
            self.task.estimation.check_steps()
        left, every = self.task.remeasured(record), measured(self.trials, self.q)
        whole = self._pull(every)
        found = self._spread_of(left, self.q, whole)
        q, more = self.q.copy(), np.zeros(len(self.q))
        if not self.task.estimation.kinked:
            q[found.free] -= found.step
        if solve:  # which may leave bounds, and end at others
            nothing, (low, high) = np.zeros_like(whole), self.task.bounds
            wide = self._spread_of(left, self.q, nothing, np.flatnonzero(low < high))
            free = wide.free[wide.known]
            q, good = near_minimum(left, q, free, self.task.bounds, self.about.deviations())
            if not good:
                raise ValueError("the fit without them does not converge")
            spread = self._at_minimum(left, q).covariance[np.ix_(wide.free, wide.free)]
            known = wide.known & ~np.isnan(np.diag(spread))
            found = wide._replace(covariance=spread, known=known)
        else:
            more[found.free] = np.abs(self._next_step(left, q, whole, found))
            more = np.maximum(more, np.abs(q - np.clip(q, *self.task.bounds)))
        r = len(self.trials.unknowns.parameters)
        values, covariance = q[:r].copy(), np.zeros((r, r))
        mine = found.free < r
        places = found.free[mine]
        covariance[np.ix_(places, places)] = found.covariance[np.ix_(mine, mine)]
        values[places[~found.known[mine]]] = np.nan
        return Left(values, covariance, more[:r])

    def _next_step(self, left: Simulated, q: Array, whole: Array, found: _Spread) -> Array:
        """Gauss-Newton step from a place near the minimum of other trials, of what is free there,
        infinite where there is none; none is known with inner boundaries, which do not follow."""
        if left.unknowns.several:
            return np.full(len(found.free), np.nan)
        try:
            with np.errstate(all="ignore"):
                return self._spread_of(left, q, whole).step
        except ValueError:  # the simulation fails
            return np.full(len(found.free), np.inf)

    def _pull(self, found: Measured) -> Array:
        """Half the gradient (n,) of J, by its samples and its other squares."""
        slope = Bends.of(found.samples, found.residuals, self.trials.loss).slope
        return np.asarray(found.slopes.T @ slope + found.others.T @ found.rest)

    def _at_minimum(self, left: Simulated, q: Array) -> Confidence:
        """Confidence at the minimum of other trials, where bounds, or kinks of priors, may hold
        unknowns."""
        estimation = self.task.estimation
        size, J = natural_sizes(left, q), left.cost(q)
        side, about = side_of(left, self.task.bounds, q), np.abs(q) + (q == 0.0)
        gradient = resting(side.trials, q, side.bounds, np.where(size > 0.0, size, about))
        at = Estimate(q, left.unknowns.names, side.bounds, J, gradient, size)
        sure = confidence_of_trials(estimation, side.trials, at)[0]
        return estimation.scaled(sure, self.about.variance)

    def _spread_of(
        self, left: Simulated, q: Array, whole: Array, free: NDArray[np.intp] | None = None
    ) -> _Spread:
        """Gauss-Newton step from q to the minimum of other trials, and the covariance there.
        whole : what `_pull` has left of all trials at their minimum, where bounds hold it. free :
        numbers of the unknowns that move."""
        found, free = measured(left, q), self._free if free is None else free
        which, loss = np.isin(found.unknowns, free), self.trials.loss
        x, others, e = found.slopes[:, which], found.others[:, which], found.residuals
        size = np.linalg.norm(np.vstack([x, others]), axis=0)
        size[size == 0.0] = 1.0
        bends = Bends.of(found.samples, e, loss)
        curvature = x.T @ bends.times(x) + others.T @ others + np.diag(found.concave[which])
        modes, vectors = np.linalg.eigh(curvature / np.outer(size, size))
        told = modes > _TOLD * modes.max(initial=0.0)
        vectors = vectors / size[:, None]
        inverse = (vectors[:, told] / modes[told]) @ vectors[:, told].T
        known = (np.abs(vectors[:, ~told]) * size[:, None] < _PART).all(axis=1)
        gradient = (self._pull(found) - whole)[which]
        step = inverse @ gradient
        estimation, rank = self.task.estimation, int(told.sum())
        variance = self.about.variance / estimation.factor
        if estimation.pooled:
            least = float(e @ e - gradient @ step)
            variance = least / (len(e) - rank) if len(e) > rank else np.nan
        covariance = variance * inverse
        if loss is not None and not loss.likelihood:
            priors = others[len(others) - found.priors :]
            pulls = np.vstack([loss.slope(e)[:, None] * x, priors]) @ inverse
            covariance = spread_by_loss(pulls, rank)
        covariance[~known] = covariance[:, ~known] = np.nan
        return _Spread(found.unknowns[which], step, covariance, known)

    def bands(self, names: Collection[str] | None = None) -> Bands:
        """See `Inference`; to first order in the unknowns."""
        runs, trials = self.trials.trajectories(self.q), []
        for k, run in enumerate(runs):
            wanted = [*run.states, *run.outputs] if names is None else names
            slopes = self.trials.course_slopes(self.q, k, wanted)
            first, dense = through_segments(self.trials, self.q, slopes.values())
            covariance = self.about.covariance[np.ix_(first, first)]
            spread = zip(slopes, (_spread(rows, covariance) for rows in dense), strict=True)
            trials.append(band_of(run, dict(spread), self.about.freedom))
        return Bands(trials=trials, model=runs[0].model, units=runs[0].units)

    def profile(self, wanted: Any, level: float, trial: int = 0) -> Profile:
        """See `Inference`."""
        return profiled(str(wanted), self.held(wanted, trial), self.about, level)

    def held(self, wanted: Any, trial: int = 0) -> HeldQuantity:
        """See `Inference`; in logarithms of unknowns that have a logarithmic scale. Others are free
        within their bounds, also those at one."""
        unknowns, bounds = self.trials.unknowns, self.task.bounds
        scale, limits = Scale(np.ones(len(self.q)), log_of(unknowns)), (-np.inf, np.inf)
        low, high = box = scale.scaled(bounds[0]), scale.scaled(bounds[1])
        log = False
        if isinstance(wanted, str):
            place = unknowns.names.index(wanted)
            limits, log = (low[place], high[place]), bool(scale.log[place])
            quantity = _entry(place, len(self.q), log)
            error = float(self.about.deviations()[place])
        else:
            quantity = self._quantity(wanted, trial)
            error = self.combination(wanted, trial)[1]
        value, slopes = quantity(self.q)
        way = self._known @ slopes
        ahead = way / (slopes @ way) if slopes @ way > 0.0 else way  # none is known by itself

        def total(y: Array, spring: Spring) -> float:
            q = scale.at(y)
            J = self.trials.cost(q)
            return J + spring.energy(quantity(q)[0]) if np.isfinite(J) else np.inf

        def at(y: Array) -> float:
            q = scale.at(y)
            return quantity(q)[0] if np.isfinite(self.trials.cost(q)) else np.nan

        def solved(
            guess: Array, near: ProfilePoint, spring: Spring
        ) -> tuple[Array, float, Any] | None:
            begin = min(guess, near.state, key=lambda y: total(y, spring))
            q, good = self._solved(self.trials, scale.at(begin), (quantity, spring))
            return (scale.scaled(q), self.trials.cost(q), None) if good else None

        best = ProfilePoint(value, self.trials.cost(self.q), 0.0, scale.scaled(self.q))
        scaled = bool(self.task.estimation.taken)
        about = (best, error, limits, box, ahead / scale.slopes(self.q), at, solved, log)
        return HeldQuantity(*about, scaled=scaled)

    def combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """See `Inference`."""
        value, slopes = self._quantity(expression, trial)(self.q)
        error = float(_spread(slopes[None], self.about.covariance)[0])
        return value, self._determined(slopes) if np.isnan(error) else error

    def _determined(self, slopes: Array) -> float:
        """The standard error of what unknowns tell together that have none by themselves: if its
        derivatives (n,) are combinations of those of residuals; else NaN."""
        free, [rows] = through_segments(self.trials, self.q, [self.trials.jacobian(self.q)])
        here = np.isin(free, self._free)
        x, g = rows[:, here], slopes[free[here]]
        size = np.linalg.norm(x, axis=0)
        size[size == 0.0] = 1.0
        _, s, v = np.linalg.svd(x / size, full_matrices=False)
        known, g = v[s > _NULL * s[0]], g / size
        share = known @ g
        if self.trials.loss is not None or not np.isfinite(self.about.variance):
            return np.nan
        if np.linalg.norm(g - known.T @ share) > _OUTSIDE * np.linalg.norm(g):
            return np.nan
        return float(np.sqrt(self.about.variance) * np.linalg.norm(share / s[s > _NULL * s[0]]))

    def refit(self, record: Record) -> Array | None:
        """Estimates from other measurements, from the minimum; None without convergence."""
        q, good = self._solved(self.task.remeasured(record), self.q)
        return q[: len(self.trials.unknowns.parameters)].copy() if good else None

    def log_density(self, std: Mapping[str, float]) -> LogDensity:
        """See `Inference`."""
        if self.trials.unknowns.several:
            raise ValueError(
                "states between segments follow from parameters and starts: there is a log-density "
                "with segments=1"
            )
        return log_density(self.task.estimation, misfit(self.task, self.q), std)

    @property
    def _free(self) -> NDArray[np.intp]:
        """Numbers of the unknowns that are not at a bound."""
        return np.flatnonzero(~np.isin(self.about.names, list(self.about.held)))

    @property
    def _known(self) -> Array:
        """Covariance, zero for unknowns that have none."""
        return np.where(np.isfinite(self.about.covariance), self.about.covariance, 0.0)

    def _quantity(self, expression: Any, trial: int) -> Follows:
        """An expression in parameters and states at the ends of a trial."""
        unknowns = self.trials.unknowns
        own = unknowns.owned.by_name(trial)
        estimates = dict(zip(unknowns.owned.names, self.q.tolist(), strict=False))
        combined = self.task.combine(expression, self.trials.trajectories(self.q)[trial], estimates)
        for where, name in combined.arguments:
            if where == "parameter" and name in self.trials.set_in(trial):
                raise ValueError(
                    f"trial {trial} sets {name}; write the combination in what is unknown"
                )
        starts = dict(
            zip(unknowns.initial, range(self.q.size)[unknowns.starts(trial)], strict=True)
        )
        entries = {"parameter": own, "start": starts, "end": dict[str, int]()}
        follows = self.trials.following[trial]
        led = follows.states if follows else ()  # by parameters
        moving = [
            where == "end" or name in entries[where] or (where == "start" and name in led)
            for where, name in combined.arguments
        ]
        at = combined.partly(moving)
        arguments = [a for a, moves in zip(combined.arguments, moving, strict=True) if moves]
        ends = [name for where, name in arguments if where == "end" or name in led]

        def quantity(q: Array) -> tuple[float, Array]:
            rows, values = np.zeros((len(arguments), q.size)), np.zeros(len(arguments))
            if ends:
                run = self.trials.trajectories(q)[trial]
                slopes = self.trials.course_slopes(q, trial, ends)
            for k, (where, name) in enumerate(arguments):
                if where == "end" or (where == "start" and name in led):
                    at_node = -1 if where == "end" else 0
                    values[k] = run[name][at_node]
                    rows[k] = slopes[name][[at_node]].toarray()[0]
                else:
                    values[k], rows[k, entries[where][name]] = q[entries[where][name]], 1.0
            value, by, _ = at(values)
            found = by @ rows
            if ends:
                first, [dense] = through_segments(self.trials, q, [csr_array(found[None])])
                found = np.zeros(q.size)
                found[first] = dense[0]
            return value, found

        return quantity

    def _solved(
        self, trials: Simulated, guess: Array, held: tuple[Follows, Spring] | None = None
    ) -> tuple[Array, bool]:
        """The minimum near a guess in all that bounds leave free, with a spring on a quantity if
        one is given, and whether it was found."""
        low, high = bounds = self.task.bounds
        free = np.flatnonzero(low < high)
        return near_minimum(trials, guess, free, bounds, self.about.deviations(), held)


def _entry(place: int, count: int, log: bool) -> Follows:
    """An unknown itself, or its logarithm."""
    unit = np.zeros(count)
    unit[place] = 1.0
    if log:
        return lambda q: (float(np.log(q[place])), unit / q[place])
    return lambda q: (float(q[place]), unit)


def _spread(rows: Array, covariance: Array) -> Array:
    """Standard deviations (k,) of quantities with derivatives (k, n) by the unknowns; NaN if one of
    these has no variance."""
    lost = ~np.isfinite(np.diag(covariance))
    known = np.where(lost[:, None] | lost, 0.0, covariance)
    with np.errstate(invalid="ignore"):
        found = np.sqrt(np.einsum("ij,jk,ik->i", rows, known, rows))
    return np.where((rows[:, lost] != 0.0).any(axis=1), np.nan, found)
