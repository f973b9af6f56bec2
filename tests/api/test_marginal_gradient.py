"""The gradient of the marginal likelihood: by complex steps of a closed form, by differences of the
likelihood; and how few solves by IPOPT and factorisations a fit takes."""

import numpy as np
import pytest
import sympy as sp
from scipy.linalg import expm

import kinesym as ks
from kinesym.internal.fitting import marginal
from kinesym.runtime.statistics import factors

x, v, u = ks.dynamicsymbols("x v u")
k, c, b = sp.symbols("k c b")
H, STD = 0.05, 0.05
TIME = H * np.arange(61)


def spring(bent=False, std=STD):
    """A mass on a spring, or a pendulum, which noise pushes; its position is measured."""
    force = k * (sp.sin(x) if bent else x) + c * v - u
    model = ks.Model("noisy", [x, v], [u], [k, c], [x.diff(ks.t) - v, v.diff(ks.t) + force])
    rng, state, row = np.random.default_rng(1), np.array([0.8, 0.0]), np.empty(len(TIME))
    step = expm(H * np.array([[0.0, 1.0, 0.0], [-9.0, -0.6, 1.0], [0.0, 0.0, 0.0]]))
    for n in range(len(TIME)):
        row[n] = state[0] + STD * rng.standard_normal()
        state = step[:2, :2] @ state + step[:2, 2] * 2.0 * rng.standard_normal() / np.sqrt(H)
    trial = ks.Experiment(TIME, measurements={x: row}, std={} if std is None else {x: std})
    unknown = {k: (1, 50), c: (0.01, 5)}
    return ks.Collocation(model, trial, unknown, noise={u: None}, scheme="gauss-6"), row


def decays(pushed):
    """Noisy x' = -b x (1 + 0.3 x^2), with a rate of each subject, pushed by noise or not."""
    push = [u] if pushed else []
    slope = -b * x * (1 + 0.3 * x**2) + sum(push)
    model = ks.Model("decay", [x], push, [b], [x.diff(ks.t) - slope])
    rng, trials = np.random.default_rng(6), []
    for number in range(4):
        row = np.exp(-(1.5 + 0.3 * number) * TIME[:21]) + STD * rng.standard_normal(21)
        trials.append(ks.Experiment(TIME[:21], measurements={x: row}, labels={"subject": number}))
    unknown = {b: ks.per("subject", ks.normal(None, None))}
    return ks.Collocation(model, trials, unknown, noise=dict.fromkeys(push), scheme="radau-3")


class Caught(Exception):
    """What the search begins with."""


def caught(monkeypatch, task, guess):
    """-2 log L from one value to the next, its gradient, and the value at a guess."""

    def search(evaluate, slope, start, *_):
        raise Caught(evaluate, slope, start)

    with monkeypatch.context() as patch:
        patch.setattr(marginal, "minimise", search)
        with pytest.raises(Caught) as found:
            task.solve(guess)
    return found.value.args


def exact(q, row):
    """-2 log L of (k, c, log of the intensity), analytic in these, by the covariance of samples;
    the start anywhere, in units of what moves the first six of them by their error."""
    A = np.array([[0.0, 1.0, 0.0], [-q[0], -q[1], 1.0], [0.0, 0.0, 0.0]])
    step, n = expm(H * A), len(row)
    of_start, of_noise = [np.array([1.0, 0.0])], [step[0, 2] * np.exp(q[2]) / np.sqrt(H)]
    for _ in row[1:]:
        of_start.append(of_start[-1] @ step[:2, :2])
        of_noise.append(of_start[-1] @ step[:2, 2] * np.exp(q[2]) / np.sqrt(H))
    pushes = sum(np.diag(np.full(n - 1 - j, of_noise[j]), -1 - j) for j in range(n - 1))
    spread, moved = pushes @ pushes.T + STD**2 * np.eye(n), np.array(of_start)
    known = moved.T @ np.linalg.solve(spread, moved)
    left = np.linalg.solve(spread, row)
    best = np.linalg.solve(known, moved.T @ left)
    heights = np.log(np.linalg.det(spread / STD**2)) + 2.0 * n * np.log(STD)
    first = np.linalg.det(known) / np.linalg.det(moved[:6].T @ moved[:6] / STD**2)
    return (
        row @ left - (moved.T @ left) @ best + heights + np.log(first) + (n - 2) * np.log(2 * np.pi)
    )


def test_by_complex_steps(monkeypatch):
    """Of a linear model, of which the likelihood is exact but for the scheme."""
    task, row = spring()
    _, slope, start = caught(monkeypatch, task, {k: 7.0, c: 0.8})
    steps = 1e-30j * np.eye(3)
    assert start.value == pytest.approx(exact(start.x, row), abs=1e-7)
    expected = [exact(start.x + step, row).imag / 1e-30 for step in steps]
    np.testing.assert_allclose(slope(start), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "made",
    [lambda: spring(std=None)[0], lambda: spring(True, None)[0], lambda: decays(False),
     lambda: decays(True)],
    ids=["unknown std", "nonlinear", "random effects", "both"],
)  # fmt: skip
def test_by_differences(made, monkeypatch):
    """By central differences of the likelihood, of the sixth order (Richardson)."""
    guess = {k: 7.0, c: 0.8} if "k" in str(made().model.parameters) else {b: 1.0}
    evaluate, slope, start = caught(monkeypatch, made(), guess)
    at = evaluate(start.x + 0.1, start)  # off the guess, where subjects are alike
    errors = np.sqrt(2.0 / np.abs(at.state.curvature))

    def change(step):
        ahead, behind = (evaluate(at.x + side * step, at).value for side in (1.0, -1.0))
        return ahead - behind

    weights = np.array([45.0, -9.0, 1.0]) / 60.0
    steps = 0.02 * np.diag(np.minimum(errors, 1.0))
    expected = [sum(w * change(n * s) for n, w in enumerate(weights, 1)) for s in steps]
    found = slope(at) * np.diag(steps)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-7 * np.linalg.norm(expected))


def test_few_factorisations(monkeypatch):
    """IPOPT solves for the first trajectories only. A value takes two factorisations, of all and of
    the samples alone, and one more for each further step of Newton's method."""
    solves, made, values = [], [], []
    for module, name, calls in (
        (marginal, "solve", solves),
        (marginal.Marginal, "_valued", values),
        (factors.InTime, "__init__", made),
    ):
        monkeypatch.setattr(module, name, counted(getattr(module, name), calls))
    for bent, steps in ((False, 0), (True, 2)):
        for calls in (solves, made, values):
            calls.clear()
        assert spring(bent)[0].solve({k: 7.0, c: 0.8}).success
        assert len(solves) == 1 and len(values) <= 20
        assert len(made) <= (2 + steps) * len(values) + 2  # two for what is said of the solution


def counted(function, calls):
    """A function that adds to a list when it is called."""

    def call(*arguments, **options):
        calls.append(None)
        return function(*arguments, **options)

    return call
