"""Polynomials that fit data: exact where the data are of one, as by NumPy where not."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, y = sp.symbols("x y")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_polynomial_is_found_again(scale: float) -> None:
    rng = np.random.default_rng(1)
    points = scale * (5.0 + rng.uniform(-1.0, 1.0, 30))
    values = np.polyval([2.0, -1.0, 0.5, 3.0], points / scale)
    fit = ks.polynomial_fit(x, points, values, 3)
    assert fit.largest < 1e-11 and fit.rms <= fit.largest
    value = sp.lambdify(x, fit.expression)(points)
    np.testing.assert_allclose(value, values, rtol=1e-12)
    slope = sp.lambdify(x, fit.expression.diff(x))(points)
    exact = np.polyval([6.0, -2.0, 0.5], points / scale) / scale
    np.testing.assert_allclose(slope, exact, rtol=1e-9)


def test_the_error_is_that_of_least_squares() -> None:
    points = np.linspace(-2.0, 3.0, 200)
    values = np.tanh(points)
    fit = ks.polynomial_fit(x, points, values, 12)
    best = np.polynomial.Chebyshev.fit(points, values, 12)
    missed = np.abs(best(points) - values)
    assert fit.largest == pytest.approx(missed.max(), rel=1e-6)
    assert fit.rms == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-6)
    value = sp.lambdify(x, fit.expression)(points)
    np.testing.assert_allclose(value, best(points), atol=1e-11)
    assert str(fit).startswith("polynomial of degree 12: misses the values by")


def test_two_variables() -> None:
    a, b = np.linspace(0.0, 2.0, 9), np.linspace(-1.0, 5.0, 7)
    grid = np.meshgrid(a, b, indexing="ij")
    values = 1.0 + grid[0] * grid[1] ** 2 - 3.0 * grid[0] ** 2
    fit = ks.polynomial_fit((x, y), (a, b), values, 2)
    assert fit.largest < 1e-12
    assert float(fit.expression.subs({x: 0.3, y: 2.2})) == pytest.approx(
        1.0 + 0.3 * 2.2**2 - 3.0 * 0.3**2, rel=1e-12
    )
    rough = values + np.random.default_rng(0).normal(size=values.shape)
    basis = np.stack([grid[0] ** i * grid[1] ** j for i in range(3) for j in range(3)], axis=-1)
    missed = np.linalg.lstsq(basis.reshape(-1, 9), rough.ravel(), rcond=None)[1]
    rms = ks.polynomial_fit((x, y), (a, b), rough, 2).rms
    assert rms == pytest.approx(np.sqrt(missed[0] / rough.size), rel=1e-9)


def test_it_stands_where_expressions_do() -> None:
    q = ks.dynamicsymbols("q")
    fit = ks.polynomial_fit(q, [0.0, 1.0, 2.0], [1.0, 2.0, 5.0], 2)
    model = ks.Model("fit", [q], [], [], [q.diff(ks.t) + fit], outputs={"force": fit})
    f = ks.compile(model)
    assert f.rhs([3.0], [], []) == pytest.approx(-10.0)
    assert f.outputs([0.0], [3.0], [], []) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([0.0, 1.0, 1.0], [0.0, 1.0, 2.0], 2), "needs 3 different points or more in a row, got 2"),
        (([0.0, np.nan], [0.0, 1.0], 1), "the points of a polynomial: nan at index 1"),
        (([0.0, 1.0], [0.0, 1.0, 2.0], 1), "have the shape \\(3,\\), the points \\(2,\\)"),
        (([0.0, 1.0], [0.0, 1.0], -1), "the degree of a polynomial"),
        (([0.0, 1.0], [0.0, 1.0], 1.5), "the degree of a polynomial"),
    ],
)
def test_bad_input_is_named(given: tuple, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ks.polynomial_fit(x, *given)


def test_pairs_of_points_belong_to_pairs() -> None:
    with pytest.raises(ValueError, match="of a pair \\(x, y\\) and a pair of points"):
        ks.polynomial_fit((x, y), [[0.0, 1.0]], [0.0, 1.0], 1)
