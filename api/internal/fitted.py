"""Collocation as estimation: standard deviations of measurements and of parameters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kinesym import checks
from kinesym.internal.bands import Held, Smoothed, slopes_library
from kinesym.internal.exchanged import known_of_solution
from kinesym.internal.inference import CollocationInference, MarginalInference
from kinesym.internal.sizes import scaling
from kinesym.internal.switch_times import without_inputs
from kinesym.internal.trajectories import found_trajectory
from kinesym.internal.viewed import Viewed
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.native import Workspace
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.nlp.samples import number_of_samples
from kinesym.runtime.nlp.sensor_delays import placed
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

_Same = TypeVar("_Same", bound="Fitted")


class Fitted(Viewed):
    """A nonlinear program whose objective may be the misfit of measurements."""

    def _trajectories(self, z: Array, hidden: NDArray[np.bool_]) -> list[Trajectory]:
        """All trials of z, with NaN for what is hidden."""
        functions = PointFunctions(self._built, self._known)
        given, shown = (self.symbolic, self.nlp, functions), np.where(hidden, np.nan, z)
        found = [
            found_trajectory(*given, trial, k, shown, self._parameters_of(z, k))
            for k, trial in enumerate(self.trials)
        ]
        found = [replace(run, before=self._before.table(k, run)) for k, run in enumerate(found)]
        return [without_inputs(run, self._switches.names) for run in found]

    def on_grid_of(self: _Same, solution: Solution) -> _Same:
        """This problem on the grid of a solution, such as one of `tolerance_grid`, without what was
        left out for it; itself if it is the same. Raises `ValueError` for a solution of another
        problem, and what is none."""
        checks.check_kind(solution, Solution, "kinesym")
        apart = [(i, family, k, room) for i, family, k, room in solution.problem.get("apart", ())]
        if apart != [*self._apart]:
            return self._without_those(apart).on_grid_of(solution)
        if self._fits(solution):
            delays = solution.problem.get("delays", [])
            same = not delays or delays == self._delays
            return self if same else self._on(placed(self.trials, delays))
        grids = [run.time for run in solution.trials]
        if self.layout.free_duration:
            grids = [(t - t[0]) / (t[-1] - t[0]) for t in grids]
        if len(grids) == len(self.trials):
            pairs = zip(self.trials, grids, strict=True)
            made = self._on([trial.on_grid(grid) for trial, grid in pairs])
            if made._fits(solution):
                return made.on_grid_of(solution)
        raise ValueError("this is a solution of another problem, or by another scheme")

    @property
    def _histories(self) -> list[str]:
        """Names of parameters that are what signals were before the start."""
        owned, known = self.layout.owned, self._before.unknown
        pairs = zip(owned.names, owned.members, strict=True)
        return [name for name, parameter in pairs if parameter in known]

    @property
    def _delays(self) -> list[dict[str, float]]:
        """Of each trial, at which unknown delays samples are placed; nothing if there are none."""
        names = self.symbolic.delays
        return [
            {name: own.delay for name, own in trial.timed.items() if name in names}
            for trial in (self.trials if names else ())
        ]

    def covariance(self, solution: Solution) -> Array:
        """Covariance of the identified parameters, (r, r), from the curvature at a solution.

        Meaningful if the objective is -2 log(likelihood), as the least squares of measurements with
        their `std`, given or estimated, is; see
        `kinesym.runtime.statistics.covariance.parameter_confidence`. With a loss that is no
        likelihood it is A^-1 B A^-1. Rows of parameters that the record does not determine are NaN,
        and a warning says which can be exchanged for which. Raises `ValueError` if the solution has
        not converged, determines none of them, or nothing tells a `std` that is not given.
        """
        problem, known = self._converged(solution, "covariance")
        if self._integrated:
            return solution.uncertainty[0].covariance
        found = problem._covariance(known, problem._kkt(known))
        words = "; ".join(found.notes)
        if words and np.isnan(found.covariance).all():
            raise ValueError(words)
        if words:
            warnings.warn(f"NaN in the covariance: {words}", stacklevel=2)
        return found.covariance

    def _converged(self: _Same, solution: Solution, what: str) -> tuple[_Same, Solution]:
        """This problem on the grid, and with the standard deviations, of a solution, and that with
        these; raises `ValueError` if it has not converged, or they are not known."""
        checks.check_kind(solution, Solution, "kinesym")
        if not solution.success:
            raise ValueError(f"no {what} without convergence: {solution.message}")
        problem = self.on_grid_of(solution)
        some = problem._population
        if some:
            h = some.from_natural(solution.parameters)
            problem = problem._with_priors(some.numbers(h))
        return problem._with_std_of(solution, what)

    def _ipopt(self, nlp: NLP) -> IpoptProblem:
        """The nonlinear program for IPOPT."""
        return IpoptProblem(
            nlp.callbacks,
            (nlp.jacobian_structure, nlp.hessian_structure),
            self.variable_bounds,
            self.constraint_bounds,
            self.layout.stages(),
            threads=nlp.threads,
        )

    def _asked_again(self, solution: Solution, about: Uncertainty | str) -> Solution:
        """The solution of a fit with what is known of its errors, or why nothing is, and the
        problem to ask more. The matrix is made again when it is asked for: a solution must not keep
        its factors in memory."""
        if not self.symbolic.objective.least_squares:
            return replace(solution, inference=_no_fit)
        found = _solved(solution)
        known = about if isinstance(about, Uncertainty) else nothing_known()

        def inference() -> Inference:
            course = self._smoothed(solution)
            if self._integrated:
                return MarginalInference(course, [*solution.uncertainty, known][0])
            return CollocationInference(
                course=course,
                problem=replace(self._ipopt(self.nlp), scaling=scaling(self, found.z)),
                trials=self.trials,
                best=found,
                about=known,
                on=partial(self._nlp, self._built),
                residuals=self._residuals,
                loss=self._loss,
                factor=self.symbolic.objective.least_squares,
                spread=partial(self._sandwich, solution) if self._robust else None,
            )

        if isinstance(about, str):  # of the largest likelihood it is known already
            more = [about] if about and not self._integrated else []
            return replace(solution, notes=[*solution.notes, *more], inference=inference)
        told = solution.uncertainty if self._integrated else [about]
        return replace(solution, uncertainty=told, inference=inference)

    def _smoothed(self, solution: Solution) -> Smoothed:
        """The trajectories of a solution, to be asked how far they are known."""
        layout, some, z, estimated = self.layout, self._population, solution.free_vector, None
        if self._integrated and solution.uncertainty:
            mine, h = np.flatnonzero(~some.random), some.entries(self._priors)
            slopes = np.append(layout.parameter_slopes(z)[mine], some.slopes(h))
            r, sides = len(slopes), np.zeros((len(h), len(z)))
            for side, (row, _) in zip(
                sides, some.pulls(h, layout.parameter_values(z)), strict=True
            ):
                layout.parameter_values(side)[:] = row
            covariance = solution.uncertainty[0].covariance[:r, :r] / np.outer(slopes, slopes)
            estimated = Held(layout.parameter_offset + mine, sides, covariance)
        return Smoothed(
            nlp=self.nlp,
            kkt=self._kkt(solution),
            z=z,
            runs=solution.trials,
            variance=self._wider(solution) if self._robust else self._variance(solution),
            freedom=min((each.freedom for each in solution.noise), default=np.inf),
            outputs=partial(slopes_library, self.symbolic),
            estimated=estimated,
        )

    def _wider(self, solution: Solution) -> float:
        """By which variances are larger than by the curvature with a loss that is no likelihood,
        for errors that are all alike (Huber, Ronchetti 2009, Robust Statistics, section 7.6)."""
        psi, bend = (each[self._timed] for each in self._pulls(solution))
        n = len(psi)
        left = n - self._directions if n > self._directions else n
        return float(self.symbolic.objective.least_squares * (psi @ psi) / left / bend.mean())

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
        plain = not (self.symbolic.objective.loss or self._mixed or self.symbolic.priors)
        return self._unknown_std and plain and pooled(self.trials)

    @property
    def _reweighs(self) -> bool:
        """Whether estimates depend on standard deviations that are unknown."""
        return self._unknown_std and not self._pooled and (self._integrated or not self._mixed)

    @property
    def _integrated(self) -> bool:
        """Whether the parameters are those of the largest marginal likelihood."""
        return self._noisy or bool(self._population)

    @property
    def _loss(self) -> RobustLoss | None:
        return RobustLoss.of(self.symbolic.objective.loss)

    @property
    def _directions(self) -> int:
        """In how many directions the free vector can move, at most."""
        low, high = self.constraint_bounds
        return max(self.n_variables - int((low == high).sum()), 0)

    def _with_std_of(self: _Same, solution: Solution, what: str) -> tuple[_Same, Solution]:
        """This problem with the standard deviations that a solution of it has found, and the
        solution of that. Raises `ValueError` if there are none."""
        if not self._unknown_std:
            return self, solution
        found = {each.group: each.std for each in solution.noise}
        if not found or np.isnan([*found.values()]).any():
            words = "; ".join(note for note in solution.notes if "give std" in note) or "give std"
            raise ValueError(f"no {what} without standard deviations: {words}")
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
        if taken.sum() > self._directions + 0.5:  # by rounding: that is no count
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
        if self._unknown_std and self._mixed and not self._integrated:
            return np.nan
        return factor if solution.noise else 1.0

    def _judged(self, solution: Solution) -> Solution:
        """The solution with sentences on standard deviations, given or not."""
        objective = self.symbolic.objective
        if not (solution.success and objective.least_squares):
            return solution
        notes = not_told(solution.noise, self.trials)
        if self._unknown_std and self._mixed and not self._integrated:
            names = listed(dict.fromkeys(groups_of(self.trials).values()))
            notes.append(GIVE_STD.format(names))
        if objective.loss is None and not self._mixed:
            rows = [run.residuals() for run in solution.trials]
            taken = partial(self._taken, solution)
            notes += contradictions(self.trials, rows, self._directions, taken)
        runs = with_noise(solution.trials, self.trials, solution.noise)
        return replace(
            solution,
            trials=runs,
            notes=[*solution.notes, *notes],
            likelihood=self._likelihood(solution, runs),
            merit=self._merit(solution, runs),
        )

    def _merit(self, solution: Solution, runs: Sequence[Trajectory]) -> float:
        """By what a solution is ranked among others of this problem, see `Trials`."""
        if self._integrated:
            return -2.0 * solution.likelihood[0].log_likelihood
        if not self._reweighs:
            return solution.objective
        objective = solution.objective / self.symbolic.objective.least_squares
        squares = self._prior_squares(solution.free_vector)
        return merit_of(runs, self.trials, objective, self._loss, squares)

    def _merit_at(self, z: Array) -> float:
        """The same of a free vector; infinite where that is not known."""
        with np.errstate(all="ignore"):
            if not self._reweighs:
                found = self.cost(z)
            else:
                runs = self._trajectories(z, np.zeros(len(z), dtype=bool))
                squares = self._prior_squares(z)
                found = merit_before(runs, self.trials, self._loss, squares)
        return found if np.isfinite(found) else np.inf

    @property
    def _size_of_samples(self) -> float:
        """The squares of all samples over their standard deviations, 1 where these are unknown."""
        pairs = ((y, t.divisors[name]) for t in self.trials for name, y in t.measured.items())
        return float(sum(np.nansum((y / std) ** 2) for y, std in pairs))

    def _prior_squares(self, z: Array) -> float:
        """The squares of priors, -2 log of their density but for a constant."""
        entries, members = self.layout.parameter_values(z), self.layout.owned.members
        squares = 0.0
        for p, y in zip(members, entries, strict=True):
            mean, sd = self._priors.get(p, (0.0, np.inf))
            squares += float((y - mean) / sd) ** 2
        return squares

    def _likelihood(self, solution: Solution, runs: Sequence[Trajectory]) -> Sequence[Likelihood]:
        """That of a fit, as far as it is known. In marginal ones what the matrix leaves free is
        integrated out: what is drawn, and what nothing was known of."""
        directions = solution.problem.get("directions")
        if directions is None or (self._mixed and not self._noisy):
            return []
        if self._integrated:
            drawn = int(self._population.random.sum())
            drawn += len(self._intensities) * sum(nodes - 1 for nodes in self.layout.nodes)
            return [replace(each, integrated=directions - drawn) for each in solution.likelihood]
        return likelihood_of(runs, self.trials, directions, self._loss, bool(self.symbolic.priors))

    def _taken(self, solution: Solution) -> dict[str, float]:
        """Degrees of freedom that unknowns take of each channel; none where it is not known."""
        residuals, factor = self._residuals, self.symbolic.objective.least_squares
        slopes = residuals.residual_jacobian(solution.free_vector)
        try:
            found = leverages(self._kkt(solution), slopes, factor, self._directions)
        except ValueError:
            return {}
        return residuals.samples.sums(found)

    @property
    def _robust(self) -> bool:
        """Whether the loss is no likelihood."""
        return self._loss is not None and not self._loss.likelihood

    def _covariance(self, solution: Solution, kkt: Kkt) -> Confidence:
        """How far a solution tells the parameters."""
        z, variance = solution.free_vector, self._variance(solution)
        clear = clear_confidence(self.nlp, kkt, z, variance)
        found = clear or parameter_confidence(self.nlp, kkt, z, multipliers_of(solution))
        covariance = variance * found.covariance
        if self._robust:
            r = len(self.layout.parameters)
            unit = np.zeros((self.n_variables, r))
            unit[self.layout.parameter_offset + np.arange(r), np.arange(r)] = 1.0
            columns = solver(kkt).solve(unit, np.zeros((self.n_constraints, r)))
            columns *= self.layout.parameter_slopes(z)
            shape = np.where(np.isnan(found.covariance), np.nan, 1.0)
            shape[found.held] = shape[:, found.held] = 0.0
            covariance = shape * self._sandwich(solution, columns)
        return replace(found, covariance=covariance)

    def _uncertainty(self, solution: Solution, kkt: Kkt) -> Uncertainty | str:
        """What a solution of a fit tells of the errors of its parameters; where standard deviations
        are not known a sentence on what it does not determine, "" if that is nothing, or on why it
        is no minimum."""
        names = self.layout.parameters
        variance = self._variance(solution)
        if not (self.symbolic.objective.least_squares and names):
            return ""
        try:
            if np.isnan(variance):
                given = (solution.free_vector, multipliers_of(solution))
                return "; ".join(parameter_confidence(self.nlp, kkt, *given).notes)
            found = self._covariance(solution, kkt)
        except ValueError as error:
            return f"{NO_ERRORS}: {error}"
        runs = with_noise(solution.trials, self.trials, solution.noise)
        made = (self.layout, self._ipopt(self.nlp), _solved(solution), runs)
        known = known_of_solution(*made, found.directions, variance)
        return Uncertainty(
            names=names,
            covariance=found.covariance,
            held=[name for name, held in zip(names, found.held, strict=True) if held],
            logarithmic=list(np.array(names)[self.layout.owned.log]),
            freedom=min((each.freedom for each in solution.noise), default=np.inf),
            variance=variance,
            notes=[each.sentence for each in known] or list(found.notes),
            instead={name: words for each in known for name, words in each.remarks.items()},
        )

    def _pulls(self, solution: Solution) -> tuple[Array, Array]:
        """psi and psi' of each residual."""
        residuals, loss = self._residuals, self._loss
        assert loss is not None
        root = np.sqrt(residuals.samples.share)
        e = residuals.residuals(solution.free_vector) / root
        psi, bend = loss.slope(e) * root, loss.bend(e)
        psi[~self._timed] = 1.0  # what priors expect
        return psi, bend

    @property
    def _timed(self) -> NDArray[np.bool_]:
        """Which residuals are of samples, not of priors."""
        return ~np.isnan(self._residuals.samples.time)

    def _sandwich(self, solution: Solution, columns: Array) -> Array:
        """A^-1 B A^-1 with A the curvature, of which the inverse has these columns, (n, k), and B
        the sum of psi^2 x x' (Huber, Ronchetti 2009, Robust Statistics, section 7.6)."""
        psi, _ = self._pulls(solution)
        slopes = self._residuals.residual_jacobian(solution.free_vector)
        pulls = psi[:, None] * (slopes @ columns)
        n = len(psi)
        more = n / (n - self._directions) if n > self._directions else 1.0
        factor = 2.0 * self.symbolic.objective.least_squares
        return np.asarray(more * factor**2 * (pulls.T @ pulls))

    def _kkt(self, solution: Solution, workspace: Workspace | None = None) -> Kkt:
        """The KKT matrix at a solution, of a fit with the bounds that hold it and no others."""
        kkt = self._interior(solution, workspace)
        if not kkt.fitted:
            return kkt
        z, bounds = solution.free_vector, (self.variable_bounds, self.constraint_bounds)
        return active(kkt, limits_at(self.nlp, z, multipliers_of(solution), *bounds))

    def _interior(self, solution: Solution, workspace: Workspace | None = None) -> Kkt:
        """The same with all bounds as stiff as their multipliers say; with process noise or random
        effects that of what is integrated out, with the parameters held: what they minimise is no
        likelihood of parameters."""
        bounds = self.variable_bounds
        if self._integrated:
            mine = self.layout.parameter_offset + np.flatnonzero(~self._population.random)
            bounds = low, high = bounds[0].copy(), bounds[1].copy()
            low[mine] = high[mine] = solution.free_vector[mine]
        return kkt_at(
            self.nlp,
            solution.free_vector,
            multipliers_of(solution),
            bounds,
            self.constraint_bounds,
            [end.place for end in self._ends.values() if not end.determined],
            bool(self.symbolic.objective.least_squares),
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
    """Those of constraints, lower and upper bounds."""
    return solution.multipliers, solution.lower_multipliers, solution.upper_multipliers
