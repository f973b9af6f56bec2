"""`ks.hybrid.Shooting`: identification of hybrid models by simulation, with exact gradients."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from kinesym.hybrid_courses import new_names, per_trial, trial_courses
from kinesym.runtime import checks
from kinesym.runtime.arrays import real_array
from kinesym.runtime.collocation import bound_pair, results_of
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.fit import Fit, check_guess, poor_fits, typical_sizes, vector_of_guess
from kinesym.runtime.hybrid_sensitivity import Sensitivities
from kinesym.runtime.hybrid_simulation import INTERRUPTED
from kinesym.runtime.minimise import OPTIMIZERS, Minimisation, Minimum, minimise
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.shooting import Diverged, Unknowns
from kinesym.runtime.signals import SignalGradient
from kinesym.runtime.statistics import Estimate, confidence_of_squares
from kinesym.runtime.trajectory import Trajectory
from kinesym.shooting_task import initial_values
from kinesym.simulation import sensitivities
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, suggest
from kinesym.task import (
    checked_trials,
    known_values,
    named_bounds,
    one_number,
    warn_of_degrees,
)

Array = NDArray[np.float64]

MODES = ("adjoint", "forward")


class Shooting:
    """Least squares of measured states as a function of few unknowns; trajectories follow by
    simulation from event to event.

    Parameters
    ----------
    hybrid : the model with its events, contacts and muscles.
    trials : an experiment, or several that share the unknown parameters. Their measurements are
        states of the model, NaN where missing; their inputs are lines between samples.
    unknown : parameters to be found, with bounds (low, high); None for free.
    known : values of the other parameters; the model's values where not given.
    initial : value of every state at the start, as in `ks.Shooting`: by name, or a list of such
        mappings, one per trial.
    courses : inputs that break exactly where they should, a mapping for all trials or one for each.
        An input is a `Signal`, a number, or (begins, values, slopes) of its pieces, in which
        entries may be expressions of parameters. Symbols that the model does not have become
        parameters too, so that a break, a level or a slope can be unknown.
    active : contacts that press at the start. rtol, atol : as of `ks.simulate`.

    The vector q of unknowns holds parameters and unknown initial states; see `names`. Derivatives
    are those of the motion, with the sequence of events that it has there: where that changes, or
    an unknown break passes a sample, the objective has a kink. The object keeps the runs of the
    last q, so that cost and gradient share a simulation: it is not for several threads at once.
    Raises `ValueError` for what does not fit.
    """

    def __init__(
        self,
        hybrid: Hybrid,
        trials: Experiment | Sequence[Experiment],
        unknown: Mapping[Any, Any] | None = None,
        known: Mapping[Any, float] | None = None,
        initial: Mapping[Any, Any] | None = None,
        courses: Mapping[Any, Any] | Sequence[Mapping[Any, Any]] | None = None,
        active: Sequence[str] = (),
        rtol: float = 1e-9,
        atol: float = 1e-11,
    ) -> None:
        self.hybrid, self.trials = hybrid, _checked_trials(hybrid, trials)
        self.model, count = hybrid.model, len(self.trials)
        self._pressing, self._options = _options(hybrid, active, rtol, atol)
        warn_of_degrees(self.model, self.trials)
        self._courses = [
            trial_courses(hybrid, trial, mine, k)
            for k, (trial, mine) in enumerate(
                zip(self.trials, per_trial(courses, count), strict=True)
            )
        ]
        self._more = new_names(self.model, self._courses)
        every = [*self.model.parameter_names, *self._more]
        unknown = by_name({} if unknown is None else unknown, every, "unknown")
        given = by_name({} if known is None else known, every, "known")
        self._known = _known(self.model, unknown, given, self._more)
        self._starts, start_bounds = initial_values(self.model, initial, count)
        if not (unknown or start_bounds):
            raise ValueError(
                "nothing is unknown; name parameters in unknown={...}, or an unknown start"
            )
        self._unknowns = Unknowns(
            self.model.state_names,
            tuple(p for p in every if p in unknown),
            tuple(start_bounds),
            (),
            tuple((0,) for _ in self.trials),
            tuple(trial.n_nodes for trial in self.trials),
        )
        bounds = _bounds(self.model, unknown, self._more)
        pairs = [
            *(bounds[p] for p in self._unknowns.parameters),
            *(start_bounds[x][k] for k in range(count) for x in start_bounds),
        ]
        self.bounds = np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])
        self._q: Array | None = None
        self._runs: list[Sensitivities] = []
        self._failure = ""

    # -- the unknowns -----------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """What each entry of q is."""
        return list(self._unknowns.names)

    def pack(self, guess: Any = None) -> Array:
        """q from values by name (a state stands for its initial value, one or a list with one per
        trial), an array, a `Fit` of this or another problem, a `Trajectory` or a list with one per
        trial, or None.

        What is not given comes from the model's values, the first measurements, or zero; this and
        results are moved into the bounds. Raises `ValueError` naming what has a wrong size or lies
        outside its bounds.
        """
        unknowns, result = self._unknowns, results_of(guess)
        if isinstance(guess, Fit) and list(guess.names) == self.names:
            return np.clip(guess.values, *self.bounds)
        if result is not None:
            runs, values = result
            if len(runs) != len(self.trials):
                raise ValueError(
                    f"the guess has {len(runs)} trials, this problem {len(self.trials)}"
                )
            starts = {
                x: [run.states[x][0] for run in runs]
                for x in unknowns.initial
                if all(x in run.states for run in runs)
            }
            found = {p: values[p] for p in unknowns.parameters if p in values}
            return np.clip(self._gather({**found, **starts}), *self.bounds)
        if isinstance(guess, Mapping | None):
            names = [*unknowns.parameters, *unknowns.initial]
            q = self._gather(by_name(guess or {}, names, "guess"))
        else:
            q = vector_of_guess(guess, self.names)
        check_guess(q, self.names, self.bounds)
        return q

    def unpack(self, q: ArrayLike) -> dict[str, float]:
        """Values by name, for q or a gradient."""
        return dict(zip(self.names, map(float, vector_of_guess(q, self.names)), strict=True))

    def _gather(self, given: Mapping[str, Any]) -> Array:
        unknowns, count = self._unknowns, len(self.trials)
        made_up = np.full(unknowns.size, np.nan)
        made_up[: len(unknowns.parameters)] = [
            self.model.values.get(p, np.nan) for p in unknowns.parameters
        ]
        for k, trial in enumerate(self.trials):
            made_up[unknowns.starts(k)] = [
                _first(trial.measurements.get(x)) for x in unknowns.initial
            ]
        q = np.clip(np.nan_to_num(made_up), *self.bounds)
        for name, value in given.items():
            row = real_array(value, f"the guess of {name}")
            where = self._places(name)
            if row.shape not in ((), (count,)) or (row.ndim and name in unknowns.parameters):
                expected = "one number" + (
                    "" if name in unknowns.parameters else f" or one per trial ({count})"
                )
                raise ValueError(f"guess of {name} has shape {row.shape}, expected {expected}")
            q[where] = row
        return q

    def _places(self, name: str) -> Any:
        """Where a parameter, or the start of a state in all trials, is in q."""
        unknowns = self._unknowns
        if name in unknowns.parameters:
            return unknowns.parameters.index(name)
        row = unknowns.initial.index(name)
        return [unknowns.starts(k).start + row for k in range(len(self.trials))]

    # -- values and derivatives -------------------------------------------------------------

    def cost(self, guess: Any = None) -> float:
        """J(q), the sum of squares of `residuals`; infinite if a simulation ends early."""
        return self._cost(self.pack(guess))

    def gradient(self, guess: Any = None, mode: str = "adjoint") -> Array:
        """d J/d q, in the order of `names`.

        mode : "adjoint", backwards over steps and events, for any number of unknowns; "forward",
        the same from the derivatives of all residuals. Raises `ValueError` if a simulation ends
        early, with the reason.
        """
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; choose one of {', '.join(MODES)}")
        q = self.pack(guess)
        if mode == "adjoint":
            return self._gradient(q)
        return np.asarray(2.0 * self._residuals(q) @ self._jacobian(q))

    def residuals(self, guess: Any = None) -> Array:
        """(simulated - measured) / std of all samples that are not missing, by trial, then by
        measurement. Raises `ValueError` if a simulation ends early."""
        return self._residuals(self.pack(guess))

    def residual_jacobian(self, guess: Any = None) -> Array:
        """d r/d q, (n_residuals, n_unknowns), forward over steps and events."""
        return self._jacobian(self.pack(guess))

    def trajectories(self, guess: Any = None) -> list[Trajectory]:
        """The simulated trials at q, with what happened and their measurements; raises
        `ValueError` if one ends early."""
        runs = self._simulate(self.pack(guess))
        return [
            replace(made.run, measurements=dict(trial.measurements), std=dict(trial.std))
            for made, trial in zip(runs, self.trials, strict=True)
        ]

    def _values(self, q: Array) -> dict[str, float]:
        """All parameters by name."""
        return {**self._known, **dict(zip(self._unknowns.parameters, map(float, q), strict=False))}

    def _simulate(self, q: Array) -> list[Sensitivities]:
        """The runs at q; raises `Diverged`."""
        if self._q is None or not np.array_equal(q, self._q):
            self._q, self._failure, self._runs = None, "", []
            try:
                self._runs = [self._run(q, k) for k in range(len(self.trials))]
            except Diverged as error:
                self._failure = str(error)
            self._q = q.copy()  # known when all is done: Ctrl-C may come between
        if self._failure:
            raise Diverged(self._failure)
        return self._runs

    def _run(self, q: Array, number: int) -> Sensitivities:
        trial, values = self.trials[number], self._values(q)
        start = {
            **self._starts[number],
            **dict(zip(self._unknowns.initial, q[self._unknowns.starts(number)], strict=True)),
        }
        numbers = {name: values[name] for name in self.model.parameter_names}
        of = f"trial {number}: " if len(self.trials) > 1 else ""
        try:
            inputs = {u: c.at(values) for u, c in self._courses[number].items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an early end is told below
                made = sensitivities(
                    self.hybrid,
                    trial.grid,
                    {**start, **self._pressing},
                    numbers,
                    inputs,
                    **self._options,
                )
        except ValueError as error:  # a start that cannot be, breaks that do not increase
            raise Diverged(f"{of}{error}") from error
        if made.marched.status == INTERRUPTED:
            raise KeyboardInterrupt
        if made.run.message:
            raise Diverged(f"{of}{made.run.message}")
        return made

    def _cost(self, q: Array) -> float:
        try:
            r = self._residuals(q)
        except Diverged:
            return np.inf
        value = float(r @ r)
        return value if np.isfinite(value) else np.inf

    def _residuals(self, q: Array) -> Array:
        parts = [
            ((made.run[name] - measured) / trial.std[name])[~np.isnan(measured)]
            for made, trial in zip(self._simulate(q), self.trials, strict=True)
            for name, measured in trial.measurements.items()
        ]
        return np.concatenate(parts)

    def _gradient(self, q: Array) -> Array:
        result, unknowns = np.zeros(q.size), self._unknowns
        values = self._values(q)
        for k, (made, trial) in enumerate(zip(self._simulate(q), self.trials, strict=True)):
            weights = {
                name: np.nan_to_num(2.0 * (made.run[name] - measured) / trial.std[name] ** 2)
                for name, measured in trial.measurements.items()
            }
            slopes = made.gradient(weights)
            result[unknowns.starts(k)] = [slopes.initial[x] for x in unknowns.initial]
            for j, p in enumerate(unknowns.parameters):
                result[j] += slopes.parameters.get(p, 0.0)
                for u, change in self._changes(k, p, values).items():
                    mine = zip(slopes.inputs[u].parts, change.parts, strict=True)
                    result[j] += sum(float(a @ b) for a, b in mine)
        return result

    def _jacobian(self, q: Array) -> Array:
        unknowns, values, parts = self._unknowns, self._values(q), list[Array]()
        for k, (made, trial) in enumerate(zip(self._simulate(q), self.trials, strict=True)):
            own = [p for p in unknowns.parameters if p in self.model.parameter_names]
            changes = {p: self._changes(k, p, values) for p in unknowns.parameters}
            moved = {p: change for p, change in changes.items() if change}
            along = made.forward(
                [*own, *unknowns.initial], {f"course {p}": change for p, change in moved.items()}
            )
            columns = [
                *(unknowns.parameters.index(p) for p in own),
                *range(q.size)[unknowns.starts(k)],
                *(unknowns.parameters.index(p) for p in moved),
            ]
            for name, measured in trial.measurements.items():
                here = ~np.isnan(measured)
                rows = np.zeros((int(here.sum()), q.size))
                for column, row in zip(columns, along[name], strict=True):
                    rows[:, column] += row[here] / trial.std[name][here]
                parts.append(rows)
        return np.concatenate(parts)

    def _changes(
        self, trial: int, name: str, values: Mapping[str, float]
    ) -> dict[str, SignalGradient]:
        """How the inputs of a trial change with a parameter, those that do."""
        return {
            u: course.by(name, values)
            for u, course in self._courses[trial].items()
            if name in course.names
        }

    # -- solution ---------------------------------------------------------------------------

    def solve(
        self,
        guess: Any = None,
        optimizer: str = "least-squares",
        *,
        scale: bool = True,
        max_iterations: int | None = None,
        tolerance: float = 1e-10,
        options: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> Fit:
        """Minimise the objective; arguments as of `ks.Shooting.solve`.

        Ctrl-C returns the best iterate, marked unconverged. Raises `ValueError` if a simulation
        ends early at the guess.
        """
        if optimizer not in OPTIMIZERS:
            raise ValueError(
                f"unknown optimizer {optimizer!r}; choose one of {', '.join(OPTIMIZERS)}"
            )
        settings, tolerance = checks.options(options), checks.positive(tolerance, "tolerance")
        limit = 500 if max_iterations is None else max_iterations
        limit = checks.count(limit, "max_iterations", least=0)
        begin = time.perf_counter()
        q = self.pack(guess)
        low, high = self.bounds
        for name in np.array(self.names)[low == high]:
            raise ValueError(f"the bounds of {name} are equal; give it as known")
        r = self._residuals(q)  # says why, if it ends early
        J = float(r @ r)
        if not np.isfinite(J):
            raise ValueError(f"the objective is {J} at the guess")
        size, scaled = typical_sizes(q, self.bounds), checks.flag(scale, "scale")
        with iteration_line(progress) as report:
            task = Minimisation(
                self._cost,
                self._gradient,
                size if scaled else np.ones_like(q),
                J if J > 0.0 else 1.0,
                self.bounds,
                report,
                self._values_of_residuals,
                lambda q: _full(self._jacobian(q)),
            )
            found = minimise(optimizer, task, q, tolerance, limit, settings)
        return self._fit(found, task, optimizer, time.perf_counter() - begin)

    def _values_of_residuals(self, q: Array) -> Array:
        try:
            return self._residuals(q)
        except Diverged:
            return np.array([np.inf])

    def _fit(self, ended: Minimum, task: Minimisation, optimizer: str, seconds: float) -> Fit:
        q, unknowns = ended.q, self._unknowns
        J, gradient, runs = self._cost(q), self._gradient(q), self.trajectories(q)
        trials = list(runs)
        natural = np.full(q.size, np.nan)
        for k, run in enumerate(trials):
            natural[unknowns.starts(k)] = [np.abs(run[x]).max() for x in unknowns.initial]
        found = Estimate(q, self.names, self.bounds, J, gradient, natural)
        sure = confidence_of_squares(found, self._jacobian(q))
        notes = [*sure.notes, *poor_fits(trials)]
        return Fit(
            success=ended.success,
            message=ended.message,
            objective=J,
            parameters=dict(zip(unknowns.parameters, map(float, q), strict=False)),
            known=dict(self._known),
            initial=unknowns.initial_values(q),
            trials=trials,
            names=self.names,
            values=q,
            gradient=gradient,
            history=list(task.history),
            condition=sure.condition,
            covariance=sure.covariance,
            active=[name for name, at in zip(self.names, sure.held, strict=True) if at],
            notes=notes,
            timings={"total": seconds},
            optimizer=optimizer,
            model=self.model.name,
        )


# -- checks ---------------------------------------------------------------------------------------


def _checked_trials(hybrid: Any, trials: Any) -> list[Experiment]:
    """The trials as a list, with measurements that are states."""
    listed = checked_trials(hybrid, trials, Hybrid)
    model = hybrid.model
    for number, trial in enumerate(listed):
        if trial.free_duration:
            raise ValueError("shooting needs a known duration; give the times of the trial")
        for name in trial.measurements:
            if name in model.outputs or name in model.input_names:
                kind = "output" if name in model.outputs else "input"
                raise ValueError(
                    f"trial {number} measures {name}, an {kind}: measurements are states here; make"
                    f" it a state of the model, with its rate as equation, or measure states that "
                    "it follows from"
                )
            if name not in model.state_names:
                raise ValueError(
                    f"trial {number} measures {name}, which is no state of "
                    f"{model.name}; {suggest(name, model.state_names)}"
                )
    if not any(trial.measurements for trial in listed):
        raise ValueError("there are no measurements; give measurements={...} in the experiments")
    return listed


def _options(
    hybrid: Hybrid, active: Sequence[str], rtol: float, atol: float
) -> tuple[dict[str, bool], dict[str, Any]]:
    """Contacts that press at the start, and tolerances, checked."""
    rtol, atol = checks.tolerances(rtol, atol)
    names = [contact.name for contact in hybrid.contacts]
    for name in checks.listed(active, "active"):
        if name not in names:
            raise ValueError(f"active: there is no contact {name!r}; {suggest(name, names)}")
    return dict.fromkeys(active, True), {"rtol": rtol, "atol": atol, "progress": False}


def _known(
    model: Model, unknown: Mapping[str, Any], given: Mapping[str, float], more: Sequence[str]
) -> dict[str, float]:
    """Values of the known parameters, those of courses included."""
    values = known_values(model, unknown, {p: v for p, v in given.items() if p not in more})
    for name in more:
        if name in unknown and name in given:
            raise ValueError(f"parameter {name} is both known and unknown")
        if name in unknown:
            continue
        if name not in given:
            raise ValueError(
                f"parameter {name} of a course has no value; give "
                f"known={{{name!r}: ...}} or make it unknown"
            )
        values[name] = one_number(given[name], f"the value of parameter {name}")
    return values


def _bounds(
    model: Model, unknown: Mapping[str, Any], more: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """(low, high) of unknown parameters by name."""
    own = {p: bound for p, bound in unknown.items() if p not in more}
    return {
        **named_bounds(model, own, {}, {}),
        **{p: bound_pair(p, unknown[p]) for p in unknown if p in more},
    }


def _first(measured: Array | None) -> float:
    """The first sample that is not missing."""
    return np.nan if measured is None else float(measured[~np.isnan(measured)][0])


def _full(matrix: Array) -> csr_array:
    """As a sparse matrix in which entries that are zero here are kept: they may change."""
    rows, columns = matrix.shape
    places = (np.tile(np.arange(columns), rows), np.arange(rows + 1) * columns)
    return csr_array((matrix.ravel(), *places), shape=matrix.shape)
