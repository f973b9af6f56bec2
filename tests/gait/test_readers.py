"""Readers: small files of every format, errors by line and column, and the data of the examples."""

import gzip
import sys
import warnings
from importlib import resources

import numpy as np
import pytest

from kinesym.gait.axes import rotation
from kinesym.gait.c3d_files import read_c3d, write_c3d
from kinesym.gait.force_files import read_forces
from kinesym.gait.marker_files import read_csv, read_places, read_trc
from kinesym.gait.markers import Markers
from kinesym.gait.motion_files import read_mot, read_table

DATA = resources.files("kinesym.examples") / "data"


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


# -- axes ---------------------------------------------------------------------------------------


def test_rotations_are_those_of_right_handed_axes():
    names = ("x", "y", "z", "-x", "-y", "-z")
    count = 0
    for up in names:
        for forward in names:
            if up[-1] == forward[-1]:
                continue
            turn = rotation(up, forward)
            assert np.linalg.det(turn) == pytest.approx(1.0)
            for axis, world in ((forward, (1, 0, 0)), (up, (0, 0, 1))):
                sign = -1.0 if axis[0] == "-" else 1.0
                np.testing.assert_array_equal(turn[:, "xyz".index(axis[-1])] * sign, world)
            count += 1
    assert count == 24
    np.testing.assert_array_equal(rotation("z", "x"), np.eye(3))
    # z to the right is minus y
    np.testing.assert_array_equal(rotation("y", "x") @ [1.0, 2.0, 3.0], [1.0, -3.0, 2.0])


@pytest.mark.parametrize(
    "up, forward, message",
    [
        ("y", "-y", "up='y' and forward='-y' are the same axis"),
        ("up", "x", "up is one of x, y, z, -x, -y, -z, got 'up'"),
        ("y", "+x", "forward is one of .*, got '\\+x'"),
    ],
)
def test_axes_that_are_none(up, forward, message):
    with pytest.raises(ValueError, match=message):
        rotation(up, forward)


# -- TRC ----------------------------------------------------------------------------------------

TRC = """PathFileType\t4\t(X/Y/Z)\twalk.trc
DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames
120.00\t120.00\t4\t2\tmm\t120.00\t1\t4
Frame#\tTime\tR.Heel\t\t\tL.Heel\t\t
\t\tX1\tY1\tZ1\tX2\tY2\tZ2

1\t0.500\t100.0\t900.0\t-30.0\t200.0\t901.0\t40.0
2\t0.508\t110.0\t900.0\t-30.0\t\t\t
3\t0.517\t120.0\t900.0\t-30.0\t220.0\t903.0\t40.0\t
4\t0.525\t130.0\t900.0\t-30.0\t230.0\t904.0\t40.0
"""


def test_trc(tmp_path):
    markers = read_trc(written(tmp_path, "walk.trc", TRC))
    assert markers.names == ("R.Heel", "L.Heel")
    assert markers.rate == pytest.approx(120.0, rel=1e-12)
    np.testing.assert_allclose(markers["R.Heel"][:, 1], [0.11, 0.03, 0.9])
    np.testing.assert_allclose(markers["L.Heel"][:, 3], [0.23, -0.04, 0.904])
    assert [str(gap) for gap in markers.gaps()] == ["marker 'L.Heel': 1 sample missing at 0.51 s"]
    # as a string, compressed, with other axes
    path = tmp_path / "walk.trc.gz"
    path.write_bytes(gzip.compress(TRC.encode()))
    turned = read_trc(str(path), up="z", forward="-x")
    np.testing.assert_allclose(turned["R.Heel"][:, 1], [-0.11, -0.9, -0.03])


def test_a_person_of_many_metres(tmp_path):
    """Whole numbers of tenths of a millimetre are taken for millimetres: said."""
    rows = [f"{0.01 * k},{k},100,0,{k},15000,10,,,\n" for k in range(20)]
    head = "time_s,R.Heel_x,R.Heel_y,R.Heel_z,Head_x,Head_y,Head_z,gone_x,gone_y,gone_z\n"
    path = written(tmp_path, "walk.csv", head + "".join(rows))
    with pytest.warns(
        UserWarning, match=r"taken to be in mm, so that markers are 14.9 m apart upw"
    ):
        read_csv(path, up="y", forward="x")


def test_units_of_trc(tmp_path):
    lying = written(tmp_path, "walk.trc", TRC.replace("\tmm\t", "\tm\t"))
    with pytest.warns(UserWarning, match="lengths are in m, but the largest is 904: taken as mm"):
        found = read_trc(lying)
    assert "lengths in mm" in found.note
    np.testing.assert_allclose(found["R.Heel"][0, 0], 0.1)
    with pytest.raises(ValueError, match=r"look like millimetres \(max 904\); set unit='mm'"):
        read_trc(lying, unit="m")
    np.testing.assert_allclose(read_trc(lying, unit="mm")["R.Heel"][0, 0], 0.1)
    inches = written(tmp_path, "walk.trc", TRC.replace("\tmm\t", "\tin\t"))
    with pytest.raises(ValueError, match="lengths are in 'in'; set unit='m' or unit='mm'"):
        read_trc(inches)
    with pytest.raises(ValueError, match="unit is one of m, cm, mm, got 'km'"):
        read_trc(inches, unit="km")
    small = TRC
    for number in ("901.0", "903.0", "904.0", "900.0"):
        small = small.replace(number, "0.9")
    for number in ("100.0", "110.0", "120.0", "130.0", "200.0", "220.0", "230.0"):
        small = small.replace(f"\t{number}\t", "\t0.1\t")
    with pytest.raises(ValueError, match=r"no marker coordinate is beyond 0\.04 m"):
        read_trc(written(tmp_path, "walk.trc", small))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("PathFileType", "time", "is no TRC file: its first line must begin with 'PathFileType'"),
        ("Frame#\tTime", "Time", "line 4 must begin with 'Frame#' and 'Time'"),
        ("110.0\t900.0", "110.0", "line 8 has 7 cells, not 8"),
        ("110.0", "1l0.0", "line 8, column R.Heel X: '1l0.0' is no number; leave the cell empty"),
        ("0.517", "0.617", "time must increase; step 2 goes from 0.617 to 0.525"),
    ],
)
def test_errors_of_trc(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_trc(written(tmp_path, "walk.trc", TRC.replace(old, new)))
    assert "walk.trc" in str(caught.value)


# -- CSV ----------------------------------------------------------------------------------------

CSV = """time_s,R.Heel_x_m,R.Heel_y_m,R.Heel_z_m,force_x_N,cop_x_m
0.00,0.1,0.9,-0.03,1.0,
0.01,,0.9,-0.03,2.0,0.2
0.02,0.3,0.9,-0.03,3.0,0.3
"""


def test_csv(tmp_path):
    markers = read_csv(written(tmp_path, "walk.csv", CSV))
    assert markers.names == ("R.Heel",)
    np.testing.assert_allclose(markers["R.Heel"][:, 2], [0.3, 0.03, 0.9])
    assert np.isnan(markers["R.Heel"][:, 1]).all()
    plain = CSV.replace("time_s", "time").replace("_m", "").replace("0.9", "900")
    path = written(tmp_path, "walk.csv", plain)
    np.testing.assert_allclose(read_csv(path)["R.Heel"][2, 0], 0.9)  # found from the data
    with pytest.raises(ValueError, match="look like millimetres"):
        read_csv(path, unit="m")
    np.testing.assert_allclose(read_csv(path, unit="mm")["R.Heel"][2, 0], 0.9)
    millimetres = written(tmp_path, "walk.csv", CSV.replace("_m", "_mm").replace("0.9", "900"))
    np.testing.assert_allclose(read_csv(millimetres)["R.Heel"][2, 0], 0.9)


def test_csv_of_one_plane(tmp_path):
    text = "time_s,Knee_x_m,Knee_y_m,Hip_x_m,Hip_y_m\n0,0.1,0.5,0.1,0.9\n0.01,0.1,0.5,0.1,0.9\n"
    markers = read_csv(written(tmp_path, "walk.csv", text))
    np.testing.assert_allclose(markers["Knee"][:, 0], [0.1, 0.0, 0.5])
    with pytest.raises(ValueError, match="column Knee_z is missing; there is Knee_x, Knee_y"):
        read_csv(tmp_path / "walk.csv", up="z")


@pytest.mark.parametrize(
    "old, new, message",
    [
        (CSV, "", "is no CSV file: line 1 must hold names"),
        ("time_s", "clock", "no column time or time_s; there are clock, R.Heel_x_m"),
        ("R.Heel_x_m,", "R.Heel_q_m,", "the column R.Heel_x is missing; there is R.Heel_y"),
        ("R.Heel_", "R.Heel", "has no columns of markers, such as Heel_x_m"),
        ("0.02,0.3", "0.02,0.3,0.4", "line 4 has 7 cells, not 6"),
        ("0.02,0.3", "0.02,x", "line 4, column R.Heel_x_m: 'x' is no number"),
        ("0.02,0.3", "0.02,inf", "line 4, column R.Heel_x_m: 'inf' is no number"),
        ("0.02,0.3", "0.01,0.3", "row 3: time must increase, got 0.01 s"),
        ("0.02,0.3", "0.04,0.3", "time is not uniform: the step after"),
        ("R.Heel_x_m", "time", "has columns time_s and time; leave one"),
        (CSV, CSV.splitlines()[0], "holds no data below its header"),
    ],
)
def test_errors_of_csv(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(written(tmp_path, "walk.csv", CSV.replace(old, new)))
    assert "walk.csv" in str(caught.value)


@pytest.mark.parametrize(
    "reader", [read_trc, read_csv, read_mot, read_table, read_forces, read_places, read_c3d]
)
def test_files_that_are_not_there(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere"):
        reader(str(tmp_path / "nowhere"))


def test_binary_is_no_text(tmp_path):
    path = tmp_path / "walk.trc"
    path.write_bytes(b"\x02\x50\0\0\0")
    with pytest.raises(ValueError, match="is no text; read_c3d reads C3D files"):
        read_trc(path)


def test_places(tmp_path):
    text = "marker,x_mm,y_mm,z_mm,sd_x_mm\nR.Heel,100,50,20,1\nSternum,100,1300,0,1\n"
    positions = read_places(written(tmp_path, "static.csv", text))
    assert list(positions) == ["R.Heel", "Sternum"]
    np.testing.assert_allclose(positions["R.Heel"], [0.1, -0.02, 0.05])
    with pytest.raises(ValueError, match="line 1 lacks the column z"):
        read_places(written(tmp_path, "static.csv", text.replace("z_mm", "q_mm", 1)))
    with pytest.raises(ValueError, match="line 2, column y_mm: 'low' is no number"):
        read_places(written(tmp_path, "static.csv", text.replace("50", "low")))
    with pytest.raises(ValueError, match=r"the position of 'R\.Heel' is missing; remove its line"):
        read_places(written(tmp_path, "static.csv", text.replace("50", "")))
    with pytest.raises(ValueError, match="line 2 has 3 cells, not 5"):
        read_places(written(tmp_path, "static.csv", text.replace("100,50,20,1", "100,50")))


# -- MOT and forces -----------------------------------------------------------------------------

MOT = """walk
version=1
nRows=3
nColumns=3
inDegrees=yes
endheader
time\thip_flexion\tpelvis_tx
0.0\t90\t0.5
0.1\t45\t0.6
0.3\t0\t0.7
"""


def test_mot(tmp_path):
    table = read_mot(written(tmp_path, "walk.mot", MOT))
    assert table.names == tuple(table) == tuple(dict(table)) == ("hip_flexion", "pelvis_tx")
    assert "pelvis_tx" in table and "pelvis" not in table and 0 not in table
    assert table.degrees
    assert table.header["nrows"] == "3"
    np.testing.assert_allclose(table.time, [0.0, 0.1, 0.3])  # a table may have any grid
    np.testing.assert_allclose(table.radians("hip_flexion"), [np.pi / 2, np.pi / 4, 0.0])
    np.testing.assert_allclose(table["pelvis_tx"], [0.5, 0.6, 0.7])
    with pytest.raises(KeyError, match="no column 'hip_flexon'; did you mean hip_flexion"):
        table["hip_flexon"]
    assert repr(table) == "<table of 2 columns, 3 rows, t = 0 ... 0.3 s>"
    old = MOT.replace("=", " ").replace("inDegrees yes", "inDegrees no")
    table = read_mot(written(tmp_path, "walk.sto", old))
    assert not table.degrees
    np.testing.assert_allclose(table.radians("hip_flexion"), [90.0, 45.0, 0.0])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("endheader", "", "is no MOT or STO file: a line 'endheader'"),
        ("0.1\t45", "0.1\t45\t1", "line 9 has 4 cells, not 3"),
        ("0.1\t45", "0.1\tabc", "line 9, column hip_flexion: 'abc' is no number"),
        ("time\t", "t\t", "no column time or time_s"),
        ("=yes", "=yas", "says inDegrees=yas; it must be yes or no"),
    ],
)
def test_errors_of_mot(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message):
        read_mot(written(tmp_path, "walk.mot", MOT.replace(old, new)))


def opensim(prefixes, rows):
    columns = [
        f"{prefix}ground_{what}{axis}"
        for prefix in prefixes
        for what in ("force_v", "force_p", "torque_")
        for axis in "xyz"
    ]
    lines = ["grf", "version=1", "inDegrees=yes", "endheader", "\t".join(["time", *columns])]
    return "\n".join(lines + ["\t".join(str(x) for x in row) for row in rows]) + "\n"


def test_forces_of_opensim(tmp_path):
    one, two = (30.0, 700.0, -20.0, 0.4, 0.0, 0.1, 0.0, 5.0, 0.0), (0.0,) * 9
    text = opensim(("", "1_"), [(0.0, *one, *two), (0.01, *one, *two)])
    wrenches = read_forces(written(tmp_path, "grf.mot", text))
    assert list(wrenches) == ["ground", "1"]
    found = wrenches["ground"]
    np.testing.assert_allclose(found.force[:, 0], [30.0, 20.0, 700.0])
    np.testing.assert_allclose(found.cop()[:, 0], [0.4, -0.1, 0.0], atol=1e-15)
    np.testing.assert_allclose(found.free_moment()[0], 5.0)
    # in the axes of the file: r x F + T
    moment = np.cross((0.4, 0.0, 0.1), (30.0, 700.0, -20.0)) + (0.0, 5.0, 0.0)
    np.testing.assert_allclose(found.moment[:, 0], rotation("y", "x") @ moment)
    np.testing.assert_array_equal(wrenches["1"].moment, 0.0)


@pytest.mark.parametrize(
    "pattern, name",
    [
        ("l_ground_{}", "l"),
        ("ground_{}", "ground"),
        ("R_ground_{}", "R"),
    ],
)
def test_names_of_opensim(tmp_path, pattern, name):
    prefix = pattern.replace("ground_{}", "")
    text = opensim((prefix,), [(t, 0, 700, 0, 0.1, 0, 0.1, 0, 0, 0) for t in (0.0, 0.1)])
    assert list(read_forces(written(tmp_path, "grf.mot", text))) == [name]
    inner = text.replace("force_v", "force_left_v").replace("force_p", "force_left_p")
    inner = inner.replace("torque_", "torque_left_").replace(prefix + "ground", "ground")
    assert list(read_forces(written(tmp_path, "grf.mot", inner))) == ["left"]


FORCES = """time_s,right_force_x_N,right_force_y_N,right_force_z_N,right_cop_x_m,right_cop_y_m,\
right_cop_z_m,right_torque_x_Nm,right_torque_y_Nm,right_torque_z_Nm
0.000,30,700,-20,0.4,0.0,0.1,0.0,5.0,0.0
0.002,0,0,0,,,,0,0,0
"""


def test_forces_of_csv(tmp_path):
    path = written(tmp_path, "grf.csv", FORCES)
    found = read_forces(path)["right"]
    np.testing.assert_allclose(found.force[:, 0], [30.0, 20.0, 700.0])
    np.testing.assert_allclose(found.cop()[:, 0], [0.4, -0.1, 0.0], atol=1e-15)
    np.testing.assert_allclose(found.free_moment()[0], 5.0)
    np.testing.assert_array_equal(found.moment[:, 1], 0.0)
    # millimetres, and a free moment about the vertical
    text = FORCES.replace("_m,", "_mm,").replace("_m\n", "_mm\n")
    text = text.replace("0.4,0.0,0.1", "400,0,100")
    text = text.replace("torque_y_Nm", "free_moment_Nmm").replace(",right_torque_x_Nm", "")
    text = (
        text.replace(",right_torque_z_Nm", "")
        .replace("0.0,5.0,0.0", "5000")
        .replace(",0,0,0\n", ",0\n")
    )
    again = read_forces(written(tmp_path, "mm.csv", text))["right"]
    np.testing.assert_allclose(again.moment, found.moment, atol=1e-12)
    # other axes of the file only turn the wrench
    turned = read_forces(path, up="y", forward="z")["right"]
    np.testing.assert_allclose(turned.force[:, 0], [-20.0, 30.0, 700.0])
    np.testing.assert_allclose(turned.free_moment()[0], 5.0)


def test_forces_of_one_plane_about_the_origin(tmp_path):
    text = "time_s,force_x_N,force_y_N,moment_z_Nm\n0,10,700,210\n0.01,10,700,210\n"
    found = read_forces(written(tmp_path, "grf.csv", text))["plate"]
    np.testing.assert_allclose(found.cop()[:, 0], [0.3, 0.0, 0.0])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("right_force", "right_push", "no columns of forces, .*, or hand the rows of each plate"),
        ("right_force_y_N", "right_push_y_N", r"grf\.csv, right: the column force y is missing"),
        ("right_cop_x_m", "right_cop_q_m", r"^[^:]*grf\.csv, right: the column cop x is missing"),
        ("right_cop", "right_centre", "right: force and centre of pressure are needed"),
        ("30,700,-20", "-30,-700,20", r"right: force plate seems to give the load"),
        ("0.002,0,0,0", "0.002,0,700,0", "right: the centre of pressure is missing at 0.002 s"),
        ("0.002", "0.000", "row 2: time must increase"),
        ("700,-20", ",-20", "right: force: 3 values are not finite"),
    ],
)
def test_errors_of_forces(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message):
        read_forces(written(tmp_path, "grf.csv", FORCES.replace(old, new)))


# -- damaged files ------------------------------------------------------------------------------

READ = {
    "trc": (read_trc, TRC),
    "mot": (read_mot, MOT),
    "sto": (read_mot, MOT),
    "csv": (read_csv, CSV),
    "forces.csv": (read_forces, FORCES),
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-9],
        lambda whole: whole[:20],
        lambda whole: whole + b"more",
        lambda whole: whole[:30] + b"\0\0\0" + whole[33:],
        lambda whole: b"\x1f\x8b" + whole[:5],
        lambda whole: whole[:12] + bytes([whole[12] ^ 255]) + whole[13:],
    ],
)
def test_damaged_compressed_files(tmp_path, name, damage):
    read, text = READ[name]
    path = tmp_path / f"walk.{name}.gz"
    path.write_bytes(damage(gzip.compress(text.encode())))
    with pytest.raises(ValueError, match=r"walk.*gz: it is damaged: it cannot be decompressed"):
        read(path)


@pytest.mark.parametrize("name", READ)
def test_what_unpacks_to_more_than_any_table(tmp_path, monkeypatch, name):
    """Of several members, too, as some programs write them."""
    read, text = READ[name]
    path = tmp_path / f"walk.{name}.gz"
    half = len(text) // 2
    path.write_bytes(gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode()))
    read(path)
    monkeypatch.setattr("kinesym.base.checks._UNPACKED", 1 << 20)
    path.write_bytes(gzip.compress(text.encode() + b" " * (2 << 20)))
    with pytest.raises(ValueError, match=r"gz: it unpacks to more than 1 MB; if that is meant"):
        read(path)


@pytest.mark.parametrize("name", READ)
def test_zero_bytes_and_other_encodings(tmp_path, name):
    read, text = READ[name]
    path = tmp_path / f"walk.{name}"
    path.write_bytes(text.encode() + b"\n" * 4096 + bytes(3))
    with pytest.raises(ValueError, match=r"is damaged: line \d+ holds zero bytes"):
        read(path)


@pytest.mark.parametrize(
    "name, old",
    [
        ("trc", "110.0"),
        ("mot", "45"),
        ("csv", "0.3"),
        ("forces.csv", "700"),
    ],
)
def test_numbers_that_are_none(tmp_path, name, old):
    read, text = READ[name]
    for wrong in ("1_000", "1e999", "0x10", "1,5" if name in ("trc", "mot") else "1;5"):
        path = written(tmp_path, f"walk.{name}", text.replace(old, wrong, 1))
        with pytest.raises(ValueError, match=rf"walk.*line \d+, column .*'{wrong}' is no number"):
            read(path)


def test_fields_without_an_end(tmp_path):
    """A quotation mark that opens a field of more than a CSV file may have."""
    text = 'time_s,Heel_x_m\n0.0,"0.1\n' + "0.1,0.2\n" * 40_000
    with pytest.raises(ValueError, match=r"walk.csv, line 2: a quotation mark has no end; remove"):
        read_csv(written(tmp_path, "walk.csv", text))


@pytest.mark.parametrize("name, fact, said", [("trc", "NumFrames", 4), ("mot", "nRows", 3)])
def test_files_cut_short(tmp_path, name, fact, said):
    """The header tells; where the cut is within a row, or may be within a number, it is refused."""
    read, text = READ[name]
    lines = text.splitlines(keepends=True)
    path = written(tmp_path, f"walk.{name}", "".join(lines[:-1]))
    words = f"is cut short: its header says {fact} = {said}, there are {said - 1} rows"
    with pytest.warns(UserWarning, match=words) as caught:
        read(path)
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=f"{words}, and the last line has no end"):
        read(written(tmp_path, f"walk.{name}", "".join(lines[:-1])[:-2]))
    with pytest.raises(ValueError, match=r"line \d+ has \d cells, not \d"):
        read(written(tmp_path, f"walk.{name}", text[:-9]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".* is taken to be up, as usual")
        read(written(tmp_path, f"walk.{name}", text))
        read(written(tmp_path, f"walk.{name}", text.rstrip("\n")))  # whole, without a line break


# -- C3D ----------------------------------------------------------------------------------------


def c3d(path, plates=True, unit="mm", sign=1.0, kind=2, first=0):
    """Two markers at 100 Hz, and a plate of 600 x 400 mm at 200 Hz if there are plates."""
    import ezc3d

    file, N = ezc3d.c3d(), 20
    points = np.ones((4, 2, N))
    points[:3, 0] = np.array([[100.0], [200.0], [300.0]]) + np.arange(N)
    points[:3, 1] = [[-50.0], [20.0], [1700.0]]
    points[:3, 1, 5] = np.nan
    file["header"]["points"]["first_frame"] = first
    parameters = file["parameters"]
    parameters["POINT"]["UNITS"]["value"] = [unit]
    parameters["POINT"]["RATE"]["value"] = [100]
    parameters["POINT"]["LABELS"]["value"] = ("R.Heel", "Head")
    file["data"]["points"] = points
    if plates:
        parameters["ANALOG"]["RATE"]["value"] = [200]
        parameters["ANALOG"]["LABELS"]["value"] = tuple("abcdef")
        analogs = np.zeros((1, 6, 2 * N))
        # Axes of the plate: x as the laboratory, y and z opposite; the sensor 40 mm below.
        force = np.array([30.0, 12.0, -700.0])
        if kind == 1:  # centre of pressure and free moment
            analogs[0] = np.array([*force, 100.0, -50.0, -3000.0])[:, None]
        else:
            moment = np.cross([100.0, -50.0, -40.0], force) + [0.0, 0.0, -3000.0]
            analogs[0] = np.array([*force, *moment])[:, None]
        file["data"]["analogs"] = sign * analogs
        group = parameters["FORCE_PLATFORM"]
        corners = np.array([[600.0, 0, 0], [0, 0, 0], [0, 400.0, 0], [600.0, 400.0, 0]])
        group["CORNERS"]["value"] = corners.T.reshape(3, 4, 1)
        group["ORIGIN"]["value"] = np.array([[0.0], [0.0], [-40.0]])
        group["CHANNEL"]["value"] = np.arange(1, 7).reshape(6, 1)
        group["TYPE"]["value"], group["USED"]["value"] = np.array([kind]), np.array([1])
    file.write(str(path))
    return path


@pytest.mark.parametrize("kind", [1, 2])
def test_c3d(tmp_path, kind):
    markers, plates = read_c3d(c3d(tmp_path / "walk.c3d", kind=kind))
    wrench = plates["1"]
    assert markers.names == ("R.Heel", "Head")
    assert markers.rate == pytest.approx(100.0)
    np.testing.assert_allclose(markers["R.Heel"][:, 3], [0.103, 0.203, 0.303], rtol=1e-6)
    assert [str(gap) for gap in markers.gaps()] == ["marker 'Head': 1 sample missing at 0.05 s"]
    assert len(wrench.time) == 40
    assert wrench.time[1] == pytest.approx(0.005)
    np.testing.assert_allclose(wrench.force[:, 7], [30.0, -12.0, 700.0])
    # from the middle of the plate, (0.3, 0.2): 0.1 ahead, and 0.05 to the left
    np.testing.assert_allclose(wrench.cop()[:, 7], [0.4, 0.25, 0.0], atol=1e-7)
    np.testing.assert_allclose(wrench.free_moment()[7], 3.0, rtol=1e-6)


def test_c3d_with_other_axes_and_without_plates(tmp_path):
    path = c3d(tmp_path / "walk.c3d", first=50)
    _, plates = read_c3d(path, forward="y")
    wrench = plates["1"]
    np.testing.assert_allclose(wrench.force[:, 0], [-12.0, -30.0, 700.0])
    np.testing.assert_allclose(wrench.cop()[:, 0], [0.25, -0.4, 0.0], atol=1e-7)
    assert wrench.time[0] == pytest.approx(0.5)
    markers, wrenches = read_c3d(c3d(tmp_path / "bare.c3d", plates=False))
    assert not wrenches
    np.testing.assert_allclose(markers["Head"][2, 0], 1.7, rtol=1e-6)


def test_errors_of_c3d(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="look like millimetres"):
        read_c3d(c3d(tmp_path / "walk.c3d", unit="m"), unit="m")
    with pytest.warns(UserWarning, match="walk.c3d says that lengths are in m, but the largest is"):
        read_c3d(c3d(tmp_path / "walk.c3d", unit="m"))
    read_c3d(c3d(tmp_path / "walk.c3d", unit="m"), unit="mm")
    with pytest.raises(ValueError, match=r"text.c3d cannot be read as C3D"):
        read_c3d(written(tmp_path, "text.c3d", TRC))
    monkeypatch.setitem(sys.modules, "ezc3d", None)
    with pytest.raises(ImportError, match=r"pip install 'kinesym\[gait\]'"):
        write_c3d(tmp_path / "walk.c3d", Markers(np.arange(2.0), {"a": np.zeros((3, 2))}))


@pytest.mark.parametrize("at, byte", [(1203, 255), (758, 250), (648, 155), (567, 203), (550, 56)])
def test_c3d_that_other_readers_do_not_survive(tmp_path, at, byte):
    """Bytes of the first parameters by which a library in C++ crashed or hung."""
    path = c3d(tmp_path / "walk.c3d")
    content = bytearray(path.read_bytes())
    content[at] = byte
    path.write_bytes(content)
    try:
        read_c3d(path)
    except ValueError as error:
        assert "walk.c3d" in str(error)


def test_c3d_that_is_cut_short(tmp_path):
    """Whole frames are kept, of markers and plates alike."""
    path = c3d(tmp_path / "walk.c3d")
    whole, plates = read_c3d(path)
    plate = plates["1"]
    content = path.read_bytes()
    start = 512 * (content[16] - 1)
    path.write_bytes(content[: start + 13 * 80 + 50])  # 80 bytes for a frame
    with pytest.warns(UserWarning, match="header says 20 frames, there are 13"):
        markers, plates = read_c3d(path)
        part = plates["1"]
    np.testing.assert_array_equal(markers["R.Heel"], whole["R.Heel"][:, :13])
    np.testing.assert_array_equal(part.moment, plate.moment[:, :26])
    path.write_bytes(content[:start])
    with pytest.raises(ValueError, match=r"walk\.c3d"):
        read_c3d(path)


# -- data of the examples -----------------------------------------------------------------------


def test_markers_of_subject_01():
    markers = read_csv(DATA / "gait_subject01_markers.csv.gz")
    assert (len(markers.names), len(markers), markers.gaps()) == (41, 151, ())
    assert markers.rate == pytest.approx(60.0, rel=1e-12)
    assert (markers["R.ASIS"][1] < markers["L.ASIS"][1]).all()  # y to the left
    assert (markers["Sternum"][2] > markers["R.Heel"][2] + 1.0).all()
    positions = read_places(DATA / "gait_subject01_static.csv")
    assert len(positions) == 49
    # Distance of the two front spines of the pelvis, a rigid one, 0.261 m when walking.
    width = np.linalg.norm(positions["R.ASIS"] - positions["L.ASIS"])
    assert width == pytest.approx(0.262, abs=0.002)
    walking = np.linalg.norm(markers["R.ASIS"] - markers["L.ASIS"], axis=0)
    assert walking.mean() == pytest.approx(0.261, abs=0.001)
    assert walking.std() < 1e-3


def test_forces_of_subject_01():
    wrenches = read_forces(DATA / "gait_subject01_forces.csv.gz")
    assert list(wrenches) == ["right", "left"]
    total = sum(wrench.force[2].mean() for wrench in wrenches.values())
    assert total == pytest.approx(72.6 * 9.80665, rel=0.01)  # mass of the subject [kg]
    markers = read_csv(DATA / "gait_subject01_markers.csv.gz")
    at = np.searchsorted(wrenches["right"].time, 0.9)  # right foot flat
    k = np.searchsorted(markers.time, 0.9)
    centre = wrenches["right"].cop()[:, at]
    heel, toe = markers["R.Heel"][:, k], markers["R.Toe.Tip"][:, k]
    assert heel[0] < centre[0] < toe[0]
    assert abs(centre[1] - heel[1]) < 0.06


def test_tables_of_subject_01():
    angles = read_table(DATA / "gait_subject01_angles.csv.gz")
    torques = read_table(DATA / "gait_subject01_torques.csv")
    assert "knee_angle_r_rad" in angles.names and "knee_angle_r_moment_Nm" in torques.names
    assert torques.time[[0, -1]] == pytest.approx([0.4, 1.6])


def test_labels_of_bmc_walk_are_exchanged():
    """In the file R. is the left side of the body; see data/README.md."""
    markers = read_csv(DATA / "gait_bmc_walk1_markers.csv.gz")
    assert (len(markers.names), markers.rate) == (28, pytest.approx(150.0, rel=1e-12))
    assert (markers["R.ASIS"][1] > markers["L.ASIS"][1]).all()
    right = markers.exchanged()
    assert (right["R.ASIS"][1] < right["L.ASIS"][1]).all()
    wrenches = read_forces(DATA / "gait_bmc_walk1_forces.csv.gz")
    assert list(wrenches) == ["plate6", "plate5", "plate3", "plate4"]
    for plate, foot in (("plate6", "R"), ("plate5", "L"), ("plate3", "R")):
        pressed = wrenches[plate]
        middle = int(np.flatnonzero(pressed.force[2] > 20.0).mean())
        centre = pressed.cop()[:, middle]
        k = int(np.argmin(np.abs(right.time - pressed.time[middle])))
        distance = {
            side: np.linalg.norm(
                (0.5 * (right[f"{side}.Heel"] + right[f"{side}.MT2"])[:, k] - centre)[:2]
            )
            for side in "RL"
        }
        assert min(distance, key=distance.get) == foot
        assert distance[foot] < 0.1


def test_plane_walk():
    markers = read_csv(DATA / "gait_2d_input.csv")
    assert set(markers.names) == {"shoulder", "trochanter", "knee", "ankle", "heel", "mt5"}
    assert sum(gap.samples for gap in markers.gaps()) == 11  # 22 empty cells
    assert not markers.filled(0.05).gaps()
    np.testing.assert_array_equal(markers["knee"][1, :40], 0.0)
    wrench = read_forces(DATA / "gait_2d_input.csv")["plate"]
    stance = wrench.force[2] > 300.0
    centre, heel = wrench.cop()[0][stance], markers["heel"][0][stance]
    assert np.nanmedian(centre - heel) == pytest.approx(0.1, abs=0.1)
    assert "knee_moment_Nm_per_kg" in read_table(DATA / "gait_2d_results.csv").names


def test_treadmill_walk_keeps_its_own_times():
    table = read_table(DATA / "gait_moore_walking.csv.gz")
    assert len(table.time) == 2000
    assert np.ptp(np.diff(table.time)) > 1e-4  # as recorded, not uniform
