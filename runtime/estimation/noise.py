"""Standard deviations of measurements from their residuals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import scipy
from scipy.special import chdtr, chdtrc

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.estimates import Noise
from kinesym.runtime.results.series import MET, series_of
from kinesym.runtime.results.trajectory import SampleTable, Trajectory
from kinesym.runtime.signals.experiment import Experiment

#: The median of |e| if e is normal with variance 1.
_MEDIAN = 0.6744897501960817
#: A standard deviation on which estimates depend is at least this share of the rms of the changes
#: of what is measured: with much larger weights rounding decides.
_WEIGHED = 1e-6
#: Share of its size by which what is measured varies if it is constant.
_CONSTANT = 1e-12
#: Degrees of freedom that must be left when the unknowns have taken theirs: of less than one half
#: there is no scatter.
SOME = 0.5
#: Share of a residual that is left at least.
_LEFT = 1e-6
#: Probability below which given standard deviations contradict the residuals.
_ODD = 1e-3
#: Message for an objective that is no likelihood.
GIVE_STD = (
    "std of {} is not given and counts as 1: beside other terms of the objective nothing tells it, "
    "and there are no standard errors; give std"
)


def groups_of(trials: Sequence[Experiment]) -> dict[tuple[int, str], str]:
    """Groups of unknown standard deviations, by trial and measurement."""
    return {
        (k, n): group for k, trial in enumerate(trials) for n, group in trial.unknown_std.items()
    }


def follow(trials: Sequence[Experiment], unknown: Collection[str]) -> bool:
    """Whether a standard deviation is an expression that has an unknown parameter."""
    every = (e for trial in trials for e in trial.std_expressions.values())
    return any(str(symbol) in unknown for e in every for symbol in e.free_symbols)


def check_std(runs: Sequence[Trajectory], trials: Sequence[Experiment]) -> None:
    """Raise `ValueError` where a standard deviation that is an expression is not positive at a
    sample of trajectories at a guess."""
    for series in series_of(runs):
        asked = trials[series.trial].std_expressions.get(series.channel)
        odd = np.flatnonzero(~(series.std > 0.0))
        if asked is not None and len(odd):
            k = int(odd[0])
            raise ValueError(
                f"std of {series.name}, {asked}, is {series.std[k]:.4g} at t = "
                f"{series.time[k]:.4g} s at the guess, and must be positive; give other values, or "
                "bounds that keep it so"
            )


def check_finite(runs: Sequence[Trajectory]) -> None:
    """Raise `ValueError` where what is measured has no value in trajectories at a guess."""
    for number, run in enumerate(runs):
        of = f" of trial {number}" if len(runs) > 1 else ""
        for name, row in run.measurements.items():
            for k in np.flatnonzero(~(np.isnan(row) | np.isfinite(run[name])))[:1]:
                raise ValueError(
                    f"{name} is {run[name][k]:g} at t = {run.time[k]:g} s{of} at the guess; give "
                    "another guess, or bounds that exclude this"
                )


def samples_of(trials: Sequence[Experiment]) -> dict[str, Array]:
    """Samples of each group, without missing ones."""
    found: dict[str, list[Array]] = {}
    for (k, name), group in groups_of(trials).items():
        row = trials[k].measured[name]
        found.setdefault(group, []).append(row[~np.isnan(row)])
    return {group: np.concatenate(rows) for group, rows in found.items()}


def first_std(trials: Sequence[Experiment]) -> dict[str, float]:
    """First standard deviation of each group, for iterations: the rms of the changes of its
    measurements, so that all channels count alike, whatever their units."""
    found: dict[str, list[float]] = {}
    for (k, name), group in groups_of(trials).items():
        spread, most = _spread(trials[k].measured[name])
        found.setdefault(group, []).append(most if _is_nothing(spread, most) else spread)
    return {group: float(np.sqrt(np.mean(np.square(s)))) or 1.0 for group, s in found.items()}


def estimated(
    e: Array,
    samples: Samples,
    leverage: Array,
    trials: Sequence[Experiment],
    used: Mapping[str, float],
    loss: RobustLoss | None = None,
) -> list[Noise]:
    """Estimated standard deviation of each group, from residuals e (n,) over the standard
    deviations `used`, 1 if not named.

    Least squares: the sum of squares over the degrees of freedom. Student's loss: maximum
    likelihood, with as many degrees of freedom. Others: the median of |e|, as it is for normal
    errors (Huber, Ronchetti 2009, Robust Statistics, section 7.7). leverage : of each residual,
    (n,).
    """
    groups, found = groups_of(trials), []
    names = list(dict.fromkeys(groups.values()))
    which = samples.groups({key: names.index(group) for key, group in groups.items()})
    least = {group: _WEIGHED * size for group, size in first_std(trials).items()}
    for number, group in enumerate(names):
        mine = which == number
        n = float(samples.counts[mine].sum())
        freedom = n - float(leverage[mine].sum())
        std = np.nan
        if freedom > SOME:
            share = samples.share[mine]
            ratio = _ratio(e[mine] / np.sqrt(share), share, leverage[mine], freedom, loss)
            std = max(ratio * used.get(group, 1.0), least[group])
        found.append(Noise(group, float(std), n, freedom))
    return found


def _ratio(
    e: Array, share: Array, leverage: Array, freedom: float, loss: RobustLoss | None
) -> float:
    """Standard deviation of residuals e (k,), in units of the one used."""
    if loss is None:
        return float(np.sqrt(share @ e**2 / freedom))
    left = np.sqrt(np.maximum(1.0 - leverage, _LEFT))
    typical = float(np.median(np.abs(e) / left)) / _MEDIAN
    if not loss.likelihood or not e.any():
        return typical

    def excess(log_std: float) -> float:
        u = e / np.exp(log_std)
        return float(share @ (loss.slope(u) * u)) - freedom

    begin = np.log(np.sqrt(np.mean(e**2)))
    low, high = begin - 1.0, begin + 1.0
    while excess(low) < 0.0 and begin - low < 50.0:
        low -= 2.0
    while excess(high) > 0.0 and high - begin < 50.0:
        high += 2.0
    if excess(low) * excess(high) > 0.0:
        return typical
    return float(np.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-12)))


def contradictions(
    trials: Sequence[Experiment],
    residuals: Sequence[Mapping[str, Array]],
    directions: float,
    taken: Callable[[], Mapping[str, float]],
) -> list[str]:
    """Sentences on given standard deviations that the residuals contradict, by a chi-square test
    over all trials.

    residuals : (modelled - measured)/std by trial and channel, NaN where missing, without
    undetermined channels. directions : degrees of freedom that the unknowns take at most. taken :
    degrees of freedom that they take of each channel, the sum of its leverages, called if the
    verdict depends on their distribution over channels.
    """
    found, taken = list[str](), cache(taken)
    for name in dict.fromkeys(n for trial in trials for n in trial.std):
        pairs = zip(trials, residuals, strict=True)
        rows = [own[name] for trial, own in pairs if name in trial.std and name in own]
        if not rows:
            continue
        e = np.concatenate([row[np.isfinite(row)] for row in rows])
        total, n = float(e @ e), len(e)
        most, least = (_odd(total, n), _odd(total, n - directions))
        if most if most == least else _odd(total, n - taken().get(name, 0.0)):
            times = np.sqrt(total / n)
            found.append(
                f"the residuals of {name} are {times:.3g} times its std (chi-square {total:.4g} of "
                f"{n} samples), so that standard errors are wrong; leave std of {name} out to have "
                "it estimated"
            )
    return found


def _odd(total: float, freedom: float) -> bool:
    """Whether a sum of squares is too small or too large for so many degrees of freedom."""
    if freedom <= 0.0:
        return False
    return bool(min(chdtrc(freedom, total), chdtr(freedom, total)) < 0.5 * _ODD)


def not_told(noise: Sequence[Noise], trials: Sequence[Experiment]) -> list[str]:
    """Sentences on groups whose standard deviation cannot be estimated: samples are too few,
    constant, or met exactly."""
    found, groups, sizes = list[str](), groups_of(trials), first_std(trials)
    for each in noise:
        least = _WEIGHED * sizes.get(each.group, np.nan)
        rows = [
            trials[k].measured[name] for (k, name), group in groups.items() if group == each.group
        ]
        if np.isnan(each.std):
            found.append(not_estimated(each))
        elif all(map(_is_constant, rows)):
            found.append(
                f"the samples of {each.group} do not change: they tell no std, and intervals mean "
                f"little; leave {each.group} out, or give std"
            )
        elif np.isclose(each.std, least, 1e-6, 0.0) or each.std <= MET * _rms(rows):
            found.append(
                f"the samples of {each.group} are met but for rounding: its std {each.std:.2g} and "
                "what follows from it are no errors of measurements"
            )
    return found


def _rms(rows: Sequence[Array]) -> float:
    """Root mean square of samples, NaN where missing."""
    return float(np.sqrt(np.nanmean(np.concatenate(rows) ** 2)))


def not_estimated(noise: Noise) -> str:
    """A sentence on why nothing tells a standard deviation, and what helps."""
    return f"std of {noise.group} is not given and cannot be estimated: {_why_not(noise)}"


def _why_not(noise: Noise) -> str:
    one = noise.samples == 1.0
    some = "its only sample leaves" if one else f"its {noise.samples:g} samples leave"
    if noise.freedom <= SOME:
        more = "; they are fewer than the unknowns" * (noise.freedom < -SOME)
        return f"{some} no degrees of freedom{more}; give {'more of them' if more else 'std'}"
    return "the curvature at the solution is singular; give std"


def _is_constant(row: Array) -> bool:
    """Whether samples are constant up to rounding."""
    return _is_nothing(*_spread(row))


def _spread(row: Array) -> tuple[float, float]:
    """Standard deviation and largest absolute value of samples, NaN where missing."""
    return float(np.nanstd(row)), float(np.nanmax(np.abs(row)))


def _is_nothing(spread: float, most: float) -> bool:
    """Whether a standard deviation is that of rounding."""
    return not spread > _CONSTANT * most


def with_noise(
    runs: Sequence[Trajectory], trials: Sequence[Experiment], noise: Sequence[Noise]
) -> list[Trajectory]:
    """Trajectories of trials with the estimated standard deviations."""
    found = {each.group: each.std for each in noise}
    made = []
    for run, trial in zip(runs, trials, strict=True):
        own = {
            name: np.full(len(run.time), found[group])
            for name, group in trial.unknown_std.items()
            if group in found
        }
        std = {**run.std, **own}
        std = {n: std[n] for n in run.measurements if n in std}
        made.append(replace(run, std=std, samples=_with_std(run.samples, trial, found)))
    return made


def _with_std(samples: SampleTable, trial: Experiment, found: Mapping[str, float]) -> SampleTable:
    """Table of samples at times of their own with the estimated standard deviations."""
    if not samples:
        return samples
    std = np.array(samples["std"])
    for name, group in trial.unknown_std.items():
        if group in found:
            std[samples["channel"] == name] = found[group]
    return {**samples, "std": std}
