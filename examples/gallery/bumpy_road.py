"""A car crosses 10 m of bumpy road: spring, damper and tyre such that it is fast, and not shaken.

A quarter car: height z of the body over a wheel, pressed by a tyre. To be found: the drive fx(t),
stiffness k and damping c of the suspension, the length l of the tyre. Time weighs against the
integral of the squared acceleration of the body.
"""

import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

x, z, zw, v, w, ww, fx = ks.dynamicsymbols("x_car z_car z_wheel ux uz uz_wheel fx")
car, wheel, g, l0, k, c, lw, k1 = parameters = sp.symbols("m_car m_wheel g l_0 k c l_GW k1")
SIZES = ((1, 0.56), (2, 0.1), (3, 0.1), (7, 0.025), (9, 0.025))
road = 0.135 * sum(size * sp.sin(n * 0.75 * x) ** 2 for n, size in SIZES)  # m
suspension = k * (l0 - (z - road)) - c * (w - road.diff(x) * v)
MODEL = ks.Model(
    "bumpy_road",
    states=[x, z, zw, v, w, ww],
    inputs=[fx],
    parameters=parameters,
    equations=[
        x.diff(ks.t) - v,
        z.diff(ks.t) - w,
        zw.diff(ks.t) - ww,
        (car + wheel) * v.diff(ks.t) - fx,
        car * w.diff(ks.t) + car * g - suspension,
        wheel * ww.diff(ks.t) + wheel * g + suspension - k1 * (lw - (zw - road)),
    ],
    values={car: 350.0, wheel: 5.0, g: 9.81, l0: 1.0, k1: 250e3},
)


def problem(nodes=301, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1e-2, nodes - 1.0)),
        unknown={k: (15e3, 500e3), c: (0.0, None), lw: (0.0, 1.0)},
        objective=ks.Integral(w.diff(ks.t) ** 2) + ks.Terminal(1e9 / (nodes - 1) * ks.t),
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 10.0, ks.at_end(v)],
        path=[(zw - road, 0.0, 0.1), (z - road, 0.85, 1.0)],
        bounds={x: (0.0, 10.0), zw: (0.0, 2.0), v: (0.0, None)},
        unknown_inputs={fx: (-50e3, 50e3)},
        scheme=scheme,
    )


def solve(nodes=301):
    guess = {z: 1.0, zw: 0.1, k: 20e3, c: 1e3, lw: 0.1, "duration": 1.0}
    return problem(nodes).solve(guess=guess)


main = shown(solve)
