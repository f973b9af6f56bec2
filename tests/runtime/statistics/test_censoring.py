"""Information of censored samples against integrals."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kinesym.runtime.statistics.censoring import deviations_within, information_lost


@pytest.mark.parametrize("a", [-3.0, -0.7, 0.0, 2.5])
def test_information_against_integrals(a):
    hazard = norm.pdf(a) / norm.cdf(a)
    scores = ((lambda z: z, hazard), (lambda z: z**2 - 1.0, a * hazard))
    found = [float(each[0]) for each in information_lost(np.array([a]))]
    for lost, whole, (one, other) in zip(found, (1, 0, 2), ((0, 0), (0, 1), (1, 1)), strict=True):
        (f, u), (g, v) = scores[one], scores[other]
        kept = quad(lambda z, f=f, g=g: f(z) * g(z) * norm.pdf(z), a, 12.0)[0]
        assert lost == pytest.approx(whole - kept - norm.cdf(a) * u * v, abs=1e-9)


def test_deviations():
    """Without limits, hidden one half of the time, and always."""
    low = np.array([np.nan, 0.0, 50.0])
    found = deviations_within(np.ones(3), np.zeros(3), low, np.full(3, np.nan))
    assert found[:2] == pytest.approx([1.0, (0.5 + 1.0 / np.pi) ** -0.5])
    assert found[2] == pytest.approx(1e6)
