"""History of a trial: signals before its start, for delays that reach back there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinesym.base.checks import count, shown
from kinesym.runtime.arrays import Array, one_number
from kinesym.runtime.signals.corridor import bound_pair
from kinesym.runtime.signals.signal import Signal

#: Equal times differ by their rounding, a share of times beyond 1 s.
_ROUNDING = 1e-12
#: Largest number of values of a history: a record could not identify more.
_MOST_VALUES = 10**5


@dataclass(frozen=True)
class UnknownHistory:
    """Unknown history of a signal before the start, in `Experiment(history={...})`. `Collocation`
    estimates it as straight lines between values that lead to the start.

    low, high : bounds of the values, None for free. values : their number, at equal times as far
    back as delays go; None as many as steps of the grid go there, 20 at most. Few values are less
    sensitive to noise. Raises `ValueError` for other objects.
    """

    low: float | None = None
    high: float | None = None
    values: int | None = None

    def __post_init__(self) -> None:
        low, high = bound_pair("ks.UnknownHistory", (self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if self.values is not None:
            count(self.values, "values of ks.UnknownHistory", most=_MOST_VALUES)

    @property
    def bounds(self) -> tuple[float, float]:
        """Infinite where free."""
        return bound_pair("ks.UnknownHistory", (self.low, self.high))


def history_of(given: Mapping[str, Any], start: float) -> dict[str, Signal | UnknownHistory]:
    """The course of each state or input before a start [s], from a number or a signal, or bounds
    where it is unknown.

    Raises `ValueError` for anything else, and for a signal that ends before the start.
    """
    found: dict[str, Signal | UnknownHistory] = {}
    for name, value in given.items():
        what = f"the history of {name}"
        if isinstance(value, UnknownHistory):
            found[name] = value
            continue
        if value is None or isinstance(value, tuple):
            found[name] = UnknownHistory(*bound_pair(what, value))
            continue
        if callable(value) and not isinstance(value, Signal):
            raise ValueError(
                f"{what} is {shown(value)}; give a number, or ks.Signal(times, values, "
                "between='cubic') with samples of it"
            )
        signal: Signal = value
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


def known_history(given: Mapping[str, Signal | UnknownHistory], what: str) -> dict[str, Signal]:
    """Known histories; raises `ValueError` if one is unknown. what : names the function that needs
    them."""
    found = {name: signal for name, signal in given.items() if isinstance(signal, Signal)}
    for name in given:
        if name not in found:
            raise ValueError(
                f"the history of {name} is unknown, and {what} wants a number or a ks.Signal; "
                "ks.Collocation finds it"
            )
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
