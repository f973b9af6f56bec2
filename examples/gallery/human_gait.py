"""A running step in the plane: half a period of a gait with the least squared torques.

Seven segments, contact of heels and toes with a smooth ground (Ackermann and van den Bogert 2010),
torques at hips, knees and ankles; after half a period the other leg is where this one was. It takes
at least 0.3 s: the shorter a step, the less it costs. The body is that of 75 kg and 1.8 m of
Winter's book.
"""

import numpy as np
import sympy as sp

import kinesym as ks
from kinesym.examples.gallery import shown
from kinesym.multibody import Body, Load, Planar, Revolute, Tree

THIGH, SHANK, ANKLE = 0.4410, 0.4428, 0.07  # lengths, and height of the ankle above the sole [m]
HEEL, TOE = -0.06, 0.15  # from the ankle [m]
STIFFNESS, DAMPING, SLIDING = sp.Symbol("stiffness"), 0.85, 0.01  # N/m^3, s/m, m/s
#: Name, mass, centre of mass, inertia, and length of the parent.
LEG = (
    ("thigh", 7.5, (0.0, -0.191, 0), 0.1522, 0.0),
    ("shank", 3.4875, (0.0, -0.1917, 0), 0.0624, THIGH),
    ("foot", 1.0875, (0.0768, -0.0351, 0), 0.0184, SHANK),
)


def contact(tree, body, at, level=0.0):
    """Force of the ground on a point [N]: a cubic spring that damps, and smooth friction."""
    height = tree.place(body, at)[1] - level
    speed = tree.velocity(body, at)
    depth = (sp.Abs(height) - height) / 2
    push = (STIFFNESS * depth**3 - height) * (1 - DAMPING * speed[1])
    return Load(body, (-push * sp.tanh(speed[0] / SLIDING / 2), push, 0), at=at)


def body(seat=None):
    """The tree of segments; their angles are about z, those of the trunk from upright."""
    bodies = [Body("trunk", 50.85, (0, 0.3155, 0), (3.1777,) * 3, Planar("xy"))]
    for side in "rl":
        parent = "trunk"
        for name, mass, com, inertia, length in LEG:
            at = (0, -length, 0)
            bodies.append(Body(side + name, mass, com, (inertia,) * 3, Revolute("z"), at, parent))
            parent = side + name

    def loads(tree):
        feet = [(f"{side}foot", (x, -ANKLE, 0)) for side in "rl" for x in (HEEL, TOE)]
        on_feet = [contact(tree, *point) for point in feet]
        return on_feet if seat is None else [*on_feet, contact(tree, "trunk", (0, 0, 0), seat)]

    return Tree("human_gait", bodies, gravity=(0, -9.81, 0), loads=loads)


def model(tree):
    """Torques at the joints of the legs are inputs; pictures move."""
    joints = [name for name in tree.speeds if not name.startswith("trunk")]
    return tree.model(tree.torque_inputs(*joints), outputs=["places"])


def names(part):
    """What there is on both sides."""
    return [side + part for side in "rl"]


def bounds(tree, angles):
    """Of joints by the part of the leg [rad], and of all rates [rad/s]."""
    most = np.deg2rad(400.0)
    limits = {f"{name}_z": pair for part, pair in angles.items() for name in names(part)}
    turning = dict.fromkeys((name for name in tree.speeds if name[-2:] == "wz"), (-most, most))
    return {**limits, **turning}


def problem(nodes=40, stiffness=5e7, speed=3.0, scheme="backward-euler"):
    tree = body()
    runner = model(tree)
    state = dict(zip(runner.state_names, runner.states, strict=True))
    sides = dict(zip(["r", "l", "t"], ["l", "r", "t"], strict=True))  # the trunk has none
    other = {name: state[sides[name[0]] + name[1:]] for name in state}
    ahead = state.pop("trunk_px")
    angles = {"thigh": (-40, 40), "shank": (-60, 0), "foot": (-30, 30)}
    return ks.Collocation(
        runner,
        ks.Experiment(nodes=nodes, duration=(0.3, 1.0)),
        known={STIFFNESS: stiffness},
        objective=ks.Integral(sum(torque**2 for torque in runner.inputs)),
        boundary=[
            ks.at_start(ahead),
            ks.at_end(ahead - speed * ks.t),
            *(ks.at_start(x) - ks.at_end(other[name]) for name, x in state.items()),
        ],
        bounds={
            **bounds(tree, {part: np.deg2rad(pair) for part, pair in angles.items()}),
            ahead: (0, 10),
            "trunk_py": (0.5, 1.5),
            "trunk_z": np.deg2rad((-60, 60)),
            "trunk_vx": (0, 10),
            "trunk_vy": (-10, 10),
        },
        unknown_inputs=dict.fromkeys(runner.inputs, (-100, 100)),
        scheme=scheme,
    )


def solve(nodes=40):
    """From legs apart and knees bent, on harder and harder ground."""
    step = np.linspace(0.4, -0.4, nodes)
    guess = {"trunk_px": 1.5 * (0.4 - step), "trunk_py": 0.95, "duration": 0.4}
    guess |= {"rthigh_z": step, "lthigh_z": -step, "rshank_z": -0.3, "lshank_z": -0.8}
    for stiffness in (1e5, 1e6, 1e7, 5e7):
        guess = problem(nodes, stiffness).solve(guess=guess)
    return guess


main = shown(solve, "trunk_px", "trunk_py", "rthigh_z", "rshank_z", "lthigh_z", "lshank_z")
