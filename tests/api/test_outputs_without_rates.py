"""Outputs of simulations where x' is not explicit: x' at nodes, and algebraic states where inputs
jump, follow from the equations there."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, y, z, u = ks.dynamicsymbols("x y z u")
k = sp.Symbol("k")
TIME = np.linspace(0.0, 2.0, 21)
#: Jumps at nodes, the last of which is the end.
STEPS = ks.Signal([0.0, 1.0, 2.0], [1.0, 3.0, 0.0], between="held")
IMPLICIT = ("radau-5", "radau-1", "radau-3", "gauss-4", "lobatto-4")


def first_order(**more):
    """x' = y, 0 = y + k x - u."""
    outputs = {"rate": x.diff(t), "left": y + k * x - u}
    equations = [x.diff(t) - y, y + k * x - u]
    return ks.Model("first", [x, y], [u], [k], equations, outputs=outputs, **more)


def rod(last):
    """A point on a circle about the origin, with the tension over mass and length; last : the
    equation that binds it."""
    px, py, pu, pv, la = ks.dynamicsymbols("px py pu pv la")
    equations = [
        px.diff(t) - pu,
        py.diff(t) - pv,
        pu.diff(t) + la * px,
        pv.diff(t) + la * py + 9.81 - u,
        {3: px**2 + py**2 - 1, 2: px * pu + py * pv}[last],
    ]
    outputs = {"acceleration": pu.diff(t), "velocity": px.diff(t)}
    return ks.Model("rod", [px, py, pu, pv, la], [u], [], equations, outputs=outputs)


HANGING = {"px": np.sin(1.0), "py": -np.cos(1.0), "pu": 0.0, "pv": 0.0, "la": 0.0}


@pytest.mark.parametrize("method", IMPLICIT)
def test_rates_and_algebraic_states_after_jumps(method):
    """Of an ensemble, where what is given to the equations is what they tell, also at the end; by
    the exact motion as far as the method has it."""
    values = np.linspace(1.0, 2.0, 7)
    run = ks.simulate(first_order(), TIME, {x: 0.0, y: 0.0}, {k: values}, {u: STEPS}, method)
    k_ = values[:, None]
    assert np.abs(run["left"]).max() < 1e-12
    np.testing.assert_allclose(run["rate"], run["y"], atol=1e-12)
    np.testing.assert_allclose(run["y"][:, 10], 3.0 - values * run["x"][:, 10], rtol=1e-12)
    if method != "radau-1":
        early = TIME < 0.95
        exact = np.exp(-k_ * TIME[early])
        np.testing.assert_allclose(run["rate"][:, early], exact, atol=2e-4)


@pytest.mark.parametrize(("method", "hidden"), [(m, 3) for m in IMPLICIT] + [("radau-5", 2)])
def test_acceleration_of_a_rod(method, hidden):
    """Equal to what tension and place tell, by models whose index is lowered and of index 2."""
    run = ks.simulate(rod(hidden), TIME, HANGING, inputs={u: 0.0}, method=method)
    tolerance = 1e-6 if method == "radau-5" else 1e-12
    np.testing.assert_allclose(run["acceleration"], -run["la"] * run["px"], atol=tolerance)
    np.testing.assert_allclose(run["velocity"], run["pu"], atol=1e-12)


@pytest.mark.parametrize("method", IMPLICIT)
def test_rates_that_enter_nonlinearly(method):
    """x'^3 + x' + x = u holds at each node, the one of a jump too."""
    model = ks.Model(
        "cubic", [x], [u], [], [x.diff(t) ** 3 + x.diff(t) + x - u], outputs={"rate": x.diff(t)}
    )
    run = ks.simulate(model, TIME, {x: 1.0}, inputs={u: STEPS}, method=method)
    v = run["rate"]
    np.testing.assert_allclose(v**3 + v + run["x"] - run["u"], 0.0, atol=1e-12)


def test_jump_of_an_expression_of_time():
    stepped = first_order().substitute({u: 2 * sp.Heaviside(t - 1) + u})
    run = ks.simulate(stepped, TIME, {x: 0.0, y: 0.0}, {k: 1.3}, {u: 1.0}, method="radau-5")
    np.testing.assert_allclose(run["y"][10:], 3.0 - 1.3 * run["x"][10:], rtol=1e-9)


@pytest.mark.parametrize("method", ["radau-5", "radau-3"])
def test_limits_of_rates_hold_at_the_start(method):
    """A limit of x' is looked at before the second node is known."""
    model = first_order(limits={"too fast": 0.5 - x.diff(t)})
    with pytest.raises(ValueError, match="cannot be: too fast"):
        ks.simulate(model, TIME, {x: 0.0, y: 0.0}, {k: 1.0}, {u: STEPS}, method)


def test_rates_that_need_derivatives_are_refused():
    """Two rates in one equation, whose states are bound by the other: by the model of index 0."""
    equations = [x.diff(t) + 2 * z.diff(t) + x, z - x**2]
    model = ks.Model("bound", [x, z], [], [], equations, outputs={"rate": x.diff(t)})
    start = {x: 1.0, z: 1.0}
    with pytest.raises(ValueError, match=r"rate contains x', which .* do not tell"):
        ks.simulate(model, TIME, start, method="radau-5")
    run = ks.simulate(model.reduced_index(index=0), TIME, start, method="radau-5")
    np.testing.assert_allclose(run["rate"], -run["x"] / (1 + 4 * run["x"]), atol=1e-5)


def test_jumps_at_index_2_are_said():
    with pytest.warns(UserWarning, match="index 2: where inputs jump, as at t = 1 s, la are still"):
        ks.simulate(rod(2), TIME, HANGING, inputs={u: STEPS}, method="radau-5")
