"""Shifts by a discretisation error, in units of the shift that matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kinesym.runtime.summary import in_errors

#: Shift of a parameter that matters [standard errors].
STANDARD_ERRORS = 0.5
#: Shift that matters without measurements, as a share of a value, or of the range of a state.
RELATIVE = 1e-3
#: Shift below which it never matters, as a share of a value, even for data without noise.
LEAST = 1e-6


class Shift(NamedTuple):
    """Shift of a quantity in words, in units of the shift that matters, and as a share of its
    value; for an estimate that is not larger than its standard error, as a share of that."""

    words: str
    size: float
    share: float


def in_standard_errors(name: str, shift: float, deviation: float, value: float) -> Shift:
    """Shift of an estimate with a standard error."""
    ratio = abs(shift) / deviation
    size = min(ratio / STANDARD_ERRORS, _share(shift, value) / LEAST)
    share = abs(shift) / max(abs(value), deviation)
    return Shift(f"{name} by {in_errors(format(ratio, '.2g'))}", size, share)


def relative(name: str, shift: float, value: float, of: str) -> Shift:
    """Shift of a quantity relative to its value, or its range."""
    share = _share(shift, value)
    words = f"{name} by {share:.2g} {of}" if np.isfinite(share) else f"{name} from 0 by {shift:.2g}"
    return Shift(words, share / RELATIVE, share)


def worst_of(shifts: Iterable[Shift]) -> Shift:
    """Shift that matters most; NaN in size if there is none."""
    unknown = Shift("", np.nan, np.nan)
    return max(shifts, key=lambda s: np.nan_to_num(s.size, nan=np.inf), default=unknown)


def _share(shift: float, value: float) -> float:
    return abs(shift) / abs(value) if value else (np.inf if shift else 0.0)
