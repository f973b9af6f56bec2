"""Files as other programs write them: read as what they mean, or refused by the true cause."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kinesym as ks
from kinesym.gait.axes import UNITS, unit_of
from kinesym.gait.events import Contact
from kinesym.gait.marker_files import read_csv, read_places, read_trc
from kinesym.gait.markers import Markers
from kinesym.gait.motion_files import read_mot, read_table
from kinesym.gait.tables import uniform

UP = {"up": "y", "forward": "x"}


def written(folder, name, text, encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def trc(names, rows, rate=100, frames=None, unit="mm"):
    """A TRC file with these rows of numbers or cells."""
    n = len(rows) if frames is None else frames
    head = [
        "PathFileType\t4\t(X/Y/Z)\tx.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames",
        f"{rate}\t{rate}\t{n}\t{len(names)}\t{unit}\t{rate}\t1\t{n}",
        "Frame#\tTime\t" + "\t\t\t".join(names),
        "\t\t" + "\t".join(f"{axis}{k + 1}" for k in range(len(names)) for axis in "XYZ"),
        "",
    ]
    return "\n".join([*head, *("\t".join(map(str, row)) for row in rows)]) + "\n"


def frames(count, *positions, rate=100):
    return [[k + 1, f"{k / rate:.3f}", *sum(positions, ())] for k in range(count)]


HEAD, HEEL, NEVER = (600, 1700, 50), (590, 50, 100), (0, 0, 0)

# -- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", ["6g", "7g", "8g", "4f", "17g"])
@pytest.mark.parametrize("rate", [60, 119.88, 150, 240, 250])
def test_times_of_so_many_digits(digits, rate):
    """Each number is rounded by itself, as streams of C++ do; a frame that is missing is one."""
    for start, count in ((0.0, 600), (0.0, 4000), (57.31, 900)):
        exact = start + np.arange(count) / rate
        time = np.array([float(f"{t:.{digits}}") for t in exact])
        found = uniform(time, rate)
        assert_allclose(found, exact, atol=1e-3)
        assert_allclose(np.diff(found), 1.0 / rate, rtol=1e-9)
        with pytest.raises(ValueError, match="time is not uniform"):
            uniform(np.delete(time, count // 2), rate)


def test_one_frame_is_a_posture(tmp_path):
    path = written(tmp_path, "one.trc", trc(["HEAD", "RHEE"], frames(1, HEAD, HEEL)))
    standing = read_trc(path, **UP)
    assert len(standing) == 1 and np.isnan(standing.rate)
    assert_allclose(standing.mean()["HEAD"], [0.6, -0.05, 1.7])
    assert "1 sample, t = 0 s, 0 gaps" in repr(standing)
    assert read_csv(written(tmp_path, "one.csv", "time,A_x,A_y,A_z\n0,1,2,3\n"), **UP).mean()
    with pytest.raises(ValueError, match="time must be one finite number"):
        Markers([np.nan], {"a": np.zeros((3, 1))})


LAST = "RRA\nversion=1\nnRows=4\nnColumns=3\ninDegrees=no\nendheader\ntime\ta\tb\n{}"


def test_the_last_instant_twice(tmp_path):
    """As tools of OpenSim end; what differs is refused as before."""
    rows = "0\t1\t5\n0.1\t2\t5\n0.2\t3\t5\n0.2\t{}\t5\n"
    path = written(tmp_path, "rra.sto", LAST.format(rows.format("3.0001")))
    with pytest.warns(UserWarning, match="the last instant, 0.2 s, is there twice; the second is"):
        found = read_mot(path)
    assert_allclose(found.time, [0, 0.1, 0.2])
    assert_allclose(found["a"], [1, 2, 3])
    with pytest.raises(ValueError, match=r"row 4: time must increase, got 0\.2 s"):
        read_mot(written(tmp_path, "rra.sto", LAST.format(rows.format("3.5"))))


# -- cells --------------------------------------------------------------------------------------


def test_rows_between_blanks(tmp_path):
    rows = [f"{k + 1}  {k / 100:.4f}  {100 + k}  900  1  2   900 3" for k in range(12)]
    text = trc(["RASI", "LASI"], [], frames=20) + "\n".join(rows) + "\n"
    with pytest.warns(UserWarning, match="NumFrames = 20, there are 12 rows"):
        found = read_trc(written(tmp_path, "blanks.trc", text), **UP)
    assert found.names == ("RASI", "LASI") and len(found) == 12
    assert_allclose(found["LASI"][:, 3], [0.002, -0.003, 0.9])
    loose = text.replace("\t", "  ").replace("frames", "")
    with pytest.warns(UserWarning, match="NumFrames"):
        again = read_trc(written(tmp_path, "loose.trc", loose), **UP)
    assert again.names == found.names and (again["RASI"] == found["RASI"]).all()


def test_vectors_in_cells(tmp_path):
    text = "DataType={}\nversion=3\nendheader\ntime\ttorso\tplain\n0\t{}\t7\n0.01\t{}\t8\n"
    path = written(tmp_path, "a.sto", text.format("Vec3", "1,2,3", "4,5,-6e-1"))
    found = read_mot(path)
    assert found.names == ("torso_x", "torso_y", "torso_z", "plain")
    assert_allclose([row[1] for row in found.columns.values()], [4, 5, -0.6, 8])
    path = written(tmp_path, "a.sto", text.format("Quaternion", "1,0,0,0", "0.6,0.8,0,0"))
    assert_allclose(read_mot(path)["torso_w"], [1, 0.6])
    path = written(tmp_path, "a.sto", text.format("Vec3", "1,2,3", "4,5"))
    with pytest.raises(ValueError, match="line 6: its cells do not have as many numbers"):
        read_mot(path)


def test_what_is_no_number_on_windows(tmp_path):
    cells = ("-1.#IND", "1.#QNAN", "-1.#IND00", "nan(ind)", "-nan(ind)", "NaN", "1.#SNAN")
    rows = "".join(f"{k / 10}\t{cell}\n" for k, cell in enumerate(cells))
    text = f"x\nnRows={len(cells)}\nnColumns=2\ninDegrees=no\nendheader\ntime\tq\n{rows}"
    assert np.isnan(read_mot(written(tmp_path, "a.mot", text))["q"]).all()
    with pytest.raises(ValueError, match=r"'1\.#INF' is no number"):
        read_mot(written(tmp_path, "a.mot", text.replace("1.#QNAN", "1.#INF")))


def test_decimal_commas(tmp_path):
    """Between semicolons they are points; elsewhere the sentence says so."""
    text = "time;A_x;A_y;A_z\n" + "".join(f"0,0{k};1,5;2,5;\n" for k in range(5))
    found = read_csv(written(tmp_path, "a.csv", text), **UP)
    assert_allclose(found.time, 0.01 * np.arange(5))
    assert np.isnan(found["A"]).all()
    assert_allclose(read_table(written(tmp_path, "b.csv", "time;q\n0,5;-1,25e1\n1;2\n"))["q"],
                    [-12.5, 2])  # fmt: skip
    rows = [[1, "0,00", "1,5", 2, 3], [2, "0,01", "1,5", 2, 3]]
    with pytest.raises(ValueError, match="'0,00' is no number; write a point for the comma"):
        read_trc(written(tmp_path, "a.trc", trc(["A"], rows)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_text_of_two_bytes(tmp_path, encoding):
    text = trc(["Kopf-\u00dc"], frames(5, HEAD))
    assert read_trc(written(tmp_path, "a.trc", text, encoding), **UP).names == ("Kopf-\u00dc",)


NEXUS = """Devices
1000
,Force
Frame,Sub Frame,Fx
,,N
1,0,5

Trajectories
100
,,Subj:RASI,,,Subj:LASI,,
Frame,Sub Frame,X,Y,Z,X,Y,Z
,,mm,mm,mm,mm,mm,mm
{}
Model Outputs
100
,,Subj:Angle,,
"""


@pytest.mark.parametrize("sep", [",", ";"])
def test_trajectories_of_nexus(tmp_path, sep):
    """Times as in its C3D files, whose frame 1 is at 0 s."""
    rows = "".join(f"{k + 3},0,{100 + k}.5,1,900,{',,' if k else '7,8,9'}\n" for k in range(5))
    text = NEXUS.format(rows)
    if sep == ";":
        text = text.replace(",", ";").replace(".5", ",5")
    found = read_csv(written(tmp_path, "nexus.csv", text), up="z", forward="x")
    assert found.names == ("RASI", "LASI")
    assert_allclose(found.time, 0.02 + 0.01 * np.arange(5), atol=1e-15)
    assert_allclose(found["RASI"][:, 2], [0.1025, 0.001, 0.9])
    assert_allclose(found["LASI"][:, 0], [0.007, 0.008, 0.009])
    assert found.gaps()[0].samples == 4
    with pytest.raises(ValueError, match="below 'Trajectories' Nexus writes the rate"):
        read_csv(written(tmp_path, "nexus.csv", text.replace("Sub Frame", "Part")))


@pytest.mark.parametrize(
    ("said", "unit"),
    [("mete", "m"), ("metr", "m"), ("millimet", "mm"), ("Millimetres", "mm"), ("cm", "cm"),
     ("centimeter", "cm"), ("m", "m"), ("", "m"), ("mm\0", "mm")],
)  # fmt: skip
def test_units_that_are_cut_off(said, unit):
    row = np.array([[1.7 / UNITS[unit]]])
    assert unit_of("a.c3d", said.lower(), None, [row]) == unit


# -- what was never seen ------------------------------------------------------------------------


def test_markers_that_are_zero_throughout(tmp_path):
    """Are missing in all samples, said, and no places of a standing trial."""
    names = ["HEAD", "RHEE", "RKNEin"]
    path = written(tmp_path, "zero.trc", trc(names, frames(20, HEAD, HEEL, NEVER)))
    with pytest.warns(UserWarning, match=r"RKNEin.* is at 0, 0, 0 in all samples.* missing"):
        markers = read_trc(path, **UP)
    assert np.isnan(markers["RKNEin"]).all() and set(markers.mean()) == {"HEAD", "RHEE"}
    cells = "time,A_x,A_y,A_z,B_x,B_y,B_z\n0,1,2,3,0,0,0\n0.01,1,2,3,0,0,0\n"
    with pytest.warns(UserWarning, match="at 0, 0, 0"):
        assert set(read_csv(written(tmp_path, "a.csv", cells), **UP).mean()) == {"A"}
    places = "marker,x_m,y_m,z_m\nA,1,2,0.5\nB,0,0,0\nC,0,1,0\n"
    with pytest.warns(UserWarning, match=r"\['B'\] is at 0, 0, 0"):
        assert set(read_places(written(tmp_path, "p.csv", places), **UP)) == {"A", "C"}
    # alone nothing tells
    alone = written(tmp_path, "b.csv", "time,A_x,A_y,A_z\n0,0,0,0\n0.01,0,0,0\n")
    assert set(read_csv(alone, **UP).mean()) == {"A"}


def test_carried_by_a_marker_that_was_never_seen():
    rng = np.random.default_rng(0)
    cluster = {name: rng.normal(size=3) for name in "abc"}
    walk = {name: np.outer(place, np.ones(4)) for name, place in cluster.items()}
    relations = ks.gait.Relations({"knee": ks.gait.Carried("RKNEin", list("abc"))})
    still = {**cluster, "RKNEin": np.ones(3)}
    found = ks.gait.landmarks(relations, ks.gait.Trial(walk, still)).points["knee"]
    assert_allclose(found, np.ones((3, 4)), atol=1e-12)
    for lost in (cluster, still | {"RKNEin": np.full(3, np.nan)}):
        with pytest.raises(
            ValueError, match="RKNEin' is not in the calibration, or was never seen"
        ):
            ks.gait.landmarks(relations, ks.gait.Trial(walk, lost))


# -- C3D ----------------------------------------------------------------------------------------


def c3d(path, labels, positions, descriptions=(), plates=None, **said):
    """Points in mm at 100 Hz; plates : the number of analog samples of one."""
    ezc3d = pytest.importorskip("ezc3d")
    file = ezc3d.c3d()
    points = np.ones((4, len(labels), np.shape(positions)[2]))
    points[:3] = np.swapaxes(positions, 0, 1)
    file["data"]["points"] = points
    facts = file["parameters"]["POINT"]
    facts["UNITS"]["value"], facts["RATE"]["value"] = [said.pop("unit", "mm")], [100]
    facts["LABELS"]["value"], facts["DESCRIPTIONS"]["value"] = labels, descriptions
    for name, value in said.items():
        file.add_parameter("POINT", name, value)
    if plates is not None:
        group = file["parameters"]["FORCE_PLATFORM"]
        group["USED"]["value"], group["TYPE"]["value"] = np.array([1]), np.array([2])
        group["CORNERS"]["value"] = np.zeros((3, 4, 1))
        group["ORIGIN"]["value"], group["CHANNEL"]["value"] = np.zeros((3, 1)), np.zeros((6, 1))
    file.write(str(path))
    return path


def test_points_of_one_name(tmp_path):
    """By their descriptions, or by a number; none is dropped."""
    positions = np.outer(np.arange(1, 13), np.ones(5)).reshape(4, 3, 5) * 100.0
    path = c3d(tmp_path / "a.c3d", ["LTHI", "LTHI", "RTHI", "RTHI"], positions,
               ["left thigh high", "left thigh low", "", ""])  # fmt: skip
    words = r"are called \['left thigh high', 'left thigh low', 'RTHI_2'\]"
    with pytest.warns(UserWarning, match=words):
        markers, _ = ks.gait.read_c3d(path, up="z", forward="x")
    assert markers.names == ("left thigh high", "left thigh low", "RTHI", "RTHI_2")
    assert_allclose(markers["RTHI_2"][:, 0], [1.0, 1.1, 1.2], rtol=1e-6)


def vicon(path, events, **processing):
    """A file with events (seconds, context, label), the person, and angles and moments of a knee,
    as Vicon writes it."""
    ezc3d = pytest.importorskip("ezc3d")
    labels = ["S1:LHEE", "S1:RHEE", "S1:RKneeAngles", "S1:RKneeMoment"]
    positions = np.outer(np.arange(1, 13), np.ones(150)).reshape(4, 3, 150) * 100.0
    c3d(path, labels, positions, ["left heel", "", "right knee, flexion first", ""],
        ANGLES=["S1:RKneeAngles"], MOMENTS=["S1:RKneeMoment"], ANGLE_UNITS=["deg"],
        MOMENT_UNITS=["Nmm"])  # fmt: skip
    file = ezc3d.c3d(str(path))
    for name, value in processing.items():
        file.add_parameter("PROCESSING", name, [value])
    times, contexts, texts = zip(*events, strict=True)
    file.add_parameter("EVENT", "USED", [len(events)])
    file.add_parameter("EVENT", "CONTEXTS", list(contexts))
    file.add_parameter("EVENT", "LABELS", list(texts))
    file.add_parameter("EVENT", "TIMES", np.array([np.floor_divide(times, 60), np.mod(times, 60)]))
    file.write(str(path))
    return ks.gait.read_c3d(path, up="z", forward="x")


def check_contacts(found, *contacts):
    """The same contacts, to the 32 bits of the format."""
    for one, contact in zip(found, contacts, strict=True):
        said = (contact.foot, contact.struck, contact.lifted)
        assert (one.foot, one.struck, one.lifted) == said
        assert_allclose([one.begin, one.end], [contact.begin, contact.end], atol=1e-6)


def test_events_person_and_results_of_models_in_c3d(tmp_path):
    events = [
        (1.1, "Right", "Foot Off"),
        (0.3, "Left", "Foot Off"),
        (0.5, "Right", "Foot Strike"),
        (0.9, "Left", "Foot Strike"),
        (0.7, "General", "Event"),
    ]
    person = {"Bodymass": 71.0, "Height": 1755.0, "RLegLength": 860.0, "LLegLength": 880.0}
    recording = vicon(tmp_path / "a.c3d", events, **person)
    check_contacts(
        recording.contacts,
        Contact("left", 0.0, 0.3, struck=False),
        Contact("right", 0.5, 1.1),
        Contact("left", 0.9, 1.49, lifted=False),
    )
    assert recording.person == pytest.approx({"mass": 71.0, "stature": 1.755, "leg_length": 0.87})
    assert recording.descriptions == {"LHEE": "left heel"}
    angles, moments = recording.references["angles"], recording.references["moments"]
    assert angles.names == tuple(f"RKneeAngles_{axis}" for axis in "xyz") and angles.degrees
    assert_allclose(angles["RKneeAngles_y"], 800.0)
    assert moments.header["units"] == "Nmm"
    markers, plates = recording
    assert markers.names == ("LHEE", "RHEE") and plates == {} and recording[0] is markers


def test_events_of_c3d_out_of_order_and_other_labels(tmp_path):
    twice = [(0.2, "Right", "Foot Strike"), (0.5, "Right", "Foot Strike")]
    recording = vicon(tmp_path / "a.c3d", twice)
    with pytest.raises(ValueError, match=r"'right' strikes twice .* at 0.5 s; correct the events"):
        _ = recording.contacts
    with pytest.warns(UserWarning, match="the mass of 710 is nobody's"):
        found = vicon(tmp_path / "b.c3d", [(0.2, "", "RHS"), (0.8, "", "RTO")], Bodymass=710.0)
    check_contacts(found.contacts, Contact("right", 0.2, 0.8))
    assert "mass" not in found.person


def test_contacts_and_person_are_written(tmp_path):
    pytest.importorskip("ezc3d")
    markers = Markers(np.arange(100) / 100.0, {"R.Heel": np.ones((3, 100))})
    contacts = [Contact("left", 0.0, 0.4, struck=False), Contact("right", 0.3, 0.9)]
    person = {"mass": 71.0, "stature": 1.75, "leg_length": 0.88}
    ks.gait.write_c3d(tmp_path / "a.c3d", markers, contacts=contacts, person=person)
    again = ks.gait.read_c3d(tmp_path / "a.c3d")
    assert again.person == pytest.approx(person)
    check_contacts(again.contacts, *contacts)
    with pytest.raises(ValueError, match="person has no 'weight'"):
        ks.gait.write_c3d(tmp_path / "b.c3d", markers, person={"weight": 700.0})


def test_c3d_of_one_frame_and_plates_without_samples(tmp_path):
    positions = np.array([[[100.0], [50.0], [1700.0]], [[90.0], [40.0], [0.0]]])
    path = c3d(tmp_path / "one.c3d", ["HEAD", "RHEE"], positions, plates=0, unit="mm")
    with pytest.warns(UserWarning, match="plate 1 is left out: it has no samples"):
        markers, plates = ks.gait.read_c3d(path)
    assert not plates and set(markers.mean()) == {"HEAD", "RHEE"}
    metres = c3d(tmp_path / "m.c3d", ["HEAD", "RHEE"], positions / 1000, unit="mete")
    assert_allclose(ks.gait.read_c3d(metres)[0]["HEAD"][2], 1.7, rtol=1e-6)


# -- up -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cloud():
    """Markers without telling names of somebody who sits in a wheelchair: wider than high."""
    rng = np.random.default_rng(2)
    return np.array([0.2, 0.17, 0.18])[:, None] * rng.normal(size=(3, 12)) + [[2.0], [1.0], [0.9]]


def sitting(cloud, up, long):
    """A TRC file of it in axes of a laboratory, whose longest extent is along `long`."""
    places = cloud.copy()
    places["xyz".index(long)] *= 3.0
    turned = ks.gait.rotation(up, "x").T @ places
    rows = [[k + 1, k / 100, *(1e3 * turned.T).ravel()] for k in range(10)]
    return trc([f"M{k}" for k in range(12)], rows)


def test_the_longest_extent_is_a_guess(tmp_path, cloud):
    path = written(tmp_path, "sit.trc", sitting(cloud, "z", "x"))
    with pytest.warns(UserWarning, match="is taken to be up, by the longest extent, as neither"):
        guessed = read_trc(path)
    assert not guessed.laboratory.sure and guessed.laboratory.up == "x"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = read_trc(path, up="z")
        alike = read_trc(path, like=told)
    assert told.laboratory.sure and alike.laboratory.up == "z"
    small = written(tmp_path, "two.trc", trc(["A", "B"], frames(5, HEAD, HEEL)))
    with pytest.warns(UserWarning, match="y is taken to be up, as usual"):
        assert not read_trc(small).laboratory.sure


def test_files_of_a_session_decide_together(tmp_path, cloud):
    """Four of somebody sitting have four axes by their extents; plates, or one file whose names
    tell, are right for all."""
    for k, long in enumerate("xyzz"):
        written(tmp_path, f"sit{k}.trc", sitting(cloud, "z", long))
    with pytest.warns(UserWarning, match="differ in the axis that is up: z in 2, x in 1 of them"):
        assert ks.gait.find_files(tmp_path).up == "z"
    for k in range(4):
        written(tmp_path, f"sit{k}.trc", sitting(cloud, "y", "y"))
    force = np.array([[5.0], [-3.0], [700.0]]) * np.ones(50)
    plates = {"1": ks.gait.Wrench.at_cop(0.01 * np.arange(50), force, np.zeros((3, 50)))}
    for axes in (("y", "x"), ("z", "x")):
        ks.gait.write_forces(tmp_path / "forces.mot", plates, *axes)
        assert ks.gait.find_files(tmp_path).up == axes[0]
    ks.gait.write_forces(tmp_path / "more.mot", plates, "y", "x")
    with pytest.warns(UserWarning, match="files of the session differ in the axis that is up"):
        assert ks.gait.find_files(tmp_path).up in ("y", "z")


def test_what_c3d_files_show_upright(tmp_path, cloud):
    positions = 1e3 * np.repeat(cloud.T[:, :, None], 5, axis=2)
    path = c3d(tmp_path / "a.c3d", [f"M{k}" for k in range(12)], positions, X_SCREEN="+X",
               Y_SCREEN="+Y")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        markers, _ = ks.gait.read_c3d(path)
    assert "y is up (by what the file shows upright)" in markers.note


# -- axes that files carry ------------------------------------------------------------------------


def jump():
    """Two plates under somebody who jumps backwards: pushes first, brakes then."""
    time = 0.005 * np.arange(200)
    load = 700.0 * ((time < 0.4) | (time > 0.7)) * (time > 0.05) * (time < 0.95)
    ahead = -120.0 * np.sign(load) * np.where(time < 0.5, time - 0.2, time - 0.8) / 0.2
    force = np.array([ahead, 20.0 * np.sign(load), load])
    cop = np.array([0.2 + 0.1 * time, 0.1 + 0 * time, 0 * time])
    return {"right": ks.gait.Wrench.at_cop(time, force, cop)}


@pytest.mark.parametrize("axes", [("y", "x"), ("y", "-x"), ("z", "y"), ("-y", "z"), ("x", "-z")])
def test_files_of_ours_carry_their_axes(tmp_path, axes):
    """A jump, somebody walking backwards, markers that nobody can tell: the same comes back."""
    plates = jump()
    bodies = {"right": "calcn_r"}
    ks.gait.write_forces(tmp_path / "jump.mot", plates, *axes, bodies=bodies)
    rng = np.random.default_rng(4)
    course = 0.3 * rng.normal(size=(3, 50)) + [[0.5], [0.0], [1.0]]
    markers = Markers(0.01 * np.arange(50), {"A": course, "B": 1.5 - course})
    markers.to_trc(tmp_path / "a.trc", "mm", *axes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, plate in (("jump.mot", "right"), ("jump.xml", "calcn_r")):
            found = ks.gait.read_forces(tmp_path / name)[plate]
            assert_allclose(found.force, plates["right"].force, atol=1e-10)
            assert_allclose(found.moment, plates["right"].moment, atol=1e-10)
        again = read_trc(tmp_path / "a.trc")
        # also beside markers in other axes
        found = ks.gait.read_forces(tmp_path / "jump.mot", like=again)["right"]
    assert_allclose(found.force, plates["right"].force, atol=1e-10)
    assert_allclose(again["B"], markers["B"], atol=1e-14)
    assert f"{axes[0]} is up, {axes[1]} forwards (as the file says)" in again.note
    pytest.importorskip("ezc3d")
    ks.gait.write_c3d(tmp_path / "a.c3d", markers, up=axes[0], forward=axes[1])
    assert_allclose(ks.gait.read_c3d(tmp_path / "a.c3d")[0]["A"], markers["A"], atol=1e-6)
    with pytest.warns(UserWarning, match="was given, but the file says"):
        other = "z" if axes[0] != "z" else "y"
        read_trc(tmp_path / "a.trc", up=other, forward="x")


def test_the_header_of_files_for_opensim(tmp_path):
    """The header has one more line before its end; columns and numbers are where they were."""
    ks.gait.write_forces(tmp_path / "jump.mot", jump())
    table = read_mot(tmp_path / "jump.mot")
    assert table.header["axes"] == "up=y forward=x" and len(table.names) == 9
