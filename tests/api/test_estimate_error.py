"""The shift of estimates by the steps of shooting: against fits with steps 16 times as short."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Contact, Hybrid

t = ks.t
x, v, push = ks.dynamicsymbols("x v push")
k, c, mass = sp.symbols("k c mass")
K, C = 1000.0, 0.5
OSCILLATOR = ks.Model("oscillator", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v])
TIME = np.linspace(0.0, 5.0, 501)
#: An oscillator of 5 Hz sampled at 100 Hz with a standard deviation of 1e-3.
CLEAN = np.exp(-C * TIME / 2) * np.cos(np.sqrt(K - C**2 / 4) * TIME)
NOISY = CLEAN + 1e-3 * np.random.default_rng(0).normal(size=TIME.size)
TRIAL = ks.Experiment(TIME, measurements={x: NOISY}, std={x: 1e-3})


def check(fit, best, factor=1.5, least=0.05):
    """Each predicted shift against the true one, if that is more than a small part of a standard
    error; returns the prediction."""
    error, there = fit.grid_error(), dict(zip(best.names, best.values, strict=True))
    for name, value in zip(fit.names, fit.values, strict=True):
        if name not in there or " at node " in name:  # of segments
            continue
        off, deviation = there[name] - value, error.deviations.get(name, 0.0)
        if abs(off) > max(least * deviation, 1e-8 * error.sizes[name]):
            assert 1 / factor < error.shifts[name] / off < factor
        else:
            assert abs(error.shifts[name]) < 2 * max(least * deviation, 1e-8 * error.sizes[name])
    return error


def oscillator(method, substeps, guess, optimizer="least-squares", trials=TRIAL, **more):
    shooting = ks.Shooting(
        OSCILLATOR,
        trials,
        unknown={k: (1, 1e4), c: more.pop("damping", (0, 10))},
        initial=more.pop("initial", {x: 1.0, v: None}),
        method=method,
        substeps=substeps,
        **more,
    )
    fit = shooting.solve(guess, optimizer=optimizer)
    assert fit.success, fit
    return fit


@pytest.mark.parametrize(
    "method, substeps, matters",
    [
        ("midpoint", 1, True),  # k is 16.9 off, 3,000 standard errors
        ("midpoint", 3, True),
        ("trapezoid", 2, True),
        ("rk4", 1, True),
        ("rk4", 2, True),
        ("rk4", 5, False),
        ("gauss-4", 1, True),
        ("radau-5", 1, False),
        ("gauss-6", 1, False),
    ],
)
def test_shift_of_a_stiffness(method, substeps, matters):
    fit = oscillator(method, substeps, {k: K, c: C})
    error = check(fit, oscillator(method, 16 * substeps, fit))
    assert error.matters == matters == ("grid         shifts " in str(fit))
    assert error.deviations["k"] == fit.standard_errors()["k"]
    assert fit.timings["grid"] < fit.timings["total"]
    if matters:
        assert str(error).startswith(
            f"shifts k by {abs(error.shifts['k'] / error.deviations['k']):.2g}"
        )
        assert str(error).endswith("method='gauss-6'") and str(error) in repr(error)


def test_the_advice_helps():
    error = oscillator("rk4", 1, {k: K, c: C}).grid_error()
    assert str(error) == "shifts k by 31 standard errors; use substeps=5 or method='gauss-6'"
    assert not oscillator("rk4", 5, {k: K, c: C}).grid_error().matters


@pytest.mark.parametrize("optimizer", ["bfgs", "ipopt"])
def test_optimisers(optimizer):
    fit = oscillator("rk4", 1, {k: K, c: C}, optimizer)
    check(fit, oscillator("rk4", 16, fit))


def test_segments():
    """The inner states move along."""
    fit = oscillator("rk4", 1, {k: K, c: C}, "ipopt", segments=5)
    check(fit, oscillator("rk4", 16, fit))


def test_several_trials():
    half = ks.Experiment(TIME[:201], measurements={x: 0.5 * NOISY[:201]}, std={x: 1e-3})
    given = {"trials": [TRIAL, half], "initial": {x: [1.0, 0.5], v: None}}
    fit = oscillator("rk4", 1, {k: K, c: C}, **given)
    error = check(fit, oscillator("rk4", 16, fit, **given))
    assert set(error.shifts) == {"k", "c", "v(0) of trial 0", "v(0) of trial 1"}


def test_a_bound_holds_an_estimate():
    fit = oscillator("midpoint", 2, {k: K, c: 0.7}, damping=(0.6, 10))
    assert fit.active == ["c"] and fit.grid_error().shifts["c"] == 0.0
    check(fit, oscillator("midpoint", 32, fit, damping=(0.6, 10)))


def test_scaled_units():
    """A mass of micrograms: the same shifts as shares, from values of 1e-6."""
    tiny = ks.Model(
        "tiny", [x, v], [], [mass, k, c], [x.diff(t) - v, mass * v.diff(t) + k * x + c * v]
    )

    def fitted(substeps, guess):
        unknown = {k: (1e-9, 1e-3), c: (0, 1e-6)}
        start = {x: 1.0, v: None}
        shooting = ks.Shooting(
            tiny, TRIAL, unknown, {mass: 1e-9}, start, method="midpoint", substeps=substeps
        )
        return shooting.solve(guess, optimizer="least-squares")

    fit = fitted(1, {k: 1e-6, c: 5e-10})
    error = check(fit, fitted(16, fit))
    large = oscillator("midpoint", 1, {k: K, c: C}).grid_error()
    for name in "kc":
        assert error.shifts[name] == pytest.approx(1e-9 * large.shifts[name], rel=1e-3)
    assert str(error) == str(large)


def test_a_larger_noise():
    """What was 31 standard errors is a 30th of one."""
    bare = ks.Experiment(TIME, measurements={x: NOISY}, std={x: 1.0})
    fit = oscillator("rk4", 1, {k: K, c: C}, trials=bare)
    assert str(fit.grid_error()) == "shifts k by 0.031 standard errors at most"
    assert "grid  " not in str(fit)


@pytest.mark.parametrize("method", ["midpoint", "rk4"])
def test_without_a_covariance(method):
    """An objective that is no sum of squares: shares of the values."""

    def fitted(substeps, guess):
        objective = ks.Integral((x - sp.exp(-t) * sp.cos(9 * t)) ** 2 * (2 + sp.cos(x)))
        shooting = ks.Shooting(
            OSCILLATOR,
            ks.Experiment(TIME[:101:2]),
            unknown={k: (1, 1e4), c: (0, 10)},
            initial={x: 1.0, v: 0.0},
            objective=objective,
            method=method,
            substeps=substeps,
        )
        return shooting.solve(guess, tolerance=1e-13)

    fit = fitted(1, {k: 81.0, c: 0.3})
    error = fit.grid_error()
    off = fitted(16, fit).values - fit.values
    np.testing.assert_allclose(list(error.shifts.values()), off, rtol=0.1, atol=5e-5)
    assert not error.deviations and "of its value" in str(error)
    assert error.matters == (method == "midpoint") == ("grid  " in str(fit))


# -- systems with events --------------------------------------------------------------------------

WALL = Hybrid(
    ks.Model("wall", [x, v], [push], [k, c], [x.diff(t) - v, v.diff(t) + k * x + c * v - push]),
    contacts=[Contact("wall", x, push, restitution=0.8)],
)


@pytest.fixture(scope="module")
def bounced():
    time = np.linspace(0.0, 4.0, 81)
    run = ks.simulate(WALL, time, {x: 1.0, v: 0.0}, {k: 16.0, c: 0.3}, rtol=1e-12, atol=1e-13)
    noise = 1e-4 * np.random.default_rng(1).normal(size=81)
    return ks.Experiment(time, measurements={x: run["x"] + noise}, std={x: 1e-4})


@pytest.mark.parametrize(
    "options, better, matters",
    [
        ({"method": "rk4"}, {"method": "rk4", "substeps": 16}, True),
        ({"method": "rk4", "substeps": 4}, {"method": "rk4", "substeps": 64}, False),
        ({"rtol": 1e-4, "atol": 1e-4}, {"rtol": 1e-11, "atol": 1e-12}, True),
        ({}, {"rtol": 1e-11, "atol": 1e-12}, False),
    ],
)
def test_shift_across_impacts(bounced, options, better, matters):
    def fitted(guess, options):
        unknown, start = {k: (1, 100), c: (0, 2)}, {x: 1.0, v: None}
        shooting = ks.Shooting(WALL, bounced, unknown, initial=start, **options)
        return shooting.solve(guess, optimizer="least-squares")

    fit = fitted({k: 15.0, c: 0.2, v: 0.0}, options)
    error = check(fit, fitted(fit, better))
    assert error.matters == matters == ("grid  " in str(fit))
    chosen = (
        "method='dormand-prince'" if options.get("method") else "smaller tolerances rtol and atol"
    )
    assert str(error).endswith(chosen if matters else "standard errors at most")


# -- what is said ---------------------------------------------------------------------------------


def test_steps_that_are_far_too_long():
    """The phase slips: not a few steps from these estimates."""
    long = np.linspace(0.0, 40.0, 1001)
    clean = np.exp(-0.01 * long) * np.cos(np.sqrt(K) * long)
    trial = ks.Experiment(long, measurements={x: clean}, std={x: 1e-3})
    shooting = ks.Shooting(
        OSCILLATOR, trial, {k: (1, 1e4)}, {c: 0.02}, {x: 1.0, v: 0.0}, method="midpoint"
    )
    slow = K * (np.tan(np.sqrt(K) * 0.02) / (np.sqrt(K) * 0.02)) ** 2  # of which midpoint makes K
    fit = shooting.solve({k: slow}, optimizer="least-squares")
    assert fit.success and fit.parameters["k"] == pytest.approx(slow, rel=1e-3)
    error = fit.grid_error()
    assert error.matters and np.isnan(error.shifts["k"])
    assert "grid         its error is not known: finer steps lead too far away" in str(fit)


def test_fits_without_one():
    shooting = ks.Shooting(OSCILLATOR, TRIAL, {k: (1, 1e4)}, {c: C}, {x: 1.0, v: 0.0})
    fit = shooting.solve({k: 900.0}, max_iterations=1)
    assert not fit.success and not fit.grid
    with pytest.raises(ValueError, match="known of fits that have converged and have a curvature"):
        fit.grid_error()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_is_not_lost(monkeypatch, error):
    """Ctrl-C, or too little memory, while the error is estimated."""

    def broken(*_):
        raise error

    shooting = ks.Shooting(OSCILLATOR, TRIAL, {k: (1, 1e4)}, {c: C}, {x: 1.0, v: 0.0})
    monkeypatch.setattr(type(shooting.problem), "_finer", broken)
    fit = shooting.solve({k: 1001.0}, optimizer="least-squares")
    assert fit.success and not fit.grid
