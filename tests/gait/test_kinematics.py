"""Splines of independent coordinates: exact polynomials, order of convergence, bad input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesym.gait.kinematics import Spline

RNG = np.random.default_rng(0)
#: A band-limited motion: six harmonics of a cycle of 1.1 s, falling as those of gait do.
SIZES = 0.3 * 0.35 ** np.arange(6.0)
PHASES = RNG.uniform(0.0, 6.0, (4, 6))


def motion(time, order=0):
    """Four series of it, (4, N), or their derivative of this order."""
    w = 2.0 * np.pi / 1.1 * np.arange(1, 7)[:, None]
    return np.array(
        [
            (
                SIZES[:, None] * w**order * np.sin(w * time + phase[:, None] + 0.5 * np.pi * order)
            ).sum(axis=0)
            for phase in PHASES
        ]
    )


def error(rate, degree):
    """Relative errors of rates and accelerations, between samples and away from the ends."""
    time = np.arange(int(4.0 * rate) + 1) / rate
    spline = Spline.through(time, motion(time), degree, trim=20)
    at = np.linspace(*spline.span, 3001)
    found = spline.sample(at)
    return [
        np.sqrt(np.mean((got - motion(at, k)) ** 2) / np.mean(motion(at, k) ** 2))
        for k, got in ((1, found.zd), (2, found.zdd))
    ]


@pytest.mark.parametrize("degree, zd, zdd", [(3, 1e-4, 5e-3), (4, 1e-5, 5e-4), (5, 1e-6, 5e-5)])
def test_accuracy_at_100_hz(degree, zd, zdd):
    rates, accelerations = error(100.0, degree)
    assert rates < zd
    assert accelerations < zdd


@pytest.mark.parametrize("degree", [3, 4, 5])
def test_order_of_convergence(degree):
    coarse, fine = error(100.0, degree), error(200.0, degree)
    orders = np.log2(np.array(coarse) / np.array(fine))
    # Derivative k between samples: the power degree + 1 - k.
    assert orders == pytest.approx([degree, degree - 1.0], abs=0.25)


@settings(max_examples=40, deadline=None)
@given(
    coefficients=st.lists(st.floats(-3.0, 3.0), min_size=6, max_size=6),
    degree=st.integers(3, 5),
    seed=st.integers(0, 1000),
)
def test_polynomials_are_exact(coefficients, degree, seed):
    rng = np.random.default_rng(seed)
    time = np.sort(rng.uniform(0.1, 0.2, 30)).cumsum() / 3.0  # not uniform
    exact = np.polynomial.Polynomial(coefficients[: degree + 1], domain=[time[0], time[-1]])
    spline = Spline.through(time, exact(time)[None], degree)
    at = np.linspace(*spline.span, 50)
    found = spline.sample(at)
    for k, got in enumerate((found.z, found.zd, found.zdd)):
        wanted = exact.deriv(k)(at) if k else exact(at)
        np.testing.assert_allclose(got[0], wanted, atol=1e-9 * 30.0**k)


def test_passes_through_every_sample():
    time = np.arange(60) / 50.0
    values = RNG.normal(size=(3, 60))
    found = Spline.through(time, values, trim=0).sample(time)
    np.testing.assert_allclose(found.z, values, atol=1e-13)
    assert found.z.shape == found.zd.shape == found.zdd.shape == (3, 60)


def test_derivatives_are_those_of_the_values():
    time = np.arange(80) / 50.0
    spline = Spline.through(time, RNG.normal(size=(2, 80)))
    at, h = np.linspace(0.3, 1.2, 41), 1e-4
    ahead, here, back = (spline.sample(at + shift) for shift in (h, 0.0, -h))
    size = np.abs(here.zdd).max()
    np.testing.assert_allclose((ahead.z - back.z) / (2 * h), here.zd, atol=1e-6 * size)
    np.testing.assert_allclose((ahead.zd - back.zd) / (2 * h), here.zdd, atol=2e-4 * size)


def test_span_leaves_out_the_ends():
    time = 2.0 + np.arange(41) / 20.0
    spline = Spline.through(time, np.sin(time)[None])
    assert spline.span == pytest.approx((2.25, 3.75))
    assert replace(spline, trim=0).span == pytest.approx((2.0, 4.0))
    spline.sample(spline.span)
    with pytest.raises(ValueError, match=r"known for 2\.25 \.\.\. 3\.75 s; 5 samples at each end"):
        spline.sample([2.2, 3.0])
    with pytest.raises(ValueError, match="asked for"):
        spline.sample([3.76])
    grid = spline.grid(0.01)
    assert len(grid) == 151
    assert grid[-1] == pytest.approx(3.75)
    spline.sample(grid)
    with pytest.raises(ValueError, match="step must be positive"):
        spline.grid(-0.1)


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda t, y: Spline.through(t, y[0]), r"values must be \(g, 40\)"),
        (lambda t, y: Spline.through(t, y, 6), "must be 3, 4 or 5, got 6"),
        (lambda t, y: Spline.through(t[:5], y[:, :5]), "need more than 5 samples, got 5"),
        (lambda t, y: Spline.through(t[:8], y[:, :8]), "5 cannot be left out at each end"),
        (lambda t, y: Spline.through(t[::-1], y), "time must increase"),
        (lambda t, y: Spline.through(t, y + np.where(t > 0.3, np.nan, 0)), "series 0 is nan at 0"),
        (lambda t, y: Spline.through(t, y).sample([]), "finite numbers"),
        (lambda t, y: Spline.through(t, y).sample([np.nan]), "finite numbers"),
    ],
)
def test_errors(given, message):
    time = np.arange(40) / 20.0
    with pytest.raises(ValueError, match=message):
        given(time, np.array([np.sin(8.0 * time), np.cos(time)]))
