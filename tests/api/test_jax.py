"""Functions of JAX around compiled code, against functions that JAX differentiates itself."""

import sys

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.base.extras import NotInstalled
from kinesym.runtime.simulation.swept import Swept

jax = pytest.importorskip("jax")
jnp = jax.numpy

x, v, u = ks.dynamicsymbols("x v u")
g, c = sp.symbols("g c")
MASS = 1 + 0.1 * sp.cos(x) ** 2
SWING = ks.Model(
    "swing",
    [x, v],
    [u],
    [g, c],
    [x.diff(ks.t) - v, v.diff(ks.t) * MASS + g * sp.sin(x) + c * v - u * sp.cos(ks.t)],
)
POINT = (np.array([0.3, 0.2]), np.array([0.5]), np.array([9.0, 0.1]), 0.4)
TIME = np.array([0.0, 0.1, 0.15, 0.3, 0.4])
COURSE = np.sin(3.0 * TIME)[None]
WEIGHTS = np.random.default_rng(0).standard_normal((2, 5))


@pytest.fixture(autouse=True)
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def in_jax(what, **options):
    return ks.export(what, target="jax", **options)


def rates(x, u, p, t):
    push = u[0] * jnp.cos(t) - p[0] * jnp.sin(x[0]) - p[1] * x[1]
    return jnp.array([x[1], push / (1 + 0.1 * jnp.cos(x[0]) ** 2)])


def stepped(p, x0, u):
    """States at the nodes, by two Runge-Kutta steps from node to node."""
    time, u = jnp.array(TIME), jnp.asarray(u)

    def step(x, k):
        node, part = k // 2, k % 2
        h = (time[node + 1] - time[node]) / 2
        t = time[node] + part * h

        def at(share):
            return u[:, node] + (u[:, node + 1] - u[:, node]) * (part + share) / 2

        k1 = rates(x, at(0.0), p, t)
        k2 = rates(x + h / 2 * k1, at(0.5), p, t + h / 2)
        k3 = rates(x + h / 2 * k2, at(0.5), p, t + h / 2)
        k4 = rates(x + h * k3, at(1.0), p, t + h)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, x

    _, found = jax.lax.scan(step, x0, np.arange(8))
    return jnp.concatenate([x0[None], found[1::2]]).T


def test_right_hand_side_and_its_derivatives_both_ways():
    f = in_jax(SWING)
    np.testing.assert_allclose(jax.jit(f)(*POINT), rates(*POINT), rtol=1e-14)
    for way in (jax.jacrev, jax.jacfwd):
        for own, exact in zip(
            way(f, (0, 1, 2, 3))(*POINT), way(rates, (0, 1, 2, 3))(*POINT), strict=True
        ):
            np.testing.assert_allclose(own, exact, rtol=1e-13, atol=1e-14)
    points = [np.array([each, 1.1 * np.array(each), 0.9 * np.array(each)]) for each in POINT]
    np.testing.assert_allclose(jax.vmap(f)(*points), jax.vmap(rates)(*points), rtol=1e-14)
    with pytest.raises(ValueError, match=r"p has shape \(3,\), expected \(2,\)"):
        f(*POINT[:2], np.zeros(3))


def test_simulation_has_the_exact_gradient_of_its_steps_in_one_call_for_many(monkeypatch):
    f = in_jax(SWING, time=TIME, substeps=2)
    given = (POINT[2], POINT[0], COURSE)
    np.testing.assert_allclose(f(*given), stepped(*given), rtol=1e-14)

    def gradient(simulation):
        return jax.grad(lambda *q: (WEIGHTS * simulation(*q) ** 2).sum(), (0, 1, 2))

    exact = gradient(stepped)(*given)
    for own, other in zip(jax.jit(gradient(f))(*given), exact, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-14)
    calls, original = [], Swept.states

    def counted(self, *rest):
        calls.append(len(rest[1]))
        return original(self, *rest)

    monkeypatch.setattr(Swept, "states", counted)
    many = jnp.array([POINT[2], 1.1 * POINT[2], 0.9 * POINT[2]])
    whole = jax.vmap(lambda p: gradient(f)(p, *given[1:])[0])(many)
    np.testing.assert_allclose(whole[0], exact[0], rtol=1e-12)
    assert calls == [3] and abs(whole[1] - whole[2]).max() > 1e-6


def test_a_simulation_that_fails_is_not_a_number():
    grows = ks.Model("grows", [x], [], [g], [x.diff(ks.t) - g * x**2])
    f = in_jax(grows, time=np.linspace(0.0, 2.0, 401))
    found = f([9.0], [1.0])
    assert np.isfinite(found[0, 10]) and np.isnan(found[0, -1])
    assert np.isnan(jax.grad(lambda p: f(p, [1.0])[0, -1])(jnp.array([9.0]))).all()


@pytest.fixture(scope="module")
def fit():
    slope = ks.Model("slope", [x], [], [g], [x.diff(ks.t) - g])
    row = 1.0 + 2.0 * TIME + 0.1 * np.cos(30 * TIME)
    trial = ks.Experiment(TIME, measurements={x: row}, std={x: 0.1})
    return ks.Shooting(slope, trial, {g: (0.0, 9.0)}, initial={x: None}).solve({g: 1.0})


@pytest.mark.parametrize("of", ["fit", "unconstrained"])
def test_density_of_a_fit(fit, of):
    density = fit.log_density() if of == "fit" else fit.log_density().unconstrained
    f = in_jax(fit if of == "fit" else density)
    theta = density.best + np.array([0.1, -0.05])
    value, slopes = jax.jit(jax.value_and_grad(f))(theta)
    assert value == density.value(theta)
    np.testing.assert_allclose(slopes, density.gradient(theta), rtol=1e-13)
    many = jnp.array([theta, density.best])
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(many), density.gradient(many), rtol=1e-13)
    np.testing.assert_allclose(jax.vmap(f)(many), density.value(many), rtol=1e-13)


def test_what_jax_cannot_do_here_is_said(monkeypatch):
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ValueError, match=r"jax.config.update\('jax_enable_x64', True\)"):
        in_jax(SWING)
    jax.config.update("jax_enable_x64", True)
    late = ks.Model("late", [x], [], [g], [x.diff(ks.t) + ks.delayed(x, g)])
    with pytest.raises(ValueError, match="model late has delays"):
        in_jax(late)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(NotInstalled, match=r"pip install 'kinesym\[jax\]'"):
        in_jax(SWING)
