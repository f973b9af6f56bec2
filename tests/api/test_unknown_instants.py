"""Conditions at times that are parameters, against closed forms."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq

import kinesym as ks

x, v, u = ks.dynamicsymbols("x v u")
tau, sigma = sp.symbols("tau sigma")
cart = ks.Model("cart", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
TIME = np.linspace(0.0, 1.0, 23)
REST = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)]


def posed(path, unknown, trials=None, boundary=REST, objective=None, **more):
    return ks.Collocation(
        cart,
        ks.Experiment(TIME) if trials is None else trials,
        unknown=unknown,
        objective=ks.Integral(u**2) if objective is None else objective,
        boundary=boundary,
        path=path,
        **{"scheme": "radau-5", "unknown_inputs": {u: None}, **more},
    )


#: Of the way 3 t^2 - 2 t^3, by force 6 - 12 t: conditions that say nothing new, and when they hold.
PASSING = [
    (x - 0.3, brentq(lambda s: 3 * s**2 - 2 * s**3 - 0.3, 0, 1)),
    (v.diff(ks.t) + 2.0 * v - 3.0, brentq(lambda s: 6 - 12 * s + 12 * s * (1 - s) - 3, 0, 1)),
    (x - ks.t**2 * 1.5, 0.75),
]


@pytest.mark.parametrize(
    ("passing", "scheme"), [*zip(PASSING, ["radau-5", "hermite-simpson", "gauss-4"], strict=True)]
)
def test_when_something_happens(passing, scheme):
    """A condition that the best motion meets anyway, at a time that is found: far from the guess,
    which is in the middle of its bounds."""
    condition, when = passing
    solution = posed([ks.at(tau, condition)], {tau: (0.05, 0.99)}, scheme=scheme).solve()
    assert solution.success
    np.testing.assert_allclose(solution.objective, 12.0, rtol=1e-6)
    np.testing.assert_allclose(solution.parameters["tau"], when, rtol=2e-6)


@pytest.mark.parametrize("guess", [0.03, 0.95])
def test_from_afar_on_a_fine_grid(guess):
    """Through hundreds of intervals, in few iterations; with a condition that is no equation."""
    fine = ks.Experiment(np.linspace(0.0, 1.0, 401))
    path = [ks.at(tau, x - 0.3), ks.at(tau, v >= 0)]
    solution = posed(path, {tau: (0.02, 0.98)}, fine).solve({tau: guess})
    assert solution.success and solution.iterations < 60
    np.testing.assert_allclose(solution.parameters["tau"], PASSING[0][1], rtol=1e-7)


def test_several_conditions_at_one_time_and_at_others():
    """From rest to rest and back in 1 s by way of 1/16, wherever that is best: half-way, where it
    rests, too; a second time is when it is half as far."""
    back = [ks.at_start(x), ks.at_start(v), ks.at_end(x), ks.at_end(v)]
    way = [ks.at(tau, x - 1 / 16), ks.at(sigma, x - 1 / 32), ks.at(sigma, v >= 0)]
    problem = posed(way, {tau: (0.2, 0.9), sigma: (0.1, 0.5)}, boundary=back)
    solution = problem.solve(guess={x: TIME * (1 - TIME) / 4, tau: 0.3})
    assert solution.success
    np.testing.assert_allclose(solution.objective, 192 / 16**2, rtol=2e-3)
    np.testing.assert_allclose(solution.parameters["tau"], 0.5, atol=1e-3)
    half = brentq(lambda s: 3 * s**2 - 2 * s**3 - 0.5, 0, 1) / 2
    np.testing.assert_allclose(solution.parameters["sigma"], half, atol=1e-3)


def test_motions_of_trials_bend_at_times_of_their_own():
    back = [ks.at_start(x), ks.at_start(v), ks.at_end(x), ks.at_end(v)]
    trials, each = [ks.Experiment(np.linspace(0.0, 1.0, 8))] * 2, ks.per("trial", (0.2, 0.9))
    solution = posed([ks.at(tau, x - 0.5)], {tau: each}, trials, boundary=back).solve({tau: 0.4})
    assert any("another guess of tau" in note for note in solution.notes)


def test_a_motion_that_bends_within_an_interval():
    """By way of 1/2 and back within 1 s: 48 if tau is a node, more and another value for each guess
    if not, of which a note speaks; two phases meet at the time that is best."""
    back = [ks.at_start(x), ks.at_start(v), ks.at_end(x), ks.at_end(v)]
    for nodes, exact in ((20, False), (21, True)):
        time = np.linspace(0.0, 1.0, nodes)
        trial = ks.Experiment(time)
        problem = posed([ks.at(tau, x - 0.5)], {tau: (0.2, 0.9)}, trial, boundary=back)
        solution = problem.solve({x: 2 * time * (1 - time), tau: 0.4})
        assert solution.success and (solution.objective < 48.0 + 1e-6) == exact
        assert any("another guess of tau" in note for note in solution.notes) != exact
    clock = ks.dynamicsymbols("clock")
    timed = cart.extended({clock: 1})
    half = ks.Experiment(nodes=9, duration=(0.05, 0.95))
    ends = {"start": [*back[:2], ks.at_start(clock)], "end": [*back[2:], ks.at_end(clock) - 1]}
    goes_on = [ks.at_start(s) - ks.at_end(s) for s in (x, v, clock)]
    phases = ks.Phases([half, half], joints=[[ks.at_end(x) - 0.5, *goes_on]], **ends)
    two = ks.Collocation(
        timed,
        phases,
        objective=ks.Integral(u**2),
        unknown_inputs={u: None},
        scheme="radau-5",
    ).solve({"duration": [0.3, 0.7]})
    assert two.success and two.objective == pytest.approx(48.0, rel=1e-8)


def test_known_times_need_no_node():
    """The same way as with a node there, but for the corner of u' within an interval."""
    fine = ks.Experiment(np.linspace(0, 1, 81))
    at_node = posed([ks.at(0.4, x - 0.5)], {}, fine).solve()
    between = posed([ks.at(tau, x - 0.5)], {}, known={tau: 0.4}).solve()
    assert not np.isclose(TIME, 0.4).any()
    np.testing.assert_allclose(between.objective, at_node.objective, rtol=1e-3)


def test_unknown_durations():
    """As fast as possible over 1 m with |u| <= 1, in 2 s: at sqrt(1/2) s a quarter is done. If it
    may be done no earlier than at 2.5 s, it first goes back, for a run-up."""
    trial = ks.Experiment(nodes=31, duration=(0.5, 9.0))
    given = {"objective": ks.Terminal(ks.t), "unknown_inputs": {u: (-1, 1)}}
    path = [ks.at(tau, x - 0.25)]
    solution = posed(path, {tau: (0.1, None)}, trial, scheme="radau-3", **given).solve()
    np.testing.assert_allclose(solution.time[-1], 2.0, rtol=1e-6)
    np.testing.assert_allclose(solution.parameters["tau"], np.sqrt(0.5), rtol=1e-5)
    late = posed(path, {tau: (2.5, None)}, trial, scheme="radau-3", **given).solve()
    back = brentq(lambda d: 2 * np.sqrt(d) + np.sqrt(2 * d + 0.5) - 2.5, 0, 1)
    v0 = np.sqrt(2 * back + 0.5)
    exact = 2.5 + 2 * np.sqrt(0.75 + v0**2 / 2) - v0
    np.testing.assert_allclose(late.time[-1], exact, rtol=1e-3)


def test_times_of_each_trial_and_derivatives():
    """A time in each of two trials, on logarithmic scales; derivatives as by differences."""
    trials = [ks.Experiment(TIME), ks.Experiment(TIME[:15])]
    unknown = {tau: ks.per_trial(ks.log_scale(0.05, 0.6))}
    problem = posed([ks.at(tau, x * v - 0.2 + u / 100)], unknown, trials, scheme="radau-3")
    z = problem.pack({x: 0.3, v: 0.7, u: 0.1, tau: {"0": 0.31, "1": 0.3}})
    z += 0.01 * np.random.default_rng(0).standard_normal(len(z))
    slopes, step = problem.constraint_jacobian(z).toarray(), 1e-6
    for j in np.flatnonzero(np.abs(slopes).sum(axis=0))[-40:]:
        far = np.eye(len(z))[j] * step
        found = (problem.constraints(z + far) - problem.constraints(z - far)) / (2 * step)
        np.testing.assert_allclose(slopes[:, j], found, atol=1e-6 * (1 + np.abs(found).max()))
    y = np.random.default_rng(1).standard_normal(problem.n_constraints)
    bend = problem.lagrangian_hessian(z, y).toarray()
    for j in range(len(z) - 2, len(z)):
        far = np.eye(len(z))[j] * step
        found = [problem.constraint_jacobian(z + s * far).T @ y for s in (1, -1)]
        found = (found[0] - found[1]) / (2 * step)
        gap = bend[:, j] - found
        gap[np.abs(found) > 1e3] = 0.0
        cost = [problem.cost_gradient(z + s * far) for s in (1, -1)]
        gap -= (cost[0] - cost[1]) / (2 * step)
        np.testing.assert_allclose(gap, 0.0, atol=1e-5 * (1 + np.abs(found).max()))


def test_standard_errors_of_times():
    """When a decay from 2 has fallen to 1/2: log(4)/k, as certain as k."""
    k = sp.Symbol("k")
    decay = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
    time = np.linspace(0, 3, 61)
    noise = 0.02 * np.random.default_rng(4).standard_normal(61)
    trial = ks.Experiment(time, measurements={x: 2 * np.exp(-time) + noise}, std={x: 0.02})
    problem = ks.Collocation(
        decay,
        trial,
        unknown={k: (0.1, 5), tau: (0.1, 2.9)},
        boundary=[ks.at_start(x) - 2],
        path=[ks.at(tau, x - 0.5)],
        scheme="radau-5",
    )
    solution = problem.solve({k: 1.0})
    found = solution.parameters
    np.testing.assert_allclose(found["tau"], np.log(4) / found["k"], rtol=1e-6)
    spread = np.sqrt(np.diag(problem.covariance(solution)))
    np.testing.assert_allclose(spread[1], spread[0] * np.log(4) / found["k"] ** 2, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: posed([ks.at(tau, x)], {}), "parameter tau has no value"),
        (lambda: posed([ks.at(tau, x)], {tau: None}), "time tau of a condition is -inf ... inf s"),
        (
            lambda: posed([ks.at(tau, x)], {tau: (0.5, 2)}),
            "0.5 ... 2 s, but trial 0 is from 0",
        ),
        (lambda: posed([ks.at(tau, x)], {}, known={tau: 1.5}), "1.5 s, but trial 0 is from 0"),
        (lambda: posed([], {}, boundary=[ks.at(tau, x)]), "belongs in path"),
        (lambda: posed([ks.at(2 * tau, x)], {tau: (0, 1)}), "the time of ks.at"),
        (lambda: posed([ks.at(tau, ks.delayed(x, 0.1))], {tau: (0, 1)}), "has a delayed value"),
        (lambda: posed([ks.at(tau, sp.Symbol("w"))], {tau: (0, 1)}), "w"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
