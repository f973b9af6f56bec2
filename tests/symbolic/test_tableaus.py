"""Tableaus of collocation: order conditions, names, and the polynomials they stand for."""

from dataclasses import replace

import numpy as np
import pytest

from kinesym.symbolic.schemes import SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_stability_function(scheme):
    """R(z) = 1 + z b' (1 - z A)^-1 1 is a Pade approximant of exp: its error begins at the order,
    and at infinity it is 0 (Radau), 1 in size (Gauss, Lobatto)."""
    A, b, one = np.array(scheme.matrix), np.array(scheme.weights), np.ones(scheme.stages)

    def R(z):
        return 1.0 + z * b @ np.linalg.solve(np.eye(len(b)) - z * A, one)

    # on the imaginary axis the next power of the error stands at a right angle
    z = 1j * 1e-4 ** (1 / (scheme.order + 1))
    errors = [abs(R(w) - np.exp(w)) for w in (z, z / 2)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(scheme.order + 1, abs=0.1)
    limit = 0.0 if scheme.name.startswith("radau") else 1.0
    assert abs(R(-1e7)) == pytest.approx(limit, abs=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_polynomials(scheme):
    """Values and rates at any place follow exactly from those at the knots, inputs from stages."""
    at = np.array([0.0, 0.3, 0.77, 1.0])
    degree = len(scheme.knots) - 1
    knots, nodes = np.array(scheme.knots), np.array(scheme.nodes)
    np.testing.assert_allclose(scheme.states(at) @ knots**degree, at**degree, atol=1e-13)
    slope = degree * at ** (degree - 1)
    np.testing.assert_allclose(scheme.rates(at) @ knots**degree, slope, atol=1e-13)
    degree = scheme.stages - 1
    np.testing.assert_allclose(scheme.inputs(at) @ nodes**degree, at**degree, atol=1e-13)


def test_error_estimate_of_radau_5():
    """The numbers of RADAU5 (Hairer, Wanner, section IV.8): weights of the unknowns z = h A k."""
    scheme, root = SCHEMES["radau-5"], np.sqrt(6.0)
    weights = -np.linalg.solve(np.array(scheme.matrix).T, scheme.first_rates)
    expected = [-(13.0 + 7.0 * root) / 3.0, (-13.0 + 7.0 * root) / 3.0, -1.0 / 3.0]
    np.testing.assert_allclose(weights, expected, rtol=1e-13)
    assert sum(scheme.first_rates) == pytest.approx(1.0, abs=1e-14)
    with pytest.raises(ValueError, match="radau-3 has no error estimate"):
        _ = SCHEMES["radau-3"].first_rates


def test_order_conditions_are_checked():
    scheme = SCHEMES["radau-5"]
    with pytest.raises(ValueError, match="radau-5: the weights miss order condition 2"):
        replace(scheme, weights=scheme.weights[::-1])
    with pytest.raises(ValueError, match="radau-5: the weights miss order condition 6"):
        replace(scheme, order=6)
    with pytest.raises(ValueError, match="radau-5: the matrix misses order condition 1"):
        replace(scheme, matrix=scheme.matrix[::-1])


def test_well_known_names():
    names = ("backward-euler", "midpoint", "trapezoid", "hermite-simpson")
    assert [SCHEMES[n].name for n in names] == ["radau-1", "gauss-2", "lobatto-2", "lobatto-4"]
