"""Cutoffs of a low-pass of markers: by the rate of steps, and by residual analysis, the part that a
filter removes, over its cutoff (Winter 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import periodogram

from kinesym.base.checks import check_kind, positive
from kinesym.base.notebook import Displayed
from kinesym.gait.markers import Markers
from kinesym.gait.smoothing import Butterworth
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.results.plot import subplots

#: Lower limit of the default cutoff [Hz].
LEAST = 5.0
#: Ratio of the default cutoff to the rate of steps [-].
HARMONICS = 2.5
#: Rates of steps that are believed [1/s].
STEPS = (0.5, 4.0)
#: Number of cutoffs by default.
TRIED = 48
#: Lowest cutoff by default [Hz].
FROM = 1.0
#: Highest cutoff by default, as a share of half the sampling rate [-].
TO = 0.9
#: Share of the highest cutoff above which residuals are taken for noise alone.
TAIL = 0.5


@dataclass(frozen=True, eq=False)
class Residuals(Displayed):
    """Root mean square of the part that low-pass filters remove from each marker; print it for a
    table.

    cutoffs : (F,) [Hz]. names : of K markers. rms : (K, F) [m]. noise : where the straight line
    through the upper half of each curve meets cutoff zero, (K,) [m]: the residual of noise alone.
    advised : the lowest cutoff with a residual of no more than that, (K,) [Hz]; the highest one if
    all leave more, as of markers that were low-passed before: there is no noise to take off. used :
    cutoffs that are marked in the figure, by label [Hz].
    """

    cutoffs: Array
    names: tuple[str, ...]
    rms: Array
    noise: Array
    advised: Array
    used: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{'marker':20} {'noise [mm]':>11} {'advised [Hz]':>13}"]
        for name, noise, cutoff in zip(self.names, self.noise, self.advised, strict=True):
            lines.append(f"{name:20} {1e3 * noise:11.3f} {cutoff:13.1f}")
        middle = np.median(self.noise), np.median(self.advised)
        lines.append(f"{'median':20} {1e3 * middle[0]:11.3f} {middle[1]:13.1f}")
        if middle[1] >= self.cutoffs[-1]:
            lines.append("no white noise is seen: the markers were low-passed before, it seems")
        return "\n".join(lines)

    def plot(self) -> Any:
        """A figure: residuals over the cutoff, a line per marker, the median with its straight
        line of noise, and the cutoffs advised and used."""
        figure, axis = subplots(figsize=(7.5, 4.6))
        axis.plot(self.cutoffs, 1e3 * self.rms.T, color="0.75", lw=0.7)
        middle = np.median(self.rms, axis=0)
        slope, level, cutoff = winter(self.cutoffs, middle)
        axis.plot(self.cutoffs, 1e3 * middle, "C0", lw=2.0, label="median of markers")
        ends = np.array([0.0, self.cutoffs[-1]])
        label = f"noise alone: {1e3 * level:.2f} mm"
        axis.plot(ends, 1e3 * (level + slope * ends), "C0--", lw=1.2, label=label)
        marks = {f"residual equals it: {cutoff:.1f} Hz": cutoff}
        for name, value in self.used.items():
            off = 1e3 * float(np.interp(value, self.cutoffs, middle))
            marks[f"{name}: {value:.1f} Hz takes off {off:.2g} mm"] = value
        for k, (label, value) in enumerate(marks.items(), start=1):
            axis.axvline(value, color=f"C{k}", lw=1.2, label=label)
        most = np.percentile(self.rms, 90, axis=0)
        top = 1e3 * float(np.interp(0.5 * cutoff, self.cutoffs, most))
        axis.set(xlim=(0.0, self.cutoffs[-1]), ylim=(0.0, max(top, 3e3 * level)))
        axis.set(xlabel="cutoff [Hz]", ylabel="residual, rms [mm]")
        axis.legend(loc="upper right")
        return figure


def residual_analysis(
    markers: Markers,
    names: Sequence[str] | None = None,
    cutoffs: ArrayLike | None = None,
    order: int = 2,
    used: Mapping[str, float] | None = None,
) -> Residuals:
    """Residuals of a Butterworth low-pass over its cutoff, and where noise begins (Winter 2009).

    names : of markers; default all without gaps. cutoffs : (F,) increasing [Hz]; default 48 up to
    0.9 of half the rate. order : of one pass. used : cutoffs to mark, by label [Hz].

    The advice supposes white noise; soft tissue that wobbles counts as motion. Forces come out
    better with a lower cutoff than the advised one: see `reconstruct`. Raises `ValueError` for
    markers with gaps, and for cutoffs that are fewer than eight or not possible.
    """
    check_kind(markers, Markers, "kinesym.gait")
    if len(markers) < 2:
        raise ValueError("a single sample has no frequencies; a motion has more")
    gaps = {gap.marker for gap in markers.gaps()}
    chosen = tuple(names or [name for name in markers.names if name not in gaps])
    rows = np.array([markers[name] for name in chosen])
    slowest = 2.001 * markers.rate / len(markers)  # two periods in the record
    grid = (
        np.linspace(max(FROM, slowest), TO * markers.rate / 2.0, TRIED)
        if cutoffs is None
        else real_array(cutoffs, "cutoffs")
    )
    if grid.ndim != 1 or len(grid) < 8 or not (np.diff(grid) > 0.0).all():
        raise ValueError(f"cutoffs are at least 8 increasing frequencies [Hz], got {grid}")
    marked = {name: positive(value, f"used[{name!r}]") for name, value in (used or {}).items()}
    off = [np.sum((rows - Butterworth(f, order)(rows, markers.rate)) ** 2, axis=1) for f in grid]
    rms = np.sqrt(np.mean(off, axis=-1)).T
    found = np.array([winter(grid, row) for row in rms])
    return Residuals(grid, chosen, rms, found[:, 1], found[:, 2], marked)


def winter(cutoffs: Array, rms: Array) -> tuple[float, float, float]:
    """Slope and level at zero of the straight line through the upper half of residuals (F,), and
    the lowest cutoff with a residual of no more than this level, if any."""
    upper = cutoffs >= TAIL * cutoffs[-1]
    slope, level = np.polyfit(cutoffs[upper], rms[upper], 1)
    enough = rms <= level
    k = int(np.argmax(enough))
    if k == 0:
        return float(slope), float(level), float(cutoffs[0 if enough[0] else -1])
    cutoff = np.interp(-level, -rms[k - 1 : k + 1], cutoffs[k - 1 : k + 1])
    return float(slope), float(level), float(cutoff)


def step_rate(markers: Markers) -> float:
    """Steps per second [1/s]: where the vertical velocity of the mean marker has most power.

    Markers with gaps are left out. 0 if there is no such peak within 0.5 ... 4 Hz.
    """
    heights = [p[2] for p in markers.positions.values() if np.isfinite(p).all()]
    if not heights or len(markers.time) < 8:
        return 0.0
    velocity = np.gradient(np.mean(heights, axis=0), 1.0 / markers.rate)
    count = max(len(velocity), int(40.0 * markers.rate))
    frequency, power = periodogram(
        velocity, markers.rate, window="hann", nfft=count, detrend="linear"
    )
    k = int(np.argmax(power))
    within = STEPS[0] <= frequency[k] <= STEPS[1] and power[k] > 0.0
    return float(frequency[k]) if within else 0.0


def low_pass_of(markers: Markers) -> Butterworth:
    """The default of `reconstruct`: a cutoff of 2.5 times the rate of steps, at least 5 Hz, as
    far as the rate of the record allows it."""
    cutoff = max(LEAST, HARMONICS * step_rate(markers))
    return Butterworth(min(cutoff, 0.4 * markers.rate))
