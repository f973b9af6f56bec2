"""Identification of hybrid models by shooting: gradients, recovery of parameters, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.internal.running import hybrid_run

P = json.loads((Path(__file__).parents[1] / "data" / "knee_20Hz.json").read_text())["params"]
y, v, lam = ks.dynamicsymbols("y v lam")
g, m = sp.symbols("g m")
F0, k0 = sp.symbols("F0 k0")
theta, omega = ks.dynamicsymbols("theta omega")


def differences(shooting, q, relative=1e-6):
    """d J/d q by central differences of two steps, extrapolated."""

    def slope(step):
        return np.array(
            [(shooting.cost(q + h) - shooting.cost(q - h)) / (2.0 * h.max()) for h in np.diag(step)]
        )

    step = relative * np.maximum(np.abs(q), 1e-3)
    return (4.0 * slope(step) - slope(2.0 * step)) / 3.0


# -- a ball that bounces --------------------------------------------------------------------------

EQUATIONS = [y.diff(ks.t) - v, m * v.diff(ks.t) + m * g - lam]
BALL = kh.Hybrid(
    ks.Model(
        "ball",
        [y, v],
        [lam],
        [g, m],
        EQUATIONS,
        values={g: 9.81, m: 0.5},
        outputs={"energy": m * g * y + m * v**2 / 2},
    ),
    contacts=[kh.Contact("floor", y, lam, restitution=0.8)],
)
TIME = np.linspace(0.0, 1.5, 301)


def ball_trial(height=1.0, noise=0.0, seed=0, missing=slice(0)):
    run = ks.simulate(BALL, TIME, {y: height, v: 0.0}, {g: 9.6})
    assert len(run.happened("impact")) >= 2
    measured = run["y"] + noise * np.random.default_rng(seed).standard_normal(len(TIME))
    measured[missing] = np.nan
    return ks.Experiment(TIME, measurements={y: measured}, std={y: noise or 1.0})


@pytest.fixture(scope="module")
def balls():
    """Two drops from unknown heights, with noise and a gap."""
    trials = [ball_trial(1.0, 0.01, 1), ball_trial(0.7, 0.01, 2, slice(100, 140))]
    return ks.Shooting(BALL, trials, unknown={g: (8.0, 11.0)}, initial={y: (0.3, 1.5), v: 0.0})


def test_gradient_across_impacts(balls):
    """Adjoint and forward are one; differences agree."""
    assert balls.names == ["g", "y(0) of trial 0", "y(0) of trial 1"]
    q = balls.pack({g: 9.7, y: [1.02, 0.69]})
    adjoint, forward = balls.gradient(q), balls.gradient(q, mode="forward")
    np.testing.assert_allclose(adjoint, forward, rtol=1e-9)
    np.testing.assert_allclose(adjoint, differences(balls, q), rtol=1e-6)
    r = balls.residuals(q)
    assert balls.cost(q) == pytest.approx(r @ r) and r.shape == (2 * 301 - 40,)
    assert balls.residual_jacobian(q).shape == (len(r), 3)


@pytest.mark.parametrize("optimizer", ["least-squares", "bfgs", "ipopt"])
def test_ball_is_recovered(balls, optimizer):
    fit = balls.solve({g: 9.65, y: [1.01, 0.705]}, optimizer=optimizer)
    assert fit.success, fit.message
    errors = np.array([*fit.standard_errors().values()])
    assert (np.abs(fit.values - [9.6, 1.0, 0.7]) < 3.0 * errors).all()
    assert (errors < [0.02, 0.005, 0.005]).all()
    assert fit.objective == pytest.approx(562, abs=4 * np.sqrt(2 * 562))
    assert fit.parameters[g] == fit.values[0] and fit.initial[y] == list(fit.values[1:])
    assert fit.condition < 30.0 and not fit.active and not fit.notes
    assert np.abs(fit.gradient * fit.values).max() < 1e-3 * fit.objective
    assert fit.history[0].objective > fit.history[-1].objective


def test_bands_across_impacts(balls):
    """Of the height at all nodes, by differences of simulations; at the end an interval."""
    fit = balls.solve({g: 9.65, y: [1.01, 0.705]}, "least-squares")
    step = 1e-6 * fit.values
    sides = [
        [balls.trajectories(fit.values + sign * h)[0]["y"] for sign in (1.0, -1.0)]
        for h in np.diag(step)
    ]
    slopes = np.array([(a - b) / (2.0 * h) for (a, b), h in zip(sides, step, strict=True)]).T
    expected = np.sqrt(np.einsum("ij,jk,ik->i", slopes, fit.covariance, slopes))
    found = fit.bands()
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-8)
    assert fit.interval(ks.at_end(y)).standard_error == pytest.approx(expected[-1], rel=1e-4)
    assert found.trials[1]["y"][-1] != pytest.approx(expected[-1], rel=1e-2)


def test_errors_are_those_of_the_jacobian(balls, tmp_path):
    fit = balls.solve({g: 9.65, y: [1.01, 0.705]}, "least-squares")
    slopes = balls.residual_jacobian(fit)
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(slopes.T @ slopes), rtol=1e-8)
    fit.save(tmp_path / "fit.nc")
    again = ks.Fit.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.trials[1]["y"], fit.trials[1]["y"])
    np.testing.assert_array_equal(again.values, fit.values)


def test_trajectories_hold_measurements_and_events(balls):
    first, second = balls.trajectories({g: 9.6, y: [1.0, 0.7]})
    assert len(first.happened("impact")) >= 2
    assert np.isnan(second.measurements["y"]).sum() == 40
    assert first.vaf()["y"] > 99.0


def test_what_is_not_guessed_is_measured(balls):
    """Heights from the first samples, g from the model."""
    first = [trial.measurements["y"][0] for trial in balls.trials]
    np.testing.assert_array_equal(balls.pack(), [9.81, *first])
    assert balls.unpack(balls.pack({g: 9.0}))["g"] == 9.0


def test_a_run_that_ends_early_costs_infinitely():
    """A start below the floor; an event that stops the run; the optimiser steps around it."""
    trial = ball_trial()
    shooting = ks.Shooting(BALL, trial, unknown={g: None}, initial={y: (-1.0, 2.0), v: 0.0})
    assert shooting.cost({y: -0.5}) == np.inf
    with pytest.raises(ValueError, match=r"contact 'floor' starts 0\.5 m below the ground"):
        shooting.gradient({y: -0.5})
    with pytest.raises(ValueError, match=r"contact 'floor' starts 0\.5 m below the ground"):
        shooting.solve({y: -0.5})
    slow = kh.Event("too fast", v + 4.5, -1, stop=True)
    stopped = kh.Hybrid(BALL.model, contacts=BALL.contacts, events=[slow])
    shooting = ks.Shooting(stopped, trial, {g: None}, initial={y: 1.0, v: 0.0})
    assert np.isfinite(shooting.cost({g: 9.7})) and shooting.cost({g: 11.0}) == np.inf
    with pytest.raises(ValueError, match=r"stopped at t = .* by too fast"):
        shooting.trajectories({g: 11.0})
    for optimizer in ("least-squares", "bfgs"):
        fit = shooting.solve({g: 9.9}, optimizer=optimizer)
        assert fit.parameters[g] == pytest.approx(9.6, abs=1e-5), optimizer


def test_ctrl_c_returns_the_best_iterate(balls, monkeypatch):
    calls = []
    original = hybrid_run.hybrid_sensitivities

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr("kinesym.internal.running.jump_events.hybrid_sensitivities", interrupted)
    fit = balls.solve({g: 9.8, y: [1.03, 0.72]}, "least-squares")
    assert not fit.success and fit.message.startswith("interrupted")
    assert np.isfinite(fit.objective)


@pytest.mark.parametrize(
    "output",
    [
        y**2 + g,
        g * sp.Piecewise((1, ks.t < 2.2), (3, True)),
        y * sp.Piecewise((1, y < 0.7), (2, 1)),
    ],
)
def test_outputs_and_rates_that_jump_beside_events(output):
    """At known times and where a state passes a value, in a model with an event of its own."""
    decay = g * y * sp.Piecewise((1, ks.t < 1.7), (2, True))
    model = ks.Model("decay", [y], [], [g], [y.diff(ks.t) + decay], outputs={"z": output})
    refill = kh.Hybrid(model, events=[kh.Event("refill", y - 0.5, -1, resets={y: 1.0})])
    trial = ks.Experiment(np.linspace(0.0, 4.0, 9), {}, {"z": np.ones(9)}, {"z": 0.3})
    shooting = ks.Shooting(refill, trial, {g: (0.1, 3)}, initial={y: 1.0})
    q = np.array([0.7])
    assert shooting.gradient(q) == pytest.approx(differences(shooting, q, 1e-5), rel=1e-5)


# -- the knee under stimulation -------------------------------------------------------------------


def knee():
    """A seated person's shank, and the muscle that extends it."""
    quad = kh.FESMuscle(
        "quad", rate=-P["r"] * omega, F0=F0, k0=k0, ks=P["ks"], Lc0=P["Lc0"], recruitment=P["alpha"]
    )
    torque = P["r"] * quad.force - P["m"] * P["g"] * P["lc"] * sp.sin(theta) - P["bv"] * omega
    model = ks.Model(
        "knee",
        [theta, omega],
        [quad.force],
        [],
        [theta.diff(ks.t) - omega, P["I"] * omega.diff(ks.t) - torque],
    )
    return kh.Hybrid(model, muscles=[quad]), quad


KNEE, QUAD = knee()
REST = {theta: 0.0, omega: 0.0, **QUAD.rest}
KNEE_TIME = np.linspace(0.0, 0.5, 101)


def clock(count=6):
    calcium = kh.Calcium(P["tau"], P["t1"], P["t2"], P["Up"], P["Um"])
    return calcium.signal(kh.train(P["t0"], P["T"], count))


def knee_trial(noise):
    inputs = {QUAD.clock: clock()}
    run = ks.simulate(KNEE, KNEE_TIME, REST, {F0: P["F0"], k0: P["k0"]}, inputs)
    assert len(run.happened("event")) > 5 and not run.message
    rng = np.random.default_rng(3)
    return ks.Experiment(
        KNEE_TIME,
        inputs,
        std={theta: noise[0], QUAD.force: noise[1]},
        measurements={
            name: run[name] + sigma * rng.standard_normal(len(KNEE_TIME))
            for name, sigma in zip((theta, QUAD.force), noise, strict=True)
        },
    )


UNKNOWN = {F0: (300.0, 3000.0), k0: (5e3, 2e5)}


def test_gradient_of_the_knee():
    """Across switches of the muscle and breaks of the clock."""
    trial = knee_trial((0.01, 2.0))
    shooting = ks.Shooting(KNEE, trial, UNKNOWN, initial=REST, rtol=1e-10, atol=1e-12)
    assert shooting.names == ["F0", "k0"]
    q = shooting.pack({F0: 1100.0, k0: 2.6e4})
    adjoint = shooting.gradient(q)
    np.testing.assert_allclose(adjoint, shooting.gradient(q, mode="forward"), rtol=1e-9)
    np.testing.assert_allclose(adjoint, differences(shooting, q, 1e-4), rtol=1e-6)


def test_knee_is_recovered():
    trial = knee_trial((0.005, 1.0))
    shooting = ks.Shooting(KNEE, trial, UNKNOWN, initial=REST)
    fit = shooting.solve({F0: 900.0, k0: 4e4}, "least-squares")
    assert fit.success, fit.message
    errors = fit.standard_errors()
    for name in (F0, k0):
        assert abs(fit.parameters[name] - P[name.name]) < 3.0 * errors[name.name]
        assert errors[name.name] < 0.05 * P[name.name]


def test_levels_and_breaks_of_an_input_are_found():
    """A muscle whose ends are held: when stimulation begins and ends, both levels of the clock and
    the duration of its ramp, from the force alone; gradients as before."""
    rate = sp.Function("rate")(ks.t)
    stretch = sp.Function("stretch")(ks.t)
    muscle = kh.FESMuscle("m", rate=rate, F0=F0, k0=3e4, ks=2e4, Lc0=0.1)
    model = ks.Model("held", [stretch], [rate], [], [stretch.diff(ks.t) - rate])
    hybrid = kh.Hybrid(model, muscles=[muscle])
    on, off, ramp, up, down = sp.symbols("on off ramp up down")
    fall = -(up + down) / ramp
    signal = (
        [-1, on, off, off + ramp * up / (up + down), off + ramp],
        [-down, up, up, 0, -down],
        [0, 0, fall, fall, 0],
    )
    true = {F0: 900.0, "on": 0.08, "off": 0.4, "ramp": 0.05, "up": 18.0, "down": 12.0}
    start = {stretch: 0.0, **muscle.rest}
    number = {s: true[s.name] for s in (on, off, ramp, up, down)}
    told = ks.Signal.pieces(*[[float(sp.S(e).subs(number)) for e in row] for row in signal])
    time = np.linspace(0.0, 0.8, 161)
    inputs = {rate: ks.Signal.pieces([0.0, 0.2, 0.3], [0.0, 0.1, 0.0]), muscle.clock: told}
    run = ks.simulate(hybrid, time, start, {F0: 900.0}, inputs)
    noise = 2.0 * np.random.default_rng(5).standard_normal(len(time))
    inputs[muscle.clock] = ks.Signal.pieces(*signal)
    trial = ks.Experiment(time, inputs, {"m_F": run["m_F"] + noise}, {"m_F": 2.0})
    unknown = {
        F0: (100, 3000),
        on: (0.01, 0.15),
        off: (0.3, 0.5),
        ramp: (0.005, 0.1),
        up: (1, 80),
        down: (1, 80),
    }
    shooting = ks.Shooting(hybrid, trial, unknown, initial=start, rtol=1e-10)
    # Breaks between samples: beside a jump of the rate a sample has two slopes
    guess = {F0: 1000.0, on: 0.0617, off: 0.4187, ramp: 0.0367, up: 15.0, down: 10.0}
    q = shooting.pack(guess)
    adjoint = shooting.gradient(q)
    np.testing.assert_allclose(adjoint, shooting.gradient(q, mode="forward"), rtol=1e-9)
    np.testing.assert_allclose(adjoint, differences(shooting, q, 1e-4), rtol=1e-6)
    fit = shooting.solve(guess, "least-squares")
    errors = fit.standard_errors()
    for name, value in zip(fit.names, fit.values, strict=True):
        expected = true.get(name, true.get(F0))
        assert abs(value - expected) < 3.0 * errors[name], name
    late = {**guess, off: 0.3, on: 0.15, ramp: 0.005}
    assert np.isfinite(shooting.cost(late))


def test_inputs_of_many_kinds():
    """A number, samples, a hold and pieces give the same run."""
    x, u = ks.dynamicsymbols("x u")
    hybrid = kh.Hybrid(ks.Model("sum", [x], [u], [F0], [x.diff(ks.t) - F0 * u]))
    time = np.linspace(0.0, 1.0, 11)
    measured = {x: 2.0 * time}
    one = sp.Symbol("one")
    ways = [
        1.0,
        np.ones(11),
        ks.Signal(time[:-1], np.ones(10), "held"),
        ks.Signal([0.0, 0.3, 2.0], np.ones(3)),
        ks.Signal([0.0, 0.3, 0.5, 2.0], np.ones(4), "cubic"),
        ks.Signal.pieces([0.0, 0.5], [1.0, 1.0]),
        ks.Signal.pieces([0.0, one / 3], [one, 1.0]),
        one,
    ]
    for way in ways:
        trial = ks.Experiment(time, {u: way}, measured)
        known = {one: 1.0} if getattr(way, "expressions", way is one) else {}
        shooting = ks.Shooting(hybrid, trial, {F0: None}, known, initial={x: 0.0})
        fit = shooting.solve(optimizer="least-squares")
        assert fit.parameters[F0] == pytest.approx(2.0, rel=1e-8)


# -- bad input ------------------------------------------------------------------------------------


def bad(match, hybrid=BALL, trials=None, **given):
    trial = ks.Experiment(TIME, measurements={y: np.ones(len(TIME))})
    given = {"unknown": {g: None}, "initial": {y: 1.0, v: 0.0}, **given}
    with pytest.raises(ValueError, match=match):
        ks.Shooting(hybrid, trial if trials is None else trials, **given)


def measuring(name):
    return ks.Experiment(TIME, measurements={name: np.ones(len(TIME))})


def test_what_does_not_fit():
    bad(r"expected a kinesym\.Model or kinesym\.hybrid\.Hybrid, got 'ball'", hybrid="ball")
    bad("trials must be an Experiment or a list of them", trials=[])
    bad(
        "the objective is the least squares of the measurements, but the experiment has none",
        trials=ks.Experiment(TIME),
    )
    bad("measurement w is neither a state, an input nor an output of", trials=measuring("w"))
    bad("needs a known duration", trials=ks.Experiment(nodes=5, duration=(1, 2)))
    bad("unknown: G is unknown; known are: g, m", unknown={"G": None})
    bad("nothing is unknown", unknown={})
    bad("parameter g is both known and unknown", known={g: 9.0})
    bad("initial value of state v is missing", initial={y: 1.0})
    bad("bounds of g are crossed", unknown={g: (2, 1)})
    bad("rtol must be positive, got 0", rtol=0)
    bad("initial: roof is unknown; known are: y, v, floor", initial={y: 1.0, v: 0.0, "roof": True})
    bad("initial floor is True or False, got 1", initial={y: 0.0, v: 0.0, "floor": 1})
    bad("inputs of trial 0: u is unknown", trials=ks.Experiment(TIME, {"u": 1.0}, {y: TIME}))


def test_inputs_that_do_not_fit():
    x, u = ks.dynamicsymbols("x u")
    hybrid = kh.Hybrid(ks.Model("sum", [x], [u], [F0], [x.diff(ks.t) - F0 * u]))
    time = np.linspace(0.0, 1.0, 11)
    on = sp.Symbol("on")

    def trial(**inputs):
        return ks.Experiment(time, inputs, {x: time})

    def pieces(*rows):
        return trial(u=ks.Signal.pieces(*rows))

    def refused(words, trials):
        bad(words, hybrid, trials, unknown={F0: None}, initial={x: 0.0})

    refused("input u has no data in trial 0", trial())
    refused("inputs of trial 0: w is unknown", trial(u=1.0, w=1.0))
    refused("not of functions of time", pieces([0, 1], [0, x]))
    refused("parameter on has no value", pieces([0, on], [0, 1]))
    refused("input depends on x, which is a state", pieces([0], [sp.Symbol("x")]))
    with pytest.raises(ValueError, match="input u of trial 0 depends on parameters, on"):
        ks.Shooting(hybrid.model, pieces([0, on], [0, 1]), {F0: None}, initial={x: 0.0})
    unknown = {F0: None, on: (-1.0, 0.9)}
    shooting = ks.Shooting(hybrid, pieces([0, on], [0, 1]), unknown, initial={x: 0.0})
    assert np.isfinite(shooting.cost({F0: 1.0, on: 0.5}))
    assert shooting.cost({F0: 1.0, on: -0.5}) == np.inf
    with pytest.raises(ValueError, match="begins of a signal must increase"):
        shooting.trajectories({F0: 1.0, on: -0.5})


def test_guesses_that_do_not_fit(balls):
    with pytest.warns(UserWarning, match=r"the guess of g, 20, is outside its bounds \(8, 11\)"):
        assert balls.cost({g: 20.0}) == balls.cost({g: 11.0})
    with pytest.raises(ValueError, match=r"guess of y has shape \(3,\), expected one number"):
        balls.cost({y: [1.0, 1.0, 1.0]})
    with pytest.raises(ValueError, match="guess: v is unknown"):
        balls.cost({v: 1.0})
    with pytest.raises(ValueError, match=r"shape \(1,\), but there are 3 unknowns"):
        balls.cost([1.0])
    with pytest.raises(ValueError, match="mode is one of"):
        balls.gradient(mode="backward")
    with pytest.raises(ValueError, match="optimizer is one of"):
        balls.solve(optimizer="newton")
    fixed = ks.Shooting(BALL, balls.trials, {g: (9.6, 9.6)}, initial={y: [1.0, 0.7], v: 0.0})
    with pytest.raises(ValueError, match="the bounds of g are equal; give it as known"):
        fixed.solve(optimizer="least-squares")


@pytest.mark.parametrize("loss", [None, "student", "laplace"])
def test_noise_that_depends_on_unknowns(loss):
    """Over impacts, with a standard deviation of unknowns and of what is measured, and a channel
    beside it that has a number."""
    a, b, e = sp.symbols("a b energy")
    run, rng = ks.simulate(BALL, TIME, {y: 1.0, v: 0.0}, {g: 9.6}), np.random.default_rng(4)
    std = np.sqrt(0.01**2 + (0.02 * run["energy"] * run["y"]) ** 2)
    measured = {"y": run["y"] + std * rng.standard_normal(len(TIME)), "v": run["v"] + 0.1}
    measured["y"][7:20] = np.nan
    trial = ks.Experiment(
        TIME, measurements=measured, std={"y": sp.sqrt(a**2 + (b * e * y) ** 2), "v": 0.5}
    )
    unknown = {g: (5, 15), a: ks.log_scale(1e-4, 1), b: (0, 1)}
    objective = 1.5 * ks.LeastSquares(loss=loss)
    shooting = ks.Shooting(BALL, trial, unknown, {m: 0.5}, {y: 1.0, v: 0.0}, objective)
    q = shooting.pack({g: 9.65, a: 0.012, b: 0.03})
    slope = shooting.gradient(q)
    step = 1e-8 if loss == "laplace" else 1e-6  # which passes no kink
    assert slope == pytest.approx(differences(shooting, q, step), rel=1e-5)
    assert shooting.gradient(q, "forward") == pytest.approx(slope, rel=1e-9)
    at = ks.simulate(BALL, TIME, {y: 1.0, v: 0.0}, {g: 9.65})
    s = np.sqrt(0.012**2 + (0.03 * at["energy"] * at["y"]) ** 2)
    rho = {
        None: lambda e: e**2,
        "student": lambda e: 5 * np.log(1 + e**2 / 4),
        "laplace": lambda e: 2 * abs(e),
    }[loss]
    each = rho((at["y"] - measured["y"]) / s) + 2 * np.log(s)
    known = rho((at["v"] - measured["v"]) / 0.5).sum() + np.nansum(each)
    assert shooting.cost(q) == pytest.approx(1.5 * known, rel=1e-6)
    if loss != "laplace":  # whose scores jump
        along, rows = np.array([1.0, 0.01, 0.02]), shooting._trials.rows(q).copy()
        sides = (shooting._trials.change(rows, q + h * along) for h in (1e-6, -1e-6))
        moved, slopes = np.subtract(*sides) / 2e-6, shooting.residual_jacobian(q)
        assert slopes @ along == pytest.approx(moved, rel=1e-5, abs=1e-6 * np.abs(moved).max())
    if loss is None:
        fit = shooting.solve(q, optimizer="least-squares")
        assert fit.success
        assert [fit.parameters[k] for k in "gab"] == pytest.approx([9.6, 0.01, 0.02], rel=0.15)
        assert fit.trials[0].std["y"] == pytest.approx(std, rel=0.2)


@pytest.mark.parametrize("system", [BALL, BALL.model])
def test_losses_that_are_no_density(system):
    """A standard deviation of unknowns beside a loss that tells none: refused with events, too."""
    a = sp.Symbol("a")
    inputs = {} if system is BALL else {lam: 0.0}
    trial = ks.Experiment(TIME, inputs, {y: np.ones(301)}, {y: a * y})
    about = ({g: (5, 15), a: (0.1, 1)}, {m: 0.5}, {y: 1.0, v: 0.0}, ks.LeastSquares("huber"))
    with pytest.raises(ValueError, match="std of y is an expression, and the loss huber is no"):
        ks.Shooting(system, trial, *about)
