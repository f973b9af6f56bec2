"""Arrays from users, as float64 numbers: anything else is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base.checks import shown

Array = NDArray[np.float64]

#: Names of the axes of a vector.
AXES = "xyz"

#: Shortest step that counts as one in time [s]: the square of a shorter one may underflow.
SHORTEST = 1e-100
#: Longest step in time [s]: the square of a longer one may overflow.
LONGEST = 1e100

#: Relative distance beyond its span at which a quantity may be evaluated [-]: rounding of grids.
_SLACK = 1e-9

#: Types of what stands for a missing sample.
_NOTHING = ("NoneType", "NAType")

_KINDS = {
    "c": "complex numbers",
    "U": "text",
    "S": "text",
    "M": "dates",
    "m": "time spans",
    "V": "records",
}


def real_array(value: ArrayLike, what: str, missing: bool = False) -> Array:
    """A copy of `value` as float64, of its own shape.

    missing : whether masked entries, None and the NA of pandas become NaN; else they are refused.
    Raises `ValueError` naming `what` for these, complex numbers, text, dates and whatever else is
    no real number.
    """
    array, mask = _array(value, what)
    if mask is not None and not missing:
        raise ValueError(_masked(mask, what))
    if missing and array.dtype == object:
        gone = np.array([type(x).__name__ in _NOTHING for x in array.flat]).reshape(array.shape)
        mask = gone if mask is None else mask | gone
    if array.dtype.kind in _KINDS:
        more = "; give seconds, from one instant on for all" if array.dtype.kind in "Mm" else ""
        raise ValueError(
            f"{what} must be real numbers, got {_KINDS[array.dtype.kind]}, {_some(array)}{more}"
        )
    if array.dtype == object:
        array = _converted(array, mask, what)
    numbers = np.array(array, dtype=np.float64)
    if mask is not None:
        numbers[mask] = np.nan
    return numbers


def one_number(value: ArrayLike, what: str, remedy: str = "") -> float:
    """Check for one finite number; raises `ValueError`, naming `what`, for anything else."""
    try:
        number = real_array(value, what)
    except ValueError as error:
        raise ValueError(f"{error}{remedy}") from error
    if number.ndim or not np.isfinite(number):
        raise ValueError(f"{what} must be one finite number, got {shown(value)}{remedy}")
    return float(number)


def seconds(value: ArrayLike, what: str) -> Array:
    """Times as seconds: numbers are seconds, time spans are converted, dates count from the first.

    Spans and dates are those of NumPy (`timedelta64`, `datetime64`), pandas or Python's `datetime`.
    A missing date (`NaT`) becomes NaN. Raises `ValueError` naming `what` as `real_array`, and for
    spans of unknown length (months, years, no unit) or dates with and without a time zone.
    """
    array, mask = _array(value, what)
    if mask is not None:
        raise ValueError(_masked(mask, what))
    if array.dtype == object and array.size and isinstance(array.flat[0], date | timedelta):
        return _python_seconds(array, what)
    if array.dtype.kind == "M":
        array = array - array.flat[0] if array.size else array.astype("timedelta64[s]")
    if array.dtype.kind != "m":
        return real_array(value, what)
    unit, _ = np.datetime_data(array.dtype)
    if unit in ("generic", "M", "Y"):
        raise ValueError(
            f"{what} has the unit {unit!r}, which is no fixed number of seconds; give seconds"
        )
    return np.array(array / np.timedelta64(1, "s"), dtype=np.float64)


def time_grid(time: ArrayLike) -> Array:
    """Time grid: increasing instants (N,) [s], at least two, from all that `seconds` takes.

    Raises `ValueError` for other shapes, values that are not finite, and instants that do not
    increase.
    """
    grid = seconds(time, "time")
    if grid.ndim != 1 or len(grid) < 2:
        raise ValueError(f"time needs at least 2 instants in one dimension, got {grid.shape}")
    if not np.isfinite(grid).all():
        raise ValueError(f"time is not finite at index {np.argmin(np.isfinite(grid))}")
    with np.errstate(over="ignore"):
        steps = np.diff(grid)
    if (steps <= 0).any():
        k = np.argmax(steps <= 0)
        raise ValueError(
            f"time must increase; step {k} goes from {grid[k]:.10g} to {grid[k + 1]:.10g}: sort "
            "them, and keep one of equal ones"
        )
    odd = (steps < SHORTEST) | (steps > LONGEST)
    if odd.any():
        k = np.argmax(odd)
        raise ValueError(
            f"step {k} of time, from {grid[k]:g} to {grid[k + 1]:g}, is no time in seconds"
        )
    return grid


def check_span(time: Array, span: tuple[float, float], what: str) -> None:
    """Raise `ValueError`, naming `what`, for times (n,) outside of (begin, end) [s], by more than
    the rounding of grids."""
    first, last, (begin, end) = float(np.min(time)), float(np.max(time)), span
    slack = _SLACK * max(1.0, abs(first), abs(last))
    if first < begin - slack or last > end + slack:
        raise ValueError(
            f"{what} is known for {begin:.10g} ... {end:.10g} s, but needed for "
            f"{first:.10g} ... {last:.10g} s"
        )


def located(grid: Array, time: Array) -> tuple[NDArray[np.intp], Array]:
    """Interval of a grid (N,) that each time is in, and the share of it; a node begins one, and
    times beyond are in the first or last one."""
    k = np.clip(np.searchsorted(grid, time, side="right") - 1, 0, len(grid) - 2)
    return k, (time - grid[k]) / (grid[k + 1] - grid[k])


def increasing(rows: Sequence[Any], names: Sequence[str], of: str) -> list[Array]:
    """Rows (B,) of finite numbers, the first of increasing times [s]; raises `ValueError` naming
    them and their owner."""
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    found = [real_array(row, f"the {name} of {of}") for row, name in zip(rows, names, strict=True)]
    shape = found[0].shape
    if len(shape) != 1 or not shape[0] or any(row.shape != shape for row in found):
        shapes = ", ".join(str(row.shape) for row in found)
        raise ValueError(f"{listed} of {of} must be (B,), got {shapes}")
    for row, name in zip(found, names, strict=True):
        if not np.isfinite(row).all():
            k = int(np.argmin(np.isfinite(row)))
            raise ValueError(f"the {name} of {of} must be finite, number {k} is {row[k]}")
    time = found[0]
    if (np.diff(time) <= 0.0).any():
        k = int(np.argmax(np.diff(time) <= 0.0))
        raise ValueError(
            f"{names[0]} of {of} must increase; {time[k + 1]:.10g} s comes after {time[k]:.10g} s: "
            "sort them, and keep one of equal ones"
        )
    return found


def check_finite(
    rows: Array, what: str, time: Array, of: Callable[[int], str] = str, remedy: str = ""
) -> None:
    """Raise `ValueError`, naming `what`, for samples (N,) or (M, N) that are not finite.

    of : says which row it is. remedy : ends the message.
    """
    bad = np.argwhere(~np.isfinite(rows.T))
    if len(bad):
        k, *row = bad[0].tolist()
        which = f" for {of(*row)}" if row else ""
        raise ValueError(
            f"{what}: {len(bad)} values are not finite, the first{which} at index {k} "
            f"(t = {time[k]:.6g} s){remedy}"
        )


def _array(value: Any, what: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """The data and, if anything is masked, where; raises `ValueError` for ragged sequences."""
    try:
        if isinstance(value, list | tuple) and any(map(np.ma.isMaskedArray, value)):
            value = np.ma.array(value)  # np.asarray would drop the masks of the rows
        mask = np.ma.getmaskarray(value) if np.ma.isMaskedArray(value) else None
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{what} must be an array of numbers, got rows of unequal length: {shown(value)}"
        ) from error
    return array, mask if mask is not None and mask.any() else None


def _converted(array: NDArray[Any], mask: NDArray[np.bool_] | None, what: str) -> Array:
    """Objects, one by one; masked ones are passed over."""
    numbers = np.zeros(array.shape)
    for k in np.ndindex(array.shape):
        if mask is not None and mask[k]:
            continue
        entry = array[k]
        try:
            if isinstance(entry, str | bytes):  # float would read it
                raise TypeError
            numbers[k] = entry
        except (TypeError, ValueError, OverflowError) as error:
            where = f" at index {', '.join(map(str, k))}" if k else ""
            raise ValueError(f"{what} must be real numbers, got {shown(entry)}{where}") from error
    return numbers


def _python_seconds(array: NDArray[Any], what: str) -> Array:
    first = array.flat[0]
    try:
        spans = array.flat if isinstance(first, timedelta) else [at - first for at in array.flat]
        return np.array([span.total_seconds() for span in spans]).reshape(array.shape)
    except (TypeError, AttributeError) as error:
        raise ValueError(
            f"{what} must be all dates, with time zones all or none, or all spans; "
            f"the first is {shown(first)}"
        ) from error


def _masked(mask: NDArray[np.bool_], what: str) -> str:
    first = tuple(map(int, np.argwhere(mask)[0]))
    where = f", the first at index {', '.join(map(str, first))}" if mask.ndim else ""
    return (
        f"{what} has {int(mask.sum())} missing (masked) of {mask.size} values{where}; fill "
        "them or leave them out"
    )


def _some(array: NDArray[Any]) -> str:
    return f"the first {shown(array.flat[0])}" if array.size else "none"


def rms(values: ArrayLike) -> float:
    """Root mean square of all values."""
    return float(np.sqrt(np.mean(np.square(values))))


def mean_of_known(rows: Array, axis: int) -> Array:
    """Means along an axis over the values that are not NaN; NaN if there is none, without a
    warning."""
    known = ~np.isnan(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(known, rows, 0.0).sum(axis) / known.sum(axis))
