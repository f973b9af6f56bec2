"""The Gauss-Newton Hessian of collocation: J' W J of the measurements, constraints as if linear."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

theta, omega, T = ks.dynamicsymbols("theta omega T")
p = sp.Symbol("p")
TIME = np.linspace(0.0, 4.0, 161)
STD = 0.02


def model():
    """A pendulum whose height is measured: the residual is not linear in the state."""
    return ks.Model(
        "pendulum",
        [theta, omega],
        [T],
        [p],
        [theta.diff(ks.t) - omega, omega.diff(ks.t) + p * sp.sin(theta) - T],
        outputs={"height": -sp.cos(theta)},
    )


def problem(scheme="midpoint", noise=0.0, objective=None, **changes):
    run = ks.simulate(model(), TIME, {theta: 1.0, omega: 0.0}, {p: 10.0}, {T: 0.0})
    rng = np.random.default_rng(1)
    measured = {
        name: run[name] + noise * rng.standard_normal(len(TIME)) for name in ("theta", "height")
    }
    measured["height"][::7] = np.nan
    trial = ks.Experiment(TIME, inputs={T: 0.0 * TIME}, measurements=measured, std={"height": STD})
    return ks.Collocation(
        model(), trial, unknown={p: (1.0, 50.0)}, scheme=scheme, objective=objective, **changes
    )


def hessian(task, z):
    """The Gauss-Newton Hessian, dense and symmetric."""
    nlp = task.problem.gauss_newton
    rows, columns = nlp.hessian_structure.arrays()
    full = np.zeros((len(z), len(z)))
    np.add.at(full, (rows, columns), nlp.hessian(z, np.ones(nlp.n_constraints), 1.5))
    return full + full.T - np.diag(full.diagonal())


@pytest.mark.parametrize(
    "scheme", ["midpoint", "backward-euler", "trapezoid", "radau-3", "gauss-6", "lobatto-4"]
)
def test_entries(scheme):
    """2 f (1 + sin(theta)^2/std^2) at each node, nothing else: theta is linear, height is not."""
    task = problem(scheme)
    rng = np.random.default_rng(2)
    z = rng.uniform(0.5, 1.5, task.n_variables)
    expected = np.zeros((len(z), len(z)))
    seen = ~np.isnan(task.trials[0].measurements["height"])
    angles = z[: len(TIME)]
    diagonal = 2.0 * 1.5 * (1.0 + seen * (np.sin(angles) / STD) ** 2)
    np.fill_diagonal(expected[: len(TIME), : len(TIME)], diagonal)
    np.testing.assert_allclose(hessian(task, z), expected, rtol=1e-13)


@pytest.mark.parametrize("scheme", ["midpoint", "trapezoid"])
def test_what_is_not_squared_keeps_its_hessian(scheme):
    """LeastSquares + Integral: the second derivatives of the integrand, at the middle of each
    interval or at its ends, are exact."""
    objective = ks.LeastSquares() + ks.Integral(omega**4)
    task = problem(scheme, objective=objective)
    z = np.random.default_rng(3).uniform(0.5, 1.5, task.n_variables)
    N = len(TIME)
    speeds = z[N : 2 * N]
    found = hessian(task, z)[N : 2 * N, N : 2 * N]
    expected = np.zeros((N, N))
    for i, h in enumerate(np.diff(TIME)):
        if scheme == "midpoint":
            block = np.full((2, 2), 0.25 * (speeds[i : i + 2].mean()) ** 2)
        else:
            block = np.diag(0.5 * speeds[i : i + 2] ** 2)
        expected[i : i + 2, i : i + 2] += 1.5 * 12.0 * h * block
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("driver", ["direct", "cyipopt"])
def test_same_solution(driver):
    """Without noise Gauss-Newton converges as fast as Newton; with noise to the same optimum."""
    exact = problem(noise=STD).solve({p: 5.0}, driver=driver)
    linearised = problem(noise=STD).solve({p: 5.0}, hessian="gauss-newton", driver=driver)
    assert exact.success and linearised.success
    assert linearised.objective == pytest.approx(exact.objective, rel=1e-8)
    assert linearised.parameters["p"] == pytest.approx(exact.parameters["p"], rel=1e-6)
    clean = problem().solve({p: 5.0}, hessian="gauss-newton", driver=driver)
    assert clean.success and clean.iterations <= 15


def test_needs_measurements():
    with pytest.raises(ValueError, match="needs an objective with LeastSquares; use 'exact'"):
        problem(objective=ks.Integral(omega**2)).solve(hessian="gauss-newton")
