"""The controlled inverted pendulum of quiet standing."""

import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, t


def cip() -> Model:
    """Controlled inverted pendulum (CIP) with PID torque and filtered disturbance torque.

    I u'' - m g h u = Td - Tc with Tc = KP u + KI z + KD u', z' = u, and Td + B Td' = A x, where x
    is the disturbance noise. States: sway angle u [rad], rate v [rad/s], integral z [rad s],
    disturbance torque Td [N m]. Output u_COP = h u - I u''/(m g) [m], the centre of pressure, with
    u'' from the equation of motion: equal to (Tc - Td)/(m g).

    Barauskas, Krusinskiene 2005, equations (2.1) to (2.3); values are its starting
    point. Units: KP N m/rad, KI N m/(rad s), KD N m s/rad, A N m, B s, m kg, I kg m^2, h m.
    """
    u, v, z, torque, x = dynamicsymbols("u v z Td x")
    KP, KI, KD, A, B, m, I, h, g = sp.symbols("KP KI KD A B m I h g")  # noqa: E741
    control = KP * u + KI * z + KD * v
    acceleration = (m * g * h * u + torque - control) / I
    return Model(
        name="cip",
        states=[u, v, z, torque],
        inputs=[x],
        parameters=[KP, KI, KD, A, B, m, I, h, g],
        equations=[
            u.diff(t) - v,
            v.diff(t) - acceleration,
            z.diff(t) - u,
            torque.diff(t) - (A * x - torque) / B,
        ],
        outputs={"u_COP": h * u - I * acceleration / (m * g)},
        values={
            KP: 1470.0, KI: 14.32, KD: 200.0, A: 1000.0, B: 80.0,
            m: 60.0, I: 76.0, h: 1.13, g: 9.81,
        },
        positive=[B, m, I, h, g],
    )  # fmt: skip
