"""The simple pendulum with one parameter."""

import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, t


def pendulum() -> Model:
    """theta'' = -p sin(theta), theta [rad] from hanging, p [1/s^2], default 10.

    Vyasarayani et al. 2011, Multibody System Dynamics 26:411 (as used by Moore and van den Bogert
    2015): shooting for p has many local minima.
    """
    theta, omega = dynamicsymbols("theta omega")
    p = sp.Symbol("p")
    return Model(
        name="pendulum",
        states=[theta, omega],
        inputs=[],
        parameters=[p],
        equations=[theta.diff(t) - omega, omega.diff(t) + p * sp.sin(theta)],
        values={p: 10.0},
    )
