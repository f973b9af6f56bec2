"""Maximum marginal likelihood: parameters with all trajectories and random effects integrated out,
by Laplace approximation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.internal.fitting.marginal_laplace import (
    heights,
    heights_of_samples,
    priors_of_inputs,
    volume,
)
from kinesym.internal.problems.random_effects import Numbers, Population
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import first_std
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start
from kinesym.runtime.ipopt.solve import SolverOptions, solve
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.samples import number_of_samples
from kinesym.runtime.progress import Iteration
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.likelihood import MARGINAL, Likelihood
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.covariance import diagonals, kkt_at
from kinesym.runtime.statistics.kkt import Columns, columns
from kinesym.runtime.statistics.likelihood import LogVolume
from kinesym.runtime.statistics.marginal_mode import ROUNDED, Point, decrement, followed
from kinesym.runtime.statistics.quasi_newton import Minimum, Value, held_by, minimise
from kinesym.runtime.status import Solve
from kinesym.symbolic.problem import Problem

#: Tolerance of -2 log L at the end of the search.
_TOLERANCE = 1e-9
#: Step of finite differences of the entries of matrices, in standard errors.
_SHORT = 1e-4
#: Step of finite differences of gradients, in standard errors: to one side, as gradients have nine
#: digits. Standard errors have four then.
_LONG = 1e-4
#: Least standard deviation, as a share of that of the samples: samples count as exact there.
_EXACT = 1e-4
#: Standard deviation, as a share of that of the samples, that is going to zero.
_SMALL = 1e-2
_NO_NOISE = (
    "process noise explains {0} without any noise of its measurement, whose std has gone to "
    "{1:.2g}; give its std"
)
_UNSOLVED = "the trajectories cannot be solved for: {}; change the guess"
#: Iterations after which a neighbouring problem counts as not solved.
_ITERATIONS = 300


class Partial(NamedTuple):
    """Derivatives by an unknown that is no part of z: of the entries of the Hessian, of the
    gradient of the objective (n,), of the objective and the heights of densities, and the second
    derivative of the objective."""

    hessian: Array
    side: Array
    slope: float
    bend: float


class Best(NamedTuple):
    """The best trajectories with given parameters and standard deviations.

    found : by IPOPT. point : the trajectories. volume : of all others around them. slope :
    derivatives of the objective and of the heights of densities by the unknowns, (k,). parts : of
    unknowns that are no part of z, the last ones. ways : how z and the multipliers (n + m, k)
    follow. curvature : second derivatives of the objective in each unknown, all else following,
    (k,).
    """

    found: Solved
    point: Point
    trials: Sequence[Experiment]
    volume: LogVolume
    slope: Array
    parts: Sequence[Partial]
    ways: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class Estimated:
    """Parameters of the largest likelihood, with the best trajectories, and the trials with the
    standard deviations. std : of groups of measurements. priors : distributions of random effects.
    converged : whether the search has ended at a maximum, after so many steps."""

    solved: Solved
    trials: Sequence[Experiment]
    likelihood: Likelihood
    std: dict[str, float]
    priors: Numbers
    uncertainty: Uncertainty
    converged: bool
    steps: int


@dataclass(frozen=True, eq=False)
class Marginal:
    """-2 log L of the entries of z that are parameters but no random effects, then what is unknown
    of the distributions of these, then the logarithms of standard deviations that are not known.

    For each the trajectories are solved for with the parameters held by their bounds, so that one
    library serves all: by IPOPT at first, then by Newton's method from where z and the multipliers
    lead to first order. Of the objective there, an unknown moves only the part in which it stands
    itself (envelope theorem). Of a determinant the derivative is the trace of the inverse times
    that of the matrix, for which those entries of the inverse suffice in which the matrix has any;
    the derivative of the matrix, along which z and the multipliers follow, is by differences.

    problem : of IPOPT. trials : with standard deviations open. groups : names of these. on : makes
    the nonlinear program of other trials and distributions from a near one. seen : see
    `log_volume`, at any z. population : the random effects, limits : of h. intensities : parameters
    that are those of process noise. idle : see `kkt_at`. chosen : how IPOPT is to solve.
    """

    symbolic: Problem
    nlp: NLP
    problem: IpoptProblem
    trials: Sequence[Experiment]
    groups: Sequence[str]
    on: Callable[[NLP, Sequence[Experiment], Numbers], NLP]
    population: Population
    limits: tuple[Array, Array]
    seen: Callable[[Array], Array]
    intensities: Sequence[str]
    idle: Sequence[int]
    chosen: SolverOptions
    report: Callable[[Iteration], None]

    def estimated(self, z: Array, h: Array, std: Sequence[float]) -> Estimated:
        """The maximum near a guess; h : of the distributions. std : of the groups. Raises
        `ValueError` if the trajectories of the guess cannot be solved for, or have no likelihood.
        """
        x = np.concatenate([z[self._mine], h, np.log(std)])
        start = self._solved(x, Start(z), self.chosen, self.nlp)
        if isinstance(start, str):
            raise ValueError(f"with the parameters of the guess, {start}")
        most, some = self._reach(x), self.population
        first = np.diag(np.maximum(np.abs(start.state.curvature), 2.0 * most**-2.0))

        def reach(x: Array) -> Array:  # what is of distributions follows their spread
            begin = len(self._mine)
            end = begin + len(some.names)
            return np.concatenate([most[:begin], some.reach(self._spread(x)), most[end:]])

        made = (self._near, self._slope, start, self._bounds, reach, first, _TOLERANCE)
        found = minimise(*made)
        about, best = self._uncertainty(found), found.at.state
        return Estimated(
            solved=_as_solved(best, start.state.found.linear_solver),
            trials=best.trials,
            likelihood=self._likelihood(found, about),
            std=self._std(found.at.x),
            priors=self.population.numbers(self._spread(found.at.x)),
            uncertainty=about,
            converged=found.converged,
            steps=found.steps,
        )

    def curvature_at(self, z: Array) -> Array:
        """Hessian of -2 log L at the parameters of z, also where that is not its minimum, of what
        has no unknown distributions and standard deviations. Raises `ValueError` as `estimated`,
        and where it is not known."""
        at = self._solved(z[self._mine], Start(z), self.chosen, self.nlp)
        if isinstance(at, str):
            raise ValueError(f"with the parameters of the guess, {at}")
        free = np.ones(len(at.x), dtype=bool)
        found = self._hessian(at, self._slope(at), at.state.curvature, free)
        if not np.isfinite(found).all():
            raise ValueError("the likelihood is not known near the parameters of the guess")
        return found

    def slopes_at(self, z: Array, h: Array, std: Sequence[float]) -> Array:
        """Derivatives of -2 log L at the arguments of `estimated`, by its unknowns in units of
        their standard errors; zero where a bound holds. Raises `ValueError` as `estimated`."""
        x = np.concatenate([z[self._mine], h, np.log(std)])
        at = self._solved(x, Start(z), self.chosen, self.nlp)
        if isinstance(at, str):
            raise ValueError(at)
        slope = self._slope(at)
        held = held_by(x, slope, self._bounds)
        return np.where(held, 0.0, slope * self._errors(at, at.state.curvature))

    def _uncertainty(self, found: Minimum) -> Uncertainty:
        """Uncertainty from the curvature of the marginal likelihood, unknown standard deviations
        included. Random effects have their conditional variance given the parameters, plus what
        follows from the errors of these (Kass, Steffey 1989, Journal of the American Statistical
        Association 84, 717, equation 3.3)."""
        layout, some, best = self.nlp.layout, self.population, found.at.state
        names, random = np.array(layout.parameters, dtype=object), self._random
        slopes, h = layout.parameter_slopes(best.point.z), self._spread(found.at.x)
        held = held_by(found.at.x, found.gradient, self._bounds)
        outer = self._covariance(found, held)
        count = len(self._mine) + len(h)
        ways = np.vstack([np.eye(count, len(outer)), best.ways[random]])
        covariance = ways @ outer @ ways.T
        covariance[count:, count:] += 2.0 * best.volume.whole.inverse(random)
        scale = [slopes[~some.random], some.slopes(h), slopes[some.random]]
        size = np.concatenate(scale)
        fixed, drawn = list(names[~some.random]), list(names[some.random])
        rows, log = [*fixed, *some.names, *drawn], list(names[layout.owned.log])
        notes = some.alike(h, self.limits[0])
        notes += self._without_noise(found, held[count:])
        if np.isnan(outer).any():
            notes.append("the likelihood has no maximum that tells all parameters")
        return Uncertainty(
            names=rows,
            covariance=covariance * np.outer(size, size),
            held=[name for name, at in zip(rows, held[:count], strict=False) if at],
            logarithmic=[name for name in (*log, *some.logarithmic) if name not in some.factors],
            factors=some.factors,
            random=drawn,
            freedoms=some.freedoms,
            notes=notes,
        )

    def _likelihood(self, found: Minimum, about: Uncertainty) -> Likelihood:
        """Likelihood at its maximum x, times the density of priors but for a constant. A parameter
        on a bound does not count as unknown, unless the bound is the edge of its range: an
        intensity, or a standard deviation, that is nearly zero."""
        owned, strong = self.nlp.layout.owned, self.intensities
        edges = [name for name, p in zip(owned.names, owned.members, strict=True) if p in strong]
        edges += self.population.edges
        return Likelihood(
            log_likelihood=-0.5 * found.at.value,
            unknowns=float(len(found.at.x) - len({*about.held} - {*edges})),
            samples=float(number_of_samples(self.nlp.about, self.trials)),
            kind=MARGINAL,
            edges="\n".join(edges),
        )

    def _without_noise(self, found: Minimum, held: NDArray[np.bool_]) -> list[str]:
        """Sentences on standard deviations that have gone to zero, or were on their way where
        rounding has ended the search."""
        size, std = first_std(self.trials), self._std(found.at.x)
        small = [not found.converged and std[group] < _SMALL * size[group] for group in self.groups]
        gone = zip(self.groups, held | np.array(small, dtype=bool), strict=True)
        return [_NO_NOISE.format(group, std[group]) for group, at in gone if at]

    # -- values ---------------------------------------------------------------------------------

    @cached_property
    def _mine(self) -> NDArray[np.intp]:
        return self.nlp.layout.parameter_offset + np.flatnonzero(~self.population.random)

    @cached_property
    def _random(self) -> NDArray[np.intp]:
        return self.nlp.layout.parameter_offset + np.flatnonzero(self.population.random)

    @cached_property
    def _prior(self) -> Mapping[str, sp.Expr]:
        return priors_of_inputs(self.symbolic)

    @cached_property
    def _columns(self) -> Columns:
        """Columns of the parameters in the matrix of Karush, Kuhn and Tucker."""
        sizes = self.nlp.n_variables, self.nlp.n_constraints
        return columns(self._mine, self.nlp.hessian_structure.arrays(), self._places, sizes)

    @cached_property
    def _places(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and columns of the Jacobian."""
        return self.nlp.jacobian_structure.arrays()

    @property
    def _limits(self) -> tuple[Array, Array]:
        return self.problem.constraint_bounds

    @property
    def _bounds(self) -> tuple[Array, Array]:
        low, high = (bound[self._mine] for bound in self.problem.bounds)
        size = first_std(self.trials)
        exact = np.log([_EXACT * size[group] for group in self.groups])
        (least, most), open_ = self.limits, np.full(len(exact), np.inf)
        return np.concatenate([low, least, exact]), np.concatenate([high, most, open_])

    def _reach(self, x: Array) -> Array:
        """The longest steps: in logarithms 1, of others half their value, or a share of what the
        bounds leave."""
        low, high = self._bounds
        owned, some = self.nlp.layout.owned, self.population
        own = np.concatenate([owned.log[~some.random], np.zeros(len(some.names), dtype=bool)])
        log = np.append(own, np.ones(len(self.groups), dtype=bool))
        wide = np.where(np.isfinite(high - low) & (high > low), 0.1 * (high - low), np.inf)
        free = np.minimum(np.where(x != 0.0, 0.5 * np.abs(x), np.inf), wide)
        reach = np.where(log | np.isinf(free), 1.0, free)
        begin = len(self._mine)
        reach[begin : begin + len(some.names)] = some.reach(self._spread(x))
        return reach

    def _std(self, x: Array) -> dict[str, float]:
        begin = len(self._mine) + len(self.population.names)
        return dict(zip(self.groups, np.exp(x[begin:]).tolist(), strict=True))

    def _spread(self, x: Array) -> Array:
        """Unknown moments of distributions, the part h of x."""
        begin = len(self._mine)
        return x[begin : begin + len(self.population.names)]

    def _on(self, x: Array, near: NLP) -> tuple[Sequence[Experiment], NLP]:
        """The trials with standard deviations, and their nonlinear program; near : that of another
        x."""
        if not (self.groups or self.population):
            return self.trials, self.nlp
        trials, std = self.trials, self._std(x)
        trials = [trial.with_std(std) for trial in trials] if std else trials
        return trials, self.on(near, trials, self.population.numbers(self._spread(x)))

    def _held(self, x: Array) -> tuple[Array, Array]:
        """Bounds of z that hold the parameters."""
        low, high = (bound.copy() for bound in self.problem.bounds)
        low[self._mine] = high[self._mine] = x[: len(self._mine)]
        return low, high

    def _near(self, x: Array, other: Value) -> Value | None:
        """Value at x, from the best trajectories of another x: by Newton's method, or by IPOPT
        where that does not converge."""
        if self.chosen.late:
            return None
        best: Best = other.state
        trials, nlp = self._on(x, best.point.nlp)
        there, held = best.point.moved(best.ways @ (x - other.x)), self._held(x)
        start = replace(there, nlp=nlp, z=np.clip(there.z, *held))
        with suppress(ValueError):
            found = followed(start, best.volume, self.seen, self._limits)
            if found is not None and self._is_inside(x, *found):
                return self._valued(x, trials, best.found, *found)
        chosen = replace(self.chosen, options={"max_iter": _ITERATIONS, **self.chosen.options})
        solved = self._solved(x, Start(start.z, start.multipliers), chosen, best.point.nlp)
        return None if isinstance(solved, str) else solved

    def _is_inside(self, x: Array, point: Point, volume: LogVolume) -> bool:
        """Whether a point is away from bounds and inequalities."""
        about = (point.nlp, point.z, point.multipliers, self._held(x), self._limits)
        return volume.whole.is_of(*diagonals(*about, self.idle))

    def _solved(self, x: Array, start: Start, chosen: SolverOptions, near: NLP) -> Value | str:
        """Best trajectories by IPOPT, and the value of -2 log L there; a sentence if there is
        none."""
        trials, nlp = self._on(x, near)
        bounds = self._held(x)
        problem = replace(self.problem, callbacks=nlp.callbacks, bounds=bounds)
        begin = replace(start, z=np.clip(start.z, *bounds))
        found = solve(problem, begin, chosen, self.report)
        ended = found.status is Solve.SMALL_STEP
        if not (found.status.success or ended):
            return _UNSOLVED.format(found.message)
        point = Point(nlp, self._places, found.z, found.multipliers)
        kkt = kkt_at(nlp, found.z, found.multipliers, bounds, self._limits, self.idle)
        about = (nlp.layout, self._prior.keys(), self.population.random)
        try:
            made = volume(*about, kkt, self.seen(found.z))
            if ended:  # at the minimum, but for the rounding of what is small beside it?
                if decrement(point, made, self._limits)[1] > ROUNDED:
                    return _UNSOLVED.format(found.message)
                found = replace(found, status=Solve.ACCEPTABLE)
            return self._valued(x, trials, found, point, made)
        except ValueError as error:
            return str(error)

    def _valued(
        self,
        x: Array,
        trials: Sequence[Experiment],
        found: Solved,
        point: Point,
        made: LogVolume,
    ) -> Value:
        """-2 log L at the best trajectories, with all that its gradient needs. Raises `ValueError`
        if they are no minimum."""
        nlp, of_rows = point.nlp, point.multipliers[0]
        value = nlp.cost(point.z) + float(of_rows @ point.off(self._limits)) - 2.0 * made.value
        value += heights(nlp, trials, self._prior, [{} for _ in trials])
        value += self.population.heights(self._spread(x))
        return Value(x, value, self._followed(x, trials, found, point, made))

    # -- derivatives ----------------------------------------------------------------------------

    def _slope(self, at: Value) -> Array:
        """The gradient."""
        best: Best = at.state
        steps, found = _SHORT * self._errors(at, best.curvature), best.slope.copy()
        slopes = best.volume.slopes()
        for k, step in enumerate(steps):
            sides = [self._entries(best.point.moved(s * best.ways[:, k])) for s in (step, -step)]
            changes = (after - before for after, before in zip(*sides, strict=True))
            found[k] -= sum(map(np.dot, slopes, changes)) / step
        for k, part in enumerate(best.parts, len(self._mine)):
            found[k] -= 2.0 * float(slopes[0] @ part.hessian)
        return found

    def _entries(self, point: Point) -> tuple[Array, Array, Array]:
        """Entries of Hessian, Jacobian, and Hessian of the samples alone."""
        return point.hessian, point.jacobian, self.seen(point.z)

    def _errors(self, at: Value, curvature: Array) -> Array:
        """Standard errors from a curvature (k,), or the longest steps where these are less."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(np.sqrt(2.0 / np.abs(curvature)), self._reach(at.x)))

    def _covariance(self, found: Minimum, held: NDArray[np.bool_]) -> Array:
        """Covariance of the unknowns: twice the inverse Hessian of -2 log L, by differences of
        gradients."""
        at, count = found.at, len(found.at.x)
        spread = 2.0 / np.diag(np.linalg.inv(found.curvature)) if count else np.zeros(0)
        covariance, free = np.zeros((count, count)), np.flatnonzero(~held)
        mine = self._hessian(at, found.gradient, spread, ~held)
        inverse: Array = np.full_like(mine, np.nan)
        if np.isfinite(mine).all() and (np.linalg.eigvalsh(mine) > 0.0).all():
            inverse = np.asarray(2.0 * np.linalg.inv(mine))
        covariance[np.ix_(free, free)] = inverse
        return covariance

    def _hessian(
        self, at: Value, gradient: Array, curvature: Array, which: NDArray[np.bool_]
    ) -> Array:
        """Hessian (k, k) of -2 log L in those unknowns, by differences of gradients, NaN where one
        is not known; curvature : about that of each, (r,)."""
        steps, free = _LONG * self._errors(at, curvature), np.flatnonzero(which)
        steps = np.where(at.x + steps <= self._bounds[1], steps, -steps)
        found = np.full((len(at.x), len(at.x)), np.nan)
        for k in free:
            ahead = at.x.copy()
            ahead[k] += steps[k]
            there = self._near(ahead, at)
            if there is None:
                break
            found[k] = (self._slope(there) - gradient) / steps[k]
        mine = found[np.ix_(free, free)]
        return np.asarray(0.5 * (mine + mine.T))

    def _followed(
        self,
        x: Array,
        trials: Sequence[Experiment],
        found: Solved,
        point: Point,
        made: LogVolume,
    ) -> Best:
        """The best trajectories with derivatives by the unknowns."""
        z, mine, r = point.z, self._mine, len(self._mine)
        parts = [*self._of_spread(x, point)]
        parts += [self._of_std(x, trials, point, k) for k in range(len(self.groups))]
        sides = np.zeros((len(z) + len(self._limits[0]), r + len(parts)))
        sides[:, :r] = self._columns.of(point.hessian, point.jacobian)
        for side, part in zip(sides[: len(z), r:].T, parts, strict=True):
            side[:] = part.side
        ways = -made.whole.solve(sides)
        own = [*sides[mine, np.arange(r)], *(part.bend for part in parts)]
        curvature = np.array(own) + np.einsum("ij,ij->j", sides, ways)
        ways[mine, np.arange(r)] = 1.0
        slope = [*point.gradient[mine], *(part.slope for part in parts)]
        return Best(found, point, trials, made, np.array(slope), parts, ways, curvature)

    def _of_spread(self, x: Array, point: Point) -> Iterator[Partial]:
        """Derivatives by each unknown moment of a distribution; by the logarithm of a standard
        deviation those of the Hessian from its double, as a part is proportional to 1/sd^2."""
        some, h, begin = self.population, self._spread(x), len(self._mine)
        values = point.nlp.layout.parameter_values(point.z)
        slopes, spreads = some.density_slopes(h, values), some.spreads
        for k, (row, bend) in enumerate(some.pulls(h, values)):
            side, hessian = np.zeros(len(point.z)), np.zeros_like(point.hessian)
            point.nlp.layout.parameter_values(side)[:] = row
            if spreads[k]:
                other = replace(point, nlp=self._doubled(x, begin + k, point.nlp)[1])
                hessian = (other.hessian - point.hessian) / 0.375
            yield Partial(hessian, side, slopes[k], bend)

    def _of_std(self, x: Array, trials: Sequence[Experiment], point: Point, group: int) -> Partial:
        """Derivatives by the logarithm of a standard deviation, from its double: a part of the
        objective is proportional to 1/std^2, the heights to log std."""
        z, nlp = point.z, point.nlp
        others, other = self._doubled(x, len(x) - len(self.groups) + group, nlp)
        hessian = (replace(point, nlp=other).hessian - point.hessian) / 0.375
        side = (other.gradient(z) - nlp.gradient(z)) / 0.375
        squares = (nlp.cost(z) - other.cost(z)) / 0.75
        higher = heights_of_samples(other, others) - heights_of_samples(nlp, trials)
        slope = higher / float(np.log(2.0)) - 2.0 * squares
        return Partial(hessian, side, slope, 4.0 * squares)

    def _doubled(self, x: Array, place: int, near: NLP) -> tuple[Sequence[Experiment], NLP]:
        """Trials and nonlinear program with the double of a standard deviation."""
        double = x.copy()
        double[place] += np.log(2.0)
        return self._on(double, near)


def _as_solved(best: Best, linear_solver: str) -> Solved:
    """The best trajectories as a result of IPOPT; linear_solver : a line on the first one."""
    point, found = best.point, replace(best.found, linear_solver=linear_solver)
    if point.z is found.z:
        return found
    return replace(
        found,
        z=point.z,
        multipliers=point.multipliers,
        objective=point.nlp.cost(point.z),
        status=Solve.CONVERGED,
    )
