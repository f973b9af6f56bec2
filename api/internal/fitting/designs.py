"""Search for experiments whose records tell most: courses of inputs, starts, times of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from kinesym.internal.fitting.planned import Plan
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.trajectory import Trajectory
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.planned import driven, only_at
from kinesym.runtime.signals.sines import Sines
from kinesym.runtime.statistics.criteria import UNKNOWN, Criterion, judged
from kinesym.runtime.statistics.subset import Candidates

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
    limits: Mapping[str, tuple[float, float]]

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
            outside = max(self._outside(plan.runs) for plan in plans)
            return max(self.criterion(plan.fit()) for plan in plans) + _PENALTY * outside
        except (ValueError, ArithmeticError):
            return UNKNOWN

    def _outside(self, runs: Sequence[Trajectory]) -> float:
        """Root mean square excess of a motion over its limits, as a share of these."""
        total = 0.0
        for name, (low, high) in self.limits.items():
            span = high - low if np.isfinite(high - low) else max(1.0, abs(low), abs(high))
            for run in runs:
                excess = np.maximum(np.maximum(low - run[name], run[name] - high), 0.0) / span
                total = max(total, float(np.sqrt(np.mean(excess**2))))
        return total

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


def scored(criterion: Criterion) -> Scored:
    """The criterion of all parameters of a fit."""

    def value(fit: Trials) -> float:
        covariance, values = _known(fit)
        return judged(criterion, covariance, values)

    return value


def of_combination(expression: Any) -> Scored:
    """The logarithm of the standard error of an expression of parameters."""

    def value(fit: Trials) -> float:
        error = fit.interval(expression).standard_error
        return float(np.log(error)) if error > 0.0 else UNKNOWN

    return value


def _known(fit: Trials) -> tuple[Array, Array]:
    """Covariance (r, r) and values (r,) of the parameters of a fit."""
    [about] = fit.uncertainty
    places = [list(about.names).index(name) for name in fit.parameters]
    return about.covariance[np.ix_(places, places)], np.array(list(fit.parameters.values()))


def fewer(
    plan: Plan, count: Mapping[str, int], criterion: Criterion
) -> tuple[Plan, dict[str, list[Array]]]:
    """The plan with so many samples of each channel, of those that it has, chosen so that the
    criterion of its parameters is least; and their times, by channel and trial.

    The information of a sample is the square of its row in a basis of what the fit follows, in
    which that of all samples is 1. Raises `ValueError` where there is no such basis.
    """
    fit = plan.fit()
    assert fit.inference is not None
    told = fit.inference().pulls()
    basis = told.basis()
    if basis is None:
        raise ValueError("samples are chosen where the fit follows few directions: give all starts")
    ways = np.asarray(np.linalg.lstsq(basis, told.pull)[0].T, dtype=np.float64)
    samples, values = told.samples, _known(fit)[1]
    numbers = {samples.channels.index(name): number for name, number in count.items()}
    channel = np.where(np.isfinite(samples.time), samples.channel, -1)
    mask = Candidates(basis, ways[: len(values)], values, criterion).chosen(channel, numbers)
    times: dict[str, list[Array]] = {}
    for name, number in ((name, samples.channels.index(name)) for name in count):
        rows = [
            samples.time[mask & (channel == number) & (samples.trial == k)]
            for k in range(len(plan.trials))
        ]
        times[name] = [np.unique(row) for row in rows]
    return plan.on([only_at(t, k, times) for k, t in enumerate(plan.trials)]), times
