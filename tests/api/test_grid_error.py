"""The error of the grid: against solutions on grids so fine that they count as exact."""

import matplotlib
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import kinesym as ks

matplotlib.use("Agg")

t = ks.t
x, v, y, u = ks.dynamicsymbols("x v y u")
k, c = sp.symbols("k c")
RADAU_GAUSS = ["backward-euler", "midpoint", "radau-3", "gauss-4", "radau-5", "gauss-6"]
LOBATTO = ["trapezoid", "hermite-simpson", "lobatto-6"]
K, C = 1000.0, 0.5


@pytest.fixture(scope="module")
def record():
    """An oscillator of 5 Hz sampled at 100 Hz with a standard deviation of 1e-3."""
    time = np.linspace(0.0, 5.0, 501)
    clean = np.exp(-C * time / 2) * np.cos(np.sqrt(K - C**2 / 4) * time)
    return time, clean + 1e-3 * np.random.default_rng(0).normal(size=time.size)


def oscillator(record, scheme, grid=None):
    model = ks.Model("oscillator", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
    time, samples = record
    trial = ks.Experiment(time, measurements={x: samples}, std={x: 1e-3})
    trial = trial if grid is None else trial.on_grid(grid)
    return ks.Collocation(model, trial, unknown={k: (1, 1e4), c: (0, 10)}, scheme=scheme)


@pytest.fixture(scope="module")
def exact(record):
    problem = oscillator(record, "gauss-6")
    return oscillator(record, "gauss-6", problem.trials[0].refined(4).grid).solve({k: K, c: C})


@pytest.mark.parametrize("scheme", [*RADAU_GAUSS[1:], *LOBATTO])
def test_parameters_of_a_fit(record, exact, scheme):
    """A stiffness that is 3,000 standard errors off is said to be so, and one that is right too."""
    problem = oscillator(record, scheme)
    solution = problem.solve({k: K, c: C})
    error = solution.grid_error()
    shift, off = error.parameters["k"], exact.parameters["k"] - solution.parameters["k"]
    deviation = np.sqrt(problem.covariance(solution)[0, 0])
    assert shift == pytest.approx(off, rel=0.05)
    assert error.deviations["k"] == pytest.approx(deviation, rel=0.1)
    assert error.matters == (abs(off) > 0.5 * deviation or scheme == "radau-3")  # of c
    assert ("radau-5" in str(error)) == (error.matters and error.order < 5)
    assert f"grid         {error}" in str(solution)


def test_high_order_finds_the_stiffness(record):
    solution = oscillator(record, "radau-5").solve({k: K, c: C})
    error = solution.grid_error()
    assert not error.matters
    assert abs(solution.parameters["k"] - K) < 3.0 * error.deviations["k"]
    assert abs(error.parameters["k"]) < 0.05 * error.deviations["k"]


def control(scheme, nodes, equations=(), states=(x, v), **more):
    """Energy-optimal motion of a driven pendulum."""
    first = [x.diff(t) - v, v.diff(t) + sp.sin(x) * (1 + 0.3 * v**2) - u]
    model = ks.Model("pendulum", list(states), [u], [], list(equations) or first)
    return ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 3.0, nodes)),
        scheme=scheme,
        objective=ks.Integral(x**2 + 0.1 * u**2 + 0.2 * u * v),
        unknown_inputs={u: None},
        boundary=[ks.at_start(x) - 1, ks.at_start(v), ks.at_end(x) - 0.3 * ks.at_end(v)],
        **more,
    )


def largest(solution, best, name):
    """Largest estimated and true shift of a trajectory, and of their difference."""
    every = (len(best.time) - 1) // (len(solution.time) - 1)
    off = best[name][::every] - solution[name]
    shift = solution.grid_error().states[name]
    return np.abs(shift).max(), np.abs(off).max(), np.abs(shift - off).max()


@pytest.mark.parametrize(
    ("scheme", "nodes"),
    [
        ("backward-euler", 161),
        ("trapezoid", 41),
        ("radau-3", 21),
        ("hermite-simpson", 11),
        ("radau-5", 11),
        ("lobatto-6", 11),
    ],
)
def test_trajectories_and_objective(scheme, nodes):
    best = control("gauss-6", 641).solve(tolerance=1e-11)
    solution = control(scheme, nodes).solve(tolerance=1e-11)
    for name in ("x", "v"):
        estimated, true, apart = largest(solution, best, name)
        assert apart < 0.65 * true
        assert estimated == pytest.approx(true, rel=0.65)
    off = best.objective - solution.objective
    assert 1 / 4 < solution.grid_error().objective / off < 4


def test_algebraic_states():
    """The same with y = sin x (1 + 0.3 v^2) as an algebraic state."""
    equations = [x.diff(t) - v, v.diff(t) + y - u, y - sp.sin(x) * (1 + 0.3 * v**2)]
    best = control("gauss-6", 641).solve(tolerance=1e-11)
    solution = control("radau-3", 21, equations, (x, v, y)).solve(tolerance=1e-11)
    plain = control("radau-3", 21).solve(tolerance=1e-11)
    assert solution.objective == pytest.approx(plain.objective, rel=1e-9)
    for name in ("x", "v"):
        _, true, apart = largest(solution, best, name)
        assert apart < 0.2 * true
    shift, off = solution.grid_error().objective, best.objective - solution.objective
    assert shift == pytest.approx(off, rel=0.1)


def test_free_duration():
    model = ks.Model("cart", [x, v], [u], [], [x.diff(t) - v, v.diff(t) + sp.sin(x) - u])

    def solved(scheme, nodes):
        return ks.Collocation(
            model,
            ks.Experiment(nodes=nodes, duration=(0.5, 20.0)),
            scheme=scheme,
            objective=ks.Integral(1 + u**2) + ks.Terminal(0.1 * t**2),
            unknown_inputs={u: None},
            boundary=[ks.at_start(x) - 1, ks.at_start(v), ks.at_end(x), ks.at_end(v)],
        ).solve({"duration": 2.0}, tolerance=1e-11)

    best = solved("gauss-6", 161)
    for scheme, nodes in (("trapezoid", 41), ("radau-3", 21), ("radau-5", 11)):
        solution = solved(scheme, nodes)
        error = solution.grid_error()
        assert error.objective == pytest.approx(best.objective - solution.objective, rel=0.1)
        assert error.durations[0] == pytest.approx(best.duration - solution.duration, rel=0.5)


@pytest.mark.parametrize("scheme", ["radau-3", "midpoint"])
@pytest.mark.parametrize("most", [1.7, 0.6])
def test_a_least_time_whose_input_jumps_within_an_interval(scheme, most):
    """The shift of the duration is that of the objective, which is the duration."""
    lift = ks.Model("lift", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1.123, ks.at_end(v)]
    task = ks.Collocation(
        lift,
        ks.Experiment(nodes=13, duration=(0.5, 10)),
        objective=ks.Terminal(t),
        unknown_inputs={u: (-1, most)},
        boundary=ends,
        scheme=scheme,
    )
    solution = task.solve({"duration": 3.0})
    right = np.sqrt(2 * 1.123 * (1.0 + 1.0 / most)) - solution.duration
    [found], error = solution.grid_error().durations, solution.grid_error()
    assert found == pytest.approx(error.objective, rel=1e-2)
    assert abs(right) / 3 < abs(found) < 20 * abs(right)
    assert f"duration     {solution.duration:.6g} s" in str(solution)


def test_what_is_zero_has_no_share():
    """A parameter at a bound of zero, and a state that does not move."""
    a, b = sp.symbols("a b")
    model = ks.Model("two", [x], [], [a, b], [x.diff(t) + a * x - b])
    time = np.linspace(0, 3, 31)
    data = np.exp(-0.5 * time) - 0.05 * (1 - np.exp(-0.5 * time))
    data += 0.01 * np.random.default_rng(3).standard_normal(31)
    trial = ks.Experiment(time, measurements={x: data})
    for scheme in ("radau-5", "midpoint"):
        fit = ks.Collocation(model, trial, {a: (0, 5), b: (0, 5)}, scheme=scheme).solve()
        assert fit.parameters.table["b"].remark == "at a bound" and "inf of" not in str(fit)
    for data, unknown, known in (
        (np.linspace(-1, -2, 4), {b: (0, 5)}, {a: 1.0}),
        ([1.0, 2.0, 4.0, 5.0], {a: (0, 5)}, {b: 0.0}),
        ([1.0, 2.0, 4.0, 5.0], {a: (1, 5)}, {b: 0.0}),
    ):
        trial = ks.Experiment(np.linspace(0, 3, 4), measurements={x: data})
        fit = ks.Collocation(model, trial, unknown, known=known).solve()
        assert [row.remark for row in fit.parameters.table.values()] == ["at a bound"]
        assert "shifts x by" in str(fit)  # no parameter is left whose shift could be told


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_cost_that_vanishes_is_measured_by_its_size(unit):
    """A mass is brought to rest at its goal, which costs nothing: the size of the cost w p(2)^2 is
    the 2 w of a motion over 1, and shifts are shares of a thousandth of that, in all units."""
    p = x / unit
    problem = ks.Collocation(
        ks.Model("mass", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u]),
        ks.Experiment(np.linspace(0.0, 2.0, 21)),
        objective=ks.Terminal(3 * p**2),
        boundary=[ks.at_start(x) - unit, ks.at_start(v), ks.at_end(v)],
        bounds={x: (-unit, unit)},
        unknown_inputs={u: (-2 * unit, 2 * unit)},
    )
    solution = problem.solve()
    error = solution.grid_error()
    assert solution.objective < 1e-9
    assert error.objective_size == pytest.approx(6.0, rel=1e-6)
    [shift] = [each for each in error._shifts() if "objective" in each.words]
    assert shift.share == pytest.approx(abs(error.objective) / 6e-3, rel=1e-6)
    assert error.largest < 1e-6 and not error.matters


def test_terms_that_cancel_are_measured_by_their_size():
    """The integral of v^2 - x^2 over a motion like a sine from 0 to pi/2 is 0: what the grid shifts
    it by is a share of what its terms are."""
    problem = ks.Collocation(
        ks.Model("course", [x, v], [], [], [x.diff(t) - v, v.diff(t) + x]),
        ks.Experiment(np.linspace(0.0, np.pi / 2, 41)),
        objective=ks.Integral(v**2 - x**2),
        boundary=[ks.at_start(x), ks.at_start(v) - 1],
    )
    error = problem.solve().grid_error()
    assert error.objective_size == pytest.approx(np.pi, rel=0.01)
    assert error.largest < 1e-2  # without a size, about 1


def test_defects_are_those_of_one_step():
    """x' = -x by the midpoint rule: exp(-h) - (1 - h/2)/(1 + h/2) in each interval."""
    model = ks.Model("decay", [x], [], [], [x.diff(t) + x])
    time = np.array([0.0, 0.1, 0.3, 0.35, 0.6])
    solution = ks.Collocation(
        model,
        ks.Experiment(time),
        scheme="midpoint",
        objective=ks.Terminal(x**2),
        boundary=[ks.at_start(x) - 1],
    ).solve()
    h = np.diff(time)
    true = solution["x"][:-1] * (np.exp(-h) - (1 - h / 2) / (1 + h / 2))
    error = solution.grid_error()
    np.testing.assert_allclose(error.defects["x"], true, rtol=0.05)
    np.testing.assert_allclose(error.states["x"], np.exp(-time) - solution["x"], rtol=0.05)
    np.testing.assert_allclose(error.begin, time[:-1])


def test_several_trials_one_after_the_other(record):
    time, samples = record
    problem = oscillator(record, "midpoint")
    twice = [
        ks.Experiment(time, measurements={x: samples}, std={x: 1e-3}),
        ks.Experiment(time[:101], measurements={x: samples[:101]}, std={x: 1e-3}),
    ]
    both = ks.Collocation(
        problem.model, twice, unknown={k: (1, 1e4), c: (0, 10)}, scheme="midpoint"
    )
    error = both.solve({k: K, c: C}).grid_error()
    assert len(error.begin) == 600
    assert error.trial.tolist() == [0] * 500 + [1] * 100
    assert "of trial" in str(error)
    assert len(error.plot(trial=1).axes) == 2


def test_saved_with_the_solution(record, tmp_path):
    solution = oscillator(record, "midpoint").solve({k: K, c: C})
    solution.save(tmp_path / "fit.nc")
    loaded = ks.Solution.load(tmp_path / "fit.nc")
    assert str(loaded.grid_error()) == str(solution.grid_error())
    np.testing.assert_array_equal(
        loaded.grid_error().states["v"], solution.grid_error().states["v"]
    )
    assert len(loaded.trials) == 1


def test_no_certificate_without_convergence(record):
    solution = oscillator(record, "midpoint").solve({k: 500.0, c: C}, max_iterations=1)
    with pytest.raises(ValueError, match="known of solutions only: after 1 iteration"):
        solution.grid_error()


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, MemoryError])
def test_the_solution_is_never_lost(record, monkeypatch, trouble):
    """Ctrl-C or too little memory while the error is estimated."""

    def fail(*_):
        raise trouble

    monkeypatch.setattr("kinesym.internal.fitting.grid_error.grid_defects", fail)
    solution = oscillator(record, "midpoint").solve({k: K, c: C})
    assert solution.success
    if trouble is MemoryError:
        assert "not enough memory" in str(solution)
    else:
        assert not solution.grid


@pytest.mark.parametrize("factor", [1e-3, 1.0, 30.0])
def test_standard_errors_are_those_of_the_covariance(factor):
    """However well or badly the solution fits, if standard deviations are given."""
    model = ks.Model("swing", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
    time = np.linspace(0.0, 5.0, 151)
    motion = np.exp(-time / 10) * np.cos(np.sqrt(40.0 - 0.01) * time)
    noise = 0.01 * np.random.default_rng(0).standard_normal(151)
    trial = ks.Experiment(time, measurements={x: motion + noise}, std={x: 0.01 * factor})
    problem = ks.Collocation(model, trial, unknown={k: (1, 100), c: (0, 5)})
    solution = problem.solve(guess={k: 38.0, c: 0.1})
    right = np.sqrt(np.diag(problem.covariance(solution)))
    np.testing.assert_allclose(list(solution.grid_error().deviations.values()), right, rtol=1e-6)


def test_unknown_inputs_of_a_fit_are_not_refined():
    """Between the samples they would have values that nothing has measured."""
    model = ks.Model("lag", [x], [u], [k], [x.diff(t) + k * x - u])
    time = np.linspace(0.0, 3.0, 16)
    measured = {x: np.sin(2 * time), u: 2 * np.cos(2 * time) + np.sin(2 * time)}
    trial = ks.Experiment(time, measurements=measured, std={x: 1e-3, u: 1e-2})
    problem = ks.Collocation(model, trial, {k: (0, 9)}, scheme="radau-1", unknown_inputs={u: None})
    solution = problem.solve(guess={k: 2.0})
    line = str(solution.grid_error())
    assert "use scheme='radau-5'" in line and "refined" not in line
    for refine in (
        lambda: problem.refined(solution),
        lambda: problem.solve(guess={k: 2.0}, tolerance_grid=1e-3),
    ):
        with pytest.raises(ValueError, match="unknown input u would have values between its nodes"):
            refine()


def error_of_the_stiffness(time, stds, rate, k, begin, force):
    """By NumPy: the standard error of k where x'' = force - k x, force' is white, and x and force
    are measured; ten steps per interval, which are exact for a rate that is held."""
    steps, h = 10, (time[1] - time[0]) / 10
    A = np.zeros((4, 4))
    A[0, 1], A[1, 0], A[1, 2], A[2, 3] = 1.0, -k, 1.0, 1.0
    F = expm(A * h)
    many = steps * (len(time) - 1)
    states = np.zeros((3, 3 + many))
    states[:, :3] = np.eye(3)
    rows, known, at = [states[[0, 2]]], [np.zeros(2)], np.array([*begin, force[0]])
    # d/dk: x'' = force - k x, with the x of the solution, as one more state
    moved, free = np.zeros(2), np.array([[0.0, 1.0], [-k, 0.0]])
    turn, half = expm(free * h), expm(free * 0.5 * h)
    for n in range(many):
        states = F[:3, :3] @ states
        states[:, 3 + n] += F[:3, 3]
        slope = (force[n + 1] - force[n]) / h
        middle = at[0] + 0.5 * h * at[1]
        at = F[:3, :3] @ at + F[:3, 3] * slope
        moved = turn @ moved - h * half @ [0.0, middle]
        if (n + 1) % steps == 0:
            rows.append(states[[0, 2]])
            known.append([moved[0], 0.0])
    pairs = zip(rows, known, strict=True)
    full = np.vstack([np.column_stack(pair) / stds[:, None] for pair in pairs])
    prior = np.zeros((many, full.shape[1]))
    prior[:, 3:-1] = np.eye(many) * np.sqrt(h) / rate
    slopes = np.vstack([full, prior])
    return np.sqrt(np.linalg.inv(slopes.T @ slopes)[-1, -1])


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_inputs_that_a_scheme_does_not_let_do_what_they_may(unit):
    """A force is measured at nodes, its rate is white: standard errors by schemes whose rates are
    continuous, or constant in intervals, are far too small, and the certificate says by how much;
    by others they are those of NumPy."""
    f = ks.dynamicsymbols("f")
    model = ks.Model("pushed", [x, v], [f], [k], [x.diff(t) - v, v.diff(t) + k * x - f])
    model = model.with_rates(f)
    [rate] = model.inputs
    time, fine = np.linspace(0.0, 3.0, 31), np.linspace(0.0, 3.0, 301)
    stds, intensity = unit * np.array([1e-3, 0.1]), unit * 20.0 * np.sqrt(0.1)
    force = unit * np.sin(1.3 * fine)
    motion = solve_ivp(
        lambda s, y: [y[1], unit * np.sin(1.3 * s) - 4.0 * y[0]],
        (0.0, 3.0),
        [unit, 0.0],
        t_eval=time,
        rtol=1e-10,
        atol=1e-12 * unit,
    ).y[0]
    rng = np.random.default_rng(2)
    rows = motion, force[::10]
    rows = [row + s * rng.standard_normal(31) for row, s in zip(rows, stds, strict=True)]
    names = [x, model.states[-1]]
    trial = ks.Experiment(
        time,
        measurements=dict(zip(names, rows, strict=True)),
        std=dict(zip(names, stds, strict=True)),
    )
    right = error_of_the_stiffness(time, stds, intensity, 4.0, [unit, 0.0], force)
    for scheme in ("radau-3", "midpoint", "trapezoid", "hermite-simpson"):
        task = ks.Collocation(
            model,
            trial,
            {k: (0, 50)},
            scheme=scheme,
            unknown_inputs={rate: None},
            objective=ks.LeastSquares() + ks.Integral(rate**2 / intensity**2),
        )
        fit = task.solve({k: 3.5})
        error, freer = fit.parameters.standard_errors()["k"], fit.grid_error().freer
        if scheme == "radau-3":
            assert error == pytest.approx(right, rel=0.05) and not freer
        else:
            assert error < 0.5 * right and freer["k"] == pytest.approx(right, rel=0.15)
            assert fit.grid_error().matters and "standard errors are too small" in str(fit)


@pytest.mark.parametrize("nodes, passes", [(4, True), (41, False)])
def test_a_bound_that_is_passed_between_nodes(nodes, passes):
    """The clamped beam (Bryson, Denham, Dreyfus 1963): the polynomials of a coarse grid rise
    above the lid, which holds them at the nodes only."""
    model = ks.Model("beam", [x, v], [u], [], [x.diff(t) - v, v.diff(t) - u])
    solution = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        unknown_inputs={u: (-10, 10)},
        objective=ks.Integral(u**2),
        bounds={x: (0, 0.1)},
        boundary=[ks.at_start(x), ks.at_start(v) - 1, ks.at_end(x), ks.at_end(v) + 1],
        scheme="radau-5",
    ).solve()
    words = "x passes its bound by 0.0014 between the nodes at t = 0 and 0.3333 s"
    assert (words in str(solution.grid[0])) == passes
