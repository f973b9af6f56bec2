"""Covariances of correlated and unequal residuals, for linear models whose errors are known."""

import numpy as np
import pytest
from scipy.signal import lfilter

from kinesym.runtime.results.estimates import quantile
from kinesym.runtime.statistics.sandwich import sandwich


def regressors(n):
    t = np.arange(n) / n
    return t, np.column_stack([np.ones(n), np.sin(6.0 * np.pi * t), t])


def residuals(rng, n, rho, t, growing):
    e = lfilter([1.0], [1.0, -rho], rng.standard_normal(n + 200))[200:]
    return e * (0.3 + 2.0 * t) if growing else e


def coverage(n, rho, trials=1, growing=False, correlated=True, records=300):
    """Share of 95 % intervals that hold the true coefficients, which are 0: (plain, sandwich)."""
    rng, (t, X) = np.random.default_rng(1), regressors(n)
    whole = np.vstack([X] * trials)
    inverse = np.linalg.inv(whole.T @ whole)
    hits, samples = np.zeros(2), n * trials
    for _ in range(records):
        e = np.concatenate([residuals(rng, n, rho, t, growing) for _ in range(trials)])
        b = inverse @ (whole.T @ e)
        r = e - whole @ b
        scores = np.split((whole @ inverse) * r[:, None], trials)
        found = sandwich(scores, samples, 3.0, correlated)
        plain = r @ r / (samples - 3) * inverse
        for k, (V, freedom) in enumerate(((plain, samples - 3), (found.covariance, found.freedom))):
            hits[k] += np.mean(np.abs(b) <= quantile(0.95, freedom) * np.sqrt(np.diag(V)))
    return hits / records


def test_white_residuals_need_no_sandwich():
    assert coverage(300, 0.0) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n, trials", [(1000, 1), (400, 3)])
def test_correlated_residuals(n, trials):
    plain, robust = coverage(n, 0.8, trials)
    assert plain < 0.6
    assert 0.91 < robust < 0.97


@pytest.mark.parametrize("correlated", [False, True])
def test_unequal_variances(correlated):
    _, robust = coverage(400, 0.0, growing=True, correlated=correlated)
    assert 0.92 < robust < 0.97


def test_closed_form_of_unequal_variances():
    """HC1: n/(n - k) (X'X)^-1 X' diag(e^2) X (X'X)^-1."""
    rng, (t, X) = np.random.default_rng(0), regressors(50)
    e = rng.standard_normal(50) * t
    inverse = np.linalg.inv(X.T @ X)
    found = sandwich([(X @ inverse) * e[:, None]], 50, 3.0, correlated=False)
    expected = 50.0 / 47.0 * inverse @ (X.T * e**2) @ X @ inverse
    assert found.covariance == pytest.approx(expected, rel=1e-12)
    assert found.freedom == pytest.approx(47.0)


@pytest.mark.parametrize("units", [1e-6, 1e6])
def test_units_do_not_matter(units):
    rng, (t, X) = np.random.default_rng(2), regressors(200)
    scores = X * residuals(rng, 200, 0.5, t, False)[:, None]
    scale = np.array([units, 1.0, 1.0 / units])
    a, b = (sandwich([s], 200, 3.0) for s in (scores, scores * scale))
    assert b.covariance == pytest.approx(a.covariance * np.outer(scale, scale), rel=1e-9)
    assert b.bandwidth == pytest.approx(a.bandwidth, rel=1e-9)
