"""An open tree of bodies: its symbols, and the mechanics of its points and bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_text, listed_of, shown
from kinesym.base.notebook import Displayed
from kinesym.symbolic.expression import real_expressions, real_number
from kinesym.symbolic.multibody.base import FixedBase, PrescribedBase
from kinesym.symbolic.multibody.bodies import (
    Body,
    Imu,
    Load,
    check_bodies,
    check_imus,
    check_loads,
    check_numbers,
    check_turns,
    inertia_matrix,
    mass_of,
    parametrised,
)
from kinesym.symbolic.multibody.closures import (
    Closure,
    Condition,
    Coupling,
    independent_conditions,
    pushes,
)
from kinesym.symbolic.multibody.links import Functional, Link, links_of
from kinesym.symbolic.multibody.passes import (
    Frame,
    Moving,
    Poses,
    Recursion,
    Wrench,
    along_joint,
    inwards,
    load_wrench,
    needed_wrench,
    outwards,
    pose,
    subtract,
)
from kinesym.symbolic.multibody.vectors import ZERO, Matrix, Steps, Vector, vector
from kinesym.symbolic.names import by_name, check_known, name_of, names_of, t

Self = TypeVar("Self", bound="Mechanism")


def lock_of(speed: str) -> sp.Symbol:
    """The parameter that locks a speed at run time: 1 locks, 0 leaves it free."""
    return sp.Symbol(f"lock_{speed}")


@dataclass(frozen=True, repr=False, eq=False)
class Mechanism(Displayed):
    """Bodies, joints, loads, locks, loops and sensors; see `Tree`."""

    name: str
    bodies: Sequence[Body]
    base: FixedBase | PrescribedBase = field(default_factory=FixedBase)
    gravity: Sequence[Any] = (0, 0, -sp.Symbol("g"))
    loads: Sequence[Load] | Callable[[Any], Sequence[Load]] = ()
    locked: frozenset[str] = frozenset()
    lockable: frozenset[str] = frozenset()
    values: Mapping[str, float] = field(default_factory=dict)
    closures: tuple[Closure | Coupling, ...] = ()
    imus: Sequence[Imu] = ()
    passive: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a tree")
        object.__setattr__(self, "bodies", listed_of(self.bodies, Body, f"bodies of {self.name}"))
        if not callable(self.loads):
            object.__setattr__(self, "loads", self._load_rows(self.loads))
        if not self.bodies:
            raise ValueError(f"{self.name} has no bodies")
        if not isinstance(self.base, (FixedBase, PrescribedBase)):
            raise ValueError(
                f"base must be FixedBase() or PrescribedBase(), got {shown(self.base)}"
            )
        check_bodies(self.bodies, getattr(self.base, "name", None))
        if not callable(self.loads):
            check_loads(self.name, self.bodies, self.loads)
        object.__setattr__(self, "imus", listed_of(self.imus, Imu, f"imus of {self.name}"))
        check_imus(self.name, self.bodies, self.imus)
        check_numbers("gravity", vector(self.gravity, "gravity"))
        object.__setattr__(self, "values", self.numbers(self.values))
        found, shared = list[str](), set[str]()
        for link in self.links:
            of_link = [name_of(f) for f in (*link.q, *link.u)]
            may_share = isinstance(link.primitive, Functional)
            found += [f for f in of_link if not (may_share and f in shared)]
            shared |= {*of_link} if may_share else set()
        names = Counter(found)
        for name, count in names.items():
            if count > 1:
                raise ValueError(f"two joints have a coordinate or speed {name}; rename a body")
        for group in ("locked", "lockable"):
            object.__setattr__(self, group, self._checked_speeds(group))
        object.__setattr__(self, "passive", self._checked_passive())

    def __repr__(self) -> str:
        loops = f", {len(self.closures)} loops" * bool(self.closures)
        sizes = f"{len(self.bodies)} bodies, {len(self.speeds)} speeds"
        return f"<mechanism {self.name}: {sizes}{loops}>"

    def _load_rows(self, given: Any) -> tuple[Load, ...]:
        return listed_of(given, Load, f"loads of {self.name}")

    def _checked_speeds(self, group: str) -> frozenset[str]:
        given = getattr(self, group)
        names = names_of(
            sorted(given, key=str) if isinstance(given, Set) else given, f"{group} of {self.name}"
        )
        for name in names:
            check_known(name, self.speeds, f"{group} of {self.name}: {name} is no speed")
        return frozenset(names)

    def forces(self, given: Mapping[Any, Any] | None, what: str) -> dict[str, sp.Expr]:
        """Generalised forces by the name of their speed; raises `ValueError` for another name."""
        found = by_name({} if given is None else given, None, f"{what}s of {self.name}")
        for name in found:
            check_known(name, self.speeds, f"{what}s: {name} is no speed")
        return real_expressions(found, what)

    def _checked_passive(self) -> dict[str, sp.Expr]:
        found = self.forces(self.passive, "passive force")
        rates = {u.diff(t) for u in self.speeds.values()}
        for name, force in found.items():
            other = force.atoms(sp.Derivative) - rates
            if other or any(force.diff(rate).has(*rates) for rate in rates if force.has(rate)):
                raise ValueError(
                    f"the passive force {name} of {self.name} is of coordinates, speeds and, "
                    f"linearly, rates of speeds, got {shown(force)}"
                )
        return found

    def numbers(self, values: Mapping[Any, Any] | None) -> dict[str, float]:
        """Values of parameters by name."""
        what = f"values of {self.name}"
        given = by_name({} if values is None else values, None, what)
        return {
            name: real_number(value, f"{what}: the value of {name}")
            for name, value in given.items()
        }

    # -- symbols --------------------------------------------------------------------------------

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The links of all bodies, each after its parent."""
        numbers: dict[str | None, int] = {None: -1}
        links: list[Link] = []
        for body in self.bodies:
            links += links_of(body, numbers[body.parent], len(links))
            numbers[body.name] = len(links) - 1
        return tuple(links)

    @cached_property
    def applied(self) -> tuple[Load, ...]:
        """The loads, forces of closed loops among them; raises `ValueError` for what is none."""
        closing = [load for condition in self.conditions for load in condition.loads]
        return (*self.given_loads, *closing)

    @cached_property
    def given_loads(self) -> tuple[Load, ...]:
        """The loads without those of closed loops."""
        if not callable(self.loads):
            return tuple(self.loads)
        loads = self._load_rows(self.loads(self.under()))
        check_loads(self.name, self.bodies, loads)
        return loads

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Conditions of closed loops, without redundant ones."""
        return independent_conditions(self, self._every_condition)

    @property
    def redundant(self) -> tuple[str, ...]:
        """Names of forces of closed loops that nothing determines, as other forces can stand for
        them: those across the plane of a planar mechanism, for example. They are left out."""
        return tuple(name_of(condition.force) for condition in self.left_out)

    @cached_property
    def left_out(self) -> tuple[Condition, ...]:
        """The conditions of these forces, which follow from the others where the loops were closed;
        in other positions they may not."""
        kept = {condition.force for condition in self.conditions}
        return tuple(c for c in self._every_condition if c.force not in kept)

    @cached_property
    def _every_condition(self) -> tuple[Condition, ...]:
        open_ = self.under()
        return tuple(c for closure in self.closures for c in closure.conditions(open_))

    def under(self: Self, loads: Sequence[Load] = ()) -> Self:
        """The tree without loops under these loads alone: its motion is the same, found once."""
        made = replace(self, loads=tuple(loads), closures=(), passive={})
        vars(made).update(poses=self.poses, motion=self.motion)
        return made

    @cached_property
    def coordinates(self) -> dict[str, AppliedUndef]:
        """Generalised coordinates by name, such as `shank_x` [rad]."""
        return {name_of(q): q for link in self.links for q in link.q}

    @cached_property
    def speeds(self) -> dict[str, AppliedUndef]:
        """Generalised speeds by name, such as `shank_wx` [rad/s]."""
        return {name_of(u): u for link in self.links for u in link.u}

    def joint_of(self, body: str) -> tuple[Link, ...]:
        """The links of a body."""
        self._check_body(body)
        return tuple(link for link in self.links if link.name.partition(".")[0] == body)

    def speeds_of(self, *names: Any) -> list[str]:
        """Names of speeds, those of a whole joint by the name of its body; all without names.

        Raises `ValueError` for a name that is neither.
        """
        bodies = [body.name for body in self.bodies]
        chosen: list[str] = [] if names else list(self.speeds)
        for name in map(name_of, names):
            what = f"{name} is no joint and no speed of {self.name}"
            check_known(name, [*self.speeds, *bodies], what)
            if name in self.speeds:
                chosen.append(name)
            else:
                chosen += [name_of(u) for link in self.joint_of(name) for u in link.u]
        return list(dict.fromkeys(chosen))

    def lock(self: Self, *names: Any) -> Self:
        """The tree with speeds that are zero: those named, or all of the joints of named bodies.

        Their rows are removed. Coordinates of a joint that is locked as a whole become parameters.
        Bryant angles of a joint that is locked in part still move: it is speeds that are locked.
        """
        chosen = frozenset(self.speeds_of(*names) if names else ())
        return replace(self, locked=self.locked | chosen, lockable=self.lockable - chosen)

    def with_locks(self: Self, *names: Any) -> Self:
        """The tree with speeds that can be locked at run time, by name or by body; all by default.

        Each gets a parameter `lock_shank_wx`, ...: 0 (default) leaves it free, 1 locks it; see
        `locks`.
        """
        chosen = frozenset(self.speeds_of(*names)) - self.locked
        values = {**{f"lock_{name}": 0.0 for name in chosen}, **self.values}
        return replace(self, lockable=self.lockable | chosen, values=values)

    def locks(self, *names: Any) -> dict[str, float]:
        """Values of parameters that lock speeds at run time, by name or by body; all by default.

        Raises `ValueError` for a speed that cannot be locked at run time.
        """
        for name in self.speeds_of(*names):
            if names and name not in self.lockable:
                raise ValueError(f"{name} cannot be locked at run time; use with_locks({name!r})")
        return {f"lock_{n}": 1.0 for n in self.speeds_of(*names) if n in self.lockable}

    def parametrised(self: Self) -> Self:
        """The tree with parameters in place of the numbers of its bodies and of gravity.

        Its model is compiled once for all persons, and any of the numbers can be identified. See
        `bodies.parametrised` for the names; gravity along an axis becomes `g`.
        """
        pairs = [parametrised(body) for body in self.bodies]
        values = {name: value for _, given in pairs for name, value in given.items()}
        gravity = vector(self.gravity)
        used = [k for k, e in enumerate(gravity) if not e.is_zero]
        if len(used) == 1 and gravity[used[0]].is_number:
            value, g = gravity[used[0]], sp.Symbol("g")
            values["g"] = abs(float(value))
            gravity = (sp.sign(value) * g / value) * gravity
        return replace(
            self,
            bodies=tuple(body for body, _ in pairs),
            gravity=gravity,
            values={**values, **self.values},
        )

    # -- actuators ------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, str]:
        """Names of the inputs of `torque_inputs` by those of the speeds that they drive."""
        pairs = (zip(link.u, link.inputs, strict=True) for link in reversed(self.links))
        found = {name_of(u): name for pair in pairs for u, name in pair}
        return {speed: found[speed] for speed in self.speeds}

    def torque_inputs(self, *names: Any) -> dict[str, sp.Expr]:
        """Torques or forces of joints as inputs, by the name of their speed; of all by default.

        The input for `shank_wx` is `shank_tx` [N m], for `cart_vx` `cart_fx` [N], for the rate
        about any axis, `arm_rate`, `arm_torque`, for `knee_speed` of a custom joint `knee_moment`
        or `knee_force`.
        """
        return {name: sp.Function(self.inputs[name])(t) for name in self.speeds_of(*names)}

    def joint_pd(self, *names: Any) -> dict[str, sp.Expr]:
        """Torques -Kp q - Kd u of joints, by the name of their speed; of all by default.

        Gains are parameters `Kp_shank_x` [N m/rad] and `Kd_shank_x` [N m s/rad]. For spherical
        joints q are Bryant angles and u components in the axes of the body (Bourgeois, Langlois
        2015, section 5.3).
        """
        torques: dict[str, sp.Expr] = {}
        chosen = set(self.speeds_of(*names))
        for link in self.links:
            coordinates = sorted(link.q, key=name_of)  # Bryant angles in any sequence: by axis
            for q, u in zip(coordinates, link.u, strict=True):
                if name_of(u) in chosen:
                    kp, kd = (sp.Symbol(f"{kind}_{name_of(q)}") for kind in ("Kp", "Kd"))
                    torques[name_of(u)] = -kp * q - kd * u
        return torques

    # -- mechanics ------------------------------------------------------------------------------

    @cached_property
    def moving(self) -> tuple[Link, ...]:
        """The links with the speeds that they have: 0 if locked, (1 - lock) u if lockable.

        So a lock makes the mass matrix neither singular nor unsymmetric.
        """
        actual: dict[str, sp.Expr] = {**self.speeds, **dict.fromkeys(self.locked, sp.S.Zero)}
        actual |= {name: (1 - lock_of(name)) * self.speeds[name] for name in self.lockable}
        return tuple(
            replace(link, u=tuple(actual[name_of(u)] for u in link.u)) for link in self.links
        )

    @cached_property
    def poses(self) -> Poses:
        """Poses of all links."""
        steps = Steps()
        poses, counts = {-1: self.base.pose(steps)}, [0, len(steps.definitions)]
        for k, link in enumerate(self.links):
            poses[k] = pose(steps, poses[link.parent], link)
            counts.append(len(steps.definitions))
        return Poses(steps, poses, tuple(counts))

    @cached_property
    def motion(self) -> Moving:
        """The motion of all links."""
        steps, poses = Steps(), self.poses.poses
        steps.definitions.update(self.poses.part(-1))
        frames = {-1: self.base.frame(steps, vector(self.gravity), poses[-1])}
        for k, link in enumerate(self.moving):
            steps.definitions.update(self.poses.part(k))  # here: code is faster that uses it soon
            frames[k] = outwards(steps, frames[link.parent], link, poses[k])
            check_turns(link.body, frames[k].angular)
        return Moving(steps, frames)

    @cached_property
    def recursion(self) -> Recursion:
        """Motion outwards, forces inwards."""
        steps, frames = self.motion.steps.copy(), self.motion.frames
        own = {
            k: subtract(needed_wrench(steps, frames[k], link.body), self.load_wrenches(k, frames))
            for k, link in enumerate(self.moving)
            if link.body is not None
        }
        return Recursion(steps, frames, *inwards(steps, self.moving, frames, own))

    def load_wrenches(self, number: int, frames: Mapping[int, Frame]) -> list[Wrench]:
        """Wrenches of the loads on the body of a link."""
        name = self.links[number].name
        return [load_wrench(frames[number], load) for load in self.applied if load.body == name]

    def frame(self, body: str | None) -> Frame:
        """The motion of a body; of the base for None."""
        return self.motion.frames[self._number(body)]

    def place(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """A point of a body in world axes [m]; `at` in the axes of the body, from its joint."""
        here = self.poses.poses[self._number(body)]
        return here.place + here.attitude @ vector(at)

    def velocity(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """Velocity of a point of a body in world axes [m/s]."""
        frame = self.frame(body)
        return frame.attitude @ (frame.velocity + frame.angular.cross(vector(at)))

    def specific_force(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """Specific force, the signal of an accelerometer at a point of a body: its acceleration
        minus gravity, in the axes of the body [m/s^2]; it contains the rates of the speeds."""
        frame = self.frame(body)
        return frame.acceleration + frame.change @ vector(at)

    def attitude(self, body: str | None) -> Matrix:
        """The rotation from the axes of a body to world axes."""
        return self.poses.poses[self._number(body)].attitude

    def wrench(self, body: str | None = None) -> Wrench:
        """Reaction wrench of the joint on the body, force [N] and moment [N m] about the joint, in
        the axes of the body; for None those of the base on the tree, about the origin of the base
        and in its axes. Actuators are included."""
        return self.recursion.wrenches[self._number(body)]

    def needed(self) -> dict[str, sp.Expr]:
        """Generalised force that each speed needs, by its name: Kane's inertia forces and loads,
        less what constraints and joints give by themselves."""
        found = {name: -push for name, push in pushes(self.conditions).items()}
        for name, force in self.passive.items():
            found[name] = found.get(name, sp.S.Zero) - force
        for k, link in enumerate(self.links):
            forces = along_joint(self.recursion.frames[k], self.recursion.kane[k])
            for u, force in zip(link.u, forces, strict=True):
                found[name_of(u)] = found.get(name_of(u), sp.S.Zero) + force
        return {name: found[name] for name in self.speeds}

    def center_of_mass(self) -> Vector:
        """Centre of mass in world axes [m]; raises `ValueError` if nothing has a mass."""
        total = sp.Add(*(mass_of(b) for b in self.bodies))
        if total.is_zero:
            raise ValueError(f"{self.name} has no centre of mass: all masses are 0")
        moments = (mass_of(b) * self.place(b.name, b.com) for b in self.bodies)
        return (1 / total) * sum(moments, ZERO)

    def momentum(self) -> Vector:
        """Linear momentum in world axes [kg m/s]."""
        return sum((mass_of(b) * self.velocity(b.name, b.com) for b in self.bodies), ZERO)

    def angular_momentum(self, about: Sequence[Any] = (0, 0, 0)) -> Vector:
        """About a point of the world, in world axes [kg m^2/s]."""
        total = ZERO
        for body in self.bodies:
            frame = self.frame(body.name)
            spin = frame.attitude @ (inertia_matrix(body) @ frame.angular)
            arm = self.place(body.name, body.com) - vector(about)
            total += spin + mass_of(body) * arm.cross(self.velocity(body.name, body.com))
        return total

    @cached_property
    def rotors(self) -> dict[tuple[str, str], sp.Expr]:
        """Inertia along pairs of speeds that joints have by themselves, besides that of bodies."""
        rates = {name: u.diff(t) for name, u in self.speeds.items()}
        found = {
            (row, column): -force.diff(rate)
            for row, force in self.passive.items()
            for column, rate in rates.items()
            if force.has(rate)
        }
        return {pair: inertia for pair, inertia in found.items() if inertia != 0}

    def kinetic_energy(self) -> sp.Expr:
        """[J]"""
        pairs = (zip(a.u, b.u, strict=True) for a, b in zip(self.links, self.moving, strict=True))
        actual = {name_of(u): moving for pair in pairs for u, moving in pair}
        energy = sp.Add(*(e * actual[i] * actual[j] / 2 for (i, j), e in self.rotors.items()))
        for body in self.bodies:
            frame = self.frame(body.name)
            v = frame.velocity + frame.angular.cross(vector(body.com))
            spin = frame.angular @ (inertia_matrix(body) @ frame.angular)
            energy += (mass_of(body) * (v @ v) + spin) / 2
        return energy

    def potential_energy(self) -> sp.Expr:
        """Potential energy of gravity, zero in the origin of the world [J]."""
        gravity = vector(self.gravity)
        return -sp.Add(*(mass_of(b) * (gravity @ self.place(b.name, b.com)) for b in self.bodies))

    def _check_body(self, body: str) -> None:
        check_known(body, [b.name for b in self.bodies], f"{body} is no body of {self.name}")

    def _number(self, body: str | None) -> int:
        """Number of the link that moves with a body; -1 for the base."""
        if body is None:
            return -1
        self._check_body(body)
        return next(number for number, link in enumerate(self.links) if link.name == body)
