"""Scaled models of OpenSim: beside its own ScaleTool's result, the tree that is scaled without the
file, and a plain evaluation of what is written."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from test_osim import MODELS, Plain, interpreted
from test_osim_files import CHAIN, SURFACES, WELDED, model_file

import kinesym as ks
from kinesym.codegen.c import printed_from
from kinesym.codegen.evaluate import model_functions
from kinesym.models.files.stretched import stretched_description
from kinesym.models.files.trees import plain
from kinesym.models.scaling import scaled
from kinesym.symbolic.multibody.vectors import Vector

TESTS = Path(__file__).parents[1] / "data" / "opensim"
EXAMPLES = Path(ks.__file__).parents[1] / "examples" / "data"
pytestmark = pytest.mark.filterwarnings("ignore:LaiUhlrich2022. body toes")
ELLIPSOIDS = {
    "PinJoint": ("pin", "0.1 0.2 0.3", "0 0 0"),
    "EllipsoidJoint": SURFACES["EllipsoidJoint"],
    "SliderJoint": ("s", "0 0 0", "0 0 1"),
}
#: Of the factors of OpenSim's example those that it found from distances of markers.
FOUND = {"pelvis": 1.024577038, "foot": 1.027084768, "torso": 1.079719892, "shank": 1.113978075}


def stretched(tree, factors, mass=None):
    """A tree by its file, and the same by its bodies alone."""
    rows = {name: Vector(map(sp.Float, row)) for name, row in factors.items()}
    made = scaled(tree, rows, mass)
    description = stretched_description(tree, factors, made.bodies, {})
    return plain(replace(tree, description=description)), made


def factors_of(tree, alike, seed=1):
    rng = np.random.default_rng(seed)
    rows = {body.name: rng.uniform(0.8, 1.25, 3) for body in tree.bodies}
    same = {name: row[[0, 0, 0]] for name, row in rows.items()}
    toes = {name: same[name] for name in rows if name.startswith("toes")}  # no rigid body's inertia
    return same if alike else {**rows, **toes}


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_is_the_scaled_tree(name, alike, tmp_path):
    tree = ks.osim.read(MODELS[name])
    ours, made = stretched(tree, factors_of(tree, alike), 70.0)
    path = tmp_path / "scaled.osim"
    ks.osim.write(path, ours)
    locked = [row for row in tree.description.coordinates if row in tree.fixed]
    again = ks.osim.read(path, locked)
    assert again.bodies == ours.bodies and again.placed == ours.placed
    assert again.description.muscles == ours.description.muscles
    assert again.description.spheres == ours.description.spheres
    names, file = [*made.coordinates], Plain(path)
    rng = np.random.default_rng(2)
    model = made.parametrised().model(outputs=["places", "attitudes"])
    n = len(names)
    rates = {f"{k}_speed": row for k, row in zip(names, np.eye(n, n + 1, 1), strict=True)}
    for _ in range(2):
        q = dict(zip(names, rng.uniform(-1.0, 1.0, n), strict=True))
        every = {**dict.fromkeys(file.free(), 0.0), **tree.fixed, **q}
        places = file.places(every)
        found = dict(zip(model.outputs, interpreted(model, model.outputs.values(), q), strict=True))
        for body in file.bodies:
            at = [found[f"{body}_place_{axis}"][0] for axis in "xyz"]
            np.testing.assert_allclose(at, places[body][:3, 3].real, rtol=0, atol=1e-12)
        rows = interpreted(model, model.equations[n:], q, rates)
        expected = file.mass_matrix(every, names)
        largest = np.abs(expected).max()
        np.testing.assert_allclose(
            rows[:, 1:] - rows[:, :1], expected, rtol=0, atol=1e-11 * largest
        )


def test_the_scaled_model_of_opensim():
    """Its example: mass centres and points of muscles, which it writes with six digits, masses,
    inertias, joints, lengths of fibres and tendons."""
    tree = ks.osim.read(TESTS / "gait2354_simbody.osim.gz")
    placed = ks.osim.read_markers(TESTS / "gait2354_Scale_MarkerSet.xml.gz")
    standing = ks.gait.read_places(EXAMPLES / "gait_subject01_static.csv")
    told = ks.osim.read_measurements(TESTS / "subject01_Setup_Scale.xml.gz", tree)
    values = {**told.values(tree, placed, standing), **FOUND}
    made = ks.gait.scale(
        tree, placed, [standing], told.factors, expected=values, factor_std=0.0
    ).applied(tree, told.mass)
    theirs = ks.osim.parse(TESTS / "std_subject01_scaled.osim.gz")
    ours = made.description
    for a, b in zip(ours.bodies, theirs.bodies, strict=True):
        assert a.mass == pytest.approx(b.mass, rel=1e-12)
        assert a.com == pytest.approx(b.com, abs=1e-6)
        assert a.inertia == pytest.approx(b.inertia, rel=1e-6, abs=1e-12)
    for a, b in zip(ours.joints, theirs.joints, strict=True):
        assert a.parent.at == pytest.approx(b.parent.at, abs=1e-7)
    by_name = {row.name: row for row in theirs.muscles}
    assert len(ours.muscles) == 54
    for a in ours.muscles:
        b = by_name[a.name]
        for key in ("optimal_length", "slack_length"):
            assert a.numbers[key] == pytest.approx(b.numbers[key], rel=1e-6)
        assert a.numbers["max_force"] == b.numbers["max_force"]
        for p, q in zip(a.points, b.points, strict=True):
            assert p.at == pytest.approx(q.at, abs=1e-6)


def test_muscles_go_with_bodies():
    """One factor for all bodies: every length of a path is that times as long, in any pose."""
    tree = ks.osim.read(MODELS["arm26"])
    every = {body.name: [1.2] * 3 for body in tree.bodies}
    ours, _ = stretched(tree, every)
    pose = {"r_shoulder_elev": [0.0, 0.4], "r_elbow_flex": [0.3, 1.7]}
    for name, path in tree.muscles.items():
        on_arm = {frame.body for frame in path.frames} <= {"r_humerus", "r_ulna_radius_hand"}
        after = ours.muscles[name]
        if on_arm:
            assert after.lengths(pose) == pytest.approx(1.2 * path.lengths(pose), rel=1e-9)
            assert after.row.numbers["optimal_length"] == pytest.approx(
                1.2 * path.row.numbers["optimal_length"], rel=1e-9
            )
        start = {q: [tree.defaults[q]] for q in path.coordinates}
        share = [p.row.numbers["slack_length"] / p.lengths(start)[0] for p in (path, after)]
        assert share[1] == pytest.approx(share[0])
    assert ks.osim.fit_muscles(ours, ["BRA"])["BRA"].slack_length > 0.0


LINE = """<OpenSimDocument Version="30000"><Model name="rail"><BodySet><objects>
<Body name="cart"><mass>1</mass><mass_center>0 0.1 0</mass_center><inertia_xx>1</inertia_xx>
<inertia_yy>1</inertia_yy><inertia_zz>1</inertia_zz><inertia_xy>0</inertia_xy>
<inertia_xz>0</inertia_xz><inertia_yz>0</inertia_yz><Joint><{kind} name="slide">
<parent_body>base</parent_body><location_in_parent>0 0 0</location_in_parent>
<orientation_in_parent>0 0 {turn}</orientation_in_parent><location>0 0 0</location>
<orientation>0 0 0</orientation><CoordinateSet><objects><Coordinate name="x"/>
<Coordinate name="y"/></objects></CoordinateSet><SpatialTransform>
<TransformAxis name="rotation1"><axis>1 0 0</axis><function><Constant><value>0</value></Constant>
</function></TransformAxis>
<TransformAxis name="rotation2"><axis>0 1 0</axis><function><Constant><value>0</value></Constant>
</function></TransformAxis>
<TransformAxis name="rotation3"><axis>0 0 1</axis><function><Constant><value>0</value></Constant>
</function></TransformAxis>
<TransformAxis name="translation1"><coordinates>x</coordinates><axis>1 0 0</axis><function>
<LinearFunction><coefficients>1 {shift}</coefficients></LinearFunction></function></TransformAxis>
<TransformAxis name="translation2"><coordinates>y</coordinates><axis>0 1 0</axis><function>
<MultiplierFunction><scale>2</scale><function><PolynomialFunction><coefficients>1 0 0.3
</coefficients></PolynomialFunction></function></MultiplierFunction></function></TransformAxis>
<TransformAxis name="translation3"><axis>0 0 1</axis><function><Constant><value>0.5</value>
</Constant></function></TransformAxis></SpatialTransform></{kind}></Joint></Body>
<Body name="base"><mass>1</mass><mass_center>0 0 0</mass_center><inertia_xx>1</inertia_xx>
<inertia_yy>1</inertia_yy><inertia_zz>1</inertia_zz><inertia_xy>0</inertia_xy>
<inertia_xz>0</inertia_xz><inertia_yz>0</inertia_yz><Joint><WeldJoint name="weld">
<parent_body>ground</parent_body><location_in_parent>0 0 0</location_in_parent>
<orientation_in_parent>0 0 0</orientation_in_parent><location>0 0 0</location>
<orientation>0 0 0</orientation></WeldJoint></Joint></Body>
</objects></BodySet></Model></OpenSimDocument>"""


@pytest.mark.parametrize("turn", [0.0, 0.4])
def test_joints_that_glide(tmp_path, turn):
    """Coordinates that are lengths stay, functions and distances go with the body before; along
    axes that are none of this body, too."""
    path = tmp_path / "rail.osim"
    path.write_text(LINE.format(kind="CustomJoint", turn=turn, shift=0.0 if turn else 0.2))
    factors = {"base": [1.5, 0.5, 3.0], "cart": [1.0, 1.0, 1.0]}
    ours, made = stretched(ks.osim.read(path), factors)
    x, y = ks.dynamicsymbols("x y")
    for value in (0.0, 0.7):
        a, b = (
            np.array(
                [e.subs({x: value, y: value}) for e in tree.bodies[1].joint.translation], float
            )
            for tree in (ours, made)
        )
        assert a == pytest.approx(b, abs=1e-14)
        if not turn:
            assert a == pytest.approx([value + 0.3, 0.5 * 2.0 * (value**2 + 0.3), 1.5])
    if turn:
        path.write_text(LINE.format(kind="CustomJoint", turn=turn, shift=0.2))
        with pytest.raises(ValueError, match=r"slide: translation1 is a coordinate and a distance"):
            stretched(ks.osim.read(path), factors)


def test_what_cannot_be_written(tmp_path):
    tree = ks.osim.read(MODELS["arm26"])
    ks.osim.write(tmp_path / "again.osim.gz", tree)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ks.osim.read(tmp_path / "again.osim.gz")
    assert again.bodies == tree.bodies and again.description.version == "10901"
    heavier = replace(tree, bodies=[replace(body, mass=3.0) for body in tree.bodies])
    with pytest.raises(ValueError, match="the bodies of arm26 were changed after it was read"):
        ks.osim.write(tmp_path / "other.osim", heavier)
    with pytest.raises(ValueError, match="FileTree"):
        ks.osim.write(tmp_path / "other.osim", ks.gait.whole_body())
    (tmp_path / "beam.urdf").write_text('<robot name="beam"><link name="beam"/></robot>')
    with pytest.raises(ValueError, match=r"beam was not read from a file of OpenSim"):
        ks.osim.write(tmp_path / "other.osim", ks.urdf.read(tmp_path / "beam.urdf"))


@pytest.mark.parametrize("joints, constraint, said", [(CHAIN, WELDED, "tip"), (ELLIPSOIDS, "", "")])
def test_what_cannot_be_stretched(joints, constraint, said, tmp_path):
    """Loops that may not close, unless they are left out, and ellipsoids."""
    path = tmp_path / "model.osim"
    path.write_text(model_file(joints, constraint))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ks.osim.read(path)
        factors = {body.name: (1.1, 1.1, 1.1) for body in tree.bodies}
        with pytest.raises(ValueError, match=f"{said} of .* (closes a loop|moves along what has)"):
            stretched(tree, factors)
        if said:
            opened = ks.osim.read(path, without=[said])
            ours, made = stretched(opened, factors)
            com = [[float(c) for c in body.com] for body in ours.bodies]
            assert not ours.description.loops
            assert com == [[float(c) for c in body.com] for body in made.bodies]


@pytest.mark.study
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize(
    "name", ["gait2354", pytest.param("LaiUhlrich2022", marks=pytest.mark.study)]
)
def test_all_persons_share_one_library(name, alike):
    """What is printed of two persons is equal; functions of joints differ in parameters."""
    tree = ks.osim.read(MODELS[name])
    persons = [stretched(tree, factors_of(tree, alike, seed), 70.0) for seed in (1, 2)]
    for made in zip(*persons, strict=True):
        models = [one.parametrised().model(one.torque_inputs()) for one in made]
        assert models[0].equations == models[1].equations and models[0].values != models[1].values
        assert len({printed_from(model_functions(model)) for model in models}) == 1
