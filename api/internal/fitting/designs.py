"""Search for experiments whose records tell most: courses of inputs, starts, channels, times of
samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.internal.fitting.combination import combination
from kinesym.internal.fitting.design_slopes import DesignSlopes
from kinesym.internal.fitting.planned import CollocationPlan, Plan, covariance_of
from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.planned import assumed_noise, driven, only_at
from kinesym.runtime.signals.sines import Sines
from kinesym.runtime.statistics.criteria import (
    CRITERIA,
    UNKNOWN,
    Criterion,
    along,
    judged,
    nearly_worst,
    worst,
)
from kinesym.runtime.statistics.subset import Candidates, Value, best_set, changed, chosen

#: Step of finite differences of the criterion, in units of the coefficients, which are about 1.
_STEP = 1e-4
#: Weights of the excess of a motion over its limits, one after the other: 1 % of all of a bound is
#: at last as dear as errors that are e^10 times as large.
_PENALTIES = (1e3, 1e5)
#: Random designs for each one that is improved.
_DRAWN = 6
#: Information of priors, as a share of all, that is rounding.
_ROUNDING = 1e-6
#: Times that channels are chosen and courses improved for these, in turns, at most.
_TURNS = 4


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

    def pulled(
        self,
        x: Array,
        times: Sequence[Array],
        of_course: Callable[[int, str], Array],
        of_start: Callable[[int, str], float],
    ) -> Array:
        """Derivatives by coefficients (size,) of what has these by courses (N,) and starts."""
        rows, begin = list[Array](), 0
        for (trial, name), limits in self.courses.items():
            mine = x[begin : begin + 2 * limits.waves]
            rows.append(limits.pulled(mine, times[trial], of_course(trial, name)))
            begin += len(mine)
        spans = [of_start(*key) * (high - low) for key, (low, high) in self.starts.items()]
        return np.concatenate([*rows, spans])

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


Scored = Callable[[Plan], float]
Planner = Callable[[Sequence[Experiment], Mapping[str, Any], Mapping[str, Any]], Plan]


@dataclass(frozen=True, eq=False)
class Designing:
    """A problem with something free in its experiments.

    plan : of experiments, a guess by name, and the starts in it that were free. trials : as they
    are. guesses : assumed values, one for each case. wanted : the criterion, see `score`. exact :
    derivatives through the factors of forecasts; None for differences. penalty : weight of what
    motions pass their limits by.
    """

    plan: Planner
    trials: Sequence[Experiment]
    guesses: Sequence[Mapping[str, Any]]
    free: Free
    wanted: Any
    exact: DesignSlopes | None = None
    penalty: float = _PENALTIES[0]

    def measuring(self, names: Collection[str]) -> Designing:
        """The same search with these channels only; what others have told does not count."""
        return replace(self, trials=[_only(names, trial) for trial in self.trials])

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
        return self._judged(x)[0]

    def _judged(self, x: Array) -> tuple[float, list[Plan], list[float]]:
        """The criterion, with what limits that are passed cost; the plans, with their criteria;
        none where there are no motions."""
        scored = score(self.wanted, smooth=True)
        try:
            plans = self.plans(x)
            values = [scored(plan) for plan in plans]
        except (ValueError, ArithmeticError):
            return UNKNOWN, [], []
        return max(values) + self.penalty * sum(plan.excess for plan in plans), plans, values

    def looked(self, x: Array) -> tuple[float, Array]:
        """The criterion, and its derivatives by coefficients."""
        value, plans, values = self._judged(x)
        if self.exact is None:
            return value, self._differences(x, value)
        found, counts = np.zeros_like(x), [own == max(values) < UNKNOWN for own in values]
        for plan, own in zip(plans, counts, strict=True):
            if own or plan.excess > 0.0:
                found += self._exact(self.exact, x, plan, own)
        return value, found

    def _is_exact(self, x: Array) -> bool:
        """Whether there are exact derivatives of the plans of these coefficients."""
        exact, plans = self.exact, self._judged(x)[1]
        return (
            bool(plans)
            and exact is not None
            and all(
                isinstance(plan, CollocationPlan)
                and criterion_of(self.wanted, plan) is not None
                and exact.agrees(plan)
                for plan in plans
            )
        )

    def _exact(self, exact: DesignSlopes, x: Array, plan: Any, counts: bool) -> Array:
        """Derivatives of the criterion of a plan, if that counts, and of what passes its limits."""
        z, grids = exact.at(plan), [trial.grid for trial in self.trials]
        partial = self.penalty * exact.excess(z)[1]
        if counts:
            partial += exact.of_criterion(z, plan, smooth_criterion(self.wanted, plan))
        total = exact.total(z, partial)
        return self.free.pulled(
            x,
            grids,
            lambda trial, name: exact.by_course(total, trial, name),
            lambda trial, name: exact.by_start(total, trial, name),
        )

    def _differences(self, x: Array, here: float) -> Array:
        """Derivatives by differences to the inner side of bounds."""
        found = np.zeros_like(x)
        for k, (_, high) in enumerate(self.free.bounds):
            step = -_STEP if high is not None and x[k] + _STEP > high else _STEP
            there = x.copy()
            there[k] += step
            found[k] = (self.value(there) - here) / step
        jumps = 0.5 * UNKNOWN / _STEP  # to or from where nothing is known
        return np.where(np.abs(found) < jumps, found, 0.0)

    def best(self, tries: int, iterations: int, seed: int) -> Array:
        """The best coefficients: of random designs the best are improved."""
        rng = np.random.default_rng(seed)
        drawn = [self.free.normal(self.free.drawn(rng)) for _ in range(_DRAWN * tries)]
        first = sorted(((self.value(x), k) for k, x in enumerate(drawn)))[:tries]
        found = [self.improved(drawn[k], iterations) for _, k in first]
        return min(found, key=lambda own: own[1])[0]

    def improved(self, x: Array, iterations: int) -> tuple[Array, float]:
        """Coefficients after so many steps, and the criterion there; as many again where limits are
        passed, which then cost more."""
        from scipy.optimize import minimize  # here: slow to import

        search = self if self._is_exact(x) else replace(self, exact=None)
        for penalty in _PENALTIES:
            search = replace(search, penalty=penalty)
            found = minimize(
                search.looked,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=self.free.bounds,
                options={"maxiter": iterations},
            )
            x, plans = found.x, search._judged(found.x)[1]
            if not any(plan.excess > 0.0 for plan in plans):
                break
        return x, replace(self, penalty=_PENALTIES[-1]).value(x)


def score(wanted: Any, smooth: bool = False) -> Scored:
    """The logarithm of what is wanted to be small: a criterion by name, of all parameters, or the
    standard error of a parameter by name or of an expression. smooth : as a search can follow."""

    def scored(plan: Plan) -> float:
        criterion = smooth_criterion(wanted, plan) if smooth else criterion_of(wanted, plan)
        if criterion is None:
            error = plan.fit().interval(wanted).standard_error
            return float(np.log(error)) if error > 0.0 else UNKNOWN
        return judged(criterion, *plan.told())

    return scored


def smooth_criterion(wanted: Any, plan: Plan) -> Any:
    """The criterion, as a search can follow."""
    found = criterion_of(wanted, plan)
    return nearly_worst if found is worst else found


def criterion_of(wanted: Any, plan: Plan) -> Criterion | None:
    """The criterion of the covariance of all parameters; expressions are in those of the first
    trial. None where it has states."""
    if isinstance(wanted, str) and wanted in CRITERIA:
        return CRITERIA[wanted]
    names = list(plan.owned.names)
    slopes = np.zeros(len(names))
    if isinstance(wanted, str):
        slopes[names.index(wanted)] = 1.0
        return along(slopes)
    found = combination(wanted, plan.runs[0], {})
    own = plan.owned.by_name(0)
    for (where, name), slope in zip(found.arguments, found.at(found.values)[1], strict=True):
        if where != "parameter":
            return None
        if name in own:
            slopes[own[name]] += slope
    return along(slopes)


# -- channels -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sensors:
    """Channels that are kept, each with the criterion without it, and those that are not, each with
    the criterion if it was there, too."""

    kept: Mapping[str, float]
    further: Mapping[str, float]


def with_sensors(
    search: Designing, x: Array, count: int, wanted: Any, iterations: int
) -> tuple[Designing, Array, Sensors]:
    """The search with the best channels, so many of them; coefficients that are improved for these,
    from those for all; and what other channels would do there. Raises `ValueError` where no
    channels tell what is wanted."""
    some, kept = search, list[str]()
    for _ in range(_TURNS):
        found = best_sensors(search.plans(x), count, wanted)
        if kept == [*found.kept] or not len(x):
            break
        kept = [*found.kept]
        some = search.measuring(kept)
        x, _ = some.improved(x, iterations)
    kept = [*found.kept]
    return search.measuring(kept), x, found


def best_sensors(plans: Sequence[Plan], count: int, wanted: Any) -> Sensors:
    """The best channels of plans, so many of them, for the worst of the plans."""
    names = list(dict.fromkeys(name for trial in plans[0].trials for name in trial.measured))
    values = [_of_channels(plan, names, wanted) for plan in plans]

    def value(mask: NDArray[np.bool_]) -> float:
        return max(each(mask) for each in values)

    mask = best_set(value, len(names), count)
    if value(mask) >= UNKNOWN:
        raise ValueError(f"no {count} of the channels tell what is wanted; keep more of them")
    told = {name: error_of(value(changed(mask, k))) for k, name in enumerate(names)}
    kept = {name for name, here in zip(names, mask, strict=True) if here}
    return Sensors(
        {name: error for name, error in told.items() if name in kept},
        {name: error for name, error in told.items() if name not in kept},
    )


def error_of(value: float) -> float:
    """The standard error that a criterion is the logarithm of, infinite if it is not known."""
    return float(np.exp(value)) if value < UNKNOWN else np.inf


def _of_channels(plan: Plan, names: Sequence[str], wanted: Any) -> Value:
    """The criterion of a plan with some of its channels: by the information of each where that
    adds up and the fit follows few directions, else by a forecast."""
    criterion, exact = criterion_of(wanted, plan), score(wanted)
    found = _informed(plan, criterion) if criterion is not None and plan.additive else None
    if found is None:
        return lambda mask: _forecast_of(plan, np.array(names)[mask].tolist(), exact)
    candidates, samples = found
    number = [samples.channels.index(name) for name in names]
    parts = [np.linalg.qr(candidates.rows[samples.channel == n], mode="r") for n in number]
    rest = candidates.rows[~np.isin(samples.channel, number)]
    owner = np.repeat(np.arange(len(names)), [len(part) for part in parts])
    known = candidates.known + rest.T @ rest
    by_channel = replace(candidates, rows=np.vstack(parts), known=known)
    return lambda mask: by_channel.value(mask[owner])


def _forecast_of(plan: Plan, names: Sequence[str], exact: Scored) -> float:
    try:
        return exact(plan.on([_only(names, trial) for trial in plan.trials]))
    except (ValueError, ArithmeticError):
        return UNKNOWN


def _only(names: Collection[str], trial: Experiment) -> Experiment:
    """The trial in which other channels tell nothing."""
    return assumed_noise(trial, {name: np.inf for name in trial.measured if name not in names})


# -- durations ------------------------------------------------------------------------------------


def shortest(
    plans_of: Callable[[float], Sequence[Plan]], times: Array, goal: float, exact: Scored
) -> tuple[float, dict[float, float]]:
    """The first of durations (n,), increasing, with which the criterion comes to a goal, and the
    criteria of those that were tried; the last one where none does. More samples tell more, so that
    halves are taken."""
    tried = dict[float, float]()

    def error(seconds: float) -> float:
        try:
            value = max(map(exact, plans_of(seconds)))
        except (ValueError, ArithmeticError):
            value = UNKNOWN
        tried[seconds] = error_of(value)
        return tried[seconds]

    each = times.tolist()
    if error(each[0]) <= goal:
        return each[0], tried
    low, high = 0, len(each) - 1
    if error(each[high]) > goal:
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        if error(each[middle]) > goal:
            low = middle
        else:
            high = middle
    return each[high], dict(sorted(tried.items()))


# -- samples --------------------------------------------------------------------------------------


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
    found = _informed(plan, criterion)
    for name in (name for trial in plan.trials for name in trial.std_expressions):
        raise ValueError(
            f"samples are chosen one by one where std are numbers, and that of {name} is an "
            "expression; give a typical number, or choose channels, starts, inputs or the duration"
        )
    if found is None:
        raise ValueError(
            "samples are chosen where the fit follows few directions and tells them all: give all "
            "starts, and fix what cannot be known"
        )
    _, samples = found
    for name in names:
        mine = (samples.channel == samples.channels.index(name)) & np.isfinite(samples.time)
        if (samples.share[mine] < 1.0).any() or (samples.counts[mine] != 1.0).any():
            raise ValueError(
                f"samples of {name} are compared with the model between nodes in this scheme, "
                'several at once; choose them in scheme="radau-3", or by ks.Shooting'
            )
    return found


def _informed(plan: Plan, criterion: Criterion) -> tuple[Candidates, Samples] | None:
    """The samples of a plan with their information, None where the fit follows many directions,
    or noise follows the motion."""
    if any(trial.std_expressions for trial in plan.trials):
        return None  # what samples tell is no square of one row each
    fit = plan.fit()
    assert fit.inference is not None
    told = fit.inference().pulls()
    basis = told.basis()
    if basis is None:
        return None
    ways = np.asarray(np.linalg.lstsq(basis, told.pull)[0].T, dtype=np.float64)
    values = covariance_of(fit)[1]
    share, axes = np.linalg.eigh(np.eye(basis.shape[1]) - basis.T @ basis)
    share[share < _ROUNDING] = 0.0
    known = (axes * share) @ axes.T
    return Candidates(basis, ways[: len(values)], values, criterion, known), told.samples
