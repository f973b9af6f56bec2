"""Simulation of differential-algebraic models: what runs, what is refused, where it starts, and how
far constraints drift."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym.hybrid import Hybrid
from kinesym.internal.problems.method_index import check_index

t = ks.t
x, y, z, u = ks.dynamicsymbols("x y z u")
R, C = sp.symbols("R C")
TIME = np.linspace(0.0, 1.0, 101)
MINUTE = np.linspace(0.0, 60.0, 6001)
LEVEL = {"x": 1.0, "y": 0.0, "u": 0.0, "v": 0.0, "tension": 0.0}


def circuit():
    """A source u, a resistor, a capacitor: u = R i + v, C v' = i."""
    v, i = ks.dynamicsymbols("v i")
    return ks.Model(
        "rc",
        [v, i],
        [u],
        [R, C],
        [C * v.diff(t) - i, u - R * i - v],
        outputs={"power": u * i},
        values={R: 2.0, C: 0.25},
    )


def explicit_start(reduced, start):
    """Of a model whose algebraic states are integrated."""
    return {name: start.get(name, 0.0) for name in reduced.state_names}


def drift(run, suffix=""):
    names = [n for n in run.outputs if n.startswith("constraint") and n.endswith(suffix)]
    return max(np.abs(run[name]).max() for name in names)


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (0, "index 0: the second derivative of equation 4, -L**2 + x**2 + y**2, is a hidden"),
        (1, "index 1 or less: the second derivative of equation 4"),
        (2, "index 2 or less: the second derivative of equation 4"),
    ],
)
def test_hidden_constraint_is_named(most, words):
    remedy = "model.reduced_index()" if most else "model.reduced_index(index=0)"
    with pytest.raises(ValueError, match="cartesian_pendulum has index 3") as caught:
        check_index(ks.models.cartesian_pendulum(), most, "the method m")
    assert f"the method m is for models of {words}" in str(caught.value)
    assert str(caught.value).endswith(f"use {remedy}")


def test_index_2_is_for_radau():
    """A capacitor across a source: the midpoint rule would need u' and refuses it, backward Euler
    runs it."""
    v, i = ks.dynamicsymbols("v i")
    loop = ks.Model("loop", [v, i], [u], [C], [C * v.diff(t) - i, u - v], values={C: 0.25})
    given = ks.Signal(TIME, np.sin(TIME), between="cubic")
    with pytest.raises(ValueError, match=r"index 2, the method midpoint .* take a radau method"):
        ks.simulate(loop, TIME, {v: 0.0, i: 0.0}, inputs={u: given}, method="midpoint")
    run = ks.simulate(loop, TIME, {v: 0.0, i: 0.0}, inputs={u: given}, method="backward-euler")
    assert run["i"][0] == pytest.approx(0.25, rel=1e-6)  # C u', of the spline
    np.testing.assert_allclose(run["v"], np.sin(TIME), atol=1e-12)
    np.testing.assert_allclose(run["i"], 0.25 * np.cos(TIME), atol=2e-3)
    with pytest.raises(ValueError, match=r"violate equation 1, u - v = 0 by 0\.1;"):
        ks.simulate(loop, TIME, {v: 0.1, i: 0.0}, inputs={u: given}, method="backward-euler")


def test_undetermined():
    same = ks.Model("same", [x, y], [], [], [x + y - sp.sin(t), 2 * x + 2 * y - sp.sin(t)])
    with pytest.raises(ValueError, match=r"do not determine the states: equations 0, 1 depend"):
        ks.simulate(same, TIME, {x: 0.0, y: 0.0}, method="midpoint")
    with pytest.raises(ValueError, match=r"do not determine the states: equations 0, 1 depend"):
        ks.consistent(same, TIME, {x: 0.0, y: 0.0})


def test_what_needs_all_rates():
    """At index 1 the state is named that has none."""
    with pytest.raises(
        ValueError, match=r"has index 1, the scheme s is for models of index 0: i f"
    ):
        check_index(circuit(), 0, "the scheme s")
    with pytest.raises(ValueError, match=r"no explicit derivatives: state i has no derivative"):
        ks.simulate(circuit(), TIME, {"v": 0.0, "i": 0.0}, inputs={u: 3.0}, method="rk4")


# -- index 1 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["backward-euler", "midpoint", "trapezoid"])
def test_algebraic_states_are_found_at_the_start(method):
    """The current into an empty capacitor is u / R, whatever was guessed; then it decays."""
    run = ks.simulate(circuit(), TIME, {"v": 0.0, "i": 77.0}, inputs={u: 3.0}, method=method)
    assert run["i"][0] == pytest.approx(1.5, rel=1e-14)
    np.testing.assert_allclose(run["v"], 3.0 * (1.0 - np.exp(-2.0 * TIME)), atol=0.02)


def test_missing_values_are_named_at_once():
    """Of algebraic states a guess is asked for."""
    with pytest.raises(ValueError) as caught:
        ks.simulate(ks.models.cartesian_pendulum(), TIME, {"x": 1.0})
    words = str(caught.value)
    assert words.startswith("the initial values of states y, u, v are missing; add them to")
    with pytest.raises(ValueError, match=r"states v, i are missing; .* the algebraic i$"):
        ks.simulate(circuit(), TIME, {}, inputs={u: 3.0}, method="midpoint")


def test_runs_go_on_from_where_they_ended():
    """From the very values, also where a method leaves algebraic states off their equations."""
    model, start, options = circuit(), {"v": 0.0, "i": 0.0}, {"inputs": {u: 3.0}}
    options["method"] = "midpoint"
    whole = ks.simulate(model, TIME, start, **options)
    half = ks.simulate(model, TIME[:51], start, **options)
    rest = ks.simulate(model, TIME[50:], half.final, **options)
    assert rest["i"][0] == half["i"][-1]
    np.testing.assert_allclose(rest["v"], whole["v"][50:], rtol=1e-12)


def test_ensemble():
    """Each member has its own algebraic states, from its own parameters and inputs."""
    given = {"v": [0.0, 0.5, 1.0], "i": 0.0}
    levels = np.array([[1.0], [2.0], [3.0]]) * np.ones(len(TIME))
    runs = ks.simulate(
        circuit(), TIME, given, {R: [1.0, 2.0, 4.0]}, {u: levels}, method="backward-euler"
    )
    np.testing.assert_allclose(runs["i"][:, 0], [1.0, 0.75, 0.5], rtol=1e-14)
    start = ks.consistent(circuit(), TIME, given, {R: [1.0, 2.0, 4.0]}, {u: levels})
    np.testing.assert_allclose(start["i"], [1.0, 0.75, 0.5], rtol=1e-14)


def test_nonlinear_algebraic_state():
    """y^3 + y = x from a far guess; no real root of y^2 = x for a negative x."""
    cubic = ks.Model("cubic", [x, y], [], [], [x.diff(t) + y, y**3 + y - x])
    run = ks.simulate(cubic, TIME, {x: 10.0, y: -30.0}, method="backward-euler")
    assert run["y"][0] == pytest.approx(2.0, rel=1e-13)
    square = ks.Model("square", [x, y], [], [], [x.diff(t) + y, y**2 - x])
    with pytest.raises(ValueError, match=r"violate equation 1, -x \+ y\*\*2 = 0 by "):
        ks.simulate(square, TIME, {x: -1.0, y: 1.0}, method="backward-euler")
    both = ks.simulate(square, TIME, {x: 4.0, y: -1.0}, method="backward-euler")
    assert both["y"][0] == pytest.approx(-2.0, rel=1e-13)  # the root on the side of the guess


def test_combinations():
    """A capacitor between two nodes: initial voltages that agree with no current are named."""
    floating = ks.Model(
        "floating",
        [x, y],
        [u],
        [C, R],
        [C * (x.diff(t) - y.diff(t)) + (x - u) / R, C * (y.diff(t) - x.diff(t)) + y / R],
        values={C: 0.1, R: 1.0},
    )
    start = {x: 0.5, y: 0.5}
    run = ks.simulate(floating, TIME, start, inputs={u: 1.0}, method="backward-euler", substeps=20)
    np.testing.assert_allclose(run["x"] + run["y"], 1.0, atol=1e-12)
    decay = 0.5 * np.exp(-TIME / 0.2)
    np.testing.assert_allclose(run["y"], decay, atol=2e-3)
    with pytest.raises(ValueError, match="equations 0, 1 determine something only in combination"):
        ks.simulate(floating, TIME, {x: 0.7, y: 0.5}, inputs={u: 1.0}, method="backward-euler")
    found = ks.consistent(floating, TIME, {x: 0.7, y: 0.5}, inputs={u: 1.0}, keep=["x"])
    assert found["y"] == pytest.approx(0.3, rel=1e-12) and found["x"] == 0.7


def test_index_0_of_an_algebraic_model():
    """Explicit methods run an RC circuit once its current is the rate of a charge."""
    reduced = circuit().reduced_index(index=0)
    assert reduced.state_names == ("v", "i_integral")
    run = ks.simulate(reduced, TIME, {"v": 0.0, "i_integral": 0.0}, inputs={u: 3.0})
    np.testing.assert_allclose(run["v"], 3.0 * (1.0 - np.exp(-2.0 * TIME)), atol=1e-8)
    np.testing.assert_allclose(run["i"], 1.5 * np.exp(-2.0 * TIME), atol=1e-8)
    np.testing.assert_allclose(run["i_integral"], 0.25 * run["v"], atol=1e-12)
    free = ks.simulate(reduced, TIME, {"v": 0.0}, inputs={u: 3.0})  # a charge may start anywhere
    assert np.array_equal(free["i"], run["i"])
    names = (reduced.name, reduced.states, reduced.inputs, reduced.parameters, reduced.equations)
    alike = ks.Model(*names, outputs=reduced.outputs, values=reduced.values)
    with pytest.raises(ValueError, match="initial value of state i_integral is missing"):
        ks.simulate(alike, TIME, {"v": 0.0}, inputs={u: 3.0})


# -- consistent initial values -------------------------------------------------------------------


def test_violated_constraints_are_named():
    pendulum = ks.models.cartesian_pendulum()
    with pytest.raises(ValueError, match=r"violate equation 4, .* = 0 by 0\.01; .*ks\.consistent"):
        ks.consistent(pendulum, TIME, {**LEVEL, "y": 0.1})
    with pytest.raises(ValueError, match=r"the first derivative of equation 4, .* by 0\.6;"):
        ks.consistent(pendulum, TIME, {**LEVEL, "u": 0.3})
    with pytest.raises(ValueError, match="of member 1 violate equation 4"):
        ks.consistent(pendulum, TIME, {**LEVEL, "y": [0.0, 0.1]})
    with pytest.raises(ValueError, match=r"violate .* keep fewer states"):
        ks.consistent(pendulum, TIME, {**LEVEL, "x": 2.0}, keep=["x"])
    with pytest.raises(ValueError, match="keep: angle is not a state"):
        ks.consistent(pendulum, TIME, LEVEL, keep=["angle"])


@pytest.mark.parametrize("index", [0, 1, 2])
def test_reduced_models_start_on_their_constraints(index):
    """Which would decay, or stay violated, without a word."""
    stabilisation = "gear-gupta-leimkuhler" if index == 2 else "baumgarte"
    reduced = ks.models.cartesian_pendulum().reduced_index(stabilisation, index)
    method = "radau-5" if index else "dormand-prince"
    for wrong, words in (
        ({"y": 0.1}, r"violate (constraint_4|equation \d), .* = 0 by 0\.01.*ks\.consistent"),
        ({"u": 0.3}, r"violate (constraint_4_rate|equation \d), .* = 0 by 0\.6; .*ks\.consistent"),
        ({"y": [0.0, 0.1]}, "of member 1 violate"),
    ):
        start = explicit_start(reduced, {**LEVEL, **wrong})
        with pytest.raises(ValueError, match=words):
            ks.simulate(reduced, TIME, start, method=method)
    guess = explicit_start(reduced, {**LEVEL, "x": 0.6, "y": -1.0, "u": 0.4})
    found = ks.consistent(reduced, TIME, guess, keep=["x", "u"])
    assert (found["y"], found["v"]) == pytest.approx((-0.8, 0.3), rel=1e-11)


def test_kept_states_stand():
    """x and u of a pendulum are known, the rest follows; the tension carries weight and motion."""
    pendulum = ks.models.cartesian_pendulum()
    guess = {**LEVEL, "x": 0.6, "y": -1.0, "u": 0.4}
    found = ks.consistent(pendulum, TIME, guess, keep=["x", "u"])
    assert (found["x"], found["u"]) == (0.6, 0.4)
    assert found["y"] == pytest.approx(-0.8, rel=1e-13)
    assert found["v"] == pytest.approx(0.3, rel=1e-12)
    assert found["tension"] == pytest.approx(9.81 * 0.8 + 0.4**2 + 0.3**2, rel=1e-12)
    nearest = ks.consistent(pendulum, TIME, {**LEVEL, "x": 0.9, "y": -1.2}, keep=[])
    assert np.hypot(nearest["x"], nearest["y"]) == pytest.approx(1.0, rel=1e-12)
    assert nearest["y"] / nearest["x"] == pytest.approx(-4.0 / 3.0, rel=0.02)
    ode = ks.models.pendulum()
    assert ks.consistent(ode, TIME, {"theta": 0.1, "omega": 0.2}) == {"theta": 0.1, "omega": 0.2}


def four_bar_start(linkage):
    guess = dict.fromkeys(linkage.state_names, 0.0)
    places = zip(
        "x_1 y_1 phi_1 x_2 y_2 phi_2 x_3 y_3 phi_3".split(),
        [0.1, 0.1, 0.8, 0.5, 0.5, 0.3, 0.9, 0.3, 1.8],
        strict=True,
    )
    guess |= {**dict(places), "omega_1": 3.0}
    return ks.consistent(linkage, TIME, guess, keep=["phi_1", "omega_1"])


def test_four_bar_starts_closed():
    """Reactions of the start add up to the mass times acceleration of each rod, so that the energy
    of the first steps is kept; the loop closes."""
    start = four_bar_start(ks.models.four_bar())
    l1, l2, l3 = 0.3, 0.9, 0.7
    angles = np.exp(1j * np.array([start[f"phi_{k}"] for k in (1, 2, 3)]))
    assert start["phi_1"] == 0.8 and start["omega_1"] == 3.0
    assert abs(l1 * angles[0] + l2 * angles[1] - l3 * angles[2] - 1.0) < 1e-12
    rates = np.array([start[f"omega_{k}"] for k in (1, 2, 3)])
    assert abs((angles * rates) @ [l1, l2, -l3]) < 1e-12


# -- drift ---------------------------------------------------------------------------------------


def test_pendulum_does_not_drift():
    """A minute of the pendulum: constraint and its rate stay below 1e-9, energy is kept, and the
    angle is that of the equation in one coordinate."""
    reduced = ks.models.cartesian_pendulum().reduced_index(index=0)
    start = explicit_start(reduced, LEVEL)
    options = {"method": "dormand-prince", "rtol": 1e-11, "atol": 1e-13}
    run = ks.simulate(reduced, MINUTE, start, **options)
    assert drift(run) < 1e-10 and drift(run, "_rate") < 1e-9
    assert np.abs(run["energy"] - run["energy"][0]).max() < 1e-8
    exact = solve_ivp(
        lambda _, s: [s[1], -9.81 * np.sin(s[0])],
        (0.0, 60.0),
        [np.pi / 2, 0.0],
        method="DOP853",
        rtol=1e-12,
        atol=1e-13,
        t_eval=MINUTE,
    ).y
    np.testing.assert_allclose(run["x"], np.sin(exact[0]), atol=3e-7)
    tension = 9.81 * np.cos(exact[0]) + exact[1] ** 2
    np.testing.assert_allclose(run["tension"], tension, atol=3e-6)


def test_four_bar_does_not_drift():
    """The same of nine coordinates with eight constraints; the crank turns all round."""
    linkage = ks.models.four_bar()
    reduced = linkage.reduced_index(index=0)
    start = explicit_start(reduced, four_bar_start(linkage))
    options = {"method": "dormand-prince", "rtol": 1e-11, "atol": 1e-13}
    run = ks.simulate(reduced, MINUTE, start, **options)
    assert len(run.time) == len(MINUTE)
    assert drift(run) < 1e-10 and drift(run, "_rate") < 1e-9
    assert np.abs(run["energy"] - run["energy"][0]).max() < 1e-7


def test_implicit_methods_run_index_1():
    """Baumgarte's form with the tension as an algebraic state: second order, and no wild energy."""
    pendulum = ks.models.cartesian_pendulum()
    reduced, time = pendulum.reduced_index(), np.linspace(0.0, 2.0, 201)
    start = ks.consistent(pendulum, time, LEVEL)
    found = [
        ks.simulate(reduced, time, start, method="midpoint", substeps=k)["x"] for k in (5, 10, 20)
    ]
    first, second = np.abs(found[0] - found[1]).max(), np.abs(found[1] - found[2]).max()
    assert np.log2(first / second) == pytest.approx(2.0, abs=0.1)


def test_multipliers_keep_constraints_to_rounding():
    """Gear, Gupta and Leimkuhler: constraint and rate hold at every node; multipliers vanish."""
    pendulum = ks.models.cartesian_pendulum()
    reduced = pendulum.reduced_index("gear-gupta-leimkuhler")
    start = {**ks.consistent(pendulum, TIME, LEVEL), "mu_4": 0.0}
    run = ks.simulate(reduced, MINUTE, start, method="backward-euler", substeps=2)
    assert drift(run) < 1e-13 and drift(run, "_rate") < 1e-12


@pytest.mark.parametrize(
    ("method", "off"),
    [(None, 2e-5), ("dormand-prince", 1e-8), ("radau-5", 1e-7), ("gauss-4", 2e-5)],
)
def test_any_method_runs_a_model_with_constraints(method, off):
    """As its reduced model: the default, explicit and implicit methods; the tension, of which no
    guess is needed, comes with it. The angle is that of the equation in one coordinate."""
    time = np.linspace(0.0, 2.0, 201)
    start = {"x": 0.6, "y": -0.8, "u": 0.0, "v": 0.0} | ({"tension": 0.0} if method else {})
    run = ks.simulate(ks.models.cartesian_pendulum(), time, start, method=method)
    rest = {"theta": np.arcsin(0.6), "omega": 0.0}
    exact = ks.simulate(ks.models.pendulum(), time, rest, {"p": 9.81}, method="dormand-prince")
    np.testing.assert_allclose(run["x"], np.sin(exact["theta"]), atol=off)
    tension = 9.81 * np.cos(exact["theta"]) + exact["omega"] ** 2
    np.testing.assert_allclose(run["tension"], tension, atol=40 * off)
    assert drift(run) < 4 * off


def test_further_algebraic_states_need_no_guess():
    """Where q' are not solved for, an implicit method has the second derivatives, too."""
    plain, time = ks.models.cartesian_pendulum(), np.linspace(0.0, 1.0, 51)
    px, py, pu, pv, _ = plain.states
    turned = [
        (2 + px) * (px.diff(t) - pu) + py.diff(t) - pv,
        px.diff(t) - pu - 3 * (py.diff(t) - pv),
    ]
    mixed = plain.substitute({}, equations=[*turned, *plain.equations[2:]])
    start = {"x": 0.6, "y": -0.8, "u": 0.0, "v": 0.0, "tension": 0.0}
    runs = [ks.simulate(made, time, start, method="radau-5") for made in (plain, mixed)]
    np.testing.assert_allclose(runs[1]["x"], runs[0]["x"], atol=1e-7)


@pytest.mark.parametrize(("scheme", "left"), [("radau-3", 1e-13), ("midpoint", 1e-3)])
def test_collocation_takes_a_model_with_constraints(scheme, left):
    """Its length from its angle: by radau schemes constraint and rate hold at every node."""
    time = np.linspace(0.0, 1.0, 101)
    start = {"x": 0.6, "y": -0.8, "u": 0.0, "v": 0.0}
    run = ks.simulate(ks.models.cartesian_pendulum(), time, start, method="dormand-prince")
    task = ks.Collocation(
        ks.models.cartesian_pendulum(),
        ks.Experiment(time, measurements={"x": run["x"], "y": run["y"]}),
        unknown={"L": (0.5, 2.0)},
        scheme=scheme,
    )
    found = task.solve(guess={"L": 0.8, "x": run["x"], "y": run["y"]})
    assert found.success and found.parameters["L"] == pytest.approx(1.0, rel=2e-4)
    assert drift(found.trials[0]) < left


@pytest.mark.parametrize(("method", "order", "of_tension"), [("radau-1", 1, 1), ("radau-3", 3, 2)])
def test_order_at_index_2(method, order, of_tension):
    """Radau IIA of s stages: 2 s - 1, and s for algebraic states (Hairer, Wanner, Solving Ordinary
    Differential Equations II, table VII.4.1)."""
    reduced = ks.models.cartesian_pendulum().reduced_index("gear-gupta-leimkuhler")
    angle, rate = solve_ivp(
        lambda _, q: [q[1], -9.81 * np.cos(q[0])],
        (0.0, 1.0),
        [0.0, 0.0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
    ).y[:, -1]
    counts, errors = np.array([100, 200, 400]), []
    for count in counts.tolist():
        run = ks.simulate(
            reduced, [0.0, 1.0], {**LEVEL, "mu_4": 0.0}, method=method, substeps=count
        )
        assert not run.message
        tension = rate**2 - 9.81 * np.sin(angle)
        errors.append([abs(run["x"][-1] - np.cos(angle)), abs(run["tension"][-1] - tension)])
    slopes = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    np.testing.assert_allclose(slopes, [order, of_tension], atol=0.15)


# -- everywhere ----------------------------------------------------------------------------------


def test_reduced_models_are_ordinary_models():
    """With events, by shooting (which reduces the index itself), by collocation: same gravity."""
    pendulum = ks.models.cartesian_pendulum()
    reduced = pendulum.reduced_index(index=0)
    time, start = np.linspace(0.0, 2.0, 201), explicit_start(reduced, LEVEL)
    run = ks.simulate(reduced, time, start, method="dormand-prince")
    events = ks.simulate(Hybrid(reduced), time, start)
    np.testing.assert_allclose(events["tension"], run["tension"], atol=1e-10)
    trial = ks.Experiment(time=time, measurements={"x": run["x"], "tension": run["tension"]})
    shooting = ks.Shooting(
        pendulum, trial, unknown={"g": (5, 15)}, initial=LEVEL, method="rk4", substeps=5
    )
    assert shooting.solve({"g": 8.0}).parameters["g"] == pytest.approx(9.81, rel=1e-7)
    problem = ks.Collocation(reduced, trial, unknown={"g": (5, 15)}, scheme="midpoint")
    assert problem.solve({"g": 8.0, "y": -0.5}).parameters["g"] == pytest.approx(9.81, rel=1e-3)


@pytest.mark.parametrize(
    ("stabilisation", "scheme"),
    [
        ("baumgarte", "radau-3"),
        ("baumgarte", "gauss-4"),
        ("baumgarte", "hermite-simpson"),
        ("gear-gupta-leimkuhler", "radau-5"),
    ],
)
def test_a_fit_starts_on_the_constraints(stabilisation, scheme):
    """Gravity and its standard error are those by the angle alone, and so is the tension, from the
    first node on; a start that is given is not asked for again."""
    index = 0 if scheme == "hermite-simpson" else None
    reduced = ks.models.cartesian_pendulum().reduced_index(stabilisation, index)
    angle, time = ks.models.pendulum(), np.linspace(0.0, 3.0, 151)
    run = ks.simulate(angle, time, {"theta": 1.0, "omega": 0.5}, {"p": 9.81}, substeps=10)
    noisy = np.sin(run["theta"]) + 0.01 * np.random.default_rng(0).standard_normal(151)
    by_angle = angle.extended(outputs={"x": sp.sin(angle.states[0])})
    trial = ks.Experiment(time, measurements={"x": noisy}, std={"x": 0.01})
    right = ks.Collocation(by_angle, trial, {"p": (1, 30)}, scheme="radau-5")
    truth = right.solve({"p": 9.0, "theta": run["theta"]})
    fit = ks.Collocation(reduced, trial, {"g": (1, 30)}, scheme=scheme)
    found = fit.solve({"g": 9.0, "y": -0.7})
    for name in reduced.invariants:
        assert abs(found[name][0]) < 1e-8
    shown = {*found.grid_error().states, *found.grid_error().defects}  # what is zero is not
    assert shown == {*reduced.state_names} - {*reduced.vanishing}
    error = np.sqrt(right.covariance(truth)[0, 0])
    assert found.parameters["g"] == pytest.approx(truth.parameters["p"], abs=0.05 * error)
    assert np.sqrt(fit.covariance(found)[0, 0]) == pytest.approx(error, rel=0.01)
    tension = truth["omega"] ** 2 + truth.parameters["p"] * np.cos(truth["theta"])
    np.testing.assert_allclose(found["tension"], tension, atol=2e-3 * np.ptp(tension))
    x, y, u, v = reduced.states[:4]
    at = ks.at_start
    given = [at(x) - 1, at(y), at(u)]
    count = fit.n_constraints
    fixed = ks.Collocation(reduced, trial, {"g": (1, 30)}, scheme=scheme, boundary=given)
    assert fixed.n_constraints == count - 2 + 3 + 1  # the rate alone, for v
    by_hand = [at(x) ** 2 + at(y) ** 2 - 1, at(x) * at(u) + at(y) * at(v)]
    again = ks.Collocation(reduced, trial, {"g": (1, 30)}, scheme=scheme, boundary=by_hand)
    assert again.solve({"g": 9.0, "y": -0.7}).success


@pytest.mark.parametrize("stabilisation", ["baumgarte", "gear-gupta-leimkuhler"])
def test_shooting_does_not_leave_the_constraints(stabilisation):
    """It has no conditions at the start: what they bind must be known."""
    swing = ks.models.cartesian_pendulum()
    reduced = swing.reduced_index(stabilisation)
    start = {**dict.fromkeys(reduced.state_names, 0.0), **LEVEL}
    trial = ks.Experiment(time=TIME, measurements={"x": np.cos(TIME)})

    def shooting(unknown, **free):
        return ks.Shooting(reduced, trial, unknown, initial={**start, **free}, method="radau-3")

    for free in ({"x": None}, {"y": (-1, 1)}, {"u": None, "v": None}):
        words = f"{' and '.join(free)} cannot be unknown: a motion of .* must start with constraint"
        with pytest.raises(ValueError, match=words):
            shooting({"g": (5, 15)}, **free)
    with pytest.raises(ValueError, match=r"L cannot be unknown: .* or use ks\.Collocation"):
        shooting({"L": (0.5, 2)})
    assert shooting({"g": (5, 15)}, tension=None).names == ["g", "tension(0)"]


def test_driven_mechanism():
    """An angle that is given: its rates are inputs of the reduced model, the torque is found."""
    angle, rate, torque, drive = ks.dynamicsymbols("angle rate torque drive")
    turned = ks.Model(
        "turned",
        [angle, rate, torque],
        [drive],
        [],
        [angle.diff(t) - rate, 0.5 * rate.diff(t) - torque, angle - drive],
    )
    reduced = turned.reduced_index()
    assert reduced.input_names == ("drive", "drive_rate", "drive_rate_rate")
    given = {"drive": ks.Signal(TIME, np.sin(2 * TIME), between="cubic")}
    start = ks.consistent(turned, TIME, dict.fromkeys(turned.state_names, 0.0), None, given, [])
    assert start["rate"] == pytest.approx(2.0, rel=1e-4)  # of the spline
    start = {"angle": 0.0, "rate": 2.0, "torque": 0.0}
    given |= {"drive_rate": 2 * np.cos(2 * TIME), "drive_rate_rate": -4 * np.sin(2 * TIME)}
    run = ks.simulate(reduced, TIME, start, inputs=given, method="midpoint")
    np.testing.assert_allclose(run["angle"], np.sin(2 * TIME), atol=1e-4)
    middle = 0.5 * (run["torque"][1:] + run["torque"][:-1])
    np.testing.assert_allclose(middle, -2 * np.sin(TIME[1:] + TIME[:-1]), atol=1e-2)


# -- starts on constraints -----------------------------------------------------------------------


def turned(boundary, scheme):
    """A unit vector (a, b) that turns, its length by an equation in place of a rate."""
    a, b, rate = ks.dynamicsymbols("a b rate")
    equations = [a * b.diff(ks.t) - b * a.diff(ks.t) - rate, a**2 + b**2 - 1]
    return ks.Collocation(
        ks.Model("turned", [a, b], [rate], [], equations),
        ks.Experiment(np.linspace(0.0, 1.0, 41)),
        objective=ks.Integral(rate**2),
        unknown_inputs={rate: (-9, 9)},
        boundary=boundary(a, b),
        scheme=scheme,
    )


@pytest.mark.parametrize("scheme", ["backward-euler", "radau-3", "gauss-4"])
def test_what_is_open_at_the_start_is_on_the_constraint(scheme):
    """From (1, 0), of which b alone is said, by a quarter of a turn."""
    ends = turned(lambda a, b: [ks.at_start(b), ks.at_end(a)], scheme)
    found = ends.solve(guess={"a": 0.7, "b": 0.7})
    assert found.success
    assert found["a"][0] == pytest.approx(1.0, abs=1e-8)
    if scheme != "backward-euler":
        assert found.objective == pytest.approx((np.pi / 2) ** 2, rel=1e-3)


def test_starts_off_the_constraint_are_refused():
    words = r"fix at the start violates the constraint .* = 0 by 0.75; correct one of them"
    with pytest.raises(ValueError, match=words):
        turned(lambda a, b: [ks.at_start(a) - 0.5, ks.at_start(b), ks.at_end(a)], "radau-3")


@pytest.mark.parametrize("end", [2.0, -1.0])
def test_a_constraint_with_a_state_alone_as_a_term(end):
    """A bead on a parabola y = x^2 with all starts given: along x a straight line in time."""
    x, y, pull, speed = ks.dynamicsymbols("x y pull speed")
    equations = [x.diff(ks.t) - speed, y.diff(ks.t) - pull, y - x**2]

    def bead(*start):
        return ks.Collocation(
            ks.Model("bead", [x, y, pull], [speed], [], equations),
            ks.Experiment(np.linspace(0.0, 1.0, 11)),
            objective=ks.Integral(speed**2),
            unknown_inputs={speed: None},
            boundary=[*start, ks.at_end(x) - end],
        )

    found = bead(ks.at_start(x) - 1, ks.at_start(y) - 1).solve()
    assert found.success and found.objective == pytest.approx((end - 1.0) ** 2, rel=1e-8)
    with pytest.raises(ValueError, match=r"violates the constraint .* = 0 by 3; correct one"):
        bead(ks.at_start(x) - 1, ks.at_start(y) - 4)


def test_a_guess_at_which_nothing_changes_is_moved():
    """0 = 2 A^2 - X - 16: from A = 0 Newton's method has no direction; 3 or -3 as X goes to 2."""
    X, A = ks.dynamicsymbols("X A")
    model = ks.Model("steady", [X, A], [], [], [X.diff(ks.t) - 1 + X / 2, 2 * A**2 - X - 16])
    time = np.linspace(0.0, 100.0, 3)
    with pytest.warns(UserWarning, match=r"the guess of A is singular.*ended at 2\.83725"):
        run = ks.simulate(model, time, {X: 0.1, A: 0.0}, method="radau-5")
    assert run["A"][-1] == pytest.approx(3.0, abs=1e-9)
    run = ks.simulate(model, time, {X: 0.1, A: -1.0}, method="radau-5")
    assert run["A"][-1] == pytest.approx(-3.0, abs=1e-9)
    none = ks.Model("none", [X, A], [], [], [X.diff(ks.t) - 1 + X / 2, A**2 + X + 1])
    with pytest.raises(ValueError, match=r"the guess of A is singular.*guess another value"):
        ks.simulate(none, time, {X: 0.1, A: 0.0}, method="radau-5")
