"""A car drives into a garage 1.5 m wide in 5 s with the least effort.

Its wheels do not slip sideways. States: place x, y of the front axle [m], heading q_0 and steer q_f
[rad], speed v of the rear axle [m/s], rate u_f at which the front axle turns [rad/s]; inputs: drive
F_b [N] and steering torque T_f [N m]. Four points of the car stay out of the walls.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

x, y, q0, qf, v, uf = ks.dynamicsymbols("x y q_0 q_f v u_f")
drive, steer = ks.dynamicsymbols("F_b T_f")
LENGTH, MASS, INERTIA, FRONT, DAMPING = 3.0, 2.0, 8.25, 0.5, 0.5  # m, kg, kg m^2, N s/m
bend = sp.tan(qf) / LENGTH  # curvature [1/m]
turn = bend * v  # rate of the heading [rad/s]
heading = sp.Matrix([-sp.sin(q0), sp.cos(q0)])
#: From the front to the rear axle.
POINTS = [
    sp.Matrix([x, y]) - LENGTH * share * heading for share in (0, sp.S(1) / 3, sp.S(2) / 3, 1)
]
#: Accelerations of the front and the rear axle to the side.
ASIDE = (-v * turn - LENGTH * turn.diff(ks.t), -v * turn)
CAR = ks.Model(
    "car",
    states=[x, y, q0, qf, v, uf],
    inputs=[drive, steer],
    parameters=[],
    equations=[
        x.diff(ks.t) + v * sp.sin(q0) + LENGTH * turn * sp.cos(q0),
        y.diff(ks.t) - v * sp.cos(q0) + LENGTH * turn * sp.sin(q0),
        q0.diff(ks.t) - turn,
        qf.diff(ks.t) - uf + turn,
        MASS * v.diff(ks.t)
        + bend * INERTIA * turn.diff(ks.t)
        + DAMPING * (1 + (LENGTH * bend / 2) ** 2) * v
        - drive,
        FRONT * uf.diff(ks.t) - steer,
    ],
)
AT_REST = (v, uf)


def problem(nodes=301, scheme="backward-euler"):
    def wall(side):
        return 5 - 2.5 * (sp.tanh(25 * (side + 0.75)) - sp.tanh(25 * (side - 0.75)))

    front, rear = POINTS[0][1], POINTS[-1][1]
    lowest = (front + rear) / 2 - sp.log(2 * sp.cosh(25 * (front - rear))) / 50
    begin = {x: 7.5, y: 5.5, q0: np.pi / 2, qf: 0.5}
    return ks.Collocation(
        CAR,
        ks.Experiment(np.linspace(0.0, 5.0, nodes)),
        objective=ks.Integral(drive**2 + steer**2),
        boundary=[
            *(ks.at_start(q) - value for q, value in begin.items()),
            *map(ks.at_start, AT_REST),
            ks.at_end(x),
            ks.at_end(v),
            ks.at_end(lowest) - 0.5,
        ],
        path=[point[1] >= wall(point[0]) for point in POINTS],
        bounds={x: (-10, 10), y: (0, 25), qf: (-np.pi / 4, np.pi / 4)},
        unknown_inputs={drive: (-25, 25), steer: (-25, 25)},
        scheme=scheme,
    )


def solve(nodes=301):
    return problem(nodes).solve()


main = shown(solve)
