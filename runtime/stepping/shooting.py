"""Shooting: trajectories follow from few unknowns q by simulation, and J(q) is minimised.

How trials follow from q, and their derivatives, is told by one of the kinds of `Simulated`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Iteration
from kinesym.runtime.nlp.owned import shared_values
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.estimate_error import EstimateError
from kinesym.runtime.results.estimates import Estimates, Noise, Uncertainty
from kinesym.runtime.results.fit import Fit, Step, poor_fits, typical_sizes
from kinesym.runtime.results.kept import kept
from kinesym.runtime.results.likelihood import (
    ALIKE,
    Likelihood,
    likelihood_of,
    merit_before,
    merit_of,
)
from kinesym.runtime.results.noise import (
    GIVE_STD,
    contradictions,
    first_std,
    groups_of,
    not_told,
    pooled,
    settled,
    with_noise,
)
from kinesym.runtime.results.series import squares_of_samples
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.covariance import (
    Confidence,
    Estimate,
    confidence_of_segments,
    confidence_of_squares,
)
from kinesym.runtime.statistics.exchange import Exchange, KnownAs, known_as, unchanged
from kinesym.runtime.status import Solve
from kinesym.runtime.stepping.estimate_shifts import FinerTrials, Minimiser, estimate_error
from kinesym.runtime.stepping.inference import ShootingInference
from kinesym.runtime.stepping.measured import (
    noise_of,
    noise_together,
    robust_covariance,
    taken_of,
)
from kinesym.runtime.stepping.minimise import Minimisation, Minimum, checked, minimise
from kinesym.runtime.stepping.neighbour import near_minimum
from kinesym.runtime.stepping.simulated import Simulated
from kinesym.runtime.summary import listed

#: Tolerance of an easier problem that leads to another one, and simulations with derivatives: of
#: the first one, which begins far off, and of others.
_LOOSE, _MOST_FIRST, _MOST = 1e-8, 500, 50


#: By how much a fit may be worse than its guess, over the objective: rounding.
_WORSE = 1e-6


class Chosen(NamedTuple):
    """How to minimise, see `ks.Shooting.solve`; limit : of iterations."""

    optimizer: str
    scale: bool
    progress: bool | None
    tolerance: float
    limit: int
    options: Mapping[str, Any]


class Rung(NamedTuple):
    """Unknowns where an easier problem that leads to another one ended, and how."""

    free_vector: Array
    status: Solve
    iterations: int
    message: str

    @property
    def success(self) -> bool:
        """Whether it converged."""
        return self.status.success


class _Minimised(NamedTuple):
    """A minimum of an identification, how it was found, typical sizes of the unknowns, seconds, and
    all iterates."""

    of: Identification
    found: Minimum
    problem: Minimisation
    optimizer: str
    size: Array
    seconds: float
    history: Sequence[Step]


class _Told(NamedTuple):
    """What is computed about a minimum: how sure it is, sentences, the error of the steps, standard
    deviations of measurements, the likelihood, errors of estimates, and seconds."""

    sure: Confidence
    notes: Sequence[str]
    grid: Sequence[EstimateError] = ()
    noise: Sequence[Noise] = ()
    likelihood: Sequence[Likelihood] = ()
    about: Sequence[Uncertainty] = ()
    spent: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Identification:
    """Identification of the unknowns: the minimum of J within bounds, its confidence, and the error
    of the steps. finer : makes the trials with finer steps; raises `ValueError` where it cannot.
    weighed : the same with standard deviations for those that are not known. remeasured : the
    trials with other samples. combine : see `ShootingInference`. given : the trials as they were
    given. gaps : sentences on samples that are left out. judged : a fit with what else is known
    of it.
    """

    trials: Simulated
    bounds: tuple[Array, Array]
    finer: Callable[[], FinerTrials]
    weighed: Callable[[Mapping[str, float]], Identification]
    remeasured: Callable[[Record], Simulated]
    combine: Callable[[Any, Trajectory], Any]
    given: Sequence[Experiment]
    gaps: Sequence[str]
    judged: Callable[[Fit], Fit]
    timings: Mapping[str, float] = field(default_factory=dict)

    def fit(self, q: Array, chosen: Chosen) -> Fit:
        """From q, where J is finite; see `ks.Shooting.solve`. Raises `ValueError` for a J that does
        not suit the optimiser.

        Where estimates depend on standard deviations that are not known, fits with those that the
        residuals of the last one show are repeated until these stay.
        """
        if not self.reweighs:
            return self._no_worse(q, self._fit(self._minimised(q, chosen)))
        if self.trials.unknowns.inputs:
            raise ValueError(
                "several standard deviations are estimated from derivatives of all residuals, "
                "which there are not for samples of unknown inputs; give std, or use ks.Collocation"
            )
        self.trials.check_squares()

        def again(
            std: Mapping[str, float], before: _Minimised | None
        ) -> tuple[_Minimised, list[Noise] | None]:
            weighed = self.weighed(std)
            begin = q if before is None else before.found.q
            made = weighed._minimised(begin, chosen)
            if before is not None:
                made = made._replace(
                    history=[*before.history, *made.history], seconds=before.seconds + made.seconds
                )
            if made.found.status is Solve.INTERRUPTED:
                return made, None
            return made, weighed._noise(made, std, self.trials.trials)

        found, noise, notes = settled(again, first_std(self.trials.trials))
        return self._no_worse(q, found.of._fit(found, noise, notes))

    def _no_worse(self, q: Array, fit: Fit) -> Fit:
        """A fit from q, which has not converged if q is better."""
        if not fit.success or self.trials.unknowns.several:
            return fit
        J = self.trials.cost(q)
        begin = J
        if self.reweighs:
            squares = self._prior_squares(q)
            runs = self.trials.trajectories(q)
            begin = merit_before(runs, self.given, self.trials.loss, squares)
        margin = ALIKE if self.reweighs else _WORSE * abs(fit.objective)
        if not begin < fit.merit - margin:
            return fit
        words = f"{Solve.WORSE.sentence} ({fit.merit:.6g}, the guess {begin:.6g})"
        return replace(fit, success=False, status=Solve.WORSE, message=words)

    def minimum(self, q: Array, chosen: Chosen, first: bool) -> Rung | None:
        """Only the minimum, with first standard deviations for those that are not known; None if a
        simulation does not reach its end at q. By Gauss-Newton, if it can be. first : whether
        nothing easier led to q."""
        trials, (low, high) = self.trials, self.bounds
        if not np.isfinite(trials.cost(q)):
            return None
        if self._squares("bfgs") and not trials.unknowns.inputs and (low < high).all():
            loose = {"ftol": _LOOSE, "xtol": _LOOSE}
            most = min(_MOST_FIRST if first else _MOST, chosen.limit)
            chosen = Chosen("least-squares", chosen.scale, chosen.progress, _LOOSE, most, loose)
        of = self.weighed(first_std(trials.trials)) if self.reweighs else self
        made = of._minimised(q, chosen)
        found = made.found
        return Rung(found.q, found.status, len(made.history) - 1, found.message)

    @property
    def reweighs(self) -> bool:
        """Whether estimates depend on standard deviations that are not known."""
        trials = self.trials
        if not (trials.measured and trials.weighted and groups_of(trials.trials)):
            return False
        alone = trials.loss is None and not len(trials.priors.places)
        return not (alone and pooled(trials.trials))

    def _noise(
        self, made: _Minimised, used: Mapping[str, float], trials: Sequence[Experiment]
    ) -> list[Noise]:
        """What the residuals show; nothing if there is no minimum."""
        q = made.found.q
        if not (made.found.success and np.isfinite(self.trials.cost(q))):
            return []
        sure = self._confidence(q, made.problem, self.trials.cost(q), made)[0]
        return noise_of(self.trials, q, ~sure.held, used, trials)

    def _minimised(self, q: Array, chosen: Chosen) -> _Minimised:
        """The minimum from q, and how it was found."""
        begin = time.perf_counter()
        squares = self._squares(chosen.optimizer)
        if chosen.optimizer == "least-squares":
            self._check_room()
        size = self._sizes(q)
        with iteration_line(chosen.progress) as report:
            problem = self._problem(q, size, squares, chosen, report)
            found = minimise(chosen.optimizer, problem, q)
        seconds = time.perf_counter() - begin
        return _Minimised(self, found, problem, chosen.optimizer, size, seconds, problem.history)

    def _problem(
        self,
        q: Array,
        size: Array,
        squares: bool,
        chosen: Chosen,
        report: Callable[[Iteration], None],
    ) -> Minimisation:
        """What is minimised from q."""
        J = self.trials.cost(q)
        return Minimisation(
            self.trials,
            size if chosen.scale else np.ones_like(q),
            J if J > 0.0 else 1.0,
            self.bounds,
            squares and not self.trials.unknowns.inputs,
            report,
            chosen.tolerance,
            chosen.limit,
            chosen.options,
        )

    def found(self, history: Sequence[Step], chosen: Chosen) -> Fit:
        """The fit of a sum of squares whose iterates are known, the last one at its minimum."""
        first, last = history[0].values, history[-1].values
        size = self._sizes(first)
        problem = self._problem(first, size, True, chosen, lambda step: None)
        words = "converged: no step would lower the objective any more"
        minimum = checked(problem, Minimum(last, Solve.CONVERGED, words))
        return self._fit(_Minimised(self, minimum, problem, chosen.optimizer, size, 0.0, history))

    def _squares(self, optimizer: str) -> bool:
        """Whether J is a sum of squares; least squares need that."""
        others = "; use bfgs, ipopt or steepest-descent"
        if optimizer == "least-squares" and self.trials.unknowns.inputs:
            raise ValueError(
                "least-squares needs the derivatives of all residuals, which there are"
                f" not for samples of unknown inputs{others}"
            )
        try:
            self.trials.check_squares()
        except ValueError as error:
            if optimizer == "least-squares":
                words = f"least-squares needs a sum of squares: {error}{others}"
                raise ValueError(words) from error
            return False
        return True

    def _check_room(self) -> None:
        low, high = self.bounds
        for name in np.array(self.trials.unknowns.names)[low == high]:
            raise ValueError(
                f"the bounds of {name} are equal; give it as known, or use another optimiser than "
                "least-squares"
            )

    # -- sizes ------------------------------------------------------------------------------

    def _sizes(self, q: Array) -> Array:
        """A typical size of each unknown: of trajectories their largest value; of samples of inputs
        at least what lowers the objective most."""
        size, unknowns = typical_sizes(q, self.bounds), self.trials.unknowns
        for k in range(len(unknowns.nodes)):
            for where in (unknowns.samples(k), unknowns.boundaries(k)):
                part = q[where]
                if len(part) and part.any():
                    size[where] = np.abs(part).max()
        for name in unknowns.inputs:
            which = np.array([origin == name for origin in unknowns.origins])
            largest, effect = np.abs(q[which]).max(), self._size_by_effect(q, which, size)
            size[which] = max(largest, effect) or size[which]
        return size

    def _size_by_effect(self, q: Array, which: NDArray[np.bool_], size: Array) -> float:
        """How far some unknowns go down the gradient to where the objective is lowest, with the
        curvature there by a difference; zero if that is nowhere."""
        slope = np.where(which, self.trials.gradient(q), 0.0)
        largest = float(np.abs(slope).max())
        if not 0.0 < largest < np.inf:
            return 0.0
        step = 1e-4 * float(np.median(size[which])) / largest
        if not np.isfinite(self.trials.cost(q - step * slope)):
            return 0.0
        change = slope - np.where(which, self.trials.gradient(q - step * slope), 0.0)
        bend = float(slope @ change) / step
        found = largest * float(slope @ slope) / bend if bend > 0.0 else 0.0
        return found if np.isfinite(found) else 0.0

    def _natural_sizes(self, q: Array) -> Array:
        """The largest value of the trajectory that an unknown belongs to; NaN for parameters."""
        unknowns, size = self.trials.unknowns, np.full(q.size, np.nan)
        rows = [unknowns.states.index(x) for x in unknowns.initial]
        for k, (states, inputs) in enumerate(self.trials.largest(q)):
            size[unknowns.starts(k)] = states[rows]
            size[unknowns.boundaries(k)] = np.tile(states, len(unknowns.segments[k]) - 1)
            size[unknowns.samples(k)] = np.repeat(inputs, unknowns.nodes[k])
        return size

    # -- results ----------------------------------------------------------------------------

    def _fit(self, made: _Minimised, noise: Sequence[Noise] = (), more: Sequence[str] = ()) -> Fit:
        found, q = made.found, made.found.q
        unknowns, system = self.trials.unknowns, self.trials.system
        J = self.trials.cost(q)
        gradient = self._gradient(q, J)
        runs = self.trials.trajectories(q) if np.isfinite(J) else []
        told = kept(
            "errors of estimates",
            lambda: self._told(made, J, gradient, runs, noise),
            lambda words: _Told(self._nothing(q), notes=words, noise=noise),
        )
        about = told.about or [self._uncertainty(J, told.sure, told.noise)]
        factor = self._factor(noise)

        def inference() -> ShootingInference:
            asked = (self.remeasured, self.combine, about[0].variance * factor)
            return ShootingInference(self.trials, self.bounds, q, about[0], *asked)

        timings = {**self.timings, **told.spent}
        shown = with_noise(runs, self.trials.trials, told.noise) if runs else []
        fit = Fit(
            success=found.success,
            status=found.status,
            message=found.message,
            objective=J,
            parameters=Estimates(dict(zip(unknowns.parameters, map(float, q), strict=False))),
            known=shared_values(system.known),
            initial=unknowns.initial_values(q),
            trials=shown,
            names=list(unknowns.names),
            free_vector=q,
            gradient=gradient,
            history=list(made.history),
            condition=told.sure.condition,
            notes=[*told.notes, *more, *self.gaps],
            timings={**timings, "total": sum(timings.values()) + made.seconds},
            optimizer=made.optimizer,
            model=system.name,
            grid=told.grid,
            noise=list(told.noise),
            likelihood=told.likelihood,
            merit=self._merit(shown, q, J) if noise and found.success else J,
            uncertainty=about,
            inference=inference,
        )
        return self.judged(fit)

    def _told(
        self,
        made: _Minimised,
        J: float,
        gradient: Array,
        runs: Sequence[Trajectory],
        noise: Sequence[Noise],
    ) -> _Told:
        """All that is computed about a minimum. runs : its trajectories. noise : what is known of
        it already."""
        found, q = made.found, made.found.q
        sure, curvature = self._confidence(q, made.problem, J, made)
        # whatever that of the objective
        sure = replace(sure, covariance=self._factor(noise) * sure.covariance)
        noise = noise or (self._noise_together(J, sure) if found.success else ())
        if not found.success or any(np.isnan(each.std) for each in noise):
            sure = replace(sure, covariance=np.full_like(sure.covariance, np.nan))
        begin = time.perf_counter()
        grid: list[EstimateError] = []
        if found.success and curvature is not None:
            here = self._minimiser(q, gradient, curvature, sure, made.size)
            grid = estimate_error(here, self.finer)
        spent = {"grid": time.perf_counter() - begin} if grid else {}
        runs = with_noise(runs, self.trials.trials, noise) if runs else []
        notes = poor_fits(runs, self.trials.trials) if runs and self.trials.measured else []
        if found.success and self.trials.measured:
            notes += self._on_std(runs, noise, q, sure)
        about, said = self._uncertainty(J, sure, noise), list(sure.notes)
        if known := self._known_as(made, sure, about, runs):
            about = _instead(about, known)
            said = list(about.notes)
        likelihood = self._likelihood(runs, sure) if found.success else []
        return _Told(sure, [*said, *notes], grid, noise, likelihood, [about], spent)

    def _factor(self, noise: Sequence[Noise]) -> float:
        """By which the covariance is too small with standard deviations that are known already."""
        return self.trials.factor if noise and self.trials.loss is None else 1.0

    def _nothing(self, q: Array) -> Confidence:
        return Confidence(np.zeros(q.size, dtype=bool), np.full((q.size, q.size), np.nan))

    def _likelihood(self, runs: Sequence[Trajectory], sure: Confidence) -> Sequence[Likelihood]:
        """That of the samples, if the objective has nothing else."""
        trials = self.trials
        if not (trials.measured and trials.weighted) or np.isnan(sure.covariance).all():
            return []
        return likelihood_of(runs, self.given, sure.taken, trials.loss, bool(trials.priors))

    def _merit(self, runs: Sequence[Trajectory], q: Array, J: float) -> float:
        """By what fits are ranked whose standard deviations are estimated."""
        loss, factor = self.trials.loss, self.trials.factor
        return merit_of(runs, self.given, J / factor, loss, self._prior_squares(q))

    def _prior_squares(self, q: Array) -> float:
        """The squares of priors, -2 log of their density but for a constant."""
        priors = self.trials.priors
        return float((priors.residuals(q) ** 2).sum()) / self.trials.factor if priors else 0.0

    def _uncertainty(self, J: float, sure: Confidence, noise: Sequence[Noise]) -> Uncertainty:
        """What is known of the errors of all unknowns."""
        names, weighted = self.trials.unknowns.names, not self._unknown_std or self.reweighs
        freedom = min((each.freedom for each in noise), default=np.inf)
        owned = self.trials.unknowns.owned
        return Uncertainty(
            names=list(names),
            covariance=sure.covariance,
            held=[name for name, at in zip(names, sure.held, strict=True) if at],
            logarithmic=list(np.array(owned.names)[owned.log]),
            freedom=freedom,
            variance=1.0 if weighted else J / max(freedom, 1.0),
            notes=list(sure.notes),
        )

    def _known_as(
        self,
        made: _Minimised,
        sure: Confidence,
        about: Uncertainty,
        runs: Sequence[Trajectory],
    ) -> Sequence[KnownAs]:
        """What is known of unknowns that the record does not tell apart, from minima with these
        held elsewhere."""
        q, trials, ways = made.found.q, self.trials, sure.directions
        asked = made.found.success and made.problem.squares and not trials.unknowns.several
        if not asked or ways is None or not ways.shape[1]:
            return []
        every = Exchange(trials.unknowns.names, q, ways, self.bounds)
        which, errors = every.moving, about.deviations()
        free = np.setdiff1d(np.flatnonzero(~sure.held), which)
        squares = squares_of_samples(runs)

        def same(moved: Array) -> bool:
            guess = q.copy()
            guess[which] = moved
            best, good = near_minimum(trials, guess, free, self.bounds, errors)
            rise = trials.cost(best) - trials.cost(q)
            return good and unchanged(rise, about.variance, squares)

        found = known_as(every.taken(which), same)
        lost = not np.isfinite(np.diag(sure.covariance)[which]).all()
        return found if lost or all(each.exact for each in found) else []

    def _gradient(self, q: Array, J: float) -> Array:
        return self.trials.gradient(q) if np.isfinite(J) else np.full_like(q, np.nan)

    @property
    def _unknown_std(self) -> list[str]:
        """Groups of measurements whose standard deviation is not known."""
        return list(dict.fromkeys(groups_of(self.trials.trials).values()))

    def _noise_together(self, J: float, sure: Confidence) -> list[Noise]:
        """The one standard deviation of all measurements, if that is what is not known."""
        trials = self.trials
        if not (trials.measured and trials.weighted and self._unknown_std):
            return []
        return [noise_together(trials, J, sure.taken, trials.trials)]

    def _on_std(
        self, trials: Sequence[Trajectory], noise: Sequence[Noise], q: Array, sure: Confidence
    ) -> list[str]:
        """Sentences on standard deviations, given or not."""
        notes = not_told(noise, self.given)
        if self._unknown_std and not self.trials.weighted:
            notes.append(GIVE_STD.format(listed(self._unknown_std)))
        if self.trials.loss is None and self.trials.weighted:
            rows = [run.residuals() for run in trials]
            taken = partial(taken_of, self.trials, q, ~sure.held)
            notes += contradictions(self.given, rows, sure.taken, taken)
        return notes

    def _minimiser(
        self, q: Array, gradient: Array, curvature: Any, sure: Confidence, size: Array
    ) -> Minimiser:
        """The minimum with all that tells how far another one is."""
        natural = self._natural_sizes(q)
        values = np.where(natural > 0.0, natural, np.abs(q))
        with np.errstate(invalid="ignore"):
            deviations = np.sqrt(np.diag(sure.covariance))
        sizes = np.where(values > 0.0, values, size)
        free, names = ~sure.held, self.trials.unknowns.names
        return Minimiser(
            q, names, gradient, curvature, free, values, sizes, deviations, self.bounds
        )

    def _confidence(
        self, q: Array, problem: Minimisation, J: float, made: _Minimised
    ) -> tuple[Confidence, Any]:
        """From residuals, else from differences of gradients; and d2 J/d q2 (n, n) by which it is
        told, None if there is none."""
        nothing = self._nothing(q)
        if not np.isfinite(J):
            return nothing, None
        unknowns, size, gradient = self.trials.unknowns, made.size, self._gradient(q, J)
        found = Estimate(q, unknowns.names, self.bounds, J, gradient, self._natural_sizes(q))
        if problem.squares:
            slopes = self.trials.jacobian(q)
            slopes.eliminate_zeros()
            samples, curvature = self._samples(slopes), 2.0 * (slopes.T @ slopes)
            if unknowns.several:
                gaps = self.trials.gap_jacobian(q)
                sure = confidence_of_segments(found, slopes, gaps, unknowns.inner, samples)
            else:
                sure = confidence_of_squares(found, slopes.toarray(), samples)
            return self._with_loss(q, sure), curvature
        held = found.held(np.abs(gradient) / (1e-5 * size))  # where it is not known better
        if unknowns.several or q.size > 60:
            return replace(nothing, held=held), None
        free = np.flatnonzero(~held)
        rows = [self._slope_of_gradient(q, int(k), 1e-5 * size[k]) for k in free]
        if not np.isfinite(rows).all():
            return replace(nothing, held=held), None
        curvature = np.zeros((q.size, q.size))
        curvature[free] = np.reshape(rows, (len(free), q.size))
        judged = found.judged(free, 0.5 * curvature[np.ix_(free, free)], 0.0)
        return Confidence(held, nothing.covariance, *judged), curvature

    def _samples(self, slopes: Any) -> int | None:
        """The number of residuals by which their variance is estimated; None if they are divided by
        their standard deviations."""
        trials = self.trials
        if trials.measured and trials.weighted:
            if not self._unknown_std or trials.loss is not None:
                return None
            about = trials.samples()
            return int(np.count_nonzero((about.channel >= 0) & (about.weight > 0.0)))
        return int((np.diff(slopes.indptr) > 0).sum()) // trials.substeps

    def _with_loss(self, q: Array, sure: Confidence) -> Confidence:
        """The covariance by the loss; none if residuals have no variance."""
        trials = self.trials
        covariance = np.full_like(sure.covariance, np.nan)
        if trials.measured and not trials.weighted and self._unknown_std:
            return replace(sure, covariance=covariance)
        if trials.loss is None or np.isnan(sure.covariance).all():
            return sure
        which, found = robust_covariance(trials, q, ~sure.held, trials.loss)
        covariance[sure.held] = covariance[:, sure.held] = 0.0
        covariance[np.ix_(which, which)] = found
        return replace(sure, covariance=covariance)

    def _slope_of_gradient(self, q: Array, k: int, step: float) -> Array:
        """d gradient/d q_k by central differences; NaN where a simulation fails."""
        sides = []
        for sign in (1.0, -1.0):
            at = q.copy()
            at[k] += sign * step
            if not np.isfinite(self.trials.cost(at)):
                return np.full_like(q, np.nan)
            sides.append(self.trials.gradient(at))
        return np.asarray((sides[0] - sides[1]) / (2.0 * step))


def _instead(about: Uncertainty, known: Sequence[KnownAs]) -> Uncertainty:
    """What is known of errors, with what is known instead of what the record does not tell."""
    remarks = {name: words for each in known for name, words in each.remarks.items()}
    return replace(about, notes=[each.sentence for each in known], instead=remarks)
