"""Profiles and intervals of combinations, bands of trajectories: against closed forms, against
models in other parameters, and of shooting against collocation."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, least_squares

import kinesym as ks

t = ks.t
x, y, v = ks.dynamicsymbols("x y v")
a, b, k, c, zeta, w = sp.symbols("a b k c zeta w")
Z = 1.959963984540054
TIME = np.linspace(0.0, 2.0, 21)


def solved(way, model, trial, unknown, guess, states, **more):
    """By collocation, or by shooting with the states at the start as unknowns."""
    if way == "collocation":
        return ks.Collocation(model, trial, unknown, scheme="radau-5", **more).solve(guess)
    start = dict.fromkeys(states)
    problem = ks.Shooting(model, trial, unknown, initial=start, substeps=20)
    return problem.solve(guess, optimizer="least-squares", tolerance=1e-12)


# -- Fieller's interval --------------------------------------------------------------------------

RATES = ks.Model("rates", [x, y], [], [a, b], [x.diff(t) - a, y.diff(t) - b])
LINE = np.random.default_rng(2).standard_normal((2, 21))


def lines(slope, way):
    """Two straight lines: slopes by linear regression."""
    rows = {x: 1.0 + 2.0 * TIME + 0.3 * LINE[0], y: slope * TIME + 0.3 * LINE[1]}
    trial = ks.Experiment(TIME, measurements=rows, std={x: 0.3, y: 0.3})
    unknown = {a: (-50, 50), b: (-50, 50)}
    return solved(way, RATES, trial, unknown, {a: 1.0, b: 1.0}, (x, y)), rows


def fieller(rows):
    """Roots of (a - r b)^2 = z^2 var (1 + r^2), and the estimate; inf where there are none."""
    off = TIME - TIME.mean()
    p, q = (off @ row / (off @ off) for row in rows.values())
    g = Z**2 * 0.3**2 / (off @ off)
    square = q**2 - g, -2.0 * p * q, p**2 - g
    return sorted(np.roots(square)), p / q, square[0] > 0.0


@pytest.fixture(scope="module", params=["collocation", "shooting"])
def way(request):
    return request.param


def test_ratio_of_slopes(way):
    fit, rows = lines(0.8, way)
    (low, high), ratio, closed = fieller(rows)
    found = fit.profile(a / b)
    assert closed and found.estimate == pytest.approx(ratio, rel=1e-7)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-5)
    assert high - ratio > 1.2 * (ratio - low)  # no parabola
    rises = (ratio - found.values) ** 2  # the rise is known at all values
    off = TIME - TIME.mean()
    slope = off @ rows[y] / (off @ off)
    rises *= slope**2 * (off @ off) / 0.3**2 / (1.0 + found.values**2)
    np.testing.assert_allclose(found.rise, rises, rtol=1e-6, atol=1e-9)
    again = fit.interval(a / b, method="profile")
    assert again.interval == (found.low, found.high)
    assert again.standard_error == fit.interval(a / b).standard_error


def test_ratio_of_what_may_be_zero(way):
    """Fieller's set is unbounded: so is the profile."""
    fit, rows = lines(0.03, way)
    assert not fieller(rows)[2]
    found = fit.profile(a / b)
    assert np.isinf([found.low, found.high]).any()
    assert any("is not limited" in note for note in found.notes)


def test_what_bounds_keep(way):
    """A combination that bounds of its parameters limit."""
    rows = {x: 2.0 * TIME + 0.3 * LINE[0], y: TIME + 0.3 * LINE[1]}
    trial = ks.Experiment(TIME, measurements=rows, std={x: 0.3, y: 0.3})
    unknown = {a: (1.9, 50), b: (0.9, 50)}
    fit = solved(way, RATES, trial, unknown, {a: 2.5, b: 1.5}, (x, y))
    found = fit.profile(a + b)
    assert found.low == pytest.approx(2.8, abs=2e-3)
    assert "a + b is not limited below: bounds keep it at 2.8" in found.notes[0]


# -- other parameters ------------------------------------------------------------------------------

PLAIN = ks.Model("plain", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
OTHER = ks.Model(
    "other", [x, v], [], [w, zeta], [x.diff(t) - v, v.diff(t) + w**2 * x + 2 * zeta * w * v]
)
RUN = ks.simulate(PLAIN, TIME, {x: 1.0, v: 0.0}, {k: 20.0, c: 0.9}, substeps=10)
SWING = ks.Experiment(TIME, measurements={x: RUN["x"] + 0.1 * LINE[0]})


@pytest.fixture(scope="module")
def plain(way):
    guess = {k: 18.0, c: 0.6}
    return solved(way, PLAIN, SWING, {k: (0.1, 90), c: (-3, 9)}, guess, (x, v))


def test_another_parameter(plain, way):
    """A damping ratio is a parameter of the same motion."""
    unknown = {w: (0.1, 30), zeta: (-3, 3)}
    other = solved(way, OTHER, SWING, unknown, {w: 4.4, zeta: 0.1}, (x, v)).profile(zeta)
    found = plain.profile(c / (2 * sp.sqrt(k)))
    assert (found.low, found.high) == pytest.approx((other.low, other.high), rel=2e-5)
    # a parameter of itself, and what needs no new name
    double, single = plain.profile(2 * k), plain.profile(k)
    assert (double.low, double.high) == pytest.approx((2 * single.low, 2 * single.high), rel=1e-4)


def test_logarithms_give_the_same():
    made = ks.Collocation(PLAIN, SWING, {k: ks.log_scale(0.1, 90), c: (-3, 9)}, scheme="radau-5")
    logs = made.solve({k: 18.0, c: 0.6})
    fit = solved("collocation", PLAIN, SWING, {k: (0.1, 90), c: (-3, 9)}, {k: 18, c: 0.6}, (x, v))
    for what in (c / (2 * sp.sqrt(k)), k * ks.at_start(x)):
        one, two = (each.profile(what) for each in (logs, fit))
        assert (one.low, one.high) == pytest.approx((two.low, two.high), rel=1e-5)


def test_states_at_the_ends(plain):
    """By the closed form, of which k, c and the start are fitted with a condition."""

    def motion(q, time):
        rate, decay = np.sqrt(q[0] - 0.25 * q[1] ** 2), np.exp(-0.5 * q[1] * time)
        phase = (q[3] + 0.5 * q[1] * q[2]) / rate * np.sin(rate * time)
        return decay * (q[2] * np.cos(rate * time) + phase)

    def squares(end):
        """With x(2) = end, which gives the speed at the start."""

        def residuals(p):
            ends = [motion([*p, speed], 2.0) for speed in (0.0, 1.0)]
            speed = (end - ends[0]) / (ends[1] - ends[0])
            return motion([*p, speed], TIME) - SWING.measurements["x"]

        found = least_squares(residuals, [20.0, 0.9, 1.0], xtol=1e-13, ftol=1e-13)
        return 2.0 * found.cost

    found = plain.profile(ks.at_end(x), level=0.9)
    best, variance = squares(found.estimate), plain.estimated_std["x"] ** 2
    ends = [
        brentq(lambda e: (squares(e) - best) / variance - found.target, *between, xtol=1e-9)
        for between in (
            (found.estimate - 0.5, found.estimate),
            (found.estimate, found.estimate + 0.5),
        )
    ]
    assert (found.low, found.high) == pytest.approx(ends, abs=2e-5)


def test_an_owner_is_told_by_a_trial():
    trials = [
        ks.Experiment(TIME, measurements=SWING.measurements, labels={"subject": name})
        for name in ("s1", "s2")
    ]
    unknown = {k: (0.1, 90), c: ks.per("subject", (-3, 9))}
    fit = ks.Collocation(PLAIN, trials, unknown, scheme="radau-5").solve({k: 18.0, c: 0.6})
    by_name, by_trial = fit.profile("c[s2]"), fit.profile(c, trial=1)
    assert (by_name.low, by_name.high) == pytest.approx((by_trial.low, by_trial.high), rel=1e-6)


@pytest.mark.parametrize(
    "what, words",
    [
        (x, "write ks.at_end"),
        (sp.Symbol("q"), "q, which is no parameter"),
        (sp.pi, "has no profile"),
    ],
)
def test_what_has_no_profile(plain, what, words):
    with pytest.raises(ValueError, match=words):
        plain.profile(what)
    with pytest.raises(ValueError, match="method"):
        plain.interval(k, method="magic")


# -- bands -----------------------------------------------------------------------------------------


def test_bands_of_lines(way):
    """Of linear regression, with known variance."""
    fit, _ = lines(0.8, way)
    off = TIME - TIME.mean()
    expected = 0.3 * np.sqrt(1.0 / 21 + off**2 / (off @ off))
    np.testing.assert_allclose(fit.bands()["x"], expected, rtol=1e-6)
    assert fit.bands(["y"]).keys() == ["y"]


def test_bands_with_process_noise():
    """With the intensity known: those of the smoother with k as it is found, and what the error of
    k adds, whose effect is that of smoothers with others (Hamilton 1986)."""
    push = ks.dynamicsymbols("push")
    model = ks.Model("pushed", [x], [push], [k], [x.diff(t) + k * x - push])
    rng, grid, row = np.random.default_rng(1), np.linspace(0.0, 20.0, 101), [1.0]
    for step in np.diff(grid):
        row.append(np.exp(-0.8 * step) * row[-1] + 0.5 * np.sqrt(step) * rng.standard_normal())
    noisy = np.array(row) + 0.05 * rng.standard_normal(101)
    trial = ks.Experiment(grid, measurements={x: noisy}, std={x: 0.05})
    fit = ks.Collocation(model, trial, {k: (0.01, 10)}, noise={push: 0.5}).solve({k: 1.0})
    best, error = fit.parameters[k], fit.parameters.table["k"].standard_error
    white = ks.LeastSquares() + ks.Integral(push**2 / 0.5**2)
    others = [
        ks.Collocation(
            model, trial, known={k: value}, objective=white, unknown_inputs={push: ks.held()}
        ).solve()
        for value in (best, best - 1e-3, best + 1e-3)
    ]
    slope = (others[2]["x"] - others[1]["x"]) / 2e-3
    expected = others[0].bands()["x"] ** 2 + (slope * error) ** 2
    np.testing.assert_allclose(fit.bands()["x"] ** 2, expected, rtol=1e-3)
    with pytest.raises(ValueError, match="with process noise or random effects use method='t'"):
        fit.profile(k)


def test_bands_of_shooting_and_of_collocation():
    """Of a nonlinear output too; by one or several segments, with a variance that is estimated."""
    model = ks.Model(
        "m", [x, v], [], [k, c], PLAIN.equations, outputs={"power": c * v**2, "a": v.diff(t)}
    )
    unknown, guess = {k: (0.1, 90), c: (-3, 9)}, {k: 18.0, c: 0.6}
    ways = {
        1: solved("shooting", model, SWING, unknown, guess, (x, v)),
        3: ks.Shooting(
            model, SWING, unknown, initial={x: None, v: None}, substeps=20, segments=3
        ).solve(guess, optimizer="ipopt"),
    }
    # the same curvature but for second derivatives of the trajectory: little noise
    best = ks.Collocation(model, SWING, unknown, scheme="radau-5").solve(guess).bands()
    for shot in ways.values():
        found = shot.bands()
        assert set(found.keys()) >= {"x", "v", "power"}
        for name in ("x", "v", "power"):
            np.testing.assert_allclose(
                found[name], best[name], rtol=0.1, atol=0.02 * best[name].max()
            )
        low, high = found.trials[0].limits("x")
        assert (high - low)[3] / found["x"][3] == pytest.approx(2 * 2.1098155778, rel=1e-6)  # 17
    np.testing.assert_allclose(ways[3].bands()["x"], ways[1].bands()["x"], rtol=1e-5)
