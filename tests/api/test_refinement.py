"""Adapted grids: solutions to a tolerance, with fewer nodes where little happens."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, v, y, u = ks.dynamicsymbols("x v y u")
k, c = sp.symbols("k c")


def hypersensitive(scheme, duration=10_000.0, nodes=201):
    """Rao, Mease 2000, Eigenvector approximate dichotomic basis method for solving hyper-sensitive
    optimal control problems: boundary layers of a second in hours."""
    model = ks.Model("hypersensitive", [y], [u], [], [y.diff(t) + y**3 - u])
    return ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, duration, nodes)),
        scheme=scheme,
        objective=ks.Integral(y**2 + u**2),
        unknown_inputs={u: None},
        boundary=[ks.at_start(y) - 1, ks.at_end(y) - 1.5],
    )


@pytest.mark.parametrize("scheme", ["radau-3", "hermite-simpson", "radau-5", "gauss-6"])
def test_hypersensitive(scheme):
    solution = hypersensitive(scheme).solve({y: 0.0, u: 0.0}, tolerance_grid=1e-7)
    assert solution.success
    assert solution.objective == pytest.approx(6.7241139, abs=3e-6)
    assert not solution.notes
    assert solution.grid_error().largest <= 1e-7
    assert len(solution.time) < 2000
    steps = np.diff(solution.time)
    assert steps.max() > 500.0 * steps.min()


def test_refined_problem_starts_from_the_solution():
    problem = hypersensitive("radau-5", 50.0, 101)
    solution = problem.solve({y: 0.0, u: 0.0})
    fine = problem.refined(solution, tolerance=1e-9)
    again = fine.solve()
    assert again.success
    assert again.iterations < solution.iterations
    assert again.grid_error().largest < 0.1 * solution.grid_error().largest
    assert fine.layout.nodes != problem.layout.nodes
    assert problem.solve({y: 0.0, u: 0.0}).objective == solution.objective  # it is as it was


def test_measurements_stay():
    """An oscillator of 5 Hz with samples at 100 Hz, by a rule of second order."""
    time = np.linspace(0.0, 2.0, 201)
    clean = np.exp(-time / 4) * np.cos(np.sqrt(1000 - 1 / 16) * time)
    samples = clean + 1e-3 * np.random.default_rng(1).normal(size=time.size)
    samples[50:60] = np.nan
    model = ks.Model("oscillator", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
    trial = ks.Experiment(time, measurements={x: samples}, std={x: 1e-3})
    problem = ks.Collocation(model, trial, unknown={k: (1, 1e4), c: (0, 9)}, scheme="midpoint")
    solution = problem.solve({k: 1000, c: 0.5}, tolerance_grid=1e-4)
    error = solution.grid_error()
    assert error.largest <= 1e-4
    measured = solution.trials[0].measurements["x"]
    here = np.isfinite(measured)
    np.testing.assert_array_equal(measured[here], samples[np.isfinite(samples)])
    np.testing.assert_array_equal(solution.time[here], time[np.isfinite(samples)])
    assert abs(solution.parameters["k"] - 1000.0) < 3.0 * error.deviations["k"]
    same = problem.on_grid_of(solution)
    assert same.layout.nodes == [len(solution.time)]
    np.testing.assert_allclose(
        np.sqrt(np.diag(problem.covariance(solution))), list(error.deviations.values()), rtol=0.15
    )


def test_a_jump_inside_an_interval_resists_less_and_less():
    """Fastest motion of a mass from 0 to 1 with a force of at most 1: the force jumps at half the
    duration, which is 2."""
    model = ks.Model("mass", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
    problem = ks.Collocation(
        model,
        ks.Experiment(nodes=12, duration=(0.5, 10.0)),
        scheme="radau-3",
        objective=ks.Terminal(t),
        unknown_inputs={u: (-1, 1)},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)],
    )
    coarse = problem.solve({"duration": 3.0})
    assert problem.solve({"duration": 3.0}, tolerance_grid=1e-6).duration == pytest.approx(
        2.0, abs=min(1e-5, abs(coarse.duration - 2.0) + 1e-7)
    )


def test_what_is_refused():
    problem = hypersensitive("radau-3", 20.0, 41)
    solution = problem.solve({y: 0.0, u: 0.0})
    with pytest.raises(ValueError, match="another problem, or by another scheme"):
        hypersensitive("radau-5", 20.0, 41).refined(solution)
    with pytest.raises(ValueError, match="tolerance must be"):
        problem.refined(solution, tolerance=0.0)
    with pytest.raises(ValueError, match="tolerance_grid must be"):
        problem.solve({y: 0.0, u: 0.0}, tolerance_grid=-1.0)


def test_shares_of_an_unknown_duration():
    trial = ks.Experiment([0.0, 0.1, 0.5, 1.0], duration=(1.0, 2.0))
    assert trial.free_duration
    assert trial.n_nodes == 4
    with pytest.raises(ValueError, match=r"goes from 0 to 1, its shares, got 0 \.\.\. 2"):
        ks.Experiment([0.0, 1.0, 2.0], duration=(1.0, 2.0))
    with pytest.raises(ValueError, match="measurement x at t = 1 s is at no node"):
        ks.Experiment([0.0, 1.0, 2.0], measurements={x: [1.0, 2.0, 3.0]}).on_grid([0.0, 0.5, 2.0])


def test_a_tolerance_that_cannot_be_reached():
    """The best solution comes back, with the intervals that resist."""
    solution = hypersensitive("midpoint", 50.0, 21).solve({y: 0.0, u: 0.0}, tolerance_grid=1e-12)
    assert solution.success
    assert solution.grid_error().largest < 1e-6
    [note] = solution.notes
    assert "not 1e-12: the intervals at t = " in note
