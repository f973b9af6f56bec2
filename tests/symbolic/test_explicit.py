"""Explicit forms of models: used while they solve the equations, dropped where they do not."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.evaluate import model_functions
from kinesym.multibody import Body, Load, Planar, Prismatic, Revolute, Spherical, Tree

TIME = np.linspace(0.0, 1.0, 101)


def arm(**changes):
    body = Body("a", 2.0, (0, 0, -0.5), (0.1, 0.1, 0.01), Revolute("y"))
    return Tree("arm", [body], gravity=(0, 0, -9.81), **changes)


def swung(model, method="rk4", **more):
    return ks.simulate(model, TIME, {"a_y": 0.5, "a_wy": 0.0}, method=method, substeps=4, **more)


def test_what_depends_on_accelerations_is_solved_from_the_equations():
    """Rotor inertia as a torque -J u': the same as more inertia of the body about its axis."""
    u = arm().speeds["a_wy"]
    model = arm().model(torques={"a_wy": -0.7 * u.diff(ks.t)})
    assert model.explicit is None
    body = replace(arm().bodies[0], inertia=(0.8, 0.8, 0.01))
    heavier = replace(arm(), bodies=[body]).model()
    assert heavier.explicit is not None
    for method in ("rk4", "trapezoid"):
        np.testing.assert_allclose(
            swung(model, method)["a_y"], swung(heavier, method)["a_y"], atol=1e-12
        )


@pytest.mark.parametrize("how", ["substitute", "replace"])
def test_other_equations_drop_it(how):
    model, c = arm().model(), 0.3
    equations = list(model.equations)
    equations[1] += c * arm().speeds["a_wy"]
    damped = (
        model.substitute({}, equations=equations)
        if how == "substitute"
        else replace(model, equations=equations)
    )
    assert damped.explicit is None
    expected = arm().model(torques={"a_wy": -c * arm().speeds["a_wy"]})
    assert expected.explicit is not None
    np.testing.assert_allclose(swung(damped)["a_y"], swung(expected)["a_y"], atol=1e-12)


def test_it_stays_where_the_equations_stay():
    """By `dataclasses.replace`; a copy whose symbols are gone is refused."""
    model = arm().parametrised().model(arm().torque_inputs())
    heavier = replace(model, name="heavier", values={**model.values, "a_m": 4.0})
    assert heavier.explicit is not None and heavier.explicit.rates == model.explicit.rates
    assert replace(model, states=model.states[::-1]).explicit is None
    loose = replace(model.explicit, rates=(*model.explicit.rates[:1], sp.Symbol("k")), solves=())
    with pytest.raises(ValueError, match=r"explicit form of .* contains k, which is not declared"):
        replace(model, explicit=loose)
    with pytest.raises(ValueError, match="expected an Explicit form with 2 rates, got 5"):
        replace(model, explicit=5)


def test_it_follows_substitutions():
    model = arm().parametrised().model(arm().torque_inputs())
    feedback = -3.0 * arm().coordinates["a_y"]
    closed = model.substitute({model.inputs[0]: feedback}, inputs=[])
    assert closed.explicit is not None
    expected = arm().model(torques={"a_wy": feedback})
    np.testing.assert_allclose(swung(closed)["a_y"], swung(expected)["a_y"], atol=1e-12)
    turned = closed.substitute({}, states=closed.states[::-1])
    assert turned.explicit is None
    np.testing.assert_allclose(swung(turned)["a_y"], swung(expected)["a_y"], atol=1e-12)


def test_models_can_be_pickled():
    model = pickle.loads(pickle.dumps(ks.models.psm3d()))
    assert model.state_names == ks.models.psm3d().state_names


def test_loads_from_the_motion():
    """A weight on a spring to the ground: the function sees the tree with its locks and symbols."""
    k = sp.Symbol("k")

    def ground(tree):
        return [Load("a", force=(0, 0, -k * tree.place("a")[2]), at=(0, 0, 0))]

    hopper = Body("a", 2.0, joint=Prismatic("z"))
    tree = Tree("hopper", [hopper], gravity=(0, 0, -9.81), loads=ground)
    model = tree.model(values={k: 50.0})
    run = ks.simulate(model, TIME, {"a_pz": 0.0, "a_vz": 0.0}, substeps=4)
    rest, omega = -2.0 * 9.81 / 50.0, np.sqrt(50.0 / 2.0)
    np.testing.assert_allclose(run["a_pz"], rest * (1.0 - np.cos(omega * TIME)), atol=1e-8)
    rider = Body("b", 1.0, (0, 0, 0.2), joint=Revolute("y"), parent="a")
    both = Tree("pair", [hopper, rider], gravity=(0, 0, -9.81), loads=ground)
    locked = both.lock("b").parametrised().model(values={k: 50.0})
    assert "k" in locked.parameter_names and locked.state_names == ("a_pz", "a_vz")
    with pytest.raises(ValueError, match=r"loads of hopper must be a list of Load"):
        replace(tree, loads=lambda tree: Load("a")).model()


def test_planar_joints():
    """Free flight in a plane: four numbers less to care for than a free joint with locks."""
    disc = Body("a", 1.0, inertia=(1, 1, 1), joint=Planar("xz"))
    tree = Tree("disc", [disc], gravity=(0, 0, -9.81))
    assert list(tree.coordinates) == ["a_px", "a_pz", "a_y"]
    assert list(tree.speeds) == ["a_vx", "a_vz", "a_wy"]
    assert list(tree.torque_inputs().values())[1].name == "a_fz"
    start = {**dict.fromkeys(tree.coordinates, 0.0), "a_vx": 1.0, "a_vz": 2.0, "a_wy": 3.0}
    run = ks.simulate(tree.model(), TIME, start)
    np.testing.assert_allclose(run["a_pz"], 2.0 * TIME - 9.81 * TIME**2 / 2, atol=1e-12)
    np.testing.assert_allclose(run["a_y"], 3.0 * TIME, atol=1e-12)
    for joint, words in (
        (Prismatic("q"), "prismatic joint are some of x, y, z"),
        (Planar("xx"), "planar joint has two axes"),
    ):
        with pytest.raises(ValueError, match=words):
            Tree("t", [Body("a", 1.0, joint=joint)])


def test_expressions_of_another_tree():
    two = Tree(
        "two",
        [
            Body("a", 1.0, (0, 0, 1), joint=Revolute("y")),
            Body("b", 1.0, (0, 0, 1), joint=Revolute("y"), parent="a"),
        ],
    )
    velocity = two.velocity("b", (0, 0, -1))[0]
    with pytest.raises(ValueError, match="comes from another tree, or from this one"):
        two.lock("b").model(outputs={"v": velocity})


def test_rows_of_trees():
    made = Tree("arm", (Body(name, 1.0, (0, 0, 1), (1, 1, 1)) for name in "ab"))
    assert len(made.model().states) == 12
    for bodies in ([], ["shank"], Body("a", 1.0), "a"):
        with pytest.raises(ValueError, match=r"arm has no bodies|must be a list of Body"):
            Tree("arm", bodies)
    angle = sp.Symbol("angle")
    skew = Body("a", 1.0, (0, 0, 1), (1, 1, 1), Revolute((sp.cos(angle), sp.sin(angle), 0)))
    assert Tree("skew", [skew]).model(values={angle: 0.2}).explicit is not None
    with pytest.raises(ValueError, match="the axis of a joint contains NaN, infinity"):
        Tree("t", [Body("a", 1.0, joint=Revolute((1.0, float("nan"), 0.0)))])


def test_extended_keeps_it():
    """The work of a damper beside an arm, its coefficient a new parameter."""
    c = sp.Symbol("c")
    u, work, torque = arm().speeds["a_wy"], *ks.dynamicsymbols("work a_ty")
    driven = arm().model(arm().torque_inputs())
    model = driven.extended(
        {work: -c * u**2, torque: -c * u.diff(ks.t)}, (), [c], {"power": -c * u**2}, {c: 0.3}
    )
    assert model.explicit is None and not model.inputs  # a rate with x' on the right
    model = driven.substitute({torque: 0}, inputs=[]).extended(
        {work: -c * u**2}, parameters=[c], outputs={"power": -c * u**2}, values={c: 0.3}
    )
    assert model.explicit is not None and model.values["c"] == 0.3
    run = ks.simulate(model, TIME, {"a_y": 0.5, "a_wy": 0.0, "work": 0.0})
    assert run["work"][-1] == pytest.approx(np.trapezoid(run["power"], TIME), rel=1e-3)


X, V = ks.dynamicsymbols("x v")
S = sp.Symbol("s")


def moved(limits, **more):
    equations = [X.diff(ks.t) - V, V.diff(ks.t) - 1]
    model = ks.Model("m", [X, V], [], [], equations, limits=limits, **more)
    return ks.simulate(model, np.linspace(0.0, 10.0, 1001), {X: 0.0, V: 0.0})


@pytest.mark.parametrize(
    ("limits", "more", "end"),
    [
        ({"x": 5 - X}, {}, np.sqrt(10.0)),
        ({"too late": 5 - ks.t}, {}, 5.0),
        ({"s": 5 - S}, {"intermediates": [(S, X**2)]}, np.sqrt(2.0 * np.sqrt(5.0))),
        ({"v": 5 - X.diff(ks.t)}, {}, 5.0),
        ({"x": 5 - X}, {"outputs": {"x_squared": X**2}}, np.sqrt(10.0)),
    ],
)
def test_limits_of_every_kind(limits, more, end):
    (sentence,) = limits
    with pytest.warns(UserWarning, match=f"s: {sentence}"):
        run = moved(limits, **more)
    assert abs(run.time[-1] - end) < 0.02 and run.message


def test_limits_are_expressions():
    with pytest.raises(ValueError, match="write 5 - x for x < 5"):
        moved({"x": X < 5})


def test_units_do_not_hide_asymmetry():
    """Masses of 10^8 beside 10^-14: M_13 and M_31 differ and must not be taken for one."""
    x, y, z, u, v, w = ks.dynamicsymbols("x y z u v w")
    mass = sp.Matrix(
        [
            [2e8, 1e7 * (sp.cos(x) ** 2 - 1), 1e-6 * sp.cos(x)],
            [1e7 * (sp.cos(x) + 1) * (sp.cos(x) - 1), 2e8, 0],
            [3e-6 * sp.sin(x + 1), 0, 1e-14],
        ]
    )
    rates = sp.Matrix([u, v, w]).diff(ks.t)
    rows = list(mass * rates - sp.Matrix([1.0, 2.0, 3e-6]))
    kinematic = [q.diff(ks.t) - r for q, r in ((x, u), (y, v), (z, w))]
    model = ks.Model("scales", [x, y, z, u, v, w], [], [], [*kinematic, *rows])
    found = ks.compile(model).rhs(np.array([0.4, 0, 0, 0, 0, 0]), np.zeros(0), np.zeros(0))[3:]
    side = sp.Matrix([1, 2, sp.Rational(3, 10**6)])
    exact = mass.subs(x, sp.Rational(2, 5)).evalf(40).LUsolve(side)
    np.testing.assert_allclose(found, np.array(exact, dtype=float).ravel(), rtol=1e-9)


def test_spherical_trees_have_one():
    tree = Tree("t", [Body("a", 1.0, (0, 0, 1), (1, 1, 1), Spherical("zyx"))])
    assert tree.model().explicit is not None
    massless = Tree("t", [Body("a", 0, joint=Revolute("y"))])
    assert massless.model().explicit is None
    damped = massless.model({"a_wy": -massless.coordinates["a_y"] - massless.speeds["a_wy"]})
    assert damped.explicit is None  # the speed is algebraic


def test_inputs_as_states_with_rates():
    """A constant rate integrates to a ramp, and the model is explicit as before."""
    model = ks.models.n_link_pendulum_on_cart(1).with_rates("F")
    assert model.state_names[-1] == "F" and model.input_names == ("F_rate",)
    time = np.linspace(0.0, 1.0, 11)
    values = dict.fromkeys(model.parameter_names, 1.0)
    run = ks.simulate(model, time, dict.fromkeys(model.state_names, 0.0), values, {"F_rate": 3.0})
    np.testing.assert_allclose(run["F"], 3.0 * time, atol=1e-12)
    with pytest.raises(ValueError, match="has no input G"):
        model.with_rates("G")


def test_rates_of_inputs_keep_the_articulated_form():
    """Of 6 links: what is added is one operation at most for each new state."""
    links = [
        Body(
            f"b{k}",
            1.0,
            (0, 0, 0.5),
            (0.1, 0.1, 0.01),
            Revolute("y"),
            (0, 0, min(k, 1)),
            f"b{k - 1}" if k else None,
        )
        for k in range(6)
    ]
    tree = Tree("chain", links, gravity=(0, 0, -9.81))
    plain = tree.model(tree.torque_inputs())
    model = plain.with_rates(*plain.input_names)
    assert model.explicit is not None
    bare = replace(plain, explicit=None)
    few, many = (model_functions(m).kernel("rhs").operations for m in (plain, bare))
    assert model_functions(model).kernel("rhs").operations <= few + 6 < many
    draw = np.random.default_rng(3)
    x, u = draw.normal(size=(18, 4)), draw.normal(size=(6, 4))
    solved = ks.compile(replace(model, explicit=None)).rhs(x, u, [])
    np.testing.assert_allclose(ks.compile(model).rhs(x, u, []), solved, rtol=1e-9, atol=1e-9)
    again = model.with_rates("b0_ty_rate")
    assert again.explicit is not None and again.state_names[-1] == "b0_ty_rate"
