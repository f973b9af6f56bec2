"""Feet on a deck: centres of pressure, loads, and interruptions at known times."""

import numpy as np
import pytest

import kinesym as ks

FEET = ks.Support(front=0.2, back=0.1, left=0.25, right=0.15, friction=0.5)
TIME = np.arange(0.0, 10.0, 0.1)


def reaction(x=0.0, y=0.0, sideways=0.0, weight=800.0):
    """Force and moment about the origin of a load at (x, y, 0), over TIME."""
    force = np.array(np.broadcast_arrays(0.0 * TIME, sideways, weight)[:3], dtype=float)
    arm = np.array(np.broadcast_arrays(x, y, 0.0 * TIME), dtype=float)
    return force, np.cross(arm, force, axis=0)


def during(*spans, size=1.0):
    """`size` from begin to end, both included, of each span [s]; 0 else."""
    row = np.zeros(len(TIME))
    for begin, end in spans:
        row[round(10 * begin) : round(10 * end) + 1] = size
    return row


# -- centre of pressure and loads -----------------------------------------------------------------


def test_center_of_pressure():
    """Moments of forces in the plane of the deck do not move it, nor do moments about z."""
    x, y = np.sin(TIME), np.cos(2.0 * TIME)
    force, moment = reaction(x, y, 50.0 * np.cos(TIME), 700.0 + 100.0 * np.sin(TIME))
    moment[2] += 30.0
    np.testing.assert_allclose(ks.center_of_pressure(force, moment), [x, y], atol=1e-14)


def test_center_of_pressure_of_several_forces():
    """The mean of their positions by normal force."""
    positions = np.array([[0.1, 0.2, 0.0], [-0.05, 0.1, 0.0], [0.3, -0.4, 0.0]])
    forces = np.array([[10.0, 5.0, 300.0], [-20.0, 8.0, 500.0], [3.0, 4.0, 100.0]])
    moment = np.cross(positions, forces).sum(axis=0)
    found = ks.center_of_pressure(forces.sum(axis=0)[:, None], moment[:, None])
    np.testing.assert_allclose(found[:, 0], forces[:, 2] @ positions[:, :2] / 900.0, rtol=1e-14)


def test_nothing_presses():
    """No centre where the deck would have to pull; the load is without bound."""
    weight = np.where(TIME < 5.0, 800.0, np.where(TIME < 7.0, 0.0, -10.0))
    force, moment = reaction(0.1, 0.1, 0.0, weight)
    found = ks.center_of_pressure(force, moment)
    assert np.isfinite(found[:, TIME < 5.0]).all() and np.isnan(found[:, TIME >= 5.0]).all()
    for load in ks.support_loads(force, moment, FEET).values():
        assert np.isfinite(load[TIME < 5.0]).all() and (load[TIME >= 5.0] == np.inf).all()


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0.1, 0.0, 0.5),
        (-0.05, 0.0, 0.5),
        (0.0, 0.05, 0.2),
        (0.0, -0.15, 1.0),
        (0.1, 0.2, 0.8),
        (0.0, 0.0, 0.0),
        (-0.2, -0.2, 2.0),
    ],
)
def test_tipping(x, y, expected):
    """The nearest edge counts, each by its own distance."""
    loads = ks.support_loads(*reaction(x, y), FEET)
    assert set(loads) == {"sliding", "tipping"}
    np.testing.assert_allclose(loads["tipping"], expected, atol=1e-14)


def test_sliding():
    """Horizontal over normal force, whatever its direction, by the coefficient of friction."""
    force = np.array([[300.0, 0.0, -120.0], [0.0, -400.0, 160.0], [800.0, 800.0, 400.0]])
    loads = ks.support_loads(force, 0.0 * force, FEET)
    np.testing.assert_allclose(loads["sliding"], [0.75, 1.0, 1.0], rtol=1e-14)
    assert not ks.interruptions([0.0, 1.0, 2.0], force, 0.0 * force, FEET)  # borne to the limit


# -- interruptions --------------------------------------------------------------------------------


def seen(events):
    return [(e.kind, round(e.begin, 9), round(e.end, 9)) for e in events]


def test_interruptions_in_order():
    """Two slides and two tips at known samples, with the worst of each."""
    sideways = during((1.0, 1.5), size=500.0) + during((4.0, 4.2), size=640.0)
    force, moment = reaction(during((2.0, 2.0), (4.1, 6.0), size=0.3), 0.0, sideways)
    found = ks.interruptions(TIME, force, moment, FEET)
    assert seen(found) == [
        ("sliding", 1.0, 1.5),
        ("tipping", 2.0, 2.0),
        ("sliding", 4.0, 4.2),
        ("tipping", 4.1, 6.0),
    ]
    worst = [e.worst for e in found]
    np.testing.assert_allclose(worst, [1.25, 1.5, 1.6, 1.5], rtol=1e-12)


def test_no_interruption():
    assert ks.interruptions(TIME, *reaction(0.05, 0.05, 100.0), FEET) == []


def test_the_worst_is_of_its_own_event():
    sideways = during((1.0, 1.0), size=600.0) + during((1.1, 1.2), size=800.0)
    sideways += during((5.0, 5.0), size=480.0)
    found = ks.interruptions(TIME, *reaction(sideways=sideways), FEET)
    np.testing.assert_allclose([e.worst for e in found], [2.0, 1.2], rtol=1e-12)


def test_events_at_the_ends_of_the_record():
    """They begin with the first sample and end with the last."""
    sideways = during((0.0, 0.3), (9.5, 9.9), size=500.0)
    found = ks.interruptions(TIME, *reaction(sideways=sideways), FEET)
    assert seen(found) == [("sliding", 0.0, 0.3), ("sliding", 9.5, 9.9)]
    (event,) = ks.interruptions(TIME, *reaction(sideways=500.0 + 0.0 * TIME), FEET)
    assert (event.begin, event.end) == (0.0, TIME[-1])


@pytest.mark.parametrize(("gap", "count"), [(0.0, 3), (0.15, 3), (0.35, 2), (1.0, 2), (3.5, 1)])
def test_close_events_are_one(gap, count):
    """0.3 s and 3 s between three slides."""
    sideways = during((1.0, 1.5), (1.8, 2.0), (5.0, 6.0), size=500.0)
    found = ks.interruptions(TIME, *reaction(sideways=sideways), FEET, gap=gap)
    assert len(found) == count
    assert found[0].begin == 1.0 and found[-1].end == pytest.approx(6.0)


def test_a_gap_joins_one_kind_only():
    """A tip between two slides stays an event of its own."""
    sideways = during((1.0, 1.1), (1.3, 1.4), size=500.0)
    force, moment = reaction(during((1.2, 1.2), size=0.3), 0.0, sideways)
    found = ks.interruptions(TIME, force, moment, FEET, gap=0.5)
    assert seen(found) == [("sliding", 1.0, 1.4), ("tipping", 1.2, 1.2)]


def test_lift_off_interrupts_in_both_ways():
    found = ks.interruptions(TIME, *reaction(weight=800.0 - during((3.0, 4.0), size=900.0)), FEET)
    assert seen(found) == [("sliding", 3.0, 4.0), ("tipping", 3.0, 4.0)]
    assert all(e.worst == np.inf for e in found)


def test_uneven_samples():
    """Times are those of the samples, and gaps are measured in time."""
    time = np.array([0.0, 1.0, 1.5, 4.0, 4.5, 9.0])
    force = np.array([[0.0, 500.0, 0.0, 500.0, 500.0, 0.0], [0.0] * 6, [800.0] * 6])
    found = ks.interruptions(time, force, 0.0 * force, FEET)
    assert seen(found) == [("sliding", 1.0, 1.0), ("sliding", 4.0, 4.5)]
    assert len(ks.interruptions(time, force, 0.0 * force, FEET, gap=3.5)) == 1
    assert len(ks.interruptions(time, force, 0.0 * force, FEET, gap=2.5)) == 2


def test_lists_are_as_good_as_arrays():
    force, moment = [[500.0, 0.0], [0.0, 0.0], [800.0, 800.0]], [[0.0, 0.0]] * 3
    (event,) = ks.interruptions([0.0, 1.0], force, moment, FEET)
    assert event == ks.Interruption("sliding", 0.0, 0.0, 1.25)


# -- what is said of bad ones ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["front", "back", "left", "right", "friction"])
@pytest.mark.parametrize("value", [0.0, -0.1, float("nan")])
def test_bad_supports(name, value):
    sizes = {"front": 0.2, "back": 0.1, "left": 0.1, "right": 0.1, "friction": 0.5}
    with pytest.raises(ValueError, match=f"{name} of a support must be positive, got {value}"):
        ks.Support(**{**sizes, name: value})


FORCE = np.array([[0.0, 0.0], [0.0, 0.0], [800.0, 800.0]])
BAD = np.array([[0.0, 0.0], [0.0, np.nan], [800.0, np.inf]])


@pytest.mark.parametrize(
    ("time", "force", "moment", "words"),
    [
        (
            [0.0, 1.0, 2.0],
            FORCE,
            FORCE,
            r"time has shape \(3,\), force \(3, 2\), expected \(3, N\)",
        ),
        ([0.0], FORCE, FORCE, "time needs at least 2 instants"),
        ([0.0, 1.0], FORCE.T[:, :2], FORCE, r"force and moment must be \(3, N\), got \(2, 2\) and"),
        ([0.0, 1.0], FORCE, FORCE[:, :1], r"must be \(3, N\), got \(3, 2\) and \(3, 1\)"),
        ([0.0, 1.0], BAD, FORCE, "the force is not finite, first at sample 1"),
        ([0.0, 1.0], FORCE, BAD, "the moment is not finite, first at sample 1"),
        ([0.0, float("nan")], FORCE, FORCE, "time"),
        ([1.0, 0.0], FORCE, FORCE, "time"),
    ],
)
def test_bad_reactions(time, force, moment, words):
    with pytest.raises(ValueError, match=words):
        ks.interruptions(time, force, moment, FEET)


def test_bad_wrenches():
    with pytest.raises(ValueError, match=r"must be \(3, N\), got \(3,\) and \(3,\)"):
        ks.center_of_pressure([0.0, 0.0, 1.0], [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="the moment is not finite, first at sample 1"):
        ks.support_loads(FORCE, BAD, FEET)


@pytest.mark.parametrize("gap", [-0.1, float("nan")])
def test_bad_gaps(gap):
    with pytest.raises(ValueError, match="gap"):
        ks.interruptions([0.0, 1.0], FORCE, 0.0 * FORCE, FEET, gap=gap)


def test_first_of_several_that_are_not_finite():
    """By time, not by axis."""
    force = np.array([[0.0, 0.0, np.nan], [np.nan, 0.0, 0.0], [1.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match="the force is not finite, first at sample 0"):
        ks.center_of_pressure(force, 0.0 * FORCE[:, [0, 0, 0]])
