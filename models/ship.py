"""A person standing on a ship: four links with three degrees of freedom at each joint.

Bourgeois, Langlois 2015. Axes x towards the bow, y to port, z up; the person faces the bow and
stands at the origin of the ship, whose motion is prescribed. Feet move with the ship, arms with the
trunk. The four models of the paper are the same tree with more or fewer joints locked.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from kinesym.models.anthropometry import segment
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.base import PrescribedBase
from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import Spherical
from kinesym.symbolic.multibody.outputs import components
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import AXES

#: Joint gains about x, y, z of a person of 80 kg and 1.80 m [N m/rad, N m s/rad], chosen so that
#: standing is stable and well damped: ankle, knee, hip, neck.
STIFFNESS = {
    "shank": (2500, 2500, 40),
    "thigh": (2000, 2000, 40),
    "trunk": (1000, 1000, 60),
    "head": (60, 60, 10),
}
DAMPING = {
    "shank": (80, 80, 0.5),
    "thigh": (30, 30, 0.8),
    "trunk": (25, 25, 2.0),
    "head": (2, 2, 0.5),
}

#: Corners of the piece of deck that pictures show [m].
DECK = {
    "stern_starboard": (-0.5, -0.5, 0),
    "bow_starboard": (0.5, -0.5, 0),
    "bow_port": (0.5, 0.5, 0),
    "stern_port": (-0.5, 0.5, 0),
}


def person_on_ship(mass: float = 80.0, stature: float = 1.80, sex: str = "M") -> Tree:
    """Shanks, thighs, trunk with arms, and head of a person of `mass` [kg] and `stature` [m].

    Bodies shank, thigh, trunk, head on the base `ship`, joined by spherical joints with angles in
    the sequence x, y, z (roll, pitch, yaw); the joint of a body is below it: ankle, knee, hip,
    neck. The feet are part of the ship: the reaction lacks their 2.6 to 2.7 % of the weight.

    Every number is a parameter, gains for `joint_pd` among the values. Fore-aft offsets of a few
    centimetres [chosen] keep the person from being symmetric. Stiffness scales with mass and
    stature, damping so that it stays as damped.

    Raises `ValueError` for a mass or stature that is not positive.
    """
    legs = {"shank": "Shank 2", "thigh": "Thigh"}
    parts = {
        body: segment(name, mass, stature, sex)
        for body, name in {**legs, "trunk": "Trunk 2", "head": "Head 2"}.items()
    }
    arms = [segment(name, mass, stature, sex) for name in ("UpperArm", "Forearm", "Hand")]
    scale = stature / 1.80  # of the offsets
    offsets = {"shank": (0.01, 0), "thigh": (0, 0), "trunk": (-0.02, 0), "head": (0.015, 0.003)}
    bodies, at, parent = [], (0.0, 0.0, 0.0), None
    for name, part in parts.items():
        pair = 2 if name in legs else 1
        own = pair * part.mass + (2 * sum(arm.mass for arm in arms) if name == "trunk" else 0.0)
        x, y = (scale * offset for offset in offsets[name])
        end = (-0.01 * scale if name == "trunk" else 0.0, 0.0, part.length)
        inertia = tuple(moment * own / part.mass for moment in part.inertia)
        com = (x, y, part.length - part.com)
        crown = end if name == "head" else None
        bodies.append(Body(name, own, com, inertia, Spherical("xyz"), at, parent, crown))
        at, parent = end, name
    tree = Tree("person", bodies, PrescribedBase("ship"), gravity=(0, 0, -9.81)).parametrised()
    return replace(tree, values={**tree.values, **gains(mass, stature)})


def gains(mass: float, stature: float) -> dict[str, float]:
    """`Kp_shank_x`, ... [N m/rad] and `Kd_shank_x`, ... [N m s/rad] of a person."""
    stiffer = mass * stature / (80.0 * 1.80)  # as m g h
    damper = stiffer * (stature / 1.80) ** 0.5  # as the root of stiffness times m h^2
    found = {}
    for name in STIFFNESS:
        for axis, kp, kd in zip(AXES, STIFFNESS[name], DAMPING[name], strict=True):
            found[f"Kp_{name}_{axis}"] = kp * stiffer
            found[f"Kd_{name}_{axis}"] = kd * damper
    return found


def on_deck(tree: Tree, name: str, gains_of: tuple[str, ...]) -> Model:
    """The model of a tree with joint PD control of these bodies or speeds.

    Outputs: places and centre of mass [m] in world axes; `base_force_x`, ... [N] and
    `base_moment_x`, ... [N m] of the ship on the feet, in its axes; moments of locks `held_...`
    [N m].
    """
    points = {corner: tree.place(None, at) for corner, at in DECK.items()}
    points["com"] = tree.center_of_mass()
    places = {
        name: e for point, place in points.items() for name, e in components(point, place).items()
    }
    torques = tree.joint_pd(*gains_of) if gains_of else {}
    outputs = ("places", places, "base_wrench", "held")
    model = replace(tree, name=name).model(torques, outputs)
    ring = (*DECK, next(iter(DECK)))
    return model.substitute({}, drawing=(ring, *model.drawing))


def sim3d(mass: float = 80.0, stature: float = 1.80, sex: str = "M") -> Model:
    """A person on a moving ship, all twelve joint angles free, PD control at every joint.

    The full spatial model of Bourgeois, Langlois 2015. States shank_x ... head_z [rad] and
    shank_wx ... head_wz [rad/s]; inputs: the motion of the ship, see `PrescribedBase` and
    `Motion.inputs`.
    """
    tree = person_on_ship(mass, stature, sex)
    return on_deck(tree, "sim3d", ("shank", "thigh", "trunk", "head"))


def psm3d(mass: float = 80.0, stature: float = 1.80, sex: str = "M") -> Model:
    """A rigid person on a moving ship that rolls and pitches about the ankles, with PD control.

    The spatial inverted pendulum of Bourgeois, Langlois 2015; yaw is locked as a speed.
    """
    tree = person_on_ship(mass, stature, sex).lock("thigh", "trunk", "head", "shank_wz")
    return on_deck(tree, "psm3d", ("shank_wx", "shank_wy"))


def grm3d(mass: float = 80.0, stature: float = 1.80, sex: str = "M") -> Model:
    """Rigid person fixed to a moving ship: no states, the reaction is the output.

    The rigid body of Bourgeois, Langlois 2015.
    """
    tree = person_on_ship(mass, stature, sex).lock("shank", "thigh", "trunk", "head")
    return on_deck(tree, "grm3d", ())


def cartip(mass: float = 80.0, stature: float = 1.80, sex: str = "M") -> Model:
    """Four links that pitch, with PD control, without gravity: the chain on a cart.

    The planar model of Bourgeois, Langlois 2015; meant for a ship that only surges.
    """
    tree = person_on_ship(mass, stature, sex)
    sideways = [name for name in tree.speeds if not name.endswith("_wy")]
    tree = replace(tree.lock(*sideways), gravity=(sp.S.Zero,) * 3)
    return on_deck(tree, "cartip", ("shank_wy", "thigh_wy", "trunk_wy", "head_wy"))
