"""The snippets of the documented interface run as written."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.shooting.optimizers import OPTIMIZERS

t = ks.t
theta, omega = ks.dynamicsymbols("theta omega")
p = sp.Symbol("p")


@pytest.fixture(scope="module")
def pendulum():
    return ks.Model(
        name="pendulum",
        states=[theta, omega],
        inputs=[],
        parameters=[p],
        equations=[theta.diff(t) - omega, omega.diff(t) + p * sp.sin(theta)],
        outputs={"height": -sp.cos(theta)},
        values={p: 10.0},
    )


@pytest.fixture(scope="module")
def run(pendulum):
    return ks.simulate(
        pendulum,
        time=np.linspace(0, 10, 1001),
        initial={theta: 0.5, omega: 0.0},
        parameters={p: 10.0},
        inputs={},
        method="rk4",
        substeps=1,
    )


def test_define(pendulum):
    text = str(pendulum)
    for part in ("theta, omega", "p = 10", "height", "operations"):
        assert part in text
    assert repr(pendulum) == "<model pendulum: 2 states, 0 inputs, 1 parameters>"
    table = pendulum._repr_html_()
    assert "<td" in table and "theta, omega" in table and "p = 10" in table
    bold = replace(pendulum, name="<b>")._repr_html_()
    assert "<b>" not in bold and "&lt;b&gt;" in bold


def test_evaluate(pendulum):
    f = ks.compile(pendulum)
    x, xdot, u = np.random.default_rng(0).normal(size=(2, 2, 7)).tolist() + [np.zeros((0, 7))]
    x, xdot = np.array(x), np.array(xdot)
    expected = np.array([xdot[0] - x[1], xdot[1] + 10.0 * np.sin(x[0])])
    np.testing.assert_allclose(f.residual(xdot, x, u, [10.0], 0.0), expected, rtol=1e-14)
    np.testing.assert_allclose(f.rhs(x, u, [10.0], 0.0), [x[1], -10.0 * np.sin(x[0])], rtol=1e-14)
    np.testing.assert_allclose(f.outputs(xdot, x, u, [10.0], 0.0), [-np.cos(x[0])], rtol=1e-14)
    assert f.residual(xdot[:, 0], x[:, 0], [], [10.0], 0.0).shape == (2,)


@pytest.mark.parametrize(
    ("of", "wrt", "expected"),
    [
        ("residual", "states", lambda x: [[0, -1], [10.0 * np.cos(x[0]), 0]]),
        ("residual", "derivatives", lambda x: [[1, 0], [0, 1]]),
        ("residual", "parameters", lambda x: [[0], [np.sin(x[0])]]),
        ("outputs", "states", lambda x: [[np.sin(x[0]), 0]]),
    ],
)
def test_jacobians(pendulum, of, wrt, expected):
    f = ks.compile(pendulum)
    x = np.random.default_rng(1).normal(size=(2, 5))
    result = f.jacobian(np.zeros((2, 5)), x, np.zeros((0, 5)), [10.0], 0.0, of=of, wrt=wrt)
    for i in range(5):
        np.testing.assert_allclose(result[:, :, i], expected(x[:, i]), atol=1e-14)


def test_simulate(run, tmp_path):
    assert run["theta"].shape == (1001,)
    assert set(run.to_xarray().data_vars) == {"theta", "omega", "height"}
    run.save(tmp_path / "run.nc")
    again = ks.Trajectory.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again[theta], run["theta"])
    assert again.parameters == {"p": 10.0}
    assert len(run.plot().axes) >= 3


def test_identify(pendulum, run, tmp_path):
    trial = ks.Experiment(
        time=run.time, inputs={}, measurements={theta: run["theta"]}, std={theta: 0.005}
    )
    problem = ks.Collocation(
        pendulum,
        trial,
        unknown={p: (0.1, 50.0)},
        known={},
        scheme="midpoint",
        objective=None,
        bounds={theta: (-1, 1)},
        boundary=[],
        path=[],
    )
    assert repr(problem) == (
        f"<collocation of pendulum: 1 trial of 1001 nodes, unknown p, "
        f"{problem.n_variables} variables, 2000 constraints>"
    )
    solution = problem.solve(guess={p: 3.0})
    assert repr(solution).startswith("<solution of pendulum: ") and "; p = 10" in repr(solution)
    assert solution.success and "converged" in solution.message
    assert solution.parameters["p"] == pytest.approx(10.0, abs=0.01)
    assert solution["theta"].shape == (1001,)
    assert solution[theta] is solution["theta"]
    assert {"derive", "compile", "evaluate", "linear solver", "total"} <= set(solution.timings)
    solution.save(tmp_path / "fit.nc")
    again = ks.Solution.load(tmp_path / "fit.nc")
    assert again.parameters == solution.parameters and again.iterations == solution.iterations
    np.testing.assert_array_equal(again.free_vector, solution.free_vector)
    assert problem.solve(guess=again).iterations <= 2
    array = solution["theta"]
    assert problem.solve(guess={p: 3.0, theta: array, omega: 0.0}).success


def test_continuous_objective(pendulum, run):
    """Integral over a measured trajectory that the model does not know; both ends conditioned."""
    theta_m = ks.dynamicsymbols("theta_m")
    trial = ks.Experiment(run.time, inputs={theta_m: run["theta"]})
    problem = ks.Collocation(
        pendulum,
        trial,
        unknown={p: (0.1, 50.0)},
        objective=ks.Integral((theta_m - theta) ** 2) + 0.0 * ks.Terminal(theta),
        boundary=[ks.at_start(theta) - 0.5, (ks.at_end(omega), -10, 10)],
        path=[(omega**2 + theta**2, 0, 100.0)],
    )
    solution = problem.solve(guess={p: 9.0, theta: run["theta"], omega: run["omega"]})
    assert solution.success
    assert solution.parameters["p"] == pytest.approx(10.0, abs=0.01)
    assert solution["theta"][0] == pytest.approx(0.5, abs=1e-7)


def test_open_to_inspection(pendulum, run):
    trial = ks.Experiment(run.time, measurements={theta: run["theta"]})
    problem = ks.Collocation(pendulum, trial, unknown={p: None}, scheme="midpoint")
    z = problem.pack({p: 3.0})
    n, m = problem.n_variables, problem.n_constraints
    assert (n, m) == (2 * 1001 + 1, 2 * 1000)
    assert problem.constraint_jacobian(z).shape == (m, n)
    hessian = problem.lagrangian_hessian(z, np.ones(m), cost_factor=1.0)
    assert abs(hessian - hessian.T).max() == 0.0
    np.testing.assert_array_equal(problem.pack(problem.unpack(z)), z)
    assert problem.variable_name(1001 + 17) == "omega at node 17 (t = 0.17 s) of trial 0"
    assert problem.variable_name(n - 1) == "parameter p"
    assert problem.constraint_name(1000) == "equation 1 (omega') at interval 0 (t = 0 s) of trial 0"
    assert np.isscalar(problem.cost(z)) and problem.cost_gradient(z).shape == (n,)


def test_from_kane():
    from sympy.physics.mechanics import KanesMethod, Particle, Point, ReferenceFrame

    length, m, g = sp.symbols("l m g")
    torque = ks.dynamicsymbols("T")
    frame = ReferenceFrame("N")
    arm = frame.orientnew("A", "Axis", (theta, frame.z))
    arm.set_ang_vel(frame, omega * frame.z)
    pivot = Point("O")
    pivot.set_vel(frame, 0)
    bob = pivot.locatenew("P", -length * arm.y)
    bob.v2pt_theory(pivot, frame, arm)
    kane = KanesMethod(frame, [theta], [omega], kd_eqs=[theta.diff(t) - omega])
    kane.kanes_equations([Particle("P", bob, m)], [(bob, -m * g * frame.y), (arm, torque * arm.z)])
    model = ks.Model.from_kane(kane, inputs=[torque], outputs={"height": -length * sp.cos(theta)})
    assert model.parameter_names == ("g", "l", "m")
    rates = ks.compile(model).rhs([0.3, 0.1], [0.7], [9.81, 2.0, 3.0])
    expected = 0.7 / (3.0 * 4.0) - 9.81 / 2.0 * np.sin(0.3)
    np.testing.assert_allclose(rates, [0.1, expected], rtol=1e-14)


def test_shooting(pendulum, run):
    """The shooting snippet as written; all modes and optimisers."""
    trial = ks.Experiment(time=run.time, measurements={theta: run["theta"]}, std={theta: 0.005})
    shooting = ks.Shooting(
        pendulum,
        trial,
        unknown={p: (0.1, 50.0)},
        known={},
        initial={theta: 0.5, omega: 0.0},
        method="rk4",
        substeps=1,
    )
    p0 = [9.8]
    assert shooting.cost(p0) > 0.0
    adjoint = shooting.gradient(p0, mode="adjoint")
    np.testing.assert_allclose(shooting.gradient(p0, mode="forward"), adjoint, rtol=1e-11)
    np.testing.assert_allclose(shooting.gradient(p0, mode="continuous-adjoint"), adjoint, rtol=1e-3)
    for optimizer in OPTIMIZERS:
        fit = shooting.solve(p0, optimizer=optimizer)
        assert fit.parameters[p] == pytest.approx(10.0, abs=1e-5), optimizer


def test_ensemble(pendulum):
    runs = ks.simulate(
        pendulum,
        np.linspace(0, 1, 11),
        {theta: 0.5, omega: 0.0},
        parameters={p: np.linspace(5, 15, 1000)},
    )
    assert runs["theta"].shape == (1000, 11) and runs[theta].shape == (1000, 11)
