"""Checks of tables: known variables must stay within the range of a table."""

from __future__ import annotations

from collections.abc import Mapping

from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.names import t
from kinesym.symbolic.table import Tables, titled


def check_known_variables(
    tables: Tables, signals: Mapping[str, Signal], grid: Array, where: str = ""
) -> None:
    """Raise `ValueError` for a table that says nothing where an input, or the time, will be."""
    for e in tables.functions:
        record = e.record
        for axis, x in zip(record.axes, e.variables, strict=True):
            name = str(getattr(x, "name", ""))
            if record.outside != "nan" or (x != t and name not in signals):
                continue
            begin, end = float(grid[0]), float(grid[-1])
            ends = (begin, end) if x == t else signals[name].range(begin, end)
            low, high = (value + 0.0 for value in ends)  # no -0
            if low < axis[0] or high > axis[-1]:
                what = "time" if x == t else f"input {name}"
                raise ValueError(
                    f"{titled(record.name)} says nothing outside of its points, {axis[0]:g} to "
                    f"{axis[-1]:g}, and {what}{where} runs from {low:g} to {high:g}; give points "
                    "up to there, or say what holds outside: outside='linear'"
                )
