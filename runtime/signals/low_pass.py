"""The Butterworth low-pass that runs forwards and backwards over uniform samples.

Forces are reflected at the ends, motions go on as polynomials: see `low_pass`, `motion_low_pass`.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import butter, sosfiltfilt

from kinesym.base.checks import finite
from kinesym.runtime.arrays import Array


def passes(time: Array, cutoff: float, jitter: float, order: int = 2) -> tuple[Array, float]:
    """Sections of the filter for one pass, and the step [s].

    Each pass has a cutoff f_c further up, so that both reduce to 1/sqrt(2) at `cutoff` [Hz]: the
    gain of both is 1/(1 + (tan(pi f h)/tan(pi f_c h))^(2 order)). jitter : share of the step by
    which steps may differ.

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
            + ("; is time in milliseconds?" if cutoff >= 1.0 > high else "")
        )
    further = (np.sqrt(2.0) - 1.0) ** (0.5 / order)
    single = np.arctan(np.tan(np.pi * cutoff * step) / further) / np.pi
    return np.asarray(butter(order, 2.0 * single, output="sos")), step


def low_pass(time: Array, rows: Array, cutoff: float, order: int = 2) -> Array:
    """Rows after a Butterworth low-pass forwards and backwards, reflected at the ends.

    Forces end within a stance; the polynomials that continue a motion would leave for thousands of
    newtons.
    """
    sections, step = passes(time, cutoff, 1e-2, order)  # files round times
    beyond = min(int(np.ceil(2.0 / (cutoff * step))), len(time) - 1)
    return np.asarray(sosfiltfilt(sections, rows, axis=1, padtype="odd", padlen=beyond))


def motion_low_pass(time: Array, rows: Array, cutoff: float, order: int = 2) -> Array:
    """Rows (k, N) after the same filter, continued at the ends by polynomials: for motions, whose
    accelerations a reflection would spoil."""
    sections, step = passes(time, cutoff, 1e-3, order)
    beyond = int(np.ceil(3.0 / (cutoff * step)))
    before, after = _continued(rows[:, ::-1], beyond)[:, ::-1], _continued(rows, beyond)
    smooth = sosfiltfilt(sections, np.hstack([before, rows, after]), axis=1, padlen=0)
    return np.asarray(smooth[:, beyond:-beyond])


def _continued(rows: Array, count: int) -> Array:
    """The next `count` samples by a quartic polynomial through the last ones.

    The usual padding by reflection reverses the curvature: accelerations at the ends were wrong by
    their own size, with this by a tenth to a half of it.
    """
    fitted = min(rows.shape[1], max(2 * count // 3, 15))
    ago, ahead = np.arange(1 - fitted, 1) / fitted, np.arange(1, count + 1) / fitted
    ends = np.polynomial.polynomial.polyfit(ago, rows[:, -fitted:].T, 4)
    return np.asarray(np.polynomial.polynomial.polyval(ahead, ends))
