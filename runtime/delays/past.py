"""Past of states, interpolated for delays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.native import pieces

#: History before the start: values (M, K) at times (1 or M, K), for sides (K,) of a jump there:
#: just before it (-1) or after it (+1).
Before = Callable[[Array, Array], Array]

#: Rounding up to which two times are equal [s], as a share of times beyond 1 s.
_ROUNDING = 1e-12
#: Nodes of the stencil by which rates are estimated.
_STENCIL = 5


def slack(time: ArrayLike) -> Array:
    """Tolerance for the equality of times [s]."""
    return np.asarray(_ROUNDING * np.maximum(1.0, np.abs(time)))


class Past:
    """Past of states, (rows, M), from a start on: a piecewise polynomial.

    A piece between two nodes is the cubic Hermite polynomial, with the values and rates of both
    ends. If the motion is smooth beyond one of them it is of degree 5, with those of the next node,
    too, so that it is as exact as the steps of methods up to order 6.

    start : [s]. values : (rows, M) there. before : the history of each row before the start.
    states : the number of the state of each row.
    """

    def __init__(
        self, start: float, values: Array, before: list[Before], states: Sequence[int] = ()
    ) -> None:
        rows, members = values.shape
        self.states = list(states)
        self._before = before
        self._time, self._smooth = np.full(64, start), np.zeros(64, dtype=bool)
        self._values, self._rates = np.empty((64, rows, members)), np.empty((2, 64, rows, members))
        self._terms = np.empty((64, 6, rows, members))
        self._values[0], self._rates[:] = values, 0.0
        self._kept = self._nodes = 1

    @property
    def end(self) -> float:
        """Time up to which all is kept [s]."""
        return float(self._time[self._kept - 1])

    def put(
        self, nodes: Array, values: Array, rates: Array | None, smooth: NDArray[np.bool_]
    ) -> None:
        """Add provisional pieces after the kept ones, in place of earlier provisional ones.

        nodes : (K + 1,), the first one the end of the kept pieces. values : (K + 1, rows, M).
        rates : (2, K, rows, M) at the begin and the end of each piece; None: by differences.
        smooth : (K,), whether the motion is smooth at the begin of each piece.
        """
        first, count = self._kept - 1, len(nodes) - 1
        self._reserve(first + count + 1)
        part = slice(first, first + count)
        self._time[first : first + count + 1] = nodes
        self._values[first : first + count + 1] = values
        self._smooth[part] = smooth
        self._nodes = first + count + 1
        if rates is None:
            rates = self._differences(first)
        self._rates[:, part] = rates
        pieces(self.arrays, first, first + count)

    def keep(self) -> None:
        """Keep the provisional pieces."""
        self._kept = self._nodes

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Times, flags, values, rates and polynomials, see runtime/native/c/delays/delays.h."""
        return self._time, self._smooth, self._values, self._rates, self._terms

    @property
    def rates(self) -> Array:
        """Rates at the begin and the end of each kept piece, (2, pieces, rows, M)."""
        return self._rates[:, : self._kept - 1]

    @property
    def node(self) -> int:
        """Number of the last kept node."""
        return self._kept - 1

    def room(self, smooth: NDArray[np.bool_]) -> None:
        """Reserve space for as many pieces after the kept ones. smooth : as of `put`."""
        self._reserve(self._kept + len(smooth))
        self._smooth[self.node : self.node + len(smooth)] = smooth

    def filled(self, count: int) -> None:
        """Keep `count` pieces whose arrays were filled from outside."""
        self._kept = self._nodes = self._kept + count

    def piece(self, time: float) -> int:
        """Piece that contains a time, the first one for earlier times."""
        found = int(np.searchsorted(self._time[: self._kept], time - slack(time), side="right"))
        return max(found - 1, 0)

    def __call__(self, row: int, time: Array, side: Array) -> Array:
        """Values of a row at times (1 or M, K), as (M, K).

        side : (K,), +1 for the value just after a break at this time up to rounding, -1 before.
        Beyond the end: a straight line.
        """
        at, last = time + side * slack(time), self._nodes - 1
        piece = np.searchsorted(self._time[: last + 1], at, side="right") - 1
        early, late = piece < 0, (piece >= last) & (time > self._time[last])
        piece = np.clip(piece, 0, max(last - 1, 0))
        members = np.arange(self._values.shape[2])[:, None]
        if last:
            begin = self._time[piece]
            s = (time - begin) / (self._time[piece + 1] - begin)
            a, b, c, d, e, f = np.moveaxis(self._terms[piece, :, row, members], -1, 0)
            found = a + s * (b + s * (c + s * (d + s * (e + s * f))))
        else:
            found = np.broadcast_to(self._values[0, row][:, None], (len(members), time.shape[1]))
        if late.any():
            end, slope = self._values[last, row][:, None], self._rates[1, max(last - 1, 0), row]
            line = end + slope[:, None] * (time - self._time[last])
            found = np.where(late, line, found)
        if early.any():
            found = np.where(early, self._before[row](time, side), found)
        return np.asarray(found)

    def with_slope(self, row: int, time: Array) -> tuple[Array, Array]:
        """A row and its rate at times (K,) from the start to the end, (M, K) each."""
        at = self._time[: self._nodes]
        piece = np.clip(np.searchsorted(at, time, side="right") - 1, 0, len(at) - 2)
        h = at[piece + 1] - at[piece]
        s, terms = (time - at[piece]) / h, self._terms[piece, :, row].transpose(1, 2, 0)
        value, slope = terms[5], 5.0 * terms[5]
        for power in range(4, -1, -1):
            value = terms[power] + s * value
            if power:
                slope = power * terms[power] + s * slope
        return value, slope / h

    def _reserve(self, nodes: int) -> None:
        """Reserve arrays for so many nodes."""
        have = len(self._time)
        if nodes <= have:
            return
        more = max(nodes, 2 * have)
        for name in ("_time", "_smooth", "_values", "_terms"):
            old = getattr(self, name)
            new = np.zeros((more, *old.shape[1:]), dtype=old.dtype)
            new[:have] = old
            setattr(self, name, new)
        rates = np.zeros((2, more, *self._rates.shape[2:]))
        rates[:, :have] = self._rates
        self._rates = rates

    def _differences(self, first: int) -> Array:
        """Rates (2, K, rows, M) at both ends of the pieces from `first` on, from values at a few
        nodes between which the motion is smooth."""
        last = self._nodes - 1
        breaks = np.flatnonzero(~self._smooth[:last])
        found = np.empty((2, last - first, *self._values.shape[1:]))
        for side in (0, 1):
            node = np.arange(first, last) + side
            section = np.searchsorted(breaks, node - side, side="right")
            low = breaks[section - 1]
            high = np.append(breaks, last)[section]
            begin = np.clip(node - _STENCIL // 2, low, np.maximum(high - _STENCIL + 1, low))
            size = np.minimum(high - begin + 1, _STENCIL)
            for own in np.unique(size):
                of = np.flatnonzero(size == own)
                places = begin[of, None] + np.arange(own)
                weights = _slopes(self._time[places], self._time[node[of]])
                found[side, of] = np.einsum("kj,kjrm->krm", weights, self._values[places])
        return found


def _slopes(knots: Array, at: Array) -> Array:
    """Weights (K, j) of values at knots (K, j) in the derivative at one of them, (K,)."""
    x = knots - at[:, None]
    found = np.zeros_like(x)
    for j in range(x.shape[1]):
        others = np.delete(x, j, axis=1)
        scale = np.prod(x[:, [j]] - others, axis=1)
        for m in range(others.shape[1]):
            found[:, j] += np.prod(-np.delete(others, m, axis=1), axis=1)
        found[:, j] /= scale
    return found
