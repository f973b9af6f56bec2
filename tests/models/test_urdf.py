"""URDF files against Pinocchio, which reads the same ones."""

import warnings

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline

import kinesym as ks

pin = pytest.importorskip("pinocchio")
base_parameters = pytest.importorskip("base_parameters")  # of benchmarks/

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


@pytest.mark.parametrize("root", ["fixed", "free"])
def test_base_parameters_are_those_of_pinocchios_regressor(tmp_path, root, monkeypatch):
    """Rank, span of rows, and torques."""
    monkeypatch.setenv("KINESYM_TIER", "interpreted")
    path = tmp_path / "arm.urdf"
    path.write_text(ROBOT)
    base = ks.urdf.read(path, root).base_parameters()
    rank, out, error = base_parameters.compared(base, ks.regressor(base), ROBOT, root, 40)
    assert rank == len(base.names) == {"fixed": 14, "free": 28}[root]
    assert max(out, error) < 1e-12


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


def accelerations(tree, rate):
    """Of the model without torques, and of Pinocchio with what damping leaves, at random states."""
    model = tree.model()
    rng = np.random.default_rng(5)
    values = rng.normal(size=2 * len(tree.coordinates))
    start = dict(zip(model.state_names, values, strict=True))
    run = ks.simulate(model, np.array([0.0, 1e-5, 2e-5]), start, method="dormand-prince")
    speeds = model.state_names[len(values) // 2 :]
    ours = [(run[name][2] - run[name][0]) / 2e-5 for name in speeds]
    return np.array(ours), rate(*(np.array([run[n][1] for n in names]) for names in (
        model.state_names[: len(values) // 2], speeds)))  # fmt: skip


def test_damping_is_a_torque_and_friction_is_named(tmp_path):
    """Also of a joint that follows another one, against articulated bodies of Pinocchio."""
    path = tmp_path / "arm.urdf"
    damped = ROBOT
    for joint, c, f in (("shoulder", 0.3, 0.0), ("elbow", 0.7, 0.1), ("rail", 2.0, 0.2)):
        old = f'<joint name="{joint}"'
        new = f'<dynamics damping="{c}" friction="{f}"/></joint>'
        before, _, after = damped.partition(old)
        damped = before + old + after.replace("</joint>", new, 1)
    damped = damped.replace("</robot>", '<transmission name="a"/><transmission/><gazebo/></robot>')
    path.write_text(damped)
    words = "arm: friction of the joints elbow, rail, transmission .2 times., gazebo are left out"
    with pytest.warns(UserWarning, match=words) as said:
        tree = ks.urdf.read(path)
    assert len(said) == 1
    plain, c = pin.buildModelFromXML(ROBOT), np.array([0.3, 0.7, 2.0])
    data = plain.createData()

    def rate(q, v):
        placed = np.array([q[0], np.cos(q[1]), np.sin(q[1]), q[2]])
        return pin.aba(plain, data, placed, v, -c * v)

    ours, theirs = accelerations(tree, rate)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    # what drives the joints is besides it
    time, q = courses(tree.coordinates)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path.write_text(ROBOT)
        free = ks.inverse_dynamics(ks.urdf.read(path), {"time": time, **q})
    driven, spline = ks.inverse_dynamics(tree, {"time": time, **q}), [*q.values()]
    rates = make_interp_spline(time, np.transpose(spline), 5)(time, nu=1).T
    for k, name in enumerate(free.names):
        np.testing.assert_allclose(driven[name], free[name] + c[k] * rates[k], atol=1e-9)
    # of a joint that follows: the power is c (2 q')^2
    mimic = damped.replace(
        'type="continuous">',
        'type="continuous"><mimic joint="shoulder" \
multiplier="-2"/>',
    )
    path.write_text(mimic)
    with pytest.warns(UserWarning, match="friction"):
        tree = ks.urdf.read(path)
    (u, _) = tree.speeds.values()
    assert (tree.passive["shoulder_speed"] / u).equals(-0.3 - 4 * 0.7)
    assert "rail_speed" not in tree.lock("rail_speed").model().state_names
    path.write_text(mimic.replace('damping="2.0"', 'damping="-2.0"'))
    with pytest.raises(ValueError, match="joint rail: its damping, -2, must not be negative"):
        ks.urdf.read(path)


@pytest.mark.parametrize("axis", ["0 0 1", "0 0 -1", "0 2 0", "0.3 -0.4 0.5"])
def test_planar_joints(tmp_path, axis):
    """Bodies slide down the plane that the axis is the normal of, whatever turns about it."""
    path = tmp_path / "slide.urdf"
    path.write_text(f"""<robot name="slide"><link name="base"/><link name="box"><inertial>
      <origin xyz="0.1 0.2 -0.1"/><mass value="2"/>
      <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial></link>
      <joint name="j" type="planar"><origin xyz="0 0 1" rpy="0.4 -0.3 0.2"/>
      <parent link="base"/><child link="box"/><axis xyz="{axis}"/></joint></robot>""")
    tree = ks.urdf.read(path)
    assert [*tree.coordinates] == ["j_tx", "j_ty", "j_rz"]
    model = tree.model(outputs=[{f"com_{a}": e for a, e in zip(
        "xyz", tree.place("box", (0.1, 0.2, -0.1)), strict=True)}])  # fmt: skip
    rng, time = np.random.default_rng(1), np.linspace(0.0, 0.5, 51)
    start = dict(zip(model.state_names, rng.normal(size=6), strict=True))
    run = ks.simulate(model, time, start, method="dormand-prince")
    placed = np.array([run[f"com_{a}"] for a in "xyz"])
    normal = pin.rpy.rpyToMatrix(0.4, -0.3, 0.2) @ np.array(axis.split(), dtype=float)
    normal /= np.linalg.norm(normal)
    np.testing.assert_allclose(normal @ placed, normal @ placed[:, 0], atol=1e-12)
    gravity = np.array([0, 0, -9.81])
    along = gravity - (gravity @ normal) * normal
    second = np.diff(placed, 2, axis=1) / (time[1] - time[0]) ** 2
    np.testing.assert_allclose(second, np.outer(along, np.ones(49)), atol=1e-6)
    np.testing.assert_allclose(run["j_rz_speed"], start["j_rz_speed"], atol=1e-8)


def test_moments_that_no_body_has(tmp_path):
    """Those of links without mass, and negative ones by rounding, count as Pinocchio's do."""
    path = tmp_path / "arm.urdf"
    light = ROBOT.replace('<mass value="0.2"/>', '<mass value="0"/>').replace(
        'ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.005"',
        'ixx="0.01" ixy="0" ixz="0" iyy="-2e-5" iyz="0" izz="0.005"',
    )
    path.write_text(light.replace('type="prismatic"', 'type="revolute"'))
    with pytest.warns(UserWarning, match="finger has no mass, but moments of inertia") as said:
        tree = ks.urdf.read(path)
    assert any("body lower: no body has" in str(w.message) for w in said)
    model = pin.buildModelFromXML(path.read_text())
    data = model.createData()

    def rate(q, v):
        return pin.aba(model, data, np.array([q[0], np.cos(q[1]), np.sin(q[1]), q[2]]), v, 0 * v)

    np.testing.assert_allclose(*accelerations(tree, rate), rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<robot", "<sdf", "no XML"),
        ('mass value="1.5"', 'mass value="1_000"', "mass: value must be numbers, got '1_000'"),
        ('mass value="1.5"', 'mass value="1e308"', "upper: its mass, 1e.308, is beyond that of"),
        ('ixx="0.02"', 'ixx="1e200"', "upper: its inertia, 6.*e.199, is beyond that of"),
        (
            'xyz="0.1 0.02 -0.2"',
            'xyz="0.1 -1e99 0"',
            "upper: its centre of mass, -1e.99, is",
        ),
        ('xyz="0.1 0.2 0.3"', 'xyz="0 0 1e308"', "joint shoulder: its place, 1e.308, is beyond"),
        ('xyz="0 0.6 0.8"', 'xyz="0 0 0"', "joint shoulder: its axis is zero"),
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
