"""Regressors of base parameters against inverse dynamics and numerical ranks, and fits by bodies
that exist."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import kinesym as ks
from kinesym.codegen.evaluate import model_outputs
from kinesym.internal.problems.pipeline import realise
from kinesym.multibody import (
    Body,
    Custom,
    Free,
    Oriented,
    Planar,
    PrescribedBase,
    Prismatic,
    Revolute,
    Spherical,
    Tree,
    Universal,
)
from kinesym.runtime.functions import Functions
from kinesym.symbolic.multibody.assemble import needs


def mixed():
    """A tree of all kinds of joints, on a ship."""
    rng, a = np.random.default_rng(0), ks.dynamicsymbols("a")
    joints = [
        (Spherical("xzy"), None),
        (Revolute((1.0, 2.0, -0.5)), 0),
        (Universal("zx"), 1),
        (Oriented("xyz"), 0),
        (Prismatic("x"), 3),
        (Custom([a], [("z", a), ((0.6, 0, 0.8), 0.5 * a)], (0.1 * a, 0, a**2)), 2),
        (Planar("zy"), 4),
    ]
    bodies = [
        Body(
            f"b{k}",
            1.0 + k,
            rng.normal(size=3).tolist(),
            (1.0 + k, 1.1, 1.2 + k),
            joint,
            at=rng.normal(size=3).tolist(),
            parent=None if parent is None else f"b{parent}",
        )
        for k, (joint, parent) in enumerate(joints)
    ]
    return Tree("mixed", bodies, base=PrescribedBase("ship"), gravity=(0, 0, -9.81))


def test_forces_ranks_and_factors_of_all_joints():
    """The regressor of all parameters is the one of base parameters times their matrix, it has
    their rank, and forces are those of the equations of motion."""
    tree = mixed()
    base = tree.base_parameters()
    Y, f = ks.regressor(base), Functions(realise(model_outputs(needs(tree))), None)
    seen = [k for k, name in enumerate(base.standard) if name not in base.unseen]
    full = ks.regressor(replace(base, names=[base.standard[k] for k in seen]))
    rng, n = np.random.default_rng(1), 40
    q, u, du, inputs = (
        rng.uniform(-1, 1, (len(names), n))
        for names in (Y.coordinates, Y.speeds, Y.speeds, Y.inputs)
    )
    found, every = Y(q, u, du, inputs), full(q, u, du, inputs)
    np.testing.assert_allclose(
        np.einsum("ijn,jk->ikn", found, base.matrix[:, seen]), every, atol=1e-12
    )
    rows = np.concatenate(every.transpose(2, 0, 1))
    sizes = np.linalg.svd(rows, compute_uv=False)
    rank = len(base.names)
    assert sizes[rank - 1] > 1e-4 * sizes[0] and sizes[rank] < 1e-13 * sizes[0]
    at = dict(zip((*Y.coordinates, *Y.speeds), (*q, *u), strict=True))
    rates = dict(zip(Y.speeds, du, strict=True))
    xdot = [rates.get(name, 0.0 * q[0]) for name in f.states]
    forces = f.outputs(xdot, [at[name] for name in f.states], inputs, [])
    ours = np.einsum("ijn,j->in", found, [*base.values.values()])
    np.testing.assert_allclose(ours, forces, atol=1e-12 * abs(forces).max())
    one = Y(q[:, 0], u[:, 0], du[:, 0], inputs[:, 0])
    np.testing.assert_allclose(one, found[..., 0], atol=1e-14)


@pytest.fixture(scope="module")
def plate():
    """A thin plate on a ball joint, of which noise leaves no thickness, its motion and a guess."""
    body = Body("top", 2.0, (0.02, 0.03, 0.1), (0.0301, 0.01, 0.0201), Spherical("xyz"))
    tree = Tree("top", [body], gravity=(0, 0, -9.81)).consistent()
    model = tree.model(tree.torque_inputs())
    time, rng, noise = np.linspace(0.0, 1.0, 51), np.random.default_rng(0), 0.02
    push = {
        n: 0.5 * np.sin(2 * np.pi * (k + 1) * time + k) for k, n in enumerate(model.input_names)
    }
    start = {**dict.fromkeys(model.state_names, 0.0), "top_x": 0.3}
    run = ks.simulate(model, time, start, inputs=push)
    measured = {n: run[n] + noise * rng.normal(size=51) for n in model.state_names}
    trial = ks.Experiment(time, push, measured, std=dict.fromkeys(measured, noise))
    return tree, model, trial, start


@pytest.mark.parametrize("way", ["collocation", "shooting"])
def test_fits_find_bodies_that_exist(plate, way):
    tree, model, trial, start = plate
    unknown = {n: bounds for n, bounds in tree.inertias().items() if n != "top_m"}
    guess = {n: 1.3 * tree.values[n] + 0.002 for n in unknown}
    if way == "collocation":
        fit = ks.Collocation(model, trial, unknown).solve(guess)
    else:
        fit = ks.Shooting(model, trial, unknown, initial=start).solve(guess)
    assert fit.success
    found = {n: fit.interval(e) for n, e in tree.moments_of_inertia().items()}
    I = np.array([[found["top_I" + "".join(sorted(i + j))].value for j in "xyz"] for i in "xyz"])  # noqa: E741
    a, b, c = np.linalg.eigvalsh(I)
    assert a > 0.0 and c <= (a + b) * (1.0 + 1e-9)
    for name, true in (("Ixx", 0.0301), ("Iyy", 0.01), ("Izz", 0.0201)):
        one = found[f"top_{name}"]
        assert abs(one.value - true) < 4.0 * one.standard_error < 0.1 * true


def test_told():
    body = Body("leg", 2.0, (0, 0, 0.3), (0, 0.08, 0), Revolute("y"), at=(0, 0, 1))
    Y = ks.regressor(Tree("leg", [body]).base_parameters())
    assert repr(Y) == "<regressor of leg: 1 forces, 3 parameters>"
    assert "leg_Jyy, leg_mcx, leg_mcz</td></tr>" in Y._repr_html_()
    with pytest.raises(ValueError, match=r"q has shape \(2\); expected \(1, N\): leg_y"):
        Y([0.0, 1.0], [0.0], [0.0])
    with pytest.raises(ValueError, match="the parameter g has no value; give values="):
        Y([0.0], [0.0], [1.0])
    assert Y([0.0], [0.0], [1.0], values={"g": 9.81})[0] == pytest.approx([1.0, -9.81, 0.0])
    again = pickle.loads(pickle.dumps(Y))
    assert again([0.0], [0.0], [1.0], values={"g": 9.81})[0] == pytest.approx([1.0, -9.81, 0.0])
    with pytest.raises(ValueError, match="values: height is unknown"):
        Y([0.0], [0.0], [1.0], values={"height": 9.81})
    free = Tree("box", [Body("box", 1.0, joint=Free())]).base_parameters("box")
    assert len(free.names) == 10
