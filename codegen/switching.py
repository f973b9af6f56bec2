"""A hybrid model becomes the kernels of its simulation, smooth dynamics and switching; the loop is
in `runtime/native/c/hybrid`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

from kinesym.codegen.contacts import ContactDynamics, contact_dynamics, products
from kinesym.codegen.derive import Sparse, jacobian, pattern_of
from kinesym.codegen.evaluate import ModelSymbols, describe_model, model_symbols
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.solve import NotExplicit, linearised_rates, model_rates
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.names import name_of
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
    arguments = point.arguments
    rates, lowered = _lowered(hybrid, point)
    labels = tuple(f"{x}'" for x in model.state_names)
    kernels = [Kernel("smooth", g, arguments, tuple(rates), labels, "x' with contact forces")]
    names, changes = [e.name for e in hybrid.events], _changes(hybrid)
    guards = [*(e.guard for e in hybrid.events), *(e.when for e in hybrid.events)]
    armed = [f"{name}, armed" for name in names]
    for kind, names_of_rows, of in (
        ("guards", [*names, *armed], guards),
        ("resets", [name for name, _ in changes], [e for _, e in changes]),
    ):
        if of:
            kernels.append(Kernel(kind, g, arguments, tuple(lowered(of)), tuple(names_of_rows)))
    if hybrid.contacts:
        kernels.append(_contact(hybrid, point, _contact_dynamics(hybrid, point, rates)))
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
    hybrid: Hybrid, point: ModelSymbols
) -> tuple[list[int], Callable[[Sequence[sp.Expr]], list[int]]]:
    """Nodes of x', and what makes nodes of expressions, x' in them solved for."""
    try:
        rates = model_rates(hybrid.model, point.lower, point.nodes(point.xdot))
    except NotExplicit as error:
        raise ValueError(
            f"model {hybrid.model.name} has no explicit derivatives, which events and "
            f"contacts need: {error}; differentiate its algebraic equations, or give "
            "masses to the bodies that they hold"
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


def _point(hybrid: Hybrid) -> ModelSymbols:
    """Symbols of the model, with inputs that are given before modes before forces."""
    inputs = (*hybrid.given, *hybrid.modes, *hybrid.forces)
    return model_symbols(hybrid.model, inputs=inputs)


def _contact_dynamics(hybrid: Hybrid, point: ModelSymbols, rates: list[int]) -> ContactDynamics:
    forces = _forces(hybrid, point)
    return contact_dynamics(point.lower, hybrid.contacts, point.nodes(point.x), rates, forces)


def _forces(hybrid: Hybrid, point: ModelSymbols) -> list[int]:
    return point.nodes(point.u)[len(point.u.symbols) - len(hybrid.forces) :]


def _contact(hybrid: Hybrid, point: ModelSymbols, found: ContactDynamics) -> Kernel:
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
    return Kernel("contact", g, point.arguments, tuple(outputs), tuple(labels), "contacts")


def slopes_program(hybrid: Hybrid) -> Program:
    """Kernels of first derivatives with respect to (x, u, p, t), entries that are not identically
    zero: `smooth_slopes`, see below, `guard_slopes`, `reset_slopes`, and `touch_slopes` of heights,
    rates of heights and places, and, forces being impulses, of the changes W f of these rates and
    B f of x.
    """
    point = _point(hybrid)
    g = point.graph
    rates, lowered = _lowered(hybrid, point)
    wrt = [node for group in point.arguments for node in point.nodes(group)]
    of = {
        "guard_slopes": lowered([e.guard for e in hybrid.events]),
        "reset_slopes": lowered([e for _, e in _changes(hybrid)]),
    }
    found = _contact_dynamics(hybrid, point, rates) if hybrid.contacts else None
    if found:
        forces = _forces(hybrid, point)
        push, jump = found.push(g, forces), found.jump(g, forces, len(rates))
        of["touch_slopes"] = [*found.heights, *found.speeds, *push, *jump]
    smooth, entries, steps = _smooth_slopes(hybrid, point, rates, wrt, found)
    kernels, patterns = _slopes(point, of)
    about = {
        "patterns": {"smooth_slopes": pattern_of(entries), **patterns},
        "solution": pattern_of(steps),
    }
    return Program(f"{hybrid.model.name}_slopes", (smooth, *kernels), {"slopes": about})


def observed_program(hybrid: Hybrid, observed: Sequence[sp.Expr]) -> Program:
    """Kernel `observed_slopes` of first derivatives of expressions with respect to (x, u, p, t),
    entries that are not identically zero."""
    point = _point(hybrid)
    _, lowered = _lowered(hybrid, point)
    kernels, patterns = _slopes(point, {"observed_slopes": lowered(observed)})
    about = {"patterns": patterns, "solution": [[], []]}
    return Program(f"{hybrid.model.name}_slopes", tuple(kernels), {"slopes": about})


def _slopes(
    point: ModelSymbols, of: dict[str, list[int]]
) -> tuple[list[Kernel], dict[str, list[list[int]]]]:
    """Kernels of first derivatives of nodes, by name, and where their entries are."""
    g, kernels, patterns = point.graph, [], {}
    wrt = [node for group in point.arguments for node in point.nodes(group)]
    for name, values in of.items():
        entries = jacobian(g, values, wrt)
        patterns[name] = pattern_of(entries)
        if entries:
            labels = tuple(f"{i}, {j}" for i, j in entries)
            kernels.append(Kernel(name, g, point.arguments, tuple(entries.values()), labels))
    return kernels, patterns


def _smooth_slopes(
    hybrid: Hybrid,
    point: ModelSymbols,
    rates: list[int],
    wrt: list[int],
    found: ContactDynamics | None,
) -> tuple[Kernel, Sparse, list[tuple[int, int]]]:
    """A kernel, its entries, targets and sources of its solution: x', then what its derivatives
    follow from, see `codegen.solve.Linearised`: entries of the side in rows of states; below them
    those of the accelerations of contacts, where x' are columns of their own after (x, u, p, t);
    then the steps of M^-1."""
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
    kernel = Kernel("smooth_slopes", g, point.arguments, outputs, tuple(labels))
    return kernel, entries, [(i, j) for i, j, _ in smooth.steps]


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
        **describe_model(model),
        "inputs": list(hybrid.given),
        "modes": dict(hybrid.modes),
        "events": [
            {
                "stop": e.stop or e.failure,
                **{f: getattr(e, f) for f in ("name", "direction", "scale", "level", "failure")},
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
