"""Models of MuJoCo against Pinocchio, which reads the same ones."""

import re
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline
from test_urdf import courses

import kinesym as ks
from kinesym.symbolic.derivation import values_at

pin = pytest.importorskip("pinocchio")

ARM = """<mujoco model="arm"><compiler angle="radian"/><option gravity="0.5 0 -9"/>
  <worldbody>
    <body name="cart" pos="0.1 0.2 0.3" quat="0.9 0.1 -0.3 0.2">
      <inertial pos="0.1 0 0.05" mass="2" diaginertia="0.1 0.2 0.25" quat="1 0.2 0 0"/>
      <joint name="rail" type="slide" axis="1 0.5 0" range="-1 2"/>
      <joint name="tilt" axis="0 1 0"/>
      <body name="upper" pos="0 0 0.5" euler="0.3 -0.2 0.1">
        <inertial pos="0 0.1 0.2" mass="1" fullinertia="0.05 0.06 0.04 0.001 -0.002 0.003"/>
        <joint name="swing" axis="0 0 1" pos="0.1 0 0.05"/>
        <joint name="twist" axis="1 0 0" pos="0.1 0 0.05"/>
        <body name="lower" pos="0 0.2 0.4">
          <inertial pos="0 0 0.1" mass="0.5" diaginertia="0.01 0.01 0.01"/>
          <joint name="near" axis="1 0 0" pos="0 0.1 0"/>
          <joint name="far" axis="0 1 0" pos="0 -0.1 0.1"/>
          <joint name="push" type="slide" axis="0 0 1"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "arm.xml"
    found.write_text(ARM)
    return found


def test_forces_are_those_of_pinocchio(path):
    tree, model = ks.mjcf.read(path), pin.buildModelFromMJCF(str(path))
    names = ["rail", "tilt", "swing", "twist", "near", "far", "push"]
    assert [*tree.coordinates] == names and tree.ranges == {"rail": (-1.0, 2.0)}
    assert [body.name for body in tree.bodies][2:] == ["lower_1", "lower_2", "lower"]
    model.gravity.linear = np.array([0.5, 0.0, -9.0])
    time, q = courses(names)
    ours = ks.inverse_dynamics(tree, {"time": time, **q})
    spline, data = make_interp_spline(time, np.transpose([*q.values()]), 5), model.createData()
    for k in (3, 77, 150):
        theirs = pin.rnea(model, data, *(spline(time[k], nu=order) for order in range(3)))
        np.testing.assert_allclose([ours[name][k] for name in ours.names], theirs, rtol=1e-9)


def test_free_bodies_and_equalities(path):
    equal = '<equality><joint joint1="far" joint2="near" polycoef="0.1 2 0 0 0"/></equality>'
    text = ARM.replace('<joint name="rail" type="slide" axis="1 0.5 0" range="-1 2"/>', "")
    text = text.replace('<joint name="tilt" axis="0 1 0"/>', '<freejoint name="root"/>')
    path.write_text(text.replace("</mujoco>", f"{equal}</mujoco>"))
    tree = ks.mjcf.read(path)
    root = [f"root_{kind}" for kind in ("tx", "ty", "tz", "rx", "ry", "rz")]
    assert [*tree.coordinates] == [*root, "swing", "twist", "near", "push"]
    rest = {name: np.zeros(6) for name in tree.coordinates}
    forces = ks.inverse_dynamics(tree, {"time": np.linspace(0.0, 1.0, 6), **rest})
    pushed = np.array([forces[f"root_t{axis}_force"][0] for axis in "xyz"])
    assert np.linalg.norm(pushed) == pytest.approx(3.5 * np.hypot(0.5, 9.0))


WRONG = {
    'type="slide"': ('type="screw"', "joint rail: joints of the type 'screw' are not known"),
    'mass="1" ': ("", "body upper: inertial: mass must be numbers, got ''"),
    'mass="2" ': ('mass="-2" ', "body cart: its mass, -2, is negative"),
    'quat="0.9 0.1 -0.3 0.2"': ('quat="1 0 0"', "body cart: quat is 4 numbers, got 3"),
    "euler=": ('quat="0 0 0 0" euler=', "body upper has an orientation by quat and one by euler"),
    'quat="1 0.2 0 0"': ('quat="0 0 0 0"', "inertial: its quaternion is 0"),
    'axis="1 0.5 0"': ('axis="0 0 0"', "joint rail: its axis is 0"),
    'range="-1 2"': ('limited="true"', "joint rail is limited to no range, 0 to 0"),
    'name="tilt"': ('name="rail"', "2 joints have a coordinate rail; rename one"),
    'name="upper"': ('name="cart"', "2 bodies have the name cart"),
    'name="push"': ('class="a"', "joint: there is no class a of defaults"),
    '<body name="upper"': ('<body childclass="a"', "body: there is no class a of defaults"),
    'angle="radian"': ('angle="radians"', "compiler: angle is degree or radian, got 'radians'"),
    "<compiler": ('<compiler coordinate="global"', "coordinates that are global are not underst"),
    "<option": ("<options", "options is no section of a model of MuJoCo"),
    "<worldbody>": ('<default class="a"/><worldbody>', "outermost default has the class main"),
    "</worldbody>": ("<composite/></worldbody>", "composite of worldbody is not understood"),
    '<joint name="near"': ('<replicate/><joint name="near"', "replicate of body lower is not und"),
    '<joint name="far"': ('<blob/><joint name="far"', "blob of body lower is not known"),
    "</mujoco>": (
        '<equality><joint joint1="push" joint2="pash"/></equality></mujoco>',
        "there is no hinge or slide 'pash'; did you mean push",
    ),
    "</mujoco": (
        '<equality><connect body1="upper" body2="loner" anchor="0 0 0"/></equality></mujoco',
        "connect: there is no body loner; did you mean lower",
    ),
}


@pytest.mark.parametrize("old", WRONG)
def test_what_is_wrong_is_named(path, old):
    new, said = WRONG[old]
    assert old in ARM
    path.write_text(ARM.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"arm\.xml: .*{said}"):
        ks.mjcf.read(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<joint name="a" type="ball"/><joint name="a_rx"/>', "2 joints have a coordinate a_rx"),
        ("<freejoint/><joint/>", "body b has 7 coordinates, more than 6"),
        ('<joint/><body><freejoint name="a"/></body>', "a: free joints are of bodies in the world"),
        ('<joint name="a b"/><joint name="a-b" axis="1 0 0"/>', "a b and a-b are both a_b"),
        ('<joint/><geom type="mesh" mesh="m" name="g"/>', "body b: the mass of geom g, a mesh, is"),
        ('<joint/><geom type="box" mesh="m"/>', "body b: the mass of geom, a box around a mesh,"),
        ('<joint/><geom type="box" size="1 2"/>', "the size of a box is 3 positive numbers"),
        ('<joint/><geom size="1" density="-1"/>', "body b: geom: its density is negative"),
        ('<joint springdamper="1 1"/>', "some joints move no mass"),
    ],
)
def test_what_is_wrong_with_a_body_is_named(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, f'<body name="b">{text}</body>')


def read(tmp_path, bodies, before="", after="", **options):
    """A model with these bodies."""
    path = tmp_path / "model.xml"
    worlds = f"<worldbody>{bodies}</worldbody>"
    path.write_text(f'<mujoco model="m">{before}{worlds}{after}</mujoco>')
    return ks.mjcf.read(path, **options)


def test_what_is_left_out_is_said_once(tmp_path):
    """What moves nothing is not; nor what a flag has disabled."""
    bodies = """<geom type="plane" size="1 1 1"/><body name="b"><joint name="q" frictionloss="1"
      stifness="1"/><geom size="0.1"/><site name="s"/><camera/></body>"""
    after = """<actuator><motor name="m1" joint="q"/><motor joint="q"/><motor name="m3"/><motor
      name="m4"/><motor name="m5"/></actuator><sensor><jointpos joint="q"/></sensor><visual/>
      <tendon><spatial name="free"/><fixed name="elastic" stiffness="2"/></tendon>"""
    fluid = '<option density="1.2"/>'
    words = (
        r"m: force of actuators .m1, q, m3 and 2 more., force of tendons .elastic., frictionloss "
        r"of joints .q., what is not known .stifness of joint q., contact of geoms, force of the "
        "fluid are left out"
    )
    with pytest.warns(UserWarning, match=words) as said:
        read(tmp_path, bodies, fluid, after)
    assert len(said) == 1
    off = '<option><flag constraint="disable" actuation="disable"/></option>'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = read(tmp_path, bodies.replace('stifness="1"', ""), off)
    assert [*tree.markers] == ["s"] and tree.placed == {"s": ("b", (0.0, 0.0, 0.0))}


def test_meshes_that_stand_still_are_named(tmp_path):
    """Their mass is of no consequence, but for a total."""
    mesh = '<geom name="shell" type="mesh" mesh="m" group="2" contype="0"/>'
    bodies = f"""<body>{mesh}<geom type="mesh" mesh="n" mass="0"/><body name="b"><joint/>
      <geom size="0.1" mass="2"/></body></body>"""
    with pytest.warns(UserWarning, match="mass of meshes that stand still .shell."):
        tree = read(tmp_path, bodies)
    assert [body.mass for body in tree.bodies] == [0, 2]
    with pytest.raises(ValueError, match="the mass of geom shell, a mesh, is not read"):
        read(tmp_path, bodies, '<compiler settotalmass="3"/>')
    with pytest.warns(UserWarning, match="m: contact of geoms is left out"):
        read(tmp_path, bodies, '<compiler settotalmass="3" inertiagrouprange="0 1"/>')


def test_included_files(tmp_path):
    """Wherever they are included, also from files that are included, with names as of these."""
    inner = tmp_path / "parts"
    inner.mkdir()
    (tmp_path / "settings.xml").write_text('<mujoco><compiler angle="radian"/></mujoco>')
    (inner / "arm.xml").write_text('<mujoco><include file="hand.xml"/><joint/></mujoco>')
    (inner / "hand.xml").write_text('<mujoco><joint name="q" ref="1"/><geom size="0.1"/></mujoco>')
    arm = '<body name="b"><include file="parts/arm.xml"/></body>'
    tree = read(tmp_path, arm, '<include file="settings.xml"/>')
    assert [*tree.coordinates] == ["q", "b_joint2"] and tree.defaults["q"] == 1.0
    with pytest.raises(ValueError, match=r"the file parts/hand\.xml is included twice"):
        read(tmp_path, f'{arm}<body><include file="parts/hand.xml"/></body>')
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.xml"):
        read(tmp_path, '<include file="none.xml"/>')
    (inner / "hand.xml").write_text("<mujoco>")
    with pytest.raises(ValueError, match=r"included file hand\.xml: it is no XML file"):
        read(tmp_path, arm)


def test_classes_of_defaults(tmp_path):
    """A class has what the one around it had when it was made; the nearest childclass holds."""
    defaults = """<default><joint damping="1" axis="0 1 0"/><default class="a"><joint armature="2"/>
      <default class="b"><joint damping="3"/></default></default></default>
      <default><joint stiffness="4"/></default>"""
    bodies = """<body childclass="a"><joint name="p"/><joint name="q" class="main"/>
      <frame childclass="b"><body name="n"><joint name="r" damping="5"/><joint name="s"/>
      <inertial pos="0 0 1" mass="1" diaginertia="1 1 1"/></body></frame></body>"""
    tree = read(tmp_path, bodies, defaults)
    found = {row.coordinates[0]: row for row in tree.description.passive}
    numbers = {name: (row.stiffness, row.damping, row.armature) for name, row in found.items()}
    assert numbers == {
        "p": ((), (1.0,), 2.0),
        "q": ((4.0,), (1.0,), 0.0),
        "r": ((), (5.0,), 2.0),
        "s": ((), (3.0,), 2.0),
    }
    assert [body.name for body in tree.bodies] == ["body_1", "n"]


def test_values_of_coordinates(tmp_path):
    """References are defaults, and what locked coordinates stay at; angles are in degrees."""
    bodies = """<body name="b"><joint name="x" type="slide" ref="0.3" range="-1 1" axis="1 0 0"/>
      <joint name="q" ref="30" range="-45 90" axis="0 1 0"/>
      <joint name="r" axis="1 0 0" range="-1 1" limited="false"/>
      <inertial pos="0 0 1" mass="1" diaginertia="1 1 1"/><site name="tip" pos="0 0 1"/></body>"""
    tree = read(tmp_path, bodies)
    assert tree.defaults == pytest.approx({"x": 0.3, "q": np.pi / 6, "r": 0.0})
    assert tree.ranges == {"x": (-1.0, 1.0), "q": pytest.approx((-np.pi / 4, np.pi / 2))}
    np.testing.assert_allclose(tip_of(tree, tree.defaults), (0.0, 0.0, 1.0), atol=1e-15)
    tree = read(tmp_path, bodies, '<compiler autolimits="false"/>', locked=["x", "r"])
    assert not tree.ranges and tree.fixed == {"x": 0.3, "r": 0.0}
    tip = tip_of(tree, {"q": np.pi / 6 + 0.2})
    np.testing.assert_allclose(tip, (np.sin(0.2), 0.0, np.cos(0.2)), atol=1e-15)


def tip_of(tree, at):
    """Where the marker `tip` is."""
    place = tree.markers["tip"]
    here = {tree.coordinates[name]: value for name, value in at.items()}
    return values_at(place, tree.poses.steps.needed(place), here)


def test_springs_dampers_and_rotors(tmp_path):
    """Of a slide, in closed form: x'' = -(k (x - r) + c x')/(m + I) + g(1 - carried)."""
    body = """<body name="b" gravcomp="0.25"><joint name="x" type="slide" stiffness="8"
      springref="0.2" damping="0.6" armature="0.5"/><geom size="0.1" mass="1.5"/></body>"""
    tree = read(tmp_path, body, '<option gravity="0 0 -4"/>')
    model = tree.model(outputs=["energy"])
    time = np.linspace(0.0, 3.0, 31)
    run = ks.simulate(model, time, {"x": 0.5, "x_speed": 0.0}, method="dormand-prince", rtol=1e-10)
    rest, decay = 0.2 - 1.5 * 4 * 0.75 / 8, 0.6 / 4
    w = np.sqrt(8 / 2 - decay**2)
    course = rest + (0.5 - rest) * np.exp(-decay * time) * (
        np.cos(w * time) + decay / w * np.sin(w * time)
    )
    np.testing.assert_allclose(run["x"], course, atol=1e-8)
    np.testing.assert_allclose(run["kinetic_energy"], run["x_speed"] ** 2, rtol=1e-12)
    # what a motion needs besides is nothing
    needed = ks.inverse_dynamics(tree, {"time": time, "x": course})["x_force"]
    np.testing.assert_allclose(needed[3:-3], 0.0, atol=1e-4)
    off = '<option gravity="0 0 0"><flag spring="disable" damper="disable"/></option>'
    (row,) = read(tmp_path, body, off).description.passive
    assert (row.stiffness, row.damping, row.armature) == ((), (), 0.5)


def test_what_follows_feels_springs_and_rotors(tmp_path):
    """y = 0.1 + 2 (x - 0.3) + 3 (x - 0.3)^2 of a slide y: power and energy are those of y."""
    bodies = """<body><joint name="x" type="slide" ref="0.3"/><geom size="0.1" mass="1"/></body>
      <body><joint name="y" type="slide" stiffness="5" damping="0.7" armature="0.5"/>
      <geom size="0.1" mass="1"/></body>"""
    tie = '<equality><joint joint1="y" joint2="x" polycoef="0.1 2 3"/></equality>'
    off = '<option gravity="0 0 0"><flag contact="disable"/></option>'
    tree = read(tmp_path, bodies, off, tie)
    model = tree.model(outputs=["energy"])
    time = np.linspace(0.0, 0.5, 51)
    run = ks.simulate(model, time, {"x": 0.1, "x_speed": 0.5}, method="dormand-prince", rtol=1e-11)
    x, v = run["x"] - 0.3, run["x_speed"]
    y, rate = 0.1 + 2 * x + 3 * x * x, (2 + 6 * x) * v
    energy = v**2 / 2 + 1.5 * rate**2 / 2
    np.testing.assert_allclose(run["kinetic_energy"], energy, rtol=1e-12)
    lost = make_interp_spline(time, 0.7 * rate**2, 5).antiderivative()(time)
    np.testing.assert_allclose(energy + 2.5 * y**2 + lost, energy[0] + 2.5 * y[0] ** 2, rtol=1e-8)


def test_two_that_follow_one(tmp_path):
    bodies = "".join(
        f'<body><joint name="{name}" ref="10"/><geom size="0.1"/></body>' for name in "xyz"
    )
    ties = """<equality><joint joint1="x" joint2="y" polycoef="0.1 2"/>
      <joint name="second" joint1="x" joint2="z" polycoef="0.3 -0.5"/></equality>"""
    off = '<option><flag contact="disable"/></option>'
    tree = read(tmp_path, bodies, off, ties)
    assert [*tree.coordinates] == ["y"]
    x, z = (tree.description.couplers[k].function.coefficients for k in (0, 1))
    y, ref = 0.4, np.radians(10)
    x = x[0] * y + x[1]
    assert x == pytest.approx(ref + 0.1 + 2 * (y - ref))
    assert x == pytest.approx(ref + 0.3 - 0.5 * (z[0] * x + z[1] - ref))
    assert len(read(tmp_path, bodies, off, ties, without=["second"]).coordinates) == 2
    with pytest.raises(ValueError, match="joint second: the joint x follows another one already"):
        read(tmp_path, bodies, off, ties.replace("-0.5", "-0.5 1"))


BAR = '<inertial pos="0 0 -0.5" mass="1" diaginertia="0.1 0.1 0.01"/>'


@pytest.mark.parametrize(
    "tie",
    [
        '<weld body1="outer" body2="inner"/>',
        '<weld name="w" body1="inner" body2="outer" anchor="0 0 0.5" relpose="0 0 -0.5 1 0 0 0"/>',
        '<weld site1="a" site2="b"/>',
    ],
)
def test_loops_give_no_way(tmp_path, tie):
    """Two bars that are held in line swing as one."""
    bodies = f"""<body name="inner"><joint name="p" axis="0 1 0"/>{BAR}<site name="b"
      pos="0 0 -1" euler="0 0 30"/><body name="outer" pos="0 0 -1"><joint name="q" axis="0 1 0"/>
      <site name="a" euler="0 0 30"/>{BAR}</body></body>"""
    tree = read(tmp_path, bodies, after=f"<equality>{tie}</equality>")
    (closure,) = tree.closures
    assert closure.name == (re.findall('name="(.*?)"', tie) or ["outer_inner"])[0]
    model = tree.model().reduced_index(index=0)
    time, start = np.linspace(0.0, 1.0, 11), dict.fromkeys(model.state_names, 0.0)
    run = ks.simulate(model, time, {**start, "p": 0.4}, method="dormand-prince", rtol=1e-10)
    inertia, moment = 2 * 0.1 + 0.25 + 2.25, 9.81 * (0.5 + 1.5)
    np.testing.assert_allclose(run["p"], swing(moment / inertia, 0.4, time), atol=1e-5)
    np.testing.assert_allclose(run["q"], 0.0, atol=1e-5)
    free = read(tmp_path, bodies, after=f"<equality>{tie}</equality>", without=[closure.name])
    assert not free.closures


def test_points_that_are_held_together(tmp_path):
    """A parallelogram, whose coupler does not turn."""
    bodies = f"""<body name="one"><joint name="p" axis="0 1 0"/>{BAR}<body name="coupler"
      pos="0 0 -1"><joint name="q" axis="0 1 0"/><inertial pos="0.3 0 0.1" mass="0.7"
      diaginertia="1 1 1"/></body></body><body name="two" pos="0.6 0 0">
      <joint name="r" axis="0 1 0"/>{BAR}</body>"""
    tie = '<equality><connect body1="coupler" body2="two" anchor="0.6 0 0"/></equality>'
    tree = read(tmp_path, bodies, after=tie)
    model = tree.model().reduced_index(index=0)
    time, start = np.linspace(0.0, 0.5, 6), dict.fromkeys(model.state_names, 0.0)
    start |= {"p": 0.4, "q": -0.4, "r": 0.4}
    run = ks.simulate(model, time, start, method="dormand-prince", rtol=1e-10)
    inertia, moment = 2 * 0.1 + 2 * 0.25 + 0.7, 9.81 * (2 * 0.5 + 0.7)
    np.testing.assert_allclose(run["p"], swing(moment / inertia, 0.4, time), atol=1e-5)
    np.testing.assert_allclose(run["q"], -run["p"], atol=1e-5)


def swing(square, angle, time):
    """The angle of a pendulum with this square of its frequency, from rest."""
    ode = solve_ivp(
        lambda _, z: [z[1], -square * np.sin(z[0])],
        (0.0, time[-1]),
        [angle, 0.0],
        t_eval=time,
        rtol=1e-10,
        atol=1e-12,
    )
    return ode.y[0]


def test_rotors_of_balls(tmp_path):
    """Two bodies joined by a ball: its rotor shares no momentum but that of the relative motion,
    whose kinetic energy is I w^2/2."""
    bodies = """<body name="a"><joint name="p" axis="0.3 1 0.2"/>
      <geom type="box" size="0.1 0.2 0.3"/><body name="b" pos="0 0 0.5">
      <joint name="s" type="ball" armature="0.4"/>
      <geom type="box" size="0.2 0.1 0.15" pos="0.1 0 0"/></body></body>"""
    off = '<option gravity="0 0 0"><flag contact="disable"/></option>'
    tree = read(tmp_path, bodies, off)
    model = tree.model(outputs=["energy"])
    time = np.linspace(0.0, 1.0, 101)
    start = {"s_rx": 0.3, "s_ry": -0.5, "s_rz": 0.2, "p_speed": 1.0, "s_rx_speed": 2.0}
    start |= {"p": 0.0, "s_ry_speed": -1.0, "s_rz_speed": 0.5}
    run = ks.simulate(model, time, start)
    np.testing.assert_allclose(run["kinetic_energy"], run["kinetic_energy"][0], rtol=1e-6)
    rates = np.array([run[f"s_r{axis}_speed"] for axis in "xyz"])
    square = (rates**2).sum(0) + 2 * rates[0] * rates[2] * np.sin(run["s_ry"])
    plain = read(tmp_path, bodies.replace('armature="0.4"', ""), off).model(outputs=["energy"])
    bare = ks.simulate(plain, time[:2], {name: run[name][0] for name in start})
    assert run["kinetic_energy"][0] == pytest.approx(bare["kinetic_energy"][0] + 0.2 * square[0])
