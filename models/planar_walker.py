"""Walkers in the sagittal plane on feet with heel and toe: a body whose muscles are stimulated, and
a machine that walks down a slope by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.models.planar_body import HIP, planar_body, planar_segments
from kinesym.symbolic.hybrid import Event, FESMuscle, GroundPoint, Hybrid, on_ground
from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import Prismatic, Revolute
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.names import t

SIDES = ("R", "L")

# -- the body and its muscles ---------------------------------------------------------------------

#: Distance of the heel behind the ankle over stature, as in the body of 36 degrees of freedom of
#: HuMAnS.
HEEL = 0.0248
#: Length of the foot over stature, as there.
FOOT = 0.1482
#: Height of the ankle above the sole over stature, by Winter (2005).
ANKLE = 0.039


@dataclass(frozen=True)
class LegMuscle:
    """A muscle of a leg.

    F0 : largest force [N]. arms : by joint, the moment of a force of 1 N [m]: positive where it
    extends the hip, bends the knee, or presses the foot down, as angles are.
    """

    F0: float
    arms: Mapping[str, float]


#: Six muscles of a leg; forces and moment arms as large as those of adults, chosen.
MUSCLES: Mapping[str, LegMuscle] = {
    "iliopsoas": LegMuscle(2500.0, {"hip": -0.05}),
    "gluteus": LegMuscle(3000.0, {"hip": 0.06}),
    "hamstrings": LegMuscle(2500.0, {"hip": 0.06, "knee": 0.035}),
    "quadriceps": LegMuscle(6000.0, {"knee": -0.042}),
    "tibialis": LegMuscle(1500.0, {"ankle": -0.04}),
    "triceps": LegMuscle(5000.0, {"ankle": 0.05}),
}
#: Stiffness of the contractile element over F0 [1/m], as of a quadriceps of 1200 N and 3e4 N/m.
CONTRACTILE = 25.0
#: Stiffness of the tendon over F0 [1/m]: at F0 it is 2.5 cm longer.
TENDON = 40.0
#: Length of the contractile element [m], as of that quadriceps.
LENGTH = 0.1


@dataclass(frozen=True)
class PassiveJoint:
    """Passive torque of a joint: a damper [N m s/rad], and soft stops at two angles [rad]."""

    damping: float
    lowest: float
    highest: float


#: Joints of a leg; the knee ends where the leg is straight.
JOINTS: Mapping[str, PassiveJoint] = {
    "hip": PassiveJoint(2.0, -2.0, 0.40),
    "knee": PassiveJoint(1.0, 0.0, 2.4),
    "ankle": PassiveJoint(0.5, -0.40, 0.75),
}
#: The segment of `planar_body` beyond each joint.
BEYOND = {"hip": "thigh", "knee": "shank", "ankle": "foot"}
#: Height of the centre of the trunk over stature below which the walker has fallen.
FALLEN = 0.55
#: Torque of a stop at its angle [N m].
STOP = 4.0
#: Angle beyond a stop over which its torque grows by the factor e [rad].
SOFT = 0.06


def planar_walker(
    mass: float = 85.0,
    stature: float = 1.82,
    law: str = "coulomb",
    friction_coefficient: float = 0.8,
) -> Hybrid:
    """A man of `mass` [kg] and `stature` [m] in the sagittal plane with 2 x 6 muscles under
    stimulation, whose feet touch the ground with heel and toe (Wieber, Billet 2006).

    The body is `planar_body` of 7 segments: coordinates `hip_px`, `hip_pz` [m], angles `HAT_y`,
    `Rthigh_y` in the world, `Rshank_y` (the knee, positive when bent) and `Rfoot_y` (the ankle,
    positive when pressed down) [rad]; speeds `hip_vx`, `Rthigh_wy`, ... Contacts are `Rheel`,
    `Rtoe`, `Lheel`, `Ltoe`. Of each muscle, `Rtriceps`, ..., the model has states `Rtriceps_kc`
    [N/m] and `Rtriceps_F` [N], inputs `Rtriceps_u` [1/s], the calcium clock, and
    `Rtriceps_recruitment`, 0 to 1. Joints have dampers and soft stops. States `muscle_work`,
    `passive_work` and, with friction, `friction_work` [J] count the work done on the body; an
    impact adds to the last one what means nothing, which the log of the run lets subtract. A run
    stops when the walker falls.

    law : of contacts, see `Contact`; with "slip" nobody walks.

    Raises `ValueError` for what no body or contact has.
    """
    segments = planar_segments(mass, stature)
    tree = replace(planar_body(segments), name="planar_walker")
    muscles = {f"{side}{name}": _stimulated(tree, side, name) for side in SIDES for name in MUSCLES}
    active = _torques(tree, _muscle_moments(muscles))
    passive = _torques(
        tree, {(side, joint): _passive(tree, side, joint) for side in SIDES for joint in JOINTS}
    )
    points = _points(
        -HEEL * stature, (FOOT - HEEL) * stature, -ANKLE * stature, law, friction_coefficient
    )
    works = {"muscle_work": _power(tree, active), "passive_work": _power(tree, passive)}
    if law != "slip":
        works["friction_work"] = sp.Add(
            *(tree.velocity(point.body, point.at)[0] * point.friction for point in points)
        )
    torques = {name: active[name] + passive[name] for name in active}
    x, z = segments[0].com
    trunk = tree.place("HAT", (x, 0, z))[2]
    falls = Event("the walker falls", trunk / stature - sp.Float(FALLEN), -1, stop=True)
    bare = on_ground(tree, points, torques, ["places", "energy", "center_of_mass"], events=[falls])
    model = bare.model.extended({_signal(name): power for name, power in works.items()})
    return replace(bare, model=model, muscles=list(muscles.values()))


def joint_angle(tree: Tree, side: str, joint: str) -> sp.Expr:
    """The angle of a joint of `planar_body` [rad]: of the hip that of the thigh against the trunk,
    positive backwards."""
    return _joint(tree.coordinates, side, joint, "y")


def joint_speed(tree: Tree, side: str, joint: str) -> sp.Expr:
    """Rate of a joint angle [rad/s]."""
    return _joint(tree.speeds, side, joint, "wy")


def _joint(found: Mapping[str, sp.Expr], side: str, joint: str, kind: str) -> sp.Expr:
    """Coordinate or speed of a joint: that of the segment beyond it, which is relative but for the
    thigh."""
    against = found[f"HAT_{kind}"] if joint == "hip" else 0
    return found[f"{side}{BEYOND[joint]}_{kind}"] - against


def _stimulated(tree: Tree, side: str, name: str) -> FESMuscle:
    muscle = MUSCLES[name]
    rate = sp.Add(*(-arm * joint_speed(tree, side, joint) for joint, arm in muscle.arms.items()))
    return FESMuscle(
        f"{side}{name}",
        rate,
        muscle.F0,
        CONTRACTILE * muscle.F0,
        TENDON * muscle.F0,
        LENGTH,
        "input",
        slack="hold",
    )


def _muscle_moments(muscles: Mapping[str, FESMuscle]) -> dict[tuple[str, str], sp.Expr]:
    """Moments of muscles by side and joint."""
    return {
        (side, joint): sp.Add(
            *(
                muscle.arms[joint] * muscles[f"{side}{name}"].force
                for name, muscle in MUSCLES.items()
                if joint in muscle.arms
            )
        )
        for side in SIDES
        for joint in JOINTS
    }


def _passive(tree: Tree, side: str, name: str) -> sp.Expr:
    joint, angle = JOINTS[name], joint_angle(tree, side, name)
    stops = sp.exp((joint.lowest - angle) / SOFT) - sp.exp((angle - joint.highest) / SOFT)
    return STOP * stops - joint.damping * joint_speed(tree, side, name)


def _torques(tree: Tree, moments: Mapping[tuple[str, str], sp.Expr]) -> dict[str, sp.Expr]:
    """Torques by speed of `planar_body`: trunk and thighs turn against the world."""
    found: dict[str, sp.Expr] = {"HAT_wy": sp.S.Zero}
    for (side, joint), moment in moments.items():
        found[f"{side}{BEYOND[joint]}_wy"] = moment
        if joint == "hip":
            found["HAT_wy"] -= moment
    return found


def _power(tree: Tree, torques: Mapping[str, sp.Expr]) -> sp.Expr:
    return sp.Add(*(torque * tree.speeds[name] for name, torque in torques.items()))


# -- the machine ----------------------------------------------------------------------------------

#: Numbers of `passive_walker` [m, kg, kg m^2, rad, N m/rad, N m s/rad, m/s^2]; hip, legs and their
#: length as those of the compass by Goswami, Thuilot, Espiau (1998), the rest chosen.
MACHINE: Mapping[str, float] = {
    "length": 1.0,
    "com": 0.5,
    "hip_mass": 10.0,
    "leg_mass": 5.0,
    "leg_inertia": 0.05,
    "foot_mass": 0.5,
    "foot_inertia": 0.0025,
    "heel": 0.05,
    "toe": 0.15,
    "ankle": 0.05,
    "hip_stiffness": 40.0,
    "ankle_stiffness": 25.0,
    "ankle_damping": 0.3,
    "slope": 0.06,
    "g": 9.81,
}
#: Length by which a swinging leg counts as shorter [m].
CLEARANCE = 0.1
#: Angle by which it is ahead when it no longer does [rad].
AHEAD = 0.2
#: Phase of a leg that bears the walker and is behind the vertical.
EARLY = 0
#: Phase of a leg that bears the walker and is ahead of the vertical.
LATE = 1
#: Phase of a leg that swings.
SWINGS = 2


def passive_body() -> Tree:
    """Two straight legs with flat feet on a hip, parameters as in `MACHINE`; the axis x goes down
    the slope."""
    p = {name: sp.Symbol(name) for name in MACHINE}
    leg, foot = (3 * (p[f"{name}_inertia"],) for name in ("leg", "foot"))
    bodies = [Body(HIP, p["hip_mass"], joint=Prismatic("xz"))]
    for side in SIDES:
        middle = ((p["toe"] - p["heel"]) / 2, 0, -p["ankle"] / 2)
        bodies += [
            Body(f"{side}leg", p["leg_mass"], (0, 0, -p["com"]), leg, Revolute("y"), parent=HIP),
            Body(
                f"{side}foot",
                p["foot_mass"],
                middle,
                foot,
                Revolute("y"),
                (0, 0, -p["length"]),
                f"{side}leg",
            ),
        ]
    g = (p["g"] * sp.sin(p["slope"]), 0, -p["g"] * sp.cos(p["slope"]))
    return Tree("passive_walker", bodies, gravity=g, values=MACHINE)


def passive_walker(law: str = "stick", friction_coefficient: float = 1.0) -> Hybrid:
    """A machine that walks down a slope by itself: a compass with a spring between its legs, and
    flat feet with springs and dampers in the ankles.

    The ground is inclined by tilting gravity. Coordinates are `hip_px`, `hip_pz` [m], angles of the
    legs `Rleg_y` from the normal of the ground, positive when the hip is ahead of the foot, and of
    ankles `Rfoot_y` [rad]; contacts are `Rheel`, `Rtoe`, `Lheel`, `Ltoe`.

    Straight legs would scuff. A leg that swings therefore counts as shorter: the heights of its
    contacts are those of its points plus `R_lift`, which is `CLEARANCE` from just after toe-off
    until the leg is `AHEAD` of the other one, else 0, as if there were stepping stones with gaps
    between them. This moves no mass and takes no energy. The mode `R_phase` says what a leg does;
    at the start the right one is upright and bears the walker. The state `damper_work` [J] is that
    of the dampers. A run stops when the walker falls.
    """
    tree = passive_body()
    q, u = tree.coordinates, tree.speeds
    k, c, spring = sp.symbols("ankle_stiffness ankle_damping hip_stiffness")
    torques = {
        f"{side}foot_wy": -k * q[f"{side}foot_y"] - c * u[f"{side}foot_wy"] for side in SIDES
    }
    apart = q["Rleg_y"] - q["Lleg_y"]
    torques |= {"Rleg_wy": -spring * apart, "Lleg_wy": spring * apart}
    heel, toe, sole = -sp.Symbol("heel"), sp.Symbol("toe"), -sp.Symbol("ankle")
    phase = {side: _signal(f"{side}_phase") for side in SIDES}
    lift = {side: CLEARANCE * mode * (mode - LATE) / 2 for side, mode in phase.items()}
    stored = (k * (q["Rfoot_y"] ** 2 + q["Lfoot_y"] ** 2) + spring * apart**2) / 2
    more = {"spring_energy": stored, **{f"{side}_lift": e for side, e in lift.items()}}
    points = _points(heel, toe, sole, law, friction_coefficient)
    bare = on_ground(tree, points, torques, ["places", "energy", more])
    loss = sp.Add(*(-c * u[f"{side}foot_wy"] ** 2 for side in SIDES))
    contacts = [
        replace(contact, height=contact.height + lift[contact.name[0]]) for contact in bare.contacts
    ]
    heights = {contact.name: contact.height for contact in contacts}
    events: list[Event] = []
    for side, other in ("RL", "LR"):
        legs = q[f"{side}leg_y"], q[f"{other}leg_y"]
        events += _phases(side, phase[side], heights[f"{side}toe"], *legs)
    return replace(
        bare,
        model=bare.model.extended({_signal("damper_work"): loss}),
        modes={phase["R"]: LATE, phase["L"]: SWINGS},
        contacts=contacts,
        events=events,
    )


def _phases(
    side: str, phase: AppliedUndef, toe: sp.Expr, angle: sp.Expr, other: sp.Expr
) -> list[Event]:
    """Phases of a leg as events; its toe has left the ground when it is a millimetre above."""
    return [
        Event(f"{side} upright", angle, 1, sets={phase: LATE}, when=LATE - phase),
        Event(
            f"{side} swings",
            toe - sp.Float(1e-3),
            1,
            sets={phase: SWINGS},
            when=phase * (SWINGS - phase),
        ),
        Event(
            f"{side} ahead",
            other - angle - sp.Float(AHEAD),
            1,
            sets={phase: EARLY},
            when=phase - LATE,
        ),
        Event(f"{side} falls", sp.cos(angle) - sp.Float(0.5), -1, stop=True),
    ]


# -- both -----------------------------------------------------------------------------------------


def _points(heel: Any, toe: Any, sole: Any, law: str, friction: float) -> list[GroundPoint]:
    """Heels and toes of both feet, from their ankles."""
    return [
        GroundPoint(f"{side}{name}", f"{side}foot", (x, 0, sole), law, friction)
        for side in SIDES
        for name, x in (("heel", heel), ("toe", toe))
    ]


def _signal(name: str) -> AppliedUndef:
    return sp.Function(name)(t)
