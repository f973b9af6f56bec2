"""Collocation as estimation: standard deviations of measurements and of parameters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kinesym.base import checks
from kinesym.internal.fitting.bands import Held, Smoothed
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.identifiable_combinations import known_of_solution
from kinesym.internal.fitting.inference import CollocationInference, MarginalInference
from kinesym.internal.fitting.sizes import scaling
from kinesym.internal.problems.pipeline import slopes_library
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Solved
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.samples import number_of_samples
from kinesym.runtime.results.estimates import NO_ERRORS, Noise, Uncertainty, nothing_known
from kinesym.runtime.results.inference import Inference
from kinesym.runtime.results.likelihood import Likelihood, likelihood_of, merit_before, merit_of
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
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.active import active
from kinesym.runtime.statistics.covariance import (
    Confidence,
    clear_confidence,
    kkt_at,
    limits_at,
    parameter_confidence,
)
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.leverage import free_directions, leverages
from kinesym.runtime.statistics.undetermined import solver
from kinesym.runtime.summary import listed


@dataclass(frozen=True)
class Estimation:
    """Estimation problem: a discretisation whose objective may be the misfit of measurements."""

    problem: Discretisation

    def covariance(self, solution: Solution) -> Array:
        """Covariance of the identified parameters, (r, r); see `Collocation.covariance`."""
        here, known = self.converged(solution, "covariance")
        if self.integrated:
            return solution.uncertainty[0].covariance
        found = here.confidence(known, here.kkt(known))
        words = "; ".join(found.notes)
        if words and np.isnan(found.covariance).all():
            raise ValueError(words)
        if words:
            warnings.warn(f"NaN in the covariance: {words}", stacklevel=3)
        return found.covariance

    def converged(self, solution: Solution, what: str) -> tuple[Estimation, Solution]:
        """Estimation on the grid and with the standard deviations of a solution, and the solution
        with these. Raises `ValueError` if it has not converged, or they are not known."""
        checks.check_kind(solution, Solution, "kinesym")
        if not solution.success:
            raise ValueError(f"no {what} without convergence: {solution.message}")
        problem = self.problem.on_grid_of(solution)
        some = problem.population
        if some:
            h = some.from_natural(solution.parameters)
            problem = problem.with_priors(some.numbers(h))
        return Estimation(problem).with_std_of(solution, what)

    def asked_again(self, solution: Solution, about: Uncertainty | str) -> Solution:
        """The solution of a fit with what is known of its errors, or why nothing is, and the
        problem to ask more. The matrix is made again when it is asked for: a solution must not keep
        its factors in memory."""
        if not self.problem.symbolic.objective.least_squares:
            return replace(solution, inference=_no_fit)
        found = _solved(solution)
        known = about if isinstance(about, Uncertainty) else nothing_known()

        def inference() -> Inference:
            course = self._smoothed(solution)
            if self.integrated:
                return MarginalInference(course, [*solution.uncertainty, known][0])
            return CollocationInference(
                course=course,
                problem=replace(
                    self.problem.ipopt(self.problem.nlp), scaling=scaling(self.problem, found.z)
                ),
                trials=self.problem.trials,
                best=found,
                about=known,
                on=partial(self.problem.nlp_of, self.problem.libraries.exact),
                residuals=self.problem.residual_nlp,
                loss=self._loss,
                factor=self.problem.symbolic.objective.least_squares,
                spread=partial(self._sandwich, solution) if self._robust else None,
            )

        if isinstance(about, str):  # of the largest likelihood it is known already
            more = [about] if about and not self.integrated else []
            return replace(solution, notes=[*solution.notes, *more], inference=inference)
        told = solution.uncertainty if self.integrated else [about]
        return replace(solution, uncertainty=told, inference=inference)

    def _smoothed(self, solution: Solution) -> Smoothed:
        """Smoothed trajectories of a solution, for bands."""
        layout, some, z, estimated = (
            self.problem.layout,
            self.problem.population,
            solution.free_vector,
            None,
        )
        if self.integrated and solution.uncertainty:
            mine, h = np.flatnonzero(~some.random), some.entries(self.problem.priors)
            slopes = np.append(layout.parameter_slopes(z)[mine], some.slopes(h))
            r, sides = len(slopes), np.zeros((len(h), len(z)))
            for side, (row, _) in zip(
                sides, some.pulls(h, layout.parameter_values(z)), strict=True
            ):
                layout.parameter_values(side)[:] = row
            covariance = solution.uncertainty[0].covariance[:r, :r] / np.outer(slopes, slopes)
            estimated = Held(layout.parameter_offset + mine, sides, covariance)
        return Smoothed(
            nlp=self.problem.nlp,
            kkt=self.kkt(solution),
            z=z,
            runs=solution.trials,
            variance=self._wider(solution) if self._robust else self.variance(solution),
            freedom=min((each.freedom for each in solution.noise), default=np.inf),
            outputs=partial(slopes_library, self.problem.symbolic),
            estimated=estimated,
        )

    def _wider(self, solution: Solution) -> float:
        """Inflation of variances for a loss that is no likelihood (sandwich estimator), for errors
        that are all alike (Huber, Ronchetti 2009, Robust Statistics, section 7.6)."""
        psi, bend = (each[self._timed] for each in self._pulls(solution))
        n = len(psi)
        left = n - self.problem.free_directions if n > self.problem.free_directions else n
        return float(
            self.problem.symbolic.objective.least_squares * (psi @ psi) / left / bend.mean()
        )

    @property
    def mixed(self) -> bool:
        """Whether the objective has more than measurements."""
        objective = self.problem.symbolic.objective
        return bool(objective.integrand != 0 or objective.terminal != 0)

    @property
    def unknown_std(self) -> bool:
        """Whether there are standard deviations to be estimated."""
        return bool(
            self.problem.symbolic.objective.least_squares and groups_of(self.problem.trials)
        )

    @property
    def pooled(self) -> bool:
        """Whether all measurements share one unknown standard deviation, on which the estimates do
        not depend."""
        plain = not (
            self.problem.symbolic.objective.loss or self.mixed or self.problem.symbolic.priors
        )
        return self.unknown_std and plain and pooled(self.problem.trials)

    @property
    def reweighs(self) -> bool:
        """Whether estimates depend on standard deviations that are unknown."""
        return self.unknown_std and not self.pooled and (self.integrated or not self.mixed)

    @property
    def integrated(self) -> bool:
        """Whether the parameters are those of the largest marginal likelihood."""
        return self.problem.formulation.noisy or bool(self.problem.population)

    @property
    def _loss(self) -> RobustLoss | None:
        return RobustLoss.of(self.problem.symbolic.objective.loss)

    def with_std_of(self, solution: Solution, what: str) -> tuple[Estimation, Solution]:
        """Estimation with the standard deviations that a solution has found, and the solution of
        the problem with these. Raises `ValueError` if there are none."""
        if not self.unknown_std:
            return self, solution
        found = {each.group: each.std for each in solution.noise}
        if not found or np.isnan([*found.values()]).any():
            words = "; ".join(note for note in solution.notes if "give std" in note) or "give std"
            raise ValueError(f"no {what} without standard deviations: {words}")
        made = Estimation(self.problem.with_std(found))
        if not self.pooled:
            return made, solution
        weight = solution.noise[0].std ** -2.0
        multipliers, lower, upper = (weight * each for each in multipliers_of(solution))
        known = replace(
            solution,
            objective=weight * solution.objective,
            multipliers=multipliers,
            lower_multipliers=lower,
            upper_multipliers=upper,
        )
        return made, known

    def noise(
        self, solution: Solution, kkt: Kkt, used: Mapping[str, float], trials: Sequence[Experiment]
    ) -> list[Noise]:
        """Standard deviations and degrees of freedom of the residuals of a solution, found with the
        standard deviations `used` for those that `trials` leave open."""
        z, residuals = solution.free_vector, self.problem.residual_nlp
        factor, e = self.problem.symbolic.objective.least_squares, residuals.residuals(z)
        try:
            taken = leverages(
                kkt, residuals.residual_jacobian(z), factor, self.problem.free_directions
            )
        except ValueError:
            taken = np.full(len(e), np.nan)
        if taken.sum() > self.problem.free_directions + 0.5:  # by rounding: that is no count
            taken = np.full(len(e), np.nan)
        return estimated(e, residuals.samples, taken, trials, used, self._loss)

    def with_noise(self, solution: Solution, kkt: Kkt) -> Solution:
        """The solution with the one standard deviation that all measurements share."""
        if not self.pooled:
            return solution
        directions = free_directions(kkt)
        if directions is None:
            return replace(solution, noise=self.noise(solution, kkt, {}, self.problem.trials))
        squares = solution.objective / self.problem.symbolic.objective.least_squares
        n = number_of_samples(self.problem.about, self.problem.trials)
        found = estimated_together(squares, n, directions, self.problem.trials)
        return replace(solution, noise=[found])

    def variance(self, solution: Solution) -> float:
        """Variance of residuals in units of the objective; NaN if it is not known. Where standard
        deviations are given the objective is twice the negative log-likelihood, and it is 1."""
        factor = self.problem.symbolic.objective.least_squares
        if any(np.isnan(each.std) for each in solution.noise):
            return np.nan
        if self.pooled:
            spread = solution.noise[0].std if solution.noise else np.nan
            return float(factor * spread**2)
        if self.unknown_std and self.mixed and not self.integrated:
            return np.nan
        return factor if solution.noise else 1.0

    def judged(self, solution: Solution) -> Solution:
        """The solution with sentences on standard deviations, given or not."""
        objective = self.problem.symbolic.objective
        if not (solution.success and objective.least_squares):
            return solution
        notes = not_told(solution.noise, self.problem.trials)
        if self.unknown_std and self.mixed and not self.integrated:
            names = listed(dict.fromkeys(groups_of(self.problem.trials).values()))
            notes.append(GIVE_STD.format(names))
        if objective.loss is None and not self.mixed:
            rows = [run.residuals() for run in solution.trials]
            taken = partial(self._taken, solution)
            notes += contradictions(self.problem.trials, rows, self.problem.free_directions, taken)
        runs = with_noise(solution.trials, self.problem.trials, solution.noise)
        return replace(
            solution,
            trials=runs,
            notes=[*solution.notes, *notes],
            likelihood=self._likelihood(solution, runs),
            merit=self._merit(solution, runs),
        )

    def _merit(self, solution: Solution, runs: Sequence[Trajectory]) -> float:
        """Merit by which a solution is ranked among others of this problem, see `Trials`."""
        if self.integrated:
            return -2.0 * solution.likelihood[0].log_likelihood
        if not self.reweighs:
            return solution.objective
        objective = solution.objective / self.problem.symbolic.objective.least_squares
        squares = self._prior_squares(solution.free_vector)
        return merit_of(runs, self.problem.trials, objective, self._loss, squares)

    def merit_at(self, z: Array) -> float:
        """Merit of a free vector; infinite where it is not known."""
        with np.errstate(all="ignore"):
            if not self.reweighs:
                found = self.problem.cost(z)
            else:
                runs = self.problem.trajectories(z)
                squares = self._prior_squares(z)
                found = merit_before(runs, self.problem.trials, self._loss, squares)
        return found if np.isfinite(found) else np.inf

    @property
    def size_of_samples(self) -> float:
        """The squares of all samples over their standard deviations, 1 where these are unknown."""
        pairs = (
            (y, t.divisors[name]) for t in self.problem.trials for name, y in t.measured.items()
        )
        return float(sum(np.nansum((y / std) ** 2) for y, std in pairs))

    def _prior_squares(self, z: Array) -> float:
        """The squares of priors, -2 log of their density but for a constant."""
        entries, members = (
            self.problem.layout.parameter_values(z),
            self.problem.layout.owned.members,
        )
        squares = 0.0
        for p, y in zip(members, entries, strict=True):
            mean, sd = self.problem.priors.get(p, (0.0, np.inf))
            squares += float((y - mean) / sd) ** 2
        return squares

    def _likelihood(self, solution: Solution, runs: Sequence[Trajectory]) -> Sequence[Likelihood]:
        """Likelihood of a fit, as far as it is known. A marginal one integrates out all directions
        that the KKT matrix leaves free: random effects, process noise, and states without a
        prior."""
        directions = solution.problem.get("directions")
        if directions is None or (self.mixed and not self.problem.formulation.noisy):
            return []
        if self.integrated:
            drawn = int(self.problem.population.random.sum())
            drawn += len(self.problem.intensities) * sum(
                nodes - 1 for nodes in self.problem.layout.nodes
            )
            return [replace(each, integrated=directions - drawn) for each in solution.likelihood]
        return likelihood_of(
            runs, self.problem.trials, directions, self._loss, bool(self.problem.symbolic.priors)
        )

    def _taken(self, solution: Solution) -> dict[str, float]:
        """Degrees of freedom that the unknowns use up, by channel; empty where they are not
        known."""
        residuals, factor = self.problem.residual_nlp, self.problem.symbolic.objective.least_squares
        slopes = residuals.residual_jacobian(solution.free_vector)
        try:
            found = leverages(self.kkt(solution), slopes, factor, self.problem.free_directions)
        except ValueError:
            return {}
        return residuals.samples.sums(found)

    @property
    def _robust(self) -> bool:
        """Whether the loss is no likelihood."""
        return self._loss is not None and not self._loss.likelihood

    def confidence(self, solution: Solution, kkt: Kkt) -> Confidence:
        """Covariance of the parameters at a solution, with notes on those that are not
        identifiable."""
        z, variance = solution.free_vector, self.variance(solution)
        clear = clear_confidence(self.problem.nlp, kkt, z, variance)
        found = clear or parameter_confidence(self.problem.nlp, kkt, z, multipliers_of(solution))
        covariance = variance * found.covariance
        if self._robust:
            r = len(self.problem.layout.parameters)
            unit = np.zeros((self.problem.n_variables, r))
            unit[self.problem.layout.parameter_offset + np.arange(r), np.arange(r)] = 1.0
            columns = solver(kkt).solve(unit, np.zeros((self.problem.n_constraints, r)))
            columns *= self.problem.layout.parameter_slopes(z)
            shape = np.where(np.isnan(found.covariance), np.nan, 1.0)
            shape[found.held] = shape[:, found.held] = 0.0
            covariance = shape * self._sandwich(solution, columns)
        return replace(found, covariance=covariance)

    def uncertainty(self, solution: Solution, kkt: Kkt) -> Uncertainty | str:
        """Uncertainty of the parameters of a fit. Where standard deviations are not known, a
        sentence instead: on parameters that are not identifiable, "" if there are none, or on why
        it is no minimum."""
        names = self.problem.layout.parameters
        variance = self.variance(solution)
        if not (self.problem.symbolic.objective.least_squares and names):
            return ""
        try:
            if np.isnan(variance):
                given = (solution.free_vector, multipliers_of(solution))
                return "; ".join(parameter_confidence(self.problem.nlp, kkt, *given).notes)
            found = self.confidence(solution, kkt)
        except ValueError as error:
            return f"{NO_ERRORS}: {error}"
        runs = with_noise(solution.trials, self.problem.trials, solution.noise)
        made = (self.problem.layout, self.problem.ipopt(self.problem.nlp), _solved(solution), runs)
        known = known_of_solution(*made, found.directions, variance)
        return Uncertainty(
            names=names,
            covariance=found.covariance,
            held=[name for name, held in zip(names, found.held, strict=True) if held],
            logarithmic=list(np.array(names)[self.problem.layout.owned.log]),
            freedom=min((each.freedom for each in solution.noise), default=np.inf),
            variance=variance,
            notes=[each.sentence for each in known] or list(found.notes),
            instead={name: words for each in known for name, words in each.remarks.items()},
        )

    def _pulls(self, solution: Solution) -> tuple[Array, Array]:
        """Influence function psi and its derivative, for each residual."""
        residuals, loss = self.problem.residual_nlp, self._loss
        assert loss is not None
        root = np.sqrt(residuals.samples.share)
        e = residuals.residuals(solution.free_vector) / root
        psi, bend = loss.slope(e) * root, loss.bend(e)
        psi[~self._timed] = 1.0  # what priors expect
        return psi, bend

    @property
    def _timed(self) -> NDArray[np.bool_]:
        """Mask of the residuals that belong to samples, not to priors."""
        return ~np.isnan(self.problem.residual_nlp.samples.time)

    def _sandwich(self, solution: Solution, columns: Array) -> Array:
        """A^-1 B A^-1 with A the curvature, of which the inverse has these columns, (n, k), and B
        the sum of psi^2 x x' (Huber, Ronchetti 2009, Robust Statistics, section 7.6)."""
        psi, _ = self._pulls(solution)
        slopes = self.problem.residual_nlp.residual_jacobian(solution.free_vector)
        pulls = psi[:, None] * (slopes @ columns)
        n = len(psi)
        more = n / (n - self.problem.free_directions) if n > self.problem.free_directions else 1.0
        factor = 2.0 * self.problem.symbolic.objective.least_squares
        return np.asarray(more * factor**2 * (pulls.T @ pulls))

    def kkt(self, solution: Solution, workspace: Workspace | None = None) -> Kkt:
        """The KKT matrix at a solution, of a fit with the bounds that hold it and no others."""
        kkt = self.interior(solution, workspace)
        if not kkt.fitted:
            return kkt
        z, bounds = (
            solution.free_vector,
            (self.problem.variable_bounds, self.problem.constraint_bounds),
        )
        return active(kkt, limits_at(self.problem.nlp, z, multipliers_of(solution), *bounds))

    def interior(self, solution: Solution, workspace: Workspace | None = None) -> Kkt:
        """KKT matrix in which all bounds are as stiff as their multipliers say. With process noise
        or random effects it is that of what is integrated out, with the parameters held: the
        problem that they minimise is no likelihood of parameters."""
        bounds = self.problem.variable_bounds
        if self.integrated:
            mine = self.problem.layout.parameter_offset + np.flatnonzero(
                ~self.problem.population.random
            )
            bounds = low, high = bounds[0].copy(), bounds[1].copy()
            low[mine] = high[mine] = solution.free_vector[mine]
        return kkt_at(
            self.problem.nlp,
            solution.free_vector,
            multipliers_of(solution),
            bounds,
            self.problem.constraint_bounds,
            [end.place for end in self.problem.ends.values() if not end.determined],
            bool(self.problem.symbolic.objective.least_squares),
            workspace,
        )


def _solved(solution: Solution) -> Solved:
    """A solution as IPOPT has returned it."""
    made = (solution.free_vector, multipliers_of(solution), solution.objective, solution.status)
    return Solved(*made, 0.0, "")


def _no_fit() -> Inference:
    raise ValueError(
        "measurements do not tell this solution: the objective has no LeastSquares, and there are "
        "no bands"
    )


def multipliers_of(solution: Solution) -> tuple[Array, Array, Array]:
    """Multipliers of a solution: of constraints, lower and upper bounds."""
    return solution.multipliers, solution.lower_multipliers, solution.upper_multipliers
