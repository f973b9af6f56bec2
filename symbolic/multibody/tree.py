"""Multibody models of open trees from a table of bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.base import FixedBase, PrescribedBase
from kinesym.symbolic.multibody.joints import Joint, Spherical, check_joint
from kinesym.symbolic.multibody.links import Link, links_of
from kinesym.symbolic.multibody.vectors import (
    Matrix,
    Steps,
    Vector,
    add,
    cross,
    dot,
    scale,
    times,
    transposed,
)
from kinesym.symbolic.multibody.walk import (
    Frame,
    along_joint,
    inwards,
    kinematics,
    needed_wrench,
    outwards,
)
from kinesym.symbolic.names import name_of, suggest, t

Wrench = tuple[Vector, Vector]


@dataclass(frozen=True)
class Body:
    """A rigid body and the joint that carries it. Numbers, symbols and expressions may be mixed.

    mass : [kg]. com : centre of mass from the joint, in the axes of the body [m].
    inertia : about the centre of mass, three principal moments in the axes of the body or a
        symmetric 3x3 matrix [kg m^2].
    joint : how it moves relative to its parent. at : the joint from the parent's joint, in the axes
        of the parent [m].
    parent : the body that carries it; None for the base.
    """

    name: str
    mass: Any
    com: Sequence[Any] = (0, 0, 0)
    inertia: Any = (0, 0, 0)
    joint: Joint = field(default_factory=Spherical)
    at: Sequence[Any] = (0, 0, 0)
    parent: str | None = None


@dataclass(frozen=True)
class Load:
    """A force [N] at a point [m] of a body and a torque [N m]; both in world or body axes."""

    body: str
    force: Sequence[Any] = (0, 0, 0)
    torque: Sequence[Any] = (0, 0, 0)
    at: Sequence[Any] = (0, 0, 0)
    axes: str = "world"


@dataclass(frozen=True)
class Tree:
    """An open tree of rigid bodies on a fixed or moving base.

    bodies : each after its parent. base : `FixedBase()` or `PrescribedBase()`.
    gravity : in world axes [m/s^2], e.g. (0, 0, -g). loads : external ones.
    locked : names of speeds that are zero; see `lock`.
    """

    name: str
    bodies: Sequence[Body]
    base: FixedBase | PrescribedBase = field(default_factory=FixedBase)
    gravity: Sequence[Any] = (0, 0, -sp.Symbol("g"))
    loads: Sequence[Load] = ()
    locked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_bodies(self)

    # -- symbols --------------------------------------------------------------------------------

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The links of all bodies, each after the one that carries it."""
        numbers: dict[str | None, int] = {None: -1}
        links: list[Link] = []
        for body in self.bodies:
            at = _vector(body.at)
            links += links_of(body.name, body.joint, numbers[body.parent], at, len(links))
            numbers[body.name] = len(links) - 1
        return tuple(links)

    @property
    def coordinates(self) -> dict[str, AppliedUndef]:
        """Generalised coordinates by name, such as `shank_x` [rad]."""
        return {name_of(q): q for link in self.links for q in link.q}

    @property
    def speeds(self) -> dict[str, AppliedUndef]:
        """Generalised speeds by name, such as `shank_wx` [rad/s]."""
        return {name_of(u): u for link in self.links for u in link.u}

    def joint_of(self, body: str) -> tuple[Link, ...]:
        """The links of a body."""
        end = self._number(body)
        begin = end
        while begin > 0 and self.links[begin - 1].body is None:
            begin -= 1
        return self.links[begin : end + 1]

    def lock(self, *names: str) -> Tree:
        """The tree with speeds that are zero: those named, or all of the joints of named bodies.

        Coordinates of a joint that is locked as a whole become parameters. Bryant angles of a joint
        that is locked in part still move: it is speeds that are locked.
        """
        chosen: set[str] = set(self.locked)
        for name in names:
            if name in self.speeds:
                chosen.add(name)
            elif name in {body.name for body in self.bodies}:
                chosen |= {name_of(u) for link in self.joint_of(name) for u in link.u}
            else:
                known = [*self.speeds, *(body.name for body in self.bodies)]
                raise ValueError(f"lock: {name} is no joint and no speed; {suggest(name, known)}")
        return replace(self, locked=frozenset(chosen))

    # -- mechanics ------------------------------------------------------------------------------

    @cached_property
    def _walk(self) -> Walk:
        return walk(self)

    def frame(self, body: str | None) -> Frame:
        """The motion of a body; of the base for None."""
        return self._walk.base if body is None else self._walk.frames[self._number(body)]

    def place(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """A point of a body in world axes [m]; `at` in the axes of the body, from its joint."""
        frame = self.frame(body)
        return add(frame.place, times(frame.attitude, _vector(at)))

    def velocity(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """Its velocity in world axes [m/s]."""
        frame = self.frame(body)
        return times(frame.attitude, add(frame.velocity, cross(frame.angular, _vector(at))))

    def attitude(self, body: str | None) -> Matrix:
        """The rotation from the axes of a body to world axes."""
        return self.frame(body).attitude

    def wrench(self, body: str | None = None) -> Wrench:
        """Force [N] and moment [N m] about its joint with which what carries a body acts on it, in
        the axes of the body; for None those of the base on the tree, about the origin of the base
        and in its axes. Actuators are included."""
        return self._walk.wrenches[-1 if body is None else self._number(body)]

    def needed(self) -> dict[str, sp.Expr]:
        """Generalised force that each speed needs, by its name: Kane's inertia forces and loads."""
        return {
            name_of(u): force
            for k, link in enumerate(self.links)
            for u, force in zip(link.u, along_joint(link, self._walk.frames[k].rotation,
                                                    self._walk.wrenches[k]), strict=True)
        }  # fmt: skip

    def center_of_mass(self) -> Vector:
        """In world axes [m]."""
        total = sp.Add(*(sp.sympify(b.mass) for b in self.bodies))
        parts = [scale(sp.sympify(b.mass), self.place(b.name, b.com)) for b in self.bodies]
        return scale(1 / total, add(*parts))

    def momentum(self) -> Vector:
        """Linear momentum in world axes [kg m/s]."""
        return add(*(scale(sp.sympify(b.mass), self.velocity(b.name, b.com)) for b in self.bodies))

    def angular_momentum(self, about: Sequence[Any] = (0, 0, 0)) -> Vector:
        """About a point of the world, in world axes [kg m^2/s]."""
        parts = []
        for body in self.bodies:
            frame = self.frame(body.name)
            spin = times(frame.attitude, times(_inertia(body), frame.angular))
            arm = add(self.place(body.name, body.com), scale(sp.S.NegativeOne, _vector(about)))
            moment = scale(sp.sympify(body.mass), cross(arm, self.velocity(body.name, body.com)))
            parts += [spin, moment]
        return add(*parts)

    def kinetic_energy(self) -> sp.Expr:
        """[J]"""
        energy = sp.S.Zero
        for body in self.bodies:
            frame = self.frame(body.name)
            v = add(frame.velocity, cross(frame.angular, _vector(body.com)))
            spin = dot(frame.angular, times(_inertia(body), frame.angular))
            energy += (sp.sympify(body.mass) * dot(v, v) + spin) / 2
        return energy

    def potential_energy(self) -> sp.Expr:
        """Of gravity, zero in the origin of the world [J]."""
        gravity = _vector(self.gravity)
        return -sp.Add(*(sp.sympify(b.mass) * dot(gravity, self.place(b.name, b.com))
                         for b in self.bodies))  # fmt: skip

    # -- the model ------------------------------------------------------------------------------

    def model(
        self,
        torques: Mapping[str, Any] | None = None,
        outputs: Mapping[str, sp.Expr] | None = None,
        values: Mapping[Any, float] | None = None,
    ) -> Model:
        """Equations of motion with these generalised forces by the name of their speeds [N m, N].

        Whatever function of time appears that is no coordinate and no speed becomes an input, every
        other symbol a parameter. Raises `ValueError` if a name is unknown.
        """
        torques = {name: sp.sympify(e) for name, e in (torques or {}).items()}
        for name in torques:
            if name not in self.speeds:
                raise ValueError(f"torques: {name} is no speed; {suggest(name, self.speeds)}")
        return assemble(self, torques, dict(outputs or {}), dict(values or {}))

    def _number(self, body: str) -> int:
        for number, link in enumerate(self.links):
            if link.body == body:
                return number
        known = [b.name for b in self.bodies]
        raise ValueError(f"{body} is no body of {self.name}; {suggest(body, known)}")


# -- the walk -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """Motion and forces of all links, in terms of the symbols that `steps` define."""

    steps: Steps
    base: Frame
    frames: tuple[Frame, ...]
    wrenches: tuple[Wrench, ...]


def walk(tree: Tree) -> Walk:
    """Outwards for motion, inwards for forces."""
    steps = Steps()
    links = [still(link, tree.locked) for link in tree.links]
    base = tree.base.frame(steps, _vector(tree.gravity))
    frames: list[Frame] = []
    for link in links:
        frames.append(outwards(steps, base if link.parent < 0 else frames[link.parent], link))
    bodies, own = {body.name: body for body in tree.bodies}, {}
    for k, (link, frame) in enumerate(zip(links, frames, strict=True)):
        if link.body is not None:
            body = bodies[link.body]
            com, mass = _vector(body.com), sp.sympify(body.mass)
            needed = needed_wrench(steps, frame, link.name, mass, com, _inertia(body))
            applied = [load_wrench(frame, load) for load in tree.loads if load.body == body.name]
            own[k] = subtract(needed, applied)
    return Walk(steps, base, tuple(frames), tuple(inwards(steps, links, frames, own)))


def still(link: Link, locked: Iterable[str]) -> Link:
    """The link with zeros for locked speeds."""
    return replace(link, u=tuple(sp.S.Zero if name_of(u) in locked else u for u in link.u))


def load_wrench(frame: Frame, load: Load) -> Wrench:
    """Force and moment about the joint, in the axes of the body."""
    force, torque = _vector(load.force), _vector(load.torque)
    if load.axes == "world":
        back = transposed(frame.attitude)
        force, torque = times(back, force), times(back, torque)
    return force, add(torque, cross(_vector(load.at), force))


def subtract(needed: Wrench, applied: Iterable[Wrench]) -> Wrench:
    """What is left to the joint."""
    force, moment = needed
    for f, n in applied:
        force = add(force, scale(sp.S.NegativeOne, f))
        moment = add(moment, scale(sp.S.NegativeOne, n))
    return force, moment


def assemble(
    tree: Tree,
    torques: Mapping[str, sp.Expr],
    outputs: Mapping[str, sp.Expr],
    values: Mapping[Any, float],
) -> Model:
    """The model of a tree, with what is locked taken out."""
    w = tree._walk
    constant = {q: sp.Symbol(name_of(q)) for q in rigid_coordinates(tree)}
    zero = {u: sp.S.Zero for name, u in tree.speeds.items() if name in tree.locked}
    zero |= {u.diff(t): sp.S.Zero for u in zero}

    def settled(expression: sp.Expr) -> sp.Expr:
        return sp.sympify(expression).xreplace(zero).xreplace(constant)

    needed = tree.needed()
    rows = [e - torques.get(name, 0) for name, e in needed.items() if name not in tree.locked]
    kinematic = [
        q.diff(t) - rate
        for link in (still(link, tree.locked) for link in tree.links)
        for q, rate in zip(link.q, kinematics(w.steps, link), strict=True)
        if q not in constant
    ]
    equations = [settled(e) for e in (*kinematic, *rows)]
    outputs = {name: settled(e) for name, e in outputs.items()}
    steps = [(s, settled(e)) for s, e in w.steps.needed([*equations, *outputs.values()])]
    states = [q for q in tree.coordinates.values() if q not in constant]
    states += [u for name, u in tree.speeds.items() if name not in tree.locked]
    everything = [*equations, *outputs.values(), *(e for _, e in steps)]
    inputs = set().union(*(e.atoms(AppliedUndef) for e in everything)) - set(states)
    symbols = set().union(*(e.free_symbols for e in everything)) - {t, *(s for s, _ in steps)}
    values = {
        **{name_of(q): 0.0 for q in constant.values()},
        **{name_of(k): v for k, v in values.items()},
    }
    parameters = sorted(symbols, key=name_of)
    names = set(map(name_of, parameters))
    return Model(
        tree.name, states, sorted(inputs, key=name_of), parameters, equations, outputs, steps,
        {name: value for name, value in values.items() if name in names},
    )  # fmt: skip


def rigid_coordinates(tree: Tree) -> list[AppliedUndef]:
    """Coordinates that cannot move because all speeds of their link are locked."""
    return [q for link in tree.links if link.u and all(name_of(u) in tree.locked for u in link.u)
            for q in link.q]  # fmt: skip


# -- checks ---------------------------------------------------------------------------------------


def check_bodies(tree: Tree) -> None:
    """Raise `ValueError` for bodies that make no tree or cannot exist."""
    known: set[str | None] = {None}
    for body in tree.bodies:
        where = f"body {body.name}"
        if body.name in known:
            raise ValueError(f"{where} is defined twice")
        if body.parent not in known:
            names = sorted(name for name in known if name)
            raise ValueError(f"{where}: its parent {body.parent} is not defined before it; "
                             f"{suggest(str(body.parent), names)}")  # fmt: skip
        check_joint(body.joint)
        for what in ("com", "at"):
            if len(tuple(getattr(body, what))) != 3:
                raise ValueError(f"{where}: {what} must have three components")
        check_inertia(where, sp.sympify(body.mass), _inertia(body))
        known.add(body.name)
    for load in tree.loads:
        if load.body not in known - {None}:
            raise ValueError(f"load on {load.body}, which is no body of {tree.name}")
        if load.axes not in ("world", "body"):
            raise ValueError(f"the axes of a load are 'world' or 'body', got {load.axes!r}")


def check_inertia(where: str, mass: sp.Expr, inertia: Matrix) -> None:
    """What numbers can tell: a mass that is not negative, moments that a body can have."""
    if mass.is_number and not mass >= 0:
        raise ValueError(f"{where}: mass must not be negative, got {mass}")
    matrix = sp.Matrix(inertia)
    if matrix.free_symbols:
        return
    if not matrix.is_symmetric():
        raise ValueError(f"{where}: inertia is not symmetric")
    a, b, c = sorted(np.linalg.eigvalsh(np.array(matrix, dtype=float)))
    if a < 0 or a + b < c * (1.0 - 1e-9):
        raise ValueError(f"{where}: no body has principal moments of inertia {a:g}, {b:g}, {c:g}; "
                         "each is at most the sum of the others")  # fmt: skip


def _vector(values: Sequence[Any]) -> Vector:
    x, y, z = (sp.sympify(value) for value in values)
    return x, y, z


def _inertia(body: Body) -> Matrix:
    """About the centre of mass, in the axes of the body."""
    rows = [row if isinstance(row, Sequence) else None for row in list(body.inertia)]
    given = sp.Matrix(rows) if all(rows) else sp.diag(*body.inertia)
    a, b, c = (_vector(given.row(k)) for k in range(3))
    return a, b, c
