"""A pendulum swings up in whatever time takes the least integral of the squared torque."""

import kinesym as ks
from kinesym.examples.gallery import shown
from kinesym.examples.gallery.pendulum_swing_up import MODEL, UP, T


def problem(nodes=501, scheme="backward-euler"):
    return ks.Collocation(
        MODEL,
        ks.Experiment(nodes=nodes, duration=(0.5, 0.5 * (nodes - 1))),
        objective=ks.Integral(T**2),
        boundary=UP,
        unknown_inputs={T: (-2.0, 2.0)},
        scheme=scheme,
    )


def solve(nodes=501):
    return problem(nodes).solve(guess={"duration": 6.0})


main = shown(solve)
