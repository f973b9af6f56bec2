"""The types that leave the code generator."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.notebook import Displayed
from kinesym.codegen.counts import counted, counts
from kinesym.codegen.graph import LEAVES, Graph
from kinesym.codegen.order import Order, ordered

#: Version of the binary interface in `runtime/native/c/include/kinesym.h`.
ABI = 11


@dataclass(frozen=True)
class Argument:
    """One group of scalars that a kernel reads.

    `symbols` are the graph symbols in order. A `varying` argument has one value per point, at
    `data[k * ld + i]`; a uniform one has one value for all points. tables : how many numbers of
    tables follow in a uniform one.
    """

    name: str
    symbols: tuple[str, ...]
    varying: bool = True
    tables: int = 0

    @property
    def count(self) -> int:
        """Number of scalars."""
        return len(self.symbols) + self.tables


@dataclass(frozen=True)
class Kernel:
    """A function mapped over points: `outputs[k]` at point i from the arguments at point i.

    A point is a collocation interval, a node, a sample or an ensemble member. `labels` say in
    words what each output is; they appear in the generated C and in diagnostics.
    """

    name: str
    graph: Graph
    arguments: tuple[Argument, ...]
    outputs: tuple[int, ...]
    labels: tuple[str, ...]
    purpose: str = ""

    def __post_init__(self) -> None:
        if len(self.outputs) != len(self.labels):
            raise ValueError(f"kernel {self.name}: one label per output is needed")

    @cached_property
    def nodes(self) -> list[int]:
        """The nodes that the outputs need, operands first."""
        return self.graph.ancestors(self.outputs)

    @cached_property
    def order(self) -> Order:
        """Order in which nodes are computed, and the nodes that are hoisted out of the loop over
        points."""
        names = {s for a in self.arguments if a.varying for s in a.symbols}
        return ordered(self.graph, self.nodes, self.outputs, names)

    @cached_property
    def operations(self) -> int:
        """Number of arithmetic operations and function calls per point."""
        return sum(self.graph.op[node] not in LEAVES for node in self.nodes)

    def in_tables(self, args: Sequence[int]) -> tuple[int, int, int]:
        """Number of the argument that has tables, the place in it of the data that the operands of
        a node (see `Graph.locate`) tell, and the second number that these tell."""
        at, argument = next((k, a) for k, a in enumerate(self.arguments) if a.tables)
        begin, count = (int(self.graph.value[a]) for a in args[1:3])
        return at, len(argument.symbols) + begin, count

    @property
    def content(self) -> Iterator[object]:
        """Content of the kernel as numbers and text."""
        graph, nodes = self.graph, self.nodes
        yield from (self.name, self.purpose, self.arguments, self.outputs, self.labels, nodes)
        yield [graph.op[node] for node in nodes]
        yield [graph.args[node] for node in nodes]
        yield [graph.value.get(n, graph.name.get(n)) for n in nodes if not graph.args[n]]


@dataclass(frozen=True, repr=False)
class Program(Displayed):
    """Kernels that are built into one library, with their description for the runtime.

    tables : the numbers of tables, which are not compiled in. Its `str` is a table of the
    operations of each kernel at one point.
    """

    name: str
    kernels: tuple[Kernel, ...]
    description: Mapping[str, Any] = field(default_factory=dict)
    tables: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), compare=False)

    @cached_property
    def manifest(self) -> str:
        """Manifest of the kernels for the runtime, in JSON."""
        kernels = {
            k.name: {
                "arguments": [a.name for a in k.arguments],
                "counts": [a.count for a in k.arguments],
                "varying": [a.varying for a in k.arguments],
                "outputs": list(k.labels),
                "operations": k.operations,
            }
            for k in self.kernels
        }
        return json.dumps({"abi": ABI, "name": self.name, "kernels": kernels, **self.description})

    def __str__(self) -> str:
        rows = {k.name: (len(k.outputs), counts(k.graph, k.nodes)) for k in self.kernels}
        return counted(self.name, rows)

    def __repr__(self) -> str:
        return f"<program {self.name}: {len(self.kernels)} kernels>"

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name`."""
        return next(k for k in self.kernels if k.name == name)


@dataclass(frozen=True)
class Source:
    """C translation units by file name, and the manifest (JSON) that describes the library.

    Equal programs give equal bytes.
    """

    files: Mapping[str, str]
    manifest: str
