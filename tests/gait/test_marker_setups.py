"""Setup files of OpenSim's tools, targets of coordinates, factors from distances of markers: beside
closed forms, OpenSim's own results, and OpenSim itself where it is installed."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import kinesym as ks
from kinesym.multibody import Body, Prismatic, Tree

OPENSIM = Path(__file__).parents[1] / "data" / "opensim"
EXAMPLES = Path(ks.__file__).parents[1] / "examples" / "data"
TASKS = OPENSIM / "gait2354_IK_Tasks.xml.gz"
SETUP = OPENSIM / "subject01_Setup_Scale.xml.gz"
pytestmark = pytest.mark.filterwarnings("ignore:no marker shows mtp")


def subject():
    return ks.osim.read(OPENSIM / "subject01_simbody.osim.gz")


def generic():
    return ks.osim.read(OPENSIM / "gait2354_simbody.osim.gz")


def its_markers():
    return ks.osim.read_markers(OPENSIM / "gait2354_Scale_MarkerSet.xml.gz")


def sliders():
    """A cart and a box on it, each with a marker."""
    cart = Body("cart", 1, joint=Prismatic("x"))
    tree = Tree("sliders", [cart, Body("box", 1, joint=Prismatic("x"), parent="cart")])
    placed = {"a": ("cart", (0, 0, 0)), "b": ("box", (0, 0, 0))}
    rng, t = np.random.default_rng(0), np.arange(300) / 100.0
    rows = {k: 0.01 * rng.normal(size=(3, 300)) + [[0.3], [0], [0]] for k in placed}
    return tree, placed, ks.gait.Markers(t, rows)


# -- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("smooth", [None, 6.0])
def test_targets_are_measurements_of_coordinates(smooth):
    """Sliders are linear: (J'WJ + V + L) q = J'W y + V v; the errors are those of the inverse."""
    tree, placed, markers = sliders()
    t, weights = markers.time, {"a": 1.0, "b": 2.0}
    course = 0.1 * np.sin(3.0 * t)
    fit = ks.gait.fit_markers(
        tree, placed, markers, weights=weights, targets={"box_px": (course, 4.0)}, smooth=smooth
    )
    J, W, V = np.array([[1.0, 0.0], [1.0, 1.0]]), np.diag([1.0, 2.0]), np.diag([0.0, 4.0])
    y = np.array([markers["a"][0], markers["b"][0]])
    A, b = J.T @ W @ J + V, J.T @ W @ y + V @ np.array([0.0 * t, course])
    if smooth is None:
        q, scale = np.linalg.solve(A, b), np.sqrt(np.diag(np.linalg.inv(A)))[:, None]
    else:
        D = np.diff(np.eye(300), 2, axis=0)
        gain = (2.0 * np.sin(np.pi * 6.0 / 100.0)) ** 4
        whole = np.kron(A, np.eye(300) + (np.sqrt(2.0) - 1.0) / gain * D.T @ D)
        q = np.linalg.solve(whole, b.reshape(-1)).reshape(2, 300)
        scale = np.sqrt(np.diag(np.linalg.inv(whole))).reshape(2, 300)
    assert np.array([fit["cart_px"], fit["box_px"]]) == pytest.approx(q, abs=1e-8)
    assert np.array([*fit.std.values()]) == pytest.approx(fit.noise * scale * np.ones((2, 300)))


@pytest.mark.filterwarnings("ignore:marker 'b' is 27 cm off")
def test_targets_within_limits_and_for_all_instants():
    tree, placed, markers = sliders()
    fit = ks.gait.fit_markers(
        tree, placed, markers, targets={"box_px": (1.0, 1e6)}, limits={"box_px": (-1.0, 0.5)}
    )
    assert np.all(fit["box_px"] == 0.5) and np.all(fit.std["box_px"] == 0.0)
    alone = ks.gait.fit_markers(tree, {"a": placed["a"]}, markers, targets={"box_px": (0.2, 1.0)})
    assert alone["box_px"] == pytest.approx(0.2) and np.isfinite(alone.std["box_px"]).all()


@pytest.mark.parametrize(
    "targets, message",
    [
        ({"box": (0.0, 1.0)}, r"targets: box is no coordinate.*box_px"),
        ({"box_px": 0.0}, r"the target of box_px is \(value, weight\), got 0.0"),
        ({"box_px": (np.zeros(3), 1.0)}, r"a finite number or one of each of 300 instants"),
        ({"box_px": (np.nan, 1.0)}, r"a finite number"),
        ({"box_px": (0.0, -1.0)}, r"the weight of the target of box_px must not be negative"),
    ],
)
def test_refusals_of_targets(targets, message):
    with pytest.raises(ValueError, match=message):
        ks.gait.fit_markers(*sliders(), targets=targets)


# -- tasks ----------------------------------------------------------------------------------------


def test_tasks_of_opensim():
    """Its example, whose document ends without having begun."""
    tree = subject()
    tasks = ks.osim.read_tasks(TASKS, tree)
    assert tasks.weights["V.Sacral"] == 10.0 and tasks.weights["R.Acromium"] == 0.75
    assert tasks.weights["R.Knee.Med"] == 0.0  # it has no task
    assert set(tasks.weights) == set(tree.placed)
    total = sum(tasks.weights.values())
    assert tasks.targets["subtalar_angle_r"] == (0.0, pytest.approx(1000.0 * total))
    walk = ks.gait.read_csv(EXAMPLES / "gait_subject01_markers.csv.gz").between(0.0, 0.3)
    fit = ks.gait.fit_markers(tree, None, walk, weights=tasks.weights, targets=tasks.targets)
    assert np.abs(fit["subtalar_angle_r"]).max() < 1e-4
    free = ks.gait.fit_markers(tree, None, walk, weights=tasks.weights)
    assert np.abs(free["subtalar_angle_r"]).max() > 0.1


def test_tasks_in_a_setup(tmp_path):
    tree = subject()
    tasks = ks.osim.read_tasks(SETUP, tree)  # those of the placer of markers
    assert tasks.weights["R.ASIS"] == 1000.0 and "lumbar_extension" in tasks.targets
    (tmp_path / "tasks.xml").write_text(
        "<IKTaskSet><objects>"
        '<IKMarkerTask name="R.ASIS"><weight>2</weight></IKMarkerTask>'
        '<IKMarkerTask name="L.ASIS"><apply>false</apply></IKMarkerTask>'
        '<IKMarkerTask name="Tail"/>'
        '<IKCoordinateTask name="mtp_angle_r"><value_type>manual_value</value_type>'
        "<value>0.1</value><weight>3</weight></IKCoordinateTask></objects></IKTaskSet>"
    )
    setup = tmp_path / "setup.xml"
    setup.write_text(
        "<OpenSimDocument><InverseKinematicsTool>"
        '<IKTaskSet file="tasks.xml"/></InverseKinematicsTool></OpenSimDocument>'
    )
    with pytest.warns(UserWarning, match="no body has the marker Tail"):
        tasks = ks.osim.read_tasks(setup, tree)
    assert {k: w for k, w in tasks.weights.items() if w} == {"R.ASIS": 2.0}
    assert tasks.targets == {"mtp_angle_r": (0.1, 6.0)}
    locked = ks.osim.read(OPENSIM / "subject01_simbody.osim.gz", locked=["mtp_angle_r"])
    with pytest.warns(UserWarning, match="Tail"):
        assert ks.osim.read_tasks(setup, locked).targets == {}


COORDINATE = (
    '<IKTaskSet><objects><IKCoordinateTask name="{}"><value_type>{}</value_type>'
    "</IKCoordinateTask></objects></IKTaskSet>"
)
PAIR = (
    '<MeasurementSet><objects><Measurement name="m"><MarkerPairSet><objects><MarkerPair><markers>{}'
    "</markers></MarkerPair></objects></MarkerPairSet><BodyScaleSet><objects><BodyScale "
    'name="{}"><axes>{}</axes></BodyScale></objects></BodyScaleSet></Measurement></objects>'
    "</MeasurementSet>"
)


@pytest.mark.parametrize(
    "reader, content, message",
    [
        ("tasks", "<IKTaskSet/>", "it has no tasks that apply"),
        ("tasks", COORDINATE.format("elbow", "default_value"), "elbow is no coordinate"),
        ("tasks", COORDINATE.format("mtp_angle_r", "from_file"), "takes its values from a file"),
        ("tasks", '<Tool><IKTaskSet file="gone.xml"/></Tool>', "there is no file .*gone.xml"),
        ("tasks", "<IKTaskSet>", "it is no XML file"),
        ("measurements", "<MeasurementSet/>", "it has no measurements and no factors that apply"),
        ("measurements", PAIR.format("a", "pelvis", "X"), "a pair is two markers, got a"),
        ("measurements", PAIR.format("a b", "pelvis", "W"), "some of X Y Z, got 'w'"),
        ("measurements", PAIR.format("a b", "tail", "X"), "none of the bodies is one of subject01"),
    ],
)
def test_what_no_setup_is(tmp_path, reader, content, message):
    path = tmp_path / "setup.xml"
    path.write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        getattr(ks.osim, f"read_{reader}")(path, subject())


# -- measurements ---------------------------------------------------------------------------------


def test_factors_of_opensim_from_distances():
    """Those by which it scaled the model of its example: mass centres say them to six digits."""
    tree, placed = generic(), its_markers()
    told = ks.osim.read_measurements(SETUP, tree)
    assert told.mass == 72.6 and told.pairs["foot"][0] == ("R.Heel", "R.Toe.Tip")
    assert told.given["femur_r_factor"] == 1.14724 and told.factors["shank"] == [
        "talus_r",
        "talus_l",
    ]
    assert "pelvis: R.ASIS to L.ASIS" in str(told) and "femur_r: 1.14724" in str(told)
    standing = ks.gait.read_places(EXAMPLES / "gait_subject01_static.csv")
    values = told.values(tree, placed, standing)
    expected = {"pelvis": 1.024577, "foot": 1.027085, "torso": 1.079720}
    assert {k: values[k] for k in expected} == pytest.approx(expected, abs=2e-4)
    del standing["Top.Head"]
    with pytest.warns(UserWarning, match="factor torso is not told: 'Top.Head' is missing"):
        assert "torso" not in told.values(tree, placed, standing)
    with pytest.raises(ValueError, match=r"marker '.*' of a pair is on no body"):
        told.values(tree, {"R.ASIS": placed["R.ASIS"]}, standing)


def test_scaling_by_factors_that_are_known():
    tree, placed = generic(), its_markers()
    told = ks.osim.read_measurements(SETUP, tree)
    standing = ks.gait.read_places(EXAMPLES / "gait_subject01_static.csv")
    values = told.values(tree, placed, standing)
    made = ks.gait.scale(
        tree, placed, [standing], told.factors, expected=values, factor_std=0.0, place_std=0.05
    )
    assert dict(made.factors) == pytest.approx(values)
    assert made.factors["torso"] != 1.0 and set(made.std.values()) == {0.0}
    near = ks.gait.scale(
        tree, placed, [standing], told.factors, expected=values, factor_std=1e-4, place_std=0.05
    )
    assert dict(near.factors) == pytest.approx(values, abs=1e-3)
    with pytest.raises(ValueError, match=r"expected: 'tigh' is not among the factors"):
        ks.gait.scale(tree, placed, [standing], told.factors, expected={"tigh": 1.1})


# -- beside OpenSim -------------------------------------------------------------------------------


def trc_of(markers):
    """The text of a TRC file in axes of OpenSim, in all digits."""
    names, n = markers.names, len(markers.time)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    rows = np.concatenate([turn @ markers[name] for name in names])
    head = [
        "PathFileType\t4\t(X/Y/Z)\twalk.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\t"
        "OrigNumFrames",
        f"60\t60\t{n}\t{len(names)}\tm\t60\t1\t{n}",
        "Frame#\tTime\t" + "\t\t\t".join(names) + "\t\t",
        "\t\t" + "\t".join(f"{axis}{k + 1}" for k in range(len(names)) for axis in "XYZ"),
        "",
    ]
    body = [
        f"{k + 1}\t{time:.9f}\t" + "\t".join("" if np.isnan(x) else f"{x:.12f}" for x in column)
        for k, (time, column) in enumerate(zip(markers.time, rows.T, strict=True))
    ]
    return "\n".join([*head, *body, ""])


def test_tasks_as_opensim_weighs_them(tmp_path):
    """Inverse kinematics with the same file, in which tasks compete with markers."""
    osim = pytest.importorskip("opensim")
    osim.Logger.setLevelString("off")
    tree = subject()
    walk = ks.gait.read_csv(EXAMPLES / "gait_subject01_markers.csv.gz").between(0.0, 0.2)
    model, tasks, trc, out = (tmp_path / k for k in ("m.osim", "tasks.xml", "walk.trc", "o.mot"))
    model.write_bytes(gzip.decompress((OPENSIM / "subject01_simbody.osim.gz").read_bytes()))
    said = gzip.decompress(TASKS.read_bytes()).decode().replace("</OpenSimDocument>", "")
    tasks.write_text(said.replace("<weight>    1000.00000000 </weight>", "<weight>0.002</weight>"))
    trc.write_text(trc_of(walk))
    given = ks.osim.read_tasks(tasks, tree)
    fit = ks.gait.fit_markers(tree, None, walk, weights=given.weights, targets=given.targets)
    theirs = osim.Model(str(model))
    theirs.initSystem()
    for k in range(theirs.getCoordinateSet().getSize()):
        theirs.updCoordinateSet().get(k).setDefaultClamped(False)
    tool = osim.InverseKinematicsTool()
    tool.setModel(theirs)
    tool.set_IKTaskSet(osim.IKTaskSet(str(tasks)))
    tool.setMarkerDataFileName(str(trc))
    tool.setStartTime(float(walk.time[0]))
    tool.setEndTime(float(walk.time[-1]))
    tool.setOutputMotionFileName(str(out))
    tool.set_report_errors(False)
    tool.set_accuracy(1e-9)
    tool.run()
    found = ks.gait.read_mot(out)
    assert 0.01 < np.abs(fit["subtalar_angle_r"]).max() < 0.2
    for name in fit:
        row = found.radians(name) if name in fit.angles else found[name]
        assert fit[name] == pytest.approx(row, abs=1e-5)
