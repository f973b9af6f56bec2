"""Channels that are expressions of what a model has: bias, gain, another unit."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, v, F = ks.dynamicsymbols("x v F")
k, c, b, g = sp.symbols("k c b g")
TIME = np.linspace(0.0, 6.0, 121)
OFF = np.linspace(0.013, 5.99, 400)
STD = 0.01


def oscillator():
    equations = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v - F]
    return ks.Model("oscillator", [x, v], [F], [k, c], equations, outputs={"push": F})


def run(time, scale=1.0):
    """Released from 1 m."""
    made = ks.simulate(
        oscillator(), time, {x: scale, v: 0.0}, {k: 4.0, c: 0.3}, {F: 0.0}, method="dormand-prince"
    )
    return made["x"], made["v"]


def measured(bias, gain, seed, scale=1.0):
    """A displacement at the nodes, a gyroscope with bias and gain at times of its own."""
    rng = np.random.default_rng(seed)
    here, (_, speed) = run(TIME, scale)[0], run(np.append(0.0, OFF), scale)
    gyro = gain * speed[1:] + bias + STD * rng.standard_normal(len(OFF))
    rows = {x: here + STD * rng.standard_normal(len(TIME)), "gyro": ks.Signal(OFF, gyro)}
    return {"inputs": {F: 0.0}, "measurements": rows, "std": {x: STD, "gyro": STD}}


UNKNOWN = {k: (1.0, 9.0), c: (0.0, 2.0), b: (-1.0, 1.0), g: (0.1, 5.0)}
SENSORS = {"gyro": ks.sensor(v, bias=b, gain=g)}


def holds(result, names, values, errors=4.0):
    for name, value in zip(names, values, strict=True):
        row = result.parameters.table[name]
        assert 0.0 < row.standard_error < 0.02
        assert abs(result.parameters[name] - value) < errors * row.standard_error


def test_bias_and_gain():
    """By collocation; the model has neither."""
    model, trial = oscillator(), ks.Experiment(TIME, **measured(0.2, 1.7, 0))
    problem = ks.Collocation(model, trial, unknown=UNKNOWN, sensors=SENSORS)
    found = problem.solve(guess={k: 3.0, c: 0.1, g: 1.0})
    assert found.success and not found.notes
    holds(found, "kcbg", (4.0, 0.3, 0.2, 1.7))
    assert model.parameter_names == ("k", "c") and "gyro" not in model.outputs
    speed = found.trials[0]["v"]
    expected = found.parameters["g"] * speed + found.parameters["b"]
    np.testing.assert_allclose(found.trials[0]["gyro"], expected, rtol=1e-12)
    again = ks.Collocation(model, trial, unknown=UNKNOWN, sensors=SENSORS)
    assert again.model is problem.model and again.program is problem.program


def test_shooting_finds_the_same():
    trial = ks.Experiment(TIME, **measured(0.2, 1.7, 0))
    shared = {"unknown": UNKNOWN, "sensors": SENSORS}
    task = ks.Shooting(oscillator(), trial, initial={x: None, v: None}, **shared)
    fit = task.solve({k: 3.0, c: 0.1, b: 0.0, g: 1.0})
    solution = ks.Collocation(oscillator(), trial, scheme="radau-5", **shared).solve(fit)
    for name in "kcbg":
        assert fit.parameters[name] == pytest.approx(solution.parameters[name], rel=1e-5)
    holds(fit, "kcbg", (4.0, 0.3, 0.2, 1.7))


def test_a_bias_per_trial_and_a_gain_that_is_known():
    trials = [
        ks.Experiment(TIME, **measured(bias, 1.7, seed, scale), parameters={g: 1.7})
        for seed, (bias, scale) in enumerate([(0.2, 1.0), (-0.4, 0.7)])
    ]
    unknown = {k: (1.0, 9.0), c: (0.0, 2.0), b: ks.per_trial(-1, 1)}
    problem = ks.Collocation(oscillator(), trials, unknown=unknown, sensors=SENSORS)
    found = problem.solve(guess={k: 3.0, c: 0.1})
    holds(found, ["k", "c", "b[0]", "b[1]"], (4.0, 0.3, 0.2, -0.4))


def test_another_unit_without_parameters():
    """And with time: a sensor that drifts."""
    here, _ = run(TIME)
    drift = {"camera": 1000 * x + b * ks.t}
    trial = ks.Experiment(TIME, {F: 0.0}, {"camera": 1000 * here + 3.0 * TIME}, {"camera": 1.0})
    problem = ks.Collocation(
        oscillator(),
        trial,
        unknown={b: None},
        known={k: 4.0, c: 0.3},
        sensors=drift,
        scheme="radau-5",
    )
    assert problem.solve().parameters["b"] == pytest.approx(3.0, rel=1e-5)


def test_of_a_hybrid_model():
    """A bouncing ball whose height is measured in millimetres, with a bias, off the grid."""
    y, w = ks.dynamicsymbols("y w")
    fall = ks.Model("ball", [y, w], [], [c], [y.diff(ks.t) - w, w.diff(ks.t) + c])
    ball = ks.hybrid.Hybrid(
        fall, events=[ks.hybrid.Event("bounce", y, direction=-1, resets={w: -0.8 * w})]
    )
    times = np.append(0.0, np.linspace(0.01, 1.47, 40))
    found = ks.simulate(ball, times, {y: 1.0, w: 0.0}, {c: 9.81})
    height = ks.Signal(times, 1000 * found["y"] + 12.0)
    trial = ks.Experiment(np.linspace(0.0, 1.5, 31), measurements={"mm": height}, std={"mm": 1.0})
    task = ks.Shooting(
        ball,
        trial,
        {c: (5.0, 15.0), b: (-50, 50)},
        initial={y: 1.0, w: 0.0},
        sensors={"mm": 1000 * y + b},
    )
    fit = task.solve({c: 9.5, b: 0.0})
    assert fit.parameters["c"] == pytest.approx(9.81, rel=1e-6)
    assert fit.parameters["b"] == pytest.approx(12.0, rel=1e-5)
    assert "mm" not in fall.outputs


def test_expression():
    assert ks.sensor(x) == x
    assert ks.sensor(x + v, bias=b, gain=2) == 2 * (x + v) + b


other = sp.Symbol("k", positive=True)


@pytest.mark.parametrize(
    ("sensors", "words"),
    [
        ({"x": x + b}, "sensor x has the name of a state of model oscillator; choose another"),
        ({"push": x + b}, "sensor push has the name of an output"),
        ({x: x + b}, "the name of a sensor must be a text such as 'imu', got x"),
        ({"imu": ks.dynamicsymbols("q")}, "contains q.*neither a state nor an input of model"),
        ({"imu": other * x}, "a symbol k that is not that of model oscillator, as it was made"),
        ({"imu": x + b}, "parameter b has no value; give known="),
        ({"imu": "x"}, "sensor 'imu'"),
        ([x], "sensors must be"),
        ({"imu": x.diff(ks.t, 2)}, "imu"),
    ],
)
def test_bad_sensors(sensors, words):
    trial = ks.Experiment(TIME, {F: 0.0}, {x: 0 * TIME})
    for kind, more in ((ks.Collocation, {}), (ks.Shooting, {"initial": {x: 0.0, v: 0.0}})):
        with pytest.raises(ValueError, match=words):
            kind(oscillator(), trial, unknown={k: None}, known={c: 1.0}, sensors=sensors, **more)


def test_a_sensor_that_nobody_named():
    trial = ks.Experiment(TIME, {F: 0.0}, {"imu": 0 * TIME})
    with pytest.raises(ValueError, match="measurement imu is neither a state, an input nor an out"):
        ks.Collocation(oscillator(), trial, unknown={k: None}, known={c: 1.0})
