"""Walks tracked without plates: these are near, whatever the start, and the ground only pushes."""

import numpy as np
import pytest

from kinesym.examples import gait_without_plates as study


@pytest.fixture(scope="module", params=[study.treadmill, study.overground])
def record(request):
    return request.param()


@pytest.fixture(scope="module")
def tracked(record):
    return study.track(record)


def test_near_to_plates_that_were_held_back(record, tracked):
    assert tracked.success
    found = study.off(record, tracked.time, study.tracked_forces(tracked))
    kept = study.off(record, *study.kept_forces(record))
    for foot in study.FEET.values():
        assert found[foot][0] < 4.0 and found[foot][1] < 9.0  # % of the weight
        assert kept[foot][1] < 7.0


def test_the_ground_only_pushes_in_contact(record, tracked):
    bounds = study.on_the_ground(record, tracked.time)
    for side in study.FEET:
        pushes = np.array([tracked[f"{side}{point}_push"] for point in study.POINTS])
        assert pushes.min() > -1e-3
        away = bounds[f"{side}heel_push"][1] < 1.0
        assert away.any() and np.abs(pushes[:, away]).max() < 1e-3
        pull = np.abs(tracked[f"{side}pull"])
        assert (pull <= study.FRICTION * pushes.sum(axis=0) + 1.01).all()


def test_every_start_leads_there(record, tracked):
    """A body that stands still, without torques and forces."""
    tracker = study.model_of(record)
    task = study.problem(record, tracker)
    motion = tracker.motion(task.trials[0].time)
    still = {name: np.full_like(row, row.mean()) for name, row in motion.items()}
    other = task.solve(guess=still, max_iterations=300)
    assert other.success and other.objective == pytest.approx(tracked.objective, rel=1e-7)


def test_the_whole_force_is_what_the_motion_needs(record, tracked):
    """Over whole strides the mean of the vertical force is the weight, but for how much faster the
    body rises at the end."""
    time, up = tracked.time, tracked["Rup"] + tracked["Lup"]
    mean = np.sum(np.diff(time) * up[:-1]) / (time[-1] - time[0])
    faster = tracked["hip_vz"][-1] - tracked["hip_vz"][0]
    expected = record.weight + record.weight / study.G * faster / (time[-1] - time[0])
    assert mean == pytest.approx(expected, rel=0.03)  # the hip is not the centre of mass
