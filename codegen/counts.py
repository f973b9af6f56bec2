"""Counts of the operations of kernels, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kinesym.codegen.graph import LEAVES, Graph

#: Operations by kind; all others are functions.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "additions": ("add", "sub", "neg"),
    "multiplications": ("mul",),
    "divisions": ("div", "inv"),
    "choices": ("select", "min", "max", "lt", "le", "eq", "abs", "sign"),
    "functions": (),
}
_KIND_OF = {op: kind for kind, ops in _KINDS.items() for op in ops}


def counts(graph: Graph, nodes: Iterable[int]) -> dict[str, int]:
    """Number of operations of nodes, by kind."""
    found = dict.fromkeys(_KINDS, 0)
    for node in nodes:
        op = graph.op[node]
        if op not in LEAVES:
            found[_KIND_OF.get(op, "functions")] += 1
    return found


def counted(name: str, kernels: Mapping[str, tuple[int, Mapping[str, int]]]) -> str:
    """Table of a program. kernels : number of outputs and `counts`, by name."""
    head = ("kernel", "outputs", "operations", *_KINDS)
    rows = [
        (kernel, *map(str, (outputs, sum(kinds.values()), *kinds.values())))
        for kernel, (outputs, kinds) in kernels.items()
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in (head, *rows)
    ]
    return "\n".join([f"program {name}, operations at one point", *lines])
