"""`ks.forecast`: the errors of estimates that an experiment will have, before there are data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kinesym.base import checks
from kinesym.collocation import Collocation
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.internal.fitting.planned import (
    CollocationPlan,
    Plan,
    ShootingPlan,
    check_told,
    experiments,
)
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.internal.problems.formulation import formulate
from kinesym.runtime.estimation.estimation import Estimation
from kinesym.runtime.results.forecast import Forecast, Varied
from kinesym.runtime.signals.experiment import Experiment, key_name
from kinesym.runtime.signals.planned import assumed_noise, replanned, unlimited
from kinesym.runtime.summary import listed
from kinesym.shooting import Shooting

#: Rounding of times, as a share.
_ROUNDING = 1e-9


def forecast(
    problem: Collocation | Shooting,
    guess: Any = None,
    *,
    seconds: Any = None,
    rate: Any = None,
    std: Any = None,
    trials: Any = None,
    without: Any = None,
    correlation: Any = None,
) -> Forecast:
    """Forecast the standard errors that an experiment will give, before there are data.

    The problem is that of the fit. Its experiments have times, inputs and channels as they are
    planned; the values of their measurements do not matter, zeros will do, but for starts that the
    guess does not tell. The motion is simulated at the guess, and the record that it would leave
    takes the place of the data: its curvature tells how well parameters will be known, by one
    factorisation of the matrix of Karush, Kuhn and Tucker.

    guess : assumed parameters, starts and unknown inputs by name, as for fits; a course (N,) of
        each state where a simulation would run away; or a `Solution`, `Fit` or `Trajectory`.
    seconds : duration of every experiment. Inputs must be known for as long: give a `Signal`.
    rate : samples per second of every channel. std : of the noise, a number for all channels, or
        by name. trials : how often all experiments are repeated, with noise of their own.
    without : channels that are left out, a name or several in a tuple.
    correlation : time [s] over which the noise of samples is correlated, its correlation falling as
        exp(-lag/correlation), a number or by channel; the fit is as for white noise (sandwich).

    A single value is assumed throughout. A list is varied, one argument at a time, and gives
    `forecast.variants`, a table and a picture: `seconds=[30, 60, 120], without=["theta_h"]`.

    Raises `ValueError` for names that there are not, if nothing is measured, for a channel without
    std, numbers that are not positive, what nothing tells of the motion, losses other than squares,
    random effects whose distribution is unknown, and unknown inputs of shooting. With process noise
    the curvature is the mean of that of thirty records, drawn alike in every run.
    """
    if not isinstance(problem, Collocation | Shooting):
        raise ValueError(f"forecast takes a Collocation or a Shooting, got {checks.shown(problem)}")
    problem = without_limits(problem)
    asked = _asked(problem, seconds, rate, std, trials, without)
    lasting = _by_channel(correlation, "correlation", problem.trials) if correlation else {}
    _check(problem, asked, lasting)
    base = _Case(*(None if isinstance(own, list) else own for own in asked))
    varied = [
        (Varied(by, value), base._replace(**{by: value}))
        for by, own in asked._asdict().items()
        for value in (own if isinstance(own, list) else ())
    ]
    plan = plan_of(problem, guess)
    here = partial(_forecast, plan, guess, lasting)
    made = here(base)
    variants = {each: here(case).parameters for each, case in varied}
    return replace(made, variants=variants)


class _Case(NamedTuple):
    """An experiment, None for what is as it is in the problem; or lists of what is varied."""

    seconds: Any = None
    rate: Any = None
    std: Any = None
    trials: Any = None
    without: Any = None


# -- one experiment -------------------------------------------------------------------------------


def _forecast(plan: Plan, guess: Any, lasting: Mapping[str, float], case: _Case) -> Forecast:
    """The forecast of an experiment, from the plan of the one as it is."""
    if case.seconds is not None or case.rate is not None:
        trials = [replanned(trial, case.seconds, case.rate) for trial in plan.asked]
        plan = plan_on(plan, trials, guess)
    if case.trials is not None and case.trials > 1:
        plan = plan.repeated(case.trials)
    std = {**(case.std or {}), **dict.fromkeys(case.without or (), np.inf)}
    if std:
        plan = plan.on([assumed_noise(trial, std) for trial in plan.trials])
    passed = [str(each) for each in plan.passed]
    follows = any(trial.std_expressions for trial in plan.trials)
    return Forecast(
        plan.fit(), correlation=lasting, passed=passed, notes=plan.notes, follows=follows
    )


def plan_on(plan: Plan, trials: Sequence[Experiment], guess: Any) -> Plan:
    """The plan of the same question about other trials: of a motion from the same starts, or of the
    one that there is, as far as it goes, where the guess has its course."""
    made, runs = wrapped(plan.asked_of(trials)), plan.runs
    ends = [float(trial.grid[-1]) * (1.0 - _ROUNDING) for trial in trials]
    there = all(end <= run.time[-1] for end, run in zip(ends, runs, strict=True))
    if there and _has_courses(guess):
        pairs = zip(runs, trials, strict=True)
        return plan_of(made, [run.between(run.time[0], trial.grid[-1]) for run, trial in pairs])
    told = guess if isinstance(guess, Mapping) else {}
    given = {key_name(key): value for key, value in told.items()}
    for name in plan.inputs:
        value = given.get(name, 0.0)
        if any(np.ndim(one) for one in (value if isinstance(value, list) else [value])):
            raise ValueError(
                f"the guess has unknown input {name} for the experiment as it is, and a longer one "
                "needs it for longer: give a number, or a list of a ks.Signal per trial"
            )
    return plan_of(made, {**plan.begun, **{u: given[u] for u in plan.inputs if u in given}})


def _has_courses(guess: Any) -> bool:
    """Whether a guess says more than parameters and starts."""
    if not isinstance(guess, Mapping | None):
        return True
    rows = [own if isinstance(own, list) else [own] for own in (guess or {}).values()]
    return any(np.ndim(own) for row in rows for own in row)


def plan_of(problem: Collocation | Shooting, guess: Any) -> Plan:
    """The plan of a guess."""
    if isinstance(problem, Collocation):
        return CollocationPlan.of(problem.problem, guess)
    check_told(problem.problem, guess)
    return ShootingPlan.of(problem.problem, problem.pack(guess), guess)


def without_limits(problem: Collocation | Shooting) -> Collocation | Shooting:
    """The problem of experiments whose samples are not censored yet, see `unlimited`."""
    if not any(trial.limits for trial in problem.trials):
        return problem
    inner = problem.problem
    question: Any = (
        inner.formulation.question if isinstance(inner, Discretisation) else inner.question
    )
    asked = replace(question, trials=[unlimited(trial) for trial in experiments(question.trials)])
    if isinstance(inner, Discretisation):
        return Collocation.of(Discretisation.of(*formulate(asked), inner.threads))
    return Shooting.of(ShootingProblem.of(asked))


def wrapped(problem: Discretisation | ShootingProblem) -> Collocation | Shooting:
    """The problem, to be asked."""
    if isinstance(problem, Discretisation):
        return Collocation.of(problem)
    return Shooting.of(problem)


# -- arguments ------------------------------------------------------------------------------------


def _asked(
    problem: Collocation | Shooting, seconds: Any, rate: Any, std: Any, trials: Any, without: Any
) -> _Case:
    """The arguments, checked; lists where they are varied."""

    def each(given: Any, checked: Callable[[Any], Any]) -> Any:
        if isinstance(given, list):
            return [checked(one) for one in given]
        return None if given is None else checked(given)

    channels = _channels(problem.trials)

    def left_out(given: Any) -> tuple[str, ...]:
        names = tuple(map(_name, given)) if isinstance(given, tuple) else (_name(given),)
        for name in names:
            checks.check_choice(name, channels, "a channel that is left out")
        if set(channels) <= set(names):
            raise ValueError(f"without {listed(names)} nothing is measured")
        return names

    return _Case(
        each(seconds, partial(checks.positive, what="seconds")),
        each(rate, partial(checks.positive, what="rate")),
        each(std, partial(_by_channel, what="std", trials=problem.trials)),
        each(trials, partial(checks.count, what="trials")),
        each(without, left_out),
    )


def _name(given: Any) -> str:
    with checks.naming("a channel that is left out"):
        return key_name(given)


def _channels(trials: Sequence[Experiment]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.measured))


def _by_channel(given: Any, what: str, trials: Sequence[Experiment]) -> dict[str, float]:
    """Positive numbers by channel, of one number that for all."""
    channels = _channels(trials)
    if isinstance(given, str):
        raise ValueError(f"{what} must be numbers, got {checks.shown(given)}")
    if not isinstance(given, Mapping):
        number = checks.positive(given, what)
        return dict.fromkeys(channels, number)
    found = dict[str, float]()
    for key, value in given.items():
        name = key_name(key)
        checks.check_choice(name, channels, f"a channel of {what}")
        found[name] = checks.positive(value, f"{what} of {name}")
    return found


def _check(problem: Collocation | Shooting, asked: _Case, lasting: Mapping[str, float]) -> None:
    """Raise `ValueError` for what has no forecast."""
    estimation = _estimation(problem)
    if not estimation.factor or not _channels(problem.trials):
        raise ValueError(
            "nothing is measured: a forecast needs channels in the measurements of its "
            "experiments, with any values, and an objective with LeastSquares"
        )
    if estimation.loss is not None:
        raise ValueError("a forecast is of least squares; leave loss out of the objective")
    if isinstance(problem, Shooting) and problem.problem.given.unknowns.inputs:
        raise ValueError(
            "shooting has no standard errors with samples of unknown inputs; use ks.Collocation"
        )
    if isinstance(problem, Collocation):
        if problem.problem.population:
            raise ValueError(
                "a forecast takes distributions as known: give mean and spread of random effects, "
                "or leave their distribution out"
            )
        linked = problem.symbolic.links or problem.symbolic.cycle
        if linked and asked.trials is not None:
            raise ValueError("trials that are linked are one experiment; trials= cannot repeat it")
    asks = [own for own in asked.std if own] if isinstance(asked.std, list) else [asked.std or {}]
    if isinstance(asked.std, list):
        asks.append({})  # the experiment as it is
    for number, trial in enumerate(problem.trials):
        for name, e in trial.std_expressions.items():
            _check_follows(name, e, any(name in own for own in asks), estimation.mixed)
        for name in {*trial.std_expressions, *trial.ranges} & lasting.keys():
            raise ValueError(
                f"correlated noise of {name} is taken as of samples that have a std in numbers and "
                "no limits; leave correlation out, or give typical numbers"
            )
        for name in trial.unknown_std:
            if not all(name in own for own in asks):
                raise ValueError(
                    f"std of {name} is not given in trial {number}: a forecast needs the noise "
                    f"that is assumed, std={{{name!r}: ...}} in the experiment or here"
                )


def _check_follows(name: str, e: Any, asked: bool, mixed: bool) -> None:
    """Raise `ValueError` for what there is no forecast of where a std is an expression."""
    if asked:
        raise ValueError(
            f"std of {name} is {e}, and a number besides; vary the parameters of that in the guess"
        )
    if mixed:
        raise ValueError(
            f"std of {name} is {e}: with other terms of the objective the likelihood does not tell "
            "what will be known; leave them out, or give a typical number"
        )


def _estimation(problem: Collocation | Shooting) -> Estimation:
    if isinstance(problem, Collocation):
        return problem.problem.estimation
    return problem.problem.identification().task.estimation
