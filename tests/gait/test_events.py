"""Contacts, phases and plates: synthetic steps with known instants, and two measured walks."""

import gzip
import warnings
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kinesym.gait.events import (
    Contact,
    completed,
    contacts_from_markers,
    contacts_from_wrench,
    gait_cycle,
    phases,
)
from kinesym.gait.plates import assign_plates
from kinesym.gait.wrench import Wrench

TIME = np.linspace(0.0, 3.0, 1801)


def data(name):
    raw = (resources.files("kinesym.examples") / "data" / name).read_bytes()
    return np.genfromtxt(gzip.decompress(raw).decode().splitlines(), delimiter=",", names=True)


def turned(table, name, unit):
    """From x forwards, y up, z to the right."""
    x, y, z = (table[f"{name}_{axis}_{unit}"] for axis in "xyz")
    return np.array([x, -z, y])


def treadmill():
    """A plate per foot, 600 Hz; right heel strikes at 0.618, 1.852 s (data/README.md)."""
    forces, markers = data("gait_subject01_forces.csv.gz"), data("gait_subject01_markers.csv.gz")
    plates = {
        f"belt {foot}": Wrench.at_cop(
            forces["time_s"],
            turned(forces, f"{foot}_force", "N"),
            turned(forces, f"{foot}_cop", "m"),
            turned(forces, f"{foot}_torque", "Nm"),
        )
        for foot in ("right", "left")
    }
    feet = {
        foot: tuple(
            turned(markers, f"{foot[0].upper()}{position}", "m") for position in ("Heel", "ToeTip")
        )
        for foot in ("right", "left")
    }
    return plates, markers["time_s"], feet


def walkway():
    """Four plates in a row, 450 Hz; the source exchanges the labels R and L of the markers."""
    forces = data("gait_bmc_walk1_forces.csv.gz")
    markers = data("gait_bmc_walk1_markers.csv.gz")
    plates = {
        f"plate {k}": Wrench.at_cop(
            forces["time_s"],
            turned(forces, f"plate{k}_force", "N"),
            turned(forces, f"plate{k}_cop", "m"),
            forces[f"plate{k}_free_moment_Nm"],
        )
        for k in (3, 4, 5, 6)
    }
    feet = {
        foot: tuple(turned(markers, f"{label}{position}", "m") for position in ("Heel", "MT2"))
        for foot, label in (("right", "L"), ("left", "R"))
    }
    return plates, markers["time_s"], feet


def pressing(kinematics, position=(0.0, 0.0, 0.0), time=TIME):
    force = np.zeros((3, len(time)))
    force[2] = kinematics
    return Wrench(time, force, np.cross(np.reshape(position, (3, 1)), force, axis=0))


def trapezoid(begin, end, time=TIME, height=700.0, rise=0.07):
    """Rises from zero at begin, back to zero at end: 20 N after rise * 20/height."""
    up, down = (time - begin) / rise, (end - time) / rise
    return height * np.clip(np.minimum(up, down), 0.0, 1.0)


def steps(*intervals, foot="right"):
    return [Contact(foot, *interval) for interval in intervals]


def walk(count=3, stride=1.0, stance=0.6):
    """Contacts of both feet that take turns."""
    right = [Contact("right", k * stride, k * stride + stance) for k in range(count)]
    left = [Contact("left", (k + 0.5) * stride, (k + 0.5) * stride + stance) for k in range(count)]
    return right + left


# -- contacts from plates ---------------------------------------------------------------------


def test_crossings_are_found_between_samples():
    found = contacts_from_wrench("right", pressing(trapezoid(0.5003, 1.1007)))
    assert [(c.struck, c.lifted) for c in found] == [(True, True)]
    assert_allclose([found[0].begin, found[0].end], [0.5023, 1.0987], atol=1e-9)


def test_noise_at_the_threshold_does_not_cut_a_contact():
    kinematics = trapezoid(0.5, 1.1) + trapezoid(1.5, 2.1)
    noise = np.random.default_rng(0).uniform(-4.0, 4.0, len(TIME))
    dip = np.where((TIME > 0.51) & (TIME < 0.53), np.minimum(kinematics, 24.0), kinematics)
    found = contacts_from_wrench("right", pressing(dip + noise))
    assert len(found) == 2
    assert_allclose([found[1].begin, found[1].end], [1.502, 2.098], atol=2e-3)


def test_short_pulses_are_no_contacts_and_short_gaps_none():
    kinematics = trapezoid(0.5, 1.1) + trapezoid(2.0, 2.03, rise=0.01)
    kinematics[(TIME > 0.8) & (TIME < 0.82)] = 0.0
    found = contacts_from_wrench("right", pressing(kinematics))
    assert_allclose([(c.begin, c.end) for c in found], [(0.502, 1.098)], atol=1e-9)


def test_contacts_that_the_record_cuts_say_so():
    found = contacts_from_wrench("left", pressing(trapezoid(-0.3, 0.3) + trapezoid(2.98, 3.5)))
    assert [(c.struck, c.lifted) for c in found] == [(False, True), (True, False)]
    assert found[0].begin == 0.0 and found[1].end == 3.0


def test_a_plate_that_gives_the_load_is_refused():
    with pytest.raises(ValueError, match="plate of 'left' seems to give the load"):
        contacts_from_wrench("left", pressing(-trapezoid(0.5, 1.1)))
    with pytest.raises(ValueError, match="threshold of a contact must be positive"):
        contacts_from_wrench("left", pressing(trapezoid(0.5, 1.1)), threshold=0.0)
    assert contacts_from_wrench("left", pressing(0.0 * TIME)) == []


# -- contacts from markers --------------------------------------------------------------------


@pytest.mark.parametrize("record", [treadmill, walkway])
def test_markers_agree_with_plates(record):
    """Within 36 ms: O'Connor et al. 2007 report 16 +- 15 ms for strikes, 9 +- 15 ms for leaving."""
    plates, time, feet = record()
    wrenches, _ = assign_plates(plates, time, feet)
    compared = 0
    for foot, (heel, toe) in feet.items():
        seen = contacts_from_markers(foot, time, heel, toe)
        for contact in contacts_from_wrench(foot, wrenches[foot]):
            if contact.struck and contact.begin < time[-1] - 0.1:
                compared += 1
                assert min(abs(c.begin - contact.begin) for c in seen if c.struck) < 0.036
            if contact.lifted:
                compared += 1
                assert min(abs(c.end - contact.end) for c in seen if c.lifted) < 0.036
    assert compared == 7


def test_the_direction_of_walking_does_not_matter():
    _, time, feet = walkway()
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    ahead = contacts_from_markers("left", time, *feet["left"])
    aside = contacts_from_markers("left", time, *(turn @ position for position in feet["left"]))
    assert ahead == aside


def test_markers_that_cannot_be_are_refused():
    _, time, feet = walkway()
    heel, toe = feet["left"]
    with pytest.raises(ValueError, match=r"makes no step .* rises by 0.000 m only"):
        contacts_from_markers("left", time, 0.0 * heel, toe)
    gap = heel.copy()
    gap[:, 30:33] = np.nan
    with pytest.raises(ValueError, match=r"heel: 9 values are not finite, .* \(t = 0.2 s\); fill"):
        contacts_from_markers("left", time, gap, toe)
    with pytest.raises(ValueError, match=r"toe must be \(3, 364\), rows x, y, z, got \(364, 3\)"):
        contacts_from_markers("left", time, heel, toe.T)
    flat = [row.copy() for row in (heel, toe)]
    for row in flat:  # the foot stays low and slow while it should leave at 1.4 s
        row[2, 180:225] = row[2, 180]
        row[2, 225:] += row[2, 180] - row[2, 225]
    with pytest.raises(ValueError, match=r"'left' .* twice without"):
        contacts_from_markers("left", time, *flat)


def test_contacts_of_markers_fill_those_of_plates():
    """On the walkway the left foot begins beside the plates."""
    plates, time, feet = walkway()
    wrenches, _ = assign_plates(plates, time, feet)
    known = [c for foot, wrench in wrenches.items() for c in contacts_from_wrench(foot, wrench)]
    seen = [c for foot, pair in feet.items() for c in contacts_from_markers(foot, time, *pair)]
    both = completed(known, seen)
    assert len(both) == len(known) + 1
    assert both[0].foot == "left" and not both[0].struck and 0.25 < both[0].end < 0.35
    phases(both)


# -- phases -----------------------------------------------------------------------------------


def test_phases_name_trailing_and_leading_foot():
    found = phases(walk(2))
    assert [phase.feet for phase in found] == [
        ("right",),
        ("right", "left"),
        ("left",),
        ("left", "right"),
        ("right",),
        ("right", "left"),
        ("left",),
    ]
    ends = [found[0].begin, *(phase.end for phase in found)]
    assert_allclose(ends, [0.0, 0.5, 0.6, 1.0, 1.1, 1.5, 1.6, 2.1])


def test_running_has_flight():
    found = phases(walk(2, stance=0.3))
    assert [phase.feet for phase in found[:3]] == [("right",), (), ("left",)]


def test_the_foot_that_leaves_first_trails_if_the_record_begins_with_both():
    cut = [Contact("right", 0.0, 0.2, struck=False), Contact("left", 0.0, 0.7, struck=False)]
    assert phases(reversed(cut))[0].feet == ("right", "left")


def test_a_foot_that_touches_while_the_other_stays():
    """It came later."""
    found = phases([Contact("right", 0.0, 0.6), Contact("left", 0.2, 0.4)])
    assert [phase.feet for phase in found] == [("right",), ("right", "left"), ("right",)]


def test_contacts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"contacts of 'right' overlap from 0.4 to 0.6 s"):
        phases(steps((0.0, 0.6), (0.4, 1.0)))
    with pytest.raises(ValueError, match=r"3 feet are on the ground from 0.2 to 0.6 s: a, b, c"):
        phases([Contact("a", 0.0, 0.6), Contact("b", 0.1, 0.7), Contact("c", 0.2, 0.8)])
    with pytest.raises(ValueError, match="there is no contact"):
        phases([])
    with pytest.raises(ValueError, match=r"'right' is given from 1.0 to 0.5 s"):
        Contact("right", 1.0, 0.5)


def test_a_cycle_runs_from_heel_strike_to_the_second_toe_off():
    cycle = gait_cycle(walk(4))
    assert (cycle.begin, cycle.stride, cycle.end) == pytest.approx((0.0, 1.0, 1.1))
    assert_allclose(cycle.percent([0.0, 0.5, 1.1]), [0.0, 50.0, 110.0])
    assert_allclose(cycle.instant(cycle.percent(TIME)), TIME, atol=1e-12)
    assert [phase.feet for phase in cycle.double_supports] == [("right", "left"), ("left", "right")]
    later = gait_cycle(walk(4), "left", begin=0.9)
    assert (later.begin, later.end) == pytest.approx((1.5, 2.6))


def test_cycles_on_plates_come_first():
    """Of a record whose other stances markers show; what none shows is named."""
    every = sorted(walk(5), key=lambda contact: contact.begin)

    def seen(*numbers):
        return [replace(c, measured=k in numbers) for k, c in enumerate(every)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gait_cycle(every).begin == 0.0  # markers alone
        assert gait_cycle(seen(*range(10))).begin == 0.0
        one = gait_cycle(seen(3, 4, 5, 6, 7))
        assert (one.begin, one.stride) == pytest.approx((2.0, 3.0))
        assert not any(phase.off for phase in one.phases)
        other = gait_cycle(seen(4, 5, 6, 7), "left")
        assert (other.begin, other.stride) == pytest.approx((2.5, 3.5))
    words = r"no force plate shows 'left' from 2\.5 to .* in the cycle of 'right' from 2 to 3 s"
    with pytest.warns(UserWarning, match=words):
        two = gait_cycle(seen(3, 4, 6, 7))
    assert two.begin == 2.0 and {foot for p in two.phases for foot in p.off} == {"left"}
    with pytest.warns(UserWarning, match="no other cycle has fewer: torques"):
        gait_cycle(seen(0, 1), begin=1.5)
    plates = contacts_from_wrench("right", pressing(trapezoid(0.5, 0.8), (0.1, -0.1, 0.0)))
    assert all(c.measured for c in plates) and plates == [
        replace(c, measured=False) for c in plates
    ]


def test_a_plate_that_nobody_steps_on():
    """Is passed over; of three others, in any order."""
    one = pressing(trapezoid(0.5, 0.8), (0.1, -0.1, 0.0))
    two = pressing(trapezoid(0.9, 1.2), (0.1, 0.1, 0.0))
    plates = {"a": Wrench.zero(TIME), "b": one, "c": one.scaled(0.001), "d": two}
    wrenches, found = assign_plates(plates, TIME, feet_at((0.0, -0.1), (0.0, 0.1)))
    assert [(step.plate, step.foot) for step in found] == [("b", "right"), ("d", "left")]
    assert_allclose(wrenches["right"].force, one.force)
    _, none = assign_plates({"a": plates["a"]}, TIME, feet_at((0.0, -0.1), (0.0, 0.1)))
    assert none == []


def test_records_without_a_cycle_are_refused():
    with pytest.raises(ValueError, match=r"two heel strikes of 'right' .* strikes: 0, last .* 1.1"):
        gait_cycle(walk(1))
    cut = [Contact(c.foot, c.begin, c.end, struck=c.begin > 0.0) for c in walk(2)]
    with pytest.raises(ValueError, match="heel strikes: 1,"):
        gait_cycle(cut)
    with pytest.raises(ValueError, match=r"no double support: .* from 0.3 to 0.5 s"):
        gait_cycle(walk(3, stance=0.3))


# -- plates -----------------------------------------------------------------------------------


def test_four_plates_in_a_row():
    """Contacts as data/README.md gives them; right, left, right, left."""
    plates, time, feet = walkway()
    wrenches, found = assign_plates(plates, time, feet)
    assert [(step.plate, step.foot) for step in found] == [
        ("plate 6", "right"),
        ("plate 5", "left"),
        ("plate 3", "right"),
        ("plate 4", "left"),
    ]
    expected = [(0.213, 0.860), (0.762, 1.402), (1.316, 1.953), (1.860, 2.424)]
    assert_allclose([(step.begin, step.end) for step in found], expected, atol=2.5e-3)
    assert max(step.distance for step in found) < 0.02
    total = plates["plate 3"] + plates["plate 4"] + plates["plate 5"] + plates["plate 6"]
    assert_allclose((wrenches["right"] + wrenches["left"]).force, total.force, atol=1e-9)
    assert_allclose((wrenches["right"] + wrenches["left"]).moment, total.moment, atol=1e-9)


def test_a_plate_per_foot():
    """Right heel strikes at 0.618 and 1.853 s, left ones at 1.247 and 2.460 s (data/README.md)."""
    plates, time, feet = treadmill()
    wrenches, found = assign_plates(plates, time, feet)
    assert {(step.plate, step.foot) for step in found} == {
        ("belt right", "right"),
        ("belt left", "left"),
    }
    known = {foot: contacts_from_wrench(foot, wrench) for foot, wrench in wrenches.items()}
    strikes = {foot: [c.begin for c in own if c.struck] for foot, own in known.items()}
    assert_allclose(strikes["right"], [0.618, 1.853], atol=2e-3)
    assert_allclose(strikes["left"], [1.247, 2.460], atol=2e-3)
    cycle = gait_cycle(known["right"] + known["left"])
    assert len(cycle.double_supports) == 3
    assert 110.0 < cycle.percent(cycle.end) < 118.0


def feet_at(*positions):
    """Feet that stand still, 0.25 m long, with their heels at positions (x, y)."""
    heels = [np.outer([x, y, 0.0], np.ones(len(TIME))) for x, y in positions]
    ahead = np.array([[0.25], [0.0], [0.0]])
    return {
        foot: (heel, heel + ahead) for foot, heel in zip(("right", "left"), heels, strict=False)
    }


def test_one_plate_may_carry_one_foot_after_the_other():
    """Running on a treadmill: the feet are told apart by where they press."""
    one = pressing(trapezoid(0.5, 0.8), (0.1, -0.1, 0.0))
    two = pressing(trapezoid(0.9, 1.2), (0.1, 0.1, 0.0))
    wrenches, found = assign_plates({"belt": one + two}, TIME, feet_at((0.0, -0.1), (0.0, 0.1)))
    assert [step.foot for step in found] == ["right", "left"]
    assert_allclose(wrenches["right"].moment, one.moment, atol=1e-9)
    assert_allclose(wrenches["left"].moment, two.moment, atol=1e-9)


def test_a_foot_may_stand_on_two_plates():
    parts = [pressing(0.5 * trapezoid(0.5, 1.2), (x, -0.1, 0.0)) for x in (0.02, 0.2)]
    plates = {"near": parts[0], "far": parts[1]}
    wrenches, found = assign_plates(plates, TIME, feet_at((0.0, -0.1), (0.5, 0.1)))
    assert [step.foot for step in found] == ["right", "right"]
    assert_allclose(wrenches["right"].force[2], trapezoid(0.5, 1.2), atol=1e-9)
    assert not wrenches["left"].force.any()


def test_plates_that_are_longer_than_the_markers():
    """By the part of a contact that both have; the whole contact stays."""
    one = pressing(trapezoid(0.5, 1.1), (0.1, -0.1, 0.0))
    here = TIME >= 0.75
    feet = {
        foot: tuple(place[:, here] for place in pair)
        for foot, pair in feet_at((0.0, -0.1), (0.0, 0.1)).items()
    }
    wrenches, (step,) = assign_plates({"p": one}, TIME[here], feet)
    assert step.foot == "right" and step.begin < 0.51
    assert_allclose(wrenches["right"].force, one.force)


def test_two_feet_on_a_plate_are_refused():
    both = pressing(trapezoid(0.5, 1.1), (0.1, -0.1, 0.0)) + pressing(
        trapezoid(1.0, 1.6), (0.1, 0.3, 0.0)
    )
    with pytest.raises(ValueError, match=r"plate 'p' carries right and left from 0.502 to 1.598 s"):
        assign_plates({"p": both}, TIME, feet_at((0.0, -0.1), (0.0, 0.3)))


def test_a_plate_without_a_foot_is_refused():
    alone = {"p": pressing(trapezoid(0.5, 1.1), (0.125, 0.5, 0.0))}
    with pytest.raises(ValueError, match=r"no foot .* 'left' is 0.400 m away"):
        assign_plates(alone, TIME, feet_at((0.0, -0.1), (0.0, 0.1)))
    with pytest.raises(ValueError, match=r"loaded from 0.502 to 1.098 s, .* to 0.5 s; cut the"):
        feet = {"right": (np.zeros((3, 11)), np.ones((3, 11)))}
        assign_plates(alone, np.linspace(0.0, 0.5, 11), feet)
    with pytest.raises(ValueError, match="at least one plate"):
        assign_plates({}, TIME, feet_at((0.0, 0.0)))
