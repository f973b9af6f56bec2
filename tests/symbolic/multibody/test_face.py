"""Trees as users meet them: outputs, locks, parameters, drawings, and what is said of bad ones.

Models are evaluated by the reference interpreter, also at complex states: the imaginary part of
f(x + i h x')/h is df/dt to rounding. Attitudes come from SciPy.
"""

import warnings
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np
import pytest
import sympy as sp
from scipy.interpolate import make_interp_spline
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.multibody import (
    Body,
    Fixed,
    FixedBase,
    Free,
    Imu,
    Load,
    PrescribedBase,
    Revolute,
    Spherical,
    Tree,
    Universal,
)
from kinesym.symbolic.multibody.outputs import KINDS

AXES = "xyz"
H = 1e-30  # of the complex step: no difference is taken, so it can be tiny
POINTS = 5


# -- a model at many points -----------------------------------------------------------------------


class Numbers:
    """A model evaluated at POINTS points, with the rates that its equations demand."""

    def __init__(self, model):
        self.model, self.point = model, model_symbols(model, varying=True)
        nodes = tuple(map(self.point.lower, (*model.equations, *model.outputs.values())))
        groups = (self.point.xdot, self.point.x, self.point.u, self.point.p, self.point.t)
        self.kernel = Kernel("all", self.point.graph, groups, nodes, tuple(map(str, nodes)))

    def at(self, values, rates, step=0.0):
        """Residual (n, POINTS) and outputs by name, at the states + `step` times their rates."""
        point, model = self.point, self.model
        states = [values[name] for name in model.state_names]
        arrays = {
            point.xdot.name: rates,
            point.x.name: table(states) + step * np.asarray(rates),
            point.u.name: table([values[name] for name in model.input_names]),
            point.p.name: table([values[name] for name in model.parameter_names]),
            point.t.name: np.zeros((1, POINTS)),
        }
        found = interpret(self.kernel, arrays, POINTS)
        return found[: len(states)], dict(zip(model.outputs, found[len(states) :], strict=True))

    def rates(self, values):
        """x' (n, POINTS) by solution of the residual, which is linear in it."""
        n = len(self.model.state_names)
        rest, _ = self.at(values, np.zeros((n, POINTS)))
        columns = [self.at(values, np.repeat(e[:, None], POINTS, 1))[0] - rest for e in np.eye(n)]
        return -np.linalg.solve(np.array(columns).transpose(2, 1, 0), rest.T[:, :, None])[:, :, 0].T

    def __call__(self, values):
        """Rates and outputs by name, and d/dt of the outputs that depend on states alone."""
        rates = self.rates(values)
        _, outputs = self.at(values, rates)
        _, moved = self.at(values, rates, 1j * H)
        slopes = {name: np.imag(row) / H for name, row in moved.items()}
        return dict(zip(self.model.state_names, rates, strict=True)), outputs, slopes


def table(rows):
    return np.array([np.broadcast_to(row, POINTS) for row in rows]).reshape(len(rows), POINTS)


def close(found, expected, tolerance=1e-12):
    """Relative to the largest entry, or to one."""
    scale = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale)


def vector(outputs, name):
    """(3, POINTS)"""
    return np.array([outputs[f"{name}_{axis}"] for axis in AXES])


def cross(a, b):
    return np.cross(a, b, axis=0)


# -- a tree with every joint, whose symbols look like intermediates -------------------------------

INERTIA = [[0.5, 0.02, -0.03], [0.02, 0.6, 0.01], [-0.03, 0.01, 0.4]]
FORCE = sp.Function("f_hand_x")(ks.t)
VALUES = {
    "w_arm_x": 0.7,
    "S_hand_x_y": 0.15,
    "a_root_inner_x": 9.81,
    "f_hand_x": 1.3,
    "Kp_hand_angle": 3.0,
    "Kd_hand_angle": 0.2,
    **{f"Kp_head_{axis}": 4.0 + k for k, axis in enumerate(AXES)},
    **{f"Kd_head_{axis}": 0.3 + 0.1 * k for k, axis in enumerate(AXES)},
}


@lru_cache(maxsize=1)
def octopus():
    """Every kind of joint on a fixed base, loads in both kinds of axes."""
    mass, offset, g = sp.symbols("w_arm_x S_hand_x_y a_root_inner_x")
    bodies = [
        Body("root", 5.0, (0.1, 0.0, 0.2), INERTIA, Free("zyx"), (0.1, -0.2, 0.3)),
        Body("arm", 1.2, (0.3, 0, 0), (0.01, 0.1, 0.1), Universal("xz"), (0, 0.2, 0.1), "root"),
        Body(
            "hand",
            mass,
            (offset, 0.1, 0),
            (0.02, 0.02, 0.03),
            Revolute((1, 1, 0)),
            (0.6, 0, 0),
            "arm",
        ),
        Body(
            "tip",
            0.3,
            (0.05, 0, 0.02),
            (0.001, 0.002, 0.002),
            Fixed(),
            (0.2, 0.1, 0),
            "hand",
            (0.3, 0, 0),
        ),
        Body(
            "head", 2.0, (0, 0.01, 0.1), (0.05, 0.04, 0.03), Spherical("yzx"), (0, 0, 0.5), "root"
        ),
    ]
    loads = [
        Load("hand", (FORCE, 0.5, -1.0), (0.1, 0, 0.2), (0.2, 0, 0.1)),
        Load("head", (0, 1.0, 0), (0, 0, -0.3), (0, 0, 0.2), "body"),
    ]
    imus = [Imu("tip", (0.1, 0, 0.2), (0.3, -0.2, 0.1))]
    return Tree("octopus", bodies, gravity=(0, 0, -g), loads=loads, values=VALUES, imus=imus)


def torques_of(tree):
    return {**tree.torque_inputs("root", "arm"), **tree.joint_pd("hand", "head")}


@lru_cache(maxsize=8)
def numbers(*locked, lockable=False):
    """The octopus with locks of build time or of run time, all kinds of outputs."""
    tree = octopus().lock(*locked) if locked else octopus()
    tree = tree.with_locks() if lockable else tree
    return Numbers(tree.model(torques_of(tree), list(KINDS)))


def random_values(locked=(), seed=1):
    """Values of everything in the octopus, locked speeds at zero."""
    rng, tree = np.random.default_rng(seed), octopus()
    found = {name: rng.uniform(-1.2, 1.2, POINTS) for name in tree.coordinates}
    found |= {name: rng.normal(size=POINTS) for name in tree.speeds}
    found |= {e.name: rng.normal(size=POINTS) for e in tree.torque_inputs("root", "arm").values()}
    return {**found, **VALUES, **dict.fromkeys(tree.speeds_of(*locked) if locked else (), 0.0)}


def attitudes_and_places(values):
    """By body: rotations to world axes and joints (3, n), by finite rotations."""

    def euler(body, sequence):
        angles = np.array([values[f"{body}_{axis}"] for axis in sequence]).T
        return Rotation.from_euler(sequence.upper(), angles)

    turns = {"root": euler("root", "zyx")}
    turns["arm"] = turns["root"] * euler("arm", "xz")
    axis = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)
    turns["hand"] = turns["arm"] * Rotation.from_rotvec(values["hand_angle"][:, None] * axis)
    turns["tip"] = turns["hand"]
    turns["head"] = turns["root"] * euler("head", "yzx")
    root = np.array([[0.1], [-0.2], [0.3]]) + [values[f"root_p{axis}"] for axis in AXES]
    places = {"root": root}
    for body in octopus().bodies[1:]:
        arm = turns[body.parent].apply(np.array(body.at, dtype=float)).T
        places[body.name] = places[body.parent] + arm
    return turns, places


def masses():
    """By body: mass, centre of mass and inertia as numbers."""
    found = {}
    for body in octopus().bodies:
        mass, *com = (float(sp.S(e).subs(VALUES)) for e in (body.mass, *body.com))
        inertia = np.array(body.inertia, dtype=float)
        found[body.name] = mass, com, np.diag(inertia) if inertia.ndim == 1 else inertia
    return found


def applied(values, turns, places):
    """Loads in world axes as (body, point, force, torque), each (3, n)."""
    for load in octopus().loads:
        turn, still = turns[load.body], 0.0 * values["hand_angle"]
        force, torque = (
            np.array([still + (values["f_hand_x"] if e == FORCE else float(e)) for e in v])
            for v in (load.force, load.torque)
        )
        if load.axes == "body":
            force, torque = turn.apply(force.T).T, turn.apply(torque.T).T
        yield load.body, places[load.body] + turn.apply(load.at).T, force, torque


def power_of(outputs, values, turns, places):
    """Of actuators and loads (n,)."""
    power = sum(row for name, row in outputs.items() if name.endswith("_power"))
    for name, point, force, torque in applied(values, turns, places):
        spin = vector(outputs, f"{name}_spin")
        v = vector(outputs, f"{name}_velocity") + cross(spin, point - places[name])
        power = power + (force * v + torque * spin).sum(axis=0)
    return power


LOCKS = [(), ("hand",), ("root",), ("arm_wx", "head_wy", "root_vz"), ("root_wx", "arm", "head_wz")]


# -- outputs --------------------------------------------------------------------------------------


def test_places_and_attitudes():
    """Against finite rotations; the end of a leaf without `end` is its centre of mass."""
    values = random_values()
    _, outputs, _ = numbers()(values)
    turns, places = attitudes_and_places(values)
    for name, place in places.items():
        close(vector(outputs, f"{name}_place"), place, 1e-14)
        found = [[outputs[f"{name}_attitude_{i}{j}"] for j in AXES] for i in AXES]
        close(found, turns[name].as_matrix().transpose(1, 2, 0), 1e-14)
    for name, at in (("tip", (0.3, 0, 0)), ("head", (0, 0.01, 0.1))):
        close(vector(outputs, f"{name}_end"), places[name] + turns[name].apply(at).T, 1e-14)
    assert not {"root_end_x", "arm_end_x", "hand_end_x"} & set(outputs)


@pytest.mark.parametrize("locked", [(), LOCKS[3]])
def test_velocities(locked):
    """Derivatives of places and attitudes along the rates of the model."""
    _, outputs, slopes = numbers(*locked)(random_values(locked))
    for body in octopus().bodies:
        name = body.name
        close(vector(outputs, f"{name}_velocity"), vector(slopes, f"{name}_place"))
        turn, change = (
            [[rows[f"{name}_attitude_{i}{j}"] for j in AXES] for i in AXES]
            for rows in (outputs, slopes)
        )
        spin = np.einsum("ijn,kjn->ikn", change, turn)
        close(vector(outputs, f"{name}_spin"), [spin[2, 1], spin[0, 2], spin[1, 0]])
    close(vector(outputs, "com_velocity"), vector(slopes, "com"))


def test_momentum_and_energy():
    """Sums over bodies, written here by hand."""
    values = random_values()
    _, outputs, _ = numbers()(values)
    turns, places = attitudes_and_places(values)
    total, first, linear, kinetic, parts = 0.0, 0.0, 0.0, 0.0, []
    for name, (mass, com, inertia) in masses().items():
        arm, spin = turns[name].apply(com).T, vector(outputs, f"{name}_spin")
        v = vector(outputs, f"{name}_velocity") + cross(spin, arm)
        own = turns[name].inv().apply(spin.T) @ inertia
        kinetic += (mass * (v * v).sum(axis=0) + (own * turns[name].inv().apply(spin.T)).sum(1)) / 2
        total, linear = total + mass, linear + mass * v
        first = first + mass * (places[name] + arm)
        parts.append((places[name] + arm, mass * v, turns[name].apply(own).T))
    close(vector(outputs, "com"), first / total)
    close(vector(outputs, "momentum"), linear)
    close(vector(outputs, "com_velocity"), linear / total)
    angular = sum(cross(place - first / total, p) + own for place, p, own in parts)
    close(vector(outputs, "angular_momentum"), angular)
    close(outputs["kinetic_energy"], kinetic)
    close(outputs["potential_energy"], 9.81 * first[2])


@pytest.mark.parametrize("locked", LOCKS)
def test_power_and_momentum_balances(locked):
    """d(energy)/dt is the power of actuators and loads, so locks do no work; momentum changes by
    weight, loads and the reaction of the base."""
    values = random_values(locked)
    _, outputs, slopes = numbers(*locked)(values)
    turns, places = attitudes_and_places(values)
    com, weight = vector(outputs, "com"), 9.81 * sum(mass for mass, *_ in masses().values())
    reaction, about = vector(outputs, "base_force"), vector(outputs, "base_moment")
    force, moment = reaction - [[0], [0], [weight]], about - cross(com, reaction)
    for _, point, f, torque in applied(values, turns, places):
        force, moment = force + f, moment + cross(point - com, f) + torque
    power = power_of(outputs, values, turns, places)
    close(slopes["kinetic_energy"] + slopes["potential_energy"], power)
    close(vector(slopes, "momentum"), force)
    close(vector(slopes, "angular_momentum"), moment)


@pytest.mark.parametrize("locked", LOCKS)
def test_joint_wrenches(locked):
    """At the root that of the base, carried over; along speeds actuators and locks."""
    values = random_values(locked)
    _, outputs, _ = numbers(*locked)(values)
    turns, places = attitudes_and_places(values)
    force, moment = (
        turns["root"].apply(vector(outputs, f"root_{kind}").T).T for kind in ("force", "moment")
    )
    close(vector(outputs, "base_force"), force)
    close(vector(outputs, "base_moment"), moment + cross(places["root"], force))
    along = {
        **{f"root_v{a}": row for a, row in zip(AXES, force, strict=True)},
        **{f"root_w{a}": outputs[f"root_moment_{a}"] for a in AXES},
        **{f"head_w{a}": outputs[f"head_moment_{a}"] for a in AXES},
        "arm_wz": outputs["arm_moment_z"],
        "hand_rate": np.sqrt(0.5) * (outputs["hand_moment_x"] + outputs["hand_moment_y"]),
    }
    expected = octopus().speeds_of(*locked) if locked else []
    assert {name for name in outputs if name.startswith("held_")} == {f"held_{u}" for u in expected}
    for name, row in along.items():
        close(row, outputs[f"{name}_torque"] + outputs.get(f"held_{name}", 0.0), 1e-10)


def test_actuators():
    """Torques by the name of their speed, and torque times speed."""
    values = random_values()
    _, outputs, _ = numbers()(values)
    expected = {
        "root_vy": values["root_fy"],
        "arm_wz": values["arm_tz"],
        "hand_rate": -3.0 * values["hand_angle"] - 0.2 * values["hand_rate"],
        "head_wx": -4.0 * values["head_x"] - 0.3 * values["head_wx"],
        "head_wz": -6.0 * values["head_z"] - 0.5 * values["head_wz"],
    }
    for name, torque in expected.items():
        close(outputs[f"{name}_torque"], torque, 1e-14)
        close(outputs[f"{name}_power"], torque * values[name], 1e-14)


def leg_and_foot(**changes):
    bodies = [
        Body("leg", 3.0, (0, 0, 0.2), (0.1, 0.1, 0.02)),
        Body(
            "foot",
            1.0,
            (0.1, 0, 0),
            (0.01, 0.02, 0.02),
            Revolute("y"),
            (0, 0, 0.5),
            "leg",
            (0.2, 0, 0),
        ),
    ]
    return Tree("leg", bodies, **changes)


#: What each kind of outputs of `leg_and_foot` has: vectors and matrices by their first part.
NAMES = {
    "places": "leg_place foot_place foot_end",
    "velocities": "leg_velocity leg_spin foot_velocity foot_spin",
    "attitudes": "leg_attitude_x leg_attitude_y leg_attitude_z foot_attitude_x foot_attitude_y "
    "foot_attitude_z",
    "imu": "imu_foot_gyro imu_foot_accel",
    "center_of_mass": "com com_velocity",
    "momentum": "momentum angular_momentum",
    "energy": ["kinetic_energy", "potential_energy"],
    "actuators": ["leg_wx_torque", "leg_wx_power", "foot_wy_torque", "foot_wy_power"],
    "base_wrench": "base_force base_moment",
    "joint_wrenches": "leg_force leg_moment foot_force foot_moment",
    "held": ["held_leg_wz", "held_foot_wy"],
}


@pytest.mark.parametrize(("kind", "names"), NAMES.items())
def test_names_of_outputs(kind, names):
    tree = leg_and_foot(imus=[Imu("foot")]).lock("leg_wz").with_locks("foot")
    model = tree.model(tree.torque_inputs("leg_wx", "foot"), [kind])
    if isinstance(names, str):
        separator = "" if kind == "attitudes" else "_"
        names = [f"{name}{separator}{axis}" for name in names.split() for axis in AXES]
    assert list(model.outputs) == names
    assert NAMES.keys() == KINDS.keys()


def test_outputs_of_ones_own():
    """A kind alone, a mapping alone, and both in one list."""
    tree = leg_and_foot()
    own = {"bend": 2 * tree.coordinates["foot_y"]}
    assert list(tree.model({}, "energy").outputs) == ["kinetic_energy", "potential_energy"]
    assert list(tree.model({}, own).outputs) == ["bend"]
    model = tree.model({}, ["energy", own])
    assert list(model.outputs) == ["kinetic_energy", "potential_energy", "bend"]


def test_drawings():
    """From joint to joint, and to ends; only with places."""
    tree = octopus()
    lines = [
        ("root", "arm_place"),
        ("root", "head_place"),
        ("arm", "hand_place"),
        ("hand", "tip_place"),
        ("tip", "tip_end"),
        ("head", "head_end"),
    ]
    model = numbers().model
    assert list(model.drawing) == [(f"{begin}_place", end) for begin, end in lines]
    assert tree.model({}, ["energy"]).drawing == ()
    assert model.substitute({}).drawing == model.drawing
    foot = replace(tree.bodies[1], end=(0.1, 0, 0))  # carries a hand and has an end
    tree = replace(tree, bodies=[tree.bodies[0], foot, *tree.bodies[2:]])
    assert ("arm_place", "arm_end") in tree.model({}, ["places"]).drawing


# -- locks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("locked", LOCKS[1:])
def test_locks_at_run_time_are_those_of_build_time(locked):
    """Rates and outputs, whatever is locked; the others stay free."""
    values = random_values(locked, seed=2)
    switches = {f"lock_{name}": 0.0 for name in octopus().speeds}
    switches |= {f"lock_{name}": 1.0 for name in octopus().speeds_of(*locked)}
    ours, theirs = numbers(lockable=True)({**values, **switches}), numbers(*locked)(values)
    rates, outputs, _ = theirs
    assert set(outputs) <= set(ours[1])
    for found, expected in zip(ours, (rates, outputs), strict=False):
        for name, row in expected.items():
            close(found[name], row)
    for name in octopus().speeds_of(*locked):
        assert not ours[0][name].any()
    for name in ours[0].keys() - rates.keys():  # of what is locked
        close(ours[0][name], 0.0)
    free = set(octopus().speeds) - set(octopus().speeds_of(*locked))
    close([ours[1][f"held_{name}"] for name in free], 0.0, 1e-11)


def test_unlocked_is_as_without_locks():
    values = random_values(seed=3)
    switches = {f"lock_{name}": 0.0 for name in octopus().speeds}
    ours, theirs = numbers(lockable=True)({**values, **switches}), numbers()(values)
    for found, expected in zip(ours[:2], theirs[:2], strict=True):
        for name, row in expected.items():
            close(found[name], row)


@pytest.mark.study
def test_names_of_locks():
    """Parameters with value 0 for what is named and not locked already."""
    tree = octopus().with_locks("arm", "head_wx")
    assert tree.model().values["lock_arm_wx"] == 0.0
    names = [name for name in tree.model().parameter_names if name.startswith("lock_")]
    assert names == ["lock_arm_wx", "lock_arm_wz", "lock_head_wx"]
    assert not [name for name in octopus().model().parameter_names if name.startswith("lock_")]
    for both in (
        octopus().lock("arm").with_locks("arm", "hand"),
        octopus().with_locks("arm", "hand").lock("arm"),
    ):
        names = [name for name in both.model().parameter_names if name.startswith("lock_")]
        assert names == ["lock_hand_rate"]


def test_what_is_locked_as_a_whole_has_coordinates_as_parameters():
    """Of a joint or of one of its links; values are 0 if not given."""
    model = numbers("root_vx", "root_vy", "root_vz", "arm_wx", "head").model
    fixed = ["root_px", "root_py", "root_pz", "arm_x", "head_x", "head_y", "head_z"]
    assert set(fixed) <= set(model.parameter_names)
    assert [model.values[name] for name in fixed] == [0.0] * 7
    assert set(model.state_names) == {
        "root_x",
        "root_y",
        "root_z",
        "root_wx",
        "root_wy",
        "root_wz",
        "arm_z",
        "arm_wz",
        "hand_angle",
        "hand_rate",
    }
    model = octopus().lock("head_wx").model()
    assert {"head_x", "head_y", "head_z"} <= set(model.state_names)
    tree = octopus().lock("head")
    assert tree.model(values={"head_y": 0.3}).values["head_y"] == 0.3


# -- parameters -----------------------------------------------------------------------------------


def numbered():
    """The octopus with numbers for the symbols of its bodies and of gravity, without loads."""
    tree = octopus()
    hand = replace(tree.bodies[2], mass=0.7, com=(0.15, 0.1, 0.0))
    bodies = [*tree.bodies[:2], hand, *tree.bodies[3:]]
    return replace(tree, bodies=bodies, gravity=(0, 0, -9.81), loads=())


@pytest.mark.study
def test_parameters_are_as_good_as_numbers():
    """Same rates and outputs; zeros, and what was a symbol, stay as they are."""
    tree, values = numbered(), random_values(seed=4)
    wanted = ["places", "base_wrench", "energy"]
    named = tree.parametrised().model(torques_of(tree), wanted)
    ours = Numbers(named)({**values, **named.values})
    theirs = Numbers(tree.model(torques_of(tree), wanted))(values)
    for found, expected in zip(ours[:2], theirs[:2], strict=True):
        for name, row in expected.items():
            close(found[name], row, 1e-11)
    expected = {
        "root_m": 5.0,
        "root_cx": 0.1,
        "root_cz": 0.2,
        "root_Ixx": 0.5,
        "root_Ixy": 0.02,
        "root_Ixz": -0.03,
        "root_Iyy": 0.6,
        "root_Iyz": 0.01,
        "root_Izz": 0.4,
        "root_rx": 0.1,
        "root_ry": -0.2,
        "root_rz": 0.3,
        "tip_m": 0.3,
        "tip_cx": 0.05,
        "tip_cz": 0.02,
        "tip_Ix": 0.001,
        "tip_Iy": 0.002,
        "tip_Iz": 0.002,
        "tip_rx": 0.2,
        "tip_ry": 0.1,
        "tip_ex": 0.3,
        "g": 9.81,
    }
    given = {
        name: value
        for name, value in named.values.items()
        if name.startswith(("root_", "tip_")) or name == "g"
    }
    assert given == expected
    assert {"root_m", "arm_m", "hand_m", "tip_m", "head_m"} == set(named.positive)
    assert not [p for p in octopus().parametrised().values if p.startswith(("hand_m", "hand_cx"))]


def test_another_body_by_its_parameters():
    """Changed values are a rebuilt tree, of principal moments and of a matrix."""
    tree, values = numbered(), random_values(seed=5)
    values = {**values, **tree.parametrised().values}
    moments = {"tip_Ix": 0.004, "tip_Iy": 0.003, "root_Ixy": 0.05, "root_Izz": 0.7, "head_m": 3.0}
    root = [[0.5, 0.05, -0.03], [0.05, 0.6, 0.01], [-0.03, 0.01, 0.7]]
    rebuilt = [
        replace(tree.bodies[0], inertia=root),
        tree.bodies[1],
        tree.bodies[2],
        replace(tree.bodies[3], inertia=(0.004, 0.003, 0.002)),
        replace(tree.bodies[4], mass=3.0),
    ]
    ours = Numbers(tree.parametrised().model(torques_of(tree), ["joint_wrenches"]))
    theirs = Numbers(replace(tree, bodies=rebuilt).model(torques_of(tree), ["joint_wrenches"]))
    found, expected = ours({**values, **moments}), theirs(values)
    assert np.abs(found[0]["hand_rate"] - ours(values)[0]["hand_rate"]).max() > 1e-3
    for part in (0, 1):
        for name, row in expected[part].items():
            close(found[part][name], row, 1e-11)


@pytest.mark.parametrize(
    ("gravity", "expected", "value"),
    [
        ((0, 0, -9.81), (0, 0, -sp.Symbol("g")), 9.81),
        ((0, 9.8, 0), (0, sp.Symbol("g"), 0), 9.8),
        ((0.1, 0, -9.81), (0.1, 0, -9.81), None),
        ((0, 0, 0), (0, 0, 0), None),
        ((0, 0, -sp.Symbol("G")), (0, 0, -sp.Symbol("G")), None),
    ],
)
def test_gravity_becomes_a_parameter(gravity, expected, value):
    tree = leg_and_foot(gravity=gravity).parametrised()
    assert all(sp.S(a - b) == 0 for a, b in zip(tree.gravity, expected, strict=True))
    assert tree.values.get("g") == value


def test_inputs_follow_the_table():
    """Torques are in the order of the speeds whatever their names; others come after, by name."""
    bodies = [
        Body("z", 2.0, (0, 0, 0.1), (0.1, 0.1, 0.1), Spherical()),
        Body("a", 1.0, (0, 0, 0.1), (0.1, 0.1, 0.1), Revolute("y"), parent="z"),
    ]
    tree = Tree("arm", bodies, PrescribedBase("ship"))
    model = tree.model(tree.torque_inputs())
    assert model.input_names[:4] == ("z_tx", "z_ty", "z_tz", "a_ty")
    assert list(model.input_names[4:]) == sorted(model.input_names[4:])
    assert [name.replace("_t", "_w") for name in model.input_names[:4]] == list(tree.speeds)


def test_names_of_torques():
    """By the kind of speed; the same names for chosen joints and speeds."""
    found = {name: e.name for name, e in octopus().torque_inputs().items()}
    expected = {f"root_{k}{a}": f"root_{f}{a}" for k, f in (("v", "f"), ("w", "t")) for a in AXES}
    expected |= {
        "arm_wx": "arm_tx",
        "arm_wz": "arm_tz",
        "hand_rate": "hand_torque",
        **{f"head_w{a}": f"head_t{a}" for a in AXES},
    }
    assert found == expected and list(found) == list(octopus().speeds)
    assert list(octopus().torque_inputs("head_wz", "arm")) == ["head_wz", "arm_wx", "arm_wz"]
    gains = sorted(map(str, sp.Add(*octopus().joint_pd("hand", "head_wz").values()).free_symbols))
    assert gains == ["Kd_hand_angle", "Kd_head_z", "Kp_hand_angle", "Kp_head_z", "t"]
    head = octopus().joint_pd("head")["head_wy"]
    angle, speed = octopus().coordinates["head_y"], octopus().speeds["head_wy"]
    kp, kd = sp.symbols("Kp_head_y Kd_head_y")
    assert head == -kp * angle - kd * speed  # by axis, in whatever order the angles turn


# -- along trajectories ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swimmer():
    """The octopus with locks at run time, to be compiled."""
    tree = octopus().with_locks("root", "arm_wx", "head")
    return tree.model(torques_of(tree), ["energy", "actuators", "velocities", "held"])


@pytest.mark.parametrize("locked", [(), ("root",), ("arm_wx", "head_wy", "root_vz", "root_wx")])
def test_energy_balance_along_a_trajectory(swimmer, locked):
    """Symbols that look like intermediates are not taken for them; locks do no work."""
    time, half = np.linspace(0.0, 1.0, 2001), np.linspace(0.0, 1.0, 4001)
    shut = octopus().speeds_of(*locked) if locked else []
    start = np.random.default_rng(6).normal(0.0, 0.4, len(swimmer.states))
    start = {**dict(zip(swimmer.state_names, start, strict=True)), **dict.fromkeys(shut, 0.0)}
    inputs = {
        name: ks.Signal.parabolas(time, np.sin(3.0 * half + k))
        for k, name in enumerate(sorted(swimmer.input_names))
    }
    switches = {f"lock_{name}": 1.0 for name in shut}
    run = ks.simulate(swimmer, time, start, switches, inputs)
    assert not run.message
    values = {**VALUES, **run.states, **run.inputs}
    power = power_of(run.outputs, values, *attitudes_and_places(values))
    energy = make_interp_spline(time, run["kinetic_energy"] + run["potential_energy"], k=7)
    middle = slice(20, -20)  # splines are worse at their ends
    close(energy.derivative()(time)[middle], power[middle], 1e-8)
    for name in shut:
        assert not run[name].any() and np.abs(run[f"held_{name}"]).max() > 0.01
    nodes = slice(None, None, 500)
    values = {**swimmer.values, **VALUES, **switches}
    values |= {name: run[name][nodes] for name in (*run.states, *run.inputs)}
    _, outputs, _ = Numbers(swimmer)(values)
    for name, row in outputs.items():
        close(run[name][nodes], row, 1e-11)


def test_free_fall():
    """A free body without torques: its centre of mass falls, it turns as Euler says."""
    body = Body("box", 2.0, (0.1, 0.2, -0.1), (0.1, 0.2, 0.25), Free())
    tree = Tree("box", [body], gravity=(0, 0, -9.81))
    values = {name: row for name, row in random_values(seed=7).items() if name.startswith("root_")}
    values = {name.replace("root", "box"): row for name, row in values.items()}
    rates, outputs, slopes = Numbers(tree.model({}, ["center_of_mass", "base_wrench"]))(values)
    close(vector(slopes, "com_velocity"), np.array([[0.0], [0.0], [-9.81]]) + np.zeros(POINTS))
    w = np.array([values[f"box_w{axis}"] for axis in AXES])
    moments = np.array([[0.1], [0.2], [0.25]])
    close([rates[f"box_w{axis}"] for axis in AXES], -cross(w, moments * w) / moments)
    close([outputs[name] for name in outputs if name.startswith("base_")], 0.0)


@pytest.fixture(scope="module")
def top():
    """A body that turns about a point, with locks at run time, no gravity."""
    tree = Tree("top", [Body("wheel", 1.0, (0, 0, 0), (0.1, 0.1, 0.1))], gravity=(0, 0, 0))
    return tree.with_locks().model({}, ["places"])


REST = dict.fromkeys(["wheel_x", "wheel_y", "wheel_z", "wheel_wx", "wheel_wy", "wheel_wz"], 0.0)


def test_singular_angles_end_a_run(top):
    """At 1 rad/s after pi/2 s: said with joint and time; what was computed until then stays."""
    words = "ended between t = 1.56 and 1.57 s: Bryant singularity at the joint of wheel"
    with pytest.warns(UserWarning, match=words) as caught:
        run = ks.simulate(top, np.linspace(0.0, 3.0, 301), {**REST, "wheel_wy": 1.0})
    assert caught[0].filename == __file__
    assert "wheel_y is not between -pi/2 and pi/2; try another sequence than 'xyz'" in run.message
    assert len(run.time) == 157 and run.time[-1] == pytest.approx(1.56)
    np.testing.assert_allclose(run["wheel_y"], run.time, atol=1e-12)
    for rows in (run.states, run.outputs):
        assert all(len(row) == 157 and np.isfinite(row).all() for row in rows.values())
    assert len(run.drawing) == 1


def test_singular_angles_of_one_member(top):
    """The others go on."""
    words = "1 of 3 members of top ended early, the first is member 1: ended between t = 1.56"
    with pytest.warns(UserWarning, match=words):
        runs = ks.simulate(top, np.linspace(0.0, 3.0, 301), {**REST, "wheel_wy": [0.2, -1.0, 0.4]})
    (failure,) = runs.failures
    assert failure.member == 1 and failure.time == pytest.approx(1.57)
    assert "Bryant singularity at the joint of wheel" in failure.message
    assert np.isfinite(runs["wheel_y"][[0, 2]]).all() and np.isnan(runs["wheel_y"][1, 157:]).all()
    np.testing.assert_allclose(runs["wheel_y"][[0, 2], -1], [0.6, 1.2], atol=1e-12)


@pytest.mark.parametrize(
    ("start", "locks", "words"),
    [
        (
            {"wheel_y": np.pi / 2},
            {},
            "the initial state of top cannot be: Bryant singularity at the "
            r"joint of wheel: .* \(wheel_y = 1.571\)",
        ),
        ({"wheel_y": -2.0}, {}, "Bryant singularity at the joint of wheel"),
        (
            {"wheel_wx": 0.1},
            {"lock_wheel_wx": 1.0},
            "the initial state of top cannot be: a speed is "
            r"locked but not zero; start it at 0 or unlock it \(wheel_wx = 0.1\)",
        ),
    ],
)
def test_impossible_starts(top, start, locks, words):
    with pytest.raises(ValueError, match=words):
        ks.simulate(top, [0.0, 0.1], {**REST, **start}, locks)


def test_possible_starts(top):
    """What is locked does not move, what is not locked may; no limit for a rigid joint."""
    run = ks.simulate(top, [0.0, 0.1], {**REST, "wheel_wz": 2.0}, {"lock_wheel_wx": 1.0})
    assert run["wheel_z"][-1] == pytest.approx(0.2) and not run["wheel_wx"].any()
    tree = Tree("top", [Body("wheel", 1.0, (0, 0, 1))]).lock("wheel")
    assert not tree.model(values={"wheel_y": np.pi / 2}).limits


@pytest.mark.parametrize("lock", [0.5, -1.0, 2.0])
def test_a_lock_is_open_or_closed(top, lock):
    """Anything between or beyond would be another mechanism."""
    with pytest.raises(ValueError, match="lock"):
        ks.simulate(top, [0.0, 0.1], REST, {"lock_wheel_wx": lock})


# -- what is said of bad ones ---------------------------------------------------------------------

ARM = Body("arm", 1.0, (0.3, 0, 0), (0.1, 0.1, 0.1))


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        ([ARM, ARM], "body arm is defined twice; names of bodies and base must differ"),
        ([Body("ship", 1.0)], "body ship is defined twice; names of bodies and base must differ"),
        (
            [ARM, Body("hand", 1.0, parent="arn")],
            "body hand: its parent arn is not defined before it; did you mean arm?",
        ),
        (
            [Body("hand", 1.0, parent="arm"), ARM],
            "body hand: its parent arm is not defined before it; move it before",
        ),
    ],
)
def test_bodies(bodies, words):
    with pytest.raises(ValueError, match=words):
        Tree("bad", bodies, PrescribedBase("ship"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "left arm"}, "the name of a body must be letters, digits and underscores"),
        ({"com": (1, 0)}, r"body arm: com must have three components, got \(1, 0\)"),
        ({"at": (1, 0)}, r"body arm: at must have three components, got \(1, 0\)"),
        ({"end": (0, 0, 0, 0)}, "body arm: end must have three components"),
        ({"mass": -0.5}, "body arm: mass must not be negative, got -0.5"),
        ({"inertia": (1, 1)}, "body arm: inertia is three principal moments or a 3x3"),
        ({"inertia": np.eye(4)}, "body arm: inertia is three principal moments or"),
        ({"inertia": [[1, 2, 0], [0, 1, 0], [0, 0, 1]]}, "body arm: inertia is not symmetric"),
        (
            {"inertia": (0.1, 0.1, 0.3)},
            "body arm: no body has principal moments of "
            "inertia 0.1, 0.1, 0.3; each is at most the sum of the others",
        ),
        ({"inertia": (-0.1, 0.1, 0.1)}, "body arm: no body has principal moments"),
        (
            {"inertia": [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 0.1]]},
            "body arm: no body has principal moments of inertia 0.1, 0.1, 1.9",
        ),
        ({"joint": Revolute("xy")}, "axis of a revolute joint is x, y, z or a vector, got 'xy'"),
        ({"joint": Revolute((1, 0))}, r"has three components, not all 0, got \(1, "),
        ({"joint": Revolute((0, 0, 0))}, "axis of a revolute joint"),
        (
            {"joint": Universal("xx")},
            "a universal joint has two different axes such as 'xy', got 'xx'",
        ),
        ({"joint": Universal("xyz")}, "a universal joint has two different axes"),
        (
            {"joint": Spherical("xyx")},
            "Bryant angles turn about three different axes such as 'xyz', got 'xyx'",
        ),
        ({"joint": Free("xy")}, "Bryant angles turn about three .* got 'xy'"),
    ],
)
def test_what_is_no_body(changes, words):
    with pytest.raises(ValueError, match=words):
        Body(**{"name": "arm", "mass": 1.0, **changes})


@pytest.mark.parametrize("joint", [Revolute("xy"), Universal("xx"), Spherical("xyx")])
def test_bad_joints_name_their_body(joint):
    with pytest.raises(ValueError, match=r"^body arm: "):
        Tree("bad", [replace(ARM, joint=joint)])


@pytest.mark.parametrize(
    "change",
    [
        {"joint": Spherical},
        {"joint": "z"},
        {"joint": None},
        {"joint": Revolute([0, 0, 0])},
        {"joint": Revolute(np.zeros(3))},
        {"com": 0.3},
        {"inertia": 0.1},
        {"inertia": [[1, 0], [1]]},
        {"mass": None},
        {"mass": float("nan")},
        {"mass": float("inf")},
        {"mass": 1j},
        {"com": (0, 0, float("nan"))},
    ],
)
def test_bodies_of_another_kind(change):
    """Each is a slip of the hand that would go far before it shows."""
    with pytest.raises(ValueError, match=r"^body arm: "):
        Tree("bad", [replace(ARM, **change)])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gravity": (0, -9.81)}, r"gravity must have three components, got \(0, -9.81\)"),
        ({"gravity": 9.81}, "gravity must have three components, got 9.81"),
        ({"loads": [Load("arn")]}, "load on arn, which is no body of bad; did you mean arm?"),
        (
            {"loads": [Load("arm", axes="local")]},
            "axes of a load are 'world' or 'body', got 'local'",
        ),
        ({"loads": [Load("arm", (1, 0))]}, "load on arm: force must have three components"),
        ({"base": FixedBase}, "base"),
        ({"base": "ship"}, "base"),
    ],
)
def test_trees(changes, words):
    with pytest.raises(ValueError, match=words):
        Tree("bad", [ARM], **changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PrescribedBase("ship", "xyx"), "three different axes such as 'xyz', got 'xyx'"),
        (
            lambda: PrescribedBase("ship", acceleration="felt"),
            "the acceleration of a base is one of kinematic, derivative, imu, got 'felt'",
        ),
        (lambda: PrescribedBase("my ship"), "my ship"),
    ],
)
def test_bases(make, words):
    with pytest.raises(ValueError, match=words):
        make()


UNKNOWN = "arn is no joint and no speed of one; did you mean arm?"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda tree: tree.lock("arn"), UNKNOWN),
        (lambda tree: tree.with_locks("arn"), UNKNOWN),
        (lambda tree: tree.torque_inputs("arn"), UNKNOWN),
        (lambda tree: tree.joint_pd("arn"), UNKNOWN),
        (
            lambda tree: tree.lock("arm_x"),
            "arm_x is no joint and no speed of one; did you mean arm_wx",
        ),
        (lambda tree: tree.place("arn"), "arn is no body of one; did you mean arm?"),
        (lambda tree: tree.frame("leg"), "leg is no body of one; known are: arm"),
        (lambda tree: tree.place("arm", (1, 2)), "three components"),
        (lambda tree: tree.model({"arm_x": 1}), "torques: arm_x is no speed; did you mean arm_wx?"),
        (lambda tree: tree.model({}, ["place"]), "there is no kind place; did you mean places?"),
        (lambda tree: tree.model({}, "place"), "there is no kind place; did you mean places?"),
        (
            lambda tree: tree.model({}, ["energy", {"kinetic_energy": 1}]),
            "outputs: kinetic_energy is defined twice",
        ),
        (lambda tree: tree.model({}, ["places", "places"]), "outputs: arm_end_x is defined twice"),
        (lambda tree: tree.model({}, {"arm_wx": 1}), "the name arm_wx is declared more than once"),
        (
            lambda tree: tree.model({}, {"y": ks.dynamicsymbols("w").diff(ks.t)}),
            "w.* is not a state",
        ),
        (lambda tree: tree.model(values={"g": "fast"}), "the value of g must be a finite number"),
    ],
)
def test_questions(ask, words):
    with pytest.raises(ValueError, match=words):
        ask(Tree("one", [ARM]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda tree, speed: tree.lock(speed),
        lambda tree, speed: tree.with_locks(speed),
        lambda tree, speed: tree.torque_inputs(speed),
        lambda tree, speed: tree.model({speed: 1}),
    ],
)
def test_speeds_may_be_given_by_symbol(ask):
    """As everywhere else where a name is asked for."""
    tree = Tree("one", [ARM])
    ask(tree, tree.speeds["arm_wx"])


def test_bodies_that_values_make_impossible():
    """Principal moments and matrices, from the tree or from the model; masses too."""
    tree = Tree("one", [ARM]).parametrised()
    words = "body arm: no body has principal moments of inertia 0.1, 0.1, 0.7"
    with pytest.raises(ValueError, match=words):
        tree.model(values={"arm_Iy": 0.7})
    with pytest.raises(ValueError, match=words):
        tree.model(values={sp.Symbol("arm_Iy"): 0.7})
    with pytest.raises(ValueError, match=words):
        replace(tree, values={**tree.values, "arm_Iz": 0.7}).model()
    with pytest.raises(ValueError, match="body arm: no body has principal moments"):
        tree.model(values={"arm_Ix": -0.01})
    with pytest.raises(ValueError, match="parameter arm_m must be positive, got 0"):
        tree.model(values={"arm_m": 0})
    moment = sp.Symbol("J")
    half = Tree("one", [replace(ARM, inertia=[[moment, 0, 0], [0, 1, 0], [0, 0, 1]])])
    half.model()  # nothing known of J yet
    with pytest.raises(ValueError, match="no body has principal moments of inertia 1, 1, 3"):
        half.model(values={"J": 3.0})


def test_rounding_of_a_thin_rod_is_no_error():
    """Two equal moments and none about the rod, and a plate: the sum of the others."""
    for inertia in ((0.1, 0.1, 0.0), (0.1, 0.2, 0.1 + 0.2)):
        for turn in (np.eye(3), Rotation.from_euler("XYZ", [0.3, 0.4, 0.5]).as_matrix()):
            turned = turn @ np.diag(inertia) @ turn.T
            Tree("rod", [Body("rod", 1.0, inertia=(turned + turned.T) / 2)])


def test_massless_bodies_are_said_to_be_singular():
    """Nothing determines the acceleration of what has no inertia."""
    tree = Tree("one", [Body("arm", 0.0, (0, 0, 1))], gravity=(0, 0, -9.81))
    with warnings.catch_warnings(), pytest.raises(ValueError, match="arm_wx has no derivative"):
        warnings.simplefilter("error")
        ks.simulate(tree.model(), [0.0, 1.0], dict.fromkeys(tree.model().state_names, 0.0))


def test_rounding_of_a_turned_inertia():
    """Symmetric to rounding is symmetric; more is not."""
    turn = Rotation.random(random_state=1).as_matrix()
    inertia = turn @ np.diag([1.0, 2.0, 2.5]) @ turn.T
    inertia[0, 1] *= 1.0 + 1e-14
    tree = Tree("t", [Body("a", 1.0, inertia=inertia)])
    assert tree.kinetic_energy() is not None
    inertia[0, 1] *= 1.0 + 1e-6
    with pytest.raises(ValueError, match="inertia is not symmetric"):
        Tree("t", [Body("a", 1.0, inertia=inertia)])


def test_nothing_named_locks_nothing():
    tree = octopus()
    for part in fields(tree):
        assert getattr(tree.lock(), part.name) == getattr(tree, part.name)


def test_no_mass_no_centre():
    with pytest.raises(ValueError, match="all masses are 0"):
        Tree("t", [Body("a", 0, joint=Revolute())]).center_of_mass()
