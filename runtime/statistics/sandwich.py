"""Sandwich covariance: robust against correlated residuals and unequal variances.

An autoregression of the residuals of each channel turns them into innovations. Its inverse,
backwards in time, turns the pull of samples on the estimates into the pull of innovations. The
products of both, summed over channels, are the scores of an instant. Their long-run variance is
estimated by the quadratic spectral kernel with automatic bandwidth, for the correlation that the
autoregression leaves (prewhitening: Andrews and Monahan 1992, Econometrica 60, 953; Andrews 1991,
Econometrica 59, 817). Autoregressions of the scores themselves, as there, would depend on how pulls
change in time: the error is then larger, and with few swings in a record the covariance is much too
small.

The estimated variance is a sum of squares of few innovations if few samples determine a parameter,
and depends on few coefficients that are estimated too. If the autoregression is right and
innovations are normal, its mean and its variance are known: the mean corrects it, the variance
gives its degrees of freedom (Bell and McCaffrey 2002, Survey Methodology 28, 169; Imbens and
Kolesar 2016, Review of Economics and Statistics 98, 701).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.samples import Influence
from kinesym.runtime.statistics.autoregression import Autoregression, autoregressions

#: Largest autocorrelation of scores that enters the bandwidth (Andrews 1991).
_MOST_GROWTH = 0.97
#: Instants below which correlation in time cannot be estimated.
_FEW = 20
#: Largest ratio of degrees of freedom of the fit to samples for which correlation is estimated.
_MOST_TAKEN = 1.0 / 3.0
#: Lags that are summed over [bandwidths]; the kernel is small beyond.
_LAGS = 8.0
#: Share of a variance that the fit must leave in residuals for them to determine it.
_LEFT = 0.1


@dataclass(frozen=True, eq=False)
class Robust:
    """Robust covariance (r, r), with the order of the autoregressions of residuals, the bandwidth
    [samples] of the kernel for the correlation they leave, and the degrees of freedom of each
    variance, (r,). NaN for variances that residuals do not determine, since the fit follows nearly
    all of it."""

    covariance: Array
    order: int
    bandwidth: float
    freedom: Array


@dataclass(frozen=True, eq=False)
class _White:
    """Whitened samples of a channel in a trial: innovations, their pull on estimates, and their
    autoregression.

    follows, covaried : F Q and F V Q with the filter F, the covariance V of the samples, and Q of
    `Influence.basis`."""

    channel: int
    model: Autoregression
    innovation: Array
    pull: Array
    follows: Array
    covaried: Array


def sandwich(
    series: Sequence[Influence], samples: float, taken: float, correlated: bool = True
) -> Robust:
    """Sandwich covariance of estimates from the residuals of all channels and trials.

    samples, taken : the number of samples, and the degrees of freedom that unknowns take, by which
    residuals are too small if no basis of the hat matrix is known. correlated : whether residuals
    may be correlated in time, else only of unequal variance (White 1980, Econometrica 48, 817).
    Raises `ValueError` if the fit takes too many degrees of freedom to estimate correlation.
    """
    known = all(one.basis is not None for one in series)
    if known:
        taken = float(np.sum([np.vdot(one.followed, one.followed) for one in series]))
    correlated = correlated and _tells_correlation(series, samples, taken)
    white = _whitened(series, correlated)
    instants = _instants(series)
    scores = _by_instant(instants, [w.innovation[:, None] * w.pull for w in white])
    size = np.sqrt(np.sum([np.sum(s**2, axis=0) for s in scores], axis=0))
    size[size == 0.0] = 1.0
    unit = [s / size for s in scores]
    bandwidth = _bandwidth(unit) if correlated else 0.0
    weights = _weights(bandwidth, max(map(len, unit)))
    spread = np.sum([_summed(s, s, weights, lambda a, b: a.T @ b) for s in unit], axis=0)
    power = _by_instant(instants, [w.model.variance * w.pull**2 for w in white])
    whole = np.sum([p.sum(axis=0) for p in power], axis=0)
    whole[whole == 0.0] = 1.0
    lost = _lost(white, instants, weights) / whole if known else np.full(len(size), taken / samples)
    kept = np.where(lost < 1.0 - _LEFT, 1.0 - lost, np.nan)
    covariance = spread * np.outer(size, size) / np.sqrt(np.outer(kept, kept))
    doubt = _doubt_of_squares(power, weights) / whole**2 + _doubt_of_models(white, whole)
    freedom = 2.0 / np.where((doubt > 0.0) & np.isfinite(kept), doubt, np.nan)
    freedom = np.minimum(freedom, samples - taken)
    order = max(len(w.model.coefficients) for w in white)
    return Robust(covariance, order, bandwidth, freedom)


def correlated(series: Sequence[Influence], seconds: Mapping[int, float]) -> Array:
    """Covariance (r, r) of estimates by noise of variance 1 whose correlation is exp(-lag/seconds),
    by channel, 0 for white noise: a first-order autoregression where samples are even."""
    total = np.zeros((series[0].pull.shape[1],) * 2)
    for one in series:
        lasting, total = seconds.get(one.channel, 0.0), total + one.pull.T @ one.pull
        if lasting > 0.0:
            kept, before = np.exp(-np.diff(one.time) / lasting), np.zeros_like(one.pull)
            for k, share in enumerate(kept, 1):
                before[k] = share * (before[k - 1] + one.pull[k - 1])
            total = total + one.pull.T @ before + before.T @ one.pull
    return total


def _tells_correlation(series: Sequence[Influence], samples: float, taken: float) -> bool:
    """Whether there are enough samples to estimate correlation. Raises `ValueError` if the fit
    takes too many degrees of freedom."""
    if max(len(one.time) for one in series) < _FEW:
        return False
    if taken > _MOST_TAKEN * samples:
        raise ValueError(
            f"the fit follows {samples:.0f} samples in {taken:.0f} directions, as with unknown "
            "inputs: what is left does not tell how errors are correlated; use another method than "
            "'sandwich'"
        )
    return True


def _whitened(series: Sequence[Influence], correlated: bool) -> list[_White]:
    """Innovations of all samples."""
    bases = [one.followed for one in series]
    channels = dict.fromkeys(one.channel for one in series)

    def of(rows: Sequence[Array]) -> dict[int, list[Array]]:
        return {
            c: [row for row, one in zip(rows, series, strict=True) if one.channel == c]
            for c in channels
        }

    residuals = of([one.residual for one in series])
    if correlated:
        models = autoregressions(residuals, of(bases))
    else:
        none, rows = np.zeros(0), residuals.items()
        models = {c: Autoregression(none, float(np.mean(np.concatenate(e) ** 2))) for c, e in rows}
    found = []
    for one, basis in zip(series, bases, strict=True):
        model = models[one.channel]
        found.append(
            _White(
                one.channel,
                model,
                model.innovations(one.residual),
                model.gathered(one.pull),
                model.innovations(basis),
                model.variance * model.gathered(basis),
            )
        )
    return found


def _instants(series: Sequence[Influence]) -> list[tuple[list[int], csr_array]]:
    """Series numbers of each trial, and the matrix (K, n) that sums values of their samples over
    channels, in order of time."""
    found = []
    for trial in dict.fromkeys(one.trial for one in series):
        mine = [k for k, one in enumerate(series) if one.trial == trial]
        times, place = np.unique(
            np.concatenate([series[k].time for k in mine]), return_inverse=True
        )
        n = len(place)
        found.append((mine, csr_array((np.ones(n), (place, np.arange(n))), (len(times), n))))
    return found


def _by_instant(
    instants: Sequence[tuple[list[int], csr_array]], values: Sequence[Array]
) -> list[Array]:
    """Values (n, k) of each series summed over channels, (K, k) for each trial."""
    return [np.asarray(add @ np.vstack([values[k] for k in mine])) for mine, add in instants]


def _bandwidth(scores: Sequence[Array]) -> float:
    """Bandwidth of the quadratic spectral kernel [samples], by first-order autoregressions of each
    column (Andrews 1991, eqs. 6.2 and 6.4, with weights one over variances)."""
    before = np.vstack([s[:-1] for s in scores])
    after = np.vstack([s[1:] for s in scores])
    power = np.sum(before**2, axis=0)
    power[power == 0.0] = 1.0
    rho = np.clip(np.sum(before * after, axis=0) / power, -_MOST_GROWTH, _MOST_GROWTH)
    above = np.sum(4.0 * rho**2 / (1.0 - rho) ** 8)
    below = np.sum(1.0 / (1.0 - rho) ** 4)
    return float(1.3221 * (above / below * len(after)) ** 0.2)


def _weights(bandwidth: float, longest: int) -> Array:
    """Weights of lags 0, 1, ... by the quadratic spectral kernel, k(x) = 25/(12 pi^2 x^2)
    (sin(6 pi x/5)/(6 pi x/5) - cos(6 pi x/5)) with x = lag/bandwidth (Andrews 1991)."""
    if not bandwidth > 0.0:
        return np.ones(1)
    most = min(int(_LAGS * max(bandwidth, 1.0)), longest - 1)
    a = 1.2 * np.pi * np.arange(1, most + 1) / bandwidth
    return np.concatenate([[1.0], 3.0 / a**2 * (np.sin(a) / a - np.cos(a))])


def _summed(x: Array, y: Array, weights: Array, product: Callable[[Array, Array], Any]) -> Any:
    """The weighted sum over all lags of products of x (K, k) and y (K, k), of all instants."""
    total = product(x, y)
    for lag, weight in enumerate(weights[1 : len(x)], 1):
        total = total + weight * (product(x[lag:], y[:-lag]) + product(x[:-lag], y[lag:]))
    return total


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(np.sum(a * b, axis=0))


def _lost(
    white: Sequence[_White], instants: Sequence[tuple[list[int], csr_array]], weights: Array
) -> Array:
    """Mean decrease of each variance by the fit, (r,).

    Innovations of residuals e^ = R e, R = 1 - Q Q', have the covariance F R V R F' instead of
    F V F': less by F Q Q' V F' and its transpose, more by F Q Q' V Q Q' F'.
    """
    whole = np.zeros((white[0].follows.shape[1],) * 2)  # Q' V Q
    for w in white:
        if w.model.variance > 0.0:
            whole += w.covaried.T @ w.covaried / w.model.variance
    others = [2.0 * w.covaried - w.follows @ whole for w in white]
    lost = np.zeros(white[0].pull.shape[1])
    for j in range(len(lost)):
        pulls = [w.pull[:, j, None] for w in white]
        a = _by_instant(instants, [p * w.follows for p, w in zip(pulls, white, strict=True)])
        b = _by_instant(instants, [p * other for p, other in zip(pulls, others, strict=True)])
        lost[j] = sum(_summed(x, y, weights, np.vdot) for x, y in zip(a, b, strict=True))
    return lost


def _doubt_of_squares(power: Sequence[Array], weights: Array) -> Array:
    """The variance of weighted sums of products of normal scores with these variances, (r,)."""
    return np.asarray(2.0 * np.sum([_summed(p, p, weights**2, _dot) for p in power], axis=0))


def _doubt_of_models(white: Sequence[_White], whole: Array) -> Array:
    """The variance of each variance, (r,), as a share of its square, since coefficients of
    autoregressions are estimated; whole : the variances (r,)."""
    doubt = np.zeros(len(whole))
    channels: Mapping[int, list[_White]] = {w.channel: [] for w in white}
    for w in white:
        channels[w.channel].append(w)
    for mine in channels.values():
        model, count = mine[0].model, sum(len(w.pull) for w in mine)
        slopes = np.zeros((len(model.coefficients), len(whole)))
        for w in mine:
            moved = model.gathered(w.pull)
            for k in range(min(len(slopes), len(moved) - 1)):
                slopes[k] += 2.0 * model.variance * _dot(w.pull[: -k - 1], moved[k + 1 :])
        slopes /= whole
        doubt += _dot(slopes, model.spread(count) @ slopes)
    return doubt
