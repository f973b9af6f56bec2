"""Public reports of other projects about rates that jump, written for kinesym; numbers are our own.

The first words of each docstring name the report."""

import warnings

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, y, v, n = ks.dynamicsymbols("x y v n")
p = sp.Symbol("p")


def heard(work):
    """What a call returns, and the text of that and of its warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = work()
    return result, " ".join([str(result), *(str(each.message) for each in said)])


@pytest.mark.parametrize(
    ("rate", "slope"),
    [
        (sp.Piecewise((2, ks.t < p), (-x, True)), None),
        (sp.Heaviside(p - ks.t), 1.0),
        (sp.sign(ks.t - p), -2.0),
    ],
)
def test_derivative_by_a_switching_time(rate, slope):
    """AMICI-dev/AMICI#1317: derivatives by the time of a switch within a piecewise function are
    0."""
    model = ks.Model("switch", [x], [], [p], [x.diff(ks.t) - rate])
    at = 1.234
    exact = 2 * (1 + at) * np.exp(at - 3) if slope is None else slope
    found = ks.sensitivities(model, np.linspace(0, 3, 31), {x: 0.0}, {p: at})
    assert found.forward(["p"]).states["x"][0, -1] == pytest.approx(exact, abs=1e-6)
    assert found.gradient("x").parameters["p"] == pytest.approx(exact, abs=1e-6)


def switched_record():
    """A model that switches at p, and 61 samples of p = 1.234."""
    rate = sp.Piecewise((1, ks.t < p), (-x, True))
    time = np.linspace(0, 3, 61)
    clean = np.where(time < 1.234, time, 1.234 * np.exp(-(time - 1.234)))
    noise = 0.01 * np.random.default_rng(5).standard_normal(61)
    trial = ks.Experiment(time, measurements={x: clean + noise}, std={x: 0.01})
    return ks.Model("switch", [x], [], [p], [x.diff(ks.t) - rate]), trial


def test_switching_time_is_found():
    """patrick-kidger/diffrax#363: with a piecewise function the guess comes back as found."""
    model, trial = switched_record()
    fit = ks.Shooting(model, trial, {p: (0.1, 2.9)}, initial={x: 0.0}).solve({p: 1.6})
    assert fit.success and fit.parameters["p"] == pytest.approx(1.234, abs=5e-3)


def test_switching_time_that_nodes_cannot_follow():
    """patrick-kidger/diffrax#363: the same between the nodes of a grid: no success, and why."""
    model, trial = switched_record()
    fit, text = heard(lambda: ks.Collocation(model, trial, {p: (0.1, 2.9)}).solve({p: 1.6}))
    assert not fit.success and "Piecewise" in text and "not identifiable" not in text


@pytest.mark.parametrize("pulse", [(2.5, 2.9), (5, 6), (8.2, 8.3)])
@pytest.mark.parametrize("method", ("dormand-prince", "radau-5"))
def test_pulse_is_not_stepped_over(method, pulse):
    """chebfun/chebfun#1512: a pulse in the rate is stepped over by adaptive methods."""
    a, b = pulse
    rate = sp.Piecewise((1 - n, (ks.t > a) & (ks.t < b)), (0, True)) - n
    model = ks.Model("two states", [n], [], [], [n.diff(ks.t) - rate])
    run = ks.simulate(model, np.linspace(0, 10, 1000), {n: 0.0}, method=method)
    exact = 0.5 * (1 - np.exp(-2 * (b - a))) * np.exp(b - 10)
    assert run["n"][-1] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("speed", (10.0, 5.0))
def test_told_error_of_a_braked_box(speed):
    """scicomp.stackexchange.com question 33139: a box under dry friction creeps on for ever; its
    error is what is left, or said not to be known."""
    box = ks.Model("box", [v], [], [], [v.diff(ks.t) + 2.94 * sp.sign(v)])
    run = ks.simulate(box, np.linspace(0, 8, 81), {v: speed})
    error = run.error()
    assert np.isnan(error.states["v"][-1]) and "jump" in str(error)


def test_parameters_of_spans_of_time():
    """SciML/SciMLSensitivity.jl#273: wrong gradients by parameters that hold for a span of time.

    x(4) = x0 exp(a + b + c + d)."""
    a, b, c, d = sp.symbols("a b c d")
    rate = sp.Piecewise((a, ks.t < 1), (b, ks.t < 2), (c, ks.t < 3), (d, True))
    model = ks.Model("spans", [x], [], [a, b, c, d], [x.diff(ks.t) - rate * x])
    numbers = {a: 0.1, b: -0.2, c: 0.3, d: 0.4}
    found = ks.sensitivities(model, np.linspace(0, 4, 161), {x: 1.5}, numbers)
    exact = 1.5 * np.exp(0.6)
    forward = found.forward(list("abcd")).states["x"][:, -1]
    np.testing.assert_allclose(forward, exact, rtol=1e-7)
    gradient = found.gradient("x").parameters
    np.testing.assert_allclose([gradient[name] for name in "abcd"], exact, rtol=1e-7)
