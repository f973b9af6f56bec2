"""Conditions at one time and between two, against closed forms."""

import numpy as np
import pytest

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
cart = ks.Model("cart", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
TIME = np.linspace(0.0, 1.0, 21)
REST = [ks.at_start(x), ks.at_start(v), ks.at_end(x), ks.at_end(v)]


def posed(path, trials=None, boundary=REST, **more):
    return ks.Collocation(
        cart,
        ks.Experiment(TIME) if trials is None else trials,
        objective=ks.Integral(u**2),
        boundary=boundary,
        path=path,
        unknown_inputs={u: None},
        **{"scheme": "radau-5", **more},
    )


@pytest.mark.parametrize("scheme", ["radau-5", "midpoint", "hermite-simpson"])
def test_way_point(scheme):
    """From rest to rest by way of 1/16 half-way, where it rests, too, by symmetry: each half is a
    cubic whose integral of u^2 is 12 (1/16)^2 / (1/2)^3."""
    solution = posed([ks.at(0.5, x - 1 / 16)], scheme=scheme).solve()
    assert solution.success
    np.testing.assert_allclose(solution["x"][10], 1 / 16, rtol=1e-9)
    np.testing.assert_allclose(solution["v"][10], 0.0, atol=1e-7)
    tolerance = 1e-8 if scheme != "midpoint" else 2e-2
    np.testing.assert_allclose(solution.objective, 192 / 16**2, rtol=tolerance)


def test_way_point_by_phases():
    """The same as two trials that are linked."""
    half = ks.Experiment(TIME[:11])
    linked = ks.Phases(
        [half, half],
        links=[ks.at_end(x) - ks.at_start(x), ks.at_end(v) - ks.at_start(v)],
        start=[ks.at_start(x), ks.at_start(v)],
        end=[ks.at_end(x), ks.at_end(v), ks.at_start(x) - 0.1],
    )
    phases = posed([], linked, boundary=[]).solve()
    whole = posed([ks.at(0.5, x - 0.1)]).solve()
    np.testing.assert_allclose(whole.objective, phases.objective, rtol=1e-7)


def test_limit_for_a_while():
    """To the goal at 1 with v <= 1.2 for some time before the middle only: then it is faster."""
    goal = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)]
    solution = posed([ks.during((0.25, 0.5), v <= 1.2)], boundary=goal).solve()
    inside = (TIME >= 0.25) & (TIME <= 0.5)
    np.testing.assert_allclose(solution["v"][inside].max(), 1.2, rtol=1e-6)
    assert solution["v"].max() > 1.21
    always = posed([v <= 1.2], boundary=goal).solve()
    free = posed([], boundary=goal).solve()
    assert free.objective < solution.objective < always.objective


def test_free_duration_counts_in_shares():
    """The least time plus effort by way of a place at a third of the way."""
    trial = ks.Experiment(nodes=31, duration=(0.5, 5.0))
    problem = posed([ks.at(1 / 3, x - 0.2), ks.during((0.8, 1), (v, -1, 1))], trial)
    solution = problem.solve()
    assert solution.success
    np.testing.assert_allclose(solution["x"][10], 0.2, rtol=1e-9)


def test_refined_grids_keep_the_instants():
    solution = posed([ks.at(0.35, x - 0.05)], scheme="midpoint").solve(tolerance_grid=1e-3)
    assert solution.success and len(solution.time) != 21
    k = np.argmin(np.abs(solution.time - 0.35))
    np.testing.assert_allclose([solution.time[k], solution["x"][k]], [0.35, 0.05], rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: posed([ks.at(0.52, x)]), r"at 0.52 s, where trial 0 has no node; .* 0.5 and 0.55"),
        (lambda: posed([ks.during((1.5, 2), x)]), "from 1.5 to 2 s, where trial 0 has no node"),
        (lambda: posed([], boundary=[ks.at(0.5, x)]), "boundary condition 0 .* belongs in path"),
        (lambda: posed([x.subs(ks.t, 0.5)]), r"ks.at\(time"),
        (lambda: ks.during((0.5, 0.2), x), "ends before it begins"),
        (lambda: ks.during(0.5, x), "must be a list"),
        (lambda: ks.during((0, 1, 2), x), r"is \(begin, end\)"),
        (lambda: ks.at(np.nan, x), "the time of ks.at"),
        (lambda: posed([ks.at(0.5, "x")]), "text is not evaluated"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_lines_between_conditions_are_the_guess():
    """A line from value to value, constant beyond; the slope of it for a rate that has no values.
    Conditions that are no equations of one trajectory, or of something unknown, fix nothing."""
    by_way = [ks.at_start(2 * x + 1) - 3, ks.at(0.4, x - 3), ks.at_end(x) <= 9]
    task = posed(by_way[1:2], boundary=by_way[::2])
    given = task.unpack(task.pack())
    np.testing.assert_allclose(given["x"], np.interp(TIME, [0.4], [3.0]))
    task = posed(by_way[1:2], boundary=[ks.at_start(x) - 1, ks.at_end(x) - 5])
    given = task.unpack(task.pack())
    np.testing.assert_allclose(given["x"], np.interp(TIME, [0.0, 0.4, 1.0], [1.0, 3.0, 5.0]))
    np.testing.assert_allclose(given["v"], np.gradient(given["x"], TIME))
    np.testing.assert_allclose(task.unpack(task.pack({x: 2.0, v: 0.5}))["v"], 0.5)
    free = ks.Experiment(nodes=11, duration=(2.0, 4.0))
    given = posed([], free, boundary=[ks.at_start(x), ks.at_end(x) - 6.0]).pack()
    given = posed([], free, boundary=[ks.at_start(x), ks.at_end(x) - 6.0]).unpack(given)
    np.testing.assert_allclose(given["v"], 6.0 / np.sqrt(8.0))  # geometric mean of the durations
