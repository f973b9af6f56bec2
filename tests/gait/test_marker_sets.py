"""Plug-in Gait by name: its formulas, a recorded walk, and what is said of missing markers."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kinesym.examples import gait_plates
from kinesym.gait import Chord, Markers, Relations, Trial, landmarks, marker_set, segments_of_body
from kinesym.gait.segment_fit import segments_from_landmarks

#: Names of plug-in-gait by those of the walk over plates, which has no wands: the trochanter and
#: the head of the fibula are in the place of thigh and shank.
NAMES = {"ASIS": "ASI", "PSIS": "PSI", "GTR": "THI", "Knee": "KNE", "HF": "TIB", "Ankle": "ANK",
         "Heel": "HEE", "MT2": "TOE"}  # fmt: skip
BACK = {new: old for old, new in NAMES.items()}
SIZES = {"stature": 1.76, "leg_length": 0.92, "knee_width": 0.105, "ankle_width": 0.067}


@pytest.fixture(scope="module")
def recorded():
    markers, _ = gait_plates.record()
    new = {f"{side}.{old}": f"{side}{name}" for side in "RL" for old, name in NAMES.items()}
    return markers, markers.renamed(new)


def test_joints_of_the_legs(recorded):
    """Knees and ankles by the definition of chords, hips by the formulas of Davis, all to rounding;
    centres of a recorded walk are near the middles of its lateral and medial markers."""
    markers, named = recorded
    with pytest.warns(UserWarning, match="torso, head, Rarm, Rforearm, Rhand, Larm, Lforearm"):
        relations = marker_set("plug-in-gait", named, **SIZES)
    found = landmarks(relations, Trial(named.positions))
    p = {**named.positions, **found.points}
    for side in "RL":
        for centre, marker, above, plane, size in (
            ("K", "KNE", "H", "THI", 0.0525 + 0.007),
            ("A", "ANK", "K", "TIB", 0.0335 + 0.007),
        ):
            arm, long, other = (
                p[side + name] - p[side + centre] for name in (marker, above, plane)
            )
            assert_allclose(np.linalg.norm(arm, axis=0), size, atol=1e-12)
            assert_allclose(np.sum(arm * long, axis=0), 0.0, atol=1e-12)
            assert_allclose(
                np.einsum("in,in->n", np.cross(arm, long, axis=0), other), 0, atol=1e-12
            )
            middle = 0.5 * (markers[f"{side}.{BACK[marker]}"]
                            + markers[f"{side}.{BACK[marker]}.Medial"])  # fmt: skip
            assert np.linalg.norm(p[side + centre] - middle, axis=0).mean() < 0.025
    # Davis et al. 1991, in mm, in axes of the pelvis from the middle of RASI and LASI
    leg, aa = 920.0, 500.0 * np.linalg.norm(named["LASI"] - named["RASI"], axis=0)
    C, depth = 0.115 * leg - 15.3, 0.1288 * leg - 48.56 + 7.0
    x = C * np.cos(0.5) * np.sin(0.314) - depth * np.cos(0.314)
    z = -C * np.cos(0.5) * np.cos(0.314) - depth * np.sin(0.314)
    arm = p["LH"] - 0.5 * (p["RASI"] + p["LASI"])
    arm = 1e3 * np.einsum("ijn,in->jn", found.axes["pelvis"], arm)
    assert_allclose(
        arm, [np.full_like(aa, x), aa - C * np.sin(0.5), np.full_like(aa, z)], atol=1e-9
    )


def test_a_whole_body():
    """Somebody who stands: without a warning, upright, symmetric."""
    half = {"ASI": (0.1, 0.13, 1.0), "PSI": (-0.08, 0.05, 1.02), "THI": (0.0, 0.2, 0.75),
            "KNE": (0.0, 0.16, 0.5), "TIB": (0.0, 0.18, 0.3), "ANK": (-0.02, 0.13, 0.09),
            "HEE": (-0.08, 0.09, 0.05), "TOE": (0.13, 0.1, 0.05), "SHO": (-0.02, 0.18, 1.46),
            "ELB": (-0.03, 0.27, 1.15), "WRA": (0.02, 0.29, 0.9), "WRB": (-0.03, 0.25, 0.9),
            "FHD": (0.08, 0.07, 1.68), "BHD": (-0.1, 0.07, 1.7)}  # fmt: skip
    places = {"C7": (-0.08, 0, 1.5), "T10": (-0.1, 0, 1.25), "CLAV": (0.08, 0, 1.44),
              "STRN": (0.11, 0, 1.25)}  # fmt: skip
    places |= {f"{s}{n}": (x, k * y, z) for s, k in (("L", 1), ("R", -1))
               for n, (x, y, z) in half.items()}  # fmt: skip
    rows = {name: np.outer(place, np.ones(3)) for name, place in places.items()}
    markers = Markers(np.arange(3) / 100, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relations = marker_set("plug-in-gait", markers, **SIZES)
    found = landmarks(relations, Trial(markers.positions))
    for name, point in found.points.items():
        if name.startswith("L"):
            assert_allclose(point * [[1], [-1], [1]], found.points[f"R{name[1:]}"], atol=1e-12)
    for name, axes in found.axes.items():
        assert min(axes[2, 2, 0], axes[1, 1, 0]) > 0.9 or "fore" in name or "hand" in name
    made = segments_from_landmarks(segments_of_body(75.0, 1.76), found)
    assert sum(one.mass for one in made) == pytest.approx(75.0)


def test_what_is_missing_is_named_at_once(recorded):
    _, named = recorded
    with pytest.raises(ValueError, match="lack RASI, LKNE, LTOE of plug-in-gait"):
        marker_set("plug-in-gait", named.without("RASI", "LKNE", "LTOE"), **SIZES)
    with pytest.raises(ValueError, match="plug-in-gait"):
        marker_set("helen", named, **SIZES)
    with pytest.raises(ValueError, match="a size of the person"):
        marker_set("plug-in-gait", named, **{**SIZES, "stature": -1.0})
    near = Relations({"knee": Chord("RKNE", "RANK", "RTIB", 2.0)}, {})
    with pytest.raises(ValueError, match="nearer to the proximal centre"):
        landmarks(near, Trial(named.positions))
    with pytest.raises(ValueError, match="lack axes of segments: 'pelvis', 'torso'"):
        at = np.zeros((3, 2))
        segments_from_landmarks(
            segments_of_body(), landmarks(Relations({"J1": "A"}, {}), Trial({"A": at}))
        )
