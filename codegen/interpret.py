"""A slow evaluator of kernels: the twin of the generated C that needs no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Kernel


def evaluate_nodes(
    graph: Graph, nodes: list[int], symbols: Mapping[str, Any]
) -> dict[int, NDArray[Any]]:
    """Values of `nodes` (operands first) given the values of the symbols, real or complex, and
    "data" of tables."""
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for node in nodes:
            op = graph.op[node]
            if op == "const":
                values[node] = np.float64(graph.value[node])
            elif op == "sym":
                values[node] = symbols[graph.name[node]]
            elif op == "data":
                values[node] = symbols["data"]
            else:
                values[node] = graph.operations[op].value(*(values[a] for a in graph.args[node]))
    return values


def bind(kernel: Kernel, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Values by symbol from `arrays` by argument name: (count, n) varying, (count,) uniform; and
    "data" of tables."""
    found: dict[str, Any] = {}
    for argument in kernel.arguments:
        rows = np.asarray(arrays[argument.name])
        found |= {symbol: rows[k] for k, symbol in enumerate(argument.symbols)}
        if argument.tables:
            found["data"] = rows[len(argument.symbols) :]
    return found


def interpret(kernel: Kernel, arrays: Mapping[str, Any], n: int) -> NDArray[Any]:
    """Outputs of `kernel` at `n` points, shape (n_outputs, n)."""
    values = evaluate_nodes(kernel.graph, kernel.nodes, bind(kernel, arrays))
    if not kernel.outputs:
        return np.zeros((0, n))
    return np.stack([np.broadcast_to(values[node], (n,)) for node in kernel.outputs])


def first_failure(kernel: Kernel, output: int, arrays: Mapping[str, Any]) -> str | None:
    """The first subexpression of output number `output` that is not finite, as text.

    `arrays` hold one point. None if everything is finite.
    """
    graph = kernel.graph
    nodes = graph.ancestors([kernel.outputs[output]])
    values = evaluate_nodes(graph, nodes, bind(kernel, arrays))
    for node in nodes:
        if graph.op[node] not in ("const", "data") and not np.all(np.isfinite(values[node])):
            if node in graph.note:
                return graph.note[node]
            operands = ", ".join(
                f"{describe(graph, a)} = {float(np.real(np.ravel(values[a])[0])):.6g}"
                for a in graph.args[node]
            )
            where = f" where {operands}" if operands else ""
            words = f"{describe(graph, node)} is {float(np.ravel(values[node])[0])}{where}"
            return words + _KINK if _is_at_kink(graph, node) else words
    return None


#: Remedy where a distance is zero.
_KINK = " (a square root has no slope where it is 0: smooth it, as sqrt(... + eps**2))"


def _is_at_kink(graph: Graph, node: int) -> bool:
    """Whether a node that is not finite divides by a square root."""
    op, args = graph.op[node], graph.args[node]
    return op in ("inv", "div") and graph.op[args[-1]] == "sqrt"


def describe(graph: Graph, node: int, depth: int = 3) -> str:
    """`node` as readable text, cut off below `depth` levels."""
    op, args = graph.op[node], graph.args[node]
    if op == "const":
        return f"{graph.value[node]:.6g}"
    if op == "sym":
        return graph.name[node]
    if depth == 0 or op == "data":
        return "..."
    parts = [describe(graph, a, depth - 1) for a in args]
    shown = graph.operations[op].shown or f"{op}({', '.join(['{}'] * len(parts))})"
    return shown.format(*parts)
