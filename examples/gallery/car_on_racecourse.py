"""A car drives along a winding road, from rest to rest, in the least time.

Four points of it stay between y = 3.5 sin(x / 2) + 4 and 3.5 m above that, accelerations to the
side are limited, and the drive changes smoothly.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown
from kinesym.examples.gallery.car_in_garage import (
    ASIDE,
    AT_REST,
    CAR,
    POINTS,
    drive,
    heading,
    q0,
    qf,
    steer,
    x,
    y,
)

rate, push = ks.dynamicsymbols("F_bdt F_h")
MODEL = CAR.extended({drive: rate, rate: push / 0.2}, [push])


def road(place):
    return 3.5 * sp.sin(place / 2) + 4


def problem(nodes=601, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(1.0, 0.5 * (nodes - 1))),
        objective=ks.Terminal(ks.t),
        boundary=[
            ks.at_start(x) + 10,
            *map(ks.at_start, (*AT_REST, drive, rate)),
            ks.at_end(x) - 10,
            ks.at_end(AT_REST[0]),
        ],
        path=[
            *((point[1] - road(point[0]), 0, 3.5) for point in POINTS),
            *((a, -15, 15) for a in ASIDE),
            heading[0] >= 0,
        ],
        bounds={x: (-15, 15), y: (0, 25), qf: (-np.pi / 4, np.pi / 4), drive: (-20, 20)},
        unknown_inputs={push: (-30, 30), steer: (-20, 20)},
        scheme=scheme,
    )


def solve(nodes=601):
    """From a drive along the middle of the road."""
    ahead = np.linspace(-10.0, 10.0, nodes)
    middle = 3.5 * np.sin(ahead / 2) + 5.75
    angle = np.arctan(1.75 * np.cos(ahead / 2)) - np.pi / 2
    return problem(nodes).solve(guess={x: ahead, y: middle, q0: angle, "v": 2.0, "duration": 15.0})


main = shown(solve)
