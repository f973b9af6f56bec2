"""Coordinates that are hardly meant as they are given: in degrees, or with the other sign."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Ranges = Mapping[str, tuple[float, float]]

#: Angle of one turn [rad].
TURN = 2.0 * np.pi
#: Angle by which a coordinate may leave its range [rad].
SLACK = 0.1
#: Share of samples out of range above which the sign of a coordinate is doubted.
OUT = 0.3
#: Share of samples out of range with the other sign below which it is.
MIRRORED = 0.1


def doubts(angles: Mapping[str, NDArray[np.float64]], ranges: Ranges) -> str:
    """Doubts about angles (N,) [rad], a sentence with a remedy; "" if there is none.

    ranges : of the model [rad]; angles without one are not looked at.
    """
    known = {name: row for name, row in angles.items() if name in ranges and np.size(row)}
    sizes = {name: float(np.max(np.abs(row))) for name, row in known.items()}
    turns = {n: s for n, s in sizes.items() if s > TURN > max(map(abs, ranges[n])) - SLACK}
    if turns:
        name = max(turns, key=lambda each: turns[each])
        return (
            f"{_range(name, ranges)}, but goes to {turns[name]:.3g}: if angles are in degrees, "
            "hand over np.radians(...), or the table with degrees=True"
        )
    flipped = [n for n, row in known.items() if _out(row, *ranges[n]) > OUT]
    flipped = [n for n in flipped if _out(-known[n], *ranges[n]) < MIRRORED]
    if not flipped:
        return ""
    row = known[flipped[0]]
    more = f", and {', '.join(flipped[1:])} alike" if len(flipped) > 1 else ""
    return (
        f"{_range(flipped[0], ranges)}, but is {np.min(row):.3g} ... {np.max(row):.3g}{more}: if "
        "the motion is of a model with the other sign, hand over minus the column"
    )


def _range(name: str, ranges: Ranges) -> str:
    low, high = ranges[name]
    return f"{name} has the range {low:.3g} ... {high:.3g} rad"


def _out(row: NDArray[np.float64], low: float, high: float) -> float:
    """The share of samples out of a range."""
    return float(np.mean((row < low - SLACK) | (row > high + SLACK)))
