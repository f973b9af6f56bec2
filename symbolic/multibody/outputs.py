"""Kinds of outputs of a tree, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kinesym.base.checks import listed, mapping
from kinesym.symbolic.expression import real_expressions
from kinesym.symbolic.multibody.bodies import mass_of
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.multibody.vectors import AXES
from kinesym.symbolic.names import by_name, check_known

Expressions = dict[str, sp.Expr]


@dataclass(frozen=True)
class Outputs:
    """Expressions by name, and the lines of a stick figure between points that they place."""

    expressions: Expressions
    drawing: tuple[tuple[str, ...], ...] = ()


def named_outputs(
    tree: Mechanism,
    torques: Mapping[str, sp.Expr],
    wanted: Mapping[str, sp.Expr] | Iterable[str | Mapping[str, sp.Expr]],
) -> Outputs:
    """The outputs of a model; raises `ValueError` for an unknown kind or a name used twice."""
    result: Expressions = {}
    drawing: tuple[tuple[str, ...], ...] = ()
    what = f"outputs of {tree.name}"
    for part in [wanted] if isinstance(wanted, (Mapping, str)) else listed(wanted, what):
        if isinstance(part, str):
            check_known(part, KINDS, f"outputs: there is no kind {part}")
            found = KINDS[part](tree, torques)
            drawing = stick_figure(tree) if part == "places" else drawing
        else:
            given = by_name(
                mapping(part, f"a part of the {what}", "or the name of a kind"), None, what
            )
            found = real_expressions(given, "output")
        twice = set(result) & set(found)
        if twice:
            raise ValueError(f"outputs: {min(twice)} is defined twice")
        result |= found
    return Outputs(result, drawing)


def components(name: str, v: Sequence[Any]) -> Expressions:
    """`name_x`, `name_y`, `name_z`."""
    return {f"{name}_{axis}": e for axis, e in zip(AXES, v, strict=True)}


def _merged(parts: Iterable[Expressions]) -> Expressions:
    return {name: e for part in parts for name, e in part.items()}


# -- kinds: each (tree, torques) -> expressions ---------------------------------------------------


def places(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`shank_place_x`, ...: joints, and `head_end_x`, ... of bodies without children: in world
    axes [m]."""
    joints = _merged(components(f"{b.name}_place", tree.place(b.name)) for b in tree.bodies)
    parents = {b.parent for b in tree.bodies}
    ends = _merged(
        components(f"{b.name}_end", tree.place(b.name, b.com if b.end is None else b.end))
        for b in tree.bodies
        if b.name not in parents or b.end is not None
    )
    return {**joints, **ends}


def stick_figure(tree: Mechanism) -> tuple[tuple[str, ...], ...]:
    """Lines from each joint to those of the children of its body, or to the end of the body."""
    lines = []
    for body in tree.bodies:
        children = [b.name for b in tree.bodies if b.parent == body.name]
        lines += [(f"{body.name}_place", f"{name}_place") for name in children]
        if not children or body.end is not None:
            lines.append((f"{body.name}_place", f"{body.name}_end"))
    return tuple(lines)


def velocities(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`shank_velocity_x`, ...: of joints, in world axes [m/s]; `shank_spin_x`, ...: angular
    velocities of bodies in world axes [rad/s]."""
    found: Expressions = {}
    for body in tree.bodies:
        frame = tree.frame(body.name)
        found |= components(f"{body.name}_velocity", tree.velocity(body.name))
        found |= components(f"{body.name}_spin", frame.attitude @ frame.angular)
    return found


def attitudes(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`shank_attitude_xy`, ...: the y axis of the body along the x axis of the world [-]."""
    return {
        f"{b.name}_attitude_{AXES[i]}{AXES[j]}": tree.attitude(b.name)[i][j]
        for b in tree.bodies
        for i in range(3)
        for j in range(3)
    }


def imu(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`imu_shank_gyro_x`, ... [rad/s]: angular velocities of the `imus` of the tree, and
    `imu_shank_accel_x`, ... [m/s^2]: accelerations minus gravity (specific forces), in the axes of
    the sensors (Titterton, Weston 2004, Strapdown Inertial Navigation Technology, chapter 3)."""
    if not tree.imus:
        raise ValueError(
            f"outputs: {tree.name} has no imus; give Tree(..., imus=[Imu('{tree.bodies[-1].name}', "
            "at=(x, y, z))])"
        )
    found: Expressions = {}
    for each in tree.imus:
        axes = each.attitude.T
        found |= components(f"imu_{each.label}_gyro", axes @ tree.frame(each.body).angular)
        force = axes @ tree.specific_force(each.body, each.at)
        found |= components(f"imu_{each.label}_accel", force)
    return found


def center_of_mass(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`com_x`, ... [m] and `com_velocity_x`, ... [m/s] in world axes."""
    mass = sp.Add(*(mass_of(b) for b in tree.bodies))
    velocity = (1 / mass) * tree.momentum()
    return {**components("com", tree.center_of_mass()), **components("com_velocity", velocity)}


def momentum(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`momentum_x`, ... [kg m/s] and, about the centre of mass, `angular_momentum_x`, ...
    [kg m^2/s], in world axes."""
    about = tree.center_of_mass()
    return {
        **components("momentum", tree.momentum()),
        **components("angular_momentum", tree.angular_momentum(about)),
    }


def energy(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`kinetic_energy`, `potential_energy` [J]."""
    return {"kinetic_energy": tree.kinetic_energy(), "potential_energy": tree.potential_energy()}


def actuators(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`shank_wx_torque`, ... [N m, N]: what acts along a speed, and `shank_wx_power` [W]."""
    found: Expressions = {}
    for name, torque in torques.items():
        found[f"{name}_torque"] = torque
        found[f"{name}_power"] = torque * tree.speeds[name]
    return found


def base_wrench(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`base_force_x`, ... [N], `base_moment_x`, ... [N m]: of the base on the tree, about the
    origin of the base and in its axes (Bourgeois, Langlois 2015, equation 16 with moments)."""
    force, moment = tree.wrench()
    return {**components("base_force", force), **components("base_moment", moment)}


def joint_wrenches(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`shank_force_x`, ... [N], `shank_moment_x`, ... [N m]: of the parent on a body, about
    its joint and in its axes."""
    found: Expressions = {}
    for body in tree.bodies:
        force, moment = tree.wrench(body.name)
        found |= components(f"{body.name}_force", force)
        found |= components(f"{body.name}_moment", moment)
    return found


def held(tree: Mechanism, torques: Mapping[str, sp.Expr]) -> Expressions:
    """`held_shank_wz`, ... [N m, N]: what a lock must give, actuators apart (Bourgeois, Langlois
    2015, equation 17, as the moment of the joint)."""
    needed = tree.needed()
    names = [name for name in tree.speeds if name in tree.locked | tree.lockable]
    return {f"held_{name}": needed[name] - torques.get(name, 0) for name in names}


#: Kinds of outputs by name.
KINDS: dict[str, Callable[[Mechanism, Mapping[str, sp.Expr]], Expressions]] = {
    function.__name__: function
    for function in (
        places,
        velocities,
        attitudes,
        imu,
        center_of_mass,
        momentum,
        energy,
        actuators,
        base_wrench,
        joint_wrenches,
        held,
    )
}
