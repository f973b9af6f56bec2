"""Forecasts against closed forms of linear models, fits of noisy records, and each other."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, v, z, f, w = ks.dynamicsymbols("x v z f w")
a, b, k, c = sp.symbols("a b k c")
TIME = np.linspace(0.0, 2.0, 41)
#: A line x = x(0) + a t, and one z(0) + b t beside it, which only z shows.
LINES = ks.Model("lines", [x, z], [], [a, b], [x.diff(t) - a, z.diff(t) - b])
SPRING = ks.Model("spring", [x, v], [f], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - f])
PUSH = ks.Signal(np.linspace(0.0, 8.0, 401), 3.0 * np.sin(5.0 * np.linspace(0.0, 8.0, 401)))
ASSUMED = {"k": 40.0, "c": 0.8, "x": 0.5, "v": 0.0}


def lines(kind, time=TIME, std=0.1, **more):
    rows = {x: np.zeros(len(time)), z: np.zeros(len(time))}
    trial = ks.Experiment(time, measurements=rows, std={x: std, z: 2.0 * std} if std else {})
    unknown = {a: None, b: None}
    if kind == "collocation":
        return ks.Collocation(LINES, trial, unknown=unknown, **more)
    return ks.Shooting(LINES, trial, unknown=unknown, initial={x: None, z: None}, **more)


def spring(trial=None, **more):
    time = np.linspace(0.0, 4.0, 201)
    if trial is None:
        trial = ks.Experiment(time, {f: PUSH}, {x: np.zeros(201)}, {x: 0.02})
    return ks.Collocation(SPRING, trial, unknown={k: (1.0, 99.0), c: (0.0, 9.0)}, **more)


def slope(time, std, correlation=0.0):
    """Standard error of the slope of a line through samples with exponential correlation."""
    rows = np.array([np.ones_like(time), time])
    pulls = np.linalg.solve(rows @ rows.T, rows)
    apart = np.abs(time[:, None] - time)
    whole = np.exp(-apart / correlation) if correlation else np.eye(len(time))
    return std * np.sqrt(pulls[1] @ whole @ pulls[1])


GUESS = {a: 0.3, b: -0.2, x: 1.0, z: 0.0}


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_lines_are_known_as_regression_says(kind):
    """Standard errors, those of other experiments, of combinations, and bands: closed forms."""
    asked = {"seconds": [1.0, 2.0], "rate": [10, 40], "std": [0.2], "trials": [3]}
    found = ks.forecast(lines(kind), GUESS, **asked, without=[z])
    errors = found.parameters.table
    assert dict(found.parameters) == {"a": 0.3, "b": -0.2}
    assert errors["a"].standard_error == pytest.approx(slope(TIME, 0.1), rel=1e-6)
    assert errors["b"].standard_error == pytest.approx(slope(TIME, 0.2), rel=1e-6)
    half = 1.959963984540054 * slope(TIME, 0.1)
    assert errors["a"].interval == pytest.approx((0.3 - half, 0.3 + half), rel=1e-6)
    rows = {str(varied): each.standard_errors() for varied, each in found.variants.items()}
    every = found.to_pandas()
    assert list(every.index) == ["as it is", *rows]
    fast, slow = np.linspace(0.0, 2.0, 81), np.linspace(0.0, 2.0, 21)
    expected = {
        "1 s": slope(TIME[:21], 0.1),
        "2 s": slope(TIME, 0.1),
        "10 Hz": slope(slow, 0.1),
        "40 Hz": slope(fast, 0.1),
        "std 0.2": slope(TIME, 0.2),
        "3 trials": slope(TIME, 0.1) / np.sqrt(3.0),
        "without z": slope(TIME, 0.1),
    }
    assert {name: row["a"] for name, row in rows.items()} == pytest.approx(expected, rel=1e-6)
    assert np.isnan(rows["without z"]["b"])
    words = str(found)
    assert "without z b cannot be known" in words
    assert "3 trials give b +- 0.03" in words and "doubtful" not in words
    both = found.interval(a + b)
    assert both.standard_error == pytest.approx(np.hypot(slope(TIME, 0.1), slope(TIME, 0.2)))
    middle = 0.1 / np.sqrt(41.0)
    assert found.bands([x])["x"][20] == pytest.approx(middle, rel=1e-6)
    assert found.trials[0]["x"][-1] == pytest.approx(1.6) and not found.doubts


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_correlated_noise_by_the_sandwich(kind):
    found = ks.forecast(lines(kind), GUESS, correlation={"x": 0.1})
    errors = found.standard_errors()
    assert errors["a"] == pytest.approx(slope(TIME, 0.1, 0.1), rel=1e-6)
    assert errors["b"] == pytest.approx(slope(TIME, 0.2), rel=1e-6)
    if kind == "shooting":  # of which starts are unknowns, too
        rows = np.array([np.ones_like(TIME), TIME])
        pulls = 0.1 * np.linalg.solve(rows @ rows.T, rows)
        whole = pulls @ np.exp(-np.abs(TIME[:, None] - TIME) / 0.1) @ pulls.T
        assert errors["x(0)"] == pytest.approx(np.sqrt(whole[0, 0]), rel=1e-6)
        white = np.sqrt(np.linalg.inv(rows @ rows.T)[0, 0])
        assert errors["z(0)"] == pytest.approx(0.2 * white, rel=1e-6)
    with pytest.raises(ValueError, match="a band is known for white noise; leave correlation out"):
        found.bands()


def test_forecast_is_the_fit_of_a_record_without_noise():
    """By collocation and by shooting, also of a longer and a faster experiment; the values of the
    record do not matter."""
    found = ks.forecast(spring(), ASSUMED, seconds=[2.0, 8.0], rate=[25.0, 100.0])
    for name, seconds, rate in (
        ("as it is", 4.0, 50.0),
        ("2 s", 2.0, 50.0),
        ("8 s", 8.0, 50.0),
        ("100 Hz", 4.0, 100.0),
    ):
        time = np.arange(int(seconds * rate) + 1) / rate
        run = ks.simulate(SPRING, time, {x: 0.5, v: 0.0}, {k: 40.0, c: 0.8}, {f: PUSH})
        trial = ks.Experiment(time, {f: PUSH}, {x: run["x"]}, {x: 0.02})
        fit = spring(trial).solve(ASSUMED)
        errors = found.to_pandas().loc[name]
        assert dict(errors) == pytest.approx(fit.standard_errors(), rel=5e-3)
    by_shooting = ks.Shooting(
        SPRING, spring().trials[0], unknown={k: None, c: None}, initial={x: None, v: None}
    )
    errors = ks.forecast(by_shooting, ASSUMED).standard_errors()
    assert errors["k"] == pytest.approx(found.standard_errors()["k"], rel=5e-3)
    slower = found.to_pandas().loc["25 Hz", "k"] / errors["k"]
    assert slower == pytest.approx(np.sqrt(2.0), rel=0.02)


def test_segments_tell_as_much_as_one():
    """States between segments follow from starts and parameters: a closed form, in the forecast, of
    the end of a fit, and from an exact course of a plant that no simulation follows."""
    time, noise = np.linspace(0.0, 3.0, 31), np.random.default_rng(1).standard_normal(31)
    fine = np.linspace(0.0, 3.0, 121)
    model = ks.Model("decay", [x], [], [k], [x.diff(t) + k * x])

    def problem(rate, segments):
        data = 2.0 * np.exp(-rate * time) + 0.08 * noise
        trial = ks.Experiment(time, measurements={x: data}, std={x: 0.08})
        about = {"initial": {x: None}, "segments": segments, "substeps": 4}
        return ks.Shooting(model, trial, {k: (-30.0, 20.0)}, **about)

    def covariance(rate, start):
        rows = np.array([-start * time * np.exp(-rate * time), np.exp(-rate * time)])
        return 0.08**2 * np.linalg.inv(rows @ rows.T)

    right = np.sqrt(covariance(1.3, 2.0)[0, 0])
    for guess in ({k: 1.3, x: 2.0}, {k: 1.3, x: 2.0 * np.exp(-1.3 * fine)}):
        found = ks.forecast(problem(1.3, 5), guess, trials=[4])
        assert found.standard_errors()["k"] == pytest.approx(right, rel=1e-5) and not found.notes
        [four] = found.variants.values()
        assert four.standard_errors()["k"] == pytest.approx(right / 2.0, rel=1e-5)
    fit = problem(1.3, 5).solve({k: 1.0}, optimizer="ipopt")
    rate, start = fit.parameters["k"], fit.initial["x"]
    by = np.exp(-3.0 * rate) * np.array([-3.0 * start, 1.0])
    end = fit.interval(ks.at_end(x))
    assert end.standard_error == pytest.approx(np.sqrt(by @ covariance(rate, start) @ by), rel=1e-5)
    growing = ks.forecast(problem(-5.0, 10), {k: -5.0, x: 1e-6 * np.exp(5.0 * fine)})
    right = np.sqrt(covariance(-5.0, 1e-6)[0, 0])
    assert growing.standard_errors()["k"] == pytest.approx(right, rel=0.02)


def test_motion_that_a_simulation_leaves():
    """Of a plant that falls away its states are given: no simulation reaches the end. And an
    unknown input, as it is assumed."""
    time = np.linspace(0.0, 10.0, 501)
    fall = ks.Model("fall", [x, v], [f], [k], [x.diff(t) - v, v.diff(t) - k * sp.sin(x) - f])
    course = 0.2 * np.sin(time)
    push = -course - 9.0 * np.sin(course)
    trial = ks.Experiment(time, {f: push}, {x: np.zeros(501)}, {x: 0.01})
    problem = ks.Collocation(fall, trial, unknown={k: None})
    found = ks.forecast(problem, {k: 9.0, x: course, v: 0.2 * np.cos(time)})
    assert np.abs(found.trials[0]["x"] - course).max() < 2e-4
    rows = {x: course, f: push}
    trial = ks.Experiment(time, measurements=rows, std={x: 0.01, f: 0.3})
    free = ks.Collocation(fall, trial, unknown={k: None}, unknown_inputs={f: None})
    guess = {k: 9.0, x: course, v: 0.2 * np.cos(time), f: push}
    by_fit = free.solve(guess).standard_errors()["k"]
    assert ks.forecast(free, guess).standard_errors()["k"] == pytest.approx(by_fit, rel=1e-2)
    assert ks.forecast(free, free.solve(guess)).standard_errors()["k"] == pytest.approx(by_fit)


@pytest.mark.parametrize(("std", "doubtful"), [(0.01, False), (0.5, True)])
def test_doubt_where_the_misfit_is_no_parabola(std, doubtful):
    """Of a decay hidden in noise: estimates scatter to large rates (1.7 instead of 0.89)."""
    time = np.linspace(0.0, 3.0, 31)
    decay = ks.Model("decay", [x], [], [k], [x.diff(t) + k * x])
    trial = ks.Experiment(time, measurements={x: np.zeros(31)}, std={x: std})
    by = {
        "collocation": ks.Collocation(
            decay, trial, unknown={k: (0.0, 50.0)}, boundary=[ks.at_start(x) - 1]
        ),
        "shooting": ks.Shooting(decay, trial, unknown={k: (0.0, 50.0)}, initial={x: 1.0}),
    }
    for problem in by.values():
        found = ks.forecast(problem, {k: 2.0})
        assert bool(found.doubts) is doubtful
        assert ("of k is doubtful: 2 standard errors away" in str(found)) is doubtful


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_a_bound_within_two_standard_errors_is_told(kind):
    """The share of estimates that it stops, of a line: that of a normal distribution."""
    time, error = np.linspace(0.0, 2.0, 41), slope(TIME, 0.1)
    trial = ks.Experiment(time, measurements={x: time, z: time}, std={x: 0.1, z: 0.2})
    unknown = {a: (0.0, 9.0), b: None}
    problem = (
        ks.Collocation(LINES, trial, unknown)
        if kind == "collocation"
        else ks.Shooting(LINES, trial, unknown, initial={x: None, z: None})
    )
    for away, said in (
        (0.0, "0 standard errors away: about 50 %"),
        (1.0, "1 standard error away: about 16 %"),
    ):
        [words] = ks.forecast(problem, {**GUESS, a: away * error}).doubts
        assert words == f"the bound 0 of a is {said} of estimates will be at it"
    assert not ks.forecast(problem, {**GUESS, a: 2.1 * error}).doubts
    [words] = ks.forecast(problem, {**GUESS, a: 2.1 * error}, correlation=0.1).doubts
    assert f"{2.1 * error / slope(TIME, 0.1, 0.1):.2g} standard errors away" in words


def test_both_bounds_that_are_near_are_told():
    trial = ks.Experiment(TIME, measurements={x: TIME, z: TIME}, std={x: 0.1, z: 0.2})
    error = slope(TIME, 0.1)
    problem = ks.Collocation(LINES, trial, {a: (0.0, 2.0 * error), b: None})
    for words, bound in zip(
        ks.forecast(problem, {**GUESS, a: error}).doubts, (0.0, 2.0 * error), strict=True
    ):
        assert words.startswith(f"the bound {bound:g} of a is 1 standard error away: about 16 %")


def test_other_terms_of_the_objective_draw_the_fit_away():
    """By collocation and by shooting alike: what a fit of the record without noise gives."""
    time, model = np.linspace(0.0, 2.0, 41), ks.Model("decay", [x], [], [k], [x.diff(t) + k * x])
    trial = ks.Experiment(time, measurements={x: np.zeros(41)}, std={x: 0.05})
    about = (model, trial, {k: None})
    squares = ks.LeastSquares() + ks.Terminal(400 * x**2)
    start = [ks.at_start(x) - 1]
    one = ks.forecast(ks.Collocation(*about, objective=squares, boundary=start), {k: 1.3})
    other = ks.forecast(ks.Shooting(*about, initial={x: 1.0}, objective=squares), {k: 1.3})
    assert other.parameters["k"] == pytest.approx(one.parameters["k"], rel=1e-3) != 1.3
    assert other.standard_errors() == pytest.approx(one.standard_errors(), rel=0.02)


def test_process_noise_tells_as_much_as_it_can():
    """The information of a Gaussian record, of which the covariance alone depends on rate and
    intensity: 1/2 tr(S^-1 S_i S^-1 S_j)."""
    time, std = np.linspace(0.0, 20.0, 201), 0.05
    model = ks.Model("ou", [x], [w], [k], [x.diff(t) + k * x - w])
    trial = ks.Experiment(time, measurements={x: np.zeros(201)}, std={x: std})
    about = {"noise": {w: (0.01, 10.0)}, "boundary": [ks.at_start(x)]}
    problem = ks.Collocation(model, trial, unknown={k: (0.01, 50.0)}, **about)
    found = ks.forecast(problem, {k: 1.0, "sigma_w": 0.5})

    def covariance(rate, intensity):
        share = np.exp(-0.1 * rate)
        rows = np.zeros((201, 200))
        for n in range(200):
            rows[n + 1] = share * rows[n]
            rows[n + 1, n] = (1.0 - share) / rate * intensity / np.sqrt(0.1)
        return rows @ rows.T + std**2 * np.eye(201)

    steps = ((1e-5, 0.0), (0.0, 1e-5))
    sides = [covariance(1.0 + a, 0.5 + b) - covariance(1.0 - a, 0.5 - b) for a, b in steps]
    parts = [np.linalg.solve(covariance(1.0, 0.5), side / 2e-5) for side in sides]
    information = [[0.5 * np.trace(one @ other) for one in parts] for other in parts]
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert [*found.standard_errors().values()] == pytest.approx(errors, rel=0.05)
    assert found.bands()["x"][0] == 0.0 and not found.doubts


@pytest.mark.parametrize("scheme", ["radau-5", "gauss-6"])
def test_the_motion_of_repeats_and_of_courses_on_coarse_grids(scheme):
    """Repeats have the assumed motion, and the exact course is it, whatever is between its nodes;
    also of an experiment that ends earlier."""
    time = np.linspace(0.0, 3.0, 11)
    trial = ks.Experiment(time, measurements={x: np.zeros(11)}, std={x: 0.08})
    model = ks.Model("free", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
    problem = ks.Collocation(model, trial, {k: (0, 20), c: (0, 3)}, scheme=scheme)
    rates = np.roots([1.0, 0.3, 9.0])
    parts = np.linalg.solve([np.ones(2), rates], [1.0, 0.0])
    course = [(parts * rates**n * np.exp(np.outer(time, rates))).sum(axis=1).real for n in (0, 1)]
    begun, whole = {k: 9.0, c: 0.3, x: 1.0, v: 0.0}, {k: 9.0, c: 0.3, x: course[0], v: course[1]}
    asked = {"seconds": [1.5], "trials": [2]}
    found, other = (ks.forecast(problem, guess, **asked) for guess in (begun, whole))
    rows = found.to_pandas()
    assert other.to_pandas().to_numpy() == pytest.approx(rows.to_numpy(), rel=2e-3)
    assert rows.loc["2 trials"].to_numpy() == pytest.approx(rows.iloc[0] / np.sqrt(2.0), rel=1e-9)
    for each in (found, other, ks.forecast(problem, begun, trials=2)):
        assert each.trials[-1]["x"][0] == pytest.approx(1.0, abs=1e-3) and not each.notes


def test_a_motion_far_from_the_guess_is_told():
    """Of a plant that falls over, whose simulation does not reach the end."""
    time = np.linspace(0.0, 10.0, 101)
    fall = ks.Model("fall", [x], [], [k], [x.diff(t) - k * x - x**3])
    trial = ks.Experiment(time, measurements={x: np.zeros(101)}, std={x: 0.01})
    found = ks.forecast(ks.Collocation(fall, trial, unknown={k: None}), {k: 2.0, x: 0.1})
    assert "is close to the guess in trial 0: assumed is one" in str(found)


def test_a_motion_with_multipliers_is_the_assumed_one():
    """A pendulum in Cartesian coordinates is known as well as by its angle: the multiplier that
    keeps it on its circle is zero, and does not hold the rest."""
    y, vx, vy, force, angle, rate = ks.dynamicsymbols("y vx vy force angle rate")
    time, g = np.linspace(0.0, 2.0, 41), sp.Symbol("g")
    about = [x.diff(t) - vx, y.diff(t) - vy, vx.diff(t) + force * x, vy.diff(t) + force * y + g]
    plane = ks.Model("plane", [x, y, vx, vy, force], [], [g], [*about, x**2 + y**2 - 1])
    rates = [angle.diff(t) - rate, rate.diff(t) + g * sp.sin(angle)]
    polar = ks.Model("polar", [angle, rate], [], [g], rates, outputs={"x": sp.sin(angle)})
    trial = ks.Experiment(time, measurements={"x": np.zeros(41)}, std={"x": 0.01})
    starts = {x: np.sin(0.5), y: -np.cos(0.5), vx: 0.0, vy: 0.0, force: 9.8}
    found = ks.forecast(ks.Collocation(plane, trial, {g: (1, 20)}), {g: 9.81, **starts})
    assert found.trials[0]["x"][0] == pytest.approx(np.sin(0.5), rel=0.01)
    other = ks.Collocation(polar, trial, {g: (1, 20)})
    by_angle = ks.forecast(other, {g: 9.81, angle: 0.5, rate: 0.0})
    assert found.standard_errors()["g"] == pytest.approx(by_angle.standard_errors()["g"], rel=0.01)


def test_repeats_have_starts_and_owners_of_their_own():
    """Two subjects with a stiffness each: three repeats are known as the root of three better."""
    time = np.linspace(0.0, 4.0, 201)
    trials = [
        ks.Experiment(time, {f: PUSH}, {x: np.zeros(201)}, {x: 0.02}, labels={"subject": name})
        for name in "AB"
    ]
    problem = ks.Collocation(SPRING, trials, unknown={k: ks.per("subject"), c: (0.0, 9.0)})
    found = ks.forecast(problem, {**ASSUMED, "k": {"A": 30.0, "B": 50.0}}, trials=[3])
    [three] = found.variants.values()
    ratio = np.array([*three.standard_errors().values()]) / [*found.standard_errors().values()]
    assert list(three) == ["c", "k[A]", "k[B]"] and ratio == pytest.approx(3.0**-0.5, rel=1e-3)
    assert three["k[B]"] == 50.0


@pytest.mark.parametrize("kind", ["collocation", "shooting"])
def test_priors_are_as_exact_as_they_say_wherever_the_guess_is(kind):
    """A line whose slope has a prior, with another slope assumed: the sum of both informations."""
    problem = lines(kind)
    about = LINES, problem.trials[0]
    unknown = {a: ks.normal(5.0, 0.02), b: None}
    if kind == "collocation":
        problem = ks.Collocation(*about, unknown=unknown)
    else:
        problem = ks.Shooting(*about, unknown=unknown, initial={x: None, z: None})
    found = ks.forecast(problem, GUESS)
    expected = (slope(TIME, 0.1) ** -2 + 0.02**-2) ** -0.5
    assert found.parameters.table["a"].standard_error == pytest.approx(expected, rel=1e-6)
    assert not found.doubts


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"without": ["y"]}, "a channel that is left out is one of x, z, got"),
        ({"without": [("x", "z")]}, "without x, z nothing is measured"),
        ({"seconds": [-1.0]}, "seconds must be positive"),
        ({"seconds": "long"}, "seconds must be"),
        ({"rate": 0.0}, "rate must be positive"),
        ({"rate": 0.1}, "none follows the first in 2 s"),
        ({"trials": [0]}, "trials must be"),
        ({"std": {"y": 1.0}}, "a channel of std is one of x, z"),
        ({"std": -1.0}, "std must be positive"),
        ({"correlation": -1.0}, "correlation must be positive"),
    ],
)
def test_what_is_asked_wrongly_is_told(asked, words):
    with pytest.raises(ValueError, match=words):
        ks.forecast(lines("shooting"), GUESS, **asked)


def test_what_is_not_told_is_asked_for():
    trial, start = ks.Experiment(TIME), {x: 0.0, z: 0.0}
    with pytest.raises(ValueError, match="std of x is not given in trial 0: a forecast needs"):
        ks.forecast(lines("shooting", std=None), GUESS)
    assert ks.forecast(lines("shooting", std=None), GUESS, std=0.1).standard_errors()["a"] > 0.0
    for kind in ("collocation", "shooting"):
        with pytest.raises(ValueError, match=r"nothing tells what is assumed of parameter b; give"):
            ks.forecast(lines(kind), {a: 0.3, x: 1.0, z: 0.0})
    with pytest.raises(ValueError, match="nothing tells the start of v in trial 0; give what is"):
        both = ks.Model("two", [x, v], [], [k], [x.diff(t) + k * v, v.diff(t) + x])
        row = ks.Experiment(TIME, measurements={x: TIME}, std={x: 1.0})
        ks.forecast(ks.Collocation(both, row, unknown={k: None}), {k: 1.0, x: 1.0})
    with pytest.raises(ValueError, match="input f is known for 8 s, and the experiment is to last"):
        ks.forecast(spring(), ASSUMED, seconds=[9.0])
    with pytest.raises(ValueError, match="nothing is measured: a forecast needs channels"):
        ks.forecast(ks.Shooting(LINES, trial, {a: None}, {b: 1.0}, start, ks.Terminal(x**2)), GUESS)
    with pytest.raises(ValueError, match="a forecast is of least squares; leave loss out"):
        ks.forecast(lines("shooting", objective=ks.LeastSquares(loss="huber")), GUESS)
    with pytest.raises(ValueError, match="forecast takes a Collocation or a Shooting, got 3"):
        ks.forecast(3)


@pytest.mark.study
def test_phases_begin_where_the_first_one_does():
    """One motion in two phases is known as in one."""
    time = np.linspace(0.0, 4.0, 201)
    parts = [
        ks.Experiment(part, {f: PUSH}, {x: np.zeros(len(part))}, {x: 0.02})
        for part in (time[:101], time[100:])
    ]
    guess = {**ASSUMED, "x": [0.5, 0.0], "v": 0.0}
    found = ks.forecast(spring(ks.Phases(parts)), guess).standard_errors()
    assert found == pytest.approx(ks.forecast(spring(), ASSUMED).standard_errors(), rel=0.01)
    with pytest.raises(
        ValueError, match="seconds, rate, trials and limits are of experiments, not of"
    ):
        ks.forecast(spring(ks.Phases(parts)), guess, seconds=[2.0])


@pytest.mark.study
def test_delays_and_impacts():
    """By collocation and shooting alike; across impacts as the fit of the true record."""
    tau, time = sp.Symbol("tau"), np.linspace(0.0, 8.0, 401)
    rates = [x.diff(t) - v, v.diff(t) + a * ks.delayed(x, tau) + 2 * v - f]
    late = ks.Model("late", [x, v], [f], [a, tau], rates)
    trial = ks.Experiment(time, {f: PUSH}, {x: np.zeros(401)}, {x: 0.01})
    unknown, guess = {a: (1.0, 20.0), tau: (0.02, 0.3)}, {a: 8.0, tau: 0.1, x: 0.2}
    one = ks.forecast(
        ks.Collocation(late, trial, unknown=unknown, boundary=[ks.at_start(v)]), {**guess, v: 0.0}
    )
    other = ks.forecast(ks.Shooting(late, trial, unknown, initial={x: None, v: 0.0}), guess)
    for name in ("a", "tau"):
        assert one.standard_errors()[name] == pytest.approx(other.standard_errors()[name], rel=0.02)
    contact = ks.hybrid.Contact("floor", x, w, restitution=0.8)
    flight = ks.Model("ball", [x, v], [w], [k], [x.diff(t) - v, v.diff(t) + k - w])
    ball, time = ks.hybrid.Hybrid(flight, contacts=[contact]), np.linspace(0.0, 1.5, 151)

    def dropped(row):
        trial = ks.Experiment(time, measurements={x: row}, std={x: 0.01})
        return ks.Shooting(ball, trial, {k: (8.0, 11.0)}, initial={x: (0.3, 1.5), v: 0.0})

    found = ks.forecast(dropped(np.zeros(151)), {k: 9.6, x: 1.0}, seconds=[0.4])
    run = ks.simulate(ball, time, {x: 1.0, v: 0.0}, {k: 9.6})
    fit = dropped(run["x"]).solve({k: 9.6, x: 1.0}, "least-squares")
    assert found.standard_errors() == pytest.approx(fit.standard_errors(), rel=1e-3)
    [short] = found.variants.values()
    assert short.standard_errors()["k"] > 3.0 * found.standard_errors()["k"]


@pytest.mark.study
def test_standard_errors_come_true():
    """As the scatter of 200 fits, within three of its standard errors."""
    found, rng, values = ks.forecast(spring(), ASSUMED), np.random.default_rng(0), []
    run = found.trials[0]
    for _ in range(200):
        noisy = run["x"] + 0.02 * rng.standard_normal(201)
        trial = ks.Experiment(run.time, {f: PUSH}, {x: noisy}, {x: 0.02})
        values.append([*spring(trial).solve(ASSUMED).parameters.values()])
    ratio = np.std(values, axis=0, ddof=1) / [*found.standard_errors().values()]
    assert np.abs(ratio - 1.0).max() < 3.0 / np.sqrt(400.0)
