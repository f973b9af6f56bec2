"""Multibody models of open trees from a table of bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.expression import real_expressions, real_number
from kinesym.symbolic.given import check_text, listed_of, shown
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import Walk, assemble, walk
from kinesym.symbolic.multibody.base import FixedBase, PrescribedBase
from kinesym.symbolic.multibody.bodies import (
    Body,
    Load,
    check_bodies,
    check_loads,
    check_numbers,
    check_values,
    inertia_matrix,
    mass_of,
    parametrised,
)
from kinesym.symbolic.multibody.links import Link, actuator_name, links_of
from kinesym.symbolic.multibody.outputs import named_outputs
from kinesym.symbolic.multibody.vectors import (
    Matrix,
    Vector,
    add,
    cross,
    dot,
    scale,
    times,
    vector,
)
from kinesym.symbolic.multibody.walk import Frame, Wrench, along_joint
from kinesym.symbolic.names import by_name, name_of, names_of, suggest, t


@dataclass(frozen=True)
class Tree:
    """An open tree of rigid bodies on a fixed or moving base.

    bodies : each after its parent. base : `FixedBase()` or `PrescribedBase()`.
    gravity : in world axes [m/s^2], e.g. (0, 0, -g). loads : external ones, or a function that
        makes them from the tree without loads, for forces that depend on its motion:
        `loads=lambda tree: [Load("foot", (0, 0, -k * tree.place("foot")[2]))]`.
    locked : names of speeds that are zero; see `lock`. lockable : see there.
    values : default values of parameters, by name.

    Raises `ValueError` for bodies that make no tree or cannot exist, naming the body.
    """

    name: str
    bodies: Sequence[Body]
    base: FixedBase | PrescribedBase = field(default_factory=FixedBase)
    gravity: Sequence[Any] = (0, 0, -sp.Symbol("g"))
    loads: Sequence[Load] | Callable[[Tree], Sequence[Load]] = ()
    locked: frozenset[str] = frozenset()
    lockable: frozenset[str] = frozenset()
    values: Mapping[str, float] = field(default_factory=dict)

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
        check_numbers("gravity", vector(self.gravity, "gravity"))
        object.__setattr__(self, "values", self.numbers(self.values))
        names = Counter(name_of(f) for link in self.links for f in (*link.q, *link.u))
        for name, count in names.items():
            if count > 1:
                raise ValueError(f"two joints have a coordinate or speed {name}; rename a body")
        for group in ("locked", "lockable"):
            object.__setattr__(self, group, self._checked_speeds(group))

    def _load_rows(self, given: Any) -> tuple[Load, ...]:
        return listed_of(given, Load, f"loads of {self.name}")

    def _checked_speeds(self, group: str) -> frozenset[str]:
        given = getattr(self, group)
        names = names_of(
            sorted(given, key=str) if isinstance(given, Set) else given, f"{group} of {self.name}"
        )
        for name in names:
            if name not in self.speeds:
                raise ValueError(
                    f"{group} of {self.name}: {name} is no speed; {suggest(name, self.speeds)}"
                )
        return frozenset(names)

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
        """The links of all bodies, each after the one that carries it."""
        numbers: dict[str | None, int] = {None: -1}
        links: list[Link] = []
        for body in self.bodies:
            at = vector(body.at)
            links += links_of(body.name, body.joint, numbers[body.parent], at, len(links))
            numbers[body.name] = len(links) - 1
        return tuple(links)

    @cached_property
    def applied(self) -> tuple[Load, ...]:
        """The loads; raises `ValueError` for what is none."""
        if not callable(self.loads):
            return tuple(self.loads)
        loads = self._load_rows(self.loads(replace(self, loads=())))
        check_loads(self.name, self.bodies, loads)
        return loads

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
        end = self._number(body)
        begin = end
        while begin > 0 and self.links[begin - 1].body is None:
            begin -= 1
        return self.links[begin : end + 1]

    def speeds_of(self, *names: Any) -> list[str]:
        """Names of speeds, those of a whole joint by the name of its body; all without names.

        Raises `ValueError` for a name that is neither.
        """
        bodies = [body.name for body in self.bodies]
        chosen: list[str] = [] if names else list(self.speeds)
        for name in map(name_of, names):
            if name in self.speeds:
                chosen.append(name)
            elif name in bodies:
                chosen += [name_of(u) for link in self.joint_of(name) for u in link.u]
            else:
                known = [*self.speeds, *bodies]
                raise ValueError(
                    f"{name} is no joint and no speed of {self.name}; {suggest(name, known)}"
                )
        return list(dict.fromkeys(chosen))

    def lock(self, *names: Any) -> Tree:
        """The tree with speeds that are zero: those named, or all of the joints of named bodies.

        Their rows are removed. Coordinates of a joint that is locked as a whole become parameters.
        Bryant angles of a joint that is locked in part still move: it is speeds that are locked.
        """
        chosen = frozenset(self.speeds_of(*names) if names else ())
        return replace(self, locked=self.locked | chosen, lockable=self.lockable - chosen)

    def with_locks(self, *names: Any) -> Tree:
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

    def parametrised(self) -> Tree:
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
            gravity = scale(sp.sign(value) * g / value, gravity)
        return replace(
            self,
            bodies=tuple(body for body, _ in pairs),
            gravity=gravity,
            values={**values, **self.values},
        )

    # -- actuators ------------------------------------------------------------------------------

    def torque_inputs(self, *names: Any) -> dict[str, sp.Expr]:
        """Torques or forces of joints as inputs, by the name of their speed; of all by default.

        The input for `shank_wx` is `shank_tx` [N m], for `cart_vx` `cart_fx` [N], for the rate
        about any axis, `arm_rate`, `arm_torque`.
        """
        return {name: sp.Function(actuator_name(name))(t) for name in self.speeds_of(*names)}

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
    def _walk(self) -> Walk:
        return walk(self)

    def frame(self, body: str | None) -> Frame:
        """The motion of a body; of the base for None."""
        return self._walk.base if body is None else self._walk.frames[self._number(body)]

    def place(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """A point of a body in world axes [m]; `at` in the axes of the body, from its joint."""
        frame = self.frame(body)
        return add(frame.place, times(frame.attitude, vector(at)))

    def velocity(self, body: str | None, at: Sequence[Any] = (0, 0, 0)) -> Vector:
        """Its velocity in world axes [m/s]."""
        frame = self.frame(body)
        return times(frame.attitude, add(frame.velocity, cross(frame.angular, vector(at))))

    def attitude(self, body: str | None) -> Matrix:
        """The rotation from the axes of a body to world axes."""
        return self.frame(body).attitude

    def wrench(self, body: str | None = None) -> Wrench:
        """Reaction wrench of the joint on the body, force [N] and moment [N m] about the joint, in
        the axes of the body; for None those of the base on the tree, about the origin of the base
        and in its axes. Actuators are included."""
        return self._walk.wrenches[-1 if body is None else self._number(body)]

    def needed(self) -> dict[str, sp.Expr]:
        """Generalised force that each speed needs, by its name: Kane's inertia forces and loads."""
        return {
            name_of(u): force
            for k, link in enumerate(self.links)
            for u, force in zip(link.u, along_joint(link, self._walk.kane[k]), strict=True)
        }

    def center_of_mass(self) -> Vector:
        """In world axes [m]; raises `ValueError` if nothing has a mass."""
        total = sp.Add(*(mass_of(b) for b in self.bodies))
        if total.is_zero:
            raise ValueError(f"{self.name} has no centre of mass: all masses are 0")
        parts = [scale(mass_of(b), self.place(b.name, b.com)) for b in self.bodies]
        return scale(1 / total, add(*parts))

    def momentum(self) -> Vector:
        """Linear momentum in world axes [kg m/s]."""
        return add(*(scale(mass_of(b), self.velocity(b.name, b.com)) for b in self.bodies))

    def angular_momentum(self, about: Sequence[Any] = (0, 0, 0)) -> Vector:
        """About a point of the world, in world axes [kg m^2/s]."""
        parts = []
        for body in self.bodies:
            frame = self.frame(body.name)
            spin = times(frame.attitude, times(inertia_matrix(body), frame.angular))
            arm = add(self.place(body.name, body.com), scale(sp.S.NegativeOne, vector(about)))
            moment = scale(mass_of(body), cross(arm, self.velocity(body.name, body.com)))
            parts += [spin, moment]
        return add(*parts)

    def kinetic_energy(self) -> sp.Expr:
        """[J]"""
        energy = sp.S.Zero
        for body in self.bodies:
            frame = self.frame(body.name)
            v = add(frame.velocity, cross(frame.angular, vector(body.com)))
            spin = dot(frame.angular, times(inertia_matrix(body), frame.angular))
            energy += (mass_of(body) * dot(v, v) + spin) / 2
        return energy

    def potential_energy(self) -> sp.Expr:
        """Of gravity, zero in the origin of the world [J]."""
        gravity = vector(self.gravity)
        return -sp.Add(*(mass_of(b) * dot(gravity, self.place(b.name, b.com)) for b in self.bodies))

    # -- the model ------------------------------------------------------------------------------

    def model(
        self,
        torques: Mapping[Any, Any] | None = None,
        outputs: Mapping[str, sp.Expr] | Iterable[str | Mapping[str, sp.Expr]] = (),
        values: Mapping[Any, float] | None = None,
    ) -> Model:
        """Equations of motion with these generalised forces by the name of their speeds [N m, N].

        outputs : expressions by name, or a list of such and of families: "places" (which lets
            trajectories be animated), "velocities", "attitudes", "center_of_mass", "momentum",
            "energy", "actuators", "base_wrench", "joint_wrenches", "held"; see
            `kinesym.symbolic.multibody.outputs`.

        values : of parameters; they come before those of the tree. Those that the model does not
            have are left out, as one table serves whatever is locked.

        Whatever function of time appears that is no coordinate and no speed becomes an input, every
        other symbol a parameter. Raises `ValueError` if a speed or family is unknown or if the
        values are those of bodies that cannot exist.
        """
        torques = self.checked_torques(torques)
        numbers = {**self.values, **self.numbers(values)}
        check_values(self.bodies, numbers)
        return assemble(self, torques, named_outputs(self, torques, outputs), numbers)

    def checked_torques(self, given: Mapping[Any, Any] | None) -> dict[str, sp.Expr]:
        """Generalised forces by the name of their speed; raises `ValueError` for another name."""
        torques = by_name({} if given is None else given, None, f"torques of {self.name}")
        for name in torques:
            if name not in self.speeds:
                raise ValueError(f"torques: {name} is no speed; {suggest(name, self.speeds)}")
        return real_expressions(torques, "torque")

    def _number(self, body: str) -> int:
        for number, link in enumerate(self.links):
            if link.body == body:
                return number
        known = [b.name for b in self.bodies]
        raise ValueError(f"{body} is no body of {self.name}; {suggest(body, known)}")
