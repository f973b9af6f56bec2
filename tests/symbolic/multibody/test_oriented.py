"""Bodies whose angles are told in the world: a reference of 57 degrees of freedom, and the same
trees with relative angles."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.multibody import (
    Body,
    FixedBase,
    Free,
    Load,
    Oriented,
    PrescribedBase,
    Prismatic,
    Revolute,
    Spherical,
    Tree,
    Universal,
)

DATA = Path(__file__).parents[2] / "data"
AXES = "xyz"


def evaluate(model, expressions, values, rates=None, program=()):
    """Expressions by name at one point; whatever has no value is 0."""
    point = model_symbols(model)
    point.lower.define(program)
    groups = {
        "xdot": (model.state_names, rates or {}),
        "x": (model.state_names, values),
        "u": (model.input_names, values),
        "p": (model.parameter_names, values),
    }
    arrays = {
        k: np.array([[given.get(n, 0.0)] for n in names]).reshape(len(names), 1)
        for k, (names, given) in groups.items()
    }
    nodes = tuple(map(point.lower, expressions.values()))
    arguments = (point.xdot, point.x, point.u, point.p, point.t)
    kernel = Kernel("all", point.graph, arguments, nodes, tuple(expressions))
    found = interpret(kernel, {**arrays, "t": np.zeros((1, 1))}, 1)
    return dict(zip(expressions, np.ravel(found), strict=True))


def residual(model, values, rates):
    rows = dict(zip(model.state_names, model.equations, strict=True))
    return evaluate(model, rows, values, rates)


def explicit(model, values):
    rates = dict(zip(model.state_names, model.explicit.rates, strict=True))
    return evaluate(model, rates, values, program=model.explicit.intermediates)


# -- a body of 18 segments ------------------------------------------------------------------------


def gait():
    """The tree of the reference: the lumbar joint moves freely, segments turn in the world."""
    given = json.loads((DATA / "gait57_model.json").read_text())
    owner, bodies = {"J1": ("J1", (0, 0, 0))}, [Body("J1", 0, joint=Prismatic("xyz"))]
    for row in given["segments"]:
        parent, at = owner[row["proximal"]]
        bodies.append(
            Body(
                row["name"],
                row["mass"],
                row["com"],
                row["inertia_com_diag"],
                Oriented("yxz"),
                at,
                parent,
            )
        )
        owner |= {point: (row["name"], place) for point, place in row["points"].items()}
    return Tree("gait", bodies, gravity=given["gravity"])


def turning(angles, rates, accelerations):
    """w and w' in body axes, and d w / d angles', of A = Ry(beta) Rx(alpha) Rz(gamma)."""

    def columns(q):
        back = Rotation.from_euler("YXZ", q[[1, 0, 2]]).as_matrix().T
        about_x = Rotation.from_euler("Z", q[2]).as_matrix().T @ [1.0, 0.0, 0.0]
        return np.column_stack([about_x, back @ [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    (a, _, c), (da, _, dc) = angles, rates
    H = columns(angles)
    change = np.array(
        [
            [-np.sin(c) * dc, -np.sin(a) * np.sin(c) * da + np.cos(a) * np.cos(c) * dc, 0.0],
            [-np.cos(c) * dc, -np.sin(a) * np.cos(c) * da - np.cos(a) * np.sin(c) * dc, 0.0],
            [0.0, -np.cos(a) * da, 0.0],
        ]
    )
    return H @ rates, H @ accelerations + change @ rates, H


@pytest.fixture(scope="module")
def body():
    return gait(), gait().model()


@pytest.mark.parametrize("number", range(4))
def test_generalised_forces_of_a_body(body, number):
    """Conjugate to place and absolute angles, of another implementation, at random states."""
    tree, model = body
    state = json.loads((DATA / "gait57_random_states.json").read_text())[number]
    z, zd, zdd = (np.array(state[k]).reshape(-1, 3) for k in ("z", "zd", "zdd"))
    values, rates, H = {}, {}, {}
    for part, row, d, dd in zip(tree.bodies, z, zd, zdd, strict=True):
        u, du = d, dd
        if part.name != "J1":
            u, du, H[part.name] = turning(row, d, dd)
        q, speed = ("_p", "_v") if part.name == "J1" else ("_", "_w")
        for k, axis in enumerate(AXES):
            values |= {f"{part.name}{q}{axis}": row[k], f"{part.name}{speed}{axis}": u[k]}
            rates |= {f"{part.name}{q}{axis}": d[k], f"{part.name}{speed}{axis}": du[k]}
    found = residual(model, values, rates)
    forces = [[found[f"J1_v{axis}"] for axis in AXES]]
    forces += [H[b.name].T @ [found[f"{b.name}_w{axis}"] for axis in AXES] for b in tree.bodies[1:]]
    np.testing.assert_allclose(np.concatenate(forces), state["Q"], atol=1e-9)
    kinematic = [name for name in found if f"_{name.split('_')[1]}" in ("_px", "_x", "_y", "_z")]
    np.testing.assert_allclose([found[name] for name in kinematic], 0.0, atol=1e-12)
    there = explicit(model, values)  # without torques: consistent with the equations
    left = residual(model, values, there)
    scale = max(1.0, max(map(abs, there.values())))
    np.testing.assert_allclose(list(left.values()), 0.0, atol=1e-11 * scale)


# -- against relative angles ----------------------------------------------------------------------

joints = st.sampled_from(
    [
        Spherical("xyz"),
        Spherical("zyx"),
        Revolute("y"),
        Universal("zx"),
        Revolute((1.0, 2.0, -1.0)),
        Prismatic("xz"),
        Free("yxz"),
    ]
)
shapes = st.lists(st.tuples(joints, st.integers(0, 7), st.booleans()), min_size=1, max_size=5)


def pair(shape, seed, base):
    """A tree with relative joints, and the one in which some spherical joints are oriented."""
    rng, bodies, other = np.random.default_rng(seed), [], []
    for k, (joint, number, oriented) in enumerate(shape):
        parent = number % (k + 1) - 1
        a, b, c = rng.uniform(0.2, 0.5, 3)
        body = Body(
            f"b{k}",
            rng.uniform(1, 3),
            rng.normal(size=3),
            (b + c, c + a, a + b),
            joint,
            rng.normal(size=3),
            None if parent < 0 else f"b{parent}",
        )
        bodies.append(body)
        turn = oriented and isinstance(joint, Spherical)
        other.append(replace(body, joint=Oriented(joint.sequence)) if turn else body)
    loads = [Load("b0", rng.normal(size=3), rng.normal(size=3), rng.normal(size=3), "body")]
    trees = [Tree("t", rows, base, (1.0, -2.0, -9.0), loads) for rows in (bodies, other)]
    return rng, *trees


def in_world(relative, oriented, values, rates):
    """Values and rates of the oriented tree for the motion of the relative one."""
    wanted = {}
    for body in relative.bodies:
        frame = relative.frame(body.name)
        wanted |= {f"{body.name}.w{k}": e for k, e in enumerate(frame.angular)}
        wanted |= {f"{body.name}.dw{k}": e for k, e in enumerate(frame.angular_rate)}
        wanted |= {f"{body.name}.A{i}{j}": frame.attitude[i][j] for i in range(3) for j in range(3)}
    model = relative.model({}, wanted)
    found = evaluate(model, model.outputs, values, rates)
    values, rates = dict(values), dict(rates)
    for body in oriented.bodies:
        if isinstance(body.joint, Oriented):
            name, s = body.name, body.joint.sequence
            A = np.array([[found[f"{name}.A{i}{j}"] for j in range(3)] for i in range(3)])
            angles = Rotation.from_matrix(A).as_euler(s.upper())
            values |= {f"{name}_{axis}": q for axis, q in zip(s, angles, strict=True)}
            for k, axis in enumerate(AXES):
                values[f"{name}_w{axis}"] = found[f"{name}.w{k}"]
                rates[f"{name}_w{axis}"] = found[f"{name}.dw{k}"]
    return values, rates


@pytest.mark.study
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(shapes, st.integers(0, 2**16), st.sampled_from([FixedBase(), PrescribedBase("ship")]))
def test_the_same_motion_needs_the_same_wrenches(shape, seed, base):
    """All wrenches at joints; generalised forces do the same work in both descriptions."""
    rng, relative, oriented = pair(shape, seed, base)
    names = [*relative.coordinates, *relative.speeds]
    inputs = [f"ship_{k}{axis}" for k in ("", "w", "dw", "a", "v", "p") for axis in AXES]
    values = {name: rng.uniform(-1, 1) for name in [*names, *inputs]}
    rates = {name: rng.normal() for name in relative.speeds}
    outputs, needed = [], []
    for tree, (x, dx) in (
        (relative, (values, rates)),
        (oriented, in_world(relative, oriented, values, rates)),
    ):
        wanted = {
            f"{b.name}{k}": e
            for b in tree.bodies
            for k, e in enumerate(sum(tree.wrench(b.name), ()))
        }
        model = tree.model({}, wanted)
        outputs.append(list(evaluate(model, model.outputs, x, dx).values()))
        left = residual(model, x, dx)
        needed.append({name: (left[name], x[name]) for name in tree.speeds})
        there = explicit(model, x)
        rest = residual(model, x, there)
        scale = max(1.0, *map(abs, there.values()))
        np.testing.assert_allclose(list(rest.values()), 0.0, atol=1e-10 * scale)
    scale = max(map(abs, outputs[0]))
    np.testing.assert_allclose(*outputs, atol=1e-11 * scale)
    if isinstance(base, FixedBase):
        power = [sum(force * u for force, u in part.values()) for part in needed]
        np.testing.assert_allclose(*power, atol=1e-10 * scale)


# -- in a plane -----------------------------------------------------------------------------------


def planar(axis, joint, moments):
    """Three rods in a plane; moments : the inertia of one, from that about the axis."""
    across = (AXES.index(axis) + 1) % 3, (AXES.index(axis) + 2) % 3

    def at(x, y):
        return tuple(dict(zip(across, (x, y), strict=True)).get(k, 0.0) for k in range(3))

    def body(name, mass, moment, place, parent):
        return Body(name, mass, at(0.3, 0.05), moments(moment), joint(axis), place, parent)

    bodies = [
        body("a", 1.2, 0.1, at(0.0, 0.0), None),
        body("b", 0.7, 0.05, at(0.8, 0.1), "a"),
        body("c", 0.4, 0.02, at(0.6, 0.0), "b"),
    ]
    return Tree("planar", bodies, gravity=at(0.0, -9.81))


@pytest.mark.parametrize("axis", AXES)
def test_angles_in_a_plane_may_be_those_from_the_world(axis):
    """With inertia about the axis of the plane alone. Accelerations are those with angles between
    the rods, whose torques act on both neighbours; equations and explicit form agree."""

    def only(moment):
        return tuple(moment * (axis == other) for other in AXES)

    absolute = planar(axis, Oriented, only)
    relative = planar(axis, Revolute, lambda moment: (moment,) * 3)
    torques = {
        f"{name}_w{axis}": value for name, value in zip("abc", (0.4, -0.3, 0.9), strict=True)
    }
    ours = absolute.model(torques=torques)
    others = dict(zip("abc", (0.4 - 0.3 + 0.9, -0.3 + 0.9, 0.9), strict=True))
    theirs = relative.model(torques={f"{name}_w{axis}": value for name, value in others.items()})
    assert ours.state_names == theirs.state_names and not ours.limits
    q, w = np.array([0.3, 0.9, -0.4]), np.array([1.0, -2.0, 0.5])
    names = [f"{name}_{kind}{axis}" for kind in ("", "w") for name in "abc"]
    steps = [*np.diff(q, prepend=0.0), *np.diff(w, prepend=0.0)]
    found = explicit(ours, dict(zip(names, [*q, *w], strict=True)))
    expected = explicit(theirs, dict(zip(names, steps, strict=True)))
    for group in (names[:3], names[3:]):
        sums = np.cumsum([expected[name] for name in group])
        np.testing.assert_allclose([found[name] for name in group], sums, rtol=1e-11)
    rows = residual(ours, dict(zip(names, [*q, *w], strict=True)), found)
    np.testing.assert_allclose(list(rows.values()), 0.0, atol=1e-12)


def test_inertia_about_one_axis_is_for_planes():
    with pytest.raises(ValueError, match="body a has a moment of inertia about its axis z only"):
        planar("z", lambda axis: Spherical(), lambda moment: (0, 0, moment)).model()
    with pytest.raises(ValueError, match="no body has principal moments of inertia -1, 0, 0"):
        Body("a", 1.0, inertia=(0, 0, -1))
    half = planar("z", Oriented, lambda moment: (0, 0, moment)).parametrised()
    assert half.model().limits.keys() == {f"body {name}: {name}_Iz is negative" for name in "abc"}
