"""The wrench of the ground that a motion of a free tree needs, by closed forms."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.multibody import Body, Custom, Planar, Revolute, Tree

G = 9.81
TIME = np.linspace(0.0, 1.0, 101)


def free():
    """Three translations, three rotations, whose rates are the speeds."""
    x, y, z, a, b, c = q = ks.dynamicsymbols("x y z a b c")
    return Custom(q, [("z", c), ("x", a), ("y", b)], translation=(x, y, z))


def box(joint):
    return Tree("box", [Body("box", 2.0, inertia=(0.1, 0.2, 0.3), joint=joint)], values={"g": G})


def test_a_body_that_falls_and_turns():
    """Force m (a + g), moment about the origin r x F + I alpha."""
    tree = Tree(
        "pair",
        [
            Body("box", 2.0, (0, 0, 0), (0.1, 0.2, 0.3), free()),
            Body("arm", 1.0, (0, 0, -0.2), (0.02, 0.02, 0.0), Revolute("y"), parent="box"),
        ],
        values={"g": G},
    )
    motion = {"time": TIME, **{name: 0.0 * TIME for name in tree.coordinates}}
    motion |= {"x": TIME**2, "z": 1.0 + TIME**3}
    found = ks.ground_reaction(tree, motion, TIME[10:-10])
    t = TIME[10:-10]
    force = 3.0 * np.array([2.0 + 0.0 * t, 0.0 * t, 6.0 * t + G])
    np.testing.assert_allclose(found.force, force, atol=1e-6)
    center = np.array([t**2, 0.0 * t, 1.0 + t**3 - 0.2 / 3.0])
    np.testing.assert_allclose(found.moment, np.cross(center, force, axis=0), atol=1e-6)
    torques = ks.inverse_dynamics(tree, motion, {"box": found}, t)
    assert max(float(np.abs(torques[name]).max()) for name in list(torques)[:6]) < 1e-6
    again = ks.ground_reaction(tree, motion, t, feet=["arm"])  # whichever body bears it
    np.testing.assert_allclose(again.rows, found.rows, atol=1e-9)


def test_in_a_plane():
    tree = box(Planar("xz"))
    motion = {"time": TIME, **{name: 0.0 * TIME for name in tree.coordinates}}
    found = ks.ground_reaction(tree, motion)
    np.testing.assert_allclose(found.force.T - [0.0, 0.0, 2.0 * G], 0.0, atol=1e-8)


def test_a_body_that_is_held_is_refused():
    tree = box(Revolute("y"))
    motion = {"time": TIME, "box_y": 0.0 * TIME}
    with pytest.raises(ValueError, match="box of box has 1 coordinates: a body that nothing holds"):
        ks.ground_reaction(tree, motion)


def test_axes_of_opensim():
    turn = ks.gait.rotation("y", "x")
    up = ks.gait.Wrench(TIME[:2], [[0.0] * 2, [5.0] * 2, [1.0] * 2], np.zeros((3, 2)))
    np.testing.assert_allclose(up.rotated(turn).force[:, 0], [0.0, -1.0, 5.0])
    np.testing.assert_allclose(up.rotated(turn).rotated(turn.T).rows, up.rows)
    with pytest.raises(ValueError, match="orthonormal"):
        up.rotated(np.ones((3, 3)))


def test_a_doubtful_motion_is_said_once():
    """Though inverse dynamics is asked seven times."""
    tree = box(free())
    motion = {"time": 1e3 * TIME, **{name: 0.0 * TIME for name in tree.coordinates}}
    with pytest.warns(UserWarning, match="milliseconds") as said:
        ks.ground_reaction(tree, motion)
    assert len(said) == 1 and said[0].filename == __file__
