"""A pendulum swings up in 10 s with the least integral of the squared torque, at most 2 N m."""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

theta, omega, T = ks.dynamicsymbols("theta omega T")
inertia, m, g, d = sp.symbols("I m g d")
MODEL = ks.Model(
    "pendulum_swing_up",
    states=[theta, omega],
    inputs=[T],
    parameters=[inertia, m, g, d],
    equations=[
        theta.diff(ks.t) - omega,
        inertia * omega.diff(ks.t) + m * g * d * sp.sin(theta) - T,
    ],
    values={inertia: 1.0, m: 1.0, g: 9.81, d: 1.0},
)
UP = [ks.at_start(theta), ks.at_start(omega), ks.at_end(theta) - sp.pi, ks.at_end(omega)]


def problem(nodes=501, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, 10.0, nodes)),
        objective=ks.Integral(T**2),
        boundary=UP,
        unknown_inputs={T: (-2.0, 2.0)},
        scheme=scheme,
    )


def solve(nodes=501):
    return problem(nodes).solve()


main = shown(solve)
