"""The rate of steps of a walk from its markers, and the low-pass that follows from it."""

from __future__ import annotations

import numpy as np
from scipy.signal import periodogram

from kinesym.gait.filters import Butterworth
from kinesym.gait.markers import Markers

#: Lower limit of the default cutoff [Hz].
LEAST = 5.0
#: Ratio of the default cutoff to the rate of steps [-].
HARMONICS = 2.5
#: Rates of steps that are believed [1/s].
STEPS = (0.5, 4.0)


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
