"""Search for experiments whose records tell most: courses of inputs, starts, times of samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinesym.internal.fitting.combination import combination
from kinesym.internal.fitting.planned import Plan
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.planned import driven, only_at
from kinesym.runtime.signals.sines import Sines
from kinesym.runtime.statistics.criteria import (
    CRITERIA,
    UNKNOWN,
    Criterion,
    along,
    judged,
    nearly_worst,
)
from kinesym.runtime.statistics.subset import Candidates, chosen

#: Step of finite differences of the criterion, in units of the coefficients, which are about 1.
_STEP = 1e-4
#: Weight of the excess of a motion over its limits: 1 % is as dear as errors that double.
_PENALTY = 100.0
#: Random designs for each one that is improved.
_DRAWN = 6


@dataclass(frozen=True)
class Free:
    """Choices that an experiment has. courses : limits by trial and input. starts : bounds by trial
    and state."""

    courses: Mapping[tuple[int, str], Sines]
    starts: Mapping[tuple[int, str], tuple[float, float]]

    @cached_property
    def size(self) -> int:
        """Number of coefficients."""
        return sum(2 * each.waves for each in self.courses.values()) + len(self.starts)

    def drawn(self, rng: np.random.Generator) -> Array:
        """Random coefficients: courses of a flat spectrum, starts between their bounds."""
        count = self.size - len(self.starts)
        return np.concatenate([rng.standard_normal(count), rng.uniform(size=len(self.starts))])

    def parts(
        self, x: Array, times: Sequence[Array]
    ) -> tuple[dict[tuple[int, str], Array], dict[tuple[int, str], float]]:
        """Courses and starts of coefficients (size,)."""
        rows, begin = dict[tuple[int, str], Array](), 0
        for (trial, name), limits in self.courses.items():
            mine = x[begin : begin + 2 * limits.waves]
            rows[trial, name] = limits.course(mine, times[trial])
            begin += len(mine)
        starts = {
            key: low + float(share) * (high - low)
            for (key, (low, high)), share in zip(self.starts.items(), x[begin:], strict=True)
        }
        return rows, starts

    def normal(self, x: Array) -> Array:
        """Coefficients of the same courses, those of each of mean square 1."""
        x, begin = x.copy(), 0
        for limits in self.courses.values():
            mine = x[begin : begin + 2 * limits.waves]
            mine /= float(np.sqrt(np.mean(mine**2))) or 1.0
            begin += len(mine)
        return x

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Bounds of coefficients."""
        count = self.size - len(self.starts)
        return [*[(None, None)] * count, *[(0.0, 1.0)] * len(self.starts)]


Scored = Callable[[Trials], float]


@dataclass(frozen=True, eq=False)
class Designing:
    """A problem with something free in its experiments.

    plan : of experiments, a guess by name, and the starts in it that were free. trials : as they
    are. guesses : assumed values, one for each case. criterion : of a fit.
    """

    plan: Callable[[Sequence[Experiment], Mapping[str, Any], Mapping[str, Any]], Plan]
    trials: Sequence[Experiment]
    guesses: Sequence[Mapping[str, Any]]
    free: Free
    criterion: Scored

    def plans(self, x: Array | None) -> list[Plan]:
        """The plans of coefficients, or of the experiments as they are; one for each guess."""
        trials, starts = self.trials, dict[str, Any]()
        if x is not None:
            rows, begun = self.free.parts(x, [trial.grid for trial in trials])
            trials = [
                driven(trial, {n: row for (k, n), row in rows.items() if k == number})
                for number, trial in enumerate(trials)
            ]
            for _, name in begun:
                starts[name] = [begun[k, name] for k in range(len(trials))]
        return [self.plan(trials, {**guess, **starts}, starts) for guess in self.guesses]

    def value(self, x: Array) -> float:
        """The criterion at coefficients: the worst of all guesses."""
        try:
            plans = self.plans(x)
            outside = max((each.share for plan in plans for each in plan.passed), default=0.0)
            return max(self.criterion(plan.fit()) for plan in plans) + _PENALTY * outside
        except (ValueError, ArithmeticError):
            return UNKNOWN

    def slopes(self, x: Array, here: float) -> Array:
        """Derivatives by differences to the inner side of bounds."""
        found = np.zeros_like(x)
        for k, (_, high) in enumerate(self.free.bounds):
            step = -_STEP if high is not None and x[k] + _STEP > high else _STEP
            there = x.copy()
            there[k] += step
            found[k] = (self.value(there) - here) / step
        return np.where(np.abs(found) < UNKNOWN, found, 0.0)

    def best(self, tries: int, iterations: int, seed: int) -> Array:
        """The best coefficients: of random designs the best are improved."""
        from scipy.optimize import minimize  # here: slow to import

        rng = np.random.default_rng(seed)
        drawn = [self.free.normal(self.free.drawn(rng)) for _ in range(_DRAWN * tries)]
        first = sorted(((self.value(x), k) for k, x in enumerate(drawn)))[:tries]
        best, value = drawn[first[0][1]], first[0][0]
        for _, k in first:
            found = minimize(
                lambda x: (f := self.value(x), self.slopes(x, f)),
                drawn[k],
                jac=True,
                method="L-BFGS-B",
                bounds=self.free.bounds,
                options={"maxiter": iterations},
            )
            if found.fun < value:
                best, value = found.x, float(found.fun)
        return best


def score(wanted: Any, smooth: bool = False) -> Scored:
    """The logarithm of what is wanted to be small: a criterion by name, of all parameters, or the
    standard error of a parameter by name or of an expression. smooth : as a search can follow."""
    if not isinstance(wanted, str):
        return lambda fit: _logarithm(fit.interval(wanted).standard_error)
    if wanted not in CRITERIA:
        return lambda fit: _logarithm(fit.parameters.table[wanted].standard_error)
    criterion = nearly_worst if smooth and wanted == "worst" else CRITERIA[wanted]
    return lambda fit: judged(criterion, *_known(fit))


def _logarithm(error: float) -> float:
    return float(np.log(error)) if error > 0.0 else UNKNOWN


def criterion_of(wanted: Any, plan: Plan) -> Criterion:
    """The criterion of the covariance of all parameters; expressions are in those of the first
    trial. Raises `ValueError` for states in it."""
    if isinstance(wanted, str) and wanted in CRITERIA:
        return CRITERIA[wanted]
    names = list(plan.owned.names)
    slopes = np.zeros(len(names))
    if isinstance(wanted, str):
        slopes[names.index(wanted)] = 1.0
        return along(slopes)
    found = combination(wanted, plan.runs[0])
    own = dict(zip(plan.owned.parameters, plan.owned.places(0).tolist(), strict=True))
    for (where, name), slope in zip(found.arguments, found.at(found.values)[1], strict=True):
        if where != "parameter":
            raise ValueError(
                f"samples are chosen for parameters, and the criterion has the state {name}"
            )
        if name in own:
            slopes[own[name]] += slope
    return along(slopes)


def _known(fit: Trials) -> tuple[Array, Array]:
    """Covariance (r, r) and values (r,) of the parameters of a fit."""
    [about] = fit.uncertainty
    places = [list(about.names).index(name) for name in fit.parameters]
    return about.covariance[np.ix_(places, places)], np.array(list(fit.parameters.values()))


def fewer(
    plans: Sequence[Plan], count: Mapping[str, int], criteria: Sequence[Criterion]
) -> tuple[list[Plan], dict[str, list[Array]]]:
    """Plans with so many samples of each channel, of those that they have, chosen so that the
    criterion of their parameters is least for the worst of them; and their times, by channel and
    trial. criteria : of each plan.

    The information of a sample is the square of its row in a basis of what the fit follows, in
    which that of all samples is 1. Raises `ValueError` where there is no such basis.
    """
    pairs = [_candidates(plan, own, count) for plan, own in zip(plans, criteria, strict=True)]
    samples = pairs[0][1]
    numbers = {samples.channels.index(name): number for name, number in count.items()}
    channel = np.where(np.isfinite(samples.time), samples.channel, -1)
    mask = chosen([candidates for candidates, _ in pairs], channel, numbers)
    times: dict[str, list[Array]] = {}
    for name, number in ((name, samples.channels.index(name)) for name in count):
        rows = [
            samples.time[mask & (channel == number) & (samples.trial == k)]
            for k in range(len(plans[0].trials))
        ]
        times[name] = [np.unique(row) for row in rows]
    made = [p.on([only_at(t, k, times) for k, t in enumerate(p.trials)]) for p in plans]
    return made, times


def _candidates(
    plan: Plan, criterion: Criterion, names: Collection[str]
) -> tuple[Candidates, Samples]:
    """The samples of a plan, as those to choose from; names : of channels of which to choose."""
    fit = plan.fit()
    assert fit.inference is not None
    told = fit.inference().pulls()
    basis = told.basis()
    if basis is None:
        raise ValueError("samples are chosen where the fit follows few directions: give all starts")
    samples = told.samples
    for name in names:
        mine = (samples.channel == samples.channels.index(name)) & np.isfinite(samples.time)
        if (samples.share[mine] < 1.0).any() or (samples.counts[mine] != 1.0).any():
            raise ValueError(
                f"samples of {name} are compared with the model between nodes in this scheme, "
                'several at once; choose them in scheme="radau-3", or by ks.Shooting'
            )
    ways = np.asarray(np.linalg.lstsq(basis, told.pull)[0].T, dtype=np.float64)
    values = _known(fit)[1]
    return Candidates(basis, ways[: len(values)], values, criterion), told.samples
