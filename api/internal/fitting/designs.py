"""Search for experiments whose records tell most: courses of inputs, starts, times of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from kinesym.internal.fitting.planned import CollocationPlan, Plan, ShootingPlan
from kinesym.internal.fitting.shooting_problem import ShootingProblem
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.trials import Trials
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.planned import driven
from kinesym.runtime.signals.sines import Sines
from kinesym.runtime.statistics.criteria import UNKNOWN, Criterion, judged

#: Step of finite differences of the criterion, in units of the coefficients, which are about 1.
_STEP = 1e-4
#: Random designs for each one that is improved.
_DRAWN = 6


@dataclass(frozen=True)
class Free:
    """What an experiment can choose. courses : limits by trial and input. starts : bounds by trial
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


@dataclass(frozen=True, eq=False)
class Designing:
    """A problem with something free in its experiments.

    problem : of which the plans are. guesses : assumed values, one for each that is to be told from.
    criterion : of the covariance and values of the estimates.
    """

    problem: Any
    guesses: Sequence[Mapping[Any, Any]]
    free: Free
    criterion: Callable[[Trials], float]

    @property
    def trials(self) -> Sequence[Experiment]:
        """The experiments as they are."""
        given = self.problem.trials if not isinstance(self.problem, ShootingProblem) else None
        return given if given is not None else self.problem.given.trials

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
        return [self._plan(trials, {**guess, **starts}, starts) for guess in self.guesses]

    def _plan(
        self, trials: Sequence[Experiment], guess: Mapping[Any, Any], starts: Mapping[str, Any]
    ) -> Plan:
        if not isinstance(self.problem, ShootingProblem):
            return CollocationPlan.of(self.problem.on(trials), guess)
        question = replace(self.problem.question, trials=list(trials))
        if starts:
            question = replace(question, initial={**(question.initial or {}), **starts})
        problem = ShootingProblem.of(question)
        return ShootingPlan(problem, problem.pack(guess))

    def value(self, x: Array) -> float:
        """The criterion at coefficients: the worst of all guesses."""
        try:
            return max(self.criterion(plan.fit()) for plan in self.plans(x))
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

    def best(
        self, tries: int, iterations: int, seed: int, report: Callable[[int, float], None]
    ) -> tuple[Array, float]:
        """The best coefficients and their criterion: of random designs the best are improved."""
        rng = np.random.default_rng(seed)
        drawn = [self.free.normal(self.free.drawn(rng)) for _ in range(_DRAWN * tries)]
        first = sorted(((self.value(x), k) for k, x in enumerate(drawn)))[:tries]
        best, value = drawn[first[0][1]], first[0][0]
        for number, (_, k) in enumerate(first):
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
            report(number + 1, value)
        return best, value


def by_covariance(criterion: Criterion, names: Sequence[str] | None) -> Callable[[Trials], float]:
    """The criterion of a fit: of all its parameters, or of those of these names."""

    def value(fit: Trials) -> float:
        [about] = fit.uncertainty
        wanted = list(fit.parameters) if names is None else list(names)
        places = [list(about.names).index(name) for name in wanted]
        values = np.array([fit.parameters[name] for name in wanted])
        return judged(criterion, about.covariance[np.ix_(places, places)], values)

    return value
