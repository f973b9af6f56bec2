"""Goddard's rocket: how its thrust must change so that it rises highest.

Betts 2010, example 10.47. Full thrust, a singular arc, and coasting follow by themselves; on the
arc a thrust with a value at each stage would ring, so it is held between nodes. Height h [ft],
speed v [ft/s], mass m [slug]; thrust T <= 193.044 lbf. With the law of the arc in the book,
integrated to 1e-10, the rocket rises to 18,550.873 ft in 42.888 s.
"""

import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

h, v, m, T = ks.dynamicsymbols("h v m T")
MOST, G, SIGMA, C, SCALE = 193.044, 32.174, 5.4915348492e-5, 1580.942579, 23800.0
MODEL = ks.Model(
    "goddard",
    states=[h, v, m],
    inputs=[T],
    parameters=[],
    equations=[
        h.diff(ks.t) - v,
        m * v.diff(ks.t) - T + SIGMA * v**2 * sp.exp(-h / SCALE) + m * G,
        m.diff(ks.t) + T / C,
    ],
)


def problem(nodes=301, scheme="radau-5"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1.0, 150.0)),
        objective=ks.Terminal(-h / 1000),
        boundary=[ks.at_start(h), ks.at_start(v), ks.at_start(m) - 3],
        bounds={m: (1.0, 3.0), v: (0.0, None)},
        unknown_inputs={T: ks.held(0.0, MOST)},
        scheme=scheme,
    )


def solve(nodes=301):
    return problem(nodes).solve(guess={h: 1e4, v: 500.0, m: 1.5, T: MOST / 2, "duration": 40.0})


main = shown(solve)
