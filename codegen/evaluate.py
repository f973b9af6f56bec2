"""A model becomes the kernels of its own functions: residual, rhs, outputs, their Jacobians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinesym.codegen.derive import jacobian
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import NotExplicit, model_rates
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import t


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

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All but x'."""
        return self.x, self.u, self.p, self.t

    def nodes(self, argument: Argument) -> list[int]:
        """The graph nodes of an argument."""
        return self.graph.symbols(argument.symbols)


def model_symbols(
    model: Model, varying: bool = False, inputs: Sequence[str] | None = None
) -> ModelSymbols:
    """The symbols of `model`; `varying` parameters differ from point to point. inputs : in this
    order, if not in that of the model."""
    g, order = Graph(), model.input_names if inputs is None else inputs
    known = dict(zip(model.input_names, model.inputs, strict=True))
    xdot = Argument("xdot", tuple(f"xdot.{x}" for x in model.state_names))
    x = Argument("x", tuple(f"x.{x}" for x in model.state_names))
    u = Argument("u", tuple(f"u.{u}" for u in order))
    p = Argument("p", tuple(f"p.{p}" for p in model.parameter_names), varying)
    table = {t: g.symbol("t.time")}
    for symbols, group in (
        (model.derivatives, xdot),
        (model.states, x),
        ([known[name] for name in order], u),
        (model.parameters, p),
    ):
        table.update(zip(symbols, g.symbols(group.symbols), strict=True))
    lower = Lowering(g, table)
    lower.define(model.intermediates)
    return ModelSymbols(g, xdot, x, u, p, Argument("t", ("t.time",)), lower)


@dataclass(frozen=True)
class _Parts:
    """What functions and Jacobians of a model share."""

    s: ModelSymbols
    every: tuple[Argument, ...]
    functions: dict[str, list[int]]
    labels: dict[str, tuple[str, ...]]


def _parts(model: Model) -> _Parts:
    s = model_symbols(model)
    lower = s.lower
    return _Parts(
        s,
        (s.xdot, *s.arguments),
        {
            "residual": [lower(e) for e in model.equations],
            "outputs": [lower(e) for e in model.outputs.values()],
        },
        {
            "residual": tuple(f"equation {i}" for i in range(len(model.equations))),
            "outputs": tuple(model.outputs),
        },
    )


def model_functions(model: Model) -> Program:
    """Kernels `residual`, `outputs` and `rhs` (if x' can be solved for).

    Arguments are xdot (n), x (n), u (m), p (r, uniform) and t; `rhs` has no xdot.
    """
    parts = _parts(model)
    g, s = parts.s.graph, parts.s
    purposes = {"residual": "0 = f(x', x, u, p, t)", "outputs": "y = g(x', x, u, p, t)"}
    kernels = [
        Kernel(of, g, parts.every, tuple(nodes), parts.labels[of], purposes[of])
        for of, nodes in parts.functions.items()
        if nodes
    ]
    explicit, reason = True, ""
    try:
        rates = model_rates(model, s.lower, s.nodes(s.xdot))
        names = tuple(f"{name}'" for name in model.state_names)
        kernels.append(Kernel("rhs", g, s.arguments, tuple(rates), names, "x' = f(x, u, p, t)"))
    except NotExplicit as error:
        explicit, reason = False, str(error)
    return Program(
        model.name,
        tuple(kernels),
        {
            "functions": {
                "model": model.name,
                "states": list(model.state_names),
                "inputs": list(model.input_names),
                "parameters": list(model.parameter_names),
                "outputs": list(model.outputs),
                "values": dict(model.values),
                "explicit": explicit,
                "reason": reason,
            }
        },
    )


def model_jacobians(model: Model) -> Program:
    """All Jacobians of residual and outputs: kernels `residual_states`, `outputs_inputs` and so on.

    Only entries that are not identically zero are outputs; their places are in the description.
    """
    parts = _parts(model)
    g, s = parts.s.graph, parts.s
    groups = {"derivatives": s.xdot, "states": s.x, "inputs": s.u, "parameters": s.p}
    kernels: list[Kernel] = []
    patterns: dict[str, list[list[int]]] = {}
    for of, outputs in parts.functions.items():
        for wrt, group in groups.items():
            name = f"{of}_{wrt}"
            entries = jacobian(g, outputs, s.nodes(group))
            patterns[name] = [[i for i, _ in entries], [j for _, j in entries]]
            texts = tuple(f"d {parts.labels[of][i]} / d {group.symbols[j]}" for i, j in entries)
            purpose = f"derivatives of the {of} with respect to the {wrt}"
            kernels.append(Kernel(name, g, parts.every, tuple(entries.values()), texts, purpose))
    named = tuple(k for k in kernels if k.outputs)
    return Program(f"{model.name}_jacobians", named, {"jacobians": {"patterns": patterns}})
