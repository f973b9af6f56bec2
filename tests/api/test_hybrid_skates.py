"""Contacts that hold a velocity, not a place: a skate that lands, turns on ice and is lifted."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.hybrid import Contact, Hybrid

x, y, z, heading, vx, vy, vz, w = ks.dynamicsymbols("x y z heading vx vy vz w")
normal, across, lift = ks.dynamicsymbols("normal across lift")
MASS, G, HEIGHT, SPEED, TURN = 60.0, 9.81, 0.1, 5.0, 0.8
FALL = np.sqrt(2.0 * HEIGHT / G)
UP = 1.2  # s: then it is lifted
START = {"z": HEIGHT, "vx": SPEED, "w": TURN}

m = sp.Symbol("m")
sideways = -vx * sp.sin(heading) + vy * sp.cos(heading)
body = ks.Model(
    "skate",
    [x, y, z, heading, vx, vy, vz, w],
    [normal, across, lift],
    [m],
    [
        *(q.diff(ks.t) - u for q, u in ((x, vx), (y, vy), (z, vz), (heading, w))),
        m * vx.diff(ks.t) + across * sp.sin(heading),
        m * vy.diff(ks.t) - across * sp.cos(heading),
        m * vz.diff(ks.t) - normal - lift + m * G,
        w.diff(ks.t),
    ],
    values={m: MASS},
)


def skate(law="stick", **more):
    contact = Contact("blade", z, normal, law, speed=sideways, friction=across, **more)
    return Hybrid(body, contacts=[contact])


@pytest.fixture(scope="module")
def blade():
    return skate()


def lifted(time):
    """Held from `UP` on: twice the weight."""
    return ks.Signal(time, np.where(time < UP, 0.0, 2.0 * MASS * G), between="held")


def start(**changes):
    return dict.fromkeys(body.state_names, 0.0) | START | changes


def test_a_skate_lands_turns_and_is_lifted(blade):
    """The blade takes the velocity across it away where it lands; on the ice the speed stays, on a
    circle of the radius v / w, held by m v w; lifted, it goes straight on, turning in the air."""
    time = np.linspace(0.0, 2.0, 201)
    run = ks.simulate(blade, time, start(), inputs={lift: lifted(time)})
    assert run.pressing("blade") == [pytest.approx((FALL, UP), abs=1e-9)]
    along = SPEED * np.cos(TURN * FALL)  # it has turned in the air, too
    on_ice = (time > FALL) & (time < UP)
    angle = TURN * time
    for name, shape in (("vx", np.cos), ("vy", np.sin)):
        np.testing.assert_allclose(run[name][time < FALL], SPEED * (name == "vx"), atol=1e-12)
        np.testing.assert_allclose(run[name][on_ice], along * shape(angle[on_ice]), atol=1e-8)
        after = along * shape(TURN * UP)
        np.testing.assert_allclose(run[name][time > UP], after, atol=1e-8)
    np.testing.assert_allclose(run["across"][on_ice], MASS * along * TURN, rtol=1e-8)
    np.testing.assert_allclose(run["normal"][on_ice], MASS * G, rtol=1e-9)
    radius = along / TURN
    turned = radius * (np.sin(angle) - np.sin(TURN * FALL)) + SPEED * FALL
    np.testing.assert_allclose(run["x"][on_ice], turned[on_ice], atol=1e-8)


def test_sensitivities_of_a_skate(blade):
    """Of the end with respect to turning: the hit, the circle, and where it is lifted."""
    time = np.linspace(0.0, 2.0, 21)
    signal = lifted(np.linspace(0.0, 2.0, 201))

    def end(turn):
        run = ks.simulate(blade, time, start(w=turn), inputs={lift: signal}, rtol=1e-12, atol=1e-13)
        return np.array([run[name][-1] for name in body.state_names])

    found = ks.sensitivities(blade, time, start(), inputs={lift: signal}, rtol=1e-12, atol=1e-13)
    slopes, h = found.forward(["w"]), 1e-5
    expected = (end(TURN + h) - end(TURN - h)) / (2.0 * h)
    by_turn = [slopes[name].ravel()[-1] for name in body.state_names]
    np.testing.assert_allclose(by_turn, expected, rtol=1e-6, atol=1e-6)


def test_a_blade_that_skids():
    """Across, ice gives at most mu m g: what a turn takes of the velocity sideways it takes at this
    rate, until the blade holds."""
    hybrid, time = skate("coulomb", friction_coefficient=0.1), np.linspace(0.0, 1.0, 101)
    run = ks.simulate(hybrid, time, start(z=0.0, w=0.0, vy=0.5, blade=True), inputs={lift: 0.0})
    slow = 0.5 / (0.1 * G)
    np.testing.assert_allclose(run["vy"], 0.5 * np.maximum(1.0 - time / slow, 0.0), atol=1e-9)
    np.testing.assert_allclose(run["vx"], SPEED, atol=1e-12)


def test_a_place_has_its_own_speed():
    with pytest.raises(ValueError, match="contact 'b': its speed is that of its place"):
        Contact("b", z, normal, "stick", x, across, speed=sideways)
    with pytest.raises(ValueError, match=r"its speed depends on lift\(t\), which is no state"):
        Hybrid(body, contacts=[Contact("b", z, normal, "stick", friction=across, speed=vy + lift)])
