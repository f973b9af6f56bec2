"""A question and its trials as a nonlinear program: minimise the cost of a free vector z within
bounds, subject to constraints.

It is a value: a problem of some trials, on other grids, with other numbers is another one, made by
`replace`, with the same library. Solving, estimating, guessing and explaining are functions of it.
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
from kinesym.internal.problems.jump_times import without_inputs
from kinesym.internal.problems.parameters import Unknown, priors_of, without_distribution
from kinesym.internal.problems.per_trial import Loosened, PerTrial
from kinesym.internal.problems.pipeline import make_nlp, with_data
from kinesym.internal.problems.random_effects import Numbers, Population, population
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.estimation import Estimation
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
from kinesym.symbolic.model import Model
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme

Pair = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Discretisation:
    """The nonlinear program of trials on their grids.

    formulation, libraries : what is the same for all trials. per_trial : what is not. unknown,
    priors : records of unknown parameters, and means and standard deviations of those that have a
    distribution, as far as they are known. held : entries of z at which parameters are held (r,),
    NaN of those that are free; None for all. effects : random effects whose distributions are
    known; None for those of `unknown`. start : the solution from which solves begin. threads : for
    evaluation and linear algebra; None for as many as there are.

    The first look at its functions raises `MemoryError` where there is not enough; `of` raises
    `ValueError` for bounds that are crossed, for samples of noise at the last node, and where too
    few owners tell a spread.
    """

    formulation: Formulation
    libraries: Libraries = field(metadata=UNCOUNTED)
    per_trial: PerTrial
    unknown: Mapping[str, Unknown]
    priors: Numbers
    held: Array | None = None
    effects: Population | None = None
    start: Solution | None = None
    threads: int | None = field(default=None, metadata=UNCOUNTED)

    @staticmethod
    def of(formulation: Formulation, per_trial: PerTrial, threads: int | None) -> Discretisation:
        """All trials of a question, with its library; raises as this class says."""
        unknown, libraries = formulation.unknown, Libraries(formulation.symbolic)
        about = (unknown, priors_of(unknown))
        made = Discretisation(formulation, libraries, per_trial, *about, threads=threads)
        if formulation.noisy:
            made._check_last_samples()
        made.population, made.variable_bounds  # noqa: B018  (they raise for what does not fit)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """The fields; all else follows from them."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    # -- other problems of the same library --------------------------------------------------

    def on(self, trials: Sequence[Experiment]) -> Discretisation:
        """The same problem with other data of each trial, such as on other grids."""
        return replace(self, per_trial=self.per_trial.on(trials), start=None)

    def some(self, numbers: Sequence[int]) -> Discretisation:
        """The problem of the trials of these numbers."""
        return replace(self, per_trial=self.per_trial.some(numbers), start=None)

    def with_std(self, std: Mapping[str, float]) -> Discretisation:
        """The same problem with standard deviations, by group, where they were not known."""
        return replace(self, per_trial=self.per_trial.with_std(std), start=None)

    def with_known(self, known: Sequence[Mapping[str, float]]) -> Discretisation:
        """The same problem with other values of known parameters, of each trial."""
        return replace(self, per_trial=self.per_trial.with_known(known), start=None)

    def loosen(self, conditions: Sequence[Loosened]) -> Discretisation:
        """The same problem in which these conditions may be off."""
        return replace(self, per_trial=self.per_trial.loosen(conditions), start=None)

    def holding(self, entries: Array) -> Discretisation:
        """The same problem with parameters held at entries of z (r,), NaN for those that stay
        free; on other grids, too."""
        return replace(self, held=entries, start=None)

    def with_priors(self, numbers: Numbers) -> Discretisation:
        """The same problem with means and standard deviations that were unknown."""
        return replace(self, priors={**self.priors, **numbers}, start=None) if numbers else self

    def with_unknown(self, unknown: Mapping[str, Unknown]) -> Discretisation:
        """The same problem with other distributions of its unknown parameters."""
        return replace(self, unknown=unknown, priors=priors_of(unknown), start=None)

    def without_distributions(self) -> Discretisation:
        """The same problem with nothing known of the distributions that are unknown."""
        free = {name: without_distribution(p) for name, p in self.unknown.items()}
        return replace(self, unknown=free, start=None)

    def placed_at(self, z: Array) -> Discretisation:
        """This problem with all samples in the intervals where unknown delays place them at z."""
        delays = delays_at(self.about, self.layout, z)
        return self if fit(self.trials, delays) else self.on(placed(self.trials, delays))

    # -- what it is of -----------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model of all trials."""
        return self.formulation.model

    @property
    def symbolic(self) -> Problem:
        """The problem of which the kernels are generated."""
        return self.formulation.symbolic

    @property
    def scheme(self) -> CollocationScheme:
        """The scheme of discretisation."""
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
        """The times at which a condition begins or ends to hold [s]."""
        return self.formulation.instants(self.trials)

    # -- the nonlinear program ---------------------------------------------------------------

    @cached_property
    def nlp(self) -> NLP:
        """Objective, constraints and their exact derivatives."""
        made = self.nlp_of(self.libraries.exact, self.trials)
        sizes = forecast(made)
        check_sizes(sizes)
        check_free(sizes.evaluation, sizes, "use fewer nodes")
        return made

    @cached_property
    def residual_nlp(self) -> NLP:
        """The residuals of the measurements. Raises `ValueError` without `LeastSquares`."""
        return self.nlp_of(self.libraries.residuals, self.trials)

    @cached_property
    def gauss_newton(self) -> NLP:
        """The same nonlinear program with the Hessian of its linearised residuals."""
        return self.nlp_of(self.libraries.gauss_newton, self.trials, curved=False)

    @cached_property
    def first_samples(self) -> NLP:
        """The same with the first samples only, by which a start is measured."""
        trials = first_samples(self.symbolic, self.layout, self.trials)
        return self.nlp_of(self.libraries.exact, trials)

    def nlp_of(self, built: Built, trials: Sequence[Experiment], curved: bool = True) -> NLP:
        """The nonlinear program by a library, of trials on the grids that they have."""
        numbers = (self.known, self.threads, self.priors)
        lags = self.per_trial.lags(self.formulation.lags)
        return make_nlp(built, trials, *numbers, lags, curved)

    def nlp_with(self, nlp: NLP, trials: Sequence[Experiment], numbers: Numbers) -> NLP:
        """A nonlinear program of the same grids with other data, and distributions."""
        return with_data(nlp, trials, self.known, {**self.priors, **numbers})

    def ipopt(self, nlp: NLP) -> IpoptProblem:
        """A nonlinear program of it for IPOPT."""
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
        """What the entries of z and the constraints are."""
        return self.nlp.layout

    @property
    def about(self) -> CollocationManifest:
        """What the library says of itself."""
        return self.nlp.about

    @property
    def sizes(self) -> Forecast:
        """The memory that it needs."""
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
        """The random effects among its parameters."""
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

    @cached_property
    def ends(self) -> Mapping[tuple[int, str], HeldEnd]:
        """Last nodes of inputs that are held between nodes."""
        return held_ends(self.nlp, self.constraint_bounds)

    @cached_property
    def absent(self) -> NDArray[np.bool_]:
        """Which entries of z are of phases that lack them."""
        return entries_of(self.layout, [row.lacking for row in self.per_trial.rows])

    @cached_property
    def variable_bounds(self) -> Pair:
        """Lower and upper bounds of z, (n,) each."""
        given, ends = self.formulation, self.ends.values()
        about = (given.bounds, ends, given.every, self.absent)
        sides = variable_bounds(self.layout, self.trials, *about)
        if self.held is not None:
            for side in sides:
                mine = self.layout.parameter_values(side)
                mine[:] = np.where(np.isnan(self.held), mine, self.held)
        return sides

    @property
    def free_directions(self) -> int:
        """In how many directions z can move, at most."""
        low, high = self.constraint_bounds
        return max(self.n_variables - int((low == high).sum()), 0)

    def _check_last_samples(self) -> None:
        """What is measured at the last node must not depend on noise that would begin there."""
        for (trial, name), end in self.ends.items():
            noise = self.formulation.noises.get(name)
            if end.used and noise in self.model.outputs:
                t = self.trials[trial].grid[-1]
                raise ValueError(
                    f"the noise {noise} acts between nodes, so that at the last one, t = {t:g} s, "
                    "it has no value: what is measured there, or asked of the end, depends on it; "
                    "make the last sample NaN"
                )

    # -- values and derivatives --------------------------------------------------------------

    def cost(self, z: Array) -> float:
        """The objective at z."""
        return self.placed_at(z).nlp.cost(z)

    def cost_gradient(self, z: Array) -> Array:
        """Its gradient, (n_variables,)."""
        return self.placed_at(z).nlp.gradient(z)

    def residuals(self, z: Array) -> Array:
        """(modelled - measured)/std of the samples that are not missing, (n_samples,)."""
        return self.placed_at(z).residual_nlp.residuals(z)

    def residual_jacobian(self, z: Array) -> csr_array:
        """Their derivatives, (n_samples, n_variables)."""
        return self.placed_at(z).residual_nlp.residual_jacobian(z)

    def constraints(self, z: Array) -> Array:
        """The constraints at z, (n_constraints,)."""
        return self.nlp.constraints(z)

    def constraint_jacobian(self, z: Array) -> csr_array:
        """Their Jacobian, (n_constraints, n_variables), with its exact structure."""
        entries = (self.nlp.jacobian(z), self.nlp.jacobian_structure.arrays())
        return coo_array(entries, shape=(self.n_constraints, self.n_variables)).tocsr()

    def lagrangian_hessian(self, z: Array, multipliers: Array, cost_factor: float) -> csr_array:
        """Second derivatives of cost_factor * cost + multipliers . constraints, symmetric."""
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
        """All states and unknown inputs at the nodes of a trial, copies."""
        found = self.layout.courses(z, number, self.about.stages, self.about.to_ends)
        return {name: row.copy() for name, row in found.items()}

    def parameters(self, z: Array) -> dict[str, float]:
        """The unknown parameters, those of all owners."""
        values = self.layout.owned.natural(self.layout.parameter_values(z))
        return dict(zip(self.layout.parameters, map(float, values), strict=True))

    def estimates(self, z: Array) -> dict[str, float]:
        """The parameters, what is unknown of distributions before the random effects."""
        found, some = self.parameters(z), self.population
        h = some.natural(some.entries(self.priors)).tolist()
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
        """All parameters of a trial, known ones too, without the names of their owners."""
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
        """All trials of z, with NaN for what is hidden."""
        functions = PointFunctions(self.libraries.exact, self.known)
        shown = z if hidden is None else np.where(hidden, np.nan, z)
        found = [
            found_trajectory(
                *(self.symbolic, self.nlp, functions, trial, k, shown), self.parameters_of(z, k)
            )
            for k, trial in enumerate(self.trials)
        ]
        rows = zip(found, self.per_trial.rows, strict=True)
        found = [replace(run, before=table_before(row.before, run)) for run, row in rows]
        return [without_inputs(run, self.formulation.hidden) for run in found]

    # -- solutions of it ---------------------------------------------------------------------

    @cached_property
    def estimation(self) -> Estimation:
        """What is estimated from which samples."""
        objective = self.symbolic.objective
        mixed = bool(objective.integrand != 0 or objective.terminal != 0)
        integrated = self.formulation.noisy or bool(self.population)
        loss, priors = RobustLoss.of(objective.loss), bool(self.symbolic.priors)
        about = (float(objective.least_squares), loss, priors, mixed, integrated)
        return Estimation(self.trials, *about)

    @property
    def histories(self) -> list[str]:
        """Names of parameters that are what signals were before the start."""
        owned, known = self.layout.owned, self.formulation.histories
        pairs = zip(owned.names, owned.members, strict=True)
        return [name for name, parameter in pairs if parameter in known]

    @property
    def delays(self) -> list[dict[str, float]]:
        """Of each trial, at which unknown delays samples are placed; nothing if there are none."""
        names = self.symbolic.delays
        return [
            {name: own.delay for name, own in trial.timed.items() if name in names}
            for trial in (self.trials if names else ())
        ]

    def fits(self, solution: Solution) -> bool:
        """Whether `solution` has the free vector and the constraints of this problem."""
        layout, other = self.layout, solution.problem
        return (
            list(solution.parameters) == self.estimated
            and other.get("nodes") == layout.nodes
            and other.get("arrays") == layout.arrays
            and other.get("scheme") == self.symbolic.scheme.name
            and other.get("log_scale", []) == sorted(self.symbolic.log_scale)
            and solution.free_vector.shape == (self.n_variables,)
            and solution.multipliers.shape == (self.n_constraints,)
        )

    def on_grid_of(self, solution: Solution) -> Discretisation:
        """This problem on the grid of a solution, without what was left out for it; itself if it
        is the same. Raises `ValueError` for a solution of another problem."""
        apart = [(i, family, k, room) for i, family, k, room in solution.problem.get("apart", ())]
        if {*apart} != {*self.per_trial.loosened}:
            return self.loosen(apart).on_grid_of(solution)
        if self.fits(solution):
            delays = solution.problem.get("delays", [])
            same = not delays or delays == self.delays
            return self if same else self.on(placed(self.trials, delays))
        grids = [run.time for run in solution.trials]
        if self.layout.free_duration:
            grids = [(t - t[0]) / (t[-1] - t[0]) for t in grids]
        if len(grids) == len(self.trials):
            pairs = zip(self.trials, grids, strict=True)
            made = self.on([trial.on_grid(grid) for trial, grid in pairs])
            if made.fits(solution):
                return made.on_grid_of(solution)
        raise ValueError("this is a solution of another problem, or by another scheme")


def _counted(problem: Discretisation) -> Sequence[Any]:
    """What a digest counts: every field but those named as uncounted; of the solution from which
    solves begin only where it ends."""
    names = [f.name for f in fields(problem) if "uncounted" not in f.metadata]
    start = None if problem.start is None else problem.start.free_vector
    return [*(getattr(problem, name) for name in names if name != "start"), start]


counts_as(Discretisation, _counted)
counts_as(Formulation, lambda whole: [whole.question])  # the rest follows from it
