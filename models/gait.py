"""Inverse and forward dynamics of a body whose segments turn in the world, as models."""

from __future__ import annotations

import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.joints import Oriented, bryant_rates, unit
from kinesym.symbolic.multibody.links import Link
from kinesym.symbolic.multibody.outputs import attitudes, components
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES, Vector, vector
from kinesym.symbolic.names import name_of, t


def turning(tree: Tree) -> list[str]:
    """Names of the bodies that turn in the world."""
    return [body.name for body in tree.bodies if isinstance(body.joint, Oriented)]


def inverse_dynamics(tree: Tree) -> Model:
    """Inverse dynamics: a model whose outputs are forces and moments that a motion needs, in world
    axes.

    `total_force_x`, ... [N] and `total_moment_x`, ... [N m] about the origin: external forces
    without gravity. For each segment `shank_force_x`, ... and, about its joint,
    `shank_moment_x`, ...: what it and all segments beyond it need; `shank_place_x`, ... of its
    joint [m]; `shank_attitude_xx`, ...: its axes.
    """
    outputs: dict[str, sp.Expr] = {}
    force, moment = tree.wrench()
    outputs |= components("total_force", force) | components("total_moment", moment)
    for name in turning(tree):
        attitude = tree.attitude(name)
        for kind, part in zip(("force", "moment"), tree.wrench(name), strict=True):
            outputs |= components(f"{name}_{kind}", attitude @ part)
        outputs |= components(f"{name}_place", tree.place(name))
    chosen = {
        name: e
        for name, e in attitudes(tree, {}).items()
        if name.rsplit("_attitude_", 1)[0] in turning(tree)
    }
    outputs |= chosen
    return tree.model(outputs=outputs)


def forward_dynamics(tree: Tree) -> Model:
    """The body under forces and torques of the world, held to a reference by PD actuators.

    Inputs: total force on the root `J1_fx`, ... [N]; torques between world and segments in world
    axes `shank_mx`, ... [N m]; the reference of each coordinate `shank_x_ref` and its rate
    `shank_x_rate`. Parameters: gains `Kp_shank_x` [N m/rad], `Kp_J1_px` [N/m], and the derivative
    time `Td` [s]: effort = Kp (e + Td e'), a generalised force conjugate to its coordinate
    (Pamies-Vila, Font-Llagunes 2013, equations 18 to 20, with the rate of the error itself in place
    of its difference quotient). All gains are 0 by default: no control.
    """
    torques: dict[str, sp.Expr] = {}
    for body in tree.bodies:
        (link,) = tree.joint_of(body.name)
        if not isinstance(body.joint, Oriented):
            for q, u in zip(link.q, link.u, strict=True):
                applied = tree.torque_inputs(name_of(u))[name_of(u)]
                torques[name_of(u)] = applied + _effort(q, u)
            continue
        applied = [sp.Function(f"{body.name}_m{axis}")(t) for axis in AXES]
        world = tree.attitude(body.name).T @ vector(applied)
        held = _held(link, body.joint.sequence)
        for u, *parts in zip(link.u, world, held, strict=True):
            torques[name_of(u)] = sp.Add(*parts)
    gains = {f"Kp_{q}": 0.0 for q in tree.coordinates} | {"Td": 0.0}
    return tree.model(torques, values=gains)


def _effort(q: sp.Expr, rate: sp.Expr) -> sp.Expr:
    """Force of the actuator of a coordinate: proportional to the error of its angle and rate."""
    name = name_of(q)
    reference, change = (sp.Function(f"{name}_{kind}")(t) for kind in ("ref", "rate"))
    return sp.Symbol(f"Kp_{name}") * (reference - q + sp.Symbol("Td") * (change - rate))


def _held(link: Link, sequence: str) -> Vector:
    """The moment in the axes of a segment that has the power of its efforts along the angles."""
    sines, cosines = (vector([f(q) for q in link.q]) for f in (sp.sin, sp.cos))
    rates = bryant_rates(sequence, sines, cosines, vector(link.u))
    efforts = vector([_effort(q, rate) for q, rate in zip(link.q, rates, strict=True)])
    columns = [bryant_rates(sequence, sines, cosines, unit(axis)) for axis in AXES]
    return vector([column @ efforts for column in columns])
