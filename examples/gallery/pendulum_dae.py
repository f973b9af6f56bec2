"""A pendulum pulled up in Cartesian coordinates: an algebraic equation for the force in the rod.

A unit mass at (x, y) on a rod of length 1, with the force 2 s along it and an input u across, goes
to x = 0 at rest in 3 s with the least integral of u^2 (Betts 2010, examples 10.103 and 10.104:
12.8738850).
"""

import numpy as np

import kinesym as ks
from kinesym.examples.gallery import shown

x, y, vx, vy, s, u = ks.dynamicsymbols("x y v_x v_y s u")
G = 9.81  # m/s^2
MODEL = ks.Model(
    "pendulum_dae",
    states=[x, y, vx, vy, s],
    inputs=[u],
    parameters=[],
    equations=[
        x.diff(ks.t) - vx,
        y.diff(ks.t) - vy,
        vx.diff(ks.t) + 2 * s * x - u * y,
        vy.diff(ks.t) + G + 2 * s * y + u * x,
        vx**2 + vy**2 - 2 * s - G * y,
    ],
)


def problem(nodes=751, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, 3.0, nodes)),
        objective=ks.Integral(u**2),
        boundary=[ks.at_start(x) - 1, *map(ks.at_start, (y, vx, vy)), ks.at_end(x), ks.at_end(vx)],
        bounds={**dict.fromkeys((x, y, vx, vy), (-5, 5)), s: (-1, 15)},
        unknown_inputs={u: None},
        scheme=scheme,
    )


def solve(nodes=751):
    return problem(nodes).solve(guess={x: 0.0})


main = shown(solve)
