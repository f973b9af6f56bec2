"""Planned experiments: the fits that records without noise would give, at assumed values.

The residuals of such a record are zero where its motion is the assumed one, so that no search is
needed, and the Hessian there is that of Gauss and Newton: one factorisation gives the covariance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from kinesym.internal.fitting.assumed_motion import drawn_noise, motion_near
from kinesym.internal.fitting.curvature import Curvature, interior
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.first_guess import FirstGuess, first_of
from kinesym.internal.fitting.inference import CollocationInference, inference
from kinesym.internal.fitting.marginal_fit import marginal
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.internal.fitting.solution_record import solution_of
from kinesym.internal.fitting.solving import fitted_as
from kinesym.internal.fitting.violations import beyond
from kinesym.internal.problems.formulation import formulate
from kinesym.internal.problems.plausible_units import kinematic_pairs
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.expected import (
    expected_record,
    follow_motion,
    lost_by_limits,
)
from kinesym.runtime.ipopt.driver import Solved
from kinesym.runtime.ipopt.solve import SolverOptions
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.results.bootstrap import noiseless, remeasured
from kinesym.runtime.results.estimates import Uncertainty
from kinesym.runtime.results.fit import Fit, Step
from kinesym.runtime.results.inference import Inference
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.shooting.identification import Identification
from kinesym.runtime.shooting.inference import ShootingInference
from kinesym.runtime.shooting.meeting import meeting
from kinesym.runtime.shooting.minimising import natural_sizes
from kinesym.runtime.shooting.residuals import measured
from kinesym.runtime.shooting.scaled import Chosen
from kinesym.runtime.shooting.task import Task
from kinesym.runtime.signals.experiment import Experiment, key_name
from kinesym.runtime.signals.planned import unbounded
from kinesym.runtime.statistics.densities import SQUARE, Density
from kinesym.runtime.status import Solve
from kinesym.symbolic.names import name_of

#: Records with process noise over which the curvature of the likelihood is taken: of a mass on a
#: spring that is watched for 10 periods, the mean of so many has standard errors within 4 %.
_DRAWS = 30
#: Distance of the assumed motion from the guess, as a share of its size, that is worth a word.
_FAR = 0.1
#: Share of its span by which a bound is passed so slightly that nothing is said.
_SLIGHT = 1e-3
#: Least size of a bound, as a share of the span of both.
_LEAST = 0.05


class Passed(NamedTuple):
    """A bound or inequality that a motion passes in a trial, and by how much at most."""

    condition: str
    trial: int
    most: float

    def __str__(self) -> str:
        return (
            f"the assumed motion passes {self.condition} by {self.most:.2g} in trial {self.trial}; "
            "it is as if that was not there"
        )


@dataclass(frozen=True, eq=False)
class CollocationPlan:
    """A problem of collocation, and the free vector of the assumed motion, which meets the
    equations as `motion_near` makes it. `plan.fit().covariance` is a function of both alone.
    limits : bounds of the motion as the problem has them, which do not move it; those of states are
    taken away. notes : on how far it is from what the guess says. held : whether it is the motion
    from its starts; see `motion_near`."""

    problem: Discretisation
    z: Array
    limits: tuple[Array, Array]
    notes: Sequence[str] = ()
    held: bool = True

    @staticmethod
    def of(problem: Discretisation, guess: Any) -> CollocationPlan:
        """The plan of a guess. Raises `ValueError` for what nothing tells, and where no motion that
        meets the equations is near."""
        limits, problem = problem.variable_bounds, without_bounds_of_states(problem)
        guesses = FirstGuess(problem)
        by_name = isinstance(guess, Mapping | None)
        z = guesses.assumed(guess) if by_name else guesses.pack(guess)
        held = not guesses.gives_courses(guess)
        found = motion_near(problem, z, held=held)
        return CollocationPlan(problem, found, limits, list(_moved(problem, z, found)), held)

    @property
    def runs(self) -> Sequence[Trajectory]:
        """The assumed trajectories."""
        return self.problem.trajectories(self.z)

    @property
    def trials(self) -> Sequence[Experiment]:
        """The trials on their grids."""
        return self.problem.trials

    @property
    def asked(self) -> Sequence[Experiment]:
        """The trials as they were given; raises `ValueError` for phases of one motion."""
        return experiments(self.problem.formulation.question.trials)

    @property
    def begun(self) -> dict[str, Any]:
        """Parameters and starts by name."""
        courses = [self.problem.courses(self.z, k) for k in range(len(self.trials))]
        states = self.problem.model.state_names
        starts = {x: [float(row[x][0]) for row in courses] for x in states if x in courses[0]}
        return {**self.problem.parameters(self.z), **starts}

    @property
    def owned(self) -> Owned:
        """The unknown parameters and whose they are."""
        return self.problem.layout.owned

    @cached_property
    def passed(self) -> Sequence[Passed]:
        """Bounds of states, and inequalities, that the motion passes."""
        return [own for own, share in self._limits if share.max(initial=0.0) > _SLIGHT]

    @property
    def excess(self) -> float:
        """Sum over bounds and conditions of the mean square by which they are passed, as shares:
        smooth, and zero where none is."""
        return float(sum(np.mean(share**2) for _, share in self._limits if len(share)))

    @cached_property
    def _limits(self) -> Sequence[tuple[Passed, Array]]:
        return list(_passed(self.problem, self.z, self.limits))

    @property
    def additive(self) -> bool:
        """Whether the information of samples adds up: not with process noise."""
        return not self.problem.estimation.integrated

    @property
    def inputs(self) -> Sequence[str]:
        """Names of unknown inputs."""
        return [u for u in self.problem.layout.inputs if u not in self.problem.layout.delayed]

    def on(self, trials: Sequence[Experiment]) -> CollocationPlan:
        """The same motion, measured otherwise on the same grids."""
        return replace(self, problem=self.problem.on(trials))

    def asked_of(self, trials: Sequence[Experiment]) -> Discretisation:
        """The same question about other trials."""
        question = replace(self.problem.formulation.question, trials=list(trials))
        return Discretisation.of(*formulate(question), self.problem.threads)

    def repeated(self, count: int) -> CollocationPlan:
        """The same motion in so many repetitions of all trials."""
        problem, before = self.asked_of([*self.asked] * count), self.problem.layout
        limits, problem = problem.variable_bounds, without_bounds_of_states(problem)
        layout, z = problem.layout, np.zeros(problem.n_variables)
        for j, k in enumerate([*range(len(self.trials))] * count):
            z[slice(*layout.offsets[j : j + 2])] = self.z[slice(*before.offsets[k : k + 2])]
            mine, its = layout.owned.places(j), before.owned.places(k)
            layout.parameter_values(z)[mine] = before.parameter_values(self.z)[its]
            if layout.free_duration:
                layout.durations(z)[j] = before.durations(self.z)[k]
        return CollocationPlan(problem, z, limits, self.notes, self.held)

    def told(self) -> tuple[Array, Array]:
        """Covariance (r, r) of the parameters of the fit, NaN for what is not known, and their
        values (r,). Raises as `Curvature.confidence`."""
        problem, estimation = self._noiseless, self.problem.estimation
        if estimation.mixed or estimation.integrated:
            return covariance_of(self.fit())
        covariance = self._curvature(problem, self._bare(problem)).confidence().covariance
        return covariance, np.array(list(problem.estimates(self.z).values()))

    @property
    def _noiseless(self) -> Discretisation:
        """The problem with the record that the motion would leave without noise."""
        return self.problem.on(expected_record(self.trials, self.runs)).with_densities(
            self._priors()
        )

    def _curvature(self, problem: Discretisation, bare: Solution) -> Curvature:
        """Curvature of the misfit of that record; where the noise follows the motion, the one that
        is expected (Fisher's information), by the method of scoring."""
        if not follow_motion(problem.trials):
            return Curvature.at(problem, bare)
        nlp = problem.residual_nlp
        slopes = csr_array(nlp.residual_jacobian(self.z))
        lost = (
            2.0
            * problem.estimation.factor
            * lost_by_limits(slopes, nlp.samples, problem.trials, self.runs)
        )
        kkt = interior(problem, bare, nlp=problem.gauss_newton)
        rows, columns, values = kkt.hessian
        kkt = replace(kkt, hessian=(rows, columns, values - lost[rows, columns]))
        return Curvature(problem, bare, kkt, -problem.cost_gradient(self.z))

    def fit(self) -> Solution:
        """The fit of the record without noise. Raises as `Curvature.confidence`."""
        problem, estimation = self._noiseless, self.problem.estimation
        # what else the objective has draws the fit away from the assumed motion
        if estimation.mixed and not estimation.integrated:
            return fitted_as(problem, self.z, None, SolverOptions({}))
        bare = self._bare(problem)
        if estimation.integrated:
            about = self._of_process_noise()
        else:
            about = self._curvature(problem, bare).uncertainty()
        solution = replace(bare, uncertainty=[about], reasons=None)
        made = partial(self._inference, problem, solution)
        return replace(solution, inference=made)

    def _inference(self, problem: Discretisation, solution: Solution) -> Inference:
        """Inference on the fit. The matrix is made again, as in `inference`."""
        if not follow_motion(problem.trials):
            return inference(problem, solution)
        here = self._curvature(problem, solution)
        return CollocationInference(here, solution.uncertainty[0])

    def _bare(self, problem: Discretisation) -> Solution:
        """The assumed motion as a solution, of whose errors nothing is said."""
        none, rows = np.zeros_like(self.z), np.zeros(problem.n_constraints)
        found = Solved(
            z=self.z,
            multipliers=(rows, none, none),
            objective=problem.nlp.cost(self.z),
            status=Solve.CONVERGED,
            evaluation=0.0,
            log="",
        )
        return solution_of(problem, found, 0.0, partial(_nothing, problem))

    def _priors(self) -> dict[str, Density]:
        """Priors as if they, too, were measured without noise: of normal ones the mean is the
        assumed value, or the mean over owners."""
        owned = self.problem.layout.owned
        values = owned.natural(self.problem.layout.parameter_values(self.z))
        members = np.array(owned.members, dtype=object)

        def seen(name: str, p: Density) -> Density:
            own = values[members == name]
            return replace(p, location=float(np.mean(np.log(own) if p.of_log else own)))

        every = self.problem.priors.items()
        return {name: seen(name, p) if p.rho == SQUARE else p for name, p in every}

    def _of_process_noise(self) -> Uncertainty:
        """Uncertainty from the mean curvature of the marginal likelihood of records with process
        noise and noise of their samples: about the information that is expected (Fisher)."""
        problem, layout, rng = self.problem, self.problem.layout, np.random.default_rng(0)
        nothing, total = np.zeros(0), np.zeros((len(layout.parameters),) * 2)
        for _ in range(_DRAWS):
            z = motion_near(problem, self.z, drawn_noise(problem, rng), held=True)
            record = noiseless(problem.trajectories(z))
            for (trial, name), row in record.items():
                std = problem.trials[trial].std[name]
                row += np.where(np.isfinite(std), std, 0.0) * rng.standard_normal(len(row))
            on = problem.on(remeasured(problem.trials, record))
            likelihood = marginal(on, {}, (nothing, nothing), SolverOptions({}), lambda step: None)
            total += likelihood.curvature_at(z) / _DRAWS
        known = np.linalg.eigvalsh(total) > 0.0
        covariance = 2.0 * np.linalg.inv(total) if known.all() else np.full_like(total, np.nan)
        names = np.array(layout.parameters, dtype=object)
        slopes = layout.parameter_slopes(self.z)
        return Uncertainty(
            names=list(names),
            covariance=covariance * np.outer(slopes, slopes),
            logarithmic=list(names[layout.owned.log]),
        )


@dataclass(frozen=True, eq=False)
class ShootingPlan:
    """A problem of shooting, and its assumed unknowns, whose segments meet. notes : on how far the
    motion is from what the guess says, where this has its course."""

    problem: ShootingProblem
    q: Array
    notes: Sequence[str] = ()

    @staticmethod
    def of(problem: ShootingProblem, q: Array, guess: Any) -> ShootingPlan:
        """The plan of a guess that gives q. Raises `ValueError` where a simulation does not reach
        its end, and where no motion is near."""
        trials, unknowns, (low, high) = problem.trials, problem.given.unknowns, problem.given.bounds
        trials.trajectories(q)  # says why it does not reach its end
        free = np.zeros(q.size, dtype=bool)
        if courses := _gives_courses(problem, guess):
            for k in range(len(trials.trials)):
                free[unknowns.starts(k)] = True
        found = meeting(trials, q, free & (low < high))
        if not (courses and unknowns.several):
            return ShootingPlan(problem, found)
        size = natural_sizes(trials, found)
        far = [k for k in np.flatnonzero(free) if abs(found[k] - q[k]) > _FAR * size[k]]
        notes = [
            f"no motion whose segments meet is close to the guess: {unknowns.names[k]} is "
            f"{abs(found[k] - q[k]):.2g} from it; give trajectories of the states"
            for k in far
        ]
        return ShootingPlan(problem, found, notes)

    @property
    def runs(self) -> Sequence[Trajectory]:
        """The assumed trajectories."""
        return self.problem.trials.trajectories(self.q)

    @property
    def trials(self) -> Sequence[Experiment]:
        """The trials on their grids."""
        return self.problem.given.trials

    @property
    def asked(self) -> Sequence[Experiment]:
        """The trials as they were given."""
        return experiments(self.problem.question.trials)

    @property
    def begun(self) -> dict[str, Any]:
        """Parameters and starts by name."""
        unknowns = self.problem.given.unknowns
        found: dict[str, Any] = dict(zip(unknowns.parameters, self.q.tolist(), strict=False))
        return found | dict(unknowns.initial_values(self.q))

    @property
    def owned(self) -> Owned:
        """The unknown parameters and whose they are."""
        return self.problem.given.unknowns.owned

    @property
    def passed(self) -> Sequence[Passed]:
        """Bounds of states that the motion passes: shooting has none."""
        return ()

    @property
    def excess(self) -> float:
        """Excess over bounds of states: there are none."""
        return 0.0

    @property
    def additive(self) -> bool:
        """Whether the information of samples adds up."""
        return True

    @property
    def inputs(self) -> Sequence[str]:
        """Names of unknown inputs: there are no errors with these."""
        return ()

    def on(self, trials: Sequence[Experiment]) -> ShootingPlan:
        """The same motion, measured otherwise on the same grids."""
        return replace(self, problem=self.problem.on(trials))

    def asked_of(self, trials: Sequence[Experiment]) -> ShootingProblem:
        """The same question about other trials, or about the same ones several times."""
        question, times = self.problem.question, len(trials) // len(self.trials)
        starts: Any = question.initial
        if isinstance(starts, Mapping):
            starts = {k: v * times if isinstance(v, list) else v for k, v in starts.items()}
        elif starts is not None:
            starts = [*starts] * times
        return ShootingProblem.of(replace(question, trials=list(trials), initial=starts))

    def repeated(self, count: int) -> ShootingPlan:
        """The same motion in so many repetitions of all trials."""
        problem, before = self.asked_of([*self.asked] * count), self.problem.given.unknowns
        unknowns = problem.given.unknowns
        q = np.zeros(unknowns.size)
        for j, k in enumerate([*range(len(self.trials))] * count):
            q[unknowns.owned.places(j)] = self.q[before.owned.places(k)]
            q[unknowns.starts(j)] = self.q[before.starts(k)]
            q[unknowns.boundaries(j)] = self.q[before.boundaries(k)]
        return ShootingPlan(problem, q, self.notes)

    def told(self) -> tuple[Array, Array]:
        """Covariance (r, r) of the parameters of the fit, NaN for what is not known, and their
        values (r,)."""
        r, task = len(self.owned.names), self._task
        if task.task.estimation.mixed or task.trials.scored:
            return covariance_of(self.fit())
        return task.confidence(self.q, _chosen(task)).covariance[:r, :r], self.q[:r]

    def fit(self) -> Fit:
        """The fit of the record without noise."""
        task = self._task
        if task.task.estimation.mixed:
            # what else the objective has draws the fit away from the assumed motion
            return task.fit(self.q, Chosen("bfgs", True, False, 1e-10, 500, {}))
        step = Step(task.trials.cost(self.q), self.q)
        fit = task.found([step], _chosen(task), known=task.trials.scored)
        return self._within_ranges(task.task, fit) if follow_motion(self.trials) else fit

    def _within_ranges(self, task: Task, fit: Fit) -> Fit:
        """The fit with the errors that limits leave on average."""
        found, [about] = measured(task.trials, self.q), fit.uncertainty
        lost = lost_by_limits(
            csr_array(found.slopes), found.samples, self.trials, self.runs
        ).toarray()
        covariance, variance = about.covariance.copy(), about.variance / task.estimation.factor
        free = np.diag(covariance)[found.unknowns] > 0.0
        mine = np.ix_(found.unknowns[free], found.unknowns[free])
        kept = np.eye(int(free.sum())) - covariance[mine] @ lost[np.ix_(free, free)] / variance
        covariance[mine] = np.linalg.solve(kept, covariance[mine])
        about = replace(about, covariance=covariance)
        made = partial(ShootingInference, task, self.q, about)
        return replace(fit, uncertainty=[about], inference=made)

    @property
    def _task(self) -> Identification:
        """The identification from the record without noise."""
        plan = self.on(expected_record(self.trials, self.runs))
        task = plan.problem.identification()
        if priors := task.trials.priors:  # as if they, too, were measured without noise
            trials, values = copy(task.trials), self.q[priors.places]
            means = np.where(priors.log, np.log(np.where(priors.log, values, 1.0)), values)
            means = np.where(priors.kinds == SQUARE, means, priors.means)
            trials.priors = replace(priors, means=means)
            task = replace(task, task=replace(task.task, trials=trials))
        return task


def _gives_courses(problem: ShootingProblem, guess: Any) -> bool:
    """Whether a guess has trajectories of all states, not only where they start."""
    if not isinstance(guess, Mapping | None):
        return True
    values = {key_name(key): value for key, value in (guess or {}).items()}
    return all(np.ndim(first_of(values.get(x, 0.0))) for x in problem.given.unknowns.states)


def _chosen(task: Identification) -> Chosen:
    """Choices by which a fit by shooting is judged, as the minimum of squares or scores."""
    name = "bfgs" if task.trials.scored else "least-squares"
    return Chosen(name, True, False, 1e-10, 0, {})


Plan = CollocationPlan | ShootingPlan


def covariance_of(fit: Trials) -> tuple[Array, Array]:
    """Covariance (r, r) and values (r,) of the parameters of a fit."""
    [about] = fit.uncertainty
    places = [list(about.names).index(name) for name in fit.parameters]
    return about.covariance[np.ix_(places, places)], np.array(list(fit.parameters.values()))


def experiments(trials: Any) -> Sequence[Experiment]:
    """Experiments of a question, one or several."""
    if isinstance(trials, Experiment):
        return [trials]
    if not isinstance(trials, Sequence):
        raise ValueError(
            "seconds, rate, trials and limits are of experiments, not of phases of one motion"
        )
    return trials


def check_told(problem: ShootingProblem, guess: Any) -> None:
    """Raise `ValueError` for unknown starts and parameters of which neither a guess by names, nor
    the record, nor the model tells anything."""
    if not isinstance(guess, Mapping | None):
        return
    given, told = problem.given, {key_name(key) for key in guess or ()}
    pairs, values = kinematic_pairs(given.model), {name_of(p) for p in given.model.values}
    for number, trial in enumerate(given.trials):
        seen = {n for n, row in trial.measured.items() if not np.isnan(row).all()}
        for x in given.unknowns.initial:
            if not {x, pairs.get(x)} & (told | seen):
                raise ValueError(
                    f"nothing tells the start of {x} in trial {number}; give what is assumed of it "
                    f"in the guess, guess={{{x!r}: ...}}"
                )
    owned = given.unknowns.owned
    for name, p in zip(owned.names, owned.members, strict=True):
        if not {name, p} & (told | values):
            raise ValueError(
                f"nothing tells what is assumed of parameter {name}; give it in the guess, "
                f"guess={{{name!r}: ...}}"
            )


def without_bounds_of_states(problem: Discretisation) -> Discretisation:
    """The problem without bounds of states, by which an assumed motion would be moved, but for
    those that hold a state at a value."""
    same, held = np.equal(*problem.variable_bounds), set[str]()
    for k in range(len(problem.trials)):
        held |= {name for name, _, row in problem.layout.named_rows(same, k) if row.any()}
    gone, given = {*problem.model.state_names} - held, problem.formulation
    if not gone & {*given.bounds, *chain(*(trial.bounds for trial in problem.trials))}:
        return problem
    bounds = {x: pair for x, pair in given.bounds.items() if x not in gone}
    free = replace(problem, formulation=replace(given, bounds=bounds))
    return free.on([unbounded(trial, gone) for trial in problem.trials])


def _moved(problem: Discretisation, guess: Array, z: Array) -> Iterator[str]:
    """Sentences on states whose motion z is far from that of a guess."""
    for k in range(len(problem.trials)):
        before, after = problem.courses(guess, k), problem.courses(z, k)
        far = {x: np.abs(after[x] - before[x]) for x in problem.model.state_names if x in after}
        names = [
            x
            for x, off in far.items()
            if x in problem.layout.at_nodes and off.max() > _FAR * np.abs(after[x]).max()
        ]
        if names:
            x = max(names, key=lambda x: float(far[x].max() / np.abs(after[x]).max()))
            yield (
                f"no motion that meets the equations is close to the guess in trial {k}: assumed "
                f"is one that is {far[x].max():.2g} from it in {x}; give trajectories of the states"
            )


def _passed(
    problem: Discretisation, z: Array, limits: tuple[Array, Array]
) -> Iterator[tuple[Passed, Array]]:
    """Bounds and conditions of a motion, passed or not, with the share of each place."""
    layout, off = problem.layout, (beyond(z, limits), shares_beyond(z, limits))
    for k in range(len(problem.trials)):
        rows = (layout.named_rows(each, k) for each in off)
        for (name, place, excess), (_, _, share) in zip(*rows, strict=True):
            if place is None or name not in layout.at_nodes:
                yield _if_passed(f"bounds of {name}", k, excess, share)
    sides, found = problem.constraint_bounds, problem.constraints(z)
    excess = np.where(np.less(*sides), beyond(found, sides), 0.0)
    shares = np.where(np.less(*sides), shares_beyond(found, sides), 0.0)
    for k, _, label, here in layout.constraint_rows():
        yield _if_passed(str(label), k, excess[here], shares[here])


def _if_passed(condition: str, trial: int, excess: Array, share: Array) -> tuple[Passed, Array]:
    return Passed(condition, trial, float(excess.max(initial=0.0))), share


def shares_beyond(values: Array, bounds: tuple[Array, Array]) -> Array:
    """Distance of values (n,) outside their bounds, as a share of the size of the bound: its own,
    or some of the span where it is near zero."""
    with np.errstate(invalid="ignore"):
        span = bounds[1] - bounds[0]
    span = np.where(np.isfinite(span) & (span > 0.0), span, 1.0)
    passed = np.where(values > bounds[1], bounds[1], bounds[0])
    size = np.where(np.isfinite(passed), np.abs(passed), 1.0)
    return np.asarray(beyond(values, bounds) / np.maximum(size, _LEAST * span))


def _nothing(problem: Discretisation) -> Any:
    raise ValueError(f"{problem.model.name} has been forecast, not solved")
