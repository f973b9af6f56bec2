"""The builder of multibody models against numbers of another implementation, and laws."""

import json
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.models.markers import marker_places
from kinesym.symbolic.multibody import mechanism
from kinesym.symbolic.multibody.base import PrescribedBase
from kinesym.symbolic.multibody.bodies import Body, Load
from kinesym.symbolic.multibody.joints import Free, Revolute, Spherical, Universal
from kinesym.symbolic.multibody.passes import outwards
from kinesym.symbolic.multibody.tree import Tree

DATA = Path(__file__).parents[2] / "data"
LINKS = ("shank", "thigh", "trunk", "head")


def human():
    """Four links on a ship, their torques by joint PD control, and all values."""
    given = json.loads((DATA / "ship_params.json").read_text())
    values, bodies = {"g": given["g"]}, []

    def symbols(names, numbers):
        values.update(zip(names, numbers, strict=True))
        return [sp.Symbol(name) for name in names]

    for k, name in enumerate(LINKS):
        (mass,) = symbols([f"{name}_m"], [given["m"][k]])
        com = symbols([f"{name}_c{a}" for a in "xyz"], given["r_cg"][k])
        inertia = symbols([f"{name}_I{a}" for a in "xyz"], given["I"][k])
        at = symbols([f"{name}_r{a}" for a in "xyz"], given["q_next"][k - 1]) if k else (0, 0, 0)
        bodies.append(Body(name, mass, com, inertia, Spherical(), at, LINKS[k - 1] if k else None))
    tree = Tree("human", bodies, PrescribedBase("ship"))
    torques = {}
    for k, name in enumerate(LINKS):
        for j, a in enumerate("xyz"):
            kp, kd = symbols(
                [f"Kp_{name}_{a}", f"Kd_{name}_{a}"], [given["Kp"][k][j], given["Kd"][k][j]]
            )
            angle, speed = tree.coordinates[f"{name}_{a}"], tree.speeds[f"{name}_w{a}"]
            torques[f"{name}_w{a}"] = -kp * angle - kd * speed
    return tree, torques, values


def ship(time):
    """Inputs of the ship: angles and places are sums of sines, everything else follows."""
    given = json.loads((DATA / "ship_motion.json").read_text())
    amp, omega, phase = (np.array(given[k])[:, :, None] for k in ("amp", "omega", "phase"))
    q = np.sum(amp * np.sin(omega * time + phase), axis=1)
    dq = np.sum(amp * omega * np.cos(omega * time + phase), axis=1)
    ddq = -np.sum(amp * omega**2 * np.sin(omega * time + phase), axis=1)
    (sb, sc), (cb, cc) = np.sin(q[1:3]), np.cos(q[1:3])
    zero, one = np.zeros_like(sb), np.ones_like(sb)
    to_w = np.array([[cb * cc, sc, zero], [-cb * sc, cc, zero], [sb, zero, one]])
    db, dc = dq[1:3]
    change = np.array(
        [
            [-sb * db * cc - cb * sc * dc, cc * dc, zero],
            [sb * db * sc - cb * cc * dc, -sc * dc, zero],
            [cb * db, zero, zero],
        ]
    )
    w = np.einsum("ijt,jt->it", to_w, dq[:3])
    dw = np.einsum("ijt,jt->it", to_w, ddq[:3]) + np.einsum("ijt,jt->it", change, dq[:3])
    attitude = Rotation.from_euler("XYZ", q[:3].T).as_matrix()
    a = np.einsum("tji,jt->it", attitude, ddq[3:])
    names = [f"ship_{kind}{axis}" for kind in ("", "w", "dw", "a") for axis in "xyz"]
    return dict(zip(names, [*q[:3], *w, *dw, *a], strict=True))


def wrench_outputs(tree):
    force, moment = tree.wrench()
    return dict(zip(["Mx", "My", "Mz", "Fx", "Fy", "Fz"], [*moment, *force], strict=True))


def test_rigid_human_on_a_ship():
    """The wrench of the ship on a body without motion in its joints, after 30 s."""
    tree, _, values = human()
    tree = tree.lock(*LINKS)
    model = tree.model({}, wrench_outputs(tree), values)
    assert not model.states
    inputs = ship(np.array([30.0]))
    u = np.array([inputs[name] for name in model.input_names])
    p = np.array([model.values[name] for name in model.parameter_names])
    wrench = ks.compile(model).outputs(np.zeros((0, 1)), np.zeros((0, 1)), u, p, np.array([30.0]))
    expected = [
        66.39935213025,
        7.773539106146,
        0.6419981769,
        0.9543724512,
        -66.45871998,
        685.5956642,
    ]
    np.testing.assert_allclose(wrench[:, 0], expected, rtol=2e-10)


def test_one_joint_free_on_a_ship():
    """Roll and pitch of the ankle free: 30 s by RK4, ship motion exact at half steps."""
    tree, torques, values = human()
    tree = tree.lock("thigh", "trunk", "head", "shank_wz")
    torques = {name: torques[name] for name in ("shank_wx", "shank_wy")}
    model = tree.model(torques, {}, values)
    time = np.linspace(0.0, 30.0, 3001)
    inputs = ship(np.linspace(0.0, 30.0, 6001))
    start = {**dict.fromkeys(model.state_names, 0.0), "shank_x": 0.02, "shank_y": 0.03}
    inputs = {u: ks.Signal.parabolas(time, inputs[u]) for u in model.input_names}
    run = ks.simulate(model, time, start, inputs=inputs)
    end = [run[name][-1] for name in ("shank_x", "shank_y", "shank_z")]
    np.testing.assert_allclose(end, [-0.038504557, -0.003792303, 0.000190087], atol=6e-10)
    assert np.degrees(np.abs(run["shank_x"]).max()) == pytest.approx(3.49, abs=5e-3)


def test_energy_and_momentum_of_a_free_tree():
    """Without gravity and torques energy and both momenta stay, whatever the joints."""
    bodies = [
        Body("root", 5.0, (0.1, 0.0, 0.2), (0.3, 0.4, 0.5), Free("zyx")),
        Body("arm", 1.0, (0.3, 0.0, 0.0), (0.01, 0.1, 0.1), Universal("xz"), (0, 0.2, 0.1), "root"),
        Body(
            "hand",
            0.5,
            (0.1, 0.1, 0.0),
            (0.02, 0.02, 0.03),
            Revolute((1, 1, 0)),
            (0.6, 0, 0),
            "arm",
        ),
        Body(
            "head", 2.0, (0.0, 0.0, 0.1), (0.05, 0.04, 0.03), Spherical("yzx"), (0, 0, 0.5), "root"
        ),
    ]
    tree = Tree("free", bodies, gravity=(0, 0, 0))
    momentum, angular = tree.momentum(), tree.angular_momentum()
    outputs = {
        "energy": tree.kinetic_energy(),
        "px": momentum[0],
        "pz": momentum[2],
        "Lx": angular[0],
        "Ly": angular[1],
        "Lz": angular[2],
    }
    model = tree.model({}, outputs)
    rng = np.random.default_rng(0)
    start = dict(zip(model.state_names, 0.5 * rng.standard_normal(len(model.states)), strict=True))
    run = ks.simulate(model, np.linspace(0.0, 1.0, 501), start, substeps=4)
    for name in outputs:
        np.testing.assert_allclose(run[name], run[name][0], rtol=1e-9, atol=1e-10)


def test_bad_trees():
    cases = [
        (lambda: [Body("a", 1.0), Body("a", 1.0)], "body a is defined twice"),
        (lambda: [Body("a", 1.0, parent="b")], "its parent b is not defined before it"),
        (lambda: [Body("a", -1.0)], "mass must not be negative"),
        (lambda: [Body("a", 1.0, inertia=(1.0, 1.0, 3.0))], "no body has principal moments"),
        (lambda: [Body("a", 1.0, joint=Spherical("xyx"))], "three different axes"),
    ]
    for bodies, words in cases:
        with pytest.raises(ValueError, match=words):
            Tree("bad", bodies())
    words = "shan is no joint and no speed of human; did you mean shank"
    with pytest.raises(ValueError, match=words):
        human()[0].lock("shan")


def test_motion_is_found_once(monkeypatch):
    """However many loads are functions of it; places need none of it."""
    calls = []

    def counted(steps, inner, link, at):
        calls.append(link.name)
        return outwards(steps, inner, link, at)

    monkeypatch.setattr(mechanism, "outwards", counted)
    bodies = [Body("arm", 1.0, at=(0, 0, 1), joint=Revolute("y"), end=(0, 0, -1))]
    bodies.append(Body("hand", 1.0, (0, 0, -0.1), at=(0, 0, -1), joint=Revolute("y"), parent="arm"))

    def spring(tree):
        x, _, z = tree.place("hand", (0, 0, -0.2))
        return [Load("hand", (-10 * x, 0, -10 * z - tree.velocity("hand")[2]))]

    tree = Tree("reach", bodies, loads=spring)
    assert marker_places(tree, ["hand"]).outputs and calls == []
    assert tree.model(outputs=["places"]).equations and calls == ["arm", "hand"]
