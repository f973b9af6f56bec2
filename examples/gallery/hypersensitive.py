"""Hypersensitive control: 10,000 s of which only the first and last few matter.

Least integral of y^2 + u^2 with y' = u - y^3 from y = 1 to 1.5. Between two boundary layers nothing
moves (Betts 2010, example 10.7; Rao and Mease 2000). A grid of equal steps misses the layers:
6.72414 is reached where nodes lie in them.
"""

import numpy as np

import kinesym as ks
from kinesym.examples.gallery import shown

y, u = ks.dynamicsymbols("y u")
MODEL = ks.Model("hypersensitive", [y], [u], [], [y.diff(ks.t) - u + y**3])


def problem(nodes=501, duration=1e4, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, duration, nodes)),
        objective=ks.Integral(y**2 + u**2),
        boundary=[ks.at_start(y) - 1.0, ks.at_end(y) - 1.5],
        unknown_inputs={u: None},
        scheme=scheme,
    )


def solve(nodes=501):
    """In 8 s, where the grid is fine enough."""
    return problem(nodes, 8.0, "radau-5").solve()


main = shown(solve)
