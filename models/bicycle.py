"""The bicycle on which linearised equations of motion agree to 14 digits."""

from math import cos, pi, sin, tan

from kinesym.symbolic.multibody.bodies import Body
from kinesym.symbolic.multibody.joints import Free, Revolute
from kinesym.symbolic.multibody.tree import Tree

#: Wheel base [m].
_WHEEL_BASE = 1.02
#: Trail [m].
_TRAIL = 0.08
#: Tilt of the steer axis [rad].
_TILT = pi / 10
#: Radius of the rear wheel [m].
_REAR = 0.3
#: Radius of the front wheel [m].
_FRONT = 0.35


def whipple_bicycle(crown: float = 0.0) -> Tree:
    """Whipple's bicycle with the parameters of the benchmark (Meijaard, Papadopoulos, Ruina, Schwab
    2007, Proc. R. Soc. A 463:1955, table 1): a frame with its rider, a fork with handlebar, and two
    wheels that roll without slip on the plane z = 0.

    x is ahead, y to the left, z up; joints are where they are if the bicycle stands upright and
    straight, the frame's at the centre of the rear wheel, 0.3 m up. Of 18 coordinates and speeds 10
    can be chosen. crown : radius of the cross-section of the tyres, as part of the radii of the
    wheels [m]; 0 for knife edges, as in the paper.
    """
    head = _WHEEL_BASE + _TRAIL - _REAR * tan(_TILT)  # of the steer axis, at the height of the hub
    steering = Revolute((-sin(_TILT), 0.0, cos(_TILT)))
    bodies = [
        Body(
            "frame",
            mass=85.0,
            com=(0.3, 0.0, 0.9 - _REAR),
            inertia=[[9.2, 0.0, -2.4], [0.0, 11.0, 0.0], [-2.4, 0.0, 2.8]],
            joint=Free("zxy"),
            end=(head, 0.0, 0.0),
        ),
        Body(
            "rear_wheel",
            mass=2.0,
            inertia=(0.0603, 0.12, 0.0603),
            joint=Revolute("y"),
            parent="frame",
            end=(0.0, 0.0, _REAR),
        ),
        Body(
            "fork",
            mass=4.0,
            com=(0.9 - head, 0.0, 0.7 - _REAR),
            inertia=[[0.05892, 0.0, 0.00756], [0.0, 0.06, 0.0], [0.00756, 0.0, 0.00708]],
            joint=steering,
            at=(head, 0.0, 0.0),
            parent="frame",
        ),
        Body(
            "front_wheel",
            mass=3.0,
            inertia=(0.1405, 0.28, 0.1405),
            joint=Revolute("y"),
            at=(_WHEEL_BASE - head, 0.0, _FRONT - _REAR),
            parent="fork",
            end=(0.0, 0.0, _FRONT),
        ),
    ]
    tree = Tree("whipple_bicycle", bodies, gravity=(0.0, 0.0, -9.81))
    for wheel, radius in (("rear_wheel", _REAR), ("front_wheel", _FRONT)):
        tree = tree.close(wheel, kind="rolling", radius=radius - crown, crown=crown)
    return tree
