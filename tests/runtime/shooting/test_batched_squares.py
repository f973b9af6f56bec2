"""Sums of squares from many starts, against closed forms and SciPy."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from kinesym.runtime.shooting.batched_squares import BEHIND, Problem, Squares, minimised
from kinesym.runtime.status import Solve


def rosenbrock(q):
    """More, Garbow, Hillstrom 1981, ACM TOMS 7:17, problem 1; zero at (1, 1)."""
    return np.array([10.0 * (q[1] - q[0] ** 2), 1.0 - q[0]])


def freudenstein(q):
    """Problem 2: zero at (5, 4), another minimum of 48.9842... at (11.41..., -0.8968...)."""
    x, y = q
    return np.array([-13 + x + ((5 - y) * y - 2) * y, -29 + x + ((y + 1) * y - 14) * y])


def brown_dennis(q):
    """Problem 16: residuals stay large, 85822.2..., so that Gauss and Newton alone go astray."""
    t = 0.2 * np.arange(1, 21)
    return (q[0] + t * q[1] - np.exp(t)) ** 2 + (q[2] + q[3] * np.sin(t) - np.cos(t)) ** 2


def jennrich(q):
    """Problem 6: 124.362... at 0.2578 twice."""
    i = np.arange(1, 11)
    return 2 + 2 * i - np.exp(i * q[0]) - np.exp(i * q[1])


def biggs(q):
    """Three rates of decay of widely different size, with an amplitude each."""
    t = 0.1 * np.arange(1, 31)
    said = np.exp(-t) - 5.0 * np.exp(-10.0 * t)
    return q[2] * np.exp(-q[0] * t) - q[3] * np.exp(-q[1] * t) - said


def squares(function):
    """J of many points, derivatives by complex steps."""

    def found(rows, points):
        n = points.shape[1]
        made = Squares(np.zeros(len(points)), np.zeros(points.shape), np.zeros((len(points), n, n)))
        with np.errstate(all="ignore"):
            for k, q in enumerate(points):
                r = function(q)
                slopes = slopes_of(function, q)
                made.cost[k], made.gradient[k] = r @ r, 2.0 * slopes.T @ r
                made.bend[k] = 2.0 * slopes.T @ slopes
        bad = ~np.isfinite(made.cost)
        made.cost[bad], made.gradient[bad], made.bend[bad] = np.inf, 0.0, 0.0
        return made

    return found


def slopes_of(function, q):
    steps = 1e-30j * np.eye(len(q))
    return np.array([function(q + step).imag / 1e-30 for step in steps]).T


def ends(function, starts, low=-np.inf, high=np.inf, limit=200, bends=False):
    starts = np.array(starts, dtype=float)
    bounds = tuple(np.broadcast_to(np.array(s, float), starts.shape) for s in (low, high))
    made = bending(function) if bends else (squares(function), None)
    problem = Problem(made[0], bounds, 1e-20, change=made[1])
    return minimised(problem, starts, limit, lambda rows, now: None)


def bending(function):
    """The same, and how 2 r'^T r changes from the iterates, the lowest points of each start."""
    plain, lowest = squares(function), {}

    def found(rows, points):
        made = plain(rows, points)
        for row, J, q in zip(rows, made.cost, points, strict=True):
            if row not in lowest or lowest[row][0] > J:
                lowest[row] = J, q
        return made

    def change(rows, points):
        with np.errstate(all="ignore"):
            every = [(lowest[row][1], q) for row, q in zip(rows, points, strict=True)]
            return np.array(
                [2.0 * slopes_of(function, at).T @ (function(q) - function(at)) for at, q in every]
            )

    return found, change


def scattered(about, factor, count=20, seed=0):
    generator = np.random.default_rng(seed)
    about = np.array(about, dtype=float)
    return about * factor ** generator.uniform(-1.0, 1.0, (count, len(about)))


@pytest.mark.parametrize(
    ("function", "about", "factor", "lowest"),
    [
        (rosenbrock, [-1.2, 1.0], 3.0, 0.0),
        (brown_dennis, [25.0, 5.0, -5.0, -1.0], 2.0, 85822.2016),
        (jennrich, [0.3, 0.4], 1.3, 124.3621824),
        (biggs, [1.0, 10.0, 1.0, 5.0], 1.5, 0.0),
    ],
)
def test_known_minima(function, about, factor, lowest):
    found = ends(function, scattered(about, factor))
    assert set(found.status) == {str(Solve.CONVERGED)}
    np.testing.assert_allclose(found.cost, lowest, rtol=1e-8, atol=1e-18)
    for k, y in enumerate(found.y):
        history = [step.objective for step in found.history(k)]
        assert np.diff(history).max(initial=0.0) <= 0.0
        np.testing.assert_array_equal(found.history(k)[-1].values, y)


def test_starts_do_not_know_of_each_other():
    starts = scattered([0.5, -2.0], 10.0)
    together = ends(freudenstein, starts)
    for k, start in enumerate(starts):
        alone = ends(freudenstein, [start])
        assert alone.cost[0] == pytest.approx(together.cost[k], rel=1e-9, abs=1e-18)
    near = np.isclose(together.cost, 48.98425, rtol=1e-6) | (together.cost < 1e-15)
    assert near.all()


@pytest.mark.parametrize("seed", range(4))
def test_bounds(seed):
    """SciPy's minimum, at some of them."""
    starts = np.random.default_rng(seed).uniform(
        [5.0, 0.0, -6.0, -2.0], [11.0, 6.0, -1.0, 2.0], (9, 4)
    )
    low, high = [5.0, 0.0, -6.0, -2.0], [11.0, 12.0, -1.0, 0.2]
    found = ends(brown_dennis, np.clip(starts, low, high), low, high)
    assert set(found.status) == {str(Solve.CONVERGED)}
    inside = np.clip(starts[0], np.add(low, 1e-3), np.subtract(high, 1e-3))
    best = least_squares(
        brown_dennis,
        inside,
        lambda q: slopes_of(brown_dennis, q),
        bounds=(low, high),
        xtol=1e-15,
        ftol=1e-15,
    )
    assert (found.y >= low).all() and (found.y <= high).all()
    assert ((found.y == low) | (found.y == high)).any(axis=1).all()
    np.testing.assert_allclose(found.cost, 2.0 * best.cost, rtol=1e-6)


@pytest.mark.parametrize(("narrow", "times"), [(100.0, 2), (1e4, 4)])
def test_steps_bend_with_a_valley(narrow, times):
    """Its floor is a parabola, at whose end the minimum is; with a bound, on this side."""

    def valley(q):
        return np.array([narrow * (q[1] - q[0] ** 2), 1.0 - q[0]])

    starts = [[-5.0, 25.0], [-2.0, 4.1], [-3.0, 9.0]]
    straight = ends(valley, starts, limit=3000)
    found = ends(valley, starts, limit=3000, bends=True)
    np.testing.assert_allclose(found.y, 1.0, rtol=1e-6)
    assert (times * found.iterations < straight.iterations).all()
    low = ends(valley, starts, low=[-10.0, 1.2], limit=3000, bends=True)
    np.testing.assert_allclose(low.y, np.tile([-np.sqrt(1.2), 1.2], (3, 1)), rtol=1e-3)


def test_bends_are_looked_at_where_they_matter():
    """Hardly along a valley that is straight, with long steps in each iteration."""

    def straight(q):
        return np.array([1e3 * (q[1] - 2.0 * q[0]) * (1.0 + 1e-9 * q[0]), 1.0 - q[0] / 100.0])

    found, change = bending(straight)
    looks = []

    def counted(rows, points):
        looks.append(len(rows))
        return change(rows, points)

    bounds = tuple(np.full((1, 2), side) for side in (-np.inf, np.inf))
    problem = Problem(found, bounds, 1e-20, change=counted)
    ended = minimised(problem, np.array([[-1e3, -2e3]]), 200, lambda rows, now: None)
    np.testing.assert_allclose(ended.y, [[100.0, 200.0]], rtol=1e-6)
    assert 0 < 3 * len(looks) < ended.iterations[0]


def test_steps_that_cannot_bend():
    """Where r has no value on the way, or does not bend, they are those without."""

    def gap(q):
        return np.array([np.where((q[0] > 1.9) & (q[0] < 1.99), np.nan, q[0]) - 1.0])

    for function in (gap, lambda q: q - 3.0):
        start = [[2.0]] if function is gap else [[40.0, -2.0]]
        one, other = (ends(function, start, bends=bends) for bends in (False, True))
        np.testing.assert_allclose(other.y, one.y, rtol=1e-9)
        assert other.iterations[0] == one.iterations[0]


def test_ends_that_are_none():
    """Where J has no value at the start, none; the limit of iterations; a place with no slope."""
    found = ends(lambda q: np.sqrt(q + 1.0) - 2.0, [[-3.0], [8.0], [3.0]])
    assert found.status == ["not finite", "converged", "converged"]
    np.testing.assert_allclose(found.y[1:, 0], 3.0)
    assert found.iterations[2] == 0
    few = ends(rosenbrock, [[-1.2, 1.0], [1.0, 1.0]], limit=2)
    assert few.status == ["iteration limit", "converged"]
    assert ends(lambda q: np.array([1.0 + 0.0 * q[0], 2.0]), [[4.0]]).status == ["converged"]


def test_those_that_fall_behind_are_stopped():
    """A valley so narrow and bent that its end would take thousands of steps."""

    def bent(q):
        return np.array([100.0 * (q[1] - q[0] ** 2), 1.0 - q[0]])

    found = ends(bent, [[1.1, 1.2], [-1e3, 1e6]], limit=100)
    assert found.status == ["converged", BEHIND]
    assert found.iterations[1] == 30 and found.cost[1] > 1e5
    alone = ends(bent, [[-1e3, 1e6]], limit=100)
    assert alone.status == ["iteration limit"]


def test_ctrl_c_keeps_those_that_have_ended():
    count = iter(range(100))
    plain = squares(rosenbrock)

    def interrupted(rows, points):
        if next(count) == 4:
            raise KeyboardInterrupt
        return plain(rows, points)

    starts = np.array([[1.0, 1.0], [-1.2, 1.0]])
    bounds = (np.full_like(starts, -np.inf), np.full_like(starts, np.inf))
    found = minimised(Problem(interrupted, bounds, 1e-20), starts, 200, lambda rows, now: None)
    assert found.status == ["converged", ""]
