"""A drone flies 10 m ahead, aside and up, on its side half-way, with the least force.

Attitude as a unit quaternion q, whose length is an algebraic equation; velocity v and angular
velocity w in axes of the body.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

place = ks.dynamicsymbols("x y z")
q = q0, q1, q2, q3 = ks.dynamicsymbols("q0:4")
vs, ws = ks.dynamicsymbols("v_x v_y v_z"), ks.dynamicsymbols("omega_x omega_y omega_z")
thrusts = f1, f2, f3, f4 = ks.dynamicsymbols("F1:5")
m, length, b, d, g, c = sp.symbols("m l w d g c")

v, w, up = sp.Matrix(vs), sp.Matrix(ws), sp.Matrix([0, 0, 1])
turn = sp.Matrix(  # from axes of the body to those of the world
    [
        [q0**2 + q1**2 - q2**2 - q3**2, 2 * (q1 * q2 - q0 * q3), 2 * (q1 * q3 + q0 * q2)],
        [2 * (q1 * q2 + q0 * q3), q0**2 - q1**2 + q2**2 - q3**2, 2 * (q2 * q3 - q0 * q1)],
        [2 * (q1 * q3 - q0 * q2), 2 * (q2 * q3 + q0 * q1), q0**2 - q1**2 - q2**2 + q3**2],
    ]
)
spin = sp.Matrix([[-q1, q0, q3, -q2], [-q2, -q3, q0, q1], [-q3, q2, -q1, q0]])  # w = 2 spin q'
inertia = m / 12 * sp.diag(b**2 + d**2, length**2 + d**2, length**2 + b**2)
torque = sp.Matrix([b / 2 * (f1 + f2 - f3 - f4), length / 2 * (f2 - f1 + f4 - f3), 0])
force = sum(thrusts) * up - c * v - m * g * turn.T * up
MODEL = ks.Model(
    "drone",
    states=[*place, *q, *vs, *ws],
    inputs=thrusts,
    parameters=[m, length, b, d, g, c],
    equations=[
        *(v - turn.T * sp.Matrix(place).diff(ks.t)),
        *(w - 2 * spin * sp.Matrix(q).diff(ks.t)),
        *(m * (v.diff(ks.t) + w.cross(v)) - force),
        *(inertia * w.diff(ks.t) + w.cross(inertia * w) - torque),
        q0**2 + q1**2 + q2**2 + q3**2 - 1,
    ],
    values={c: 0.06, d: 0.1, g: 9.81, length: 1.0, m: 2.0, b: 0.5},
)


def problem(nodes=301, scheme="backward-euler"):
    side = np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, 10.0, nodes)),
        objective=ks.Integral(sum(f**2 for f in thrusts)),
        boundary=[
            *map(ks.at_start, (*place, *vs, *ws, q1, q2, q3)),
            ks.at_start(q0) - 1,
            *(ks.at_end(x) - 10.0 for x in place),
            *map(ks.at_end, (*vs, *ws, q1, q2, q3)),
        ],
        path=[ks.at(5.0, a - value) for a, value in zip(q[1:], side[1:], strict=True)],
        unknown_inputs=dict.fromkeys(thrusts, (-100.0, 100.0)),
        scheme=scheme,
    )


def solve(nodes=301):
    return problem(nodes).solve(guess={q0: 1.0, **dict.fromkeys(thrusts, 10.0)})


main = shown(solve, "x", "y", "z", "q0", "q1", "F1", "F2", "F3", "F4")
