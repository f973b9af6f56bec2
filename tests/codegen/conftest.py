"""A lowered set of SymPy expressions, and its values by the interpreter."""

import numpy as np
import pytest

from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.lower import Lowering


def lowered(symbols, expressions):
    """(graph, nodes of the symbols, nodes of the expressions)"""
    graph = Graph()
    nodes = graph.symbols(f"x.{s}" for s in symbols)
    lower = Lowering(graph, dict(zip(symbols, nodes, strict=True)))
    return graph, nodes, [lower(e) for e in expressions]


def as_kernel(graph, inputs, outputs, name="test"):
    """A kernel with one varying argument `x`, which holds the symbols `inputs`."""
    argument = Argument("x", tuple(graph.name[node] for node in inputs))
    labels = tuple(f"output {k}" for k in range(len(outputs)))
    return Kernel(name, graph, (argument,), tuple(outputs), labels)


def values_of(graph, inputs, outputs, x):
    """Values of `outputs`, (n_outputs, n), at the points x, (n_inputs, n), by the interpreter."""
    x = np.asarray(x)
    return interpret(as_kernel(graph, inputs, outputs), {"x": x}, x.shape[1])


@pytest.fixture(scope="session", name="lowered")
def _lowered():
    return lowered


@pytest.fixture(scope="session", name="as_kernel")
def _as_kernel():
    return as_kernel


@pytest.fixture(scope="session", name="values_of")
def _values_of():
    return values_of
