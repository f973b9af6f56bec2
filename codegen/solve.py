"""Explicit derivatives from an implicit residual: an unrolled sparse solution on the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from kinesym.codegen.blocks import MOST_ROWS, Block, NotExplicit, block_of
from kinesym.codegen.derive import Sparse, by_row, jacobian, pattern_of, with_smooth_kinks
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import describe
from kinesym.codegen.lower import Lowering
from kinesym.codegen.saddle import masses_first
from kinesym.symbolic.model import Model


def model_rates(model: Model, lower: Lowering, rates: Sequence[int]) -> list[int]:
    """x' of a model as nodes: its explicit form if it has one, else from its equations.

    rates : the nodes of x', known to `lower` where there is no explicit form; NaN where the mass
    matrix is singular. Raises `NotExplicit` if x' enters nonlinearly or the mass matrix is
    structurally singular, naming a state.
    """
    if model.explicit is not None:
        lower.define(model.explicit.intermediates)
        return [lower(e) for e in model.explicit.rates]
    residual = [lower(e) for e in model.equations]
    return MassMatrix(lower.graph, residual, rates, model.state_names).rates()


@dataclass(frozen=True)
class Linearised:
    """x' = f(z) and its derivatives, d x'/d z = M^-1 side, with M^-1 as a straight-line program.

    side : minus the derivatives of the residual; an entry's row is the state whose derivative its
    equation is matched with. Rows of blocks with row exchanges are multiplied by the inverse of the
    block already. steps : (target, source, node) in order, each `x[target] -= node * x[source]`, or
    `x[target] *= node` if target and source are the same.
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
    """x' and what its derivatives follow from; raises `NotExplicit` like `model_rates`."""
    mass = MassMatrix(g, with_smooth_kinks(g, residual), rates, names)
    solution = mass.rates()
    partial = jacobian(g, mass.residual, wrt)
    values = g.substitute(list(partial.values()), dict(zip(rates, solution, strict=True)))
    owner = {i: j for j, i in enumerate(mass.row_of)}
    side: dict[int, dict[int, int]] = {}
    for (i, j), node in zip(partial, values, strict=True):
        if node != g.zero:
            side.setdefault(owner[i], {})[j] = g.neg(node)
    new, steps = mass.program(side)
    return Linearised(
        solution, {(i, j): node for i, row in new.items() for j, node in row.items()}, steps
    )


class MassMatrix:
    """M = d residual / d x', permuted to block triangular form and solved on the graph.

    A maximum matching puts non-zeros on the diagonal, strong components are the blocks, which
    `codegen.blocks` solves. columns : the nodes of x'. residual : as `affine_residual` makes it.
    row_of : the row matched with each column.
    """

    def __init__(
        self, g: Graph, residual: Sequence[int], rates: Sequence[int], names: Sequence[str]
    ) -> None:
        self._graph, self.columns, n = g, rates, len(rates)
        self.residual = affine_residual(g, residual, rates, names)
        mass = jacobian(g, self.residual, rates)
        pattern = _pattern(mass, n)
        match = scipy.sparse.csgraph.maximum_bipartite_matching(
            pattern, perm_type="column"
        )  # column of each row
        if (match < 0).any():
            missing = sorted(set(range(n)) - set(match.tolist()))
            raise NotExplicit(
                f"state {names[missing[0]]} has no derivative that the equations determine; "
                "the model is algebraic or singular"
            )
        self.row_of = [int(i) for i in np.argsort(match)]
        self._rows = by_row(mass)
        self._blocks = [
            self._block(block, names) for block in _blocks(pattern, np.array(self.row_of), n)
        ]

    def _block(self, columns: Sequence[int], names: Sequence[str]) -> Block:
        """The way to solve a block."""
        if len(columns) > MOST_ROWS:
            for k, i in self._owners(columns, names).items():
                self.row_of[k] = i
        return block_of(self._graph, {k: self._row(k, columns) for k in columns}, names)

    def _owners(self, columns: Sequence[int], names: Sequence[str]) -> dict[int, int]:
        """The rows of the columns of a large block. They are matched anew if only that makes masses
        and reactions of it: masses are then eliminated first, where the matching would divide by
        slopes of constraints, which can be 0."""
        matched = {k: self.row_of[k] for k in columns}
        given = {k: k for k in columns}
        if self._symmetric(matched):
            return matched
        if {*given} == {*matched.values()} and self._is_saddle(given):
            return given
        rows = {i: self._rows[i] for i in matched.values()}
        found = masses_first(self._graph, rows, columns, names)
        return found if self._symmetric(found) else matched

    def _symmetric(self, row_of: Mapping[int, int]) -> bool:
        """Whether the pattern of a block is symmetric with these rows for its columns."""
        places = {(k, j) for k, i in row_of.items() for j in row_of if j in self._rows[i]}
        return all((j, k) in places for k, j in places)

    def _is_saddle(self, row_of: Mapping[int, int]) -> bool:
        """Whether with these rows some columns of a block, reactions, have no entries among
        themselves, and all others have their own."""
        reactions = {k for k, i in row_of.items() if k not in self._rows[i]}
        return bool(reactions) and not any(reactions & {*self._rows[row_of[k]]} for k in reactions)

    def _row(self, column: int, among: Sequence[int]) -> dict[int, int]:
        """Entries, in some columns, of the row matched with a column."""
        row = self._rows[self.row_of[column]]
        return {j: row[j] for j in among if j in row}

    def rates(self) -> list[int]:
        """x' = -M^-1 residual(x' = 0)."""
        g = self._graph
        bias = g.substitute(self.residual, dict.fromkeys(self.columns, g.zero))
        x = self.solve({i: g.neg(b) for i, b in enumerate(bias)})
        return [x.get(j, g.zero) for j in range(len(self.columns))]

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

    def program(
        self, side: Mapping[int, Mapping[int, int]]
    ) -> tuple[dict[int, dict[int, int]], list[tuple[int, int, int]]]:
        """M^-1 for rows of a side by the columns of M: new rows and steps; see `Linearised`."""
        found: list[tuple[int, int, int]] = []
        new: dict[int, dict[int, int]] = {}
        done: list[int] = []
        wide = 1 + max((j for row in side.values() for j in row), default=0)
        for block in self._blocks:
            rows = {
                k: {**side.get(k, {}), **{wide + j: node for j, node in self._row(k, done).items()}}
                for k in block.order
            }
            rows, steps = block.program(rows)
            for k in block.order:
                new[k] = {j: node for j, node in rows.get(k, {}).items() if j < wide}
                found += [(k, j - wide, node) for j, node in rows.get(k, {}).items() if j >= wide]
            found += steps
            done += block.order
        return new, [step for step in found if step[0] != step[1] or step[2] != self._graph.one]


def _pattern(mass: Sparse, n: int) -> scipy.sparse.csr_array:
    """Ones at the entries of a matrix; with indices of 32 bits, which matchings of SciPy below 1.15
    demand."""
    rows, columns = (np.array(k, dtype=np.int32) for k in pattern_of(mass))
    return scipy.sparse.csr_array(
        (np.ones(len(mass), dtype=np.int8), (rows, columns)), shape=(n, n)
    )


def _blocks(pattern: scipy.sparse.csr_array, row_of: np.ndarray, n: int) -> list[list[int]]:
    """Columns in blocks that can be solved one after the other."""
    square = scipy.sparse.csr_array(pattern[row_of])  # now with a full diagonal
    count, label = scipy.sparse.csgraph.connected_components(
        square, directed=True, connection="strong"
    )
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


# -- x' that enters nonlinearly ------------------------------------------------------------------


def affine_residual(
    g: Graph, residual: Sequence[int], rates: Sequence[int], names: Sequence[str]
) -> list[int]:
    """The residual as M(x) x' + b(x).

    Where x' enters otherwise, as in a friction law of x', it is replaced by what follows from the
    other equations, such as v for x' - v = 0. Raises `NotExplicit`, naming the
    equation and the term, if none does.
    """
    nonlinear = {
        i for i, node in enumerate(residual) if _nonlinear_operation(g, node, rates) is not None
    }
    if not nonlinear:
        return list(residual)
    known = _determined(g, [r for i, r in enumerate(residual) if i not in nonlinear], rates, names)
    result = [g.substitute([r], known)[0] if i in nonlinear else r for i, r in enumerate(residual)]
    for i in sorted(nonlinear):
        term = _nonlinear_operation(g, result[i], rates)
        if term is not None:
            text = describe(g, term, 4)
            for rate, name in zip(rates, names, strict=True):
                text = text.replace(g.name[rate], f"{name}'")
            raise NotExplicit(
                f"x' enters equation {i} nonlinearly, in {text}, and cannot be solved for"
            )
    return result


def _nonlinear_operation(g: Graph, output: int, rates: Sequence[int]) -> int | None:
    """The first operation through which `output` does not depend on the rates linearly."""
    active = set(rates)
    for node in g.ancestors([output]):
        place = [a in active for a in g.args[node]]
        if not any(place):
            continue
        active.add(node)
        op = g.op[node]
        straight = (
            op in ("add", "sub", "neg")
            or (op == "mul" and sum(place) == 1)
            or (op in ("div", "select") and not place[op == "div"])
        )
        if not straight:
            return node
    return None


def _determined(
    g: Graph, residual: Sequence[int], rates: Sequence[int], names: Sequence[str]
) -> dict[int, int]:
    """The rates that these equations, too few for all, determine, as nodes without x'.

    Those are the columns of a maximum matching that no alternating path joins to a column without a
    row (Dulmage, Mendelsohn 1958).
    """
    mass = jacobian(g, residual, rates)
    pattern = scipy.sparse.csr_array(_pattern(mass, max(len(rates), len(residual))))
    match = scipy.sparse.csgraph.maximum_bipartite_matching(
        pattern, perm_type="column"
    )  # column of each row
    row_of = {int(j): i for i, j in enumerate(match) if j >= 0}
    free = [j for j in range(len(rates)) if j not in row_of]
    open_columns = set(free)
    while free:
        column = free.pop()
        for i in (i for i, j in mass if j == column):
            if int(match[i]) not in open_columns:
                open_columns.add(int(match[i]))
                free.append(int(match[i]))
    chosen = [j for j in range(len(rates)) if j not in open_columns]
    own = MassMatrix(
        g,
        [residual[row_of[j]] for j in chosen],
        [rates[j] for j in chosen],
        [names[j] for j in chosen],
    )
    return dict(zip(own.columns, own.rates(), strict=True))
