"""Shooting and sensitivities with delays, against the same steps in complex arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

t = ks.t
x, y, u = ks.dynamicsymbols("x y u")
a, b, c, tau = sp.symbols("a b c tau")
TIME = np.linspace(0.5, 2.3, 25)
PUSH = np.cos(3.0 * TIME)
TABLEAUS = {
    "rk4": (
        [[0, 0, 0, 0], [0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 1, 0]],
        [1 / 6, 1 / 3, 1 / 3, 1 / 6],
        [0, 0.5, 0.5, 1],
    ),
    "radau-3": ([[5 / 12, -1 / 12], [3 / 4, 1 / 4]], [3 / 4, 1 / 4], [1 / 3, 1]),
}


@dataclass(frozen=True)
class Case:
    """A delay [s] of parameters (a, b, c, tau) and states, and as SymPy; what is known before the
    start; values of a, b, c, tau and x at the start, where y is 0.3."""

    late: Callable[..., Any]
    delay: Any
    before: Callable[..., Any] | None
    history: Any
    q: tuple[float, ...]


LINE = ks.Signal([-1.0, 0.5], [0.05, 0.2])  # up to x at the start
CASES = {
    "off-grid": Case(lambda p, s: p[3], tau, None, None, (2.0, 0.5, 0.4, 0.2317, 0.2)),
    "short": Case(lambda p, s: p[3], tau, None, None, (2.0, 0.5, 0.4, 0.0231, 0.2)),
    "history": Case(
        lambda p, s: p[3] / (1.0 + p[2]),
        tau / (1 + c),
        lambda at: 0.05 + 0.1 * (at + 1.0),
        LINE,
        (2.0, 0.5, 0.4, 0.3113, 0.2),
    ),
    "of the state": Case(
        lambda p, s: p[3] + p[2] * s[0] ** 2,
        ks.delayed,
        None,
        None,
        (2.0, 0.5, 0.4, 0.1317, 0.2),
    ),
}


@cache
def model(name):
    case = CASES[name]
    if case.delay is ks.delayed:
        late = ks.delayed(x, tau + c * x**2, range=(0.01, 0.5))
    else:
        late = ks.delayed(x, case.delay)
    equations = [x.diff(t) - y, y.diff(t) + a * sp.sin(late) + b * y - u]
    return ks.Model(f"late_{name[:3]}", [x, y], [u], [a, b, c, tau], equations)


def hermite(s, h, ends):
    """States at a share s, from states and rates at both ends."""
    one, f, two, g = ends
    bends = (2.0 * s**3 - 3.0 * s**2 + 1.0, h * (s**3 - 2.0 * s**2 + s))
    return bends[0] * one + bends[1] * f + (1.0 - bends[0]) * two + h * (s**3 - s**2) * g


def stepped(case, method, q):
    """States (2, N) by fixed steps, each repeated until it stays, in complex arithmetic."""
    A, weights, nodes = map(np.array, TABLEAUS[method])
    p, h = q[:4], TIME[1] - TIME[0]
    X = np.zeros((len(TIME), 2), dtype=complex)
    F = np.zeros_like(X)
    X[0] = [q[4], 0.3]

    def course(at, last):
        if at.real < TIME[0]:
            return np.array([case.before(at) if case.before else X[0, 0], X[0, 1]])
        k = min(int((at.real - TIME[0]) / h + 1e-9), last)
        return hermite((at - TIME[k]) / h, h, (X[k], F[k], X[k + 1], F[k + 1]))

    def rate(states, at, i):
        push = np.interp(at, TIME, PUSH)
        past = course(at - case.late(p, course(at + 0j, i)), i)
        return np.array([states[1], push - p[0] * np.sin(past[0]) - p[1] * states[1]])

    for i in range(len(TIME) - 1):
        X[i + 1] = X[i]
        K = np.zeros((len(nodes), 2), dtype=complex)
        for _ in range(40):
            F[i], F[i + 1] = rate(X[i], TIME[i], i), rate(X[i + 1], TIME[i + 1], i)
            for j, share in enumerate(nodes):
                K[j] = rate(X[i] + h * A[j] @ K, TIME[i] + share * h, i)
            change = np.abs(X[i + 1] - (X[i] + h * weights @ K)).max()
            X[i + 1] = X[i] + h * weights @ K
            if change < 1e-17:
                break
    return X.T


def by_complex_step(case, method):
    """States, and their derivatives by q, (2, N, 5)."""
    q = np.array(case.q, dtype=complex)
    columns = [stepped(case, method, q + 1e-40j * e).imag / 1e-40 for e in np.eye(5)]
    return stepped(case, method, q).real, np.moveaxis(columns, 0, 2)


@pytest.mark.parametrize("method", TABLEAUS)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_the_steps(name, method):
    case = CASES[name]
    states, slopes = by_complex_step(case, method)
    history = {} if case.history is None else {x: case.history}
    known = dict(zip((a, b, c, tau), case.q[:4], strict=True))
    trial = ks.Experiment(TIME, inputs={u: PUSH}, history=history)
    problem = ks.Shooting(
        model(name),
        trial,
        unknown={a: None, b: None, c: None, tau: (0.01, 0.5)},
        initial={x: None, y: 0.3},
        objective=ks.Terminal(x**2 + y),
        method=method,
    )
    q = {**known, x: case.q[4]}
    expected = 2.0 * states[0, -1] * slopes[0, -1] + slopes[1, -1]
    assert problem.cost(q) == pytest.approx(states[0, -1] ** 2 + states[1, -1], rel=1e-11)
    for mode in ("adjoint", "forward"):
        np.testing.assert_allclose(problem.gradient(q, mode), expected, rtol=1e-9, atol=1e-12)
    exact = ks.sensitivities(
        model(name), TIME, {x: case.q[4], y: 0.3}, known, {u: PUSH}, method, history=history
    )
    along = exact.forward([a, b, c, tau, x])
    np.testing.assert_allclose(exact.run[y], states[1], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(along[y].T, slopes[1], rtol=1e-9, atol=1e-11)
    weights = np.linspace(-1.0, 2.0, len(TIME))
    found = exact.gradient({x: weights})
    expected = [*found.parameters.values(), found.initial["x"]]
    np.testing.assert_allclose(expected, weights @ slopes[0], rtol=1e-9, atol=1e-12)


def record(late, count=121):
    """A record of the third model, with an output that is late, too, and one input as delayed."""
    time = np.linspace(0.0, 6.0, count)
    push = np.cos(3.0 * time) + np.sin(1.7 * time)
    run = ks.simulate(late, time, {x: 0.2, y: 0.0}, inputs={u: push})
    rng = np.random.default_rng(4)
    noisy = {name: run[name] + 0.01 * rng.standard_normal(count) for name in ("x", "z")}
    return ks.Experiment(time, {u: push}, noisy, std={x: 0.01, "z": 0.01})


@pytest.fixture(scope="module")
def late():
    values = {a: 4.0, b: 1.0, c: 0.3, tau: 0.15}
    pushed = ks.delayed(u, 2 * tau)
    equations = [x.diff(t) - y, y.diff(t) + a * ks.delayed(x, tau) + b * y - pushed]
    outputs = {"z": x + c * ks.delayed(y, tau)}
    return ks.Model("late", [x, y], [u], [a, b, c, tau], equations, values=values, outputs=outputs)


def test_a_fit_with_intervals(late):
    unknown = {a: (0, 20), c: None, tau: (0.02, 0.5)}
    trial = record(late)
    problem = ks.Shooting(late, trial, unknown, initial={x: None, y: 0.0}, substeps=2)
    fit = problem.solve({a: 3.0, c: 0.1, tau: 0.2}, "least-squares")
    assert fit.success
    q, found = fit.values, fit.parameters
    truth = np.array([4.0, 0.3, 0.15, 0.2])
    covariance = np.linalg.inv(problem.residual_jacobian(q).T @ problem.residual_jacobian(q))
    assert (np.abs(q - truth) < 3.5 * np.sqrt(np.diag(covariance))).all()
    np.testing.assert_allclose(fit.uncertainty[0].covariance, covariance, rtol=1e-6)
    run = fit.trials[0]
    again = np.interp(run.time - found["tau"], run.time, run[y], left=0.0)
    assert np.abs(run["y(t - tau)"] - again).max() < 0.02
    same = problem.solve({a: 3.0, c: 0.1, tau: 0.2}, "bfgs")
    np.testing.assert_allclose(same.values, q, rtol=1e-5)


def test_as_collocation_but_for_the_steps(late):
    """Other steps, so estimates that differ by the errors of both, far less than by the noise."""
    trial, unknown = record(late), {a: (0, 20), c: None, tau: (0.02, 0.5)}
    guess = {a: 3.0, c: 0.1, tau: 0.2}
    made = ks.Shooting(late, trial, unknown, initial={x: None, y: 0.0}, method="radau-5")
    task = ks.Collocation(late, trial, unknown, scheme="radau-5", boundary=[ks.at_start(y)])
    ours, theirs = made.solve(guess, "least-squares"), task.solve(guess)
    for name, deviation in ours.standard_errors().items():
        if name in ("a", "c", "tau"):
            assert abs(ours.parameters[name] - theirs.parameters[name]) < 0.05 * deviation


def test_delays_per_trial_and_priors(late):
    asked = {a: ks.normal(4.0, 0.5), tau: ks.per_trial(0.05, 0.5)}
    trials = [record(late, 61), record(late, 41)]
    made = ks.Shooting(late, trials, asked, initial={x: 0.2, y: 0.0})
    q = made.pack({a: 3.7, tau: {0: 0.222, 1: 0.311}})
    assert made.names == ["a", "tau[0]", "tau[1]"]
    differences = [(made.cost(q + e) - made.cost(q - e)) / 2e-6 for e in 1e-6 * np.eye(len(q))]
    for mode in ("adjoint", "forward"):
        np.testing.assert_allclose(made.gradient(q, mode), differences, rtol=1e-6)
    with pytest.raises(ValueError, match="no continuous adjoint of a model with delays"):
        made.gradient(q, mode="continuous-adjoint")


def test_an_objective_with_a_delay_and_steps_that_divide_it(late):
    time = np.linspace(0.0, 2.0, 81)
    trial = ks.Experiment(time, {u: np.cos(time)})
    cost = ks.Integral(ks.delayed(x, tau) ** 2 + (x - 1) ** 2)
    problem = ks.Shooting(late, trial, {tau: (0.02, 0.5)}, initial={x: 0.4, y: 0.0}, objective=cost)
    for q in (0.131, 0.07):
        expected = (problem.cost([q + 1e-5]) - problem.cost([q - 1e-5])) / 2e-5
        np.testing.assert_allclose(problem.gradient([q]), [expected], rtol=1e-6)
        r, J = problem.residuals([q]), problem.residual_jacobian([q])
        np.testing.assert_allclose(2.0 * r @ J, problem.gradient([q]), rtol=1e-9)


GRID = np.linspace(0.0, 1.0, 11)
ALGEBRAIC = ks.Model(
    "algebraic", [x, y], [], [tau], [x.diff(t) + y, y - ks.delayed(x, tau)], values={tau: 0.2}
)
HELD = ks.Signal(GRID, np.sin(9.0 * GRID), between="held")


@pytest.mark.parametrize(
    ("system", "more", "words"),
    [
        (ALGEBRAIC, {"initial": {x: 1.0, y: 1.0}}, "beside algebraic states, y"),
        (ks.hybrid.Hybrid(ALGEBRAIC), {"initial": {x: 1.0, y: 1.0}}, "over events of a hybrid"),
        (None, {"segments": 2}, "several segments, as a delay would reach back"),
        (None, {"unknown_inputs": {u: None}}, "beside unknown inputs: use ks.Collocation"),
        (None, {"trial": {"inputs": {u: HELD}}}, "u of trial 0 jumps, and u.t - 2.tau. has"),
        (None, {"trial": {"history": {u: 0.3}}}, "u of trial 0 jumps"),
        (
            None,
            {"trial": {"history": {x: None}}},
            "the history of x is unknown, and shooting wants",
        ),
        (None, {"trial": {"history": {a: 0.3}}}, "a history of a, which has no delay"),
        (None, {"unknown": {tau: (-0.1, 0.3)}}, "has the bounds .-0.1, 0.3.; a delay is not neg"),
        (None, {"unknown": {tau: None}}, "one that is unknown needs finite bounds"),
    ],
)
def test_what_is_refused(late, system, more, words):
    about = {"inputs": {} if system else {u: np.sin(GRID)}, **more.pop("trial", {})} | {
        "measurements": {x: np.ones(11)}
    }
    more = {"initial": {x: 0.2, y: 0.0}, "unknown": {tau: (0.1, 0.5)}, **more}
    with pytest.raises(ValueError, match=words):
        ks.Shooting(system or late, ks.Experiment(GRID, **about), **more)


def test_a_leap_at_the_start_is_told_and_a_history_too_short_ends_the_run(late):
    trial = ks.Experiment(GRID, {u: np.sin(GRID)}, {x: np.ones(11)}, history={x: 0.0})
    with pytest.warns(UserWarning, match=r"x of trial 0 leaps from 0 to 0.2 at the start"):
        ks.Shooting(late, trial, {tau: (0.1, 0.5)}, initial={x: 0.2, y: 0.0})
    early = ks.Signal([-0.3, 0.0], [0.1, 0.2])
    trial = ks.Experiment(GRID, {u: np.sin(GRID)}, {x: np.ones(11)}, history={x: early})
    problem = ks.Shooting(late, trial, {tau: (0.1, 0.5)}, initial={x: 0.2, y: 0.0})
    assert np.isinf(problem.cost([0.4]))
    with pytest.raises(ValueError, match=r"is known from -0.3 s on, and x\(t - tau\) looks back"):
        problem.gradient([0.4])


def test_sensitivities_say_what_they_lack(late):
    run = ks.sensitivities(late, GRID, {x: 0.2, y: 0.0}, inputs={u: np.sin(GRID)})
    with pytest.raises(ValueError, match="input u: with delays there are derivatives by"):
        run.gradient(x).inputs["u"]
    with pytest.raises(ValueError, match="q is no parameter and no state"):
        run.forward(["q"])
    algebraic = ks.Model("algebraic", [x, y], [], [], [x.diff(t) + y, y - ks.delayed(x, 0.2)])
    with pytest.raises(ValueError, match="delays and the algebraic state y, by which there are no"):
        ks.sensitivities(algebraic, GRID, {x: 1.0, y: 1.0}, method="radau-5")
    with pytest.raises(ValueError, match=r"method is one of rk4, .*, got 'dormand-prince'"):
        ks.sensitivities(late, GRID, {x: 1.0, y: 1.0}, inputs={u: 0.0}, method="dormand-prince")
    with pytest.warns(UserWarning, match=r"x leaps at the start, and derivatives by the delay"):
        ks.sensitivities(late, GRID, {x: 1.0, y: 1.0}, inputs={u: 0.0}, history={x: 0.0})
    steps = ks.Signal(GRID, np.sin(9.0 * GRID), between="held")
    with pytest.warns(UserWarning, match=r"u leaps at t = 0.1 s, and derivatives by the delay"):
        ks.sensitivities(late, GRID, {x: 1.0, y: 1.0}, inputs={u: steps})
