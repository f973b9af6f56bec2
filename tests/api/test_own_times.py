"""Measurements at times of their own, compared with the continuous extension of the scheme."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import curve_fit

import kinesym as ks
from kinesym.runtime.results.solution import Solution
from kinesym.symbolic.schemes import SCHEMES

x, v, F = ks.dynamicsymbols("x v F")
k, c = sp.symbols("k c")
EQUATIONS = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v]
OUTPUTS = {"acceleration": v.diff(ks.t), "millimetres": 1000 * x}
STD = 0.02
NAMES = list(dict.fromkeys(scheme.name for scheme in SCHEMES.values()))
#: Relative errors of k and c on the grid below, with a margin: by order of the scheme.
ERRORS = {1: 1.0, 2: 2e-2, 3: 1e-3, 4: 1e-4, 5: 1e-5, 6: 1e-6}


def oscillator():
    return ks.Model("oscillator", [x, v], [], [k, c], EQUATIONS, outputs=OUTPUTS)


def closed_form(time, stiffness, damping, x0, v0):
    """Displacement of the oscillator."""
    a = 0.5 * damping
    w = np.sqrt(stiffness - a**2)
    return np.exp(-a * time) * (x0 * np.cos(w * time) + (v0 + a * x0) / w * np.sin(w * time))


def fitted(measurements, scheme="radau-5", nodes=101, std=None, **more):
    grid = np.linspace(0.0, 5.0, nodes)
    std = dict.fromkeys(measurements, STD) if std is None else std
    trial = ks.Experiment(grid, measurements=measurements, std=std)
    unknown = {k: (0.1, 50.0), c: (0.0, 5.0)}
    problem = ks.Collocation(oscillator(), trial, unknown=unknown, scheme=scheme, **more)
    return problem, problem.solve(guess={k: 3.0, c: 0.1})


def drawn(times, seed=0):
    rng = np.random.default_rng(seed)
    return closed_form(times, 4.0, 0.3, 1.0, 0.2) + STD * rng.standard_normal(len(times))


@pytest.mark.parametrize("scheme", NAMES)
def test_samples_at_the_nodes_are_measurements_at_the_nodes(scheme):
    grid = np.linspace(0.0, 5.0, 101)
    y = drawn(grid)
    y[30:37] = np.nan
    (first, one), (second, two) = (fitted({x: row}, scheme) for row in (y, ks.Signal(grid, y)))
    assert one.success and two.success
    assert not two.trials[0].measurements and len(two.trials[0].timed["x"].time) == 94
    np.testing.assert_allclose(two.objective, one.objective, rtol=1e-9)
    np.testing.assert_allclose(list(two.parameters.values()), list(one.parameters.values()), 1e-9)
    np.testing.assert_allclose(second.covariance(two), first.covariance(one), rtol=1e-9)
    for name, value in one.vaf().items():
        assert two.vaf()[name] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("scheme", NAMES)
def test_off_the_grid_as_curve_fit_has_it(scheme):
    """But for the error of the scheme; standard errors there are of linearised residuals."""
    times = np.sort(np.random.default_rng(3).uniform(0.0, 5.0, 240))
    y = drawn(times, 4)
    sigma = np.full(240, STD)
    start = (3.0, 0.1, 1.0, 0.0)
    expected, spread = curve_fit(closed_form, times, y, start, sigma, True)
    problem, solution = fitted({x: ks.Signal(times, y)}, scheme)
    assert solution.success
    found, error = np.array(list(solution.parameters.values())), ERRORS[SCHEMES[scheme].order]
    np.testing.assert_allclose(found, expected[:2], rtol=error)
    errors = np.sqrt(np.diag(problem.covariance(solution)))
    np.testing.assert_allclose(errors, np.sqrt(np.diag(spread))[:2], rtol=max(5 * error, 2e-3))
    own = solution.trials[0].timed["x"]
    np.testing.assert_array_equal(own.time, times)
    np.testing.assert_allclose(own.modelled, closed_form(times, *expected), atol=error)
    assert solution.trials[0].residuals()["x"] @ solution.trials[0].residuals()["x"] == (
        pytest.approx(solution.objective, rel=1e-9)
    )


@pytest.mark.parametrize("scheme", NAMES)
def test_continuous_extension_converges(scheme):
    """Its error is of the order of the polynomial, one more than the stages, if that of the nodes
    is not lower."""
    times = np.linspace(0.0, 5.0, 311)
    y = ks.Signal(times, closed_form(times, 4.0, 0.3, 1.0, 0.2))
    errors = []
    for nodes in (21, 41):
        start = [ks.at_start(x) - 1, ks.at_start(v) - 0.2]
        trial = ks.Experiment(np.linspace(0.0, 5.0, nodes), measurements={x: y}, std={x: STD})
        known = {"known": {k: 4.0, c: 0.3}, "boundary": start, "scheme": scheme}
        solution = ks.Collocation(oscillator(), trial, **known).solve()
        own = solution.trials[0].timed["x"]
        errors.append(np.abs(own.modelled - own.measured).max())
    about = SCHEMES[scheme]
    order = min(about.order, about.stages + 1)
    assert np.log2(errors[0] / errors[1]) > order - (0.4 if order > 1 else 0.7)


@pytest.mark.parametrize("scheme", ["radau-3", "gauss-4"])
def test_residuals_are_those_of_the_polynomial(scheme):
    """And of its slope, or the equations, where x' is measured; derivatives are exact."""
    grid, times = np.linspace(0.0, 1.0, 6), np.array([0.0, 0.11, 0.13, 0.4, 0.77, 1.0])
    y = np.random.default_rng(1).normal(size=6)
    samples = {x: ks.Signal(times, y), "acceleration": ks.Signal(times[1:5], y[1:5])}
    trial = ks.Experiment(grid, measurements=samples, std={x: 0.1, "acceleration": 0.2})
    problem = ks.Collocation(
        oscillator(), trial, unknown={k: ks.log_scale(0.1, 9), c: None}, scheme=scheme
    )
    z = np.random.default_rng(2).uniform(0.5, 1.5, problem.n_variables)

    def expected(z):
        courses = problem.layout.signals(z, 0, grid)
        at = problem.layout.natural(z)[problem.layout.parameter_offset :]
        force = -at[0] * courses["x"](times) - at[1] * courses["v"](times)
        return np.concatenate([(courses["x"](times) - y) / 0.1, ((force - y) / 0.2)[1:5]])

    nlp, residuals = problem.nlp, problem.problem.residual_nlp
    about = residuals.samples
    order = np.lexsort([about.time, about.channel])
    assert [about.channels[j] for j in about.channel[order]] == ["x"] * 6 + ["acceleration"] * 4
    np.testing.assert_allclose(about.time[order][:6], times, rtol=1e-14)
    np.testing.assert_allclose(residuals.residuals(z)[order], expected(z), rtol=1e-12, atol=1e-12)
    assert nlp.cost(z) == pytest.approx(expected(z) @ expected(z), rel=1e-13)
    steps = 1e-4 * np.eye(len(z))
    slopes = np.array([(expected(z + e) - expected(z - e)) / 2e-4 for e in steps]).T
    found = residuals.residual_jacobian(z).toarray()[order]
    np.testing.assert_allclose(found, slopes, atol=1e-6)
    np.testing.assert_allclose(nlp.gradient(z), 2.0 * expected(z) @ found, rtol=1e-12, atol=1e-11)
    curvature = np.zeros((len(z), len(z)))
    entries = nlp.hessian(z, np.zeros(nlp.n_constraints), 1.0)
    np.add.at(curvature, nlp.hessian_structure.arrays(), entries)
    curvature += np.tril(curvature, -1).T
    slopes = [(nlp.gradient(z + e) - nlp.gradient(z - e)) / 2e-4 for e in steps]
    np.testing.assert_allclose(curvature, slopes, rtol=1e-6, atol=1e-4)


def test_two_rates_gaps_and_another_unit(tmp_path):
    """Standard deviations that are estimated, tables, files."""
    slow, fast = np.linspace(0.02, 4.9, 60), np.linspace(0.0, 5.0, 501)
    height = 1000 * drawn(fast, 7)
    height[200:250] = np.nan
    samples = {x: ks.Signal(slow, drawn(slow, 6)), "millimetres": ks.Signal(fast, height)}
    solution = fitted(samples, nodes=101, std={})[1]
    assert solution.success
    found = solution.estimated_std
    assert 0.75 < found["x"] / STD < 1.25 and 0.9 < found["millimetres"] / (1000 * STD) < 1.1
    assert {noise.group: noise.samples for noise in solution.noise} == {
        "x": 60.0,
        "millimetres": 451.0,
    }
    assert abs(solution.parameters["k"] - 4.0) < 3 * solution.parameters.table["k"].standard_error
    run = solution.trials[0]
    assert set(run.vaf()) == {"x", "millimetres"} and run.vaf()["millimetres"] > 99.0
    np.testing.assert_allclose(run.timed["millimetres"].std, found["millimetres"])
    series = {s.channel: s for s in solution.diagnostics().series}
    assert len(series["millimetres"].time) == 451 and not series["x"].at_nodes
    solution.save(tmp_path / "fit.nc")
    again = Solution.load(tmp_path / "fit.nc").trials[0]
    for name, own in run.timed.items():
        for row, other in zip(own, again.timed[name], strict=True):
            np.testing.assert_array_equal(row, other)
    assert again.vaf() == run.vaf()
    assert len(run.between(1.0, 2.0).timed["x"].time) == np.sum((slow >= 1) & (slow <= 2))
    figure = run.plot(["x", "millimetres"])
    dots = [axis.lines[0].get_xdata() for axis in figure.axes]
    np.testing.assert_array_equal(dots[0], slow)
    assert len(dots[1]) == 451
    assert len(solution.intervals(method="sandwich").table) == 2
    resampled = solution.bootstrap(records=2, seed=0)
    assert resampled.failed == 0


def test_finer_grids_keep_samples_where_they_are():
    times = np.sort(np.random.default_rng(3).uniform(0.0, 5.0, 100))
    y = drawn(times, 4)
    expected = curve_fit(closed_form, times, y, (3.0, 0.1, 1.0, 0.0))[0]
    problem, coarse = fitted({x: ks.Signal(times, y)}, "radau-3", nodes=21)
    fine = problem.solve(coarse, tolerance_grid=1e-5)
    np.testing.assert_array_equal(fine.trials[0].timed["x"].time, times)
    assert len(fine.trials[0].time) > 40
    np.testing.assert_allclose(list(fine.parameters.values()), expected[:2], rtol=1e-5)
    away = np.abs(np.array(list(coarse.parameters.values())) - expected[:2])
    told = [coarse.grid_error().parameters[name] for name in ("k", "c")]
    np.testing.assert_allclose(np.abs(told), away, rtol=0.3)


def test_one_trial_at_the_nodes_another_off_them():
    """The same channel: that at the nodes has them as its times."""
    grid, times = np.linspace(0.0, 5.0, 101), np.sort(np.random.default_rng(8).uniform(0, 5, 90))
    trials = [
        ks.Experiment(grid, measurements={x: drawn(grid)}, std={x: STD}),
        ks.Experiment(grid, measurements={x: ks.Signal(times, drawn(times, 1))}, std={x: STD}),
    ]
    solution = ks.Collocation(oscillator(), trials, unknown={k: None, c: None}).solve({k: 3, c: 0})
    lengths = [len(run.timed["x"].time) for run in solution.trials]
    assert solution.success and lengths == [101, 90]
    assert [len(run.residuals()["x"]) for run in solution.trials] == [101, 90]


def test_unknown_duration():
    """Times are shares of it."""
    shares = np.sort(np.random.default_rng(8).uniform(0, 1, 90))
    y = closed_form(5.0 * shares, 4.0, 0.3, 1.0, 0.2)
    trial = ks.Experiment(
        nodes=61, duration=(4.0, 6.0), measurements={x: ks.Signal(shares, y)}, std={x: STD}
    )
    found = ks.Collocation(oscillator(), trial, known={k: 4.0, c: 0.3}, scheme="radau-5").solve()
    assert found.trials[0].time[-1] == pytest.approx(5.0, rel=1e-6)
    np.testing.assert_allclose(found.trials[0].timed["x"].time, 5.0 * shares, rtol=1e-6)


@pytest.mark.parametrize("way", ["held", "linear", "cubic"])
def test_known_inputs_at_the_samples(way):
    """An output that is the input alone: residuals are known without any motion."""
    driven = ks.Model("driven", [x], [F], [k], [x.diff(ks.t) + k * x - F], outputs={"load": 2 * F})
    grid = np.linspace(0.0, 1.0, 11)
    F_of_t = ks.Signal(grid, np.random.default_rng(2).normal(size=11), way)
    times = np.sort(np.random.default_rng(3).uniform(0.0, 1.0, 30))
    samples = {"load": ks.Signal(times, np.zeros(30)), x: np.ones(11)}
    trial = ks.Experiment(grid, {F: F_of_t}, samples, std={"load": 1.0, x: 1.0})
    solution = ks.Collocation(driven, trial, unknown={k: None}).solve({k: 1.0})
    found = solution.trials[0].timed["load"].modelled
    np.testing.assert_allclose(found, 2.0 * F_of_t(times), atol=1e-14)


def test_shooting_has_nodes_at_the_samples():
    times = np.sort(np.random.default_rng(3).uniform(0.0, 5.0, 120))
    y = drawn(times, 4)
    expected, spread = curve_fit(
        closed_form, times, y, (3.0, 0.1, 1.0, 0.0), np.full(120, STD), True
    )
    grid = np.linspace(0.0, 5.0, 101)
    trial = ks.Experiment(grid, measurements={x: ks.Signal(times, y)}, std={x: STD})
    fit = ks.Shooting(
        oscillator(), trial, unknown={k: (1, 9), c: (0, 2)}, initial={x: None, v: None}
    ).solve({k: 3.0, c: 0.1})
    assert fit.success
    found = list(fit.parameters.values())
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-5)
    assert len(fit.trials[0].time) == 221
    errors = [fit.parameters.table[name].standard_error for name in ("k", "c")]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(spread))[:2], rtol=1e-4)


def test_nodes_at_samples_of_two_channels():
    """Nearly equal times are one node; standard deviations of each sample stay with it."""
    grid = np.linspace(0.0, 1.0, 11)
    times = np.array([0.05, 0.1 + 1e-15, 0.55])
    samples = {x: ks.Signal(times, [1.0, 2.0, 3.0]), v: ks.Signal([0.05, 0.7], [4.0, 5.0])}
    trial = ks.Experiment(grid, measurements=samples, std={x: [0.1, 0.2, 0.3], v: "gyro"})
    made = trial.with_nodes_at_samples()
    assert made.n_nodes == 13 and not made.timed and made.unknown_std == {"v": "gyro"}
    here = np.flatnonzero(~np.isnan(made.measurements["x"]))
    np.testing.assert_allclose(made.grid[here], times, rtol=1e-12)
    np.testing.assert_array_equal(made.measurements["x"][here], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(made.std["x"][here], [0.1, 0.2, 0.3])
    assert np.nansum(made.measurements["v"]) == 9.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({x: ks.Signal([0.5, 6.0], [0.0, 1.0])}, "sample at t = 6 s, but the time"),
        ({x: ks.Signal.pieces([0.0], [1.0])}, "signal of pieces; measured are samples"),
        ({x: np.zeros(7)}, "samples at other times are a ks.Signal"),
    ],
)
def test_samples_that_do_not_fit(given, words):
    with pytest.raises(ValueError, match=words):
        ks.Experiment(np.linspace(0.0, 5.0, 11), measurements=given)


def test_too_many_samples_for_an_interval():
    y = ks.Signal(np.linspace(0.0, 5.0, 1001), np.zeros(1001))
    with pytest.raises(
        ValueError, match=r"x of trial 0 has 101 samples between .* than 32; give a"
    ):
        fitted({x: y}, nodes=11)


def test_another_grid():
    """Samples stay, within it."""
    grid, times = np.linspace(0.0, 5.0, 11), np.linspace(0.1, 4.9, 40)
    trial = ks.Experiment(grid, measurements={x: ks.Signal(times, drawn(times))})
    np.testing.assert_array_equal(trial.on_grid(np.linspace(0.0, 5.0, 8)).timed["x"].times, times)
    with pytest.raises(
        ValueError, match=r"measurement x has a sample at t = 4.03.* s, but the time"
    ):
        trial.on_grid(grid[:9])
    coarse = ks.Collocation(oscillator(), trial, unknown={k: None, c: None})
    fine = ks.Collocation(oscillator(), trial.refined(4), unknown={k: None, c: None})
    solution = coarse.solve({k: 3.0, c: 0.1})
    with pytest.raises(ValueError, match="x has 4 samples in an interval of this grid, more than"):
        fine.covariance(solution)


def test_inputs_have_no_gaps():
    gap = ks.Signal([0.0, 1.0, 2.0], [0.0, np.nan, 1.0])
    masked = ks.Signal([0.0, 1.0, 2.0], np.ma.masked_array([0.0, 7.0, 1.0], [False, True, False]))
    for signal in (gap, masked):
        with pytest.raises(ValueError, match="input F is NaN at t = 1 s: only measurements"):
            ks.Experiment([0.0, 1.0, 2.0], inputs={F: signal})
        trial = ks.Experiment([0.0, 2.0], measurements={x: signal})
        np.testing.assert_array_equal(trial.measured["x"], [0.0, np.nan, 1.0])


def test_unknown_inputs_are_not_for_nodes_at_samples():
    driven = ks.Model("driven", [x], [F], [k], [x.diff(ks.t) + k * x - F])
    trial = ks.Experiment([0.0, 1.0, 2.0], measurements={x: ks.Signal([0.1, 0.7], [0.0, 1.0])})
    with pytest.raises(ValueError, match="x is measured at times of its own, which become nodes"):
        ks.Shooting(driven, trial, known={k: 1.0}, unknown_inputs={F: None}, initial={x: 0.0})
