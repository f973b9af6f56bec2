"""Force plates that cannot be right by themselves, or in time: offsets, early or late.

World axes x forwards, y to the left, z up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d, uniform_filter1d

from kinesym.gait.checks import Finding, judged
from kinesym.gait.gaps import runs
from kinesym.gait.wrench import Wrench, between
from kinesym.runtime.arrays import Array

#: Largest force that a plate may show while nothing stands on it [N].
OFFSET = 10.0
#: Shortest time that a plate is empty to be judged [s].
EMPTY = 0.1
#: Variation of an empty plate during that time, at most, as a share of the largest force [-].
LOWEST = 0.03
#: Force of an empty plate, at most, as a share of the largest vertical force [-].
NEVER = 0.3
#: Largest lag of plates behind the motion that counts as none [s].
LAG = 0.02
#: Largest lag that is looked for [s].
FARTHEST = 0.25
#: Step of the search for the lag [s].
STEP = 0.0025
#: Shortest record of which the lag is estimated [s].
LONG_ENOUGH = 0.4
#: Number of samples, at most, from which the lag is estimated.
ENOUGH = 2000
#: Largest share of the misfit that remains without the lag, if the lag is real [-].
REMAINS = 0.8
#: Smallest decrease of the misfit without the lag, as a share of the weight [-].
GAIN = 0.015


def check_empty(name: str, plate: Wrench) -> list[Finding]:
    """Check the offset of a plate: the force it shows while nothing stands on it."""
    time, step = plate.time, float(np.median(np.diff(plate.time)))
    width = max(round(EMPTY / step), 3)
    vertical = uniform_filter1d(plate.force[2], max(width // 5, 1), mode="nearest")
    highest = float(np.quantile(vertical, 0.99))
    if highest < 5.0 * OFFSET:
        return []
    ends = maximum_filter1d(vertical, width), minimum_filter1d(vertical, width)
    flat = (ends[0] - ends[1] < max(LOWEST * highest, OFFSET)) & (ends[0] < NEVER * highest)
    if not flat.any():
        return []
    size = np.zeros_like(time)
    for run in runs(flat):
        size[run] = np.linalg.norm(np.median(plate.force[:, run], axis=1))
    return judged("force on an empty plate", time, {name: size}, OFFSET, "N", _offset)


def _offset(one: Finding) -> str:
    return (
        f"plate {one.names[0]!r} shows {one.size:.0f} N while nothing stands on it, at "
        f"{one.worst:.3f} s: an offset or a drift; subtract what it shows unloaded"
    )


def check_lag(
    time: Array, force: Array, plates: Mapping[str, Wrench], measured: NDArray[np.bool_]
) -> list[Finding]:
    """Delay of the plates behind the force (3, N) that a motion needs.

    The lag at which both differ least, by the median over the samples (N,) in which all feet on the
    ground stand on plates.
    """
    begin = max(time[0], *(p.time[0] + FARTHEST for p in plates.values()))
    end = min(time[-1], *(p.time[-1] - FARTHEST for p in plates.values()))
    here = np.flatnonzero(measured & (time >= begin) & (time <= end))
    if not len(here) or time[here[-1]] - time[here[0]] < LONG_ENOUGH:
        return []
    here = here[:: max(len(here) // ENOUGH, 1)]
    needed = force[:, here]
    half = round(FARTHEST / STEP)
    lags = STEP * np.arange(-half, half + 1)
    misfit = np.array([_misfit(time[here] + lag, needed, plates) for lag in lags])
    least, lag = float(misfit.min()), float(lags[misfit.argmin()])
    gain = float(misfit[half]) - least
    sure = gain > max((1.0 - REMAINS) * misfit[half], GAIN * float(needed[2].mean()))
    size = abs(lag) if sure else 0.0
    says = (
        f"plates are {1e3 * size:.0f} ms {'late' if lag > 0.0 else 'early'} against the motion: "
        f"moved by that they differ by {least:.0f} N from the force that it needs, not by "
        f"{misfit[half]:.0f} N; synchronise them, or shift their time"
    )
    ends = float(begin), float(end), float(begin)
    return [Finding("plates late", tuple(plates), *ends, size, LAG, "s", says * (size > LAG))]


def _misfit(time: Array, needed: Array, plates: Mapping[str, Wrench]) -> float:
    """Median difference of the plates at other times (n,) from a force (3, n) [N]."""
    shown = np.sum([between(time, p.time, p.force) for p in plates.values()], axis=0)
    return float(np.median(np.linalg.norm(shown - needed, axis=0)))
