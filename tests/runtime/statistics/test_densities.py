"""Densities of parameters against those of scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from kinesym.runtime.statistics.densities import density

CASES = {
    ("normal", 0.3, 2.0): stats.norm(0.3, 2.0),
    ("laplace", 0.3, 2.0): stats.laplace(0.3, 2.0),
    ("cauchy", 0.3, 2.0): stats.cauchy(0.3, 2.0),
    ("gamma", 2.5, 0.7): stats.gamma(2.5, scale=0.7),
    ("gamma", 0.5, 0.7): stats.gamma(0.5, scale=0.7),
    ("exponential", 0.7): stats.expon(scale=0.7),
    ("chisquare", 3): stats.chi2(3),
    ("rayleigh", 0.7): stats.rayleigh(scale=0.7),
    ("uniform", -1.0, 2.0): stats.uniform(-1.0, 3.0),
    ("log-uniform", 0.2, 2.0): stats.loguniform(0.2, 2.0),
    ("log-normal", 0.3, 0.6): stats.lognorm(0.6, scale=np.exp(0.3)),
}


@pytest.mark.parametrize("told, known", CASES.items(), ids=[" ".join(map(str, c)) for c in CASES])
def test_densities_and_shares(told, known):
    made = density(*told)
    for p in (-0.5, 0.25, 0.9, 1.9, 7.0):
        assert made.log(p) == pytest.approx(known.logpdf(p), rel=1e-13, abs=1e-13)
        for low, high in ((-np.inf, p), (p, np.inf), (p, p + 1.0)):
            share = known.cdf(high) - known.cdf(low)
            assert made.share(low, high) == pytest.approx(share, rel=1e-12, abs=1e-15)


def test_of_a_logarithm():
    made, of_log = density("log-laplace", 0.3, 0.6), stats.laplace(0.3, 0.6)
    assert made.log(1.9) == pytest.approx(of_log.logpdf(np.log(1.9)) - np.log(1.9), rel=1e-14)
    assert made.share(0.5, 1.9) == pytest.approx(np.diff(of_log.cdf(np.log([0.5, 1.9])))[0])


@pytest.mark.parametrize(
    "told, words",
    [
        (("beta", 1, 1), "distribution"),
        (("gamma", 1), "gamma has the numbers shape, scale, got 1"),
        (("laplace", 0, -1), "laplace: its scale must be positive, got -1"),
        (("uniform", 2, 1), "uniform: its low end 2 is not below its high end 1"),
    ],
)
def test_numbers_that_are_none(told, words):
    with pytest.raises(ValueError, match=words):
        density(*told)
