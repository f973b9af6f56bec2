"""Strides, their mean and spread, numbers of walking, against plain NumPy and closed forms."""

import warnings
from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import kinesym as ks
from kinesym.examples import gait_plates
from kinesym.examples.studies.gait import data
from kinesym.gait import Contact, Spline, Strides, Table, Walk, read_norms, read_table

STEP, SPEED, WIDTH = 0.62, 1.3, 0.12  # s, m/s, m


def contacts_of(count=9, measured=True, jitter=0.0, duty=0.64):
    """A walk or run of alternating feet with irregular strikes."""
    rng = np.random.default_rng(1)
    strikes = 0.3 + STEP * np.arange(count) + jitter * rng.uniform(-1, 1, count)
    return [
        Contact(("right", "left")[k % 2], t, t + 2 * duty * STEP, measured=measured)
        for k, t in enumerate(strikes)
    ]


def walk(belt=0.0, **options):
    """A walk of 6 s at 100 Hz with random columns; heels move at `SPEED` between stances."""
    contacts = contacts_of(jitter=0.02, **options)
    time = np.arange(0.0, 6.5, 0.01)
    rng = np.random.default_rng(2)
    names = [f"{s}_{w}" for s in ("right", "left") for w in ("knee_rad", "knee_Nm", "knee_power_W")]
    columns = {name: np.cumsum(rng.normal(size=len(time))) for name in [*names, "head_rad"]}
    heels = {}
    for foot, y in (("right", -0.5 * WIDTH), ("left", 0.5 * WIDTH)):
        own = [c for c in contacts if c.foot == foot]
        at = [t for c in own for t in (c.begin, c.end)]
        x = np.interp(time, at, [SPEED * c.begin for c in own for _ in range(2)])
        heels[foot] = np.array([x - belt * time, np.full_like(time, y), np.zeros_like(time)])
    labels = {"trial": "1", "subject": "A"}
    return Walk(Table(time, columns), contacts, heels, 70.0, 0.9, labels=labels)


def test_mean_and_deviation_against_plain_numpy():
    made = walk()
    strides = made.strides("right")
    strikes = [c.begin for c in made.contacts if c.foot == "right"]
    rows = np.array(
        [
            np.interp(a + (b - a) * np.arange(101) / 100, made.time, made.table["right_knee_Nm"])
            for a, b in pairwise(strikes)
        ]
    )
    assert strides["knee_Nm"].shape == (4, 101) and strides.whole.all()
    np.testing.assert_allclose(strides["knee_Nm"], rows, rtol=0, atol=1e-12)
    np.testing.assert_allclose(strides.mean["knee_Nm"], np.mean(rows, axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        strides.std["knee_Nm"], np.std(rows, axis=0, ddof=1), rtol=0, atol=1e-12
    )
    low, high = strides.band("knee_Nm", 2.0)
    np.testing.assert_allclose(high - low, 4.0 * np.std(rows, axis=0, ddof=1), atol=1e-12)
    assert strides.std["stride_time_s"] == pytest.approx(np.std(np.diff(strikes), ddof=1), 1e-12)
    assert list(made.strides().by("side")) == ["right", "left"]


@pytest.mark.parametrize("given", [None, 1.1])
@pytest.mark.parametrize("turn", [90.0, 180.0, 215.0])
def test_belts_run_any_way(given, turn):
    """Rooms are turned about the vertical; a speed that is given is along what heels show."""
    made, angle = walk(1.1), np.radians(turn)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    heels = {foot: np.vstack([turned @ rows[:2], rows[2:]]) for foot, rows in made.heels.items()}
    other = replace(made, heels=heels, belt=given).strides()
    for name in ("speed_m_per_s", "stride_length_m", "step_length_m", "step_width_m"):
        np.testing.assert_allclose(other[name], made.strides()[name], rtol=1e-9)


def test_columns_that_are_added_are_not_known_beside_plates_either():
    """Nor are lengths of moment arms loads."""
    made = walk(measured=False)
    more = {f"{side}_hip_Nm": made.time for side in ("right", "left")}
    strides = made.with_columns({**more, "knee_moment_arm_m": made.time}).strides()
    assert np.isnan(strides["hip_Nm"]).any(axis=1).all()
    assert np.isfinite(strides["knee_moment_arm_m"]).all()


@pytest.mark.parametrize("belt", [0.0, 1.1])
def test_numbers_of_walking(belt):
    """Closed forms; on a treadmill, whose speed is seen by the heels, the same."""
    made = walk(belt)
    assert made.belt_speed == pytest.approx(belt, abs=1e-9)
    strides = made.strides()
    time = strides.end - strides.begin
    assert strides["stride_length_m"] == pytest.approx(SPEED * time, rel=1e-2)
    assert strides["speed_m_per_s"] == pytest.approx(SPEED, rel=1e-2)
    assert strides["step_length_m"] == pytest.approx(SPEED * strides["step_time_s"], rel=2e-2)
    assert strides["step_width_m"] == pytest.approx(WIDTH, rel=1e-6)
    assert strides["stance_percent"] == pytest.approx(128 * STEP / time, rel=1e-9)
    known = ~np.isnan(strides["double_support_percent"])
    assert known.sum() == len(strides) - 1  # before the first stride nothing is known
    strikes, leaves = ([getattr(c, end) for c in made.contacts] for end in ("begin", "end"))
    both = [
        leaves[k - 1] - strikes[k] + leaves[k] - strikes[k + 1]
        for k in (strikes.index(begin) for begin in strides.begin[known])
    ]
    np.testing.assert_allclose(
        strides["double_support_percent"][known], 100 * np.array(both) / time[known], atol=1e-10
    )
    assert strides["cadence_per_min"] == pytest.approx(120 / time, rel=1e-12)
    assert strides["stride_length_per_leg"] == pytest.approx(strides["stride_length_m"] / 0.9)
    power = strides["knee_power_W"]
    work = np.trapezoid(np.maximum(power, 0), dx=0.01, axis=1) * time / 70.0
    assert strides["knee_positive_work_J_per_kg"] == pytest.approx(work, rel=1e-12)
    right, left = (strides.by("side")[side].mean["stride_time_s"] for side in ("right", "left"))
    index = 100 * (right - left) / (0.5 * (right + left))
    assert strides.symmetry()["stride_time_s"] == pytest.approx(index, rel=1e-12)
    table = strides.table()
    assert table.loc["cadence_per_min", ("left", "n")] == len(strides.by("side")["left"])
    assert "cadence_per_min" in str(strides)


def test_a_run_has_no_double_support():
    strides = walk(duty=0.35).strides()
    known = strides["double_support_percent"][1:]
    assert (known == 0.0).all() and strides["stance_percent"].max() < 37


def test_stances_off_the_plates_have_no_torque():
    """Torques are unknown in them, not in the swings beside them; angles are known."""
    made = walk()
    beside = [replace(c, measured=k not in (2, 3)) for k, c in enumerate(made.contacts)]
    beside = replace(made, contacts=beside)
    strides, all_known = beside.strides("right"), made.strides("right")
    assert strides.whole.tolist() == [True, False, True, True]
    unknown = np.isnan(strides["knee_Nm"])
    stance = np.arange(101) <= strides["stance_percent"][1]
    assert not unknown[[0, 2, 3]].any() and unknown[1][stance].all() and not unknown[1][67:].any()
    assert np.isnan(strides["knee_positive_work_J_per_kg"][1])
    np.testing.assert_array_equal(strides["knee_rad"], all_known["knee_rad"])
    np.testing.assert_array_equal(strides["knee_Nm"][0][:99], all_known["knee_Nm"][0][:99])
    np.testing.assert_array_equal(
        beside.strides("right", plates=False)["knee_Nm"], all_known["knee_Nm"]
    )
    assert (strides.take(strides.whole).whole).all()


def test_means_over_trials_and_subjects(tmp_path):
    parts = []
    for trial, subject in (("1", "A"), ("2", "A"), ("1", "B")):
        one = walk()
        table = replace(
            one.table, columns={k: v + len(parts) for k, v in one.table.columns.items()}
        )
        labels = {"trial": trial, "subject": subject}
        parts.append(replace(one, table=table, labels=labels).strides())
    strides = Strides.joined(parts)
    subjects = strides.averaged("subject")
    curve = strides["knee_rad"]
    first = np.mean(curve[[one["subject"] == "A" for one in strides.labels]], axis=0)
    second = np.mean(curve[[one["subject"] == "B" for one in strides.labels]], axis=0)
    np.testing.assert_allclose(subjects["knee_rad"], [first, second], rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        subjects.std["knee_rad"], np.std([first, second], axis=0, ddof=1), rtol=0, atol=1e-12
    )
    assert len(strides.averaged("subject", "side")) == 4
    frame = strides.to_pandas()
    assert frame.shape == (101 * len(strides), len(strides.curves))
    assert frame.index.names == ["stride", "side", "trial", "subject", "whole", "percent"]
    strides.to_csv(tmp_path / "strides.csv")
    lines = (tmp_path / "strides.csv").read_text().splitlines()
    assert len(lines) == 1 + len(frame) and lines[1].startswith("0,right,1,A,True,0,")
    assert float(lines[2].split(",")[6]) == curve[0][1]


def test_outliers_are_named():
    time, contacts = np.arange(0.0, 9.5, 0.01), contacts_of(14, jitter=0.02)
    rows = {f"{s}_knee_rad": np.sin(np.pi * time / STEP) for s in ("right", "left")}
    assert not Walk(Table(time, rows), contacts).strides().outliers()
    rows["left_knee_rad"] = rows["left_knee_rad"] + np.where(np.abs(time - 3.2) < 0.1, 60.0, 0.0)
    strides = Walk(Table(time, rows), contacts).strides()
    ((number, said),) = strides.outliers().items()
    assert strides.labels[number]["side"] == "left" and "its curve of knee_rad" in said
    assert len(strides.without(strides.outliers())) == len(strides) - 1


def test_a_treadmill_with_many_strides(tmp_path):
    """Angles and moments of Moore et al. 2015, strides between their own events."""
    table = read_table(data("gait_moore_walking.csv.gz"))
    force = {f: np.array([table[f"{f}_grf_{a}_N"] for a in "xzy"]) for f in ("left", "right")}
    wrenches = {f: ks.gait.Wrench(table.time, row, 0 * row) for f, row in force.items()}
    contacts = [c for f in wrenches for c in ks.gait.contacts_from_wrench(f, wrenches[f])]
    heels = {f: np.array([table[f"{f}_foot_{a}_m"] for a in "xzy"]) for f in wrenches}
    made = Walk(table, contacts, heels, 79.4)
    strides = made.strides()
    assert [len(part) for part in strides.by("side").values()] == [14, 14]
    assert made.belt_speed == pytest.approx(np.mean(table["left_belt_speed_m_per_s"]), rel=0.03)
    events = [
        line.split(",") for line in data("gait_moore_events.csv").read_text().splitlines()[1:]
    ]
    given = np.array([float(t) for t, what in events if what == "right_heel_strike"])
    own = strides.by("side")["right"].begin
    assert np.abs(own[:, None] - given).min(axis=1).max() < 0.05
    (tmp_path / "norms.csv").write_text(
        "curve,percent,low,high\nknee_flexion_angle_rad,0,0,0.2\nknee_flexion_angle_rad,100,0,0.2\n"
    )
    norms = read_norms(tmp_path / "norms.csv")
    assert norms["knee_flexion_angle_rad"].shape == (3, 2)
    figure = strides.plot(["knee_flexion_angle_rad"], norms=norms, beside={"left": strides})
    assert {"left (n = 14)", "norm"} <= {t.get_text() for t in figure.legends[0].get_texts()}
    plt.close(figure)


def test_a_walk_of_markers_and_plates():
    """Events without a word on plates: contacts are measured where plates bear the force."""
    markers, numbered = gait_plates.record()
    feet = gait_plates.feet_of(markers)
    plates, _ = ks.gait.assign_plates(numbered, markers.time, feet)
    segments = ks.gait.segments_of_body(76.5, gait_plates.STATURE)
    motion = ks.gait.reconstruct(segments, gait_plates.relations(), markers)
    made = Walk.of(motion, plates, feet)
    assert [c.measured for c in made.contacts] == [False, True, True, True, True]
    strides = made.strides()
    assert strides.whole.all() and not np.isnan(strides["ankle_power_W"]).any()
    joints = made.table["right_ankle_flexion_Nm"]
    assert strides["ankle_flexion_Nm"][0].min() == pytest.approx(joints.min(), rel=2e-3)
    assert (strides["ground_force_medial_N"].mean(axis=1) > 0.0).all()  # the weight is between
    assert strides["stride_length_m"] == pytest.approx([1.28, 1.33], abs=0.01)
    events = [replace(c, measured=False) for c in made.contacts]
    half = {**plates, "left": plates["left"].scaled(0.5)}
    with pytest.warns(UserWarning, match="'left' bear .* counts as beside them"):
        beside = Walk.of(motion, half, feet, events)
    strides = beside.strides()
    assert strides.whole.tolist() == [True, False]
    unknown = np.isnan(strides["knee_extension_Nm"]).mean(axis=1)
    assert unknown[0] == 0.0 and 0.5 < unknown[1] < 0.65
    assert not np.isnan(strides["elbow_flexion_Nm"]).any()
    with pytest.raises(ValueError, match="'left' need its heel and toe"):
        Walk.of(motion, plates, {"right": feet["right"]})


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda w: replace(w, contacts=w.contacts[:1]).strides(), "a stride needs two strikes"),
        (lambda w: replace(w, contacts=[]).strides(), "no stride of any foot"),
        (lambda w: w.strides("middle"), "no contacts of 'middle'"),
        (lambda w: w.strides("right").symmetry(), "those of right"),
        (lambda w: replace(w, contacts=[*w.contacts, Contact("left", 1.0, 1.3)]), "overlap"),
        (lambda w: replace(w, mass=-1.0), "mass"),
        (lambda w: replace(w, heels={"right": np.zeros((3, 4))}), "heel of 'right'"),
        (lambda w: w.strides().by("clinic"), "has no label 'clinic'"),
        (lambda w: w.strides()["knee"], "no curve or number 'knee'"),
        (lambda w: Strides.joined([]), "at least one walk"),
        (lambda w: replace(w, labels={"side": "both"}), "the label 'side' is that of the foot"),
        (lambda w: w.strides().plot(norms={"knee_rad": [1.0]}), r"norm of 'knee_rad' must be"),
    ],
)
def test_faults_are_sentences(wrong, words):
    with pytest.raises((ValueError, KeyError), match=words):
        wrong(walk())


def test_one_foot_and_no_mass():
    """What needs the other foot, or the mass, is not there or unknown."""
    made = walk()
    one = replace(made, contacts=[c for c in made.contacts if c.foot == "right"], mass=None)
    strides = one.strides()
    assert len(strides) == 4 and np.isnan(strides["step_length_m"]).all()
    assert np.isnan(strides["double_support_percent"]).all()
    assert "knee_positive_work_J" in strides.numbers


def test_strides_with_a_contact_missing_are_left_out():
    made = walk()
    fewer = replace(made, contacts=[c for k, c in enumerate(made.contacts) if k != 4])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        strides = fewer.strides()
    assert any("strikes 0 times" in str(one.message) for one in told)
    assert (strides.end - strides.begin).max() < 2.1 * STEP


@pytest.mark.study
def test_a_run_of_markers_and_plates():
    """The walk made to fly: its height is changed so that the force of the ground is half sines
    between flights, which plates measure. Strides of a run: all torques are known, no double
    support, no residual, the force and its impulse as given."""
    markers, _ = gait_plates.record()
    feet = gait_plates.feet_of(markers)
    segments = ks.gait.segments_of_body(76.5, gait_plates.STATURE)
    motion = ks.gait.reconstruct(segments, gait_plates.relations(), markers)
    body, time = ks.gait.Body(motion.segments), markers.time[8:-8]
    z, needed = motion.fitted.z[:, 8:-8], body.inverse(motion.kinematics.sample(time))
    weight, step, stance = 9.81 * body.skeleton.mass, 0.37, 0.25
    k, phase = np.divmod(time - time[0], step)
    push = weight * 0.5 * np.pi * step / stance * np.sin(np.pi * phase / stance)
    push = np.where(phase < stance, push, 0.0)
    more = CubicSpline(time, (push - needed.total.force[2]) * 9.81 / weight).antiderivative(2)(time)
    z[2] += more - np.polyval(np.polyfit(time, more, 1), time)
    run = replace(
        motion,
        markers=markers.between(time[0], time[-1]),
        smoothed=motion.smoothed.between(time[0], time[-1]),
        kinematics=Spline.through(time, z),
        smooth=ks.gait.SSA(),
    )
    total = body.inverse(run.kinematics.sample(time[5:-5])).total
    phase, k = phase[5:-5], k[5:-5]
    assert np.abs(total.force[2] - push[5:-5])[phase > stance + 0.03].max() < 0.02 * weight
    plates = {
        foot: total.scaled(((k % 2 == odd) & (phase < stance)).astype(float))
        for foot, odd in (("right", 0), ("left", 1))
    }
    seen = [c for foot in plates for c in ks.gait.contacts_from_wrench(foot, plates[foot])]
    lines = {foot: [place[:, 8:-8] for place in pair] for foot, pair in feet.items()}
    made = Walk.of(run, plates, lines, seen)
    assert all(c.measured for c in made.contacts)
    strides = made.strides()
    assert len(strides) >= 3 and strides.whole.all()
    assert strides["stride_time_s"] == pytest.approx(2 * step, abs=0.02)
    assert strides["stance_percent"] == pytest.approx(50 * stance / step, abs=2.0)
    assert np.nanmax(np.abs(strides["double_support_percent"])) == 0.0
    assert not np.isnan(strides["ankle_flexion_Nm"]).any()
    up = strides["ground_force_up_N"]
    assert up.mean(axis=1) == pytest.approx(0.5 * weight, rel=0.03)
    assert up.max(axis=1) == pytest.approx(0.5 * np.pi * step / stance * weight, rel=0.03)
