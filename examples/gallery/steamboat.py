"""A paddle steamer is moved sideways: turns, goes 10 m east and 10 m north, and turns back.

Two paddle wheels beside the hull, driven by at most 25 N m each; the cost weighs time against the
integral of the squared torques. Heading q [rad], place x, y [m], angles of the wheels.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

q, x, y, ql, qr = turned = ks.dynamicsymbols("q x y qLW qRW")
u, vx, vy, ul, ur = speeds = ks.dynamicsymbols("u ux uy uLW uRW")
tl, tr = torques = ks.dynamicsymbols("tLW tRW")
mS, mW, r, a, b, cS, cW = parameters = sp.symbols("mS mW rW aS bS cS cW")
across = vx * sp.cos(q) + vy * sp.sin(q)  # speeds of the hull in its own axes
along = vy * sp.cos(q) - vx * sp.sin(q)
arm = 1.1 * b


def drag(coefficient, v):
    return -coefficient * v**2 * sp.tanh(20 * v)


left, right = (drag(cW * r, along + side * arm * u + r * w) for side, w in ((-1, ul), (1, ur)))
side_force, force = drag(cS * a, across), drag(cS * b, along) + left + right
inertia = mS * (a**2 + b**2) / 12 + 2 * mW * (arm**2 + r**2 / 4)
MODEL = ks.Model(
    "steamboat",
    states=[*turned, *speeds],
    inputs=torques,
    parameters=parameters,
    equations=[
        *(angle.diff(ks.t) - rate for angle, rate in zip(turned, speeds, strict=True)),
        inertia * u.diff(ks.t) - arm * (right - left) - drag(cS * (a**4 + b**4) / 32, u),
        (mS + 2 * mW) * vx.diff(ks.t) - side_force * sp.cos(q) + force * sp.sin(q),
        (mS + 2 * mW) * vy.diff(ks.t) - side_force * sp.sin(q) - force * sp.cos(q),
        *(
            mW * r**2 / 2 * w.diff(ks.t) - t - r * f
            for w, t, f in ((ul, tl, left), (ur, tr, right))
        ),
    ],
    values=dict(zip(parameters, (10.0, 1.0, 1.0, 5.0, 1.0, 0.75, 0.75), strict=True)),
)


def problem(nodes=251, scheme="backward-euler"):
    west, goal = -np.pi / 2, 10.0
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(0.1, nodes - 1.0)),
        objective=ks.Integral(tl**2 + tr**2) + ks.Terminal(1e7 / (nodes - 1) * ks.t),
        boundary=[
            ks.at_start(q) - west,
            *map(ks.at_start, (x, y, ql, qr, *speeds)),
            ks.at_end(q) - west,
            ks.at_end(x) - goal,
            ks.at_end(y) - goal,
            *map(ks.at_end, (u, vx, vy)),
        ],
        unknown_inputs=dict.fromkeys(torques, (-25.0, 25.0)),
        scheme=scheme,
    )


def solve(nodes=251):
    return problem(nodes).solve(guess={q: 0.0, x: 0.0, y: 0.0, "duration": 8.0})


main = shown(solve)
