"""Kernels as lists of instructions, for the machine that runs them without a compiler.

The second printer of the same schedule, see `c.py`. A value has a register from where it is made to
its last use; what all points share, and constants, are read from one array. A product that only one
sum uses is part of the instruction of that sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinesym.base.memory import without_collection
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.operations import OPERATIONS
from kinesym.codegen.own import without_own
from kinesym.codegen.schedule import (
    Piece,
    Schedule,
    joined,
    schedule,
    sines_and_cosines,
    use_counts,
)

#: Fields of an instruction after its name: (r)ead and (w)ritten registers, (s)hared
#: values, (n)umbers. Instructions with a shared operand end or begin with s.
_FIELDS = {
    "load": "wnn",
    "take": "wnn",
    "spread": "ws",
    "store": "nr",
    "store_s": "ns",
    "keep": "nr",
    "fma": "wrrr",
    "fms": "wrrr",
    "fnma": "wrrr",
    "fma_s": "wrsr",
    "fms_s": "wrsr",
    "fnma_s": "wrsr",
    "sincos": "wrnnw",
    **{row.name: "w" + "r" * row.arity for row in OPERATIONS.values()},
    "locate": "wnnrn",
    "entry": "wnnrn",
    "three_halves": "wr",
    "five_halves": "wr",
    **{f"{op}_s": "wrs" for op in ("add", "sub", "mul", "div")},
    "s_sub": "wrs",
    "s_div": "wrs",
}
INSTRUCTIONS = tuple(_FIELDS)
_NUMBER = {name: k for k, name in enumerate(INSTRUCTIONS)}
#: Places of registers that are read, and written, in instructions, by number of the instruction.
_READ, _WRITTEN = (
    [tuple(k for k, kind in enumerate(kinds, 1) if kind == what) for kinds in _FIELDS.values()]
    for what in "rw"
)
_WIDTH = 1 + max(map(len, _FIELDS.values()))
_PADDING = [(0,) * (_WIDTH - k) for k in range(_WIDTH + 1)]
_POWERS = {1.5: "three_halves", 2.5: "five_halves"}
_LONG = 10**9  # operations of a piece: a list has no need to be cut


class Instructions(NamedTuple):
    """A kernel for `kinesym.runtime.native.Interpreted`, in the order of its arguments."""

    name: str
    counts: tuple[int, ...]
    varying: tuple[bool, ...]
    outputs: int
    shared: int
    registers: int
    constants: tuple[float, ...]
    operations: tuple[str, ...]
    hoisted: NDArray[np.int32]
    code: NDArray[np.int32]


@without_collection()
def encode(program: Program) -> list[tuple[object, ...]]:
    """Encoding of all kernels of a program as `Instructions`, plain tuples."""
    return [tuple(_instructions(kernel)) for kernel in program.kernels]


def _instructions(kernel: Kernel) -> Instructions:
    kernel = without_own(kernel, False)
    plan = schedule(kernel, _LONG)
    constants: dict[float, int] = {}
    lists = [
        _Writer(kernel, plan, pieces, constants, hoisted).rows()
        for pieces, hoisted in ((plan.uniform, True), (plan.varying, False))
    ]
    (first, n_first), (code, n_code) = map(_placed, lists)
    return Instructions(
        kernel.name,
        tuple(a.count for a in kernel.arguments),
        tuple(a.varying for a in kernel.arguments),
        len(kernel.outputs),
        len(plan.slots),
        max(n_first, n_code),
        tuple(constants),
        INSTRUCTIONS,
        first,
        code,
    )


class _Writer:
    """Instructions of a piece, whose registers are still nodes."""

    def __init__(
        self,
        kernel: Kernel,
        plan: Schedule,
        pieces: Sequence[Piece],
        constants: dict[float, int],
        hoisted: bool,
    ) -> None:
        self.kernel, self.graph, self.hoisted = kernel, kernel.graph, hoisted
        self.piece = joined(pieces)
        self.slots = {} if hoisted else plan.slots
        self.shared, self.constants = len(plan.slots), constants
        self.uses = use_counts(self.graph, self.piece)
        self.sums = _fused(self.graph, self.piece, self.uses, self._is_shared)
        self.inputs = {
            symbol: (number, k)
            for number, argument in enumerate(kernel.arguments)
            for k, symbol in enumerate(argument.symbols)
        }
        self.made: set[int] = set()
        self.found: list[tuple[int, ...]] = []

    def rows(self) -> list[tuple[int, ...]]:
        """Rows of all instructions; an output is stored as soon as it is known."""
        stores: dict[int, list[int]] = {}
        for k, node in self.piece.stores:
            stores.setdefault(node, []).append(k)
        own, inside = set(self.piece.nodes), set(self.sums.values())
        pairs = sines_and_cosines(self.graph, self.piece)
        for node in (n for n in stores if n not in own):
            self._store(node, stores[node])
        for node in self.piece.nodes:
            if node not in inside and node not in self.made:
                self._compute(node, pairs)
            self._store(node, stores.get(node, []))
        return self.found

    def _put(self, op: str, *fields: int) -> None:
        self.found.append((_NUMBER[op], *fields))

    def _is_shared(self, node: int) -> bool:
        """Whether a node is read from what all points share."""
        return node in self.graph.value or node in self.slots

    def _place(self, node: int) -> int:
        """Slot of a shared value or a constant."""
        if node in self.slots:
            return self.slots[node]
        constant = self.constants.setdefault(self.graph.value[node], len(self.constants))
        return self.shared + constant

    def _register(self, node: int) -> int:
        """A node that is in a register from here on."""
        if node not in self.made:
            if self._is_shared(node):
                self._put("spread", node, self._place(node))
            else:
                name = "take" if self.hoisted else "load"
                self._put(name, node, *self.inputs[self.graph.name[node]])
            self.made.add(node)
        return node

    def _store(self, node: int, numbers: Sequence[int]) -> None:
        for k in numbers:
            if self.hoisted:
                self._put("keep", k, self._register(node))
            elif self._is_shared(node):
                self._put("store_s", k, self._place(node))
            else:
                self._put("store", k, self._register(node))

    def _compute(self, node: int, pairs: dict[int, tuple[int, int]]) -> None:
        op, args = self.graph.op[node], self.graph.args[node]
        if node in self.sums:
            self._sum(node)
        elif node in pairs:
            sine, cosine = pairs[node]
            self._put("sincos", sine, self._register(args[0]), 0, 0, cosine)
            self.made |= {sine, cosine}
        elif op in ("add", "sub", "mul", "div") and any(map(self._is_shared, args)):
            self._with_shared(node, op, *args)
        elif op in ("locate", "entry"):
            self._from_table(node, op, args)
        elif op == "pow" and self.graph.value.get(args[1]) in _POWERS:
            self._put(_POWERS[self.graph.value[args[1]]], node, self._register(args[0]))
        else:
            self._put(op, node, *map(self._register, args))
        self.made.add(node)

    def _with_shared(self, node: int, op: str, a: int, b: int) -> None:
        if self._is_shared(b):
            self._put(f"{op}_s", node, self._register(a), self._place(b))
        elif op in ("add", "mul"):
            self._put(f"{op}_s", node, self._register(b), self._place(a))
        else:
            self._put(f"s_{op}", node, self._register(b), self._place(a))

    def _sum(self, node: int) -> None:
        """A sum or difference with a product in it."""
        product = self.sums[node]
        first, second = self.graph.args[node]
        a, b = self.graph.args[product]
        if self._is_shared(a):
            a, b = b, a
        name = "fma"
        if self.graph.op[node] == "sub":
            name = "fms" if product == first else "fnma"
        rest = self._register(second if product == first else first)
        if self._is_shared(b):
            self._put(f"{name}_s", node, self._register(a), self._place(b), rest)
        else:
            self._put(name, node, self._register(a), self._register(b), rest)

    def _from_table(self, node: int, op: str, args: tuple[int, ...]) -> None:
        at, begin, count = self.kernel.in_tables(args)
        self._put(op, node, at, begin, self._register(args[3]), count)


def _fused(
    graph: Graph, piece: Piece, uses: Counter[int], is_shared: Callable[[int], bool]
) -> dict[int, int]:
    """The product within a sum, by sum: one that nothing else uses."""
    own, found = set(piece.nodes), dict[int, int]()
    for node in piece.nodes:
        if graph.op[node] not in ("add", "sub"):
            continue
        for product in graph.args[node]:
            alone = product in own and uses[product] == 1 and graph.op[product] == "mul"
            if alone and not all(map(is_shared, graph.args[product])):
                found[node] = product
                break
    return found


def _placed(rows: Sequence[tuple[int, ...]]) -> tuple[NDArray[np.int32], int]:
    """Instructions with registers for nodes, and how many; one is free after its last use."""
    last: dict[int, int] = {}
    for number, row in enumerate(rows):
        for k in (*_READ[row[0]], *_WRITTEN[row[0]]):
            last[row[k]] = number
    place: dict[int, int] = {}
    free: list[int] = []
    count = 0
    made: list[int] = []
    for number, row in enumerate(rows):
        read, written, values = _READ[row[0]], _WRITTEN[row[0]], [*row]
        for k in read:
            values[k] = place[row[k]]
        for k in read:
            if last[row[k]] == number and row[k] in place:  # it may be read twice
                free.append(place.pop(row[k]))
        for k in written:
            if not free:
                free.append(count)
                count += 1
            values[k] = place[row[k]] = free.pop()
        free.extend(place.pop(row[k]) for k in written if last[row[k]] == number)
        made.extend(values)
        made.extend(_PADDING[len(values)])
    return np.array(made, dtype=np.int32).reshape(-1, _WIDTH), count
