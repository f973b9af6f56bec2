"""Covariances that do not assume white residuals of equal variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from kinesym.runtime.arrays import Array

#: The largest sum of the coefficients of an autoregression that is taken out before the spectrum is
#: estimated (Andrews and Monahan 1992).
_MOST_GROWTH = 0.97
#: Fewer instants than this say nothing about correlation in time.
_FEW = 20


@dataclass(frozen=True, eq=False)
class Influence:
    """What the samples of a channel in a trial do to estimates.

    channel, trial : their numbers. time : (n,), increasing. residual : (n,), of a robust loss its
    slope. pull : d estimate / d residual, (n, r).
    """

    channel: int
    trial: int
    time: Array
    residual: Array
    pull: Array


@dataclass(frozen=True, eq=False)
class Robust:
    """A covariance (r, r); the order of the autoregressions of residuals and over how many samples
    what they leave was taken as correlated; and as how many independent samples they count, less
    the unknowns."""

    covariance: Array
    order: int
    bandwidth: float
    freedom: float


def sandwich(
    series: Sequence[Influence], samples: float, taken: float, correlated: bool = True
) -> Robust:
    """The covariance of estimates from the residuals of all channels and trials.

    samples, taken : the number of samples, and of degrees of freedom that unknowns take, by which
    residuals are too small. correlated : whether residuals may be correlated in time, else only of
    unequal variance (White 1980, Econometrica 48, 817).

    With correlation, an autoregression of the residuals of each channel turns them into
    innovations, and its inverse, backwards in time, the pull of samples into that of innovations.
    Its order is that of the least BIC. The products of both, summed over channels, are what an
    instant contributes; their long-run variance is taken by the quadratic spectral kernel with the
    bandwidth that they ask for, for what the autoregression leaves (prewhitening: Andrews and
    Monahan 1992, Econometrica 60, 953; Andrews 1991, Econometrica 59, 817). Autoregressions of the
    products themselves, as there, would depend on how pulls change in time: the error is then
    larger, and with few swings in a record much too small a covariance is found.
    """
    correlated = correlated and max(len(one.time) for one in series) >= _FEW
    share, order, coloured = 1.0, 0, list(series)
    if correlated:
        share, order, coloured = _whitened(series)
    scores = _scores(coloured)
    size = np.sqrt(np.sum([np.sum(s**2, axis=0) for s in scores], axis=0))
    size[size == 0.0] = 1.0
    unit = [s / size for s in scores]
    bandwidth = _bandwidth(unit) if correlated else 0.0
    spread = _long_run(unit, bandwidth)
    freedom = max(share * samples - taken, 1.0)
    whole = share * samples / freedom * 0.5 * (spread + spread.T) * np.outer(size, size)
    return Robust(whole, order, bandwidth, freedom)


def _whitened(series: Sequence[Influence]) -> tuple[float, int, list[Influence]]:
    """As what share of their number correlated samples count; the largest order of the
    autoregressions, one per channel; innovations and their pulls."""
    found, order, counted = list[Influence](), 0, 0.0
    for channel in dict.fromkeys(one.channel for one in series):
        mine = [one for one in series if one.channel == channel]
        count, longest = sum(len(s.time) for s in mine), max(len(s.time) for s in mine)
        most = int(6.0 * (longest / 100.0) ** 0.25)
        products = [sum(_product(s.residual, lag) for s in mine) for lag in range(most + 1)]
        own = _autoregression(np.array(products), count)
        filtered = np.concatenate([[1.0], -own])
        white = [_innovations(one, filtered) for one in mine]
        power = sum(_product(s.residual, 0) for s in white) / float(np.sum(filtered)) ** 2
        counted += count * (min(1.0, products[0] / power) if power > 0.0 else 1.0)
        found, order = [*found, *white], max(order, len(own))
    return counted / sum(len(one.time) for one in series), order, found


def _product(row: Array, lag: int) -> float:
    """The sum of the products of samples that are so far apart."""
    return float(row[lag:] @ row[: len(row) - lag]) if lag < len(row) else 0.0


def _innovations(of: Influence, filtered: Array) -> Influence:
    """Of residuals by a filter; an innovation pulls by all samples that it comes to."""
    white = np.asarray(lfilter(filtered, [1.0], of.residual))
    pull = np.asarray(lfilter([1.0], filtered, of.pull[::-1], axis=0))[::-1]
    return Influence(of.channel, of.trial, of.time, white, pull)


def _autoregression(products: Array, count: int) -> Array:
    """Coefficients, from sums of products over `count` instants at lags 0, 1, ..., of the order
    with the least BIC, by Levinson's recursion; with a sum that is not too large."""
    found, variance = np.zeros(0), float(products[0])
    best, least = found, 0.0
    for lag in range(1, len(products)):
        if not variance > 1e-12 * products[0]:
            break
        last = (products[lag] - found @ products[1:lag][::-1]) / variance
        found = np.append(found - last * found[::-1], last)
        variance *= max(1.0 - last**2, 1e-12)
        score = count * np.log(variance / products[0]) + lag * np.log(count)
        if score < least:
            best, least = found, score
    total = float(np.sum(best))
    return best if total <= _MOST_GROWTH else best * (_MOST_GROWTH / total)


def _scores(series: Sequence[Influence]) -> list[Array]:
    """Residuals times pulls, summed over channels, in order of time, (K, r) for each trial."""
    found = []
    for trial in dict.fromkeys(one.trial for one in series):
        mine = [one for one in series if one.trial == trial]
        every = np.concatenate([one.time for one in mine])
        times, place = np.unique(every, return_inverse=True)
        total = np.zeros((len(times), mine[0].pull.shape[1]))
        np.add.at(total, place, np.vstack([one.residual[:, None] * one.pull for one in mine]))
        found.append(total)
    return found


def _bandwidth(scores: Sequence[Array]) -> float:
    """Of the quadratic spectral kernel [samples], by first-order autoregressions of each column
    (Andrews 1991, eqs. 6.2 and 6.4, with weights one over variances)."""
    before = np.vstack([s[:-1] for s in scores])
    after = np.vstack([s[1:] for s in scores])
    power = np.sum(before**2, axis=0)
    power[power == 0.0] = 1.0
    rho = np.clip(np.sum(before * after, axis=0) / power, -_MOST_GROWTH, _MOST_GROWTH)
    above = np.sum(4.0 * rho**2 / (1.0 - rho) ** 8)
    below = np.sum(1.0 / (1.0 - rho) ** 4)
    return float(1.3221 * (above / below * len(after)) ** 0.2)


def _long_run(scores: Sequence[Array], bandwidth: float) -> Array:
    """Sum over all lags of their products, weighted by the quadratic spectral kernel, (r, r)."""
    total = np.sum([s.T @ s for s in scores], axis=0)
    longest = max(map(len, scores))
    for lag in range(1, longest):
        weight = _quadratic_spectral(lag / bandwidth) if bandwidth > 0.0 else 0.0
        if lag > 8.0 * max(bandwidth, 1.0):
            break
        part = np.sum([s[lag:].T @ s[:-lag] for s in scores if len(s) > lag], axis=0)
        total = total + weight * (part + part.T)
    return np.asarray(total)


def _quadratic_spectral(x: float) -> float:
    """k(x) = 25/(12 pi^2 x^2) (sin(6 pi x/5)/(6 pi x/5) - cos(6 pi x/5)) (Andrews 1991)."""
    a = 1.2 * np.pi * x
    return float(3.0 / a**2 * (np.sin(a) / a - np.cos(a)))
