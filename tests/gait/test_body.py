"""`ks.gait` on a recorded walk: against OpenSim's torques, and what goes wrong on the way."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import kinesym as ks
from kinesym.examples.studies import gait as study
from kinesym.gait import Contact, Markers, Wrench


@pytest.fixture(scope="module")
def walk():
    """Reconstruction and plates of the shipped trial."""
    return study.walk()


@pytest.fixture(scope="module")
def body(walk):
    return ks.gait.Body(walk[0].segments)


@pytest.fixture(scope="module")
def needed(walk, body):
    found, _ = walk
    return body.inverse(found.kinematics.sample(found.markers.time[6:-6]))


@pytest.fixture(scope="module")
def contacts(walk):
    return [
        c for foot in ("right", "left") for c in ks.gait.contacts_from_wrench(foot, walk[1][foot])
    ]


# -- the face ---------------------------------------------------------------------------------


def test_names():
    """All that is promised is there, sorted as ruff wants it and without doubles."""
    assert len(set(ks.gait.__all__)) == len(ks.gait.__all__)
    for name in ks.gait.__all__:
        assert getattr(ks.gait, name).__doc__, name
    assert "gait" in ks.__all__


def test_without_sympy():
    """What makes no models starts without it; the first name that makes one loads it."""
    code = (
        "import sys, kinesym as ks; ks.gait.read_trc; ks.Support; ks.gait.NaturalBody;"
        "before = 'sympy' in sys.modules; ks.gait.Body;"
        "sys.exit(before or 'sympy' not in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_default_body():
    body = ks.gait.Body()
    assert len(body.segments) == 18 and body.skeleton.mass == pytest.approx(85.0)
    assert set(body.skeleton.joints.values()) < set(body.skeleton.names)
    assert set(body.skeleton.feet) == {"right", "left"}
    for joint, parent in (
        ("right_hip", "pelvis"),
        ("left_knee", "Lthigh"),
        ("lumbar", "pelvis"),
        ("right_toes", "Rhindfoot"),
        ("left_elbow", "Larm"),
    ):
        k = body.skeleton.number(joint)
        assert body.skeleton.names[body.skeleton.proximal_neighbour(k)] == parent
    chain = [body.skeleton.names[k] for k in body.skeleton.chain(13)]
    assert chain == ["Rforefoot", "Rhindfoot", "Rshank", "Rthigh", "pelvis"]


def test_joints_of_segments_that_do_not_exist():
    """Such as a shoulder of somebody without arms: nothing is known of it."""
    rows = [
        row
        for row in ks.gait.segments_of_body()
        if "arm" not in row.name and "hand" not in row.name
    ]
    skeleton = ks.gait.Body(rows).skeleton
    assert "right_shoulder" not in skeleton.joints and "right_knee" in skeleton.joints
    with pytest.raises(ValueError, match="there is no segment or joint 'right_shoulder'; did"):
        skeleton.number("right_shoulder")
    with pytest.raises(ValueError, match="joint 'knee': there is no segment 'Rshin'; did you"):
        ks.gait.Body(joints={"knee": "Rshin"})
    own = ks.gait.Body(joints={"knee": "Rshank"}).skeleton
    assert own.number("knee") == own.number("Rshank")


def test_weighed():
    with pytest.warns(UserWarning, match="the segments have 85 kg together, the body 80 kg"):
        ks.gait.Body(mass=80.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ks.gait.Body(mass=85.0)


# -- the recorded walk ------------------------------------------------------------------------


def test_reconstruction(walk):
    found, _ = walk
    assert np.sqrt(np.mean(found.fitted.rms**2)) < 6e-3
    assert sum(row.mass for row in found.segments) == pytest.approx(72.6)
    length = {row.name: np.linalg.norm(row.points[row.basis_point]) for row in found.segments}
    for row in study.subject():  # a table of other men of 1.80 m
        if row.name[0] in "RL" and "foot" not in row.name:
            table = np.linalg.norm(row.points[row.basis_point])
            assert 0.8 < length[row.name] / table < 1.25, row.name
    pairs = [(length[f"R{part}"], length[f"L{part}"]) for part in ("thigh", "shank")]
    np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=0.06)


def reference():
    name = study.data("gait_subject01_torques.csv")
    return np.genfromtxt(name.open(), delimiter=",", names=True)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("joint", ["hip", "knee", "ankle"])
def test_torques_of_opensim(walk, needed, joint, side):
    """With the plates as they are, which is what OpenSim was given: correlated by more than 0.95,
    of the same size, within 7 N m rms (largest 40 to 129 N m)."""
    loads = needed.joints({foot: walk[1][foot].at(needed.time) for foot in ("right", "left")})
    table = reference()
    given = table[f"{study.REFERENCE[joint]}_{side[0]}_moment_Nm"]
    ours = np.interp(table["time_s"], loads.time, loads.flexion(f"{side}_{joint}"))
    here = (table["time_s"] >= 0.5) & (table["time_s"] <= 1.6)
    assert np.corrcoef(ours[here], given[here])[0, 1] > 0.95
    slope = np.polyfit(given[here], ours[here], 1)[0]
    assert 0.8 < slope < 1.2
    assert np.sqrt(np.mean((ours - given)[here] ** 2)) < 7.0


def test_corrected_plates_leave_nothing(walk, needed, contacts):
    """Also from the sums of the forces by hand."""
    shared = ks.gait.share(needed.total, contacts, walk[1])
    found = needed.joints(shared.wrenches)
    for part in (found.force[0], found.torque[0], found.residual.force, found.residual.moment):
        assert np.abs(part).max() < 1e-8
    total = sum(wrench.force for wrench in found.loads.values())
    np.testing.assert_allclose(total, needed.total.force, atol=1e-9)
    plates = needed.joints({foot: walk[1][foot].at(needed.time) for foot in ("right", "left")})
    assert np.abs(plates.force[0]).max() > 1.0


def test_torques_beside_plates_are_not_drawn(needed, walk, contacts):
    """Of the leg whose foot stands where nothing presses; the other leg is as before."""
    plates = {foot: walk[1][foot].at(needed.time) for foot in ("right", "left")}
    cycle = ks.gait.gait_cycle(contacts)
    stands = next(c for c in contacts if c.foot == "left" and c.begin > cycle.begin)
    beside = plates["left"].scaled(plates["left"].time < stands.begin - 0.05)
    with pytest.warns(UserWarning, match="wrenches under the feet leave"):
        loads = {"all": needed.joints(plates), "some": needed.joints(plates | {"left": beside})}
    figure = ks.gait.joint_torques(loads, cycle)
    for k, panel in enumerate(figure.axes[:6]):
        whole, some = (line.get_ydata() for line in panel.lines[-2:])
        assert np.isfinite(whole).all()
        lost = np.isnan(some)
        if k % 2 == 0:  # right
            assert not lost.any()
            continue
        inside = (needed.time > stands.begin + 1e-9) & (needed.time < min(stands.end, cycle.end))
        assert lost[inside].all()
        assert not lost[needed.time < stands.begin].any()


def test_weight_over_a_cycle(needed, contacts):
    """The mean vertical force over a stride is the weight."""
    cycle = ks.gait.gait_cycle(contacts)
    here = (needed.time >= cycle.begin) & (needed.time <= cycle.stride)
    mean = np.trapezoid(needed.total.force[2, here], needed.time[here])
    mean /= np.ptp(needed.time[here])
    np.testing.assert_allclose(mean, 72.6 * 9.81, rtol=0.02)


def test_the_other_formulation(needed):
    """Generalised forces of the compiled tree and of natural coordinates on the recorded walk."""
    measured = needed.kinematics
    expected = ks.gait.NaturalBody(needed.skeleton.segments).forces(
        measured.z, measured.zd, measured.zdd
    )
    np.testing.assert_allclose(needed.forces, expected, atol=1e-9)


@pytest.mark.study
@pytest.mark.parametrize("control", [None, ks.gait.PD()])
def test_back_to_motion(walk, body, contacts, control):
    """Eighteen segments with 57 degrees of freedom, a tenth of a second."""
    cycle = ks.gait.gait_cycle(contacts)
    time = cycle.begin + 1e-3 * np.arange(101)
    found = body.forward(walk[0].kinematics, time, control, "rk4")
    assert found.z.shape == (57, 101) and not found.message
    np.testing.assert_allclose(found.time, time, atol=1e-9)
    assert np.abs(found.error[:3]).max() < 1e-6 and np.abs(found.error[3:]).max() < 1e-5


# -- bad input reaches the user as a sentence -------------------------------------------------


def again(markers):
    """The reconstruction of the study with other markers."""
    standing = ks.gait.read_places(study.data("gait_subject01_static.csv"))
    return ks.gait.reconstruct(study.subject(), study.relations(), markers, standing)


def test_gaps(walk):
    """Short ones change next to nothing; what is missing throughout is refused."""
    markers = walk[0].markers
    positions = {name: position.copy() for name, position in markers.positions.items()}
    positions["R.Heel"][1, 20:27] = np.nan
    positions["L.ASIS"][:, 50] = np.nan
    with pytest.warns(UserWarning, match=r"2 gaps of markers are closed .*'R\.Heel': 7 samples"):
        found = again(Markers(markers.time, positions))
    np.testing.assert_allclose(found.fitted.z, walk[0].fitted.z, atol=0.05)
    positions["L.ASIS"][:] = np.nan
    with pytest.raises(
        ValueError, match=r"'L\.ASIS': .* missing .*, throughout, stays; try relations without it"
    ):
        again(Markers(markers.time, positions))


def test_advice_on_a_long_gap_works(walk):
    """What the error says to try is tried word for word."""
    markers = walk[0].markers.cut("R.ASIS", 1.8, 2.1)
    with pytest.raises(ValueError, match=r"longer than 0\.1 s, stays; try markers") as said:
        again(markers)
    advice = re.findall(r"markers\.(\w+)\(([^)]*)\)", str(said.value))
    assert [name for name, _ in advice] == ["filled", "between"]
    for name, given in advice:
        numbers = [float(number.rpartition("=")[2]) for number in given.split(",")]
        assert len(again(getattr(markers, name)(*numbers)).fitted.z) == 57


def test_millimetres(walk):
    markers = walk[0].markers
    with pytest.raises(ValueError, match=r"look like millimetres \(max \d+.*\); set unit='mm'"):
        Markers(
            markers.time, {name: 1e3 * position for name, position in markers.positions.items()}
        )


def test_time_that_is_not_uniform(walk):
    markers = walk[0].markers
    time = markers.time.copy()
    time[70:] += 0.05
    with pytest.raises(ValueError, match=r"time is not uniform: the step after 1\.15 s is"):
        Markers(time, markers.positions)


def test_markers_that_are_missing(walk):
    with pytest.raises(ValueError, match=r"marker 'R.Heel' is not in the trial"):
        again(walk[0].markers.without("R.Heel"))
    renamed = walk[0].markers.renamed({"V.Sacral": "V.sacral"})
    with pytest.raises(ValueError, match=r"'V\.Sacral' is not in .*did you mean V.sacral\?"):
        again(renamed)


def test_contacts_that_cannot_be(walk, needed, contacts):
    plates = walk[1]
    with pytest.raises(ValueError, match="there is no contact"):
        ks.gait.share(needed.total, [], plates)
    right = next(c for c in contacts if c.foot == "right" and c.struck)
    overlapping = [*contacts, replace(right, begin=right.begin + 0.1)]
    with pytest.raises(ValueError, match=r"right.*overlap|overlap.*right"):
        ks.gait.share(needed.total, overlapping, plates)
    with pytest.raises(
        ValueError,
        match=r"no foot is in contact from .* to .* s but the motion "
        "needs F_z = .* N; add the contact.*; in flights of a run, flight=0.5",
    ):
        ks.gait.share(needed.total, [right], {"right": plates["right"]})
    with pytest.raises(ValueError, match="there is a plate for the foot 'middle'"):
        ks.gait.share(needed.total, contacts, {**plates, "middle": plates["left"]})
    with pytest.raises(ValueError, match="must end after it begins"):
        Contact("left", 1.0, 0.9)
    with pytest.raises(ValueError, match=r"two heel strikes.* toe-off of the other foot: none$"):
        ks.gait.gait_cycle([right])


def test_plates_that_give_loads(walk, needed, contacts):
    plates = walk[1]
    upside_down = {foot: plate.scaled(-1.0) for foot, plate in plates.items()}
    with pytest.raises(ValueError, match="seems to give the load, not the reaction"):
        ks.gait.contacts_from_wrench("right", upside_down["right"])
    with pytest.raises(ValueError, match="seems to give the load, not the reaction"):
        ks.gait.share(needed.total, contacts, upside_down)


def test_plates_of_another_time(walk, needed):
    plate = walk[1]["right"]
    with pytest.raises(ValueError, match=r"at other times than the motion; use wrench.at\(time\)"):
        needed.joints({"Rforefoot": plate})
    with pytest.raises(ValueError, match=r"the wrench is known for .* s, but needed for"):
        plate.at(needed.time + 10.0)


def test_motion_outside_of_the_record(walk, body):
    with pytest.raises(ValueError, match="are asked for, the spline is known for"):
        body.forward(walk[0].kinematics, np.linspace(-1.0, 0.0, 101))


def test_feet_that_stand_beside_their_plates(needed):
    wrench = Wrench.zero(needed.time)
    assert not needed.joints({"right": wrench}).residual.force[2].min() < 0.0
    with pytest.raises(ValueError, match="there is no segment or joint 'middle'"):
        needed.joints({"middle": wrench})
