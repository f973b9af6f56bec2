"""From markers to motion, where the motion is known."""

import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kinesym.gait.markers import Markers
from kinesym.gait.reconstruction import noise, reconstruct
from kinesym.gait.relations import Axes, Carried, Midpoint, Relations
from kinesym.gait.smoothing import SSA, Butterworth
from kinesym.gait.wrench import Wrench
from kinesym.models.whole_body import segments_of_body

NAMES = ("pelvis", "Rthigh", "Rshank", "Lthigh")
ROWS = [row for row in segments_of_body(70.0, 1.7) if row.name in NAMES]
TIME = np.arange(121) / 60.0
#: Markers of each segment in its axes [m]: a triangle that spans them.
PLACES = {"a": (0.1, 0.0, -0.1), "b": (0.0, 0.1, -0.1), "c": (0.0, 0.0, -0.25)}


def motion():
    """z (15, N) of slow sines."""
    rng = np.random.default_rng(0)
    z = rng.uniform(0.05, 0.3, (15, 1)) * np.sin(
        2 * np.pi * rng.uniform(0.5, 1.0, (15, 1)) * TIME + rng.uniform(0, 6, (15, 1))
    )
    z[:3] += np.array([[0.3], [0.0], [1.0]])
    return z


def markers_of(z):
    """Three on each segment, and one at J1; when all angles are zero, too."""
    points = {"J1": z[:3]}
    found = {"J": points["J1"]}
    for k, row in enumerate(ROWS):
        A = Rotation.from_euler("YXZ", z[[4 + 3 * k, 3 + 3 * k, 5 + 3 * k]].T).as_matrix()
        at = points[row.proximal]
        points |= {p: at + (A @ np.array(x)).T for p, x in row.points.items()}
        found |= {f"{row.name}.{m}": at + (A @ np.array(x)).T for m, x in PLACES.items()}
    return found, points


def relations():
    """Axes as they are when all angles are zero, carried by the markers of each segment; joints
    are midpoints of markers that only the calibration has."""
    upright = Axes("z", z="up", x=("back", "front"))
    positions, axes = {"J1": "J"}, {}
    for row in ROWS:
        cluster = [f"{row.name}.{m}" for m in PLACES]
        axes[row.name] = Carried(upright, cluster)
        for point in row.points:
            if point in ("RH", "LH", "RK", "LK", "RA"):
                both = [f"{point}.{end}" for end in ("lateral", "medial")]
                positions[point] = Carried(Midpoint(both), cluster)
    return Relations(positions, axes)


def calibration():
    found, points = markers_of(np.zeros((15, 1)))
    still = {name: position[:, 0] for name, position in found.items()}
    still |= {"back": np.zeros(3), "front": np.array([1.0, 0.0, 0.3])}
    for point in ("RH", "LH", "RK", "LK", "RA"):
        for end, off in (("lateral", 0.05), ("medial", -0.05)):
            still[f"{point}.{end}"] = points[point][:, 0] + np.array([0.0, off, 0.0])
    return still


KEEP_ALL = SSA(noise=0.0)


def test_exact_markers():
    """Motion, segments and rates come back; eigenvalues keep half the digits of the series."""
    z = motion()
    found = reconstruct(
        ROWS, relations(), Markers(TIME, markers_of(z)[0]), calibration(), KEEP_ALL, KEEP_ALL
    )
    np.testing.assert_allclose(found.fitted.z, z, atol=1e-7)
    assert found.fitted.rms.max() < 1e-8
    for ours, row in zip(found.segments, ROWS, strict=True):
        for point, position in row.points.items():
            np.testing.assert_allclose(ours.points[point], position, atol=1e-8)
    here = found.kinematics.sample(TIME[5:-5])
    np.testing.assert_allclose(here.z, z[:, 5:-5], atol=1e-7)
    rate = (z[:, 6:-4] - z[:, 4:-6]) * 30.0
    np.testing.assert_allclose(here.zd, rate, atol=0.02)


@pytest.mark.study
def test_dead_labels_of_the_calibration():
    """Markers that only the calibration shows may have labels in the trial, without a sample; those
    that move something are missed."""
    positions, still = markers_of(motion())[0], calibration()
    lost = np.full((3, len(TIME)), np.nan)
    dead = {name: lost for name in still if name not in positions}
    assert "RK.medial" in dead
    expected = reconstruct(ROWS, relations(), Markers(TIME, positions), still, smooth=KEEP_ALL)
    found = reconstruct(ROWS, relations(), Markers(TIME, positions | dead), still, smooth=KEEP_ALL)
    np.testing.assert_array_equal(found.fitted.z, expected.fitted.z)
    with pytest.raises(ValueError, match=r"'Rshank.a'.* missing .*throughout, stays"):
        reconstruct(ROWS, relations(), Markers(TIME, positions | {"Rshank.a": lost}), still)


def test_noise_of_markers():
    """1 mm of noise: points are missed by millimetres, of angles little is left."""
    z, rng = motion(), np.random.default_rng(1)
    noisy = {name: p + 1e-3 * rng.normal(size=p.shape) for name, p in markers_of(z)[0].items()}
    found = reconstruct(ROWS, relations(), Markers(TIME, noisy), calibration())
    off = found.kinematics.sample(TIME[10:-10]).z - z[:, 10:-10]
    assert np.sqrt(np.mean(off[:3] ** 2)) < 1.5e-3 and np.sqrt(np.mean(off[3:] ** 2)) < 0.02
    assert 1e-5 < found.fitted.rms.mean() < 2e-3
    moved = np.mean([np.mean((found.smoothed[n] - noisy[n]) ** 2) for n in noisy])
    assert 3e-4 < np.sqrt(moved) < 1.2e-3
    raw = np.mean([np.mean((noisy[n] - p) ** 2) for n, p in markers_of(z)[0].items()])
    left = np.mean([np.mean((found.smoothed[n] - p) ** 2) for n, p in markers_of(z)[0].items()])
    assert left < raw / 2.0


def test_report():
    """Millimetres and degrees of each step, worst points by name."""
    z = motion()
    markers = markers_of(z)[0]
    wobble = 0.02 * np.sin(2 * np.pi * TIME)
    for m in PLACES:  # soft tissue: all markers of a shank slide along it
        markers[f"Rshank.{m}"] = markers[f"Rshank.{m}"] + wobble * np.array([[0.0], [0.0], [1.0]])
    found = reconstruct(ROWS, relations(), Markers(TIME, markers), calibration())
    text = found.report().splitlines()
    assert [line.split("  ")[0] for line in text] == [
        "noise of markers",
        "smoothing of markers",
        "rigid segments",
        "smoothing of coordinates",
        "points from the table",
    ]
    assert "most at R" in text[2] and "RA" in text[2]
    size = float(text[2].split("mm")[0].split()[-1])
    np.testing.assert_allclose(size, 1e3 * np.sqrt(np.mean(found.fitted.rms**2)), atol=0.005)
    figure = found.plot()
    assert len(figure.axes) == 2


def test_gaps():
    """They are closed by the rest of the segment, long ones with a warning, or by splines; what no
    relation names may have any."""
    z, still = motion(), calibration()
    markers = markers_of(z)[0]
    gap = {name: position.copy() for name, position in markers.items()}
    gap["ball"] = np.full_like(gap["Rthigh.b"], np.nan)
    gap["ball"][:, 3:9] = 1.0
    gap["Rthigh.b"][:, 20:50] = np.nan
    with pytest.warns(UserWarning, match=r"by the rest of its segment: marker 'Rthigh\.b': 30 sam"):
        found = reconstruct(ROWS, relations(), Markers(TIME, gap), still, KEEP_ALL, KEEP_ALL)
    np.testing.assert_allclose(found.fitted.z, z, atol=0.1)  # the thigh spins meanwhile
    assert "ball" not in found.markers.names
    gap["Rthigh.b"] = markers["Rthigh.b"].copy()
    others = [f"Rthigh.{place}" for place in PLACES]
    for name in others:
        gap[name][:, 20:26] = np.nan
    found = reconstruct(ROWS, relations(), Markers(TIME, gap), still, KEEP_ALL, KEEP_ALL)
    np.testing.assert_allclose(found.fitted.z, z, atol=2e-3)
    for name in others:
        gap[name][:, 20:27] = np.nan
    with pytest.raises(ValueError, match=r"7 samples missing at 0\.33-0\.43 s, longer than 0\.1 s"):
        reconstruct(ROWS, relations(), Markers(TIME, gap), still)


def test_bad_markers():
    z, still = motion(), calibration()
    markers = markers_of(z)[0]
    with pytest.raises(ValueError, match=r"marker 'Rthigh\.b' is not in the trial"):
        reconstruct(ROWS, relations(), Markers(TIME, markers).without("Rthigh.b"), still)
    with pytest.raises(ValueError, match=r"marker 'back' is not in the (trial|calibration)"):
        reconstruct(
            ROWS,
            relations(),
            Markers(TIME, markers),
            {name: p for name, p in still.items() if name != "back"},
        )
    with pytest.raises(ValueError, match="window"):
        reconstruct(ROWS, relations(), Markers(TIME, markers), still, SSA(window=2.0))
    short = Relations(relations().points, {"pelvis": relations().axes["pelvis"]})
    with pytest.raises(ValueError, match="lack axes of segments: 'Rthigh'"):
        reconstruct(ROWS, short, Markers(TIME, markers), still)


def test_postures_that_angles_cannot_describe():
    """A leg that is lifted sideways by 88 degrees."""
    z = motion()
    k = 3 + 3 * [row.name for row in ROWS].index("Lthigh")
    z[k] = np.radians(88.0) * np.sin(np.pi * TIME / 2.0)
    with pytest.raises(ValueError, match=r"segment 'Lthigh': alpha reaches 88 deg at t = 1.0"):
        reconstruct(
            ROWS, relations(), Markers(TIME, markers_of(z)[0]), calibration(), KEEP_ALL, KEEP_ALL
        )


@pytest.mark.study
def test_noise_is_smoothed_away_or_warned_of():
    """White noise of 1.2 mm is found, the default leaves little of it, less smoothing is warned
    of."""
    rng = np.random.default_rng(4)
    positions = {
        name: position + 1.2e-3 * rng.normal(size=position.shape)
        for name, position in markers_of(motion())[0].items()
    }
    noisy = Markers(TIME, positions)
    np.testing.assert_allclose(noise(noisy), 1.2e-3, rtol=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = reconstruct(ROWS, relations(), noisy, calibration())
    assert noise(found.smoothed) < 0.15 * noise(noisy)
    with pytest.warns(
        UserWarning, match=r"noise of about 1\.\d mm, .* smoothing: forces will oscillate"
    ):
        reconstruct(ROWS, relations(), noisy, calibration(), smooth=SSA(noise=4e-4))


def test_axes_that_are_reversed_are_warned_of():
    """A thigh whose x points backwards."""
    declared, markers = relations(), Markers(TIME, markers_of(motion())[0])
    away = Carried(Axes("z", z="up", x=("front", "back")), declared.axes["Rthigh"].cluster)
    with pytest.warns(UserWarning, match=r"segment 'Rthigh' is turned by 1\d\d deg"):
        reconstruct(
            ROWS,
            Relations(declared.points, {**declared.axes, "Rthigh": away}),
            markers,
            calibration(),
        )


def test_relations_for_points_that_there_are_not():
    declared = relations()
    positions = {
        ("RKnee" if name == "RK" else name): position for name, position in declared.points.items()
    }
    with pytest.raises(ValueError, match="point 'RKnee' is, which the body does not have; known"):
        reconstruct(
            ROWS,
            Relations(positions, {k: v for k, v in declared.axes.items()}),
            Markers(TIME, markers_of(motion())[0]),
            calibration(),
        )


def test_somebody_who_lies_is_doubted():
    """The up axis of a file is easily mistaken."""
    fallen = {name: position[[0, 2, 1]] for name, position in markers_of(motion())[0].items()}
    still = {
        name: position[[0, 2, 1]]
        for name, position in calibration().items()
        if name not in ("back", "front")
    }
    with (
        pytest.warns(UserWarning, match="is the vertical of the file what up= says"),
        pytest.raises(ValueError, match="is not in the calibration"),
    ):
        reconstruct(ROWS, relations(), Markers(TIME, fallen), still)


def test_law_of_the_motion_and_of_plates():
    """By default a low-pass, that plates can share; other laws have no cutoff for them."""
    markers = Markers(TIME, markers_of(motion())[0])
    found = reconstruct(ROWS, relations(), markers, calibration())
    assert isinstance(found.smooth, Butterworth) and found.smooth.cutoff >= 5.0
    assert str(found.smooth) in found.report()
    t = np.arange(0.0, 2.0, 2e-3)
    force = np.array([0.0 * t, 0.0 * t, 700.0 + 100.0 * np.sign(np.sin(9.0 * t))])
    plate = Wrench(t, force, np.zeros_like(force))
    alike = found.alike({"right": plate})["right"]
    np.testing.assert_array_equal(alike.rows, plate.smoothed(found.smooth.cutoff).rows)
    assert found.residuals().used == {"used": found.smooth.cutoff}
    sharp = reconstruct(
        ROWS, relations(), markers, calibration(), Butterworth(8.0, markers={"J": 4.0})
    )
    wanted = Butterworth(8.0)(markers["Rthigh.b"], markers.rate)
    np.testing.assert_array_equal(sharp.smoothed["Rthigh.b"], wanted)
    other = reconstruct(ROWS, relations(), markers, calibration(), KEEP_ALL)
    assert not other.residuals().used
    with pytest.raises(ValueError, match=r"smoothed by SSA\(.*which has no cutoff for plates"):
        other.alike({"right": plate})
