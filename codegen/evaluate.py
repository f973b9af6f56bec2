"""A model becomes the kernels of its own functions: residual, rhs, outputs, their Jacobians."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import sympy as sp

from kinesym.codegen.derive import jacobian, pattern_of
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import NotExplicit, model_rates
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import t
from kinesym.symbolic.table import Tables


@dataclass(frozen=True)
class ModelSymbols:
    """The symbols of a model at one point in time, as arguments of kernels, and its translator."""

    graph: Graph
    xdot: Argument
    x: Argument
    u: Argument
    p: Argument
    t: Argument
    lower: Lowering
    tables: Argument

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments of kernels besides x'; numbers of tables have one of their own only where
        parameters vary."""
        return self.x, self.u, self.p, self.t, *([self.tables] if self.tables.count else ())

    def nodes(self, argument: Argument) -> list[int]:
        """The graph nodes of an argument."""
        return self.graph.symbols(argument.symbols)


def model_symbols(
    model: Model,
    varying: bool = False,
    inputs: Sequence[str] | None = None,
    tables: Tables | None = None,
) -> ModelSymbols:
    """The symbols of `model`; `varying` parameters differ from point to point. inputs : in this
    order, if not in that of the model; those that it does not have change nothing. tables : theirs,
    if not those of the model alone."""
    tables = model.tables if tables is None else tables
    g, order = Graph(), model.input_names if inputs is None else inputs
    known = dict(zip(model.input_names, model.inputs, strict=True))
    xdot = Argument("xdot", tuple(f"xdot.{x}" for x in model.state_names))
    x = Argument("x", tuple(f"x.{x}" for x in model.state_names))
    u = Argument("u", tuple(f"u.{u}" for u in order))
    names, count = tuple(f"p.{p}" for p in model.parameter_names), len(tables.values)
    p = Argument("p", names, varying, 0 if varying else count)
    own = Argument("tables", (), False, count if varying else 0)
    table = {t: g.symbol("t.time")}
    for symbols, group in (
        (model.derivatives, xdot),
        (model.states, x),
        ([known.get(name, sp.Dummy(name)) for name in order], u),
        (model.parameters, p),
    ):
        table.update(zip(symbols, g.symbols(group.symbols), strict=True))
    lower = Lowering(g, table, tables)
    lower.define(model.intermediates)
    return ModelSymbols(g, xdot, x, u, p, Argument("t", ("t.time",)), lower, own)


def equation_label(model: Model, number: int) -> str:
    """`equation 3 (omega_a')`: its number and the derivative it is about, or its name."""
    if number in model.labels:
        return f"equation {number} ({model.labels[number]})"
    rates = model.equations[number].atoms(sp.Derivative)
    about = [
        f"{name}'"
        for name, rate in zip(model.state_names, model.derivatives, strict=True)
        if rate in rates
    ]
    return f"equation {number} ({', '.join(about[:2])})" if about else f"equation {number}"


def describe_model(model: Model) -> dict[str, object]:
    """Names and default values of a model, for the runtime."""
    return {
        "model": model.name,
        "states": list(model.state_names),
        "inputs": list(model.input_names),
        "parameters": list(model.parameter_names),
        "outputs": list(model.outputs),
        "values": dict(model.values),
    }


def _functions(model: Model, s: ModelSymbols) -> dict[str, tuple[list[int], tuple[str, ...]]]:
    """Nodes and labels of residual and outputs."""
    equations, outputs = list(model.equations), model.outputs
    labels = tuple(f"equation {i}" for i in range(len(equations)))
    return {
        "residual": ([s.lower(e) for e in equations], labels),
        "outputs": ([s.lower(e) for e in outputs.values()], tuple(outputs)),
    }


def rhs_kernel(model: Model, s: ModelSymbols) -> Kernel:
    """The kernel `rhs` of x'; raises `NotExplicit` if the equations do not determine it."""
    rates = tuple(model_rates(model, s.lower, s.nodes(s.xdot)))
    labels = tuple(f"{name}'" for name in model.state_names)
    return Kernel("rhs", s.graph, s.arguments, rates, labels, "x' = f(x, u, p, t)")


def model_functions(model: Model, symbols: ModelSymbols | None = None) -> Program:
    """Kernels `residual`, `outputs` and `rhs` (if x' can be solved for).

    Arguments are xdot (n), x (n), u (m), p (r, uniform) and t; `rhs` has no xdot. symbols : those
    of the model, if there are any.
    """
    s = model_symbols(model) if symbols is None else symbols
    g = s.graph
    purposes = {"residual": "0 = f(x', x, u, p, t)", "outputs": "y = g(x', x, u, p, t)"}
    kernels = [
        Kernel(of, g, (s.xdot, *s.arguments), tuple(nodes), labels, purposes[of])
        for of, (nodes, labels) in _functions(model, s).items()
        if nodes
    ]
    explicit, reason = True, ""
    try:
        kernels.append(rhs_kernel(model, s))
    except NotExplicit as error:
        explicit, reason = False, str(error)
    about = {**describe_model(model), "explicit": explicit, "reason": reason}
    return Program(model.name, tuple(kernels), {"functions": about}, model.tables.values)


def model_outputs(model: Model, inputs: Iterable[str] | None = None) -> Program:
    """The kernel `outputs` alone, for a model whose equations are of no use; inputs in this order,
    if not in that of the model."""
    order = model.input_names if inputs is None else tuple(inputs)
    s = model_symbols(model, inputs=order)
    nodes, labels = _functions(model, s)["outputs"]
    arguments = (s.xdot, *s.arguments)
    kernel = Kernel("outputs", s.graph, arguments, tuple(nodes), labels, "y = g(x', x, u, p, t)")
    about = {**describe_model(model), "inputs": list(order), "explicit": False, "reason": ""}
    return Program(model.name, (kernel,), {"functions": about}, model.tables.values)


def model_jacobians(
    model: Model, symbols: ModelSymbols | None = None, only: Collection[str] | None = None
) -> Program:
    """Jacobians of residual and outputs: kernels `residual_states`, `outputs_inputs` and so on.

    Only entries that are not identically zero are outputs; their places are in the description.
    symbols : those of the model, if there are any. only : names of the kernels, if not all.
    """
    s = model_symbols(model) if symbols is None else symbols
    g, every = s.graph, (s.xdot, *s.arguments)
    groups = {"derivatives": s.xdot, "states": s.x, "inputs": s.u, "parameters": s.p}
    kernels: list[Kernel] = []
    patterns: dict[str, list[list[int]]] = {}
    for of, (outputs, names) in _functions(model, s).items():
        for wrt, group in groups.items():
            name = f"{of}_{wrt}"
            if only is not None and name not in only:
                continue
            entries = jacobian(g, outputs, s.nodes(group))
            patterns[name] = pattern_of(entries)
            texts = tuple(f"d {names[i]} / d {group.symbols[j]}" for i, j in entries)
            purpose = f"derivatives of the {of} with respect to the {wrt}"
            kernels.append(Kernel(name, g, every, tuple(entries.values()), texts, purpose))
    named = tuple(k for k in kernels if k.outputs)
    about = {"jacobians": {"patterns": patterns}}
    return Program(f"{model.name}_jacobians", named, about, model.tables.values)
