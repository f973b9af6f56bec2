"""From markers to torques of computed motions that are no walk: a squat, standing on one leg,
sitting."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.cli import main
from kinesym.examples.studies import video_to_torques as video
from kinesym.gait.marker_inputs import compiled, numbers_of
from kinesym.gait.marker_squares import Squares

TIME, MASS = np.arange(0.0, 5.0 + 1e-9, 1.0 / 60.0), 75.0


def there_and_back(begin, end, slow):
    """From 0 to 1 and back to 0, without a jump of acceleration (N,)."""

    def rise(start):
        s = np.clip((TIME - start) / slow, 0.0, 1.0)
        return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)

    return rise(begin) - rise(end - slow)


def course(tree, **angles):
    """Coordinates (N,) by name; angles in degrees, the rest 0."""
    rows = {name: np.zeros_like(TIME) for name in map(str, tree.coordinates)}
    return rows | {name: np.radians(row) for name, row in angles.items()}


def markers_of(tree, rows):
    """Keypoints of a motion (3, N) in world axes [m]."""
    placed = video.both_sides(video.KEYPOINTS)
    f = compiled(tree, tuple(body for body, _ in placed.values()))
    q = np.array([rows[name] for name in f.states])
    places = numbers_of(f, [np.array(at) for _, at in placed.values()])
    nowhere, once = np.zeros((3 * len(placed), len(TIME))), np.ones((len(placed), len(TIME)))
    free = np.full(len(q), np.inf)
    problem = Squares(f, places, nowhere, once, -free, free)
    seen = problem.state(q, problem.prior).gaps  # from the origin
    turn = ks.gait.rotation("y", "x")
    return {name: turn @ seen[:, k] for k, name in enumerate(placed)}


def standing(tree, rows, foot):
    """The same motion with this heel at rest: coordinates, and keypoints."""
    seen = markers_of(tree, rows)
    back = seen[foot] - np.array([[0.0], [seen[foot][1, 0]], [0.02]])
    moved = dict(zip(("pelvis_tx", "pelvis_tz", "pelvis_ty"), back, strict=True))
    signs = {"pelvis_tx": -1.0, "pelvis_tz": 1.0, "pelvis_ty": -1.0}  # z of OpenSim is to the right
    rows = rows | {name: signs[name] * row for name, row in moved.items()}
    return rows, ks.gait.Markers(TIME, markers_of(tree, rows))


@pytest.fixture(scope="module")
def tree():
    return video.model(video.LOCKED + video.UNSEEN)


def torques_of(tree, rows, shares):
    """Inverse dynamics of the true motion, if feet bear these shares of all that it needs."""
    motion = ks.gait.Table(TIME, rows)
    within = TIME[video.EDGE : -video.EDGE]
    needed = ks.ground_reaction(tree, motion, within, [*video.FEET.values()])
    under = {
        video.FEET[foot]: needed.scaled(share[video.EDGE : -video.EDGE])
        for foot, share in shares.items()
    }
    return ks.inverse_dynamics(tree, motion, under, within)


@pytest.mark.study
def test_a_squat(tree, tmp_path, capsys):
    """From a file, by the command: both feet stay, and torques are those of half of what the motion
    needs under each foot."""
    deep = there_and_back(1.0, 4.0, 1.2)
    angles = {f"{name}_{s}": size * deep for s in "rl" for name, size in
              (("hip_flexion", 78.0), ("knee_angle", 80.0), ("ankle_angle", 32.0))}  # fmt: skip
    rows, markers = standing(tree, course(tree, pelvis_tilt=-30.0 * deep, **angles), "RHeel")
    markers.to_trc(tmp_path / "squat.trc")
    given = ["--trc", str(tmp_path / "squat.trc"), "--mass", str(MASS), "--out", str(tmp_path)]
    assert main(["run", "video_to_torques", *given]) == 0
    assert "no foot stands alone" in capsys.readouterr().out
    assert (tmp_path / "video_contacts.csv").read_text() == (
        "foot,begin,end\nright,0.0,5.0\nleft,0.0,5.0\n"
    )
    found = ks.gait.read_mot(tmp_path / "video_torques.sto")
    half = np.full_like(TIME, 0.5)
    expected = torques_of(tree, rows, {"right": half, "left": half})
    for name in ("hip_flexion", "knee_angle", "ankle_angle"):
        for side in "rl":
            column = f"{name}_{side}_moment"
            assert np.abs(found[column] - expected[column]).max() < 9.0, column
    assert np.ptp(found["knee_angle_r_moment"]) > 40.0


def test_standing_on_one_leg(tree, tmp_path, capsys):
    """The right foot is held up for two seconds; it may be said when."""
    lean, up = there_and_back(0.3, 4.7, 1.0), there_and_back(1.4, 3.6, 0.6)
    angles = {"hip_flexion_r": 40.0 * up, "knee_angle_r": 80.0 * up}
    over = {"hip_adduction_r": -6.5 * lean, "hip_adduction_l": 6.5 * lean}
    rows, markers = standing(tree, course(tree, **angles, **over), "LHeel")
    found = video.kinetics(markers, MASS)
    (left,) = [c for c in found.forces.contacts if c.foot == "left"]
    first, last = (c for c in found.forces.contacts if c.foot == "right")
    assert not left.struck and not left.lifted
    assert 1.3 < first.end < 1.8 and 3.2 < last.begin < 3.7
    here = (found.forces.time > 1.9) & (found.forces.time < 3.1)
    assert not found.forces["right"].force[:, here].any()
    np.testing.assert_allclose(found.forces["left"].force[2, here], MASS * video.G, rtol=0.06)
    assert found.forces.astray < 0.005  # the pelvis leans over the foot that stays
    one = np.ones_like(TIME)
    expected = torques_of(tree, rows, {"right": 0.0 * one, "left": one})
    for name in ("hip_adduction", "hip_flexion", "knee_angle", "ankle_angle"):
        for side in "rl":
            column = f"{name}_{side}_moment"
            apart = np.abs(found.torques[column] - expected[column])[here].max()
            assert apart < 3.0, column
    assert np.abs(expected["hip_adduction_l_moment"][here]).min() > 50.0
    markers.to_trc(tmp_path / "leg.trc")
    (tmp_path / "down.csv").write_text("foot,begin,end\nleft,0,99\nright,0,1.5\nright,3.5,99\n")
    given = ["--contacts", str(tmp_path / "down.csv"), "--out", str(tmp_path)]
    given += ["--trc", str(tmp_path / "leg.trc"), "--mass", str(MASS)]
    assert main(["run", "video_to_torques", *given]) == 0
    assert "on the ground 0.00 ... 1.50, 3.50 ... 99.00 s" in capsys.readouterr().out


@pytest.mark.study
def test_sitting_on_a_chair(tree, tmp_path, capsys):
    """It is in the table of contacts; the chair bears most, at the hips, and nothing is left."""
    bent = np.ones_like(TIME)
    angles = {f"{name}_{s}": 85.0 * bent for s in "rl" for name in ("hip_flexion", "knee_angle")}
    _, markers = standing(tree, course(tree, pelvis_tilt=0.0 * bent, **angles), "RHeel")
    markers = markers.between(0.0, 1.5)
    markers.to_trc(tmp_path / "chair.trc")
    given = ["--trc", str(tmp_path / "chair.trc"), "--mass", str(MASS), "--out", str(tmp_path)]
    (tmp_path / "down.csv").write_text(
        "foot,begin,end,height,seat\nleft,0,9,,\nright,0,9,,\nchair,0,9,0.45,yes\n"
    )
    given += ["--contacts", str(tmp_path / "down.csv")]
    assert main(["run", "video_to_torques", *given]) == 0
    assert "chair    vertical force up to" in capsys.readouterr().out
    found = ks.gait.read_mot(tmp_path / "video_torques.sto")
    assert np.abs(found["knee_angle_r_moment"]).max() < 40.0
    assert np.abs(found["pelvis_ty_force"]).max() < 1.0
