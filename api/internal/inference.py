"""What more can be asked of a fit by collocation: profiles, estimates from other measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kinesym.internal.combination import combination
from kinesym.runtime.arrays import Array
from kinesym.runtime.ipopt.driver import Bounds, IpoptProblem, Solved, Start
from kinesym.runtime.ipopt.solve import SolverOptions, solve
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.delays import settled
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.inference import Influences
from kinesym.runtime.results.profile import Profile, profiled
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.kkt import Kkt, KktFactors
from kinesym.runtime.statistics.leverage import followed, free_directions
from kinesym.runtime.statistics.profile import Held
from kinesym.runtime.statistics.undetermined import Projected, solver

#: Iterations after which a neighbouring problem counts as not solved.
_ITERATIONS = 200


@dataclass(frozen=True, eq=False)
class CollocationInference:
    """A nonlinear program at its solution, asked again.

    problem : of IPOPT, of these trials. best : its solution. on : makes the nonlinear program of
    other trials. residuals : of a library with their kernels. runs : trajectories of the solution.
    loss, factor : of the least squares.
    """

    nlp: NLP
    problem: IpoptProblem
    trials: Sequence[Experiment]
    best: Solved
    kkt: Kkt
    about: Uncertainty
    on: Callable[[Sequence[Experiment]], NLP]
    residuals: NLP
    runs: Sequence[Trajectory]
    loss: RobustLoss | None
    factor: float

    def influences(self) -> Influences:
        """See `Inference`."""
        z, r = self.best.z, len(self.nlp.layout.parameters)
        unit = np.zeros((self.nlp.n_variables, r))
        known = np.flatnonzero(~np.isnan(np.diag(self.about.covariance)))
        unit[self.nlp.layout.parameter_offset + known, known] = 1.0
        columns = self._factors.solve(unit, np.zeros((self.nlp.n_constraints, r)))
        samples, e = self.residuals.samples, self.residuals.residuals(z)
        root = np.sqrt(samples.share)
        slope = e if self.loss is None else self.loss.slope(e / root) * root
        columns *= self.nlp.layout.parameter_slopes(z)
        jacobian, directions = self.residuals.residual_jacobian(z), free_directions(self.kkt)
        pulls, taken, basis = 2.0 * self.factor * (jacobian @ columns), float(r), None
        if directions is not None:
            taken = float(directions)
            basis = followed(self.kkt, jacobian, self.factor, directions)
        series, priors = samples.influences(slope, pulls, basis), pulls[np.isnan(samples.time)]
        return Influences(series, float(samples.counts.sum()), taken, priors.T @ priors)

    def profile(self, name: str, level: float) -> Profile:
        """The profile likelihood of a parameter. The parameter is fixed by its bounds, so that
        library and analysis of the matrices serve all solves; the first guess of each follows from
        a column of the inverse of the KKT matrix."""
        layout = self.nlp.layout
        place = layout.parameter_offset + layout.parameters.index(name)
        unit = np.zeros((self.nlp.n_variables, 1))
        unit[place] = 1.0
        way = self._factors.solve(unit, np.zeros((self.nlp.n_constraints, 1)))[:, 0]
        ahead = way / way[place]

        def held(value: float, near: Held) -> Held:
            z, multipliers = near.state
            guess = z + (value - near.value) * ahead
            nlp, found = self._solved(self.trials, guess, multipliers, place, value)
            if not found.status.success:
                return Held(value, np.inf, np.nan)
            slope = self._slope(nlp, found, place)
            return Held(value, found.objective, slope, (found.z, found.multipliers))

        z = self.best.z
        start = Held(float(z[place]), self.best.objective, 0.0, (z, self.best.multipliers))
        low, high = self.problem.bounds
        bounds, log = (low[place], high[place]), name in self.about.logarithmic
        return profiled(name, start, self.about, bounds, held, level, log)

    def combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """See `Inference`."""
        layout, run = self.nlp.layout, self.runs[trial]
        found = combination(expression, run)
        slopes = np.zeros((self.nlp.n_variables, 1))
        for name, slope in found.parameters.items():
            if name in layout.owned.parameters:
                own = layout.owned.places(trial)[layout.owned.parameters.index(name)]
                slopes[layout.parameter_offset + own] = (
                    slope * layout.parameter_slopes(self.best.z)[own]
                )
        for k, side in ((0, found.starts), (-1, found.ends)):
            for name, slope in side.items():
                if name not in layout.at_nodes:
                    raise ValueError(f"{name} has no value at nodes; take a state with a rate")
                N, place = layout.nodes[trial], layout.at_nodes.index(name)
                slopes[layout.offsets[trial] + place * N + k % N] += slope
        try:
            spread = self._factors.solve(slopes, np.zeros((self.nlp.n_constraints, 1)))[:, 0]
        except ValueError:  # nothing determines it
            return found.value, np.nan
        variance = 2.0 * self.about.variance * float(slopes[:, 0] @ spread)
        return found.value, float(np.sqrt(variance)) if variance >= 0.0 else np.nan

    def refit(self, record: Record) -> Array | None:
        """Estimates from other measurements, from the solution; None without convergence."""
        trials = [
            trial.remeasured({name: y for (j, name), y in record.items() if j == k})
            for k, trial in enumerate(self.trials)
        ]
        _, found = self._solved(trials, self.best.z, self.best.multipliers)
        if not found.status.success:
            return None
        return self.nlp.layout.parameter_values(self.nlp.layout.natural(found.z)).copy()

    @cached_property
    def _factors(self) -> KktFactors | Projected:
        return solver(self.kkt)

    def _solved(
        self,
        trials: Sequence[Experiment],
        z: Array,
        multipliers: tuple[Array, Array, Array],
        place: int | None = None,
        value: float = 0.0,
    ) -> tuple[NLP, Solved]:
        """The minimum near z, with the variable at a place held at a value if one is given, and
        what it is the minimum of."""
        low, high = (bound.copy() for bound in self.problem.bounds)
        if place is not None:
            low[place] = high[place] = value
        # tolerances are those of -2 log L, whatever the unit of the samples; Newton's steps pass
        # the acceptable ones but where rounding of large states keeps them there
        size = self.about.variance
        options = {"obj_scaling_factor": 1.0 / size, "dual_inf_tol": size, "acceptable_iter": 2}
        options |= {"compl_inf_tol": 1e-4 * size, "acceptable_compl_inf_tol": 1e-2 * size}
        chosen = SolverOptions({"max_iter": _ITERATIONS, **options})

        def solved(
            trials: Sequence[Experiment], start: Start, bounds: Bounds
        ) -> tuple[NLP, Solved]:
            nlp = self.nlp if trials is self.trials else self.on(trials)
            problem = replace(self.problem, callbacks=nlp.plans, bounds=bounds)
            return nlp, solve(problem, start, chosen, lambda step: None)

        start = Start(np.clip(z, low, high), multipliers)
        about, layout = self.nlp.about, self.nlp.layout
        return settled(about, layout, trials, start, (low, high), solved)[-1]

    def _slope(self, nlp: NLP, found: Solved, place: int) -> float:
        """d J / d z at a place, all else following: the derivative of the Lagrangian."""
        rows, columns = nlp.jacobian_structure.arrays()
        here = columns == place
        pulls = nlp.jacobian(found.z)[here] @ found.multipliers[0][rows[here]]
        return float(nlp.gradient(found.z)[place] + pulls)
