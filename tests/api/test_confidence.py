"""What a fit says of its estimates: which a bound holds, their errors, what is left open."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm

import kinesym as ks

t = ks.t
x, v = ks.dynamicsymbols("x v")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 6.0, 301)
START = {x: 0.5, v: 0.0}
EVERY = ["least-squares", "bfgs", "ipopt"]
#: Stiffness and damping per mass
SWING = ks.Model("swing", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + c * v + k * sp.sin(x)])
#: The same, with a mass of micrograms
MASS, FORCE, u = sp.Symbol("mass"), sp.Symbol("force"), ks.dynamicsymbols("u")
TINY = ks.Model(
    "tiny",
    [x, v],
    [u],
    [MASS, FORCE],
    [x.diff(t) - v, v.diff(t) + 0.2 * v + (FORCE * sp.sin(x) - u) / MASS],
)
PUSH = 3e-7 * np.sin(2.0 * TIME)


def record(model, values, inputs=None, noise=0.01, missing=()):
    run = ks.simulate(model, TIME, START, values, inputs, method="trapezoid")
    y = run["x"] + noise * np.random.default_rng(1).standard_normal(len(TIME))
    return ks.Experiment(TIME, inputs or {}, {x: y}, {x: noise})


ONE = record(SWING, {k: 10.0, c: 0.2})
LIGHT = record(TINY, {MASS: 3e-7, FORCE: 3e-6}, {u: PUSH})


def by_shooting(model, trial, unknown, guess, optimizers=("least-squares",), **more):
    shooting = ks.Shooting(model, trial, unknown, initial=START, method="trapezoid", **more)
    fits = [shooting.solve(guess, optimizer=optimizer) for optimizer in optimizers]
    assert all(fit.success for fit in fits), fits
    return fits if len(fits) > 1 else fits[0]


def by_collocation(model, trial, unknown, guess):
    ends = [ks.at_start(name) - value for name, value in START.items()]
    task = ks.Collocation(model, trial, unknown, scheme="trapezoid", boundary=ends)
    solution = task.solve(guess)
    assert solution.success
    return np.sqrt(np.diag(task.covariance(solution)))


FREE = by_shooting(SWING, ONE, {k: None, c: None}, {k: 9.0, c: 0.3})
BEST, ERROR = FREE.values, np.array(list(FREE.standard_errors().values()))
K = BEST[0]


@pytest.mark.parametrize(
    "bounds",
    [
        (K - 8e-4, K + 8e-4),
        (K - 1e-5, K + 0.1),
        (0.0, 1e6),
        (K - 1e-3, None),
        (None, K + 1e-3),
    ],
)
def test_narrow_bounds_are_not_the_value(bounds):
    """An estimate between its bounds is as uncertain as without them, however narrow they are."""
    guess = {k: K + 5e-4, c: 0.3}
    for fit in by_shooting(SWING, ONE, {k: bounds, c: (0, None)}, guess, EVERY):
        assert not fit.active, fit
        np.testing.assert_allclose(list(fit.standard_errors().values()), ERROR, rtol=1e-3)
    errors = by_collocation(SWING, ONE, {k: bounds, c: (0, None)}, guess)
    np.testing.assert_allclose(errors, ERROR, rtol=5e-3)


@pytest.mark.parametrize(
    ("bounds", "end"),
    [
        ((K + 2e-4, K + 8e-4), 0),
        ((K + 0.01, None), 0),
        ((0.0, K - 0.01), 1),
        ((None, K - 5e-3), 1),
        ((K + 1e-5, 1e6), 0),
    ],
)
def test_held_by_a_bound(bounds, end):
    """The minimum is far beyond: variance zero, and the other nearly as certain as if this were
    known."""
    guess = {k: bounds[end] + (-3e-4 if end else 3e-4), c: 0.3}
    known = by_shooting(SWING, ONE, {c: None}, {c: 0.3}, known={k: bounds[end]})
    error = known.standard_errors()["c"]
    for fit in by_shooting(SWING, ONE, {k: bounds, c: (0, None)}, guess, EVERY):
        assert fit.active == ["k"], fit
        assert fit.standard_errors() == pytest.approx({"k": 0.0, "c": error}, rel=5e-3)
    errors = by_collocation(SWING, ONE, {k: bounds, c: (0, None)}, guess)
    assert errors[0] == 0.0 and errors[1] == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize("beyond", [0.0, 0.7, 3.0])
def test_errors_beside_an_active_bound(beyond):
    """Start and slope of a straight line whose slope, at least zero, is measured below it by so
    many standard errors: the mean square of the start about its estimate is that of the likelihood
    on the allowed side, by quadrature."""
    rate, start = sp.symbols("rate start")
    y = ks.dynamicsymbols("y")
    line = ks.Model("line", [y], [], [rate, start], [y.diff(t) - rate])
    time, std = np.linspace(0.0, 1.0, 21), 0.1
    design = np.column_stack([np.ones(21), time]) / std
    whole = np.linalg.inv(design.T @ design)
    trial = ks.Experiment(
        time, measurements={y: 1.0 - beyond * np.sqrt(whole[1, 1]) * time}, std={y: std}
    )
    best = np.array([1.0, -beyond * np.sqrt(whole[1, 1])])
    estimate = design[:, 0] @ design @ best / (design[:, 0] @ design[:, 0])
    alone = 1.0 / (design[:, 0] @ design[:, 0])

    def density(b):
        return np.exp(-0.5 * (b - best[1]) ** 2 / whole[1, 1])

    def square(b):  # of the start, given the slope
        mean = best[0] + whole[0, 1] / whole[1, 1] * (b - best[1])
        return (alone + (mean - estimate) ** 2) * density(b)

    far = 12.0 * np.sqrt(whole[1, 1])
    expected = np.sqrt(quad(square, 0.0, far)[0] / quad(density, 0.0, far)[0])
    unknown = {rate: (0, None), start: (-5, 5)}
    shooting = ks.Shooting(line, trial, unknown, initial={y: start})
    boundary = [ks.at_start(y) - start]
    for problem in (shooting, ks.Collocation(line, trial, unknown, boundary=boundary)):
        more = ("least-squares",) if problem is shooting else ()
        fit = problem.solve({rate: 0.1, start: 0.5}, *more)
        errors = fit.parameters.standard_errors()
        assert fit.parameters["start"] == pytest.approx(estimate, abs=1e-6)
        assert errors["start"] == pytest.approx(expected, rel=1e-4), problem
        if beyond:
            assert errors["rate"] == 0.0


def test_small_values_are_not_at_zero():
    """3e-7 kg above a bound of 0 is not at it, though small; 3e-7 kg at one of 3.2e-7 kg is."""
    guess = {MASS: 3.3e-7, FORCE: 3.1e-6}
    free = by_shooting(TINY, LIGHT, {MASS: None, FORCE: None}, guess)
    errors = list(free.standard_errors().values())
    assert 0.0 < errors[0] < 1e-8
    for bounds in ((0, None), (0, 1e-5)):
        for fit in by_shooting(TINY, LIGHT, {MASS: bounds, FORCE: (0, None)}, guess, EVERY):
            np.testing.assert_allclose(list(fit.standard_errors().values()), errors, rtol=1e-5)
    for bounds in ((0, None), (1e-9, 1e-6)):
        found = by_collocation(TINY, LIGHT, {MASS: bounds, FORCE: (0, None)}, guess)
        np.testing.assert_allclose(found, errors, rtol=1e-2)
    above = {MASS: (3.2e-7, 1e-5), FORCE: (0, None)}
    for fit in by_shooting(TINY, LIGHT, above, guess, EVERY):
        assert fit.active == ["mass"] and fit.standard_errors()["mass"] == 0.0


@pytest.mark.parametrize("scheme", ["midpoint", "radau-3", "hermite-simpson"])
def test_inequalities_on_the_way(scheme):
    """Inputs at their bounds and a path condition that is active at some places: the covariance is
    that of the problem in which the bounds are equations there."""
    y = np.sin(TIME) + 0.1 * np.cos(9.0 * TIME)
    model = ks.Model("filter", [x], [u], [k], [x.diff(t) + k * x - u])
    trial = ks.Experiment(TIME, {"m": 0 * TIME + 1.0}, {x: y}, {x: 0.1})
    held = 0.9 * ks.dynamicsymbols("m")
    objective = ks.LeastSquares() + 0.01 * ks.Integral(u**2)
    task = ks.Collocation(
        model,
        trial,
        {k: (0.0, 50.0)},
        unknown_inputs={u: (-0.8, 0.8)},
        scheme=scheme,
        objective=objective,
        path=[x <= held],
    )
    solution = task.solve({k: 1.0}, tolerance=1e-11)
    found = task.covariance(solution)[0, 0]
    low, high = (bound.copy() for bound in task.variable_bounds)
    names = [task.variable_name(j) for j in range(task.n_variables)]
    free = np.array([name.startswith("u at") for name in names])
    above, below = (free & (side * solution.free_vector > 0.8 - 1e-4) for side in (1, -1))
    assert above.any() and below.any()
    low[above], high[below] = 0.8, -0.8
    vars(task.problem)["variable_bounds"] = low, high
    assert found == pytest.approx(task.covariance(solution)[0, 0], rel=1e-4)


# -- what is left of barriers ----------------------------------------------------------------------

S, I = ks.dynamicsymbols("S I")  # noqa: E741
BETA, GAMMA = sp.symbols("beta gamma")
EPIDEMIC = [S.diff(t) + BETA * S * I, I.diff(t) - BETA * S * I + GAMMA * I]
OUTPUTS = {"log": sp.log(I), "exp": sp.exp(5 * I), "degrees": 180 / sp.pi * I, "product": S * I}


def logistic(time, beta, gamma, start):
    """S and I of an epidemic, and their derivatives by beta, gamma and the first I."""

    def rates(_, y):
        s, i = y[:2]
        slopes = np.array([[-beta * i, -beta * s], [beta * i, beta * s - gamma]])
        moved = slopes @ y[2:].reshape(2, 3) + [[-s * i, 0, 0], [s * i, -i, 0]]
        return np.append([-beta * s * i, beta * s * i - gamma * i], moved)

    begin = [1 - start, start, 0, 0, -1, 0, 0, 1]
    found = solve_ivp(rates, time[[0, -1]], begin, "LSODA", time, rtol=1e-10, atol=1e-13).y
    return found[:2], found[2:].reshape(2, 3, -1)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("scheme", ["radau-5", "gauss-4", "hermite-simpson"])
def test_bounds_that_do_not_bind_tell_nothing(output, scheme):
    """Functions of states are measured; standard errors and degrees of freedom are those of
    SciPy's states and their sensitivities, whatever bounds states have."""
    days, truth = np.arange(0.0, 40.0), (0.6, 0.2, 2e-3)
    (s, i), _ = logistic(days, *truth)
    shown = sp.lambdify((S, I), OUTPUTS[output])(s, i)
    noise = 0.02 * np.std(shown) * np.random.default_rng(5).standard_normal(len(days))
    model = ks.Model("sir", [S, I], [], [BETA, GAMMA], EPIDEMIC, outputs={"y": OUTPUTS[output]})
    trial = ks.Experiment(days, measurements={"y": shown + noise})
    for bounds in ({I: (1e-9, 1), S: (0, 1)}, {I: (1e-9, None), S: (None, 1)}):
        task = ks.Collocation(
            model,
            trial,
            {BETA: (0.01, 5), GAMMA: (0.01, 2)},
            bounds=bounds,
            boundary=[ks.at_start(S + I) - 1],
            scheme=scheme,
        )
        fit = task.solve({BETA: 0.6, GAMMA: 0.2, I: i, S: s})
        first = float(fit["I"][0])
        found, moved = logistic(days, *fit.parameters.values(), first)
        slopes = [sp.lambdify((S, I), OUTPUTS[output].diff(x) + 0 * S)(*found) for x in (S, I)]
        rows = slopes[0] * moved[0] + slopes[1] * moved[1]
        rest = sp.lambdify((S, I), OUTPUTS[output])(*found) - shown - noise
        std = np.sqrt(rest @ rest / 37)
        right = std * np.sqrt(np.diag(np.linalg.inv(rows @ rows.T)))
        assert fit.noise[0].freedom == 37 and fit.likelihood[0].unknowns == 4
        assert fit.estimated_std["y"] == pytest.approx(std, rel=0.01)
        np.testing.assert_allclose(list(fit.parameters.standard_errors().values()), right[:2], 0.1)


@pytest.mark.parametrize("high", [1.0, 0.05, None])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_bound_beside_which_little_is_known(high, unit):
    """Only beta - gamma shows, in units of the counts; gamma is at zero, and may be anywhere above,
    up to its other bound, which beta follows."""
    cases = unit * np.array([45, 62, 121, 198, 291, 440, 571, 830, 1287, 1975, 2744, 4515.0])
    N, days = unit * 1.4e9, np.arange(12.0)
    equations = [
        S.diff(t) + BETA * S * I / N,
        I.diff(t) - BETA * S * I / N + GAMMA * I,
    ]
    model = ks.Model("sir", [S, I], [], [BETA, GAMMA], equations)
    start = [ks.at_start(S) - (N - 45 * unit), ks.at_start(I) - 45 * unit]
    trial, more = ks.Experiment(days, measurements={I: cases}), {"boundary": start}
    known = ks.Collocation(model, trial, {BETA: (0, 2)}, known={GAMMA: 0.0}, **more)
    right = known.solve({BETA: 0.5}).parameters.table["beta"]
    task = ks.Collocation(model, trial, {BETA: (0, 2), GAMMA: (0, high)}, **more)
    found = task.solve({BETA: 0.5, GAMMA: (high or 1.0) / 2}).parameters.table
    assert found["gamma"].remark == "at a bound"
    alone = right.standard_error
    if high:
        expected = np.hypot(alone, high / np.sqrt(3.0))
        assert found["beta"].standard_error == pytest.approx(expected, rel=2e-3)
    else:
        assert found["beta"].standard_error > 10.0
    assert found["beta"].value == pytest.approx(right.value, rel=1e-4)


# -- notes and conditions --------------------------------------------------------------------------


@pytest.mark.parametrize("guess", [0.3, 1e-6])
def test_notes_do_not_depend_on_the_guess(guess):
    """A start near zero, known to a thousandth of the swing, whatever it was guessed."""
    run = ks.simulate(SWING, TIME, {x: 0.0, v: 2.0}, {k: 10.0, c: 0.2})
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(TIME))
    trial = ks.Experiment(TIME, measurements={x: run["x"] + noise}, std={x: 0.01})
    shooting = ks.Shooting(SWING, trial, {k: (1, 50), c: (0, 5)}, initial={x: None, v: None})
    fit = shooting.solve({k: 9.0, c: 0.3, x: guess, v: 1.5}, optimizer="least-squares")
    assert abs(fit.initial["x"]) < 0.01 and not fit.notes
    natural = [*np.abs(fit.values[:2]), np.abs(fit["x"]).max(), np.abs(fit["v"]).max()]
    slopes = shooting.residual_jacobian(fit)
    assert fit.condition == pytest.approx(np.linalg.cond(slopes * natural), rel=1e-6)


def test_what_may_be_zero_is_told_so():
    """A parameter that is zero within its error, beside one that is known to seven digits."""
    y = np.sin(10.0 * TIME) + 1e-6 * np.random.default_rng(2).standard_normal(len(TIME))
    drift = ks.Model("drift", [x, v], [], [k, c], [x.diff(t) + k * v, v.diff(t) - k * x - c * 1e-5])
    trial = ks.Experiment(TIME, measurements={x: y}, std={x: 1e-6})
    shooting = ks.Shooting(drift, trial, {k: None, c: None}, initial={x: 0.0, v: -1.0}, substeps=20)
    for start in (1.0, 1e-3):
        fit = shooting.solve({k: 10.0, c: start}, optimizer="least-squares")
        assert abs(fit.parameters[c]) < 3 * fit.standard_errors()["c"]
        assert any(
            note.startswith("c cannot be told from zero by this record") for note in fit.notes
        ), fit


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_what_is_known_well_is_identified(unit):
    """Though something else is known much better: y'' = a y + b y' grows so fast that of a + b the
    last samples tell much, and b is known to 0.02 %."""
    model = ks.Model("unstable", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) - k * x - c * v])
    time = np.linspace(0, 10, 100)
    clean = [(expm(np.array([[0, 1], [2, 0.1]]) * s) @ [0.0005, 0.2])[0] for s in time]
    y = unit * (np.array(clean) + 0.1 * np.random.default_rng(0).standard_normal(100))
    trial = ks.Experiment(time, measurements={x: y}, std={x: 0.1 * unit})
    start = {x: 0.0005 * unit, v: 0.2 * unit}
    shooting = ks.Shooting(model, trial, {k: None, c: None}, initial=start)
    fit = shooting.solve({k: 1.0, c: 1.0}, optimizer="least-squares")
    assert fit.condition > 1e3 and not fit.notes
    assert fit.standard_errors()["c"] < 1e-3 * fit.parameters["c"]


# -- segments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(1.0, 50.0), (K + 0.01, 50.0)])
@pytest.mark.parametrize("with_std", [True, False])
def test_errors_with_segments(bounds, with_std):
    """Segments are another way to the same minimum: errors, bounds and condition are the same."""
    objective = None
    trial = ONE
    if not with_std:
        ref = ks.dynamicsymbols("ref")
        trial = ks.Experiment(TIME, {ref: ONE.measurements["x"]})
        objective = ks.Integral((x - ref) ** 2)
    fits = [
        ks.Shooting(
            SWING,
            trial,
            {k: bounds, c: (0, 5)},
            initial={x: None, v: 0.0},
            segments=segments,
            objective=objective,
        ).solve({k: 10.5, c: 0.3, x: 0.4}, optimizer=optimizer)
        for segments, optimizer in ((1, "least-squares"), (10, "ipopt"))
    ]
    names = fits[0].names
    one, many = (fit.standard_errors() for fit in fits)
    assert {name: many[name] for name in names} == pytest.approx(one, rel=1e-4)
    assert fits[0].active == fits[1].active == (["k"] if bounds[0] > K else [])
    assert fits[1].condition == pytest.approx(fits[0].condition, rel=1e-3)
    assert not fits[1].notes


def test_segments_say_what_is_not_identifiable():
    a, b = sp.symbols("a b")
    model = ks.Model("p", [x], [], [a, b], [x.diff(t) + a * b * x])
    trial = ks.Experiment(TIME, measurements={x: np.exp(-TIME)}, std={x: 0.01})
    fit = ks.Shooting(model, trial, {a: None, b: None}, initial={x: 1.0}, segments=5).solve(
        {a: 0.7, b: 1.1}, optimizer="ipopt"
    )
    assert "not identifiable" in fit.notes[0] and "times its std" in fit.notes[1]
