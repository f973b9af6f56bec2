"""Stiffness and damping of a spring from four short, noisy experiments that share them."""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

x, v = ks.dynamicsymbols("x u")
m, c, k, l0 = sp.symbols("m c k l0")
MODEL = ks.Model(
    "four_springs",
    states=[x, v],
    inputs=[],
    parameters=[m, c, k, l0],
    equations=[x.diff(ks.t) - v, m * v.diff(ks.t) + c * v + k * (x - l0)],
    values={m: 1.0, c: 0.25, k: 1.0, l0: 1.0},
)


def problem(nodes=500, seed=123, scheme="midpoint"):
    time, chance = np.linspace(0.0, 20.0, nodes), np.random.default_rng(seed)
    trials = []
    for start, speed in 4.0 * chance.standard_normal((4, 2)):
        run = ks.simulate(MODEL, time, {x: start, v: speed})
        noisy = run["x"] + 2.0 * chance.standard_normal(nodes)
        trials.append(ks.Experiment(time, measurements={x: noisy}, std={x: 2.0}))
    return ks.Collocation(MODEL, trials, unknown={c: (0.01, 2.0), k: (0.1, 10.0)}, scheme=scheme)


def solve(nodes=500):
    return problem(nodes).solve(guess={c: 0.1, k: 3.0})


main = shown(solve, "x")
