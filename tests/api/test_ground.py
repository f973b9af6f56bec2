"""Points of trees of bodies on the ground: flight, statics, slopes, and the balance of impacts."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.multibody import Body, Free, Load, Planar, PrescribedBase, Prismatic, Revolute, Tree

FEET = ("left", "right")
MASS = 56.0  # kg
TIGHT = {"rtol": 1e-11, "atol": 1e-12}
MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


# -- a trunk on two legs --------------------------------------------------------------------------


@cache
def walker(law="slip", restitution=0.0):
    """A trunk and two legs in a plane whose ends touch the ground, and what it is made from."""
    legs = [
        Body(
            side,
            mass=8,
            com=(0, 0, -0.35),
            inertia=(0.4, 0.4, 0.02),
            joint=Revolute("y"),
            parent="trunk",
            end=(0, 0, -0.8),
        )
        for side in FEET
    ]
    trunk = Body("trunk", mass=40, com=(0, 0, 0.3), inertia=(2, 2, 0.5), joint=Planar("xz"))
    tree = Tree("walker", [trunk, *legs], gravity=(0, 0, -9.81))
    speeds = {}
    for side in FEET:
        velocity = tree.velocity(side, (0, 0, -0.8))
        speeds |= {f"{side}_vx": velocity[0], f"{side}_vz": velocity[2]}
    points = [
        kh.GroundPoint(f"{side}foot", side, (0, 0, -0.8), law, 0.5, restitution) for side in FEET
    ]
    return kh.on_ground(tree, points, outputs=["energy", "momentum", "places", speeds])


@cache
def functions(law, restitution):
    return ks.compile(walker(law, restitution).model)


class Touch:
    """A random state with one foot or both on the ground, and the impact that follows at once.

    sinks : the rate of the left foot's height [m/s], of a random state if it is None.
    """

    def __init__(self, law, restitution, seed, v_stop=None, sinks=None):
        rng = np.random.default_rng(seed)
        self.e, self.law = restitution, law
        self.f = functions(law, restitution)
        tilt, spread = rng.uniform(-0.4, 0.4), rng.uniform(0.1, 0.6) * rng.choice([-1, 1])
        second = -spread - tilt if rng.random() < 0.6 else (-spread - tilt) * 1.5
        self.x = np.array([0.0, 0.0, tilt, spread - tilt, second, *(2.0 * rng.normal(size=5))])
        self.x[1] = -min(self.outputs(self.x)[f"{side}foot_height"] for side in FEET)
        if sinks is not None:
            self.x[6] -= sinks + self.outputs(self.x)["left_vz"]
        self.v_stop = v_stop or (5.4e-4 if restitution else 1e-7)
        hybrid = replace(walker(law, restitution), v_stop=self.v_stop)
        start = dict(zip(hybrid.model.state_names, self.x, strict=True))
        self.run = ks.simulate(hybrid, [0.0, 1e-7], start)
        hits = self.run.happened("impact")
        self.rows = hits[0].rows if hits and hits[0].time == 0.0 else None

    def outputs(self, x):
        given = {"xdot": 0 * x, "x": x, "u": np.zeros(len(self.f.inputs)), "p": [], "t": 0.0}
        return dict(zip(self.f.output_names, self.f.outputs(**given), strict=True))

    def impulses(self):
        """Of each force, such that the speeds jump by what these do; nothing is left over."""

        def speeds(u):
            return self.f.rhs(x=self.rows[0], u=u, p=[], t=0.0)[5:]

        n = len(self.f.inputs)
        effect = np.array([speeds(row) - speeds(np.zeros(n)) for row in np.eye(n)]).T
        jump = self.rows[1][5:] - self.rows[0][5:]
        found, *_ = np.linalg.lstsq(effect, jump, rcond=None)
        np.testing.assert_allclose(effect @ found, jump, atol=1e-9)
        return dict(zip(self.f.inputs, found, strict=True))


def stops(touch, before, after):
    """Whether an impact ends all bounces: what is at the ground rests, having come so slowly that
    it would leave it at less than v_stop."""
    feet = [side for side in FEET if before[f"{side}foot_height"] <= 1e-8]
    rests = all(abs(after[f"{side}_vz"]) < 1e-9 for side in feet)
    return rests and max(-touch.e * before[f"{side}_vz"] for side in feet) < touch.v_stop


def check_balance(touch, room=1e-7):
    """Momentum comes from the impulses alone; each obeys Moreau's law and the law of friction.

    room : impulses [N s] that may pull, to keep at the ground what leaves it at less than v_stop.
    """
    before, after = (touch.outputs(row) for row in touch.rows)
    np.testing.assert_array_equal(touch.rows[0][:5], touch.rows[1][:5])
    impulses, total = touch.impulses(), np.zeros(2)
    e, pulls = touch.e, room
    if stops(touch, before, after):
        e, pulls = 0.0, max(room, MASS * touch.v_stop)
    for side in FEET:
        normal = impulses[f"{side}foot_normal"]
        along = impulses.get(f"{side}foot_friction", 0.0)
        total += [along, normal]
        if before[f"{side}foot_height"] > 1e-8:
            assert abs(normal) + abs(along) < 1e-8
            continue
        rest = after[f"{side}_vz"] + e * before[f"{side}_vz"]
        assert normal > -pulls and rest > -1e-9 and abs(normal * rest) < 1e-7
        slides = after[f"{side}_vx"]
        if touch.law == "stick" and normal > 1e-8:
            assert abs(slides) < 1e-9
        if touch.law == "coulomb":
            assert abs(along) <= 0.5 * normal + room
            assert abs(slides) < 1e-9 or abs(along + np.sign(slides) * 0.5 * normal) < 1e-7
    gained = [after[f"momentum_{axis}"] - before[f"momentum_{axis}"] for axis in "xz"]
    np.testing.assert_allclose(gained, total, atol=1e-8)
    return before["kinetic_energy"], after["kinetic_energy"]


@pytest.mark.parametrize("restitution", [0.0, 0.3, 1.0])
@given(seed=st.integers(0, 100_000))
@MANY
def test_impacts_without_friction(restitution, seed):
    """Energy does not grow; of a fully elastic impact of one foot it stays."""
    touch = Touch("slip", restitution, seed)
    assume(touch.rows is not None)
    before, after = check_balance(touch)
    assert after <= before * (1.0 + 1e-12)
    outputs = touch.outputs(touch.rows[0])
    alone = max(outputs[f"{side}foot_height"] for side in FEET) > 1e-8
    if restitution == 1.0 and alone:
        assert after == pytest.approx(before, rel=1e-10)


@pytest.mark.parametrize("restitution", [0.0, 0.3])
@given(seed=st.integers(0, 100_000))
@MANY
def test_impacts_with_friction(restitution, seed):
    touch = Touch("coulomb", restitution, seed)
    assume(touch.rows is not None)
    before, after = check_balance(touch)
    if restitution == 0.0:
        assert after <= before * (1.0 + 1e-12)


@given(seed=st.integers(0, 100_000))
@MANY
@pytest.mark.filterwarnings(
    "ignore:the simulation of walker. contacts .* no consistent sticking:UserWarning"
)
def test_impacts_that_stick(seed):
    touch = Touch("stick", 0.0, seed)
    assume(touch.rows is not None and not touch.run.message)
    before, after = check_balance(touch)
    assert after <= before * (1.0 + 1e-12)


@pytest.mark.parametrize("restitution", [0.3, 0.9])
@pytest.mark.parametrize("seed", [1, 8, 14])
def test_bounces_slower_than_v_stop_end(restitution, seed):
    """A foot comes so that it would leave at a share of v_stop: below 1 it stays."""
    for share in (0.01, 0.5, 0.999, 1.001, 3.0):
        v_stop = 2e-3
        speed = share * v_stop / restitution
        touch = Touch("slip", restitution, seed, v_stop=v_stop, sinks=speed)
        check_balance(touch)
        before, after = (touch.outputs(row) for row in touch.rows)
        assert before["rightfoot_height"] > 1e-3
        assert before["left_vz"] == pytest.approx(-speed, rel=1e-9)
        expected = 0.0 if share < 1.0 else share * v_stop
        assert after["left_vz"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("law", "seed"), [("stick", 34892), ("coulomb", 3605)])
def test_what_slides_and_leaves_slowly_is_not_stopped(law, seed):
    """A foot that an impact of the other lifts by less than v_stop keeps its speed along x."""
    touch = Touch(law, 0.0, seed, v_stop=1e-3)
    check_balance(touch, room=1e-3)
    assert abs(touch.outputs(touch.rows[1])["right_vx"]) > 3.0


# -- flight and rest ------------------------------------------------------------------------------


@given(st.integers(0, 100_000))
@settings(MANY, max_examples=15)
def test_free_flight(seed):
    """Energy, the momentum along the ground and that about the centre of mass stay; the centre of
    mass falls on a parabola."""
    hybrid, rng = walker(), np.random.default_rng(seed)
    start = dict(zip(hybrid.model.state_names, rng.normal(size=10), strict=True))
    time = np.linspace(0.0, 0.5, 11)
    run = ks.simulate(hybrid, time, {**start, "trunk_pz": 5.0}, **TIGHT)
    assert not run.events
    total = run["kinetic_energy"] + run["potential_energy"]
    size = 1e-8 * np.abs(total).max()
    np.testing.assert_allclose(total, total[0], atol=size)
    for name in ("momentum_x", "angular_momentum_y"):
        np.testing.assert_allclose(run[name], run[name][0], atol=size)
    falling = run["momentum_z"][0] - MASS * 9.81 * time
    np.testing.assert_allclose(run["momentum_z"], falling, atol=size)
    np.testing.assert_allclose([run["leftfoot_normal"], run["rightfoot_normal"]], 0.0)


def test_energy_falls_from_impact_to_impact():
    """Thrown on elastic feet without friction: energy stays; on others each impact takes some."""
    for restitution in (1.0, 0.5):
        hybrid = walker("slip", restitution)
        start = dict.fromkeys(hybrid.model.state_names, 0.0)
        start |= {"trunk_pz": 1.2, "trunk_y": 0.2, "left_y": 0.3, "right_y": -0.4, "trunk_vx": 0.5}
        run = ks.simulate(hybrid, np.linspace(0.0, 0.8, 81), start, **TIGHT)
        assert len(run.happened("impact")) >= 2
        total = run["kinetic_energy"] + run["potential_energy"]
        if restitution == 1.0:
            np.testing.assert_allclose(total, total[0], rtol=1e-9)
        else:
            assert (np.diff(total) < 1e-6).all() and total[-1] < 0.99 * total[0]


def test_standing_bears_the_weight():
    """At rest on both feet, legs apart and held by friction: the normal forces are the weight."""
    legs = [
        Body(
            side,
            mass=8,
            com=(0, 0, -0.35),
            inertia=(0.4, 0.4, 0.02),
            joint=Revolute("y"),
            parent="trunk",
        )
        for side in FEET
    ]
    trunk = Body("trunk", mass=40, com=(0.02, 0, 0.3), inertia=(2, 2, 0.5), joint=Planar("xz"))
    tree = Tree("stand", [trunk, *legs], gravity=(0, 0, -9.81)).lock("left", "right")
    points = [
        kh.GroundPoint(f"{side}foot", "trunk", (x, 0, -0.8), "coulomb", 0.5)
        for side, x in zip(FEET, (-0.1, 0.15), strict=True)
    ]
    hybrid = kh.on_ground(tree, points, outputs=["momentum"])
    start = dict.fromkeys(hybrid.model.state_names, 0.0) | {"trunk_pz": 0.8}
    run = ks.simulate(hybrid, [0.0, 1.0], {**start, "leftfoot": True, "rightfoot": True})
    left, right = run["leftfoot_normal"][-1], run["rightfoot_normal"][-1]
    assert left + right == pytest.approx(MASS * 9.81, rel=1e-10)
    assert 0.15 * right - 0.1 * left == pytest.approx(40 * 9.81 * 0.02, rel=1e-8)
    np.testing.assert_allclose([run["leftfoot_height"], run["rightfoot_height"]], 0.0, atol=1e-12)
    assert run.pressing("leftfoot") == [(0.0, 1.0)]


# -- slopes and directions ------------------------------------------------------------------------


def sledge(law, mu, angle, axes="xz"):
    """A point on a slope that falls in the direction `along`."""
    up = {"x": 0.0, "y": 0.0, "z": 0.0} | {axes[0]: np.sin(angle), axes[1]: np.cos(angle)}
    along = {"x": 0.0, "y": 0.0, "z": 0.0} | {axes[0]: np.cos(angle), axes[1]: -np.sin(angle)}
    down = {"x": 0.0, "y": 0.0, "z": 0.0} | {axes[1]: -9.81}
    body = Body("sledge", mass=3.0, inertia=(1, 1, 1), joint=Free())
    tree = Tree("sledge", [body], gravity=tuple(down.values()))
    return kh.on_ground(
        tree,
        [kh.GroundPoint("runner", "sledge", (0, 0, 0), law, mu)],
        up=tuple(up.values()),
        along=tuple(along.values()),
    )


@pytest.mark.parametrize("axes", ["xz", "yz", "xy"])
@pytest.mark.parametrize(("law", "mu"), [("slip", 0.0), ("coulomb", 0.2), ("coulomb", 0.8)])
def test_sliding_down_a_slope(axes, law, mu):
    """g (sin a - mu cos a) if that is positive, else it stays; the force is m g cos a."""
    angle = 0.5
    hybrid = sledge(law, mu, angle, axes)
    start = dict.fromkeys(hybrid.model.state_names, 0.0)
    run = ks.simulate(hybrid, np.linspace(0.0, 1.0, 5), {**start, "runner": True}, **TIGHT)
    rate = max(9.81 * (np.sin(angle) - mu * np.cos(angle)), 0.0)
    np.testing.assert_allclose(run["runner_place"], rate * run.time**2 / 2.0, atol=1e-9)
    np.testing.assert_allclose(run["runner_height"], 0.0, atol=1e-9)
    np.testing.assert_allclose(run["runner_normal"], 3 * 9.81 * np.cos(angle), rtol=1e-9)
    if law == "coulomb":
        force = min(mu * np.cos(angle), np.sin(angle)) * 3 * 9.81
        np.testing.assert_allclose(run["runner_friction"], -force, rtol=1e-9)


# -- what goes through ----------------------------------------------------------------------------


def test_loads_torques_events_modes_and_muscles_are_kept():
    """A lift is pushed by a load of its own, or by one that depends on its place; an event sets a
    mode that brakes it; a muscle pulls."""
    push, brake = ks.dynamicsymbols("push brake")
    for loads in (
        [Load("lift", (0, 0, push))],
        lambda tree: [Load("lift", (0, 0, push - 1 * tree.place("lift")[2]))],
    ):
        tree = Tree(
            "lift",
            [Body("lift", mass=2.0, joint=Prismatic("z"))],
            gravity=(0, 0, -9.81),
            loads=loads,
        )
        height = next(iter(tree.coordinates.values()))
        speed = next(iter(tree.speeds.values()))
        pull = kh.FESMuscle("pull", speed, 100.0, 1e3, 5e3, 0.1, 0.5)
        hybrid = kh.on_ground(
            tree,
            [kh.GroundPoint("base", "lift")],
            muscles=[pull],
            modes={brake: 0.0},
            torques={next(iter(tree.speeds)): -brake * speed - pull.force},
            events=[kh.Event("high", height - sp.Rational(1, 2), 1, sets={brake: 50})],
        )
        assert set(hybrid.given) == {"push", "pull_u"} and "pull" in hybrid.events[1].name
        start = dict.fromkeys(hybrid.model.state_names, 0.0)
        weight = 2 * 9.81
        rest = ks.simulate(
            hybrid, [0.0, 0.1], {**start, "base": True}, inputs={"push": 5.0, "pull_u": -15.0}
        )
        np.testing.assert_allclose(rest["base_normal"], weight - 5.0, rtol=1e-9)
        run = ks.simulate(
            hybrid, [0.0, 2.0], {**start, "base": True}, inputs={"push": 30.0, "pull_u": -15.0}
        )
        names = [(e.kind, e.name) for e in run.events if "pull" not in e.name]
        assert names == [("release", "base"), ("event", "high")]
        assert run["brake"][-1] == 50.0 and run["base_height"][-1] > 0.5


def test_three_links_with_their_middle_on_the_ground():
    """A chain falls flat on its joints: points of several bodies, the last of them slides."""
    first = Body("a", mass=1.0, com=(0.25, 0, 0), inertia=(0, 0.02, 0.02), joint=Planar("xz"))
    others = [
        Body(
            name,
            mass=1.0,
            com=(0.25, 0, 0),
            inertia=(0, 0.02, 0.02),
            joint=Revolute("y"),
            parent=parent,
            at=(0.5, 0, 0),
        )
        for name, parent in (("b", "a"), ("c", "b"))
    ]
    tree = Tree("chain", [first, *others], gravity=(0, 0, -9.81))
    points = [
        kh.GroundPoint(f"p{k}", body, at)
        for k, (body, at) in enumerate(
            (("a", (0, 0, 0)), ("b", (0, 0, 0)), ("c", (0, 0, 0)), ("c", (0.5, 0, 0)))
        )
    ]
    hybrid = kh.on_ground(tree, points, outputs=["energy", "momentum"])
    start = dict.fromkeys(hybrid.model.state_names, 0.0) | {"a_pz": 0.3, "b_y": 0.4, "c_y": -0.6}
    run = ks.simulate(hybrid, np.linspace(0.0, 3.0, 61), start, **TIGHT)
    assert not run.message and len(run.happened("impact")) >= 3
    heights = np.array([run[f"p{k}_height"] for k in range(4)])
    assert heights.min() > -1e-7
    total = run["kinetic_energy"] + run["potential_energy"]
    assert (np.diff(total) < 1e-7).all()
    np.testing.assert_allclose(run["momentum_x"], 0.0, atol=1e-8)
    normal = sum(run[f"p{k}_normal"][-1] for k in range(4))
    if run["kinetic_energy"][-1] < 1e-9:
        assert normal == pytest.approx(3 * 9.81, rel=1e-6)


def test_what_does_not_fit():
    tree = Tree("lift", [Body("lift", mass=2.0, joint=Prismatic("z"))], gravity=(0, 0, -9.81))
    base = kh.GroundPoint("base", "lift")
    for words, points, more in (
        ("up is no unit vector", [base], {"up": (0, 0, 2)}),
        ("along is no unit vector", [base], {"along": (1, 1, 0)}),
        ("up and along are not orthogonal", [base], {"along": (0, 0, 1)}),
        ("floor", [kh.GroundPoint("base", "floor")], {}),
        ("base", [base, base], {}),
    ):
        with pytest.raises(ValueError, match=words):
            kh.on_ground(tree, points, **more)
    for words, changes in (
        ("restitution must be within", {"restitution": 2.0}),
        ("must not be negative", {"law": "coulomb", "friction_coefficient": -1.0}),
        ("law is one of slip, stick", {"law": "rubber"}),
    ):
        with pytest.raises(ValueError, match=words):
            kh.GroundPoint("base", "lift", **changes)


def test_ground_under_a_moving_base():
    """Heights would depend on a motion that is given: it has to be made of states."""
    tree = Tree(
        "deck",
        [Body("man", mass=70.0, joint=Prismatic("z"))],
        base=PrescribedBase("ship"),
        gravity=(0, 0, -9.81),
    )
    with pytest.raises(ValueError, match="contact 'feet': its height depends on ship_"):
        kh.on_ground(tree, [kh.GroundPoint("feet", "man")])
