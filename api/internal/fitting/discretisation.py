"""Discretisation of a problem by collocation: the nonlinear program min f(z), bounds on z and on
c(z).

z is the free vector: states and unknown inputs at all nodes and stages of all trials, then the
unknown parameters and durations. c are the collocation defects, the algebraic equations and the
conditions; `layout` names the entries of both.

A discretisation is a frozen value. A problem of some of the trials, on other grids or with other
numbers is a new value with the same compiled library. Solving (`solving.py`), the curvature for
estimation (`curvature.py`), initial guesses (`first_guess.py`) and explanations (`why.py`) are
functions of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from kinesym.internal.fitting.libraries import Libraries
from kinesym.internal.fitting.marginal_laplace import first_samples
from kinesym.internal.fitting.trajectories import found_trajectory
from kinesym.internal.problems.content import UNCOUNTED, counts_as
from kinesym.internal.problems.formulation import Formulation
from kinesym.internal.problems.free_history import table_before
from kinesym.internal.problems.parameters import Unknown, densities_of, without_distribution
from kinesym.internal.problems.per_trial import Loosened, PerTrial
from kinesym.internal.problems.pipeline import make_nlp, with_data
from kinesym.internal.problems.process_noise import check_last_samples
from kinesym.internal.problems.random_effects import (
    Numbers,
    Population,
    numbered,
    numbers_of,
    population,
)
from kinesym.internal.running.jump_steps import without_inputs
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation
from kinesym.runtime.estimation.noise import follow
from kinesym.runtime.estimation.priors import Priors, priors_by_name
from kinesym.runtime.ipopt.driver import IpoptProblem
from kinesym.runtime.library.manifest import Built, CollocationManifest
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.bounds import (
    HeldEnd,
    constraint_bounds,
    entries_of,
    held_ends,
    variable_bounds,
)
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.memory import Forecast, check_free, check_sizes, forecast
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.nlp.sensor_delays import delays_at, fit, placed
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.densities import Density
from kinesym.symbolic.model import Model
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme

Pair = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Discretisation:
    """Nonlinear program of trials on their grids.

    formulation, libraries : symbolic problem and compiled kernels, shared by all trials. per_trial
    : data, one row per trial. unknown : records of unknown parameters. priors : densities of those
    that have one, as far as known. sides : of the kinks of these that are not to be passed (r,), 1
    or -1, 0 where there is none; None if all may be. held : values (r,) at which
    parameters are held, NaN for those that are free; None if all are. effects : random effects
    whose distributions are known; None to take those of `unknown`. start : solution at which solves
    begin. threads : for evaluation and linear algebra; None for one per core.

    The first access to its functions raises `MemoryError` if memory is short. `of` raises
    `ValueError` for bounds that are crossed, for samples at the last node that depend on process
    noise, and for too few owners to estimate a standard deviation.
    """

    formulation: Formulation
    libraries: Libraries = field(metadata=UNCOUNTED)
    per_trial: PerTrial
    unknown: Mapping[str, Unknown]
    priors: Mapping[str, Density]
    held: Array | None = None
    sides: Array | None = None
    effects: Population | None = None
    start: Solution | None = None
    threads: int | None = field(default=None, metadata=UNCOUNTED)

    @staticmethod
    def of(formulation: Formulation, per_trial: PerTrial, threads: int | None) -> Discretisation:
        """Discretise all trials of a formulation; raises as the class says."""
        unknown, libraries = formulation.unknown, Libraries(formulation.symbolic)
        about = (unknown, densities_of(unknown))
        made = Discretisation(formulation, libraries, per_trial, *about, threads=threads)
        if formulation.noisy:
            check_last_samples(formulation.noises, made.model, made.ends, made.trials)
        made.population, made.variable_bounds  # noqa: B018  (they raise for what does not fit)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone; all else is computed from them."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    # -- other problems of the same library --------------------------------------------------

    def on(self, trials: Sequence[Experiment]) -> Discretisation:
        """Problem with other data of each trial, as on other grids."""
        return replace(self, per_trial=self.per_trial.on(trials), start=None)

    def some(self, numbers: Sequence[int]) -> Discretisation:
        """Problem of a subset of the trials, by number."""
        return replace(self, per_trial=self.per_trial.some(numbers), start=None)

    def with_std(self, std: Mapping[str, float]) -> Discretisation:
        """Problem with standard deviations, by group of channels, that were not known."""
        return replace(self, per_trial=self.per_trial.with_std(std), start=None)

    def with_known(self, known: Sequence[Mapping[str, float]]) -> Discretisation:
        """Problem with other values of known parameters, by trial."""
        return replace(self, per_trial=self.per_trial.with_known(known), start=None)

    def loosen(self, conditions: Sequence[Loosened]) -> Discretisation:
        """Problem with slack in these redundant conditions, and in no others."""
        return replace(self, per_trial=self.per_trial.loosen(conditions), start=None)

    def holding(self, entries: Array) -> Discretisation:
        """Problem with parameters held at these values (r,), as in z; NaN for those that stay free.
        Other grids keep them."""
        return replace(self, held=entries, start=None)

    def with_priors(self, numbers: Numbers) -> Discretisation:
        """Problem with numbers for unknown means and standard deviations of distributions."""
        return self.with_densities(numbered(self.priors, numbers)) if numbers else self

    def with_densities(self, priors: Mapping[str, Density]) -> Discretisation:
        """Problem with other numbers of its priors."""
        return replace(self, priors=priors, start=None)

    def on_sides(self, sides: Array | None) -> Discretisation:
        """Problem whose parameters stay on these sides (r,) of the kinks of their priors; None for
        both."""
        own = self.sides
        same = own is sides or (own is not None and sides is not None and (own == sides).all())
        return self if same else replace(self, sides=sides, start=None)

    def with_unknown(self, unknown: Mapping[str, Unknown]) -> Discretisation:
        """Problem with other distributions of its unknown parameters."""
        return replace(self, unknown=unknown, priors=densities_of(unknown), start=None)

    def without_distributions(self) -> Discretisation:
        """Problem without the distributions that are to be estimated: each owner for itself."""
        free = {name: without_distribution(p) for name, p in self.unknown.items()}
        return replace(self, unknown=free, start=None)

    def placed_at(self, z: Array) -> Discretisation:
        """Problem with samples in the intervals where the unknown delays of z place them."""
        delays = delays_at(self.about, self.layout, z)
        return self if fit(self.trials, delays) else self.on(placed(self.trials, delays))

    # -- what it is of -----------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model of all trials."""
        return self.formulation.model

    @property
    def symbolic(self) -> Problem:
        """Symbolic problem of which the kernels are generated."""
        return self.formulation.symbolic

    @property
    def scheme(self) -> CollocationScheme:
        """Collocation scheme."""
        return self.formulation.scheme

    @property
    def trials(self) -> Sequence[Experiment]:
        """The data of all trials."""
        return self.per_trial.trials

    @property
    def known(self) -> Sequence[Mapping[str, float]]:
        """Values of known parameters of each trial."""
        return self.per_trial.known

    @property
    def instants(self) -> list[float]:
        """Times [s] at which a condition begins or ends to hold."""
        return self.formulation.instants(self.trials)

    # -- the nonlinear program ---------------------------------------------------------------

    @cached_property
    def nlp(self) -> NLP:
        """Objective, constraints and exact derivatives, compiled."""
        made = self.nlp_of(self.libraries.exact, self.trials)
        sizes = forecast(made)
        check_sizes(sizes)
        check_free(sizes.evaluation, sizes, "use fewer nodes")
        return made

    @cached_property
    def residual_nlp(self) -> NLP:
        """Residuals of the measurements, compiled. Raises `ValueError` without `LeastSquares`."""
        return self.nlp_of(self.libraries.residuals, self.trials)

    @cached_property
    def gauss_newton(self) -> NLP:
        """Nonlinear program with the Gauss-Newton Hessian, J'J of the residuals."""
        return self.nlp_of(self.libraries.gauss_newton, self.trials, curved=False)

    @cached_property
    def point_functions(self) -> PointFunctions:
        """Equations and integrand at any points, compiled."""
        return PointFunctions(self.libraries.exact, self.known)

    @cached_property
    def first_samples(self) -> NLP:
        """Nonlinear program with the first samples only, for the Laplace approximation at the
        start."""
        trials = first_samples(self.symbolic, self.layout, self.trials)
        return self.nlp_of(self.libraries.exact, trials)

    def nlp_of(self, built: Built, trials: Sequence[Experiment], curved: bool = True) -> NLP:
        """Nonlinear program of trials on their grids, with the kernels of `built`."""
        numbers = (self.known, self.threads, self.priors)
        lags = self.per_trial.lags(self.formulation.lags)
        return make_nlp(built, trials, *numbers, lags, curved, self.sides)

    def nlp_with(self, nlp: NLP, trials: Sequence[Experiment], numbers: Numbers) -> NLP:
        """Nonlinear program on the same grids with other data and distributions."""
        return with_data(nlp, trials, self.known, numbered(self.priors, numbers), self.sides)

    def ipopt(self, nlp: NLP) -> IpoptProblem:
        """Callbacks, bounds and time structure of a nonlinear program, as IPOPT takes them."""
        return IpoptProblem(
            nlp.callbacks,
            (nlp.jacobian_structure, nlp.hessian_structure),
            self.variable_bounds,
            self.constraint_bounds,
            self.layout.stages(),
            threads=nlp.threads,
        )

    @property
    def layout(self) -> Layout:
        """Places of states, inputs and parameters in z, and of families of constraints."""
        return self.nlp.layout

    @property
    def about(self) -> CollocationManifest:
        """Manifest of the library: its description of the problem."""
        return self.nlp.about

    @property
    def sizes(self) -> Forecast:
        """Forecast of the memory that evaluation and factorisation need."""
        return forecast(self.nlp)

    @property
    def n_variables(self) -> int:
        """Length of the free vector z."""
        return self.nlp.n_variables

    @property
    def n_constraints(self) -> int:
        """Number of constraints."""
        return self.nlp.n_constraints

    @cached_property
    def population(self) -> Population:
        """Random effects among the parameters."""
        if self.effects is not None:
            return self.effects
        return population(self.unknown, self.layout.owned, self.formulation.intensities)

    # -- bounds ------------------------------------------------------------------------------

    @cached_property
    def constraint_bounds(self) -> Pair:
        """Lower and upper bounds of the constraints, (m,) each."""
        low, high = constraint_bounds(self.layout, self.per_trial.limits)
        for trial, family, label, room in self.per_trial.loosened:
            i = self.layout.constraint_offsets[trial, family] + label
            low[i] -= room
            high[i] += room
        return low, high

    @property
    def known_priors(self) -> Priors:
        """Priors of all parameters that have one."""
        return priors_by_name(self.layout.owned.members, self.priors, 1.0)

    @property
    def kinks(self) -> Array:
        """Entries of parameters at the kinks of their priors, (r,); NaN where there is none."""
        return self.known_priors.entries_at_kinks(self.layout.owned)

    @cached_property
    def ends(self) -> Mapping[tuple[int, str], HeldEnd]:
        """Last nodes of inputs that are held between nodes, by trial and name: no interval uses
        them."""
        return held_ends(self.nlp, self.constraint_bounds)

    @cached_property
    def absent(self) -> NDArray[np.bool_]:
        """Mask (n_variables,) of entries of z that belong to other phases."""
        return entries_of(self.layout, [row.lacking for row in self.per_trial.rows])

    @cached_property
    def variable_bounds(self) -> Pair:
        """Lower and upper bounds of z, (n,) each."""
        given, ends = self.formulation, self.ends.values()
        about = (given.bounds, ends, given.every, self.absent)
        sides = variable_bounds(self.layout, self.trials, *about)
        if self.sides is not None:
            low, high = map(self.layout.parameter_values, sides)
            low[:] = np.where(self.sides > 0.0, np.maximum(low, self.kinks), low)
            high[:] = np.where(self.sides < 0.0, np.minimum(high, self.kinks), high)
        if self.held is not None:
            for side in sides:
                mine = self.layout.parameter_values(side)
                mine[:] = np.where(np.isnan(self.held), mine, self.held)
        return sides

    @property
    def free_directions(self) -> int:
        """Degrees of freedom of z: variables minus equality constraints, at least 0."""
        low, high = self.constraint_bounds
        return max(self.n_variables - int((low == high).sum()), 0)

    # -- values and derivatives --------------------------------------------------------------

    def cost(self, z: Array) -> float:
        """Objective at z."""
        return self.placed_at(z).nlp.cost(z)

    def cost_gradient(self, z: Array) -> Array:
        """Gradient of the objective at z, (n_variables,)."""
        return self.placed_at(z).nlp.gradient(z)

    def residuals(self, z: Array) -> Array:
        """Residuals (modelled - measured)/std of the samples that are not missing, (n_samples,)."""
        return self.placed_at(z).residual_nlp.residuals(z)

    def residual_jacobian(self, z: Array) -> csr_array:
        """Jacobian of the residuals, (n_samples, n_variables)."""
        return self.placed_at(z).residual_nlp.residual_jacobian(z)

    def constraints(self, z: Array) -> Array:
        """Constraints c(z), (n_constraints,)."""
        return self.nlp.constraints(z)

    def constraint_jacobian(self, z: Array) -> csr_array:
        """Jacobian of the constraints, (n_constraints, n_variables), with its exact structure."""
        entries = (self.nlp.jacobian(z), self.nlp.jacobian_structure.arrays())
        return coo_array(entries, shape=(self.n_constraints, self.n_variables)).tocsr()

    def lagrangian_hessian(self, z: Array, multipliers: Array, cost_factor: float) -> csr_array:
        """Hessian of cost_factor * cost + multipliers . constraints, symmetric, (n_variables,
        n_variables)."""
        rows, columns = self.nlp.hessian_structure.arrays()
        values = self.placed_at(z).nlp.hessian(z, multipliers, cost_factor)
        off = rows != columns
        entries = (
            np.concatenate([values, values[off]]),
            (np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])),
        )
        return coo_array(entries, shape=(self.n_variables, self.n_variables)).tocsr()

    # -- parts of the free vector ------------------------------------------------------------

    def courses(self, z: Array, number: int) -> dict[str, Array]:
        """States and unknown inputs at the nodes of a trial, copied, by name."""
        found = self.layout.courses(z, number, self.about.stages, self.about.to_ends)
        return {name: row.copy() for name, row in found.items()}

    def parameters(self, z: Array) -> dict[str, float]:
        """Unknown parameters of all owners, in natural units, by name."""
        values = self.layout.owned.natural(self.layout.parameter_values(z))
        return dict(zip(self.layout.parameters, map(float, values), strict=True))

    def estimates(self, z: Array) -> dict[str, float]:
        """Estimates by name: shared parameters, unknown means and standard deviations of
        distributions, random effects."""
        found, some = self.parameters(z), self.population
        h = some.natural(some.entries(numbers_of(self.priors))).tolist()
        found |= dict(zip(some.names, h, strict=True))
        return {name: found[name] for name in self.estimated}

    @property
    def estimated(self) -> list[str]:
        """Names of the estimates, in order."""
        names, random = self.layout.parameters, self.population.random
        fixed = [name for name, drawn in zip(names, random, strict=True) if not drawn]
        drawn = [name for name in names if name not in fixed]
        return [*fixed, *self.population.names, *drawn]

    def parameters_of(self, z: Array, trial: int) -> dict[str, float]:
        """Parameters of a trial, known and unknown, by names without owners."""
        values = map(float, self.layout.parameters_of(z, trial))
        return {
            **self.known[trial],
            **dict(zip(self.layout.owned.parameters, values, strict=True)),
        }

    @property
    def parameter_bounds(self) -> Pair:
        """Bounds of the parameters, (r,) each."""
        layout, (low, high) = self.layout, self.variable_bounds
        natural = layout.owned.natural
        return natural(layout.parameter_values(low)), natural(layout.parameter_values(high))

    def trajectories(self, z: Array, hidden: NDArray[np.bool_] | None = None) -> list[Trajectory]:
        """Trajectories of all trials at z; entries marked in `hidden` (n_variables,) become NaN."""
        given, found = self.formulation, self.bare_trajectories(z, hidden)
        return [without_inputs(given.events.added(run), given.hidden) for run in found]

    def bare_trajectories(
        self, z: Array, hidden: NDArray[np.bool_] | None = None
    ) -> list[Trajectory]:
        """Trajectories as `trajectories`, of states without their jumps at events, and with the
        inputs that stand for these."""
        shown = z if hidden is None else np.where(hidden, np.nan, z)
        found = [
            found_trajectory(
                *(self.symbolic, self.nlp, self.point_functions, trial, k, shown),
                self.parameters_of(z, k),
            )
            for k, trial in enumerate(self.trials)
        ]
        rows = zip(found, self.per_trial.rows, strict=True)
        return [replace(run, before=table_before(row.before, run)) for run, row in rows]

    # -- solutions of it ---------------------------------------------------------------------

    @cached_property
    def estimation(self) -> Estimation:
        """Estimation of the unknowns from the samples."""
        objective = self.symbolic.objective
        mixed = bool(objective.integrand != 0 or objective.terminal != 0)
        integrated = self.formulation.noisy or bool(self.population)
        loss, priors = RobustLoss.of(objective.loss), bool(self.symbolic.priors)
        moving = not mixed and follow(self.trials, self.unknown)
        taken = float(self.free_directions) if moving else 0.0
        about = (float(objective.least_squares), loss, priors, mixed, integrated, taken)
        return Estimation(self.trials, *about)

    @property
    def delays(self) -> list[dict[str, float]]:
        """Unknown sensor delays [s], by name, with which the samples of each trial are placed;
        empty if there are none."""
        names = self.symbolic.delays
        return [
            {name: own.delay for name, own in trial.timed.items() if name in names}
            for trial in (self.trials if names else ())
        ]


def _counted(problem: Discretisation) -> Sequence[Any]:
    """Fields that a digest counts: all but those marked as uncounted; of `start` only its free
    vector."""
    names = [f.name for f in fields(problem) if "uncounted" not in f.metadata]
    start = None if problem.start is None else problem.start.free_vector
    return [*(getattr(problem, name) for name in names if name != "start"), start]


counts_as(Discretisation, _counted)
counts_as(Formulation, lambda whole: [whole.question])  # the rest follows from it
