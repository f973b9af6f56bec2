"""`ks.design`: the experiment whose record will tell most."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base import checks
from kinesym.collocation import Collocation
from kinesym.forecasting import forecast, plan_of, plan_on, without_limits, wrapped
from kinesym.internal.fitting.design_slopes import DesignSlopes
from kinesym.internal.fitting.designs import (
    Designing,
    Free,
    Planner,
    Scored,
    Sensors,
    criterion_of,
    error_of,
    fewer,
    score,
    shortest,
    with_sensors,
)
from kinesym.internal.fitting.planned import Plan
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.runtime.arrays import Array, one_number
from kinesym.runtime.results.design import Design
from kinesym.runtime.results.forecast import Forecast
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment, key_name
from kinesym.runtime.signals.planned import measuring, replanned
from kinesym.runtime.signals.sines import Sines, sines
from kinesym.runtime.statistics.criteria import CRITERIA, UNKNOWN, Criterion
from kinesym.runtime.summary import listed
from kinesym.shooting import Shooting

#: What is free where the duration is, as unknown durations are called in guesses.
_DURATION = "duration"


def design(
    problem: Collocation | Shooting,
    guess: Any,
    over: Any = (),
    *,
    criterion: Any = "worst",
    goal: float | None = None,
    sensors: int | None = None,
    samples: Any = None,
    tries: int = 3,
    iterations: int = 30,
    seed: int = 0,
) -> Design:
    """Design the experiments of a problem, so that their records tell most.

    problem, guess : as for `forecast`, of a fit its parameters and starts; several guesses as a
    list: the design is the best for the worst of them. over : what is free: inputs, each with
    `sines(...)`, the limits of a sum of sines, or a list of inputs, as large and of the same band
    as they are in the experiments; starting values of states with bounds, {theta: (-0.5, 0.5)}, a
    value for each trial; the duration of all experiments, {"duration": (10, 60)} [s]. Bounds of
    states and conditions of the path that the problem has hold for the designed motion.

    goal : of the criterion, where the duration is free: a longer record never tells less, and the
    shortest one is taken that comes to the goal, of experiments that are designed for the longest.
    sensors : how many of the channels that are measured are to be kept. Where something else is
    free, it is designed for all of them, and again for those that are the best then. samples : how
    many samples of each channel are to be taken, of all trials together, a number or {channel:
    number}; they are chosen among those of the experiments, and of the channels that are kept,
    after all else.

    criterion : "worst", the largest relative standard error of a parameter; "D", the volume of the
    ellipsoid of confidence; "A", the root mean square of relative standard errors; "E", its longest
    axis; or a parameter or expression of parameters, its standard error.

    Of random designs, `tries` are improved by `iterations` steps of L-BFGS-B. Its derivatives come
    from the factors of the forecast; for shooting, process noise, delays and criteria with states
    they are differences of forecasts. seed : of the random numbers.

    Returns forecasts before and after and the experiments. Raises `ValueError` for names that there
    are not, for nothing that is free, bounds that are none, a criterion that no experiment can
    tell, and as `forecast`; before the search.
    """
    if not isinstance(problem, Collocation | Shooting):
        raise ValueError(f"design takes a Collocation or a Shooting, got {checks.shown(problem)}")
    problem = without_limits(problem)
    guesses = [_by_name(problem, each) for each in (guess if isinstance(guess, list) else [guess])]
    if not guesses:
        raise ValueError("guess is an empty list; give a mapping of names to values, or several")
    before, given = forecast(problem, guesses[0]), list(problem.trials)
    if not before.fit.parameters:
        raise ValueError("nothing is unknown: a design is for parameters of the problem")
    wanted = _wanted(criterion, before.fit)
    exact = score(wanted)
    first = max(exact(plan_of(problem, each)) for each in guesses)
    over, lasting = _durations(given, over, goal)
    if lasting is not None:
        problem = _of_duration(problem, guesses[0], float(lasting[-1]))
    trials = list(problem.trials)
    free, count = _free(problem, over), _samples(samples, trials)
    most = None if sensors is None else _sensors(sensors, trials)
    _check(problem, free, lasting, count, most)
    plan = _planner(problem, {name for _, name in free.starts})
    search = Designing(plan, trials, guesses, free, wanted, _slopes(problem, free))
    steps = checks.count(iterations, "iterations")
    counted = checks.count(tries, "tries"), steps, checks.count(seed, "seed", least=0)
    x, criteria = np.zeros(0), _of_samples(wanted, search.plans(None)) if count else []
    if free.size:
        _check_starts(search)
        x = search.best(*counted)
    chosen, times, durations = Sensors({}, {}), dict[str, list[Array]](), dict[float, float]()
    if most is not None:
        search, x, chosen = with_sensors(search, x, most, wanted, steps)
    plans = search.plans(x)
    if lasting is not None and goal is not None:
        ended = partial(_ended, plans, guesses, chosen.further)
        seconds, durations = shortest(ended, lasting, goal, exact)
        plans = ended(seconds)
    if count := {name: n for name, n in count.items() if name not in chosen.further}:
        plans, times = fewer(plans, count, criteria)
    last, after = _forecast(plans, exact)
    _, begun = free.parts(x, [trial.grid for trial in trials])
    starts = dict[str, list[float]]()
    for (_, name), value in begun.items():
        starts.setdefault(name, []).append(value)
    return Design(
        before=before,
        after=after,
        trials=[_without(chosen.further, trial) for trial in plans[0].trials],
        given=given,
        criterion=wanted if wanted in CRITERIA else f"standard error of {wanted}",
        values=(error_of(first), error_of(last)),
        inputs=list(dict.fromkeys(name for _, name in free.courses)),
        starts=starts,
        goal=goal,
        durations=durations,
        sensors=chosen.kept,
        further=chosen.further,
        times=times,
        notes=list(dict.fromkeys(str(each) for plan in plans for each in plan.passed)),
    )


def _check(
    problem: Collocation | Shooting,
    free: Free,
    lasting: Array | None,
    count: Mapping[str, int],
    most: int | None,
) -> None:
    """Raise `ValueError` where nothing is free, or what is does not go together."""
    if not (free.size or count or most is not None or lasting is not None):
        raise ValueError("nothing is free: give inputs or starts in over, sensors, or samples")
    if lasting is not None and count:
        raise ValueError("fewer samples miss the goal that a duration meets; leave samples out")
    if lasting is not None and free.starts and isinstance(problem, Shooting):
        raise ValueError("starts of shooting are designed without a duration; design that last")


def _by_name(problem: Collocation | Shooting, guess: Any) -> dict[str, Any]:
    """A guess by name, from which motions are simulated: of a fit its parameters and starts."""
    if isinstance(guess, Mapping):
        return {key_name(key): value for key, value in guess.items()}
    if isinstance(guess, Trials):
        plan = plan_of(problem, guess)
        if not plan.inputs:
            return plan.begun
    raise ValueError(
        "guess is a mapping of names to values, a fit without unknown inputs, or a list of these, "
        f"got {checks.shown(guess)}"
    )


def _durations(trials: Sequence[Experiment], over: Any, goal: Any) -> tuple[Any, Array | None]:
    """Rest of what is free, and the durations (n,) to choose from, None if that is not free."""
    if not isinstance(over, Mapping) or _DURATION not in over:
        if goal is not None:
            raise ValueError('goal is of the shortest experiment: over={"duration": (low, high)}')
        return over, None
    low, high = _bounds("the duration", over[_DURATION])
    checks.positive(low, "the shortest duration")
    if goal is None:
        raise ValueError(
            "a longer experiment never tells less: say with goal=... to what the criterion is to "
            "come, and the shortest one is found; ks.forecast(..., seconds=[...]) has a table"
        )
    checks.positive(goal, "goal")
    grid = replanned(trials[0], high).grid
    seconds = grid - grid[0]
    found = seconds[seconds >= low * (1.0 - 1e-9)]
    return {key: own for key, own in over.items() if key != _DURATION}, found


def _of_duration(problem: Collocation | Shooting, guess: Any, seconds: float) -> Any:
    """The problem of experiments that last so long."""
    plan = plan_of(problem, guess)
    return wrapped(plan.asked_of([replanned(trial, seconds) for trial in plan.asked]))


def _ended(
    plans: Sequence[Plan],
    guesses: Sequence[Mapping[str, Any]],
    left: Collection[str],
    seconds: float,
) -> list[Plan]:
    """The plans of the same experiments that end earlier. left : channels that are not kept."""
    return [
        plan_on(plan, [replanned(_without(left, trial), seconds) for trial in plan.trials], guess)
        for plan, guess in zip(plans, guesses, strict=True)
    ]


def _planner(problem: Collocation | Shooting, starts: Collection[str]) -> Planner:
    """Plans of other experiments on the same grids. starts : names of those that are free."""
    if isinstance(problem, Collocation):
        own = problem.problem
        return lambda trials, guess, begun: plan_of(Collocation.of(own.on(trials)), guess)
    known = {*starts} - {*problem.problem.given.unknowns.initial}
    same = _with_numbers(problem.problem, known) if known else problem.problem

    def plan(
        trials: Sequence[Experiment], guess: Mapping[str, Any], begun: Mapping[str, Any]
    ) -> Plan:
        told = {x: row for x, row in begun.items() if x in known}
        made = Shooting.of(same.on(trials, told))
        return plan_of(made, {name: value for name, value in guess.items() if name not in told})

    return plan


def _slopes(problem: Collocation | Shooting, free: Free) -> DesignSlopes | None:
    if not free.size or isinstance(problem, Shooting):
        return None
    return DesignSlopes.of(problem.problem, {name for _, name in free.courses})


def _with_numbers(problem: ShootingProblem, names: Collection[str]) -> ShootingProblem:
    """The problem with numbers for known starts, whatever they followed from."""
    question, numbers = problem.question, dict.fromkeys(names, 0.0)
    rows = question.initial or {}
    named = [
        {**{key_name(x): start for x, start in row.items()}, **numbers}
        for row in ([rows] if isinstance(rows, Mapping) else rows)
    ]
    initial = named[0] if isinstance(rows, Mapping) else named
    return ShootingProblem.of(replace(question, initial=initial))


def _free(problem: Collocation | Shooting, over: Any) -> Free:
    """Choices, checked."""
    pairs = dict(over) if isinstance(over, Mapping) else dict.fromkeys(_listed(over))
    model, trials = problem.model, problem.trials
    courses = dict[tuple[int, str], Sines]()
    starts = dict[tuple[int, str], tuple[float, float]]()
    for key, limits in pairs.items():
        name = key_name(key)
        if name in model.state_names:
            low, high = _bounds(f"the start of {name}", limits)
            starts |= {(k, name): (low, high) for k in range(len(trials))}
            continue
        given = [*trials[0].inputs]
        checks.check_choice(name, [*given, *model.state_names], "a known input or a state of over")
        if not isinstance(limits, Sines | None):
            raise ValueError(
                f"the limits of input {name} are ks.sines(...), or None for those that it has, got "
                f"{checks.shown(limits)}"
            )
        for k, trial in enumerate(trials):
            if trial.free_duration:
                raise ValueError(
                    f"the course of {name} has no frequencies where the duration of trial {k} is "
                    "unknown; give times"
                )
            if name not in trial.inputs:
                raise ValueError(f"input {name} of trial {k} has no samples at the nodes")
            with checks.naming(f"input {name}"):
                own = (limits or sines()).like(trial.grid, trial.inputs[name])
            courses[k, name] = own
    return Free(courses, starts)


def _listed(over: Any) -> Sequence[Any]:
    return [over] if isinstance(over, str | sp.Basic) else checks.listed(over, "over")


def _bounds(what: str, limits: Any) -> tuple[float, float]:
    if not isinstance(limits, tuple | list) or len(limits) != 2:
        raise ValueError(f"{what} is free between (low, high), got {limits!r}")
    low, high = (one_number(side, f"a bound of {what}") for side in limits)
    if not low < high:
        raise ValueError(f"the bounds of {what} are crossed: {limits!r}")
    return low, high


def _samples(given: Any, trials: Sequence[Experiment]) -> dict[str, int]:
    """Numbers of samples by channel."""
    channels = list(dict.fromkeys(name for trial in trials for name in trial.measured))
    if given is None:
        return {}
    if any(trial.free_duration for trial in trials):
        raise ValueError("times of samples are chosen where durations are known; give times")
    if not isinstance(given, Mapping):
        return dict.fromkeys(channels, checks.count(given, "samples"))
    found = dict[str, int]()
    for key, number in given.items():
        name = key_name(key)
        checks.check_choice(name, channels, "a channel of samples")
        found[name] = checks.count(number, f"samples of {name}")
    return found


def _sensors(given: Any, trials: Sequence[Experiment]) -> int:
    """Number of channels to keep."""
    channels = list(dict.fromkeys(name for trial in trials for name in trial.measured))
    number = checks.count(given, "sensors")
    if number >= len(channels):
        raise ValueError(
            f"sensors={number} leaves nothing to choose: measured are {listed(channels)}"
        )
    return number


def _without(names: Collection[str], trial: Experiment) -> Experiment:
    return measuring(trial, [name for name in trial.measured if name not in names])


def _of_samples(wanted: Any, plans: Sequence[Plan]) -> list[Criterion]:
    """The criterion of samples at each plan; raises `ValueError` where there is none."""
    if not all(plan.additive for plan in plans):
        raise ValueError("samples are not chosen with process noise or random effects; leave them")
    criteria = [criterion_of(wanted, plan) for plan in plans]
    found = [each for each in criteria if each is not None]
    if len(found) < len(criteria):
        raise ValueError(
            f"samples are chosen for parameters, and the criterion {wanted} has states"
        )
    return found


def _wanted(criterion: Any, fit: Trials) -> Any:
    """The criterion, checked: the name of one or of a parameter, or an expression."""
    if isinstance(criterion, str):
        checks.check_choice(criterion, [*CRITERIA, *fit.parameters], "criterion")
    return criterion


def _forecast(plans: Sequence[Plan], score: Scored) -> tuple[float, Forecast]:
    """The worst criterion of plans, and the forecast of the first. Raises `ValueError` if they do
    not tell what is wanted."""
    words = (
        "no design that was tried tells what is wanted; take more samples, let more be free, or "
        "fix what cannot be known"
    )
    try:
        value, after = max(map(score, plans)), Forecast(plans[0].fit())
    except ValueError as error:  # of a matrix that tells nothing
        raise ValueError(words) from error
    if value >= UNKNOWN:
        raise ValueError(words)
    return value, after


def _check_starts(search: Designing) -> None:
    """Raise `ValueError` for starts that something else tells: motions that do not follow them."""
    free, grids = search.free, [trial.grid for trial in search.trials]
    x = free.drawn(np.random.default_rng(0))
    found = list[Array]()
    for share in (0.25, 0.75) if free.starts else ():
        x[len(x) - len(free.starts) :] = share
        runs = search.plans(x)[0].runs
        found.append(np.array([runs[trial][name][0] for trial, name in free.parts(x, grids)[1]]))
    for (trial, name), moved in zip(free.starts, np.diff(found, axis=0).ravel(), strict=True):
        low, high = free.starts[trial, name]
        if not moved > 0.4 * (high - low):
            raise ValueError(
                f"the motion of trial {trial} does not begin where over lets {name} begin: a "
                f"condition, or a trajectory in the guess, says so; leave that out, or {name}"
            )
