"""Models of a `System` of `sympy.physics.mechanics`: its bodies, joints and loads as a tree."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.physics import mechanics as me

from kinesym.base.checks import shown
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.bodies import Body, Load
from kinesym.symbolic.multibody.joints import Custom, normalised, unit
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES, IDENTITY, ZERO, Matrix, Vector, matrix
from kinesym.symbolic.names import name_of, t, written

REMEDY = "call form_eoms() of the System and give it to Model.from_kane instead"

#: Turns (axis, angle) about moving axes one after the other, then a translation, in the axes of the
#: frame of the joint that its parent holds.
Motion = tuple[list[tuple[Vector, sp.Expr]], Vector]


def model_of(
    system: Any,
    outputs: Any = (),
    name: str = "system",
    values: Mapping[Any, float] | None = None,
    units: Mapping[Any, str] | None = None,
) -> Model:
    """The model of a `System`; see `Model.from_system`."""
    if not isinstance(system, me.System):
        raise ValueError(f"expected a System of sympy.physics.mechanics, got {shown(system)}")
    _check_is_tree(system)
    reading = Reading(system)
    gravity, loads = _gravity(reading)
    tree = Tree(
        name, reading.bodies, gravity=gravity, loads=lambda tree: [*reading.loads(tree, loads)]
    )
    for k, expression in enumerate(
        [*system.holonomic_constraints, *system.nonholonomic_constraints], 1
    ):
        tree = tree.constrain(expression.xreplace(reading.rates), f"lam{k}")
    model = tree.model(reading.torques, () if outputs is None else outputs)
    return replace(model, values=values or {}, units=units or {})


# -- what a tree cannot say ----------------------------------------------------------------------


def _check_is_tree(system: me.System) -> None:
    """Raise `ValueError` for a system that says more than joints, loads and constraints do."""
    pairs = (zip(joint.coordinates, joint.speeds, strict=True) for joint in system.joints)
    moved = {q: u for pair in pairs for q, u in pair}
    rates = {q.diff(t) - u for q, u in moved.items()}
    for what, given, known in (
        ("coordinate", system.q, set(moved)),
        ("speed", system.u, set(moved.values())),
        ("kinematic differential equation", system.kdes, {*rates, *(-rate for rate in rates)}),
        ("auxiliary speed", system.u_aux, set()),
    ):
        for e in given:
            if e not in known:
                raise ValueError(f"the {what} {written(e, 60)} is of no joint; {REMEDY}")
    derived = [*system.holonomic_constraints.diff(t), *system.nonholonomic_constraints]
    if list(system.velocity_constraints) != derived:
        raise ValueError(f"the System has velocity_constraints of its own; {REMEDY}")
    for body in system.bodies:
        if body.potential_energy != 0:
            raise ValueError(
                f"body {body.name} has a potential energy, which Kane's method leaves out; give "
                "loads, or call form_eoms(LagrangesMethod) and Model.from_kane"
            )


def _in_order(system: me.System) -> Iterator[me.Joint]:
    """The joints, each after that which moves its parent; raises `ValueError` for loops."""
    for child, count in Counter(joint.child for joint in system.joints).items():
        if count > 1:
            raise ValueError(
                f"body {child.name} is the child of {count} joints, which is no tree; leave joints "
                f"out and add holonomic constraints, or {REMEDY}"
            )
    waiting = {joint.child: joint for joint in system.joints}
    while waiting:
        ready = next((joint for joint in waiting.values() if joint.parent not in waiting), None)
        if ready is None:
            raise ValueError(f"joint {next(iter(waiting.values())).name} is of a loop; {REMEDY}")
        yield waiting.pop(ready.child)


# -- bodies and joints ---------------------------------------------------------------------------


class Reading:
    """Bodies of a `System`, and what their frames and points are in the tree.

    Axes of a body are those of its `frame`, of a particle those of its joint; its origin is the
    point where its joint holds it. The base, None, has the frame and the fixed point of the system.
    """

    def __init__(self, system: me.System) -> None:
        self.system = system
        self.frames: dict[me.ReferenceFrame, str | None] = {system.frame: None}
        self.points: dict[me.Point, tuple[str | None, Vector]] = {system.fixed_point: (None, ZERO)}
        self.joints: dict[str, me.Joint] = {}
        self.bodies = [self._body(joint) for joint in _in_order(system)]
        for body in system.bodies:
            if body.masscenter not in self.points:
                self._check_fixed(body)

    @cached_property
    def rates(self) -> dict[sp.Basic, sp.Expr]:
        """Speeds and their rates in place of derivatives of coordinates."""
        pairs = [pair for joint in self.joints.values() for pair in _pairs(joint)]
        return {q.diff(t): u for q, u in pairs} | {q.diff(t, 2): u.diff(t) for q, u in pairs}

    def _body(self, joint: me.Joint) -> Body:
        """The child of a joint, whose frame and points are known from now on."""
        body, name = joint.child, _identifier(joint.child.name)
        parent = None
        if joint.parent.masscenter in self.points:
            parent = self.points[joint.parent.masscenter][0]
        frame = getattr(body, "frame", joint.child_interframe)
        held = self._turn(joint.parent_interframe, parent)
        at = self._place(joint.parent_point, parent)
        if held is None or at is None:
            raise ValueError(
                f"body {joint.parent.name}, the parent of joint {joint.name}, is moved by no joint "
                "and is not fixed to the frame and the fixed_point of the System; fix it, or "
                f"{REMEDY}"
            )
        self.joints[name], self.frames[frame] = joint, name
        self.points[joint.child_point] = name, ZERO
        com, turned = self._place(body.masscenter, name), self._turn(joint.child_interframe, name)
        assert com is not None and turned is not None  # SymPy makes both when it makes the joint
        self.points[body.masscenter] = name, com
        turns, shift = motion_of(joint)
        moving = Custom(
            tuple(q for q, _ in _pairs(joint)),
            [(held @ axis, angle) for axis, angle in turns],
            held @ shift,
            held @ turned.T,
            speeds=tuple(u for _, u in _pairs(joint)),
        )
        inertia: Any = (0, 0, 0)
        if isinstance(body, me.RigidBody):
            inertia = body.central_inertia.to_matrix(frame).tolist()
        return Body(name, body.mass, com, inertia, moving, at, parent)

    def _check_fixed(self, body: Any) -> None:
        """Raise `ValueError` for a body of no joint that is not fixed to the base."""
        turned = not hasattr(body, "frame") or self._turn(body.frame, None) is not None
        if not turned or self._place(body.masscenter, None) is None:
            raise ValueError(f"body {body.name} is moved by no joint; add one, or {REMEDY}")

    # -- frames and points -----------------------------------------------------------------------

    def _turn(self, frame: me.ReferenceFrame, body: str | None) -> Matrix | None:
        """The rotation from a frame to the axes of a body to which it is fixed; None if not."""
        found = self._axes(frame, lambda one: one == body)
        return None if found is None else found[1]

    def _axes(
        self,
        frame: me.ReferenceFrame,
        fits: Callable[[str | None], bool] = lambda body: True,
        fixed: bool = True,
    ) -> tuple[str | None, Matrix] | None:
        """The nearest body that fits, and the rotation from a frame to its axes, which does not
        change if it is `fixed`. SymPy's own `dcm` takes long between frames that are far apart."""
        queue, seen = deque([(frame, IDENTITY)]), {frame}
        while queue:
            here, turn = queue.popleft()
            if here in self.frames and fits(self.frames[here]):
                return self.frames[here], turn
            for other in here._dcm_dict:
                step = matrix(other.dcm(here).tolist())
                if other not in seen and (not fixed or _constant(*sp.Matrix(step))):
                    seen.add(other)
                    queue.append((other, step @ turn))
        return None

    def _place(self, point: me.Point, body: str | None) -> Vector | None:
        """A point from the origin of a body to which it is fixed, in its axes; None if not."""
        found = self._anchor(point, lambda one: one == body)
        return None if found is None else found[1]

    def _anchor(
        self, point: me.Point, fits: Callable[[str | None], bool] = lambda body: True
    ) -> tuple[str | None, Vector] | None:
        """The nearest body that fits and to which a point is fixed, and the place of the point."""
        none: dict[str | None, Vector] = {}
        queue, seen = deque([(point, none)]), {point}
        while queue:
            here, arms = queue.popleft()  # from here to the point, by the body in whose axes
            if here in self.points:
                body, place = self.points[here]
                if fits(body) and arms.keys() <= {body}:
                    return body, place + arms.get(body, ZERO)
            for other, arm in here._pos_dict.items():
                longer = None if other in seen else self._longer(arms, arm)
                if longer is not None:
                    seen.add(other)
                    queue.append((other, longer))
        return None

    def _longer(
        self, arms: Mapping[str | None, Vector], arm: me.Vector
    ) -> dict[str | None, Vector] | None:
        """Arms with one more; None if it changes in all bodies."""
        found = dict(arms)
        for given, frame in arm.args:
            axes = self._axes(frame)
            if axes is None or not _constant(*given):
                return None
            found[axes[0]] = found.get(axes[0], ZERO) + axes[1] @ Vector(given)
        return found

    # -- loads -----------------------------------------------------------------------------------

    @cached_property
    def torques(self) -> dict[str, sp.Expr]:
        """Torques of actuators at pin joints, by the name of the speed."""
        found: dict[str, sp.Expr] = {}
        for actuator in self.system.actuators:
            joint = self._driven(actuator)
            if joint is not None:
                name = name_of(_pairs(joint)[0][1])
                torque = (actuator.torque * actuator.axis.magnitude()).xreplace(self.rates)
                found[name] = found.get(name, sp.S.Zero) + torque
        return found

    def _driven(self, actuator: Any) -> me.PinJoint | None:
        """The pin joint along which a torque acts, if there is one."""
        if not isinstance(actuator, me.TorqueActuator) or actuator.reaction_frame is None:
            return None
        for joint in self.system.joints:
            along = type(joint) is me.PinJoint and actuator.axis == joint.joint_axis
            frames = (joint.child_interframe, joint.parent_interframe)
            if along and frames == (actuator.target_frame, actuator.reaction_frame):
                return joint
        return None

    def loads(self, tree: Mechanism, given: Sequence[Any]) -> Iterator[Load]:
        """Loads of the tree, from these and those of actuators that are no torques of joints."""
        others = (a for a in self.system.actuators if self._driven(a) is None)
        for load in [*given, *(load for a in others for load in a.to_loads())]:
            found = (self._anchor if isinstance(load, me.Force) else self._axes)(load.location)
            if found is None:
                raise ValueError(
                    f"the load at {load.location} is on what is fixed to no body; take a point or "
                    f"frame of a body, or {REMEDY}"
                )
            body, at = found
            if body is not None:  # what pushes the base moves nothing
                for axes, components in self._components(tree, body, load.vector):
                    if isinstance(load, me.Force):
                        yield Load(body, force=components, at=at, axes=axes)
                    else:
                        yield Load(body, torque=components, axes=axes)

    def _components(
        self, tree: Mechanism, body: str, given: me.Vector
    ) -> Iterator[tuple[str, Vector]]:
        """A vector on a body, in its own axes as far as it is given there, else in the world's."""
        own, world = ZERO, ZERO
        for components, frame in given.args:
            axes = self._axes(frame, fixed=False)
            if axes is None:
                raise ValueError(f"a load is along axes of {frame}, which no body determines")
            part = axes[1] @ Vector(e.xreplace(self.rates) for e in components)
            if axes[0] == body:
                own += part
            else:
                world += tree.attitude(axes[0]) @ part
        for name, found in (("body", own), ("world", world)):
            if found != ZERO:
                yield name, found


def _pairs(joint: me.Joint) -> list[tuple[AppliedUndef, AppliedUndef]]:
    """Coordinates and speeds; a speed that is given as the rate q' becomes `q_rate`."""
    return [
        (q, sp.Function(f"{name_of(q)}_rate")(t) if u == q.diff(t) else u)
        for q, u in zip(joint.coordinates, joint.speeds, strict=True)
    ]


def motion_of(joint: me.Joint) -> Motion:
    """The motion of the frame of a joint that its child holds in that which its parent holds."""
    q, parent = list(joint.coordinates), joint.parent_interframe
    if type(joint) in (me.PinJoint, me.PrismaticJoint, me.CylindricalJoint):
        axis = normalised(Vector(joint.joint_axis.to_matrix(parent)))
        turns = [] if type(joint) is me.PrismaticJoint else [(axis, q[0])]
        return turns, ZERO if type(joint) is me.PinJoint else q[-1] * axis
    if type(joint) is me.PlanarJoint:
        return [(unit("x"), q[0])], Vector((sp.S.Zero, q[1], q[2]))
    if type(joint) is me.SphericalJoint:
        order = str(joint._rot_order).upper().translate(str.maketrans("XYZ", "123"))
        angles = q if joint._amounts is None else joint._amounts
        turns = [(unit(AXES[int(k) - 1]), a) for k, a in zip(order, angles, strict=True)]
        return turns if joint._rot_type.upper() == "BODY" else turns[::-1], ZERO
    if type(joint) is me.WeldJoint:
        return [], ZERO
    raise ValueError(f"joint {joint.name} is a {type(joint).__name__}, none of SymPy's; {REMEDY}")


def _gravity(reading: Reading) -> tuple[Vector, list[Any]]:
    """The acceleration that loads give to all bodies, and the other loads."""
    every, found = list(reading.system.loads), list[dict[Vector, Any]]()
    for body in (joint.child for joint in reading.joints.values()):
        if body.mass != 0:
            at = (load for load in every if load.location == body.masscenter)
            along = (
                load for load in at if [f for _, f in load.vector.args] == [reading.system.frame]
            )
            found.append({Vector(load.vector.args[0][0] / body.mass): load for load in along})
    for g in found[0] if found else ():
        if _constant(*g) and all(g in each for each in found):
            falling = [each[g] for each in found]
            return g, [load for load in every if not any(load is one for one in falling)]
    return ZERO, every


def _constant(*expressions: sp.Expr) -> bool:
    """Whether expressions are of parameters alone."""
    return not parts_of(AppliedUndef, *expressions) and not any(e.has(t) for e in expressions)


def _identifier(name: str) -> str:
    """A name of letters, digits and underscores."""
    return re.sub(r"\W", "_", str(name))
