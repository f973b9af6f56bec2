"""Runge-Kutta in C against SciPy's DOP853, closed forms and reference numbers."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym.examples.standing import platform_acceleration

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")


def test_order_four():
    """Errors of a driven nonlinear oscillator fall by 2^4 when the step is halved."""
    model = ks.Model("o", [x, v], [], [], [x.diff(t) - v, v.diff(t) + sp.sin(x) - sp.cos(3 * t)])
    exact = solve_ivp(
        lambda s, y: [y[1], -np.sin(y[0]) + np.cos(3 * s)],
        (0, 5),
        [1.0, 0.0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
    ).y[0, -1]
    errors = []
    for substeps in (1, 2, 4, 8):
        run = ks.simulate(model, np.linspace(0, 5, 51), {x: 1.0, v: 0.0}, substeps=substeps)
        errors.append(abs(run["x"][-1] - exact))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (orders > 3.7).all() and errors[-1] < 1e-8


@pytest.mark.parametrize(("between", "expected"), [("linear", 0.5), ("held", 0.0)])
def test_between_samples(between, expected):
    """x' = u with u rising from 0 to 1: exact for lines and for steps."""
    model = ks.Model("i", [x], [u], [], [x.diff(t) - u])
    time = [0.0, 1.0, 3.0]
    rising = ks.Signal(time, [0.0, 1.0, 1.0], between)
    run = ks.simulate(model, time, {x: 0.0}, inputs={u: rising}, substeps=3)
    np.testing.assert_allclose(run["x"], [0.0, expected, expected + 2.0], rtol=1e-14)


def test_implicit_mass_matrix():
    """A chain of five links: x' solves the residual, and the energy of a free chain stays."""
    model = ks.models.n_link_pendulum_on_cart(5)
    f = ks.compile(model)
    rng = np.random.default_rng(3)
    states, p = rng.normal(size=(12, 20)), rng.uniform(0.5, 2.0, size=len(f.parameters))
    force = rng.normal(size=(1, 20))
    rates = f.rhs(states, force, p)
    assert np.abs(f.residual(rates, states, force, p)).max() < 1e-11 * np.abs(rates).max()


def test_standing_closed_loop_reference():
    """Extremes and final state of the closed loop under motion set A (independent engine)."""
    fine = np.arange(5999 * 10 + 1) / 1000.0
    states = ["theta_a", "theta_h", "omega_a", "omega_h"]
    run = ks.simulate(
        ks.models.standing(),
        fine,
        dict.fromkeys(states, 0.0),
        inputs={"a": platform_acceleration(fine) / 2.5},
    )
    sampled = np.array([run[name][::10] for name in states])
    np.testing.assert_allclose(
        np.abs(sampled).max(axis=1), [0.109157, 0.168764, 0.446988, 0.977850], rtol=1e-5
    )
    final = [0.01790555900, -0.01387587600, 0.07035663420, -0.32748284467]
    np.testing.assert_allclose(sampled[:, -1], final, atol=2e-6)


def test_optimal_input_swings_up():
    """The torque found by collocation, replayed by Runge-Kutta, brings the pendulum upright."""
    from kinesym.examples.swing_up import least_effort, pendulum

    solution = least_effort(1001)
    assert solution.success
    run = ks.simulate(
        pendulum(),
        solution.time,
        {"theta": 0.0, "omega": 0.0},
        inputs={"T": solution["T"]},
        substeps=4,
    )
    assert run["theta"][-1] == pytest.approx(np.pi, abs=0.1)
    assert run["omega"][-1] == pytest.approx(0.0, abs=0.1)
    assert np.abs(solution["T"]).max() <= 2.0 + 1e-7


def test_least_time_is_bang_bang():
    from kinesym.examples.swing_up import least_time

    solution = least_time(501)
    assert solution.success
    assert solution.duration == pytest.approx(solution.objective, rel=1e-12)
    assert np.mean(np.abs(np.abs(solution["T"]) - 2.0) < 1e-3) > 0.95


def test_bryson_denham():
    """min integral u^2/2 with x <= 1/9: the exact optimum is 4 (Bryson, Denham 1963)."""
    model = ks.Model("bd", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
    task = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, 401)),
        unknown_inputs={u: None},
        objective=ks.Integral(u**2 / 2),
        bounds={x: (None, 1 / 9)},
        boundary=[ks.at_start(x), ks.at_start(v) - 1, ks.at_end(x), ks.at_end(v) + 1],
    )
    assert task.solve().objective == pytest.approx(4.0, rel=1e-3)


def test_brachistochrone():
    """Least time from rest along a frictionless curve: 0.82475914 s (independent, Radau)."""
    y, w, a = ks.dynamicsymbols("y w a")
    model = ks.Model(
        "b",
        [x, y, w],
        [a],
        [],
        [x.diff(t) - w * sp.sin(a), y.diff(t) - w * sp.cos(a), w.diff(t) - 9.8 * sp.cos(a)],
    )
    ends = [ks.at_start(s) for s in (x, y, w)] + [ks.at_end(x) - 2, ks.at_end(y) - 2]
    task = ks.Collocation(
        model,
        ks.Experiment(nodes=401, duration=(0.1, 5.0)),
        objective=ks.Terminal(t),
        unknown_inputs={a: (0, np.pi)},
        bounds=dict.fromkeys((x, y, w), (0, 20)),
        boundary=ends,
    )
    solution = task.solve(
        guess={
            a: 0.8,
            "duration": 1.0,
            x: np.linspace(0, 2, 401),
            y: np.linspace(0, 2, 401),
            w: np.linspace(0, 6, 401),
        }
    )
    assert solution.success
    assert solution.duration == pytest.approx(0.82475914, rel=1e-5)


@pytest.mark.parametrize("method", ["rk4", "dormand-prince", "radau-5", "gauss-4"])
@pytest.mark.parametrize("nodes", [2, 31])
def test_a_model_without_states_shows_its_outputs(method, nodes):
    u, k = ks.dynamicsymbols("u"), sp.Symbol("k")
    model = ks.Model("still", [], [u], [k], [], {"y": k * u * ks.t})
    time = np.linspace(0.0, 1.0, nodes)
    run = ks.simulate(model, time, {}, {k: 2.0}, {u: 3.0}, method=method)
    assert np.array_equal(run["y"], 6.0 * time) and run.error().largest == 0.0
    with pytest.raises(ValueError, match="model still has no states"):
        ks.sensitivities(model, time, {}, {k: 2.0}, {u: 3.0})
