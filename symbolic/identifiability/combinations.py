"""Combinations of unknowns that can be known though the unknowns cannot.

A function f can be known where its gradient vanishes along all silent directions v. Products of
powers have v_i / x_i times the exponents, sums v_i times the factors; what is left is sought among
combinations of monomials. Exponents and factors are null vectors over many points, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, islice
from typing import Protocol

import numpy as np
import sympy as sp

from kinesym.symbolic.identifiability.null import Silent
from kinesym.symbolic.prime_field import Residues, echelon, null_space, product, rank, rational

#: Largest numerator or denominator of a factor or exponent.
_LARGEST = 1000
#: Points more than a relation needs.
_MORE = 6
#: Monomials that are tried, of degrees up to 3: few at first.
_MONOMIALS = (60, 400)
_DEGREE = 3
#: Unknowns of a group at most for which fractions are tried.
_UNDER = 8

Exponents = tuple[int, ...]
Terms = tuple[tuple[Exponents, Fraction], ...]


@dataclass(frozen=True)
class Group:
    """Unknowns that hang together, by number, and what can be known of them.

    freedom : number of directions without effect. combinations : of the unknowns, as expressions;
    fewer than len(unknowns) - freedom where no others were found.
    """

    unknowns: tuple[int, ...]
    freedom: int
    combinations: tuple[sp.Expr, ...]

    @property
    def complete(self) -> bool:
        """Whether everything that can be known of them is in the combinations."""
        return len(self.combinations) == len(self.unknowns) - self.freedom


@dataclass(frozen=True)
class Scaling:
    """Whole weights of members of a group that scale together without effect, and the number of one
    of weight 1, which others are divided by."""

    weights: tuple[int, ...]
    gauge: int

    def without(self, row: Sequence[int]) -> tuple[int, ...]:
        """Weights less so many times these that the gauge has none."""
        return tuple(w - row[self.gauge] * v for w, v in zip(row, self.weights, strict=True))


def groups_of(silent: Silent) -> list[tuple[int, ...]]:
    """Unknowns that silent directions bind to each other, by number."""
    return _connected(silent.basis)


def _connected(rows: Residues) -> list[tuple[int, ...]]:
    """Columns of a matrix in echelon form that rows bind to each other."""
    found: list[set[int]] = []
    for row in rows:
        mine = set(np.flatnonzero(row).tolist())
        apart = [group for group in found if not group & mine]
        found = [*apart, mine.union(*(group for group in found if group & mine))]
    return sorted(tuple(sorted(group)) for group in found)


class Asking(Protocol):
    """Silent directions at points, all modulo the same prime."""

    def points(self, count: int) -> list[Silent]:
        """Silent directions at so many random points."""

    def varied(self, numbers: Sequence[int]) -> list[Silent]:
        """Silent directions at a point, and at others with one of these changed, unknowns and known
        parameters."""


def known_of(
    members: Sequence[int],
    symbols: Sequence[sp.Expr],
    asking: Asking,
    check: Sequence[Silent],
    libraries: int | None = None,
) -> Group:
    """Combinations that can be known of a group of unknowns. symbols : of all unknowns, then of
    parameters that are known. check : points that say whether something holds. libraries : of
    monomials that are searched, all by default."""
    n, freedom = len(members), len(_directions(check[0], members))
    chosen: list[Terms] = []

    def full() -> bool:
        return len(chosen) == n - freedom

    def take(candidates: Iterable[Terms]) -> None:
        for terms in candidates:
            if full():
                return
            new = _independent([*chosen, terms], members, check[0])
            if new and all(holds(terms, one) for one in check):
                chosen.append(terms)

    if not full():
        some = asking.points(n + _MORE)
        take(_products(some, members, len(symbols)))
        take(_sums(some, members, len(symbols)))
    if not full():
        take(_polynomials(asking, members, len(symbols), libraries))
    return Group(tuple(members), freedom, tuple(_written(terms, symbols) for terms in chosen))


def holds(terms: Terms, silent: Silent) -> bool:
    """Whether a combination does not change along silent directions."""
    gradient = _gradient(terms, silent)
    return not product(silent.basis, gradient[:, None], silent.p).any()


def _gradient(terms: Terms, silent: Silent) -> Residues:
    """Gradient of a combination by all unknowns."""
    p, n = silent.p, silent.basis.shape[1]
    values = silent.values.tolist()
    found = [0] * n
    for exponents, factor in terms:
        term = factor.numerator * pow(factor.denominator, -1, p)
        for x, e in zip(values, exponents, strict=True):
            term = term * pow(x, e, p) % p
        for k, e in enumerate(exponents[:n]):
            if e:
                found[k] = (found[k] + term * e * pow(values[k], -1, p)) % p
    return np.array(found, dtype=np.int64)


def _independent(many: Sequence[Terms], members: Sequence[int], silent: Silent) -> bool:
    rows = [_gradient(terms, silent)[list(members)] for terms in many]
    return rank(np.array(rows), silent.p) == len(many)


def _relations(rows: Residues, p: int) -> Iterator[list[Fraction]]:
    """Rational vectors that all rows are orthogonal to, each with one entry that is 1 and no others
    but before it."""
    for row in null_space(rows, p):
        found = [rational(int(v), p) for v in row]
        if all(f is not None and max(abs(f.numerator), f.denominator) <= _LARGEST for f in found):
            yield [f for f in found if f is not None]


def _directions(one: Silent, members: Sequence[int]) -> Residues:
    """Silent directions of a group (freedom, len(members))."""
    rows = one.basis[:, list(members)]
    return rows[rows.any(axis=1)]


def _relative(one: Silent, members: Sequence[int]) -> Residues:
    """Silent directions of a group over values, v_i / x_i."""
    return _directions(one, members) * _inverses(one.values, one.p)[list(members)] % one.p


def _inverses(values: Residues, p: int) -> Residues:
    return np.array([pow(v, -1, p) if v else 0 for v in values.tolist()], dtype=np.int64)


def _products(points: Sequence[Silent], members: Sequence[int], width: int) -> Iterator[Terms]:
    rows = np.concatenate([_relative(one, members) for one in points])
    for vector in _relations(rows, points[0].p):
        scale = np.lcm.reduce([f.denominator for f in vector])
        whole = [int(f * int(scale)) for f in vector]
        first = next(e for e in whole if e)
        sign = int(np.sign(2 * np.sign(whole).sum() + np.sign(first)))  # most stand above
        yield ((_exponents(members, [sign * e for e in whole], width), Fraction(1)),)


def _exponents(members: Sequence[int], powers: Sequence[int], width: int) -> Exponents:
    found = [0] * width
    for k, e in zip(members, powers, strict=True):
        found[k] = e
    return tuple(found)


def _sums(points: Sequence[Silent], members: Sequence[int], width: int) -> Iterator[Terms]:
    rows = np.concatenate([one.basis[:, list(members)] for one in points])
    for vector in _relations(rows, points[0].p):
        pairs = [(k, f) for k, f in zip(members, vector, strict=True) if f]
        yield tuple((_exponents([k], [1], width), f / pairs[0][1]) for k, f in pairs)


def _polynomials(
    asking: Asking, members: Sequence[int], width: int, libraries: int | None
) -> Iterator[Terms]:
    """Combinations of monomials, the simplest first, of unknowns that still hang together after
    those that scale together have been divided by one of these; then divided by any."""
    some = asking.points(len(members) + _MORE)
    scalings = _gauged(some[0], members, list(_scalings(some, members)))
    others = [k for k in range(width) if k not in members]
    first, *changed = (_scaled(one, members, scalings) for one in asking.varied(others))
    matter = [k for k, rows in zip(others, changed, strict=True) if not np.array_equal(rows, first)]
    for inner in _connected(first):
        mine = [members[k] for k in inner]
        for most, under in islice(_libraries(mine, matter), libraries):
            tried = [*islice(_monomials([*mine, *matter], under, members, width, scalings), most)]
            many = asking.points(-(-(len(tried) + _MORE) // len(first)))
            rows = np.concatenate([_slopes(one, members, tried) for one in many])
            for vector in _relations(rows, many[0].p):
                pairs = [(e, f) for e, f in zip(tried, vector, strict=True) if f]
                yield tuple((e, f / pairs[0][1]) for e, f in pairs)


def _libraries(mine: Sequence[int], others: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Numbers of monomials, and what they are divided by: unknowns of a group, or others."""
    few, many = _MONOMIALS
    yield from ((few, ()), (many, ()))
    if len(mine) <= _UNDER:
        for count in (1, 2):
            yield from ((few, under) for under in combinations_with_replacement(mine, count))
        yield from ((many, (under,)) for under in mine)
    if len(others) <= _UNDER:
        yield from ((few, (under,)) for under in others)


def _gauged(one: Silent, members: Sequence[int], weights: Sequence[Sequence[int]]) -> list[Scaling]:
    """Weights with a member of weight 1 each, where the others have 0: that by which most others
    must be divided to be known."""
    left, found = [list(weight) for weight in weights], list[Scaling]()
    while left:
        weight, *left = left
        scalings = [
            Scaling(tuple(w // weight[k] for w in weight), k)
            for k, w in enumerate(weight)
            if abs(w) == 1
        ]
        if not scalings:
            continue

        def unknown(scaling: Scaling) -> int:
            return int(np.count_nonzero(_scaled(one, members, [scaling]).any(axis=0)))

        best = min(scalings, key=unknown)
        rest = [Scaling(best.without(s.weights), s.gauge) for s in found]
        found = [*rest, best]
        left = [list(best.without(row)) for row in left]
    return found


def _scaled(one: Silent, members: Sequence[int], scalings: Sequence[Scaling]) -> Residues:
    """Relative silent directions of members divided by others that scale with them."""
    rows = _relative(one, members)
    for scaling in scalings:
        gauge = rows[:, scaling.gauge, None]
        rows = (rows - gauge * np.array(scaling.weights, dtype=np.int64)) % one.p
    return echelon(rows, one.p)[0]


def _slopes(one: Silent, members: Sequence[int], monomials: Sequence[Exponents]) -> Residues:
    """Derivatives of monomials along the silent directions of a group, (freedom, monomials)."""
    p, inverses = one.p, _inverses(one.values, one.p)
    powers = np.array(monomials, dtype=np.int64)
    terms = np.ones(len(monomials), dtype=np.int64)
    for e in range(1, int(np.abs(powers).max()) + 1):
        for sign, values in ((1, one.values), (-1, inverses)):
            for k in np.flatnonzero((sign * powers >= e).any(axis=0)):
                terms = np.where(sign * powers[:, k] >= e, terms * values[k] % p, terms)
    along = product(_relative(one, members), powers[:, list(members)].T % p, p)
    return along * terms % p


def _scalings(points: Sequence[Silent], members: Sequence[int]) -> Iterator[list[int]]:
    """Whole weights w of silent directions v_i = w_i x_i."""
    rows = [
        null_space(_directions(one, members), one.p) * one.values[list(members)] % one.p
        for one in points
    ]
    for vector in _relations(np.concatenate(rows), points[0].p):
        if all(f.denominator == 1 for f in vector):
            yield [int(f) for f in vector]


def _monomials(
    variables: Sequence[int],
    under: Sequence[int],
    members: Sequence[int],
    width: int,
    scalings: Sequence[Scaling],
) -> Iterator[Exponents]:
    """Monomials of some variables by degree, divided by some of them, and where they scale by
    members of weight 1; those with members of the group."""
    inside, seen = set(members), set[Exponents]()
    for degree in range(_DEGREE + 1):
        for chosen in combinations_with_replacement(variables, degree):
            powers = [chosen.count(k) - under.count(k) for k in range(width)]
            for scaling in scalings:
                total = sum(e * powers[k] for k, e in zip(members, scaling.weights, strict=True))
                powers[members[scaling.gauge]] -= total
            found = tuple(powers)
            if any(powers[k] for k in inside) and found not in seen:
                seen.add(found)
                yield found


def _written(terms: Terms, symbols: Sequence[sp.Expr]) -> sp.Expr:
    rows = (
        sp.Mul(
            sp.Rational(factor.numerator, factor.denominator),
            *(x**e for x, e in zip(symbols, exponents, strict=True)),
        )
        for exponents, factor in terms
    )
    return sp.together(sp.Add(*rows))
