"""Places of the outputs of kernel calls: tables of `ks_place`, see kinesym.h."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.native import PLACE, SET

#: One place per output, dtype `PLACE`.
Places = NDArray[np.void]


def places(size: int, **fields: Any) -> Places:
    """`size` places with the given `fields`: by default contiguous runs that are set, from point 0
    on, and not shared."""
    made = np.zeros(size, PLACE)
    values = {"members": 1, "other": -1, "late": -1, "mode": SET, **fields}
    for name, value in values.items():
        made[name] = value
    return made


def rows(n_out: int, n: int, base: int = 0) -> Places:
    """The rows of an array (n_out, n)."""
    return places(n_out, base=base + n * np.arange(n_out), count=n)
