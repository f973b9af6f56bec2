"""Costs of both ends: `Terminal` with `at_start` in it."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import approx_fprime

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
k = sp.Symbol("k")
MODEL = ks.Model("swing", [x, v], [u], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(x) - u])
COSTS = {
    "start": ks.Terminal(ks.at_start(v) ** 2),
    "difference": ks.Terminal((x - ks.at_start(x)) * k),
    "product": ks.Terminal(sp.cos(v) * ks.at_start(x * v) + ks.at_end(x) ** 2 * ks.t),
    "with others": ks.Terminal(ks.at_start(v) ** 2 * k) + ks.Integral(u**2),
}
SCHEMES = ("radau-5", "midpoint", "hermite-simpson", "gauss-4")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", COSTS)
def test_derivatives(scheme, name):
    problem = ks.Collocation(
        MODEL,
        ks.Experiment(nodes=5, duration=(0.5, 3.0)),
        {k: (0.1, 9.0)},
        objective=COSTS[name],
        unknown_inputs={u: None},
        boundary=[ks.at_end(x) - 1],
        scheme=scheme,
    )
    z = np.random.default_rng(0).uniform(0.5, 1.5, problem.n_variables)
    slopes = problem.cost_gradient(z)
    np.testing.assert_allclose(slopes, approx_fprime(z, problem.cost, 1e-7), atol=1e-5)
    curves = problem.lagrangian_hessian(z, np.zeros(problem.n_constraints)).toarray()
    step = 1e-6 * np.random.default_rng(1).standard_normal(len(z))
    change = problem.cost_gradient(z + step) - problem.cost_gradient(z - step)
    np.testing.assert_allclose(change, 2.0 * curves @ step, atol=1e-11)


def test_the_least_speed_that_reaches_a_height():
    """Straight up through drag: from energy, v0^2 = (g/c)(exp(2 c h) - 1) with drag c v^2."""
    climb = ks.Model("shot", [x, v], [], [], [x.diff(ks.t) - v, v.diff(ks.t) + 9.81 + 0.1 * v**2])
    problem = ks.Collocation(
        climb,
        ks.Experiment(nodes=41, duration=(0.1, 3.0)),
        objective=ks.Terminal(ks.at_start(v) ** 2),
        boundary=[ks.at_start(x), ks.at_end(x) - 2.0, ks.at_end(v) >= 0],
        scheme="radau-5",
    )
    found = problem.solve({"duration": 1.0, v: 5.0})
    assert found.success
    assert found.objective == pytest.approx(9.81 / 0.1 * (np.exp(0.4) - 1.0), rel=1e-6)


def test_each_trial_has_a_start_of_its_own():
    time = np.linspace(0.0, 1.0, 11)
    trials = [ks.Experiment(time, measurements={x: b + 0.1 * time}, std={x: 1.0}) for b in (1, 2)]
    drift = ks.Model("drift", [x], [], [k], [x.diff(ks.t) - k])
    objective = ks.LeastSquares() + 11.0 * ks.Terminal(ks.at_start(x) ** 2)
    found = ks.Collocation(drift, trials, {}, {k: 0.1}, objective=objective).solve()
    np.testing.assert_allclose([run["x"][0] for run in found.trials], [0.5, 1.0], rtol=1e-8)


def test_shooting():
    time = np.linspace(0.0, 1.0, 11)
    swing = ks.Model("free", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(x)])
    cost = ks.Terminal((x - 1) ** 2 + 0.1 * ks.at_start(v) ** 2 * k)
    about = {"initial": {x: 0.0, v: (0.0, 9.0)}, "objective": cost}
    problem = ks.Shooting(swing, ks.Experiment(time), {k: (0.5, 3.0)}, **about)
    q = np.array([1.3, 2.0])
    slopes = problem.gradient(q)
    np.testing.assert_allclose(slopes, approx_fprime(q, problem.cost, 1e-7), rtol=1e-5)
    with pytest.raises(
        ValueError, match="the terminal cost is about the start, too; use one of bfgs"
    ):
        problem.solve(q, optimizer="least-squares")
    assert problem.solve(q).success
    with pytest.raises(ValueError, match="no continuous adjoint of at_start"):
        ks.ContinuousAdjoint(swing, cost)
