"""A point mass is moved along a cylinder, from one side to the other and 4 m up, in 10 s.

The least integral of the squared force in three directions. x^2 + y^2 = r^2 is a path condition,
which the forces must keep.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

place = ks.dynamicsymbols("x y z")
speed = ks.dynamicsymbols("v_x v_y v_z")
force = ks.dynamicsymbols("F_x F_y F_z")
m = sp.Symbol("m")
MODEL = ks.Model(
    "on_a_cylinder",
    states=[*place, *speed],
    inputs=force,
    parameters=[m],
    equations=[
        *(x.diff(ks.t) - v for x, v in zip(place, speed, strict=True)),
        *(m * v.diff(ks.t) - f for v, f in zip(speed, force, strict=True)),
    ],
    values={m: 1.0},
)
BEGIN, END = (0.0, -1.0, 0.0), (0.0, 1.0, 4.0)  # m


def problem(nodes=101, scheme="backward-euler"):
    x, y, _ = place
    ends = [(at, where) for at, where in ((ks.at_start, BEGIN), (ks.at_end, END))]
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, 10.0, nodes)),
        objective=ks.Integral(sum(f**2 for f in force)),
        boundary=[
            *(at(q) - value for at, where in ends for q, value in zip(place, where, strict=True)),
            *(at(v) for at, _ in ends for v in speed),
        ],
        path=[x**2 + y**2 - 1],
        unknown_inputs=dict.fromkeys(force),
        scheme=scheme,
    )


def solve(nodes=101):
    """A straight line leads through the axis, where all directions are alike: bow it out."""
    bow = np.sin(np.linspace(0.0, np.pi, nodes))
    return problem(nodes).solve(guess={place[0]: bow})


main = shown(solve)
