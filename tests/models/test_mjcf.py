"""Models of MuJoCo against Pinocchio, which reads the same ones."""

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline
from test_urdf import courses

import kinesym as ks

pin = pytest.importorskip("pinocchio")

ARM = """<mujoco model="arm"><compiler angle="radian"/><option gravity="0.5 0 -9"/>
  <worldbody>
    <body name="cart" pos="0.1 0.2 0.3" quat="0.9 0.1 -0.3 0.2">
      <inertial pos="0.1 0 0.05" mass="2" diaginertia="0.1 0.2 0.25" quat="1 0.2 0 0"/>
      <joint name="rail" type="slide" axis="1 0.5 0" range="-1 2"/>
      <joint name="tilt" axis="0 1 0"/>
      <body name="upper" pos="0 0 0.5" euler="0.3 -0.2 0.1">
        <inertial pos="0 0.1 0.2" mass="1" fullinertia="0.05 0.06 0.04 0.001 -0.002 0.003"/>
        <joint name="swing" axis="0 0 1" pos="0.1 0 0.05"/>
        <joint name="twist" axis="1 0 0" pos="0.1 0 0.05"/>
        <body name="lower" pos="0 0.2 0.4">
          <inertial pos="0 0 0.1" mass="0.5" diaginertia="0.01 0.01 0.01"/>
          <joint name="near" axis="1 0 0" pos="0 0.1 0"/>
          <joint name="far" axis="0 1 0" pos="0 -0.1 0.1"/>
          <joint name="push" type="slide" axis="0 0 1"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "arm.xml"
    found.write_text(ARM)
    return found


def test_forces_are_those_of_pinocchio(path):
    tree, model = ks.mjcf.read(path), pin.buildModelFromMJCF(str(path))
    names = ["rail", "tilt", "swing", "twist", "near", "far", "push"]
    assert [*tree.coordinates] == names and tree.ranges == {"rail": (-1.0, 2.0)}
    assert [body.name for body in tree.bodies][2:] == ["lower_1", "lower_2", "lower"]
    model.gravity.linear = np.array([0.5, 0.0, -9.0])
    time, q = courses(names)
    ours = ks.inverse_dynamics(tree, {"time": time, **q})
    spline, data = make_interp_spline(time, np.transpose([*q.values()]), 5), model.createData()
    for k in (3, 77, 150):
        theirs = pin.rnea(model, data, *(spline(time[k], nu=order) for order in range(3)))
        np.testing.assert_allclose([ours[name][k] for name in ours.names], theirs, rtol=1e-9)


def test_free_bodies_and_equalities(path):
    equal = '<equality><joint joint1="far" joint2="near" polycoef="0.1 2 0 0 0"/></equality>'
    text = ARM.replace('<joint name="rail" type="slide" axis="1 0.5 0" range="-1 2"/>', "")
    text = text.replace('<joint name="tilt" axis="0 1 0"/>', '<freejoint name="root"/>')
    path.write_text(text.replace("</mujoco>", f"{equal}</mujoco>"))
    tree = ks.mjcf.read(path)
    root = [f"root_{kind}" for kind in ("tx", "ty", "tz", "rx", "ry", "rz")]
    assert [*tree.coordinates] == [*root, "swing", "twist", "near", "push"]
    rest = {name: np.zeros(6) for name in tree.coordinates}
    forces = ks.inverse_dynamics(tree, {"time": np.linspace(0.0, 1.0, 6), **rest})
    pushed = np.array([forces[f"root_t{axis}_force"][0] for axis in "xyz"])
    assert np.linalg.norm(pushed) == pytest.approx(3.5 * np.hypot(0.5, 9.0))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<worldbody>", "<default/><worldbody>", "elements default are not understood"),
        ('type="slide"', 'type="screw"', "joint rail: joints of the type 'screw' are not known"),
        ('mass="1" ', "", "inertial: mass must be numbers, got ''"),
        ('quat="0.9 0.1 -0.3 0.2"', 'quat="1 0 0"', "body cart: quat is 4 numbers, got 3"),
        ('<body name="upper"', "<body", "a body has no name"),
    ],
)
def test_what_is_wrong_is_named(path, old, new, said):
    path.write_text(ARM.replace(old, new, 1))
    with pytest.raises(ValueError, match=said):
        ks.mjcf.read(path)


def test_what_is_left_out_is_said(path):
    path.write_text(ARM.replace('axis="0 0 1" pos', 'damping="0.2" axis="0 0 1" pos', 1))
    with pytest.warns(UserWarning, match="arm: damping of joint swing is left out"):
        ks.mjcf.read(path)
