"""Simulation of models with delays: closed forms, independent methods, and what is refused."""

from itertools import pairwise
from math import factorial

import numpy as np
import pytest
import sympy as sp
from numpy.polynomial import Polynomial
from scipy.integrate import solve_ivp

import kinesym as ks

t = ks.t
x, y, z, u, theta, omega = ks.dynamicsymbols("x y z u theta omega")
tau, a, b, c, n = sp.symbols("tau a b c n")

DECAY = ks.Model("late_decay", [x], [], [tau], [x.diff(t) + ks.delayed(x, tau)], values={tau: 1.0})
FOLLOWING = ks.Model("following", [x], [u], [tau], [x.diff(t) - ks.delayed(u, tau)])
PULLED = ks.Model(
    "pulled",
    [theta, omega],
    [],
    [a, b, c, tau],
    [
        theta.diff(t) - omega,
        omega.diff(t) - a * theta + ks.delayed(b * theta + c * omega, tau),
    ],
)
FIXED = ("rk4", "radau-1", "radau-3", "gauss-2", "gauss-4", "gauss-6", "lobatto-2", "lobatto-4")
ORDER = {"rk4": 4, "radau-1": 1, "radau-3": 3, "gauss-2": 2, "gauss-4": 4, "gauss-6": 6}
ORDER |= {"lobatto-2": 2, "lobatto-4": 4}


def decay(time, late=1.0):
    """x' = -x(t - late), x = 1 before 0: by the method of steps."""
    found = np.ones_like(time)
    for k in range(1, int(time[-1] / late) + 2):
        found += (-1.0) ** k * np.maximum(time - (k - 1) * late, 0.0) ** k / factorial(k)
    return found


def error(method, count, late=1.0, **more):
    time = np.linspace(0.0, 4.37, count)
    run = ks.simulate(DECAY, time, {x: 1.0}, {tau: late}, method=method, **more)
    return np.abs(run[x] - decay(time, late)).max()


@pytest.mark.parametrize("method", FIXED)
def test_methods_keep_their_order_with_delays_off_the_grid(method):
    coarse, fine = error(method, 12), error(method, 23)
    assert fine < 1.25 * coarse * 0.5 ** ORDER[method] + 1e-13


@pytest.mark.parametrize("method", ["dormand-prince", "radau-5"])
def test_adaptive_methods_keep_their_tolerances(method):
    assert error(method, 3) < 1e-9
    assert error(method, 3, late=0.23) < 1e-8
    loose = error(method, 3, late=0.23, rtol=1e-5, atol=1e-5)
    assert loose < 1e-4


@pytest.mark.parametrize("late", [0.5, 0.1, 0.03])
def test_delays_as_short_as_a_step_and_shorter(late):
    errors = [error("rk4", count, late) for count in (45, 89)]
    assert errors[1] < 1e-5 and errors[1] < 0.1 * errors[0] + 1e-12


def test_no_delay_is_as_without():
    time = np.linspace(0.0, 1.0, 41)
    run = ks.simulate(DECAY, time, {x: 1.0}, {tau: 0.0})
    np.testing.assert_allclose(run[x], np.exp(-time), atol=1e-8)


def test_results_have_delayed_values_beside_outputs():
    time = np.linspace(0.0, 3.0, 31)
    run = ks.simulate(DECAY, time, {x: 1.0})
    np.testing.assert_allclose(run["x(t - tau)"][10:], run[x][:-10], atol=1e-12)
    np.testing.assert_array_equal(run["x(t - tau)"][:10], 1.0)
    assert not run.inputs and run.keys() == ["x", "x(t - tau)"]


def by_steps(slope, late, start, end):
    """The states at the end by the method of steps: equations without delays from one multiple of
    the delay to the next, by SciPy's method of order 8. slope(x, x a delay earlier)."""
    start = np.asarray(start, dtype=float)
    before, state = lambda time: start, start
    for begin, stop in pairwise([*np.arange(0.0, end, late), end]):

        def rate(time, now, before=before):
            return slope(now, before(time - late))

        piece = solve_ivp(
            rate, (begin, stop), state, "DOP853", dense_output=True, rtol=1e-12, atol=1e-17
        )
        before, state = piece.sol, piece.y[:, -1]
    return state


def test_mackey_glass_as_by_another_method():
    late, end = 17.0, 100.0
    rate = 0.2 * ks.delayed(x, late) / (1 + ks.delayed(x, late) ** 10) - 0.1 * x
    model = ks.Model("mackey_glass", [x], [], [], [x.diff(t) - rate])
    state = by_steps(lambda x, y: 0.2 * y / (1.0 + y**10) - 0.1 * x, late, [1.2], end)
    fixed = ks.simulate(model, np.linspace(0.0, end, 2001), {x: 1.2})
    assert abs(fixed[x][-1] - state[0]) < 1e-9
    assert abs(fixed.error().states["x"][-1]) < 1e-9
    for method in ("dormand-prince", "radau-5"):
        run = ks.simulate(model, [0.0, 31.0, end], {x: 1.2}, method=method)
        assert abs(run[x][-1] - state[0]) < 1e-8


def test_a_chemostat_whose_cells_divide_late():
    """Ellermeyer 1994, SIAM Journal on Applied Mathematics 54: nutrient S and cells x with uptake
    m S/(a + S), of which those grow that are not washed out meanwhile, exp(-D tau)."""
    D, m, a, late, end = 0.4, 1.5, 0.3, 0.8, 20.0
    S = y
    eaten = m * S / (a + S) * x
    rates = {x: -D * x + np.exp(-D * late) * ks.delayed(eaten, late), S: D * (1 - S) - eaten}
    model = ks.Model("chemostat", [*rates], [], [], [s.diff(t) - e for s, e in rates.items()])

    def slope(now, before):
        taken, then = (m * s / (a + s) * cells for cells, s in (now, before))
        return [-D * now[0] + np.exp(-D * late) * then, D * (1.0 - now[1]) - taken]

    state = by_steps(slope, late, [0.1, 0.9], end)
    run = ks.simulate(model, [0.0, end], {x: 0.1, S: 0.9}, method="dormand-prince")
    np.testing.assert_allclose([run[x][-1], run[S][-1]], state, atol=1e-8)


def test_immune_response_of_marchuk():
    """Marchuk's model of an infection (Hairer, Norsett, Wanner, Solving Ordinary Differential
    Equations I, section II.17): antigen, plasma cells, antibodies, damage of the organ, which is
    little here (h6 = 10)."""
    late, end = 0.5, 10.0
    four = ks.dynamicsymbols("v s f d")

    def slope(now, before):
        V, C, F, d = now
        h = (2.0, 0.8, 1e4, 0.17, 0.5, 10.0, 0.12, 8.0)
        return [
            (h[0] - h[1] * F) * V,
            h[2] * before[2] * before[0] - h[4] * (C - 1),
            h[3] * (C - F) - h[7] * F * V,
            h[5] * V - h[6] * d,
        ]

    rates = slope(four, [ks.delayed(s, late) for s in four])
    equations = [s.diff(t) - e for s, e in zip(four, rates, strict=True)]
    model = ks.Model("marchuk", four, [], [], equations)
    start = [1e-6, 1.0, 1.0, 0.0]
    state = by_steps(slope, late, start, end)
    run = ks.simulate(
        model,
        [0.0, end],
        dict(zip(four, start, strict=True)),
        method="dormand-prince",
        rtol=1e-10,
        atol=1e-16,
    )
    np.testing.assert_allclose([run[s][-1] for s in four], state, rtol=1e-6)


def test_two_delays_of_wille_and_baker():
    """Wille, Baker, DELSOL, 1992; first example of Shampine and Thompson's DDE23: the solution is
    made of polynomials on intervals of 0.2 s."""
    late, short = ks.delayed(x, 1), ks.delayed(y, sp.Rational(1, 5))
    rates = [late, late + short, y]
    pairs = zip((x, y, z), rates, strict=True)
    model = ks.Model("wille_baker", [x, y, z], [], [], [s.diff(t) - rate for s, rate in pairs])
    one = Polynomial([1.0])
    first, second, third = [one] * 5, [one] * 5, [one] * 5
    for k in range(5, 30):
        slopes = (first[k - 5], first[k - 5] + second[k - 1], None)
        rows = []
        for row, slope in zip((first, second, third), slopes, strict=True):
            rate = rows[1] if slope is None else slope
            rows.append(rate.integ() + row[-1](0.2 if k > 5 else 0.0))
        for row, piece in zip((first, second, third), rows, strict=True):
            row.append(piece)
    run = ks.simulate(model, np.linspace(0.0, 5.0, 251), {x: 1, y: 1, z: 1})
    exact = [row[29](0.2) for row in (first, second, third)]
    np.testing.assert_allclose([run[s][-1] for s in (x, y, z)], exact, rtol=1e-9)


def test_a_delay_that_depends_on_the_state_meets_the_breaks():
    """x' = x(t) x(ln x(t)) / t from 1 s on, x = 1 before: t, exp(t/e), (e / (3 - ln t))^e from 1,
    e and e^2 on (Enright, Hayashi, ACM Transactions on Mathematical Software 23, 1997)."""
    late = ks.delayed(x, t - sp.log(x), range=(0, 10))
    model = ks.Model("enright_hayashi", [x], [], [], [x.diff(t) - x * late / t])
    fine = np.linspace(1.0, 8.0, 51)
    last = (np.e / (3.0 - np.log(fine))) ** np.e
    exact = np.where(fine <= np.e, fine, np.where(fine <= np.e**2, np.exp(fine / np.e), last))
    runs = [ks.simulate(model, time, {x: 1.0}) for time in (fine[::2], fine)]
    coarse, error = (
        np.abs(run[x] / exact[::k] - 1).max() for run, k in zip(runs, (2, 1), strict=True)
    )
    assert error < 5e-7 and error < 0.09 * coarse
    for method, most in (("gauss-6", 1e-10), ("dormand-prince", 1e-9), ("radau-5", 1e-7)):
        run = ks.simulate(model, fine, {x: 1.0}, method=method)
        assert np.abs(run[x] / exact - 1.0).max() < most


def test_on_its_limit_of_stability_a_pendulum_sways_for_ever():
    """x'' = a x - b x(t - tau) - c x'(t - tau) has the roots +-i w where b = (w^2 + a) cos(w tau),
    c = (w^2 + a) sin(w tau) / w (Stepan, Retarded Dynamical Systems, 1989)."""
    w, late, pull = 3.0, 0.12, 9.81
    gains = {b: (w**2 + pull) * np.cos(w * late), c: (w**2 + pull) * np.sin(w * late) / w}
    before = np.linspace(-0.5, 0.0, 401)
    history = {
        theta: ks.Signal(before, np.cos(w * before), "cubic"),
        omega: ks.Signal(before, -w * np.sin(w * before), "cubic"),
    }
    time = np.linspace(0.0, 20.0, 2001)
    known = {**gains, a: pull}

    def sway(late):
        start = {theta: 1.0, omega: 0.0}
        return ks.simulate(PULLED, time, start, {**known, tau: late}, history=history)[theta]

    np.testing.assert_allclose(sway(late), np.cos(w * time), atol=1e-6)
    assert np.abs(sway(0.9 * late)[-300:]).max() < 0.6
    assert np.abs(sway(1.1 * late)[-300:]).max() > 1.6


def test_members_with_delays_of_their_own_are_as_alone():
    time, late = np.linspace(0.0, 3.0, 61), np.array([0.3, 0.7, 0.3, 0.11])
    start = np.array([1.0, 2.0, -1.0, 0.5])
    runs = ks.simulate(DECAY, time, {x: start}, {tau: late})
    for k in range(4):
        alone = ks.simulate(DECAY, time, {x: start[k]}, {tau: late[k]})
        np.testing.assert_allclose(runs[x][k], alone[x], atol=1e-13)
        np.testing.assert_allclose(runs[x][k], start[k] * decay(time, late[k]), atol=1e-6)
    same = ks.simulate(DECAY, time, {x: start}, {tau: 0.7})
    np.testing.assert_allclose(same[x], start[:, None] * decay(time, 0.7), atol=1e-7)
    assert runs.error().largest < 1e-6


def test_tables_and_delays_of_members():
    line = ks.table(x, [-9.0, 9.0], [-9.0, 9.0], kind="linear")
    model = ks.Model("tabled", [x], [], [tau, a], [x.diff(t) + a * ks.delayed(line, tau)])
    time = np.linspace(0.0, 3.0, 61)
    alone = ks.simulate(model, time, {x: 1.0}, {tau: 0.7, a: 1.0})
    np.testing.assert_allclose(alone[x], decay(time, 0.7), atol=1e-6)
    runs = ks.simulate(model, time, {x: 1.0}, {tau: 0.7, a: np.array([1.0, 0.0])})
    np.testing.assert_allclose(runs[x], [alone[x], np.ones(61)], atol=1e-12)


def test_delayed_inputs_jump_where_they_should():
    time = np.linspace(0.0, 3.0, 16)
    step = ks.Signal.pieces([-9.0, 0.7], [1.0, 3.0])
    run = ks.simulate(FOLLOWING, time, {x: 0.0}, {tau: 0.45}, {u: step})
    np.testing.assert_allclose(run[x], time + 2.0 * np.maximum(time - 1.15, 0.0), atol=1e-13)
    run = ks.simulate(FOLLOWING, time, {x: 0.0}, {tau: 0.45}, {u: step}, history={u: 5.0})
    early = 4.0 * np.minimum(time, 0.45)
    expected = early + time + 2.0 * np.maximum(time - 1.15, 0.0)
    np.testing.assert_allclose(run[x], expected, atol=1e-13)


@pytest.mark.parametrize("system", [FOLLOWING, ks.hybrid.Hybrid(FOLLOWING)])
def test_pieces_of_an_input_are_its_history(system):
    time = np.linspace(0.0, 2.0, 9)
    ramp = ks.Signal.pieces([-1.0, -0.25], [1.0, 1.0], [0.0, 2.0])
    run = ks.simulate(system, time, {x: 0.0}, {tau: 0.5}, {u: ramp})
    expected = time + np.maximum(time - 0.25, 0.0) ** 2
    np.testing.assert_allclose(run[x], expected, atol=1e-13)


def test_delayed_samples_of_an_input_are_as_before_where_they_begin():
    time = np.linspace(0.0, 2.0, 9)
    samples = np.array([1.0, 2.0, 0.0, 0.0, 3.0, 1.0, 1.0, -2.0, 0.0])
    run = ks.simulate(FOLLOWING, time, {x: 0.0}, {tau: 0.1}, {u: samples})
    fine = np.linspace(0.0, 2.0, 20001)
    row = np.interp(fine - 0.1, time, samples)
    course = np.append(0.0, np.cumsum(0.5 * (row[1:] + row[:-1]))) * 1e-4
    np.testing.assert_allclose(run[x], course[::2500], atol=1e-8)
    rows = np.array([samples, 2.0 * samples])
    runs = ks.simulate(FOLLOWING, time, {x: 0.0}, {tau: np.array([0.1, 0.1])}, {u: rows})
    np.testing.assert_allclose(runs[x], [run[x], 2.0 * run[x]], atol=1e-13)


def test_algebraic_equations_with_delays():
    equations = [x.diff(t) + z, z - ks.delayed(x, tau)]
    model = ks.Model("algebraic", [x, z], [], [tau], equations)
    errors = []
    for count in (45, 89):
        time = np.linspace(0.0, 4.37, count)
        run = ks.simulate(model, time, {x: 1.0, z: 0.0}, {tau: 1.0}, method="radau-3")
        errors.append(np.abs(run[x] - decay(time)).max())
        assert run[z][0] == 1.0
    assert errors[1] < 1e-5 and errors[1] < 0.2 * errors[0]
    assert run.error().largest < 1e-4


def test_the_error_of_a_run_is_seen():
    time = np.linspace(0.0, 4.37, 30)
    run = ks.simulate(DECAY, time, {x: 1.0})
    shift = run.error().states["x"]
    np.testing.assert_allclose(shift, decay(time) - run[x], atol=0.2 * np.abs(shift).max())


def test_what_grows_ends_with_words():
    model = ks.Model("growing", [x], [], [], [x.diff(t) - ks.delayed(x, 0.5) ** 2 * x])
    with pytest.warns(UserWarning, match="between t = "):
        run = ks.simulate(model, np.linspace(0.0, 30.0, 301), {x: 1.0})
    assert 0.5 < run.time[-1] < 5.0 and np.isfinite(run[x]).all()


def test_steps_that_do_not_settle_end_with_words():
    """x' = -x(t), which steps of 100 s by fixed points do not find; those that are chosen do."""
    with pytest.warns(UserWarning, match="does not settle with this; use shorter steps"):
        run = ks.simulate(DECAY, np.linspace(0.0, 1000.0, 11), {x: 1.0}, {tau: 0.0})
    assert len(run.time) == 1
    run = ks.simulate(DECAY, [0.0, 9.0], {x: 1.0}, {tau: 0.0}, method="dormand-prince")
    assert abs(run[x][-1] - np.exp(-9.0)) < 1e-9


def test_a_delay_that_leaves_its_range_ends_the_run():
    late = ks.delayed(x, 0.5 - t, range=(0, 1))
    model = ks.Model("running_out", [x], [], [], [x.diff(t) + late])
    with pytest.warns(UserWarning, match=r"outside its range \(0, 1\)"):
        run = ks.simulate(model, np.linspace(0.0, 1.0, 21), {x: 1.0})
    assert 0.4 < run.time[-1] <= 0.5


def test_a_run_goes_on_with_its_past_only():
    time = np.linspace(0.0, 2.0, 41)
    first = ks.simulate(DECAY, time, {x: 1.0}, method="dormand-prince")
    with pytest.raises(
        ValueError, match="x has a delay, and the state to go on from does not hold"
    ):
        ks.simulate(DECAY, 2.0 + time, first.final)
    past = ks.Signal(first.time, first["x"], "cubic")
    more = ks.simulate(DECAY, 2.0 + time, first.final, history={x: past}, method="dormand-prince")
    np.testing.assert_allclose(more["x"], decay(2.0 + time), atol=5e-6)


@pytest.mark.parametrize("method", ["dormand-prince", "radau-5"])
def test_steps_are_chosen_where_times_are_fine_enough(method):
    time = np.linspace(0.0, 6.0, 61)
    run = ks.simulate(DECAY, 1e5 + time, {x: 1.0}, method=method)
    np.testing.assert_allclose(run["x"], decay(time), atol=1e-8)
    with pytest.raises(ValueError, match=r"times near 1.7e\+09 s, rounded to 2e-07 s, are too"):
        ks.simulate(DECAY, 1.7e9 + time, {x: 1.0}, method=method)
    run = ks.simulate(DECAY, 1.7e9 + time, {x: 1.0}, method="rk4")
    np.testing.assert_allclose(run["x"], decay(time), atol=1e-6)


SHORT = ks.Signal([-0.2, 0.0], [1.0, 1.0])
GRID = np.linspace(0.0, 1.0, 11)


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        (DECAY, {"parameters": {tau: -0.1}}, "x.t - tau. is -0.1 s at the start; delays are not"),
        (DECAY, {"history": {x: SHORT}}, "known from -0.2 s on, and x.t - tau. looks back to -1 s"),
        (DECAY, {"history": {"w": 1.0}}, "history: w is unknown"),
        (DECAY, {"history": {x: lambda time: 1.0}}, "history of x is .*; give a number, or"),
        (DECAY, {"method": "lobatto-6"}, "lobatto-6 has more stages than"),
        (FOLLOWING, {"inputs": {u: 1.0, "u(t - tau)": 1.0}, "parameters": {tau: 1}}, "unknown"),
        (FOLLOWING, {"inputs": {u: SHORT}, "parameters": {tau: 1}}, "input u is known from"),
    ],
)
def test_what_cannot_be_is_refused(model, more, words):
    with pytest.raises(ValueError, match=words):
        ks.simulate(model, GRID if words[:7] != "input u" else [-0.1, 0.0], {x: 1.0}, **more)


def test_what_models_cannot_do_is_refused():
    plain = ks.Model("plain", [x], [], [], [x.diff(t) + x])
    with pytest.raises(ValueError, match="plain has no delays, for which a history is"):
        ks.simulate(plain, GRID, {x: 1.0}, history={x: 1.0})
    equations = [x.diff(t) + ks.delayed(z, 0.5), z - x]
    model = ks.Model("late_algebraic", [x, z], [], [], equations)
    with pytest.raises(ValueError, match="algebraic state z, which may jump"):
        ks.simulate(model, GRID, {x: 1.0, z: 1.0}, method="radau-3")
    equations = [x.diff(t) + ks.delayed(x, 0.5), z - x]
    model = ks.Model("no_rates", [x, z], [], [], equations)
    with pytest.raises(ValueError, match=r"no explicit rates .* use method='radau-3'"):
        ks.simulate(model, GRID, {x: 1.0, z: 1.0}, method="radau-5")
    late = ks.delayed(x, x, range=(0.1, 0.5))
    model = ks.Model("out_of_range", [x], [], [], [x.diff(t) + late])
    with pytest.raises(ValueError, match=r"is 1 s at the start, outside its range \(0.1, 0.5\)"):
        ks.simulate(model, GRID, {x: 1.0})


@pytest.mark.parametrize("method", ["dormand-prince", "rk4"])
def test_a_motion_that_slides_along_a_jump_of_its_history_says_so(method):
    """x' = 5 - x(t - 2 - x^2), 4.5 before t = -1, then -0.5: x = (t - 1)/2 up to t = 1, where the
    delayed time is that of the jump, which it cannot leave."""
    model = ks.Model("m", [x], [], [], [x.diff(t) + ks.delayed(x, 2 + x**2, range=(2, 500)) - 5])
    past = ks.Signal([-600, -1, 0], [4.5, -0.5, -0.5], between="held")
    with pytest.warns(UserWarning, match=r"looks back to t = -1 s, where the history of x jumps"):
        run = ks.simulate(
            model, np.linspace(0, 3, 501), {x: -0.5}, history={x: past}, method=method
        )
    assert "step itself" not in run.message
    assert run.time[-1] == pytest.approx(1.0, abs=0.04)
    before = run.time < 0.99
    assert np.allclose(run["x"][before], (run.time[before] - 1) / 2, atol=1e-9)
