"""A cart swings up a double pendulum in the least time.

Two rods of 2 m with masses at their ends, angles q2 and q3 from the horizontal; the cart stays
within 5 m, pushed by at most 50 N, and at the end nothing accelerates.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

q1, q2, q3, u1, u2, u3, F = ks.dynamicsymbols("q1 q2 q3 u1 u2 u3 F")
length, m1, m2, m3, g, I1, I2 = parameters = sp.symbols("l m1 m2 m3 g I1 I2")
a1, a2, a3 = (u.diff(ks.t) for u in (u1, u2, u3))
m23 = m2 + m3
MODEL = ks.Model(
    "cart_double_pendulum",
    states=[q1, q2, q3, u1, u2, u3],
    inputs=[F],
    parameters=parameters,
    equations=[
        *(q.diff(ks.t) - u for q, u in ((q1, u1), (q2, u2), (q3, u3))),
        (m1 + m23) * a1
        - m23 * length * (sp.sin(q2) * a2 + sp.cos(q2) * u2**2)
        - m3 * length * (sp.sin(q3) * a3 + sp.cos(q3) * u3**2)
        - F,
        (m23 * length**2 + I1) * a2
        - m23 * length * (sp.sin(q2) * a1 - g * sp.cos(q2))
        + m3 * length**2 * (sp.cos(q2 - q3) * a3 + sp.sin(q2 - q3) * u3**2),
        (m3 * length**2 + I2) * a3
        - m3 * length * (sp.sin(q3) * a1 - g * sp.cos(q3))
        + m3 * length**2 * (sp.cos(q2 - q3) * a2 - sp.sin(q2 - q3) * u2**2),
    ],
    values=dict(zip(parameters, (2.0, 1.0, 1.0, 1.0, 9.81, 2.0, 2.0), strict=True)),
)


def problem(nodes=300, scheme="backward-euler"):
    half = np.pi / 2
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1e-3, nodes - 1.0)),
        objective=ks.Terminal(ks.t),
        boundary=[
            *map(ks.at_start, (q1, u1, u2, u3)),
            *map(ks.at_end, (u1, u2, u3)),
            *(ks.at_start(q) + half for q in (q2, q3)),
            *(ks.at_end(q) - half for q in (q2, q3)),
        ],
        path=[ks.at(1.0, F)],
        bounds={q1: (-5.0, 5.0)},
        unknown_inputs={F: (-50.0, 50.0)},
        scheme=scheme,
    )


def solve(nodes=300):
    return problem(nodes).solve(guess={F: 50.0, "duration": 3.0})


main = shown(solve)
