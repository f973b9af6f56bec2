"""Snell's law by optimal control: from (0, 0) to (10, 10) in the least time through three media.

A particle with friction is pushed where it may be no faster than 5, 1 and 5 m/s, for x up to 3, 7
and 11 m. Edges of the media are smooth; the problem is solved with steeper and steeper ones.
"""

from itertools import pairwise

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

x, y, vx, vy, fx, fy = ks.dynamicsymbols("x y u_x u_y f_x f_y")
steepness = sp.Symbol("steepness")
MODEL = ks.Model(
    "refraction",
    states=[x, y, vx, vy],
    inputs=[fx, fy],
    parameters=[steepness],
    equations=[
        x.diff(ks.t) - vx,
        y.diff(ks.t) - vy,
        vx.diff(ks.t) + vx - fx,
        vy.diff(ks.t) + vy - fy,
    ],
)
EDGES, SPEEDS = (-1.0, 3.0, 7.0, 11.0), (5.0, 1.0, 5.0)  # m, m/s


def problem(nodes=501, steep=80.0, scheme="backward-euler"):
    steps = [sp.tanh(steepness * (x - edge)) for edge in EDGES]
    speed = sp.sqrt(vx**2 + vy**2)
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1e-3, nodes - 1.0)),
        known={steepness: steep},
        objective=ks.Terminal(ks.t),
        boundary=[ks.at_start(x), ks.at_start(y), ks.at_end(x) - 10, ks.at_end(y) - 10],
        path=[
            *(
                (speed * (a - b) / 2, 0, c)
                for (a, b), c in zip(pairwise(steps), SPEEDS, strict=True)
            ),
            sp.sqrt(fx**2 + fy**2) <= 400,
        ],
        bounds={x: (0, 10), y: (0, 10), vx: (0.5, None), vy: (0.1, None)},
        unknown_inputs={fx: None, fy: None},
        scheme=scheme,
    )


def solve(nodes=501):
    guess = {vx: 0.5, vy: 0.5, fx: 0.5, fy: 0.5, "duration": 20.0}
    for steep in np.arange(5.0, 85.0, 5.0):
        guess = problem(nodes, steep).solve(guess=guess)
    return guess


main = shown(solve, "x", "y", "u_x", "u_y")
