"""Human standing: two links on an accelerating platform, with state feedback at the joints."""

from functools import cache

import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, t

#: Adult subject: lengths m, masses kg, inertias kg m^2 (public subject file of opty's standing
#: example, evaluated with the yeadon package).
SUBJECT = {
    "l_L": 0.878,
    "d_L": 0.5715983152736843,
    "m_L": 32.12595518400256,
    "I_L": 1.7991738234932386,
    "d_T": 0.3144918235286859,
    "m_T": 48.830566595091696,
    "I_T": 2.4811635063274338,
    "g": 9.81,
}

#: Feedback gains [N m/rad, N m s/rad] of Moore, van den Bogert 2015.
GAINS = ((950.0, 175.0, 185.0, 50.0), (45.0, 290.0, 60.0, 26.0))


@cache
def standing_plant() -> Model:
    """Legs and torso, driven by ankle torque T_a, hip torque T_h [N m] and platform acceleration a.

    theta_a [rad] is the angle of the legs from upright, theta_h that of the torso relative to the
    legs, both positive counter-clockwise; the platform accelerates by a [m/s^2] along +x. Kane's
    method.
    """
    from sympy.physics.mechanics import (  # brings 0.2 s of SymPy
        KanesMethod,
        Point,
        ReferenceFrame,
        RigidBody,
        inertia,
    )

    theta_a, theta_h, omega_a, omega_h = dynamicsymbols("theta_a theta_h omega_a omega_h")
    a, ankle_torque, hip_torque = dynamicsymbols("a T_a T_h")
    l_L, d_L, m_L, I_L, d_T, m_T, I_T, g = parameters = sp.symbols(list(SUBJECT))

    platform = ReferenceFrame("P")  # moves with the platform; its acceleration acts as a force
    legs = platform.orientnew("L", "Axis", (theta_a, platform.z))
    torso = legs.orientnew("T", "Axis", (theta_h, platform.z))
    legs.set_ang_vel(platform, omega_a * platform.z)
    torso.set_ang_vel(legs, omega_h * platform.z)
    ankle = Point("ankle")
    ankle.set_vel(platform, 0)
    hip, leg_centre = ankle.locatenew("hip", l_L * legs.y), ankle.locatenew("Lo", d_L * legs.y)
    torso_centre = hip.locatenew("To", d_T * torso.y)
    hip.v2pt_theory(ankle, platform, legs)
    leg_centre.v2pt_theory(ankle, platform, legs)
    torso_centre.v2pt_theory(hip, platform, torso)
    bodies = [
        RigidBody("L", leg_centre, legs, m_L, (inertia(legs, 0, 0, I_L), leg_centre)),
        RigidBody("T", torso_centre, torso, m_T, (inertia(torso, 0, 0, I_T), torso_centre)),
    ]
    weight = -g * platform.y - a * platform.x
    loads = [(b.masscenter, b.mass * weight) for b in bodies]
    loads += [(legs, (ankle_torque - hip_torque) * platform.z), (torso, hip_torque * platform.z)]
    kane = KanesMethod(
        platform,
        [theta_a, theta_h],
        [omega_a, omega_h],
        kd_eqs=[theta_a.diff(t) - omega_a, theta_h.diff(t) - omega_h],
    )
    kane.kanes_equations(bodies, loads)
    return Model.from_kane(
        kane,
        inputs=[a, ankle_torque, hip_torque],
        parameters=parameters,
        name="standing_plant",
        values=SUBJECT,
    )


def standing() -> Model:
    """The plant with lumped state feedback T = -K x, 8 gains k_00 ... k_13, and torques as outputs.

    Moore, van den Bogert 2015: "human control parameter identification". States
    theta_a, theta_h [rad], omega_a, omega_h [rad/s]; input: platform acceleration a [m/s^2].
    """
    plant = standing_plant()
    a, *torques = plant.inputs
    gains = [[sp.Symbol(f"k_{i}{j}") for j in range(4)] for i in range(2)]
    feedback = [-sum(k * x for k, x in zip(row, plant.states, strict=True)) for row in gains]
    flat = [k for row in gains for k in row]
    return plant.substitute(
        dict(zip(torques, feedback, strict=True)),
        name="standing",
        inputs=[a],
        parameters=[*flat, *plant.parameters],
        outputs={"T_a": feedback[0], "T_h": feedback[1]},
        values={
            **plant.values,
            **{k: v for k, v in zip(flat, (v for row in GAINS for v in row), strict=True)},
        },
    )
