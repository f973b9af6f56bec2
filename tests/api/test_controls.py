"""How unknown inputs go between nodes, how fast, and costs of their size and changes, against
closed forms and linear programs."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import linprog

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
cart = ks.Model("cart", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
N = 41
TIME = np.linspace(0.0, 2.0, N)
REST = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)]


def posed(control, objective, trials=None, boundary=REST, **more):
    trial = ks.Experiment(TIME) if trials is None else trials
    given = {"objective": objective, "boundary": boundary, "unknown_inputs": {u: control}, **more}
    return ks.Collocation(cart, trial, **given)


def linear_program(cost, rows, sides, equations, values, bounds):
    found = linprog(cost, rows, sides, equations, values, bounds=bounds, method="highs")
    assert found.status == 0
    return found


def ends_of(pieces, h):
    """Rows of x and v at the end by values of the input, each held for h, from rest."""
    later = h * (pieces - np.arange(pieces))
    return np.array([h * (later - 0.5 * h), np.full(pieces, h)])


def test_held_over_several_intervals():
    """The least integral of u^2 with 5 values: that of linear least squares."""
    solution = posed(ks.held(every=0.4), ks.Integral(u**2)).solve()
    A = ends_of(5, 0.4)
    values = np.linalg.pinv(A) @ [1.0, 0.0]
    np.testing.assert_allclose(solution["u"][:-1], np.repeat(values, 8), atol=1e-7)
    np.testing.assert_allclose(solution.objective, 0.4 * values @ values, rtol=1e-8)
    assert np.isnan(solution["u"][-1])


def test_bounds_of_pieces_are_the_narrowest_within():
    high = np.where(np.arange(N) == 9, 0.5, 5.0)  # in the second of five
    solution = posed(ks.held(-5, high, every=0.4), ks.Integral(u**2)).solve()
    np.testing.assert_allclose(solution["u"][8:16], 0.5, rtol=1e-6)
    assert solution["u"][0] > 1.0


def test_pieces_stay_on_refined_grids():
    problem = posed(ks.held(every=0.5), ks.Integral(u**2 + x**2), scheme="midpoint")
    solution = problem.solve(tolerance_grid=1e-4)
    assert solution.success and len(solution.time) != N
    piece = np.floor(solution.time[:-1] / 0.5 + 1e-9)
    for k in range(4):
        assert np.ptp(solution["u"][:-1][piece == k]) < 1e-8


def test_pieces_in_shares_of_an_unknown_duration():
    """Bang-bang with one change in the middle is the fastest: 2 sqrt(1/1)."""
    trial = ks.Experiment(nodes=21, duration=(0.5, 9.0))
    solution = posed(ks.held(-1, 1, every=0.5), ks.Terminal(ks.t), trial).solve()
    np.testing.assert_allclose(solution.time[-1], 2.0, rtol=1e-7)


@pytest.mark.parametrize("kind", [ks.held, ks.linear, ks.continuous])
def test_rates_are_bounded(kind):
    """As far as possible in 2 s, back at rest with no force: u a triangle of slopes +r, -r, +r;
    held inputs change by r h from value to value."""
    r, scheme = 3.0, "radau-3"
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(v)]
    ends += [ks.at_start(u)] if kind is not ks.held else []
    control = kind(-10, 10, max_rate=r)
    solution = posed(control, ks.Terminal(-x), boundary=ends, scheme=scheme).solve()
    assert solution.success
    values = solution["u"][: N - (kind is ks.held)]
    assert np.abs(np.diff(values)).max() < r * TIME[1] * (1 + 1e-6)
    n = len(values)
    if kind is ks.continuous:  # +r until (2 - t)^2 = 2^2/2
        exact = r * 8.0 / 6.0 * (1.0 - np.sqrt(0.5))
        np.testing.assert_allclose(solution["x"][-1], exact, rtol=5e-4)
        return
    h = TIME[1]
    if kind is ks.held:
        A = ends_of(n, h)
    else:  # what lines with one node at 1 do to x and v
        first, last = np.zeros((2, 2, n))
        later = h * (N - 1 - np.arange(N - 1))
        first[:, :-1] = [h * (0.5 * later - h / 6.0), np.full(N - 1, 0.5 * h)]
        last[:, 1:] = [h * (0.5 * later - h / 3.0), np.full(N - 1, 0.5 * h)]
        A = first + last
    steps = np.eye(n)[1:] - np.eye(n)[:-1]
    still = [A[1]] + ([np.eye(n)[0]] if kind is ks.linear else [])
    rows, sides = np.vstack([steps, -steps]), np.full(2 * n - 2, r * h)
    best = linear_program(-A[0], rows, sides, np.array(still), np.zeros(len(still)), (-10, 10))
    np.testing.assert_allclose(solution["x"][-1], -best.fun, rtol=1e-6)


def test_rates_from_piece_to_piece():
    """A held value may change by the rate times the time it was held for."""
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(v)]
    control = ks.held(-10, 10, every=0.4, max_rate=2.0)
    solution = posed(control, ks.Terminal(-x), boundary=ends).solve()
    values = solution["u"][:-1:8]
    np.testing.assert_allclose(np.diff(values), -0.8, rtol=1e-5)
    assert np.ptp(solution["u"][:8]) < 1e-8


@pytest.mark.parametrize("scheme", ["radau-3", "midpoint", "hermite-simpson"])
def test_least_fuel(scheme):
    """The least integral of |u| with |u| <= 4/3 from rest to rest: full thrust for 0.5 s, none,
    full brake (Bryson, Ho 1975, Applied Optimal Control, section 3.9)."""
    solution = posed((-4 / 3, 4 / 3), ks.l1(u), scheme=scheme).solve()
    rtol = 1e-6 if scheme != "hermite-simpson" else 2e-3  # whose inputs do not jump
    np.testing.assert_allclose(solution.objective, 4.0 / 3.0, rtol=rtol)
    np.testing.assert_allclose(solution["u"][12:29], 0.0, atol=1e-4)
    assert not solution.grid_error().matters


def test_least_fuel_of_held_inputs():
    """Held, with changes off the nodes: a linear program."""
    solution = posed(ks.held(-4, 4), ks.l1(u)).solve()
    A, n = ends_of(N - 1, TIME[1]), N - 1
    best = linear_program(
        np.full(2 * n, TIME[1]), None, None, np.hstack([A, -A]), [1.0, 0.0], (0.0, 4.0)
    )
    np.testing.assert_allclose(solution.objective, best.fun, rtol=1e-6)
    parts = solution["u_positive"], solution["u_negative"]
    np.testing.assert_allclose(parts[0][1:-1] * parts[1][1:-1], 0.0, atol=1e-5)


def test_absolute_values_of_any_expression():
    """The median of a course is the number whose mean distance from it is least."""
    level = sp.Symbol("level")
    drift = ks.Model("drift", [x], [], [level], [x.diff(ks.t) - 3 * ks.t**2])
    start = {"boundary": [ks.at_start(x)], "unknown": {level: (-10, 10)}}
    solution = ks.Collocation(drift, ks.Experiment(TIME), objective=ks.l1(x - level), **start)
    solution = solution.solve()
    np.testing.assert_allclose(solution.parameters["level"], 1.0, atol=6e-2)


def test_ends_of_held_inputs_are_their_last_values():
    """Conditions and costs there act on the motion: quadratic programs of the 40 values."""
    n, h = N - 1, TIME[1]
    last, first = np.eye(n)[-1], np.eye(n)[0]
    for more, row, cost in (
        (ks.at_end(u), last, 0.0),
        (ks.periodic(u), first - last, 0.0),
        (None, None, ks.Terminal(u**2 - 4 * u)),
    ):
        A = np.vstack([ends_of(n, h), *([] if row is None else [row])])
        H, g = 2 * h * np.eye(n), np.zeros(n)
        if row is None:
            H, g = H + 2 * np.outer(last, last), -4 * last
        kkt = np.block([[H, A.T], [A, np.zeros((len(A), len(A)))]])
        best = np.linalg.solve(kkt, [*-g, 1, 0, *[0] * (len(A) - 2)])[:n]
        ends = [*REST, *([] if more is None else [more])]
        solution = posed(ks.held(), ks.Integral(u**2) + cost, boundary=ends).solve()
        np.testing.assert_allclose(solution["u"], [*best, best[-1]], atol=1e-6)


@pytest.mark.parametrize("kind", [ks.held, ks.linear])
@pytest.mark.parametrize("free", [False, True])
def test_changes_from_phase_to_phase(kind, free):
    """They are limited and cost as within a trial: in three phases the same as in one."""
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(v)]
    given = kind(-10, 10, max_rate=3.0), -ks.Terminal(x) + 0.1 * ks.total_variation(u)
    one = posed(*given, boundary=ends).solve()
    cuts = [(0, 10), (10, 11), (11, 40)]
    parts = [TIME[a : b + 1] for a, b in cuts]
    steps = [
        ks.Experiment(nodes=len(p), duration=(p[-1] - p[0],) * 2) if free else ks.Experiment(p)
        for p in parts
    ]
    several = posed(*given, ks.Phases(steps, start=ends[:2], end=ends[2:]), ()).solve()
    assert several.objective == pytest.approx(one.objective, rel=1e-6)
    values = np.concatenate([trial["u"][:-1] for trial in several.trials])
    np.testing.assert_allclose(values, one["u"][:-1], atol=1e-4)


@pytest.mark.parametrize(
    ("scheme", "told"), [("gauss-2", True), ("gauss-4", True), ("radau-5", False)]
)
def test_a_continuous_input_that_oscillates_is_told(scheme, told):
    """Gauss schemes see the input at their stages only: ends that are zero make it go up and down
    in all intervals, where it should be 6 (1 - t)/4 but for the ends."""
    rest = [*REST, ks.at_start(u), ks.at_end(u)]
    problem = posed(ks.continuous(), ks.Integral(u**2), boundary=rest, scheme=scheme)
    solution = problem.solve()
    error = solution.grid_error()
    assert (np.abs(solution["u"] - 1.5 * (1 - TIME))[3:-3].max() > 1.0) == told
    assert error.oscillating == ["u"] * told and ("radau-5" in error.remedy) == told
    assert any("use scheme='radau-5', as u goes up" in note for note in solution.notes) == told
    free = posed(ks.continuous(), ks.Integral(u**2), scheme=scheme).solve()
    assert not free.grid_error().oscillating


@pytest.mark.parametrize("kind", [ks.held, ks.linear, ks.continuous])
def test_total_variation(kind):
    """From rest to rest in 2 s over 1 m a change at time s moves by s (2 - s)/2 times its size: the
    least is one of 2 at s = 1, or spread over the interval beside it."""
    solution = posed(kind(-4, 4), ks.total_variation(u)).solve()
    assert solution.success
    least = 1.0 / (0.5 - TIME[1] ** 2 / 6.0) if kind is ks.linear else 2.0
    rtol = 1e-6 if kind is not ks.continuous else 2e-3
    np.testing.assert_allclose(solution.objective, least, rtol=rtol)
    changes = np.abs(np.diff(solution["u"][: N - (kind is ks.held)])).sum()
    np.testing.assert_allclose(changes, least, rtol=max(rtol, 1e-5))


def test_total_variation_of_pieces_with_bounded_rates():
    """All of them together, and with other costs: a linear program."""
    control = ks.held(-3, 3, every=0.4, max_rate=4.0)
    solution = posed(control, 0.3 * ks.total_variation(u) + ks.l1(u)).solve()
    A, steps = ends_of(5, 0.4), np.eye(5)[1:] - np.eye(5)[:-1]
    one, none, four = np.eye(5), np.zeros((5, 4)), np.eye(4)
    rows = np.block(  # unknowns: u, |u|, |changes|
        [[one, -one, none], [-one, -one, none], [steps, none.T, -four], [-steps, none.T, -four]]
    )
    cost = np.concatenate([np.zeros(5), np.full(5, 0.4), np.full(4, 0.3)])
    sides = [(-3, 3)] * 5 + [(0, None)] * 5 + [(0, 1.6)] * 4
    equal = np.hstack([A, np.zeros((2, 9))])
    best = linear_program(cost, rows, np.zeros(18), equal, [1.0, 0.0], sides)
    np.testing.assert_allclose(solution.objective, best.fun, rtol=1e-6)


def test_total_variation_of_states():
    """The speed rises and falls: twice its largest value, least if it is that for long."""
    solution = posed((-4, 4), ks.total_variation(v)).solve()
    np.testing.assert_allclose(solution.objective, 2.0 * (4.0 - np.sqrt(12.0)), rtol=1e-3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ks.held(every=0.0), "every of ks.held must be positive"),
        (lambda: ks.linear(-1, 1, max_rate=-2), "max_rate of ks.linear must be positive"),
        (lambda: ks.continuous(max_rate="fast"), "max_rate of ks.continuous must be positive"),
        (lambda: posed(ks.held(every=0.33), ks.l1(u)), "held for 0.33 s each, .* no node at 0.33"),
        (lambda: posed(None, ks.total_variation(u)), "of an unknown input by its kind"),
        (lambda: posed(None, ks.Terminal(x) - ks.l1(u)), "has the factor -1, so that more"),
        (lambda: posed(None, ks.Integral(ks.l1(u).integrand ** 2)), "must be a summand"),
        (lambda: posed(None, ks.Terminal(ks.l1(u).integrand)), "belong in no Terminal"),
        (lambda: posed(None, ks.l1("u")), "text is not evaluated"),
        (
            lambda: posed(ks.continuous(-1, 1), ks.l1(u), bounds={u: (0, 1)}),
            "bounds of u are given in bounds and in unknown_inputs",
        ),
        (
            lambda: ks.Shooting(
                cart,
                ks.Experiment(TIME, measurements={x: TIME}),
                unknown_inputs={u: ks.held(max_rate=1.0)},
                initial={x: 0.0, v: 0.0},
            ),
            "shooting bounds no rates",
        ),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
