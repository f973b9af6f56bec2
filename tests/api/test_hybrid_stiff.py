"""Stiff hybrid models by RADAU5 between events: closed forms, SciPy, the explicit method."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import kinesym as ks
from kinesym import hybrid as kh

x, v, y, d, push = ks.dynamicsymbols("x v y d push")
t = ks.t
RADAU = {"method": "radau-5"}
#: A wall of springs and dampers: 1/s^2 and 1/s for 1 kg, of an overdamped pair of modes.
SPRING, DAMPER, GRAVITY = 1e8, 3e4, 9.81


def named(run):
    return [e.name for e in run.events]


def times(run):
    return np.array([e.time for e in run.events])


def apart(one, other):
    """The largest differences of two final states, relative to their sizes."""
    return np.abs((one.final.x - other.final.x) / (1e-3 + np.abs(other.final.x))).max()


# -- closed forms ---------------------------------------------------------------------------------


@cache
def wall():
    """A mass that falls on a wall of a spring and a damper, which does not pull."""
    force = -SPRING * x - DAMPER * v
    model = ks.Model("wall", [x, v], [d], [], [x.diff(t) - v, v.diff(t) + GRAVITY - d * force])
    events = [
        kh.Event("touches", x, -1, sets={d: 1}),
        kh.Event("leaves", force, -1, when=d, sets={d: 0}),
    ]
    return kh.Hybrid(model, {d: 0}, events)


def pressed(speed):
    """Duration of a contact that begins with this speed, and place and speed at its end: two
    exponentials, about the place where the spring carries the weight."""
    slow, fast = np.roots([1.0, DAMPER, SPRING])[::-1]
    sag = -GRAVITY / SPRING
    a, b = np.linalg.solve([[1.0, 1.0], [slow, fast]], [-sag, speed])

    def state(s):
        parts = np.array([a * np.exp(slow * s), b * np.exp(fast * s)])
        return sag + parts.sum(), slow * parts[0] + fast * parts[1]

    def force(s):
        place, rate = state(s)
        return -SPRING * place - DAMPER * rate

    end = brentq(force, 1e-6, 4e-4, xtol=1e-18, rtol=1e-15)
    return end, *state(end)


def bounces(height, count):
    """Times of events of a mass that falls from rest."""
    now, speed, found = np.sqrt(2.0 * height / GRAVITY), -np.sqrt(2.0 * GRAVITY * height), []
    for _ in range(count):
        end, place, up = pressed(speed)
        down = np.sqrt(up**2 + 2.0 * GRAVITY * place)
        found += [now, now + end]
        now += end + (up + down) / GRAVITY
        speed = -down
    return np.array(found)


def test_a_stiff_wall():
    """1 kg on 10^8 N/m: pressed for less than a millisecond, with modes of 10^-4 s and less."""
    exact = bounces(1.0, 2)
    time = np.linspace(0.0, 1.0, 101)
    run = ks.simulate(wall(), time, {x: 1.0, v: 0.0}, rtol=1e-10, atol=1e-13, **RADAU)
    assert not run.message and named(run) == [*["touches", "leaves"] * 2, "touches"]
    np.testing.assert_allclose(times(run)[:4], exact, rtol=1e-9)
    assert run["x"][-1] == pytest.approx(-GRAVITY / SPRING, rel=1e-6)


def test_impacts_and_free_flight():
    """Parabolas are exact for order 5: times of impacts to rounding."""
    model = ks.Model("ball", [x, v], [push], [], [x.diff(t) - v, v.diff(t) + GRAVITY - push])
    ball = kh.Hybrid(model, contacts=[kh.Contact("floor", x, push, restitution=0.8)])
    run = ks.simulate(ball, np.linspace(0.0, 2.0, 21), {x: 1.0, v: 0.0}, **RADAU)
    first = np.sqrt(2.0 / GRAVITY)
    flights = 2.0 * first * np.cumsum(np.append(0.0, 0.8 ** np.arange(1, 3)))
    np.testing.assert_allclose(
        [e.time for e in run.happened("impact")], first + flights, atol=1e-14
    )
    late = run.time - run.happened("impact")[1].time
    up = 0.8**2 * GRAVITY * first
    risen = up * late - 0.5 * GRAVITY * late**2
    inside = (late > 0.0) & (run.time < run.happened("impact")[2].time)
    np.testing.assert_allclose(run["x"][inside], risen[inside], atol=1e-13)


# -- other engines --------------------------------------------------------------------------------


def relay(stiffness):
    """Van der Pol's oscillator, pushed by a relay with a dead band."""
    rate = stiffness * ((1 - x**2) * v - x + d / 10)
    model = ks.Model("relay", [x, v], [d], [], [x.diff(t) - v, v.diff(t) - rate])
    events = [
        kh.Event("up", x - sp.Rational(3, 2), 1, sets={d: 1}),
        kh.Event("down", x - sp.Rational(6, 5), -1, sets={d: -1}),
        kh.Event("under", x + sp.Rational(3, 2), -1, sets={d: -1}),
    ]
    return kh.Hybrid(model, {d: 1}, events)


def relay_by_scipy(stiffness, end, **options):
    """Names and times of events, and the final state, by Radau with events."""
    guards = [("up", 1.5, 1, 1.0), ("down", 1.2, -1, -1.0), ("under", -1.5, -1, -1.0)]
    now, state, mode, found = 0.0, [2.0, 0.0], 1.0, []
    while now < end:

        def rates(_, z, mode=mode):
            return [z[1], stiffness * ((1 - z[0] ** 2) * z[1] - z[0] + 0.1 * mode)]

        def slopes(_, z):
            below = -stiffness * (2 * z[0] * z[1] + 1)
            return [[0.0, 1.0], [below, stiffness * (1 - z[0] ** 2)]]

        watched = []
        for name, level, direction, _ in guards:
            if found and found[-1][0] == name:
                continue  # it has just happened
            watched.append(lambda _, z, level=level: z[0] - level)
            watched[-1].terminal, watched[-1].direction = True, direction
        left = [g for g in guards if not (found and found[-1][0] == g[0])]
        run = solve_ivp(rates, (now, end), state, "Radau", jac=slopes, events=watched, **options)
        now, state = run.t[-1], run.y[:, -1]
        for (name, *_, value), when in zip(left, run.t_events, strict=True):
            if len(when):
                found.append((name, when[0]))
                mode = value
    return found, state


@pytest.mark.parametrize("stiffness", [25.0, 1e6])
def test_a_relay(stiffness):
    """mu = 5, mu = 1000: the same events as those of SciPy's Radau."""
    options = {"rtol": 1e-10, "atol": 1e-12}
    run = ks.simulate(relay(stiffness), [0.0, 2.0], {x: 2.0, v: 0.0}, **options, **RADAU)
    found, state = relay_by_scipy(stiffness, 2.0, **options)
    assert named(run) == [name for name, _ in found] and len(found) >= 2
    np.testing.assert_allclose(times(run), [when for _, when in found], rtol=2e-8)
    np.testing.assert_allclose(run.final.x[0], state[0], rtol=1e-7)


def test_errors_shrink_with_the_tolerance():
    exact = ks.simulate(relay(25.0), [0.0, 2.0], {x: 2.0, v: 0.0}, rtol=1e-13, atol=1e-14)
    errors = []
    for rtol in (1e-5, 1e-7, 1e-9):
        run = ks.simulate(
            relay(25.0), [0.0, 2.0], {x: 2.0, v: 0.0}, rtol=rtol, atol=1e-2 * rtol, **RADAU
        )
        assert named(run) == named(exact)
        errors.append(max(np.abs(times(run) - times(exact)).max(), apart(run, exact)) / rtol)
    assert max(errors) < 100.0, errors


@cache
def foot(restitution=0.0):
    """A bar in a plane, its ends touch the ground with friction."""
    c = ks.dynamicsymbols("px pz th vx vz w")
    contacts, inputs, total = [], [], sp.Matrix([0, -GRAVITY, 0])
    for name, arm in (("heel", -0.4), ("toe", 0.4)):
        across, up = c[0] + sp.cos(c[2]) * arm, c[1] + sp.sin(c[2]) * arm
        normal, along = ks.dynamicsymbols(f"n_{name} f_{name}")
        total += sp.Matrix([up]).jacobian(c[:3]).T * normal
        total += sp.Matrix([across]).jacobian(c[:3]).T * along
        options = {"friction_coefficient": 0.4, "restitution": restitution}
        contacts.append(kh.Contact(name, up, normal, "coulomb", across, along, **options))
        inputs += [normal, along]
    rates = sp.diag(1, 1, sp.Rational(1, 10)) * sp.Matrix([u.diff(t) for u in c[3:]])
    links = [p.diff(t) - u for p, u in zip(c[:3], c[3:], strict=True)]
    return kh.Hybrid(ks.Model("foot", c, inputs, [], [*links, *(rates - total)]), contacts=contacts)


@pytest.mark.parametrize("restitution", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_contacts_with_friction(seed, restitution):
    """Impacts, sliding, sticking and release happen as by the explicit method."""
    rng = np.random.default_rng(seed)
    start = dict(zip(foot().model.state_names, rng.normal(size=6), strict=True))
    start |= {"pz": rng.uniform(0.5, 0.8), "th": 0.4 * start["th"]}
    options = {"rtol": 1e-11, "atol": 1e-13}
    hybrid = foot(restitution)
    one = ks.simulate(hybrid, [0.0, 0.7], start, **options, **RADAU)
    other = ks.simulate(hybrid, [0.0, 0.7], start, **options)
    assert not one.message and not other.message
    assert [(e.kind, e.name) for e in one.events] == [(e.kind, e.name) for e in other.events]
    np.testing.assert_allclose(times(one), times(other), atol=1e-8)
    assert apart(one, other) < 1e-7


# -- inputs, members, parts ---------------------------------------------------------------------


def lag():
    """A first-order lag of 0.1 ms that follows a signal."""
    return kh.Hybrid(ks.Model("lag", [x], [push], [], [x.diff(t) + 1e4 * (x - push)]))


def test_jumps_and_corners_of_inputs():
    """Steps end where the pieces of a signal do."""
    pieces = ks.Signal.pieces([0.0, 0.3, 0.6], [1.0, -1.0, 0.5], [0.0, 2.0, 0.0])
    time = np.array([0.0, 0.29, 0.59, 1.0])
    run = ks.simulate(lag(), time, {x: 0.0}, inputs={push: pieces}, **RADAU)
    np.testing.assert_allclose(run["x"][1:], [1.0, -0.42 - 2e-4, 0.5], atol=1e-9)
    assert run.work[0] < 320


def test_members_are_single_runs():
    heights = np.array([0.5, 1.0, 1.7])
    time, options = np.linspace(0.0, 0.9, 10), {"rtol": 1e-8, "atol": 1e-11, **RADAU}
    every = ks.simulate(wall(), time, {x: heights, v: 0.0}, threads=2, **options)
    assert not every.failures
    for k, height in enumerate(heights):
        one = ks.simulate(wall(), time, {x: height, v: 0.0}, **options)
        np.testing.assert_array_equal(every["x"][k], one["x"])
        assert [e.time for e in every.event_logs[k].events] == [e.time for e in one.events]


def test_a_run_in_parts():
    options = {"rtol": 1e-10, "atol": 1e-13, **RADAU}
    whole = ks.simulate(wall(), [0.0, 0.9], {x: 1.0, v: 0.0}, **options)
    middle = 0.5 * (times(whole)[0] + times(whole)[1])  # while it presses
    first = ks.simulate(wall(), [0.0, middle], {x: 1.0, v: 0.0}, **options)
    second = ks.simulate(wall(), [middle, 0.9], first.final, **options)
    np.testing.assert_allclose([*times(first), *times(second)], times(whole), rtol=1e-9)


# -- what goes wrong ------------------------------------------------------------------------------


def test_no_derivatives():
    words = "for dormand-prince and rk4, not for radau-5"
    with pytest.raises(ValueError, match=words):
        ks.sensitivities(wall(), [0.0, 1.0], {x: 1.0, v: 0.0}, **RADAU)
    trial = ks.Experiment(np.linspace(0.0, 1.0, 11), measurements={x: np.zeros(11)})
    with pytest.raises(ValueError, match=r"radau-5.*dormand-prince|dormand-prince.*radau-5"):
        ks.Shooting(wall(), trial, unknown={}, initial={x: None, v: 0.0}, **RADAU)


def test_contacts_that_end_by_their_height():
    start = dict.fromkeys(foot().model.state_names, 0.5)
    with pytest.raises(ValueError, match=r"radau-5 is for release='force' only: .*dormand-prince"):
        ks.simulate(replace(foot(), release="height"), [0.0, 0.7], start, **RADAU)


def test_a_number_that_is_none():
    """The root of a state that becomes negative."""
    model = ks.Model("drain", [x, y], [d], [], [x.diff(t) + 1 + d, y.diff(t) - sp.sqrt(x)])
    drain = kh.Hybrid(model, {d: 0}, [kh.Event("half", x - 0.5, -1, sets={d: 1})])
    with pytest.warns(UserWarning, match="no finite number.*y"):
        run = ks.simulate(drain, np.linspace(0.0, 2.0, 21), {x: 1.0, y: 0.0}, **RADAU)
    assert 0.7 < run.final.time <= 0.75 + 1e-12 and named(run) == ["half"]


@pytest.mark.parametrize(("size", "speed"), [(5.0, 2.0), (3.1, 0.7), (20.0, 5.0)])
def test_a_block_that_is_shaken_begins_to_slide(size, speed):
    """The first time in closed form, later ones and the motion as of Dormand and Prince."""
    s, vs, z, vz, n, f = ks.dynamicsymbols("s vs z vz n f")
    rates = {s: vs, vs: size * sp.sin(speed * t) + f, z: vz, vz: n - GRAVITY}
    equations = [state.diff(t) - rate for state, rate in rates.items()]
    rubs = kh.Contact("rubs", z, n, "coulomb", place=s, friction=f, friction_coefficient=0.3)
    system = kh.Hybrid(ks.Model("block", [*rates], [n, f], [], equations), contacts=[rubs])
    start, time = {**dict.fromkeys(rates, 0.0), "rubs": True}, np.linspace(0, 10, 41)
    one, other = (ks.simulate(system, time, start, **way) for way in (RADAU, {}))
    assert times(one)[0] == pytest.approx(np.arcsin(0.3 * GRAVITY / size) / speed, rel=1e-9)
    np.testing.assert_allclose(times(one), times(other), rtol=1e-6)
    np.testing.assert_allclose(one["s"], other["s"], atol=1e-6 * size)
