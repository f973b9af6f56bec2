"""Errors with the density of Laplace: absolute values in the objective, exactly; against medians,
searches, scipy.stats and smooth fits."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import sympy as sp

import kinesym as ks
from kinesym.internal.fitting.absolute_values import absolute_terms

t = ks.t
y, v = ks.dynamicsymbols("y v")
k, c, a, b = sp.symbols("k c a b")
TIME = np.linspace(0.0, 5.0, 121)
DECAY = ks.Model("decay", [y], [], [k], [y.diff(t) + k * y])
OSCILLATOR = ks.Model("oscillator", [y, v], [], [k, c], [y.diff(t) - v, v.diff(t) + k * y + c * v])
LAPLACE = ks.LeastSquares(loss="laplace")
MEAN = 2.0 * np.exp(-TIME)


def following(seed=0):
    """A decay whose errors follow it."""
    data = MEAN + (0.05 + 0.1 * MEAN) * np.random.default_rng(seed).laplace(size=121)
    trial = ks.Experiment(TIME, {}, {y: data}, {y: a + b * y})
    unknown = {k: (0.1, 5.0), a: ks.log_scale(1e-3, 2.0), b: ks.log_scale(1e-3, 2.0)}
    return data, ks.Collocation(DECAY, trial, unknown, scheme="radau-5", objective=LAPLACE)


GUESS = {k: 1.0, a: 0.05, b: 0.1, y: MEAN}


def log_likelihood(fit):
    rows = [(run[n], y, run.std[n]) for run in fit.trials for n, y in run.measurements.items()]
    rows += [each[1:4] for run in fit.trials for each in _timed(run)]
    return sum(scipy.stats.laplace(m, s).logpdf(y).sum() for m, y, s in rows)


def _timed(run):
    return [(name, own.modelled, own.measured, own.std) for name, own in run.timed.items()]


def test_median():
    """A constant: the median, and the mean distance from it with the degrees of freedom left."""
    still = ks.Model("still", [y], [], [], [y.diff(t)])
    data = np.random.default_rng(0).laplace(size=41)
    trial = ks.Experiment(TIME[:41], {}, {y: data}, {})
    fit = ks.Collocation(still, trial, {}, objective=LAPLACE).solve()
    assert fit.success
    assert fit["y"] == pytest.approx(np.median(data), abs=1e-6)
    assert fit.noise[0].std == pytest.approx(np.abs(data - np.median(data)).sum() / 40.0, rel=1e-5)
    b = np.abs(data - np.median(data)).mean()
    largest = scipy.stats.laplace(np.median(data), b).logpdf(data).sum()
    assert fit.log_likelihood == pytest.approx(largest, abs=1e-6)


def test_against_a_search():
    """A scale that follows the motion: estimates, likelihood, intervals."""
    data, problem = following()
    fit = problem.solve(GUESS)

    def cost(q):
        mean = q[1] * np.exp(-q[0] * TIME)
        scale = q[2] + q[3] * mean
        if not (scale > 0.0).all():
            return 1e10
        return 2.0 * np.sum(np.abs(data - mean) / scale + np.log(2.0 * scale))

    settings = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20000, "maxfev": 20000}
    best = scipy.optimize.minimize(
        cost, [1.0, 2.0, 0.05, 0.1], method="Nelder-Mead", options=settings
    )
    assert fit.success and fit.iterations <= 40
    assert [fit.parameters[n] for n in "kab"] == pytest.approx(best.x[[0, 2, 3]], rel=1e-5)
    assert fit.log_likelihood == pytest.approx(-0.5 * best.fun, abs=1e-6)
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit), abs=1e-10)
    plain, profiles = fit.intervals().table, fit.intervals(method="profile").table
    for name, row in plain.items():
        assert profiles[name].low == pytest.approx(row.low, abs=0.7 * row.standard_error)
        assert profiles[name].high == pytest.approx(row.high, abs=0.7 * row.standard_error)
    again = fit.without(window=(0.0, 0.5), solve=True)
    assert again.solved and abs(again.in_errors["k"]) < 3.0


def test_derivatives():
    """Of residuals from both scores, against differences; of a sensor at times of its own."""
    own = np.sort(np.random.default_rng(2).uniform(0.05, 4.9, 30))
    trial = ks.Experiment(
        TIME[::4],
        {},
        {y: MEAN[::4] + 0.1, "square": ks.Signal(own, 4.0 * np.exp(-2.0 * own) + 0.1)},
        {y: a + b * y, "square": 0.1},
    )
    asked = {"sensors": {"square": y**2}, "objective": LAPLACE, "scheme": "radau-3"}
    problem = ks.Collocation(DECAY, trial, {k: (0.1, 5.0), a: (0.01, 1), b: (0.01, 1)}, **asked)
    rng, z = np.random.default_rng(1), problem.pack({k: 1.0, a: 0.1, b: 0.1, y: MEAN[::4]})
    terms, d, h = absolute_terms(problem.problem), rng.standard_normal(len(z)), 1e-6
    change = (terms.values(z + h * d) - terms.values(z - h * d)) / (2.0 * h)
    assert terms.slopes(z) @ d == pytest.approx(change, rel=1e-6, abs=1e-6)
    pattern = np.zeros((len(terms.weights), len(z)), dtype=bool)
    pattern[terms.places] = True
    assert not terms.slopes(z).toarray()[~pattern].any()
    fit = problem.solve({k: 1.0, a: 0.1, b: 0.1, y: MEAN[::4]})
    assert fit.success
    assert fit.log_likelihood == pytest.approx(log_likelihood(fit), abs=1e-10)


@pytest.mark.parametrize("scheme", ["radau-3", "gauss-4"])
def test_iterations_are_few(scheme):
    run = ks.simulate(OSCILLATOR, TIME, {y: 1.0, v: 0.0}, {k: 4.0, c: 0.4})
    data = run["y"] + 0.1 * np.random.default_rng(0).laplace(size=121)
    trial = ks.Experiment(TIME, {}, {y: data}, {y: 0.1})
    found = [
        ks.Collocation(
            OSCILLATOR, trial, {k: (0.1, 20.0), c: (0, 3)}, scheme=scheme, objective=objective
        ).solve({k: 3.5, c: 0.3})
        for objective in (ks.LeastSquares(), LAPLACE)
    ]
    assert all(fit.success for fit in found)
    assert found[1].iterations <= 5 * found[0].iterations
    met = np.abs(found[1]["y"] - data) < 1e-6
    assert met.sum() == 4  # as many as there are unknowns: the minimum is a vertex


def test_shooting_is_a_linear_program():
    """A line with outliers, from far off: as many residuals are zero as there are unknowns; errors
    by the information that is expected, 1/scale^2 for each sample."""
    data = 0.3 + 0.5 * TIME + 0.2 * np.random.default_rng(0).standard_t(1.5, 121)
    line = ks.Model("line", [y], [], [a, b], [y.diff(t) - a], outputs={"at": y + b})
    trial = ks.Experiment(TIME, {}, {"at": data}, {"at": 0.2})
    problem = ks.Shooting(line, trial, {a: None, b: None}, {}, {y: 0.0}, LAPLACE)
    fit = problem.solve({a: 50.0, b: -30.0}, "least-squares")
    by, one = np.stack([TIME, np.ones(121)], axis=1), np.eye(121)
    best = scipy.optimize.linprog(
        np.repeat([0.0, 1.0], [2, 242]),
        A_eq=np.hstack([by, -one, one]),
        b_eq=data,
        bounds=[(None, None)] * 2 + [(0.0, None)] * 242,
    )
    found = [fit.parameters[name] for name in "ab"]
    assert fit.success and found == pytest.approx(best.x[:2], rel=1e-12)
    assert fit.objective == pytest.approx(2.0 * best.fun / 0.2, rel=1e-13)
    assert (np.abs(fit["at"] - data) < 1e-12).sum() == 2
    errors = [fit.parameters.table[name].standard_error for name in "ab"]
    assert errors == pytest.approx(0.2 * np.sqrt(np.diag(np.linalg.inv(by.T @ by))), rel=1e-9)
    with pytest.raises(ValueError, match=r"which bfgs does not step; use optimizer='least-squares"):
        problem.solve({a: 50.0, b: -30.0})
    with pytest.raises(ValueError, match="absolute values have no slopes at samples"):
        fit.influence()


def test_shooting_with_a_scale_that_follows():
    """The same minimum, likelihood and intervals as by collocation."""
    _, problem = following()
    fit, unknown = problem.solve(GUESS), {k: (0.1, 5.0), a: ks.log_scale(), b: ks.log_scale()}
    shot = ks.Shooting(
        DECAY, problem.trials, unknown, {}, {y: (0, 5)}, LAPLACE, method="dormand-prince"
    ).solve({k: 2.0, a: 0.5, b: 0.5, y: 1.0}, "least-squares")
    one, other = (each.without(window=(0.0, 0.5), solve=True) for each in (shot, fit))
    assert one.in_errors["k"] == pytest.approx(other.in_errors["k"], rel=1e-3)
    assert shot.success and shot.iterations <= 15
    assert shot.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-6)
    for method in ("t", "profile"):
        table, other = (each.intervals(method=method).table for each in (shot, fit))
        for name, row in other.items():
            assert table[name].value == pytest.approx(row.value, rel=1e-5)
            assert table[name].low == pytest.approx(row.low, abs=0.2 * row.standard_error)
            assert table[name].high == pytest.approx(row.high, abs=0.2 * row.standard_error)


def test_a_curved_kink():
    """A product of two unknowns is the median; priors say where on this curve they are."""
    p, q = sp.symbols("p q")
    made = ks.Model("product", [y], [], [p, q], [y.diff(t)], outputs={"both": p * q})
    data = 2.0 + np.random.default_rng(0).laplace(size=41)
    trial = ks.Experiment(TIME[:41], {}, {"both": data}, {"both": 1.0})
    unknown, median = {p: ks.normal(1, 0.5), q: ks.normal(3, 0.5)}, np.median(data)
    problem = ks.Shooting(made, trial, unknown, {}, {y: 0.0}, LAPLACE)
    fit = problem.solve({p: 2.0, q: 0.5}, "least-squares")
    best = scipy.optimize.minimize_scalar(
        lambda p: (p - 1) ** 2 + (median / p - 3) ** 2, (0.3, 1.0), tol=1e-14
    )
    assert fit.success and fit.iterations <= 15
    assert fit.parameters["p"] == pytest.approx(best.x, rel=1e-7)
    assert fit.parameters["p"] * fit.parameters["q"] == pytest.approx(median, rel=1e-12)


@pytest.mark.parametrize("start", [(3.5, 0.3), (8.0, 0.1)])
def test_shooting_ends_where_residuals_are_zero(start):
    run = ks.simulate(OSCILLATOR, TIME, {y: 1.0, v: 0.0}, {k: 4.0, c: 0.4})
    data = run["y"] + 0.1 * np.random.default_rng(0).laplace(size=121)
    trial = ks.Experiment(TIME, {}, {y: data}, {})
    problem = ks.Shooting(
        OSCILLATOR, trial, {k: (0.1, 20.0), c: (0, 3)}, {}, {y: (-5, 5), v: (-5, 5)}, LAPLACE
    )
    fit = problem.solve(dict(zip((k, c), start, strict=True)), "least-squares")
    off = np.abs(fit["y"] - data)
    assert fit.success and (off < 1e-9).sum() == 4
    assert fit.noise[0].std == pytest.approx(off.sum() / (121 - 4), rel=1e-6)


def test_refusals():
    _, problem = following()
    fit = problem.solve(GUESS)
    for ask in (fit.influence, lambda: fit.intervals(method="sandwich"), lambda: fit.bootstrap(5)):
        with pytest.raises(ValueError, match="absolute values have no slopes at samples"):
            ask()
    with pytest.raises(ValueError, match="one step tells nothing; give solve=True"):
        fit.without(window=(0.0, 0.5))
    with pytest.raises(ValueError, match=r"have a kink at each sample, over which ks\.Shooting"):
        trial = ks.Experiment(TIME, {}, {y: MEAN}, {y: 0.1})
        ks.Shooting(DECAY, trial, {k: None}, {}, {y: 2.0}, LAPLACE, segments=3)
    with pytest.raises(ValueError, match="the loss laplace has no tuning: its scale is std"):
        ks.LeastSquares(loss="laplace", tuning=2.0)
    with pytest.raises(ValueError, match="a forecast is of least squares"):
        ks.forecast(problem, {k: 1.0, a: 0.05, b: 0.1, y: 2.0})
