"""URDF files against Pinocchio, which reads the same ones."""

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline

import kinesym as ks

pin = pytest.importorskip("pinocchio")

ROBOT = """<robot name="arm">
  <link name="base"><inertial><mass value="2"/><origin xyz="0.1 0 0"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="upper"><inertial><origin xyz="0.1 0.02 -0.2" rpy="0.3 -0.4 0.5"/><mass value="1.5"/>
    <inertia ixx="0.02" ixy="0.001" ixz="0.002" iyy="0.03" iyz="-0.001" izz="0.025"/>
    </inertial></link>
  <link name="lower"><inertial><origin xyz="0 0.1 0.2"/><mass value="0.7"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.005"/></inertial></link>
  <link name="hand"/>
  <link name="finger"><inertial><mass value="0.2"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.5 0.6 -0.7"/><axis xyz="0 0.6 0.8"/>
    <limit lower="-1" upper="2" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/>
    <origin xyz="0 0 -0.4" rpy="0.1 0 0"/><axis xyz="0 1 0"/></joint>
  <joint name="wrist" type="fixed"><parent link="lower"/><child link="hand"/>
    <origin xyz="0 0 0.3" rpy="0 1.2 0"/></joint>
  <joint name="rail" type="prismatic"><parent link="hand"/><child link="finger"/>
    <origin xyz="0.01 0 0"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="0.1" effort="1" velocity="1"/></joint>
</robot>"""


def courses(names, seed=0):
    rng, time = np.random.default_rng(seed), np.linspace(0.0, 1.0, 201)
    sines = [np.sin(rng.uniform(2, 6) * time + rng.uniform(0, 6)) for _ in names]
    return time, dict(zip(names, sines, strict=True))


def test_forces_are_those_of_pinocchio(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ROBOT)
    tree, model = ks.urdf.read(path), pin.buildModelFromXML(ROBOT)
    assert [*tree.coordinates] == ["shoulder", "elbow", "rail"]
    assert tree.ranges == {"shoulder": (-1.0, 2.0), "rail": (0.0, 0.1)}
    time, q = courses(tree.coordinates)
    ours = ks.inverse_dynamics(tree, {"time": time, **q})
    assert ours.names == ("shoulder_moment", "elbow_moment", "rail_force")
    spline, data = make_interp_spline(time, np.transpose([*q.values()]), 5), model.createData()
    for k in (3, 77, 150):
        x, v, a = (spline(time[k], nu=order) for order in range(3))
        placed = np.array([x[0], np.cos(x[1]), np.sin(x[1]), x[2]])  # of a continuous joint
        theirs = pin.rnea(model, data, placed, v, a)
        np.testing.assert_allclose([ours[name][k] for name in ours.names], theirs, rtol=1e-10)


def test_free_base_and_mimic(tmp_path):
    path = tmp_path / "arm.urdf"
    mimic = '<mimic joint="shoulder" multiplier="-2" offset="0.1"/>'
    path.write_text(ROBOT.replace('type="continuous">', f'type="continuous">{mimic}'))
    tree = ks.urdf.read(path, "free")
    root = [f"root_{kind}" for kind in ("tx", "ty", "tz", "rx", "ry", "rz")]
    assert [*tree.coordinates] == [*root, "shoulder", "rail"]
    held = ks.urdf.read(path, "free", locked=["rail"])
    assert held.fixed == {"rail": 0.0} and "rail" not in held.coordinates
    at, still = {"shoulder": 0.4, "rail": 0.05}, np.linspace(0.0, 1.0, 6)
    rest = {name: np.full(6, at.get(name, 0.0)) for name in tree.coordinates}
    forces = ks.inverse_dynamics(tree, {"time": still, **rest})
    np.testing.assert_allclose(forces["root_tz_force"], 9.81 * 4.4)
    np.testing.assert_allclose(forces["root_tx_force"], 0.0, atol=1e-12)
    model = pin.buildModelFromXML(ROBOT)
    data = model.createData()

    def potential(angle):  # the elbow follows
        elbow = 0.1 - 2.0 * angle
        q = np.array([angle, np.cos(elbow), np.sin(elbow), 0.05])
        return pin.computePotentialEnergy(model, data, q)

    slope = (potential(0.4 + 1e-4) - potential(0.4 - 1e-4)) / 2e-4
    np.testing.assert_allclose(forces["shoulder_moment"], slope, rtol=1e-7)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<robot", "<sdf", "no XML"),
        ('type="continuous"', 'type="screw"', "joint elbow: joints of the type 'screw'"),
        ('<mass value="1.5"/>', "", "link upper: its inertial has no mass or no inertia"),
        ('<child link="hand"/>', "", "joint wrist has no parent or no child"),
        ('xyz="0 0.6 0.8"', 'xyz="0 a 0.8"', "axis: xyz must be numbers, got '0 a 0.8'"),
        (
            '<link name="hand"/>',
            '<link name="hand"/><link name="x"/>',
            "one root link, this one base, x",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, said):
    path = tmp_path / "arm.urdf"
    path.write_text(ROBOT.replace(old, new, 1))
    with pytest.raises(ValueError, match=said):
        ks.urdf.read(path)
