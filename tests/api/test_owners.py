"""Parameters by owner: known or unknown per subject and per trial, with priors, on a log scale."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import least_squares

import kinesym as ks
from kinesym.internal.fitting.curvature import kkt_of
from kinesym.runtime.shooting.optimizers import OPTIMIZERS
from kinesym.runtime.statistics.block_arrow import block_arrow, reduced, spreads_of
from kinesym.runtime.statistics.undetermined import spreads

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
    assert record(20, 0.4, 1.0, labels={"subject": np.int64(7)}).labels == {"subject": "7"}


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
    with_default = ks.Collocation(oscillator(), [*trials, bare], unknown=free)
    assert with_default.problem.known[3]["m"] == oscillator().values["m"]
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


@pytest.mark.parametrize("make", [ks.Collocation, ks.Shooting])
def test_differences_between_owners_have_intervals(make):
    """Of subjects that share the damping: by the covariance, and by the profile of a problem whose
    unknown is the difference."""
    trials = [record(s, 0.4, 1.0, seed=n, labels={"of": f"{n}"}) for n, s in enumerate((20, 22))]
    start = {"initial": {x: 1.0, v: 0.0}} if make is ks.Shooting else {}
    held = {"boundary": [sp.Eq(ks.at_start(x), 1), sp.Eq(ks.at_start(v), 0)]}
    more = start or held
    unknown = {k: ks.per("of", (1, 100)), c: (0, 10)}
    fit = make(oscillator(), trials, unknown, **more).solve({k: 20.0, c: 0.4})
    one, other = sp.symbols("k[0] k[1]")
    found = fit.interval(other - one)
    names = list(fit.standard_errors())
    rows = [names.index(name) for name in ("k[0]", "k[1]", "c")]
    covariance = fit.covariance[np.ix_(rows, rows)]
    assert found.value == pytest.approx(fit.parameters["k[1]"] - fit.parameters["k[0]"], rel=1e-12)
    way = np.array([-1.0, 1.0, 0.0])
    assert found.standard_error == pytest.approx(np.sqrt(way @ covariance @ way), rel=1e-9)
    share = fit.interval(c / (2 * sp.sqrt(one)))
    slopes = sp.Matrix([c / (2 * sp.sqrt(one))]).jacobian([one, other, c]).subs(fit.parameters)
    slopes = np.array(slopes, dtype=float)[0]
    assert share.standard_error == pytest.approx(np.sqrt(slopes @ covariance @ slopes), rel=1e-9)
    low, high = (
        getattr(fit.interval(other - one, method="profile"), end) for end in ("low", "high")
    )
    assert low == pytest.approx(found.low, abs=0.05 * found.standard_error)
    assert high == pytest.approx(found.high, abs=0.05 * found.standard_error)
    with pytest.raises(ValueError, match=r"k\[2\], which is no parameter; did you mean k\["):
        fit.interval(sp.Symbol("k[2]"))


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
    with pytest.raises(KeyError, match=r"there is no c; it has a value per owner, c\[ben\], c"):
        found.parameters[c]
    with pytest.raises(KeyError, match="there is no stiffness; known are: k, "):
        found.parameters["stiffness"]
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
    phases = ks.Phases([ks.Phase(nodes=5)])
    floor = ks.hybrid.Hybrid(
        ks.Model(
            "ball",
            [x, v],
            [(push := ks.dynamicsymbols("push"))],
            [c],
            [x.diff(t) - v, v.diff(t) + c - push],
        ),
        contacts=[ks.hybrid.Contact("floor", x, push)],
    )
    with pytest.raises(ValueError, match="the phases of a hybrid model share all parameters"):
        ks.Collocation(floor, phases, unknown={c: ks.per_trial(9, 10)})
    linked = ks.Phases(trials, links=[c * ks.at_start(x) - ks.at_end(x)])
    with pytest.raises(ValueError, match="depends on parameter c, which has a value of its own"):
        ks.Collocation(model, linked, unknown=UNKNOWN)


def test_what_is_done_with_a_solution(tmp_path):
    """Simulated again, saved and loaded, taken as a guess by others, refined."""
    unknown = {k: (1, 100), c: ks.per("subject", ks.log_scale(1e-3, 10))}
    problem = ks.Collocation(oscillator(), of_subjects(), unknown)
    found = problem.solve(guess={k: 15.0, c: 1.0})
    assert problem.verify(found).largest < 1e-3  # with another damping by hundreds
    found.save(tmp_path / "owners.nc")
    again = ks.Solution.load(tmp_path / "owners.nc")
    np.testing.assert_array_equal(problem.covariance(again), problem.covariance(found))
    fine = problem.refined(found, 1e-7)
    assert sum(fine.layout.nodes) > sum(problem.layout.nodes)
    close = fine.solve().parameters
    assert abs(close["c[ben]"] / found.parameters["c[ben]"] - 1.0) < 1e-2
    more = ks.Collocation(oscillator(), of_subjects(), {k: None, c: ks.per_trial(0, 10)})
    guessed = more.unpack(more.pack(found))
    assert guessed["c[3]"] == found.parameters["c[cleo]"]
    fewer = ks.Collocation(oscillator(), of_subjects(), {k: ks.per("subject"), c: None})
    guessed = fewer.unpack(fewer.pack(found))
    assert guessed["k[anna]"] == found.parameters["k"]
    assert guessed["c"] == found.parameters["c[ben]"]  # of the first trial


def test_phases_with_a_damping_each():
    """One swing cut in two, with another damping in each part, found again."""
    first, second = np.linspace(0.0, 1.0, 41), np.linspace(1.0, 2.0, 41)
    values, state = {"m": 1.0, "k": 20.0}, {x: 1.0, v: 0.0}
    parts = []
    for time, damping in ((first, 0.4), (second, 1.2)):
        run = ks.simulate(oscillator(), time, state, {**values, "c": damping})
        state = {x: run["x"][-1], v: run["v"][-1]}
        parts.append(ks.Experiment(time, measurements={x: run["x"]}, std={x: 1e-3}))
    links = [ks.at_start(x) - ks.at_end(x), ks.at_start(v) - ks.at_end(v)]
    unknown = {k: ks.log_scale(1, 100), c: ks.per_trial(0, 10)}
    problem = ks.Collocation(oscillator(), ks.Phases(parts, links=links), unknown, scheme="radau-5")
    found = problem.solve(guess={k: 15.0, c: 1.0})
    np.testing.assert_allclose(list(found.parameters.values())[1:], [0.4, 1.2], atol=1e-4)
    assert abs(found.parameters["k"] - 20.0) < 1e-3
    errors = np.sqrt(np.diag(problem.covariance(found)))
    assert (errors > 0.0).all() and not found.grid_error().matters


def test_owners_in_multiple_shooting():
    trials = of_subjects()
    initial = {x: [None] * 5, v: 0.0}
    unknown = {k: ks.log_scale(1, 100), c: ks.per("subject", ks.lognormal(0.6, 2.0))}
    single = ks.Shooting(oscillator(), trials, unknown, initial=initial)
    several = ks.Shooting(oscillator(), trials, unknown, initial=initial, segments=3)
    one = single.solve({k: 15.0, c: 0.7}, "least-squares")
    other = several.solve({k: 15.0, c: 0.7}, "ipopt")
    for name, value in one.parameters.items():
        assert abs(other.parameters[name] / value - 1.0) < 1e-5
        assert abs(other.standard_errors()[name] / one.standard_errors()[name] - 1.0) < 1e-4


@pytest.mark.parametrize("method", ["rk4", "radau-3"])
def test_owners_beside_unknown_inputs(method):
    """The gradient by parameters of owners, with priors, and by samples of an input."""
    f = ks.dynamicsymbols("f")
    equations = [x.diff(t) - v, m * v.diff(t) + c * v + k * x - f]
    driven = ks.Model("driven", [x, v], [f], [m, c, k], equations)
    trials = [
        ks.Experiment(TIME[:6], measurements={x: np.ones(6)}, labels={"subject": who})
        for who in ("anna", "ben", "anna")
    ]
    unknown = {k: ks.lognormal(20, 1.5), m: ks.per_trial(0.5, 3), c: ks.per("subject", (0, 10))}
    problem = ks.Shooting(
        driven, trials, unknown, initial={x: 1.0, v: 0.0}, method=method, unknown_inputs={f: None}
    )
    q = np.random.default_rng(0).uniform(0.8, 1.2, len(problem.names))
    slopes = problem.gradient(q)
    for j, slope in enumerate(slopes):
        step = 1e-5 * np.eye(len(q))[j]
        by_differences = (problem.cost(q + step) - problem.cost(q - step)) / 2e-5
        assert abs(by_differences - slope) < 1e-7 * max(1.0, abs(slope))


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free duration"])
def test_spreads_trial_by_trial_are_those_of_all_at_once(free):
    rng = np.random.default_rng(5)
    trials = of_subjects()
    if free:
        trials = [
            ks.Experiment(
                TIME / TIME[-1],
                measurements=trial.measurements,
                std=trial.std,
                duration=(1.9, 2.1),
                labels=trial.labels,
            )
            for trial in trials
        ]
    unknown = {m: ks.per_trial(ks.lognormal(1.0, 1.1)), **UNKNOWN}
    problem = ks.Collocation(oscillator(), trials, unknown)
    found = problem.solve(guess={k: 15.0, c: 1.0})
    layout, kkt = problem.layout, kkt_of(problem.problem, found)
    mine = layout.parameter_offset + np.arange(len(layout.parameters))
    stiffness = kkt.stiffness.copy()
    stiffness[mine[2]] = np.inf  # as one that is fixed
    kkt = replace(kkt, stiffness=stiffness)
    blur = rng.uniform(0.0, 1e-3, problem.n_variables)
    of = block_arrow(layout)
    one, other = spreads_of(kkt, mine, blur, reduced(kkt, mine, blur, of)), spreads(kkt, mine, blur)
    np.testing.assert_allclose(one.inverse, other.inverse, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(one.signs, other.signs)
    size = 1.0 / np.diag(other.inverse)[[0, 1, 3]]
    for share in (0.05, 0.2):  # of the curvature, so that it is lost in doubt, or not
        large = np.zeros(problem.n_variables)
        large[mine[[0, 1, 3]]] = share * size
        one = spreads_of(kkt, mine, large, reduced(kkt, mine, large, of))
        np.testing.assert_array_equal(one.signs, spreads(kkt, mine, large).signs)
    found = block_arrow(ks.Collocation(oscillator(), trials, dict.fromkeys([m, k, c])).layout)
    assert found is None


def test_an_owner_about_whom_nothing_is_known():
    """Of ten subjects one is at rest: words on his stiffness and damping, numbers for others."""
    names = [f"s{n}" for n in range(10)]
    trials = [
        record(20.0, 0.6, 1.0, seed=n, labels={"subject": who}) for n, who in enumerate(names[1:])
    ]
    rest = np.zeros(len(TIME))
    trials.insert(
        3, ks.Experiment(TIME, measurements={x: rest}, std={x: 0.01}, labels={"subject": "s0"})
    )
    unknown = {k: ks.per("subject", (1, 100)), c: ks.per("subject", (0, 10))}
    problem = ks.Collocation(oscillator(), trials, unknown)
    found = problem.solve(guess={k: 15.0, c: 1.0})
    with pytest.warns(UserWarning, match=r"\[s0\]"):
        spread = np.diag(problem.covariance(found))
    unknown_ones = [name for name, s in zip(found.parameters, spread, strict=True) if np.isnan(s)]
    assert unknown_ones == ["c[s0]", "k[s0]"]


# -- priors -----------------------------------------------------------------------------------


def test_prior_of_a_linear_model_in_closed_form():
    """x' = a w(t): x - x(0) is linear in a, the estimate a weighted mean of record and prior."""
    a = sp.Symbol("a")
    w = ks.dynamicsymbols("w")
    model = ks.Model("line", [x], [w], [a], [x.diff(t) - a * w])
    rng = np.random.default_rng(3)
    trials = [
        ks.Experiment(
            TIME,
            inputs={w: 1.0},
            measurements={x: s * TIME + 0.5 * rng.standard_normal(41)},
            std={x: 0.5},
            labels={"subject": who},
        )
        for s, who in zip((1.0, 0.4), ("anna", "ben"), strict=True)
    ]
    prior = ks.per("subject", ks.normal(0.7, 0.2, low=-5))
    problem = ks.Collocation(
        model, [*trials, trials[0]], {a: prior}, boundary=[ks.at_start(x)], scheme="gauss-2"
    )
    found = problem.solve()
    fits = {"anna": (2, 0), "ben": (1, 1)}
    precision = {who: n * TIME @ TIME / 0.25 + 25.0 for who, (n, _) in fits.items()}
    for who, (n, k) in fits.items():
        sides = n * TIME @ trials[k].measurements["x"] / 0.25 + 25.0 * 0.7
        assert abs(found.parameters[f"a[{who}]"] - sides / precision[who]) < 1e-10
    expected = np.diag([1.0 / precision["anna"], 1.0 / precision["ben"]])
    np.testing.assert_allclose(problem.covariance(found), expected, atol=1e-14)
    shooting = ks.Shooting(model, [*trials, trials[0]], {a: prior}, initial={x: 0.0})
    for optimizer in ("bfgs", "least-squares", "ipopt"):
        fit = shooting.solve(optimizer=optimizer)
        for name, value in found.parameters.items():
            assert abs(fit.parameters[name] - value) < 1e-7
        assert abs(fit.objective - found.objective) < 1e-8 * found.objective
        np.testing.assert_allclose(fit.covariance, expected, atol=1e-12)


def test_prior_alone():
    """Without a record an estimate is that of its prior."""
    bare = ks.Experiment(TIME, measurements={v: 0.0 * TIME}, std={v: 1.0})
    unknown = {k: ks.normal(30.0, 2.0), c: ks.lognormal(0.5, 1.4), m: ks.log_scale(0.9, 1.1)}
    problem = ks.Collocation(oscillator(), bare, unknown, boundary=[ks.at_start(x)])
    found = problem.solve()
    assert abs(found.parameters["k"] - 30.0) < 1e-6
    assert abs(found.parameters["c"] - 0.5) < 1e-7


def test_bad_priors():
    for bad in (0.0, -1.0, np.inf, "1"):
        with pytest.raises(ValueError, match=r"the standard deviation of ks\.normal must be posit"):
            ks.normal(1.0, bad)
    with pytest.raises(ValueError, match=r"the mean of ks\.normal must be a finite number"):
        ks.normal("70", 1.0)
    with pytest.raises(ValueError, match=r"the mean 70 of the prior .* outside its bounds \(80, "):
        ks.normal(70, 5, low=80, high=90)
    with pytest.raises(ValueError, match=r"the factor of ks\.lognormal must be more than 1"):
        ks.lognormal(1.0, 0.5)
    with pytest.raises(ValueError, match=r"the median of ks\.lognormal must be positive"):
        ks.lognormal(-1.0, 2.0)
    with pytest.raises(ValueError, match="low is 0, but a logarithm needs positive bounds"):
        ks.log_scale(0, 10)
    with pytest.raises(ValueError, match="high is -1, but a logarithm needs positive bounds"):
        ks.log_scale(None, -1)
    with pytest.raises(ValueError, match="crossed"):
        ks.log_scale(10, 1)
    positive = ks.Model("p", [x], [], [c], [x.diff(t) + c * x], positive=[c])
    trial = record(20, 0.4, 1.0)
    with pytest.raises(ValueError, match=r"the mean -1 of the prior of c is outside its bounds"):
        ks.Collocation(positive, trial, unknown={c: ks.normal(-1, 2)})
    problem = ks.Collocation(positive, trial, unknown={c: ks.log_scale()})
    with pytest.raises(ValueError, match="the guess of c is -2, but on a log scale it must be p"):
        problem.pack({c: -2.0})
    shooting = ks.Shooting(positive, trial, unknown={c: ks.log_scale()}, initial={x: 1.0})
    with pytest.raises(ValueError, match="the guess of c is 0, but on a log scale it must be pos"):
        shooting.pack({c: 0.0})
    with pytest.warns(UserWarning, match=r"the guess of parameter c, 20, is outside .*\(1, 10\)"):
        ks.Collocation(positive, trial, unknown={c: ks.log_scale(1, 10)}).pack({c: 20.0})


# -- logarithmic scale ------------------------------------------------------------------------


def test_log_scale_has_the_same_optimum():
    trials = of_subjects()
    linear = ks.Collocation(oscillator(), trials, UNKNOWN, scheme="radau-3")
    wanted = linear.solve(guess={k: 15.0, c: 1.0})
    unknown = {k: ks.log_scale(1, 100), c: ks.per("subject", ks.log_scale(1e-3, 10))}
    problem = ks.Collocation(oscillator(), trials, unknown, scheme="radau-3")
    assert problem.unpack(problem.pack({k: 15.0, c: 1.0}))["k"] == pytest.approx(15.0)
    found = problem.solve(guess={k: 15.0, c: 1.0})
    again = problem.solve(guess=wanted)
    assert again.iterations < 8
    assert problem.solve(guess=found).iterations < 8
    with pytest.raises(ValueError, match="another problem"):
        linear.covariance(found)
    for solution in (found, again):
        for name, value in wanted.parameters.items():
            assert abs(solution.parameters[name] / value - 1.0) < 1e-7
    assert [run.parameters for run in found.trials][2]["c"] == found.parameters["c[ben]"]
    np.testing.assert_allclose(problem.covariance(found), linear.covariance(wanted), rtol=1e-6)
    errors, others = found.grid_error(), wanted.grid_error()
    for name, shift in others.parameters.items():
        assert abs(errors.parameters[name] / shift - 1.0) < 1e-5
        assert abs(errors.deviations[name] / others.deviations[name] - 1.0) < 1e-6
    newton = problem.solve(guess={k: 15.0, c: 1.0}, hessian="gauss-newton")
    assert abs(newton.parameters["k"] / wanted.parameters["k"] - 1.0) < 1e-6


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_log_scale_in_shooting(optimizer):
    trials = of_subjects()
    initial = {x: 1.0, v: 0.0}
    unknown = {k: ks.log_scale(1, 100), c: ks.per("subject", ks.log_scale(high=10))}
    problem = ks.Shooting(oscillator(), trials, unknown, initial=initial)
    linear = ks.Shooting(oscillator(), trials, UNKNOWN, initial=initial)
    wanted = linear.solve({k: 15.0, c: 0.5}, "least-squares")
    fit = problem.solve({k: 15.0, c: 0.5}, optimizer, max_iterations=3000)
    assert fit.success
    tolerance = 1e-4 if optimizer == "steepest-descent" else 1e-6
    np.testing.assert_allclose(fit.values, wanted.values, rtol=tolerance)
    np.testing.assert_allclose(fit.covariance, wanted.covariance, rtol=1e-2, atol=1e-12)


def test_all_three_in_shooting_and_collocation():
    """Known per trial, unknown per subject with a prior on a log scale, and per trial."""
    trials = [
        record(20.0, DAMPING[who], mass, seed=n, parameters={m: mass}, labels={"subject": who})
        for n, (who, mass) in enumerate(zip(SUBJECTS, (1.0, 1.4, 0.8, 2.0, 1.1), strict=True))
    ]
    unknown = {
        k: ks.per_trial(ks.normal(20.0, 1.0, low=1)),
        c: ks.per("subject", ks.lognormal(0.6, 1.5)),
    }
    free = {x: [None] * 5, v: [None] * 5}
    shooting = ks.Shooting(oscillator(), trials, unknown, initial=free)
    q = shooting.pack({k: 15.0, c: 1.0})
    np.testing.assert_allclose(shooting.gradient(q, "forward"), shooting.gradient(q), rtol=1e-9)
    step = 1e-6 * np.eye(len(q))[6]
    slope = (shooting.cost(q + step) - shooting.cost(q - step)) / 2e-6
    assert abs(shooting.gradient(q)[6] / slope - 1.0) < 1e-7
    r = shooting.residuals(q)
    assert abs(r @ r / shooting.cost(q) - 1.0) < 1e-12
    fit = shooting.solve(q, "least-squares")
    problem = ks.Collocation(oscillator(), trials, unknown, scheme="radau-5")
    found = problem.solve(guess={k: 15.0, c: 1.0})
    assert abs(fit.objective / found.objective - 1.0) < 1e-4
    for name, value in found.parameters.items():
        assert abs(fit.parameters[name] / value - 1.0) < 1e-4


# -- hybrid models ----------------------------------------------------------------------------


def test_owners_of_a_bouncing_ball():
    """Gravity for all, with a prior, and drag per ball, on a log scale: derivatives across impacts,
    and the values that made the record."""
    height, speed, push = ks.dynamicsymbols("height speed push")
    g, drag = sp.symbols("g drag")
    ball = ks.hybrid.Hybrid(
        ks.Model(
            "ball",
            [height, speed],
            [push],
            [g, drag],
            [height.diff(t) - speed, speed.diff(t) + g + drag * speed - push],
        ),
        contacts=[ks.hybrid.Contact("floor", height, push, restitution=0.8)],
    )
    time, balls = np.linspace(0.0, 1.0, 31), {"red": 0.3, "blue": 0.8}
    trials = []
    for start, who in ((1.0, "red"), (1.5, "blue"), (0.7, "red")):
        run = ks.simulate(ball, time, {height: start, speed: 0.0}, {g: 9.81, drag: balls[who]})
        exact = {"measurements": {height: run["height"]}, "std": {height: 1e-3}}
        trials.append(ks.Experiment(time, **exact, labels={"ball": who}))
    unknown = {g: ks.normal(9.8, 0.5), drag: ks.per("ball", ks.log_scale(1e-2, 10))}
    initial = {height: [1.0, 1.5, 0.7], speed: 0.0}
    problem = ks.Shooting(ball, trials, unknown, initial=initial)
    assert problem.names == ["g", "drag[red]", "drag[blue]"]
    q = problem.pack({g: 9.7, drag: {"red": 0.35, "blue": 0.7}})
    slopes = problem.gradient(q)
    np.testing.assert_allclose(problem.gradient(q, "forward"), slopes, rtol=1e-8)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        slope = (problem.cost(q + step) - problem.cost(q - step)) / 2e-6
        assert abs(slopes[j] / slope - 1.0) < 1e-5
    fit = problem.solve(q, "least-squares")
    np.testing.assert_allclose(fit.values, [9.81, 0.3, 0.8], rtol=1e-3)
