"""Sets of markers by name: their formulas, a recorded walk, and what is said of missing markers."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

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
    with pytest.raises(ValueError, match="need leg_length, knee_width, ankle_width"):
        marker_set("plug-in-gait", named, 1.76)
    with pytest.raises(ValueError, match="need leg_length"):
        marker_set("isb", named, 1.76, hips="davis")
    with pytest.raises(ValueError, match="hips are positions of RH and LH, got RH"):
        marker_set("plug-in-gait", named, **SIZES, hips={"RH": "RTHI"})
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


# -- the ISB --------------------------------------------------------------------------------------

#: Somebody who stands, roughly: landmarks of the left, and three markers of each segment.
LANDMARKS = {"ASIS": (0.1, 0.13, 1.0), "PSIS": (-0.08, 0.05, 1.02), "FLE": (0.0, 0.16, 0.5),
             "FME": (0.01, 0.06, 0.51), "LM": (-0.03, 0.13, 0.08), "MM": (-0.01, 0.06, 0.09),
             "CAL": (-0.08, 0.09, 0.05), "MT1": (0.13, 0.06, 0.03), "MT5": (0.1, 0.14, 0.03),
             "AC": (-0.02, 0.18, 1.46), "EL": (-0.05, 0.27, 1.15), "EM": (-0.04, 0.2, 1.15),
             "RS": (0.02, 0.29, 0.9), "US": (-0.03, 0.25, 0.9)}  # fmt: skip
MIDDLE = {"C7": (-0.08, 0, 1.5), "T8": (-0.1, 0, 1.25), "IJ": (0.08, 0, 1.44),
          "PX": (0.11, 0, 1.25)}  # fmt: skip
OWNERS = {"thigh": ("FLE", "FME"), "shank": ("LM", "MM"), "hindfoot": ("CAL", "MT1", "MT5")}
CLUSTERS = {f"{s}{segment}": [f"{s}{segment}{k}" for k in range(3)] for s in "RL"
            for segment in OWNERS}  # fmt: skip


def standing(seed=0):
    """Positions (3,) of a body that is not quite symmetric, with clusters on the legs."""
    rng = np.random.default_rng(seed)
    places = {f"{s}{n}": (x, k * y, z) for s, k in (("L", 1), ("R", -1))
              for n, (x, y, z) in LANDMARKS.items()} | MIDDLE  # fmt: skip
    for side, k in (("L", 1), ("R", -1)):
        for segment, height in (("thigh", 0.7), ("shank", 0.3), ("hindfoot", 0.05)):
            for j in range(3):
                at = (0.0, 0.1 * k, height) + rng.normal(scale=0.08, size=3)
                places[f"{side}{segment}{j}"] = at
    return {n: np.array(at) + rng.normal(scale=0.004, size=3) for n, at in places.items()}


def moving(places, seed=1):
    """The same over five instants, each segment of the legs turned by itself."""
    rng = np.random.default_rng(seed)
    owner = {f"{s}{n}": f"{s}{seg}" for s in "RL" for seg, ns in OWNERS.items() for n in ns}
    owner |= {name: segment for segment, names in CLUSTERS.items() for name in names}
    motion = {
        segment: (Rotation.from_rotvec(0.2 * rng.normal(size=(5, 3))), rng.normal(size=(5, 3)))
        for segment in sorted({*owner.values(), ""})
    }
    rows = {}
    for name, at in places.items():
        turn, shift = motion[owner.get(name, "")]
        rows[name] = (turn.apply(at) + shift).T
    return Markers(np.arange(5) / 100, rows)


def isb(origin, along, plane, order):
    """Axes by the words of Wu et al.: the first along two points, the next one normal to the plane
    of these and a third, the last one normal to both; as forwards, left, up."""
    first = along / np.linalg.norm(along)
    normal = np.cross(along, plane)
    normal = normal / np.linalg.norm(normal)
    axes = dict(zip(order, (first, normal, np.cross(first, normal)), strict=True))
    return np.column_stack([np.sign(axes[n][k]) * axes[n] for k, n in enumerate("xyz")])


def test_axes_of_the_isb():
    """Axes as in Wu et al. 2002, 2005, by the formulas of the papers."""
    p = standing()
    markers = Markers(np.arange(2) / 100, {n: np.outer(at, np.ones(2)) for n, at in p.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relations = marker_set("isb", markers, 1.76)
    found = landmarks(relations, Trial(markers.positions))
    made = segments_from_landmarks(segments_of_body(75.0, 1.76), found)
    assert sum(one.mass for one in made) == pytest.approx(75.0)
    at = {**p, **{n: x[:, 0] for n, x in found.points.items()}}

    def middle(*names):
        return np.mean([at[n] for n in names], axis=0)

    def axes(segment):
        return found.axes[segment][..., 0]

    across = at["LASIS"] - at["RASIS"]
    pelvis = isb(None, across, at["RASIS"] - middle("RPSIS", "LPSIS"), "yzx")
    assert_allclose(axes("pelvis"), pelvis, atol=1e-12)
    up = middle("IJ", "C7") - middle("PX", "T8")
    assert_allclose(axes("torso"), isb(None, up, at["C7"] - at["IJ"], "zyx"), atol=1e-12)
    for s in "RL":
        assert_allclose(at[f"{s}K"], middle(f"{s}FLE", f"{s}FME"), atol=1e-12)
        assert_allclose(at[f"{s}A"], middle(f"{s}LM", f"{s}MM"), atol=1e-12)
        thigh = isb(None, at[f"{s}H"] - at[f"{s}K"], at[f"{s}FLE"] - at[f"{s}FME"], "zxy")
        assert_allclose(axes(f"{s}thigh"), thigh, atol=1e-12)
        shank = isb(None, at[f"{s}LM"] - at[f"{s}MM"], at[f"{s}K"] - at[f"{s}A"], "yxz")
        assert_allclose(axes(f"{s}shank"), shank, atol=1e-12)
        elbow = middle(f"{s}EL", f"{s}EM")
        arm = isb(None, at[f"{s}S"] - elbow, at[f"{s}EL"] - at[f"{s}EM"], "zxy")
        assert_allclose(axes(f"{s}arm"), arm, atol=1e-12)
        ulna = isb(None, elbow - at[f"{s}US"], at[f"{s}RS"] - at[f"{s}US"], "zxy")
        assert_allclose(axes(f"{s}forearm"), ulna, atol=1e-12)


def test_landmarks_of_a_standing_trial_are_carried():
    """Landmarks that a walk lacks follow from clusters to rounding; feet are in line with the
    shanks as they stand; what has no cluster is named."""
    still = standing()
    whole = moving(still)
    lost = whole.without(*[s + n for s in "RL" for n in ("FME", "MM", "MT1")])
    given = {"standing": still, "clusters": CLUSTERS}
    relations = marker_set("isb", lost, 1.76, **given)
    found = landmarks(relations, Trial(lost.positions, still))
    expected = landmarks(marker_set("isb", whole, 1.76, **given), Trial(whole.positions, still))
    for name, point in expected.points.items():
        assert_allclose(found.points[name], point, atol=1e-10, err_msg=name)
    for name, axes in expected.axes.items():
        assert_allclose(found.axes[name], axes, atol=1e-10, err_msg=name)
    stood = {name: np.outer(at, np.ones(2)) for name, at in still.items()}
    upright = landmarks(relations, Trial(stood, still)).axes
    assert_allclose(upright["Rhindfoot"], upright["Rshank"], atol=1e-10)
    with pytest.raises(ValueError, match="lack RFME, RMM, RMT1, LFME, LMM, LMT1 of isb"):
        marker_set("isb", lost, 1.76, standing=still)
    with pytest.raises(ValueError, match="lack RFME, RMM, RMT1, LFME, LMM, LMT1 of isb"):
        marker_set("isb", lost, 1.76, clusters=CLUSTERS)
    with pytest.raises(ValueError, match=r"a segment of clusters .* got 'thigh'"):
        marker_set("isb", whole, 1.76, standing=still, clusters={"thigh": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="standing is names of markers"):
        marker_set("isb", whole, 1.76, standing="static.csv")


def test_regressions_of_the_hips(recorded):
    """Bell and Harrington by their formulas in mm; they agree to 2 cm in a recorded pelvis."""
    _, named = recorded
    middle, back = 0.5 * (named["RASI"] + named["LASI"]), 0.5 * (named["RPSI"] + named["LPSI"])
    width = 1e3 * np.linalg.norm(named["LASI"] - named["RASI"], axis=0).mean()
    depth = 1e3 * np.linalg.norm(middle - back, axis=0).mean() - 14.0
    places = {
        "bell": (-0.19 * width - 7.0, 0.36 * width, -0.30 * width),
        "harrington": (-0.24 * depth - 9.9 - 7.0, 0.33 * width + 7.3, -0.30 * width - 10.9),
        "davis": (-49.0, 72.0, -99.0),
    }
    for name, place in places.items():
        with pytest.warns(UserWarning, match="no markers"):
            relations = marker_set("plug-in-gait", named, **SIZES, hips=name)
        found = landmarks(relations, Trial(named.positions))
        for side, left in (("R", -1.0), ("L", 1.0)):
            arm = 1e3 * np.einsum(
                "ijn,in->jn", found.axes["pelvis"], found.points[f"{side}H"] - middle
            ).mean(axis=1)
            assert_allclose(
                arm, place * np.array([1, left, 1]), atol=0.5 if name == "davis" else 0.2
            )
