"""Times at which expressions of time and parameters jump or bend: roots of their guards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.signal import Signal
from kinesym.symbolic.jumps import Switch, Switched
from kinesym.symbolic.names import name_of, t

#: Most jumps in one run: more are a mistake, or an average is meant.
MOST = 200_000
#: Points at which a switching function that is not linear is evaluated before roots are refined.
_LOOKS = 8192
#: Least number of these points between two jumps of earlier switches.
_LEAST = 16
#: Extremum of a guard beyond the middle of three values, at most, in their largest difference.
_BEYOND = 16.0
#: Secant steps to a root.
_SECANTS = 5


def signals(
    found: Switched, parameters: Mapping[str, float], span: tuple[float, float]
) -> dict[str, Signal]:
    """Signals of the switches whose guards depend on time and parameters, by name: values that are
    held from one jump to the next."""
    numbers: dict[sp.Basic, Any] = {p: parameters[name_of(p)] for p in found.model.parameters}
    courses: dict[sp.Basic, tuple[Array, Array]] = {}
    for switch in found.switches:
        courses[switch.symbol] = _course(found, switch, numbers, span, courses)
    return {
        name_of(symbol): Signal(begins, values, between="held")
        if len(begins) > 1
        else Signal.pieces(begins, values)
        for symbol, (begins, values) in courses.items()
    }


def _course(
    found: Switched,
    switch: Switch,
    numbers: Mapping[sp.Basic, Any],
    span: tuple[float, float],
    earlier: Mapping[sp.Basic, tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Times at which a switch has a new value, from the start on, and these values."""
    inner = [begins[1:] for begins, _ in earlier.values()]
    edges = np.unique(np.concatenate([span, *inner]))

    def guard(time: Array) -> Array:
        """At times, each with what is held in its piece."""
        piece = np.clip(np.searchsorted(edges, time.mean(axis=-1), side="right") - 1, 0, None)
        middle = 0.5 * (edges[piece] + edges[np.minimum(piece + 1, len(edges) - 1)])
        held = {
            symbol: values[np.searchsorted(begins, middle, side="right") - 1][:, None]
            for symbol, (begins, values) in earlier.items()
        }
        return found.guard(switch, {**numbers, t: time}, held) + 0.0 * time

    parts = 1 if _straight(found, switch) else max(_LEAST, _LOOKS // (len(edges) - 1))
    time = edges[:-1, None] + np.linspace(0.0, 1.0, parts + 1) * np.diff(edges)[:, None]
    time[:, -1] = edges[1:]
    s = guard(time)
    if parts > 1:
        time, s = _with_extrema(switch, time, s, guard)
    roots = _roots(switch, time, s, guard)
    cuts = np.unique(np.concatenate([edges, roots]))
    middle = 0.5 * (cuts[:-1] + cuts[1:])
    values = switch.value(guard(middle[:, None])[:, 0])
    new = np.append(True, values[1:] != values[:-1])
    return cuts[:-1][new], values[new]


@lru_cache(maxsize=256)
def _straight(found: Switched, switch: Switch) -> bool:
    """Whether a guard is a straight line of time, what is held aside."""
    if switch.guard.atoms(sp.Symbol) & {symbol for symbol, _ in found.model.intermediates}:
        return False
    bare = switch.guard.xreplace({s.symbol: sp.Dummy() for s in found.switches})
    return bool(bare.is_polynomial(t) and sp.degree(bare, t) <= 1)


def _with_extrema(switch: Switch, time: Array, s: Array, guard: Any) -> tuple[Array, Array]:
    """Times (pieces, looks) with the places of the extrema that are seen between them, where the
    switch may change, and the guard there."""
    left, middle, right = s[:, :-2], s[:, 1:-1], s[:, 2:]
    piece, k = np.nonzero((middle - left) * (right - middle) <= 0.0)
    left, middle, right = left[piece, k], middle[piece, k], right[piece, k]
    up = np.where(middle >= left, 1.0, -1.0)
    far = middle + up * _BEYOND * np.maximum(np.abs(middle - left), np.abs(right - middle))
    changes = switch.value(far) != switch.value(middle)
    piece, k, up = piece[changes], k[changes], up[changes]
    if not len(piece):
        return time, s
    a, b = time[piece, k], time[piece, k + 2]
    share = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(60):  # by the golden section
        c, d = b - share * (b - a), a + share * (b - a)
        low, high = up * guard(c[:, None])[:, 0], up * guard(d[:, None])[:, 0]
        a, b = np.where(low > high, a, c), np.where(low > high, d, b)
    more = np.repeat(time[:, -1:], int(np.bincount(piece).max()), axis=1)
    place = np.arange(len(piece)) - np.searchsorted(piece, piece)
    more[piece, place] = 0.5 * (a + b)
    every = np.sort(np.concatenate([time, more], axis=1), axis=1)
    return every, guard(every)


def _roots(switch: Switch, time: Array, s: Array, guard: Any) -> Array:
    """Times at which the guard, s at these, passes a point where the switch changes."""
    value = switch.value(s)
    changed = np.isfinite(s[:, :-1]) & np.isfinite(s[:, 1:]) & (value[:, :-1] != value[:, 1:])
    piece, k = np.nonzero(changed)
    first, last = s[piece, k], s[piece, k + 1]
    count = np.abs(value[piece, k + 1] - value[piece, k]).sum()
    if count > MOST:
        raise ValueError(
            f"{switch.said} some {count:.2g} times between t = {time[0, 0]:g} and "
            f"{time[-1, -1]:g} s, of which each would be the end of a step: simulate less time, or "
            "write its average instead"
        )
    low, high = np.minimum(first, last), np.maximum(first, last)
    found = [switch.thresholds(*pair) for pair in zip(low, high, strict=True)]
    which = np.repeat(np.arange(len(found)), [len(row) for row in found])
    level = np.concatenate([np.zeros(0), *found])
    a, b = time[piece, k][which], time[piece, k + 1][which]
    rises = (last > first)[which]

    def beyond(at: Array) -> NDArray[np.bool_]:
        """Whether the guard has passed the level."""
        return np.asarray((guard(at[:, None])[:, 0] >= level) == rises)

    near = _by_secants(a, b, first[which] - level, last[which] - level, level, guard)
    little = 1e-14 * np.maximum(np.abs(a), np.abs(b))
    low, high = np.maximum(a, near - little), np.minimum(b, near + little)
    straight = beyond(high) & ~beyond(low)  # nothing else is left to find
    a, b = np.where(straight, low, a), np.where(straight, high, b)
    while (np.nextafter(a, b) < b).any():
        middle = 0.5 * (a + b)
        passed = beyond(middle)
        a, b = np.where(passed, a, middle), np.where(passed, middle, b)
    ends = time[:, [0, -1]].ravel()
    touched = time[:, 1:-1][(value[:, 1:-1] != value[:, :-2])]
    return np.concatenate([b, ends, touched])


def _by_secants(a: Array, b: Array, begin: Array, end: Array, level: Array, guard: Any) -> Array:
    """Times within (a, b), where the guard less the level is `begin` and `end`, near its roots."""
    before, at, value, now = a, b, begin, end
    for _ in range(_SECANTS):
        with np.errstate(all="ignore"):
            found = at - now * (at - before) / (now - value)
        found = np.clip(np.where(np.isfinite(found), found, at), a, b)
        if (np.abs(found - at) <= np.spacing(np.abs(at))).all():
            break
        before, at, value = at, found, now
        now = guard(at[:, None])[:, 0] - level
    return at
