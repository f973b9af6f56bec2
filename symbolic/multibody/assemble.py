"""From a tree to its model: the walk over all links, and the equations that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.model import Explicit, Model
from kinesym.symbolic.multibody.bodies import Load, inertia_limits, inertia_matrix, mass_of
from kinesym.symbolic.multibody.forward import Moving, rigid, speed_rates
from kinesym.symbolic.multibody.links import Aim, Ball, Link
from kinesym.symbolic.multibody.outputs import Outputs
from kinesym.symbolic.multibody.vectors import Steps, add, cross, scale, times, transposed, vector
from kinesym.symbolic.multibody.walk import (
    Frame,
    Wrench,
    inwards,
    kinematics,
    needed_wrench,
    outwards,
)
from kinesym.symbolic.names import name_of, t

if TYPE_CHECKING:
    from kinesym.symbolic.multibody.tree import Tree

#: How close the second Bryant angle may come to +-pi/2 [rad].
SINGULAR = 1e-3


@dataclass(frozen=True)
class Walk:
    """Motion and forces of all links (see `inwards`), in terms of the symbols of `steps`."""

    steps: Steps
    base: Frame
    frames: tuple[Frame, ...]
    wrenches: tuple[Wrench, ...]
    kane: tuple[Wrench, ...]


def walk(tree: Tree) -> Walk:
    """Outwards for motion, inwards for forces."""
    steps = Steps()
    links = moving(tree)
    base = tree.base.frame(steps, vector(tree.gravity))
    frames: list[Frame] = []
    for link in links:
        frames.append(outwards(steps, base if link.parent < 0 else frames[link.parent], link))
    bodies, own = {body.name: body for body in tree.bodies}, {}
    for k, (link, frame) in enumerate(zip(links, frames, strict=True)):
        if link.body is not None:
            body = bodies[link.body]
            com, mass = vector(body.com), mass_of(body)
            needed = needed_wrench(steps, frame, link.name, mass, com, inertia_matrix(body))
            applied = [load_wrench(frame, load) for load in tree.applied if load.body == body.name]
            own[k] = subtract(needed, applied)
    wrenches, kane = inwards(steps, links, frames, own)
    return Walk(steps, base, tuple(frames), tuple(wrenches), tuple(kane))


def moving(tree: Tree) -> list[Link]:
    """The links with the speeds that they have: 0 if locked, (1 - lock) u if lockable.

    So a lock makes the mass matrix neither singular nor unsymmetric.
    """
    actual = dict(tree.speeds)
    actual |= dict.fromkeys(tree.locked, sp.S.Zero)
    actual |= {name: (1 - lock_of(name)) * tree.speeds[name] for name in tree.lockable}
    return [replace(link, u=tuple(actual[name_of(u)] for u in link.u)) for link in tree.links]


def lock_of(speed: str) -> sp.Symbol:
    """The parameter that locks a speed at run time: 1 locks, 0 leaves it free."""
    return sp.Symbol(f"lock_{speed}")


def load_wrench(frame: Frame, load: Load) -> Wrench:
    """Force and moment about the joint, in the axes of the body."""
    force, torque = vector(load.force), vector(load.torque)
    if load.axes == "world":
        back = transposed(frame.attitude)
        force, torque = times(back, force), times(back, torque)
    return force, add(torque, cross(vector(load.at), force))


def subtract(needed: Wrench, applied: Iterable[Wrench]) -> Wrench:
    """What is left to the joint."""
    force, moment = needed
    for f, n in applied:
        force = add(force, scale(sp.S.NegativeOne, f))
        moment = add(moment, scale(sp.S.NegativeOne, n))
    return force, moment


# -- the model ------------------------------------------------------------------------------------


def assemble(
    tree: Tree, torques: Mapping[str, sp.Expr], outputs: Outputs, values: Mapping[str, float]
) -> Model:
    """The model of a tree from the walk over its links."""
    rows = [*kinematic_rows(tree), *dynamic_rows(tree, torques)]
    return settled(tree, tree._walk.steps, rows, outputs, values, explicit(tree, torques))


def explicit(tree: Tree, torques: Mapping[str, sp.Expr]) -> Explicit | None:
    """x' of the states by articulated bodies; None if a mass matrix is singular: the torques of a
    motion can still be asked for."""
    steps = Steps()
    steps.definitions.update(tree._walk.steps.definitions)
    frames, bodies = tree._walk.frames, {body.name: body for body in tree.bodies}
    joints, own = [], {}
    for k, (link, named) in enumerate(zip(moving(tree), tree.links, strict=True)):
        inner = frames[link.parent] if link.parent >= 0 else tree._walk.base
        joints.append(Moving(link, [name_of(u) for u in named.u], frames[k], inner))
        if link.body is not None:
            body = bodies[link.body]
            loads = [load for load in tree.applied if load.body == body.name]
            own[k] = rigid(
                steps,
                link.name,
                mass_of(body),
                vector(body.com),
                inertia_matrix(body),
                frames[k],
                [load_wrench(frames[k], load) for load in loads],
            )
    locks = {name: lock_of(name) for name in tree.lockable} | dict.fromkeys(tree.locked, sp.S.One)
    found = speed_rates(steps, joints, own, torques, locks)
    if found is None:
        return None
    constant, still = standing(tree)
    rates = [
        rate
        for link in moving(tree)
        for q, rate in zip(link.q, kinematics(steps, link), strict=True)
        if q not in constant
    ]
    rates += [found[name] for name in tree.speeds if name not in tree.locked]
    rates = [e.xreplace(still) for e in rates]
    program = tuple((s, e.xreplace(still)) for s, e in steps.needed(rates))
    return Explicit(program, tuple(rates))


def standing(tree: Tree) -> tuple[dict[AppliedUndef, sp.Symbol], dict[sp.Basic, sp.Expr]]:
    """Parameters for coordinates that cannot move; these and zeros for what is locked."""
    constant = {q: sp.Symbol(name_of(q)) for q in rigid_coordinates(tree)}
    still: dict[sp.Basic, sp.Expr] = {tree.speeds[name]: sp.S.Zero for name in tree.locked}
    still |= {u.diff(t): sp.S.Zero for u in still}
    return constant, {**still, **constant}


def settled(
    tree: Tree,
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
    used = [*equations, *expressions.values()]
    program = tuple((s, e.xreplace(still)) for s, e in steps.needed(used))
    states = [q for q in tree.coordinates.values() if q not in constant]
    states += [u for name, u in tree.speeds.items() if name not in tree.locked]
    everything = [*used, *(e for _, e in program)]
    inputs = set().union(*(e.atoms(AppliedUndef) for e in everything)) - set(states)
    symbols = set().union(*(e.free_symbols for e in everything)) - {t, *(s for s, _ in program)}
    names = set(map(name_of, symbols))
    check_symbols(tree, names)
    defaults = {name_of(q): 0.0 for q in constant.values()}
    masses = {str(body.mass) for body in tree.bodies if mass_of(body).is_Symbol}
    model = Model(
        tree.name,
        states,
        sorted(inputs, key=name_of),
        sorted(symbols, key=name_of),
        equations,
        expressions,
        program,
        values={name: v for name, v in {**defaults, **values}.items() if name in names},
        positive=sorted(masses & names),
        limits={k: e for k, e in limits(tree).items() if e.free_symbols - {t} <= symbols},
        drawing=outputs.drawing,
    )
    return model if forward is None else model.solved_by(forward)


def check_symbols(tree: Tree, names: Iterable[str]) -> None:
    """Raise `ValueError` for intermediates of another tree among the parameters."""
    for name in sorted(names):
        if "." in name:
            raise ValueError(
                f"{tree.name}: {name} comes from another tree, or from this one before lock, "
                "with_locks or parametrised; ask this tree for the expression"
            )


def kinematic_rows(tree: Tree) -> list[sp.Expr]:
    """q' minus the rates that follow from the speeds, for every coordinate that moves."""
    steps, constant = tree._walk.steps, rigid_coordinates(tree)
    return [
        q.diff(t) - rate
        for link in moving(tree)
        for q, rate in zip(link.q, kinematics(steps, link), strict=True)
        if q not in constant
    ]


def dynamic_rows(tree: Tree, torques: Mapping[str, sp.Expr]) -> list[sp.Expr]:
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


def rigid_coordinates(tree: Tree) -> list[AppliedUndef]:
    """Coordinates that cannot move because all speeds of their link are locked."""
    return [
        q
        for link in tree.links
        if link.u and all(name_of(u) in tree.locked for u in link.u)
        for q in link.q
    ]


def limits(tree: Tree) -> dict[str, sp.Expr]:
    """What must not be negative: the distance of Bryant angles from where their rates are
    singular, what moments of inertia obey, locks that are open or closed, locked speeds of zero."""
    found: dict[str, sp.Expr] = {}
    constant = rigid_coordinates(tree)
    for link in tree.links:
        if isinstance(link.primitive, (Ball, Aim)) and link.q[1] not in constant:
            sentence = (
                f"Bryant singularity at the joint of {link.body}: {name_of(link.q[1])} is "
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
