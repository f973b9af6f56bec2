"""Singular spectrum analysis: smoothing that adapts to the signal.

A series minus its mean is embedded in a Hankel matrix X of L rows; of the eigenvectors of X X' the
leading ones are kept, and what they leave of X is averaged along its anti-diagonals (Golyandina,
Nekrutkin, Zhigljavsky 2001; Alonso, Castillo, Pintado 2005 for marker histories).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from kinesym.base.checks import count, finite, positive
from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array, real_array

#: Default window: half a gait cycle at usual speed [s].
HALF_CYCLE = 0.6


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
        if self.noise is not None and finite(self.noise, "the noise SSA may leave out") < 0.0:
            raise ValueError(f"the noise SSA may leave out must not be negative, got {self.noise}")
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
