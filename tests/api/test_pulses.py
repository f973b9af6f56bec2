"""Smooth pulses and steps of time that are narrower than steps are ends of steps, and not passed.

Each is put into x' + x / 10 = pulse at another place and width; the response is the convolution by
quadrature of SciPy, about the middle of the pulse.
"""

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

import kinesym as ks
from kinesym.hybrid import Event, Hybrid
from kinesym.symbolic.pulses import pulses_of

x = ks.dynamicsymbols("x")
a, w = sp.symbols("a w")
u = (ks.t - a) / w
PULSES = {
    "gaussian": sp.exp(-(u**2)),
    "product": 3 * a * sp.exp(-(u**2) / 2 + 1) * ks.t,
    "sech": sp.sech(u),
    "cosh": 1 / sp.cosh(2 * u) ** 2,
    "lorentzian": 1 / (2 + u**2),
    "box of logistics": 1 / (1 + 3 * sp.exp(-u)) - 1 / (1 + 3 * sp.exp(2 - u)),
    "box of tanh": sp.tanh(u) - sp.tanh(u - 2),
    "box of smooth steps": ks.smooth_step(ks.t - a, w) * ks.smooth_step(a + w - ks.t, w / 2),
    "box of errors": sp.erf(u) - sp.erf(u - 1),
    "box of arcs": sp.atan(u) - sp.atan(u - 1),
}


def model(pulse):
    rate, values = x.diff(ks.t) + x / 10 - pulse, {a: 4.3, w: 1e-3}
    return ks.Model("pushed", [x], [], [a, w], [rate], values=values)


def response(pulse, at, width, end=10.0):
    f = sp.lambdify((ks.t, a, w), pulse, ["scipy", "numpy"])
    edges = at + np.array([-600.0, -60, -6, 0, 6, 60, 600]) * width
    edges = [0.0, *edges[(edges > 0.0) & (edges < end)], end]
    with np.errstate(over="ignore"):
        return sum(
            quad(lambda s: f(s, at, width) * np.exp((s - end) / 10), *pair, epsabs=1e-14)[0]
            for pair in pairwise(edges)
        )


@pytest.mark.parametrize("name", PULSES)
def test_narrow_pulses_are_not_passed(name):
    pulse = PULSES[name]
    run = ks.simulate(model(pulse), np.linspace(0.0, 10.0, 5), {x: 0.0}, method="dormand-prince")
    assert run["x"][-1] == pytest.approx(response(pulse, 4.3, 1e-3), rel=1e-6)
    assert run.error().largest < 1e-6 and [*run.inputs] == []


@pytest.mark.parametrize("at, width", [(0.7, 1e-6), (9.99, 3e-3), (5.0, 0.2), (-1.0, 1e-3)])
def test_any_place_and_width(at, width):
    pulse = PULSES["gaussian"]
    time, numbers = np.linspace(0.0, 10.0, 3), {a: at, w: width}
    run = ks.simulate(model(pulse), time, {x: 0.0}, numbers, method="radau-5")
    assert run["x"][-1] == pytest.approx(response(pulse, at, width), rel=1e-6, abs=1e-10)


def test_fixed_steps_say_how_far_they_are_off():
    """Of a pulse between two nodes, which all four looks of a step miss."""
    pulse = PULSES["gaussian"]
    run = ks.simulate(model(pulse), np.linspace(0.0, 10.0, 11), {x: 0.0}, method="rk4")
    true = response(pulse, 4.3, 1e-3)
    assert abs(run["x"][-1] / true - 1) < 0.1 and 0.01 < run.error().largest < 0.2


def test_of_an_ensemble_each_its_own():
    pulse, places = PULSES["cosh"], np.array([1.1, 4.3, 7.7])
    time, widths = np.linspace(0.0, 10.0, 3), np.array([1e-4, 1e-3, 1e-2])
    runs = ks.simulate(
        model(pulse), time, {x: 0.0}, {a: places, w: widths}, method="dormand-prince"
    )
    true = [response(pulse, *pair) for pair in zip(places, widths, strict=True)]
    np.testing.assert_allclose(runs["x"][:, -1], true, rtol=1e-6)


def test_with_events_and_sensitivities():
    """An event that resets nothing, and the derivative by the width, sqrt(pi) exp(...)."""
    pulse, time = PULSES["gaussian"], np.linspace(0.0, 10.0, 3)
    hybrid = Hybrid(model(pulse), events=[Event("passes", x - 1e-3, 1)])
    run = ks.simulate(hybrid, time, {x: 0.0})
    true = response(pulse, 4.3, 1e-3)
    assert run["x"][-1] == pytest.approx(true, rel=1e-6) and len(run.events) == 1


def test_derivatives_by_place_and_width():
    """By the width, of a response that is proportional to it; by the place, as the decay has it."""
    pulse, time = PULSES["gaussian"], np.linspace(0.0, 10.0, 3)
    found = ks.sensitivities(model(pulse), time, {x: 0.0}, method="dormand-prince")
    true = response(pulse, 4.3, 1e-3)
    gradient = found.gradient("x").parameters
    assert gradient["w"] == pytest.approx(true / 1e-3, rel=1e-4)
    assert gradient["a"] == pytest.approx(true / 10.0, rel=1e-3)


def test_too_many_places_are_said():
    pulse, time = PULSES["gaussian"], np.linspace(0.0, 10.0, 3)
    places = np.linspace(1.0, 9.0, 500)
    with pytest.warns(UserWarning, match="a narrow pulse or step of time"):
        ks.simulate(model(pulse), time, {x: 0.0}, {a: places}, method="dormand-prince")


TRAINS = {
    "gaussians": sp.exp((sp.cos(2 * sp.pi * ks.t / a) - 1) / w**2),
    "lorentzians": w / (w**2 + sp.sin(sp.pi * ks.t / a) ** 2),
    "boxes": 1 + sp.tanh((sp.cos(2 * sp.pi * ks.t / a) - 1 + w) / w**2),
    "of a remainder": sp.exp(-(((sp.Mod(ks.t, a) - a / 3) / w) ** 2)),
}


@pytest.mark.parametrize("name", TRAINS)
@pytest.mark.parametrize("method", ["dormand-prince", "radau-5"])
def test_trains_of_narrow_pulses_are_not_passed(name, method):
    """Of a period of 1.3 s; by quadrature about the middle of each."""
    train, time, numbers = TRAINS[name], np.linspace(0.0, 10.0, 5), {a: 1.3, w: 0.003}
    run = ks.simulate(model(train), time, {x: 0.0}, numbers, method=method)
    f = sp.lambdify((ks.t, a, w), train, "numpy")
    middle = 1.3 / 3 * (name == "of a remainder") + 1.3 * np.arange(-1.0, 9.0)
    apart = middle[:, None] + 0.05 * np.array([-8, -2, -0.4, -0.1, -0.01, 0, 0.01, 0.1, 0.4, 2, 8])
    edges = np.unique(np.clip(apart, 0.0, 10.0))
    true = sum(
        quad(lambda s: f(s, 1.3, 0.003) * np.exp((s - 10) / 10), *pair, epsabs=1e-13)[0]
        for pair in pairwise(edges)
    )
    assert run["x"][-1] == pytest.approx(true, rel=1e-5)


def test_trains_of_too_many_pulses_are_said():
    """Of 1e8 periods, without as many numbers; wide ones say nothing."""
    time = np.linspace(0.0, 10.0, 3)
    with pytest.warns(UserWarning, match="a narrow pulse or step of time, one of"):
        ks.simulate(model(TRAINS["gaussians"]), time, {x: 0.0}, {a: 1e-7, w: 0.003})
    ks.simulate(model(TRAINS["gaussians"]), time, {x: 0.0}, {a: 1e-9, w: 3.0})


def test_what_is_no_pulse_of_time_is_none():
    y = ks.dynamicsymbols("y")
    for rate in (
        sp.exp(-ks.t / w),
        sp.exp(-(y**2)),
        ks.t**2,
        sp.tanh(sp.sin(ks.t)),
        1 / (1 + ks.t),
    ):
        assert not pulses_of(ks.Model("none", [y], [], [w], [y.diff(ks.t) + y - rate]))
