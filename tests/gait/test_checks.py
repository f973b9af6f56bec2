"""Data that cannot be right are named; recorded walks, as they are, are not."""

import re
import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import kinesym as ks
from kinesym.examples import gait_plates
from kinesym.examples.studies import gait
from kinesym.gait.check_markers import check_markers, check_sides
from kinesym.gait.check_segments import check_lengths, check_segments
from kinesym.gait.kinematics import angles_of, pose
from kinesym.gait.markers import Markers
from kinesym.gait.mates import Mates, exchanges, leaps, rigid_mates
from kinesym.gait.names import is_heel, is_toe, pairs_of_sides
from kinesym.gait.plates import check_empty, check_feet
from kinesym.gait.relations import clusters_in
from kinesym.gait.wrench import Wrench

CLUSTERS = [["R.Heel", "R.Midfoot.Sup", "R.Midfoot.Lat"]]


@pytest.fixture(scope="module")
def walk():
    """The first recorded walk and its plates; no word is said of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return gait.walk()


@pytest.fixture(scope="module")
def markers(walk):
    return walk[0].markers


@pytest.fixture(scope="module")
def other():
    """The markers of the second one, sides put right."""
    return gait_plates.record()[0]


def exchanged(markers, pair, begin, end):
    positions = {name: rows.copy() for name, rows in markers.positions.items()}
    for name, source in zip(pair, reversed(pair), strict=True):
        positions[name][:, begin:end] = markers[source][:, begin:end]
    return Markers(markers.time, positions)


def thinned(markers, step, noise=0.0):
    rng = np.random.default_rng(step)
    return Markers(
        markers.time[::step],
        {n: x[:, ::step] + noise * rng.normal(size=x[:, ::step].shape) for n, x in
         markers.positions.items()},
    )  # fmt: skip


def wrong(found):
    return [one for one in found[0] if one.says]


@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("noise", [0.0, 0.003, 0.015])
def test_recorded_walks_have_no_fault(markers, other, step, noise):
    for one in (markers, other):
        assert wrong(check_markers(thinned(one, step, noise))) == []


def test_exchanges_are_found_and_put_back_to_the_last_digit(markers, other):
    rng, missed = np.random.default_rng(3), 0
    for one in (markers, other):
        names = list(one.names)
        for _ in range(12):
            pair = tuple(rng.choice(names, 2, replace=False))
            begin = int(rng.integers(0, 0.6 * len(one)))
            spoilt = exchanged(one, pair, begin, begin + int(rng.integers(1, 0.35 * len(one))))
            found, _, back = check_markers(spoilt)
            here = [x for x in found if x.kind == "exchanged markers" and x.says]
            assert all(set(x.names) == set(pair) for x in here)  # nothing else is touched
            missed += not here
            if here:
                assert all(np.array_equal(back[n], one[n]) for n in names)
    assert missed <= 1  # such as those of a triangle with two equal sides


def test_three_in_turn_and_two_pairs_at_once(markers):
    a, b, c, d = "R.Heel", "L.Wrist.Med", "Top.Head", "L.ASIS"
    twice = exchanged(exchanged(markers, (a, b), 20, 60), (c, d), 40, 90)
    turned = exchanged(exchanged(markers, (a, b), 20, 60), (b, c), 20, 60)
    for spoilt in (twice, turned):
        back = check_markers(spoilt)[2]
        assert all(np.array_equal(back[n], markers[n]) for n in markers.names)


def test_exchanges_are_found_beside_gaps(markers):
    spoilt = exchanged(markers, ("R.Heel", "L.Heel"), 30, 70)
    positions = {name: rows.copy() for name, rows in spoilt.positions.items()}
    positions["R.Heel"][:, 45:50] = np.nan
    positions["R.Midfoot.Lat"][:, 60:80] = np.nan
    found, _, back = check_markers(Markers(markers.time, positions))
    assert {*found[0].names} == {"R.Heel", "L.Heel"}
    known = np.isfinite(back["L.Heel"][0])
    assert np.array_equal(back["L.Heel"][:, known], markers["L.Heel"][:, known])


def test_jumps_and_markers_that_come_off(markers):
    positions = {name: rows.copy() for name, rows in markers.positions.items()}
    positions["R.Elbow"][2, 50:53] += 0.1
    positions["L.Shank.Rear"][0] += 0.15 * np.clip((np.arange(151) - 70) / 40, 0.0, 1.0)
    found = {one.kind: one for one in wrong(check_markers(Markers(markers.time, positions)))}
    assert found["jump of a marker"].names == ("R.Elbow",)
    assert np.abs(found["jump of a marker"].worst - markers.time[[50, 53]]).min() < 1e-9
    slipped = found["marker off its segment"]
    assert slipped.names == ("L.Shank.Rear",) and 1.2 < slipped.begin < 2.1
    assert "markers.cut('L.Shank.Rear', " in slipped.says


@pytest.mark.parametrize("begin, end", [(50, 51), (50, 62), (60, 151)])
@pytest.mark.parametrize("name", ["R.Midfoot.Sup", "R.Heel", "L.ASIS"])
def test_a_jump_along_a_sphere_around_the_neighbours(markers, name, begin, end):
    """Its distances hardly change; where it is off is told, and taken out as the sentence says."""
    positions = {n: rows.copy() for n, rows in markers.positions.items()}
    mates = rigid_mates(np.array([*positions.values()]))
    near = [positions[markers.names[k]] for k in mates.rows[markers.names.index(name)][:2]]
    aside = np.cross(*(rows[:, begin] - positions[name][:, begin] for rows in near))
    positions[name][:, begin:end] += 0.08 * aside[:, None] / np.linalg.norm(aside)
    spoilt = Markers(markers.time, positions)
    [jump] = [one for one in wrong(check_markers(spoilt)) if one.kind == "jump of a marker"]
    assert jump.names == (name,)
    [(given, *ends)] = re.findall(r"markers.cut\('(.*)', (.*), (.*)\)", jump.says)
    gone = np.isnan(spoilt.cut(given, *map(float, ends))[name][0])
    if end < 151:  # it comes back
        assert [*np.flatnonzero(gone)] == [*range(begin, end)]


@pytest.mark.parametrize("name", ["L.Heel", "R.MT1", "L.PSIS"])
def test_a_marker_that_slides_along_a_sphere(other, name):
    """It keeps its distances from its neighbours; they are its mates before it slides."""
    positions = {n: rows.copy() for n, rows in other.positions.items()}
    mates = rigid_mates(np.array([*positions.values()]))
    near = [positions[other.names[k]] for k in mates.rows[other.names.index(name)][:2]]
    aside = np.cross(near[0] - positions[name], near[1] - positions[name], axis=0)
    part = np.clip((np.arange(len(other)) / len(other) - 0.5) / 0.2, 0.0, 1.0)
    positions[name] += 0.08 * part * aside / np.linalg.norm(aside, axis=0)
    found = wrong(check_markers(Markers(other.time, positions)))
    assert [one.names for one in found] == [(name,)]
    assert found[0].kind == "marker off its segment" and "markers.cut" in found[0].says


@pytest.mark.study
def test_any_two_of_a_cluster_exchanged_throughout(markers):
    """Also where all its sides are equal: what is around tells them apart."""
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    clusters = clusters_in([gait.relations().points, gait.relations().axes])
    assert wrong(check_markers(markers, clusters, still)) == []
    pairs = {frozenset(pair) for cluster in clusters for pair in combinations(cluster, 2)}
    assert len(pairs) == 27
    for first, second in map(tuple, pairs):
        found = wrong(
            check_markers(markers.renamed({first: second, second: first}), clusters, still)
        )
        assert any({first, second} == {*one.names} for one in found), (first, second)


def test_sides_of_the_whole_trial(markers, other):
    swapped = check_sides(other.exchanged())
    assert len(swapped) == 1 and "throughout" in swapped[0].says
    assert check_sides(markers)[0].says == ""
    one = markers.renamed({"R.Knee": "L.Knee"} if "R.Knee" in markers else {
        "R.ASIS": "L.ASIS", "L.ASIS": "R.ASIS"})  # fmt: skip
    assert check_sides(one)[0].names == ("R.ASIS", "L.ASIS")


def test_what_names_say():
    names = ["RASI", "LASI", "RHEE", "LHEE", "RTOE", "LTOE", "C7", "T10"]
    assert pairs_of_sides(names) == [("RASI", "LASI"), ("RHEE", "LHEE"), ("RTOE", "LTOE")]
    names = ["knee_right", "knee_left", "Heel_R", "Heel_L", "r_toe", "l_toe", "head"]
    assert len(pairs_of_sides(names)) == 3
    assert pairs_of_sides(["Right Hip", "Left Hip", "rib"]) == [("Right Hip", "Left Hip")]
    assert pairs_of_sides(["r_shoulder", "L_shoulder"]) == [("r_shoulder", "L_shoulder")]
    names = ["RCA", "R_Cal1", "r_calc_study", "RCAJ", "R_FM1", "RMT5", "r_5meta", "RMetacarpal5"]
    assert [*filter(is_heel, names)] == names[:3]
    assert [*filter(is_toe, names)] == names[4:7]


def test_a_cluster_against_the_standing_trial(markers):
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    assert wrong(check_markers(markers, CLUSTERS, still)) == []
    pair = ("R.Heel", "R.Midfoot.Sup")
    mixed = still | {pair[0]: still[pair[1]], pair[1]: still[pair[0]]}
    [one] = wrong(check_markers(markers, CLUSTERS, mixed))
    assert {*one.names} == {*pair} and "standing" in one.says
    moved = still | {pair[0]: still[pair[0]] + [0.0, 0.0, 0.2]}
    [one] = wrong(check_markers(markers, CLUSTERS, moved))
    assert one.kind == "cluster of standing" and 0.05 < one.size < 0.25


def test_angles_are_not_unwrapped_through_breaks():
    """An attitude that flips by half a turn at random leaves the rest where it was."""
    time = np.linspace(0.0, 2.0, 200)
    z = np.array([0.3 * np.sin(3.0 * time), 0.8 * np.sin(5.0 * time), 0.2 * np.cos(time)])
    A = pose(z).A.transpose(1, 2, 0)
    np.testing.assert_allclose(angles_of(A), z, atol=1e-12)
    flipped = A.copy()
    rng = np.random.default_rng(0)
    for k in np.flatnonzero(rng.random(200) < 0.2):
        flipped[:, :2, k] *= -1.0
    assert np.abs(angles_of(flipped)).max() < 2.0 * np.pi
    turning = np.array([0.0 * time, 20.0 * time, 0.0 * time])  # turns that are slow enough stay
    np.testing.assert_allclose(angles_of(pose(turning).A.transpose(1, 2, 0)), turning, atol=1e-9)


def test_a_reconstruction_with_exchanged_markers(walk, markers):
    """43 samples: named, not unwrapped into nonsense, and mended where asked to."""
    spoilt = exchanged(markers, ("R.Toe.Tip", "R.Toe.Lat"), 40, 83)
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    given = (gait.subject(), gait.relations(), spoilt, still)
    with pytest.warns(UserWarning) as said:
        found = ks.gait.reconstruct(*given)
    text = "\n".join(str(one.message) for one in said)
    assert "'R.Toe.Tip' and 'R.Toe.Lat' are exchanged in 43 of 151 samples" in text
    assert "segment 'Rforefoot' turns by" in text and said[0].filename == __file__
    assert np.abs(found.fitted.z[3:]).max() < 2.0 * np.pi
    assert not found.check() and len(found.check().wrong) >= 2
    with pytest.warns(UserWarning, match="were exchanged and are put back"):
        mended = ks.gait.reconstruct(*given, repair="swaps")
    np.testing.assert_array_equal(mended.fitted.z, walk[0].fitted.z)
    assert mended.check() and mended.check().findings[0].verdict == "mended"
    with pytest.raises(ValueError, match="repair"):
        ks.gait.reconstruct(*given, repair="all")


def test_advice_on_a_jump_works(walk, markers):
    """What the warning says is done word for word: the motion is that of the record."""
    positions = {name: rows.copy() for name, rows in markers.positions.items()}
    positions["R.Heel"][:, 50:62] += [[0.03], [0.06], [0.04]]
    spoilt = Markers(markers.time, positions)
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    with pytest.warns(UserWarning, match="'R.Heel' jumps by") as said:
        ks.gait.reconstruct(gait.subject(), gait.relations(), spoilt, still)
    text = "\n".join(str(one.message) for one in said)
    name, *ends = re.findall(r"markers.cut\('(.*)', (.*), (.*)\)", text)[0]
    with pytest.warns(UserWarning, match="a gap of a marker is closed by the rest of its segment"):
        found = ks.gait.reconstruct(
            gait.subject(), gait.relations(), spoilt.cut(name, *map(float, ends)), still
        )
    assert found.check()
    np.testing.assert_allclose(found.fitted.z, walk[0].fitted.z, atol=0.1)


def test_a_body_upside_down():
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"), up="-y")
    hanging = ks.gait.read_csv(gait.data("gait_subject01_markers.csv.gz"), up="-y")
    relations = gait.relations()
    seen = ks.gait.landmarks(relations, ks.gait.Trial(hanging.positions, still))
    found, _ = check_segments(gait.subject(), relations, seen, hanging.time)
    [one] = [one for one in found if one.says]
    assert "upside down" in one.says and "set up=" in one.says


def test_a_stature_that_does_not_fit(walk, markers):
    found = walk[0]
    [whole, single] = check_lengths(gait.subject(), found.segments, markers.time)
    assert not whole.says and whole.size < 0.03 and not single.says and single.size < 0.2
    still = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    tall = ks.gait.segments_of_body(gait.MASS, 1.2 * gait.STATURE)
    with pytest.warns(UserWarning, match=r"the limbs are 0.8\d times as long as those of the seg"):
        ks.gait.reconstruct(tall, gait.relations(), markers, still)
    long = ks.gait.segments_with(found.segments, points={"RA": (0.0, 0.0, -0.25)})
    [_, single] = check_lengths(gait.subject(), long, markers.time)
    assert single.names == ("Rshank",) and "is one of its ends declared by a" in single.says


# -- plates ---------------------------------------------------------------------------------------


def kinds(walk, plates, segments=None):
    found = check_feet(segments or walk.segments, walk.kinematics, plates, {})
    return {one.kind for one in found.wrong}


def test_plates_against_the_motion(walk):
    found, plates = walk
    assert kinds(found, plates) == set()
    assert kinds(found, {"right": plates["left"], "left": plates["right"]}) == {"foot on its plate"}
    for by in (-0.1, 0.05):
        late = {f: Wrench(p.time + by, p.force, p.moment) for f, p in plates.items()}
        assert kinds(found, late) == {"plates late"}
    heavy = [replace(row, mass=1.1 * row.mass) for row in found.segments]
    assert kinds(found, plates, heavy) == {"weight"}
    with pytest.raises(ValueError, match="no foot 'plate1'"):
        found.check({"plate1": plates["left"]})


def test_how_late_plates_are(walk):
    found, plates = walk
    late = {f: Wrench(p.time + 0.08, p.force, p.moment) for f, p in plates.items()}
    [one] = found.check(late).wrong
    assert one.size == pytest.approx(0.08, abs=0.015) and "late against the motion" in one.says


def test_offset_and_drift_of_a_plate(walk):
    plate = walk[1]["right"]
    ramp = np.linspace(0.0, 1.0, len(plate.time))
    for force in (np.full_like(ramp, 25.0), 60.0 * ramp, -40.0 * ramp):
        added = np.outer([0.0, 0.0, 1.0], force)
        [one] = check_empty("plate1", Wrench(plate.time, plate.force + added, plate.moment))
        assert one.names == ("plate1",) and one.says and one.size <= np.abs(force).max() + 1.0
    always = Wrench(plate.time, plate.force + 500.0, plate.moment)
    assert check_empty("belt", always) == []  # never empty: nothing is known


def test_assigning_plates_says_what_an_empty_one_shows():
    markers, plates = gait_plates.record()
    feet = gait_plates.feet_of(markers)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ks.gait.assign_plates(plates, markers.time, feet)
    name, plate = next(iter(plates.items()))
    tilted = Wrench(plate.time, plate.force + [[0.0], [15.0], [0.0]], plate.moment)
    with pytest.warns(UserWarning, match=f"plate '{name}' shows 15 N while nothing"):
        ks.gait.assign_plates(plates | {name: tilted}, markers.time, feet)


def test_sharing_says_where_its_centre_leaves_the_plate(walk):
    """Seven centimetres on this record: the stretch, the mismatch, and what helps."""
    found, plates = walk
    needed = ks.gait.Body(found.segments).inverse(found.kinematics.sample(found.markers.time[6:-6]))
    contacts = [c for f in plates for c in ks.gait.contacts_from_wrench(f, plates[f])]
    with pytest.warns(UserWarning, match=r"up to 0.07 m from that of its plate.*as measured"):
        shared = ks.gait.share(needed.total, contacts, plates)
    measured = sum((p.at(needed.time) for p in plates.values()), Wrench.zero(needed.time))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ks.gait.share(measured, contacts, plates)
    check = found.check(plates, shared.wrenches)
    outside = check.findings[-1]
    assert outside.kind == "shared centre of pressure" and 0.05 < outside.size < 0.12
    moved = {f: Wrench(w.time, w.force, w.moment + np.cross([0, 0.2, 0], w.force.T).T)
             for f, w in shared.wrenches.items()}  # fmt: skip
    assert [one.kind for one in found.check(shared=moved).wrong] == 2 * [outside.kind]


def test_the_table_and_the_picture(walk):
    check = walk[0].check(walk[1])
    title, *lines = str(check).splitlines()
    assert title == f"nothing wrong in {len(check.findings)} findings"
    assert len(lines) == len(check.findings) and all(line.startswith("ok") for line in lines)
    frame = check.to_pandas()
    assert frame.shape == (len(lines), 10) and (frame["verdict"] == "ok").all()
    assert "<table>" in check._repr_html_()
    figure = check.plot()
    assert len(figure.axes) == len(check.panels)
    plt.close(figure)


def test_a_clean_record_is_quick_and_untouched(markers):
    positions = np.array(list(markers.positions.values()))
    found, back = exchanges(positions, rigid_mates(positions))
    assert found == [] and np.array_equal(back, positions)


def test_a_mass_that_is_ten_times_off(walk):
    """It is said however wrong it is."""
    found, plates = walk
    heavy = replace(found, segments=tuple(replace(s, mass=10.0 * s.mass) for s in found.segments))
    assert "weight" in [one.kind for one in heavy.check(plates).wrong]


def test_a_plate_that_is_missing_leaves_a_residual(walk):
    found, plates = walk
    time = found.markers.time[6:-6]
    needed = ks.gait.Body(found.segments).inverse(found.kinematics.sample(time))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        needed.joints({foot: plate.at(time) for foot, plate in plates.items()})
    with pytest.warns(UserWarning, match=r"leave \d\d % of the weight .* is a plate missing"):
        needed.joints({"right": plates["right"].at(time)})


def test_a_calibration_in_millimetres(markers):
    places = ks.gait.read_places(gait.data("gait_subject01_static.csv"))
    still = {name: 1e3 * x for name, x in places.items()}
    with pytest.raises(ValueError, match="the calibration looks like millimetres"):
        ks.gait.reconstruct(gait.subject(), gait.relations(), markers, still)


def test_mates_that_come_to_lie_in_a_line():
    """Of two segments: their triangle turns over as a joint moves, and the marker does not leap."""
    y = np.concatenate([np.full(60, 0.1), np.linspace(0.1, -0.1, 40)])
    across = np.stack([np.full(100, 0.15), y, np.zeros(100)])
    still = [np.tile(np.array([p]).T, 100) for p in ((0, 0, 0), (0.3, 0, 0), (0.15, 0, 0.05))]
    positions = np.array([*still[:2], across, still[2]], dtype=float)
    rows = np.array([0, 1, 2])
    lengths = np.linalg.norm(positions[:3] - positions[3], axis=1).mean(axis=1)
    none = (rows[:0], lengths[:0])
    mates = Mates((none[0],) * 3 + (rows,), (none[1],) * 3 + (lengths,))
    found, _ = leaps(positions, mates, 3)
    assert np.nanmax(found) < 0.01
    assert np.isfinite(found[2:60]).all() and np.isnan(found[77:83]).all()
