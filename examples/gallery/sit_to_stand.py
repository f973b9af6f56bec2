"""Sit to stand: from a seat to standing in the plane with the least squared torques of the legs."""

import numpy as np

import kinesym as ks
from kinesym.examples.gallery import shown
from kinesym.examples.gallery.human_gait import (
    ANKLE,
    SHANK,
    STIFFNESS,
    THIGH,
    body,
    bounds,
    model,
    names,
)

SEAT = SHANK + ANKLE  # m


def problem(nodes=60, scheme="backward-euler"):
    tree = body(SEAT)
    person = model(tree)
    quarter = np.pi / 2
    thighs, shanks = names("thigh_z"), names("shank_z")
    bent = {**dict.fromkeys(thighs, quarter), **dict.fromkeys(shanks, -quarter)}
    seated = {"trunk_py": SEAT, **bent}
    standing = {"trunk_px": THIGH, "trunk_py": SEAT + THIGH - 0.02}
    ends = (ks.at_start, seated), (ks.at_end, standing)
    limits = {"thigh": (-60, 150), "shank": (-150, 0), "foot": (-30, 30)}
    return ks.Collocation(
        person,
        ks.Experiment(nodes=nodes, duration=(1e-3 * (nodes - 1), 0.1 * (nodes - 1))),
        known={STIFFNESS: 5e7},
        objective=ks.Integral(sum(torque**2 for torque in person.inputs)),
        boundary=[
            at(x) - posture.get(name, 0.0)
            for at, posture in ends
            for name, x in zip(person.state_names, person.states, strict=True)
        ],
        bounds={
            **bounds(tree, {part: np.deg2rad(pair) for part, pair in limits.items()}),
            "trunk_px": (0.0, 5.0),
            "trunk_py": (0.2, 1.5),
            "trunk_z": np.deg2rad((-60, 90)),
            "trunk_vx": (-10, 10),
            "trunk_vy": (-10, 10),
        },
        unknown_inputs=dict.fromkeys(person.inputs, (-500, 500)),
        scheme=scheme,
    )


def solve(nodes=60):
    return problem(nodes).solve(guess={"duration": 2.0})


main = shown(solve, "trunk_px", "trunk_py", "trunk_z", "rthigh_z", "rshank_z", "rfoot_z")
