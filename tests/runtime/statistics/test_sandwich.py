"""Covariances of correlated and unequal residuals, for linear models whose errors are known."""

import numpy as np
import pytest
from scipy.signal import lfilter

from kinesym.runtime.results.estimates import quantile
from kinesym.runtime.statistics.sandwich import Influence, sandwich


def regressors(n):
    t = np.arange(n) / n
    return t, np.column_stack([np.ones(n), np.sin(6.0 * np.pi * t), t])


def pulses(n):
    """What a predator does to its prey: short swings, and these growing."""
    t = np.arange(n) / n
    p = np.exp(2.0 * np.sin(8.0 * np.pi * t))
    q = p * np.cos(8.0 * np.pi * t)
    return t, np.column_stack([p, q, t * q, t * p, q * np.cos(8.0 * np.pi * t)])


def influences(pull, r, trials=1):
    """Of a channel in trials of equal length."""
    parts = zip(np.split(r, trials), np.split(pull, trials), strict=True)
    return [Influence(0, k, np.arange(len(e)), e, each) for k, (e, each) in enumerate(parts)]


def residuals(rng, n, rho, t, growing):
    e = lfilter([1.0], [1.0, -rho], rng.standard_normal(n + 200))[200:]
    return e * (0.3 + 2.0 * t) if growing else e


def coverage(n, rho, trials=1, growing=False, correlated=True, records=300, of=regressors):
    """Share of 95 % intervals that hold the true coefficients, which are 0: (plain, sandwich)."""
    rng, (t, X) = np.random.default_rng(1), of(n)
    whole = np.vstack([X] * trials)
    inverse = np.linalg.inv(whole.T @ whole)
    hits, samples, unknown = np.zeros(2), n * trials, X.shape[1]
    for _ in range(records):
        e = np.concatenate([residuals(rng, n, rho, t, growing) for _ in range(trials)])
        b = inverse @ (whole.T @ e)
        r = e - whole @ b
        found = sandwich(influences(whole @ inverse, r, trials), samples, unknown, correlated)
        plain = r @ r / (samples - unknown) * inverse
        for k, (V, freedom) in enumerate(
            ((plain, samples - unknown), (found.covariance, found.freedom))
        ):
            hits[k] += np.mean(np.abs(b) <= quantile(0.95, freedom) * np.sqrt(np.diag(V)))
    return hits / records


def test_white_residuals_need_no_sandwich():
    assert coverage(300, 0.0) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n, trials", [(1000, 1), (400, 3)])
def test_correlated_residuals(n, trials):
    plain, robust = coverage(n, 0.8, trials)
    assert plain < 0.6
    assert 0.91 < robust < 0.97


@pytest.mark.parametrize("rho", [0.8, 0.95])
def test_few_swings(rho):
    """Four in a record, which five unknowns follow."""
    _, robust = coverage(400, rho, of=pulses)
    assert 0.91 < robust < 0.98


def test_channels_that_are_correlated():
    """Equal samples twice tell no more than once; opposite ones cancel."""
    rng, (t, X) = np.random.default_rng(3), regressors(300)
    pull, r = X @ np.linalg.inv(X.T @ X), residuals(rng, 300, 0.6, t, False)
    [one] = influences(pull, r)
    half = Influence(0, 0, t, r, 0.5 * pull), Influence(1, 0, t, r, 0.5 * pull)
    expected = sandwich([one], 300, 0.0).covariance
    assert sandwich(half, 600, 0.0).covariance == pytest.approx(expected, rel=1e-9)
    against = half[0], Influence(1, 0, t, -r, 0.5 * pull)
    assert np.abs(sandwich(against, 600, 0.0).covariance).max() < 1e-12 * expected.max()


@pytest.mark.parametrize("correlated", [False, True])
def test_unequal_variances(correlated):
    _, robust = coverage(400, 0.0, growing=True, correlated=correlated)
    assert 0.92 < robust < 0.97


def test_closed_form_of_unequal_variances():
    """HC1: n/(n - k) (X'X)^-1 X' diag(e^2) X (X'X)^-1."""
    rng, (t, X) = np.random.default_rng(0), regressors(50)
    e = rng.standard_normal(50) * t
    inverse = np.linalg.inv(X.T @ X)
    found = sandwich(influences(X @ inverse, e), 50, 3.0, correlated=False)
    expected = 50.0 / 47.0 * inverse @ (X.T * e**2) @ X @ inverse
    assert found.covariance == pytest.approx(expected, rel=1e-12)
    assert found.freedom == pytest.approx(47.0)


@pytest.mark.parametrize("units", [1e-6, 1e6])
def test_units_do_not_matter(units):
    rng, (t, X) = np.random.default_rng(2), regressors(200)
    r = residuals(rng, 200, 0.5, t, False)
    scale = np.array([units, 1.0, 1.0 / units])
    a, b = (sandwich(influences(pull, r), 200, 3.0) for pull in (X, X * scale))
    assert b.covariance == pytest.approx(a.covariance * np.outer(scale, scale), rel=1e-9)
    assert b.order == a.order == 1
    assert b.bandwidth == pytest.approx(a.bandwidth, rel=1e-9)
