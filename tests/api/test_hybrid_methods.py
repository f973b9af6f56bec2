"""Orders of methods with events, runs in parts, other compilers, order of contacts, clocks."""

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.internal.problems.pipeline import realise
from kinesym.internal.running import hybrid_run
from kinesym.runtime.native import solve_contacts

BLOCK = json.loads((Path(__file__).parents[1] / "data" / "rocking_block.json").read_text())
KNEE = json.loads((Path(__file__).parents[1] / "data" / "knee_20Hz.json").read_text())["params"]
TIGHT = {"rtol": 1e-12, "atol": 1e-13}
CLOCK = kh.Calcium(KNEE["tau"], KNEE["t1"], KNEE["t2"], KNEE["Up"], KNEE["Um"])
STIMULATION = CLOCK.signal(kh.train(0.1, 0.05, 16))
FEW = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much],
)


def happenings(run):
    return [(e.kind, e.name) for e in run.log]


def apart(one, other):
    """The largest differences of two final states, relative to their sizes."""
    return np.abs((one.final.x - other.final.x) / (1e-3 + np.abs(other.final.x))).max()


# -- models ---------------------------------------------------------------------------------------


@cache
def body(laws, restitution=0.0, backwards=False):
    """A body in a plane, its points touching the ground; forces at its centre."""
    c = ks.dynamicsymbols("x z th vx vz w")
    pull, turn = ks.dynamicsymbols("pull turn")
    contacts, inputs, total = [], [], sp.Matrix([pull, -1.5 * 9.81, turn])
    for k, law in enumerate(laws):
        a, b = [(-0.4, -0.5), (0.4, -0.5), (0.0, -0.5)][k]
        across = c[0] + sp.cos(c[2]) * a - sp.sin(c[2]) * b
        up = c[1] + sp.sin(c[2]) * a + sp.cos(c[2]) * b
        normal, along = ks.dynamicsymbols(f"n{k} f{k}")
        total += sp.Matrix([up]).jacobian(c[:3]).T * normal
        rest = {} if law == "slip" else {"place": across, "friction": along}
        if law != "slip":
            total += sp.Matrix([across]).jacobian(c[:3]).T * along
        rest |= {"friction_coefficient": 0.4} if law == "coulomb" else {}
        contacts.append(kh.Contact(f"p{k}", up, normal, law, restitution=restitution, **rest))
        inputs += [normal] if law == "slip" else [normal, along]
    rates = sp.diag(1.5, 1.5, sp.Rational(1, 5)) * sp.Matrix([u.diff(ks.t) for u in c[3:]])
    model = ks.Model(
        "body",
        c,
        [*inputs, pull, turn],
        [],
        [*(p.diff(ks.t) - u for p, u in zip(c[:3], c[3:], strict=True)), *(rates - total)],
    )
    return kh.Hybrid(model, contacts=contacts[::-1] if backwards else contacts)


def thrown(seed):
    """A random start above the ground, and random inputs."""
    rng = np.random.default_rng(seed)
    start = dict(zip(("x", "z", "th", "vx", "vz", "w"), rng.normal(size=6), strict=True))
    start |= {"z": rng.uniform(0.9, 1.3), "th": 0.4 * start["th"]}
    breaks = np.append(0.0, np.sort(rng.uniform(0.1, 1.1, 3)))
    inputs = {
        name: ks.Signal.pieces(breaks, size * rng.normal(size=4), size * rng.normal(size=4))
        for name, size in (("pull", 3.0), ("turn", 0.5))
    }
    return start, inputs


@cache
def block():
    """The rocking block of rocking_block.json: corners that do not slide."""
    c = ks.dynamicsymbols("x z th vx vz w")
    told, contacts, inputs = BLOCK["params"], [], []
    total = sp.Matrix([0, -told["m"] * told["g"], 0])
    for side, (a, b) in zip(("left", "right"), told["corners"], strict=True):
        across = c[0] + sp.cos(c[2]) * a - sp.sin(c[2]) * b
        up = c[1] + sp.sin(c[2]) * a + sp.cos(c[2]) * b
        normal, along = ks.dynamicsymbols(f"n_{side} f_{side}")
        total += sp.Matrix([up]).jacobian(c[:3]).T * normal
        total += sp.Matrix([across]).jacobian(c[:3]).T * along
        contacts.append(kh.Contact(side, up, normal, "stick", across, along))
        inputs += [normal, along]
    rates = sp.diag(told["m"], told["m"], told["I"]) * sp.Matrix([u.diff(ks.t) for u in c[3:]])
    model = ks.Model(
        "block",
        c,
        inputs,
        [],
        [*(p.diff(ks.t) - u for p, u in zip(c[:3], c[3:], strict=True)), *(rates - total)],
    )
    return kh.Hybrid(model, contacts=contacts)


def rock(time, **options):
    start = dict(zip(block().model.state_names, BLOCK["q0"] + BLOCK["v0"], strict=True))
    return ks.simulate(block(), time, {**start, "right": True}, **options)


@cache
def knee(strengths=(1.0,)):
    """A shank and muscles that extend it, in parallel: of shares of the strength of one."""
    theta, omega = ks.dynamicsymbols("theta omega")
    muscles = [
        kh.FESMuscle(
            f"quad{k}",
            -KNEE["r"] * omega,
            s * KNEE["F0"],
            s * KNEE["k0"],
            s * KNEE["ks"],
            KNEE["Lc0"],
            KNEE["alpha"],
        )
        for k, s in enumerate(strengths)
    ]
    torque = KNEE["r"] * sum(muscle.force for muscle in muscles) - KNEE["bv"] * omega
    torque -= KNEE["m"] * KNEE["g"] * KNEE["lc"] * sp.sin(theta)
    model = ks.Model(
        "knee",
        [theta, omega],
        [muscle.force for muscle in muscles],
        [],
        [theta.diff(ks.t) - omega, KNEE["I"] * omega.diff(ks.t) - torque],
    )
    return kh.Hybrid(model, muscles=muscles)


def kick(time, clocks=(STIMULATION,), strengths=(1.0,), **options):
    hybrid = knee(strengths)
    inputs = {f"quad{k}_u": clock for k, clock in enumerate(clocks)}
    return ks.simulate(
        hybrid, time, dict.fromkeys(hybrid.model.state_names, 0.0), inputs=inputs, **options
    )


# -- orders ---------------------------------------------------------------------------------------


def slope(sizes, errors):
    """Of errors over sizes in a doubly logarithmic picture."""
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.mark.parametrize(("method", "order"), [("rk4", 4.0), ("trapezoid", 2.0)])
@pytest.mark.parametrize("run", [rock, kick])
def test_order_of_fixed_steps(method, order, run):
    """With impacts, or breaks of the clock and switches of the muscle."""
    time = [0.0, 1.0] if run is rock else [0.0, 0.25]
    exact, counts = run(time, rtol=1e-13, atol=1e-14), [200, 400, 800]
    if run is kick:
        counts = [250, 500, 1000]
    errors = [apart(run(time, method=method, substeps=count), exact) for count in counts]
    assert abs(slope(counts, errors) + order) < 0.35, errors


@pytest.mark.parametrize("run", [rock, kick])
def test_order_of_dormand_and_prince(run):
    """At least 4.5 of the number of steps, where these are not set by the events."""
    time = [0.0, 1.0] if run is rock else [0.0, 0.25]
    exact, found = run(time, rtol=3e-14, atol=3e-15), []
    for rtol in (1e-8, 1e-9, 1e-10, 1e-11, 1e-12):
        here = run(time, rtol=rtol, atol=0.1 * rtol)
        found.append((here.work[0], apart(here, exact)))
    steps, errors = np.array(found).T
    assert slope(steps, errors) < -4.5, found
    assert errors[-1] < 1e-10


@pytest.mark.parametrize("run", [rock, kick])
def test_order_of_radau(run):
    """The same happens as by the explicit method at all tolerances; of steps that events do not
    set the error shrinks with the power 4 of their number or faster."""
    time = [0.0, 1.0] if run is rock else [0.0, 0.25]
    exact, found = run(time, rtol=3e-14, atol=3e-15), []
    for rtol in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11):
        here = run(time, method="radau-5", rtol=rtol, atol=0.1 * rtol)
        assert happenings(here) == happenings(exact)
        found.append((here.work[0], apart(here, exact)))
    steps, errors = np.array(found).T
    assert slope(steps, errors) < -4.0, found
    assert errors[-1] < 1e-9


def test_a_kink_that_is_no_event_costs_the_order():
    """x' = max(cos y - 1/3, 0), y' = 1: of order 4 if the switch is an event, else of order 2."""
    x, y, mode = ks.dynamicsymbols("x y mode")
    bend = sp.cos(y) - sp.Rational(1, 3)
    clock = y.diff(ks.t) - 1
    rates = [x.diff(ks.t) - sp.Max(bend, 0) + x / 10, clock]
    over = kh.Hybrid(ks.Model("over", [x, y], [], [], rates))
    model = ks.Model("at", [x, y], [mode], [], [x.diff(ks.t) - mode * bend + x / 10, clock])
    at = kh.Hybrid(model, {mode: 1.0}, [kh.Event("kink", bend, -1, sets={mode: 0})])
    end = np.arccos(1.0 / 3.0)
    given = ([0.0, 2.0], {x: 0.0, y: 0.0})
    exact = ks.simulate(at, *given, **TIGHT)
    counts, orders = np.array([10, 20, 40, 80]), []
    for hybrid in (over, at):
        runs = [ks.simulate(hybrid, *given, method="rk4", substeps=n) for n in counts.tolist()]
        errors = [abs(run.final.x[0] - exact.final.x[0]) for run in runs]
        orders.append(-slope(counts, np.maximum(errors, 1e-16)))
    assert abs(orders[1] - 4.0) < 0.3 and orders[0] < 3.0
    assert exact.events[0].time == pytest.approx(end, abs=1e-12)


# -- what a run does not depend on ----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [TIGHT, {"rtol": 1e-6}, {"method": "rk4"}, {"method": "trapezoid"}, {"method": "radau-5"}],
)
def test_nodes_of_the_grid_change_nothing(options):
    """Bit for bit: nodes are filled from steps that do not know them; fixed ones of 2^-10 s."""
    ends = []
    for time in ([0.0, 0.625], np.linspace(0.0, 0.625, 81), [0.0, 0.125, 0.1250001, 0.375, 0.625]):
        if options.get("method") in ("rk4", "trapezoid"):
            options = {**options, "substeps": round(float(np.diff(time).max()) * 2**10)}
        for run in (rock(time, **options), kick(time, **options)):
            ends.append((run.final.x, [e.time for e in run.log]))
    for k, (x, times) in enumerate(ends):
        np.testing.assert_array_equal(x, ends[k % 2][0])
        assert times == ends[k % 2][1]


@pytest.mark.parametrize("laws", [("slip", "slip"), ("coulomb", "coulomb")])
@given(seed=st.integers(0, 10_000))
@FEW
def test_releases_by_force_and_by_height(laws, seed):
    """The same motion, to the accuracy of steps over a kink."""
    start, inputs = thrown(seed)
    one, other = (
        ks.simulate(
            replace(body(laws), release=release),
            [0.0, 1.0],
            start,
            inputs=inputs,
            rtol=1e-10,
            atol=1e-12,
        )
        for release in ("force", "height")
    )
    assert not one.message and not other.message
    assert apart(other, one) < 1e-6
    for kind in ("impact", "slide"):
        here, there = one.happened(kind), other.happened(kind)
        assert [e.name for e in here] == [e.name for e in there]
        np.testing.assert_allclose([e.time for e in here], [e.time for e in there], atol=1e-6)


def in_parts(hybrid, cuts, start, inputs, **options):
    """Final state, and what happened, of a run that ends and goes on at cuts."""
    log, state = [], start
    for a, b in pairwise(cuts):
        run = ks.simulate(hybrid, [a, b], state, inputs=inputs, **options)
        assert not run.message and run.final.time == b
        log, state = [*log, *run.log], run.final
    return run, [e for e in log if e.kind != "clock"]  # a clock at a cut breaks in no part


def assert_same_parts(hybrid, start, inputs, whole, cuts, **options):
    last, log = in_parts(hybrid, [whole.time[0], *cuts, whole.time[-1]], start, inputs, **options)
    once = whole.events
    assert [(e.kind, e.name) for e in log] == [(e.kind, e.name) for e in once]
    np.testing.assert_allclose([e.time for e in log], [e.time for e in once], atol=1e-9)
    assert apart(last, whole) < 1e-9
    for part in ("modes", "contacts", "armed"):
        np.testing.assert_array_equal(getattr(last.final, part), getattr(whole.final, part))


@pytest.mark.parametrize("laws", [("slip", "slip"), ("coulomb", "coulomb"), ("stick", "slip")])
@given(seed=st.integers(0, 10_000))
@FEW
@pytest.mark.filterwarnings(
    "ignore:the simulation of body. contacts .* no consistent sticking:UserWarning"
)
def test_a_body_in_parts(laws, seed):
    """Cut at random times and at times of events: the whole run to 1e-9, the same log.

    Bounces that rise no further than the hysteresis are known to that alone: none, by v_stop.
    """
    hybrid, (start, inputs) = replace(body(laws, 0.3), v_stop=0.02), thrown(seed)
    whole = ks.simulate(hybrid, [0.0, 1.2], start, inputs=inputs, **TIGHT)
    assume(not whole.message and len(whole.events) < 30)
    rng = np.random.default_rng(seed)
    there = [e.time for e in whole.events if e.kind != "slide"]
    cuts = sorted({*rng.uniform(0.01, 1.19, 2), *rng.choice(there, 2)} - {0.0})
    assert_same_parts(hybrid, start, inputs, whole, cuts, **TIGHT)


def test_a_body_in_parts_where_it_begins_to_slide():
    hybrid, (start, inputs) = body(("coulomb", "coulomb")), thrown(9)
    whole = ks.simulate(hybrid, [0.0, 1.2], start, inputs=inputs, **TIGHT)
    cuts = [e.time for e in whole.happened("slide")][:1]
    assert_same_parts(hybrid, start, inputs, whole, cuts, **TIGHT)


@given(st.integers(0, 10_000))
@FEW
def test_a_stimulated_knee_in_parts(seed):
    """Also at breaks of the clock, whose phase goes on, and at switches."""
    whole = kick([0.0, 0.8], **TIGHT)
    rng = np.random.default_rng(seed)
    cuts = {*rng.uniform(0.01, 0.79, 3), *rng.choice([e.time for e in whole.log], 2)}
    start = dict.fromkeys(knee().model.state_names, 0.0)
    assert_same_parts(knee(), start, {"quad0_u": STIMULATION}, whole, sorted(cuts), **TIGHT)


@pytest.mark.parametrize("laws", [("coulomb", "coulomb"), ("coulomb",) * 3, ("slip",) * 3])
@given(seed=st.integers(0, 10_000))
@FEW
def test_order_of_contacts(laws, seed):
    """Named from the other end: the same motion, also of three points in a line."""
    start, inputs = thrown(seed)
    one, other = (
        ks.simulate(body(laws, 0.3, backwards), [0.0, 1.0], start, inputs=inputs, **TIGHT)
        for backwards in (False, True)
    )
    assume(not one.message and len(one.events) < 40)
    assert apart(one, other) < 1e-9
    if len(laws) == 2:  # which of three in a line press is not determined
        assert sorted(happenings(one)) == sorted(happenings(other))


def test_equal_muscles_in_parallel():
    """Two of half the strength are one; so are three, with clocks 100 eps max(1, t) apart."""
    time, impulses = np.linspace(0.0, 1.0, 101), kh.train(0.1, 0.05, 16)
    one = kick(time, **TIGHT)
    for strengths in ((0.5, 0.5), (0.25, 0.25, 0.5)):
        for late in (0, 1):
            clocks = [CLOCK.signal(impulses, place=late * k) for k in range(len(strengths))]
            together = kick(time, clocks, strengths, **TIGHT)
            assert np.abs(together["theta"] - one["theta"]).max() < 1e-10
            total = sum(together[f"quad{k}_F"] for k in range(len(strengths)))
            assert np.abs(total - one["quad0_F"]).max() < 1e-8 * KNEE["F0"]
            assert len(together.happened("clock")) == len(one.happened("clock"))


@pytest.mark.parametrize("late", [0.0, 100.0, 3500.0])
def test_a_shift_of_one_clock(late):
    """By 100 eps max(1, t), early or late in the hour: nothing changes beyond 1e-10."""
    time = late + np.linspace(0.0, 0.5, 26)
    impulses = late + kh.train(0.05, 0.05, 8)
    one, other = (
        kick(
            time, [CLOCK.signal(impulses), CLOCK.signal(impulses, place=place)], (0.5, 0.5), **TIGHT
        )
        for place in (0, 1)
    )
    assert np.abs(one["theta"] - other["theta"]).max() < 1e-10
    assert happenings(one) == happenings(other)


# -- the compiler ---------------------------------------------------------------------------------


def several_runs():
    runs = [rock([0.0, 2.0], rtol=1e-11, atol=1e-12), kick([0.0, 0.6], rtol=1e-11, atol=1e-12)]
    for seed in range(3):
        start, inputs = thrown(seed)
        runs.append(
            ks.simulate(body(("coulomb", "slip"), 0.5), [0.0, 1.2], start, inputs=inputs, **TIGHT)
        )
    return runs


@pytest.fixture
def flags(monkeypatch):
    """Compiles models again, with further flags."""

    def use(*more):
        hybrid_run._compiled.cache_clear()
        monkeypatch.setattr(
            hybrid_run, "realise", lambda program, lanes: realise(program, lanes, more)
        )

    yield use
    hybrid_run._compiled.cache_clear()


def test_flags_of_the_compiler(flags):
    """The log is the same to the last bit; without fused products its order still is."""
    expected = several_runs()
    flags("-fno-tree-vectorize", "-funroll-loops", "-fno-gcse", "-fno-schedule-insns2")
    for ours, theirs in zip(several_runs(), expected, strict=True):
        assert happenings(ours) == happenings(theirs) and len(ours.log) > 5
        assert [e.time for e in ours.log] == [e.time for e in theirs.log]
        np.testing.assert_array_equal([e.rows for e in ours.log], [e.rows for e in theirs.log])
        np.testing.assert_array_equal(ours.final.x, theirs.final.x)
    flags("-ffp-contract=off")
    for ours, theirs in zip(several_runs(), expected, strict=True):
        assert happenings(ours) == happenings(theirs)
        np.testing.assert_allclose(
            [e.time for e in ours.log], [e.time for e in theirs.log], atol=1e-9
        )


# -- problems of contacts -------------------------------------------------------------------------


def contact_problem(seed, points, dependent=False):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(points, points + 2))
    if dependent:
        A[-1] = A[0]  # two points press in one line
    b = rng.normal(size=points)
    if dependent:
        b[-1] = b[0]
    return A @ A.T, b


def solved(W, b):
    n, none = len(b), np.zeros(len(b))
    _, force = solve_contacts([0] * n, [-1] * n, none, W, b, [1] * n, none, [1] * n)
    return np.asarray(force)


@given(st.integers(0, 100_000), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_complementarity(seed, points):
    """0 <= f, 0 <= W f + b, f (W f + b) = 0 to 1e-10; rows may come in any order."""
    W, b = contact_problem(seed, points)
    force = solved(W, b)
    motion, size = W @ force + b, max(1.0, np.abs(force).max())
    assert force.min() >= 0.0 and motion.min() >= -1e-10 * size
    assert np.abs(force * motion).max() <= 1e-10 * size**2
    order = np.random.default_rng(seed + 1).permutation(points)
    other = solved(W[np.ix_(order, order)], b[order])
    np.testing.assert_allclose(other, force[order], atol=1e-9 * size)


@given(st.integers(0, 100_000), st.integers(2, 6))
@settings(max_examples=100, deadline=None)
def test_points_that_depend_on_each_other(seed, points):
    """Two points in one line share their force evenly, whatever the order of rows."""
    W, b = contact_problem(seed, points, dependent=True)
    force = solved(W, b)
    size = max(1.0, np.abs(force).max())
    assert force.min() >= -1e-9 * size and (W @ force + b).min() >= -1e-8 * size
    order = np.random.default_rng(seed + 1).permutation(points)
    moved = W[np.ix_(order, order)]
    other = solved(moved, b[order])
    np.testing.assert_allclose(moved @ other, (W @ force)[order], atol=1e-8 * size)


# -- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            [
                (0, -15, 0),
                (20, 20, 0),
                (35, 20, -3500),
                (35 + 10 * 20 / 35, 0, -3500),
                (45, -15, 0),
            ],
        ),
        ({"ramp": "to_zero"}, [(0, -15, 0), (20, 20, 0), (35, 20, -2000), (45, -15, 0)]),
        (
            {"hold": True},
            [(20, 20, 0), (35, 20, -3500), (35 + 10 * 20 / 35, 0, -3500), (45, -15, 0)],
        ),
        ({"tau": 0.0}, [(0, 20, 0), (15, 20, -3500), (15 + 10 * 20 / 35, 0, -3500), (25, -15, 0)]),
        (
            {"tau1": 0.0},
            [(0, -15, 0), (20, 20, -3500), (20 + 10 * 20 / 35, 0, -3500), (30, -15, 0)],
        ),
        ({"tau2": 0.0}, [(0, -15, 0), (20, 20, 0), (35, -15, 0)]),
    ],
)
def test_table_of_the_clock(options, expected):
    """Begins [ms], rates [1/s] and slopes [1/s^2] after each of three impulses 50 ms apart."""
    numbers = {"tau": 0.02, "tau1": 0.015, "tau2": 0.01, "Up": 20.0, "Um": -15.0, **options}
    signal = kh.Calcium(**numbers).signal(kh.train(0.1, 0.05, 3))
    rows = [
        (0.1 + 0.05 * k + begin / 1000, value, bend)
        for k in range(3)
        for begin, value, bend in expected
    ]
    np.testing.assert_allclose(
        np.transpose([signal.begin, *signal.coefficients[:2]])[1:], rows, atol=1e-11
    )
    assert signal(0.0) == -15.0 and signal(1.0) == -15.0


def test_five_minutes_of_stimulation():
    """6,000 impulses: the last second is the second one; breaks are where they are computed."""
    time = np.append(np.linspace(50.0, 51.0, 101), np.linspace(298.0, 299.0, 101))
    signal = CLOCK.signal(kh.train(0.0, 0.05, 6_000))
    run = kick(np.append(0.0, time), [signal], rtol=1e-9, atol=1e-11)
    assert not run.message
    breaks = np.array([e.time for e in run.happened("clock")])
    begins = np.asarray(signal.begin)
    begins = begins[(begins > 0.0) & (begins < 299.0)]
    np.testing.assert_array_equal(breaks, begins)
    for name, size in (("theta", 1.0), ("quad0_F", 100.0)):
        early, late = run[name][1:102], run[name][102:]
        assert np.abs(late - early).max() < 1e-7 * size
    per_second = len(run.happened("event")) / 299.0
    assert per_second == pytest.approx(40.0, abs=0.5)  # two switches per impulse
