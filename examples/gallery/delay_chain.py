"""Control with delays in state and input, unfolded into a chain of six intervals.

x'(t) = x(t - 1) u(t - 2) over 6 s, with x + u >= 0.3 and the least integral of x^2 + u^2
(Göllmann, Kern and Maurer 2009; Betts 2010, example 10.50: 3.10812211). Second k of the motion is
the pair x_k, u_k over one second: where one ends the next one begins.
"""

from itertools import pairwise

import numpy as np

import kinesym as ks
from kinesym.examples.gallery import shown

xs = ks.dynamicsymbols("x1:7")
us = ks.dynamicsymbols("u1:7")
BEFORE = [1.0, *xs[:-1]], [0.0, 0.0, *us[:-2]]  # x = 1 and u = 0 before the start
MODEL = ks.Model(
    "delay_chain",
    states=xs,
    inputs=us,
    parameters=[],
    equations=[x.diff(ks.t) - a * b for x, a, b in zip(xs, *BEFORE, strict=True)],
)


def problem(nodes=501, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        objective=ks.Integral(sum(f**2 for f in (*xs, *us))),
        boundary=[
            ks.at_start(xs[0]) - 1,
            *(ks.at_start(b) - ks.at_end(a) for a, b in pairwise(xs)),
        ],
        path=[(x + u, 0.3, None) for x, u in zip(xs, us, strict=True)],
        unknown_inputs=dict.fromkeys(us),
        scheme=scheme,
    )


def solve(nodes=501):
    """To more digits: at the usual tolerance the barriers of 3000 inequalities add 4e-6."""
    return problem(nodes).solve(tolerance=1e-10)


main = shown(solve)
