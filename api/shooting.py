"""`ks.Shooting`: identification by simulation, with exact gradients."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base import checks
from kinesym.base.notebook import Displayed
from kinesym.base.quiet import quietly
from kinesym.collocation import Collocation
from kinesym.continuous_adjoint import sampled_gradient
from kinesym.internal.fitting.ladder import Climb
from kinesym.internal.fitting.shooting_ladder import check_ladder, climbed, told_of
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.internal.fitting.shooting_starts import (
    one_by_one,
    shooting_points,
    side_by_side,
    together,
)
from kinesym.internal.fitting.starts import checked_search, ranges_of, rows_of
from kinesym.internal.fitting.structural_identifiability import warn_of_untold
from kinesym.internal.problems.parameters import without_bounds
from kinesym.internal.problems.plausible_units import kinematic_pairs, warn_of_degrees
from kinesym.internal.problems.question import ShootingQuestion
from kinesym.internal.problems.shooting_arguments import ShootingArguments
from kinesym.internal.problems.shooting_checks import warn_of_kinks
from kinesym.internal.problems.trial_starts import with_symbols_of_starts
from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.noise import check_finite, check_std
from kinesym.runtime.nlp.bounds import middle
from kinesym.runtime.nlp.collocation import first_guess, within
from kinesym.runtime.nlp.owned import check_positive
from kinesym.runtime.results.fit import Fit, vector_of_guess
from kinesym.runtime.results.guesses import values_of_results
from kinesym.runtime.results.multistart import MultiStart
from kinesym.runtime.results.multistart import multistart as gathered
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.shooting.identification import Identification
from kinesym.runtime.shooting.minimising import best_optimizer
from kinesym.runtime.shooting.optimizers import OPTIMIZERS
from kinesym.runtime.shooting.scaled import Chosen
from kinesym.runtime.shooting.trials import Simulated
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.summary import listed
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.problem import Problem

MODES = ("adjoint", "forward", "continuous-adjoint")


class Shooting(Displayed):
    """An objective as a function of few unknowns: trajectories follow by simulation.

    Parameters
    ----------
    system : a model, or a hybrid model, which is simulated from event to event.
    trials : an experiment, or several that share the unknown parameters. The objective is taken at
        their nodes, an integral by the trapezoidal rule; also at those of the substeps. Of a
        hybrid model, inputs may be `Signal.pieces` of expressions of parameters; symbols in them
        that the model does not have become parameters, so that a break, a level or a slope can be
        unknown.
    unknown : parameters to be found, with bounds (low, high); None for free; a value per subject or
        trial, a prior, or a logarithmic scale by `per`, `per_trial`, `normal`, `lognormal`,
        `prior`, `log_scale`.
    known : values of the other parameters; the model's values where not given; what differs between
        trials stands in `Experiment(parameters=...)`, numbers or expressions, whose symbols may be
        unknowns that the model does not have.
    initial : value of every state at the start by name, or a list of such mappings, one per trial.
        A value is a number, an expression such as a**2 of parameters, which the model need not
        have, or None or bounds (low, high) if it is unknown; a list of values has one per trial. A
        state is unknown in all trials or in none, and in none if an invariant of the model binds
        it. A contact that presses at the start is True. Where an experiment begins in a steady
        state, `before=ks.steady(...)`, it is from here that the model settles.
    objective : `Integral`, `Terminal`, `LeastSquares` and sums of them; None means `LeastSquares`,
        which is all that a hybrid model knows.
    method : of a model "rk4" (None), or another one of `simulate`; implicit ones are for stiff and
        differential-algebraic models. "dormand-prince" and "radau-5" choose their steps, which end
        at each node, the others take fixed ones; so does "radau-5" if `substeps` is given, or with
        delays. Of a hybrid model "dormand-prince" (None) or "rk4"; implicit ones where all of its
        events are at known times.
    unknown_inputs : inputs of a model whose samples are to be found, with bounds (low, high) or
        None; `held(low, high)` if they are constant between nodes.
    segments : of a model, more than one for multiple shooting: the states at the inner boundaries
        are unknowns too, and continuity is an equation (optimiser "ipopt").
    threads : for the trials of a model, and its objective; they do not change a bit. Default:
        OMP_NUM_THREADS or the number of processors.
    substeps : fixed steps per interval of the grids; default 1. rtol, atol : of steps that are
        chosen, as of `simulate`.
    sensors : channels by name, expressions of states, inputs and parameters, {"imu": g * theta +
        b}; symbols in them that the model does not have become parameters. See `sensor`.

    The vector q of unknowns holds parameters (themselves, where their logarithms are estimated),
    unknown initial states, states at inner boundaries, and samples of inputs; see `names`.
    Steps that a method chooses follow from q alone. Derivatives, backwards and forwards, are exact
    for these steps as they are, solved to rounding; that another q has others makes J rough, by
    less than the tolerance. The errors of states are controlled, not those of their derivatives.
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
        substeps: int | None = None,
        rtol: float = 1e-9,
        atol: float = 1e-11,
        sensors: Mapping[str, Any] | None = None,
    ) -> None:
        question = ShootingQuestion(
            *(system, trials, unknown, known, initial, objective, method, unknown_inputs),
            *(segments, threads, substeps, rtol, atol, sensors),
        )
        self._problem = made = ShootingProblem.of(question)
        if words := made.moved(made.given).sentence(()):
            warnings.warn(words, stacklevel=2)
        elif not made.eventful:
            warn_of_kinks(made.system, made.given.model, made.given.switches)
        warn_of_degrees(made.given.model, made.given.trials)

    @classmethod
    def of(cls, problem: ShootingProblem) -> Shooting:
        """One of a problem that is there already."""
        made = cls.__new__(cls)
        made._problem = problem
        return made

    def __repr__(self) -> str:
        count, names = len(self.trials), self._given.unknowns.parameters
        return (
            f"<shooting of {self.model.name}: {count} trial{'s' * (count > 1)}, unknown "
            f"{listed(names) or 'no parameters'}, {len(self.names)} variables>"
        )

    # -- what it is of ------------------------------------------------------------------------

    @property
    def problem(self) -> ShootingProblem:
        """The objective as a value, with all that it is made of."""
        return self._problem

    @property
    def system(self) -> Model | Hybrid:
        """The model, or the hybrid model, as it is simulated."""
        return self._problem.system

    @property
    def model(self) -> Model:
        """The model, with all that was asked of it."""
        return self._given.model

    @property
    def trials(self) -> Sequence[Experiment]:
        """The trials, with a node at each sample."""
        return self._given.trials

    @property
    def segments(self) -> int:
        """Number of parts each trial is simulated in."""
        return self._given.segments

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of q, (n,) each."""
        return self._given.bounds

    @property
    def symbolic(self) -> Problem | None:
        """The problem in symbols; None of a hybrid model."""
        program = self._problem.program
        return None if program is None else program.problem

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds that it took to derive and to compile."""
        return self._problem.timings

    @property
    def _given(self) -> ShootingArguments:
        return self._problem.given

    @property
    def _trials(self) -> Simulated:
        return self._problem.trials

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
            made_up = np.isnan(q)
            q = within(q, self.bounds, given, unknowns.names.__getitem__)
            for k in np.flatnonzero(unknowns.owned.log & made_up[: len(unknowns.parameters)]):
                if q[k] <= 0.0:  # it has a logarithm, as for collocation
                    with np.errstate(divide="ignore"):
                        q[k] = np.exp(middle(*np.log([low[k], high[k]])))
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
            if (numbers := unknowns.numbers(values)) is not None:
                return numbers, np.ones(unknowns.size, dtype=bool)
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
        late = "events at known times" if any(self._given.resets) else late
        late = "parameters that experiments set" if self._given.assignments else late
        steps = self._given.steps
        if steps.adaptive and self.symbolic is not None:  # nodes show too little of the motion
            late = f"steps that {steps.method} chooses"
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
        """r with J = sum r^2, or scores as `Collocation.residuals` has them. Raises `ValueError` if
        the objective is no such sum, and as `gradient`."""
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
        search), "least-squares" (Gauss-Newton or Fisher's scoring within a trust region and the
        bounds; for sums of squares and likelihoods of fitted noise) or "ipopt" (Gauss-Newton
        Hessian for sums of squares). scale : work in q divided by the size of the guess, samples of
        inputs that are zero by what lowers the objective most; without it, parameters of different
        magnitude stall gradient methods.
        max_iterations : default 500. tolerance : of the gradient in scaled unknowns, relative to
        the objective at the guess; of "least-squares", of what a step may still lower in the
        objective, relative to that, in thousandths. It also ends, with the status "flat" and the
        names of what is loose, where for twenty iterations no step would raise the log likelihood
        by 5e-5, which moves no estimate by more than a hundredth of its standard error.
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
        its print where that matters. Warns of parameters that perfect measurements could not tell,
        where that is soon found out. Ctrl-C returns the best iterate, marked unconverged. Raises
        `ValueError` if a simulation does not reach its end at the guess, or the objective does not
        suit the optimiser; `TypeError` for other arguments.
        """
        checks.none_left(others, Shooting.solve, "the optimiser")
        checks.check_choice(optimizer, OPTIMIZERS, "optimizer")
        if self.segments > 1 and not OPTIMIZERS[optimizer].equations:
            able = ", ".join(repr(o) for o, how in OPTIMIZERS.items() if how.equations)
            raise ValueError(f"multiple shooting has equations: use optimizer={able}")
        limit = 500 if max_iterations is None else max_iterations
        limit = checks.count(limit, "max_iterations", least=0)
        tolerance, settings = checks.positive(tolerance, "tolerance"), checks.options(options)
        scale = checks.flag(scale, "scale")
        if checks.flag(ladder, "ladder"):
            check_ladder(self._problem)
        q = self.pack(guess)
        how = Chosen(optimizer, scale, progress, tolerance, limit, settings)
        warn_of_untold(self._problem)
        if not ladder or np.isfinite(self._trials.cost(q)):
            fit = self._fit(q, how)
            return self._climbed(fit, q, how) if ladder else fit
        return self._climbed(None, q, how)

    def _fit(self, q: Array, how: Chosen) -> Fit:
        problem, J = self._problem, self._trials.cost(q)
        if not np.isfinite(J) and problem.eventful:
            other = problem.as_written
            problem = other if np.isfinite(other.trials.cost(q)) else problem
            J = problem.trials.cost(q)
        if not np.isfinite(J):
            runs = problem.trials.trajectories(q)  # each of these says why
            check_std(runs, problem.given.trials)
            check_finite(runs)
            raise ValueError(f"the objective is {J} at the guess")
        words = problem.trials.instability(q)
        if words:
            warnings.warn(words, stacklevel=3)
        fit = problem.identification().fit(q, how)
        return replace(fit, setting=problem.setting())

    def _climbed(self, fit: Fit | None, q: Array, how: Chosen) -> Fit:
        return climbed(self._problem, fit, q, how, self._fit, self._by_collocation)

    def _by_collocation(self, q: Array, how: Chosen, climb: Climb) -> Array | None:
        """Unknowns where collocation of the same model leads from q; None if it is not solved."""
        asked = self._problem.question
        follow = Collocation(
            with_symbols_of_starts(asked.system, asked.initial, asked.trials),
            asked.trials,
            without_bounds(asked.unknown, self.model),
            asked.known,
            unknown_inputs=self._given.free or None,
            sensors=asked.sensors,
        )
        values, names = self.unpack(q), follow.layout.parameters
        with quietly():  # it was said of this problem
            solution = follow.solve({name: values[name] for name in names}, progress=how.progress)
        told_of(solution, climb)
        return self.pack(solution) if solution.success else None

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
        as fast as in the last ten. Others are solved one by one as by `solve`, in threads, by
        `least-squares` where that can be.

        keep : fits that are kept, one of each optimum first; standard errors and errors of the grid
        are computed of those that are looked at. max_iterations : of each start; those that need
        more count as lost. executor : of `concurrent.futures`, whose threads or processes solve
        what is solved one by one; None for one thread per core. The result does not depend on it.
        Ctrl-C keeps the starts that have ended. A start from which a simulation does not reach its
        end is lost, and the others go on; so with the guess, unless it tells how far states between
        segments and inputs start from it: then this raises as `trajectories`. Raises `ValueError`
        for a parameter without a range, and as `pack`.
        """
        given = (starts, seed, keep, detour, max_iterations, executor, progress)
        search, q = checked_search(*given), self.pack(guess)
        names = list(self._given.unknowns.parameters)
        values, *sides = (each[: len(names)] for each in (q, *self.bounds))
        rows = rows_of(search, values, ranges_of(names, values, (sides[0], sides[1]), ranges))
        warn_of_untold(self._problem)
        runs = partial(self._trials.trajectories, q)
        points = shooting_points(self._given, q, rows, runs, search)
        task = self._problem.identification()
        how = Chosen(
            best_optimizer(self._trials, self.bounds), True, False, 1e-10, search.limit, {}
        )
        chosen = together(self._given, self.symbolic, task)
        if chosen is not None:
            whole = partial(task.found, chosen=how._replace(optimizer="least-squares"))
            found = side_by_side(chosen, self._given, points, search, whole)
        else:
            found = one_by_one(task, self._alone, points, search, how)
        return gathered(names, rows, found, search.keep)

    def _alone(self) -> Identification:
        """The task with trajectories of its own, for a thread."""
        return self._problem.identification(replace(self._given, threads=1))
