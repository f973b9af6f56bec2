"""Model of a tree of bodies: equations of motion, explicit form, limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.declared import Explicit
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.bodies import inertia_limits, mass_of
from kinesym.symbolic.multibody.forward import speed_rates
from kinesym.symbolic.multibody.links import Aim, Ball
from kinesym.symbolic.multibody.mechanism import Mechanism, lock_of
from kinesym.symbolic.multibody.outputs import Outputs
from kinesym.symbolic.multibody.passes import kinematics
from kinesym.symbolic.multibody.vectors import Steps
from kinesym.symbolic.names import name_of, t

#: Gap of a loop beyond which it counts as open [m, or a cosine].
OPEN = 1e-3

#: Distance of the second Bryant angle from +-pi/2 below which it counts as singular [rad].
SINGULAR = 1e-3


def assemble(
    tree: Mechanism, torques: Mapping[str, sp.Expr], outputs: Outputs, values: Mapping[str, float]
) -> Model:
    """The model of a tree from the recursion over its links."""
    steps = tree.recursion.steps
    rows = [q.diff(t) - rate for q, rate in coordinate_rates(tree, steps).items()]
    rows += dynamic_rows(tree, torques)
    rows += [condition.expression for condition in tree.conditions]
    return settled(tree, steps, rows, outputs, values, explicit(tree, torques))


def explicit(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Explicit | None:
    """x' of the states by articulated bodies; None if a mass matrix is singular: the torques of a
    motion can still be computed. None of closed loops, either, whose forces are not known."""
    if tree.closures:
        return None
    steps = tree.recursion.steps.copy()
    found = speed_rates(tree, steps, torques)
    if found is None:
        return None
    _, still = standing(tree)
    rates = list(coordinate_rates(tree, steps).values())
    rates += [found[name] for name in tree.speeds if name not in tree.locked]
    rates = [e.xreplace(still) for e in rates]
    program = tuple((s, e.xreplace(still)) for s, e in steps.needed(rates))
    return Explicit(program, tuple(rates))


def needs(tree: Mechanism) -> Model:
    """The generalised forces that a motion needs, as outputs with the names of the inputs that
    drive the speeds."""
    steps, needed = tree.recursion.steps, tree.needed()
    rows = [q.diff(t) - rate for q, rate in coordinate_rates(tree, steps).items()]
    rows += dynamic_rows(tree, {})
    forces = {
        name: needed[speed] for speed, name in tree.inputs.items() if speed not in tree.locked
    }
    return settled(tree, steps, rows, Outputs(forces), tree.values)


def standing(tree: Mechanism) -> tuple[dict[AppliedUndef, sp.Symbol], dict[sp.Basic, sp.Expr]]:
    """Parameters for coordinates that cannot move; these and zeros for what is locked."""
    constant = {q: sp.Symbol(name_of(q)) for q in rigid_coordinates(tree)}
    still: dict[sp.Basic, sp.Expr] = {tree.speeds[name]: sp.S.Zero for name in tree.locked}
    still |= {u.diff(t): sp.S.Zero for u in still}
    return constant, {**still, **constant}


def settled(
    tree: Mechanism,
    steps: Steps,
    rows: Sequence[sp.Expr],
    outputs: Outputs,
    values: Mapping[str, float],
    forward: Explicit | None = None,
) -> Model:
    """The model with these equations and outputs; zeros and parameters for what is locked."""
    constant, still = standing(tree)
    equations = tuple(e.xreplace(still) for e in rows)
    expressions = {name: e.xreplace(still) for name, e in outputs.expressions.items()}
    bounds = {k: e.xreplace(still) for k, e in gaps(tree).items()}
    used = [*equations, *expressions.values(), *bounds.values()]
    program = tuple((s, e.xreplace(still)) for s, e in steps.needed(used))
    states = [q for q in tree.coordinates.values() if q not in constant]
    states += [u for name, u in tree.speeds.items() if name not in tree.locked]
    states += [condition.force for condition in tree.conditions]
    everything = [*used, *(e for _, e in program)]
    inputs = parts_of(AppliedUndef, *everything) - set(states)
    symbols = parts_of(sp.Symbol, *everything) - {t, *(s for s, _ in program)}
    names = set(map(name_of, symbols))
    check_symbols(tree, names)
    defaults = {name_of(q): 0.0 for q in constant.values()}
    masses = {str(body.mass) for body in tree.bodies if mass_of(body).is_Symbol}
    loops = [name_of(condition.force) for condition in tree.conditions]
    labels = dict(enumerate(loops, len(rows) - len(loops)))
    model = Model(
        tree.name,
        states,
        in_order(tree, inputs),
        sorted(symbols, key=name_of),
        equations,
        expressions,
        program,
        values={name: v for name, v in {**defaults, **values}.items() if name in names},
        positive=sorted(masses & names),
        limits={k: e for k, e in limits(tree).items() if e.free_symbols - {t} <= symbols} | bounds,
        drawing=outputs.drawing,
        labels=labels,
    )
    return model if forward is None else model.solved_by(forward)


def in_order(tree: Mechanism, inputs: Iterable[AppliedUndef]) -> list[AppliedUndef]:
    """Inputs: those that drive joints in the order of their speeds, then others by name."""
    places = {name: k for k, name in enumerate(tree.inputs.values())}
    return sorted(inputs, key=lambda f: (places.get(name_of(f), len(places)), name_of(f)))


def check_symbols(tree: Mechanism, names: Iterable[str]) -> None:
    """Raise `ValueError` for intermediates of another tree among the parameters."""
    for name in sorted(names):
        if "." in name:
            raise ValueError(
                f"{tree.name}: {name} comes from another tree, or from this one before lock, "
                "with_locks or parametrised; take the expression from this tree"
            )


def coordinate_rates(tree: Mechanism, steps: Steps) -> dict[AppliedUndef, sp.Expr]:
    """q' as they follow from the speeds, for every coordinate that moves."""
    constant = rigid_coordinates(tree)
    return {
        q: rate
        for link in tree.moving
        for q, rate in zip(link.q, kinematics(steps, link), strict=True)
        if q not in constant
    }


def dynamic_rows(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> list[sp.Expr]:
    """Kane's equations of all speeds that are not locked."""
    rows = []
    for name, needed in tree.needed().items():
        row = needed - torques.get(name, 0)
        if name in tree.lockable:
            lock = lock_of(name)
            row = (1 - lock) * row + lock * tree.speeds[name].diff(t)
        if name not in tree.locked:
            rows.append(row)
    return rows


def rigid_coordinates(tree: Mechanism) -> list[AppliedUndef]:
    """Coordinates that cannot move because all speeds of their link are locked."""
    return [
        q
        for link in tree.links
        if link.u and all(name_of(u) in tree.locked for u in link.u)
        for q in link.q
    ]


def gaps(tree: Mechanism) -> dict[str, sp.Expr]:
    """Limits, not negative where valid, on the gaps of redundant conditions of loops. These
    conditions follow from the others where the loops were closed, but a linkage may have further
    positions."""
    found = {name_of(c.force): c.expression for c in tree.left_out if not c.expression.is_number}
    return {
        f"a loop is open: in these positions the condition of {force}, which was left out, does "
        "not follow from the others; start where the whole loop is closed, or mend the conditions "
        "if they contradict each other": OPEN**2 - gap**2
        for force, gap in found.items()
    }


def limits(tree: Mechanism) -> dict[str, sp.Expr]:
    """Limits, not negative where valid: the distance of Bryant angles from where their rates are
    singular, inequalities of moments of inertia, locks that are open or closed, locked speeds of
    zero."""
    found: dict[str, sp.Expr] = {}
    constant = rigid_coordinates(tree)
    for link in tree.links:
        if not isinstance(link.primitive, (Ball, Aim)) or len(link.q) == 1:
            continue
        if link.q[1] not in constant:
            sentence = (
                f"Bryant singularity at the joint of {link.name}: {name_of(link.q[1])} is "
                f"not between -pi/2 and pi/2; try another sequence than {link.primitive.sequence!r}"
            )
            found[sentence] = sp.cos(link.q[1]) - SINGULAR
    for body in tree.bodies:
        found |= inertia_limits(body)
    for name in sorted(tree.lockable):
        lock = lock_of(name)
        found[f"{lock} is neither 0 nor 1"] = -((lock * (1 - lock)) ** 2)
    if tree.lockable:
        sentence = "a speed is locked but not zero; start it at 0 or unlock it"
        squares = (lock_of(name) * tree.speeds[name] ** 2 for name in sorted(tree.lockable))
        found[sentence] = sp.Float(1e-18) - sp.Add(*squares)
    return found
