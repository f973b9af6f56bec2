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
    assert "no longer falls" in note or "max_nodes=20000" in note


def rocket(scheme="radau-3", between=lambda low, high: (low, high)):
    """Goddard's rocket: full thrust, singular arc, coasting (Dolan, More, Munson 2004, COPS 3)."""
    h, s, m, T = ks.dynamicsymbols("h s m T")
    drag = 310 * s**2 * sp.exp(-500 * (h - 1))
    rates = [h.diff(t) - s, s.diff(t) - (T - drag) / m + 1 / h**2, m.diff(t) + 2 * T]
    problem = ks.Collocation(
        ks.Model("rocket", [h, s, m], [T], [], rates),
        ks.Experiment(nodes=51, duration=(0.01, 1.0)),
        objective=-ks.Terminal(h),
        boundary=[ks.at_start(h) - 1, ks.at_start(s), ks.at_start(m) - 1, ks.at_end(m) - 0.6],
        bounds={h: (1, None), s: (0, None), m: (0.6, 1)},
        unknown_inputs={T: between(0, 3.5)},
        scheme=scheme,
    )
    share = np.linspace(0, 1, 51)
    course = {h: 1.0, s: share * (1 - share), m: 1 - 0.4 * share, T: 1.75, "duration": 1.0}
    return problem, course


def test_an_input_that_oscillates_along_a_singular_arc():
    """What nothing holds within intervals goes up and down there, however fine they are; an input
    that is linear between nodes does not. The error says both, and the optimum is that of the
    source."""
    problem, course = rocket()
    error = problem.solve(course).grid_error()
    assert error.oscillating == ["T"]
    assert "unknown_inputs={T: ks.linear()} and scheme='radau-5', as T osc" in error.resists(1e-9)
    problem, course = rocket("radau-5", ks.linear)
    fine = problem.solve(course, tolerance_grid=1e-6, tolerance=1e-10)
    assert fine.grid_error().largest <= 1e-6 and not fine.grid_error().oscillating
    assert len(fine.time) < 400
    assert -fine.objective == pytest.approx(1.012837, abs=1e-6)


@pytest.mark.parametrize("shape", ["jumps", "line", "constant"])
def test_inputs_that_jump_do_not_oscillate(shape):
    """The input of a least time jumps; that of a least effort is a line, or constant if the place
    is free."""
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(v) - 1, ks.at_end(x) - 3]
    fixed = ks.Experiment(np.linspace(0.0, 2.0, 22))
    problem = ks.Collocation(
        ks.Model("cart", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u]),
        ks.Experiment(nodes=22, duration=(1.0, 9.0)) if shape == "jumps" else fixed,
        objective=ks.Terminal(t) if shape == "jumps" else ks.Integral(u**2),
        boundary=ends[: 3 if shape == "constant" else 4],
        unknown_inputs={u: (-9, 9)},
    )
    assert not problem.solve().grid_error().oscillating


def test_the_tolerance_of_ipopt_ends_refinement():
    """What its barrier leaves is on all grids the same."""
    problem, course = rocket()
    wide = {"tolerance": 2e-3, "options": {"mu_init": 1e-2}}
    solution = problem.solve(course, **wide, tolerance_grid=1e-10, max_nodes=50_000)
    assert -solution.objective == pytest.approx(1.012837, abs=1e-3)
    assert solution.grid_error().largest < 5e-4
    assert len(solution.time) < 5000
    assert "it no longer falls, IPOPT stops as far from the bounds" in solution.notes[-1]
    assert "a smaller tolerance than 0.002" in solution.notes[-1]


def test_a_limit_of_nodes():
    problem, course = rocket()
    solution = problem.solve(course, tolerance_grid=1e-10, max_nodes=500)
    assert 51 < len(solution.time) <= 500
    assert "nodes, more than max_nodes=500: allow more or use a scheme" in solution.notes[-1]
    with pytest.raises(ValueError, match="max_nodes must be"):
        problem.solve(course, tolerance_grid=1e-3, max_nodes=0)


@pytest.mark.parametrize("scheme", ["radau-3", "midpoint"])
@pytest.mark.parametrize("open_", [("g", "L"), ("m", "L"), ("m", "g", "L")])
def test_parameters_that_nothing_identifies(scheme, open_):
    """They do not count: the motion and the other parameters do."""
    m, g, L = sp.symbols("m g L")
    rows = [x.diff(t) - v, m * L**2 * v.diff(t) + m * g * L * sp.sin(x)]
    rod = ks.Model("rod", [x, v], [], [m, g, L], rows)
    true, time = {"m": 1.0, "g": 9.81, "L": 1.0}, np.linspace(0.0, 4.0, 81)
    swing = ks.simulate(rod, time, {x: 1.0, v: 0.0}, true)["x"]
    samples = swing + 1e-3 * np.random.default_rng(0).normal(size=81)
    problem = ks.Collocation(
        rod,
        ks.Experiment(time, measurements={x: samples}, std={x: 1e-3}),
        unknown={p: (0.1 * true[p], 20.0 * true[p]) for p in open_},
        known={p: value for p, value in true.items() if p not in open_},
        scheme=scheme,
    )
    solution = problem.solve({p: 1.1 * true[p] for p in open_}, tolerance_grid=1e-5)
    error = solution.grid_error()
    assert error.largest <= 1e-5 and not any("resist" in note for note in solution.notes)
    assert len(solution.time) < 2000
    assert np.isnan(error.deviations[open_[0]])
    assert np.isfinite(error.deviations["L"]) == (open_ == ("m", "L"))


def test_one_measure():
    """What the line says is what refinement makes small."""
    problem, course = rocket()
    for solution in (problem.solve(course), problem.solve(course, tolerance_grid=1e-4)):
        assert f" by {solution.grid_error().largest:.2g} of it" in str(solution.grid_error())


def test_many_nodes_are_advised_against():
    """A rule of second order takes 20 times the nodes of radau-5."""
    few, many = (
        hypersensitive(scheme, 50.0, 21).solve({y: 0.0, u: 0.0}, tolerance_grid=1e-6)
        for scheme in ("radau-5", "midpoint")
    )
    assert len(many.time) > 10 * max(len(few.time), 21)
    assert not few.notes
    assert many.notes[-1].endswith("scheme='radau-5' needs far fewer for such errors")
