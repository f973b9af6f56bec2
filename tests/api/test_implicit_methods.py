"""Fixed steps of Radau IIA, Gauss and Lobatto IIIA: order, algebraic states, derivatives."""

import warnings

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import kinesym as ks
from kinesym.symbolic.schemes import ADAPTIVE, SCHEMES

t = ks.t
x, v, y, u = ks.dynamicsymbols("x v y u")
k = sp.Symbol("k")
FIXED = [name for name in SCHEMES if name not in ADAPTIVE]
#: One of each kind: those with algebraic states at the nodes, and not; with a first stage there.
KINDS = ["radau-1", "radau-3", "gauss-2", "gauss-4", "lobatto-2", "lobatto-4", "lobatto-6"]
#: Steps in a run over 2 s, such that rounding is far away.
GRIDS = {1: 1000, 2: 80, 3: 40, 4: 16, 5: 12, 6: 6}

PENDULUM = ks.Model("swing", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 4 * sp.sin(x) - sp.cos(t)])
#: x' = -y + sin t with 0 = y^3 + y - x, which is of index 1; and with an input
DRIVEN = ks.Model("driven", [x, y], [], [], [x.diff(t) + y - sp.sin(t), y**3 + y - x])
ALGEBRAIC = ks.Model(
    "algebraic", [x, y], [u], [k], [x.diff(t) + k * y - u, y**3 + y - x], values={k: 1.0}
)


def root(value):
    return brentq(lambda z: z**3 + z - value, -3.0, 3.0, xtol=1e-15)


def exact(rates, start, time):
    tight = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-15}
    return solve_ivp(rates, (time[0], time[-1]), start, t_eval=time, **tight).y


def observed(errors_of, method):
    """Order of convergence over five grids."""
    steps = GRIDS[SCHEMES[method].order] * np.array([4, 5, 6, 8, 10]) // 4
    errors = [errors_of(int(count)) for count in steps]
    return -np.polyfit(np.log(steps), np.log(errors), 1)[0]


@pytest.mark.parametrize("method", FIXED)
def test_order(method):
    def errors_of(steps):
        time = np.linspace(0.0, 2.0, steps + 1)
        run = ks.simulate(PENDULUM, time, {x: 0.7, v: -0.4}, method=method)
        return np.abs([run["x"][-1] - end[0], run["v"][-1] - end[1]]).max()

    end = exact(lambda s, z: [z[1], np.cos(s) - 4 * np.sin(z[0])], [0.7, -0.4], [0.0, 2.0])[:, -1]
    assert abs(observed(errors_of, method) - SCHEMES[method].order) < 0.1


@pytest.mark.parametrize("method", FIXED)
def test_order_with_algebraic_states(method):
    """Both kinds of states at the nodes; the start of the algebraic one is a guess, and its
    equation holds at every node: nothing rings."""

    def errors_of(steps):
        time = np.linspace(0.0, 2.0, steps + 1)
        run = ks.simulate(DRIVEN, time, {x: 1.0, y: 0.9}, method=method)
        rest = run["y"] ** 3 + run["y"] - run["x"]
        assert np.abs(rest[1:]).max() < 1e-13
        return max(abs(run["x"][-1] - end), abs(run["y"][-1] - root(end)))

    end = exact(lambda s, z: [np.sin(s) - root(z[0])], [1.0], [0.0, 2.0])[0, -1]
    assert abs(observed(errors_of, method) - SCHEMES[method].order) < 0.1


@pytest.mark.parametrize("method", KINDS)
def test_gradients_through_algebraic_states(method):
    """Adjoint, tangents, differences: a parameter, a start, samples of an input; segments."""
    time = np.concatenate([[0.0], np.cumsum(np.random.default_rng(2).uniform(0.05, 0.2, 12))])
    trial = ks.Experiment(time, measurements={y: np.cos(time)})
    for more in ({}, {"segments": 3}):
        for inputs in ({}, {u: (-9.0, 9.0)}, {u: ks.held()}):
            known = trial if inputs else ks.Experiment(time, {u: np.sin(time)}, {y: np.cos(time)})
            task = ks.Shooting(
                ALGEBRAIC,
                known,
                {k: None},
                initial={x: (-3.0, 3.0), y: 0.6},
                unknown_inputs=inputs,
                method=method,
                **more,
            )
            q = 0.5 + 0.3 * np.cos(np.arange(task.pack().size))
            steps = 1e-5 * np.eye(q.size)
            slopes = [(task.cost(q + s) - task.cost(q - s)) / 2e-5 for s in steps]
            found = task.gradient(q)
            np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-7)
            if not inputs:
                forward = task.gradient(q, mode="forward")
                np.testing.assert_allclose(forward, found, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("method", KINDS)
def test_lanes_are_single_runs(method):
    """Members of an ensemble, an input that jumps in some of them."""
    time, rng = np.linspace(0.0, 2.0, 21), np.random.default_rng(4)
    starts, values = rng.uniform(-1.0, 1.0, 11), rng.uniform(0.5, 2.0, 11)
    signals = [ks.Signal(time[:-1], rng.normal(size=20), "held") for _ in range(11)]
    given = {"method": method, "substeps": 3}
    every = ks.simulate(ALGEBRAIC, time, {x: starts, y: 0.1}, {k: values}, {u: signals}, **given)
    for j in (0, 3, 10):
        one = ks.simulate(
            ALGEBRAIC, time, {x: starts[j], y: 0.1}, {k: values[j]}, {u: signals[j]}, **given
        )
        for name in "xy":
            np.testing.assert_allclose(every[name][j], one[name], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("method", ["radau-1", "radau-3", "gauss-4", "lobatto-4"])
def test_stiff_limit(method):
    """A mode of -1e6 1/s with steps of 0.1 s: Radau IIA ends it in a step, the others bound it."""
    model = ks.Model("fast", [x], [], [], [x.diff(t) + 1e6 * (x - sp.cos(t))])
    time = np.linspace(0.0, 3.0, 31)
    run = ks.simulate(model, time, {x: 1.5}, method=method)
    rest = np.abs(run["x"] - np.cos(time))
    assert rest.max() < 0.6
    if method.startswith("radau"):
        assert rest[1:].max() < 1e-4


@pytest.mark.parametrize("method", [*FIXED, *ADAPTIVE])
@pytest.mark.parametrize("members", [None, 3])
def test_no_way_on_is_said(method, members):
    """No number, and nothing that determines x', at the start and later."""
    time, many = np.linspace(0.0, 1.0, 5), np.ones(members) if members else 1.0
    for equation in (
        x.diff(t) - sp.sqrt(x - 9),
        x.diff(t) - sp.sqrt(v - sp.Rational(5, 2)),
        (v - 1) * x.diff(t) - 1,
        (v - 2) * x.diff(t) * sp.Heaviside(v - 2) - 1,
    ):
        model = ks.Model("stuck", [x, v], [], [], [equation, v.diff(t) - 2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = ks.simulate(model, time, {x: many, v: 1.0}, method=method)
        ended = len(run.failures) == members if members else bool(run.message)
        assert ended or np.isfinite(run["x"]).all()
        assert ended or equation.has(v - 1)
