"""Elements of OpenSim's files that are written in several ways, or seldom: each is the same as what
the test says in the usual way, or as a formula of its own."""

import re
import warnings

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.spatial.transform import Rotation
from test_osim import interpreted  # beside this file
from test_osim_files import CHAIN, CUSTOM, JOINTS, MORE, model_file
from test_stretched import factors_of, stretched

import kinesym as ks
from kinesym.models.files.osim import Reader

PLAIN = {"CustomJoint": JOINTS["CustomJoint"], "PinJoint": JOINTS["PinJoint"]}


def small(joints):
    """A file with these joints, whose sphere and marker are on the first body."""
    text = model_file(joints, "").replace("/jointset/joint1/after", "/bodyset/body0")
    return text.replace("<socket_frame>/bodyset/body2", "<socket_frame>/bodyset/body0")


def described(path, text):
    path.write_text(text)
    return ks.osim.parse(path)


def same(one, two):
    """Whether two files have the same tables of bodies, joints and markers."""
    return (one.bodies, one.joints, one.markers) == (two.bodies, two.joints, two.markers)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.osim"


def axes_file(function):
    """A joint whose last rotation has this in place of a function, and whose others have none."""
    axes = "".join(
        f'<TransformAxis name="{kind}{k}"><coordinates>{"q" * (kind + str(k) == "rotation3")}'
        f"</coordinates><axis>{' '.join(str(int(i == k)) for i in (1, 2, 3))}</axis>"
        f"{function if kind + str(k) == 'rotation3' else '<function/>'}</TransformAxis>"
        for kind in ("rotation", "translation")
        for k in (1, 2, 3)
    )
    return f"""<OpenSimDocument Version="40000"><Model name="m"><BodySet><objects>
      <Body name="leg"><mass>3</mass><mass_center>0 -0.2 0</mass_center>
      <inertia>0.05 0.01 0.05 0 0 0</inertia></Body></objects></BodySet><JointSet><objects>
      <CustomJoint name="hip"><socket_parent_frame>/ground</socket_parent_frame>
      <socket_child_frame>/bodyset/leg</socket_child_frame>
      <coordinates><Coordinate name="q"/></coordinates><SpatialTransform>{axes}</SpatialTransform>
      </CustomJoint></objects></JointSet></Model></OpenSimDocument>"""


def test_axes_without_a_function(path):
    """Are the coordinate itself, or nothing."""
    line = "<function><LinearFunction><coefficients>1 0</coefficients></LinearFunction></function>"
    usual = described(path, axes_file(line))
    for said in ("", "<function/>", "<function></function>"):
        assert same(described(path, axes_file(said)), usual)
    assert [*ks.osim.read(path).coordinates] == ["q"]
    two = axes_file("").replace(">q<", ">q p<").replace(
        '<Coordinate name="q"/>', '<Coordinate name="q"/><Coordinate name="p"/>')  # fmt: skip
    with pytest.raises(ValueError, match="hip: rotation3 has no function of its 2 coordinates"):
        described(path, two)


def test_coordinates_that_are_not_listed(path):
    """Have the names that OpenSim gives them."""
    usual = small(CHAIN)
    bare, count = re.subn(r"<coordinates>\s*<Coordinate.*?</coordinates>", "", usual)
    assert count == len(CHAIN)
    found = described(path, bare)
    assert [*found.coordinates] == [
        *("joint0_coord_0", "joint1_coord_0", "joint1_coord_1", "joint2_coord_0"),
        *(f"joint{k}_coord_{i}" for k in (3, 4) for i in range(3)),
    ]
    old = {n: q for n, q in zip(described(path, usual).coordinates, found.coordinates, strict=True)}
    again = re.sub(r'(Coordinate name=")(\w+)"', lambda m: f'{m[1]}{old[m[2]]}"', usual)
    again = re.sub("<range>.*?</range>", "", again)
    assert same(described(path, again), found)
    custom, count = re.subn(
        r'<coordinates><Coordinate name="a".*?</Coordinate></coordinates>', "",
        small(PLAIN))  # fmt: skip
    assert count and [*described(path, custom).coordinates] == ["a", "b", "stuck", "pin"]


def connected(text, form):
    """A file as those of versions 30500 to 30516 are."""
    if form == "elements":
        for kind in ("parent_frame", "child_frame", "parent"):
            text = re.sub(
                rf"<socket_{kind}>(.*?)</socket_{kind}>",
                rf'<connectors><Connector_PhysicalFrame_ name="{kind}"><connectee_name>\1'
                "</connectee_name></Connector_PhysicalFrame_></connectors>",
                text,
            )
        text = re.sub(r"</connectors>\s*<connectors>", "", text)
    else:
        text = re.sub(r"(</?)socket_(parent_frame|child_frame|parent)>", form, text)
    return text


@pytest.mark.parametrize(
    "form", ["elements", r"\1connector_\2_connectee_name>", r"\1socket_\2_connectee_name>"]
)
def test_connectors_are_sockets(path, form):
    usual = model_file()
    found = described(path, connected(usual, form))
    assert "socket_parent_frame>" not in connected(usual, form)
    assert same(found, described(path, usual))


def test_distances_of_joints_from_their_bodies(path):
    """As files of versions 30500 to 30504 have them."""
    usual = small(CHAIN).replace("../between", "/ground")
    early = re.sub(r"<frames>.*?</frames>", "", usual, flags=re.DOTALL)
    for k, (kind, (_, before, after)) in enumerate(CHAIN.items()):
        parent = f"body{k - 1}" if k else "ground"
        ends = f"""<connectors><Connector_PhysicalFrame_ name="parent_body"><connectee_name>{parent}
          </connectee_name></Connector_PhysicalFrame_><Connector_PhysicalFrame_ name="child_body">
          <connectee_name>body{k}</connectee_name></Connector_PhysicalFrame_></connectors>
          <location_in_parent>0 0.3 0</location_in_parent>
          <orientation_in_parent>{before}</orientation_in_parent>
          <location_in_child>0 {0.1 * (k % 2)} 0.05</location_in_child>
          <orientation_in_child>{after}</orientation_in_child>"""
        early = re.sub(
            rf'(<{kind} name="joint{k}">).*?</socket_child_frame>', rf"\1{ends}", early,
            flags=re.DOTALL)  # fmt: skip
    found, parts = described(path, early), []
    for k, (_, (_, before, after)) in enumerate(CHAIN.items()):
        joint = found.joints[k]
        turns = [
            Rotation.from_euler("XYZ", [float(a) for a in angles.split()]).as_matrix()
            for angles in (before, after)
        ]
        np.testing.assert_allclose(joint.parent.turn, turns[0], atol=1e-15)
        np.testing.assert_allclose(joint.child.turn, turns[1], atol=1e-15)
        parts.append((joint.parent.body, joint.parent.at, joint.child.body, joint.child.at))
    assert parts == [
        (f"body{k - 1}" if k else None, (0, 0.3, 0), f"body{k}", (0, 0.1 * (k % 2), 0.05))
        for k in range(len(CHAIN))
    ]


def among_components(text):
    """A file without sets: bodies, joints and markers belong to the model."""
    text = re.sub(r"</?(BodySet|JointSet|MarkerSet)>(<objects>|</objects>)?", "", text)
    text = re.sub(r"(</\w*Joint>)\s*</objects>(\s*<ConstraintSet>)", r"\1</components>\2", text)
    text = text.replace("<Body name", "<components><Body name", 1)
    text = re.sub(r"</Body></objects>", "</Body>", text)
    text = re.sub(
        r"(<Marker .*?</Marker>)</objects>", r"<components>\1</components>", text, flags=16
    )
    text = text.replace("</components>\n      <ConstraintSet>", "</components><ConstraintSet>")
    return text.replace("/bodyset/", "/").replace("/jointset/", "/")


def test_bodies_and_joints_among_components(path):
    usual = model_file()
    text = among_components(usual)
    assert "BodySet" not in text and "JointSet" not in text and "/bodyset" not in text
    assert same(described(path, text), described(path, usual))


def exchanged(text):
    """A file whose joints have their frames exchanged, and say so."""
    joints, sets, rest = text.partition("<ConstraintSet>")
    joints = re.sub(r"socket_(parent|child)_frame", r"socket_\1@", joints)
    joints = joints.replace("parent@", "child_frame").replace("child@", "parent_frame")
    end = "</socket_parent_frame>"
    return joints.replace(end, f"{end}<reverse>true</reverse>") + sets + rest


def test_reversed_joints(path):
    """`reverse` exchanges the frames; joints against the direction of the tree go back."""
    usual = model_file(JOINTS | {"GimbalJoint": ("g1 g2 g3", "0.1 0 0", "0 0.2 0")}, "")
    text = exchanged(usual)
    assert same(described(path, text), described(path, usual))
    # as OpenSim 4 opens what has no `reverse`: ground as a child
    forth = {kind: JOINTS[kind] for kind in ("FreeJoint", "CustomJoint")}
    for kind, (names, *angles) in forth.items():
        one = small({kind: (names, *angles)})
        back = one.replace("socket_parent_frame>before", "socket_child_frame>before", 1)
        back = back.replace("before</socket_parent", "before</socket_child", 1)
        back = back.replace("socket_child_frame>after", "socket_parent_frame>after", 1)
        back = back.replace("after</socket_child", "after</socket_parent", 1)
        places = []
        for text in (one, back):
            path.write_text(text)
            tree = ks.osim.read(path)
            model = tree.model(outputs=["places", "attitudes"])
            q = {name: 0.1 + 0.2 * k for k, name in enumerate(tree.coordinates)}
            rows = interpreted(model, model.outputs.values(), {n: [v] for n, v in q.items()})
            values = dict(zip(model.outputs, np.ravel(rows), strict=True))
            T = np.eye(4)
            T[:3, 3] = [values[f"body0_place_{a}"] for a in "xyz"]
            T[:3, :3] = [[values[f"body0_attitude_{i}{j}"] for j in "xyz"] for i in "xyz"]
            frames = [matrix(ks.osim.parse(path), end) for end in ("before", "after")]
            places.append(np.linalg.inv(frames[0]) @ T @ frames[1])
        # from before to after, and back
        np.testing.assert_allclose(places[0] @ places[1], np.eye(4), atol=1e-12)


def matrix(described, end):
    """A frame of the first joint in the axes of its body."""
    frame = Reader(described.element).frame(end, "joint0")
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = frame.turn, frame.at
    return T


def test_what_is_not_stretched_is_named(path):
    """What has places or directions that scaling does not change, rather than being left behind."""
    usual = small(PLAIN)
    for text, said in (
        (among_components(model_file()), "Body body0 of all is of a kind that is not stretched"),
        (connected(usual, "elements"), "joint0 of all is of a kind|before of all is of a kind"),
        (exchanged(usual), "joint0 of all"),
    ):
        path.write_text(text.replace("ThelenMuscle", "X"))
        tree = ks.osim.read(path)
        with pytest.raises(ValueError, match=said):
            stretched(tree, factors_of(tree, True))
    path.write_text(axes_file(""))
    made, _ = stretched(ks.osim.read(path), {"leg": (2.0, 2.0, 2.0)})
    assert made.place("leg") == ks.osim.read(path).place("leg")  # the coordinate is one still


#: Sockets of a frame through stations.
POINTS = ("point_a", "point_b", "point_c", "origin_point")


@pytest.mark.parametrize(
    ("first", "second", "columns"),
    [("+x", "+y", (0, 1, 2)), ("-z", "x", (2, 0, 1)), ("y", "-x", (1, 0, 2))],
)
def test_frames_through_stations(path, first, second, columns):
    """The axes that OpenSim 4.5 makes of three points, found as a frame at a distance."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(4, 3))
    a, b, c, at = points
    rows = {0: b - a, 1: np.cross(b - a, c - a)}
    rows = {k: v / np.linalg.norm(v) for k, v in rows.items()}
    rows[2] = np.cross(rows[0], rows[1])
    signs = [-1.0 if "-" in first else 1.0, -1.0 if "-" in second else 1.0]
    turn = np.zeros((3, 3))
    turn[:, columns[0]], turn[:, columns[1]] = signs[0] * rows[0], signs[1] * rows[1]
    turn[:, columns[2]] = np.cross(turn[:, (columns[2] + 1) % 3], turn[:, (columns[2] + 2) % 3])
    angles = Rotation.from_matrix(turn).as_euler("XYZ")
    usual = small({"PinJoint": JOINTS["PinJoint"]})

    def said(v):
        return " ".join(repr(float(x)) for x in v)

    offset = re.sub(
        r'(name="after">.*?)<translation>.*?</orientation>',
        rf"\1<translation>{said(at)}</translation><orientation>{said(angles)}</orientation>",
        usual, flags=re.DOTALL)  # fmt: skip
    stations = "".join(
        f'<Station name="{name}"><socket_parent_frame>..</socket_parent_frame>'
        f"<location>{said(v)}</location></Station>"
        for name, v in zip("abco", points, strict=True)
    )
    sockets = "".join(
        f"<socket_{name}>/bodyset/body0/{letter}</socket_{name}>"
        for name, letter in zip(POINTS, "abco", strict=True)
    )
    made = (
        f'<components><StationDefinedFrame name="s">{sockets}<ab_axis>{first}</ab_axis>'
        f"<ab_x_ac_axis>{second}</ab_x_ac_axis></StationDefinedFrame>{stations}</components></Body>"
    )
    by = usual.replace("</Body>", made).replace(">after</socket", ">/bodyset/body0/s</socket")
    found, expected = described(path, by).joints[0], described(path, offset).joints[0]
    assert found.child.body == expected.child.body
    np.testing.assert_allclose(found.child.at, expected.child.at, atol=1e-15)
    np.testing.assert_allclose(found.child.turn, expected.child.turn, atol=1e-14)
    for old, new, words in (
        ("body0/b<", "body0/x<", "s: /bodyset/body0/x is no station and no marker"),
        ("body0/b<", "body0/a<", "its points a, b and c make no triangle"),
        (f"<ab_axis>{first}", f"<ab_axis>{second}", "ab_axis and ab_x_ac_axis are the same axis"),
        (f"<ab_axis>{first}", "<ab_axis>up", "an axis is one of x, y, z with a sign, got 'up'"),
        ("<socket_parent>../between<", "<socket_parent>before<", "joint0/before is on itself"),
    ):
        with pytest.raises(ValueError, match=words):
            described(path, by.replace(old, new))


MORE["ConstantCurvatureJoint"] = (
    "<neutral_angle_x_z_y>0.1 -0.2 0.3</neutral_angle_x_z_y><length>0.4</length>"
)


def arc_file():
    """A joint between origins, and nothing turned."""
    return (
        small({"ConstantCurvatureJoint": ("qx qz qy", "0 0 0", "0 0 0")})
        .replace("<translation>0.1 0 0.2<", "<translation>0 0 0<")
        .replace("<orientation>0 0.1 0<", "<orientation>0 0 0<")
        .replace("<translation>0 0.3 0<", "<translation>0 0 0<")
        .replace("0 0.0 0.05", "0 0 0")
    )


def test_energy_of_an_arc(path):
    """Stays where it begins straight, where the closed form ends."""
    path.write_text(arc_file())
    model = ks.osim.read(path).model(outputs=["energy"])
    start = dict.fromkeys(model.state_names, 0.0)
    start |= {"qx": -0.1, "qz": 0.2, "qx_speed": 3.0, "qz_speed": -2.0}
    run = ks.simulate(model, np.linspace(0, 0.15, 31), start, method="dormand-prince", rtol=1e-10)
    total = run["kinetic_energy"] + run["potential_energy"]
    np.testing.assert_allclose(total, total[0], rtol=1e-7)


def test_an_arc_of_constant_curvature(path):
    """Its end is where the tangent leads; also straight, and near it, where a series takes over."""
    path.write_text(arc_file())
    tree = ks.osim.read(path)
    model = tree.model(outputs=["places", "attitudes"])
    neutral = np.array([0.1, -0.2, 0.3])
    poses = [[0, 0, 0], [0.3, -0.5, 0.2], [-0.9, 0.9, -0.4], *(
        s * np.array([1.0, 0.7, 0.0]) - neutral for s in (0.0, 1e-9, 1e-3, 0.03, 0.0408, 0.05)
    )]  # fmt: skip
    q = dict(zip(("qx", "qz", "qy"), np.transpose(poses).astype(float), strict=True))
    values = dict(zip(model.outputs, interpreted(model, model.outputs.values(), q), strict=True))
    for k, pose in enumerate(poses):
        turn = Rotation.from_euler("XZY", np.add(pose, neutral)).as_matrix()
        at = np.array([values[f"body0_place_{a}"][k] for a in "xyz"])
        found = [[values[f"body0_attitude_{i}{j}"][k] for j in "xyz"] for i in "xyz"]
        np.testing.assert_allclose(found, turn, atol=1e-14)
        end = turn[:, 1]  # the tangent there
        angle, size = np.arccos(np.clip(end[1], -1, 1)), np.hypot(end[0], end[2])
        level = np.array([end[0], 0.0, end[2]]) / max(size, 1e-300)

        def tangent(u, angle=angle, level=level):
            return np.cos(u * angle) * np.array([0.0, 1.0, 0.0]) + np.sin(u * angle) * level

        np.testing.assert_allclose(at, 0.4 * quad_vec(tangent, 0, 1)[0], atol=1e-9)


TOES = {"UniversalJoint": ("a b", "0 0 0", "0 0 0"), "PinJoint": ("c", "0 0 0", "0 0 0")}


def moments(text, body, said):
    return re.sub(
        rf'(<Body name="{body}">.*?<inertia>).*?<', rf"\g<1>{said}<", text, flags=re.DOTALL
    )


def test_inertia_of_one_axis(path):
    """A body with one moment that turns about other axes is taken as it is, with a warning; of one
    that turns about that axis alone nothing is said."""
    path.write_text(moments(small(TOES), "body1", "0 0 0.0009 0 0 0"))
    words = "body1 has a moment of inertia about its axis z only, and turns about others, too"
    with pytest.warns(UserWarning, match=words):
        tree = ks.osim.read(path)
    model, tiny = tree.model(), 1e-9
    path.write_text(moments(small(TOES), "body1", f"{tiny} {tiny} 0.0009 0 0 0"))
    with pytest.warns(UserWarning, match="no body has principal moments"):
        other = ks.osim.read(path).model()
    start = {name: 0.3 for name in model.state_names}
    time = np.linspace(0, 0.2, 21)
    runs = [ks.simulate(m, time, start, method="dormand-prince")["c"] for m in (model, other)]
    np.testing.assert_allclose(*runs, atol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pins = {"PinJoint": ("c", "0 0 0", "0 0 0"), "PlanarJoint": ("p q r", "0 0 0", "0 0 0")}
        flat = small(pins).replace("0 0.1 0</orientation>", "0 0 0</orientation>")
        path.write_text(moments(moments(flat, "body0", "0 0 1 0 0 0"), "body1", "0 0 2 0 0 0"))
        ks.osim.read(path).model()


def test_inertia_that_is_cut_or_has_no_mass(path):
    usual = small(TOES)
    path.write_text(moments(usual, "body1", "0.002 0.001 -4.5e-6 0 0 0"))
    with pytest.warns(UserWarning, match="body1: no body has principal .* as they are, as by Op"):
        tree = ks.osim.read(path)
    model = tree.parametrised().model()
    start = {name: 0.1 for name in model.state_names}
    assert np.isfinite(ks.simulate(model, np.linspace(0, 0.1, 11), start)["c"]).all()
    path.write_text(moments(usual, "body1", "0.002 0.001 -4.5e-4 0 0 0"))
    with pytest.raises(ValueError, match="body body1: no body has principal moments"):
        ks.osim.read(path)
    path.write_text(usual.replace("<mass>2<", "<mass>0<"))
    words = "the inertia of body body1, which has no mass, as by OpenSim, is left out"
    with pytest.warns(UserWarning, match=words):
        tree = ks.osim.read(path)
    assert not any(tree.description.bodies[1].inertia)


def test_forces_that_act_by_themselves_are_named(path):
    forces = '<CoordinateLimitForce name="l"/>' * 2 + (
        '<BushingForce name="b"/><PathSpring name="p"><appliesForce>false</appliesForce>'
        '</PathSpring><CoordinateActuator name="c"/></objects></ForceSet>'
    )
    path.write_text(model_file().replace("</objects></ForceSet>", forces))
    words = r"all: CoordinateLimitForce \(2 times\), BushingForce are left out"
    with pytest.warns(UserWarning, match=words) as said:
        ks.osim.read(path)
    assert len(said) == 1


def test_files_of_two_bytes(path):
    usual = described(path, small(PLAIN))
    path.write_bytes(('<?xml version="1.0" encoding="UTF-16"?>' + small(PLAIN)).encode("utf-16"))
    assert same(ks.osim.parse(path), usual)


def test_ranges_without_ends(path):
    text = small(PLAIN).replace("<range>-1 2</range>", "<range>-Inf inf</range>", 1)
    found = described(path, text).coordinates
    assert found["a"].range is None and found["b"].range == (-1.0, 2.0)
    assert CUSTOM in text
