"""Walking tracked by direct collocation: near to what was measured, and mechanics holds."""

import numpy as np
import pytest

from kinesym.examples.studies import gait_tracking as study
from kinesym.models.planar_body import HIP


@pytest.fixture(scope="module")
def trial():
    return study.walk()


@pytest.fixture(scope="module")
def plane(trial):
    tracker = study.in_plane(trial)
    return tracker, study.track(trial, tracker)


def off(solution, tracker):
    """Root mean square distance of all points from where they were measured [m]."""
    gaps = study.missed(solution, tracker).values()
    return study.rms([np.linalg.norm(gap, axis=0) for gap in gaps])


def centre_of_mass(segments, run):
    """Its position (2, N) [m] from coordinates, written without the tree."""
    positions, angles, total = {HIP: np.array([run["hip_px"], run["hip_pz"]])}, {HIP: 0.0}, 0.0
    for row in segments:
        angle = run[f"{row.name}_y"] + angles[row.proximal]
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        for name, point in row.points.items():
            positions[name] = positions[row.proximal] + np.einsum("ijn,j->in", turn, point)
            angles[name] = angle
        total = total + row.mass * (positions[row.proximal] + np.einsum("ijn,j->in", turn, row.com))
    return total / sum(row.mass for row in segments)


def test_near_to_all_measurements(trial, plane):
    """Markers within what skin moves, plates within what plates are worth."""
    tracker, solution = plane
    assert solution.success
    assert off(solution, tracker) < 8e-3  # 6.4 mm; rigid segments of the whole body: 4.5 mm
    force, shift = study.changes_tracked(solution)
    assert study.rms(force) < 4.0 and study.rms(shift) < 3e-3  # N, m
    given = solution.trials[0].measurements
    for side in study.FEET:
        bare = given[f"{side}force_z"] == 0.0
        assert bare.any() and np.abs(solution[f"{side}force_z"][bare]).max() < 0.1


def test_nothing_but_the_ground_acts(trial, plane):
    """The centre of mass of the tracked motion moves as gravity and both feet make it move: forces
    are means over intervals, second differences of positions are theirs over two of them."""
    _, solution = plane
    segments, _ = study.flat(study.seven(trial))
    mass, step = sum(row.mass for row in segments), np.diff(solution.time).mean()
    position = centre_of_mass(segments, solution)
    needed = mass * np.diff(position, 2, axis=1) / step**2
    force = np.array([sum(solution[f"{s}force_{a}"] for s in study.FEET) for a in "xz"])
    force[1] -= mass * 9.81
    acting = 0.5 * (force[:, :-2] + force[:, 1:-1])
    assert study.rms(force) > 50.0
    assert study.rms(needed - acting) < 1.0  # N; the plates as measured leave 27 N over


def test_torques_near_to_inverse_dynamics(trial, plane):
    """At the ankle, where no mass is in between, by much; never far."""
    found = study.flexions(trial, {"plane": plane[1]})
    time, tracked = found["plane"]
    times, inverse = found["plates"]
    for name, row in tracked.items():
        difference = study.rms(row - np.interp(time, times, inverse[name]))
        assert difference < (3.0 if "ankle" in name else 12.0), (name, difference)


def test_space_agrees_with_the_plane(trial, plane):
    """A quarter of a second in space: as near to the measurements, and the same torques."""
    tracker, flat = study.in_space(trial), plane[1]
    solution = study.track(trial, tracker, nodes=31)
    assert solution.success and off(solution, tracker) < 10e-3
    force, shift = study.changes_tracked(solution)
    assert study.rms(force) < 4.0 and study.rms(shift) < 3e-3
    for joint, limit in (("ankle", 4.0), ("knee", 8.0), ("hip", 12.0)):
        for side in study.FEET:
            name = f"{side}{joint}_y"
            assert study.rms(solution[name] - flat[name][:31]) < limit, name
