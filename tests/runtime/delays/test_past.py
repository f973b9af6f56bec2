"""The course of states that delays look back at: exact for polynomials, broken at breaks."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from kinesym.runtime.delays.past import Past

NODES = np.array([1.0, 1.3, 1.5, 1.9, 2.0, 2.25])


def before(time, sides):
    return np.full((2, time.shape[1]), -7.0)


def put(past, courses, nodes, smooth, rates=True):
    """Pieces of one state of two members."""
    values = np.array([[[course(at) for course in courses]] for at in nodes])
    slopes = np.array([[[course.deriv()(at) for course in courses]] for at in nodes])
    both = np.array([slopes[:-1], slopes[1:]]) if rates else None
    past.put(nodes, values, both, np.array(smooth))


def course(degree, smooth=(False, True, True, True, True), **more):
    rng = np.random.default_rng(degree)
    courses = [Polynomial(rng.normal(size=degree + 1)) for _ in range(2)]
    past = Past(NODES[0], np.array([[c(NODES[0]) for c in courses]]), [before])
    put(past, courses, NODES, smooth, **more)
    past.keep()
    return past, courses


@pytest.mark.parametrize(("degree", "exact"), [(3, True), (5, True), (6, False)])
def test_pieces_that_are_smooth_are_of_degree_5(degree, exact):
    past, courses = course(degree)
    time = np.linspace(1.0, 2.25, 57)
    off = past(0, time[None], np.zeros(57)) - [c(time) for c in courses]
    assert (np.abs(off).max() < 1e-12) == exact
    value, slope = past.with_slope(0, time)
    assert (np.abs(slope - [c.deriv()(time) for c in courses]).max() < 1e-10) == exact
    np.testing.assert_allclose(value, past(0, time[None], np.zeros(57)), atol=1e-13)


def test_pieces_between_breaks_are_cubic():
    past, courses = course(4, smooth=[False] * 5)
    middle = 0.5 * (NODES[1:] + NODES[:-1])
    off = past(0, middle[None], np.zeros(5)) - [c(middle) for c in courses]
    expected = -(np.diff(NODES) ** 4) / 16.0  # of x^4, with s^2 (1 - s)^2
    np.testing.assert_allclose(off, [c.coef[4] * expected for c in courses], atol=1e-13)


def test_rates_by_differences_are_exact_for_degree_4():
    past, courses = course(4, rates=False)
    time = np.linspace(1.0, 2.25, 31)
    found = past(0, time[None], np.zeros(31))
    np.testing.assert_allclose(found, [c(time) for c in courses], atol=1e-11)


def test_before_the_start_beyond_the_end_and_times_of_members():
    past, courses = course(3)
    end = [c(2.25) + 0.5 * c.deriv()(2.25) for c in courses]
    np.testing.assert_allclose(past(0, np.array([[2.75]]), np.zeros(1))[:, 0], end, atol=1e-12)
    np.testing.assert_array_equal(past(0, np.array([[0.5]]), np.zeros(1)), -7.0)
    np.testing.assert_array_equal(past(0, np.array([[1.0]]), -np.ones(1)), -7.0)
    own = past(0, np.array([[1.2], [2.1]]), np.zeros(1))[:, 0]
    np.testing.assert_allclose(own, [courses[0](1.2), courses[1](2.1)], atol=1e-12)


def test_what_is_not_kept_is_put_anew():
    past, courses = course(3)
    more = np.linspace(2.25, 4.0, 90)
    put(past, [c + 1.0 for c in courses], more, [True] * 89)
    put(past, courses, more, [True] * 89)
    assert past.end == 2.25
    past.keep()
    assert past.end == 4.0
    time = np.linspace(1.0, 4.0, 91)
    found = past(0, time[None], np.zeros(91))
    np.testing.assert_allclose(found, [c(time) for c in courses], rtol=1e-11, atol=1e-11)
