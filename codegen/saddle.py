"""Pairing of rows and columns of a saddle point of accelerations and reactions, for its pivots.

With M x + P y = b and G x = c, where G and P^T have entries in the same places, the pattern is
symmetric if rows of M are those of x and rows of G those of y. If M is definite and P = G^T D with
any diagonal matrix D, each order of elimination then has pivots other than 0 (Vanderbei 1995, SIAM
J. Optim. 5, 100-113), whatever the slopes G of constraints are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np
import scipy
from numpy.typing import NDArray

from kinesym.codegen.graph import Graph


def masses_first(
    g: Graph, rows: Mapping[int, Mapping[int, int]], columns: Sequence[int], names: Sequence[str]
) -> dict[int, int]:
    """Rows of a block for its columns: those alike by entries that no state moves where there are
    such, the others by how much they have of what couples the other columns.

    rows : entries by row and column. names : of the states.
    """
    owners, states = list(rows), set(names)
    kind = np.zeros((len(owners), len(columns)), dtype=int)  # 1: an entry, 2: no state moves it
    for i, row in enumerate(rows.values()):
        for j, column in enumerate(columns):
            if column in row:
                kind[i, j] = 1 + _still(g, row[column], states)
    alike = _colours(kind)
    masses = np.equal.outer(alike[: len(kind)], alike[len(kind) :]) & (kind == 2)
    found = scipy.optimize.linear_sum_assignment(~masses)
    pairs = [(i, j) for i, j in zip(*found, strict=True) if masses[i, j]]
    a, b = [i for i, _ in pairs], [j for _, j in pairs]
    rest = [[k for k in range(len(kind)) if k not in matched] for matched in (a, b)]
    apart = [[int((kind[i, b] != kind[a, j]).sum()) for j in rest[1]] for i in rest[0]]
    chosen = scipy.optimize.linear_sum_assignment(np.array(apart).reshape(len(rest[0]), -1))
    pairs += [(rest[0][i], rest[1][j]) for i, j in zip(*chosen, strict=True)]
    return {columns[j]: owners[i] for i, j in pairs}


def _still(g: Graph, node: int, states: Set[str]) -> bool:
    """Whether no state is in an entry."""
    symbols = (g.name[k] for k in g.ancestors([node]) if g.op[k] == "sym")
    return not any(symbol.partition(".")[2] in states for symbol in symbols)


def _colours(kind: NDArray[np.int_]) -> list[int]:
    """Numbers of rows, then of columns, equal for those that have as many entries of each kind with
    columns, or rows, of equal numbers (Weisfeiler and Leman 1968)."""
    n = len(kind)
    found = [0] * (2 * n)
    while True:
        around = []
        for k, line in enumerate([*kind, *kind.T]):
            others = found[n:] if k < n else found[:n]
            met = sorted((other, int(e)) for other, e in zip(others, line, strict=True) if e)
            around.append((found[k], tuple(met)))
        number = {colour: k for k, colour in enumerate(sorted(set(around)))}
        if len(number) == len(set(found)):
            return found
        found = [number[colour] for colour in around]
