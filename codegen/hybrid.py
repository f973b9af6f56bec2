"""A hybrid model becomes the kernels of its simulation; the loop itself is in `runtime/hybrid`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

from kinesym.codegen.derive import jacobian
from kinesym.codegen.evaluate import Point
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import NotExplicit, linearised_rates, model_rates
from kinesym.codegen.touch import Touch, products, touch
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.schemes import EXPLICIT


def hybrid_program(hybrid: Hybrid) -> Program:
    """Kernels `smooth` x', `guards`, `resets` and `contact`, all of (x, u, p, t).

    u : inputs that are given, modes, contact forces. `contact`: heights and their rates, rates
    along the ground, accelerations without forces b, then row by row W = d accelerations / d forces
    and B = d x' / d forces and G = d heights and places / d x.

    Raises `ValueError` if x' cannot be solved for.
    """
    model, point = hybrid.model, _point(hybrid)
    g = point.graph
    arguments = (point.x, point.u, point.p, point.t)
    rates, lowered = _lowered(hybrid, point)
    labels = tuple(f"{x}'" for x in model.state_names)
    kernels = [Kernel("smooth", g, arguments, tuple(rates), labels, "x' with contact forces")]
    if hybrid.events:
        guards = lowered([e.guard for e in hybrid.events] + [e.when for e in hybrid.events])
        names = [e.name for e in hybrid.events]
        kernels.append(
            Kernel(
                "guards",
                g,
                arguments,
                tuple(guards),
                tuple(names) + tuple(f"{n}, armed" for n in names),
            )
        )
    changes = _changes(hybrid)
    if changes:
        kernels.append(
            Kernel(
                "resets",
                g,
                arguments,
                tuple(lowered([e for _, e in changes])),
                tuple(name for name, _ in changes),
            )
        )
    if hybrid.contacts:
        kernels.append(_contact(hybrid, point, _touch(hybrid, point, rates)))
    values = [point.lower(e) for e in model.outputs.values()]
    moving = set(point.nodes(point.xdot)) & set(g.ancestors(values))
    if values:
        every = (point.xdot, *arguments) if moving else arguments
        kernels.append(Kernel("outputs", g, every, tuple(values), tuple(model.outputs)))
    description = _description(hybrid)
    description["outputs_move"] = bool(moving)
    description["sizes"] = {kernel.name: len(kernel.outputs) for kernel in kernels}
    return Program(f"{model.name}_hybrid", tuple(kernels), {"hybrid": description})


def _lowered(
    hybrid: Hybrid, point: Point
) -> tuple[list[int], Callable[[Sequence[sp.Expr]], list[int]]]:
    """Nodes of x', and what makes nodes of expressions, x' in them solved for."""
    try:
        rates = model_rates(hybrid.model, point.lower, point.nodes(point.xdot))
    except NotExplicit as error:
        raise ValueError(
            f"model {hybrid.model.name} has no explicit derivatives, which events and "
            f"contacts need: {error}; differentiate its algebraic equations, or give "
            "what they hold up a mass"
        ) from error
    explicit = dict(zip(point.nodes(point.xdot), rates, strict=True))

    def lowered(expressions: Sequence[sp.Expr]) -> list[int]:
        nodes = [point.lower(e) for e in expressions]
        return list(point.graph.substitute(nodes, explicit))

    return list(rates), lowered


def _changes(hybrid: Hybrid) -> list[tuple[str, sp.Expr]]:
    """What events set to what, in order."""
    return [
        (name_of(target), e)
        for event in hybrid.events
        for target, e in (*event.resets.items(), *event.sets.items())
    ]


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
    for symbols, group in (
        (model.derivatives, xdot),
        (model.states, x),
        ([by_name[name] for name in order], u),
        (model.parameters, p),
    ):
        table.update(zip(symbols, g.symbols(group.symbols), strict=True))
    lower = Lowering(g, table)
    lower.define(model.intermediates)
    return Point(g, xdot, x, u, p, Argument("t", ("t.time",)), lower)


def _touch(hybrid: Hybrid, point: Point, rates: list[int]) -> Touch:
    forces = _forces(hybrid, point)
    return touch(point.lower, hybrid.contacts, point.nodes(point.x), rates, forces)


def _forces(hybrid: Hybrid, point: Point) -> list[int]:
    return point.nodes(point.u)[len(point.u.symbols) - len(hybrid.forces) :]


def _contact(hybrid: Hybrid, point: Point, found: Touch) -> Kernel:
    g, rows, n = point.graph, range(len(hybrid.forces)), len(point.x.symbols)
    outputs = [
        *found.heights,
        *found.speeds,
        *found.b,
        *(found.W[i, k] for i in rows for k in rows),
        *(found.B.get((j, k), g.zero) for j in range(n) for k in rows),
        *(found.slopes.get((i, j), g.zero) for i in rows for j in range(n)),
    ]
    names = [*(c.name for c in hybrid.contacts), *(f"{c.name} along" for c in hybrid.tangential)]
    labels = [f"height of {c.name}" for c in hybrid.contacts]
    labels += [f"{what} of {name}" for what in ("rate", "free acceleration") for name in names]
    labels += [f"acceleration of {a} from {b}" for a in names for b in names]
    labels += [f"{x}' from {a}" for x in hybrid.model.state_names for a in names]
    labels += [f"d {a} / d {x}" for a in names for x in hybrid.model.state_names]
    arguments = (point.x, point.u, point.p, point.t)
    return Kernel("contact", g, arguments, tuple(outputs), tuple(labels), "contacts")


def slopes_program(hybrid: Hybrid) -> Program:
    """Kernels of first derivatives with respect to (x, u, p, t), entries that are not identically
    zero: `smooth_slopes`, see below, `guard_slopes`, `reset_slopes`, and `touch_slopes` of heights,
    rates of heights and places, and, forces being impulses, of the changes W f of these rates and
    B f of x.
    """
    point = _point(hybrid)
    g = point.graph
    rates, lowered = _lowered(hybrid, point)
    arguments = (point.x, point.u, point.p, point.t)
    wrt = [node for group in arguments for node in point.nodes(group)]
    of = {
        "guard_slopes": lowered([e.guard for e in hybrid.events]),
        "reset_slopes": lowered([e for _, e in _changes(hybrid)]),
    }
    found = _touch(hybrid, point, rates) if hybrid.contacts else None
    if found:
        forces = _forces(hybrid, point)
        push, jump = found.push(g, forces), found.jump(g, forces, len(rates))
        of["touch_slopes"] = [*found.heights, *found.speeds, *push, *jump]
    smooth, places = _smooth_slopes(hybrid, point, rates, wrt, found)
    kernels, structure = [smooth], {"smooth_slopes": places}
    for name, values in of.items():
        entries = jacobian(g, values, wrt)
        structure[name] = _places(list(entries))
        if entries:
            labels = tuple(f"{i}, {j}" for i, j in entries)
            kernels.append(Kernel(name, g, arguments, tuple(entries.values()), labels))
    return Program(f"{hybrid.model.name}_slopes", tuple(kernels), {"slopes": structure})


def _smooth_slopes(
    hybrid: Hybrid, point: Point, rates: list[int], wrt: list[int], found: Touch | None
) -> tuple[Kernel, dict[str, list[int]]]:
    """x', then what its derivatives follow from, see `codegen.solve.Linearised`: entries of the
    side in rows of states; below them those of the accelerations of contacts, where x' are columns
    of their own after (x, u, p, t); then the steps of M^-1."""
    model, g, xdot = hybrid.model, point.graph, point.nodes(point.xdot)
    residual = (
        [g.sub(v, rate) for v, rate in zip(xdot, rates, strict=True)]
        if model.explicit
        else [point.lower(e) for e in model.equations]
    )
    smooth = linearised_rates(g, residual, xdot, model.state_names, wrt)
    entries = dict(sorted(smooth.side.items()))
    if found:
        turn = jacobian(g, found.speeds, point.nodes(point.x))
        moved = products(g, turn, dict(enumerate(xdot)), len(found.speeds))
        below = jacobian(g, moved, [*wrt, *xdot])
        values = g.substitute(list(below.values()), dict(zip(xdot, smooth.rates, strict=True)))
        entries |= {(len(rates) + i, j): node for (i, j), node in zip(below, values, strict=True)}
    labels = [f"{x}'" for x in model.state_names] + [f"{i}, {j}" for i, j in entries]
    labels += [f"solution, {i} from {j}" for i, j, _ in smooth.steps]
    outputs = (*smooth.rates, *entries.values(), *(node for _, _, node in smooth.steps))
    arguments = (point.x, point.u, point.p, point.t)
    places = _places(list(entries)) | {
        "targets": [i for i, _, _ in smooth.steps],
        "sources": [j for _, j, _ in smooth.steps],
    }
    return Kernel("smooth_slopes", g, arguments, outputs, tuple(labels)), places


def _places(entries: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    return {"rows": [i for i, _ in entries], "columns": [j for _, j in entries]}


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
        "events": [
            {
                "name": e.name,
                "direction": e.direction,
                "scale": e.scale,
                "level": e.level,
                "stop": e.stop or e.failure,
                "failure": e.failure,
            }
            for e in hybrid.events
        ],
        "methods": {name: scheme.tableau for name, scheme in EXPLICIT.items()},
        "targets": targets,
        "first_target": first,
        "contacts": [
            {
                "name": c.name,
                "law": c.law,
                "restitution": c.restitution,
                "friction_coefficient": c.friction_coefficient,
                "row": len(hybrid.contacts) + tangential.index(c.name)
                if c.name in tangential
                else -1,
            }
            for c in hybrid.contacts
        ],
    }
