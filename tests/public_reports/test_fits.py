"""Public reports of other projects about estimates and intervals, written for kinesym; numbers are
our own.

The first words of each docstring name the report."""

import numpy as np
import pytest
import sympy as sp
from scipy.linalg import expm

import kinesym as ks

x, y, v = ks.dynamicsymbols("x y v")
a, b, c = sp.symbols("a b c")


def line(known):
    """Fit of x' = a + 2 b t from x(0) = c, which is linear in a, b, c; c is known or not."""
    time = np.linspace(0, 2, 31)
    data = 0.3 + 1.5 * time - 0.7 * time**2 + 0.05 * np.random.default_rng(8).standard_normal(31)
    model = ks.Model("line", [x], [], [a, b, c], [x.diff(ks.t) - a - 2 * b * ks.t])
    unknown = {a: None, b: None} if known else {a: None, b: None, c: None}
    problem = ks.Collocation(
        model,
        ks.Experiment(time, measurements={x: data}),
        unknown=unknown,
        known={c: 0.3} if known else None,
        boundary=[ks.at_start(x) - c],
        scheme="radau-5",
    )
    columns = np.array([time, time**2] if known else [time, time**2, np.ones(31)]).T
    rest = data - (0.3 if known else 0)
    estimate, square, *_ = np.linalg.lstsq(columns, rest)
    variance = square[0] / (31 - columns.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(columns.T @ columns)))
    return problem.solve(), estimate, errors


@pytest.mark.parametrize("known", (True, False))
def test_errors_beside_what_is_known(known):
    """lumicks/pylake#234, lmfit/lmfit-py#48: standard errors count what is known as unknown."""
    fit, estimate, errors = line(known)
    table = fit.parameters.table
    np.testing.assert_allclose([table[n].value for n in "ab"], estimate[:2], rtol=1e-6)
    np.testing.assert_allclose([table[n].standard_error for n in "ab"], errors[:2], rtol=1e-6)


def test_profile_beside_what_is_known():
    """derrynknife/SurPyval#255: profiles free what the user had fixed."""
    fit, _, _ = line(known=True)
    profile, plain = fit.profile(a), fit.parameters.table["a"]
    assert profile.low == pytest.approx(plain.low, rel=1e-3)
    assert profile.high == pytest.approx(plain.high, rel=1e-3)


def test_no_negative_variance_at_a_bound():
    """Pyomo/pyomo#1599: the covariance has negative entries beside a parameter at its bound."""
    model = ks.Model(
        "chain", [x, y], [], [a, b], [x.diff(ks.t) + a * x, y.diff(ks.t) - a * x + b * y]
    )
    time = np.linspace(0, 4, 41)
    data = 1.05 * (1 - np.exp(-0.8 * time))  # as of b < 0
    problem = ks.Collocation(
        model,
        ks.Experiment(time, measurements={y: data}),
        unknown={a: (0, 5), b: (0, 5)},
        boundary=[ks.at_start(x) - 1, ks.at_start(y)],
        scheme="radau-5",
    )
    fit = problem.solve({a: 1.0, b: 1.0})
    table = fit.parameters.table
    assert "bound" in table["b"].remark and table["b"].value < 1e-6
    alone = ks.Collocation(
        model,
        ks.Experiment(time, measurements={y: data}),
        unknown={a: (0, 5)},
        known={b: 0.0},
        boundary=[ks.at_start(x) - 1, ks.at_start(y)],
        scheme="radau-5",
    ).solve({a: 1.0})
    expected = alone.parameters.table["a"].standard_error
    assert table["a"].standard_error == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("high", (1.0, 0.05))
def test_interval_beside_a_bound(high):
    """stats.stackexchange.com question 446712: of an epidemic's first days only beta - gamma shows;
    gamma ends at its bound 0, and beta is known no better than gamma by its bounds."""
    cases = [45, 62, 121, 198, 291, 440, 571, 830, 1287, 1975, 2744, 4515]
    model = ks.Model(
        "epidemic",
        [x, y],
        [],
        [b, c],
        [x.diff(ks.t) + b * x * y / 1.4e9, y.diff(ks.t) - b * x * y / 1.4e9 + c * y],
    )
    problem = ks.Collocation(
        model,
        ks.Experiment(np.arange(12.0), measurements={y: np.array(cases, float)}),
        {b: (0, 2), c: (0, high)},
        boundary=[ks.at_start(x) - (1.4e9 - 45), ks.at_start(y) - 45],
        scheme="radau-5",
    )
    fit = problem.solve({b: 0.5, c: high / 2})
    expected = np.hypot(1.13e-3, high / np.sqrt(3.0))  # a uniform gamma
    assert fit.parameters.table["b"].standard_error == pytest.approx(expected, rel=1e-2)


def test_what_is_known_well_is_identifiable():
    """stackoverflow.com question 9167819: y'' = a y + b y' is unstable; b is known to 0.02 %."""
    model = ks.Model(
        "unstable", [y, v], [], [a, b], [y.diff(ks.t) - v, v.diff(ks.t) - a * y - b * v]
    )
    time = np.linspace(0, 10, 100)
    rate = np.array([[0, 1], [2, 0.1]])
    clean = np.array([(expm(rate * s) @ [0.0005, 0.2])[0] for s in time])
    noise = 0.1 * np.random.default_rng(1).standard_normal(100)
    trial = ks.Experiment(time, measurements={y: clean + noise}, std={y: 0.1})
    shooting = ks.Shooting(model, trial, {a: None, b: None}, initial={y: 0.0005, v: 0.2})
    fit = shooting.solve({a: 1.0, b: 1.0}, optimizer="least-squares")
    assert fit.parameters["b"] == pytest.approx(0.1, abs=1e-3)
    assert "not identifiable" not in str(fit)
