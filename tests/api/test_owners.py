"""Parameters by owner: known or unknown per subject and per trial, with priors, on a log scale."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import least_squares

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


# -- unknown per owner ------------------------------------------------------------------------


#: Of each trial its subject, the stiffness that all share, damping of the subject, mass.
STIFFNESS, DAMPING = 20.0, {"anna": 0.4, "ben": 0.9, "cleo": 0.6}
SUBJECTS = ["ben", "anna", "ben", "cleo", "anna"]
UNKNOWN = {k: (1, 100), c: ks.per("subject", (0, 10))}


def of_subjects(**more):
    return [
        record(STIFFNESS, DAMPING[who], 1.0, seed=n, labels={"subject": who}, **more)
        for n, who in enumerate(SUBJECTS)
    ]


def test_owners_in_z():
    problem = ks.Collocation(
        oscillator(), of_subjects(), unknown={m: ks.per_trial(0.5, 3), **UNKNOWN}
    )
    layout = problem.layout
    assert layout.parameters == (
        "k",
        *(f"m[{n}]" for n in range(5)),
        *("c[ben]", "c[anna]", "c[cleo]"),
    )
    low, high = problem.variable_bounds
    begin = layout.parameter_offset
    np.testing.assert_array_equal(low[begin:], [1.0, *5 * [0.5], *3 * [0.0]])
    np.testing.assert_array_equal(high[begin:], [100.0, *5 * [3.0], *3 * [10.0]])
    assert problem.variable_name(begin + 7) == "parameter c[anna]"
    z = problem.pack({k: 15, c: {"ben": 0.5}, "c[cleo]": 0.7, m: 1.5})
    assert problem.unpack(z)["c[ben]"] == 0.5
    assert problem.unpack(z)["c[cleo]"] == 0.7
    assert problem.unpack(z)["m[3]"] == 1.5
    assert list(layout.parameters_of(z, 2)) == [1.5, 0.5, 15.0]  # m, c, k of the model


def test_each_owner_has_its_estimate():
    """The optimum of all is that of SciPy's least squares of all exact trajectories."""
    problem = ks.Collocation(oscillator(), of_subjects(), unknown=UNKNOWN, scheme="radau-5")
    found = problem.solve(guess={k: 15.0, c: 1.0})
    trials, names = of_subjects(), ["ben", "anna", "cleo"]

    def exact(stiffness, damping, start, speed):
        w = np.sqrt(stiffness - damping**2 / 4.0)
        wave = start * np.cos(w * TIME) + (speed + damping / 2 * start) / w * np.sin(w * TIME)
        return np.exp(-damping / 2.0 * TIME) * wave

    def residuals(q):
        rows = [
            exact(q[0], q[1 + names.index(who)], *q[4 + 2 * n : 6 + 2 * n])
            - trial.measurements["x"]
            for n, (who, trial) in enumerate(zip(SUBJECTS, trials, strict=True))
        ]
        return np.concatenate(rows) / 0.01

    start = [20.0, 0.5, 0.5, 0.5, *5 * [1.0, 0.0]]
    q = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert list(found.parameters) == ["k", "c[ben]", "c[anna]", "c[cleo]"]
    np.testing.assert_allclose(list(found.parameters.values()), q.x[:4], rtol=2e-5)
    covariance = np.linalg.inv(q.jac.T @ q.jac)[:4, :4]
    size = np.sqrt(np.diag(covariance))
    shares = (problem.covariance(found) - covariance) / np.outer(size, size)
    assert np.abs(shares).max() < 5e-3  # SciPy's has no second derivatives
    assert [run.parameters["c"] for run in found.trials] == [
        found.parameters[f"c[{who}]"] for who in SUBJECTS
    ]
    error = found.grid_error()
    assert list(error.parameters) == list(found.parameters)
    assert not error.matters


def test_subjects_that_share_nothing_are_separate_fits():
    unknown = {k: ks.per("subject", (1, 100)), c: ks.per("subject", (0, 10))}
    trials = of_subjects()
    both = ks.Collocation(oscillator(), trials, unknown=unknown)
    found = both.solve(guess={k: 15.0, c: 1.0})
    wide = both.covariance(found)
    for who in DAMPING:
        mine = [trial for trial, name in zip(trials, SUBJECTS, strict=True) if name == who]
        alone = ks.Collocation(oscillator(), mine, unknown={k: (1, 100), c: (0, 10)})
        one = alone.solve(guess={k: 15.0, c: 1.0})
        names = [f"c[{who}]", f"k[{who}]"]
        at = [list(found.parameters).index(name) for name in names]
        for name, p in zip(names, "ck", strict=True):
            assert abs(found.parameters[name] - one.parameters[p]) < 1e-7
        np.testing.assert_allclose(wide[np.ix_(at, at)], alone.covariance(one), rtol=1e-5)
        for name, p in zip(names, "ck", strict=True):
            shift = found.grid_error().parameters[name]
            assert abs(shift / one.grid_error().parameters[p] - 1.0) < 1e-4


@pytest.mark.parametrize("method", ["rk4", "radau-3"])
def test_owners_in_shooting(method):
    unknown = {m: ks.per_trial(0.5, 3), **UNKNOWN}
    initial = {x: [None] * 5, v: 0.0}
    problem = ks.Shooting(
        oscillator(), of_subjects(), unknown=unknown, initial=initial, method=method
    )
    assert problem.names[:9] == [
        "k",
        *(f"m[{n}]" for n in range(5)),
        *("c[ben]", "c[anna]", "c[cleo]"),
    ]
    q = problem.pack({k: 15.0, c: {"ben": 0.5, "anna": 0.4, "cleo": 0.3}, m: {2: 1.3}})
    assert problem.unpack(q)["m[2]"] == 1.3
    slopes = problem.gradient(q)
    np.testing.assert_allclose(problem.gradient(q, "forward"), slopes, rtol=1e-9)
    np.testing.assert_allclose(problem.gradient(q, "continuous-adjoint"), slopes, rtol=0.2)
    parts = np.zeros(len(q))
    for n, (trial, who) in enumerate(zip(of_subjects(), SUBJECTS, strict=True)):
        alone = ks.Shooting(
            oscillator(),
            ks.Experiment(TIME, measurements=trial.measurements, std=trial.std),
            unknown={m: (0.5, 3), k: (1, 100), c: (0, 10)},
            initial={x: None, v: 0.0},
            method=method,
        )
        values = problem.unpack(q)
        guess = {k: 15.0, c: values[f"c[{who}]"], m: values[f"m[{n}]"]}
        at = alone.pack({**guess, x: values[f"x(0) of trial {n}"]})
        own = dict(zip(alone.names, alone.gradient(at), strict=True))
        places = {"k": "k", "m": f"m[{n}]", "c": f"c[{who}]", "x(0)": f"x(0) of trial {n}"}
        for name, entry in places.items():
            parts[problem.names.index(entry)] += own[name]
    np.testing.assert_allclose(slopes, parts, rtol=1e-10)


def test_fit_of_owners_in_shooting_is_that_of_collocation():
    trials = of_subjects()
    shooting = ks.Shooting(
        oscillator(), trials, unknown=UNKNOWN, initial={x: [None] * 5, v: [None] * 5}
    )
    fit = shooting.solve({k: 15.0, c: 1.0}, "least-squares")
    problem = ks.Collocation(oscillator(), trials, unknown=UNKNOWN, scheme="radau-5")
    found = problem.solve(guess=fit)
    assert found.iterations < 8
    assert list(fit.parameters) == list(found.parameters)
    for name in fit.parameters:
        assert abs(fit.parameters[name] / found.parameters[name] - 1.0) < 1e-4
    errors = np.sqrt(np.diag(problem.covariance(found)))
    given = [fit.standard_errors()[name] for name in found.parameters]
    np.testing.assert_allclose(given, errors, rtol=1e-2)  # one has second derivatives
    back = shooting.pack(found)
    np.testing.assert_allclose(back[:4], list(found.parameters.values()))
    assert [run.parameters["c"] for run in fit.trials] == [
        fit.parameters[f"c[{who}]"] for who in SUBJECTS
    ]


def test_bad_owners():
    trials, model = of_subjects(), oscillator()
    bare = record(20, 0.4, 1.0)
    with pytest.raises(ValueError, match="c has a value per subject, but trial 5 has no label"):
        ks.Collocation(model, [*trials, bare], unknown=UNKNOWN)
    with pytest.raises(ValueError, match="per subjct, but trial 0 has none; did you mean subject"):
        ks.Collocation(model, trials, unknown={**UNKNOWN, c: ks.per("subjct")})
    with pytest.raises(ValueError, match="per subject, but trial 0 has none"):
        ks.Shooting(model, bare, unknown=UNKNOWN, initial={x: 1.0, v: 0.0})
    with pytest.raises(ValueError, match="has a label already, 'trial'"):
        ks.per("subject", ks.per_trial(0, 1))
    with pytest.raises(ValueError, match=r"the label of ks\.per must be letters"):
        ks.per("body side", (0, 1))
    problem = ks.Collocation(model, trials, unknown=UNKNOWN)
    with pytest.raises(ValueError, match="no trial has the subject dora; known are: ben, anna"):
        problem.pack({c: {"dora": 1.0}})
    with pytest.raises(ValueError, match="the guess of k has one value for all trials"):
        problem.pack({k: {"ben": 1.0}})
    linked = ks.Phases(trials, links=[c * ks.at_start(x) - ks.at_end(x)])
    with pytest.raises(ValueError, match="depends on parameter c, which has a value of its own"):
        ks.Collocation(model, linked, unknown=UNKNOWN)
