"""Gyroscopes and accelerometers on bodies: closed forms, differences of motions, a fit."""

import numpy as np
import pytest
import sympy as sp
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.multibody import Body, Free, Imu, Planar, Revolute, Spherical, Tree, Universal

AXES, G = "xyz", 9.81
HINGED = (0.13, 0.13, 0.02)


def vector(run, name):
    """(3, N)"""
    return np.array([run[f"{name}_{axis}"] for axis in AXES])


def pendulum(imus):
    """A rod about the y axis, 0.2 m from its centre of mass; its angular acceleration."""
    rod = Body("rod", 2.0, (0, 0, -0.2), (0.03, 0.03, 0.01), Revolute("y"))
    model = Tree("pendulum", [rod], gravity=(0, 0, -G), imus=imus).model({}, ["imu"])
    return model, lambda angle: -2.0 * G * 0.2 * np.sin(angle) / (0.03 + 2.0 * 0.04)


def test_pendulum():
    """At rest gravity upwards; moving, centripetal and tangential."""
    model, bend = pendulum([Imu("rod", at=(0, 0, -0.5))])
    still = ks.simulate(model, [0.0, 0.1], {"rod_y": 0.0, "rod_wy": 0.0})
    np.testing.assert_allclose(vector(still, "imu_rod_accel").T, [[0, 0, G]] * 2, atol=1e-14)
    run = ks.simulate(model, np.linspace(0, 2, 201), {"rod_y": 2.5, "rod_wy": 0.3})
    angle, speed = run["rod_y"], run["rod_wy"]
    gyro, force = vector(run, "imu_rod_gyro"), vector(run, "imu_rod_accel")
    np.testing.assert_array_equal(gyro, [0 * speed, speed, 0 * speed])
    along = -G * np.sin(angle) - 0.5 * bend(angle)  # x of the rod, at z = -0.5
    up = G * np.cos(angle) + 0.5 * speed**2
    np.testing.assert_allclose(force, [along, 0 * angle, up], atol=1e-12)


def test_turned_and_named():
    """Axes of the sensor: those of the rod turned by Bryant angles; two sensors on one body."""
    angles = (0.3, -0.5, 0.8)
    imus = [
        Imu("rod", at=(0.1, 0.02, -0.3)),
        Imu("rod", (0.1, 0.02, -0.3), angles, "zxy", "tilted"),
    ]
    model, _ = pendulum(imus)
    run = ks.simulate(model, np.linspace(0, 1, 11), {"rod_y": 1.0, "rod_wy": -2.0})
    turn = Rotation.from_euler("ZXY", angles)
    for kind in ("gyro", "accel"):
        straight, tilted = vector(run, f"imu_rod_{kind}"), vector(run, f"imu_tilted_{kind}")
        np.testing.assert_allclose(tilted, turn.inv().apply(straight.T).T, atol=1e-13)


def crane():
    """Three dimensions, joints of all sorts."""
    return [
        Body("root", 5.0, (0.1, 0, 0.2), (0.3, 0.4, 0.5), Free("zyx")),
        Body("arm", 1.0, (0.3, 0, 0), (0.01, 0.1, 0.1), Universal("xz"), (0, 0.2, 0.1), "root"),
        Body("hand", 0.5, (0.1, 0.1, 0), (0.02, 0.02, 0.03), Spherical("yzx"), (0.6, 0, 0), "arm"),
    ]


def walker():
    """In the plane."""
    return [
        Body("trunk", 40.0, (0, 0, 0.3), (2.0, 2.0, 0.5), Planar("xz")),
        Body("thigh", 8.0, (0, 0, -0.2), HINGED, Revolute("y"), parent="trunk"),
    ]


@pytest.mark.parametrize("bodies", [crane(), walker()], ids=["space", "plane"])
def test_differences_of_motions(bodies):
    """Of places and attitudes of a simulation; a sensor is welded to the last body."""
    at, angles, h = (0.05, -0.1, 0.2), (0.4, 0.2, -0.7), 1e-3
    last = bodies[-1].name
    tree = Tree("moving", bodies, gravity=(0, 0, -G), imus=[Imu(last, at, angles)])
    place = {f"at_{axis}": e for axis, e in zip(AXES, tree.place(last, at), strict=True)}
    model = tree.model(tree.torque_inputs(last), ["imu", "attitudes", place])
    start = {x: 0.3 * np.sin(1.0 + j) for j, x in enumerate(model.state_names)}
    time = np.arange(0.0, 0.3, h)
    torques = {u: 0.4 + 0.1 * j for j, u in enumerate(model.input_names)}
    settings = {"method": "dormand-prince", "rtol": 1e-12, "atol": 1e-13}
    run = ks.simulate(model, time, start, inputs=torques, **settings)
    R = np.array([[run[f"{last}_attitude_{i}{j}"] for j in AXES] for i in AXES])
    R = np.einsum("ijt,jk->tik", R, Rotation.from_euler("XYZ", angles).as_matrix())
    p = vector(run, "at").T

    def slope(y):
        return (y[:-4] - 8 * y[1:-3] + 8 * y[3:-1] - y[4:]) / (12 * h)

    spin = np.einsum("tji,tjk->tik", R[2:-2], slope(R))
    np.testing.assert_allclose(
        vector(run, f"imu_{last}_gyro").T[2:-2],
        np.array([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]]).T,
        atol=1e-6,
    )
    force = np.einsum("tji,tj->ti", R[4:-4], slope(slope(p)) + [0, 0, G])
    np.testing.assert_allclose(vector(run, f"imu_{last}_accel").T[4:-4], force, atol=1e-6)


def test_orientation_of_a_sensor_on_the_shank():
    """From its channels alone: three angles, its place along the shank, and a bias."""
    angles, place, bias = sp.symbols("roll pitch yaw"), sp.Symbol("r"), sp.Symbol("b")
    leg = Tree(
        "leg",
        [
            Body("thigh", 8.0, (0, 0, -0.2), HINGED, Revolute("y")),
            Body(
                "shank",
                3.5,
                (0, 0, -0.2),
                (0.05, 0.05, 0.01),
                Revolute("y"),
                (0, 0, -0.42),
                "thigh",
            ),
        ],
        gravity=(0, 0, -G),
        imus=[Imu("shank", (0, 0, -place), angles)],
    ).model(outputs=["imu"])
    true = {"roll": 0.1, "pitch": -0.2, "yaw": 0.15, "r": 0.25}
    time = np.linspace(0.0, 1.0, 101)
    start = {"thigh_y": 0.5, "shank_y": 0.2, "thigh_wy": 0.0, "shank_wy": 0.0}
    own = np.append(0.0, 0.5 * (time[1:] + time[:-1]))  # between the nodes
    run = ks.simulate(leg, own, start, true, method="dormand-prince", rtol=1e-11, atol=1e-12)
    rng, std, rows = np.random.default_rng(0), {}, {}
    for name in leg.outputs:
        std[name] = 0.02 if "gyro" in name else 0.1
        noisy = run[name] + std[name] * rng.standard_normal(101)
        rows[name] = ks.Signal(own[1:], noisy[1:])
    biased = rows.pop("imu_shank_gyro_y")
    rows["gyro"] = ks.Signal(own[1:], biased.value + 0.3)
    std["gyro"] = std.pop("imu_shank_gyro_y")
    unknown = dict.fromkeys([*angles, place, bias], (-1.5, 1.5))
    problem = ks.Collocation(
        leg,
        ks.Experiment(time, measurements=rows, std=std),
        unknown=unknown,
        sensors={"gyro": ks.sensor(leg.outputs["imu_shank_gyro_y"], bias=bias)},
    )
    found = problem.solve(guess=start | {"r": 0.1})
    assert found.success
    for name, value in {**true, "b": 0.3}.items():
        row = found.parameters.table[name]
        assert 0.0 < row.standard_error < 0.03
        assert abs(row.value - value) < 4 * row.standard_error


@pytest.mark.parametrize(
    ("imus", "words"),
    [
        ([Imu("rot")], "imu on rot, which is no body of pendulum; did you mean rod"),
        ([Imu("rod"), Imu("rod")], "two imus of pendulum have the name rod; give name="),
        ([Imu("rod", at=(0, 0))], "imu rod: at must have three components, got"),
        ([Imu("rod", angles=(0, 0, sp.nan))], "imu rod: angles is no expression|imu rod: angles"),
        ([Imu("rod", sequence="xyx")], "imu rod: Bryant angles turn about three different axes"),
        ([Imu("rod", name="a b")], "the name of the imu on rod"),
        (["rod"], "imus of pendulum"),
        ([], r"outputs: pendulum has no imus; give Tree\(..., imus=\[Imu\('rod', at="),
    ],
)
def test_sensors_that_cannot_be(imus, words):
    with pytest.raises(ValueError, match=words):
        pendulum(imus)
