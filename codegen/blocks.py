"""Diagonal blocks of M x' = b, solved on the graph: no branches, and no wrong number.

Every solution is NaN where a pivot is too small for its digits to mean anything.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence, Set
from fractions import Fraction
from typing import Protocol

from kinesym.codegen.graph import Graph

#: Entries by row and column; both are called by the number of the column.
Rows = Mapping[int, Mapping[int, int]]

#: A pivot smaller than this, relative to what it is the difference of, has too few digits left.
SMALL = 1e-13

#: Rows up to which a block that is not symmetric is solved with row exchanges: operations grow with
#: the cube, and 16 rows take about 10,000.
MOST_ROWS = 16

_PRIME = (1 << 61) - 1


class NotExplicit(ValueError):
    """The residual cannot be solved for x'."""


class Block(Protocol):
    """Protocol of a diagonal block."""

    order: list[int]

    def solve(self, side: Mapping[int, int]) -> dict[int, int]:
        """The solution for the entries of `side` that are not identically zero."""

    def program(self, sides: Rows) -> tuple[dict[int, dict[int, int]], list[tuple[int, int, int]]]:
        """The solution for many right-hand sides at once: new sides, and the steps that remain;
        see `codegen.solve.Linearised`."""


def block_of(g: Graph, rows: Rows, names: Sequence[str]) -> Block:
    """The way to solve a block: closed form, symmetric elimination, or with row exchanges."""
    n = len(rows)
    if n == 1:
        return Ordered(g, rows, names)
    symmetric = n > 2 and is_symmetric(g, rows) and all(k in rows[k] for k in rows)
    if symmetric or n > MOST_ROWS:
        return Ordered(g, rows, names)
    return Exchanged(g, rows, names)


def noted(g: Graph, safe: int, value: int, names: Sequence[str], columns: Sequence[int]) -> int:
    """`value` where `safe` holds, else NaN, with the reason for whoever looks for it.

    Raises `NotExplicit` where it never holds.
    """
    among = ", ".join(f"{names[k]}'" for k in columns)
    if safe == g.zero:
        raise NotExplicit(f"the equations do not determine {among}; their mass matrix is singular")
    node = g.select(safe, value, g.const(math.nan))
    for place in (value, node):
        g.note.setdefault(
            place,
            f"the equations do not determine {among} here: their mass matrix "
            "is singular, or symmetric and not definite",
        )
    return node


# -- symmetric, or of one row --------------------------------------------------------------------


class Ordered:
    """L U in an order that keeps fill low, without exchanges.

    Stable if the block is symmetric and definite, which shows in the signs of the pivots; what is
    symmetric stays symmetric and is computed once. Of other blocks, too large for exchanges, no
    pivot may be much smaller than the rest of its column.
    """

    def __init__(self, g: Graph, rows: Rows, names: Sequence[str]) -> None:
        self._graph, self._names = g, names
        self._symmetric = all(k in rows[k] for k in rows) and is_symmetric(g, rows)
        left, work = list(rows), {i: dict(row) for i, row in rows.items()}
        if self._symmetric:
            for i, row in work.items():
                row.update({j: rows[min(i, j)][max(i, j)] for j in row})
        self._original = {k: work[k].get(k, g.zero) for k in left}
        self._reactions = {k for k in left if self._original[k] == g.zero}
        self.order: list[int] = []
        self._inverse: dict[int, int] = {}
        self._lower: list[tuple[int, int, int]] = []  # (row, pivot, factor), in order
        self._upper: dict[int, dict[int, int]] = {}
        self._first = g.zero  # the first pivot of a symmetric block
        while left:
            pivot = _next_pivot(work, left, self._reactions)
            left.remove(pivot)
            self.order.append(pivot)
            self._eliminate(work, left, pivot)

    def _eliminate(self, rows: dict[int, dict[int, int]], left: list[int], pivot: int) -> None:
        g, top = self._graph, rows.pop(pivot)
        diagonal = top.pop(pivot, g.zero)
        column = [rows[i][pivot] for i in left if pivot in rows[i]]
        inverse = self._inverse[pivot] = self._guarded(pivot, diagonal, column)
        self._upper[pivot] = top
        rank = {k: place for place, k in enumerate(left)}
        for i in left:
            if pivot not in rows[i]:
                continue
            factor = g.mul(rows[i].pop(pivot), inverse)
            self._lower.append((i, pivot, factor))
            for j, node in top.items():
                if self._symmetric and rank[j] < rank[i]:
                    rows[i][j] = rows[j][i]
                else:
                    rows[i][j] = g.sub(rows[i].get(j, g.zero), g.mul(factor, node))

    def _guarded(self, pivot: int, diagonal: int, column: Sequence[int]) -> int:
        """1 / pivot where it can be trusted."""
        g, safe = self._graph, self._graph.one
        if diagonal == g.zero:
            safe = g.zero
        elif len(self.order) == 1 and (self._symmetric or not column):
            self._first = diagonal
        elif self._symmetric:
            rest = g.sub(diagonal, g.mul(g.const(SMALL), self._original[pivot]))
            safe = g.binary("lt", g.zero, g.mul(self._first, rest))  # of the sign of the first
        else:
            largest = _largest(g, [self._original[pivot], *column])
            safe = g.binary("lt", g.mul(g.const(1e-6), largest), g.function("abs", diagonal))
        return noted(g, safe, g.inv(diagonal), self._names, list(self._original))

    def solve(self, side: Mapping[int, int]) -> dict[int, int]:
        """See `Block`."""
        g, x = self._graph, dict(side)
        for i, pivot, factor in self._lower:
            if pivot in x:
                x[i] = g.sub(x.get(i, g.zero), g.mul(factor, x[pivot]))
        for k in reversed(self.order):
            later = [g.mul(node, x[j]) for j, node in self._upper[k].items() if j in x]
            value = g.mul(g.sub(x.get(k, g.zero), g.sum(later)), self._inverse[k])
            if value != g.zero:
                x[k] = value
            else:
                x.pop(k, None)
        return x

    def program(self, sides: Rows) -> tuple[dict[int, dict[int, int]], list[tuple[int, int, int]]]:
        """See `Block`: the sides as they are, elimination and substitution in steps."""
        found = list(self._lower)
        for k in reversed(self.order):
            found += [(k, j, node) for j, node in self._upper[k].items()]
            found.append((k, k, self._inverse[k]))
        return {k: dict(row) for k, row in sides.items()}, found


def _next_pivot(rows: Rows, left: Sequence[int], reactions: Set[int]) -> int:
    """The diagonal entry whose elimination can fill least (Markowitz); the first of equals.

    reactions : those without a diagonal entry of their own. They wait for all masses that they act
    on: what a part of these has made of their entries can be zero in some positions.
    """

    def fill(k: int) -> int:
        column = sum(k in rows[i] for i in left)
        return (len(rows[k]) - 1) * (column - 1)

    found = [k for k in left if k in rows[k]]
    ready = [k for k in found if k not in reactions or rows[k].keys() & {*left} <= reactions]
    return min(ready or found, key=fill, default=left[0])


# -- any other -----------------------------------------------------------------------------------


class Exchanged:
    """Elimination with row exchanges chosen by selects; two rows in closed form."""

    def __init__(self, g: Graph, rows: Rows, names: Sequence[str]) -> None:
        self._graph, self._names = g, names
        self.order = list(rows)
        self._matrix = [[rows[i].get(j, g.zero) for j in self.order] for i in self.order]

    def solve(self, side: Mapping[int, int]) -> dict[int, int]:
        """See `Block`."""
        g = self._graph
        columns = self._solved([[side.get(k, g.zero)] for k in self.order])
        found = {k: row[0] for k, row in zip(self.order, columns, strict=True)}
        return {k: node for k, node in found.items() if node != g.zero}

    def program(self, sides: Rows) -> tuple[dict[int, dict[int, int]], list[tuple[int, int, int]]]:
        """See `Block`: the sides times the inverse, and no steps."""
        g, n = self._graph, len(self.order)
        inverse = self._solved([[g.one if i == j else g.zero for j in range(n)] for i in range(n)])
        keys = dict.fromkeys(key for k in self.order for key in sides.get(k, {}))
        found: dict[int, dict[int, int]] = {}
        for k, row in zip(self.order, inverse, strict=True):
            sums = {
                key: g.sum(
                    [
                        g.mul(node, sides[j][key])
                        for j, node in zip(self.order, row, strict=True)
                        if key in sides.get(j, {})
                    ]
                )
                for key in keys
            }
            found[k] = {key: node for key, node in sums.items() if node != g.zero}
        return found, []

    def _solved(self, B: list[list[int]]) -> list[list[int]]:
        return self._two(B) if len(self.order) == 2 else self._many(B)

    def _two(self, B: list[list[int]]) -> list[list[int]]:
        """Cramer's rule, which is as accurate as elimination for two rows, and whose digits do not
        depend on the units of rows and columns."""
        g, ((a, b), (c, d)) = self._graph, self._matrix
        first = g.mul(a, d)
        det = g.sub(first, g.mul(b, c))
        inverse = g.inv(det)
        if g.zero not in (first, g.mul(b, c)):
            size = g.mul(g.const(SMALL), g.function("abs", first))
            safe = g.binary("lt", size, g.function("abs", det))
        else:
            safe = g.zero if det == g.zero else g.one
        inverse = noted(g, safe, inverse, self._names, self.order)
        p, q = B
        above = [g.mul(g.sub(g.mul(d, x), g.mul(b, y)), inverse) for x, y in zip(p, q, strict=True)]
        below = [g.mul(g.sub(g.mul(a, y), g.mul(c, x)), inverse) for x, y in zip(p, q, strict=True)]
        return [above, below]

    def _many(self, B: list[list[int]]) -> list[list[int]]:
        """Gaussian elimination of rows scaled to a largest entry of 1, the largest pivot first.

        What an entry is the difference of is known by the sum of its terms' magnitudes.
        """
        g, n = self._graph, len(self.order)
        rows, terms = [], []
        for row, right in zip(self._matrix, B, strict=True):
            scale = g.inv(_largest(g, row))
            rows.append([g.mul(scale, node) for node in (*row, *right)])
            terms.append([g.function("abs", node) for node in rows[-1][:n]])
        inverse: list[int] = []
        for k in range(n):
            for i in range(k + 1, n):
                self._exchange(rows, terms, k, i)
            size = g.mul(g.const(SMALL), terms[k][k])
            safe = g.binary("lt", size, g.function("abs", rows[k][k]))
            inverse.append(noted(g, safe, g.inv(rows[k][k]), self._names, self.order))
            for i in range(k + 1, n):
                factor = g.mul(rows[i][k], inverse[k])
                for j in range(k + 1, len(rows[k])):
                    carried = g.mul(factor, rows[k][j])
                    rows[i][j] = g.sub(rows[i][j], carried)
                    if j < n:
                        terms[i][j] = g.add(terms[i][j], g.function("abs", carried))
        found: list[list[int]] = [[] for _ in range(n)]
        for k in range(n - 1, -1, -1):
            found[k] = [
                g.mul(
                    inverse[k],
                    g.sub(right, g.sum([g.mul(rows[k][j], found[j][c]) for j in range(k + 1, n)])),
                )
                for c, right in enumerate(rows[k][n:])
            ]
        return found

    def _exchange(self, rows: list[list[int]], terms: list[list[int]], k: int, i: int) -> None:
        """Rows k and i change places where that makes the pivot larger."""
        g = self._graph
        if rows[i][k] == g.zero:
            return
        larger = g.binary("lt", g.function("abs", rows[k][k]), g.function("abs", rows[i][k]))
        for table in (rows, terms):
            for j in range(k, len(table[k])):
                x, y = table[k][j], table[i][j]
                table[k][j], table[i][j] = g.select(larger, y, x), g.select(larger, x, y)


def _largest(g: Graph, nodes: Sequence[int]) -> int:
    """The largest magnitude of nodes."""
    sizes = [g.function("abs", node) for node in nodes if node != g.zero]
    largest = sizes[0] if sizes else g.zero
    for size in sizes[1:]:
        largest = g.binary("max", largest, size)
    return largest


# -- symmetry ------------------------------------------------------------------------------------


def is_symmetric(g: Graph, rows: Rows) -> bool:
    """Whether M_ij and M_ji are the same by the rules of arithmetic, for all values of symbols.

    Sums, products and quotients are compared as rational functions of all other operations, at
    pseudorandom arguments modulo a prime of 61 bits: different ones agree with a probability of
    about degree / 2^61 (Schwartz 1980, Zippel 1979). No property of |z|, of signs or of rounding is
    used.
    """
    pairs = [(i, j) for i in rows for j in rows[i] if i != j]
    if any(i not in rows[j] for i, j in pairs):
        return False
    wanted = {rows[i][j] for i, j in pairs}
    residue = _residues(g, g.ancestors(wanted))
    return all(residue[rows[i][j]] == residue[rows[j][i]] for i, j in pairs)


_FIELD: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "mul": lambda a, b: a * b,
    "inv": lambda a: pow(a, -1, _PRIME),
    "div": lambda a, b: a * pow(b, -1, _PRIME),
}


def _residues(g: Graph, nodes: Sequence[int]) -> dict[int, int]:
    """A value modulo the prime for each node."""
    found: dict[int, int] = {}
    for node in nodes:
        op, x = g.op[node], [found[a] for a in g.args[node]]
        divisor = x[-1] if op in ("inv", "div") else 1
        if op == "const" and math.isfinite(g.value[node]):
            number = Fraction(g.value[node])
            found[node] = number.numerator * pow(number.denominator, -1, _PRIME) % _PRIME
        elif op in _FIELD and divisor:
            found[node] = _FIELD[op](*x) % _PRIME
        else:
            text = repr((op, x, g.name.get(node), g.value.get(node)))
            found[node] = int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
    return found
