"""Contacts and events, against closed forms and another implementation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.runtime.native import solve_contacts

DATA = Path(__file__).parents[1] / "data"
y, v, lam = ks.dynamicsymbols("y v lam")
g, m = sp.symbols("g m")


def ball(restitution):
    equations = [y.diff(ks.t) - v, m * v.diff(ks.t) + m * g - lam]
    model = ks.Model("ball", [y, v], [lam], [g, m], equations, values={g: 9.81, m: 0.5})
    return kh.Hybrid(model, contacts=[kh.Contact("floor", y, lam, restitution=restitution)])


def test_bouncing_ball():
    """Heights fall by e^2, and the ball comes to rest when the sum of its flights is over."""
    time = np.linspace(0.0, 2.0, 201)
    run = ks.simulate(ball(0.5), time, {y: 1.0, v: 0.0}, rtol=1e-10, atol=1e-12)
    first = np.sqrt(2.0 / 9.81)
    impacts = run.happened("impact")
    np.testing.assert_allclose(
        [e.time for e in impacts[:4]],
        first + 2 * first * np.cumsum([0.0, 0.5, 0.25, 0.125]),
        atol=1e-6,
    )
    speeds = [e.after["v"] for e in impacts[:4]]
    np.testing.assert_allclose(speeds, 9.81 * first * 0.5 ** np.arange(1, 5), rtol=1e-6)
    assert run.events[-1].kind == "close" and abs(run.events[-1].time - 3.0 * first) < 3e-4
    assert run["lam"][-1] == pytest.approx(0.5 * 9.81, rel=1e-12) and abs(run["y"][-1]) < 1e-12


def rocking_block():
    """A block on two corners that do not slide, and the numbers of the other implementation."""
    told = json.loads((DATA / "rocking_block.json").read_text())
    p = told["params"]
    q = ks.dynamicsymbols("x z th vx vz w")
    x, z, th = q[:3]
    forces = {side: ks.dynamicsymbols(f"n_{side} f_{side}") for side in ("left", "right")}
    contacts, total = [], sp.zeros(3, 1)
    for (side, (normal, along)), (a, b) in zip(forces.items(), p["corners"], strict=True):
        place = x + sp.cos(th) * a - sp.sin(th) * b
        height = z + sp.sin(th) * a + sp.cos(th) * b
        contacts.append(kh.Contact(side, height, normal, "stick", place, along))
        turn = sp.diff(place, th) * along + sp.diff(height, th) * normal
        total += sp.Matrix([along, normal, turn])
    inertia = sp.diag(p["m"], p["m"], p["I"]) * sp.Matrix([u.diff(ks.t) for u in q[3:]])
    dynamics = inertia + sp.Matrix([0, p["m"] * p["g"], 0]) - total
    kinematics = [a.diff(ks.t) - b for a, b in zip(q[:3], q[3:], strict=True)]
    inputs = [force for pair in forces.values() for force in pair]
    model = ks.Model("block", q, inputs, [], [*kinematics, *dynamics])
    start = dict(zip(q, told["q0"] + told["v0"], strict=True))
    return kh.Hybrid(model, contacts=contacts), start, told


def test_rocking_block():
    """Times and speeds of eleven impacts, and Housner's ratio."""
    block, start, told = rocking_block()
    run = ks.simulate(
        block, np.linspace(0.0, 3.0, 31), {**start, "right": True}, rtol=1e-12, atol=1e-13
    )
    impacts = run.happened("impact")
    assert len(impacts) == len(told["impacts"]) and not run.message
    assert abs(impacts[0].time - told["first_impact_quadrature"]) < 1e-9
    for ours, theirs in zip(impacts, told["impacts"], strict=True):
        assert abs(ours.time - theirs["t"]) < 1e-9
        np.testing.assert_allclose(ours.after["w"], theirs["v_plus"][2], atol=1e-10)
        assert abs(ours.after["w"] / ours.before["w"] - told["housner_ratio"]) < 1e-10


def test_both_ways_to_release_agree():
    """By force or by height: the trajectory is the same, to the accuracy of steps over a kink."""
    block, start, told = rocking_block()
    run = ks.simulate(
        replace(block, release="height"),
        np.linspace(0.0, 3.0, 31),
        {**start, "right": True},
        rtol=1e-9,
        atol=1e-11,
    )
    impacts = run.happened("impact")
    assert len(impacts) == len(told["impacts"])
    np.testing.assert_allclose(
        [e.time for e in impacts], [e["t"] for e in told["impacts"]], atol=1e-6
    )


def test_a_run_in_two_parts_is_one_run():
    block, start, _ = rocking_block()
    options = {"rtol": 1e-11, "atol": 1e-12}
    whole = ks.simulate(block, np.linspace(0.0, 1.0, 11), {**start, "right": True}, **options)
    half = ks.simulate(block, np.linspace(0.0, 0.5, 6), {**start, "right": True}, **options)
    rest = ks.simulate(block, np.linspace(0.5, 1.0, 6), half.final, **options)
    for name in ("th", "w", "x"):
        np.testing.assert_allclose(rest[name], whole[name][5:], atol=1e-9)


def test_switch_with_hysteresis_and_breaks_of_an_input():
    """A thermostat: closed-form switching times; the input jumps when it should."""
    T, on, rate = ks.dynamicsymbols("T on rate")
    model = ks.Model("room", [T], [on, rate], [], [T.diff(ks.t) - rate * (2 * on - 1)])
    room = kh.Hybrid(
        model,
        {on: 1.0},
        [
            kh.Event("warm", T - 1, 1, sets={on: 0}, when=on, level=True),
            kh.Event("cold", T, -1, sets={on: 1}, when=1 - on, level=True),
        ],
    )
    pace = ks.Signal.pieces([0.0, 1.5], [1.0, 2.0])
    run = ks.simulate(room, np.linspace(0.0, 3.0, 31), {T: 0.0}, inputs={rate: pace})
    switched = [(e.name, e.time) for e in run.happened("event")]
    expected = [("warm", 1.0), ("cold", 1.75), ("warm", 2.25), ("cold", 2.75)]
    assert [name for name, _ in switched] == [name for name, _ in expected]
    np.testing.assert_allclose([t for _, t in switched], [t for _, t in expected], atol=1e-7)
    assert [e.time for e in run.happened("clock")] == [1.5]


def test_exactly_one_state_of_two_feet_is_consistent():
    """Random symmetric definite problems of four points: the one that enumeration finds."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        A = rng.normal(size=(4, 6))
        W, b = A @ A.T, rng.normal(size=4)
        found = []
        for bits in range(16):
            active = [k for k in range(4) if bits >> k & 1]
            f = np.zeros(4)
            f[active] = np.linalg.solve(W[np.ix_(active, active)], -b[active])
            if (f >= 0).all() and (W @ f + b >= -1e-12).all():
                found.append(f)
        mode, force = solve_contacts(
            [0] * 4, [-1] * 4, np.zeros(4), W, b, [1] * 4, np.zeros(4), [0] * 4
        )
        assert len(found) == 1
        np.testing.assert_allclose(force, found[0], atol=1e-10)
        np.testing.assert_array_equal(mode, found[0] > 0)


def test_what_does_not_fit():
    model = ball(0.0).model
    with pytest.raises(ValueError, match=r"restitution must be within 0 \.\.\. 1, got 2"):
        kh.Contact("floor", y, lam, restitution=2.0)
    with pytest.raises(ValueError, match="law 'coulomb' needs place= and friction="):
        kh.Contact("floor", y, lam, "coulomb")
    with pytest.raises(ValueError, match="force is no input of ball"):
        kh.Hybrid(model, contacts=[kh.Contact("floor", y, sp.Function("force")(ks.t))])
    with pytest.raises(ValueError, match="event 'hit' resets w, which is no state"):
        kh.Hybrid(model, events=[kh.Event("hit", y, resets={"w": 0})])
    with pytest.raises(ValueError, match="initial value of state v is missing"):
        ks.simulate(ball(0.0), [0.0, 1.0], {y: 1.0})
    with pytest.raises(ValueError, match="begins of a signal must increase; 0 s comes after 1 s"):
        ks.Signal.pieces([1.0, 0.0], [1.0, 2.0])


def pushed_block(push):
    """The block at rest on both corners, pushed sideways at its centre."""
    block, start, told = rocking_block()
    p = told["params"]
    force = sp.Function("push")(ks.t)
    old = block.model
    equations = [e - force if k == 3 else e for k, e in enumerate(old.equations)]
    model = ks.Model("pushed", old.states, [*old.inputs, force], [], equations)
    rest = dict.fromkeys(start, 0.0) | {list(start)[1]: p["half_height"]}
    hybrid = kh.Hybrid(model, contacts=block.contacts)
    run = ks.simulate(
        hybrid,
        np.linspace(0.0, 0.05, 6),
        {**rest, "left": True, "right": True},
        inputs={force: push},
        rtol=1e-11,
        atol=1e-13,
    )
    return run, p


def test_a_block_that_is_pushed_lifts_off():
    """Below F h = m g b both corners press, by statics; above it turns about one."""
    run, p = pushed_block(20.0)
    half = p["m"] * p["g"] / 2.0
    tilt = 20.0 * p["half_height"] / (2.0 * p["half_width"])
    np.testing.assert_allclose(run["n_left"], half - tilt, rtol=1e-10)
    np.testing.assert_allclose(run["n_right"], half + tilt, rtol=1e-10)
    assert not run.events
    run, p = pushed_block(26.0)
    assert [(e.kind, e.name) for e in run.events] == [("release", "left")]
    about = p["I"] + p["m"] * (p["half_width"] ** 2 + p["half_height"] ** 2)
    turn = (p["m"] * p["g"] * p["half_width"] - 26.0 * p["half_height"]) / about
    np.testing.assert_allclose(run["w"][1] / run.time[1], turn, rtol=1e-3)


def slider(mu):
    """A mass on a floor with friction, under a horizontal force."""
    s, z, vs, vz = ks.dynamicsymbols("s z vs vz")
    normal, along, pull = ks.dynamicsymbols("normal along pull")
    equations = [
        s.diff(ks.t) - vs,
        z.diff(ks.t) - vz,
        2 * vs.diff(ks.t) - along - pull,
        2 * vz.diff(ks.t) + 2 * 9.81 - normal,
    ]
    model = ks.Model("slider", [s, z, vs, vz], [normal, along, pull], [], equations)
    return kh.Hybrid(
        model,
        contacts=[kh.Contact("floor", z, normal, "coulomb", s, along, friction_coefficient=mu)],
    )


def test_sliding_stops_and_starts():
    """It stops after v/(mu g), stays, and starts when the force is mu m g."""
    mu, speed = 0.3, 0.8
    stop = speed / (mu * 9.81)
    begin = 1.0 + mu * 2.0 * 9.81 / 4.0  # the force grows by 4 N/s from 1 s on
    pull = ks.Signal.pieces([0.0, 1.0], [0.0, 0.0], [0.0, 4.0])
    time = np.linspace(0.0, 3.0, 301)
    run = ks.simulate(
        slider(mu),
        time,
        {"s": 0.0, "z": 0.0, "vs": speed, "vz": 0.0, "floor": True},
        inputs={"pull": pull},
        rtol=1e-10,
        atol=1e-12,
    )
    assert not run.message
    slides = [e.time for e in run.happened("slide")]
    np.testing.assert_allclose([slides[-2], slides[-1]], [stop, begin], atol=1e-7)
    here = (time > stop + 0.01) & (time < begin - 0.01)
    np.testing.assert_allclose(run["s"][here], speed**2 / (2 * mu * 9.81), atol=1e-8)
    np.testing.assert_allclose(run["along"][here], -pull(time[here]), atol=1e-9)
    after = time > begin + 0.01
    np.testing.assert_allclose(run["vs"][after], (time[after] - begin) ** 2, rtol=1e-5, atol=1e-7)


@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None)
def test_impacts_never_add_energy(seed, restitution):
    """Of any mass matrix and directions, by Moreau's law: kinetic energy does not grow, no point
    moves inwards faster than the law lets it."""
    rng = np.random.default_rng(seed)
    n, points = 5, int(rng.integers(1, 5))
    root, C = rng.normal(size=(n, n)), rng.normal(size=(points, n))
    M = root @ root.T + 0.1 * np.eye(n)
    before = rng.normal(size=n)
    approach = C @ before
    b = approach * (1.0 + restitution)
    W = C @ np.linalg.solve(M, C.T)
    _, impulse = solve_contacts(
        [0] * points,
        [-1] * points,
        np.zeros(points),
        W,
        b,
        [1] * points,
        np.zeros(points),
        [1] * points,
    )
    after = before + np.linalg.solve(M, C.T @ impulse)
    assert after @ M @ after <= before @ M @ before * (1.0 + 1e-9)
    assert (C @ after + restitution * approach >= -1e-8).all() and (impulse >= -1e-8).all()


def test_where_a_run_ended_in_words():
    x, v = ks.dynamicsymbols("x v")
    model = ks.Model("ball", [x, v], [], [], [x.diff(ks.t) - v, v.diff(ks.t) + 10])
    run = ks.simulate(model, [0.0, 0.5], {x: 3.0, v: 0.0})
    assert repr(run.final) == "<state at t = 0.5 s: x = 1.75, -5>"
    active = kh.HybridState(2.0, np.zeros(20), np.ones(1), np.array([1, 0]), np.zeros(2, dtype=int))
    assert repr(active).endswith("0, 0, ...; modes = 1; contacts active, open>")


def test_a_part_of_a_run():
    """Has its own events, contacts and end, from which another run goes on."""
    y, v, n, on = ks.dynamicsymbols("y v n on")
    ball = ks.Model("ball", [y, v], [n, on], [], [y.diff(ks.t) - v, v.diff(ks.t) + 10.0 - n - on])
    light = kh.Event("light", ks.t - 2.5, 1, sets={on: 4.0})
    ground = kh.Contact("ground", y, n, restitution=0.5)
    system, time = kh.Hybrid(ball, {on: 0.0}, [light], contacts=[ground]), np.linspace(0, 4, 401)
    run = ks.simulate(system, time, {y: 1.25, v: 0.0})
    for begin, end in ((0.0, 1.2), (0.6, 1.2), (1.7, 3.0), (2.0, 2.2), (1.0, 4.0)):
        part = run.between(begin, end)
        assert part.events == tuple(e for e in run.events if begin <= e.time <= end)
        assert part.final.time == pytest.approx(end)
        for name, value in zip(run.states, part.final.x, strict=True):
            assert value == pytest.approx(part[name][-1], abs=1e-12)
        cut = [(max(a, begin), min(b, end)) for a, b in run.pressing("ground")]
        spans = [(a, b) for a, b in cut if a < b]
        np.testing.assert_allclose(part.pressing("ground"), spans or np.empty((0,)), atol=1e-12)
        if end < 4.0:
            on_from_there = ks.simulate(system, time[time >= part.time[-1]], part.final)
            np.testing.assert_allclose(on_from_there["y"][-1], run["y"][-1], atol=1e-8)
            assert on_from_there["on"][-1] == 4.0
    assert run.between(0.6, 1.2).error().message == ""
