"""The controlled inverted pendulum of quiet standing."""

import warnings

import numpy as np
import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, t

#: The starting point of Barauskas, Krusinskiene 2005.
START = {
    "KP": 1470.0,
    "KI": 14.32,
    "KD": 200.0,
    "A": 1000.0,
    "B": 80.0,
    "m": 60.0,
    "I": 76.0,
    "h": 1.13,
    "g": 9.81,
}
#: Relative amount by which I may be below m h^2 for its digits: the published values are.
_ROUNDED = 0.02


def cip(**values: float) -> Model:
    """Controlled inverted pendulum (CIP) with PID torque and filtered disturbance torque.

    I u'' - m g h u = Td - Tc with Tc = KP u + KI z + KD u', z' = u, and Td + B Td' = A x, where x
    is the disturbance noise. States: sway angle u [rad], rate v [rad/s], integral z [rad s],
    disturbance torque Td [N m]. Output u_COP = h u - I u''/(m g) [m], the centre of pressure, with
    u'' from the equation of motion: equal to (Tc - Td)/(m g).

    Barauskas, Krusinskiene 2005, equations (2.1) to (2.3); values are its starting point, or
    `values`. Units: KP N m/rad, KI N m/(rad s), KD N m s/rad, A N m, B s, m kg, I kg m^2, h m.

    Warns of a loop that is unstable with these values, and of a body that cannot be: its moment of
    inertia about the ankles is at least m h^2.
    """
    u, v, z, torque, x = dynamicsymbols("u v z Td x")
    KP, KI, KD, A, B, m, I, h, g = sp.symbols("KP KI KD A B m I h g")  # noqa: E741
    control = KP * u + KI * z + KD * v
    acceleration = (m * g * h * u + torque - control) / I
    model = Model(
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
        values={**START, **values},
        positive=[B, m, I, h, g],
    )
    for words in _doubts(**{name: model.values[name] for name in ("KP", "KI", "KD", *"mIhg")}):
        warnings.warn(words, stacklevel=2)
    return model


def _doubts(
    KP: float,
    KI: float,
    KD: float,
    m: float,
    I: float,  # noqa: E741
    h: float,
    g: float,
) -> list[str]:
    """Sentences on values that hardly anybody means."""
    found, tipping, least = [], m * g * h, m * h**2
    if least * (1.0 - _ROUNDED) > I:
        found.append(
            f"I = {I:g} kg m^2 is less than m h^2 = {least:.4g}: no body has so little "
            "about its ankles"
        )
    fastest = max(np.roots([I, KD, KP - tipping, KI]), key=lambda root: root.real)
    if fastest.real > 1e-9:
        found.append(
            f"the loop is unstable, with the eigenvalue {fastest:.3g} 1/s: KP must exceed "
            f"m g h = {tipping:.4g} N m/rad, and KD (KP - m g h) must exceed I KI >= 0"
        )
    return found
