"""Standard deviations that are not given: estimated, in the covariance, and said; given ones that
contradict the residuals."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import curve_fit
from scipy.stats import t as student

import kinesym as ks
from kinesym.internal.fitting.curvature import kkt_of
from kinesym.runtime.statistics.leverage import _forms, leverages

x, v = ks.dynamicsymbols("x v")
a = ks.dynamicsymbols("a")
k, c, rate = sp.symbols("k c rate")
DECAY = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x], outputs={"triple": 3 * x})
OSCILLATOR = ks.Model(
    "oscillator",
    [x, v],
    [],
    [k, c],
    [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v],
    outputs={"force": k * x, "acceleration": v.diff(ks.t)},
)
TIME = np.linspace(0.0, 2.0, 41)


def decay(time, k, start):
    return start * np.exp(-k * time)


def swing(time, k, c, start, speed):
    """The closed form of the oscillator."""
    omega = np.sqrt(k - c**2 / 4)
    sine = (speed + c / 2 * start) / omega
    return np.exp(-c * time / 2) * (start * np.cos(omega * time) + sine * np.sin(omega * time))


def noisy(values, size, seed=0):
    return values + size * np.random.default_rng(seed).standard_normal(len(values))


def by_shooting(model, trials, unknown, guess, states=(x,), **options):
    shooting = ks.Shooting(
        model, trials, unknown, initial=dict.fromkeys(states), method="gauss-6", **options
    )
    return shooting.solve(guess, optimizer="least-squares")


@pytest.mark.parametrize("std", [{}, {x: 0.05, "triple": 0.06}])
@pytest.mark.parametrize("channels", [[x], [x, "triple"]])
@pytest.mark.parametrize("by", ["shooting", "collocation"])
def test_a_factor_of_the_objective_changes_no_interval(by, channels, std):
    """Where standard deviations are estimated, and where they are given; likelihoods have no
    factor."""
    rows = {x: 1.0, "triple": 3.0}
    measured = {n: noisy(rows[n] * decay(TIME, 1.3, 2.0), 0.05, i) for i, n in enumerate(channels)}

    def fit(factor):
        known = {n: std[n] for n in channels if std}
        trial = ks.Experiment(TIME, measurements=measured, std=known)
        given = {"trials": trial, "unknown": {k: (0.1, 9.0)}}
        given["objective"] = factor * ks.LeastSquares()
        if by == "shooting":
            return by_shooting(DECAY, guess={k: 1.2}, **given)
        return ks.Collocation(DECAY, **given, scheme="gauss-4").solve({k: 1.2})

    one, other = fit(1.0), fit(7.0)
    for method in ("t", "profile", "sandwich"):
        expected = one.intervals(method=method).table["k"].interval
        found = other.intervals(method=method).table["k"].interval
        assert found == pytest.approx(expected, rel=1e-6), method
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)
    bands = [fit.bands()["x"] for fit in (one, other)]
    np.testing.assert_allclose(*bands, rtol=1e-6)
    assert one.merit == pytest.approx(other.merit, rel=1e-9) or len(channels) == 1 or std


def test_a_combination_without_standard_errors_is_not_known():
    """Beside other terms of the objective nothing tells a std that is not given."""
    trial = ks.Experiment(TIME, measurements={x: noisy(decay(TIME, 1.3, 2.0), 0.05)})
    problem = ks.Shooting(
        DECAY,
        trial,
        {k: (0.1, 9.0)},
        initial={x: None},
        objective=ks.LeastSquares() + ks.Terminal(x**2),
    )
    found = problem.solve({k: 1.2}).interval(2 * k)
    assert np.isnan(found.standard_error) and found.remark == "not identifiable"


# -- residuals of collocation ----------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["radau-3", "gauss-4", "lobatto-4"])
def test_residuals_and_their_derivatives(scheme):
    """Against the objective, its gradient and the Gauss-Newton Hessian, which know nothing of the
    kernels of residuals; missing samples are left out."""
    measured = {x: noisy(swing(TIME, 10, 0.3, 1, 0), 0.1), "acceleration": noisy(0 * TIME, 5.0)}
    measured[x][3:5] = np.nan
    trials = [
        ks.Experiment(TIME, measurements=measured, std={x: 0.1, "acceleration": 2.0}),
        ks.Experiment(TIME[:21], measurements={x: measured[x][:21]}, std={x: 0.3}),
    ]
    problem = ks.Collocation(
        OSCILLATOR,
        trials,
        {k: (1, 100), c: (0, 10)},
        scheme=scheme,
        objective=2 * ks.LeastSquares(),
    )
    z = noisy(problem.pack({k: 10, c: 1}), 0.1, seed=1)
    e, slopes = problem.residuals(z), problem.residual_jacobian(z)
    assert problem.cost(z) == pytest.approx(2 * e @ e, rel=1e-14)
    np.testing.assert_allclose(4 * slopes.T @ e, problem.cost_gradient(z), rtol=1e-10, atol=1e-9)
    nlp = problem.problem.gauss_newton
    rows, columns = nlp.hessian_structure.arrays()
    values = nlp.hessian(z, np.zeros(problem.n_constraints), 1.0)
    np.testing.assert_allclose(
        (4 * (slopes.T @ slopes)).toarray()[rows, columns], values, rtol=1e-10, atol=1e-9
    )
    about = problem.problem.residual_nlp.samples
    assert len(about.time) == len(e) and set(about.channels) == {"x", "acceleration"}
    mine = (about.channel == about.channels.index("x")) & (about.trial == 0)
    np.testing.assert_array_equal(about.time[mine], TIME[~np.isnan(measured[x])])
    values = problem.unpack(z)["x"][0] - measured[x]
    np.testing.assert_allclose(e[mine], values[~np.isnan(values)] / 0.1, rtol=1e-12)


def test_leverages_agree_with_the_dense_hat_matrix():
    trial = ks.Experiment(TIME, measurements={x: noisy(decay(TIME, 1.0, 2.0), 1e-7)})
    problem = ks.Collocation(DECAY, trial, {k: None}, scheme="radau-5")
    solution = problem.solve({k: 0.9})
    kkt, slopes = (
        kkt_of(problem.problem, solution),
        problem.residual_jacobian(solution.free_vector),
    )
    exact = np.column_stack([-TIME * decay(TIME, 1.0, 2.0), decay(TIME, 1.0, 1.0)])
    q, _ = np.linalg.qr(exact)
    for found in (leverages(kkt, slopes, 1.0, 2), 2.0 * _forms(kkt, slopes)):
        np.testing.assert_allclose(found, (q**2).sum(axis=1), rtol=1e-5)


# -- one group: as curve_fit -----------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_decay_as_by_curve_fit(unit):
    """Estimates, standard errors and the standard deviation of the noise, to 6 digits."""
    y = unit * noisy(decay(TIME, 1.3, 2.0), 0.05)
    values, covariance = curve_fit(decay, TIME, y, (1.2, 2.0 * unit), ftol=1e-15, xtol=1e-15)
    rest = y - decay(TIME, *values)
    fit = by_shooting(DECAY, ks.Experiment(TIME, measurements={x: y}), {k: None}, {k: 1.2})
    np.testing.assert_allclose(fit.values, values, rtol=1e-6)
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(fit.covariance / size, covariance / size, rtol=1e-6, atol=1e-6)
    [noise] = fit.noise
    assert (noise.group, noise.samples, noise.freedom) == ("x", 41.0, 39.0)
    assert noise.std == pytest.approx(np.sqrt(rest @ rest / 39), rel=1e-6)
    np.testing.assert_array_equal(fit.trials[0].std["x"], np.full(41, noise.std))
    assert "39 degrees of freedom" in str(fit)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_oscillator_by_both(unit):
    """Collocation, with its second derivatives, where the noise is so small that they do not
    matter."""
    y = unit * noisy(swing(TIME, 10.0, 0.3, 1.0, 0.0), 1e-6)
    start = (10.0, 0.3, unit, 0.0)
    scale = np.array([10.0, 0.3, unit, unit])

    def slopes(time, *q):
        steps = 1e-30j * np.diag(scale)
        columns = [swing(time, *(np.array(q) + step)).imag / 1e-30 for step in steps]
        return np.array(columns).T / scale

    options = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, "x_scale": scale, "jac": slopes}
    _, covariance = curve_fit(swing, TIME, y, start, method="trf", **options)
    trial, unknown = ks.Experiment(TIME, measurements={x: y}), {k: (1, 100), c: (0, 10)}
    fit = by_shooting(OSCILLATOR, trial, unknown, {k: 9.9, c: 0.29}, (x, v))
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), errors, rtol=1e-5)
    problem = ks.Collocation(OSCILLATOR, trial, unknown, scheme="gauss-6")
    solution = problem.solve({k: 9.9, c: 0.29})
    assert not solution.notes and solution.noise[0].freedom == 37.0
    spread = np.sqrt(np.diag(problem.covariance(solution)))
    np.testing.assert_allclose(spread, errors[:2], rtol=1e-3)
    deviations = list(solution.grid_error().deviations.values())
    np.testing.assert_allclose(deviations, spread, rtol=1e-8)
    assert solution.estimated_std["x"] == pytest.approx(fit.estimated_std["x"], rel=1e-3)


def test_one_group_has_the_estimates_of_any_weight():
    """Bit for bit as with std = 1; with a factor of the objective the same standard errors."""
    y = noisy(decay(TIME, 1.3, 2.0), 0.05)
    open_, given = (ks.Experiment(TIME, measurements={x: y}, std=s) for s in ({}, {x: 1.0}))
    first, second = (ks.Collocation(DECAY, t, {k: None}) for t in (open_, given))
    one, other = first.solve({k: 1.2}), second.solve({k: 1.2})
    np.testing.assert_array_equal(one.free_vector, other.free_vector)
    assert one.objective == other.objective
    expected = one.estimated_std["x"] ** 2 * second.covariance(other)
    np.testing.assert_allclose(first.covariance(one), expected, rtol=1e-12)
    tenfold = ks.Collocation(DECAY, open_, {k: None}, objective=10 * ks.LeastSquares())
    again = tenfold.solve({k: 1.2})
    assert again.estimated_std["x"] == pytest.approx(one.estimated_std["x"], rel=1e-7)
    np.testing.assert_allclose(tenfold.covariance(again), first.covariance(one), rtol=1e-6)


def test_a_bound_that_holds_a_parameter_is_a_degree_of_freedom():
    y = noisy(decay(TIME, 1.3, 2.0), 0.05)
    trial = ks.Experiment(TIME, measurements={x: y})
    problem = ks.Collocation(DECAY, trial, {k: (0.0, 1.0)})
    assert problem.solve({k: 0.9}).noise[0].freedom == 40.0
    assert by_shooting(DECAY, trial, {k: (0.0, 1.0)}, {k: 0.9}).noise[0].freedom == 40.0


# -- several groups --------------------------------------------------------------------------------


def two_channels(unit, seed=0):
    """Two channels of very different units and noise."""
    truth = swing(TIME, 10.0, 0.3, 1.0, 0.0)
    return {x: noisy(truth, 0.02, seed), "force": unit * noisy(10 * truth, 1.0, seed + 1)}


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_two_channels_by_closed_form(unit):
    """x and 3 x in another unit, of a decay: least squares with a variance each, iterated on the
    closed form."""
    truth = decay(TIME, 1.3, 2.0)
    factor = sp.Symbol("factor")
    model = ks.Model("d", [x], [], [k, factor], DECAY.equations, outputs={"y": factor * x})
    measured = {x: noisy(truth, 0.02), "y": unit * noisy(3 * truth, 0.5, seed=1)}
    samples = np.concatenate([measured[x], measured["y"]])

    def both(time, k, start):
        return np.concatenate([decay(TIME, k, start), 3 * unit * decay(TIME, k, start)])

    sigma = np.array([1.0, unit])
    values = np.array([1.2, 2.0])
    for _ in range(30):
        each = np.repeat(sigma, 41)
        options = {"ftol": 1e-15, "xtol": 1e-15, "sigma": each, "absolute_sigma": True}
        values, covariance = curve_fit(both, None, samples, values, **options)
        e = (samples - both(None, *values)) / each
        slopes = np.column_stack([-TIME * decay(TIME, *values), decay(TIME, values[0], 1.0)])
        q, _ = np.linalg.qr(np.vstack([slopes, 3 * unit * slopes]) / each[:, None])
        left = 41 - (q**2).sum(axis=1).reshape(2, 41).sum(axis=1)
        sigma = sigma * np.sqrt((e**2).reshape(2, 41).sum(axis=1) / left)
    trial, known = ks.Experiment(TIME, measurements=measured), {factor: 3 * unit}
    fit = by_shooting(model, trial, {k: None}, {k: 1.2}, known=known)
    problem = ks.Collocation(model, trial, {k: None}, known, scheme="gauss-6")
    solution = problem.solve({k: 1.2})
    np.testing.assert_allclose(fit.values, values, rtol=1e-6)
    np.testing.assert_allclose(np.diag(fit.covariance), np.diag(covariance), rtol=1e-5)
    assert solution.parameters[k] == pytest.approx(values[0], rel=1e-6)
    assert problem.covariance(solution)[0, 0] == pytest.approx(covariance[0, 0], rel=1e-2)
    for found in (fit, solution):
        np.testing.assert_allclose(list(found.estimated_std.values()), sigma, rtol=1e-5)
        np.testing.assert_allclose([n.freedom for n in found.noise], left, rtol=1e-5)
        assert not found.notes


@pytest.mark.parametrize(("optimizer", "segments"), [("bfgs", 1), ("ipopt", 1), ("ipopt", 4)])
def test_all_optimisers_agree(optimizer, segments):
    trial = ks.Experiment(TIME, measurements=two_channels(1.0))
    unknown, guess = {k: (1, 100), c: (0, 10)}, {k: 9.5, c: 0.2}
    best = by_shooting(OSCILLATOR, trial, unknown, guess, (x, v))
    options = {"segments": segments, "initial": {x: None, v: None}, "method": "gauss-6"}
    fit = ks.Shooting(OSCILLATOR, trial, unknown, **options).solve(guess, optimizer=optimizer)
    for name, std in best.estimated_std.items():
        assert fit.estimated_std[name] == pytest.approx(std, rel=1e-4)
    np.testing.assert_allclose(
        list(fit.standard_errors().values())[:4], [*best.standard_errors().values()], rtol=1e-3
    )
    assert fit.iterations > 0 and np.isfinite(fit.history[-1].objective)


@pytest.mark.parametrize("loss", [None, "huber", "student"])
def test_factors_of_the_objective_do_not_matter(loss):
    trial = ks.Experiment(TIME, measurements=two_channels(1.0))
    unknown, guess = {k: (1, 100), c: (0, 10)}, {k: 9.5, c: 0.2}
    found = []
    for factor in (1.0, 10.0):
        objective = factor * ks.LeastSquares(loss)
        problem = ks.Collocation(OSCILLATOR, trial, unknown, objective=objective)
        solution = problem.solve(guess)
        fit = by_shooting(OSCILLATOR, trial, unknown, guess, (x, v), objective=objective)
        deviations = list(solution.grid_error().deviations.values())
        spread = np.sqrt(np.diag(problem.covariance(solution)))
        np.testing.assert_allclose(deviations, spread, rtol=1e-8)
        found.append([*solution.estimated_std.values(), *spread, *fit.standard_errors().values()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def test_groups_trials_and_given_ones():
    """A group over two channels, trials of which one knows its std, and a restart."""
    truth = swing(TIME, 10.0, 0.3, 1.0, 0.0)
    own = {x: noisy(truth, 0.02), "force": noisy(10 * truth, 0.02, 1)}
    more = {x: noisy(truth, 0.1, 2)}
    trials = [
        ks.Experiment(TIME, measurements=own, std={x: "camera", "force": "camera"}),
        ks.Experiment(TIME, measurements=more, std={x: 0.1}),
    ]
    assert trials[0].unknown_std == {"x": "camera", "force": "camera"} and not trials[0].std
    assert trials[1].unknown_std == {} and list(trials[1].std) == ["x"]
    problem = ks.Collocation(OSCILLATOR, trials, {k: (1, 100), c: (0, 10)})
    solution = problem.solve({k: 9.0, c: 0.2})
    [noise] = solution.noise
    assert noise.group == "camera" and noise.samples == 82.0 and 74.0 < noise.freedom < 82.0
    assert noise.std == pytest.approx(0.02, rel=0.3)
    np.testing.assert_array_equal(solution.trials[1].std["x"], np.full(41, 0.1))
    again = problem.solve(solution)
    assert again.iterations <= 3
    assert again.estimated_std["camera"] == pytest.approx(noise.std, rel=1e-4)
    np.testing.assert_allclose(problem.covariance(again), problem.covariance(solution), rtol=1e-3)


def test_a_hybrid_model():
    """A ball that bounces, its height in two units and its speed, each with a noise of its own."""
    y, speed, lam = ks.dynamicsymbols("y speed lam")
    g = sp.Symbol("g")
    equations = [y.diff(ks.t) - speed, speed.diff(ks.t) + g - lam]
    model = ks.Model("ball", [y, speed], [lam], [g], equations, outputs={"millimetres": 1000 * y})
    floor = ks.hybrid.Contact("floor", y, lam, restitution=0.8)
    ball = ks.hybrid.Hybrid(model, contacts=[floor])
    time, std = np.linspace(0.0, 1.2, 121), {"y": 0.002, "speed": 0.05, "millimetres": 5.0}
    run = ks.simulate(ball, time, {y: 1.0, speed: 0.0}, {g: 9.6})
    measured = {n: noisy(run[n], size, seed) for seed, (n, size) in enumerate(std.items())}
    trial = ks.Experiment(time, measurements=measured)
    task = ks.Shooting(ball, trial, {g: (9, 11)}, initial={y: None, speed: 0.0})
    fits = [task.solve({g: 9.7, y: 1.0}, optimizer=name) for name in ("least-squares", "bfgs")]
    for fit in fits:
        for each in fit.noise:
            assert abs(np.log(each.std / std[each.group])) < 3 / np.sqrt(2 * each.freedom)
        assert sum(each.freedom for each in fit.noise) == pytest.approx(3 * 121 - 2, abs=1e-6)
        assert abs(fit.parameters[g] - 9.6) < 3 * fit.standard_errors()["g"]
    # the objective jumps where an impact passes a sample of the speed: not the same to all digits
    assert fits[0].estimated_std == pytest.approx(fits[1].estimated_std, rel=0.01)


def test_on_a_refined_grid():
    """The grid of the solution is another one, its weights are those that were found."""
    trial = ks.Experiment(TIME, measurements=two_channels(1.0))
    problem = ks.Collocation(OSCILLATOR, trial, {k: (1, 100), c: (0, 10)}, scheme="midpoint")
    solution = problem.solve({k: 9.5, c: 0.2}, tolerance_grid=1e-4)
    exact = ks.Collocation(OSCILLATOR, trial, {k: (1, 100), c: (0, 10)}, scheme="gauss-6")
    other = exact.solve({k: 9.5, c: 0.2})
    assert len(solution.time) > 41 and f"after {solution.iterations} it" in solution.message
    for name, std in other.estimated_std.items():
        assert solution.estimated_std[name] == pytest.approx(std, rel=1e-3)
    np.testing.assert_allclose(problem.covariance(solution), exact.covariance(other), rtol=0.02)


@pytest.mark.study
@pytest.mark.parametrize("scheme", ["gauss-2", "gauss-4", "radau-3"])
def test_means_of_neighbours_have_less_noise(scheme):
    """An output with x' exists within intervals only, and Gauss compares it with means of two
    samples: the standard deviation found is that of one sample."""
    time = np.linspace(0.0, 5.0, 101)
    run = ks.simulate(OSCILLATOR, time, {x: 1.0, v: 0.0}, {k: 10.0, c: 0.3}, substeps=10)
    found = []
    for seed in range(20):
        rows = {
            x: noisy(run["x"], 0.01, seed),
            "acceleration": noisy(run["acceleration"], 0.5, 100 + seed),
        }
        trial = ks.Experiment(time, measurements=rows)
        problem = ks.Collocation(OSCILLATOR, trial, {k: (1, 100), c: (0, 10)}, scheme=scheme)
        found.append(problem.solve({k: 10, c: 0.2}).estimated_std)
    assert np.mean([each["x"] for each in found]) == pytest.approx(0.01, rel=0.05)
    assert np.mean([each["acceleration"] for each in found]) == pytest.approx(0.5, rel=0.05)


def test_without_noise_both_channels_stay_finite():
    truth = swing(TIME, 10.0, 0.3, 1.0, 0.0)
    trial = ks.Experiment(TIME, measurements={x: truth, "force": 1e6 * 10 * truth})
    equations = OSCILLATOR.equations
    model = ks.Model("o", [x, v], [], [k, c], equations, outputs={"force": 1e6 * k * x})
    solution = ks.Collocation(model, trial, {k: (1, 100), c: (0, 10)}, scheme="gauss-6").solve(
        {k: 9.0, c: 0.2}
    )
    assert solution.success and solution.parameters[k] == pytest.approx(10.0, rel=1e-6)
    assert all(0.0 < each.std < np.inf for each in solution.noise)


def test_noise_of_an_input_that_is_measured():
    """Errors in variables: half of the samples are taken by the input itself; the estimates of both
    standard deviations are those of the simulation."""
    time = np.linspace(0.0, 10.0, 201)
    model = ks.Model("lag", [x], [a], [k], [x.diff(ks.t) + k * (x - a)])
    push = np.sin(2 * time) + 0.5 * np.sin(5 * time)
    run = ks.simulate(model, time, {x: 0.0}, {k: 2.0}, inputs={a: push})
    measured = {x: noisy(run["x"], 0.05), a: noisy(push, 0.2, 1)}
    problem = ks.Collocation(
        model, ks.Experiment(time, measurements=measured), {k: (0, 10)}, unknown_inputs={a: None}
    )
    solution = problem.solve({k: 1.5})
    assert solution.success
    for (name, std), each in zip({"x": 0.05, "a": 0.2}.items(), solution.noise, strict=True):
        assert abs(np.log(each.std / std)) < 3 / np.sqrt(2 * each.freedom) and each.group == name
    assert sum(each.freedom for each in solution.noise) == pytest.approx(402 - 201 - 2, abs=1.0)
    assert abs(solution.parameters[k] - 2.0) < 3 * np.sqrt(problem.covariance(solution)[0, 0])


# -- intervals -------------------------------------------------------------------------------------


@pytest.mark.study
def test_coverage_of_t_intervals():
    """95 % intervals over 200 records with few samples of white noise of unknown size."""
    time = np.linspace(0.0, 2.0, 9)
    truth, hits = np.array([1.3, 2.0]), np.zeros(2)
    for seed in range(200):
        y = noisy(decay(time, *truth), 0.05, seed)
        trial = ks.Experiment(time, measurements={x: y})
        shooting = ks.Shooting(DECAY, trial, {k: None}, initial={x: None}, substeps=2)
        fit = shooting.solve({k: 1.3}, optimizer="least-squares")
        half = student.ppf(0.975, fit.noise[0].freedom) * np.sqrt(np.diag(fit.covariance))
        hits += np.abs(fit.values - truth) <= half
    assert ((hits / 200 >= 0.92) & (hits / 200 <= 0.98)).all(), hits


# -- what is said ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("std", "words"), [(0.05, ""), (0.02, "times its std"), (0.2, "times")])
def test_given_ones_that_contradict_the_residuals(std, words):
    trial = ks.Experiment(TIME, measurements={x: noisy(decay(TIME, 1.3, 2.0), 0.05)}, std={x: std})
    solution = ks.Collocation(DECAY, trial, {k: None}).solve({k: 1.2})
    fit = by_shooting(DECAY, trial, {k: None}, {k: 1.2})
    for found in (solution, fit):
        assert bool(found.notes) == bool(words) and not found.noise
        assert words in str(found) and all("leave std of x out" in n for n in found.notes)


def test_beside_an_integral_nothing_tells_it():
    trial = ks.Experiment(TIME, measurements={x: noisy(decay(TIME, 1.3, 2.0), 0.05)})
    objective = ks.LeastSquares() + ks.Integral(x**2 / 10)
    problem = ks.Collocation(DECAY, trial, {k: None}, objective=objective)
    solution = problem.solve({k: 1.2})
    assert not solution.noise and any("give std" in note for note in solution.notes)
    assert not solution.grid_error().deviations
    with pytest.raises(ValueError, match=r"std of x is not given and counts as 1.*; give std"):
        problem.covariance(solution)
    shooting = ks.Shooting(DECAY, trial, {k: None}, initial={x: None}, objective=objective)
    fit = shooting.solve({k: 1.2}, optimizer="least-squares")
    assert np.isnan(fit.covariance).all() and any("give std" in note for note in fit.notes)


def test_weights_beside_an_integral_are_not_judged():
    """There they are what the user wants, not what sensors do."""
    trial = ks.Experiment(TIME, measurements={x: noisy(decay(TIME, 1.3, 2.0), 0.05)}, std={x: 9.0})
    objective = ks.LeastSquares() + ks.Integral(x**2 / 10)
    problem = ks.Collocation(DECAY, trial, {k: None}, objective=objective)
    assert not problem.solve({k: 1.2}).notes
    shooting = ks.Shooting(DECAY, trial, {k: None}, initial={x: None}, objective=objective)
    assert not any("std" in note for note in shooting.solve({k: 1.2}).notes)


def test_a_constant_channel():
    """Its size is not that of its rounding."""
    level = np.full(41, 0.1) + 1e-18 * TIME
    trial = ks.Experiment(TIME, measurements={x: level, "triple": 3 * noisy(level, 0.01)})
    solution = ks.Collocation(DECAY, trial, {k: (-1, 1)}).solve({k: 0.1})
    assert solution.success and all(each.std > 0.0 for each in solution.noise)
    assert solution.estimated_std["triple"] == pytest.approx(0.03, rel=0.3)


def test_fewer_samples_than_unknowns():
    y = np.full(41, np.nan)
    y[[0, 20]] = [2.0, 0.5]
    trial = ks.Experiment(TIME, measurements={x: y})
    problem = ks.Collocation(DECAY, trial, {k: None})
    solution = problem.solve({k: 1.2})
    fit = by_shooting(DECAY, trial, {k: None}, {k: 1.2})
    for found in (solution, fit):
        assert np.isnan(found.noise[0].std) and found.noise[0].freedom == 0.0
        assert any("2 samples leave no degrees of freedom" in note for note in found.notes)
    with pytest.raises(ValueError, match="leave no degrees of freedom"):
        problem.covariance(solution)
    assert np.isnan(fit.covariance).all()


def test_bad_input():
    with pytest.raises(ValueError, match="std of x is an empty text"):
        ks.Experiment(TIME, measurements={x: TIME}, std={x: ""})
    model = ks.Model("lag", [x], [a], [k], [x.diff(ks.t) + k * (x - a)])
    trial = ks.Experiment(TIME, measurements={x: TIME, a: TIME})
    shooting = ks.Shooting(model, trial, {k: (0, 5)}, initial={x: 0.0}, unknown_inputs={a: None})
    with pytest.raises(ValueError, match="samples of unknown inputs; give std"):
        shooting.solve({k: 1.0})


def test_saved_and_loaded(tmp_path):
    trial = ks.Experiment(TIME, measurements=two_channels(1.0))
    problem = ks.Collocation(OSCILLATOR, trial, {k: (1, 100), c: (0, 10)})
    solution = problem.solve({k: 9.0, c: 0.2})
    solution.save(tmp_path / "a.nc")
    loaded = ks.Solution.load(tmp_path / "a.nc")
    assert loaded.noise == list(solution.noise)
    np.testing.assert_array_equal(problem.covariance(loaded), problem.covariance(solution))


# -- nothing is left, or nothing known -------------------------------------------------------------


def loaded(bounds, std, guess, noise=0.01, count=21, **more):
    """A swing with a load that is unknown, and measured at every second node: any k explains it,
    the load between is free."""
    time = np.linspace(0.0, 4.0, count)
    load = ks.dynamicsymbols("load")
    equations = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + 0.4 * v - load]
    model = ks.Model("loaded", [x, v], [load], [k], equations, outputs={"felt": 1 * load})
    seen = noisy(np.sin(2.0 * time), noise)
    felt = ks.Signal(time[::2], noisy(np.cos(time[::2]), 10.0 * noise))
    trial = ks.Experiment(time, measurements={x: seen, "felt": felt}, std=std)
    unknown = {"unknown_inputs": {load: bounds}, **more}
    return ks.Collocation(model, trial, {k: (0, 50)}, **unknown).solve({k: guess})


@pytest.mark.parametrize("bounds", [None, (-20, None), (-5, 5)])
@pytest.mark.parametrize("std", [{}, {x: "one", "felt": "one"}, {x: 0.01, "felt": 0.1}])
def test_what_any_value_explains_has_no_interval(bounds, std):
    """Whatever bounds there are, and whether standard deviations are given."""
    for guess in (3.0, 2.0):
        fit = loaded(bounds, std, guess)
        found = fit.parameters.table["k"]
        assert fit.success and fit.objective < 1e-6
        assert np.isnan(found.standard_error) and np.isnan(found.low)
        said = " ".join([*fit.notes, *(n for each in fit.uncertainty for n in each.notes)])
        assert "k is not identifiable" in said or "k: not determined" in said, fit
        assert all(np.isnan(each.std) and abs(each.freedom) < 0.5 for each in fit.noise)


def test_a_solution_is_kept_whatever_is_computed_about_it(monkeypatch):
    """A fault in what judges a solution is a note."""
    y = noisy(decay(TIME, 1.0, 2.0), 0.1)

    def fail(*_):
        raise KeyError("f")

    def solved(**std):
        trial = ks.Experiment(TIME, measurements={x: y, "triple": 3 * y}, **std)
        return ks.Collocation(DECAY, trial, {k: None}).solve({k: 0.9})

    for place, given in (
        ("kinesym.runtime.estimation.estimation.contradictions", {"std": {x: 0.1, "triple": 0.3}}),
        ("kinesym.internal.fitting.certificate.grid_error", {}),
        ("kinesym.internal.fitting.curvature.kkt_at", {}),
        (
            "kinesym.internal.fitting.curvature.parameter_confidence",
            {"std": {x: 50.0, "triple": 50.0}},
        ),
        ("kinesym.runtime.estimation.estimation.estimated", {}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, fail)
            solution = solved(**given)
        assert solution.success and solution.parameters["k"] == pytest.approx(1.0, rel=0.2)
        assert any("could not be computed (KeyError: 'f')" in note for note in solution.notes)
    monkeypatch.setattr("kinesym.runtime.shooting.confidence.confidence_of_squares", fail)
    fit = by_shooting(DECAY, ks.Experiment(TIME, measurements={x: y}), {k: None}, {k: 0.9})
    assert fit.success and fit.parameters["k"] == pytest.approx(1.0, rel=0.2)
    assert any("could not be computed (KeyError: 'f')" in note for note in fit.notes)
    assert np.isnan(fit.standard_errors()["k"])
