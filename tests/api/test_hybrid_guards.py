"""Guards along steps and at one instant: every crossing, in the order of time; what slides or comes
ever faster ends in a sentence. Against closed forms and SciPy."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, y, v, w, on = ks.dynamicsymbols("x y v w on")
G = 9.8
BALL = ks.Model("ball", [y, v], [], [], [y.diff(t) - v, v.diff(t) + G])
LINE = ks.Model("line", [x], [], [], [x.diff(t) - 1])
METHODS = [
    {},
    {"rtol": 1e-12, "atol": 1e-14},
    {"rtol": 1e-2, "atol": 1e-3},
    {"method": "radau-5"},
    {"method": "rk4"},
    {"method": "trapezoid"},
]


share, off = sp.symbols("share off")
BOUNCE = kh.Hybrid(BALL, events=[kh.Event("bounce", y - off, -1, resets={v: -share * v})])


def bouncing(e, floor=0.0):
    """A ball, and its parameters."""
    return BOUNCE, {share: e, off: floor}


def bounces(e, height, end):
    """Times at which a ball that falls from a height bounces."""
    now, speed, found = np.sqrt(2.0 * height / G), np.sqrt(2.0 * G * height), []
    while now < end:
        found.append(now)
        speed *= e
        now += 2.0 * speed / G
    return np.array(found)


def times(run):
    return np.array([event.time for event in run.events])


def ended(*given, **options):
    """A run that ends early, with a warning of the same words."""
    with pytest.warns(UserWarning) as caught:
        run = ks.simulate(*given, **options)
    assert run.message and any(run.message in str(one.message) for one in caught)
    return run


# -- along a step ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("height", [1e-6, 1.0, 1e4])
def test_every_bounce(options, height):
    """Flights are parabolas, so that steps grow as they like: rise and fall are within one."""
    unit = np.sqrt(height)
    for e in (1.0, 0.99):
        for end, nodes in ((3.0, 4), (10.0, 3), (30.0, 301)):
            ball, values = bouncing(e)
            grid = np.linspace(0.0, end * unit, nodes)
            run = ks.simulate(ball, grid, {y: height, v: 0.0}, values, **options)
            exact = bounces(e, height, end * unit)
            assert len(run.events) == len(exact) and not run.message
            np.testing.assert_allclose(times(run), exact, rtol=1e-9)
            assert run["y"].min() > -1e-9 * height


@pytest.mark.parametrize("options", METHODS)
def test_a_dip_within_a_step(options):
    """(t - 1)^2 - d: both crossings, however near to each other, on any grid."""
    dip = ks.Model("dip", [y], [], [], [y.diff(t) - 2 * (t - 1)])
    for direction, kept in ((0, [0, 1]), (-1, [0]), (1, [1])):
        system = kh.Hybrid(dip, events=[kh.Event("zero", y, direction)])
        for d in (0.1, 1e-3, 1e-6, 1e-10):
            run = ks.simulate(system, np.linspace(0.0, 2.0, 4), {y: 1.0 - d}, **options)
            exact = 1.0 + np.sqrt(d) * np.array([-1.0, 1.0])[kept]
            np.testing.assert_allclose(times(run), exact, atol=2e-15 / np.sqrt(d))


@pytest.mark.parametrize("rate", [10, 1000])
def test_guards_that_are_faster_than_the_motion(rate):
    """sin(rate t) along steps of seconds: each of its crossings, or none of one that stays away."""
    guard = sp.sin(rate * t)
    for level, direction in ((0.5, 1), (-0.9, -1), (1.01, 0)):
        system = kh.Hybrid(
            LINE, events=[kh.Event("up", guard - level, direction)], per_second=10**6
        )
        run = ks.simulate(system, np.linspace(0.0, 10.0, 11), {x: 0.0})
        if level > 1.0:
            assert not run.events
            continue
        first = np.arcsin(level) if direction > 0 else np.pi - np.arcsin(level)
        count = int((10.0 * rate - first) / (2.0 * np.pi)) + 1
        exact = (first + 2.0 * np.pi * np.arange(count)) / rate
        np.testing.assert_allclose(times(run), exact, atol=1e-12)


@pytest.mark.parametrize("options", METHODS)
def test_periodic_guards_between_few_nodes(options):
    """Steps are short where guards turn, by time or by states, though the motion is smooth."""
    turns = sp.Symbol("turns")
    model = ks.Model("wheel", [x, w], [], [turns], [x.diff(t) - 2 * sp.pi * turns, w.diff(t)])
    for guard, count in (
        (sp.sin(2 * sp.pi * turns * t), 160),
        (sp.sin(x), 160),
        (sp.cos(x) ** 2 - 0.5, 320),
    ):
        system = kh.Hybrid(model, events=[kh.Event("tick", guard, 1, resets={w: w + 1})])
        run = ks.simulate(system, [0.01, 20.01], {x: 0.16 * sp.pi, w: 0.0}, {turns: 8.0}, **options)
        assert run["w"][-1] == count and not run.message


@pytest.mark.parametrize("method", ["dormand-prince", "radau-5", "rk4", "trapezoid"])
def test_a_clock_with_the_period_of_the_grid(method):
    """The guard comes to zero where steps end: each event is at the begin of the next step."""
    model = ks.Model("held", [x, w], [on], [], [x.diff(t) - x - on, w.diff(t) - 1])
    sample = kh.Event("sample", w - 0.1, 1, resets={w: w - 0.1}, sets={on: -2.5 * x})
    system, grid = kh.Hybrid(model, {on: 0}, [sample]), np.append(np.linspace(0, 6, 61), 6.05)
    run = ks.simulate(system, grid, {x: 1.0, w: 0.0}, method=method)
    assert not run.message and len(run.events) == 60
    held, exact = 0.0, 1.0
    for length in [0.1] * 60 + [0.05]:
        exact = exact * np.exp(length) + held * np.expm1(length)
        held = -2.5 * exact
    assert run["x"][-1] == pytest.approx(exact, rel=0.2 if method == "trapezoid" else 1e-3)


def test_guards_that_jump():
    for guard in (sp.sign(x - 5), sp.Piecewise((1, x < 5), (-1, True)), sp.floor(x) - 4.5):
        for start in (0.0, 3.3):
            for options in METHODS:
                system = kh.Hybrid(LINE, events=[kh.Event("jump", guard, 0)])
                run = ks.simulate(system, np.linspace(start, 10.0, 11), {x: start}, **options)
                np.testing.assert_allclose(times(run), [5.0], atol=1e-12)


@pytest.mark.parametrize("options", METHODS)
def test_guards_that_jump_along_a_curve(options):
    """Up and down again across 0.9 of sin(2 t): the dense output is off by more than a jump is
    long, and both crossings happen."""
    model = ks.Model("sine", [x], [], [], [x.diff(t) - 2 * sp.cos(2 * t)])
    rise = np.arcsin(0.9) / 2
    exact = {0: [rise, np.pi / 2 - rise], 1: [rise], -1: [np.pi / 2 - rise]}
    for guard in (sp.sign(x - 0.9), sp.Heaviside(x - 0.9) - 0.5, sp.floor(x / 0.9) - 0.5):
        for way, when in exact.items():
            system = kh.Hybrid(model, events=[kh.Event("jump", guard, way)])
            run = ks.simulate(system, np.linspace(0.0, 3.0, 31), {x: 0.0}, **options)
            np.testing.assert_allclose(times(run), when, atol=5e-3)


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("way", [-1, 0])
def test_bounces_at_guards_that_jump(options, way):
    """What a reset sends back does not happen again, and nothing falls through."""
    exact = bounces(0.9, 1.0, 3.0)
    for guard in (sp.sign(y), sp.Piecewise((1, y >= 0), (-1, True))):
        system = kh.Hybrid(BALL, events=[kh.Event("bounce", guard, way, resets={v: -0.9 * v})])
        run = ks.simulate(system, np.linspace(0.0, 3.0, 61), {y: 1.0, v: 0.0}, **options)
        np.testing.assert_allclose(times(run), exact, rtol=1e-8)


GUARDS = [x - 0.3, v * x - 0.2, sp.sin(3 * x) + w - 0.1, sp.cos(20 * t) * x - 0.4, abs(x) - 0.7]
SWING = [v, -sp.sin(x) - 0.4 * v * (x**2 - 1) + 0.8 * sp.cos(1.7 * t), -w + x * v]


@pytest.mark.parametrize("options", [{}, *METHODS[3:5]])
@pytest.mark.parametrize("seed", range(3))
def test_crossings_of_many_guards(options, seed):
    """Of both directions, nonlinear, of time, with a kink: as on a fine grid of a run by SciPy."""
    states = (x, v, w)
    model = ks.Model(
        "swing", states, [], [], [q.diff(t) - e for q, e in zip(states, SWING, strict=True)]
    )
    ways = [0, 1, -1, 0, 1]
    events = [
        kh.Event(f"e{k}", g, way) for k, (g, way) in enumerate(zip(GUARDS, ways, strict=True))
    ]
    start = np.random.default_rng(seed).normal(size=3)
    tight = {"rtol": 1e-9, "atol": 1e-11}
    steps = {"substeps": 20} if options.get("method") == "rk4" else tight
    run = ks.simulate(
        kh.Hybrid(model, events=events),
        np.linspace(0.0, 8.0, 81),
        dict(zip(states, start.tolist(), strict=True)),
        **options,
        **steps,
    )
    rates, guards = sp.lambdify((t, states), SWING), sp.lambdify((t, *states), GUARDS)
    exact = solve_ivp(rates, (0.0, 8.0), start, "DOP853", rtol=1e-12, atol=1e-13, dense_output=True)
    fine = np.linspace(0.0, 8.0, 80_001)
    values = guards(fine, *exact.sol(fine))
    expected = []
    for k, row in enumerate(values):
        for j in np.flatnonzero(row[:-1] * row[1:] < 0.0):
            if ways[k] in (0, np.sign(row[j + 1] - row[j])):
                share = row[j] / (row[j] - row[j + 1])
                expected.append((fine[j] + share * (fine[1] - fine[0]), f"e{k}"))
    expected.sort()
    assert [event.name for event in run.events] == [name for _, name in expected]
    np.testing.assert_allclose(times(run), [when for when, _ in expected], atol=2e-5)


# -- at one instant -------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [1e-7, 1e-9, 1e-12])
def test_the_order_of_events_is_that_of_time(apart):
    model = ks.Model("two", [x, w], [], [], [x.diff(t) - 1, w.diff(t)])
    late = kh.Event("late", x - 1 - apart, 1, resets={w: w + 1})
    early = kh.Event("early", x - 1, 1, resets={w: 2 * w})
    run = ks.simulate(kh.Hybrid(model, events=[late, early]), [0.0, 2.0], {x: 0.0, w: 1.0})
    assert [event.name for event in run.events] == ["early", "late"] and run["w"][-1] == 3.0


def test_at_equal_times_the_order_is_that_of_declaration():
    """Whatever the guards look like; one that another has just disarmed does not happen."""
    model = ks.Model("two", [x, w], [on], [], [x.diff(t) - 1, w.diff(t) + 0 * on])
    add = kh.Event("add", 1000 * x - 1000, 1, resets={w: w + 1})
    double = kh.Event("double", sp.log(x), 1, resets={w: 2 * w}, when=on)
    never = kh.Event("never", x - 1, 0, resets={w: 0}, when=on)
    off = kh.Event("off", sp.exp(x) - sp.E, 1, sets={on: 0})
    for events, end in (([add, double, off, never], 4.0), ([double, off, add], 3.0)):
        run = ks.simulate(kh.Hybrid(model, {on: 1}, events), [0.5, 2.0], {x: 0.5, w: 1.0})
        assert run["w"][-1] == end
        assert [e.name for e in run.events] == [e.name for e in events if e is not never]


ARMS = kh.Event("arms", x - 1, 1, sets={on: 1})
ARMED = kh.Event("armed", sp.sin(x) - np.sin(1.0), 1, resets={w: w + 10}, when=on - 0.5)


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize(
    ("events", "names"),
    [
        ([ARMS, ARMED], "arms armed"),
        ([ARMED, ARMS], "arms"),
        ([ARMS, ARMED, replace(ARMS, name="off", sets={on: 0})], "arms armed off"),
        ([ARMS, replace(ARMS, name="off", sets={on: 0}), ARMED], "arms off"),
        ([kh.Event("late", x - 1.5, 1, sets={on: 1}), ARMED], "late"),
        ([ARMS, replace(ARMED, guard=1 - x)], "arms"),
        (
            [kh.Event("z", t - 0.7, 1, resets={w: 1}), replace(ARMS, guard=w - 0.5), ARMED],
            "z arms armed",
        ),
    ],
)
def test_what_another_arms_at_the_same_time_happens(options, events, names):
    model = ks.Model("two", [x, w], [on], [], [x.diff(t) - 1, w.diff(t) + 0 * on])
    run = ks.simulate(
        kh.Hybrid(model, {on: 0}, events), [0.3, 0.9, 2.0], {x: 0.6, w: 0.0}, **options
    )
    assert [event.name for event in run.events] == names.split()
    assert run["w"][-1] == 10.0 * ("armed" in names) + ("z" in names)


def test_what_has_happened_and_moves_on_does_not_happen_again():
    """Counters at one guard, one that is sent to where it was, a slower drain."""
    events = [kh.Event("one", x - 1, 1), kh.Event("two", x - 1, 0), kh.Event("not", x - 1, -1)]
    run = ks.simulate(kh.Hybrid(LINE, events=events), [0.0, 3.0], {x: 0.0})
    assert [event.name for event in run.events] == ["one", "two"]
    again = kh.Hybrid(LINE, events=[kh.Event("same", x - 1, 1, resets={x: 1})])
    assert len(ks.simulate(again, [0.0, 3.0], {x: 0.0}).events) == 1
    drain = ks.Model("drain", [x], [on], [], [x.diff(t) + on])
    slower = kh.Hybrid(drain, {on: 1.0}, [kh.Event("slower", x, -1, sets={on: 0.5})])
    run = ks.simulate(slower, [0.0, 3.0], {x: 1.0})
    assert len(run.events) == 1 and run["x"][-1] == pytest.approx(-1.0)


def test_a_guard_that_waits_at_zero():
    """It stands there for two seconds, leaves upwards, comes back, and happens again."""
    model = ks.Model("waits", [x], [on], [], [x.diff(t) - on])
    events = [
        kh.Event("stop", x, -1, sets={on: 0}),
        kh.Event("up", t - 3, 1, sets={on: 1}),
        kh.Event("down", t - 4, 1, sets={on: -1}),
    ]
    run = ks.simulate(kh.Hybrid(model, {on: -1}, events), np.linspace(0.0, 6.0, 13), {x: 1.0})
    assert [e.name for e in run.events] == ["stop", "up", "down", "stop"]
    np.testing.assert_allclose(times(run), [1.0, 3.0, 4.0, 5.0], atol=1e-14)


offset, drift, speed = sp.symbols("offset drift speed")
SWITCH = ks.Model(
    "switch",
    [x],
    [on],
    [drift, speed],
    [x.diff(t) - speed * on - drift],
    values={drift: 0, speed: 1},
)
RELAY = kh.Hybrid(
    SWITCH,
    {on: -1.0},
    [
        kh.Event("low", x + offset, -1, sets={on: 1}),
        kh.Event("high", x - offset, 1, sets={on: -1}),
    ],
)


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("push", [-0.5, 0.0, 0.5])
def test_a_relay_that_slides(options, push):
    """x' = -sign(x) + drift: a sentence at the guard, never motion across it."""
    values = {offset: 0.0, drift: push}
    run = ended(RELAY, np.linspace(0.0, 5.0, 51), {x: 1.0}, values, **options)
    when = 1.0 / (1.0 - push)
    assert run.final.time == pytest.approx(when) and run["x"].min() > -1e-12
    assert "low" in run.message and "high" in run.message
    assert "slides along the guards" in run.message and "hysteresis" in run.message


def test_a_drift_that_a_relay_cannot_hold():
    run = ks.simulate(RELAY, [0.0, 1.0], {x: 1.0}, {offset: 0.0, drift: -2.0})
    assert [e.name for e in run.events] == ["low"] and run["x"][-1] == pytest.approx(-2 / 3)


def test_a_relay_that_slides_along_a_curve():
    """Its guards look different and are zero at the same places."""
    model = ks.Model("slide", [x, y], [on], [], [x.diff(t) - 1, y.diff(t) - 2 * on])
    below = kh.Event("below", sp.exp(y) - sp.exp(sp.sin(x)), -1, sets={on: 1})
    above = kh.Event("above", (y - sp.sin(x)) * (2 + x), 1, sets={on: -1})
    run = ended(kh.Hybrid(model, {on: -1}, [below, above]), [0.0, 5.0], {x: 0.0, y: 1.0})
    when = run.final.time
    assert 1.0 - 2.0 * when == pytest.approx(np.sin(when)) and "slides" in run.message


def test_narrow_hysteresis():
    """Of 1e-10: as many switches as it takes, or the sentence on too many."""
    narrow = {offset: 1e-10}
    slow = ks.simulate(RELAY, np.linspace(0.0, 10.0, 11), {x: 1e-9}, {**narrow, speed: 1e-9})
    np.testing.assert_allclose(times(slow), 1.1 + 0.2 * np.arange(45), atol=1e-12)
    many = replace(RELAY, per_second=10**5)
    assert len(ks.simulate(many, [0.0, 1.0 + 1e-7], {x: 1.0}, narrow).events) == 500
    assert "too many events" in ended(RELAY, [0.0, 2.0], {x: 1.0}, narrow).message


# -- events that accumulate -----------------------------------------------------------------------


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("e", [0.1, 0.5, 0.9])
def test_bounces_that_accumulate(options, e):
    """At sqrt(2 h/g) (1 + e)/(1 - e): the run ends there, above the floor, wherever that is."""
    limit = np.sqrt(2.0 / G) * (1.0 + e) / (1.0 - e)
    for floor in (0.0, 1000.0):
        ball, values = bouncing(e, floor)
        start = {y: 1.0 + floor, v: 0.0}
        run = ended(ball, np.linspace(0.0, 20.0, 101), start, values, **options)
        assert run.final.time == pytest.approx(limit, rel=1e-4)
        assert f"accumulate at t = {limit:.5f}"[:-1] in run.message and "bounce" in run.message
        assert f"shrink by {e}" in run.message and run["y"].min() > floor - 1e-9
        exact = bounces(e, 1.0, limit * (1.0 - 1e-4))
        np.testing.assert_allclose(times(run)[: len(exact)], exact, rtol=1e-8)


def test_balls_that_touch_from_the_start():
    """That is no crossing when another event pushes them together, which is said."""
    places, speeds = ks.dynamicsymbols("a b c"), ks.dynamicsymbols("u v w")
    (a, b, c), (u, v, w) = places, speeds
    rates = [z.diff(t) - s for z, s in zip(places, speeds, strict=True)]
    model = ks.Model("cradle", [*places, *speeds], [], [], [*rates, *(s.diff(t) for s in speeds)])
    left, right = (
        kh.Event(*hit, -1, resets=swap)
        for hit, swap in ((("left", b - a), {u: v, v: u}), (("right", c - b), {v: w, w: v}))
    )
    cradle, start = (
        kh.Hybrid(model, events=[left, right]),
        {a: -1.0, b: 0.0, u: 1.0, v: 0.0, w: 0.0},
    )
    with pytest.warns(UserWarning, match="guard of right stood at zero from the start, .* t = 1 s"):
        ks.simulate(cradle, [0.0, 3.0], {**start, c: 0.0})
    run = ks.simulate(cradle, [0.0, 3.0], {**start, c: 1e-9})
    assert not run.message and [e.name for e in run.events] == ["left", "right"]
    assert run["c"][-1] == pytest.approx(2.0) and run["b"][-1] == pytest.approx(0.0, abs=2e-9)


def test_equal_balls_that_bounce_at_once():
    """Accumulate as one does; events at one time count once."""
    heights, speeds = ks.dynamicsymbols("a b c"), ks.dynamicsymbols("u v w")
    rates = [h.diff(t) - s for h, s in zip(heights, speeds, strict=True)]
    model = ks.Model(
        "balls", [*heights, *speeds], [], [], [*rates, *(s.diff(t) + G for s in speeds)]
    )
    hits = [
        kh.Event(f"hit {h}", h, resets={s: -s / 2}) for h, s in zip(heights, speeds, strict=True)
    ]
    start = {**dict.fromkeys(heights, 0.5), **dict.fromkeys(speeds, 0.0)}
    run = ended(kh.Hybrid(model, events=hits), [0.0, 2.0], start)
    assert f"accumulate at t = {3.0 / np.sqrt(G):.4f}"[:-1] in run.message
    assert "shrink by 0.5" in run.message


def test_a_clock_that_is_too_fast():
    tick = kh.Event("tick", x - 2e-4, 1, resets={x: x - 2e-4})
    run = ended(kh.Hybrid(LINE, events=[tick]), [0.0, 0.5], {x: 0.0})
    assert "raise per_second of the Hybrid, which is 1000" in run.message
    run = ks.simulate(kh.Hybrid(LINE, events=[tick], per_second=6000), [0.0, 0.5001], {x: 0.0})
    assert len(run.events) == 2500 and not run.message


def test_a_ball_that_does_not_bounce():
    ball, values = bouncing(0.0)
    run = ended(ball, [0.0, 1.0], {y: 1.0, v: 0.0}, values)
    assert run.final.time == pytest.approx(np.sqrt(2.0 / G)) and "bounce" in run.message


@pytest.mark.parametrize("level", [False, True])
def test_tanks_that_are_filled_in_turn(level):
    """Inflow 0.75, outflow 0.5 of each: empty after (1 + 1)/0.25 = 8 s (Johansson et al. 1999)."""
    a, b = ks.dynamicsymbols("a b")
    rates = [a.diff(t) - 0.75 * on + 0.5, b.diff(t) - 0.75 * (1 - on) + 0.5]
    events = [
        kh.Event("second", b, -1, sets={on: 0}, level=level),
        kh.Event("first", a, -1, sets={on: 1}, level=level),
    ]
    tanks = kh.Hybrid(ks.Model("tanks", [a, b], [on], [], rates), {on: 1}, events)
    run = ended(tanks, np.linspace(0.0, 10.0, 101), {a: 1.0, b: 1.0})
    assert run.final.time == pytest.approx(8.0, abs=1e-6)
    assert min(run["a"].min(), run["b"].min()) > -1e-7
    assert "accumulate at t = 8" in run.message and "shrink by 0.5" in run.message


def test_a_run_in_parts_at_its_events():
    """Each part begins where the last one stopped: the same bounces."""
    stops = kh.Event("bounce", y, -1, resets={v: -0.9 * v}, stop=True)
    system, state, now, found = kh.Hybrid(BALL, events=[stops]), {y: 1.0, v: 0.0}, 0.0, []
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = ks.simulate(system, [now, 10.0], state)
        state, now = run.final, run.final.time
        found.append(now)
    exact = bounces(0.9, 1.0, 5.0)[:6]
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    assert all(later > earlier for earlier, later in pairwise(found))


def test_derivatives_across_events_that_follow_at_once():
    """A reset sends y to the guard of another, beyond which it moves."""
    model = ks.Model("chain", [x, y], [on], [], [x.diff(t) - 1, y.diff(t) + on])
    first = kh.Event("first", x - 1, 1, resets={y: 0})
    second = kh.Event("second", y, -1, sets={on: 0.25})
    chain = kh.Hybrid(model, {on: 1.0}, [first, second])
    s = ks.sensitivities(chain, [0.0, 2.0], {x: 0.2, y: 5.0})
    assert [e.name for e in s.run.events] == ["first", "second"]
    assert s.run["y"][-1] == pytest.approx(-0.25 * 1.2)
    f = s.forward(["x", "y"])
    np.testing.assert_allclose(f["y"][:, -1], [-0.25, 0.0], atol=1e-12)
    np.testing.assert_allclose([f.at(e)[0] for e in s.run.events], -1.0, atol=1e-12)
    assert s.gradient("y").initial["x"] == pytest.approx(-0.25)


def test_a_sample_at_the_time_of_an_event():
    """Shows the state after it; at the last time of a run no event happens."""
    dose = kh.Event("dose", t - 1, 1, resets={x: x + 10})
    system, start = kh.Hybrid(LINE, events=[dose]), {x: 0.0}
    np.testing.assert_allclose(ks.simulate(system, [0, 1, 2], start)["x"], [0, 11, 12])
    np.testing.assert_allclose(ks.simulate(system, [0, 0.5, 1], start)["x"], [0, 0.5, 1])


k, a = sp.symbols("k a")
DOSES = kh.Hybrid(
    ks.Model("doses", [x], [on], [k], [x.diff(t) + k * x + 0 * on]),
    {on: 0},
    [kh.Event(f"dose {i}", t - i, 1, resets={x: x + a}, sets={on: i}) for i in (1, 2, 3, 4)],
)
#: Every tenth, and a grid that has a time of an event to rounding alone.
GRIDS = [np.linspace(0, 5, 51), [0, 0.17, 1, 1.7, 2, 3 - 4e-16, 3.3, 4, 5]]


def doses(grid):
    """What the doses have left at the nodes, per unit; how many there were."""
    past = np.subtract.outer(grid, [1, 2, 3, 4])
    there = past > -1e-12
    return (np.exp(-0.5 * past) * there).sum(axis=1), there.sum(axis=1)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("options", METHODS)
def test_samples_at_the_times_of_many_events(options, grid):
    """Also where steps of a method come to them to rounding alone."""
    run = ks.simulate(DOSES, grid, {x: 1.0}, {k: 0.5, a: 2.0}, **options)
    left, count = doses(run.time)
    np.testing.assert_allclose(run["x"], np.exp(-0.5 * run.time) + 2.0 * left, rtol=4e-2)
    np.testing.assert_array_equal(run["on"], count)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("method", ["dormand-prince", "rk4"])
def test_derivatives_at_the_times_of_many_events(method, grid):
    s = ks.sensitivities(DOSES, grid, {x: 1.0}, {k: 0.5, a: 2.0}, method=method)
    left, _ = doses(s.run.time)
    column = s.forward(["a"])["x"][0]
    np.testing.assert_allclose(column, left, rtol=2e-3)
    for node, one in enumerate(np.eye(len(grid))):
        assert s.gradient({"x": one}).parameters["a"] == pytest.approx(column[node], rel=1e-10)
