"""A rider spends 120 kJ on 1 km of hills in the least time.

States: place x, y [m], distance s along the road [m], speed v [m/s], energy spent e [J]; input:
power p <= 1000 W. The road is y = 50 sin(2 pi x / 500).
"""

import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

x, y, s, v, e, p = ks.dynamicsymbols("x y s v e p")
m, g = sp.symbols("m g")
theta = sp.atan((50 * sp.sin(2 * sp.pi * x / 500)).diff(x))  # slope of the road
MODEL = ks.Model(
    "hilly_race",
    states=[x, y, s, v, e],
    inputs=[p],
    parameters=[m, g],
    equations=[
        x.diff(ks.t) - v * sp.cos(theta),
        y.diff(ks.t) - v * sp.sin(theta),
        s.diff(ks.t) - v,
        m * v.diff(ks.t) - p / v + m * g * sp.sin(theta) + v**2 / 3,
        e.diff(ks.t) - p,
    ],
    values={m: 100.0, g: 9.81},
)


def problem(nodes=201, scheme="midpoint"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1.0, 10.0 * (nodes - 1))),
        objective=ks.Terminal(ks.t),
        boundary=[*map(ks.at_start, (x, y, s, v, e)), ks.at_end(s) - 1000.0],
        bounds={v: (0.0, None), e: (0.0, 120e3)},
        unknown_inputs={p: (0.0, 1000.0)},
        scheme=scheme,
    )


def solve(nodes=201):
    guess = {x: 0.0, v: 10.0, p: 500.0, "duration": 100.0}
    return problem(nodes).solve(guess=guess)


main = shown(solve)
