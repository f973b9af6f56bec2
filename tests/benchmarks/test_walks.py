"""Records in files: what comes along, written as a user's, is judged alike."""

import json

import numpy as np
import pytest
from walks import files, judged

import kinesym as ks
from kinesym.examples.studies import gait, video_to_torques


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The walk of subject 01 with markers of OpenCap's laboratory, some by names of their own."""
    place = tmp_path_factory.mktemp("records") / "mine"
    place.mkdir()
    seen = video_to_torques.augmented()
    short = {name: name.removesuffix("_study") for name in seen.names}
    named = {name: new for name, new in short.items() if new in files.MARKERS}
    known = video_to_torques.both_sides(video_to_torques.AUGMENTED)
    own = {name: [*known[name], 0.02] for name in seen.names if name not in named}
    seen.renamed(named).to_trc(place / "markers.trc")
    plates = ks.gait.read_forces(gait.data("gait_subject01_forces.csv.gz"))
    ks.gait.write_forces(place / "forces.mot", plates, bodies=files.FEET)
    facts = {"mass": 76.0, "span": [0.2, 2.3], "markers": own}
    (place / "subject.json").write_text(json.dumps(facts))
    return place.parent


@pytest.mark.study
def test_a_record_in_files(folder):
    """By another model than that which comes along, and weighed by its plates."""
    assert files.names_in(folder) == ["mine"]
    record = files.read_record(folder / "mine")
    assert record.weight == pytest.approx(gait.MASS * judged.G, rel=0.01)
    assert record.feet == {"right": ("r_calc", "r_toe"), "left": ("L_calc", "L_toe")}
    assert record.span == (0.2, 2.3)
    six = ks.gait.Butterworth(6.0)
    mine, theirs = (r.off(six) for r in (record, judged.subject01()))
    assert np.linalg.norm(mine - theirs) < 0.02 * record.weight
    noisy = record.other(1e-3, 2, seed=3)
    assert noisy.markers.rate == pytest.approx(30.0)
    assert noisy.off(six)[2] < 0.05 * record.weight


def test_a_folder_without_records(tmp_path):
    with pytest.raises(ValueError, match=r"no record NAME/subject\.json"):
        files.names_in(tmp_path)


def test_unknown_feet(tmp_path):
    markers = ks.gait.Markers(np.arange(9.0) / 100.0, {"HEEL": np.zeros((3, 9))})
    with pytest.raises(ValueError, match=r'lacks "feet".*RCAL nor r_calc'):
        files.feet_of(markers, tmp_path)


def test_both_sides():
    """z is to the right; what is in the middle stays."""
    body, at, std = files.MARKERS["LTH1"]
    assert body == "femur_l" and at == (0.0, -0.09, -0.10) and std == files.FLESH
    assert files.MARKERS["C7"][0] == files.MARKERS["CLAV"][0] == "torso"
    assert files.MARKERS["L.ASIS"][0] == "pelvis"
