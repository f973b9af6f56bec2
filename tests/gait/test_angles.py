"""Angles, their rates and what turns in segment axes: against complex steps and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinesym.gait.kinematics import (
    Samples,
    Spline,
    angular_acceleration,
    angular_velocity,
    coordinates,
    in_turn,
    rates_of,
    states,
    world_moments,
)
from kinesym.models.whole_body import segments_of_body, whole_body

H = 1e-30  # of complex steps
seeds = st.integers(0, 2**32 - 1)


def attitude(angles):
    """A = Ry(beta) Rx(alpha) Rz(gamma), also of complex angles (3,)."""
    (sa, sb, sc), (ca, cb, cc) = np.sin(angles), np.cos(angles)
    y = np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])
    x = np.array([[1, 0, 0], [0, ca, -sa], [0, sa, ca]])
    z = np.array([[cc, -sc, 0], [sc, cc, 0], [0, 0, 1]])
    return y @ x @ z


def turning(angles, rates):
    """Angular velocity in segment axes by a complex step: A' A' turns."""
    change = attitude(angles + 1j * H * rates).imag / H
    W = attitude(angles).T @ change
    np.testing.assert_allclose(W + W.T, 0.0, atol=1e-12 * (1.0 + np.abs(W).max()))
    return np.array([W[2, 1], W[0, 2], W[1, 0]])


def random(seed, count=1, segments=2):
    """Angles, rates, accelerations, (3 or g, count) each."""
    rng = np.random.default_rng(seed)
    g = 3 + 3 * segments
    z, zd, zdd = (rng.uniform(-1, 1, (g, count)) * scale for scale in (3.0, 5.0, 40.0))
    z[3::3] *= 1.4 / 3.0
    return z, zd, zdd


def test_attitude_of_the_test():
    angles = np.array([0.3, -2.0, 1.1])
    expected = Rotation.from_euler("YXZ", angles[[1, 0, 2]]).as_matrix()
    np.testing.assert_allclose(attitude(angles), expected, atol=1e-15)


@given(seed=seeds)
@settings(max_examples=50, deadline=None)
def test_angular_velocity(seed):
    z, zd, zdd = (part[3:6, 0] for part in random(seed))
    w = angular_velocity(z, zd)
    np.testing.assert_allclose(w, turning(z, zd), atol=1e-13)
    moved = angular_velocity(z + 1j * H * zd, zd + 1j * H * zdd).imag / H
    np.testing.assert_allclose(angular_acceleration(z, zd, zdd), moved, atol=1e-11)
    np.testing.assert_allclose(rates_of(z, w), zd, atol=1e-12)
    np.testing.assert_allclose(angular_velocity(z, rates_of(z, zdd)), zdd, atol=1e-11)


def test_angular_velocity_over_time():
    """By SciPy's rotations between instants nearby; many segments at once."""
    z, zd, _ = random(1, count=4, segments=3)
    h = 1e-5

    def part(rows):
        return rows[3:].reshape(-1, 3, 4).transpose(1, 0, 2)

    found = angular_velocity(part(z), part(zd))
    assert found.shape == (3, 3, 4)
    for segment in range(3):
        angles, rates = part(z)[[1, 0, 2], segment].T, part(zd)[[1, 0, 2], segment].T
        ahead, behind = (Rotation.from_euler("YXZ", angles + s * h * rates) for s in (1, -1))
        between = (behind.inv() * ahead).as_rotvec() / (2 * h)
        np.testing.assert_allclose(found[:, segment].T, between, atol=1e-7)


def test_order_of_states():
    """Coordinates of the tree are in the order in which they turn: y, x, z."""
    rows = segments_of_body()[:2]
    names = [name for row in rows for name in (f"{row.name}_x", f"{row.name}_y", f"{row.name}_z")]
    ours = np.arange(9.0)[:, None]
    theirs = list(whole_body(rows).coordinates)
    by_name = dict(zip(["J1_px", "J1_py", "J1_pz", *names], ours[:, 0], strict=True))
    assert [by_name[name] for name in theirs] == list(in_turn(ours)[:, 0])
    np.testing.assert_array_equal(in_turn(in_turn(ours)), ours)


def test_states_and_back():
    z, zd, zdd = random(2, count=5, segments=4)
    x, xdot = states(Samples(np.arange(5.0), z, zd, zdd))
    assert x.shape == xdot.shape == (30, 5)
    back, rates = coordinates(x)
    np.testing.assert_allclose(back, z, atol=0)
    np.testing.assert_allclose(rates, zd, atol=1e-12)
    np.testing.assert_array_equal(xdot[:15], in_turn(zd))
    np.testing.assert_array_equal(xdot[15:18], zdd[:3])


def test_rates_of_states():
    """They are those of the states along a spline: by differences of order 4 in time."""
    rng, time = np.random.default_rng(3), np.linspace(0.0, 1.0, 40)
    z = 0.5 * np.sin(rng.uniform(3, 7, (9, 1)) * time + rng.uniform(0, 6, (9, 1)))
    kinematics, h, at = Spline.through(time, z), 1e-3, np.linspace(0.3, 0.7, 9)
    x, xdot = states(kinematics.sample(at))
    a, b, c, d = (states(kinematics.sample(at + k * h))[0] for k in (-2, -1, 1, 2))
    np.testing.assert_allclose((a - 8 * b + 8 * c - d) / (12 * h), xdot, atol=1e-6)
    np.testing.assert_allclose(coordinates(x)[0], kinematics.sample(at).z, atol=0)


@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_power_of_moments(seed):
    """Efforts along angles and moments in world axes have the same power for any rates."""
    rng = np.random.default_rng(seed)
    z, effort = random(seed, segments=3)[0][:, 0], rng.uniform(-50, 50, 12)
    moments = world_moments(z, effort)
    for zd in rng.uniform(-5, 5, (4, 12)):
        power = moments[:3] @ zd[:3]
        for k in range(3, 12, 3):
            w = attitude(z[k : k + 3]) @ turning(z[k : k + 3], zd[k : k + 3])
            power += moments[k : k + 3] @ w
        np.testing.assert_allclose(power, effort @ zd, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axis", range(3))
def test_moments_by_hand(axis):
    """Upright, an effort along an angle is the moment about its axis; after half a turn about y,
    x and z point the other way."""
    effort = np.zeros(6)
    effort[3 + axis] = 2.0
    np.testing.assert_allclose(world_moments(np.zeros(6), effort)[3:], effort[3:], atol=1e-15)
    turned = world_moments(np.array([0, 0, 0, 0, np.pi, 0]), effort)[3:]
    np.testing.assert_allclose(turned, effort[3:] * [-1, 1, -1], atol=1e-12)
