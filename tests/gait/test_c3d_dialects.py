"""C3D files byte by byte, as vendors write them: read as what they mean, or refused by the cause.

The variants are those of the manual (c3d.org), and of reports of ezc3d, BTK and OpenSim:
processors, types of parameters and missing ones, offsets, numbers of frames, units.
"""

import warnings

import numpy as np
import pytest
from c3d_bytes import DEC, INTEL, MIPS, write_bytes

import kinesym as ks

FRAMES, RATIO = 30, 2


def positions(scale=1.0):
    """Heel, toe and head (3, 3, N) in mm, the head missing once."""
    way = 20.0 * np.arange(FRAMES)
    rows = [[100.0 + way, 200.0, 50.0], [300.0 + way, 200.0, 40.0], [120.0 + way, 180.0, 1700.0]]
    found = scale * np.array([[row + 0.0 * way for row in rows_of] for rows_of in rows])
    found[2, :, 5] = np.nan
    return found


FORCE = np.array([32.0, 12.0, -700.0])  # in axes of the plate, z down, sensors 40 mm below
MOMENT = np.cross([100.0, -50.0, -40.0], FORCE) + [0.0, 0.0, -3000.0]
CORNERS = np.array([[600.0, 0, 0], [0, 0, 0], [0, 400.0, 0], [600.0, 400.0, 0]]).T[..., None]


def channels(length=1.0):
    """Forces [N] and moments, in N mm times this."""
    return np.repeat(np.array([*FORCE, *(length * MOMENT)])[:, None], RATIO * FRAMES, axis=1)


def groups(scale=-1.0, unit="mm", moments="Nmm", **changed):
    """Parameters; changed : such as POINT_UNITS=None, which leaves it out."""
    length = 1e-3 if unit == "m" else 1.0
    found = {
        "POINT": {
            "USED": [3], "SCALE": [scale], "RATE": [100.0], "FRAMES": [FRAMES], "DATA_START": [3],
            "LABELS": ["RHEE", "RTOE", "HEAD"], "UNITS": [unit],
        },
        "ANALOG": {
            "USED": [6], "RATE": [200.0], "GEN_SCALE": [1.0], "SCALE": np.ones(6),
            "OFFSET": np.zeros(6, int), "UNITS": ["N"] * 3 + [moments] * 3,
        },
        "PLATE": {
            "USED": [1], "TYPE": [2], "ZERO": [1, 0], "CORNERS": length * CORNERS,
            "ORIGIN": length * np.array([[0.0], [0.0], [-40.0]]),
            "CHANNEL": np.arange(1, 7).reshape(6, 1),
        },
    }  # fmt: skip
    for place, value in changed.items():
        group, name = place.split("_", 1)
        found.setdefault(group, {})[name] = value
        if value is None:
            del found[group][name]
    found["FORCE_PLATFORM"] = found.pop("PLATE")
    return found


def read(path):
    """Silently, or warnings fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ks.gait.read_c3d(path, up="z", forward="x")


def check(recording, atol=1e-6):
    """The same content, whatever the dialect."""
    markers, plates = recording
    assert markers.names == ("RHEE", "RTOE", "HEAD")
    assert len(markers) == FRAMES and markers.rate == pytest.approx(100.0)
    np.testing.assert_allclose(markers["RHEE"][:, 3], [0.16, 0.2, 0.05], rtol=1e-6)
    assert np.flatnonzero(np.isnan(markers["HEAD"][0])).tolist() == [5]
    wrench = plates["1"]
    assert len(wrench.time) == RATIO * FRAMES
    np.testing.assert_allclose(wrench.force[:, 7], [32.0, -12.0, 700.0], rtol=1e-6, atol=1e2 * atol)
    np.testing.assert_allclose(wrench.cop()[:, 7], [0.4, 0.25, 0.0], atol=atol)
    np.testing.assert_allclose(wrench.free_moment()[7], 3.0, atol=1e3 * atol)


@pytest.mark.parametrize("processor", [INTEL, DEC, MIPS])
@pytest.mark.parametrize("scale", [-1.0, 0.1])
def test_processors_and_formats(tmp_path, processor, scale):
    """Reals, and integers of so many units; of analog samples too, signed or not."""
    path = tmp_path / "a.c3d"
    if scale < 0.0:
        check(read(write_bytes(path, groups(), positions(), channels(), processor)))
        return
    scales, stored = {"ANALOG_SCALE": np.full(6, 8.0), "ANALOG_GEN_SCALE": [0.5]}, channels() / 4.0
    signed = groups(scale, **scales, ANALOG_OFFSET=np.full(6, 7))
    check(read(write_bytes(path, signed, positions(), stored + 7, processor, scale)), 1e-4)
    lifted = (np.round(stored) + 32768).astype("u2").astype("i2")  # as two bytes hold them
    unsigned = groups(scale, **scales, ANALOG_OFFSET=[-32768] * 6, ANALOG_FORMAT="UNSIGNED")
    check(read(write_bytes(path, unsigned, positions(), lifted, processor, scale)), 1e-4)


@pytest.mark.parametrize(
    "changed",
    [
        {"POINT_FRAMES": [float(FRAMES)]},  # Qualisys
        {"POINT_RATE": [100]},
        {"POINT_USED": [3.0]},
        {"POINT_USED": None},
        {"POINT_SCALE": None},
        {"POINT_RATE": None},
        {"POINT_FRAMES": None},
        {"POINT_LABELS": ["RHEE", "RTOE", "HEAD", "*1", ""]},  # BTS
        {"PLATE_USED": np.array([1], np.int8)},  # KinaTrax
        {"PLATE_TYPE": np.array([2], np.int8)},
        {"PLATE_CHANNEL": np.arange(1.0, 7.0).reshape(6, 1)},
        {"ANALOG_RATE": None},
        {"ANALOG_SCALE": None},
        {"ANALOG_OFFSET": None},
        {"ANALOG_GEN_SCALE": None},
        {"ANALOG_UNITS": None},
        {"ANALOG_USED": None},
        {"PLATE_ZERO": [0, 0]},
        {"PLATE_ZERO": None},
    ],
)
def test_parameters_of_other_types_and_missing_ones(tmp_path, changed):
    check(read(write_bytes(tmp_path / "a.c3d", groups(**changed), positions(), channels())))


@pytest.mark.parametrize("unit", ["mm", "MM", "mm ", "millimeters", "m", "Meters"])
@pytest.mark.parametrize("moments", ["Nmm", "Nm"])
def test_units(tmp_path, unit, moments):
    """Moments in N mm beside points in m are those of Motive."""
    length = 1e-3 if unit in ("m", "Meters") else 1.0
    made = groups(unit="m" if length < 1.0 else "mm", moments=moments, POINT_UNITS=[unit])
    stored = channels(1.0 if moments == "Nmm" else 1e-3)
    check(read(write_bytes(tmp_path / "a.c3d", made, positions(length), stored)))


def test_corners_in_another_unit_than_points(tmp_path):
    made = groups(unit="m", PLATE_CORNERS=CORNERS, PLATE_ORIGIN=np.array([[0.0], [0.0], [-40.0]]))
    path = write_bytes(tmp_path / "a.c3d", made, positions(1e-3), channels())
    with pytest.warns(UserWarning, match="plate 1 has corners 721.1 apart, .* m: taken as mm"):
        found = ks.gait.read_c3d(path, up="z", forward="x")
    check(found)


@pytest.mark.parametrize("turned", [False, True])
def test_plates_of_eight_channels_and_a_calibration(tmp_path, turned):
    """Type 5: forces and moments are sums of eight channels, by a matrix."""
    matrix = np.linalg.qr(np.random.default_rng(5).normal(size=(8, 6)))[0].T
    eight = matrix.T @ channels()
    made = groups(
        PLATE_TYPE=[5], PLATE_CHANNEL=np.arange(1, 9).reshape(8, 1), ANALOG_USED=[8],
        PLATE_CAL_MATRIX=(matrix.T if turned else matrix)[..., None], ANALOG_UNITS=None,
        ANALOG_SCALE=None, ANALOG_OFFSET=None,
    )  # fmt: skip
    check(read(write_bytes(tmp_path / "a.c3d", made, positions(), eight)), 1e-4)
    del made["FORCE_PLATFORM"]["CAL_MATRIX"]
    write_bytes(tmp_path / "a.c3d", made, positions(), eight)
    with pytest.warns(UserWarning, match=r"left out: its calibration is \(0, 0\), not \(6, 8\)"):
        ks.gait.read_c3d(tmp_path / "a.c3d", up="z", forward="x")


def test_channels_that_are_no_forces(tmp_path):
    path = tmp_path / "a.c3d"
    check(read(write_bytes(path, groups(ANALOG_UNITS=["V"] * 6), positions(), channels())))
    write_bytes(path, groups(ANALOG_UNITS=["V"] * 6), positions(), channels() / 1e3)
    with pytest.warns(UserWarning, match="plate 1 has channels in V; are they forces"):
        ks.gait.read_c3d(path, up="z", forward="x")
    for kind in (6, 7, 21):
        write_bytes(path, groups(PLATE_TYPE=[kind]), positions(), channels())
        with pytest.warns(UserWarning, match=f"left out: it is of type {kind}; types 1 to 5"):
            assert not ks.gait.read_c3d(path, up="z", forward="x").plates


@pytest.mark.parametrize(
    "changed",
    [
        {"POINT_FRAMES": [-1]},
        {"POINT_FRAMES": [66000.0]},
        {"POINT_FRAMES": [-1], "POINT_LONG_FRAMES": [66000.0]},
        {"TRIAL_ACTUAL_START_FIELD": [1, 0], "TRIAL_ACTUAL_END_FIELD": [464, 1]},
    ],
)
def test_more_frames_than_the_header_holds(tmp_path, changed):
    """Vicon writes 65535 there; what follows the samples is none of them if it is said how many
    there are."""
    still = np.repeat(positions()[:, :, :1], 66000, axis=2)
    after = b"" if changed == {"POINT_FRAMES": [-1]} else b"\1" * 5120
    made = groups(**changed, PLATE_USED=[0])
    markers, _ = read(write_bytes(tmp_path / "a.c3d", made, still, after=after))
    assert len(markers) == 66000 and markers.time[-1] == pytest.approx(659.99)
    np.testing.assert_allclose(markers["RTOE"][:, -1], [0.3, 0.2, 0.04])


def test_records_that_begin_late(tmp_path):
    """The clock of the first frame, and events on it, with and without contexts."""
    for contexts, label in ((["Right"], "Foot Strike"), (None, "RHS")):
        events = {"EVENT_USED": [1], "EVENT_TIMES": np.array([[0.0], [0.6]])}
        events |= {"EVENT_CONTEXTS": contexts} if contexts else {}
        made = groups(**events, EVENT_LABELS=[label], TRIAL_ACTUAL_START_FIELD=[50, 0])
        found = read(write_bytes(tmp_path / "a.c3d", made, positions(), channels(), first=50))
        assert found.markers.time[0] == pytest.approx(0.49)
        (contact,) = found.contacts
        assert contact.foot == "right" and contact.begin == pytest.approx(0.6)


def test_points_without_labels(tmp_path):
    path = write_bytes(
        tmp_path / "a.c3d", groups(POINT_LABELS=["RHEE", "RTOE"]), positions(), channels()
    )
    with pytest.warns(UserWarning, match="1 points have no label, and are left out"):
        assert ks.gait.read_c3d(path, up="z", forward="x").markers.names == ("RHEE", "RTOE")
    write_bytes(path, groups(POINT_LABELS=None), positions(), channels())
    with pytest.raises(ValueError, match=r"a.c3d holds 3 points without labels, POINT:LABELS"):
        read(path)


def test_rotations_alone(tmp_path):
    """As Theia writes them."""
    made = groups(POINT_USED=[0], POINT_LABELS=[""], PLATE_USED=[0])
    made["ROTATION"] = {"USED": [2], "LABELS": ["pelvis_4X4", "r_thigh_4X4"], "RATIO": [1]}
    path = write_bytes(tmp_path / "a.c3d", made, np.zeros((0, 3, FRAMES)), after=b"\0" * 4096)
    with pytest.raises(ValueError, match="no points but rotations of 2 segments"):
        read(path)


def test_headers_that_contradict_themselves(tmp_path):
    path = write_bytes(tmp_path / "a.c3d", groups(ANALOG_USED=[5]), positions(), channels())
    content = bytearray(path.read_bytes())
    content[18:20] = b"\5\0"  # 12 analog samples in a frame, 5 of each channel
    path.write_bytes(content)
    with pytest.raises(ValueError, match="12 analog samples in a frame, 5 of each channel"):
        read(path)
    content[1] = 81
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a.c3d cannot be read as C3D: its first block"):
        read(path)
