"""Identification of one parameter of an unstable equation from noisy measurements.

Section 7 of Betts and Huffman 2003: y'' = mu^2 y - (mu^2 + p^2) sin(p t) with mu = 60 grows like
exp(60 t) from any error of its start, so that it cannot be simulated over 1 s; y = sin(pi t) solves
it for p = pi.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

y1, y2 = ks.dynamicsymbols("y1 y2")
mu, p = sp.symbols("mu p")
MODEL = ks.Model(
    "betts_identification",
    states=[y1, y2],
    inputs=[],
    parameters=[mu, p],
    equations=[
        y1.diff(ks.t) - y2,
        y2.diff(ks.t) - mu**2 * y1 + (mu**2 + p**2) * sp.sin(p * ks.t),
    ],
    values={mu: 60.0},
)


def problem(nodes=100, seed=0, scheme="midpoint"):
    time = np.linspace(0.0, 1.0, nodes)
    measured = np.sin(np.pi * time) + np.random.default_rng(seed).normal(scale=0.05, size=nodes)
    return ks.Collocation(
        MODEL,
        ks.Experiment(time, measurements={y1: measured}, std={y1: 0.05}),
        unknown={p: (0.1, 10.0)},
        boundary=[ks.at_start(y1), ks.at_start(y2) - sp.pi],
        scheme=scheme,
    )


def solve(nodes=100):
    return problem(nodes).solve(guess={p: 1.0})


main = shown(solve)
