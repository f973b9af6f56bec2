"""Parameters of a problem: records of unknown ones, and values of known ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinesym.base.checks import check_identifier, finite, flag, mapping, naming, positive, shown
from kinesym.runtime.arrays import one_number
from kinesym.runtime.signals.corridor import bound_pair
from kinesym.runtime.signals.experiment import TRIAL, Experiment
from kinesym.runtime.statistics.densities import KINDS, Density, density, normal_density
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name
from kinesym.symbolic.problem import PriorTerm


@dataclass(frozen=True)
class Prior:
    """A normal distribution of p, or of log p: bounds of its mean and of its standard deviation,
    equal where they are known."""

    mean: tuple[float, float]
    sd: tuple[float, float]

    @property
    def unknown(self) -> list[str]:
        """Names of the unknown moments, "mean" and "sd"."""
        return [name for name in ("mean", "sd") if len({*getattr(self, name)}) > 1]

    @property
    def numbers(self) -> tuple[float, float]:
        """Mean and standard deviation; infinite where one is unknown, so that it tells nothing."""
        if not self.unknown:
            return self.mean[0], self.sd[0]
        return (0.0 if "mean" in self.unknown else self.mean[0]), np.inf


@dataclass(frozen=True)
class Unknown:
    """An unknown parameter p, whatever way it was given.

    low, high : bounds of p, infinite where there are none. log : whether log p is estimated. prior
    : normal, of p, or if `log` of log p, or a density; None if nothing is known beforehand. label :
    trials with the same name for it share a value, see `per`; "" for all.
    """

    low: float = -np.inf
    high: float = np.inf
    log: bool = False
    prior: Prior | Density | None = None
    label: str = ""

    @property
    def in_natural_scale(self) -> Unknown:
        """Record without prior and logarithmic scale, which concern the objective and the optimiser
        only."""
        return replace(self, log=False, prior=None)


def normal(mean: Any, sd: Any, low: Any = None, high: Any = None) -> Unknown:
    """An unknown parameter of which something is known beforehand: `unknown={m: ks.normal(70, 5,
    low=40, high=120)}`. The objective gets ((m - mean)/sd)^2, as if m had been measured once with
    that standard deviation; low, high : bounds.

    So estimates are those of the highest posterior density (maximum a posteriori), as long as the
    objective is -2 log(likelihood), as `LeastSquares` with true `std` is; with a factor before
    `LeastSquares` priors have it, too.

    Within `per`, mean and sd may be unknown: bounds (low, high), or None, as in `unknown={b:
    ks.per("subject", ks.normal(None, None))}`. Then b is a random effect: mean(b), sd(b) and what
    else is shared have the largest likelihood with the values of all subjects integrated out by
    Laplace's method (Pinheiro, Bates 2000, Mixed-Effects Models in S and S-PLUS, section 7.2), and
    those of the subjects are the best ones with these (empirical Bayes).

    Raises `ValueError` for what is no density, or a mean outside the bounds.
    """
    prior = Prior(_mean(mean, "the mean of ks.normal"), _sd(sd))
    return _within_bounds(Unknown(*bound_pair("ks.normal", (low, high)), prior=prior))


def lognormal(median: Any, factor: Any, low: Any = None, high: Any = None) -> Unknown:
    """An unknown positive parameter with a prior, on a logarithmic scale: two thirds of all values
    are between median / factor and median * factor, as `unknown={k: ks.lognormal(1000, 1.5)}`.

    The objective gets (log(k / median) / log(factor))^2: the density is that of log k, which is
    what is estimated, see `log_scale`. low, high : bounds. Within `per`, median and factor may be
    unknown, as mean and sd of `normal`. Raises as `normal`, and for what is not positive.
    """
    prior = Prior(_log_median(median), _log_factor(factor))
    bounds = _positive_bounds("ks.lognormal", low, high)
    return _within_bounds(Unknown(*bounds, log=True, prior=prior))


def prior(
    distribution: str, *numbers: Any, low: Any = None, high: Any = None, log: Any = False
) -> Unknown:
    """An unknown parameter p with a prior by name: `unknown={k: ks.prior("laplace", 0, 1, low=0)}`.
    The objective gets -2 log of its density, but for a constant.

    distribution, numbers : "laplace" and "cauchy" (location, scale), "normal" (mean, sd), "gamma"
    (shape, scale), "exponential" (scale), "chisquare" (degrees of freedom), "rayleigh" (scale),
    "uniform" (low, high); "log-normal" and "log-laplace" with the numbers of log p; "log-uniform"
    (low, high). low, high : bounds, within those of the distribution. log : whether log p is
    estimated. Whatever is estimated, the density is that of p, other than that of `lognormal`: at
    its peak p, not log p, has the highest posterior density.

    Laplace's has a kink at its location, where estimates may stay: a fit ends there exactly, and
    counts it as a bound. Raises `ValueError` for other names and numbers, and for bounds that leave
    nothing.
    """
    made, what = density(distribution, *numbers), f"ks.prior({distribution!r}, ...)"
    is_log = flag(log, "log")
    pair = _positive_bounds(what, low, high) if is_log else bound_pair(what, (low, high))
    below, above = max(pair[0], made.low), min(pair[1], made.high)
    if below > above:
        raise ValueError(f"{what}: it has no values within the bounds ({pair[0]:g}, {pair[1]:g})")
    told = made.scale < np.inf or made.power or made.rate
    return Unknown(below, above, is_log, made if told else None)


def log_scale(low: Any = None, high: Any = None) -> Unknown:
    """An unknown positive parameter of which the logarithm is estimated: `unknown={tau:
    ks.log_scale(1e-3, 1e2)}`, for those whose order of magnitude is not known.

    Guesses, bounds and results are those of the parameter itself. Raises `ValueError` for bounds
    that are not positive.
    """
    return Unknown(*_positive_bounds("ks.log_scale", low, high), log=True)


def per(label: str, unknown: Any = None) -> Unknown:
    """An unknown parameter with a value per subject, side, ...: `unknown={b: ks.per("subject", (0,
    10))}`.

    label : trials whose `Experiment(labels=...)` have the same name for it share a value; results
    call it `b[s03]`. unknown : as without `per`: bounds (low, high), None for free, or what
    `normal`, `lognormal` or `log_scale` return, which holds for each of the values.

    Raises `ValueError` for what is no label.
    """
    check_identifier(label, "the label of ks.per")
    made = _record(f"ks.per({label!r}, ...)", unknown)
    if made.label:
        raise ValueError(f"ks.per({label!r}, ...) has a label already, {made.label!r}; give one")
    return replace(made, label=label)


def per_trial(low: Any = None, high: Any = None) -> Unknown:
    """An unknown parameter with a value in each trial: `unknown={c: ks.per_trial(-1, 1)}`; results
    call them `c[0]`, `c[1]`, ...

    low, high : bounds, None for free; or one argument as of `per`.
    """
    single = high is None and isinstance(low, (Unknown, tuple, list))
    return per(TRIAL, low if single else (low, high))


def checked_unknowns(given: Mapping[Any, Any] | None, known: Sequence[str]) -> dict[str, Unknown]:
    """Records of parameters by name, in the order of the `known` ones; raises `ValueError` for what
    is none of these."""
    rows = mapping({} if given is None else given, "unknown", "{parameter: (low, high) or None}")
    found = by_name(rows, known, "unknown")
    made = {name: _record(name, found[name]) for name in known if name in found}
    for name, p in made.items():
        if is_random(p) and not p.label:
            raise ValueError(
                f"parameter {name} has one value, whose distribution nothing tells: give numbers "
                f'for its mean and sd, or write ks.per("subject", ...) for a value per subject'
            )
    return made


def is_random(given: Unknown) -> bool:
    """Whether the distribution of a parameter is unknown."""
    return isinstance(given.prior, Prior) and bool(given.prior.unknown)


def without_distribution(given: Unknown) -> Unknown:
    """Record without an unknown distribution: its prior becomes flat; itself if that is known."""
    if not isinstance(given.prior, Prior) or not is_random(given):
        return given
    mean, sd = given.prior.numbers
    return replace(given, prior=Prior((mean, mean), (sd, sd)))


def labels_of(unknown: Mapping[str, Unknown]) -> dict[str, str]:
    """Labels of the parameters that have one."""
    return {name: p.label for name, p in unknown.items() if p.label}


def logs_of(unknown: Mapping[str, Unknown]) -> list[str]:
    """Names of parameters on a logarithmic scale."""
    return [name for name, p in unknown.items() if p.log]


def densities_of(unknown: Mapping[str, Unknown]) -> dict[str, Density]:
    """Densities of the parameters that have a prior; one that is not known tells nothing, see
    `Prior.numbers`."""
    found = dict[str, Density]()
    for name, p in unknown.items():
        if isinstance(p.prior, Prior):
            found[name] = normal_density(*p.prior.numbers, of_log=p.log)
        elif p.prior is not None:
            found[name] = p.prior
    return found


def terms_of(priors: Mapping[str, Density]) -> dict[str, PriorTerm]:
    """Terms that priors add to the objective, as they are compiled."""
    return {
        name: PriorTerm(KINDS[p.rho], p.of_log, p.power != 0.0, p.rate != 0.0)
        for name, p in priors.items()
    }


def check_prior(what: str, given: Unknown, bounds: tuple[float, float]) -> None:
    """Raise `ValueError` if the prior of a parameter has its highest density outside the bounds."""
    if not isinstance(given.prior, Prior) or "mean" in given.prior.unknown:
        return
    low, high = bounds
    mean = given.prior.mean[0]
    middle = float(np.exp(mean)) if given.log else mean
    if not low <= middle <= high:
        name = "median" if given.log else "mean"
        raise ValueError(
            f"the {name} {middle:g} of the prior of {what} is outside its bounds ({low:g}, "
            f"{high:g}); widen them"
        )


def known_values(
    model: Model,
    unknown: Collection[str],
    known: Mapping[Any, float],
    trials: Sequence[Experiment],
    more: Sequence[str] = (),
    following: Collection[str] = (),
) -> list[dict[str, float]]:
    """Values of the known parameters of a model, and of `more`, by trial: own ones of each trial,
    else common ones, from `known` or the model. following : those that follow from others in some
    trials, which have none here. Raises `ValueError` for what is missing, or both known and
    unknown."""
    names = [*model.parameter_names, *more]
    given = by_name(known, names, "known")
    own = [
        by_name(trial.parameters, names, f"parameters of trial {k}")
        for k, trial in enumerate(trials)
    ]
    plain = not any(trial.before or trial.parameter_expressions for trial in trials)
    for name in given:
        if name in unknown:
            raise ValueError(f"parameter {name} is both known and unknown")
        if plain and all(name in row for row in own):
            raise ValueError(
                f"parameter {name} has a value in each trial and is known for all trials; give "
                "either"
            )
    left, shared = {*unknown, *following}, {**model.values, **given}
    for name in dict.fromkeys(name for row in own for name in row):
        if name not in shared and name not in left:
            _check_in_all(name, [name in row for row in own])
    found = [_row_of_values(names, {**shared, **row}, left) for row in own]
    differ = any(own)
    for k, row in enumerate(found[: None if differ else 1]):
        with naming(f"trial {k}") if differ else nullcontext():
            check_values(model, row)
    return found


def trial_values(
    model: Model,
    unknown: Collection[str],
    known: Mapping[Any, float],
    trials: Sequence[Experiment],
) -> list[dict[str, float]]:
    """Values of the known parameters of a model by trial, for collocation, which takes numbers of
    trials only. Raises as `known_values`."""
    _check_set(trials, unknown)
    return known_values(model, unknown, known, trials)


def _check_set(trials: Sequence[Experiment], unknown: Collection[str]) -> None:
    """Raise `ValueError` for parameters that trials set to expressions, or although they are
    unknown, and for steady states before a record, which collocation does not take."""
    for k, trial in enumerate(trials):
        for name, e in trial.parameter_expressions.items():
            raise ValueError(
                f"parameter {name} is {e} in trial {k}: phases take numbers; write it into the "
                "model, with numbers that differ between phases"
            )
        if trial.before is not None:
            raise ValueError(
                f"trial {k} begins in a steady state, which is for ks.Shooting; give collocation "
                "the conditions of its start in boundary=[...]"
            )
    for name in dict.fromkeys(p for trial in trials for p in trial.parameters if p in unknown):
        there = [name in trial.parameters for trial in trials]
        where = "each trial" if all(there) else f"trial {there.index(True)}"
        raise ValueError(
            f"parameter {name} has a value in {where} and is unknown; it is either, in all trials"
        )


def _check_in_all(name: str, given: Sequence[bool]) -> None:
    """Raise `ValueError` for a parameter that only some trials give."""
    if not all(given):
        raise ValueError(
            f"parameter {name} has a value in trial {given.index(True)} and none in trial "
            f"{given.index(False)}; give it in the parameters of all experiments"
        )


def _row_of_values(
    names: Sequence[str], values: Mapping[str, float], unknown: Collection[str]
) -> dict[str, float]:
    """Values of what is not unknown."""
    row: dict[str, float] = {}
    for name in names:
        if name not in values and name not in unknown:
            raise ValueError(
                f"parameter {name} has no value; give known={{{name!r}: ...}} or make it unknown"
            )
        if name in values:
            what = f"the value of parameter {name}"
            remedy = "; what differs between trials goes into Experiment(parameters=...)"
            number = one_number(values[name], what, remedy)
            row |= {} if name in unknown else {name: number}
    return row


def without_bounds(given: Mapping[Any, Any] | None, model: Model) -> dict[str, Unknown]:
    """Unknown parameters as they are given, free where they are no logarithms: the barrier of a
    bound may hold back a parameter whose guess is far off; and without priors that are not normal,
    whose densities may end at bounds."""
    found = checked_unknowns(given, model.parameter_names)
    free = {n: p if p.log else replace(p, low=-np.inf, high=np.inf) for n, p in found.items()}
    return {
        n: replace(p, prior=p.prior if isinstance(p.prior, Prior) else None)
        for n, p in free.items()
    }


def _record(name: str, given: Any) -> Unknown:
    """The record of a parameter that was given as such, by bounds or None."""
    if isinstance(given, Mapping):
        raise ValueError(
            f"bounds of {name} are {shown(given)}; a parameter with a value per subject is "
            'ks.per("subject", (low, high)), with bounds for all'
        )
    return given if isinstance(given, Unknown) else Unknown(*bound_pair(name, given))


def _within_bounds(made: Unknown) -> Unknown:
    check_prior("the parameter", made, (made.low, made.high))
    return made


def _is_open(given: Any) -> bool:
    """Whether something is unknown, with bounds or None."""
    return given is None or isinstance(given, (tuple, list))


def _mean(given: Any, what: str) -> tuple[float, float]:
    """Bounds of a mean."""
    if _is_open(given):
        return bound_pair(what, given)
    return (finite(given, what),) * 2


def _sd(given: Any) -> tuple[float, float]:
    """Bounds of a standard deviation."""
    what = "the standard deviation of ks.normal"
    if not _is_open(given):
        return (positive(given, what),) * 2
    low, high = bound_pair(what, given)
    if high <= 0.0:
        raise ValueError(f"{what} must be positive: widen its bounds ({low:g}, {high:g})")
    return max(low, 0.0), high


def _log_median(given: Any) -> tuple[float, float]:
    """Bounds of the logarithm of a median."""
    what = "the median of ks.lognormal"
    if not _is_open(given):
        return (float(np.log(positive(given, what))),) * 2
    low, high = _positive_bounds(what, *((None, None) if given is None else given))
    return float(np.log(low)) if low > 0.0 else -np.inf, float(np.log(high))


def _log_factor(given: Any) -> tuple[float, float]:
    """Bounds of the logarithm of a factor."""
    what = "the factor of ks.lognormal"
    if not _is_open(given):
        spread = float(np.log(positive(given, what)))
        if spread <= 0.0:
            raise ValueError(f"{what} must be more than 1, got {given!r}")
        return spread, spread
    low, high = bound_pair(what, given)
    if high <= 1.0:
        raise ValueError(f"{what} must be more than 1: widen its bounds ({low:g}, {high:g})")
    return float(np.log(max(low, 1.0))), float(np.log(high))


def _positive_bounds(what: str, low: Any, high: Any) -> tuple[float, float]:
    """Bounds of a parameter on a logarithmic scale."""
    pair = bound_pair(what, (low, high))
    for side, bound in zip(("low", "high"), (low, high), strict=True):
        if bound is not None and not bound > 0.0:
            raise ValueError(
                f"{what}: {side} is {bound:g}, but a logarithm needs positive bounds; give a "
                "small one, or None"
            )
    return max(pair[0], 0.0), pair[1]
