"""A model and trials as a nonlinear program, open to inspection."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from kinesym import checks
from kinesym.codegen.kernel import Program
from kinesym.codegen.point import with_point
from kinesym.codegen.transcribe import residual_program, transcribe
from kinesym.internal.asked import asked
from kinesym.internal.equation_delays import bounds_of_delays, lags_of
from kinesym.internal.free_history import free_history
from kinesym.internal.homotopy import with_homotopy
from kinesym.internal.moments import check_within
from kinesym.internal.observer import asked_observer
from kinesym.internal.parameters import (
    Unknown,
    checked_unknowns,
    is_random,
    known_values,
    priors_of,
    without_distribution,
)
from kinesym.internal.phases import Phases, check_starts
from kinesym.internal.pipeline import make_nlp, realise
from kinesym.internal.population import Numbers, population
from kinesym.internal.problem import (
    bounded,
    bounds_by_name,
    check_index,
    highest_index,
    named_bounds,
    symbolic_problem,
    warn_of_degrees,
    warn_of_rates_at_ends,
)
from kinesym.internal.process_noise import driven
from kinesym.internal.sensor_delays import delayed
from kinesym.internal.sensors import with_sensors
from kinesym.internal.smooth_phases import smooth_phases
from kinesym.internal.straight import fixed_values
from kinesym.internal.switch_times import held_switches
from kinesym.notebook import Displayed
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.ipopt.library import warn_if_missing
from kinesym.runtime.library.manifest import Built, CollocationManifest
from kinesym.runtime.nlp.bounds import (
    constraint_bounds,
    entries_of,
    held_ends,
    variable_bounds,
)
from kinesym.runtime.nlp.memory import check_free, check_sizes, forecast
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.sensor_delays import delays_at, fit, placed
from kinesym.runtime.progress import waiting_line
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.signals.corridor import changes
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import listed
from kinesym.symbolic.delayed import delays_of_sensors
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import LeastSquares, Objective
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import scheme_named

_Same = TypeVar("_Same", bound="Discretised")

#: Trial, family and number of a condition at an end that follows from others, and how far off it
#: may be.
Apart = tuple[int, str, int, float]


class Discretised(Displayed):
    """The nonlinear program of trials on their grids: minimise the cost of a free vector z within
    bounds, subject to constraints. What it is made from: see `Collocation`."""

    def __init__(
        self,
        system: Model | Hybrid,
        trials: Experiment | Sequence[Experiment] | Phases,
        unknown: Mapping[Any, Any] | None = None,
        known: Mapping[Any, float] | None = None,
        scheme: str = "radau-3",
        objective: Objective | None = None,
        bounds: Mapping[Any, Any] | None = None,
        boundary: Sequence[Any] = (),
        path: Sequence[Any] = (),
        unknown_inputs: Mapping[Any, Any] | None = None,
        threads: int | None = None,
        sensors: Mapping[str, Any] | None = None,
        noise: Mapping[Any, Any] | None = None,
        homotopy: str | None = None,
    ) -> None:
        told = {name: value for name, value in locals().items() if name not in ("self", "threads")}
        self._arguments: Mapping[str, Any] = told  # all of it, whatever arguments there are
        self._holds: Array | None = None
        self._scheme = scheme_named(scheme)
        most = highest_index(self._scheme.name)
        sequence = smooth_phases(system, trials, objective, (known, unknown), unknown_inputs, most)
        self._noisy, aim = bool(noise), sequence.objective
        system = with_homotopy(with_sensors(sequence.system, sensors), aim, boundary, path)
        self._observer = asked_observer(system, sequence.trials, homotopy, bool(noise))
        self._posed: tuple[Any, ...] = (
            *(sequence.trials, unknown, known, scheme, objective),
            *(bounds, boundary, path, unknown_inputs, threads),
        )
        if noise:
            driving = (noise, unknown, known, unknown_inputs, aim)
            system, unknown, known, unknown_inputs, objective = driven(system, *driving)
        sequence = replace(sequence, system=system, objective=objective if noise else aim)
        self._asked = meant = asked(sequence, most, unknown_inputs, bounds, path, boundary)
        given = meant.given
        self.model = model = given.model
        checks.threads(threads)  # whether it is a number of them; None stays: each process decides
        self._threads = threads
        self._unknown = checked_unknowns(unknown, model.parameter_names)
        self._priors: Numbers = priors_of(self._unknown)
        free = by_name(given.unknown_inputs, model.given_names, "unknown_inputs")
        free |= {delay.name: None for delay in model.delays}
        if model.index.value is not None:  # else unknown inputs may determine what is left
            check_index(model, most, f"the scheme {self._scheme.title}")
        values = {} if known is None else known
        self._known = known_values(model, self._unknown, values, given.trials)
        about = (model, given.trials, self._unknown, self._known)
        plain = not (bounds or any((given.unknown_inputs, given.path, given.links, given.moments)))
        self._written, self._switches = model, (held := held_switches(*about, insert=plain))
        model, given = held.model, replace(given, model=held.model, trials=held.trials)
        self._before = free_history(model, given.trials, self._unknown, self._known)
        self.model = model = self._before.extended(model)
        given = replace(given, model=model)
        self._unknown |= self._before.unknown
        random = "a distribution to be found" if any(map(is_random, self._unknown.values())) else ""
        if random:
            _check_likelihood(aim)
        beside = "process noise" if noise else random
        shown = delays_of_sensors(model.outputs)
        late = delayed(given.trials, shown, self._unknown, self._known, beside)
        self._gaps = [*late.gaps, *held.notes]
        self.symbolic = symbolic_problem(
            model,
            late.trials,
            self._unknown,
            free,
            self._scheme,
            meant.objective,
            given.contacts,
            late.unknown,
            **given.conditions,
        )
        placed_trials = self._checked(late.trials, free)
        warn_of_degrees(model, late.trials)
        warn_of_rates_at_ends(model, [*self.symbolic.boundary, *self.symbolic.cycle])
        given.check_spans(self.symbolic)
        self._fixed = fixed_values(given, self._known)
        check_starts(model, self._fixed, self._known)
        warn_if_missing()
        self.timings = {"derive": 0.0, "compile": 0.0}
        self.program, self._built = self._transcribed("exact")
        self._limits, self._instants = given.bounds(self.symbolic), given.instants
        self._apart: Sequence[Apart] = ()
        self._place(placed_trials)

    def _checked(self, trials: Sequence[Experiment], free: Mapping[str, Any]) -> list[Experiment]:
        """The trials with bounds that change over time; others, and delays, are noted. free :
        unknown inputs as they were asked for. Raises `ValueError` for what does not fit."""
        model, about = self.model, (self._unknown, self._known)
        sides = bounds_by_name(model, free, self._asked.bounds)
        fixed = {name: bound for name, bound in sides.items() if not changes(bound)}
        self._bounds = named_bounds(model, self._unknown, fixed)
        self._bounds |= bounds_of_delays(model, self._unknown)
        check_within(trials, self._asked.moments, *about)
        self._lags = lags_of(model, trials, *about, self.symbolic.held, self._before.of)
        return bounded(model, trials, free, sides)

    def _place(self, trials: Sequence[Experiment]) -> None:
        """The nonlinear program of these trials, with its bounds; raises `MemoryError`."""
        self.trials = trials
        self._start: Solution | None = None
        self.nlp = self._nlp(self._built, trials)
        self.layout = self.nlp.layout
        self._population = population(self._unknown, self.layout.owned, self._intensities)
        self._sizes = forecast(self.nlp)
        check_sizes(self._sizes)
        check_free(self._sizes.evaluation, self._sizes, "use fewer nodes")
        self.constraint_bounds = constraint_bounds(self.layout, self._limits)
        for trial, family, label, room in self._apart:
            i = self.layout.constraint_offsets[trial, family] + label
            self.constraint_bounds[0][i] -= room
            self.constraint_bounds[1][i] += room
        self._ends = held_ends(self.nlp, self.constraint_bounds)
        if self._noisy:
            self._check_last_samples()
        ends = self._ends.values()
        self._absent = entries_of(self.layout, self._asked.lacking)
        self.variable_bounds = variable_bounds(
            self.layout, trials, self._bounds, ends, self._asked.every, self._absent
        )
        if self._holds is not None:
            for side in self.variable_bounds:
                mine = self.layout.parameter_values(side)
                mine[:] = np.where(np.isnan(self._holds), mine, self._holds)

    def _check_last_samples(self) -> None:
        """What is measured at the last node must not depend on noise that would begin there."""
        for (trial, name), end in self._ends.items():
            noise = name.removeprefix("white_")
            if end.used and noise in self.model.outputs:
                t = self.trials[trial].grid[-1]
                raise ValueError(
                    f"the noise {noise} acts between nodes, so that at the last one, t = {t:g} s, "
                    "it has no value: what is measured there, or asked of the end, depends on it; "
                    "make the last sample NaN"
                )

    @property
    def _intensities(self) -> list[str]:
        """Parameters that are intensities of process noise."""
        noises = (u.removeprefix("white_") for u in self.layout.inputs if u.startswith("white_"))
        return [f"sigma_{u}" for u in noises if self._noisy]

    def _on(self: _Same, trials: Sequence[Experiment]) -> _Same:
        """The same problem, and library, with the trials on other grids."""
        made = copy(self)
        for name in ("_gauss_newton", "_residuals", "_of_first_samples"):
            vars(made).pop(name, None)
        made._place(trials)
        return made

    def _holding(self: _Same, entries: Array) -> _Same:
        """The same problem, and library, with parameters held at entries of z (r,), NaN for those
        that stay free; on other grids, too."""
        made = copy(self)
        made._holds = entries
        return made._on(self.trials)

    def _of_trials(
        self: _Same,
        numbers: Sequence[int],
        trials: Sequence[Experiment],
        unknown: Mapping[str, Unknown],
    ) -> _Same:
        """The same problem, and library, of the trials of these numbers, with all that is known."""
        made = copy(self)
        made._unknown, made._priors = dict(unknown), priors_of(unknown)
        made._known = [self._known[k] for k in numbers]
        made._fixed = [self._fixed[k] for k in numbers]
        made._before = replace(self._before, courses=[self._before.courses[k] for k in numbers])
        made._lags = [lag.of_trials(numbers) for lag in self._lags]
        made._limits = {f: [rows[k] for k in numbers] for f, rows in self._limits.items()}
        places = {k: place for place, k in enumerate(numbers)}
        made._apart = [(places[row[0]], *row[1:]) for row in self._apart if row[0] in places]
        return made._on(trials)

    def _like(self: _Same, other: Discretised, trials: Sequence[Experiment]) -> _Same:
        """The same problem, and library, of these trials, with what is known in another problem
        that has the same free vector."""
        made = copy(self)
        kept = ("_fixed", "_before", "_lags", "_limits", "_unknown", "_priors", "_holds", "_apart")
        for name in kept:
            setattr(made, name, getattr(other, name))
        mine = self._known[0]
        made._known = [{n: row.get(n, mine[n]) for n in mine} for row in other._known]
        return made._on(trials)

    def _without_those(self: _Same, apart: Sequence[Apart]) -> _Same:
        """The same problem, and library, in which these conditions may be off."""
        made = copy(self)
        made._apart = apart
        return made._on(self.trials)

    def _with_priors(self: _Same, numbers: Numbers) -> _Same:
        """The same problem, and library, with means and standard deviations that were unknown."""
        if not numbers:
            return self
        made = copy(self)
        made._priors = {**self._priors, **numbers}
        return made._on(self.trials)

    def _without_population(self: _Same) -> _Same:
        """The same, and library, with nothing known of the distributions that are unknown."""
        made = copy(self)
        made._unknown = {name: without_distribution(p) for name, p in self._unknown.items()}
        return made._on(self.trials)

    def _placed_at(self: _Same, z: Array) -> _Same:
        """This problem with all samples in the intervals where unknown delays place them at z."""
        delays = delays_at(self._about, self.layout, z)
        return self if fit(self.trials, delays) else self._on(placed(self.trials, delays))

    def __repr__(self) -> str:
        count, nodes = len(self.trials), sum(self.layout.nodes)
        return (
            f"<collocation of {self.model.name}: {count} trial{'s' * (count > 1)} of {nodes} "
            f"nodes, unknown {listed(self.layout.parameters) or 'no parameters'}, "
            f"{self.n_variables} variables, {self.n_constraints} constraints>"
        )

    def _transcribed(self, hessian: str) -> tuple[Program, Built]:
        """The program with this Hessian, built."""
        start = time.perf_counter()
        program, built = _transcribed(self.symbolic, tuple(self.symbolic.measurements), hessian)
        self._count(time.perf_counter() - start, built)
        return program, built

    def _count(self, seconds: float, built: Built) -> None:
        """Add the time that a library took."""
        compiling = built.compile if built.compile < seconds else 0.0  # it was kept
        self.timings["derive"] += seconds - compiling
        self.timings["compile"] += compiling

    @cached_property
    def _residuals(self) -> NLP:
        """The residuals of the measurements, in a library of their own that few need."""
        if not self.symbolic.objective.least_squares:
            raise ValueError("the objective has no LeastSquares, so that there are no residuals")
        return self._nlp(self._residual_library, self.trials)

    @cached_property
    def _residual_library(self) -> Built:
        start = time.perf_counter()
        built = _with_residuals(self.symbolic, tuple(self.symbolic.measurements))
        self._count(time.perf_counter() - start, built)
        return built

    @cached_property
    def _gauss_newton(self) -> NLP:
        """The same nonlinear program with the Hessian of its linearised residuals."""
        if not self.symbolic.objective.least_squares:
            raise ValueError(
                "hessian='gauss-newton' needs an objective with LeastSquares; use 'exact'"
            )
        built = self._transcribed("gauss-newton")[1]
        return self._nlp(built, self.trials, curved=False)

    def _nlp(self, built: Built, trials: Sequence[Experiment], curved: bool = True) -> NLP:
        numbers = (self._known, self._threads, self._priors)
        return make_nlp(built, trials, *numbers, self._lags, curved)

    # -- the nonlinear program, open to inspection ------------------------------------------

    @property
    def n_variables(self) -> int:
        """Length of the free vector z."""
        return self.nlp.n_variables

    @property
    def n_constraints(self) -> int:
        """Number of constraints."""
        return self.nlp.n_constraints

    def unpack(self, z: Array) -> dict[str, Any]:
        """Values by name: (N,) for trajectories (a list of these for several trials), numbers."""
        layout, z = self.layout, self._free(z)
        result: dict[str, Any] = {}
        courses = [self._courses(z, trial) for trial in range(len(self.trials))]
        for name in courses[0]:
            rows = [course[name] for course in courses]
            result[name] = rows if len(rows) > 1 else rows[0]
        result.update(self._parameters(z))
        if layout.free_duration:
            result["duration"] = layout.durations(z).copy()
        return result

    def _free(self, z: ArrayLike) -> Array:
        return _vector(z, "the entries of the free vector", self.n_variables)

    def cost(self, z: Array) -> float:
        """The objective at z."""
        z = self._free(z)
        return self._placed_at(z).nlp.cost(z)

    def cost_gradient(self, z: Array) -> Array:
        """Its gradient, (n_variables,)."""
        z = self._free(z)
        return self._placed_at(z).nlp.gradient(z)

    def residuals(self, z: Array) -> Array:
        """(modelled - measured)/std of the samples that are not missing, (n_samples,), with std = 1
        where it is not known: by trial, then what is measured between nodes, at nodes, and at the
        ends; there by channel; there in time. Raises `ValueError` without `LeastSquares`."""
        z = self._free(z)
        return self._placed_at(z)._residuals.residuals(z)

    def residual_jacobian(self, z: Array) -> csr_array:
        """Their derivatives, (n_samples, n_variables)."""
        z = self._free(z)
        return self._placed_at(z)._residuals.residual_jacobian(z)

    def constraints(self, z: Array) -> Array:
        """The constraints at z, (n_constraints,): equations, path conditions, boundary conditions
        of each trial; see `constraint_name`."""
        return self.nlp.constraints(self._free(z))

    def constraint_jacobian(self, z: Array) -> csr_array:
        """Their Jacobian, (n_constraints, n_variables), with its exact structure."""
        entries = (self.nlp.jacobian(self._free(z)), self.nlp.jacobian_structure.arrays())
        return coo_array(entries, shape=(self.n_constraints, self.n_variables)).tocsr()

    def lagrangian_hessian(
        self, z: Array, multipliers: ArrayLike, cost_factor: float = 1.0
    ) -> csr_array:
        """Second derivatives of cost_factor * cost + multipliers . constraints, symmetric."""
        rows, columns = self.nlp.hessian_structure.arrays()
        given, z = _vector(multipliers, "the multipliers", self.n_constraints), self._free(z)
        values = self._placed_at(z).nlp.hessian(z, given, cost_factor)
        off = rows != columns
        entries = (
            np.concatenate([values, values[off]]),
            (np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])),
        )
        return coo_array(entries, shape=(self.n_variables, self.n_variables)).tocsr()

    def variable_name(self, j: int) -> str:
        """What z[j] is, in words."""
        return self.layout.variable_name(checks.count(j, "the number of a variable", least=0))

    def constraint_name(self, i: int) -> str:
        """What constraint i is, in words."""
        return self.layout.constraint_name(checks.count(i, "the number of a constraint", least=0))

    # -- parts of the free vector ----------------------------------------------------------------

    def _courses(self, z: Array, number: int) -> dict[str, Array]:
        """All states and unknown inputs at the nodes of a trial, copies."""
        found = self.layout.courses(z, number, self._about.stages, self._about.to_ends)
        return {name: row.copy() for name, row in found.items()}

    @property
    def _about(self) -> CollocationManifest:
        return self.nlp.about

    def _parameters(self, z: Array) -> dict[str, float]:
        values = self.layout.owned.natural(self.layout.parameter_values(z))
        return dict(zip(self.layout.parameters, map(float, values), strict=True))

    def _estimates(self, z: Array) -> dict[str, float]:
        """The parameters, what is unknown of distributions before the random effects."""
        found, some = self._parameters(z), self._population
        h = some.natural(some.entries(self._priors)).tolist()
        found |= dict(zip(some.names, h, strict=True))
        return {name: found[name] for name in self._rows}

    @property
    def _rows(self) -> list[str]:
        """Names of the estimates, in order."""
        names, random = self.layout.parameters, self._population.random
        fixed = [name for name, drawn in zip(names, random, strict=True) if not drawn]
        drawn = [name for name in names if name not in fixed]
        return [*fixed, *self._population.names, *drawn]

    def _parameters_of(self, z: Array, trial: int) -> dict[str, float]:
        """All parameters of a trial, known ones too, without the names of their owners."""
        values = map(float, self.layout.parameters_of(z, trial))
        return {
            **self._known[trial],
            **dict(zip(self.layout.owned.parameters, values, strict=True)),
        }

    def _content(self) -> tuple[Any, ...]:
        """What a study knows it by: all that was given, what solves begin from and are held by."""
        start = None if self._start is None else self._start.free_vector
        bounds = (*self.variable_bounds, *self.constraint_bounds)
        return self._arguments, self.trials, self._known, self._priors, start, bounds

    def _fits(self, solution: Solution) -> bool:
        """Whether `solution` has the free vector and the constraints of this problem."""
        layout, other = self.layout, solution.problem
        return (
            list(solution.parameters) == self._rows
            and other.get("nodes") == layout.nodes
            and other.get("arrays") == layout.arrays
            and other.get("scheme") == self.symbolic.scheme.name
            and other.get("log_scale", []) == sorted(self.symbolic.log_scale)
            and solution.free_vector.shape == (self.n_variables,)
            and solution.multipliers.shape == (self.n_constraints,)
        )


@lru_cache(maxsize=4)
def _transcribed(
    problem: Problem, measurements: tuple[str, ...], hessian: str
) -> tuple[Program, Built]:
    """The program of a problem, built, and kept for the next one that differs in numbers only.

    measurements : in their order, which equal problems need not share.
    """
    with waiting_line("deriving equations and derivatives"):
        program = transcribe(problem, hessian)
        program = with_point(program, problem) if hessian == "exact" else program
    return program, realise(program)


@lru_cache(maxsize=4)
def _with_residuals(problem: Problem, measurements: tuple[str, ...]) -> Built:
    """The library of the residuals of a problem, kept as `_transcribed` is."""
    return realise(residual_program(problem))


def _vector(values: ArrayLike, what: str, size: int) -> Array:
    row = real_array(values, what)
    if row.shape != (size,):
        raise ValueError(f"{what} are {size} numbers, got {row.shape}")
    return row


def _check_likelihood(objective: Objective | None) -> None:
    """Raise `ValueError` for an objective beside a distribution that is to be found."""
    if objective not in (None, LeastSquares()):
        raise ValueError(
            "with an unknown mean or sd the objective is the likelihood of the measurements; "
            "leave objective out"
        )
