"""Profiles of functions whose intervals are known."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kinesym.runtime.results.profile import HeldQuantity, Profile
from kinesym.runtime.statistics.profile import ProfilePoint, rises


def held(J, slope):
    """Solves by formula; counts them."""
    calls = []

    def solve(value, nearest):
        calls.append(value)
        return ProfilePoint(value, J(value), slope(value), value)

    return solve, calls


def test_a_quadratic_needs_one_solve_per_side():
    solve, calls = held(lambda v: 3.0 + ((v - 2.0) / 0.1) ** 2, lambda v: 200.0 * (v - 2.0))
    best = ProfilePoint(2.0, 3.0, 0.0, 2.0)
    found = rises(best, 0.1, (-np.inf, np.inf), solve, 3.84)
    assert (found.low, found.high) == pytest.approx((2 - 0.1 * 3.84**0.5, 2 + 0.1 * 3.84**0.5))
    assert len(calls) == 2 and not found.remarks


def test_a_skewed_one():
    """J = n (v - 1 - log v): of the rate of an exponential distribution with mean 1."""
    n = 10.0
    J, slope = lambda v: 2 * n * (v - 1.0 - np.log(v)), lambda v: 2 * n * (1.0 - 1.0 / v)
    solve, calls = held(lambda v: J(v) if v > 0 else np.inf, slope)
    best = ProfilePoint(1.0, 0.0, 0.0, 1.0)
    found = rises(best, n**-0.5, (0.0, np.inf), solve, 3.841459)
    assert J(found.low) == pytest.approx(3.841459, rel=1e-4)
    assert J(found.high) == pytest.approx(3.841459, rel=1e-4)
    assert found.low < 0.51 and found.high > 1.6
    assert len(calls) <= 8
    assert (np.diff(found.values) > 0).all()
    assert found.rise.min() == 0.0


def test_variance_of_samples():
    solve, _ = held(lambda v: 25.0 * v**2, lambda v: 50.0 * v)
    found = rises(ProfilePoint(0.0, 0.0, 0.0), 1.0, (-9.0, 9.0), solve, 4.0, variance=25.0)
    assert (found.low, found.high) == pytest.approx((-2.0, 2.0))
    assert found.rise.max() == pytest.approx(4.0)


def test_a_bound_is_reached():
    solve, _ = held(lambda v: (v - 0.5) ** 2, lambda v: 2.0 * (v - 0.5))
    found = rises(ProfilePoint(0.5, 0.0, 0.0), 1.0, (0.0, 10.0), solve, 3.84)
    assert found.low == 0.0
    assert found.remarks == ["is not limited below: the interval reaches the bound 0"]
    assert found.high == pytest.approx(0.5 + 3.84**0.5)


def test_an_open_side():
    """A saturating rise: 1 at most above."""
    J = lambda v: v**2 / (1.0 + v**2) if v > 0 else v**2  # noqa: E731
    slope = lambda v: 2.0 * v / (1.0 + v**2) ** 2 if v > 0 else 2.0 * v  # noqa: E731
    solve, _ = held(J, slope)
    found = rises(ProfilePoint(0.0, 0.0, 0.0), 1.0, (-np.inf, np.inf), solve, 3.84)
    assert found.high == np.inf
    assert "not limited above" in found.remarks[0]
    assert found.low == pytest.approx(-(3.84**0.5))


def test_solves_that_fail():
    solve, _ = held(lambda v: v**2 if v < 0.5 else np.inf, lambda v: 2.0 * v)
    found = rises(ProfilePoint(0.0, 0.0, 0.0), 1.0, (-np.inf, np.inf), solve, 3.84)
    assert np.isnan(found.high)
    assert "no minimum is found beyond 0.499" in found.remarks[0]


def test_a_wall_that_the_curvature_does_not_tell():
    """J rises from nothing to the target within a share of the standard error; springs that the
    curvature tells do not follow there."""

    def J(v):
        return 1e-3 * (v - 1.0) ** 2 + np.exp(min(20.0 * (v - 2.0), 600.0))

    def solved(guess, near, spring):
        found = minimize_scalar(
            lambda v: J(v) + spring.energy(v), bounds=(-100.0, 100.0), options={"xatol": 1e-12}
        )
        return np.array([found.x]), J(found.x), None

    best = ProfilePoint(1.0, J(1.0), 0.0, np.array([1.0]))
    sides = (np.array([-np.inf]), np.array([np.inf]))
    about = (best, 1e3**0.5, (-np.inf, np.inf), sides, np.ones(1), lambda y: y[0], solved)
    solve = partial(HeldQuantity(*about).held, variance=1.0)
    found = rises(best, 1e3**0.5, (-np.inf, np.inf), solve, 3.84)
    assert J(found.high) - J(1.0) == pytest.approx(3.84, rel=1e-3)
    assert found.low == pytest.approx(1.0 - 3840**0.5, rel=1e-3)
    assert not found.remarks


def test_picture():
    solve, _ = held(lambda v: v**2, lambda v: 2.0 * v)
    found = rises(ProfilePoint(0.0, 0.0, 0.0), 1.0, (-9.0, 9.0), solve, 3.84)
    made = Profile(
        name="k", estimate=0.0, standard_error=1.0, level=0.95, target=3.84, **vars(found)
    )
    assert made.plot().axes[0].get_xlabel() == "k"
    assert repr(made) == "<profile of k: 0, 95 % -1.95959 ... 1.95959>"
