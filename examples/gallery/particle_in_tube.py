"""A particle is pushed along a helical tube in 5 s with the least force; half-way it is narrow.

The place p along the axis of the tube is that at which the particle is across; p never decreases,
and the distance from the axis is at most 1 m, for p between 0.75 and 1.25 at most 0.25 m.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown

place, speed = ks.dynamicsymbols("x y z"), ks.dynamicsymbols("v_x v_y v_z")
force = ks.dynamicsymbols("F_x F_y F_z")
p, rate = ks.dynamicsymbols("p rate")
M, G, DAMPING, TOP = 2.0, 9.81, 0.06, 12.0  # kg, m/s^2, N s/m, m


def axis(s, module=sp):
    return [5 * module.sin(2 * module.pi * s), 5 * module.cos(2 * module.pi * s), 5 * s]


MODEL = ks.Model(
    "particle_in_tube",
    states=[*place, *speed, p],
    inputs=[*force, rate],
    parameters=[],
    equations=[
        *(q.diff(ks.t) - v for q, v in zip(place, speed, strict=True)),
        *(
            M * v.diff(ks.t) + DAMPING * v - f + weight
            for v, f, weight in zip(speed, force, (0, 0, M * G), strict=True)
        ),
        p.diff(ks.t) - rate,
    ],
)


def problem(nodes=501, scheme="backward-euler"):
    away = sp.Matrix(axis(p)) - sp.Matrix(place)
    narrow = (sp.tanh(50 * (p - 0.75)) - sp.tanh(50 * (p - 1.25))) / 2
    end = axis(TOP / 5, np)
    return ks.Collocation(
        MODEL,
        ks.Experiment(np.linspace(0.0, 5.0, nodes)),
        objective=ks.Integral(sum(f**2 for f in force)),
        boundary=[
            *(ks.at_start(q) - value for q, value in zip(place, axis(0, np), strict=True)),
            *(ks.at_end(q) - value for q, value in zip(place, end, strict=True)),
            *(at(v) for at in (ks.at_start, ks.at_end) for v in speed),
            ks.at_start(p),
        ],
        path=[away.dot(sp.Matrix(axis(p)).diff(p)), sp.sqrt(away.dot(away)) + 0.75 * narrow <= 1],
        bounds={p: (0, 3), place[2]: (0, TOP)},
        unknown_inputs={**dict.fromkeys(force, (-100, 100)), rate: (0, None)},
        scheme=scheme,
    )


def solve(nodes=501):
    """From a motion along the axis, which is next to it: there distance has no slope."""
    along = np.linspace(0.0, TOP / 5, nodes)
    way = np.add(axis(along, np), [[0.1], [0.1], [0.0]])
    return problem(nodes).solve(guess={**dict(zip(place, way, strict=True)), p: along})


main = shown(solve)
