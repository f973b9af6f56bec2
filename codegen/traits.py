"""Traits of a value that follow without its numbers: may it be tiny, negative, not finite?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kinesym.codegen.operations import (
    EITHER,
    KEPT,
    NONNEGATIVE,
    ORDINARY,
    SMALL,
    Operation,
)


class Nodes(Protocol):
    """Nodes of a graph, as far as traits follow from them."""

    op: list[str]
    args: list[tuple[int, ...]]
    value: dict[int, float]
    operations: Mapping[str, Operation]


class Trait(NamedTuple):
    """Traits of one node. degree : how many powers of symbols its value is small with; infinite if
    it may be tiny while its symbols are of ordinary size. nonnegative, total : whether it is never
    negative, and finite wherever symbols are, but for overflow."""

    degree: float
    nonnegative: bool
    total: bool


class Traits:
    """Traits of the nodes of a graph, computed on demand."""

    def __init__(self, graph: Nodes) -> None:
        self._graph = graph
        self._known: dict[int, Trait] = {}

    def __getitem__(self, node: int) -> Trait:
        if node not in self._known:
            for new in self._missing(node):
                self._known[new] = self._of(new)
        return self._known[node]

    def _missing(self, node: int) -> list[int]:
        """The node and those it depends on that are not known, operands first."""
        found, stack = {node}, [node]
        while stack:
            for a in self._graph.args[stack.pop()]:
                if a not in found and a not in self._known:
                    found.add(a)
                    stack.append(a)
        return sorted(found)

    def _of(self, node: int) -> Trait:
        op = self._graph.op[node]
        if op == "const":
            value = self._graph.value[node]
            ordinary = value == 0.0 or 1e-20 < abs(value) < 1e20
            return Trait(0.0 if ordinary else math.inf, value >= 0.0, math.isfinite(value))
        if op == "sym":
            return Trait(1.0, False, True)
        of = [self._known[a] for a in self._graph.args[node]]
        if op == "data":
            return Trait(math.inf, False, False)
        total = self._graph.operations[op].total and all(trait.total for trait in of)
        return Trait(self._degree(node, of), self._nonnegative(node, of), total)

    def _degree(self, node: int, of: list[Trait]) -> float:
        op = self._graph.op[node]
        degrees = [trait.degree for trait in of]
        if op in ("mul", "div"):
            return sum(degrees)
        if op == "add" and all(trait.nonnegative for trait in of):
            return min(degrees)
        if op == "pow":
            exponent = self._graph.value.get(self._graph.args[node][1], math.inf)
            return degrees[0] * abs(exponent) if degrees[0] else math.inf
        if op == "select":
            return max(degrees[1:])
        size = self._graph.operations[op].size
        if size == SMALL:
            return max(degrees)
        return 0.0 if size == ORDINARY else math.inf

    def _nonnegative(self, node: int, of: list[Trait]) -> bool:
        op, args = self._graph.op[node], self._graph.args[node]
        if op == "select":
            return all(trait.nonnegative for trait in of[1:])
        sign = self._graph.operations[op].sign
        if sign == KEPT:
            square = op == "mul" and args[0] == args[1]
            return square or all(trait.nonnegative for trait in of)
        if sign == EITHER:
            return any(trait.nonnegative for trait in of)
        return sign == NONNEGATIVE
