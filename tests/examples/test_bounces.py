"""The ball and the block against formulas, and what a plain integrator loses."""

import json
from pathlib import Path

import numpy as np
import pytest

from kinesym.examples.studies import bounces as study

TOLD = json.loads((Path(__file__).parents[1] / "data" / "rocking_block.json").read_text())


@pytest.fixture(scope="module")
def ball():
    return study.drop(161)


@pytest.fixture(scope="module")
def block():
    return study.rock(301)


def test_times_and_heights_of_the_ball(ball):
    """t1 + 2 v0/g (e + e^2 + ...): the series ends at 1.354571 s."""
    impacts = ball.happened("impact")
    times, last = study.ball_impacts(len(impacts))
    np.testing.assert_allclose([e.time for e in impacts], times, atol=1e-12)
    np.testing.assert_allclose(
        study.bounce_heights(ball)[:-1], 0.25 ** np.arange(1, len(times)), rtol=1e-10
    )
    assert last == pytest.approx(1.354571, abs=5e-7)
    assert last == pytest.approx(study.ball_impacts(60)[0][-1], abs=1e-14)


def test_the_ball_stays_down_when_it_would_leave_slower_than_1_mm_per_s(ball):
    """That is at the thirteenth impact: v0 e^13 = 0.54 mm/s."""
    speed = np.sqrt(2.0 * study.DROP * study.G) * study.RESTITUTION ** np.arange(1, 20)
    count = 1 + int(np.argmax(speed < 1e-3))
    (closed,) = ball.happened("close")
    assert len(ball.happened("impact")) == count == 13
    assert closed.time == pytest.approx(study.ball_impacts(count)[0][-1], abs=1e-12)
    assert abs(ball["y"][-1]) < 1e-15
    assert ball["push"][-1] == pytest.approx(study.BALL_MASS * study.G, rel=1e-12)


def test_formulas_of_the_block_are_those_of_the_other_implementation():
    """Its impacts were integrated numerically, the first also by quadrature."""
    p = TOLD["params"]
    ours = [study.MASS, study.HALF_WIDTH, study.HALF_HEIGHT, study.INERTIA]
    assert ours == pytest.approx([p[key] for key in ("m", "half_width", "half_height", "I")])
    by_angle = 1.0 - 1.5 * np.sin(study.SLENDERNESS) ** 2
    np.testing.assert_allclose([TOLD["housner_ratio"], by_angle], study.HOUSNER, rtol=1e-14)
    assert study.block_impacts(1)[0] == pytest.approx(0.264713415734, abs=1e-12)
    np.testing.assert_allclose(
        study.block_impacts(11), [e["t"] for e in TOLD["impacts"]], atol=1e-12
    )
    np.testing.assert_allclose(study.corner_at_origin(study.TILT), TOLD["q0"][:2], rtol=1e-14)


def test_impacts_of_the_block(block):
    impacts = block.happened("impact")
    assert len(impacts) == 11 and not block.message
    assert [e.name for e in impacts] == [("left", "right")[k % 2] for k in range(11)]
    np.testing.assert_allclose([e.time for e in impacts], study.block_impacts(11), atol=1e-9)
    ratios = [e.after["block_wy"] / e.before["block_wy"] for e in impacts]
    np.testing.assert_allclose(ratios, study.HOUSNER, rtol=1e-11)


def test_energy_falls_at_impacts_alone(block):
    """By the square of Housner's ratio."""
    total = block["kinetic_energy"] + block["potential_energy"]
    above = total - study.MASS * study.G * study.HALF_HEIGHT
    count = np.searchsorted(study.block_impacts(11), block.time)
    np.testing.assert_allclose(above, above[0] * study.HOUSNER ** (2.0 * count), rtol=1e-8)


def test_turning_points(block):
    """The largest angles between impacts."""
    peaks = study.amplitudes(11)
    assert peaks[0] == pytest.approx(study.TILT, rel=1e-13)
    times = study.block_impacts(11)
    for k, peak in enumerate(peaks[1:]):
        within = np.abs(block["block_y"][(block.time > times[k]) & (block.time < times[k + 1])])
        assert 0.995 * peak < within.max() <= peak * (1.0 + 1e-9)


def test_order_of_a_plain_integrator():
    """One at the ends of steps, on average half a step late; four if impacts are located."""
    steps = np.geomspace(2e-3, 2e-2, 41)
    at_ends, located = study.errors(steps)
    assert (at_ends < steps).all() and 0.3 < (at_ends / steps).mean() < 0.7
    slope = np.polyfit(np.log(steps), np.log(located), 1)[0]
    assert slope == pytest.approx(4.0, abs=0.1)


def test_hysteresis():
    """With it all impacts are found once; without, one repeats itself."""
    times = study.plain_block(0.005, locate=True, hysteresis=study.HYSTERESIS)[2]
    np.testing.assert_allclose(times, study.block_impacts(11), atol=1e-7)
    assert all(len(study.plain_block(h, locate=True)[2]) > 11 for h in (0.005, 0.007))


def test_a_state_is_drawn_with_its_jumps(ball):
    time, speed = study.with_jumps(ball, "v")
    first = ball.happened("impact")[0]
    at = np.flatnonzero(time == first.time)
    assert (np.diff(time) >= 0.0).all()
    np.testing.assert_allclose(speed[at], [first.before["v"], first.after["v"]])


def test_what_is_printed(ball, block):
    assert "the series of impacts ends at 1.354571 s" in study.ball_table(ball)
    assert "0.911764705882" in study.block_table(block)
    assert "0.264713415734" in study.block_table(block)
