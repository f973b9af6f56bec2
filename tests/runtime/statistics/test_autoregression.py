"""Autoregressions of noise of which a fit has taken a part."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from kinesym.runtime.statistics.autoregression import Autoregression, autoregressions

AR2 = Autoregression(np.array([1.2, -0.5]), 2.0)


def noise(rng, model, n):
    w = np.sqrt(model.variance) * rng.standard_normal(n + 500)
    return lfilter([1.0], model.filter, w)[500:]


def test_operators():
    """F, F^-T and F^-1 F^-T as matrices."""
    n, rng = 30, np.random.default_rng(0)
    x = rng.standard_normal((n, 3))
    F = toeplitz(np.r_[AR2.filter, np.zeros(n - 3)], np.r_[1.0, np.zeros(n - 1)])
    inverse = np.linalg.inv(F)
    assert AR2.innovations(x) == pytest.approx(F @ x, abs=1e-12)
    assert AR2.gathered(x) == pytest.approx(inverse.T @ x, abs=1e-12)
    assert AR2.covaried(x) == pytest.approx(2.0 * inverse @ inverse.T @ x, abs=1e-11)


def test_spread():
    """(1 - c^2)/n of the first order; of the second 1 - c_2^2 on the diagonal, else -c_1 (1 + c_2)
    (Brockwell and Davis 1991, example 8.8.2)."""
    assert Autoregression(np.array([0.8]), 3.0).spread(90) == pytest.approx(0.36 / 90.0)
    one, two = AR2.coefficients
    expected = np.array([[1.0 - two**2, -one * (1.0 + two)], [0.0, 1.0 - two**2]]) / 90.0
    assert np.triu(AR2.spread(90)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("model", [Autoregression(np.array([0.8]), 1.0), AR2])
def test_what_the_fit_has_taken_is_given_back(model):
    """Eight polynomials take most of the slow swings of 200 samples in two trials. What matters is
    the variance of slow swings, s^2/(1 - sum c)^2: in the mean as from the noise itself."""
    rng, n = np.random.default_rng(0), 200
    X = np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, n), 7)
    Q = np.linalg.qr(np.vstack([X, X])).Q
    found = []
    for _ in range(60):
        e = np.concatenate([noise(rng, model, n), noise(rng, model, n)])
        none, basis = np.zeros((n, 1)), np.split(Q, 2)
        ways = ((e, [none, none]), (e - Q @ (Q.T @ e), [none, none]), (e - Q @ (Q.T @ e), basis))
        each = [autoregressions({0: np.split(r, 2)}, {0: q})[0] for r, q in ways]
        found.append([np.log(one.variance / one.filter.sum() ** 2) for one in each])
    itself, left, corrected = np.mean(found, axis=0)
    assert left < itself - 0.1
    assert abs(corrected - itself) < 0.4 * (itself - left)


def test_white_noise_has_none():
    rng = np.random.default_rng(1)
    e = rng.standard_normal(1000)
    [found] = autoregressions({4: [e]}, {4: [np.zeros((1000, 1))]}).values()
    assert len(found.coefficients) == 0
    assert found.variance == pytest.approx(np.mean(e**2))


def test_near_a_unit_root_it_stays_stable():
    """Sums of sums of white noise: three roots near 1, which are moved inwards together."""
    e = np.cumsum(np.cumsum(np.cumsum(np.random.default_rng(0).standard_normal(400))))
    [found] = autoregressions({0: [e]}, {0: [np.zeros((400, 1))]}).values()
    assert found.coefficients.sum() <= 0.97 + 1e-12
    assert np.abs(np.roots(found.filter)).max() < 1.0
    assert np.abs(found.gathered(np.eye(1, 4000)[0][::-1])).max() < 1e3
