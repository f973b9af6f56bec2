"""Order in which the nodes of a kernel are computed, before it is cut into pieces.

What depends on uniform arguments alone is computed once per call. The rest is ordered depth first
from the outputs, so that a value is made shortly before its use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from typing import NamedTuple

from kinesym.codegen.graph import LEAVES, Graph


class Run(NamedTuple):
    """A store, (output number, node), and the nodes that it needs of those not made before it."""

    store: tuple[int, int]
    nodes: list[int]


class Order(NamedTuple):
    """Order of computation: stores that are hoisted out of the loop over points, the runs that
    compute them, and the runs of the outputs."""

    hoisted: list[int]
    uniform: list[Run]
    varying: list[Run]


def ordered(graph: Graph, nodes: Sequence[int], outputs: Sequence[int], names: Set[str]) -> Order:
    """The order of these nodes, operands first, and outputs; names : symbols that vary from point
    to point."""
    hoisted = _hoisted(graph, nodes, outputs, _varying(graph, nodes, names))
    uniform = _runs(graph, list(enumerate(hoisted)), ())
    return Order(hoisted, uniform, _runs(graph, _grouped(outputs), hoisted))


def _varying(graph: Graph, nodes: Sequence[int], names: Set[str]) -> set[int]:
    varying: set[int] = set()
    for node in nodes:
        if graph.name.get(node) in names or not varying.isdisjoint(graph.args[node]):
            varying.add(node)
    return varying


def _hoisted(
    graph: Graph, nodes: Sequence[int], outputs: Sequence[int], varying: Set[int]
) -> list[int]:
    """Uniform nodes that the loop reads, in order; constants stay in the text."""
    found: dict[int, None] = {}
    for node in nodes:
        if node in varying:
            found.update((a, None) for a in graph.args[node] if a not in varying)
    found.update((o, None) for o in outputs if o not in varying)
    return [node for node in sorted(found) if graph.op[node] not in ("const", "data")]


def _grouped(outputs: Sequence[int]) -> list[tuple[int, int]]:
    """(output number, node), outputs that share a node next to each other."""
    numbers: dict[int, list[int]] = {}
    for k, node in enumerate(outputs):
        numbers.setdefault(node, []).append(k)
    return [(k, node) for node, members in numbers.items() for k in members]


def _runs(graph: Graph, stores: Sequence[tuple[int, int]], given: Collection[int]) -> list[Run]:
    """Runs of stores one after the other; `given` nodes need no computation."""
    done = set(given)
    return [Run(store, list(depth_first(graph, store[1], done))) for store in stores]


def depth_first(graph: Graph, output: int, done: set[int]) -> Iterable[int]:
    """Nodes that `output` still needs, operands first; leaves are not listed."""
    op, args = graph.op, graph.args
    stack = [output]
    while stack:
        node = stack[-1]
        if node in done or op[node] in LEAVES:
            stack.pop()
            continue
        missing = [a for a in args[node] if a not in done and op[a] not in LEAVES]
        if missing:
            stack.extend(reversed(missing))
        else:
            done.add(node)
            stack.pop()
            yield node
