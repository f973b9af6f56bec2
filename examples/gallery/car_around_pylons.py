"""A car drives to two pylons and back in the least time, no faster through a bend than it can.

It is near a pylon for 0.2 to 1 s: a state counts the time in a smooth square around it. The order
in which they are met is that of the guess.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown
from kinesym.examples.gallery.car_in_garage import (
    ASIDE,
    AT_REST,
    CAR,
    drive,
    q0,
    qf,
    steer,
    v,
    x,
    y,
)

PYLONS = ((10.0, 15.0), (-5.0, 10.0))  # m
visits = ks.dynamicsymbols("visit1 visit2")


def near(q, place):
    return (sp.tanh(2.5 * (q - place + 0.5)) - sp.tanh(2.5 * (q - place - 0.5))) / 2


MODEL = CAR.extended(
    {visit: near(x, a) * near(y, b) for visit, (a, b) in zip(visits, PYLONS, strict=True)}
)


def problem(nodes=401, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1.0, 0.5 * (nodes - 1))),
        objective=ks.Terminal(ks.t),
        boundary=[
            *map(ks.at_start, (x, y, q0, *AT_REST, *visits)),
            *map(ks.at_end, (x, y, v)),
            *((ks.at_end(visit), 0.2, 1.0) for visit in visits),
        ],
        path=[(a, -5, 5) for a in ASIDE],
        bounds={x: (-20, 20), y: (-15, 30), qf: (-np.pi / 4, np.pi / 4), v: (0, None)},
        unknown_inputs={drive: (-20, 20), steer: (-20, 20)},
        scheme=scheme,
    )


def solve(nodes=401):
    """From a round trip along straight lines."""
    corners = np.array([(0.0, 0.0), *PYLONS, (0.0, 0.0)])
    along = np.linspace(0.0, 3.0, nodes)
    way = [np.interp(along, range(4), corner) for corner in corners.T]
    angle = np.unwrap(np.arctan2(-np.gradient(way[0]), np.gradient(way[1])))
    return problem(nodes).solve(guess={x: way[0], y: way[1], q0: angle, v: 5.0, "duration": 9.0})


main = shown(solve)
