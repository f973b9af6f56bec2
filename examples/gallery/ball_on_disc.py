"""A ball with an observer on its skin is rolled to the middle of a disc that starts to spin.

The disc turns at 2 (1 - exp(-t / 2)) rad/s; the ball does not slip. Torques on it, about fixed
axes, are at most 10 N m; time weighs against the integral of their squares. States: place X, Y of
the ball [m], its angular velocity w [rad/s], the direction n from its centre to the observer.
"""

import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

X, Y = ks.dynamicsymbols("X Y")
spin, out = ks.dynamicsymbols("w_x w_y w_z"), ks.dynamicsymbols("n_x n_y n_z")
torques = ks.dynamicsymbols("T_x T_y T_z")
BALL, OBSERVER, R, G = 5.0, 1.0, 1.0, 9.81  # kg, m, m/s^2
disc = 2 * (1 - sp.exp(-ks.t / 2))  # rad/s

w, n, up = sp.Matrix(spin), sp.Matrix(out), sp.Matrix([0, 0, 1])
velocity = disc * up.cross(sp.Matrix([X, Y, 0])) + R * w.cross(up)  # of its centre: it rolls
a = velocity.diff(ks.t)
observed = a + R * (w.diff(ks.t).cross(n) + w.cross(w.cross(n)))  # acceleration of the observer
moment = (
    sp.Matrix(torques)
    - R * up.cross(BALL * a + OBSERVER * observed)
    - R * OBSERVER * n.cross(observed + G * up)
)
MODEL = ks.Model(
    "ball_on_disc",
    states=[X, Y, *spin, *out],
    inputs=torques,
    parameters=[],
    equations=[
        X.diff(ks.t) - velocity[0],
        Y.diff(ks.t) - velocity[1],
        *(0.4 * BALL * R**2 * w.diff(ks.t) - moment),
        *(n.diff(ks.t) - w.cross(n)),
    ],
)


def problem(nodes=250, scheme="midpoint"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(0.1, nodes - 1.0)),
        objective=ks.Integral(sum(torque**2 for torque in torques))
        + ks.Terminal(2.5e5 / (nodes - 1) * ks.t),
        boundary=[
            ks.at_start(X) - 7,
            ks.at_start(Y) - 7,
            ks.at_start(out[0]) - 1,
            *map(ks.at_start, (*spin, *out[1:])),
            *map(ks.at_end, (X, Y, *spin[:2])),
        ],
        unknown_inputs=dict.fromkeys(torques, (-10, 10)),
        scheme=scheme,
    )


def solve(nodes=250):
    return problem(nodes).solve(guess={"duration": 5.0})


main = shown(solve)
