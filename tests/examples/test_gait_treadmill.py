"""Walking on a treadmill: events and moments against those that its authors reported."""

from itertools import pairwise

import numpy as np
import pytest

from kinesym.examples.studies import gait_treadmill as study
from kinesym.examples.studies.gait_planar import correlation, inverse_dynamics, rms


@pytest.fixture(scope="module")
def compiled():
    """The tree and its functions."""
    return inverse_dynamics()


@pytest.fixture(scope="module")
def walk():
    """The treadmill."""
    return study.treadmill()


def test_events(walk):
    """Within 10 ms on average and 15 ms at worst: samples are 10 ms apart."""
    for both in study.timed(walk).values():
        late = np.array([found - given for given, found in both])
        assert len(late) >= 14
        assert abs(late.mean()) < 5e-3
        assert np.abs(late).max() < 15e-3


def test_reported_moments(walk, compiled):
    """Of strides stamped in time: the ankle needs no trunk, knee and hip its lean."""
    strikes = study.left_strikes(walk)
    slope = study.slope_of_flat_foot(walk, strikes, *compiled)
    assert np.degrees(slope) == pytest.approx(-2.0, abs=0.3)
    found = study.moments(walk, strikes, slope, *compiled)
    spans = study.punctual(walk, list(pairwise(strikes)))
    assert len(spans) == 9
    limits = {"ankle": (0.999, 1.0), "knee": (0.97, 4.0), "hip": (0.9, 10.0)}
    for joint, (least, most) in limits.items():
        ours, theirs = (
            study.strides(walk, row, spans).ravel() for row in (found[joint], walk.moments[joint])
        )
        assert correlation(ours, theirs) > least, joint
        assert rms(ours - theirs) < most, joint


def test_foot_is_flat_in_the_first_half_of_the_stride(walk):
    """And then stays where the belt carries it, 0.8 m/s backwards."""
    here = study.flat(walk)
    assert 0.2 < here.mean() < 0.5
    speed = np.gradient(walk.ankle.real, walk.time)[here]
    assert np.median(speed) == pytest.approx(-0.8, abs=0.02)
