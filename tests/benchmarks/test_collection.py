"""The collection of published problems: quick ones as recorded, exact values by other means."""

import collection
import numpy as np
import pytest
from published import COLLECTION, PROBLEMS
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

#: The others are studies.
SHORT = ("scalar_regulator", "shortest_push", "delayed_product_bounded", "vehicle_launch")
NEW = [
    pytest.param(name, marks=[] if name in SHORT else [pytest.mark.study])
    for name in COLLECTION
    if name not in PROBLEMS
]


@pytest.mark.parametrize("name", NEW)
def test_the_published_value_or_a_reason(name):
    """By default or on refined grids; where another one is found, the statement says why."""
    row = collection.one(name, ())
    stated = COLLECTION[name]()
    assert row.met(stated) or stated.missed, (row.best.objective, row.best.failure)


def test_a_first_try_that_is_lost_is_given_up_soon():
    """The first step takes the duration to its bound; IPOPT's own scaling takes 34 iterations."""
    stated = COLLECTION["two_link_arm"]()
    found = stated.posed().solve(stated.guess, progress=False)
    assert found.success and abs(stated.difference(found.objective)) < stated.tolerance
    assert found.iterations < 330
    assert any("solved as IPOPT scales by itself" in note for note in found.notes)


@pytest.mark.parametrize(("name", "most"), [("schwartz", 1e-3), ("totally_singular", 1e-2)])
def test_the_error_of_the_grid_where_the_least_cost_is_zero(name, most):
    """A share of a cost of 1e-7 or 1e-19 says nothing."""
    stated = COLLECTION[name]()
    error = stated.posed().solve(stated.guess or None, progress=False).grid_error()
    assert error.largest < most
    assert error.objective_scale > 1e-3


def test_statements_are_short_and_have_sources():
    assert len(COLLECTION) >= 80
    for statement in COLLECTION.values():
        assert statement.__doc__ and statement(5).source
        assert collection.lines_of(statement) <= 70


def test_value_of_the_linear_regulator():
    """Riccati's equation -P' = P A + A' P + 1 - P P backwards from diag(10, 0, ...)."""
    n = 6
    a = np.eye(n, k=1)
    a[-1] = [(-1) ** k * (k + 1) for k in range(n)]
    end = np.zeros((n, n))
    end[0, 0] = 10.0

    def rate(_, p):
        p = p.reshape(n, n)
        return (p @ a + a.T @ p + np.eye(n) - p @ p).ravel()

    found = solve_ivp(rate, (0.0, 1.0), end.ravel(), rtol=1e-12, atol=1e-12)
    start = np.arange(1.0, n + 1)
    value = start @ found.y[:, -1].reshape(n, n) @ start
    assert COLLECTION["linear_regulator"]().value == pytest.approx(value, rel=1e-9)


def test_value_of_fuller():
    """Arcs of full force between crossings of x = -c v |v|, until nothing moves."""
    c, x, v, u, value = np.sqrt((np.sqrt(33.0) - 1.0) / 24.0), 0.0, 1.0, -1.0, 0.0
    while abs(v) > 1e-8:
        path = np.polynomial.Polynomial([x, v, u / 2.0])
        rate = path.deriv()
        turn = brentq(
            lambda s, path=path, rate=rate: path(s) + c * rate(s) * abs(rate(s)),
            abs(v),
            4.0 * abs(v),
            xtol=1e-15,
        )
        value += (path**2).integ()(turn)
        x, v, u = path(turn), rate(turn), -u
    assert COLLECTION["fuller"]().value == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("van_der_pol", ""),
        ("vehicle_launch", "phases"),
        ("rayleigh_mixed", "path conditions"),
        ("delayed_scalar", "delays"),
        ("cannonball", "parameters"),
        ("wave_power", "explicit time"),
        ("dido", "conditions other than values"),
    ],
)
def test_what_rockit_is_not_given(name, words):
    assert collection.unsayable(COLLECTION[name]()) == words
