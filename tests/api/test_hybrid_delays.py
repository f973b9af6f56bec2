"""Systems with events and delays: closed forms, and what is refused."""

from math import factorial

import numpy as np
import pytest
import sympy as sp
from numpy.polynomial import Polynomial

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, v, u, on = ks.dynamicsymbols("x v u on")
tau, g, k = sp.symbols("tau g k")

DECAY = kh.Hybrid(ks.Model("late_decay", [x], [], [tau], [x.diff(t) + ks.delayed(x, tau)]))


def ball(*torque, inputs=(), **more):
    rates = [x.diff(t) - v, v.diff(t) + g - sum(torque)]
    model = ks.Model("ball", [x, v], inputs, [tau, g, k], rates, values={g: 9.81, k: 0.5, **more})
    bounce = kh.Event("bounce", x, direction=-1, resets={v: -0.8 * v})
    return kh.Hybrid(model, events=[bounce])


BALL = ball(-k * ks.delayed(v, tau), tau=0.5)


@pytest.mark.parametrize("method", ["dormand-prince", "radau-5", "rk4"])
@pytest.mark.parametrize("late", [1.0, 0.23])
def test_without_events_as_by_the_method_of_steps(method, late):
    time = np.linspace(0.0, 4.37, 45)
    run = ks.simulate(DECAY, time, {x: 1.0}, {tau: late}, method=method)
    exact = np.ones_like(time)
    for n in range(1, int(time[-1] / late) + 2):
        exact += (-1.0) ** n * np.maximum(time - (n - 1) * late, 0.0) ** n / factorial(n)
    np.testing.assert_allclose(run[x], exact, atol=5e-8)
    assert run.keys() == ["x", "x(t - tau)"]
    np.testing.assert_allclose(run["x(t - tau)"][time < late], 1.0, atol=1e-12)


def test_events_leave_what_was_before():
    """Ballistic up to 0.5 s, and with the bounce of 0.45 s felt at 0.95 s: polynomials."""
    time = np.linspace(0.0, 1.0, 101)
    run = ks.simulate(BALL, time, {x: 1.0, v: 0.0})
    first = np.sqrt(2.0 / 9.81)
    (bounce,) = run.events
    assert abs(bounce.time - first) < 1e-11
    falling, clock = Polynomial([0.0, -9.81]), Polynomial([0.0, 1.0])
    rising = Polynomial([0.8 * 9.81 * first + 9.81 * first, -9.81])
    ends = (first, 0.5, 0.5 + first, 1.0)
    speeds = [rising]
    for late, begin in ((falling, 0.5), (rising, 0.5 + first)):
        rate = -9.81 - 0.5 * late(clock - 0.5)
        speed = rate.integ()
        speeds.append(speed + speeds[-1](begin) - speed(begin))
    place, height = 0.0, np.zeros_like(time)
    for speed, begin, end in zip(speeds, ends[:-1], ends[1:], strict=True):
        way = speed.integ()
        inside = (time >= begin) & (time <= end)
        height[inside] = place + way(time[inside]) - way(begin)
        place += way(end) - way(begin)
        np.testing.assert_allclose(run[v][inside], speed(time[inside]), atol=1e-9)
    np.testing.assert_allclose(run[x][time > first], height[time > first], atol=1e-9)
    assert run.error().largest < 1e-9


def test_members_and_delays_of_their_own():
    time, late = np.linspace(0.0, 1.0, 21), np.array([0.5, 0.21])
    runs = ks.simulate(BALL, time, {x: 1.0, v: 0.0}, {tau: late})
    for number in range(2):
        alone = ks.simulate(BALL, time, {x: 1.0, v: 0.0}, {tau: late[number]})
        np.testing.assert_array_equal(runs[x][number], alone[x])
    clocks = [e.time for e in runs.event_logs[1].entries if e.kind == "clock"]
    assert not clocks


def test_delayed_inputs_and_histories():
    system = ball(ks.delayed(u, tau), inputs=[u], tau=0.3)
    time = np.linspace(0.0, 0.4, 41)
    push = ks.Signal.pieces([-1.0, 0.05], [9.81, 4.81])
    run = ks.simulate(system, time, {x: 1.0, v: 0.0}, inputs={u: push})
    np.testing.assert_allclose(run[v], -5.0 * np.maximum(time - 0.35, 0.0), atol=1e-9)
    history = {u: 8.81}
    run = ks.simulate(system, time, {x: 1.0, v: 0.0}, inputs={u: push}, history=history)
    expected = -np.minimum(time, 0.3) - 5.0 * np.maximum(time - 0.35, 0.0)
    np.testing.assert_allclose(run[v], expected, atol=1e-9)
    run = ks.simulate(BALL, time, {x: 1.0, v: 0.0}, history={v: 2.0})
    np.testing.assert_allclose(run[v], -10.81 * time, atol=1e-9)


def test_what_cannot_be_is_refused():
    late = ks.delayed(v, x, range=(0, 1))
    with pytest.raises(ValueError, match="changes along the motion; in a system with events"):
        ball(late)
    model = ks.Model("switched", [x], [on], [], [x.diff(t) - ks.delayed(on, 0.5)])
    with pytest.raises(ValueError, match="of a mode or a contact force; delay states"):
        kh.Hybrid(model, modes={on: 0.0})
    with pytest.raises(ValueError, match=r"v\(t - tau\) is delayed by 0 s; .* delays are positive"):
        ks.simulate(BALL, [0.0, 0.1], {x: 1.0, v: 0.0}, {tau: 0.0})
    with pytest.raises(ValueError, match="delays are not negative"):
        ks.simulate(BALL, [0.0, 0.1], {x: 1.0, v: 0.0}, {tau: -0.1})
    short = ks.Signal([-0.1, 0.0], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"known from -0.1 s on, and v\(t - tau\) looks back"):
        ks.simulate(BALL, [0.0, 0.1], {x: 1.0, v: 0.0}, history={v: short})
    with pytest.raises(ValueError, match="there are no sensitivities"):
        ks.sensitivities(BALL, [0.0, 0.1], {x: 1.0, v: 0.0})
