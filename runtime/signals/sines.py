"""Sums of sines within limits: courses of an input that an experiment can choose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinesym.base.checks import count, positive, shown
from kinesym.runtime.arrays import Array, one_number

#: Share of the power of a course that lies in its band.
_POWER = 0.99


@dataclass(frozen=True)
class Sines:
    """Limits of a course of an input, which is a sum of sines; see `sines`."""

    band: tuple[float, float] | None = None
    rms: float | None = None
    amplitude: float | None = None
    rate: float | None = None
    mean: float | None = None
    waves: int = 12

    def like(self, time: Array, row: Array) -> Sines:
        """Limits with the band, the mean and, where nothing limits the size, the root mean
        square of a course (N,). Raises `ValueError` for a band that its nodes cannot show, and for
        a size that nothing tells."""
        fastest = 0.5 / float(np.median(np.diff(time)))
        if self.band is not None and self.band[1] > fastest * (1.0 + 1e-9):
            raise ValueError(
                f"nodes show frequencies up to {fastest:.4g} Hz, and band ends at "
                f"{self.band[1]:.4g} Hz; take more nodes or a lower end"
            )
        mean = float(np.mean(row)) if self.mean is None else self.mean
        if any(each is not None for each in (self.rms, self.amplitude, self.rate)):
            return replace(self, band=self.band or band_of(time, row), mean=mean)
        rms = float(np.std(row))
        if not rms > 0.0:
            raise ValueError("nothing limits the size of an input that is constant now; give rms")
        return replace(self, band=self.band or band_of(time, row), rms=rms, mean=mean)

    def frequencies(self, time: Array) -> Array:
        """Frequencies [Hz] (w,): multiples of 1/duration where the band has enough of them."""
        assert self.band is not None
        low, high = self.band
        base = 1.0 / float(time[-1] - time[0])
        whole = np.arange(np.ceil(low / base - 1e-9), np.floor(high / base + 1e-9) + 1.0) * base
        whole = whole[whole > 0.0]
        if len(whole) >= self.waves:
            places = np.linspace(0, len(whole) - 1, self.waves)
            return np.asarray(whole[np.round(places).astype(int)])
        return np.linspace(max(low, 0.25 * base) if 0.25 * base < high else low, high, self.waves)

    def course(self, coefficients: Array, time: Array) -> Array:
        """The course (N,) of coefficients (2 w,) of sines and cosines, as large as the limits let
        it be."""
        row = self._waves(time) @ coefficients
        sizes = [(limit / size) for limit, size, _ in self._sizes(row, time) if size > 0.0]
        return np.asarray(self.mean or 0.0) + row * min(sizes, default=0.0)

    def pulled(self, coefficients: Array, time: Array, slopes: Array) -> Array:
        """Derivatives (2 w,) by the coefficients of what has these derivatives (N,) by the values
        of the course."""
        waves = self._waves(time)
        row = waves @ coefficients
        sizes = [each for each in self._sizes(row, time) if each[1] > 0.0]
        if not sizes:
            return np.zeros_like(coefficients)
        limit, size, bends = min(sizes, key=lambda each: each[0] / each[1])
        return np.asarray(waves.T @ (slopes - (slopes @ row) / size * bends) * (limit / size))

    def _waves(self, time: Array) -> Array:
        """Sines and cosines (N, 2 w) without their means."""
        phase = 2.0 * np.pi * np.outer(time - time[0], self.frequencies(time))
        rows = np.hstack([np.sin(phase), np.cos(phase)])
        return np.asarray(rows - rows.mean(axis=0))

    def _sizes(self, row: Array, time: Array) -> list[tuple[float, float, Array]]:
        """Limits that there are, sizes of a course without its mean (N,), their derivatives."""
        found, steps = list[tuple[float, float, Array]](), np.diff(time)
        if self.rms is not None:
            size = float(np.sqrt(np.mean(row**2)))
            found.append((self.rms, size, row / (len(row) * size or 1.0)))
        if self.amplitude is not None:
            k, bends = int(np.abs(row).argmax()), np.zeros_like(row)
            bends[k] = np.sign(row[k])
            found.append((self.amplitude, float(abs(row[k])), bends))
        if self.rate is not None:
            speeds, bends = np.diff(row) / steps, np.zeros_like(row)
            k = int(np.abs(speeds).argmax())
            bends[[k, k + 1]] = np.array([-1.0, 1.0]) * np.sign(speeds[k]) / steps[k]
            found.append((self.rate, float(abs(speeds[k])), bends))
        return found


def sines(
    *,
    band: tuple[float, float] | None = None,
    rms: float | None = None,
    amplitude: float | None = None,
    rate: float | None = None,
    mean: float | None = None,
    waves: int = 12,
) -> Sines:
    """Limits of an input that `design` chooses, a sum of so many sines.

    band : lowest and highest frequency [Hz]. rms : root mean square about the mean, amplitude :
    largest distance from the mean, rate : largest speed [unit/s]; the course is as large as all of
    these allow. What is left out is as in the record: its mean, the band of 99 % of its power, and
    its rms if nothing limits the size. Raises `ValueError` for what is no band or not positive.
    """
    if band is not None:
        low, high = (one_number(side, "a frequency of band") for side in _pair(band))
        if not 0.0 <= low < high:
            raise ValueError(f"band must be 0 <= low < high in Hz, got {shown(band)}")
        band = (low, high)
    given = {"rms": rms, "amplitude": amplitude, "rate": rate}
    for name, value in given.items():
        given[name] = None if value is None else positive(value, name)
    level = None if mean is None else one_number(mean, "mean")
    return Sines(band, mean=level, waves=count(waves, "waves"), **given)


def _pair(band: Any) -> tuple[Any, Any]:
    if not isinstance(band, tuple | list) or len(band) != 2:
        raise ValueError(f"band is (low, high) in Hz, got {shown(band)}")
    return band[0], band[1]


def band_of(time: Array, row: Array) -> tuple[float, float]:
    """Lowest and highest frequency [Hz] of 99 % of the power of a course (N,), its mean left out;
    up to a tenth of the sampling rate where it has none."""
    step = float(np.median(np.diff(time)))
    even = np.arange(time[0], time[-1] + 0.5 * step, step)
    power = np.abs(np.fft.rfft(np.interp(even, time, row - np.mean(row)))) ** 2
    hertz = np.fft.rfftfreq(len(even), step)
    if not power[1:].sum() > 0.0:
        return (0.0, 0.1 / step)
    share = np.cumsum(power[1:]) / power[1:].sum()
    low, high = np.searchsorted(share, [0.5 * (1.0 - _POWER), 0.5 * (1.0 + _POWER)]) + 1
    return float(hertz[low]), float(hertz[min(max(high, low + 1), len(hertz) - 1)])
