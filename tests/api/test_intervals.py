"""Intervals of fits by all methods, against closed forms, SciPy and each other."""

import gc

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, curve_fit, minimize_scalar
from scipy.signal import lfilter
from scipy.stats import t as student

import kinesym as ks
from kinesym.runtime.statistics.kkt import Kkt
from kinesym.symbolic.names import dynamicsymbols, t

X, V = dynamicsymbols("x v")
K, B = sp.symbols("k b")
TIME = np.linspace(0.0, 5.0, 201)
TRUE = {"k": 20.0, "b": 0.4}


@pytest.fixture(scope="module")
def oscillator():
    equations = [X.diff(t) - V, V.diff(t) + K * X + B * V]
    return ks.Model("oscillator", [X, V], [], [K, B], equations)


def motion(time, k, b, x0, v0):
    """Closed form of the damped oscillator."""
    w = np.sqrt(k - 0.25 * b**2)
    decay = np.exp(-0.5 * b * time)
    return decay * (x0 * np.cos(w * time) + (v0 + 0.5 * b * x0) / w * np.sin(w * time))


def record(noise, seed=0, rho=0.0):
    e = np.random.default_rng(seed).standard_normal(len(TIME) + 100)
    e = lfilter([np.sqrt(1.0 - rho**2)], [1.0, -rho], e)[100:]
    return motion(TIME, 20.0, 0.4, 1.0, 0.0) + noise * e


def collocated(model, y, **more):
    trial = ks.Experiment(TIME, measurements={X: y}, **more)
    problem = ks.Collocation(model, trial, unknown={K: (0, 100), B: (-1, 5)}, scheme="radau-5")
    return problem.solve({K: 18.0, B: 0.2})


def shot(model, y, **more):
    problem = ks.Shooting(
        model,
        ks.Experiment(TIME, measurements={X: y}, **more),
        unknown={K: (0, 100), B: (-1, 5)},
        initial={X: None, V: None},
        method="rk4",
        substeps=8,
    )
    return problem.solve({K: 18.0, B: 0.2}, "least-squares")


@pytest.fixture(scope="module", params=[collocated, shot])
def fit(request, oscillator):
    return request.param(oscillator, record(0.05))


def closed(y):
    """Estimates and covariance by SciPy, from the closed form."""
    found = curve_fit(motion, TIME, y, [18.0, 0.2, 1.0, 0.0])
    return found[0], np.sqrt(np.diag(found[1]))


def test_estimates_and_standard_errors_are_those_of_the_closed_form(fit):
    values, errors = closed(record(0.05))
    assert [fit.parameters[p] for p in (K, B)] == pytest.approx(values[:2], rel=1e-6)
    found = fit.parameters.standard_errors()
    # the curvature of collocation is exact, that of SciPy Gauss and Newton's
    assert [found["k"], found["b"]] == pytest.approx(errors[:2], rel=0.02)


def test_errors_are_asked_alike_of_both_ways(fit):
    errors = fit.standard_errors()
    for name, row in fit.parameters.table.items():
        assert errors[name] == row.standard_error
    assert [*errors.values()] == pytest.approx(np.sqrt(np.diag(fit.covariance)), rel=1e-14)
    assert not fit.active and fit.duration == TIME[-1]


def test_degrees_of_freedom(fit):
    """201 samples, 4 unknowns."""
    low, high = fit.intervals(0.9).intervals()["k"]
    error = fit.parameters.standard_errors()["k"]
    assert (high - low) / error == pytest.approx(2.0 * student.ppf(0.95, 197), rel=1e-6)


def test_given_std_is_believed(oscillator):
    found = collocated(oscillator, record(0.05), std={X: 0.05})
    low, high = found.parameters.intervals()["k"]
    error = found.parameters.standard_errors()["k"]
    assert (high - low) / error == pytest.approx(2.0 * 1.959963984540054, rel=1e-6)


def test_profiles_solve_again_with_a_parameter_held(fit):
    """Against SciPy: the closed form with k held, the rise of the sum of squares."""
    found = fit.profile(K)
    y = record(0.05)

    def squares(k):
        free = curve_fit(lambda s, *q: motion(s, k, *q), TIME, y, [0.4, 1.0, 0.0])[0]
        return np.sum((y - motion(TIME, k, *free)) ** 2)

    variance = squares(found.estimate) / 197.0
    target = student.ppf(0.975, 197) ** 2
    for end in (found.low, found.high):
        rise = (squares(end) - squares(found.estimate)) / variance
        assert rise == pytest.approx(target, rel=0.01)
    assert len(found.values) <= 7  # two or three solves per side


def test_profile_near_a_bound(oscillator):
    trial = ks.Experiment(TIME, measurements={X: record(0.3)})
    problem = ks.Collocation(oscillator, trial, unknown={K: (0, 100), B: (0.3, 5)})
    found = problem.solve({K: 20.0, B: 0.5}).profile(B)
    assert found.low == 0.3
    assert "b is not limited below: the interval reaches the bound 0.3" in found.notes


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shooting", [False, True])
def test_what_is_at_a_bound_leaves_it_where_another_is_held(shooting, log):
    """A decay with an inflow c of at least 0, which is estimated as 0: where the rate is higher
    than estimated, some inflow makes up for it. Ends against SciPy on the closed form."""
    a, c = sp.symbols("a c")
    model = ks.Model("decay", [X], [], [a, c], [X.diff(t) + a * X - c])
    time, std = np.linspace(0.0, 2.0, 81), 0.02
    run = lambda a, c: (1.0 - c / a) * np.exp(-a * time) + c / a  # noqa: E731
    y = run(1.5, -0.003) + std * np.random.default_rng(1).standard_normal(81)
    trial = ks.Experiment(time, measurements={X: y}, std={X: std})
    unknown = {a: ks.log_scale(0.1, 5.0) if log else (0.1, 5.0), c: (0.0, 2.0)}
    if shooting:
        fit = ks.Shooting(model, trial, unknown, initial={X: 1.0}).solve({a: 1.0, c: 0.1})
    else:
        problem = ks.Collocation(
            model, trial, unknown, boundary=[ks.at_start(X) - 1], scheme="gauss-4"
        )
        fit = problem.solve({a: 1.0, c: 0.1})
    assert fit.parameters["c"] < 1e-6

    def least(a):
        J = lambda c: (((run(a, c) - y) / std) ** 2).sum()  # noqa: E731
        return minimize_scalar(J, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-10}).fun

    best = minimize_scalar(least, bounds=(1.0, 2.0), method="bounded", options={"xatol": 1e-10})
    rise = lambda a: least(a) - best.fun - 3.841459  # noqa: E731
    ends = [brentq(rise, *sides) for sides in ((0.5, best.x), (best.x, 4.0))]
    row = fit.interval(a, method="profile")
    assert [row.low, row.high] == pytest.approx(ends, rel=1e-4)
    assert not row.remark


def test_a_solution_keeps_no_factors(oscillator):
    """Many solutions are kept in a study; the matrices of each would fill the memory."""
    gc.collect()
    before = sum(isinstance(thing, Kkt) for thing in gc.get_objects())
    found = collocated(oscillator, record(0.05))
    found.profile(K)
    gc.collect()
    assert sum(isinstance(thing, Kkt) for thing in gc.get_objects()) == before


def test_profiles_and_resampled_estimates_come_back_from_files(fit, tmp_path):
    made = fit.profile(K), fit.bootstrap(4)
    for kind, result in zip((ks.Profile, ks.Bootstrap), made, strict=True):
        result.save(tmp_path / "result.nc")
        assert repr(kind.load(tmp_path / "result.nc")) == repr(result)


def test_all_methods_agree_on_white_noise(fit):
    widths = {}
    for method in ("t", "sandwich", "profile"):
        low, high = fit.intervals(method=method).intervals()["k"]
        assert low < 20.0 < high
        widths[method] = high - low
    assert widths["profile"] == pytest.approx(widths["t"], rel=0.05)
    assert widths["sandwich"] == pytest.approx(widths["t"], rel=0.25)


def test_bootstrap(fit):
    found = fit.bootstrap(60, seed=1)
    assert found.estimates.shape == (60, 2) and found.failed == 0
    error = fit.parameters.standard_errors()["k"]
    assert found.standard_errors()["k"] == pytest.approx(error, rel=0.35)
    table = fit.intervals(method="bootstrap", records=60, seed=1)
    assert table.intervals()["k"] == pytest.approx(found.intervals()["k"])


def test_correlated_noise_widens_the_sandwich(oscillator):
    widths = {}
    for solve in (collocated, shot):
        found = solve(oscillator, record(0.05, rho=0.8))
        assert "are not white" in str(found.diagnostics())
        ends = [found.intervals(method=m).intervals()["b"] for m in ("t", "sandwich")]
        assert "degrees of freedom" in found.intervals(method="sandwich").title
        plain, robust = (high - low for low, high in ends)
        widths[solve] = robust / plain
    assert widths[collocated] == pytest.approx(widths[shot], rel=0.02)
    assert widths[shot] != pytest.approx(1.0, abs=0.05)


def test_units_do_not_matter(oscillator):
    y = record(0.05)
    small, large = (collocated(oscillator, unit * y) for unit in (1e-6, 1e3))
    for method in ("t", "sandwich", "profile"):
        a, b = (found.intervals(method=method).intervals()["k"] for found in (small, large))
        assert a == pytest.approx(b, rel=1e-4)


def test_combinations(fit):
    """Damping ratio and position at the end, against the covariance of the closed form."""
    y = record(0.05)
    values, covariance = curve_fit(motion, TIME, y, [18.0, 0.2, 1.0, 0.0])

    def spread(f):
        step = 1e-6 * np.eye(4)
        slopes = [(f(values + d) - f(values - d)) / 2e-6 for d in step]
        return np.sqrt(slopes @ covariance @ slopes)

    ratio = fit.interval(B / (2 * sp.sqrt(K)))
    assert ratio.value == pytest.approx(values[1] / (2 * values[0] ** 0.5), rel=1e-5)
    assert ratio.standard_error == pytest.approx(
        spread(lambda q: q[1] / (2 * q[0] ** 0.5)), rel=0.02
    )
    end = fit.interval(ks.at_end(X) - ks.at_start(X), level=0.9)
    assert end.standard_error == pytest.approx(
        spread(lambda q: motion(5.0, *q) - motion(0.0, *q)), rel=0.02
    )
    assert end.low < end.value < end.high


@pytest.mark.parametrize(
    "expression, words",
    [
        (X, "write ks.at_end"),
        (sp.Symbol("m") * K, "m, which is no parameter"),
        (ks.at_end(sp.Function("w")(t)), "w, which is no state"),
        ("k", "the combination"),
    ],
)
def test_what_is_no_combination(fit, expression, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fit.interval(expression)


def test_a_report(fit, tmp_path):
    path = fit.report(tmp_path / "report.html", profiles=[fit.profile(B)])
    text = path.read_text(encoding="utf-8")
    assert "k is known to" in text and "No test contradicts residuals that are white" in text
    assert text.count("<figure>") == 5 and "Profile of b" in text and "What decides" in text
    assert text.count("Shaded: where the model is with 95 % at any one time") == 1


def test_a_report_of_many_trials(oscillator, tmp_path):
    """Pictures of those that fit worst only."""
    trials = [
        ks.Experiment(TIME, measurements={X: record(0.05 + 0.01 * (k == 6), k)}) for k in range(8)
    ]
    problem = ks.Collocation(oscillator, trials, unknown={K: (0, 100), B: (-1, 5)})
    path = problem.solve({K: 18.0, B: 0.2}).report(tmp_path / "many.html")
    text = path.read_text(encoding="utf-8")
    assert text.count("<figure>") == 6 + 6 + 2 and "Fit, trial 6" in text
    assert "Of 8 trials those 6 are shown whose residuals are largest." in text
    assert path.stat().st_size < 3e6


def test_a_report_of_what_has_not_converged(oscillator, tmp_path):
    trial = ks.Experiment(TIME, measurements={X: record(0.05)})
    problem = ks.Collocation(oscillator, trial, unknown={K: (0, 100), B: (-1, 5)})
    path = problem.solve({K: 18.0}, max_iterations=1).report(tmp_path / "report.md")
    text = path.read_text(encoding="utf-8")
    assert "- It has not converged: after 1 iteration" in text
    assert "Fit" in text and "interval" not in text


@pytest.mark.parametrize("solve", [collocated, shot])
def test_no_profiles_without_noise(oscillator, solve):
    run = ks.simulate(oscillator, TIME, {X: 1.0, V: 0.0}, {K: 20.0, B: 0.4}, substeps=8)
    y = run["x"] if solve is shot else np.nan_to_num(solve(oscillator, record(0.05))["x"])
    found = solve(oscillator, y)
    for ask in (lambda: found.profile(K), lambda: found.intervals(method="profile")):
        with pytest.raises(ValueError, match="samples of x are met but for rounding"):
            ask()
    assert not found.diagnostics().sentences


def test_what_is_saved_keeps_its_table(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    again = type(fit).load(tmp_path / "fit.nc")
    assert str(again.parameters) == str(fit.parameters)
    assert again.intervals(0.5).intervals() == fit.intervals(0.5).intervals()
    assert str(again.diagnostics()) == str(fit.diagnostics())
    with pytest.raises(ValueError, match="has no problem to solve again"):
        again.profile("k")


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda fit: fit.intervals(95.0), "level must be between 0 and 1, got 95"),
        (lambda fit: fit.intervals(method="jackknife"), "method"),
        (lambda fit: fit.profile("m"), "parameter"),
        (lambda fit: fit.bootstrap(1), "records must be at least 2"),
        (lambda fit: fit.report("report.pdf"), "a report is a"),
    ],
)
def test_bad_input(fit, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(fit)


def test_no_standard_errors_of_what_is_no_fit(oscillator):
    problem = ks.Collocation(
        oscillator,
        ks.Experiment(TIME),
        unknown={K: (10, 30)},
        known={B: 0.4},
        objective=ks.Terminal(X**2),
        boundary=[ks.at_start(X) - 1, ks.at_start(V)],
    )
    found = problem.solve({K: 18.0})
    with pytest.raises(ValueError, match="there are no standard errors"):
        found.intervals()
