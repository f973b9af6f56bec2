"""The course of states so far, for delays that look back at it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.runtime.arrays import Array

#: Values before the start at times (1 or M, K), and whether just before (-1) or after (+1) a jump
#: there: (M, K).
Before = Callable[[Array, Array], Array]

#: Equal times differ by their rounding, a share of times beyond 1 s.
_ROUNDING = 1e-12
#: Lengths of neighbouring pieces may differ by so much for a polynomial through both.
_ALIKE = 10.0
#: Nodes by which rates are estimated.
_STENCIL = 5


def slack(time: ArrayLike) -> Array:
    """By how much equal times may differ."""
    return np.asarray(_ROUNDING * np.maximum(1.0, np.abs(time)))


class Past:
    """States (rows, M) from a start on, piece by piece.

    A piece between two nodes is the polynomial of degree 3 that has the values and rates of both
    ends (Hermite). Where the motion is smooth beyond one of them it is of degree 5 and has those of
    the next node, too, so that it is as exact as the steps of methods up to order 6.

    start : [s]. values : (rows, M) there. before : of each row what was before.
    """

    def __init__(self, start: float, values: Array, before: list[Before]) -> None:
        rows, members = values.shape
        self._before = before
        self._time, self._smooth = np.full(64, start), np.zeros(64, dtype=bool)
        self._values, self._rates = np.empty((64, rows, members)), np.empty((2, 64, rows, members))
        self._terms = np.empty((64, 6, rows, members))
        self._values[0], self._rates[:] = values, 0.0
        self._kept = self._nodes = 1

    @property
    def end(self) -> float:
        """Up to when all is kept [s]."""
        return float(self._time[self._kept - 1])

    def put(
        self, nodes: Array, values: Array, rates: Array | None, smooth: NDArray[np.bool_]
    ) -> None:
        """Pieces from the end of what is kept on, in place of others that were put there.

        nodes : (K + 1,), the first one the end of what is kept. values : (K + 1, rows, M). rates :
        (2, K, rows, M) at the begin and the end of each piece; None: by differences. smooth :
        (K,), whether the motion is smooth at the begin of each piece.
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
        self._terms[part] = self._polynomials(first)

    def keep(self) -> None:
        """Keep what was put last."""
        self._kept = self._nodes

    def __call__(self, row: int, time: Array, side: Array) -> Array:
        """A row at times (1 or M, K), as (M, K). side : (K,), +1 for what is just after a break
        that is at this time but for rounding, -1 before. Beyond the end: a straight line."""
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
        """Room for so many nodes."""
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

    def _polynomials(self, first: int) -> Array:
        """Coefficients (K, 6, rows, M) of the pieces from `first` on, of powers of their share."""
        last = self._nodes - 1
        h = np.diff(self._time[first : last + 1])[:, None, None]
        a, end = self._values[first:last], self._values[first + 1 : last + 1]
        b, slope = h * self._rates[0, first:last], h * self._rates[1, first:last]
        d = end - a
        c, cubic = 3.0 * d - 2.0 * b - slope, b + slope - 2.0 * d
        alpha, beta = self._bends(first, h, (a, b, c, cubic))
        found = np.empty((len(h), 6, *a.shape[1:]))
        terms = (a, b, c + alpha, cubic + beta - 2.0 * alpha, alpha - 2.0 * beta, beta)
        for power, row in enumerate(terms):
            found[:, power] = row
        return found

    def _bends(self, first: int, h: Array, terms: tuple[Array, ...]) -> tuple[Array, Array]:
        """alpha, beta of s^2 (1 - s)^2 (alpha + beta s), by which a cubic also has the value and
        the rate of the node before, or of the next but one; 0 where there is none."""
        last, smooth = self._nodes - 1, self._smooth
        if not smooth[first:last].any():
            return np.zeros_like(h), np.zeros_like(h)
        piece = np.arange(first, last)
        lengths = np.diff(self._time[: last + 1])
        before, after = np.maximum(piece - 1, 0), np.minimum(piece + 1, last - 1)
        ratio = lengths[before] / lengths[piece]
        back = (piece > 0) & smooth[piece] & (ratio < _ALIKE) & (ratio * _ALIKE > 1.0)
        other = lengths[after] / lengths[piece]
        ahead = (piece < last - 1) & smooth[after] & (other < _ALIKE) & (other * _ALIKE > 1.0)
        share = np.where(back, -ratio, 1.0 + other)[:, None, None]
        node = np.where(back, before, after + 1)
        value = self._values[node]
        rate = np.where(back[:, None, None], self._rates[0, before], self._rates[1, after])
        a, b, c, d = terms
        off = value - (a + share * (b + share * (c + share * d)))
        turn = h * rate - (b + share * (2.0 * c + 3.0 * share * d))
        weight = share**2 * (1.0 - share) ** 2
        change = 2.0 * share * (1.0 - share) * (1.0 - 2.0 * share)
        level = off / weight
        beta = np.where((back | ahead)[:, None, None], (turn - change * level) / weight, 0.0)
        alpha = np.where((back | ahead)[:, None, None], level - share * beta, 0.0)
        return alpha, beta

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
