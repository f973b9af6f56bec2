"""Explicit derivatives from an implicit residual: an unrolled sparse solution on the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from kinesym.codegen.derive import Sparse, jacobian
from kinesym.codegen.graph import Graph


class NotExplicit(ValueError):
    """The residual cannot be solved for x'."""


def explicit_rates(
    g: Graph, residual: Sequence[int], rates: Sequence[int], names: Sequence[str]
) -> list[int]:
    """x' as nodes, from the residual M(x) x' + b(x) = 0.

    M is permuted to block triangular form (maximum matching, strong components), each block is
    factorised without numerical pivoting: exact for kinematic rows (blocks of one) and stable for
    mass matrices (symmetric definite blocks). Raises `NotExplicit` if x' enters nonlinearly or M is
    structurally singular, naming a state.
    """
    n = len(rates)
    mass = jacobian(g, residual, rates)
    depends = set(rates)
    for (i, _), node in mass.items():
        if depends & set(g.ancestors([node])):
            raise NotExplicit(f"x' enters equation {i} nonlinearly and cannot be solved for")
    bias = g.substitute(residual, dict.fromkeys(rates, g.zero))
    pattern = _pattern(mass, n)
    match = maximum_bipartite_matching(pattern, perm_type="column")  # column of each row
    if (match < 0).any():
        missing = sorted(set(range(n)) - set(match.tolist()))
        raise NotExplicit(
            f"state {names[missing[0]]} has no derivative that the equations determine; "
            "the model is algebraic or singular"
        )
    row_of = np.argsort(match)  # the row that is matched with each column
    solution: dict[int, int] = {}
    for block in _blocks(pattern, row_of, n):
        _solve_block(g, mass, bias, row_of, block, solution, names)
    return [solution[j] for j in range(n)]


def _pattern(mass: Sparse, n: int) -> csr_array:
    rows, columns = [i for i, _ in mass], [j for _, j in mass]
    return csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(n, n))


def _blocks(pattern: csr_array, row_of: np.ndarray, n: int) -> list[list[int]]:
    """Columns in blocks that can be solved one after the other."""
    square = csr_array(pattern[row_of])  # now with a full diagonal
    count, label = connected_components(square, directed=True, connection="strong")
    members: list[list[int]] = [[] for _ in range(count)]
    for j in range(n):
        members[label[j]].append(j)
    needs: list[set[int]] = [set() for _ in range(count)]
    for i, j in zip(*square.nonzero(), strict=True):
        if label[i] != label[j]:
            needs[label[i]].add(int(label[j]))
    order: list[int] = []
    done: set[int] = set()
    while len(order) < count:
        ready = [c for c in range(count) if c not in done and needs[c] <= done]
        order.extend(ready)
        done.update(ready)
    return [members[c] for c in order]


def _solve_block(
    g: Graph,
    mass: Sparse,
    bias: Sequence[int],
    row_of: np.ndarray,
    block: list[int],
    solution: dict[int, int],
    names: Sequence[str],
) -> None:
    """Gaussian elimination of one block, in the order given; fills `solution`."""
    known = sorted(solution)
    a: list[dict[int, int]] = []
    rhs: list[int] = []
    for column in block:
        i = int(row_of[column])
        a.append({j: mass[i, j] for j in block if (i, j) in mass})
        carried = [g.mul(mass[i, j], solution[j]) for j in known if (i, j) in mass]
        rhs.append(g.neg(g.sum([bias[i], *carried])))
    for k, pivot in enumerate(block):
        if a[k].get(pivot, g.zero) == g.zero:
            raise NotExplicit(f"the equations do not determine {names[pivot]}'; M is singular")
        inverse = g.inv(a[k][pivot])
        for i in range(k + 1, len(block)):
            if pivot not in a[i]:
                continue
            factor = g.mul(a[i].pop(pivot), inverse)
            for j in block[k + 1 :]:
                if j in a[k]:
                    a[i][j] = g.sub(a[i].get(j, g.zero), g.mul(factor, a[k][j]))
            rhs[i] = g.sub(rhs[i], g.mul(factor, rhs[k]))
    for k in range(len(block) - 1, -1, -1):
        later = [g.mul(a[k][j], solution[j]) for j in block[k + 1 :] if j in a[k]]
        solution[block[k]] = g.mul(g.sub(rhs[k], g.sum(later)), g.inv(a[k][block[k]]))
