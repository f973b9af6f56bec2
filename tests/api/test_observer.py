"""Fits led over an observer of the record: its poles, what it is tied to, and what it finds."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.problems import observer
from kinesym.runtime.results.diagnostics import ChannelCheck
from kinesym.runtime.shooting.identification import Identification
from kinesym.runtime.shooting.minimising import Minimised
from kinesym.runtime.shooting.scaled import Endpoint
from kinesym.runtime.signals.timed import TimedSamples
from kinesym.runtime.status import Solve
from kinesym.symbolic.declared import Explicit
from kinesym.symbolic.homotopy import HOMOTOPY

x, v, y = ks.dynamicsymbols("x v y")
a, b, c, d = sp.symbols("a b c d")
MASS = ks.Model("mass", [x, v], [], [], [x.diff(ks.t) - v, v.diff(ks.t)])
PREY = ks.Model(
    "prey",
    [x, y],
    [],
    [a, b, c, d],
    [x.diff(ks.t) - (a * x - b * x * y), y.diff(ks.t) - (c * x * y - d * y)],
    values={a: 1.1, b: 0.4, c: 0.1, d: 0.4},
)
SWING = {"theta": 0.5, "omega": 0.0}


def swings(nodes=300, seed=7, noise=0.1, start=SWING):
    """50 s of a pendulum with p = 10, and its noisy angle."""
    time = np.linspace(0.0, 50.0, nodes)
    run = ks.simulate(ks.models.pendulum(), time, start, substeps=8)
    return time, run["theta"] + noise * np.random.default_rng(seed).standard_normal(nodes)


def fitted(model, trials, start=SWING, **more):
    return ks.Shooting(model, trials, {"p": (0.1, 200.0)}, initial=start, substeps=4, **more)


# -- the observer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [MASS, MASS.solved_by(Explicit((), (v, sp.S.Zero)))])
def test_both_poles_of_a_mass(mass):
    """A mass whose position is tied to zero: x = (1 - k t) exp(-k t) from x = 1 at rest; also where
    its rates are solved for."""
    time, k = np.linspace(0.0, 4.0, 81), 1.5
    trial = ks.Experiment(time, measurements={"x": np.zeros(81)})
    made = observer.observer(mass, trial)
    inputs = {"record_x": 0.0, "pole_x": k}
    run = ks.simulate(made.model, time, {"x": 1, "v": 0}, {HOMOTOPY: 0}, inputs, substeps=10)
    np.testing.assert_allclose(run["x"], (1 - k * time) * np.exp(-k * time), atol=1e-7)
    run = ks.simulate(made.model, time, {"x": 1, "v": 2}, {HOMOTOPY: 1}, inputs)
    np.testing.assert_allclose(run["x"], 1 + 2 * time, rtol=1e-12)  # the mass itself


def test_an_output_that_rises_with_a_state():
    """The output is what nears the record with the pole: log y = 2 + (log 3 - 2) exp(-k t)."""
    time, k = np.linspace(0.0, 4.0, 81), 1.5
    still = ks.Model("still", [y], [], [], [y.diff(ks.t)], outputs={"e": sp.log(y)})
    trial = ks.Experiment(time, measurements={"e": np.full(81, 2.0)})
    made = observer.observer(still, trial)
    inputs = {"record_e": 2.0, "pole_e": k}
    run = ks.simulate(made.model, time, {"y": 3.0}, {HOMOTOPY: 0}, inputs, substeps=10)
    expected = 2.0 + (np.log(3.0) - 2.0) * np.exp(-k * time)
    np.testing.assert_allclose(np.log(run["y"]), expected, atol=1e-7)


def test_poles_follow_samples_and_steps():
    """0.5 over the time between samples, weak over a gap, nothing outside of the record."""
    grid = np.linspace(0.0, 10.0, 101)
    rng = np.random.default_rng(1)  # white: it changes from sample to sample
    row = rng.standard_normal(101)
    row[:11] = row[51:71] = row[91:] = np.nan
    poles = observer._poles(grid, TimedSamples(grid, row))
    assert poles[5] == poles[95] == 0.0
    assert poles[30] == pytest.approx(5.0)
    assert poles[60] == pytest.approx(0.5 / 2.1)
    dense = TimedSamples(np.linspace(0.0, 10.0, 1001), rng.standard_normal(1001))
    assert observer._poles(grid, dense)[50] == pytest.approx(5.0)  # as the steps
    assert not observer._poles(grid, TimedSamples(grid[:1], np.ones(1))).any()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_time_of_change(noise):
    """cos(w s) = 1/2 at s = pi / (3 w), with noise or without."""
    time = np.linspace(0.0, 60.0, 2001)
    row = np.sin(2.0 * time) + noise * np.random.default_rng(2).standard_normal(2001)
    found = observer._change(TimedSamples(time, row))
    assert found == pytest.approx(np.pi / 6, rel=0.1)


# -- shooting --------------------------------------------------------------------------------------


def test_missing_samples_other_units_own_times():
    """Two trials: degrees with a gap, and samples at times of their own."""
    time, theta = swings(200)
    pendulum = ks.models.pendulum()
    shown = {"degrees": 180 / sp.pi * pendulum.states[0]}
    one = np.degrees(theta)
    one[80:110] = one[7] = np.nan
    other = {"theta": 0.9, "omega": 0.0}
    later, angle = swings(250, 8, start=other)
    trials = [
        ks.Experiment(time, measurements={"degrees": one}, std={"degrees": 6.0}),
        ks.Experiment(time, measurements={"theta": ks.Signal(later, angle)}, std={"theta": 0.1}),
    ]
    problem = fitted(pendulum, trials, [SWING, other], sensors=shown)
    best = problem.solve({"p": 10.0})
    for guess in (2.0, 40.0):
        assert problem.solve({"p": guess}).objective > 2.0 * best.objective
        fit = problem.solve({"p": guess}, ladder=True)
        assert fit.objective == pytest.approx(best.objective, rel=1e-9)
        assert fit.ladder[1].startswith("homotopy 0:")
    assert "homotopy" not in fit.known
    assert not fit.trials[0].inputs


@pytest.mark.filterwarnings("ignore:the model is unstable")
def test_one_of_two_states_is_measured():
    """From a start from which plain shooting ends in another minimum."""
    time = np.linspace(0.0, 40.0, 201)
    start = {"x": 10.0, "y": 5.0}
    run = ks.simulate(PREY, time, start, substeps=4)
    samples = run["x"] + 0.3 * np.random.default_rng(1).standard_normal(201)
    unknown = dict.fromkeys(PREY.parameters, (1e-3, 1e2))
    trial = ks.Experiment(time, measurements={"x": samples}, std={"x": 0.3})
    problem = ks.Shooting(PREY, trial, unknown, initial=start, substeps=4)
    best = problem.solve(optimizer="least-squares")
    guess = {"a": 0.3, "b": 1.0, "c": 0.3, "d": 1.0}
    assert problem.solve(guess, "least-squares").objective > 10.0 * best.objective
    fit = problem.solve(guess, "least-squares", ladder=True)
    assert fit.objective == pytest.approx(best.objective, rel=1e-9)


def test_a_good_fit_is_not_sought_again():
    time, theta = swings()
    problem = fitted(ks.models.pendulum(), ks.Experiment(time, measurements={"theta": theta}))
    fit = problem.solve({"p": 9.99}, ladder=True)
    assert fit.success and len(fit.ladder) == 1
    assert fit.notes == problem.solve({"p": 9.99}).notes


def test_from_where_no_simulation_reaches_its_end():
    """x' = a x^2 from 1 is infinite at 1/a; the record ends before 2, with a = 1/2."""
    model = ks.Model("tower", [x], [], [a], [x.diff(ks.t) - a * x**2])
    time = np.linspace(0.0, 1.5, 61)
    samples = 1.0 / (1.0 - 0.5 * time)
    trial = ks.Experiment(time, measurements={"x": samples})
    problem = ks.Shooting(model, trial, {a: None}, initial={"x": 1.0}, substeps=2)
    with pytest.raises(ValueError, match="diverged"):
        problem.solve({a: 4.0})
    fit = problem.solve({a: 4.0}, ladder=True)
    assert fit.parameters["a"] == pytest.approx(0.5, rel=1e-5)
    assert fit.ladder[0] == "from the guess: a simulation does not reach its end"


def test_a_declared_homotopy_is_led():
    """By shooting as by collocation; one that cannot leave its start says so."""
    time, theta = swings()
    pendulum = ks.models.pendulum()
    angle, rate = pendulum.states
    theta_m = ks.dynamicsymbols("theta_m")
    tie = ks.homotopy(0, 1) * (theta_m - angle)

    def problem(force):
        p = pendulum.parameters[0]
        equations = [angle.diff(ks.t) - rate - 2 * tie, rate.diff(ks.t) + p * sp.sin(angle) - force]
        model = ks.Model("mine", [angle, rate], [theta_m], [p, HOMOTOPY], equations)
        return fitted(model, ks.Experiment(time, {"theta_m": theta}, {"theta": theta}))

    fit = problem(tie).solve({"p": 40.0}, ladder=True)
    assert fit.parameters["p"] == pytest.approx(10.0, abs=0.05)
    lost = problem(ks.homotopy(0, 1) * 1e6 * rate**3).solve({"p": 40.0}, ladder=True)
    assert any("cannot leave its start" in line for line in lost.ladder)


def test_ctrl_c_keeps_the_fit_from_the_guess(monkeypatch):
    time, theta = swings()
    problem = fitted(ks.models.pendulum(), ks.Experiment(time, measurements={"theta": theta}))
    plain = problem.solve({"p": 40.0})
    end = Endpoint(np.array([3.0]), Solve.INTERRUPTED, "interrupted")
    rung = Minimised(end, None, np.ones(1), 0.0, [])
    monkeypatch.setattr(Identification, "minimum", lambda *given: rung)
    fit = problem.solve({"p": 40.0}, ladder=True)
    assert fit.objective == plain.objective
    assert len(fit.ladder) == 3


@pytest.mark.parametrize(
    ("vaf", "white", "correlation", "explained"),
    [
        (99.0, 0.4, 0.02, True),
        (99.0, 1e-9, 0.6, False),  # a part of it has a course
        (99.0, np.nan, 0.0, False),  # too few samples tell
        (99.995, 1e-9, 0.6, True),
        (30.0, 0.4, 0.02, False),  # out of phase with sparse samples may look white
        (np.nan, 0.4, 0.02, False),
    ],
)
def test_what_counts_as_explained(vaf, white, correlation, explained):
    check = ChannelCheck("x", 0, 100, 0.1, 0.1, vaf, white, 1, correlation, 0.5)
    assert check.explained == explained


# -- collocation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("guess", [2.0, 30.0, 150.0])
def test_collocation_of_a_noisy_record(guess):
    """Much noise lets collocation be caught, too, unless it is led over the observer."""
    time, theta = swings(600, 6, 0.2)
    trial = ks.Experiment(time, measurements={"theta": theta})
    about = (ks.models.pendulum(), trial, {"p": (0.01, 1e4)})
    problem = ks.Collocation(*about, homotopy="data")
    best = problem.solve({"p": 10.0})
    caught, plain = problem.solve({"p": guess}), ks.Collocation(*about).solve({"p": guess})
    np.testing.assert_array_equal(caught.free_vector, plain.free_vector)
    assert caught.objective > 4.0 * best.objective
    found = problem.solve({"p": guess}, ladder=True)
    assert found.objective == pytest.approx(best.objective, rel=1e-9)
    assert found.notes[-1].startswith(f"the plain solve ended objective {caught.objective:.6g};")
    assert not problem.solve({"p": 9.9}, ladder=True).ladder


# -- bad input -------------------------------------------------------------------------------------


def test_what_cannot_be_tied():
    time = np.linspace(0.0, 1.0, 21)
    some = np.sin(time)

    def posed(model, measured, **more):
        trial = ks.Experiment(time, measurements=dict.fromkeys(measured, some))
        return ks.Collocation(model, trial, **{"homotopy": "data", **more})

    with pytest.raises(ValueError, match="homotopy is one of data, got 'nonsense'"):
        posed(MASS, ["x"], homotopy="nonsense")
    with pytest.raises(ValueError, match="nothing is measured; measure a state"):
        posed(MASS, [])
    with pytest.raises(ValueError, match="measured is s; measure a state"):
        posed(MASS, ["s"], sensors={"s": sp.sin(x)})
    with pytest.raises(ValueError, match="needs times of samples"):
        trial = ks.Experiment(nodes=21, duration=(1, 2), measurements={"x": some})
        ks.Collocation(MASS, trial, homotopy="data")
    with pytest.raises(ValueError, match="for phases and hybrid"):
        phases = ks.Phases([ks.Experiment(time), ks.Experiment(time)])
        ks.Collocation([MASS, MASS], phases, homotopy="data")
    F = ks.dynamicsymbols("F")
    bound = ks.Model("bound", [x, v, F], [], [], [x.diff(ks.t) - v, v.diff(ks.t) - F, x])
    with pytest.raises(ValueError, match="constraints of model bound"):
        posed(bound, ["x"])
