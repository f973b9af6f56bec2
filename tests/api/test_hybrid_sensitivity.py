"""Derivatives of hybrid runs across events, against closed forms and central differences."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym import hybrid as kh

TIGHT = {"rtol": 1e-12, "atol": 1e-13}
#: The same examples in each run: differences of motions that graze are no measure.
FEW = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much],
)
x, y, v, z, lam = ks.dynamicsymbols("x y v z lam")
g, m = sp.symbols("g m")


def extrapolated(f, h=1e-6):
    """f' at 0 by central differences of two steps; None if f is None on one side."""
    found = [(f(step), f(-step)) for step in (h, 0.5 * h)]
    if any(value is None for pair in found for value in pair):
        return None
    wide, narrow = (
        (a - b) / (2.0 * step) for (a, b), step in zip(found, (h, 0.5 * h), strict=True)
    )
    return (4.0 * narrow - wide) / 3.0


def close(ours, theirs, tolerance):
    """Equal to a share of the largest of all, at least 1."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    size = max(1.0, np.abs(theirs).max())
    np.testing.assert_allclose(ours, theirs, atol=tolerance * size, rtol=0)


# -- random directions of everything a run depends on ---------------------------------------------


class Case:
    """A run, and a random direction in which everything that is given changes."""

    def __init__(self, hybrid, time, initial, parameters, inputs, seed, options=TIGHT):
        self.hybrid, self.time, self.options = hybrid, time, options
        self.given = (initial, parameters, inputs)
        rng = np.random.default_rng(seed)
        self.change = (
            {k: rng.normal() for k in initial},
            {k: rng.normal() for k in parameters},
            {k: kh.SignalGradient(*rng.normal(size=(3, len(c.begin)))) for k, c in inputs.items()},
        )
        self.move_breaks_together()
        self.weights = {name: rng.normal(size=len(time)) for name in hybrid.model.state_names}

    def move_breaks_together(self):
        """What breaks at one time stays at one time: apart, there is a derivative per side."""
        first = {}
        for name, signal in self.given[2].items():
            for k, begin in enumerate(signal.begin.tolist()):
                moved = self.change[2][name].begin
                moved[k] = first.setdefault(begin, moved[k])

    def arguments(self, e=0.0):
        values = [
            {k: a + e * change[k] for k, a in group.items()}
            for group, change in zip(self.given[:2], self.change, strict=False)
        ]
        signals = {}
        for name, c in self.given[2].items():
            d = self.change[2][name]
            signals[name] = ks.Signal.pieces(
                c.begin + e * d.begin, c.value + e * d.value, c.slope + e * d.slope
            )
        return (self.hybrid, self.time, values[0], values[1], signals)

    def numbers(self, run):
        """States at nodes, then times of events, then states before and after."""
        names = self.hybrid.model.state_names
        return np.concatenate(
            [
                np.ravel([run[name] for name in names]),
                [e.time for e in run.log],
                np.ravel([e.rows for e in run.log]),
            ]
        )

    def check(self, nodes=1e-6, events=1e-5, step=1e-6):
        """Forward, adjoint and differences agree; None if these change the order of events."""
        s = ks.sensitivities(*self.arguments(), **self.options)
        assert not s.run.message
        order = [(e.kind, e.name) for e in s.run.log]

        def moved(e):
            run = ks.simulate(*self.arguments(e), **self.options)
            same = [(e.kind, e.name) for e in run.log] == order
            return self.numbers(run) if same else None

        theirs = extrapolated(moved, step)
        if theirs is None:
            return None
        forward = s.forward([*self.given[1], *self.given[0]], {"inputs": self.change[2]})
        along = np.array([*self.change[1].values(), *self.change[0].values(), 1.0])
        assert tuple(forward) == self.hybrid.model.state_names and 0 not in forward
        ours = self.along(forward, along)
        first = len(self.time) * len(self.weights)
        close(ours[:first], theirs[:first], nodes)
        if order:
            close(ours[first:], theirs[first:], events)
        self.compare_adjoint(s, ours, len(order))
        return s

    def along(self, forward, along):
        rows = [along @ forward[name] for name in self.hybrid.model.state_names]
        times = [time @ along for time, _, _ in forward.events]
        states = [[along @ before, along @ after] for _, before, after in forward.events]
        return np.concatenate([np.ravel(rows), times, np.ravel(states)])

    def compare_adjoint(self, s, ours, count):
        """The adjoint gives the same numbers: a weighted sum of nodes, the first and last event."""
        N, names = len(self.time), list(self.weights)
        rows = ours[: N * len(names)].reshape(len(names), N)
        total = sum(self.weights[name] @ row for name, row in zip(names, rows, strict=True))
        size = 1e-9 * max(1.0, np.abs(ours).max())
        assert abs(self.total(s.gradient(self.weights)) - total) < size * np.sqrt(rows.size)
        assert abs(self.total(s.gradient(names[0])) - rows[0, -1]) < size
        times = ours[rows.size : rows.size + count]
        states = ours[rows.size + count :].reshape(count, 2, len(names))
        for k in {0, count - 1} if count else ():
            event = s.run.log[k]
            assert abs(self.total(s.gradient("time", at=event)) - times[k]) < size
            for side, row in zip(("before", "after"), states[k], strict=True):
                assert abs(self.total(s.gradient(names[-1], event, side)) - row[-1]) < size

    def total(self, gradient):
        """A gradient along the direction."""
        parts = [gradient.initial[k] * d for k, d in self.change[0].items()]
        parts += [gradient.parameters[k] * d for k, d in self.change[1].items()]
        parts += [
            a @ b
            for k, d in self.change[2].items()
            for a, b in zip(gradient.inputs[k].parts, d.parts, strict=True)
        ]
        return sum(parts)


def signals(rng, names, end, size=1.0):
    """Random inputs of four pieces; the first two break together once."""
    found, shared = {}, rng.uniform(0.1 * end, 0.9 * end)
    for k, name in enumerate(names):
        own = [shared] if k < 2 else []
        breaks = np.sort([*own, *rng.uniform(0.05 * end, 0.95 * end, 3 - len(own))])
        found[name] = ks.Signal.pieces(
            np.append(-0.5, breaks), size * rng.normal(size=4), size * rng.normal(size=4)
        )
    return found


# -- closed forms ---------------------------------------------------------------------------------


def ball(restitution):
    equations = [y.diff(ks.t) - v, m * v.diff(ks.t) + m * g - lam]
    model = ks.Model("ball", [y, v], [lam], [g, m], equations, values={g: 9.81, m: 0.5})
    return kh.Hybrid(model, contacts=[kh.Contact("floor", y, lam, restitution=restitution)])


@cache
def ball_at(restitution):
    return ball(restitution)


@given(st.floats(0.05, 0.95), st.floats(0.5, 2.0))
@FEW
def test_bounces_in_closed_form(e, height):
    """Impact k: at (1 + 2 (e + ... + e^k)) sqrt(2 h/g), then the speed is e^(k+1) sqrt(2 g h)."""
    hybrid = ball(e)
    s = ks.sensitivities(hybrid, np.linspace(0.0, 1.5, 16), {y: height, v: 0.0}, **TIGHT)
    f = s.forward(["y", "g", "m"])
    for k, hit in enumerate(s.run.happened("impact")[:3]):
        first = np.sqrt(2.0 * height / 9.81)
        time = first * (1.0 + 2.0 * sum(e**j for j in range(1, k + 1)))
        speed = e ** (k + 1) * np.sqrt(2.0 * 9.81 * height)
        if speed < 0.1:  # near the end of all bounces
            break
        np.testing.assert_allclose(
            f.at(hit), [time / (2 * height), -time / (2 * 9.81), 0.0], atol=1e-8
        )
        np.testing.assert_allclose(
            f.at(hit, v), [speed / (2 * height), speed / (2 * 9.81), 0.0], atol=1e-8
        )
        np.testing.assert_allclose(f.at(hit, v, "before"), -f.at(hit, v) / e, atol=1e-8)
        np.testing.assert_allclose(f.at(hit, y), 0.0, atol=1e-10)


def test_ball_that_came_to_rest_depends_on_nothing():
    s = ks.sensitivities(ball_at(0.3), np.linspace(0.0, 2.0, 5), {y: 1.0, v: 0.2}, **TIGHT)
    assert s.run.events[-1].kind == "close"
    f = s.forward(["y", "v", "g"])
    np.testing.assert_allclose([f[y][:, -1], f[v][:, -1]], 0.0, atol=1e-8)
    assert abs(s.gradient(y).initial["y"]) < 1e-8


def thermostat():
    """Rises by `rate` while it is on, falls while it is off; between 0 and 1."""
    T, on, rate = ks.dynamicsymbols("T on rate")
    model = ks.Model("room", [T], [on, rate], [], [T.diff(ks.t) - rate * (2 * on - 1)])
    return kh.Hybrid(
        model,
        {on: 1.0},
        [
            kh.Event("warm", T - 1, 1, sets={on: 0}, when=on),
            kh.Event("cold", T, -1, sets={on: 1}, when=1 - on),
        ],
    )


def test_times_of_switches_in_closed_form():
    """rate = 1 + a from t = b on: the switches after it are at b + (k - b - T0)/(1 + a)."""
    T0, a, b = 0.25, 0.5, 0.5
    s = ks.sensitivities(
        thermostat(),
        np.linspace(0.0, 3.0, 31),
        {"T": T0},
        {},
        {"rate": ks.Signal.pieces([0.0, b], [1.0, 1.0 + a])},
        **TIGHT,
    )
    for k, event in enumerate(s.run.happened("event"), start=1):
        gradient = s.gradient("time", at=event)
        pace = gradient.inputs["rate"]
        assert event.time == pytest.approx(b + (k - b - T0) / (1 + a), abs=1e-12)
        np.testing.assert_allclose(gradient.initial["T"], -1 / (1 + a), rtol=1e-9)
        np.testing.assert_allclose(pace.begin, [0.0, 1 - 1 / (1 + a)], atol=1e-9)
        np.testing.assert_allclose(
            pace.value, [-b / (1 + a), -(k - b - T0) / (1 + a) ** 2], rtol=1e-9
        )


def test_events_at_nodes_of_the_grid():
    """Switches fall on nodes exactly; derivatives are those of the tent in all other nodes."""
    time = np.linspace(0.0, 3.0, 49)
    rate = {"rate": ks.Signal.pieces([0.0, 1.5], [1.0, 1.0])}
    s = ks.sensitivities(thermostat(), time, {"T": 0.25}, {}, rate, **TIGHT)
    assert [e.time for e in s.run.happened("event")] == pytest.approx([0.75, 1.75, 2.75], abs=1e-12)
    rising = ((time + 0.25) % 2.0 < 1.0 - 1e-6) | ((time + 0.25) % 2.0 > 2.0 - 1e-6)
    falling = ((time + 0.25) % 2.0 > 1.0 + 1e-6) & ((time + 0.25) % 2.0 < 2.0 - 1e-6)
    slope = s.forward(["T"])["T"][0]
    np.testing.assert_allclose(slope[rising & (abs(time - 1.75) > 1e-6)], 1.0, atol=1e-9)
    np.testing.assert_allclose(slope[falling], -1.0, atol=1e-9)
    weights = np.where(abs(np.diff(slope, prepend=1.0)) > 1.0, 0.0, 1.0)
    ours = s.gradient({"T": weights}).initial["T"]
    assert ours == pytest.approx(weights @ slope, abs=1e-9)


# -- random systems -------------------------------------------------------------------------------


@cache
def switched():
    """x' = (A + mode D) x + b u + c w (1 + sin 3 t); a line where x is sent back by a map that
    depends on inputs, and a curve that moves where the mode changes."""
    s = ks.dynamicsymbols("s0 s1")
    mode, u, w = ks.dynamicsymbols("mode u w")
    A, D, R = (sp.Matrix(2, 2, sp.symbols(f"{k}:4")) for k in "adr")
    b, c, line = (sp.Matrix(sp.symbols(f"{k}:2")) for k in ("b", "c", "line"))
    level, other, share = sp.symbols("level other share")
    S = sp.Matrix(s)
    rates = (A + mode * D) * S + b * u + c * w * (1 + sp.sin(3 * ks.t))
    back = R * S + share * sp.Matrix([w, u])
    guard = (line.T * S)[0] - level - share * u
    beyond = (line.T * back)[0] - level - share * u + sp.Rational(3, 10)
    reset = back - line * beyond / (line.T * line)[0]
    parameters = [*A, *D, *R, *b, *c, *line, level, other, share]
    model = ks.Model(
        "switched",
        s,
        [mode, u, w],
        parameters,
        [a.diff(ks.t) - e for a, e in zip(s, rates, strict=True)],
        outputs={f"of_{p}": p for p in parameters},
    )
    return kh.Hybrid(
        model,
        {mode: 0.0},
        [
            kh.Event(
                "back", guard, 1, sets={mode: 1 - mode}, resets=dict(zip(s, reset, strict=True))
            ),
            kh.Event("turn", s[0] * s[1] - other * sp.cos(ks.t), 0, sets={mode: 1 - mode}),
        ],
    )


def switched_case(seed, options=TIGHT):
    hybrid, rng = switched(), np.random.default_rng(seed)
    p = dict(zip(hybrid.model.parameter_names, rng.normal(size=21), strict=True))
    p |= {
        f"{name}{k}": share * p[f"{name}{k}"]
        for name, share in (("d", 0.5), ("r", 0.3))
        for k in range(4)
    }
    p |= {"a0": p["a0"] - 0.3, "a3": p["a3"] - 0.3, "a1": p["a1"] + 3.0, "a2": p["a2"] - 3.0}
    p |= {"level": abs(p["level"]) + 0.5, "share": 0.2 * p["share"]}
    start = dict(zip(("s0", "s1"), 0.1 * rng.normal(size=2), strict=True))
    inputs = signals(rng, ("u", "w"), 3.0)
    return Case(hybrid, np.linspace(0.0, 3.0, 13), start, p, inputs, seed + 1, options)


def resets_at_a_break(run):
    """Whether the jump of an input was followed by a reset."""
    return any(
        b.time - a.time < 1e-9 and b.name == "back" and a.kind == "clock"
        for a, b in zip(run.log, run.log[1:], strict=False)
    )


@given(st.integers(0, 10_000))
@FEW
def test_random_switched_systems(seed):
    """Resets with inputs, parameters and time; modes; guards that move; common breaks."""
    case = switched_case(seed)
    run = ks.simulate(*case.arguments(), **TIGHT)
    assume(not resets_at_a_break(run) and len(run.log) < 60)
    assume(case.check())


@given(st.integers(0, 10_000))
@settings(FEW, max_examples=4)
def test_random_switched_systems_by_runge_kutta(seed):
    """Derivatives are those of each step: differences know the steps to their accuracy."""
    case = switched_case(seed, {"method": "rk4", "substeps": 125})
    run = ks.simulate(*case.arguments(), **case.options)
    assume(not resets_at_a_break(run) and len(run.log) < 30)
    assume(case.check(nodes=1e-5, events=1e-4))


def test_reset_that_follows_the_jump_of_an_input():
    """The jump carries a guard across zero, and x becomes x u: u there is the new piece."""
    u = sp.Function("u")(ks.t)
    model = ks.Model("jump", [x, z], [u], [], [x.diff(ks.t) - 1 - u / 10, z.diff(ks.t) - x])
    hybrid = kh.Hybrid(model, events=[kh.Event("on", u - 0.5, 1, resets={x: x * u})])
    signal = ks.Signal.pieces([-0.5, 0.7], [0.0, 2.0], [0.1, 0.1])
    case = Case(hybrid, np.linspace(0.0, 2.0, 9), {"x": 0.3, "z": 0.0}, {}, {"u": signal}, 0)
    with pytest.raises(ValueError, match=r"'on' follows the break of an input at t = 0\.7 s"):
        case.check()


def test_reset_that_follows_a_mode_set_at_the_same_instant():
    n = sp.Function("n")(ks.t)
    model = ks.Model("gears", [x, z], [n], [], [x.diff(ks.t) - 1, z.diff(ks.t) - x + 0.1 * n])
    hybrid = kh.Hybrid(
        model,
        {n: 1},
        [
            kh.Event("gear", x - 1, 1, sets={n: 3}),
            kh.Event("kick", n - 2, 1, level=True, resets={z: z * n}, sets={n: 1.5}),
        ],
    )
    s = Case(hybrid, np.linspace(0.0, 2.0, 8), {"x": 0.0, "z": 0.2}, {}, {}, 0).check()
    assert s.forward(["z"])["z"][0, -1] == pytest.approx(3.0, rel=1e-9)


# -- contacts -------------------------------------------------------------------------------------


@cache
def body(laws, restitution, tilted=False):
    """A body in a plane with points that touch the ground, which may be tilted by `tilt`."""
    q = ks.dynamicsymbols("x z th vx vz w")
    pull, turn = ks.dynamicsymbols("pull turn")
    mass, inertia, tilt = sp.symbols("mass inertia tilt")
    parameters, inputs, contacts = [mass, inertia, g, *([tilt] if tilted else [])], [], []
    cos, sin = (sp.cos(tilt), sp.sin(tilt)) if tilted else (1, 0)
    total = sp.Matrix([pull, -mass * g, turn])
    for k, law in enumerate(laws):
        a, b = sp.symbols(f"a{k} b{k}")
        across = q[0] + sp.cos(q[2]) * a - sp.sin(q[2]) * b
        up = q[1] + sp.sin(q[2]) * a + sp.cos(q[2]) * b
        height, place = up * cos - across * sin, across * cos + up * sin
        normal, along = ks.dynamicsymbols(f"n{k} f{k}")
        total += sp.Matrix([height]).jacobian(q[:3]).T * normal
        rest = {}
        if law != "slip":
            total += sp.Matrix([place]).jacobian(q[:3]).T * along
            rest = {"place": place, "friction": along}
        if law == "coulomb":
            rest["friction_coefficient"] = 0.4
        contacts.append(kh.Contact(f"p{k}", height, normal, law, restitution=restitution, **rest))
        inputs += [normal] if law == "slip" else [normal, along]
        parameters += [a, b]
    dynamics = sp.diag(mass, mass, inertia) * sp.Matrix([u.diff(ks.t) for u in q[3:]]) - total
    kinematics = [a.diff(ks.t) - b for a, b in zip(q[:3], q[3:], strict=True)]
    model = ks.Model("body", q, [*inputs, pull, turn], parameters, [*kinematics, *dynamics])
    return kh.Hybrid(model, contacts=contacts)


def body_case(laws, restitution, seed, tilted=False, end=1.2):
    hybrid, rng = body(laws, restitution, tilted), np.random.default_rng(seed)
    typical = {
        "mass": 1.5,
        "inertia": 0.2,
        "g": 9.81,
        "tilt": 0.1,
        "a0": -0.4,
        "b0": -0.5,
        "a1": 0.4,
        "b1": -0.5,
        "a2": 0.1,
        "b2": -0.6,
    }
    p = {name: typical[name] * (1.0 + 0.2 * rng.normal()) for name in hybrid.model.parameter_names}
    start = dict(zip(hybrid.model.state_names, rng.normal(size=6), strict=True))
    start |= {"x": 0.0, "z": rng.uniform(0.9, 1.3), "th": 0.4 * start["th"], "w": 2.0 * start["w"]}
    inputs = signals(rng, ("pull", "turn"), end)
    return Case(hybrid, np.linspace(0.0, end, 7), start, p, inputs, seed + 1)


KINDS_OF_BODIES = [
    (("slip", "slip"), 0.5, False),
    (("coulomb", "coulomb"), 0.0, False),
    (("coulomb", "coulomb"), 1.0, False),
    (("slip", "coulomb"), 0.3, True),
    (("stick", "slip"), 0.7, False),
]


def test_last_bounces_of_a_turning_body():
    run = ks.simulate(*body_case(("slip", "slip"), 0.5, 175).arguments(), **TIGHT)
    assert not run.message


@pytest.mark.parametrize(("laws", "restitution", "tilted"), KINDS_OF_BODIES)
@given(seed=st.integers(0, 10_000))
@settings(FEW, max_examples=6)
@pytest.mark.filterwarnings("ignore:the simulation of body. .*:UserWarning")
def test_random_bouncing_bodies(laws, restitution, tilted, seed):
    """Impacts of one and two points, with and without friction; closing, releases, sliding."""
    case = body_case(laws, restitution, seed, tilted)
    run = ks.simulate(*case.arguments(), **TIGHT)
    # Bounces near v_stop are as short as the hysteresis of heights lets them be known
    assume(not run.message and sum(e.kind == "impact" for e in run.events) < 12)
    assume(case.check(nodes=2e-6, events=1e-4))


def slider():
    """A mass on a floor with friction, under a horizontal force."""
    s, h, vs, vh = ks.dynamicsymbols("s h vs vh")
    normal, along, pull = ks.dynamicsymbols("normal along pull")
    equations = [
        s.diff(ks.t) - vs,
        h.diff(ks.t) - vh,
        2 * vs.diff(ks.t) - along - pull,
        2 * vh.diff(ks.t) + 2 * 9.81 - normal,
    ]
    model = ks.Model("slider", [s, h, vs, vh], [normal, along, pull], [], equations)
    return kh.Hybrid(
        model,
        contacts=[kh.Contact("floor", h, normal, "coulomb", s, along, friction_coefficient=0.3)],
    )


def test_stick_and_slip():
    """It stops at v/(mu g), and starts again when the force is mu m g: both in closed form."""
    signal = ks.Signal.pieces([-1.0, 1.0, 2.5], [0.0, 0.0, 0.0], [0.0, 4.0, 0.0])
    rest = {"s": 0.0, "h": 0.0, "vs": 0.8, "vh": 0.0, "floor": True}
    s = ks.sensitivities(slider(), np.linspace(0.0, 3.0, 7), rest, {}, {"pull": signal}, **TIGHT)
    stops, starts = (
        s.run.happened("slide")[-3:-1]
        if len(s.run.happened("slide")) > 3
        else (s.run.happened("slide")[-2:])
    )
    begin = 1.0 + 0.3 * 2 * 9.81 / 4.0
    assert (stops.time, starts.time) == pytest.approx((0.8 / (0.3 * 9.81), begin), abs=1e-9)
    assert s.gradient("time", at=stops).initial["vs"] == pytest.approx(1 / (0.3 * 9.81), rel=1e-9)
    assert s.gradient("s", at=stops).initial["vs"] == pytest.approx(0.8 / (0.3 * 9.81), rel=1e-9)
    pull = s.gradient("time", at=starts).inputs["pull"]
    np.testing.assert_allclose(pull.begin, [0.0, 1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(pull.slope, [0.0, -(begin - 1.0) / 4.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(pull.value, [0.0, -1 / 4.0, 0.0], atol=1e-9)
    assert abs(s.gradient("time", at=starts).initial["vs"]) < 1e-12


# -- muscles --------------------------------------------------------------------------------------

CLOCK = kh.Calcium(0.02, 0.015, 0.01, 20.0, -15.0)
MUSCLE = {"F0": 1200.0, "k0": 3e4, "ks": 2e4, "Lc0": 0.1}


@cache
def knee(slack="error"):
    """A shank with an extensor whose numbers are parameters, and a stop of the joint."""
    theta, omega, stop = ks.dynamicsymbols("theta omega stop")
    F0, k0 = sp.symbols("F0 k0")
    quad = kh.FESMuscle("quad", -0.045 * omega, F0, k0, 2e4, 0.1, "input", slack=slack)
    torque = 0.045 * quad.force - 12.4 * sp.sin(theta) - 0.4 * omega - stop
    model = ks.Model(
        "knee",
        [theta, omega],
        [quad.force, stop],
        [],
        [theta.diff(ks.t) - omega, 0.44 * omega.diff(ks.t) - torque],
    )
    contact = kh.Contact("stop", 0.5 - theta, stop, restitution=0.2)
    event = kh.Event("half way", theta - sp.Rational(1, 4), 0)
    return kh.Hybrid(model, {}, [event], [contact], [quad]), quad


def knee_case(seed):
    """Eight impulses at random times, each with its share of fibres."""
    hybrid, _ = knee()
    rng = np.random.default_rng(seed)
    impulses = 0.05 + 0.05 * np.arange(8) + rng.uniform(0.0, 4e-3, 8)
    start = {"theta": 0.01, "omega": 0.1, "quad_kc": 100.0, "quad_F": 5.0}
    inputs = {
        "quad_u": CLOCK.signal(impulses),
        "quad_recruitment": ks.Signal.pieces(
            np.append(-0.5, impulses + 0.01), rng.uniform(0.4, 0.8, 9)
        ),
    }
    parameters = {"F0": 1200.0, "k0": 3e4}
    case = Case(hybrid, np.linspace(0.0, 0.6, 13), start, parameters, inputs, seed)
    moved = 1e-2 * rng.normal(size=8)  # of each impulse, with the five pieces that it starts
    case.change[2]["quad_u"] = kh.SignalGradient(
        np.append(0.0, np.repeat(moved, 5)), np.zeros(41), np.zeros(41)
    )
    d = case.change[2]["quad_recruitment"]
    case.change[2]["quad_recruitment"] = kh.SignalGradient(
        1e-2 * d.begin, 1e-2 * d.value, 0.0 * d.slope
    )
    return case


def test_knee_rests_at_its_stop_and_leaves_it():
    for seed in range(20):
        run = ks.simulate(*knee_case(seed).arguments(), **TIGHT)
        assert not run.message
        assert len(run.happened("release")) == len(run.happened("close")) > 0


@given(st.integers(0, 10_000))
@settings(FEW, max_examples=4)
def test_knee_with_a_stop(seed):
    """Numbers of the muscle, the recruitment and the time of each impulse; switches, bounces."""
    case = knee_case(seed)
    s = case.check(step=1e-4)  # forces are in hundreds of newtons
    assume(s)
    assert {e.name for e in s.run.happened("event")} >= {"quad shortens", "quad lengthens"}


def test_slack_tendon():
    """The force is 0 while the tendon hangs: a reset going in, a reset coming out."""
    length, rate = ks.dynamicsymbols("length rate")
    muscle = kh.FESMuscle("m", rate=rate, recruitment=0.3, slack="hold", **MUSCLE)
    model = ks.Model("held", [length], [rate], [], [length.diff(ks.t) - rate])
    signal = ks.Signal.pieces([-0.5, 0.1, 0.2], [0.0, -1.5, 0.5])
    start = {"length": 0.0, "m_kc": 0.0, "m_F": 0.0, "m_slack": 0.0}
    case = Case(
        kh.Hybrid(model, muscles=[muscle]),
        np.linspace(0.0, 0.5, 8),
        start,
        {},
        {"rate": signal, "m_u": ks.Signal.pieces([-1.0], [20.0])},
        3,
    )
    case.change[0].update(dict.fromkeys(("m_F", "m_slack"), 0.0), m_kc=1.0)
    s = case.check(nodes=1e-5, events=1e-5)
    assert s.run.happened("event", "m goes slack") and s.run.happened("event", "m is tight")


def test_synchronised_clocks_of_two_muscles():
    """Each gradient by the times of a clock is that of the muscle alone, in any order."""
    length, rate = ks.dynamicsymbols("length rate")
    signal = CLOCK.signal(kh.train(0.05, 0.05, 5))

    def gradient(names, of):
        muscles = [
            kh.FESMuscle(n, rate * (1.3 if n == "b" else 1), recruitment=0.3, **MUSCLE)
            for n in names
        ]
        model = ks.Model("held", [length], [rate], [], [length.diff(ks.t) - rate])
        start = {"length": 0.0, **{state: 0.0 for mu in muscles for state in mu.states}}
        inputs = {rate: 0.05, **{mu.clock: signal for mu in muscles}}
        s = ks.sensitivities(
            kh.Hybrid(model, muscles=muscles), [0.0, 0.3], start, None, inputs, **TIGHT
        )
        return s.gradient(f"{of}_F").inputs

    for of, other in (("a", "b"), ("b", "a")):
        alone = gradient((of,), of)[f"{of}_u"].begin
        for names in (("a", "b"), ("b", "a")):
            both = gradient(names, of)
            close(both[f"{of}_u"].begin, alone, 1e-9)
            close(both[f"{other}_u"].begin / np.abs(alone).max(), 0.0 * alone, 1e-9)


# -- what surrounds it ----------------------------------------------------------------------------


def test_the_run_is_that_of_simulate():
    """Bit for bit, over more steps than the tape has room for at first."""
    hybrid, quad = knee()
    inputs = {quad.clock: CLOCK.signal(kh.train(0.05, 0.05, 30)), "quad_recruitment": 0.5}
    start = {"theta": 0.0, "omega": 0.0, "quad_kc": 0.0, "quad_F": 0.0}
    arguments = (hybrid, np.linspace(0.0, 1.6, 17), start, {"F0": 1200.0, "k0": 3e4}, inputs)
    run = ks.simulate(*arguments, **TIGHT)
    s = ks.sensitivities(*arguments, **TIGHT)
    assert s.raw.work[0] > 1024
    for name in ("theta", "quad_F"):
        np.testing.assert_array_equal(s.run[name], run[name])
    assert [e.time for e in s.run.log] == [e.time for e in run.log]
    ends = s.forward(["theta", "F0"])
    for name in ("theta", "quad_F"):  # the shank rests at its stop: the first two are zero
        gradient = s.gradient(name)
        ours = [gradient.initial["theta"], gradient.parameters["F0"]]
        np.testing.assert_allclose(ours, ends[name][:, -1], rtol=1e-9, atol=1e-15)


def test_derivatives_of_a_run_that_goes_on():
    """From a state at which a contact presses, and after a stop."""
    hybrid = body(("coulomb", "coulomb"), 0.0)
    case = body_case(("coulomb", "coulomb"), 0.0, 4)
    half = ks.simulate(hybrid, np.linspace(0.0, 0.6, 4), *case.arguments()[2:], **TIGHT)
    rest = np.linspace(0.6, 1.2, 4)
    whole = ks.sensitivities(*case.arguments(), **TIGHT)
    first = ks.sensitivities(hybrid, np.linspace(0.0, 0.6, 4), *case.arguments()[2:], **TIGHT)
    second = ks.sensitivities(hybrid, rest, half.final, *case.arguments()[3:], **TIGHT)
    names = list(hybrid.model.state_names)

    def matrix(s):
        forward = s.forward(names)
        return np.array([forward[name][:, -1] for name in names])

    close(matrix(second) @ matrix(first), matrix(whole), 1e-8)


@pytest.mark.parametrize("method", ["dormand-prince", "rk4"])
def test_parabolas_move_with_their_begins(method):
    """Their curvature stays; at the begins between them the signal then jumps."""
    rng = np.random.default_rng(5)
    model = ks.Model("tank", [y], [v], [], [y.diff(ks.t) + y**2 - v])
    times, samples = np.array([-0.1, 0.7, 1.3, 2.1]), rng.normal(size=7)
    options = {"method": method, **(TIGHT if method == "dormand-prince" else {"substeps": 500})}

    def given(e=0.0, change=None):
        signal = ks.Signal.parabolas(times, samples)
        if change is not None:
            rows = signal.coefficients.copy()
            rows[:2] += e * np.array([change.value, change.slope])
            signal.begin, signal.coefficients = times + e * change.begin, rows
            signal.span = (-1.0, 3.0)
        return kh.Hybrid(model), [0.0, 0.5, 1.0, 2.0], {y: 0.4}, {}, {v: signal}

    s = ks.sensitivities(*given(), **options)
    change = kh.SignalGradient(*rng.normal(size=(3, 4)))
    runs = [ks.simulate(*given(e, change), **options) for e in (1e-5, -1e-5)]
    expected = (runs[0]["y"] - runs[1]["y"]) / 2e-5
    close(s.forward([], {"moved": {"v": change}})["y"][0], expected, 1e-7)
    parts = zip(s.gradient("y").inputs["v"].parts, change.parts, strict=True)
    close(sum(float(a @ b) for a, b in parts), expected[-1], 1e-7)
    cubic = {v: ks.Signal(times, samples[::2], "cubic")}
    s = ks.sensitivities(*given()[:-1], cubic, **options)
    with pytest.raises(ValueError, match="with respect to input v: the pieces of a cubic signal"):
        s.gradient("y").inputs["v"]
    with pytest.raises(ValueError, match="begins cannot change: the pieces of a cubic signal"):
        s.forward([], {"moved": {"v": change}})


def test_methods_without_sensitivities():
    model = ks.Model("tank", [y], [], [], [y.diff(ks.t) + y**2])
    for method in ("trapezoid", "backward-euler"):
        words = f"sensitivities for dormand-prince and rk4, not for {method}"
        with pytest.raises(ValueError, match=words):
            ks.sensitivities(model, [0.0, 1.0], {y: 1.0}, method=method)


def test_what_cannot_be_differentiated():
    time, start = [0.0, 1.0], {y: 1.0, v: 0.0}
    with pytest.raises(
        ValueError, match="sensitivities for dormand-prince and rk4, not for trapezoid"
    ):
        ks.sensitivities(ball_at(0.3), time, start, method="trapezoid")
    with pytest.raises(ValueError, match="sensitivities for release='force' only"):
        ks.sensitivities(replace(ball_at(0.3), release="height"), time, start)
    s = ks.sensitivities(ball_at(0.3), time, start)
    with pytest.raises(ValueError, match="wrt: q is no parameter and no state; there are g, m, y"):
        s.forward(["q"])
    with pytest.raises(ValueError, match="q is no state; there are y, v"):
        s.gradient("q")
    other = ks.simulate(ball_at(0.3), time, start).events[0]
    with pytest.raises(ValueError, match="impact floor' is nothing that happened in this run"):
        s.gradient("time", at=other)
    with pytest.raises(ValueError, match="nothing that happened in this run"):
        s.forward(["y"]).at(other)
    rate = {"rate": 1.0}
    s = ks.sensitivities(thermostat(), time, {"T": 0.25}, {}, rate)
    with pytest.raises(ValueError, match="variations: pace is no input that is given"):
        s.forward([], {"faster": {"pace": s.gradient("T").inputs["rate"]}})
