"""Joints that move by functions of coordinates, against Pinocchio: there each is a chain of slides
and hinges whose coordinates r are those functions, so that M = J' M_r J with J = dr/dq."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.multibody import Body, Custom, Load, Revolute, Tree
from kinesym.symbolic.table import NumericFunction

a, b, c, d, e = ks.dynamicsymbols("a b c d e")
k = sp.Symbol("k")
VALUES = {"k": 0.7, "a": 0.4, "b": -0.8, "c": 1.1, "d": 0.3, "e": 0.2}
VALUES |= {"a_speed": 1.3, "b_speed": -0.6, "c_speed": 0.9, "d_speed": -2.0, "e_speed": 0.4}
ATTITUDE = Rotation.from_euler("XYZ", [0.3, -1.2, 0.8]).as_matrix().tolist()
POINTS = np.linspace(-2.0, 2.0, 7)
GLIDE = ks.table(a + 0.3 * b, POINTS, np.cos(POINTS), kind="simm")


def body(name, joint, at, parent=None):
    rng = np.random.default_rng(len(name))
    lengths = rng.uniform(0.1, 0.5, 3)
    turn = Rotation.random(random_state=3).as_matrix()
    inertia = turn @ np.diag(lengths @ lengths - lengths**2) @ turn.T
    inertia = (0.5 * (inertia + inertia.T)).tolist()
    return Body(
        name, rng.uniform(1.0, 2.0), rng.normal(size=3).tolist(), inertia, joint, at, parent
    )


#: A free root, a knee of one coordinate, a joint of two shared with a sibling that follows, a weld.
BODIES = [
    body("root", Custom([a, d], [("z", a), ("x", d)], (d**2, sp.sin(a), 0.1)), (0.1, 0.2, 0.3)),
    body(
        "knee",
        Custom(
            [b],
            [((1.0, 2.0, -0.5), b), ("y", k * b**2), ("x", sp.sin(b))],
            (0.2 * b, k * sp.cos(b), b**3),
            ATTITUDE,
            (0.1, -0.2, 0.05),
        ),
        (0.0, -0.4, 0.1),
        "root",
    ),
    body("patella", Custom([b, a], [("y", b * a)], (GLIDE, 0, b)), (0.2, 0.1, 0.0), "root"),
    body("cover", Custom(attitude=ATTITUDE), (0.0, 0.1, 0.0), "patella"),
    body("foot", Custom([c], [("z", c)], attitude=ATTITUDE), (0.1, 0.0, -0.3), "knee"),
]


def tree(bodies=BODIES):
    return Tree(
        "custom",
        bodies,
        gravity=(0.5, -9.0, 1.0),
        loads=[Load("foot", (1.0, 2.0, 3.0), (0.3, 0.2, 0.1), (0.1, 0.2, 0.3))],
        values={"k": 0.7},
    )


def interpreted(model, rates, more=()):
    """Rows of the equations and what is asked for besides, by name."""
    point = model_symbols(model)
    n = max(map(np.size, rates.values()), default=1)
    arrays = {
        "xdot": [np.broadcast_to(rates.get(name, 0.0), n) for name in model.state_names],
        "x": [VALUES[name] for name in model.state_names],
        "u": [],
        "p": [*(VALUES[name] for name in model.parameter_names), *model.tables.values],
        "t": [0.0],
    }
    expressions = (*model.equations, *model.outputs.values(), *more)
    if more:
        point.lower.define(model.explicit.intermediates)
    nodes = tuple(map(point.lower, expressions))
    names = [f"row{i}" for i in range(len(expressions))]
    arguments = (point.xdot, point.x, point.u, point.p, point.t)
    return np.array(interpret(Kernel("all", point.graph, arguments, nodes, names), arrays, n))


class Chain:
    """The same bodies in Pinocchio, by coordinates r(q)."""

    def __init__(self, bodies):
        self.pin = pin = pytest.importorskip("pinocchio")
        self.model, ends, self.r = pin.Model(), {None: (0, pin.SE3.Identity())}, []
        self.model.gravity.linear = np.array([0.5, -9.0, 1.0])
        self.ends = {}
        for each in sorted(bodies, key=lambda one: self.depth(bodies, one)):
            joint = each.joint
            number, here = ends[each.parent]
            here = here * pin.SE3(np.eye(3), np.array(each.at, dtype=float))
            axes = [(pin.JointModelPrismaticUnaligned, np.eye(3)[i]) for i in range(3)]
            axes += [(pin.JointModelRevoluteUnaligned, np.array(v, float)) for v, _ in joint.turns]
            for kind, axis in axes:
                number = self.model.addJoint(number, kind(axis), here, f"{each.name}{len(self.r)}")
                here = pin.SE3.Identity()
                self.r.append(None)
            self.r[len(self.r) - len(axes) :] = [*joint.translation, *(f for _, f in joint.turns)]
            turn = np.array(joint.attitude, dtype=float)
            ends[each.name] = (number, pin.SE3(turn, -turn @ np.array(joint.center, float)))
            inertia = pin.Inertia(each.mass, np.array(each.com), np.array(each.inertia))
            self.model.appendBodyToJoint(number, inertia, ends[each.name][1])
        self.ends = ends
        q, u = [a, d, b, c], sp.symbols("ua ud ub uc")
        r = sp.Matrix(self.r)
        J = sp.Matrix([[f.diff(x) for x in q] for f in r])
        drift = sum((J.diff(x) * sp.Matrix(u) * v for x, v in zip(q, u, strict=True)), 0 * r)
        symbols = [sp.Symbol(f"z{i}") for i in range(4)]
        to = dict(zip(q, symbols, strict=True)) | {k: sp.Float(0.7)}
        point = [VALUES[x.name] for x in q] + [VALUES[f"{x.name}_speed"] for x in q]
        self.rates = np.array(point[4:])
        self.values = []
        for m in (r, J, drift):
            f = NumericFunction([*symbols, *u], m.xreplace(to).tolist())
            self.values.append(np.array(f(*point), dtype=float))
        self.data = self.model.createData()

    @staticmethod
    def depth(bodies, one):
        """Depth first, as Pinocchio counts on it: here children follow by their path."""
        names, path = {other.name: other for other in bodies}, [one.name]
        while names[path[0]].parent:
            path.insert(0, names[path[0]].parent)
        return path

    def mass_and_bias(self):
        pin, (r, J, drift) = self.pin, self.values
        r, drift, v = r.ravel(), drift.ravel(), J @ self.rates
        mass = pin.crba(self.model, self.data, r)
        mass = np.triu(mass) + np.triu(mass, 1).T
        pin.forwardKinematics(self.model, self.data, r, v)
        number, end = self.ends["foot"]
        turn = (self.data.oMi[number] * end).rotation
        force, torque = turn.T @ [1.0, 2.0, 3.0], turn.T @ [0.3, 0.2, 0.1]
        loads = [pin.Force.Zero() for _ in range(self.model.njoints)]
        load = pin.Force(force, torque + np.cross([0.1, 0.2, 0.3], force))
        loads[number] = end.act(load)
        bias = pin.rnea(self.model, self.data, r, v, drift, loads)
        return J.T @ mass @ J, J.T @ bias


NAMES = ["a_speed", "d_speed", "b_speed", "c_speed"]


def mass_and_bias(model, names):
    n = len(names)
    rows = interpreted(model, dict(zip(names, np.eye(n, n + 1, 1), strict=True)))
    rows = rows[len(model.state_names) - n : len(model.state_names)]
    return rows[:, 1:] - rows[:, :1], rows[:, 0]


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_mass_matrix_bias_and_explicit_form(shared):
    bodies = BODIES if shared else [row for row in BODIES if row.name not in ("patella", "cover")]
    model, twin = tree(bodies).model(), Chain(bodies)
    mass, bias = mass_and_bias(model, NAMES)
    expected_mass, expected = twin.mass_and_bias()
    np.testing.assert_allclose(mass, expected_mass, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(bias, expected, rtol=1e-11, atol=1e-11)
    assert (model.explicit is None) == shared
    if not shared:
        rows = interpreted(model, {}, model.explicit.rates)[-len(NAMES) :, 0]
        np.testing.assert_allclose(rows, np.linalg.solve(mass, -bias), rtol=1e-10)


#: A kneecap that follows the knee, and a fibula that does so besides moving on its own.
FOLLOWING = [
    *[row for row in BODIES if row.name not in ("patella", "cover")],
    body("patella", Custom([b], [("y", b**2)], (sp.sin(b), 0, b)), (0.2, 0.1, 0.0), "root"),
    body("cover", Custom(attitude=ATTITUDE), (0.0, 0.1, 0.0), "patella"),
    body("fibula", Custom([e, b], [("x", e + b), ("z", e)], (0, b, 0)), (0, 0.1, 0.1), "root"),
]


@pytest.mark.parametrize("fixed", [False, True], ids=["root", "base"])
def test_explicit_form_of_links_that_move_together(fixed, monkeypatch):
    """As of the mass matrix, which knows nothing of who hangs on whom."""
    made = tree(FOLLOWING)
    if fixed:
        on_base = [replace(r, parent=None) if r.parent == "root" else r for r in FOLLOWING[1:]]
        made = tree(on_base)
    names = [*made.speeds]
    model = made.model()
    mass, bias = mass_and_bias(model, names)
    rows = interpreted(model, {}, model.explicit.rates)[-len(names) :, 0]
    np.testing.assert_allclose(rows, np.linalg.solve(mass, -bias), rtol=1e-10)
    model = made.with_locks("b_speed").model()
    for locked in (0.0, 1.0):
        monkeypatch.setitem(VALUES, "lock_b_speed", locked)
        rows = interpreted(model, {}, model.explicit.rates)[-len(names) :, 0]
        if not locked:
            np.testing.assert_allclose(rows, np.linalg.solve(mass, -bias), rtol=1e-10)
    assert rows[names.index("b_speed")] == 0.0
    still = made.lock("b_speed").model()
    left = [name for name in names if name != "b_speed"]
    mass, bias = mass_and_bias(still, left)
    rows = interpreted(still, {}, still.explicit.rates)[-len(left) :, 0]
    np.testing.assert_allclose(rows, np.linalg.solve(mass, -bias), rtol=1e-10)


@pytest.mark.parametrize(
    "more",
    [
        body("toe", Custom([b], [("z", b)]), (0.1, 0, 0), "foot"),
        body("toe", Custom([b, e], [("z", b), ("x", e)]), (0.1, 0, 0), "root"),
    ],
    ids=["on another link", "two such speeds"],
)
def test_links_that_move_together_elsewhere_have_no_explicit_form(more):
    made = tree([*FOLLOWING, more]).model()
    assert made.explicit is None


def test_names_and_inputs():
    made = tree()
    assert [*made.coordinates] == ["a", "d", "b", "c"]
    assert [*made.speeds] == NAMES
    inputs = [str(f.name) for f in made.torque_inputs().values()]
    assert inputs == ["a_moment", "d_moment", "b_moment", "c_moment"]
    slide = Tree("slide", [Body("cart", 1, joint=Custom([a], translation=(a, 0, 0)))])
    assert str(slide.torque_inputs()["a_speed"].name) == "a_force"


def test_energy_is_kept():
    """By a simulation, with numbers as parameters."""
    knee = replace(BODIES[1], parent=None)
    made = Tree("knee", [knee], gravity=(0, -9.81, 0), values={"k": 0.7}).parametrised()
    assert "knee_jx" in made.values
    model = made.model(outputs="energy")
    run = ks.simulate(model, np.linspace(0.0, 1.0, 101), initial={"b": 0.5, "b_speed": 0.0})
    total = run["kinetic_energy"] + run["potential_energy"]
    assert np.ptp(total) < 1e-6 * np.ptp(run["kinetic_energy"])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Custom([k]), "coordinates of a custom joint are functions of time, got k"),
        (lambda: Custom([a]), "the coordinate a of a custom joint moves nothing; leave it out"),
        (lambda: Custom([a], [("z", a + b)]), r"holds b\(t\), which is none of its coordinates"),
        (lambda: Custom([a], [a]), r"the rotations of a custom joint are pairs"),
        (lambda: Custom([a], [("u", a)]), "the axis of a revolute joint is x, y, z or a vector"),
        (lambda: Custom([a], [("z", a)], (a, 0)), "translation must have three components"),
        (lambda: Custom([a], [("z", a)], attitude=np.ones((3, 3))), "is a rotation matrix"),
        (lambda: Custom([a, a], [("z", a)]), "has the coordinate a twice"),
        (lambda: Custom([a], [("z", a)], speeds=[k]), "speeds of a custom joint are functions of"),
        (lambda: Custom([a], [("z", a)], speeds=[b, c]), "has 1 coordinates and 2 speeds"),
    ],
)
def test_what_is_no_joint_is_refused(made, said):
    with pytest.raises(ValueError, match=said):
        Body("shank", 1, joint=made())


def test_others_do_not_share_coordinates():
    q = ks.dynamicsymbols("shank_z")
    bodies = [Body("shank", 1, joint=Revolute("z")), Body("foot", 1, joint=Custom([q], [("z", q)]))]
    with pytest.raises(ValueError, match="two joints have a coordinate or speed shank_z"):
        Tree("legs", bodies)


@pytest.mark.parametrize("names", [("b_speed",), ("d_speed", "c_speed")])
def test_locks_take_out_rows_and_columns(names):
    mass, bias = mass_and_bias(tree().model(), NAMES)
    held = tree().lock(*names).model()
    left = [k for k, name in enumerate(NAMES) if name not in names]
    kept = mass_and_bias(held, [NAMES[k] for k in left])
    np.testing.assert_allclose(kept[0], mass[np.ix_(left, left)], rtol=1e-12, atol=1e-12)
    at_rest = dict(VALUES)
    VALUES.update(dict.fromkeys(names, 0.0))
    try:
        _, bias = mass_and_bias(tree().model(), NAMES)
    finally:
        VALUES.update(at_rest)
    np.testing.assert_allclose(kept[1], bias[left], rtol=1e-11, atol=1e-11)
