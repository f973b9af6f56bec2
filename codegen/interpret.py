"""A slow evaluator of kernels: the twin of the generated C that needs no compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, erfc

from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Kernel

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "inv": lambda a: 1.0 / a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "select": lambda c, a, b: np.where(c != 0.0, a, b),
    "lt": lambda a, b: np.where(np.real(a) < np.real(b), 1.0, 0.0),
    "le": lambda a, b: np.where(np.real(a) <= np.real(b), 1.0, 0.0),
    "eq": lambda a, b: np.where(np.real(a) == np.real(b), 1.0, 0.0),
    "min": lambda a, b: np.where((np.real(b) < np.real(a)) | (b != b), b, a),
    "max": lambda a, b: np.where((np.real(a) < np.real(b)) | (b != b), b, a),
    "abs": lambda a: np.where(np.real(a) < 0.0, -a, a),  # analytic, for the complex step
    "sign": lambda a: np.sign(np.real(a)),
    "floor": lambda a: np.floor(np.real(a)),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": lambda y, x: _atan2(y, x),
    "mod": lambda x, y: _mod(x, y),
    "erf": erf,
    "erfc": erfc,
    "locate": lambda data, begin, count, x: _locate(data, int(begin), int(count), np.real(x)),
    "entry": lambda data, begin, step, k: data[np.asarray(begin + step * k, dtype=np.intp)],
}


def _locate(data: NDArray[Any], begin: int, count: int, x: Any) -> Any:
    found = np.searchsorted(data[begin + 1 : begin + 1 + count], x, side="right")
    return np.where(np.isnan(x), 0.0, found)


def _atan2(y: Any, x: Any) -> Any:
    """arctan2, continued analytically to first order in the imaginary parts."""
    a, b = np.real(y), np.real(x)
    value = np.arctan2(a, b)
    if np.iscomplexobj(y) or np.iscomplexobj(x):
        return value + 1j * (b * np.imag(y) - a * np.imag(x)) / (a**2 + b**2)
    return value


def _mod(x: Any, y: Any) -> Any:
    """np.mod, continued analytically."""
    a, b = np.real(x), np.real(y)
    value = np.mod(a, b)
    if np.iscomplexobj(x) or np.iscomplexobj(y):
        return value + 1j * (np.imag(x) - np.rint((a - value) / b) * np.imag(y))
    return value


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
                function = _OPERATIONS.get(op) or getattr(np, op)
                values[node] = function(*(values[a] for a in graph.args[node]))
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
    """All outputs of `kernel` at `n` points, shape (n_outputs, n)."""
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


#: What to do where a distance is zero.
_KINK = " (a square root has no slope where it is 0: smooth it, as sqrt(... + eps**2))"


def _is_at_kink(graph: Graph, node: int) -> bool:
    """Whether a node that is not finite divides by a square root."""
    op, args = graph.op[node], graph.args[node]
    return op in ("inv", "div") and graph.op[args[-1]] == "sqrt"


_INFIX = {
    "add": " + ",
    "sub": " - ",
    "mul": "*",
    "div": "/",
    "lt": " < ",
    "le": " <= ",
    "eq": " == ",
}


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
    if op in _INFIX:
        return f"({_INFIX[op].join(parts)})"
    return {"neg": f"-{parts[0]}", "inv": f"1/{parts[0]}"}.get(op, f"{op}({', '.join(parts)})")
