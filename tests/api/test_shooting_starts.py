"""Many starts of shooting: they end where solves from them end, side by side or one by one."""

import signal
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.examples import pendulum_local_minima as study
from kinesym.internal import shooting_starts
from kinesym.internal.shooting_starts import together

a, b, c, k, d, tau, gain, lag = sp.symbols("a b c k d tau gain lag")
x, y, v, act, force, u = ks.dynamicsymbols("x y v act force u")


def noisy(samples, std, seed=0):
    return samples + std * np.random.default_rng(seed).standard_normal(len(samples))


def pendulum():
    """Two seconds, so that a few swings tell p from others."""
    time = np.linspace(0.0, 2.0, 81)
    run = ks.simulate(ks.models.pendulum(), time, study.START, {"p": 10.0})
    trial = ks.Experiment(time, measurements={"theta": noisy(run["theta"], 0.02)})
    return ks.Shooting(
        ks.models.pendulum(), trial, {"p": (1.0, 20.0)}, initial=study.START
    )


def muscle():
    """Activation of a first order, a force that lags behind and saturates; scales from 0.05 to
    1,500; a stimulation that is held."""
    rates = [
        act.diff(ks.t) - (u - act) / tau,
        force.diff(ks.t) - (gain * act**2 / (act**2 + 0.25) - force) / lag,
    ]
    model = ks.Model("muscle", [act, force], [u], [tau, gain, lag], rates)
    time = np.linspace(0.0, 1.0, 101)
    pulses = ks.Signal(time, (np.sin(12.0 * time) > 0.0).astype(float), "held")
    true, start = {tau: 0.05, gain: 1500.0, lag: 0.12}, {act: 0.0, force: 0.0}
    run = ks.simulate(model, time, start, true, {u: pulses})
    trial = ks.Experiment(time, {u: pulses}, {"force": noisy(run["force"], 10.0)})
    bounds = {tau: (0.01, 0.5), gain: (100.0, 1e4), lag: (0.02, 0.5)}
    return ks.Shooting(model, trial, bounds, initial=start)


def decays(bounds, std=0.02, **more):
    """2 exp(-t) + exp(-5 t), of which every third sample is missing."""
    rates = [x.diff(ks.t) + a * x, y.diff(ks.t) + b * y]
    model = ks.Model("decays", [x, y], [], [a, b, c], rates, outputs={"s": c * x + y})
    time = np.linspace(0.0, 3.0, 61)
    samples = noisy(2.0 * np.exp(-time) + np.exp(-5.0 * time), std)
    samples[1::3] = np.nan
    trial = ks.Experiment(time, measurements={"s": samples})
    return ks.Shooting(model, trial, bounds, initial={x: 1.0, y: 1.0}, **more)


def bounded():
    """The best c and b are at bounds."""
    return decays({a: (0.05, 5.0), b: (2.0, 4.0), c: (0.1, 1.9)})


def springs():
    """Two trials of an oscillator that share the stiffness, with a damping each and an unknown
    start; one measures the rate alone, 400 times as large a number; damping on a logarithmic
    scale, a prior of the stiffness."""
    rates = [x.diff(ks.t) - v, v.diff(ks.t) + k * x + d * v]
    model = ks.Model("spring", [x, v], [], [k, d], rates, outputs={"rate": 400.0 * v})
    trials = []
    for number, damping in enumerate((0.4, 1.2)):
        time = np.linspace(0.0, 4.0, 61 + 20 * number)
        run = ks.simulate(model, time, {x: 0.5, v: 0.0}, {k: 30.0, d: damping})
        name, std = ("x", 0.01) if number else ("rate", 8.0)
        measured = {name: noisy(run[name], std, number)}
        trials.append(ks.Experiment(time, measurements=measured, std={name: std}))
    unknown = {k: ks.normal(31.0, 2.0, 20.0, 45.0), d: ks.per_trial(ks.log_scale(0.05, 5.0))}
    return ks.Shooting(model, trials, unknown, initial={x: (0.1, 1.0), v: 0.0}, substeps=2)


def scales():
    """Unknowns of 1e-6 and 1e6, without bounds, an outlier and a loss for it."""
    rates = [x.diff(ks.t) - 1e-6 * a + b * 1e6 * x]
    model = ks.Model("scales", [x], [], [a, b], rates)
    time = np.linspace(0.0, 4.0, 41)
    samples = noisy(2.0 * (1.0 - np.exp(-time)), 0.02)
    samples[30] = 9.0
    trial = ks.Experiment(time, measurements={"x": samples}, std={"x": 0.02})
    loss = ks.LeastSquares(loss="huber")
    return ks.Shooting(model, trial, {a: None, b: None}, initial={x: 0.0}, objective=loss)


CASES = {
    "pendulum": (pendulum, None, {"p": (6.0, 14.0)}),
    "muscle": (muscle, None, None),
    "bounded": (bounded, None, None),
    "springs": (springs, {"k": 30.0}, {"k": (24.0, 38.0)}),
    "scales": (scales, {a: 1e6, b: 2e-6}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_starts_end_where_solves_end(name):
    make, guess, ranges = CASES[name]
    problem = make()
    found = problem.multistart(12, seed=3, guess=guess, ranges=ranges, keep=2)
    assert len(found) == 12 and set(found.status) == {"converged"}
    q = problem.pack(guess)
    for start, end, J in zip(found.starts, found.ends, found.objective, strict=True):
        q[: len(start)] = start
        fit = problem.solve(q, optimizer="least-squares")
        assert J == pytest.approx(fit.objective, rel=1e-7)
        np.testing.assert_allclose(end, fit.values[: len(end)], rtol=2e-4)
