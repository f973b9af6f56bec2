"""Schedule of a kernel: the places where its order is cut into pieces.

Pieces have a bounded length: compilers need more than linear time in the length of a function.
Values that live across a cut travel through a scratch array, except those that are cheaper to
compute again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from kinesym.codegen.graph import LEAVES, Graph
from kinesym.codegen.kernel import Kernel
from kinesym.codegen.order import Run, depth_first

#: Operations per piece. Measured on the 10-link problem: all files take 4.3, 4.6, 5.3 and 7.6 CPU-s
#: to compile for pieces of 500, 1000, 1500 and 3000, the Hessian of 10,000 points 4.4, 4.7, 5.0 and
#: 5.3 ms, the Jacobian 1.4 to 1.5 ms. But a Jacobian of 990 operations (5 links) takes 1.4 times as
#: long in two pieces as in one.
PIECE = 1000

#: Operations per output up to which memory is what takes time.
THIN = 4
#: Outputs of a piece then: a compiler keeps the addresses of few rows in registers.
ROWS = 4

_CHEAP = frozenset(("add", "sub", "mul", "neg"))


@dataclass(frozen=True)
class Piece:
    """A straight-line function: `nodes` in order; scratch slots read and written; outputs stored.

    `stores` lists (output number, node), sorted by the position of the node.
    """

    nodes: tuple[int, ...]
    reads: dict[int, int]
    writes: dict[int, int]
    stores: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Schedule:
    """The computation of a kernel: hoisted nodes with their slots, and pieces for each point."""

    uniform: tuple[Piece, ...]
    slots: dict[int, int]
    varying: tuple[Piece, ...]
    n_scratch: int

    @property
    def apart(self) -> bool:
        """Whether the pieces for each point have nothing to do with each other, and are short."""
        short = sum(len(piece.nodes) for piece in self.varying) <= PIECE
        return len(self.varying) < 2 or (short and not any(p.reads for p in self.varying))


def schedule(kernel: Kernel, piece: int = PIECE) -> Schedule:
    """The schedule of `kernel`, cut into pieces of about `piece` operations."""
    graph, order = kernel.graph, kernel.order
    slots = {node: slot for slot, node in enumerate(order.hoisted)}
    prologue, n_prologue = _cut(graph, order.uniform, frozenset(), piece)
    pieces, n_pieces = _cut(graph, order.varying, frozenset(slots), piece)
    return Schedule(prologue, slots, pieces, max(n_prologue, n_pieces))


def _cut(
    graph: Graph, runs: Sequence[Run], given: frozenset[int], limit: int
) -> tuple[tuple[Piece, ...], int]:
    """Pieces that compute `runs`; `given` nodes need no computation. Also the scratch size."""
    groups = _chunks(graph, runs, given, limit)
    home = {node: number for number, (nodes, _) in enumerate(groups) for node in nodes}
    made = [
        _complete(graph, nodes, [n for _, n in chunk], given, home, number)
        for number, (nodes, chunk) in enumerate(groups)
    ]
    slots = _assign_slots([foreign for _, foreign in made], home)
    pieces = []
    for (body, foreign), (nodes, chunk) in zip(made, groups, strict=True):
        writes = {node: slots[node] for node in nodes if node in slots}
        wanted = {*writes, *(node for _, node in chunk)}
        read = {node: slots[node] for node in sorted(foreign)}
        pieces.append(Piece(_live(graph, body, wanted), read, writes, tuple(chunk)))
    return tuple(pieces), 1 + max(slots.values(), default=-1)


def _live(graph: Graph, body: list[int], wanted: set[int]) -> tuple[int, ...]:
    """The nodes of `body` that `wanted` depend on: others are only made again elsewhere."""
    needed, live = set(wanted), []
    for node in reversed(body):
        if node in needed:
            live.append(node)
            needed.update(graph.args[node])
    return tuple(reversed(live))


def _chunks(
    graph: Graph, runs: Sequence[Run], given: frozenset[int], limit: int
) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """The nodes of runs with the stores that follow them, in chunks of `limit` nodes."""
    most = _most_stores(graph, runs, given)
    chunks: list[tuple[list[int], list[tuple[int, int]]]] = [([], [])]
    for store, nodes in runs:
        if len(chunks[-1][1]) >= most:
            chunks.append(([], []))
        for node in nodes:
            if len(chunks[-1][0]) >= limit:
                chunks.append(([], []))
            chunks[-1][0].append(node)
        chunks[-1][1].append(store)
    return chunks


def _most_stores(graph: Graph, runs: Sequence[Run], given: frozenset[int]) -> int:
    """Limit of the number of stores of a piece: few where each takes few operations of its own."""
    total = sum(len(run.nodes) for run in runs)
    if total <= THIN * len(runs):
        alone = (depth_first(graph, run.store[1], set(given)) for run in runs)
        if sum(1 for nodes in alone for _ in nodes) == total:
            return ROWS
    return max(len(runs), 1)


def _is_leaf(graph: Graph, node: int) -> bool:
    return graph.op[node] in LEAVES


def _complete(
    graph: Graph,
    nodes: list[int],
    outputs: list[int],
    given: frozenset[int],
    home: dict[int, int],
    number: int,
) -> tuple[list[int], set[int]]:
    """The body of piece `number` with cheap foreign values made again, and what it must read."""
    local = set(nodes)
    again: list[int] = []
    foreign: set[int] = set()

    def need(node: int) -> None:
        if node in local or node in given or _is_leaf(graph, node) or node in foreign:
            return
        if _is_cheap(graph, node, given):
            for a in graph.args[node]:
                need(a)
            local.add(node)
            again.append(node)
        elif home[node] != number:
            foreign.add(node)

    for node in nodes:
        for a in graph.args[node]:
            need(a)
    for node in outputs:
        need(node)
    return again + nodes, foreign


def _is_cheap(graph: Graph, node: int, given: frozenset[int], budget: int = 3) -> bool:
    """Whether `node` is at most `budget` simple operations away from arguments."""

    def cost(n: int, left: int) -> int:
        if n in given or _is_leaf(graph, n):
            return 0
        if graph.op[n] not in _CHEAP or left == 0:
            return left + 1
        total = 1
        for a in graph.args[n]:
            total += cost(a, left - total)
            if total > left:
                break
        return total

    return cost(node, budget) <= budget


def _assign_slots(reads: list[set[int]], home: dict[int, int]) -> dict[int, int]:
    """Scratch slots for the values that cross a cut; a slot is used again after its last reader."""
    last: dict[int, int] = {}
    for number, nodes in enumerate(reads):
        for node in nodes:
            last[node] = number
    by_home: dict[int, list[int]] = {}
    for node in sorted(last):
        by_home.setdefault(home[node], []).append(node)
    slots: dict[int, int] = {}
    free: list[int] = []
    unused = count()
    expiring: dict[int, list[int]] = {}
    for number in range(len(reads)):
        free.extend(expiring.pop(number, ()))  # last read by the piece before
        for node in by_home.get(number, ()):
            slots[node] = free.pop() if free else next(unused)
            expiring.setdefault(last[node] + 1, []).append(slots[node])
    return slots


def sines_and_cosines(graph: Graph, piece: Piece) -> dict[int, tuple[int, int]]:
    """Sines and cosines of the same angle in this piece: (sine, cosine) for both nodes."""
    found: dict[int, dict[str, int]] = {}
    for node in piece.nodes:
        if graph.op[node] in ("sin", "cos"):
            found.setdefault(graph.args[node][0], {})[graph.op[node]] = node
    pairs = [(both["sin"], both["cos"]) for both in found.values() if len(both) == 2]
    return {node: pair for pair in pairs for node in pair}


def use_counts(graph: Graph, piece: Piece) -> Counter[int]:
    """Number of uses of the nodes in this piece."""
    uses = Counter(a for node in piece.nodes for a in graph.args[node])
    uses.update(node for _, node in piece.stores)
    return uses


def joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces as one, in which nothing is handed on through scratch."""
    nodes = dict.fromkeys(node for piece in pieces for node in piece.nodes)
    return Piece(tuple(nodes), {}, {}, tuple(s for piece in pieces for s in piece.stores))


def whole(plan: Schedule) -> Piece:
    """Piece of all pieces, in which nothing is hoisted or handed on."""
    hoisted = (replace(piece, stores=()) for piece in plan.uniform)
    return joined([*hoisted, *plan.varying])
