"""Shooting: trajectories follow from few unknowns q by simulation, and J(q) is minimised.

How trials follow from q, and their derivatives, is told by one of the kinds of `Simulated`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.likelihood import ALIKE
from kinesym.runtime.estimation.noise import first_std
from kinesym.runtime.results.estimates import Noise
from kinesym.runtime.results.fit import Fit, Step
from kinesym.runtime.shooting.confidence import confidence
from kinesym.runtime.shooting.fit_result import bare, fit_of
from kinesym.runtime.shooting.minimising import (
    Minimised,
    is_squares,
    minimisation,
    minimised,
    sizes,
)
from kinesym.runtime.shooting.residuals import residuals_of
from kinesym.runtime.shooting.scaled import Chosen, Endpoint
from kinesym.runtime.shooting.sides import side_of
from kinesym.runtime.shooting.stationary import checked
from kinesym.runtime.shooting.task import Task
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.statistics.covariance import Confidence
from kinesym.runtime.status import Solve

#: Tolerance of an easier problem that leads to another one.
_LOOSE = 1e-8
#: Simulations with derivatives of the first one, which begins far off.
_MOST_FIRST = 500
#: Simulations with derivatives of others.
_MOST = 50
#: By how much a fit may be worse than its guess, over the objective: rounding.
_WORSE = 1e-6


class Ended(NamedTuple):
    """End of a search for a minimum: its iterates, the last one and why it is, and seconds."""

    history: Sequence[Step]
    found: Endpoint
    seconds: float


@dataclass(frozen=True)
class Identification:
    """Identification of the unknowns: the minimum of J within bounds, its confidence, and the error
    of the steps.

    weighed : the task with standard deviations for those that are not known. judged : a fit with
    what else is known of it.
    """

    task: Task
    weighed: Callable[[Mapping[str, float]], Task]
    judged: Callable[[Fit], Fit]

    @property
    def trials(self) -> Simulated:
        """Trials as they were given."""
        return self.task.trials

    @property
    def reweighs(self) -> bool:
        """Whether estimates depend on standard deviations that are not known."""
        return self.task.estimation.reweighs

    def fit(self, q: Array, chosen: Chosen) -> Fit:
        """Fit from q, where J is finite; see `ks.Shooting.solve`. Raises `ValueError` for a J that
        does not suit the optimiser.

        Where estimates depend on standard deviations that are not known, fits with those that the
        residuals of the last one show are repeated until these stay.
        """
        if not self.reweighs:
            made = minimised(self.trials, self.task.bounds, q, chosen)
            return self._no_worse(q, self.judged(fit_of(self.task, made)))
        if self.trials.unknowns.inputs:
            raise ValueError(
                "several standard deviations are estimated from derivatives of all residuals, "
                "which there are not for samples of unknown inputs; give std, or use ks.Collocation"
            )
        self.trials.check_squares()

        def again(
            std: Mapping[str, float], before: tuple[Task, Minimised] | None
        ) -> tuple[tuple[Task, Minimised], list[Noise] | None]:
            task, last = self.weighed(std), before and before[1]
            begin = last.found.q if last else q
            made = minimised(task.trials, task.bounds, begin, chosen).after(last)
            if made.found.status is Solve.INTERRUPTED:
                return (task, made), None
            return (task, made), _noise(task, made, std)

        (task, made), noise, notes = self.task.estimation.reweighted(again)
        return self._no_worse(q, self.judged(fit_of(task, made, noise, notes)))

    def end(self, q: Array, chosen: Chosen) -> tuple[Fit, Ended]:
        """Fit as `fit`, without what is computed of a minimum, its errors above all, which can take
        as long as the search; `whole` makes up for it. Not of a task that reweighs."""
        made = minimised(self.trials, self.task.bounds, q, chosen)
        fit = self._no_worse(q, self.judged(bare(self.task, made)))
        return fit, Ended(made.history, made.found, made.seconds)

    def whole(self, ended: Ended, chosen: Chosen) -> Fit:
        """The fit of a search that has ended at a minimum."""
        made = _ended(self.task, ended.history, chosen, known=True)
        made = made._replace(found=ended.found, seconds=ended.seconds)
        return self.judged(fit_of(self.task, made))

    def _no_worse(self, q: Array, fit: Fit) -> Fit:
        """A fit from q, which has not converged if q is better."""
        if not fit.success or self.trials.unknowns.several:
            return fit
        begin = self.task.estimation.merit_before(
            lambda: self.trials.trajectories(q), self.trials.cost(q), self.task.prior_squares(q)
        )
        margin = ALIKE if self.reweighs else _WORSE * abs(fit.objective)
        if not begin < fit.merit - margin:
            return fit
        words = f"{Solve.WORSE.sentence} ({fit.merit:.6g}, the guess {begin:.6g})"
        return replace(fit, status=Solve.WORSE, message=words)

    def minimum(self, q: Array, chosen: Chosen, first: bool) -> Minimised | None:
        """Minimum without its uncertainty, with first standard deviations for those that are not
        known; None if a simulation does not reach its end at q. By Gauss-Newton, if it can be.
        first : whether nothing easier led to q."""
        trials, (low, high) = self.trials, self.task.bounds
        if not np.isfinite(trials.cost(q)):
            return None
        squares = is_squares(trials, "bfgs") and not trials.unknowns.inputs
        if squares and (low < high).all():
            most = min(_MOST_FIRST if first else _MOST, chosen.limit)
            chosen = Chosen("least-squares", chosen.scale, chosen.progress, _LOOSE, most, {})
        task = self.weighed(first_std(trials.trials)) if self.reweighs else self.task
        return minimised(task.trials, task.bounds, q, chosen)

    def found(self, history: Sequence[Step], chosen: Chosen, known: bool = False) -> Fit:
        """The fit of a sum of squares whose iterates are known, the last one at its minimum.
        known : whether that is not looked at."""
        made = _ended(self.task, history, chosen, known)
        return self.judged(fit_of(self.task, made))

    def confidence(self, q: Array, chosen: Chosen) -> Confidence:
        """Confidence of the unknowns where a sum of squares has its minimum."""
        J = self.trials.cost(q)
        made = _ended(self.task, [Step(J, q)], chosen, known=True)
        return confidence(self.task.estimation, made, J, self.task.gradient(q, J))[0]

    def again(self, fit: Fit) -> tuple[Minimised, Fit]:
        """The minimum at the unknowns and standard deviations of a fit, without an iteration, and
        the fit with all that is said of it found again."""
        reweighs = self.reweighs and bool(fit.noise)
        std = {each.group: each.std for each in fit.noise}
        task = self.weighed(std) if reweighs else self.task
        chosen = Chosen(fit.optimizer, True, False, 1.0, 0, {})
        made = _ended(task, [Step(task.trials.cost(fit.values), fit.values)], chosen)
        return made, self.judged(fit_of(task, made, fit.noise if reweighs else ()))


def _ended(task: Task, history: Sequence[Step], chosen: Chosen, known: bool = False) -> Minimised:
    """The minimum where known iterates end, checked where that is possible, unless it is known."""
    first, last = history[0].values, history[-1].values
    side = side_of(task.trials, task.bounds, last)
    trials, bounds = side.trials, side.bounds
    squares, size = is_squares(trials, chosen.optimizer), sizes(trials, bounds, first)
    problem = minimisation(trials, bounds, first, size, squares, chosen, lambda step: None)
    words = "converged: no step would lower the objective any more"
    end = Endpoint(last, Solve.CONVERGED, words)
    minimum = end if known or trials.unknowns.several else checked(problem, end)
    return Minimised(minimum, problem, size, 0.0, history)


def _noise(task: Task, made: Minimised, used: Mapping[str, float]) -> list[Noise]:
    """The standard deviations that the residuals of a minimum show, which was found with those
    `used`; nothing if there is no minimum."""
    q, J = made.found.q, task.trials.cost(made.found.q)
    if not (made.success and np.isfinite(J)):
        return []
    sure, _ = confidence(task.estimation, made, J, task.gradient(q, J))
    found = residuals_of(task.trials, q, ~sure.held)
    return task.estimation.noise(found, used) if found else []
