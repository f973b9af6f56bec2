"""`ks.design`: the experiment whose record will tell most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from kinesym.base import checks
from kinesym.collocation import Collocation
from kinesym.forecasting import forecast
from kinesym.internal.fitting.designs import Designing, Free, by_covariance, fewer
from kinesym.runtime.progress import iteration_line
from kinesym.runtime.results.design import Design
from kinesym.runtime.results.forecast import Forecast
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment, key_name
from kinesym.runtime.signals.sines import Sines, sines
from kinesym.runtime.statistics.criteria import CRITERIA, of_direction
from kinesym.shooting import Shooting


def design(
    problem: Collocation | Shooting,
    guess: Any,
    over: Any = (),
    *,
    criterion: Any = "worst",
    samples: Any = None,
    tries: int = 3,
    iterations: int = 30,
    seed: int = 0,
) -> Design:
    """Design the experiments of a problem, so that their records tell most.

    problem, guess : as for `forecast`; several guesses as a list: the design is the best for the
    worst of them. over : what is free: inputs, each with `sines(...)`, the limits of a sum of
    sines, or a list of inputs, as large and of the same band as they are in the experiments;
    starting values of states with bounds, {theta: (-0.5, 0.5)}, a value for each trial. samples :
    how many samples of each channel are to be taken, a number or {channel: number}; they are chosen
    among those of the experiments, after all else.

    criterion : "worst", the largest relative standard error of a parameter; "D", the volume of the
    ellipsoid of confidence; "A", the root mean square of relative standard errors; "E", its longest
    axis; or a parameter or expression of parameters, its standard error.

    Of random designs, `tries` are improved by `iterations` steps of L-BFGS-B, whose derivatives are
    differences of forecasts. seed : of the random numbers.

    Returns forecasts before and after and the experiments. Raises `ValueError` for names that there
    are not, for nothing that is free, bounds that are none, a criterion that no experiment can
    tell, and as `forecast`; before the search.
    """
    guesses = list(guess) if isinstance(guess, list) else [guess]
    if not guesses or not all(isinstance(each, Mapping) for each in guesses):
        raise ValueError("guess is a mapping of names to values, or a list of some")
    before = forecast(problem, guesses[0])
    given = list(problem.trials)
    free, count = _free(problem, over), _samples(samples, given)
    if not free.size and not count:
        raise ValueError("nothing is free: give inputs or starts in over, or samples")
    named = [{key_name(key): value for key, value in each.items()} for each in guesses]
    search = Designing(problem.problem, named, free, _criterion(criterion, before.fit))
    counted = checks.count(tries, "tries"), checks.count(iterations, "iterations")
    first, x = search.value(None), None
    if free.size:
        x, _ = search.best(*counted, checks.count(seed, "seed", least=0))
    plans = search.plans(x)
    times: dict[str, Sequence[Any]] = {}
    if count:
        plans, times = fewer(plans, count, criterion if criterion in CRITERIA else "worst")
    fits = [plan.fit() for plan in plans]
    last = max(map(search.criterion, fits))
    rows, starts = free.parts(x, [t.grid for t in given]) if x is not None else ({}, {})
    return Design(
        before=before,
        after=Forecast(fits[0]),
        trials=list(plans[0].trials),
        given=given,
        criterion=criterion if isinstance(criterion, str) else f"standard error of {criterion}",
        values=(float(np.exp(first)), float(np.exp(last))),
        inputs=list(dict.fromkeys(name for _, name in rows)),
        starts={x: [v for (_, y), v in starts.items() if y == x] for _, x in starts},
        times=times,
    )
