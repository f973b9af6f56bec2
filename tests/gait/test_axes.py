"""Axes, handedness and units of files: found from the data, said, and overridden."""

import re
import warnings
from itertools import product

import numpy as np
import pytest

from kinesym.examples.studies.gait import data
from kinesym.gait.axes import (
    DIRECTIONS,
    askew,
    rotation,
    seen_in_forces,
    seen_in_markers,
    sides_agree,
)
from kinesym.gait.force_files import read_forces, write_forces
from kinesym.gait.marker_files import read_csv, read_places, read_trc
from kinesym.gait.markers import Markers

FRAMES = [(up, forward) for up, forward in product(DIRECTIONS, DIRECTIONS) if up[-1] != forward[-1]]
#: Right-handed axes with a vertical that points up.
UPRIGHT = [frame for frame in FRAMES if "-" not in frame[0]]


@pytest.fixture(scope="module")
def walk():
    """A recorded walk in the world: 41 markers, two plates."""
    markers = read_csv(data("gait_subject01_markers.csv.gz"))
    plates = read_forces(data("gait_subject01_forces.csv.gz"))
    return markers, {foot: plate.at(plate.time[::5]) for foot, plate in plates.items()}


def quietly(read, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(*arguments, **options)


def foreign(path):
    """A file as others write it, which does not say its axes."""
    text, count = re.subn(
        r"\tup=\S+ forward=\S+|axes=up=\S+ forward=\S+\n", "", path.read_text(), count=1
    )
    assert count == 1
    path.write_text(text)
    return path


@pytest.mark.parametrize("up, forward", FRAMES)
def test_markers_find_their_axes(walk, tmp_path, up, forward):
    markers = walk[0].between(0.5, 1.5)
    markers.to_trc(tmp_path / "walk.trc", "m", up, forward)
    foreign(tmp_path / "walk.trc")
    found = quietly(read_trc, tmp_path / "walk.trc")
    assert (found.laboratory.up, found.laboratory.forward) == (up, forward)
    assert f"{up} is up (by the names of markers), {forward} forwards" in found.note
    for name, position in markers.positions.items():
        np.testing.assert_allclose(found[name], position, atol=1e-14)


@pytest.mark.parametrize("up, forward", UPRIGHT)
def test_forces_find_the_same_axes(walk, tmp_path, up, forward):
    write_forces(tmp_path / "walk.mot", walk[1], up, forward)
    foreign(tmp_path / "walk.mot")
    found = quietly(read_forces, tmp_path / "walk.mot")
    for foot, plate in walk[1].items():
        np.testing.assert_allclose(found[foot].force, plate.force, atol=1e-11)
        np.testing.assert_allclose(found[foot].moment, plate.moment, atol=1e-11)


def test_forwards_elsewhere_is_warned_of(walk, tmp_path):
    walk[0].to_trc(tmp_path / "walk.trc", up="z", forward="-y")
    foreign(tmp_path / "walk.trc")
    words = r"walk\.trc: -y is forwards by .*: turned; read other files of the trial with forward"
    with pytest.warns(UserWarning, match=words) as caught:
        markers = read_trc(tmp_path / "walk.trc")
    assert caught[0].filename == __file__
    write_forces(tmp_path / "walk.mot", walk[1], "z", "-y")
    foreign(tmp_path / "walk.mot")
    with pytest.warns(UserWarning, match=r"walk\.mot: -y is forwards by braking and pushing"):
        read_forces(tmp_path / "walk.mot")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alike = read_forces(tmp_path / "walk.mot", like=markers)
        told = read_forces(tmp_path / "walk.mot", up="z", forward="-y")
    for foot, plate in walk[1].items():
        np.testing.assert_allclose(alike[foot].force, plate.force, atol=1e-11)
        np.testing.assert_array_equal(alike[foot].moment, told[foot].moment)


def test_forces_in_other_axes_than_their_markers(walk, tmp_path):
    markers, plates = walk
    markers.to_trc(tmp_path / "walk.trc")
    foreign(tmp_path / "walk.trc")
    like = read_trc(tmp_path / "walk.trc")
    write_forces(tmp_path / "walk.mot", plates, "y", "z")
    foreign(tmp_path / "walk.mot")
    with pytest.warns(UserWarning, match="forward='x' was given, but z is forwards by braking"):
        read_forces(tmp_path / "walk.mot", like=like)
    write_forces(tmp_path / "walk.mot", plates, "y", "-x")  # as of who walks backwards
    foreign(tmp_path / "walk.mot")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_forces(tmp_path / "walk.mot", like=like)
    with pytest.raises(ValueError, match=r"expected a kinesym\.gait\.Markers, got"):
        read_forces(tmp_path / "walk.mot", like="walk.trc")


def test_wrong_axes_are_noticed(walk, tmp_path):
    walk[0].to_trc(tmp_path / "walk.trc")
    foreign(tmp_path / "walk.trc")
    with pytest.warns(UserWarning, match=r"up='z' was given, but y is up by the names of markers"):
        read_trc(tmp_path / "walk.trc", up="z")
    with pytest.warns(UserWarning, match=r"forward='z' was given, but x is forwards by"):
        read_trc(tmp_path / "walk.trc", forward="z")
    write_forces(tmp_path / "walk.mot", walk[1])
    foreign(tmp_path / "walk.mot")
    with (
        pytest.warns(UserWarning, match=r"up='z' was given, but y is up by the weight"),
        pytest.raises(ValueError, match=r"centre of pressure is missing|seems to give the load"),
    ):
        read_forces(tmp_path / "walk.mot", up="z")
    with pytest.raises(ValueError, match="seems to give the load"):
        read_forces(tmp_path / "walk.mot", up="-y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_trc(tmp_path / "walk.trc", up="y", forward="x")


def test_names_are_not_needed(walk, tmp_path):
    """The longest extent then tells what is up; forwards is as usual."""
    nameless = walk[0].renamed({name: f"M{k}" for k, name in enumerate(walk[0].names)})
    nameless.to_trc(tmp_path / "walk.trc", up="z", forward="x")
    foreign(tmp_path / "walk.trc")
    found = read_trc(tmp_path / "walk.trc")
    assert found.note.startswith("z is up (by the longest extent), x forwards (as usual)")
    some = Markers(walk[0].time, {"A": walk[0]["R.Heel"], "B": walk[0]["R.Toe.Tip"]})
    some.to_trc(tmp_path / "walk.trc")
    foreign(tmp_path / "walk.trc")
    assert read_trc(tmp_path / "walk.trc").note.startswith("y is up (as usual)")


@pytest.mark.parametrize("angle", [0.7, -2.0])
def test_a_way_across_axes_is_said(walk, tmp_path, angle):
    """It is left as it is; turning makes it forwards, of markers and forces."""
    markers, plates = walk
    oblique = markers.turned(angle)
    assert seen_in_markers(oblique.positions).forward == ""
    oblique.to_trc(tmp_path / "walk.trc")
    foreign(tmp_path / "walk.trc")
    found = read_trc(tmp_path / "walk.trc")
    words = re.search(r"looks (\d+) degrees to the (left|right), turned\(", found.note)
    assert float(words[1]) == pytest.approx(abs(np.degrees(angle)), abs=4.0)  # of feet
    assert words[2] == ("left" if angle > 0.0 else "right")
    assert "looks" not in found.turned(-angle).note
    for name, position in found.turned(-angle).positions.items():
        np.testing.assert_allclose(position, markers[name], atol=1e-13)
    for plate in plates.values():
        there, back = plate.turned(angle), plate.turned(angle).turned(-angle)
        np.testing.assert_allclose(back.moment, plate.moment, atol=1e-11)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        np.testing.assert_allclose(there.cop()[:2], turn @ plate.cop()[:2], atol=1e-12)


def test_sides_of_who_turns_his_back(walk, tmp_path):
    """Told axes in which the walk goes backwards exchange no sides."""
    walk[0].to_trc(tmp_path / "walk.trc")
    foreign(tmp_path / "walk.trc")
    with pytest.warns(UserWarning, match="forward='-x' was given, but x is forwards"):
        assert "called right" not in read_trc(tmp_path / "walk.trc", forward="-x").note


@pytest.mark.parametrize("speed", [1.0, -1.0])
def test_steps_to_the_side(walk, speed):
    """Who walks to the right or left looks where the feet point."""
    markers = walk[0]
    ahead = np.polyval(np.polyfit(markers.time, markers["V.Sacral"][0], 1), markers.time)
    way = np.array([-ahead, speed * (markers.time - markers.time[0]), np.zeros(len(markers))])
    beside = {name: position + way for name, position in markers.positions.items()}
    assert seen_in_markers(beside).onward == "heels and toes"
    assert abs(np.degrees(askew(beside))) < 5.0 and sides_agree(beside)


def test_left_handed_axes(walk, tmp_path):
    """Mirrored coordinates look as if sides were exchanged; `left` mirrors them back, and moments
    with them."""
    mirror = np.diag([1.0, -1.0, 1.0])
    mirrored = {name: mirror @ position for name, position in walk[0].positions.items()}
    Markers(walk[0].time, mirrored).to_trc(tmp_path / "walk.trc", up="y", forward="x")
    found = read_trc(tmp_path / "walk.trc")
    assert "markers called right are to the left: names are exchanged, or axes" in found.note
    assert "called right" not in found.exchanged().note
    right = read_trc(tmp_path / "walk.trc", left="z")
    assert "called right" not in right.note
    np.testing.assert_allclose(right["R.Heel"], walk[0]["R.Heel"], atol=1e-14)
    turn = rotation("y", "x", "z")
    assert np.linalg.det(turn) == pytest.approx(-1.0)
    plate = walk[1]["right"]
    rows = [turn.T @ plate.force, turn.T @ held(plate), -turn.T @ free(plate)]
    names = [f"right_{kind}_{axis}" for kind in ("force", "cop", "torque") for axis in "xyz"]
    units = ["_N"] * 3 + ["_m"] * 3 + ["_Nm"] * 3
    table = np.vstack([plate.time, *rows]).T
    head = ",".join(["time_s", *(name + unit for name, unit in zip(names, units, strict=True))])
    np.savetxt(tmp_path / "f.csv", table, fmt="%.17g", delimiter=",", header=head, comments="")
    again = read_forces(tmp_path / "f.csv", like=right)["right"]
    np.testing.assert_allclose(again.moment, plate.moment, atol=1e-11)
    with pytest.raises(ValueError, match="left='x' is up or forward too; choose '-z'"):
        read_trc(tmp_path / "walk.trc", left="x")


def held(plate):
    return np.nan_to_num(plate.cop())


def free(plate):
    return plate.about(held(plate))


def test_places_of_a_static_trial(tmp_path):
    lines = ["marker,x_mm,y_mm,z_mm"]
    lines += ["R.Heel,0,20,100", "L.Heel,0,-20,100", "R.Toe,0,20,350", "L.Toe,0,-20,350"]
    lines += ["R.ASIS,900,20,200", "L.ASIS,900,-20,200"]
    (tmp_path / "static.csv").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match="z is forwards by heels and toes"):
        places = read_places(tmp_path / "static.csv")
    np.testing.assert_allclose(places["R.ASIS"], [0.2, -0.02, 0.9])  # right is to the right


@pytest.mark.parametrize("scale, said, taken", [(1e3, "m", "mm"), (1e-3, "mm", "m")])
def test_units_that_cannot_be(walk, tmp_path, scale, said, taken):
    """A file of people that says metres and means millimetres, or the other way round."""
    walk[0].to_trc(tmp_path / "walk.trc", taken)
    foreign(tmp_path / "walk.trc")
    text = (tmp_path / "walk.trc").read_text().replace(f"\t{taken}\t", f"\t{said}\t", 1)
    (tmp_path / "walk.trc").write_text(text)
    with pytest.warns(UserWarning, match=rf"lengths are in {said}, but the .*: taken as {taken}"):
        found = read_trc(tmp_path / "walk.trc")
    np.testing.assert_allclose(found["R.Heel"], walk[0]["R.Heel"], rtol=1e-13)
    with pytest.raises(ValueError, match=r"look like millimetres|no marker coordinate is beyond"):
        read_trc(tmp_path / "walk.trc", unit=said)


def test_forces_without_whole_stances():
    """Standing says what is up, not where forwards is; forces along no axis say nothing."""
    time = np.linspace(0.0, 1.0, 101)
    standing = np.outer([5.0, 700.0, -3.0], np.ones(101))
    found = seen_in_forces([(time, standing)], 20.0)
    assert (found.up, found.forward) == ("y", "")
    oblique = np.outer([500.0, 500.0, 0.0], np.ones(101))
    assert seen_in_forces([(time, oblique)], 20.0).up == ""
    assert seen_in_forces([], 20.0).up == ""


def test_every_pair_of_sides_is_found():
    """Names of sides as laboratories and markerless programs write them."""
    for right, left in (
        ("RHEE", "LHEE"),
        ("R.Heel", "L.Heel"),
        ("r_calc_study", "L_calc_study"),
        ("heel_r", "heel_l"),
        ("RightHeel", "LeftHeel"),
        ("RHeel", "LHeel"),
    ):
        for sign in (1.0, -1.0):
            found = {right: np.zeros((3, 20)), left: np.zeros((3, 20))}
            found[left][1] = 0.3 * sign
            assert sides_agree(found)  # standing without toes: nothing tells
            for position in found.values():
                position[0] += np.linspace(0.0, 2.0, 20)
            assert sides_agree(found) == (sign > 0.0)
