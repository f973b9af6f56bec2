"""Smoothing of marker histories: a Butterworth low-pass, splines by cross-validation, and singular
spectrum analysis.

They are functions of series (..., N) and their rate. Which one is the default of `reconstruct`, and
why, says `benchmarks/smoothing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import comb
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike
from scipy.linalg import solveh_banded

from kinesym.base.checks import count, finite, mapping, not_negative, positive
from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.signals.low_pass import motion_low_pass

#: Smoother: a function of series (..., N) and their rate [Hz].
Smoother: TypeAlias = Callable[[Array, float], ArrayLike]

#: Filters of higher orders ring, and lose all digits.
_MOST_ORDER = 50
#: Steps of the frequencies tried by cross-validation, as a factor.
FINE = 1.06
#: Default window of singular spectrum analysis: half a gait cycle at usual speed [s].
HALF_CYCLE = 0.6


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


# -- singular spectrum analysis -------------------------------------------------------------------
#
# A series minus its mean is embedded in a Hankel matrix X of L rows; of the eigenvectors of X X'
# the leading ones are kept, and what they leave of X is averaged along its anti-diagonals
# (Golyandina, Nekrutkin, Zhigljavsky 2001; Alonso, Castillo, Pintado 2005 for marker histories).


@dataclass(frozen=True, eq=False)
class Scree(Displayed):
    """Scree plot data: the variance of a series by components; print it for a table.

    values : (L,) eigenvalues, the largest first. rank : number of components that would be kept.
    """

    values: Array
    rank: int

    @property
    def shares(self) -> Array:
        """Share of each component in the variance, (L,)."""
        return self.values / (self.values.sum() or 1.0)

    @property
    def left_out(self) -> Array:
        """Share of the variance without this and all larger components, (L,)."""
        return np.append(np.cumsum(self.shares[::-1])[::-1][1:], 0.0)

    def __str__(self) -> str:
        shown = min(len(self.values), max(self.rank + 4, 8))
        lines = [f"{'component':>9} {'eigenvalue':>12} {'share':>10} {'left out':>10}"]
        for k in range(shown):
            mark = "  <- rank" if k + 1 == self.rank else ""
            lines.append(
                f"{k + 1:9d} {self.values[k]:12.4g} {self.shares[k]:10.3g} "
                f"{self.left_out[k]:10.3g}{mark}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class SSA:
    """Smoothing by singular spectrum analysis.

    window : rows L of the Hankel matrix, a whole number of samples or a duration [s] (a number
        with a point). Default: half a gait cycle, 0.6 s, but no more than half the series.
    rank : components to keep; default as many as `share` needs. A slow trend takes one to three,
        each sine in it two.
    share : of the variance, which may be left out: of a marker that crosses the room, 1e-5 is a
        few millimetres, of one on the pelvis on a treadmill less than the noise.
    noise : root mean square which may be left out, in the unit of the series, instead of a share:
        the same for all markers, such as 5e-4 [m].

    Raises `ValueError` for a window below two samples, a rank below one or above the window, a
    share outside 0 ... 1, a noise that is negative, and more than one of rank and noise.
    """

    window: float | int | None = None
    rank: int | None = None
    share: float = 1e-5
    noise: float | None = None

    def __post_init__(self) -> None:
        if self.window is not None:
            low = 2 if isinstance(self.window, Integral) else 0.0
            number = isinstance(self.window, Real) and not isinstance(self.window, bool)
            if not number or not low <= self.window < np.inf or not self.window:
                raise ValueError(
                    "the window of SSA must be a whole number of samples, at least 2, "
                    f"or a positive duration [s], got {self.window!r}"
                )
        if self.rank is not None:
            count(self.rank, "the rank of SSA")
        if not 0.0 <= finite(self.share, "the share SSA may leave out") < 1.0:
            raise ValueError(f"the share SSA may leave out is within 0 ... 1, got {self.share}")
        if self.noise is not None:
            not_negative(self.noise, "the noise SSA may leave out")
        if self.rank is not None and self.noise is not None:
            raise ValueError("give SSA either rank=... or noise=..., both say how much to keep")

    def __call__(self, series: ArrayLike, rate: float | None = None) -> Array:
        """Smoothed series, in the shape given.

        series : (..., N), each row on its own. rate : samples per second [Hz], for a window in
            seconds.

        Raises `ValueError` if a value is not finite, a row shorter than two windows, and if a
        window in seconds comes without a rate.
        """
        x = finite_series(series, "SSA")
        L = self._rows(x.shape[-1], rate)
        rows = x.reshape(-1, x.shape[-1])
        means = rows.mean(axis=1, keepdims=True)
        smooth = [self._smooth(row, L) for row in rows - means]
        return (np.reshape(smooth, rows.shape) + means).reshape(x.shape)

    def scree(self, series: ArrayLike, rate: float | None = None) -> Scree:
        """Eigenvalues of one series (N,), and how many this would keep; raises as above."""
        x = finite_series(series, "SSA")
        if x.ndim != 1:
            raise ValueError(f"a scree shows one series (N,), got {x.shape}")
        L = self._rows(len(x), rate)
        values, _ = spectrum(x - x.mean(), L)
        return Scree(values, self._kept(values, len(x)))

    def _rows(self, N: int, rate: float | None) -> int:
        """L for series of N samples."""
        if rate is not None:
            positive(rate, "the rate of a series")
        if self.window is None:
            L = N // 2 if rate is None else min(N // 2, round(HALF_CYCLE * rate))
        elif isinstance(self.window, Integral):
            L = int(self.window)
        elif rate is None:
            raise ValueError(
                f"an SSA window of {self.window} s needs the rate of the series [Hz]: "
                "give rate=..., or the window as a number of samples"
            )
        else:
            L = round(self.window * rate)
        if not 2 <= L <= N // 2:
            raise ValueError(f"SSA window {L} must be between 2 and N/2 = {N // 2}")
        if self.rank is not None and self.rank > L:
            raise ValueError(f"SSA cannot keep {self.rank} components of a window of {L}")
        return L

    def _kept(self, values: Array, N: int) -> int:
        """Number of components to keep of a series of N samples."""
        if self.rank is not None:
            return int(self.rank)
        L = len(values)
        rest = np.append(np.cumsum(values[::-1])[::-1], 0.0)  # left out if k are kept
        # The sum of all eigenvalues is that of the squares of a matrix of L x (N - L + 1).
        allowed = self.share * rest[0] if self.noise is None else self.noise**2 * L * (N - L + 1)
        return max(int(np.argmax(rest <= allowed)), 1)

    def _smooth(self, x: Array, L: int) -> Array:
        values, vectors = spectrum(x, L)
        return projected(x, vectors[:, : self._kept(values, len(x))])


def noise_of(series: ArrayLike) -> Array:
    """The deviation of white noise in series (..., N), from their fourth differences, (...).

    Motion that takes more than ten samples per period hardly counts, and the median keeps out the
    instants of impacts.
    """
    x = finite_series(series, "the noise")
    differences = np.diff(x, 4, axis=-1)
    return np.asarray(np.median(np.abs(differences), axis=-1) / (0.6745 * np.sqrt(70.0)))


def spectrum(x: Array, L: int) -> tuple[Array, Array]:
    """Eigenvalues (L,) and vectors (L, L) of the lag-covariance X X' of a series, largest first."""
    hankel = sliding_window_view(x, len(x) - L + 1)  # (L, K), a view
    values, vectors = np.linalg.eigh(hankel @ hankel.T)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def projected(x: Array, vectors: Array) -> Array:
    """The series whose Hankel matrix is nearest to U U' X, for columns U (L, r)."""
    (L, _), N = vectors.shape, len(x)
    parts = vectors.T @ sliding_window_view(x, N - L + 1)
    # the sums along anti-diagonals of an outer product are its convolution
    sums = sum(np.convolve(u, part) for u, part in zip(vectors.T, parts, strict=True))
    lengths = np.minimum(np.minimum(np.arange(1, N + 1), np.arange(N, 0, -1)), L)
    return np.asarray(sums / lengths)


def finite_series(series: ArrayLike, law: str) -> Array:
    """Series (..., N) of at least 4 finite samples; the `ValueError` names the law and the
    fault."""
    x = real_array(series, f"series for {law}")
    if x.ndim < 1 or x.shape[-1] < 4:
        raise ValueError(f"{law} needs series (..., N) of at least 4 samples, got {x.shape}")
    if not np.isfinite(x).all():
        position = tuple(int(k) for k in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(
            f"{law} needs finite values; the one at {position} is {x[position]}; fill gaps first"
        )
    return x
