"""A bicycle turns by 90 degrees in the least time: it steers the other way first.

The point-mass bicycle of Meijaard and Schwab 2006 at constant speed; states: lean theta and its
rate, place of the rear contact, heading psi, steer delta [rad]; input: steer rate beta [rad/s].
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

theta, omega, x, y, psi, delta, beta = ks.dynamicsymbols("theta omega x y psi delta beta")
h, a, b, v, g, m, I1, I2, I3 = parameters = sp.symbols("h a b v g m I1 I2 I3")
turn = v * sp.tan(delta) / b  # rad/s
MODEL = ks.Model(
    "countersteer",
    states=[theta, omega, x, y, psi, delta],
    inputs=[beta],
    parameters=parameters,
    equations=[
        theta.diff(ks.t) - omega,
        (I1 + m * h**2) * omega.diff(ks.t)
        + (I3 - I2 - m * h**2) * turn**2 * sp.sin(theta) * sp.cos(theta)
        - m * g * h * sp.sin(theta)
        + m * h * sp.cos(theta) * (a * v / b / sp.cos(delta) ** 2 * beta + v * sp.tan(delta)),
        x.diff(ks.t) - v * sp.cos(psi),
        y.diff(ks.t) - v * sp.sin(psi),
        psi.diff(ks.t) - turn,
        delta.diff(ks.t) - beta,
    ],
    values=dict(zip(parameters, (1.0, 0.5, 1.0, 5.0, 9.81, 87.0, 9.2, 11.0, 2.8), strict=True)),
)


def problem(nodes=201, scheme="backward-euler"):
    quarter = np.pi / 2
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1e-3 * (nodes - 1), 0.5 * (nodes - 1))),
        objective=ks.Terminal(ks.t),
        boundary=[
            *map(ks.at_start, (theta, omega, x, y, psi, delta)),
            *map(ks.at_end, (theta, omega, delta)),
            ks.at_end(psi) - quarter,
        ],
        bounds={
            psi: (-4 * quarter, 4 * quarter),
            theta: (-quarter, quarter),
            delta: (-quarter, quarter),
            omega: np.deg2rad((-100.0, 100.0)),
        },
        unknown_inputs={beta: np.deg2rad((-200.0, 200.0))},
        scheme=scheme,
    )


def solve(nodes=201):
    return problem(nodes).solve(guess={"duration": 2.0})


main = shown(solve)
