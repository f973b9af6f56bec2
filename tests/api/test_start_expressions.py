"""Initial values that are expressions of parameters, against closed forms."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import approx_fprime

import kinesym as ks

x, v = ks.dynamicsymbols("x v")
a, k = sp.symbols("a k")
TIME = np.linspace(0.0, 2.0, 21)
DECAY = ks.Model("decay", [x], [], [a, k], [x.diff(ks.t) + k * x])
TRUE = {a: 3.0, k: 1.3}


def samples(model=DECAY, seed=0, **more):
    run = ks.simulate(model, TIME, {x: a**2}, TRUE, **more)
    return {x: run["x"] + 0.01 * np.random.default_rng(seed).standard_normal(21)}


def test_simulations_of_one_and_of_many():
    run = ks.simulate(DECAY, TIME, {x: a**2 - 1}, TRUE, method="dormand-prince")
    np.testing.assert_allclose(run["x"], 8.0 * np.exp(-1.3 * TIME), rtol=1e-8)
    many = ks.simulate(DECAY, TIME, {x: a**2 - 1}, {a: np.array([1.5, 2.0]), k: 1.3})
    np.testing.assert_allclose(many["x"][:, 0], [1.25, 3.0])


@pytest.mark.parametrize("late", [False, True])
def test_sensitivities(late):
    """dx/da = 2 a exp(-k t); with a delay of no effect the same by another way."""
    model = DECAY
    if late:
        model = ks.Model("late", [x], [], [a, k], [x.diff(ks.t) + k * ks.delayed(x, 0.5)])
    found = ks.sensitivities(model, TIME, {x: a**2}, TRUE)
    forward = found.forward([a, k])["x"]
    if late:  # of the linear delay equation with its history at the start
        expected = ks.simulate(model, TIME, {x: 2.0 * 3.0}, TRUE)["x"]
        np.testing.assert_allclose(forward[0], expected, rtol=1e-9)
    else:
        np.testing.assert_allclose(forward[0], 6.0 * np.exp(-1.3 * TIME), rtol=1e-8)
    gradient = found.gradient("x")
    assert gradient.parameters["a"] == pytest.approx(forward[0, -1], rel=1e-10)
    assert gradient.parameters["k"] == pytest.approx(forward[1, -1], rel=1e-10)


def swing(segments=1, method=None):
    """A swing that starts with an energy: its speed follows from its angle."""
    model = ks.Model("swing", [x, v], [], [a, k], [x.diff(ks.t) - v, v.diff(ks.t) + k * sp.sin(x)])
    start = {x: a, v: sp.sqrt(k) * sp.cos(a)}
    run = ks.simulate(model, TIME, start, {a: 0.7, k: 2.0}, method="dormand-prince")
    trial = ks.Experiment(TIME, measurements={x: run["x"]}, std={x: 0.1})
    more = {} if method is None else {"method": method}
    return ks.Shooting(
        model, trial, {a: (0, 2), k: (0.1, 9)}, initial=start, segments=segments, **more
    )


def late_decay():
    model = ks.Model("late", [x], [], [a, k], [x.diff(ks.t) + k * ks.delayed(x, 0.5)])
    trial = ks.Experiment(TIME, measurements=samples(model), std={x: 0.1})
    return ks.Shooting(model, trial, {a: (0, 9), k: (0.1, 9)}, initial={x: a**2})


def bouncing():
    lam = ks.dynamicsymbols("lam")
    model = ks.Model("ball", [x, v], [lam], [a, k], [x.diff(ks.t) - v, v.diff(ks.t) + k - lam])
    ball = ks.hybrid.Hybrid(model, contacts=[ks.hybrid.Contact("floor", x, lam, restitution=0.8)])
    start = {x: a**2, v: -a}
    run = ks.simulate(ball, TIME, start, {a: 1.1, k: 9.8})
    trial = ks.Experiment(TIME, measurements={x: run["x"]}, std={x: 0.1})
    return ks.Shooting(ball, trial, {a: (0.5, 2), k: (5, 15)}, initial=start)


def two_subjects():
    """Each with a start of its own, which the other does not have."""
    trials = [
        ks.Experiment(TIME, measurements=samples(seed=j), std={x: 0.1}, labels={"subject": s})
        for j, s in enumerate("AB")
    ]
    start = [{x: a**2}, {x: 2 * a}]
    unknown = {a: ks.per("subject", (0.1, 9)), k: (0.1, 9)}
    return ks.Shooting(DECAY, trials, unknown, initial=start)


POSED = {
    "one segment": swing,
    "segments": lambda: swing(segments=3),
    "implicit": lambda: swing(method="gauss-4"),
    "delay": late_decay,
    "hybrid": bouncing,
    "subjects": two_subjects,
}


@pytest.mark.parametrize("name", POSED)
def test_gradients(name):
    problem = POSED[name]()
    q = problem.pack({a: 1.2, k: 5.5})
    gradient = problem.gradient(q)
    expected = approx_fprime(q, problem.cost, 1e-7)
    np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(problem.gradient(q, mode="forward"), gradient, rtol=1e-9)
    r = problem.residuals(q)
    np.testing.assert_allclose(2.0 * r @ problem.residual_jacobian(q), gradient, rtol=1e-9)


def test_a_fit_with_its_errors():
    """x = a^2 exp(-k t): standard errors by the derivatives of this; those of the start, too."""
    trial = ks.Experiment(TIME, measurements=samples(), std={x: 0.01})
    problem = ks.Shooting(DECAY, trial, {a: (0.5, 10), k: (0, 5)}, initial={x: a**2})
    fit = problem.solve({a: 1.0, k: 1.0})
    assert fit.parameters["a"] == pytest.approx(3.0, abs=0.005)
    A, K = fit.parameters["a"], fit.parameters["k"]
    slopes = np.exp(-K * TIME)[:, None] * np.column_stack([2 * A * np.ones(21), -(A**2) * TIME])
    error = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes))) * 0.01
    found = [fit.parameters.table[n].standard_error for n in ("a", "k")]
    np.testing.assert_allclose(found, error, rtol=1e-3)
    start = fit.interval(ks.at_start(x))
    assert start.value == pytest.approx(A**2, rel=1e-10)
    assert start.standard_error == pytest.approx(2 * A * error[0], rel=1e-3)
    many = problem.multistart(4, seed=1)
    np.testing.assert_allclose(many.ends[:, 0], A, rtol=1e-4)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (sp.Symbol("b"), "initial value of state x is b, but b is no parameter of the model"),
        (x, "but x\\(t\\) is no parameter of the model"),
        ("a**2", "the initial value of"),
    ],
)
def test_what_is_no_start(start, words):
    trial = ks.Experiment(TIME, measurements={x: np.zeros(21)})
    with pytest.raises(ValueError, match=words):
        ks.simulate(DECAY, TIME, {x: start}, TRUE)
    if start == sp.Symbol("b"):  # becomes one of the problem
        words = "parameter b has no value; give known={'b': ...} or make it unknown"
    with pytest.raises(ValueError, match=words):
        ks.Shooting(DECAY, trial, {a: (0, 1)}, {k: 1.0}, initial={x: start})


def test_starts_that_are_no_numbers():
    trial = ks.Experiment(TIME, measurements={x: np.zeros(21)})
    with pytest.raises(ValueError, match="the initial value of state x is nan"):
        ks.simulate(DECAY, TIME, {x: sp.sqrt(a - 5)}, TRUE)
    problem = ks.Shooting(DECAY, trial, {a: (0, 9)}, {k: 1.0}, initial={x: sp.sqrt(a - 5)})
    assert problem.cost({a: 4.0}) == np.inf
    with pytest.raises(ValueError, match="initial value of state x is nan at these parameters"):
        problem.solve({a: 4.0})
    with pytest.raises(ValueError, match="no continuous adjoint of starts that follow"):
        problem.gradient({a: 6.0}, mode="continuous-adjoint")
