"""What a hybrid model or run is told that cannot be, and what chattering runs end with."""

import warnings

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.runtime.hybrid.failures import HYSTERESIS
from kinesym.symbolic.hybrid.model import LOW_BOUNCE

y, v, lam = ks.dynamicsymbols("y v lam")
q, w, n = ks.dynamicsymbols("q w n")
g, m = sp.symbols("g m")
NUMBERS = {"F0": 1200.0, "k0": 3e4, "ks": 2e4, "Lc0": 0.1}
CLOCK = {"tau": 0.02, "tau1": 0.015, "tau2": 0.01, "Up": 20.0, "Um": -15.0}
TIME = np.linspace(0.0, 1.0, 11)


def ball(restitution=0.5, name="heel", **more):
    equations = [y.diff(ks.t) - v, m * v.diff(ks.t) + m * g - lam]
    model = ks.Model("ball", [y, v], [lam], [g, m], equations, values={g: 9.81, m: 0.5})
    return kh.Hybrid(model, contacts=[kh.Contact(name, y, lam, restitution=restitution)], **more)


def falling(events=(), contacts=()):
    """q falls by 1 in a second, from anywhere."""
    model = ks.Model("falling", [q], [], [], [q.diff(ks.t) + 1])
    return kh.Hybrid(model, events=events, contacts=contacts)


def rod(law, place=(-1.0, -1.0), mu=0.3, inertia=0.1):
    """A body of 1 kg in a plane with a point that touches the ground, pulled at its centre."""
    c = ks.dynamicsymbols("x z th vx vz w")
    normal, along, pull = ks.dynamicsymbols("normal along pull")
    a, b = place
    across = c[0] + sp.cos(c[2]) * a - sp.sin(c[2]) * b
    up = c[1] + sp.sin(c[2]) * a + sp.cos(c[2]) * b
    total = sp.Matrix([pull, -9.81, 0]) + sp.Matrix([up]).jacobian(c[:3]).T * normal
    total += sp.Matrix([across]).jacobian(c[:3]).T * along
    rates = sp.diag(1, 1, inertia) * sp.Matrix([u.diff(ks.t) for u in c[3:]])
    model = ks.Model(
        "rod",
        c,
        [normal, along, pull],
        [],
        [*(p.diff(ks.t) - u for p, u in zip(c[:3], c[3:], strict=True)), *(rates - total)],
    )
    return kh.Hybrid(model, contacts=[kh.Contact("tip", up, normal, law, across, along, mu)])


def test_without_explicit_rates():
    """Rates that the equations do not give are refused, with the remedy."""
    model = ks.Model("massless", [q, w], [], [], [q.diff(ks.t) + w.diff(ks.t) - 1, q - w])
    with pytest.raises(
        ValueError, match="model massless has no explicit derivatives, which events"
    ):
        ks.simulate(kh.Hybrid(model), TIME, {q: 0.0, w: 0.0})


REST = {"x": 0.0, "z": 1.0, "th": 0.0, "vx": 0.0, "vz": 0.0, "w": 0.0}


def ended(hybrid, time, initial, *args, **options):
    """A run that is expected to end early, with a warning of the same words; its message."""
    with pytest.warns(UserWarning) as caught:
        run = ks.simulate(hybrid, time, initial, *args, **options)
    assert run.message and any(run.message in str(w.message) for w in caught)
    assert str(run.events) and repr(run)
    assert run.final.time < time[-1]
    return run.message


# -- starts ---------------------------------------------------------------------------------------


def test_start_below_the_ground():
    with pytest.raises(ValueError, match=r"contact 'heel' starts 0\.0032 m below the ground"):
        ks.simulate(ball(), TIME, {y: -3.2e-3, v: 0.0})
    ks.simulate(ball(), TIME, {y: -1e-8, v: 0.0})  # at the ground to rounding


@pytest.mark.parametrize("pressing", [False, True])
def test_start_on_the_way_down_is_an_impact(pressing):
    run = ks.simulate(ball(0.5), [0.0, 0.05], {y: 0.0, v: -2.0, "heel": pressing})
    first = run.events[0]
    assert (first.kind, first.name, first.time) == ("impact", "heel", 0.0)
    assert (first.before["v"], first.after["v"]) == (-2.0, 1.0)
    assert run["v"][0] == 1.0 and not run.message  # a node shows the state after an event


def test_start_that_presses_above_the_ground():
    with pytest.raises(ValueError, match=r"'heel' is declared active but is 0\.012 m above"):
        ks.simulate(ball(), TIME, {y: 0.012, v: 0.0, "heel": True})


def test_start_that_presses_and_moves_up_is_a_release():
    run = ks.simulate(ball(), [0.0, 0.05], {y: 0.0, v: 1.0, "heel": True})
    assert [(e.kind, e.time) for e in run.events] == [("release", 0.0)]
    assert run["y"][-1] == pytest.approx(0.05 - 9.81 / 2 * 0.05**2, abs=1e-9)


def test_starts_and_options_of_the_wrong_kind():
    start = {y: 1.0, v: 0.0}
    for options, words in (
        ({"rtol": 0.0}, "rtol must be positive, got 0"),
        ({"atol": -1.0}, "atol must be positive, got -1"),
        ({"method": "euler"}, "method is one of dormand-prince, rk4"),
        ({"substeps": 0, "method": "rk4"}, "substeps must be at least 1 and whole, got 0"),
        ({"parameters": {g: np.nan}}, "the parameter g is nan, not a finite number"),
        ({"parameters": {"k": 1.0}}, "parameters: k is unknown"),
        ({"inputs": {"lam": 1.0}}, "inputs: lam is unknown"),
    ):
        with pytest.raises(ValueError, match=words):
            ks.simulate(ball(), TIME, start, **options)
    for options, words in (
        ({"v_stop": np.nan}, "v_stop of ball must be positive, got nan"),
        ({"per_second": 0}, "per_second of ball must be at least 1 and whole, got 0"),
        ({"release": "lambda"}, "release of ball is one of force, height, got 'lambda'"),
    ):
        with pytest.raises(ValueError, match=words):
            ball(**options)
    with pytest.raises(ValueError, match="initial: toe is unknown"):
        ks.simulate(ball(), TIME, {**start, "toe": True})
    with pytest.raises(ValueError, match="initial heel says whether the contact presses at the"):
        ks.simulate(ball(), TIME, {**start, "heel": 1.0})
    with pytest.raises(ValueError, match="value of state y is nan, not a finite number"):
        ks.simulate(ball(), TIME, {y: np.nan, v: 0.0})
    with pytest.raises(ValueError, match="time must increase; step 0 goes from 1 to 0"):
        ks.simulate(ball(), [1.0, 0.0], start)


def test_states_to_go_on_from_that_do_not_fit():
    final = ks.simulate(ball(), TIME, {y: 1.0, v: 0.0}).final
    with pytest.raises(ValueError, match="the grid begins at 0 s, the state to go on from is at 1"):
        ks.simulate(ball(), TIME, final)
    with pytest.raises(ValueError, match="has 2 states, rod has 6; it belongs to another model"):
        ks.simulate(rod("stick"), TIME + 1.0, final, inputs={"pull": 0.0})


# -- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf])
def test_restitution(value):
    with pytest.raises(ValueError, match="'heel': restitution must be "):
        kh.Contact("heel", y, lam, restitution=value)


@pytest.mark.parametrize("value", [-0.1, np.nan])
def test_friction_coefficient(value):
    with pytest.raises(ValueError, match="'toe': the friction coefficient must "):
        kh.Contact("toe", y, lam, "coulomb", q, n, friction_coefficient=value)


def test_models_that_cannot_be():
    model, contacts = ball().model, ball().contacts
    other = kh.Contact("toe", y - 1, lam)
    push = ks.Model("push", [y], [lam, n], [], [y.diff(ks.t) - lam - n])
    for words, make in {
        "law is one of slip, stick, coulomb, got 'glue'": lambda: kh.Contact("a", y, lam, "glue"),
        "direction is -1, 0 or 1, got 2": lambda: kh.Event("a", y, 2),
        "scale must be positive, got 0": lambda: kh.Event("a", y, scale=0.0),
        "level needs one direction, -1 or 1": lambda: kh.Event("a", y, 0, level=True),
        "the guard is no expression": lambda: kh.Event("a", y > 0),
        "q is no input of ball": lambda: kh.Hybrid(model, {"q": 1.0}),
        "lam is a mode or the force of two": lambda: kh.Hybrid(model, {lam: 1.0}, (), contacts),
        "lam is a mode or the force": lambda: kh.Hybrid(model, contacts=[*contacts, other]),
        "two events or contacts are called 'heel'": lambda: kh.Hybrid(
            model, events=[kh.Event("heel", v)], contacts=contacts
        ),
        "'a' sets m, which is no mode": lambda: kh.Hybrid(
            model, events=[kh.Event("a", y, sets={m: 1})]
        ),
        r"height depends on n\(t\), which is no state": lambda: kh.Hybrid(
            push, contacts=[kh.Contact("a", y - n, lam)]
        ),
        "its height depends on t": lambda: kh.Hybrid(
            model, contacts=[kh.Contact("a", y - ks.t, lam)]
        ),
    }.items():
        with pytest.raises(ValueError, match=words):
            make()


def test_height_that_moves_behind_an_intermediate():
    """What carries the ground would have to be a state: its speed counts in an impact."""
    lift, place = sp.Function("lift")(ks.t), sp.Symbol("place")
    model = ks.Model(
        "lift",
        [y, v],
        [lam, lift],
        [],
        [y.diff(ks.t) - v, v.diff(ks.t) + 9.81 - lam + 0.1 * place],
        intermediates=[(place, y - lift)],
    )
    with pytest.raises(ValueError, match="height depends on lift"):
        kh.Hybrid(model, contacts=[kh.Contact("floor", place, lam)])


def test_more_contacts_than_there_is_room_for():
    """Eight, as two feet in space have; one more is refused, not written beside the array."""

    def many(count):
        a, b, f = (ks.dynamicsymbols(f"{k}:{count}") for k in "abf")
        equations = [
            *(p.diff(ks.t) - u for p, u in zip(a, b, strict=True)),
            *(u.diff(ks.t) + 9.81 - force for u, force in zip(b, f, strict=True)),
        ]
        model = ks.Model("many", [*a, *b], f, [], equations)
        return kh.Hybrid(
            model, contacts=[kh.Contact(f"c{k}", a[k], f[k], restitution=0.3) for k in range(count)]
        )

    hybrid = many(8)
    start = {
        name: 0.1 * (1 + k % 8) if name[0] == "a" else 0.0
        for k, name in enumerate(hybrid.model.state_names)
    }
    run = ks.simulate(hybrid, [0.0, 0.6], start)
    first = [run.happened("impact", f"c{k}")[0].time for k in range(8)]
    np.testing.assert_allclose(first, np.sqrt(0.2 * np.arange(1, 9) / 9.81), atol=1e-8)
    with pytest.raises(ValueError, match="8 contacts"):
        many(9)


# -- muscles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["F0", "k0", "ks", "Lc0"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_numbers_of_muscles(key, value):
    with pytest.raises(ValueError, match=f"'quad': {key} (must be positive, got|contains NaN)"):
        kh.FESMuscle("quad", 0, **{**NUMBERS, key: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_recruitment(value):
    with pytest.raises(ValueError, match=r"'quad': recruitment (must be within|contains NaN)"):
        kh.FESMuscle("quad", 0, **NUMBERS, recruitment=value)


def held(rate=0.0, **numbers):
    """A muscle whose ends move apart at a rate."""
    length = sp.Function("length")(ks.t)
    muscle = kh.FESMuscle("quad", sp.S(rate), **{**NUMBERS, "recruitment": 0.3, **numbers})
    model = ks.Model(
        "held",
        [length],
        [muscle.force],
        [],
        [length.diff(ks.t) - rate - 0 * muscle.force - 1e-30 * muscle.force],
    )
    return kh.Hybrid(model, muscles=[muscle])


def test_numbers_of_muscles_that_are_parameters():
    """Values that come with a run are checked as those of the model are."""
    F0, k0, tendon, L = sp.symbols("F0 k0 tendon L")
    hybrid = held(F0=F0, k0=k0, ks=tendon, Lc0=L, recruitment="input")
    values = {F0: 1200.0, k0: 3e4, tendon: 2e4, L: 0.1}
    start = {"length": 0.0, "quad_kc": 0.0, "quad_F": 0.0}
    inputs = {"quad_u": 20.0, "quad_recruitment": 0.3}
    ks.simulate(hybrid, TIME, start, values, inputs)
    for symbol, name in ((F0, "F0"), (k0, "k0"), (tendon, "ks"), (L, "Lc0")):
        with pytest.raises(ValueError, match=f"muscle 'quad': {name} must be positive, got -5"):
            ks.simulate(hybrid, TIME, start, {**values, symbol: -5.0}, inputs)
    outside = (1.5, ks.Signal.pieces([0.0, 0.5], [0.2, 0.4], [0.0, -1.0]))
    for signal, got in zip(outside, ("1.5", "-0.1"), strict=True):
        with pytest.raises(ValueError, match=rf"recruitment must be within 0 \.\.\. 1, got {got}"):
            ks.simulate(hybrid, TIME, start, values, {**inputs, "quad_recruitment": signal})


def test_tendons_that_are_too_soft():
    """A warning when the model is made; a message with the numbers when a stretch comes to it."""
    with pytest.warns(UserWarning, match="'quad': ks = 100 N/m may lose uniqueness .* needs more"):
        soft = held(2.0, ks=100.0)
    start = {"length": 0.0, "quad_kc": 500.0, "quad_F": 50.0}
    said = ended(soft, TIME, start, inputs={"quad_u": 0.0})
    assert "quad: the force reaches (kc + ks) Lc0" in said and "no unique solution" in said
    assert "at t = 0.0058" in said and "quad_F = 48.58" in said and "quad_kc = 385.8" in said
    said = ended(soft, TIME, {**start, "quad_kc": 50.0, "quad_F": 40.0}, inputs={"quad_u": -5.0})
    assert "at t = 0 s" in said and "quad_F = 40" in said


def test_tendon_that_would_push():
    hybrid = held(sp.Float(-2.0))
    start = {"length": 0.0, "quad_kc": 0.0, "quad_F": 0.0}
    said = ended(hybrid, TIME, start, inputs={"quad_u": 20.0})
    assert "quad: the tendon is slack, it cannot push; slack='hold' goes on" in said


def test_a_muscle_at_rest_does_not_chatter():
    """b is zero throughout: without hysteresis each rounding would be a switch."""
    run = ks.simulate(
        held(), TIME, {"length": 0.0, "quad_kc": 0.0, "quad_F": 0.0}, inputs={"quad_u": -15.0}
    )
    assert not run.events and not run["quad_F"].any()


# -- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tau", -1e-3),
        ("tau1", -1e-3),
        ("tau2", -1e-3),
        ("tau", np.nan),
        ("tau2", np.inf),
        ("Up", 0.0),
        ("Up", -20.0),
        ("Up", np.inf),
        ("Um", 0.0),
        ("Um", 15.0),
        ("Um", -np.inf),
    ],
)
def test_numbers_of_clocks(key, value):
    sign = {"Up": "positive", "Um": "negative"}.get(key, "not be negative")
    with pytest.raises(ValueError, match=rf"{key} .*({sign}|finite).*, got {value}"):
        kh.Calcium(**{**CLOCK, key: value})


def test_impulses():
    clock = kh.Calcium(**CLOCK)
    with pytest.raises(
        ValueError, match=r"impulses of a train must increase; 0\.05 s comes after 0\.1 s"
    ):
        clock.signal([0.0, 0.1, 0.05])
    with pytest.raises(ValueError, match="impulses of a train must be finite, number 1 is nan"):
        clock.signal([0.1, np.nan])
    for none in ([], 0.1, [[0.1, 0.2]]):
        with pytest.raises(ValueError, match=r"impulses of a train must be \(B,\)"):
            clock.signal(none)
    for words, *given in (
        ("period .* positive", 0.0, -0.05, 3),
        ("period", 0.0, 0.0, 3),
        ("impulses .* at least 1", 0.0, 0.05, 0),
        ("start", np.nan, 0.05, 3),
    ):
        with pytest.raises(ValueError, match=words):
            kh.train(*given)


def test_impulses_that_come_too_soon():
    """An error while none can act, a warning while one cuts another; held clocks let all act."""
    clock = kh.Calcium(**CLOCK)
    with pytest.raises(ValueError, match=r"0\.02 s apart come before the delay of 0\.02 s is over"):
        clock.signal(kh.train(0.0, 0.02, 3))
    with pytest.warns(UserWarning, match=r"impulses 0\.03 s apart cut the pulse before them"):
        clock.signal(kh.train(0.0, 0.03, 3))
    with pytest.warns(UserWarning, match="cut the pulse before them"):
        signal = kh.Calcium(**CLOCK, hold=True).signal(kh.train(0.0, 0.012, 3))
    assert [
        t for t, u in zip(signal.begin, signal.coefficients[0], strict=True) if u == 20.0
    ] == pytest.approx([0.02, 0.032, 0.044, 0.059])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clock.signal(kh.train(0.0, 0.046, 3))


# -- runs that end --------------------------------------------------------------------------------


def test_sticking_without_a_solution():
    """Pulled towards its tip: sticking needs a force that pulls, opening lets the tip sink."""
    for pull in (100.0, -100.0):
        run = (rod("stick"), [0.0, 0.1], {**REST, "tip": True})
        options = {"inputs": {"pull": pull}}
        if pull < 0.0:
            assert not ks.simulate(*run, **options).message
        else:
            said = ended(*run, **options)
            assert said.startswith("contacts tip: no consistent sticking state at t = 0 s")
            assert "'coulomb' with a friction_coefficient" in said
            assert not ks.simulate(rod("coulomb"), *run[1:], **options).message


def test_sticking_that_fails_on_the_way():
    """It presses at first; the pull grows."""
    signal = ks.Signal.pieces([0.0], [0.0], [400.0])
    said = ended(rod("stick"), [0.0, 0.5], {**REST, "tip": True}, inputs={"pull": signal})
    assert said.startswith("contacts tip: no consistent sticking state at t = 0.0")


def test_touch_that_cannot_stick():
    start = {**REST, "z": 1.001, "vz": -0.5, "vx": 10.0}
    said = ended(rod("stick"), [0.0, 0.1], start, inputs={"pull": 0.0})
    assert "no consistent sticking state at t = 0.00196" in said


def test_friction_that_jams():
    """Painlevé's rod: with this much friction sliding towards the tip has no solution."""
    jam = rod("coulomb", (-0.5, -1.0), mu=2.5, inertia=0.01)
    start, options = {**REST, "vx": -1.0, "tip": True}, {"inputs": {"pull": 0.0}}
    said = ended(jam, [0.0, 0.1], start, **options)
    assert said.startswith("contacts tip: ") and "friction" in said
    assert not ks.simulate(jam, [0.0, 0.1], {**start, "vx": 1.0}, **options).message


def test_forces_that_cannot_hold():
    """A force that acts along the ground, not along the height: rows of zero."""
    model = ks.Model("wrong", [q, w], [n], [], [q.diff(ks.t) - w, w.diff(ks.t) + 1 + n])
    heel = kh.Contact("heel", q, n)
    said = ended(kh.Hybrid(model, contacts=[heel]), [0.0, 2.0], {q: 1.0, w: 0.0})
    assert said.startswith("contacts heel: no forces") and "at t = 1.4142" in said
    assert "depend on each other, or the mass matrix is singular" in said
    massless = ks.Model("massless", [q, w], [n], [], [q.diff(ks.t) - w, w + 1 - n])
    with pytest.raises(ValueError, match=r"state w has no derivative .* algebraic or singular"):
        ks.simulate(kh.Hybrid(massless, contacts=[heel]), TIME, {q: 1.0, w: 0.0})


def test_too_many_impacts():
    """Nearly elastic bounces that get too frequent: the last twenty, and what helps."""
    said = ended(
        ball(0.9, per_second=30, v_stop=5.4e-4), np.linspace(0.0, 9.0, 4), {y: 1.0, v: 0.0}
    )
    assert said.startswith("too many events at t = ")
    assert "raise v_stop, or set restitution 0" in said
    last = said.split("The last: ")[1].split("; ")
    assert len(last) == 20 and all("impact heel" in event for event in last)


def test_bounces_too_low_to_be_told_apart():
    """They would rise less than the heights that count as the ground: refused; the limit does."""
    start = (np.linspace(0.0, 9.0, 400), {y: 1.0, v: 0.0})
    assert LOW_BOUNCE**2 / (2.0 * 9.81) < HYSTERESIS < (1.01 * LOW_BOUNCE) ** 2 / (2.0 * 9.81)
    for restitution in (0.4, 0.5, 0.6):
        with pytest.raises(ValueError, match=r"v_stop of ball must be at least 0\.00054 m/s where"):
            ball(restitution, v_stop=1e-6)
        assert not ks.simulate(ball(restitution, v_stop=5.4e-4), *start).message
    ball(0.0, v_stop=1e-6)  # nothing bounces


def relay(scale):
    """x moves towards 0 from both sides: the hysteresis alone keeps the switches apart."""
    on = sp.Function("on")(ks.t)
    model = ks.Model("relay", [q], [on], [], [q.diff(ks.t) - on])
    return kh.Hybrid(
        model,
        {on: -1.0},
        [
            kh.Event("low", q, -1, scale, sets={on: 1}, when=-on, level=True),
            kh.Event("high", q, 1, scale, sets={on: -1}, when=on, level=True),
        ],
    )


def test_switches_without_and_with_hysteresis():
    """As wide as sqrt(eps) of the scale: 1000 switches in no time, or one per 2 h as computed."""
    said = ended(relay(1.0), TIME, {q: 0.1})
    assert said.startswith("too many events at t = 0.1000") and "event low" in said
    assert "restitution" not in said and "scale" in said
    half = 0.01
    run = ks.simulate(relay(half * 2.0**26), TIME, {q: 0.1})
    times = [e.time for e in run.happened("event")]
    np.testing.assert_allclose(times, 0.1 + half * (1.0 + 2.0 * np.arange(len(times))), atol=1e-9)
    assert len(times) == 45 and not run.message


def test_a_level_event_that_only_counts():
    count = sp.Function("count")(ks.t)
    model = ks.Model("falls", [q, count], [], [], [q.diff(ks.t) + 1, count.diff(ks.t) + 0 * q])
    with pytest.raises(ValueError, match="a level that sets no mode would happen again and again"):
        kh.Event("low", q - 0.5, level=True, resets={count: count + 1})
    low = kh.Event("low", q - 0.5, resets={count: count + 1})
    run = ks.simulate(kh.Hybrid(model, events=[low]), TIME, {q: 1.0, count: 0.0})
    assert len(run.events) == 1 and run["count"][-1] == 1.0


# -- no numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dormand-prince", "rk4", "trapezoid"])
def test_rates_that_are_no_number(method):
    """q' = -sqrt(q) arrives at 0 at t = 2, beyond which there is no root."""
    model = ks.Model("root", [q], [], [], [q.diff(ks.t) + sp.sqrt(q)])
    said = ended(kh.Hybrid(model), np.linspace(0.0, 3.0, 31), {q: 1.0}, method=method)
    assert said.startswith("no finite number at t = ") and "the rate of q" in said
    assert "there q = " in said
    with pytest.raises(ValueError, match="no finite number at the start, t = 0 s: the rate of q"):
        ks.simulate(kh.Hybrid(model), TIME, {q: -1.0})


def test_guards_and_resets_that_are_no_number():
    sixth = kh.Event("odd", sp.sqrt(q - 0.5) + 1)
    said = ended(falling([sixth]), np.linspace(0.0, 3.0, 31), {q: 1.0})
    assert said.startswith("no finite number at t = 0.") and "the guard of odd" in said
    with pytest.raises(ValueError, match="t = 0 s: the guard of odd"):
        ks.simulate(falling([sixth]), TIME, {q: 0.0})
    reset = kh.Event("odd", q - 0.5, resets={q: sp.sqrt(q - 1)})
    said = ended(falling([reset]), np.linspace(0.0, 3.0, 31), {q: 1.0})
    assert "at t = 0.5 s: the value to which odd" in said and "there q = 0.5" in said
    mode = sp.Function("mode")(ks.t)
    model = ks.Model("set", [q], [mode], [], [q.diff(ks.t) + 1 + mode])
    sets = kh.Event("odd", q - 0.5, sets={mode: sp.sqrt(q - 1)})
    said = ended(kh.Hybrid(model, {mode: 0.0}, [sets]), np.linspace(0.0, 3.0, 31), {q: 1.0})
    assert "at t = 0.5 s: the value to which odd" in said and "mode" in said


def test_heights_that_are_no_number():
    model = ks.Model("falls", [q, w], [n], [], [q.diff(ks.t) - w, w.diff(ks.t) + 1 - n])
    hybrid = kh.Hybrid(model, contacts=[kh.Contact("toe", sp.sqrt(q - 0.5) + 0.1, n)])
    said = ended(hybrid, np.linspace(0.0, 3.0, 31), {q: 1.0, w: 0.0})
    assert said.startswith("no finite number at t = ") and "the height of toe" in said
    with pytest.raises(ValueError, match="t = 0 s: the height of toe"):
        ks.simulate(hybrid, TIME, {q: 0.4, w: 0.0})


def test_runs_that_end_at_their_start_can_be_looked_at(tmp_path):
    """An event that stops at once: no node is reached."""
    at_once = kh.Event("low", y - 2, level=True, stop=True)
    run = ks.simulate(ball(events=[at_once]), TIME, {y: 1.0, v: 0.0})
    assert run.message.startswith("stopped at t = 0 s by low") and len(run.time) == 0
    assert "ball" in repr(run) and run.pressing("heel") == []
    run.plot_modes()
    run.save(tmp_path / "run.nc")
    assert ks.Trajectory.load(tmp_path / "run.nc").message == run.message
