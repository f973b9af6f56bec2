"""What was before the start of a trial, for delays that reach back there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinesym.checks import shown
from kinesym.runtime.arrays import Array, one_number
from kinesym.runtime.signals.signal import Signal

#: Equal times differ by their rounding, a share of times beyond 1 s.
_ROUNDING = 1e-12


def history_of(given: Mapping[str, Any], start: float) -> dict[str, Signal]:
    """The course of each state or input before a start [s], from a number or a signal.

    Raises `ValueError` for anything else, and for a signal that ends before the start.
    """
    found = {}
    for name, value in given.items():
        what = f"the history of {name}"
        if callable(value) and not isinstance(value, Signal):
            raise ValueError(
                f"{what} is {shown(value)}; give a number, or ks.Signal(times, values, "
                "between='cubic') with samples of it"
            )
        signal = value
        if not isinstance(value, Signal):
            signal = Signal.pieces([start], [one_number(value, what)])
        if signal.expressions or len(signal.gaps):
            raise ValueError(f"{what} must be known numbers without missing samples")
        if signal.span[0] > start or signal.span[1] < start:
            low, high = signal.span
            raise ValueError(
                f"{what} is known from {low:g} to {high:g} s; a history goes on to the start of "
                f"the trial, t = {start:g} s"
            )
        found[name] = signal
    return found


def derivatives(signal: Signal, time: Array, sides: float | Array = 0.0) -> Array:
    """A signal at times and its first two derivatives there, (3, ...). sides : see
    `Signal.sided`."""
    at = time + sides * _ROUNDING * np.maximum(1.0, np.abs(time))
    k = np.maximum(np.searchsorted(signal.begin, at, side="right") - 1, 0)
    a, b, c, d = signal.coefficients[:, k]
    s = time - signal.begin[k]
    return np.array(
        [a + s * (b + s * (c + s * d)), b + s * (2.0 * c + 3.0 * d * s), 2.0 * c + 6.0 * d * s]
    )
