"""Explicit derivatives from an implicit residual: an unrolled sparse solution on the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from kinesym.codegen.derive import Sparse, jacobian
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import evaluate_nodes
from kinesym.codegen.lower import Lowering
from kinesym.symbolic.model import Model


class NotExplicit(ValueError):
    """The residual cannot be solved for x'."""


def explicit_rates(
    g: Graph, residual: Sequence[int], rates: Sequence[int], names: Sequence[str]
) -> list[int]:
    """x' as nodes, from the residual M(x) x' + b(x) = 0.

    Raises `NotExplicit` if x' enters nonlinearly or M is structurally singular, naming a state.
    """
    mass = MassMatrix(g, residual, rates, names)
    bias = g.substitute(residual, dict.fromkeys(rates, g.zero))
    x = mass.solve({i: g.neg(b) for i, b in enumerate(bias)})
    return [x.get(j, g.zero) for j in range(len(rates))]


def model_rates(model: Model, lower: Lowering, rates: Sequence[int]) -> list[int]:
    """x' of a model as nodes: its explicit form if it has one, else from its equations.

    rates : the nodes of x', known to `lower` where there is no explicit form.
    """
    if model.explicit is not None:
        lower.define(model.explicit.intermediates)
        return [lower(e) for e in model.explicit.rates]
    residual = [lower(e) for e in model.equations]
    return explicit_rates(lower.graph, residual, rates, model.state_names)


@dataclass(frozen=True)
class Linearised:
    """x' = f(z) and its derivatives, d x'/d z = M^-1 side, with M^-1 as a straight-line program.

    side : minus the derivatives of the residual; an entry's row is the state whose derivative its
    equation is matched with. steps : (target, source, node) in order, each
    `x[target] -= node * x[source]`, or `x[target] *= node` if target and source are the same.
    """

    rates: list[int]
    side: Sparse
    steps: list[tuple[int, int, int]]


def linearised_rates(
    g: Graph,
    residual: Sequence[int],
    rates: Sequence[int],
    names: Sequence[str],
    wrt: Sequence[int],
) -> Linearised:
    """x' and what its derivatives follow from; raises `NotExplicit` like `explicit_rates`."""
    mass = MassMatrix(g, residual, rates, names)
    bias = g.substitute(residual, dict.fromkeys(rates, g.zero))
    x = mass.solve({i: g.neg(b) for i, b in enumerate(bias)})
    solution = [x.get(j, g.zero) for j in range(len(rates))]
    partial = jacobian(g, residual, wrt)
    values = g.substitute(list(partial.values()), dict(zip(rates, solution, strict=True)))
    owner = {i: j for j, i in enumerate(mass.row_of)}
    side = {(owner[i], j): g.neg(node) for (i, j), node in zip(partial, values, strict=True)}
    return Linearised(solution, {k: e for k, e in side.items() if e != g.zero}, mass.steps())


class MassMatrix:
    """M = d residual / d x', permuted to block triangular form and factorised on the graph.

    A maximum matching puts non-zeros on the diagonal, strong components are the blocks; each block
    is factorised without numerical pivoting, in an order that keeps fill low: exact for kinematic
    rows (blocks of one) and stable for mass matrices (symmetric definite blocks).
    """

    def __init__(
        self, g: Graph, residual: Sequence[int], rates: Sequence[int], names: Sequence[str]
    ) -> None:
        self._graph, n = g, len(rates)
        self._mass = jacobian(g, residual, rates)
        if set(rates) & set(g.ancestors(self._mass.values())):
            known = set(rates)
            i = next(i for (i, _), e in self._mass.items() if known & set(g.ancestors([e])))
            raise NotExplicit(f"x' enters equation {i} nonlinearly and cannot be solved for")
        pattern = _pattern(self._mass, n)
        match = maximum_bipartite_matching(pattern, perm_type="column")  # column of each row
        if (match < 0).any():
            missing = sorted(set(range(n)) - set(match.tolist()))
            raise NotExplicit(
                f"state {names[missing[0]]} has no derivative that the equations determine; "
                "the model is algebraic or singular"
            )
        self.row_of = [int(i) for i in np.argsort(match)]  # the row matched with each column
        self._rows: dict[int, dict[int, int]] = {}  # entries by row, then column
        for (i, j), node in self._mass.items():
            self._rows.setdefault(i, {})[j] = node
        self._blocks = [
            _Block(g, self._square(block), names)
            for block in _blocks(pattern, np.array(self.row_of), n)
        ]

    def _square(self, block: Sequence[int]) -> dict[int, dict[int, int]]:
        """The entries of a diagonal block, rows called by their columns.

        If it is symmetric, both entries of a pair are one node.
        """
        rows = {
            i: {j: self._rows[self.row_of[i]][j] for j in block if j in self._rows[self.row_of[i]]}
            for i in block
        }
        pairs = [(i, j) for i in block for j in rows[i] if i < j]
        mirrored = all(i in rows[j] for i, j in pairs) and len(pairs) * 2 == sum(
            len(row) - (i in row) for i, row in rows.items()
        )
        if mirrored and _symmetric(self._graph, rows, pairs):
            for i, j in pairs:
                rows[j][i] = rows[i][j]
        return rows

    def solve(self, side: Mapping[int, int]) -> dict[int, int]:
        """M^-1 side; entries that are identically zero do not exist."""
        g, solution = self._graph, dict[int, int]()
        for block in self._blocks:
            right: dict[int, int] = {}
            for column in block.order:
                i = self.row_of[column]
                carried = [
                    g.mul(node, solution[j]) for j, node in self._rows[i].items() if j in solution
                ]
                value = g.sub(side.get(i, g.zero), g.sum(carried))
                if value != g.zero:
                    right[column] = value
            solution.update(block.solve(right))
        return solution


    def steps(self) -> list[tuple[int, int, int]]:
        """M^-1 as a program on a vector indexed by column; see `Linearised`."""
        found: list[tuple[int, int, int]] = []
        done: set[int] = set()
        for block in self._blocks:
            for column in block.order:
                row = self._rows[self.row_of[column]]
                found += [(column, j, node) for j, node in row.items() if j in done]
            found += block.steps()
            done.update(block.order)
        return [step for step in found if step[0] != step[1] or step[2] != self._graph.one]


def _pattern(mass: Sparse, n: int) -> csr_array:
    rows, columns = [i for i, _ in mass], [j for _, j in mass]
    return csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(n, n))


def _symmetric(
    g: Graph, rows: Mapping[int, Mapping[int, int]], pairs: Sequence[tuple[int, int]]
) -> bool:
    """Whether M_ij and M_ji have the same value for all pairs (i, j), tried at random arguments.

    Relative to the root of M_ii M_jj, whatever their units: small entries of a mass matrix are
    differences of larger ones.
    """
    different = [(i, j) for i, j in pairs if rows[i][j] != rows[j][i]]
    if not different:
        return True
    wanted = [rows[i][j] for i, j in different] + [rows[j][i] for i, j in different]
    diagonal = {i: rows[i][i] for pair in different for i in pair if i in rows[i]}
    nodes = g.ancestors([*wanted, *diagonal.values()])
    rng = np.random.default_rng(0)
    symbols = {g.name[k]: rng.uniform(0.5, 1.5, size=3) for k in nodes if k in g.name}
    values = evaluate_nodes(g, nodes, symbols)
    for i, j in different:
        a, b = values[rows[i][j]], values[rows[j][i]]
        size = np.maximum(np.abs(a), np.abs(b))
        if i in diagonal and j in diagonal:
            size = np.sqrt(np.abs(values[diagonal[i]] * values[diagonal[j]]))
        if not (np.abs(a - b) <= 1e-12 * size).all():  # NaN is not equal
            return False
    return True


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


class _Block:
    """L U of one diagonal block; rows and columns are called by their column number.

    What is symmetric stays symmetric, and is computed once.
    """

    def __init__(
        self, g: Graph, rows: dict[int, dict[int, int]], names: Sequence[str]
    ) -> None:
        self._graph = g
        self._symmetric = all(rows[j].get(i) == node for i in rows for j, node in rows[i].items())
        self.order: list[int] = []
        self._inverse: dict[int, int] = {}
        self._lower: list[tuple[int, int, int]] = []  # (row, pivot, factor), in order
        self._upper: dict[int, dict[int, int]] = {}
        left = list(rows)
        while left:
            pivot = _next_pivot(rows, left)
            left.remove(pivot)
            self.order.append(pivot)
            self._eliminate(rows, left, pivot, names)

    def _eliminate(
        self, rows: dict[int, dict[int, int]], left: list[int], pivot: int, names: Sequence[str]
    ) -> None:
        g, top = self._graph, rows.pop(pivot)
        diagonal = top.pop(pivot, g.zero)
        if diagonal == g.zero:
            raise NotExplicit(f"the equations do not determine {names[pivot]}'; M is singular")
        inverse = self._inverse[pivot] = g.inv(diagonal)
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

    def solve(self, side: Mapping[int, int]) -> dict[int, int]:
        """The solution of this block for the non-zero entries of `side`."""
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


    def steps(self) -> list[tuple[int, int, int]]:
        """The solution of this block as a program; see `Linearised`."""
        found = list(self._lower)
        for k in reversed(self.order):
            found += [(k, j, node) for j, node in self._upper[k].items()]
            found.append((k, k, self._inverse[k]))
        return found


def _next_pivot(rows: Mapping[int, Mapping[int, int]], left: Sequence[int]) -> int:
    """The diagonal entry whose elimination can fill least (Markowitz); the first of equals."""

    def fill(k: int) -> int:
        column = sum(k in rows[i] for i in left)
        return (len(rows[k]) - 1) * (column - 1)

    return min((k for k in left if k in rows[k]), key=fill, default=left[0])
