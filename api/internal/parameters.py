"""Parameters as the user says them: known values, unknown ones with bounds, scale, prior, owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinesym.checks import check_identifier, finite, naming, positive
from kinesym.runtime.arrays import one_number
from kinesym.runtime.nlp.collocation import bound_pair
from kinesym.runtime.signals.experiment import TRIAL, Experiment
from kinesym.symbolic.model import Model, check_values
from kinesym.symbolic.names import by_name


@dataclass(frozen=True)
class Unknown:
    """An unknown parameter p, whatever way it was given.

    low, high : bounds of p, infinite where there are none. log : whether log p is estimated. prior
    : mean and standard deviation of p, or if `log` of log p, normally distributed; None if nothing
    is known beforehand. label : trials with the same name for it share a value, see `per`; "" for
    all.
    """

    low: float = -np.inf
    high: float = np.inf
    log: bool = False
    prior: tuple[float, float] | None = None
    label: str = ""

    @property
    def in_natural_scale(self) -> Unknown:
        """Without what is about the objective and the optimiser only: prior and scale."""
        return replace(self, log=False, prior=None)


def normal(mean: float, sd: float, low: Any = None, high: Any = None) -> Unknown:
    """An unknown parameter of which something is known beforehand: `unknown={m: ks.normal(70, 5,
    low=40, high=120)}`. The objective gets ((m - mean)/sd)^2, as if m had been measured once with
    that standard deviation; low, high : bounds.

    So estimates are those of the highest posterior density (maximum a posteriori), as long as the
    objective is -2 log(likelihood), as `LeastSquares` with true `std` is; with a factor before
    `LeastSquares` priors have it, too. Raises `ValueError` for what is no density, or a mean
    outside the bounds.
    """
    prior = finite(mean, "the mean of ks.normal"), _sd(sd, "ks.normal")
    return _within_bounds(Unknown(*bound_pair("ks.normal", (low, high)), prior=prior))


def lognormal(median: float, factor: float, low: Any = None, high: Any = None) -> Unknown:
    """An unknown positive parameter with a prior, on a logarithmic scale: two thirds of all values
    are between median / factor and median * factor, as `unknown={k: ks.lognormal(1000, 1.5)}`.

    The objective gets (log(k / median) / log(factor))^2: the density is that of log k, which is
    what is estimated, see `log_scale`. low, high : bounds. Raises as `normal`, and for what is not
    positive.
    """
    middle = positive(median, "the median of ks.lognormal")
    spread = positive(factor, "the factor of ks.lognormal")
    if spread <= 1.0:
        raise ValueError(f"the factor of ks.lognormal must be more than 1, got {factor!r}")
    prior = float(np.log(middle)), float(np.log(spread))
    bounds = _positive_bounds("ks.lognormal", low, high)
    return _within_bounds(Unknown(*bounds, log=True, prior=prior))


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
    found = by_name({} if given is None else given, known, "unknown")
    return {name: _record(name, found[name]) for name in known if name in found}


def labels_of(unknown: Mapping[str, Unknown]) -> dict[str, str]:
    """Labels of the parameters that have one."""
    return {name: p.label for name, p in unknown.items() if p.label}


def logs_of(unknown: Mapping[str, Unknown]) -> list[str]:
    """Those on a logarithmic scale."""
    return [name for name, p in unknown.items() if p.log]


def priors_of(unknown: Mapping[str, Unknown]) -> dict[str, tuple[float, float]]:
    """Means and standard deviations of the parameters that have a prior."""
    return {name: p.prior for name, p in unknown.items() if p.prior}


def check_prior(what: str, given: Unknown, bounds: tuple[float, float]) -> None:
    """Raise `ValueError` if the prior of a parameter has its highest density outside the bounds."""
    if given.prior is None:
        return
    low, high = bounds
    middle = float(np.exp(given.prior[0])) if given.log else given.prior[0]
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
) -> list[dict[str, float]]:
    """Of each trial the values of the known parameters of a model, and of `more`: for all from
    `known` or the model, or from the experiments. Raises `ValueError` naming one without value,
    and one with several."""
    names = [*model.parameter_names, *more]
    given = by_name(known, names, "known")
    own = [
        by_name(trial.parameters, names, f"parameters of trial {k}")
        for k, trial in enumerate(trials)
    ]
    for name in given:
        if name in unknown:
            raise ValueError(f"parameter {name} is both known and unknown")
    for name in dict.fromkeys(name for row in own for name in row):
        there = [name in row for row in own]
        if name in given or name in unknown:
            other = "known for all trials" if name in given else "unknown"
            where = "each trial" if all(there) else f"trial {there.index(True)}"
            raise ValueError(
                f"parameter {name} has a value in {where} and is {other}; it is either, in all "
                "trials"
            )
        _check_in_all(name, there)
    shared = {**model.values, **given}
    found = [_row_of_values(names, {**shared, **row}, unknown) for row in own]
    for k, row in enumerate(found[: None if own[0] else 1]):
        with naming(f"trial {k}") if own[0] else nullcontext():
            check_values(model, row)
    return found


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


def _record(name: str, given: Any) -> Unknown:
    """The record of a parameter that was given as such, by bounds or None."""
    return given if isinstance(given, Unknown) else Unknown(*bound_pair(name, given))


def _within_bounds(made: Unknown) -> Unknown:
    check_prior("the parameter", made, (made.low, made.high))
    return made


def _sd(value: Any, what: str) -> float:
    return positive(value, f"the standard deviation of {what}")


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
