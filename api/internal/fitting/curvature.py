"""Curvature of a problem at its solution: the KKT matrix, leverages of residuals, covariances of
parameters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from kinesym.base import checks
from kinesym.internal.fitting.bands import HeldParameters, Smoothed
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.identifiable_combinations import known_of_solution
from kinesym.internal.fitting.kinks import on_its_sides
from kinesym.internal.fitting.solution_grid import on_grid_of
from kinesym.internal.fitting.structural_identifiability import known_exactly
from kinesym.internal.problems.pipeline import slopes_library
from kinesym.internal.problems.random_effects import numbers_of
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation, Residuals
from kinesym.runtime.estimation.noise import with_noise
from kinesym.runtime.estimation.priors import Priors, priors_by_name
from kinesym.runtime.ipopt.driver import Solved
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.samples import number_of_samples
from kinesym.runtime.results.estimates import Noise, Uncertainty
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.statistics.active import active, pressing
from kinesym.runtime.statistics.block_arrow import (
    BlockArrow,
    Reduced,
    block_arrow,
    reduced,
    spreads_of,
)
from kinesym.runtime.statistics.covariance import (
    Confidence,
    blur_of_gradient,
    clear_confidence,
    is_unclear,
    kkt_at,
    limits_at,
    parameter_confidence,
    slackened,
)
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.runtime.statistics.leverage import free_directions, leverages
from kinesym.runtime.statistics.robust import spread_by_loss
from kinesym.runtime.statistics.undetermined import Spreads, solver

#: Multipliers of constraints, lower and upper bounds.
Multipliers = tuple[Array, Array, Array]


def kkt_of(problem: Discretisation, solution: Solution, workspace: Workspace | None = None) -> Kkt:
    """KKT matrix of a problem at its solution, of a fit with the bounds that hold it and no
    others; with absolute values in the objective that which is expected. workspace : factors that
    its solver has left."""
    kinked = problem.estimation.kinked
    kkt = interior(problem, solution, workspace, problem.gauss_newton if kinked else None)
    if not (kkt.fitted and pressing(kkt).any()):
        return kkt
    given = (solution.free_vector, multipliers_of(solution), problem.variable_bounds)
    return active(kkt, limits_at(problem.nlp, *given, problem.constraint_bounds))


def interior(
    problem: Discretisation,
    solution: Solution,
    workspace: Workspace | None = None,
    nlp: NLP | None = None,
) -> Kkt:
    """KKT matrix with all bounds as stiff as their multipliers say; with process noise or random
    effects that of what is integrated out, with the parameters held: what they minimise is no
    likelihood of parameters. nlp : whose Hessian it has, by default the exact one."""
    bounds, z = problem.variable_bounds, solution.free_vector
    if problem.estimation.integrated:
        mine = problem.layout.parameter_offset + np.flatnonzero(~problem.population.random)
        bounds = low, high = bounds[0].copy(), bounds[1].copy()
        low[mine] = high[mine] = z[mine]
    return kkt_at(
        nlp or problem.nlp,
        z,
        multipliers_of(solution),
        bounds,
        problem.constraint_bounds,
        [end.place for end in problem.ends.values() if not end.determined],
        bool(problem.symbolic.objective.least_squares),
        workspace,
    )


def converged(
    problem: Discretisation, solution: Solution, what: str
) -> tuple[Discretisation, Solution]:
    """Problem on the grid of a solution, with the distributions and standard deviations that it
    has found, and the solution of that. what : is asked of it; raises `ValueError` if the solution
    has not converged, or standard deviations are not known."""
    checks.check_kind(solution, Solution, "kinesym")
    if not solution.success:
        raise ValueError(f"no {what} without convergence: {solution.message}")
    problem = on_grid_of(problem, solution)
    if some := problem.population:
        problem = problem.with_priors(some.numbers(some.from_natural(solution.parameters)))
    estimation = problem.estimation
    if not estimation.unknown:
        return problem, solution
    found = {each.group: each.std for each in solution.noise}
    if not found or np.isnan([*found.values()]).any():
        words = "; ".join(estimation.lost(solution.noise)) or "give std"
        raise ValueError(f"no {what} without standard deviations: {words}")
    if estimation.pooled:
        solution = _weighed(solution, solution.noise[0].std ** -2.0)
    return problem.with_std(found), solution


def covariance(problem: Discretisation, solution: Solution) -> Array:
    """Covariance of the identified parameters, (r, r); see `Collocation.covariance`."""
    problem, known = converged(problem, solution, "covariance")
    if problem.estimation.integrated:
        return solution.uncertainty[0].covariance
    found = Curvature.at(problem, known).confidence()
    words = "; ".join(found.notes)
    if words and np.isnan(found.covariance).all():
        raise ValueError(words)
    if words:
        warnings.warn(f"NaN in the covariance: {words}", stacklevel=3)
    return found.covariance


@dataclass(frozen=True, eq=False)
class Curvature:
    """Curvature of a problem at its solution, by its KKT matrix; or of one whose minimum is a step
    away, as `gone` pulled there, see `blur_of_gradient`."""

    problem: Discretisation
    solution: Solution
    kkt: Kkt
    gone: Array | float = 0.0

    @staticmethod
    def at(
        problem: Discretisation, solution: Solution, workspace: Workspace | None = None
    ) -> Curvature:
        """Curvature with a matrix that is made; workspace : see `kkt_of`."""
        problem, solution = on_its_sides(problem, solution)
        return Curvature(problem, solution, kkt_of(problem, solution, workspace))

    @property
    def estimation(self) -> Estimation:
        """Estimation by the problem."""
        return self.problem.estimation

    @property
    def z(self) -> Array:
        """The free vector."""
        return self.solution.free_vector

    # -- residuals ---------------------------------------------------------------------------

    @property
    def directions(self) -> int | None:
        """Number of directions in which a fit can move; None where it is not known."""
        return free_directions(self.kkt) if self.estimation.factor else None

    def residuals(self) -> Residuals:
        """Residuals with their leverages, NaN where these are not known."""
        nlp, most = self.problem.residual_nlp, self.problem.free_directions
        e = nlp.residuals(self.z)
        try:
            slopes = nlp.residual_jacobian(self.z)
            taken = leverages(self.kkt, slopes, self.estimation.factor, most)
        except ValueError:
            taken = np.full(len(e), np.nan)
        if taken.sum() > most + 0.5:  # by rounding: that is no count
            taken = np.full(len(e), np.nan)
        return Residuals(e, nlp.samples, taken)

    def noise(self) -> list[Noise]:
        """Standard deviations of a solution that has them, or the one that all measurements
        share."""
        estimation, problem = self.estimation, self.problem
        if not estimation.pooled:
            return list(self.solution.noise)
        if self.directions is None:
            return estimation.noise(self.residuals(), {})
        samples = number_of_samples(problem.about, problem.trials)
        return estimation.pooled_noise(self.solution.objective, samples, self.directions)

    # -- losses that are no likelihood --------------------------------------------------------

    @property
    def robust(self) -> bool:
        """Whether the loss is no likelihood."""
        return self.estimation.loss is not None and not self.estimation.loss.likelihood

    def _pulls(self) -> tuple[Array, Array, NDArray[np.bool_]]:
        """psi and psi' of each residual, and which are of samples, not of priors."""
        nlp, loss = self.problem.residual_nlp, self.estimation.loss
        assert loss is not None
        root, timed = np.sqrt(nlp.samples.share), ~np.isnan(nlp.samples.time)
        e = nlp.residuals(self.z) / root
        psi, bend = loss.slope(e) * root, loss.bend(e)
        psi[~timed] = 1.0  # what priors expect
        return psi, bend, timed

    def spread(self, columns: Array) -> Array:
        """The covariance (k, k) of what columns (n, k) of the inverse of the matrix belong to."""
        psi, _, _ = self._pulls()
        slopes = self.problem.residual_nlp.residual_jacobian(self.z)
        pulls = psi[:, None] * (slopes @ columns)
        factor = 2.0 * self.estimation.factor
        return factor**2 * spread_by_loss(pulls, self.problem.free_directions)

    def wider(self) -> float:
        """Factor of variances over those by the curvature, with a loss that is no likelihood and
        errors that are all alike (Huber, Ronchetti 2009, Robust Statistics, section 7.6)."""
        psi, bend, timed = self._pulls()
        psi, bend, most = psi[timed], bend[timed], self.problem.free_directions
        left = len(psi) - most if len(psi) > most else len(psi)
        return float(self.estimation.factor * (psi @ psi) / left / bend.mean())

    # -- the parameters ----------------------------------------------------------------------

    @property
    def _places(self) -> NDArray[np.intp]:
        """Places of the parameters in z, (r,)."""
        layout = self.problem.layout
        return layout.parameter_offset + np.arange(len(layout.parameters))

    @cached_property
    def _blur(self) -> Array:
        """See `blur_of_gradient`; none is known where the objective has kinks."""
        if self.estimation.kinked:
            return np.zeros(self.problem.n_variables)
        multipliers = multipliers_of(self.solution)
        return blur_of_gradient(self.problem.nlp, self.kkt, self.z, multipliers, self.gone)

    @cached_property
    def spreads(self) -> Spreads:
        """Spreads of the parameters."""
        made = None if self._trials is None else self.reduced
        return spreads_of(self.kkt, self._places, self._blur, made)

    @cached_property
    def unclear(self) -> bool:
        """Whether parameters need tests, see `is_unclear`."""
        variance = self.estimation.variance(self.solution.noise)
        return is_unclear(self.problem.nlp, self.kkt, self.z, variance)

    def inverse(self) -> Array:
        """Entries of the parameters in the inverse of the matrix, (r, r)."""
        return self.spreads.inverse if self.unclear else solver(self.kkt).inverse(self._places)

    @cached_property
    def reduced(self) -> Reduced | None:
        """Reduced Hessian of the parameters, see there."""
        return reduced(self.kkt, self._places, self._blur, self._trials)

    @cached_property
    def _trials(self) -> BlockArrow | None:
        """See `block_arrow`."""
        return block_arrow(self.problem.layout)

    @cached_property
    def slackened(self) -> Curvature:
        """Curvature of a fit in which parameters at active bounds have the spread that samples
        leave them, see `slackened`; itself without any."""
        places, problem, kkt = self._places, self.problem, self.kkt
        low, high = (each[places] for each in problem.variable_bounds)
        held = places[np.isinf(kkt.stiffness[places]) & (low < high)]
        variance = self.estimation.variance(self.solution.noise)
        known = kkt.fitted and not self.estimation.integrated and variance > 0.0
        if not len(held) or not known or kkt.singular:
            return self
        _, lower, upper = multipliers_of(self.solution)
        about = (problem.variable_bounds, lower - upper, variance)
        return replace(self, kkt=slackened(kkt, held, *about))

    def holding(self, fixed: NDArray[np.bool_]) -> Curvature:
        """Curvature with some of the parameters fixed, (r,)."""
        stiffness = self.kkt.stiffness.copy()
        stiffness[self._places[fixed]] = np.inf
        return replace(self, kkt=replace(self.kkt, stiffness=stiffness))

    def confidence(self) -> Confidence:
        """Confidence of the parameters, zero variance for those at an active bound; raises
        `ValueError` if the curvature is not positive."""
        held = np.isinf(self.kkt.stiffness[self._places])
        found = self.slackened._confidence()
        if not held.any():
            return found
        covariance = found.covariance.copy()
        covariance[held] = covariance[:, held] = 0.0
        return replace(found, held=found.held | held, covariance=covariance)

    def _confidence(self) -> Confidence:
        problem, variance = self.problem, self.estimation.variance(self.solution.noise)
        about = (problem.nlp, self.kkt, self.z, variance)
        found = (None if self.unclear else clear_confidence(*about)) or self._plain()
        covariance = variance * found.covariance
        if self.robust:
            r = len(problem.layout.parameters)
            unit = np.zeros((problem.n_variables, r))
            unit[problem.layout.parameter_offset + np.arange(r), np.arange(r)] = 1.0
            columns = solver(self.kkt).solve(unit, np.zeros((problem.n_constraints, r)))
            columns *= problem.layout.parameter_slopes(self.z)
            shape = np.where(np.isnan(found.covariance), np.nan, 1.0)
            shape[found.held] = shape[:, found.held] = 0.0
            covariance = shape * self.spread(columns)
        return replace(found, covariance=covariance)

    def _plain(self) -> Confidence:
        return parameter_confidence(self.problem.nlp, self.kkt, self.z, self.spreads)

    def undetermined(self) -> Sequence[str]:
        """Sentences on parameters that the record does not tell apart, whatever its standard
        deviations; raises as `confidence`."""
        return self._plain().notes

    def uncertainty(self) -> Uncertainty:
        """Uncertainty of the parameters of a fit; raises as `confidence`."""
        problem, solution, layout = self.problem, self.solution, self.problem.layout
        sure, variance = self.confidence(), self.estimation.variance(solution.noise)
        runs = with_noise(solution.trials, problem.trials, solution.noise)
        made = (layout, problem.ipopt(problem.nlp), solved_of(solution), runs)
        known = known_exactly(problem, known_of_solution(*made, sure.directions, variance))
        names = layout.parameters
        logarithmic = list(np.array(names)[layout.owned.log])
        return self.estimation.uncertainty(names, logarithmic, sure, solution.noise, known)

    # -- asked more --------------------------------------------------------------------------

    def smoothed(self) -> Smoothed:
        """The trajectories of a solution, to be asked how far they are known."""
        problem, solution, estimated = self.problem, self.solution, None
        layout, some, z = problem.layout, problem.population, self.z
        if self.estimation.integrated and solution.uncertainty:
            mine, h = np.flatnonzero(~some.random), some.entries(numbers_of(problem.priors))
            slopes = np.append(layout.parameter_slopes(z)[mine], some.slopes(h))
            r, sides = len(slopes), np.zeros((len(h), len(z)))
            pulls = some.pulls(h, layout.parameter_values(z))
            for side, (row, _) in zip(sides, pulls, strict=True):
                layout.parameter_values(side)[:] = row
            covariance = solution.uncertainty[0].covariance[:r, :r] / np.outer(slopes, slopes)
            estimated = HeldParameters(layout.parameter_offset + mine, sides, covariance)
        return Smoothed(
            nlp=problem.nlp,
            kkt=self.kkt,
            z=z,
            runs=solution.trials,
            variance=self.wider() if self.robust else self.estimation.variance(solution.noise),
            freedom=min((each.freedom for each in solution.noise), default=np.inf),
            outputs=partial(slopes_library, problem.symbolic),
            estimated=estimated,
        )


def prior_squares(problem: Discretisation, z: Array) -> float:
    """Terms of priors at z, -2 log of their density but for a constant; those of random effects
    whose distribution is estimated are part of the likelihood."""
    layout = problem.layout
    return own_priors(problem).cost(layout.owned.natural(layout.parameter_values(z)))


def own_priors(problem: Discretisation) -> Priors:
    """Priors but those of random effects whose distribution is estimated."""
    drawn = {effect.name for effect in problem.population.effects}
    own = {name: p for name, p in problem.priors.items() if name not in drawn}
    return priors_by_name(problem.layout.owned.members, own, 1.0)


def merit_at(problem: Discretisation, z: Array) -> float:
    """Number by which the motion of a free vector is ranked among solutions, see `Trials`; infinite
    where that is not known."""
    estimation = problem.estimation
    with np.errstate(all="ignore"):
        J = np.nan if estimation.reweighs else problem.cost(z)
        runs = partial(problem.trajectories, z)
        found = estimation.merit_before(runs, J, prior_squares(problem, z))
    return found if np.isfinite(found) else np.inf


def solved_of(solution: Solution) -> Solved:
    """A solution as IPOPT has returned it."""
    made = (solution.free_vector, multipliers_of(solution), solution.objective, solution.status)
    return Solved(*made, 0.0, "")


def multipliers_of(solution: Solution) -> Multipliers:
    """Multipliers of constraints, lower and upper bounds."""
    return solution.multipliers, solution.lower_multipliers, solution.upper_multipliers


def _weighed(solution: Solution, weight: float) -> Solution:
    """The solution of the objective times a weight."""
    multipliers, lower, upper = (weight * each for each in multipliers_of(solution))
    return replace(
        solution,
        objective=weight * solution.objective,
        multipliers=multipliers,
        lower_multipliers=lower,
        upper_multipliers=upper,
    )
