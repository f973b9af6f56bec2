"""Parameters by owner: known or unknown per subject and per trial, with priors, on a log scale."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, v = ks.dynamicsymbols("x v")
k, c, m = sp.symbols("k c m")
TIME = np.linspace(0.0, 2.0, 41)


def oscillator():
    """m x'' + c x' + k x = 0."""
    equations = [x.diff(t) - v, m * v.diff(t) + c * v + k * x]
    return ks.Model("oscillator", [x, v], [], [m, c, k], equations, values={m: 1.0})


def swing(stiffness, damping, mass, start, time=TIME):
    """x(t) from rest, exact, for an underdamped one."""
    a, w2 = damping / (2.0 * mass), stiffness / mass
    w = np.sqrt(w2 - a**2)
    return start * np.exp(-a * time) * (np.cos(w * time) + a / w * np.sin(w * time))


def record(stiffness, damping, mass, start=1.0, seed=0, **more):
    """A trial with noise of 0.01."""
    clean = swing(stiffness, damping, mass, start)
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(TIME))
    return ks.Experiment(TIME, measurements={x: clean + noise}, std={x: 0.01}, **more)


# -- known per trial --------------------------------------------------------------------------


MASSES = (1.0, 1.7, 2.4)


def known_per_trial():
    return [
        record(20.0, 0.4, mass, seed=n, parameters={m: mass}, labels={"subject": f"s{n}"})
        for n, mass in enumerate(MASSES)
    ]


def test_masses_known_per_trial_are_those_of_an_input():
    """The same problem with the mass as a known input that is constant in each trial."""
    trials = known_per_trial()
    own = ks.Collocation(oscillator(), trials, unknown={k: (1, 100), c: (0, 10)})
    found = own.solve(guess={k: 10.0, c: 1.0})
    mass = ks.dynamicsymbols("mass")
    varied = ks.Model(
        "varied",
        [x, v],
        [mass],
        [c, k],
        [x.diff(t) - v, mass * v.diff(t) + c * v + k * x],
    )
    others = [
        ks.Experiment(TIME, {mass: value}, trial.measurements, trial.std)
        for value, trial in zip(MASSES, trials, strict=True)
    ]
    other = ks.Collocation(varied, others, unknown={k: (1, 100), c: (0, 10)})
    same = other.solve(guess={k: 10.0, c: 1.0})
    for name in ("k", "c"):
        assert abs(found.parameters[name] - same.parameters[name]) < 1e-8
    np.testing.assert_allclose(own.covariance(found), other.covariance(same), rtol=1e-6)
    shifts, others = found.grid_error().parameters, same.grid_error().parameters
    for name in ("k", "c"):
        assert abs(shifts[name] - others[name]) < 1e-6 * abs(others[name])
    assert [run.parameters["m"] for run in found.trials] == list(MASSES)
    assert "m" not in found.known
    refined = own.refined(found, 1e-8)
    assert refined.trials[1].parameters == {"m": 1.7}
    assert refined.trials[1].labels == {"subject": "s1"}


@pytest.mark.parametrize("method", ["rk4", "radau-3"])
def test_masses_known_per_trial_in_shooting(method):
    problem = ks.Shooting(
        oscillator(),
        known_per_trial(),
        unknown={k: (1, 100), c: (0, 10)},
        initial={x: 1.0, v: 0.0},
        method=method,
    )
    q = problem.pack({k: 15.0, c: 0.7})
    slopes = problem.gradient(q)
    np.testing.assert_allclose(problem.gradient(q, "forward"), slopes, rtol=1e-10)
    parts = 0.0
    for trial, mass in zip(known_per_trial(), MASSES, strict=True):
        alone = ks.Experiment(TIME, measurements=trial.measurements, std=trial.std)
        one = ks.Shooting(
            oscillator(),
            alone,
            unknown={k: (1, 100), c: (0, 10)},
            known={m: mass},
            initial={x: 1.0, v: 0.0},
            method=method,
        )
        parts = parts + one.gradient(one.pack({k: 15.0, c: 0.7}))
    np.testing.assert_allclose(slopes, parts, rtol=1e-12)
    fit = problem.solve({k: 15.0, c: 0.7}, "least-squares")
    assert abs(fit.parameters["k"] - 20.0) < 0.3
    assert [run.parameters["m"] for run in fit.trials] == list(MASSES)


def test_bad_values_of_trials():
    trials = known_per_trial()
    free = {k: None, c: None}
    bare = ks.Experiment(TIME, measurements={x: np.ones(41)})
    with pytest.raises(ValueError, match="m has a value in trial 0 and none in trial 3"):
        ks.Collocation(oscillator(), [*trials, bare], unknown=free)
    with pytest.raises(ValueError, match="m has a value in each trial and is unknown"):
        ks.Collocation(oscillator(), trials, unknown={**free, m: None})
    with pytest.raises(ValueError, match="m has a value in each trial and is known for all"):
        ks.Collocation(oscillator(), trials, unknown=free, known={m: 1.0})
    with pytest.raises(
        ValueError, match="parameters of trial 0: mas is unknown; known are: m, c, k"
    ):
        ks.Collocation(oscillator(), record(20, 0.4, 1, parameters={"mas": 1.0}), unknown=free)
    with pytest.raises(ValueError, match="parameters: m must be one finite number"):
        record(20, 0.4, 1, parameters={m: [1.0, 2.0]})
    with pytest.raises(ValueError, match="the label trial is the number"):
        record(20, 0.4, 1, labels={"trial": 1})
    with pytest.raises(ValueError, match="the label subject must be text"):
        record(20, 0.4, 1, labels={"subject": 1.5})
    linked = ks.Phases(trials, links=[m * ks.at_start(x) - ks.at_end(x)])
    with pytest.raises(ValueError, match="depends on parameter m, which has a value of its own"):
        ks.Collocation(oscillator(), linked, unknown=free)
