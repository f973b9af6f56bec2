"""Difference of two signals."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from kinesym.runtime.arrays import real_array


def nrmse(signal: ArrayLike, reference: ArrayLike) -> float:
    """Root mean square difference of two signals (N,), divided by the range of `signal` [-].

    signal : the one being validated; its range is the scale (Bourgeois and Langlois 2015, eq. 21).
    reference : what it is compared with, at the same instants.

    NaN marks a missing sample, which does not count. Returns NaN with a warning if the signal is
    constant. Raises `ValueError` for different lengths, infinite numbers, and if nothing is left.
    """
    ours, theirs = real_array(signal, "the signal"), real_array(reference, "the reference")
    if ours.ndim != 1 or ours.shape != theirs.shape:
        raise ValueError(
            f"two signals of one length are compared, got {ours.shape} and {theirs.shape}"
        )
    for name, row in (("signal", ours), ("reference", theirs)):
        if np.isinf(row).any():
            raise ValueError(f"the {name} is infinite at index {int(np.argmax(np.isinf(row)))}")
    here = ~(np.isnan(ours) | np.isnan(theirs))
    if not here.any():
        raise ValueError("the two signals have no sample in common")
    scale = float(np.ptp(ours[here]))
    if scale == 0.0:
        warnings.warn(
            f"the signal is constant, {ours[here][0]:g}: its range cannot scale the difference",
            stacklevel=2,
        )
        return float("nan")
    return float(np.sqrt(np.mean((ours[here] - theirs[here]) ** 2))) / scale
