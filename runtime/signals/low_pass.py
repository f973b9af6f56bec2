"""The Butterworth low-pass that runs forwards and backwards over uniform samples."""

from __future__ import annotations

import numpy as np
from scipy.signal import butter, sosfiltfilt

from kinesym.checks import finite
from kinesym.runtime.arrays import Array


def passes(time: Array, cutoff: float, jitter: float) -> tuple[Array, float]:
    """Sections of the filter of order 2 for one pass, and the step [s].

    Each pass has a cutoff f_c further up, so that both reduce to 1/sqrt(2) at `cutoff` [Hz]: the
    gain of both is 1/(1 + (tan(pi f h)/tan(pi f_c h))^4). jitter : share of the step by which
    steps may differ.

    Raises `ValueError` for samples that are not uniform and an impossible cutoff.
    """
    cutoff = finite(cutoff, "the cutoff")
    steps = np.diff(time)
    step = float(np.mean(steps))
    k = int(np.abs(steps - step).argmax())
    if abs(steps[k] - step) > jitter * step:
        raise ValueError(
            f"a low-pass needs uniform samples; step {k} is {steps[k]:.6g} s, "
            f"the mean one {step:.6g} s"
        )
    low, high = 2.0 / (step * len(time)), 0.5 / step
    if not low <= cutoff < high:
        raise ValueError(
            f"the cutoff must lie between {low:.6g} Hz, two periods in the record, "
            f"and {high:.6g} Hz, half the sampling rate, got {cutoff}"
        )
    single = np.arctan(np.tan(np.pi * cutoff * step) / (np.sqrt(2.0) - 1.0) ** 0.25) / np.pi
    return np.asarray(butter(2, 2.0 * single, output="sos")), step


def low_pass(time: Array, rows: Array, cutoff: float) -> Array:
    """Rows after a Butterworth low-pass of order 2 forwards and backwards, reflected at the ends.

    Forces end within a stance; the polynomials that continue a motion would leave for thousands of
    newtons.
    """
    sections, step = passes(time, cutoff, jitter=1e-2)  # files round times
    beyond = min(int(np.ceil(2.0 / (cutoff * step))), len(time) - 1)
    return np.asarray(sosfiltfilt(sections, rows, axis=1, padtype="odd", padlen=beyond))
