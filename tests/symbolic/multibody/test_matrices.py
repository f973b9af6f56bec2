"""The matrix formulation of spherical joints: against the walk, and against reference records."""

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.multibody import Body, FixedBase, Load, PrescribedBase, Revolute, Spherical, Tree
from kinesym.symbolic.multibody.matrices import matrices, matrix_model

DATA = Path(__file__).parents[2] / "data"
LINKS = ("shank", "thigh", "trunk", "head")
WRENCH = [f"base_{kind}_{axis}" for kind in ("moment", "force") for axis in "xyz"]


def evaluate(model, values):
    """Equations by the state whose they are, and outputs by name; numbers or (n,) by name."""
    point = model_symbols(model)
    expressions = dict(zip(model.state_names, model.equations, strict=True)) | model.outputs
    arguments = (point.xdot, point.x, point.u, point.p, point.t)
    nodes = tuple(point.lower(e) for e in expressions.values())
    kernel = Kernel("all", point.graph, arguments, nodes, tuple(expressions))
    rates = [f"{x}'" for x in model.state_names]
    groups = {
        "xdot": rates,
        "x": model.state_names,
        "u": model.input_names,
        "p": model.parameter_names,
    }
    n = max(np.size(value) for value in values.values())
    arrays = {
        kind: np.array([np.broadcast_to(values[name], n) for name in names]).reshape(-1, n)
        for kind, names in groups.items()
    }
    rows = interpret(kernel, {**arrays, "t": np.zeros((1, n))}, n)
    return dict(zip(expressions, rows, strict=True))


# -- the walk -------------------------------------------------------------------------------------

CHAIN = (None, "a", "b", "c")
BRANCHES = (None, "a", "a", "c", None)
#: Parents of the bodies a, b, ...; the base; what is locked.
TREES = {
    "1": (CHAIN[:1], PrescribedBase("ship"), ()),
    "2": (CHAIN[:2], PrescribedBase("ship", "zyx", "derivative"), ()),
    "4": (CHAIN, PrescribedBase("ship", acceleration="imu"), ()),
    "branches": (BRANCHES, PrescribedBase("ship", "yzx", "derivative"), ()),
    "branches, fixed": (BRANCHES[:3], FixedBase(), ()),
    "branches, locked": (BRANCHES, PrescribedBase("ship", "xzy", "imu"), ("b", "c_wx", "c_wz")),
}


def random_tree(rng, parents, base, locked):
    """A tree with all numbers different from 0, its loads, and torques of joints."""
    names = "abcdef"[: len(parents)]
    bodies = []
    for name, parent in zip(names, parents, strict=True):
        axes = Rotation.random(random_state=rng.integers(1000)).as_matrix()
        inertia = axes @ np.diag(rng.uniform(0.3, 0.5, 3)) @ axes.T
        sequence = ("xyz", "zyx", "yxz", "yzx")[len(bodies) % 4]
        bodies.append(
            Body(
                name,
                rng.uniform(1.0, 5.0),
                rng.normal(size=3),
                ((inertia + inertia.T) / 2).tolist(),
                Spherical(sequence),
                rng.normal(size=3),
                parent,
            )
        )
    force, torque = (sp.symbols([f"{kind}{axis}" for axis in "xyz"]) for kind in "FT")
    loads = [Load(names[-1], force, torque, rng.normal(size=3), "body")]
    if parents is BRANCHES:
        loads.append(Load("c", force, torque, rng.normal(size=3), "world"))
    gravity = sp.symbols("gx, gy, gz")
    tree = Tree("random", bodies, base, gravity, loads)
    torques = {
        name: -sp.Symbol("K") * u + sp.Function(f"T_{name}")(ks.t)
        for name, u in tree.speeds.items()
    }
    return (tree.lock(*locked) if locked else tree), torques


def walk_model(tree, torques):
    """The same model by the recursive walk."""
    force, moment = tree.wrench()
    outputs = dict(zip(WRENCH, [*moment, *force], strict=True))
    for name, needed in tree.needed().items():
        if name in tree.locked:
            outputs[f"held_{name}"] = needed - torques[name]
    return tree.model(torques, outputs)


def random_values(model, rng, n):
    """A number for everything that `evaluate` wants at n points, rates apart; no angle is big."""
    names = [*model.state_names, *model.input_names, *model.parameter_names]
    return {name: rng.uniform(-1.0, 1.0, n) for name in names}


@pytest.mark.parametrize("case", TREES)
def test_mass_matrix_and_bias_of_the_recursion(case):
    """A y' + B y + C y - f at random states: without rates, and column by column of A."""
    rng = np.random.default_rng(0)
    tree, torques = random_tree(rng, *TREES[case])
    ours, walk = matrix_model(tree, torques), walk_model(tree, torques)
    for names in ("state_names", "input_names", "parameter_names"):
        assert getattr(ours, names) == getattr(walk, names)
    rates = [f"{x}'" for x in walk.state_names]
    rates += [u for u in walk.input_names if u.startswith(("ship_dw", "ship_a"))]
    n, count = 20, len(rates) + 1  # points, and sets of rates: none, then one at a time
    values = {name: np.repeat(v, count) for name, v in random_values(walk, rng, n).items()}
    unit = np.tile(np.vstack([np.zeros(len(rates)), np.eye(len(rates))]), (n, 1)).T
    values |= dict(zip(rates, unit, strict=True))
    expected, found = evaluate(walk, values), evaluate(ours, values)
    angles = list(tree.coordinates)
    for rows in ([k for k in expected if k in angles], [k for k in expected if k not in angles]):
        if not rows:
            continue
        a, b = (np.array([r[k] for k in rows]).reshape(-1, n, count) for r in (expected, found))
        scale = np.abs(a[:, :, :1]).max(axis=0)
        assert (np.abs(a - b)[:, :, :1] <= 1e-12 * scale).all()
        a, b = a[:, :, 1:] - a[:, :, :1], b[:, :, 1:] - b[:, :, :1]
        scale += np.abs(a).max(axis=(0, 2))[:, None]
        assert (np.abs(a - b) <= 1e-12 * scale).all()


def test_mass_matrix_is_square_with_the_base():
    """Six rows of the base come before those of the joints; entries are symbols."""
    tree, torques = random_tree(np.random.default_rng(0), *TREES["branches"])
    m = matrices(tree, torques)
    assert m.A.shape == (21, 21) and m.A.is_symmetric()
    assert max(sp.count_ops(e) for e in [*m.A, *m.bias, *m.forces]) <= 1
    unrelated = m.A[3 * 3 : 3 * 4, 3 * 4 : 3 * 5]  # the joints of b and c
    assert not any(unrelated)
    assert list(m.speeds[6:]) == list(tree.speeds.values())


# -- moments of locks -----------------------------------------------------------------------------


def turns(tree, values, n):
    """Rotations of all bodies to world axes (n, 3, 3), by name."""
    base = tree.base
    angles = np.transpose([values[f"ship_{axis}"] for axis in base.sequence])
    found = {None: Rotation.from_euler(base.sequence.upper(), angles)}
    for body in tree.bodies:
        sequence = body.joint.sequence
        angles = np.transpose([values[f"{body.name}_{axis}"] for axis in sequence])
        relative = Rotation.from_euler(sequence.upper(), angles)
        found[body.name] = found[body.parent] * relative
    return {name: R.as_matrix() for name, R in found.items()}


@pytest.mark.study
@pytest.mark.parametrize(
    "parents, locked",
    [
        (CHAIN, ("a", "b", "c", "d")),
        ((None, "a", "a", "c"), ("a_wz", "b", "c_wx", "d")),
    ],
)
def test_net_moments_sum_up_to_those_of_joints(parents, locked):
    """The unknowns of (17) as printed: sums over all bodies beyond a joint are its moment, and they
    solve the system of partial angular velocities of the paper, set up from SciPy's rotations."""
    rng, n = np.random.default_rng(1), 10
    tree, torques = random_tree(rng, parents, PrescribedBase("ship"), locked)
    model = matrix_model(tree, torques)
    values = random_values(model, rng, n) | {f"{x}'": rng.normal(size=n) for x in model.state_names}
    found = evaluate(model, values)
    C = turns(tree, values, n)
    names = [body.name for body in tree.bodies]
    carrier = {body.name: body.parent for body in tree.bodies}

    def vectors(prefix, rows):
        return {
            b: np.array([rows.get(f"{prefix}_{b}_w{a}", np.zeros(n)) for a in "xyz"]) for b in names
        }

    net, held = vectors("net", found), vectors("held", found)
    size = max(np.abs(moment).max() for moment in held.values())
    inertial = {b: np.einsum("nij,jn->ni", C[b], net[b]) for b in names}
    beyond = {b: [b] for b in names}
    for body in reversed(names):
        if carrier[body]:
            beyond[carrier[body]] += beyond[body]
    for body in names:
        total = np.sum([inertial[b] for b in beyond[body]], axis=0)
        own = np.einsum("nji,nj->in", C[body], total)
        np.testing.assert_allclose(own, held[body], rtol=0.0, atol=1e-12 * size)
    W = np.zeros((n, 12, 12))  # columns: W^2, ..., W^5
    for j, row in enumerate(names):
        for column in beyond[row]:
            k = names.index(column)
            W[:, 3 * j : 3 * j + 3, 3 * k : 3 * k + 3] = C[row].transpose(0, 2, 1)
    needed = vectors("held", evaluate(walk_model(tree, torques), values))
    right = np.concatenate([needed[b] for b in names]).T
    solved = np.linalg.solve(W, right[:, :, None])[:, :, 0]
    atol = 1e-12 * size
    np.testing.assert_allclose(solved, np.hstack([inertial[b] for b in names]), rtol=0, atol=atol)


# -- records --------------------------------------------------------------------------------------


def human():
    """Four links on a ship, with numbers, and their torques by joint PD control."""
    given = json.loads((DATA / "ship_params.json").read_text())
    at = [given["q_ship"], *given["q_next"]]
    bodies = [
        Body(
            name,
            given["m"][k],
            given["r_cg"][k],
            given["I"][k],
            Spherical(),
            at[k],
            LINKS[k - 1] if k else None,
        )
        for k, name in enumerate(LINKS)
    ]
    tree = Tree("human", bodies, PrescribedBase("ship"), (0, 0, -given["g"]))
    gains = zip(np.ravel(given["Kp"]), np.ravel(given["Kd"]), strict=True)
    states = zip(tree.coordinates.values(), tree.speeds.values(), strict=True)
    torques = [-kp * q - kd * u for (kp, kd), (q, u) in zip(gains, states, strict=True)]
    return tree, dict(zip(tree.speeds, torques, strict=True))


@cache
def ship_motion():
    """Inputs of the ship as functions: angles and places are sums of sines; the rest follows."""
    given = json.loads((DATA / "ship_motion.json").read_text())
    q = [
        sum(a * sp.sin(w * ks.t + p) for a, w, p in zip(*sines, strict=True))
        for sines in zip(given["amp"], given["omega"], given["phase"], strict=True)
    ]
    C = sp.eye(3)
    for turn, angle in zip((sp.rot_ccw_axis1, sp.rot_ccw_axis2, sp.rot_ccw_axis3), q, strict=False):
        C = C * turn(angle)
    change = C.T * C.diff(ks.t)
    w = sp.Matrix([change[2, 1], change[0, 2], change[1, 0]])
    motion = [*q[:3], *w, *w.diff(ks.t), *(C.T * sp.Matrix(q[3:]).diff(ks.t, 2))]
    names = [f"ship_{kind}{axis}" for kind in ("", "w", "dw", "a") for axis in "xyz"]
    return names, sp.lambdify(ks.t, motion, cse=True)


def ship(time):
    names, functions = ship_motion()
    return dict(zip(names, functions(time), strict=True))


def record(name):
    with gzip.open(DATA / name, "rt") as file:
        return np.genfromtxt(file, delimiter=",", names=True)


def check_moments(found, expected, tree):
    """Wrench of the ship and moments of locks, at every second; records have 13 digits."""
    for name, column in zip(WRENCH, ("Mx", "My", "Mz", "Fx", "Fy", "Fz"), strict=True):
        np.testing.assert_allclose(found[name], expected[column], rtol=0.0, atol=1e-9)
    for k, name in enumerate(tree.speeds):
        if name in tree.locked:
            held = found[f"held_{name}"]
            np.testing.assert_allclose(held, expected[f"lock{k}"], rtol=0.0, atol=1e-9)


@pytest.mark.study
def test_rigid_human_on_a_ship():
    """All joints locked: 30 s of the rigid body of Graham's model."""
    tree, torques = human()
    tree, expected = tree.lock(*LINKS), record("ship_GRM3D.csv.gz")
    model = matrix_model(tree, torques)
    found = evaluate(model, {**ship(expected["t"]), **model.values})
    check_moments(found, expected, tree)
    end = [66.39935213025, 7.773539106146, 0.6419981769, 0.9543724512, -66.45871998, 685.5956642]
    np.testing.assert_allclose([found[name][-1] for name in WRENCH], end, rtol=2e-10)


@pytest.mark.study
def test_one_joint_free_on_a_ship():
    """Roll and pitch of the ankle free: 30 s by RK4, ship motion exact at half steps."""
    tree, torques = human()
    tree = tree.lock("thigh", "trunk", "head", "shank_wz")
    model, expected = matrix_model(tree, torques), record("ship_PSM3D.csv.gz")
    time, halves = np.linspace(0.0, 30.0, 3001), ship(np.linspace(0.0, 30.0, 6001))
    inputs = {name: ks.Signal.parabolas(time, row) for name, row in halves.items()}
    start = {**dict.fromkeys(model.state_names, 0.0), "shank_x": 0.02, "shank_y": 0.03}
    run = ks.simulate(model, time, start, inputs=inputs)
    found = {name: run[name][::100] for name in [*model.state_names, *model.outputs]}
    check_moments(found, expected, tree)
    for kind, column in (("", "th1"), ("w", "w1")):
        for axis in "xyz":
            if (name := f"shank_{kind}{axis}") in found:
                np.testing.assert_allclose(found[name], expected[column + axis], atol=1e-12)
    end = [found[f"shank_{axis}"][-1] for axis in "xyz"]
    np.testing.assert_allclose(end, [-0.038504557, -0.003792303, 0.000190087], atol=6e-10)


def test_what_matrices_do_not_know():
    hinge = Tree("t", [Body("a", 1.0, joint=Revolute("x"))])
    ball = Tree("t", [Body("a", 1.0, (0, 0, 1))])
    cases = [
        (hinge, {}, {}, "body a: the matrices cover spherical joints only"),
        (ball, {"a_wq": 1}, {}, "torques: a_wq is no speed; did you mean a_w"),
        (ball, {}, {"x": ball.place("a", (0, 0, 1))[0]}, "output x: .* is for Tree.model"),
        (ball.with_locks("a"), {}, {}, "can be locked at run time"),
    ]
    for tree, torques, outputs, words in cases:
        with pytest.raises(ValueError, match=words):
            matrix_model(tree, torques, outputs)
