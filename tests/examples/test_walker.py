"""Walkers with heels and toes: order of phases, energy, the periodic gait, and how far a stimulated
walk is reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesym.examples.studies import walker as study
from kinesym.models.planar_body import planar_body, planar_segments
from kinesym.models.planar_walker import (
    CLEARANCE,
    FOOT,
    HEEL,
    MUSCLES,
    passive_body,
    passive_walker,
    planar_walker,
)

IMPLICIT = 7
#: What an impact may find below the ground: the hysteresis of contacts [m].
BELOW = 2e-8


@pytest.fixture(scope="module")
def machine():
    return passive_walker()


@pytest.fixture(scope="module")
def descent(machine):
    """Seven steps down the slope."""
    return study.descend(machine, np.linspace(0.0, IMPLICIT * 0.745, 1401))


@pytest.fixture(scope="module")
def body():
    return planar_walker(study.MASS, study.STATURE)


@pytest.fixture(scope="module")
def walked(body):
    """Four seconds under the regulator."""
    return study.walk(body, 4.0, rtol=1e-8)


@pytest.fixture(scope="module")
def replayed(body, walked):
    """Nearly three of them from the pattern alone, at two tolerances."""
    time = np.linspace(0.0, 2.7, 541)
    return [study.stimulated(body, walked[0], time, rtol) for rtol in (1e-8, 1e-10)]


# -- the machine ----------------------------------------------------------------------------------


def test_gait_is_periodic_and_stable(machine):
    """The numbers are a fixed point of the map from step to step; what is beside it comes back."""
    after = study.next_upright(machine, study.GAIT)
    for name, value in study.GAIT.items():
        assert after[name] == pytest.approx(value, abs=1e-9), name
    assert abs(study.multipliers(machine)).max() < 0.35
    gait = {**study.GAIT, "Rleg_wy": 1.2 * study.GAIT["Rleg_wy"], "Lleg_y": 0.1}
    run = study.descend(machine, [0.0, 8.2], gait, rtol=1e-9)
    last = run.happened("event", "R upright")[-1]
    assert last.time > 7.0
    for name, value in study.GAIT.items():
        assert last.after[name] == pytest.approx(value, abs=1e-4), name


def test_every_step_has_its_phases_in_order(descent):
    names = [name for _, _, name in study.phases(descent)]
    step = ["heel contact", "double support", "single support"]
    assert not descent.message and names == ["single support", *(IMPLICIT * step)]
    contact = [(e.kind, e.name) for e in descent.events if e.kind in ("impact", "release")]
    expected = []
    for n in range(IMPLICIT):
        front, behind = ("L", "R") if n % 2 == 0 else ("R", "L")
        expected += [
            ("impact", f"{front}heel"),
            ("release", f"{behind}heel"),
            ("impact", f"{front}toe"),
            ("release", f"{behind}toe"),
        ]
    assert contact == expected


def test_steps_are_equal(descent):
    """To what the fixed point leaves, times of heel strikes are one period apart."""
    strikes = [e.time for side in "RL" for e in descent.happened("impact", f"{side}heel")]
    np.testing.assert_allclose(np.diff(sorted(strikes)), 0.7439222785, atol=1e-8)


def test_gravity_gives_what_impacts_and_dampers_take(descent):
    table = study.steps_of(descent, study.energy_of(passive_body()))
    assert len(table) == IMPLICIT - 1
    assert np.abs(table[:, -1]).max() < 1e-8
    assert (table[:, 3:6] > 1.0).all()  # each of them takes part [J]


def test_ground_only_presses(descent):
    """Forces are not negative; no point is below the ground while it is watched; what presses is
    on it and does not move."""
    for name in study.CONTACTS:
        force, height = descent[f"{name}_normal"], descent[f"{name}_height"]
        assert force.min() > -1e-9
        assert (height + descent[f"{name[0]}_lift"]).min() > -BELOW
        assert np.abs(height[force > 0.0]).max() < BELOW
        for begin, end in descent.pressing(name):
            here = (descent.time > begin) & (descent.time < end)
            assert np.ptp(descent[f"{name}_place"][here]) < 1e-8
    lifted = np.unique(descent["R_lift"])
    np.testing.assert_array_equal(lifted, [0.0, CLEARANCE])


def test_machine_walks_with_friction_too(machine):
    """With Coulomb's law and much friction steps are alike, and toes slide for a moment."""
    run = study.descend(passive_walker("coulomb", 2.0), [0.0, 3.5], rtol=1e-8)
    assert not run.message and len(run.happened("event", "L upright")) == 2
    assert run.happened("slide")


# -- the body -------------------------------------------------------------------------------------


def test_body_has_its_parts(body):
    names = body.model.state_names
    assert sum(name.endswith(("_kc", "_F")) for name in names) == 24
    assert [contact.name for contact in body.contacts] == study.CONTACTS
    mechanical = [*planar_body().coordinates, *planar_body().speeds]
    assert list(names[:18]) == mechanical and len(mechanical) == 18
    assert {"muscle_work", "passive_work", "friction_work"} < set(names)
    assert "friction_work" not in planar_walker(law="slip").model.state_names


@pytest.mark.study
def test_body_starts_on_a_flat_foot(replayed):
    run = replayed[0]
    for point in ("heel", "toe"):
        assert run[f"R{point}_height"][0] == pytest.approx(0.0, abs=1e-12)
    length = run["Rtoe_place"][0] - run["Rheel_place"][0]
    assert length == pytest.approx(FOOT * study.STATURE, rel=1e-12)
    behind = run["Rfoot_place_x"][0] - run["Rheel_place"][0]
    assert behind == pytest.approx(HEEL * study.STATURE, rel=1e-12)


def test_body_walks_under_the_regulator(walked):
    pattern, _, _, place = walked
    assert place > 3.8 and all(len(row) == 160 for row in pattern.values())
    levels = np.array(list(pattern.values()))
    assert levels.min() == 0 and levels.max() == study.LEVELS


def test_pattern_alone_makes_steps_with_all_phases(replayed):
    """Four heel strikes, each in front, then double support and toe-off behind."""
    run = replayed[1]
    assert not run.message
    found = [(begin, name) for begin, _, name in study.phases(run)]
    names = [name for begin, name in found if 0.3 < begin < 2.6]
    step = ["double support", "single support", "heel contact"]
    assert names == (step * 4)[: len(names)] and len(names) >= 11
    strikes = [
        min(t for t, _ in run.pressing(f"{side}heel") if t > after)
        for side, after in (("L", 0.2), ("R", 0.5), ("L", 1.2), ("R", 2.0))
    ]
    assert (np.diff(strikes) > 0.5).all()
    places = [
        run[f"{side}heel_place"][np.searchsorted(run.time, t + 0.01)]
        for side, t in zip("LRLR", strikes, strict=True)
    ]
    assert (np.diff(places) > 0.5).all()


def test_events_agree_at_two_tolerances(replayed):
    """Until 1.2 s, three heel strikes and two toe-offs, to 1e-7 s; later a walk from a pattern
    parts from itself by a factor of thousands each second."""
    times, difference = study.apart(*replayed)
    assert times[-1] > 2.0
    assert difference[times < 1.2].max() < 1e-7
    assert difference[times < 1.5].max() < 1e-6


def test_energy_of_the_body_is_balanced(replayed):
    """Work of muscles, dampers, stops and friction, and what impacts take, are its change: to what
    a fall by the hysteresis of contacts gives, m g 1.5e-8 m each."""
    energy = study.energy_of(planar_body(planar_segments(study.MASS, study.STATURE)))
    for run in replayed:
        found = study.balance(run, energy)
        assert found["muscle_work"] > 100.0 and found["impacts"] < -10.0
        assert found["passive_work"] < 0.0 and found["friction_work"] < 0.0
        assert abs(found["left over"]) < 1e-4


def test_a_second_takes_few_evaluations(body, walked):
    """That is 50 ms on one core; their number does not depend on the machine."""
    run = study.stimulated(body, walked[0], [0.0, 2.5])
    assert run.work[2] < 2.5 * 25_000


@given(st.tuples(*3 * [st.floats(-200.0, 200.0)]))
def test_muscles_give_the_torques_that_are_shared(torques):
    forces = study.share(*torques)
    assert min(forces.values()) >= 0.0
    for joint, torque in zip(("hip", "knee", "ankle"), torques, strict=True):
        total = sum(MUSCLES[name].arms.get(joint, 0.0) * force for name, force in forces.items())
        assert total == pytest.approx(torque, abs=1e-9)


def test_phases_are_named_by_contacts():
    for down, name in (
        (["Rheel", "Rtoe"], "single support"),
        (["Rtoe"], "heel off"),
        (["Rtoe", "Lheel"], "heel contact"),
        (["Lheel"], "on the heel"),
        (["Rtoe", "Lheel", "Ltoe"], "double support"),
        ([], "flight"),
    ):
        assert study.phase_of(down) == name
