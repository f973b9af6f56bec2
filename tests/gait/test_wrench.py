"""Wrenches against closed forms: centres of pressure, sums, means, filters, and what is refused."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from kinesym.gait.wrench import Wrench, check_reaction

matplotlib.use("Agg")

TIME = np.linspace(0.0, 2.0, 201)
RNG = np.random.default_rng(3)
SEEDS = st.integers(0, 2**32 - 1)
MANY = settings(max_examples=40, deadline=None)


def random_wrench(rng, time=TIME):
    """Someone who presses on the ground with 300 to 1100 N."""
    force = rng.normal(0.0, 60.0, (3, len(time)))
    force[2] = rng.uniform(300.0, 1100.0, len(time))
    return Wrench(time, force, rng.normal(0.0, 200.0, (3, len(time))))


def wave(time, frequency):
    rows = np.sin(2.0 * np.pi * frequency * time + np.arange(6)[:, None])
    return Wrench(time, rows[:3], rows[3:])


# -- centre of pressure -----------------------------------------------------------------------


@MANY
@given(SEEDS, st.floats(-0.5, 0.5))
def test_there_is_no_horizontal_moment_at_the_centre_of_pressure(seed, height):
    wrench = random_wrench(np.random.default_rng(seed))
    centre = wrench.cop(height)
    about = wrench.about(centre)
    assert_allclose(centre[2], height)
    assert_allclose(about[:2], 0.0, atol=1e-9)
    assert_allclose(about[2], wrench.free_moment(height), rtol=1e-12)


@MANY
@given(SEEDS)
def test_from_the_centre_of_pressure_and_back(seed):
    rng = np.random.default_rng(seed)
    force = random_wrench(rng).force
    centre = np.vstack([rng.uniform(-2.0, 2.0, (2, len(TIME))), np.full(len(TIME), 0.02)])
    free = rng.normal(0.0, 5.0, len(TIME))
    wrench = Wrench.at_cop(TIME, force, centre, free)
    assert_allclose(wrench.cop(0.02), centre, atol=1e-12)
    assert_allclose(wrench.free_moment(0.02), free, atol=1e-10)
    # a moment of three rows that has only its vertical one
    rows = np.vstack([0.0 * free, 0.0 * free, free])
    assert_allclose(Wrench.at_cop(TIME, force, centre, rows).moment, wrench.moment)


def test_moment_about_a_point_is_that_of_a_lever():
    """1 N upwards at x = 1 turns about -y; at y = 1 about x."""
    up = np.array([[0.0, 0.0]] * 2 + [[1.0, 1.0]])
    wrench = Wrench(np.arange(2.0), up, np.cross([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], up.T).T)
    assert_allclose(wrench.moment.T, [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    assert_allclose(wrench.about([1.0, 0.0, 0.0])[:, 0], 0.0)
    assert_allclose(wrench.about(np.eye(3)[:, :2]), 0.0)


def test_turning_the_world_turns_the_centre_of_pressure():
    wrench = random_wrench(RNG)
    turn = Rotation.from_euler("z", 0.7).as_matrix()
    turned = Wrench(TIME, turn @ wrench.force, turn @ wrench.moment)
    assert_allclose(turned.cop(), turn @ wrench.cop(), atol=1e-12)
    assert_allclose(turned.free_moment(), wrench.free_moment(), atol=1e-10)


def test_no_centre_of_pressure_where_nothing_presses():
    force = np.zeros((3, 201))
    force[2, 50:100] = 700.0
    force[2, 40:50] = 19.0
    centre = np.full((3, 201), np.nan)
    centre[:, 50:100] = [[1.0], [0.2], [0.0]]
    wrench = Wrench.at_cop(TIME, force, centre)
    found = wrench.cop()
    assert np.isnan(found[:, :50]).all() and np.isnan(found[:, 100:]).all()
    assert np.isnan(wrench.free_moment()[:50]).all()
    assert_allclose(found[:, 50:100], centre[:, 50:100], atol=1e-12)
    # the little force before acts at the nearest centre: the moment does not jump by a lever
    assert_allclose(wrench.about([1.0, 0.2, 0.0]), 0.0, atol=1e-12)


def test_an_unloaded_plate_has_no_moment():
    wrench = Wrench.at_cop(TIME, np.full((3, 201), 0.5), np.full((3, 201), np.nan))
    assert_allclose(wrench.moment, 0.0)
    assert Wrench.zero(TIME).force.shape == (3, 201)


# -- algebra ----------------------------------------------------------------------------------


def test_sums_differences_and_shares():
    one, two = random_wrench(RNG), random_wrench(RNG)
    back = one + two - two
    assert_allclose(back.force, one.force, rtol=1e-12)
    assert_allclose(back.moment, one.moment, rtol=1e-12)
    part = RNG.uniform(size=len(TIME))
    whole = one.scaled(part) + one.scaled(1.0 - part)
    assert_allclose(whole.moment, one.moment, rtol=1e-12)
    assert_allclose(one.scaled(2.0).cop(), one.cop(), rtol=1e-12)


# -- resampling and smoothing -----------------------------------------------------------------


def test_finer_grids_get_straight_lines():
    wrench = random_wrench(RNG)
    fine = wrench.at(np.linspace(0.0, 2.0, 401))
    assert_allclose(fine.force[:, ::2], wrench.force, rtol=1e-12)
    assert_allclose(fine.moment[:, 1::2], 0.5 * (wrench.moment[:, 1:] + wrench.moment[:, :-1]))


def test_coarser_grids_keep_impulses_and_what_is_straight():
    wrench = random_wrench(RNG)
    coarse = np.linspace(0.0, 2.0, 21)
    means = wrench.at(coarse)
    inner = (TIME >= 0.05 - 1e-9) & (TIME <= 1.95 + 1e-9)  # the steps of all but the ends
    whole = np.trapezoid(wrench.force[:, inner], TIME[inner])
    assert_allclose(means.force[:, 1:-1].sum(axis=1) * 0.1, whole, rtol=1e-12)
    line = Wrench(TIME, np.outer([1.0, 2.0, 3.0], TIME), np.outer([4.0, 5.0, 6.0], TIME))
    assert_allclose(line.at(coarse).moment[:, 1:-1], np.outer([4.0, 5.0, 6.0], coarse)[:, 1:-1])


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.5])
def test_coarser_grids_damp_by_the_mean_over_a_step(ratio):
    """A sine of r times the new rate keeps sin(pi r)/(pi r): 0.98 at a tenth, 0.64 at half."""
    fine, coarse = np.linspace(0.0, 4.0, 24001), np.linspace(0.0, 4.0, 241)
    given = wave(fine, ratio * 60.0)
    gain = np.sinc(ratio)
    expected = gain * wave(coarse, ratio * 60.0).force[:, 5:-5]
    assert_allclose(given.at(coarse).force[:, 5:-5], expected, atol=1e-4)


def test_a_contact_spreads_by_half_a_step():
    fine = np.linspace(0.0, 1.0, 601)
    force = np.zeros((3, 601))
    force[2] = np.where((fine > 0.3) & (fine < 0.7), 700.0, 0.0)
    coarse = Wrench(fine, force, 0.0 * force).at(np.linspace(0.0, 1.0, 61))
    touched = coarse.time[coarse.force[2] > 0.0]
    assert touched[0] > 0.29 and touched[-1] < 0.71  # half a step and one of the plate
    assert coarse.force.min() == 0.0 and coarse.force.max() <= 700.0 + 1e-9


@pytest.mark.parametrize("frequency, gain", [(0.5, 0.9999), (6.0, np.sqrt(0.5)), (60.0, 1e-4)])
def test_the_low_pass_has_no_lag_and_its_gain(frequency, gain):
    time = np.linspace(0.0, 6.0, 3601)
    smooth = wave(time, frequency).smoothed(6.0)
    inner = slice(1200, -1200)
    assert_allclose(smooth.force[:, inner], gain * wave(time, frequency).force[:, inner], atol=2e-4)


def test_the_low_pass_keeps_constants_to_the_ends():
    constant = np.full((3, 201), 700.0)
    assert_allclose(Wrench(TIME, constant, constant).smoothed(10.0).force, 700.0, rtol=1e-9)


# -- what is refused --------------------------------------------------------------------------


def test_wrong_shapes_and_numbers_are_named():
    good = np.zeros((3, 201))
    with pytest.raises(ValueError, match=r"force must be \(3, 201\), rows x, y, z, got \(201, 3\)"):
        Wrench(TIME, good.T, good)
    bad = good.copy()
    bad[1, 7] = np.nan
    with pytest.raises(ValueError, match=r"moment: 1 values .* axis y at index 7 \(t = 0.07 s\)"):
        Wrench(TIME, good, bad)
    with pytest.raises(ValueError, match="time must increase"):
        Wrench(TIME[::-1], good, good)
    wrench = Wrench(TIME, good, good)
    with pytest.raises(ValueError, match=r"a point must be \(3,\)"):
        wrench.about([1.0, 2.0])
    with pytest.raises(ValueError, match="scaled by a number"):
        wrench.scaled([1.0, 2.0])
    with pytest.raises(ValueError, match=r"different times: 201 .* and 200 .*resamples"):
        wrench + Wrench(TIME[:-1], good[:, 1:], good[:, 1:])
    with pytest.raises(ValueError, match=r"known for 0 \.\.\. 2 s, but needed for 0 \.\.\. 3 s"):
        wrench.at(np.linspace(0.0, 3.0, 10))


def test_impossible_filters_are_refused():
    wrench = Wrench.zero(TIME)
    with pytest.raises(ValueError, match="cutoff must lie between"):
        wrench.smoothed(50.0)
    with pytest.raises(ValueError, match="needs uniform samples"):
        Wrench.zero(TIME**2).smoothed(5.0)


def test_loads_instead_of_reactions_are_refused():
    force = np.zeros((3, 201))
    force[2] = -712.0
    with pytest.raises(ValueError, match=r"the load, not the reaction \(mean Fz = -712 N\)"):
        Wrench.at_cop(TIME, force, np.zeros((3, 201)))
    check_reaction(Wrench(TIME, -0.01 * force, force))  # noise of an empty plate


def test_a_missing_centre_of_pressure_is_named():
    force = np.full((3, 201), 300.0)
    centre = np.zeros((3, 201))
    centre[:, 20:23] = np.nan
    with pytest.raises(ValueError, match=r"missing at 0.2 s and 2 other .* 300 N"):
        Wrench.at_cop(TIME, force, centre)


def test_a_picture():
    import matplotlib.pyplot as plt

    figure = random_wrench(RNG).plot()
    assert len(figure.axes) == 6
    plt.close(figure)
