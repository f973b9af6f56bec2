"""Planar inverse dynamics of a leg: published results to their last digit, and geometry."""

import numpy as np
import pytest

from kinesym.examples.studies import gait_planar as study
from kinesym.gait.wrench import Wrench

TIME = np.linspace(0.0, 2.0, 401)


@pytest.fixture(scope="module")
def compiled():
    """The tree and its functions."""
    return study.inverse_dynamics()


@pytest.fixture(scope="module")
def results(compiled):
    """Columns of every case, by its name."""
    return {case.name: study.again(case, *compiled) for case in study.CASES}


def swinging(k):
    """A smooth motion in the plane with its rates (3, N)."""
    w, shift = 3.0 + k, 0.4 * k
    wave = np.array(
        [np.sin(w * TIME + shift), w * np.cos(w * TIME + shift), -(w**2) * np.sin(w * TIME + shift)]
    )
    steady = np.array([np.ones_like(TIME), 0 * TIME, 0 * TIME])
    return (0.3 + 0.1j * k) * steady + (0.1 - 0.05j) * wave


# -- published results ----------------------------------------------------------------------------


def test_published_results_to_their_last_digit(results):
    """The file has nine digits; nothing differs by more than what they round."""
    _, reference = study.published()
    found = results["its filter, masses"]
    assert set(found) == set(reference)
    for name, row in reference.items():
        assert np.abs(found[name] - row).max() < 1e-7, name


def test_winters_masses_change_what_is_beyond_the_ankle(results):
    """With its filter motion and ankle are as published, knee and hip lack the weight of segments
    that have the mass of the foot: 9.81 (0.0465 - 0.0145 + 0.1 - 0.0145) N/kg on average."""
    _, reference = study.published()
    found = results["its filter, 4 Hz"]
    for name in reference:
        if name.startswith("ankle") or "ang" in name:
            assert np.abs(found[name] - reference[name]).max() < 1e-7, name
    lacking = np.mean(found["hip_force_z_N_per_kg"] - reference["hip_force_z_N_per_kg"])
    assert lacking == pytest.approx(9.81 * (0.032 + 0.0855), rel=0.02)


def test_our_filter_at_the_same_cutoff(results):
    """What no mass changes is as published but for the filter; 6 Hz are further away."""
    _, reference = study.published()
    for joint, angle, rate in (("hip", 1e-3, 0.05), ("knee", 1e-3, 0.05), ("ankle", 1e-3, 0.05)):
        for name, limit in ((f"{joint}_angle_rad", angle), (f"{joint}_angvel_rad_per_s", rate)):
            near, far = (
                study.rms(results[case][name] - reference[name])
                for case in ("ours, 4 Hz", "ours, 6 Hz")
            )
            assert near < limit
            assert far > 2.0 * near
    ankle = "ankle_moment_Nm_per_kg"
    assert study.correlation(results["ours, 4 Hz"][ankle], reference[ankle]) > 0.9999
    assert study.correlation(results["ours, 6 Hz"][ankle], reference[ankle]) > 0.999


# -- the tree and the plane -----------------------------------------------------------------------


def test_directions_and_turns():
    """Rates agree with finite differences."""
    step = TIME[1] - TIME[0]
    for kinematics in (study.direction(swinging(2)), study.turned(swinging(1), swinging(2).real)):
        for value, rate in ((kinematics[0], kinematics[1]), (kinematics[1], kinematics[2])):
            slope = np.gradient(value, step, edge_order=2)
            assert np.abs(slope - rate)[2:-2].max() < 1e-2 * np.abs(rate).max()


def test_tree_against_newton_and_euler(compiled):
    """A leg that stretches, in free motion with a wrench on the foot, by momentum alone."""
    joints = {name: swinging(k) for k, name in enumerate(("hip", "knee", "ankle"))}
    axes = {name: swinging(k + 3) for k, name in enumerate(study.SEGMENTS)}
    centres = {name: swinging(k + 6) for k, name in enumerate(study.SEGMENTS)}
    masses = {"thigh": (8.0, 0.12), "shank": (3.0, 0.05), "foot": (1.0, 0.006)}
    rng = np.random.default_rng(1)
    force, moment = rng.standard_normal((2, 3, len(TIME)))
    ground = Wrench(TIME, force, moment)
    motion = study.coordinates(joints, axes, centres)
    found = study.joint_loads(*compiled, motion, masses, ground)
    needed, about = -(force[0] + 1j * force[2]), moment[1]  # about: the origin, y of the world
    for joint, (segment, sense) in reversed(study.JOINTS.items()):
        mass, inertia = masses[segment]
        here, _, acceleration = centres[segment]
        inertial = mass * (acceleration + 9.81j)
        spin = inertia * study.direction(axes[segment])[2]
        needed = needed + inertial
        about = about + spin + (here.conjugate() * inertial).imag
        at = joints[joint][0]
        expected = sense * (about - (at.conjugate() * needed).imag)
        np.testing.assert_allclose(found[f"{joint}_moment"], expected, atol=1e-9)
        np.testing.assert_allclose(found[f"{joint}_force_x"], needed.real, atol=1e-9)
        np.testing.assert_allclose(found[f"{joint}_force_z"], needed.imag, atol=1e-9)


def test_filter_of_the_toolkit():
    """No lag and 1/sqrt(2) at the cutoff in the middle of a long record; exact on a constant."""
    time = 1.0 + np.arange(2001) / 200.0
    y, rate, _ = study.both_ways(time, np.sin(2.0 * np.pi * 4.0 * time), 4.0)
    middle = slice(800, 1200)
    wave = np.exp(-2j * np.pi * 4.0 * time[middle])
    gain = 2.0 * np.mean(y[middle] * wave) * 1j
    assert abs(gain) == pytest.approx(np.sqrt(0.5), rel=0.01)
    assert abs(np.angle(gain)) < 1e-3
    assert np.abs(rate[middle]).max() == pytest.approx(2.0 * np.pi * 4.0 * abs(gain), rel=0.01)
    level, still, calm = study.both_ways(time, np.full(len(time), 3.0), 4.0)
    np.testing.assert_allclose(level, 3.0)
    np.testing.assert_allclose([still, calm], 0.0, atol=1e-9)
