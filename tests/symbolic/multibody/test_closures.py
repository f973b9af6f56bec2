"""Trees with closed loops, against models in Cartesian coordinates and other closures."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.multibody import Body, Free, Planar, Revolute, Spherical, Tree

TIME = np.linspace(0.0, 2.0, 41)
HINGE = Revolute("y")
LENGTHS = {"crank": 0.3, "coupler": 0.9, "rocker": 0.7}


def rod(name, joint=HINGE, at=(0, 0, 0), parent=None):
    """1 kg/m along x."""
    length = LENGTHS[name]
    moment = length**3 / 12
    return Body(
        name, length, (length / 2, 0, 0), (1e-3, moment, moment), joint, at, parent, (length, 0, 0)
    )


def bars(**joints):
    """The rods of the four-bar mechanism `ks.models.four_bar`, its last hinge open."""
    parts = [
        rod("crank"),
        rod("coupler", at=(0.3, 0, 0), parent="crank", **joints),
        rod("rocker", at=(1, 0, 0)),
    ]
    return Tree("four_bar", parts, gravity=(0, 0, -9.81))


def closed(kind="point", **joints):
    ends = {"at": (0.9, 0, 0), "to": (0.7, 0, 0)}
    return bars(**joints).close("coupler", "rocker", kind, **ends)


ANGLES = {"crank_y": -1.0, "coupler_y": 0.5, "rocker_y": -1.6}


@pytest.fixture(scope="module")
def run(simulated):
    return simulated(
        closed().model(outputs=["energy", "places"]), ANGLES, ["crank_y", "crank_wy"], TIME
    )


def test_four_bar_moves_as_in_cartesian_coordinates(run, simulated):
    """A rotation by q about y takes x to (cos q, -sin q): angles count the other way."""
    absolute = {"phi_1": 1.0, "phi_2": 0.5, "phi_3": 1.6}
    places = {"x_1": 0.1, "y_1": 0.1, "x_2": 0.5, "y_2": 0.4, "x_3": 1.0, "y_3": 0.3}
    other = simulated(ks.models.four_bar(), absolute | places, ["phi_1", "omega_1"], TIME)
    np.testing.assert_allclose(-run["crank_y"], other["phi_1"], atol=1e-8)
    np.testing.assert_allclose(run["rocker_place_x"], 1.0)
    np.testing.assert_allclose(-run["rocker_y"], other["phi_3"], atol=1e-8)
    for axis, joint in (("x", "fx_c"), ("z", "fy_c")):  # of the hinge that closes the loop
        ours, theirs = run[f"coupler_rocker_f{axis}"], other[joint]
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-5)


def test_energy_stays(run):
    energy = run["kinetic_energy"] + run["potential_energy"]
    assert np.ptp(energy) < 1e-9 * np.ptp(run["kinetic_energy"])


@pytest.mark.parametrize(
    ("kind", "redundant"), [("point", ("fy",)), ("hinge", ("fy", "m1", "m2"))], ids=str
)
def test_what_a_plane_makes_redundant_is_left_out(kind, redundant, run):
    tree = closed(kind)
    assert tree.redundant == tuple(f"coupler_rocker_{name}" for name in redundant)
    model = tree.model()
    assert [n for n in model.state_names if "coupler_rocker" in n] == [
        "coupler_rocker_fx",
        "coupler_rocker_fz",
    ]


def test_with_enough_joints_nothing_is_redundant(run, simulated):
    """The coupler on a ball joint: across the plane the loop now holds it, and the motion is the
    same; about its own axis it may turn, which it does not."""
    tree = closed("point", joint=Spherical("yxz"))
    assert tree.redundant == ()
    spatial = simulated(
        tree.model(), ANGLES, ["crank_y", "crank_wy", "coupler_wx", "coupler_x"], TIME
    )
    np.testing.assert_allclose(spatial["crank_y"], run["crank_y"], atol=1e-8)
    np.testing.assert_allclose(spatial["coupler_rocker_fy"], 0.0, atol=1e-8)


def test_bennett_linkage_moves_although_it_counts_as_rigid():
    """Four hinges in space whose axes are twisted by a and b: it moves if sin(a) / p = sin(b) / q
    for the lengths p, q of its bars (Bennett 1903). Its conditions depend on one another only where
    the loop is closed; half angles of neighbouring hinges then have tangents of constant product.
    """
    a, p, q = 0.9, 1.0, 0.6
    b = np.arcsin(q / p * np.sin(a))
    bodies, turned, parent, at = [], 0.0, None, (0.0, 0.0, 0.0)
    for k, (length, twist) in enumerate([(p, a), (q, b), (p, a)], 1):
        joint = Revolute((0.0, -np.sin(turned), np.cos(turned)))
        bodies.append(Body(f"b{k}", 1.0, (length / 2, 0, 0), (0.1, 0.1, 0.1), joint, at, parent))
        turned, parent, at = turned + twist, f"b{k}", (length, 0.0, 0.0)
    tree = Tree("bennett", bodies, gravity=(0, 0, -9.81)).close(
        "b3",
        kind="hinge",
        at=at,
        to=(-q, 0, 0),
        axis=(0.0, -np.sin(turned), np.cos(turned)),
        to_axis=(0.0, np.sin(b), np.cos(b)),
    )
    assert len(tree.redundant) == 3
    model = tree.model(outputs=["energy"])
    assert model.index.freedom == 2  # an angle and its rate
    low = model.reduced_index(index=0)
    first = dict.fromkeys(low.state_names, 0.0)
    first |= {"b1_angle": 0.8, "b2_angle": 2.5, "b3_angle": 0.8}
    kept = ["b1_angle", "b1_rate", *(n for n in first if "integral" in n)]
    first = ks.consistent(low, TIME, first, keep=kept)
    run = ks.simulate(low, TIME, first, method="dormand-prince", rtol=1e-11, atol=1e-11)
    energy = run["kinetic_energy"] + run["potential_energy"]
    assert np.ptp(energy) < 1e-8 < np.ptp(run["b1_angle"])
    product = np.tan(run["b1_angle"] / 2) * np.tan(run["b2_angle"] / 2)
    np.testing.assert_allclose(product, product[0], rtol=1e-7)
    expected = np.sin((a + b) / 2) / np.sin((a - b) / 2)
    np.testing.assert_allclose(np.abs(product[0]), expected, rtol=1e-7)
    # the conditions that are kept hold in further positions, in which the others do not
    guess = dict.fromkeys(model.state_names, 0.0) | {"b1_rate": 1.0}
    guess |= {"b1_angle": 2.0, "b2_angle": 2.0, "b3_angle": 0.8}
    elsewhere = ks.consistent(model, TIME, guess, keep=kept[:2])
    with pytest.raises(ValueError, match=r"a loop is open: .* condition of b3_base_fx, which was"):
        ks.simulate(model, TIME, elsewhere, method="dormand-prince")


def test_guide_as_an_expression_is_that_of_a_slider(simulated):
    """A crank and a rod whose end stays at z = 0: x = c cos q + sqrt(l^2 - c^2 sin^2 q)."""
    parts = [rod("crank"), rod("coupler", at=(0.3, 0, 0), parent="crank")]
    open_ = Tree("slider", parts, gravity=(0, 0, -9.81))
    end = open_.place("coupler", (0.9, 0, 0))
    model = open_.constrain(end[2], "guide").model(outputs=[{"x": end[0]}, "energy"])
    run = simulated(model, {"crank_y": -1.0, "coupler_y": 1.3}, ["crank_y", "crank_wy"], TIME)
    q = run["crank_y"]
    expected = 0.3 * np.cos(q) + np.sqrt(0.9**2 - 0.3**2 * np.sin(q) ** 2)
    np.testing.assert_allclose(run["x"], expected, atol=1e-9)
    energy = run["kinetic_energy"] + run["potential_energy"]
    assert np.ptp(energy) < 1e-8 < np.ptp(q)
    # the guide carries what the hinge does not: the rate of the vertical momentum, and the weight
    other = open_.close("coupler", name="end", at=(0.9, 0, 0), to=(sp.Symbol("x_end"), 0, 0))
    assert other.redundant == ("end_fy",)


def test_gears_share_a_torque(simulated):
    """Wheels with a ratio of -2 are one wheel of inertia I + 4 J; the force between them is that
    which turns the second one."""
    wheels = [
        Body("first", 1.0, inertia=(0.1, 0.2, 0.1), joint=HINGE),
        Body("second", 1.0, inertia=(0.05, 0.06, 0.05), joint=HINGE, at=(1, 0, 0)),
    ]
    tree = Tree("gears", wheels, gravity=(0, 0, 0))
    q = tree.coordinates
    geared = tree.constrain(q["second_y"] + 2 * q["first_y"], "mesh")
    run = simulated(
        geared.model(torques={"first_wy": sp.Float(0.88)}), {}, ["first_y", "first_wy"], TIME
    )
    rate = 0.88 / (0.2 + 4 * 0.06)
    np.testing.assert_allclose(run["first_wy"], rate * TIME, atol=1e-9)
    np.testing.assert_allclose(run["second_wy"], -2 * rate * TIME, atol=1e-9)
    np.testing.assert_allclose(run["mesh"], 0.06 * -2 * rate, atol=1e-8)


def test_a_lock_holds_what_a_constraint_brings():
    """The locked wheel of a pair of gears is held against the force between them."""
    wheels = [Body(n, 1.0, inertia=(0.1, 0.2, 0.1), joint=HINGE) for n in ("first", "second")]
    tree = Tree("gears", wheels, gravity=(0, 0, 0))
    q = tree.coordinates
    geared = tree.constrain(q["second_y"] + 2 * q["first_y"], "mesh").lock("second")
    (mesh,) = (x for x in geared.model().states if x.name == "mesh")
    assert geared.model(outputs=["held"]).outputs == {"held_second_wy": -mesh}


def test_speeds_may_be_bound_linearly(simulated):
    """A cylinder that rolls down a slope of 30 degrees: g / 3 for I = m r^2 / 2."""
    wheel = Body("wheel", 2.0, inertia=(0.02, 0.04, 0.02), joint=Planar("xz"))
    slope = (9.81 / 2, 0, -9.81 * np.sqrt(3) / 2)
    tree = Tree("cylinder", [wheel], gravity=slope)
    u = tree.speeds
    rolling = tree.constrain(u["wheel_vx"] - 0.2 * u["wheel_wy"], "friction")
    rolling = rolling.constrain(tree.coordinates["wheel_pz"] - 0.2, "ground")
    run = simulated(rolling.model(), {"wheel_pz": 0.2}, ["wheel_px", "wheel_wy", "wheel_y"], TIME)
    np.testing.assert_allclose(run["wheel_vx"], 9.81 / 3 * TIME, atol=1e-8)
    np.testing.assert_allclose(run["friction"], -2.0 * 9.81 / 6, atol=1e-8)
    np.testing.assert_allclose(run["ground"], 2.0 * 9.81 * np.sqrt(3) / 2, atol=1e-8)


def test_a_loop_that_cannot_close_says_so():
    tree = bars().close("coupler", "rocker", at=(0.9, 0, 0), to=(0.7, 0.5, 0))
    with pytest.raises(
        ValueError, match=r"loops are closed; the nearest misses .* by [0-9.]+: check"
    ):
        tree.model()


def test_a_weld_to_the_base_holds():
    """A rod that is free in a plane and welded at its end carries its weight and moment."""
    free = Tree("beam", [rod("crank", Planar("xz"))], gravity=(0, 0, -9.81))
    beam = free.close("crank", None, "weld").model()
    assert beam.index.freedom == 0
    low = beam.reduced_index(index=1)
    found = ks.consistent(low, TIME, dict.fromkeys(low.state_names, 0.0), keep=[])
    weight = 0.3 * 9.81
    assert abs(found["crank_base_fz"] - weight) < 1e-9
    moment = max(abs(value) for name, value in found.items() if "_base_m" in name)
    assert abs(moment - weight * 0.15) < 1e-9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"body": "crankk"}, "crankk is no body"),
        ({"body": "crank", "other": "rocket"}, "rocket is no body"),
        ({"body": "crank", "kind": "glue"}, "the kind of a loop is one of .*glue"),
        ({"body": "crank", "at": (0, 0)}, "at must have three components"),
        ({"body": "crank", "kind": "rolling"}, "radius"),
        (
            {"body": "crank", "kind": "weld", "attitude": np.ones((3, 3))},
            "the attitude of the loop at crank is a rotation matrix",
        ),
        (
            {"body": "crank", "attitude": [[0, 1, 0], [-1, 0, 0], [0, 0, 1]]},
            "only a weld has an attitude",
        ),
        (
            {"body": "crank", "other": "rocker", "kind": "rolling", "radius": 1},
            "on the plane z",
        ),
        ({"body": "crank", "radius": 1}, "radius"),
        ({"body": "crank", "kind": "hinge", "axis": (0, 0, 0)}, "axis"),
        ({"body": "crank", "other": "crank"}, "itself"),
    ],
    ids=str,
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        bars().close(**arguments)


def test_bad_constraints():
    tree = bars()
    q, u = tree.coordinates["crank_y"], tree.speeds["crank_wy"]
    for expression, words in (
        (sp.Symbol("a"), "constraint c has no coordinate"),
        (u**2 - 1, "constraint c is not linear in the speeds"),
        ("q", "text is not evaluated"),
    ):
        with pytest.raises(ValueError, match=words):
            tree.constrain(expression, "c")
    with pytest.raises(ValueError, match="has a loop c already; give a name="):
        tree.constrain(q, "c").constrain(q - 1, "c")
    with pytest.raises(ValueError, match="no place was found"):
        tree.constrain(q, "c").constrain(q - 1, "d").model()
    with pytest.raises(ValueError, match="the name of a constraint"):
        tree.constrain(q, "a b")


@pytest.mark.parametrize("joint", [Planar("xy"), Free("zyx")])
def test_of_two_wheels_on_an_axle_one_does_not_slip_sideways_by_itself(joint):
    """Whatever the heading: what the second one needs across follows from the first."""
    planar = isinstance(joint, Planar)
    at = (0, 0, 0.3 * planar)
    frame = Body("frame", 90.0, (0.4, 0, 0.3), (4, 8, 8), joint, at)
    sides = {"left": 0.3, "right": -0.3}
    wheels = [
        Body(name, 2.0, (0, 0, 0), (0.05, 0.09, 0.05), Revolute("y"), (0, y, 0), "frame")
        for name, y in sides.items()
    ]
    tree = Tree("axle", [frame, *wheels], gravity=(0, 0, -9.81))
    for name in sides:
        tree = tree.close(name, kind="rolling", radius=0.3)
    across = "right_base_fy"
    up = ("left_base_fz", "right_base_fz")
    assert {*tree.redundant} == {across, *(up if planar else ())}
    if planar:
        assert tree.model().index.value == 2


def test_masses_come_before_all_reactions_on_them():
    """A tricycle: 10 speeds and 7 or 8 conditions, too many for exchanges of rows. What part of the
    masses make of the entry of a reaction is zero as it stands, straight ahead."""
    wheel = {"mass": 2.0, "com": (0, 0, 0), "inertia": (0.05, 0.09, 0.05), "joint": Revolute("y")}
    bodies = [
        Body("frame", 90.0, (0.4, 0, 0.3), (4, 8, 8), Free()),
        Body("left", **wheel, at=(0, 0.3, 0), parent="frame"),
        Body("right", **wheel, at=(0, -0.3, 0), parent="frame"),
        Body("fork", 3.0, (0.02, 0, 0.2), (0.1, 0.1, 0.05), Revolute("z"), (1.1, 0, 0), "frame"),
        Body("front", **wheel, at=(-0.04, 0, 0), parent="fork"),
    ]
    tree = Tree("tricycle", bodies, gravity=(0, 0, -9.81))
    for name in ("left", "right", "front"):
        tree = tree.close(name, kind="rolling", radius=0.3)
    model = tree.model().reduced_index(index=0)
    functions, n = ks.compile(model), len(model.state_names)
    x, p = np.zeros(n), [10.0] * len(model.parameter_names)
    moving = {"frame_pz": 0.3, "frame_vx": 2.0}
    moving |= {f"{name}_wy": 2.0 / 0.3 for name in ("left", "right", "front")}
    for name, value in moving.items():
        x[model.state_names.index(name)] = value
    rates = functions.rhs(x, [], p)
    np.testing.assert_allclose(functions.residual(rates, x, [], p), 0.0, atol=1e-9)
