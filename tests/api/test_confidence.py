"""What a fit says of its estimates: which a bound holds, their errors, what is left open."""

import numpy as np
import pytest
import sympy as sp

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
    """The minimum is beyond: variance zero, and the other is as certain as if this were known."""
    guess = {k: bounds[end] + (-3e-4 if end else 3e-4), c: 0.3}
    known = by_shooting(SWING, ONE, {c: None}, {c: 0.3}, known={k: bounds[end]})
    error = known.standard_errors()["c"]
    for fit in by_shooting(SWING, ONE, {k: bounds, c: (0, None)}, guess, EVERY):
        assert fit.active == ["k"], fit
        assert fit.standard_errors() == pytest.approx({"k": 0.0, "c": error}, rel=1e-3)
    errors = by_collocation(SWING, ONE, {k: bounds, c: (0, None)}, guess)
    assert errors[0] == 0.0 and errors[1] == pytest.approx(error, rel=0.02)


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
    task.variable_bounds = low, high
    assert found == pytest.approx(task.covariance(solution)[0, 0], rel=1e-4)


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
