"""Covariances of correlated and unequal residuals, for linear models whose errors are known."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from kinesym.runtime.nlp.samples import Influence
from kinesym.runtime.results.estimates import quantile
from kinesym.runtime.statistics.sandwich import sandwich


def regressors(n):
    t = np.arange(n) / n
    return t, np.column_stack([np.ones(n), np.sin(6.0 * np.pi * t), t])


def pulses(n):
    """What a predator does to its prey: short swings, and these growing."""
    t = np.arange(n) / n
    p = np.exp(2.0 * np.sin(8.0 * np.pi * t))
    q = p * np.cos(8.0 * np.pi * t)
    return t, np.column_stack([p, q, t * q, t * p, q * np.cos(8.0 * np.pi * t)])


def bursts(n):
    """A record whose parameters are told by a part of it."""
    t = np.arange(n) / n
    late = np.where(t > 0.3, np.sin(9.0 * (t - 0.3)) * np.exp(-3.0 * (t - 0.3)), 0.0)
    return t, np.column_stack([t**2 * np.exp(-8.0 * t), late])


def influences(pull, r, trials=1, basis=None):
    """Of a channel in trials of equal length."""
    bases = [None] * trials if basis is None else np.split(basis, trials)
    parts = enumerate(zip(np.split(r, trials), np.split(pull, trials), bases, strict=True))
    return [Influence(0, k, np.arange(len(e)), e, each, q) for k, (e, each, q) in parts]


def residuals(rng, n, rho, t, growing):
    e = lfilter([1.0], [1.0, -rho], rng.standard_normal(n + 200))[200:]
    return e * (0.3 + 2.0 * t) if growing else e


class Found(NamedTuple):
    """Shares of 95 % intervals that hold the true coefficients, which are 0; the mean of variances
    over the true ones; their degrees of freedom, as said, and as they vary."""

    plain: float
    robust: float
    mean: float
    said: float
    freedom: float


def coverage(n, rho, trials=1, growing=False, correlated=True, records=150, of=regressors):
    rng, (t, X) = np.random.default_rng(1), of(n)
    whole = np.vstack([X] * trials)
    inverse, (basis, _) = np.linalg.inv(whole.T @ whole), np.linalg.qr(whole)
    samples, unknown = n * trials, X.shape[1]
    pull, hits, rows = whole @ inverse, np.zeros(2), []
    for _ in range(records):
        e = np.concatenate([residuals(rng, n, rho, t, growing) for _ in range(trials)])
        b = pull.T @ e
        r = e - whole @ b
        found = sandwich(influences(pull, r, trials, basis), samples, unknown, correlated)
        plain = r @ r / (samples - unknown) * inverse
        rows.append((np.diag(found.covariance), found.freedom))
        wide = [quantile(0.95, samples - unknown), [quantile(0.95, f) for f in found.freedom]]
        for j, (V, size) in enumerate(zip((plain, found.covariance), wide, strict=True)):
            hits[j] += np.mean(np.abs(b) <= size * np.sqrt(np.diag(V)))
    V, said = np.swapaxes(np.array(rows), 0, 1)
    grown = np.split(pull * np.tile(0.3 + 2.0 * t, trials)[:, None] if growing else pull, trials)
    noise = toeplitz(rho ** np.arange(n)) / (1.0 - rho**2)
    true = np.sum([np.sum(p * (noise @ p), axis=0) for p in grown], axis=0)
    actual = 2.0 / np.mean(np.var(V / V.mean(axis=0), axis=0))
    return Found(*(hits / records), np.mean(V.mean(axis=0) / true), np.median(said), actual)


def test_white_residuals_need_no_sandwich():
    found = coverage(300, 0.0)
    assert (found.plain, found.robust) == pytest.approx((0.95, 0.95), abs=0.02)


@pytest.mark.parametrize("n, trials", [(800, 1), (250, 3)])
def test_correlated_residuals(n, trials):
    found = coverage(n, 0.8, trials)
    assert found.plain < 0.6
    assert 0.93 < found.robust < 0.97


@pytest.mark.parametrize("of", [regressors, pulses, bursts])
def test_short_records(of):
    """As if they had 16 independent samples. Variances are right in the mean, and vary about as
    much as their degrees of freedom say."""
    found = coverage(150, 0.8, of=of)
    assert found.plain < 0.7
    assert 0.92 < found.robust < 0.98
    assert 0.85 < found.mean < 1.15
    assert found.said / 3.0 < found.freedom < 2.0 * found.said < 30.0


@pytest.mark.parametrize("rho", [0.8, 0.95])
def test_few_swings(rho):
    """Four in a record, which five unknowns follow."""
    assert 0.92 < coverage(400, rho, of=pulses).robust < 0.98


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
    found = coverage(400, 0.0, growing=True, correlated=correlated)
    assert 0.92 < found.robust < 0.97


def test_closed_form_of_unequal_variances():
    """HC1: n/(n - k) (X'X)^-1 X' diag(e^2) X (X'X)^-1."""
    rng, (t, X) = np.random.default_rng(0), regressors(50)
    e = rng.standard_normal(50) * t
    inverse = np.linalg.inv(X.T @ X)
    found = sandwich(influences(X @ inverse, e), 50, 3.0, correlated=False)
    expected = 50.0 / 47.0 * inverse @ (X.T * e**2) @ X @ inverse
    assert found.covariance == pytest.approx(expected, rel=1e-12)


def test_as_by_statsmodels():
    """Parabola and noise of growing size, 60 samples. statsmodels 0.15.0: `OLS(y, X).fit()`, its
    `get_robustcov_results("HC1").bse`; and `cov_hac_simple` with 15 lags and the weights of the
    quadratic spectral kernel of bandwidth 1.9414855456601974 (where residuals are found white)."""
    k = np.arange(60)
    X = np.column_stack([np.ones(60), k / 10.0, 0.005 * k**2])
    e = np.sin(12.9898 * k) * 43758.5453
    y = X @ [0.3, 1.5, -0.4] + (e - np.floor(e) - 0.5) * (1.0 + k / 30.0)
    inverse = np.linalg.inv(X.T @ X)
    series = influences(X @ inverse, y - X @ (inverse @ (X.T @ y)))
    white, long = (sandwich(series, 60, 3.0, correlated) for correlated in (False, True))
    expected = [0.1515887008, 0.1486439871, 0.0522717986]
    assert np.sqrt(np.diag(white.covariance)) == pytest.approx(expected, rel=1e-8)
    expected = [0.1230598911, 0.1575001825, 0.0572639968]
    assert (long.order, long.bandwidth) == (0, pytest.approx(1.9414855456601974, rel=1e-9))
    assert np.sqrt(np.diag(long.covariance)) == pytest.approx(expected, rel=1e-8)


def test_closed_form_of_two_means():
    """Their difference has variances of each that are divided by n - 1, as Welch has; if they are
    equal, both count: 2 n - 2 degrees of freedom, of which Satterthwaite's formula knows 2 n."""
    rng, n = np.random.default_rng(0), 12
    X = np.kron(np.eye(2), np.ones((n, 1)))
    r = (rng.standard_normal((2, n)) * [[1.0], [3.0]]).ravel()
    r -= X @ (X.T @ r) / n
    pull = (X @ [-1.0, 1.0] / n)[:, None]
    found = sandwich(influences(pull, r, basis=X / np.sqrt(n)), 2 * n, 2.0, correlated=False)
    variances = r.reshape(2, n).var(axis=1, ddof=1)
    assert found.covariance == pytest.approx(variances.sum() / n, rel=1e-12)
    assert found.freedom == pytest.approx(2 * n - 2)


def test_closed_form_of_what_the_fit_takes():
    """White noise: e^ = (1 - H) e, of which the variance of each is 1 - h_kk; a sum of squares with
    the weights p^2 is too small by the mean of h_kk with these weights."""
    rng, X = np.random.default_rng(0), pulses(60)[1]
    basis = np.linalg.qr(X).Q
    pull = X @ np.linalg.inv(X.T @ X)
    e = rng.standard_normal(60)
    found = sandwich(influences(pull, e, basis=basis), 60, 5.0, correlated=False)
    left = 1.0 - (pull.T**2 @ (basis**2).sum(axis=1)) / (pull**2).sum(axis=0)
    assert np.diag(found.covariance) == pytest.approx((pull.T**2 @ e**2) / left, rel=1e-12)
    assert found.freedom == pytest.approx((pull**2).sum(axis=0) ** 2 / (pull**4).sum(axis=0))


def test_a_fit_that_follows_most():
    """An input that is measured and unknown has as many directions as samples."""
    series = influences(np.ones((60, 1)), np.ones(60))
    with pytest.raises(ValueError, match="60 samples in 25 directions, as with unknown inputs"):
        sandwich(series, 60, 25.0)


@pytest.mark.parametrize("known", [False, True])
def test_what_residuals_do_not_tell(known):
    """As many unknowns as samples; one that follows a sample of its own."""
    rng, X = np.random.default_rng(0), np.eye(30)[:, :2] + 0.0
    X[:, 1] = 1.0
    basis = np.linalg.qr(X).Q if known else None
    series = influences(X @ np.linalg.inv(X.T @ X), rng.standard_normal(30), basis=basis)
    rounding = 1e-15 * rng.standard_normal(30)
    every = influences(np.eye(30), rounding, basis=np.eye(30) if known else None)
    found = sandwich(every, 30, 30.0, correlated=False)
    assert np.isnan(found.covariance).all() and np.isnan(found.freedom).all()
    found = sandwich(series, 30, 2.0, correlated=False)
    assert np.isfinite(found.freedom[1])
    assert np.isnan(found.covariance[0, 0]) == np.isnan(found.freedom[0]) == known


@pytest.mark.parametrize("units", [1e-6, 1e6])
def test_units_do_not_matter(units):
    rng, (t, X) = np.random.default_rng(2), regressors(200)
    r = residuals(rng, 200, 0.5, t, False)
    scale = np.array([units, 1.0, 1.0 / units])
    a, b = (sandwich(influences(pull, r), 200, 3.0) for pull in (X, X * scale))
    assert b.covariance == pytest.approx(a.covariance * np.outer(scale, scale), rel=1e-9)
    assert b.order == a.order == 1
    assert b.bandwidth == pytest.approx(a.bandwidth, rel=1e-9)
