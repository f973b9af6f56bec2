"""A model becomes the kernels of its own functions: residual, rhs, outputs, their Jacobians."""

from __future__ import annotations

from dataclasses import dataclass

from kinesym.codegen.derive import jacobian
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import NotExplicit, model_rates
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import t


@dataclass(frozen=True)
class Point:
    """The symbols of a model at one point in time, as arguments of kernels, and its translator."""

    graph: Graph
    xdot: Argument
    x: Argument
    u: Argument
    p: Argument
    t: Argument
    lower: Lowering

    def nodes(self, argument: Argument) -> list[int]:
        """The graph nodes of an argument."""
        return self.graph.symbols(argument.symbols)


def model_point(model: Model, varying: bool = False) -> Point:
    """A point of `model`; `varying` parameters differ from point to point."""
    g = Graph()
    xdot = Argument("xdot", tuple(f"xdot.{x}" for x in model.state_names))
    x = Argument("x", tuple(f"x.{x}" for x in model.state_names))
    u = Argument("u", tuple(f"u.{u}" for u in model.input_names))
    p = Argument("p", tuple(f"p.{p}" for p in model.parameter_names), varying)
    table = {t: g.symbol("t.time")}
    for symbols, group in ((model.derivatives, xdot), (model.states, x), (model.inputs, u),
                           (model.parameters, p)):  # fmt: skip
        table.update(zip(symbols, g.symbols(group.symbols), strict=True))
    lower = Lowering(g, table)
    lower.define(model.intermediates)
    return Point(g, xdot, x, u, p, Argument("t", ("t.time",)), lower)


def model_functions(model: Model) -> Program:
    """Kernels `residual`, `outputs`, `rhs` (if x' can be solved for) and all Jacobians.

    Arguments are xdot (n), x (n), u (m), p (r, uniform) and t; `rhs` has no xdot. Jacobians are
    called `residual_states`, `outputs_inputs` and so on; only entries that are not identically zero
    are outputs, their places are in the description.
    """
    point = model_point(model)
    g, lower, xdot, x, u, p, time = (
        point.graph, point.lower, point.xdot, point.x, point.u, point.p, point.t
    )  # fmt: skip
    groups = {"derivatives": xdot, "states": x, "inputs": u, "parameters": p}
    nodes = {name: point.nodes(group) for name, group in groups.items()}
    functions = {
        "residual": [lower(e) for e in model.equations],
        "outputs": [lower(e) for e in model.outputs.values()],
    }
    labels = {
        "residual": [f"equation {i}" for i in range(len(model.equations))],
        "outputs": list(model.outputs),
    }
    every = (xdot, x, u, p, time)
    kernels: list[Kernel] = []
    patterns: dict[str, list[list[int]]] = {}
    for of, outputs in functions.items():
        purpose = "0 = f(x', x, u, p, t)" if of == "residual" else "y = g(x', x, u, p, t)"
        kernels.append(Kernel(of, g, every, tuple(outputs), tuple(labels[of]), purpose))
        for wrt in groups:
            name = f"{of}_{wrt}"
            entries = jacobian(g, outputs, nodes[wrt])
            patterns[name] = [[i for i, _ in entries], [j for _, j in entries]]
            texts = tuple(f"d {labels[of][i]} / d {groups[wrt].symbols[j]}" for i, j in entries)
            purpose = f"derivatives of the {of} with respect to the {wrt}"
            kernels.append(Kernel(name, g, every, tuple(entries.values()), texts, purpose))
    explicit, reason = True, ""
    try:
        rates = model_rates(model, lower, nodes["derivatives"])
        names = tuple(f"{name}'" for name in model.state_names)
        kernels.append(Kernel("rhs", g, (x, u, p, time), tuple(rates), names, "x' = f(x, u, p, t)"))
    except NotExplicit as error:
        explicit, reason = False, str(error)
    return Program(model.name, tuple(k for k in kernels if k.outputs), {
        "functions": {
            "states": list(model.state_names),
            "inputs": list(model.input_names),
            "parameters": list(model.parameter_names),
            "outputs": list(model.outputs),
            "values": dict(model.values),
            "jacobians": patterns,
            "explicit": explicit,
            "reason": reason,
        }
    })  # fmt: skip
