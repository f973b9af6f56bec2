"""By how much an error shifts something, and from where on that matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kinesym.runtime.summary import in_errors

#: From this share of its standard error on the shift of a parameter matters; without measurements
#: from this share of a value, or of the range of a state.
STANDARD_ERRORS, RELATIVE = 0.5, 1e-3
#: A smaller share of a value never matters, even if the data are without noise.
LEAST = 1e-6


class Shift(NamedTuple):
    """By how much something is shifted, in words, how many times more than matters, and as a share
    of its value; of an estimate that is not larger than its standard error, as a share of that."""

    words: str
    size: float
    share: float


def in_standard_errors(name: str, shift: float, deviation: float, value: float) -> Shift:
    """Of an estimate with a standard error."""
    ratio = abs(shift) / deviation
    size = min(ratio / STANDARD_ERRORS, _share(shift, value) / LEAST)
    share = abs(shift) / max(abs(value), deviation)
    return Shift(f"{name} by {in_errors(format(ratio, '.2g'))}", size, share)


def relative(name: str, shift: float, value: float, of: str) -> Shift:
    """Of what has a value, or a range."""
    share = _share(shift, value)
    words = f"{name} by {share:.2g} {of}" if np.isfinite(share) else f"{name} from 0 by {shift:.2g}"
    return Shift(words, share / RELATIVE, share)


def worst_of(shifts: Iterable[Shift]) -> Shift:
    """The one that matters most; NaN in size if there is none."""
    unknown = Shift("", np.nan, np.nan)
    return max(shifts, key=lambda s: np.nan_to_num(s.size, nan=np.inf), default=unknown)


def _share(shift: float, value: float) -> float:
    return abs(shift) / abs(value) if value else (np.inf if shift else 0.0)
