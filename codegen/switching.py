"""A hybrid model becomes the kernels of its simulation, smooth dynamics and switching; the loop is
in `runtime/native/c/hybrid`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce

import sympy as sp

from kinesym.codegen.contacts import ContactDynamics, contact_dynamics, products
from kinesym.codegen.derive import Sparse, jacobian, pattern_of
from kinesym.codegen.evaluate import describe_model, model_symbols
from kinesym.codegen.kernel import Kernel, Program
from kinesym.codegen.solve import NotExplicit, linearised_rates, model_rates
from kinesym.codegen.stepping import adaptive_tableau
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.names import name_of
from kinesym.symbolic.schemes import ADAPTIVE, EXPLICIT


class _Point:
    """A hybrid model at one point in time, as nodes.

    symbols : inputs that are given come before modes, these before contact forces. rates : x'.

    Raises `ValueError` if x' cannot be solved for.
    """

    def __init__(self, hybrid: Hybrid) -> None:
        self.hybrid, self.model = hybrid, hybrid.model
        inputs = (*hybrid.signals, *hybrid.modes, *hybrid.forces)
        s = self.symbols = model_symbols(self.model, inputs=inputs, tables=hybrid.tables)
        self.graph, self.xdot = s.graph, s.nodes(s.xdot)
        try:
            self.rates = model_rates(self.model, s.lower, self.xdot)
        except NotExplicit as error:
            raise ValueError(
                f"model {self.model.name} has no explicit derivatives, which events and "
                f"contacts need: {error}; use model.reduced_index(index=0), or give masses to "
                "the bodies that algebraic equations hold"
            ) from error
        self.forces = s.nodes(s.u)[len(inputs) - len(hybrid.forces) :]
        self.wrt = [node for group in s.arguments for node in s.nodes(group)]

    def lowered(self, expressions: Sequence[sp.Expr]) -> list[int]:
        """Nodes of expressions, x' in them solved for."""
        nodes = [self.symbols.lower(e) for e in expressions]
        return self.graph.substitute(nodes, dict(zip(self.xdot, self.rates, strict=True)))

    def contacts(self) -> ContactDynamics:
        """Dynamics of the model's contacts with the ground."""
        s = self.symbols
        return contact_dynamics(
            s.lower, self.hybrid.contacts, s.nodes(s.x), self.rates, self.forces
        )

    def kernel(
        self, name: str, outputs: Sequence[int], labels: Sequence[str], purpose: str = ""
    ) -> Kernel:
        """A kernel of (x, u, p, t)."""
        arguments = self.symbols.arguments
        return Kernel(name, self.graph, arguments, tuple(outputs), tuple(labels), purpose)


def hybrid_program(hybrid: Hybrid) -> Program:
    """Kernels `smooth` x', `guards`, `turning`, `resets` and `contact`, all of (x, u, p, t).

    u : inputs that are given, modes, contact forces. `turning`: see `_turning`. `contact`: heights
    and their rates, rates along the ground, accelerations without forces b, then row by row
    W = d accelerations / d forces and B = d x' / d forces and G = d heights and places / d x.

    Raises `ValueError` if x' cannot be solved for.
    """
    model, point = hybrid.model, _Point(hybrid)
    labels = [f"{x}'" for x in model.state_names]
    kernels = [point.kernel("smooth", point.rates, labels, "x' with contact forces")]
    names, changes = [e.name for e in hybrid.events], _changes(hybrid)
    guards = [*(e.guard for e in hybrid.events), *(e.when for e in hybrid.events)]
    armed = [f"{name}, armed" for name in names]
    for kind, names_of_rows, of in (
        ("guards", [*names, *armed], guards),
        ("resets", [name for name, _ in changes], [e for _, e in changes]),
    ):
        if of:
            kernels.append(point.kernel(kind, point.lowered(of), names_of_rows))
    kernels += _turning(point, guards)
    if hybrid.contacts:
        kernels.append(_contact(point))
    s = point.symbols
    values = [s.lower(e) for e in model.outputs.values()]
    moving = not set(point.xdot).isdisjoint(s.graph.ancestors(values))
    if values:
        every = (s.xdot, *s.arguments) if moving else s.arguments
        kernels.append(Kernel("outputs", s.graph, every, tuple(values), tuple(model.outputs)))
    description = {
        **_description(hybrid),
        "outputs_move": moving,
        "sizes": {kernel.name: len(kernel.outputs) for kernel in kernels},
    }
    about = {"hybrid": description}
    return Program(f"{model.name}_hybrid", tuple(kernels), about, hybrid.tables.values)


def _changes(hybrid: Hybrid) -> list[tuple[str, sp.Expr]]:
    """Changes by events, in order: names of their targets, and new values."""
    return [
        (name_of(target), e)
        for event in hybrid.events
        for target, e in (*event.resets.items(), *event.sets.items())
    ]


def _turning(point: _Point, guards: Sequence[sp.Expr]) -> list[Kernel]:
    """Kernel of the speed at which guards turn [rad/s], that of the fastest of their sines,
    cosines, tangents and remainders along the motion, by states and time; none if no guard has
    one. Steps are so short that guards are seen to turn, however slow the motion is."""
    g, s = point.graph, point.symbols
    turn, angles = g.const(2.0 * math.pi), list[int]()
    for node in g.ancestors(point.lowered(guards)):
        op, args = g.op[node], g.args[node]
        if op in ("sin", "cos", "tan"):
            angles.append(args[0])
        elif op in ("floor", "mod"):
            angles.append(g.mul(turn, g.div(*args) if op == "mod" else args[0]))
    rates = dict(enumerate([*point.rates, g.one]))
    moved = products(g, jacobian(g, angles, [*s.nodes(s.x), *s.nodes(s.t)]), rates, len(angles))
    speeds = [g.function("abs", speed) for speed in moved if speed != g.zero]
    if not speeds:
        return []
    fastest = reduce(partial(g.binary, "max"), speeds)
    return [point.kernel("turning", (fastest,), ("fastest guard",), "how fast guards turn")]


def _contact(point: _Point) -> Kernel:
    g, hybrid, found = point.graph, point.hybrid, point.contacts()
    rows, n = range(len(hybrid.forces)), len(point.rates)
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
    return point.kernel("contact", outputs, labels, "contacts")


def slopes_program(hybrid: Hybrid) -> Program:
    """Kernels of first derivatives with respect to (x, u, p, t), entries that are not identically
    zero: `smooth_slopes`, see below, `guard_slopes`, `reset_slopes`, and `touch_slopes` of heights,
    rates of heights and places, and, forces being impulses, of the changes W f of these rates and
    B f of x.
    """
    point = _Point(hybrid)
    of = {
        "guard_slopes": point.lowered([e.guard for e in hybrid.events]),
        "reset_slopes": point.lowered([e for _, e in _changes(hybrid)]),
    }
    found = point.contacts() if hybrid.contacts else None
    if found:
        push = found.push(point.graph, point.forces)
        jump = found.jump(point.graph, point.forces, len(point.rates))
        of["touch_slopes"] = [*found.heights, *found.speeds, *push, *jump]
    smooth, entries, steps = _smooth_slopes(point, found)
    kernels, patterns = _slopes(point, of)
    about = {
        "patterns": {"smooth_slopes": pattern_of(entries), **patterns},
        "solution": pattern_of(steps),
    }
    name = f"{hybrid.model.name}_slopes"
    return Program(name, (smooth, *kernels), {"slopes": about}, hybrid.tables.values)


def observed_program(hybrid: Hybrid, observed: Sequence[sp.Expr]) -> Program:
    """Kernel `observed_slopes` of first derivatives of expressions with respect to (x, u, p, t),
    entries that are not identically zero."""
    point = _Point(hybrid)
    kernels, patterns = _slopes(point, {"observed_slopes": point.lowered(observed)})
    about = {"patterns": patterns, "solution": [[], []]}
    name = f"{hybrid.model.name}_slopes"
    return Program(name, tuple(kernels), {"slopes": about}, hybrid.tables.values)


def _slopes(
    point: _Point, of: dict[str, list[int]]
) -> tuple[list[Kernel], dict[str, list[list[int]]]]:
    """Kernels of first derivatives of nodes, by name, and where their entries are."""
    kernels, patterns = [], {}
    for name, values in of.items():
        entries = jacobian(point.graph, values, point.wrt)
        patterns[name] = pattern_of(entries)
        if entries:
            labels = [f"{i}, {j}" for i, j in entries]
            kernels.append(point.kernel(name, list(entries.values()), labels))
    return kernels, patterns


def _smooth_slopes(
    point: _Point, found: ContactDynamics | None
) -> tuple[Kernel, Sparse, list[tuple[int, int]]]:
    """A kernel, its entries, targets and sources of its solution: x', then what its derivatives
    follow from, see `codegen.solve.Linearised`: entries of the side in rows of states; below them
    those of the accelerations of contacts, where x' are columns of their own after (x, u, p, t);
    then the steps of M^-1."""
    model, g, s, xdot = point.model, point.graph, point.symbols, point.xdot
    residual = (
        [g.sub(v, rate) for v, rate in zip(xdot, point.rates, strict=True)]
        if model.explicit
        else [s.lower(e) for e in model.equations]
    )
    smooth = linearised_rates(g, residual, xdot, model.state_names, point.wrt)
    entries = dict(sorted(smooth.side.items()))
    if found:
        turn = jacobian(g, found.speeds, s.nodes(s.x))
        moved = products(g, turn, dict(enumerate(xdot)), len(found.speeds))
        below = jacobian(g, moved, [*point.wrt, *xdot])
        values = g.substitute(list(below.values()), dict(zip(xdot, smooth.rates, strict=True)))
        entries |= {(len(xdot) + i, j): node for (i, j), node in zip(below, values, strict=True)}
    labels = [f"{x}'" for x in model.state_names] + [f"{i}, {j}" for i, j in entries]
    labels += [f"solution, {i} from {j}" for i, j, _ in smooth.steps]
    outputs = (*smooth.rates, *entries.values(), *(node for _, _, node in smooth.steps))
    kernel = point.kernel("smooth_slopes", outputs, labels)
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
        "inputs": list(hybrid.signals),
        "modes": dict(hybrid.modes),
        "events": [
            {
                "stop": e.stop or e.failure,
                **{f: getattr(e, f) for f in ("name", "direction", "scale", "level", "failure")},
            }
            for e in hybrid.events
        ],
        "methods": {
            **{name: scheme.tableau for name, scheme in EXPLICIT.items()},
            **{name: adaptive_tableau(scheme) for name, scheme in ADAPTIVE.items()},
        },
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
