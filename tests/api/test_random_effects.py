"""Parameters with a distribution over subjects: against closed forms, statsmodels, quadrature."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import minimize

import kinesym as ks

x = ks.dynamicsymbols("x")
a, b = sp.symbols("a b")
TIME = np.linspace(0.0, 1.0, 9)


def line():
    """x = b t."""
    return ks.Model("line", [x], [], [b], [x.diff(ks.t) - b])


def records(rng, subjects=6, mean=1.0, sd=0.5, std=0.2, offset=0.3):
    """Samples of offset + b t, (subjects, N)."""
    slopes = mean + sd * rng.standard_normal(subjects)
    return offset + slopes[:, None] * TIME + std * rng.standard_normal((subjects, len(TIME)))


def lines(rows, mean=None, sd=None, **options):
    """y = a + b t with b of each subject."""
    trials = [
        ks.Experiment(TIME, measurements={"y": y}, labels={"subject": f"s{k}"}, **options)
        for k, y in enumerate(rows)
    ]
    return ks.Collocation(
        line(),
        trials,
        {a: None, b: ks.per("subject", ks.normal(mean, sd))},
        boundary=[ks.at_start(x)],
        sensors={"y": a + x},
        scheme="radau-1",
    )


def loss(q, rows, time=TIME):
    """-2 log L of (a, mean, log sd, log std) of lines with slopes that are normally distributed."""
    spread = np.exp(2.0 * q[2]) * np.outer(time, time) + np.exp(2.0 * q[3]) * np.eye(len(time))
    left = np.linalg.solve(np.linalg.cholesky(spread), (rows - q[0] - q[1] * time).T)
    return len(rows) * np.linalg.slogdet(2.0 * np.pi * spread)[1] + (left**2).sum()


def largest(rows):
    """(a, mean, log sd, log std) of the largest likelihood, and their covariance."""
    found = minimize(loss, [0.3, 1.0, -0.7, -1.6], (rows,), "BFGS", options={"gtol": 1e-7}).x
    step, unit = 1e-3, np.eye(4)
    curved = [
        [
            sum(
                s * r * loss(found + step * (s * e + r * f), rows) for s in (1, -1) for r in (1, -1)
            )
            for e in unit
        ]
        for f in unit
    ]
    return found, 2.0 * np.linalg.inv(np.array(curved) / (4.0 * step**2))


@pytest.fixture(scope="module")
def rows():
    return records(np.random.default_rng(4))


@pytest.fixture(scope="module")
def fit(rows):
    return lines(rows).solve({b: 0.5})


def test_random_slopes_in_closed_form(rows, fit):
    """Estimates, their covariance, and the likelihood are those of the linear mixed model."""
    assert fit.success
    names = ["a", "mean(b)", "sd(b)"]
    assert list(fit.parameters)[:4] == [*names, "b[s0]"]
    expected, covariance = largest(rows)
    found = [fit.parameters["a"], fit.parameters["mean(b)"]]
    spreads = np.log([fit.parameters["sd(b)"], fit.estimated_std["y"]])
    np.testing.assert_allclose([*found, *spreads], expected, atol=1e-4)
    assert fit.log_likelihood == pytest.approx(-0.5 * loss(expected, rows), abs=1e-7)
    scale = np.array([1.0, 1.0, fit.parameters["sd(b)"]])
    np.testing.assert_allclose(
        fit.uncertainty[0].covariance[:3, :3],
        covariance[:3, :3] * np.outer(scale, scale),
        rtol=1e-3,
        atol=1e-6,
    )


def test_the_likelihood_with_a_prior_of_what_is_shared(rows):
    """That of the samples at the estimates, which the prior of the offset draws away."""
    problem = lines(rows)
    unknown = {a: ks.normal(0.0, 0.02), b: ks.per("subject", ks.normal(None, None))}
    about = {"boundary": [ks.at_start(x)], "sensors": {"y": a + x}, "scheme": "radau-1"}
    fit = ks.Collocation(line(), problem.trials, unknown, **about).solve({b: 0.5})
    p, std = fit.parameters, fit.estimated_std["y"]
    at = [p["a"], p["mean(b)"], np.log(p["sd(b)"]), np.log(std)]
    assert abs(p["a"]) > 0.02
    assert fit.log_likelihood == pytest.approx(-0.5 * loss(at, rows), abs=1e-6)


#: MixedLM(y, [1, t], groups=subject, exog_re=t).fit(reml=False) of statsmodels 0.15.0 with gtol
#: 1e-10: fixed effects, their standard errors, variance of slopes, scale, log-likelihood.
STATSMODELS = (0.28899334, 0.97253669, 0.05021272, 0.20602576, 0.2119656, 0.0400444505, 1.60722977)


def test_random_slopes_by_statsmodels(fit):
    p, std = fit.parameters, fit.estimated_std["y"]
    errors = [p.table[name].standard_error for name in ("a", "mean(b)")]
    found = [p["a"], p["mean(b)"], *errors, p["sd(b)"] ** 2, std**2, fit.log_likelihood]
    np.testing.assert_allclose(found, STATSMODELS, rtol=2e-5)


def test_values_of_subjects_are_the_best_ones(rows, fit):
    """They are shrunk towards the mean, with their errors given what is estimated, and that of
    these."""
    p, std, n = fit.parameters, fit.estimated_std["y"], len(rows)
    precision = TIME @ TIME / std**2 + p["sd(b)"] ** -2.0
    best = ((rows - p["a"]) @ TIME / std**2 + p["mean(b)"] * p["sd(b)"] ** -2.0) / precision
    own = [f"b[s{k}]" for k in range(n)]
    np.testing.assert_allclose([p[name] for name in own], best, rtol=1e-8)
    # of the means of normal distributions, (a, mean) alone
    errors, ways = fit.uncertainty[0], np.array([-TIME.sum() / std**2, p["sd(b)"] ** -2.0])
    outer = errors.covariance[:2, :2]
    least = 1.0 / precision + ways @ outer @ ways / precision**2
    deviations = errors.deviations()[3:]
    assert (deviations**2 >= least * (1.0 - 1e-6)).all() and deviations.max() ** 2 < 2.0 * least
    assert {p.table[name].remark for name in own} == {"random effect"}


def test_bands_know_of_the_distribution(rows, fit):
    """x = b t ends at b, which is as uncertain but for the errors of std, which bands leave out."""
    for k in range(len(rows)):
        error = fit.parameters.table[f"b[s{k}]"].standard_error
        assert fit.bands().trials[k].deviation["x"][-1] == pytest.approx(error, rel=1e-2)


def test_intervals_by_students_t(fit):
    """The mean of six subjects has five degrees of freedom; the spread is positive."""
    row = fit.parameters.table["mean(b)"]
    assert row.high - row.value == pytest.approx(2.570582 * row.standard_error, rel=1e-5)
    row = fit.parameters.table["sd(b)"]
    assert row.low > 0.0 and row.low * row.high == pytest.approx(row.value**2)
    row = fit.parameters.table["a"]
    assert row.high - row.value == pytest.approx(1.959964 * row.standard_error, rel=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(rows, fit, unit):
    other = lines(unit * rows).solve({b: 50.0 * unit})
    for name in ("a", "mean(b)", "sd(b)"):
        one, same = fit.parameters.table[name], other.parameters.table[name]
        assert same.value == pytest.approx(unit * one.value, rel=1e-6)
        assert same.standard_error == pytest.approx(unit * one.standard_error, rel=1e-5)
    assert other.log_likelihood + 54 * np.log(unit) == pytest.approx(fit.log_likelihood, abs=1e-6)


def test_solved_again_and_asked(fit, rows, tmp_path):
    """From its own solution it ends at once; the table is saved; the likelihood is asked again."""
    task = lines(rows)
    again = task.solve(fit)
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-8)
    assert task.log_likelihood(fit) == pytest.approx(fit.log_likelihood, abs=1e-8)
    assert task.covariance(fit).shape == (9, 9)
    fit.save(tmp_path / "fit.nc")
    loaded = ks.Solution.load(tmp_path / "fit.nc")
    assert str(loaded.parameters) == str(fit.parameters)
    with pytest.raises(ValueError, match="process noise or random effects"):
        fit.intervals(method="profile")
    assert "mean(b)" in fit.report(tmp_path / "fit.html").read_text()


def test_combinations(fit):
    """What the line of a subject says at t = 2, from the covariance of all unknowns."""
    about = fit.uncertainty[0]
    own = [list(about.names).index(name) for name in ("a", "b[s1]")]
    row = np.array([1.0, 2.0])
    found = fit.interval(a + 2 * b, trial=1)
    assert found.value == pytest.approx(fit.parameters[a] + 2.0 * fit.parameters["b[s1]"])
    variance = row @ about.covariance[np.ix_(own, own)] @ row
    assert found.standard_error == pytest.approx(np.sqrt(variance), rel=1e-12)
    with pytest.raises(ValueError, match=r"and x is a state; take fit\.bands"):
        fit.interval(ks.at_end(x))


def test_what_is_known_of_the_distribution(rows, fit):
    """A known mean or spread stays; bounds hold; a spread of zero is said."""
    p = fit.parameters
    known = lines(rows, sd=p["sd(b)"]).solve({b: 0.5})
    assert known.parameters["mean(b)"] == pytest.approx(p["mean(b)"], rel=1e-5)
    assert "sd(b)" not in known.parameters
    row = known.parameters.table["mean(b)"]  # nothing is left to Student
    assert row.high - row.value == pytest.approx(1.959964 * row.standard_error, rel=1e-5)
    known = lines(rows, mean=p["mean(b)"]).solve({b: 0.5})
    assert known.parameters["sd(b)"] == pytest.approx(p["sd(b)"], rel=1e-4)
    bound = lines(rows, sd=(1.0, 5.0)).solve({b: 0.5})
    assert bound.parameters["sd(b)"] == pytest.approx(1.0)
    assert bound.parameters.table["sd(b)"].remark == "at a bound"


def test_subjects_that_are_alike():
    """Where the noise explains all differences the spread goes to zero; the mean is known as if
    all were one subject."""
    rows = records(np.random.default_rng(1), sd=0.0)
    fit = lines(rows).solve({b: 0.5})
    assert fit.success and fit.parameters.table["sd(b)"].remark == "at a bound"
    assert any("sd(b)" in note and "alike" in note for note in fit.notes)
    assert fit.likelihood[0].unknowns == 4
    slopes = np.tile(TIME, len(rows))
    line = np.polyfit(slopes, rows.ravel(), 1)
    assert fit.parameters["mean(b)"] == pytest.approx(line[0], abs=1e-4)
    assert fit.parameters["a"] == pytest.approx(line[1], abs=1e-4)


def test_two_random_effects():
    """Levels and slopes of each trial, independent of one another: the likelihood has its maximum
    in closed form there."""
    rng = np.random.default_rng(8)
    rows = records(rng, 8) + 0.4 * rng.standard_normal((8, 1))
    trials = [ks.Experiment(TIME, measurements={"y": y}, std={"y": 0.2}) for y in rows]
    drawn = ks.per_trial(ks.normal(None, None))
    given = {"boundary": [ks.at_start(x)], "sensors": {"y": a + x}, "scheme": "radau-1"}
    fit = ks.Collocation(line(), trials, {a: drawn, b: drawn}, **given).solve({a: 0.0, b: 1.0})
    assert fit.success
    names = ["mean(b)", "sd(b)", "mean(a)", "sd(a)"]
    assert sorted(fit.parameters)[-4:] == sorted(names) and "b[7]" in fit.parameters

    def exact(q):
        one = np.ones_like(TIME)
        spread = q[1] ** 2 * np.outer(TIME, TIME) + q[3] ** 2 * np.outer(one, one)
        left = rows - q[2] - q[0] * TIME
        V = spread + 0.2**2 * np.eye(len(TIME))
        return 8 * np.linalg.slogdet(2.0 * np.pi * V)[1] + (left @ np.linalg.inv(V) * left).sum()

    q = [fit.parameters[name] for name in names]
    best = minimize(exact, q, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-11})
    np.testing.assert_allclose(q, best.x, rtol=1e-4)
    assert fit.log_likelihood == pytest.approx(-0.5 * best.fun, abs=1e-7)


def test_with_process_noise():
    """x' = -b x + push, each subject with a rate of its own, pushed by known noise: Laplace's
    method in rate and noise together, by the covariance of the Gaussian process. By quadrature over
    the rates log L is 0.7 more, the mean rate 1.190."""
    rng, push, std = np.random.default_rng(6), ks.dynamicsymbols("push"), 0.1
    time = 0.1 * np.arange(31)

    def moved(rate):
        """Derivatives (N, N - 1) of x at the nodes by the noise in each interval."""
        fall, gain = np.exp(-0.1 * rate), (1.0 - np.exp(-0.1 * rate)) / rate
        later = np.arange(31)[:, None] - 1 - np.arange(30)
        return np.where(later >= 0, gain * fall ** np.maximum(later, 0), 0.0)

    def covariance(rate):
        return moved(rate) @ moved(rate).T / 0.1 + std**2 * np.eye(31)

    rows = []
    for rate in 2.0 + 0.5 * rng.standard_normal(4):
        clean = np.exp(-rate * time) + moved(rate) @ (rng.standard_normal(30) / np.sqrt(0.1))
        rows.append(clean + std * rng.standard_normal(31))
    model = ks.Model("pushed", [x], [push], [b], [x.diff(ks.t) + b * x - push])
    trials = [
        ks.Experiment(time, measurements={x: y}, std={x: std}, labels={"subject": k})
        for k, y in enumerate(rows)
    ]
    unknown, start = {b: ks.per("subject", ks.normal(None, 0.5))}, [ks.at_start(x) - 1]
    given = {"noise": {push: 1.0}, "boundary": start, "scheme": "gauss-6"}
    fit = ks.Collocation(model, trials, unknown, **given).solve({b: 1.5})
    assert fit.success and next(iter(fit.parameters)) == "mean(b)"
    mean, total, step = fit.parameters["mean(b)"], 0.0, 1e-3
    assert mean == pytest.approx(1.190, abs=0.02)
    for k, y in enumerate(rows):

        def aim(rate, y=y):
            left = y - np.exp(-rate * time)
            return left @ np.linalg.solve(covariance(rate), left) + ((rate - mean) / 0.5) ** 2

        best = fit.parameters[f"b[{k}]"]
        before, here, after = (aim(best + side) for side in (-step, 0.0, step))
        assert abs(after - before) < 1e-4 * (after - 2.0 * here + before) / step
        height = np.linalg.slogdet(2.0 * np.pi * covariance(best))[1] + np.log(0.5 * np.pi)
        curvature = (after - 2.0 * here + before) / step**2
        total += 0.5 * np.log(4.0 * np.pi / curvature) - 0.5 * (here + height)
    assert fit.log_likelihood == pytest.approx(total, abs=1e-5)


def decays(rng, subjects=5):
    """exp(-k t) with log k normal, known noise."""
    rates = 2.0 * np.exp(0.4 * rng.standard_normal(subjects))
    return np.exp(-rates[:, None] * TIME) + 0.05 * rng.standard_normal((subjects, len(TIME)))


def decay(rows, **options):
    model = ks.Model("decay", [x], [], [b], [x.diff(ks.t) + b * x])
    trials = [
        ks.Experiment(TIME, measurements={x: y}, std={x: 0.05}, labels={"subject": k})
        for k, y in enumerate(rows)
    ]
    unknown = {b: ks.per("subject", ks.lognormal(None, None))}
    boundary = [ks.at_start(x) - 1]
    return ks.Collocation(model, trials, unknown, boundary=boundary, scheme="radau-5")


def by_quadrature(q, rows):
    """-2 log L of (log median, log of the log of the factor): the values of each subject
    integrated out, about their maximum."""
    mean, sd, total = q[0], np.exp(q[1]), 0.0
    over = np.linspace(mean - 9.0 * sd, mean + 9.0 * sd, 4001)
    prior = -0.5 * ((over - mean) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))
    model = np.exp(-np.exp(over)[:, None] * TIME)
    for y in rows:
        height = -0.5 * (((model - y) / 0.05) ** 2).sum(axis=1) + prior
        height -= len(y) * np.log(0.05 * np.sqrt(2.0 * np.pi))
        top = height.max()
        total += top + np.log(np.exp(height - top).sum() * (over[1] - over[0]))
    return -2.0 * total


def test_a_nonlinear_model_by_quadrature():
    """Decays with rates of a lognormal distribution: Laplace's method is within 0.01 of the
    likelihood, and of a standard error of the estimates."""
    rows = decays(np.random.default_rng(2))
    fit = decay(rows).solve({b: 1.0})
    assert fit.success and list(fit.parameters)[:2] == ["median(b)", "factor(b)"]
    p = fit.parameters
    found = np.array([np.log(p["median(b)"]), np.log(np.log(p["factor(b)"]))])
    exact = minimize(by_quadrature, found, (rows,), "BFGS", options={"gtol": 1e-6}).x
    assert fit.log_likelihood == pytest.approx(-0.5 * by_quadrature(found, rows), abs=0.02)
    error = p.table["median(b)"].standard_error / p["median(b)"]
    assert abs(found[0] - exact[0]) < 0.02 * error
    assert abs(found[1] - exact[1]) < 0.02
    row = p.table["factor(b)"]
    assert 1.0 < row.low < row.value < row.high
    assert np.log(np.log(row.high) / np.log(row.value)) == pytest.approx(
        np.log(np.log(row.value) / np.log(row.low))
    )


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        (lambda: ks.normal(None, 1.0), r"parameter b has one value.*ks\.per"),
        (lambda: ks.normal(0.0, (-2.0, -1.0)), "must be positive: widen"),
        (lambda: ks.lognormal((-2.0, 1.0), None), "positive bounds"),
        (lambda: ks.lognormal(None, (0.2, 0.9)), "more than 1: widen"),
        (lambda: ks.per("subject", ks.normal(None, None)), "over 2 values cannot be told"),
    ],
)
def test_what_cannot_be_told(unknown, words):
    trials = [ks.Experiment(TIME, measurements={x: TIME}, labels={"subject": who}) for who in "abb"]
    with pytest.raises(ValueError, match=words):
        ks.Collocation(line(), trials, {b: unknown()})


def test_elsewhere(rows):
    """Shooting, other objectives, and intensities of noise refuse in a sentence."""
    trials = [ks.Experiment(TIME, measurements={x: y}, labels={"subject": "a"}) for y in rows]
    unknown = {b: ks.per_trial(ks.normal(None, None))}
    with pytest.raises(ValueError, match=r"Shooting does not estimate.*ks\.Collocation"):
        ks.Shooting(line(), trials, unknown, initial={x: 0.0})
    with pytest.raises(ValueError, match="leave objective out"):
        ks.Collocation(line(), trials, unknown, objective=ks.LeastSquares("huber"))
