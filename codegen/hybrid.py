"""A hybrid model becomes the kernels of its simulation; the loop itself is in `runtime/hybrid`."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from kinesym.codegen.derive import jacobian
from kinesym.codegen.evaluate import Point
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import model_rates
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.names import name_of, t


def hybrid_program(hybrid: Hybrid) -> Program:
    """Kernels `smooth` x', `guards`, `resets` and `contact`, all of (x, u, p, t).

    u : inputs that are given, modes, contact forces. `contact`: heights and their rates, rates
    along the ground, accelerations without forces b, then row by row W = d accelerations / d forces
    and B = d x' / d forces and G = d heights and places / d x.

    Raises `codegen.solve.NotExplicit` if x' cannot be solved for.
    """
    model, point = hybrid.model, _point(hybrid)
    g, lower = point.graph, point.lower
    arguments = (point.x, point.u, point.p, point.t)
    rates = model_rates(model, lower, point.nodes(point.xdot))
    labels = tuple(f"{x}'" for x in model.state_names)
    kernels = [Kernel("smooth", g, arguments, tuple(rates), labels, "x' with contact forces")]
    explicit = dict(zip(point.nodes(point.xdot), rates, strict=True))

    def lowered(expressions: Sequence[sp.Expr]) -> list[int]:
        return g.substitute([lower(sp.sympify(e)) for e in expressions], explicit)

    if hybrid.events:
        guards = lowered([e.guard for e in hybrid.events] + [e.when for e in hybrid.events])
        names = [e.name for e in hybrid.events]
        kernels.append(Kernel("guards", g, arguments, tuple(guards),
                              tuple(names) + tuple(f"{n}, armed" for n in names)))  # fmt: skip
    changes = [(name_of(target), e) for event in hybrid.events
               for target, e in (*event.resets.items(), *event.sets.items())]  # fmt: skip
    if changes:
        kernels.append(Kernel("resets", g, arguments, tuple(lowered([e for _, e in changes])),
                              tuple(name for name, _ in changes)))  # fmt: skip
    if hybrid.contacts:
        kernels.append(_contact(hybrid, point, rates))
    values = [lower(e) for e in model.outputs.values()]
    if values:
        every = (point.xdot, *arguments)
        kernels.append(Kernel("outputs", g, every, tuple(values), tuple(model.outputs)))
    description = _description(hybrid)
    description["sizes"] = {kernel.name: len(kernel.outputs) for kernel in kernels}
    return Program(f"{model.name}_hybrid", tuple(kernels), {"hybrid": description})


def _point(hybrid: Hybrid) -> Point:
    """Symbols of the model, with inputs that are given before modes before forces."""
    model, g = hybrid.model, Graph()
    order = (*hybrid.given, *hybrid.modes, *hybrid.forces)
    by_name = {name_of(u): u for u in model.inputs}
    xdot = Argument("xdot", tuple(f"xdot.{x}" for x in model.state_names))
    x = Argument("x", tuple(f"x.{x}" for x in model.state_names))
    u = Argument("u", tuple(f"u.{name}" for name in order))
    p = Argument("p", tuple(f"p.{p}" for p in model.parameter_names), False)
    table = {t: g.symbol("t.time")}
    for symbols, group in ((model.derivatives, xdot), (model.states, x),
                           ([by_name[name] for name in order], u),
                           (model.parameters, p)):  # fmt: skip
        table.update(zip(symbols, g.symbols(group.symbols), strict=True))
    lower = Lowering(g, table)
    lower.define(model.intermediates)
    return Point(g, xdot, x, u, p, Argument("t", ("t.time",)), lower)


def _contact(hybrid: Hybrid, point: Point, rates: list[int]) -> Kernel:
    g, states = point.graph, point.nodes(point.x)
    heights = [point.lower(sp.sympify(c.height)) for c in hybrid.contacts]
    places = [point.lower(sp.sympify(c.place)) for c in hybrid.tangential]
    forces = point.nodes(point.u)[len(point.u.symbols) - len(hybrid.forces) :]
    free = g.substitute(rates, dict.fromkeys(forces, g.zero))
    slopes = jacobian(g, [*heights, *places], states)
    rows, n = range(len(forces)), len(states)
    speeds = [g.sum([g.mul(node, free[j]) for (i, j), node in slopes.items() if i == row])
              for row in rows]  # fmt: skip
    turn = jacobian(g, speeds, states)
    b = [g.sum([g.mul(node, free[j]) for (i, j), node in turn.items() if i == row])
         for row in rows]  # fmt: skip
    B = jacobian(g, rates, forces)
    W = [g.sum([g.mul(node, B[j, k]) for (i, j), node in turn.items() if i == row and (j, k) in B])
         for row in rows for k in rows]  # fmt: skip
    outputs = [*heights, *speeds, *b, *W, *(B.get((j, k), g.zero) for j in range(n) for k in rows),
               *(slopes.get((i, j), g.zero) for i in rows for j in range(n))]  # fmt: skip
    names = [*(c.name for c in hybrid.contacts), *(f"{c.name} along" for c in hybrid.tangential)]
    labels = [f"height of {c.name}" for c in hybrid.contacts]
    labels += [f"{what} of {name}" for what in ("rate", "free acceleration") for name in names]
    labels += [f"acceleration of {a} from {b}" for a in names for b in names]
    labels += [f"{x}' from {a}" for x in hybrid.model.state_names for a in names]
    labels += [f"d {a} / d {x}" for a in names for x in hybrid.model.state_names]
    arguments = (point.x, point.u, point.p, point.t)
    return Kernel("contact", g, arguments, tuple(outputs), tuple(labels), "contacts")


def _description(hybrid: Hybrid) -> dict[str, object]:
    model = hybrid.model
    states, modes = model.state_names, tuple(hybrid.modes)
    targets, first = [], [0]
    for event in hybrid.events:
        targets += [states.index(name_of(x)) for x in event.resets]
        targets += [len(states) + modes.index(name_of(d)) for d in event.sets]
        first.append(len(targets))
    tangential = [c.name for c in hybrid.tangential]
    return {
        "model": model.name,
        "states": list(states),
        "inputs": list(hybrid.given),
        "modes": dict(hybrid.modes),
        "parameters": list(model.parameter_names),
        "outputs": list(model.outputs),
        "values": dict(model.values),
        "events": [{"name": e.name, "direction": e.direction, "scale": e.scale, "level": e.level,
                    "stop": e.stop} for e in hybrid.events],
        "targets": targets,
        "first_target": first,
        "contacts": [{"name": c.name, "law": c.law, "restitution": c.restitution,
                      "friction_coefficient": c.friction_coefficient,
                      "row": len(hybrid.contacts) + tangential.index(c.name)
                      if c.name in tangential else -1} for c in hybrid.contacts],
    }  # fmt: skip
