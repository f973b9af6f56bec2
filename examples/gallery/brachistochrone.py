"""Brachistochrone: the slide from rest to a point 10 m ahead and 6 m below in the least time.

The direction beta of the slide is to be found. In closed form it is a cycloid with
x = R (phi - sin phi), y = -R (1 - cos phi), which takes phi sqrt(R / g) (Bryson and Ho 1975, 2.7).
"""

import numpy as np
import sympy as sp
from scipy.optimize import brentq

import kinesym as ks
from kinesym.examples.gallery import shown

x, y, v, beta = ks.dynamicsymbols("x y v beta")
G, AHEAD, DOWN = 9.81, 10.0, 6.0  # m/s^2, m
MODEL = ks.Model(
    "brachistochrone",
    states=[x, y, v],
    inputs=[beta],
    parameters=[],
    equations=[
        x.diff(ks.t) - v * sp.cos(beta),
        y.diff(ks.t) - v * sp.sin(beta),
        v.diff(ks.t) + G * sp.sin(beta),
    ],
)


def problem(nodes=201, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1e-3, nodes - 1.0)),
        objective=ks.Terminal(ks.t),
        boundary=[*map(ks.at_start, (x, y, v)), ks.at_end(x) - AHEAD, ks.at_end(y) + DOWN],
        unknown_inputs={beta: (-np.pi / 2, np.pi / 2)},
        scheme=scheme,
    )


def solve(nodes=51):
    """With a few nodes of a scheme of high order."""
    return problem(nodes, "radau-5").solve(guess={v: 5.0, "duration": 2.0})


def cycloid():
    """The least time [s]."""
    angle = brentq(lambda p: (p - np.sin(p)) * DOWN - (1.0 - np.cos(p)) * AHEAD, 1e-3, 2 * np.pi)
    return float(angle * np.sqrt(DOWN / (1.0 - np.cos(angle)) / G))


main = shown(solve)
