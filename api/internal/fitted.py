"""Collocation as estimation: standard deviations of measurements and of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from kinesym.internal.discretised import Discretised
from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.samples import number_of_samples
from kinesym.runtime.results.kkt import Kkt
from kinesym.runtime.results.leverage import free_directions, leverages
from kinesym.runtime.results.noise import (
    GIVE_STD,
    contradictions,
    estimated,
    estimated_together,
    groups_of,
    not_told,
    pooled,
    with_noise,
)
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.statistics import Confidence, kkt_at, parameter_confidence
from kinesym.runtime.results.trajectory import Noise
from kinesym.runtime.results.undetermined import solver
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import listed


class Fitted(Discretised):
    """A nonlinear program whose objective may be the misfit of measurements."""

    @property
    def _mixed(self) -> bool:
        """Whether the objective has more than measurements."""
        objective = self.symbolic.objective
        return bool(objective.integrand != 0 or objective.terminal != 0)

    @property
    def _unknown_std(self) -> bool:
        """Whether there are standard deviations to be estimated."""
        return bool(self.symbolic.objective.least_squares and groups_of(self.trials))

    @property
    def _pooled(self) -> bool:
        """Whether one standard deviation is unknown, of which the estimates do not depend."""
        plain = self.symbolic.objective.loss is None and not self._mixed
        return self._unknown_std and plain and pooled(self.trials)

    @property
    def _reweighs(self) -> bool:
        """Whether estimates depend on standard deviations that are unknown."""
        return self._unknown_std and not self._mixed and not self._pooled

    @property
    def _loss(self) -> RobustLoss | None:
        return RobustLoss.of(self.symbolic.objective.loss)

    @property
    def _directions(self) -> int:
        """In how many directions the free vector can move, at most."""
        low, high = self.constraint_bounds
        return max(self.n_variables - int((low == high).sum()), 0)

    def _with_std_of(self, solution: Solution) -> tuple[Self, Solution]:
        """This problem with the standard deviations that a solution of it has found, and the
        solution of that. Raises `ValueError` if there are none."""
        if not self._unknown_std:
            return self, solution
        found = {each.group: each.std for each in solution.noise}
        if not found or np.isnan([*found.values()]).any():
            words = "; ".join(note for note in solution.notes if "give std" in note) or "give std"
            raise ValueError(f"no covariance without standard deviations: {words}")
        problem = self._on([trial.with_std(found) for trial in self.trials])
        if not self._pooled:
            return problem, solution
        weight = solution.noise[0].std ** -2.0
        multipliers, lower, upper = (weight * each for each in multipliers_of(solution))
        known = replace(
            solution,
            objective=weight * solution.objective,
            multipliers=multipliers,
            lower_multipliers=lower,
            upper_multipliers=upper,
        )
        return problem, known

    def _noise(
        self, solution: Solution, kkt: Kkt, used: Mapping[str, float], trials: Sequence[Experiment]
    ) -> list[Noise]:
        """What the residuals of a solution show, found with the standard deviations `used` for
        those that `trials` leave open."""
        z, residuals = solution.free_vector, self._residuals
        factor, e = self.symbolic.objective.least_squares, residuals.residuals(z)
        try:
            taken = leverages(kkt, residuals.residual_jacobian(z), factor, self._directions)
        except ValueError:
            taken = np.full(len(e), np.nan)
        return estimated(e, residuals.samples, taken, trials, used, self._loss)

    def _with_noise(self, solution: Solution, kkt: Kkt) -> Solution:
        """The solution with the one standard deviation that all measurements share."""
        if not self._pooled:
            return solution
        directions = free_directions(kkt)
        if directions is None:
            return replace(solution, noise=self._noise(solution, kkt, {}, self.trials))
        squares = solution.objective / self.symbolic.objective.least_squares
        n = number_of_samples(self._about, self.trials)
        found = estimated_together(squares, n, directions, self.trials)
        return replace(solution, noise=[found])

    def _variance(self, solution: Solution) -> float:
        """Of residuals in units of the objective; NaN if it is not known. Where standard deviations
        are given the objective is taken as it is, twice the negative log-likelihood."""
        factor = self.symbolic.objective.least_squares
        if any(np.isnan(each.std) for each in solution.noise):
            return np.nan
        if self._pooled:
            spread = solution.noise[0].std if solution.noise else np.nan
            return float(factor * spread**2)
        if self._unknown_std and self._mixed:
            return np.nan
        return factor if solution.noise else 1.0

    def _judged(self, solution: Solution) -> Solution:
        """The solution with sentences on standard deviations, given or not."""
        objective = self.symbolic.objective
        if not (solution.success and objective.least_squares):
            return solution
        notes = not_told(solution.noise)
        if self._unknown_std and self._mixed:
            names = listed(dict.fromkeys(groups_of(self.trials).values()))
            notes.append(GIVE_STD.format(names))
        if objective.loss is None and not self._mixed:
            rows = [run.residuals() for run in solution.trials]
            notes += contradictions(self.trials, rows, self._directions)
        runs = with_noise(solution.trials, self.trials, solution.noise)
        return replace(solution, trials=runs, notes=[*solution.notes, *notes])

    @property
    def _robust(self) -> bool:
        """Whether the loss is no likelihood."""
        return self._loss is not None and not self._loss.likelihood

    def _covariance(self, solution: Solution, kkt: Kkt) -> Confidence:
        """How far a solution tells the parameters."""
        given = (solution.free_vector, multipliers_of(solution))
        found = parameter_confidence(self.nlp, kkt, *given)
        covariance = self._variance(solution) * found.covariance
        if self._robust:
            covariance = self._sandwich(solution, kkt, found)
        return replace(found, covariance=covariance)

    def _sandwich(self, solution: Solution, kkt: Kkt, found: Confidence) -> Array:
        """A^-1 B A^-1 of the parameters with A the curvature and B the sum of psi^2 x x' (Huber,
        Ronchetti 2009, Robust Statistics, section 7.6)."""
        residuals, z, loss = self._residuals, solution.free_vector, self._loss
        assert loss is not None
        r = len(self.layout.parameters)
        unit = np.zeros((self.n_variables, r))
        unit[self.layout.parameter_offset + np.arange(r), np.arange(r)] = 1.0
        columns = solver(kkt).solve(unit, np.zeros((self.n_constraints, r)))
        root = np.sqrt(residuals.samples.share)
        psi = loss.slope(residuals.residuals(z) / root) * root
        pulls = psi[:, None] * (residuals.residual_jacobian(z) @ columns)
        n = len(psi)
        more = n / (n - self._directions) if n > self._directions else 1.0
        factor = 2.0 * self.symbolic.objective.least_squares
        covariance = more * factor**2 * (pulls.T @ pulls)
        shape = np.where(np.isnan(found.covariance), np.nan, 1.0)
        shape[found.held] = shape[:, found.held] = 0.0
        return np.asarray(shape * covariance)

    def _kkt(self, solution: Solution, workspace: Workspace | None = None) -> Kkt:
        """The KKT matrix at a solution."""
        return kkt_at(
            self.nlp,
            solution.free_vector,
            multipliers_of(solution),
            self.variable_bounds,
            self.constraint_bounds,
            [end.place for end in self._ends.values() if not end.determined],
            bool(self.symbolic.objective.least_squares),
            workspace,
        )


def multipliers_of(solution: Solution) -> tuple[Array, Array, Array]:
    """Those of constraints, lower and upper bounds."""
    return solution.multipliers, solution.lower_multipliers, solution.upper_multipliers
