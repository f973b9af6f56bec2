"""Intervals of a decay, whose solution is known, against SciPy: by Student's t from `curve_fit`, by
profile likelihood from a root of the rise of the sum of squares; of a parabola, against
statsmodels."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, curve_fit
from scipy.stats import t as student

import kinesym as ks

x, k = ks.dynamicsymbols("x"), sp.Symbol("k")
DECAY = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x], values={k: 1.0})
TIME = np.linspace(0.0, 3.0, 31)
#: So much that the profile is far from a parabola.
SAMPLES = 2.0 * np.exp(-1.3 * TIME) + 0.3 * np.random.default_rng(4).standard_normal(31)
TRIAL = ks.Experiment(TIME, measurements={x: SAMPLES})


def decay(time, rate, start):
    return start * np.exp(-rate * time)


def by_shooting():
    problem = ks.Shooting(DECAY, TRIAL, {k: (0.0, 20.0)}, initial={x: None}, substeps=40)
    return problem.solve({k: 1.1, x: 1.9}, optimizer="least-squares")


def by_collocation():
    fine = TRIAL.refined(4)
    return ks.Collocation(DECAY, fine, {k: (0.0, 20.0)}, scheme="gauss-6").solve({k: 1.1})


@pytest.fixture(scope="module", params=[by_shooting, by_collocation])
def fit(request):
    return request.param()


def test_by_t(fit):
    """The estimate to 6 digits; the interval where the curvature is that of `curve_fit`, which
    leaves out second derivatives as shooting does."""
    values, covariance = curve_fit(decay, TIME, SAMPLES, (1.2, 2.0), ftol=1e-15, xtol=1e-15)
    assert fit.parameters[k] == pytest.approx(values[0], rel=1e-6)
    if isinstance(fit, ks.Fit):
        half = student.ppf(0.975, 29) * np.sqrt(covariance[0, 0])
        expected = (values[0] - half, values[0] + half)
        assert fit.intervals().table["k"].interval == pytest.approx(expected, rel=1e-6)
    assert fit.estimated_std["x"] == pytest.approx(
        np.sqrt(np.sum((SAMPLES - decay(TIME, *values)) ** 2) / 29), rel=1e-6
    )


def test_by_profile(fit):
    """The start follows from the rate in closed form."""

    def squares(rate):
        shape = decay(TIME, rate, 1.0)
        return np.sum((SAMPLES - shape * (shape @ SAMPLES) / (shape @ shape)) ** 2)

    best = fit.parameters[k]
    rise = student.ppf(0.975, 29) ** 2 * squares(best) / 29
    ends = [
        brentq(lambda rate: squares(rate) - squares(best) - rise, *between, xtol=1e-12)
        for between in ((0.2 * best, best), (best, 4.0 * best))
    ]
    found = fit.profile(k)
    assert abs((ends[1] - best) / (best - ends[0]) - 1.0) > 0.1  # no parabola
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-5)


def test_parabola_as_by_statsmodels():
    """x = c + a t + b t^2/2, for which the midpoint rule is exact. Numbers: `OLS(y, X).fit()` of
    statsmodels 0.15.0, `params`, `bse` and `conf_int()`."""
    a, b, u = *sp.symbols("a b"), ks.dynamicsymbols("u")
    parabola = ks.Model("parabola", [x], [u], [a, b], [x.diff(ks.t) - a - b * u])
    n = np.arange(60)
    time, e = n / 10.0, np.sin(12.9898 * n) * 43758.5453
    y = 0.3 + 1.5 * time - 0.2 * time**2 + (e - np.floor(e) - 0.5) * (1.0 + time / 3.0)
    trial = ks.Experiment(time, {u: time}, {x: y})
    fit = ks.Collocation(parabola, trial, unknown={a: (-9.0, 9.0), b: (-9.0, 9.0)}).solve()
    table = fit.intervals().table
    assert list(fit.parameters.values()) == pytest.approx([1.7015036701, -0.4818955612], rel=1e-7)
    errors = [table[name].standard_error for name in "ab"]
    assert errors == pytest.approx([0.1655744706, 0.054288657], rel=1e-7)
    assert table["a"].interval == pytest.approx((1.3699465117, 2.0330608284), rel=1e-7)
    assert table["b"].interval == pytest.approx((-0.5906067217, -0.3731844007), rel=1e-7)
