"""`ks.Shooting`: identification by simulation, with exact gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base import checks
from kinesym.base.notebook import Displayed
from kinesym.collocation import Collocation
from kinesym.continuous_adjoint import sampled_gradient
from kinesym.internal.fitting.combination import combination
from kinesym.internal.fitting.hybrid_shooting import hybrid_trials
from kinesym.internal.fitting.ladder import BUDGET, Climb, led
from kinesym.internal.fitting.shooting_starts import (
    one_by_one,
    shooting_points,
    side_by_side,
    together,
)
from kinesym.internal.fitting.starts import checked_search, ranges_of, rows_of
from kinesym.internal.problems.delay_sources import undelayed_objective
from kinesym.internal.problems.homotopy import with_homotopy
from kinesym.internal.problems.observer import observer
from kinesym.internal.problems.parameters import without_bounds
from kinesym.internal.problems.problem import kinematic_pairs, lowered_for_method, warn_of_degrees
from kinesym.internal.problems.report_setting import setting_of
from kinesym.internal.problems.sensors import with_sensors
from kinesym.internal.problems.shooting_arguments import (
    ShootingArguments,
    shooting_arguments,
    smooth_program,
    warn_of_kinks,
)
from kinesym.internal.problems.step_options import chooses_steps, methods_of
from kinesym.internal.problems.unseen_jumps import Moved, judged, moved_by
from kinesym.internal.running.finer_steps import finer_shooting
from kinesym.internal.running.jump_events import with_events
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.collocation import first_guess, within
from kinesym.runtime.nlp.owned import check_positive
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.fit import Fit, vector_of_guess
from kinesym.runtime.results.guesses import values_of_results
from kinesym.runtime.results.multistart import MultiStart
from kinesym.runtime.results.multistart import multistart as gathered
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import better, only_noise_is_left
from kinesym.runtime.shooting.estimate_shifts import FinerTrials
from kinesym.runtime.shooting.identification import Chosen, Identification, Rung
from kinesym.runtime.shooting.minimise import OPTIMIZERS
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.status import Solve
from kinesym.runtime.summary import listed
from kinesym.symbolic.homotopy import HOMOTOPY
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import Objective

#: Difference of merits, over the objective, up to which two fits are the same.
_SAME = 1e-6
_NO_END = "from {}: a simulation does not reach its end"

MODES = ("adjoint", "forward", "continuous-adjoint")


class Shooting(Displayed):
    """An objective as a function of few unknowns: trajectories follow by simulation.

    Parameters
    ----------
    system : a model, or a hybrid model, which is simulated from event to event.
    trials : an experiment, or several that share the unknown parameters. The objective is taken at
        their nodes; an integral, by the trapezoidal rule, also at those of the substeps. Of a
        hybrid model, inputs may be `Signal.pieces` of expressions of parameters; symbols in them
        that the model does not have become parameters, so that a break, a level or a slope can be
        unknown.
    unknown : parameters to be found, with bounds (low, high); None for free; a value per subject or
        trial, a prior, or a logarithmic scale by `per`, `per_trial`, `normal`, `lognormal`,
        `log_scale`.
    known : values of the other parameters; the model's values where not given; what differs between
        trials stands in `Experiment(parameters=...)`.
    initial : value of every state at the start by name, or a list of such mappings, one per trial.
        A value is a number, an expression of parameters such as a**2, or None or bounds (low, high)
        if it is unknown; a list of values has one per trial. A state is unknown in all trials or in
        none, and in none if an invariant of the model binds it. A contact that presses at the start
        is True.
    objective : `Integral`, `Terminal`, `LeastSquares` and sums of them; None means `LeastSquares`,
        which is all that a hybrid model knows.
    method : of a model "rk4" (None), or an implicit one of `simulate`, for stiff and
        differential-algebraic models, with fixed steps from node to node ("radau-5" too, which
        `simulate` runs with steps of its own); of a hybrid model "dormand-prince" (None) or "rk4".
    unknown_inputs : inputs of a model whose samples are to be found, with bounds (low, high) or
        None; `held(low, high)` if they are constant between nodes.
    segments : of a model, more than one for multiple shooting: the states at the inner boundaries
        are unknowns too, and continuity is an equation (optimiser "ipopt").
    threads : for the objective of a model; default: OMP_NUM_THREADS or the number of processors.
    substeps : steps per interval of the grids. rtol, atol : of "dormand-prince".
    sensors : channels by name, expressions of states, inputs and parameters, {"imu": g * theta +
        b}; symbols in them that the model does not have become parameters. See `sensor`.

    The vector q of unknowns holds parameters (themselves, where their logarithms are estimated),
    unknown initial states, states at inner boundaries, and samples of inputs; see `names`.
    Derivatives of a hybrid model are those of the motion with the sequence of events that it has
    there. Where that changes, or an unknown break of an input passes a sample, the objective has a
    kink; where an event passes a sample of an output that jumps at it, such as a force, a jump.
    Jumps of the equations of a model that unknowns move, as in `Piecewise((1, t < p), (0, True))`,
    are events, where the objective is least squares, in one segment, without unknown inputs, delays
    and implicit methods; elsewhere a fit that passes one is no success, and says so. The
    object keeps the trajectories of the last q, so that cost and gradient share a simulation: it is
    not for several threads at once. Raises `ValueError` for whatever does not fit, before anything
    is derived or compiled.
    """

    def __init__(
        self,
        system: Model | Hybrid,
        trials: Experiment | Sequence[Experiment],
        unknown: Mapping[Any, Any] | None = None,
        known: Mapping[Any, float] | None = None,
        initial: Mapping[Any, Any] | Sequence[Mapping[Any, Any]] | None = None,
        objective: Objective | None = None,
        method: str | None = None,
        unknown_inputs: Mapping[Any, Any] | None = None,
        segments: int = 1,
        threads: int | None = None,
        substeps: int = 1,
        rtol: float = 1e-9,
        atol: float = 1e-11,
        sensors: Mapping[str, Any] | None = None,
    ) -> None:
        told = {name: value for name, value in locals().items() if name not in ("self", "threads")}
        self._told: Mapping[str, Any] = told  # all of it, whatever arguments there are
        system = with_homotopy(with_sensors(system, sensors), objective)
        self._posed: tuple[Any, ...] = (
            *(system, trials, unknown, known, initial, objective, method, unknown_inputs),
            *(segments, threads, substeps, rtol, atol),
        )
        if method is not None:
            checks.check_text(method, "method")
        if isinstance(system, Model):
            usual = methods_of(system, derivatives=True)[0]
            model = lowered_for_method(system, method or usual)
            system, objective = undelayed_objective(model, objective)
        smooth = system
        if isinstance(system, Model) and self._by_events:
            plain = segments == 1 and not unknown_inputs
            system = with_events(system, unknown, objective, method, plain)
        self._eventful = system is not smooth
        if self._eventful:  # these have other defaults
            method, threads = "rk4" if method is None and substeps != 1 else method, None
        given = self._given = shooting_arguments(
            system,
            trials,
            unknown=unknown,
            known=known,
            initial=initial,
            objective=objective,
            method=method,
            unknown_inputs=unknown_inputs,
            segments=segments,
            threads=threads,
            options=(substeps, rtol, atol),
        )
        self.system, self.model, self.trials = system, given.model, given.trials
        self.segments, self.bounds = given.segments, given.bounds
        if words := self._moved(given).sentence(()):
            warnings.warn(words, stacklevel=2)
        elif not self._eventful:
            warn_of_kinks(system, given)
        warn_of_degrees(self.model, self.trials)
        self._make: Callable[[ShootingArguments], Simulated]
        self.timings: dict[str, float] = {}
        if isinstance(system, Hybrid):
            self._make, self.symbolic = partial(hybrid_trials, system), None
        else:
            made = smooth_program(given)
            self._make, self.symbolic, self.timings = made.trials, made.problem, dict(made.timings)
        self._trials: Simulated = self._make(given)

    #: Whether jumps of the equations of a model become events, where that can be.
    _by_events = True

    def __repr__(self) -> str:
        count, names = len(self.trials), self._given.unknowns.parameters
        return (
            f"<shooting of {self.model.name}: {count} trial{'s' * (count > 1)}, unknown "
            f"{listed(names) or 'no parameters'}, {len(self.names)} variables>"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Attributes to pickle: all but those that are bound to memory."""
        return {k: v for k, v in vars(self).items() if k not in ("_trials", "_finest")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._trials = self._make(self._given)

    # -- the unknowns -----------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the entries of q."""
        return list(self._given.unknowns.names)

    def pack(self, guess: Any = None) -> Array:
        """q from values by name, an array, None, or a result: a `Fit` of this or another problem,
        a `Solution`, a `Trajectory` or a list with one per trial.

        A state stands for its initial value: a number, a trajectory (N,), or a list with one of
        these per trial. What is not given comes from the measurements, the model's values, or zero.
        All is moved into the bounds: results and what is made up silently, what is given with a
        warning. Raises `ValueError` naming what has a wrong size or is not finite.
        """
        unknowns, (low, high) = self._given.unknowns, self.bounds
        q, given = self._guessed(guess)
        if not (np.isfinite(q) & (q >= low) & (q <= high)).all():  # as nearly never
            q = within(q, self.bounds, given, unknowns.names.__getitem__)
        check_positive(unknowns.owned, q[: len(unknowns.parameters)])
        return q

    def _guessed(self, guess: Any) -> tuple[Array, NDArray[np.bool_]]:
        """q of a guess, bounds aside, and which entries were given."""
        unknowns, fine, layout = self._given.unknowns, self._given.fine, self._given.layout
        if isinstance(guess, Fit) and list(guess.names) == unknowns.names:
            return guess.values, np.zeros(unknowns.size, dtype=bool)
        values = values_of_results(guess, layout, fine)
        given = np.full(unknowns.size, values is None)
        if values is None and not isinstance(guess, Mapping | None):
            return vector_of_guess(guess, unknowns.names), given
        if values is None:
            states = unknowns.states if unknowns.several else unknowns.initial
            names = [*states, *unknowns.inputs, *unknowns.owned.parameters]
            names += [name for name in unknowns.parameters if name not in names]
            values = by_name(guess or {}, names, "guess")
            given &= np.array([origin in values for origin in unknowns.origins])
        z, fixed = first_guess(
            layout, fine, values, dict(self.model.values), kinematic_pairs(self.model)
        )
        if isinstance(guess, Mapping):
            mine = slice(layout.parameter_offset, layout.duration_offset)
            given[: len(unknowns.parameters)] = fixed[mine]
        return unknowns.gathered(layout, z), given

    def unpack(self, q: ArrayLike) -> dict[str, float]:
        """Values by name, for q or a gradient."""
        return dict(zip(self.names, map(float, vector_of_guess(q, self.names)), strict=True))

    # -- values and derivatives -------------------------------------------------------------

    def cost(self, guess: Any = None) -> float:
        """J(q); infinite if a simulation does not reach its end. Arguments as in `pack`."""
        return self._trials.cost(self.pack(guess))

    def gradient(self, guess: Any = None, mode: str = "adjoint") -> Array:
        """d J/d q, in the order of `names`.

        mode : "adjoint", exact for the discretised objective, about as expensive as one simulation
        for any number of unknowns; "forward", the same from tangents; "continuous-adjoint", of a
        model, the gradient of the continuous problem, which differs by the error of the
        discretisation. Raises `ValueError` if a simulation does not reach its end, with the reason.
        """
        checks.check_choice(mode, MODES, "mode")
        q = self.pack(guess)
        if mode == "adjoint":
            return self._trials.gradient(q)
        if mode == "forward":
            return self._trials.forward_gradient(q)
        late = "sensors with an unknown delay" if self._given.delays else ""
        late = f"a model with delays, {self.model.name}" if self.model.delays else late
        late = f"a model that jumps, {self.model.name}" if self._given.switches else late
        late = "starts that follow from parameters" if any(self._given.following) else late
        if self.segments > 1 or self.symbolic is None or late:
            what = "multiple shooting" if self.segments > 1 else "a hybrid model"
            what = late or what
            raise ValueError(f"there is no continuous adjoint of {what}; use mode='adjoint'")
        runs, owned = self._trials.trajectories(q), self._given.unknowns.owned
        found = sampled_gradient(self.symbolic, runs, owned, self.names)
        return found + self._trials.priors.gradient(q)

    def trajectories(self, guess: Any = None) -> list[Trajectory]:
        """The simulated trials at q, with their measurements; raises `ValueError` if one does not
        reach its end."""
        return self._trials.trajectories(self.pack(guess))

    def residuals(self, guess: Any = None) -> Array:
        """r with J = sum r^2. Raises `ValueError` if the objective is no sum of squares, and as
        `gradient`."""
        return self._trials.residuals(self.pack(guess))

    def residual_jacobian(self, guess: Any = None) -> Array:
        """d r/d q by tangents of all unknowns at once, (n_residuals, n_unknowns)."""
        return np.asarray(self._trials.jacobian(self.pack(guess)).toarray())

    # -- solution ---------------------------------------------------------------------------

    def solve(
        self,
        guess: Any = None,
        optimizer: str = "bfgs",
        *,
        scale: bool = True,
        max_iterations: int | None = None,
        tolerance: float = 1e-10,
        options: Mapping[str, Any] | None = None,
        progress: bool | None = None,
        ladder: bool = False,
        **others: Any,
    ) -> Fit:
        """Minimise the objective.

        guess : see `pack`. optimizer : "bfgs" (SciPy's L-BFGS-B), "steepest-descent" (with a line
        search), "least-squares" (SciPy's trust region with exact Jacobian; for sums of squares) or
        "ipopt" (Gauss-Newton Hessian for sums of squares). scale : work in q divided by the size of
        the guess, samples of inputs that are zero by what lowers the objective most; without it,
        parameters of different magnitude stall gradient methods.
        max_iterations : default 500; simulations with derivatives for "least-squares".
        tolerance : of the gradient in scaled unknowns, relative to the objective at the guess.
        options : further options of the optimiser. progress : None shows it only on a terminal or
            in a notebook.
        ladder : unless the fit from the guess leaves nothing but noise, solve again from where
            easier problems lead, and return the best: the homotopies of the model, or else one that
            ties the simulation to what was measured and lets go gradually, as `homotopy="data"` of
            `Collocation`; if that does not end the search, collocation of the same model. The
            remedy where simulations that drift out of phase have many local minima, or do not
            reach their end from the guess. For smooth models, measurements, and one segment;
            `fit.ladder` has a line per rung.

        What has converged says by how much the steps shift its estimates, `fit.grid_error()`, in
        its print where that matters. Ctrl-C returns the best iterate, marked unconverged. Raises
        `ValueError` if a simulation does not reach its end at the guess, or the objective does not
        suit the optimiser; `TypeError` for other arguments.
        """
        checks.none_left(others, Shooting.solve, "the optimiser")
        checks.check_choice(optimizer, OPTIMIZERS, "optimizer")
        if self.segments > 1 and optimizer != "ipopt":
            raise ValueError("multiple shooting has equations: use optimizer='ipopt'")
        limit = 500 if max_iterations is None else max_iterations
        limit = checks.count(limit, "max_iterations", least=0)
        tolerance, settings = checks.positive(tolerance, "tolerance"), checks.options(options)
        scale = checks.flag(scale, "scale")
        if checks.flag(ladder, "ladder"):
            self._check_ladder()
        q = self.pack(guess)
        how = Chosen(optimizer, scale, progress, tolerance, limit, settings)
        if not ladder or np.isfinite(self._trials.cost(q)):
            fit = self._fit(q, how)
            return self._climbed(fit, q, how) if ladder else fit
        return self._climbed(None, q, how)

    def _fit(self, q: Array, how: Chosen) -> Fit:
        J = self._trials.cost(q)
        if not np.isfinite(J) and self._eventful and np.isfinite(self._as_written._trials.cost(q)):
            return self._as_written._fit(q, how)
        if not np.isfinite(J):
            self._trials.trajectories(q)  # says why
            raise ValueError(f"the objective is {J} at the guess")
        words = self._trials.instability(q)
        if words:
            warnings.warn(words, stacklevel=3)
        fit = self._identification(self._given, self._trials).fit(q, how)
        return replace(fit, setting=self._setting())

    def _setting(self) -> dict[str, Any]:
        """Description of the problem for the report: model, trials, bounds and method."""
        given, names = self._given, list(self._given.unknowns.parameters)
        low, high = (side[: len(names)] for side in self.bounds)
        steps = given.steps
        words = f"{steps.method}, " + (
            f"rtol {steps.tolerances[0]:g}, atol {steps.tolerances[1]:g}"
            if chooses_steps(steps.method)
            else f"{steps.substeps} step{'s' * (steps.substeps > 1)} per interval"
        )
        return {**setting_of(self.model, self.trials, names, (low, high)), "method": words}

    @cached_property
    def _as_written(self) -> Shooting:
        """Problem whose jumps are no events: for jumps that chatter, such as dry friction at
        rest."""
        return _AsWritten(*self._posed)

    def multistart(
        self,
        starts: int = 100,
        *,
        seed: int = 0,
        keep: int = 10,
        guess: Any = None,
        ranges: Mapping[Any, Any] | None = None,
        detour: float = 0.5,
        max_iterations: int = 300,
        executor: Any = None,
        progress: bool | None = None,
    ) -> MultiStart:
        """Fit from many starts and tell which optima they found.

        The first start is the guess. Of the others, parameters are as in `Collocation.multistart`,
        a Latin hypercube in `ranges`, between their bounds, or about the guess; unknown initial
        states that nothing measures, states between segments and samples of inputs are those of the
        guess plus noise, whose standard deviation is `detour` times what the guess ranges over.

        Where the objective is the squares of measurements of a smooth model, with a few unknowns,
        one segment and an explicit method, all starts step through time at once, in lanes and
        threads, to the minima of `least-squares`. Every tenth iteration, from the thirtieth on,
        those are stopped that would stay above the lowest objective of all if they went on to fall
        as fast as in the last ten. Others are solved one by one as by `solve`, in threads.

        keep : fits that are kept whole, one of each optimum first. max_iterations : of each start;
        those that need more count as lost. executor : of `concurrent.futures`, whose threads or
        processes solve what is solved one by one; None for one thread per core. The result does not
        depend on it. Ctrl-C keeps the starts that have ended. Raises `ValueError` for a parameter
        without a range, as `pack`, and where the guess tells how far something starts, as
        `trajectories`.
        """
        given = (starts, seed, keep, detour, max_iterations, executor, progress)
        search, q = checked_search(*given), self.pack(guess)
        names = list(self._given.unknowns.parameters)
        values, *sides = (each[: len(names)] for each in (q, *self.bounds))
        rows = rows_of(search, values, ranges_of(names, values, (sides[0], sides[1]), ranges))
        runs = partial(self._trials.trajectories, q)
        points = shooting_points(self._given, q, rows, runs, search)
        task = self._identification(self._given, self._trials)
        optimizer = "ipopt" if self._given.unknowns.several else "bfgs"
        how = Chosen(optimizer, True, False, 1e-10, search.limit, {})
        chosen = together(self._given, self.symbolic, task)
        if chosen is not None:
            whole = partial(task.found, chosen=how._replace(optimizer="least-squares"))
            found = side_by_side(chosen, self._given, points, search, whole)
        else:
            found = one_by_one(self._alone, points, search, how)
        return gathered(names, rows, found, search.keep)

    def _alone(self) -> Identification:
        """The task with trajectories of its own, for a thread."""
        own = replace(self._given, threads=1)
        return self._identification(own, self._make(own))

    # -- the ladder -------------------------------------------------------------------------

    def _check_ladder(self) -> None:
        """Raise `ValueError` where there is none."""
        measured = self.symbolic is not None and self.symbolic.objective.least_squares
        if not measured or self.segments > 1 or self.model.delays or self._given.delays:
            raise ValueError(
                "ladder=True is for measurements of a smooth model without delays, in one segment; "
                "leave it out"
            )

    def _climbed(self, fit: Fit | None, q: Array, how: Chosen) -> Fit:
        """The best of a fit from q, None if there is none, and of fits from where easier problems
        lead, until one leaves nothing but noise, or two are the same."""
        climb, best, same = Climb(BUDGET, how.progress), fit, False
        climb.told(_NO_END.format("the guess") if fit is None else _ended("the guess", fit))
        climb.interrupted = fit is not None and fit.interrupted
        for way in (self._by_homotopy, self._by_collocation):
            if climb.ended or same or only_noise_is_left(best):
                break
            begin = way(q, how, climb)
            if begin is None or climb.interrupted:
                continue
            if not np.isfinite(self._trials.cost(begin)):
                climb.told(_NO_END.format("there"))
                continue
            other = self._fit(begin, how)
            climb.told(_ended("there", other))
            climb.interrupted = other.interrupted
            same = best is not None and _same(best, other)
            best = other if better(other, best) else best
        if best is None:
            return self._fit(q, how)  # says why there is none
        return replace(best, ladder=climb.lines, notes=[*best.notes, *_told(fit, best)])

    def _by_homotopy(self, q: Array, how: Chosen, climb: Climb) -> Array | None:
        """Unknowns where the homotopies of the model lead from q, or else its observer of the
        record; None if there are none, or they cannot leave their start."""
        eased = self._eased()
        if eased is None:
            return None

        def solved(place: float, q: Array, last: Rung | None) -> Rung | None:
            here = self if place == 1.0 else eased._at_homotopy(place)
            begin = np.clip(q, *self.bounds)
            found = here._identification(here._given, here._trials).minimum(
                begin, how, last is None
            )
            if found is None:
                climb.told(f"homotopy {place:.4g}: a simulation does not reach its end")
                return None
            climb.left -= found.iterations
            climb.interrupted |= found.interrupted
            words = f"{found.message} after {found.iterations} iterations"
            climb.told(f"homotopy {place:.4g}: {words}")
            return found

        last = led(climb, solved, q)[1]
        return None if last is None else last.free_vector

    def _eased(self) -> Shooting | None:
        """The problem whose homotopies lead to this one, None if there is none."""
        if HOMOTOPY in self.model.parameters:
            return self
        system, trials, *more = self._posed
        try:
            about = observer(system, trials)
        except ValueError:  # nothing that is measured can be tied
            return None
        return Shooting(about.model, about.driven(trials), *more)

    def _by_collocation(self, q: Array, how: Chosen, climb: Climb) -> Array | None:
        """Unknowns where collocation of the same model leads from q; None if it is not solved."""
        system, trials, unknown, known, *_ = self._posed
        free = without_bounds(unknown, self.model)
        inputs = self._given.free or None
        follow = Collocation(system, trials, free, known, unknown_inputs=inputs)
        values, names = self.unpack(q), follow.layout.parameters
        solution = follow.solve({name: values[name] for name in names}, progress=how.progress)
        climb.interrupted |= solution.status is Solve.INTERRUPTED
        climb.told(f"collocation: {solution.status} after {solution.iterations} iterations")
        return self.pack(solution) if solution.success else None

    def _at_homotopy(self, place: float) -> Shooting:
        """Problem with its homotopy parameter at a value between 0 and 1, with the same library."""
        known = [{**row, HOMOTOPY.name: place} for row in self._given.known]
        return self.of(replace(self._given, known=known))

    @property
    def arguments(self) -> ShootingArguments:
        """Arguments as given, checked."""
        return self._given

    def _content(self) -> tuple[Any, ...]:
        """Content that a digest of a study counts: all arguments, and the trials as they are."""
        return self._told, replace(self._given, threads=None)

    def of(self, given: ShootingArguments) -> Shooting:
        """Problem with other arguments, such as other trials, and the same library."""
        made = copy(self)
        for name in ("_finest", "_as_written"):
            vars(made).pop(name, None)
        made._given, made.trials, made.bounds = given, given.trials, given.bounds
        made._trials = self._make(given)
        return made

    def _identification(self, given: ShootingArguments, trials: Simulated) -> Identification:
        """Estimation problem of simulated trials; it can be made again with other standard
        deviations."""

        def weighed(std: Mapping[str, float]) -> Identification:
            known = [trial.with_std(std) for trial in given.trials]
            fine = [trial.with_std(std) for trial in given.fine]
            made = replace(given, trials=known, fine=fine)
            return self._identification(made, self._make(made))

        def finer() -> FinerTrials:
            return self._finest if given is self._given else self._finer(given)

        def remeasured(record: Record) -> Simulated:
            known = [
                trial.remeasured({name: y for (j, name), y in record.items() if j == k})
                for k, trial in enumerate(given.trials)
            ]
            parts = 1 if isinstance(self.system, Hybrid) else given.steps.substeps
            fine = [trial.refined(parts) for trial in known]
            return self._make(replace(given, trials=known, fine=fine))

        about = (finer, weighed, remeasured, combination, self.trials, given.gaps)
        judged = partial(self._judged, given)
        return Identification(trials, self.bounds, *about, judged, dict(self.timings))

    def _judged(self, given: ShootingArguments, fit: Fit) -> Fit:
        """A fit, or what is left of it where its derivatives lack a jump that unknowns move."""
        return judged(fit, self._moved(given))

    def _moved(self, given: ShootingArguments) -> Moved:
        """The jumps that unknowns move and derivatives lack."""
        unknown = (*given.unknowns.owned.parameters, *given.unknowns.inputs)
        measured = {name for trial in given.trials for name in trial.measurements}
        about = (unknown, measured, bool(given.unknowns.initial))
        smooth = isinstance(self.system, Model)
        return moved_by(self.system, *about, equations=smooth)

    @cached_property
    def _finest(self) -> FinerTrials:
        return self._finer(self._given)

    def _finer(self, given: ShootingArguments) -> FinerTrials:
        """The trials with finer steps, of the same library."""
        steps, hybrid = given.steps, isinstance(self.system, Hybrid)
        made, finer, higher = finer_shooting(given, hybrid)
        about = (steps.method, finer.words, finer.order, steps.substeps, higher)
        return FinerTrials(self._make(made), finer.factor, *about)


class _AsWritten(Shooting):
    """Shooting whose jumps stay expressions, not events."""

    _by_events = False


def _ended(where: str, fit: Fit) -> str:
    return f"from {where}: objective {fit.objective:.6g}, {fit.message}"


def _same(one: Fit, other: Fit) -> bool:
    """Whether two fits are equal."""
    return abs(one.merit - other.merit) <= _SAME * abs(one.objective)


def _told(first: Fit | None, best: Fit) -> list[str]:
    """A note on what the ladder was good for."""
    if best is first:
        return []
    before = "there was none" if first is None else f"it was {first.objective:.6g}"
    return [f"found by the ladder: from the guess {before}"]
