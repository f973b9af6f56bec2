"""What a fit begins with: simulations by the guess, states that outputs show, and what is worse."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.internal.fitting.attempts import Attempts

S, ill, x, v, w, u = ks.dynamicsymbols("S ill x v w u")
beta, gamma, a, b, k = sp.symbols("beta gamma a b k")
DAYS = np.arange(0.0, 60.0)


def epidemic(seed=11):
    """The logarithm of the share of infected people, from day to day."""
    flow = [S.diff(ks.t) + beta * S * ill, ill.diff(ks.t) - beta * S * ill + gamma * ill]
    sir = ks.Model("sir", [S, ill], [], [beta, gamma], flow, outputs={"log_I": sp.log(ill)})
    true = {beta: 0.45, gamma: 0.16}
    run = ks.simulate(sir, DAYS, {S: 0.9998, ill: 2e-4}, true, method="dormand-prince")
    y = run["log_I"] + 0.15 * np.random.default_rng(seed).standard_normal(60)
    return ks.Collocation(
        sir,
        ks.Experiment(DAYS, measurements={"log_I": y}),
        {beta: (0.01, 5), gamma: (0.01, 2)},
        bounds={ill: (1e-9, 1), S: (0, 1)},
        boundary=[ks.at_start(S + ill) - 1],
    )


def test_many_starts_of_an_epidemic():
    found = epidemic().multistart(6, seed=1, guess={beta: 0.8, gamma: 0.3})
    np.testing.assert_allclose(found.ends, [[0.45, 0.16]] * 6, rtol=0.05)


@pytest.mark.parametrize("limits", [(1e-6, 100), (1e-9, 1000), (0, 20)])
def test_wide_bounds_do_not_keep_small_values_off_the_record(limits):
    """A population of which the logarithm is measured: r and K as by SciPy, soon."""
    grown = [x.diff(ks.t) - a * x * (1 - x / k)]
    model = ks.Model("logistic", [x], [], [a, k], grown, outputs={"log_x": sp.log(x)})
    time, chance = np.linspace(0.0, 20.0, 31), np.random.default_rng(2)
    grows = lambda p: np.log(p[1] / (1 + (100 * p[1] - 1) * np.exp(-p[0] * time)))  # noqa: E731
    y = grows([0.8, 5.0]) + 0.2 * chance.standard_normal(31)
    exact = least_squares(lambda p: grows(p) - y, [0.8, 5.0]).x
    trial = ks.Experiment(time, measurements={"log_x": y})
    about = {"bounds": {x: limits}, "boundary": [ks.at_start(x) - 0.01]}
    problem = ks.Collocation(model, trial, {a: (1e-3, 50), k: (1e-3, 50)}, **about)
    found = problem.solve({a: 0.3, k: 2.0})
    assert found.success and found.iterations < 60
    np.testing.assert_allclose(list(found.parameters.values()), exact, rtol=0.01)


def decays():
    """a exp(-t) and what becomes of it, of which a ratio is measured."""
    rates = [x.diff(ks.t) + k * x, v.diff(ks.t) - k * x + b * v]
    model = ks.Model("decays", [x, v], [], [a, k, b], rates, outputs={"share": v / (x + v)})
    time = np.linspace(0.0, 3.0, 16)
    true = {a: 2.0, k: 1.5, b: 0.4}
    run = ks.simulate(model, time, {x: a**2, v: 1.0}, true, method="dormand-prince")
    trial = ks.Experiment(time, measurements={"share": run["share"]}, std={"share": 0.01})
    starts = [ks.at_start(x) - a**2, ks.at_start(v) - ks.at_start(x) / 4]
    return ks.Collocation(model, trial, {k: (0.1, 9), b: (0.01, 9), a: (1, 3)}, boundary=starts)


def test_a_first_trajectory_is_the_motion_by_the_guess():
    """As by SciPy, from starts that follow from parameters and from each other."""
    problem = decays()
    found = problem.unpack(problem.pack({a: 1.5, k: 0.8, b: 0.3}))
    time = problem.trials[0].grid
    rates = lambda t, y: [-0.8 * y[0], 0.8 * y[0] - 0.3 * y[1]]  # noqa: E731
    exact = solve_ivp(rates, (0, 3), [2.25, 0.5625], t_eval=time, rtol=1e-9, atol=1e-12).y
    np.testing.assert_allclose([found["x"], found["v"]], exact, rtol=1e-5)
    given = problem.unpack(problem.pack({a: 1.5, k: 0.8, b: 0.3, v: 0.7}))
    np.testing.assert_allclose(given["v"], 0.7)  # what is given stays
    lines = problem.unpack(problem.pack({k: 0.8, b: 0.3}))  # nothing tells a, nor the start
    assert not lines["x"].any()


OUTPUTS = {
    "degrees": (x * 180 / sp.pi, lambda y: np.pi * y / 180),
    "gain and offset": (2.5 * x - 4, lambda y: (y + 4) / 2.5),
    "parameters": (a * x + b, lambda y: (y - 0.5) / 2.0),
    "logarithm": (sp.log(x, 10), lambda y: 10.0**y),
    "squashed": (sp.tanh(x), np.arctanh),
    "saturation": (3 * x / (a + x), lambda y: 2.0 * y / (3.0 - y)),
    "odds": (sp.log(x / (4 - x)), lambda y: 4.0 / (1.0 + np.exp(-y))),
    "exponential": (sp.exp(-x / 2), lambda y: -2.0 * np.log(y)),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_states_that_outputs_show(name):
    """Samples at times of their own, one of which is missing; the rate is the slope of these."""
    shows, inverse = OUTPUTS[name]
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + k * x]
    model = ks.Model("swing", [x, v], [], [k, a, b], rates, outputs={"y": shows})
    grid, times = np.linspace(0.0, 2.0, 21), np.linspace(0.0, 2.0, 81)
    truth = 0.8 + 0.3 * np.sin(times)
    y = np.array([float(shows.subs({x: p, a: 2.0, b: 0.5})) for p in truth])
    y[7] = np.nan
    trial = ks.Experiment(grid, measurements={"y": ks.Signal(times[y == y], y[y == y])})
    unknown = {k: (0.1, 9), a: None, b: None}
    problem = ks.Collocation(model, trial, unknown)
    found = problem.unpack(problem.pack({k: 1.0, a: 2.0, b: 0.5}))
    np.testing.assert_allclose(found["x"], 0.8 + 0.3 * np.sin(grid), rtol=1e-6)
    np.testing.assert_allclose(found["v"], np.gradient(found["x"], grid), rtol=1e-12)
    np.testing.assert_allclose(inverse(y[y == y]), truth[y == y], rtol=1e-9)


@pytest.mark.parametrize("shows", [x**2, sp.sin(x), x + v, x * u, x + 1 / x])
def test_outputs_that_show_no_state(shows):
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + k * x]
    model = ks.Model("swing", [x, v], [u], [k], rates, outputs={"y": shows})
    grid = np.linspace(0.0, 2.0, 21)
    trial = ks.Experiment(grid, inputs={u: 1.0}, measurements={"y": 0.5 + 0.1 * grid})
    problem = ks.Collocation(model, trial, {k: (0.1, 9)})
    assert not problem.unpack(problem.pack({k: 1.0}))["x"].any()


def test_samples_outside_of_what_an_output_can_show():
    """Noise beyond 1 has no inverse hyperbolic tangent: there straight lines."""
    model = ks.Model("lag", [x], [], [k], [x.diff(ks.t) + k * x], outputs={"y": sp.tanh(x)})
    grid = np.linspace(0.0, 1.0, 11)
    y = np.tanh(1.0 - 0.5 * grid)
    y[4] = 1.02
    problem = ks.Collocation(model, ks.Experiment(grid, measurements={"y": y}), {k: (0.1, 9)})
    found = problem.unpack(problem.pack({k: 1.0}))["x"]
    np.testing.assert_allclose(found, 1.0 - 0.5 * grid, atol=1e-12)


def test_an_unstable_plant_stays_with_its_record():
    """A balanced stick with a lag, whose state nothing measures: simulated in parts that begin with
    the record, it does not fall."""
    lag = [x.diff(ks.t) - v, v.diff(ks.t) - 9.0 * x - w, w.diff(ks.t) - b * (-40 * x - 9 * v - w)]
    model = ks.Model("stick", [x, v, w], [], [b], lag)
    grid = np.linspace(0.0, 8.0, 161)
    run = ks.simulate(model, grid, {x: 0.1, v: 0.0, w: 0.0}, {b: 20.0}, method="dormand-prince")
    trial = ks.Experiment(grid, measurements={x: run["x"]})
    problem = ks.Collocation(model, trial, {b: (0.5, 99)}, boundary=[ks.at_start(w)])
    first = problem.unpack(problem.pack({b: 12.0}))["w"]
    assert np.sqrt(np.mean((first - run["w"]) ** 2)) < 0.3 * np.std(run["w"])
    assert problem.solve({b: 12.0}).parameters["b"] == pytest.approx(20.0, rel=1e-2)


def test_simulations_that_do_not_reach_their_end():
    """x' = a x^2 from 1 bursts at 1/a: then lines from the start, as before."""
    burst = ks.Model("burst", [x], [], [a], [x.diff(ks.t) - a * x**2], outputs={"y": x * x})
    grid = np.linspace(0.0, 1.0, 21)
    y = (1.0 - 0.6 * grid) ** -2.0
    problem = ks.Collocation(
        burst,
        ks.Experiment(grid, measurements={"y": y}),
        {a: (-5, 5)},
        boundary=[ks.at_start(x) - 1],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (problem.unpack(problem.pack({a: 3.0}))["x"] == 1.0).all()
        found = problem.unpack(problem.pack({a: 0.3}))["x"]
        np.testing.assert_allclose(found, 1.0 / (1.0 - 0.3 * grid), rtol=1e-5)
    assert problem.solve({a: 3.0}).parameters["a"] == pytest.approx(0.6, abs=1e-3)


def swing(std):
    """The force of a swing with noise: other frequencies are local minima."""
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + k**2 * sp.sin(x)]
    force = {"force": k**2 * sp.sin(x) * sp.cos(x)}
    model = ks.Model("swing", [x, v], [], [k], rates, outputs=force)
    time = np.linspace(0.0, 8.0, 121)
    run = ks.simulate(model, time, {x: 1.5, v: 0.0}, {k: 3.0}, method="dormand-prince")
    rng = np.random.default_rng(0)
    y = {"force": run["force"] + 0.3 * rng.standard_normal(121)}
    if std is None:  # of two channels, each estimated
        model = model.extended(outputs={"twice": 2 * force["force"]})
        y["twice"] = 2 * run["force"] + 0.5 * rng.standard_normal(121)
    trial = ks.Experiment(time, measurements=y, std=std or {})
    starts = [ks.at_start(x) - 1.5, ks.at_start(v)]
    return ks.Collocation(model, trial, {k: (0.1, 20)}, boundary=starts), time


@pytest.mark.parametrize(("std", "rate"), [({}, 0.3), ({"force": 0.3}, 6.0), (None, 0.3)])
def test_no_fit_is_worse_than_its_guess(std, rate, monkeypatch):
    """The right frequency, with trajectories of another one, which lead elsewhere."""
    problem, time = swing(std)
    guess = {k: 3.0, x: 1.5 * np.cos(rate * time), v: -1.5 * rate * np.sin(rate * time)}
    found = problem.solve(guess)
    assert found.success and found.parameters["k"] == pytest.approx(3.0, abs=0.01)
    assert any("this one began with the motion of the guess" in note for note in found.notes)
    monkeypatch.setattr(Attempts, "_known_again", lambda self, lost, *_: lost)  # nor does that help
    lost = problem.solve(guess)
    assert not lost.success and lost.status == "worse than the guess"
    assert "explains the measurements less well than the guess" in lost.message
    assert lost.merit > found.merit


def test_a_right_guess_stays():
    problem, _ = swing({})
    found = problem.solve({k: 3.0})
    assert found.parameters["k"] == pytest.approx(3.0, abs=0.01) and not found.notes


def test_starts_mute_no_warnings():
    """Of other threads, while they are solved."""
    seen = []

    class Pool(ThreadPoolExecutor):
        def submit(self, function, /, *args):
            seen.append(list(warnings.filters))
            return super().submit(function, *args)

    with Pool(1) as pool:
        decays().multistart(4, executor=pool, progress=False)
    assert len(seen) == 4 and all(filters == warnings.filters for filters in seen)


def test_a_sensor_that_is_a_state_shows_it():
    """An unstable plant, from parameters by which a simulation leaves the record."""
    rates = [x.diff(ks.t) - v, v.diff(ks.t) - b * x + a * x**3 + v / 10]
    model = ks.Model("well", [x, v], [], [a, b], rates)
    time, true = np.linspace(0.0, 12.0, 121), {a: 4.0, b: 9.0}
    run = ks.simulate(model, time, {x: 0.01, v: 0.0}, true)
    y = run["x"] + 0.05 * np.random.default_rng(3).standard_normal(121)
    trial = ks.Experiment(time, measurements={"seen": y}, std={"seen": 0.05})
    start = [ks.at_start(x) - 0.01, ks.at_start(v)]
    unknown = {a: (0, None), b: (0, None)}
    problem = ks.Collocation(model, trial, unknown, boundary=start, sensors={"seen": x})
    guess = {a: 2.0, b: 5.0}
    begun = problem.unpack(problem.pack(guess))
    np.testing.assert_allclose(begun["x"], y, atol=1e-12)
    found = problem.solve(guess)
    assert found.success and found.iterations < 25
    np.testing.assert_allclose(list(found.parameters.values()), [4.0, 9.0], rtol=0.1)


def test_records_outside_of_a_domain_are_no_first_trajectory():
    """Noise makes the record of a square negative, of which the equations have a power."""
    model = ks.Model("drain", [x], [], [a, b], [x.diff(ks.t) + a * x**b], values={b: 0.7})
    time = np.linspace(0.0, 3.0, 16)
    y = np.maximum(1.0 - 0.3 * time, 0.0) ** (1 / 0.3) - 0.01 * (time > 2)
    trial = ks.Experiment(time, measurements={"seen": y}, std={"seen": 0.01})
    about = {"boundary": [ks.at_start(x) - 1], "sensors": {"seen": x}}
    problem = ks.Collocation(model, trial, {a: (0.1, 5)}, {b: 0.7}, **about)
    assert np.isfinite(problem.constraints(problem.pack({a: 0.8}))).all()


def epidemic_of_unknown_noise():
    """Ill people of a hundred, with noise of 0.5 that is unknown."""
    flow = [S.diff(ks.t) + beta * S * ill, ill.diff(ks.t) - beta * S * ill + gamma * ill]
    sir = ks.Model("sir", [S, ill], [], [beta, gamma], flow)
    time = np.linspace(0.0, 20.0, 31)
    run = ks.simulate(sir, time, {S: 0.999, ill: 1e-3}, {beta: 1.4, gamma: 0.4})
    y = 100 * run["ill"] + 0.5 * np.random.default_rng(2).standard_normal(31)
    trial = ks.Experiment(time, measurements={"y": y}, std={"y": k})
    wide = dict.fromkeys((beta, gamma, k), ks.log_scale(1e-5, 1e5))
    start = [ks.at_start(S) - 0.999, ks.at_start(ill) - 1e-3]
    return ks.Collocation(sir, trial, wide, boundary=start, sensors={"y": 100 * ill})


@pytest.mark.parametrize("noise", [0.5, 0.01])
def test_what_a_fit_does_not_follow_is_no_noise(noise):
    """Whatever the noise of the guess is: it is held at a share of the range of the channel."""
    problem = epidemic_of_unknown_noise()
    found = problem.solve({beta: 1e-3, gamma: 1e-3, k: noise})
    assert found.success and found.parameters["k"] == pytest.approx(0.5, rel=0.1)
    assert any("took for noise" in note for note in found.notes)


def test_a_first_grid_is_as_dense_as_steps():
    """A fast rise and a slow fall, of which seven samples show nothing: rates as by shooting."""
    rates = [x.diff(ks.t) + a * x, v.diff(ks.t) - a * x + b * v]
    model, time = ks.Model("pulse", [x, v], [], [a, b], rates), np.array([0.0, 0.02, 1, 2, 3, 4, 5])
    exact = lambda t: 40.0 / 39.5 * (np.exp(-0.5 * t) - np.exp(-40.0 * t))  # noqa: E731
    trial = ks.Experiment(time, measurements={v: exact(time)}, std={v: 0.01})
    start = [ks.at_start(x) - 1, ks.at_start(v)]
    problem = ks.Collocation(model, trial, {a: (1, 900), b: (0.01, 9)}, boundary=start)
    found = problem.solve({a: 90.0, b: 0.2}, tolerance_grid=1e-5)
    assert found.success and found.grid_error().largest < 1e-5
    np.testing.assert_allclose(list(found.parameters.values()), [40.0, 0.5], rtol=1e-4)
    assert {*time} <= {*found.trials[0].time}


@pytest.mark.parametrize("shown", [x * sp.sin(5 * ks.t), x + ks.t / 10])
def test_an_output_with_the_time_itself(shown):
    """It shows the state, but through the time: the guess is simulated instead."""
    model = ks.Model("seen", [x], [], [k], [x.diff(ks.t) + k * x], outputs={"y": shown})
    time = np.linspace(2.0, 5.0, 31)
    seen = [float(shown.subs({x: np.exp(-1.1 * (at - 2.0)), ks.t: at})) for at in time]
    trial = ks.Experiment(time, measurements={"y": seen}, std={"y": 0.01})
    about = {"boundary": [ks.at_start(x) - 1], "scheme": "radau-5"}
    fit = ks.Collocation(model, trial, {k: (0, 3)}, **about).solve({k: 0.9})
    assert fit.parameters["k"] == pytest.approx(1.1, abs=1e-6)
