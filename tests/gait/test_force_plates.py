"""C3D files as vendors write them: processors, numbers, types of plates, units, what is no marker.

Files are written here byte by byte after the manual (c3d.org).
"""

import numpy as np
import pytest
from c3d_bytes import DEC, INTEL, MIPS, write_bytes

from kinesym.gait.c3d import plate_wrench, zeroed
from kinesym.gait.c3d_files import read_c3d

# -- a writer -----------------------------------------------------------------------------------


def write(path, points, analogs, groups, processor=INTEL, real=True, first=1):
    """points : (M, 3, N), NaN where missing. analogs : (C, F)."""
    (count, _, frames), channels, scale = points.shape, len(analogs), -0.1 if real else 0.1
    groups["POINT"] |= {"SCALE": [scale], "USED": [count], "FRAMES": [frames]}
    largest = np.maximum(np.abs(analogs).max(axis=1, initial=0.0), 1e-6)
    resolution = np.ones(channels) if real else largest / 3e4
    groups["ANALOG"] |= {
        "USED": [channels],
        "SCALE": resolution,
        "GEN_SCALE": [1.0],
        "OFFSET": np.zeros(channels, int),
    }
    stored = analogs / resolution[:, None]
    return write_bytes(path, groups, points, stored, processor, scale, first)


# -- a foot on a plate --------------------------------------------------------------------------

#: Force [N] in axes of the plate, z down, where it acts [mm] from the middle, free moment [Nmm].
FORCE, PLACE, FREE = np.array([30.0, 12.0, -700.0]), np.array([100.0, -50.0, 0.0]), -3000.0
ORIGIN, CORNERS = (
    np.array([200.0, 120.0, -40.0]),
    np.array([[600.0, 0.0, 0.0, 600.0], [0.0, 0.0, 400.0, 400.0], [0.0, 0.0, 0.0, 0.0]]),
)
RNG = np.random.default_rng(4)
MATRIX = np.diag([2.0, 2.1, 8.0, 900.0, 700.0, 400.0]) @ (
    np.eye(6) + 0.03 * RNG.normal(size=(6, 6))
)


def channels(kind):
    """What the sensors of a plate show: closed forms, solved for the channels."""
    origin = np.array([0.0, 0.0, ORIGIN[2]]) if kind != 3 else ORIGIN
    moment = np.cross(PLACE + [0.0, 0.0, origin[2]], FORCE) + [0.0, 0.0, FREE]
    if kind == 1:
        return np.array([*FORCE, *PLACE[:2], FREE]), origin
    if kind == 2:
        return np.array([*FORCE, *moment]), origin
    if kind == 4:
        return np.linalg.solve(MATRIX, [*FORCE, *moment]), origin
    a, b = origin[:2]
    x12, x34, y14, y23 = np.eye(4)
    level = np.array([x12 + x34, y14 + y23, b * (x34 - x12) + a * (y14 - y23)])
    upright = np.array([[1, 1, 1, 1], [b, b, -b, -b], [-a, a, a, -a]])
    sides = np.linalg.pinv(level) @ [*FORCE[:2], moment[2]]
    return np.array([*sides, *(np.linalg.pinv(upright) @ [FORCE[2], *moment[:2]])]), origin


def trial(path, kinds=(2,), frames=20, sign=1.0, unit="mm", others=None, **options):
    """Two markers and plates side by side, of 600 x 400 mm, the first about (300, 200)."""
    size = 1.0 if unit == "mm" else 1e-3
    points = (
        np.ones((2, 3, frames))
        * np.array([[100.0, 200.0, 300.0], [-50.0, 20.0, 1700.0]])[..., None]
    )
    points[1, :, 5] = np.nan
    shown = [channels(kind) for kind in kinds]
    rows = np.concatenate([one for one, _ in shown])[:, None] * np.ones(2 * frames) * sign
    widest = max(len(one) for one, _ in shown)
    numbers, begin = np.zeros((widest, len(kinds)), int), 1
    for k, (one, _) in enumerate(shown):
        numbers[: len(one), k] = np.arange(begin, begin + len(one))
        begin += len(one)
    corners = np.stack([CORNERS + [[0.0], [400.0 * k], [0.0]] for k in range(len(kinds))], axis=-1)
    plates = {
        "USED": np.array(len(kinds)),
        "TYPE": np.array(kinds),
        "ZERO": np.array([1, 0]),
        "CHANNEL": numbers,
        "CORNERS": size * corners,
        "ORIGIN": size * np.stack([origin for _, origin in shown], axis=-1),
    }
    if 4 in kinds:
        plates["CAL_MATRIX"] = np.stack([MATRIX] * len(kinds), axis=-1)
    groups = {
        "POINT": {"UNITS": [unit], "RATE": np.float32(100.0), "LABELS": ["R.Heel", "Head"]},
        "ANALOG": {
            "RATE": np.float32(200.0), "LABELS": [f"c{k}" for k in range(len(rows))],
            "UNITS": ["V"] * len(rows),
        },
        "FORCE_PLATFORM": plates,
    }  # fmt: skip
    for name, content in (others or {}).items():
        groups[name] = groups.get(name, {}) | content
    return write(path, size * points, rows, groups, **options)


def check(wrench, across=0.0, tolerance=1e-6):
    """The foot is 0.1 m ahead of the middle of the plate, and 0.05 m to the left."""
    np.testing.assert_allclose(wrench.force[:, 7], [30.0, -12.0, 700.0], rtol=tolerance, atol=0.05)
    np.testing.assert_allclose(wrench.cop()[:, 7], [0.4, 0.25 + across, 0.0], atol=100 * tolerance)
    np.testing.assert_allclose(wrench.free_moment()[7], 3.0, atol=1e4 * tolerance)


@pytest.mark.parametrize("processor", [INTEL, DEC, MIPS])
@pytest.mark.parametrize("real", [True, False])
def test_processors_and_numbers(tmp_path, processor, real):
    """Floats and integers: those of points are tenths of a millimetre."""
    path = trial(tmp_path / "walk.c3d", (1, 2, 3, 4), processor=processor, real=real)
    markers, plates = read_c3d(path)
    assert markers.names == ("R.Heel", "Head") and markers.rate == pytest.approx(100.0)
    np.testing.assert_allclose(markers["Head"][:, 0], [-0.05, 0.02, 1.7], rtol=1e-6)
    assert [gap.samples for gap in markers.gaps()] == [1]
    assert len(plates) == 4
    for k, wrench in enumerate(plates.values()):
        check(wrench, 0.4 * k, 1e-6 if real else 1e-4)  # rounded to 1/30000 of the largest


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_kinds_in_metres_and_with_origins_upside_down(tmp_path, kind):
    check(read_c3d(trial(tmp_path / "a.c3d", (kind,)))[1]["1"])
    corners, (shown, origin) = CORNERS, channels(kind)
    upwards = origin * [1.0, 1.0, -1.0]
    for given in (origin, upwards):
        force, moment = plate_wrench(kind, shown[:, None], corners, given, MATRIX)
        np.testing.assert_allclose(force[:, 0], [30.0, -12.0, 700.0], rtol=1e-12)
        about = np.cross([400.0, 250.0, 0.0], force[:, 0]) + [0.0, 0.0, 3000.0]
        np.testing.assert_allclose(moment[:, 0], about, rtol=1e-9)


def test_lengths_of_moments(tmp_path):
    """N m beside points in millimetres, and channels that only say so."""
    said = {"ANALOG": {"UNITS": ["N"] * 3 + ["Nm"] * 3}}
    check(read_c3d(trial(tmp_path / "b.c3d", others=said))[1]["1"])  # they are N mm all the same
    metres = trial(
        tmp_path / "c.c3d", unit="m", others={"ANALOG": {"UNITS": ["N"] * 3 + ["Nmm"] * 3}}
    )
    check(read_c3d(metres)[1]["1"])


def test_plates_that_give_the_load(tmp_path):
    words = r"walk\.c3d, plate 1 gives the load, not the reaction: signs .* are changed"
    with pytest.warns(UserWarning, match=words):
        _, plates = read_c3d(trial(tmp_path / "walk.c3d", sign=-1.0))
        wrench = plates["1"]
    check(wrench)


@pytest.mark.parametrize(
    "others, words",
    [
        ({"TYPE": np.array([2, 6])}, "plate 2 is left out: it is of type 6; types 1 to 5 are read"),
        ({"TYPE": np.array([2])}, "plate 2 is left out: it is of type 0"),
        (
            {"CHANNEL": np.arange(1, 7).reshape(6, 1)},
            "plate 2 is left out: it has 0 channels, not 6",
        ),
        (
            {"ORIGIN": np.array([[0.0], [0.0], [-40.0]])},
            "plate 2 is left out: its origin is missing",
        ),
        ({"CORNERS": CORNERS[..., None]}, "plate 2 is left out: its corners are missing"),
    ],
)
def test_a_plate_that_cannot_be_evaluated(tmp_path, others, words):
    """The other one and the markers are read."""
    path = trial(tmp_path / "walk.c3d", (2, 2), others={"FORCE_PLATFORM": others})
    with pytest.warns(UserWarning, match=words):
        markers, plates = read_c3d(path)
    assert list(plates) == ["1"] and len(markers.names) == 2
    check(plates["1"])


@pytest.mark.parametrize(
    "corners, matrix, words",
    [
        (0.0 * CORNERS, MATRIX, "its corners are no rectangle"),
        (CORNERS, MATRIX[:3], r"its calibration is \(3, 6\), not \(6, 6\)"),
    ],
)
def test_plates_that_are_none(corners, matrix, words):
    with pytest.raises(ValueError, match=words):
        plate_wrench(4, np.ones((6, 2)), corners, ORIGIN, matrix)


def test_what_plates_show_at_rest():
    """The frames of FORCE_PLATFORM:ZERO are taken off, unless somebody stands on the plate."""
    rows = np.full((6, 40), 3.0)
    rows[2, 20:] = -700.0
    shown = zeroed(rows, [1, 5], 1, 2)
    np.testing.assert_array_equal(shown[:, :20], 0.0)
    np.testing.assert_array_equal(shown[2, 20:], -703.0)
    np.testing.assert_array_equal(zeroed(rows, [101, 105], 101, 2), shown)
    for zero in ([1, 0], [0, 0], [], [15, 20], [90, 95]):
        np.testing.assert_array_equal(zeroed(rows, zero, 1, 2), rows)


def test_points_that_are_no_markers(tmp_path):
    """Results of Plug-in Gait, points without labels, the name of the subject, zeros where a marker
    was not seen."""
    frames = 20
    points = np.full((4, 3, frames), 500.0)
    points[0] += np.arange(frames)
    points[0, :, 4:6] = 0.0
    points[2] = 9e4  # N mm
    labels = ["Anna:RHEE", "Anna:LHEE", "Anna:RKneeMoment", "*7"]
    groups = {
        "POINT": {
            "UNITS": ["mm"], "RATE": np.float32(100.0), "LABELS": labels,
            "MOMENTS": ["Anna:RKneeMoment"],
        },
        "ANALOG": {"RATE": np.float32(200.0)},
        "FORCE_PLATFORM": {"USED": np.array(0)},
    }  # fmt: skip
    markers, plates = read_c3d(write(tmp_path / "a.c3d", points, np.zeros((0, 40)), groups))
    assert markers.names == ("RHEE", "LHEE") and plates == {}
    assert markers.note.endswith("names without 'Anna:'")
    assert [(gap.marker, gap.samples) for gap in markers.gaps()] == [("RHEE", 2)]
    np.testing.assert_allclose(markers["RHEE"][:, 1], 0.501, rtol=1e-6)


def test_weight_tells_what_is_up(tmp_path):
    """Where markers do not: two of them, and a person on a plate in a floor whose y is up."""
    turned = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    turned[0], turned[2] = CORNERS[0], -CORNERS[1]
    others = {
        "FORCE_PLATFORM": {"CORNERS": turned[..., None]},
        "POINT": {"LABELS": ["A", "B"]},
    }
    markers, plates = read_c3d(trial(tmp_path / "a.c3d", others=others))
    wrench = plates["1"]
    assert markers.note.startswith("y is up (by the weight), x forwards (as usual)")
    check(wrench)
