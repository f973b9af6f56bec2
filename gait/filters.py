"""Smoothing of marker histories: a Butterworth low-pass, and splines by cross-validation.

Like `SSA` they are functions of series (..., N) and their rate. Which one is the default of
`reconstruct`, and why, says `benchmarks/smoothing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import comb
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solveh_banded

from kinesym.base.checks import count, mapping, positive
from kinesym.gait.smoothing import finite_series
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.low_pass import motion_low_pass

#: Smoother: a function of series (..., N) and their rate [Hz].
Smoother: TypeAlias = Callable[[Array, float], ArrayLike]

#: Filters of higher orders ring, and lose all digits.
_MOST_ORDER = 50
#: Steps of the frequencies tried by cross-validation, as a factor.
FINE = 1.06


@dataclass(frozen=True)
class Butterworth:
    """A low-pass that runs forwards and backwards, so that nothing lags.

    cutoff : both passes together reduce amplitudes to 1/sqrt(2) at it [Hz]; the cutoff of one pass
        is set higher accordingly. order : of one pass. markers : cutoffs of markers by name that
        differ from the rest.

    At the ends a polynomial continues the motion; within a third of a period of the cutoff
    accelerations are less certain. Raises `ValueError` for a cutoff that is not positive or not
    below half the rate, and an order below 1.
    """

    cutoff: float = 6.0
    order: int = 2
    markers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive(self.cutoff, "the cutoff of Butterworth")
        count(self.order, "the order of Butterworth", most=_MOST_ORDER)
        own = dict(mapping(self.markers, "the markers of Butterworth"))
        for name, cutoff in own.items():
            positive(cutoff, f"the cutoff of marker {name!r}")
        object.__setattr__(self, "markers", own)

    def __call__(self, series: ArrayLike, rate: float) -> Array:
        """Smoothed series, in the shape given: (..., N) at `rate` [Hz]."""
        x = finite_series(series, "Butterworth")
        time = np.arange(x.shape[-1]) / positive(rate, "the rate of a series")
        rows = x.reshape(-1, x.shape[-1])
        return motion_low_pass(time, rows, self.cutoff, self.order).reshape(x.shape)

    def __str__(self) -> str:
        return f"Butterworth at {self.cutoff:.3g} Hz"

    def marker(self, name: str) -> Butterworth:
        """The filter of one marker."""
        return replace(self, cutoff=self.markers.get(name, self.cutoff), markers={})


@dataclass(frozen=True)
class GCVSpline:
    """Natural smoothing splines, how smooth by generalised cross-validation (Woltring 1986).

    degree : 5, which Woltring advises for accelerations, or 3. Each series gets its own smoothness:
    the one that minimises the mean square residual over the square of the share of samples that are
    left over. The spline acts as a low-pass of gain 1/(1 + (f/f_c)^(degree + 1)), see `cutoffs`.

    It supposes white noise. Errors by skin and muscles are not white: it keeps them.
    """

    degree: int = 5

    def __post_init__(self) -> None:
        if self.degree not in (3, 5):
            raise ValueError(f"the degree of a GCVSpline is 3 or 5, got {self.degree!r}")

    def __call__(self, series: ArrayLike, rate: float) -> Array:
        """Smoothed series, in the shape given: (..., N) at `rate` [Hz]."""
        x = finite_series(series, "GCVSpline")
        rows = x.reshape(-1, x.shape[-1])
        tried, scores = self._scores(rows)
        best = np.argmin(scores, axis=0)
        smooth = np.empty_like(rows)
        for k in np.unique(best):
            smooth[best == k] = rows[best == k] - self._residual(rows[best == k], tried[k])
        return smooth.reshape(x.shape)

    def cutoffs(self, series: ArrayLike, rate: float) -> Array:
        """Cutoff frequency of each spline, at which it halves the amplitude [Hz], (...)."""
        x = finite_series(series, "GCVSpline")
        tried, scores = self._scores(x.reshape(-1, x.shape[-1]))
        return positive(rate, "the rate of a series") * np.reshape(
            tried[np.argmin(scores, axis=0)], x.shape[:-1]
        )

    def _scores(self, rows: Array) -> tuple[Array, Array]:
        """Frequencies per sample (F,), and cross-validation scores of each, (F, k)."""
        N = rows.shape[1]
        lowest = max(1.0 / N, 0.002)
        tried = np.geomspace(lowest, 1.0, int(np.log(1.0 / lowest) / np.log(FINE)))
        left = np.array([np.sum(self._lost(N, f)) / N for f in tried])
        squares = np.array([np.mean(self._residual(rows, f) ** 2, axis=1) for f in tried])
        return tried, squares / left[:, None] ** 2

    def _residual(self, rows: Array, frequency: float) -> Array:
        """Residual of the smoothing spline for rows (k, N): lambda Q' c, (R + lambda Q Q') c = Q x,
        where Q takes differences and R has the products of B-splines (Reinsch 1967)."""
        half, N = (self.degree + 1) // 2, rows.shape[1]
        weight = (2.0 * np.pi * frequency) ** (-2 * half)
        bands = np.zeros((half + 1, N - half))
        gram = [66.0 / 120.0, 26.0 / 120.0, 1.0 / 120.0] if half == 3 else [2.0 / 3.0, 1.0 / 6.0]
        for k in range(half + 1):
            bands[k] = weight * (-1) ** k * comb(2 * half, half + k)
            bands[k] += gram[k] if k < half else 0.0
        c = solveh_banded(bands, np.diff(rows, half, axis=1).T, lower=True).T
        padded = np.pad(c, ((0, 0), (half, half)))
        return np.asarray((-1) ** half * weight * np.diff(padded, half, axis=1))

    def _lost(self, N: int, frequency: float) -> Array:
        """Shares of its modes that the spline takes off, (N - half,): those of a free beam."""
        half = (self.degree + 1) // 2
        modes = np.pi * (np.arange(1, N - half + 1) + 0.5 * (half - 1)) / N
        sizes = (2.0 - 2.0 * np.cos(modes)) ** half
        products = (
            (66.0 + 52.0 * np.cos(modes) + 2.0 * np.cos(2.0 * modes)) / 120.0
            if half == 3
            else (4.0 + 2.0 * np.cos(modes)) / 6.0
        )
        scaled = (2.0 * np.pi * frequency) ** (-2 * half) * sizes / products
        return np.asarray(scaled / (1.0 + scaled))


def smoother_of(given: Any, what: str = "smooth") -> Smoother:
    """A law as it is; a number is the cutoff [Hz] of `Butterworth`. Raises `ValueError` for other
    objects."""
    if isinstance(given, Real) and not isinstance(given, bool):
        return Butterworth(float(given))
    if not callable(given):
        raise ValueError(
            f"{what} is a cutoff [Hz] or a function of series and their rate, such as "
            f"Butterworth(6.0), got {given!r}"
        )
    return given
