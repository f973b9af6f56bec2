"""What people hand over by mistake: each is refused or warned of in a sentence that helps."""

import gzip
import pickle
import warnings

import numpy as np
import pytest

import kinesym as ks
from kinesym.base.checks import Named
from kinesym.examples.studies import gait
from kinesym.gait import Wrench, read_c3d, read_csv, read_forces, read_mot, read_table, read_trc
from kinesym.gait.events import phases
from kinesym.gait.motion_files import Table
from kinesym.gait.shared_reaction import check_exchanged
from kinesym.gait.tables import write_storage

TIME = np.arange(0.0, 2.0, 0.01)


@pytest.fixture(scope="module")
def walk():
    return gait.walk()


@pytest.fixture(scope="module")
def needed(walk):
    return ks.gait.Body(walk[0].segments).inverse(
        walk[0].kinematics.sample(np.arange(0.62, 2.02, 0.01))
    )


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*arguments, **options)


# -- files ----------------------------------------------------------------------------------------


READERS = [read_trc, read_csv, read_c3d, read_mot, read_table, read_forces, ks.gait.read_places]
READERS += [ks.gait.find_files, ks.osim.read, ks.osim.read_loads, ks.osim.read_markers]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("path", [None, 3, ["walk.trc"]])
def test_what_is_no_path(reader, path):
    with pytest.raises(ValueError, match="a file is named by its path, text or a Path, got"):
        reader(path)


def test_another_reader_is_named(tmp_path):
    walk = ks.gait.Markers(TIME, {"R.Heel": np.vstack([TIME, 0.1 + 0 * TIME, 1.0 + 0 * TIME])})
    walk.to_trc(tmp_path / "walk.trc")
    write_storage(tmp_path / "angles.mot", TIME, {"knee_angle_r": TIME}, True)
    with pytest.raises(ValueError, match=r"no CSV file: line 1 .*; read_mot reads it"):
        read_table(tmp_path / "angles.mot")
    with pytest.raises(ValueError, match=r"no CSV file: line 1 .*; read_trc reads it"):
        read_csv(tmp_path / "walk.trc")


def test_time_in_milliseconds(tmp_path):
    """Of a MOT file by its steps, of a TRC file also by the rate that it says."""
    columns = {"knee_angle_r": np.sin(TIME)}
    write_storage(tmp_path / "ms.mot", 1e3 * TIME, columns, True)
    with pytest.warns(UserWarning, match="a sample every 10 s: is time in milliseconds") as said:
        read_mot(tmp_path / "ms.mot")
    assert said[0].filename == __file__
    walk = ks.gait.Markers(TIME, {"R.Heel": np.vstack([TIME, 0.1 + 0 * TIME, 1.0 + 0 * TIME])})
    walk.to_trc(tmp_path / "walk.trc")
    quiet(read_trc, tmp_path / "walk.trc")
    lines = (tmp_path / "walk.trc").read_text().splitlines()
    for k in range(6, len(lines)):
        cells = lines[k].split("\t")
        cells[1] = f"{1e3 * float(cells[1]):.6f}"
        lines[k] = "\t".join(cells)
    (tmp_path / "ms.trc").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="every 10 s, but the file says 100 Hz: is time in milli"):
        read_trc(tmp_path / "ms.trc")


def test_markers_in_milliseconds(walk):
    found = walk[0]
    late = ks.gait.Markers(1e3 * found.markers.time, found.markers.positions)
    with pytest.raises(
        ValueError, match=r"half the sampling rate, got 6.0; is time in millisecond"
    ):
        late.smoothed(ks.gait.Butterworth(6.0))
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    with pytest.warns(
        UserWarning, match=r"the markers: a sample every 16\.\d+ s: is time in milli"
    ):
        ks.gait.reconstruct(gait.subject(), gait.relations(), late, still)


def plate(unit):
    """A step whose centre goes 0.25 m forwards, lengths in this unit of a metre."""
    load = 700.0 * np.sin(np.pi * np.clip((TIME - 0.5) / 0.7, 0.0, 1.0))
    push = -100.0 * np.sin(2 * np.pi * np.clip((TIME - 0.5) / 0.7, 0.0, 1.0))
    zero = 0.0 * TIME
    return {
        **{f"ground_force_v{a}": row for a, row in zip("xyz", (push, load, zero), strict=True)},
        "ground_force_px": (1.0 + 0.36 * (TIME - 0.5)) / unit,
        "ground_force_py": zero,
        "ground_force_pz": (0.2 + zero) / unit,
        **{f"ground_torque_{a}": zero for a in "xyz"},
    }


def test_lengths_of_plates_in_another_unit(tmp_path):
    for name, unit in (("m", 1.0), ("mm", 1e-3)):
        write_storage(tmp_path / f"{name}.mot", TIME, plate(unit), False)
    quiet(read_forces, tmp_path / "m.mot")
    quiet(read_forces, tmp_path / "mm.mot", unit="mm")
    quiet(read_forces, tmp_path / "m.mot", unit="m")
    with pytest.warns(UserWarning, match="unit='mm' was given, but the load acts at one point, wi"):
        read_forces(tmp_path / "m.mot", unit="mm")
    with pytest.warns(UserWarning, match=r"unit='m' was given, but the load acts 1\d\d\d m away"):
        read_forces(tmp_path / "mm.mot", unit="m")
    with pytest.warns(UserWarning, match="m away: taken as mm"):
        read_forces(tmp_path / "mm.mot")


def test_units_beside_external_loads(tmp_path, walk):
    """The file that they name is looked at like any other, compressed or not."""
    ks.gait.write_forces(
        tmp_path / "grf.mot", walk[1], bodies={"right": "calcn_r", "left": "calcn_l"}
    )
    found = ks.osim.read_loads(tmp_path / "grf.xml")
    with pytest.warns(UserWarning, match="unit='mm' was given, but the load acts at one point"):
        read_forces(tmp_path / "grf.xml", unit="mm")
    packed = gzip.compress((tmp_path / "grf.mot").read_bytes())
    (tmp_path / "grf.mot").unlink()
    (tmp_path / "grf.mot.gz").write_bytes(packed)
    for again in (
        ks.osim.read_loads(tmp_path / "grf.xml"),
        ks.osim.read_loads(tmp_path / "grf.xml", tmp_path / "grf.mot.gz"),
    ):
        np.testing.assert_array_equal(again["calcn_r"].rows, found["calcn_r"].rows)


def test_left_that_contradicts_the_names(tmp_path, walk):
    walk[0].markers.to_trc(tmp_path / "walk.trc")
    quiet(read_trc, tmp_path / "walk.trc", left="-z")
    said = "left='z' was given, but markers called right are then to the left: left='-z', or names"
    with pytest.warns(UserWarning, match=said):
        read_trc(tmp_path / "walk.trc", left="z")
    pytest.importorskip("ezc3d")
    ks.gait.write_c3d(tmp_path / "walk.c3d", walk[0].markers)
    quiet(read_c3d, tmp_path / "walk.c3d", left="y")
    with pytest.warns(UserWarning, match="left='-y' was given"):
        read_c3d(tmp_path / "walk.c3d", left="-y")


MODEL = """<OpenSimDocument><Model name="m"><BodySet><objects>
<Body name="tibia_r"><mass>3</mass><components><PhysicalOffsetFrame name="turned">
<socket_parent>..</socket_parent><translation>0.1 0.2 0.3</translation>
<orientation>0 0 1.5707963267948966</orientation></PhysicalOffsetFrame></components></Body>
</objects></BodySet><MarkerSet><objects>
<Marker name="plain"><socket_parent_frame>/bodyset/tibia_r</socket_parent_frame>
<location>1 2 3</location></Marker>
<Marker name="turned"><socket_parent_frame>/bodyset/tibia_r/turned</socket_parent_frame>
<location>1 2 3</location></Marker>
<Marker name="floor"><socket_parent_frame>/ground</socket_parent_frame>
<location>0 0 0</location></Marker>
</objects></MarkerSet></Model></OpenSimDocument>"""


def test_markers_on_frames_of_a_body(tmp_path):
    """A quarter turn about z: x is along y of the body, y against its x."""
    (tmp_path / "model.osim").write_text(MODEL)
    found = ks.osim.read_markers(tmp_path / "model.osim")
    assert {*found} == {"plain", "turned"} and found["plain"] == ("tibia_r", (1.0, 2.0, 3.0))
    assert found["turned"][0] == "tibia_r"
    np.testing.assert_allclose(found["turned"][1], [0.1 - 2.0, 0.2 + 1.0, 0.3 + 3.0], atol=1e-12)
    begin, end = MODEL.index("<MarkerSet>"), MODEL.index("</Model>")
    (tmp_path / "set.xml").write_text(MODEL[begin:end])
    with pytest.raises(ValueError, match="Marker turned is on /bodyset/tibia_r/turned, a frame th"):
        ks.osim.read_markers(tmp_path / "set.xml")
    with pytest.raises(KeyError, match="there is no marker 'plane'; did you mean plain"):
        found["plane"]


# -- tables ---------------------------------------------------------------------------------------


def test_translations_are_no_angles():
    columns = {
        "knee_angle_r": 30.0 + TIME,
        "pelvis_ty": 0.9 + 0 * TIME,
        "/j/p/pelvis_tx/value": TIME,
    }
    table = Table(TIME, columns, degrees=True)
    np.testing.assert_allclose(table.radians("knee_angle_r"), np.radians(30.0 + TIME))
    for name in ("pelvis_ty", "/j/p/pelvis_tx/value"):
        with pytest.raises(ValueError, match=r"is a translation \[m\], no angle; take table\['"):
            table.radians(name)
    with pytest.raises(ValueError, match="pelvis_ty is a translation"):
        Table(TIME, columns).in_degrees(["pelvis_ty"])
    with pytest.raises(KeyError, match="no column 'pelvis_t_y'; did you mean pelvis_ty"):
        table.radians("pelvis_t_y")


def test_tables_as_csv(tmp_path):
    table = Table(TIME, {"a": np.sqrt(TIME), "b, of c": np.where(TIME > 1.0, np.nan, TIME)})
    table.to_csv(tmp_path / "table.csv")
    again = read_table(tmp_path / "table.csv")
    assert again.names == ("a", "b, of c")
    for name in again.names:
        np.testing.assert_array_equal(again[name], table[name])
    np.testing.assert_allclose(again.time, TIME, rtol=1e-15)


# -- names ----------------------------------------------------------------------------------------


def test_names_are_suggested(walk, needed):
    found, plates = walk
    with pytest.warns(UserWarning):
        shared = ks.gait.share(needed.total, contacts(plates), plates)
    rows = {"knee": np.sin(TIME)}
    fitted = ks.gait.MarkerFit("leg", TIME, rows, rows, {"R.Knee": 1e-3 + 0.0 * TIME}, 2e-3)
    (knee,) = places = {"R.Knee": np.zeros(3)}
    scaled = ks.gait.Scaling(
        "leg", {"femur_r": "thigh"}, {"thigh": 1.1}, {"thigh": 0.02}, {knee: "femur_r"}, places,
        {knee: 0.01}, places, {knee: 5e-3}, 6e-3,
    )  # fmt: skip
    for rows, name, said in (
        (plates, "rigth", "there is no plate 'rigth'; did you mean right"),
        (found.alike(plates), "Right", "there is no foot or plate 'Right'; did you mean right"),
        (shared.wrenches, "lft", "there is no foot 'lft'; did you mean left"),
        (found.markers.positions, "R.Hel", "there is no marker 'R.Hel'; did you mean R.Heel"),
        (needed.multipliers(), "nothing", "there is no constraint 'nothing'"),
        (needed.joints({}).columns(), "time", "there is no column 'time'; did you mean time_s"),
        (fitted.std, "kne", "there is no coordinate 'kne'; did you mean knee"),
        (fitted.distances, "R.Kne", "there is no marker of the fit 'R.Kne'; did you mean R.Knee"),
        (fitted.marker_rms, "R.Kne", "there is no marker of the fit 'R.Kne'; did you mean R.Knee"),
        (scaled.factors, "thight", "there is no factor 'thight'; did you mean thigh"),
        (scaled.groups, "thight", "there is no factor 'thight'; did you mean thigh"),
        (scaled.stretched, "femur", "there is no stretched body 'femur'; did you mean femur_r"),
        (scaled.moved, "Knee", "there is no marker of the scaling 'Knee'; did you mean R.Knee"),
        (scaled.placed, "Knee", "there is no marker of the scaling 'Knee'; did you mean R.Knee"),
    ):
        with pytest.raises(KeyError, match=said):
            rows[name]
        assert rows.get(name) is None and name not in rows


def test_a_named_dictionary_stays_one():
    """Through a pickle, as to workers; equal to a plain one, and empty of a sudden it says so."""
    rows = Named("foot", {"right": 1, "left": 2})
    again = pickle.loads(pickle.dumps(rows))
    assert again == rows == {"right": 1, "left": 2}
    with pytest.raises(KeyError, match="there is no foot 'lft'; did you mean left"):
        again["lft"]
    with pytest.raises(KeyError, match="there is no foot 'left'; none are declared"):
        Named("foot")["left"]


# -- plates under the other foot ------------------------------------------------------------------


def contacts(plates):
    return [c for foot in plates for c in ks.gait.contacts_from_wrench(foot, plates[foot])]


def test_exchanged_plates(walk, needed):
    """With the contacts of the feet `share` says it, with those of the plates `joints`."""
    _, plates = walk
    crossed = {"right": plates["left"], "left": plates["right"]}
    at = {foot: plate.at(needed.time) for foot, plate in plates.items()}
    quiet(needed.joints, at)
    with pytest.warns(UserWarning, match="'(left|right)' is there: are plates exchanged") as said:
        needed.joints({"right": at["left"], "left": at["right"]})
    assert said[0].filename == __file__
    steps = contacts(plates)
    with (
        pytest.warns(UserWarning, match=r"stands alone from .* bears the weight: are plates exch"),
        pytest.raises(ValueError, match="neither 'right' nor 'left' stands on a plate"),
    ):
        ks.gait.share(needed.total, steps, crossed)
    assert check_exchanged(needed.total, phases(steps), at) == []


def test_a_plate_that_shows_nothing_while_the_other_bears_it():
    """A plate that is loaded most of a contact, but not where its foot stands alone."""
    time = np.arange(0.0, 1.5, 0.01)
    total = Wrench(time, np.outer([0.0, 0.0, 700.0], np.ones(150)), np.zeros((3, 150)))
    feet = {
        "right": total.scaled(((time > 0.4) & (time < 1.0)).astype(float)),
        "left": total.scaled(((time < 0.4) | (time > 0.8)).astype(float)),
    }
    steps = [
        ks.gait.Contact("right", 0.0, 1.0, struck=False),
        ks.gait.Contact("left", 0.4, 1.49, lifted=False),
    ]
    with (
        pytest.warns(UserWarning, match="'right' stands alone from 0.000 to 0.400 s"),
        pytest.raises(ValueError, match=r"'right' shows Fz = 0 N .* that of 'left' bears it, are"),
    ):
        ks.gait.share(total, steps, feet)
