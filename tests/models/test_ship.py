"""A person on a ship: anthropometry, records of an independent implementation, a chain by hand."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.models.anthropometry import LENGTHS, STATURE, segment
from kinesym.models.ship import DECK, cartip, grm3d, on_deck, person_on_ship, psm3d, sim3d

DATA = Path(__file__).parents[1] / "data"
BODIES = ("shank", "thigh", "trunk", "head")
AXES = "xyz"
GIVEN = json.loads((DATA / "ship_params.json").read_text())
TIME = np.linspace(0.0, 30.0, 3001)
START = {"shank_x": 0.02, "shank_y": 0.03}


def given_values():
    """The parameters of the reference, which are rounded, by our names."""
    values = {"g": GIVEN["g"]}
    for k, body in enumerate(BODIES):
        values[f"{body}_m"] = GIVEN["m"][k]
        for j, axis in enumerate(AXES):
            values[f"{body}_I{axis}"] = GIVEN["I"][k][j]
            values[f"{body}_c{axis}"] = GIVEN["r_cg"][k][j]
            values[f"{body}_r{axis}"] = GIVEN["q_next"][k - 1][j] if k else GIVEN["q_ship"][j]
            values[f"{body}_e{axis}"] = GIVEN["q_next"][k][j] if body == "head" else 0.0
            values[f"Kp_{body}_{axis}"] = GIVEN["Kp"][k][j]
            values[f"Kd_{body}_{axis}"] = GIVEN["Kd"][k][j]
    return values


def motion():
    """Of the ship of the reference."""
    given = json.loads((DATA / "ship_motion.json").read_text())
    return ks.Motion.harmonics(given["omega"], given["amp"], given["phase"])


def record(name):
    return np.genfromtxt(DATA / f"ship_{name}.csv.gz", delimiter=",", names=True)


def simulate(model, time, start=None, values=None, ship=None):
    """From rest but for `start`; the parameters and the motion of the reference if not given."""
    chosen = given_values() if values is None else values
    chosen = {name: value for name, value in chosen.items() if name in model.parameter_names}
    inputs = (ship or motion()).inputs("ship", time, model.input_names)
    initial = {**dict.fromkeys(model.state_names, 0.0), **(start or {})}
    run = ks.simulate(model, time, initial, chosen, inputs)
    assert not getattr(run, "message", "") and not getattr(run, "failures", ())
    return run


def close(found, expected, tolerance):
    """Relative to the largest entry."""
    atol = tolerance * np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


# -- anthropometry --------------------------------------------------------------------------------


def test_person_of_the_reference():
    """80 kg, 1.80 m: masses, lengths, inertia and gains agree to the digits of the file."""
    found, expected = person_on_ship().values, given_values()
    assert set(found) <= set(expected)
    assert not [name for name in expected if expected[name] and name not in found]  # zeros stay
    for name, value in found.items():
        assert value == pytest.approx(expected[name], rel=1e-12, abs=0.6e-6), name


@pytest.mark.parametrize("sex", ["F", "M"])
def test_masses_add_up(sex):
    """Head, trunk, and two of everything else are the whole body (de Leva 1996)."""
    single = sum(segment(name, 70.0, 1.7, sex).mass for name in ("Head 2", "Trunk 2"))
    pairs = sum(
        segment(name, 70.0, 1.7, sex).mass
        for name in ("UpperArm", "Forearm", "Hand", "Thigh", "Shank 2", "Foot")
    )
    assert single + 2.0 * pairs == pytest.approx(70.0, rel=2e-3)
    values = person_on_ship(70.0, 1.7, sex).values
    foot = segment("Foot", 70.0, 1.7, sex).mass
    whole = sum(values[f"{body}_m"] for body in BODIES) + 2.0 * foot
    assert whole == pytest.approx(70.0, rel=2e-3)


@pytest.mark.parametrize("sex", ["F", "M"])
def test_lengths_make_a_person(sex):
    """From the ankle to the vertex: the stature but for the height of the ankle, some 4 % of it."""
    values = person_on_ship(70.0, 1.7, sex).values
    height = sum(values[f"{body}_rz"] for body in BODIES[1:]) + values["head_ez"]
    assert height == pytest.approx(0.97 * 1.7, abs=0.02 * 1.7)


def test_segments():
    """Numbers of the table for its own mean man, and what no body could violate."""
    thigh = segment("Thigh", 73.0, 1.741)
    assert thigh.mass == pytest.approx(0.1416 * 73.0)
    assert (thigh.length, thigh.com) == pytest.approx((0.4222, 0.4095 * 0.4222))
    radii = np.sqrt(np.array(thigh.inertia) / thigh.mass) / 0.4222
    np.testing.assert_allclose(radii, [0.329, 0.329, 0.149], rtol=1e-12)
    for sex in STATURE:
        for name in LENGTHS:
            part = segment(name, 70.0, 1.7, sex)
            a, b, c = sorted(part.inertia)
            assert a > 0.0 and c < a + b and 0.0 < part.com < part.length


def test_scaling():
    """Masses with mass, lengths with stature, inertia with both; damping ratios stay."""
    small, large = person_on_ship(60.0, 1.5).values, person_on_ship(90.0, 1.8).values
    m, h = 1.5, 1.2
    factors = {"m": m, "c": h, "r": h, "e": h, "I": m * h**2, "Kp": m * h, "Kd": m * h**1.5}
    for name, value in small.items():
        kind = "g" if name == "g" else name[:2] if name[0] == "K" else name.split("_")[1][0]
        assert large[name] == pytest.approx(value * factors.get(kind, 1.0), rel=1e-12), name
    assert person_on_ship(60.0, 1.5).values != person_on_ship(60.0, 1.5, "F").values


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: segment("Tail", 80.0, 1.8), "there is no segment Tail; there are Head 2, Trunk 2"),
        (lambda: segment("Head", 80.0, 1.8), "there is no segment Head; there are Head 2"),
        (lambda: segment("Foot", 80.0, 1.8, "male"), "sex is 'F' or 'M' .*, got 'male'"),
        (
            lambda: segment("Foot", 0.0, 1.8),
            "mass and stature must be positive, got 0.0 kg and 1.8 m",
        ),
        (lambda: segment("Foot", 80.0, -1.8), "must be positive, got 80.0 kg and -1.8 m"),
        (lambda: segment("Foot", float("nan"), 1.8), "mass must be a finite number, got nan"),
        (lambda: segment("Foot", 80.0, 180.0), "stature is in metres, got 180.0"),
        (lambda: person_on_ship(stature=180.0), "stature is in metres, got 180.0"),
        (lambda: psm3d(-80.0), "mass and stature must be positive"),
        (lambda: grm3d(sex="X"), "sex is 'F' or 'M' .*, got 'X'"),
    ],
)
def test_bad_persons(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# -- the models -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models():
    """Each is compiled once."""
    return {make.__name__: make() for make in (sim3d, psm3d, grm3d, cartip)}


@pytest.fixture(scope="module")
def runs(models):
    """Each of the models under the motion of the reference for 30 s."""
    starts = {"sim3d": START, "psm3d": START, "grm3d": {}, "cartip": {"shank_y": 0.03}}
    return {name: simulate(models[name], TIME, start) for name, start in starts.items()}


#: What is locked in each of the models.
LOCKED = {
    "sim3d": (),
    "psm3d": ("shank_wz", *BODIES[1:]),
    "grm3d": BODIES,
    "cartip": tuple(f"{body}_w{axis}" for body in BODIES for axis in "xz"),
}

#: Persons of the ensemble [kg, m, sex].
PERSONS = ((55.0, 1.58, "F"), (80.0, 1.80, "M"), (110.0, 1.97, "M"))


@pytest.fixture(scope="module")
def whole():
    """The tree of all of them with locks at run time, to be compiled once."""
    tree = person_on_ship().with_locks()
    return on_deck(tree, "whole", BODIES)


@pytest.fixture(scope="module")
def ensemble(whole):
    """The four models and then three persons of the second one, by parameters alone."""
    tree = person_on_ship()
    rows, starts = [], []
    for name, locked in LOCKED.items():
        switches = dict.fromkeys(tree.speeds_of(*locked) if locked else (), 1.0)
        gravity = {"g": 0.0} if name == "cartip" else {}
        rows.append({**given_values(), **lock(switches), **gravity})
        starts.append((0.02 if name in ("sim3d", "psm3d") else 0.0, 0.03 * (name != "grm3d")))
    for person in PERSONS:
        switches = dict.fromkeys(tree.speeds_of(*LOCKED["psm3d"]), 1.0)
        rows.append({**person_on_ship(*person).values, **lock(switches)})
        starts.append((0.02, 0.03))
    values = {name: [row.get(name, 0.0) for row in rows] for name in whole.parameter_names}
    start = {name: [row[k] for row in starts] for k, name in enumerate(START)}
    return simulate(whole, TIME, start, values)


def lock(switches):
    return {f"lock_{name}": value for name, value in switches.items()}


@pytest.mark.parametrize("make", [sim3d, psm3d, grm3d, cartip])
def test_every_parameter_has_a_value(make):
    model = make(60.0, 1.6, "F")
    assert set(model.values) == set(model.parameter_names)
    assert model.name == make.__name__


@pytest.mark.study
def test_rigid_person(runs):
    """The wrench of the ship and the moments of all locks, 0 to 30 s, and the published end."""
    expected, run = record("GRM3D"), runs["grm3d"]
    assert not run.states
    at = slice(None, None, 100)
    for kind, letter in (("moment", "M"), ("force", "F")):
        for axis in AXES:
            close(run[f"base_{kind}_{axis}"][at], expected[f"{letter}{axis}"], 1e-11)
    locks = [f"held_{body}_w{axis}" for body in BODIES for axis in AXES]
    for k, name in enumerate(locks):
        close(run[name][at], expected[f"lock{k}"], 1e-11)
    end = [66.39935213025, 7.773539106146, 0.6419981769, 0.9543724512, -66.45871998, 685.5956642]
    names = [f"base_{kind}_{axis}" for kind in ("moment", "force") for axis in AXES]
    np.testing.assert_allclose([run[name][-1] for name in names], end, rtol=2e-10)


def test_pendulum_person(runs):
    """Angles, speeds, wrench and locks of the ankle that rolls and pitches, RK4 at 100 Hz."""
    expected, run, at = record("PSM3D"), runs["psm3d"], slice(None, None, 100)
    for axis in AXES:
        close(run[f"shank_{axis}"][at], expected[f"th1{axis}"], 1e-9)
        close(run[f"base_moment_{axis}"][at], expected[f"M{axis}"], 1e-9)
        close(run[f"base_force_{axis}"][at], expected[f"F{axis}"], 1e-9)
    for axis in "xy":
        close(run[f"shank_w{axis}"][at], expected[f"w1{axis}"], 1e-9)
    held = [f"held_{body}_w{axis}" for body in BODIES for axis in AXES]
    for k, name in enumerate(held[3:], 3):
        close(run[name][at], expected[f"lock{k}"], 1e-9)
    torque = -GIVEN["Kp"][0][2] * run["shank_z"][at]  # the reference has it beside the lock
    close(run["held_shank_wz"][at] - torque, expected["lock2"], 1e-9)
    end = [run[f"shank_{axis}"][-1] for axis in AXES]
    np.testing.assert_allclose(end, [-0.038504557, -0.003792303, 0.000190087], atol=6e-10)


@pytest.mark.parametrize(("number", "name"), list(enumerate(LOCKED)))
def test_models_are_one_tree_with_locks(runs, ensemble, number, name):
    """Locked at run time or when the model is made: the same motion and the same wrench."""
    run, member = runs[name], ensemble.member(number)
    for key in (
        *run.states,
        "com_x",
        "com_y",
        "com_z",
        "head_end_x",
        "bow_port_z",
        *(f"base_{kind}_{axis}" for kind in ("force", "moment") for axis in AXES),
    ):
        close(member[key], run[key], 1e-10)
    for body in BODIES:  # in the same place
        for axis in AXES:
            close(member[f"{body}_place_{axis}"], run[f"{body}_place_{axis}"], 1e-10)
    shut = person_on_ship().speeds_of(*LOCKED[name]) if LOCKED[name] else []
    for speed in shut:
        assert not member[speed].any()


def test_locks_of_the_whole_tree(ensemble):
    """With PD control of all joints, as in the reference: what is free needs no lock."""
    expected, at = record("PSM3D"), slice(None, None, 100)
    member = ensemble.member(1)
    names = [f"held_{body}_w{axis}" for body in BODIES for axis in AXES]
    for k, name in enumerate(names[2:], 2):
        close(member[name][at], expected[f"lock{k}"], 1e-9)
    for name in names[:2]:
        np.testing.assert_allclose(member[name], 0.0, atol=1e-9)


def test_persons_by_parameters(runs, ensemble, monkeypatch):
    """Three persons in one run; each is as a model of its own, and none is compiled after them."""
    monkeypatch.setattr("kinesym.runtime.library.build._output", lambda *a: pytest.fail("compiles"))
    for k, person in enumerate(PERSONS, len(LOCKED)):
        model = psm3d(*person)
        run = simulate(model, TIME, START, model.values)
        for name in ("shank_x", "shank_y", "base_moment_x", "base_force_z", "head_end_z"):
            close(ensemble[name][k], run[name], 1e-10)
        assert run["head_end_z"][0] - run["shank_place_z"][0] == pytest.approx(
            person[1] * 0.97, abs=0.02 * person[1]
        )
    tall, small = np.abs(ensemble["base_moment_x"][[-1, -3]]).max(axis=1)
    assert tall > 1.5 * small


def test_similar_persons_on_similar_ships(models):
    """Twice the mass, lengths by 1.21: by Froude's law the same angles, all times by 1.1."""
    time = np.linspace(0.0, 10.0, 1001)
    model, ship = models["psm3d"], motion()
    run = simulate(model, time, START, person_on_ship(50.0, 1.5).values)
    large = simulate(
        model, 1.1 * time, START, person_on_ship(100.0, 1.5 * 1.21).values, ship.scaled(1.21)
    )
    for axis in AXES:
        close(large[f"shank_{axis}"], run[f"shank_{axis}"], 1e-10)
        close(large[f"base_force_{axis}"], 2.0 * run[f"base_force_{axis}"], 1e-10)
        close(large[f"base_moment_{axis}"], 2.42 * run[f"base_moment_{axis}"], 1e-10)


def test_ends_and_deck(runs):
    """Rigid parts of the ship: finite rotations of the corners, and of the whole rigid person."""
    found = motion().kinematics(TIME)
    turn = Rotation.from_euler("XYZ", found[""].T)
    for name, at in DECK.items():
        for axis, row in zip(AXES, found["p"] + turn.apply(at).T, strict=True):
            close(runs["sim3d"][f"{name}_{axis}"], row, 1e-12)
    height = GIVEN["q_next"]
    crown = found["p"] + turn.apply(np.sum(height, axis=0)).T
    for axis, row in zip(AXES, crown, strict=True):
        close(runs["grm3d"][f"head_end_{axis}"], row, 1e-12)
    ring = (*DECK, next(iter(DECK)))
    joints = [(f"{a}_place", f"{b}_place") for a, b in pairwise(BODIES)]
    for run in runs.values():
        assert list(run.drawing) == [ring, *joints, ("head_place", "head_end")]


# -- a chain in the plane, by hand ----------------------------------------------------------------


def chain_rates(values, gravity, surge):
    """x' of four links that pitch on a cart: absolute angles and Lagrange's equations.

    Links turn about y from z upwards: a point (x, z) of a link is at R(angle) (x, z).
    """

    def pairs(letter):
        return np.array([[values.get(f"{b}_{letter}{a}", 0.0) for a in "xz"] for b in BODIES])

    mass = np.array([values[f"{b}_m"] for b in BODIES])
    inertia = np.array([values[f"{b}_Iy"] for b in BODIES])
    gains = [np.array([values[f"{kind}_{b}_y"] for b in BODIES]) for kind in ("Kp", "Kd")]
    com, at = pairs("c"), pairs("r")
    sum_up = np.tril(np.ones((4, 4)))  # absolute from relative angles

    def rates(t, x):
        phi, w = sum_up @ x[:4], sum_up @ x[4:]
        s, c = np.sin(phi), np.cos(phi)
        turn = np.array([[c, s], [-s, c]])
        slope = np.array([[-s, c], [-c, -s]])  # d turn/d phi
        total, load = np.diag(inertia), np.zeros(4)
        for i in range(4):
            # place of the centre of mass i: the joints before it, then its own offset
            arms = [at[k + 1] if k < i else com[i] for k in range(i + 1)]
            J, bias = np.zeros((2, 4)), np.array([surge(t), gravity])
            for k, arm in enumerate(arms):
                J[:, k] = slope[:, :, k] @ arm
                bias = bias - turn[:, :, k] @ arm * w[k] ** 2
            total = total + mass[i] * J.T @ J
            load = load - mass[i] * J.T @ bias
        torque = -gains[0] * x[:4] - gains[1] * x[4:]
        load = load + torque - np.append(torque[1:], 0.0)
        return np.concatenate([x[4:], np.linalg.solve(sum_up.T @ total @ sum_up, sum_up.T @ load)])

    return rates


@pytest.mark.parametrize("name", ["cartip", "sim3d"])
def test_planar_chain(models, name):
    """On a ship that surges, symmetric: cartip without gravity, sim3d with it."""
    values = {**given_values(), "head_cy": 0.0}
    omega, amplitude, time = 2.5, 0.4, np.linspace(0.0, 5.0, 5001)
    ship = ks.Motion.harmonics([omega], [[0.0], [0.0], [0.0], [amplitude], [0.0], [0.0]], [0.3])
    start = {"shank_y": 0.03, "trunk_y": -0.05, "head_y": 0.1}
    run = simulate(models[name], time, start, values, ship)
    rates = chain_rates(
        values,
        0.0 if name == "cartip" else values["g"],
        lambda t: -amplitude * omega**2 * np.sin(omega * t + 0.3),
    )
    initial = [start.get(f"{body}_y", 0.0) for body in BODIES] + [0.0] * 4
    found = solve_ivp(
        rates, (0.0, 5.0), initial, method="DOP853", t_eval=time[::500], rtol=1e-11, atol=1e-13
    )
    for k, body in enumerate(BODIES):
        close(run[f"{body}_y"][::500], found.y[k], 1e-7)
        close(run[f"{body}_wy"][::500], found.y[4 + k], 1e-7)
    sideways = [row for key, row in run.states.items() if key.endswith(("_x", "_z", "_wx", "_wz"))]
    assert all(np.abs(row).max() < 1e-12 for row in sideways)
