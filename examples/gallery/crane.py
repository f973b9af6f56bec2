"""A crane takes a load over 15 m in the least time, and leaves it hanging still.

The load of 10 kg hangs on a cable of 5 m. A trolley of 1 kg is driven by at most 20 N; the
load stays between the two places.
"""

import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

xc, q, v, w, F = ks.dynamicsymbols("xc q uxc uq F")
length, m1, m2, g = parameters = sp.symbols("l m1 m2 g")
MODEL = ks.Model(
    "crane",
    states=[xc, q, v, w],
    inputs=[F],
    parameters=parameters,
    equations=[
        xc.diff(ks.t) - v,
        q.diff(ks.t) - w,
        (m1 + m2) * v.diff(ks.t) + m2 * length * (sp.cos(q) * w.diff(ks.t) - sp.sin(q) * w**2) - F,
        length * w.diff(ks.t) + sp.cos(q) * v.diff(ks.t) + g * sp.sin(q),
    ],
    values=dict(zip(parameters, (5.0, 1.0, 10.0, 9.81), strict=True)),
)
WAY = 15.0  # m


def problem(nodes=150, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1e-3, nodes - 1.0)),
        objective=ks.Terminal(ks.t),
        boundary=[
            *map(ks.at_start, (xc, q, v, w)),
            *map(ks.at_end, (q, v, w)),
            ks.at_end(xc) - WAY,
        ],
        path=[(xc + length * sp.sin(q), 0.0, WAY), ks.at(1.0, F)],  # no force: nothing accelerates
        bounds={xc: (0.0, WAY)},
        unknown_inputs={F: (-20.0, 20.0)},
        scheme=scheme,
    )


def solve(nodes=150):
    return problem(nodes).solve(guess={"duration": 6.0})


main = shown(solve)
