"""Inference after a fit by collocation: bands, profiles, estimates from other measurements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from kinesym.internal.fitting.absolute_values import solved_as
from kinesym.internal.fitting.case_deletion import lacking
from kinesym.internal.fitting.combination import combination
from kinesym.internal.fitting.curvature import Curvature, multipliers_of, solved_of
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.implicit_trajectories import ImplicitTrajectories, as_asked
from kinesym.internal.fitting.scaling import scaling
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.density import log_density
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start
from kinesym.runtime.ipopt.scaling import Bounds
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.sensor_delays import settled
from kinesym.runtime.results.bands import Bands
from kinesym.runtime.results.bootstrap import Record, remeasured
from kinesym.runtime.results.estimates import Uncertainty, nothing_known
from kinesym.runtime.results.inference import Inference, Left, Pulls
from kinesym.runtime.results.log_density import LogDensity
from kinesym.runtime.results.profile import HeldQuantity, Profile, profiled
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.bends import Bends
from kinesym.runtime.statistics.kkt import KktFactors
from kinesym.runtime.statistics.leverage import Hat
from kinesym.runtime.statistics.profile import ProfilePoint, Quantity, Spring
from kinesym.runtime.statistics.spring import Pulled, pulled_hessian
from kinesym.runtime.statistics.undetermined import Projected, solver

#: Iterations after which a neighbouring problem counts as not solved.
_ITERATIONS = 200


@dataclass(frozen=True, eq=False)
class CollocationInference:
    """A nonlinear program at its solution, asked again. about : the errors of its parameters."""

    here: Curvature
    about: Uncertainty

    @cached_property
    def whole(self) -> Discretisation:
        """Problem in which parameters pass the kinks of their priors."""
        return self.here.problem.on_sides(None)

    @property
    def nlp(self) -> NLP:
        """The nonlinear program."""
        return self.whole.nlp

    @cached_property
    def best(self) -> Solved:
        """The solution, as IPOPT has returned it."""
        return solved_of(self.here.solution)

    @cached_property
    def problem(self) -> IpoptProblem:
        """The nonlinear program for IPOPT."""
        problem = self.whole
        return replace(problem.ipopt(problem.nlp), scaling=scaling(problem, self.best.z))

    def bands(self, names: Collection[str] | None = None) -> Bands:
        """See `Inference`."""
        return self.here.smoothed().bands(names)

    def pulls(self) -> Pulls:
        """See `Inference`; raises `ValueError` for a loss with a kink."""
        self.here.estimation.check_slopes()
        z, r = self.best.z, len(self.nlp.layout.parameters)
        unit = np.zeros((self.nlp.n_variables, r))
        known = np.flatnonzero(~np.isnan(np.diag(self.about.covariance)))
        unit[self.nlp.layout.parameter_offset + known, known] = 1.0
        columns = self._factors.solve(unit, np.zeros((self.nlp.n_constraints, r)))
        residuals, estimation = self.here.problem.residual_nlp, self.here.estimation
        samples, e, loss = residuals.samples, residuals.residuals(z), estimation.loss
        columns *= self.nlp.layout.parameter_slopes(z)
        jacobian, directions = residuals.residual_jacobian(z), self.here.directions
        pulls = 2.0 * estimation.factor * (jacobian @ columns)
        hat = Hat(self.here.kkt, jacobian, estimation.factor, directions)
        taken = float(r if directions is None else directions)
        priors = pulls[np.isnan(samples.time)]
        if self.nlp.layout.free_duration:  # times are shares of it
            samples = replace(
                samples, time=samples.time * self.nlp.layout.durations(z)[samples.trial]
            )
        variance = self.about.variance / estimation.factor
        freedom = self.about.freedom if estimation.pooled else np.inf
        limits = {name for trial in estimation.trials for name in trial.limits}
        about = (pulls, hat.entries, hat.followed, taken, priors, variance, freedom, loss, limits)
        return Pulls(samples, e, Bends.of(samples, e, loss), *about)

    def without(self, record: Record, solve: bool) -> Left:
        """See `Inference`."""
        if not solve:
            self.here.estimation.check_steps()
        some = lacking(self.here, record)
        step = some.step()
        J, moved = some.here.solution.objective - 0.5 * float(some.pull @ step), some.here.z + step
        here = some.here
        if solve:
            multipliers = multipliers_of(some.start)
            _, found = replace(self, here=here)._solved(here.problem.trials, moved, multipliers)
            if not found.status.success:
                raise ValueError("the fit without them does not converge")
            here, J, moved = some.at(found), found.objective, found.z
        more = np.zeros_like(moved) if solve else some.more(moved)
        return some.estimates(here, J, moved, more)

    def profile(self, wanted: Any, level: float, trial: int = 0) -> Profile:
        """See `Inference`."""
        return profiled(str(wanted), self.held(wanted, trial), self.about, level)

    def held(self, wanted: Any, trial: int = 0) -> HeldQuantity:
        """See `Inference`. A spring holds it, so that library and analysis of the matrices serve
        all solves; the first guess of each follows from a column of the inverse of the KKT
        matrix."""
        layout, log, limits = self.nlp.layout, False, (-np.inf, np.inf)
        if isinstance(wanted, str):
            row = layout.parameters.index(wanted)
            quantity, log = self._parameter(row), wanted in self.about.logarithmic
            error = float(self.about.deviations()[list(self.about.names).index(wanted)])
            low, high = self.problem.bounds
            place = layout.parameter_offset + row
            limits = (float(low[place]), float(high[place]))
        else:
            quantity, error = self._quantity(wanted, trial), self.combination(wanted, trial)[1]
        z, places = self.best.z, quantity.places
        value, slopes, _ = quantity.at(z[places])
        way = self._toward(quantity, slopes)
        ahead = way / (slopes @ way[places])

        def at(z: Array) -> float:
            return quantity.at(z[places])[0]

        def solved(
            guess: Array, near: ProfilePoint, spring: Spring
        ) -> tuple[Array, float, Any] | None:
            nlp, found = self._solved(
                self.here.problem.trials, guess, near.multipliers, (quantity, spring)
            )
            good = found.status.success
            return (found.z, nlp.cost(found.z), found.multipliers) if good else None

        best = ProfilePoint(value, self.best.objective, 0.0, z, self.best.multipliers)
        about = (best, error, limits, self.problem.bounds, ahead, at, solved, log)
        return HeldQuantity(*about, scaled=bool(self.here.estimation.taken))

    def combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """See `Inference`."""
        quantity = self._quantity(expression, trial)
        value, slopes, _ = quantity.at(self.best.z[quantity.places])
        names, begin = self.nlp.layout.parameters, self.nlp.layout.parameter_offset
        held = begin + np.flatnonzero(np.isin(names, list(self.about.held)))
        slopes = np.where(np.isin(quantity.places, held), 0.0, slopes)
        if not slopes.any():
            return value, 0.0
        try:
            way = self._toward(quantity, slopes)
        except ValueError:  # nothing determines it
            return value, np.nan
        if self.here.robust:
            variance = float(self.here.spread(way[:, None])[0, 0])
        else:
            variance = 2.0 * self.about.variance * float(slopes @ way[quantity.places])
        return value, float(np.sqrt(variance)) if variance >= 0.0 else np.nan

    def refit(self, record: Record) -> Array | None:
        """Estimates from other measurements, from the solution; None without convergence."""
        trials = remeasured(self.here.problem.trials, record)
        _, found = self._solved(trials, self.best.z, self.best.multipliers)
        if not found.status.success:
            return None
        return self.nlp.layout.parameter_values(self.nlp.layout.natural(found.z)).copy()

    def log_density(self, std: Mapping[str, float]) -> LogDensity:
        """See `Inference`; trajectories follow from parameters and starts by the equations."""
        problem = self.whole
        return log_density(
            as_asked(problem), ImplicitTrajectories.of(problem, self.best.z).misfit(), std
        )

    @cached_property
    def _factors(self) -> KktFactors | Projected:
        return solver(self.here.kkt)

    def _toward(self, quantity: Quantity, slopes: Array) -> Array:
        """The column (n,) of the inverse of the matrix for the derivatives of a quantity."""
        sides = np.zeros((self.nlp.n_variables, 1))
        np.add.at(sides[:, 0], quantity.places, slopes)
        kkt = self.here.slackened.kkt
        return solver(kkt).solve(sides, np.zeros((self.nlp.n_constraints, 1)))[:, 0]

    def _parameter(self, row: int) -> Quantity:
        """An unknown parameter, as z has it."""
        r = len(self.nlp.layout.parameters)
        every = self.nlp.layout.parameter_offset + np.arange(r)
        unit, none = np.eye(r)[row], np.zeros((r, r))
        return Quantity(every, lambda y: (float(y[row]), unit, none))

    def _quantity(self, expression: Any, trial: int) -> Quantity:
        """An expression as a function of entries of z."""
        layout, owned, solution = self.nlp.layout, self.nlp.layout.owned, self.here.solution
        found = combination(expression, solution.trials[trial], solution.parameters)
        of_parameter = owned.by_name(trial)
        places, logs = list[int](), list[bool]()
        moving = [where != "parameter" or n in of_parameter for where, n in found.arguments]
        for (where, name), moves in zip(found.arguments, moving, strict=True):
            if where != "parameter" and name not in layout.at_nodes:
                raise ValueError(f"{name} has no value at nodes; take a state with a rate")
            if where != "parameter":
                N = layout.nodes[trial]
                row = layout.offsets[trial] + layout.at_nodes.index(name) * N
                places.append(row + (0 if where == "start" else N - 1))
                logs.append(False)
            elif moves:
                own = of_parameter[name]
                places.append(layout.parameter_offset + own)
                logs.append(bool(owned.log[own]))
        natural, log = found.partly(moving), np.array(logs, dtype=bool)

        def at(y: Array) -> tuple[float, Array, Array]:
            values = np.where(log, np.exp(np.where(log, y, 0.0)), y)
            value, slopes, bends = natural(values)
            by = np.where(log, values, 1.0)
            bends = bends * np.outer(by, by) + np.diag(np.where(log, slopes * by, 0.0))
            return value, slopes * by, bends

        return Quantity(np.array(places, dtype=np.intp), at)

    def _solved(
        self,
        trials: Sequence[Experiment],
        z: Array,
        multipliers: tuple[Array, Array, Array],
        held: tuple[Quantity, Spring] | None = None,
    ) -> tuple[NLP, Solved]:
        """The minimum near z, with a spring on a quantity if one is given, and what it is the
        minimum of without."""
        # Newton's steps pass the acceptable tolerances but where rounding of large states keeps
        # them there
        chosen = SolverOptions({"max_iter": _ITERATIONS, "acceptable_iter": 2})

        def solved(
            trials: Sequence[Experiment], start: Start, bounds: Bounds
        ) -> tuple[NLP, Solved]:
            whole = self.whole
            same = trials is whole.trials
            nlp = self.nlp if same else whole.nlp_of(whole.libraries.exact, trials)
            problem = replace(self.problem, callbacks=nlp.callbacks, bounds=bounds)
            problem = _with_spring(problem, *held) if held else problem
            own = whole if same else whole.on(trials)
            return nlp, solved_as(own, problem, start, chosen, lambda step: None)

        start = Start(np.clip(z, *self.problem.bounds), multipliers)
        about, layout = self.nlp.about, self.nlp.layout
        return settled(about, layout, trials, start, self.problem.bounds, solved)[-1]


def _with_spring(problem: IpoptProblem, quantity: Quantity, spring: Spring) -> IpoptProblem:
    """A problem with a spring more."""
    jacobian, hessian = problem.structures
    softer = problem.scaling and replace(
        problem.scaling, objective=problem.scaling.objective / spring.times
    )
    return replace(
        problem,
        scaling=softer,
        callbacks=Pulled(problem.callbacks, quantity, spring),
        structures=(jacobian, pulled_hessian(hessian, quantity.places)),
    )


@dataclass(frozen=True, eq=False)
class MarginalInference:
    """Trajectories at parameters of the largest likelihood."""

    here: Curvature
    about: Uncertainty

    def bands(self, names: Collection[str] | None = None) -> Bands:
        """See `Inference`."""
        return self.here.smoothed().bands(names)

    def combination(self, expression: Any, trial: int) -> tuple[float, float]:
        """See `Inference`; of parameters."""
        solution, owned = self.here.solution, self.here.problem.layout.owned
        found = combination(expression, solution.trials[trial], solution.parameters)
        every = list(self.about.names)
        of_trial = owned.by_name(trial).items()
        own = {name: name for name in every} | {p: owned.names[k] for p, k in of_trial}
        value, slopes, _ = found.at(found.values)
        row = np.zeros(len(every))
        for (where, name), slope in zip(found.arguments, slopes.tolist(), strict=True):
            if where != "parameter":
                raise ValueError(
                    f"with process noise or random effects an interval is of parameters, and {name}"
                    " is a state; take fit.bands()"
                )
            if name in own:
                row[every.index(own[name])] += slope
        used = np.flatnonzero(row)
        variance = float(row[used] @ self.about.covariance[np.ix_(used, used)] @ row[used])
        return value, float(np.sqrt(variance)) if variance >= 0.0 else np.nan

    def log_density(self, std: Mapping[str, float]) -> NoReturn:
        """Raise `ValueError`: there is none of parameters and starts."""
        raise ValueError(
            "there is no log-density: with process noise or random effects trajectories do not "
            "follow from parameters and starts; use ks.Shooting of the model without them, or "
            "intervals by method='t', from the curvature of the marginal likelihood"
        )

    def _none(self, *what: Any) -> NoReturn:
        raise ValueError(
            "profiles, sandwiches, bootstraps and influences are of parameters that the best "
            "trajectories tell; with process noise or random effects use method='t', from the "
            "curvature of the likelihood, and ks.cross_validate to leave out trials"
        )

    pulls = without = profile = held = refit = _none


def inference(problem: Discretisation, solution: Solution) -> Inference:
    """Inference of a solution. The matrix is made again: a solution must not keep its factors in
    memory. Raises `ValueError` for what is no fit."""
    if not problem.estimation.factor:
        raise ValueError(
            "measurements do not tell this solution: the objective has no LeastSquares, and there "
            "are no bands"
        )
    here = Curvature.at(problem, solution)
    about = solution.uncertainty[0] if solution.uncertainty else nothing_known()
    kind = MarginalInference if problem.estimation.integrated else CollocationInference
    return kind(here, about)
