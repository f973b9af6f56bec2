"""Files as laboratories and programs write them, and files that are written here."""

import gzip
import warnings

import numpy as np
import pytest

from kinesym.gait import (
    Markers,
    Table,
    Wrench,
    read_c3d,
    read_forces,
    read_mot,
    read_trc,
    write_c3d,
    write_forces,
)
from kinesym.gait.axes import seen_in_markers
from kinesym.runtime.results.trajectory import Trajectory

# -- TRC ----------------------------------------------------------------------------------------

FACTS = ["DataRate", "CameraRate", "NumFrames", "NumMarkers", "Units"]
VALUES = ["60.00", "60.00", "3", "2", "m"]


def trc(facts="\t", labels="Frame#\tTime\tR.Heel\t\t\tL.Heel\t\t", tail="", blank="\n"):
    """Two markers: `facts` between cells of lines 2 and 3, `tail` after rows."""
    rows = [f"{k + 1}\t{k / 60:.3f}\t1.{k}\t2.0\t3.0\t4.0\t5.{k}\t6.0" for k in range(3)]
    head = ["PathFileType\t4\t(X/Y/Z)\ta.trc", facts.join(FACTS), facts.join(VALUES), labels]
    return "\n".join([*head, "\t\tX1\tY1\tZ1\tX2\tY2\tZ2"]) + f"\n{blank}" + f"{tail}\n".join(rows)


@pytest.mark.parametrize(
    "options",
    [
        {"facts": "\t\t"},  # SIMM and OpenSim's own synthetic markers
        {"labels": "Frame#\tTime\t\tR.Heel\t\tL.Heel"},
        {"labels": "Frame#\tTime\tR.Heel\tL.Heel"},
        {"labels": "Frame#\tTime\tR.Heel\t\t\tL.Heel\t\t\t\t\t"},
        {"labels": "Frame#\tTimes\t\t\tR.Heel\t\t\tL.Heel"},
        {"labels": "Frame#\tTime\tR.Heel\t\t\tL.Heel\t\t\t", "blank": ""},  # Pose2Sim
        {"tail": "\t\t"},
        {"blank": ""},
        {"blank": "\n\n"},
        {"blank": "\t\t\t\n"},
        {"facts": "\t ", "labels": "Frame# \tTime \tR.Heel \t\t\tL.Heel"},
    ],
)
def test_trc_as_programs_write_it(tmp_path, options):
    text = trc(**options)
    (tmp_path / "a.trc").write_bytes(text.replace("\n", "\r\n").encode())
    (tmp_path / "a.trc.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.trc", "a.trc.gz"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            markers = read_trc(tmp_path / name, up="z")
        assert markers.names == ("R.Heel", "L.Heel")
        assert markers.rate == pytest.approx(60.0, rel=1e-12)
        np.testing.assert_allclose(markers["L.Heel"][:, 2], [4.0, 5.2, 6.0])


def test_zeros_mark_what_was_not_seen(tmp_path):
    """As some programs write it; a marker that stays at the origin stays there."""
    text = trc().replace("1.1\t2.0\t3.0", "0\t0\t0")
    (tmp_path / "a.trc").write_text(text)
    assert [str(gap) for gap in read_trc(tmp_path / "a.trc").gaps()] == [
        "marker 'R.Heel': 1 sample missing at 0.02 s"
    ]


#: One frame of the demonstration of Pose2Sim (BSD-3-Clause, perfanalytics/pose2sim), rounded [m].
POSE2SIM = {
    "RHip": (-0.081, 0.870, 0.076),
    "RKnee": (-0.091, 0.503, 0.054),
    "RAnkle": (-0.083, 0.119, 0.057),
    "RBigToe": (0.109, 0.033, 0.036),
    "RSmallToe": (0.072, 0.033, 0.079),
    "RHeel": (-0.118, 0.047, 0.046),
    "LHip": (-0.081, 0.870, -0.135),
    "LKnee": (-0.091, 0.502, -0.123),
    "LAnkle": (-0.084, 0.118, -0.137),
    "LBigToe": (0.109, 0.033, -0.117),
    "LSmallToe": (0.071, 0.033, -0.161),
    "LHeel": (-0.118, 0.047, -0.130),
    "Neck": (-0.114, 1.487, -0.023),
    "Head": (-0.037, 1.708, 0.002),
    "Nose": (-0.008, 1.582, -0.022),
    "RShoulder": (-0.125, 1.407, 0.178),
    "RElbow": (-0.083, 1.166, 0.308),
    "RWrist": (-0.103, 0.981, 0.449),
    "LShoulder": (-0.126, 1.407, -0.227),
    "LElbow": (-0.064, 1.169, -0.361),
    "LWrist": (-0.068, 0.983, -0.509),
}
#: Names of the markers that OpenCap adds to those of the video.
OPENCAP = ("r.ASIS_study", "L.ASIS_study", "r_calc_study", "L_calc_study", "r_toe_study",
           "L_toe_study", "C7_study", "r_shoulder_study", "L_shoulder_study")  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_markers_of_a_video(tmp_path, turned):
    """Standing, from a video: axes by names, also where the wall is in front."""
    order = (2, 1, 0) if turned else (0, 1, 2)
    sign = np.array([-1.0, 1.0, 1.0]) if turned else np.ones(3)
    rows = [sign * np.array(place)[list(order)] for place in POSE2SIM.values()]
    cells = ["\t".join(f"{x:.3f}" for x in np.ravel(rows))] * 3
    axes = "\t".join(f"{axis}{k}" for k in range(1, 22) for axis in "XYZ")
    lines = [
        "PathFileType\t4\t(X/Y/Z)\tpose-3d.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate",
        "60\t60\t3\t21\tm\t60",
        "Frame#\tTime\t" + "\t\t\t".join(POSE2SIM) + "\t\t\t",
        f"\t\t{axes}\t",
        *(f"{k}\t{k / 60}\t{row}" for k, row in enumerate(cells)),
    ]
    (tmp_path / "pose-3d.trc").write_text("\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if turned else "error")
        markers = read_trc(tmp_path / "pose-3d.trc")
    assert markers.note.startswith(
        f"y is up (by the names of markers), {'z' if turned else 'x'} forwards (by heels and toes)"
    )
    assert "called right" not in markers.note
    assert markers["RKnee"][1, 0] < markers["LKnee"][1, 0]  # y is to the left
    assert markers["RBigToe"][0, 0] > markers["RHeel"][0, 0]


def test_markers_of_a_run():
    """The first sample of a run on a treadmill as AddBiomechanics gives it (Hamner, Delp 2013; file
    of aaronsfox/dynamic-consistency-quest), rounded [m]."""
    places = {
        "LCAL": (1.14, 0.198, -0.337),
        "LTOE": (1.376, 0.201, -0.347),
        "LMT5": (1.328, 0.144, -0.427),
        "RCAL": (0.356, 0.393, -0.273),
        "RTOE": (0.43, 0.169, -0.332),
        "RMT5": (0.382, 0.185, -0.238),
        "LACR": (0.98, 1.584, -0.469),
        "RACR": (1.04, 1.541, -0.164),
        "C7": (0.951, 1.584, -0.303),
    }
    found = seen_in_markers({name: np.array([place]).T for name, place in places.items()})
    assert (found.up, found.forward, found.onward) == ("y", "x", "heels and toes")


def test_names_of_opencap():
    places = ((0.1, 0.9, 0.1), (0.1, 0.9, -0.1), (0.0, 0.0, 0.1), (0.0, 0.0, -0.1), (0.2, 0.0, 0.1),
              (0.2, 0.0, -0.1), (0.0, 1.4, 0.0), (0.0, 1.3, 0.2), (0.0, 1.3, -0.2))  # fmt: skip
    found = seen_in_markers({n: np.array([p]).T for n, p in zip(OPENCAP, places, strict=True)})
    assert (found.up, found.forward) == ("y", "x")


@pytest.mark.parametrize(
    "label, words",
    [
        ("R.Heel", r"markers are left out: \['R.Heel'\] occur more than once; rename them"),
        ("", "markers are left out: 1 without a name"),
    ],
)
def test_markers_that_nobody_can_mean(tmp_path, label, words):
    labels = f"Frame#\tTime\tR.Heel\t\t\t{label}\t\t\tL.Heel\t\t"
    rows = "\n".join(f"{k}\t{k / 60:.3f}" + "\t1.0\t2.0\t3.0" * 3 for k in range(3))
    text = trc(labels=labels).replace("X2\tY2\tZ2", "X2\tY2\tZ2\tX3\tY3\tZ3").partition("\n\n")[0]
    (tmp_path / "a.trc").write_text(f"{text}\n\n{rows}\n")
    with pytest.warns(UserWarning, match=words) as caught:
        markers = read_trc(tmp_path / "a.trc")
    assert caught[0].filename == __file__
    assert "L.Heel" in markers and len(markers.names) == (1 if label else 2)


# -- MOT and STO --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header, degrees",
    [
        (["version=1", "inDegrees=yes"], True),
        (["version=1", "inDegrees=y"], True),
        (["version=1", "inDegrees=no", "Angles are in degrees."], False),
        (["nRows=2", "", "Angles are in degrees.", ""], True),
        (["nRows=2", "Angles are in radians."], False),
        (["version=1", "If the header above contains a line with 'inDegrees', this ..."], False),
        (["nColumns=2", "", "# SIMM Motion File Header:", "datacolumns 2\t\t", "datarows 2"], True),
        (["nRows=2", "nColumns=2"], False),
    ],
)
def test_degrees_as_headers_say_it(tmp_path, header, degrees):
    """As OpenSim takes them (Storage.cpp, parseHeaders), and SIMM, whose motions are in degrees."""
    text = "\n".join(["walk", *header, "endheader\t\t", "", "time\tknee", "", "0\t90", "1\t45"])
    (tmp_path / "a.mot").write_text(text)
    table = read_mot(tmp_path / "a.mot")
    assert table.degrees == degrees
    np.testing.assert_allclose(table.radians("knee")[0], np.pi / 2 if degrees else 90.0)


def test_columns_that_come_twice(tmp_path):
    (tmp_path / "a.sto").write_text("a\nendheader\ntime\tx\tx\ty\n0\t1\t2\t3\n1\t1\t2\t3\n")
    with pytest.warns(UserWarning, match=r"a\.sto: columns are left out: \['x'\] occur more than"):
        assert read_mot(tmp_path / "a.sto").names == ("y",)


def test_motions_are_written(tmp_path):
    rng = np.random.default_rng(1)
    time = np.sort(rng.uniform(0.0, 2.0, 40))
    table = Table(time, {"knee_angle_r": rng.normal(size=40), "pelvis_tx": rng.normal(size=40)})
    table.to_mot(tmp_path / "a.sto")
    again = read_mot(tmp_path / "a.sto")
    assert not again.degrees and again.header["nrows"] == "40"
    turned = table.in_degrees(["knee_angle_r"])
    turned.to_mot(tmp_path / "a.mot")
    head = (tmp_path / "a.mot").read_text().splitlines()[:7]
    assert head == [
        "a", "version=1", "nRows=40", "nColumns=3", "inDegrees=yes", "endheader",
        "time\tknee_angle_r\tpelvis_tx",
    ]  # fmt: skip
    degrees = read_mot(tmp_path / "a.mot")
    np.testing.assert_array_equal(again.time, time)
    for name in table.names:
        np.testing.assert_array_equal(again[name], table[name])
    np.testing.assert_allclose(degrees.radians("knee_angle_r"), table["knee_angle_r"], rtol=1e-15)
    np.testing.assert_array_equal(degrees["pelvis_tx"], table["pelvis_tx"])
    frame = table.to_pandas()
    assert list(frame.columns) == ["knee_angle_r", "pelvis_tx"] and frame.index.name == "time"
    with pytest.raises(ValueError, match="of this table are in degrees already"):
        turned.in_degrees(["pelvis_tx"])
    with pytest.raises(KeyError, match="no column 'knee'"):
        table.in_degrees(["knee"])
    with pytest.raises(
        ValueError, match="cannot hold the name 'my knee'; rename it without blanks"
    ):
        Table(time, {"my knee": time}).to_mot(tmp_path / "b.mot")
    assert not (tmp_path / "b.mot").exists()
    with pytest.raises(ValueError, match=r"column 'x' must be \(40,\) as time, got \(2,\)"):
        Table(time, {"x": np.zeros(2)})


def test_a_trajectory_is_written(tmp_path):
    time = np.linspace(0.0, 1.0, 5)
    run = Trajectory(time, {"q": time**2}, {"torque": -time}, {"y": 2.0 * time}, {}, "a model")
    Table.of(run).in_degrees(["q"]).to_mot(tmp_path / "a.mot")
    again = read_mot(tmp_path / "a.mot")
    assert again.names == ("q", "torque", "y")
    np.testing.assert_allclose(again.radians("q"), time**2, rtol=1e-15)
    np.testing.assert_array_equal(run.to_pandas()["torque"], -time)


# -- forces -------------------------------------------------------------------------------------


def stances(count=300, seed=0):
    """Wrenches of two feet in the world: zero, small and large loads, free moments."""
    rng = np.random.default_rng(seed)
    time = np.arange(count) / 300.0
    wrenches = {}
    size = count // 2
    for foot, begin in (("right", size // 8), ("left", size - size // 8)):
        load = np.zeros(count)
        load[begin : begin + size] = 800.0 * np.sin(np.linspace(0.0, np.pi, size))
        force = np.array([0.1, 0.03, 1.0])[:, None] * load + rng.normal(size=(3, count))
        moment = rng.normal(size=(3, count)) * (1.0 + 0.1 * load)
        wrenches[foot] = Wrench(time, force, moment)
    return wrenches


@pytest.mark.parametrize("up, forward", [("y", "x"), ("z", "x"), ("z", "-y"), ("x", "z")])
@pytest.mark.parametrize("height", [0.0, 0.03])
def test_forces_are_written_without_loss(tmp_path, up, forward, height):
    wrenches = stances()
    write_forces(tmp_path / "grf.mot", wrenches, up, forward, height)
    again = read_forces(tmp_path / "grf.mot", up=up, forward=forward)
    assert list(again) == ["right", "left"]
    for foot, wrench in wrenches.items():
        np.testing.assert_allclose(again[foot].time, wrench.time, rtol=0, atol=1e-15)
        np.testing.assert_allclose(again[foot].force, wrench.force, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(again[foot].moment, wrench.moment, rtol=1e-12, atol=1e-12)
    table = read_mot(tmp_path / "grf.mot")
    assert table.names[:3] == tuple(f"right_ground_force_v{axis}" for axis in "xyz")
    assert table.names[6:9] == tuple(f"right_ground_torque_{axis}" for axis in "xyz")
    point = np.array([table[f"right_ground_force_p{axis}"] for axis in "xyz"])
    np.testing.assert_allclose(point["xyz".index(up)], height)  # on the floor throughout


def test_external_loads(tmp_path):
    """The file that OpenSim reads beside the forces; columns may be called anything."""
    wrenches = stances()
    bodies = {"right": "calcn_r", "left": "calcn_l"}
    write_forces(tmp_path / "grf.mot", wrenches, bodies=bodies)
    text = (tmp_path / "grf.mot").read_text()
    for foot in ("right", "left"):
        for old, new in (("force_v", "F"), ("force_p", "P"), ("torque_", "T")):
            text = text.replace(f"{foot}_ground_{old}", f"{foot[0]}{new}")
    (tmp_path / "grf.mot").write_text(text)
    loads = (tmp_path / "grf.xml").read_text()
    assert "<applied_to_body>calcn_l</applied_to_body>" in loads
    for foot in ("right", "left"):
        for old, new in (("force_v", "F"), ("force_p", "P"), ("torque_", "T")):
            loads = loads.replace(f"{foot}_ground_{old}", f"{foot[0]}{new}")
    (tmp_path / "grf.xml").write_text(loads)
    rename = {"calcn_r": "right", "calcn_l": "left"}
    found = read_forces(tmp_path / "grf.xml", rename=rename)
    assert list(found) == ["right", "left"]
    for foot, wrench in wrenches.items():
        np.testing.assert_allclose(found[foot].moment, wrench.moment, rtol=1e-12, atol=1e-12)
    (tmp_path / "grf.mot.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "grf.mot").unlink()
    assert list(read_forces(tmp_path / "grf.xml")) == ["calcn_r", "calcn_l"]
    for old, new, words in (
        ("rF<", "sF<", r"grf\.xml names the columns 'sF', but 0 .* did you mean"),
        ("grf.mot", "none.mot", r"grf\.xml names the file 'none\.mot', which is not beside it"),
        ("<datafile>", "<data>", r"grf\.xml is no XML file"),
        ("ExternalForce", "Force", "it lacks ExternalForce or datafile"),
        (">ground<", ">toes_r<", "is given in axes of a body; only ground is read"),
    ):
        (tmp_path / "grf.xml").write_text(loads.replace(old, new))
        with pytest.raises(ValueError, match=words):
            read_forces(tmp_path / "grf.xml")


def test_forces_in_millimetres(tmp_path):
    """Points and torques of a program that took the units of its markers; single samples without
    load that are far away mean nothing."""
    wrenches = stances()
    write_forces(tmp_path / "grf.mot", wrenches)
    table = read_mot(tmp_path / "grf.mot")
    turned = {name: row if "force_v" in name else 1e3 * row for name, row in table.columns.items()}
    Table(table.time, turned).to_mot(tmp_path / "mm.mot")
    with pytest.warns(UserWarning, match=r"mm\.mot: the load acts [0-9.]+ m away: taken as mm"):
        found = read_forces(tmp_path / "mm.mot")
    for foot, wrench in wrenches.items():
        np.testing.assert_allclose(found[foot].moment, wrench.moment, rtol=1e-11, atol=1e-11)
    far = {name: row.copy() for name, row in table.columns.items()}
    for name in ("right_ground_force_vx", "right_ground_force_vy", "right_ground_force_vz"):
        far[name][:3] = 0.0
    far["right_ground_force_px"][:3] = 1e5
    Table(table.time, far).to_mot(tmp_path / "far.mot")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_forces(tmp_path / "far.mot")


CORTEX = """[Force Data]
NumberOfForcePlates=2
SampleRate=600.000000
NumberOfSamples=3
#Sample\tFX1\tFY1\tFZ1\tX1\tY1\tZ1\tMZ1\tFX2\tFY2\tFZ2\tX2\tY2\tZ2\tMZ2
1\t12.0\t30.0\t700.0\t100.0\t250.0\t0.0\t5000.0\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0
2\t12.0\t30.0\t700.0\t100.0\t250.0\t0.0\t5000.0\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0
3\t12.0\t30.0\t700.0\t100.0\t250.0\t0.0\t5000.0\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0
"""


def test_forces_of_cortex(tmp_path):
    (tmp_path / "walk.forces").write_text(CORTEX)
    found = read_forces(tmp_path / "walk.forces", rename={"1": "right"})
    assert list(found) == ["right", "2"]
    plate = found["right"]
    np.testing.assert_allclose(plate.time, [0.0, 1 / 600, 2 / 600])
    np.testing.assert_allclose(plate.force[:, 0], [12.0, 30.0, 700.0])  # z up is found
    np.testing.assert_allclose(plate.cop()[:, 0], [0.1, 0.25, 0.0], atol=1e-15)
    np.testing.assert_allclose(plate.free_moment()[0], 5.0)
    for old, new, words in (
        ("#Sample", "Sample", "a line with '#Sample FX1 FY1 ...' is missing"),
        ("SampleRate=600.000000", "SampleRate=fast", "must say SampleRate=..., a positive number"),
        ("12.0", "x", "line 6, column FX1: 'x' is no number"),
    ):
        (tmp_path / "walk.forces").write_text(CORTEX.replace(old, new))
        with pytest.raises(ValueError, match=words):
            read_forces(tmp_path / "walk.forces")
    (tmp_path / "walk.forces").write_text(CORTEX.replace("Samples=3", "Samples=4"))
    with pytest.warns(UserWarning, match="cut short: its header says NumberOfSamples = 4"):
        read_forces(tmp_path / "walk.forces")


@pytest.mark.parametrize(
    "force, point, torque, name",
    [
        ("ground_force_1_v", "ground_force_1_p", "ground_force_1_m", "1"),  # AddBiomechanics
        (
            "ground_force_1_v",
            "ground_force_1_p",
            "ground_moment_1_m",
            "1",
        ),  # C3D by OpenSim's script
        ("1_ground_force_v", "1_ground_force_p", "1_ground_torque_", "1"),
        ("R_ground_force_v", "R_ground_force_p", "R_ground_torque_", "R"),
        ("ground_force_calcn_r_v", "ground_force_calcn_r_p", "ground_torque_calcn_r_", "calcn_r"),
    ],
)
def test_columns_of_forces(tmp_path, force, point, torque, name):
    wrench = stances()["right"]
    write_forces(tmp_path / "grf.mot", {"x": wrench})
    text = (tmp_path / "grf.mot").read_text()
    for old, new in (("force_v", force), ("force_p", point), ("torque_", torque)):
        text = text.replace(f"x_ground_{old}", new)
    (tmp_path / "grf.mot").write_text(text)
    found = read_forces(tmp_path / "grf.mot")
    assert list(found) == [name]
    np.testing.assert_allclose(found[name].moment, wrench.moment, rtol=1e-12, atol=1e-12)


def test_names_of_plates(tmp_path):
    write_forces(tmp_path / "grf.mot", {"1": stances()["right"], "2": stances()["left"]})
    both = read_forces(tmp_path / "grf.mot", rename={"1": "left", "2": "right"})
    assert list(both) == ["left", "right"]
    with pytest.raises(KeyError, match="there is no plate '3'; known are: 1, 2"):
        read_forces(tmp_path / "grf.mot", rename={"3": "left"})
    with pytest.raises(ValueError, match="two plates would be called '2'"):
        read_forces(tmp_path / "grf.mot", rename={"1": "2"})
    for wrenches, words in (
        ({}, "there are no wrenches"),
        ({"a b": stances()["right"]}, "cannot hold the name 'a b_ground_force_vx'"),
        (
            {"a": stances()["right"], "b": stances()["right"].at([0.1, 0.2])},
            "'b' has other times than the first; resample with at",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            write_forces(tmp_path / "bad.mot", wrenches)
    with pytest.raises(ValueError, match="bodies names 'left'; known are: right"):
        write_forces(
            tmp_path / "bad.mot", {"right": stances()["right"]}, bodies={"left": "calcn_l"}
        )
    assert not (tmp_path / "bad.mot").exists()


# -- markers ------------------------------------------------------------------------------------


def cloud(count=50, rate=119.88, seed=3):
    rng = np.random.default_rng(seed)
    rows = {name: rng.normal(size=(3, count)) for name in ("R.Heel", "L.Heel", "C7", "gone")}
    rows["L.Heel"][:, 10:14] = rows["gone"][:] = np.nan
    return Markers(0.25 + np.arange(count) / rate, rows)


@pytest.mark.parametrize("unit", ["m", "cm", "mm"])
@pytest.mark.parametrize("up, forward", [("y", "x"), ("z", "-y")])
@pytest.mark.parametrize("rate", [60.0, 119.88, 1000.0 / 3.0])
def test_markers_are_written(tmp_path, unit, up, forward, rate):
    markers = cloud(rate=rate)
    markers.to_trc(tmp_path / "a.trc", unit, up, forward)
    again = read_trc(tmp_path / "a.trc", up=up, forward=forward)
    assert again.names == markers.names and again.laboratory.unit == unit
    np.testing.assert_allclose(again.time, markers.time, rtol=0, atol=1e-12)
    for name, position in markers.positions.items():
        np.testing.assert_allclose(again[name], position, rtol=1e-14)
    with pytest.raises(ValueError, match="unit is one of m, cm, mm, got 'inch'"):
        markers.to_trc(tmp_path / "b.trc", "inch")


def test_frames_of_markers():
    frame = cloud().to_pandas()
    assert frame.shape == (50, 12) and frame.index.name == "time"
    np.testing.assert_array_equal(frame["C7"]["y"], cloud()["C7"][1])
    np.testing.assert_array_equal(frame["R.Heel"].to_numpy().T, cloud()["R.Heel"])


def test_the_mean_of_a_static_trial():
    """Gaps do not count; what was never seen is left out."""
    rng = np.random.default_rng(0)
    noise = 1e-3 * rng.normal(size=(3, 200))
    rows = {"A": noise + [[1.0], [2.0], [0.5]], "B": noise.copy(), "C": np.full((3, 200), np.nan)}
    rows["B"][:, ::2] = np.nan
    places = Markers(np.arange(200) / 100.0, rows).mean()
    assert list(places) == ["A", "B"]
    np.testing.assert_allclose(places["A"], rows["A"].mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(places["B"], rows["B"][:, 1::2].mean(axis=1), rtol=1e-12)
    rows["A"][0] += np.linspace(0.0, 0.2, 200)
    words = r"marker 'A' moves by 5\.8 cm rms: this is no static trial; between\(\) takes a part"
    with pytest.warns(UserWarning, match=words):
        Markers(np.arange(200) / 100.0, rows).mean()


# -- C3D ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["m", "mm"])
@pytest.mark.parametrize("up, forward", [("z", "x"), ("y", "-z")])
@pytest.mark.parametrize("factor", [1, 3])
def test_c3d_is_written(tmp_path, unit, up, forward, factor):
    """To the 32 bits that the format has, with gaps, and plates where feet pressed."""
    rng, time = np.random.default_rng(5), 0.5 + np.arange(100) / 100.0
    rows = {f"M{k}": rng.normal(size=(3, 100)) for k in range(3)}
    rows["M1"][:, 20:25] = np.nan
    markers = Markers(time, rows)
    feet = {
        foot: Wrench(0.5 + np.arange(len(w.time)) / (100.0 * factor), w.force, w.moment)
        for foot, w in stances(100 * factor).items()
    }
    write_c3d(tmp_path / "a.c3d", markers, feet, unit, up, forward, 0.02)
    rename = {"1": "right", "2": "left"}
    again, plates = read_c3d(tmp_path / "a.c3d", up=up, forward=forward, rename=rename)
    assert list(plates) == list(feet)
    assert again.names == markers.names
    np.testing.assert_allclose(again.time, time, rtol=1e-7)
    for name, position in rows.items():
        np.testing.assert_allclose(again[name], position, rtol=1e-6, atol=1e-6)
    for found, wrench in zip(plates.values(), feet.values(), strict=True):
        np.testing.assert_allclose(found.time, wrench.time, rtol=1e-7)
        np.testing.assert_allclose(found.force, wrench.force, rtol=1e-6, atol=1e-4)
        np.testing.assert_allclose(found.moment, wrench.moment, rtol=1e-6, atol=1e-3)
    with pytest.raises(ValueError, match="right: the wrench is known for"):
        write_c3d(tmp_path / "b.c3d", markers, {"right": feet["right"].at([0.5, 0.6])})
    assert not (tmp_path / "b.c3d").exists()


def test_markers_alone_as_c3d(tmp_path):
    write_c3d(tmp_path / "a.c3d", cloud())
    again, plates = read_c3d(tmp_path / "a.c3d", up="z", forward="x")
    assert plates == {} and again.names == cloud().names
    np.testing.assert_allclose(again["R.Heel"], cloud()["R.Heel"], atol=1e-6)
