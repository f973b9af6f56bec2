"""Shooting of models with delays: gradients against complex steps of another discretisation."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
k, c, tau, bend = sp.symbols("k c tau bend")
t = ks.t
GRID = np.linspace(0.0, 2.0, 21)
PUSH = np.sin(3.0 * GRID)
VALUES = {k: 4.0, c: 0.9, tau: 0.23, bend: 0.1}


def model(moving=False):
    """A spring that acts late; `moving`, later the faster it is."""
    late = ks.delayed(x, tau + bend * v**2, range=(0.0, 1.0)) if moving else ks.delayed(x, tau)
    rows = [x.diff(t) - v, v.diff(t) + k * late + c * v + 0.3 * sp.sin(x) - u]
    used = [k, c, tau, bend] if moving else [k, c, tau]
    return ks.Model("late", [x, v], [u], used, rows, values={p: VALUES[p] for p in used})


def record(seed=0, course=None, **more):
    """Noise around a course, at first one that the model does not have."""
    rng = np.random.default_rng(seed)
    seen = (np.cos(GRID) if course is None else course) + 0.1 * rng.standard_normal(len(GRID))
    history = {"history": {x: 1.0}} | more
    return ks.Experiment(GRID, {u: PUSH}, {x: seen}, {x: 0.1}, **history)


def shooting(moving=False, unknown=None, method=None, **more):
    asked = unknown or {k: (0, 20), c: (0, 5), tau: (0.05, 0.5)} | (
        {bend: (0, 1)} if moving else {}
    )
    return ks.Shooting(
        model(moving), record(**more), asked, initial={x: 1.0, v: None}, method=method
    )


def by_complex_euler(q, trial, moving):
    """The sum of squares by the implicit Euler method with straight lines between nodes, in complex
    numbers; q : stiffness, damping, delay, its bend, speed at the start."""
    stiff, damping, delay, curve, speed = q
    h, seen, X = GRID[1], trial.measurements["x"], [np.array([1.0 + 0j, speed])]
    for n in range(1, len(GRID)):
        y = X[-1]
        for _ in range(40):
            at = GRID[n] - (delay + curve * y[1] ** 2 if moving else delay)
            j = min(max(int(np.ceil(at.real / h - 1e-12)), 0), n)
            before, after = X[j - 1], X[j] if j < n else y
            late = before[0] + (at - GRID[j - 1]) / h * (after[0] - before[0]) if j else 1.2
            force = PUSH[n] - stiff * late - damping * y[1] - 0.3 * np.sin(y[0])
            y = X[-1] + h * np.array([y[1], force])
        X.append(y)
    return sum((((state[0] - m) / 0.1) ** 2 for state, m in zip(X, seen, strict=True)), 0j)


@pytest.mark.parametrize("moving", [False, True], ids=["constant", "with the speed"])
def test_gradients_are_those_of_a_complex_step(moving):
    before = {x: 1.2}  # not where it starts
    made, trial = shooting(moving, method="radau-1", history=before), record()
    at = {k: 3.1, c: 0.7, tau: 0.234, v: -0.2} | ({bend: 0.07} if moving else {})
    q = np.array([3.1, 0.7, 0.234, 0.07, -0.2], dtype=complex)
    assert made.cost(at) == pytest.approx(by_complex_euler(q, trial, moving).real, rel=1e-11)
    used = [0, 1, 2, 3, 4] if moving else [0, 1, 2, 4]
    sides = [by_complex_euler(q + 1e-30j * np.eye(5)[j], trial, moving) for j in used]
    expected = np.imag(sides) / 1e-30
    for mode in ("adjoint", "forward"):
        found = made.gradient(at, mode=mode)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    slopes = 2.0 * made.residual_jacobian(at).T @ made.residuals(at)
    np.testing.assert_allclose(slopes, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_the_minimum_is_that_of_collocation():
    """The same equations, so the same estimates."""
    truth = {**VALUES, v: 0.3}
    del truth[bend]
    course = shooting(method="gauss-4").trajectories(truth)[0]["x"]
    made, given = (
        shooting(method="gauss-4", course=course),
        {k: (0, 20), c: (0, 5), tau: (0.05, 0.5)},
    )
    fit = made.solve({k: 3.0, c: 1.0, tau: 0.2, v: 0.0}, optimizer="least-squares")
    task = ks.Collocation(
        model(), record(course=course), given, scheme="gauss-4", boundary=[ks.at_start(x) - 1.0]
    )
    found = task.solve({k: 3.0, c: 1.0, tau: 0.2})
    for name in ("k", "c", "tau"):
        assert fit.parameters[name] == pytest.approx(found.parameters[name], rel=1e-5)
    assert fit.objective == pytest.approx(found.objective, rel=1e-9)
    np.testing.assert_allclose(fit["x"], found["x"], atol=1e-6)
    late = fit.trials[0]["x(t - tau)"]
    assert late[0] == pytest.approx(1.0) and fit.standard_errors()["tau"] > 0.0


def test_delays_per_trial_and_priors():
    asked = {k: ks.normal(4.0, 0.5), tau: ks.per_trial(0.05, 0.5)}
    trials = [record(0), record(1)]
    made = ks.Shooting(model(), trials, asked, initial={x: 1.0, v: 0.0}, substeps=2)
    q = made.pack({k: 3.7, tau: {0: 0.22, 1: 0.31}})
    differences = [(made.cost(q + e) - made.cost(q - e)) / 2e-6 for e in 1e-6 * np.eye(len(q))]
    np.testing.assert_allclose(made.gradient(q), differences, rtol=1e-6)
    assert made.names == ["k", "tau[0]", "tau[1]"]


def test_what_is_refused():
    start = {"initial": {x: 1.0, v: 0.0}}
    with pytest.raises(ValueError, match=r"method is one of radau-3, .*, got 'rk4'"):
        shooting(method="rk4")
    with pytest.raises(ValueError, match=r"several segments; use ks\.Collocation"):
        ks.Shooting(model(), record(), {k: None}, segments=2, **start)
    free = ks.Experiment(GRID, measurements={x: np.ones(21)})
    with pytest.raises(ValueError, match=r"unknown inputs; use ks\.Collocation"):
        ks.Shooting(model(), free, {k: None}, unknown_inputs={u: None}, **start)
    with pytest.raises(ValueError, match="one that is unknown needs finite bounds"):
        ks.Shooting(model(), record(), {tau: None}, **start)
    with pytest.raises(ValueError, match="no continuous adjoint of a model with delays"):
        shooting().gradient({k: 4.0, c: 0.5, tau: 0.2, v: 0.0}, mode="continuous-adjoint")
    with pytest.raises(ValueError, match="by which there are no sensitivities"):
        ks.sensitivities(model(), GRID, {x: 1.0, v: 0.0}, inputs={u: 0.0})
    hybrid = ks.hybrid.Hybrid(model())
    with pytest.raises(ValueError, match="hybrid model late has delays"):
        ks.Shooting(hybrid, record(), {k: None}, **start)
