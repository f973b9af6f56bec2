"""Bounds that change over time: each side a number, a signal, samples at nodes, or a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import shown
from kinesym.runtime.arrays import Array, located, real_array
from kinesym.runtime.signals.signal import Signal, signal_of, size_words

#: Slopes and values on both sides of a corner differ by more than this share of the largest.
_CORNER = 1e-9
#: Shares of an interval at which bounds of what is constant in it are looked at, and at its end.
_PLACES = (0.0, 0.25, 0.5, 0.75)
#: Shares of an interval this close to its ends are there.
_ROUNDING = 1e-9


def bound_pair(name: str, bound: object) -> tuple[float, float]:
    """(low, high) of a bound given as such, with None for a free side, or as None. Raises
    `ValueError` if it is not a pair, crossed, or nothing finite is between."""
    if bound is None:
        return -np.inf, np.inf
    try:
        below, above = cast(Sequence[Any], bound)
        low = -np.inf if below is None else float(real_array(below, "a bound"))
        high = np.inf if above is None else float(real_array(above, "a bound"))
        if np.isnan(low) or np.isnan(high):
            raise ValueError("NaN is no bound")
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds of {name} must be (low, high) or None, got {bound!r}") from error
    if low > high:
        raise ValueError(f"bounds of {name} are crossed: {low:g} > {high:g}")
    if low == np.inf or high == -np.inf:
        raise ValueError(
            f"bounds of {name}, ({low:g}, {high:g}), leave nothing finite; a free side is None"
        )
    return low, high


def changes(bound: object) -> bool:
    """Whether a bound given as (low, high) changes over time."""
    sides = bound if isinstance(bound, tuple | list | np.ndarray) and len(bound) == 2 else ()
    return any(isinstance(x, Signal) or callable(x) or np.ndim(x) for x in sides)


@dataclass(frozen=True, eq=False)
class Lines:
    """Straight lines through values at times, (N,) each; infinite next to an infinite one."""

    times: Array
    values: Array

    def __call__(self, time: Array) -> Array:
        """Values at times (n,)."""
        k, share = located(self.times, time)
        left, right = self.values[k], self.values[k + 1]
        with np.errstate(invalid="ignore"):
            between = (1.0 - share) * left + share * right
        late = np.where(share > 1.0 - _ROUNDING, right, between)
        return np.asarray(np.where(share < _ROUNDING, left, late))

    @property
    def corners(self) -> Array:
        """Times at which its slope changes."""
        with np.errstate(invalid="ignore"):
            slope = np.diff(self.values) / np.diff(self.times)
        bent = ~np.isclose(slope[:-1], slope[1:], rtol=_CORNER, atol=0.0, equal_nan=True)
        return np.asarray(self.times[1:-1][bent])


Side: TypeAlias = float | Signal | Lines | Callable[[Array], Any]


@dataclass(frozen=True, eq=False)
class Corridor:
    """Bounds of a quantity over time (relative, with an unknown duration); name : in messages."""

    name: str
    low: Side
    high: Side

    @classmethod
    def of(cls, name: str, bound: Any, grid: Array) -> Corridor:
        """Corridor of bounds (low, high) on a grid (N,): each a number, None, (N,), a signal or a
        function of times (n,). Raises `ValueError` for anything else, other sizes, and where the
        bounds are crossed."""
        if not changes(bound):
            return cls(name, *bound_pair(name, bound))
        low, high = bound
        made = cls(
            name,
            _side(low, grid, f"the lower bound of {name}", -np.inf),
            _side(high, grid, f"the upper bound of {name}", np.inf),
        )
        for place in (0.0, 1.0):
            check_order(*made.within(grid, place), partial(made._where, grid, place))
        return made

    def within(self, grid: Array, place: float) -> tuple[Array, Array]:
        """Low and high at a place, a share, of each interval of a grid (N,), (N - 1,) each."""
        low = _within(self.low, grid, place, f"the lower bound of {self.name}")
        return low, _within(self.high, grid, place, f"the upper bound of {self.name}")

    def at_nodes(self, grid: Array, held: bool) -> tuple[Array, Array]:
        """Low and high at the nodes of a grid (N,); the narrower of both sides where they jump, or
        for `held` trajectories the narrowest up to the next node."""
        (low, high), (low_end, high_end) = self.within(grid, 0.0), self.within(grid, 1.0)
        if held:
            rows = [self.within(grid, place) for place in _PLACES]
            near = rows[-1]  # an end next to which it is free is of the next interval
            ends = np.where(np.isinf(near[0]), near[0], low_end)
            lids = np.where(np.isinf(near[1]), near[1], high_end)
            below = np.max([ends, *(row for row, _ in rows)], axis=0)
            above = np.min([lids, *(row for _, row in rows)], axis=0)
            return np.append(below, low_end[-1]), np.append(above, high_end[-1])
        after = np.append(low, low_end[-1]), np.append(high, high_end[-1])
        before = np.append(low[0], low_end), np.append(high[0], high_end)
        return np.maximum(after[0], before[0]), np.minimum(after[1], before[1])

    @property
    def corners(self) -> Array:
        """Times at which a side jumps or bends."""
        lines = [side.corners for side in (self.low, self.high) if isinstance(side, Lines)]
        signals = [_corners(side) for side in (self.low, self.high) if isinstance(side, Signal)]
        return np.unique(np.concatenate([np.zeros(0), *lines, *signals]))

    def _where(self, grid: Array, place: float, k: int) -> str:
        return f"{self.name} at t = {(1.0 - place) * grid[k] + place * grid[k + 1]:g} s"


def corridors(name: str, bound: Any, grid: Array) -> tuple[Corridor, ...]:
    """Corridors of a quantity, given as such, or one as `Corridor.of` takes it."""
    if isinstance(bound, tuple) and bound and isinstance(bound[0], Corridor):
        return bound
    return (Corridor.of(name, bound, grid),)


def check_order(low: Array, high: Array, named: Callable[[int], str]) -> None:
    """Raise `ValueError` where bounds are crossed or leave nothing finite; named : a function that
    names an entry."""
    odd = np.flatnonzero(~((low <= high) & (low < np.inf) & (high > -np.inf)))
    if not len(odd):
        return
    k = int(odd[0])
    what = f"bounds of {named(k)}"
    if low[k] > high[k]:
        raise ValueError(f"{what} are crossed: {low[k]:g} > {high[k]:g}")
    raise ValueError(
        f"{what}, ({low[k]:g}, {high[k]:g}), leave nothing finite; a free side is None or infinite"
    )


def _side(given: Any, grid: Array, what: str, free: float) -> Side:
    if given is None:
        return free
    if isinstance(given, Signal):
        return signal_of(given, grid, what)
    if callable(given):
        return cast(Side, given)
    row = real_array(given, what)
    if row.shape not in ((), grid.shape):
        raise ValueError(
            f"{what} has {size_words(row)}, expected {len(grid)}, one per node, a number, None, a "
            "ks.Signal or a function of time"
        )
    if np.isnan(row).any():
        raise ValueError(f"{what} is NaN{_at(np.isnan(row), grid)}; a free side is infinite")
    return Lines(grid, row) if row.ndim else float(row)


def _corners(signal: Signal) -> Array:
    """Times at which the value of a signal jumps, or its slope."""
    a, b, c, d = signal.coefficients
    last = len(a) - 1 if signal.between in ("held", "pieces") else len(a) - 2
    left, right, h = slice(0, last), slice(1, last + 1), np.diff(signal.begin)[:last]
    ends = a[left] + h * (b[left] + h * (c[left] + h * d[left]))
    rises = h * (b[left] + h * (2.0 * c[left] + 3.0 * h * d[left]))
    after = h * b[right]
    gaps = np.abs(a[right] - ends) + np.abs(after - rises)
    scale = np.abs(a[right]) + np.abs(ends) + np.abs(after) + np.abs(rises)
    return np.asarray(signal.begin[right][gaps > _CORNER * scale])


def _at(odd: NDArray[np.bool_], time: Array) -> str:
    return f" at t = {time[int(np.argmax(odd))]:g} s" if odd.ndim else ""


def _within(side: Side, grid: Array, place: float, what: str) -> Array:
    if isinstance(side, Signal):
        return side.within(grid, place)
    times = (1.0 - place) * grid[:-1] + place * grid[1:]
    if isinstance(side, Lines):
        return side(times)
    if not callable(side):
        return np.full(len(times), side)
    row = real_array(side(times), what)
    if row.shape not in ((), times.shape):
        raise ValueError(
            f"{what} is a function that gives {size_words(row)} for {len(times)} times"
        )
    if np.isnan(row).any():
        raise ValueError(f"{what}, {shown(side)}, is NaN{_at(np.isnan(row), times)}")
    return np.asarray(np.broadcast_to(row, times.shape))
