"""Experiments under different conditions: parameters that each sets, steady states before records.

Expected values are closed forms of the same steps, with derivatives by complex steps.
"""

import multiprocessing as mp
import pickle
import threading

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, y, z = ks.dynamicsymbols("x y z")
k, d, dose, k_0, x_0 = sp.symbols("k d dose k_0 x_0")
TIME = np.linspace(0.0, 2.0, 6)
DECAY = ks.Model("decay", [x], [], [k, d], [x.diff(ks.t) + k * x - d], values={d: 0.0})


def trial(before=None, **sets):
    measured = 0.5 + 0.3 * np.cos(np.arange(6.0))
    return ks.Experiment(TIME, {}, {x: measured}, {x: 0.1}, parameters=sets, before=before)


def decayed(rate, start, feed=0.0):
    """States of DECAY by steps of rk4."""
    h, found = TIME[1] * -rate, [start]
    grow = 1 + h + h**2 / 2 + h**3 / 6 + h**4 / 24
    for _ in TIME[1:]:
        found.append((found[-1] - feed / rate) * grow + feed / rate)
    return np.array(found)


def squares(*runs):
    measured = trial().measurements["x"]
    return sum((((run - measured) / 0.1) ** 2).sum() for run in runs)


def check_gradient(problem, q, cost, tolerance=1e-12):
    """Gradients by all ways against complex steps of `cost`."""
    step, unit = 1e-30j, np.eye(len(q))
    expected = [complex(cost(*(q + step * e))).imag / 1e-30 for e in unit]
    assert problem.cost(q) == pytest.approx(float(np.real(cost(*q))), rel=tolerance)
    size = np.abs(expected).max()
    for found in (
        problem.gradient(q),
        problem.gradient(q, mode="forward"),
        2.0 * problem.residuals(q) @ problem.residual_jacobian(q),
    ):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("hybrid", [False, True])
def test_expressions_of_unknowns_in_each_experiment(hybrid):
    """A shared rate, twice another unknown, its square root times a dose, and half of itself; a
    start that no parameter of the model tells."""
    trials = [
        trial(),
        trial(k=2 * k_0),
        trial(k=dose * sp.sqrt(k_0), dose=0.3),
        trial(k=k / 2),
        trial(k=1.1),
    ]
    system = ks.hybrid.Hybrid(DECAY) if hybrid else DECAY
    unknown = {k: (0, 9), k_0: (0, 9), x_0: None}
    problem = ks.Shooting(system, trials, unknown, initial={x: x_0**2}, method="rk4")
    assert problem.names == ["k", "x_0", "k_0"]

    def cost(k, x_0, k_0):
        rates = (k, 2 * k_0, 0.3 * np.sqrt(k_0), k / 2, 1.1)
        return squares(*(decayed(rate, x_0**2) for rate in rates))

    check_gradient(problem, np.array([1.2, 0.9, 0.7]), cost)
    words = "from event to event" if hybrid else "set parameters to functions of the unknowns"
    with pytest.raises(ValueError, match=words):
        ks.export(problem, "anywhere")


def test_unknowns_of_owners_and_of_conditions():
    """A rate per batch, which two parameters of the model share, and a prior on it."""
    trials = [
        ks.Experiment(
            TIME, {}, {x: np.ones(6)}, {x: 0.1}, parameters={k: k_0, d: k_0 / 3}, labels={"lot": s}
        )
        for s in "ABA"
    ]
    unknown = {k_0: ks.per("lot", ks.lognormal(1.0, 2.0))}
    problem = ks.Shooting(DECAY, trials, unknown, initial={x: 0.7})
    assert problem.names == ["k_0[A]", "k_0[B]"]

    def cost(a, b):
        runs = [decayed(r, 0.7, r / 3) for r in (a, b, a)]
        prior = sum((np.log(r) / np.log(2.0)) ** 2 for r in (a, b))
        return sum((((run - 1.0) / 0.1) ** 2).sum() for run in runs) + prior

    check_gradient(problem, np.array([1.2, 0.8]), cost, 1e-11)
    fit = problem.solve({k_0: 0.9}, optimizer="least-squares")
    value = fit.parameters["k_0[B]"]
    assert fit.trials[1].parameters["d"] == pytest.approx(value / 3)
    assert fit.interval(k_0, trial=1).value == pytest.approx(value)
    with pytest.raises(ValueError, match="trial 1 sets d; write the combination in what"):
        fit.interval(d, trial=1)
    assert len(ks.cross_validate(problem, fit).errors) == 3
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.cost(fit.values) == problem.cost(fit.values)
    for refused, words in (
        (lambda: problem.solve(fit, ladder=True), "ladder=True is for experiments that set no"),
        (lambda: problem.gradient(fit, mode="continuous-adjoint"), "parameters that experiments"),
    ):
        with pytest.raises(ValueError, match=words):
            refused()


def test_numbers_replace_those_of_the_problem():
    """A value of an experiment comes before `known`, which comes before that of the model."""
    trials = [trial(), trial(d=0.4)]
    problem = ks.Shooting(DECAY, trials, {k: (0, 9)}, {d: 0.2}, initial={x: 0.7})
    check_gradient(
        problem,
        np.array([1.3]),
        lambda k: squares(decayed(k, 0.7, 0.2), decayed(k, 0.7, 0.4)),
    )


#: A total T = x + y is kept: x = T b (1 + dose)/(a + b (1 + dose)), and z = x^2/c follows.
a, b, c, total, before = sp.symbols("a b c total before")
FLOW = a * x - b * (1 + dose) * y
CYCLE = ks.Model(
    "cycle",
    [x, y, z],
    [],
    [a, b, c, dose],
    [x.diff(ks.t) + FLOW, y.diff(ks.t) - FLOW, z.diff(ks.t) - x**2 + c * z],
)


@pytest.mark.parametrize("method", ["radau-5", "rk4"])
def test_steady_states_before_records(method):
    """Starts and their derivatives against those of the implicit function theorem, with what is
    kept; a state that is then reset; values outside of the experiment."""
    rows = [
        (2.0, ks.steady({dose: 0.0})),
        (before, ks.steady({dose: dose}, reset={z: a / 10})),
        (1.0, ks.steady({dose: 2 * before, c: c / 2})),
    ]
    trials = [
        ks.Experiment([0, 0.3], {}, {z: [1, 2]}, {z: 0.1}, parameters={dose: own}, before=then)
        for own, then in rows
    ]
    unknown = {a: (0, 9), b: (0, 9), c: (0, 9), total: None, before: (0, 9)}
    start = {x: total, y: 0.5, z: 0.1}
    problem = ks.Shooting(CYCLE, trials, unknown, {dose: 0.7}, initial=start, method=method)
    values = {"a": 1.1, "b": 0.7, "c": 1.2, "total": 0.4, "before": 0.3}
    q = problem.pack(values)
    runs = problem.trajectories(q)
    slopes = [problem._trials.course_slopes(q, j, ["x", "y", "z"]) for j in range(3)]
    for j, (then, halved) in enumerate([(0.0, 1.0), (0.7, 1.0), (2 * before, 0.5)]):
        kept = total + sp.Rational(1, 2)
        level = kept * b * (1 + then) / (a + b * (1 + then))
        settled = {"x": level, "y": kept - level, "z": level**2 / (halved * c)}
        if j == 1:
            settled["z"] = a / 10
        for name, e in settled.items():
            assert runs[j][name][0] == pytest.approx(float(e.subs(values)), rel=1e-12)
            expected = [float(e.diff(sp.Symbol(n)).subs(values)) for n in problem.names]
            found = slopes[j][name][[0]].toarray()[0]
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    gradient = problem.gradient(q)
    np.testing.assert_allclose(problem.gradient(q, mode="forward"), gradient, rtol=1e-11)
    jacobian = problem.residual_jacobian(q)
    np.testing.assert_allclose(2.0 * problem.residuals(q) @ jacobian, gradient, rtol=1e-11)


@pytest.mark.parametrize("method", ["radau-5", "rk4"])
def test_threads_over_trials_do_not_change_a_bit(method):
    """Many trials of which several share a steady state, some with a parameter of their own; the
    first one that fails is told."""
    doses = np.repeat(np.linspace(0.2, 1.0, 6), 4)
    made = [
        ks.Experiment(
            np.linspace(0, 0.3, 60),
            {},
            {z: np.full(60, 0.5)},
            {z: 0.1},
            parameters={dose: own},
            before=ks.steady({dose: own}),
        )
        for own in doses
    ]
    start = {x: 0.4, y: 0.5, z: 0.1}
    found = []
    for threads in (1, 2):
        unknown = {a: (-2, 9), b: (-2, 9), c: (0, 9)}
        about = {"initial": start, "method": method, "threads": threads}
        problem = ks.Shooting(CYCLE, made, unknown, **about)
        q = problem.pack({"a": 1.1, "b": 0.7, "c": 1.2})
        jacobian = problem.residual_jacobian(q)
        assert problem.cost([-1.0, -1.5, 1.2]) == np.inf
        with pytest.raises(ValueError, match="trial 0: the model has no steady state"):
            problem.gradient([-1.0, -1.5, 1.2])
        found.append((problem.gradient(q), problem.residuals(q), jacobian))
        started = sum(thread.name.startswith("trials") for thread in threading.enumerate())
        assert started == (2 if threads == 2 else 0)
    for one, many in zip(*found, strict=True):
        np.testing.assert_array_equal(one, many)


@pytest.mark.skipif("fork" not in mp.get_all_start_methods(), reason="there are no forks")
def test_a_fork_has_threads_of_its_own():
    """Those that the trials had before it are not there: nobody waits for them."""
    time = np.linspace(0, 1, 400)
    trials = [ks.Experiment(time, {}, {x: np.exp(-time)}, {x: 0.1}) for _ in range(8)]
    problem = ks.Shooting(DECAY, trials, {k: (0, 5)}, initial={x: 1.0}, threads=2)
    expected, context = problem.cost({k: 1.5}), mp.get_context("fork")
    problem.cost({k: 1.1})
    told = context.SimpleQueue()
    child = context.Process(target=lambda: told.put(problem.cost({k: 1.5})))
    child.start()
    child.join(60)
    assert child.exitcode == 0, child.kill()
    assert told.get() == expected


def test_what_is_kept_depends_on_an_unknown():
    """Two vessels: a x + y is kept, so that x = (3 a + 1)/(a + 1), although no rate of the steady
    state depends on the volume a."""
    model = ks.Model("vessels", [x, y], [], [a], [a * x.diff(ks.t) + x - y, y.diff(ks.t) + y - x])
    asked = ks.Experiment([0, 1], {}, {x: [2.0, 2.0]}, {x: 1.0}, before=ks.steady())
    problem = ks.Shooting(model, asked, {a: (0, 9)}, initial={x: 3.0, y: 1.0}, method="radau-5")
    level = (3 * 1.7 + 1) / 2.7
    assert problem.trajectories({a: 1.7})[0]["x"][0] == pytest.approx(level, rel=1e-12)
    expected = 4 * (level - 2) * 2 / 2.7**2  # the motion stays there
    for mode in ("adjoint", "forward"):
        assert problem.gradient({a: 1.7}, mode=mode)[0] == pytest.approx(expected, rel=1e-10)


def test_inputs_before_records():
    u = ks.dynamicsymbols("u")
    model = ks.Model("fed", [x], [u], [k], [x.diff(ks.t) + k * x - u])
    trials = [
        ks.Experiment(TIME, {u: 3.0}, {x: np.ones(6)}, {x: 1.0}, before=then)
        for then in (ks.steady(inputs={u: 0.5}), ks.steady())
    ]
    problem = ks.Shooting(model, trials, {k: (0, 9)}, initial={x: 0.0})
    starts = [run["x"][0] for run in problem.trajectories({k: 2.0})]
    np.testing.assert_allclose(starts, [0.25, 1.5], rtol=1e-12)


@pytest.mark.parametrize(
    ("equations", "words"),
    [
        ([x.diff(ks.t) - k, y.diff(ks.t) + y], "over the last .* s, x changes from"),
        ([x.diff(ks.t) - k * y, y.diff(ks.t) + k * x], "it still moves after 20000 steps"),
        ([x.diff(ks.t) - k * x, y.diff(ks.t) + y], ".* between t = -1000 and 0 s"),
    ],
)
def test_no_steady_state(equations, words):
    """A drift, an oscillation, growth: an infinite cost, and a sentence at the guess."""
    model = ks.Model("restless", [x, y], [], [k], equations)
    asked = ks.Experiment([0, 1], {}, {y: [0, 0]}, {y: 1.0}, before=ks.steady())
    problem = ks.Shooting(model, asked, {k: (0, 9)}, initial={x: 1.0, y: 0.5})
    assert problem.cost({k: 1.0}) == np.inf
    with pytest.raises(ValueError, match=f"no steady state before the record: {words}"):
        problem.solve({k: 1.0})


def test_a_guess_without_end_is_one_bad_point():
    """x' = a x^2 - b x escapes for large a: other starts go on, and one guess is told where."""
    model = ks.Model("escape", [x], [], [a, b], [x.diff(ks.t) - a * x**2 + b * x])
    time = np.linspace(0, 4, 41)
    run = ks.simulate(model, time, {x: 0.5}, {a: 0.5, b: 1.0})
    trials = [ks.Experiment(time, {}, {x: run["x"]}, {x: 0.01}) for _ in range(2)]
    given = (model, trials, {a: (0, 3), b: (0.1, 4)})
    problem = ks.Shooting(*given, initial={x: [0.1, 0.5]}, method="dormand-prince")
    bad = {a: 3.0, b: 0.2}
    with pytest.raises(
        ValueError, match=r"^trial 1: the simulation of escape: .* t = 0\.\d and 0\."
    ):
        problem.solve(bad)
    free = ks.Shooting(*given, initial={x: None})
    found = free.multistart(6, seed=1, guess=bad)
    assert found.best.parameters["a"] == pytest.approx(0.5, rel=1e-3)


STEADY = ks.steady()


@pytest.mark.parametrize(
    ("sets", "then", "words"),
    [
        ({"q": 1.0}, None, "trial 0 sets q, which is no parameter"),
        ({"d": k_0}, None, "parameter k_0 has no value in trial 0; give known="),
        ({"d": k * x}, None, r"it must follow from parameters, and x\(t\) is none"),
        ({"d": 2 * k, "k": d + 1}, None, "parameter d of trial 0 depends on k, which depends on d"),
        ({"d": sp.log(d - 9)}, None, "parameter d is nan in trial 0"),
        ({"k": 1.0}, None, "k has a value in each trial and is unknown"),
        ({}, {"d": 1}, "before must be ks.steady"),
        ({}, ks.steady({"q": 1}), "trial 0 sets q, which is no parameter"),
        ({}, ks.steady(inputs={"u": 1}), "inputs of ks.steady of trial 0"),
        ({}, ks.steady(reset={"v": 1}), "reset of ks.steady of trial 0"),
    ],
)
def test_what_cannot_be_a_condition(sets, then, words):
    with pytest.raises(ValueError, match=words):
        ks.Shooting(DECAY, trial(then, **sets), {k: None}, initial={x: 1.0})


def test_what_steady_states_do_not_go_with():
    with pytest.raises(ValueError, match="with an unknown start of x; let that follow"):
        ks.Shooting(DECAY, trial(STEADY), {k: None}, initial={x: None})
    with pytest.raises(ValueError, match="of a model with events"):
        ks.Shooting(ks.hybrid.Hybrid(DECAY), trial(STEADY), {k: None}, initial={x: 1.0})


def test_collocation_writes_what_all_experiments_set_into_the_model():
    """The same minimum as shooting from free starts, by steps of the same scheme."""
    trials = [trial(k=dose * k_0, dose=level, d=k / 5) for level in (1.0, 2.0)]
    problem = ks.Collocation(DECAY, trials, {k_0: (0, 9)}, scheme="gauss-4")
    assert problem.model.parameter_names == ("dose", "k_0")
    found = problem.solve({k_0: 0.5})
    same = ks.Shooting(DECAY, trials, {k_0: (0, 9)}, initial={x: None}, method="gauss-4")
    fit = same.solve({k_0: 0.5}, optimizer="least-squares")
    assert found.objective == pytest.approx(fit.objective, rel=1e-9)
    assert found.parameters["k_0"] == pytest.approx(fit.parameters["k_0"], rel=1e-5)


@pytest.mark.parametrize(
    ("trials", "more", "words"),
    [
        ([trial(k=2 * k_0), trial()], {}, "k is 2.k_0 in a trial, and not in trial 1"),
        ([trial(k=k / 2)], {}, "trials set k to k/2, which depends on k"),
        ([trial(k=k_0)], {"boundary": [ks.at_end(x) - k]}, "contains k, which trials set to k_0"),
        ([trial(k=k_0 * y)], {}, "parameter k contains y"),
        ([trial(q=k_0)], {}, "a trial sets q, which is no parameter"),
        ([trial(ks.steady(), d=k_0)], {}, "trial 0 begins in a steady state"),
    ],
)
def test_what_collocation_does_not_take(trials, more, words):
    with pytest.raises(ValueError, match=words):
        ks.Collocation(DECAY, trials, {k_0: None}, {k: 1.0}, **more)
