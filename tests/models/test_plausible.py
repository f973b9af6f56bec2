"""Motions of models that are handed over in degrees, with the other sign, in milliseconds."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import kinesym as ks
from kinesym.examples.studies.gait import data
from kinesym.models.files.plausible import doubts

RANGES = {"knee": (0.0, 2.1), "hip": (-0.5, 2.1), "wheel": (-9.0, 9.0)}


@pytest.mark.parametrize(
    "rows, said",
    [
        ({"knee": [0.1, 1.2], "hip": [-0.4, 0.5]}, ""),
        ({"knee": [-0.05, 2.15]}, ""),  # a little out of range
        ({"knee": [0.0, 60.0], "hip": [-20.0, 30.0]}, "knee has the range 0 ... 2.1 rad, but goes"),
        ({"wheel": [0.0, 8.0]}, ""),  # it may
        ({"other": [0.0, 80.0]}, ""),  # without a range nothing is known
        (
            {"knee": [-0.1, -1.2, -0.9], "hip": [0.0, 0.1]},
            "if the motion is of a model with the ot",
        ),
        ({"knee": [-0.3, 0.5, 1.0, 0.4]}, ""),  # now and then
    ],
)
def test_angles_against_ranges(rows, said):
    found = doubts({name: np.array(row) for name, row in rows.items()}, RANGES)
    assert said in found and bool(said) == bool(found)


@pytest.fixture(scope="module")
def tree():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ks.osim.read(data("opensim_LaiUhlrich2022.osim.gz"))


def test_muscle_paths_in_degrees(tree):
    path = tree.muscles["soleus_r"]
    q = {name: np.zeros(3) for name in path.coordinates} | {
        "ankle_angle_r": np.array([-0.2, 0.0, 0.3])
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path.lengths(q)
    with pytest.warns(
        UserWarning, match="soleus_r: ankle_angle_r has the range .* degrees"
    ) as said:
        path.lengths({**q, "ankle_angle_r": np.array([-10.0, 0, 15.0])})
    assert said[0].filename == __file__


def test_names_are_suggested(tree):
    with pytest.raises(KeyError, match="there is no muscle 'solus_r'; did you mean soleus_r"):
        tree.muscles["solus_r"]
    with pytest.raises(KeyError, match="no coordinate with a range 'knee_r'; did you mean knee_"):
        tree.ranges["knee_r"]
    with pytest.raises(
        KeyError, match="there is no coordinate 'knee_r'; did you mean knee_angle_r"
    ):
        tree.defaults["knee_r"]


def test_motions_of_a_model():
    """In degrees but taken for radians, of the other sign, in milliseconds: each is said once."""
    tree = ks.osim.read(data("opensim_subject01.osim.gz"))
    motion = ks.gait.read_mot(data("opensim_subject01.mot.gz"))

    def warned(given):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ks.inverse_dynamics(tree, given)
        assert all(one.filename == __file__ for one in said)
        return [str(one.message) for one in said]

    assert warned(motion) == []
    [degrees] = warned(replace(motion, degrees=False))
    assert "if angles are in degrees, hand over np.radians(...)" in degrees
    knees = {n: -motion[n] for n in ("knee_angle_r", "knee_angle_l")}
    [flipped] = warned(replace(motion, columns={**motion.columns, **knees}))
    assert "knee_angle_r has the range" in flipped and "knee_angle_l alike" in flipped
    [late] = warned(replace(motion, time=1e3 * motion.time))
    assert "is time in milliseconds?" in late
