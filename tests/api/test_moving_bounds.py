"""Bounds that change over time and between trials, against closed forms."""

import numpy as np
import pytest

import kinesym as ks

x, u = ks.dynamicsymbols("x u")
runner = ks.Model("runner", [x], [u], [], [x.diff(ks.t) - u])
TIME = np.linspace(0.0, 2.0, 21)
FARTHEST = {"objective": ks.Terminal(-x), "boundary": [ks.at_start(x)]}
LIMIT = 1.0 + 0.5 * np.sin(3.0 * TIME)


def posed(trials=None, free=None, **more):
    given = {**FARTHEST, "unknown_inputs": {u: free}, **more}
    return ks.Collocation(runner, ks.Experiment(TIME) if trials is None else trials, **given)


def trapezoid(values):
    return float(np.sum(0.5 * (values[1:] + values[:-1]) * np.diff(TIME)))


@pytest.mark.parametrize(
    ("high", "distance"),
    [
        (LIMIT, trapezoid(LIMIT)),
        (ks.Signal(TIME, LIMIT), trapezoid(LIMIT)),
        (lambda time: 1.0 + 3.0 * time**2, 10.0),
        (ks.Signal([0.0, 0.7, 1.5], [1.0, 0.2, 3.0], between="held"), 0.7 + 0.16 + 1.5),
    ],
)
@pytest.mark.parametrize("where", ["bounds", "input", "trial"])
def test_as_fast_as_allowed(high, distance, where):
    """How far one comes with a limit of the speed: its integral."""
    pair = (0.0, high)
    problem = {
        "bounds": lambda: posed(bounds={u: pair}),
        "input": lambda: posed(free=pair),
        "trial": lambda: posed(ks.Experiment(TIME, bounds={u: pair})),
    }[where]()
    solution = problem.solve()
    assert solution.success
    np.testing.assert_allclose(solution["x"][-1], distance, rtol=1e-6)


@pytest.mark.parametrize("high", [LIMIT, lambda time: 1.0 + 0.5 * np.sin(3.0 * time)])
def test_held_inputs_keep_to_the_bounds_until_the_next_node(high):
    """The narrowest of an interval, where the limit falls that at its end."""
    problem = posed(free=ks.held(0.0, high))
    solution = problem.solve()
    least = np.minimum(LIMIT[:-1], LIMIT[1:])
    rtol = 1e-6 if high is LIMIT else 1e-4
    np.testing.assert_allclose(solution["x"][-1], 0.1 * least.sum(), rtol=rtol)
    assert problem.violations(solution).largest < 1e-6


def test_each_trial_has_its_own():
    trials = [ks.Experiment(TIME, bounds={u: (0.0, high)}) for high in (LIMIT, 2.0 * LIMIT, 1.0)]
    solution = posed(trials, bounds={u: (None, 2.0 + 2.0 * LIMIT)}, free=None).solve()
    ends = [trial["x"][-1] for trial in solution.trials]
    np.testing.assert_allclose(ends, [trapezoid(LIMIT), 2.0 * trapezoid(LIMIT), 2.0], rtol=1e-6)


def test_in_shares_of_an_unknown_duration():
    """The speed may rise to 3 by the end, whenever that is: 1.5 T of the way."""
    trial = ks.Experiment(nodes=11, duration=(0.1, 10.0), bounds={u: (0, lambda s: 3.0 * s)})
    way = [ks.at_start(x), ks.at_end(x) - 6.0]
    solution = posed(trial, objective=ks.Terminal(ks.t), boundary=way).solve()
    np.testing.assert_allclose(solution.time[-1], 4.0, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["radau-3", "midpoint"])
def test_over_a_tent(scheme):
    """With the least integral of u^2 from 0 to 0 above a tent of height 0.8, whose top lies at a
    node: along the tent, as a rope. A single node can be bound, too."""
    effort = {"objective": ks.Integral(u**2), "boundary": [ks.at_start(x), ks.at_end(x)]}
    tent = ks.Signal([0.0, 0.5, 2.0], [0.0, 0.8, 0.0])
    way = posed(scheme=scheme, bounds={x: (tent, None)}, **effort).solve()
    np.testing.assert_allclose(way.objective, 0.8**2 / 0.5 + 0.8**2 / 1.5, rtol=1e-6)
    one = np.where(np.arange(21) == 5, 0.8, -np.inf)
    top = posed(scheme=scheme, bounds={x: (one, None)}, **effort).solve()
    np.testing.assert_allclose(top.objective, way.objective, rtol=1e-6)


def test_refined_grids_keep_corners():
    """On the grid that refinement chooses the bound is where it was: of an exponential the way
    that is least long above a single node."""
    one = np.where(np.arange(21) == 7, 1.0, -np.inf)
    given = {"objective": ks.Integral(u**2 + x**2), "boundary": [ks.at_start(x), ks.at_end(x)]}
    solution = posed(bounds={x: (one, None)}, scheme="midpoint", **given).solve(tolerance_grid=1e-5)
    assert len(solution.time) != 21
    assert np.abs(solution.time - 0.7).min() < 1e-12
    exact = 1.0 / np.tanh(0.7) + 1.0 / np.tanh(1.3)  # x = sinh(t)/sinh(0.7) and back
    np.testing.assert_allclose(solution.objective, exact, rtol=1e-5)


def test_a_node_where_a_bound_jumps_has_the_narrower_one():
    step = ks.Signal([0.0, 1.0], [1.0, 2.0], between="held")
    low, high = posed(scheme="trapezoid", bounds={u: (-step(TIME), step)}).variable_bounds
    inputs = slice(21, 42)
    assert high[inputs][10] == 1.0 and high[inputs][11] == 2.0 and low[inputs][10] == -2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: posed(bounds={u: (0, LIMIT[1:])}), "upper bound of u has 20 values, expected 21"),
        (lambda: posed(bounds={u: (LIMIT, 1.2)}), "of u at t = 0.2 s are crossed: 1.28.* > 1.2"),
        (lambda: posed(bounds={u: (LIMIT * np.nan, 3)}), "lower bound of u is NaN at t = 0 s"),
        (lambda: posed(bounds={u: (LIMIT + np.inf, None)}), "leave nothing finite"),
        (lambda: posed(bounds={u: (0, ks.Signal([0, 1], [1, 1]))}), "known for 0 ... 1 s"),
        (lambda: posed(bounds={u: (0, lambda s: s[1:])}), "gives 19 values for 20 times"),
        (lambda: posed(bounds={u: (0, LIMIT)}, free=(0, 1)), "in bounds and in unknown_inputs"),
        (lambda: posed(ks.Experiment(TIME, bounds={"w": (0, 1)})), "bounds of trial 0: w is unkn"),
        (lambda: posed(ks.Experiment(TIME, bounds={u: 3})), "must be .low, high."),
        (
            lambda: posed(ks.Experiment(TIME, bounds={u: (2, 3)}), bounds={u: (0, LIMIT)}),
            "bounds of u at interval 0 .* of trial 0 are crossed: 2 > 1.0",
        ),
        (
            lambda: ks.Shooting(
                runner,
                ks.Experiment(TIME, measurements={x: TIME}, bounds={x: (0, 1)}),
                unknown_inputs={u: None},
                initial={x: 0.0},
            ),
            "trial 0 has bounds of x, but what is simulated",
        ),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
