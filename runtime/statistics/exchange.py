"""Identifiable combinations (k/m, a + b) of parameters that are not identifiable singly.

Along the directions in which unknowns, or their logarithms, change without effect, some
combinations stay constant and are identifiable: powers with small integers as exponents, or sums. A
direction at one point cannot decide which; a long step without effect does.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from kinesym.runtime.arrays import Array
from kinesym.runtime.summary import listed

#: Longest step that is tried, in the logarithm of unknowns (no unit).
_STEP = 0.4
#: Shares of the longest step, in the order in which they are tried if bounds are near.
_SHARES = (1.0, -1.0, 0.3, -0.3)
#: Largest exponent in a product of powers.
_LARGEST = 4
#: Largest factor that is tried to make exponents whole.
_DENOMINATOR = 4
#: Distance from a whole number that is tolerated in an exponent.
_OFF = 0.02
#: Rise of -2 log L that counts as none.
_SAME = 1e-3
#: Rise of -2 log L that counts as none, as a share of the squares of all measurements: rounding.
_PRECISE = 1e-8
#: Names in a sentence at most.
_MOST = 8
#: Share of the largest change of an unknown along a direction that counts as none.
_NONE = 1e-3


@dataclass(frozen=True, eq=False)
class Exchange:
    """Unknowns that are not identifiable singly: names, values (n,), and directions (n, m) of
    changes without effect, the clearest first; bounds of the unknowns."""

    names: Sequence[str]
    values: Array
    directions: Array
    bounds: tuple[Array, Array]

    @property
    def moving(self) -> NDArray[np.intp]:
        """Indices of the unknowns that change along some direction."""
        share = np.abs(self.directions) / _sizes(self.values)[:, None]
        return np.flatnonzero((share > _NONE * share.max(axis=0)).any(axis=1))

    def taken(self, which: NDArray[np.intp]) -> Exchange:
        """Exchange restricted to some unknowns."""
        names, (low, high) = [self.names[k] for k in which], self.bounds
        mine = self.values[which], self.directions[which]
        return Exchange(names, *mine, (low[which], high[which]))


@dataclass(frozen=True)
class KnownAs:
    """Identifiable combinations of a group of unknowns. remarks : one for each unknown, by name.
    sentence : on the group. exact : whether a long step has confirmed it."""

    remarks: dict[str, str]
    sentence: str
    exact: bool = True


def known_as(
    exchange: Exchange,
    rise: Callable[[NDArray[np.intp], Array], float],
    variance: float,
    squares: float,
) -> list[KnownAs]:
    """Identifiable combinations of unknowns that change along directions, group by group of those
    that have to do with each other.

    rise(which, values) : of J with some of the unknowns held at values, all else following;
    infinite or NaN where there is no minimum. variance, squares : see `unchanged`.
    """
    which = exchange.moving

    def same(values: Array) -> bool:
        return unchanged(rise(which, values), variance, squares)

    return _known_as(exchange.taken(which), same)


def _known_as(exchange: Exchange, same: Callable[[Array], bool]) -> list[KnownAs]:
    """Identifiable combinations of unknowns that all change. same(values) : whether the record is
    explained as well with them held there."""
    if exchange.directions.shape[1] == len(exchange.names):
        return _groups(exchange, np.zeros((0, len(exchange.names))), [])
    relative = exchange.directions / np.where(exchange.values, exchange.values, 1.0)[:, None]
    every = zip(_combinations(relative), _combinations(exchange.directions), strict=True)
    for of_logarithms, sums in every:  # the last directions may be rounding
        found = _exactly(exchange, of_logarithms, sums, same)
        if found is not None:
            return found
    return [_to_first_order(exchange, exchange.directions)]


def _exactly(
    exchange: Exchange, of_logarithms: Array, sums: Array, same: Callable[[Array], bool]
) -> list[KnownAs] | None:
    """Identifiable powers or sums that a long step confirms, None if it confirms neither;
    of_logarithms, sums : invariant combinations, see `_combinations`."""
    powers = _whole(of_logarithms) if exchange.values.all() else None
    if powers is not None and _holds(exchange, null_space(powers), same, logarithms=True):
        return _groups(exchange, powers, [_power(row, exchange.names) for row in powers])
    if _holds(exchange, null_space(sums), same, logarithms=False):
        return _groups(exchange, sums, [_sum(row, exchange.names) for row in sums])
    return None


def _basis(directions: Array) -> Array:
    """Orthonormal basis of directions (n, m), cleaned of rounding."""
    clean = directions / np.abs(directions).max(axis=0)
    return np.linalg.qr(np.where(np.abs(clean) < _NONE, 0.0, clean)).Q


def _combinations(directions: Array) -> Iterator[Array]:
    """Invariant combinations of unknowns along all directions (n, m), then along one less, to the
    first: rows (n - m, n) orthogonal to them, in reduced echelon form (each has a 1 where all
    others have a 0)."""
    basis = _basis(directions)
    rows, ones = np.zeros((0, len(basis))), list[int]()
    for row in null_space(basis.T).T:
        rows, ones = _with_row(rows, ones, row)
    yield np.where(np.abs(rows) < _NONE, 0.0, rows)
    for row in basis.T[:0:-1]:
        rows, ones = _with_row(rows, ones, row)
        yield np.where(np.abs(rows) < _NONE, 0.0, rows)


def _with_row(rows: Array, ones: list[int], row: Array) -> tuple[Array, list[int]]:
    """Echelon form with one row more, a unit vector orthogonal to the others; ones : the columns,
    increasing, in which the rows have their ones."""
    row = row - row[ones] @ rows
    one = int(np.argmax(np.abs(row) >= _NONE))
    row = row / row[one]
    place = bisect(ones, one)
    rows = np.insert(rows - np.outer(rows[:, one], row), place, row, axis=0)
    return rows, [*ones[:place], one, *ones[place:]]


def _whole(rows: Array) -> Array | None:
    """Rows scaled to small integers, None if that is not possible."""
    made = []
    for row in rows:
        for factor in range(1, _DENOMINATOR + 1):
            whole = np.round(factor * row)
            if np.abs(factor * row - whole).max() <= _OFF and np.abs(whole).max() <= _LARGEST:
                made.append(whole)
                break
        else:
            return None
    return np.array(made).reshape(rows.shape)


def _holds(
    exchange: Exchange, free: Array, same: Callable[[Array], bool], logarithms: bool
) -> bool:
    """Whether a long step along all directions (n, m) at once changes nothing."""
    values, (low, high) = exchange.values, exchange.bounds
    way = free @ (1.0 + 0.3 * np.arange(free.shape[1]))
    if not logarithms:
        way = way / np.abs(way / _sizes(values)).max()
    for share in _SHARES:
        step = share * _STEP * way
        far = values * np.exp(step / np.abs(way).max())
        moved = far if logarithms else values + step
        if (low <= moved).all() and (moved <= high).all():
            return same(moved)
    return False


def _groups(exchange: Exchange, rows: Array, words: Sequence[str]) -> list[KnownAs]:
    """Groups of unknowns that have combinations in common; unknowns in none are in no group."""
    names, left, found = exchange.names, list(range(len(rows))), []
    used = np.abs(rows).sum(axis=0) > 0.0
    silent = [name for name, here in zip(names, used, strict=True) if not here]
    for name in silent:
        sentence = f"{name} is not identifiable from this record; fix it"
        found.append(KnownAs({name: "not identifiable"}, sentence, exact=False))
    while left:
        mine = [left.pop(0)]
        members = rows[mine[0]] != 0.0
        while more := [k for k in left if (members & (rows[k] != 0.0)).any()]:
            mine += more
            left = [k for k in left if k not in more]
            members = members | (rows[more] != 0.0).any(axis=0)
        inside = [name for name, member in zip(names, members, strict=True) if member]
        if len(inside) > len(mine):
            found.append(known_only_as(inside, [words[k] for k in sorted(mine)]))
    return found


def known_only_as(names: Sequence[str], words: Sequence[str]) -> KnownAs:
    """Knowledge of a group of unknowns: combinations, in words."""
    only, count = _and(words), len(names) - len(words)
    fix = "one" if count == 1 else str(count)
    sentence = f"{_and(names)} are not identifiable together, only as {only}; fix {fix} of them"
    return KnownAs(dict.fromkeys(names, f"known only as {only}"), sentence)


def _and(words: Sequence[str]) -> str:
    """List of words such as "k, m and c", shortened if it is long."""
    if len(words) == 1 or len(words) > _MOST:
        return listed(words, _MOST)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _to_first_order(exchange: Exchange, directions: Array) -> KnownAs:
    """Exchangeable unknowns in words, by their directions only."""
    parts = []
    for way in directions.T:
        share = np.abs(way) / _sizes(exchange.values)
        which = np.flatnonzero(share > _NONE * share.max()).tolist()
        unit = way / way[which[0]]
        terms = [f"{unit[k]:.3g} {exchange.names[k]}" for k in which]
        parts.append(" with ".join(terms))
    sentence = (
        f"{_and(exchange.names)} are not identifiable together: {_and(parts)} can be exchanged; "
        f"fix {'one' if len(parts) == 1 else len(parts)} of them"
    )
    return KnownAs(dict.fromkeys(exchange.names, "not identifiable"), sentence, exact=False)


def _sizes(values: Array) -> Array:
    """Sizes of values, 1 for zeros."""
    return np.abs(np.where(values == 0.0, 1.0, values))


def unchanged(rise: float, variance: float, squares: float) -> bool:
    """Whether a rise of J is negligible, so that the record is explained as well. squares : sum of
    all squared measurements over their variance."""
    return bool(rise <= (_SAME + _PRECISE * squares) * variance)


def _power(row: Array, names: Sequence[str]) -> str:
    """Product of powers as text, such as k/m, a^2*b, k/(m*c)."""
    above = [_factor(n, e) for n, e in zip(names, row, strict=True) if e > 0.0]
    below = [_factor(n, -e) for n, e in zip(names, row, strict=True) if e < 0.0]
    under = f"({'*'.join(below)})" if len(below) > 1 else "".join(below)
    return "*".join(above) + (f"/{under}" if below else "")


def _factor(name: str, exponent: float) -> str:
    return name if exponent == 1.0 else f"{name}^{exponent:g}"


def _sum(row: Array, names: Sequence[str]) -> str:
    """Weighted sum as text, such as a + b, a - 2.5*b."""
    made = ""
    for name, factor in zip(names, row, strict=True):
        if factor != 0.0:
            size = f"{abs(factor):.3g}"
            term = name if size == "1" else f"{size}*{name}"
            sign = " - " if factor < 0.0 else " + "
            made += term if not made else sign + term
    return made
