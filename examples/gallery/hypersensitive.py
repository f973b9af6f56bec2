"""Hypersensitive control: 10,000 s of which only the first and last few matter.

Least integral of y^2 + u^2 with y' = u - y^3 from y = 1 to 1.5. Between two boundary layers nothing
moves (Betts 2010, example 10.7: 6.7241). Equal steps miss these: with 501 nodes the cost is 282.5.
"""

import numpy as np

import kinesym as ks
from kinesym.examples.gallery import shown

y, u = ks.dynamicsymbols("y u")
MODEL = ks.Model("hypersensitive", [y], [u], [], [y.diff(ks.t) - u + y**3])


def problem(nodes=501, duration=1e4, scheme="backward-euler"):
    return posed(np.linspace(0.0, duration, nodes), scheme)


def posed(time, scheme):
    return ks.Collocation(
        MODEL,
        ks.Experiment(time),
        objective=ks.Integral(y**2 + u**2),
        boundary=[ks.at_start(y) - 1.0, ks.at_end(y) - 1.5],
        unknown_inputs={u: None},
        scheme=scheme,
    )


def solve(nodes=201):
    """With steps that grow from both ends, from 1 ms."""
    half = np.append(0.0, np.geomspace(1e-3, 5e3, nodes // 2))
    return posed(np.append(half, 1e4 - half[-2::-1]), "radau-5").solve()


main = shown(solve)
