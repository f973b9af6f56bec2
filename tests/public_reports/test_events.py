"""Public reports of other projects about events, written for kinesym; numbers are our own.

The first words of each docstring name the report."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Event, Hybrid

x, y, v, w = ks.dynamicsymbols("x y v w")
METHODS = ("rk4", "dormand-prince", "radau-5")
CLOCK = ks.Model("clock", [x, w], [], [], [x.diff(ks.t) - 1, w.diff(ks.t)])


def times(run):
    return np.array([event.time for event in run.events])


def bounces(restitution, until, gravity=9.8):
    """Impacts of a ball from 1 m, closed form."""
    at, speed, found = np.sqrt(2 / gravity), np.sqrt(2 * gravity), []
    while at < until:
        found.append(at)
        speed *= restitution
        at += 2 * speed / gravity
    return found


@pytest.mark.parametrize("restitution", (1.0, 0.97))
@pytest.mark.parametrize("method", METHODS)
def test_ball_does_not_fall_through_the_floor(method, restitution):
    """SciML/DifferentialEquations.jl#696: a ball misses its floor after some bounces."""
    ball = ks.Model("ball", [y, v], [], [], [y.diff(ks.t) - v, v.diff(ks.t) + 9.8])
    floor = Hybrid(ball, events=[Event("floor", y, -1, resets={v: -restitution * v})])
    run = ks.simulate(floor, np.linspace(0, 12, 241), {y: 1.0, v: 0.0}, method=method)
    np.testing.assert_allclose(times(run), bounces(restitution, 12), atol=1e-6)
    assert run["y"].min() > -1e-6


@pytest.mark.parametrize("depth", (0.2, 1e-3, 1e-5))
@pytest.mark.parametrize("method", METHODS)
def test_two_crossings_in_one_step(method, depth):
    """scipy/scipy#9228: of two roots in one step none is found."""
    dip = ks.Model("dip", [y], [], [], [y.diff(ks.t) - 2 * (ks.t - 1.3)])
    run = ks.simulate(
        Hybrid(dip, events=[Event("zero", y, 0)]),
        np.linspace(0, 2, 5),
        {y: 1.3**2 - depth},
        method=method,
    )
    np.testing.assert_allclose(times(run), 1.3 + np.sqrt(depth) * np.array([-1, 1]), atol=1e-7)


@pytest.mark.parametrize("level", (False, True))
def test_told_where_switches_accumulate(level):
    """SciML/DifferentialEquations.jl#696: events that come ever faster; two tanks filled in turn,
    as in Johansson et al. 1999, whose switches accumulate at (1 + 1.5) / (0.6 + 0.5 - 0.8) s."""
    u = ks.dynamicsymbols("u")
    tanks = ks.Model(
        "tanks", [x, y], [u], [], [x.diff(ks.t) - 0.8 * u + 0.6, y.diff(ks.t) - 0.8 * (1 - u) + 0.5]
    )
    events = [
        Event("to y", y, -1, sets={u: 0}, level=level),
        Event("to x", x, -1, sets={u: 1}, level=level),
    ]
    run = ks.simulate(
        Hybrid(tanks, modes={u: 1}, events=events), np.linspace(0, 12, 121), {x: 1.0, y: 1.5}
    )
    end = 2.5 / 0.3
    assert min(run["x"].min(), run["y"].min()) > -1e-6
    assert end - 0.3 < run.time[-1] < end + 0.11 and run.message


@pytest.mark.parametrize("apart", (1e-6, 1e-8, 1e-9))
def test_events_in_their_true_order(apart):
    """SciML/DifferentialEquations.jl#570: two neurons that fire nearly at once, in which order?"""
    events = [
        Event("late", x - 1 - apart, 1, resets={w: w + 1}),
        Event("early", x - 1, 1, resets={w: 2 * w}),
    ]
    run = ks.simulate(Hybrid(CLOCK, events=events), np.linspace(0, 2, 21), {x: 0.0, w: 1.0})
    assert [event.name for event in run.events] == ["early", "late"] and run["w"][-1] == 3


@pytest.mark.parametrize("method", METHODS)
def test_two_signs_change_between_large_steps(method):
    """patrick-kidger/diffrax#507: of several roots along a straight line none is seen."""
    guard = (2.5 - x) * (5.0 - x) * (0.0 - x)
    run = ks.simulate(
        Hybrid(CLOCK, events=[Event("pressure", guard, 0)]),
        np.array([0.0, 10.0]),
        {x: 1.0, w: 0.0},
        method=method,
    )
    np.testing.assert_allclose(times(run), [1.5, 4.0], atol=1e-6)


def test_go_on_from_a_root():
    """patrick-kidger/diffrax#713: a run that begins at a root goes backwards in time."""
    system = Hybrid(CLOCK, events=[Event("gate", x - 0.98, 1)])
    first = ks.simulate(system, np.linspace(0, 0.98, 2), {x: 0.0, w: 0.0})
    second = ks.simulate(system, np.linspace(0.98, 2, 5), {x: 0.98, w: 0.0})
    assert len(first.events) + len(second.events) <= 1
    assert np.all(np.diff(second.time) > 0) and second.time[-1] == 2


def test_a_root_at_the_start_is_no_event():
    """ThummeTo/FMI.jl#271: an indicator that is zero at the start counts as a crossing."""
    run = ks.simulate(
        Hybrid(CLOCK, events=[Event("zero", x, 0)]), np.linspace(0, 2, 5), {x: 0.0, w: 0.0}
    )
    assert not run.events


@pytest.mark.parametrize("method", METHODS)
def test_resets_behind_the_root(method):
    """Hipparchus-Math/hipparchus#184: a reset that changes the sign of its own guard, and a second
    root within the same step."""
    system = Hybrid(CLOCK, events=[Event("again", x - 1, 1, resets={x: sp.Float(0.99)})])
    run = ks.simulate(system, np.linspace(0, 1.055, 4), {x: 0.0, w: 0.0}, method=method)
    np.testing.assert_allclose(times(run), 1 + 0.01 * np.arange(6), atol=1e-6)


def test_one_condition_for_two_events():
    """SciML/DifferentialEquations.jl#844: two conditions that cross zero at the same time."""
    ball = ks.Model(
        "ball", [y, v, w], [], [], [y.diff(ks.t) - v, v.diff(ks.t) + 9.81, w.diff(ks.t)]
    )
    events = [
        Event("count", y, -1, resets={w: w + 1}),
        Event("bounce", y, -1, resets={v: -0.7 * v}),
    ]
    run = ks.simulate(Hybrid(ball, events=events), np.linspace(0, 2, 41), {y: 1.0, v: 0.0, w: 0.0})
    exact = bounces(0.7, 2.0, 9.81)
    assert run["w"][-1] == len(exact)
    np.testing.assert_allclose(times(run)[1::2], exact, atol=1e-7)


def test_reset_to_the_threshold_itself():
    """AMICI-dev/AMICI#2861: an event that puts the state onto its root."""
    pulse = ks.Model("pulse", [x], [], [], [x.diff(ks.t) - sp.cos(ks.t)])
    system = Hybrid(pulse, events=[Event("cap", x - sp.Rational(1, 2), 1, resets={x: 0.5})])
    run = ks.simulate(system, np.linspace(0, 6, 61), {x: 0.0})
    np.testing.assert_allclose(times(run), [np.pi / 6], atol=1e-7)
    np.testing.assert_allclose(run["x"], np.sin(run.time), atol=1e-7)


def test_derivative_through_an_event_of_the_state():
    """SciML/SciMLSensitivity.jl#4: dy/da is 0 where x' = -a ends at x = 0 what y' = b adds.

    y = b x0 / a, so dy/da = -b x0 / a^2."""
    a, b = sp.symbols("a b")
    on = ks.dynamicsymbols("on")
    model = ks.Model("stop", [x, y], [on], [a, b], [x.diff(ks.t) + a, y.diff(ks.t) - b * on])
    system = Hybrid(model, modes={on: 1}, events=[Event("stop", x, -1, sets={on: 0})])
    found = ks.sensitivities(system, np.linspace(0, 1, 11), {x: 1.0, y: 0.0}, {a: 2.0, b: 1.0})
    assert found.forward(["a"]).states["y"][0, -1] == pytest.approx(-0.25, abs=1e-9)
    assert found.gradient("y").parameters["a"] == pytest.approx(-0.25, abs=1e-9)


def test_saltation_of_several_roots():
    """dkaschek/cOde#5: derivatives after several root events, against the closed form.

    From 1.5 at the rate -c, back to 1 at each root: x(3) = 1.5 + 3 - 3 c."""
    c = sp.Symbol("c")
    model = ks.Model("decline", [x], [], [c], [x.diff(ks.t) + c])
    system = Hybrid(model, events=[Event("empty", x, -1, resets={x: 1})])
    found = ks.sensitivities(system, np.linspace(0, 3, 31), {x: 1.5}, {c: 1.2})
    assert found.run["x"][-1] == pytest.approx(0.9, abs=1e-9)
    assert found.forward(["c"]).states["x"][0, -1] == pytest.approx(-3.0, abs=1e-8)
    assert found.gradient("x").parameters["c"] == pytest.approx(-3.0, abs=1e-8)
