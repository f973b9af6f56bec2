"""Every kind of joint and function in a file that is written here; what is wrong is named."""

import gzip
import re
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
import sympy as sp
from scipy.spatial.transform import Rotation
from test_osim import Plain, interpreted, poses  # beside this file

import kinesym as ks
from kinesym.examples.studies.gait import data
from kinesym.gait.motion_files import Table
from kinesym.models.files.expressions import expression
from kinesym.models.files.osim_functions import function_of
from kinesym.multibody import Body, Spherical, Tree

CUSTOM = """<SpatialTransform>
  <TransformAxis name="rotation1"><coordinates>a b</coordinates><axis>1 0.2 0</axis>
    <LinearFunction><coefficients>1 -2 0.1</coefficients></LinearFunction></TransformAxis>
  <TransformAxis name="rotation2"><coordinates>b</coordinates><axis>0 1 0.1</axis>
    <PolynomialFunction><coefficients>0.5 -1 0.2 0.3</coefficients></PolynomialFunction>
  </TransformAxis>
  <TransformAxis name="rotation3"><coordinates>stuck</coordinates><axis>0 0 1</axis>
    <LinearFunction><coefficients>1 0</coefficients></LinearFunction></TransformAxis>
  <TransformAxis name="translation1"><coordinates>a</coordinates><axis>1 0 0</axis>
    <Sine><amplitude>0.3</amplitude><omega>2</omega><phase>0.1</phase><offset>0.4</offset></Sine>
  </TransformAxis>
  <TransformAxis name="translation2"><coordinates>b</coordinates><axis>0 1 0.5</axis>
    <MultiplierFunction><function><SimmSpline><x>-1 0 1</x><y>0.1 0.3 0.2</y></SimmSpline>
      </function><scale>1.5</scale></MultiplierFunction></TransformAxis>
  <TransformAxis name="translation3"><coordinates></coordinates><axis>0 0 1</axis>
    <Constant><value>0.25</value></Constant></TransformAxis>
</SpatialTransform>"""
POINTS = "<x>-1 -0.4 0.1 0.3 1 1.2 2</x><y>{y}</y>"
VALUES = "-0.8 -0.7 0.2 0.57 1.0 0.8 -0.36"
SPLINE = "<GCVSpline><half_order>{half}</half_order><error_variance>0</error_variance>{points}"
SPLINE += "<weights>1 1 1 1 1 1 1</weights><coefficients>0</coefficients></GCVSpline>"
#: Functions of other kinds.
FUNCTIONS = f"""<SpatialTransform>
  <TransformAxis name="rotation1"><coordinates>a b</coordinates><axis>1 0.2 0</axis>
    <MultivariatePolynomialFunction><coefficients>0.1 1 -2 0.5 0.7 0.2 -0.4 0.3 0.6 -0.5
      </coefficients><dimension>2</dimension><order>3</order></MultivariatePolynomialFunction>
  </TransformAxis>
  <TransformAxis name="rotation2"><coordinates>b</coordinates><axis>0 1 0.1</axis>
    {SPLINE.format(half=3, points=POINTS.format(y=VALUES))}</TransformAxis>
  <TransformAxis name="rotation3"><coordinates></coordinates><axis>0 0 1</axis>
    <Constant><value>0.25</value></Constant></TransformAxis>
  <TransformAxis name="translation1"><coordinates>a</coordinates><axis>1 0 0</axis>
    {SPLINE.format(half=2, points=POINTS.format(y=VALUES))}</TransformAxis>
  <TransformAxis name="translation2"><coordinates>b</coordinates><axis>0 1 0.5</axis>
    <PiecewiseLinearFunction>{POINTS.format(y=VALUES)}</PiecewiseLinearFunction></TransformAxis>
  <TransformAxis name="translation3"><coordinates></coordinates><axis>0 0 1</axis>
    <Constant><value>0.25</value></Constant></TransformAxis>
</SpatialTransform>"""
#: Joint, coordinates, angles of the frame on the parent and on the child.
JOINTS = {
    "FreeJoint": ("rx ry rz tx ty tz", "0 0 0", "0 0 0"),
    "PinJoint": ("pin", "0.1 0.2 0.3", "0 0 0"),
    "SliderJoint": ("slide", "0 0 0", "0.4 0 -0.2"),
    "UniversalJoint": ("u1 u2", "0.5 -0.5 0", "0.5 -0.5 0"),
    "BallJoint": ("b1 b2 b3", "0 1 0", "1 0 0.3"),
    "PlanarJoint": ("p1 p2 p3", "0.3 0 0", "0 0 0"),
    "CustomJoint": ("a b stuck", "0 0 0.7", "0.2 0.1 0"),
    "WeldJoint": ("", "0 -0.6 0", "0.1 0.1 0.1"),
}
SURFACES = {
    "EllipsoidJoint": ("e1 e2 e3", "0.3 0.1 -0.2", "0.2 0 0.5"),
    "ScapulothoracicJoint": ("abduction elevation upward wing", "0.3 0.1 -0.2", "0.2 0 0.5"),
}
#: What joints have besides.
MORE = {
    "CustomJoint": CUSTOM,
    "EllipsoidJoint": "<radii_x_y_z>0.1 0.2 0.3</radii_x_y_z>",
    "ScapulothoracicJoint": """
      <thoracic_ellipsoid_radii_x_y_z>0.1 0.2 0.3</thoracic_ellipsoid_radii_x_y_z>
      <scapula_winging_axis_origin>0.05 -0.02</scapula_winging_axis_origin>
      <scapula_winging_axis_direction>0.6</scapula_winging_axis_direction>""",
}
COUPLER = """<CoordinateCouplerConstraint name="follows"><coupled_coordinates_function>
  <LinearFunction><coefficients>0.5 0.1</coefficients></LinearFunction>
  </coupled_coordinates_function><independent_coordinate_names>pin</independent_coordinate_names>
  <dependent_coordinate_name>slide</dependent_coordinate_name>
  <scale_factor>2</scale_factor></CoordinateCouplerConstraint>"""


def coordinate(name):
    stuck = "<default_value>0.6</default_value><locked>true</locked>" if name == "stuck" else ""
    return f'<Coordinate name="{name}">{stuck}<range>-1 2</range></Coordinate>'


def model_file(joints=JOINTS, constraints=COUPLER):
    bodies, made, parent = "", "", "/ground"
    for k, (kind, (names, before, after)) in enumerate(joints.items()):
        bodies += (
            f'<Body name="body{k}"><mass>{1 + k}</mass>'
            f"<mass_center>0.1 {0.1 * k} -0.2</mass_center>"
            "<inertia>0.5 0.6 0.7 0.02 -0.03 0.01</inertia></Body>"
        )
        made += f"""<{kind} name="joint{k}">
          <socket_parent_frame>before</socket_parent_frame>
          <socket_child_frame>after</socket_child_frame>
          <coordinates>{"".join(map(coordinate, names.split()))}</coordinates>
          <frames>
            <PhysicalOffsetFrame name="between"><socket_parent>{parent}</socket_parent>
              <translation>0.1 0 0.2</translation><orientation>0 0.1 0</orientation>
            </PhysicalOffsetFrame>
            <PhysicalOffsetFrame name="before"><socket_parent>../between</socket_parent>
              <translation>0 0.3 0</translation><orientation>{before}</orientation>
            </PhysicalOffsetFrame>
            <PhysicalOffsetFrame name="after"><socket_parent>/bodyset/body{k}</socket_parent>
              <translation>0 {0.1 * (k % 2)} 0.05</translation><orientation>{after}</orientation>
            </PhysicalOffsetFrame>
          </frames>{MORE.get(kind, "")}</{kind}>"""
        parent = f"/bodyset/body{k}"
    return f"""<OpenSimDocument Version="40000"><Model name="all">
      <gravity>0 -9.8 0.5</gravity>
      <BodySet><objects>{bodies}</objects></BodySet>
      <JointSet><objects>{made}</objects></JointSet>
      <ConstraintSet><objects>{constraints}</objects></ConstraintSet>
      <MarkerSet><objects><Marker name="tip"><location>0.1 0.2 0.3</location>
        <socket_parent_frame>/jointset/joint1/after</socket_parent_frame></Marker></objects></MarkerSet>
      <ContactGeometrySet><objects>
        <ContactSphere name="heel"><socket_frame>/bodyset/body2</socket_frame>
          <radius>0.03</radius><location>0.1 0 0</location></ContactSphere>
        <ContactHalfSpace name="floor"><socket_frame>/ground</socket_frame>
          <orientation>0 0 -1.5707963267948966</orientation></ContactHalfSpace>
      </objects></ContactGeometrySet>
      <ForceSet><objects><Thelen2003Muscle name="soleus"/></objects></ForceSet>
    </Model></OpenSimDocument>"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "all.osim"
    found.write_text(model_file())
    return found


def test_all_kinds_of_joints(path):
    plain, tree = Plain(path), ks.osim.read(path)
    free = [name for name in plain.free() if name != "stuck"]
    assert [*tree.coordinates] == free and tree.fixed == {"stuck": 0.6}
    model = tree.parametrised().model(
        outputs=[
            "places",
            "attitudes",
            {
                f"tip_{axis}": e
                for axis, e in zip("xyz", tree.parametrised().markers["tip"], strict=True)
            },
        ]
    )
    q = poses(plain, 20)
    found = dict(zip(model.outputs, interpreted(model, model.outputs.values(), q), strict=True))
    n = len(free)
    for k in range(20):
        here = {name: row[k] for name, row in q.items()} | {"stuck": 0.6}
        places = plain.places(here)
        for body in plain.bodies:
            ours = [found[f"{body}_place_{axis}"][k] for axis in "xyz"]
            np.testing.assert_allclose(ours, places[body][:3, 3].real, rtol=0, atol=1e-11)
            turn = [[found[f"{body}_attitude_{i}{j}"][k] for j in "xyz"] for i in "xyz"]
            np.testing.assert_allclose(turn, places[body][:3, :3].real, rtol=0, atol=1e-12)
        after = plain.joints["body1"][4]
        tip = (places["body1"] @ after @ [0.1, 0.2, 0.3, 1.0]).real
        np.testing.assert_allclose([found[f"tip_{axis}"][k] for axis in "xyz"], tip[:3], atol=1e-11)
        if k < 3:
            rates = {f"{x}_speed": row for x, row in zip(free, np.eye(n, n + 1, 1), strict=True)}
            rows = interpreted(model, model.equations[n:], here, rates)
            mass, expected = rows[:, 1:] - rows[:, :1], plain.mass_matrix(here, free)
            np.testing.assert_allclose(mass, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def value(text, *at):
    """Of a function in a file."""
    variables = sp.symbols(f"x:{len(at)}")
    e = expression(function_of(fromstring(text)), variables)
    return float(e.subs(dict(zip(variables, at, strict=True))))


#: Of GCVSpline in OpenSim 4.6 through sin(2 x) + 0.1 x^2 at x of `POINTS`, by half of the order.
OPENSIM = {
    1: {-2.0: -0.809297, -0.7: -0.755327, 0.77: 0.866154, 3.0: -0.356802},
    2: {-2.0: -0.523465, -0.7: -0.860117, 0.77: 1.04969, 3.0: -1.980016},
    3: {-2.0: 2.315877, -0.7: -0.934146, 0.77: 1.063562, 3.0: -1.838558},
}


def test_functions_by_points():
    """Beyond their ends, too."""
    x = np.array([-1, -0.4, 0.1, 0.3, 1, 1.2, 2])
    points = POINTS.format(y=" ".join(map(repr, (np.sin(2 * x) + 0.1 * x**2).tolist())))
    for half, expected in OPENSIM.items():
        for at, y in expected.items():
            assert value(SPLINE.format(half=half, points=points), at) == pytest.approx(y, abs=6e-7)
    step = f"<PiecewiseConstantFunction>{POINTS.format(y=VALUES)}</PiecewiseConstantFunction>"
    places = (-2.0, -0.6, 0.2, 0.9, 1.9, 3.0)
    assert [value(step, at) for at in places] == [-0.8, -0.8, 0.2, 0.57, 0.8, -0.36]
    line = f"<PiecewiseLinearFunction>{POINTS.format(y=VALUES)}</PiecewiseLinearFunction>"
    assert value(line, -2.0) == pytest.approx(-0.8 - 0.1 / 0.6)
    assert value(line, 3.0) == pytest.approx(-0.36 - 1.16 / 0.8)


def test_polynomials_of_several_coordinates():
    """Powers of the last coordinate rise first."""
    text = (
        "<MultivariatePolynomialFunction><coefficients>{}</coefficients><dimension>3</dimension>"
        "<order>2</order></MultivariatePolynomialFunction>"
    )
    x, y, z = 0.3, -0.7, 1.9
    found = value(text.format("1 2 3 4 5 6 7 8 9 10"), x, y, z)
    terms = [1, z, z**2, y, y * z, y**2, x, x * z, x * y, x**2]
    assert found == pytest.approx(np.arange(1, 11) @ terms, rel=1e-14)
    with pytest.raises(ValueError, match="has 9 coefficients, which is not the number of terms"):
        value(text.format("1 2 3 4 5 6 7 8 9"), x, y, z)
    with pytest.raises(ValueError, match="a multivariate function does not fit 2 coordinates"):
        value(text.format("1 2 3 4 5 6 7 8 9 10"), x, y)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<error_variance>0<", "<error_variance>0.1<", "GCVSpline smooths its points"),
        ("<half_order>3<", "<half_order>4<", "half_order is one of 1, 2, 3, got 4"),
        (POINTS.format(y=VALUES), "<x>0 1 2</x><y>1 2 3</y>", "has 3 points, not 6 or more"),
    ],
)
def test_splines_that_are_not_known(old, new, said):
    text = SPLINE.format(half=3, points=POINTS.format(y=VALUES))
    assert old in text
    with pytest.raises(ValueError, match=said):
        value(text.replace(old, new), 0.5)


@pytest.mark.parametrize(("kind", "said"), [("Linear", "corners"), ("Constant", "jumps")])
def test_what_is_not_smooth_is_said(path, kind, said):
    rough = f"<Piecewise{kind}Function>{POINTS.format(y=VALUES)}</Piecewise{kind}Function>"
    path.write_text(path.read_text().replace("<Constant><value>0.25</value></Constant>", rough))
    path.write_text(path.read_text().replace('"translation3"><coordinates>', '"t"><coordinates>a'))
    with pytest.warns(UserWarning, match=f"all: joint joint6 moves by a function that .*{said}"):
        ks.osim.read(path)


@pytest.mark.parametrize("kind", SURFACES)
def test_joints_on_ellipsoids(tmp_path, kind):
    path = tmp_path / "surface.osim"
    joints = {"PinJoint": ("pin", "0.1 0.2 0.3", "0 0 0"), kind: SURFACES[kind]}
    joints["WeldJoint"] = ("", "0 0 0", "0 0 0")
    path.write_text(model_file(joints, ""))
    plain, tree = Plain(path), ks.osim.read(path)
    assert [*tree.coordinates] == plain.free()
    made, q = tree.parametrised().model(outputs=["places", "attitudes"]), poses(plain, 20)
    found = dict(zip(made.outputs, interpreted(made, made.outputs.values(), q), strict=True))
    for k in range(20):
        place = plain.places({name: row[k] for name, row in q.items()})["body1"].real
        ours = [found[f"body1_place_{axis}"][k] for axis in "xyz"]
        np.testing.assert_allclose(ours, place[:3, 3], atol=1e-13)
        turn = [[found[f"body1_attitude_{i}{j}"][k] for j in "xyz"] for i in "xyz"]
        np.testing.assert_allclose(turn, place[:3, :3], atol=1e-13)
    for old, new, said in (
        ("0.1 0.2 0.3</r", "0.1 0 0.3</r", "radii must be positive"),
        ("0.1 0.2 0.3</thor", "0.1 0 0.3</thor", "radii must be positive"),
        ("0.05 -0.02<", "0.05<", "the origin of the winging axis is two numbers"),
        ('<Coordinate name="elevation">', '<Other name="elevation">', "4 coordinates|no XML"),
    ):
        if old in path.read_text():
            (tmp_path / "wrong.osim").write_text(path.read_text().replace(old, new))
            with pytest.raises(ValueError, match=said):
                ks.osim.read(tmp_path / "wrong.osim")


def test_what_is_no_equation(path):
    tree = ks.osim.read(path, locked=["a", "b"])
    assert tree.fixed == {"a": 0.0, "b": 0.0} and "stuck" in tree.coordinates
    assert tree.ranges["pin"] == (-1.0, 2.0) and tree.defaults["stuck"] == 0.6
    tables = tree.description
    assert tables.spheres[0].center == (0.1, 0.0, 0.0) and tables.spheres[0].radius == 0.03
    np.testing.assert_allclose(tables.half_spaces[0].normal, (0, 1, 0), atol=1e-15)
    assert [e.get("name") for e in tables.forces] == ["soleus"]
    assert tree.inputs["tx_speed"] == "tx_force" and tree.inputs["pin_speed"] == "pin_moment"


@pytest.mark.parametrize("read", [ks.osim.read, ks.urdf.read, ks.osim.read_tasks])
def test_files_made_to_be_slow_or_large(tmp_path, monkeypatch, read):
    """Comments that never end are looked through once, what is packed is unpacked to a limit, and
    nothing is nested without one."""
    path, more = tmp_path / "a.xml.gz", [None] * (read is ks.osim.read_tasks)
    if more:
        more = [ks.osim.read(data("opensim_arm26.osim.gz"))]
    slow = "<robot>\n<!-- a --> <!-- b" + "<!--" * 500_000 + "</robot>"
    for written, said in (
        (slow, r"a\.xml\.gz: it is no XML file: the comment that begins in line 2 has no end"),
        (f"{'<a>' * 9000}{'</a>' * 9000}", "within one another, more than 500 deep"),
        (" " * (3 << 20), "unpacks to more than 2 MB"),
        ('<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;</a>', "declares ent"),
    ):
        path.write_bytes(gzip.compress(written.encode()))
        monkeypatch.setattr("kinesym.base.checks._UNPACKED", 2 << 20)
        with pytest.raises(ValueError, match=said):
            read(path, *more)


def test_names_that_are_none_are_changed(path):
    path.write_text(path.read_text().replace('"pin"', '"pin.1"').replace(">pin<", ">pin.1<"))
    assert "pin_1" in ks.osim.read(path).coordinates


def test_degrees_and_missing_coordinates(path):
    tree, time = ks.osim.read(path), np.linspace(0.0, 1.0, 7)
    still = {name: np.full(7, 0.2) for name in tree.coordinates if name != "b1"}
    radians = ks.inverse_dynamics(tree, {"time": time, **still})
    slides = {"tx", "ty", "tz", "p2", "p3"}
    degrees = {n: row if n in slides else np.rad2deg(row) for n, row in still.items()}
    again = ks.inverse_dynamics(tree, Table(time, degrees, True, {}))
    for name in radians:
        np.testing.assert_allclose(again[name], radians[name], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<OpenSimDocument", "<Other", "no XML"),
        ("<Model.*</Model>", "", "it has no Model of OpenSim"),
        ("SliderJoint", "ScrewJoint", "joints of the kind ScrewJoint .joint2. are not known"),
        ("PolynomialFunction", "Spiral", "CustomJoint joint6: rotation2.*the kind Spiral"),
        ("<mass>3</mass>", "<mass>x</mass>", "Body body2: mass must be numbers, got 'x'"),
        ("/bodyset/body3<", "/bodyset/body9<", "body9 is no body and no frame of a joint"),
        (
            '<Body name="body0">',
            '<Body name="lost"><mass>1</mass></Body>\\g<0>',
            "lost has no joint",
        ),
        ("<y>0.1 0.3 0.2</y>", "<y>0.1 0.3</y>", "SimmSpline has 3 points and 2 values"),
        (">/ground<", ">/bodyset/body1<", "joint joint0 is in a circle of joints"),
        (">/bodyset/body7<", ">/bodyset/body6<", "body body6 has two joints, joint6 and joint7"),
        (">b</coordinates>", ">c</coordinates>", "c is no coordinate"),
        (
            "0.5 0.6 0.7 0.02 -0.03 0.01",
            "1 1 1 0 0 0 0",
            "Body body0: 6 numbers are expected, got 7",
        ),
        (">pin<", ">slide<", "the couplers of slide go in a circle"),
        ("<axis>0 1 0.5<", "<axis>0 0 0<", "CustomJoint joint6: translation2: its axis is zero"),
        ("<locked>true", "<locked>perhaps", "locked is true or false, got 'perhaps'"),
        ('<Coordinate name="u2">.*?</Coordinate>', "", "joint3 has 1 coordinates in place of 2"),
    ],
)
def test_what_is_wrong_is_named(path, old, new, said):
    text, count = re.subn(old, new, path.read_text(), flags=re.DOTALL)
    assert count
    path.write_text(text)
    with pytest.raises(ValueError, match=said) as caught:
        ks.osim.read(path)
    assert str(path) in str(caught.value)


def test_what_is_left_out_is_said(path):
    line = '<PointOnLineConstraint name="seat"/><CoordinateCouplerConstraint'
    path.write_text(path.read_text().replace("<CoordinateCouplerConstraint", line, 1))
    with pytest.warns(UserWarning, match="all: constraint PointOnLineConstraint seat is left out"):
        ks.osim.read(path)
    with pytest.raises(ValueError, match="locked: pim is no coordinate of all; did you mean pin"):
        ks.osim.read(path, locked=["pim"])


#: A chain whose last body is held at a point; or welded to the world between turned frames, in
#: files of version 4, and as those before it say the same.
CHAIN = {
    "PinJoint": ("one", "0.1 0.2 0.3", "0 0 0"),
    "UniversalJoint": ("u1 u2", "0.5 -0.5 0", "0.5 -0.5 0"),
    "SliderJoint": ("slide", "0 0 0", "0.4 0 -0.2"),
    "GimbalJoint": ("g1 g2 g3", "0 0.3 0", "0.2 0 0"),
    "PlanarJoint": ("p1 p2 p3", "0.3 0 0", "0 0 0"),
}
HELD = """<PointConstraint name="tip"><socket_body_1>/ground</socket_body_1>
  <socket_body_2>/bodyset/body4</socket_body_2><location_body_1>-0.3 1.7 0.6</location_body_1>
  <location_body_2>0.1 0.2 -0.1</location_body_2></PointConstraint>"""
WELDED = """<WeldConstraint name="tip"><socket_frame1>floor</socket_frame1>
  <socket_frame2>/jointset/joint4/before</socket_frame2>
  <frames><PhysicalOffsetFrame name="floor"><socket_parent>/ground</socket_parent>
    <translation>0.05 1.4 0.7</translation><orientation>-0.9 0.8 1.6</orientation>
  </PhysicalOffsetFrame></frames></WeldConstraint>"""
OLD = """<WeldConstraint name="tip"><body_1>ground</body_1><body_2>body3</body_2>
  <location_body_1>0.05 1.4 0.7</location_body_1>
  <orientation_body_1>-0.9 0.8 1.6</orientation_body_1>
  <location_body_2>{at}</location_body_2><orientation_body_2>{angles}</orientation_body_2>
  </WeldConstraint>"""


def turned(row):
    """The rotation of a frame, from Bryant angles."""
    return np.array([list(map(float, line)) for line in row])


def test_points_and_welds_close_loops(tmp_path):
    path = tmp_path / "chain.osim"
    path.write_text(model_file(CHAIN, HELD))
    held = ks.osim.read(path)
    assert [(c.name, c.kind, c.body, c.other) for c in held.closures] == [
        ("tip", "point", "body4", None)
    ]
    assert not held.redundant and "tip_fx" in held.model().state_names
    path.write_text(model_file(CHAIN, WELDED))
    welded = ks.osim.read(path)
    model = welded.model(outputs=["places", "attitudes"])
    start = {name: 0.2 if name in welded.coordinates else 0.0 for name in model.state_names}
    start = ks.consistent(model, [0.0, 1.0], start, keep=[])
    found = dict(zip(model.outputs, interpreted(model, model.outputs.values(), start), strict=True))
    turn = np.array([[found[f"body3_attitude_{i}{j}"][0] for j in "xyz"] for i in "xyz"])
    (loop,) = ks.osim.parse(path).loops
    expected = turned(loop.first.turn) @ turned(loop.second.turn).T
    np.testing.assert_allclose(turn, expected, atol=1e-9)
    place = np.array([found[f"body3_place_{axis}"][0] for axis in "xyz"])
    np.testing.assert_allclose(place + turn @ loop.second.at, loop.first.at, atol=1e-9)
    angles = Rotation.from_matrix(turned(loop.second.turn)).as_euler("XYZ")
    words = [" ".join(map(repr, map(float, row))) for row in (loop.second.at, angles)]
    path.write_text(model_file(CHAIN, OLD.format(at=words[0], angles=words[1])))
    (old,) = ks.osim.parse(path).loops
    for end, other in ((old.first, loop.first), (old.second, loop.second)):
        assert end.body == other.body
        np.testing.assert_allclose(end.at, other.at, atol=1e-14)
        np.testing.assert_allclose(turned(end.turn), turned(other.turn), atol=1e-14)


def test_loops_are_left_out_by_name(tmp_path):
    path = tmp_path / "chain.osim"
    path.write_text(model_file(CHAIN, HELD))
    time = np.linspace(0.0, 1.0, 7)
    still = {"time": time, **dict.fromkeys(ks.osim.read(path).coordinates, np.zeros(7))}
    with pytest.raises(ValueError, match=r"closed loops \(tip\).*without="):
        ks.inverse_dynamics(ks.osim.read(path), still)
    open_ = ks.osim.read(path, without=["tip"])
    assert not open_.closures and ks.inverse_dynamics(open_, still)["slide_force"].shape == (7,)
    with pytest.raises(ValueError, match="without: top is no constraint of all; did you mean tip"):
        ks.osim.read(path, without=["top"])
    path.write_text(model_file())
    assert "slide" in ks.osim.read(path, without=["follows"]).coordinates
    path.write_text(model_file(CHAIN, HELD.replace("/bodyset/body4", "/ground")))
    with pytest.raises(ValueError, match="constraint tip holds the ground by itself"):
        ks.osim.read(path)


def test_impossible_inertia_is_taken_as_it_is(path):
    path.write_text(path.read_text().replace("0.5 0.6 0.7 0.02 -0.03 0.01", "1 2 7 0 0 0", 1))
    with pytest.warns(UserWarning, match=r"body body0: no body has .* taken as they are"):
        tree = ks.osim.read(path)
    assert [float(tree.bodies[0].inertia[k][k]) for k in range(3)] == [1.0, 2.0, 7.0]
    assert tree.parametrised().model().parameter_names
    path.write_text(path.read_text().replace("1 2 7 0 0 0", "1 2 3 4 0 0"))
    with pytest.raises(ValueError, match=r"body body0: .*moments"):
        ks.osim.read(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.pop("time"), "the motion has no 'time'"),
        (lambda m: m.update(time=m["time"][:4]), "a motion needs 6 samples or more, got 4"),
        (lambda m: m.update(pin=m["pin"][:4]), "pin must be 7 finite numbers"),
        (lambda m: m.update(pin=np.full(7, np.nan)), "pin must be 7 finite numbers"),
    ],
)
def test_motions_that_are_none(path, change, said):
    tree = ks.osim.read(path)
    motion = {"time": np.linspace(0, 1, 7), **dict.fromkeys(tree.coordinates, np.zeros(7))}
    change(motion)
    with pytest.raises(ValueError, match=said):
        ks.inverse_dynamics(tree, motion)


def test_trees_without_inverse_dynamics(path):
    time = np.linspace(0, 1, 7)
    ball = Tree("ball", [Body("arm", 1, (0, 0, 1), (1, 1, 1), Spherical())])
    with pytest.raises(ValueError, match="the speeds of arm are no rates of its coordinates"):
        ks.inverse_dynamics(ball, {"time": time})
    closed = ks.osim.read(path).close("body7", at=(0, 0, 1))
    with pytest.raises(ValueError, match="all has closed loops"):
        ks.inverse_dynamics(closed, {"time": time})
    wrench = ks.gait.Wrench.zero(time)
    with pytest.raises(ValueError, match="wrenches: there is no body 'foot'"):
        ks.inverse_dynamics(ks.osim.read(path), {"time": time}, {"foot": wrench})


def test_loads_that_are_none(tmp_path):
    (tmp_path / "f.mot").write_text(
        "f\nnRows=2\nnColumns=4\nendheader\ntime\tgvx\tgvy\tgvz\n0\t1\t2\t3\n1\t1\t2\t3\n"
    )
    loads = (
        "<ExternalLoads><objects><ExternalForce name='left'><applied_to_body>foot</applied_to_body>"
        "<force_identifier>gv</force_identifier></ExternalForce></objects>"
        "<datafile>f.mot</datafile></ExternalLoads>"
    )
    path = tmp_path / "loads.xml"
    path.write_text(loads)
    found = ks.osim.read_loads(path)
    np.testing.assert_allclose(found["foot"].force, [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_allclose(found["foot"].moment, 0.0)
    for old, new, said in (
        (">gv<", ">gq<", "names the columns 'gq', but 0 of its data begin so"),
        ("ExternalLoads", "Other", "is no ExternalLoads file"),
        (
            "<force_id",
            "<force_expressed_in_body>foot</force_expressed_in_body><force_id",
            "left is given in axes of a body",
        ),
    ):
        path.write_text(loads.replace(old, new))
        with pytest.raises(ValueError, match=said):
            ks.osim.read_loads(path)


def test_both_readers_of_loads_agree(tmp_path):
    """Torques too, whose columns have an underscore that the file leaves out, as in OpenSim's own
    example; forces that are switched off are none."""
    path = data("opensim_subject01_forces.xml")
    turn = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])  # y up to z up
    loads, plates = ks.osim.read_loads(path), ks.gait.read_forces(path)
    for name, wrench in plates.items():
        standing = wrench.force[2] > 20.0
        about = turn @ loads[name].moment
        np.testing.assert_allclose(
            wrench.force[:, standing], (turn @ loads[name].force)[:, standing]
        )
        np.testing.assert_allclose(wrench.moment[:, standing], about[:, standing], atol=1e-9)
    table = path.parent / "opensim_subject01_forces.mot.gz"
    (tmp_path / table.name).write_bytes(table.read_bytes())
    text = path.read_text().replace("<appliesForce>true", "<appliesForce>false", 1)
    (tmp_path / "one.xml").write_text(text)
    assert list(ks.gait.read_forces(tmp_path / "one.xml")) == ["calcn_l"]
    assert list(ks.osim.read_loads(tmp_path / "one.xml")) == ["calcn_l"]
