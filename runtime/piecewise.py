"""Inputs that are straight lines between breaks, where they may jump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.arrays import real_array

Array = NDArray[np.float64]

#: Breaks of several inputs that are as close as this are one [s].
TOGETHER = 1e-12


@dataclass(frozen=True, eq=False)
class Piecewise:
    """An input on segments: value + slope (t - begin) from each begin to the next.

    begin : (B,) increasing [s]; the first segment also serves before. value : (B,). slope : (B,),
    0 by default.

    Raises `ValueError` for shapes, what is not finite, and times that do not increase.
    """

    begin: ArrayLike
    value: ArrayLike
    slope: ArrayLike | None = None

    def __post_init__(self) -> None:
        begin = real_array(self.begin, "the begins of an input")
        rows = [
            real_array(self.value, "the values of an input"),
            np.zeros(begin.shape)
            if self.slope is None
            else real_array(self.slope, "the slopes of an input"),
        ]
        if begin.ndim != 1 or not len(begin) or any(row.shape != begin.shape for row in rows):
            shapes = ", ".join(str(row.shape) for row in (begin, *rows))
            raise ValueError(f"begins, values and slopes of an input must be (B,), got {shapes}")
        if not np.isfinite([begin, *rows]).all():
            raise ValueError("begins, values and slopes of an input must be finite")
        _check_increasing(begin)
        for name, row in (("begin", begin), ("value", rows[0]), ("slope", rows[1])):
            object.__setattr__(self, name, row)

    @classmethod
    def samples(cls, time: ArrayLike, values: ArrayLike) -> Piecewise:
        """Straight lines between samples (N,) at increasing times [s], two or more.

        Raises `ValueError` as `Piecewise`.
        """
        at, rows = real_array(time, "the times of an input"), real_array(values, "its samples")
        if at.ndim != 1 or at.shape != rows.shape or len(at) < 2:
            raise ValueError(
                "an input needs two samples or more at as many times, got times "
                f"{at.shape} and samples {rows.shape}"
            )
        _check_increasing(at)
        slope = np.append(np.diff(rows) / np.diff(at), 0.0)
        return cls(at, rows, slope)

    def __call__(self, time: ArrayLike) -> Array:
        """Values at times (n,) [s], at a break those after it."""
        at = real_array(time, "the times at which an input is asked for")
        begin, value, slope = (np.asarray(row) for row in (self.begin, self.value, self.slope))
        k = np.maximum(np.searchsorted(begin, at, side="right") - 1, 0)
        return np.asarray(value[k] + slope[k] * (at - begin[k]))


def _check_increasing(times: Array) -> None:
    if (np.diff(times) <= 0.0).any():
        k = int(np.argmax(np.diff(times) <= 0.0))
        raise ValueError(
            f"breaks of an input must increase; {times[k + 1]:g} s comes after {times[k]:g} s"
        )


@dataclass(frozen=True, eq=False)
class PiecewiseGradient:
    """Derivatives with respect to begin, value and slope of each piece of an input, (B,) each; or
    how these change with something, (B,) or (B, P)."""

    begin: Array
    value: Array
    slope: Array

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """All three."""
        return self.begin, self.value, self.slope


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments that several inputs have in common.

    begin : (S + 1,), with the end [s]. value, slope : (m, S), at the begins. piece : (m, S), of
    each input on its own.
    """

    begin: Array
    value: Array
    slope: Array
    piece: NDArray[np.intp]


def segments(inputs: Mapping[str, Piecewise], begin: float, end: float) -> Segments:
    """Common segments of all inputs between two times [s]."""
    breaks = [np.asarray(course.begin) for course in inputs.values()]
    times = np.concatenate([[begin], *breaks]) if breaks else np.array([begin])
    times = np.unique(times[(times >= begin) & (times < end)])
    keep = np.append(True, np.diff(times) > TOGETHER * np.maximum(1.0, np.abs(times[1:])))
    times = times[keep]
    shape = (len(inputs), len(times))
    values, slopes, pieces = np.empty(shape), np.empty(shape), np.empty(shape, dtype=np.intp)
    for row, course in enumerate(inputs.values()):
        own = np.asarray(course.begin)
        slack = 2.0 * TOGETHER * np.maximum(1.0, np.abs(times))
        k = np.maximum(np.searchsorted(own, times + slack, side="right") - 1, 0)
        pieces[row], slopes[row] = k, np.asarray(course.slope)[k]
        begun = np.append(True, np.diff(k) != 0)
        first = np.maximum.accumulate(np.where(begun, np.arange(len(times)), 0))
        one = np.abs(times[first] - own[k]) <= slack  # begins that are together are one
        since = times - np.where(one, times[first], own[k])
        values[row] = np.asarray(course.value)[k] + slopes[row] * since
    return Segments(np.append(times, end), values, slopes, pieces)
